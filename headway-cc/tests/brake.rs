//! The brake in simulated flows: what it is for and where it must keep silent.
//! The whole suite with its seeds is `examples/brake_search.rs`; its results are in `docs/measurements/brake.md`.

use headway_cc::cc::controller;
use headway_cc::sim::{FlowSpec, SimRun, SimSpec, Source, run};

fn simulate(path: &str, flows: Vec<FlowSpec>, seconds: u64, seed: u64) -> SimRun {
    run(&SimSpec::new(path.parse().expect(path), flows, seconds * 1_000_000, seed)).expect("a valid spec")
}

fn one(path: &str, cc: &str, source: Source, seed: u64) -> SimRun {
    simulate(path, vec![FlowSpec { source, ..FlowSpec::bulk(cc) }], 20, seed)
}

fn field(run: &SimRun, cc: &str, name: &str) -> u64 {
    let fields = controller(cc).expect(cc).state_fields();
    run.flows[0].state[fields.iter().position(|f| *f == name).expect(name)]
}

/// Rounds with the brake on, in thousandths of all.
fn braked_permille(run: &SimRun, cc: &str) -> u64 {
    let rounds = if cc.starts_with("bbr1") { "rtt_cnt" } else { "round_count" };
    1000 * field(run, cc, "brake_rounds") / field(run, cc, rounds)
}

/// 99th percentile of the queueing delay of probes sent from 8 s to 18 s.
fn p99_us(run: &SimRun) -> u64 {
    let window = run.probes.iter().filter(|p| (8_000_000..18_000_000).contains(&p.sent_us));
    let mut delays: Vec<u64> =
        window.filter_map(|p| Some(p.rtt_us? - run.base_rtt_us.min(p.rtt_us?))).collect();
    delays.sort_unstable();
    delays[delays.len() * 99 / 100]
}

const BRAKES: [(&str, &str); 2] = [("bbr1", "bbr1_brake"), ("bbr3", "bbr3_brake")];

#[test]
fn after_a_drop_the_queue_is_short_and_the_rate_comes_back() {
    for (plain, braked) in BRAKES {
        for (path, seed) in [
            ("50mbit 40ms queue=4bdp @8s 25mbit @13s 50mbit", 1),
            ("50mbit 40ms queue=8bdp @8s 16mbit @13s 50mbit", 2),
            ("100mbit 10ms queue=4bdp @8s 33mbit @13s 100mbit", 3),
        ] {
            let [without, with] = [plain, braked].map(|cc| one(path, cc, Source::Bulk, seed));
            assert!(field(&with, braked, "brake_entries") >= 1, "{braked}, {path}");
            let (was, is) = (p99_us(&without), p99_us(&with));
            assert!(is * 100 <= was * 55, "{braked}, {path}: {was} us without, {is} us with");
            let (was, is) = (without.flows[0].delivered_bytes, with.flows[0].delivered_bytes);
            assert!(is * 100 >= was * 97, "{braked}, {path}: {was} bytes without, {is} with");
        }
    }
}

/// The second drop comes while the flow still knows the rate of the first, in all phases of its cycle.
#[test]
fn a_second_drop_is_answered_as_the_first() {
    for (plain, braked) in BRAKES {
        for seed in 1..=8 {
            let at = 8000 + seed * 3090 % 2000;
            let path =
                format!("50mbit 40ms queue=4bdp @{at}ms 25mbit @{}ms 12500kbit @18s 50mbit", at + 1500);
            let [without, with] = [plain, braked].map(|cc| p99_us(&one(&path, cc, Source::Bulk, seed)));
            assert!(with * 100 <= without * 37, "{braked}, {path}: {without} us without, {with} us with");
        }
    }
}

/// A rate that falls to a quarter within two seconds, 50 ms at a time, is not learned as usual with each step. `bbr1_brake`
/// does not look for that.
#[test]
fn a_rate_that_falls_bit_by_bit_is_noticed() {
    let p99 = |cc: &str, seed: u64| {
        let at = 8000 + seed * 3090 % 2000;
        let step = |i: u64| format!(" @{}ms {}kbit", at + i * 50, 50_000 - 937 * (i + 1));
        let ramp: String = (0..40).map(step).collect();
        p99_us(&one(&format!("50mbit 40ms queue=4bdp{ramp} @18s 50mbit"), cc, Source::Bulk, seed))
    };
    let [without, with] = ["bbr3", "bbr3_brake"].map(|cc| (1..=8).map(|seed| p99(cc, seed)).sum::<u64>());
    assert!(with * 100 <= without * 37, "{without} us without, {with} us with");
}

