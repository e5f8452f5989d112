//! What is measured: one row of [`METRICS`] for each metric, computed from the raw files of a cell.
//!
//! A new metric is one row here; CSV, JSON, report and comparison follow, and because they start from the raw files,
//! old runs get it too. The files are read by `CellData`, which puts all times on one clock, microseconds since the
//! start of the load generator. A metric covers the time from the end of the warm-up to the end of the load unless
//! its row says otherwise. `drop` holds what happens around a fall of the path's rate, `messages` what a message flow
//! felt, `share` how streams share the path. Nothing here compares controllers: that is the report's part.

#[cfg(test)]
mod by_hand;
mod drop;
mod host;
mod messages;
mod raw;
mod share;

use crate::plan::traffic::HostLoad;
use crate::raw::link;
use crate::raw::load::{Interval, Load};
use crate::stats;
use anyhow::Context;
use headway_cc::names::choices;
pub use raw::{BIN_US, CellData, DAMAGED};

/// What a metric counts in, and how people read it: `value * factor` in `word`.
#[derive(Debug, PartialEq)]
pub struct Unit {
    pub factor: f64,
    pub word: &'static str,
}

const RATE: Unit = Unit { factor: 1e-6, word: "Mbit/s" };
const DELAY: Unit = Unit { factor: 1e-3, word: "ms" };
const TIME: Unit = Unit { factor: 1.0, word: "ms" };
const SECONDS: Unit = Unit { factor: 1.0, word: "s" };
const SHARE: Unit = Unit { factor: 100.0, word: "%" };
const CPU: Unit = Unit { factor: 1.0, word: "s/GB" };
const PACKETS: Unit = Unit { factor: 1.0, word: "packets" };
const MICROS: Unit = Unit { factor: 1.0, word: "us" };
const PER_SECOND: Unit = Unit { factor: 1.0, word: "/s" };
const INDEX: Unit = Unit { factor: 1.0, word: "" };

/// Which way a metric is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Higher,
    Lower,
}

/// The smallest difference that matters: the larger of a share of the baseline and an absolute amount.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// Of the baseline's median.
    pub share: f64,
    /// In the metric's own unit. It keeps a small difference between two small values from mattering.
    pub amount: f64,
}

/// One row of [`METRICS`].
#[derive(Debug)]
pub struct Metric {
    /// Column name, unit included.
    pub name: &'static str,
    /// The name as people read it.
    pub label: &'static str,
    pub unit: &'static Unit,
    pub better: Better,
    /// Metrics with a margin are primary and get a verdict; the others get an interval only. They are few
    /// and the same for every run: among many metrics some favour one side by chance, and a reader would pick those.
    pub margin: Option<Margin>,
    /// For a metric that waits for an event: the value of a run that ended before the event came. The true one is at
    /// least that, so it is a lower bound.
    pub ceiling: Option<fn(&CellData) -> f64>,
    /// What is counted and over which time, for the page: a sentence without its full stop.
    pub about: &'static str,
    /// The value, or why there is none.
    pub of: fn(&CellData) -> Result<f64, String>,
}

impl Better {
    /// What turns a difference, candidate minus baseline, into an improvement: +1 or −1.
    pub fn sign(self) -> f64 {
        if self == Self::Higher { 1.0 } else { -1.0 }
    }
}

impl Metric {
    pub fn is_primary(&self) -> bool {
        self.margin.is_some()
    }
}

/// Begins the reason for a missing value where the run was not meant to have one, such as a message delay without
/// messages. The page leaves such metrics out instead of showing a gap.
pub const NOT_ASKED: &str = "not asked for: ";

/// What most rows share: no verdict, and no event that may not come.
const PLAIN: Metric = Metric {
    name: "",
    label: "",
    unit: &INDEX,
    better: Better::Lower,
    margin: None,
    ceiling: None,
    about: "",
    of: |_| Err(String::new()),
};

