//! MAXBW: the bandwidth filter (§5.5.2 to §5.5.6).

use super::driver::*;
use headway_cc::cc::Event;
use headway_cc::cc::bbr3::*;

#[test]
fn maxbw_01_which_samples_count() {
    for (rate, is_app_limited, max_bw) in [
        (2 * RATE, false, 2 * RATE),
        (2 * RATE, true, 2 * RATE),
        (RATE, true, RATE),
        (RATE / 2, true, RATE),
        (0, false, RATE),
        (0, true, RATE),
    ] {
        let mut f = Flow::at(Mode::ProbeBwCruise);
        f.ack_with(rate, |a| a.rs_is_app_limited = is_app_limited);
        assert_eq!(rate_of(f.s.max_bw), max_bw, "{rate} {is_app_limited}");
    }
    // A low sample enters the slot of its cycle only when the application was not the limit.
    for (is_app_limited, slot) in [(false, 500_000), (true, 0)] {
        let mut f = Flow::at(Mode::ProbeBwCruise);
        f.s.max_bw_1 = 0;
        f.ack_with(RATE / 2, |a| a.rs_is_app_limited = is_app_limited);
        assert_eq!(rate_of(f.s.max_bw_1), slot);
    }
}

/// Rounds of 10 ms at 10 MB/s, which probe every 62 or 63 rounds, until UP has ended `cycles` times; with what
/// the filter and the states did.
fn run_cycles(cycles: u64, has_probe_rtt: bool) -> (u64, u64, u64) {
    let mut f = Flow::over(10_000, 10 * RATE);
    f.go(Mode::ProbeBwCruise);
    f.c.inflight = 40_000; // low enough for ProbeRTT
    let (advances, mut ups, mut probe_rtts) = (f.s.cycle_count, 0, 0);
    while ups < cycles {
        if !has_probe_rtt {
            f.s.probe_rtt_min_stamp = f.c.now_us;
        }
        f.c.cwnd = 200_000;
        let before = f.s.state;
        f.ack(10 * RATE);
        f.more(10 * RATE);
        ups += u64::from(before == Mode::ProbeBwUp && f.s.state != before && f.s.state != Mode::ProbeRtt);
        probe_rtts += u64::from(before == Mode::ProbeRtt && f.s.state != before);
    }
    f.ack(10 * RATE);
    (f.s.cycle_count - advances, probe_rtts, f.s.round_count)
}

#[test]
fn maxbw_02_the_filter_advances_once_a_cycle() {
    let (advances, probe_rtts, rounds) = run_cycles(20, false);
    assert_eq!((advances, probe_rtts), (20, 0));
    assert!(rounds > 20 * 60, "{rounds}");
    let (advances, probe_rtts, _) = run_cycles(20, true);
    assert!(probe_rtts >= 2);
    assert_eq!(advances, 20 + probe_rtts, "an exit of ProbeRTT starts a cycle too");
    // Drain's end is the first.
    assert_eq!(Flow::at(Mode::Drain).s.cycle_count, 0);
    assert_eq!(Flow::at(Mode::ProbeBwDown).s.cycle_count, 1);
}

#[test]
fn maxbw_03_cruise_does_not_advance_it() {
    let mut f = Flow::over(10_000, 10 * RATE);
    f.go(Mode::ProbeBwCruise);
    f.c.cwnd = 200_000;
    let before = (f.s.cycle_count, f.s.max_bw);
    for _ in 0..50 {
        f.ack(RATE);
        f.c.cwnd = 200_000;
        assert_eq!((f.s.state, f.s.ack_phase), (Mode::ProbeBwCruise, AckPhase::Init));
    }
    assert_eq!((f.s.cycle_count, f.s.max_bw), before);
}

#[test]
fn maxbw_04_an_application_limited_round_misses_its_chance() {
    for (is_app_limited, advances) in [(true, 0), (false, 1)] {
        let mut f = Flow::at(Mode::ProbeBwUp);
        f.go(Mode::ProbeBwDown);
        assert_eq!(f.s.ack_phase, AckPhase::ProbeStopping);
        let before = f.s.cycle_count;
        f.ack_with(RATE, |a| a.rs_is_app_limited = is_app_limited);
        assert_eq!((f.s.cycle_count - before, f.s.ack_phase), (advances, AckPhase::Init));
        f.ack(RATE);
        assert_eq!(f.s.cycle_count - before, advances, "not a round later");
    }
}

#[test]
fn maxbw_05_a_value_leaves_after_two_cycles() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.rate = 400_000;
    let mut seen = vec![rate_of(f.s.max_bw)];
    for _ in 0..2 {
        f.go(Mode::ProbeBwCruise);
        seen.push(rate_of(f.s.max_bw));
        f.go(Mode::ProbeBwUp);
    }
    assert_eq!(seen, [1_000_000, 1_000_000, 400_000]);
}

#[test]
fn maxbw_06_a_slower_link_is_believed_after_two_cycles() {
    let steps = alone("100mbit 40ms queue=1bdp @10s 10mbit", 30);
    let rate = |bw| rate_of(bw) * 8 / 1_000_000;
    let (_, after) = steps.split_at(steps.partition_point(|step| step.ack.now_us < 10_000_000));
    let change = &after[0];
    assert!(rate(change.s.max_bw) >= 90, "{}", rate(change.s.max_bw));
    let believed = after.iter().find(|step| rate(step.s.max_bw) <= 11).expect("the filter forgets");
    assert_eq!(believed.s.cycle_count - change.s.cycle_count, 2);
    let after_us = believed.ack.now_us - 10_000_000;
    assert!((2_000_000..=8_000_000).contains(&after_us), "{after_us} us");
}

#[test]
fn maxbw_07_an_empty_cycle_pushes_nothing_out() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    for _ in 0..3 {
        f.go(Mode::ProbeBwDown);
        (f.s.max_bw_1, f.c.inflight) = (0, 30_000); // no sample in this cycle
        let before = f.s.cycle_count;
        f.ack(0);
        assert_eq!((f.s.cycle_count, rate_of(f.s.max_bw)), (before + 1, RATE));
        f.go(Mode::ProbeBwUp);
    }
}

#[test]
fn maxbw_08_old_maxima_outlive_idle_applications() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.c.inflight = 4_000;
    let (since_us, mut states) = (f.c.now_us, [0; 8]);
    while f.c.now_us < since_us + 60_000_000 {
        f.ack_with(RATE / 10, |a| a.rs_is_app_limited = true);
        states[f.s.state as usize] += 1;
        assert_eq!(rate_of(f.s.max_bw), RATE);
    }
    assert!(states[Mode::ProbeBwUp as usize] > 0 && states[Mode::ProbeRtt as usize] > 0, "{states:?}");
}

#[test]
fn maxbw_02_holds_over_a_whole_connection() {
    // 12 Mbit/s over 40 ms: Reno's rounds probe every 1.6 s, ProbeRTT comes every 5 s.
    let steps = alone("12mbit 40ms queue=2bdp", 60);
    let acks: Vec<&Step> = steps.iter().filter(|step| step.ack.event == Event::Ack).collect();
    let starts = acks.windows(2).filter(|w| w[0].s.cycle_stamp != w[1].s.cycle_stamp).count() as u64;
    let last = acks.last().expect("there are ACKs").s;
    assert!(last.round_count >= 1_000 && starts >= 15, "{starts} {}", last.round_count);
    assert!(last.cycle_count <= starts && last.cycle_count + 15 >= starts, "{} {starts}", last.cycle_count);
}
