//! CHG: what changed since revision -04 of the draft, one telling point each; the rows of the sections say the rest.

use crate::driver::{Flow, MSS, RATE, START_US, assert_near};
use crate::whole::{Whole, payload_rate};
use headway_cc::cc::bbr3::*;
use headway_cc::cc::{CaState, Event};
use headway_cc::sampler::Sampler;

/// Leads a flow in DOWN that loss brought there to its next probe, with 30,000 in flight.
fn probe_again(f: &mut Flow) {
    f.c.inflight = 30_000;
    f.go(Mode::ProbeBwCruise);
    f.go(Mode::ProbeBwUp);
}

#[test]
fn chg_01_a_round_after_the_probe_its_phase_is_over() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.c.inflight = 50_000;
    f.go(Mode::ProbeBwDown);
    let cycles = f.s.cycle_count;
    assert_eq!((f.s.ack_phase, f.s.is_bw_probe_sample), (AckPhase::ProbeStopping, true));
    for _ in 0..20 {
        f.ack(RATE);
        assert_eq!((f.s.ack_phase, f.s.is_bw_probe_sample), (AckPhase::Init, false));
        assert_eq!(f.s.cycle_count, cycles + 1, "the filter moves once");
    }
}

#[test]
fn chg_02_after_a_lossy_probe_the_next_stops_at_the_bound() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.lose(3 * MSS, 60_000);
    probe_again(&mut f);
    assert!(f.s.prev_probe_too_high);
    f.more_with(RATE, |a| (a.prior_inflight, a.inflight) = (60_000, 58_800));
    assert_eq!((f.s.prev_probe_precautionary, f.s.prev_probe_too_high), (true, false));
    f.ack(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwRefill, "no loss: on at once");
}

#[test]
fn chg_03_only_the_transition_itself_is_remembered_for_an_undo() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.lose(9 * MSS, 60_000);
    f.tell(Event::Ssthresh);
    assert_eq!(f.s.undo_state, Mode::None);
    f.tell(Event::Undo);
    assert_eq!(f.s.state, Mode::ProbeBwCruise);
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.lose(9 * MSS, 60_000);
    assert_eq!(f.s.undo_state, Mode::ProbeBwUp);
    f.tell(Event::Undo);
    assert_eq!(f.s.state, Mode::ProbeBwRefill);
}

#[test]
fn chg_04_drain_ends_with_its_fourth_round() {
    let mut f = Flow::at(Mode::Drain);
    f.c.inflight = 90_000;
    for _ in 0..3 {
        f.ack(RATE);
    }
    assert_eq!(f.s.state, Mode::Drain);
    f.ack(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwDown);
}

#[test]
fn chg_05_drain_paces_at_half() {
    assert_near(Flow::at(Mode::Drain).c.pacing_rate, 495_000, 1);
}

#[test]
fn chg_06_without_selective_acks_any_loss_counts() {
    let mut f = Flow::at(Mode::Startup);
    f.c.has_selective_acks = false;
    f.ack(RATE);
    f.tell(Event::Ssthresh);
    f.c.ca_state = CaState::Recovery;
    f.lose(1, 60_000);
    f.more_with(RATE, |a| a.newly_lost = 1);
    assert_eq!((f.s.full_bw_reached, f.s.undo_state), (true, Mode::Startup));
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.c.has_selective_acks = false;
    f.lose(1, 60_000);
    assert_eq!(f.s.state, Mode::ProbeBwDown);
}

#[test]
fn chg_07_tcp_has_three_quanta_of_budget_and_quic_one() {
    let p = Bbr3Params::default();
    assert_eq!((p.tcp_offload_quanta, p.quic_offload_quanta), (3, 1));
}

#[test]
fn chg_08_the_bound_grows_in_whole_segments_and_keeps_the_rest() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.c.cwnd = 60_000;
    (f.s.inflight_longterm, f.s.probe_up_acked_per_inc, f.s.bw_probe_up_acked) = (50_000, 5_000, 4_000);
    f.more_with(RATE, |a| (a.newly_acked, a.rs_tx_in_flight) = (7_300, 1));
    assert_eq!((f.s.inflight_longterm, f.s.bw_probe_up_acked), (50_000 + 2 * MSS, 1_300));
    (f.s.bw_probe_up_rounds, f.s.inflight_longterm) = (25, 50_000);
    f.c.cwnd = 60_000;
    f.ack_with(RATE, |a| a.rs_tx_in_flight = 1);
    assert_eq!(f.s.probe_up_acked_per_inc, MSS, "a segment is the least");
}

