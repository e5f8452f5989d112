//! What `bench` says on standard error while it runs.

use crate::plan::{Cell, Plan};
use crate::sys::out;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Prints one line per cell on stderr, with the estimated time left.
pub struct Progress {
    start: Instant,
    total: usize,
    done: AtomicUsize,
    failed: AtomicUsize,
}

impl Progress {
    pub fn new(plan: &Plan, total: usize) -> Self {
        let paths = match plan.suite.as_str() {
            "" => plan.paths.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", "),
            suite => format!("suite {suite} ({} paths)", plan.paths.len()),
        };
        out::note(format_args!(
            "{total} cells to run: {} × {paths} × {} blocks, in {}",
            plan.labels().collect::<Vec<_>>().join(", "),
            plan.blocks,
            plan.place
        ));
        Self { start: Instant::now(), total, done: AtomicUsize::new(0), failed: AtomicUsize::new(0) }
    }

    pub fn done(&self, plan: &Plan, cell: &Cell, status: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if status != "ok" {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        let left = self.start.elapsed().mul_f64((self.total - done) as f64 / done as f64);
        let left = left.as_secs();
        let path = &plan.paths[cell.path].name;
        out::note(format_args!(
            "[{done}/{}] block {} {path}: {} {status} ({left} s left)",
            self.total,
            cell.block + 1,
            cell.cc
        ));
    }

    /// Prints how long the cells of this start took, in wall time.
    pub fn end(&self, jobs: usize) {
        let (seconds, side_by_side) = (self.start.elapsed().as_secs_f64(), jobs.min(self.total));
        out::note(format_args!("{} cells took {seconds:.1} s, {side_by_side} side by side", self.total));
    }

    /// How many of the cells did not end well.
    pub fn failed(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }
}
