//! Watching: the flows of our controllers as they are now, in all network namespaces.
//!
//! `look.rs` asks the kernel, `groups.rs` names the cgroups and `filter.rs` chooses; `screen.rs` makes a table of a look and
//! `follow.rs` a chart of one flow; `meter.rs` adds looks up for a monitoring system, and `serve.rs` hands that out.

pub mod filter;
pub mod follow;
pub mod groups;
pub mod look;
pub mod meter;
pub mod screen;
pub mod serve;
pub mod units;
