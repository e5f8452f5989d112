//! Other programs' formats, which nothing else in the program knows: `headway export`, `import` and `plan`, and the
//! packets of `headway sim`.
//!
//! `reading` is what every reader of somebody else's run returns. `flent` reads and writes, `ping` and `pscheduler`
//! read, `import` finds out which of them a file is for, `packets` writes captures.

pub mod flent;
pub mod import;
pub mod packets;
mod ping;
pub mod pscheduler;
mod reading;

use crate::metric::CellData;
use crate::plan::{Cell, Plan};
use crate::raw::folder::{cell_dir, write_atomic};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Writes one file into `to` for each cell that counts, and returns their names. `file` makes the end of the file's
/// name and its content.
///
/// # Errors
/// No cell counts, a cell cannot be exported, or a file cannot be written.
pub fn export(
    run: &Path,
    to: &Path,
    file: impl Fn(&CellData) -> Result<(&'static str, Vec<u8>)>,
) -> Result<Vec<PathBuf>> {
    let plan = Plan::read(run)?;
    fs::create_dir_all(to).with_context(|| format!("cannot create `{}`", to.display()))?;
    let mut files = Vec::new();
    for cell in &plan.cells {
        let Ok(data) = CellData::read(&cell_dir(run, cell), &plan.paths[cell.path]) else { continue };
        if data.excluded().is_some() {
            continue;
        }
        let (end, bytes) = file(&data).with_context(|| format!("cannot export cell {:03}", cell.index))?;
        let path = to.join(format!("{}{end}", name(&plan, cell)));
        write_atomic(&path, &bytes)?;
        files.push(path);
    }
    ensure!(
        !files.is_empty(),
        "no cell of `{}` counts: nothing to export\nhint: `headway report` says why",
        run.display()
    );
    Ok(files)
}

/// A file name that says which cell it is.
fn name(plan: &Plan, cell: &Cell) -> String {
    let of = |name: &str, others: &str| -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || others.contains(c) { c } else { '_' };
        name.chars().map(plain).take(60).collect()
    };
    let (path, cc) = (of(&plan.paths[cell.path].name, "-_.="), of(&cell.cc.to_string(), "-_.=:@#"));
    format!("{:03}-{path}-{cc}-block{}", cell.index, cell.block + 1)
}
