//! The tests through noq 1.x.

pub use headway_cc::quic::sim::noq::{net, stack};

#[path = "faults.rs"]
mod faults;
#[path = "rows.rs"]
mod rows;
