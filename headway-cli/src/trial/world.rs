//! Simulated traffic of which the truth is known: `headway trial --in sim`.
//!
//! Networks of clients fetch answers of many sizes, each network at its own times and over a distance of its own, whatever
//! controller there is: the same requests come to a world with the baseline, to one with the candidate, and to one in which a
//! schedule decides. So what moving everybody changes can be measured in two runs, and what a trial finds held against it.

use super::connection::Connection;
use super::folder::{Ended, Folder, SlotRow};
use super::guard::Guard;
use super::schedule::{self, By, Kind};
use super::setup::Setup;
use anyhow::{Result, ensure};
use headway_cc::cc;
use headway_cc::path::Path as NetworkPath;
use headway_cc::rand::{Rng, hash};
use headway_cc::sim::{FlowRun, FlowSpec, MakeController, SimSpec, Source, run_with};
use std::fmt;
use std::path::Path;

/// The traffic of a simulated service.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The bottleneck, as the bench takes a path.
    pub path: String,
    /// Client networks. Each is up to 40 ms farther away than the path says.
    pub networks: u32,
    /// All networks share one bottleneck; otherwise each has one of its own.
    pub is_shared: bool,
    /// Median size of an answer; one in six is twice as large or larger.
    pub bytes: u64,
    /// Mean time from one request of a network to its next.
    pub think_ms: u64,
    /// How much the number of requests rises and falls, twice in a trial, as a share of its mean.
    pub swing: f64,
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bottleneck = if self.is_shared { "that they share" } else { "for each" };
        let (networks, path, bytes, think_ms) = (self.networks, &self.path, self.bytes, self.think_ms);
        write!(
            f,
            "the simulator: {networks} networks, `{path}` {bottleneck}, a request of about {bytes} bytes each {think_ms} ms"
        )
    }
}

/// One answer that a network asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub network: u32,
    pub at_us: u64,
    pub bytes: u64,
}

/// Requests that a simulation holds in memory.
const MOST_REQUESTS: u64 = 2_000_000;
/// How much farther a network can be than the path says.
const FARTHEST_US: u64 = 40_000;

impl World {
    /// # Errors
    /// What no simulation can be made of.
    pub fn check(&self, setup: &Setup) -> Result<()> {
        self.path.parse::<NetworkPath>()?;
        ensure!(
            self.networks > 0 && self.think_ms > 0 && self.bytes > 0,
            "a world needs networks, time and bytes"
        );
        ensure!((0.0..=0.9).contains(&self.swing), "a swing is a share between 0 and 0.9");
        let length_ms = u64::from(setup.slots).saturating_mul(setup.slot_ms);
        let requests = (length_ms / self.think_ms).saturating_mul(u64::from(self.networks));
        ensure!(
            requests <= MOST_REQUESTS,
            "{requests} requests are more than the {MOST_REQUESTS} that are simulated\nhint: fewer networks, a longer think time, or a shorter trial"
        );
        setup.arms.iter().try_for_each(|arm| Ok(cc::controller(arm).map(drop)?))
    }

    /// All requests of a trial, in order of time.
    pub fn requests(&self, setup: &Setup) -> Vec<Request> {
        let end_us = length_us(setup);
        let mut requests = Vec::new();
        for network in 0..self.networks {
            let mut rng = Rng::new(setup.seed, 100 + u64::from(network));
            let mut at_us = 0.0;
            loop {
                // As many requests as at the height of the swing, of which a part is then left out.
                at_us -= unit(&mut rng).ln() * self.think_ms as f64 * 1e3 / (1.0 + self.swing);
                let bytes = (self.bytes as f64 * (0.7 * normal(&mut rng)).exp()) as u64;
                let turns = 2.0 * std::f64::consts::TAU * at_us / end_us as f64;
                let is_kept = unit(&mut rng) * (1.0 + self.swing) <= 1.0 + self.swing * turns.sin();
                if at_us >= end_us as f64 {
                    break;
                }
                if is_kept {
                    requests.push(Request {
                        network,
                        at_us: at_us as u64,
                        bytes: bytes.clamp(1, 20 * self.bytes),
                    });
                }
            }
        }
        requests.sort_by_key(|r| (r.at_us, r.network));
        requests
    }

    fn farther_us(&self, setup: &Setup, network: u32) -> u64 {
        hash(setup.seed, 7 + u64::from(network)) % FARTHEST_US
    }
}

fn length_us(setup: &Setup) -> u64 {
    setup.schedule().len() as u64 * setup.slot_ms * 1000
}

/// Between 0 and 1, neither included.
fn unit(rng: &mut Rng) -> f64 {
    (rng.below(1 << 52) as f64 + 0.5) / (1u64 << 52) as f64
}

