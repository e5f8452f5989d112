//! What a run says, in one to three plain sentences: the first thing on the terminal and on the page.
//!
//! A reader comes for one thing: who carries more, at whose cost, and is that sure? So goodput and the tail of the
//! delay come before anything else, a verdict before a point, and what matters most (its size in margins) before what
//! matters less. A gain that was bought, delay with goodput or goodput with delay, is said together with its price.
//! Nothing is claimed without a verdict or an interval; a point alone is called one.

use super::findings::Comparison;
use super::front::{self, Front};
use super::judge::Scale;
use super::mean::{self, Mean};
use super::run::Run;
use crate::metric::{METRICS, Metric, index_of};
use crate::stats::Verdict::{self, Better, BetterTrivial, Equivalent, Inconclusive, Worse, WorseTrivial};
use crate::stats::blocks_needed;

/// More sentences are not read.
const SENTENCES: usize = 3;

/// With more paths than this a mean over them says more than any one of them.
pub const FEW_PATHS: usize = 3;

pub const GOODPUT: &str = "goodput_bps";
pub const QUEUE_DELAY: &str = "queue_delay_p95_us";
pub const MESSAGE_DELAY: &str = "message_delay_p99_us";
pub const DROP_DELAY: &str = "queue_delay_p99_after_drop_us";

#[derive(Debug)]
pub struct Answer {
    pub sentences: Vec<String>,
    /// Of every metric over all paths that have it, where these are two or more.
    pub means: Vec<Mean>,
}

pub fn of(run: &Run, comparisons: &[Comparison], front: Option<&Front>) -> Answer {
    let means = mean::of(run);
    let judged: Vec<&Comparison> = comparisons.iter().filter(|c| c.judged.verdict.is_some()).collect();
    let teller = Teller { run, judged, means: &means };
    let sentences = match () {
        () if run.plan.ccs.len() < 2 => teller.alone(),
        () if run.plan.draws.is_some() && !comparisons.is_empty() => front::sentences(run, front),
        () if teller.judged.is_empty() => vec![teller.nothing_counts()],
        () if teller.judged.iter().all(|c| is_too_few(c)) => teller.undecided(),
        () if run.plan.paths.len() > FEW_PATHS => teller.many_paths(),
        () => teller.few_paths(),
    };
    Answer { sentences, means }
}

/// What a gain was bought with: for better goodput a delay that is worse on the same path, for a better delay goodput
/// that is worse.
pub fn price<'a>(all: impl IntoIterator<Item = &'a Comparison>, gain: &Comparison) -> Option<&'a Comparison> {
    let is_other_side = |c: &Comparison| match gain.metric.name {
        GOODPUT => [QUEUE_DELAY, MESSAGE_DELAY].contains(&c.metric.name),
        QUEUE_DELAY | MESSAGE_DELAY => c.metric.name == GOODPUT,
        _ => false,
    };
    let same = |c: &&Comparison| c.path == gain.path && c.candidate == gain.candidate && is_other_side(c);
    let is_worse = |c: &&Comparison| c.judged.verdict == Some(Worse);
    let is_gain = gain.judged.verdict == Some(Better);
    all.into_iter().filter(|_| is_gain).filter(same).find(is_worse)
}

/// A run and what was found in it.
struct Teller<'a> {
    run: &'a Run,
    /// The comparisons that have a verdict.
    judged: Vec<&'a Comparison>,
    means: &'a [Mean],
}

impl<'a> Teller<'a> {
    fn alone(&self) -> Vec<String> {
        let run = self.run;
        let mut said = vec!["Only one controller ran, so there is nothing to compare it with.".to_string()];
        let shown = |path: usize, name: &str| {
            let index = index_of(name);
            run.spread(path, run.baseline(), index).map(|s| s.show(METRICS[index].unit))
        };
        for path in 0..run.plan.paths.len().min(SENTENCES - 1) {
            let Some(goodput) = shown(path, GOODPUT) else { continue };
            let delay = shown(path, QUEUE_DELAY).map_or(String::new(), |d| {
                format!(", with a {} of {d}", noun(&METRICS[index_of(QUEUE_DELAY)]))
            });
            said.push(format!("On {}, {} carries {goodput}{delay}.", self.path(path), run.baseline()));
        }
        said
    }

    fn nothing_counts(&self) -> String {
        let counts = self.run.counts();
        let sum = |of: fn(&super::run::Count) -> usize| counts.iter().map(of).sum::<usize>();
        let (attempted, excluded) = (sum(|c| c.attempted), sum(|c| c.excluded));
        if attempted == 0 {
            return "No cell has been run, so there is nothing to compare.".into();
        }
        format!(
            "Nothing can be compared: no block has a cell of {} that counts and one of another controller beside it \
             ({excluded} of {attempted} cells are excluded).",
            self.run.baseline()
        )
    }

