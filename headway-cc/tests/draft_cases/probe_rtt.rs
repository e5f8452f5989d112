//! PRTT: ProbeRTT (§5.3.4).

use crate::driver::{Flow, MSS, RATE, RTT_US, assert_near, bw};
use crate::whole::{SECOND_US, Whole};
use headway_cc::cc::Event;
use headway_cc::cc::bbr3::*;
use headway_cc::cc::fixed::GAIN_UNIT;

/// A flow whose minimum RTT is due at the next ACK.
fn due(state: Mode) -> Flow {
    let mut f = Flow::at(state);
    f.c.now_us = f.s.probe_rtt_min_stamp + 5_000_001;
    f
}

/// In ProbeRTT with inflight low; the clock of 200 ms runs.
fn low() -> Flow {
    let mut f = Flow::at(Mode::ProbeRtt);
    f.c.inflight = 20_000;
    f.s.probe_rtt_round_done = true; // left over from the visit before
    f.more(RATE);
    assert_ne!(f.s.probe_rtt_done_stamp, 0);
    f
}

/// ACKs, each of a round, until ProbeRTT ends.
fn leave(f: &mut Flow) {
    for _ in 0..1_000 {
        if f.s.state != Mode::ProbeRtt {
            return;
        }
        f.ack(RATE);
    }
    panic!("stuck in ProbeRTT: {f:?}");
}

#[test]
fn prtt_01_entered_from_every_state_unless_idle() {
    for &state in &Mode::ALL[1..7] {
        let mut f = due(state);
        f.more(RATE);
        assert_eq!(f.s.state, Mode::ProbeRtt, "from {state:?}");
        let mut f = due(state);
        f.s.idle_restart = true;
        f.more(RATE);
        assert_ne!(f.s.state, Mode::ProbeRtt, "from {state:?}");
        let mut f = Flow::at(state);
        f.c.now_us = f.s.probe_rtt_min_stamp + 5_000_000 - 1_000;
        f.more(RATE);
        assert_ne!(f.s.state, Mode::ProbeRtt, "from {state:?}");
    }
}

#[test]
fn prtt_02_entry_saves_the_window_and_restarts_the_round() {
    let mut f = due(Mode::ProbeBwUp);
    (f.c.cwnd, f.s.prior_cwnd, f.s.probe_rtt_done_stamp) = (70_000, 999_000, 1);
    f.more(RATE);
    assert_eq!((f.s.pacing_gain, f.s.cwnd_gain), (GAIN_UNIT, GAIN_UNIT / 2));
    assert_eq!((f.s.prior_cwnd, f.s.probe_rtt_done_stamp), (70_000, 0));
    assert_eq!((f.s.ack_phase, f.s.next_round_delivered), (AckPhase::ProbeStopping, f.c.delivered));
}

#[test]
fn prtt_03_the_window_is_half_a_bdp_but_four_segments() {
    for (rate, cwnd) in [(1_250_000, 25_000), (RATE, 20_000), (240_000, 4_800), (150_000, 4_800)] {
        let mut f = due(Mode::ProbeBwUp);
        (f.s.max_bw_0, f.s.max_bw_1, f.s.max_bw, f.s.bw) = (0, bw(rate), bw(rate), bw(rate));
        f.c.cwnd = 80_000;
        f.more(rate);
        assert_eq!(f.s.state, Mode::ProbeRtt);
        assert!(f.c.cwnd.abs_diff(cwnd) <= 1, "{} {cwnd}", f.c.cwnd);
    }
}

#[test]
fn prtt_04_the_clock_starts_when_inflight_has_fallen_to_that_window() {
    // At 150 kB/s half a BDP is 3000 bytes, but the window has 4800: inflight cannot fall below.
    for (rate, window) in [(RATE, 20_000), (150_000, 4_800)] {
        let mut f = due(Mode::ProbeBwUp);
        (f.s.max_bw_0, f.s.max_bw_1, f.s.max_bw, f.s.bw) = (0, bw(rate), bw(rate), bw(rate));
        for inflight in [window + 5_000, window + 2] {
            f.c.inflight = inflight;
            f.ack(rate);
            assert_eq!((f.s.state, f.s.probe_rtt_done_stamp), (Mode::ProbeRtt, 0));
        }
        f.c.inflight = window;
        f.ack(rate);
        assert_eq!(f.s.probe_rtt_done_stamp, f.c.now_us + 200_000);
        assert_eq!(f.s.next_round_delivered, f.c.delivered);
        leave(&mut f);
        assert_eq!(f.s.state, Mode::ProbeBwCruise);
    }
}

