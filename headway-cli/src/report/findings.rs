//! Everything that follows from a run: comparisons with their verdicts, tails, counts and notes.
//!
//! Pairs are made here, from the cells of one block and path; `judge` says what they amount to. The tables and the
//! page only print what is found here.

use super::answer::{self, Answer};
use super::front::{self, Front};
use super::judge::{self, Judgement, Pairs, Question, Scale};
use super::run::{Count, Run, RunCell};
use super::words::{digits, number, percent, signed};
use super::{notes, tails};
use crate::metric::{METRICS, Metric};
use crate::stats::MIN_BLOCKS;

#[derive(Debug)]
pub struct Findings {
    /// What all of it amounts to.
    pub answer: Answer,
    /// The candidates in goodput and delay at once, where there are enough of them.
    pub front: Option<Front>,
    pub comparisons: Vec<Comparison>,
    pub tails: Vec<tails::Tail>,
    pub counts: Vec<Count>,
    /// What a reader must know before believing the comparisons, a sentence or two each.
    pub notes: Vec<String>,
}

/// Candidate against baseline: one metric on one path, over the blocks in which both count.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Index into `Plan::paths`.
    pub path: usize,
    pub metric: &'static Metric,
    pub candidate: String,
    /// With noise, margin and verdict for primary metrics only.
    pub judged: Judgement,
}

impl Findings {
    pub fn of(run: &Run) -> Self {
        let counts = run.counts();
        let comparisons = compare(run);
        let front = Front::of(run, &comparisons);
        let answer = answer::of(run, &comparisons, front.as_ref());
        let shown = front::shown(run, front.as_ref());
        let (tails, notes) = (tails::of(run, &shown), notes::of(run, &counts, &shown));
        Self { answer, front, comparisons, tails, notes, counts }
    }

    /// Without what was found of other candidates than these. What is said of the whole run stays.
    pub fn only(mut self, ccs: &[String]) -> Self {
        self.answer.means.retain(|mean| ccs.contains(&mean.candidate));
        self.comparisons.retain(|c| ccs.contains(&c.candidate));
        self.counts.retain(|count| ccs.contains(&count.cc));
        self
    }
}

/// Every candidate against the baseline on every path and metric that has blocks in common. All verdicts are one family,
/// because a reader looks at all of them for the one that stands out. A search has no verdicts: among so many candidates
/// some are better by chance, and those that are kept are measured again.
fn compare(run: &Run) -> Vec<Comparison> {
    let cells = run.by_candidate();
    let mut all = Vec::new();
    for path in 0..run.plan.paths.len() {
        let of = |cc: &str| cells[cc].iter().copied().filter(|c| c.cell.path == path).collect::<Vec<_>>();
        let base = of(run.baseline());
        let candidates: Vec<(&str, Vec<&RunCell>)> =
            run.plan.labels().skip(1).map(|cc| (cc, of(cc))).collect();
        for (index, metric) in METRICS.iter().enumerate() {
            let question =
                Question { better: metric.better, margin: metric.margin, ceiling: run.ceiling(path, index) };
            all.extend(candidates.iter().filter_map(|(candidate, cells)| {
                let judged = Judgement::of(&pairs(&base, cells, index), &question)?;
                Some(Comparison { path, metric, candidate: candidate.to_string(), judged })
            }));
        }
    }
    if run.plan.draws.is_none() {
        judge::decide(all.iter_mut().map(|c| &mut c.judged));
    }
    all
}

/// The values of the blocks in which both controllers' cells count and have the metric.
fn pairs(baseline: &[&RunCell], candidate: &[&RunCell], metric: usize) -> Pairs {
    let both = baseline.iter().filter_map(|base| {
        let same_block = candidate.iter().find(|c| c.cell.block == base.cell.block)?;
        Some((base.counted(metric)?, same_block.counted(metric)?))
    });
    let (baseline, candidate) = both.unzip();
    Pairs { baseline, candidate }
}

impl Comparison {
    /// Candidate minus baseline, medians, in the metric's own unit.
    pub fn difference(&self) -> f64 {
        self.judged.candidate_spread.median - self.judged.baseline_spread.median
    }

    /// With as many digits as the two values it lies between.
    pub fn difference_text(&self) -> String {
        let factor = self.metric.unit.factor;
        let coarsest = self.judged.baseline_spread.median.max(self.judged.candidate_spread.median) * factor;
        let text = format!("{:+.1$}", self.difference() * factor, digits(coarsest));
        let zero = text.trim_start_matches(['+', '-']).chars().all(|c| matches!(c, '0' | '.'));
        format!("{} {}", if zero { "0.0" } else { &text }, self.amount_word()).trim_end().to_string()
    }

    pub fn improvement_text(&self) -> String {
        self.scaled(self.judged.improvement.center)
    }

    /// The 95 % interval; `-` where there are too few blocks for one.
    pub fn interval_text(&self) -> String {
        let s = &self.judged.improvement;
        if s.n < MIN_BLOCKS { "-".into() } else { format!("{} .. {}", self.bare(s.low), self.scaled(s.high)) }
    }

    pub fn noise_text(&self) -> String {
        let text = |noise| format!("±{}", self.scaled(noise).trim_start_matches('+'));
        self.judged.noise.map_or("-".into(), text)
    }

    /// A value on the comparison's scale, with its unit.
    fn scaled(&self, value: f64) -> String {
        match self.judged.scale {
            Scale::Ratio => percent(value) + " %",
            Scale::Difference => self.amount(value),
        }
    }

    fn bare(&self, value: f64) -> String {
        match self.judged.scale {
            Scale::Ratio => percent(value),
            Scale::Difference => signed(value * self.metric.unit.factor),
        }
    }

    /// A size in the metric's own unit, without a sign.
    pub fn amount_text(&self, size: f64) -> String {
        format!("{} {}", number(size * self.metric.unit.factor), self.amount_word()).trim_end().to_string()
    }

    fn amount(&self, value: f64) -> String {
        format!("{} {}", signed(value * self.metric.unit.factor), self.amount_word()).trim_end().to_string()
    }

    /// Unit of a difference. Between two percentages it is percentage points, because "+1 %" would read as a ratio.
    fn amount_word(&self) -> &'static str {
        if self.metric.unit.word == "%" { "pp" } else { self.metric.unit.word }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::index_of;

    #[test]
    fn six_blocks_have_an_interval_and_five_have_none() {
        let interval = |blocks: usize| {
            let metric = &METRICS[index_of("goodput_bps")];
            let question = Question { better: metric.better, margin: metric.margin, ceiling: None };
            let pairs = Pairs { baseline: vec![20e6; blocks], candidate: vec![30e6; blocks] };
            let judged = Judgement::of(&pairs, &question).unwrap();
            Comparison { path: 0, metric, candidate: "cubic".into(), judged }.interval_text()
        };
        assert_eq!([5, 6].map(interval), ["-", "+50.0 .. +50.0 %"]);
    }
}
