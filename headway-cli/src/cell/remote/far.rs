//! The far end of a run over ssh (`--ssh HOST`). The program copies itself there, with the libraries that it loads,
//! and that copy answers questions on its standard input until this closes. It closes with the ssh connection however
//! this end stops, even when it is killed, and then the copy detaches its controller from the far kernel and ends.
//!
//! The copy removes its own folder as soon as it runs, so that nothing is left there to be cleaned up. `remote.rs`
//! calls `FarEnd`; the hidden command `headway far-end` calls `serve`.

use super::{Context, Result, bail, ensure};
use crate::cell::sender::Sender;
use crate::error::sentence;
use crate::observe::cpu;
use crate::observe::machine;
use crate::sys::out;
use crate::sys::{interrupt, program};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

/// The name of the copied folder begins with this. The copy removes its folder only if the name matches, so that a
/// wrong argument can never remove anything else.
const FOLDER: &str = "headway-far-";
/// ssh must not ask for a password, because nobody may be there to answer; it must give up connecting after 10 s, and
/// notice a dead connection after 15 s. Everything else is left to the user's own configuration of ssh.
const OPTIONS: [&str; 8] = [
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
];

/// The copy of this program that runs at the far end.
#[derive(Debug)]
pub struct FarEnd {
    host: String,
    child: Child,
    /// Its standard input and output; `None` once this end has closed them.
    pipes: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl FarEnd {
    /// Copies the program to `host`, starts it there and waits for its first answer.
    pub fn connect(host: &str) -> Result<Self> {
        let (names, archive) = pack(Path::new("/proc/self/exe"))?;
        let folder = copy(host, &archive)?;
        let (at, name) = (folder.clone(), host.to_string());
        let guard = interrupt::guard(move || drop(ssh(&name, &format!("rm -rf {at}")).output()));
        let program = match names.iter().find(|n| n.starts_with("ld-")) {
            Some(linker) => format!("{folder}/{linker} --library-path {folder} {folder}/headway"),
            None => format!("{folder}/headway"),
        };
        let mut child = ssh(host, &format!("{program} far-end {folder}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run `ssh`")?;
        let pipes = child.stdin.take().zip(child.stdout.take()).context("no pipes to ssh")?;
        let far =
            Self { host: host.into(), child, pipes: Mutex::new(Some((pipes.0, BufReader::new(pipes.1)))) };
        far.ask("stat")?;
        guard.keep();
        Ok(far)
    }

    /// Sends one question, a line of text, and returns the answer, a line of JSON.
    fn ask(&self, question: &str) -> Result<Value> {
        let mut pipes = self.pipes.lock().unwrap_or_else(|e| e.into_inner());
        let (to, from) = pipes.as_mut().context("the far end has ended")?;
        let mut line = String::new();
        let asked =
            writeln!(to, "{question}").and_then(|()| to.flush()).and_then(|()| from.read_line(&mut line));
        ensure!(
            asked.is_ok_and(|bytes| bytes > 0),
            "`{}` over ssh does not answer\nhint: can this program run there? It is for the same processor as this one",
            self.host
        );
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("`{}` said: {line}", self.host))?;
        match answer["error"].as_str() {
            Some(error) => bail!("at `{}`: {error}", self.host),
            None => Ok(answer["ok"].clone()),
        }
    }

    /// Describes the far machine and its network card towards `peer`.
    pub fn describe(&self, peer: &str) -> Result<Value> {
        self.ask(&format!("describe {peer}"))
    }

    /// The tick counters of the far machine's CPUs now.
    pub fn ticks(&self) -> Result<Vec<cpu::Ticks>> {
        Ok(cpu::ticks(self.ask("stat")?.as_str().unwrap_or_default()))
    }

    /// Attaches the controller in the far kernel, where it stays until the returned value is finished or dropped.
    pub fn attach(&self, cc: &str) -> Result<FarCc<'_>> {
        let name = self.ask(&format!("attach {cc}"))?;
        Ok(FarCc { far: self, name: name.as_str().unwrap_or_default().into(), is_attached: true })
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        self.pipes.lock().unwrap_or_else(|e| e.into_inner()).take();
        let _ = self.child.wait();
    }
}

/// A controller that is attached in the far kernel.
#[derive(Debug)]
pub struct FarCc<'a> {
    far: &'a FarEnd,
    pub name: String,
    is_attached: bool,
}

impl FarCc<'_> {
    /// Detaches the controller. An error here means that the controller did not work as it should, so that the cell
    /// does not count.
    pub fn finish(mut self) -> Result<()> {
        self.is_attached = false;
        self.far.ask("detach").map(drop)
    }
}

impl Drop for FarCc<'_> {
    fn drop(&mut self) {
        if self.is_attached {
            let _ = self.far.ask("detach");
        }
    }
}

fn ssh(host: &str, command: &str) -> Command {
    let mut ssh = Command::new("ssh");
    ssh.args(OPTIONS).args(["--", host, command]);
    ssh
}

