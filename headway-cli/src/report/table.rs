//! The run as tables for programs: `results.csv` and `results.json`.

use super::findings::{Comparison, Findings};
use super::front::{Front, Point};
use super::mean::Mean;
use super::run::{Run, RunCell};
use super::words;
use crate::metric::METRICS;
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
        "front": findings.front.as_ref().map(|front| front_json(run, front)),
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

fn front_json(run: &Run, front: &Front) -> Value {
    let point = |p: &Point| {
        json!({
            "candidate": p.cc,
            "is_on_front": p.is_on_front,
            "goodput": mean_json(run, &p.goodput),
            "delay": mean_json(run, &p.delay),
        })
    };
    json!({
        "delay": front.delay.name,
        "baseline_is_on_front": front.has_baseline,
        "candidates": front.points.iter().map(point).collect::<Vec<_>>(),
        "without_place": front.without_place,
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
