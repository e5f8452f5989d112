//! `headway sim`: one simulated run, as a table or as JSON, and its packets in the formats of tcpdump and mahimahi.

use crate::error::usage;
use crate::interop::packets;
use crate::plan::PathEntry;
use crate::plan::time;
use crate::raw::folder::write_atomic;
use crate::stats;
use crate::sys::out;
use anyhow::{Result, anyhow, ensure};
use clap::{Args, value_parser};
use headway_cc::sim::{self, FlowRun, FlowSpec, Signals, SimRun, SimSpec};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct SimArgs {
    /// Controllers on the path, with commas
    #[arg(long, value_delimiter = ',', default_value = "bbr1")]
    cc: Vec<String>,
    /// A preset or a path text
    ///
    /// `headway list` shows the presets and the words of a path text.
    #[arg(long, default_value = "clean")]
    path: String,
    /// Flows of each controller
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=10_000))]
    flows: u32,
    /// Length in virtual time: 30, 90s or 2m
    ///
    /// A number alone is in seconds.
    #[arg(long, default_value = "30", value_name = "TIME", value_parser = length)]
    seconds: u32,
    /// Seed of every random choice
    ///
    /// The same seed gives the same run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Signals: exact or kernel
    ///
    /// What controllers are told about each packet that is acknowledged. exact: what the sender knew when it sent the
    /// packet. kernel: only what our code in a stock kernel can reconstruct of that when the ACK arrives.
    #[arg(long, value_parser = ["exact", "kernel"], hide_possible_values = true, default_value = "exact")]
    signals: String,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Write a capture, as tcpdump would at the sender
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write mahimahi's log of the link
    ///
    /// Of the direction that carries the data, in the format of `mm-link --downlink-log`.
    #[arg(long, value_name = "FILE")]
    mahimahi: Option<PathBuf>,
}

fn length(text: &str) -> Result<u32> {
    let seconds = time::seconds(text)?;
    ensure!((1..=86_400).contains(&seconds), "expected a time from 1s to 24h");
    Ok(seconds)
}

pub fn run(args: SimArgs) -> Result<ExitCode> {
    let path = usage(PathEntry::resolve(&args.path))?;
    let text = usage(simulate(&args, &path))?;
    out::print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the simulation, writes the files that were asked for, and returns what to print.
fn simulate(args: &SimArgs, path: &PathEntry) -> Result<String> {
    let flows = args.cc.iter().flat_map(|cc| vec![FlowSpec::bulk(cc); args.flows as usize]).collect();
    let mut spec = SimSpec::new(path.path()?, flows, u64::from(args.seconds) * 1_000_000, args.seed);
    spec.signals = if args.signals == "kernel" { Signals::Kernel } else { Signals::Exact };
    spec.packets = args.pcap.is_some() || args.mahimahi.is_some();
    let run = sim::run(&spec).map_err(|e| anyhow!("{e}"))?;
    if let Some(file) = &args.pcap {
        write_atomic(file, &packets::pcap(&run))?;
    }
    if let Some(file) = &args.mahimahi {
        write_atomic(file, &packets::mahimahi(&run, &spec.path))?;
    }
    let value = summary(&run, &spec, path);
    Ok(if args.json { format!("{value:#}\n") } else { table(&value) })
}

/// The run in numbers; names as in `results.csv`.
fn summary(run: &SimRun, spec: &SimSpec, path: &PathEntry) -> Value {
    let seconds = run.duration_us as f64 / 1e6;
    let rate = |f: &FlowRun| f.delivered_bytes as f64 * 8.0 / seconds;
    let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
    let flow = |f: &FlowRun| {
        json!({ "cc": f.cc, "goodput_bps": rate(f), "retransmit_rate": share(f.retransmitted_bytes, f.sent_bytes),
                "timeouts": f.timeouts, "min_rtt_us": f.min_rtt_us, "mean_rtt_us": f.mean_rtt_us,
                "max_rtt_us": f.max_rtt_us })
    };
    let delay = |rtt: u64| rtt.saturating_sub(run.base_rtt_us) as f64;
    let mut delays: Vec<f64> = run.probes.iter().filter_map(|p| p.rtt_us.map(delay)).collect();
    delays.sort_by(f64::total_cmp);
    let quantile =
        |q: f64| delays.get(((delays.len() as f64 * q) as usize).min(delays.len().saturating_sub(1)));
    let capacity_bits = spec.path.capacity_bits(0, run.duration_us * 1000);
    let payload_share = f64::from(run.mss) / f64::from(run.mss + sim::HEADER_BYTES);
    let total: f64 = run.flows.iter().map(rate).sum();
    let rates: Vec<f64> = run.flows.iter().map(rate).collect();
    let utilisation =
        (capacity_bits != u64::MAX).then(|| total * seconds / (capacity_bits as f64 * payload_share));
    json!({
        "path": path.name, "text": path.text, "seconds": seconds, "seed": spec.seed,
        "signals": if spec.signals == Signals::Kernel { "kernel" } else { "exact" }, "base_rtt_us": run.base_rtt_us,
        "goodput_bps": total, "utilisation": utilisation, "jain": stats::jain(&rates),
        "queue_delay_p50_us": quantile(0.5), "queue_delay_p95_us": quantile(0.95),
        "queue_delay_p99_us": quantile(0.99),
        "drop_packets": run.down.iter().map(|b| b.drop_packets).sum::<u64>(),
        "lost_packets": run.down.iter().map(|b| b.lost_packets).sum::<u64>(),
        "mark_packets": run.down.iter().map(|b| b.mark_packets).sum::<u64>(),
        "flows": run.flows.iter().map(flow).collect::<Vec<_>>(),
    })
}

fn table(v: &Value) -> String {
    let number =
        |v: &Value, factor: f64| v.as_f64().map_or_else(|| "-".to_string(), |n| format!("{:.2}", n * factor));
    let word = |key: &str| v[key].as_str().unwrap_or_default();
    let (text, signals) = (word("text"), word("signals"));
    let mut s = format!("{text}, {} s, seed {}, {signals} signals\n\n", v["seconds"], v["seed"]);
    let _ = writeln!(
        s,
        "{:<8}{:>16}{:>14}{:>10}{:>14}{:>14}",
        "cc", "goodput Mbit/s", "retransmit %", "timeouts", "mean RTT ms", "max RTT ms"
    );
    for f in v["flows"].as_array().into_iter().flatten() {
        let _ = writeln!(
            s,
            "{:<8}{:>16}{:>14}{:>10}{:>14}{:>14}",
            f["cc"].as_str().unwrap_or_default(),
            number(&f["goodput_bps"], 1e-6),
            number(&f["retransmit_rate"], 100.0),
            f["timeouts"].to_string(),
            number(&f["mean_rtt_us"], 1e-3),
            number(&f["max_rtt_us"], 1e-3)
        );
    }
    let _ = writeln!(
        s,
        "\nutilisation {} %, queueing delay p50 {} ms, p95 {} ms, p99 {} ms, Jain {}, dropped {}, lost {}, marked {} packets",
        number(&v["utilisation"], 100.0),
        number(&v["queue_delay_p50_us"], 1e-3),
        number(&v["queue_delay_p95_us"], 1e-3),
        number(&v["queue_delay_p99_us"], 1e-3),
        number(&v["jain"], 1.0),
        v["drop_packets"],
        v["lost_packets"],
        v["mark_packets"]
    );
    s
}
