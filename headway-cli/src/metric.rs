//! METRICS: one row per metric, computed from a cell's raw folder.
//!
//! A new metric is one row here; CSV, JSON, report and comparison follow, for old runs too. All of a cell's
//! times are put on one clock, the microseconds since the start of the load generator, and all summaries use the
//! window from the end of the warm-up to the end of the load phase unless the row says otherwise.

use crate::bench::{CellResult, LAYOUT};
use crate::stats;
use crate::tools::{Interval, Load, parse_iperf3};
use headway_cc::path::Path;
use std::ops::Range;
use std::path::Path as FilePath;

/// What a metric counts in, and how people read it: `value * factor` in `word`.
#[derive(Debug, PartialEq)]
pub struct Unit {
    pub factor: f64,
    pub word: &'static str,
}

const RATE: Unit = Unit { factor: 1e-6, word: "Mbit/s" };
const DELAY: Unit = Unit { factor: 1e-3, word: "ms" };
const TIME: Unit = Unit { factor: 1.0, word: "ms" };
const SHARE: Unit = Unit { factor: 100.0, word: "%" };
const CPU: Unit = Unit { factor: 1.0, word: "s/GB" };
const PACKETS: Unit = Unit { factor: 1.0, word: "packets" };
const INDEX: Unit = Unit { factor: 1.0, word: "" };

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Higher,
    Lower,
}

/// The smallest difference that matters: the larger of a share of the baseline and an absolute amount.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    pub share: f64,
    pub amount: f64,
}

/// One row of [`METRICS`].
#[derive(Debug)]
pub struct Metric {
    /// Column name, unit included.
    pub name: &'static str,
    pub label: &'static str,
    pub unit: &'static Unit,
    pub better: Better,
    /// Primary metrics have a margin and get a verdict; the others get an interval.
    pub margin: Option<Margin>,
    pub about: &'static str,
    /// The value, or why there is none.
    pub of: fn(&CellData) -> Result<f64, String>,
}

impl Metric {
    pub fn is_primary(&self) -> bool {
        self.margin.is_some()
    }
}

