use headway_cc::sim::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: u64 = a[1].parse().unwrap();
    let ms: u64 = a[2].parse().unwrap();
    let rate = if n == 1 { 100 } else { 10 * n };
    let path = format!("{rate}mbit 40ms queue=1bdp").parse().unwrap();
    let flows = (0..n).map(|i| FlowSpec { start_us: i * 100_000 / n, ..FlowSpec::bulk(&a[3]) }).collect();
    let r = run(&SimSpec::new(path, flows, ms * 1000, 1)).unwrap();
    let t = |f: fn(&FlowRun) -> u64| r.flows.iter().map(f).sum::<u64>();
    println!(
        "{} retx {} timeouts {} acks {}",
        t(|f| f.sent_packets),
        t(|f| f.retransmitted_packets),
        t(|f| f.timeouts),
        r.up.iter().map(|b| b.in_packets).sum::<u64>()
    );
}
