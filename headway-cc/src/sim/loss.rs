//! Loss detection and recovery of a flow, after Linux: RACK with its reordering window, tail loss probe,
//! retransmission timeout with backoff and F-RTO, undo of spurious reductions.

use super::Packet;
use super::flow::{Flow, News};
use super::logged_link::LoggedLink;
use super::rtt::Rtt;
use super::segment::{DELIVERED, IN_FLIGHT, LOST};
use crate::cc::{CaState, Event, NO_RTT};
use std::collections::VecDeque;

/// This many segments beyond a gap make the reordering window zero while no reordering was ever seen.
const DUP_THRESHOLD: u64 = 3;
/// Recoveries for which a widened reordering window is kept (Linux `TCP_RACK_RECOVERY_THRESH`).
const REORDER_PERSIST: u32 = 16;
const REORDER_STEPS_MAX: u64 = 255;
/// Slack of the reordering timer.
const REORDER_SLACK_NS: u64 = 2_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Loss {
    /// One of `cc::CA_…`.
    pub(crate) ca_state: CaState,
    /// First segment that was not sent yet when the state was entered: acknowledging up to it ends the state.
    high_seq: u64,
    /// Segments marked lost and not retransmitted yet; `queue` lists them (with others, to be skipped).
    pub(crate) lost: u64,
    queue: VecDeque<u64>,
    /// Segments delivered beyond the oldest outstanding one.
    pub(crate) sacked: u64,
    /// The last segment marked lost; `u64::MAX` before the first.
    last_lost: u64,
    /// Retransmissions in the order of sending: segment, which transmission. Those settled are skipped.
    resent: VecDeque<(u64, u8)>,
    /// No original transmission before this segment is undecided.
    cursor: u64,
    /// The most recently sent segment that was delivered.
    rack_sent_us: u64,
    rack_seq: u64,
    rack_rtt_us: u64,
    /// One more than the highest segment delivered.
    highest: u64,
    is_reordering_seen: bool,
    reorder_steps: u64,
    reorder_persist: u32,
    /// `delivered` from which a duplicate may widen the reordering window again.
    reorder_round_end: u64,
    /// Retransmissions since the reduction that may still prove needed; `None`: none was made.
    undo_retransmissions: Option<u64>,
    can_undo: bool,
    /// While a tail loss probe is out: one more than the highest segment sent, and whether it was a retransmission.
    probe: Option<(u64, bool)>,
    backoff: u32,
    timer_is_probe: bool,
    /// When the probe or the retransmission timeout is due; `u64::MAX` for never.
    pub(crate) timer_ns: u64,
    /// When the reordering window of the oldest suspect ends.
    pub(crate) reorder_ns: u64,
}

impl Loss {
    pub(crate) fn new() -> Self {
        Self {
            ca_state: CaState::Open,
            high_seq: 0,
            lost: 0,
            queue: VecDeque::new(),
            sacked: 0,
            last_lost: u64::MAX,
            resent: VecDeque::new(),
            cursor: 0,
            rack_sent_us: 0,
            rack_seq: 0,
            rack_rtt_us: 0,
            highest: 0,
            is_reordering_seen: false,
            reorder_steps: 1,
            reorder_persist: 0,
            reorder_round_end: 0,
            undo_retransmissions: None,
            can_undo: false,
            probe: None,
            backoff: 0,
            timer_is_probe: false,
            timer_ns: u64::MAX,
            reorder_ns: u64::MAX,
        }
    }

    /// Sets the timer of a handshake that was just begun, begun again the more patiently.
    pub(crate) fn arm_handshake(&mut self, now_ns: u64, rtt: &Rtt) {
        self.timer_ns = now_ns + rtt.rto_us(self.backoff) * 1000;
        self.timer_is_probe = false;
        self.backoff += 1;
    }

    /// Segments that may be marked lost and not retransmitted yet: all such are among them.
    pub(crate) fn queued(&self) -> impl Iterator<Item = u64> {
        self.queue.iter().copied()
    }

    /// The handshake is through.
    pub(crate) fn disarm(&mut self) {
        self.timer_ns = u64::MAX;
        self.backoff = 0;
    }
}