#[test]
fn prtt_05_it_ends_after_200_ms_and_a_round() {
    for (rtt_us, lasts_us) in [(10_000, 210_000), (100_000, 300_000), (400_000, 400_000)] {
        let mut f = low();
        f.rtt_us = rtt_us;
        let start_us = f.c.now_us;
        leave(&mut f);
        assert_eq!(f.c.now_us - start_us, lasts_us, "RTT {rtt_us}");
    }
    // Strictly after 200 ms, on any ACK.
    for (after_us, is_over) in [(200_000, false), (200_001, true)] {
        let mut f = low();
        let start_us = f.c.now_us;
        f.ack(RATE);
        assert_eq!((f.s.probe_rtt_round_done, f.s.state), (true, Mode::ProbeRtt));
        f.c.now_us = start_us + after_us - 1_000;
        f.more(RATE);
        assert_eq!(f.s.state != Mode::ProbeRtt, is_over, "{after_us}");
    }
    // Not without a round.
    let mut f = low();
    f.c.now_us += 300_000;
    f.more(RATE);
    assert_eq!((f.s.state, f.s.probe_rtt_round_done), (Mode::ProbeRtt, false));
}

#[test]
fn prtt_06_its_end_restarts_the_interval_and_restores_the_window() {
    let mut f = low();
    f.s.prior_cwnd = 75_000;
    leave(&mut f);
    assert_eq!((f.s.probe_rtt_min_stamp, f.c.cwnd), (f.c.now_us, 75_000 + MSS));
    let end_us = f.c.now_us;
    f.c.now_us = end_us + 5_000_000 - 1_000;
    f.more(RATE);
    assert_ne!(f.s.state, Mode::ProbeRtt);
    f.more(RATE);
    assert_eq!((f.s.state, f.c.now_us), (Mode::ProbeRtt, end_us + 5_001_000));
}

#[test]
fn prtt_07_it_leads_to_cruise_or_back_to_startup() {
    let mut f = low();
    (f.s.bw_shortterm, f.s.inflight_shortterm, f.c.rand) = (bw(RATE), 50_000, u64::from(u32::MAX));
    leave(&mut f);
    assert_eq!((f.s.state, f.s.cycle_stamp), (Mode::ProbeBwCruise, f.c.now_us));
    assert_eq!((f.s.ack_phase, f.s.next_round_delivered), (AckPhase::ProbeStopping, f.c.delivered));
    assert_eq!((f.s.rounds_since_probe_up, f.s.bw_probe_wait_us), (1, 2_999_999));
    assert_eq!((f.s.bw_shortterm, f.s.inflight_shortterm), (BBR3_INFINITY, BBR3_INFINITY));
    let mut f = low();
    (f.s.full_bw_reached, f.s.bw_shortterm) = (false, bw(RATE));
    leave(&mut f);
    assert_eq!((f.s.state, f.s.bw_shortterm), (Mode::Startup, BBR3_INFINITY));
    assert_near(f.s.pacing_gain, GAIN_UNIT * 277 / 100, 1);
    assert_eq!(f.s.cwnd_gain, 2 * GAIN_UNIT);
}

