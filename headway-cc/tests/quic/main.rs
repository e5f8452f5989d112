//! The adapters on real connections: two endpoints over `link` in virtual time.

mod noq;
mod noq_rows;
mod peers;
mod quinn;
mod trace;
