//! What each subcommand does with its arguments.

pub mod check_switching;
pub mod emu;
