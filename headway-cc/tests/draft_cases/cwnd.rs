//! CWND: the window (§5.6.4).

use crate::driver::{Flow, MSS, RATE, assert_near, bw};
use crate::whole::{SEGMENT, Whole};
use headway_cc::cc::bbr3::*;
use headway_cc::cc::{Ack, Event, NO_RTT};
use headway_cc::sim::Source;

/// In a state of a flow with `rate` over 40 ms, a window far above all bounds.
fn wide(state: Mode, rate: u64) -> Flow {
    let mut f = Flow::at(state);
    (f.s.max_bw_0, f.s.max_bw_1, f.s.max_bw, f.s.bw) = (0, bw(rate), bw(rate), bw(rate));
    (f.c.cwnd, f.s.extra_acked_interval_start, f.s.extra_acked_delivered) = (1_000_000, f.c.now_us, 0);
    f
}

#[test]
fn cwnd_01_without_an_rtt_the_bdp_is_the_initial_window() {
    let mut f = Flow::init(Bbr3Params::default(), |a| (a.srtt_us, a.min_rtt_us) = (0, NO_RTT));
    (f.s.full_bw_reached, f.s.state, f.c.cwnd, f.c.inflight) = (true, Mode::ProbeBwCruise, 500_000, 40_000);
    f.more_with(RATE, |a| a.rs_rtt_us = NO_RTT);
    assert_eq!((f.s.min_rtt_us, f.c.cwnd), (NO_RTT, 12_000 + f.s.extra_acked));
}

#[test]
fn cwnd_02_the_short_term_bandwidth_makes_the_bdp() {
    let mut f = wide(Mode::ProbeBwCruise, RATE);
    f.more(RATE / 10);
    assert_eq!(f.c.cwnd, 80_000 + f.s.extra_acked);
    f.s.bw_shortterm = bw(500_000);
    f.more(RATE / 10);
    assert_eq!((f.c.cwnd, f.s.max_bw), (40_000 + f.s.extra_acked, bw(RATE)));
}

#[test]
fn cwnd_03_twice_the_bdp_and_what_aggregation_adds() {
    for (state, cwnd) in [(Mode::ProbeBwCruise, 106_000), (Mode::ProbeBwUp, 120_900)] {
        let mut f = wide(state, 1_250_000);
        f.more_with(1_250_000, |a| a.newly_acked = 6_000);
        assert_eq!((f.s.extra_acked, f.c.cwnd), (6_000, cwnd));
    }
}

#[test]
fn cwnd_04_once_the_pipe_was_full_it_falls_at_once_and_grows_by_what_is_acked() {
    let mut f = wide(Mode::ProbeBwCruise, RATE);
    f.more(RATE);
    let full = f.c.cwnd;
    assert_eq!(full, 80_000 + f.s.extra_acked);
    f.s.bw_shortterm = bw(RATE / 2);
    f.more(RATE);
    assert_eq!(f.c.cwnd, 40_000 + f.s.extra_acked);
    f.s.bw_shortterm = BBR3_INFINITY;
    let low = f.c.cwnd;
    f.more(RATE);
    assert_eq!(f.c.cwnd, low + MSS);
    f.more_with(RATE, |a| a.newly_acked = 900_000);
    assert!(f.c.cwnd >= 80_000 && f.c.cwnd == 80_000 + f.s.extra_acked);
    f.c.cwnd_clamp = 50_000;
    f.more(RATE);
    assert_eq!(f.c.cwnd, 50_000, "the host's bound");
}

#[test]
fn cwnd_05_before_the_pipe_was_full_it_grows_to_the_target_and_never_falls() {
    // (window, delivered before, window after): the most in flight is 80,000 and what aggregation adds.
    for (cwnd, delivered, after) in
        [(20_000, 100_000, 20_000 + MSS), (300_000, 100_000, 300_000), (300_000, 5_000, 300_000 + MSS)]
    {
        let mut f = wide(Mode::Startup, RATE);
        (f.c.cwnd, f.c.delivered) = (cwnd, delivered);
        f.s.next_round_delivered = u64::MAX;
        f.more(RATE);
        assert_eq!((f.s.full_bw_reached, f.c.cwnd), (false, after));
    }
}

