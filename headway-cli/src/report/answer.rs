//! What a run says, in one to three plain sentences: the first thing on the terminal and on the page.
//!
//! A reader comes for one thing: who carries more, at whose cost, and is that sure? So goodput and the tail of the
//! delay come before anything else, a verdict before a point, and what matters most (its size in margins) before what
//! matters less. A gain that was bought, delay with goodput or goodput with delay, is said together with its price.
//! Nothing is claimed without a verdict or an interval; a point alone is called one.

#[cfg(test)]
mod tests;

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
