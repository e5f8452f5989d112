//! RECOV: the window in recovery (§5.6.4.4).

use crate::driver::{Flow, MSS, RATE};
use headway_cc::cc::bbr3::*;
use headway_cc::cc::{CaState, Event};

/// In CRUISE with a window of 70,000 and 30,000 in flight.
fn cruise() -> Flow {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    (f.c.cwnd, f.c.inflight) = (70_000, 30_000);
    f
}

#[test]
fn recov_01_a_timeout_saves_the_window_and_leaves_one_segment() {
    let mut f = cruise();
    f.tell(Event::Ssthresh);
    f.c.inflight = 6_000;
    f.tell(Event::Loss);
    assert_eq!((f.c.cwnd, f.s.prior_cwnd, f.s.is_undo_saved), (7_200, 70_000, true));
    // Also where the transport says nothing before.
    let mut f = cruise();
    f.tell(Event::Loss);
    assert_eq!((f.c.cwnd, f.s.prior_cwnd, f.s.is_undo_saved), (31_200, 70_000, true));
}

#[test]
fn recov_02_fast_recovery_saves_the_window_and_leaves_it() {
    let mut f = cruise();
    f.lose(MSS, 60_000);
    assert_eq!(f.c.cwnd, 70_000);
    f.tell(Event::Ssthresh);
    assert_eq!((f.c.cwnd, f.s.prior_cwnd), (70_000, 70_000));
}

#[test]
fn recov_03_its_end_brings_the_window_back_within_the_model() {
    for (ca_state, event) in [(CaState::Recovery, Event::Ssthresh), (CaState::Loss, Event::Loss)] {
        for (longterm, window) in [(BBR3_INFINITY, 70_000 + MSS), (60_000, 51_000)] {
            let mut f = cruise();
            f.s.inflight_longterm = longterm;
            f.tell(event);
            f.c.ca_state = ca_state;
            f.c.cwnd = 6_000;
            f.more(RATE);
            assert_eq!(f.c.cwnd, 6_000 + MSS, "still in {ca_state:?}");
            f.c.ca_state = CaState::Open;
            f.more(RATE);
            assert_eq!(f.c.cwnd, window, "{ca_state:?} {longterm}");
        }
    }
}

#[test]
fn recov_04_outside_recovery_the_window_is_saved_anew_inside_the_larger_stays() {
    let mut f = cruise();
    f.s.prior_cwnd = 500_000;
    f.tell(Event::Ssthresh);
    assert_eq!(f.s.prior_cwnd, 70_000, "an older one is of no use");
    f.c.ca_state = CaState::Recovery;
    f.more(RATE);
    for (cwnd, saved) in [(50_000, 70_000), (75_000, 75_000)] {
        f.c.cwnd = cwnd;
        f.tell(Event::Loss);
        assert_eq!(f.s.prior_cwnd, saved);
    }
    // ProbeRTT saves before its own small window is one to be saved.
    let mut f = cruise();
    f.s.prior_cwnd = 500_000;
    f.c.now_us = f.s.probe_rtt_min_stamp + 5_000_001;
    f.more(RATE);
    assert_eq!((f.s.state, f.s.prior_cwnd), (Mode::ProbeRtt, 70_000));
    f.tell(Event::Ssthresh);
    assert_eq!(f.s.prior_cwnd, 70_000);
}

#[test]
fn recov_05_more_may_be_sent_than_was_acked() {
    let mut f = cruise();
    f.lose(MSS, 60_000);
    f.tell(Event::Ssthresh);
    f.c.ca_state = CaState::Recovery;
    f.more_with(RATE, |a| a.newly_lost = MSS);
    // Packet conservation would leave 30,000 + 1200.
    assert_eq!(f.c.cwnd, 70_000 + MSS);
}

#[test]
fn recov_06_persistent_congestion_leaves_one_segment() {
    for (state, inflight) in [(Mode::Startup, 0), (Mode::ProbeBwCruise, 0), (Mode::ProbeBwUp, 12_000)] {
        let mut f = Flow::at(state);
        (f.c.cwnd, f.c.inflight) = (70_000, inflight);
        f.tell(Event::Loss);
        assert_eq!((f.c.cwnd, f.s.prior_cwnd), (inflight + MSS, 70_000));
    }
}
