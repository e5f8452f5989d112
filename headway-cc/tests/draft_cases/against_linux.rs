//! LNX: where Google's Linux v3 does otherwise, one point each that tells on which side we are.

use crate::SPEC;
use crate::driver::{BDP, Flow, MSS, RATE, RTT_US, assert_near, bw, rate_of};
use headway_cc::cc::bbr3::*;
use headway_cc::cc::fixed::GAIN_UNIT;
use headway_cc::cc::{CaState, Event, NO_RTT};

/// A probe that its plateau is near to end, in a window of 90,000.
fn up() -> Flow {
    let mut f = Flow::at(Mode::ProbeBwUp);
    (f.c.inflight, f.c.cwnd) = (50_000, 90_000);
    f
}

/// Startup in recovery at 4 MB/s with 500,000 bytes in flight, before any loss is told.
fn startup_in_recovery() -> Flow {
    let mut f = Flow::at(Mode::Startup);
    f.c.inflight = 500_000;
    for round in 0..2 {
        f.ack(RATE << round);
    }
    f.tell(Event::Ssthresh);
    f.c.ca_state = CaState::Recovery;
    f
}

/// Seven lost ranges and the ACK that ends their round.
fn lossy_round(f: &mut Flow, rate: u64) {
    (1..=7).for_each(|n| f.lose(n * MSS, 300_000));
    f.ack_with(rate, |a| a.rs_lost = 15_000);
}

#[test]
fn lnx_01_drain_paces_at_500_not_at_344_thousandths() {
    assert_near(Flow::at(Mode::Drain).c.pacing_rate, 495_000, 1);
}

#[test]
fn lnx_02_drain_ends_by_what_is_in_flight_now_or_by_rounds() {
    let mut f = Flow::at(Mode::Drain);
    (f.c.inflight, f.c.edt_us) = (BDP + 5_000, 20_000);
    f.more(RATE);
    assert_eq!(f.s.state, Mode::Drain, "20 ms of pacing ahead would be 9900 bytes less");
    for _ in 0..4 {
        f.ack(RATE);
    }
    assert_ne!(f.s.state, Mode::Drain);
}

#[test]
fn lnx_03_down_paces_at_900_not_at_906_thousandths() {
    assert_near(Flow::at(Mode::ProbeBwDown).c.pacing_rate, 891_000, 1);
}

#[test]
fn lnx_04_thresholds_are_exact() {
    // 1.96 % is above Linux's 5/256, 0.7 below its 180/256, 15 % above its 38/256.
    let mut f = up();
    f.lose(2_352, 120_000);
    assert_eq!(f.s.state, Mode::ProbeBwUp);
    f.c.cwnd = 200_000;
    (f.s.max_bw, f.s.bw) = (bw(10 * RATE), bw(10 * RATE));
    f.lose(3_000, 120_000);
    assert_eq!(f.s.inflight_longterm, 140_000, "seven tenths of the window");
    let mut f = Flow::at(Mode::ProbeBwCruise);
    (f.s.max_bw, f.s.max_bw_0, f.s.bw) = (bw(10 * RATE), bw(10 * RATE), bw(10 * RATE));
    (f.s.inflight_longterm, f.c.cwnd) = (100_000, 300_000);
    f.more(RATE);
    assert_eq!(f.c.cwnd, 85_000);
    assert_near(Bbr3Params::default().startup_pacing_gain * 1_000, 2_770 * GAIN_UNIT, 1);
}

#[test]
fn lnx_05_the_bdp_is_rounded_up() {
    // 3.2 packets over 40 ms: a window of 2 * 3.2, rounded up.
    let mut f = Flow::init(Bbr3Params::default(), |a| (a.unit_bytes, a.smss, a.cwnd) = (1_200, 1, 100));
    (f.s.full_bw_reached, f.s.state, f.c.inflight) = (true, Mode::ProbeBwCruise, 50);
    (f.s.cwnd_gain, f.s.max_bw_0, f.s.max_bw, f.s.bw) = (2 * GAIN_UNIT, bw(80), bw(80), bw(80));
    f.s.extra_acked_interval_start = 0;
    f.more_with(80, |a| a.newly_acked = 1);
    assert_eq!(f.c.cwnd, 7 + f.s.extra_acked);
}

