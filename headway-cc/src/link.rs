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
use crate::sequence::SequenceBuffer;
use codel::{Codel, Verdict};
use delay::Extra;
use loss::Losses;
use server::{FAR, NEVER, Server};
pub use spec::*;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

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

/// Totals since the start, and the queue as of the last call; packets and bytes. Numbers that grow together are not
/// neighbours, because the compiler would add them as one vector, which takes three times the instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Pushed, whatever became of them.
    pub in_packets: u64,
    /// Popped at the far end.
    pub out_packets: u64,
    /// Dropped by the queue discipline or a policer.
    pub drop_packets: u64,
    /// Lost by the loss model; counted when the packet starts to be serialised.
    pub lost_packets: u64,
    /// Marked CE and not lost; counted when the packet starts to be serialised.
    pub mark_packets: u64,
    /// In the queue now, the packet being serialised not counted.
    pub queue_packets: u64,
    /// Bytes of the packets pushed.
    pub in_bytes: u64,
    /// Bytes of the packets popped.
    pub out_bytes: u64,
    /// Bytes of the packets dropped.
    pub drop_bytes: u64,
    /// Bytes of the packets lost.
    pub lost_bytes: u64,
    /// Bytes of the packets in the queue.
    pub queue_bytes: u64,
}

/// A link that carries packets of type `P`.
#[derive(Debug)]
pub struct Link<P> {
    now_ns: u64,
    server: Server,
    /// First the packets that are being serialised or on their way, in the order of arrival, then those that wait. A
    /// packet keeps its place while it goes from the queue to the wire.
    packets: SequenceBuffer<Carried<P>>,
    /// When the first of those that wait leaves the queue, if one waits.
    turn_ns: u64,
    /// What becomes of a packet is known when it joins the queue: nothing drops it there, loses it or lets others
    /// overtake it. It is served at once then, so that only the count of what waits has to follow the time. Not where a
    /// schedule repeats: a packet may take millions of passes, and most of those that wait for that never leave.
    is_foreseen: bool,
    /// When the next packet arrives at the far end; [`NEVER`] when none is on its way.
    arrival_ns: u64,
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
    /// Where the packets go that have left the queue when they may overtake each other.
    heap: Option<BinaryHeap<Flying<P>>>,
    /// Counts the packets put into `heap`.
    flown: u64,
    stats: LinkStats,
}

/// A packet inside the link. Its last two times are known once it is served.
#[derive(Debug)]
struct Carried<P> {
    /// `None` when it was lost on the wire or dropped and only keeps its place behind those that arrive before it.
    packet: Option<P>,
    bytes: u32,
    ect: bool,
    ce: bool,
    in_ns: u64,
    sent_ns: u64,
    at_ns: u64,
}

