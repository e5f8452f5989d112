//! What happened when the path's rate fell and when it came back, and how long it took to use the path.
//!
//! A run that never reached 90 % of the rate still has a value: all the time that it had, which is a lower bound. If
//! it had none it would drop out of the comparison, and a controller would profit from its worst runs.
//! [`Metric::ceiling`](super::Metric::ceiling) tells such values from the others.

use super::{CellData, NOT_ASKED, percentile};
use headway_cc::path::RateDrop;
use std::ops::Range;

/// The time after a drop that its metrics cover: 10 s.
const AFTER_US: i64 = 10_000_000;
/// How long 90 % of the old rate must be held to count as regained: 1 s. The queue that the drop has left fills the
/// path for a moment whatever the sender does, and would otherwise count as recovery.
const HELD_US: i64 = 1_000_000;

pub fn queue_delay_us(cell: &CellData, q: f64) -> Result<f64, String> {
    let window = after_drop_us(cell)?;
    let inside = cell.probes.iter().filter(|p| window.contains(&p.sent_us));
    let delays: Vec<f64> = inside.filter_map(|p| cell.queue_delay(p)).collect();
    percentile(&delays, q, "answered probes after the drop")
}

pub fn utilisation(cell: &CellData) -> Result<f64, String> {
    let window = after_drop_us(cell)?;
    let ours = cell.received_in(&cell.load, &window)?;
    let rivals = cell.rival.as_ref().map_or(Ok(Vec::new()), |load| cell.received_in(load, &window))?;
    let span = cell.span_us(ours[0]).start..cell.span_us(ours[ours.len() - 1]).end;
    let capacity = cell.capacity_bits(span).ok_or("the path's rate is not known")?;
    let bits: u64 = ours.iter().chain(&rivals).map(|i| i.bytes() * 8).sum();
    Ok(bits as f64 / (capacity * cell.payload_share()))
}

pub fn time_to_90_ms(cell: &CellData) -> Result<f64, String> {
    let start_us = cell.start_us();
    Ok(time_to_90_us(cell, start_us, 0)?.map_or_else(|| start_ceiling_ms(cell), |us| us as f64 / 1000.0))
}

pub fn start_ceiling_ms(cell: &CellData) -> f64 {
    (cell.load_us() - cell.start_us()) as f64 / 1000.0
}

pub fn recovery_to_90_ms(cell: &CellData) -> Result<f64, String> {
    let back_us = back_us(cell)?;
    Ok(time_to_90_us(cell, back_us, HELD_US)?
        .map_or_else(|| recovery_ceiling_ms(cell), |us| us as f64 / 1000.0))
}

pub fn recovery_ceiling_ms(cell: &CellData) -> f64 {
    back_us(cell).map_or(f64::INFINITY, |us| (cell.load_us() - us) as f64 / 1000.0)
}

/// The time from `from_us` until the path is used: the end of the first interval of the receiver that begins a span
/// of at least `held_us` in which 90 % of what the path can carry arrives. `None` when no such span comes before the
/// end.
fn time_to_90_us(cell: &CellData, from_us: i64, held_us: i64) -> Result<Option<i64>, String> {
    let traffic = &cell.result.traffic;
    if !traffic.pattern.is_bulk() || traffic.against.is_some() {
        return Err(format!("{NOT_ASKED}the load is not meant to fill the path alone"));
    }
    let received = CellData::short_intervals(&cell.load)?;
    cell.capacity_bits(from_us..cell.load_us()).ok_or("the path's rate is not known")?;
    let spans: Vec<(Range<i64>, u64)> = received.iter().map(|i| (cell.span_us(i), 8 * i.bytes())).collect();
    let inside = |(span, _): &&(Range<i64>, u64)| span.start >= from_us && span.end <= cell.load_us();
    let spans: Vec<&(Range<i64>, u64)> = spans.iter().filter(inside).collect();
    for (n, (first, _)) in spans.iter().enumerate() {
        let Some(length) = spans[n..].iter().position(|(span, _)| span.end - first.start >= held_us) else {
            break;
        };
        let bits: u64 = spans[n..=n + length].iter().map(|(_, bits)| bits).sum();
        let capacity = cell.capacity_bits(first.start..spans[n + length].0.end);
        if capacity.is_some_and(|capacity| bits as f64 >= 0.9 * capacity * cell.payload_share()) {
            return Ok(Some(first.end - from_us));
        }
    }
    Ok(None)
}

fn rate_drop(cell: &CellData) -> Result<RateDrop, String> {
    let drop = cell.path().and_then(|path| path.rate_drop());
    let inside = drop.filter(|d| (d.at_ns as i64 / 1000) < cell.load_us());
    inside.ok_or_else(|| format!("{NOT_ASKED}the path has no drop of its rate"))
}

fn after_drop_us(cell: &CellData) -> Result<Range<i64>, String> {
    let at_us = rate_drop(cell)?.at_ns as i64 / 1000;
    Ok(at_us..(at_us + AFTER_US).min(cell.load_us()))
}

fn back_us(cell: &CellData) -> Result<i64, String> {
    let back_us = rate_drop(cell)?.back_ns.map(|ns| ns as i64 / 1000);
    let inside = back_us.filter(|us| *us < cell.load_us());
    inside.ok_or_else(|| format!("{NOT_ASKED}the path's rate does not come back"))
}