#[test]
fn cwnd_06_four_segments_are_the_least_after_every_bound() {
    for &state in &Mode::ALL[1..] {
        let mut f = wide(state, 10_000);
        (f.s.inflight_longterm, f.s.inflight_shortterm) = (MSS, MSS);
        f.c.cwnd = MSS;
        f.more_with(10_000, |a| (a.newly_acked, a.rs_tx_in_flight) = (1, 0));
        assert_eq!((f.s.state, f.c.cwnd), (state, 4 * MSS));
    }
}

#[test]
fn cwnd_07_each_state_has_its_caps() {
    // 10 MB/s over 40 ms: 400,000 of BDP; a long-term bound of 100,000.
    for (state, cap, short) in [
        (Mode::Startup, 1_000_000, 50_000),
        (Mode::Drain, 800_000, 50_000),
        (Mode::ProbeBwDown, 100_000, 50_000),
        (Mode::ProbeBwCruise, 85_000, 50_000),
        (Mode::ProbeBwRefill, 100_000, 50_000),
        (Mode::ProbeBwUp, 100_000, 50_000),
        (Mode::ProbeRtt, 85_000, 50_000),
    ] {
        for inflight_shortterm in [BBR3_INFINITY, 50_000] {
            let mut f = wide(state, 10 * RATE);
            f.c.inflight = 500_000;
            f.c.delivered += 100_000;
            (f.s.inflight_longterm, f.s.inflight_shortterm) = (100_000, inflight_shortterm);
            (f.s.next_round_delivered, f.s.prev_probe_too_high) = (u64::MAX, false);
            f.more_with(RATE, |a| (a.rs_tx_in_flight, a.is_cwnd_limited) = (0, false));
            assert_eq!(f.s.state, state);
            let expected = if inflight_shortterm == 50_000 { short } else { cap };
            let extra = if state == Mode::Drain && expected == cap { f.s.extra_acked } else { 0 };
            assert_eq!(f.c.cwnd, expected + extra, "state {state:?}");
        }
    }
}

#[test]
fn cwnd_08_a_bdp_below_a_packet_leaves_four_segments_at_the_tiny_rate() {
    // 64 kbit/s over 10 ms: 80 bytes.
    let mut f = wide(Mode::ProbeBwCruise, 8_000);
    (f.s.min_rtt_us, f.s.probe_rtt_min_delay_us) = (10_000, 10_000);
    f.more_with(8_000, |a| a.rs_delivered = 320);
    assert_eq!(f.c.cwnd, 4 * MSS);
    assert_near(f.c.pacing_rate, 7_920, 2);
}

#[test]
fn cwnd_09_a_window_that_was_full_counts_as_the_limit_for_a_round() {
    // Messages that fill the window at first and leave it half empty after that.
    let source = Source::Messages { bytes: 150_000, interval_us: 400_000 };
    let w = Whole::new("50mbit 40ms queue=10bdp", source, 4);
    let acks: Vec<_> = w.steps.iter().filter(|s| s.ack.event == Event::Ack).collect();
    let slack = |a: &Ack| a.is_cwnd_limited && a.prior_inflight + SEGMENT <= a.cwnd;
    assert!(acks.iter().filter(|s| slack(&s.ack)).count() > 20, "room now, but none before");
    let starts: Vec<usize> = (1..acks.len())
        .filter(|i| !acks[i - 1].ack.is_cwnd_limited && acks[*i].ack.is_cwnd_limited)
        .collect();
    assert!(!starts.is_empty());
    for start in starts {
        let end = acks[start..].iter().find(|s| !s.ack.is_cwnd_limited).expect("an end");
        assert!(end.ack.now_us - acks[start].ack.now_us >= 39_000, "less than a round");
    }
    assert!(acks.iter().any(|s| !s.ack.is_cwnd_limited));
}
