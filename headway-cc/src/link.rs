//! One link with a bottleneck: rate, delay, queue, loss and CE marks.
//!
//! The simulator runs this code in virtual time and the emulator in real time, so that both mean the same by the same
//! path. Therefore time is an argument of every call (nanoseconds since the link's start); it must never go back.
//!
//! ```text
//! push ─► policer ─► queue (drop-tail, CoDel, CE threshold) ─► serialisation ─► loss ─► delay, jitter ─► pop
//! ```
//!
//! Every time is computed from the model and not from the moment of the call: a packet leaves the queue when the one
//! before it has been serialised, however late [`Link::pop`] is called. Without that a busy machine would emulate a
//! slower link than it was asked for.
//!
//! At any time, packets pushed = popped + dropped + lost + still inside.

mod codel;
mod delay;
mod loss;
mod server;
mod spec;

use crate::rand::{Rng, hash};
use codel::{Codel, Verdict};
use delay::Extra;
use loss::Losses;
use server::{FAR, NEVER, Server};
pub use spec::*;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// Each random part of a link draws from a stream of its own, so that adding one part does not change the others.
const LOSS_STREAM: u64 = 0;
const JITTER_STREAM: u64 = 1;
const REORDER_STREAM: u64 = 2;
const HOLD_STREAM: u64 = 3;

/// A packet that leaves the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out<P> {
    /// As given to [`Link::push`], which does not look into it.
    pub packet: P,
    /// As given to [`Link::push`].
    pub bytes: u32,
    /// Marked CE on the way (only ECT packets).
    pub ce: bool,
    /// When it was pushed.
    pub in_ns: u64,
    /// When it left the queue, serialised.
    pub sent_ns: u64,
    /// When it arrives at the far end (now or earlier).
    pub at_ns: u64,
}

/// Totals since the start, and the queue as of the last call; packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Pushed, whatever became of them.
    pub in_packets: u64,
    /// Bytes of the packets pushed.
    pub in_bytes: u64,
    /// Popped at the far end.
    pub out_packets: u64,
    /// Bytes of the packets popped.
    pub out_bytes: u64,
    /// Dropped by the queue discipline or a policer.
    pub drop_packets: u64,
    /// Bytes of the packets dropped.
    pub drop_bytes: u64,
    /// Lost by the loss model; counted when the packet starts to be serialised.
    pub lost_packets: u64,
    /// Bytes of the packets lost.
    pub lost_bytes: u64,
    /// Marked CE and not lost; counted when the packet starts to be serialised.
    pub mark_packets: u64,
    /// In the queue now, the packet being serialised not counted.
    pub queue_packets: u64,
    /// Bytes of the packets in the queue.
    pub queue_bytes: u64,
}

/// A link that carries packets of type `P`.
#[derive(Debug)]
pub struct Link<P> {
    now_ns: u64,
    server: Server,
    waiting: VecDeque<Waiting<P>>,
    limit_bytes: u64,
    limit_packets: u64,
    bucket: Option<Bucket>,
    codel: Option<Codel>,
    /// Largest packet seen. CoDel never drops while no more than this waits (RFC 8289, section 5.5: `maxpacket_`).
    max_bytes: u32,
    ce_ns: u64,
    /// `None` when packets are never lost, which spares the check for each of them.
    losses: Option<Losses>,
    /// `None` when nothing is added to the propagation delay.
    extra: Option<Extra>,
    last_at_ns: u64,
    /// Packets that are being serialised or on their way, in the order of arrival.
    wire: VecDeque<Out<P>>,
    /// Used in place of `wire` when packets may overtake each other.
    heap: Option<BinaryHeap<Flying<P>>>,
    /// Counts the packets put into `heap`.
    flown: u64,
    stats: LinkStats,
}

#[derive(Debug)]
struct Waiting<P> {
    packet: P,
    bytes: u32,
    ect: bool,
    in_ns: u64,
}

