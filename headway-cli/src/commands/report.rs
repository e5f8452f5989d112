//! `headway report`, and the end of `bench` and `merge`: the tables of a run.

use crate::error::usage;
use crate::plan::Plan;
use crate::raw::about::{About, Change};
use crate::report::{self, Format, Options};
use crate::sys::out;
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub struct ReportArgs {
    /// The run folder
    dir: PathBuf,
    /// Further metrics for the table (comma separated)
    ///
    /// results.csv has all of them, and its first line is the list of their names.
    #[arg(long, value_delimiter = ',')]
    metric: Vec<String>,
    /// What to print: table or esnet
    ///
    /// table has intervals and verdicts. esnet is the table of ESnet's summarize-iperf3.py: means, standard
    /// deviations, retransmissions.
    #[arg(long, value_enum, hide_possible_values = true, default_value_t)]
    format: Format,
    #[command(flatten)]
    about: AboutArgs,
}

/// What the user wants said at the head of the page. It stays with the run, so a later report has it too.
#[derive(Args)]
pub struct AboutArgs {
    /// A title for the page, kept in the run folder
    ///
    /// Without one the page is named after the controllers. `--title ''` removes the one that is there.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// A note for the head of the page, kept in the run folder
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
    usage(report::known(&args.metric))?;
    Plan::read(&args.dir)?;
    About::change(&args.dir, &args.about.change(), None)?;
    show(&args.dir, Options { metrics: args.metric, format: args.format })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes results.csv, results.json and report.html into the run folder, and prints the comparison and where the page
/// is.
pub fn show(dir: &Path, options: Options) -> Result<()> {
    let summary = report::report(dir, &options)?;
    out::print(format_args!("{}\n{}\n", summary.table, summary.page.display()))
}