impl Flow {
    /// A segment was delivered: keeps the counts; true when that shows a retransmission or a timeout as needless.
    #[inline]
    pub(crate) fn note_delivery(&mut self, seq: u64, tx: u8, was_lost: bool, is_needless: bool) -> bool {
        let loss = &mut self.loss;
        loss.sacked += 1;
        loss.lost -= u64::from(was_lost);
        if seq >= loss.highest {
            loss.highest = seq + 1;
        } else if tx == 0 || is_needless {
            loss.is_reordering_seen = true;
        }
        if is_needless {
            loss.undo_retransmissions = loss.undo_retransmissions.map(|n| n.saturating_sub(1));
        }
        is_needless || (loss.ca_state == CaState::Loss && tx == 0 && seq < loss.high_seq)
    }

    /// Linux `tcp_rack_advance`.
    #[inline]
    pub(crate) fn advance_rack(&mut self, now_us: u64, seq: u64, sent_us: u64, tx: u8) {
        let rtt_us = now_us - sent_us;
        if tx > 0 && rtt_us < self.rtt.min_us {
            return; // The original arrived, not the retransmission just sent.
        }
        let loss = &mut self.loss;
        if (sent_us, seq) >= (loss.rack_sent_us, loss.rack_seq) {
            (loss.rack_sent_us, loss.rack_seq, loss.rack_rtt_us) = (sent_us, seq, rtt_us);
        }
    }

    /// The order of steps is that of Linux `tcp_fastretrans_alert`.
    pub(crate) fn update_recovery(&mut self, now_ns: u64, news: &News) {
        if self.segments.start() > news.una_before {
            self.loss.backoff = 0;
        }
        self.judge_probe(now_ns, news);
        self.widen_reordering_window(news);
        self.leave_recovery(now_ns, news);
        self.detect_losses(now_ns);
        let loss = &self.loss;
        if loss.ca_state < CaState::Recovery && loss.lost > 0 {
            self.enter_recovery(now_ns);
        } else if news.has_ce && loss.ca_state < CaState::Cwr {
            self.reduce(now_ns, CaState::Cwr);
        } else if loss.ca_state < CaState::Cwr {
            self.loss.ca_state = if loss.sacked > 0 { CaState::Disorder } else { CaState::Open };
        }
    }

    /// A probe that filled a hole was the only sign of a loss: the window is reduced once (Linux
    /// `tcp_process_tlp_ack`).
    fn judge_probe(&mut self, now_ns: u64, news: &News) {
        let Some((end, is_retransmission)) = self.loss.probe else { return };
        if !is_retransmission || news.is_duplicate || news.is_spurious {
            if self.segments.start() >= end || news.is_duplicate {
                self.loss.probe = None;
            }
        } else if self.segments.start() >= end {
            self.loss.probe = None;
            self.tell_losses(now_ns, self.mss());
            self.dispatch(Event::Ssthresh, now_ns, NO_RTT);
        }
    }

    /// Linux `tcp_rack_update_reo_wnd`: once a round, a needless retransmission widens the window.
    fn widen_reordering_window(&mut self, news: &News) {
        let delivered = self.sampler.delivered();
        if news.is_duplicate && self.loss.probe.is_none() && delivered >= self.loss.reorder_round_end {
            self.loss.reorder_steps = (self.loss.reorder_steps + 1).min(REORDER_STEPS_MAX);
            self.loss.reorder_persist = REORDER_PERSIST;
            self.loss.reorder_round_end = delivered + self.sampler.inflight();
        }
    }

    fn leave_recovery(&mut self, now_ns: u64, news: &News) {
        let una = self.segments.start();
        let may_undo = self.loss.can_undo && self.loss.undo_retransmissions == Some(0);
        match self.loss.ca_state {
            CaState::Recovery if may_undo => self.undo(now_ns),
            CaState::Loss if self.loss.can_undo && news.is_spurious => self.undo(now_ns),
            CaState::Recovery | CaState::Loss if una >= self.loss.high_seq => {
                self.loss.ca_state = CaState::Open;
                self.loss.can_undo = false;
                self.loss.reorder_persist = self.loss.reorder_persist.saturating_sub(1);
                if self.loss.reorder_persist == 0 {
                    self.loss.reorder_steps = 1;
                }
            }
            CaState::Cwr if una > self.loss.high_seq => self.loss.ca_state = CaState::Open,
            _ => {}
        }
    }

    /// The reduction was spurious: marks that were not acted on yet are withdrawn.
    fn undo(&mut self, now_ns: u64) {
        for seq in self.segments.start()..self.segments.end() {
            let segment = &mut self.segments[seq];
            if segment.flags & LOST != 0 {
                segment.flags = segment.flags & !LOST | IN_FLIGHT;
                self.sampler.on_undone(u32::from(segment.bytes));
            }
        }
        self.loss.lost = 0;
        self.loss.queue.clear();
        self.loss.cursor = self.segments.start();
        self.loss.can_undo = false;
        self.loss.ca_state = CaState::Open;
        self.dispatch(Event::Undo, now_ns, NO_RTT);
    }

