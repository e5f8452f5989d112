//! The loop: one thread, two TUN devices, a [`Link`] each way.
//!
//! A packet is read once into a [`Chunk`] and stays there; what travels through the link are [`Seg`]s, one for
//! each MTU packet of it. Segs that come out together, in order and equally marked are written as one packet
//! again. The chunk is free once its last seg has left or was dropped.
//!
//! Waiting is by timer only: under virtual time a spinning thread would stand still with the clock.

use super::Detour;
use super::log::{Bins, Histogram};
use super::packet::{self, HEAD_MAX, Shape};
use crate::sys;
use crate::sys::clock::monotonic_ns;
use crate::sys::tun::{Tun, VNET_BYTES};
use headway_cc::link::{Link, LinkSpec, LinkStats, Out};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

/// Reads from one device before the other gets its turn.
const READS_PER_TURN: usize = 32;
/// The timer rings at most this often: at more than 500 Mbit/s, packets that are due within it leave together.
/// It bounds the lateness that is our own doing.
const TIMER_GAP_NS: u64 = 25_000;

/// How the owner of the loop talks to it; [`Orders::event`] wakes it.
#[derive(Debug)]
pub struct Orders {
    pub event: File,
    /// CLOCK_MONOTONIC of t = 0; 0: not yet.
    pub zero_ns: AtomicU64,
    pub stop: AtomicBool,
}

/// What a direction needs to know before it starts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In force before t = 0.
    pub before: LinkSpec,
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
    [down, up]: &[Plan; 2],
    orders: &Orders,
    started: &SyncSender<()>,
    exact_timers: bool,
) -> io::Result<Outcome> {
    sys::sched::make_real_time();
    let start_ns = monotonic_ns();
    let mut down = Direction::new(near, far, down, start_ns);
    let mut up = Direction::new(far, near, up, start_ns);
    let mut late = Histogram::new();
    let mut timer_ns = 0;
    let mut nap = Nap { is_exact: exact_timers, awake_ns: 0 };
    loop {
        let now_ns = monotonic_ns();
        let due_ns = [down.next_ns(), up.next_ns()].into_iter().flatten().min();
        let wake_ns = due_ns.map(|due| due.max(timer_ns + TIMER_GAP_NS));
        let wait_ns = wake_ns.map(|wake| nap.wait_ns(now_ns, wake));
        let [near_ready, far_ready, is_ordered] =
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
        if is_ordered && obey(orders, started, [&mut down, &mut up], &mut late)? {
            break;
        }
    }
    let end_ns = monotonic_ns() - down.lane.zero_ns;
    Ok(Outcome {
        stats: [*down.lane.link.stats(), *up.lane.link.stats()],
        refused: down.refused + up.refused,
        #[cfg(test)]
        reads: down.reads + up.reads,
        down: down.bins,
        up: up.bins,
        late,
        end_ns,
    })
}

/// How to wait for a moment without being late. A long wait ends early, because a machine that has slept for long takes
/// its time to wake up, and the rest is spent looking again and again. Not so in the lab: there waking is exact, and looking
/// would cost virtual time.
#[derive(Debug)]
struct Nap {
    is_exact: bool,
    /// Until then there is no more sleep.
    awake_ns: u64,
}

impl Nap {
    fn wait_ns(&mut self, now_ns: u64, wake_ns: u64) -> u64 {
        const EARLY_NS: u64 = 150_000;
        let wait_ns = wake_ns.saturating_sub(now_ns);
        if self.is_exact {
            return wait_ns;
        }
        if wake_ns <= self.awake_ns {
            return 0;
        }
        if wait_ns <= 3 * EARLY_NS {
            return wait_ns;
        }
        self.awake_ns = wake_ns;
        wait_ns - EARLY_NS
    }
}

/// Takes up what was ordered; true: stop.
fn obey(
    orders: &Orders,
    started: &SyncSender<()>,
    directions: [&mut Direction<'_>; 2],
    late: &mut Histogram,
) -> io::Result<bool> {
    (&orders.event).read_exact(&mut [0; 8])?; // so that the next order wakes the loop again
    let zero_ns = orders.zero_ns.load(Ordering::Acquire);
    if zero_ns > 0 && zero_ns != directions[0].lane.zero_ns {
        directions.into_iter().for_each(|d| d.start(zero_ns));
        *late = Histogram::new();
        let _ = started.try_send(());
    }
    Ok(orders.stop.load(Ordering::Acquire))
}

/// One link and its way through the machine.
struct Direction<'a> {
    from: &'a Tun,
    to: &'a Tun,
    plan: &'a Plan,
    lane: Lane,
    /// The lane from before t = 0, until it is empty.
    old: Option<Lane>,
    /// Segs on the detour, with the CLOCK_MONOTONIC of its end.
    away: VecDeque<(u64, Seg)>,
    pool: Pool,
    bins: Bins,
    refused: u64,
    reads: u64,
}

/// A link and the CLOCK_MONOTONIC of its time 0.
struct Lane {
    link: Link<Seg>,
    zero_ns: u64,
}

