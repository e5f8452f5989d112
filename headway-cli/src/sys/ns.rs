//! Network namespaces: a thread's own set of devices, addresses, routes and sockets. A namespace ends with the last
//! process inside it and the last descriptor of it, so nothing needs to be taken down after a `kill -9`.

use super::process;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// Moves the calling thread into a new network namespace and returns a descriptor that keeps it alive.
pub fn new_netns() -> io::Result<OwnedFd> {
    // SAFETY: unsharing is unsafe for descriptor tables only, and this unshares the network alone.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// Moves the calling thread into `netns`.
pub fn enter_netns(netns: &OwnedFd) -> io::Result<()> {
    Ok(move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Makes `command` run inside `netns`, end on Ctrl-C, and die with the thread that spawns it
/// ([`process::die_with_parent`]).
pub fn run_inside(command: &mut Command, netns: Arc<OwnedFd>) {
    let parent = std::process::id();
    let setup = move || {
        enter_netns(&netns)?;
        process::ask_to_die_with(parent)?;
        process::restore_interrupts();
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls; it allocates nothing.
    unsafe { command.pre_exec(setup) };
}