/// Every metric, in the order of the CSV's columns.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "goodput_bps",
        label: "Goodput",
        unit: &RATE,
        better: Better::Higher,
        margin: Some(Margin { share: 0.02, amount: 0.0 }),
        about: "Payload that the receiver counted after the warm-up, all streams",
        of: goodput_bps,
    },
    Metric {
        name: "queue_delay_p95_us",
        label: "Queueing delay p95",
        unit: &DELAY,
        better: Better::Lower,
        margin: Some(Margin { share: 0.05, amount: 500.0 }),
        about: "95th percentile of probe RTT minus base RTT, over probes sent after the warm-up",
        of: |c| queue_delay_us(c, 0.95),
    },
    Metric {
        name: "retransmit_rate",
        label: "Retransmit rate",
        unit: &SHARE,
        better: Better::Lower,
        margin: Some(Margin { share: 0.10, amount: 0.0001 }),
        about: "Retransmitted bytes / all bytes sent, over the whole load phase",
        of: retransmit_rate,
    },
    Metric {
        name: "utilisation",
        label: "Utilisation",
        unit: &SHARE,
        better: Better::Higher,
        margin: None,
        about: "Goodput, that of a rival included / payload that the bottleneck could have carried in the same window",
        of: utilisation,
    },
    Metric {
        name: "queue_delay_p50_us",
        label: "Queueing delay p50",
        unit: &DELAY,
        better: Better::Lower,
        margin: None,
        about: "Median of probe RTT minus base RTT, over probes sent after the warm-up",
        of: |c| queue_delay_us(c, 0.50),
    },
    Metric {
        name: "queue_delay_p99_us",
        label: "Queueing delay p99",
        unit: &DELAY,
        better: Better::Lower,
        margin: None,
        about: "99th percentile of probe RTT minus base RTT, over probes sent after the warm-up",
        of: |c| queue_delay_us(c, 0.99),
    },
    Metric {
        name: "time_to_90_ms",
        label: "Time to 90 %",
        unit: &TIME,
        better: Better::Lower,
        margin: None,
        about: "From the first data to the first receiver interval at 90 % of the path's rate",
        of: time_to_90_ms,
    },
    Metric {
        name: "srtt_us",
        label: "Smoothed RTT",
        unit: &DELAY,
        better: Better::Lower,
        margin: None,
        about: "Median of the senders' smoothed RTT after the warm-up",
        of: srtt_us,
    },
    Metric {
        name: "probe_loss",
        label: "Probe loss",
        unit: &SHARE,
        better: Better::Lower,
        margin: None,
        about: "Unanswered probes / probes sent after the warm-up",
        of: probe_loss,
    },
    Metric {
        name: "drop_packets",
        label: "Queue drops",
        unit: &PACKETS,
        better: Better::Lower,
        margin: None,
        about: "Packets that the bottleneck's queue dropped, over the whole load phase",
        of: |c| link_sum(c, |bin| bin.drop_packets),
    },
    Metric {
        name: "lost_packets",
        label: "Random losses",
        unit: &PACKETS,
        better: Better::Lower,
        margin: None,
        about: "Packets that the path's loss model took, over the whole load phase",
        of: |c| link_sum(c, |bin| bin.lost_packets),
    },
    Metric {
        name: "mark_packets",
        label: "CE marks",
        unit: &PACKETS,
        better: Better::Lower,
        margin: None,
        about: "Packets that the bottleneck marked CE, over the whole load phase",
        of: |c| link_sum(c, |bin| bin.mark_packets),
    },
    Metric {
        name: "cpu_s_per_gb",
        label: "Sender CPU",
        unit: &CPU,
        better: Better::Lower,
        margin: None,
        about: "CPU time of the sending iperf3 process per GB that arrived",
        of: |c| cpu_s_per_gb(c, |load| load.sender_cpu_percent),
    },
    Metric {
        name: "receiver_cpu_s_per_gb",
        label: "Receiver CPU",
        unit: &CPU,
        better: Better::Lower,
        margin: None,
        about: "CPU time of the receiving iperf3 process per GB that arrived",
        of: |c| cpu_s_per_gb(c, |load| load.receiver_cpu_percent),
    },
    Metric {
        name: "jain",
        label: "Jain's index",
        unit: &INDEX,
        better: Better::Higher,
        margin: None,
        about: "Fairness of the streams' goodput after the warm-up, those of a rival included: 1 is equal, 1/streams is one alone",
        of: jain,
    },
    Metric {
        name: "rival_goodput_bps",
        label: "Rival's goodput",
        unit: &RATE,
        better: Better::Higher,
        margin: None,
        about: "What competing flows (--against) got. Where the baseline is the rival's own controller, a loss is the harm done",
        of: rival_goodput_bps,
    },
    Metric {
        name: "emu_late_p99_us",
        label: "Emulator lateness p99",
        unit: &DELAY,
        better: Better::Lower,
        margin: None,
        about: "99th percentile of how late the emulator was at worst in each 100 ms, both directions",
        of: |c| percentile(&late_us(c)?, 0.99, "bins of the link log"),
    },
    Metric {
        name: "emu_late_max_us",
        label: "Emulator lateness max",
        unit: &DELAY,
        better: Better::Lower,
        margin: None,
        about: "How late the emulator was at worst",
        of: |c| Ok(late_us(c)?.into_iter().fold(0.0, f64::max)),
    },
];

/// One probe. Times are microseconds since the start of the load phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    pub sent_us: i64,
    /// `None`: no answer came.
    pub rtt_us: Option<f64>,
}

/// One bin of one direction of the link log, as far as it is used here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkBin {
    pub t_us: i64,
    pub rate_bps: Option<u64>,
    pub in_bytes: u64,
    pub drop_packets: u64,
    pub lost_packets: u64,
    pub mark_packets: u64,
    pub late_us_max: Option<u64>,
}

/// A cell's raw folder, parsed. What a tool failed to deliver is kept as the reason why it is missing.
#[derive(Debug)]
pub struct CellData {
    pub result: CellResult,
    pub load: Result<Load, String>,
    /// The load of the rival; `None` where nobody competed.
    pub rival: Option<Result<Load, String>>,
    pub probes: Vec<Probe>,
    pub down: Vec<LinkBin>,
    pub up: Vec<LinkBin>,
    path: Option<Path>,
    /// When the first data reached the bottleneck: the zero of the load generator's own clock.
    data_start_us: i64,
}