    /// Too few blocks for any verdict: how many it takes, then points that are called points.
    fn undecided(&self) -> Vec<String> {
        let plan = &self.run.plan;
        let needed = blocks_needed(plan.comparisons());
        let planned = plan.blocks as usize;
        let left = self.judged.iter().map(|c| c.judged.improvement.n).max().unwrap_or(0);
        let mut said = vec![if planned < needed {
            format!("With {} nothing can be decided: {needed} are needed.", blocks(planned))
        } else {
            format!(
                "Nothing can be decided: of {} only {left} can be compared, and {needed} are needed.",
                blocks(planned)
            )
        }];
        let candidates = self.candidates();
        if plan.paths.len() > FEW_PATHS {
            let mut means: Vec<String> = candidates.iter().filter_map(|cc| self.over_paths(cc)).collect();
            means.truncate(SENTENCES - 1);
            said.extend(means);
        } else {
            let of = |cc: &&str| self.strongest(|c| c.candidate == **cc && size(c) >= 1.0);
            let points = candidates.iter().filter_map(of).take(SENTENCES - 1);
            said.extend(points.map(|c| {
                let view = View::of(self.run, c);
                format!("A point without a verdict: on {}, {}.", self.path(c.path), view.main())
            }));
        }
        said
    }

    /// One sentence a candidate; where there is one candidate only, one a path.
    fn few_paths(&self) -> Vec<String> {
        let candidates = self.candidates();
        let [only] = candidates[..] else {
            return self.strongest_first(&candidates, |candidate| self.one(candidate));
        };
        let mut contrasts: Vec<&Comparison> = (0..self.run.plan.paths.len())
            .filter_map(|path| self.strongest(|c| c.path == path && is_decided(c)))
            .collect();
        contrasts.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        contrasts.truncate(SENTENCES);
        let mut said: Vec<String> = contrasts.iter().map(|c| self.contrast(c, false)).collect();
        if contrasts.len() < self.run.plan.paths.len() && said.len() < SENTENCES {
            let told: Vec<usize> = contrasts.iter().map(|c| c.path).collect();
            said.push(self.no_difference(only, Some(&told)));
        }
        said
    }

    /// The mean over the paths, one sentence a candidate; of a single one also where it gains and loses most.
    fn many_paths(&self) -> Vec<String> {
        let candidates = self.candidates();
        if !candidates.iter().any(|cc| self.over_paths(cc).is_some()) {
            return self.few_paths();
        }
        let sentence = |cc: &str| self.over_paths(cc).unwrap_or_else(|| self.one(cc));
        let mut said = self.strongest_first(&candidates, sentence);
        if candidates.len() == 1 {
            let most = |verdict| self.strongest(|c| c.judged.verdict == Some(verdict) && tier(c.metric) > 0);
            let mut ends: Vec<&Comparison> = [most(Better), most(Worse)].into_iter().flatten().collect();
            ends.dedup_by_key(|c| c.path);
            said.extend(ends.iter().map(|c| self.contrast(c, false)));
        }
        said
    }

    /// What matters most of a candidate, or that nothing does.
    fn one(&self, candidate: &str) -> String {
        let best = self.strongest(|c| c.candidate == *candidate && is_decided(c));
        best.map_or_else(|| self.no_difference(candidate, None), |c| self.contrast(c, true))
    }

