//! Loss detection and recovery of a sender, after Linux: RACK with its reordering window (RFC 8985), tail loss probe,
//! retransmission timeout with backoff and F-RTO (RFC 5682), undo of reductions that proved spurious.
//!
//! [`Loss`] keeps the scoreboard, that is every segment from the oldest unacknowledged to the newest sent, and the
//! state of recovery. It decides which segments are lost, which are to be sent again, when a timer is due and when the
//! window is to be reduced. It sends nothing and tells the controller nothing: the sender asks step by step and acts
//! on the answers, because a controller must hear of each step before the next one is taken.

mod detect;

use super::rtt::Rtt;
use super::segment::{Arrival, DELIVERED, IN_FLIGHT, LOST, Segment};
use crate::cc::CaState;
use crate::sampler::{Sampler, Sent};
use crate::sequence::SequenceBuffer;
use std::collections::VecDeque;

/// Recoveries for which a widened reordering window is kept (Linux `TCP_RACK_RECOVERY_THRESH`).
const REORDER_PERSIST: u32 = 16;
/// Most steps of a quarter of the minimum RTT in a reordering window (Linux keeps them in 8 bits).
const REORDER_STEPS_MAX: u64 = 255;

/// What an ACK says that matters for recovery, gathered while its deliveries are noted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    /// It acknowledges the oldest outstanding segment.
    pub(crate) is_advance: bool,
    /// A segment sent before a timeout and never again arrived, or one whose retransmission was needless.
    pub(crate) is_spurious: bool,
    /// It reports a duplicate (DSACK).
    pub(crate) is_duplicate: bool,
    /// It reports new CE marks.
    pub(crate) has_ce: bool,
}

/// A segment was delivered: what its transmission was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    /// The sampler's stamp.
    pub(crate) sent: Sent,
    pub(crate) is_retransmission: bool,
    /// False when it had been marked lost.
    pub(crate) was_in_flight: bool,
    /// See [`News::is_spurious`].
    pub(crate) is_spurious: bool,
}

/// Adjacent segments were delivered in order, each at its first transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) segments: u64,
    /// When the first of them was sent.
    pub(crate) oldest_sent_us: u64,
    /// The number of the last of them.
    pub(crate) last: u64,
    /// The sampler's stamp of the last of them, with the payload of all.
    pub(crate) newest: Sent,
}

/// A segment that was just marked lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) seq: u64,
    /// It does not follow the segment that was marked before it.
    pub(crate) starts_range: bool,
}

/// What [`Loss::timer_ns`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The answer to a SYN.
    Handshake,
    /// The end of the flight: its last segments may be lost with nothing behind them to show it (tail loss probe).
    Probe,
    /// Any acknowledgement (retransmission timeout).
    Timeout,
}

/// A tail loss probe on its way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// One more than the highest segment sent: what an ACK of the probe acknowledges.
    end: u64,
    is_retransmission: bool,
}

/// Scoreboard and state of recovery of one sender. Its fields stay in this order, what every ACK needs before what only
/// losses need, as in [`Sender`](super::sender::Sender).
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Loss {
    /// From the oldest unacknowledged to the newest sent.
    segments: SequenceBuffer<Segment>,
    timer_ns: u64,
    reorder_ns: u64,
    /// How many segments are marked lost and not sent again yet.
    lost: u64,
    /// Segments delivered beyond the oldest outstanding one.
    sacked: u64,
    /// Retransmissions in the order of sending: segment, which transmission. Settled ones are skipped.
    resent: VecDeque<(u64, u8)>,
    /// The most recently sent segment that was delivered: when it was sent, its number, its RTT.
    rack_sent_us: u64,
    rack_seq: u64,
    rack_rtt_us: u64,
    /// One more than the highest segment delivered.
    highest: u64,
    /// Of every original transmission before this segment it is decided whether it is lost.
    cursor: u64,
    /// First segment that was not sent yet when the state was entered: acknowledging up to it ends the state.
    high_seq: u64,
    /// Timeouts in a row; each doubles the next.
    backoff: u32,
    /// State of recovery, as in Linux.
    ca_state: CaState,
    timer: Timer,
    is_reordering_seen: bool,
    can_undo: bool,
    probe: Option<Probe>,
    /// Marked since the sender last took notice.
    marked: Vec<Marked>,
    /// All segments marked lost and not sent again yet, in the order of repair, and others among them that are to be
    /// skipped.
    queue: VecDeque<u64>,
    /// The last segment marked lost; `u64::MAX` before the first.
    last_marked: u64,
    /// Width of the reordering window in quarters of the minimum RTT, and for how many recoveries it is kept.
    reorder_steps: u64,
    reorder_persist: u32,
    /// `C.delivered` from which a duplicate may widen the reordering window again: once a round trip.
    reorder_round_end: u64,
    /// Retransmissions since the reduction that may still prove needed; `None`: none was made.
    undo_retransmissions: Option<u64>,
}

