//! One figure for many paths: the geometric mean over them of candidate / baseline, with its interval.
//!
//! What is sampled are the blocks: the paths of a plan are fixed, and each block meets every one of them once with seeds
//! of its own. So the log ratios of a block are averaged over the paths first, and the spread between blocks says how
//! sure that average is. With fewer blocks than an interval takes, the paths themselves are the sample where there are
//! enough of them. `docs/explanation/method.md` says which claim follows from which.

use super::run::{Run, RunCell};
use crate::metric::{METRICS, Metric};
use crate::stats::distribution::student_quantile;
use crate::stats::{LEVEL, MIN_BLOCKS, Shift, deviation, mean};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A candidate against the baseline in one metric, over many paths.
#[derive(Clone, Debug)]
pub struct Mean {
    pub metric: &'static Metric,
    pub candidate: String,
    /// Candidate / baseline.
    pub ratio: f64,
    /// The 95 % interval of the ratio; `None` where the sample is too small for one.
    pub interval: Option<(f64, f64)>,
    /// What the interval is taken over, and how many there are of it.
    pub over: Unit,
    pub n: usize,
    pub paths: usize,
    /// Paths that have the metric, but not in every block that counts, or with a zero, which has no ratio.
    pub left_out: usize,
}

/// What is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// The claim is about these very paths.
    Blocks,
    /// The claim is about paths like these.
    Paths,
}

/// Baseline and candidate of one path, by block.
type Pairs = BTreeMap<u32, (f64, f64)>;

/// With fewer paths a mean over them is the comparison of that path, which is shown as such.
const LEAST_PATHS: usize = 2;

/// Of every metric and candidate that have two paths or more. A metric whose values may be lower bounds has none: the
/// mean of a bound and a value is neither.
pub fn of(run: &Run) -> Vec<Mean> {
    let metrics = (0..METRICS.len()).filter(|m| METRICS[*m].ceiling.is_none());
    metrics.flat_map(|metric| over_paths(run, metric, LEAST_PATHS)).collect()
}

/// Of one metric and every candidate that has this many paths or more.
pub fn over_paths(run: &Run, metric: usize, least_paths: usize) -> Vec<Mean> {
    let cells = run.by_candidate();
    let of = |cc: &str| {
        let paths = pairs(&cells[run.baseline()], &cells[cc], metric);
        mean_of(&METRICS[metric], cc, &paths).filter(|mean| mean.paths >= least_paths)
    };
    run.plan.labels().skip(1).filter_map(of).collect()
}

/// The pairs of every path that has any.
fn pairs(base: &[&RunCell], cand: &[&RunCell], metric: usize) -> BTreeMap<usize, Pairs> {
    let values = |cells: &[&RunCell]| -> BTreeMap<(usize, u32), f64> {
        cells.iter().filter_map(|c| Some(((c.cell.path, c.cell.block), c.counted(metric)?))).collect()
    };
    let (base, cand) = (values(base), values(cand));
    let mut paths: BTreeMap<usize, Pairs> = BTreeMap::new();
    for ((path, block), value) in base {
        if let Some(other) = cand.get(&(path, block)) {
            paths.entry(path).or_default().insert(block, (value, *other));
        }
    }
    paths
}

fn mean_of(metric: &'static Metric, candidate: &str, paths: &BTreeMap<usize, Pairs>) -> Option<Mean> {
    let blocks = counted_blocks(paths);
    let logs: Vec<Vec<f64>> = paths.values().filter_map(|pairs| log_ratios(pairs, &blocks)).collect();
    if logs.is_empty() || blocks.is_empty() {
        return None;
    }
    let (over, n, center, interval) = estimate(&logs);
    Some(Mean {
        metric,
        candidate: candidate.into(),
        ratio: center.exp(),
        interval: interval.map(|(low, high)| (low.exp(), high.exp())),
        over,
        n,
        paths: logs.len(),
        left_out: paths.len() - logs.len(),
    })
}

/// The blocks in which at least half of the paths have a pair. A run that was interrupted in a block would lose the
/// other half of its paths to that block.
fn counted_blocks(paths: &BTreeMap<usize, Pairs>) -> BTreeSet<u32> {
    let all: BTreeSet<u32> = paths.values().flat_map(|pairs| pairs.keys().copied()).collect();
    let has = |block: &u32| paths.values().filter(|pairs| pairs.contains_key(block)).count();
    all.into_iter().filter(|block| 2 * has(block) >= paths.len()).collect()
}

/// A path's log ratios, block by block; `None` where a block is missing or a value has no logarithm.
fn log_ratios(pairs: &Pairs, blocks: &BTreeSet<u32>) -> Option<Vec<f64>> {
    let one = |block| match pairs.get(block) {
        Some((base, cand)) if *base > 0.0 && *cand > 0.0 => Some((cand / base).ln()),
        _ => None,
    };
    blocks.iter().map(one).collect()
}

