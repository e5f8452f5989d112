//! How streams share the path: Jain's index of what each got, and how long it takes until they share it fairly.

use super::{CellData, NOT_ASKED};
use crate::raw::load::Interval;
use crate::stats;

/// Jain's index from which on a share counts as fair.
const FAIR: f64 = 0.95;
/// For how many seconds in a row it must be: one may be chance.
const FAIR_S: usize = 5;

pub fn jain(cell: &CellData) -> Result<f64, String> {
    let totals = |intervals: &[&Interval]| {
        let streams = intervals.first().map_or(0, |i| i.stream_bytes.len());
        let total = |s: usize| intervals.iter().filter_map(|i| i.stream_bytes.get(s)).sum::<u64>() as f64;
        (0..streams).map(total).collect::<Vec<_>>()
    };
    let streams = [totals(&cell.received()?), totals(&cell.rival_received()?)].concat();
    if streams.len() < 2 {
        return Err(format!("{NOT_ASKED}needs two streams"));
    }
    stats::jain(&streams).ok_or_else(|| "nothing arrived".into())
}

/// From the start of the last stream to the first of five seconds in a row that are shared fairly.
pub fn time_to_fair_ms(cell: &CellData) -> Result<f64, String> {
    let traffic = &cell.result.traffic;
    if traffic.all_streams() < 2 || !traffic.pattern.is_bulk() || cell.wire().is_some() {
        return Err(format!("{NOT_ASKED}needs two streams that always send"));
    }
    let seconds = seconds_since_last_start(cell)?;
    if seconds.len() < FAIR_S {
        return Err(format!(
            "n too small: {} s after the last stream's start, {FAIR_S} needed",
            seconds.len()
        ));
    }
    let is_fair: Vec<bool> =
        seconds.iter().map(|bytes| stats::jain(bytes).is_some_and(|index| index >= FAIR)).collect();
    let first = is_fair.windows(FAIR_S).position(|five| five.iter().all(|fair| *fair));
    Ok(first.map_or_else(|| fair_ceiling_ms(cell), |second| second as f64 * 1000.0))
}

pub fn fair_ceiling_ms(cell: &CellData) -> f64 {
    (cell.load_us() - last_start_us(cell)).max(0) as f64 / 1000.0
}

fn last_start_us(cell: &CellData) -> i64 {
    cell.start_us() + cell.result.traffic.last_start_ms() as i64 * 1000
}

/// What each stream got in each whole second from the last start on, those of a rival after ours.
fn seconds_since_last_start(cell: &CellData) -> Result<Vec<Vec<f64>>, String> {
    let from_us = last_start_us(cell);
    let length = ((cell.load_us() - from_us).max(0) / 1_000_000) as usize;
    let mut seconds = vec![Vec::new(); length];
    for load in [Some(&cell.load), cell.rival.as_ref()].into_iter().flatten() {
        let received = CellData::short_intervals(load)?;
        let streams = received[0].stream_bytes.len();
        let before = seconds.first().map_or(0, Vec::len);
        seconds.iter_mut().for_each(|second: &mut Vec<f64>| second.resize(before + streams, 0.0));
        for interval in received {
            let span = cell.span_us(interval);
            let since_us = (span.start + span.end) / 2 - from_us;
            let second =
                usize::try_from(since_us.div_euclid(1_000_000)).ok().and_then(|s| seconds.get_mut(s));
            let Some(second) = second else { continue };
            for (sum, bytes) in second[before..].iter_mut().zip(&interval.stream_bytes) {
                *sum += *bytes as f64;
            }
        }
    }
    Ok(seconds)
}