impl<P> Link<P> {
    /// A link at time 0. The same spec, seed and calls give the same outcome; each random part has its own stream.
    pub fn new(spec: &LinkSpec, seed: u64) -> Self {
        let seed = hash(seed, spec.random_stream);
        let rng = |stream| Rng::new(seed, stream);
        let losses = std::iter::once(&spec.loss).chain(spec.steps.iter().filter_map(|s| s.loss.as_ref()));
        let is_lossy = losses.into_iter().any(|l| *l != Loss::None);
        let mut losses = is_lossy.then(|| Losses::new(rng(LOSS_STREAM)));
        if let Some(losses) = &mut losses {
            losses.set(&spec.loss);
        }
        let has_extra = spec.jitter.is_some() || spec.reorder.is_some() || spec.release_ns > 0;
        let extra = || Extra::new(spec, rng(JITTER_STREAM), rng(REORDER_STREAM), hash(seed, HOLD_STREAM));
        Self {
            now_ns: 0,
            server: Server::new(spec),
            waiting: VecDeque::new(),
            limit_bytes: spec.limit_bytes,
            limit_packets: spec.limit_packets,
            bucket: spec.policer.map(Bucket::new),
            codel: spec.codel.map(|c| Codel::new(c, spec.ecn)),
            max_bytes: 0,
            ce_ns: spec.ce_ns.unwrap_or(NEVER),
            losses,
            extra: has_extra.then(extra),
            last_at_ns: 0,
            wire: VecDeque::new(),
            heap: spec.reorder.map(|_| BinaryHeap::new()),
            flown: 0,
            stats: LinkStats::default(),
        }
    }

    /// A packet of `bytes` (IP header included, at most 16 MB) arrives at `now_ns`. `ect`: it may be marked instead
    /// of dropped. Whether it finds room is decided by the queue as it is at `now_ns`.
    pub fn push(&mut self, now_ns: u64, bytes: u32, ect: bool, packet: P) {
        self.advance(now_ns);
        let in_ns = self.now_ns;
        self.stats.in_packets += 1;
        self.stats.in_bytes += u64::from(bytes);
        if let Some(bucket) = &mut self.bucket
            && !bucket.admits(in_ns, bytes)
        {
            return self.count_drop(bytes);
        }
        self.max_bytes = self.max_bytes.max(bytes);
        let waiting = Waiting { packet, bytes, ect, in_ns };
        if self.waiting.is_empty() && self.server.free_ns() <= in_ns {
            self.server.resume(in_ns);
            if let Some(codel) = &mut self.codel {
                codel.judge(in_ns, 0, true, ect);
            }
            return self.send(waiting, in_ns, false);
        }
        let queue_bytes = self.stats.queue_bytes + u64::from(bytes);
        if queue_bytes > self.limit_bytes || self.stats.queue_packets >= self.limit_packets {
            return self.count_drop(bytes);
        }
        self.stats.queue_packets += 1;
        self.stats.queue_bytes = queue_bytes;
        self.waiting.push_back(waiting);
    }

    /// The next packet that has arrived at the far end by `now_ns`, in order of arrival.
    pub fn pop(&mut self, now_ns: u64) -> Option<Out<P>> {
        self.advance(now_ns);
        let out = match &mut self.heap {
            Some(heap) if heap.peek()?.out.at_ns <= self.now_ns => heap.pop()?.out,
            None if self.wire.front()?.at_ns <= self.now_ns => self.wire.pop_front()?,
            _ => return None,
        };
        self.stats.out_packets += 1;
        self.stats.out_bytes += u64::from(out.bytes);
        Some(out)
    }

    /// When to call [`Link::pop`] next; `None` when nothing will come out without a push. Exact, except that a lost
    /// packet, or packets overtaking each other, may make the link ask for a call that returns nothing.
    pub fn next_ns(&self) -> Option<u64> {
        let arrival_ns = match &self.heap {
            Some(heap) => heap.peek().map(|f| f.out.at_ns),
            None => self.wire.front().map(|o| o.at_ns),
        };
        let service_ns = (!self.waiting.is_empty()).then(|| self.server.free_ns());
        let next_ns = match (arrival_ns, service_ns) {
            (Some(arrival_ns), Some(service_ns)) if self.heap.is_some() => arrival_ns.min(service_ns),
            (Some(arrival_ns), _) => arrival_ns,
            (None, service_ns) => service_ns?,
        };
        (next_ns != NEVER).then_some(next_ns)
    }

