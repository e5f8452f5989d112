//! The run as text: `results.csv` and `results.json` for programs, and the table that is printed.

use super::findings::{Comparison, Findings};
use super::mean::Mean;
use super::run::{NOT_RUN, Run, RunCell};
use super::words::{self, aligned};
use crate::metric::{METRICS, Metric};
use serde_json::{Map, Value, json};

/// `results.csv`, one row a cell: path, cc, streams, block, seed, place, status, then the metrics; a missing value is
/// empty.
pub fn csv(run: &Run) -> String {
    let names = ["path", "cc", "streams", "block", "seed", "place", "status"].into_iter();
    let head = names.chain(METRICS.iter().map(|m| m.name)).map(String::from).collect();
    words::csv(std::iter::once(head).chain(run.cells.iter().map(|cell| csv_row(run, cell))))
}

fn csv_row(run: &Run, cell: &RunCell) -> Vec<String> {
    let c = &cell.cell;
    let mut row = vec![
        run.plan.paths[c.path].name.clone(),
        c.cc.to_string(),
        run.plan.traffic(c.path).streams.to_string(),
        c.block.to_string(),
        c.seed.to_string(),
        run.place(),
        cell.status().to_string(),
    ];
    row.extend(cell.values.iter().map(|v| v.as_ref().map_or(String::new(), |v| v.to_string())));
    row
}

/// `results.json`: the same rows with the reasons for missing values, and all that was found.
pub fn json(run: &Run, findings: &Findings) -> anyhow::Result<String> {
    let value = json!({
        "layout": run.plan.layout,
        "baseline": run.baseline(),
        "paths": run.plan.paths.iter().map(|p| json!({"name": p.name, "text": p.text})).collect::<Vec<_>>(),
        "kernels": run.kernels(),
        "answer": findings.answer.sentences,
        "means": findings.answer.means.iter().map(|m| mean_json(run, m)).collect::<Vec<_>>(),
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

/// One comparison. The open end of an interval becomes null, because JSON knows no infinity.
fn comparison_json(run: &Run, c: &Comparison) -> Value {
    let shift = &c.judged.improvement;
    json!({
        "path": run.plan.paths[c.path].name,
        "metric": c.metric.name,
        "baseline": run.baseline(),
        "candidate": c.candidate,
        "n": shift.n,
        "baseline_spread": c.judged.baseline_spread,
        "candidate_spread": c.judged.candidate_spread,
        "difference": c.difference(),
        "scale": c.judged.scale,
        "improvement": shift.center,
        "low": shift.low,
        "high": shift.high,
        "low90": shift.low90,
        "high90": shift.high90,
        "p": shift.p,
        "p_family": c.judged.p_family,
        "noise": c.judged.noise,
        "margin": c.judged.margin,
        "verdict": c.judged.verdict.map(|v| v.word()),
    })
}

fn mean_json(run: &Run, m: &Mean) -> Value {
    json!({
        "metric": m.metric.name,
        "baseline": run.baseline(),
        "candidate": m.candidate,
        "ratio": m.ratio,
        "low": m.interval.map(|(low, _)| low),
        "high": m.interval.map(|(_, high)| high),
        "over": m.over,
        "n": m.n,
        "paths": m.paths,
        "left_out": m.left_out,
    })
}

/// What is printed: the comparisons in aligned columns, then counts, exclusions, second attempts and notes.
pub fn text(run: &Run, findings: &Findings, printed: impl Fn(&Metric) -> bool) -> String {
    let said: String = findings.answer.sentences.iter().map(|s| format!("{s}\n")).collect();
    let mut rows = vec![COLUMNS.map(String::from).to_vec()];
    rows.extend(findings.comparisons.iter().filter(|c| printed(c.metric)).map(|c| row(run, c)));
    let mut text = said + "\n" + &aligned(&rows, 3..9) + "\n";
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
        c.judged.baseline_spread.show(c.metric.unit),
        c.judged.candidate_spread.show(c.metric.unit),
        c.difference_text(),
        c.improvement_text(),
        c.interval_text(),
        c.noise_text(),
        c.judged.verdict.map_or("-", |v| v.word()).to_string(),
        c.judged.improvement.n.to_string(),
    ]
}
