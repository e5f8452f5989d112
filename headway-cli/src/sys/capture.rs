//! Packets as the kernel shows them to anybody who looks (`packet(7)`, as tcpdump uses it): what the devices of this
//! network namespace send and receive, in the order in which the kernel handled it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// What may wait to be read: some seconds of headers at any rate that is emulated.
const BUFFER_BYTES: usize = 64 << 20;

/// A socket that sees every packet of a network namespace.
#[derive(Debug)]
pub struct Capture(OwnedFd);

/// One packet, from its IP header on.
#[derive(Debug)]
pub struct Seen<'a> {
    /// As much of it as the caller had room for.
    pub bytes: &'a [u8],
    /// This host sent it.
    pub is_sent: bool,
    /// When it passed the device, by the clock of the day.
    pub realtime_ns: u64,
}

/// What the kernel counted for a socket (`tpacket_stats`).
#[repr(C)]
#[derive(Default)]
struct Statistics {
    packets: u32,
    drops: u32,
}

impl Capture {
    /// Sees what passes from now on in the calling thread's network namespace.
    pub fn open() -> io::Result<Self> {
        let every = i32::from((libc::ETH_P_ALL as u16).to_be());
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, every) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER_BYTES as libc::c_int)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        rustix::net::sockopt::set_socket_timeout(
            &socket,
            rustix::net::sockopt::Timeout::Recv,
            Some(Duration::from_millis(100)),
        )?;
        Ok(Self(socket))
    }

    /// The next packet, or `None` where none came for a while.
    pub fn next<'a>(&self, into: &'a mut [u8]) -> io::Result<Option<Seen<'a>>> {
        // SAFETY: all zeroes are valid values of both.
        let (mut from, mut message): (libc::sockaddr_ll, libc::msghdr) = unsafe { std::mem::zeroed() };
        let mut control = [0u64; 8];
        let mut room = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of_val(&from) as libc::socklen_t;
        message.msg_iov = &raw mut room;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: each pointer in `message` is to a value that outlives the call, with its true length.
        let read = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) };
        if read < 0 {
            let error = io::Error::last_os_error();
            let is_quiet = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if is_quiet { Ok(None) } else { Err(error) };
        }
        Ok(Some(Seen {
            bytes: &into[..read as usize],
            is_sent: from.sll_pkttype == libc::PACKET_OUTGOING,
            realtime_ns: time_of(&message).unwrap_or(0),
        }))
    }

    /// How many packets found the buffer full.
    pub fn drops(&self) -> io::Result<u32> {
        let mut statistics = Statistics::default();
        let mut len = size_of::<Statistics>() as libc::socklen_t;
        let into = (&raw mut statistics).cast();
        // SAFETY: the kernel writes at most `len` bytes of `statistics`.
        let answer = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                into,
                &raw mut len,
            )
        };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(statistics.drops) }
    }
}

/// By how much the clock of the day, which time stamps are of, is ahead of the monotonic one.
pub fn realtime_ahead_ns() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    let now_ns = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    // The clocks are read one after the other; of some attempts the fastest is the most exact.
    let attempt = || {
        let (before, day, after) =
            (now_ns(ClockId::Monotonic), now_ns(ClockId::Realtime), now_ns(ClockId::Monotonic));
        (after - before, day - (before + after) / 2)
    };
    (0..10).map(|_| attempt()).min().map_or(0, |(_, ahead)| ahead)
}

/// The time stamp that came with a packet.
fn time_of(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel has filled the control buffer and its length; the macros walk within it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if ((*header).cmsg_level, (*header).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                return Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

fn set(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    let from = (&raw const value).cast();
    // SAFETY: pointer and length describe `value`, which outlives the call.
    let answer = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, from, len) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
