//! Simulated runs: `--in sim`, as the text files of a cell's raw folder, so that the report reads it as it reads any
//! other.
//!
//! `load.json` has the fields that `iperf3 -J --get-server-output` has, as far as a simulation knows them: no CPU
//! time, and `start.version` says who wrote it. Layout and columns: `docs/architecture.md`.

use crate::observe::messages::{self, Sent};
use crate::plan::{Cell, Plan};
use crate::raw::cell::CellResult;
use anyhow::{Context, Result, anyhow};
use headway_cc::cc;
use headway_cc::quic::sim as quic;
use headway_cc::sim::{self, FlowBin, FlowRun, FlowSpec, LinkBin, SimRun, SimSpec};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

const LINK_COLUMNS: &str = "# t_us dir rate_bps in_packets in_bytes out_packets out_bytes drop_packets drop_bytes \
                            lost_packets mark_packets queue_bytes_max sojourn_us_max late_us_max";

/// Runs one cell in the simulator and writes its raw files into `dir`.
pub fn run_cell(plan: &Plan, cell: &Cell, dir: &Path) -> Result<()> {
    let traffic = plan.traffic(cell.path);
    let streams = traffic.streams as usize;
    let max_pacing_rate = traffic.pacing_bps.map_or(u64::MAX, |bps| bps / 8);
    let ours = FlowSpec {
        source: traffic.pattern.source(),
        max_pacing_rate,
        ..FlowSpec::bulk(cell.cc.controller())
    };
    let mut flows = vec![ours; streams];
    if let Some(rival) = &traffic.against {
        let flow = FlowSpec { extra_rtt_us: rival.extra_rtt_us, ..FlowSpec::bulk(&rival.cc) };
        flows.extend(vec![flow; streams]);
    }
    let path = plan.paths[cell.path].path()?;
    let mut spec = SimSpec::new(path, flows, u64::from(traffic.seconds) * 1_000_000, cell.seed);
    spec.messages = traffic.messages;
    spec.mtu = traffic.mtu;
    spec.trace = plan.trace;
    let run = match plan.transport.stack() {
        None => sim::run(&spec),
        Some(stack) => quic::run(stack, &spec),
    };
    let run = run.map_err(|e| anyhow!("{e}"))?;
    write_cell(&run, streams, dir)?;
    let mut result = CellResult::new(plan, cell, "ok");
    result.kernel = MAKER.into();
    result.base_rtt_us = run.base_rtt_us;
    result.write(dir)
}

