//! A change that goes back by itself unless somebody confirms it: for a server that is reached over the network that
//! the change is about.
//!
//! The files as they were are kept until the change is confirmed. They come back when the time is over, by a timer of
//! systemd's or, without systemd, by a process that waits; and at the next boot, because whoever cannot reach a server
//! switches it off and on.

use super::enabled;
use super::{apply, disk, unit};
use crate::operate::apply::Outcome;
use crate::sys::clock;
use anyhow::{Context, Result, ensure};
use rustix::process::setsid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the files are kept.
const KEPT: &str = "/var/lib/headway/before";

/// What is known of the change.
const NOTE: &str = "unconfirmed.json";

/// A change that is not confirmed yet.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pending {
    /// Tells it from a later one, whose timer this one's must not be.
    token: u64,
    /// When it goes back, in seconds since the machine booted, suspended time included.
    until: u64,
}

impl Pending {
    pub fn seconds_left(&self) -> u64 {
        self.until.saturating_sub(clock::since_boot().as_secs())
    }
}

/// Keeps the files as they are and starts the clock. Where an earlier change is not confirmed, what was before that one
/// is kept.
pub fn begin(folder: &Path, seconds: u64) -> Result<()> {
    let kept = Path::new(KEPT);
    if !kept.is_dir() {
        let new = PathBuf::from(format!("{KEPT}.tmp"));
        let copied = copy_files(folder, &new)
            .and_then(|()| fs::rename(&new, kept).map_err(|e| disk::cannot(e, "make", kept)));
        copied.inspect_err(|_| drop(fs::remove_dir_all(&new)))?;
    }
    let now = clock::since_boot();
    let pending = Pending { token: now.as_nanos() as u64, until: now.as_secs() + seconds };
    disk::write(&kept.join(NOTE), &serde_json::to_string(&pending)?)?;
    start_timer(pending.token, seconds)
}

/// Copies the files of what is enabled into a new folder.
fn copy_files(folder: &Path, new: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(new);
    fs::create_dir_all(new).map_err(|e| disk::cannot(e, "make", new))?;
    for file in toml_files(folder) {
        let copy = new.join(file.file_name().unwrap_or_default());
        fs::copy(&file, &copy).map_err(|e| disk::cannot(e, "write", &copy))?;
    }
    Ok(())
}

/// The change that is not confirmed yet, if there is one.
pub fn pending() -> Option<Pending> {
    let text = disk::read(&Path::new(KEPT).join(NOTE)).ok()??;
    serde_json::from_str(&text).ok()
}

/// The change stays.
pub fn confirm() -> Result<()> {
    ensure!(
        Path::new(KEPT).is_dir(),
        "there is nothing to confirm\nhint: `headway status` shows what is in force"
    );
    forget()
}

/// The name of the timer's unit, without its kind.
fn timer_of(token: u64) -> String {
    format!("headway-revert-{token}")
}

/// Forgets what was before, and the timer. A process that waits in the timer's place will find nothing to do.
pub fn forget() -> Result<()> {
    if let Some(pending) = pending().filter(|_| unit::is_here()) {
        // It fails for the timer that has just run out, and that is gone.
        let _ = unit::systemctl(&["stop", &format!("{}.timer", timer_of(pending.token))]);
    }
    fs::remove_dir_all(KEPT).with_context(|| format!("cannot remove {KEPT}"))
}

/// Puts back what was before the change with this token, or before any. `None` where that has been confirmed.
pub fn revert(folder: &Path, token: Option<u64>) -> Result<Option<Outcome>> {
    if !restore(folder, token)? {
        return Ok(None);
    }
    let all = enabled::read(folder)?;
    apply::apply(&all).map(Some)
}

/// The files' part of that. Answers whether there was anything to put back.
pub fn restore(folder: &Path, token: Option<u64>) -> Result<bool> {
    let kept = Path::new(KEPT);
    let is_it = match token {
        Some(token) => pending().is_some_and(|p| p.token == token),
        None => kept.is_dir(),
    };
    if !is_it {
        return Ok(false);
    }
    let before = toml_files(kept);
    for file in &before {
        let text = disk::read(file)?.unwrap_or_default();
        disk::write(&folder.join(file.file_name().unwrap_or_default()), &text)?;
    }
    for file in toml_files(folder) {
        if !before.iter().any(|b| b.file_name() == file.file_name()) {
            disk::remove(&file)?;
        }
    }
    forget()?;
    Ok(true)
}

fn toml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    entries.filter(|f| f.extension().is_some_and(|e| e == "toml")).collect()
}

/// Has `headway revert` run later, whatever becomes of this process and of the terminal.
fn start_timer(token: u64, seconds: u64) -> Result<()> {
    let me = std::env::current_exe().context("cannot find this program's file")?;
    let mut command = match unit::is_here() {
        true => {
            let mut systemd = Command::new("systemd-run");
            let name = format!("--unit={}", timer_of(token));
            systemd.args(["--quiet", "--collect", &name, &format!("--on-active={seconds}s")]);
            systemd.args([
                "--timer-property=AccuracySec=1s",
                "--description=Take back an unconfirmed change of headway",
            ]);
            systemd.arg("--").arg(&me).args(["revert", "--token", &token.to_string()]);
            systemd
        }
        false => {
            let mut waits = Command::new(&me);
            waits.args(["revert", "--token", &token.to_string(), "--after", &seconds.to_string()]);
            // SAFETY: between fork and exec this makes one system call and allocates nothing.
            unsafe { waits.pre_exec(|| Ok(setsid().map(drop)?)) };
            waits
        }
    };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()
        .context("cannot start what takes an unconfirmed change back")?;
    if unit::is_here() {
        let status = child.wait().context("cannot wait for systemd-run")?;
        ensure!(status.success(), "systemd does not start the timer that takes an unconfirmed change back");
    }
    Ok(())
}
