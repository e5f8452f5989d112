//! The folder of a run and the folders of its cells: making them, holding them against a second writer, and writing
//! files so that an interrupted run leaves nothing half done.

use crate::plan::{Cell, Plan};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Creates the run folder, or checks that an existing one is of this very plan. Also removes the temporary folders
/// that an earlier run left when it was killed. Nobody else can open the folder for writing as long as the returned
/// file is open.
///
/// # Errors
/// The folder belongs to another plan, another program is writing to it, or it cannot be made.
pub fn open_run(plan: &Plan, out: &Path) -> Result<File> {
    let file = out.join("plan.json");
    check_same(plan, out)?;
    if !file.exists() {
        fs::create_dir_all(out.join("cells"))
            .with_context(|| format!("cannot create `{}`", out.display()))?;
        write_atomic(&file, &(serde_json::to_string_pretty(plan)? + "\n"))?;
    }
    ensure!(
        fs::symlink_metadata(out.join("cells")).is_ok_and(|kind| kind.is_dir()),
        "`cells` in `{}` is no folder\nhint: a link would lead out of the run; give another --out",
        out.display()
    );
    let lock = File::open(&file)?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .with_context(|| format!("another headway is writing to `{}`", out.display()))?;
    for entry in fs::read_dir(out.join("cells"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') && name.ends_with(".tmp") {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(lock)
}

/// Fails if the folder holds a run of another plan.
pub fn check_same(plan: &Plan, out: &Path) -> Result<()> {
    if out.join("plan.json").exists() {
        let old = Plan::read(out)?;
        ensure!(
            old == *plan,
            "`{}` holds a run of another plan: {}\nhint: give the same arguments to go on with it, or another --out",
            out.display(),
            old.command()
        );
    }
    Ok(())
}

/// `cells/NNN` of a cell. It is made by renaming [`temporary_cell_dir`]: where it exists, it is complete.
pub fn cell_dir(out: &Path, cell: &Cell) -> PathBuf {
    out.join("cells").join(format!("{:03}", cell.index))
}

/// Where a cell's files are collected until they are complete.
pub fn temporary_cell_dir(out: &Path, cell: &Cell) -> PathBuf {
    out.join("cells").join(format!(".{:03}.tmp", cell.index))
}

/// Writes a file under a temporary name and renames it, so that it is either complete or not there.
pub fn write_atomic(file: &Path, content: &(impl AsRef<[u8]> + ?Sized)) -> Result<()> {
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let tmp = file.with_file_name(format!(".{name}.tmp"));
    let write = || {
        // Whatever has this name is taken away: to write to what is there would follow a link out of the folder.
        drop(fs::remove_file(&tmp));
        let mut f = File::create_new(&tmp)?;
        f.write_all(content.as_ref())?;
        fs::rename(&tmp, file)
    };
    write().inspect_err(|_| drop(fs::remove_file(&tmp))).with_context(|| {
        format!("cannot write `{}`\nhint: is the disk full or the folder read-only?", file.display())
    })
}

/// `headway-run-N` with the first free N in the working directory.
pub fn new_run_dir() -> Result<PathBuf> {
    (1..100_000)
        .map(|n| PathBuf::from(format!("headway-run-{n}")))
        .find(|p| !p.exists())
        .context("there are 100000 run folders here\nhint: name one with --out")
}
