//! UNDO: spurious recoveries (§5.5.11).

use crate::driver::{Flow, MSS, RATE, bw, rate_of};
use headway_cc::cc::bbr3::*;
use headway_cc::cc::{CaState, Event};

/// The transport enters fast recovery.
fn recover(f: &mut Flow) {
    f.tell(Event::Ssthresh);
    f.c.ca_state = CaState::Recovery;
}

/// The transport sees that its recovery was needless.
fn undo(f: &mut Flow) {
    f.c.ca_state = CaState::Open;
    f.tell(Event::Undo);
}

/// Three rounds of Startup and the beginning of recovery, 2 BDP in flight.
fn startup_in_recovery() -> Flow {
    let mut f = Flow::at(Mode::Startup);
    f.c.inflight = 300_000;
    for round in 0..3 {
        f.ack(RATE << round);
    }
    recover(&mut f);
    f
}

/// Startup that seven lost ranges in a round of recovery have ended.
fn out_of_startup() -> Flow {
    let mut f = startup_in_recovery();
    f.ack(4 * RATE);
    (1..=7).for_each(|n| f.lose(n * MSS, 300_000));
    f.ack_with(4 * RATE, |a| (a.newly_lost, a.rs_lost) = (7 * MSS, 7 * MSS));
    assert_eq!((f.s.state, f.s.full_bw_reached, f.s.undo_state), (Mode::Drain, true, Mode::Startup));
    f
}

#[test]
fn undo_01_a_recovery_begins_by_saving_window_and_bounds() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    (f.s.bw_shortterm, f.s.inflight_shortterm, f.s.inflight_longterm) = (bw(900_000), 60_000, 70_000);
    (f.s.undo_state, f.c.cwnd) = (Mode::ProbeBwUp, 55_000);
    recover(&mut f);
    assert_eq!((f.s.prior_cwnd, f.s.undo_state), (55_000, Mode::None));
    assert_eq!((f.s.undo_bw_shortterm, f.s.undo_inflight_shortterm), (bw(900_000), 60_000));
    assert_eq!(f.s.undo_inflight_longterm, 70_000);
}

#[test]
fn undo_02_an_undo_brings_back_the_larger_of_now_and_then() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    (f.s.bw_shortterm, f.s.inflight_shortterm, f.s.inflight_longterm) = (bw(900_000), 60_000, 70_000);
    f.c.cwnd = 55_000;
    recover(&mut f);
    (f.s.bw_shortterm, f.s.inflight_shortterm, f.s.inflight_longterm) = (bw(500_000), 30_000, 75_000);
    (f.s.full_bw, f.s.full_bw_count, f.s.full_bw_now, f.s.is_loss_in_round) = (bw(RATE), 2, true, true);
    f.c.cwnd = 20_000;
    undo(&mut f);
    assert_eq!((f.c.cwnd, f.s.is_loss_in_round), (55_000, false));
    assert_eq!((f.s.full_bw, f.s.full_bw_count, f.s.full_bw_now), (0, 0, false));
    assert_eq!((rate_of(f.s.bw_shortterm), f.s.inflight_shortterm), (900_000, 60_000));
    assert_eq!((f.s.inflight_longterm, f.s.full_bw_reached), (75_000, true));
    assert_eq!(f.s.state, Mode::ProbeBwCruise);
}

#[test]
fn undo_02_the_host_s_bound_holds_for_the_window_that_comes_back() {
    for (clamp, cwnd) in [(30_000, 30_000), (54_999, 54_999), (u64::MAX, 55_000)] {
        let mut f = Flow::at(Mode::ProbeBwCruise);
        f.c.cwnd = 55_000;
        recover(&mut f);
        (f.c.cwnd, f.c.cwnd_clamp) = (20_000, clamp);
        undo(&mut f);
        assert_eq!(f.c.cwnd, cwnd);
    }
}

/// Six lost ranges in a round of recovery end Startup. Five that proved spurious and five later ones are not ten.
#[test]
fn undo_02_ranges_of_an_undone_recovery_do_not_count() {
    for is_undone in [true, false] {
        let mut f = startup_in_recovery();
        f.ack(8 * RATE);
        (1..=5).for_each(|n| f.lose(n * MSS, 300_000));
        if is_undone {
            undo(&mut f);
            recover(&mut f);
        }
        (6..=10).for_each(|n| f.lose(n * MSS, 300_000));
        assert_eq!(f.s.lost_ranges_in_round, if is_undone { 5 } else { 10 });
        f.ack_with(16 * RATE, |a| (a.newly_lost, a.rs_lost) = (10 * MSS, 10 * MSS));
        assert_eq!(f.s.full_bw_reached, !is_undone);
    }
}

#[test]
fn undo_03_a_flow_that_loss_threw_out_of_startup_goes_back_and_stays() {
    let mut f = out_of_startup();
    assert!(f.s.inflight_longterm < BBR3_INFINITY);
    undo(&mut f);
    assert_eq!((f.s.state, f.s.full_bw_reached), (Mode::Startup, false));
    assert_eq!(f.s.inflight_longterm, BBR3_INFINITY);
    for round in 3..8 {
        f.ack(RATE << round);
        assert_eq!((f.s.state, f.s.full_bw_reached), (Mode::Startup, false), "still growing");
    }
}

