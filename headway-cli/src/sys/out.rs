//! Standard output and standard error, which may be closed or full.
//!
//! The macros of the standard library panic when their stream cannot be written. A reader that has seen enough
//! (`headway list | head -1`) is no failure, though, and a full disk is one that deserves a sentence; so all output of
//! the program goes through here, and `main.rs` refuses the macros.

use super::interrupt::{self, Guard};
use crate::error::coded;
use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};

/// What other programs end with when the reader of their output has gone: 128 + SIGPIPE.
const READER_GONE: u8 = 128 + libc::SIGPIPE as u8;

/// Writes the text to standard output at once, without the escape sequences of colours where nobody wants them: in a pipe,
/// and as `NO_COLOR`, `CLICOLOR` and `TERM=dumb` say.
///
/// # Errors
/// When the reader has gone, an error without words, which ends the program quietly. Otherwise what could not be done.
pub fn print(text: impl Display) -> Result<()> {
    let mut out = anstream::stdout().lock();
    written(write!(out, "{text}").and_then(|()| out.flush()))
}

/// A text of a stranger's, without the characters that a terminal obeys.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_obeyed(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Whether no text in a JSON value has such characters.
pub fn is_plain(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.contains(is_obeyed),
        Value::Array(values) => values.iter().all(is_plain),
        Value::Object(fields) => {
            fields.iter().all(|(name, value)| !name.contains(is_obeyed) && is_plain(value))
        }
        _ => true,
    }
}

fn is_obeyed(c: char) -> bool {
    c.is_control() && !"\n\r\t".contains(c)
}

/// How wide a line may be: `COLUMNS`, or else the terminal's width. A file or a pipe takes any width.
pub fn width() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|n| *n > 0);
    let terminal =
        || terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    asked.or_else(terminal).map(|width| width.max(LEAST_WIDTH))
}

/// How many lines the terminal has.
pub fn height() -> Option<usize> {
    let asked = std::env::var("LINES").ok().and_then(|text| text.parse().ok()).filter(|n| *n > 0);
    asked.or_else(|| {
        terminal_size::terminal_size_of(std::io::stdout()).map(|(_, height)| usize::from(height.0))
    })
}

/// A terminal that is painted anew again and again, as `top` does; what stood there before comes back at the end.
#[derive(Debug)]
pub struct Screen {
    has_colors: bool,
    _back: Guard,
}

impl Screen {
    /// `None` where standard output is no terminal, or one that cannot do it.
    pub fn open() -> Option<Screen> {
        let stdout = std::io::stdout();
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if !stdout.is_terminal() || is_dumb {
            return None;
        }
        let has_colors = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        let back = interrupt::guard(|| drop(raw("\x1b[?25h\x1b[?1049l")));
        raw("\x1b[?1049h\x1b[?25l").ok()?;
        Some(Screen { has_colors, _back: back })
    }

    /// Puts the text on the screen in the place of what is there.
    pub fn paint(&self, text: &str) -> Result<()> {
        let plain =
            if self.has_colors { text.to_string() } else { anstream::adapter::strip_str(text).to_string() };
        // Each line is written over the old one and its rest is cleared, then all below: nothing flickers.
        written(raw(&format!("\x1b[H{}\x1b[J", plain.replace('\n', "\x1b[K\n"))))
    }
}

fn raw(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// No table fits less.
const LEAST_WIDTH: usize = 40;

/// As [`print()`], and ends the line.
pub fn say(line: impl Display) -> Result<()> {
    print(format_args!("{line}\n"))
}

/// What the outcome of writing to standard output means for the program.
pub fn written(outcome: std::io::Result<()>) -> Result<()> {
    match outcome {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => coded(READER_GONE, Err(anyhow!(""))),
        other => other.context("cannot write to standard output"),
    }
}

/// Writes a line to standard error, where one can be written. Nobody is left to be told of a failure.
pub fn note(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