/// Every metric, in the order of the CSV's columns.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "message_delay_p99_us",
        label: "Message delay p99",
        unit: &DELAY,
        better: Better::Lower,
        margin: Some(Margin { share: 0.05, amount: 500.0 }),
        about: "99th percentile of the one-way delay of messages that arrived, from when they were due, after the warm-up",
        of: |c| messages::delay_us(c, 0.99),
        ..PLAIN
    },
    Metric {
        name: "goodput_bps",
        label: "Goodput",
        unit: &RATE,
        better: Better::Higher,
        margin: Some(Margin { share: 0.02, amount: 0.0 }),
        about: "Payload that the receiver counted after the warm-up, all streams",
        of: goodput_bps,
        ..PLAIN
    },
    Metric {
        name: "queue_delay_p95_us",
        label: "Queueing delay p95",
        unit: &DELAY,
        better: Better::Lower,
        margin: Some(Margin { share: 0.05, amount: 500.0 }),
        about: "95th percentile of probe RTT minus base RTT, over probes sent after the warm-up",
        of: |c| queue_delay_us(c, 0.95),
        ..PLAIN
    },
    Metric {
        name: "retransmit_rate",
        label: "Retransmit rate",
        unit: &SHARE,
        better: Better::Lower,
        margin: Some(Margin { share: 0.10, amount: 0.0001 }),
        about: "Retransmitted bytes / all bytes sent, over the whole load phase",
        of: retransmit_rate,
        ..PLAIN
    },
    Metric {
        name: "request_p99_us",
        label: "Request p99",
        unit: &MICROS,
        better: Better::Lower,
        margin: Some(Margin { share: 0.05, amount: 0.0 }),
        about: "99th percentile of the time from a request to its answer, over requests sent after the warm-up",
        of: |c| host::request_us(c, 0.99),
        ..PLAIN
    },
    Metric {
        name: "ping_mean_us",
        label: "Ping mean",
        unit: &MICROS,
        better: Better::Lower,
        margin: Some(Margin { share: 0.05, amount: 0.0 }),
        about: "Mean round trip of ICMP echoes over a wire, 100 a second beside the load, after the warm-up",
        of: host::ping_mean_us,
        ..PLAIN
    },
    Metric {
        name: "machine_s_per_gb",
        label: "Machine CPU",
        unit: &CPU,
        better: Better::Lower,
        margin: Some(Margin { share: 0.02, amount: 0.0 }),
        about: "Time in which the machine's CPUs were not idle, both ends and the kernel included, per GB that arrived; in the lab a second is a thousand million instructions",
        of: host::machine_s_per_gb,
        ..PLAIN
    },
    Metric {
        name: "machine_us_per_request",
        label: "Machine CPU per request",
        unit: &MICROS,
        better: Better::Lower,
        margin: Some(Margin { share: 0.02, amount: 0.0 }),
        about: "The same per request that was answered; in the lab a microsecond is a thousand instructions",
        of: host::machine_us_per_request,
        ..PLAIN
    },
    Metric {
        name: "request_p50_us",
        label: "Request p50",
        unit: &MICROS,
        better: Better::Lower,
        about: "Median of the time from a request to its answer",
        of: |c| host::request_us(c, 0.50),
        ..PLAIN
    },
    Metric {
        name: "request_p999_us",
        label: "Request p99.9",
        unit: &MICROS,
        better: Better::Lower,
        about: "99.9th percentile of the time from a request to its answer",
        of: |c| host::request_us(c, 0.999),
        ..PLAIN
    },
    Metric {
        name: "requests_per_s",
        label: "Requests",
        unit: &PER_SECOND,
        better: Better::Higher,
        about: "Requests answered a second, all clients",
        of: host::requests_per_s,
        ..PLAIN
    },
    Metric {
        name: "request_loss",
        label: "Requests lost",
        unit: &SHARE,
        better: Better::Lower,
        about: "Requests that no answer came to in 200 ms / requests after the warm-up",
        of: host::request_loss,
        ..PLAIN
    },
    Metric {
        name: "ping_p50_us",
        label: "Ping p50",
        unit: &MICROS,
        better: Better::Lower,
        about: "Median round trip of the echoes",
        of: |c| host::ping_us(c, 0.50),
        ..PLAIN
    },
    Metric {
        name: "ping_p99_us",
        label: "Ping p99",
        unit: &MICROS,
        better: Better::Lower,
        about: "99th percentile of the echoes' round trip",
        of: |c| host::ping_us(c, 0.99),
        ..PLAIN
    },
    Metric {
        name: "flood_loss",
        label: "Datagrams lost",
        unit: &SHARE,
        better: Better::Lower,
        about: "Datagrams of a flood that were sent and did not arrive",
        of: host::flood_loss,
        ..PLAIN
    },
    Metric {
        name: "napi_polls_per_s",
        label: "NAPI polls",
        unit: &PER_SECOND,
        better: Better::Lower,
        about: "Polls of the network cards, or of the backlogs where there are no cards, a second",
        of: |c| host::per_s(c, |host| host.polls),
        ..PLAIN
    },
    Metric {
        name: "napi_packets_per_poll",
        label: "Packets a poll",
        unit: &PACKETS,
        better: Better::Higher,
        about: "Packets that came from the network cards, or from the backlogs, for each poll",
        of: host::packets_per_poll,
        ..PLAIN
    },
    Metric {
        name: "napi_squeezes_per_s",
        label: "Budget exhaustions",
        unit: &PER_SECOND,
        better: Better::Lower,
        about: "How often a second the kernel stopped polling because its budget was used up (time_squeeze in softnet_stat)",
        of: |c| host::per_s(c, |host| host.squeezed),
        ..PLAIN
    },
    Metric {
        name: "softirq_share",
        label: "Softirq time",
        unit: &SHARE,
        better: Better::Lower,
        about: "Time that the CPUs spent in softirqs / length of the load",
        of: host::softirq_share,
        ..PLAIN
    },
    Metric {
        name: "utilisation",
        label: "Utilisation",
        unit: &SHARE,
        better: Better::Higher,
        about: "Goodput, that of a rival included / payload that the bottleneck could have carried in the same window",
        of: utilisation,
        ..PLAIN
    },
    Metric {
        name: "queue_delay_p50_us",
        label: "Queueing delay p50",
        unit: &DELAY,
        better: Better::Lower,
        about: "Median of probe RTT minus base RTT, over probes sent after the warm-up",
        of: |c| queue_delay_us(c, 0.50),
        ..PLAIN
    },
    Metric {
        name: "queue_delay_p99_us",
        label: "Queueing delay p99",
        unit: &DELAY,
        better: Better::Lower,
        about: "99th percentile of probe RTT minus base RTT, over probes sent after the warm-up",
        of: |c| queue_delay_us(c, 0.99),
        ..PLAIN
    },
    Metric {
        name: "time_to_90_ms",
        label: "Time to 90 %",
        unit: &TIME,
        better: Better::Lower,
        ceiling: Some(drop::start_ceiling_ms),
        about: "From the first data to the end of the first receiver interval at 90 % of the path's rate; never: the whole time",
        of: drop::time_to_90_ms,
        ..PLAIN
    },
    Metric {
        name: "queue_delay_p99_after_drop_us",
        label: "Queueing delay p99 after the drop",
        unit: &DELAY,
        better: Better::Lower,
        about: "99th percentile of probe RTT minus base RTT, over probes sent in the 10 s after the path's rate fell",
        of: |c| drop::queue_delay_us(c, 0.99),
        ..PLAIN
    },
    Metric {
        name: "utilisation_after_drop",
        label: "Utilisation after the drop",
        unit: &SHARE,
        better: Better::Higher,
        about: "Goodput, that of a rival included / what the path could have carried, in the 10 s after its rate fell",
        of: drop::utilisation,
        ..PLAIN
    },
    Metric {
        name: "time_to_90_after_recovery_ms",
        label: "Time to 90 % after recovery",
        unit: &TIME,
        better: Better::Lower,
        ceiling: Some(drop::recovery_ceiling_ms),
        about: "From when the rate is back to the first receiver interval that begins a second at 90 % of it; never: the time there was",
        of: drop::recovery_to_90_ms,
        ..PLAIN
    },
    Metric {
        name: "message_delay_p50_us",
        label: "Message delay p50",
        unit: &DELAY,
        better: Better::Lower,
        about: "Median of the one-way delay of messages that arrived",
        of: |c| messages::delay_us(c, 0.50),
        ..PLAIN
    },
    Metric {
        name: "message_delay_p999_us",
        label: "Message delay p99.9",
        unit: &DELAY,
        better: Better::Lower,
        about: "99.9th percentile of the one-way delay of messages that arrived",
        of: |c| messages::delay_us(c, 0.999),
        ..PLAIN
    },
    Metric {
        name: "message_delay_max_us",
        label: "Message delay worst",
        unit: &DELAY,
        better: Better::Lower,
        about: "The longest one-way delay of a message that arrived",
        of: messages::worst_us,
        ..PLAIN
    },
    Metric {
        name: "message_over_50ms_s",
        label: "Messages above 50 ms",
        unit: &SECONDS,
        better: Better::Lower,
        about: "Time in which messages took longer than 50 ms one way, or were lost",
        of: |c| messages::over_s(c, 50_000),
        ..PLAIN
    },
    Metric {
        name: "message_over_100ms_s",
        label: "Messages above 100 ms",
        unit: &SECONDS,
        better: Better::Lower,
        about: "Time in which messages took longer than 100 ms one way, or were lost",
        of: |c| messages::over_s(c, 100_000),
        ..PLAIN
    },
    Metric {
        name: "message_over_200ms_s",
        label: "Messages above 200 ms",
        unit: &SECONDS,
        better: Better::Lower,
        about: "Time in which messages took longer than 200 ms one way, or were lost",
        of: |c| messages::over_s(c, 200_000),
        ..PLAIN
    },
    Metric {
        name: "message_loss",
        label: "Messages lost",
        unit: &SHARE,
        better: Better::Lower,
        about: "Messages that never arrived / messages due after the warm-up",
        of: messages::loss,
        ..PLAIN
    },
    Metric {
        name: "srtt_us",
        label: "Smoothed RTT",
        unit: &DELAY,
        better: Better::Lower,
        about: "Median of the senders' smoothed RTT after the warm-up",
        of: srtt_us,
        ..PLAIN
    },
    Metric {
        name: "probe_loss",
        label: "Probe loss",
        unit: &SHARE,
        better: Better::Lower,
        about: "Unanswered probes / probes sent after the warm-up",
        of: probe_loss,
        ..PLAIN
    },
    Metric {
        name: "drop_packets",
        label: "Queue drops",
        unit: &PACKETS,
        better: Better::Lower,
        about: "Packets that the bottleneck's queue dropped, over the whole load phase",
        of: |c| link_sum(c, |bin| bin.drop_packets),
        ..PLAIN
    },
    Metric {
        name: "lost_packets",
        label: "Random losses",
        unit: &PACKETS,
        better: Better::Lower,
        about: "Packets that the path's loss model took, over the whole load phase",
        of: |c| link_sum(c, |bin| bin.lost_packets),
        ..PLAIN
    },
    Metric {
        name: "mark_packets",
        label: "CE marks",
        unit: &PACKETS,
        better: Better::Lower,
        about: "Packets that the bottleneck marked CE, over the whole load phase",
        of: |c| link_sum(c, |bin| bin.mark_packets),
        ..PLAIN
    },
    Metric {
        name: "cpu_s_per_gb",
        label: "Sender CPU",
        unit: &CPU,
        better: Better::Lower,
        about: "CPU time of the load's sender per GB that arrived",
        of: |c| cpu_s_per_gb(c, |load| load.sender_cpu_percent),
        ..PLAIN
    },
    Metric {
        name: "receiver_cpu_s_per_gb",
        label: "Receiver CPU",
        unit: &CPU,
        better: Better::Lower,
        about: "CPU time of the load's receiver per GB that arrived",
        of: |c| cpu_s_per_gb(c, |load| load.receiver_cpu_percent),
        ..PLAIN
    },
    Metric {
        name: "jain",
        label: "Jain's index",
        unit: &INDEX,
        better: Better::Higher,
        about: "Fairness of the streams' goodput after the warm-up, those of a rival included: 1 is equal, 1/streams is one alone",
        of: share::jain,
        ..PLAIN
    },
    Metric {
        name: "time_to_fair_ms",
        label: "Time to a fair share",
        unit: &TIME,
        better: Better::Lower,
        ceiling: Some(share::fair_ceiling_ms),
        about: "From the start of the last stream, those of a rival included, to the first of five seconds in a row in each of which Jain's index is at least 0.95; never: the time there was",
        of: share::time_to_fair_ms,
        ..PLAIN
    },
    Metric {
        name: "rival_goodput_bps",
        label: "Rival's goodput",
        unit: &RATE,
        better: Better::Higher,
        about: "What competing flows (--against) got. Where the baseline is the rival's own controller, a loss is the harm done",
        of: rival_goodput_bps,
        ..PLAIN
    },
    Metric {
        name: "emu_late_p99_us",
        label: "Emulator lateness p99",
        unit: &DELAY,
        better: Better::Lower,
        about: "99th percentile of how late the emulator was at worst in each 100 ms, both directions",
        of: |c| percentile(&late_us(c)?, 0.99, "bins of the link log"),
        ..PLAIN
    },
    Metric {
        name: "emu_late_max_us",
        label: "Emulator lateness max",
        unit: &DELAY,
        better: Better::Lower,
        about: "How late the emulator was at worst",
        of: |c| Ok(late_us(c)?.into_iter().fold(0.0, f64::max)),
        ..PLAIN
    },
];

