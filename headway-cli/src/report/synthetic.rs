//! Run folders that nobody measured, for tests of everything that reads one: in the layout of `docs/architecture.md`,
//! from fixed seeds, with series that look like a model-based and a loss-based controller. No figure in them says
//! anything about a real controller.

use crate::plan::{Cell, LAYOUT, PathEntry, Place, Plan};
use crate::raw;
use crate::raw::link::Bin;
use crate::raw::messages::Sent;
use crate::raw::probe::Probe;
use serde_json::{Value, json};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A folder that is removed when it goes out of scope. To look at one, set `HEADWAY_KEEP` to the folder in which it
/// stays.
#[derive(Debug)]
pub struct Folder {
    pub dir: PathBuf,
    keep: bool,
}

impl Folder {
    pub fn new(name: &str) -> Self {
        let keep = std::env::var_os("HEADWAY_KEEP");
        let root = keep.as_ref().map_or_else(std::env::temp_dir, PathBuf::from);
        let dir = root.join(match keep {
            Some(_) => name.to_string(),
            None => format!("headway-report-{}-{name}", std::process::id()),
        });
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Self { dir, keep: keep.is_some() }
    }

    pub fn cell(&self, index: usize) -> PathBuf {
        self.dir.join("cells").join(format!("{index:03}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

pub const SECONDS: u32 = 20;
const BIN_MS: u64 = 100;

/// A whole run: three paths, `bbr`, `bbr1` (the same shape from other draws) and `cubic`.
pub fn run(name: &str, blocks: u32) -> Folder {
    let folder = Folder::new(name);
    let plan = plan(blocks);
    write(&folder.dir.join("plan.json"), &serde_json::to_string_pretty(&plan).unwrap());
    let command = "headway bench --cc bbr,bbr1,cubic --path clean,drop,lossy --blocks 10 --seconds 20";
    let env = json!({
        "command": command, "seed": 1, "cpu": { "model": "Example CPU @ 2.00GHz", "count": 2 },
        "sysctl": { "net.ipv4.tcp_rmem": "4096 131072 6291456", "net.core.default_qdisc": "pfifo_fast" },
        "tools": { "iperf3": "iperf 3.12", "qemu": "7.2.0" },
    });
    write(&folder.dir.join("env.json"), &env.to_string());
    for cell in &plan.cells {
        write_cell(&folder, &plan, cell);
    }
    folder
}

pub fn plan(blocks: u32) -> Plan {
    let paths = [
        ("clean", "100mbit 40ms queue=1bdp"),
        ("drop", "100mbit 40ms queue=1bdp @8s 20mbit @14s 100mbit"),
        ("lossy", "50mbit 200ms queue=1bdp loss=0.1%"),
    ];
    let ccs = ["bbr", "bbr1", "cubic"].map(String::from).to_vec();
    let mut random = SplitMix(7);
    let mut cells = Vec::new();
    for block in 0..blocks {
        let mut mates: Vec<(usize, &String)> =
            (0..paths.len()).flat_map(|p| ccs.iter().map(move |c| (p, c))).collect();
        while !mates.is_empty() {
            let (path, cc) = mates.swap_remove((random.next() * mates.len() as f64) as usize);
            let seed = u64::from(block) * 10 + path as u64;
            cells.push(Cell { index: cells.len(), path, cc: cc.as_str().into(), block, seed });
        }
    }
    let entry = |(name, text): (&str, &str)| PathEntry {
        name: name.into(),
        text: text.into(),
        ..PathEntry::default()
    };
    // Made from JSON, so that optional fields can be added to a plan without a change here.
    let plan = json!({
        "layout": LAYOUT, "place": Place::Lab, "ccs": ccs, "paths": paths.map(entry), "streams": 1, "blocks": blocks,
        "seconds": SECONDS, "warmup_ms": 5000, "seed": 1, "trace": false, "cells": cells,
    });
    serde_json::from_value(plan).unwrap()
}

/// Rate, base RTT and share of lost packets at a time.
fn path_at(path: usize, t_ms: u64) -> (f64, u64, f64) {
    match (path, t_ms) {
        (0, _) => (100e6, 40_000, 0.0),
        (1, 8000..14000) => (20e6, 40_000, 0.0),
        (1, _) => (100e6, 40_000, 0.0),
        _ => (50e6, 200_000, 0.001),
    }
}

/// One 100 ms step of a flow.
struct Step {
    rate_bps: f64,
    goodput_bytes: u64,
    queue_us: f64,
    retransmits: u64,
}

/// What a flow gets and how long its queue is. The shapes are plausible and no more: a model-based flow holds a small
/// queue and drains it now and then; a loss-based one saws between half a buffer and a full one, and collapses where
/// packets are lost at random.
fn steps(cc: &str, path: usize, seed: u64) -> Vec<Step> {
    let mut random = SplitMix(seed.wrapping_mul(31) + cc.len() as u64 * 7919);
    let (_, rtt_us, _) = path_at(path, 0);
    let ramp = 12.0 * rtt_us as f64 / 1e6 + random.next() * 0.1;
    let (mut queue, mut loss_based_share) = (0.3, 0.6);
    let mut previous = path_at(path, 0).0;
    let (luck, fullness) = (1.0 - 0.012 * random.next(), 0.9 + 0.2 * random.next());
    let mut step = |t_ms: u64| {
        let (rate_bps, _, loss) = path_at(path, t_ms);
        let t = t_ms as f64 / 1e3;
        let start = (t / ramp).min(1.0).powi(2);
        let mut retransmits =
            (rate_bps * 0.1 / 12_000.0 * loss * (0.5 + random.next()) + random.next()) as u64;
        if loss == 0.0 {
            retransmits = 0;
        }
        if rate_bps < previous {
            (queue, retransmits) = (1.0, retransmits + 250);
        }
        previous = rate_bps;
        let share = if cc == "cubic" {
            queue += 0.012 + 0.01 * random.next();
            if queue > 1.0 {
                (queue, retransmits) = (0.45, retransmits + 20 + (random.next() * 20.0) as u64);
            }
            let target = if loss > 0.0 { 0.25 } else { 0.995 };
            loss_based_share += (target - loss_based_share) * 0.2;
            if loss > 0.0 { loss_based_share + 0.1 * random.next() } else { 0.985 + 0.012 * random.next() }
        } else {
            let probing = if (t * 2.5).fract() < 0.13 { 0.25 } else { 0.08 };
            queue += (probing - queue) * 0.35;
            let draining = (t % 10.0) > 9.6;
            if draining { 0.45 } else { 0.955 + 0.03 * random.next() }
        };
        let queue_us =
            if cc == "cubic" && loss > 0.0 { 2000.0 * random.next() } else { queue * rtt_us as f64 };
        let goodput_bytes = (rate_bps / 8.0 * 0.1 * 1448.0 / 1500.0 * share * luck * start) as u64;
        Step { rate_bps, goodput_bytes, queue_us: queue_us * fullness * start, retransmits }
    };
    (0..u64::from(SECONDS) * 1000 / BIN_MS).map(|bin| step(bin * BIN_MS)).collect()
}

fn write_cell(folder: &Folder, plan: &Plan, cell: &Cell) {
    let dir = folder.cell(cell.index);
    fs::create_dir_all(&dir).unwrap();
    let steps = steps(cell.cc.as_str(), cell.path, cell.seed);
    let (_, base_rtt_us, loss) = path_at(cell.path, 0);
    let result = json!({
        "layout": LAYOUT, "cell": cell, "path": plan.paths[cell.path], "place": plan.place, "streams": 1,
        "seconds": SECONDS, "warmup_ms": plan.traffic.warmup_ms, "kernel": "6.12.107+deb13-cloud-amd64", "status": "ok",
        "sender_cc": cell.cc, "base_rtt_us": base_rtt_us,
    });
    write(&dir.join("load.json"), &load(cell.cc.as_str(), &steps, base_rtt_us).to_string());
    write(&dir.join("probe.txt"), &probes(&steps, base_rtt_us, loss, cell.seed));
    write(&dir.join("link.txt"), &link(&steps));
    write(&dir.join("cell.json"), &result.to_string());
}

fn load(cc: &str, steps: &[Step], base_rtt_us: u64) -> Value {
    let total: u64 = steps.iter().map(|s| s.goodput_bytes).sum();
    let retransmits: u64 = steps.iter().map(|s| s.retransmits).sum();
    let intervals = |sender: bool| -> Vec<Value> {
        let one = |(i, s): (usize, &Step)| {
            let (start, end) = (i as f64 / 10.0, (i + 1) as f64 / 10.0);
            let mut stream =
                json!({ "start": start, "end": end, "bytes": s.goodput_bytes, "sender": sender });
            let mut sum = json!({ "start": start, "end": end, "omitted": false });
            if sender {
                stream["rtt"] = json!(base_rtt_us + s.queue_us as u64);
                stream["snd_cwnd"] = json!(s.goodput_bytes * 4);
                sum["retransmits"] = json!(s.retransmits);
            }
            json!({ "streams": [stream], "sum": sum })
        };
        steps.iter().enumerate().map(one).collect()
    };
    json!({
        "start": { "version": "iperf 3.12", "tcp_mss_default": 1448, "connected": [{ "local_port": 40000 }],
                   "test_start": { "duration": SECONDS } },
        "intervals": intervals(true),
        "end": {
            "sum_sent": { "bytes": total, "retransmits": retransmits },
            "sum_received": { "bytes": total, "end": f64::from(SECONDS) },
            "cpu_utilization_percent": { "host_total": 6.0, "remote_total": 8.0 },
            "sender_tcp_congestion": cc, "receiver_tcp_congestion": cc,
        },
        "server_output_json": { "intervals": intervals(false) },
    })
}

fn probes(steps: &[Step], base_rtt_us: u64, loss: f64, seed: u64) -> String {
    let mut random = SplitMix(seed + 99);
    let probes = (-50i64..i64::from(SECONDS) * 50).map(|i| {
        let queue = if i < 0 { 0.0 } else { steps[(i / 5) as usize].queue_us };
        let rtt = base_rtt_us as f64 + queue * (0.9 + 0.2 * random.next()) + 60.0 * random.next();
        let is_lost = random.next() < loss;
        Probe { sent_us: i * 20_000, rtt_us: (!is_lost).then(|| rtt.round_ties_even() as i64) }
    });
    raw::probe::to_text(probes, 0)
}

fn link(steps: &[Step]) -> String {
    let bins = |(i, s): (usize, &Step)| {
        let packets = s.goodput_bytes / 1448 + 20;
        let bin = |bytes: u64| Bin {
            t_us: (i as u64 * BIN_MS * 1000) as i64,
            in_packets: packets,
            in_bytes: packets * bytes,
            out_packets: packets,
            out_bytes: packets * bytes,
            late_us_max: 20 + i as u64 % 37,
            ..Bin::default()
        };
        let down = Bin {
            rate_bps: Some(s.rate_bps as u64),
            drop_packets: s.retransmits,
            drop_bytes: s.retransmits * 1500,
            queue_bytes_max: 9000,
            sojourn_us_max: s.queue_us as u64,
            ..bin(1500)
        };
        [down, Bin { queue_bytes_max: 100, sojourn_us_max: 10, ..bin(52) }]
    };
    raw::link::to_text(steps.iter().enumerate().map(bins))
}

/// Cells for a plan's file that nobody ran: these candidates on these paths in so many blocks.
pub fn cells(ccs: &[&str], paths: Range<usize>, blocks: u32) -> Value {
    let block = |block| paths.clone().flat_map(move |path| ccs.iter().map(move |cc| (block, path, cc)));
    let cells = (0..blocks).flat_map(block).enumerate();
    cells
        .map(|(n, (block, path, cc))| json!({ "index": 9000 + n, "path": path, "cc": cc, "block": block, "seed": 1 }))
        .collect()
}

/// Lets the receiver of a cell get a tenth of the data from `from_s` on.
pub fn slow_down(folder: &Folder, cell: usize, from_s: f64) {
    let file = folder.cell(cell).join("load.json");
    let mut load: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    for interval in load["server_output_json"]["intervals"].as_array_mut().unwrap() {
        if interval["sum"]["start"].as_f64().unwrap() >= from_s {
            let bytes = &mut interval["streams"][0]["bytes"];
            *bytes = json!(bytes.as_u64().unwrap() / 10);
        }
    }
    write(&file, &load.to_string());
}

/// Adds a hundred messages a second to every cell. They take 20 to 30 ms, with `cubic` 100 ms more; one in a hundred
/// is lost.
pub fn add_messages(folder: &Folder) {
    let plan = folder.dir.join("plan.json");
    edit(&plan, "messages", json!("200@100"));
    let text = fs::read_to_string(&plan).unwrap();
    let plan: Plan = serde_json::from_str(&text).unwrap();
    for cell in &plan.cells {
        let dir = folder.cell(cell.index);
        edit(&dir.join("cell.json"), "messages", json!("200@100"));
        let extra_us = if cell.cc == "cubic" { 100_000 } else { 0 };
        let messages = (0..i64::from(SECONDS) * 100).map(|n| Sent {
            due_us: n * 10_000,
            bytes: 200,
            late_us: 0,
            delay_us: (n % 100 != 0).then_some(20_000 + extra_us + 1000 * (n % 11)),
        });
        write(&dir.join("messages.txt"), &raw::messages::to_text(messages));
    }
}

pub fn write(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
}

/// Rewrites one key of a JSON file.
pub fn edit(file: &Path, key: &str, value: Value) {
    let mut json: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    json[key] = value;
    write(file, &json.to_string());
}

struct SplitMix(u64);

impl SplitMix {
    /// Uniform in 0 .. 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}
