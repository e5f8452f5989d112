//! Merges the folders of a plan's shards into one run folder, for `headway merge`.
//!
//! A cell of `sim` or `lab` is a function of the program's version, the plan and the cell, so it does not matter
//! where it runs: merged shards are the unsharded run, byte for byte. A wrong copy would go unnoticed in a report, so
//! everything is checked: plans and environments must be equal, every cell must be there, and a cell that two shards
//! have must be the same in both.

use crate::bench::env;
use crate::plan::{Cell, Plan};
use crate::raw::about::About;
use crate::raw::folder::{cell_dir, open_run, temporary_cell_dir, write_atomic};
use crate::sys::file::{read_plain, read_plain_text};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Copies the cells of `shards` into `out`, which is a new folder or one of the same plan. Writes no report.
///
/// # Errors
/// Names the shards whose plans or environments differ, the cells that differ between shards, or how many are
/// missing. What was copied before the error stays, and the same command goes on with it.
pub fn merge(out: &Path, shards: &[PathBuf]) -> Result<()> {
    let (first, others) = shards.split_first().context("no shard given")?;
    let plan = Plan::read(first)?;
    let env = read_env(first)?;
    for shard in others {
        let same = Plan::read(shard)? == plan;
        ensure!(
            same,
            "`{}` is a shard of another plan than `{}`\nhint: compare their plan.json",
            shard.display(),
            first.display()
        );
        let other = read_env(shard)?;
        ensure!(
            other == env,
            "`{}` was made in another environment than `{}`: {}\nhint: run every shard with the same headway, QEMU and kernel",
            shard.display(),
            first.display(),
            env::difference(&parse(&env), &parse(&other))
        );
    }
    let homes: Vec<Option<PathBuf>> = plan.cells.iter().map(|c| home(c, shards)).collect::<Result<_>>()?;
    let missing: Vec<&Cell> =
        plan.cells.iter().zip(&homes).filter(|(_, h)| h.is_none()).map(|(c, _)| c).collect();
    if let Some(cell) = missing.first() {
        bail!(
            "{} of {} cells are in no shard, the first is {:03}\nhint: {} --shard I/N --out DIR",
            missing.len(),
            plan.cells.len(),
            cell.index,
            plan.command()
        );
    }
    copy(&plan, &env, homes.iter().flatten(), out)?;
    // Title and note are no part of the plan, so shards may differ in them; those of the first are taken.
    let about = About::read(first)?;
    if about == About::default() { Ok(()) } else { about.write(out) }
}

fn copy<'a>(plan: &Plan, env: &str, homes: impl Iterator<Item = &'a PathBuf>, out: &Path) -> Result<()> {
    let _lock = open_run(plan, out)?;
    write_atomic(&out.join("env.json"), env)?;
    for (cell, from) in plan.cells.iter().zip(homes) {
        let to = cell_dir(out, cell);
        if to.exists() {
            ensure!(files(&to)? == files(from)?, "`{}` and `{}` differ", to.display(), from.display());
            continue;
        }
        let tmp = temporary_cell_dir(out, cell);
        let write = || {
            fs::create_dir_all(&tmp)?;
            files(from)?.iter().try_for_each(|(name, bytes)| fs::write(tmp.join(name), bytes))?;
            anyhow::Ok(fs::rename(&tmp, &to)?)
        };
        write().with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))?;
    }
    Ok(())
}

/// The cell's folder in the first shard that has it; `None` if no shard does.
///
/// # Errors
/// The shards that have the cell do not agree about it.
fn home(cell: &Cell, shards: &[PathBuf]) -> Result<Option<PathBuf>> {
    let mut dirs = shards.iter().map(|s| cell_dir(s, cell)).filter(|d| d.exists());
    let Some(first) = dirs.next() else { return Ok(None) };
    for other in dirs {
        ensure!(
            files(&first)? == files(&other)?,
            "`{}` and `{}` differ, and the same plan and version must give the same bytes\nhint: a damaged copy?",
            first.display(),
            other.display()
        );
    }
    Ok(Some(first))
}

/// Name and content of every file in a cell's folder, sorted by name.
fn files(dir: &Path) -> Result<Vec<(std::ffi::OsString, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read `{}`", dir.display()))? {
        let entry = entry?;
        let bytes =
            read_plain(&entry.path()).with_context(|| format!("cannot read `{}`", entry.path().display()))?;
        files.push((entry.file_name(), bytes));
    }
    files.sort();
    Ok(files)
}

fn read_env(shard: &Path) -> Result<String> {
    let file = shard.join("env.json");
    read_plain_text(&file)
        .with_context(|| format!("cannot read `{}`\nhint: is it a shard's folder?", file.display()))
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}
