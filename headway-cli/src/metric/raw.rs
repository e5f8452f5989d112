//! A cell's raw folder, parsed.

use crate::metric::NOT_ASKED;
use crate::plan::PathEntry;
use crate::plan::traffic::HostLoad;
use crate::plan::wire::Wire;
use crate::raw::cell::{self, CellResult};
use crate::raw::host::{self, Host};
use crate::raw::link;
use crate::raw::load::{self, Interval, Load};
use crate::raw::messages::{self, Sent};
use crate::raw::ping::{self, Echo};
use crate::raw::probe::{self, Probe};
use crate::raw::requests::{self, Times};
use crate::sys::file::{read_plain, read_plain_text};
use headway_cc::messages::HEADER_BYTES as MESSAGE_HEADER_BYTES;
use headway_cc::path::Path;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path as FilePath;

/// A cell's raw folder, parsed. What a tool failed to deliver is kept as the reason why it is missing.
#[derive(Debug)]
pub struct CellData {
    pub result: CellResult,
    pub load: Result<Load, String>,
    /// The load of the rival; `None` where nobody competed.
    pub rival: Option<Result<Load, String>>,
    pub probes: Vec<Probe>,
    pub down: Vec<link::Bin>,
    pub up: Vec<link::Bin>,
    /// In the order of their schedule; empty where there were none.
    pub messages: Vec<Sent>,
    /// The echoes over a wire; empty elsewhere.
    pub echoes: Vec<Echo>,
    /// How long requests over a wire took; `None` where there were none.
    pub requests: Option<Times>,
    /// What the load took of the machine, on a wire.
    pub host: Option<Host>,
    path: Option<Path>,
    /// When the first data reached the bottleneck: the zero of the load generator's own clock.
    data_start_us: i64,
}

impl CellData {
    /// Reads `cells/NNN`. Of a cell that is not `ok` only `cell.json` must be there and readable; of one that is, every
    /// file that its place writes must be there and whole, because a metric of half a file looks like any other. The
    /// error is one sentence. `path` is the plan's, which holds the trace files that the path names.
    pub fn read(dir: &FilePath, path: &PathEntry) -> Result<Self, String> {
        let file = |name: &str| match read_plain_text(&dir.join(name)) {
            Err(e) if e.kind() == ErrorKind::NotFound => Err(format!("{name} is missing")),
            Err(e) => Err(format!("{name}: {e}")),
            Ok(text) => Ok(text),
        };
        let result = cell::parse(&file("cell.json")?)?;
        let load = match result.traffic.host_load {
            Some(HostLoad::Idle) => Err(format!("{NOT_ASKED}nobody sent (--idle)")),
            _ => file("load.json").and_then(|text| load::parse(&text)),
        };
        let rival = result.traffic.against.as_ref();
        let rival = rival.map(|_| file("rival.json").and_then(|text| load::parse(&text)));
        let optional = |name: &str| if dir.join(name).exists() { file(name) } else { Ok(String::new()) };
        let probes = probe::parse(&optional("probe.txt")?).map_err(|e| format!("{DAMAGED}probe.txt: {e}"))?;
        let [down, up] =
            link::parse(&optional("link.txt")?).map_err(|e| format!("{DAMAGED}link.txt: {e}"))?;
        let messages =
            messages::parse(&optional("messages.txt")?).map_err(|e| format!("{DAMAGED}messages.txt: {e}"))?;
        let damaged = |name: &'static str| move |e: String| format!("{DAMAGED}{name}: {e}");
        let echoes = ping::parse(&optional("ping.txt")?).map_err(damaged("ping.txt"))?;
        let requests = match optional("requests.txt")? {
            text if text.is_empty() => None,
            text => Some(requests::parse(&text).map_err(damaged("requests.txt"))?),
        };
        let host = host::parse(&optional("host.txt")?).map_err(damaged("host.txt"))?;
        let path = parse_path(&result, path);
        let data_start_us = data_start_us(&down, &result);
        let data = Self {
            result,
            load,
            rival,
            probes,
            down,
            up,
            messages,
            echoes,
            requests,
            host,
            path,
            data_start_us,
        };
        if data.result.status == "ok" {
            data.damage(dir).map_or(Ok(()), |what| Err(format!("{DAMAGED}{what}")))?;
        }
        Ok(data)
    }

