//! `headway apply`, `confirm`, `revert`: making the machine follow what is enabled.

use crate::error::sentence;
use crate::operate::apply::apply;
use crate::operate::boot::{self, Boot};
use crate::operate::change::{self, tell};
use crate::operate::enabled::{self, FOLDER};
use crate::operate::{confirm, state};
use crate::sys::out;
use anyhow::Result;
use clap::Args;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Args)]
pub struct ApplyArgs {
    /// Say whether the files are right, and change nothing
    #[arg(long, conflicts_with_all = ["boot", "late"])]
    check: bool,
    /// As headway.service does, early in a boot
    ///
    /// Failures are warnings. A boot after one that did not get through puts nothing in force.
    #[arg(long, conflicts_with = "late")]
    boot: bool,
    /// As headway-late.service does, late in a boot
    ///
    /// Puts in force what could not be earlier, such as routes, and notes that the boot has got through.
    #[arg(long)]
    late: bool,
}

pub fn run(args: ApplyArgs) -> Result<ExitCode> {
    if args.check {
        return check();
    }
    if let Some(code) = change::in_second_process()? {
        return Ok(code);
    }
    let _alone = state::lock()?;
    if args.boot || args.late {
        let done = if args.boot { at_boot() } else { late_in_boot() };
        // Whatever is wrong here must not fail the boot.
        if let Err(e) = done {
            out::note(format_args!("warning: {}", sentence(&e)));
        }
        return Ok(ExitCode::SUCCESS);
    }
    boot::forget()?;
    follow(true)
}

/// Puts in force what is enabled. Exit code 1 where something of it is not.
fn follow(says_so: bool) -> Result<ExitCode> {
    enabled::tidy(Path::new(FOLDER));
    let all = enabled::read(Path::new(FOLDER))?;
    for (_, why) in &all.refused {
        out::note(format_args!("warning: {}", sentence(why)));
    }
    all.check()?;
    let outcome = apply(&all)?;
    tell(&outcome)?;
    let is_whole = outcome.failed.is_empty() && all.refused.is_empty();
    if outcome.done.is_empty() && is_whole && says_so {
        out::say("everything that is enabled is in force")?;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn at_boot() -> Result<()> {
    if confirm::restore(Path::new(FOLDER), None)? {
        out::note(
            "warning: a change was not confirmed before this boot; what was enabled before it is enabled again",
        );
    }
    match boot::begin()? {
        Boot::Apply => follow(false).map(drop),
        Boot::Skip(why) => {
            out::note(format_args!("warning: {why}"));
            Ok(())
        }
    }
}

fn late_in_boot() -> Result<()> {
    match boot::got_through()? {
        None => follow(false).map(drop),
        Some(why) => {
            out::note(format_args!("warning: {why}"));
            Ok(())
        }
    }
}

/// Says of each file whether it is right. Exit code 1 where one is not.
fn check() -> Result<ExitCode> {
    let all = enabled::read(Path::new(FOLDER))?;
    for (_, why) in &all.refused {
        out::note(format_args!("error: {}", sentence(why)));
    }
    all.check()?;
    if !all.refused.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    let names: Vec<&str> = all.enabled.iter().map(|e| e.name.as_str()).collect();
    match names.is_empty() {
        true => out::say(format_args!("nothing is enabled: {FOLDER} has no file"))?,
        false => out::say(format_args!("right: {}", names.join(", ")))?,
    }
    Ok(ExitCode::SUCCESS)
}

pub fn confirm() -> Result<ExitCode> {
    let _alone = state::lock()?;
    confirm::confirm()?;
    out::say("confirmed: what is enabled stays")?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub struct RevertArgs {
    /// Only if this is the change that is not confirmed
    #[arg(long)]
    token: Option<u64>,
    /// Wait so many seconds first
    #[arg(long)]
    after: Option<u64>,
}

pub fn revert(args: RevertArgs) -> Result<ExitCode> {
    if let Some(seconds) = args.after {
        std::thread::sleep(Duration::from_secs(seconds));
    }
    let _alone = state::lock()?;
    if let Some(outcome) = confirm::revert(Path::new(FOLDER), args.token)? {
        tell(&outcome)?;
    }
    Ok(ExitCode::SUCCESS)
}
