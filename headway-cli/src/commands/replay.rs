//! `headway replay`: checks a trace of ACKs against the Rust controller, and what the controller was told against the packets.

mod glue;

use crate::raw::packets;
use crate::sys::file::read_text;
use crate::sys::out;
use anyhow::{Context, Result, anyhow};
use clap::Args;
use headway_kernel::replay;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct ReplayArgs {
    /// acks.txt of a cell that ran with `--trace`
    ///
    /// If packets.txt lies beside it, the events are held against the packets as well.
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
    let beside = args.file.with_file_name("packets.txt");
    if !beside.exists() {
        return Ok(ExitCode::SUCCESS);
    }
    let packets = read_text(&beside).with_context(|| format!("cannot read `{}`", beside.display()))?;
    let packets = packets::parse(&packets).map_err(|e| anyhow!("`{}`: {e}", beside.display()))?;
    show(&glue::compare(&text, &packets)?)
}

/// A sentence, then the table.
fn show(fields: &[glue::Field]) -> Result<ExitCode> {
    let wrong: Vec<&str> = fields.iter().filter(|f| !f.is_true()).map(|f| f.name).collect();
    match wrong.is_empty() {
        true => out::say("what the kernel told it is what the packets say")?,
        false => out::say(format_args!(
            "what the kernel told it is not what the packets say: {}",
            wrong.join(", ")
        ))?,
    }
    out::say(format_args!("  {:<22} {:>8} {:>11}", "field", "compared", "differences"))?;
    for field in fields {
        out::say(format_args!("  {:<22} {:>8} {:>11}", field.name, field.compared, field.differing))?;
        if let Some(first) = &field.first {
            out::say(format_args!("    the first: {first}"))?;
        }
    }
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
