//! `requests.txt`: how long the answers to requests took, as a histogram. A run may have a million of them; a step of it is at most
//! 0.8 % wide.

use crate::raw::table::Table;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How many answers took how long. Answers that never came are those without a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    counts: BTreeMap<u64, u64>,
    pub lost: u64,
}

/// Bits of a time that are kept below its highest.
const KEPT_BITS: u32 = 7;

impl Times {
    /// Counts one request: the nanoseconds until its answer, or that none came.
    pub fn count(&mut self, ns: Option<u64>) {
        match ns {
            Some(ns) => *self.counts.entry(rounded(ns)).or_default() += 1,
            None => self.lost += 1,
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        for (ns, count) in &other.counts {
            *self.counts.entry(*ns).or_default() += count;
        }
    }

    /// How many answers there are.
    pub fn answered(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The time that a share `q` of the answers did not exceed, in nanoseconds; `None` where fewer than ten answers lie beyond it.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let count = self.answered();
        if (count as f64) * (1.0 - q) < 10.0 {
            return None;
        }
        let rank = (q * count as f64).ceil() as u64;
        let mut below = 0;
        self.counts.iter().find_map(|(ns, count)| {
            below += count;
            (below >= rank).then_some(*ns)
        })
    }
}

/// The middle of the step that the time lies in.
fn rounded(ns: u64) -> u64 {
    let dropped = (u64::BITS - ns.leading_zeros()).saturating_sub(KEPT_BITS + 1);
    match dropped {
        0 => ns,
        bits => (ns >> bits << bits) + (1 << (bits - 1)),
    }
}

/// One row for each step, the shortest time first, and a last one for requests that were not answered.
pub fn to_text(times: &Times) -> String {
    let mut text = String::from("# rtt_ns requests\n");
    for (ns, count) in &times.counts {
        writeln!(text, "{ns} {count}").expect("writing to memory");
    }
    writeln!(text, "- {}", times.lost).expect("writing to memory");
    text
}

pub fn parse(text: &str) -> Result<Times, String> {
    let mut times = Times::default();
    let rows =
        Table::read(text)?.rows(|row| Ok((row.optional("rtt_ns")?, row.number::<u64>("requests")?)))?;
    for (ns, count) in rows {
        match ns {
            Some(ns) => *times.counts.entry(ns).or_default() += count,
            None => times.lost += count,
        }
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_less_than_a_hundredth_wide_and_short_times_are_exact() {
        for ns in [0, 1, 99, 255] {
            assert_eq!(rounded(ns), ns);
        }
        for ns in [256, 1_000, 23_456, 1_000_000_007, u64::MAX >> 1] {
            assert!(rounded(ns).abs_diff(ns) as f64 <= ns as f64 / 256.0, "{ns}: {}", rounded(ns));
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut times = Times::default();
        (1..=100).for_each(|us| times.count(Some(us * 1000)));
        times.count(None);
        assert_eq!(parse(&to_text(&times)).unwrap(), times);
        assert_eq!((times.answered(), times.lost), (100, 1));
        let median = times.quantile_ns(0.5).unwrap();
        assert!(median.abs_diff(50_000) < 250, "{median}");
        assert_eq!(times.quantile_ns(0.95), None, "only five answers are beyond it");
        let mut twice = times.clone();
        twice.add(&times);
        assert_eq!((twice.answered(), twice.lost), (200, 2));
    }
}
