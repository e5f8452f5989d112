//! `headway report`, and the end of `bench` and `merge`: the tables of a run.

use crate::error::{coded, usage};
use crate::plan::Plan;
use crate::raw::about::{About, Change};
use crate::report::{self, FailIf, Format, Options};
use crate::sys::out;
use crate::trial::{self, folder};
use anyhow::{Result, anyhow, ensure};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub struct ReportArgs {
    /// The folder of a run or of a trial
    dir: PathBuf,
    /// Further metrics for the table (comma separated)
    ///
    /// results.csv has all of them, and its first line is the list of their names.
    #[arg(long, value_delimiter = ',')]
    metric: Vec<String>,
    /// What to print: table, full or esnet
    ///
    /// table has the answer in sentences and as much of the comparisons as is read and fits the terminal; COLUMNS=200
    /// says another width. full has every comparison, column and exclusion. esnet is the table of ESnet's
    /// summarize-iperf3.py: means, standard deviations, retransmissions.
    #[arg(long, value_enum, hide_possible_values = true, default_value_t)]
    format: Format,
    /// Print results.json instead of the table
    ///
    /// The same text that is written into the run folder.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    #[command(flatten)]
    fail: FailArgs,
    #[command(flatten)]
    about: AboutArgs,
}

/// When a script wants to hear of a verdict by the exit code.
#[derive(Args)]
pub struct FailArgs {
    /// Exit code 3 if worse, undecided or not-better
    ///
    /// For scripts and CI. It concerns the verdicts, which the primary metrics have. worse: some candidate is worse than
    /// the baseline by more than the margin. undecided: some comparison is inconclusive or has too few blocks.
    /// not-better: some comparison has another verdict than better. Several may be given, with commas. The report is
    /// written in any case.
    #[arg(long, value_enum, value_name = "VERDICT", hide_possible_values = true, value_delimiter = ',')]
    pub fail_if: Vec<FailIf>,
}

/// What the user wants said at the head of the page. It stays with the run, so a later report has it too.
#[derive(Args)]
pub struct AboutArgs {
    /// A title for the page, kept in the run folder
    ///
    /// Without one the page is named after the controllers. `--title ''` removes the one that is there.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// A note for the head of the page, kept with the run
    ///
    /// For whoever reads the page later: why the run was made, what is special about the machine. `--note ''` removes
    /// the one that is there.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

impl AboutArgs {
    pub fn change(self) -> Change {
        Change { title: self.title, note: self.note }
    }
}

pub fn run(args: ReportArgs) -> Result<ExitCode> {
    if folder::is_trial(&args.dir) {
        return of_trial(&args);
    }
    usage(report::known(&args.metric))?;
    Plan::read(&args.dir)?;
    About::change(&args.dir, &args.about.change(), None)?;
    let options =
        Options { metrics: args.metric, format: args.format, fail_if: args.fail.fail_if, width: None };
    show(&args.dir, options, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// The same of a trial, which has metrics of its own.
fn of_trial(args: &ReportArgs) -> Result<ExitCode> {
    let is_plain = args.metric.is_empty()
        && args.fail.fail_if.is_empty()
        && args.format == Format::default()
        && args.about.title.is_none()
        && args.about.note.is_none();
    if !is_plain {
        let dir = args.dir.display();
        return usage(Err(anyhow!(
            "`{dir}` holds a trial, and only --json is for trials\nhint: headway report {dir}"
        )));
    }
    let text = trial::report(&args.dir, out::width())?;
    match args.json {
        true => out::print(std::fs::read_to_string(args.dir.join(trial::JSON))?)?,
        false => out::print(text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes results.csv, results.json and report.html into the run folder, and prints the comparison and where the page
/// is.
///
/// # Errors
/// The folder holds no run, or files of the run are damaged; then what is left has been reported all the same. With an
/// exit code of its own when `options` names a reason to fail that applies.
pub fn show(dir: &Path, options: Options, is_json: bool) -> Result<()> {
    let options = Options { width: out::width(), ..options };
    let summary = report::report(dir, &options)?;
    match is_json {
        true => out::print(summary.json)?,
        false => out::print(format_args!("{}\n{}\n", summary.table, summary.page.display()))?,
    }
    ensure!(
        summary.damage.is_empty(),
        "`{}` is damaged: {}\nhint: remove a damaged cell's folder and `headway bench --resume {}` measures it again",
        dir.display(),
        summary.damage.join(" "),
        dir.display()
    );
    if summary.reasons.is_empty() {
        return Ok(());
    }
    let (count, list) = (summary.reasons.len(), summary.reasons.join("\n  "));
    coded(VERDICT_FAILS, Err(anyhow!("--fail-if applies to {count} of the run's comparisons:\n  {list}")))
}

/// The exit code where `--fail-if` applies.
const VERDICT_FAILS: u8 = 3;
