//! Reading files that a user names, which may be anything: a device without an end must not take all memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Most bytes of a named file: an hour of ACKs of a fast flow fits.
const LIMIT: u64 = 1 << 30;

/// Most bytes of a trace file. The longest that are published have 10 MB.
const TRACE_LIMIT: u64 = 64 << 20;

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

fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
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
}
