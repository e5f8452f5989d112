//! What is measured: which connections count, and one summary for each slot and metric.
//!
//! Connections of a slot are not independent of each other, since they meet the same traffic at the same time. So a slot gives one
//! value of each metric, however many connections it had, and slots are what is compared.

use super::connection::Connection;
use super::folder::{SlotRow, Trial};
use super::schedule::{Kind, Slot};
use crate::metric::{Better, Margin, Unit};
use crate::stats;
use std::collections::HashMap;

/// What is summarised over the connections of a slot.
#[derive(Debug)]
pub struct Metric {
    /// In files, unit included.
    pub name: &'static str,
    pub label: &'static str,
    pub unit: &'static Unit,
    pub better: Better,
    /// Metrics with a margin get a verdict, and all their verdicts are one family.
    pub margin: Option<Margin>,
    /// A sentence without its full stop.
    pub about: &'static str,
    /// A slot with fewer connections that have it has no value.
    pub least: usize,
    of: fn(&[Value]) -> (usize, f64),
}

/// What the metrics need of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    goodput: Option<f64>,
    above_min_us: Option<f64>,
    retransmitted: f64,
    sent: f64,
    has_error: bool,
    rtos: f64,
}

const RATE: Unit = Unit { factor: 8e-6, word: "Mbit/s" };
const DELAY: Unit = Unit { factor: 1e-3, word: "ms" };
const SHARE: Unit = Unit { factor: 100.0, word: "%" };
const COUNT: Unit = Unit { factor: 1.0, word: "" };

pub const RTT_P95: usize = 0;
pub const GOODPUT: usize = 1;

/// Every metric of a trial. The first three get a verdict.
pub const METRICS: [Metric; 6] = [
    Metric {
        name: "rtt_above_min_p95_us",
        label: "RTT above minimum at p95",
        unit: &DELAY,
        better: Better::Lower,
        margin: Some(Margin { share: 0.05, amount: 500.0 }),
        about: "Of each connection the 95th percentile of its round-trip times less the smallest that any connection of its network had; \
                of these the 95th percentile over the connections of a slot",
        least: 20,
        of: |all| of_those(all, |v| v.above_min_us, 0.95),
    },
    Metric {
        name: "goodput_bytes_s",
        label: "Goodput in busy time",
        unit: &RATE,
        better: Better::Higher,
        margin: Some(Margin { share: 0.02, amount: 0.0 }),
        about: "Bytes that were acknowledged over the time in which a connection had data to send and neither the receiver's window nor \
                its own buffer was in the way; the median over the connections of a slot that sent at least 64 kB",
        least: 5,
        of: |all| of_those(all, |v| v.goodput, 0.5),
    },
    Metric {
        name: "retransmitted_share",
        label: "Retransmitted share",
        unit: &SHARE,
        better: Better::Lower,
        margin: Some(Margin { share: 0.10, amount: 0.0001 }),
        about: "Bytes that were sent again of all bytes that the connections of a slot sent",
        least: 5,
        of: |all| {
            let sum = |of: fn(&Value) -> f64| all.iter().map(of).sum::<f64>();
            let sent = sum(|v| v.sent);
            (if sent > 0.0 { all.len() } else { 0 }, sum(|v| v.retransmitted) / sent)
        },
    },
    Metric {
        name: "rtt_above_min_p50_us",
        label: "RTT above minimum, median",
        unit: &DELAY,
        better: Better::Lower,
        margin: None,
        about: "The same as at p95, with the median over the connections of a slot",
        least: 5,
        of: |all| of_those(all, |v| v.above_min_us, 0.5),
    },
    Metric {
        name: "error_share",
        label: "Ended with an error",
        unit: &SHARE,
        better: Better::Lower,
        margin: None,
        about: "Connections that ended with an error of the socket, such as a reset or a timeout, of all of a slot",
        least: 5,
        of: |all| (all.len(), all.iter().filter(|v| v.has_error).count() as f64 / all.len() as f64),
    },
    Metric {
        name: "rtos_per_connection",
        label: "Retransmission timeouts",
        unit: &COUNT,
        better: Better::Lower,
        margin: None,
        about: "Retransmission timeouts of a connection, the mean over those of a slot",
        least: 5,
        of: |all| (all.len(), all.iter().map(|v| v.rtos).sum::<f64>() / all.len() as f64),
    },
];

