//! Turns the tables that iperf 2 prints for people into the JSON that iperf3 would have printed, so that one parser
//! (`raw/load.rs`) judges both. `iperf.rs` calls it.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The arguments for output that can be read here: with details, in kbit/s, every 100 ms.
pub const ARGS: [&str; 5] = ["-e", "-f", "k", "-i", "0.1"];
const INTERVAL_US: u64 = 100_000;

/// Returns JSON like that of `iperf3 -J --get-server-output`, made from what a client printed and, where this program
/// started the server, from what the server printed. The tables themselves are kept in it.
///
/// Without the server's table the received bytes are the client's: it counts until its last byte was acknowledged, by
/// when all of them had arrived. `seconds` is the length that was asked for.
pub fn to_json(client: &str, server: Option<&str>, seconds: u32) -> String {
    let sent = Table::read(client);
    let received = server.map(Table::read);
    let mut value = json!({
        "start": {
            "version": format!("iperf {}", server.and_then(version).unwrap_or("2")),
            "tcp_mss_default": mss(client),
            "test_start": { "protocol": "TCP", "num_streams": sent.totals.len(), "omit": 0, "duration": seconds, "reverse": 0 },
        },
        "iperf2": { "client": client, "server": server },
    });
    match complaint(client) {
        Some(line) => value["error"] = line.into(),
        None if sent.totals.is_empty() => value["error"] = "no stream came to its end".into(),
        None => {
            value["intervals"] = sent.intervals(seconds, true);
            value["end"] = json!({
                "sum_sent": sent.sum(true),
                "sum_received": received.as_ref().unwrap_or(&sent).sum(false),
                "sender_tcp_congestion": congestion_control(client),
            });
            if let Some(received) = received {
                value["server_output_json"] = json!({ "intervals": received.intervals(seconds, false) });
            }
        }
    }
    format!("{value}\n")
}

/// The line that says what went wrong. The exit code does not tell, because it is 0 either way.
fn complaint(text: &str) -> Option<&str> {
    text.lines().find(|line| line.contains(" failed: "))
}

/// The congestion control that the sockets reported; `None` where the kernel refused the name, and where none was
/// asked for.
fn congestion_control(text: &str) -> Option<&str> {
    word_after(text, "TCP congestion control set to ")
}

/// The client's version, which only the server prints: iperf 2 sends it over the connection.
fn version(text: &str) -> Option<&str> {
    word_after(text, "(peer ").map(|word| word.trim_end_matches(')'))
}

/// The maximum segment size of the first connection, in bytes, from the middle number of
/// `(icwnd/mss/irtt=14/1448/40144)`.
fn mss(text: &str) -> Option<u64> {
    word_after(text, "icwnd/mss/irtt=")?.split('/').nth(1)?.parse().ok()
}

fn word_after<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_whitespace().next()
}

/// One row of a table: a stream in one interval, or over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Row {
    from_us: u64,
    to_us: u64,
    bytes: u64,
    retransmits: u64,
    srtt_us: u64,
}

/// The rows of a table, by the stream's number; those of an interval also by its start in microseconds.
#[derive(Debug, Default)]
struct Table {
    intervals: BTreeMap<u64, BTreeMap<u32, Row>>,
    totals: BTreeMap<u32, Row>,
}

impl Table {
    fn read(text: &str) -> Self {
        let mut table = Self::default();
        for (stream, row) in text.lines().filter_map(row) {
            if row.from_us == 0 && row.to_us > INTERVAL_US {
                table.totals.insert(stream, row);
            } else if row.to_us == row.from_us + INTERVAL_US {
                table.intervals.entry(row.from_us).or_default().insert(stream, row);
            }
        }
        table
    }

    /// The intervals that start within the `seconds` that were asked for. Later rows count only data that was still
    /// in flight when the sender stopped.
    fn intervals(&self, seconds: u32, is_sender: bool) -> Value {
        let is_within = |(from_us, _): &(&u64, _)| **from_us < u64::from(seconds) * 1_000_000;
        let interval = |(from_us, rows): (&u64, &BTreeMap<u32, Row>)| {
            let streams = self.totals.keys().map(|stream| {
                let row = rows.get(stream).copied().unwrap_or_default();
                match is_sender {
                    true => json!({ "bytes": row.bytes, "rtt": row.srtt_us, "retransmits": row.retransmits }),
                    false => json!({ "bytes": row.bytes }),
                }
            });
            let mut sum =
                json!({ "start": *from_us as f64 / 1e6, "end": (from_us + INTERVAL_US) as f64 / 1e6 });
            if is_sender {
                sum["retransmits"] = rows.values().map(|row| row.retransmits).sum::<u64>().into();
            }
            json!({ "streams": streams.collect::<Vec<_>>(), "sum": sum })
        };
        self.intervals.iter().filter(is_within).map(interval).collect()
    }

