//! ST: the short-term model (§5.5.10.3).

use crate::driver::{Flow, MSS, RATE, bw, rate_of};
use crate::whole::{SECOND_US, Whole, payload_rate};
use headway_cc::cc::CaState;
use headway_cc::cc::bbr3::*;

/// In CRUISE, a loss round whose best rate so far is `rate`, a window of 80,000 bytes.
fn cruise(rate: u64) -> Flow {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.ack(rate);
    f.c.cwnd = 80_000;
    f
}

/// A round with so many losses ends with a sample of `rate`; the bounds after it.
fn lossy_round(f: &mut Flow, losses: u64, rate: u64) -> (u64, u64) {
    (1..=losses).for_each(|n| f.lose(n * MSS, 60_000));
    f.ack(rate);
    (rate_of(f.s.bw_shortterm), f.s.inflight_shortterm)
}

#[test]
fn st_01_the_best_of_a_loss_round_is_kept_and_then_begun_anew() {
    let mut f = cruise(600_000);
    let latest = |f: &Flow| (rate_of(f.s.bw_latest), f.s.inflight_latest);
    assert_eq!(latest(&f), (600_000, 24_000));
    f.more(500_000);
    assert_eq!(latest(&f), (600_000, 24_000));
    f.more(900_000);
    assert_eq!(latest(&f), (900_000, 36_000));
    f.more(0);
    assert_eq!(latest(&f), (900_000, 36_000));
    f.ack(500_000);
    assert_eq!(latest(&f), (500_000, 20_000), "set, not the larger");
}

#[test]
fn st_02_a_loss_round_starts_with_data_sent_after_its_mark() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.ack(RATE);
    let mark = f.s.loss_round_delivered;
    assert_eq!(mark, f.c.delivered);
    f.more_with(RATE, |a| a.rs_prior_delivered = mark - 1);
    assert_eq!((f.s.loss_round_start, f.s.loss_round_delivered), (false, mark));
    f.more_with(RATE, |a| a.rs_prior_delivered = mark);
    assert_eq!((f.s.loss_round_start, f.s.loss_round_delivered), (true, f.c.delivered));
    f.more_with(RATE, |a| a.rs_prior_delivered = mark);
    assert!(!f.s.loss_round_start);
}

#[test]
fn st_03_a_lossy_round_leaves_seven_tenths_or_what_arrived() {
    let mut f = cruise(600_000);
    assert_eq!(lossy_round(&mut f, 1, 600_000), (700_000, 56_000));
    assert_eq!(lossy_round(&mut f, 1, 600_000), (600_000, 39_200));
    assert_eq!(lossy_round(&mut f, 1, 600_000), (600_000, 27_440));
    assert_eq!(lossy_round(&mut f, 1, 600_000), (600_000, 24_000));
    for &state in &Mode::ALL[1..] {
        let mut f = Flow::at(state);
        f.lose(MSS, 60_000);
        f.ack(RATE);
        let is_probing = [Mode::Startup, Mode::ProbeBwRefill, Mode::ProbeBwUp].contains(&state);
        assert_eq!(f.s.bw_shortterm == BBR3_INFINITY, is_probing, "state {state:?}");
        assert_eq!(f.s.inflight_shortterm == BBR3_INFINITY, is_probing, "state {state:?}");
    }
}

#[test]
fn st_04_a_round_is_cut_once() {
    let mut f = cruise(100_000);
    assert_eq!(lossy_round(&mut f, 30, 100_000), (700_000, 56_000));
    for _ in 0..5 {
        f.more(100_000);
    }
    f.ack(100_000);
    assert_eq!((rate_of(f.s.bw_shortterm), f.s.inflight_shortterm), (700_000, 56_000));
}

#[test]
fn st_05_a_cut_leaves_what_arrived_in_the_round() {
    let mut f = cruise(950_000);
    assert_eq!(lossy_round(&mut f, 1, 300_000), (950_000, 56_000));
    let mut f = cruise(950_000);
    f.c.cwnd = 40_000;
    assert_eq!(lossy_round(&mut f, 1, 300_000), (950_000, 38_000));
}

