//! Raw folder → numbers → table, CSV, JSON and one HTML page that opens offline.
//!
//! `report` reads nothing but the run's folder and writes nothing but `results.csv`, `results.json` and
//! `report.html` in it, each under a temporary name first. A cell that cannot be used is named with its reason
//! and counted; it never stops the others.

mod chart;
pub mod compare;
mod esnet;
mod headline;
mod page;
mod series;
#[cfg(test)]
pub mod synthetic;
mod table;
mod tails;

pub use page::{POLICY, STYLE};
pub use table::{aligned, percent, quoted};

use crate::bench;
use crate::metric::{Better, CellData, METRICS, Margin, Metric, Unit};
use crate::plan::traffic::Traffic;
use crate::plan::{Cell, Place, Plan};
use crate::stats::{self, Shift, Verdict};
use anyhow::Context;
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// What to print beside the primary metrics.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Names of further metrics.
    pub metrics: Vec<String>,
    pub format: Format,
}

/// How the comparison is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Intervals and verdicts.
    #[default]
    Table,
    /// The table of ESnet's summarize-iperf3.py: means, standard deviations, retransmissions.
    Esnet,
}

/// What `headway report` prints and leaves behind.
#[derive(Debug)]
pub struct Summary {
    /// The comparison, aligned, with a line per controller and the notes below it: for stdout.
    pub table: String,
    pub page: PathBuf,
}

/// Fails on a name that is no metric.
pub fn known(metrics: &[String]) -> anyhow::Result<()> {
    metrics.iter().try_for_each(|name| metric(name).map(drop))
}

/// Printed as well where flows compete, where messages ran beside the load, and for a suite.
const RIVALRY: [&str; 2] = ["jain", "rival_goodput_bps"];
const MESSAGES: [&str; 3] = ["message_delay_p50_us", "message_delay_p999_us", "message_over_100ms_s"];
const SUITE: [&str; 3] =
    ["queue_delay_p99_after_drop_us", "utilisation_after_drop", "time_to_90_after_recovery_ms"];

/// Of more paths the page has no time series, and the report keeps none in memory: that would be gigabytes.
const MAX_SERIES_PATHS: usize = 64;

/// Makes results and report of the run in `run_dir`.
///
/// # Errors
/// One sentence and a hint when the folder is no run, is of another layout, holds no usable plan, or cannot be
/// written to; an unknown metric in `options`.
pub fn report(run_dir: &Path, options: &Options) -> anyhow::Result<Summary> {
    let extra = options.metrics.iter().map(|name| metric(name)).collect::<anyhow::Result<Vec<_>>>()?;
    let run = Run::read(run_dir)?;
    let findings = Findings::of(&run);
    write(run_dir, "results.csv", &table::csv(&run))?;
    write(run_dir, "results.json", &table::json(&run, &findings)?)?;
    let page = write(run_dir, "report.html", &page::html(&run, &findings))?;
    let any = |asked: fn(&Traffic) -> bool| (0..run.plan.paths.len()).any(|p| asked(run.plan.traffic(p)));
    let groups: [(bool, &[&str]); 3] = [
        (any(|t| t.against.is_some()), &RIVALRY),
        (any(|t| t.messages.is_some()), &MESSAGES),
        (!run.plan.suite.is_empty(), &SUITE),
    ];
    let is_asked_for = |m: &Metric| groups.iter().any(|(asked, names)| *asked && names.contains(&m.name));
    let printed = |m: &Metric| m.is_primary() || is_asked_for(m) || extra.iter().any(|e| e.name == m.name);
    let table = match options.format {
        Format::Table => table::text(&run, &findings, printed),
        Format::Esnet => esnet::text(&run),
    };
    Ok(Summary { table, page })
}

/// A run's folder, parsed.
#[derive(Debug)]
struct Run {
    plan: Plan,
    /// `env.json` as it stands; `Null` when it is missing or broken.
    env: Value,
    /// In the order of execution.
    cells: Vec<RunCell>,
}

/// One planned cell and what is left of it.
#[derive(Debug)]
struct RunCell {
    cell: Cell,
    data: Option<CellData>,
    /// `None` when the cell counts.
    excluded: Option<String>,
    /// One per row of [`METRICS`]; `Err` says why there is none.
    values: Vec<Result<f64, String>>,
    /// The same of [`Metric::ceiling`].
    ceilings: Vec<Option<f64>>,
}

/// Everything that follows from a run.
#[derive(Debug)]
struct Findings {
    comparisons: Vec<Comparison>,
    tails: Vec<tails::Tail>,
    counts: Vec<Count>,
    /// What a reader must know before believing the comparisons.
    notes: Vec<String>,
}

