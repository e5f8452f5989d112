//! LT: bookkeeping of the long-term bound (§5.3.3.9).

use crate::driver::{Flow, MSS, RATE};
use headway_cc::cc::bbr3::*;

#[test]
fn lt_01_nothing_happens_before_the_pipe_was_full() {
    let mut f = Flow::at(Mode::Startup);
    for round in 0..20 {
        f.ack(RATE << round);
        assert_eq!((f.s.ack_phase, f.s.inflight_longterm), (AckPhase::Init, BBR3_INFINITY));
    }
    (f.s.ack_phase, f.s.inflight_longterm, f.s.is_bw_probe_sample) = (AckPhase::ProbeStopping, 5_000, true);
    f.ack_with(RATE << 20, |a| a.rs_tx_in_flight = 50_000);
    assert_eq!((f.s.state, f.s.round_start, f.s.full_bw_reached), (Mode::Startup, true, false));
    assert_eq!((f.s.ack_phase, f.s.inflight_longterm), (AckPhase::ProbeStopping, 5_000));
    assert!(f.s.is_bw_probe_sample);
}

#[test]
fn lt_02_it_runs_in_drain_and_probe_rtt_too() {
    let mut f = Flow::at(Mode::ProbeRtt);
    (f.s.is_bw_probe_sample, f.s.inflight_longterm) = (true, 50_000);
    let cycles = f.s.cycle_count;
    assert_eq!(f.s.ack_phase, AckPhase::ProbeStopping);
    f.ack_with(RATE, |a| a.rs_tx_in_flight = 60_000);
    assert_eq!((f.s.state, f.s.is_bw_probe_sample, f.s.ack_phase), (Mode::ProbeRtt, false, AckPhase::Init));
    assert_eq!((f.s.cycle_count, f.s.inflight_longterm), (cycles, 60_000));
    let mut f = Flow::at(Mode::Drain);
    f.s.inflight_longterm = 50_000;
    f.ack_with(RATE, |a| a.rs_tx_in_flight = 60_000);
    assert_eq!((f.s.state, f.s.inflight_longterm), (Mode::Drain, 60_000));
}

#[test]
fn lt_03_a_sample_with_too_much_loss_raises_nothing() {
    // 1201 of 60,000 is above 2 %, 1200 is not.
    for (state, lost, longterm) in [
        (Mode::ProbeBwCruise, 1_201, 50_000),
        (Mode::ProbeBwCruise, 1_200, 60_000),
        (Mode::ProbeBwDown, 1_201, 50_000),
    ] {
        let mut f = Flow::at(state);
        (f.s.is_bw_probe_sample, f.s.inflight_longterm) = (false, 50_000);
        f.more_with(RATE, |a| (a.rs_lost, a.rs_tx_in_flight) = (lost, 60_000));
        assert_eq!((f.s.state, f.s.inflight_longterm), (state, longterm));
    }
    // While a probe is judged the sample ends it, or, as the pseudocode has it, only raises nothing.
    for (is_ack_judged, state) in [(true, Mode::ProbeBwDown), (false, Mode::ProbeBwUp)] {
        let mut f = Flow::at(Mode::ProbeBwUp);
        (f.p.is_ack_judged, f.s.inflight_longterm, f.c.inflight) = (is_ack_judged, 60_000, 50_000);
        f.more_with(RATE, |a| (a.rs_lost, a.rs_tx_in_flight) = (1_201, 60_000));
        assert_eq!((f.s.state, f.s.inflight_longterm), (state, 60_000));
        assert_eq!((f.s.prev_probe_too_high, f.s.is_bw_probe_sample), (is_ack_judged, !is_ack_judged));
    }
}

#[test]
fn lt_04_a_cut_is_the_volume_at_the_loss_or_seven_tenths_of_the_target() {
    // (bound before, window, in flight at sending, bound after): the lost segment is 1200 bytes, 3600 were lost.
    for (before, cwnd, tx, after) in [
        (BBR3_INFINITY, 80_000, 60_000, 58_800),
        (BBR3_INFINITY, 80_000, 10_000, 28_000),
        (20_000, 80_000, 10_000, 28_000),
        (100_000, 80_000, 60_000, 58_800),
        (100_000, 20_000, 10_000, 14_000),
    ] {
        let mut f = Flow::at(Mode::ProbeBwUp);
        (f.s.inflight_longterm, f.c.cwnd) = (before, cwnd);
        f.lose(3 * MSS, tx);
        assert_eq!(f.s.inflight_longterm, after, "{before} {cwnd} {tx}");
    }
}

#[test]
fn lt_05_an_application_limited_loss_ends_the_probe_and_leaves_the_bound() {
    for before in [BBR3_INFINITY, 100_000] {
        let mut f = Flow::at(Mode::ProbeBwUp);
        f.s.inflight_longterm = before;
        f.lose_with(3 * MSS, 60_000, |a| a.rs_is_app_limited = true);
        assert_eq!((f.s.state, f.s.inflight_longterm), (Mode::ProbeBwDown, before));
        assert_eq!((f.s.prev_probe_too_high, f.s.is_bw_probe_sample), (true, false));
        assert_eq!(f.s.undo_state, Mode::ProbeBwUp);
    }
}