#[test]
fn lnx_06_growth_is_seen_at_round_starts_only() {
    let mut f = Flow::at(Mode::Startup);
    f.ack(RATE);
    f.more(3 * RATE);
    assert_eq!((f.s.full_bw, f.s.full_bw_count, f.s.max_bw), (bw(RATE), 0, bw(3 * RATE)));
    f.ack(RATE);
    assert_eq!(f.s.full_bw_count, 1);
}

#[test]
fn lnx_07_the_loss_exit_needs_a_full_round_in_recovery() {
    let mut f = startup_in_recovery();
    (1..=7).for_each(|n| f.lose(n * MSS, 300_000));
    f.ack_with(4 * RATE, |a| a.rs_lost = 15_000);
    assert_eq!((f.s.loss_round_start, f.s.full_bw_reached), (true, false), "recovery begins with this ACK");
    lossy_round(&mut f, 8 * RATE);
    assert_eq!((f.s.loss_round_start, f.s.full_bw_reached), (true, true));
}

#[test]
fn lnx_08_the_bound_of_the_loss_exit_is_a_bdp_without_rounding_up_to_bursts() {
    let mut f = startup_in_recovery();
    (f.s.max_bw, f.s.max_bw_0, f.s.max_bw_1, f.s.inflight_latest) = (0, 0, 0, 0);
    (f.s.min_rtt_us, f.s.probe_rtt_min_delay_us) = (100, 100);
    f.ack_with(RATE, |a| a.rs_delivered = 40);
    lossy_round(&mut f, 1_000);
    // 100 µs of 1 kB/s is a byte; four segments would be 4800.
    assert_eq!((f.s.full_bw_reached, f.s.inflight_longterm), (true, 40));
}

#[test]
fn lnx_09_the_ack_s_own_sample_ends_a_probe_as_in_linux() {
    let mut f = up();
    f.more_with(RATE, |a| a.rs_lost = 1_001);
    assert_eq!((f.s.state, f.s.prev_probe_too_high), (Mode::ProbeBwDown, true));
}

#[test]
fn lnx_10_phases_look_at_what_is_in_flight_after_the_ack() {
    let mut f = Flow::at(Mode::ProbeBwDown);
    (f.c.inflight, f.c.edt_us) = (BDP + 2, 30_000);
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwDown, "not at departure");
    f.more_with(RATE, |a| (a.inflight, a.prior_inflight) = (BDP, BDP + 20_000));
    assert_eq!(f.s.state, Mode::ProbeBwCruise, "not before the ACK");
}

#[test]
fn lnx_11_cruise_does_not_clamp_the_short_term_bound() {
    let mut f = Flow::at(Mode::ProbeBwDown);
    (f.s.inflight_longterm, f.s.inflight_shortterm) = (50_000, 70_000);
    f.c.inflight = 20_000;
    f.more_with(RATE, |a| a.rs_tx_in_flight = 0);
    assert_eq!((f.s.state, f.s.inflight_shortterm), (Mode::ProbeBwCruise, 70_000));
}

#[test]
fn lnx_12_up_does_not_restart_the_clock_of_the_cycle() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    let stamp = f.s.cycle_stamp;
    f.go(Mode::ProbeBwUp);
    assert_eq!(f.s.cycle_stamp, stamp);
}

#[test]
fn lnx_13_an_equal_rtt_refreshes_nothing_and_a_delayed_ack_counts_when_due() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    let stamp = f.s.probe_rtt_min_stamp;
    f.ack_with(RATE, |a| a.rs_rtt_us = RTT_US);
    assert_eq!(f.s.probe_rtt_min_stamp, stamp);
    f.c.now_us = stamp + 5_000_001;
    f.s.idle_restart = true;
    f.more_with(RATE, |a| (a.rs_rtt_us, a.rs_is_ack_delayed) = (90_000, true));
    assert_eq!((f.s.probe_rtt_min_delay_us, f.s.probe_rtt_min_stamp), (90_000, f.c.now_us));
}

#[test]
fn lnx_14_extra_acked_data_is_capped_by_the_window_alone() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    (f.s.extra_acked_interval_start, f.s.extra_acked_delivered, f.c.cwnd) = (f.c.now_us, 0, 300_000);
    f.more_with(RATE, |a| a.newly_acked = 200_000);
    assert_eq!(f.s.extra_acked, 200_000, "100 ms of the rate would be 100,000");
}

