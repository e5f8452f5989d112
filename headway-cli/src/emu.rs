//! A path between two hosts, made real: two network namespaces joined by two TUN devices, and one thread
//! that carries every packet through a [`headway_cc::link::Link`] each way.
//!
//! ```text
//!   namespace "near"                        this process                        "far", or the caller's own
//!  ┌────────────────┐        ┌──────────────────────────────────────┐        ┌────────────────┐
//!  │ sender         │        │  down: queue, rate, loss ──► delay   │        │ receiver       │
//!  │     TUN ───────┼───────►│                                      ├───────►│ TUN            │
//!  │                │◄───────┤  delay ◄── up: queue, rate, loss     │◄───────┼─────           │
//!  └────────────────┘        └──────────────────────────────────────┘        └────────────────┘
//! ```
//!
//! The link model is the simulator's, so one path text means the same in both; here real packets of this machine's
//! kernel pass through it in real time (in the lab: in virtual time). Everything is held by file descriptors, so the
//! end of the process, however it comes, is the end of the devices and the namespaces.
//!
//! [`ends`] makes devices, addresses and routes; [`forward`] is the thread's loop; [`segment`] and [`packet`] divide
//! the kernel's large packets and join them again; [`log`] counts. Called by `cell`, and by `headway emu`.

mod ends;
mod forward;
mod log;
mod packet;
mod segment;
#[cfg(test)]
mod tests;

use crate::observe::lateness::{Lateness, lateness_limit_us};
use crate::sys;
use crate::sys::clock::monotonic_ns;
use anyhow::{Context, Result, anyhow, ensure};
pub use ends::DEVICE;

use ends::Ends;
use forward::{DirectionSpec, Orders, Outcome};
use headway_cc::link::{LinkSpec, LinkStats};
use headway_cc::path::Path;
use headway_kernel::Check;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Where the far end of the path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Far {
    /// In a namespace of its own.
    Own,
    /// In the namespace of the caller.
    Caller,
}

/// Gives some flows a longer round trip than the others of the same path: IPv4 packets with this TCP port at either
/// end wait before they meet the bottleneck, for half of the extra time in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detour {
    pub port: u16,
    pub extra_ns: u64,
}

/// What a path needs besides its text.
#[derive(Clone, Debug)]
pub struct EmuOptions {
    /// MTU of both devices, 576 to 9000 bytes.
    pub mtu: u32,
    /// Decides every random part of the path: loss, jitter and the like.
    pub seed: u64,
    pub far: Far,
    /// Lets the kernel hand over several packets as one, up to 64 KB (GSO), which saves most of the CPU time. The
    /// links see packets of the MTU all the same.
    pub offload: bool,
    pub detour: Option<Detour>,
    /// Length of a bin of the log in microseconds.
    pub bin_us: u64,
    /// Whether a timer of this machine wakes a thread at exactly the moment asked for, as in the lab's virtual time.
    pub exact_timers: bool,
}

impl Default for EmuOptions {
    fn default() -> Self {
        Self {
            mtu: 1500,
            seed: 1,
            far: Far::Own,
            offload: true,
            detour: None,
            bin_us: 100_000,
            exact_timers: false,
        }
    }
}

/// A path that is up. Data flows from near to far through the path's `down` link.
#[derive(Debug)]
pub struct Emu {
    path: Path,
    near: Netns,
    far: Option<Netns>,
    ends: Ends,
    orders: Arc<Orders>,
    started: Mutex<Receiver<()>>,
    thread: Option<JoinHandle<io::Result<Outcome>>>,
}

/// What happened on the path since [`Emu::start_clock`] (since [`Emu::up`] if that was never called).
#[derive(Clone, Debug)]
pub struct EmuLog {
    /// Text of `link.txt`, which counts each direction in bins of [`EmuOptions::bin_us`].
    pub bins: String,
    /// How late packets left the emulator, both directions.
    pub late: Lateness,
    pub down: LinkStats,
    pub up: LinkStats,
    /// Packets that the kernel lost on the way into or out of the emulator. The model knows nothing of them, so a run
    /// with any does not count.
    pub kernel_drops: u64,
    /// Reads of the devices: fewer than packets when the kernel hands over several at once.
    #[cfg(test)]
    pub reads: u64,
}

