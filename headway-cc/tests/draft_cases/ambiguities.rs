//! AMB: where the draft is silent or contradicts itself, the decision of docs/reference/draft.md at one telling point each.

use crate::driver::{BDP, Flow, MSS, RATE, START_US, assert_near, bw, rate_of};
use headway_cc::cc::bbr3::*;
use headway_cc::cc::fixed::GAIN_UNIT;
use headway_cc::cc::{Ack, CaState, Event, NO_RTT};
use headway_cc::sampler::Sampler;

/// Startup at 1, 2, 4, 8 MB/s, the last two rounds in `ca_state`, with so many lost segments, so many of them the
/// first of a range, and a last sample with 3 % of loss.
fn lossy_startup(ca_state: CaState, lost: u64, ranges: u64) -> Flow {
    let mut f = Flow::at(Mode::Startup);
    f.c.inflight = 500_000;
    for round in 0..2 {
        f.ack(RATE << round);
    }
    f.tell(Event::Ssthresh);
    f.c.ca_state = ca_state;
    f.ack(4 * RATE);
    for n in 1..=lost {
        f.lose_with(n * MSS, 500_000, |a| a.rs_starts_lost_range = n <= ranges);
    }
    f.ack_with(8 * RATE, |a| a.rs_lost = 15_000);
    f
}

#[test]
fn amb_01_drain_s_gain_is_half_and_a_parameter() {
    let mut f =
        Flow::init(Bbr3Params { drain_pacing_gain: GAIN_UNIT * 35 / 100, ..Bbr3Params::default() }, |_| {});
    f.go(Mode::Drain);
    assert_near(f.c.pacing_rate, 346_500, 1);
    assert_near(Flow::at(Mode::Drain).c.pacing_rate, 495_000, 1);
}

#[test]
fn amb_02_rounds_are_compared_with_packets() {
    // 12,000 bytes are ten segments.
    let mut f = Flow::at(Mode::ProbeBwCruise);
    (f.s.max_bw_0, f.s.max_bw_1, f.s.max_bw, f.s.bw) = (0, bw(300_000), bw(300_000), bw(300_000));
    (f.s.rounds_since_probe_up, f.c.inflight) = (0, 5_000);
    for round in 1..10 {
        f.ack(290_000);
        assert_eq!((f.s.state, f.s.rounds_since_probe_up), (Mode::ProbeBwCruise, round));
    }
    f.ack(290_000);
    assert_eq!(f.s.state, Mode::ProbeBwRefill);
}

#[test]
fn amb_03_a_timeout_leaves_a_segment_more_than_is_in_flight() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.c.inflight = 7_000;
    f.tell(Event::Loss);
    assert_eq!(f.c.cwnd, 7_000 + MSS);
}

#[test]
fn amb_04_the_newest_packet_fills_in_flight_and_lost() {
    let mut s = Sampler::default();
    let sent: Vec<_> = (0..4).map(|n| s.on_sent(n * 10, 1_200)).collect();
    s.begin();
    s.on_lost(sent[0].bytes);
    s.on_delivered(40_000, &sent[3], true);
    s.on_delivered(40_000, &sent[1], true);
    let mut ack = Ack::default();
    s.fill(&mut ack, NO_RTT);
    assert_eq!((ack.rs_tx_in_flight, ack.rs_lost), (4_800, 1_200));
    assert_eq!((ack.newly_acked, ack.newly_lost), (2_400, 1_200));
}

#[test]
fn amb_05_without_data_nothing_happens_and_without_a_rate_nothing_is_compared() {
    let mut f = Flow::at(Mode::Startup);
    f.ack(RATE);
    let (before, cwnd) = (f.s, f.c.cwnd);
    f.ack_with(RATE, |a| (a.newly_acked, a.delivered) = (0, a.delivered - MSS));
    assert_eq!((f.s, f.c.cwnd), (before, cwnd));
    for _ in 0..5 {
        f.ack(0);
    }
    assert_eq!((f.s.full_bw, f.s.full_bw_count, f.s.max_bw), (bw(RATE), 0, bw(RATE)));
}