impl Loss {
    pub(crate) fn new() -> Self {
        Self {
            segments: SequenceBuffer::new(64),
            ca_state: CaState::Open,
            high_seq: 0,
            lost: 0,
            queue: VecDeque::new(),
            marked: Vec::new(),
            last_marked: u64::MAX,
            sacked: 0,
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
            timer: Timer::Handshake,
            timer_ns: u64::MAX,
            reorder_ns: u64::MAX,
        }
    }

    /// State of recovery, as in Linux.
    #[inline]
    pub(crate) fn ca_state(&self) -> CaState {
        self.ca_state
    }

    /// The oldest unacknowledged segment (`SND.UNA`).
    #[inline]
    pub(crate) fn una(&self) -> u64 {
        self.segments.start()
    }

    /// The number of the next new segment (`SND.NXT`).
    #[inline]
    pub(crate) fn nxt(&self) -> u64 {
        self.segments.end()
    }

    /// Everything sent is acknowledged.
    #[inline]
    pub(crate) fn is_all_acked(&self) -> bool {
        self.una() == self.nxt()
    }

    /// How many segments are marked lost and not sent again yet.
    #[inline]
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// When the oldest unacknowledged segment was sent last. There must be one.
    pub(crate) fn oldest_sent_us(&self, now_us: u64) -> u64 {
        self.segments[self.una()].sent_us(now_us)
    }

    /// Payload of the oldest unacknowledged segment. There must be one.
    pub(crate) fn oldest_bytes(&self) -> u64 {
        self.segments[self.una()].bytes.into()
    }

    /// The stamp of a segment's latest transmission.
    #[inline]
    pub(crate) fn sent(&self, seq: u64, now_us: u64, sampler: &Sampler) -> Sent {
        self.segments[seq].sent(now_us, sampler)
    }

    /// Whether a segment was sent more than once.
    #[inline]
    pub(crate) fn is_retransmission(&self, seq: u64) -> bool {
        self.segments[seq].tx > 0
    }

    /// The segments that are marked lost and not sent again yet, in the order of the stream.
    pub(crate) fn unrepaired(&self) -> Vec<u64> {
        let is_lost = |seq: &u64| *seq >= self.una() && self.segments[*seq].flags & LOST != 0;
        let mut lost: Vec<u64> = self.queue.iter().copied().filter(is_lost).collect();
        lost.sort_unstable();
        lost.dedup();
        lost
    }
}

/// Sending.
impl Loss {
    /// New data leaves: the number of its segment.
    #[inline]
    pub(crate) fn on_sent(&mut self, sent: &Sent) -> u64 {
        let seq = self.nxt();
        self.segments.push(Segment::new(sent));
        seq
    }

    /// A segment that is to be sent again: its payload, and whether it counts as in flight.
    pub(crate) fn before_resending(&self, seq: u64) -> (u32, bool) {
        let segment = &self.segments[seq];
        (segment.bytes.into(), segment.flags & IN_FLIGHT != 0)
    }

    /// A segment leaves again: which transmission of it this is.
    pub(crate) fn on_resent(&mut self, seq: u64, sent: &Sent) -> u8 {
        let segment = &mut self.segments[seq];
        segment.stamp(sent);
        segment.tx = segment.tx.saturating_add(1);
        let tx = segment.tx;
        self.resent.push_back((seq, tx));
        if self.can_undo {
            self.undo_retransmissions = Some(self.undo_retransmissions.unwrap_or(0) + 1);
        }
        tx
    }

