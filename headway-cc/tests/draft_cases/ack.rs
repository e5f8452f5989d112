//! ACK: order of the steps of an ACK (§5.2.3).

use super::driver::*;
use headway_cc::cc::bbr3::*;
use headway_cc::cc::{CaState, Event};

/// The core's own text: the order of its steps can be read there only.
const CORE: &str = include_str!("../../src/cc/bbr3.rs");
const MODEL: &str = include_str!("../../src/cc/bbr3/model.rs");

/// The statements of a function, one a line.
fn body<'a>(source: &'a str, name: &str) -> Vec<&'a str> {
    let (_, rest) = source.split_once(&format!("fn {name}(c: &mut Conn) {{\n")).expect("the function");
    rest.lines().take_while(|line| *line != "}").map(str::trim).collect()
}

#[test]
fn ack_01_one_pass_in_the_draft_s_order() {
    let model = body(CORE, "bbr3_update_model_and_state");
    let steps = [
        "update_latest_delivery_signals",
        "update_congestion_signals",
        "update_ack_aggregation",
        "check_full_bw_reached",
        "check_startup_done",
        "check_drain_done",
        "update_probe_bw_cycle_phase",
        "update_min_rtt",
        "check_probe_rtt",
        "advance_latest_delivery_signals",
        "bound_bw_for_model",
    ];
    assert_eq!(model, steps.map(|step| format!("bbr3_{step}(c);")));
    // With nothing tolerated, as in the draft, the gain is the state's.
    let pace = "bbr3_set_pacing_rate(c, bbr3_loss_gain(c, c.bbr.pacing_gain));";
    let control = [pace, "bbr3_set_send_quantum(c);", "bbr3_set_cwnd(c);"];
    assert_eq!(body(CORE, "bbr3_update_control_parameters"), control);
    assert_eq!(body(MODEL, "bbr3_update_congestion_signals")[0], "bbr3_update_max_bw(c);");
    assert_eq!(body(MODEL, "bbr3_update_max_bw")[0], "bbr3_update_round(c);");
    // An ACK of 50 packets is one event: one round, one growth of the window, one cut.
    let mut f = Flow::at(Mode::ProbeBwUp);
    let rounds = f.s.round_count;
    (f.c.cwnd, f.s.inflight_longterm) = (60_000, 60_000);
    f.ack_with(RATE, |a| (a.newly_acked, a.delivered) = (50 * MSS, a.delivered + 49 * MSS));
    assert_eq!((f.s.round_count - rounds, f.s.bw_probe_up_rounds), (1, 2));
    let mut f = Flow::new();
    f.ack_with(RATE, |a| (a.newly_acked, a.delivered) = (50 * MSS, a.delivered + 49 * MSS));
    assert_eq!(f.c.cwnd, 72_000, "12,000 and 60,000");
}

/// What the transport says about recovery and marks comes before the model: the steps after it see the window that
/// recovery's end restores, and the marks of this very ACK.
#[test]
fn ack_01_recovery_and_marks_come_before_the_model() {
    let after_recovery = |state: Mode| {
        let mut f = Flow::at(state);
        f.c.cwnd = 60_000;
        f.tell(Event::Ssthresh);
        f.c.ca_state = CaState::Recovery;
        f.more(RATE);
        (f.c.ca_state, f.c.cwnd) = (CaState::Open, 30_000);
        f
    };
    let mut f = after_recovery(Mode::ProbeBwCruise);
    f.more(RATE);
    assert_eq!(f.c.cwnd, 61_200, "60,000 is back, and the window grows from there");
    // A probe raises the long-term bound only when the window has reached it, and the restored one has.
    let mut f = after_recovery(Mode::ProbeBwUp);
    (f.s.inflight_longterm, f.s.probe_up_acked_per_inc) = (60_000, MSS);
    f.more(RATE);
    assert_eq!(f.s.inflight_longterm, 61_200);
    // Six ranges of marks end Startup, with the one that the ACK at the round's end brings.
    for (marked, state) in [(6, Mode::Drain), (5, Mode::Startup)] {
        let mut f = Flow::at(Mode::Startup);
        f.c.inflight = 300_000;
        f.ack(RATE);
        for _ in 1..marked {
            f.c.delivered_ce += MSS;
            f.more(RATE);
        }
        f.c.delivered_ce += MSS;
        f.ack_with(2 * RATE, |a| a.rs_delivered_ce = 6_001);
        assert_eq!((f.s.loss_round_start, f.s.state), (true, state), "{marked} ranges");
    }
}

#[test]
fn ack_02_a_new_state_shapes_the_same_ack_s_rate() {
    let mut f = Flow::new();
    f.c.inflight = 2 * BDP;
    for _ in 0..3 {
        assert_near(f.ack(RATE).pacing_rate, 2_742_300, 1);
    }
    assert_near(f.ack(RATE).pacing_rate, 495_000, 1);
}

#[test]
fn ack_03_losses_are_told_before_their_ack() {
    // Loss and ACK reach the controller together: the cut is in that ACK's rate.
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.ack(RATE / 2);
    f.lose(1_200, 30_000);
    assert!(f.s.is_loss_in_round);
    assert_near(f.ack(RATE / 2).pacing_rate, 693_000, 1);
    // The simulator's transport keeps the order: every event of loss precedes the ACK that reports it.
    let (mut told, mut losses) = (0, 0);
    for step in alone("10mbit 40ms queue=1bdp loss=1%", 5) {
        if step.ack.event == Event::Lost {
            told += step.ack.newly_lost;
        } else if step.ack.event == Event::Ack {
            assert_eq!(told, step.ack.newly_lost);
            losses += u64::from(told > 0);
            told = 0;
        }
    }
    assert!(losses >= 10, "{losses}");
}

#[test]
fn ack_04_several_states_in_one_ack() {
    // DOWN is passed as well where there is headroom: its conditions hold on the same ACK.
    for (longterm, state) in [(BBR3_INFINITY, Mode::ProbeBwCruise), (40_000, Mode::ProbeBwDown)] {
        let mut f = Flow::new();
        f.c.inflight = 2 * BDP;
        for _ in 0..3 {
            f.ack(RATE);
        }
        assert_eq!(f.s.state, Mode::Startup);
        (f.c.inflight, f.s.inflight_longterm) = (38_000, longterm);
        f.ack(RATE);
        assert_eq!((f.s.state, f.s.drain_start_round, f.s.cycle_stamp), (state, 4, f.c.now_us));
    }
}

#[test]
fn ack_05_the_bandwidth_is_bound_last() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.c.cwnd = 1 << 20;
    f.ack_with(RATE, |a| a.newly_acked = 24_000);
    // 1 ms at the old megabyte a second was expected to bring 1,000 bytes, at the new rate it would be 2,000.
    let control = f.more_with(2 * RATE, |a| a.newly_acked = 24_000);
    assert_eq!(f.s.extra_acked, 47_000);
    assert_near(control.pacing_rate, 1_980_000, 1);
}
