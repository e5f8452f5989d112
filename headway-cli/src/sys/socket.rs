//! Options of TCP sockets that rustix does not have, set and read through libc.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// The kernel's counters of a TCP socket; fields that this kernel does not know stay zero.
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    // SAFETY: all zeroes is a valid `tcp_info`.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let into = (&raw mut info).cast();
    // SAFETY: the kernel writes at most `len` bytes of `info`.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into, &mut len)
    })?;
    Ok(info)
}

/// From now on the socket accepts no more data while this many bytes of it wait unsent (TCP_NOTSENT_LOWAT).
pub fn set_unsent_limit(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes)
}

/// From now on the socket sends no faster than this, whatever its congestion controller says (SO_MAX_PACING_RATE).
pub fn set_max_pacing_rate(socket: BorrowedFd<'_>, bytes_per_s: u64) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_s)
}

fn set_option<T>(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, which outlives the call.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(value).cast(), len) })
}

fn check(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
