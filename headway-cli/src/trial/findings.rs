//! What follows from all slots of a trial: effects with their intervals and verdicts, whether connections touch each other, and
//! for whom the effect is how large.
//!
//! The two slots of a pair make one difference. A coin decided their order, so hours and days weigh on both sides alike, and
//! the tests need nothing else (`stats::coin`). A trial that ran as long as it was meant to has the exact signed-rank
//! interval; one that is looked at while it runs, or that was ended early, has the one that holds at every look.

use super::folder::{Ended, Trial};
use super::outcome::{Counted, Counts, GOODPUT, METRICS, Metric, Outcome, RTT_P95};
use super::schedule::{By, Kind};
use crate::report::judge::{self, Judgement, Pairs, Question, Scale};
use crate::report::words::{number, percent, signed};
use crate::stats::coin::{always_valid, coin_noise, randomisation_p};
use crate::stats::{self, Shift};
use std::collections::{BTreeMap, HashMap};

/// Everything that a report says.
#[derive(Clone, Debug)]
pub struct Findings {
    /// In the order of [`METRICS`], as far as there are pairs.
    pub effects: Vec<Effect>,
    pub spill: Vec<Spill>,
    /// For whom and when the effect is how large; without verdicts.
    pub parts: Vec<Part>,
    pub outcomes: Vec<Outcome>,
    pub counts: Counts,
    /// The trial ran as long as it was meant to.
    pub is_final: bool,
    /// Of the bytes in whole slots, those of connections from before with the other controller.
    pub foreign_share: f64,
    pub networks: usize,
}

/// What giving all traffic the candidate changes of one metric.
#[derive(Clone, Debug)]
pub struct Effect {
    pub metric: &'static Metric,
    pub judged: Judgement,
    /// By re-drawing the coin; holds only where nobody looked before the end.
    pub p_coin: f64,
    /// The smallest effect that so many pairs of so much noise show in four of five trials, on the scale of the judgement.
    pub detectable: Option<f64>,
    /// The gap between connections of the half slots, which is what an A/B test of connections would have said.
    pub side_by_side: Option<Judgement>,
}

/// Whether connections with one controller change what the others get: is the gap within half slots that between whole ones?
#[derive(Clone, Debug)]
pub struct Spill {
    pub metric: &'static Metric,
    /// Groups of slots that have both gaps.
    pub groups: usize,
    /// The gap within half slots less that between whole ones, as gains.
    pub difference: Shift,
    pub scale: Scale,
    /// After Holm's correction over the metrics that are tested.
    pub p: f64,
    /// The smallest difference that matters, on the same scale.
    pub margin: f64,
}

impl Spill {
    /// Whether the gaps differ, and by enough to matter.
    pub fn is_found(&self) -> bool {
        self.p <= 1.0 - stats::LEVEL && self.difference.center.abs() >= self.margin
    }
}

/// The effect on some of the connections.
#[derive(Clone, Debug)]
pub struct Part {
    /// What the parts differ by: hour, distance, size of the network.
    pub of: &'static str,
    pub name: String,
    pub connections: usize,
    pub metric: &'static Metric,
    pub judged: Option<Judgement>,
}

/// Two-sided 5 %, four of five: 1.960 + 0.842 standard errors; the signed-rank test has 3/π of the t-test's efficiency.
pub const DETECTABLE_ERRORS: f64 = (1.959_964 + 0.841_621) * 1.023_3;

impl Findings {
    pub fn of(trial: &Trial) -> Self {
        let counted = Counted::of(trial);
        let is_final = matches!(trial.ended, Some(Ended::Done { .. }));
        let outcomes = counted.outcomes(|_| true);
        let by = trial.setup.by;
        Self {
            effects: effects(&outcomes, by, is_final),
            spill: spill(&outcomes),
            parts: parts(&counted, by),
            counts: counted.counts,
            foreign_share: counted.foreign_share(),
            networks: networks(&counted).len(),
            is_final,
            outcomes,
        }
    }

    #[cfg(test)]
    pub fn effect(&self, metric: usize) -> Option<&Effect> {
        self.effects.iter().find(|e| e.metric.name == METRICS[metric].name)
    }

    pub fn has_spill(&self) -> bool {
        self.spill.iter().any(Spill::is_found)
    }

    pub fn pairs(&self) -> usize {
        self.effects.iter().map(|e| e.judged.improvement.n).max().unwrap_or(0)
    }
}

fn effects(outcomes: &[Outcome], by: By, is_final: bool) -> Vec<Effect> {
    let estimate = if is_final { Shift::of } else { always_valid };
    let mut effects: Vec<Effect> = METRICS
        .iter()
        .enumerate()
        .filter_map(|(index, metric)| effect(outcomes, by, estimate, index, metric))
        .collect();
    judge::decide(effects.iter_mut().map(|e| &mut e.judged));
    effects
}

