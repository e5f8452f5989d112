//! STARTUP (§5.3.1).

use super::driver::*;
use headway_cc::cc::bbr3::*;
use headway_cc::cc::{CaState, Event};

/// A flow in Startup whose first round measured [`RATE`], with more in flight than Drain would tolerate.
fn started() -> Flow {
    let mut f = Flow::new();
    f.c.inflight = 10 * BDP;
    f.ack(RATE);
    f
}

#[test]
fn startup_01_doubles_each_round() {
    let steps = alone("100mbit 50ms queue=1bdp", 3);
    let acks = steps.iter().filter(|step| step.ack.event == Event::Ack && step.s.state == Mode::Startup);
    let starts: Vec<u64> = acks.filter(|s| s.s.round_start).map(|s| s.ack.delivered).collect();
    let rounds: Vec<u64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
    // 625 kB are 44 initial windows, or 5.4 doublings; a round that was full once does not double any more.
    let full = rounds.iter().position(|bytes| *bytes >= 500_000).expect("the link is filled");
    assert!(full <= 7, "{rounds:?}");
    // While a round is a few bursts and delayed ACKs the growth is blurred: there 50 per cent, then 10.
    for pair in rounds[..full].windows(2) {
        let least = if pair[0] < 50_000 { 15 } else { 18 };
        assert!(pair[1] * 10 >= pair[0] * least && pair[1] * 10 <= pair[0] * 22, "{rounds:?}");
    }
}

#[test]
fn startup_02_full_means_drain_at_once() {
    let mut f = started();
    f.ack(RATE);
    f.ack(RATE);
    assert_eq!((f.s.state, f.s.full_bw_reached), (Mode::Startup, false));
    f.ack(RATE);
    assert_eq!((f.s.state, f.s.full_bw_reached), (Mode::Drain, true));
}

/// Two lossy rounds; the second has `ranges` ranges and `lost` bytes of 60,000.
fn lose_two_rounds(in_recovery: bool, ranges: u64, lost: u64) -> Flow {
    let mut f = started();
    if in_recovery {
        f.lossy_round(2 * RATE, 1, 1_200, 60_000);
    } else {
        f.lose(1_200, 60_000);
        f.ack(2 * RATE);
    }
    (0..ranges).for_each(|i| f.lose((i + 1) * MSS, 60_000));
    f.ack_with(4 * RATE, |a| (a.rs_lost, a.rs_tx_in_flight, a.newly_lost) = (lost, 60_000, ranges * MSS));
    f
}

#[test]
fn startup_03_the_loss_exit_needs_all_three_conditions() {
    for case in 0..8 {
        let (in_recovery, many, much) = (case & 1 != 0, case & 2 != 0, case & 4 != 0);
        let f = lose_two_rounds(in_recovery, if many { 6 } else { 5 }, if much { 1_201 } else { 1_200 });
        let state = if case == 7 { Mode::Drain } else { Mode::Startup };
        assert_eq!(f.s.state, state, "recovery {in_recovery}, ranges {many}, loss {much}");
    }
    // Recovery that began with this very round is not yet a full one.
    let mut f = started();
    f.lossy_round(2 * RATE, 6, 7_200, 60_000);
    assert_eq!(f.s.state, Mode::Startup);
    // Six ranges in two rounds are not six in one.
    let mut f = started();
    f.lossy_round(2 * RATE, 1, 1_200, 60_000);
    f.lossy_round(4 * RATE, 3, 3_600, 60_000);
    f.lossy_round(8 * RATE, 3, 3_600, 60_000);
    assert_eq!(f.s.state, Mode::Startup);
    // Six packets in a row are one range.
    f.lose(1_200, 60_000);
    (2..=6).for_each(|i| f.lose_with(i * MSS, 60_000, |a| a.rs_starts_lost_range = false));
    f.ack_with(16 * RATE, |a| (a.rs_lost, a.rs_tx_in_flight) = (7_200, 60_000));
    assert_eq!(f.s.state, Mode::Startup);
}

#[test]
fn startup_04_without_selective_acks_any_loss_ends_it() {
    for (has_selective_acks, state) in [(true, Mode::Startup), (false, Mode::Drain)] {
        let mut f = started();
        f.c.has_selective_acks = has_selective_acks;
        f.lose(1_200, 1_000_000);
        f.tell(Event::Ssthresh);
        f.c.ca_state = CaState::Recovery;
        f.ack_with(2 * RATE, |a| a.newly_lost = MSS);
        assert_eq!(f.s.state, state);
    }
    let mut f = started();
    f.c.has_selective_acks = false;
    f.ack(2 * RATE);
    assert_eq!(f.s.state, Mode::Startup, "nothing lost");
}

