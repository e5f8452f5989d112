//! `ping.txt`: the ICMP echoes over a wire in the order of sending. It is `probe.txt` with three decimals, because a round trip over
//! loopback takes some ten microseconds.

use crate::raw::table::{Table, word_or_missing};
use std::fmt::Write as _;

/// One echo, its times in nanoseconds. In the file and after reading, the first counts from the start of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    pub sent_ns: i64,
    /// `None`: no answer came.
    pub rtt_ns: Option<i64>,
}

/// Writes the echoes with times relative to `start_ns`, in microseconds.
pub fn to_text(echoes: &[Echo], start_ns: i64) -> String {
    let mut text = String::from("# sent_us rtt_us\n");
    for echo in echoes {
        let rtt = echo.rtt_ns.map(|ns| format!("{}.{:03}", ns / 1000, ns % 1000));
        writeln!(text, "{} {}", (echo.sent_ns - start_ns) / 1000, word_or_missing(rtt))
            .expect("writing to memory");
    }
    text
}

pub fn parse(text: &str) -> Result<Vec<Echo>, String> {
    Table::read(text)?.rows(|row| {
        let (sent_us, rtt_us): (i64, Option<f64>) = (row.number("sent_us")?, row.optional("rtt_us")?);
        Ok(Echo { sent_ns: sent_us * 1000, rtt_ns: rtt_us.map(|us| (us * 1000.0).round() as i64) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_survive() {
        let echoes = [Echo { sent_ns: -5_000, rtt_ns: Some(14_007) }, Echo { sent_ns: 20_000, rtt_ns: None }];
        assert_eq!(to_text(&echoes, 0), "# sent_us rtt_us\n-5 14.007\n20 -\n");
        assert_eq!(parse(&to_text(&echoes, 0)).unwrap(), echoes);
    }
}