    fn candidates(&self) -> Vec<&'a str> {
        let has_any = |cc: &&str| self.judged.iter().any(|c| c.candidate == **cc);
        self.run.plan.labels().skip(1).filter(has_any).collect()
    }

    /// A sentence each, those of which most can be said first.
    fn strongest_first(&self, candidates: &[&str], sentence: impl Fn(&str) -> String) -> Vec<String> {
        let of = |cc: &str| self.strongest(|c| c.candidate == *cc && is_decided(c)).map_or(0.0, weight);
        let mut ranked: Vec<&str> = candidates.to_vec();
        ranked.sort_by(|a, b| of(b).total_cmp(&of(a)));
        ranked.into_iter().take(SENTENCES).map(sentence).collect()
    }

    /// What matters most of those that are wanted; of equals the first.
    fn strongest(&self, wanted: impl Fn(&Comparison) -> bool) -> Option<&'a Comparison> {
        let wanted = self.judged.iter().copied().filter(|c| wanted(c) && !self.is_told_by_messages(c));
        wanted.reduce(|best, c| if weight(c) > weight(best) { c } else { best })
    }

    /// Is this the probes' delay where messages ran whose delay is decided, too? Messages are what users feel.
    fn is_told_by_messages(&self, c: &Comparison) -> bool {
        let is_messages = |o: &Comparison| {
            o.path == c.path && o.candidate == c.candidate && o.metric.name == MESSAGE_DELAY && is_decided(o)
        };
        c.metric.name == QUEUE_DELAY && self.judged.iter().any(|o| is_messages(o))
    }

    /// One comparison with its price or its other side.
    fn contrast(&self, c: &'a Comparison, with_other_paths: bool) -> String {
        let view = View::of(self.run, c);
        let mut text = format!("On {}, {}", self.path(c.path), view.main());
        if let Some(other) = self.counterpart(c) {
            let other = View { c: other, ..view };
            let opposite = (c.judged.verdict, other.c.judged.verdict);
            text += &match opposite {
                (Some(Better), Some(Worse)) | (Some(Worse), Some(Better)) if tier(c.metric) > 0 => {
                    // The side that gains is named first where the sentence is about it, last where it is not.
                    if view.gains() {
                        format!(", bought with {}", other.as_price())
                    } else {
                        format!(", which buys {}", other.as_price())
                    }
                }
                (_, Some(Better | Worse)) => format!("; its {}", other.change()),
                (_, Some(BetterTrivial | WorseTrivial | Equivalent)) => {
                    format!("; its {} stays within {}", noun(other.c.metric), margin_text(other.c))
                }
                _ => format!("; nothing is decided about its {}", noun(other.c.metric)),
            };
        }
        let reverse = self.judged.iter().filter(|o| {
            o.candidate == c.candidate
                && o.metric.name == c.metric.name
                && is_decided(o)
                && o.judged.verdict != c.judged.verdict
        });
        let reverse: Vec<&Comparison> = reverse.copied().collect();
        match reverse[..] {
            _ if !with_other_paths => {}
            [] => {}
            [only] => text += &format!("; on {}, {}", self.path(only.path), View::of(self.run, only).main()),
            _ => text += &format!("; on {} other paths the difference has the opposite sign", reverse.len()),
        }
        text + "."
    }

    /// Goodput beside a delay, the tail of the delay beside goodput.
    fn counterpart(&self, c: &Comparison) -> Option<&'a Comparison> {
        let of = |name: &str| {
            self.judged
                .iter()
                .copied()
                .find(|o| o.path == c.path && o.candidate == c.candidate && o.metric.name == name)
        };
        if c.metric.name == GOODPUT { of(MESSAGE_DELAY).or_else(|| of(QUEUE_DELAY)) } else { of(GOODPUT) }
    }

    /// No verdict of a candidate matters, on all paths or on all but those told already.
    fn no_difference(&self, candidate: &str, told: Option<&[usize]>) -> String {
        let told = told.unwrap_or_default();
        let here: Vec<&Comparison> = self
            .judged
            .iter()
            .copied()
            .filter(|c| c.candidate == candidate && !told.contains(&c.path))
            .collect();
        let count = |of: &[Verdict]| {
            here.iter().filter(|c| c.judged.verdict.is_some_and(|v| of.contains(&v))).count()
        };
        let (same, all) = (count(&[Equivalent, BetterTrivial, WorseTrivial]), here.len());
        let place = if told.is_empty() { "" } else { " on the other paths" };
        let base = self.run.baseline();
        if same == all {
            return format!(
                "No difference between {candidate} and {base} was found{place} that matters: {all} of {all} comparisons are equivalent."
            );
        }
        let open = count(&[Inconclusive]);
        let few = all - same - open;
        let parts = [(same, "equivalent"), (open, "inconclusive"), (few, "without enough blocks")];
        let parts: Vec<String> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
        format!(
            "Between {candidate} and {base} no difference that matters is sure{place}: of {all} comparisons {}.",
            parts.join(", ")
        )
    }

    /// A candidate's means: the tail of the delay and goodput, the larger change first.
    fn over_paths(&self, candidate: &str) -> Option<String> {
        let of = |name: &str| self.means.iter().find(|m| m.candidate == candidate && m.metric.name == name);
        let is_usual = |m: &&Mean| 2 * m.paths >= self.run.plan.paths.len();
        let tail = of(DROP_DELAY).filter(is_usual).or_else(|| of(MESSAGE_DELAY)).or_else(|| of(QUEUE_DELAY));
        let mut two: Vec<&Mean> = [of(GOODPUT), tail].into_iter().flatten().collect();
        two.sort_by(|a, b| mean_size(b).total_cmp(&mean_size(a)));
        let first = *two.first()?;
        let base = self.run.baseline();
        let mut text = format!("Over {} paths, {candidate}'s {}", first.paths, mean_main(first, base));
        if let Some(second) = two.get(1) {
            text += &mean_beside(first, second, base);
        }
        let mine = || self.judged.iter().filter(|c| c.candidate == candidate);
        let count = |verdict| mine().filter(|c| c.judged.verdict == Some(verdict)).count();
        let (all, better, worse) = (mine().count(), count(Better), count(Worse));
        if better + worse == 0 {
            return Some(text + ".");
        }
        Some(format!("{text}. Of its {all} verdicts {better} are better and {worse} worse."))
    }

    /// A path as a sentence names it.
    fn path(&self, path: usize) -> String {
        self.run.plan.paths[path].name.clone()
    }
}

/// A comparison as seen from one of its two sides.
#[derive(Clone, Copy)]
struct View<'a> {
    c: &'a Comparison,
    baseline: &'a str,
    /// The baseline is the subject of the sentence, because "7.1 times" is easier than "86 % less".
    is_mirrored: bool,
}