/// The row of a name that somebody typed.
///
/// # Errors
/// Names the metrics that there are.
pub fn find(name: &str) -> anyhow::Result<&'static Metric> {
    METRICS.iter().find(|m| m.name == name).with_context(|| {
        let names: Vec<&str> = METRICS.iter().map(|m| m.name).collect();
        format!("unknown metric `{name}`\nhint: {}", choices(name, &names))
    })
}

/// Where a metric that must exist stands in [`METRICS`].
pub fn index_of(name: &str) -> usize {
    METRICS.iter().position(|m| m.name == name).expect("the name is one of the table's")
}

/// Payload that arrived, over the receiver's intervals.
fn goodput_bps(cell: &CellData) -> Result<f64, String> {
    if matches!(cell.result.traffic.host_load, Some(HostLoad::Requests(_))) {
        return Err(format!("{NOT_ASKED}requests are counted instead"));
    }
    match cell.received() {
        Ok(intervals) => Ok(rate_bps(&intervals)),
        // Where the server's intervals did not come back, only the total of the whole load phase is known.
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
    if intervals.is_empty() {
        Err(format!("{NOT_ASKED}nobody competed (--against)"))
    } else {
        Ok(rate_bps(&intervals))
    }
}

/// What arrived, a rival's part included, as a share of the payload that the bottleneck could have carried meanwhile.
fn utilisation(cell: &CellData) -> Result<f64, String> {
    let intervals = cell.received()?;
    let (first, last) = (intervals[0], intervals[intervals.len() - 1]);
    let span = cell.span_us(first).start..cell.span_us(last).end;
    let capacity = cell.capacity_bits(span).ok_or("the path's rate is not known")?;
    let bits: u64 = intervals.iter().chain(&cell.rival_received()?).map(|i| i.bytes() * 8).sum();
    Ok(bits as f64 / (capacity * cell.payload_share()))
}

fn queue_delay_us(cell: &CellData, q: f64) -> Result<f64, String> {
    if cell.wire().is_some() {
        return Err(format!("{NOT_ASKED}a wire has no bottleneck"));
    }
    percentile(&cell.queue_delays_us(), q, "answered probes")
}

fn retransmit_rate(cell: &CellData) -> Result<f64, String> {
    if cell.result.traffic.host_load.is_some() {
        return Err(format!("{NOT_ASKED}no bulk data"));
    }
    let load = cell.load.as_ref().map_err(String::clone)?;
    let segments = load.retransmits.ok_or("the sender does not count retransmissions")?;
    let again = (segments * load.mss_bytes.unwrap_or(1448)) as f64;
    Ok(again / (load.sent_bytes as f64 + again).max(1.0))
}

fn srtt_us(cell: &CellData) -> Result<f64, String> {
    let load = cell.load.as_ref().map_err(String::clone)?;
    let inside = load.sent.iter().filter(|i| cell.in_window(i));
    // A stream that has not begun has no RTT.
    let samples = inside.flat_map(|i| &i.srtt_us).filter(|us| **us > 0);
    let samples: Vec<f64> = samples.map(|us| *us as f64).collect();
    stats::median(&samples).ok_or_else(|| "the sender reports no RTT".into())
}

fn probe_loss(cell: &CellData) -> Result<f64, String> {
    if cell.wire().is_some() {
        return Err(format!("{NOT_ASKED}a wire has echoes of its own"));
    }
    let sent = cell.probes_in_window().count();
    let lost = cell.probes_in_window().filter(|p| p.rtt_us.is_none()).count();
    if sent == 0 { Err("no probes".into()) } else { Ok(lost as f64 / sent as f64) }
}

/// The sum of a counter of the link log, in the direction of the data, over the load phase.
fn link_sum(cell: &CellData, count: fn(&link::Bin) -> u64) -> Result<f64, String> {
    if cell.down.is_empty() {
        return Err("no link log".into());
    }
    let inside = cell.down.iter().filter(|b| (0..cell.load_us()).contains(&b.t_us));
    Ok(inside.map(count).sum::<u64>() as f64)
}

/// CPU time of one side for each GB that arrived, from the percent of one CPU that the load generator reports.
fn cpu_s_per_gb(cell: &CellData, side: fn(&Load) -> Option<f64>) -> Result<f64, String> {
    let load = cell.load.as_ref().map_err(String::clone)?;
    let percent = side(load).ok_or("no CPU time was measured")?;
    let (seconds, gb) = (load.received_us as f64 / 1e6, load.received_bytes as f64 / 1e9);
    if gb > 0.0 { Ok(percent / 100.0 * seconds / gb) } else { Err("nothing arrived".into()) }
}

/// The worst lateness of the emulator in each bin of the link log, both directions.
fn late_us(cell: &CellData) -> Result<Vec<f64>, String> {
    let inside = cell.down.iter().chain(&cell.up).filter(|b| (0..cell.load_us()).contains(&b.t_us));
    let late: Vec<f64> = inside.map(|b| b.late_us_max as f64).collect();
    if late.is_empty() { Err("no emulator".into()) } else { Ok(late) }
}

/// A percentile, or that there are too few of `what` for it.
fn percentile(values: &[f64], q: f64, what: &str) -> Result<f64, String> {
    stats::percentile(values, q)
        .map_err(|needed| format!("n too small: {} {what}, {needed} needed", values.len()))
}