impl<'a> Direction<'a> {
    fn new(from: &'a Tun, to: &'a Tun, plan: &'a Plan, zero_ns: u64) -> Self {
        let lane = Lane { link: Link::new(&plan.before, plan.seed), zero_ns };
        Self {
            from,
            to,
            plan,
            lane,
            old: None,
            away: VecDeque::new(),
            pool: Pool::new(),
            bins: Bins::new(plan.bin_us),
            refused: 0,
            reads: 0,
        }
    }

    /// Replaces the link by one whose schedule, random numbers and log start at `zero_ns`.
    fn start(&mut self, zero_ns: u64) {
        let lane = Lane { link: Link::new(&self.plan.spec, self.plan.seed), zero_ns };
        self.old = Some(std::mem::replace(&mut self.lane, lane));
        self.bins = Bins::new(self.plan.bin_us);
        self.reads = 0;
    }

    fn next_ns(&self) -> Option<u64> {
        let next = |lane: &Lane| lane.link.next_ns().map(|ns| ns + lane.zero_ns);
        let back = self.away.front().map(|(ns, _)| *ns);
        [self.old.as_ref().and_then(next), next(&self.lane), back].into_iter().flatten().min()
    }

    /// Takes what the device has and pushes it into the link, MTU packet by MTU packet.
    fn receive(&mut self) -> io::Result<()> {
        for _ in 0..READS_PER_TURN {
            let (chunk, at) = self.pool.room();
            let n = match self.from.read(&chunk.bytes[at..at + READ_MAX]) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                n => n?,
            };
            if n <= VNET_BYTES {
                continue;
            }
            self.reads += 1;
            let mut head = [0; HEAD_MAX];
            let head = chunk.copy_head(at, n, &mut head);
            let shape = packet::shape(head, n - VNET_BYTES);
            let monotonic_ns = monotonic_ns();
            let now_ns = monotonic_ns.saturating_sub(self.lane.zero_ns);
            let detour = self.plan.detour.filter(|d| packet::has_port(head, d.port));
            for index in 0..shape.count() {
                let seg = Seg { chunk: Rc::clone(chunk), at: at as u32, shape, index: index as u16 };
                match detour {
                    Some(detour) => self.away.push_back((monotonic_ns + detour.extra_ns / 2, seg)),
                    None => self.lane.link.push(now_ns, seg.bytes(), shape.ect, seg),
                }
            }
            self.bins.on_stats(now_ns, self.lane.link.stats());
            self.pool.keep(n);
        }
        Ok(())
    }

    /// Writes what is due.
    fn release(&mut self, late: &mut Histogram) {
        if !self.away.is_empty() {
            self.come_back(monotonic_ns());
        }
        if let Some(mut old) = self.old.take() {
            let now_ns = monotonic_ns() - old.zero_ns;
            while let Some(out) = old.link.pop(now_ns) {
                self.write(&Run::of(&out));
            }
            self.old = old.link.next_ns().is_some().then_some(old);
        }
        let due_ns = monotonic_ns().saturating_sub(self.lane.zero_ns);
        let mut now_ns = due_ns;
        let mut run: Option<Run> = None;
        while let Some(out) = self.lane.link.pop(due_ns) {
            late.add(now_ns.saturating_sub(out.at_ns));
            self.bins.on_out(now_ns, &out);
            if run.as_mut().is_some_and(|r| r.take(&out)) {
                continue;
            }
            if let Some(full) = run.replace(Run::of(&out)) {
                self.write(&full);
                now_ns = monotonic_ns().saturating_sub(self.lane.zero_ns);
            }
        }
        if let Some(last) = run {
            self.write(&last);
            self.bins.on_stats(now_ns, self.lane.link.stats());
        }
    }

    /// Pushes what has ended its detour into the link.
    fn come_back(&mut self, monotonic_ns: u64) {
        let now_ns = monotonic_ns.saturating_sub(self.lane.zero_ns);
        while self.away.front().is_some_and(|(ns, _)| *ns <= monotonic_ns) {
            let (_, seg) = self.away.pop_front().expect("just seen");
            self.lane.link.push(now_ns, seg.bytes(), seg.shape.ect, seg);
        }
    }

    fn write(&mut self, run: &Run) {
        // A refused packet is one that the host at the end of the path lost: out of memory, interface down.
        if run.write(self.to).is_err() {
            self.refused += u64::from(run.count);
        }
    }
}

/// One MTU packet of a packet in a chunk.
#[derive(Clone, Debug)]
struct Seg {
    chunk: Rc<Chunk>,
    /// Where the virtio-net header of the whole packet is in the chunk.
    at: u32,
    shape: Shape,
    index: u16,
}

impl Seg {
    fn bytes(&self) -> u32 {
        self.shape.bytes_of(u32::from(self.index))
    }
}

/// Consecutive segs of one packet that leave together.
struct Run {
    first: Seg,
    count: u32,
    ce: bool,
}

impl Run {
    fn of(out: &Out<Seg>) -> Run {
        Run { first: out.packet.clone(), count: 1, ce: out.ce }
    }