/// The mean over the paths of their log ratios, one row a path and one column a block: what it is taken over, how many
/// there are of it, the estimate and its interval.
fn estimate(logs: &[Vec<f64>]) -> (Unit, usize, f64, Option<(f64, f64)>) {
    let blocks = logs[0].len();
    if blocks < MIN_BLOCKS && logs.len() >= MIN_BLOCKS {
        let of_paths: Vec<f64> = logs.iter().filter_map(|path| mean(path)).collect();
        let (center, sd) = (mean(&of_paths).unwrap_or(0.0), deviation(&of_paths).unwrap_or(0.0));
        // Paths differ in kind, so their ratios are skewed and lie in groups. That is what a mean is taken of here, and
        // the signed-rank interval would be one of something else: of the middle of a symmetric sample.
        let n = of_paths.len() as f64;
        let half = student_quantile(LEVEL, n - 1.0) * sd / n.sqrt();
        return (Unit::Paths, of_paths.len(), center, Some((center - half, center + half)));
    }
    let column = |block: usize| logs.iter().map(|path| path[block]).sum::<f64>() / logs.len() as f64;
    let of_blocks: Vec<f64> = (0..blocks).map(column).collect();
    let shift = Shift::of(&of_blocks).expect("a block counts");
    let interval = (shift.n >= MIN_BLOCKS).then_some((shift.low, shift.high));
    (Unit::Blocks, blocks, shift.center, interval)
}

impl Mean {
    /// Is all of the interval on one side of a ratio of one?
    pub fn is_apart(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }

    pub fn ratio_text(&self) -> String {
        ratio(self.ratio)
    }

    /// `-` where there is none.
    pub fn interval_text(&self) -> String {
        self.interval.map_or("-".into(), |(low, high)| format!("{} .. {}", ratio(low), ratio(high)))
    }

    /// `8 blocks`.
    pub fn over_text(&self) -> String {
        let word = if self.over == Unit::Blocks { "block" } else { "path" };
        format!("{} {word}{}", self.n, if self.n == 1 { "" } else { "s" })
    }
}

/// Three decimals: the third is a tenth of a percent, as fine as any claim gets.
fn ratio(value: f64) -> String {
    if value < 9.9995 { format!("{value:.3}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::index_of;

    const GOODPUT: &str = "goodput_bps";

    fn over(paths: &[&[(f64, f64)]]) -> Option<Mean> {
        let numbered = |pairs: &&[(f64, f64)]| (0..).zip(pairs.iter().copied()).collect::<Pairs>();
        let paths = paths.iter().map(numbered).enumerate().collect();
        mean_of(&METRICS[index_of(GOODPUT)], "b", &paths).filter(|mean| mean.paths >= LEAST_PATHS)
    }

    /// By hand: 2 and 1/2 in the mean are 1, 2 and 8 are 4, and the middle of 1, 1, 1, 4, 4, 4 in logarithms is 2.
    #[test]
    fn blocks_are_averaged_over_the_paths_first() {
        let first = [(10.0, 20.0); 6];
        let second = [(8.0, 4.0), (8.0, 4.0), (8.0, 4.0), (1.0, 8.0), (1.0, 8.0), (1.0, 8.0)];
        let mean = over(&[&first, &second]).unwrap();
        assert_eq!((mean.over, mean.n, mean.paths, mean.left_out), (Unit::Blocks, 6, 2, 0));
        assert!((mean.ratio - 2.0).abs() < 1e-12, "{mean:?}");
        let (low, high) = mean.interval.unwrap();
        assert!((low - 1.0).abs() < 1e-12 && (high - 4.0).abs() < 1e-12, "{mean:?}");
        assert_eq!((mean.ratio_text(), mean.interval_text()), ("2.000".into(), "1.000 .. 4.000".into()));
        assert!(!mean.is_apart());
    }

    /// Six paths, one block, log₂ ratios 1 to 6: their mean is 3.5, its standard error √(3.5/6), and Student's t for 5
    /// degrees of freedom is 2.570582.
    #[test]
    fn with_few_blocks_the_paths_are_the_sample() {
        let values: Vec<[(f64, f64); 1]> = (1..=6).map(|e| [(1.0, 2f64.powi(e))]).collect();
        let paths: Vec<&[(f64, f64)]> = values.iter().map(|v| &v[..]).collect();
        let mean = over(&paths).unwrap();
        assert_eq!((mean.over, mean.n, mean.paths), (Unit::Paths, 6, 6));
        let (low, high) = mean.interval.unwrap();
        let near = |value: f64, exponent: f64| (value.log2() - exponent).abs() < 1e-4;
        assert!(near(mean.ratio, 3.5) && near(low, 1.53667) && near(high, 5.46333), "{mean:?}");
        assert!(mean.is_apart());
        let few = over(&paths[..3]).unwrap();
        assert_eq!((few.over, few.n, few.interval), (Unit::Blocks, 1, None));
        assert_eq!((few.interval_text(), few.over_text()), ("-".into(), "1 block".into()));
    }

    #[test]
    fn what_has_no_ratio_or_misses_a_block_is_left_out_and_counted() {
        let whole = [(1.0, 2.0); 7];
        let mut zero = whole;
        zero[3].1 = 0.0;
        // An interrupted run: the last block has two of five paths, so it is the block that goes.
        let mean = over(&[&whole, &zero, &whole[..6], &whole[..6], &whole[..5]]).unwrap();
        assert_eq!((mean.n, mean.paths, mean.left_out), (6, 3, 2));
        assert!((mean.ratio - 2.0).abs() < 1e-12);
        assert!(over(&[&whole, &zero]).is_none(), "one path is no mean");
        assert!(over(&[&whole]).is_none() && over(&[]).is_none());
    }
}
