//! Suites: named lists of paths with the traffic that belongs on them. A new suite is one row of [`SUITES`]; the
//! plan, the dry run, `headway list` and the report follow from it.

mod catalogue;

use crate::plan::place::Place;
use crate::plan::traffic::{Pattern, Rival, Traffic};
use anyhow::{Context, Result};
use headway_cc::names::choices;
use headway_cc::path::PRESETS;

/// The suite that is run when neither paths nor traffic were asked for. Two paths are as many as four controllers can
/// be compared on in a dozen minutes of the lab, with the ten blocks that their 24 verdicts need.
pub const FIRST: &str = "first";

/// A named list of rows.
#[derive(Debug)]
pub struct Suite {
    pub name: &'static str,
    pub about: &'static str,
    pub rows: fn() -> Vec<Row>,
    /// What its source asks for as well, and why there is no row for it. A dry run says so, because a suite that is
    /// silently incomplete would claim more than it measures.
    pub missing: &'static [(&'static str, &'static str)],
    /// Whether the baseline runs under a second label as well, so that the report shows how much noise alone makes.
    pub has_twin: bool,
}

/// One path and what happens on it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name in the report: the path's name, and the traffic where it is not the usual one.
    pub name: String,
    /// A preset's name, a drop's name or a path text.
    pub path: String,
    pub traffic: Traffic,
    /// The places ([`Place::word`]) where a measurement says something about the controller. Elsewhere it would show
    /// a guest or a machine that cannot keep up with the rate, or the place has no such controller.
    pub places: &'static [&'static str],
}

