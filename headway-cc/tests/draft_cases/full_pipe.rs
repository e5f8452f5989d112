//! FULL: the plateau detector (§5.3.1.2).

use super::driver::*;
use headway_cc::cc::bbr3::*;

/// A flow in Startup whose rounds have measured these rates, in units of 10 kB/s.
fn after(rates: &[u64]) -> Flow {
    let mut f = Flow::new();
    f.c.inflight = 10 * BDP;
    for rate in rates {
        f.ack(rate * 10_000);
    }
    f
}

/// Count, baseline and whether the pipe counts as full.
fn detector(f: &Flow) -> (u64, u64, bool) {
    assert_eq!(f.s.full_bw_now, f.s.full_bw_reached);
    (f.s.full_bw_count, rate_of(f.s.full_bw) / 10_000, f.s.full_bw_now)
}

#[test]
fn full_01_judged_at_round_starts_of_full_traffic() {
    let mut f = after(&[100, 100]);
    assert_eq!(detector(&f), (1, 100, false));
    f.more(RATE);
    assert_eq!(detector(&f), (1, 100, false), "not a round start");
    f.ack_with(RATE, |a| a.rs_is_app_limited = true);
    assert_eq!(detector(&f), (1, 100, false), "application-limited");
    f.ack(RATE);
    f.ack(RATE);
    assert_eq!(detector(&f), (3, 100, true));
    f.ack(2 * RATE);
    assert_eq!(detector(&f), (3, 100, true), "full already");
}

#[test]
fn full_02_a_quarter_more_resets() {
    assert_eq!(detector(&after(&[100, 125])), (0, 125, false));
    assert_eq!(detector(&after(&[100, 110, 110, 125])), (0, 125, false));
}

#[test]
fn full_03_three_flat_rounds_are_full() {
    assert_eq!(detector(&after(&[100, 124, 124])), (2, 100, false));
    assert_eq!(detector(&after(&[100, 124, 124, 124])), (3, 100, true));
}

#[test]
fn full_04_slow_growth_accumulates() {
    assert_eq!(detector(&after(&[100, 110, 121])), (2, 100, false));
    assert_eq!(detector(&after(&[100, 110, 121, 133])), (0, 133, false));
}

#[test]
fn full_05_an_application_limited_round_does_not_count() {
    let mut f = after(&[100, 124]);
    f.ack_with(RATE / 2, |a| a.rs_is_app_limited = true);
    assert_eq!(detector(&f), (1, 100, false));
    f.ack(1_240_000);
    assert_eq!(detector(&f), (2, 100, false));
    f.ack(1_240_000);
    assert_eq!(detector(&f), (3, 100, true));
}

#[test]
fn full_06_up_starts_its_own_detector() {
    let mut f = Flow::at(Mode::ProbeBwRefill);
    assert_eq!((f.s.full_bw_now, f.s.full_bw_count), (true, 3), "from Startup");
    f.ack(900_000);
    assert_eq!((f.s.state, rate_of(f.s.full_bw)), (Mode::ProbeBwUp, 900_000));
    assert_eq!((f.s.full_bw_count, f.s.full_bw_now, f.s.full_bw_reached), (0, false, true));
}

#[test]
fn full_07_an_invalid_rate_is_no_flat_round() {
    let mut f = after(&[100, 100]);
    for _ in 0..10 {
        f.ack(0);
    }
    assert_eq!(detector(&f), (1, 100, false));
    let mut f = Flow::new();
    for _ in 0..10 {
        f.ack(0);
    }
    assert_eq!(detector(&f), (0, 0, false), "nor the first rate of all");
}