/// How much, on the way from the object of a sentence to its subject.
enum Change {
    Times(f64),
    Amount(f64),
}

impl<'a> View<'a> {
    fn of(run: &'a Run, c: &'a Comparison) -> Self {
        let mut view = View { c, baseline: run.baseline(), is_mirrored: false };
        view.is_mirrored = c.metric.name == GOODPUT && matches!(view.amount(), Change::Times(r) if r <= 0.5);
        view
    }

    fn amount(&self) -> Change {
        let improvement = self.c.judged.improvement.center;
        let difference = self.c.metric.better.sign() * improvement;
        match self.c.judged.scale {
            Scale::Ratio if self.is_mirrored => Change::Times(1.0 / (1.0 + difference)),
            Scale::Ratio => Change::Times(1.0 + difference),
            Scale::Difference if self.is_mirrored => Change::Amount(-difference),
            Scale::Difference => Change::Amount(difference),
        }
    }

    /// Is the subject of the sentence the one for whom it is better?
    fn gains(&self) -> bool {
        (self.c.judged.improvement.center > 0.0) != self.is_mirrored
    }

    /// `bbr carries 7.1 times what cubic does (46.2 instead of 6.50 Mbit/s)`.
    fn main(&self) -> String {
        let (subject, object) = self.sides();
        let (amount, values) = (self.amount_text(), self.values());
        match (self.c.metric.name, self.amount()) {
            (GOODPUT, Change::Times(r)) if r >= 2.0 => {
                let least = if self.is_bound() { "at least " } else { "" };
                format!("{subject} carries {least}{} times what {object} does {values}", times(r))
            }
            (GOODPUT, _) => format!("{subject} carries {amount} than {object} {values}"),
            (_, Change::Times(r)) if r >= 2.0 => {
                format!("{subject}'s {} is {amount} as {object}'s {values}", noun(self.c.metric))
            }
            _ => format!("{subject}'s {} is {amount} than {object}'s {values}", noun(self.c.metric)),
        }
    }

    /// `p95 queueing delay is 3.0 times as long (12.0 instead of 4.00 ms)`.
    fn change(&self) -> String {
        let amount = if self.c.metric.name == GOODPUT {
            self.amount_text().replace("more", "higher").replace("less", "lower").replace("much", "high")
        } else {
            self.amount_text()
        };
        format!("{} is {amount} {}", noun(self.c.metric), self.values())
    }

    fn as_price(&self) -> String {
        match self.c.metric.name {
            GOODPUT => format!("{} goodput {}", self.amount_text(), self.values()),
            _ => format!("a {} {} {}", noun(self.c.metric), self.amount_text(), self.values()),
        }
    }

    fn sides(&self) -> (&'a str, &'a str) {
        let (candidate, baseline) = (self.c.candidate.as_str(), self.baseline);
        if self.is_mirrored { (baseline, candidate) } else { (candidate, baseline) }
    }

    fn amount_text(&self) -> String {
        let (much, more, less) = adjectives(self.c.metric);
        let text = match self.amount() {
            Change::Times(r) if r >= 2.0 => format!("{} times as {much}", times(r)),
            Change::Times(r) if r >= 1.0 => format!("{} % {more}", percent(r - 1.0)),
            Change::Times(r) => format!("{} % {less}", percent(1.0 - r)),
            Change::Amount(d) if d >= 0.0 => format!("{} {more}", self.c.amount_text(d)),
            Change::Amount(d) => format!("{} {less}", self.c.amount_text(-d)),
        };
        if self.is_bound() { format!("at least {text}") } else { text }
    }

    fn is_bound(&self) -> bool {
        self.c.judged.baseline_spread.is_bound || self.c.judged.candidate_spread.is_bound
    }

    /// `(46.2 instead of 6.50 Mbit/s)`.
    fn values(&self) -> String {
        let unit = self.c.metric.unit;
        let (mut a, mut b) =
            (self.c.judged.candidate_spread.show(unit), self.c.judged.baseline_spread.show(unit));
        if self.is_mirrored {
            std::mem::swap(&mut a, &mut b);
        }
        format!("({} instead of {b})", a.trim_end_matches(unit.word).trim_end())
    }
}

/// `p95 queueing delay is 63 % shorter than bbr3's (ratio 0.371, 95 % interval 0.366 .. 0.377)`.
fn mean_main(mean: &Mean, baseline: &str) -> String {
    let name = noun(mean.metric);
    match mean_amount(mean) {
        _ if mean.interval.is_some() && !mean.is_apart() => {
            format!("{name} cannot be told from {baseline}'s {}", mean_figures(mean))
        }
        amount if mean.ratio >= 2.0 => format!("{name} is {amount} as {baseline}'s {}", mean_figures(mean)),
        amount => format!("{name} is {amount} than {baseline}'s {}", mean_figures(mean)),
    }
}