/// BBRv1 begins its ProbeRTT at 10 s. What was sent before it is judged in it, and what is sent in the round after it,
/// though that is still marked as application-limited.
#[test]
fn a_drop_in_probe_rtt_is_seen() {
    for drop in ["9900ms", "10s", "10200ms"] {
        let path = format!("50mbit 40ms queue=4bdp @{drop} 16mbit @13s 50mbit");
        let [without, with] = ["bbr1", "bbr1_brake"].map(|cc| p99_us(&one(&path, cc, Source::Bulk, 1)));
        assert!(with * 100 <= without * 30, "{drop}: {without} us without, {with} us with");
    }
}

/// What the slower path lost, or had no room for, does not bound the flow once the old rate is back; nor does a brake
/// that lets go before the model has seen that rate.
#[test]
fn the_old_rate_is_back_within_a_second() {
    for seed in 1..=12 {
        let drop_ms = 8000 + seed * 3090 % 5000;
        let back_ms = drop_ms + 5000;
        let path = format!("10mbit 40ms queue=1bdp @{drop_ms}ms 3333kbit @{back_ms}ms 10mbit");
        let until = |ms: u64| {
            let flows = vec![FlowSpec::bulk("bbr3_brake")];
            let spec = SimSpec::new(path.parse().expect("a path"), flows, ms * 1000, seed);
            run(&spec).expect("a valid spec").flows[0].delivered_bytes
        };
        let percent = (until(back_ms + 1000) - until(back_ms)) * 100 / 1_250_000;
        assert!(percent >= 70, "{path}: {percent} % of it in that second");
    }
}

#[test]
fn without_a_drop_the_brake_is_silent() {
    let messages = Source::Messages { bytes: 25_000, interval_us: 20_000 };
    for (plain, braked) in BRAKES {
        for (path, source) in [
            ("50mbit 40ms queue=2bdp", Source::Bulk),
            ("50mbit 40ms queue=2bdp jitter=10ms", Source::Bulk),
            ("50mbit 40ms queue=2bdp ackagg=4ms", Source::Bulk),
            ("50mbit 40ms queue=2bdp loss=3%", Source::Bulk),
            ("50mbit 40ms queue=2bdp repeat=3s @2.9s 0mbit", Source::Bulk),
            ("50mbit 40ms queue=2bdp", messages.clone()),
        ] {
            let [without, with] = [plain, braked].map(|cc| one(path, cc, source.clone(), 5));
            let on = braked_permille(&with, braked);
            assert!(on < 10, "{braked}, {path}: on in {on} of 1000 rounds");
            let (was, is) = (without.flows[0].delivered_bytes, with.flows[0].delivered_bytes);
            assert!(is * 100 >= was * 99, "{braked}, {path}: {was} bytes without, {is} with");
        }
    }
}

/// Another flow's queue is not a slower path: beside it the braked flow keeps nine tenths of the plain one's share.
#[test]
fn beside_others_the_share_is_kept() {
    for (plain, braked) in BRAKES {
        for rival in ["cubic", "bbr3"] {
            let share = |cc: &str| -> u64 {
                let flows = || vec![FlowSpec::bulk(cc), FlowSpec::bulk(rival)];
                (1..=4)
                    .map(|seed| simulate("20mbit 40ms queue=2bdp", flows(), 40, seed))
                    .map(|r| r.flows[0].delivered_bytes)
                    .sum()
            };
            let (was, is) = (share(plain), share(braked));
            assert!(is * 10 >= was * 9, "{braked} beside {rival}: {was} bytes without, {is} with");
        }
    }
}

#[test]
fn a_controller_takes_settings_with_its_name() {
    assert!(controller("bbr3_brake:brake_rtt=0.2:brake_hold_us=5s").is_ok());
    for wrong in ["bbr3:brake=2", "bbr3:brake", "bbr3:speed=9", "cubic:beta=0.7", "bbr9", "bbr3:"] {
        assert!(controller(wrong).is_err(), "{wrong}");
    }
}
