//! Controllers for good: what an administrator has enabled, and keeping the machine like that.
//!
//! `enabled.rs` and `scope.rs` are what is wanted, `machine.rs` is what there is, `apply.rs` makes the second follow the
//! first. There is no daemon: the kernel holds what is in force, and systemd runs `headway apply` at boot.

pub mod apply;
pub mod boot;
pub mod change;
pub mod confirm;
pub mod default;
pub mod disk;
pub mod enabled;
pub mod machine;
pub mod need;
pub mod others;
pub mod scope;
pub mod state;
pub mod unit;