/// What stands behind the first mean: its price, or that there is none, or the other change.
fn mean_beside(first: &Mean, second: &Mean, baseline: &str) -> String {
    let (name, figures) = (noun(second.metric), mean_figures(second));
    let over =
        if second.paths == first.paths { String::new() } else { format!(" over {} paths", second.paths) };
    let share = second.metric.margin.map_or(0.0, |m| m.share);
    let is_within = second.interval.is_some_and(|(low, high)| low > 1.0 - share && high < 1.0 + share);
    let is_price = first.is_apart() && second.is_apart() && mean_gain(first) > 0.0 && mean_gain(second) < 0.0;
    match mean_amount(second) {
        _ if is_within => format!("; its {name}{over} stays within {} % {figures}", share * 100.0),
        _ if second.interval.is_some() && !second.is_apart() => {
            format!("; its {name}{over} cannot be told from {baseline}'s {figures}")
        }
        amount if is_price && second.metric.name == GOODPUT => {
            format!(", bought with {amount} {name}{over} {figures}")
        }
        amount if is_price => format!(", bought with a {name} {amount}{over} {figures}"),
        amount => format!("; its {name}{over} is {amount} {figures}"),
    }
}

fn mean_amount(mean: &Mean) -> String {
    let (much, more, less) = match mean.metric.name {
        GOODPUT => ("high", "higher", "lower"),
        _ => adjectives(mean.metric),
    };
    match mean.ratio {
        r if r >= 2.0 => format!("{} times as {much}", times(r)),
        r if r >= 1.0 => format!("{} % {more}", percent(r - 1.0)),
        r => format!("{} % {less}", percent(1.0 - r)),
    }
}

fn mean_figures(mean: &Mean) -> String {
    match mean.interval {
        Some(_) => format!("(ratio {}, 95 % interval {})", mean.ratio_text(), mean.interval_text()),
        None => format!("(ratio {}, a point without an interval)", mean.ratio_text()),
    }
}

/// How many margins large a mean's change is.
fn mean_size(mean: &Mean) -> f64 {
    mean.ratio.ln().abs() / mean.metric.margin.map_or(0.05, |m| m.share)
}

/// Log ratio with the sign that makes a positive one better.
fn mean_gain(mean: &Mean) -> f64 {
    mean.metric.better.sign() * mean.ratio.ln()
}

/// A metric within a sentence.
pub fn noun(metric: &Metric) -> String {
    match metric.name {
        GOODPUT => "goodput".into(),
        QUEUE_DELAY => "p95 queueing delay".into(),
        MESSAGE_DELAY => "p99 message delay".into(),
        DROP_DELAY => "p99 queueing delay after the drop".into(),
        _ => {
            let mut letters = metric.label.chars();
            letters.next().map_or(String::new(), |c| c.to_lowercase().collect::<String>() + letters.as_str())
        }
    }
}

/// As much, more, less.
fn adjectives(metric: &Metric) -> (&'static str, &'static str, &'static str) {
    match (metric.name, metric.unit.word) {
        (GOODPUT, _) => ("much", "more", "less"),
        (_, "ms" | "s") => ("long", "longer", "shorter"),
        _ => ("high", "higher", "lower"),
    }
}

fn blocks(n: usize) -> String {
    format!("{n} block{}", if n == 1 { "" } else { "s" })
}

/// Of a ratio of two and more: a tenth is as fine as it is read.
fn times(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

/// Of a share between nothing and all.
fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p >= 99.5 => "more than 99".into(),
        p if p >= 9.95 => format!("{p:.0}"),
        p => format!("{p:.1}"),
    }
}

/// The smallest difference that matters here, as it is read: a share, or where the baseline is small an amount.
fn margin_text(c: &Comparison) -> String {
    let Some(margin) = c.metric.margin else { return String::new() };
    if margin.share * c.judged.baseline_spread.median >= margin.amount {
        format!("{} %", margin.share * 100.0)
    } else {
        c.amount_text(margin.amount)
    }
}

fn is_decided(c: &Comparison) -> bool {
    matches!(c.judged.verdict, Some(Better | Worse))
}

fn is_too_few(c: &Comparison) -> bool {
    let has_word = matches!(
        c.judged.verdict,
        Some(Better | Worse | BetterTrivial | WorseTrivial | Equivalent | Inconclusive)
    );
    !has_word
}

/// Goodput and the tails of delay are what a reader comes for.
fn tier(metric: &Metric) -> u8 {
    u8::from([GOODPUT, QUEUE_DELAY, MESSAGE_DELAY].contains(&metric.name))
}

/// Stands for a margin of nothing, which a baseline of zero has.
const LEAST_MARGIN: f64 = 1e-9;

/// How many margins large a difference is.
fn size(c: &Comparison) -> f64 {
    let margin = c.judged.margin.unwrap_or(1.0).max(LEAST_MARGIN);
    let improvement = c.judged.improvement.center;
    match c.judged.scale {
        Scale::Ratio => (1.0 + c.metric.better.sign() * improvement).ln().abs() / margin,
        Scale::Difference => improvement.abs() / margin,
    }
}

