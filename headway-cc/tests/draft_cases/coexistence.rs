//! COEX: when to probe (§5.3.3.8).

use super::driver::*;
use headway_cc::cc::Event;
use headway_cc::cc::bbr3::*;
use headway_cc::sim::FlowSpec;

/// Rounds from the entry of DOWN to REFILL, with this window in force.
fn rounds_between_probes(f: &mut Flow, cwnd: u64) -> u64 {
    f.go(Mode::ProbeBwUp);
    f.go(Mode::ProbeBwDown);
    f.c.inflight = 0;
    let before = f.s.round_count;
    while f.s.state != Mode::ProbeBwRefill {
        f.c.cwnd = cwnd;
        f.ack(f.rate);
    }
    f.s.round_count - before
}

#[test]
fn coex_01_by_time_or_by_rounds() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.c.now_us = f.s.cycle_stamp + f.s.bw_probe_wait_us - 1_000;
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwCruise, "not later than the wait");
    f.c.now_us -= 999;
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwRefill);
    // A BDP of 33 packets: 33 rounds of 40 ms are less than the 2 s of the wait.
    let mut f = Flow::at(Mode::ProbeBwCruise);
    assert_eq!(rounds_between_probes(&mut f, 80_000), 33);
    assert!(f.c.now_us < f.s.cycle_stamp + f.s.bw_probe_wait_us);
    // 83 packets: 63 rounds.
    let mut f = Flow::over(10_000, 10 * RATE);
    assert_eq!(rounds_between_probes(&mut f, 200_000), 63);
}

#[test]
fn coex_02_the_rounds_are_those_of_the_smaller_of_bdp_and_window() {
    for (cwnd, rounds) in [(12_000, 10), (24_000, 20), (39_600, 33), (200_000, 33)] {
        let mut f = Flow::at(Mode::ProbeBwCruise);
        assert_eq!(rounds_between_probes(&mut f, cwnd), rounds);
    }
    // In packets the count is the same.
    let mut f = Flow::init(Bbr3Params::default(), |c| (c.unit_bytes, c.smss, c.cwnd) = (MSS, 1, 10));
    f.rate = 30 * RATE / 25;
    assert_eq!(rounds_between_probes(&mut f, 100), 40);
}

/// Microseconds from the entry of DOWN to REFILL, each time.
fn waits_us(path: &str, seconds: u64) -> Vec<u64> {
    let steps = alone(path, seconds);
    let states = steps.windows(2).filter(|w| w[0].s.state != w[1].s.state);
    let refills = states.map(|w| &w[1]).filter(|step| step.s.state == Mode::ProbeBwRefill);
    refills.map(|step| step.ack.now_us - step.s.cycle_stamp).collect()
}

#[test]
fn coex_03_how_long_cycles_are() {
    // Ten packets of BDP: every 10 rounds, and what UP and REFILL take.
    let mut f = Flow::over(10_000, 1_200_000);
    let rounds = rounds_between_probes(&mut f, 50_000);
    assert!((9..=10).contains(&rounds), "{rounds}");
    // 86 packets at 10 ms: 63 rounds, 0.63 s or a little more; at 100 ms 2 to 3 s come first.
    for (path, least, most) in
        [("100mbit 10ms queue=2bdp", 620_000, 750_000), ("100mbit 100ms queue=2bdp", 2_000_000, 3_100_000)]
    {
        let waits = waits_us(path, 20);
        assert!(waits.len() >= 4, "{path}: {waits:?}");
        assert!(waits.iter().all(|us| (least..=most).contains(us)), "{path}: {waits:?}");
    }
}

#[test]
fn coex_04_drawn_anew_at_every_down() {
    let wait = |f: &Flow| (f.s.bw_probe_wait_us, f.s.rounds_since_probe_up);
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.lose_with(6_000, 60_000, |a| a.rand = u64::from(u32::MAX));
    assert_eq!(wait(&f), (2_999_999, 1));
    f.go(Mode::ProbeBwUp);
    f.lose_with(6_000, 60_000, |a| a.rand = 0x4000_0000);
    assert_eq!(wait(&f), (2_250_000, 0));
    // The DOWN inside the end of ProbeRTT draws too.
    f.go(Mode::ProbeRtt);
    f.c.rand = 0xc000_8000;
    f.go(Mode::ProbeBwCruise);
    assert_eq!((wait(&f), f.s.cycle_stamp), ((2_750_007, 1), f.c.now_us));
}

#[test]
fn coex_05_a_cubic_flow_beside_it() {
    let flows = vec![FlowSpec::bulk("bbr3"), FlowSpec::bulk("cubic")];
    let run = simulate("25mbit 30ms queue=1bdp", flows, 60);
    let bytes: Vec<u64> = run.flows.iter().map(|f| f.delivered_bytes).collect();
    let share = bytes[1] * 100 / (bytes[0] + bytes[1]);
    // The draft names no bound; starved is less than a fifth of an equal share.
    assert!((10..=90).contains(&share), "CUBIC has {share} %");
    let losses = steps(&run.flows[0]).iter().filter(|s| s.ack.event == Event::Lost).count();
    assert!(losses > 0, "they share the queue");
}
