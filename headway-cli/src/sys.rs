//! Every `unsafe` and every ioctl of the program, behind safe functions that return `io::Result`.
//!
//! Nothing here decides anything: a function is one system call, or the few that make sense only together.
//! Callers add what was being attempted; see [`crate::emu`].

pub mod interrupt;
pub mod lab;
pub mod program;

use std::cell::Cell;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

// ── time ────────────────────────────────────────────────────────────────────────────────────────────────

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec to write to; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// What the calling thread has taken of the CPU.
pub fn thread_cpu_time() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Asks for prompt wake-ups of the calling thread: no timer slack, and the lowest real-time priority, which still
/// goes before every normal thread; where that is refused, the best nice value. Best effort: a thread that
/// gets neither runs as it is, and its lateness tells.
pub fn prefer_this_thread() {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: integer arguments, and a pointer to a struct that outlives the call. The plain system call is
    // about the calling thread; the C library's function is about the process on some systems.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
        if libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &lowest) != 0 {
            libc::setpriority(libc::PRIO_PROCESS, 0, -20);
        }
    }
}

/// Gives the calling thread the best place among normal threads, and leaves it one of them. Best effort.
pub fn favour_this_thread() {
    // SAFETY: integer arguments only; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

// ── waiting ─────────────────────────────────────────────────────────────────────────────────────────────

/// Waits until one of `fds` is readable or `timeout_ns` has passed (`None`: for ever). The answer has one
/// flag for each descriptor, also for those with an error, which reading will name.
pub fn wait_readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout_ns: Option<u64>,
) -> io::Result<[bool; N]> {
    let mut polls = fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    poll(&mut polls, timeout_ns)?;
    Ok(polls.map(|p| p.revents != 0))
}

/// Waits until `fd` takes more to send or `timeout_ns` has passed.
pub fn wait_writable(fd: BorrowedFd<'_>, timeout_ns: u64) -> io::Result<()> {
    poll(&mut [libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 }], Some(timeout_ns))
}

/// One ppoll; a signal ends it with nothing to report.
fn poll(polls: &mut [libc::pollfd], timeout_ns: Option<u64>) -> io::Result<()> {
    let timeout = timeout_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let timeout_ptr = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: a slice of entries, the timeout is null or lives until after the call, no signal mask.
    let n = unsafe { libc::ppoll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, timeout_ptr, ptr::null()) };
    match check(n) {
        Err(e) if e.kind() != io::ErrorKind::Interrupted => Err(e),
        _ => Ok(()),
    }
}

/// A counter that wakes a waiting thread.
pub fn event() -> io::Result<File> {
    // SAFETY: no pointers; the descriptor is new and owned by nobody else.
    unsafe {
        let fd = check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?;
        Ok(File::from(OwnedFd::from_raw_fd(fd)))
    }
}

// ── processes ───────────────────────────────────────────────────────────────────────────────────────────

/// Makes `command` run inside `netns`, with the terminal's signals at their defaults, and die with the
/// *thread* that spawns it: do not spawn from a thread that ends before the child should.
pub fn tie_to_namespace(command: &mut Command, netns: Arc<OwnedFd>) {
    let parent = std::process::id();
    let setup = move || {
        enter_netns(&netns)?;
        end_with(parent)?;
        // SAFETY: signal is async-signal-safe and takes integers only.
        unsafe {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls; it allocates nothing.
    unsafe { command.pre_exec(setup) };
}

/// In a child between fork and exec: SIGKILL when the thread that started it ends. Allocates nothing.
fn end_with(parent: u32) -> io::Result<()> {
    // SAFETY: prctl and getppid are async-signal-safe and take integers only.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0))?;
        if libc::getppid() as u32 != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH)); // the parent died in between
        }
    }
    Ok(())
}

/// Leaves Ctrl-C and Ctrl-\ to the child that holds the terminal, as a shell does, until dropped.
#[derive(Debug)]
pub struct IgnoreInterrupts {
    old: [(libc::c_int, libc::sighandler_t); 2],
}

