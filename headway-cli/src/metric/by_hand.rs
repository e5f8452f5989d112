//! Every metric of hand-made cells, against values worked out by hand. A range would do for a plausible figure; only an equal
//! sign finds a warm-up that is counted, a header that is forgotten or a direction that is mixed up.

use super::{CellData, METRICS, NOT_ASKED, find, index_of};
use crate::plan::{LAYOUT, PathEntry};
use crate::raw;
use crate::raw::link::Bin;
use crate::raw::messages::Sent;
use crate::raw::probe::Probe;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// What a metric must be: a value, or how the reason begins for which there is none.
type Expected = Result<f64, &'static str>;

const NO_WIRE: Expected = Err("not asked for: hosts are measured on a wire");
const NO_BULK: Expected = Err("not asked for");

fn entry(path: &str) -> PathEntry {
    PathEntry { name: path.into(), text: path.into(), ..PathEntry::default() }
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("headway-by-hand-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap();
    }

    /// `cell.json` of 10 s with 1 s of warm-up, and what is more in it.
    fn cell(&self, path: &str, more: &Value) {
        let mut cell = json!({
            "layout": LAYOUT, "cell": { "index": 0, "path": 0, "cc": "bbr", "block": 0, "seed": 1 },
            "path": entry(path), "place": "lab", "streams": 2, "seconds": 10, "warmup_ms": 1000, "kernel": "6.12",
            "status": "ok", "sender_cc": "bbr", "base_rtt_us": 40_000,
        });
        cell.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.write("cell.json", &cell.to_string());
    }

    fn read(&self, path: &str) -> CellData {
        CellData::read(&self.0, &entry(path)).unwrap()
    }

    fn value(&self, metric: &str) -> f64 {
        (METRICS[index_of(metric)].of)(&self.read(PATH)).unwrap()
    }

    fn compare(&self, path: &str, expected: &[(&str, Expected)]) {
        let cell = self.read(path);
        let expected: BTreeMap<&str, Expected> = expected.iter().copied().collect();
        for metric in METRICS {
            let wanted = expected.get(metric.name);
            let wanted = wanted.unwrap_or_else(|| panic!("{} has no value by hand", metric.name));
            match ((metric.of)(&cell), wanted) {
                (Ok(value), Ok(by_hand)) => assert!(
                    (value - by_hand).abs() <= 1e-9 * by_hand.abs(),
                    "{}: {value}, and by hand {by_hand}",
                    metric.name
                ),
                (Err(reason), Err(by_hand)) if reason.starts_with(by_hand) => {}
                (value, by_hand) => panic!("{}: {value:?}, and by hand {by_hand:?}", metric.name),
            }
        }
    }
}

/// `load.json` of streams that deliver these bytes in each of a hundred intervals of 0.1 s.
fn load(mss: u64, sent: u64, again: u64, delivered: &dyn Fn(u64) -> Vec<u64>) -> Value {
    let interval = |is_sender: bool, n: u64| {
        let (start, end) = (n as f64 / 10.0, (n + 1) as f64 / 10.0);
        let stream = |(number, bytes): (usize, u64)| {
            // The first stream's smoothed RTT is 50 ms, the second's 60.
            json!({ "start": start, "end": end, "bytes": bytes, "sender": is_sender,
                    "rtt": 50_000 + 10_000 * number, "snd_cwnd": 100_000 })
        };
        let streams: Vec<Value> = delivered(n).into_iter().enumerate().map(stream).collect();
        json!({ "streams": streams, "sum": { "start": start, "end": end, "omitted": false, "retransmits": 0 } })
    };
    let side = |is_sender| (0..100).map(|n| interval(is_sender, n)).collect::<Vec<_>>();
    let total: u64 = (0..100).flat_map(delivered).sum();
    json!({
        "start": { "version": "iperf 3.12", "tcp_mss_default": mss, "connected": [{ "local_port": 40_000 }],
                   "test_start": { "duration": 10 } },
        "intervals": side(true),
        "end": {
            "sum_sent": { "bytes": sent, "retransmits": again },
            "sum_received": { "bytes": total, "end": 10.0 },
            "cpu_utilization_percent": { "host_total": 6.0, "remote_total": 8.0 },
            "sender_tcp_congestion": "bbr", "receiver_tcp_congestion": "bbr",
        },
        "server_output_json": { "intervals": side(false) },
    })
}

