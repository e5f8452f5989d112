//! INIT: the state at the start (§5.2.1).

use super::driver::*;
use headway_cc::cc::NO_RTT;
use headway_cc::cc::bbr3::*;
use headway_cc::cc::fixed::GAIN_UNIT;

/// A flow whose handshake measured no RTT.
fn without_rtt() -> Flow {
    Flow::init(Bbr3Params::default(), |c| (c.srtt_us, c.min_rtt_us) = (0, NO_RTT))
}

#[test]
fn init_01_begins_in_startup() {
    let s = Flow::new().s;
    let hundredths = |gain: u64| (gain * 100 + GAIN_UNIT / 2) / GAIN_UNIT;
    assert_eq!((s.state, hundredths(s.pacing_gain), hundredths(s.cwnd_gain)), (Mode::Startup, 277, 200));
}

#[test]
fn init_02_no_bandwidth_and_the_handshake_s_rtt() {
    let (with, without) = (Flow::new().s, without_rtt().s);
    assert_eq!((with.max_bw, with.bw, with.max_bw_0, with.max_bw_1), (0, 0, 0, 0));
    assert_eq!((with.min_rtt_us, with.min_rtt_stamp), (40_000, START_US));
    assert_eq!((without.min_rtt_us, without.min_rtt_stamp), (NO_RTT, START_US));
}

#[test]
fn init_03_no_bound_is_set() {
    let s = Flow::new().s;
    assert_eq!([s.inflight_longterm, s.inflight_shortterm, s.bw_shortterm], [BBR3_INFINITY; 3]);
}

#[test]
fn init_04_no_flag_is_set() {
    let s = Flow::new().s;
    assert_eq!(s.ack_phase, AckPhase::Init);
    assert_eq!([s.is_bw_probe_sample, s.prev_probe_too_high, s.prev_probe_precautionary], [false; 3]);
    assert_eq!([s.full_bw_reached, s.full_bw_now, s.idle_restart], [false; 3]);
    assert_eq!([s.is_loss_in_round, s.probe_rtt_round_done], [false; 2]);
}

#[test]
fn init_05_counters_and_stamps_begin_at_zero() {
    let s = Flow::new().s;
    assert_eq!([s.round_count, s.full_bw, s.full_bw_count, s.bw_probe_up_rounds], [0; 4]);
    assert_eq!([s.bw_probe_up_acked, s.rounds_since_probe_up, s.bw_latest, s.inflight_latest], [0; 4]);
    assert_eq!([s.extra_acked_delivered, s.prior_cwnd, s.probe_rtt_done_stamp], [0; 3]);
    assert_eq!([s.cycle_stamp, s.bw_probe_wait_us], [0; 2]);
    assert_eq!(s.probe_up_acked_per_inc, BBR3_INFINITY);
    assert_eq!(s.extra_acked_interval_start, START_US);
}

#[test]
fn init_06_the_first_ack_does_not_enter_probe_rtt() {
    for mut f in [Flow::new(), without_rtt()] {
        for at_us in [50_000, 4_900_000] {
            f.c.now_us = START_US + at_us - RTT_US;
            f.ack(RATE);
            assert_eq!(f.s.state, Mode::Startup, "after {at_us} us");
        }
    }
    let mut late = Flow::new();
    late.c.now_us = START_US + 4_900_000;
    late.ack(RATE);
    assert_eq!(late.s.state, Mode::Startup, "also when it comes late");
}

#[test]
fn init_07_first_pacing_rate() {
    assert_near(Flow::new().c.pacing_rate, 831_000, 1);
    assert_near(without_rtt().c.pacing_rate, 33_240_000, 1);
}

#[test]
fn init_08_the_initial_window_is_the_transport_s() {
    for (mss, window) in [(1_200, 12_000), (536, 5_360), (1_460, 14_600), (8_960, 17_920)] {
        let mut f = Flow::init(Bbr3Params::default(), |c| (c.smss, c.cwnd) = (mss, window));
        assert_eq!((f.c.cwnd, f.s.init_cwnd), (window, window));
        assert_eq!(f.ack(RATE).cwnd, (window + mss).max(4 * mss), "and grows from there");
    }
}

#[test]
fn init_09_the_first_rtt_replaces_the_nominal_one() {
    let mut f = without_rtt();
    f.c.srtt_us = 100_000;
    let invalid_sample = f.ack_with(0, |a| (a.rs_is_app_limited, a.rs_rtt_us) = (true, 100_000));
    assert_near(invalid_sample.pacing_rate, 332_400, 1);
    f.c.srtt_us = 200_000;
    assert_near(f.ack_with(0, |a| a.rs_is_app_limited = true).pacing_rate, 332_400, 1);
}

#[test]
fn init_10_the_first_loss_round_is_a_whole_flight() {
    let mut f = Flow::new();
    f.ack_with(RATE, |a| a.rs_prior_delivered = 0);
    assert!(!f.s.loss_round_start);
    f.ack_with(RATE, |a| a.rs_prior_delivered = 0);
    assert!(!f.s.loss_round_start, "the same flight");
    f.ack(RATE);
    assert!(f.s.loss_round_start);
}
