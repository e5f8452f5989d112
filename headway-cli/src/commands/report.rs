//! `headway report`, and the end of `bench` and `merge`: the tables of a run.

use crate::error::usage;
use crate::report::{self, Format, Options};
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
}

pub fn run(args: ReportArgs) -> Result<ExitCode> {
    usage(report::known(&args.metric))?;
    show(&args.dir, Options { metrics: args.metric, format: args.format })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes results.csv, results.json and report.html into the run folder, and prints the comparison and where the page
/// is.
pub fn show(dir: &Path, options: Options) -> Result<()> {
    let summary = report::report(dir, &options)?;
    print!("{}", summary.table);
    println!("\n{}", summary.page.display());
    Ok(())
}
