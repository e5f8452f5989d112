//! The receiving end of a flow: what has arrived, and when an ACK is due.
//!
//! It delays and compresses ACKs as Linux does, because controllers see the path through them: with an ACK for every
//! segment each of them would measure more often and more smoothly than on a real host.

use super::segment::Arrival;
use crate::sequence::SequenceBuffer;

/// The delayed-ACK timer (Linux `TCP_DELACK_MIN`).
const DELAYED_ACK_NS: u64 = 40_000_000;
/// ACKs sent at once at the start of a connection and after a duplicate (Linux `TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// ACKs sent at once after a CE mark.
const QUICK_ACKS_CE: u32 = 2;
/// This many segments in order are acknowledged at once.
const SEGMENTS_PER_ACK: u64 = 2;
/// SACK compression: beyond a gap the first three arrivals are acknowledged at once, so that the sender notices the
/// loss, and later ones together after a twentieth of the RTT, 1 ms or 44 arrivals, whichever comes first (Linux
/// `tcp_comp_sack_nr`, `tcp_comp_sack_delay_ns`).
const DUP_ACKS_AT_ONCE: u32 = 3;
const COMPRESSED_ACKS: u32 = 44;
const COMPRESSION_NS: u64 = 1_000_000;

/// The fields stay in this order: the first are looked at for every segment, the last only beyond a gap.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Receiver {
    /// First segment that has not arrived.
    next: u64,
    /// `next` when the last ACK left.
    acked: u64,
    /// Bytes delivered to the application, in order.
    pub(crate) bytes: u64,
    /// Arrivals in order; the sender reads it through the positions in ACKs.
    pub(crate) log: SequenceBuffer<Arrival>,
    /// When an ACK that waits goes out; `u64::MAX` for none.
    pub(crate) ack_ns: u64,
    pub(crate) ce_bytes: u64,
    /// How many segments arrived beyond a gap.
    out_of_order: u64,
    quick: u32,
    /// ACKs sent for the gap that begins at `gap`, and arrivals since whose ACK is held back.
    dup_acks: u32,
    compressed: u32,
    gap: u64,
    /// Sizes of the segments that arrived beyond a gap, from `next` on (0: not there yet).
    sizes: SequenceBuffer<u16>,
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
            acked: 0,
            bytes: 0,
            log: SequenceBuffer::new(64),
            out_of_order: 0,
            sizes: SequenceBuffer::new(64),
            quick: QUICK_ACKS,
            dup_acks: 0,
            compressed: 0,
            gap: 0,
            ack_ns: u64::MAX,
            ce_bytes: 0,
        }
    }

    /// A segment arrives: its number, its payload, which transmission of it. `rtt_ns`: the sender's smoothed RTT, which
    /// only ACKs that are held back need.
    #[inline(always)]
    pub(crate) fn on_segment(
        &mut self,
        now_ns: u64,
        (seq, bytes, tx): (u64, u16, u8),
        ce: bool,
        rtt_ns: impl Fn() -> u64,
    ) -> Answer {
        let had_gap = self.out_of_order > 0;
        if seq == self.next {
            self.bytes += u64::from(bytes);
            self.next += 1;
            if had_gap {
                self.advance();
            }
        } else if seq < self.next || !self.keep(seq, bytes) {
            self.quick = QUICK_ACKS;
            return Answer::Duplicate;
        }
        self.log.push(Arrival::new(seq, tx));
        if ce {
            self.ce_bytes += u64::from(bytes);
            self.quick = self.quick.max(QUICK_ACKS_CE);
        }
        self.answer(now_ns, rtt_ns, had_gap && self.out_of_order == 0)
    }

    /// An ACK leaves.
    #[inline]
    pub(crate) fn on_ack_sent(&mut self) {
        self.acked = self.next;
        self.compressed = 0;
        self.ack_ns = u64::MAX;
        self.quick = self.quick.saturating_sub(1);
    }

    /// Keeps a segment that arrived beyond a gap; false when it is there already.
    #[inline]
    fn keep(&mut self, seq: u64, bytes: u16) -> bool {
        if self.out_of_order == 0 {
            self.sizes.restart(self.next);
        }
        while self.sizes.end() <= seq {
            self.sizes.push(0);
        }
        let size = &mut self.sizes[seq];
        if *size != 0 {
            return false;
        }
        *size = bytes;
        self.out_of_order += 1;
        true
    }

    /// Hands over what follows the segment that filled a gap.
    #[inline]
    fn advance(&mut self) {
        while self.next < self.sizes.end() && self.sizes[self.next] != 0 {
            self.bytes += u64::from(self.sizes[self.next]);
            self.next += 1;
            self.out_of_order -= 1;
        }
        self.sizes.forget_before(self.next.min(self.sizes.end()));
    }

    /// Linux `__tcp_ack_snd_check`.
    #[inline]
    fn answer(&mut self, now_ns: u64, rtt_ns: impl Fn() -> u64, is_gap_filled: bool) -> Answer {
        if self.quick > 0 || self.next - self.acked >= SEGMENTS_PER_ACK || is_gap_filled {
            return Answer::Ack;
        }
        if self.out_of_order == 0 {
            self.ack_ns = now_ns + DELAYED_ACK_NS;
            return Answer::None;
        }
        if self.gap != self.next {
            (self.gap, self.dup_acks) = (self.next, 0);
        }
        if self.dup_acks < DUP_ACKS_AT_ONCE || self.compressed >= COMPRESSED_ACKS {
            self.dup_acks += 1;
            return Answer::Ack;
        }
        self.compressed += 1;
        self.ack_ns = self.ack_ns.min(now_ns + COMPRESSION_NS.min(rtt_ns() / 20));
        Answer::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT_NS: u64 = 40_000_000;

    fn packet(seq: u64) -> (u64, u16, u8) {
        (seq, 100, 0)
    }

    #[test]
    fn every_second_segment_is_acked_after_the_quick_start() {
        let mut r = Receiver::new();
        let mut acked = Vec::new();
        for seq in 0..40 {
            if r.on_segment(seq, packet(seq), false, || RTT_NS) == Answer::Ack {
                r.on_ack_sent();
                acked.push(seq);
            }
        }
        let expected: Vec<u64> = (0..16).chain((17..40).step_by(2)).collect();
        assert_eq!(acked, expected);
        assert_eq!((r.bytes, r.ack_ns), (4000, u64::MAX));
    }

    #[test]
    fn gaps_are_acked_at_once_and_duplicates_reported() {
        let mut r = Receiver::new();
        r.quick = 0;
        assert_eq!(r.on_segment(0, packet(0), false, || RTT_NS), Answer::None);
        assert_eq!(r.ack_ns, 40_000_000, "the timer of a delayed ACK");
        assert_eq!(r.on_segment(1, packet(2), false, || RTT_NS), Answer::Ack);
        assert_eq!(r.on_segment(2, packet(2), false, || RTT_NS), Answer::Duplicate);
        assert_eq!(r.bytes, 100);
        assert_eq!(r.on_segment(3, packet(1), false, || RTT_NS), Answer::Ack);
        assert_eq!((r.bytes, r.out_of_order, r.log.end()), (300, 0, 3));
    }

    #[test]
    fn acks_beyond_a_gap_are_compressed_after_the_third() {
        let mut r = Receiver::new();
        r.quick = 0;
        let mut at_once = Vec::new();
        for seq in 1..60 {
            if r.on_segment(1000 + seq, packet(seq), false, || RTT_NS) == Answer::Ack {
                r.on_ack_sent();
                at_once.push(seq);
            } else {
                assert!(r.ack_ns <= 1000 + seq + COMPRESSION_NS);
            }
        }
        assert_eq!(at_once, [1, 2, 3, 48], "three at once, then 44 held back");
        assert_eq!(r.on_segment(2000, packet(0), false, || RTT_NS), Answer::Ack);
    }
}