#[test]
fn undo_04_a_probe_that_loss_ended_is_begun_again_with_refill() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.c.inflight = 50_000;
    f.lose(3 * MSS, 60_000);
    recover(&mut f);
    f.more_with(RATE, |a| a.newly_lost = MSS);
    assert_eq!((f.s.state, f.s.undo_state), (Mode::ProbeBwDown, Mode::ProbeBwUp));
    undo(&mut f);
    assert_eq!((f.s.state, f.s.ack_phase), (Mode::ProbeBwRefill, AckPhase::Refilling));
    assert_eq!((f.s.next_round_delivered, f.s.inflight_longterm), (f.c.delivered, BBR3_INFINITY));
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwRefill);
    f.ack(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwUp);
}

#[test]
fn undo_05_probe_rtt_stays_and_leads_to_startup() {
    let mut f = out_of_startup();
    f.c.now_us = f.s.probe_rtt_min_stamp + 5_000_001;
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeRtt);
    undo(&mut f);
    assert_eq!((f.s.state, f.s.full_bw_reached), (Mode::ProbeRtt, false));
    f.c.inflight = 4 * MSS;
    while f.s.state == Mode::ProbeRtt {
        f.ack_with(RATE, |a| a.rs_is_app_limited = true); // as ProbeRTT asks for
    }
    assert_eq!(f.s.state, Mode::Startup);
    // A probe that loss ended: ProbeRTT stays too, and then it is as after any ProbeRTT.
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.lose(3 * MSS, 60_000);
    recover(&mut f);
    f.c.now_us = f.s.probe_rtt_min_stamp + 5_000_001;
    f.more(RATE);
    undo(&mut f);
    assert_eq!((f.s.state, f.s.full_bw_reached), (Mode::ProbeRtt, true));
}

#[test]
fn undo_06_a_second_notice_changes_no_state() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.lose(3 * MSS, 60_000);
    recover(&mut f);
    undo(&mut f);
    assert_eq!((f.s.state, f.s.undo_state), (Mode::ProbeBwRefill, Mode::None));
    f.go(Mode::ProbeBwUp);
    f.go(Mode::ProbeBwDown);
    undo(&mut f);
    assert_eq!(f.s.state, Mode::ProbeBwDown);
    let mut f = out_of_startup();
    undo(&mut f);
    (f.s.full_bw_reached, f.s.state) = (true, Mode::ProbeBwCruise);
    undo(&mut f);
    assert_eq!((f.s.state, f.s.full_bw_reached), (Mode::ProbeBwCruise, true));
}

#[test]
fn undo_07_the_first_of_several_lossy_rounds_is_what_comes_back() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    (f.s.inflight_longterm, f.c.inflight, f.c.cwnd) = (90_000, 50_000, 88_000);
    f.lose(3 * MSS, 60_000);
    assert_eq!((f.s.state, f.s.inflight_longterm), (Mode::ProbeBwDown, 58_800));
    recover(&mut f);
    for round in 0..3 {
        f.ack_with(RATE / 2, |a| a.newly_lost = MSS);
        f.lose(3 * MSS, 60_000);
        f.more_with(RATE / 2, |a| a.newly_lost = MSS);
        assert_eq!(f.s.undo_state, Mode::ProbeBwUp, "round {round}");
    }
    f.ack(RATE / 2);
    assert!(f.s.bw_shortterm < bw(RATE) && f.c.cwnd <= 58_800, "the rounds had an effect");
    undo(&mut f);
    assert_eq!((f.s.state, f.c.cwnd, f.s.inflight_longterm), (Mode::ProbeBwRefill, 88_000, 90_000));
    assert_eq!((f.s.bw_shortterm, f.s.inflight_shortterm), (BBR3_INFINITY, BBR3_INFINITY));
}

#[test]
fn undo_07_losses_told_before_recovery_belong_to_it() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    (f.s.inflight_longterm, f.c.inflight) = (90_000, 50_000);
    f.lose(3 * MSS, 60_000);
    f.more_with(RATE, |a| (a.newly_lost, a.rs_tx_in_flight) = (MSS, 0));
    recover(&mut f);
    assert_eq!((f.s.undo_inflight_longterm, f.s.undo_state), (90_000, Mode::ProbeBwUp));
    // An ACK outside recovery that reports no loss says that none will come of it.
    let mut f = Flow::at(Mode::ProbeBwUp);
    (f.s.inflight_longterm, f.c.inflight) = (90_000, 50_000);
    f.lose(3 * MSS, 60_000);
    f.more_with(RATE, |a| a.rs_tx_in_flight = 0);
    recover(&mut f);
    assert_eq!((f.s.undo_inflight_longterm, f.s.undo_state), (58_800, Mode::None));
}

#[test]
fn undo_08_caution_is_not_taken_back() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.lose(3 * MSS, 60_000);
    recover(&mut f);
    assert!(f.s.prev_probe_too_high);
    undo(&mut f);
    assert!(f.s.prev_probe_too_high);
}
