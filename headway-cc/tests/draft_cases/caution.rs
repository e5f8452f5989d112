//! CAUTION: precautionary probing (§5.3.3.6).

use super::driver::*;
use headway_cc::cc::bbr3::*;

/// A flow whose probe met loss at 58,800 bytes and that has come to UP again, still below them.
fn second_up() -> Flow {
    let mut f = Flow::at(BBR3_PROBE_BW_UP);
    f.lose(2_400, 60_000);
    assert_eq!((f.s.state, f.s.inflight_longterm), (BBR3_PROBE_BW_DOWN, 58_800));
    f.go(BBR3_PROBE_BW_UP);
    f
}

/// The same flow after the second probe was ended at the bound.
fn stopped() -> Flow {
    let mut f = second_up();
    f.c.inflight = f.s.inflight_longterm;
    f.more(RATE);
    assert_eq!(f.s.state, BBR3_PROBE_BW_DOWN);
    f
}

#[test]
fn caution_01_loss_is_remembered() {
    let mut f = Flow::at(BBR3_PROBE_BW_UP);
    assert_eq!(f.s.prev_probe_too_high, 0);
    f.lose(2_400, 60_000);
    assert_eq!((f.s.prev_probe_too_high, f.s.prev_probe_precautionary), (1, 0));
    f.go(BBR3_PROBE_BW_CRUISE);
    f.go(BBR3_PROBE_BW_REFILL);
    assert_eq!(f.s.prev_probe_too_high, 1);
}

#[test]
fn caution_02_the_next_probe_stops_at_the_bound() {
    let mut f = second_up();
    f.c.inflight = f.s.inflight_longterm - MSS;
    f.more(RATE);
    assert_eq!(f.s.state, BBR3_PROBE_BW_UP, "a segment is left");
    f.c.inflight = f.s.inflight_longterm;
    f.more(RATE);
    assert_eq!(f.s.state, BBR3_PROBE_BW_DOWN);
    assert_eq!((f.s.prev_probe_precautionary, f.s.prev_probe_too_high), (1, 0));
    assert_eq!(f.s.inflight_longterm, 58_800);
}

#[test]
fn caution_03_a_clean_round_later_it_goes_on() {
    let mut f = stopped();
    let cycles = f.s.cycle_count;
    for _ in 0..20 {
        f.more(RATE);
    }
    assert_eq!(f.s.state, BBR3_PROBE_BW_DOWN, "within the round");
    let mut app_limited = f.clone();
    f.ack(RATE);
    assert_eq!((f.s.state, f.s.cycle_count - cycles), (BBR3_PROBE_BW_REFILL, 1));
    app_limited.ack_with(RATE, |a| a.rs_is_app_limited = 1);
    assert_eq!((app_limited.s.state, app_limited.s.cycle_count), (BBR3_PROBE_BW_REFILL, cycles));
}

#[test]
fn caution_04_and_then_may_grow_the_bound() {
    let mut f = stopped();
    f.ack(RATE);
    f.ack(RATE);
    assert_eq!(f.s.state, BBR3_PROBE_BW_UP);
    (f.c.cwnd, f.s.probe_up_acked_per_inc) = (58_800, 1_200);
    f.c.inflight = 58_800;
    f.more(RATE);
    assert_eq!((f.s.state, f.s.inflight_longterm), (BBR3_PROBE_BW_UP, 60_000));
}

#[test]
fn caution_05_loss_in_that_round_spoils_it() {
    let mut f = stopped();
    f.more(RATE);
    f.lose(2_400, 58_800);
    assert_eq!((f.s.state, f.s.prev_probe_too_high), (BBR3_PROBE_BW_DOWN, 1));
    f.ack(RATE);
    assert_eq!(f.s.state, BBR3_PROBE_BW_DOWN);
    f.c.inflight = 30_000;
    f.ack(RATE);
    assert_eq!(f.s.state, BBR3_PROBE_BW_CRUISE);
}

#[test]
fn caution_06_which_flag_refill_clears() {
    let mut f = Flow::at(BBR3_PROBE_BW_CRUISE);
    (f.s.prev_probe_precautionary, f.s.prev_probe_too_high) = (1, 1);
    f.go(BBR3_PROBE_BW_REFILL);
    assert_eq!((f.s.prev_probe_precautionary, f.s.prev_probe_too_high), (0, 1));
}

#[test]
fn caution_07_a_decision_is_not_overruled_in_the_same_ack() {
    // The ACK starts a round, with which REFILL would end at once.
    let mut f = stopped();
    f.c.inflight = 0;
    f.ack(RATE);
    assert_eq!((f.s.state, f.s.round_start), (BBR3_PROBE_BW_REFILL, 1));
    assert_eq!((f.s.ack_phase, f.s.is_bw_probe_sample), (BBR3_ACKS_REFILLING, 0));
    f.ack(RATE);
    assert_eq!(f.s.state, BBR3_PROBE_BW_UP);
}
