//! `headway trial status`: how a trial goes, or how it ended.

use super::findings::Findings;
use super::folder::{self, Trial};
use super::{foretell, text};
use anyhow::Result;
use std::path::Path;

/// A sentence about its progress, and what it says so far. Writes nothing.
///
/// # Errors
/// The folder holds no trial.
pub fn of(dir: &Path, width: Option<usize>) -> Result<String> {
    let trial = folder::read(dir)?;
    let said = text::of(&trial, &Findings::of(&trial), width.unwrap_or(usize::MAX));
    Ok(progress(dir, &trial, folder::is_running(dir)) + said.trim_end_matches('\n') + "\n")
}

/// What the report does not say: whether it runs, and how to go on with it.
fn progress(dir: &Path, trial: &Trial, is_running: bool) -> String {
    let (over, all) = (trial.next_slot(), trial.setup.schedule().len() as u32);
    let left = foretell::length(u64::from(all - over.min(all)) * trial.setup.slot_ms);
    let dir = dir.display();
    match (&trial.ended, is_running) {
        (Some(_), _) => String::new(),
        (None, true) => format!("{dir} runs: {over} of {all} slots are over, {left} to go.\n"),
        (None, false) => format!(
            "{dir} does not run: it was killed or could not write after {over} of {all} slots. To go on: headway trial --resume {dir}\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::setup::sample;
    use super::*;

    #[test]
    fn a_killed_trial_is_told_from_one_that_runs() {
        let trial =
            Trial { setup: sample(), connections: vec![], slots: vec![], ended: None, damage: vec![] };
        let said = |is_running| progress(Path::new("t"), &trial, is_running);
        assert_eq!(said(true), "t runs: 0 of 40 slots are over, 40 min to go.\n");
        assert!(said(false).ends_with("headway trial --resume t\n"));
    }
}
