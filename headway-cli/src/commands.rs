//! What each subcommand does with its arguments.

pub mod emu;