    /// What is missing or cut in the folder of a cell that is `ok`.
    fn damage(&self, dir: &FilePath) -> Option<String> {
        let is_wire = self.wire().is_some();
        let has_load = self.result.traffic.host_load != Some(HostLoad::Idle);
        let loads =
            [("load.json", Some(&self.load).filter(|_| has_load)), ("rival.json", self.rival.as_ref())];
        for (name, load) in loads {
            if let Some(Err(why)) = load {
                return Some(if why.starts_with(name) { why.clone() } else { format!("{name}: {why}") });
            }
        }
        let messages = self.result.traffic.messages.map(|m| 1_000_000 / i64::from(m.per_second.max(1)));
        let last_us = |times: Option<i64>| times.unwrap_or(i64::MIN);
        let tables = [
            ("probe.txt", !is_wire, SLACK_US, last_us(self.probes.last().map(|p| p.sent_us))),
            ("ping.txt", is_wire, SLACK_US, last_us(self.echoes.last().map(|e| e.sent_ns / 1000))),
            ("host.txt", is_wire, SLACK_US, self.host.map_or(i64::MIN, |_| i64::MAX)),
            (
                "link.txt",
                !is_wire && !self.result.place.is_remote(),
                2 * BIN_US,
                last_us(self.down.last().map(|b| b.t_us)),
            ),
            (
                "messages.txt",
                messages.is_some(),
                SLACK_US + messages.unwrap_or(0),
                last_us(self.messages.last().map(|m| m.due_us)),
            ),
        ];
        let wrong = |(name, _, slack_us, last_us): &(&str, bool, i64, i64)| {
            let bytes = read_plain(&dir.join(name)).unwrap_or_default();
            match () {
                () if !dir.join(name).exists() => Some(format!("{name} is missing")),
                () if bytes.last() != Some(&b'\n') => Some(format!("{name} ends within a line")),
                () if *last_us < self.load_us() - slack_us => {
                    Some(format!("{name} ends before the load does"))
                }
                () => None,
            }
        };
        tables.iter().filter(|(_, is_written, ..)| *is_written).find_map(wrong)
    }

    /// Gives the memory of the series back; what is left answers no metric.
    pub fn forget_series(&mut self) {
        self.load = Err("forgotten".into());
        self.rival = None;
        (self.probes, self.messages) = (Vec::new(), Vec::new());
        (self.down, self.up) = (Vec::new(), Vec::new());
        (self.echoes, self.requests, self.host) = (Vec::new(), None, None);
    }

    /// The wire, where there was no path.
    pub fn wire(&self) -> Option<Wire> {
        self.result.path.wire()
    }

