//! The key that client networks are hashed with. It is drawn once and stays on the machine, readable by root alone.

use crate::trial::connection::Key;
use anyhow::{Context, Result, ensure};
use ring::rand::{SecureRandom, SystemRandom};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Where it is. Whoever removes it makes the numbers of all networks so far meaningless for good.
pub const FILE: &str = "/var/lib/headway/trial.key";

const BYTES: usize = 32;

/// The key in this file, drawn now if there is none.
///
/// # Errors
/// It cannot be read or kept, or what is there is no key.
pub fn of_machine(file: &Path) -> Result<Key> {
    let cannot = || format!("cannot keep a key in {}\nhint: is the disk full, or read-only?", file.display());
    match fs::read(file) {
        Ok(bytes) => of(&bytes, file),
        Err(e) if e.kind() == ErrorKind::NotFound => draw(file).with_context(cannot),
        Err(e) => Err(e).with_context(cannot),
    }
}

fn of(bytes: &[u8], file: &Path) -> Result<Key> {
    let secret: Option<&[u8; BYTES]> = bytes.try_into().ok();
    let secret = secret.with_context(|| {
        let (file, length) = (file.display(), bytes.len());
        format!(
            "{file} is no key: it has {length} bytes and not {BYTES}\nhint: remove it, and a new one is drawn"
        )
    })?;
    Ok(Key::new(secret))
}

/// Draws a key and keeps it, complete or not at all.
fn draw(file: &Path) -> Result<Key> {
    let mut bytes = [0; BYTES];
    ensure!(SystemRandom::new().fill(&mut bytes).is_ok(), "the kernel gives no random numbers");
    let folder = file.parent().context("a file has a folder")?;
    fs::create_dir_all(folder)?;
    let temporary = folder.join(format!(".trial.key.{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut f = File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        f.write_all(&bytes)?;
        f.sync_all()?;
        fs::rename(&temporary, file)
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary)))?;
    of(&bytes, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_drawn_once_and_is_roots_alone() {
        let folder = std::env::temp_dir().join(format!("headway-key-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let file = folder.join("deeper/trial.key");
        let number = || of_machine(&file).unwrap().network("192.0.2.7".parse().unwrap());
        let first = number();
        assert_eq!(number(), first);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        fs::remove_file(&file).unwrap();
        assert_ne!(number(), first);
        fs::write(&file, "short").unwrap();
        assert!(of_machine(&file).unwrap_err().to_string().contains("5 bytes"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