#[test]
fn lnx_15_startup_grows_beyond_the_target_for_the_initial_window_only() {
    // The target is 8000 bytes and what aggregation adds; twice the initial window 24,000.
    let mut f = Flow::at(Mode::Startup);
    (f.c.delivered, f.s.max_bw_1, f.s.max_bw, f.s.bw) = (100_000, bw(100_000), bw(100_000), bw(100_000));
    (f.s.next_round_delivered, f.c.cwnd) = (u64::MAX, 20_000);
    f.more(100_000);
    assert_eq!(f.c.cwnd, 20_000);
}

#[test]
fn lnx_16_the_window_gain_of_probe_rtt_is_in_the_table() {
    assert_eq!(Flow::at(Mode::ProbeRtt).s.cwnd_gain, GAIN_UNIT / 2);
}

#[test]
fn lnx_17_an_undo_returns_to_the_state_that_was_left() {
    let mut f = startup_in_recovery();
    f.ack(4 * RATE);
    lossy_round(&mut f, 8 * RATE);
    assert_ne!(f.s.state, Mode::Startup);
    f.tell(Event::Undo);
    assert_eq!((f.s.state, f.s.full_bw_reached), (Mode::Startup, false));
    let mut f = up();
    f.lose(3 * MSS, 60_000);
    f.tell(Event::Undo);
    assert_eq!(f.s.state, Mode::ProbeBwRefill);
}

#[test]
fn lnx_18_the_window_comes_back_after_fast_recovery_too() {
    for ca_state in [CaState::Recovery, CaState::Loss] {
        let mut f = Flow::at(Mode::ProbeBwCruise);
        f.c.cwnd = 70_000;
        f.tell(Event::Ssthresh);
        f.c.ca_state = ca_state;
        f.c.cwnd = 10_000;
        f.more(RATE);
        f.c.ca_state = CaState::Open;
        f.more(RATE);
        assert_eq!(f.c.cwnd, 70_000 + MSS);
    }
}

#[test]
fn lnx_19_a_timeout_changes_the_window_and_no_more_of_the_model() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    (f.s.full_bw, f.s.full_bw_count) = (bw(RATE), 2);
    f.tell(Event::Loss);
    assert_eq!((f.s.full_bw, f.s.full_bw_count), (bw(RATE), 2));
    assert_eq!((f.s.inflight_shortterm, f.c.cwnd), (BBR3_INFINITY, f.c.inflight + MSS));
}

#[test]
fn lnx_20_the_first_rtt_sets_the_rate_as_in_linux() {
    let mut f = Flow::init(Bbr3Params::default(), |a| (a.srtt_us, a.min_rtt_us) = (0, NO_RTT));
    f.c.srtt_us = 40_000;
    f.ack(0);
    assert_near(f.c.pacing_rate, 831_000, 1);
}

#[test]
fn lnx_21_the_counter_of_rounds_has_no_end() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    let start = f.s.round_count;
    for _ in 0..300 {
        f.ack(0);
    }
    assert_eq!(f.s.round_count, start + 300);
}

#[test]
fn lnx_22_the_target_of_coexistence_is_the_plain_bdp() {
    // Two segments, not the four of the least window.
    let mut f = Flow::at(Mode::ProbeBwCruise);
    (f.s.max_bw_0, f.s.max_bw_1, f.s.max_bw, f.s.bw) = (0, bw(60_000), bw(60_000), bw(60_000));
    f.s.rounds_since_probe_up = 0;
    f.ack(50_000);
    assert_eq!(f.s.state, Mode::ProbeBwCruise);
    f.ack(50_000);
    assert_eq!(f.s.state, Mode::ProbeBwRefill);
}

#[test]
fn lnx_23_the_answer_to_marks_has_the_constants_of_linux_and_is_off() {
    let p = Bbr3Params::default();
    assert_eq!((p.ecn, p.ecn_max_rtt_us, p.startup_full_ecn_count), (false, 5_000, 2));
    assert_eq!(
        (p.ecn_alpha_gain, p.ecn_alpha_init, p.ecn_thresh),
        (GAIN_UNIT / 16, GAIN_UNIT, GAIN_UNIT / 2)
    );
    assert_near(p.ecn_factor * 3, GAIN_UNIT, 1);
}

