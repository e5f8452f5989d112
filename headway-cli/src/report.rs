//! Makes the results of a run folder: a table, CSV, JSON and one HTML page that opens offline.
//!
//! A report reads nothing but the run's folder and writes nothing but `results.csv`, `results.json` and `report.html`
//! in it, each under a temporary name first. `run` reads the folder, `judge` says what pairs of values amount to,
//! `findings`, `answer` and `notes` are what follows from a run; `text` is made for the terminal, `table` and `esnet` for
//! other programs, `page` with its charts for people. `compare` judges tables that somebody else measured. Called by
//! `headway report`, `bench`, `merge` and `compare`.

#[cfg(test)]
mod aa;
mod answer;
mod chart;
pub mod compare;
mod esnet;
mod findings;
mod front;
mod gate;
pub mod judge;
mod mean;
mod notes;
mod page;
mod run;
pub mod scale;
mod series;
pub mod shell;
#[cfg(test)]
pub mod synthetic;
mod table;
mod tails;
pub mod terminal;
#[cfg(test)]
mod tests;
mod text;
pub mod words;

pub use gate::FailIf;
pub use words::csv;

use crate::metric::{self, Metric};
use crate::plan::traffic::Traffic;
use crate::raw::folder;
use findings::Findings;
use run::Run;
use std::path::{Path, PathBuf};

/// What to print beside the primary metrics.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Names of further metrics.
    pub metrics: Vec<String>,
    pub format: Format,
    /// What the caller wants to fail on.
    pub fail_if: Vec<FailIf>,
    /// How wide a printed line may be; any width without one.
    pub width: Option<usize>,
}

/// How the comparison is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// The answer, and what is read of intervals and verdicts.
    #[default]
    Table,
    /// The same with every comparison, column and exclusion, however many and wide.
    Full,
    /// The table of ESnet's summarize-iperf3.py: means, standard deviations, retransmissions.
    Esnet,
}

/// What `headway report` prints and leaves behind.
#[derive(Debug)]
pub struct Summary {
    /// The answer in sentences, the comparisons, a line for each controller and the notes: for stdout. With the escape
    /// sequences of colours.
    pub table: String,
    pub page: PathBuf,
    /// The content of results.json.
    pub json: String,
    /// What `fail_if` applies to, a phrase each.
    pub reasons: Vec<String>,
    /// What of the run's files is missing, cut or unreadable, in sentences.
    pub damage: Vec<String>,
}

/// Fails on a name that is no metric, so that a typing error shows before a run of hours and not after it.
pub fn known(metrics: &[String]) -> anyhow::Result<()> {
    metrics.iter().try_for_each(|name| metric::find(name).map(drop))
}

/// Metrics that the table shows beside the primary ones: where flows compete, where they begin one after the other, where
/// messages ran beside the load, and for a suite.
const RIVALRY: [&str; 2] = ["jain", "rival_goodput_bps"];
const SHARING: [&str; 2] = ["jain", "time_to_fair_ms"];
const MESSAGES: [&str; 3] = ["message_delay_p50_us", "message_delay_p999_us", "message_over_100ms_s"];
const SUITE: [&str; 3] =
    ["queue_delay_p99_after_drop_us", "utilisation_after_drop", "time_to_90_after_recovery_ms"];

/// Makes results and report of the run in `run_dir`.
///
/// # Errors
/// One sentence and a hint when the folder is no run, has another layout, holds no plan that can be read, or cannot be
/// written to; or when `options` names an unknown metric.
pub fn report(run_dir: &Path, options: &Options) -> anyhow::Result<Summary> {
    let extra = options.metrics.iter().map(|name| metric::find(name)).collect::<anyhow::Result<Vec<_>>>()?;
    let run = Run::read(run_dir)?;
    let findings = Findings::of(&run);
    write(run_dir, "results.csv", &table::csv(&run))?;
    let json = table::json(&run, &findings)?;
    write(run_dir, "results.json", &json)?;
    let any = |asked: fn(&Traffic) -> bool| (0..run.plan.paths.len()).any(|p| asked(run.plan.traffic(p)));
    let groups: [(bool, &[&str]); 4] = [
        (any(|t| t.against.is_some()), &RIVALRY),
        (any(|t| t.stagger_ms > 0), &SHARING),
        (any(|t| t.messages.is_some()), &MESSAGES),
        (!run.plan.suite.is_empty(), &SUITE),
    ];
    let is_asked_for = |m: &Metric| groups.iter().any(|(asked, names)| *asked && names.contains(&m.name));
    let printed = |m: &Metric| m.is_primary() || is_asked_for(m) || extra.iter().any(|e| e.name == m.name);
    let table = match options.format {
        Format::Esnet => esnet::text(&run),
        Format::Table | Format::Full => {
            let is_full = options.format == Format::Full;
            let width = options.width.filter(|_| !is_full).unwrap_or(usize::MAX);
            text::of(&run, &findings, printed, text::Extent { width, is_full })
        }
    };
    let reasons = gate::reasons(&run, &findings, &options.fail_if);
    // A page with the charts of all candidates of a search could be neither opened nor read.
    let shown = front::shown(&run, findings.front.as_ref());
    let (run, findings) = (run.only(&shown), findings.only(&shown));
    let page = write(run_dir, "report.html", &page::html(&run, &findings))?;
    Ok(Summary { table, page, json, reasons, damage: run.damage })
}

/// Writes one of the files a report is made of.
fn write(dir: &Path, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let file = dir.join(name);
    folder::write_atomic(&file, text)?;
    Ok(file)
}