/// Candidate against baseline, one metric on one path.
#[derive(Clone, Debug)]
struct Comparison {
    /// Index into [`Plan::paths`].
    pub path: usize,
    pub metric: &'static Metric,
    pub candidate: String,
    /// Over the blocks in which both count.
    pub baseline_spread: Spread,
    pub candidate_spread: Spread,
    pub scale: Scale,
    /// On that scale; positive is better.
    pub improvement: Shift,
    /// What the baseline's own runs show against each other, as an improvement's size; primary metrics only.
    pub noise: Option<f64>,
    /// Smallest improvement that matters, on that scale; `None` for secondary metrics.
    pub margin: Option<f64>,
    /// After Holm, for primary metrics.
    pub p_family: Option<f64>,
    /// Primary metrics only.
    pub verdict: Option<Verdict>,
}

/// What an improvement is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Scale {
    /// Shares of the baseline.
    Ratio,
    /// The metric's own unit: where a value is zero there is no ratio.
    Difference,
}

/// Median and quartiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spread {
    pub median: f64,
    pub q1: f64,
    pub q3: f64,
    /// The median is a run that did not get there in time: a lower bound.
    pub is_bound: bool,
}

/// What became of a controller's cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Count {
    pub cc: String,
    pub planned: usize,
    pub attempted: usize,
    pub ok: usize,
    pub excluded: usize,
}

impl Run {
    fn read(dir: &Path) -> anyhow::Result<Self> {
        let plan = Plan::read(dir)?;
        let env = fs::read_to_string(dir.join("env.json")).ok();
        let env = env.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
        let cells = plan.cells.iter().map(|cell| RunCell::read(dir, &plan, cell)).collect();
        Ok(Self { plan, env, cells })
    }

    fn baseline(&self) -> &str {
        self.plan.ccs[0].as_str()
    }

    fn place(&self) -> String {
        match &self.plan.place {
            Place::Sim => "sim".into(),
            Place::Lab => "lab".into(),
            Place::Here => "here".into(),
            Place::Remote(host) => format!("remote {host}"),
        }
    }

    fn cells_of<'a>(&'a self, path: usize, cc: &'a str) -> impl Iterator<Item = &'a RunCell> {
        self.cells.iter().filter(move |c| c.cell.path == path && c.cell.cc == cc)
    }

    /// Data of the cells that count.
    fn data_of<'a>(&'a self, path: usize, cc: &'a str) -> impl Iterator<Item = &'a CellData> {
        self.cells_of(path, cc).filter(|c| c.excluded.is_none()).filter_map(|c| c.data.as_ref())
    }

    /// The least value of a metric on a path that is a lower bound; `None` where there is none.
    fn ceiling(&self, path: usize, metric: usize) -> Option<f64> {
        let cells = self.cells.iter().filter(|c| c.cell.path == path);
        cells.filter_map(|c| c.ceilings[metric]).reduce(f64::min)
    }

    fn has_series(&self) -> bool {
        self.plan.paths.len() <= MAX_SERIES_PATHS
    }

    /// The kernels that the cells report.
    fn kernels(&self) -> Vec<&str> {
        let mut kernels: Vec<&str> =
            self.cells.iter().filter_map(|c| c.data.as_ref()).map(|d| &*d.result.kernel).collect();
        kernels.retain(|k| !k.is_empty());
        kernels.sort_unstable();
        kernels.dedup();
        kernels
    }
}

impl Findings {
    fn of(run: &Run) -> Self {
        let counts = count(run);
        Self { comparisons: compare(run), tails: tails::of(run), notes: notes(run, &counts), counts }
    }
}

impl RunCell {
    fn read(dir: &Path, plan: &Plan, cell: &Cell) -> Self {
        let folder = dir.join("cells").join(format!("{:03}", cell.index));
        let (mut data, excluded) =
            match folder.exists().then(|| CellData::read(&folder, &plan.paths[cell.path])) {
                None => (None, Some(NOT_RUN.to_string())),
                Some(Err(reason)) => (None, Some(reason)),
                Some(Ok(data)) if data.result.cell != *cell => {
                    (None, Some("the folder holds a cell of another plan".to_string()))
                }
                Some(Ok(data)) => {
                    let excluded = data.excluded();
                    (Some(data), excluded)
                }
            };
        let no_data = || Err(excluded.clone().unwrap_or_default());
        let values = METRICS.iter().map(|m| data.as_ref().map_or_else(no_data, |d| (m.of)(d))).collect();
        let ceilings = METRICS.iter().map(|m| Some((m.ceiling?)(data.as_ref()?))).collect();
        if plan.paths.len() > MAX_SERIES_PATHS {
            data.iter_mut().for_each(CellData::forget_series);
        }
        Self { cell: cell.clone(), data, excluded, values, ceilings }
    }

    fn status(&self) -> &str {
        self.excluded.as_deref().unwrap_or("ok")
    }

    /// Value of a metric in a cell that counts.
    fn counted(&self, metric: usize) -> Option<f64> {
        self.values[metric].as_ref().ok().copied().filter(|v| self.excluded.is_none() && v.is_finite())
    }
}

/// Status of a planned cell that has no folder.
const NOT_RUN: &str = "not run";

