//! What must be undone before the program ends, in whatever way it does. A guard runs its action when it is dropped;
//! Ctrl-C, SIGTERM and SIGHUP run every action that is still pending before they end the process.
//!
//! No code runs after `kill -9`. What that must not leave behind is held by file descriptors instead (namespaces, TUN
//! devices, struct_ops links) or dies with its parent (guests, servers).

use super::out;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

type Action = Box<dyn FnOnce() + Send>;

static PENDING: Mutex<BTreeMap<u64, Action>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Runs its action once, when dropped or when the program is interrupted.
#[derive(Debug)]
pub struct Guard(u64);

/// Registers an action that undoes something, to run when the guard is dropped or the program is interrupted.
pub fn guard(action: impl FnOnce() + Send + 'static) -> Guard {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    PENDING.lock().unwrap_or_else(|e| e.into_inner()).insert(id, Box::new(action));
    Guard(id)
}

impl Guard {
    /// Forgets the action, because what it would undo is meant to stay.
    pub fn keep(self) {
        PENDING.lock().unwrap_or_else(|e| e.into_inner()).remove(&self.0);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let action = PENDING.lock().unwrap_or_else(|e| e.into_inner()).remove(&self.0);
        if let Some(action) = action {
            action();
        }
    }
}

/// The command that goes on with what was interrupted, where something can go on.
static GO_ON: Mutex<Option<String>> = Mutex::new(None);

/// From now on an interrupt tells the user that this command goes on.
pub fn goes_on_with(command: String) {
    *GO_ON.lock().unwrap_or_else(|e| e.into_inner()) = Some(command);
}

/// A signal is ending the process.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Returns, unless a signal is ending the process: then it waits for that end. What fails meanwhile fails because its
/// files and children are being taken away, and saying so would blame the disk.
pub fn wait_if_ending() {
    // A terminal or `timeout` signals our children, too, and the end of one may be noticed before our own signal.
    std::thread::sleep(std::time::Duration::from_millis(20));
    while ENDING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// From now on Ctrl-C, SIGTERM and SIGHUP run the pending actions, newest first, and end the process with 128 + the
/// signal's number, which is what a shell reports of a program that the signal itself has ended.
pub fn catch() -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            undo_and_end(signal);
        }
    });
    Ok(())
}

fn undo_and_end(signal: i32) {
    ENDING.store(true, Ordering::SeqCst);
    loop {
        let last = PENDING.lock().unwrap_or_else(|e| e.into_inner()).pop_last();
        match last {
            Some((_, action)) => action(),
            None => break,
        }
    }
    match GO_ON.lock().unwrap_or_else(|e| e.into_inner()).as_ref() {
        Some(command) => {
            out::note(format_args!("interrupted: what was measured is kept; to go on:\n  {command}"))
        }
        None => out::note("interrupted"),
    }
    std::process::exit(128 + signal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn guard_runs_once_unless_kept() {
        let n = Arc::new(AtomicU32::new(0));
        let count = || {
            let n = n.clone();
            guard(move || {
                n.fetch_add(1, Ordering::SeqCst);
            })
        };
        drop(count());
        assert_eq!(n.load(Ordering::SeqCst), 1);
        count().keep();
        assert_eq!(n.load(Ordering::SeqCst), 1);
    }
}
