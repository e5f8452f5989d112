//! Runs the brake over its suites of paths and compares it with the plain controller:
//!
//! SUITE is `drops` (the path becomes slower once), `falls` (it becomes slower several times, or bit by bit),
//! `held-out` (the same on paths with which nothing was chosen), `steady` (it does not, so the brake should stay off)
//! or `rivals` (another flow shares the path). A controller may have settings: `bbr3_brake:brake_rtt=0.1`. All others are
//! compared with the first. Each seed takes every STRIDE-th path, starting at a different one; GROUP takes only paths
//! with this text in their group's name. Stdout is a CSV table of geometric means of ratios, with their 95 %
//! intervals over the seeds. Results and reasons: `docs/measurements/brake.md`.
//!
//! The column `bound_ratio` compares the smallest possible queueing delay with that of the first controller. Feedback
//! takes a round trip, so after a drop to 1/k of the rate a queue of k - 1 round trips has built up, and at best one
//! second of it drains in a second. Its 99th percentile leaves out 100 ms of the 10 s.

use headway_cc::cc;
use headway_cc::path::Path;
use headway_cc::sim::{FlowSpec, SimRun, SimSpec, Source, run};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const BIN_US: u64 = 50_000;
const AFTER_US: u64 = 10_000_000;

#[derive(Clone, Debug)]
struct Case {
    group: String,
    text: String,
    seed: u64,
    drop_us: u64,
    /// When the old rate comes back, in microseconds, and what it is; `None` and 0 without a drop.
    back_us: Option<u64>,
    rate_bps: u64,
    end_us: u64,
    source: Source,
    rival: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct Row {
    p99_us: f64,
    mean_us: f64,
    bytes: f64,
    rival_bytes: f64,
    t90_us: f64,
    rounds: u64,
    brake_rounds: u64,
    entries: u64,
    false_entries: u64,
}

/// When the rate drops, in microseconds. It depends on the seed, so that the drops fall into all phases of BBR's
/// cycle.
fn drop_us(seed: u64) -> u64 {
    8_000_000 + seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 5_000_000
}

fn drops(seed: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for tenths in [13, 15, 20, 30, 50, 100u64] {
        for mbit in [10, 50, 100u64] {
            for rtt_ms in [10, 40, 100u64] {
                for buffer in ["0.5", "1", "4", "8"] {
                    for back_s in [2, 5, 10u64] {
                        let at = drop_us(seed);
                        let back = at + back_s * 1_000_000;
                        let low = mbit * 10_000_000 / tenths;
                        let text = format!(
                            "{mbit}mbit {rtt_ms}ms queue={buffer}bdp @{}ms {}kbit @{}ms {mbit}mbit",
                            at / 1000,
                            low / 1000,
                            back / 1000
                        );
                        cases.push(Case {
                            group: format!("x{:.1} {rtt_ms}ms {buffer}bdp", tenths as f64 / 10.0),
                            text,
                            seed,
                            drop_us: at,
                            back_us: Some(back),
                            rate_bps: mbit * 1_000_000,
                            end_us: back + AFTER_US,
                            source: Source::Bulk,
                            rival: None,
                        });
                    }
                }
            }
        }
    }
    cases
}

/// How a path becomes slower after a first moment: its name, and pairs of the milliseconds that have passed and the
/// thousandths of the old rate that are left.
type Fall = (String, Vec<(u64, u64)>);

/// A rate that falls in steps of 50 ms to so many thousandths.
fn ramp(to_milli: u64, ms: u64) -> Fall {
    let steps = ms / 50;
    let left = |i| 1000 - (1000 - to_milli) * i / steps;
    (format!("ramp to {to_milli} in {ms}ms"), (1..=steps).map(|i| (i * 50 - 50, left(i))).collect())
}

/// A rate that falls at equal distances.
fn steps(gap_ms: u64, left_milli: &[u64]) -> Fall {
    let words: Vec<String> = left_milli.iter().map(u64::to_string).collect();
    let at = (0..).map(|i| i * gap_ms);
    (format!("steps to {} per {gap_ms}ms", words.join(" ")), at.zip(left_milli.iter().copied()).collect())
}

/// Every fall on every path. The old rate is back 10 s after the first step.
fn falls(seed: u64, falls: &[Fall], mbit: &[u64], rtt_ms: &[u64], buffer: &[u64]) -> Vec<Case> {
    let (at, mut cases) = (drop_us(seed), Vec::new());
    for (name, fall) in falls {
        for mbit in mbit {
            for rtt_ms in rtt_ms {
                for buffer in buffer {
                    let mut text = format!("{mbit}mbit {rtt_ms}ms queue={buffer}bdp");
                    for (after_ms, milli) in fall {
                        text += &format!(" @{}ms {}kbit", at / 1000 + after_ms, mbit * milli);
                    }
                    text += &format!(" @{}ms {mbit}mbit", at / 1000 + 10_000);
                    cases.push(Case {
                        group: name.clone(),
                        text,
                        seed,
                        drop_us: at,
                        back_us: Some(at + 10_000_000),
                        rate_bps: mbit * 1_000_000,
                        end_us: at + 10_000_000 + AFTER_US,
                        source: Source::Bulk,
                        rival: None,
                    });
                }
            }
        }
    }
    cases
}

fn chosen_falls(seed: u64) -> Vec<Case> {
    let shapes = [
        steps(1500, &[240, 100]),
        steps(1500, &[500, 250]),
        steps(1000, &[750, 500, 250]),
        ramp(250, 2000),
        ramp(500, 2000),
        ramp(250, 5000),
    ];
    falls(seed, &shapes, &[10, 50, 100], &[10, 40, 100], &[1, 4])
}

/// Paths and falls with which nothing was chosen: other rates, round trips, buffers, factors and distances.
fn held_out_falls(seed: u64) -> Vec<Case> {
    let shapes = [
        steps(700, &[400, 200]),
        steps(2300, &[600, 200]),
        steps(1300, &[800, 600, 400, 200]),
        ramp(333, 1500),
        ramp(600, 3000),
        ramp(200, 4000),
    ];
    falls(seed, &shapes, &[20, 80], &[20, 70], &[2, 6])
}

/// A path whose rate changes every `step_ms` at random around its mean.
fn noisy(mbit: u64, rtt_ms: u64, sd_percent: u64, step_ms: u64, seed: u64) -> String {
    let mut text = format!("{mbit}mbit {rtt_ms}ms queue=2bdp repeat=10s");
    let mut rng = headway_cc::rand::Rng::new(seed, 77);
    for i in 1..10_000 / step_ms {
        // The sum of twelve uniform draws is nearly normal with a standard deviation of 1.
        let sum: i64 = (0..12).map(|_| rng.below(1000) as i64).sum::<i64>() - 6000;
        let kbit = (mbit * 1000) as i64 * (100_000 + sd_percent as i64 * sum) / 100_000;
        text += &format!(" @{}ms {}kbit", i * step_ms, kbit.max(mbit as i64 * 100));
    }
    text
}

#[expect(clippy::too_many_lines, reason = "one case after the other, as a table")]
fn steady(seed: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |group: &str, text: String, source: Source, rival| {
        cases.push(Case {
            group: group.into(),
            text,
            seed,
            drop_us: 5_000_000,
            back_us: None,
            rate_bps: 0,
            end_us: 30_000_000,
            source,
            rival,
        })
    };
    for mbit in [10, 50, 100u64] {
        for rtt in [10, 40, 100u64] {
            let base = format!("{mbit}mbit {rtt}ms queue=2bdp");
            add("clean", base.clone(), Source::Bulk, None);
            for loss in ["0.1%", "1%", "3%"] {
                add(&format!("loss {loss}"), format!("{base} loss={loss}"), Source::Bulk, None);
            }
            for jitter in [2, 5, 20] {
                add(&format!("jitter {jitter}ms"), format!("{base} jitter={jitter}ms"), Source::Bulk, None);
                let held = format!("{base} jitter={jitter}ms/100ms");
                add(&format!("jitter {jitter}ms held"), held, Source::Bulk, None);
            }
            for sd in [5, 10, 20] {
                for step in [1, 10] {
                    let text = noisy(mbit, rtt, sd, step, seed);
                    add(&format!("noise {sd}% per {step}ms"), text, Source::Bulk, None);
                }
            }
            let bytes = mbit * 1_000_000 / 8 / 5 / 50;
            add("app 20%", base.clone(), Source::Messages { bytes, interval_us: 20_000 }, None);
            let on_off = Source::OnOff { on_us: 1_000_000, off_us: 500_000 };
            add("on/off", base, on_off, None);
        }
    }
    for name in ["wifi-var", "leo"] {
        let preset = headway_cc::path::PRESETS.iter().find(|p| p.name == name).expect("a preset");
        add(name, preset.text.into(), Source::Bulk, None);
    }
    cases
}

fn rivals(seed: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for rival in ["cubic", "bbr3", "bbr1"] {
        for mbit in [10, 50u64] {
            for rtt in [10, 40, 100u64] {
                for buffer in ["0.5", "1", "4"] {
                    cases.push(Case {
                        group: format!("beside {rival} {buffer}bdp"),
                        text: format!("{mbit}mbit {rtt}ms queue={buffer}bdp"),
                        seed,
                        drop_us: 5_000_000,
                        back_us: None,
                        rate_bps: 0,
                        end_us: 60_000_000,
                        source: Source::Bulk,
                        rival: Some(rival),
                    });
                }
            }
        }
    }
    cases
}

fn measure(case: &Case, cc: &str) -> Row {
    let path: Path = case.text.parse().unwrap_or_else(|e| panic!("{}: {e}", case.text));
    let mut flows = vec![FlowSpec { source: case.source.clone(), ..FlowSpec::bulk(cc) }];
    if let Some(rival) = case.rival {
        flows.push(FlowSpec { start_us: case.seed % 7 * 300_000, ..FlowSpec::bulk(rival) });
    }
    let mut spec = SimSpec::new(path, flows, case.end_us, case.seed);
    spec.bin_us = BIN_US;
    spec.probe_interval_us = 20_000;
    let run = run(&spec).expect("a valid spec");
    let until = if case.back_us.is_some() { case.drop_us + AFTER_US } else { case.end_us };
    let window = run.probes.iter().filter(|p| (case.drop_us..until).contains(&p.sent_us));
    let mut delays: Vec<u64> =
        window.filter_map(|p| Some(p.rtt_us?.saturating_sub(run.base_rtt_us))).collect();
    delays.sort_unstable();
    let flow = &run.flows[0];
    let field = |name: &str| {
        let fields = cc::controller(cc).expect("a controller").state_fields();
        fields.iter().position(|f| *f == name).map_or(0, |at| flow.state[at])
    };
    let bytes = |f: usize| {
        let bins = run.flows[f].bins.iter().filter(|b| b.t_us >= case.drop_us);
        bins.map(|b| b.delivered_bytes).sum::<u64>() as f64
    };
    Row {
        p99_us: delays[(delays.len() * 99 / 100).min(delays.len() - 1)] as f64,
        mean_us: delays.iter().sum::<u64>() as f64 / delays.len() as f64,
        bytes: bytes(0),
        rival_bytes: if case.rival.is_some() { bytes(1) } else { 0.0 },
        t90_us: time_to_90(case, &run) as f64,
        rounds: field("round_count") + field("rtt_cnt"),
        brake_rounds: field("brake_rounds"),
        entries: field("brake_entries"),
        false_entries: field("brake_false_entries"),
    }
}

/// Microseconds from the recovery to the end of the first 200 ms in which nine tenths of the old rate arrive.
fn time_to_90(case: &Case, run: &SimRun) -> u64 {
    let Some(back_us) = case.back_us else { return 0 };
    let bins: Vec<_> = run.flows[0].bins.iter().filter(|b| b.t_us >= back_us).collect();
    let want = case.rate_bps as f64 / 8.0 * 1448.0 / 1500.0 * 0.9 * (4 * BIN_US) as f64 / 1e6;
    let enough = |w: &&[&_]| {
        w.iter().map(|b: &&headway_cc::sim::FlowBin| b.delivered_bytes).sum::<u64>() as f64 >= want
    };
    bins.windows(4).find(enough).map_or(AFTER_US, |w| w[3].t_us + BIN_US - back_us)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [suite, ccs, seeds, rest @ ..] = args.as_slice() else {
        eprintln!(
            "usage: brake_search drops|falls|held-out|steady|rivals CC[,CC...] FROM..TO [STRIDE [ONLY]]"
        );
        std::process::exit(2);
    };
    let ccs: Vec<&str> = ccs.split(',').collect();
    let (from, to) = seeds.split_once("..").expect("a range of seeds");
    let stride: usize = rest.first().map_or(1, |s| s.parse().expect("a stride"));
    let only: &str = rest.get(1).map_or("", |s| s.as_str());
    let mut cases = Vec::new();
    for seed in from.parse().expect("a seed")..to.parse().expect("a seed") {
        let all = match suite.as_str() {
            "drops" => drops(seed),
            "falls" => chosen_falls(seed),
            "held-out" => held_out_falls(seed),
            "steady" => steady(seed),
            "rivals" => rivals(seed),
            other => panic!("no suite {other}"),
        };
        let first = seed as usize * 7919 % stride;
        cases.extend(all.into_iter().filter(|c| c.group.contains(only)).skip(first).step_by(stride));
    }
    let rows = run_all(&cases, &ccs);
    table(suite, &cases, &rows, &ccs);
}

fn run_all(cases: &[Case], ccs: &[&str]) -> Vec<Vec<Row>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![Vec::new(); cases.len()]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(i) else { break };
                    let rows = ccs.iter().map(|cc| measure(case, cc)).collect();
                    results.lock().expect("no panic")[i] = rows;
                }
            });
        }
    });
    results.into_inner().expect("no panic")
}

