//! CRUISE (§5.3.3.2, §5.3.3.9).

use super::driver::*;
use headway_cc::cc::bbr3::*;

#[test]
fn cruise_01_gains() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.c.cwnd = 1 << 20;
    let control = f.more_with(RATE, |a| a.newly_acked = 1);
    assert_near(control.pacing_rate, 990_000, 1);
    assert_eq!(control.cwnd, 81_200);
}

#[test]
fn cruise_02_ends_only_when_it_is_time_to_probe() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    let end_us = f.s.cycle_stamp + f.s.bw_probe_wait_us;
    let mut acks = 0;
    while f.c.now_us + 1_000 <= end_us {
        f.c.inflight = if acks % 2 == 0 { 200_000 } else { 0 };
        f.lose(60_000, 60_000);
        f.more(2 * RATE);
        assert_eq!(f.s.state, Mode::ProbeBwCruise);
        acks += 1;
    }
    assert!(acks > 1_000);
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwRefill);
}

#[test]
fn cruise_03_capped_with_headroom() {
    for (longterm, cwnd) in [(60_000, 51_000), (5_000, 4_800)] {
        let mut f = Flow::at(Mode::ProbeBwCruise);
        (f.s.inflight_longterm, f.c.cwnd, f.c.inflight) = (longterm, 1 << 20, 0);
        assert_eq!(f.more(RATE).cwnd, cwnd);
    }
}

#[test]
fn cruise_04_losses_cut_the_short_term_bounds_only() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.s.inflight_longterm = 100_000;
    f.go(Mode::ProbeBwCruise);
    f.ack(25_000);
    f.c.cwnd = 50_000;
    for i in 1..=20 {
        f.lose(i * MSS, 30_000);
    }
    f.ack_with(25_000, |a| (a.rs_lost, a.newly_lost) = (24_000, 24_000));
    assert_eq!((f.s.state, f.s.inflight_longterm), (Mode::ProbeBwCruise, 100_000));
    assert_near(rate_of(f.s.bw_shortterm), 700_000, 1);
    assert_eq!(f.s.inflight_shortterm, 35_000);
    assert!(!f.s.prev_probe_too_high);
}

#[test]
fn cruise_05_entry_keeps_the_clocks() {
    let mut f = Flow::at(Mode::ProbeBwDown);
    let before = f.s;
    f.c.inflight = 30_000;
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwCruise);
    assert_eq!((f.s.cycle_stamp, f.s.bw_probe_wait_us), (before.cycle_stamp, before.bw_probe_wait_us));
    assert_eq!(f.s.next_round_delivered, before.next_round_delivered);
    assert_eq!((f.s.round_count, f.s.ack_phase), (before.round_count, before.ack_phase));
}
