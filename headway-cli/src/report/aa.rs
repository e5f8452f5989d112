//! A/A tests: how often is a controller judged different from itself?
//!
//! Both arms draw from the same noise, so every verdict is a false one. The cells stand in the order of a real plan;
//! the usual order, all runs of A and then all of B, is counted beside it. `docs/measurements/method.md`
//! shows the table that these tests print.

use crate::plan::traffic::Traffic;
use crate::plan::{Label, Place, Request};
use crate::stats::distribution::normal_quantile;
use crate::stats::welch::{Moments, welch};
use crate::stats::{Shift, Verdict};
use headway_cc::rand::Rng;
use headway_cc::sim::{self, FlowSpec, SimSpec};

/// Runs of each arm.
const BLOCKS: usize = 10;
/// The smallest improvement that matters, as for goodput.
const MARGIN: f64 = 0.02;

/// Arm (0 or 1) and block of each cell, in the order of execution.
type Order = Vec<(usize, usize)>;

/// Random within blocks, as `headway bench` runs them.
fn in_blocks(seed: u64) -> Order {
    let arms = ["bbr1", "cubic"];
    let request = Request {
        place: Place::Sim,
        ccs: arms.map(Label::from).to_vec(),
        draws: None,
        paths: vec!["10mbit 20ms".into()],
        suite: None,
        blocks: Some(BLOCKS as u32),
        transport: crate::plan::transport::Transport::Tcp,
        tool: crate::plan::tool::Tool::default(),
        traffic: Traffic::bulk(10),
        has_warmup: false,
        seed,
        trace: false,
        axes: crate::plan::matrix::Axes::default(),
        modules: String::new(),
        remote: crate::plan::server::RemoteOptions::default(),
    };
    let arm = |cc: &str| usize::from(cc == arms[1]);
    let cells = request.plan().unwrap().cells;
    cells.iter().map(|c| (arm(c.cc.as_str()), c.block as usize)).collect()
}

fn all_a_then_all_b() -> Order {
    (0..2).flat_map(|arm| (0..BLOCKS).map(move |block| (arm, block))).collect()
}

/// The values of both arms. `noise` gives that of each place in the order; `drift` is the log of how much larger
/// values have become from the first cell to the last.
fn arms(order: &Order, noise: impl Fn(usize) -> f64, drift: f64) -> [Vec<f64>; 2] {
    let mut values = [vec![0.0; BLOCKS], vec![0.0; BLOCKS]];
    for (at, (arm, block)) in order.iter().enumerate() {
        values[*arm][*block] = noise(at) * (drift * at as f64 / (order.len() - 1) as f64).exp();
    }
    values
}

/// Whether the verdict is one of difference, however small.
fn is_judged_different(shift: &Shift) -> bool {
    use Verdict::{Better, BetterTrivial, Worse, WorseTrivial};
    matches!(Verdict::of(shift, shift.p, MARGIN), Better | Worse | BetterTrivial | WorseTrivial)
}

fn paired([a, b]: &[Vec<f64>; 2]) -> bool {
    is_judged_different(&Shift::of(&a.iter().zip(b).map(|(a, b)| (b / a).ln()).collect::<Vec<_>>()).unwrap())
}

/// As harnesses do it: two samples, their means and standard deviations.
fn unpaired(arms: &[Vec<f64>; 2]) -> bool {
    let [a, b] = arms.each_ref().map(|values| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let sum: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let sd = (sum / (values.len() - 1) as f64).sqrt();
        Moments { mean, sd, n: values.len() as u32, mean_step: 0.0, sd_step: 0.0 }
    });
    is_judged_different(&welch(&a, &b).unwrap())
}

/// In percent, how many comparisons have a false verdict: in blocks, and with all of A before all of B.
fn rates(comparisons: usize, drift: f64, noise: impl Fn(usize) -> Vec<f64>) -> [f64; 2] {
    let mut hits = [0; 2];
    for i in 0..comparisons {
        let noise = noise(i);
        hits[0] += usize::from(paired(&arms(&in_blocks(i as u64), |at| noise[at], drift)));
        hits[1] += usize::from(unpaired(&arms(&all_a_then_all_b(), |at| noise[at], drift)));
    }
    hits.map(|hits| 100.0 * hits as f64 / comparisons as f64)
}

/// Standard deviation 5 %, correlated with the run before (ρ = 0.6), as on a machine that others use too.
fn correlated(seed: u64) -> Vec<f64> {
    const SD: f64 = 0.05;
    const RHO: f64 = 0.6;
    let mut rng = Rng::new(seed, 9);
    let mut normal = || normal_quantile((rng.below(1 << 52) as f64 + 0.5) / (1u64 << 52) as f64);
    let mut x = normal();
    let mut next = || {
        x = RHO * x + (1.0 - RHO * RHO).sqrt() * normal();
        (SD * x).exp()
    };
    (0..2 * BLOCKS).map(|_| next()).collect()
}

#[test]
fn correlated_noise_and_drift_make_no_verdicts_in_blocks() {
    for (drift, usual) in [(0.0, 20.0..35.0), (0.1, 55.0..70.0), (0.2, 80.0..99.0)] {
        let [blocks, blocked] = rates(4000, drift, |i| correlated(i as u64));
        println!(
            "correlated noise, sd 5 %, drift {:>2.0} %: in blocks {blocks:.1} %, A before B {blocked:.1} %",
            drift * 100.0
        );
        assert!((3.0..8.0).contains(&blocks), "{blocks}");
        assert!(usual.contains(&blocked), "{blocked}");
    }
}

/// Goodput of 200 comparisons, each run with a seed of its own.
#[test]
fn simulated_runs_make_no_verdicts_in_blocks() {
    let goodput = |seed: u64| {
        let path = "10mbit 20ms queue=1bdp loss=1%".parse().unwrap();
        let run = sim::run(&SimSpec::new(path, vec![FlowSpec::bulk("cubic")], 2_000_000, seed)).unwrap();
        run.flows[0].delivered_bytes as f64
    };
    let comparison = |i: u64| (0..20).map(|at| goodput(i * 20 + at)).collect::<Vec<_>>();
    let runs: Vec<Vec<f64>> = (0..200).map(comparison).collect();
    for (drift, usual) in [(0.0, 0.0..10.0), (0.5, 50.0..100.1)] {
        let [blocks, blocked] = rates(runs.len(), drift, |i| runs[i].clone());
        println!(
            "200 simulated comparisons, drift {:>2.0} %: in blocks {blocks:.1} %, A before B {blocked:.1} %",
            drift * 100.0
        );
        assert!((3.0..=8.0).contains(&blocks), "{blocks}");
        assert!(usual.contains(&blocked), "{blocked}");
    }
}
