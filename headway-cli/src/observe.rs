//! What watches a cell while it runs: latency probes, messages, CPUs, the machine itself, and when it stood still.

pub mod cpu;
pub mod hiccup;
pub mod lateness;
pub mod machine;
pub mod messages;
pub mod probe;