/// By which sentences are chosen: the tier first, then the size.
pub fn weight(c: &Comparison) -> f64 {
    let size = size(c);
    f64::from(tier(c.metric)) + size / (1.0 + size)
}

#[cfg(test)]
mod tests {
    use super::super::findings::Findings;
    use super::super::judge::{self, Judgement, Pairs, Question};
    use super::super::synthetic;
    use super::*;
    use serde_json::{Value, json};

    /// A run of a plan with these controllers, paths and blocks, and no cell run.
    fn run(name: &str, ccs: &[&str], paths: usize, blocks: u32) -> Run {
        let folder = synthetic::Folder::new(name);
        let mut plan: Value = serde_json::to_value(synthetic::plan(1)).unwrap();
        let named = |p: usize| json!({ "name": format!("path{p}"), "text": "100mbit 40ms" });
        plan["paths"] = (0..paths).map(named).collect();
        plan["ccs"] = json!(ccs);
        plan["blocks"] = json!(blocks);
        plan["cells"] = synthetic::cells(ccs, 0..paths, blocks);
        synthetic::write(&folder.dir.join("plan.json"), &plan.to_string());
        Run::read(&folder.dir).unwrap()
    }

    /// What was measured of a metric: path, candidate, the baseline's value and the candidate's, alike in all blocks.
    type Measured<'a> = (usize, &'a str, &'static str, f64, f64);

    fn judged(measured: &[Measured<'_>], blocks: usize) -> Vec<Comparison> {
        let one = |(path, candidate, name, base, cand): &Measured<'_>| {
            let metric = &METRICS[index_of(name)];
            let question = Question { better: metric.better, margin: metric.margin, ceiling: None };
            let pairs = Pairs { baseline: vec![*base; blocks], candidate: vec![*cand; blocks] };
            let judged = Judgement::of(&pairs, &question).unwrap();
            Comparison { path: *path, metric, candidate: (*candidate).into(), judged }
        };
        let mut all: Vec<Comparison> = measured.iter().map(one).collect();
        for metric in METRICS {
            judge::decide(all.iter_mut().filter(|c| c.metric.name == metric.name).map(|c| &mut c.judged));
        }
        all
    }

    fn said(run: &Run, measured: &[Measured<'_>], blocks: usize) -> Vec<String> {
        of(run, &judged(measured, blocks), None).sentences
    }

    #[test]
    fn a_gain_is_said_with_its_price() {
        let run = run("answer-price", &["bbr", "cubic"], 1, 8);
        let measured = [(0, "cubic", GOODPUT, 46.2e6, 6.5e6), (0, "cubic", QUEUE_DELAY, 12_000.0, 4000.0)];
        assert_eq!(
            said(&run, &measured, 8),
            [
                "On path0, bbr carries 7.1 times what cubic does (46.2 instead of 6.50 Mbit/s), bought with a p95 queueing \
              delay 3.0 times as long (12.0 instead of 4.00 ms)."
            ]
        );
        let measured = [(0, "cubic", GOODPUT, 50e6, 44e6), (0, "cubic", QUEUE_DELAY, 100_000.0, 37_000.0)];
        assert_eq!(
            said(&run, &measured, 8),
            [
                "On path0, cubic's p95 queueing delay is 63 % shorter than bbr's (37.0 instead of 100.0 ms), bought with 12 % \
              less goodput (44.0 instead of 50.0 Mbit/s)."
            ]
        );
        let all = judged(&measured, 8);
        assert_eq!(price(&all, &all[1]).map(|c| c.metric.name), Some(GOODPUT));
        assert!(price(&all, &all[0]).is_none(), "a loss has no price");
        // The loss is the larger change: what it buys is said behind it.
        let measured = [(0, "cubic", GOODPUT, 50e6, 30e6), (0, "cubic", QUEUE_DELAY, 100_000.0, 90_000.0)];
        assert_eq!(
            said(&run, &measured, 8),
            [
                "On path0, cubic carries 40 % less than bbr (30.0 instead of 50.0 Mbit/s), which buys a p95 queueing delay \
              10 % shorter (90.0 instead of 100.0 ms)."
            ]
        );
    }

    #[test]
    fn what_costs_nothing_says_so() {
        let run = run("answer-free", &["bbr3", "bbr3_brake"], 1, 8);
        let measured =
            [(0, "bbr3_brake", GOODPUT, 50e6, 50.1e6), (0, "bbr3_brake", QUEUE_DELAY, 100_000.0, 38_000.0)];
        assert_eq!(
            said(&run, &measured, 8),
            [
                "On path0, bbr3_brake's p95 queueing delay is 62 % shorter than bbr3's (38.0 instead of 100.0 ms); its goodput \
              stays within 2 %."
            ]
        );
        // Messages are what a delay is felt in, so they come before the probes.
        let with_messages = [
            (0, "bbr3_brake", GOODPUT, 50e6, 60e6),
            (0, "bbr3_brake", QUEUE_DELAY, 1e5, 1e5),
            (0, "bbr3_brake", MESSAGE_DELAY, 1e5, 2.5e5),
        ];
        assert_eq!(
            said(&run, &with_messages, 8),
            [
                "On path0, bbr3_brake's p99 message delay is 2.5 times as long as bbr3's (250.0 instead of 100.0 ms), which \
              buys 20 % more goodput (60.0 instead of 50.0 Mbit/s)."
            ]
        );
    }

    #[test]
    fn nothing_found_is_said_with_its_counts() {
        let run = run("answer-same", &["bbr", "bbr1"], 3, 8);
        let same: Vec<Measured<'_>> = (0..3).map(|p| (p, "bbr1", GOODPUT, 50e6, 50e6)).collect();
        assert_eq!(
            said(&run, &same, 8),
            ["No difference between bbr1 and bbr was found that matters: 3 of 3 comparisons are equivalent."]
        );
        // Only one path differs: the others are told too.
        let mut one = same.clone();
        one[1].4 = 25e6;
        let said = said(&run, &one, 8);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said[0]
                .starts_with("On path1, bbr carries 2.0 times what bbr1 does (50.0 instead of 25.0 Mbit/s)"),
            "{said:?}"
        );
        assert_eq!(
            said[1],
            "No difference between bbr1 and bbr was found on the other paths that matters: 2 of 2 comparisons are equivalent."
        );
    }

