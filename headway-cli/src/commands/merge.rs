//! `headway merge`: one run of the shards that several machines made.

use crate::bench::merge::merge;
use crate::commands::report;
use crate::raw::folder;
use crate::report::Options;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct MergeArgs {
    /// The shards' folders
    #[arg(required = true)]
    shard: Vec<PathBuf>,
    /// The run folder [default: a new headway-run-N]
    ///
    /// A folder that exists is continued if it is of the same plan.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub fn run(args: MergeArgs) -> Result<ExitCode> {
    let out = args.out.map_or_else(folder::new_run_dir, Ok)?;
    merge(&out, &args.shard)?;
    report::show(&out, Options::default(), false)?;
    Ok(ExitCode::SUCCESS)
}
