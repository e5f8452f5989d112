//! A run that another program made, as far as its file tells: what the readers of all formats return.
//!
//! iperf3's JSON is read here too, because it also stands inside other programs' results. `flent`, `ping` and
//! `pscheduler` read theirs; `import` finds out which of them a file is for.

use crate::raw::load::{self, Load};
use crate::stats;
use serde_json::Value;

/// A run that counts. What its file does not say is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForeignRun {
    pub kind: &'static str,
    pub host: String,
    pub streams: Option<u64>,
    /// Pacing of each stream in bit/s; 0 for none.
    pub pacing_bps: u64,
    pub cc: String,
    pub seconds: Option<f64>,
    pub goodput_bps: Option<f64>,
    pub retransmits: Option<u64>,
    pub rtt: Option<Rtt>,
}

/// Round-trip times of one run, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rtt {
    pub min_ms: f64,
    pub median_ms: f64,
    /// `None` where there are too few answers for it.
    pub p95_ms: Option<f64>,
    /// Share of the probes without an answer; `None` where the file does not count them.
    pub loss: Option<f64>,
}

/// Reads iperf3's JSON. Host, streams and pacing stand in the JSON of the test's start, which [`Load`] does not keep.
/// `cc` is the controller where the file names none.
pub fn iperf3(text: &str, cc: &str) -> Result<ForeignRun, String> {
    let text = load::unstreamed(text);
    let mut load = load::parse(&text)?;
    load.sender_cc = load.sender_cc.filter(|name| !name.is_empty()).or((!cc.is_empty()).then(|| cc.into()));
    let cc = load.sender_cc.clone().ok_or("it names no controller (give one with --cc)")?;
    load.judge(&cc)?;
    let value = json_in(&text).unwrap_or_default();
    let test = &value["start"]["test_start"];
    Ok(ForeignRun {
        kind: "iperf3",
        host: value["start"]["connecting_to"]["host"].as_str().unwrap_or_default().into(),
        streams: test["num_streams"].as_u64(),
        pacing_bps: test["fqrate"].as_u64().unwrap_or(0),
        cc,
        seconds: Some(load.received_us as f64 / 1e6),
        goodput_bps: Some(load.received_bytes as f64 * 8e6 / load.received_us.max(1) as f64),
        retransmits: load.retransmits,
        rtt: srtt(&load),
    })
}

/// The senders' smoothed RTT over all intervals.
fn srtt(load: &Load) -> Option<Rtt> {
    let ms: Vec<f64> = load.sent.iter().flat_map(|i| &i.srtt_us).map(|us| *us as f64 / 1e3).collect();
    Rtt::of(&ms, None)
}

impl Rtt {
    /// `None` where nothing was answered.
    pub fn of(answers_ms: &[f64], loss: Option<f64>) -> Option<Self> {
        Some(Self {
            min_ms: answers_ms.iter().copied().reduce(f64::min)?,
            median_ms: stats::median(answers_ms)?,
            p95_ms: stats::percentile(answers_ms, 0.95).ok(),
            loss,
        })
    }
}

/// The first JSON object in a text that has other text around it.
pub fn json_in(text: &str) -> Option<Value> {
    let starts = text.match_indices('{').map(|(at, _)| at).take(100);
    starts
        .filter_map(|at| serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>().next()?.ok())
        .find(|v| v.as_object().is_some_and(|o| !o.is_empty()))
}
