//! MINRTT: the two filters of the minimum RTT (§5.3.4.3, §5.5.7).

use crate::driver::{Flow, RATE, RTT_US};
use crate::whole::{SECOND_US, Whole};
use headway_cc::cc::NO_RTT;
use headway_cc::cc::bbr3::*;

/// In CRUISE, idle so that ProbeRTT stays out of the way; its next ACK comes this long after the minimum was seen.
fn aged(age_us: u64) -> Flow {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.s.idle_restart = true;
    f.c.now_us = f.s.probe_rtt_min_stamp + age_us - 1_000;
    f
}

#[test]
fn minrtt_01_the_short_filter_is_due_strictly_after_five_seconds() {
    for (age_us, is_due) in [(4_999_999, false), (5_000_000, false), (5_000_001, true), (5_001_000, true)] {
        let mut f = aged(age_us);
        f.more(RATE);
        assert_eq!(f.s.probe_rtt_expired, is_due, "{age_us}");
    }
}

#[test]
fn minrtt_02_it_takes_a_lower_sample_and_when_due_any() {
    for (age_us, rtt_us, is_taken) in [
        (1_000_000, RTT_US - 1, true),
        (1_000_000, RTT_US + 1, false),
        (5_000_000, 60_000, false),
        (5_000_001, 60_000, true),
        (5_000_001, RTT_US, true),
    ] {
        let mut f = aged(age_us);
        let before = (f.s.probe_rtt_min_delay_us, f.s.probe_rtt_min_stamp);
        assert_eq!(before.0, RTT_US);
        f.more_with(RATE, |a| a.rs_rtt_us = rtt_us);
        let after = (f.s.probe_rtt_min_delay_us, f.s.probe_rtt_min_stamp);
        assert_eq!(after, if is_taken { (rtt_us, f.c.now_us) } else { before }, "{age_us} {rtt_us}");
    }
}

#[test]
fn minrtt_03_the_long_filter_takes_the_short_one_s_minimum() {
    // Lower: at once, with the short filter's stamp.
    let mut f = aged(1_000_000);
    f.more_with(RATE, |a| a.rs_rtt_us = 35_000);
    assert_eq!((f.s.min_rtt_us, f.s.min_rtt_stamp), (35_000, f.c.now_us));
    // Higher: only when its own ten seconds have passed.
    for (age_us, min_rtt_us) in [(10_000_000, 30_000), (10_000_001, RTT_US)] {
        let mut f = aged(2_000_000);
        f.c.now_us += 20_000_000;
        f.s.probe_rtt_min_stamp += 20_000_000;
        f.s.min_rtt_us = 30_000;
        f.s.min_rtt_stamp = f.c.now_us + 1_000 - age_us;
        let short_stamp = f.s.probe_rtt_min_stamp;
        f.more(RATE);
        assert_eq!(f.s.min_rtt_us, min_rtt_us, "{age_us}");
        assert_eq!(f.s.min_rtt_stamp == short_stamp, min_rtt_us == RTT_US);
    }
}

#[test]
fn minrtt_03_without_any_sample_the_handshake_s_rtt_is_kept() {
    let mut f = Flow::new();
    f.c.now_us += 30_000_000;
    f.more_with(RATE, |a| a.rs_rtt_us = NO_RTT);
    assert_eq!((f.s.min_rtt_us, f.s.probe_rtt_min_delay_us), (RTT_US, NO_RTT));
}

#[test]
fn minrtt_04_an_equal_sample_is_not_lower() {
    let mut f = aged(1_000_000);
    let stamps = (f.s.probe_rtt_min_stamp, f.s.min_rtt_stamp);
    f.more_with(RATE, |a| a.rs_rtt_us = RTT_US);
    assert_eq!((f.s.probe_rtt_min_stamp, f.s.min_rtt_stamp), stamps);
    // So a constant RTT brings ProbeRTT 5 s after the first sample.
    let mut f = Flow::at(Mode::ProbeBwCruise);
    let first_us = f.s.probe_rtt_min_stamp;
    while f.s.state != Mode::ProbeRtt {
        f.ack(RATE);
        assert!(f.c.now_us <= first_us + 5_040_000, "no ProbeRTT");
    }
    assert!(f.c.now_us > first_us + 5_000_000);
}

#[test]
fn minrtt_05_a_longer_route_is_learnt_after_ten_seconds() {
    let w = Whole::bulk("50mbit 20ms queue=200ms @4s 60ms", 20);
    let stamp_us = w.acks(0, 4 * SECOND_US).last().expect("an ACK").s.min_rtt_stamp;
    let learnt = w.acks(4 * SECOND_US, 20 * SECOND_US).find(|a| a.s.min_rtt_us > 25_000).expect("learnt");
    assert!(learnt.ack.now_us > stamp_us + 10 * SECOND_US, "{} {stamp_us}", learnt.ack.now_us);
    assert!(learnt.ack.now_us <= 14_600_000, "{}", learnt.ack.now_us);
    assert!((60_000..61_500).contains(&learnt.s.min_rtt_us), "{}", learnt.s.min_rtt_us);
}
