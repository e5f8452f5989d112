//! Loss detection and recovery without a sender: segments are sent, arrive or do not, and what [`Loss`] makes of it is
//! looked at step by step. One segment is 1000 bytes; times are in milliseconds.

use super::detect::REORDER_SLACK_NS;
use super::*;

const BYTES: u32 = 1_000;
/// Of the path in all of these tests.
const RTT_MS: u64 = 40;

/// A sender that does nothing but keep the sampler and the RTT in step with [`Loss`].
struct Bench {
    loss: Loss,
    sampler: Sampler,
    rtt: Rtt,
    now_ms: u64,
}

/// What one ACK led to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    probe_repaired: bool,
    undone: bool,
    lost: Vec<u64>,
    reduction: Option<CaState>,
}

impl Bench {
    /// A connection whose RTT is known.
    fn new() -> Self {
        let mut rtt = Rtt::new();
        rtt.on_latest(RTT_MS * 1000);
        rtt.on_oldest(RTT_MS * 1000, 0, 0);
        Self { loss: Loss::new(), sampler: Sampler::default(), rtt, now_ms: 1_000 }
    }

    /// The same with segments `0..count` sent at once.
    fn with_flight(count: u64) -> Self {
        let mut bench = Self::new();
        bench.send(count);
        bench
    }

    fn now_us(&self) -> u64 {
        self.now_ms * 1000
    }

    fn send(&mut self, count: u64) {
        for _ in 0..count {
            let sent = self.sampler.on_sent(self.now_us(), BYTES);
            self.loss.on_sent(&sent);
        }
    }

    /// Sends everything again that is to be; the segments.
    fn resend(&mut self) -> Vec<u64> {
        let mut resent = Vec::new();
        while let Some(seq) = self.loss.take_lost() {
            self.resend_one(seq);
            resent.push(seq);
        }
        resent
    }

    fn resend_one(&mut self, seq: u64) {
        let (bytes, is_in_flight) = self.loss.before_resending(seq);
        if is_in_flight {
            self.sampler.on_replaced(bytes);
        }
        let sent = self.sampler.on_sent(self.now_us(), bytes);
        self.loss.on_resent(seq, &sent);
    }

    /// An ACK reports these arrivals, the segment and which transmission of it, after `wait_ms`.
    fn ack(&mut self, wait_ms: u64, arrivals: &[(u64, u8)]) -> Outcome {
        self.ack_with(wait_ms, arrivals, News::default())
    }

    fn ack_with(&mut self, wait_ms: u64, arrivals: &[(u64, u8)], mut news: News) -> Outcome {
        self.now_ms += wait_ms;
        let una = self.loss.una();
        self.sampler.begin();
        for &(seq, tx) in arrivals {
            let arrival = Arrival::new(seq, tx);
            let d = self.loss.on_delivered(arrival, self.now_us(), &self.rtt, &self.sampler);
            self.sampler.on_delivered(self.now_us(), &d.sent, d.was_in_flight);
            news.is_spurious |= d.is_spurious;
        }
        news.is_advance = self.loss.advance(una);
        let mut outcome = Outcome { probe_repaired: self.loss.settle_probe(&news), ..Outcome::default() };
        self.loss.adapt_reordering_window(&news, &self.sampler);
        outcome.undone = self.loss.is_spurious(&news);
        if outcome.undone {
            self.sampler.on_undone(self.loss.undo());
        } else {
            self.loss.leave_recovery();
        }
        outcome.lost = self.detect();
        outcome.reduction = self.loss.next_reduction(&news);
        if let Some(ca_state) = outcome.reduction {
            self.loss.enter(ca_state);
        }
        outcome
    }

    fn detect(&mut self) -> Vec<u64> {
        self.loss.detect(self.now_us(), &self.rtt);
        self.count_marked()
    }

    fn count_marked(&mut self) -> Vec<u64> {
        let marked = self.loss.take_marked();
        marked.iter().for_each(|_| self.sampler.on_lost(BYTES));
        marked.iter().map(|m| m.seq).collect()
    }

