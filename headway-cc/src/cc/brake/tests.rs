//! The brake, fed with ACKs that the tests make up: paths over some time ([`Feed`]), and slots whose figures are
//! chosen to the byte and the microsecond ([`Slots`]), so that each limit of the documented rules
//! (`docs/explanation/brake.md`) is tried on both of its sides.

mod on;

use super::*;
use crate::cc::bbr3::Bbr3Params;

fn params() -> BrakeParams {
    Bbr3Params::default().brake
}

/// A path that is fed slots: 40 ms, ACKs of two segments of 1000 bytes.
struct Feed {
    s: Brake,
    ack: Ack,
}

impl Feed {
    /// Two seconds at 10 MB/s.
    fn new() -> Self {
        let ack = Ack { now_us: 1_000_000, smss: 1000, delivered: 1 << 20, ..Ack::default() };
        let mut feed = Self { s: Brake::default(), ack };
        feed.run(2_000, 10, 40_000);
        assert_eq!((feed.s.mode, feed.s.entries), (BrakeMode::Watch, 0));
        assert!(feed.s.usual_rtt_us == 40_000 && feed.s.usual_bw.abs_diff(10 * BW_UNIT) < BW_UNIT / 10);
        feed
    }

    /// So many ms of ACKs at `rate` bytes/µs with this RTT.
    fn run(&mut self, ms: u64, rate: u64, rtt_us: u64) {
        self.run_with(ms, rate, rtt_us, |_, _| {});
    }

    fn run_with(&mut self, ms: u64, rate: u64, rtt_us: u64, change: impl Fn(&mut Ack, u64)) {
        let until_us = self.ack.now_us + ms * 1000;
        while self.ack.now_us < until_us {
            self.ack.now_us += 2000 / rate;
            self.ack.delivered += 2000;
            (self.ack.newly_acked, self.ack.rs_rtt_us) = (2000, rtt_us);
            self.ack.rs_prior_delivered = self.ack.delivered - rate * rtt_us.min(100_000);
            self.ack.inflight = rate * rtt_us;
            change(&mut self.ack, self.s.bw);
            brake_on_ack(&mut BrakeAck {
                s: &mut self.s,
                p: &params(),
                ack: &self.ack,
                max_bw: 10 * BW_UNIT,
                min_rtt_us: 40_000,
                bw: 10 * BW_UNIT,
                pacing_gain: GAIN_UNIT,
                is_round_start: self.ack.delivered % 400_000 < 2000,
                is_marking: false,
                is_watching: true,
                is_steady: true,
                floor: 4000,
            });
        }
    }
}

#[test]
fn a_slower_path_with_a_queue_is_bounded_at_what_it_delivers_within_a_quarter_round() {
    let mut f = Feed::new();
    f.run(10, 5, 50_000);
    assert_eq!((f.s.mode, f.s.entries), (BrakeMode::Drain, 1));
    assert!(f.s.bw.abs_diff(5 * BW_UNIT) < BW_UNIT / 10 && f.s.window <= 205_000, "{:?}", f.s);
    f.run(60, 5, 40_000);
    assert!(f.s.mode == BrakeMode::Hold && f.s.bw > 6 * BW_UNIT, "{:?}", f.s);
    f.run(100, 10, 40_000);
    assert_eq!((f.s.mode, f.s.releases, f.s.window), (BrakeMode::Watch, 1, u64::MAX));
}

#[test]
fn one_of_the_two_signs_is_no_evidence() {
    for (rate, rtt_us) in [(5, 40_000), (10, 80_000)] {
        let mut f = Feed::new();
        f.run(300, rate, rtt_us);
        assert_eq!(f.s.entries, 0, "{rate} bytes/us, {rtt_us} us");
    }
}

