//! `headway export` and `headway import`: runs in the formats of other programs.

use crate::interop::{self, flent, import};
use crate::sys::out;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct ExportArgs {
    /// The run folder
    dir: PathBuf,
    #[command(flatten)]
    formats: Formats,
}

/// At least one of them must be asked for.
#[derive(Args)]
#[group(required = true, multiple = true)]
struct Formats {
    /// Folder for .flent.gz files, one for each cell
    ///
    /// flent opens and plots them.
    #[arg(long, value_name = "DIR")]
    flent: Option<PathBuf>,
}

/// Writes the files and prints their names.
pub fn export(args: ExportArgs) -> Result<ExitCode> {
    let mut files = Vec::new();
    if let Some(to) = args.formats.flent {
        files.extend(interop::export(&args.dir, &to, |data| Ok((flent::END, flent::file(data)?)))?);
    }
    for file in files {
        out::say(file.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub struct ImportArgs {
    /// Files and folders
    ///
    /// Output of `iperf3 -J`, `.flent.gz` files, output of ping, pScheduler results, and folders of ESnet's testing
    /// harness. Folders are searched for files of these kinds.
    #[arg(required = true)]
    path: Vec<PathBuf>,
    /// The controller of runs whose file names none
    #[arg(long, default_value = "", hide_default_value = true)]
    cc: String,
    /// Print means, standard deviations and counts instead of runs
    ///
    /// This is the table that `headway compare --summary` judges.
    #[arg(long)]
    summary: bool,
}

/// Prints a row for each run on standard output, and what does not count, with the reason, on standard error. Exit
/// code 1 when nothing counts.
pub fn import(args: ImportArgs) -> Result<ExitCode> {
    let imported = import::read(&args.path, &args.cc)?;
    for (file, reason) in imported.iter().filter_map(|i| Some((&i.file, i.run.as_ref().err()?))) {
        out::note(format_args!("excluded: {}: {reason}", file.display()));
    }
    let to_csv = if args.summary { import::summary_csv } else { import::runs_csv };
    out::print(to_csv(&imported))?;
    Ok(if imported.iter().any(|i| i.run.is_ok()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