    fn sum(&self, is_sender: bool) -> Value {
        let total = |of: fn(&Row) -> u64| self.totals.values().map(of).sum::<u64>();
        let end_us = self.totals.values().map(|row| row.to_us).max().unwrap_or_default();
        let mut sum = json!({ "start": 0, "end": end_us as f64 / 1e6, "bytes": total(|row| row.bytes) });
        if is_sender {
            sum["retransmits"] = total(|row| row.retransmits).into();
        }
        sum
    }
}

/// Reads a row such as
/// `[  1] 0.1000-0.2000 sec   449 KBytes  36786 Kbits/sec  4/0          0      210K/54994(3772) us  83.61`.
/// After the rate come the writes and their errors, the retransmissions, and the congestion window with the RTT in
/// microseconds; in a server's row, the sizes of its reads. The bytes are computed from the rate, which has more
/// digits than the printed bytes.
fn row(line: &str) -> Option<(u32, Row)> {
    let (stream, rest) = line.strip_prefix('[')?.split_once(']')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [times, "sec", _, _, rate, "Kbits/sec", rest @ ..] = words.as_slice() else { return None };
    let (from, to) = times.split_once('-')?;
    let micros = |s: &str| s.parse::<f64>().ok().map(|s| (s * 1e6).round() as u64);
    let (from_us, to_us) = (micros(from)?, micros(to)?);
    let kbits_per_s: f64 = rate.parse().ok()?;
    let (retransmits, srtt) = match rest {
        [_, again, window, ..] => (again.parse().unwrap_or(0), window.split_once('/').map_or("", |w| w.1)),
        _ => (0, ""),
    };
    let srtt_us = srtt.split('(').next().and_then(|us| us.parse().ok()).unwrap_or(0);
    let bytes = (kbits_per_s * to_us.saturating_sub(from_us) as f64 / 8e3).round() as u64;
    Some((stream.trim().parse().ok()?, Row { from_us, to_us, bytes, retransmits, srtt_us }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::load::{Interval, Load, parse};

    // What Debian's iperf 2.1.8 printed over a path of 20 Mbit/s and 20 ms, on stdout and after that on stderr.
    macro_rules! recorded {
        ($name:literal) => {
            include_str!(concat!("../../tests/data/iperf2/2.1.8-", $name, ".txt"))
        };
    }

    fn load(client: &str, server: Option<&str>, seconds: u32) -> Result<Load, String> {
        parse(&to_json(client, server, seconds))
    }

    #[test]
    fn a_good_run_is_read_from_both_sides() {
        let load = load(recorded!("ok"), Some(recorded!("ok-server")), 1).unwrap();
        assert_eq!(load.judge("cubic"), Ok(()));
        assert!(load.judge("bbr").unwrap_err().contains("the sender used `cubic`, not `bbr`"));
        assert_eq!(
            (load.version.as_str(), load.duration_us, load.mss_bytes),
            ("iperf 2.1.8", 1_000_000, Some(1448))
        );
        assert_eq!((load.sent.len(), load.received.len()), (10, 10));
        assert_eq!(load.retransmits, Some(8));
        // 2821 kB in the server's and in the client's own sum.
        for bytes in [load.sent_bytes, load.received_bytes] {
            assert!(bytes.abs_diff(2821 << 10) < 2000, "{bytes}");
        }
        assert_eq!(load.received_us, 1_215_100);
        let interval = &load.sent[1];
        assert_eq!((interval.from_us, interval.to_us, interval.srtt_us.len()), (100_000, 200_000, 2));
        assert_eq!(load.received.iter().map(Interval::bytes).sum::<u64>(), 2_369_044);
    }

    #[test]
    fn without_the_server_the_client_counts_until_all_has_arrived() {
        let load = load(recorded!("ok"), None, 1).unwrap();
        assert_eq!(load.judge("cubic"), Ok(()));
        assert_eq!((load.received.len(), load.received_us), (0, 1_246_100));
        assert!(load.received_bytes.abs_diff(2821 << 10) < 2000, "{load:?}");
    }

    #[test]
    fn every_fault_is_named() {
        for (text, names) in [
            (recorded!("refused"), "iperf: tcp connect failed: Connection refused"),
            (
                recorded!("unknown_cc"),
                "iperf: Attempt to set 'nosuch' congestion control failed: No such file",
            ),
            (recorded!("server_kill"), "iperf: tcp write failed: Connection reset by peer"),
            ("", "iperf: no stream came to its end"),
        ] {
            let error = load(text, None, 1).unwrap_err();
            assert!(error.starts_with(names), "{error}");
        }
        let ended = load(recorded!("client_term"), None, 4).unwrap();
        assert!(ended.judge("cubic").unwrap_err().contains("ran for 1.74 s of 4.00 s"));
    }
}
