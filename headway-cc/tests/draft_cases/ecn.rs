//! ECN (§3.7).

use crate::SPEC;
use crate::driver::{Flow, MSS, RATE, bw, rate_of};
use crate::whole::Whole;
use headway_cc::cc::bbr3::*;
use headway_cc::cc::fixed::GAIN_UNIT;

/// In CRUISE with a window of 60,000, over 1 ms, answering marks as Linux does.
fn near() -> Flow {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.p.ecn = true;
    (f.s.min_rtt_us, f.s.probe_rtt_min_delay_us) = (1_000, 1_000);
    // 60 kB of BDP, so that the next probe is far.
    (f.s.max_bw_0, f.s.max_bw, f.s.bw) = (bw(60 * RATE), bw(60 * RATE), bw(60 * RATE));
    f.ack(RATE / 2);
    f.c.cwnd = 60_000;
    f
}

#[test]
fn ecn_01_the_documentation_says_which_answer_is_given() {
    let section = SPEC.split("### ECN (§3.7)").nth(1).expect("a section on ECN");
    let section = section.split("\n### ").next().expect("its text");
    for word in ["`ecn` = 0", "`ecn` = 1", "5 ms", "counts as lost", "not be ECT"] {
        assert!(section.contains(word), "nothing on {word}");
    }
    assert!(!Bbr3Params::default().ecn);
}

#[test]
fn ecn_02_a_mark_is_a_sign_of_congestion() {
    // Every tenth segment of a round in CRUISE is marked.
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.ack(600_000);
    f.c.cwnd = 80_000;
    for n in 0..10 {
        f.c.delivered_ce += if n == 5 { MSS } else { 0 };
        f.more(600_000);
    }
    assert!(f.s.is_loss_in_round);
    f.c.cwnd = 80_000;
    f.ack(600_000);
    assert_eq!((rate_of(f.s.bw_shortterm), f.s.inflight_shortterm), (700_000, 56_000));
    // A probe whose sample is marked above 2 % is over.
    for (marked, state) in [(1_200, Mode::ProbeBwUp), (1_201, Mode::ProbeBwDown)] {
        let mut f = Flow::at(Mode::ProbeBwUp);
        f.c.inflight = 60_000;
        f.more_with(RATE, |a| a.rs_delivered_ce = marked);
        assert_eq!(f.s.state, state);
    }
    let w = Whole::bulk("20mbit 40ms queue=10bdp ce=2ms", 10);
    assert!(w.steps.iter().any(|s| s.s.inflight_longterm < BBR3_INFINITY), "{}", w.story());
    assert!(w.steps.iter().any(|s| s.s.inflight_shortterm < BBR3_INFINITY), "{}", w.story());
    assert!(w.steps.iter().all(|s| s.ack.lost == 0), "marks alone did it");
}

#[test]
fn ecn_04_the_answer_of_linux_is_a_third_of_what_is_marked() {
    // No marks: the average falls by a sixteenth a loss round; all marked: it stays.
    let mut f = near();
    f.s.ecn_alpha = GAIN_UNIT;
    (f.s.alpha_last_delivered, f.s.alpha_last_delivered_ce) = (f.c.delivered, f.c.delivered_ce);
    f.ack(RATE / 2);
    assert_eq!(f.s.ecn_alpha, GAIN_UNIT * 15 / 16);
    f.c.delivered_ce += MSS;
    f.c.cwnd = 60_000;
    f.ack(RATE / 2);
    // 15/16 again, and a sixteenth for a round that was marked whole; the cut is a third of that.
    let alpha = GAIN_UNIT * 225 / 256 + GAIN_UNIT / 16;
    assert!(f.s.ecn_alpha.abs_diff(alpha) <= 2, "{} {alpha}", f.s.ecn_alpha);
    let cut = 60_000 * 241 / 256 / 3;
    assert!(f.s.inflight_shortterm.abs_diff(60_000 - cut) <= 3, "{} {cut}", f.s.inflight_shortterm);
    assert_eq!(f.s.bw_shortterm, BBR3_INFINITY, "marks do not touch the bandwidth");
    // More than half of a sample is too much; and above 5 ms a mark is a loss.
    for (rtt_us, marked_per_cent, state) in [
        (1_000, 50, Mode::ProbeBwUp),
        (1_000, 51, Mode::ProbeBwDown),
        (5_000, 50, Mode::ProbeBwUp),
        (5_001, 50, Mode::ProbeBwDown),
    ] {
        let mut f = Flow::at(Mode::ProbeBwUp);
        (f.p.ecn, f.c.inflight) = (true, 60_000);
        (f.s.min_rtt_us, f.s.probe_rtt_min_delay_us) = (rtt_us, rtt_us);
        f.more_with(RATE, |a| a.rs_delivered_ce = a.rs_delivered * marked_per_cent / 100);
        assert_eq!(f.s.state, state, "{rtt_us} {marked_per_cent}");
    }
}

/// A round that was marked whole, with an average of 1, costs a third of 60,000. Rounds without marks cost nothing
/// more: the average falls, but there is nothing to answer.
#[test]
fn ecn_04_one_marked_round_is_answered_once() {
    let mut f = near();
    f.s.ecn_alpha = GAIN_UNIT;
    (f.s.alpha_last_delivered, f.s.alpha_last_delivered_ce) = (f.c.delivered, f.c.delivered_ce);
    f.c.delivered_ce += MSS;
    f.c.cwnd = 60_000;
    f.ack(RATE / 2);
    let bound = f.s.inflight_shortterm;
    assert!(bound.abs_diff(40_000) <= 2, "{bound}");
    for round in 1..=5 {
        f.more(RATE / 2);
        f.ack(RATE / 2);
        assert_eq!((f.s.state, f.s.inflight_shortterm), (Mode::ProbeBwCruise, bound), "round {round}");
    }
    assert!(f.s.ecn_alpha < GAIN_UNIT * 3 / 4, "(15/16)^5 is 0.724: {}", f.s.ecn_alpha);
    // Nor does the next phase answer for the marks of a probe that loss has ended in the same round.
    let mut f = near();
    f.go(Mode::ProbeBwUp);
    f.c.delivered_ce += 1;
    f.more(RATE / 2);
    assert!(f.s.is_ce_in_round);
    f.lose(3 * MSS, 60_000);
    assert_eq!(f.s.state, Mode::ProbeBwDown);
    f.ack(RATE / 2);
    assert_eq!((f.s.state, f.s.inflight_shortterm), (Mode::ProbeBwCruise, BBR3_INFINITY));
}

#[test]
fn ecn_04_two_rounds_of_marks_end_startup() {
    // The first ACK ends no loss round: its flight has not been seen whole.
    for (marked, want) in [(MSS, Some(3)), (MSS / 2, Some(3)), (MSS / 2 - 1, None)] {
        let p = Bbr3Params { ecn: true, ..Bbr3Params::default() };
        let mut f = Flow::init(p, |c| (c.srtt_us, c.min_rtt_us) = (1_000, 1_000));
        (f.rtt_us, f.rate) = (1_000, RATE);
        let ended = (1..9).find(|_| {
            f.c.delivered_ce += marked;
            f.rate = f.rate * 13 / 10;
            f.ack(f.rate);
            f.s.full_bw_reached
        });
        assert_eq!(ended, want, "{marked} of {MSS}");
    }
}
