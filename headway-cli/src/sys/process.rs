//! Processes: children that end with us, the terminal's signals, and what this process is allowed to do.

use rustix::io::Errno;
pub use rustix::process::Signal;
use rustix::process::{Pid, getppid, set_parent_process_death_signal};
use rustix::thread::{CapabilitySet, capabilities};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The child gets SIGKILL when the *thread* that started it ends, so that nothing outlives a `kill -9` of this
/// program. Do not spawn it from a thread that ends before the child should.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    end_with_parent(command, Signal::KILL)
}

/// The same with a signal that lets the child clean up.
pub fn end_with_parent(command: &mut Command, signal: Signal) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: between fork and exec the closure only makes system calls; it allocates nothing.
    unsafe { command.pre_exec(move || ask_to_end_with(parent, signal)) }
}

/// The part of [`die_with_parent`] that runs in the child, between fork and exec. Allocates nothing.
pub(super) fn ask_to_die_with(parent: u32) -> io::Result<()> {
    ask_to_end_with(parent, Signal::KILL)
}

fn ask_to_end_with(parent: u32, signal: Signal) -> io::Result<()> {
    set_parent_process_death_signal(Some(signal))?;
    if getppid().map(Pid::as_raw_nonzero).is_none_or(|pid| pid.get() as u32 != parent) {
        return Err(Errno::SRCH.into()); // the parent ended before the request, so the signal would never come
    }
    Ok(())
}

/// While this value lives, Ctrl-C and Ctrl-\ end the child that holds the terminal and not this program, as in a
/// shell.
#[derive(Debug)]
pub struct IgnoreInterrupts {
    old: [(libc::c_int, libc::sighandler_t); 2],
}

/// What Ctrl-C and Ctrl-\ send.
const INTERRUPTS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// Ignores both signals until the answer is dropped. By libc, because rustix leaves signal handlers to it.
pub fn ignore_interrupts() -> IgnoreInterrupts {
    // SAFETY: replaces a handler by "ignore"; no code of ours runs in signal context.
    let old = INTERRUPTS.map(|s| (s, unsafe { libc::signal(s, libc::SIG_IGN) }));
    IgnoreInterrupts { old }
}

impl Drop for IgnoreInterrupts {
    fn drop(&mut self) {
        for (signal, handler) in self.old {
            // SAFETY: puts back the handler that was installed before.
            unsafe { libc::signal(signal, handler) };
        }
    }
}

/// In a child between fork and exec: Ctrl-C and Ctrl-\ end it, whatever the parent does with them.
pub(super) fn restore_interrupts() {
    for signal in INTERRUPTS {
        // SAFETY: signal is async-signal-safe and takes integers only.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// The capabilities that namespaces and network devices need and the calling thread does not have.
pub fn missing_capabilities() -> io::Result<Vec<String>> {
    let effective = capabilities(None)?.effective;
    let needed = [(CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"), (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN")];
    Ok(needed.iter().filter(|(bit, _)| !effective.contains(*bit)).map(|(_, name)| name.to_string()).collect())
}
