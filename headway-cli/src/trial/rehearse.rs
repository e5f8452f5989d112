//! Trials in worlds of which the truth is known: how often is what a trial says true?
//!
//! The truth of a trial is what two further runs of its world show, with the same networks and requests: one in which everybody has
//! the baseline, one in which everybody has the candidate. The long tests make a hundred trials each;
//! `HEADWAY_SEEDS=16..31` makes those of these seeds. Their figures are in docs/measurements/trial-statistics.md.

mod chance;
mod harm;

use super::findings::{Effect, Findings};
use super::folder::Trial;
use super::outcome::{Counted, GOODPUT, METRICS, RTT_P95};
use super::schedule::By;
use super::setup::{Setup, sample};
use super::world::{Assign, World, by_schedule, conclude, simulate};
use crate::report::judge;
use crate::stats::Shift;
use headway_cc::cc;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Downloads over a path that loses one packet in a hundred by chance: cubic leaves room there that bbr3 takes, from cubic first of all.
fn world(is_shared: bool) -> World {
    World {
        path: "20mbit 30ms queue=1bdp loss=1%".into(),
        networks: if is_shared { 8 } else { 20 },
        is_shared,
        bytes: 400_000,
        // A connection lives for less than a second, so in a network of its own it seldom meets another one.
        think_ms: if is_shared { 2400 } else { 12_000 },
        swing: 0.0,
    }
}

/// Fifteen groups of slots of 40 s. No guard: it is held against other worlds.
fn setup(arms: [&str; 2], seed: u64) -> Setup {
    Setup {
        arms: arms.map(String::from),
        slot_ms: 40_000,
        burn_in_ms: 8000,
        slots: 75,
        max_harm: 1.0,
        seed,
        ..sample()
    }
}

fn trial(setup: &Setup, world: &World) -> Trial {
    run(setup, world, &by_schedule(setup))
}

fn run(setup: &Setup, world: &World, assign: Assign) -> Trial {
    let connections = simulate(setup, world, assign, &cc::controller).unwrap();
    let (connections, slots, ended) = conclude(setup, connections);
    Trial { setup: setup.clone(), connections, slots, ended: Some(ended), damage: vec![] }
}

/// What everybody's having the candidate changes, as improvements on the scale of the judgement, by metric. It is measured, too, and
/// so has an error of its own: runs that are `times` as long as the trial make that smaller than the trial's.
fn truth(setup: &Setup, world: &World, times: u32) -> [f64; 2] {
    // In a trial by network a slot may have any controller.
    let setup = Setup { by: By::Prefix, slots: times * setup.slots, ..setup.clone() };
    let [base, cand] = [0, 1].map(|arm| {
        let everybody = run(&setup, world, &|_, _, _| arm);
        Counted::of(&everybody).outcomes(|_| true)
    });
    HEADLINES.map(|metric| {
        let [base, cand] =
            [&base, &cand].map(|all| all.iter().map(|o| o.values[metric].unwrap()).collect::<Vec<_>>());
        let better = METRICS[metric].better;
        let (scale, gains) = judge::gains(better, &base, &cand);
        judge::on_scale(scale, Shift::of(&gains).unwrap(), better).center
    })
}

/// `usual`, or those that the environment asks for.
fn seeds(usual: Range<u64>) -> Range<u64> {
    let asked = std::env::var("HEADWAY_SEEDS").ok();
    let (from, to) = asked.as_deref().and_then(|text| text.split_once("..")).unwrap_or(("", ""));
    from.parse().unwrap_or(usual.start)..to.parse().unwrap_or(usual.end)
}

/// What a trial said of the truth.
#[derive(Debug, Default)]
struct Tally {
    trials: u32,
    /// The interval had the truth in it, by metric.
    covered: [u32; 2],
    /// How far the estimate was from the truth, and how far what connections side by side show; summed, in per cent of the baseline.
    off: [f64; 2],
    side_off: [f64; 2],
    spills: u32,
}

const HEADLINES: [usize; 2] = [GOODPUT, RTT_P95];

