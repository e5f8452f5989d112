//! The tests through quinn 0.11.

pub use headway_cc::quic::sim::quinn::{net, stack};

#[path = "faults.rs"]
mod faults;
#[path = "rows.rs"]
mod rows;