    fn enter_recovery(&mut self, now_ns: u64) {
        self.reduce(now_ns, CaState::Recovery);
        self.loss.can_undo = true;
        self.loss.undo_retransmissions = None;
    }

    fn reduce(&mut self, now_ns: u64, ca_state: CaState) {
        self.dispatch(Event::Ssthresh, now_ns, NO_RTT);
        self.loss.ca_state = ca_state;
        self.loss.can_undo = false;
        self.loss.high_seq = self.segments.end();
    }

    /// Linux `tcp_rack_reo_wnd`.
    fn reordering_window_us(&self) -> u64 {
        let loss = &self.loss;
        if !loss.is_reordering_seen && (loss.ca_state >= CaState::Recovery || loss.sacked >= DUP_THRESHOLD) {
            return 0;
        }
        if self.rtt.min_us == NO_RTT {
            return 0;
        }
        (self.rtt.min_us / 4 * loss.reorder_steps).min(self.rtt.srtt_us())
    }

    /// RACK: what was sent before the latest delivered segment, and a reordering window longer ago than its RTT, is
    /// lost. Originals are in order of sending by number, retransmissions in their own list, so each is looked at
    /// until the first that may yet arrive.
    fn detect_losses(&mut self, now_ns: u64) {
        self.loss.reorder_ns = u64::MAX;
        let (una, nxt) = (self.segments.start(), self.segments.end());
        if una == nxt || (self.loss.sacked == 0 && self.loss.resent.is_empty()) {
            self.loss.cursor = una;
            return;
        }
        let (now_us, window_us) = (now_ns / 1000, self.reordering_window_us());
        let mut cursor = self.loss.cursor.max(una);
        while cursor < nxt {
            let segment = &self.segments[cursor];
            let is_open = segment.tx == 0 && segment.flags & (DELIVERED | LOST) == 0;
            let sent_us = segment.sent_us(now_us);
            if is_open && !self.condemn(cursor, sent_us, now_us, window_us, false) {
                break;
            }
            cursor += 1;
        }
        self.loss.cursor = cursor;
        while let Some((seq, tx)) = self.loss.resent.front().copied() {
            let is_open = seq >= una && {
                let segment = &self.segments[seq];
                segment.tx == tx && segment.flags & IN_FLIGHT != 0
            };
            if is_open && !self.condemn(seq, self.segments[seq].sent_us(now_us), now_us, window_us, true) {
                break;
            }
            self.loss.resent.pop_front();
        }
    }

    /// Marks a segment lost if its time is up; else notes when it will be, if anything later was delivered.
    fn condemn(&mut self, seq: u64, sent_us: u64, now_us: u64, window_us: u64, is_again: bool) -> bool {
        if (sent_us, seq) >= (self.loss.rack_sent_us, self.loss.rack_seq) {
            return false;
        }
        let due_us = sent_us + self.loss.rack_rtt_us + window_us;
        if due_us > now_us {
            self.loss.reorder_ns = self.loss.reorder_ns.min(due_us * 1000 + REORDER_SLACK_NS);
            return false;
        }
        self.mark_lost(seq, now_us, is_again);
        true
    }

    /// The controller hears of each segment. One that was lost again is older than those queued and goes first.
    fn mark_lost(&mut self, seq: u64, now_us: u64, is_again: bool) {
        let segment = &mut self.segments[seq];
        segment.flags = segment.flags & !IN_FLIGHT | LOST;
        let sent = segment.sent(now_us, &self.sampler);
        self.sampler.on_lost(sent.bytes);
        self.loss.lost += 1;
        let starts_range = self.loss.last_lost.wrapping_add(1) != seq;
        self.loss.last_lost = seq;
        if self.record.is_none() {
            self.tell_lost(now_us, &sent, starts_range);
        }
        if is_again {
            self.loss.queue.push_front(seq);
        } else {
            self.loss.queue.push_back(seq);
        }
    }

    /// Retransmits up to `count` lost segments; the bytes sent.
    pub(crate) fn retransmit_lost(&mut self, now_ns: u64, count: u64, down: &mut LoggedLink<Packet>) -> u64 {
        let (mut bytes, mut left) = (0, count);
        while left > 0 && self.loss.lost > 0 {
            let seq = self.loss.queue.pop_front().expect("every lost segment is queued");
            if seq >= self.segments.start() && self.segments[seq].flags & LOST != 0 {
                self.loss.lost -= 1;
                bytes += self.resend(now_ns, seq, down);
                left -= 1;
            }
        }
        if self.loss.lost == 0 {
            self.loss.queue.clear();
        }
        bytes
    }