    /// The next lost segment to be sent again, which no longer counts as lost.
    pub(crate) fn take_lost(&mut self) -> Option<u64> {
        while self.lost > 0 {
            let seq = self.queue.pop_front().expect("every lost segment is queued");
            if seq >= self.una() && self.segments[seq].flags & LOST != 0 {
                self.lost -= 1;
                if self.lost == 0 {
                    self.queue.clear();
                }
                return Some(seq);
            }
        }
        None
    }

    /// The last segment sent, to be sent again as a probe, unless it was delivered.
    pub(crate) fn take_last(&mut self) -> Option<u64> {
        let last = self.nxt() - 1;
        let flags = self.segments[last].flags;
        if flags & DELIVERED != 0 {
            return None;
        }
        self.lost -= u64::from(flags & LOST != 0);
        Some(last)
    }

    /// A tail loss probe left, as new data or as a retransmission.
    pub(crate) fn on_probe_sent(&mut self, is_retransmission: bool) {
        self.probe = Some(Probe { end: self.nxt(), is_retransmission });
    }
}

/// Acknowledgements. The sender calls these in the order of Linux `tcp_ack` and `tcp_fastretrans_alert`:
/// `on_delivered` for each segment, `advance`, `settle_probe`, `adapt_reordering_window`, `undo` or `leave_recovery`,
/// `detect`, `next_reduction`.
impl Loss {
    /// A segment was delivered, which may have been sent several times.
    #[inline]
    pub(crate) fn on_delivered(
        &mut self,
        arrival: Arrival,
        now_us: u64,
        rtt: &Rtt,
        sampler: &Sampler,
    ) -> Delivered {
        let seq = arrival.seq();
        let segment = &mut self.segments[seq];
        let (flags, tx) = (segment.flags, segment.tx);
        segment.flags = flags & !(LOST | IN_FLIGHT) | DELIVERED;
        let sent = segment.sent(now_us, sampler);
        let is_needless = tx != arrival.tx();
        self.sacked += 1;
        self.lost -= u64::from(flags & LOST != 0);
        if seq >= self.highest {
            self.highest = seq + 1;
        } else if tx == 0 || is_needless {
            self.is_reordering_seen = true;
        }
        if is_needless {
            self.undo_retransmissions = self.undo_retransmissions.map(|n| n.saturating_sub(1));
        }
        let is_spurious = is_needless || (self.ca_state == CaState::Loss && tx == 0 && seq < self.high_seq);
        self.advance_rack(seq, sent.sent_us, now_us - sent.sent_us, tx, rtt);
        Delivered { sent, is_retransmission: tx > 0, was_in_flight: flags & IN_FLIGHT != 0, is_spurious }
    }

    /// The segments that `log` reports from `from` on, as far as each follows the one before it, nothing ever happened to
    /// them and nothing sent later has arrived. Nearly every ACK reports one such run and no more. It leaves the same
    /// behind as [`Loss::on_delivered`] for each of them.
    #[inline]
    pub(crate) fn on_run_delivered(
        &mut self,
        (log, from, log_end): (&SequenceBuffer<Arrival>, u64, u64),
        now_us: u64,
        rtt: &Rtt,
        sampler: &Sampler,
    ) -> Option<Run> {
        let first = log[from].seq();
        if first < self.highest || self.ca_state == CaState::Loss {
            return None;
        }
        let (mut end, mut bytes) = (first, 0);
        for i in from..log_end {
            if log[i] != Arrival::new(end, 0) || !self.segments[end].is_untouched() {
                break;
            }
            let segment = &mut self.segments[end];
            segment.flags ^= IN_FLIGHT | DELIVERED;
            bytes += u32::from(segment.bytes);
            end += 1;
        }
        if end == first {
            return None;
        }
        let (segments, last) = (end - first, end - 1);
        let oldest_sent_us = self.segments[first].sent_us(now_us);
        let newest = Sent { bytes, ..self.segments[last].sent(now_us, sampler) };
        self.advance_rack(last, newest.sent_us, now_us - newest.sent_us, 0, rtt);
        self.highest = end;
        if first == self.una() {
            self.segments.forget_before(end);
        } else {
            self.sacked += segments;
        }
        Some(Run { segments, oldest_sent_us, last, newest })
    }

