//! The receiving end of a flow: what has arrived, and when an ACK is due (delayed ACKs as Linux does them).

use super::Packet;
use super::flow::{RECEIVED, Segment};
use super::ring::Ring;

/// The delayed-ACK timer (Linux `TCP_DELACK_MIN`).
const DELAYED_ACK_NS: u64 = 40_000_000;
/// ACKs sent at once at the start of a connection and after disorder (Linux `TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// A second full segment is acknowledged at once.
const SEGMENTS_PER_ACK: u32 = 2;

#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// First segment that has not arrived.
    next: u64,
    /// Bytes delivered to the application, in order.
    pub(crate) bytes: u64,
    /// Arrivals in order, each `segment << 16 | transmission`; the sender reads it through the positions in ACKs.
    pub(crate) log: Ring<u64>,
    /// Segments that arrived beyond a gap.
    out_of_order: u64,
    /// Arrivals since the last ACK.
    unacked: u32,
    quick: u32,
    /// When the delayed ACK goes out; `u64::MAX` for none.
    pub(crate) delayed_ack_ns: u64,
    pub(crate) ce_bytes: u64,
}

/// What an arrival asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    None,
    Ack,
    /// The segment was already there.
    Duplicate,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self {
            next: 0,
            bytes: 0,
            log: Ring::new(64),
            out_of_order: 0,
            unacked: 0,
            quick: QUICK_ACKS,
            delayed_ack_ns: u64::MAX,
            ce_bytes: 0,
        }
    }

    /// A segment arrives. Arrivals beyond a gap are noted in the sender's ring, which holds all segments from `next`
    /// on; those in order, nearly all, leave it alone: its lines are no longer in the cache.
    pub(crate) fn on_segment(
        &mut self,
        now_ns: u64,
        packet: Packet,
        ce: bool,
        segments: &mut Ring<Segment>,
    ) -> Answer {
        let (seq, bytes) = (packet.seq, u64::from(packet.bytes));
        let had_gap = self.out_of_order > 0;
        if seq == self.next {
            self.bytes += bytes;
            self.next += 1;
            if had_gap {
                self.advance(segments);
            }
        } else if seq < self.next || segments[seq].flags & RECEIVED != 0 {
            self.quick = QUICK_ACKS;
            return Answer::Duplicate;
        } else {
            segments[seq].flags |= RECEIVED;
            self.out_of_order += 1;
            self.quick = QUICK_ACKS;
        }
        self.log.push(seq << 16 | u64::from(packet.tx));
        self.ce_bytes += if ce { bytes } else { 0 };
        self.answer(now_ns, ce || had_gap || self.out_of_order > 0)
    }

    /// An ACK leaves.
    #[inline]
    pub(crate) fn on_ack_sent(&mut self) {
        self.unacked = 0;
        self.delayed_ack_ns = u64::MAX;
        self.quick = self.quick.saturating_sub(1);
    }

    fn advance(&mut self, segments: &Ring<Segment>) {
        while self.out_of_order > 0 && segments[self.next].flags & RECEIVED != 0 {
            self.bytes += u64::from(segments[self.next].sent.bytes);
            self.next += 1;
            self.out_of_order -= 1;
        }
    }

    fn answer(&mut self, now_ns: u64, is_urgent: bool) -> Answer {
        self.unacked += 1;
        if is_urgent || self.quick > 0 || self.unacked >= SEGMENTS_PER_ACK {
            return Answer::Ack;
        }
        self.delayed_ack_ns = now_ns + DELAYED_ACK_NS;
        Answer::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver, and a ring of `n` segments of 100 bytes.
    fn with_segments(n: u64) -> (Receiver, Ring<Segment>) {
        let mut segments = Ring::new(64);
        for _ in 0..n {
            let mut segment = Segment::default();
            segment.sent.bytes = 100;
            segments.push(segment);
        }
        (Receiver::new(), segments)
    }

    fn packet(seq: u64) -> Packet {
        Packet { seq, flow: 0, bytes: 100, tx: 0 }
    }

    #[test]
    fn every_second_segment_is_acked_after_the_quick_start() {
        let (mut r, mut segments) = with_segments(40);
        let mut acked = Vec::new();
        for seq in 0..40 {
            if r.on_segment(seq, packet(seq), false, &mut segments) == Answer::Ack {
                r.on_ack_sent();
                acked.push(seq);
            }
        }
        let expected: Vec<u64> = (0..16).chain((17..40).step_by(2)).collect();
        assert_eq!(acked, expected);
        assert_eq!((r.bytes, r.delayed_ack_ns), (4000, u64::MAX));
    }

    #[test]
    fn gaps_are_acked_at_once_and_duplicates_reported() {
        let (mut r, mut segments) = with_segments(10);
        r.quick = 0;
        assert_eq!(r.on_segment(0, packet(0), false, &mut segments), Answer::None);
        assert_eq!(r.delayed_ack_ns, DELAYED_ACK_NS);
        assert_eq!(r.on_segment(1, packet(2), false, &mut segments), Answer::Ack);
        assert_eq!(r.on_segment(2, packet(2), false, &mut segments), Answer::Duplicate);
        assert_eq!(r.bytes, 100);
        assert_eq!(r.on_segment(3, packet(1), false, &mut segments), Answer::Ack);
        assert_eq!((r.bytes, r.out_of_order, r.log.end()), (300, 0, 3));
    }
}
