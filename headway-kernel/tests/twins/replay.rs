//! Builds the C twins as an ordinary program and compares what they compute with what Rust computes.

use headway_cc::cc::{Ack, Control, Controller};
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The C sources, without which there is nothing to compare.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf")
}

/// A folder of this test alone that vanishes with the value.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("twins-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).expect("target's temporary folder is writable");
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Compiles `replay.c` of a folder; the program lands in the scratch folder.
pub fn build(sources: &Path, scratch: &Scratch) -> PathBuf {
    build_with(sources, scratch, &["-O2"])
}

/// The same with switches for the compiler.
pub fn build_with(sources: &Path, scratch: &Scratch, switches: &[&str]) -> PathBuf {
    let program = scratch.path().join("replay");
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(&cc)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror"])
        .args(switches)
        .arg("-o")
        .arg(&program)
        .arg(sources.join("replay.c"))
        .output()
        .unwrap_or_else(|e| panic!("cannot run the C compiler `{cc}`: {e}\nhint: install one, or set CC"));
    assert!(output.status.success(), "replay.c: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// A bug to be planted in C: a token or two that are wrong.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// Where: the file below `bpf` and the function.
    pub file: &'static str,
    pub function: &'static str,
    /// What the file reads there, in exactly one place, and what it reads with the bug.
    pub from: &'static str,
    pub to: &'static str,
}

/// The text of the bug's file with the bug; an error when what it replaces is not there, or more than once.
pub fn plant(bug: &Bug) -> Result<String, String> {
    let text = fs::read_to_string(sources().join(bug.file)).map_err(|e| format!("{}: {e}", bug.file))?;
    let name = format!("{}(", bug.function);
    let mut calls = text.match_indices(&name).map(|(at, _)| (at, &text[at + name.len()..]));
    let (at, _) =
        calls.find(|(_, args)| !args.starts_with(')')).ok_or_else(|| format!("no {}", bug.function))?;
    let body = &text[at..];
    let body = &body[..body.find("\n}\n").expect("a function ends")];
    match body.matches(bug.from).count() {
        1 => Ok(text.replacen(body, &body.replace(bug.from, bug.to), 1)),
        n => Err(format!("`{}` is {n} times in {}", bug.from, bug.function)),
    }
}

/// The sources with one bug, compiled.
pub fn build_with_bug(scratch: &Scratch, bug: &Bug) -> PathBuf {
    copy_sources(&sources(), scratch.path());
    let wrong = plant(bug).unwrap_or_else(|e| panic!("{e}"));
    fs::write(scratch.path().join(bug.file), wrong).expect("the scratch folder is writable");
    build_with(scratch.path(), scratch, &["-O0"])
}

fn copy_sources(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the scratch folder is writable");
    for entry in fs::read_dir(from).expect("the C sources are there").flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_sources(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("the scratch folder is writable")),
        }
    }
}

/// The first place where the two differ: a bug report.
#[derive(Debug)]
pub struct Difference {
    /// From 1, counting events.
    pub line: usize,
    pub field: String,
    pub rust: u64,
    pub c: u64,
    pub ack: Ack,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {}: `{}` is {} in Rust, {} in C\n ", self.line, self.field, self.rust, self.c)?;
        Ack::FIELDS.iter().zip(self.ack.words()).try_for_each(|(name, word)| write!(f, " {name}={word}"))
    }
}

/// What C computes: one line per event, as the program prints them.
#[derive(Debug)]
pub struct Rows {
    child: Child,
    /// `None` once dropped: the child ends when it can no longer write.
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

/// Starts the C twin of a controller over these events.
pub fn replay(program: &Path, name: &str, params: &[u64], acks: &[Ack]) -> Rows {
    let input = program.with_extension("in");
    write_input(&input, name, params, acks);
    start(program, &input)
}

/// Starts a twin on what [`write_input`] wrote.
pub fn start(program: &Path, input: &Path) -> Rows {
    let mut child = Command::new(program)
        .stdin(File::open(input).expect("the file was just written"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was just built");
    let lines = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
    Rows { child, lines }
}

impl Iterator for Rows {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let line = self.lines.as_mut()?.next();
        if line.is_none() {
            assert!(self.child.wait().is_ok_and(|s| s.success()), "replay failed");
        }
        line.map(|l| l.expect("replay prints text"))
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.lines = None;
        self.child.wait().ok();
    }
}

/// The words of a row.
pub fn words_of(row: &str) -> Vec<u64> {
    row.split(' ').map(|w| w.parse().expect("replay prints integers")).collect()
}

/// Runs the events through a fresh Rust controller and holds every row of C against it.
///
/// `visit` sees every event with control and state as Rust has them.
pub fn compare(
    rows: impl Iterator<Item = String>,
    acks: &[Ack],
    cc: Box<dyn Controller>,
    visit: impl FnMut(&Ack, &Control, &[u64]),
) -> Result<(), Box<Difference>> {
    compare_words(rows.map(|row| words_of(&row)), acks, cc, visit)
}

/// The same for rows whose words are read already.
pub fn compare_words(
    mut rows: impl Iterator<Item = impl AsRef<[u64]>>,
    acks: &[Ack],
    mut cc: Box<dyn Controller>,
    mut visit: impl FnMut(&Ack, &Control, &[u64]),
) -> Result<(), Box<Difference>> {
    for (i, ack) in acks.iter().enumerate() {
        let control = cc.on_event(ack);
        let state = cc.state();
        visit(ack, &control, &state);
        let row = rows.next().unwrap_or_else(|| panic!("replay ended before event {}", i + 1));
        if let Some((field, rust, c)) = differing(&control, &state, cc.state_fields(), row.as_ref()) {
            return Err(Box::new(Difference { line: i + 1, field, rust, c, ack: *ack }));
        }
    }
    assert!(rows.next().is_none(), "replay printed more rows than there were events");
    Ok(())
}

/// What `replay.c` reads: the name and the parameters, then a line an event.
pub fn write_input(path: &Path, name: &str, params: &[u64], acks: &[Ack]) {
    let mut out = BufWriter::new(File::create(path).expect("the scratch folder is writable"));
    let mut row = |first: &str, words: &[u64]| {
        let words: Vec<String> = words.iter().map(u64::to_string).collect();
        writeln!(out, "{first}{}", words.join(" ")).expect("there is room for the events")
    };
    row(&format!("{name} "), params);
    acks.iter().for_each(|ack| row("", &ack.words()));
    out.flush().expect("there is room for the events");
}

/// The first word of a row that differs from control and state.
fn differing(control: &Control, state: &[u64], fields: &[&str], c: &[u64]) -> Option<(String, u64, u64)> {
    let rust: Vec<u64> = control.words().into_iter().chain(state.iter().copied()).collect();
    assert_eq!(c.len(), rust.len(), "a row of C and a row of Rust are equally long");
    let at = rust.iter().zip(c).position(|(rust, c)| rust != c)?;
    let name = match at.checked_sub(Control::FIELDS.len()) {
        None => format!("control.{}", Control::FIELDS[at]),
        Some(at) => fields[at].into(),
    };
    Some((name, rust[at], c[at]))
}
