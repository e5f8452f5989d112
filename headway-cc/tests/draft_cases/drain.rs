//! DRAIN (§5.3.2).

use super::driver::*;
use headway_cc::cc::bbr3::*;

#[test]
fn drain_01_entry() {
    let mut f = Flow::at(Mode::Drain);
    assert_near(f.c.pacing_rate, 495_000, 1);
    assert_eq!((f.s.round_count, f.s.drain_start_round), (4, 4));
    f.c.cwnd = 1 << 20;
    let control = f.more_with(RATE, |a| a.newly_acked = 1);
    assert_eq!(control.cwnd, 81_200, "2 BDP and one ACK beyond expectation");
}

#[test]
fn drain_02_ends_at_one_bdp() {
    let mut f = Flow::at(Mode::Drain);
    f.c.inflight = 40_001;
    f.more(RATE);
    assert_eq!(f.s.state, Mode::Drain);
    // A bandwidth bound for the short term does not prolong Drain.
    f.s.bw_shortterm = f.s.max_bw / 2;
    f.more(RATE);
    f.c.inflight = 40_000;
    f.more(RATE);
    assert!(f.s.state > Mode::Drain);
    // Four segments are no queue, however small the BDP.
    let mut f = Flow::over(RTT_US, 25_000);
    f.s.full_bw_reached = true;
    f.c.inflight = 4_801;
    f.ack(25_000);
    assert_eq!(f.s.state, Mode::Drain);
    f.c.inflight = 4_800;
    f.more(25_000);
    assert!(f.s.state > Mode::Drain);
}

#[test]
fn drain_03_ends_by_rounds() {
    let mut f = Flow::at(Mode::Drain);
    for _ in 0..3 {
        f.flight(20, RATE);
        assert_eq!(f.s.state, Mode::Drain);
    }
    for _ in 0..50 {
        f.more(RATE);
    }
    assert_eq!((f.s.state, f.c.inflight), (Mode::Drain, 80_000));
    f.ack(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwDown);
}

#[test]
fn drain_04_ends_in_down_with_all_that_belongs_to_it() {
    let mut f = Flow::at(Mode::Drain);
    f.s.inflight_longterm = 40_000; // no headroom yet, so that DOWN lasts
    (f.c.inflight, f.c.rand) = (38_000, u64::from(u32::MAX));
    let control = f.more(RATE);
    assert_eq!((f.s.state, f.s.ack_phase), (Mode::ProbeBwDown, AckPhase::ProbeStopping));
    assert_eq!((f.s.bw_probe_wait_us, f.s.rounds_since_probe_up), (2_999_999, 1));
    assert_eq!((f.s.cycle_stamp, f.s.next_round_delivered), (f.c.now_us, f.c.delivered));
    assert_near(control.pacing_rate, 891_000, 1);
}

#[test]
fn drain_05_losses_cut_the_short_term_bounds() {
    let mut f = Flow::at(Mode::Drain);
    f.c.cwnd = 80_000;
    f.ack(25_000);
    f.c.cwnd = 80_000;
    f.lose(1_200, 80_000);
    f.ack(25_000);
    assert_eq!(f.s.state, Mode::Drain);
    assert_near(rate_of(f.s.bw_shortterm), 700_000, 1);
    assert_eq!((f.s.inflight_shortterm, f.s.inflight_longterm), (56_000, BBR3_INFINITY));
}

#[test]
fn drain_06_the_long_term_bound_does_not_cap() {
    let mut f = Flow::at(Mode::Drain);
    (f.s.inflight_longterm, f.c.cwnd) = (10_000, 60_000);
    assert_eq!(f.more_with(RATE, |a| a.rs_tx_in_flight = 0).cwnd, 61_200);
    f.s.inflight_shortterm = 50_000;
    assert_eq!(f.more_with(RATE, |a| a.rs_tx_in_flight = 0).cwnd, 50_000);
}