#[test]
fn chg_09_a_packet_remembers_what_was_lost_before_it() {
    let mut s = Sampler::default();
    let first = s.on_sent(0, 1_200);
    s.on_lost(first.bytes);
    assert_eq!((first.lost, s.on_sent(10, 1_200).lost), (0, 1_200));
}

#[test]
fn chg_10_cruise_needs_headroom_and_no_queue() {
    for (inflight, longterm, state) in [
        (40_000, 60_000, Mode::ProbeBwCruise),
        (40_002, 60_000, Mode::ProbeBwDown),
        (34_000, 40_000, Mode::ProbeBwCruise),
        (34_001, 40_000, Mode::ProbeBwDown),
    ] {
        let mut f = Flow::at(Mode::ProbeBwDown);
        (f.c.inflight, f.s.inflight_longterm) = (inflight, longterm);
        f.more_with(RATE, |a| a.rs_tx_in_flight = 0);
        assert_eq!(f.s.state, state, "{inflight} {longterm}");
    }
}

#[test]
fn chg_11_the_first_ack_finds_everything_initialised() {
    let mut f = Flow::new();
    assert_eq!(f.s.probe_rtt_min_stamp, START_US);
    f.c.now_us += 10_000;
    f.ack(RATE);
    assert_eq!((f.s.state, f.s.probe_rtt_expired, f.s.loss_round_start), (Mode::Startup, false, false));
}

#[test]
fn chg_12_startup_forgets_extra_acked_data_after_a_round() {
    let p = Bbr3Params::default();
    assert_eq!((p.startup_extra_acked_filter_len, p.extra_acked_filter_len), (1, 10));
}

#[test]
fn chg_13_the_state_has_the_new_names() {
    let has = |name: &str| Bbr3State::FIELDS.contains(&name);
    let new = "is_bw_probe_sample probe_up_acked_per_inc bw_probe_up_acked rounds_since_probe_up is_loss_in_round \
               inflight_longterm inflight_shortterm bw_shortterm prev_probe_too_high prev_probe_precautionary";
    assert!(new.split_whitespace().all(has));
    let old = "bw_probe_samples probe_up_cnt bw_probe_up_cnt bw_probe_up_acks rounds_since_bw_probe loss_in_round \
               inflight_hi inflight_lo bw_lo bw_hi";
    assert!(!old.split_whitespace().any(has));
}

#[test]
fn chg_14_no_run_leaves_the_state_machine() {
    use Mode::{ProbeBwCruise as CRUISE, ProbeBwDown as DOWN, ProbeBwRefill as REFILL, ProbeBwUp as UP};
    // One ACK may end a state and the one that follows; DOWN may end in the ACK that begins it.
    let on_ack = [
        (Mode::Startup, vec![Mode::Drain, DOWN, CRUISE, REFILL]),
        (Mode::Drain, vec![DOWN, CRUISE, REFILL]),
        (DOWN, vec![CRUISE, REFILL]),
        (CRUISE, vec![REFILL]),
        (REFILL, vec![UP]),
        (UP, vec![DOWN, CRUISE]),
        (Mode::ProbeRtt, vec![CRUISE, Mode::Startup]),
    ];
    let mut changes = 0;
    for path in [
        "20mbit 40ms queue=10bdp",
        "20mbit 40ms queue=0.1bdp loss=1%",
        "20mbit 40ms queue=1bdp reorder=1%/10ms",
        "64kbit 10ms queue=1.25s",
        "50mbit 20ms queue=1bdp @2s 5mbit @6s 50mbit 100ms @9s 1500ms @9.3s 20ms",
    ] {
        let w = Whole::bulk(path, 15);
        for (before, at) in w.changes() {
            let (from, to) = (before.s.state, at.s.state);
            let next = &on_ack[from as usize - 1].1;
            let is_allowed = match at.ack.event {
                Event::Lost => (from, to) == (UP, DOWN),
                Event::Undo => to == REFILL || to == Mode::Startup,
                _ => next.contains(&to) || to == Mode::ProbeRtt,
            };
            assert!(is_allowed, "{path}: {from:?} to {to:?} by {:?}: {}", at.ack.event, w.story());
            changes += 1;
        }
        assert!(w.goodput(0, 15_000_000) > payload_rate(30_000), "{path}");
    }
    assert!(changes > 100, "{changes}");
}
