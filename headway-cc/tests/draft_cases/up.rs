//! UP (§5.3.3.4 to §5.3.3.9).

use super::driver::*;
use headway_cc::cc::bbr3::*;

#[test]
fn up_01_entry() {
    let mut f = Flow::at(Mode::ProbeBwRefill);
    f.c.cwnd = 64_000;
    f.ack(900_000);
    assert_eq!((f.s.state, f.s.ack_phase), (Mode::ProbeBwUp, AckPhase::ProbeStarting));
    assert_eq!(f.s.next_round_delivered, f.c.delivered);
    assert_eq!((rate_of(f.s.full_bw), f.s.full_bw_count, f.s.full_bw_now), (900_000, 0, false));
    assert_eq!((f.s.bw_probe_up_rounds, f.s.probe_up_acked_per_inc), (1, 64_000));
}

#[test]
fn up_02_gains_and_two_segments() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.c.cwnd = 1 << 20;
    let control = f.more_with(RATE, |a| a.newly_acked = 1);
    assert_near(control.pacing_rate, 1_237_500, 1);
    assert_eq!(control.cwnd, 90_000 + 1_200 + 2_400, "2.25 BDP, one ACK beyond expectation, two segments");
}

#[test]
fn up_03_the_first_round_brings_feedback() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.more(RATE);
    assert_eq!(f.s.ack_phase, AckPhase::ProbeStarting);
    f.ack(RATE);
    assert_eq!(f.s.ack_phase, AckPhase::ProbeFeedback);
}

#[test]
fn up_04_the_bound_grows_only_when_it_limits() {
    for (limited, cwnd, longterm, rounds) in [
        (true, 60_000, 61_200, 2),
        (false, 60_000, 60_000, 1),
        (true, 59_999, 60_000, 1),
        (false, 59_999, 60_000, 1),
    ] {
        let mut f = Flow::at(Mode::ProbeBwUp);
        (f.s.inflight_longterm, f.c.cwnd, f.c.is_cwnd_limited) = (60_000, cwnd, limited);
        f.s.probe_up_acked_per_inc = 1_200;
        f.ack(RATE);
        assert_eq!((f.s.inflight_longterm, f.s.bw_probe_up_rounds), (longterm, rounds), "{limited} {cwnd}");
    }
}

#[test]
fn up_05_by_one_two_four_eight_segments_a_round() {
    let mut f = Flow::over(RTT_US, 4 * RATE);
    f.go(Mode::ProbeBwRefill);
    (f.s.inflight_longterm, f.c.cwnd, f.c.inflight) = (64 * MSS, 64 * MSS, 0);
    let mut growth = Vec::new();
    // The ACK that enters UP is not of the probe; then each round ACKs the whole window.
    f.ack(4 * RATE);
    for _ in 0..64 {
        f.more(4 * RATE);
    }
    growth.push(f.s.inflight_longterm / MSS - 64);
    for _ in 0..3 {
        let before = f.s.inflight_longterm;
        f.s.full_bw_count = 0;
        f.flight(f.c.cwnd / MSS, 4 * RATE);
        growth.push((f.s.inflight_longterm - before) / MSS);
    }
    assert_eq!((f.s.state, growth), (Mode::ProbeBwUp, vec![1, 2, 4, 8]));
    // What is ACKed beyond a step is kept.
    let mut f = Flow::at(Mode::ProbeBwUp);
    (f.s.inflight_longterm, f.c.cwnd, f.s.probe_up_acked_per_inc) = (60_000, 60_000, 10_000);
    f.more_with(RATE, |a| a.newly_acked = 25_000);
    assert_eq!((f.s.inflight_longterm, f.s.bw_probe_up_acked), (62_400, 5_000));
}