/// Every suite.
pub const SUITES: &[Suite] = &[
    Suite {
        name: FIRST,
        about: "what `headway bench` runs without flags: a path that loses 1 % of the packets, and one whose rate drops \
                beside the messages of a game",
        rows: catalogue::first,
        missing: &[],
        has_twin: false,
    },
    Suite {
        name: "drop",
        about: "the rate falls and recovers, or does something that must not be taken for a fall, each beside a message flow; \
                every pair of two values of factor, rate, round trip, queue and length occurs",
        rows: || [spanning_drops(), others()].concat(),
        missing: &[],
        has_twin: false,
    },
    Suite {
        name: "drop-all",
        about: "the same with every combination of factor, rate, round trip, queue and length, which is for the simulator",
        rows: || [all_drops(), others()].concat(),
        missing: &[],
        has_twin: false,
    },
    Suite {
        name: "brake",
        about: "the drops of the suite `drop` behind a queue of 1 BDP or more, where the brake has something to take: the \
                figure that it is known by, in real Linux TCP (--in lab --cc bbr3,bbr3_brake)",
        rows: || deep_enough(spanning_drops()),
        missing: &[],
        has_twin: false,
    },
    Suite {
        name: "brake-all",
        about: "the same of the suite `drop-all`: the figure in the simulator (--in sim --cc bbr3,bbr3_brake)",
        rows: || deep_enough(all_drops()),
        missing: &[],
        has_twin: false,
    },
    Suite {
        name: "bbr3",
        about: "what BBRv3 changes beside Linux's bbr: a bloated buffer, and random loss from none to 3 % (--cc bbr,bbr3)",
        rows: catalogue::bbr3,
        missing: &[],
        has_twin: false,
    },
    Suite {
        name: "smoke",
        about: "a first look in a few minutes, with the baseline against itself; too short for verdicts",
        rows: catalogue::smoke,
        missing: &[],
        has_twin: true,
    },
    Suite {
        name: "blog",
        about: "four bulk streams beside a probe every 20 ms, as a published BBRv3 tuning report has them",
        rows: catalogue::blog,
        missing: &[
            ("lo-ctl", "loopback without a rate limit measures the host's CPU, not a controller"),
            (
                "game under full CPU load",
                "virtual time does not feel a busy CPU; use --in here --cpu-load 100",
            ),
            ("game with fq", "the emulated queue is one for all flows"),
        ],
        has_twin: false,
    },
    Suite {
        name: "esnet",
        about: "MTU, pacing, and a source that is faster than the path, as in tests of data transfer nodes",
        rows: catalogue::esnet,
        missing: &[(
            "dtn",
            "needs a real path: --in remote HOST --streams 1,8,16 --pacing 0,11gbit,12gbit --format esnet",
        )],
        has_twin: false,
    },
    Suite {
        name: "ietf",
        about: "what RFC 9743 says must or should be evaluated, as far as bulk streams can show it",
        rows: catalogue::ietf,
        missing: &[
            (
                "short, handshake-loss",
                "there are no flows yet that come and go and whose completion times count",
            ),
            ("fq_codel, pie, cake, dualpi2", "the emulated queues are drop-tail and CoDel"),
            ("parking-lot", "there is one bottleneck"),
        ],
        has_twin: false,
    },
    Suite {
        name: "bbr",
        about: "buffers, competing flows, loss and ECN, as in the BBR authors' own tests",
        rows: catalogue::bbr,
        missing: &[("flows that start one after the other, both orders", "they are in the suite `rivals`")],
        has_twin: false,
    },
    Suite {
        name: "rivals",
        about: "how a controller shares: flows that begin 0.1 to 30 s apart, two to fifty of them, round trips from 5 to 300 ms, \
                and others that come when it has settled",
        rows: catalogue::rivals,
        missing: &[
            ("jitter on one flow", "jitter is the path's, and so all flows'"),
            ("a QUIC flow beside TCP flows", "the streams of a cell are all of one transport"),
            ("one flow that comes to six", "streams begin at equal distances"),
        ],
        has_twin: false,
    },
    Suite {
        name: "pantheon",
        about: "the emulated paths of the Pantheon observatory, calibrated to real ones",
        rows: catalogue::pantheon,
        missing: &[(
            "three flows 10 s apart",
            "flows that begin one after the other are in the suite `rivals`",
        )],
        has_twin: false,
    },
    Suite {
        name: "tcpeval",
        about: "draft-irtf-iccrg-tcpeval, as far as bulk streams can show it, for the simulator",
        rows: catalogue::tcpeval,
        missing: &[
            ("access-buf and loads of 60, 85, 110 %", "there are no flows yet that end"),
            ("udp-transient", "there is no cross traffic yet that ignores congestion"),
            ("ramp, impact, rttfair", "what is like them is in the suite `rivals`"),
            ("parking-lot", "there is one bottleneck"),
        ],
        has_twin: false,
    },
    Suite {
        name: "hosts",
        about: "what the hosts themselves cost, for comparing kernels and their settings: pings, requests, a flood and bulk data over \
                loopback and two kinds of network cards, also with busy CPUs, with the baseline against itself \
                (--in lab, with kernels that `headway kernel build` made)",
        rows: catalogue::hosts,
        missing: &[],
        has_twin: true,
    },
    Suite {
        name: "quinn",
        about: "the paths of earlier comparisons of QUIC stacks: LAN, Wi-Fi, cellular, long fat and satellite paths, jitter \
                with and without reordering, 3 to 6 % of loss at 200 ms; each with 1, 4, 8 and 16 streams",
        rows: catalogue::quinn,
        missing: &[("lo", "loopback without a rate limit measures the host's CPU, not a controller")],
        has_twin: false,
    },
];

pub fn find(name: &str) -> Result<&'static Suite> {
    SUITES.iter().find(|s| s.name == name).with_context(|| {
        let names: Vec<&str> = SUITES.iter().map(|s| s.name).collect();
        format!("unknown suite `{name}`\nhint: {}", choices(name, &names))
    })
}

impl Suite {
    /// The rows that `place` can measure.
    pub fn rows_in(&self, place: &Place) -> Vec<Row> {
        (self.rows)().into_iter().filter(|row| row.places.contains(&place.word())).collect()
    }

    /// What a run in `place` leaves out of the suite: a line each, with the reason.
    pub fn left_out(&self, place: &Place) -> Vec<String> {
        let elsewhere = (self.rows)().into_iter().filter(|row| !row.places.contains(&place.word()));
        let rows = elsewhere.map(|row| format!("{}: honest only in {}", row.name, row.places.join(", ")));
        rows.chain(self.missing.iter().map(|(what, why)| format!("{what}: {why}"))).collect()
    }
}

