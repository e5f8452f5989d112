//! Reading what iperf3 printed, by recordings of five of its versions; and what the writers say of a run.

use super::read::without_nan;
use super::*;
use headway_cc::sim::{self, FlowSpec, SimSpec};
use serde_json::Value;

// Recorded from Debian's iperf3 3.12 over the loopback of a network namespace of its own.
macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../../tests/data/iperf3/3.12-", $name, ".json"))
    };
}

#[test]
fn a_good_run_is_read_from_both_sides() {
    let load = parse(recorded!("ok")).unwrap();
    assert_eq!(load.version, "iperf 3.12");
    assert_eq!(load.duration_us, 2_000_000);
    assert_eq!((load.sent.len(), load.received.len()), (20, 20));
    assert_eq!(load.retransmits, Some(0));
    assert_eq!(load.mss_bytes, Some(32768));
    assert_eq!(load.sender_cc.as_deref(), Some("cubic"));
    assert!(load.sender_cpu_percent.unwrap() > 0.0);
    assert_eq!(load.judge("cubic"), Ok(()));
    assert_eq!(load.rest, "");
    for side in [&load.sent, &load.received] {
        assert!(side.iter().all(|i| i.stream_bytes.len() == 2));
        assert!(side.windows(2).all(|w| w[0].to_us == w[1].from_us), "the intervals are seamless");
    }
    assert!(load.sent.iter().all(|i| i.srtt_us.len() == 2));
    let total: u64 = load.received.iter().map(Interval::bytes).sum();
    assert!(total <= load.received_bytes && total * 10 > load.received_bytes * 9, "{total}");
}

#[test]
fn an_error_is_an_error_whatever_the_exit_code_was() {
    let error = |text| parse(text).unwrap_err();
    assert_eq!(error(recorded!("refused")), "iperf3: unable to connect to server: Connection refused");
    assert_eq!(error(recorded!("busy")), "iperf3: the server is busy running a test. try again later");
    assert!(error(recorded!("unknown_cc")).contains("congestion control algorithm not supported"));
    assert_eq!(error(recorded!("server_kill")), "iperf3: control socket has closed unexpectedly");
    assert_eq!(error(recorded!("server_term")), "iperf3: the server has terminated");
    assert_eq!(error(recorded!("client_term")), "iperf3: interrupt - the client has terminated");
    let newer = r#"{"start":{"connected":[]},"intervals":[],"end":{},
        "error":"unable to connect to server - server may have stopped running: Connection refused:"}"#;
    assert!(error(newer).ends_with("Connection refused"));
}

/// Built from the tags, recorded in the same way; `ok` is one second of two streams at 200 Mbit/s each.
const VERSIONS: [(&str, [&str; 6]); 4] = {
    macro_rules! recorded {
        ($v:literal, $($case:literal),*) => {
            ($v, [$(include_str!(concat!("../../../tests/data/iperf3/", $v, "-", $case, ".json"))),*])
        };
    }
    [
        recorded!("3.14", "ok", "refused", "busy", "server_kill", "server_term", "client_term"),
        recorded!("3.16", "ok", "refused", "busy", "server_kill", "server_term", "client_term"),
        recorded!("3.18", "ok", "refused", "busy", "server_kill", "server_term", "client_term"),
        recorded!("3.21", "ok", "refused", "busy", "server_kill", "server_term", "client_term"),
    ]
};

#[test]
fn every_version_is_read_and_every_fault_named() {
    for (version, [ok, faults @ ..]) in VERSIONS {
        let load = parse(ok).unwrap();
        assert_eq!(load.version, format!("iperf {version}"));
        assert_eq!(load.judge("cubic"), Ok(()), "{version}");
        assert_eq!(load.duration_us, 1_000_000, "{version}");
        assert!((4..=6).contains(&load.sent.len()) && load.sent.len() == load.received.len(), "{version}");
        assert!(load.sent.iter().all(|i| i.stream_bytes.len() == 2 && i.srtt_us.len() == 2), "{version}");
        let rate = load.received_bytes as f64 * 8e6 / load.received_us as f64;
        assert!((380e6..420e6).contains(&rate), "{version}: {rate}");
        assert!(load.retransmits.is_some() && load.mss_bytes == Some(32768), "{version}");
        let said = [
            "unable to connect to server",
            "iperf3: the server is busy running a test. try again later",
            "iperf3: control socket has closed unexpectedly",
            "iperf3: the server has terminated",
            "iperf3: interrupt - the client has terminated",
        ];
        for (text, said) in faults.into_iter().zip(said) {
            let fault = parse(text).unwrap_err();
            assert!(fault.contains(said), "{version}: `{fault}` does not say `{said}`");
        }
    }
}

