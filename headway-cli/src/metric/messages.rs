//! What the message flow beside the load felt: the delay that players of a game or callers would notice.
//!
//! All figures are over the messages due after the warm-up. Percentiles are of those that arrived. A lost message
//! counts in the loss and as longer than any limit, because its receiver waits for it in vain.

use super::{CellData, NOT_ASKED, percentile};
use crate::raw::messages::Sent;

pub fn delay_us(cell: &CellData, q: f64) -> Result<f64, String> {
    percentile(&delays_us(&due(cell)?), q, "messages that arrived")
}

pub fn worst_us(cell: &CellData) -> Result<f64, String> {
    delays_us(&due(cell)?).into_iter().reduce(f64::max).ok_or_else(|| "no message arrived".into())
}

/// Seconds in which messages took longer than the limit: each message stands for the time until the next one.
pub fn over_s(cell: &CellData, limit_us: i64) -> Result<f64, String> {
    let due = due(cell)?;
    let per_second = cell.result.traffic.messages.map_or(1, |m| m.per_second);
    let over = due.iter().filter(|m| m.delay_us.is_none_or(|us| us > limit_us)).count();
    Ok(over as f64 / f64::from(per_second))
}

pub fn loss(cell: &CellData) -> Result<f64, String> {
    let due = due(cell)?;
    Ok(due.iter().filter(|m| m.delay_us.is_none()).count() as f64 / due.len() as f64)
}

fn due(cell: &CellData) -> Result<Vec<&Sent>, String> {
    if cell.result.traffic.messages.is_none() {
        return Err(format!("{NOT_ASKED}no message flow (--messages)"));
    }
    let due: Vec<&Sent> = cell.messages.iter().filter(|m| cell.window_us().contains(&m.due_us)).collect();
    if due.is_empty() { Err("no messages after the warm-up".into()) } else { Ok(due) }
}

fn delays_us(due: &[&Sent]) -> Vec<f64> {
    due.iter().filter_map(|m| m.delay_us).map(|us| us as f64).collect()
}
