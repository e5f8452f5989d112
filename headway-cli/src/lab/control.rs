//! What is asked of the emulator while a guest runs: how many instructions the guest has executed, at the moments that
//! the guest marks.
//!
//! Time in which the guest is idle is skipped, so its clock does not tell work from waiting; the emulator's own count of
//! instructions does. The guest marks a moment by a byte to a port ([`crate::sys::lab::mark`]), at which the emulator stops
//! it (the device is made for a kernel that panics), is asked for the count and goes on. Control and console need a channel
//! each: control has the emulator's standard input and output, its language is QMP, a JSON object a line.
//!
//! An emulator that goes on after a stop may take the guest for idle at first and move its clock to the next timer, or it may
//! not, as the host's threads happen to run. So a cell, whose bytes are the same on every run, makes no marks: with a mark
//! before the load one cell of twelve was not the same again. Commands in a guest may ([`super::run_commands`]).

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::thread::JoinHandle;

/// What makes the emulator stop at a mark and talk about it.
pub const ARGUMENTS: [&str; 8] = [
    "-chardev",
    "stdio,id=control",
    "-mon",
    "chardev=control,mode=control",
    "-device",
    "pvpanic,ioport=0x505",
    "-action",
    "panic=pause",
];

/// The conversation with one emulator.
#[derive(Debug)]
pub struct Control {
    counts: JoinHandle<Vec<u64>>,
}

impl Control {
    /// Counts at the guest's marks until the emulator has gone. `held` is dropped as soon as the emulator answers, by when it
    /// has opened all its files.
    pub fn start(
        input: impl Write + Send + 'static,
        output: impl Read + Send + 'static,
        held: impl Send + 'static,
    ) -> Self {
        let mut talk = Talk { input, output: BufReader::new(output) };
        let counts = std::thread::spawn(move || {
            let is_there = talk.ask("qmp_capabilities").is_some();
            drop(held);
            if is_there { talk.count() } else { Vec::new() }
        });
        Self { counts }
    }

    /// The counts, when the emulator has gone.
    pub fn counts(self) -> Vec<u64> {
        self.counts.join().unwrap_or_default()
    }
}

struct Talk<I, O> {
    input: I,
    output: BufReader<O>,
}

impl<I: Write, O: Read> Talk<I, O> {
    /// The next object; `None` when the emulator has gone.
    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(1..) => serde_json::from_str(&line).ok(),
            _ => None,
        }
    }

    fn ask(&mut self, what: &str) -> Option<Value> {
        writeln!(self.input, "{}", json!({ "execute": what })).ok()?;
        self.input.flush().ok()?;
        loop {
            let mut said = self.next()?;
            if said.get("error").is_some() {
                return None;
            }
            if let Some(answer) = said.get_mut("return") {
                return Some(answer.take());
            }
        }
    }

    fn count(mut self) -> Vec<u64> {
        let mut counts = Vec::new();
        while let Some(said) = self.next() {
            if said["event"] != "GUEST_PANICKED" {
                continue;
            }
            let Some(count) = self.ask("query-replay").and_then(|answer| answer["icount"].as_u64()) else {
                break;
            };
            counts.push(count);
            if self.ask("cont").is_none() {
                break;
            }
        }
        counts
    }
}
