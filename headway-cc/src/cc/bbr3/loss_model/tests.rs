//! The loss model, fed with ACKs that the tests make up, each limit on both of its sides.

use super::super::model::bbr3_check_full_bw_reached;
use super::super::tests::{MSS, with};
use super::super::{Bbr3Params, Bbr3State};
use super::*;
use crate::cc::fixed::BW_UNIT;
use crate::cc::{Ack, Control};

const RTT_US: u64 = 40_000;

/// Calls `f` with a flow in ProbeBW_CRUISE at 5 bytes/us (40 Mbit/s) and a minimum RTT of 40 ms: a BDP of 166 segments. It
/// has not probed for two rounds, and its last probe lost nothing.
fn quiet<R>(f: impl FnOnce(&mut Conn) -> R) -> R {
    with(|c| {
        let loss = LossModelParams { min_sent: 64, min_lost: 6, ..LossModelParams::on() };
        let p = Bbr3Params { loss, ..Bbr3Params::default() };
        (c.bbr.max_bw, c.bbr.min_rtt_us, c.bbr.round_count) = (5 * BW_UNIT, RTT_US, 7);
        c.bbr.state = Mode::ProbeBwCruise;
        let learned =
            LossModel { quiet_rounds: 2, up_sent: 100 * MSS, shows_full: true, ..LossModel::default() };
        c.bbr.loss = learned;
        let l = &mut c.bbr.loss;
        (l.base_stamp_us, l.base_rtt_us, l.last_base_rtt_us) = (1, RTT_US, NO_RTT);
        let mut c = Conn { bbr: c.bbr, p: &p, ack: c.ack, out: c.out, delivery_rate: 0 };
        f(&mut c)
    })
}

/// An ACK that says of so many segments that they were delivered and lost, at an RTT above the minimum. Says whether losses
/// are tolerated from now on.
fn ack(c: &mut Conn, starts_round: bool, acked: u64, lost: u64, above_us: u64) -> bool {
    c.bbr.loss.slot_us = 0;
    c.bbr.round_start = starts_round;
    let (newly_acked, newly_lost, rs_rtt_us) = (acked * MSS, lost * MSS, RTT_US + above_us);
    if starts_round {
        c.bbr.round_count += 1;
        c.bbr.last_round_rtt_us = c.bbr.round_rtt_us;
        c.bbr.round_rtt_us = NO_RTT;
    }
    c.bbr.round_rtt_us = c.bbr.round_rtt_us.min(rs_rtt_us);
    let ack = Ack { newly_acked, newly_lost, rs_rtt_us, ..*c.ack };
    bbr3_update_loss_model(&mut Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 })
}

/// Of 100 segments a 16th are 7,500 bytes, and a standard deviation of pairs of lost segments is
/// sqrt(7,500 x 2,400) = 4,242.6 bytes: 1.25 x 7,500 + 3 x 4,242.6 = 22,102.9 are tolerated, and
/// 1,200 + 1.5 x 7,500 + 3 x 4,242.6 = 25,177.9 are the limit.
#[test]
fn a_multiple_of_the_share_and_chance_are_allowed_for() {
    quiet(|c| {
        assert!(bbr3_is_loss_ours(c, 1, 100 * MSS), "nothing is tolerated");
        c.bbr.loss.share = GAIN_UNIT / 16;
        assert!(bbr3_is_loss_ours(c, 22_103, 100 * MSS) && !bbr3_is_loss_ours(c, 22_102, 100 * MSS));
        assert!(loss_is_over_limit(c, 25_178, 100 * MSS, GAIN_UNIT / 16));
        assert!(!loss_is_over_limit(c, 25_177, 100 * MSS, GAIN_UNIT / 16));
    });
}