#[test]
fn lnx_24_a_repaired_tail_is_no_reason_to_end_a_probe() {
    let mut f = up();
    f.tell(Event::Ssthresh);
    f.more(RATE);
    assert_eq!(
        (f.s.state, f.s.inflight_longterm, f.s.is_loss_in_round),
        (Mode::ProbeBwUp, BBR3_INFINITY, false)
    );
}

#[test]
fn lnx_26_no_ack_that_delivers_data_is_skipped() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    let rounds = f.s.round_count;
    f.ack_with(RATE / 10, |a| a.rs_is_app_limited = true);
    assert_eq!((f.s.round_count, f.s.bw_latest), (rounds + 1, bw(RATE / 10)));
}

#[test]
fn lnx_27_the_quantum_knows_nothing_of_the_rtt() {
    for min_rtt_us in [100, RTT_US] {
        let mut f = Flow::new();
        (f.s.min_rtt_us, f.s.probe_rtt_min_delay_us, f.c.pacing_rate) = (min_rtt_us, min_rtt_us, 12_500_000);
        assert_eq!(f.ack(0).send_quantum, 12_500);
    }
}

#[test]
fn lnx_28_an_empty_cycle_keeps_the_old_maximum_as_in_linux() {
    let mut f = Flow::at(Mode::ProbeBwDown);
    f.c.inflight = 50_000;
    (f.s.max_bw_0, f.s.max_bw_1) = (bw(RATE), 0);
    f.s.ack_phase = AckPhase::ProbeStopping;
    f.ack(0);
    assert_eq!((f.s.max_bw_0, f.s.max_bw_1, rate_of(f.s.max_bw)), (bw(RATE), 0, RATE));
}

#[test]
fn lnx_29_drain_keeps_the_signals_of_its_loss_round_and_down_resets_them() {
    let mut f = Flow::at(Mode::Startup);
    f.c.inflight = 2 * BDP;
    for _ in 0..3 {
        f.ack(RATE);
    }
    (f.s.loss_round_delivered, f.s.bw_latest, f.s.is_loss_in_round) = (u64::MAX, bw(3 * RATE), true);
    f.ack(RATE);
    assert_eq!((f.s.state, f.s.bw_latest, f.s.is_loss_in_round), (Mode::Drain, bw(3 * RATE), true));
    f.c.inflight = BDP;
    f.more(RATE);
    assert_eq!((f.s.state, f.s.bw_latest, f.s.is_loss_in_round), (Mode::ProbeBwCruise, 0, false));
}

#[test]
fn lnx_30_what_linux_reports_is_in_the_state() {
    for field in
        ["state", "bw", "min_rtt_us", "pacing_gain", "cwnd_gain", "bw_shortterm", "inflight_longterm"]
    {
        assert!(Bbr3State::FIELDS.contains(&field), "{field}");
    }
    assert!(SPEC.contains("ACK trace"));
}

#[test]
fn lnx_31_without_selective_acks_any_loss_is_too_much() {
    for (has_selective_acks, state) in [(true, Mode::ProbeBwUp), (false, Mode::ProbeBwDown)] {
        let mut f = up();
        f.c.has_selective_acks = has_selective_acks;
        f.lose(100, 60_000);
        assert_eq!(f.s.state, state);
    }
}

#[test]
fn lnx_32_idleness_sets_the_rate_in_probe_bw_only() {
    for (state, rate) in [(Mode::Drain, 495_000), (Mode::ProbeBwUp, 990_000)] {
        let mut f = Flow::at(state);
        (f.c.inflight, f.c.is_app_limited) = (0, true);
        f.tell(Event::TxStart);
        assert_near(f.c.pacing_rate, rate, 1);
    }
}

#[test]
fn lnx_33_the_first_loss_round_ends_a_flight_later() {
    let mut f = Flow::new();
    assert_eq!(f.s.loss_round_delivered, 1);
    f.ack(RATE);
    assert!(!f.s.loss_round_start);
    f.ack(RATE);
    assert!(f.s.loss_round_start);
}

#[test]
fn lnx_34_each_down_draws_a_wait_of_two_to_three_seconds() {
    for (rand, wait_us, rounds) in [(0, 2_000_000, 0), (u64::from(u32::MAX), 2_999_999, 1)] {
        let mut f = up();
        f.c.rand = rand;
        f.lose(3 * MSS, 60_000);
        assert_eq!((f.s.bw_probe_wait_us, f.s.rounds_since_probe_up), (wait_us, rounds));
    }
}
