//! Ends a trial in which the candidate does harm, or in which what is recorded can no longer be trusted.
//!
//! Four things are watched: goodput in busy time, the retransmitted share, errors, timeouts. For each there is a difference that
//! is allowed (`--max-harm`), and a bet that the candidate does more harm than that. The bet is fair or bad as long as it does
//! not, so however long a trial lasts its wealth reaches 80 in at most one trial of 80 (Ville), and one of the four in at most
//! one of 20. When one does, the trial ends.
//!
//! Where both controllers run side by side (canary and half slots), each end of a connection with the candidate is held against
//! those with the baseline that have ended since the last one: the hour weighs on both alike. What only shows when everybody has the
//! candidate, such as a queue that nobody empties, takes whole slots. Their levels differ by the hour, so there a bet is
//! made once a slot, on the means of its first [`LOOK`] connections against the nearest slot of the baseline, and a difference
//! counts in units of what slots of the baseline differ by from one to the next.
//!
//! A candidate that did well for hours has lost its opponents' stakes, so a part of the stake is kept for a bet that begins
//! with each later slot.

use super::connection::Connection;
use super::schedule::{Kind, Slot};
use super::setup::Setup;
use crate::stats;
use std::collections::BTreeMap;

/// Why a trial must end, as a sentence with the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach(pub String);

/// Connections of a whole slot after which it is held against the baseline.
const LOOK: usize = 30;
/// Slots with fewer values of a measure are not compared in it: few connections may have sent enough for a goodput.
const LEAST: usize = 10;
/// A measure that every connection has.
const EVERY: usize = 3;
/// How many slots apart two slots may be that are held against each other.
const APART: u32 = 3;
/// Ends of connections before "as set" is judged, and the least share of them that must have what they were given.
const SET_LOOK: u64 = 200;
const SET_SHARE: f64 = 0.99;
/// One in twenty over four measures.
const WEALTH: f64 = 80.0;
/// More timeouts of one connection count as so many.
const MOST_RTOS: f64 = 5.0;
/// Shares of the boldest fair bet, side by side.
const BETS: [f64; 4] = [0.1, 0.3, 0.6, 0.9];

/// One of the four.
#[derive(Debug)]
struct Measure {
    /// What the candidate does, before the numbers.
    what: &'static str,
    /// What of a connection is averaged; more is worse. The goodput as minus its logarithm.
    of: fn(&Connection) -> Option<f64>,
    /// The difference that is allowed, for a `--max-harm`.
    allowed: fn(f64) -> f64,
    /// Values lie between 0 and this; `None` where only which of two is worse is counted.
    most: Option<f64>,
    /// What slots differ by from one to the next, at least.
    drift: f64,
    /// A value as people read it.
    show: fn(f64) -> String,
}

const MEASURES: [Measure; 4] = [
    Measure {
        what: "is slower in busy time",
        of: |c| c.goodput().map(|bytes_s| -bytes_s.ln()),
        allowed: |harm| -(1.0 - harm.min(0.99)).ln(),
        most: None,
        drift: 0.15,
        show: |value| format!("{:.2} Mbit/s", (-value).exp() * 8e-6),
    },
    Measure {
        what: "sends more again",
        of: |c| (c.bytes_sent > 0).then(|| (c.bytes_retransmitted as f64 / c.bytes_sent as f64).min(1.0)),
        allowed: |harm| harm / 4.0,
        most: Some(1.0),
        drift: 0.01,
        show: |value| format!("{:.1} % of its bytes", value * 100.0),
    },
    Measure {
        what: "ends with errors more often",
        of: |c| Some(f64::from(u8::from(c.error != 0))),
        allowed: |harm| harm / 4.0,
        most: Some(1.0),
        drift: 0.01,
        show: |value| format!("{:.1} % of connections", value * 100.0),
    },
    Measure {
        what: "has more retransmission timeouts",
        of: |c| Some(f64::from(c.rtos).min(MOST_RTOS)),
        allowed: |harm| harm,
        most: Some(MOST_RTOS),
        drift: 0.1,
        show: |value| format!("{value:.2} a connection"),
    },
];

/// Watches a trial while it runs.
#[derive(Clone, Debug)]
pub struct Guard {
    schedule: Vec<Slot>,
    burn_in_ms: u64,
    max_harm: f64,
    ended: u64,
    as_set: u64,
    /// Ends of connections with the candidate so far.
    candidates: u64,
    slots: BTreeMap<u32, Seen>,
    /// How many slots have begun.
    begun: u32,
    wealth: [Wealth; MEASURES.len()],
}

/// What is known of one slot.
#[derive(Clone, Debug, Default)]
struct Seen {
    began_ms: u64,
    /// Side by side: the values of each measure that wait for a partner, by arm.
    waiting: [[Vec<f64>; 2]; MEASURES.len()],
    /// Of a slot that one controller has, whole or but for the canary: the first [`LOOK`] values of each measure.
    first: [Vec<f64>; MEASURES.len()],
    is_judged: bool,
}

