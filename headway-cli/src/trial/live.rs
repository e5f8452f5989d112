//! A trial beside the traffic of this machine: gives new connections the controller of the slot, gathers what became of them,
//! and ends before its time when something is wrong.
//!
//! Nothing that it changes outlives it. The program that hands out the controllers and the controllers themselves hang on
//! file descriptors of this process, so that the kernel takes them away at its end, whatever that is: new connections get what
//! they would have got without the trial, and open ones keep what they have until they close.

mod arms;
mod clock;
mod key;
mod networks;
mod progress;
mod stop;

use super::connection::{Connection, Key};
use super::folder::{Ended, Folder, SlotRow, Trial};
use super::guard::{Breach, Guard};
use super::schedule::{self, By, Kind, Slot};
use super::setup::Setup;
use crate::sys::out;
use anyhow::{Context, Result};
use arms::Arms;
pub use arms::{check as check_arm, check_label, check_simulated};
use clock::Clock;
pub use clock::unix_now;
use headway_kernel::{Direction, Neighbour, Record, TrialCounters, TrialOptions, TrialUnit};
use networks::Networks;
use progress::{Progress, State};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;
pub use stop::Stop;

/// A trial looks at its connections this often, and ends within this time when it must.
const POLL: Duration = Duration::from_secs(1);

/// Where a trial is run, and how.
#[derive(Debug)]
pub struct Order {
    /// Its folder.
    pub dir: PathBuf,
    /// The folder of the cgroup whose connections take part.
    pub cgroup: PathBuf,
    /// The client networks, in `networks.txt`.
    pub shows_networks: bool,
    pub is_quiet: bool,
}

/// Runs a trial from its beginning, or goes on with what is past of it, to its end. What ended it is in its folder, too.
///
/// # Errors
/// It cannot be put into the kernel, or its folder cannot be written. It can go on then.
pub fn run(order: &Order, setup: &Setup, folder: Folder, past: Option<&Trial>, stop: &Stop) -> Result<Ended> {
    let key = key::of_machine(Path::new(key::FILE))?;
    let arms = Arms::up(&setup.arms)?;
    let trial = headway_kernel::Trial::attach(&options(setup, &arms.names)?, &order.cgroup)?;
    say_who_else(&trial)?;
    let mut guard = Guard::new(setup);
    let seen = past.map_or(&[][..], |p| &p.connections);
    seen.iter().for_each(|c| drop(guard.see(c)));
    let schedule = setup.schedule();
    let mut run = Run {
        order,
        setup,
        folder,
        trial,
        key,
        guard,
        clock: past.map_or_else(Clock::begin, |p| Clock::go_on(setup.began_unix_s, p.last_ms())),
        due: None,
        stop,
        progress: Progress::new(schedule.len() as u32, order.is_quiet),
        counted: TrialCounters::default(),
        networks: Networks::open(&order.dir, order.shows_networks)?,
        page: None,
    };
    let ended = run.slots(&schedule, past.map_or(0, Trial::next_slot))?;
    run.finish(ended)
}

/// A program that was there before may choose controllers, too, or not: if it does, "as set" will show it.
fn say_who_else(trial: &headway_kernel::Trial) -> Result<()> {
    let before = named(&trial.neighbours()?.before);
    if !before.is_empty() {
        out::note(format_args!("note: other programs see these connections as well: {}", before.join(", ")));
    }
    Ok(())
}

fn named(programs: &[Neighbour]) -> Vec<String> {
    programs.iter().map(|n| format!("`{}` (program {})", n.name, n.id)).collect()
}

/// What the kernel is asked for.
fn options(setup: &Setup, arms: &[String; 2]) -> Result<TrialOptions> {
    let scope = &setup.scope;
    let prefixes = scope.prefixes.iter().map(|text| prefix(text)).collect::<Result<_>>()?;
    Ok(TrialOptions {
        by: match setup.by {
            By::Prefix => TrialUnit::Prefix,
            By::Slot | By::Connection => TrialUnit::Connection,
        },
        ports: scope.ports.clone(),
        direction: match scope.direction.as_str() {
            "in" => Direction::In,
            "out" => Direction::Out,
            _ => Direction::Both,
        },
        prefixes,
        with_mptcp: scope.with_mptcp,
        seed: setup.seed,
        ..TrialOptions::new([&arms[0], &arms[1]])
    })
}

fn prefix(text: &str) -> Result<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/').with_context(|| format!("`{text}` is no network"))?;
    Ok((address.parse()?, bits.parse()?))
}

/// Whether what went wrong with so many of all connections may be more than an accident, and matters.
fn are_too_many(wrong: u64, all: u64) -> bool {
    wrong > 1 && wrong * 100 > all
}