/// 2 % of 100 packets, where the unit is the packet: a 64th of them are 1.6, so 1.25 x 1.6 + 3 x sqrt(3.1) = 7.3 are
/// tolerated.
#[test]
fn a_share_of_a_few_packets_is_not_rounded_down_to_none() {
    quiet(|c| {
        let ack = Ack { smss: 1, unit_bytes: MSS, ..*c.ack };
        let c = Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 };
        c.bbr.loss.share = GAIN_UNIT / 64;
        assert!(bbr3_is_loss_ours(&c, 8, 100) && !bbr3_is_loss_ours(&c, 7, 100));
    });
}

/// A 64th of 40 ms are 625 us, less than the 1.25 ms that may always be, and a 256th more is slack. At 0.3 bytes/us a segment
/// and a quarter take 5 ms.
#[test]
fn an_rtt_shows_no_queue_up_to_the_margin_and_the_usual_one() {
    let is_low = |bw: u64, usual_us: u64, above_us: u64| {
        quiet(|c| {
            (c.bbr.max_bw, c.bbr.loss.usual_rtt) = (bw, usual_us * PARTS);
            (c.bbr.loss.slot_rtt_us, c.bbr.loss.last_slot_rtt_us) = (RTT_US + above_us, NO_RTT);
            loss_is_queue_low(c)
        })
    };
    let fast = 5 * BW_UNIT;
    assert!(is_low(fast, 0, 1_406) && !is_low(fast, 0, 1_407));
    assert!(is_low(fast, 40_500, 656) && !is_low(fast, 40_500, 657), "not above the usual one");
    assert!(is_low(BW_UNIT * 3 / 10, 0, 5_156) && !is_low(BW_UNIT * 3 / 10, 0, 5_157));
    assert!(is_low(BW_UNIT / 100, 0, 5_156) && !is_low(BW_UNIT / 100, 0, 5_157), "an eighth at most");
    assert!(!is_low(fast, 0, NO_RTT));
}

/// A 16th of 40 ms are 2.5 ms. What counts is the smallest RTT of this slot and the one before.
#[test]
fn the_smallest_rtt_of_two_slots_counts() {
    let counted: Vec<u64> = quiet(|c| {
        let acks = [
            (1, 5),
            (2, 9),
            (2_500, 3),
            (2_501, 8),
            (5_000, 4),
            (5_001, NO_RTT),
            (7_500, NO_RTT),
            (7_501, NO_RTT),
        ];
        let gather = |(now_us, rs_rtt_us)| {
            let ack = Ack { now_us, rs_rtt_us, ..*c.ack };
            let mut c = Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 };
            loss_gather_rtt(&mut c);
            loss_rtt_us(&c)
        };
        acks.map(gather).to_vec()
    });
    assert_eq!(counted, [5, 5, 3, 3, 3, 4, 4, NO_RTT]);
}

/// A new span begins after a minute, and the one before it counts, too.
#[test]
fn the_smallest_rtt_is_remembered_for_a_minute_or_two() {
    let bases = quiet(|c| {
        c.bbr.loss = LossModel::default();
        assert_eq!(loss_base_us(c), NO_RTT);
        let samples = [
            (1, 50_000),
            (30_000_000, 40_000),
            (60_000_001, 45_000),
            (90_000_000, NO_RTT),
            (120_000_000, 46_000),
            (120_000_001, 47_000),
            (180_000_001, 48_000),
        ];
        samples.map(|(now_us, rs_rtt_us)| {
            let ack = Ack { now_us, rs_rtt_us, ..*c.ack };
            let mut c = Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 };
            loss_update_base(&mut c);
            loss_base_us(&c)
        })
    });
    assert_eq!(bases, [50_000, 40_000, 40_000, 40_000, 40_000, 45_000, 47_000]);
}