#[test]
fn an_application_s_pause_and_a_stall_are_no_evidence() {
    let mut f = Feed::new();
    f.run_with(300, 5, 60_000, |ack, _| ack.rs_is_app_limited = true);
    assert_eq!(f.s.entries, 0);
    f.ack.rs_is_app_limited = false;
    f.ack.now_us += 80_000; // nothing, then all that waited
    f.run(20, 40, 120_000);
    assert_eq!(f.s.entries, 0);
}

/// All samples from ProbeRTT's first mark to the end of its last one say application-limited.
#[test]
fn the_round_after_probe_rtt_is_evidence_and_probe_rtt_is_none() {
    let mut f = Feed::new();
    (f.s.marked_start, f.s.marked_end) = (u64::MAX, u64::MAX);
    f.run_with(300, 5, 60_000, |ack, _| ack.rs_is_app_limited = true);
    assert_eq!(f.s.entries, 0, "sent in ProbeRTT");
    let usual_rtt_us = f.s.usual_rtt_us;
    (f.s.marked_start, f.s.marked_end) = (0, f.ack.delivered + 1_000_000);
    f.run_with(60, 10, 39_000, |ack, _| ack.rs_is_app_limited = true);
    assert_eq!((f.s.entries, f.s.usual_rtt_us), (0, usual_rtt_us), "not usual either");
    f.run_with(20, 5, 60_000, |ack, _| ack.rs_is_app_limited = true);
    assert_eq!((f.s.mode, f.s.entries), (BrakeMode::Drain, 1), "sent in the round after it");
}

#[test]
fn loss_stands_for_a_queue_that_has_no_room() {
    let mut f = Feed::new();
    f.run_with(20, 5, 40_000, |ack, _| ack.lost += 2000);
    assert_eq!((f.s.mode, f.s.entries), (BrakeMode::Hold, 1), "there is no queue to drain");
    let mut f = Feed::new();
    f.run_with(20, 5, 40_000, |ack, _| ack.delivered_ce += 1500);
    assert_eq!(f.s.entries, 1);
}

#[test]
fn a_queue_that_stays_is_somebody_else_s() {
    let mut f = Feed::new();
    f.run(10, 5, 80_000);
    assert_eq!(f.s.mode, BrakeMode::Drain);
    f.run_with(400, 5, 80_000, |ack, bw| ack.inflight = bw_data(bw, 40_000) / 2);
    assert_eq!((f.s.mode, f.s.false_entries), (BrakeMode::Watch, 1));
    f.run(400, 5, 80_000);
    assert_eq!(f.s.entries, 1, "and is usual from now on");
}

#[test]
fn the_rest_of_a_long_queue_is_our_own_for_another_round() {
    let mut f = Feed::new();
    f.run(10, 5, 80_000);
    f.run(200, 5, 400_000);
    // What others sent behind our queue takes longer than it took the brake to come on.
    let quiet = |ack: &mut Ack, bw| ack.inflight = bw_data(bw, 40_000) / 2;
    f.run_with(90, 5, 75_000, quiet);
    assert_eq!((f.s.mode, f.s.false_entries), (BrakeMode::Drain, 0));
    let mut gone = Feed { s: f.s, ack: f.ack };
    gone.run_with(60, 5, 40_000, quiet);
    assert_eq!(gone.s.mode, BrakeMode::Hold);
    f.run_with(200, 5, 75_000, quiet);
    assert_eq!((f.s.mode, f.s.false_entries), (BrakeMode::Watch, 1), "it stands");
}

/// A brake that is fed whole slots. Segments have 1000 bytes, the minimum RTT is 40 ms, the baseline is 40 ms and
/// 10 bytes/µs without any deviation, the flow paced at 10, and the model's largest bandwidth is 12. A slot lasts
/// 6 ms, so 60,000 bytes in it are 10 bytes/µs.
struct Slots {
    s: Brake,
    p: BrakeParams,
    ack: Ack,
    /// What the controller hands over; `s`, `p` and `ack` are put in for each ACK.
    max_bw: u64,
    min_rtt_us: u64,
    bw: u64,
    pacing_gain: u64,
    floor: u64,
    is_round_start: bool,
    is_marking: bool,
    is_watching: bool,
    is_steady: bool,
}