/// How many connections have the value, and its quantile over them.
fn of_those(all: &[Value], of: fn(&Value) -> Option<f64>, q: f64) -> (usize, f64) {
    let values: Vec<f64> = all.iter().filter_map(of).collect();
    (values.len(), if q == 0.5 { stats::median(&values) } else { stats::quantile(&values, q) }.unwrap_or(0.0))
}

/// One controller in one slot.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub slot: u32,
    pub schedule: Slot,
    pub arm: usize,
    /// When the slot began, in milliseconds since the trial did.
    pub began_ms: u64,
    pub connections: usize,
    /// In the order of [`METRICS`]; `None` where too few connections have it.
    pub values: [Option<f64>; METRICS.len()],
}

/// Connections by what became of them. A connection is in one of the first seven only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By arm.
    pub counted: [usize; 2],
    /// Began in the burn-in of a slot.
    pub burn_in: usize,
    /// Began so shortly before the end of a slot, less than the burn-in, that most of their life was in the next one.
    pub at_end: usize,
    /// Began in a slot that was not run to its end, or in one that a kill had cut.
    pub unfinished: usize,
    pub canary: usize,
    /// Its controller is not the one that its slot gives.
    pub other_arm: usize,
    /// Of those that count: still open at the end of the trial, so that they count with what they had done by then.
    pub open: usize,
    /// Of those that count: not the controller that it was given, at its end.
    pub not_as_set: usize,
    /// Of those that count: too few bytes for a goodput.
    pub small: usize,
    /// Of those that count: no round-trip time.
    pub without_rtt: usize,
}

/// A trial's connections that count, by slot and arm.
pub struct Counted<'a> {
    pub trial: &'a Trial,
    pub schedule: Vec<Slot>,
    pub connections: Vec<&'a Connection>,
    pub counts: Counts,
    /// The smallest round-trip time of each network.
    min_rtt_us: HashMap<u64, u64>,
}

impl<'a> Counted<'a> {
    pub fn of(trial: &'a Trial) -> Self {
        let schedule = trial.setup.schedule();
        let rows: HashMap<u32, &SlotRow> = trial.slots.iter().map(|row| (row.slot, row)).collect();
        let mut counted = Self {
            trial,
            schedule,
            connections: Vec::new(),
            counts: Counts::default(),
            min_rtt_us: HashMap::new(),
        };
        for connection in &trial.connections {
            if connection.min_rtt_us > 0 {
                let least = counted.min_rtt_us.entry(connection.prefix).or_insert(u64::MAX);
                *least = (*least).min(connection.min_rtt_us);
            }
            counted.sort(connection, rows.get(&connection.slot).copied());
        }
        counted
    }

    /// Counts a connection, or says why not.
    fn sort(&mut self, c: &'a Connection, row: Option<&SlotRow>) {
        let counts = &mut self.counts;
        let Some(row) = row.filter(|row| (row.began_ms..=row.ended_ms).contains(&c.began_ms)) else {
            counts.unfinished += 1;
            return;
        };
        match self.schedule[c.slot as usize].kind {
            Kind::Canary => counts.canary += 1,
            _ if c.began_ms - row.began_ms < self.trial.setup.burn_in_ms => counts.burn_in += 1,
            _ if row.ended_ms - c.began_ms < self.trial.setup.burn_in_ms => counts.at_end += 1,
            Kind::Whole(arm) if arm != usize::from(c.arm) => counts.other_arm += 1,
            Kind::Whole(_) | Kind::Half => {
                counts.counted[usize::from(c.arm)] += 1;
                counts.open += usize::from(c.is_open);
                counts.not_as_set += usize::from(!c.is_as_set);
                counts.small += usize::from(c.goodput().is_none());
                counts.without_rtt += usize::from(c.rtts.is_empty());
                self.connections.push(c);
            }
        }
    }

    pub fn network_min_us(&self, c: &Connection) -> Option<u64> {
        self.min_rtt_us.get(&c.prefix).copied()
    }

