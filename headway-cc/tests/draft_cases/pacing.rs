//! PACE: pacing (§5.6.2).

use crate::driver::{Flow, RATE, assert_near, bw};
use crate::whole::{SECOND_US, SEGMENT};
use headway_cc::cc::bbr3::*;
use headway_cc::sim::{FlowRun, FlowSpec, SimSpec, Source, run};

/// A simulated flow with bins of 1 ms, 20 Mbit/s over 40 ms.
fn paced(words: &str, source: Source) -> FlowRun {
    let flow = FlowSpec { source, ..FlowSpec::bulk("bbr3") };
    let path = format!("20mbit 40ms queue=1bdp {words}").parse().expect("a path");
    let mut spec = SimSpec::new(path, vec![flow], 12 * SECOND_US, 1);
    (spec.bin_us, spec.probe_interval_us) = (1_000, 0);
    run(&spec).expect("a run").flows.remove(0)
}

/// Demands that no span of so many milliseconds from a second on has seen more than the rate allows and one burst:
/// a quantum, the half that lateness is made up for by, and a tail loss probe. The number of spans that came close.
fn check_pacing(flow: &FlowRun, ms: usize) -> usize {
    let bins = &flow.bins[1_000..];
    let mut close = 0;
    for span in bins.windows(ms) {
        let sent: u64 = span.iter().map(|b| b.sent_bytes).sum();
        let rate = span.iter().map(|b| b.pacing_rate).max().expect("bins");
        let quantum = (rate / 1_000).max(2 * SEGMENT);
        let allowed = rate * ms as u64 / 1_000;
        assert!(
            sent <= allowed + quantum * 3 / 2 + SEGMENT,
            "{sent} of {allowed} in {ms} ms at {}",
            span[0].t_us
        );
        close += usize::from(sent * 10 >= allowed * 9);
    }
    close
}

#[test]
fn pace_01_each_state_has_its_rate() {
    for (state, rate) in [
        (Mode::Startup, 2_742_300),
        (Mode::Drain, 495_000),
        (Mode::ProbeBwDown, 891_000),
        (Mode::ProbeBwCruise, 990_000),
        (Mode::ProbeBwRefill, 990_000),
        (Mode::ProbeBwUp, 1_237_500),
        (Mode::ProbeRtt, 990_000),
    ] {
        let mut f = Flow::at(state);
        if state == Mode::Startup {
            f.ack(RATE);
        }
        assert_eq!(f.s.state, state);
        assert_near(f.c.pacing_rate, rate, 1);
    }
}

#[test]
fn pace_02_before_the_pipe_was_full_the_rate_only_rises() {
    let mut f = Flow::at(Mode::Startup);
    f.ack(RATE);
    let high = f.c.pacing_rate;
    f.s.max_bw_1 = bw(RATE / 2);
    f.ack_with(RATE / 2, |a| a.rs_is_app_limited = true);
    assert_eq!((f.c.pacing_rate, f.s.max_bw), (high, bw(RATE)));
    (f.s.max_bw, f.s.max_bw_1) = (0, 0);
    f.ack(RATE / 2);
    assert_eq!((f.c.pacing_rate, f.s.max_bw), (high, bw(RATE / 2)));
    f.s.full_bw_reached = true;
    f.c.inflight = 90_000;
    f.ack(RATE / 2);
    assert_eq!(f.s.state, Mode::Drain);
    assert_near(f.c.pacing_rate, 247_500, 1);
}

#[test]
fn pace_03_a_burst_after_idleness_is_spread() {
    let flow = paced("", Source::OnOff { on_us: 500_000, off_us: 500_000 });
    assert!(check_pacing(&flow, 10) > 500, "the rate was made use of");
    // A second after idleness nothing is owed: the first 5 ms bring 5 ms worth of the rate and one burst.
    let restart = flow.bins.iter().position(|b| b.t_us == 5 * SECOND_US).expect("a bin");
    assert_eq!(flow.bins[restart - 50..restart].iter().map(|b| b.sent_bytes).sum::<u64>(), 0);
    let sent: u64 = flow.bins[restart..restart + 5].iter().map(|b| b.sent_bytes).sum();
    let rate = flow.bins[restart].pacing_rate;
    assert!(sent >= SEGMENT && sent <= rate * 5 / 1_000 + 3 * SEGMENT, "{sent} at {rate}");
}

#[test]
fn pace_04_no_span_brings_more_than_the_rate_and_a_quantum() {
    let flow = paced("", Source::Bulk);
    for ms in [10, 20, 100] {
        assert!(check_pacing(&flow, ms) > 5_000, "{ms} ms: the rate was made use of");
    }
}

#[test]
fn pace_05_retransmissions_are_paced() {
    let flow = paced("loss=burst:3%/20", Source::Bulk);
    assert!(flow.retransmitted_packets > 300, "{}", flow.retransmitted_packets);
    check_pacing(&flow, 10);
    let again = flow.bins.iter().filter(|b| b.retransmitted_packets > 0);
    let most = again.clone().map(|b| b.retransmitted_packets).max().expect("retransmissions");
    assert!(most <= 6, "{most} in a millisecond that has room for 3");
    assert!(again.count() > 100, "spread");
}

#[test]
fn pace_06_without_an_estimate_the_rate_stays() {
    for full_bw_reached in [false, true] {
        let mut f = Flow::new();
        f.s.full_bw_reached = full_bw_reached;
        f.ack(0);
        assert_eq!((f.s.bw, f.s.max_bw), (0, 0));
        assert_near(f.c.pacing_rate, 831_000, 1);
    }
}
