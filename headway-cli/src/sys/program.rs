//! The programs of this machine: where they are, what they say of themselves, which shared libraries they need, and
//! running one as a filter. Which programs Headway needs, and what to do when one is missing, is for the callers to
//! know.

use super::file;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file that a command of this name would start, or `None` when the machine has no such command. Without a PATH
/// the two directories are searched that `execvp` searches then.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// First line of `PROGRAM --version`, from standard output or standard error; empty when it cannot be run.
pub fn version(program: &str) -> String {
    let out = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let text =
        out.map(|o| String::from_utf8_lossy(&[o.stdout, o.stderr].concat()).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_string()
}

/// Runs a program as a filter: gives it `input` and returns what it prints. Fails with what it wrote to standard error
/// if it does not end with success.
pub fn pipe_through(program: &str, args: &[&str], input: &[u8]) -> Result<Vec<u8>> {
    pipe(program, args, input, file::LIMIT)
}

fn pipe(program: &str, args: &[&str], input: &[u8], limit: u64) -> Result<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run `{program}`\nhint: `apt-get install {program}`"))?;
    let mut stdin = child.stdin.take().context("no pipe to the child")?;
    let (stdout, stderr) = (child.stdout.take().context("no pipe")?, child.stderr.take().context("no pipe")?);
    let (printed, said) = std::thread::scope(|scope| {
        // Written by a second thread, because a filter that prints while it reads would otherwise block us for ever.
        // A write that fails shows as a failed child below.
        scope.spawn(move || drop(stdin.write_all(input)));
        let said = scope.spawn(move || file::all_of(stderr, limit));
        let printed = file::all_of(stdout, limit);
        if printed.is_err() {
            // It has more to say than there is memory for, and would wait for a reader for ever.
            drop(child.kill());
        }
        (printed, said.join())
    });
    let status = child.wait()?;
    let printed = printed.with_context(|| format!("`{program}` prints too much"))?;
    if !status.success() {
        let said = said.ok().and_then(Result::ok).unwrap_or_default();
        bail!("`{program}` failed: {}", String::from_utf8_lossy(&said).trim());
    }
    Ok(printed)
}

/// The content of the program at `path` under `name`, and of every shared library that the dynamic linker would load
/// for it under the path where the linker looks for it: all that another root directory needs to run the program.
pub fn with_libraries(name: &str, path: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let mut files = BTreeMap::from([(name.to_string(), read(path)?)]);
    // With this variable the dynamic linker lists what it loads instead of starting the program (as ldd does).
    let output = Command::new(path)
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .output()
        .with_context(|| format!("cannot list the libraries of {}", path.display()))?;
    let listing = String::from_utf8_lossy(&output.stdout);
    ensure!(!listing.contains("not found"), "{} lacks shared libraries:\n{listing}", path.display());
    for library in libraries(&listing) {
        files.insert(library.to_string(), read(Path::new(library))?);
    }
    Ok(files)
}

/// The absolute paths in the linker's listing: `libc.so.6 => /lib/libc.so.6 (0x…)` or `/lib64/ld.so (0x…)`.
fn libraries(listing: &str) -> impl Iterator<Item = &str> {
    listing.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_without_an_end_is_ended() {
        let error = pipe("cat", &["/dev/zero"], b"", 1 << 20).unwrap_err();
        assert_eq!(format!("{error:#}"), "`cat` prints too much: it has more than 1 MiB");
        assert_eq!(pipe_through("cat", &[], b"as it is").unwrap(), b"as it is");
        let failed = pipe_through("ls", &["/nowhere"], b"").unwrap_err().to_string();
        assert!(failed.starts_with("`ls` failed: ") && failed.contains("/nowhere"), "{failed}");
    }

    #[test]
    fn libraries_are_the_absolute_paths_of_the_listing() {
        let listing =
            "\tlinux-vdso.so.1 (0x7ff)\n\tlibz.so.1 => /lib/libz.so.1 (0x7f)\n\t/lib64/ld.so.2 (0x7f)\n";
        assert_eq!(libraries(listing).collect::<Vec<_>>(), ["/lib/libz.so.1", "/lib64/ld.so.2"]);
    }
}