impl Tally {
    /// The trials of these seeds, on all cores. `truth_times`: how many times as long as the trial the truth is looked at; 0 for not
    /// at all.
    fn over(seeds: Range<u64>, world: &World, truth_times: u32) -> Self {
        let next = AtomicU64::new(seeds.start);
        let work = || {
            let mut tally = Self::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return tally;
                }
                tally.try_seed(seed, world, truth_times);
            }
        };
        let tally = thread::scope(|s| {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            let workers: Vec<_> = (0..cores).map(|_| s.spawn(work)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).fold(Self::default(), Self::and)
        });
        println!("all: {tally:?}");
        tally
    }

    fn try_seed(&mut self, seed: u64, world: &World, truth_times: u32) {
        let setup = setup(["cubic", "bbr3"], seed);
        let findings = Findings::of(&trial(&setup, world));
        self.trials += 1;
        self.spills += u32::from(findings.has_spill());
        if truth_times > 0 {
            let truth = truth(&setup, world, truth_times);
            (0..2).for_each(|i| self.note(i, findings.effect(HEADLINES[i]).unwrap(), truth[i]));
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            trials: self.trials + other.trials,
            covered: [0, 1].map(|i| self.covered[i] + other.covered[i]),
            off: [0, 1].map(|i| self.off[i] + other.off[i]),
            side_off: [0, 1].map(|i| self.side_off[i] + other.side_off[i]),
            spills: self.spills + other.spills,
        }
    }

    fn note(&mut self, i: usize, effect: &Effect, truth: f64) {
        let ours = &effect.judged.improvement;
        println!("{} {:.5} {:.5} {:.5} {truth:.5}", effect.metric.name, ours.low, ours.center, ours.high);
        let side = effect.side_by_side.as_ref().unwrap().improvement.center;
        self.covered[i] += u32::from(ours.low <= truth && truth <= ours.high);
        self.off[i] += 100.0 * (ours.center - truth);
        self.side_off[i] += 100.0 * (side - truth);
    }
}

#[test]
fn a_slot_tells_what_moving_everybody_does_and_a_connection_does_not() {
    let tally = Tally::over(3..5, &world(true), 1);
    assert_eq!((tally.covered[0], tally.spills), (2, 2), "{tally:?}");
    assert!(tally.off[0].abs() < 2.0 * 20.0 && tally.side_off[0] > 2.0 * 30.0, "{tally:?}");
}

#[test]
fn connections_that_do_not_touch_each_other_are_found_not_to() {
    let tally = Tally::over(2..4, &world(false), 0);
    assert_eq!(tally.spills, 0, "{tally:?}");
}

/// Two hundred trials: of a hundred by themselves, 95 of which are meant to hold the truth, one in eight has fewer than 93.
#[test]
#[ignore = "long: 200 simulated trials, and eight times their length for the truth"]
fn long_the_slots_interval_covers_the_truth() {
    let tally = Tally::over(seeds(1..201), &world(true), 4);
    for covered in tally.covered {
        let share = 100.0 * f64::from(covered) / f64::from(tally.trials);
        assert!((93.0..=98.0).contains(&share), "{tally:?}");
    }
    assert!(tally.side_off[0] / f64::from(tally.trials) > 30.0, "{tally:?}");
}

#[test]
#[ignore = "long: 100 simulated trials"]
fn long_spill_over_is_found_where_there_is_some() {
    let tally = Tally::over(seeds(1..101), &world(true), 0);
    assert!(tally.spills * 100 >= tally.trials * 90, "{tally:?}");
}

#[test]
#[ignore = "long: 100 simulated trials"]
fn long_no_spill_over_is_found_where_there_is_none() {
    let tally = Tally::over(seeds(1..101), &world(false), 0);
    assert!(tally.spills * 100 <= tally.trials * 5, "{tally:?}");
}

/// The same controller twice: every verdict is a false one.
#[test]
#[ignore = "long: 100 simulated trials"]
fn long_a_controller_is_not_better_than_itself() {
    let (mut wrong, mut trials) = (0, 0);
    for seed in seeds(1..101) {
        let findings = Findings::of(&trial(&setup(["cubic", "cubic"], seed), &world(true)));
        wrong += u32::from(chance::has_verdict(&findings.effects));
        trials += 1;
    }
    println!("false verdicts in {wrong} of {trials} trials");
    assert!(wrong * 100 <= trials * 7, "{wrong} of {trials}");
}