#[test]
fn prtt_08_a_minimum_seen_while_quiet_postpones_it() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    let first_us = f.s.probe_rtt_min_stamp;
    f.c.now_us = first_us + 4_900_000 - 1_000;
    f.more_with(RATE, |a| a.rs_rtt_us = RTT_US - 1);
    f.c.now_us = first_us + 9_900_000 - 1_000;
    f.more(RATE);
    assert_ne!(f.s.state, Mode::ProbeRtt);
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeRtt, "5.001 s after the minimum");
    // A restart from idle looks at the RTT by itself: the interval begins anew with its first sample.
    let mut f = due(Mode::ProbeBwCruise);
    (f.c.inflight, f.c.is_app_limited) = (0, true);
    f.tell(Event::TxStart);
    f.ack_with(RATE, |a| a.rs_rtt_us = 50_000);
    assert_ne!(f.s.state, Mode::ProbeRtt);
    assert_eq!((f.s.probe_rtt_min_delay_us, f.s.probe_rtt_min_stamp), (50_000, f.c.now_us));
}

#[test]
fn prtt_09_the_flag_of_idleness_ends_with_the_first_delivery() {
    let mut f = due(Mode::ProbeBwCruise);
    (f.c.inflight, f.c.is_app_limited) = (0, true);
    f.tell(Event::TxStart);
    f.more_with(RATE, |a| (a.newly_acked, a.rs_delivered) = (0, 0));
    assert!(f.s.idle_restart);
    f.more(RATE);
    assert!(!f.s.idle_restart);
    assert_ne!(f.s.state, Mode::ProbeRtt, "looked at before the flag fell");
}

#[test]
fn prtt_10_it_costs_two_per_cent() {
    let w = Whole::bulk("20mbit 40ms queue=1bdp", 60);
    let visits = w.changes().filter(|(_, b)| b.s.state == Mode::ProbeRtt).map(|(_, b)| b.ack.now_us);
    let visits: Vec<u64> = visits.collect();
    assert!((10..=12).contains(&visits.len()), "{}", w.story());
    // What is more than 400 ms behind the start of a visit is as if there were none.
    let is_undisturbed = |t_us: u64| !visits.iter().any(|at| (*at..at + 400_000).contains(&(t_us + 10_000)));
    let late = || w.run.flows[0].bins.iter().filter(|b| b.t_us >= 2 * SECOND_US);
    let (bytes, bins) = late().fold((0, 0), |sum, b| (sum.0 + b.delivered_bytes, sum.1 + 1));
    let undisturbed = late().filter(|b| is_undisturbed(b.t_us));
    let (clean_bytes, clean_bins) = undisturbed.fold((0, 0), |sum, b| (sum.0 + b.delivered_bytes, sum.1 + 1));
    let (all, clean) = (bytes / bins, clean_bytes / clean_bins);
    assert!(bins - clean_bins >= 400 && all < clean, "{bins} {clean_bins}");
    assert!(all * 100 >= 97 * clean, "{all} of {clean}");
}

#[test]
fn prtt_11_headroom_and_the_short_term_bound_cap_it_too() {
    for (longterm, shortterm, cwnd) in [
        (BBR3_INFINITY, BBR3_INFINITY, 20_000),
        (10_000, BBR3_INFINITY, 8_500),
        (BBR3_INFINITY, 6_000, 6_000),
        (10_000, 6_000, 6_000),
        (10_000, 100, 4 * MSS),
    ] {
        let mut f = Flow::at(Mode::ProbeRtt);
        (f.s.inflight_longterm, f.s.inflight_shortterm, f.c.cwnd) = (longterm, shortterm, 80_000);
        f.more_with(RATE, |a| a.rs_tx_in_flight = 0);
        assert_eq!(f.c.cwnd, cwnd);
    }
}

#[test]
fn prtt_12_its_samples_neither_lower_nor_age_the_bandwidth() {
    let mut f = Flow::at(Mode::ProbeRtt);
    let before = (f.s.max_bw, f.s.max_bw_0, f.s.max_bw_1, f.s.cycle_count);
    for round in 0..20 {
        let control = f.ack_with(RATE / 3, |a| a.rs_is_app_limited = round > 0);
        assert_eq!((f.s.state, control.mark_app_limited), (Mode::ProbeRtt, true));
        assert_eq!((f.s.max_bw, f.s.max_bw_0, f.s.max_bw_1, f.s.cycle_count), before);
    }
}
