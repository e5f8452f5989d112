//! What a trial can show, before it begins: how small an effect, in how many hours, with slots of which length.
//!
//! An A/A phase, in which both controllers are the same, shows by how much the two slots of a pair differ by chance and how long
//! connections live. Both are in the folder of any trial, since chance is what is left when an effect is taken away; but of
//! an A/A trial nobody has to wonder.

use super::findings::{DETECTABLE_ERRORS, pairs};
use super::folder::Trial;
use super::outcome::{Counted, METRICS, Metric};
use super::schedule::{By, GROUP};
use super::setup::Setup;
use crate::report::judge::{self, Scale};
use crate::report::words::number;
use crate::stats;

/// What slots of one controller differ by, where nobody has measured it: a tenth.
const ASSUMED_NOISE: f64 = 0.10;
/// The effect for which the hours are told.
const EFFECT: f64 = 0.05;

/// Slots at least so many times as long as the 95th percentile of a connection's life, because what a connection of the slot
/// before still does is not this controller's.
const SLOT_LIVES: u64 = 10;
/// Nobody needs shorter ones, and summaries of few connections are noise.
const LEAST_SLOT_MS: u64 = 10_000;
const LEAST_BURN_IN_MS: u64 = 1000;

/// What an A/A phase says.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub connections: usize,
    /// The 95th percentile of their lives.
    pub life_p95_ms: u64,
    pub slot_ms: u64,
    pub burn_in_ms: u64,
    pub noise: Vec<Noise>,
}

/// The chance part of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise {
    pub metric: &'static str,
    pub label: &'static str,
    /// Pairs that it is known from.
    pub pairs: usize,
    /// Standard deviation of the log ratio of the two slots of a pair, or of their difference where zeros allow no ratio; then it
    /// says nothing of an effect in per cent.
    pub deviation: f64,
    pub is_ratio: bool,
}

impl Noise {
    fn of(metric: &'static Metric, scale: Scale, gains: &[f64]) -> Option<Self> {
        let deviation = stats::deviation(gains)?;
        let (name, label) = (metric.name, metric.label);
        Some(Self { metric: name, label, pairs: gains.len(), deviation, is_ratio: scale == Scale::Ratio })
    }

    /// The smallest effect that so many pairs show in four of five trials, as a share.
    pub fn detectable(&self, pairs: u32) -> f64 {
        (DETECTABLE_ERRORS * self.deviation / f64::from(pairs.max(1)).sqrt()).exp_m1()
    }

    /// Pairs that an effect takes; at least the 7 that three verdicts at once need.
    pub fn pairs_for(&self, effect: f64) -> u32 {
        let pairs = (DETECTABLE_ERRORS * self.deviation / effect.ln_1p()).powi(2).ceil();
        (pairs as u32).max(stats::blocks_needed(3) as u32)
    }

    /// Hours of slots of this length that an effect takes.
    pub fn hours_for(&self, effect: f64, slot_ms: u64, by: By) -> f64 {
        self.pairs_for(effect) as f64 * slots_per_pair(by) * slot_ms as f64 / 3.6e6
    }
}

/// Two pairs need five slots; where both controllers run side by side each slot is a pair.
fn slots_per_pair(by: By) -> f64 {
    if by == By::Slot { f64::from(GROUP) / 2.0 } else { 1.0 }
}

/// Reads out of a folder what a trial on the same traffic takes. `None` where nothing has ended in it.
pub fn plan(trial: &Trial) -> Option<Plan> {
    let lives: Vec<f64> = trial.connections.iter().map(|c| c.life_ms() as f64).collect();
    let life_p95_ms = stats::quantile(&lives, 0.95)? as u64;
    let outcomes = Counted::of(trial).outcomes(|_| true);
    let noise = METRICS.iter().enumerate().filter(|(_, metric)| metric.margin.is_some()).filter_map(
        |(index, metric)| {
            let pairs = pairs(&outcomes, trial.setup.by, index);
            let (scale, gains) = judge::gains(metric.better, &pairs.baseline, &pairs.candidate);
            Noise::of(metric, scale, &gains)
        },
    );
    Some(Plan {
        connections: lives.len(),
        life_p95_ms,
        slot_ms: rounded(SLOT_LIVES * life_p95_ms).max(LEAST_SLOT_MS),
        burn_in_ms: rounded(life_p95_ms).max(LEAST_BURN_IN_MS),
        noise: noise.collect(),
    })
}

