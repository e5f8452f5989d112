//! What watches a cell on a kernel while it runs: latency probes, messages, CPUs, the machine itself, and how late
//! its threads were. Nothing here makes the load or judges it. `cell` starts and stops these; what they saw goes into
//! the raw files.

pub mod cpu;
pub mod hiccup;
pub mod host;
pub mod lateness;
pub mod machine;
pub mod messages;
pub mod packets;
pub mod probe;
