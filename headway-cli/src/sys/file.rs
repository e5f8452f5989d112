//! Reading files that a user names, which may be anything: a device without an end must not take all memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Most bytes of a named file: an hour of ACKs of a fast flow fits.
pub const LIMIT: u64 = 1 << 30;

/// Most bytes of a trace file. The longest that are published have 10 MB.
const TRACE_LIMIT: u64 = 64 << 20;

/// Most bytes of a file in a run folder: a day of a load's intervals fits.
const PLAIN_LIMIT: u64 = 256 << 20;

/// The bytes of a file or a pipe.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, LIMIT)
}

/// The text of a file or a pipe.
pub fn read_text(path: &Path) -> io::Result<String> {
    into_text(read(path)?)
}

/// The text of a trace file, which the plan keeps with the run. A pipe is refused, because it could be read only once,
/// and a device, because it may have no end.
pub fn read_trace(path: &Path) -> io::Result<String> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    into_text(read_at_most(path, TRACE_LIMIT)?)
}

/// The bytes of a file in a folder that a stranger may have made. A link is refused, because it would show what lies
/// elsewhere; and so is a pipe, because nobody may ever write to it, and a device.
pub fn read_plain(path: &Path) -> io::Result<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|e| {
        if e.raw_os_error() == Some(libc::ELOOP) {
            io::Error::other("it is a link to another file")
        } else {
            e
        }
    })?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    all_of(file, PLAIN_LIMIT)
}

/// The text of such a file.
pub fn read_plain_text(path: &Path) -> io::Result<String> {
    into_text(read_plain(path)?)
}

fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    all_of(File::open(path)?, limit)
}

/// Everything that comes from a source.
pub fn all_of(source: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = source.take(limit + 1).read_to_end(&mut bytes)?;
    match read as u64 > limit {
        true => Err(io::Error::other(format!("it has more than {} MiB", limit >> 20))),
        false => Ok(bytes),
    }
}

fn into_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is no text (UTF-8)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused() {
        let said = |result: io::Result<String>| result.unwrap_err().to_string();
        assert_eq!(said(read_trace(Path::new("/dev/zero"))), "it is no regular file");
        assert_eq!(said(read_trace(Path::new("/"))), "it is no regular file");
        assert_eq!(
            read_at_most(Path::new("/dev/zero"), 1 << 20).unwrap_err().to_string(),
            "it has more than 1 MiB"
        );
        assert_eq!(read_text(Path::new("/dev/null")).unwrap(), "");
    }

    #[test]
    fn of_a_run_folder_only_regular_files_are_read() {
        let dir = std::env::temp_dir().join(format!("headway-plain-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let at = |name: &str| dir.join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).unwrap();
        File::create(at("sparse")).unwrap().set_len(PLAIN_LIMIT + 1).unwrap();
        let said = |name: &str| read_plain_text(&at(name)).map_err(|e| e.to_string());
        assert_eq!(said("file"), Ok("text".into()));
        assert_eq!(said("link").unwrap_err(), "it is a link to another file");
        assert_eq!(said("pipe").unwrap_err(), "it is no regular file");
        assert_eq!(said("sparse").unwrap_err(), "it has more than 256 MiB");
        assert_eq!(said("").unwrap_err(), "it is no regular file");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
