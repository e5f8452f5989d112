//! What makes the data of a cell on a kernel: iperf3, iperf 2, TCP streams of this process, a QUIC stack, or
//! on a wire requests and floods. Each
//! makes one load from one end of a path to the other and returns the text of `load.json`. Whether a load counts is
//! for `cell` to judge.

pub mod flood;
pub mod iperf;
mod iperf2;
pub mod quic;
pub mod requests;
pub mod streams;
