//! The signals of a stock kernel: with [`Signals::Kernel`](super::Signals) a flow hands its controller what the BPF
//! glue can reconstruct (`headway-kernel/bpf/lost.bpf.h`, whose steps these are) instead of what the sampler knows.

use super::flow::Flow;
use super::segment::LOST;
use crate::cc::{Ack, Event, NO_RTT};
use crate::rand;
use crate::reconstruct::{Ring, RingEntry, RingPacket};

/// At most so many Event::Lost come before one event; the last takes all that is left.
const LOST_EVENTS: usize = 8;

/// What the glue keeps for a socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    ring: Ring,
    /// The packet that the ACK's sample is about.
    sample: RingPacket,
    sample_is_app_limited: bool,
    /// Lost data that the controller has heard of.
    told: u64,
    /// When the last sent of the packets told of was sent, and its number: RACK marks in this order.
    told_sent: (u64, u64),
    /// Where the last packet told of ends.
    told_end: u32,
}

/// Adjacent packets that were lost and find the same entry; in the name of the last of them.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    packet: RingPacket,
    entry: Option<usize>,
    bytes: u64,
    is_app_limited: bool,
    sent: (u64, u64),
}

impl Record {
    /// Replaces what the sampler knows of a packet's transmission by what the ring has; 0 and 0 when not known.
    fn fill_transmission(&self, ack: &mut Ack, p: &RingPacket) {
        ack.rs_prior_delivered = ack.delivered - u64::from((ack.delivered as u32).wrapping_sub(p.delivered));
        (ack.rs_tx_in_flight, ack.rs_lost) = (0, 0);
        if let Some(at) = self.ring.find(p) {
            ack.rs_tx_in_flight = u64::from(self.ring.tx_in_flight(at, p, 1)).max(ack.smss);
            ack.rs_lost = u64::from((ack.lost as u32).wrapping_sub(self.ring.entry(at).lost));
        }
    }
}

impl Flow {
    /// The sample is about this segment, unless a later one is delivered yet.
    pub(crate) fn note_sample(&mut self, seq: u64, delivered: u64, is_retransmission: bool) {
        let end = self.end_of(seq);
        if let Some(record) = &mut self.record {
            record.sample = RingPacket { delivered: delivered as u32, end, is_retransmission };
        }
    }

    /// Where a segment ends in the stream if all are full, which differs from the truth in what the ring's minimum hides.
    fn end_of(&self, seq: u64) -> u32 {
        ((seq + 1) * self.mss()) as u32
    }

    /// Before an event is put together: what the ring needs of an ACK, then the losses since the last event.
    pub(crate) fn prepare_signals(&mut self, event: Event, now_ns: u64) {
        let Some(record) = &mut self.record else { return };
        if event == Event::Init {
            return;
        }
        if event == Event::Ack {
            let mut ack = Ack::default();
            self.sampler.fill(&mut ack, self.rtt.min_us);
            record.ring.raise(ack.prior_inflight as u32);
            if ack.newly_acked > 0 {
                record.ring.sample_delivered = record.sample.delivered;
                if let Some(index) = record.ring.find(&record.sample) {
                    record.ring.sample_lost = record.ring.entry(index).lost;
                }
                record.sample_is_app_limited = ack.rs_is_app_limited;
            }
        }
        self.tell_losses(now_ns, 0);
    }

    /// The sample of an ACK as the kernel's glue has it.
    pub(crate) fn degrade_sample(&self, ack: &mut Ack) {
        if let Some(record) = &self.record
            && ack.newly_acked > 0
        {
            record.fill_transmission(ack, &record.sample);
        }
    }

    /// After an event. An undo withdraws all marks: whatever is marked from then on is new.
    pub(crate) fn keep_record(&mut self, event: Event) {
        let s = &self.sampler;
        let now = RingEntry {
            delivered: s.delivered() as u32,
            lost: s.lost() as u32,
            inflight: s.inflight() as u32,
            outstanding: (s.inflight() + self.loss.lost * self.mss()) as u32,
            end: (self.segments.end() * self.mss()) as u32,
        };
        let Some(record) = &mut self.record else { return };
        if matches!(event, Event::Init | Event::Ack | Event::Loss) {
            record.ring.note(&now);
        } else if event == Event::Undo {
            record.told_sent = (0, 0);
        }
    }