    fn value(&self, c: &Connection) -> Value {
        let above = |p95: f64| Some((p95 - self.network_min_us(c)? as f64).max(0.0));
        Value {
            goodput: c.goodput(),
            above_min_us: c.rtt_p95_us().and_then(above),
            retransmitted: c.bytes_retransmitted as f64,
            sent: c.bytes_sent as f64,
            has_error: c.error != 0,
            rtos: f64::from(c.rtos),
        }
    }

    /// One outcome for each slot and controller, over the connections that are wanted.
    pub fn outcomes(&self, is_wanted: impl Fn(&Connection) -> bool) -> Vec<Outcome> {
        let mut values: HashMap<(u32, usize), Vec<Value>> = HashMap::new();
        for c in self.connections.iter().filter(|c| is_wanted(c)) {
            values.entry((c.slot, usize::from(c.arm))).or_default().push(self.value(c));
        }
        let began: HashMap<u32, u64> = self.trial.slots.iter().map(|row| (row.slot, row.began_ms)).collect();
        let mut outcomes: Vec<Outcome> = values
            .into_iter()
            .map(|((slot, arm), values)| Outcome {
                slot,
                schedule: self.schedule[slot as usize],
                arm,
                began_ms: began[&slot],
                connections: values.len(),
                values: METRICS.each_ref().map(|metric| {
                    let (having, value) = (metric.of)(&values);
                    (having >= metric.least).then_some(value)
                }),
            })
            .collect();
        outcomes.sort_by_key(|o| (o.slot, o.arm));
        outcomes
    }

