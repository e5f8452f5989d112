//! APPL: application-limited marking (§4.1.1.3, §4.1.2.4). The simulator's transport marks; the kernel does so itself.

use super::driver::*;
use headway_cc::cc::{Ack, Event, NO_RTT, bbr3::*};
use headway_cc::sampler::Sampler;
use headway_cc::sim::{FlowSpec, Source};

/// The events of one bbr3 flow with this source.
fn run(path: &str, source: Source, seconds: u64) -> Vec<Step> {
    steps(&simulate(path, vec![FlowSpec { source, ..FlowSpec::bulk("bbr3") }], seconds).flows[0])
}

/// Of ACKs: whether the connection was marked.
fn marks(steps: &[Step]) -> Vec<bool> {
    steps.iter().filter(|s| s.ack.event == Event::Ack).map(|s| s.ack.is_app_limited).collect()
}

#[test]
fn appl_01_marked_only_when_nothing_else_limits() {
    let first = |bytes| marks(&run("10mbit 40ms", Source::Finite { bytes }, 3))[0];
    assert!(first(9 * 1_448), "nine segments of a window of ten");
    assert!(!first(10 * 1_448), "the window is full");
    assert!(!first(11 * 1_448), "something waits to be sent");
    // All ten are lost; until they are retransmitted it is not the application that keeps the flow.
    let steps = run("10mbit 40ms @20ms loss=100% @900ms loss=0%", Source::Finite { bytes: 10 * 1_448 }, 5);
    assert!(steps.iter().any(|s| s.ack.event == Event::Loss));
    assert!(!marks(&steps)[0]);
}

#[test]
fn appl_02_the_mark_is_never_zero() {
    let mut s = Sampler::default();
    s.mark_app_limited();
    assert!(s.is_app_limited());
    assert!(s.on_sent(0, 1_200).is_app_limited);
}

#[test]
fn appl_03_cleared_strictly_beyond_the_mark() {
    let mut s = Sampler::default();
    let first = s.on_sent(0, 1_200);
    s.mark_app_limited();
    let second = s.on_sent(100, 1);
    for (packet, is_app_limited) in [(first, true), (second, false)] {
        let mut ack = Ack::default();
        s.begin();
        s.on_delivered(40_000, &packet, true);
        s.fill(&mut ack, NO_RTT);
        assert_eq!(ack.is_app_limited, is_app_limited, "{} delivered", ack.delivered);
    }
}

#[test]
fn appl_04_looked_at_on_writes_acks_and_timers() {
    // Writes: each message after a pause is marked from its first packet on.
    let steps = run("10mbit 40ms", Source::Messages { bytes: 3_000, interval_us: 200_000 }, 3);
    let acks: Vec<&Step> = steps.iter().filter(|s| s.ack.event == Event::Ack).collect();
    assert!(acks.len() >= 10);
    assert!(acks.iter().skip(3).all(|s| s.ack.rs_is_app_limited));
    // ACKs: a window that was full is marked by the ACK that makes room, while the rest is still in flight.
    let steps = run("1mbit 40ms queue=infinite", Source::Finite { bytes: 10 * 1_448 }, 3);
    let flags = marks(&steps);
    assert!(flags.len() >= 4 && !flags[0] && flags[1..].iter().all(|f| *f), "{flags:?}");
    // Timers: what a timer sends after everything else was delivered or lost is marked.
    let steps = run(
        "10mbit 40ms @210ms loss=100% @1s loss=0%",
        Source::Messages { bytes: 1_448, interval_us: 200_000 },
        4,
    );
    let lost = steps.iter().position(|s| s.ack.event == Event::Loss).expect("a timeout");
    let after = steps[lost..].iter().find(|s| s.ack.event == Event::Ack).expect("an ACK");
    assert!(after.ack.rs_is_app_limited);
}

#[test]
fn appl_05_waiting_for_the_pacer_is_not_the_application() {
    let steps = run("10mbit 40ms queue=2bdp", Source::Bulk, 4);
    assert!(steps.iter().filter(|s| s.ack.edt_us > 500).count() > 100, "the pacer delays");
    assert!(steps.iter().all(|s| s.s.state != Mode::ProbeRtt));
    assert!(steps.iter().all(|s| (s.ack.is_app_limited, s.ack.rs_is_app_limited) == (false, false)));
}

#[test]
fn appl_06_a_low_sample_of_an_idle_application_is_dropped() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    for (rate, max_bw) in [(975_000, RATE), (RATE, RATE), (1_025_000, 1_025_000)] {
        f.more_with(rate, |a| a.rs_is_app_limited = true);
        assert_eq!(rate_of(f.s.max_bw), max_bw);
    }
}

#[test]
fn appl_07_such_rounds_never_fill_the_pipe() {
    for state in [Mode::Startup, Mode::ProbeBwUp] {
        let mut f = Flow::at(state);
        f.ack(RATE);
        for _ in 0..100 {
            f.s.probe_rtt_min_stamp = f.c.now_us;
            f.ack_with(RATE, |a| a.rs_is_app_limited = true);
            assert_eq!((f.s.state, f.s.full_bw_now), (state, false));
        }
    }
    let steps = run("10mbit 40ms", Source::Messages { bytes: 3_000, interval_us: 20_000 }, 20);
    assert!(steps.iter().all(|s| s.s.state == Mode::Startup || s.s.state == Mode::ProbeRtt));
    assert_eq!(steps[steps.len() - 1].s.state, Mode::Startup);
}

#[test]
fn appl_08_probe_rtt_marks_itself_application_limited() {
    for &state in &Mode::ALL[1..] {
        let mut f = Flow::at(state);
        f.c.inflight = f.c.inflight.max(30_000); // too much for ProbeRTT to end
        for _ in 0..3 {
            assert_eq!(f.more(RATE).mark_app_limited, state == Mode::ProbeRtt);
        }
    }
    let steps = run("10mbit 40ms queue=2bdp", Source::Bulk, 8);
    let first = steps.iter().position(|s| s.s.state == Mode::ProbeRtt).expect("it comes");
    let end = first + steps[first..].iter().position(|s| s.s.state != Mode::ProbeRtt).expect("it ends");
    let acks: Vec<bool> = steps[first..end].iter().map(|s| s.ack.rs_is_app_limited).collect();
    assert!(steps[first..end].iter().all(|s| s.ack.event != Event::Ack || s.control.mark_app_limited));
    assert!(acks.last() == Some(&true) && acks.iter().filter(|flag| **flag).count() * 2 > acks.len());
}
