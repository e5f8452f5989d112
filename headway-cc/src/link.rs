//! One bottleneck: rate, delay, queue, loss, marks. One code, two clocks: the simulator runs it in virtual
//! time, the emulator in real time. Time is an argument (nanoseconds since the link's start).
//!
//! Law: packets pushed = popped + dropped + still inside.

mod spec;

pub use spec::*;

/// A packet that leaves the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out<P> {
    pub packet: P,
    /// Marked CE on the way (only ECT packets).
    pub ce: bool,
    /// When it was pushed.
    pub in_ns: u64,
    /// When it left the queue, serialised.
    pub sent_ns: u64,
    /// When it arrives at the far end (now or earlier).
    pub at_ns: u64,
}

/// Totals since the start; packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    pub in_packets: u64,
    pub in_bytes: u64,
    pub out_packets: u64,
    pub out_bytes: u64,
    /// Dropped by the queue discipline or a policer.
    pub drop_packets: u64,
    pub drop_bytes: u64,
    /// Lost by the loss model.
    pub lost_packets: u64,
    pub lost_bytes: u64,
    pub mark_packets: u64,
    /// In the queue now.
    pub queue_packets: u64,
    pub queue_bytes: u64,
}

/// A link that carries packets of type `P`.
#[derive(Debug)]
pub struct Link<P> {
    spec: LinkSpec,
    fifo: std::collections::VecDeque<Out<P>>,
    stats: LinkStats,
}

impl<P> Link<P> {
    pub fn new(spec: &LinkSpec, _seed: u64) -> Self {
        Self { spec: spec.clone(), fifo: Default::default(), stats: LinkStats::default() }
    }
    /// A packet of `bytes` (IP header included) arrives. `ect`: it may be marked instead of dropped.
    pub fn push(&mut self, now_ns: u64, bytes: u32, _ect: bool, packet: P) {
        let at_ns = now_ns + self.spec.delay_ns;
        self.stats.in_packets += 1;
        self.stats.in_bytes += u64::from(bytes);
        self.fifo.push_back(Out { packet, ce: false, in_ns: now_ns, sent_ns: now_ns, at_ns });
    }
    /// The next packet that has arrived at the far end by `now_ns`.
    pub fn pop(&mut self, now_ns: u64) -> Option<Out<P>> {
        if self.fifo.front()?.at_ns > now_ns {
            return None;
        }
        self.stats.out_packets += 1;
        self.fifo.pop_front()
    }
    /// When to call [`Link::pop`] next; `None` when the link is empty.
    pub fn next_ns(&self) -> Option<u64> {
        self.fifo.front().map(|o| o.at_ns)
    }
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }
}