/// Unpacks the archive into a new folder of the far machine and returns the folder's path.
fn copy(host: &str, archive: &[u8]) -> Result<String> {
    let script = format!(
        "d=$(mktemp -d \"${{TMPDIR:-/tmp}}/{FOLDER}XXXXXX\") && {{ tar -C \"$d\" -xf - && echo \"$d\" || {{ rm -rf \"$d\"; false; }}; }}"
    );
    let arguments = [&OPTIONS[..], &["--", host, &script]].concat();
    let said = program::pipe_through("ssh", &arguments, archive).with_context(|| {
        format!("cannot copy this program to `{host}`\nhint: does `ssh -o BatchMode=yes {host} true` work?")
    })?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let folder = said.lines().last().unwrap_or_default().trim();
    let is_plain = folder.chars().all(|c| c.is_ascii_alphanumeric() || "/-_.".contains(c));
    ensure!(folder.contains(FOLDER) && is_plain, "`{host}` made no folder for this program; it said: {said}");
    Ok(folder.to_string())
}

/// Packs a program and the libraries that it loads into a tar archive, all in one folder. Returns their names, and
/// the archive.
fn pack(program: &Path) -> Result<(Vec<String>, Vec<u8>)> {
    let (mut names, mut archive) = (Vec::new(), Vec::new());
    for (path, content) in program::with_libraries("/headway", program)? {
        let name = path.rsplit('/').next().unwrap_or_default().to_string();
        archive.extend(tar_header(&name, content.len()));
        archive.extend(&content);
        archive.resize(archive.len().next_multiple_of(512), 0);
        names.push(name);
    }
    archive.resize(archive.len() + 1024, 0);
    Ok((names, archive))
}

/// The header of a POSIX ustar archive for a plain file that its owner may read, write and run (mode 0700).
fn tar_header(name: &str, bytes: usize) -> [u8; 512] {
    let mut header = [0u8; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, &name[..name.len().min(99)]);
    put(100, "0000700\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{bytes:011o}\0"));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

/// The command `headway far-end FOLDER`: answers questions until its standard input ends.
pub fn serve(folder: &Path) -> Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    ensure!(name.starts_with(FOLDER), "`{}` is not a folder that `--ssh` made", folder.display());
    // The running process keeps the program and its libraries mapped, so that their files can be removed now.
    std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove `{}`", folder.display()))?;
    let mut sender = None;
    for line in std::io::stdin().lines() {
        let answer = match answer(line?.trim(), &mut sender) {
            Ok(value) => json!({ "ok": value }),
            Err(e) => json!({ "error": sentence(&e) }),
        };
        out::say(answer)?;
    }
    Ok(())
}

fn answer(question: &str, sender: &mut Option<Sender>) -> Result<Value> {
    let (word, rest) = question.split_once(' ').unwrap_or((question, ""));
    match word {
        "stat" => Ok(std::fs::read_to_string("/proc/stat").unwrap_or_default().into()),
        "describe" => Ok(machine::describe(rest.parse().ok())),
        "attach" => {
            *sender = None;
            let prepared = Sender::prepare(rest, false, Path::new("."))?;
            Ok(sender.insert(prepared).name.clone().into())
        }
        "detach" => sender.take().map_or(Ok(Value::Null), |s| s.finish().map(Value::from)),
        _ => bail!("`{question}` is no question"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_one_that_tar_reads() {
        let (names, archive) = pack(Path::new("/bin/sh")).unwrap();
        assert!(
            names.contains(&"headway".to_string()) && names.iter().any(|n| n.starts_with("ld-")),
            "{names:?}"
        );
        let listed = program::pipe_through("tar", &["-tvf", "-"], &archive).unwrap();
        let listed = String::from_utf8(listed).unwrap();
        assert_eq!(listed.lines().count(), names.len(), "{listed}");
        assert!(listed.lines().all(|l| l.starts_with("-rwx------")), "{listed}");
        let program = program::pipe_through("tar", &["-xOf", "-", "headway"], &archive).unwrap();
        assert!(program == std::fs::read("/bin/sh").unwrap());
    }

    #[test]
    fn only_a_folder_of_our_own_is_removed() {
        let dir = std::env::temp_dir();
        let error = serve(&dir).unwrap_err().to_string();
        assert!(error.contains("is not a folder that `--ssh` made") && dir.exists(), "{error}");
    }

    #[test]
    fn questions_are_answered_and_others_refused() {
        let mut sender = None;
        assert!(!cpu::ticks(answer("stat", &mut sender).unwrap().as_str().unwrap()).is_empty());
        assert!(answer("describe", &mut sender).unwrap()["kernel"].is_string());
        assert_eq!(answer("attach reno", &mut sender).unwrap(), "reno");
        assert_eq!(answer("detach", &mut sender).unwrap(), "reno");
        assert!(answer("attach nosuch", &mut sender).is_err() && answer("rm -rf /", &mut sender).is_err());
    }
}