/// What may be without a queue are 1.25 ms. A smaller RTT than that says that what was learned was learned with one.
#[test]
fn a_much_smaller_rtt_ends_it() {
    // The round that begins with the last ACK is judged by the smallest RTT until then.
    let share = |rtts_us: &[u64]| {
        quiet(|c| {
            ack(c, true, 94, 6, 0);
            assert!(ack(c, true, 1, 0, 0));
            for (i, rtt_us) in rtts_us.iter().enumerate() {
                let ack = Ack { rs_rtt_us: *rtt_us, newly_acked: MSS, ..*c.ack };
                c.bbr.round_start = i + 1 == rtts_us.len();
                bbr3_update_loss_model(&mut Conn {
                    bbr: c.bbr,
                    p: c.p,
                    ack: &ack,
                    out: c.out,
                    delivery_rate: 0,
                });
            }
            (
                c.bbr.loss.share != 0,
                c.bbr.loss.failures,
                c.bbr.loss.hold_round.saturating_sub(c.bbr.round_count),
            )
        })
    };
    assert_eq!(share(&[38_750]), (true, 0, 0));
    assert_eq!(share(&[38_749]), (false, 1, 64));
    assert_eq!(
        share(&[39_500, 39_000, 38_500, 38_000, 38_000]),
        (false, 1, 64),
        "a queue that drains, in small steps"
    );
    assert_eq!(share(&[30_000, 20_000, 10_000, 5_000, 5_000]), (false, 1, 64), "and in large ones");
    assert_eq!(share(&[38_000, 38_000, 38_000]), (false, 1, 64), "it is asked once a round");
}

/// Two more rounds in which the smallest RTT falls on count as one end, because nothing is tolerated any more.
#[test]
fn what_is_not_tolerated_cannot_fail() {
    quiet(|c| {
        ack(c, true, 94, 6, 0);
        assert!(ack(c, true, 1, 0, 0));
        for rtt_us in [30_000, 20_000, 10_000] {
            let ack = Ack { rs_rtt_us: rtt_us, ..*c.ack };
            c.bbr.round_start = true;
            bbr3_update_loss_model(&mut Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 });
        }
        assert_eq!((c.bbr.loss.share, c.bbr.loss.failures), (0, 1));
    });
    // Seven marks, of which the first ends the tolerance.
    let marked = |share: u64, hold_round: u64| {
        quiet(|c| {
            (c.bbr.loss.share, c.bbr.loss.hold_round, c.bbr.loss.quiet_low_sent) = (share, hold_round, 9);
            (0..7).for_each(|_| bbr3_end_tolerance(c));
            assert_eq!((c.bbr.loss.share, c.bbr.loss.quiet_low_sent), (0, 0));
            (c.bbr.loss.failures, c.bbr.loss.hold_round - c.bbr.round_count)
        })
    };
    assert_eq!(marked(3_932, 0), (1, 64));
    assert_eq!(marked(0, 0), (0, 64), "nothing was tolerated");
    assert_eq!(marked(0, 500), (0, 493), "the longer wait counts");
}

/// 9,000 segments without a loss, and then 23 of 1,000: too few to be judged, but what was sent before them weighs half.
#[test]
fn what_was_sent_long_ago_does_not_hide_what_is_lost_now() {
    let sent = |acked: u64, hold_round: u64| {
        quiet(|c| {
            let p = Bbr3Params { loss: LossModelParams::on(), ..*c.p };
            let c = &mut Conn { bbr: c.bbr, p: &p, ack: c.ack, out: c.out, delivery_rate: 0 };
            c.bbr.loss.hold_round = hold_round;
            ack(c, true, acked, 0, 0);
            ack(c, true, 977, 23, 0);
            ack(c, true, 1, 0, 0);
            c.bbr.loss.quiet_low_sent / MSS
        })
    };
    assert_eq!((sent(8_191, 0), sent(8_192, 0)), (4_595, 5_096));
    assert_eq!(sent(8_192, 99), 5_096, "while losses are answered, too");
}

