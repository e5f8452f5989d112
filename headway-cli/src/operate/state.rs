//! What was put in force since the machine booted, as far as the kernel does not say it: which of the loaded
//! controllers are there because they are enabled, and what stood in their places before.
//!
//! It is in /run, which ends with the boot like all that it tells of. An intent is written before the change that it
//! tells of, so after a `kill -9` it names at least what was changed.

use super::disk;
use super::scope::Prefix;
use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

const FILE: &str = "/run/headway/state.json";
const LOCK: &str = "/run/headway/lock";

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// Names that were loaded because they are enabled. Others were loaded by `headway load` and are left alone.
    pub loaded: BTreeSet<String>,
    /// The default that stood there before ours.
    pub default_before: Option<String>,
    /// Our default.
    pub default: Option<String>,
    pub routes: Vec<SetRoute>,
    /// Units that have a drop-in of ours.
    pub units: BTreeSet<String>,
}

/// A route that asks for one of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRoute {
    pub prefix: String,
    pub priority: u32,
    pub name: String,
    /// What it asked for before.
    pub before: Option<String>,
}

impl SetRoute {
    pub fn is_of(&self, prefix: &Prefix, priority: u32) -> bool {
        self.prefix == prefix.to_string() && self.priority == priority
    }
}

impl State {
    pub fn read() -> Result<State> {
        let text = disk::read(Path::new(FILE))?;
        // What cannot be read is of another version; what it says of this boot is lost, and nothing else.
        Ok(text.and_then(|t| serde_json::from_str(&t).ok()).unwrap_or_default())
    }

    /// Writes it before a change.
    pub fn write(&self) -> Result<()> {
        disk::write(Path::new(FILE), &(serde_json::to_string_pretty(self)? + "\n"))
    }
}

/// How long to wait for another `headway` that is changing something. Each change takes less than a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lets one process at a time change what is in force, until dropped.
///
/// # Errors
/// Another one is still at it after a while; the error says which.
pub fn lock() -> Result<File> {
    let cannot = || format!("cannot open {LOCK}\nhint: run it as root");
    fs::create_dir_all("/run/headway").with_context(cannot)?;
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(LOCK)
        .with_context(cannot)?;
    let deadline = Instant::now() + PATIENCE;
    while let Err(e) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if e != rustix::io::Errno::WOULDBLOCK {
            return Err(e).context("cannot lock what is in force");
        }
        if Instant::now() > deadline {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            anyhow::bail!(
                "another headway is changing what is in force: {}\nhint: wait for its end, or end it with `kill`",
                holder.trim()
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let words: Vec<String> = std::env::args().collect();
    // Without room for it the lock still locks, and only the message of whoever waits says less.
    let _ = file.set_len(0).and_then(|()| file.rewind());
    let _ = writeln!(file, "process {}, `{}`", std::process::id(), words.join(" "));
    Ok(file)
}