/// Where a metric that must exist stands in [`METRICS`].
fn index_of(name: &str) -> usize {
    METRICS.iter().position(|m| m.name == name).expect("the name is one of the table's")
}

fn metric(name: &str) -> anyhow::Result<&'static Metric> {
    METRICS.iter().find(|m| m.name == name).with_context(|| {
        let names: Vec<&str> = METRICS.iter().map(|m| m.name).collect();
        format!("unknown metric `{name}`\nhint: one of {}", names.join(", "))
    })
}

/// Every candidate against the baseline on every path and metric that has blocks in common.
fn compare(run: &Run) -> Vec<Comparison> {
    let mut all = Vec::new();
    for path in 0..run.plan.paths.len() {
        for metric in 0..METRICS.len() {
            all.extend(run.plan.labels().skip(1).filter_map(|cc| compare_one(run, path, metric, cc)));
        }
    }
    for metric in METRICS {
        judge(&mut all, metric);
    }
    all
}

/// Holm within the family of one primary metric (paths × candidates), then the verdicts.
fn judge(all: &mut [Comparison], metric: &Metric) {
    let mut family: Vec<&mut Comparison> =
        all.iter_mut().filter(|c| c.metric.name == metric.name && c.margin.is_some()).collect();
    let adjusted = stats::holm(&family.iter().map(|c| c.improvement.p).collect::<Vec<_>>());
    for (comparison, p) in family.iter_mut().zip(adjusted) {
        comparison.p_family = Some(p);
        comparison.verdict = comparison.margin.map(|margin| Verdict::of(&comparison.improvement, p, margin));
    }
}

fn compare_one(run: &Run, path: usize, index: usize, candidate: &str) -> Option<Comparison> {
    let metric = &METRICS[index];
    let (base, cand): (Vec<f64>, Vec<f64>) = run
        .cells_of(path, run.baseline())
        .filter_map(|base| {
            let same_block = |c: &&RunCell| c.cell.block == base.cell.block;
            Some((base.counted(index)?, run.cells_of(path, candidate).find(same_block)?.counted(index)?))
        })
        .unzip();
    let ceiling = run.ceiling(path, index);
    let baseline_spread = Spread::of(&base, ceiling)?;
    let (scale, improvement) = improvement(metric.better, &base, &cand)?;
    Some(Comparison {
        path,
        metric,
        candidate: candidate.to_string(),
        baseline_spread,
        candidate_spread: Spread::of(&cand, ceiling)?,
        scale,
        improvement,
        noise: metric.margin.and_then(|_| noise(scale, &base)),
        margin: metric.margin.map(|m| margin(m, scale, baseline_spread.median)),
        p_family: None,
        verdict: None,
    })
}

/// Paired within blocks, positive is better. Log ratios are estimated and then turned into shares of the
/// baseline: the map is monotone, so an interval goes through it bound by bound.
fn improvement(better: Better, base: &[f64], cand: &[f64]) -> Option<(Scale, Shift)> {
    let sign = if better == Better::Higher { 1.0 } else { -1.0 };
    let paired = |gain: fn(f64, f64) -> f64| -> Vec<f64> {
        base.iter().zip(cand).map(|(base, cand)| sign * gain(*base, *cand)).collect()
    };
    if base.iter().chain(cand).any(|v| *v <= 0.0) {
        return Some((Scale::Difference, Shift::of(&paired(|base, cand| cand - base))?));
    }
    let gain = Shift::of(&paired(|base, cand| (cand / base).ln()))?;
    Some((Scale::Ratio, as_shares(gain, better)))
}

/// Gains, which are log ratios with the sign of an improvement, as shares of the baseline.
pub fn as_shares(gain: Shift, better: Better) -> Shift {
    let sign = if better == Better::Higher { 1.0 } else { -1.0 };
    let share = |g: f64| sign * (sign * g).exp_m1();
    Shift {
        center: share(gain.center),
        low: share(gain.low),
        high: share(gain.high),
        low90: share(gain.low90),
        high90: share(gain.high90),
        ..gain
    }
}

/// The A/A noise floor on the comparison's scale.
fn noise(scale: Scale, base: &[f64]) -> Option<f64> {
    match scale {
        Scale::Ratio => stats::noise_floor(&base.iter().map(|v| v.ln()).collect::<Vec<_>>()).map(f64::exp_m1),
        Scale::Difference => stats::noise_floor(base),
    }
}

fn margin(margin: Margin, scale: Scale, baseline: f64) -> f64 {
    match scale {
        Scale::Ratio => margin.share.max(margin.amount / baseline),
        Scale::Difference => margin.amount.max(margin.share * baseline),
    }
}

impl Spread {
    /// Over the runs that count.
    fn over(run: &Run, path: usize, cc: &str, metric: usize) -> Option<Self> {
        let values: Vec<f64> = run.cells_of(path, cc).filter_map(|c| c.counted(metric)).collect();
        Self::of(&values, run.ceiling(path, metric))
    }