/// So many bytes/µs.
fn rate(bytes: u64) -> u64 {
    bytes * BW_UNIT
}

impl Slots {
    fn new() -> Self {
        let ack = Ack {
            now_us: 100_000_000,
            smss: 1000,
            delivered: 1 << 20,
            rs_prior_delivered: 1 << 20,
            inflight: u64::MAX,
            ..Ack::default()
        };
        let mut f = Self {
            s: Brake::default(),
            p: params(),
            ack,
            max_bw: rate(12),
            min_rtt_us: 40_000,
            bw: rate(10),
            pacing_gain: GAIN_UNIT,
            floor: 4_000,
            is_round_start: true,
            is_marking: false,
            is_watching: false,
            is_steady: false,
        };
        // Two rounds make the pace known, and each ACK outside of the watched phases begins a slot.
        f.give();
        f.give();
        (f.is_round_start, f.is_watching) = (false, true);
        (f.s.usual_rtt_us, f.s.usual_bw) = (40_000, rate(10));
        f
    }

    fn give(&mut self) {
        brake_on_ack(&mut BrakeAck {
            s: &mut self.s,
            p: &self.p,
            ack: &self.ack,
            max_bw: self.max_bw,
            min_rtt_us: self.min_rtt_us,
            bw: self.bw,
            pacing_gain: self.pacing_gain,
            is_round_start: self.is_round_start,
            is_marking: self.is_marking,
            is_watching: self.is_watching,
            is_steady: self.is_steady,
            floor: self.floor,
        });
    }

    /// An ACK that comes so many µs after the one before.
    fn ack(&mut self, after_us: u64, bytes: u64, rtt_us: u64) {
        self.ack.now_us += after_us;
        self.ack.delivered += bytes;
        self.ack.rs_rtt_us = rtt_us;
        self.give();
        self.is_round_start = false;
    }

    /// A slot of three ACKs, 2 ms apart.
    fn slot(&mut self, bytes: u64, rtt_us: u64) {
        for part in [bytes / 3, bytes / 3, bytes - 2 * (bytes / 3)] {
            self.ack(2_000, part, rtt_us);
        }
    }

    /// A slot without a queue, whose first ACK begins a round.
    fn round(&mut self, bytes: u64) {
        self.is_round_start = true;
        self.slot(bytes, 40_000);
    }

    /// The path has become half as fast: in DRAIN behind 10 ms of queue.
    fn in_drain() -> Self {
        let mut f = Self::new();
        f.slot(30_000, 50_000);
        assert_eq!((f.s.mode, f.s.bw), (BrakeMode::Drain, rate(5)));
        f
    }

    /// The queue is gone, and the brake came on a second ago, which is longer than four round trips.
    fn in_hold() -> Self {
        let mut f = Self::in_drain();
        f.slot(30_000, 40_000);
        f.s.entry_us -= 1_000_000;
        assert_eq!((f.s.mode, f.s.bw, f.s.base_bw), (BrakeMode::Hold, rate(5), rate(5)));
        f
    }

    /// The same, and the old rate is allowed again: 40,000 bytes are more than 1.25 times 5 bytes/µs.
    fn in_hold_at_the_old_rate() -> Self {
        let mut f = Self::in_hold();
        f.slot(40_000, 40_000);
        assert_eq!((f.s.mode, f.s.bw), (BrakeMode::Hold, rate(12)));
        f
    }

    /// Mode, releases and false entries.
    fn end(&self) -> (BrakeMode, u64, u64) {
        (self.s.mode, self.s.releases, self.s.false_entries)
    }
}

/// Whether a slot puts the brake on, after a change of the figures.
fn enters(bytes: u64, rtt_us: u64, change: impl FnOnce(&mut Slots)) -> bool {
    let mut f = Slots::new();
    change(&mut f);
    f.slot(bytes, rtt_us);
    assert_eq!(f.s.mode == BrakeMode::Drain, f.s.entries == 1);
    f.s.entries == 1
}

