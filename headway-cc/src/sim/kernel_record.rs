//! What our BPF glue can tell a controller on a stock Linux, which keeps no record of each packet's transmission: the
//! stand-in for the sampler's exact memory when a run asks for [`Signals::Kernel`](super::Signals).
//!
//! With it the simulator shows what a controller loses by the kernel's poorer signals. The steps are those of
//! `headway-kernel/bpf/lost.bpf.h`: losses are told before the next event, by runs of adjacent packets, and
//! `rs_tx_in_flight` and `rs_lost` come from a [`Ring`]. The record knows nothing of the sender; it is told of
//! deliveries, ACKs and losses, and fills events in.

use crate::cc::{Ack, Event};
use crate::reconstruct::{Ring, RingEntry, RingPacket};
use crate::sampler::Sent;

/// At most so many `Event::Lost` come before one event, and the last of them takes all that is left: the glue has to
/// bound its loops.
const LOST_EVENTS: usize = 8;

/// What the glue keeps for a socket.
#[derive(Clone, Debug)]
pub(crate) struct KernelRecord {
    mss: u64,
    ring: Ring,
    /// The packet that the ACK's sample is about.
    sample: RingPacket,
    sample_is_app_limited: bool,
    /// Lost data that the controller has heard of.
    told: u64,
    /// When the last sent of the packets told of was sent, and its number. RACK marks in this order, so what comes
    /// later in it has not been told yet.
    told_sent: (u64, u64),
    /// Where the last packet told of ends.
    told_end: u32,
}

/// A segment that is marked lost and was not sent again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostSegment {
    pub(crate) seq: u64,
    pub(crate) sent: Sent,
    pub(crate) is_retransmission: bool,
}

/// Adjacent packets that were lost and find the same entry of the ring: one `Event::Lost`, in the name of the last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LostRun {
    packet: RingPacket,
    entry: Option<usize>,
    bytes: u64,
    /// Of `bytes`, those that were repaired without ever being marked lost.
    repaired: u64,
    is_app_limited: bool,
    /// When the last sent of them was sent, and its number.
    sent: (u64, u64),
}

impl KernelRecord {
    /// `mss`: payload bytes of a full segment.
    pub(crate) fn new(mss: u64) -> Self {
        Self {
            mss,
            ring: Ring::default(),
            sample: RingPacket::default(),
            sample_is_app_limited: false,
            told: 0,
            told_sent: (0, 0),
            told_end: 0,
        }
    }

    /// Where a segment ends in the stream, as if all segments were full. That differs from the truth only where the
    /// ring's minimum hides it.
    fn end_of(&self, seq: u64) -> u32 {
        ((seq + 1) * self.mss) as u32
    }

    /// A segment was delivered that the ACK's sample is about, unless a later one is delivered yet. `delivered`:
    /// `P.delivered`.
    pub(crate) fn on_delivered(&mut self, seq: u64, delivered: u64, is_retransmission: bool) {
        self.sample = RingPacket { delivered: delivered as u32, end: self.end_of(seq), is_retransmission };
    }

