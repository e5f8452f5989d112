//! One cell of a run, by where its packets move: `sim` in the simulator, `here` on the running kernel behind the
//! emulator (also inside the lab's guest), `remote` over a real path. A cell on a kernel is always the same steps:
//! ground up, watch, loads, watch stopped, ground down. Each writes the raw files and says in `cell.json` whether
//! they count; `bench` and the lab's guest call it.

pub mod here;
mod loads;
pub mod remote;
pub mod sender;
pub mod settings;
pub mod sim;
mod watch;
pub mod wire;