impl EmuLog {
    /// Why the run does not count, or `None` if it does: the emulator itself lost packets, or was later than
    /// [`lateness_limit_us`]. The rule knows nothing of what the traffic achieved, so it cannot favour a controller.
    pub fn disturbed(&self, base_rtt_us: u64) -> Option<String> {
        let limit_us = lateness_limit_us(base_rtt_us);
        let late = self.late;
        if self.kernel_drops > 0 {
            return Some(format!("the kernel lost {} packets outside the emulated path", self.kernel_drops));
        }
        (late.p999_us > limit_us).then(|| {
            format!(
                "packets left {} us late (p99.9, limit {limit_us} us; worst {} us)",
                late.p999_us, late.max_us
            )
        })
    }
}

impl Emu {
    /// Makes namespaces and devices and starts to carry packets, with the values that the path has at time 0. Fails,
    /// with a hint, where a privilege or a device is missing, and leaves nothing behind then.
    pub fn up(path: &Path, options: &EmuOptions) -> Result<Emu> {
        ensure!((576..=9000).contains(&options.mtu), "MTU {} is not within 576 to 9000", options.mtu);
        for trace in [&path.down, &path.up].iter().filter_map(|spec| spec.trace.as_ref()) {
            ensure!(!trace.at_ms.is_empty(), "the trace file `{}` has not been read", trace.name);
        }
        check_privilege()?;
        let (far, ends, far_tun) = ends::make_far(options)?;
        let (near, near_tun) = Netns::with(|| ends.make_near(options))?;
        let orders = Arc::new(Orders {
            event: sys::wait::event().context("cannot make an event descriptor")?,
            zero_ns: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let specs = [&path.down, &path.up].map(|spec| DirectionSpec {
            before: LinkSpec { steps: Vec::new(), repeat_ns: None, ..spec.clone() },
            spec: spec.clone(),
            seed: options.seed,
            detour: options.detour.filter(|d| d.extra_ns > 0),
            bin_us: options.bin_us,
        });
        let (tell, started) = std::sync::mpsc::sync_channel(1);
        let (taken, exact_timers) = (Arc::clone(&orders), options.exact_timers);
        let thread = thread::Builder::new()
            .name("emulator".into())
            .spawn(move || forward::run([&near_tun, &far_tun], &specs, &taken, &tell, exact_timers))
            .context("cannot start the emulator's thread")?;
        let (path, started, thread) = (path.clone(), Mutex::new(started), Some(thread));
        Ok(Emu { path, near, far, ends, orders, started, thread })
    }

    /// Makes this moment t = 0 of the path's schedule, of its random numbers and of the log. Until then the path only
    /// carries what the ends need to set up. Packets under way are delivered unchanged. Only the first call has an
    /// effect.
    pub fn start_clock(&self) {
        let now_ns = monotonic_ns();
        if self.orders.zero_ns.compare_exchange(0, now_ns, Ordering::Release, Ordering::Relaxed).is_ok() {
            self.wake();
            // Returns only when the loop has the new clock: what the caller sends next must meet it. An error means
            // that the loop has ended early, which `stop` will report.
            let _ = self.started.lock().map(|started| started.recv());
        }
    }

    pub fn near(&self) -> &Netns {
        &self.near
    }

    /// `None` when the far end is in the caller's namespace.
    pub fn far(&self) -> Option<&Netns> {
        self.far.as_ref()
    }

    pub fn near_addr(&self) -> Ipv4Addr {
        self.ends.near()
    }

    pub fn far_addr(&self) -> Ipv4Addr {
        self.ends.far()
    }

    /// Takes the path down and says what happened on it.
    pub fn stop(mut self) -> Result<EmuLog> {
        let device_drops = self.near.enter(|| sys::net::transmit_drops(DEVICE)).unwrap_or(0)
            + match &self.far {
                Some(far) => far.enter(|| sys::net::transmit_drops(DEVICE)).unwrap_or(0),
                None => sys::net::transmit_drops(&self.ends.caller_device()).unwrap_or(0),
            };
        let outcome = self.end().expect("the thread runs until `end`").context("the emulator broke off")?;
        Ok(EmuLog {
            bins: log::link_text([&outcome.down, &outcome.up], outcome.end_ns, &self.path),
            late: outcome.late.lateness(),
            down: outcome.stats[0],
            up: outcome.stats[1],
            kernel_drops: outcome.refused + device_drops,
            #[cfg(test)]
            reads: outcome.reads,
        })
    }

    fn wake(&self) {
        use std::io::Write;
        // Fails only when the counter is full, and then the thread is awake.
        let _ = (&self.orders.event).write(&1_u64.to_ne_bytes());
    }

    /// Ends the thread; `None` when it has been ended before.
    fn end(&mut self) -> Option<io::Result<Outcome>> {
        let thread = self.thread.take()?;
        self.orders.stop.store(true, Ordering::Release);
        self.wake();
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Emu {
    fn drop(&mut self) {
        if !thread::panicking() {
            let _ = self.end();
        }
    }
}

/// A network namespace that lives as long as this value or a process inside it.
#[derive(Clone, Debug)]
pub struct Netns {
    fd: Arc<OwnedFd>,
}

impl Netns {
    /// A command that will run inside. It gets SIGKILL when the *thread* that spawns it ends.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        sys::ns::run_inside(&mut command, Arc::clone(&self.fd));
        command
    }

    /// Its descriptor, by which a device can be given to it.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Calls `f` inside, on a thread of its own, because a namespace belongs to a thread.
    pub fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        on_thread(|| {
            sys::ns::enter_netns(&self.fd).expect("entering a namespace that this process has made");
            f()
        })
    }

    /// A new namespace with loopback up.
    pub fn new() -> Result<Netns> {
        Ok(Netns::with(|| Ok(()))?.0)
    }

    /// A new namespace with loopback up, and what `f` made inside it.
    fn with<T: Send>(f: impl FnOnce() -> Result<T> + Send) -> Result<(Netns, T)> {
        on_thread(|| {
            let fd = sys::ns::new_netns().context("cannot make a network namespace")?;
            sys::net::set_up("lo").context("cannot set up the loopback device")?;
            Ok((Netns { fd: Arc::new(fd) }, f()?))
        })
    }
}

fn on_thread<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    thread::scope(|s| s.spawn(f).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Fails, naming what an unprivileged user lacks, before anything is half made.
fn check_privilege() -> Result<()> {
    let mut missing =
        sys::process::missing_capabilities().context("cannot read this process's capabilities")?;
    match std::fs::File::options().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => missing.push("/dev/net/tun (no such device)".into()),
        Err(e) => missing.push(format!("access to /dev/net/tun ({e})")),
    }
    if missing.is_empty() {
        return Ok(());
    }
    let hint = if missing.iter().all(|m| m.starts_with('/')) {
        "load the driver with `modprobe tun`"
    } else {
        "run it with `sudo`, or try the path in the simulator or the lab, which need no privilege"
    };
    Err(anyhow!("cannot make an emulated path: this process lacks {}\nhint: {hint}", missing.join(", ")))
}

/// What the emulator needs of this machine.
pub fn check() -> Vec<Check> {
    let (ok, hint) = match check_privilege() {
        Ok(()) => (true, String::new()),
        Err(e) => (false, format!("{e}").replace("\nhint:", ";")),
    };
    vec![Check::required("namespaces and TUN devices", ok, hint)]
}