impl CellData {
    /// Reads `cells/NNN`. Only `cell.json` must be there and readable; the error is one sentence.
    pub fn read(dir: &FilePath) -> Result<Self, String> {
        let file = |name: &str| std::fs::read_to_string(dir.join(name)).map_err(|e| format!("{name}: {e}"));
        let result = parse_result(&file("cell.json")?)?;
        let load = file("load.json").and_then(|text| parse_iperf3(&text));
        let rival = result.against.as_ref();
        let rival = rival.map(|_| file("rival.json").and_then(|text| parse_iperf3(&text)));
        let optional = |name: &str| if dir.join(name).exists() { file(name) } else { Ok(String::new()) };
        let probes = parse_probes(&optional("probe.txt")?).map_err(|e| format!("probe.txt: {e}"))?;
        let (down, up) = parse_link(&optional("link.txt")?).map_err(|e| format!("link.txt: {e}"))?;
        let path = parse_path(&result);
        let data_start_us = data_start_us(&down);
        Ok(Self { result, load, rival, probes, down, up, path, data_start_us })
    }

    /// Why the cell does not count; `None` when it does. An `ok` in `cell.json` is checked against the loads.
    pub fn excluded(&self) -> Option<String> {
        if self.result.status != "ok" {
            return Some(self.result.status.clone());
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
        self.result.warmup_ms as i64 * 1000..self.load_us()
    }

    /// Length of the load phase.
    pub fn load_us(&self) -> i64 {
        i64::from(self.result.seconds) * 1_000_000
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
    fn received(&self) -> Result<Vec<&Interval>, String> {
        self.inside(&self.load)
    }

    /// The same of the rival's receiver; none where nobody competed.
    fn rival_received(&self) -> Result<Vec<&Interval>, String> {
        self.rival.as_ref().map_or(Ok(Vec::new()), |load| self.inside(load))
    }

    fn inside<'a>(&self, load: &'a Result<Load, String>) -> Result<Vec<&'a Interval>, String> {
        let load = load.as_ref().map_err(String::clone)?;
        let inside: Vec<_> = load.received.iter().filter(|i| self.in_window(i)).collect();
        if inside.is_empty() {
            return Err("no interval of the receiver after the warm-up".into());
        }
        Ok(inside)
    }

    fn in_window(&self, interval: &Interval) -> bool {
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
        probe.rtt_us.map(|rtt| (rtt - self.result.base_rtt_us as f64).max(0.0))
    }
}

/// Bin of the link log.
pub const BIN_US: i64 = 100_000;

/// IPv4 and TCP headers with timestamps, as on every path between two Linux hosts.
const HEADER_BYTES: f64 = 52.0;

/// A rate that no emulated bottleneck has: the path is unlimited.
const UNLIMITED_BPS: f64 = 1e12;

/// More than the load generator's control connection sends in one bin, less than an initial window.
const DATA_BYTES: u64 = 5000;

fn data_start_us(down: &[LinkBin]) -> i64 {
    down.iter().find(|b| b.t_us >= 0 && b.in_bytes > DATA_BYTES).map_or(0, |b| b.t_us)
}

fn goodput_bps(cell: &CellData) -> Result<f64, String> {
    match cell.received() {
        Ok(intervals) => Ok(rate_bps(&intervals)),
        // Without the server's intervals only the whole phase is known, warm-up included.
        Err(_) => {
            let load = cell.load.as_ref().map_err(String::clone)?;
            Ok(load.received_bytes as f64 * 8e6 / load.received_us.max(1) as f64)
        }
    }
}

fn rate_bps(intervals: &[&Interval]) -> f64 {
    let bytes: u64 = intervals.iter().map(|i| i.bytes()).sum();
    let us: u64 = intervals.iter().map(|i| i.to_us - i.from_us).sum();
    bytes as f64 * 8e6 / us.max(1) as f64
}

fn rival_goodput_bps(cell: &CellData) -> Result<f64, String> {
    let intervals = cell.rival_received()?;
    if intervals.is_empty() { Err("nobody competed (--against)".into()) } else { Ok(rate_bps(&intervals)) }
}