/// 6 of 100 segments are lost without a queue. After the round the share is 0.06, which is 3,932 of 65,536.
#[test]
fn what_a_quiet_round_loses_without_a_queue_is_tolerated() {
    quiet(|c| {
        assert!(!ack(c, true, 94, 6, 0));
        assert!(ack(c, true, 1, 0, 0), "from now on");
        assert_eq!((c.bbr.loss.share, c.bbr.loss.first_share), (3_932, 3_932));
        assert!(!ack(c, true, 1, 0, 0), "as before");
    });
    // What was counted after the last probe may be forgotten by then.
    quiet(|c| {
        ack(c, true, 94, 6, 0);
        ack(c, true, 94, 6, 0);
        c.bbr.loss.up_sent = 0;
        ack(c, true, 1, 0, 0);
        assert_eq!(c.bbr.loss.share, 3_932);
    });
    // Not enough was lost, or sent.
    for (acked, lost) in [(94, 5), (57, 6)] {
        quiet(|c| {
            ack(c, true, acked, lost, 0);
            assert!(!ack(c, true, 1, 0, 0) && c.bbr.loss.share == 0, "{acked} {lost}");
        });
    }
    // No probe has been seen, or this round or one of the two before probed, or the losses cannot be counted.
    let without = |change: fn(&mut Conn)| {
        quiet(|c| {
            change(c);
            ack(c, true, 94, 6, 0);
            c.bbr.state = Mode::ProbeBwCruise;
            ack(c, true, 1, 0, 0)
        })
    };
    assert!(without(|_| ()));
    assert!(!without(|c| c.bbr.loss.up_sent = 0));
    assert!(!without(|c| c.bbr.loss.quiet_rounds = 0));
    assert!(!without(|c| c.bbr.state = Mode::ProbeBwUp));
    assert!(!without(|c| c.bbr.state = Mode::Startup));
    assert!(!without(|c| c.bbr.loss.hold_round = 10));
    assert!(without(|c| c.bbr.loss.hold_round = 9));
}

#[test]
fn where_most_of_a_round_has_a_queue_the_rest_does_not_count() {
    let share = |high: u64| {
        quiet(|c| {
            ack(c, true, 94, 6, 0);
            ack(c, false, high, 0, 9_000);
            ack(c, true, 1, 0, 0);
            assert_eq!(c.bbr.loss.quiet_high_sent, high * MSS);
            c.bbr.loss.share
        })
    };
    assert_eq!((share(100), share(101)), (3_932, 0));
}

/// Three of five packets that were sent in a round after one of a probe are lost, which is more than 0.06 of it and chance.
#[test]
fn more_loss_while_probing_or_with_a_queue_ends_it() {
    quiet(|c| {
        ack(c, true, 94, 6, 0);
        assert!(ack(c, true, 1, 0, 0));
        c.bbr.state = Mode::ProbeBwUp;
        ack(c, true, 1, 0, 0);
        c.bbr.state = Mode::ProbeBwDown;
        ack(c, true, 20, 30, 0);
        assert_eq!(c.bbr.loss.share, 3_893, "6 of 101");
        ack(c, true, 1, 0, 0);
        let l = &c.bbr.loss;
        assert_eq!((l.share, l.quiet_low_sent, l.up_sent, l.failures), (0, 0, 0, 1));
        assert_eq!(l.hold_round, c.bbr.round_count + 64);
    });
    quiet(|c| {
        ack(c, true, 94, 6, 0);
        assert!(ack(c, true, 60, 0, 0));
        ack(c, false, 25, 25, 9_000);
        ack(c, true, 1, 0, 0);
        assert_eq!((c.bbr.loss.share, c.bbr.loss.failures), (0, 1));
    });
}

/// 60 of 401 are lost, where 6 of 101 make 1 + 1.5 x 23.8 + 3 x 6.9 = 57.4 the limit.
#[test]
fn more_loss_than_at_first_ends_it() {
    quiet(|c| {
        ack(c, true, 94, 6, 0);
        assert!(ack(c, true, 1, 0, 0));
        ack(c, true, 82, 18, 0);
        ack(c, true, 82, 18, 0);
        ack(c, true, 82, 18, 0);
        ack(c, true, 1, 0, 0);
        assert_eq!((c.bbr.loss.share, c.bbr.loss.failures), (0, 1));
    });
}