#[test]
fn st_06_a_cut_asks_for_neither_application_nor_recovery() {
    for (rs_is_app_limited, ca_state) in
        [(false, CaState::Open), (true, CaState::Open), (false, CaState::Recovery), (true, CaState::Recovery)]
    {
        let mut f = cruise(600_000);
        f.c.ca_state = ca_state;
        f.lose(MSS, 60_000);
        f.ack_with(600_000, |a| a.rs_is_app_limited = rs_is_app_limited);
        assert_eq!(rate_of(f.s.bw_shortterm), 700_000, "{rs_is_app_limited} {ca_state:?}");
    }
}

#[test]
fn st_07_after_the_round_the_flag_is_down_in_every_state() {
    for &state in &Mode::ALL[1..] {
        let mut f = Flow::at(state);
        if state == Mode::Startup {
            f.ack(RATE);
        }
        f.lose(MSS, 60_000);
        f.more(RATE);
        assert_eq!((f.s.is_loss_in_round, f.s.loss_round_start), (true, false), "state {state:?}");
        f.ack(RATE);
        assert_eq!((f.s.is_loss_in_round, f.s.loss_round_start), (false, true), "state {state:?}");
    }
}

#[test]
fn st_08_the_estimate_is_the_smaller_of_maximum_and_bound() {
    for (bound, estimate) in [(400_000, 400_000), (5_000_000, RATE)] {
        let mut f = Flow::at(Mode::ProbeBwCruise);
        f.s.bw_shortterm = bw(bound);
        f.more(100_000);
        assert_eq!((rate_of(f.s.bw), rate_of(f.s.max_bw)), (estimate, RATE));
    }
}

#[test]
fn st_09_only_refill_and_the_end_of_probe_rtt_unset_it() {
    let bounds = |f: &Flow| (f.s.bw_shortterm, f.s.inflight_shortterm);
    let plant = |f: &mut Flow| (f.s.bw_shortterm, f.s.inflight_shortterm) = (bw(RATE), 50_000);
    let unset = (BBR3_INFINITY, BBR3_INFINITY);
    for (from, to) in [
        (Mode::Drain, Mode::ProbeBwDown),
        (Mode::ProbeBwDown, Mode::ProbeBwCruise),
        (Mode::ProbeBwUp, Mode::ProbeBwDown),
        (Mode::ProbeBwUp, Mode::ProbeRtt),
    ] {
        let mut f = Flow::at(from);
        plant(&mut f);
        f.go(to);
        assert_eq!(bounds(&f), (bw(RATE), 50_000), "{from:?} to {to:?}");
    }
    let mut f = Flow::at(Mode::ProbeBwCruise);
    plant(&mut f);
    f.go(Mode::ProbeBwRefill);
    assert_eq!(bounds(&f), unset);
    f.go(Mode::ProbeRtt);
    plant(&mut f);
    f.c.inflight = 4 * MSS;
    while f.s.state == Mode::ProbeRtt {
        assert_eq!(bounds(&f), (bw(RATE), 50_000));
        f.ack(RATE);
    }
    assert_eq!(bounds(&f), unset);
}

#[test]
fn st_10_a_link_ten_times_slower_is_found_within_seven_lossy_rounds() {
    let w = Whole::bulk("100mbit 40ms queue=20pkt @6s 10mbit", 8);
    let (mut cuts, mut bound) = (Vec::new(), BBR3_INFINITY);
    for a in w.acks(6 * SECOND_US, 8 * SECOND_US).take_while(|a| a.s.state == Mode::ProbeBwCruise) {
        if a.s.bw_shortterm < bound {
            cuts.push(rate_of(a.s.bw_shortterm));
            bound = a.s.bw_shortterm;
        }
    }
    let new_rate = payload_rate(10_000_000);
    let found = cuts.iter().position(|rate| *rate * 10 <= 11 * new_rate).expect("the new rate");
    assert!((4..=6).contains(&found), "{cuts:?}");
    assert!(cuts[1..found].windows(2).all(|c| c[1] * 1000 <= 701 * c[0]), "{cuts:?}");
    assert!(cuts[cuts.len() - 1] >= new_rate * 9 / 10, "not below what arrives: {cuts:?}");
}
