//! A command that runs when this process has done its work, however it ends.
//!
//! A child holds the read end of a pipe and runs the command when the pipe closes. The pipe closes when the value is dropped,
//! after Ctrl-C and SIGTERM, and also when this process is killed: the child is in a process group of its own, so that a
//! signal to this one's group does not reach it.

use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

/// The command that waits.
#[derive(Debug)]
pub struct Afterwards {
    child: Child,
}

impl Afterwards {
    /// Lets a command wait: a program and its arguments.
    pub fn of(command: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Self> {
        let child = Command::new("sh")
            .args(["-c", "cat >/dev/null; exec \"$@\"", "sh"])
            .args(command)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start the process that puts things back")?;
        Ok(Self { child })
    }

    /// Runs the command now, and says how it ended.
    pub fn now(&mut self) -> io::Result<ExitStatus> {
        drop(self.child.stdin.take());
        self.child.wait()
    }

    /// Whether the command has neither run nor been called off.
    pub fn is_waiting(&self) -> bool {
        self.child.stdin.is_some()
    }

    /// Calls the command off. The child is killed before its pipe closes, because the closing pipe is what tells it to act.
    pub fn never(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.child.stdin.take());
    }
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        if self.is_waiting() {
            let _ = self.now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_waits_until_it_is_its_turn() {
        let file = std::env::temp_dir().join(format!("headway-afterwards-{}", std::process::id()));
        let touch = || Afterwards::of([OsStr::new("touch"), file.as_os_str()]).unwrap();
        touch().never();
        let mut waiting = touch();
        assert!(!file.exists() && waiting.is_waiting());
        assert!(waiting.now().unwrap().success() && file.exists() && !waiting.is_waiting());
        std::fs::remove_file(&file).unwrap();
        drop(waiting);
        assert!(!file.exists(), "it runs once");
        drop(touch());
        assert!(file.exists());
        std::fs::remove_file(&file).unwrap();
    }
}