const PATH: &str = "10mbit 40ms queue=1bdp @2s 5mbit @6s 10mbit";

/// Two streams. At 10 Mbit/s 125,000 bytes fit into an interval, of which 1000 of 1052 are data (MSS 1000): 118,821, of which
/// 90 % are 106,939.
fn delivered(n: u64) -> Vec<u64> {
    match n {
        0..5 => vec![40_000, 20_000],
        5..20 | 80..100 => vec![80_000, 35_000],
        20..60 => vec![40_000, 15_000],
        _ => vec![50_000, 20_000],
    }
}

/// A cell on the path: everything but the rival.
fn on_the_path(folder: &Folder, more: &Value) {
    folder.cell(PATH, more);
    // 79 segments again, beside 8 MB of data.
    folder.write("load.json", &load(1000, 8_000_000, 79, &delivered).to_string());
    // Every 20 ms, also before the start. Number 7 of 50 is not answered, number 8 is quicker than the path itself can be,
    // and the others wait for as many milliseconds as their number. Before the warm-up ends, all wait for a second.
    let probe = |i: i64| {
        let rtt_us = match i.rem_euclid(50) {
            _ if i < 50 => Some(1_040_000),
            7 => None,
            8 => Some(39_000),
            number => Some(40_000 + 1000 * number),
        };
        Probe { sent_us: i * 20_000, rtt_us }
    };
    folder.write("probe.txt", &raw::probe::to_text((-5..500).map(probe), 0));
    // Down in each bin 2 drops, 1 loss and 3 marks; up 5 of each, which are no data. What came before the start is not counted.
    let bin = |n: i64| {
        let down = Bin {
            t_us: n * 100_000,
            rate_bps: Some(if (20..60).contains(&n) { 5_000_000 } else { 10_000_000 }),
            in_packets: 100,
            in_bytes: if n < 0 { 0 } else { 125_000 },
            drop_packets: if n < 0 { 50 } else { 2 },
            lost_packets: 1,
            mark_packets: 3,
            late_us_max: 100,
            ..Bin::default()
        };
        let up = Bin {
            t_us: n * 100_000,
            drop_packets: 5,
            lost_packets: 5,
            mark_packets: 5,
            late_us_max: if n < 0 { 9_999 } else { 700 + n.unsigned_abs() },
            ..Bin::default()
        };
        [down, up]
    };
    folder.write("link.txt", &raw::link::to_text((-1..100).map(bin)));
    // A hundred a second: number 99 of each is lost, the others take 20 ms and their number. In the warm-up all take a second.
    let message = |n: i64| Sent {
        due_us: n * 10_000,
        bytes: 200,
        late_us: 0,
        delay_us: match n % 100 {
            _ if n < 100 => Some(1_000_000),
            99 => None,
            number => Some(20_000 + 1000 * number),
        },
    };
    folder.write("messages.txt", &raw::messages::to_text((0..1000).map(message)));
}