    /// Of the bytes that moved in slots that count after their burn-in, the share of connections that an earlier slot had
    /// given another controller. A connection's bytes are taken to be spread evenly over its life.
    pub fn foreign_share(&self) -> f64 {
        let (mut foreign, mut all) = (0.0, 0.0);
        let whole: Vec<(&SlotRow, usize)> = self
            .trial
            .slots
            .iter()
            .filter_map(|row| match self.schedule[row.slot as usize].kind {
                Kind::Whole(arm) => Some((row, arm)),
                Kind::Half | Kind::Canary => None,
            })
            .collect();
        for c in &self.trial.connections {
            let from = whole.partition_point(|(row, _)| row.ended_ms < c.began_ms);
            for (row, arm) in whole[from..].iter().take_while(|(row, _)| row.began_ms <= c.ended_ms) {
                let begin = (row.began_ms + self.trial.setup.burn_in_ms).max(c.began_ms);
                let overlap = row.ended_ms.min(c.ended_ms).saturating_sub(begin);
                let bytes = c.bytes_acked as f64 * overlap as f64 / c.life_ms().max(1) as f64;
                all += bytes;
                foreign += if usize::from(c.arm) == *arm { 0.0 } else { bytes };
            }
        }
        if all > 0.0 { foreign / all } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::GROUP;
    use super::super::setup::{Setup, sample};
    use super::*;

    /// The first group of a schedule, each slot a minute, the burn-in 10 s.
    fn trial(connections: Vec<Connection>) -> Trial {
        let setup = Setup { slots: GROUP, ..sample() };
        let row = |slot: u32| {
            let began_ms = u64::from(slot) * 60_000;
            SlotRow { slot, began_ms, ended_ms: began_ms + 60_000, ..SlotRow::default() }
        };
        Trial { setup, connections, slots: (0..GROUP).map(row).collect(), ended: None, damage: vec![] }
    }

    fn whole_slot(trial: &Trial, arm: usize) -> u32 {
        trial.setup.schedule().iter().position(|s| s.kind == Kind::Whole(arm)).unwrap() as u32
    }

    /// Of the candidate, in its first whole slot, so many milliseconds after the slot began.
    fn connection(after_ms: u64) -> Connection {
        let slot = whole_slot(&trial(vec![]), 1);
        let began_ms = u64::from(slot) * 60_000 + after_ms;
        let (bytes_acked, bytes_sent, busy_us) = (1_000_000, 1_000_000, 1_000_000);
        let ended_ms = began_ms + 1000;
        Connection {
            slot,
            arm: 1,
            began_ms,
            ended_ms,
            bytes_acked,
            bytes_sent,
            busy_us,
            ..Connection::default()
        }
    }

    #[test]
    fn a_connection_counts_for_the_middle_of_its_own_slot_only() {
        let ok = connection(30_000);
        let connections = vec![
            ok.clone(),
            connection(9_999),
            connection(10_000),
            connection(50_000),
            connection(50_001),
            Connection { began_ms: ok.began_ms + 120_000, ..ok.clone() },
            Connection { arm: 0, ..ok.clone() },
            Connection { is_open: true, bytes_acked: 5, ..ok.clone() },
        ];
        let trial = trial(connections);
        let counts = Counted::of(&trial).counts;
        assert_eq!((counts.counted, counts.burn_in, counts.at_end), ([0, 4], 1, 1));
        assert_eq!((counts.unfinished, counts.other_arm, counts.open, counts.small), (1, 1, 1, 1));
    }

    /// By hand: ten connections of 1 to 10 MB in a second each, so the median is 5.5 MB/s; each sent a tenth of its bytes again, three had
    /// an error and one of them five timeouts. Nobody has a round-trip time.
    #[test]
    fn a_slot_has_one_value_of_each_metric() {
        let all = (1..=10u64).map(|i| Connection {
            bytes_acked: i * 1_000_000,
            bytes_sent: i * 1_000_000,
            bytes_retransmitted: i * 100_000,
            error: u32::from(i <= 3) * 104,
            rtos: if i == 1 { 5 } else { 0 },
            ..connection(30_000)
        });
        let trial = trial(all.collect());
        let outcomes = Counted::of(&trial).outcomes(|_| true);
        assert_eq!((outcomes.len(), outcomes[0].arm, outcomes[0].connections), (1, 1, 10));
        assert_eq!(outcomes[0].values, [None, Some(5.5e6), Some(0.1), None, Some(0.3), Some(0.5)]);
    }

    /// By hand: of 30 connections the p95 over connections is the 29th (0.95 × 30 = 28.5, rounded up). Connection i has its samples
    /// in one bucket from 40.960 ms on, 8.192 ms wide, of which 95 % are at 48.742 ms; its network's least is (30 + i) ms for odd i
    /// and 10 ms for even i, which are one network.
    #[test]
    fn round_trips_are_counted_from_the_least_of_the_network() {
        let all = (1..=30u64).map(|i| Connection {
            prefix: if i % 2 == 0 { 0 } else { i },
            min_rtt_us: if i == 2 { 10_000 } else { 30_000 + i * 300 },
            rtts: vec![(41, 100)],
            ..connection(30_000)
        });
        let trial = trial(all.collect());
        let outcomes = Counted::of(&trial).outcomes(|_| true);
        let p95_us = 40_960.0 + 0.95 * 8192.0;
        assert!((outcomes[0].values[RTT_P95].unwrap() - (p95_us - 10_000.0)).abs() < 1e-6);
        // 15 are 10 ms below, the others 30.3 to 38.7 ms: the median lies between the least of the 15 even and the first odd.
        let median = (p95_us - 10_000.0 + p95_us - 30_300.0) / 2.0;
        assert!((outcomes[0].values[3].unwrap() - median).abs() < 1e-6, "{:?}", outcomes[0].values);
    }

    /// By hand: a connection of the baseline that lives from the last second of its slot through 30 s of the candidate's: of its bytes
    /// 20 of 31 are in that slot after the burn-in of 10 s.
    #[test]
    fn bytes_of_the_other_controller_are_told() {
        let mut trial = trial(vec![]);
        let pair = trial.setup.schedule().windows(2).position(|w| w[0].pair == w[1].pair).unwrap() as u32;
        let Kind::Whole(first) = trial.setup.schedule()[pair as usize].kind else { unreachable!() };
        let boundary_ms = u64::from(pair + 1) * 60_000;
        let of = |arm: usize, from: u64, to: u64, bytes_acked: u64| Connection {
            arm: arm as u8,
            began_ms: from,
            ended_ms: to,
            bytes_acked,
            ..Connection::default()
        };
        trial.connections = vec![
            of(first, boundary_ms - 1000, boundary_ms + 30_000, 31_000),
            of(1 - first, boundary_ms + 20_000, boundary_ms + 40_000, 60_000),
        ];
        // The first has 1/31 in its own slot, after the burn-in, too.
        let share = Counted::of(&trial).foreign_share();
        assert!((share - 20_000.0 / (20_000.0 + 1000.0 + 60_000.0)).abs() < 1e-9, "{share}");
    }
}