/// A trial that runs.
struct Run<'a> {
    order: &'a Order,
    setup: &'a Setup,
    folder: Folder,
    trial: headway_kernel::Trial,
    key: Key,
    guard: Guard,
    clock: Clock,
    stop: &'a Stop,
    progress: Progress,
    /// When the next slot is to begin.
    due: Option<Duration>,
    /// The counters when the slot began.
    counted: TrialCounters,
    networks: Networks,
    /// The thread that makes the page, or made it last.
    page: Option<JoinHandle<()>>,
}

impl Run<'_> {
    /// Runs the slots of the schedule from this one on.
    fn slots(&mut self, schedule: &[Slot], first: u32) -> Result<Ended> {
        for (number, slot) in (0..).zip(schedule).skip(first as usize) {
            if let Some(ended) = self.slot(number, *slot, schedule.len() as u32)? {
                return Ok(ended);
            }
        }
        Ok(Ended::Done { at_ms: self.clock.age_ms() })
    }

    /// Runs one slot. Answers what ended the trial, if something did before the slot was over.
    fn slot(&mut self, number: u32, slot: Slot, slots: u32) -> Result<Option<Ended>> {
        let length = Duration::from_millis(self.setup.slot_ms);
        let began = self.clock.age();
        // A slot that begins a little late is a little shorter, so that the last one ends in time. Much too late begins the one
        // after the machine has slept; it has its whole length, and so have those after it.
        let due = self.due.filter(|due| began.saturating_sub(*due) < length / 2).unwrap_or(began);
        let end = due + length;
        self.due = Some(end);
        self.trial.set_slot(number, schedule::chance(slot.kind, self.setup.canary))?;
        let what = self.what(slot.kind);
        let after = length * (slots - number - 1);
        let state = |left, enrolled| State { slot: number, slots, what: &what, left: after + left, enrolled };
        self.progress.slot_begins(state(end.saturating_sub(began), self.counted.enrolled.iter().sum()));
        loop {
            let left = end.saturating_sub(self.clock.age());
            if left.is_zero() {
                break;
            }
            if self.stop.wait(POLL.min(left)) {
                return Ok(Some(Ended::Interrupted { at_ms: self.clock.age_ms() }));
            }
            let counters = self.trial.counters()?;
            if let Some(Breach(because)) = self.poll(&counters)? {
                return Ok(Some(Ended::Stopped { at_ms: self.clock.age_ms(), because }));
            }
            self.progress.show(state(end.saturating_sub(self.clock.age()), counters.enrolled.iter().sum()));
        }
        if number + 1 == slots {
            // Whoever came after the counters were read would have a row and not be counted.
            self.trial.pause()?;
        }
        if let Some(Breach(because)) = self.vanished()? {
            return Ok(Some(Ended::Stopped { at_ms: self.clock.age_ms(), because }));
        }
        self.slot_is_over(number, began)?;
        Ok(None)
    }

    fn what(&self, kind: Kind) -> String {
        let arm = |at: usize| self.setup.arms[at].clone();
        match kind {
            Kind::Canary => format!("{} for {:.0} %", arm(1), 100.0 * self.setup.canary),
            Kind::Whole(at) => arm(at),
            Kind::Half => format!("{} and {}", arm(0), arm(1)),
        }
    }

    /// Writes down what has ended since the last time, and judges it.
    fn poll(&mut self, counters: &TrialCounters) -> Result<Option<Breach>> {
        let records = self.trial.ended()?;
        let rows: Vec<Connection> = records.iter().map(|r| self.row(r)).collect();
        self.networks.note(&self.key, &records)?;
        self.folder.add(&rows)?;
        let seen = rows.iter().filter_map(|c| self.guard.see(c)).next();
        let lost = || self.guard.lost(counters.lost);
        Ok(seen.or_else(lost).or_else(|| Self::refused(counters)).or(self.others()?))
    }

    /// Whether the kernel refuses too many connections their controller, as when somebody has unloaded it.
    fn refused(counters: &TrialCounters) -> Option<Breach> {
        let [refused, enrolled] = [counters.refused, counters.enrolled].map(|arms| arms.iter().sum::<u64>());
        let all = refused + enrolled;
        are_too_many(refused, all).then(|| {
            Breach(format!(
                "the kernel refused {refused} of {all} connections the controller that they were to have"
            ))
        })
    }

    /// Whether too many connections have ended without a record, though there was room for one. Those that begin or end during the
    /// look do not count: it is asked first who took part and last who has ended.
    fn vanished(&self) -> Result<Option<Breach>> {
        let enrolled = self.trial.counters()?.enrolled;
        let open = self.trial.open()?.len();
        let vanished = TrialCounters { enrolled, ..self.trial.counters()? }.vanished(open);
        let all: u64 = enrolled.iter().sum();
        Ok(are_too_many(vanished, all).then(|| {
            Breach(format!(
                "the ends of {vanished} of {all} connections were not recorded, because another program has replaced what the \
                 kernel was to tell of them"
            ))
        }))
    }

    /// Whether somebody else decides now, too.
    fn others(&self) -> Result<Option<Breach>> {
        let neighbours = self.trial.neighbours()?;
        if !neighbours.is_attached {
            let why = "somebody has detached the trial from its connections, or their cgroup is gone";
            return Ok(Some(Breach(why.into())));
        }
        Ok(self.guard.foreign(&named(&neighbours.since)))
    }

    /// Ends the row of the slot, and has the page made anew.
    fn slot_is_over(&mut self, slot: u32, began: Duration) -> Result<()> {
        let (now, before) = (self.trial.counters()?, self.counted);
        let sum = |of: [u64; 2]| of.iter().sum::<u64>();
        self.folder.slot(&SlotRow {
            slot,
            began_ms: began.as_millis() as u64,
            ended_ms: self.clock.age_ms(),
            enrolled: [0, 1].map(|arm| now.enrolled[arm] - before.enrolled[arm]),
            recorded: now.recorded - before.recorded,
            lost: now.lost - before.lost,
            refused: sum(now.refused) - sum(before.refused),
            no_storage: now.without_storage - before.without_storage,
            mptcp: now.mptcp - before.mptcp,
        })?;
        self.counted = now;
        if self.page.as_ref().is_none_or(JoinHandle::is_finished) {
            let dir = self.order.dir.clone();
            // Whatever is wrong with the page now will be said when it is made at the end.
            self.page = Some(thread::spawn(move || drop(super::report(&dir, None))));
        }
        Ok(())
    }

    fn row(&self, record: &Record) -> Connection {
        let offset_ns = self.clock.offset_ns();
        let age_ms = |ns: u64| ((i128::from(ns) + offset_ns).max(0) / 1_000_000) as u64;
        let began_ms = age_ms(record.began_ns);
        let ended_ms = if record.is_open() { self.clock.age_ms() } else { age_ms(record.ended_ns) };
        let mut row = Connection {
            slot: record.slot,
            arm: record.arm,
            began_ms,
            ended_ms: ended_ms.max(began_ms),
            is_open: record.is_open(),
            prefix: self.key.network(record.remote),
            is_inbound: record.is_inbound,
            is_as_set: record.as_set,
            error: record.error,
            bytes_acked: record.bytes_acked,
            bytes_sent: record.bytes_sent,
            bytes_retransmitted: record.bytes_retransmitted,
            segments: record.segments,
            rtos: record.rtos,
            lost: record.lost as u32,
            ce: record.ce as u32,
            dsacks: record.dsacks as u32,
            busy_us: record.busy_us,
            rwnd_limited_us: record.rwnd_limited_us,
            sndbuf_limited_us: record.sndbuf_limited_us,
            srtt_us: record.srtt_us,
            min_rtt_us: record.min_rtt_us,
            rtts: Vec::new(),
        };
        row.set_rtts(&record.rtt_counts);
        row
    }

    /// Writes down what is still open, takes everything out of the kernel, and says why the trial ended.
    fn finish(mut self, ended: Ended) -> Result<Ended> {
        // Nobody takes part any more; then those are looked at who do, and last those of them who have ended meanwhile.
        self.trial.pause()?;
        let mut records = self.trial.open()?;
        let late = self.trial.ended()?;
        let over: BTreeSet<u64> = late.iter().map(|r| r.cookie).collect();
        records.retain(|r| !over.contains(&r.cookie));
        records.extend(late);
        self.networks.note(&self.key, &records)?;
        let rows: Vec<Connection> = records.iter().map(|r| self.row(r)).collect();
        self.folder.add(&rows)?;
        self.folder.end(&ended)?;
        if let Some(page) = self.page {
            let _ = page.join();
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One in a hundred is still an accident.
    #[test]
    fn more_than_one_refusal_in_a_hundred_connections_is_a_breach() {
        let said = |refused, enrolled| {
            let counters = TrialCounters { refused, enrolled, ..TrialCounters::default() };
            Run::refused(&counters).map_or_else(String::new, |breach| breach.0)
        };
        assert_eq!(said([1, 1], [100, 98]), "");
        assert!(said([1, 2], [100, 97]).starts_with("the kernel refused 3 of 200 connections"));
    }
}