    /// An event for each run of packets that were marked lost since the last event, and one, in the name of the latest
    /// sample's packet, for what is not found or for so many `repaired` bytes that were never marked.
    pub(crate) fn tell_losses(&mut self, now_ns: u64, repaired: u64) {
        let Some(record) = &self.record else { return };
        let mut left = self.sampler.lost() - record.told + repaired;
        if left == 0 {
            return;
        }
        let mut runs = if repaired == 0 { self.lost_runs(now_ns / 1000) } else { Vec::new() };
        let is_cut = runs.len() >= LOST_EVENTS;
        runs.truncate(LOST_EVENTS);
        let count = runs.len();
        for (i, mut run) in runs.into_iter().enumerate() {
            run.bytes = if is_cut && i + 1 == count { left } else { run.bytes.min(left) };
            left -= run.bytes;
            if run.bytes > 0 {
                self.tell_run(now_ns, &run, 0);
            }
        }
        if let Some(record) = &self.record
            && left > 0
        {
            let (packet, is_app_limited) = (record.sample, record.sample_is_app_limited);
            let rest = Run { packet, bytes: left, is_app_limited, ..Run::default() };
            self.tell_run(now_ns, &rest, repaired);
        }
    }

    /// The packets that are marked lost, were not sent again yet and were sent after those told of, by their place in the
    /// stream.
    fn lost_runs(&self, now_us: u64) -> Vec<Run> {
        let Some(record) = &self.record else { return Vec::new() };
        let mut lost: Vec<u64> = self.loss.queued().filter(|seq| *seq >= self.segments.start()).collect();
        lost.sort_unstable();
        lost.dedup();
        let mut runs: Vec<Run> = Vec::new();
        for seq in lost {
            let segment = &self.segments[seq];
            let order = (segment.sent_us(now_us), seq);
            if segment.flags & LOST == 0 || order <= record.told_sent {
                continue;
            }
            let sent = segment.sent(now_us, &self.sampler);
            let packet = RingPacket {
                delivered: sent.delivered as u32,
                end: self.end_of(seq),
                is_retransmission: segment.tx > 0,
            };
            let entry = record.ring.find(&packet);
            let run = Run {
                packet,
                entry,
                bytes: u64::from(sent.bytes),
                is_app_limited: sent.is_app_limited,
                sent: order,
            };
            match runs.last_mut() {
                Some(last) if last.continues(&run, self.end_of(seq - 1)) => {
                    *last = Run { bytes: last.bytes + run.bytes, sent: last.sent.max(run.sent), ..run };
                }
                _ => runs.push(run),
            }
        }
        runs
    }

    fn tell_run(&mut self, now_ns: u64, run: &Run, repaired: u64) {
        let mut ack = self.event(Event::Lost, now_ns, NO_RTT);
        self.sampler.fill_counters(&mut ack);
        let Some(record) = &mut self.record else { return };
        record.told += run.bytes - repaired;
        ack.lost = record.told;
        ack.rand = rand::hash(self.random_seed(), !ack.lost) >> 32;
        let Some(record) = &mut self.record else { return };
        record.fill_transmission(&mut ack, &run.packet);
        ack.rs_lost += if ack.rs_tx_in_flight > 0 { repaired } else { 0 };
        ack.newly_lost = run.bytes;
        ack.rs_is_app_limited = run.is_app_limited;
        ack.rs_starts_lost_range = run.packet.end.wrapping_sub(run.bytes as u32) != record.told_end;
        record.told_end = run.packet.end;
        record.told_sent = record.told_sent.max(run.sent);
        self.tell(&ack);
    }
}

impl Run {
    fn continues(&self, next: &Run, next_start: u32) -> bool {
        self.packet.end == next_start
            && self.entry == next.entry
            && self.packet.is_retransmission == next.packet.is_retransmission
    }
}
