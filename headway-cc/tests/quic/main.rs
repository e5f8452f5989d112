//! The adapters on real connections: two endpoints over `link` in virtual time.

// `faults`, `net` and `rows` are one source for two stacks whose types have the same names.
#![allow(clippy::duplicate_mod)]

mod noq;
mod noq_rows;
mod peers;
mod quinn;
mod trace;
