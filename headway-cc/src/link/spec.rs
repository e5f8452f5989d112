//! What a link does to packets, as plain values. The module `path` makes them from text; a program can fill them in
//! directly.

use crate::rand::BILLION;
use std::sync::Arc;

/// [`LinkSpec::rate_bps`] of a link that serialises in no time.
pub const UNLIMITED: u64 = u64::MAX;
/// The largest rate a link computes with: 1 Tbit/s.
pub const MAX_RATE_BPS: u64 = 1_000_000_000_000;
/// Bytes that one chance of a rate trace can carry.
pub const TRACE_SLOT_BYTES: u64 = 1500;

/// One direction of a path. Order of events for a packet: policer, queue, serialisation, loss, delay, jitter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Bits per second at time 0: [`UNLIMITED`], or at most [`MAX_RATE_BPS`]; 0 is an outage. Not used with a trace.
    pub rate_bps: u64,
    /// One-way propagation delay at time 0.
    pub delay_ns: u64,
    /// Chances to send, instead of a rate.
    pub trace: Option<Trace>,
    /// Changes of rate, delay and loss, times rising.
    pub steps: Vec<Step>,
    /// The steps repeat with this period (longer than the last step's time); each period starts with the values of
    /// time 0.
    pub repeat_ns: Option<u64>,
    /// Most bytes that may wait, the packet being serialised not counted; `u64::MAX` for no limit.
    pub limit_bytes: u64,
    /// Most packets that may wait, the packet being serialised not counted; `u64::MAX` for no limit.
    pub limit_packets: u64,
    /// CoDel (RFC 8289) at the head of the queue.
    pub codel: Option<CodelSpec>,
    /// CoDel marks ECT packets instead of dropping them.
    pub ecn: bool,
    /// ECT packets that waited longer than this are marked CE.
    pub ce_ns: Option<u64>,
    /// Token bucket in front of the queue.
    pub policer: Option<Policer>,
    /// Loss on the wire, after the packet has used the link, at time 0.
    pub loss: Loss,
    /// Random addition to the delay.
    pub jitter: Option<Jitter>,
    /// Packets may overtake each other; `None` keeps the order whatever jitter and steps of delay say.
    pub reorder: Option<Reorder>,
    /// Packets arrive at the far end only at multiples of this (aggregation); 0 for at once.
    pub release_ns: u64,
    /// Separates the random streams of links that share a seed.
    pub random_stream: u64,
}

impl Default for LinkSpec {
    /// Unlimited, without delay, queue limit, loss or anything else.
    fn default() -> Self {
        Self {
            rate_bps: UNLIMITED,
            delay_ns: 0,
            trace: None,
            steps: Vec::new(),
            repeat_ns: None,
            limit_bytes: u64::MAX,
            limit_packets: u64::MAX,
            codel: None,
            ecn: false,
            ce_ns: None,
            policer: None,
            loss: Loss::None,
            jitter: None,
            reorder: None,
            release_ns: 0,
            random_stream: 0,
        }
    }
}

/// A change at a moment; `None` leaves a value as it was.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Step {
    /// Since the link's start, or since the start of each period of [`LinkSpec::repeat_ns`].
    pub at_ns: u64,
    /// As [`LinkSpec::rate_bps`]; holds for the rest of a packet that is being serialised.
    pub rate_bps: Option<u64>,
    /// As [`LinkSpec::delay_ns`]; holds for packets whose serialisation ends later.
    pub delay_ns: Option<u64>,
    /// As [`LinkSpec::loss`]; the model starts afresh, its random numbers go on.
    pub loss: Option<Loss>,
}

/// A mahimahi trace: each entry is a chance to send [`TRACE_SLOT_BYTES`], and is lost when no packet waits for it. The
/// list repeats; its last time is the period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// File name, as written in the path text.
    pub name: String,
    /// Milliseconds, never falling, the last above 0; empty until the file is loaded (nothing is sent then).
    pub at_ms: Arc<[u32]>,
}

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelSpec {
    /// A waiting time that may last (RFC 8289: TARGET, 5 ms).
    pub target_ns: u64,
    /// How long the waiting time must stay above the target before the first drop (RFC 8289: INTERVAL, 100 ms, about
    /// one round trip); at most 4 s.
    pub interval_ns: u64,
}

/// A token bucket, full at time 0, that drops what exceeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Bits per second that the bucket earns.
    pub rate_bps: u64,
    /// What the bucket holds; at most 1 GB.
    pub burst_bytes: u64,
}

/// Which packets are lost. Shares are parts per billion.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Loss {
    /// The wire loses nothing; the queue may drop all the same.
    #[default]
    None,
    /// Each packet on its own.
    Random {
        /// Chance of each packet.
        ppb: u32,
        /// Never more than so many in a row; 0: no such limit.
        max_run: u32,
    },
    /// Gilbert-Elliott: two states, good at first, changed per packet.
    Elliott {
        /// Chance to leave the good state, taken before each packet.
        to_bad_ppb: u32,
        /// Chance to leave the bad state, taken before each packet.
        to_good_ppb: u32,
        /// Chance of a packet to be lost in the good state.
        good_ppb: u32,
        /// Chance of a packet to be lost in the bad state.
        bad_ppb: u32,
    },
    /// Runs of one length.
    Burst {
        /// Share of all packets.
        ppb: u32,
        /// Packets in each run; two runs may follow each other at once. 0: nothing is lost.
        run: u32,
    },
    /// Two chances in turn.
    Square {
        /// Chance of a packet in the first half of every period.
        first_ppb: u32,
        /// Chance of a packet in the second half.
        second_ppb: u32,
        /// Both halves together; the first period begins at time 0.
        period_ns: u64,
    },
    /// Measured shares over time; the list repeats.
    Trace(LossTrace),
}

