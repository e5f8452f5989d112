//! Changing what is enabled and what is in force together.
//!
//! A change is made by a second process of this program, in a session of its own, while the first only waits for it. So
//! a broken connection to the server, Ctrl-C or a `kill -9` of the command that was typed does not leave half a change:
//! the second process finishes it. What a kill of both leaves, the next `headway apply` finishes, and
//! `headway status` says so.

use super::apply::{self, Outcome};
use super::confirm;
use super::enabled::{self, Enabled, FOLDER};
use crate::error::sentence;
use crate::sys::out;
use anyhow::{Context, Result, bail};
use rustix::process::setsid;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Set in the second process.
const SECOND: &str = "HEADWAY_SECOND_PROCESS";

/// In the first process: runs this command line in the second one and returns its exit code. In the second: `None`.
pub fn in_second_process() -> Result<Option<ExitCode>> {
    if std::env::var_os(SECOND).is_some() {
        return Ok(None);
    }
    let mut command = Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1)).env(SECOND, "1").stdin(Stdio::null());
    // SAFETY: between fork and exec this makes one system call and allocates nothing.
    unsafe { command.pre_exec(|| Ok(setsid().map(drop)?)) };
    let status = command.status().context("cannot start the process that makes the change")?;
    Ok(Some(ExitCode::from(status.code().map_or(1, |code| code as u8))))
}

/// What to do to the files.
#[derive(Debug)]
pub enum Change {
    /// Enable this, or change it.
    Put(Enabled),
    /// Disable this.
    Remove(String),
}

impl Change {
    fn name(&self) -> &str {
        match self {
            Change::Put(enabled) => &enabled.name,
            Change::Remove(name) => name,
        }
    }
}

/// Changes the files and puts them in force. Where a controller that is to be changed cannot be put in force, all is as
/// it was before, and the error says why. `confirm_within` seconds: it goes back to that unless `headway confirm` is run.
pub fn make(changes: &[Change], confirm_within: Option<u64>) -> Result<Outcome> {
    let folder = Path::new(FOLDER);
    let had_pending = confirm::pending().is_some();
    if let Some(seconds) = confirm_within {
        confirm::begin(folder, seconds)?;
    }
    let mut undo = Vec::new();
    let outcome = carry_out(folder, changes, &mut undo);
    let failed = match &outcome {
        Err(e) => Some(sentence(e)),
        Ok(outcome) => {
            let ours = |(name, _): &&(String, anyhow::Error)| changes.iter().any(|c| c.name() == name);
            outcome.failed.iter().find(ours).map(|(_, e)| sentence(e))
        }
    };
    let Some(why) = failed else {
        undo.into_iter().for_each(enabled::Undo::forget);
        enabled::tidy(folder);
        return outcome;
    };
    undo.into_iter().rev().for_each(enabled::Undo::restore);
    if confirm_within.is_some() && !had_pending {
        confirm::forget()?;
    }
    // What was begun in the kernel goes back, too. If that fails as well, the first reason is the one to tell.
    let _ = enabled::read(folder).and_then(|all| apply::apply(&all));
    let (what, hint) = why.split_once("\nhint: ").map_or((why.as_str(), None), |(w, h)| (w, Some(h)));
    let hint = hint.map_or(String::new(), |h| format!("\nhint: {h}"));
    bail!("{what}; nothing was changed{hint}")
}

fn carry_out(folder: &Path, changes: &[Change], undo: &mut Vec<enabled::Undo>) -> Result<Outcome> {
    for change in changes {
        undo.push(enabled::Undo::of(folder, change.name())?);
        match change {
            Change::Put(enabled) => enabled::write(folder, enabled)?,
            Change::Remove(name) => enabled::remove(folder, name)?,
        }
    }
    let all = enabled::read(folder)?;
    all.check()?;
    apply::apply(&all)
}

/// Prints what was done, and on standard error what could not be.
pub fn tell(outcome: &Outcome) -> Result<()> {
    for done in &outcome.done {
        out::say(done)?;
    }
    for (_, failed) in &outcome.failed {
        out::note(format_args!("warning: {}", sentence(failed)));
    }
    Ok(())
}
