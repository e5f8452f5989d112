//! Reads the two kinds of files that a path may name: rate traces of mahimahi and measured loss. This crate opens no
//! files; the caller does, and hands the text to [`Path::load`](super::Path::load).

use super::PathError;
use crate::rand::BILLION;
use std::sync::Arc;

/// Most lines that a file may have, so that a wrong file is refused before it fills the memory.
const MAX_LINES: usize = 10_000_000;
/// Longest rate trace, in milliseconds: a day.
const MAX_MS: u32 = 86_400_000;
/// Longest loss trace, in nanoseconds: a day.
const MAX_NS: u64 = 86_400_000_000_000;

/// Reads a rate trace: one whole number of milliseconds on each line, never falling, the last above 0.
pub(super) fn rate_trace(name: &str, text: &str) -> Result<Arc<[u32]>, PathError> {
    let mut at_ms: Vec<u32> = Vec::new();
    for (line, text) in lines(name, text)? {
        let ms = match text.parse::<u64>() {
            Ok(ms) if ms <= MAX_MS.into() => ms as u32,
            Ok(_) => return fail(name, line, format!("{text} ms is more than a day ({MAX_MS} ms)")),
            Err(_) if text.is_empty() => return fail(name, line, "empty line; expected a time in ms"),
            Err(_) => return fail(name, line, format!("`{}` is not a whole number of ms", short(text))),
        };
        if at_ms.last().is_some_and(|last| ms < *last) {
            return fail(
                name,
                line,
                format!("{ms} ms after {} ms; times must not fall", at_ms[at_ms.len() - 1]),
            );
        }
        at_ms.push(ms);
    }
    match at_ms.last() {
        None => fail(name, 1, "empty file; expected a time in ms on each line"),
        Some(0) => fail(name, at_ms.len(), "the last time is 0 ms; the trace would have no length"),
        Some(_) => Ok(at_ms.into()),
    }
}

/// Reads a loss trace: CSV with a header, of which the columns start_s, end_s, lost_packets and sent_packets are
/// used, in any order.
pub(super) fn loss_trace(name: &str, text: &str) -> Result<Arc<[(u64, u32)]>, PathError> {
    let all = lines(name, text)?;
    let [(_, header), body @ ..] = all.as_slice() else {
        return fail(name, 1, "empty file; expected a header like start_s,end_s,lost_packets,sent_packets");
    };
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    let column = |wanted: &str| match names.iter().position(|n| *n == wanted) {
        Some(index) => Ok(index),
        None => fail(name, 1, format!("the header has no column `{wanted}`")),
    };
    let columns = [column("start_s")?, column("end_s")?, column("lost_packets")?, column("sent_packets")?];
    let mut rows: Vec<(u64, u32)> = Vec::new();
    for (line, text) in body {
        let start_ns = rows.last().map_or(0, |r| r.0);
        rows.push(loss_row(name, *line, text, columns, start_ns)?);
    }
    if rows.is_empty() {
        return fail(name, 1, "only a header; expected a row for each interval");
    }
    Ok(rows.into())
}

fn loss_row(
    name: &str,
    line: usize,
    text: &str,
    columns: [usize; 4],
    last_ns: u64,
) -> Result<(u64, u32), PathError> {
    if text.is_empty() {
        return fail(name, line, "empty line");
    }
    let cells: Vec<&str> = text.split(',').map(str::trim).collect();
    let cell = |i: usize| match cells.get(columns[i]) {
        Some(cell) => Ok(*cell),
        None => fail(name, line, format!("only {} columns", cells.len())),
    };
    let time = |i: usize| match nanoseconds(cell(i)?) {
        Some(ns) if ns <= MAX_NS => Ok(ns),
        _ => fail(name, line, format!("`{}` is not a time in seconds below one day", short(cell(i)?))),
    };
    let count = |i: usize| match cell(i)?.parse::<u32>() {
        Ok(n) => Ok(u64::from(n)),
        Err(_) => fail(name, line, format!("`{}` is not a number of packets", short(cell(i)?))),
    };
    let (start_ns, end_ns, lost, sent) = (time(0)?, time(1)?, count(2)?, count(3)?);
    if start_ns < last_ns || end_ns <= start_ns {
        let reason = "goes backwards; intervals must follow each other";
        return fail(name, line, format!("the interval {} to {} {reason}", cell(0)?, cell(1)?));
    }
    if lost > sent {
        return fail(name, line, format!("{lost} packets lost of {sent} sent"));
    }
    Ok((end_ns, (lost * BILLION).checked_div(sent).unwrap_or(0) as u32))
}

/// Reads decimal seconds with at most nine decimals, in nanoseconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    format!("{whole}{fraction:0<9}").parse().ok()
}

/// The lines with their numbers. The line end of the last one makes no further line.
fn lines<'a>(name: &str, text: &'a str) -> Result<Vec<(usize, &'a str)>, PathError> {
    let all: Vec<(usize, &str)> = text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())).collect();
    if all.len() > MAX_LINES {
        return fail(name, MAX_LINES + 1, format!("more than {MAX_LINES} lines"));
    }
    Ok(all)
}

/// The first characters of a cell, for an error message.
fn short(text: &str) -> String {
    text.chars().take(20).collect()
}

fn fail<T>(name: &str, line: usize, reason: impl Into<String>) -> Result<T, PathError> {
    Err(PathError { word: name.to_string(), at: 0, line: Some(line), reason: reason.into() })
}
