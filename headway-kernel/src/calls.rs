//! The system calls of BPF that libbpf-rs does not wrap, and nothing else.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::libbpf_sys::{self as sys, bpf_prog_query};

/// The sockops programs of a cgroup.
#[derive(Debug)]
pub(crate) struct Sockops {
    /// By which rules programs were attached there: [`MULTI`], [`OVERRIDE`] or 0. 0 too where there is none.
    pub(crate) rules: u32,
    /// The programs' identifiers.
    pub(crate) ids: Vec<u32>,
}

/// Beside these other programs may be attached. Links are always attached so.
pub(crate) const MULTI: u32 = sys::BPF_F_ALLOW_MULTI;
/// A program that a cgroup below has of its own takes the place of this one there.
pub(crate) const OVERRIDE: u32 = sys::BPF_F_ALLOW_OVERRIDE;

/// More programs than a cgroup and all those above it can have.
const MOST: usize = 4096;

/// The programs that are attached to this cgroup.
pub(crate) fn sockops_at(cgroup: BorrowedFd<'_>) -> io::Result<Sockops> {
    query(cgroup, 0)
}

/// The programs that the kernel runs for a connection of this cgroup, those of cgroups above included.
pub(crate) fn sockops_of(cgroup: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    Ok(query(cgroup, sys::BPF_F_QUERY_EFFECTIVE)?.ids)
}

fn query(cgroup: BorrowedFd<'_>, which: u32) -> io::Result<Sockops> {
    let (mut rules, mut ids, mut count) = (0, vec![0; MOST], MOST as u32);
    // SAFETY: the kernel writes at most `count` identifiers, for which there is room, and the two numbers.
    let result = unsafe {
        bpf_prog_query(
            cgroup.as_raw_fd(),
            sys::BPF_CGROUP_SOCK_OPS,
            which,
            &mut rules,
            ids.as_mut_ptr(),
            &mut count,
        )
    };
    check(result)?;
    ids.truncate(count as usize);
    Ok(Sockops { rules, ids })
}

/// libbpf returns the error as a negative number.
fn check(result: i32) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}