pub fn ignore_interrupts() -> IgnoreInterrupts {
    // SAFETY: replaces a handler by "ignore"; no code of ours runs in signal context.
    let old = [libc::SIGINT, libc::SIGQUIT].map(|s| (s, unsafe { libc::signal(s, libc::SIG_IGN) }));
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

/// Sends `signal` to every process of a group that we created.
pub fn signal_group(leader: u32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::kill(-(leader as libc::pid_t), signal) }).map(drop)
}

/// The capabilities that namespaces and devices need and this process does not have.
pub fn missing_capabilities() -> io::Result<Vec<String>> {
    let status = std::fs::read_to_string("/proc/thread-self/status")?;
    let field = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let effective = field.and_then(|f| u64::from_str_radix(f.trim(), 16).ok()).unwrap_or(0);
    let needed = [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN")]; // linux/capability.h
    Ok(needed.iter().filter(|(bit, _)| effective >> bit & 1 == 0).map(|(_, name)| name.to_string()).collect())
}

// ── network namespaces ──────────────────────────────────────────────────────────────────────────────────

/// Moves the calling thread into a new network namespace and returns a descriptor that keeps it alive.
pub fn new_netns() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; affects the calling thread alone.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    current_netns()
}

/// A descriptor of the calling thread's network namespace.
pub fn current_netns() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// Moves the calling thread into `netns`.
pub fn enter_netns(netns: &OwnedFd) -> io::Result<()> {
    // SAFETY: no pointers; affects the calling thread alone.
    check(unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

// ── interfaces of the calling thread's namespace ────────────────────────────────────────────────────────

pub fn set_mtu(name: &str, mtu: u32) -> io::Result<()> {
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_mtu = mtu as libc::c_int;
    interface_ioctl(libc::SIOCSIFMTU, &mut request)
}

/// Length of the device's transmit queue in packets.
pub fn set_queue_len(name: &str, packets: u32) -> io::Result<()> {
    let mut request = interface_request(name)?;
    // The kernel's `ifr_qlen` is the same int as `ifr_metric`.
    request.ifr_ifru.ifru_metric = packets as libc::c_int;
    interface_ioctl(libc::SIOCSIFTXQLEN, &mut request)
}

pub fn set_up(name: &str) -> io::Result<()> {
    let mut request = interface_request(name)?;
    interface_ioctl(libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the kernel has just filled in the flags.
    unsafe { request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short };
    interface_ioctl(libc::SIOCSIFFLAGS, &mut request)
}

fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeroes is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn interface_ioctl(what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the socket is new and owned here; these ioctls read and write one `ifreq`.
    unsafe {
        let fd = check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        let socket = OwnedFd::from_raw_fd(fd);
        check(libc::ioctl(socket.as_raw_fd(), what, request)).map(drop)
    }
}

/// IPv4 addresses in use in the calling thread's namespace, peers of point-to-point links included.
pub fn ipv4_addresses() -> io::Result<Vec<Ipv4Addr>> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: on success `list` is a linked list that stays valid until freeifaddrs; addresses may be null.
    unsafe {
        check(libc::getifaddrs(&mut list))?;
        let mut found = Vec::new();
        let mut entry = list;
        while let Some(e) = entry.as_ref() {
            for address in [e.ifa_addr, e.ifa_ifu] {
                if address.as_ref().is_some_and(|a| libc::c_int::from(a.sa_family) == libc::AF_INET) {
                    let inet = ptr::read_unaligned(address.cast::<libc::sockaddr_in>());
                    found.push(Ipv4Addr::from(u32::from_be(inet.sin_addr.s_addr)));
                }
            }
            entry = e.ifa_next;
        }
        libc::freeifaddrs(list);
        Ok(found)
    }
}

/// Gives a point-to-point interface its address and its peer's.
pub fn add_address(name: &str, local: IpAddr, peer: IpAddr) -> io::Result<()> {
    const NODAD: u8 = 0x02; // nobody else can have it, and it is usable at once
    let (family, local, peer) = (address_family(local), octets(local), octets(peer));
    let mut body = vec![family, 8 * local.len() as u8, NODAD, libc::RT_SCOPE_UNIVERSE];
    body.extend(interface_index(name)?.to_ne_bytes());
    put_attribute(&mut body, libc::IFA_LOCAL, &local);
    put_attribute(&mut body, libc::IFA_ADDRESS, &peer);
    netlink(libc::RTM_NEWADDR, &body)
}

/// Sends what goes to the network through `name`; of several routes the longest prefix wins.
pub fn add_route(name: &str, network: IpAddr, prefix_bits: u8) -> io::Result<()> {
    const PROTOCOL_BOOT: u8 = 3;
    let (table, scope, kind) = (libc::RT_TABLE_MAIN, libc::RT_SCOPE_LINK, libc::RTN_UNICAST);
    let mut body = vec![address_family(network), prefix_bits, 0, 0, table, PROTOCOL_BOOT, scope, kind];
    body.extend(0_u32.to_ne_bytes());
    if prefix_bits > 0 {
        put_attribute(&mut body, libc::RTA_DST, &octets(network));
    }
    put_attribute(&mut body, libc::RTA_OIF, &interface_index(name)?.to_ne_bytes());
    netlink(libc::RTM_NEWROUTE, &body)
}

pub fn has_interface(name: &str) -> bool {
    interface_index(name).is_ok()
}

/// Whether the calling thread's namespace has IPv6, and lets us configure it.
pub fn has_ipv6() -> bool {
    // SAFETY: a valid C string, no other pointers.
    unsafe { libc::access(c"/proc/sys/net/ipv6/conf/default/addr_gen_mode".as_ptr(), libc::W_OK) == 0 }
}

/// Keeps IPv6 from sending anything of its own accord: no link-local address, no router solicitations.
pub fn quiet_ipv6(name: &str) -> io::Result<()> {
    // The files belong to the calling thread's namespace.
    let dir = format!("/proc/sys/net/ipv6/conf/{name}");
    std::fs::write(format!("{dir}/addr_gen_mode"), "1")?;
    std::fs::write(format!("{dir}/accept_ra"), "0")
}

/// Packets that the device dropped because nobody fetched them in time.
pub fn transmit_drops(name: &str) -> io::Result<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let row = table.lines().find_map(|l| l.trim_start().strip_prefix(name)?.strip_prefix(':'));
    let drops = row.and_then(|r| r.split_whitespace().nth(11)?.parse().ok());
    drops.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
}

/// Whether any socket of the calling thread's namespace waits for connections or datagrams.
pub fn is_listening() -> bool {
    let has_row = |table: &str, state: &str| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        text.lines().skip(1).any(|l| l.split_whitespace().nth(3) == Some(state))
    };
    // Column `st`: 0A is TCP's LISTEN, 07 an unconnected UDP socket.
    has_row("tcp", "0A") || has_row("tcp6", "0A") || has_row("udp", "07") || has_row("udp6", "07")
}

fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: a valid C string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

fn address_family(address: IpAddr) -> u8 {
    if address.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

fn put_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value); // values are 4 or 16 bytes long: no padding
}

/// One routing request that creates something, and the kernel's answer; `AlreadyExists` when it is there.
fn netlink(kind: u16, body: &[u8]) -> io::Result<()> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut message = Vec::new();
    message.extend((16 + body.len() as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    message.extend(1_u32.to_ne_bytes()); // sequence number
    message.extend(0_u32.to_ne_bytes()); // port: the kernel chooses
    message.extend(body);
    let mut answer = [0_u8; 4096];
    // SAFETY: the socket is new and owned here; both buffers are as long as stated.
    let n = unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let fd = check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?;
        let socket = OwnedFd::from_raw_fd(fd);
        check_len(libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0))?;
        check_len(libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0))?
    };
    let error =
        answer[..n].get(16..20).map_or(-libc::EBADMSG, |b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-error)) }
}

// ── TCP sockets ─────────────────────────────────────────────────────────────────────────────────────────

/// The kernel's counters of a TCP socket; fields that this kernel does not know stay zero.
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    // SAFETY: all zeroes is a valid `tcp_info`, and the kernel writes at most `len` bytes of it.
    unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
        let into = (&raw mut info).cast();
        check(libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into, &mut len))?;
        Ok(info)
    }
}

/// The socket takes no more to send while this many bytes wait unsent (TCP_NOTSENT_LOWAT).
pub fn set_unsent_limit(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes)
}

