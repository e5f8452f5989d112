//! ROUND: packet-timed rounds (§5.5.1).

use super::driver::*;
use headway_cc::cc::Event;
use headway_cc::cc::bbr3::*;

#[test]
fn round_01_starts_with_data_sent_after_the_mark() {
    let mut f = Flow::new();
    for round in 1..=5 {
        f.flight(10, RATE);
        assert_eq!(f.s.round_count, round);
    }
    // The mark itself belongs to the new round, a byte less to the old one.
    let mark = f.s.next_round_delivered;
    f.ack_with(RATE, |a| a.rs_prior_delivered = mark - 1);
    assert_eq!((f.s.round_start, f.s.round_count), (false, 5));
    f.ack_with(RATE, |a| a.rs_prior_delivered = mark);
    assert_eq!((f.s.round_start, f.s.round_count), (true, 6));
}

#[test]
fn round_02_what_a_round_start_counts() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    let before = f.s;
    f.ack(RATE);
    assert_eq!(f.s.next_round_delivered, f.c.delivered);
    assert_eq!(f.s.round_count, before.round_count + 1);
    assert_eq!(f.s.rounds_since_probe_up, before.rounds_since_probe_up + 1);
    assert!(f.s.round_start);
    f.more(RATE);
    assert_eq!((f.s.round_start, f.s.round_count), (false, before.round_count + 1));
}

#[test]
fn round_03_silence_is_no_round() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    let rounds = f.s.round_count;
    f.c.now_us += 60_000_000;
    (f.c.inflight, f.c.is_app_limited) = (0, true);
    f.tell(Event::TxStart);
    assert_eq!(f.s.round_count, rounds);
    f.more(RATE);
    assert_eq!(f.s.round_count, rounds);
}

#[test]
fn round_04_phases_restart_the_round() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    let sent_before = f.c.delivered;
    f.go(Mode::ProbeBwRefill);
    assert_eq!(f.s.next_round_delivered, f.c.delivered);
    f.ack_with(RATE, |a| a.rs_prior_delivered = sent_before);
    assert_eq!(f.s.state, Mode::ProbeBwRefill, "a packet sent before REFILL");
    f.ack(RATE);
    assert_eq!((f.s.state, f.s.next_round_delivered), (Mode::ProbeBwUp, f.c.delivered));
    f.c.delivered += 50_000;
    f.lose(60_000, 60_000);
    assert_eq!((f.s.state, f.s.next_round_delivered), (Mode::ProbeBwDown, f.c.delivered));
    let mut f = Flow::at(Mode::ProbeRtt);
    assert_eq!(f.s.next_round_delivered, f.c.delivered);
    f.more(RATE);
    assert!(f.s.probe_rtt_done_stamp == 0 && f.s.next_round_delivered < f.c.delivered);
    f.c.inflight = 20_000;
    f.more(RATE);
    assert!(f.s.probe_rtt_done_stamp > 0);
    assert_eq!(f.s.next_round_delivered, f.c.delivered, "the clock of ProbeRTT is armed");
}

#[test]
fn round_05_one_ack_is_at_most_one_round() {
    let mut f = Flow::new();
    f.flight(10, RATE);
    // Twenty packets, ten from each side of the mark: the newest decides.
    let mark = f.s.next_round_delivered;
    f.c.delivered += 19 * MSS;
    f.ack_with(RATE, |a| (a.newly_acked, a.rs_prior_delivered) = (20 * MSS, mark + 9 * MSS));
    assert_eq!(f.s.round_count, 2);
    assert_eq!(f.s.next_round_delivered, 30 * MSS);
}
