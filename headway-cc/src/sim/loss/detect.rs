//! Detection of losses by time: RACK (RFC 8985; Linux `tcp_recovery.c`).
//!
//! Counting duplicate ACKs alone would miss lost retransmissions and the last segments of a flight, and would take
//! every reordering for a loss.

use super::{Loss, Marked};
use crate::cc::{CaState, NO_RTT};
use crate::sim::rtt::Rtt;
use crate::sim::segment::{DELIVERED, IN_FLIGHT, LOST};

/// With this many segments delivered beyond a gap the reordering window is zero, as long as no reordering was ever
/// seen (RFC 8985, section 6.2; the classic three duplicate ACKs).
const DUP_THRESHOLD: u64 = 3;
/// The reordering timer is set this much later than the window ends (Linux `TCP_TIMEOUT_MIN`: two ticks of 1 ms), so
/// that an ACK which is just arriving comes first.
pub(super) const REORDER_SLACK_NS: u64 = 2_000_000;

impl Loss {
    /// Linux `tcp_rack_reo_wnd`: how much later than its successors a segment may arrive.
    #[inline]
    pub(super) fn reordering_window_us(&self, rtt: &Rtt) -> u64 {
        let is_certain = self.ca_state >= CaState::Recovery || self.sacked >= DUP_THRESHOLD;
        if (!self.is_reordering_seen && is_certain) || rtt.min_us == NO_RTT {
            return 0;
        }
        (rtt.min_us / 4 * self.reorder_steps).min(rtt.srtt_us())
    }

    /// RACK: a segment is lost that was sent before the latest delivered one, and longer ago than that one's RTT and a
    /// reordering window. Originals were sent in the order of their numbers and retransmissions have a list of their
    /// own, so each kind is gone through until the first that may yet arrive.
    #[inline]
    pub(crate) fn detect(&mut self, now_us: u64, rtt: &Rtt) {
        self.reorder_ns = u64::MAX;
        if self.is_all_acked() || (self.sacked == 0 && self.resent.is_empty()) {
            self.cursor = self.una();
            return;
        }
        self.detect_beyond_gap(now_us, rtt);
    }

    /// Apart, because most ACKs find everything in order and nothing sent again.
    #[inline(never)]
    fn detect_beyond_gap(&mut self, now_us: u64, rtt: &Rtt) {
        let window_us = self.reordering_window_us(rtt);
        self.detect_among_originals(now_us, window_us);
        self.detect_among_retransmissions(now_us, window_us);
    }

    #[inline]
    fn detect_among_originals(&mut self, now_us: u64, window_us: u64) {
        let mut cursor = self.cursor.max(self.una());
        while cursor < self.nxt() {
            let segment = &self.segments[cursor];
            let is_open = segment.tx == 0 && segment.flags & (DELIVERED | LOST) == 0;
            let sent_us = segment.sent_us(now_us);
            if is_open {
                if !self.is_overdue(cursor, sent_us, now_us, window_us) {
                    break;
                }
                self.mark_lost(cursor);
                self.queue.push_back(cursor);
            }
            cursor += 1;
        }
        self.cursor = cursor;
    }

    /// What is lost again is older than all that waits to be sent again, and goes first.
    fn detect_among_retransmissions(&mut self, now_us: u64, window_us: u64) {
        while let Some((seq, tx)) = self.resent.front().copied() {
            if seq >= self.una() {
                let segment = &self.segments[seq];
                let is_open = segment.tx == tx && segment.flags & IN_FLIGHT != 0;
                let sent_us = segment.sent_us(now_us);
                if is_open {
                    if !self.is_overdue(seq, sent_us, now_us, window_us) {
                        break;
                    }
                    self.mark_lost(seq);
                    self.queue.push_front(seq);
                }
            }
            self.resent.pop_front();
        }
    }

    /// Whether a segment should have arrived by now; if only something sent later has, notes when it will be overdue.
    #[inline]
    fn is_overdue(&mut self, seq: u64, sent_us: u64, now_us: u64, window_us: u64) -> bool {
        if (sent_us, seq) >= (self.rack_sent_us, self.rack_seq) {
            return false;
        }
        let due_us = sent_us + self.rack_rtt_us + window_us;
        if due_us > now_us {
            self.reorder_ns = self.reorder_ns.min(due_us * 1000 + REORDER_SLACK_NS);
        }
        due_us <= now_us
    }

    pub(super) fn mark_lost(&mut self, seq: u64) {
        let segment = &mut self.segments[seq];
        segment.flags = segment.flags & !IN_FLIGHT | LOST;
        self.lost += 1;
        let starts_range = self.last_marked.wrapping_add(1) != seq;
        self.last_marked = seq;
        self.marked.push(Marked { seq, starts_range });
    }

    /// Whether segments were marked lost that the sender has not taken notice of.
    #[inline]
    pub(crate) fn has_marked(&self) -> bool {
        !self.marked.is_empty()
    }

    /// The segments marked lost since the last call, in the order of marking. Give the list back when it is read:
    /// then the next losses need no new memory.
    pub(crate) fn take_marked(&mut self) -> Vec<Marked> {
        std::mem::take(&mut self.marked)
    }

    /// See [`Loss::take_marked`].
    pub(crate) fn give_back(&mut self, mut marked: Vec<Marked>) {
        marked.clear();
        self.marked = marked;
    }
}
