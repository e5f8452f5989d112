//! LOSS: what a lost packet tells (§5.5.10.2).

use crate::driver::{Flow, MSS, RATE};
use headway_cc::cc::CaState;
use headway_cc::cc::bbr3::*;

/// The long-term bound after a segment of `size` was lost of `tx` in flight, `lost` since; a small target.
fn bound_after(size: u64, tx: u64, lost: u64) -> u64 {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.c.cwnd = 1;
    f.lose_with(lost, tx, |a| a.newly_lost = size);
    f.s.inflight_longterm
}

#[test]
fn loss_01_the_first_loss_starts_a_loss_round_and_saves_the_state_once() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.ack(RATE);
    f.c.ca_state = CaState::Recovery;
    let first = f.c.delivered;
    f.s.inflight_longterm = 90_000;
    f.lose(MSS, 60_000);
    assert_eq!((f.s.loss_round_delivered, f.s.is_loss_in_round), (first, true));
    assert_eq!((f.s.is_undo_saved, f.s.undo_inflight_longterm), (true, 90_000));
    f.more(RATE);
    f.s.inflight_longterm = 70_000;
    f.lose(2 * MSS, 60_000);
    assert_eq!(
        (f.s.loss_round_delivered, f.s.undo_inflight_longterm),
        (first, 90_000),
        "the same loss round"
    );
    f.ack(RATE);
    assert_eq!((f.s.loss_round_start, f.s.is_loss_in_round), (true, false));
    f.more(RATE);
    let second = f.c.delivered;
    f.lose(3 * MSS, 60_000);
    assert_eq!((f.s.loss_round_delivered, f.s.is_loss_in_round), (second, true));
}

#[test]
fn loss_02_outside_a_probe_a_loss_is_only_noted() {
    for state in [Mode::Startup, Mode::Drain, Mode::ProbeBwCruise, Mode::ProbeBwRefill, Mode::ProbeRtt] {
        let mut f = Flow::at(state);
        (f.s.inflight_longterm, f.s.is_bw_probe_sample) = (100_000, false);
        f.lose(30 * MSS, 60_000);
        assert_eq!((f.s.state, f.s.inflight_longterm, f.s.prev_probe_too_high), (state, 100_000, false));
        assert!(f.s.is_loss_in_round);
    }
}

#[test]
fn loss_03_a_lost_packet_is_judged_by_its_own_transmission() {
    // 1200 bytes, this packet included, are 2 % of 60,000.
    for (tx, state) in [(60_000, Mode::ProbeBwUp), (59_999, Mode::ProbeBwDown)] {
        let mut f = Flow::at(Mode::ProbeBwUp);
        (f.c.inflight, f.c.lost) = (10_000, 900_000);
        f.lose(MSS, tx);
        assert_eq!(f.s.state, state, "{tx}");
    }
    for (of_packet, of_connection, is_cut) in [(true, false, false), (false, true, true)] {
        let mut f = Flow::at(Mode::ProbeBwUp);
        f.c.is_app_limited = of_connection;
        f.lose_with(2 * MSS, 60_000, |a| a.rs_is_app_limited = of_packet);
        assert_eq!(f.s.inflight_longterm != BBR3_INFINITY, is_cut);
    }
}

#[test]
fn loss_04_too_much_is_above_two_per_cent_or_anything_without_selective_acks() {
    for (lost, tx, has_selective_acks, is_too_high) in [
        (2_400, 120_000, true, false),
        (2_401, 120_000, true, true),
        (1_000_000, 50_000_000, true, false),
        (1_000_001, 50_000_000, true, true),
        (1, 120_000, true, false),
        (1, 120_000, false, true),
    ] {
        let mut f = Flow::at(Mode::ProbeBwUp);
        f.c.has_selective_acks = has_selective_acks;
        f.lose_with(lost, tx, |a| a.newly_lost = 1);
        assert_eq!(f.s.prev_probe_too_high, is_too_high, "{lost} of {tx}");
        assert_eq!(f.s.state == Mode::ProbeBwDown, is_too_high);
    }
}