/// Writes `load.json` of the first `ours` flows and `rival.json` of the others if there are any, `probe.txt`, `link.txt`
/// and, if there were any, `messages.txt` and `acks.txt` into `dir`, which exists.
pub fn write_cell(run: &SimRun, ours: usize, dir: &Path) -> Result<()> {
    let write = |name: &str, text: &str| {
        let file = dir.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    let (ours, rivals) = run.flows.split_at(ours.min(run.flows.len()));
    write("load.json", &load_json(run, ours, MAKER))?;
    if !rivals.is_empty() {
        write("rival.json", &load_json(run, rivals, MAKER))?;
    }
    write("probe.txt", &probe_txt(run))?;
    write("link.txt", &link_txt(run))?;
    if !run.datagrams.is_empty() {
        let sent = run.datagrams.iter().map(|d| Sent {
            due_us: d.due_us as i64,
            bytes: d.bytes,
            late_us: 0,
            delay_us: d.delay_us.map(|us| us as i64),
        });
        write("messages.txt", &messages::to_text(sent))?;
    }
    match acks_txt(run) {
        Some(text) => write("acks.txt", &text),
        None => Ok(()),
    }
}

const MAKER: &str = concat!("headway sim ", env!("CARGO_PKG_VERSION"));

/// What the iperf3 client of these flows would have printed; `maker` stands in for its version.
pub fn load_json(run: &SimRun, flows: &[FlowRun], maker: &str) -> String {
    // On one line: thousands of cells are a suite's usual run.
    format!("{}\n", load_value(run, flows, maker))
}

/// The same of a load that this program made on a kernel, with the CPU time of its sender and receiver.
pub fn kernel_load_json(run: &SimRun, flows: &[FlowRun], cpu: [Duration; 2]) -> String {
    let mut value = load_value(run, flows, concat!("headway ", env!("CARGO_PKG_VERSION")));
    let [host, remote] = cpu.map(|used| used.as_secs_f64() * 1e8 / run.duration_us as f64);
    value["end"]["cpu_utilization_percent"] = json!({ "host_total": host, "remote_total": remote });
    format!("{value}\n")
}

fn load_value(run: &SimRun, flows: &[FlowRun], maker: &str) -> Value {
    let seconds = run.duration_us as f64 / 1e6;
    let cc = flows.first().map_or("", |f| f.cc.as_str());
    let total = |of: fn(&FlowRun) -> u64| flows.iter().map(of).sum::<u64>();
    let (sent, received) = (total(new_bytes), total(|f| f.delivered_bytes));
    let sum = |bytes: u64, is_sender: bool| {
        json!({ "start": 0, "end": seconds, "seconds": seconds, "bytes": bytes,
                "bits_per_second": bytes as f64 * 8.0 / seconds, "sender": is_sender })
    };
    let mut sum_sent = sum(sent, true);
    sum_sent["retransmits"] = total(|f| f.retransmitted_packets).into();
    let streams: Vec<Value> = flows.iter().enumerate().map(|(i, f)| stream_end(i, f, seconds)).collect();
    json!({
        "start": {
            "version": maker,
            "tcp_mss_default": run.mss,
            "test_start": { "protocol": "TCP", "num_streams": flows.len(), "omit": 0,
                            "duration": seconds, "reverse": 0 },
        },
        "intervals": intervals(run, flows, true),
        "end": {
            "streams": streams, "sum_sent": sum_sent, "sum_received": sum(received, false),
            "sender_tcp_congestion": cc, "receiver_tcp_congestion": cc,
        },
        "server_output_json": { "intervals": intervals(run, flows, false) },
    })
}

/// Payload handed to the socket: what iperf3 counts as sent.
fn new_bytes(flow: &FlowRun) -> u64 {
    flow.sent_bytes - flow.retransmitted_bytes
}

fn stream_end(index: usize, flow: &FlowRun, seconds: f64) -> Value {
    let side = |bytes: u64, is_sender: bool| {
        json!({ "socket": socket(index), "start": 0, "end": seconds, "seconds": seconds, "bytes": bytes,
                "bits_per_second": bytes as f64 * 8.0 / seconds, "sender": is_sender })
    };
    let mut sender = side(new_bytes(flow), true);
    sender["retransmits"] = flow.retransmitted_packets.into();
    sender["max_snd_cwnd"] = flow.max_cwnd_bytes.into();
    sender["min_rtt"] = flow.min_rtt_us.into();
    sender["max_rtt"] = flow.max_rtt_us.into();
    sender["mean_rtt"] = flow.mean_rtt_us.into();
    json!({ "sender": sender, "receiver": side(flow.delivered_bytes, false) })
}

/// iperf3 names its streams by file descriptors, the first of which is 5.
fn socket(index: usize) -> usize {
    index + 5
}

fn intervals(run: &SimRun, flows: &[FlowRun], is_sender: bool) -> Vec<Value> {
    let bins = flows.iter().map(|f| f.bins.len()).min().unwrap_or(0);
    (0..bins).map(|bin| interval(run, flows, bin, is_sender)).collect()
}

fn interval(run: &SimRun, flows: &[FlowRun], bin: usize, is_sender: bool) -> Value {
    let (start, seconds) = ((bin as u64 * run.bin_us) as f64 / 1e6, run.bin_us as f64 / 1e6);
    let row = |bytes: u64| {
        json!({ "start": start, "end": (bin as u64 + 1) as f64 * run.bin_us as f64 / 1e6, "seconds": seconds,
                "bytes": bytes, "bits_per_second": bytes as f64 * 8.0 / seconds, "omitted": false,
                "sender": is_sender })
    };
    let bytes = |b: &FlowBin| {
        let again = b.retransmitted_packets * u64::from(run.mss);
        if is_sender { b.sent_bytes.saturating_sub(again) } else { b.delivered_bytes }
    };
    let (mut streams, mut total, mut again) = (Vec::new(), 0, 0);
    for (index, b) in flows.iter().map(|f| &f.bins[bin]).enumerate() {
        let mut stream = row(bytes(b));
        stream["socket"] = socket(index).into();
        if is_sender {
            stream["retransmits"] = b.retransmitted_packets.into();
            stream["snd_cwnd"] = b.cwnd_bytes.into();
            stream["rtt"] = b.srtt_us.into();
        }
        streams.push(stream);
        total += bytes(b);
        again += b.retransmitted_packets;
    }
    let mut sum = row(total);
    if is_sender {
        sum["retransmits"] = again.into();
    }
    json!({ "streams": streams, "sum": sum })
}

/// The latency probe's rows.
pub fn probe_txt(run: &SimRun) -> String {
    let mut text = String::from("# sent_us rtt_us\n");
    for probe in &run.probes {
        let rtt = probe.rtt_us.map_or_else(|| "-".to_string(), |rtt| rtt.to_string());
        writeln!(text, "{} {rtt}", probe.sent_us).expect("writing to memory");
    }
    text
}

/// The bottleneck's log; nothing is ever late in virtual time.
pub fn link_txt(run: &SimRun) -> String {
    let mut text = format!("{LINK_COLUMNS}\n");
    for (down, up) in run.down.iter().zip(&run.up) {
        for (dir, bin) in [("down", down), ("up", up)] {
            writeln!(text, "{}", link_row(dir, bin)).expect("writing to memory");
        }
    }
    text
}

fn link_row(dir: &str, bin: &LinkBin) -> String {
    let rate = bin.rate_bps.map_or_else(|| "-".to_string(), |rate| rate.to_string());
    let counters = [
        bin.in_packets,
        bin.in_bytes,
        bin.out_packets,
        bin.out_bytes,
        bin.drop_packets,
        bin.drop_bytes,
        bin.lost_packets,
        bin.mark_packets,
        bin.queue_bytes_max,
        bin.sojourn_us_max,
        0,
    ];
    format!("{} {dir} {rate} {}", bin.t_us, counters.map(|n| n.to_string()).join(" "))
}

/// The events of all flows that use the first flow's controller, flow after flow; `None` when nothing was traced.
pub fn acks_txt(run: &SimRun) -> Option<String> {
    let traced = &run.flows.iter().find(|f| !f.trace.is_empty())?.cc;
    let (name, settings) = cc::name_and_settings(traced);
    let columns = cc::trace_columns(name, &*cc::controller(traced).ok()?);
    let mut text = cc::trace_header(&columns, &settings.collect::<Vec<_>>());
    for (index, flow) in run.flows.iter().enumerate().filter(|(_, f)| f.cc == *traced) {
        for row in &flow.trace {
            let words =
                row.ack.words().into_iter().chain(row.control.words()).chain(row.state.iter().copied());
            let words: Vec<String> = words.map(|w| w.to_string()).collect();
            writeln!(text, "{index}:{} {}", socket(index), words.join(" ")).expect("writing to memory");
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_cc::sim::{FlowSpec, SimSpec, run};

    fn sample(trace: bool) -> SimRun {
        let path = "20mbit 40ms queue=1bdp loss=0.5%".parse().unwrap();
        let mut spec = SimSpec::new(path, vec![FlowSpec::bulk("bbr1"), FlowSpec::bulk("bbr1")], 2_000_000, 3);
        spec.trace = trace;
        run(&spec).unwrap()
    }

    #[test]
    fn load_agrees_with_the_run() {
        let run = sample(false);
        let value: Value = serde_json::from_str(&load_json(&run, &run.flows, MAKER)).unwrap();
        let delivered: u64 = run.flows.iter().map(|f| f.delivered_bytes).sum();
        assert_eq!(value["end"]["sum_received"]["bytes"], delivered);
        assert_eq!(value["end"]["sender_tcp_congestion"], "bbr1");
        assert_eq!(value["start"]["tcp_mss_default"], 1448);
        for (side, total) in [(&value, "sum_sent"), (&value["server_output_json"], "sum_received")] {
            let intervals = side["intervals"].as_array().unwrap();
            assert_eq!(intervals.len(), 20);
            let bytes: u64 = intervals.iter().map(|i| i["sum"]["bytes"].as_u64().unwrap()).sum();
            let all = value["end"][total]["bytes"].as_u64().unwrap();
            assert_eq!(bytes, all, "bins reach to the end of the run: {total}");
            assert_eq!(intervals[3]["streams"].as_array().unwrap().len(), 2);
        }
        let again = value["end"]["sum_sent"]["retransmits"].as_u64().unwrap();
        assert!(again > 0 && again == run.flows.iter().map(|f| f.retransmitted_packets).sum::<u64>());
    }

    #[test]
    fn tables_have_the_columns_they_name() {
        let run = sample(true);
        for text in [probe_txt(&run), link_txt(&run), acks_txt(&run).unwrap()] {
            let columns = text.lines().next().unwrap().strip_prefix("# ").unwrap().split(' ').count();
            assert!(text.lines().skip(1).count() >= 40);
            assert!(text.lines().skip(1).all(|l| l.split(' ').count() == columns));
        }
        assert_eq!(link_txt(&run).lines().count(), 1 + 2 * 20);
        assert!(probe_txt(&run).contains(" -\n"), "some probes were lost or are still on their way");
        assert!(acks_txt(&sample(false)).is_none());
    }

    #[test]
    fn the_trace_of_a_controller_with_settings_replays() {
        for cc in ["bbr3", "bbr3_brake:brake=2", "bbr1:high_gain=2:cwnd_gain=3"] {
            let path = "20mbit 40ms queue=1bdp loss=0.5% @1s 5mbit".parse().unwrap();
            let mut spec = SimSpec::new(path, vec![FlowSpec::bulk(cc)], 2_000_000, 3);
            spec.trace = true;
            let report = headway_kernel::replay(&acks_txt(&run(&spec).unwrap()).unwrap()).unwrap();
            assert!(cc.starts_with(report.cc) && report.events > 100, "{cc}: {report:?}");
        }
    }

    #[test]
    fn cell_is_written_or_the_reason_named() {
        let dir = std::env::temp_dir().join(format!("headway-simcell-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        write_cell(&sample(true), 1, &dir).unwrap();
        for name in ["load.json", "probe.txt", "link.txt", "acks.txt"] {
            assert!(std::fs::metadata(dir.join(name)).unwrap().len() > 100, "{name}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
        let error = write_cell(&sample(false), 1, &dir).unwrap_err().to_string();
        assert!(error.contains("cannot write") && error.contains("load.json"), "{error}");
    }
}