/// Both signs have to be beyond their margins: an eighth of 10 bytes/µs leaves 8.75, which are 52,500 bytes, and a
/// sixteenth of 40 ms above the baseline are 42.5 ms.
#[test]
fn the_brake_comes_on_beyond_both_margins_and_not_at_them() {
    assert!(enters(52_499, 42_501, |_| {}));
    assert!(!enters(52_500, 42_501, |_| {}));
    assert!(!enters(52_499, 42_500, |_| {}));
    assert!(!enters(52_499, NO_RTT, |_| {}), "no sample of the RTT");
    // Four mean deviations of 700 µs are 2.8 ms, and of an eighth of a byte/µs half a byte: 8.25 bytes/µs.
    assert!(enters(52_499, 42_801, |f| f.s.usual_rtt_dev_us = 700));
    assert!(!enters(52_499, 42_800, |f| f.s.usual_rtt_dev_us = 700));
    assert!(enters(49_499, 42_501, |f| f.s.usual_bw_dev = BW_UNIT / 8));
    assert!(!enters(49_500, 42_501, |f| f.s.usual_bw_dev = BW_UNIT / 8));
    // A sixteenth of 4 ms is less than half a millisecond.
    let short = |f: &mut Slots| (f.min_rtt_us, f.s.usual_rtt_us) = (4_000, 4_000);
    assert!(enters(52_499, 4_501, short));
    assert!(!enters(52_499, 4_500, short));
}

/// What is expected is the smallest of the baseline, the model's largest bandwidth, and the pace of this round and
/// the last. Seven eighths of 8 bytes/µs are 7, which are 42,000 bytes.
#[test]
fn the_rate_is_compared_with_no_more_than_the_flow_sent_and_the_model_knows() {
    let references: [fn(&mut Slots); 4] = [
        |f| f.max_bw = rate(8),
        |f| f.s.usual_bw = rate(8),
        |f| f.s.paced_bw = rate(8),
        |f| f.s.paced_bw_before = rate(8),
    ];
    for (n, reference) in references.into_iter().enumerate() {
        assert!(enters(41_999, 42_501, reference), "{n}");
        assert!(!enters(42_000, 42_501, reference), "{n}");
        // Twice the margin is a clear queue, behind which it does not matter what was sent.
        let is_sent = n >= 2;
        assert!(!enters(42_000, 45_000, reference), "{n}");
        assert_eq!(enters(42_000, 45_001, reference), is_sent, "{n}");
        assert_eq!(enters(52_499, 45_001, reference), is_sent, "{n}");
        assert!(!enters(52_500, 45_001, reference), "{n}");
    }
}

/// The old rate is the model's largest bandwidth and not the baseline. The bound is what this slot delivered: the
/// slot before is from before the drop.
#[test]
fn an_entry_notes_the_old_rate_the_time_and_the_queue() {
    let mut f = Slots::new();
    f.slot(60_000, 40_000);
    f.s.lossy_slots = 1;
    f.slot(30_000, 50_000);
    assert_eq!((f.s.mode, f.s.entries, f.s.lossy_slots), (BrakeMode::Drain, 1, 0));
    assert_eq!((f.s.bw, f.s.target_bw), (rate(5), rate(12)));
    assert_eq!((f.s.entry_us, f.s.queue_rtt_us, f.s.quiet_delivered), (f.ack.now_us, 50_000, 0));
    assert_eq!(f.s.window, 200_000, "5 bytes/µs for 40 ms");
    assert_eq!((brake_bw(&f.s, rate(10)), brake_gain(f.s.mode, GAIN_UNIT * 2)), (rate(5), GAIN_UNIT));
    assert_eq!(brake_gain(f.s.mode, GAIN_UNIT / 2), GAIN_UNIT / 2);
}