    /// The retransmission timer fires, `wait_ms` from now: the segments it gives up, and whether it asks for a
    /// reduction.
    fn time_out(&mut self, wait_ms: u64) -> (Vec<u64>, bool) {
        self.now_ms += wait_ms;
        let is_new = self.loss.on_timeout(self.now_us());
        let lost = self.count_marked();
        self.loss.enter_loss(is_new);
        (lost, is_new)
    }

    fn arm(&mut self) -> (Timer, u64) {
        self.loss.arm(self.now_us() * 1000, &self.rtt);
        (self.loss.timer, self.loss.timer_ns() / 1_000_000 - self.now_ms)
    }
}

/// Segments as they arrive the first time.
fn first(seqs: impl IntoIterator<Item = u64>) -> Vec<(u64, u8)> {
    seqs.into_iter().map(|seq| (seq, 0)).collect()
}

#[test]
fn arrivals_in_order_show_no_loss() {
    let mut b = Bench::with_flight(4);
    assert_eq!(b.ack(RTT_MS, &first(0..2)), Outcome::default());
    assert_eq!((b.loss.una(), b.loss.nxt(), b.loss.ca_state()), (2, 4, CaState::Open));
    assert_eq!(b.ack(1, &first(2..4)), Outcome::default());
    assert!(b.loss.is_all_acked() && b.sampler.inflight() == 0);
}

#[test]
fn a_gap_is_a_loss_at_once_after_three_segments_beyond_it() {
    let mut b = Bench::with_flight(8);
    assert_eq!(b.ack(RTT_MS, &first([1, 2])), Outcome::default());
    assert_eq!(b.loss.ca_state(), CaState::Disorder);
    let outcome = b.ack(0, &first([3]));
    assert_eq!((outcome.lost, outcome.reduction), (vec![0], Some(CaState::Recovery)));
    assert_eq!((b.loss.lost(), b.resend(), b.loss.lost()), (1, vec![0], 0));
}

#[test]
fn with_fewer_segments_beyond_it_a_gap_is_a_loss_after_a_quarter_of_the_minimum_rtt() {
    let mut b = Bench::with_flight(2);
    assert_eq!(b.ack(RTT_MS, &first([1])), Outcome::default());
    let window_end_ms = b.now_ms + RTT_MS / 4;
    assert_eq!(b.loss.reorder_ns(), window_end_ms * 1_000_000 + REORDER_SLACK_NS);
    b.now_ms = window_end_ms - 1;
    assert!(b.detect().is_empty());
    b.now_ms = window_end_ms;
    assert_eq!(b.detect(), [0]);
    assert_eq!(b.loss.reorder_ns(), u64::MAX, "there is no other suspect");
}

#[test]
fn what_was_sent_after_the_latest_arrival_is_no_suspect() {
    let mut b = Bench::with_flight(5);
    b.now_ms += 1;
    b.send(3);
    assert_eq!(b.ack(RTT_MS - 1, &first(0..5)), Outcome::default());
    b.now_ms += 500;
    assert_eq!((b.detect(), b.loss.reorder_ns()), (vec![], u64::MAX));
}

#[test]
fn reordering_once_seen_keeps_the_window_open() {
    let mut b = Bench::with_flight(20);
    b.ack(RTT_MS, &first([1]));
    assert_eq!(b.ack(1, &first([0])), Outcome::default(), "it came late, by less than the window");
    let outcome = b.ack(0, &first([3, 4, 5, 6, 7]));
    assert_eq!(outcome, Outcome::default(), "three segments beyond the gap no longer suffice");
    b.now_ms += RTT_MS / 4;
    assert_eq!(b.detect(), [2]);
}

#[test]
fn a_needless_retransmission_widens_the_window_once_a_round_trip() {
    let mut b = Bench::with_flight(20);
    let duplicate = News { is_duplicate: true, ..News::default() };
    b.ack_with(RTT_MS, &first([0]), duplicate);
    b.ack_with(0, &first([1]), duplicate);
    assert_eq!(b.loss.reorder_steps, 2, "the second one is of the same round");
    b.ack(0, &first(2..20));
    b.send(1);
    b.ack_with(RTT_MS, &first([20]), duplicate);
    assert_eq!(b.loss.reorder_steps, 3);
    // Where nothing was reordered there is no window at all, so this needs both.
    b.loss.is_reordering_seen = true;
    assert_eq!(b.loss.reordering_window_us(&b.rtt), 30_000);
    b.loss.reorder_steps = 10;
    assert_eq!(b.loss.reordering_window_us(&b.rtt), RTT_MS * 1000, "never above the smoothed RTT");
}