/// Up to the next of 1, 1.5, 2, 3, 5, 7 times a power of ten: people say such lengths.
fn rounded(ms: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for step in [10, 15, 20, 30, 50, 70] {
            if power.saturating_mul(step) >= ms.saturating_mul(10) {
                return power.saturating_mul(step) / 10;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// What is said before a trial begins: the smallest effect that it can show. With the folder of an A/A phase its noise is used,
/// without one a tenth is assumed, and that is said.
pub fn before(setup: &Setup, known: Option<&Plan>) -> String {
    let pairs = (f64::from(setup.slots) / slots_per_pair(setup.by)) as u32;
    let hours = f64::from(setup.slots) * setup.slot_ms as f64 / 3.6e6;
    let head =
        format!("{} slots of {} in {} h: {pairs} pairs.", setup.slots, length(setup.slot_ms), number(hours));
    let assumed = Noise {
        metric: "",
        label: "any metric",
        pairs: 0,
        deviation: ASSUMED_NOISE * std::f64::consts::SQRT_2,
        is_ratio: true,
    };
    let tail = match known {
        Some(plan) => plan.noise.iter().map(|noise| noise.sentence(setup, pairs)).collect::<String>(),
        None => format!(
            "{} This assumes that slots of one controller differ by {:.0} %; `headway trial plan` measures it.",
            assumed.sentence(setup, pairs),
            ASSUMED_NOISE * 100.0
        ),
    };
    head + &tail
}

impl Noise {
    fn sentence(&self, setup: &Setup, pairs: u32) -> String {
        if !self.is_ratio {
            return format!(
                " {}: some slots have zero, so an effect in per cent has no meaning.",
                self.label
            );
        }
        format!(
            " {}: an effect of {} % is found in four of five trials; one of {:.0} % takes {} h.",
            self.label,
            number(self.detectable(pairs) * 100.0),
            EFFECT * 100.0,
            number(self.hours_for(EFFECT, setup.slot_ms, setup.by))
        )
    }
}

/// What `headway trial plan` prints.
pub fn text(plan: &Plan, by: By) -> String {
    let mut text = format!(
        "{} connections; 95 of 100 lived for at most {}.\nSlots of {} with a burn-in of {}: ten times and once that life.\n",
        plan.connections,
        length(plan.life_p95_ms),
        length(plan.slot_ms),
        length(plan.burn_in_ms)
    );
    for noise in &plan.noise {
        text += &match noise.is_ratio {
            false => format!("{}: zero in some slots, so nothing can be said in per cent.\n", noise.label),
            true => format!(
                "{}: the slots of a pair differ by {} % (one standard deviation, {} pairs); an effect of {:.0} % takes {} pairs, {} h.\n",
                noise.label,
                number(noise.deviation.exp_m1() * 100.0),
                noise.pairs,
                EFFECT * 100.0,
                noise.pairs_for(EFFECT),
                number(noise.hours_for(EFFECT, plan.slot_ms, by))
            ),
        };
    }
    text
}

/// A length of time as people say it.
pub fn length(ms: u64) -> String {
    match ms {
        ms if ms < 1000 => format!("{ms} ms"),
        ms if ms < 120_000 => format!("{} s", trimmed(ms as f64 / 1e3)),
        ms if ms < 7_200_000 => format!("{} min", trimmed(ms as f64 / 6e4)),
        ms => format!("{} h", trimmed(ms as f64 / 3.6e6)),
    }
}

fn trimmed(x: f64) -> String {
    format!("{x:.1}").trim_end_matches(".0").to_string()
}

#[cfg(test)]
mod tests {
    use super::super::setup::sample;
    use super::*;

    fn noise(slots_differ_by: f64) -> Noise {
        let deviation = slots_differ_by * std::f64::consts::SQRT_2;
        Noise { metric: "", label: "goodput", pairs: 0, deviation, is_ratio: true }
    }

    /// By hand: 2 (1.960 + 0.842)² × 0.1² / ln(1.05)² × π/3 is 69 pairs; at 2.5 slots of 10 minutes each 29 h. The known rule
    /// of thumb, 16 (sd/δ)² slots an arm, says 64 where δ stands for ln(1 + δ) and a t-test for the signed-rank one.
    #[test]
    fn five_per_cent_in_slots_that_differ_by_ten_take_a_day() {
        assert_eq!(noise(0.1).pairs_for(0.05), 70);
        let hours = noise(0.1).hours_for(0.05, 600_000, By::Slot);
        assert!((hours - 70.0 * 2.5 / 6.0).abs() < 1e-9, "{hours}");
        assert!((noise(0.1).detectable(70) - 0.05).abs() < 0.0005);
        assert_eq!(
            noise(0.001).pairs_for(0.05),
            7,
            "three verdicts take seven pairs however little noise there is"
        );
    }

    #[test]
    fn noise_knows_whether_it_is_that_of_ratios() {
        let of = |scale| Noise::of(&METRICS[0], scale, &[0.0, 0.2]).unwrap();
        assert_eq!([Scale::Ratio, Scale::Difference].map(|scale| of(scale).is_ratio), [true, false]);
    }

    #[test]
    fn a_trial_says_before_it_begins_what_it_can_show() {
        let text = before(&sample(), None);
        assert!(
            text.starts_with("40 slots of 60 s in 0.67 h: 16 pairs. any metric: an effect of 10."),
            "{text}"
        );
        assert!(text.contains("`headway trial plan`"), "{text}");
        let plan = Plan {
            connections: 9,
            life_p95_ms: 1,
            slot_ms: 1,
            burn_in_ms: 1,
            noise: vec![noise(0.2), Noise { is_ratio: false, ..noise(0.1) }],
        };
        let text = before(&sample(), Some(&plan));
        assert!(
            text.contains("goodput: an effect of 22.") && text.contains("some slots have zero"),
            "{text}"
        );
    }

    #[test]
    fn lengths_are_those_that_people_say() {
        assert_eq!([1, 11, 151, 2001, 70_000].map(rounded), [1, 15, 200, 3000, 70_000]);
        assert_eq!([500, 1500, 600_000, 7_200_000].map(length), ["500 ms", "1.5 s", "10 min", "2 h"]);
    }
}
