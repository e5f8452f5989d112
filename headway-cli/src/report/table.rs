//! The run as text: `results.csv`, `results.json` and the table on stdout; how numbers are written.

use super::{Comparison, Findings, NOT_RUN, Run, RunCell, Scale};
use crate::metric::{METRICS, Metric, Unit};
use crate::stats::MIN_BLOCKS;
use serde_json::{Map, Value, json};
use std::ops::Range;

/// One row a cell: path, cc, streams, block, seed, place, status, then the metrics; a missing value is empty.
pub fn csv(run: &Run) -> String {
    let names: Vec<&str> = METRICS.iter().map(|m| m.name).collect();
    let mut text = format!("path,cc,streams,block,seed,place,status,{}\n", names.join(","));
    for cell in &run.cells {
        let c = &cell.cell;
        let mut row = vec![
            quoted(&run.plan.paths[c.path].name),
            quoted(c.cc.as_str()),
            run.plan.traffic(c.path).streams.to_string(),
            c.block.to_string(),
            c.seed.to_string(),
            quoted(&run.place()),
            quoted(cell.status()),
        ];
        row.extend(cell.values.iter().map(|v| v.as_ref().map_or(String::new(), |v| v.to_string())));
        text.push_str(&row.join(","));
        text.push('\n');
    }
    text
}