/// Of 60,000 bytes half arrives, so 30,000 are missing; more than half of those have to be lost, or more than half
/// of what arrives has to be marked, in two slots in a row.
#[test]
fn loss_or_marks_confirm_a_slow_slot_that_met_no_queue() {
    let entries = |bytes: u64, lost: u64, ce: u64, slots: u64| {
        let mut f = Slots::new();
        for _ in 0..slots {
            (f.ack.lost, f.ack.delivered_ce) = (f.ack.lost + lost, f.ack.delivered_ce + ce);
            f.slot(bytes, 40_000);
        }
        f.s.entries
    };
    assert_eq!((entries(30_000, 15_001, 0, 1), entries(30_000, 15_001, 0, 2)), (0, 1));
    assert_eq!(entries(30_000, 15_000, 0, 5), 0);
    assert_eq!((entries(30_000, 0, 15_001, 1), entries(30_000, 0, 15_001, 2)), (0, 1));
    assert_eq!(entries(30_000, 0, 15_000, 5), 0);
    // 8000 are missing of 52,000: half of that is less than an eighth of what arrives, which is 6500.
    assert_eq!((entries(52_000, 6_500, 0, 5), entries(52_000, 6_501, 0, 2)), (0, 1));
    assert_eq!(entries(52_500, 60_000, 52_500, 5), 0, "not slow");
    // In a row: a slot without loss, or one of which nothing can be told, begins the count anew.
    for is_app_limited in [false, true] {
        let mut f = Slots::new();
        for n in 0..7 {
            f.ack.lost += if n % 2 == 0 { 20_000 } else { 0 };
            f.ack.rs_is_app_limited = is_app_limited && n % 2 == 1;
            f.slot(30_000, 40_000);
        }
        assert_eq!(f.s.entries, 0);
    }
}

/// A slot that is paused for more than half of its time, or that the application limited, shows no rate.
#[test]
fn a_stall_and_an_application_limited_slot_are_not_judged() {
    for (gap_us, entries) in [(3_000, 1), (3_001, 0)] {
        let mut f = Slots::new();
        f.ack(gap_us, 10_000, 50_000);
        f.ack(1_500, 10_000, 50_000);
        f.ack(4_500 - gap_us, 10_000, 50_000);
        assert_eq!((f.s.entries, f.s.slot_us), (entries, f.ack.now_us), "{gap_us}");
    }
    assert!(!enters(30_000, 50_000, |f| f.ack.rs_is_app_limited = true));
}

/// A slot lasts a sixteenth of 40 ms, which is 2.5 ms; ACKs closer than an eighth of that, 312 µs, count as one.
#[test]
fn a_slot_has_three_separate_acks_and_its_length() {
    let judged = |gaps_us: &[u64]| {
        let mut f = Slots::new();
        gaps_us.iter().for_each(|gap_us| f.ack(*gap_us, 3_000, 40_000));
        f.s.slot_us == f.ack.now_us
    };
    assert!(judged(&[1_000, 1_000, 500]) && !judged(&[1_000, 1_000, 499]));
    assert!(!judged(&[2_000, 2_000]) && judged(&[2_000, 2_000, 312]) && !judged(&[2_000, 2_000, 311]));
    // While the brake is on it lasts twice as long, and has eight segments.
    let braked = |gap_us: u64, bytes: u64| {
        let mut f = Slots::in_drain();
        for (gap_us, bytes) in [(2_000, 0), (2_000, 0), (gap_us, bytes)] {
            f.ack(gap_us, bytes, 50_000);
        }
        f.s.slot_us == f.ack.now_us
    };
    assert!(braked(1_000, 8_000) && !braked(999, 8_000) && !braked(1_000, 7_999));
    // With the brake off a slot also ends when 16 segments should have arrived. At 6.4 bytes/µs that takes 2.5 ms.
    for (paced, is_over) in [(rate(32) / 5 + 1, true), (rate(32) / 5 - BW_UNIT / 100, false)] {
        let mut f = Slots::new();
        f.s.paced_bw = paced;
        for gap_us in [1_000, 1_000, 500] {
            f.ack(gap_us, 1, 40_000);
        }
        assert_eq!(f.s.slot_us == f.ack.now_us, is_over);
    }
}

