//! CONST: the draft's numbers (§2.5 to §2.16, §5.6.1).

use super::driver::*;
use headway_cc::cc::bbr3::*;
use headway_cc::rand::Rng;

/// The window when everything may be sent, without what aggregation added.
fn window(f: &mut Flow) -> u64 {
    f.c.cwnd = 1 << 30;
    f.more(RATE).cwnd - f.s.extra_acked
}

#[test]
fn const_01_startup_paces_at_2_77() {
    let mut f = Flow::new();
    assert_near(f.ack(RATE).pacing_rate, 2_742_300, 1);
    assert_eq!(f.s.state, Mode::Startup);
}

#[test]
fn const_02_drain_paces_at_half() {
    assert_near(Flow::at(Mode::Drain).c.pacing_rate, 495_000, 1);
}

#[test]
fn const_03_window_gains() {
    for state in [Mode::Drain, Mode::ProbeBwDown, Mode::ProbeBwCruise, Mode::ProbeBwRefill] {
        assert_eq!(window(&mut Flow::at(state)), 80_000, "state {state:?}");
    }
    assert_eq!(window(&mut Flow::at(Mode::ProbeBwUp)), 90_000 + 2_400);
    let mut f = Flow::at(Mode::ProbeRtt);
    f.c.cwnd = 1 << 30;
    assert_eq!(f.more(RATE).cwnd, 20_000);
    // Startup never cuts; it grows up to the same 80,000 bytes and what aggregation adds.
    let mut f = Flow::new();
    f.c.delivered = 12_000;
    f.ack(RATE);
    f.c.cwnd = 80_000 + f.s.extra_acked - 1;
    assert_eq!(f.more_with(RATE, |a| a.newly_acked = 1).cwnd, 80_000 + f.s.extra_acked);
    assert_eq!(f.more_with(RATE, |a| a.newly_acked = 1).cwnd, 80_000 + f.s.extra_acked);
}

#[test]
fn const_04_pacing_gains() {
    for (state, rate) in [
        (Mode::ProbeBwDown, 891_000),
        (Mode::ProbeBwCruise, 990_000),
        (Mode::ProbeBwRefill, 990_000),
        (Mode::ProbeBwUp, 1_237_500),
        (Mode::ProbeRtt, 990_000),
    ] {
        assert_near(Flow::at(state).c.pacing_rate, rate, 1);
    }
}

#[test]
fn const_05_pacing_margin() {
    for (rate, paced) in [(RATE, 990_000), (25_000, 24_750), (100_000_000, 99_000_000)] {
        let mut f = Flow::over(RTT_US, rate);
        f.go(Mode::ProbeBwCruise);
        assert_near(f.c.pacing_rate, paced, 1);
    }
}

#[test]
fn const_06_loss_threshold() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.lose(1_200, 60_000);
    assert_eq!(f.s.state, Mode::ProbeBwUp, "2 % exactly");
    f.lose(1_201, 60_000);
    assert_eq!(f.s.state, Mode::ProbeBwDown, "a byte more");
}

#[test]
fn const_07_a_cut_keeps_seven_tenths() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.ack(25_000);
    f.lose(1_200, 30_000);
    f.ack(25_000);
    assert_near(rate_of(f.s.bw_shortterm), 700_000, 1);
}

#[test]
fn const_08_headroom() {
    let mut f = Flow::over(RTT_US, 4 * RATE);
    f.go(Mode::ProbeBwCruise);
    f.c.inflight = 0;
    for (longterm, cwnd) in [(120_000, 102_000), (7_200, 6_000)] {
        f.s.inflight_longterm = longterm;
        f.c.cwnd = 1 << 30;
        assert_eq!(f.more(4 * RATE).cwnd, cwnd);
    }
}

#[test]
fn const_09_minimum_window() {
    let mut f = Flow::init(Bbr3Params::default(), |c| c.cwnd = MSS);
    assert_eq!(f.ack(RATE).cwnd, 4_800, "after one ACK");
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.s.inflight_shortterm = 1;
    assert_eq!(f.ack(RATE).cwnd, 4_800, "below every bound");
}

#[test]
fn const_10_the_bandwidth_filter_holds_two_cycles() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    f.rate = 400_000;
    let mut seen = Vec::new();
    for _ in 0..2 {
        f.go(Mode::ProbeBwCruise);
        seen.push(rate_of(f.s.max_bw));
        f.go(Mode::ProbeBwUp);
    }
    assert_eq!(seen, [1_000_000, 400_000]);
}