#[test]
fn amb_06_what_the_draft_leaves_uninitialised() {
    let s = Flow::init(Bbr3Params::default(), |a| a.delivered = 500).s;
    assert_eq!(
        (s.probe_rtt_min_delay_us, s.probe_rtt_min_stamp, s.probe_rtt_expired),
        (NO_RTT, START_US, false)
    );
    assert_eq!((s.loss_round_delivered, s.next_round_delivered), (501, 500));
    assert_eq!((s.max_bw, s.max_bw_0, s.max_bw_1, s.bw, s.cycle_count), (0, 0, 0, 0, 0));
    assert_eq!((s.extra_acked, s.drain_start_round, s.prior_cwnd, s.undo_state), (0, 0, 0, Mode::None));
    assert_eq!(s.send_quantum, 2 * MSS, "of the initial rate");
}

#[test]
fn amb_07_state_is_saved_once_a_recovery_before_the_first_reaction() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    (f.s.inflight_longterm, f.c.inflight) = (90_000, 50_000);
    f.lose(3 * MSS, 60_000);
    f.tell(Event::Ssthresh);
    assert_eq!((f.s.undo_inflight_longterm, f.s.undo_state), (90_000, Mode::ProbeBwUp));
    f.c.ca_state = CaState::Recovery;
    f.ack_with(RATE, |a| a.newly_lost = MSS);
    f.lose(3 * MSS, 60_000);
    assert_eq!((f.s.undo_inflight_longterm, f.s.undo_state), (90_000, Mode::ProbeBwUp));
    // After the recovery the next one saves anew.
    f.c.ca_state = CaState::Open;
    f.ack(RATE);
    f.lose(3 * MSS, 60_000);
    assert_eq!((f.s.undo_inflight_longterm, f.s.undo_state), (f.s.inflight_longterm, Mode::None));
}

#[test]
fn amb_08_the_prefix_is_between_nothing_and_the_packet() {
    for (lost, tx, bound) in [(20 * MSS, 100 * MSS, 99 * MSS), (3 * MSS, 100 * MSS, 99 * MSS)] {
        let mut f = Flow::at(Mode::ProbeBwUp);
        f.lose(lost, tx);
        assert_eq!(f.s.inflight_longterm, bound);
    }
}

#[test]
fn amb_09_max_bw_ends_drain_and_down_and_bw_makes_the_window() {
    for from in [Mode::Drain, Mode::ProbeBwDown] {
        let mut f = Flow::at(from);
        (f.s.bw_shortterm, f.s.bw) = (bw(RATE / 2), bw(RATE / 2));
        f.c.inflight = BDP;
        f.more(RATE / 2);
        assert_eq!(f.s.state, Mode::ProbeBwCruise, "from {from:?}");
        f.c.cwnd = 200_000;
        f.more(RATE / 2);
        assert_eq!(f.c.cwnd, BDP + f.s.extra_acked, "2 * 500 kB/s * 40 ms");
    }
    let f = lossy_startup(CaState::Recovery, 13, 13);
    assert_eq!(f.s.inflight_longterm, 8 * BDP, "of max_bw");
}

#[test]
fn amb_10_the_long_term_bound_does_not_cap_drain() {
    let mut f = Flow::at(Mode::Drain);
    (f.s.inflight_longterm, f.c.cwnd) = (20_000, 79_000);
    f.more_with(RATE, |a| a.rs_tx_in_flight = 0);
    assert!(f.s.state == Mode::Drain && f.c.cwnd >= 79_000, "{}", f.c.cwnd);
}

#[test]
fn amb_11_probe_rtt_has_half_a_bdp() {
    let mut f = Flow::at(Mode::ProbeRtt);
    f.c.cwnd = 90_000;
    f.more(RATE);
    assert_eq!(f.c.cwnd, 20_000, "not 4 segments");
}

#[test]
fn amb_12_drain_has_three_whole_rounds() {
    let mut f = Flow::at(Mode::Drain);
    let start = f.s.round_count;
    f.c.inflight = 90_000;
    while f.s.state == Mode::Drain {
        f.ack(RATE);
    }
    assert_eq!(f.s.round_count, start + 4);
}