#[test]
fn a_widened_window_is_kept_for_sixteen_recoveries() {
    let mut b = Bench::new();
    (b.loss.reorder_steps, b.loss.reorder_persist) = (4, REORDER_PERSIST);
    for i in 1..=REORDER_PERSIST {
        assert_eq!(b.loss.reorder_steps, 4, "recovery {i}");
        b.loss.enter(CaState::Recovery);
        b.loss.leave_recovery();
    }
    assert_eq!(b.loss.reorder_steps, 1);
}

#[test]
fn recovery_ends_when_all_sent_before_it_is_acknowledged() {
    let mut b = Bench::with_flight(8);
    b.ack(RTT_MS, &first(1..6));
    assert_eq!(b.resend(), [0]);
    b.send(4);
    b.ack(RTT_MS, &[(0, 1), (6, 0)]);
    assert_eq!(
        (b.loss.una(), b.loss.ca_state()),
        (7, CaState::Recovery),
        "segment 7 was sent before it began"
    );
    b.ack(0, &first([7]));
    assert_eq!((b.loss.una(), b.loss.ca_state()), (8, CaState::Open));
}

#[test]
fn losses_within_recovery_ask_for_no_second_reduction() {
    let mut b = Bench::with_flight(10);
    assert_eq!(b.ack(RTT_MS, &first([2, 3, 4])).reduction, Some(CaState::Recovery));
    let outcome = b.ack(1, &first([6, 7, 8]));
    assert_eq!((outcome.lost, outcome.reduction), (vec![5], None));
}

#[test]
fn a_retransmission_that_is_lost_is_noticed_and_goes_first() {
    let mut b = Bench::with_flight(12);
    b.ack(RTT_MS, &first([3, 4, 5]));
    b.now_ms += 1;
    let seq = b.loss.take_lost().unwrap();
    b.resend_one(seq);
    assert_eq!(seq, 0);
    b.now_ms += 1;
    b.send(1);
    let outcome = b.ack(RTT_MS, &first([12]));
    assert_eq!(outcome.lost, [6, 7, 8, 9, 10, 11, 0]);
    assert_eq!(b.resend(), [0, 1, 2, 6, 7, 8, 9, 10, 11]);
}

#[test]
fn ranges_of_losses_are_told_apart() {
    let mut b = Bench::with_flight(10);
    b.ack(RTT_MS, &first([2]));
    b.now_ms += 20;
    b.send(1);
    let arrivals = first([5, 6, 7, 8, 9]);
    b.now_ms += 1;
    for &(seq, tx) in &arrivals {
        b.loss.on_delivered(Arrival::new(seq, tx), b.now_us(), &b.rtt, &b.sampler);
    }
    b.loss.detect(b.now_us(), &b.rtt);
    let starts: Vec<(u64, bool)> = b.loss.take_marked().iter().map(|m| (m.seq, m.starts_range)).collect();
    // `u64::MAX + 1` is 0: the first segment of a connection follows "nothing".
    assert_eq!(starts, [(0, false), (1, false), (3, true), (4, false)]);
}

#[test]
fn recovery_is_undone_when_every_retransmission_was_needless() {
    let mut b = Bench::with_flight(10);
    b.ack(RTT_MS, &first([2, 3, 4]));
    assert_eq!(b.resend(), [0, 1]);
    let outcome = b.ack(1, &[(0, 0)]);
    assert!(!outcome.undone, "the other one may have been needed");
    let outcome = b.ack(1, &[(1, 0)]);
    assert!(outcome.undone);
    assert_eq!((b.loss.ca_state(), b.loss.can_undo), (CaState::Open, false));
}

#[test]
fn an_undo_withdraws_marks_that_were_not_acted_on() {
    let mut b = Bench::with_flight(10);
    b.ack(RTT_MS, &first([3, 4, 5]));
    let seq = b.loss.take_lost().unwrap();
    b.resend_one(seq);
    let in_flight = b.sampler.inflight();
    let outcome = b.ack(1, &[(0, 0)]);
    assert!(outcome.undone);
    assert_eq!((b.loss.lost(), b.resend()), (0, vec![]));
    assert_eq!(b.sampler.inflight(), in_flight + u64::from(BYTES), "0 arrived; 1 and 2 count again");
    assert!(b.loss.is_reordering_seen);
}