/// An eighth of 40 ms are 5 ms. With an RTT of 4 ms the 1.25 ms that may always be are more than an eighth.
#[test]
fn a_round_that_is_longer_by_an_eighth_shows_a_full_path() {
    let is_full = |base_us: u64, above_us: u64| {
        quiet(|c| {
            (c.bbr.loss.base_rtt_us, c.bbr.last_round_rtt_us) = (base_us, base_us.saturating_add(above_us));
            loss_is_path_full(c)
        })
    };
    assert!(is_full(RTT_US, 5_001) && !is_full(RTT_US, 5_000));
    assert!(is_full(4_000, 1_251) && !is_full(4_000, 1_250));
    assert!(!is_full(RTT_US, NO_RTT - RTT_US) && !is_full(NO_RTT, 1), "nothing is known");
}

/// Tolerates 6 % and then probes `n` times for a round each. Each time `change` says what the probe met before the round
/// after it is over.
fn after_probes<R>(n: u64, change: fn(&mut Conn), read: impl FnOnce(&Conn) -> R) -> R {
    quiet(|c| {
        c.bbr.loss.shows_full = false;
        ack(c, true, 94, 6, 0);
        assert!(ack(c, true, 1, 0, 0));
        for _ in 0..n {
            c.bbr.state = Mode::ProbeBwUp;
            ack(c, true, 1, 0, 0);
            c.bbr.state = Mode::ProbeBwDown;
            ack(c, true, 1, 0, 0);
            change(c);
            ack(c, true, 1, 0, 0);
        }
        read(c)
    })
}

/// Without a queue 16 times 64 rounds are answered, and 64 with one.
#[test]
fn two_probes_without_a_queue_end_it_for_long() {
    let share = |n: u64, change: fn(&mut Conn)| after_probes(n, change, |c| c.bbr.loss.share);
    assert!(share(1, |_| ()) > 0);
    after_probes(
        2,
        |_| (),
        |c| {
            let l = &c.bbr.loss;
            assert_eq!((l.share, l.blind_probes, l.failures), (0, 0, 1));
            assert_eq!(l.hold_round - c.bbr.round_count, 1024);
        },
    );
    after_probes(
        1,
        |_| (),
        |c| {
            assert_eq!(c.bbr.loss.blind_probes, 1);
            let (mut bbr, mut out) = (*c.bbr, Control::default());
            loss_fail(&mut Conn { bbr: &mut bbr, p: c.p, ack: c.ack, out: &mut out, delivery_rate: 0 });
            assert_eq!(bbr.loss.blind_probes, 0, "the next tolerance begins anew");
        },
    );
    assert!(share(9, |c| c.bbr.prev_probe_too_high = true) > 0, "loss ended it");
    assert!(share(9, |c| c.bbr.loss.is_app_limited = true) > 0, "the application limited it");
    assert!(share(9, bbr3_note_full_path) > 0, "the ladder met a queue");
    let with_a_queue = |c: &mut Conn| c.bbr.round_rtt_us = RTT_US + 5_001;
    assert!(share(9, with_a_queue) > 0, "all RTTs of a round are long");
    let with_a_late_ack = |c: &mut Conn| {
        ack(c, false, 1, 0, 40_000);
    };
    assert_eq!(share(9, with_a_late_ack), 0, "one ACK is late");
}

