//! CAUTION: precautionary probing (§5.3.3.6).

use super::driver::*;
use headway_cc::cc::bbr3::*;

/// A flow whose probe met loss at 58,800 bytes and that has come to UP again, still below them.
fn second_up() -> Flow {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.lose(2_400, 60_000);
    assert_eq!((f.s.state, f.s.inflight_longterm), (Mode::ProbeBwDown, 58_800));
    f.go(Mode::ProbeBwUp);
    f
}

/// The same flow after the second probe was ended at the bound.
fn stopped() -> Flow {
    let mut f = second_up();
    f.c.inflight = f.s.inflight_longterm;
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwDown);
    f
}

#[test]
fn caution_01_loss_is_remembered() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    assert!(!f.s.prev_probe_too_high);
    f.lose(2_400, 60_000);
    assert_eq!((f.s.prev_probe_too_high, f.s.prev_probe_precautionary), (true, false));
    f.go(Mode::ProbeBwCruise);
    f.go(Mode::ProbeBwRefill);
    assert!(f.s.prev_probe_too_high);
}

#[test]
fn caution_02_the_next_probe_stops_at_the_bound() {
    let mut f = second_up();
    f.c.inflight = f.s.inflight_longterm - MSS;
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwUp, "a segment is left");
    f.c.inflight = f.s.inflight_longterm;
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwDown);
    assert_eq!((f.s.prev_probe_precautionary, f.s.prev_probe_too_high), (true, false));
    assert_eq!(f.s.inflight_longterm, 58_800);
}

#[test]
fn caution_03_a_clean_round_later_it_goes_on() {
    let mut f = stopped();
    let cycles = f.s.cycle_count;
    for _ in 0..20 {
        f.more(RATE);
    }
    assert_eq!(f.s.state, Mode::ProbeBwDown, "within the round");
    let mut app_limited = f.clone();
    f.ack(RATE);
    assert_eq!((f.s.state, f.s.cycle_count - cycles), (Mode::ProbeBwRefill, 1));
    app_limited.ack_with(RATE, |a| a.rs_is_app_limited = true);
    assert_eq!((app_limited.s.state, app_limited.s.cycle_count), (Mode::ProbeBwRefill, cycles));
}

#[test]
fn caution_04_and_then_may_grow_the_bound() {
    let mut f = stopped();
    f.ack(RATE);
    f.ack(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwUp);
    (f.c.cwnd, f.s.probe_up_acked_per_inc) = (58_800, 1_200);
    f.c.inflight = 58_800;
    f.more(RATE);
    assert_eq!((f.s.state, f.s.inflight_longterm), (Mode::ProbeBwUp, 60_000));
}

#[test]
fn caution_05_loss_in_that_round_spoils_it() {
    let mut f = stopped();
    f.more(RATE);
    f.lose(2_400, 58_800);
    assert_eq!((f.s.state, f.s.prev_probe_too_high), (Mode::ProbeBwDown, true));
    f.ack(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwDown);
    f.c.inflight = 30_000;
    f.ack(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwCruise);
}

#[test]
fn caution_06_which_flag_refill_clears() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    (f.s.prev_probe_precautionary, f.s.prev_probe_too_high) = (true, true);
    f.go(Mode::ProbeBwRefill);
    assert_eq!((f.s.prev_probe_precautionary, f.s.prev_probe_too_high), (false, true));
}

#[test]
fn caution_07_a_decision_is_not_overruled_in_the_same_ack() {
    // The ACK starts a round, with which REFILL would end at once.
    let mut f = stopped();
    f.c.inflight = 0;
    f.ack(RATE);
    assert_eq!((f.s.state, f.s.round_start), (Mode::ProbeBwRefill, true));
    assert_eq!((f.s.ack_phase, f.s.is_bw_probe_sample), (AckPhase::Refilling, false));
    f.ack(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwUp);
}