fn effect(
    outcomes: &[Outcome],
    by: By,
    estimate: judge::Estimate,
    index: usize,
    metric: &'static Metric,
) -> Option<Effect> {
    let pairs = pairs(outcomes, by, index);
    // Connections side by side say harm and no size, so they have no margin and get no verdict.
    let margin = metric.margin.filter(|_| by != By::Connection);
    let question = Question { better: metric.better, margin, ceiling: None };
    let mut judged = Judgement::by(estimate, &pairs, &question)?;
    let (scale, gains) = judge::gains(metric.better, &pairs.baseline, &pairs.candidate);
    let share = |gain: f64| if scale == Scale::Ratio { gain.exp_m1() } else { gain };
    judged.noise = coin_noise(&gains).map(share);
    let detectable =
        stats::deviation(&gains).map(|sd| share(DETECTABLE_ERRORS * sd / (gains.len() as f64).sqrt()));
    let halves = question_of_halves(outcomes, by, index).filter(|p| !p.baseline.is_empty());
    let side_by_side =
        halves.and_then(|pairs| Judgement::by(estimate, &pairs, &Question { margin: None, ..question }));
    Some(Effect { metric, judged, p_coin: randomisation_p(&gains), detectable, side_by_side })
}

/// The values that are compared: of whole slots pair by pair, or of both controllers in each half slot.
pub fn pairs(outcomes: &[Outcome], by: By, metric: usize) -> Pairs {
    match by {
        By::Slot => paired(outcomes.iter().filter(|o| o.schedule.kind != Kind::Half), metric),
        By::Prefix | By::Connection => paired(outcomes.iter(), metric),
    }
}

fn question_of_halves(outcomes: &[Outcome], by: By, metric: usize) -> Option<Pairs> {
    (by == By::Slot).then(|| paired(outcomes.iter().filter(|o| o.schedule.kind == Kind::Half), metric))
}

fn paired<'a>(outcomes: impl Iterator<Item = &'a Outcome>, metric: usize) -> Pairs {
    let mut by_pair: BTreeMap<u32, [Option<f64>; 2]> = BTreeMap::new();
    for outcome in outcomes {
        by_pair.entry(outcome.schedule.pair).or_default()[outcome.arm] = outcome.values[metric];
    }
    let both = by_pair.into_values().filter_map(|[base, cand]| Some((base?, cand?)));
    let (baseline, candidate) = both.unzip();
    Pairs { baseline, candidate }
}

/// The metrics in which connections that touch each other show it: the queue that they share, and the rate.
const TESTED: [usize; 2] = [RTT_P95, GOODPUT];

fn spill(outcomes: &[Outcome]) -> Vec<Spill> {
    let mut found: Vec<Spill> = TESTED.iter().filter_map(|metric| spill_of(outcomes, *metric)).collect();
    let ps = stats::holm(&found.iter().map(|s| s.p).collect::<Vec<_>>());
    found.iter_mut().zip(ps).for_each(|(spill, p)| spill.p = p);
    found
}

fn spill_of(outcomes: &[Outcome], index: usize) -> Option<Spill> {
    let metric = &METRICS[index];
    let mut groups: BTreeMap<u32, Vec<&Outcome>> = BTreeMap::new();
    for outcome in outcomes {
        groups.entry(outcome.schedule.group).or_default().push(outcome);
    }
    let (mut gaps, mut scales) = (Vec::new(), Vec::new());
    for group in groups.values() {
        let of = |is_half: bool| {
            paired(group.iter().copied().filter(|o| (o.schedule.kind == Kind::Half) == is_half), index)
        };
        let (half, whole) = (of(true), of(false));
        let (half_scale, half) = judge::gains(metric.better, &half.baseline, &half.candidate);
        let (whole_scale, whole) = judge::gains(metric.better, &whole.baseline, &whole.candidate);
        if let (Some(half), Some(whole)) = (stats::mean(&half), stats::mean(&whole)) {
            gaps.push(half - whole);
            scales.push(if half_scale == whole_scale { half_scale } else { Scale::Difference });
        }
    }
    let scale = if scales.iter().all(|s| *s == Scale::Ratio) { Scale::Ratio } else { Scale::Difference };
    let difference = Shift::of(&gaps)?;
    let margin = metric.margin.map_or(0.0, |m| if scale == Scale::Ratio { m.share } else { m.amount });
    Some(Spill { metric, groups: gaps.len(), p: difference.p, difference, scale, margin })
}

/// How many connections each network has.
fn networks(counted: &Counted) -> HashMap<u64, usize> {
    let mut networks = HashMap::new();
    counted.connections.iter().for_each(|c| *networks.entry(c.prefix).or_default() += 1);
    networks
}

