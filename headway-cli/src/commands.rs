//! The subcommands: one file each, or one for a family. A file holds the arguments as clap reads them, with the help
//! text, and a function that does what was asked and returns the exit code. What takes more than a few lines is done
//! in the rooms below.

pub mod apply;
pub mod bench;
mod check_switching;
pub mod compare;
pub mod doctor;
pub mod emu;
pub mod enable;
pub mod exchange;
pub mod help;
pub mod hidden;
pub mod kernel;
pub mod list;
pub mod load;
pub mod merge;
pub mod metrics;
pub mod package;
pub mod plan;
pub mod reference;
pub mod replay;
pub mod report;
pub mod sim;
pub mod status;
pub mod trial;
pub mod watch;
