//! flent's data files (version 4): one `.flent.gz` for each cell, which flent opens, plots and combines; and theirs,
//! read.
//!
//! A cell becomes flent's test `tcp_nup`: uploads with a ping beside them. flent's tests idle for five seconds before
//! and after the load, and its box plots cut these off, so the load starts at 5 s here too. A cell has no wall-clock
//! time, but flent wants one; all start at one fixed moment.

use super::reading::{ForeignRun, Rtt};
use crate::metric::CellData;
use crate::plan::traffic::MOST_STREAMS;
use crate::raw::load::Interval;
use crate::sys::program::pipe_through;
use anyhow::{Result, anyhow, ensure};
use serde_json::{Map, Value, json};

/// Seconds that flent leaves idle at both ends of a test.
const DELAY_S: f64 = 5.0;
const STEP_US: i64 = 100_000;
/// The moment at which every exported test starts.
const START: &str = "2020-01-01T00:00:00.000000Z";
const START_EPOCH_S: f64 = 1_577_836_800.0;

pub const END: &str = ".flent.gz";

/// A cell as a compressed data file of flent.
pub fn file(data: &CellData) -> Result<Vec<u8>> {
    // `-n` leaves out name and time, so that the same cell gives the same bytes.
    pipe_through("gzip", &["-9nc"], text(data)?.as_bytes())
}

/// What is compressed in it.
pub fn text(data: &CellData) -> Result<String> {
    Ok(serde_json::to_string(&value(data)?)?)
}

fn value(data: &CellData) -> Result<Value> {
    let flows = flows(data)?;
    let seconds = data.result.traffic.seconds;
    let bins = Bins::new(seconds);
    let mut results = Map::new();
    let mut raw = Map::new();
    let mut meta = Map::new();
    let names: Vec<String> = (1..=flows.len()).map(|i| format!("TCP upload::{i}")).collect();
    let rates: Vec<Vec<Option<f64>>> = flows.iter().map(|f| bins.spread(&f.received, f.stream)).collect();
    for ((name, flow), rate) in names.iter().zip(&flows).zip(&rates) {
        results.insert(name.clone(), json!(rate));
        raw.insert(name.clone(), Value::Array(flow.raw()));
        meta.insert(name.clone(), json!({ "UNITS": "Mbits/s", "CONG_CONTROL": flow.cc }));
    }
    for (name, of) in AGGREGATES {
        let at = |bin: usize| {
            let here: Vec<f64> = rates.iter().filter_map(|rate| rate[bin]).collect();
            (!here.is_empty()).then(|| of(&here))
        };
        results.insert(name.into(), json!((0..bins.count).map(at).collect::<Vec<_>>()));
        meta.insert(
            name.into(),
            json!({ "UNITS": if name.ends_with("fairness") { "Idx" } else { "Mbits/s" } }),
        );
    }
    let pings = pings(data);
    results.insert(PING.into(), json!(bins.mean(&pings)));
    raw.insert(
        PING.into(),
        pings.iter().map(|(s, ms)| json!({ "t": START_EPOCH_S + s, "val": ms })).collect(),
    );
    meta.insert(PING.into(), json!({ "UNITS": "ms" }));
    let r = &data.result;
    Ok(json!({
        "version": 4,
        "x_values": (0..bins.count).map(|bin| bin as f64 * STEP_US as f64 / 1e6).collect::<Vec<_>>(),
        "results": results,
        "raw_values": raw,
        "metadata": {
            "NAME": "tcp_nup",
            "TITLE": format!("{} on {}, block {}", r.cell.cc, r.path.name, r.cell.block + 1),
            "NOTE": format!("headway, {}, {}, seed {}", r.place, r.path.text, r.cell.seed),
            "HOST": r.path.name, "HOSTS": [r.path.name], "LOCAL_HOST": "headway",
            "TIME": START, "T0": START, "BATCH_TIME": null, "IP_VERSION": 4,
            "LENGTH": seconds, "TOTAL_LENGTH": f64::from(seconds) + 2.0 * DELAY_S,
            "STEP_SIZE": STEP_US as f64 / 1e6,
            "TEST_PARAMETERS": { "upload_streams": flows.len(), "tcp_cong_control": r.cell.cc },
            "SERIES_META": meta,
        },
    }))
}

const PING: &str = "Ping (ms) ICMP";