fn utilisation(cell: &CellData) -> Result<f64, String> {
    let intervals = cell.received()?;
    let (first, last) = (intervals[0], intervals[intervals.len() - 1]);
    let span = cell.span_us(first).start..cell.span_us(last).end;
    let capacity = cell.capacity_bits(span).ok_or("the path's rate is not known")?;
    let bits: u64 = intervals.iter().chain(&cell.rival_received()?).map(|i| i.bytes() * 8).sum();
    Ok(bits as f64 / (capacity * cell.payload_share()))
}

fn queue_delay_us(cell: &CellData, q: f64) -> Result<f64, String> {
    percentile(&cell.queue_delays_us(), q, "answered probes")
}

fn retransmit_rate(cell: &CellData) -> Result<f64, String> {
    let load = cell.load.as_ref().map_err(String::clone)?;
    let segments = load.retransmits.ok_or("the sender does not count retransmissions")?;
    let again = (segments * load.mss_bytes.unwrap_or(1448)) as f64;
    Ok(again / (load.sent_bytes as f64 + again).max(1.0))
}

fn time_to_90_ms(cell: &CellData) -> Result<f64, String> {
    let load = cell.load.as_ref().map_err(String::clone)?;
    if load.received.iter().any(|i| i.to_us - i.from_us > 250_000) || load.received.is_empty() {
        return Err("the receiver's intervals are longer than 250 ms or missing".into());
    }
    for interval in &load.received {
        let capacity = cell.capacity_bits(cell.span_us(interval)).ok_or("the path's rate is not known")?;
        if (interval.bytes() * 8) as f64 >= 0.9 * capacity * cell.payload_share() {
            return Ok(interval.to_us as f64 / 1000.0);
        }
    }
    Err("never reached 90 % of the path's rate".into())
}

fn srtt_us(cell: &CellData) -> Result<f64, String> {
    let load = cell.load.as_ref().map_err(String::clone)?;
    let inside = load.sent.iter().filter(|i| cell.in_window(i));
    let samples: Vec<f64> = inside.flat_map(|i| &i.srtt_us).map(|us| *us as f64).collect();
    stats::median(&samples).ok_or_else(|| "the sender reports no RTT".into())
}

fn probe_loss(cell: &CellData) -> Result<f64, String> {
    let sent = cell.probes_in_window().count();
    let lost = cell.probes_in_window().filter(|p| p.rtt_us.is_none()).count();
    if sent == 0 { Err("no probes".into()) } else { Ok(lost as f64 / sent as f64) }
}

fn link_sum(cell: &CellData, count: fn(&LinkBin) -> u64) -> Result<f64, String> {
    if cell.down.is_empty() {
        return Err("no link log".into());
    }
    let inside = cell.down.iter().filter(|b| (0..cell.load_us()).contains(&b.t_us));
    Ok(inside.map(count).sum::<u64>() as f64)
}

fn cpu_s_per_gb(cell: &CellData, side: fn(&Load) -> Option<f64>) -> Result<f64, String> {
    let load = cell.load.as_ref().map_err(String::clone)?;
    let percent = side(load).ok_or("no CPU time was measured")?;
    let (seconds, gb) = (load.received_us as f64 / 1e6, load.received_bytes as f64 / 1e9);
    if gb > 0.0 { Ok(percent / 100.0 * seconds / gb) } else { Err("nothing arrived".into()) }
}

fn jain(cell: &CellData) -> Result<f64, String> {
    let totals = |intervals: &[&Interval]| {
        let streams = intervals.first().map_or(0, |i| i.stream_bytes.len());
        let total = |s: usize| intervals.iter().filter_map(|i| i.stream_bytes.get(s)).sum::<u64>() as f64;
        (0..streams).map(total).collect::<Vec<_>>()
    };
    let streams = [totals(&cell.received()?), totals(&cell.rival_received()?)].concat();
    if streams.len() < 2 {
        return Err("needs two streams".into());
    }
    stats::jain(&streams).ok_or_else(|| "nothing arrived".into())
}

fn late_us(cell: &CellData) -> Result<Vec<f64>, String> {
    let inside = cell.down.iter().chain(&cell.up).filter(|b| (0..cell.load_us()).contains(&b.t_us));
    let late: Vec<f64> = inside.filter_map(|b| b.late_us_max).map(|us| us as f64).collect();
    if late.is_empty() { Err("no emulator".into()) } else { Ok(late) }
}

