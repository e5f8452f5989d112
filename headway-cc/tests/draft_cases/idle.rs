//! IDLE: the restart after idleness (§5.4.1).

use crate::driver::{Flow, RATE, assert_near};
use headway_cc::cc::Event;
use headway_cc::cc::bbr3::*;

/// Nothing is in flight for 3 s; then the application writes.
fn pause(f: &mut Flow, is_app_limited: bool) {
    f.c.now_us += 3_000_000;
    (f.c.inflight, f.c.is_app_limited) = (0, is_app_limited);
    f.tell(Event::TxStart);
}

#[test]
fn idle_01_a_restart_is_noted_and_restarts_the_aggregation_clock() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    assert!(!f.s.idle_restart);
    pause(&mut f, true);
    assert_eq!((f.s.idle_restart, f.s.extra_acked_interval_start), (true, f.c.now_us));
}

#[test]
fn idle_02_in_probe_bw_the_rate_is_the_estimate_whatever_the_phase() {
    for &state in &Mode::ALL[3..7] {
        let mut f = Flow::at(state);
        pause(&mut f, true);
        assert_near(f.c.pacing_rate, 990_000, 1);
        assert_eq!(f.s.state, state);
    }
}

#[test]
fn idle_03_the_window_stays() {
    for &state in &Mode::ALL[1..] {
        let mut f = Flow::at(state);
        f.c.cwnd = 77_777;
        pause(&mut f, true);
        assert_eq!(f.c.cwnd, 77_777, "state {state:?}");
    }
}

#[test]
fn idle_04_it_ends_a_probe_rtt_that_is_long_enough() {
    for (after_us, is_over) in [(200_000, false), (200_001, true)] {
        let mut f = Flow::at(Mode::ProbeRtt);
        f.c.inflight = 20_000;
        f.more(RATE);
        f.s.prior_cwnd = 75_000;
        let cwnd = f.c.cwnd;
        assert_eq!(f.s.probe_rtt_done_stamp, f.c.now_us + 200_000);
        f.c.now_us = f.c.now_us + after_us - 3_000_000;
        pause(&mut f, true);
        let (state, window) = if is_over { (Mode::ProbeBwCruise, 75_000) } else { (Mode::ProbeRtt, cwnd) };
        assert_eq!((f.s.state, f.c.cwnd), (state, window), "{after_us}");
    }
    // Inflight never fell while the clock could see it: nothing to end.
    let mut f = Flow::at(Mode::ProbeRtt);
    assert_eq!(f.s.probe_rtt_done_stamp, 0);
    pause(&mut f, true);
    assert_eq!(f.s.state, Mode::ProbeRtt);
}

#[test]
fn idle_05_nothing_in_flight_for_want_of_window_is_no_idleness() {
    for &state in &Mode::ALL[1..] {
        let mut f = Flow::at(state);
        let (before, rate) = (f.s, f.c.pacing_rate);
        pause(&mut f, false);
        assert_eq!((f.s, f.c.pacing_rate), (before, rate), "state {state:?}");
    }
}

#[test]
fn idle_06_startup_and_drain_keep_their_rate() {
    for state in [Mode::Startup, Mode::Drain] {
        let mut f = Flow::at(state);
        let rate = f.c.pacing_rate;
        let before = f.s;
        pause(&mut f, true);
        assert_eq!((f.c.pacing_rate, f.s.idle_restart), (rate, true));
        let noted = Bbr3State {
            idle_restart: true,
            extra_acked_interval_start: f.c.now_us,
            extra_acked_delivered: 0,
            ..before
        };
        assert_eq!(f.s, noted, "nothing else");
    }
}