/// Every place whose path is an emulated one.
const EMULATED: &[&str] = &["sim", "lab", "here"];

const FACTORS: [&str; 6] = ["1.3x", "1.5x", "2x", "3x", "5x", "10x"];
const RATES: [&str; 3] = ["10mbit", "50mbit", "100mbit"];
const RTTS: [&str; 3] = ["10ms", "40ms", "100ms"];
const QUEUES: [&str; 4] = ["0.5bdp", "1bdp", "4bdp", "8bdp"];
const LENGTHS_S: [u32; 3] = [2, 5, 10];

/// For each factor (row) and queue (column) the indices of rate, round trip and length, found by search. Every pair
/// of values of any two of the five occurs, so that a suite of 24 rows shows what any two of them do together instead
/// of 648 rows that show everything; 6 factors times 4 queues is the least that is possible. Each value occurs about
/// equally often.
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
    at_moments((0..FACTORS.len()).flat_map(|f| (0..QUEUES.len()).map(move |q| of(f, q))).collect())
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
    at_moments(rows)
}

/// Those with a queue of 1 BDP or more. Behind less the queue itself ends the delay, whatever the sender does.
fn deep_enough(rows: Vec<Row>) -> Vec<Row> {
    rows.into_iter().filter(|row| !row.name.contains("-0.5bdp-")).collect()
}

/// Spreads the moments of the drops over 5 s, which is the cycle of BBRv3's ProbeRTT and half of BBRv1's. At the same
/// moment in all rows a suite would only show one phase of a controller. They begin at 8 s, when a controller has
/// settled.
fn at_moments(mut rows: Vec<Row>) -> Vec<Row> {
    for (i, row) in rows.iter_mut().enumerate() {
        // Steps of 0.618 of the 5 s, the golden section, so that also any few rows in sequence are spread evenly.
        row.path += &format!("@{}ms", 8000 + i * 3090 % 5000);
    }
    rows
}

/// The load goes on for 20 s after the recovery: then at least 3,688 messages are sent after the warm-up, enough for
/// a 99.9th percentile.
fn drop_row(factor: &str, rate: &str, rtt: &str, queue: &str, length_s: u32) -> Row {
    let name = format!("drop-{factor}-{rate}-{rtt}-{queue}-{length_s}s");
    Row { path: name.clone(), name, traffic: traffic(13 + length_s + 20), places: EMULATED }
}

/// What is no single drop, or has other traffic: rates that vary in other ways, noise alone, and on one and the same
/// drop a sender that its application limits, one that pauses, and competing flows.
fn others() -> Vec<Row> {
    let presets = ["noise", "wifi-var", "leo", "lte-att", "lte-tmo", "umts", "evdo"];
    let mut rows: Vec<Row> = PRESETS
        .iter()
        .filter(|p| presets.contains(&p.name))
        .map(|p| Row { name: p.name.into(), path: p.name.into(), traffic: traffic(60), places: EMULATED })
        .collect();
    let mut base = drop_row("2x", "50mbit", "40ms", "1bdp", 5);
    base.path += "@11s";
    let mut with = |what: &str, change: &dyn Fn(&mut Traffic)| {
        let mut row = Row { name: format!("{} {what}", base.name), ..base.clone() };
        change(&mut row.traffic);
        rows.push(row);
    };
    // 20 % of the link's rate.
    with("limited", &|t| t.pattern = Pattern::Limited { rate_bps: 10_000_000 });
    with("on/off", &|t| t.pattern = Pattern::OnOff { on_ms: 1000, off_ms: 1000 });
    for cc in ["cubic", "bbr3"] {
        with(&format!("against {cc}"), &|t| {
            t.against = Some(Rival { cc: cc.into(), extra_rtt_us: 0 });
        });
    }
    rows
}