    /// Linux `tcp_rack_advance`: remembers the most recently sent segment that was delivered.
    #[inline]
    fn advance_rack(&mut self, seq: u64, sent_us: u64, rtt_us: u64, tx: u8, rtt: &Rtt) {
        if tx > 0 && rtt_us < rtt.min_us {
            return; // The original arrived, not the retransmission just sent.
        }
        if (sent_us, seq) >= (self.rack_sent_us, self.rack_seq) {
            (self.rack_sent_us, self.rack_seq, self.rack_rtt_us) = (sent_us, seq, rtt_us);
        }
    }

    /// Lets go of the segments that are acknowledged without a gap; true when the oldest was `una` before the ACK and
    /// no longer is. An answer from the receiver ends the backoff.
    #[inline]
    pub(crate) fn advance(&mut self, una: u64) -> bool {
        while self.sacked > 0 && self.segments[self.una()].flags & DELIVERED != 0 {
            self.segments.forget_before(self.una() + 1);
            self.sacked -= 1;
        }
        let is_advance = self.una() > una;
        if is_advance {
            self.backoff = 0;
        }
        is_advance
    }

    /// Ends a tail loss probe that this ACK answers; true when the probe filled a hole that nothing else had shown,
    /// so that the window is to be reduced once for that loss (Linux `tcp_process_tlp_ack`).
    #[inline]
    pub(crate) fn settle_probe(&mut self, news: &News) -> bool {
        let Some(probe) = self.probe else { return false };
        let is_answered = self.una() >= probe.end;
        let was_needless = !probe.is_retransmission || news.is_duplicate || news.is_spurious;
        if is_answered || news.is_duplicate {
            self.probe = None;
        }
        is_answered && !was_needless
    }

    /// A needless retransmission shows that the reordering window is too narrow: it widens, once a round trip (Linux
    /// `tcp_rack_update_reo_wnd`).
    #[inline]
    pub(crate) fn adapt_reordering_window(&mut self, news: &News, sampler: &Sampler) {
        if news.is_duplicate && self.probe.is_none() && sampler.delivered() >= self.reorder_round_end {
            self.reorder_steps = (self.reorder_steps + 1).min(REORDER_STEPS_MAX);
            self.reorder_persist = REORDER_PERSIST;
            self.reorder_round_end = sampler.delivered() + sampler.inflight();
        }
    }

    /// Whether the last reduction was spurious: every retransmission in fast recovery was needless, or after a timeout
    /// an original arrived (F-RTO).
    #[inline]
    pub(crate) fn is_spurious(&self, news: &News) -> bool {
        match self.ca_state {
            CaState::Recovery => self.can_undo && self.undo_retransmissions == Some(0),
            CaState::Loss => self.can_undo && news.is_spurious,
            _ => false,
        }
    }

    /// Withdraws the marks of a spurious reduction that were not acted on yet, and ends recovery; the bytes that count
    /// as in flight again.
    pub(crate) fn undo(&mut self) -> u64 {
        let mut bytes = 0;
        for seq in self.una()..self.nxt() {
            let segment = &mut self.segments[seq];
            if segment.flags & LOST != 0 {
                segment.flags = segment.flags & !LOST | IN_FLIGHT;
                bytes += u64::from(segment.bytes);
            }
        }
        self.lost = 0;
        self.queue.clear();
        self.cursor = self.una();
        self.can_undo = false;
        self.ca_state = CaState::Open;
        bytes
    }

    /// Ends the state when everything sent before it began is acknowledged.
    pub(crate) fn leave_recovery(&mut self) {
        match self.ca_state {
            CaState::Recovery | CaState::Loss if self.una() >= self.high_seq => {
                self.ca_state = CaState::Open;
                self.can_undo = false;
                self.reorder_persist = self.reorder_persist.saturating_sub(1);
                if self.reorder_persist == 0 {
                    self.reorder_steps = 1;
                }
            }
            CaState::Cwr if self.una() > self.high_seq => self.ca_state = CaState::Open,
            _ => {}
        }
    }

