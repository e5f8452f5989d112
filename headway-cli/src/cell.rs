//! One cell of a run, by where its packets move: the simulator, the running kernel behind the emulator, a real path.

pub mod here;
mod loads;
pub mod remote;
pub mod sender;
pub mod sim;
mod watch;
