//! The forwarding loop: one thread reads packets from each of the two TUN devices, pushes them through the link of
//! that direction, and writes what the link releases to the other device. What happens on the path (queue, rate,
//! delay, loss) is the link's; this file only moves packets and keeps time. Run by [`super::Emu`] on a thread of its
//! own.
//!
//! It sleeps until something is due. In the lab it must not look at the clock in a loop instead: there each
//! instruction takes time, and the looking itself would delay the packets.

use super::Detour;
use super::log::Bins;
use super::packet::{self, HEAD_MAX};
use super::segment::{Batch, Pool, READ_MAX, Segment};
use crate::observe::lateness::Histogram;
use crate::sys;
use crate::sys::clock::monotonic_ns;
use crate::sys::tun::{Tun, VNET_BYTES};
use headway_cc::link::{Link, LinkSpec, LinkStats};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

/// Reads from one device before the other gets its turn, so that a flood one way cannot hold up the ACKs of the other.
const READS_PER_TURN: usize = 32;
/// The timer rings at most this often: at more than 500 Mbit/s, packets that are due within it leave together. It
/// bounds the lateness that the emulator itself adds; a shorter gap would cost a system call for each packet.
const TIMER_GAP_NS: u64 = 25_000;

/// How the owner of the loop talks to it; [`Orders::event`] wakes it.
#[derive(Debug)]
pub struct Orders {
    pub event: File,
    /// CLOCK_MONOTONIC of t = 0; 0: not yet.
    pub zero_ns: AtomicU64,
    pub stop: AtomicBool,
}

/// What the loop must know of one direction before it starts.
#[derive(Clone, Debug)]
pub struct DirectionSpec {
    /// The link before t = 0: the path's first values, without its schedule.
    pub before: LinkSpec,
    /// The link from t = 0 on.
    pub spec: LinkSpec,
    pub seed: u64,
    pub detour: Option<Detour>,
    pub bin_us: u64,
}

/// What is left when the loop ends.
#[derive(Debug)]
pub struct Outcome {
    pub down: Bins,
    pub up: Bins,
    pub stats: [LinkStats; 2],
    pub late: Histogram,
    /// Packets that the kernel did not take back.
    pub refused: u64,
    /// Reads of the devices since t = 0.
    #[cfg(test)]
    pub reads: u64,
    /// End of the log on the links' clock.
    pub end_ns: u64,
}

/// Runs until [`Orders::stop`]. Data goes from near to far over `down`, answers come back over `up`.
/// `started` is told when t = 0 is in force.
pub fn run(
    [near, far]: [&Tun; 2],
    [down, up]: &[DirectionSpec; 2],
    orders: &Orders,
    started: &SyncSender<()>,
    exact_timers: bool,
) -> io::Result<Outcome> {
    sys::sched::make_real_time();
    let start_ns = monotonic_ns();
    let mut down = Forwarder::new(near, far, down, start_ns);
    let mut up = Forwarder::new(far, near, up, start_ns);
    let mut late = Histogram::new();
    let mut timer_ns = 0;
    let mut sleeper = Sleeper { exact_timers, awake_until_ns: 0 };
    loop {
        let now_ns = monotonic_ns();
        let due_ns = [down.next_ns(), up.next_ns()].into_iter().flatten().min();
        let wake_ns = due_ns.map(|due| due.max(timer_ns + TIMER_GAP_NS));
        let wait_ns = wake_ns.map(|wake| sleeper.wait_ns(now_ns, wake));
        let [near_ready, far_ready, has_orders] =
            sys::wait::wait_readable([near.as_fd(), far.as_fd(), orders.event.as_fd()], wait_ns)?;
        if near_ready {
            down.receive()?;
        }
        if far_ready {
            up.receive()?;
        }
        timer_ns = monotonic_ns();
        down.release(&mut late);
        up.release(&mut late);
        if has_orders && take_orders(orders, started, [&mut down, &mut up], &mut late)? {
            break;
        }
    }
    let end_ns = monotonic_ns() - down.current.zero_ns;
    Ok(Outcome {
        stats: [*down.current.link.stats(), *up.current.link.stats()],
        refused: down.refused + up.refused,
        #[cfg(test)]
        reads: down.reads + up.reads,
        down: down.bins,
        up: up.bins,
        late,
        end_ns,
    })
}

/// How to wait for a moment without being late. A CPU that has slept for long takes its time to wake up, so a long
/// wait ends early and the rest is spent looking again and again. Not so where timers are exact, as in the lab: there
/// a wait ends at its moment, and looking would cost virtual time.
#[derive(Debug)]
struct Sleeper {
    exact_timers: bool,
    /// Until this moment there is no more sleep.
    awake_until_ns: u64,
}

impl Sleeper {
    fn wait_ns(&mut self, now_ns: u64, wake_ns: u64) -> u64 {
        const EARLY_NS: u64 = 150_000; // more than a CPU takes to leave a deep idle state
        let wait_ns = wake_ns.saturating_sub(now_ns);
        if self.exact_timers {
            return wait_ns;
        }
        if wake_ns <= self.awake_until_ns {
            return 0;
        }
        if wait_ns <= 3 * EARLY_NS {
            return wait_ns;
        }
        self.awake_until_ns = wake_ns;
        wait_ns - EARLY_NS
    }
}

