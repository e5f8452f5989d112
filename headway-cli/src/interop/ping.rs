//! The output of ping: that of iputils, busybox and the BSDs.
//!
//! ping rounds: from 100 ms on it prints whole milliseconds, from 10 ms on tenths (`-3` prints all digits). Losses
//! are taken from its summary line, the only place where all of them are counted.

use super::reading::{ForeignRun, Rtt};

pub fn is_ping(text: &str) -> bool {
    text.lines().take(20).any(|l| l.starts_with("PING ")) || text.contains(" packets transmitted, ")
}

/// Reads round-trip times and losses of one ping.
pub fn run(text: &str) -> Result<ForeignRun, String> {
    let answers: Vec<f64> = text.lines().filter_map(time_ms).collect();
    let counted = text.lines().find_map(counts);
    let host = text.lines().find_map(|l| l.strip_prefix("PING ")).and_then(|l| l.split_whitespace().next());
    if let Some((0, _)) = counted {
        return Err("ping sent nothing".into());
    }
    let loss = counted.map(|(sent, received)| 1.0 - received.min(sent) as f64 / sent as f64);
    let rtt = Rtt::of(&answers, loss).ok_or("ping got no answer")?;
    Ok(ForeignRun {
        kind: "ping",
        host: host.unwrap_or_default().into(),
        rtt: Some(rtt),
        ..ForeignRun::default()
    })
}

/// The time of an answer in milliseconds. A duplicate is left out: it is a second answer to the same request.
fn time_ms(line: &str) -> Option<f64> {
    if line.ends_with("(DUP!)") {
        return None;
    }
    let (_, rest) = line.split_once(" time=")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Requests sent and answers received, from a summary line such as
/// `5 packets transmitted, 3 received, 40% packet loss, time 819ms`.
fn counts(line: &str) -> Option<(u64, u64)> {
    let (sent, rest) = line.split_once(" packets transmitted, ")?;
    let received = rest.split_whitespace().next()?;
    Some((sent.trim().parse().ok()?, received.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPUTILS: &str = "PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.\n\
        [1795202288.077627] 64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=40.5 ms\nno answer yet for icmp_seq=2\n\
        [1795202289.077627] 64 bytes from 10.0.0.1: icmp_seq=3 ttl=64 time=212 ms\n\
        64 bytes from 10.0.0.1: icmp_seq=3 ttl=64 time=213 ms (DUP!)\n\n--- 10.0.0.1 ping statistics ---\n\
        4 packets transmitted, 2 received, +1 duplicates, 50% packet loss, time 819ms\n\
        rtt min/avg/max/mdev = 40.500/126.250/212.000/85.750 ms, pipe 2\n";

    #[test]
    fn round_trips_and_losses_are_counted() {
        assert!(is_ping(IPUTILS));
        let run = run(IPUTILS).unwrap();
        let rtt = run.rtt.unwrap();
        assert_eq!((run.host.as_str(), rtt.min_ms, rtt.median_ms), ("10.0.0.1", 40.5, 126.25));
        assert_eq!((rtt.loss, rtt.p95_ms), (Some(0.5), None), "two answers have no p95");
    }

    #[test]
    fn busybox_and_bsd_are_read_too() {
        let busybox = "PING 10.0.0.1 (10.0.0.1): 56 data bytes\n64 bytes from 10.0.0.1: seq=0 ttl=64 time=0.405 ms\n\n\
            --- 10.0.0.1 ping statistics ---\n1 packets transmitted, 1 packets received, 0% packet loss\n\
            round-trip min/avg/max = 0.405/0.405/0.405 ms\n";
        assert_eq!(run(busybox).unwrap().rtt.unwrap().loss, Some(0.0));
        let none = "PING a (10.0.0.1) 56(84) bytes of data.\n\n--- a ping statistics ---\n\
            3 packets transmitted, 0 received, 100% packet loss, time 2040ms\n";
        assert_eq!(run(none).unwrap_err(), "ping got no answer");
        assert!(!is_ping("{\"start\":{}}"));
    }
}