fn normal(rng: &mut Rng) -> f64 {
    rng.normal() as f64 / 65_536.0
}

/// Which controller a request gets: its number among the requests, itself, and its slot.
pub type Assign<'a> = &'a dyn Fn(usize, &Request, u32) -> usize;

/// What the schedule of the trial gives.
pub fn by_schedule(setup: &Setup) -> impl Fn(usize, &Request, u32) -> usize {
    let (schedule, by, seed, canary) = (setup.schedule(), setup.by, setup.seed, setup.canary);
    move |number, request, slot| {
        let kind = schedule[slot as usize].kind;
        let chance = u64::from(schedule::chance(kind, canary));
        let thrown_for = match (kind, by) {
            (Kind::Half, By::Prefix) => u64::from(request.network) << 32 | u64::from(slot),
            _ => 1 << 63 | number as u64,
        };
        usize::from(hash(seed ^ 0x636f_696e, thrown_for) & 0xffff < chance)
    }
}

/// Makes the connections of all requests, in the order of their ends. `make` makes the controllers.
///
/// # Errors
/// The path or a controller is not known.
pub fn simulate(
    setup: &Setup,
    world: &World,
    assign: Assign,
    make: MakeController,
) -> Result<Vec<Connection>> {
    let path: NetworkPath = world.path.parse()?;
    let slot = |r: &Request| (r.at_us / 1000 / setup.slot_ms) as u32;
    let requests: Vec<(Request, usize)> = world
        .requests(setup)
        .into_iter()
        .enumerate()
        .map(|(number, r)| (r, assign(number, &r, slot(&r))))
        .collect();
    let bottlenecks: Vec<Option<u32>> = match world.is_shared {
        true => vec![None],
        false => (0..world.networks).map(Some).collect(),
    };
    let mut connections = Vec::new();
    for network in bottlenecks {
        let here: Vec<&(Request, usize)> =
            requests.iter().filter(|(r, _)| network.is_none_or(|network| r.network == network)).collect();
        let flows = here.iter().map(|(r, arm)| FlowSpec {
            source: Source::Finite { bytes: r.bytes },
            start_us: r.at_us,
            extra_rtt_us: world.farther_us(setup, r.network),
            ..FlowSpec::bulk(&setup.arms[*arm])
        });
        let seed = hash(setup.seed, network.map_or(0, |n| u64::from(n) + 1));
        let mut spec = SimSpec::new(path.clone(), flows.collect(), length_us(setup), seed);
        // One bin and no probes: a trial has thousands of flows.
        (spec.bin_us, spec.probe_interval_us) = (spec.duration_us, 0);
        let run = run_with(&spec, make)?;
        connections.extend(
            here.iter()
                .zip(&run.flows)
                .filter_map(|((r, arm), flow)| connection(setup, r, slot(r), *arm, flow, run.duration_us)),
        );
    }
    connections.sort_by_key(|c| (c.ended_ms, c.began_ms, c.prefix));
    Ok(connections)
}

/// `None` of one whose handshake was not through by the end: a kernel gives a controller only then.
fn connection(
    setup: &Setup,
    request: &Request,
    slot: u32,
    arm: usize,
    flow: &FlowRun,
    end_us: u64,
) -> Option<Connection> {
    let connected_us = flow.connected_us?;
    // The last acknowledgement comes half a round trip after the last byte has arrived.
    let done_us = flow.finished_us.map(|us| us + flow.min_rtt_us / 2).filter(|us| *us <= end_us);
    let until_us = done_us.unwrap_or(end_us);
    let retransmitted = u32::try_from(flow.retransmitted_packets).unwrap_or(u32::MAX);
    let mut connection = Connection {
        slot,
        arm: arm as u8,
        began_ms: request.at_us / 1000,
        ended_ms: until_us / 1000,
        is_open: done_us.is_none(),
        prefix: hash(setup.seed ^ 0x006e_6574, u64::from(request.network)),
        is_inbound: true,
        is_as_set: true,
        bytes_acked: flow.delivered_bytes,
        bytes_sent: flow.sent_bytes,
        bytes_retransmitted: flow.retransmitted_bytes,
        segments: flow.sent_packets,
        rtos: u32::try_from(flow.timeouts).unwrap_or(u32::MAX),
        lost: retransmitted,
        busy_us: until_us.saturating_sub(connected_us),
        srtt_us: flow.mean_rtt_us,
        min_rtt_us: flow.min_rtt_us,
        ..Connection::default()
    };
    connection.set_rtts(&flow.rtt_counts);
    Some(connection)
}