    fn of(values: &[f64], ceiling: Option<f64>) -> Option<Self> {
        let (q1, q3) = stats::quartiles(values)?;
        let median = stats::median(values)?;
        Some(Self { median, q1, q3, is_bound: ceiling.is_some_and(|ceiling| median >= ceiling) })
    }

    /// The median as people read it.
    fn show(&self, unit: &Unit) -> String {
        format!("{}{}", if self.is_bound { "≥ " } else { "" }, unit.show(self.median))
    }
}

fn count(run: &Run) -> Vec<Count> {
    let count_one = |cc: &str| {
        let cells: Vec<&RunCell> = run.cells.iter().filter(|c| c.cell.cc == *cc).collect();
        let attempted = cells.iter().filter(|c| c.status() != NOT_RUN).count();
        let ok = cells.iter().filter(|c| c.excluded.is_none()).count();
        Count { cc: cc.into(), planned: cells.len(), attempted, ok, excluded: attempted - ok }
    };
    run.plan.labels().map(count_one).collect()
}

fn notes(run: &Run, counts: &[Count]) -> Vec<String> {
    let mut notes = Vec::new();
    let blocks = run.plan.blocks as usize;
    let family = run.plan.paths.len() * (run.plan.ccs.len() - 1);
    let needed = stats::blocks_needed(family);
    if family == 0 {
        notes.push("One controller: there is nothing to compare it with.".into());
    } else if blocks < stats::MIN_BLOCKS {
        notes.push(format!(
            "{} too few for a 95 % interval: points only, no verdicts. It takes {} at least.",
            if blocks == 1 { "1 block is".to_string() } else { format!("{blocks} blocks are") },
            stats::MIN_BLOCKS
        ));
    } else if blocks < needed {
        notes.push(format!(
            "With {family} comparisons a metric and {blocks} blocks no difference can pass Holm's correction: \
             `better` and `worse` need {needed} blocks; `equivalent` does not."
        ));
    }
    let missing: usize = counts.iter().map(|c| c.planned - c.attempted).sum();
    if missing > 0 {
        notes.push(format!("{missing} of {} planned cells have not been run.", run.cells.len()));
    }
    let base = &counts[0];
    for cand in &counts[1..] {
        let table = [base.ok, base.excluded, cand.ok, cand.excluded].map(|n| n as u64);
        if stats::fisher(table[0], table[1], table[2], table[3]) < 0.05 {
            notes.push(format!(
                "Exclusions differ between {} ({} of {}) and {} ({} of {}): what is left may be a selection.",
                base.cc, base.excluded, base.attempted, cand.cc, cand.excluded, cand.attempted
            ));
        }
    }
    notes.extend((0..METRICS.len()).flat_map(|metric| bounds(run, metric)));
    notes.extend(told(run));
    notes
}

/// What the cells themselves note, counted for each controller.
fn told(run: &Run) -> Vec<String> {
    let mut counts: Vec<(&str, &str, usize)> = Vec::new();
    for cell in run.cells.iter().filter(|c| c.excluded.is_none()) {
        for note in cell.data.iter().flat_map(|d| &d.result.notes) {
            match counts.iter_mut().find(|(cc, text, _)| (*cc, *text) == (cell.cell.cc.as_str(), note)) {
                Some((_, _, count)) => *count += 1,
                None => counts.push((cell.cell.cc.as_str(), note, 1)),
            }
        }
    }
    counts.sort_unstable();
    let line = |(cc, text, count): (&str, &str, usize)| {
        let all = run.cells.iter().filter(|c| c.cell.cc == cc && c.excluded.is_none()).count();
        format!("{cc}, {count} of {all} runs: {text}.")
    };
    counts.into_iter().map(line).collect()
}

/// Says of each controller how many runs have a lower bound only.
fn bounds(run: &Run, metric: usize) -> Vec<String> {
    let note = |cc: &str| {
        let cells = run.cells.iter().filter(|c| c.cell.cc == *cc);
        let values: Vec<(f64, f64)> =
            cells.filter_map(|c| Some((c.counted(metric)?, c.ceilings[metric]?))).collect();
        let bounds = values.iter().filter(|(value, ceiling)| value >= ceiling).count();
        (bounds > 0).then(|| {
            let (name, all) = (METRICS[metric].name, values.len());
            format!(
                "{name}: {bounds} of {all} runs of {cc} never got there. They count with the whole time there was, a \
                 lower bound (≥ where a median is one): differences to them are at least what is shown."
            )
        })
    };
    run.plan.labels().filter_map(note).collect()
}