#[test]
fn loss_05_the_bound_is_the_volume_at_which_losses_became_too_much() {
    // Before the packet 108,000 were in flight and 1200 lost: (0.02 * 108,000 - 1200) / 0.98 more were fine.
    assert_eq!(bound_after(12_000, 120_000, 13_200), 108_979);
    assert_eq!(bound_after(12_000, 120_000, 12_000), 110_204);
    assert_eq!(bound_after(1_200, 50_000, 1_200), 49_795);
    // Whole packets: 90.82 of them.
    assert_eq!(bound_after(10, 100, 11), 90);
    assert_eq!(bound_after(100, 1_000, 110), 908);
}

#[test]
fn loss_06_a_prefix_is_never_negative_nor_longer_than_the_packet() {
    assert_eq!(bound_after(MSS, 100 * MSS, 20 * MSS), 99 * MSS);
    assert_eq!(bound_after(1, 100, 20), 99);
    assert_eq!(bound_after(1_200, 1_200, 500_000), 0);
    // Without selective ACKs one byte of much is too high although the prefix would be longer than the packet.
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.c.has_selective_acks = false;
    f.lose(MSS, 1_000 * MSS);
    assert_eq!(f.s.inflight_longterm, 1_000 * MSS);
}

#[test]
fn loss_07_a_probe_is_answered_once() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.lose(3 * MSS, 60_000);
    let (stamp, bound) = (f.s.cycle_stamp, f.s.inflight_longterm);
    assert_eq!((f.s.state, f.s.is_bw_probe_sample), (Mode::ProbeBwDown, false));
    f.c.now_us += 5_000;
    for lost in 4..54 {
        f.lose(lost * MSS, 100_000);
        assert_eq!((f.s.state, f.s.cycle_stamp), (Mode::ProbeBwDown, stamp));
        assert_eq!((f.s.inflight_longterm, f.s.is_loss_in_round), (bound, true));
    }
}

#[test]
fn loss_08_only_up_is_left() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.lose(3 * MSS, 60_000);
    assert_eq!((f.s.state, f.s.undo_state), (Mode::ProbeBwDown, Mode::ProbeBwUp));
    // A plateau ended this probe; in the first round of DOWN its losses still count.
    let mut f = Flow::at(Mode::ProbeBwDown);
    f.go(Mode::ProbeBwUp);
    f.go(Mode::ProbeBwDown);
    let stamp = f.s.cycle_stamp;
    assert_eq!((f.s.is_bw_probe_sample, f.s.prev_probe_too_high), (true, false));
    f.c.now_us += 5_000;
    f.lose(3 * MSS, 60_000);
    assert_eq!((f.s.state, f.s.cycle_stamp, f.s.undo_state), (Mode::ProbeBwDown, stamp, Mode::None));
    assert_eq!((f.s.inflight_longterm, f.s.prev_probe_too_high), (58_800, true));
}

#[test]
fn loss_09_a_late_mark_speaks_of_the_volume_at_its_sending() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.c.inflight = 40 * MSS;
    f.lose(3 * MSS, 100 * MSS);
    assert_eq!(f.s.inflight_longterm, 99 * MSS);
    f.more_with(RATE, |a| (a.newly_lost, a.rs_tx_in_flight) = (MSS, 40 * MSS));
    assert_eq!(f.s.inflight_longterm, 99 * MSS);
}

#[test]
fn loss_10_a_cut_leaves_seven_tenths_of_the_target() {
    for (cwnd, floor) in [(80_000, 28_000), (30_000, 21_000)] {
        let mut f = Flow::at(Mode::ProbeBwUp);
        (f.s.inflight_longterm, f.c.cwnd) = (100_000, cwnd);
        f.lose(2 * MSS, 5_000);
        assert_eq!((f.s.state, f.s.inflight_longterm), (Mode::ProbeBwDown, floor));
    }
}
