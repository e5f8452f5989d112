//! What is measured on a wire: echoes, requests, and what the load took of the machine.

use super::{CellData, NOT_ASKED, percentile};
use crate::plan::traffic::HostLoad;
use crate::raw::host::Host;
use crate::raw::requests::Times;

const NO_WIRE: &str = "hosts are measured on a wire";

/// Round trips of the echoes after the warm-up.
fn echoes_us(cell: &CellData) -> Result<Vec<f64>, String> {
    if cell.wire().is_none() {
        return Err(format!("{NOT_ASKED}{NO_WIRE}"));
    }
    let window = cell.window_us();
    let inside = cell.echoes.iter().filter(|echo| window.contains(&(echo.sent_ns / 1000)));
    let times: Vec<f64> = inside.filter_map(|echo| Some(echo.rtt_ns? as f64 / 1e3)).collect();
    if times.is_empty() { Err("no echo was answered".into()) } else { Ok(times) }
}

pub fn ping_mean_us(cell: &CellData) -> Result<f64, String> {
    let times = echoes_us(cell)?;
    Ok(times.iter().sum::<f64>() / times.len() as f64)
}

pub fn ping_us(cell: &CellData, q: f64) -> Result<f64, String> {
    percentile(&echoes_us(cell)?, q, "answered echoes")
}

fn requests(cell: &CellData) -> Result<&Times, String> {
    cell.requests.as_ref().ok_or_else(|| format!("{NOT_ASKED}no requests (--requests)"))
}

pub fn request_us(cell: &CellData, q: f64) -> Result<f64, String> {
    let times = requests(cell)?;
    let ns = times.quantile_ns(q).ok_or_else(|| format!("n too small: {} answers", times.answered()))?;
    Ok(ns as f64 / 1e3)
}

pub fn requests_per_s(cell: &CellData) -> Result<f64, String> {
    let window = cell.window_us();
    Ok(requests(cell)?.answered() as f64 * 1e6 / (window.end - window.start) as f64)
}

pub fn request_loss(cell: &CellData) -> Result<f64, String> {
    let times = requests(cell)?;
    Ok(times.lost as f64 / (times.lost + times.answered()).max(1) as f64)
}

pub fn flood_loss(cell: &CellData) -> Result<f64, String> {
    if !matches!(cell.result.traffic.host_load, Some(HostLoad::Flood { .. })) {
        return Err(format!("{NOT_ASKED}no flood (--flood)"));
    }
    let load = cell.load.as_ref().map_err(String::clone)?;
    Ok(1.0 - load.received_bytes as f64 / load.sent_bytes.max(1) as f64)
}

fn host(cell: &CellData) -> Result<Host, String> {
    cell.host.ok_or_else(|| format!("{NOT_ASKED}{NO_WIRE}"))
}

/// Busy time that somebody's data caused, which a CPU that is kept busy on purpose hides.
fn busy_ns(cell: &CellData) -> Result<f64, String> {
    let busy_ns = host(cell)?.busy_ns.ok_or("the kernel does not say how long it was idle")?;
    match cell.result.traffic.cpu_load_percent {
        0 => Ok(busy_ns as f64),
        _ => Err(format!("{NOT_ASKED}the CPUs were kept busy (--cpu-load)")),
    }
}

pub fn machine_s_per_gb(cell: &CellData) -> Result<f64, String> {
    let (busy_ns, load) = (busy_ns(cell)?, cell.load.as_ref().map_err(String::clone)?);
    match cell.result.traffic.host_load {
        Some(HostLoad::Requests(_)) => Err(format!("{NOT_ASKED}counted for each request")),
        _ if load.received_bytes == 0 => Err("nothing arrived".into()),
        _ => Ok(busy_ns / load.received_bytes as f64),
    }
}

/// The load counts answers from its start on, as the machine's time is counted.
pub fn machine_us_per_request(cell: &CellData) -> Result<f64, String> {
    requests(cell)?;
    let (busy_ns, load) = (busy_ns(cell)?, cell.load.as_ref().map_err(String::clone)?);
    let answered = load.received_bytes as f64 / load.mss_bytes.unwrap_or(64) as f64;
    if answered == 0.0 { Err("nothing was answered".into()) } else { Ok(busy_ns / 1e3 / answered) }
}

pub fn per_s(cell: &CellData, count: fn(&Host) -> Option<u64>) -> Result<f64, String> {
    let host = host(cell)?;
    let count = count(&host).ok_or("the kernel does not count it")?;
    Ok(count as f64 * 1e9 / host.wall_ns.max(1) as f64)
}

pub fn packets_per_poll(cell: &CellData) -> Result<f64, String> {
    let host = host(cell)?;
    match (host.packets, host.polls) {
        (_, Some(0)) => Err("there was no poll".into()),
        (Some(packets), Some(polls)) => Ok(packets as f64 / polls as f64),
        _ => Err("the kernel does not count polls".into()),
    }
}

pub fn softirq_share(cell: &CellData) -> Result<f64, String> {
    let host = host(cell)?;
    let softirq_ns = host.softirq_ns.ok_or("the kernel does not count it")?;
    Ok(softirq_ns as f64 / host.wall_ns.max(1) as f64)
}