#[test]
fn const_11_extra_acked_window() {
    for (state, rounds) in [(Mode::Startup, 1), (Mode::ProbeBwCruise, 10)] {
        let mut f = Flow::at(state);
        f.ack(RATE);
        f.c.cwnd = 100_000;
        f.ack_with(RATE * 5 / 4, |a| a.newly_acked = 24_000);
        assert_eq!(f.s.extra_acked, 24_000);
        for round in 1..rounds {
            f.ack(RATE);
            assert_eq!(f.s.extra_acked, 24_000, "state {state:?}, round {round}");
        }
        f.ack(RATE);
        assert_eq!(f.s.extra_acked, 1_200, "state {state:?}: the window is over");
    }
}

#[test]
fn const_12_minimum_rtt_window() {
    let mut f = Flow::new();
    f.rtt_us = 60_000;
    f.ack(RATE);
    for (at_us, min_rtt_us) in [(5_060_001, 40_000), (10_000_000, 40_000), (10_000_001, 60_000)] {
        f.c.now_us = START_US + at_us - 1_000;
        f.more(RATE);
        assert_eq!(f.s.min_rtt_us, min_rtt_us, "after {at_us} us");
    }
}

#[test]
fn const_13_probe_rtt_window_and_length() {
    for (rtt_us, cwnd, length_us) in [(40_000, 20_000, 240_000), (400_000, 200_000, 400_000)] {
        let mut f = Flow::over(rtt_us, RATE);
        f.go(Mode::ProbeRtt);
        (f.c.inflight, f.c.cwnd) = (cwnd, 1 << 20);
        assert_eq!(f.more(RATE).cwnd, cwnd);
        let since_us = f.c.now_us;
        while f.s.state == Mode::ProbeRtt {
            f.ack(RATE);
        }
        assert_eq!(f.c.now_us - since_us, length_us, "the first ACK after 200 ms and a round");
    }
}

#[test]
fn const_14_probe_rtt_interval() {
    let mut f = Flow::new();
    f.rtt_us = 30_000;
    f.ack(RATE);
    let seen_us = f.c.now_us;
    f.c.now_us = seen_us + 4_999_000;
    f.more(RATE);
    assert_eq!((f.c.now_us - seen_us, f.s.state), (5_000_000, Mode::Startup));
    f.c.now_us -= 999;
    f.more(RATE);
    assert_eq!(f.s.state, Mode::ProbeRtt, "a microsecond later");
}

#[test]
fn const_15_growth_and_rounds_of_a_full_pipe() {
    let mut f = Flow::new();
    f.c.inflight = 2 * BDP;
    f.ack(1_000_000);
    f.ack(1_250_000);
    assert_eq!((rate_of(f.s.full_bw), f.s.full_bw_count), (1_250_000, 0));
    for rounds in 1..=3 {
        assert_eq!(f.s.state, Mode::Startup);
        f.ack(1_562_475);
        assert_eq!(f.s.full_bw_count, rounds, "25 bytes/s too little");
    }
    assert_eq!((f.s.full_bw_reached, f.s.state), (true, Mode::Drain));
}

#[test]
fn const_16_lost_ranges_that_end_startup() {
    for (ranges, state) in [(5, Mode::Startup), (6, Mode::Drain)] {
        let mut f = Flow::new();
        f.c.inflight = 10 * BDP;
        f.ack(RATE);
        f.lossy_round(2 * RATE, 1, 1_200, 60_000);
        f.lossy_round(4 * RATE, ranges, 7_200, 60_000);
        assert_eq!(f.s.state, state, "{ranges} ranges");
    }
}

#[test]
fn const_17_rounds_of_drain() {
    let mut f = Flow::at(Mode::Drain);
    for _ in 0..3 {
        f.ack(RATE);
        assert_eq!(f.s.state, Mode::Drain);
    }
    f.ack(RATE);
    assert_eq!(f.s.state, Mode::ProbeBwDown);
}

/// What DOWN draws for each of these random numbers: the wait and the rounds that count already.
fn draws(rand: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let f = Flow::at(Mode::ProbeBwUp);
    let draw = |rand| {
        let mut f = f.clone();
        f.lose_with(60_000, 60_000, |a| a.rand = rand);
        assert_eq!(f.s.state, Mode::ProbeBwDown);
        (f.s.bw_probe_wait_us, f.s.rounds_since_probe_up)
    };
    rand.map(draw).collect()
}

