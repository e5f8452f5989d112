//! Files that must be whole after a `kill -9` and after a loss of power: the enabled controllers, and what is known
//! about a boot that is under way.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Writes a file under a temporary name, waits until it is on the disk, and renames it. Makes its folder where that is
/// missing.
pub fn write(file: &Path, content: &str) -> Result<()> {
    let folder = file.parent().context("a file has a folder")?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.tmp"));
    let write = || {
        fs::create_dir_all(folder)?;
        let mut f = File::create(&temporary)?;
        f.write_all(content.as_bytes())?;
        f.sync_all()?;
        fs::rename(&temporary, file)?;
        File::open(folder)?.sync_all()
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary))).map_err(|e| cannot(e, "write", file))
}

/// Removes a file and waits until that is on the disk; one that is not there is removed already.
pub fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(cannot(e, "remove", file)),
    }
    let folder = file.parent().context("a file has a folder")?;
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| cannot(e, "remove", file))
}

/// The error as a sentence, and what to do about it.
pub fn cannot(e: std::io::Error, what: &str, file: &Path) -> anyhow::Error {
    let hint = match e.kind() {
        ErrorKind::PermissionDenied => "run it as root",
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only; mount it for writing",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "the disk is full; make room on it",
        _ => "is the disk full, or the folder read-only?",
    };
    anyhow::Error::from(e).context(format!("cannot {what} {}\nhint: {hint}", file.display()))
}

/// Reads a file that may not be there.
pub fn read(file: &Path) -> Result<Option<String>> {
    match crate::sys::file::read_text(file) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("cannot read {}", file.display())),
    }
}