/// The groups that a case counts in: all, its own, and for single drops each word of its group's name and the goal (1 BDP of
/// buffer or more).
fn groups(case: &Case) -> Vec<String> {
    let mut groups = vec!["all".to_string(), case.group.clone()];
    if case.group.starts_with('x') {
        groups.extend(case.group.split(' ').map(String::from));
        if !case.group.contains("0.5bdp") {
            groups.push("1bdp or more".into());
        }
    }
    groups
}

/// The 99th percentile of the smallest possible queueing delay after a drop, in microseconds; 0 without a single drop.
fn bound_us(case: &Case) -> f64 {
    let Some(k) = case.group.strip_prefix('x').and_then(|g| g.split(' ').next()?.parse::<f64>().ok()) else {
        return 0.0;
    };
    let rtt_us = case.text.parse::<Path>().expect("parsed before").base_rtt_us() as f64;
    ((k - 1.0) * rtt_us - 1e5 * (k - 1.0) / k).max(0.0)
}

/// Geometric mean of ratios, given their logarithms, with its 95 % interval over the seeds.
fn interval(logs: &[(u64, f64)]) -> [f64; 3] {
    let mut seeds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    logs.iter().for_each(|(seed, log)| seeds.entry(*seed).or_default().push(*log));
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let means: Vec<f64> = seeds.values().map(|of| mean(of)).collect();
    let (middle, n) = (mean(&means), means.len() as f64);
    let squares: f64 = means.iter().map(|m| (m - middle).powi(2)).sum();
    let half = if n > 1.0 { 1.96 * (squares / (n - 1.0) / n).sqrt() } else { f64::NAN };
    [middle, middle - half, middle + half].map(f64::exp)
}

