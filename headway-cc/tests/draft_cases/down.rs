//! DOWN (§5.3.3.1, §5.3.3.9).

use super::driver::*;
use headway_cc::cc::bbr3::*;

#[test]
fn down_01_entry() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.c.delivered += 30_000;
    f.lose_with(60_000, 60_000, |a| a.rand = 1 << 31);
    let s = f.s;
    assert_eq!((s.state, s.ack_phase), (Mode::ProbeBwDown, AckPhase::ProbeStopping));
    assert_eq!((s.is_loss_in_round, s.bw_latest, s.inflight_latest), (false, 0, 0));
    assert_eq!(s.probe_up_acked_per_inc, BBR3_INFINITY);
    assert_eq!((s.bw_probe_wait_us, s.cycle_stamp), (2_500_000, f.c.now_us));
    assert_eq!(s.next_round_delivered, f.c.delivered);
}

#[test]
fn down_02_gains() {
    let mut f = Flow::at(Mode::ProbeBwDown);
    f.c.cwnd = 1 << 20;
    let control = f.more_with(RATE, |a| a.newly_acked = 1);
    assert_near(control.pacing_rate, 891_000, 1);
    assert_eq!(control.cwnd, 81_200);
}

#[test]
fn down_03_cruise_needs_headroom_and_one_bdp() {
    for (longterm, inflight, state) in [
        (40_000, 34_000, Mode::ProbeBwCruise),
        (40_000, 34_001, Mode::ProbeBwDown),
        (60_000, 40_000, Mode::ProbeBwCruise),
        (60_000, 40_001, Mode::ProbeBwDown),
        (60_000, 51_001, Mode::ProbeBwDown),
    ] {
        let mut f = Flow::at(Mode::ProbeBwDown);
        (f.s.inflight_longterm, f.c.inflight) = (longterm, inflight);
        f.more(RATE);
        assert_eq!(f.s.state, state, "{inflight} of {longterm}");
    }
    // One BDP is that of the long term.
    let mut f = Flow::at(Mode::ProbeBwDown);
    (f.s.bw_shortterm, f.s.bw, f.c.inflight) = (f.s.max_bw / 2, f.s.max_bw / 2, 40_000);
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwCruise);
}

#[test]
fn down_04_time_to_probe_comes_first() {
    for inflight in [45_000, 0] {
        let mut f = Flow::at(Mode::ProbeBwDown);
        f.c.now_us = f.s.cycle_stamp + f.s.bw_probe_wait_us - 1_000;
        f.more(RATE);
        assert_eq!(f.s.state, Mode::ProbeBwDown);
        f.c.inflight = inflight;
        f.more(RATE);
        assert_eq!(f.s.state, Mode::ProbeBwRefill);
    }
}

#[test]
fn down_05_the_window_with_headroom() {
    let mut f = Flow::over(RTT_US, 4 * RATE);
    f.go(Mode::ProbeBwCruise);
    f.c.inflight = 0;
    for (longterm, left) in [(120_000, 102_000), (6_000, 4_800), (4_800, 4_800), (100, 4_800)] {
        (f.s.inflight_longterm, f.c.cwnd) = (longterm, 1 << 20);
        assert_eq!(f.more(4 * RATE).cwnd, left, "{longterm}");
    }
    (f.s.inflight_longterm, f.c.cwnd) = (BBR3_INFINITY, 1 << 20);
    assert!(f.more(4 * RATE).cwnd >= 320_000, "unset: no cap");
}

#[test]
fn down_06_its_first_round_still_belongs_to_the_probe() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    (f.c.inflight, f.c.cwnd) = (45_000, 100_000);
    for _ in 0..3 {
        f.ack(RATE);
    }
    assert_eq!((f.s.state, f.s.prev_probe_too_high), (Mode::ProbeBwDown, false));
    f.more(RATE);
    assert!(f.s.is_bw_probe_sample);
    let mut clean = f.clone();
    f.lose(3_600, 90_000);
    assert_eq!((f.s.inflight_longterm, f.s.state), (88_800, Mode::ProbeBwDown));
    clean.ack(RATE);
    assert!(!clean.s.is_bw_probe_sample);
    clean.lose(3_600, 90_000);
    assert_eq!(clean.s.inflight_longterm, BBR3_INFINITY, "a round later it is not the probe's");
}

#[test]
fn down_07_capped_without_headroom() {
    let mut f = Flow::at(Mode::ProbeBwDown);
    (f.s.inflight_longterm, f.c.cwnd, f.c.inflight) = (60_000, 1 << 20, 55_000);
    assert_eq!(f.more(RATE).cwnd, 60_000);
}