fn percentile(values: &[f64], q: f64, what: &str) -> Result<f64, String> {
    stats::percentile(values, q)
        .map_err(|needed| format!("n too small: {} {what}, {needed} needed", values.len()))
}

fn parse_result(text: &str) -> Result<CellResult, String> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        layout: u32,
    }
    let broken = |e: serde_json::Error| format!("cell.json is broken: {e}");
    match serde_json::from_str::<Versioned>(text).map_err(broken)?.layout {
        LAYOUT => serde_json::from_str(text).map_err(broken),
        other => Err(format!("cell.json has layout {other}, this program reads layout {LAYOUT}")),
    }
}

fn parse_path(result: &CellResult) -> Option<Path> {
    let mut path: Path = result.path.text.parse().ok()?;
    for (name, text) in &result.path.files {
        path.load(name, text).ok()?;
    }
    Some(path)
}

fn parse_probes(text: &str) -> Result<Vec<Probe>, String> {
    let table = Table::read(text)?;
    let probe = |row: &Row| Ok(Probe { sent_us: row.number("sent_us")?, rtt_us: row.optional("rtt_us")? });
    table.rows().map(|row| probe(&row?)).collect()
}

fn parse_link(text: &str) -> Result<(Vec<LinkBin>, Vec<LinkBin>), String> {
    let table = Table::read(text)?;
    let (mut down, mut up) = (Vec::new(), Vec::new());
    for row in table.rows() {
        let row = row?;
        let bin = LinkBin {
            t_us: row.number("t_us")?,
            rate_bps: row.optional("rate_bps")?,
            in_bytes: row.optional("in_bytes")?.unwrap_or(0),
            drop_packets: row.optional("drop_packets")?.unwrap_or(0),
            lost_packets: row.optional("lost_packets")?.unwrap_or(0),
            mark_packets: row.optional("mark_packets")?.unwrap_or(0),
            late_us_max: row.optional("late_us_max")?,
        };
        match row.word("dir")? {
            "down" => down.push(bin),
            "up" => up.push(bin),
            other => return Err(format!("line {}: `{other}` is neither `down` nor `up`", row.line)),
        }
    }
    Ok((down, up))
}

/// A text table of the raw folder: a `# ` line that names the columns, then rows of words.
struct Table<'a> {
    columns: Vec<&'a str>,
    lines: Vec<(usize, &'a str)>,
}

struct Row<'a> {
    columns: &'a [&'a str],
    words: Vec<&'a str>,
    line: usize,
}

impl<'a> Table<'a> {
    /// An empty text is a table without rows.
    fn read(text: &'a str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let columns = match lines.next() {
            None => Vec::new(),
            Some((_, head)) => {
                head.strip_prefix("# ").ok_or("line 1 does not name the columns")?.split(' ').collect()
            }
        };
        Ok(Self { columns, lines: lines.filter(|(_, l)| !l.is_empty() && !l.starts_with('#')).collect() })
    }

    fn rows(&self) -> impl Iterator<Item = Result<Row<'_>, String>> {
        self.lines.iter().map(|(line, text)| {
            let words: Vec<&str> = text.split(' ').collect();
            let (have, want) = (words.len(), self.columns.len());
            if have != want {
                return Err(format!("line {line} has {have} words, its table {want} columns"));
            }
            Ok(Row { columns: &self.columns, words, line: *line })
        })
    }
}

impl Row<'_> {
    fn word(&self, column: &str) -> Result<&str, String> {
        let at = self.columns.iter().position(|c| *c == column);
        at.map(|at| self.words[at]).ok_or_else(|| format!("there is no column `{column}`"))
    }

    fn number<T: std::str::FromStr>(&self, column: &str) -> Result<T, String> {
        let word = self.word(column)?;
        word.parse().map_err(|_| format!("line {}: `{word}` is no number for {column}", self.line))
    }

    fn optional<T: std::str::FromStr>(&self, column: &str) -> Result<Option<T>, String> {
        if self.word(column)? == "-" { Ok(None) } else { self.number(column).map(Some) }
    }
}
