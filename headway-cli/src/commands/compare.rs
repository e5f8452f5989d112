//! `headway compare`: judges a table of means that somebody else measured.

use crate::metric::Better;
use crate::plan::time;
use crate::raw::folder::write_atomic;
use crate::report::compare::{self, Terms};
use crate::sys::out;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct CompareArgs {
    /// The table, a CSV file
    ///
    /// Columns that name the case, `cc` among them, then `..._mean`, `..._stddev` and `n`. Where a column `remark`
    /// claims something, it is checked against the numbers.
    #[arg(long, value_name = "FILE")]
    summary: PathBuf,
    /// Baseline controller [default: first in the file]
    #[arg(long, value_name = "CC")]
    baseline: Option<String>,
    /// Lower values are better
    ///
    /// As with delays, losses and times. Without this flag, higher values are better.
    #[arg(long)]
    lower: bool,
    /// Smallest difference that matters
    ///
    /// In percent of the baseline.
    #[arg(long, default_value_t = 2.0, value_name = "PERCENT", value_parser = time::percent)]
    margin: f64,
    /// Write an HTML page as well
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

pub fn run(args: CompareArgs) -> Result<ExitCode> {
    let better = if args.lower { Better::Lower } else { Better::Higher };
    let terms = Terms { baseline: args.baseline, better, margin: args.margin / 100.0 };
    let table = compare::summary(&args.summary, &terms)?;
    out::print(table.text(out::width().unwrap_or(usize::MAX)))?;
    if let Some(page) = args.page {
        write_atomic(&page, &table.page())?;
        out::say(format_args!("\n{}", page.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