/// Upper edges of the bands of distance, in milliseconds, by the smallest round-trip time of the network.
const BANDS_MS: [u64; 5] = [10, 30, 60, 120, 250];
/// Upper edges of the sizes of networks, in connections.
const SIZES: [usize; 3] = [10, 100, 1000];

fn parts(counted: &Counted, by: By) -> Vec<Part> {
    let mut parts = by_hour(counted, by);
    let band = |c: &super::connection::Connection| {
        let ms = counted.network_min_us(c)? / 1000;
        Some(BANDS_MS.iter().position(|edge| ms < *edge).unwrap_or(BANDS_MS.len()))
    };
    for at in 0..=BANDS_MS.len() {
        parts.extend(part(counted, by, "Network's minimum RTT", name_of(at, &BANDS_MS, " ms"), |c| {
            band(c) == Some(at)
        }));
    }
    let sizes = networks(counted);
    let size = |c: &super::connection::Connection| {
        SIZES.iter().position(|edge| sizes[&c.prefix] < *edge).unwrap_or(SIZES.len())
    };
    let edges = SIZES.map(|edge| edge as u64);
    for at in 0..=SIZES.len() {
        parts.extend(part(counted, by, "Connections of the network", name_of(at, &edges, ""), |c| {
            size(c) == at
        }));
    }
    parts
}

fn name_of(at: usize, edges: &[u64], unit: &str) -> String {
    match (at.checked_sub(1).map(|below| edges[below]), edges.get(at)) {
        (None, Some(to)) => format!("below {to}{unit}"),
        (Some(from), Some(to)) => format!("{from} to {to}{unit}"),
        (Some(from), None) => format!("{from}{unit} and more"),
        (None, None) => "all".into(),
    }
}

fn by_hour(counted: &Counted, by: By) -> Vec<Part> {
    let setup = &counted.trial.setup;
    let hour = |ms: u64| (setup.began_unix_s + ms / 1000) / 3600 % 24;
    let began: HashMap<u32, u64> = counted.trial.slots.iter().map(|s| (s.slot, s.began_ms)).collect();
    // Both slots of a pair belong to the hour in which the first of them began.
    let mut hour_of_pair: HashMap<u32, u64> = HashMap::new();
    for row in &counted.trial.slots {
        let pair = counted.schedule[row.slot as usize].pair;
        hour_of_pair.entry(pair).or_insert_with(|| hour(began[&row.slot]));
    }
    let unit = if setup.is_simulated() { "" } else { " UTC" };
    (0..24)
        .flat_map(|h| {
            let is_in = |c: &super::connection::Connection| {
                hour_of_pair.get(&counted.schedule[c.slot as usize].pair) == Some(&h)
            };
            part(counted, by, "Hour", format!("{h:02}:00{unit}"), is_in)
        })
        .collect()
}

/// A row for goodput and one for the round-trip time; none where there are no such connections.
fn part(
    counted: &Counted,
    by: By,
    of: &'static str,
    name: String,
    is_in: impl Fn(&super::connection::Connection) -> bool,
) -> Vec<Part> {
    let connections = counted.connections.iter().filter(|c| is_in(c)).count();
    if connections == 0 {
        return Vec::new();
    }
    let outcomes = counted.outcomes(is_in);
    let row = |index: &usize| {
        let metric = &METRICS[*index];
        let question = Question { better: metric.better, margin: None, ceiling: None };
        let judged = Judgement::of(&pairs(&outcomes, by, *index), &question);
        Part { of, name: name.clone(), connections, metric, judged }
    };
    TESTED.iter().map(row).collect()
}

/// A value on a judgement's scale as a change of the metric, and not as an improvement: `−31 %`.
pub fn change_text(metric: &Metric, scale: Scale, improvement: f64) -> String {
    let unit = change_unit(metric, scale);
    format!("{} {unit}", bare_change(metric, scale, improvement)).trim_end().to_string()
}

/// The same without the unit.
pub fn bare_change(metric: &Metric, scale: Scale, improvement: f64) -> String {
    let change = metric.better.sign() * improvement;
    match scale {
        _ if !change.is_finite() => {
            if change > 0.0 {
                "∞".into()
            } else {
                "-∞".into()
            }
        }
        Scale::Ratio => percent(change),
        Scale::Difference => signed(change * metric.unit.factor),
    }
}

fn change_unit(metric: &Metric, scale: Scale) -> &'static str {
    match (scale, metric.unit.word) {
        (Scale::Ratio, _) => "%",
        (Scale::Difference, "%") => "pp",
        (Scale::Difference, word) => word,
    }
}

