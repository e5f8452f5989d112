//! REFILL (§5.3.3.3, §5.3.3.9).

use super::driver::*;
use headway_cc::cc::bbr3::*;

#[test]
fn refill_01_entry() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    (f.s.bw_shortterm, f.s.inflight_shortterm) = (bw(RATE / 2), 30_000);
    (f.s.bw_probe_up_rounds, f.s.bw_probe_up_acked, f.s.prev_probe_precautionary) = (7, 800, true);
    f.go(Mode::ProbeBwRefill);
    assert_eq!([f.s.bw_shortterm, f.s.inflight_shortterm], [BBR3_INFINITY; 2]);
    assert_eq!((f.s.bw_probe_up_rounds, f.s.bw_probe_up_acked, f.s.prev_probe_precautionary), (0, 0, false));
    assert_eq!((f.s.ack_phase, f.s.next_round_delivered), (AckPhase::Refilling, f.c.delivered));
    assert_near(f.c.pacing_rate, 990_000, 1);
}

#[test]
fn refill_02_lasts_one_round() {
    let mut f = Flow::at(Mode::ProbeBwRefill);
    let rounds = f.s.round_count;
    for _ in 0..100 {
        f.more(RATE);
        assert_eq!(f.s.state, Mode::ProbeBwRefill);
    }
    f.ack(RATE);
    assert_eq!((f.s.state, f.s.round_count), (Mode::ProbeBwUp, rounds + 1));
}

#[test]
fn refill_03_its_end_makes_losses_the_probe_s() {
    let mut f = Flow::at(Mode::ProbeBwRefill);
    f.more(RATE);
    assert!(!f.s.is_bw_probe_sample);
    f.ack(RATE);
    assert!(f.s.is_bw_probe_sample);
}

#[test]
fn refill_04_losses_leave_the_short_term_bounds_alone() {
    let mut f = Flow::at(Mode::ProbeBwRefill);
    f.lose(1_200, 30_000);
    // A loss round may end while the round of REFILL goes on.
    f.s.next_round_delivered += 100_000;
    f.ack(25_000);
    assert_eq!((f.s.state, f.s.loss_round_start, f.s.is_loss_in_round), (Mode::ProbeBwRefill, true, false));
    assert_eq!([f.s.bw_shortterm, f.s.inflight_shortterm], [BBR3_INFINITY; 2]);
}

#[test]
fn refill_05_losses_leave_the_long_term_bound_alone() {
    for (flag, longterm) in [(false, 100_000), (true, 58_800)] {
        let mut f = Flow::at(Mode::ProbeBwRefill);
        (f.s.inflight_longterm, f.s.is_bw_probe_sample) = (100_000, flag);
        f.lose(6_000, 60_000);
        assert_eq!((f.s.inflight_longterm, f.s.state), (longterm, Mode::ProbeBwRefill));
    }
}

#[test]
fn refill_06_capped_by_the_long_term_bound() {
    let mut f = Flow::at(Mode::ProbeBwRefill);
    (f.s.inflight_longterm, f.c.cwnd) = (60_000, 1 << 20);
    assert_eq!(f.more(RATE).cwnd, 60_000, "without headroom");
}

#[test]
fn refill_07_an_idle_application_changes_nothing() {
    let mut f = Flow::at(Mode::ProbeBwRefill);
    f.more_with(RATE / 10, |a| a.rs_is_app_limited = true);
    f.ack_with(RATE / 10, |a| a.rs_is_app_limited = true);
    assert_eq!((f.s.state, rate_of(f.s.max_bw)), (Mode::ProbeBwUp, RATE));
}