    /// Brings the queue to `now_ns`; [`Link::push`] and [`Link::pop`] do so by themselves.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns.min(FAR - 1));
        if !self.waiting.is_empty() && self.server.free_ns() <= self.now_ns {
            self.serve_waiting();
        }
    }

    /// As of the last [`Link::push`], [`Link::pop`] or [`Link::advance`], and the queue at the time that it was given.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Packets and bytes that are neither out nor gone, by going through them.
    pub fn inside(&self) -> (u64, u64) {
        let waiting = self.waiting.iter().map(|w| w.bytes);
        let flying = self.heap.iter().flatten().map(|f| f.out.bytes);
        let sizes = waiting.chain(self.wire.iter().map(|o| o.bytes)).chain(flying);
        sizes.fold((0, 0), |sum, bytes| (sum.0 + 1, sum.1 + u64::from(bytes)))
    }

    /// Serves every packet whose turn has come.
    fn serve_waiting(&mut self) {
        while !self.waiting.is_empty() && self.server.free_ns() <= self.now_ns {
            self.dequeue(self.server.free_ns());
        }
    }

    /// Takes the packet at the head of the queue, or the next one that CoDel lets pass.
    #[inline]
    fn dequeue(&mut self, start_ns: u64) {
        while let Some(head) = self.waiting.pop_front() {
            self.stats.queue_packets -= 1;
            self.stats.queue_bytes -= u64::from(head.bytes);
            let Some(codel) = &mut self.codel else { return self.send(head, start_ns, false) };
            let is_short = self.stats.queue_bytes <= u64::from(self.max_bytes);
            match codel.judge(start_ns, start_ns - head.in_ns, is_short, head.ect) {
                Verdict::Pass => return self.send(head, start_ns, false),
                Verdict::Mark => return self.send(head, start_ns, true),
                Verdict::Drop => self.count_drop(head.bytes),
            }
        }
        if let Some(codel) = &mut self.codel {
            codel.on_empty();
        }
    }

    /// Serialises a packet from `start_ns` on and puts it on the wire.
    #[inline(always)]
    fn send(&mut self, head: Waiting<P>, start_ns: u64, is_marked: bool) {
        let sent_ns = self.server.serve(head.bytes);
        let ce = is_marked || (head.ect && start_ns - head.in_ns > self.ce_ns);
        if let Some(losses) = &mut self.losses {
            if let Some(loss) = self.server.take_loss_step().and_then(|s| s.loss.as_ref()) {
                losses.set(loss);
            }
            if sent_ns != NEVER && losses.is_lost(sent_ns) {
                self.stats.lost_packets += 1;
                self.stats.lost_bytes += u64::from(head.bytes);
                return;
            }
        }
        self.stats.mark_packets += u64::from(ce);
        let at_ns = match &mut self.extra {
            _ if sent_ns == NEVER => NEVER,
            Some(extra) => extra.arrival_ns(sent_ns, self.server.delay_ns),
            None => self.last_at_ns.max(sent_ns + self.server.delay_ns),
        };
        self.last_at_ns = at_ns;
        let out = Out { packet: head.packet, bytes: head.bytes, ce, in_ns: head.in_ns, sent_ns, at_ns };
        match &mut self.heap {
            None => self.wire.push_back(out),
            Some(heap) => {
                self.flown += 1;
                heap.push(Flying { out, order: self.flown });
            }
        }
    }

    fn count_drop(&mut self, bytes: u32) {
        self.stats.drop_packets += 1;
        self.stats.drop_bytes += u64::from(bytes);
    }
}

/// A packet on a wire that does not keep the order; the earliest arrival is the greatest.
#[derive(Debug)]
struct Flying<P> {
    out: Out<P>,
    /// Breaks ties in the order of sending.
    order: u64,
}

impl<P> Ord for Flying<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.out.at_ns, other.order).cmp(&(self.out.at_ns, self.order))
    }
}

impl<P> PartialOrd for Flying<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Flying<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for Flying<P> {}

/// A policer's token bucket. It counts in bits times 10^9: then a rate in bits per second earns a whole number of
/// tokens in every nanosecond, and nothing is lost to rounding. A bucket of 1 GB fits in 64 bits.
#[derive(Debug)]
struct Bucket {
    rate_bps: u64,
    size: u64,
    tokens: u64,
    last_ns: u64,
}

impl Bucket {
    fn new(policer: Policer) -> Self {
        let size = policer.burst_bytes.min(1_000_000_000) * 8_000_000_000;
        Self { rate_bps: policer.rate_bps, size, tokens: size, last_ns: 0 }
    }

    /// Whether the bucket holds enough for a packet, which then is taken out of it.
    fn admits(&mut self, now_ns: u64, bytes: u32) -> bool {
        let earned = self.rate_bps.saturating_mul(now_ns - self.last_ns);
        self.tokens = self.tokens.saturating_add(earned).min(self.size);
        self.last_ns = now_ns;
        let cost = u64::from(bytes).saturating_mul(8_000_000_000);
        let is_in = cost <= self.tokens;
        self.tokens -= if is_in { cost } else { 0 };
        is_in
    }
}