#[test]
fn up_06_the_slope_rises_at_round_starts() {
    let mut f = Flow::at(Mode::ProbeBwRefill);
    let mut seen = Vec::new();
    for _ in 0..8 {
        (f.s.inflight_longterm, f.c.cwnd, f.c.inflight, f.s.full_bw_count) = (48_000, 48_000, 0, 0);
        f.ack(RATE);
        seen.push(f.s.probe_up_acked_per_inc);
        f.more(RATE);
        assert_eq!(f.s.probe_up_acked_per_inc, seen[seen.len() - 1]);
    }
    assert_eq!(seen, [48_000, 24_000, 12_000, 6_000, 3_000, 1_500, 1_200, 1_200]);
    let longterm = f.s.inflight_longterm;
    f.c.cwnd = longterm;
    f.more(RATE);
    assert_eq!(f.s.inflight_longterm, longterm + 1_200, "then a segment for a segment");
}

#[test]
fn up_07_ends_when_the_rate_is_flat() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    (f.s.prev_probe_too_high, f.c.inflight) = (true, 60_000);
    for rate in [RATE, 1_240_000] {
        f.ack(rate);
        assert_eq!(f.s.state, Mode::ProbeBwUp);
    }
    f.ack(1_240_000);
    assert_eq!((f.s.state, f.s.prev_probe_too_high), (Mode::ProbeBwDown, false));
    assert_eq!((f.s.prev_probe_precautionary, f.s.inflight_longterm), (false, BBR3_INFINITY));
}

#[test]
fn up_08_not_flat_while_the_bound_limits() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    for _ in 0..20 {
        (f.s.inflight_longterm, f.c.cwnd) = (60_000, 60_000);
        f.s.probe_up_acked_per_inc = BBR3_INFINITY;
        f.ack(900_000);
        assert_eq!((f.s.state, f.s.full_bw_count), (Mode::ProbeBwUp, 0));
        assert_eq!(rate_of(f.s.full_bw), 900_000);
    }
}

#[test]
fn up_09_ends_by_loss() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    (1..=3).for_each(|i| f.lose(i * MSS, 180_000));
    assert_eq!(f.s.state, Mode::ProbeBwUp, "2 %");
    f.lose(4_800, 180_000);
    assert_eq!((f.s.state, f.s.prev_probe_too_high), (Mode::ProbeBwDown, true));
}

#[test]
fn up_10_what_proved_safe_raises_the_bound_in_any_state() {
    for state in [Mode::Drain, Mode::ProbeBwCruise, Mode::ProbeBwRefill, Mode::ProbeRtt] {
        let mut f = Flow::at(state);
        f.s.inflight_longterm = 50_000;
        f.more_with(RATE, |a| (a.rs_tx_in_flight, a.rs_lost) = (70_000, 1_401));
        assert_eq!(f.s.inflight_longterm, 50_000, "a loss above 2 % is not safe");
        f.more_with(RATE, |a| (a.rs_tx_in_flight, a.rs_lost) = (70_000, 1_400));
        assert_eq!((f.s.inflight_longterm, f.s.state), (70_000, state));
    }
    let mut f = Flow::new();
    f.s.inflight_longterm = 50_000;
    f.ack_with(RATE, |a| a.rs_tx_in_flight = 70_000);
    assert_eq!(f.s.inflight_longterm, 50_000, "not before the pipe was full");
}

#[test]
fn up_11_an_idle_application_stays_in_up() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    for _ in 0..1_000 {
        f.s.probe_rtt_min_stamp = f.c.now_us;
        f.ack_with(RATE / 4, |a| (a.rs_is_app_limited, a.is_cwnd_limited) = (true, false));
        assert_eq!(f.s.state, Mode::ProbeBwUp);
    }
}

#[test]
fn up_12_no_bound_nothing_to_raise() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    for _ in 0..2 {
        f.flight(50, RATE);
    }
    assert_eq!((f.s.state, f.s.inflight_longterm), (Mode::ProbeBwUp, BBR3_INFINITY));
    assert_eq!((f.s.bw_probe_up_acked, f.s.bw_probe_up_rounds), (0, 1));
}