/// What a cell on the path has of its own.
fn expected_on_the_path() -> Vec<(&'static str, Expected)> {
    vec![
        // 891 arrived, 9 of each value: rank 883 of 891 lies in the 99th, rank 446 in the 50th.
        ("message_delay_p99_us", Ok(118_000.0)),
        ("message_delay_p50_us", Ok(69_000.0)),
        ("message_delay_p999_us", Err("n too small: 891")),
        ("message_delay_max_us", Ok(118_000.0)),
        // 31 to 98 ms more than 20 are above 50 ms: 68 values, 9 times each, and the 9 that were lost, at 10 ms each.
        ("message_over_50ms_s", Ok(6.21)),
        ("message_over_100ms_s", Ok(1.71)),
        ("message_over_200ms_s", Ok(0.09)),
        ("message_loss", Ok(0.01)),
        // From 1 s on: 10 · 115,000 + 40 · 55,000 + 20 · 70,000 + 20 · 115,000 = 7,050,000 bytes in 9 s.
        ("goodput_bps", Ok(7_050_000.0 * 8.0 / 9.0)),
        // The path carries 10 + 4 · 5 + 4 · 10 = 70 Mbit in them.
        ("utilisation", Ok(56.4 / 70.0 * 1.052)),
        // 441 answers, 9 of each value; 0 ms twice, for numbers 0 and 8. Ranks 419, 221 and 437.
        ("queue_delay_p95_us", Ok(47_000.0)),
        ("queue_delay_p50_us", Ok(25_000.0)),
        ("queue_delay_p99_us", Ok(49_000.0)),
        ("probe_loss", Ok(0.02)),
        ("retransmit_rate", Ok(79_000.0 / 8_079_000.0)),
        // The sixth interval is the first with 115,000 bytes.
        ("time_to_90_ms", Ok(600.0)),
        // From 2 s on 392 answers, 8 of each value: rank 389.
        ("queue_delay_p99_after_drop_us", Ok(49_000.0)),
        // 5,900,000 bytes, of 4 · 5 + 4 · 10 = 60 Mbit.
        ("utilisation_after_drop", Ok(47.2 / 60.0 * 1.052)),
        // A second that begins at 7.9 s has 70,000 + 9 · 115,000 bytes, and 1,069,392 are 90 %; one that begins at 7.8 has less.
        ("time_to_90_after_recovery_ms", Ok(2000.0)),
        ("srtt_us", Ok(55_000.0)),
        ("drop_packets", Ok(200.0)),
        ("lost_packets", Ok(100.0)),
        ("mark_packets", Ok(300.0)),
        // 6 and 8 % of 10 s, for 300,000 + 575,000 + 7,050,000 bytes.
        ("cpu_s_per_gb", Ok(0.6 / 0.007_925)),
        ("receiver_cpu_s_per_gb", Ok(0.8 / 0.007_925)),
        // The streams got 5,000,000 and 2,050,000 bytes: (a + b)² / 2 (a² + b²).
        ("jain", Ok(49_702_500.0 / 58_405_000.0)),
        // 40:20, 80:35, 40:15 and 50:20 are at most 0.9.
        ("time_to_fair_ms", Ok(10_000.0)),
        ("rival_goodput_bps", Err("not asked for: nobody competed")),
        ("emu_late_p99_us", Err("n too small: 200")),
        ("emu_late_max_us", Ok(799.0)),
        ("request_p99_us", Err("not asked for: no requests")),
        ("request_p50_us", Err("not asked for: no requests")),
        ("request_p999_us", Err("not asked for: no requests")),
        ("requests_per_s", Err("not asked for: no requests")),
        ("request_loss", Err("not asked for: no requests")),
        ("flood_loss", Err("not asked for: no flood")),
        ("ping_mean_us", NO_WIRE),
        ("ping_p50_us", NO_WIRE),
        ("ping_p99_us", NO_WIRE),
        ("machine_s_per_gb", NO_WIRE),
        ("machine_us_per_request", Err("not asked for: no requests")),
        ("napi_polls_per_s", NO_WIRE),
        ("napi_packets_per_poll", NO_WIRE),
        ("napi_squeezes_per_s", NO_WIRE),
        ("softirq_share", NO_WIRE),
    ]
}