    /// A segment was sent again.
    pub(crate) fn note_resent(&mut self, seq: u64, tx: u8) {
        self.loss.resent.push_back((seq, tx));
        if self.loss.can_undo {
            self.loss.undo_retransmissions = Some(self.loss.undo_retransmissions.unwrap_or(0) + 1);
        }
    }

    pub(crate) fn on_reorder_timer(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        self.sampler.begin();
        self.detect_losses(now_ns);
        if self.loss.lost > 0 && self.loss.ca_state < CaState::Recovery {
            self.enter_recovery(now_ns);
        }
        self.transmit(now_ns, down);
        if self.loss.timer_ns == u64::MAX || self.loss.timer_is_probe {
            self.arm_timer(now_ns);
        }
    }

    pub(crate) fn on_loss_timer(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        self.loss.timer_ns = u64::MAX;
        if self.run.connected_us.is_none() {
            return self.knock(now_ns, down);
        }
        if self.segments.start() == self.segments.end() {
            return;
        }
        if self.loss.timer_is_probe {
            self.send_probe(now_ns, down);
        } else {
            self.on_timeout(now_ns, down);
        }
        self.arm_timer(now_ns);
    }

    /// The probe is new data if there is some, whatever the window says, else the last segment again.
    fn send_probe(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        let is_new = self.send_new(now_ns, 1, down) > 0;
        let last = self.segments.end() - 1;
        if !is_new && self.segments[last].flags & DELIVERED == 0 {
            self.loss.lost -= u64::from(self.segments[last].flags & LOST != 0);
            self.resend(now_ns, last, down);
        }
        self.loss.probe = Some((self.segments.end(), !is_new));
    }

    /// Linux `tcp_enter_loss`: everything outstanding is lost, except what was sent so lately that its ACK may yet
    /// come; the window is one segment above what stays in flight.
    fn on_timeout(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        self.run.timeouts += 1;
        self.mark_timed_out(now_ns / 1000);
        let loss = &self.loss;
        let is_new = loss.ca_state <= CaState::Disorder
            || self.segments.start() >= loss.high_seq
            || (loss.ca_state == CaState::Loss && loss.backoff == 0);
        if is_new {
            self.dispatch(Event::Ssthresh, now_ns, NO_RTT);
            self.loss.can_undo = true;
            self.loss.undo_retransmissions = None;
        }
        self.cwnd = self.sampler.inflight() + u64::from(self.segments[self.segments.start()].bytes);
        self.loss.ca_state = CaState::Loss;
        self.loss.high_seq = self.segments.end();
        self.loss.probe = None;
        self.loss.backoff += 1;
        self.dispatch(Event::Loss, now_ns, NO_RTT);
        let bytes = self.retransmit_lost(now_ns, 1, down);
        if bytes > 0 {
            self.space(now_ns, bytes);
        }
    }

    fn mark_timed_out(&mut self, now_us: u64) {
        let (una, nxt) = (self.segments.start(), self.segments.end());
        self.loss.queue.clear();
        for seq in una..nxt {
            let segment = &self.segments[seq];
            let is_recent = segment.sent_us(now_us) + self.loss.rack_rtt_us > now_us && seq != una;
            if segment.flags & LOST != 0 {
                self.loss.queue.push_back(seq);
            } else if segment.flags & DELIVERED == 0 && !is_recent {
                self.mark_lost(seq, now_us, false);
            }
        }
        self.loss.cursor = una;
    }

    /// Sets the probe's timer, or the retransmission timeout where a probe is out or recovery under way.
    pub(crate) fn arm_timer(&mut self, now_ns: u64) {
        let (una, nxt) = (self.segments.start(), self.segments.end());
        if una == nxt {
            self.loss.timer_ns = u64::MAX;
            return;
        }
        let rto_ns = self.rtt.rto_us(self.loss.backoff) * 1000;
        let may_probe =
            matches!(self.loss.ca_state, CaState::Open | CaState::Cwr) && self.loss.probe.is_none();
        let after_ns = if may_probe { rto_ns.min(self.rtt.pto_us(nxt - una == 1) * 1000) } else { rto_ns };
        self.loss.timer_is_probe = may_probe;
        self.loss.timer_ns = now_ns + after_ns;
    }
}
