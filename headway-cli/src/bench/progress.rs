//! What `bench` says on standard error while it runs: on a terminal one line that updates itself, elsewhere, such as in
//! a log, a line for each cell, and with `--quiet` nothing.

use crate::plan::{Cell, Plan};
use crate::sys::out;
use crate::sys::voice::{Voice, style};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How far a run is.
pub struct Progress {
    start: Instant,
    total: usize,
    done: AtomicUsize,
    failed: AtomicUsize,
    /// What runs now, the oldest first.
    running: Mutex<Vec<String>>,
    voice: Voice,
}

impl Progress {
    pub fn new(plan: &Plan, total: usize, is_quiet: bool) -> Self {
        let voice = Voice::new(total as u64, is_quiet, "{pos}/{len} [{bar:20}]  {wide_msg}");
        if let Voice::Bar { bar, .. } = &voice {
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        let progress = Self {
            start: Instant::now(),
            total,
            done: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            running: Mutex::default(),
            voice,
        };
        let paths = match plan.suite.as_str() {
            "" => plan.paths.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", "),
            suite => format!("suite {suite} ({} paths)", plan.paths.len()),
        };
        let labels = plan.candidates_in_words().join(", ");
        progress.say(&format!(
            "{total} cells to run: {labels} × {paths} × {} blocks, in {}",
            plan.blocks, plan.place
        ));
        progress
    }

    /// A line that stays, unless nothing is to be said.
    fn say(&self, line: &str) {
        match &self.voice {
            Voice::Quiet => (),
            Voice::Lines => out::note(line),
            Voice::Bar { bar, .. } => bar.suspend(|| out::note(line)),
        }
    }

    /// A line that stays, in any case: something went wrong.
    pub fn warn(&self, line: &str) {
        match &self.voice {
            Voice::Bar { bar, .. } => bar.suspend(|| out::note(line)),
            Voice::Quiet | Voice::Lines => out::note(line),
        }
    }

    pub fn begins(&self, plan: &Plan, cell: &Cell) {
        let mut running = self.running.lock().unwrap_or_else(|e| e.into_inner());
        running.push(name(plan, cell));
        self.show(&running);
    }

    pub fn done(&self, plan: &Plan, cell: &Cell, status: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let is_ok = status == "ok";
        if !is_ok {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        let left = self.start.elapsed().mul_f64((self.total - done) as f64 / done as f64).as_secs();
        if let (1, Voice::Bar { bar, .. }) = (done, &self.voice) {
            // Before the first cell has ended nobody knows how long one takes.
            bar.set_style(style("{pos}/{len} [{bar:20}] {eta} left  {wide_msg}"));
        }
        let line = format!("[{done}/{}] {} {status} ({left} s left)", self.total, name(plan, cell));
        match &self.voice {
            Voice::Quiet if is_ok => (),
            Voice::Bar { bar, .. } if is_ok => bar.inc(1),
            Voice::Bar { bar, .. } => {
                bar.inc(1);
                self.warn(&line);
            }
            Voice::Lines | Voice::Quiet => out::note(line),
        }
        let mut running = self.running.lock().unwrap_or_else(|e| e.into_inner());
        running.retain(|other| *other != name(plan, cell));
        self.show(&running);
    }

    /// Says how long the cells of this start took, in wall time.
    pub fn end(&self, jobs: usize) {
        let (seconds, side_by_side) = (self.start.elapsed().as_secs_f64(), jobs.min(self.total));
        if let Voice::Bar { bar, .. } = &self.voice {
            bar.finish_and_clear();
        }
        self.say(&format!("{} cells took {seconds:.1} s, {side_by_side} side by side", self.total));
    }

    /// How many of the cells did not end well.
    pub fn failed(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }

    fn show(&self, running: &[String]) {
        if let Voice::Bar { bar, .. } = &self.voice {
            let others =
                if running.len() > 1 { format!(" and {} more", running.len() - 1) } else { "".into() };
            bar.set_message(running.first().map(|first| first.clone() + &others).unwrap_or_default());
        }
    }
}

fn name(plan: &Plan, cell: &Cell) -> String {
    format!("block {} {}: {}", cell.block + 1, plan.paths[cell.path].name, cell.cc)
}
