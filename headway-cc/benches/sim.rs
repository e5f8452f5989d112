//! Measures how fast the simulator is: `cargo bench -p headway-cc --bench sim [-- CC [SECONDS [RUNS [FLOWS]]]]`.
//!
//! Each row is for one number of flows: simulated data packets per second of wall time, nanoseconds per packet, and
//! the largest memory of the process so far. One flow runs over 100 Mbit/s, 40 ms, 1 BDP (the scenario of
//! `benches/ns3.sh`). N flows run over N × 10 Mbit/s, so that every flow has the same share. A row is the best of
//! RUNS (5). The last line says how much the cost of a packet grows from 10 to 1000 flows.

// A benchmark is what clocks are for; the library itself reads none.
#![allow(clippy::disallowed_methods)]

use headway_cc::sim::{FlowSpec, SimSpec, run};
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let cc = args.first().map_or("bbr1", String::as_str);
    let number = |i: usize| args.get(i).map(|s| s.parse::<u64>().expect("a whole number"));
    // `cargo test --benches` runs this without `--bench`, which only shows that it works.
    let is_measured = std::env::args().any(|a| a == "--bench");
    let (seconds, runs) = if is_measured { (60, 5) } else { (1, 1) };
    let (seconds, runs) = (number(1).unwrap_or(seconds), number(2).unwrap_or(runs));
    println!(
        "# cc flows rate_mbit simulated_s data_packets wall_s cpu_s packets_per_s ns_per_packet peak_kb"
    );
    if let Some(flows) = number(3) {
        row(cc, flows, seconds, runs);
        return;
    }
    let cost = [1, 10, 100, 1000].map(|flows| row(cc, flows, seconds, runs));
    let (wall, cpu) = (cost[3].0 / cost[1].0, cost[3].1 / cost[1].1);
    println!("# growth of the cost of a packet from 10 to 1000 flows: {wall:.2} (of CPU time: {cpu:.2})");
}

/// Prints one row and returns the nanoseconds of wall time and of CPU time per packet.
fn row(cc: &str, flows: u64, seconds: u64, runs: u64) -> (f64, f64) {
    let rate_mbit = if flows == 1 { 100 } else { 10 * flows };
    let simulated_ms = (seconds * 1000 * 100 / rate_mbit).max(seconds * 50);
    let path = format!("{rate_mbit}mbit 40ms queue=1bdp").parse().expect("a valid path");
    let start_us = |i: u64| i * 100_000 / flows;
    let flow = |i| FlowSpec { start_us: start_us(i), ..FlowSpec::bulk(cc) };
    let spec = SimSpec::new(path, (0..flows).map(flow).collect(), simulated_ms * 1000, 1);
    let (mut packets, mut wall_s, mut cpu_s) = (0, f64::INFINITY, f64::INFINITY);
    for _ in 0..runs {
        let (start, cpu_before_s) = (Instant::now(), on_cpu_s());
        let result = run(&spec).expect("a valid spec");
        wall_s = wall_s.min(start.elapsed().as_secs_f64());
        cpu_s = cpu_s.min(on_cpu_s() - cpu_before_s);
        packets = result.flows.iter().map(|f| f.sent_packets).sum();
    }
    let (rate, ns) = (packets as f64 / wall_s, wall_s * 1e9 / packets as f64);
    let simulated_s = simulated_ms as f64 / 1000.0;
    println!(
        "{cc} {flows} {rate_mbit} {simulated_s:.1} {packets} {wall_s:.3} {cpu_s:.3} {rate:.0} {ns:.1} {}",
        peak_kb()
    );
    (ns, cpu_s * 1e9 / packets as f64)
}

/// Seconds that this process spent on a CPU, which do not grow when other processes compete for it; 0 where the
/// system does not report them.
fn on_cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// Peak resident memory of this process in kB; 0 where the system does not report it.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