#[test]
fn startup_05_what_the_loss_exit_sets() {
    let f = lose_two_rounds(true, 6, 7_200);
    assert_eq!((f.s.undo_state, f.s.full_bw_reached), (Mode::Startup, true));
    assert_eq!(f.s.inflight_longterm, 160_000, "4 MB/s for 40 ms");
    assert_eq!((f.s.state, f.s.full_bw_now), (Mode::Drain, false));
    // More was delivered in this loss round than the BDP.
    let mut f = started();
    f.lossy_round(2 * RATE, 1, 1_200, 60_000);
    (0..6).for_each(|i| f.lose((i + 1) * MSS, 60_000));
    f.ack_with(4 * RATE, |a| {
        (a.rs_lost, a.rs_tx_in_flight) = (7_200, 60_000);
        (a.rs_delivered, a.rs_interval_us) = (400_000, 100_000);
    });
    assert_eq!((f.s.state, f.s.inflight_longterm), (Mode::Drain, 400_000));
}

#[test]
fn startup_06_losses_count_when_application_limited_too() {
    let mut f = started();
    for rounds in 0..2 {
        f.lossy_round(RATE / 2, 1 + 5 * rounds, 1_200, 60_000);
        f.s.full_bw_count = 0;
    }
    assert_eq!(f.s.state, Mode::Startup, "2 % is not too much");
    (0..6).for_each(|i| f.lose((i + 1) * MSS, 60_000));
    f.ack_with(RATE / 2, |a| (a.rs_lost, a.rs_tx_in_flight, a.rs_is_app_limited) = (3_000, 60_000, true));
    assert_eq!((f.s.state, f.s.full_bw_reached), (Mode::Drain, true), "5 %");
}

#[test]
fn startup_07_the_rate_never_falls() {
    let mut f = started();
    assert_near(f.c.pacing_rate, 2_742_300, 1);
    let before = f.c.pacing_rate;
    for rate in [RATE / 2, RATE / 10, 25_000] {
        assert_eq!(f.ack_with(rate, |a| a.rs_is_app_limited = true).pacing_rate, before);
    }
    assert_eq!(f.ack(RATE / 2).pacing_rate, before);
    // Before the first full round of samples the initial rate holds.
    let mut f = Flow::new();
    assert_near(f.ack(25_000).pacing_rate, 831_000, 1);
}

#[test]
fn startup_08_how_the_window_grows() {
    let mut f = Flow::new();
    assert_eq!(
        f.ack(25_000).cwnd,
        13_200,
        "above 2 BDP of 1,000 bytes, but less than the initial window arrived"
    );
    f.c.delivered = 12_000;
    assert_eq!(f.ack(25_000).cwnd, 13_200, "enough arrived");
    f.c.cwnd = 500_000;
    assert_eq!(f.ack(31_250).cwnd, 500_000, "never cut");
    let mut f = started();
    f.c.delivered = 12_000;
    f.c.cwnd = 60_000;
    assert_eq!(f.more_with(RATE, |a| a.newly_acked = 3_600).cwnd, 63_600, "by what was ACKed");
}

#[test]
fn startup_09_losses_leave_the_short_term_bounds_alone() {
    let mut f = started();
    for rate in [1_250_000, 1_562_500, 1_953_125] {
        f.lossy_round(rate, 2, 2_400, 60_000);
        assert!(!f.s.is_loss_in_round, "the round was judged");
        assert_eq!((f.s.bw_shortterm, f.s.inflight_shortterm), (BBR3_INFINITY, BBR3_INFINITY));
    }
    assert_eq!(f.s.state, Mode::Startup);
}

#[test]
fn startup_10_no_cap_on_volume() {
    let mut f = started();
    f.s.inflight_longterm = 10_000;
    f.c.cwnd = 60_000;
    assert_eq!(f.more(RATE).cwnd, 61_200);
}

#[test]
fn startup_11_two_flat_rounds_are_forgiven() {
    let mut f = started();
    for rate in [RATE, RATE, 2 * RATE, 2 * RATE, 2 * RATE] {
        f.ack(rate);
        assert_eq!(f.s.state, Mode::Startup);
    }
    f.ack(2 * RATE);
    assert_eq!(f.s.state, Mode::Drain);
}