/// Averages move by a thirty-second of the difference: 1600 µs and a byte/µs.
#[test]
fn the_baseline_is_learned_by_a_thirty_second_and_only_from_steady_slots() {
    let mut f = Slots::new();
    f.is_steady = true;
    f.slot(66_000, 41_600);
    assert_eq!((f.s.usual_rtt_us, f.s.usual_rtt_dev_us), (40_050, 50));
    assert_eq!((f.s.usual_bw, f.s.usual_bw_dev), (rate(10) + BW_UNIT / 32, BW_UNIT / 32));
    f.slot(54_000, 40_050);
    // The deviation of 50 µs falls by a thirty-second of itself, rounded down to 1 µs.
    assert_eq!((f.s.usual_rtt_us, f.s.usual_rtt_dev_us), (40_050, 49));
    let left = BW_UNIT * 33 / 32;
    assert_eq!(f.s.usual_bw, rate(9) + left - left / 32);
    assert_eq!(f.s.usual_bw_dev, BW_UNIT / 32 + (left - BW_UNIT / 32) / 32);
    let mut f = Slots::new();
    (f.is_steady, f.s.usual_rtt_us, f.s.usual_bw) = (true, 0, 0);
    f.slot(54_000, 41_600);
    assert_eq!((f.s.usual_rtt_us, f.s.usual_bw), (41_600, rate(9)), "the first slot sets it");
    let others: [fn(&mut Slots); 3] = [
        |f| f.is_steady = false,
        |f| f.ack.rs_is_app_limited = true,
        |f| (f.s.marked_start, f.s.marked_end, f.ack.rs_is_app_limited) = (0, u64::MAX, true),
    ];
    for (n, other) in others.into_iter().enumerate() {
        let mut f = Slots::new();
        f.is_steady = true;
        other(&mut f);
        f.slot(54_000, 41_600);
        assert_eq!((f.s.usual_rtt_us, f.s.usual_bw), (40_000, rate(10)), "{n}");
    }
    let mut f = Slots::new();
    f.is_steady = true;
    f.slot(60_000, NO_RTT);
    assert_eq!(f.s.usual_rtt_us, 40_000, "no sample of the RTT");
    let mut f = Slots::new();
    (f.is_steady, f.s.paced_bw) = (true, rate(8));
    f.slot(52_499, 40_000);
    assert_eq!(f.s.usual_bw, rate(10), "slower than usual, because the flow sent less");
    f.max_bw = rate(9);
    f.slot(52_499, 40_000);
    assert!(f.s.usual_bw < rate(9), "it follows the model down: {}", f.s.usual_bw);
}

/// A slot whose RTT is above the baseline and whose rate is below it moves the averages by a 256th: 2400 µs, and a
/// byte/µs. With one of the two signs, or where others keep a queue, it counts as any other slot.
#[test]
fn a_slot_that_is_worse_in_both_is_learned_by_a_256th() {
    for (bytes, rtt_us, want_rtt_us, want_bw) in [
        (54_000, 42_400, 40_009, rate(10) - BW_UNIT / 256),
        (60_000, 42_400, 40_075, rate(10)),
        (54_000, 40_000, 40_000, rate(10) - BW_UNIT / 32),
        (54_000, 50_001, 40_312, rate(10) - BW_UNIT / 32),
    ] {
        let mut f = Slots::new();
        (f.is_steady, f.s.long_rtt) = (true, rtt_us * 1024);
        f.slot(bytes, rtt_us);
        assert_eq!((f.s.usual_rtt_us, f.s.usual_bw), (want_rtt_us, want_bw), "{bytes} {rtt_us}");
    }
}

