//! What makes the data of a cell: iperf3, iperf 2, streams of this process, or a QUIC stack.

pub mod iperf;
mod iperf2;
pub mod quic;
pub mod streams;