/// The bets on one measure, by boldness.
#[derive(Clone, Debug, Default)]
struct Wealth {
    bets: [f64; BETS.len()],
    /// Sum and count of what was compared, by arm: for the sentence.
    sums: [(f64, u32); 2],
}

impl Guard {
    pub fn new(setup: &Setup) -> Self {
        Self {
            schedule: setup.schedule(),
            burn_in_ms: setup.burn_in_ms,
            max_harm: setup.max_harm,
            ended: 0,
            as_set: 0,
            candidates: 0,
            slots: BTreeMap::new(),
            begun: 0,
            wealth: Default::default(),
        }
    }

    /// A connection has ended. They come in the order of their ends; after a resume, those of before first.
    pub fn see(&mut self, c: &Connection) -> Option<Breach> {
        let kind = self.schedule.get(c.slot as usize)?.kind;
        if c.is_open {
            return None;
        }
        self.ended += 1;
        self.as_set += u64::from(c.is_as_set);
        self.candidates += u64::from(c.arm == 1);
        self.begin(c);
        let seen = self.slots.get_mut(&c.slot)?;
        match kind {
            _ if c.began_ms.saturating_sub(seen.began_ms) < self.burn_in_ms => {}
            Kind::Half => self.side_by_side(c),
            Kind::Canary => {
                self.side_by_side(c);
                self.whole(c);
            }
            Kind::Whole(_) => self.whole(c),
        }
        self.breach()
    }

    /// So many ends of connections were not recorded, in all.
    pub fn lost(&self, records: u64) -> Option<Breach> {
        let text = || {
            format!(
                "the ends of {records} connections were not recorded, and those may be the ones that matter"
            )
        };
        (records > 0).then(|| Breach(text()))
    }

    /// Programs of others that decide on the same connections have come.
    pub fn foreign(&self, programs: &[String]) -> Option<Breach> {
        let text = || {
            format!(
                "another program decides on connections of this machine now, too: {}",
                programs.join(", ")
            )
        };
        (!programs.is_empty()).then(|| Breach(text()))
    }

    /// Notes when slots begin, and stakes a part of what is left on each.
    fn begin(&mut self, c: &Connection) {
        let seen =
            self.slots.entry(c.slot).or_insert_with(|| Seen { began_ms: c.began_ms, ..Seen::default() });
        seen.began_ms = seen.began_ms.min(c.began_ms);
        while self.begun <= c.slot {
            self.begun += 1;
            // 1/2 + 1/6 + 1/12 + … is 1.
            let stake = 1.0 / (f64::from(self.begun) * f64::from(self.begun + 1));
            self.wealth.iter_mut().for_each(|w| w.bets.iter_mut().for_each(|bet| *bet += stake));
        }
        let oldest = self.begun.saturating_sub(2 * APART);
        self.slots.retain(|slot, _| *slot >= oldest);
    }

    /// Holds a candidate's value against the baseline's values that have come since the last one.
    fn side_by_side(&mut self, c: &Connection) {
        let Some(seen) = self.slots.get_mut(&c.slot) else { return };
        for ((measure, waiting), wealth) in MEASURES.iter().zip(&mut seen.waiting).zip(&mut self.wealth) {
            let Some(value) = (measure.of)(c) else { continue };
            waiting[usize::from(c.arm)].push(value);
            if waiting.iter().any(Vec::is_empty) {
                continue;
            }
            let [base, cand] = std::mem::take(waiting);
            wealth.compare(measure, &base, &cand, (measure.allowed)(self.max_harm));
        }
    }

    /// Collects the first values of a slot that one controller has, and holds one of the candidate that has enough against the
    /// nearest of the baseline.
    fn whole(&mut self, c: &Connection) {
        if self.owner(c.slot) != Some(usize::from(c.arm)) {
            return;
        }
        let Some(seen) = self.slots.get_mut(&c.slot) else { return };
        for (measure, first) in MEASURES.iter().zip(&mut seen.first) {
            if first.len() < LOOK {
                first.extend((measure.of)(c));
            }
        }
        let of = |arm: usize| -> Vec<u32> {
            self.complete().filter(|slot| self.owner(*slot) == Some(arm)).collect()
        };
        let (baselines, candidates) = (of(0), of(1));
        let nearest = |slot: u32| {
            let others = baselines.iter().filter(|other| other.abs_diff(slot) <= APART);
            others.min_by_key(|other| other.abs_diff(slot)).copied()
        };
        let ready = candidates.iter().filter(|slot| !self.slots[slot].is_judged);
        if let Some((cand, base)) = ready.filter_map(|slot| Some((*slot, nearest(*slot)?))).next() {
            self.judge(base, cand);
        }
    }