#[test]
fn what_a_probe_met_counts_for_that_one_only() {
    let flags = |change: fn(&mut Conn)| {
        after_probes(1, change, |c| {
            let l = &c.bbr.loss;
            (l.saw_full, l.is_app_limited, l.shows_full)
        })
    };
    assert_eq!(flags(bbr3_note_full_path), (false, false, true));
    assert_eq!(flags(|c| c.bbr.loss.is_app_limited = true), (false, false, false));
    // A queue ends the row of probes without one; a probe goes on where the next round is one, too.
    quiet(|c| {
        (c.bbr.loss.share, c.bbr.loss.blind_probes, c.bbr.loss.was_up) = (1, 1, true);
        bbr3_note_full_path(c);
        assert_eq!(c.bbr.loss.blind_probes, 0);
        c.bbr.loss.is_up = true;
        loss_judge_probe(c);
        assert!(c.bbr.loss.saw_full);
        (c.bbr.loss.share, c.bbr.loss.is_up, c.bbr.loss.saw_full) = (0, false, false);
        loss_judge_probe(c);
        assert_eq!(c.bbr.loss.blind_probes, 0, "nothing is tolerated");
    });
}

#[test]
fn each_end_doubles_the_time_until_the_next_beginning() {
    quiet(|c| {
        let holds: Vec<u64> = (0..9)
            .map(|_| {
                loss_fail(c);
                c.bbr.loss.hold_round - c.bbr.round_count
            })
            .collect();
        assert_eq!(holds, [64, 128, 256, 512, 1024, 2048, 4096, 4096, 4096]);
    });
}

/// 0.06 is more than 0.001 times 60 segments of BDP (65 of 65,536 each, 3,900), and less than times 61.
#[test]
fn a_share_is_tolerated_between_bounds() {
    quiet(|c| {
        assert!(loss_may_tolerate(c, GAIN_UNIT / 256) && !loss_may_tolerate(c, GAIN_UNIT / 256 - 1));
        assert!(loss_may_tolerate(c, 9_830) && !loss_may_tolerate(c, 9_831), "15 %");
        c.bbr.max_bw = BW_UNIT * 60 * MSS / RTT_US;
        assert!(!loss_may_tolerate(c, 3_932));
        c.bbr.max_bw = BW_UNIT * 61 * MSS / RTT_US;
        assert!(loss_may_tolerate(c, 3_932));
        let ack = Ack { has_selective_acks: false, ..*c.ack };
        let c = Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 };
        assert!(!loss_may_tolerate(&c, 3_932));
    });
}

/// 5 of 100 segments are lost in one round and 7 of 100 in the next. That is 0.06 again, for which 61 segments are enough: half of
/// 112 and 10.
#[test]
fn the_bdp_counts_that_the_flow_had_while_it_lost() {
    let is_tolerated = |first: u64, then: u64| {
        quiet(|c| {
            c.bbr.max_bw = BW_UNIT * first * MSS / RTT_US;
            ack(c, true, 95, 5, 0);
            assert!(!ack(c, true, 93, 7, 0), "too few");
            c.bbr.max_bw = BW_UNIT * then * MSS / RTT_US;
            ack(c, true, 1, 0, 0)
        })
    };
    assert!(is_tolerated(112, 10) && !is_tolerated(111, 10));
    assert!(is_tolerated(10, 61) && !is_tolerated(10, 60), "that of today is larger");
    let forgotten = quiet(|c| {
        c.bbr.loss.quiet_low_bdp = 9;
        loss_keep(c, GAIN_UNIT / 2);
        let half = c.bbr.loss.quiet_low_bdp;
        loss_keep(c, 0);
        (half, c.bbr.loss.quiet_low_bdp)
    });
    assert_eq!(forgotten, (4, 0));
}

#[test]
fn old_counts_weigh_half_when_enough_was_lost_or_sent() {
    for (acked, lost, kept) in [(937, 63, 1000), (936, 64, 500), (8151, 40, 8191), (8152, 40, 4096)] {
        quiet(|c| {
            c.bbr.loss.failures = 5;
            ack(c, true, acked, lost, 0);
            ack(c, true, 1, 0, 0);
            assert_eq!(c.bbr.loss.quiet_low_sent, kept * MSS, "{acked} {lost}");
            assert_eq!(c.bbr.loss.failures, if kept == 1000 || kept == 8191 { 5 } else { 2 });
        });
    }
}