#[test]
fn ce_marks_reduce_once_a_round_trip() {
    let mut b = Bench::with_flight(4);
    let marked = News { has_ce: true, ..News::default() };
    assert_eq!(b.ack_with(RTT_MS, &first([0]), marked).reduction, Some(CaState::Cwr));
    b.send(4);
    assert_eq!(b.ack_with(0, &first(1..4), marked).reduction, None);
    b.ack(RTT_MS, &first([4]));
    assert_eq!(b.loss.ca_state(), CaState::Open, "a segment sent after the reduction is acknowledged");
    assert_eq!(b.ack_with(0, &first([5]), marked).reduction, Some(CaState::Cwr));
}

#[test]
fn the_probe_comes_after_two_rtts_but_of_one_segment_the_timeout_comes_first() {
    let mut b = Bench::with_flight(2);
    assert_eq!(b.arm(), (Timer::Probe, 82));
    b.ack(RTT_MS, &first([0]));
    // The receiver may hold back the ACK of a single segment for 200 ms, which is more than the timeout allows.
    assert_eq!(b.arm(), (Timer::Probe, RTT_MS + 200));
    b.ack(1, &first([1]));
    b.loss.arm(b.now_us() * 1000, &b.rtt);
    assert_eq!(b.loss.timer_ns(), u64::MAX, "nothing is outstanding");
}

#[test]
fn a_probe_that_repairs_the_tail_asks_for_one_reduction() {
    let mut b = Bench::with_flight(3);
    b.ack(RTT_MS, &first(0..2));
    b.now_ms += 82;
    let last = b.loss.take_last().unwrap();
    b.resend_one(last);
    b.loss.on_probe_sent(true);
    assert_eq!(b.arm().0, Timer::Timeout, "one probe a flight");
    let outcome = b.ack(RTT_MS, &[(2, 1)]);
    assert_eq!(outcome, Outcome { probe_repaired: true, ..Outcome::default() });
    assert!(b.loss.probe.is_none() && b.loss.ca_state() == CaState::Open);
}

#[test]
fn a_probe_that_was_needless_asks_for_nothing() {
    let mut b = Bench::with_flight(1);
    b.now_ms += 82;
    let last = b.loss.take_last().unwrap();
    b.resend_one(last);
    b.loss.on_probe_sent(true);
    assert!(!b.ack(1, &[(0, 0)]).probe_repaired, "the original arrived");
    assert!(b.loss.probe.is_none());

    let mut b = Bench::with_flight(1);
    b.send(1);
    b.loss.on_probe_sent(false);
    assert!(!b.ack(RTT_MS, &first(0..2)).probe_repaired, "the probe was new data");
    assert!(b.loss.probe.is_none());
}

#[test]
fn a_tail_that_was_delivered_needs_no_probe() {
    let mut b = Bench::with_flight(3);
    b.ack(RTT_MS, &first([2]));
    assert_eq!(b.loss.take_last(), None);
}

#[test]
fn a_timeout_gives_up_all_but_what_was_sent_lately() {
    let mut b = Bench::with_flight(4);
    b.ack(RTT_MS, &first([0]));
    b.now_ms += 190;
    b.send(2);
    assert_eq!(b.time_out(10), (vec![1, 2, 3], true));
    assert_eq!((b.loss.ca_state(), b.sampler.inflight()), (CaState::Loss, 2 * u64::from(BYTES)));
    assert_eq!(b.resend(), [1, 2, 3]);
}

/// What was sent within the last round trip may still be answered, except the oldest: the timer was its.
#[test]
fn a_timeout_gives_up_the_oldest_however_late_it_was_sent() {
    let mut b = Bench::with_flight(1);
    b.ack(RTT_MS, &first([0]));
    b.send(3);
    assert_eq!(b.time_out(10), (vec![1], true));
}