#[test]
fn amb_13_six_ranges_are_six_gaps_not_six_packets() {
    for (lost, ranges, is_over) in [(13, 6, true), (13, 5, false), (13, 1, false)] {
        assert_eq!(
            lossy_startup(CaState::Recovery, lost, ranges).s.full_bw_reached,
            is_over,
            "{ranges} ranges"
        );
    }
}

#[test]
fn amb_14_the_pseudocode_wins_over_the_test_cases() {
    let f = lossy_startup(CaState::Recovery, 13, 13);
    assert_eq!((f.s.full_bw_reached, f.s.full_bw_now), (true, false), "A.2 wants it set");
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.s.inflight_longterm = 100_000;
    f.lose_with(3 * MSS, 60_000, |a| a.rs_is_app_limited = true);
    assert_eq!(f.s.inflight_longterm, 100_000, "A.6 wants it changed");
}

#[test]
fn amb_15_two_cycles_are_two_slots() {
    // 1 MB/s was measured in the cycle that now ends, 0.4 MB/s in the next two.
    let mut f = Flow::at(Mode::ProbeBwDown);
    f.c.inflight = 50_000;
    (f.s.max_bw_0, f.s.max_bw_1) = (0, bw(RATE));
    let advance = |f: &mut Flow| {
        f.s.ack_phase = AckPhase::ProbeStopping;
        f.ack(400_000);
        f.more(400_000);
        rate_of(f.s.max_bw)
    };
    assert_eq!(advance(&mut f), RATE);
    assert_eq!(advance(&mut f), 400_000);
}

#[test]
fn amb_16_a_cycle_without_samples_pushes_nothing_out() {
    let mut f = Flow::at(Mode::ProbeBwDown);
    f.c.inflight = 50_000;
    for _ in 0..3 {
        f.s.ack_phase = AckPhase::ProbeStopping;
        f.ack(0);
    }
    assert_eq!((f.s.max_bw, f.s.bw), (bw(RATE), bw(RATE)));
}

#[test]
fn amb_17_a_state_has_its_gains_however_it_was_entered() {
    let gain = |hundredths: u64| (hundredths * GAIN_UNIT + 50) / 100;
    for (state, pacing, window) in [
        (Mode::Startup, 277, 200),
        (Mode::Drain, 50, 200),
        (Mode::ProbeBwDown, 90, 200),
        (Mode::ProbeBwCruise, 100, 200),
        (Mode::ProbeBwRefill, 100, 200),
        (Mode::ProbeBwUp, 125, 225),
        (Mode::ProbeRtt, 100, 50),
    ] {
        let f = Flow::at(state);
        assert_eq!((f.s.pacing_gain, f.s.cwnd_gain), (gain(pacing), gain(window)), "state {state:?}");
    }
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.c.inflight = 50_000;
    f.lose(3 * MSS, 60_000);
    assert_eq!((f.s.pacing_gain, f.s.cwnd_gain), (gain(90), gain(200)));
}

#[test]
fn amb_18_a_restart_is_paced_with_the_margin() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    (f.c.inflight, f.c.is_app_limited) = (0, true);
    f.tell(Event::TxStart);
    assert_near(f.c.pacing_rate, 990_000, 1);
}

#[test]
fn amb_19_the_first_rtt_replaces_the_nominal_one_once() {
    let mut f = Flow::init(Bbr3Params::default(), |a| (a.srtt_us, a.min_rtt_us) = (0, NO_RTT));
    assert_near(f.c.pacing_rate, 33_240_000, 1);
    f.c.srtt_us = 100_000;
    f.ack(0);
    assert_near(f.c.pacing_rate, 332_400, 1);
    f.c.srtt_us = 10_000;
    f.ack(0);
    assert_near(f.c.pacing_rate, 332_400, 1);
}

#[test]
fn amb_20_probe_rtt_saves_the_window_of_now() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    (f.s.prior_cwnd, f.c.cwnd, f.c.now_us) = (900_000, 60_000, f.s.probe_rtt_min_stamp + 5_000_001);
    f.more(RATE);
    assert_eq!((f.s.state, f.s.prior_cwnd), (Mode::ProbeRtt, 60_000));
}

