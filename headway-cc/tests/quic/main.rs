//! The adapters on real connections: two endpoints over `link` in virtual time.

// The same text compiled against each stack: their types have the same names and are different types.
#![allow(clippy::duplicate_mod)]

mod noq;
mod noq_rows;
mod peers;
mod qlog;
mod quinn;
mod trace;
