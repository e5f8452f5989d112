//! Trials in worlds of which the truth is known.

use super::findings::Findings;
use super::folder::Trial;
use super::outcome::{Counted, METRICS};
use super::schedule::By;
use super::setup::{Setup, sample};
use super::world::{World, by_schedule, conclude, simulate};
use crate::report::judge::{self, Scale};
use crate::stats::{self, Shift};
use headway_cc::cc;

fn made(setup: &Setup, world: &World) -> Trial {
    let connections = simulate(setup, world, &by_schedule(setup), &cc::controller).unwrap();
    let (connections, slots, ended) = conclude(setup, connections);
    Trial { setup: setup.clone(), connections, slots, ended: Some(ended), damage: vec![] }
}

fn all(setup: &Setup, world: &World, arm: usize) -> Trial {
    let connections = simulate(setup, world, &|_, _, _| arm, &cc::controller).unwrap();
    let setup = Setup { by: By::Prefix, max_harm: 1.0, ..setup.clone() };
    let (connections, slots, ended) = conclude(&setup, connections);
    Trial { setup, connections, slots, ended: Some(ended), damage: vec![] }
}

fn truth(setup: &Setup, world: &World) -> Vec<Option<(Scale, Shift)>> {
    let of = |arm: usize| {
        let trial = all(setup, world, arm);
        Counted::of(&trial).outcomes(|_| true)
    };
    let (base, cand) = (of(0), of(1));
    METRICS
        .iter()
        .enumerate()
        .map(|(i, metric)| {
            let pairs: Vec<(f64, f64)> = base
                .iter()
                .filter_map(|b| {
                    let c = cand.iter().find(|c| c.slot == b.slot)?;
                    Some((b.values[i]?, c.values[i]?))
                })
                .collect();
            let (b, c): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let (scale, gains) = judge::gains(metric.better, &b, &c);
            Some((scale, judge::on_scale(scale, Shift::of(&gains)?, metric.better)))
        })
        .collect()
}

#[test]
#[ignore]
fn long_explore() {
    let env = |name: &str, default: &str| std::env::var(name).unwrap_or(default.into());
    let number = |name: &str, default: &str| env(name, default).parse::<f64>().unwrap();
    let world = World {
        path: env("T_PATH", "20mbit 40ms queue=2bdp"),
        networks: number("T_NETS", "8") as u32,
        is_shared: number("T_SHARED", "1") != 0.0,
        bytes: number("T_BYTES", "300000") as u64,
        think_ms: number("T_THINK", "2000") as u64,
        swing: number("T_SWING", "0"),
    };
    let arms = env("T_ARMS", "cubic,bbr3");
    let (a, b) = arms.split_once(',').unwrap();
    let mut covered = [0; 6];
    let mut off = [0.0; 6];
    let (mut found, mut verdicts, mut stopped) = (0, 0, 0);
    let seeds = number("T_SEEDS", "3") as u64;
    let has_truth = number("T_TRUTH", "1") != 0.0;
    let from = number("T_FROM", "1") as u64;
    for seed in from..from + seeds {
        let setup = Setup {
            arms: [a.into(), b.into()],
            seed,
            slot_ms: number("T_SLOT", "20000") as u64,
            burn_in_ms: number("T_BURN", "4000") as u64,
            slots: number("T_SLOTS", "40") as u32,
            max_harm: number("T_HARM", "1"),
            canary: number("T_CANARY", "0"),
            by: match env("T_BY", "slot").as_str() {
                "prefix" => By::Prefix,
                "connection" => By::Connection,
                _ => By::Slot,
            },
            ..sample()
        };
        let t0 = std::time::Instant::now();
        let trial = made(&setup, &world);
        let took = t0.elapsed();
        let findings = Findings::of(&trial);
        let truth = if has_truth { truth(&setup, &world) } else { vec![None; 6] };
        let lives: Vec<f64> = trial.connections.iter().map(|c| c.life_ms() as f64).collect();
        println!(
            "seed {seed}: {} connections, {:?}, {:?}, life p50 {:?} p95 {:?}, foreign {:.3}, {:?}",
            trial.connections.len(),
            took,
            t0.elapsed(),
            stats::median(&lives),
            stats::quantile(&lives, 0.95),
            findings.foreign_share,
            trial.ended
        );
        stopped += u32::from(format!("{:?}", trial.ended).contains("Stopped"));
        let mut any = false;
        for (i, metric) in METRICS.iter().enumerate() {
            let Some(e) = findings.effects.iter().find(|e| e.metric.name == metric.name) else { continue };
            let s = e.judged.improvement;
            let true_one = truth[i].map(|(_, t)| t.center);
            let is_in = true_one.is_some_and(|t| s.low <= t && t <= s.high);
            covered[i] += u32::from(is_in);
            let side = e.side_by_side.as_ref().map(|j| j.improvement.center);
            off[i] += side.unwrap_or(0.0) - true_one.unwrap_or(0.0);
            any |=
                e.judged.verdict.is_some_and(|v| v.word().contains("better") || v.word().contains("worse"));
            if seed < from + number("T_SHOW", "2") as u64 {
                println!(
                    "  {:24} base {:10.4} truth {:?} {} est {:.4} [{:.4}, {:.4}] n {} p {:.4} coin {:.4} {:?} side {:?} mde {:?}",
                    metric.name,
                    e.judged.baseline_spread.median,
                    true_one,
                    if is_in { "in " } else { "OUT" },
                    s.center,
                    s.low,
                    s.high,
                    s.n,
                    s.p,
                    e.p_coin,
                    e.judged.verdict,
                    side,
                    e.detectable
                );
            }
        }
        verdicts += u32::from(any);
        if seed < from + number("T_SHOW", "2") as u64 {
            for s in &findings.spill {
                println!(
                    "  spill {} groups {} diff {:.3} p {:.4}",
                    s.metric.name, s.groups, s.difference.center, s.p
                );
            }
            println!("  {:?}", findings.counts);
        }
        found += u32::from(findings.has_spill());
    }
    println!(
        "of {seeds}: covered {covered:?}, spill found {found}, verdicts {verdicts}, stopped {stopped}, mean off {:?}",
        off.map(|o| o / seeds as f64)
    );
}