    #[test]
    fn too_few_blocks_say_how_many_it_takes() {
        for (blocks, word) in [(1, "1 block"), (2, "2 blocks")] {
            let run = run("answer-few", &["bbr", "cubic"], 3, blocks);
            let measured = [(2, "cubic", GOODPUT, 46.2e6, 6.5e6), (0, "cubic", QUEUE_DELAY, 1e4, 1e4)];
            assert_eq!(
                said(&run, &measured, blocks as usize),
                [
                    format!("With {word} nothing can be decided: 9 are needed."),
                    "A point without a verdict: on path2, bbr carries 7.1 times what cubic does (46.2 instead of 6.50 Mbit/s)."
                        .into()
                ]
            );
        }
        let run = run("answer-lost", &["bbr", "cubic"], 1, 10);
        let said = said(&run, &[(0, "cubic", GOODPUT, 5e7, 5e7)], 3);
        assert_eq!(said, ["Nothing can be decided: of 10 blocks only 3 can be compared, and 7 are needed."]);
    }

    #[test]
    fn values_without_a_ratio_and_bounds_are_said_as_such() {
        let run = run("answer-zero", &["bbr", "cubic"], 1, 8);
        let measured = [(0, "cubic", QUEUE_DELAY, 0.0, 7000.0), (0, "cubic", GOODPUT, 5e7, 5e7)];
        assert_eq!(
            said(&run, &measured, 8),
            [
                "On path0, cubic's p95 queueing delay is 7.00 ms longer than bbr's (7.00 instead of 0 ms); its goodput stays \
              within 2 %."
            ]
        );
        // The difference of a delay is turned round with the sentence, whose subject is the baseline.
        let measured = [(0, "cubic", GOODPUT, 46.2e6, 6.5e6), (0, "cubic", QUEUE_DELAY, 7000.0, 0.0)];
        assert_eq!(
            said(&run, &measured, 8),
            [
                "On path0, bbr carries 7.1 times what cubic does (46.2 instead of 6.50 Mbit/s), bought with a p95 queueing \
              delay 7.00 ms longer (7.00 instead of 0 ms)."
            ]
        );
        let measured = [(0, "cubic", "retransmit_rate", 0.0, 0.03)];
        assert_eq!(
            said(&run, &measured, 8),
            ["On path0, cubic's retransmit rate is 3.00 pp higher than bbr's (3.00 instead of 0 %)."]
        );
        let measured = [(0, "cubic", GOODPUT, 0.0, 5e6)];
        assert_eq!(
            said(&run, &measured, 8),
            ["On path0, cubic carries 5.00 Mbit/s more than bbr (5.00 instead of 0 Mbit/s)."]
        );
        let mut all = judged(&[(0, "cubic", QUEUE_DELAY, 1000.0, 6000.0)], 8);
        all[0].judged.candidate_spread.is_bound = true;
        assert_eq!(
            of(&run, &all, None).sentences,
            [
                "On path0, cubic's p95 queueing delay is at least 6.0 times as long as bbr's (≥ 6.00 instead of 1.00 ms)."
            ]
        );
    }

