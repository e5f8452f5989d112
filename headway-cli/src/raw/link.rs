//! `link.txt`: what happened at the bottleneck, one row for each direction and bin of time.

use crate::raw::table::{Row, Table, word_or_missing};
use headway_cc::sim::LinkBin;
use std::fmt::Write as _;

/// One bin of one direction. Counters are of that bin alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Start of the bin, counted from the start of the load.
    pub t_us: i64,
    /// The link's rate at that moment; `None` where it has no limit.
    pub rate_bps: Option<u64>,
    pub in_packets: u64,
    pub in_bytes: u64,
    pub out_packets: u64,
    pub out_bytes: u64,
    /// Dropped by the queue.
    pub drop_packets: u64,
    pub drop_bytes: u64,
    /// Lost at random, behind the queue.
    pub lost_packets: u64,
    /// Marked CE by the queue.
    pub mark_packets: u64,
    pub queue_bytes_max: u64,
    /// The longest time that a packet which left in this bin had spent in the queue.
    pub sojourn_us_max: u64,
    /// How late the emulator released a packet at worst; always 0 in the simulator.
    pub late_us_max: u64,
}

/// One counter of a bin, to be read or set.
type Counter = fn(&mut Bin) -> &mut u64;

/// The columns after `t_us dir rate_bps`, in their order, and the field of each.
const COUNTERS: [(&str, Counter); 11] = [
    ("in_packets", |b| &mut b.in_packets),
    ("in_bytes", |b| &mut b.in_bytes),
    ("out_packets", |b| &mut b.out_packets),
    ("out_bytes", |b| &mut b.out_bytes),
    ("drop_packets", |b| &mut b.drop_packets),
    ("drop_bytes", |b| &mut b.drop_bytes),
    ("lost_packets", |b| &mut b.lost_packets),
    ("mark_packets", |b| &mut b.mark_packets),
    ("queue_bytes_max", |b| &mut b.queue_bytes_max),
    ("sojourn_us_max", |b| &mut b.sojourn_us_max),
    ("late_us_max", |b| &mut b.late_us_max),
];

/// Writes the bins, each as the pair of the direction that carries the data (`down`) and the other one (`up`).
pub fn to_text(bins: impl IntoIterator<Item = [Bin; 2]>) -> String {
    let mut text = format!("# t_us dir rate_bps {}\n", COUNTERS.map(|(name, _)| name).join(" "));
    for pair in bins {
        for (dir, mut bin) in ["down", "up"].into_iter().zip(pair) {
            let rate = word_or_missing(bin.rate_bps);
            let counters = COUNTERS.map(|(_, of)| of(&mut bin).to_string()).join(" ");
            writeln!(text, "{} {dir} {rate} {counters}", bin.t_us).expect("writing to memory");
        }
    }
    text
}

/// Reads the bins of both directions, `down` first.
pub fn parse(text: &str) -> Result<[Vec<Bin>; 2], String> {
    let rows = Table::read(text)?.rows(|row| match row.word("dir")? {
        "down" => Ok((true, bin(row)?)),
        "up" => Ok((false, bin(row)?)),
        other => Err(format!("line {}: `{other}` is neither `down` nor `up`", row.line)),
    })?;
    let of = |down: bool| rows.iter().filter(|(is_down, _)| *is_down == down).map(|(_, bin)| *bin).collect();
    Ok([of(true), of(false)])
}

fn bin(row: &Row) -> Result<Bin, String> {
    let mut bin = Bin { t_us: row.number("t_us")?, rate_bps: row.optional("rate_bps")?, ..Bin::default() };
    for (name, of) in COUNTERS {
        *of(&mut bin) = row.optional(name)?.unwrap_or(0);
    }
    Ok(bin)
}

impl From<&LinkBin> for Bin {
    /// A bin of a simulated link.
    fn from(b: &LinkBin) -> Self {
        Self {
            t_us: b.t_us as i64,
            rate_bps: b.rate_bps,
            in_packets: b.in_packets,
            in_bytes: b.in_bytes,
            out_packets: b.out_packets,
            out_bytes: b.out_bytes,
            drop_packets: b.drop_packets,
            drop_bytes: b.drop_bytes,
            lost_packets: b.lost_packets,
            mark_packets: b.mark_packets,
            queue_bytes_max: b.queue_bytes_max,
            sojourn_us_max: b.sojourn_us_max,
            late_us_max: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut n = 0;
        let mut bin = |t_us, rate_bps| {
            let mut bin = Bin { t_us, rate_bps, ..Bin::default() };
            for (_, of) in COUNTERS {
                n += 1;
                *of(&mut bin) = n;
            }
            bin
        };
        let pairs = [[bin(0, Some(5)), bin(0, None)], [bin(100_000, Some(6)), bin(100_000, None)]];
        let text = to_text(pairs);
        assert!(text.contains("\n0 up - 12 13 14 15 16 17 18 19 20 21 22\n"), "{text}");
        assert_eq!(parse(&text).unwrap(), [[pairs[0][0], pairs[1][0]], [pairs[0][1], pairs[1][1]]]);
        assert!(parse(&text.replace(" up ", " left ")).unwrap_err().contains("line 3: `left` is neither"));
    }
}