#[test]
fn a_loss_round_is_tolerated_without_a_queue_only() {
    let is_tolerated = |share: u64, low: (u64, u64), high: u64| {
        quiet(|c| {
            c.bbr.loss.share = share;
            bbr3_start_loss_round(c);
            ack(c, false, low.0, low.1, 0);
            ack(c, false, high, 0, 9_000);
            bbr3_is_loss_round_tolerated(c)
        })
    };
    assert!(is_tolerated(3_932, (94, 6), 100));
    assert!(!is_tolerated(3_932, (94, 6), 102), "more than half of it");
    assert!(!is_tolerated(3_932, (60, 40), 0), "more than the path loses");
    assert!(!is_tolerated(0, (94, 6), 0));
}

/// A quarter more than 4 bytes/us needs 200,000 bytes in flight for 40 ms.
#[test]
fn too_little_in_flight_says_nothing_about_the_path() {
    let count = |state: Mode, lost: u64, above_us: u64, flight: (u64, u64)| {
        quiet(|c| {
            (c.bbr.state, c.bbr.full_bw, c.bbr.round_start) = (state, 4 * BW_UNIT, true);
            (c.bbr.loss.slot_rtt_us, c.bbr.loss.last_slot_rtt_us) = (RTT_US + above_us, NO_RTT);
            let ack = Ack { lost, rs_tx_in_flight: flight.0, rs_lost: flight.1, ..*c.ack };
            let rate = 4 * BW_UNIT;
            let mut c = Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: rate };
            bbr3_check_full_bw_reached(&mut c);
            c.bbr.full_bw_count
        })
    };
    assert_eq!(count(Mode::Startup, MSS, 0, (199_999, 0)), 0);
    assert_eq!(count(Mode::Startup, MSS, 0, (200_000, 0)), 1);
    assert_eq!(count(Mode::Startup, MSS, 0, (205_000, 5_001)), 0, "what is lost does not arrive");
    assert_eq!(count(Mode::Startup, MSS, 0, (205_000, 5_000)), 1);
    assert_eq!(count(Mode::Startup, MSS, NO_RTT, (199_999, 0)), 0, "an ACK without an RTT");
    assert_eq!(count(Mode::Startup, MSS, 1_500, (199_999, 0)), 1, "a queue");
    assert_eq!(count(Mode::Startup, 0, 0, (199_999, 0)), 1, "nothing was ever lost");
    assert_eq!(count(Mode::ProbeBwUp, MSS, 0, (199_999, 0)), 1);
    assert_eq!(count(Mode::Startup, MSS, 0, (0, 0)), 1, "it is not known what was in flight");
}

/// A flow that its own window limits never has more in flight. 16 rounds are left out, and three more end Startup.
#[test]
fn a_flow_that_cannot_have_more_in_flight_leaves_startup() {
    quiet(|c| {
        (c.bbr.state, c.bbr.full_bw, c.bbr.round_start) = (Mode::Startup, 4 * BW_UNIT, true);
        let ack = Ack { lost: MSS, rs_tx_in_flight: 160_000, ..*c.ack };
        let mut round = |rate: u64| {
            let mut c = Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: rate * BW_UNIT };
            bbr3_check_full_bw_reached(&mut c);
            (c.bbr.full_bw_count, c.bbr.full_bw_reached)
        };
        (0..15).for_each(|_| assert_eq!(round(4), (0, false)));
        assert_eq!(round(5), (0, false), "the rate has grown");
        (0..16).for_each(|_| assert_eq!(round(5), (0, false)));
        assert_eq!([round(5), round(5), round(5)], [(1, false), (2, false), (3, true)]);
    });
}

/// What was sent again has no RTT, so its ACK shows neither a queue nor none.
#[test]
fn an_ack_without_an_rtt_counts_for_neither() {
    quiet(|c| {
        ack(c, false, 10, 1, NO_RTT);
        let l = &c.bbr.loss;
        assert_eq!((l.low_sent, l.high_sent, l.round_high, l.round_sent), (0, 0, 0, 11 * MSS));
        bbr3_start_loss_round(c);
        assert!(bbr3_is_growth_free(c), "nor does it end Startup");
    });
}