    /// Adds the seg if it continues the run.
    fn take(&mut self, out: &Out<Seg>) -> bool {
        let (first, next) = (&self.first, &out.packet);
        let is_next = Rc::ptr_eq(&first.chunk, &next.chunk)
            && first.at == next.at
            && u32::from(next.index) == u32::from(first.index) + self.count
            && self.ce == out.ce;
        self.count += u32::from(is_next);
        is_next
    }

    fn write(&self, to: &Tun) -> io::Result<()> {
        let Seg { chunk, at, shape, index } = &self.first;
        let at = *at as usize;
        let end = at + VNET_BYTES + shape.ip_bytes as usize;
        if self.count == shape.count() && !self.ce {
            return to.write(&[], &chunk.bytes[at..end]);
        }
        let mut head = [0; HEAD_MAX];
        let n = chunk.copy_head(at, end - at, &mut head).len();
        let (head_bytes, rest) = packet::cut(&mut head[..n], shape, u32::from(*index), self.count, self.ce);
        let body = &chunk.bytes[at + VNET_BYTES..end];
        to.write(&head[..head_bytes], &body[rest])
    }
}

/// Room for one read: virtio-net header and the largest packet.
const READ_MAX: usize = VNET_BYTES + 65_536;
const CHUNK_BYTES: usize = 1 << 20;

/// Memory that packets are read into, one behind the other.
struct Chunk {
    bytes: Box<[Cell<u8>]>,
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunk").finish_non_exhaustive()
    }
}

impl Chunk {
    fn new() -> Rc<Chunk> {
        Rc::new(Chunk { bytes: vec![Cell::new(0); CHUNK_BYTES].into() })
    }

    /// The first bytes of the `n` bytes at `at`.
    fn copy_head<'h>(&self, at: usize, n: usize, head: &'h mut [u8; HEAD_MAX]) -> &'h [u8] {
        let n = n.min(HEAD_MAX);
        for (to, from) in head.iter_mut().zip(&self.bytes[at..at + n]) {
            *to = from.get();
        }
        &head[..n]
    }
}

/// The chunks of one direction: the one being filled, and full ones in the order of filling.
struct Pool {
    current: Rc<Chunk>,
    used: usize,
    full: VecDeque<Rc<Chunk>>,
}

impl Pool {
    fn new() -> Pool {
        Pool { current: Chunk::new(), used: 0, full: VecDeque::new() }
    }

    /// A chunk and a place in it with room for a read.
    fn room(&mut self) -> (&Rc<Chunk>, usize) {
        if Rc::strong_count(&self.current) == 1 {
            self.used = 0; // nothing of it is under way: stay in the same, warm, memory
        } else if self.used + READ_MAX > CHUNK_BYTES {
            let free = self.full.iter().position(|c| Rc::strong_count(c) == 1);
            let next = free.and_then(|i| self.full.remove(i)).unwrap_or_else(Chunk::new);
            self.full.push_back(std::mem::replace(&mut self.current, next));
            self.used = 0;
        }
        (&self.current, self.used)
    }

    /// The first `n` bytes of the room hold a packet now.
    fn keep(&mut self, n: usize) {
        self.used += n.next_multiple_of(8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seg(chunk: &Rc<Chunk>, at: u32, index: u16) -> Out<Seg> {
        let shape = Shape { ip_bytes: 10_040, head_bytes: 40, mss: 1000, ect: false };
        let packet = Seg { chunk: Rc::clone(chunk), at, shape, index };
        Out { packet, bytes: 1040, ce: false, in_ns: 0, sent_ns: 0, at_ns: 0 }
    }

    #[test]
    fn only_the_next_equally_marked_seg_of_the_same_packet_continues_a_run() {
        let (a, b) = (Chunk::new(), Chunk::new());
        let mut run = Run::of(&seg(&a, 0, 3));
        for wrong in [seg(&a, 0, 3), seg(&a, 0, 5), seg(&a, 8, 4), seg(&b, 0, 4)] {
            assert!(!run.take(&wrong));
        }
        assert!(!run.take(&Out { ce: true, ..seg(&a, 0, 4) }));
        assert!(run.take(&seg(&a, 0, 4)) && run.take(&seg(&a, 0, 5)));
        assert_eq!(run.count, 3);
    }

    #[test]
    fn memory_is_reused_once_its_packets_have_left_and_not_before() {
        let mut pool = Pool::new();
        let mut held = Vec::new();
        let mut places = std::collections::HashSet::new();
        for _ in 0..100 {
            let (chunk, at) = pool.room();
            assert!(at + READ_MAX <= CHUNK_BYTES);
            held.push(Rc::clone(chunk));
            assert!(places.insert((Rc::as_ptr(chunk), at)), "a place was given twice");
            pool.keep(60_000);
        }
        let chunks = pool.full.len() + 1;
        assert_eq!(chunks, 100_usize.div_ceil(CHUNK_BYTES / 60_000));
        drop(held);
        for _ in 0..100 {
            let (chunk, _) = pool.room();
            let _hold = Rc::clone(chunk);
            pool.keep(60_000);
        }
        assert_eq!(pool.full.len() + 1, chunks, "no new memory");
    }
}