/// The same rows with the reasons for what is missing, and the comparisons.
pub fn json(run: &Run, findings: &Findings) -> anyhow::Result<String> {
    let value = json!({
        "layout": run.plan.layout,
        "baseline": run.baseline(),
        "paths": run.plan.paths.iter().map(|p| json!({"name": p.name, "text": p.text})).collect::<Vec<_>>(),
        "kernels": run.kernels(),
        "notes": findings.notes,
        "counts": findings.counts,
        "tails": findings.tails.iter().map(|t| t.json(run)).collect::<Vec<_>>(),
        "comparisons": findings.comparisons.iter().map(|c| comparison_json(run, c)).collect::<Vec<_>>(),
        "cells": run.cells.iter().map(|c| cell_json(run, c)).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn cell_json(run: &Run, cell: &RunCell) -> Value {
    let c = &cell.cell;
    let mut row = Map::new();
    let mut put = |key: &str, value: Value| row.insert(key.into(), value);
    put("path", json!(run.plan.paths[c.path].name));
    put("cc", json!(c.cc));
    put("streams", json!(run.plan.traffic(c.path).streams));
    put("block", json!(c.block));
    put("seed", json!(c.seed));
    put("place", json!(run.place()));
    put("status", json!(cell.status()));
    let mut missing = Map::new();
    for (metric, value) in METRICS.iter().zip(&cell.values) {
        put(metric.name, json!(value.as_ref().ok()));
        if let Err(reason) = value {
            missing.insert(metric.name.into(), json!(reason));
        }
    }
    put("missing", Value::Object(missing));
    Value::Object(row)
}

/// JSON knows no infinity: an open end of an interval is null.
fn comparison_json(run: &Run, c: &Comparison) -> Value {
    let shift = &c.improvement;
    json!({
        "path": run.plan.paths[c.path].name,
        "metric": c.metric.name,
        "baseline": run.baseline(),
        "candidate": c.candidate,
        "n": shift.n,
        "baseline_spread": c.baseline_spread,
        "candidate_spread": c.candidate_spread,
        "difference": c.difference(),
        "scale": c.scale,
        "improvement": shift.center,
        "low": shift.low,
        "high": shift.high,
        "low90": shift.low90,
        "high90": shift.high90,
        "p": shift.p,
        "p_family": c.p_family,
        "noise": c.noise,
        "margin": c.margin,
        "verdict": c.verdict.map(|v| v.word()),
    })
}

/// The comparison in aligned columns, then the counts and the notes.
pub fn text(run: &Run, findings: &Findings, printed: impl Fn(&Metric) -> bool) -> String {
    let mut rows = vec![COLUMNS.map(String::from).to_vec()];
    rows.extend(findings.comparisons.iter().filter(|c| printed(c.metric)).map(|c| row(run, c)));
    let mut text = aligned(&rows, 3..9) + "\n";
    for c in &findings.counts {
        let not_run = match c.planned - c.attempted {
            0 => String::new(),
            n => format!(", {n} not run"),
        };
        text += &format!("{}: {} of {} cells ok, {} excluded{not_run}\n", c.cc, c.ok, c.planned, c.excluded);
    }
    for cell in run.cells.iter().filter(|c| c.excluded.is_some() && c.status() != NOT_RUN) {
        let (index, path) = (cell.cell.index, &run.plan.paths[cell.cell.path].name);
        text += &format!("excluded: cell {index:03} ({} on {path}): {}\n", cell.cell.cc, cell.status());
    }
    for (cell, data) in run.cells.iter().filter_map(|c| Some((c, c.data.as_ref()?))) {
        for (number, why) in data.result.attempts.iter().enumerate() {
            text += &format!("tried again: cell {:03}, attempt {}: {why}\n", cell.cell.index, number + 1);
        }
    }
    findings.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    text
}

const COLUMNS: [&str; 11] = [
    "path",
    "metric",
    "candidate vs baseline",
    "baseline",
    "candidate",
    "difference",
    "improvement",
    "95 % interval",
    "A/A noise",
    "verdict",
    "n",
];

fn row(run: &Run, c: &Comparison) -> Vec<String> {
    vec![
        run.plan.paths[c.path].name.clone(),
        c.metric.name.to_string(),
        format!("{} vs {}", c.candidate, run.baseline()),
        c.baseline_spread.show(c.metric.unit),
        c.candidate_spread.show(c.metric.unit),
        c.difference_text(),
        c.improvement_text(),
        c.interval_text(),
        c.noise_text(),
        c.verdict.map_or("-", |v| v.word()).to_string(),
        c.improvement.n.to_string(),
    ]
}

/// Columns padded to their widest word; those in `right` are set flush right.
pub fn aligned(rows: &[Vec<String>], right: Range<usize>) -> String {
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (word, width))| {
            if right.contains(&column) { format!("{word:>width$}") } else { format!("{word:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

impl Comparison {
    /// Candidate minus baseline, medians, in the metric's own unit.
    pub fn difference(&self) -> f64 {
        self.candidate_spread.median - self.baseline_spread.median
    }

    /// As fine as the values it is between.
    pub fn difference_text(&self) -> String {
        let factor = self.metric.unit.factor;
        let coarsest = self.baseline_spread.median.max(self.candidate_spread.median) * factor;
        let text = format!("{:+.1$}", self.difference() * factor, digits(coarsest));
        let zero = text.trim_start_matches(['+', '-']).chars().all(|c| matches!(c, '0' | '.'));
        format!("{} {}", if zero { "0.0" } else { &text }, self.amount_word()).trim_end().to_string()
    }

    pub fn improvement_text(&self) -> String {
        self.scaled(self.improvement.center)
    }

    pub fn interval_text(&self) -> String {
        let s = &self.improvement;
        if s.n < MIN_BLOCKS { "-".into() } else { format!("{} .. {}", self.bare(s.low), self.scaled(s.high)) }
    }

    /// What noise alone shows in 95 of 100 comparisons.
    pub fn noise_text(&self) -> String {
        self.noise.map_or("-".into(), |noise| format!("±{}", self.scaled(noise).trim_start_matches('+')))
    }

    /// A value on the comparison's scale, with its unit.
    pub fn scaled(&self, value: f64) -> String {
        match self.scale {
            Scale::Ratio => percent(value) + " %",
            Scale::Difference => self.amount(value),
        }
    }

    fn bare(&self, value: f64) -> String {
        match self.scale {
            Scale::Ratio => percent(value),
            Scale::Difference => signed(value * self.metric.unit.factor),
        }
    }

    fn amount(&self, value: f64) -> String {
        format!("{} {}", signed(value * self.metric.unit.factor), self.amount_word()).trim_end().to_string()
    }

    /// Unit of a difference; that of two percentages is in points.
    fn amount_word(&self) -> &'static str {
        if self.metric.unit.word == "%" { "pp" } else { self.metric.unit.word }
    }
}

impl Unit {
    /// A value as people read it, with its unit.
    pub fn show(&self, value: f64) -> String {
        format!("{} {}", number(value * self.factor), self.word).trim_end().to_string()
    }
}

/// About three significant digits, every digit of the integer part, no exponent.
pub fn number(x: f64) -> String {
    if x.abs() < 0.00005 { "0".into() } else { format!("{x:.0$}", digits(x)) }
}

fn digits(x: f64) -> usize {
    match x.abs() {
        a if a < 0.01 => 4,
        a if a < 0.1 => 3,
        a if a < 10.0 => 2,
        a if a < 1000.0 => 1,
        _ => 0,
    }
}

/// A difference, with its sign.
pub fn signed(x: f64) -> String {
    let text = number(x);
    match text.as_str() {
        "0" => "0.0".into(),
        _ if x > 0.0 => format!("+{text}"),
        _ => text,
    }
}

/// A share as a signed percentage: a tenth of a percent is as fine as any claim gets.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        x if x.abs() < 0.05 => "0.0".into(),
        x if x.abs() < 100.0 => format!("{x:+.1}"),
        x => format!("{x:+.0}"),
    }
}

/// A word of a CSV line.
pub fn quoted(word: &str) -> String {
    match word.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", word.replace('"', "\"\"")),
        false => word.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_whole() {
        assert_eq!(
            [0.0, 0.00004, 0.0012, 0.034, 0.5, 9.123, 46.07, 123_456.0].map(number).join(" "),
            "0 0 0.0012 0.034 0.50 9.12 46.1 123456"
        );
        assert_eq!([0.0, 1.5, -1.5].map(signed), ["0.0", "+1.50", "-1.50"]);
        assert_eq!([0.0004, -0.0004, 0.05, -5.0].map(percent), ["0.0", "0.0", "+5.0", "-500"]);
    }

    #[test]
    fn a_word_with_a_comma_is_quoted() {
        assert_eq!(quoted("plain text"), "plain text");
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}