/// The list with some of its values replaced.
fn but(
    mut list: Vec<(&'static str, Expected)>,
    with: &[(&'static str, Expected)],
) -> Vec<(&'static str, Expected)> {
    list.extend_from_slice(with);
    list
}

#[test]
fn on_a_path_every_metric_is_what_it_is_by_hand() {
    let folder = Folder::new("path");
    on_the_path(&folder, &json!({ "messages": "200@100" }));
    folder.compare(PATH, &expected_on_the_path());
}

/// Number 8 of 50 probes is quicker than the path itself can be, and has waited for no time as number 0 has, not for less: nine of each.
#[test]
fn no_probe_has_waited_for_less_than_no_time() {
    let folder = Folder::new("quick");
    on_the_path(&folder, &json!({ "messages": "200@100" }));
    let delays = folder.read(PATH).queue_delays_us();
    assert_eq!(delays.len(), 441);
    assert_eq!(delays.iter().filter(|delay| **delay == 0.0).count(), 18);
}

/// Without the receiver's intervals only the sum of the whole load is known, its warm-up included: 300,000 + 575,000 + 7,050,000
/// bytes in 10 s.
#[test]
fn goodput_without_the_receiver_s_intervals_is_that_of_the_whole_load() {
    let folder = Folder::new("unheard");
    on_the_path(&folder, &json!({ "messages": "200@100" }));
    let mut load = load(1000, 8_000_000, 79, &delivered);
    load.as_object_mut().unwrap().remove("server_output_json");
    folder.write("load.json", &load.to_string());
    assert_eq!(folder.value("goodput_bps"), 6_340_000.0);
}

/// 50,000 bytes in each interval: 90 % of the slower link are 53,470. So 90 % never came in the 10 s, nor in the 4 s after the drop.
#[test]
fn a_rate_that_is_never_reached_takes_as_long_as_the_load() {
    let folder = Folder::new("never");
    on_the_path(&folder, &json!({ "messages": "200@100" }));
    folder.write("load.json", &load(1000, 8_000_000, 0, &|_| vec![30_000, 20_000]).to_string());
    assert_eq!(folder.value("time_to_90_ms"), 10_000.0);
    assert_eq!(folder.value("time_to_90_after_recovery_ms"), 4000.0);
}

/// Where the text does not tell a path's rate its log does: from 1 s on 1 s of 10, 4 s of 5 and 4 s of 10 Mbit/s.
#[test]
fn a_path_of_which_only_the_log_is_known_has_the_capacity_of_its_bins() {
    let folder = Folder::new("log");
    on_the_path(&folder, &json!({ "messages": "200@100" }));
    folder.cell("192.0.2.1", &json!({ "messages": "200@100" }));
    let cell = folder.read("192.0.2.1");
    assert_eq!(cell.capacity_bits(1_000_000..10_000_000), Some(70e6));
    assert_eq!(cell.capacity_bits(1_000_000..2_000_000), Some(10e6));
    assert_eq!(cell.capacity_bits(20_000_000..21_000_000), None);
}

/// A cell whose load is gone says which file it is, and not what the kernel calls that.
#[test]
fn a_file_that_is_gone_is_named() {
    let folder = Folder::new("gone");
    on_the_path(&folder, &json!({ "messages": "200@100", "status": "failed" }));
    fs::remove_file(folder.0.join("load.json")).unwrap();
    assert_eq!(folder.read(PATH).load, Err("load.json is missing".into()));
    fs::remove_file(folder.0.join("cell.json")).unwrap();
    assert_eq!(CellData::read(&folder.0, &entry(PATH)).unwrap_err(), "cell.json is missing");
}

#[test]
fn every_metric_says_what_it_is() {
    for metric in METRICS {
        assert_eq!(find(metric.name).unwrap().name, metric.name);
        assert!(!metric.label.is_empty() && metric.about.len() > 10, "{}", metric.name);
    }
}

/// A rival gets 10,000 bytes in each interval.
#[test]
fn beside_a_rival_every_metric_is_what_it_is_by_hand() {
    let folder = Folder::new("rival");
    on_the_path(
        &folder,
        &json!({ "messages": "200@100", "against": { "cc": "cubic", "extra_rtt_us": 0 }, "rival_cc": "bbr" }),
    );
    folder.write("rival.json", &load(1000, 1_000_000, 0, &|_| vec![10_000]).to_string());
    let by_hand = but(
        expected_on_the_path(),
        &[
            ("rival_goodput_bps", Ok(800_000.0)),
            // 900,000 bytes more.
            ("utilisation", Ok(63.6 / 70.0 * 1.052)),
            ("utilisation_after_drop", Ok((47.2 + 6.4) / 60.0 * 1.052)),
            // (5,000 + 2,050 + 900)² / 3 (5,000² + 2,050² + 900²).
            ("jain", Ok(63_202_500.0 / 90_037_500.0)),
            ("time_to_fair_ms", Ok(10_000.0)),
            ("time_to_90_ms", NO_BULK),
            ("time_to_90_after_recovery_ms", NO_BULK),
        ],
    );
    folder.compare(PATH, &by_hand);
}

/// Two streams, of which the second begins 2 s after the first. Of 100,000 and 62,600 bytes Jain's index is 0.9497, of 100,000 and
/// 62,700 it is 0.9501.
#[test]
fn a_share_is_fair_from_the_first_of_five_seconds_that_are() {
    let folder = Folder::new("fair");
    let time = |is_fair: &'static dyn Fn(u64) -> bool| {
        on_the_path(&folder, &json!({ "stagger_ms": 2000 }));
        let each = |n: u64| vec![100_000, if is_fair(n / 10) { 62_700 } else { 62_600 }];
        folder.write("load.json", &load(1000, 1_000_000, 0, &each).to_string());
        folder.value("time_to_fair_ms")
    };
    assert_eq!(time(&|_| true), 0.0);
    assert_eq!(time(&|second| second >= 2), 0.0, "before the last start nothing counts");
    assert_eq!(time(&|second| second >= 4), 2000.0);
    assert_eq!(time(&|second| second >= 5), 3000.0, "from 5 to 10 s are five");
    assert_eq!(time(&|second| second >= 6), 8000.0, "four seconds are too few");
    assert_eq!(time(&|second| second != 4), 3000.0);
    assert_eq!(time(&|second| second != 6), 8000.0);
    // The rival's stream counts, and begins last.
    let rival = json!({ "stagger_ms": 2000, "against": { "cc": "same", "extra_rtt_us": 0 }, "rival_cc": "bbr", "streams": 1 });
    folder.cell(PATH, &rival);
    folder.write("load.json", &load(1000, 1_000_000, 0, &|_| vec![100_000]).to_string());
    let its =
        |from: u64| load(1000, 1_000_000, 0, &|n| vec![if n >= from { 100_000 } else { 0 }]).to_string();
    folder.write("rival.json", &its(30));
    assert_eq!(folder.value("time_to_fair_ms"), 1000.0, "it began at 2 s and was heard from 3 s on");
    folder.write("rival.json", &its(60));
    assert_eq!(folder.value("time_to_fair_ms"), 8000.0);
    assert_eq!(folder.value("jain"), (9e6_f64 + 4e6).powi(2) / (2.0 * (9e6_f64.powi(2) + 4e6_f64.powi(2))));
}

/// What a wire has whatever is sent over it: an echo every 10 ms, 10 us and its number of 100 long, in the warm-up 1 ms; and the
/// machine's own counters.
fn on_a_wire(folder: &Folder, host_load: &str) -> Vec<(&'static str, Expected)> {
    folder.cell("loopback", &json!({ "host_load": host_load }));
    let echo = |n: i64| {
        let rtt_us = if n < 100 { 1000 } else { 10 + n % 100 };
        format!("{} {rtt_us}.000\n", n * 10_000)
    };
    let echoes: String = (0..1000).map(echo).collect();
    folder.write("ping.txt", &format!("# sent_us rtt_us\n{echoes}"));
    folder.write(
        "host.txt",
        "# wall_ns busy_ns softirq_ns polls packets squeezed dropped\n\
         10000000000 500000000 2000000000 12000 30000 7 0\n",
    );
    let on_a_path = METRICS.iter().map(|m| (m.name, NO_BULK)).collect();
    but(
        on_a_path,
        &[
            // The mean of 10 to 109; ranks 450 and 891 of 900, 9 of each value.
            ("ping_mean_us", Ok(59.5)),
            ("ping_p50_us", Ok(59.0)),
            ("ping_p99_us", Ok(108.0)),
            ("napi_polls_per_s", Ok(1200.0)),
            ("napi_packets_per_poll", Ok(2.5)),
            ("napi_squeezes_per_s", Ok(0.7)),
            ("softirq_share", Ok(0.2)),
            ("lost_packets", Err("no link log")),
            ("drop_packets", Err("no link log")),
            ("mark_packets", Err("no link log")),
            ("emu_late_p99_us", Err("no emulator")),
            ("emu_late_max_us", Err("no emulator")),
            ("utilisation", Err("the path's rate is not known")),
            ("time_to_90_ms", Err("the path's rate is not known")),
            // 6 and 8 % of 10 s.
            ("srtt_us", Ok(50_000.0)),
        ],
    )
}

/// 20,000 requests after the warm-up were answered in 100, 200 and 250 ns, and 5 were not; over the whole load 25,000 were, with
/// 64 bytes each.
#[test]
fn requests_over_a_wire_are_what_they_are_by_hand() {
    let folder = Folder::new("requests");
    let by_hand = on_a_wire(&folder, "requests tcp");
    folder.write("requests.txt", "# rtt_ns requests\n100 18000\n200 1980\n250 20\n- 5\n");
    folder.write("load.json", &load(64, 1_600_000, 0, &|_| vec![16_000]).to_string());
    let by_hand = but(
        by_hand,
        &[
            ("request_p50_us", Ok(0.1)),
            ("request_p99_us", Ok(0.2)),
            ("request_p999_us", Ok(0.2)),
            ("requests_per_s", Ok(20_000.0 / 9.0)),
            ("request_loss", Ok(5.0 / 20_005.0)),
            // Half a second for 25,000.
            ("machine_us_per_request", Ok(20.0)),
            ("cpu_s_per_gb", Ok(0.6 / 0.0016)),
            ("receiver_cpu_s_per_gb", Ok(0.8 / 0.0016)),
        ],
    );
    folder.compare("loopback", &by_hand);
}

/// Of 2 MB of datagrams 1.6 arrive.
#[test]
fn a_flood_over_a_wire_is_what_it_is_by_hand() {
    let folder = Folder::new("flood");
    let by_hand = on_a_wire(&folder, "flood 64");
    folder.write("load.json", &load(64, 2_000_000, 0, &|_| vec![16_000]).to_string());
    let by_hand = but(
        by_hand,
        &[
            ("flood_loss", Ok(0.2)),
            ("goodput_bps", Ok(16_000.0 * 80.0)),
            // Half a second for 1.6 MB.
            ("machine_s_per_gb", Ok(0.5 / 0.0016)),
            ("cpu_s_per_gb", Ok(0.6 / 0.0016)),
            ("receiver_cpu_s_per_gb", Ok(0.8 / 0.0016)),
        ],
    );
    folder.compare("loopback", &by_hand);
    assert!(NOT_ASKED.starts_with("not asked for"));
}

/// What gets a verdict is a promise: it decides over how many comparisons the correction goes.
#[test]
fn the_metrics_that_get_a_verdict_are_these() {
    let primary: Vec<&str> = METRICS.iter().filter(|m| m.is_primary()).map(|m| m.name).collect();
    let promised = [
        "message_delay_p99_us",
        "goodput_bps",
        "queue_delay_p95_us",
        "retransmit_rate",
        "request_p99_us",
        "ping_mean_us",
        "machine_s_per_gb",
        "machine_us_per_request",
    ];
    assert_eq!(primary, promised);
}