    /// The controller that a slot belongs to, but for the few connections of a canary.
    fn owner(&self, slot: u32) -> Option<usize> {
        match self.schedule[slot as usize].kind {
            Kind::Whole(arm) => Some(arm),
            Kind::Canary => Some(0),
            Kind::Half => None,
        }
    }

    /// Slots of one controller that have [`LOOK`] connections.
    fn complete(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().filter(|(_, seen)| seen.first[EVERY].len() >= LOOK).map(|(slot, _)| *slot)
    }

    fn judge(&mut self, base: u32, cand: u32) {
        let drifts = self.drifts();
        if let Some(seen) = self.slots.get_mut(&cand) {
            seen.is_judged = true;
        }
        for (i, measure) in MEASURES.iter().enumerate() {
            let [base, cand] = [base, cand].map(|slot| &self.slots[&slot].first[i]);
            self.wealth[i].compare_slots(base, cand, (measure.allowed)(self.max_harm), drifts[i]);
        }
    }

    /// For each measure what neighbouring slots of the baseline differ by, as a variance.
    fn drifts(&self) -> [f64; MEASURES.len()] {
        let mut drifts = MEASURES.each_ref().map(|measure| measure.drift * measure.drift);
        for (i, drift) in drifts.iter_mut().enumerate() {
            let baselines = self.complete().filter(|slot| self.owner(*slot) == Some(0));
            let means: Vec<f64> =
                baselines.filter_map(|slot| stats::mean(&self.slots[&slot].first[i])).collect();
            let squares: Vec<f64> = means.windows(2).map(|w| (w[1] - w[0]).powi(2)).collect();
            *drift = drift.max(stats::mean(&squares).unwrap_or(0.0));
        }
        drifts
    }

    fn breach(&self) -> Option<Breach> {
        if self.ended >= SET_LOOK && (self.as_set as f64) < SET_SHARE * self.ended as f64 {
            let (as_set, ended) = (self.as_set, self.ended);
            return Some(Breach(format!(
                "{as_set} of {ended} connections had at their end the controller that they were given: something else sets it, too"
            )));
        }
        let (measure, wealth) =
            MEASURES.iter().zip(&self.wealth).find(|(_, wealth)| wealth.total() >= WEALTH)?;
        let [base, cand] = wealth.sums.map(|(sum, n)| (measure.show)(sum / f64::from(n.max(1))));
        Some(Breach(format!(
            "the candidate {}: {cand} instead of {base}, after {} of its connections; more than a harm of {:.0} % allows",
            measure.what,
            self.candidates,
            self.max_harm * 100.0
        )))
    }
}

impl Wealth {
    fn total(&self) -> f64 {
        self.bets.iter().sum::<f64>() / self.bets.len() as f64
    }

    fn note(&mut self, values: [&[f64]; 2]) {
        for (sum, values) in self.sums.iter_mut().zip(values) {
            sum.0 += values.iter().sum::<f64>();
            sum.1 += values.len() as u32;
        }
    }

    /// Ends of connections side by side; one of the two has a single one. What is bet on lies between 0 and 1, and its mean is at
    /// most `fair` as long as the harm is within what is allowed.
    fn compare(&mut self, measure: &Measure, base: &[f64], cand: &[f64], allowed: f64) {
        self.note([base, cand]);
        let pairs = base.iter().flat_map(|b| cand.iter().map(move |c| c - b));
        let n = (base.len() * cand.len()) as f64;
        let (outcome, fair) = match measure.most {
            None => (pairs.filter(|d| *d > allowed).count() as f64 / n, 0.5),
            Some(most) => ((pairs.sum::<f64>() / n / most + 1.0) / 2.0, (allowed / most + 1.0) / 2.0),
        };
        for (bet, boldness) in self.bets.iter_mut().zip(BETS) {
            *bet *= 1.0 + boldness / fair * (outcome - fair);
        }
    }

    /// Two slots: the means are normal with the variance that their values and the drift between slots give them.
    fn compare_slots(&mut self, base: &[f64], cand: &[f64], allowed: f64, drift: f64) {
        if base.len().min(cand.len()) < LEAST {
            return;
        }
        self.note([base, cand]);
        let variance =
            |values: &[f64]| stats::deviation(values).map_or(0.0, |sd| sd * sd / values.len() as f64);
        let (Some(from), Some(to)) = (stats::mean(base), stats::mean(cand)) else { return };
        let variance = drift + variance(base) + variance(cand);
        let beyond = to - from - allowed;
        let boldness = allowed.max(drift.sqrt()) / variance;
        let won = (boldness * beyond - boldness * boldness * variance / 2.0).exp();
        self.bets.iter_mut().for_each(|bet| *bet *= won);
    }
}
