//! What a trial says on standard error while it runs: on a terminal one line that updates itself, elsewhere, such as in a
//! log, a line for each slot, and with `--quiet` nothing.

use crate::sys::{interrupt, out};
use crate::trial::foretell;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

pub enum Progress {
    Quiet,
    Lines,
    /// The guard takes the line off the terminal, also when the program is interrupted.
    Bar(ProgressBar, #[allow(dead_code, reason = "it acts when it is dropped")] interrupt::Guard),
}

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
        if is_quiet {
            return Self::Quiet;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Lines;
        }
        let bar = ProgressBar::with_draw_target(Some(u64::from(slots)), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("slot {pos}/{len} [{bar:20}] {wide_msg}");
        bar.set_style(style.expect("the template is one of indicatif's").progress_chars("=> "));
        let to_clear = bar.clone();
        Self::Bar(bar, interrupt::guard(move || to_clear.finish_and_clear()))
    }

    pub fn slot_begins(&self, state: State<'_>) {
        if let Self::Lines = self {
            let (slot, all) = (state.slot + 1, state.slots);
            out::note(format_args!("[{slot}/{all}] {} ({} left)", state.what, length(state.left)));
        }
        self.show(state);
    }

    pub fn show(&self, state: State<'_>) {
        if let Self::Bar(bar, _) = self {
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
        if let Self::Bar(bar, _) = self {
            bar.finish_and_clear();
        }
    }
}

/// In whole seconds: what is left of a trial matters no finer.
fn length(left: Duration) -> String {
    foretell::length(left.as_secs() * 1000)
}
