//! What a trial says on standard error while it runs: on a terminal one line that updates itself, elsewhere, such as in a
//! log, a line for each slot, and with `--quiet` nothing.

use crate::sys::out;
use crate::sys::voice::Voice;
use crate::trial::foretell;
use std::time::Duration;

pub struct Progress(Voice);

/// How far a trial is.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    pub slot: u32,
    pub slots: u32,
    /// What the connections of this slot get.
    pub what: &'a str,
    /// Of the whole trial.
    pub left: Duration,
    pub enrolled: u64,
}

impl Progress {
    pub fn new(slots: u32, is_quiet: bool) -> Self {
        Self(Voice::new(slots.into(), is_quiet, "slot {pos}/{len} [{bar:20}] {wide_msg}"))
    }

    pub fn slot_begins(&self, state: State<'_>) {
        if let Voice::Lines = self.0 {
            let (slot, all) = (state.slot + 1, state.slots);
            out::note(format_args!("[{slot}/{all}] {} ({} left)", state.what, length(state.left)));
        }
        self.show(state);
    }

    pub fn show(&self, state: State<'_>) {
        if let Voice::Bar { bar, .. } = &self.0 {
            bar.set_position(u64::from(state.slot) + 1);
            bar.set_message(format!(
                "{} left  {}  {} connections",
                length(state.left),
                state.what,
                state.enrolled
            ));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Voice::Bar { bar, .. } = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// In whole seconds: what is left of a trial matters no finer.
fn length(left: Duration) -> String {
    foretell::length(left.as_secs() * 1000)
}
