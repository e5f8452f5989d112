//! The loads of a cell on a kernel: that of the streams under test and, beside it, that of their rival.

use anyhow::Result;
use std::panic::resume_unwind;
use std::time::Duration;

/// A load may run this much longer than the plan says before it is given up.
pub const GRACE: Duration = Duration::from_secs(20);

/// What each load printed, or why it failed. A failure is told only after the watch has stopped and the path is down.
#[derive(Debug)]
pub struct Loads {
    pub ours: Result<String>,
    /// `None` where nobody competes.
    pub rival: Option<Result<String>>,
}

impl Loads {
    /// Runs the load under test in this thread and the rival's in one of its own, both to their ends.
    pub fn run(
        ours: impl FnOnce() -> Result<String>,
        rival: Option<impl FnOnce() -> Result<String> + Send>,
    ) -> Self {
        std::thread::scope(|s| {
            let rival = rival.map(|load| s.spawn(load));
            let ours = ours();
            Self { ours, rival: rival.map(|t| t.join().unwrap_or_else(|panic| resume_unwind(panic))) }
        })
    }
}
