//! Congestion controllers as pure functions of one event, with a link model and a simulator around them.

#![forbid(unsafe_code)]

pub mod cc;
pub mod link;
pub mod path;
pub mod rand;
pub mod sampler;
pub mod sim;