/// Ten thousand random numbers of 32 bits.
fn random() -> impl Iterator<Item = u64> {
    let mut rng = Rng::new(1, 0);
    (0..10_000).map(move |_| rng.below(1 << 32))
}

#[test]
fn const_18_wait_of_two_to_three_seconds() {
    let ends = draws([0, u64::from(u32::MAX)].into_iter());
    assert_eq!((ends[0].0, ends[1].0), (2_000_000, 2_999_999));
    let waits: Vec<u64> = draws(random()).iter().map(|d| d.0).collect();
    let mean = waits.iter().sum::<u64>() / 10_000;
    assert!(mean.abs_diff(2_500_000) <= 20_000, "{mean}");
    let mut bins = [0_u64; 20];
    waits.iter().for_each(|w| bins[((w - 2_000_000) / 50_000) as usize] += 1);
    // 19 degrees of freedom: more than 43.8 has a chance of 1 in 1000.
    let chi_square_milli: u64 = bins.iter().map(|n| n.abs_diff(500).pow(2) * 2).sum();
    assert!(chi_square_milli < 43_800, "{bins:?}");
}

#[test]
fn const_19_sixty_two_or_sixty_three_rounds() {
    let ones = draws(random()).iter().map(|d| d.1).inspect(|n| assert!(*n <= 1)).sum::<u64>();
    assert!(ones.abs_diff(5_000) <= 200, "{ones}");
    // 83 packets of BDP and 10 ms: neither Reno's rounds nor 2 s come first.
    for (rand, rounds) in [(0, 63), (u64::from(u32::MAX), 62)] {
        let mut f = Flow::over(10_000, 10 * RATE);
        f.go(Mode::ProbeBwUp);
        f.c.cwnd = 100_000;
        f.lose_with(60_000, 60_000, |a| a.rand = rand);
        let before = f.s.round_count;
        while f.s.state != Mode::ProbeBwRefill {
            f.c.cwnd = 100_000;
            f.ack(10 * RATE);
        }
        assert_eq!(f.s.round_count - before, rounds);
    }
}

#[test]
fn const_20_the_exponent_stops_at_30() {
    let mut f = Flow::at(Mode::ProbeBwUp);
    for round in 2..=40 {
        (f.s.inflight_longterm, f.c.cwnd, f.c.inflight) = (60_000, 60_000, 0);
        f.s.full_bw_count = 0; // the flat rate is not the matter here
        f.ack(RATE);
        assert_eq!(f.s.state, Mode::ProbeBwUp);
        assert_eq!(f.s.bw_probe_up_rounds, round.min(30));
    }
    assert_eq!(f.s.probe_up_acked_per_inc, 1_200);
}

#[test]
fn const_21_send_quantum() {
    for (pacing_rate, quantum) in [(1_000_000, 2_400), (12_500_000, 12_500), (100_000_000, 65_536)] {
        let mut f = Flow::over(RTT_US, 200 * RATE);
        f.c.max_pacing_rate = pacing_rate;
        let control = f.ack(200 * RATE);
        assert_eq!((control.pacing_rate, control.send_quantum), (pacing_rate, quantum));
    }
}

#[test]
fn const_22_up_adds_two_segments() {
    for (state, cwnd) in [(Mode::ProbeBwRefill, 4_800), (Mode::ProbeBwUp, 7_200)] {
        let mut f = Flow::over(10_000, 125_000);
        f.go(state);
        f.c.cwnd = 1 << 20;
        assert_eq!(f.more_with(125_000, |a| a.newly_acked = 1).cwnd, cwnd, "where the minimum window rules");
    }
}

#[test]
fn const_23_offload_budget() {
    // 100 MB/s over 100 us: the BDP is less than one quantum of 65,536 bytes or 54 packets.
    for (unit_bytes, smss, cwnd) in [(1, MSS, 65_536), (MSS, 1, 162)] {
        let mut f = Flow::init(Bbr3Params::default(), |c| {
            (c.unit_bytes, c.smss, c.cwnd) = (unit_bytes, smss, 10 * smss);
            (c.srtt_us, c.min_rtt_us) = (100, 100);
        });
        (f.rtt_us, f.rate) = (100, 100 * RATE);
        f.go(Mode::ProbeBwCruise);
        f.c.cwnd = 1 << 20;
        assert_eq!(f.more(f.rate).cwnd, cwnd);
    }
}

#[test]
fn const_24_without_an_rtt_one_millisecond() {
    let f = Flow::init(Bbr3Params::default(), |c| c.srtt_us = 0);
    assert_near(f.c.pacing_rate, 33_240_000, 1);
}