const COLUMNS: &str = "suite,group,cc,runs,p99_ms,base_p99_ms,p99_ratio,p99_low,p99_high,bound_ratio,bound_60_share,\
                       mean_ratio,bytes_ratio,bytes_low,bytes_high,rival_ratio,t90_ms,base_t90_ms,\
                       braked_rounds_percent,entries,false_entries";

fn table(suite: &str, cases: &[Case], rows: &[Vec<Row>], ccs: &[&str]) {
    let mut by_group: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, case) in cases.iter().enumerate() {
        groups(case).into_iter().for_each(|g| by_group.entry(g).or_default().push(i));
    }
    println!("{COLUMNS}");
    for (group, of) in &by_group {
        for (k, cc) in ccs.iter().enumerate().skip(1) {
            println!("{suite},{group},{cc},{}", line(cases, rows, of, k));
        }
    }
}

/// The figures of one group of cases for one controller, as CSV.
fn line(cases: &[Case], rows: &[Vec<Row>], of: &[usize], k: usize) -> String {
    let mean =
        |k: usize, f: &dyn Fn(&Row) -> f64| of.iter().map(|&i| f(&rows[i][k])).sum::<f64>() / of.len() as f64;
    // A millisecond or a kilobyte is added to both sides, because the ratio of two very small numbers would say much
    // about little.
    let ratio = |f: &dyn Fn(&Row) -> f64| {
        let log = |&i: &usize| (cases[i].seed, ((f(&rows[i][k]) + 1000.0) / (f(&rows[i][0]) + 1000.0)).ln());
        interval(&of.iter().map(log).collect::<Vec<_>>())
    };
    let bound = |i: usize| (bound_us(&cases[i]) + 1000.0) / (rows[i][0].p99_us + 1000.0);
    let bounds: Vec<(u64, f64)> = of.iter().map(|&i| (cases[i].seed, bound(i).ln())).collect();
    let reachable = of.iter().filter(|&&i| bound(i) <= 0.4).count() as f64 / of.len() as f64;
    let ([p99, p99_low, p99_high], [bytes, low, high]) = (ratio(&|r| r.p99_us), ratio(&|r| r.bytes));
    format!(
        "{},{:.1},{:.1},{p99:.3},{p99_low:.3},{p99_high:.3},{:.3},{reachable:.2},{:.3},{bytes:.4},{low:.4},\
         {high:.4},{:.3},{:.0},{:.0},{:.2},{:.2},{:.2}",
        of.len(),
        mean(k, &|r| r.p99_us / 1e3),
        mean(0, &|r| r.p99_us / 1e3),
        interval(&bounds)[0],
        ratio(&|r| r.mean_us)[0],
        ratio(&|r| r.rival_bytes)[0],
        mean(k, &|r| r.t90_us / 1e3),
        mean(0, &|r| r.t90_us / 1e3),
        100.0 * mean(k, &|r| r.brake_rounds as f64) / mean(k, &|r| r.rounds as f64),
        mean(k, &|r| r.entries as f64),
        mean(k, &|r| r.false_entries as f64)
    )
}
