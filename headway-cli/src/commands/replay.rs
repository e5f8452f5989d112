//! `headway replay`: checks a trace of ACKs against the Rust controller.

use crate::sys::file::read_text;
use crate::sys::out;
use anyhow::{Context, Result};
use clap::Args;
use headway_kernel::replay;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct ReplayArgs {
    /// acks.txt of a cell that ran with `--trace`
    file: PathBuf,
}

/// Replays the file and prints what was compared; the first difference is an error.
pub fn run(args: ReplayArgs) -> Result<ExitCode> {
    let file = args.file.display();
    let text = read_text(&args.file).with_context(|| format!("cannot read `{file}`"))?;
    let r = replay(&text).with_context(|| format!("`{file}` does not replay"))?;
    out::say(format_args!(
        "{} events of {} flows: every decision and state of `{}` is equal in Rust",
        r.events, r.flows, r.cc
    ))?;
    Ok(ExitCode::SUCCESS)
}
