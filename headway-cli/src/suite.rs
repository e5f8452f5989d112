//! Suites: named lists of paths with the traffic that belongs on them. A new suite is one row of [`SUITES`].

use crate::bench::Place;
use crate::traffic::{Pattern, Rival, Traffic};
use anyhow::{Context, Result};
use headway_cc::path::PRESETS;

/// A named list of rows.
#[derive(Debug)]
pub struct Suite {
    pub name: &'static str,
    pub about: &'static str,
    pub rows: fn() -> Vec<Row>,
}

/// One path and what happens on it.
#[derive(Clone, Debug)]
pub struct Row {
    /// What the report calls it: the path's name, and the traffic where it is not the usual one.
    pub name: String,
    /// A preset's name, a drop's name or a path text.
    pub path: String,
    pub traffic: Traffic,
    /// Where it is honest.
    pub places: &'static [&'static str],
}

/// Every suite.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "drop",
        about: "falls of the rate and what must not be taken for one, each beside a message flow; every pair of two \
                values of factor, rate, round trip, queue and length occurs",
        rows: || [spanning_drops(), others()].concat(),
    },
    Suite {
        name: "drop-all",
        about: "the same with every combination of factor, rate, round trip, queue and length: for the simulator",
        rows: || [all_drops(), others()].concat(),
    },
    Suite {
        name: "quinn",
        about: "what QUIC stacks were compared over before: a LAN, jitter with and without reordering, 100 Mbit/s over \
                200 ms with 3 to 6 % of loss, 50 Mbit/s over 225 ms; over 1, 4, 8 and 16 streams",
        rows: quinn,
    },
];

/// The rows of the suite `name` that are honest in `place`, and how many are not.
pub fn rows(name: &str, place: &Place) -> Result<(Vec<Row>, usize)> {
    let suite = SUITES.iter().find(|s| s.name == name).with_context(|| {
        let names: Vec<&str> = SUITES.iter().map(|s| s.name).collect();
        format!("unknown suite `{name}`\nhint: there is {}", names.join(", "))
    })?;
    let all = (suite.rows)();
    let count = all.len();
    let honest: Vec<Row> = all.into_iter().filter(|row| row.places.contains(&place.word())).collect();
    let left_out = count - honest.len();
    Ok((honest, left_out))
}

const EMULATED: &[&str] = &["sim", "lab", "here"];

const FACTORS: [&str; 6] = ["1.3x", "1.5x", "2x", "3x", "5x", "10x"];
const RATES: [&str; 3] = ["10mbit", "50mbit", "100mbit"];
const RTTS: [&str; 3] = ["10ms", "40ms", "100ms"];
const QUEUES: [&str; 4] = ["0.5bdp", "1bdp", "4bdp", "8bdp"];
const LENGTHS_S: [u32; 3] = [2, 5, 10];

/// Rate, round trip and length by factor (row) and queue (column), found by search: with them every pair of values of
/// any two of the five occurs, in as few rows as six factors and four queues allow, and each value as often as the next.
const SPANNING: [[[usize; 3]; 4]; 6] = [
    [[0, 2, 0], [1, 2, 1], [1, 1, 2], [2, 0, 0]],
    [[0, 0, 1], [1, 2, 0], [2, 1, 1], [2, 0, 2]],
    [[0, 1, 0], [0, 0, 2], [1, 0, 1], [2, 2, 1]],
    [[2, 0, 2], [0, 1, 1], [1, 1, 0], [1, 2, 0]],
    [[1, 0, 0], [2, 2, 2], [0, 2, 2], [2, 1, 1]],
    [[1, 1, 2], [0, 0, 1], [2, 2, 0], [0, 1, 2]],
];

fn spanning_drops() -> Vec<Row> {
    let of = |factor: usize, queue: usize| {
        let [rate, rtt, length] = SPANNING[factor][queue];
        drop_row(FACTORS[factor], RATES[rate], RTTS[rtt], QUEUES[queue], LENGTHS_S[length])
    };
    (0..FACTORS.len()).flat_map(|f| (0..QUEUES.len()).map(move |q| of(f, q))).collect()
}

fn all_drops() -> Vec<Row> {
    let mut rows = Vec::new();
    for factor in FACTORS {
        for rate in RATES {
            for rtt in RTTS {
                for queue in QUEUES {
                    rows.extend(LENGTHS_S.map(|length_s| drop_row(factor, rate, rtt, queue, length_s)));
                }
            }
        }
    }
    rows
}

/// 10 s before the drop, 20 s from the recovery on: 3688 messages after the warm-up, which a p99.9 takes.
fn drop_row(factor: &str, rate: &str, rtt: &str, queue: &str, length_s: u32) -> Row {
    let name = format!("drop-{factor}-{rate}-{rtt}-{queue}-{length_s}s");
    Row { path: name.clone(), name, traffic: traffic(10 + length_s + 20), places: EMULATED }
}

