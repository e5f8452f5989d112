//! What a trial says on standard error while it runs: on a terminal one line that updates itself, elsewhere, such as in a
//! log, a line for each slot, and with `--quiet` nothing.

use crate::sys::{interrupt, out};
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
            out::note(format_args!("[{slot}/{all}] {} ({} left)", state.what, time(state.left)));
        }
        self.show(state);
    }

    pub fn show(&self, state: State<'_>) {
        if let Self::Bar(bar, _) = self {
            bar.set_position(u64::from(state.slot) + 1);
            bar.set_message(format!("{} left  {}  {} connections", time(state.left), state.what, state.enrolled));
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

/// `1h 5m`, `12m` or `45s`: no finer than it matters.
pub fn time(time: Duration) -> String {
    match time.as_secs() {
        s if s >= 3600 => format!("{}h {}m", s / 3600, s % 3600 / 60),
        s if s >= 120 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let texts = [0, 45, 119, 120, 3599, 3600, 90_000].map(|s| time(Duration::from_secs(s)));
        assert_eq!(texts, ["0s", "45s", "119s", "2m", "59m", "1h 0m", "25h 0m"]);
    }
}