    /// The state to enter with a reduction of the window, for losses or for CE marks; `None` where there is nothing
    /// new to reduce for.
    #[inline]
    pub(crate) fn next_reduction(&mut self, news: &News) -> Option<CaState> {
        if self.ca_state < CaState::Recovery && self.lost > 0 {
            return Some(CaState::Recovery);
        }
        if news.has_ce && self.ca_state < CaState::Cwr {
            return Some(CaState::Cwr);
        }
        if self.ca_state < CaState::Cwr {
            self.ca_state = if self.sacked > 0 { CaState::Disorder } else { CaState::Open };
        }
        None
    }

    /// The window has been reduced.
    pub(crate) fn enter(&mut self, ca_state: CaState) {
        self.ca_state = ca_state;
        self.can_undo = ca_state == CaState::Recovery;
        if self.can_undo {
            self.undo_retransmissions = None;
        }
        self.high_seq = self.nxt();
    }
}

/// Timers.
impl Loss {
    /// When the timer is due; `u64::MAX` for never.
    #[inline]
    pub(crate) fn timer_ns(&self) -> u64 {
        self.timer_ns
    }

    /// When the reordering window of the oldest suspect ends; `u64::MAX` for never.
    #[inline]
    pub(crate) fn reorder_ns(&self) -> u64 {
        self.reorder_ns
    }

    /// No timeout is armed: nothing is out, or only a probe's timer runs.
    pub(crate) fn is_timeout_unarmed(&self) -> bool {
        self.timer_ns == u64::MAX || self.timer == Timer::Probe
    }

    /// Takes the timer that has fired.
    pub(crate) fn fire(&mut self) -> Timer {
        self.timer_ns = u64::MAX;
        self.timer
    }

    /// Sets the timer of a SYN that was just sent; each one is waited for twice as long as the one before.
    pub(crate) fn arm_handshake(&mut self, now_ns: u64, rtt: &Rtt) {
        self.timer = Timer::Handshake;
        self.timer_ns = now_ns + rtt.rto_us(self.backoff) * 1000;
        self.backoff += 1;
    }

    /// The SYN was answered.
    pub(crate) fn on_connected(&mut self) {
        self.timer_ns = u64::MAX;
        self.backoff = 0;
    }

    /// Sets the probe's timer, or the retransmission timeout where a probe is out or recovery under way.
    #[inline]
    pub(crate) fn arm(&mut self, now_ns: u64, rtt: &Rtt) {
        if self.is_all_acked() {
            self.timer_ns = u64::MAX;
            return;
        }
        let rto_ns = rtt.rto_us(self.backoff) * 1000;
        let may_probe = matches!(self.ca_state, CaState::Open | CaState::Cwr) && self.probe.is_none();
        let is_alone = self.nxt() - self.una() == 1;
        let after_ns = if may_probe { rto_ns.min(rtt.pto_us(is_alone) * 1000) } else { rto_ns };
        self.timer = if may_probe { Timer::Probe } else { Timer::Timeout };
        self.timer_ns = now_ns + after_ns;
    }

    /// The retransmission timeout (Linux `tcp_enter_loss`): everything outstanding is lost, except what was sent so
    /// lately that its ACK may yet come. True when the window is to be reduced: a second timeout for the same flight
    /// says nothing new.
    pub(crate) fn on_timeout(&mut self, now_us: u64) -> bool {
        let una = self.una();
        self.queue.clear();
        for seq in una..self.nxt() {
            let segment = &self.segments[seq];
            let is_recent = segment.sent_us(now_us) + self.rack_rtt_us > now_us && seq != una;
            let is_outstanding = segment.flags & (DELIVERED | LOST) == 0;
            if segment.flags & LOST != 0 {
                self.queue.push_back(seq);
            } else if is_outstanding && !is_recent {
                self.mark_lost(seq);
                self.queue.push_back(seq);
            }
        }
        self.cursor = una;
        let is_first_in_loss = self.ca_state == CaState::Loss && self.backoff == 0;
        self.ca_state <= CaState::Disorder || una >= self.high_seq || is_first_in_loss
    }

    /// The controller has heard of the timeout. `is_new` is the answer of [`Loss::on_timeout`].
    pub(crate) fn enter_loss(&mut self, is_new: bool) {
        if is_new {
            self.can_undo = true;
            self.undo_retransmissions = None;
        }
        self.ca_state = CaState::Loss;
        self.high_seq = self.nxt();
        self.probe = None;
        self.backoff += 1;
    }
}

#[cfg(test)]
mod tests;