/// Writes one of the files a report is made of.
fn write(dir: &Path, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let file = dir.join(name);
    bench::write_atomic(&file, text)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::LAYOUT;
    use serde_json::json;

    /// The findings, and the text that is printed.
    fn made(folder: &synthetic::Folder) -> (Findings, String) {
        let summary = report(&folder.dir, &Options::default()).unwrap();
        (Findings::of(&Run::read(&folder.dir).unwrap()), summary.table)
    }

    fn page(folder: &synthetic::Folder) -> String {
        let summary = report(&folder.dir, &Options::default()).unwrap();
        fs::read_to_string(summary.page).unwrap()
    }

    fn find<'a>(summary: &'a Findings, path: usize, metric: &str, candidate: &str) -> &'a Comparison {
        let wanted = |c: &&Comparison| c.path == path && c.metric.name == metric && c.candidate == candidate;
        summary.comparisons.iter().find(wanted).unwrap()
    }

    #[test]
    fn what_cells_note_is_counted_where_they_count() {
        let folder = synthetic::run("noted", 2);
        let plan = Plan::read(&folder.dir).unwrap();
        let of_cubic: Vec<_> = plan.cells.iter().filter(|c| c.cc == "cubic").collect();
        for (i, cell) in of_cubic[..2].iter().enumerate() {
            let mut result = bench::CellResult::read(&folder.cell(cell.index)).unwrap();
            result.notes = vec!["the server sent".into()];
            result.status = if i == 0 { "ok".into() } else { "disturbed: by a test".into() };
            result.write(&folder.cell(cell.index)).unwrap();
        }
        let (findings, table) = made(&folder);
        let line = "cubic, 1 of 5 runs: the server sent.";
        assert!(findings.notes.iter().any(|n| n == line), "{:?}", findings.notes);
        assert!(table.contains(&format!("note: {line}")) && page(&folder).contains(line), "{table}");
    }

    #[test]
    fn a_whole_run_is_judged() {
        let folder = synthetic::run("whole", 10);
        let (summary, table) = made(&folder);
        // Known from how the series are made: cubic fills buffers and fails under random loss; bbr1 is bbr.
        let verdict = |path, metric, cc| find(&summary, path, metric, cc).verdict.unwrap();
        assert_eq!(verdict(0, "goodput_bps", "bbr1"), Verdict::Equivalent);
        assert_eq!(verdict(0, "queue_delay_p95_us", "cubic"), Verdict::Worse);
        assert_eq!(verdict(2, "goodput_bps", "cubic"), Verdict::Worse);
        assert_eq!(verdict(2, "queue_delay_p95_us", "cubic"), Verdict::Better);
        assert_eq!(verdict(0, "retransmit_rate", "bbr1"), Verdict::Equivalent);
        assert_eq!(find(&summary, 0, "retransmit_rate", "bbr1").improvement_text(), "0.0 pp");
        assert_eq!(verdict(0, "retransmit_rate", "cubic"), Verdict::Worse);
        assert!(
            find(&summary, 0, "utilisation", "cubic").verdict.is_none(),
            "a secondary metric has no verdict"
        );
        let bounds = "time_to_90_ms: 10 of 30 runs of cubic never got there";
        assert!(summary.notes.len() == 1 && summary.notes[0].starts_with(bounds), "{:?}", summary.notes);
        assert_eq!(
            summary.counts[0],
            Count { cc: "bbr".into(), planned: 30, attempted: 30, ok: 30, excluded: 0 }
        );
        assert!(table.contains("bbr: 30 of 30 cells ok, 0 excluded"));
        assert!(table.contains("0.0 pp"), "{}", table);
        assert_eq!(fs::read_dir(&folder.dir).unwrap().count(), 6, "no temporary file stays");
    }

    #[test]
    fn improvements_are_signed_ratios() {
        let of = |better, base: f64, cand: f64| improvement(better, &[base; 6], &[cand; 6]).unwrap();
        let near = |better, base, cand, expected: f64| {
            let (scale, shift) = of(better, base, cand);
            assert_eq!(scale, Scale::Ratio);
            for value in [shift.center, shift.low, shift.high] {
                assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
            }
        };
        near(Better::Higher, 100.0, 120.0, 0.2);
        near(Better::Lower, 100.0, 120.0, -0.2);
        near(Better::Lower, 100.0, 25.0, 0.75);
        near(Better::Higher, 100.0, 50.0, -0.5);
    }

    #[test]
    fn without_a_ratio_differences_are_compared() {
        let (scale, shift) = improvement(Better::Lower, &[0.0, 0.0, 1.0], &[3.0, 3.0, 4.0]).unwrap();
        assert_eq!((scale, shift.center), (Scale::Difference, -3.0));
        let (scale, shift) = improvement(Better::Lower, &[0.0; 6], &[0.0; 6]).unwrap();
        assert_eq!((scale, shift.center, shift.p), (Scale::Difference, 0.0, 1.0));
    }

    #[test]
    fn every_primary_comparison_shows_what_noise_alone_shows() {
        let folder = synthetic::run("noise", 10);
        let (summary, table) = made(&folder);
        for c in &summary.comparisons {
            assert_eq!(c.noise.is_some(), c.metric.is_primary(), "{}", c.metric.name);
        }
        let goodput = find(&summary, 0, "goodput_bps", "bbr1");
        assert!((1e-6..0.02).contains(&goodput.noise.unwrap()), "{goodput:?}");
        assert_eq!(find(&summary, 0, "retransmit_rate", "bbr1").noise, Some(0.0));
        let row = table.lines().find(|l| l.contains("goodput_bps")).unwrap();
        assert!(table.contains("A/A noise") && row.contains(&goodput.noise_text()), "{row}");
        assert!(page(&folder).contains("A/A noise"));
        let (few, _) = made(&synthetic::run("few-noise", 5));
        assert!(few.comparisons.iter().all(|c| c.noise.is_none()));
    }

    #[test]
    fn margins_are_the_larger_of_share_and_amount() {
        let delay = Margin { share: 0.05, amount: 500.0 };
        assert_eq!(margin(delay, Scale::Ratio, 50_000.0), 0.05);
        assert_eq!(margin(delay, Scale::Ratio, 1000.0), 0.5);
        assert_eq!(margin(delay, Scale::Difference, 0.0), 500.0);
        assert_eq!(margin(delay, Scale::Difference, 100_000.0), 5000.0);
    }

    #[test]
    fn the_csv_has_a_row_a_cell_and_a_column_a_metric() {
        let folder = synthetic::run("csv", 1);
        made(&folder);
        let csv = fs::read_to_string(folder.dir.join("results.csv")).unwrap();
        let head = csv.lines().next().unwrap();
        assert!(
            head.starts_with("path,cc,streams,block,seed,place,status,message_delay_p99_us,goodput_bps,"),
            "{head}"
        );
        assert_eq!(csv.lines().count(), 1 + 9);
        let columns = 7 + METRICS.len();
        assert!(csv.lines().all(|l| l.split(',').count() == columns));
        let json: Value =
            serde_json::from_str(&fs::read_to_string(folder.dir.join("results.json")).unwrap()).unwrap();
        for (row, cell) in csv.lines().skip(1).zip(json["cells"].as_array().unwrap()) {
            for (name, word) in head.split(',').zip(row.split(',')) {
                let same = match &cell[name] {
                    Value::Null => word.is_empty() && cell["missing"][name].is_string(),
                    Value::String(text) => word == text,
                    // JSON is read back to the last digit but one.
                    number => {
                        (word.parse::<f64>().unwrap() / number.as_f64().unwrap() - 1.0).abs() < 1e-12
                            || word == "0"
                    }
                };
                assert!(same, "{name}: `{word}` is not {}", cell[name]);
            }
        }
    }

    #[test]
    fn metrics_are_what_the_series_say() {
        let folder = synthetic::run("metrics", 1);
        let run = Run::read(&folder.dir).unwrap();
        let value = |cc: &str, name: &str| {
            let at = METRICS.iter().position(|m| m.name == name).unwrap();
            run.cells_of(0, cc).next().unwrap().values[at].clone()
        };
        let utilisation = value("bbr", "utilisation").unwrap();
        assert!((0.93..0.99).contains(&utilisation), "{utilisation}");
        let expected = value("bbr", "goodput_bps").unwrap() / (100e6 * 1448.0 / 1500.0);
        assert!((utilisation - expected).abs() < 1e-3, "{utilisation} {expected}");
        let p95 = value("cubic", "queue_delay_p95_us").unwrap();
        assert!((35_000.0..44_000.0).contains(&p95), "{p95}");
        assert!(value("bbr", "time_to_90_ms").unwrap() < 1000.0);
        assert_eq!(value("bbr", "retransmit_rate"), Ok(0.0));
        assert_eq!(value("bbr", "jain").unwrap_err(), "not asked for: needs two streams");
        let cpu = value("bbr", "cpu_s_per_gb").unwrap();
        assert!((4.0..7.0).contains(&cpu), "0.06 × 20 s for 0.22 GB is {cpu}");
    }

    #[test]
    fn what_is_lost_is_named_and_counted() {
        let folder = synthetic::run("lost", 10);
        let plan = synthetic::plan(10);
        let cubic: Vec<usize> =
            plan.cells.iter().filter(|c| c.cc == "cubic" && c.path == 0).map(|c| c.index).collect();
        let busy = include_str!("../tests/data/iperf3/3.12-busy.json");
        synthetic::write(&folder.cell(cubic[0]).join("load.json"), busy);
        synthetic::edit(&folder.cell(cubic[1]).join("cell.json"), "status", json!("disturbed: late"));
        synthetic::edit(&folder.cell(cubic[2]).join("cell.json"), "layout", json!(LAYOUT + 1));
        synthetic::write(&folder.cell(cubic[3]).join("cell.json"), "{\"layout\":");
        synthetic::write(&folder.cell(cubic[4]).join("probe.txt"), "# sent_us rtt_us\n0 40000\n20000\n");
        fs::remove_file(folder.cell(cubic[5]).join("load.json")).unwrap();
        fs::remove_dir_all(folder.cell(cubic[6])).unwrap();
        let load = fs::read_to_string(folder.cell(cubic[7]).join("load.json")).unwrap();
        let wrong = load.replace("\"sender_tcp_congestion\":\"cubic\"", "\"sender_tcp_congestion\":\"reno\"");
        synthetic::write(&folder.cell(cubic[7]).join("load.json"), &(wrong + "\niperf3: a late line\n"));
        let (summary, table) = made(&folder);
        let count = &summary.counts[2];
        assert_eq!((count.planned, count.attempted, count.ok, count.excluded), (30, 29, 22, 7));
        let wrong_cc = "the sender used `reno`, not `cubic` (iperf3 also printed: iperf3: a late line)";
        assert!(table.contains(wrong_cc), "{}", table);
        let page = page(&folder);
        for reason in [
            "iperf3: the server is busy running a test. try again later",
            "disturbed: late",
            "cell.json has layout 2, this program reads layout 1",
            "cell.json is broken: EOF",
            "probe.txt: line 3 has 1 words, its table 2 columns",
            "load.json: No such file",
        ] {
            assert!(table.contains(reason), "{reason} is not in\n{}", table);
            assert!(page.contains(reason), "{reason}");
        }
        assert!(summary.notes[0].contains("1 of 90 planned cells"), "{:?}", summary.notes);
        assert!(summary.notes[1].contains("Exclusions differ between bbr (0 of 30) and cubic (7 of 29)"));
        assert_eq!(find(&summary, 0, "goodput_bps", "cubic").improvement.n, 2);
        assert_eq!(find(&summary, 0, "goodput_bps", "cubic").verdict, Some(Verdict::TooSmall));
        assert_eq!(find(&summary, 1, "goodput_bps", "cubic").improvement.n, 10);
    }

    #[test]
    fn few_blocks_give_points_and_a_note() {
        let folder = synthetic::run("few", 3);
        let (summary, _) = made(&folder);
        assert!(summary.comparisons.iter().filter_map(|c| c.verdict).all(|v| v == Verdict::TooSmall));
        assert!(summary.notes[0].contains("3 blocks are too few"), "{:?}", summary.notes);
        let folder = synthetic::run("six", 6);
        let (summary, _) = made(&folder);
        assert!(summary.notes[0].contains("need 8 blocks"), "{:?}", summary.notes);
    }

    /// `drop` falls at 8 s and is back at 14 s; each of the synthetic series gets its old rate back at once.
    #[test]
    fn a_drop_has_its_own_metrics_and_a_run_that_never_recovers_a_bound() {
        let folder = synthetic::run("recovery", 6);
        let name = "time_to_90_after_recovery_ms";
        let (summary, _) = made(&folder);
        let before = find(&summary, 1, name, "cubic").clone();
        assert!(!before.candidate_spread.is_bound && before.candidate_spread.median < 1000.0);
        assert!(find(&summary, 1, "queue_delay_p99_after_drop_us", "cubic").baseline_spread.median > 1000.0);
        assert!(summary.comparisons.iter().all(|c| c.path == 1 || c.metric.name != name));
        // From the recovery on cubic gets a tenth of what it got.
        let run = Run::read(&folder.dir).unwrap();
        for cell in run.cells.iter().filter(|c| c.cell.path == 1 && c.cell.cc == "cubic") {
            synthetic::slow_down(&folder, cell.cell.index, 14.0);
        }
        let (summary, table) = made(&folder);
        let after = find(&summary, 1, name, "cubic");
        assert!(after.candidate_spread.is_bound && after.candidate_spread.median == 6000.0, "{after:?}");
        assert_eq!(after.improvement.n, 6, "the runs that never got there count");
        assert!(after.improvement.center < before.improvement.center);
        let note = format!("note: {name}: 6 of 6 runs of cubic never got there");
        assert!(table.contains(&note), "{table}");
        let options = Options { metrics: vec![name.into()], ..Options::default() };
        assert!(report(&folder.dir, &options).unwrap().table.contains("≥ 6000 ms"));
    }

    #[test]
    fn messages_stand_first() {
        let folder = synthetic::run("messages", 6);
        let (_, table) = made(&folder);
        assert!(!table.contains("message_") && !page(&folder).contains("id=\"messages\""));
        synthetic::add_messages(&folder);
        let (summary, table) = made(&folder);
        let first = table.lines().nth(1).unwrap();
        assert!(first.contains("message_delay_p99_us") && first.contains("bbr1 vs bbr"), "{first}");
        let c = find(&summary, 0, "message_delay_p99_us", "cubic");
        assert_eq!((c.baseline_spread.median, c.candidate_spread.median), (30_000.0, 130_000.0));
        let median = |name| find(&summary, 0, name, "cubic").candidate_spread.median;
        assert_eq!(median("message_delay_max_us"), 130_000.0);
        // 15 s after the warm-up at 100 a second, of which one in a hundred was lost.
        assert_eq!((median("message_over_100ms_s"), median("message_over_200ms_s")), (15.0, 0.15));
        assert_eq!(median("message_loss"), 0.01);
        let cells = fs::read_to_string(folder.dir.join("results.json")).unwrap();
        assert!(cells.contains("n too small: 1485 messages that arrived, 3688 needed"));
        let page = page(&folder);
        assert!(page.find("id=\"messages\"").unwrap() < page.find("id=\"verdicts\"").unwrap());
    }

    #[test]
    fn a_wrong_folder_is_one_sentence_and_a_hint() {
        let folder = synthetic::Folder::new("wrong");
        let error = |folder: &synthetic::Folder| {
            format!("{:#}", report(&folder.dir, &Options::default()).unwrap_err())
        };
        let plan = folder.dir.join("plan.json");
        assert!(error(&folder).contains("is not a run: cannot read its plan.json\nhint: "));
        synthetic::write(&plan, "{\"layout\": 1");
        assert!(error(&folder).contains("is broken\nhint: "));
        synthetic::write(&plan, "{\"layout\": 99}");
        assert!(error(&folder).contains("layout 99, this program reads layout 1\nhint: "));
        synthetic::write(&plan, "{\"layout\": 1}");
        assert!(error(&folder).contains("is broken\nhint: "));
        synthetic::write(&plan, &serde_json::to_string(&synthetic::plan(2)).unwrap());
        let (summary, _) = made(&folder);
        assert_eq!(summary.counts[0].attempted, 0);
        assert!(summary.notes.iter().any(|n| n == "18 of 18 planned cells have not been run."));
    }

    #[test]
    fn what_cannot_be_written_leaves_no_half_file() {
        let folder = synthetic::run("unwritable", 1);
        fs::create_dir(folder.dir.join("results.json")).unwrap();
        let error = format!("{:#}", report(&folder.dir, &Options::default()).unwrap_err());
        assert!(error.starts_with("cannot write `") && error.contains("results.json`\nhint: "), "{error}");
        assert!(!folder.dir.join(".results.json.tmp").exists());
    }

    #[test]
    fn an_unknown_metric_is_refused_with_the_known_ones() {
        let options = Options { metrics: vec!["speed".into()], ..Options::default() };
        let error = format!("{:#}", report(Path::new("."), &options).unwrap_err());
        assert!(
            error.starts_with("unknown metric `speed`\nhint: one of message_delay_p99_us, goodput_bps, "),
            "{error}"
        );
        let folder = synthetic::run("extra", 2);
        let options = Options { metrics: vec!["utilisation".into()], ..Options::default() };
        assert!(report(&folder.dir, &options).unwrap().table.contains("\nclean  utilisation"));
    }

    #[test]
    fn the_same_folder_gives_the_same_bytes() {
        let folder = synthetic::run("same", 2);
        let files =
            || ["results.csv", "results.json", "report.html"].map(|f| fs::read(folder.dir.join(f)).unwrap());
        made(&folder);
        let first = files();
        made(&folder);
        assert!(first == files());
    }

    #[test]
    fn the_page_asks_no_one_and_escapes_what_it_shows() {
        let folder = synthetic::run("page", 6);
        synthetic::edit(&folder.dir.join("env.json"), "note", json!("</script><script>alert(1)</script>"));
        let plan = folder.dir.join("plan.json");
        let text = fs::read_to_string(&plan).unwrap().replace("\"lossy\"", "\"</script><b>lossy\"");
        synthetic::write(&plan, &text);
        let page = page(&folder);
        assert!(!page.contains("<b>lossy") && !page.contains("<script>alert"));
        assert_eq!(page.matches("</script>").count(), 2);
        for outside in ["src=\"", "url(", "@import", "<link", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("headway bench --cc bbr,bbr1,cubic"));
        assert!(page.len() < 2_000_000, "{}", page.len());
    }

    #[test]
    fn a_browser_draws_every_chart_without_a_complaint() {
        let folder = synthetic::run("browser", 6);
        let page = report(&folder.dir, &Options::default()).unwrap().page;
        let profile = folder.dir.join("profile");
        let browser = std::process::Command::new("timeout")
            .args(["60", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args([
                "--disable-background-networking",
                "--virtual-time-budget=3000",
                "--enable-logging=stderr",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(["--dump-dom", &format!("file://{}", page.display())])
            .output();
        let Some(out) = browser.ok().filter(|out| out.status.success() && !out.stdout.is_empty()) else {
            println!("skipped: no chromium that runs here");
            return;
        };
        let said = String::from_utf8_lossy(&out.stderr);
        let complaints: Vec<&str> = said.lines().filter(|l| l.contains("CONSOLE")).collect();
        assert!(complaints.is_empty(), "{complaints:?}");
        let charts = String::from_utf8_lossy(&out.stdout).matches("<canvas").count();
        assert_eq!(charts, 9, "three charts for each of three paths");
    }
}