/// Carries out what the owner has asked for; true: stop.
fn take_orders(
    orders: &Orders,
    started: &SyncSender<()>,
    forwarders: [&mut Forwarder<'_>; 2],
    late: &mut Histogram,
) -> io::Result<bool> {
    (&orders.event).read_exact(&mut [0; 8])?; // resets the event, so that the next order wakes the loop again
    let zero_ns = orders.zero_ns.load(Ordering::Acquire);
    if zero_ns > 0 && zero_ns != forwarders[0].current.zero_ns {
        forwarders.into_iter().for_each(|f| f.start_clock(zero_ns));
        *late = Histogram::new();
        let _ = started.try_send(());
    }
    Ok(orders.stop.load(Ordering::Acquire))
}

/// One direction of the path: from one device through a link to the other.
struct Forwarder<'a> {
    from: &'a Tun,
    to: &'a Tun,
    spec: &'a DirectionSpec,
    current: TimedLink,
    /// The link from before t = 0, until the packets that were in it then have left.
    draining: Option<TimedLink>,
    /// Segments on the detour, with the CLOCK_MONOTONIC of its end.
    detouring: VecDeque<(u64, Segment)>,
    pool: Pool,
    bins: Bins,
    refused: u64,
    reads: u64,
}

/// A link and the CLOCK_MONOTONIC of its time 0.
struct TimedLink {
    link: Link<Segment>,
    zero_ns: u64,
}

impl<'a> Forwarder<'a> {
    fn new(from: &'a Tun, to: &'a Tun, spec: &'a DirectionSpec, zero_ns: u64) -> Self {
        let current = TimedLink { link: Link::new(&spec.before, spec.seed), zero_ns };
        Self {
            from,
            to,
            spec,
            current,
            draining: None,
            detouring: VecDeque::new(),
            pool: Pool::new(),
            bins: Bins::new(spec.bin_us),
            refused: 0,
            reads: 0,
        }
    }

    /// Replaces the link by one whose schedule, random numbers and log start at `zero_ns`.
    fn start_clock(&mut self, zero_ns: u64) {
        let next = TimedLink { link: Link::new(&self.spec.spec, self.spec.seed), zero_ns };
        self.draining = Some(std::mem::replace(&mut self.current, next));
        self.bins = Bins::new(self.spec.bin_us);
        self.reads = 0;
    }

    /// CLOCK_MONOTONIC at which something is due next; `None`: nothing is under way.
    fn next_ns(&self) -> Option<u64> {
        let next = |timed: &TimedLink| timed.link.next_ns().map(|ns| ns + timed.zero_ns);
        let detour_ns = self.detouring.front().map(|(ns, _)| *ns);
        [self.draining.as_ref().and_then(next), next(&self.current), detour_ns].into_iter().flatten().min()
    }

    /// Takes what the device has and pushes it into the link, MTU packet by MTU packet.
    fn receive(&mut self) -> io::Result<()> {
        for _ in 0..READS_PER_TURN {
            let (buffer, at) = self.pool.room();
            let n = match self.from.read(&buffer.bytes[at..at + READ_MAX]) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                n => n?,
            };
            if n <= VNET_BYTES {
                continue;
            }
            self.reads += 1;
            let mut head = [0; HEAD_MAX];
            let head = buffer.copy_head(at, n, &mut head);
            let shape = packet::shape(head, n - VNET_BYTES);
            let arrived_ns = monotonic_ns();
            let now_ns = arrived_ns.saturating_sub(self.current.zero_ns);
            let detour = self.spec.detour.filter(|d| packet::has_port(head, d.port));
            for index in 0..shape.count() {
                let segment =
                    Segment { buffer: Rc::clone(buffer), at: at as u32, shape, index: index as u16 };
                match detour {
                    Some(detour) => self.detouring.push_back((arrived_ns + detour.extra_ns / 2, segment)),
                    None => self.current.link.push(now_ns, segment.bytes(), shape.ect, segment),
                }
            }
            self.bins.on_stats(now_ns, self.current.link.stats());
            self.pool.keep(n);
        }
        Ok(())
    }

    /// Writes what is due.
    fn release(&mut self, late: &mut Histogram) {
        if !self.detouring.is_empty() {
            self.end_detours(monotonic_ns());
        }
        self.drain();
        let due_ns = monotonic_ns().saturating_sub(self.current.zero_ns);
        let mut now_ns = due_ns;
        let mut batch: Option<Batch> = None;
        while let Some(out) = self.current.link.pop(due_ns) {
            late.add(now_ns.saturating_sub(out.at_ns));
            self.bins.on_out(now_ns, &out);
            if batch.as_mut().is_some_and(|b| b.add(&out)) {
                continue;
            }
            if let Some(full) = batch.replace(Batch::of(&out)) {
                self.write(&full);
                now_ns = monotonic_ns().saturating_sub(self.current.zero_ns);
            }
        }
        if let Some(last) = batch {
            self.write(&last);
            self.bins.on_stats(now_ns, self.current.link.stats());
        }
    }

    /// Writes what is due of the link from before t = 0, which is in no log.
    fn drain(&mut self) {
        if let Some(mut old) = self.draining.take() {
            let now_ns = monotonic_ns() - old.zero_ns;
            while let Some(out) = old.link.pop(now_ns) {
                self.write(&Batch::of(&out));
            }
            self.draining = old.link.next_ns().is_some().then_some(old);
        }
    }

    /// Pushes into the link the segments whose detour is over.
    fn end_detours(&mut self, monotonic_ns: u64) {
        let now_ns = monotonic_ns.saturating_sub(self.current.zero_ns);
        while self.detouring.front().is_some_and(|(ns, _)| *ns <= monotonic_ns) {
            let (_, segment) = self.detouring.pop_front().expect("just seen");
            self.current.link.push(now_ns, segment.bytes(), segment.shape.ect, segment);
        }
    }

    fn write(&mut self, batch: &Batch) {
        // A refused packet is one that the host at the end of the path lost: out of memory, interface down.
        if batch.write(self.to).is_err() {
            self.refused += u64::from(batch.count);
        }
    }
}