/// What became of a trial in a world: its connections, its slots, and how it ended. A guard may have ended it early.
pub fn conclude(setup: &Setup, mut connections: Vec<Connection>) -> (Vec<Connection>, Vec<SlotRow>, Ended) {
    let mut guard = Guard::new(setup);
    let breach = connections.iter().find_map(|c| Some((c.ended_ms, guard.see(c)?)));
    let length_ms = setup.schedule().len() as u64 * setup.slot_ms;
    let (at_ms, ended) = match breach {
        None => (length_ms, Ended::Done { at_ms: length_ms }),
        Some((at_ms, breach)) => (at_ms, Ended::Stopped { at_ms, because: breach.0 }),
    };
    connections.retain(|c| c.began_ms <= at_ms);
    for c in connections.iter_mut().filter(|c| c.ended_ms > at_ms) {
        // What such a connection had done by then is not known; little is said of it.
        *c = Connection {
            ended_ms: at_ms,
            is_open: true,
            bytes_acked: 0,
            busy_us: 0,
            rtts: Vec::new(),
            ..c.clone()
        };
    }
    let mut rows: Vec<SlotRow> = (0..)
        .zip(setup.schedule())
        .map(|(slot, _)| (slot, u64::from(slot) * setup.slot_ms))
        .take_while(|(_, began_ms)| began_ms + setup.slot_ms <= at_ms)
        .map(|(slot, began_ms)| SlotRow {
            slot,
            began_ms,
            ended_ms: began_ms + setup.slot_ms,
            ..SlotRow::default()
        })
        .collect();
    for c in &connections {
        if let Some(row) = rows.get_mut(c.slot as usize) {
            row.enrolled[usize::from(c.arm)] += 1;
        }
        let ended_in = rows.get_mut((c.ended_ms / setup.slot_ms) as usize).filter(|_| !c.is_open);
        if let Some(row) = ended_in {
            row.recorded += 1;
        }
    }
    (connections, rows, ended)
}

/// Runs a whole trial in virtual time and leaves its folder in `dir`, the same as a real one's.
///
/// # Errors
/// The path or a controller is not known, or the folder cannot be written.
pub fn run(setup: &Setup, world: &World, dir: &Path) -> Result<()> {
    setup.check()?;
    world.check(setup)?;
    let setup = Setup { place: world.to_string(), began_unix_s: 0, ..setup.clone() };
    let connections = simulate(&setup, world, &by_schedule(&setup), &cc::controller)?;
    let (connections, rows, ended) = conclude(&setup, connections);
    let mut folder = Folder::create(dir, &setup)?;
    folder.add(&connections)?;
    rows.iter().try_for_each(|row| folder.slot(row))?;
    folder.end(&ended)
}

#[cfg(test)]
mod tests {
    use super::super::setup::sample;
    use super::*;

    /// By hand: requests come at 1 + sin(t) / 2 times their mean rate, with two turns in a trial. So the first and the third quarter
    /// have 1 + 1 / π times their share, which are 65.9 % of all. Of 32 000 requests five standard errors are 1.4 % of the number and
    /// 1.3 points of that share.
    #[test]
    fn requests_rise_and_fall_twice_and_are_as_many_as_without() {
        let world = World {
            path: "20mbit 30ms".into(),
            networks: 8,
            is_shared: true,
            bytes: 1000,
            think_ms: 1000,
            swing: 0.5,
        };
        let setup = Setup { slots: 40, slot_ms: 100_000, ..sample() };
        let requests = world.requests(&setup);
        assert!((31_100..32_900).contains(&requests.len()), "{}", requests.len());
        let is_high = |r: &&Request| (r.at_us / 1_000_000_000).is_multiple_of(2);
        let share = requests.iter().filter(is_high).count() as f64 / requests.len() as f64;
        assert!((share - 0.659).abs() < 0.013, "{share}");
    }

    /// Something else sets the controller of all connections, which the guard says at the 200th end.
    #[test]
    fn what_has_not_ended_when_the_guard_stops_a_trial_is_open() {
        let until = |ended_ms| Connection { ended_ms, bytes_acked: 9, ..Connection::default() };
        let mut connections = vec![until(1000); 200];
        connections.extend([until(5000), Connection { began_ms: 1001, ..until(5000) }]);
        let (connections, _, ended) = conclude(&sample(), connections);
        assert!(matches!(ended, Ended::Stopped { at_ms: 1000, .. }), "{ended:?}");
        assert_eq!((connections.len(), &connections[199]), (201, &until(1000)));
        assert_eq!(connections[200], Connection { is_open: true, bytes_acked: 0, ..until(1000) });
    }
}