#[test]
fn timeouts_double_and_ask_for_one_reduction() {
    let mut b = Bench::with_flight(2);
    let (timer, wait_ms) = b.arm();
    assert_eq!((timer, wait_ms), (Timer::Probe, 82));
    b.loss.on_probe_sent(true);
    let mut waits_ms = Vec::new();
    let mut reductions = 0;
    for _ in 0..3 {
        waits_ms.push(b.arm().1);
        reductions += u64::from(b.time_out(waits_ms[waits_ms.len() - 1]).1);
        b.resend();
    }
    assert_eq!((waits_ms, reductions), (vec![240, 480, 960], 1));
    b.ack(RTT_MS, &[(0, 3)]);
    assert_eq!(b.arm().1, 240, "an answer ends the backoff");
}

#[test]
fn a_timeout_is_undone_when_an_original_arrives() {
    let mut b = Bench::with_flight(4);
    b.time_out(300);
    let seq = b.loss.take_lost().unwrap();
    b.resend_one(seq);
    let outcome = b.ack(1, &first([1]));
    assert!(outcome.undone, "the path was slow, nothing was lost");
    assert_eq!((b.loss.ca_state(), b.loss.lost()), (CaState::Disorder, 0), "there is still a gap");
}

#[test]
fn a_timeout_holds_when_only_retransmissions_arrive() {
    let mut b = Bench::with_flight(2);
    b.time_out(300);
    assert_eq!(b.resend(), [0, 1]);
    let outcome = b.ack(RTT_MS, &[(0, 1)]);
    assert_eq!((outcome.undone, b.loss.ca_state()), (false, CaState::Loss));
    b.ack(0, &[(1, 1)]);
    assert_eq!(b.loss.ca_state(), CaState::Open);
}

#[test]
fn a_retransmission_acknowledged_sooner_than_possible_is_the_original() {
    let mut b = Bench::with_flight(4);
    b.ack(RTT_MS, &first(1..4));
    b.now_ms += 10;
    b.resend();
    let newest = (b.loss.rack_sent_us, b.loss.rack_seq);
    b.now_ms += 1;
    b.loss.on_delivered(Arrival::new(0, 1), b.now_us(), &b.rtt, &b.sampler);
    assert_eq!((b.loss.rack_sent_us, b.loss.rack_seq), newest, "RACK learns nothing from it");
}

#[test]
fn each_syn_is_waited_for_twice_as_long_until_one_is_answered() {
    let mut loss = Loss::new();
    let rtt = Rtt::new();
    for wait_s in [1, 2, 4, 8] {
        loss.arm_handshake(0, &rtt);
        assert_eq!(loss.timer_ns(), wait_s * 1_000_000_000);
        assert_eq!(loss.fire(), Timer::Handshake);
    }
    loss.on_connected();
    assert_eq!((loss.timer_ns(), loss.backoff), (u64::MAX, 0));
}

#[test]
fn a_run_leaves_the_same_behind_as_its_segments_one_by_one() {
    // What arrived before, what arrives now, and how many of that are a run: in order, beyond a gap, up to a gap, and
    // none where something sent later has arrived.
    for (before, arrivals, segments) in [
        (vec![], vec![0, 1, 2], Some(3)),
        (vec![], vec![2, 3], Some(2)),
        (vec![1], vec![2, 3, 5], Some(2)),
        (vec![5], vec![3, 4], None),
    ] {
        let mut b = Bench::with_flight(8);
        b.ack(RTT_MS, &before.iter().map(|&seq| (seq, 0)).collect::<Vec<_>>());
        let (mut by_one, una) = (b.loss.clone(), b.loss.una());
        let mut log = SequenceBuffer::new(8);
        arrivals.iter().for_each(|&seq| log.push(Arrival::new(seq, 0)));
        let run = b.loss.on_run_delivered((&log, 0, log.end()), b.now_us(), &b.rtt, &b.sampler);
        assert_eq!(run.map(|run| run.segments), segments);
        for i in 0..segments.unwrap_or(0) {
            by_one.on_delivered(log[i], b.now_us(), &b.rtt, &b.sampler);
        }
        assert_eq!(b.loss.advance(una), by_one.advance(una));
        assert_eq!(format!("{:?}", b.loss), format!("{by_one:?}"));
    }
}