#[test]
fn amb_21_persistent_congestion_is_a_timeout_and_a_probe_timeout_nothing() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    assert_eq!(Event::ALL.len(), 7, "there is no event for a probe timeout");
    f.c.inflight = 0;
    f.tell(Event::Loss);
    assert_eq!(f.c.cwnd, MSS);
}

#[test]
fn amb_22_a_restart_forgets_what_was_acked() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.s.extra_acked_delivered = 50_000;
    (f.c.inflight, f.c.is_app_limited) = (0, true);
    f.tell(Event::TxStart);
    assert_eq!((f.s.extra_acked_delivered, f.s.extra_acked_interval_start), (0, f.c.now_us));
}

#[test]
fn amb_23_an_ack_s_own_sample_ends_a_probe() {
    for (is_ack_judged, state) in [(true, Mode::ProbeBwDown), (false, Mode::ProbeBwUp)] {
        let mut f = Flow::at(Mode::ProbeBwUp);
        (f.p.is_ack_judged, f.c.inflight) = (is_ack_judged, 50_000);
        f.more_with(RATE, |a| a.rs_lost = 1_001);
        assert_eq!(f.s.state, state);
    }
    assert!(Bbr3Params::default().is_ack_judged);
}

#[test]
fn amb_24_a_round_is_measured_by_what_was_delivered_when_the_sample_was_sent() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    let (rounds, mark) = (f.s.round_count, f.s.next_round_delivered);
    f.more_with(RATE, |a| a.rs_prior_delivered = mark - 1);
    assert_eq!(f.s.round_count, rounds);
    f.more_with(RATE, |a| a.rs_prior_delivered = mark);
    assert_eq!(f.s.round_count, rounds + 1);
}

#[test]
fn amb_25_all_newly_acked_data_counts_whenever_it_was_sent() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    (f.s.extra_acked_interval_start, f.s.extra_acked_delivered, f.c.cwnd) = (f.c.now_us, 0, 90_000);
    f.more_with(RATE, |a| (a.newly_acked, a.rs_prior_delivered) = (30_000, 0));
    assert_eq!(f.s.extra_acked, 30_000);
}

#[test]
fn amb_26_the_open_questions_of_probe_rtt_are_parameters() {
    let p = Bbr3Params { probe_rtt_cwnd_gain: 0, probe_rtt_interval_us: 10_000_000, ..Bbr3Params::default() };
    let mut f = Flow::init(p, |_| {});
    f.go(Mode::ProbeBwUp);
    f.c.now_us = f.s.probe_rtt_min_stamp + 9_000_000;
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwUp);
    f.c.now_us += 1_000_000;
    f.more(RATE);
    assert_eq!((f.s.state, f.c.cwnd), (Mode::ProbeRtt, 4 * MSS));
}

#[test]
fn amb_27_drain_and_probe_rtt_end_a_cycle_of_the_filter_too() {
    for (is_app_limited, advances) in [(false, 1), (true, 0)] {
        for from in [Mode::Drain, Mode::ProbeRtt] {
            let mut f = Flow::at(from);
            let cycles = f.s.cycle_count;
            f.c.inflight = 4 * MSS;
            for _ in 0..12 {
                f.ack_with(RATE, |a| a.rs_is_app_limited = is_app_limited);
            }
            assert_eq!(
                (f.s.state, f.s.cycle_count - cycles),
                (Mode::ProbeBwCruise, advances),
                "from {from:?}"
            );
        }
    }
}

#[test]
fn amb_28_a_loss_of_before_the_probe_is_judged_with_it() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.lose_with(3 * MSS, 60_000, |a| a.rs_prior_delivered = 0);
    assert_eq!(f.s.state, Mode::ProbeBwDown);
}

#[test]
fn amb_29_fast_recovery_is_the_transport_s_recovery_state() {
    for (ca_state, is_over) in [(CaState::Recovery, true), (CaState::Open, false), (CaState::Loss, false)] {
        assert_eq!(lossy_startup(ca_state, 13, 13).s.full_bw_reached, is_over, "{ca_state:?}");
    }
}