    #[test]
    fn several_candidates_have_a_sentence_each_and_the_other_way_round() {
        let run = run("answer-several", &["bbr", "a", "b", "c", "d"], 2, 10);
        let mut measured = Vec::new();
        for (cc, cand) in [("a", 50e6), ("b", 40e6), ("c", 30e6), ("d", 20e6)] {
            measured.push((0, cc, GOODPUT, 50e6, cand));
            measured.push((1, cc, GOODPUT, 50e6, if cc == "d" { 60e6 } else { 50e6 }));
        }
        let said = said(&run, &measured, 10);
        assert_eq!(said.len(), 3, "{said:?}");
        assert_eq!(
            said[0],
            "On path0, bbr carries 2.5 times what d does (50.0 instead of 20.0 Mbit/s); on path1, d carries 20 % more than bbr \
             (60.0 instead of 50.0 Mbit/s)."
        );
        assert!(
            said[1].starts_with("On path0, c carries 40 % less than bbr")
                && said[2].contains("b carries 20 % less"),
            "{said:?}"
        );
    }

    #[test]
    fn two_hundred_paths_are_one_mean_and_the_two_ends() {
        let run = run("answer-many", &["bbr3", "bbr3_brake"], 200, 14);
        let measured: Vec<Measured<'_>> = (0..200)
            .map(|p| (p, "bbr3_brake", QUEUE_DELAY, 1e5, if p == 7 { 2e5 } else { 9e4 - p as f64 * 100.0 }))
            .collect();
        let comparisons = judged(&measured, 14);
        let mean = |name: &str, ratio: f64| Mean {
            metric: &METRICS[index_of(name)],
            candidate: "bbr3_brake".into(),
            ratio,
            interval: Some((ratio - 0.005, ratio + 0.005)),
            over: mean::Unit::Blocks,
            n: 14,
            paths: 200,
            left_out: 0,
        };
        let told =
            |means: &[Mean]| Teller { run: &run, judged: comparisons.iter().collect(), means }.many_paths();
        let said = told(&[mean(GOODPUT, 1.002), mean(QUEUE_DELAY, 0.8)]);
        assert_eq!(
            said,
            [
                "Over 200 paths, bbr3_brake's p95 queueing delay is 20 % shorter than bbr3's (ratio 0.800, 95 % interval 0.795 \
                 .. 0.805); its goodput stays within 2 % (ratio 1.002, 95 % interval 0.997 .. 1.007). Of its 200 verdicts 199 \
                 are better and 1 worse.",
                "On path199, bbr3_brake's p95 queueing delay is 30 % shorter than bbr3's (70.1 instead of 100.0 ms).",
                "On path7, bbr3_brake's p95 queueing delay is 2.0 times as long as bbr3's (200.0 instead of 100.0 ms).",
            ]
        );
        let bought = told(&[mean(GOODPUT, 0.9), mean(QUEUE_DELAY, 0.5)]);
        assert!(bought[0].contains("), bought with 10 % lower goodput (ratio 0.900, "), "{}", bought[0]);
        let lost = told(&[mean(GOODPUT, 0.5), mean(QUEUE_DELAY, 0.9)]);
        assert!(lost[0].contains("; its p95 queueing delay is 10 % shorter (ratio"), "{}", lost[0]);
        for (ratio, amount) in [(1.3, "is 30 % longer than bbr3's"), (2.5, "is 2.5 times as long as bbr3's")]
        {
            let said = told(&[mean(QUEUE_DELAY, ratio)]);
            assert!(said[0].contains(amount), "{}", said[0]);
        }
        let open = told(&[Mean { interval: Some((0.5, 2.0)), ..mean(QUEUE_DELAY, 0.8) }]);
        assert!(
            open[0].contains("p95 queueing delay cannot be told from bbr3's (ratio 0.800"),
            "{}",
            open[0]
        );
        assert!(
            told(&[])[0].starts_with("Between bbr3_brake and bbr3") || told(&[])[0].starts_with("On path")
        );
    }

    #[test]
    fn what_cannot_be_compared_has_its_reason() {
        let nothing = run("answer-nothing", &["bbr", "cubic"], 1, 8);
        assert_eq!(said(&nothing, &[], 0), ["No cell has been run, so there is nothing to compare."]);
        let folder = synthetic::run("answer-excluded", 1);
        for cell in &synthetic::plan(1).cells {
            synthetic::edit(&folder.cell(cell.index).join("cell.json"), "status", json!("disturbed: late"));
        }
        assert_eq!(
            Findings::of(&Run::read(&folder.dir).unwrap()).answer.sentences,
            [
                "Nothing can be compared: no block has a cell of bbr that counts and one of another controller beside it (9 of 9 \
              cells are excluded)."
            ]
        );
        let alone = synthetic::run("answer-alone", 1);
        let plan = alone.dir.join("plan.json");
        synthetic::edit(&plan, "ccs", json!(["bbr"]));
        let cells = synthetic::plan(1).cells.into_iter().filter(|c| c.cc == "bbr").collect::<Vec<_>>();
        synthetic::edit(&plan, "cells", json!(cells));
        let said = Findings::of(&Run::read(&alone.dir).unwrap()).answer.sentences;
        assert_eq!(said[0], "Only one controller ran, so there is nothing to compare it with.");
        assert!(said.len() == 3 && said[1].starts_with("On clean, bbr carries 9"), "{said:?}");
    }
}