/// `[-38.0, -22.0]`: the interval as changes, the smaller end first. Empty where it has no ends.
pub fn interval_text(metric: &Metric, judged: &Judgement) -> String {
    let shift = &judged.improvement;
    if !(shift.low.is_finite() && shift.high.is_finite()) {
        return String::new();
    }
    let mut ends = [shift.low, shift.high];
    if metric.better.sign() < 0.0 {
        ends.reverse();
    }
    let [low, high] = ends.map(|end| bare_change(metric, judged.scale, end));
    format!("[{low}, {high}]")
}

/// A size without a sign, on a judgement's scale.
pub fn size_text(metric: &Metric, scale: Scale, size: f64) -> String {
    let value = match scale {
        Scale::Ratio => number(size * 100.0),
        Scale::Difference => number(size * metric.unit.factor),
    };
    format!("{value} {}", change_unit(metric, scale)).trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::super::schedule::{Slot, slots};
    use super::*;

    /// Outcomes of so many groups whose goodput and round-trip time are given by kind and arm.
    fn outcomes(groups: u32, of: impl Fn(Slot, usize, u32) -> f64) -> Vec<Outcome> {
        let mut all = Vec::new();
        for (slot, schedule) in (0..).zip(slots(5 * groups, By::Slot, false, 3)) {
            let arms = match schedule.kind {
                Kind::Whole(arm) => vec![arm],
                _ => vec![0, 1],
            };
            all.extend(arms.into_iter().map(|arm| {
                let values = [Some(of(schedule, arm, slot)); METRICS.len()];
                Outcome { slot, schedule, arm, began_ms: 0, connections: 9, values }
            }));
        }
        all
    }

    /// The level of a slot rises from one to the next by up to a tenth, which pairs forgive.
    fn level(slot: u32) -> f64 {
        100.0 * 1.02f64.powi(slot as i32 % 5) * (1.0 + f64::from(slot * 7 % 11) / 1000.0)
    }

    #[test]
    fn the_effect_is_that_of_whole_slots_and_spill_over_is_where_half_ones_differ() {
        let half_gap = |gap: f64| {
            move |s: Slot, arm: usize, slot: u32| {
                let gap = if s.kind == Kind::Half { gap } else { 1.1 };
                level(slot) * if arm == 1 { gap } else { 1.0 }
            }
        };
        for (gap, is_found) in [(1.5, true), (1.1, false)] {
            let outcomes = outcomes(10, half_gap(gap));
            let effects = effects(&outcomes, By::Slot, true);
            let goodput = &effects[GOODPUT];
            let (center, side) = (&goodput.judged.improvement, goodput.side_by_side.as_ref().unwrap());
            assert!((center.center - 0.1).abs() < 0.02 && center.n == 20, "{center:?}");
            assert!((side.improvement.center - (gap - 1.0)).abs() < 1e-9);
            assert!(goodput.p_coin < 0.001 && goodput.judged.noise.unwrap() < 0.05);
            let spill = spill(&outcomes);
            assert_eq!(spill.iter().all(Spill::is_found), is_found, "{gap}: {spill:?}");
            assert_eq!(spill[0].groups, 10);
        }
    }

    /// By hand: 2ⁿ orders of the coin; with 5 pairs the least p is 2/32, with 7 and three verdicts 3 × 2/128 = 0.047.
    #[test]
    fn few_pairs_have_no_verdict() {
        let twice = |_: Slot, arm: usize, slot: u32| level(slot) * if arm == 1 { 2.0 } else { 1.0 };
        let verdict = |pairs: usize| {
            let outcomes = outcomes(5, twice);
            let first: Vec<Outcome> =
                outcomes.into_iter().filter(|o| o.schedule.kind != Kind::Half).take(2 * pairs).collect();
            effects(&first, By::Slot, true)[GOODPUT].judged.verdict.unwrap()
        };
        use stats::Verdict::{Better, TooFewBlocks};
        assert_eq!([5, 6, 7].map(verdict), [TooFewBlocks, TooFewBlocks, Better]);
    }

    #[test]
    fn changes_have_the_sign_of_the_metric_and_intervals_rise() {
        let (rtt, rate) = (&METRICS[RTT_P95], &METRICS[GOODPUT]);
        assert_eq!([rtt, rate].map(|m| change_text(m, Scale::Ratio, 0.31)), ["-31.0 %", "+31.0 %"]);
        assert_eq!(change_text(&METRICS[2], Scale::Difference, 0.02), "-2.00 pp");
        let twice = |_: Slot, arm: usize, slot: u32| level(slot) * if arm == 1 { 0.5 } else { 1.0 };
        let effects = effects(&outcomes(5, twice), By::Slot, true);
        let text = interval_text(rtt, &effects[RTT_P95].judged);
        assert!(text.starts_with("[-5") && text.ends_with(']'), "{text}");
        assert_eq!(
            [name_of(0, &BANDS_MS, " ms"), name_of(5, &BANDS_MS, " ms")],
            ["below 10 ms", "250 ms and more"]
        );
    }
}