    /// The path as its text has it; `None` for a real one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_ref()
    }

    /// When the load generator's clock starts, on the cell's clock.
    pub fn start_us(&self) -> i64 {
        self.data_start_us
    }

    /// Why the cell does not count; `None` when it does. An `ok` in `cell.json` is checked against the loads.
    pub fn excluded(&self) -> Option<String> {
        if self.result.status != "ok" {
            return Some(self.result.status.clone());
        }
        if self.result.traffic.host_load == Some(HostLoad::Idle) {
            return None;
        }
        let judge = |load: &Result<Load, String>, cc: &str| {
            let load = load.as_ref().map_err(String::clone)?;
            load.judge(cc).map_err(|reason| match load.rest.lines().next() {
                None => reason,
                Some(line) => format!("{reason} (iperf3 also printed: {line})"),
            })
        };
        let rival = self.rival.as_ref().map_or(Ok(()), |load| judge(load, &self.result.rival_cc));
        judge(&self.load, &self.result.sender_cc).and(rival.map_err(|e| format!("the rival: {e}"))).err()
    }

    /// Warm-up left out.
    pub fn window_us(&self) -> Range<i64> {
        self.result.traffic.warmup_ms as i64 * 1000..self.load_us()
    }

    /// Length of the load phase.
    pub fn load_us(&self) -> i64 {
        i64::from(self.result.traffic.seconds) * 1_000_000
    }

    /// When an interval of the load generator began and ended, on the cell's clock.
    pub fn span_us(&self, interval: &Interval) -> Range<i64> {
        self.data_start_us + interval.from_us as i64..self.data_start_us + interval.to_us as i64
    }

    /// What the bottleneck could carry, headers included; `None` where nobody knows (a real path).
    pub fn capacity_bits(&self, span_us: Range<i64>) -> Option<f64> {
        let (from, to) = (span_us.start.max(0), span_us.end.max(0));
        let bits = match &self.path {
            Some(path) => path.capacity_bits(from as u64 * 1000, to as u64 * 1000) as f64,
            None => {
                let bins =
                    self.down.iter().filter(|b| (from - BIN_US / 2..to - BIN_US / 2).contains(&b.t_us));
                let rates: Option<Vec<u64>> = bins.map(|b| b.rate_bps).collect();
                let rates = rates.filter(|r| !r.is_empty())?;
                rates.iter().sum::<u64>() as f64 / rates.len() as f64 * (to - from) as f64 / 1e6
            }
        };
        let bits_per_second = bits / (to - from) as f64 * 1e6;
        (bits_per_second > 0.0 && bits_per_second < UNLIMITED_BPS).then_some(bits)
    }

    /// Share of a full packet that is payload.
    pub fn payload_share(&self) -> f64 {
        let mss = self.load.as_ref().ok().and_then(|l| l.mss_bytes).unwrap_or(1448) as f64;
        mss / (mss + HEADER_BYTES)
    }

    /// Intervals of the receiver after the warm-up, by their middle.
    pub fn received(&self) -> Result<Vec<&Interval>, String> {
        self.inside(&self.load)
    }

    /// The same of the rival's receiver; none where nobody competed.
    pub fn rival_received(&self) -> Result<Vec<&Interval>, String> {
        self.rival.as_ref().map_or(Ok(Vec::new()), |load| self.inside(load))
    }

    fn inside<'a>(&self, load: &'a Result<Load, String>) -> Result<Vec<&'a Interval>, String> {
        self.received_in(load, &self.window_us())
    }

    /// Intervals of a load's receiver with their middle in the window, which is on the cell's clock.
    pub fn received_in<'a>(
        &self,
        load: &'a Result<Load, String>,
        window_us: &Range<i64>,
    ) -> Result<Vec<&'a Interval>, String> {
        let load = load.as_ref().map_err(String::clone)?;
        let middle_us = |i: &Interval| {
            let span = self.span_us(i);
            (span.start + span.end) / 2
        };
        let inside: Vec<_> = load.received.iter().filter(|i| window_us.contains(&middle_us(i))).collect();
        if inside.is_empty() {
            Err("no interval of the receiver after the warm-up or the drop".into())
        } else {
            Ok(inside)
        }
    }

    /// All intervals of a load's receiver, where they are short enough to say when something happened.
    pub fn short_intervals(load: &Result<Load, String>) -> Result<&[Interval], String> {
        let load = load.as_ref().map_err(String::clone)?;
        let is_long = |i: &Interval| i.to_us - i.from_us > SHORT_US;
        match load.received.is_empty() || load.received.iter().any(is_long) {
            true => Err("the receiver's intervals are longer than 250 ms or missing".into()),
            false => Ok(&load.received),
        }
    }

    pub fn in_window(&self, interval: &Interval) -> bool {
        let span = self.span_us(interval);
        self.window_us().contains(&((span.start + span.end) / 2))
    }

    pub fn probes_in_window(&self) -> impl Iterator<Item = &Probe> {
        self.probes.iter().filter(|p| self.window_us().contains(&p.sent_us))
    }

    /// Queueing delays of the answered probes after the warm-up.
    pub fn queue_delays_us(&self) -> Vec<f64> {
        self.probes_in_window().filter_map(|p| self.queue_delay(p)).collect()
    }

    /// What a probe waited in queues: its RTT beyond the path's own.
    pub fn queue_delay(&self, probe: &Probe) -> Option<f64> {
        probe.rtt_us.map(|rtt| (rtt as f64 - self.result.base_rtt_us as f64).max(0.0))
    }
}

/// What the status of a cell begins with whose files cannot be believed.
pub const DAMAGED: &str = "damaged: ";

/// How long before the end of the load the last probe or message may have been sent, on a machine that stands still
/// for a while.
const SLACK_US: i64 = 1_000_000;

/// Longest interval of a receiver that says when something happened.
const SHORT_US: u64 = 250_000;

/// Bin of the link log.
pub const BIN_US: i64 = 100_000;

/// IPv4 and TCP headers with timestamps, as on every path between two Linux hosts.
const HEADER_BYTES: f64 = 52.0;

/// A rate that no emulated bottleneck has: the path is unlimited.
const UNLIMITED_BPS: f64 = 1e12;

/// More than the load generator's control connection sends in one bin, less than an initial window.
const DATA_BYTES: u64 = 5000;

/// A message flow comes on top of that, from the start.
fn data_start_us(down: &[link::Bin], result: &CellResult) -> i64 {
    let messages = result.traffic.messages.map_or(0, |m| {
        let bytes_per_s = u64::from(m.per_second) * u64::from(m.max_bytes + MESSAGE_HEADER_BYTES);
        bytes_per_s * BIN_US as u64 / 1_000_000 + u64::from(m.max_bytes)
    });
    down.iter().find(|b| b.t_us >= 0 && b.in_bytes > DATA_BYTES + messages).map_or(0, |b| b.t_us)
}

fn parse_path(result: &CellResult, planned: &PathEntry) -> Option<Path> {
    let mut path: Path = result.path.text.parse().ok()?;
    for (name, text) in result.path.files.iter().chain(&planned.files) {
        path.load(name, text).ok()?;
    }
    Some(path)
}
