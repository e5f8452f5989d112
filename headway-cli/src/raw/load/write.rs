//! Writing `load.json` of loads that iperf3 did not make: the fields that `iperf3 -J --get-server-output` prints, as
//! far as they are known, so that one reader judges all loads. The counters come as `headway_cc::sim` counts flows,
//! in bins of 100 ms.

use headway_cc::sim::{FlowBin, FlowRun, SimRun};
use serde_json::{Value, json};
use std::time::Duration;

/// The load of these flows of a simulated run; `maker` stands where iperf3 has its version.
pub fn sim_json(run: &SimRun, flows: &[FlowRun], maker: &str) -> String {
    // On one line, because a suite writes thousands of these files.
    format!("{}\n", load_value(run, flows, maker))
}

/// A load that this program made on a kernel, with the CPU time that its sending and its receiving end took.
pub fn kernel_json(run: &SimRun, flows: &[FlowRun], cpu: [Duration; 2]) -> String {
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

/// What iperf3 counts as sent: payload handed to the socket, without retransmissions.
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

/// The number of a stream. iperf3 numbers its streams by their file descriptors, the first of which is 5.
pub fn socket(index: usize) -> usize {
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