/// The socket sends no faster than this, whatever its controller says (SO_MAX_PACING_RATE).
pub fn set_max_pacing_rate(socket: BorrowedFd<'_>, bytes_per_s: u64) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_s)
}

fn set_option<T>(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, which outlives the call.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(value).cast(), len) })
        .map(drop)
}

// ── TUN devices ─────────────────────────────────────────────────────────────────────────────────────────

/// Bytes of the virtio-net header before every packet of a [`Tun`].
pub const VNET_BYTES: usize = 10;

/// A TUN device with virtio-net headers. It vanishes with this descriptor.
#[derive(Debug)]
pub struct Tun {
    fd: OwnedFd,
}

impl Tun {
    /// Creates device `name` in the calling thread's namespace; `EBUSY` when the name is taken.
    /// With `offload` the kernel hands over unsegmented packets of up to 64 KB without checksums.
    pub fn create(name: &str, offload: bool) -> io::Result<Tun> {
        let mut request = interface_request(name)?;
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL;
        request.ifr_ifru.ifru_flags = flags as libc::c_short; // 0x8000 is the sign bit here
        let fd: OwnedFd = File::options().read(true).write(true).open("/dev/net/tun")?.into();
        let bytes = VNET_BYTES as libc::c_int;
        // SAFETY: TUNSETIFF reads one `ifreq`, TUNSETVNETHDRSZ one int; fcntl takes integers.
        unsafe {
            check(libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &request))?;
            check(libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &bytes))?;
            check(libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK))?;
        }
        let tun = Tun { fd };
        tun.set_offload(offload)?;
        Ok(tun)
    }

    fn set_offload(&self, on: bool) -> io::Result<()> {
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
        if !on {
            return self.offload_ioctl(0);
        }
        // Before Linux 6.2 the device knows no UDP segmentation and refuses the flags.
        self.offload_ioctl(tcp | udp).or_else(|_| self.offload_ioctl(tcp))
    }

    fn offload_ioctl(&self, flags: libc::c_uint) -> io::Result<()> {
        // SAFETY: the argument is an integer, not a pointer.
        let n = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(flags)) };
        check(n).map(drop)
    }

    /// Reads one packet behind its virtio-net header; `WouldBlock` when there is none.
    pub fn read(&self, into: &[Cell<u8>]) -> io::Result<usize> {
        // SAFETY: a slice of cells may be written through a shared reference, and cells are not shared
        // between threads.
        check_len(unsafe { libc::read(self.fd.as_raw_fd(), into.as_ptr().cast_mut().cast(), into.len()) })
    }

    /// Writes one packet: virtio-net header and the start of the packet in `head`, the rest in `body`.
    pub fn write(&self, head: &[u8], body: &[Cell<u8>]) -> io::Result<()> {
        let parts = [
            libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: head.len() },
            libc::iovec { iov_base: body.as_ptr().cast_mut().cast(), iov_len: body.len() },
        ];
        // SAFETY: writev only reads from the two slices, which outlive the call.
        check_len(unsafe { libc::writev(self.fd.as_raw_fd(), parts.as_ptr(), 2) }).map(drop)
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.fd.as_fd()
    }
}

// ── answers ─────────────────────────────────────────────────────────────────────────────────────────────

fn check(n: RawFd) -> io::Result<RawFd> {
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n) }
}

fn check_len(n: isize) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn monotonic_clock_moves_forward() {
        let a = monotonic_ns();
        assert!(monotonic_ns() >= a && a > 0);
    }

    #[test]
    fn waiting_tells_which_descriptor_is_readable() {
        use std::io::Write;
        let (quiet, mut busy) = (event().unwrap(), event().unwrap());
        busy.write_all(&1_u64.to_ne_bytes()).unwrap();
        assert_eq!(wait_readable([quiet.as_fd(), busy.as_fd()], None).unwrap(), [false, true]);
        assert_eq!(wait_readable([quiet.as_fd()], Some(0)).unwrap(), [false]);
    }

    #[test]
    fn long_interface_names_are_refused() {
        assert_eq!(
            set_mtu("a-name-that-is-too-long", 1500).unwrap_err().raw_os_error(),
            Some(libc::ENAMETOOLONG)
        );
    }
}