/// The usual traffic of the drop suites: one bulk stream, and 128 messages of 100 bytes a second beside it.
fn traffic(seconds: u32) -> Traffic {
    let messages = headway_cc::messages::Messages { min_bytes: 100, max_bytes: 100, per_second: 128 };
    Traffic { messages: Some(messages), ..Traffic::bulk(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::path::PathEntry;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_has_a_path_and_a_name_of_its_own() {
        for suite in SUITES {
            let rows = (suite.rows)();
            let names: BTreeSet<&str> = rows.iter().map(|r| r.name.as_str()).collect();
            assert_eq!(names.len(), rows.len(), "{}", suite.name);
            for row in &rows {
                let entry = PathEntry::resolve(&row.path).unwrap();
                assert!(!row.places.is_empty());
                if entry.wire().is_some() {
                    continue;
                }
                let path = entry.path().unwrap();
                // 20 round trips of warm-up, as everywhere, and 2 s at least, from the last start on.
                let warmup_ms = (20 * path.base_rtt_us() / 1000).max(2000) + row.traffic.last_start_ms();
                assert_eq!(row.traffic.warmup_ms, warmup_ms, "{} {}", suite.name, row.name);
                if let Some(drop) = path.rate_drop().filter(|_| row.path.starts_with("drop-")) {
                    let end_ns = u64::from(row.traffic.seconds) * 1_000_000_000;
                    assert!(drop.back_ns.is_some_and(|back_ns| back_ns + 20_000_000_000 <= end_ns));
                }
            }
        }
        assert_eq!(all_drops().len(), 6 * 3 * 3 * 4 * 3);
        assert_eq!((others().len(), catalogue::quinn().len()), (11, 13 * 4));
    }

    #[test]
    fn the_spanning_drops_hold_every_pair() {
        let pairs = |rows: Vec<Row>| {
            let mut pairs = BTreeSet::new();
            for row in rows {
                let words: Vec<String> = row.name.split('-').skip(1).map(String::from).collect();
                for a in 0..5 {
                    pairs.extend((a + 1..5).map(|b| (a, b, words[a].clone(), words[b].clone())));
                }
            }
            pairs
        };
        assert_eq!(spanning_drops().len(), 24);
        assert_eq!((deep_enough(spanning_drops()).len(), deep_enough(all_drops()).len()), (18, 486));
        assert_eq!(pairs(spanning_drops()), pairs(all_drops()));
    }

    #[test]
    fn a_row_runs_where_it_is_honest_and_is_named_elsewhere() {
        let bbr = find("bbr").unwrap();
        let (sim, lab) = (bbr.rows_in(&Place::Sim), bbr.rows_in(&Place::Lab));
        // A gigabit is for the simulator, the kernel's reno and bbr are for kernels.
        assert!(sim.iter().any(|r| r.path == "dc-ecn") && lab.iter().all(|r| r.path != "dc-ecn"));
        let rival = |rows: &[Row], cc: &str| {
            rows.iter().any(|r| r.traffic.against.as_ref().is_some_and(|a| a.cc == cc))
        };
        assert!(rival(&lab, "reno") && !rival(&sim, "reno") && rival(&sim, "cubic"));
        let left_out = bbr.left_out(&Place::Lab);
        assert!(
            left_out.iter().any(|l| l.starts_with("dc-ecn 100 streams: honest only in sim")),
            "{left_out:?}"
        );
        assert!(left_out.last().unwrap().starts_with("flows that start one after the other"), "{left_out:?}");
        for suite in SUITES {
            for place in [Place::Sim, Place::Lab, Place::Here] {
                let count = suite.rows_in(&place).len() + suite.left_out(&place).len();
                assert_eq!(count, (suite.rows)().len() + suite.missing.len(), "{}", suite.name);
            }
            assert!(
                !suite.rows_in(&Place::Lab).is_empty() || !suite.rows_in(&Place::Sim).is_empty(),
                "{}",
                suite.name
            );
        }
    }

    #[test]
    fn an_unknown_suite_is_refused_with_the_known_ones() {
        let error = find("drops").unwrap_err().to_string();
        assert!(
            error.starts_with("unknown suite `drops`\nhint: did you mean `drop`? There is first, drop, "),
            "{error}"
        );
    }
}