impl<P> Default for Carried<P> {
    fn default() -> Self {
        let (bytes, ect, ce, in_ns, sent_ns, at_ns) = (0, false, false, 0, NEVER, NEVER);
        Self { packet: None, bytes, ect, ce, in_ns, sent_ns, at_ns }
    }
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
        let is_random = losses.is_some() || spec.reorder.is_some();
        let is_foreseen = !is_random && spec.codel.is_none() && spec.repeat_ns.is_none();
        let has_extra = spec.jitter.is_some() || spec.reorder.is_some() || spec.release_ns > 0;
        let extra = || Extra::new(spec, rng(JITTER_STREAM), rng(REORDER_STREAM), hash(seed, HOLD_STREAM));
        Self {
            now_ns: 0,
            server: Server::new(spec),
            packets: SequenceBuffer::new(64),
            turn_ns: 0,
            is_foreseen,
            arrival_ns: NEVER,
            limit_bytes: spec.limit_bytes,
            limit_packets: spec.limit_packets,
            bucket: spec.policer.map(Bucket::new),
            codel: spec.codel.map(|c| Codel::new(c, spec.ecn)),
            max_bytes: 0,
            ce_ns: spec.ce_ns.unwrap_or(NEVER),
            losses,
            extra: has_extra.then(extra),
            last_at_ns: 0,
            heap: spec.reorder.map(|_| BinaryHeap::new()),
            flown: 0,
            stats: LinkStats::default(),
        }
    }

    /// A packet of `bytes` (IP header included, at most 16 MB) arrives at `now_ns`. `ect`: it may be marked instead
    /// of dropped. Whether it finds room is decided by the queue as it is at `now_ns`.
    #[inline(always)]
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
        let is_idle = !self.is_waiting() && self.turn_ns <= in_ns;
        if !is_idle {
            let queue_bytes = self.stats.queue_bytes + u64::from(bytes);
            if queue_bytes > self.limit_bytes || self.stats.queue_packets >= self.limit_packets {
                return self.count_drop(bytes);
            }
            self.stats.queue_packets += 1;
            self.stats.queue_bytes = queue_bytes;
        }
        if is_idle {
            self.server.resume(in_ns);
        }
        if self.is_foreseen {
            return self.foresee(in_ns, bytes, ect, packet);
        }
        self.packets.push(Carried { packet: Some(packet), bytes, ect, in_ns, ..Carried::default() });
        if is_idle {
            self.begin(in_ns, ect);
        }
    }

    /// The next packet that has arrived at the far end by `now_ns`, in order of arrival.
    #[inline(always)]
    pub fn pop(&mut self, now_ns: u64) -> Option<Out<P>> {
        self.advance(now_ns);
        if self.arrival_ns > self.now_ns {
            return None;
        }
        if !self.is_foreseen {
            self.land();
        }
        let first = self.packets.start();
        let Carried { packet, bytes, ce, in_ns, sent_ns, at_ns, .. } = &mut self.packets[first];
        let out = Out {
            packet: packet.take()?,
            bytes: *bytes,
            ce: *ce,
            in_ns: *in_ns,
            sent_ns: *sent_ns,
            at_ns: *at_ns,
        };
        self.forget_first();
        self.stats.out_packets += 1;
        self.stats.out_bytes += u64::from(out.bytes);
        Some(out)
    }

    /// What [`Link::pop`] would return now: the packet, its size, when it was pushed and when it left the queue.
    pub(crate) fn peek(&self) -> Option<(&P, u32, u64, u64)> {
        let first = self.first().filter(|_| self.arrival_ns <= self.now_ns)?;
        Some((first.packet.as_ref()?, first.bytes, first.in_ns, first.sent_ns))
    }

    /// When to call [`Link::pop`] next; `None` when nothing will come out without a push. Exact, except that a lost
    /// packet, or packets overtaking each other, may make the link ask for a call that returns nothing.
    #[inline]
    pub fn next_ns(&self) -> Option<u64> {
        let next_ns = self.due_ns();
        (next_ns != NEVER).then_some(next_ns)
    }

    /// [`Link::next_ns`]; [`NEVER`] for `None`.
    #[inline(always)]
    pub(crate) fn due_ns(&self) -> u64 {
        if self.is_foreseen { self.arrival_ns } else { self.due_unforeseen_ns() }
    }

    /// Brings the queue to `now_ns`; [`Link::push`] and [`Link::pop`] do so by themselves.
    #[inline(always)]
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns.min(FAR - 1));
        while self.is_waiting() && self.turn_ns <= self.now_ns {
            if self.is_foreseen {
                self.take_turn();
            } else {
                self.dequeue(self.turn_ns);
                self.turn_ns = self.server.free_ns();
            }
        }
    }

    /// As of the last [`Link::push`], [`Link::pop`] or [`Link::advance`], and the queue at the time that it was given.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Packets and bytes that are neither out nor gone, by going through them.
    pub fn inside(&self) -> (u64, u64) {
        let flying = self.heap.iter().flatten().map(|f| &f.carried);
        let present = self.packets.iter().chain(flying).filter(|c| c.packet.is_some());
        present.fold((0, 0), |sum, c| (sum.0 + 1, sum.1 + u64::from(c.bytes)))
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        self.stats.queue_packets > 0
    }

    /// Apart, because most links are foreseen.
    #[cold]
    fn due_unforeseen_ns(&self) -> u64 {
        let is_asking = self.is_waiting() && (self.arrival_ns == NEVER || self.heap.is_some());
        if is_asking { self.arrival_ns.min(self.turn_ns) } else { self.arrival_ns }
    }

    /// The packet that arrives first, or one that still waits if none is on its way.
    #[inline]
    fn first(&self) -> Option<&Carried<P>> {
        if self.is_foreseen {
            return self.packets.first();
        }
        match &self.heap {
            Some(heap) => heap.peek().map(|flying| &flying.carried),
            None => self.packets.first(),
        }
    }

    /// Puts the packet that arrives first in front of the others, where they may overtake each other.
    #[cold]
    fn land(&mut self) {
        if let Some(first) = self.heap.as_mut().and_then(BinaryHeap::pop) {
            self.packets.put_before(first.carried);
        }
    }

    /// Lets go of the first packet, and of those behind it that were given up.
    #[inline]
    fn forget_first(&mut self) {
        self.packets.forget_before(self.packets.start() + 1);
        while self.packets.first().is_some_and(|next| next.packet.is_none()) {
            self.packets.forget_before(self.packets.start() + 1);
        }
        self.arrival_ns = self.first().map_or(NEVER, |next| next.at_ns);
    }

    /// The number of the first packet that waits.
    #[inline]
    fn first_waiting(&self) -> u64 {
        self.packets.end() - self.stats.queue_packets
    }

    /// A packet has joined the queue, or the wire if the link is idle, and what becomes of it is known.
    #[inline(always)]
    fn foresee(&mut self, in_ns: u64, bytes: u32, ect: bool, packet: P) {
        let start_ns = self.server.free_ns();
        let sent_ns = self.server.serve(bytes);
        let ce = ect && self.is_late(in_ns, start_ns);
        let at_ns = self.arrival_of(sent_ns);
        if !self.is_waiting() {
            self.turn_ns = sent_ns;
        }
        if self.packets.is_empty() {
            self.arrival_ns = at_ns;
        }
        self.packets.push(Carried { packet: Some(packet), bytes, ect, ce, in_ns, sent_ns, at_ns });
    }

    /// The head of the queue leaves it, at the time that was foreseen.
    #[inline]
    fn take_turn(&mut self) {
        let head = &self.packets[self.first_waiting()];
        self.stats.queue_packets -= 1;
        self.stats.queue_bytes -= u64::from(head.bytes);
        self.stats.mark_packets += u64::from(head.ce);
        self.turn_ns = head.sent_ns;
    }

    /// Lets the packet at the head of the queue go, or the next one that CoDel lets pass. Apart from
    /// [`Link::advance`], which finds nothing to do most of the time.
    #[inline(never)]
    fn dequeue(&mut self, start_ns: u64) {
        while self.is_waiting() {
            let number = self.first_waiting();
            let head = &self.packets[number];
            self.stats.queue_packets -= 1;
            self.stats.queue_bytes -= u64::from(head.bytes);
            let verdict = self.codel.as_mut().map_or(Verdict::Pass, |codel| {
                let is_short = self.stats.queue_bytes <= u64::from(self.max_bytes);
                codel.judge(start_ns, start_ns - head.in_ns, is_short, head.ect)
            });
            if verdict != Verdict::Drop {
                return self.send(number, start_ns, verdict == Verdict::Mark);
            }
            self.count_drop(head.bytes);
            self.give_up(number);
        }
        if let Some(codel) = &mut self.codel {
            codel.on_empty();
        }
    }

    /// A packet has come to an idle link.
    #[inline(never)]
    fn begin(&mut self, now_ns: u64, ect: bool) {
        if let Some(codel) = &mut self.codel {
            codel.judge(now_ns, 0, true, ect);
        }
        self.send(self.packets.end() - 1, now_ns, false);
        self.turn_ns = self.server.free_ns();
    }

    /// Serialises a packet, which none waits before, from `start_ns` on and puts it on the wire.
    fn send(&mut self, number: u64, start_ns: u64, is_marked: bool) {
        let head = &self.packets[number];
        let sent_ns = self.server.serve(head.bytes);
        let ce = is_marked || (head.ect && self.is_late(head.in_ns, start_ns));
        if let Some(losses) = &mut self.losses {
            if let Some(loss) = self.server.take_loss_step().and_then(|s| s.loss.as_ref()) {
                losses.set(loss);
            }
            if sent_ns != NEVER && losses.is_lost(sent_ns) {
                self.stats.lost_packets += 1;
                self.stats.lost_bytes += u64::from(head.bytes);
                return self.give_up(number);
            }
        }
        self.stats.mark_packets += u64::from(ce);
        let at_ns = self.arrival_of(sent_ns);
        let head = &mut self.packets[number];
        (head.ce, head.sent_ns, head.at_ns) = (ce, sent_ns, at_ns);
        if let Some(heap) = &mut self.heap {
            self.flown += 1;
            heap.push(Flying { carried: std::mem::take(head), order: self.flown });
            self.forget_first();
        } else if number == self.packets.start() {
            self.arrival_ns = at_ns;
        }
    }

    /// Whether a packet that leaves the queue at `start_ns` has waited for so long that it is marked.
    #[inline]
    fn is_late(&self, in_ns: u64, start_ns: u64) -> bool {
        start_ns - in_ns > self.ce_ns
    }

    /// When a packet that is serialised at `sent_ns` arrives.
    #[inline]
    fn arrival_of(&mut self, sent_ns: u64) -> u64 {
        self.last_at_ns = match &mut self.extra {
            _ if sent_ns == NEVER => NEVER,
            Some(extra) => extra.arrival_ns(sent_ns, self.server.delay_ns),
            None => self.last_at_ns.max(sent_ns + self.server.delay_ns),
        };
        self.last_at_ns
    }

    /// The packet at the head of the queue is dropped or lost. Behind others on the wire it keeps its place, because
    /// taking it out would move all that is before or behind it.
    #[cold]
    fn give_up(&mut self, number: u64) {
        self.packets[number].packet = None;
        if number == self.packets.start() {
            self.forget_first();
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
    carried: Carried<P>,
    /// Breaks ties in the order of sending.
    order: u64,
}

impl<P> Ord for Flying<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.carried.at_ns, other.order).cmp(&(self.carried.at_ns, self.order))
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