/// Rates that vary otherwise, noise alone, and on one drop a limited sender, one that pauses, and neighbours.
fn others() -> Vec<Row> {
    let presets = ["noise", "wifi-var", "leo", "lte-att", "lte-tmo", "umts", "evdo"];
    let mut rows: Vec<Row> = PRESETS
        .iter()
        .filter(|p| presets.contains(&p.name))
        .map(|p| Row { name: p.name.into(), path: p.name.into(), traffic: traffic(60), places: EMULATED })
        .collect();
    let base = drop_row("2x", "50mbit", "40ms", "1bdp", 5);
    let mut with = |what: &str, change: &dyn Fn(&mut Traffic)| {
        let mut row = Row { name: format!("{} {what}", base.name), ..base.clone() };
        change(&mut row.traffic);
        rows.push(row);
    };
    // 20 % of the link.
    with("limited", &|t| t.pattern = Pattern::Limited { rate_bps: 10_000_000 });
    with("on/off", &|t| t.pattern = Pattern::OnOff { on_ms: 1000, off_ms: 1000 });
    for cc in ["cubic", "bbr3"] {
        with(&format!("against {cc}"), &|t| {
            t.against = Some(Rival { cc: cc.into(), extra_rtt_us: 0 });
        });
    }
    rows
}

/// `lo-ctl` is left out: a loopback without a shaper is no path of ours.
fn quinn() -> Vec<Row> {
    let row = |name: &str, path: &str, streams: u32, seconds: u32| {
        let name = if streams == 1 { name.to_string() } else { format!("{name} {streams} streams") };
        let traffic = Traffic { streams, warmup_ms: 5000, ..Traffic::bulk(seconds) };
        Row { name, path: path.into(), traffic, places: EMULATED }
    };
    let mut rows: Vec<Row> = [1, 4, 8, 16].map(|n| row("lan-100", "lan-100", n, 20)).into();
    rows.extend(["netem-100j", "netem-100j-ordered"].map(|path| row(path, path, 1, 60)));
    rows.extend([1, 4, 8, 16].map(|n| row("us-cn-200", "us-cn-200", n, 60)));
    // The two sides of the square wave and what is between and beyond, each by itself.
    rows.extend([3, 4, 5, 6].map(|loss| {
        let path = format!("100mbit 180ms queue=2.5MB loss={loss}% jitter=40ms/100ms");
        row(&format!("us-cn-200 loss={loss}%"), &path, 1, 60)
    }));
    rows.push(row("vps-225", "vps-225", 1, 60));
    rows.push(row("vps-225 loss=0.1%", "50mbit 205ms queue=1.40625MB loss=0.1% jitter=40ms/100ms", 1, 60));
    rows
}

/// The suite's usual traffic: one bulk stream, and 128 small messages a second.
fn traffic(seconds: u32) -> Traffic {
    let messages = headway_cc::messages::Messages { min_bytes: 100, max_bytes: 100, per_second: 128 };
    Traffic { messages: Some(messages), ..Traffic::bulk(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::PathEntry;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_has_a_path_and_a_name_of_its_own() {
        for suite in SUITES {
            let rows = (suite.rows)();
            let names: BTreeSet<&str> = rows.iter().map(|r| r.name.as_str()).collect();
            assert_eq!(names.len(), rows.len(), "{}", suite.name);
            for row in &rows {
                let path = PathEntry::resolve(&row.path).unwrap().path().unwrap();
                assert!(!row.places.is_empty());
                // 20 round trips of warm-up, as everywhere.
                assert!(row.traffic.warmup_ms * 1000 >= 20 * path.base_rtt_us(), "{}", row.name);
                if let Some(drop) = path.rate_drop() {
                    let end_ns = u64::from(row.traffic.seconds) * 1_000_000_000;
                    assert!(drop.back_ns.is_some_and(|back_ns| back_ns + 20_000_000_000 <= end_ns));
                }
            }
        }
        assert_eq!(all_drops().len(), 6 * 3 * 3 * 4 * 3);
        assert_eq!((others().len(), quinn().len()), (11, 16));
    }

    #[test]
    fn the_spanning_drops_hold_every_pair() {
        let pairs = |rows: Vec<Row>| {
            let mut pairs = BTreeSet::new();
            for row in rows {
                let words: Vec<String> = row.path.split('-').skip(1).map(String::from).collect();
                for a in 0..5 {
                    pairs.extend((a + 1..5).map(|b| (a, b, words[a].clone(), words[b].clone())));
                }
            }
            pairs
        };
        assert_eq!(spanning_drops().len(), 24);
        assert_eq!(pairs(spanning_drops()), pairs(all_drops()));
    }

    #[test]
    fn an_unknown_suite_is_refused_with_the_known_ones() {
        let error = rows("drops", &Place::Sim).unwrap_err().to_string();
        assert!(error.starts_with("unknown suite `drops`\nhint: there is drop, drop-all, quinn"), "{error}");
    }
}