/// A queue begins above 42.5 ms, and with a mean deviation of 3 ms above 52 ms. It is usual when the RTT of the last
/// seconds was above the minimum by more than a quarter of it, which is 50 ms, and by more than the margin of a queue;
/// or when the path has no RTT below it: above 40 ms and a sixteenth of the minimum RTT.
#[test]
fn a_queue_is_learned_only_where_others_keep_one_or_the_path_is_longer() {
    for (long_us, dev_us, min_rtt_us, rtt_us, is_learned) in [
        (40_000, 0, 40_000, 42_500, true),
        (40_000, 0, 40_000, 42_501, false),
        (50_000, 0, 40_000, 50_000, false),
        (50_001, 0, 40_000, 50_001, true),
        (52_000, 3_000, 40_000, 52_001, false),
        (52_001, 3_000, 40_000, 52_001, true),
        (40_000, 0, 42_666, 50_000, false),
        (40_000, 0, 42_667, 50_000, true),
    ] {
        let mut f = Slots::new();
        (f.is_steady, f.min_rtt_us, f.s.usual_rtt_dev_us) = (true, min_rtt_us, dev_us);
        f.s.long_rtt = long_us * 1024;
        f.slot(60_000, rtt_us);
        assert_eq!(f.s.usual_rtt_us > 40_000, is_learned, "{long_us} {dev_us} {min_rtt_us} {rtt_us}");
    }
    // With `brake_long_us=0` every queue is learned by a thirty-second: 343 of 11,000 µs.
    for (bytes, want_bw) in [(60_000, rate(10)), (54_000, rate(10) - BW_UNIT / 32)] {
        let mut f = Slots::new();
        (f.is_steady, f.p.long_us, f.s.usual_rtt_dev_us) = (true, 0, 3_000);
        f.slot(bytes, 51_000);
        assert_eq!((f.s.usual_rtt_us, f.s.usual_bw), (40_343, want_bw), "{bytes}");
    }
}

/// A slot of 6 ms is 78 65536ths of 5 s, which of 1600 µs are 1950 1024ths of one. A slot of 6 s is all of them.
#[test]
fn the_long_mean_covers_the_last_five_seconds_of_steady_slots() {
    let mut f = Slots::new();
    f.slot(60_000, 40_000);
    assert_eq!(f.s.long_rtt, 0, "not steady");
    f.is_steady = true;
    f.slot(60_000, 40_000);
    assert_eq!(f.s.long_rtt, 40_000 * 1024, "the first slot sets it");
    f.slot(60_000, 41_600);
    assert_eq!(f.s.long_rtt, 40_000 * 1024 + 1950);
    for _ in 0..3 {
        f.ack(2_000_000, 20_000_000, 42_000);
    }
    assert_eq!(f.s.long_rtt, 42_000 * 1024);
}

/// The pace is the lowest of the round, and the last round's counts as well.
#[test]
fn the_pace_of_two_rounds_is_remembered() {
    let mut f = Slots::new();
    (f.bw, f.pacing_gain) = (rate(16), GAIN_UNIT / 2);
    f.ack(100, 0, 40_000);
    (f.bw, f.pacing_gain) = (rate(9), GAIN_UNIT);
    f.ack(100, 0, 40_000);
    assert_eq!((f.s.paced_bw, f.s.paced_bw_before), (rate(8), rate(10)));
    for want in [(rate(9), rate(8)), (rate(9), rate(9))] {
        f.is_round_start = true;
        f.ack(100, 0, 40_000);
        assert_eq!((f.s.paced_bw, f.s.paced_bw_before), want);
    }
    let mut f = Slots::in_drain();
    f.pacing_gain = GAIN_UNIT * 2;
    f.is_round_start = true;
    f.ack(100, 0, 50_000);
    assert_eq!(f.s.paced_bw, rate(5), "the brake's own bandwidth, and no gain above 1");
}
