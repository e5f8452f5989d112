//! Waiting for descriptors, with time-outs in nanoseconds (the standard library has none of this).

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

/// Waits until one of `fds` is readable or `timeout_ns` has passed (`None`: for ever). The answer has one flag for
/// each descriptor. The flag of a descriptor in error is set too, because reading from it is what tells the error.
pub fn wait_readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout_ns: Option<u64>,
) -> io::Result<[bool; N]> {
    let mut polls = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    poll(&mut polls, timeout_ns)?;
    Ok(polls.map(|p| !p.revents().is_empty()))
}

/// Waits until `fd` accepts more data to send, or `timeout_ns` has passed.
pub fn wait_writable(fd: BorrowedFd<'_>, timeout_ns: u64) -> io::Result<()> {
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::OUT)], Some(timeout_ns))
}

/// One `ppoll`. A signal ends it as if the time had passed with nothing ready: every caller looks again anyway.
fn poll(polls: &mut [PollFd<'_>], timeout_ns: Option<u64>) -> io::Result<()> {
    let timeout = timeout_ns
        .map(|ns| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ });
    match rustix::event::poll(polls, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// A counter in the kernel: adding to it wakes a thread that waits until it is readable.
pub fn event() -> io::Result<File> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn waiting_tells_which_descriptor_is_readable() {
        use std::io::Write;
        let (quiet, mut busy) = (event().unwrap(), event().unwrap());
        busy.write_all(&1_u64.to_ne_bytes()).unwrap();
        assert_eq!(wait_readable([quiet.as_fd(), busy.as_fd()], None).unwrap(), [false, true]);
        assert_eq!(wait_readable([quiet.as_fd()], Some(0)).unwrap(), [false]);
    }
}