/// A series that flent computes from all uploads: its name, and how its value follows from theirs.
type Aggregate = (&'static str, fn(&[f64]) -> f64);

const AGGREGATES: [Aggregate; 3] = [
    ("TCP upload sum", |rates| rates.iter().sum()),
    ("TCP upload avg", |rates| rates.iter().sum::<f64>() / rates.len() as f64),
    ("TCP upload fairness", |rates| crate::stats::jain(rates).unwrap_or(1.0)),
];

/// Reads a data file of flent: its uploads, or its downloads where there are none. `cc` is the controller where the
/// file names none.
pub fn run(value: &Value, cc: &str) -> Result<ForeignRun, String> {
    let results = value["results"].as_object().ok_or("the flent file has no results")?;
    let streams = ["TCP upload", "TCP download"].iter().find_map(|way| {
        let is_one = |name: &str| name == *way || name.strip_prefix(way).is_some_and(is_number_of_a_stream);
        let found: Vec<(&String, &Value)> = results.iter().filter(|(name, _)| is_one(name)).collect();
        (!found.is_empty()).then_some(found)
    });
    let streams = streams.ok_or("the flent file has no `TCP upload` or `TCP download`")?;
    let length = value["x_values"].as_array().map_or(0, Vec::len);
    let at = |x: usize| streams.iter().filter_map(|(_, y)| y[x].as_f64()).reduce(|a, b| a + b);
    let rates: Vec<f64> = (0..length).filter_map(at).collect();
    if rates.is_empty() {
        return Err("the flent file's streams carried nothing".into());
    }
    let meta = &value["metadata"];
    let named =
        [&meta["SERIES_META"][streams[0].0]["CONG_CONTROL"], &meta["TEST_PARAMETERS"]["tcp_cong_control"]];
    let cc = named.into_iter().find_map(Value::as_str).filter(|name| !name.is_empty()).unwrap_or(cc);
    if cc.is_empty() {
        return Err("it names no controller (give one with --cc)".into());
    }
    let ping = |rows: &Value, of: fn(&Value) -> Option<f64>| -> Vec<f64> {
        rows.as_array().into_iter().flatten().filter_map(of).collect()
    };
    let raw = ping(&value["raw_values"][PING], |row| row["val"].as_f64());
    let pings = if raw.is_empty() {
        ping(&results.get(PING).cloned().unwrap_or_default(), Value::as_f64)
    } else {
        raw
    };
    Ok(ForeignRun {
        kind: "flent",
        host: meta["HOST"].as_str().unwrap_or_default().into(),
        streams: Some(streams.len() as u64),
        cc: cc.into(),
        seconds: meta["LENGTH"].as_f64(),
        goodput_bps: Some(rates.iter().sum::<f64>() / rates.len() as f64 * 1e6),
        rtt: Rtt::of(&pings, None),
        ..ForeignRun::default()
    })
}

/// Whether a series is one stream: `::3`, or ` BE::1` as in the rrul tests, but not ` sum`, ` avg` or ` fairness`.
fn is_number_of_a_stream(end: &str) -> bool {
    end.rsplit_once("::").is_some_and(|(_, n)| n.parse::<u32>().is_ok())
}

/// One stream of the load or of its rival.
struct Flow {
    cc: String,
    stream: usize,
    /// Intervals and their start on the cell's clock.
    received: Vec<(i64, Interval)>,
    sent: Vec<(i64, Interval)>,
}

fn flows(data: &CellData) -> Result<Vec<Flow>> {
    let ours = (data.result.cell.cc.to_string(), &data.load);
    let tested = data.result.cell.cc.controller();
    let rival = data.result.traffic.against.as_ref().map(|r| r.controller(tested).to_string());
    let rival = rival.zip(data.rival.as_ref());
    let mut flows = Vec::new();
    for (cc, load) in std::iter::once(ours).chain(rival) {
        let load = load.as_ref().map_err(|e| anyhow!("{e}"))?;
        let placed = |list: &[Interval]| -> Vec<(i64, Interval)> {
            list.iter().map(|i| (data.span_us(i).start, i.clone())).collect()
        };
        // Where the server's intervals are missing: what the client handed to its sockets.
        let received = if load.received.is_empty() { &load.sent } else { &load.received };
        let streams = received.first().map_or(0, |i| i.stream_bytes.len());
        ensure!(streams <= MOST_STREAMS, "its load has {streams} streams");
        flows.extend((0..streams).map(|stream| Flow {
            cc: cc.clone(),
            stream,
            received: placed(received),
            sent: placed(&load.sent),
        }));
    }
    if flows.is_empty() { Err(anyhow!("its load has no intervals")) } else { Ok(flows) }
}

impl Flow {
    /// flent's raw values: the rate of each interval in Mbit/s, and the sender's smoothed RTT in ms where it is known.
    fn raw(&self) -> Vec<Value> {
        let at = |us: i64| START_EPOCH_S + DELAY_S + us as f64 / 1e6;
        let rates = self.received.iter().map(|(start, i)| {
            let us = (i.to_us - i.from_us).max(1) as f64;
            let bytes = i.stream_bytes.get(self.stream).copied().unwrap_or(0);
            json!({ "t": at(*start) + us / 1e6, "val": bytes as f64 * 8.0 / us, "dur": us / 1e6 })
        });
        let rtts = self.sent.iter().filter_map(|(start, i)| {
            let rtt_us = *i.srtt_us.get(self.stream)?;
            let end = at(*start) + (i.to_us - i.from_us) as f64 / 1e6;
            Some(json!({ "t": end, "tcp_rtt": rtt_us as f64 / 1e3 }))
        });
        let mut rows: Vec<Value> = rates.chain(rtts).collect();
        rows.sort_by(|a, b| a["t"].as_f64().unwrap_or(0.0).total_cmp(&b["t"].as_f64().unwrap_or(0.0)));
        rows
    }
}

/// The answered probes within flent's test: seconds since its start, and RTT in milliseconds.
fn pings(data: &CellData) -> Vec<(f64, f64)> {
    let placed = |sent_us: i64, rtt_us: f64| (DELAY_S + sent_us as f64 / 1e6, rtt_us / 1e3);
    let all = data.probes.iter().filter_map(|p| Some(placed(p.sent_us, p.rtt_us? as f64)));
    all.filter(|(s, _)| *s >= 0.0).collect()
}

/// The time axis that all series of a data file share.
struct Bins {
    count: usize,
}

impl Bins {
    fn new(seconds: u32) -> Self {
        Self { count: ((f64::from(seconds) + 2.0 * DELAY_S) * 1e6 / STEP_US as f64) as usize + 1 }
    }

    /// Rate of a stream in Mbit/s, an interval's bytes shared out over the bins that it touches.
    fn spread(&self, intervals: &[(i64, Interval)], stream: usize) -> Vec<Option<f64>> {
        let mut rates: Vec<Option<f64>> = vec![None; self.count];
        for (start, interval) in intervals {
            let from = start + (DELAY_S * 1e6) as i64;
            let length = (interval.to_us - interval.from_us).max(1) as i64;
            let bytes = interval.stream_bytes.get(stream).copied().unwrap_or(0) as f64;
            let last = ((from + length - 1) / STEP_US).min(self.count as i64 - 1);
            for bin in (from / STEP_US).max(0)..=last {
                let overlap = (from + length).min((bin + 1) * STEP_US) - from.max(bin * STEP_US);
                if let Some(rate) = usize::try_from(bin).ok().and_then(|bin| rates.get_mut(bin)) {
                    let megabits = bytes * 8.0 * overlap as f64 / length as f64 / STEP_US as f64;
                    *rate = Some(rate.unwrap_or(0.0) + megabits);
                }
            }
        }
        rates
    }

    fn mean(&self, samples: &[(f64, f64)]) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0u32); self.count];
        for (s, value) in samples {
            if let Some(bin) = sums.get_mut((s * 1e6 / STEP_US as f64) as usize) {
                *bin = (bin.0 + value, bin.1 + 1);
            }
        }
        sums.into_iter().map(|(sum, n)| (n > 0).then(|| sum / f64::from(n))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::raw::folder::cell_dir;
    use crate::report::synthetic;
    use crate::sys::program::pipe_through;

    fn exported() -> (Value, CellData) {
        let folder = synthetic::run("flent", 1);
        let plan = Plan::read(&folder.dir).unwrap();
        let data =
            CellData::read(&cell_dir(&folder.dir, &plan.cells[0]), &plan.paths[plan.cells[0].path]).unwrap();
        let packed = file(&data).unwrap();
        assert_eq!(packed, file(&data).unwrap(), "the same bytes");
        let text = pipe_through("gzip", &["-dc"], &packed).unwrap();
        (serde_json::from_slice(&text).unwrap(), data)
    }

    #[test]
    fn every_series_is_as_long_as_the_axis_and_holds_what_arrived() {
        let (v, data) = exported();
        let x = v["x_values"].as_array().unwrap();
        assert_eq!(x.len(), 301, "20 s of load, 5 s before and after");
        for (name, series) in v["results"].as_object().unwrap() {
            assert_eq!(series.as_array().unwrap().len(), x.len(), "{name}");
            assert!(v["metadata"]["SERIES_META"][name]["UNITS"].is_string(), "{name}");
        }
        let sum = |name: &str| -> f64 {
            v["results"][name].as_array().unwrap().iter().filter_map(Value::as_f64).sum::<f64>()
        };
        let arrived: u64 = data.load.as_ref().unwrap().received.iter().map(Interval::bytes).sum();
        assert!((sum("TCP upload sum") * 0.1 * 1e6 / 8.0 / arrived as f64 - 1.0).abs() < 1e-9);
        let answered = data.probes.iter().filter(|p| p.rtt_us.is_some()).count();
        assert_eq!(v["raw_values"][PING].as_array().unwrap().len(), answered);
        let rtts = v["raw_values"]["TCP upload::1"].as_array().unwrap();
        assert!(rtts.iter().any(|row| row["tcp_rtt"].as_f64().is_some_and(|ms| ms > 10.0)));
        assert_eq!(v["metadata"]["TEST_PARAMETERS"]["upload_streams"], 1);
    }
}