#[test]
fn what_is_not_a_result_is_told_apart() {
    assert_eq!(parse("").unwrap_err(), "iperf3 printed nothing");
    let text = parse("iperf3: error - unable to connect\n").unwrap_err();
    assert_eq!(text, "iperf3 printed no JSON but: iperf3: error - unable to connect");
    let cut = &recorded!("ok")[..9000];
    assert!(parse(cut).unwrap_err().starts_with("iperf3's JSON is broken: EOF"));
    assert!(parse("{}").unwrap_err().contains("no summary"));
    let mut value: serde_json::Value = serde_json::from_str(recorded!("ok")).unwrap();
    value["intervals"][1]["sum"]["start"] = 3600.into();
    let fault = parse(&value.to_string()).unwrap_err();
    assert!(fault.ends_with("us, before it begins at 3600000000 us"), "{fault}");
}

#[test]
fn the_first_value_counts_and_the_rest_is_kept() {
    let text = format!("warning: something\n{}\niperf3: late line\n", recorded!("ok"));
    let load = parse(&text).unwrap();
    assert_eq!(load.rest, "warning: something\niperf3: late line");
    assert_eq!(Load { rest: String::new(), ..load }, parse(recorded!("ok")).unwrap());
}

#[test]
fn nan_is_zero_outside_of_strings_only() {
    assert_eq!(without_nan(r#"{"a":-nan,"nan \" nan":inf}"#), r#"{"a":0   ,"nan \" nan":0  }"#);
    let text = recorded!("ok").replacen("\"bits_per_second\":\t", "\"bits_per_second\":\t-nan,\"x\":\t", 1);
    assert_eq!(parse(&text).unwrap().judge("cubic"), Ok(()));
}

#[test]
fn omitted_intervals_do_not_count() {
    let load = parse(recorded!("omit")).unwrap();
    assert_eq!(load.sent.len(), 4);
    assert!(load.sent[0].from_us < 100, "the clock restarts after the omitted part");
    assert_eq!(load.judge("reno"), Ok(()));
}

#[test]
fn a_run_is_judged_by_what_arrived() {
    let load = parse(recorded!("ok")).unwrap();
    assert_eq!(load.judge("bbr").unwrap_err(), "the sender used `cubic`, not `bbr`");
    let short = Load { received_us: 1_890_000, ..load.clone() };
    assert_eq!(short.judge("cubic").unwrap_err(), "the load ran for 1.89 s of 2.00 s");
    let silent = Load { received_bytes: 0, ..load.clone() };
    assert_eq!(silent.judge("cubic").unwrap_err(), "the receiver counted no byte");
    let mute = Load { sender_cc: None, ..load };
    assert!(mute.judge("cubic").unwrap_err().contains("did not say"));
}

#[test]
fn in_a_reverse_run_the_server_is_the_sender() {
    let load = parse(recorded!("reverse")).unwrap();
    let forward = parse(recorded!("ok")).unwrap();
    assert!(load.is_reverse && !forward.is_reverse);
    let value: Value = serde_json::from_str(recorded!("reverse")).unwrap();
    let cpu = &value["end"]["cpu_utilization_percent"];
    assert_eq!(load.receiver_cpu_percent, cpu["host_total"].as_f64());
    assert_eq!(load.sender_cpu_percent, cpu["remote_total"].as_f64());
    // The client's own intervals are the receiver's, and know nothing of the sender's windows.
    assert_eq!(load.received.len(), value["intervals"].as_array().unwrap().len());
    assert!(load.received.iter().all(|i| i.srtt_us.is_empty() && i.retransmits.is_none()));
    let error = load.judge("nosuch").unwrap_err();
    assert!(error.contains("which is the server") && error.contains("not `nosuch`"), "{error}");
}

#[test]
fn what_a_simulated_load_says_agrees_with_the_run() {
    let path = "20mbit 40ms queue=1bdp loss=0.5%".parse().unwrap();
    let flows = vec![FlowSpec::bulk("bbr1"), FlowSpec::bulk("bbr1")];
    let run = sim::run(&SimSpec::new(path, flows, 2_000_000, 3)).unwrap();
    let value: Value = serde_json::from_str(&sim_json(&run, &run.flows, "headway sim")).unwrap();
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
