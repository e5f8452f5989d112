//! `headway replay`: checks a trace of ACKs against the Rust controller.

use anyhow::Result;
use clap::Args;
use headway_kernel::replay;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct ReplayArgs {
    /// acks.txt of a cell that ran with `--trace`
    file: PathBuf,
}

pub fn run(args: ReplayArgs) -> Result<ExitCode> {
    println!("{}", replay::replay_file(&args.file)?);
    Ok(ExitCode::SUCCESS)
}
