//! `probe.txt`: the latency probes in the order of sending.

use crate::raw::table::{Table, word_or_missing};
use std::fmt::Write as _;

/// One probe. In the file its time counts from the start of the load, so that of an earlier one is negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    pub sent_us: i64,
    /// `None`: no answer came.
    pub rtt_us: Option<i64>,
}

/// Writes the probes with times relative to `start_us`.
pub fn to_text(probes: impl IntoIterator<Item = Probe>, start_us: i64) -> String {
    let mut text = String::from("# sent_us rtt_us\n");
    for p in probes {
        writeln!(text, "{} {}", p.sent_us - start_us, word_or_missing(p.rtt_us)).expect("writing to memory");
    }
    text
}

/// Reads them, with times relative to the start of the load.
pub fn parse(text: &str) -> Result<Vec<Probe>, String> {
    Table::read(text)?
        .rows(|row| Ok(Probe { sent_us: row.number("sent_us")?, rtt_us: row.optional("rtt_us")? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_without_an_answer_has_no_time() {
        let probes = [Probe { sent_us: 5, rtt_us: Some(40) }, Probe { sent_us: 25, rtt_us: None }];
        assert_eq!(to_text(probes, 20), "# sent_us rtt_us\n-15 40\n5 -\n");
        assert_eq!(parse(&to_text(probes, 0)).unwrap(), probes);
        let long = parse("# sent_us rtt_us\n1000000000000000 1\n").unwrap_err();
        assert_eq!(long, "line 2: sent_us has more than 15 digits");
        let error = parse("# sent_us rtt_us\n0 40000\n20000\n").unwrap_err();
        assert_eq!(error, "line 3 has 1 words, its table 2 columns");
    }
}
