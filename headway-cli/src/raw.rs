//! The raw folder: what a run leaves behind, and the only thing that measuring and judging share.
//!
//! One file here for each format, with its writer beside its reader, so that a column cannot be written in one way
//! and read in another. Layout and columns are described in `docs/architecture.md`. Nothing here measures or judges:
//! `cell` writes these files, `metric` reads them.

pub mod about;
pub mod acks;
pub mod cell;
pub mod cpu;
pub mod folder;
pub mod host;
pub mod link;
pub mod load;
pub mod messages;
pub mod packets;
pub mod ping;
pub mod probe;
pub mod requests;
pub mod table;