#[test]
fn startup_goes_on_while_the_rate_grows_without_a_queue() {
    let is_free = |full_bw_count: u64, above_us: u64| {
        quiet(|c| {
            c.bbr.full_bw_count = full_bw_count;
            (c.bbr.loss.slot_rtt_us, c.bbr.loss.last_slot_rtt_us) = (RTT_US + above_us, NO_RTT);
            bbr3_is_growth_free(c)
        })
    };
    assert!(is_free(0, 1_400) && !is_free(1, 1_400) && !is_free(0, 1_500));
    let after = |above_us: u64| {
        quiet(|c| {
            ack(c, false, 10, 1, above_us);
            bbr3_start_loss_round(c);
            ack(c, false, 10, 1, 0);
            bbr3_is_growth_free(c)
        })
    };
    assert!(after(1_400) && !after(1_500), "a queue in the round before");
    let after_loss = |acked: u64, lost: u64| {
        quiet(|c| {
            ack(c, false, acked, lost, 0);
            bbr3_start_loss_round(c);
            ack(c, false, 10, 0, 0);
            bbr3_is_growth_free(c)
        })
    };
    assert!(after_loss(82, 18) && !after_loss(81, 19), "22,102 bytes are tolerated in the round before");
}

/// A quarter is lost, so four thirds are sent; of more than a half, twice as much is.
#[test]
fn what_the_path_loses_is_sent_on_top_at_an_even_pace_without_a_queue() {
    let gain = |share: u64, above_us: u64, state: Mode, compensate: bool| {
        quiet(|c| {
            let loss = LossModelParams { compensate, ..LossModelParams::on() };
            let p = Bbr3Params { loss, ..Bbr3Params::default() };
            let c = &mut Conn { bbr: c.bbr, p: &p, ack: c.ack, out: c.out, delivery_rate: 0 };
            (c.bbr.state, c.bbr.loss.share) = (state, share);
            (c.bbr.loss.slot_rtt_us, c.bbr.loss.last_slot_rtt_us) = (RTT_US + above_us, NO_RTT);
            bbr3_loss_gain(c, 3 * GAIN_UNIT)
        })
    };
    assert_eq!(gain(GAIN_UNIT / 4, 1_400, Mode::ProbeBwCruise, true), 4 * GAIN_UNIT);
    assert_eq!(gain(GAIN_UNIT, 1_400, Mode::ProbeBwRefill, true), 6 * GAIN_UNIT);
    for (share, above_us, state, compensate) in [
        (0, 1_400, Mode::ProbeBwCruise, true),
        (GAIN_UNIT / 4, 1_500, Mode::ProbeBwCruise, true),
        (GAIN_UNIT / 4, 1_400, Mode::ProbeBwDown, true),
        (GAIN_UNIT / 4, 1_400, Mode::ProbeBwCruise, false),
    ] {
        assert_eq!(gain(share, above_us, state, compensate), 3 * GAIN_UNIT, "{share} {above_us} {state:?}");
    }
}

#[test]
fn switched_off_it_remembers_nothing() {
    let (mut bbr, mut out) = (Bbr3State::default(), Control::default());
    let ack = Ack { newly_acked: 9, newly_lost: 3, rs_rtt_us: RTT_US, ..Ack::default() };
    let p = Bbr3Params::default();
    bbr.round_start = true;
    let c = &mut Conn { bbr: &mut bbr, p: &p, ack: &ack, out: &mut out, delivery_rate: 0 };
    assert!(!bbr3_update_loss_model(c) && !bbr3_is_growth_free(c));
    bbr3_end_tolerance(c);
    bbr3_note_full_path(c);
    assert_eq!(bbr.loss, LossModel::default());
}