/// A recorded loss rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossTrace {
    /// File name, as written in the path text.
    pub name: String,
    /// (end of the interval, parts per billion lost in it), times rising; empty until the file is loaded (no loss).
    pub rows: Arc<[(u64, u32)]>,
}

/// A random addition to the delay, never negative: the configured delay stays the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jitter {
    /// Uniform: the largest addition. Normal: the standard deviation; the mean is three of them, and draws beyond
    /// three from the mean are cut there.
    pub size_ns: u64,
    /// Normal instead of uniform.
    pub normal: bool,
    /// A new draw for every interval of this length; 0: for every packet.
    pub hold_ns: u64,
}

/// Packets may overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// Share of packets that are held back, parts per billion.
    pub ppb: u32,
    /// How long they are held back.
    pub extra_ns: u64,
}

impl Trace {
    /// Length of one pass in nanoseconds; 0 when not loaded.
    pub fn period_ns(&self) -> u64 {
        self.at_ms.last().map_or(0, |ms| u64::from(*ms) * 1_000_000)
    }

    /// Mean rate in bits per second; 0 when not loaded.
    pub fn mean_bps(&self) -> u64 {
        let bits = self.at_ms.len() as u64 * TRACE_SLOT_BYTES * 8;
        self.at_ms.last().map_or(0, |ms| bits * 1000 / u64::from((*ms).max(1)))
    }

    /// Chances before `t_ns`.
    fn chances_before(&self, t_ns: u64) -> u64 {
        let period_ns = self.period_ns();
        if period_ns == 0 {
            return 0;
        }
        let (passes, within_ms) = (t_ns / period_ns, (t_ns % period_ns).div_ceil(1_000_000));
        let part = self.at_ms.partition_point(|ms| u64::from(*ms) < within_ms) as u64;
        // The last entry of a pass falls on the first moment of the next one.
        let wrapped = if passes > 0 && within_ms == 0 { self.entries_at_end() } else { 0 };
        passes * self.at_ms.len() as u64 + part - wrapped
    }

    fn entries_at_end(&self) -> u64 {
        let last = self.at_ms.last().copied().unwrap_or(0);
        self.at_ms.iter().rev().take_while(|ms| **ms == last).count() as u64
    }
}

impl LinkSpec {
    /// The rate at `t_ns`, a policer's included; `None` when unlimited or driven by a trace.
    pub fn rate_bps_at(&self, t_ns: u64) -> Option<u64> {
        if self.trace.is_some() {
            return None;
        }
        let t_ns = self.repeat_ns.map_or(t_ns, |period_ns| t_ns % period_ns);
        let rate_bps = self.pieces().take_while(|p| p.0 <= t_ns).last().map_or(self.rate_bps, |p| p.1);
        let rate_bps = self.policer.map_or(rate_bps, |p| p.rate_bps.min(rate_bps));
        (rate_bps != UNLIMITED).then_some(rate_bps)
    }

    /// Bits the link can carry from `from_ns` until `to_ns`; additive over adjoining spans. `None` when unlimited.
    pub fn capacity_bits(&self, from_ns: u64, to_ns: u64) -> Option<u64> {
        let until = |t_ns| self.bits_until(t_ns);
        Some(until(to_ns.max(from_ns))?.saturating_sub(until(from_ns)?))
    }

    fn bits_until(&self, t_ns: u64) -> Option<u64> {
        let policed = self.policer.map(|p| bits(p.rate_bps, t_ns));
        if let Some(trace) = &self.trace {
            let bits = trace.chances_before(t_ns) * TRACE_SLOT_BYTES * 8;
            return Some(policed.map_or(bits, |p| p.min(u128::from(bits)) as u64));
        }
        let (passes, within_ns) = match self.repeat_ns {
            Some(period_ns) => (t_ns / period_ns, t_ns % period_ns),
            None => (0, t_ns),
        };
        let work = self.work_until(within_ns)?;
        let pass = if passes > 0 { self.work_until(self.repeat_ns?)? } else { 0 };
        Some(((u128::from(passes) * pass + work) / u128::from(BILLION)) as u64)
    }

    /// Bits times 10^9 within one pass of the schedule; `None` when unlimited at any time before `t_ns`.
    fn work_until(&self, t_ns: u64) -> Option<u128> {
        let cap_bps = self.policer.map_or(UNLIMITED, |p| p.rate_bps);
        let starts: Vec<(u64, u64)> = self.pieces().collect();
        let ends = starts.iter().skip(1).map(|p| p.0).chain([u64::MAX]);
        let mut work = 0;
        for ((start_ns, rate_bps), end_ns) in starts.iter().copied().zip(ends) {
            let length_ns = end_ns.min(t_ns).saturating_sub(start_ns);
            let rate_bps = rate_bps.min(cap_bps);
            if length_ns > 0 && rate_bps == UNLIMITED {
                return None;
            }
            work += u128::from(rate_bps) * u128::from(length_ns);
        }
        Some(work)
    }

    /// Starts of pieces of constant rate within one pass.
    fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let changes = self.steps.iter().filter_map(|s| Some((s.at_ns, s.rate_bps?)));
        std::iter::once((0, self.rate_bps)).chain(changes)
    }
}

fn bits(rate_bps: u64, t_ns: u64) -> u128 {
    u128::from(rate_bps) * u128::from(t_ns) / u128::from(BILLION)
}