    /// What the ring needs of an ACK, before the event is put together. `ack` has the sampler's fields.
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        self.ring.raise(ack.prior_inflight as u32);
        if ack.newly_acked == 0 {
            return;
        }
        self.ring.sample_delivered = self.sample.delivered;
        if let Some(index) = self.ring.find(&self.sample) {
            self.ring.sample_lost = self.ring.entry(index).lost;
        }
        self.sample_is_app_limited = ack.rs_is_app_limited;
    }

    /// Replaces the sampler's exact sample of an ACK by the one that the kernel's glue has.
    pub(crate) fn degrade(&self, ack: &mut Ack) {
        if ack.newly_acked > 0 {
            self.fill_transmission(ack, &self.sample);
        }
    }

    /// Fills in what the ring has of a packet's transmission; 0 and 0 when it is not known.
    fn fill_transmission(&self, ack: &mut Ack, packet: &RingPacket) {
        let since = (ack.delivered as u32).wrapping_sub(packet.delivered);
        ack.rs_prior_delivered = ack.delivered - u64::from(since);
        (ack.rs_tx_in_flight, ack.rs_lost) = (0, 0);
        if let Some(at) = self.ring.find(packet) {
            ack.rs_tx_in_flight = u64::from(self.ring.tx_in_flight(at, packet, 1)).max(ack.smss);
            ack.rs_lost = u64::from((ack.lost as u32).wrapping_sub(self.ring.entry(at).lost));
        }
    }

    /// After an event: packets sent from now on find `now`. An undo withdraws all marks, so whatever is marked from
    /// then on is new.
    pub(crate) fn after_event(&mut self, event: Event, now: &RingEntry) {
        if matches!(event, Event::Init | Event::Ack | Event::Loss) {
            self.ring.note(now);
        } else if event == Event::Undo {
            self.told_sent = (0, 0);
        }
    }

    /// Bytes of `lost` that the controller has not heard of.
    pub(crate) fn untold(&self, lost: u64) -> u64 {
        lost - self.told
    }

    /// The losses to tell before the next event, `untold` bytes in all: the runs among `lost` (in the order of the
    /// stream), and one, in the name of the latest sample's packet, for what is not found among them.
    pub(crate) fn runs(&self, lost: impl Iterator<Item = LostSegment>, untold: u64) -> Vec<LostRun> {
        let mut runs = self.joined(lost);
        let is_cut = runs.len() >= LOST_EVENTS;
        runs.truncate(LOST_EVENTS);
        let (count, mut left) = (runs.len(), untold);
        for (i, run) in runs.iter_mut().enumerate() {
            run.bytes = if is_cut && i + 1 == count { left } else { run.bytes.min(left) };
            left -= run.bytes;
        }
        runs.retain(|run| run.bytes > 0);
        if left > 0 {
            runs.push(self.rest(left, 0));
        }
        runs
    }

    /// Losses that were repaired before anything marked them (by a tail loss probe): the kernel's glue sees the window
    /// being reduced and nothing else. With what is untold besides they are one event.
    pub(crate) fn repaired(&self, untold: u64, repaired: u64) -> LostRun {
        self.rest(untold + repaired, repaired)
    }

    fn rest(&self, bytes: u64, repaired: u64) -> LostRun {
        let (packet, is_app_limited) = (self.sample, self.sample_is_app_limited);
        LostRun { packet, bytes, repaired, is_app_limited, ..LostRun::default() }
    }

    /// The runs among lost segments, without those that were sent before the last one told of.
    fn joined(&self, lost: impl Iterator<Item = LostSegment>) -> Vec<LostRun> {
        let mut runs: Vec<LostRun> = Vec::new();
        for LostSegment { seq, sent, is_retransmission } in lost {
            let order = (sent.sent_us, seq);
            if order <= self.told_sent {
                continue;
            }
            let packet =
                RingPacket { delivered: sent.delivered as u32, end: self.end_of(seq), is_retransmission };
            let run = LostRun {
                packet,
                entry: self.ring.find(&packet),
                bytes: sent.bytes.into(),
                repaired: 0,
                is_app_limited: sent.is_app_limited,
                sent: order,
            };
            match runs.last_mut() {
                Some(last) if last.is_followed_by(&run, (seq * self.mss) as u32) => {
                    *last = LostRun { bytes: last.bytes + run.bytes, sent: last.sent.max(run.sent), ..run };
                }
                _ => runs.push(run),
            }
        }
        runs
    }

    /// Fills an `Event::Lost` for a run and takes note that it is told. `ack` has the sampler's counters.
    pub(crate) fn fill_lost(&mut self, ack: &mut Ack, run: &LostRun) {
        self.told += run.bytes - run.repaired;
        ack.lost = self.told;
        self.fill_transmission(ack, &run.packet);
        ack.rs_lost += if ack.rs_tx_in_flight > 0 { run.repaired } else { 0 };
        ack.newly_lost = run.bytes;
        ack.rs_is_app_limited = run.is_app_limited;
        let start = run.packet.end.wrapping_sub(run.bytes as u32);
        ack.rs_starts_lost_range = start != self.told_end;
        self.told_end = run.packet.end;
        self.told_sent = self.told_sent.max(run.sent);
    }
}

impl LostRun {
    /// Whether `next`, which starts at `next_start` in the stream, belongs to the same run.
    fn is_followed_by(&self, next: &Self, next_start: u32) -> bool {
        self.packet.end == next_start
            && self.entry == next.entry
            && self.packet.is_retransmission == next.packet.is_retransmission
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: the ring's only entry is for what left after 10 bytes were delivered. Packets 1 and 2 left before; 3 is the
    /// first after, 4 was not lost, and 6 was sent again.
    #[test]
    fn a_run_ends_at_another_entry_at_a_gap_and_at_a_retransmission() {
        let mut record = KernelRecord::new(1000);
        record.after_event(Event::Ack, &RingEntry { delivered: 10, ..RingEntry::default() });
        let lost = [(1, 0, false), (2, 0, false), (3, 10, false), (5, 10, false), (6, 10, true)];
        let lost = lost.map(|(seq, delivered, is_retransmission)| {
            let sent = Sent { sent_us: 1, delivered, bytes: 1000, ..Sent::default() };
            LostSegment { seq, sent, is_retransmission }
        });
        let bytes: Vec<u64> = record.runs(lost.into_iter(), 5000).iter().map(|run| run.bytes).collect();
        assert_eq!(bytes, [2000, 1000, 1000, 1000]);
    }
}
