//! The guard, against candidates that do harm and candidates that do not.

use super::super::connection::Connection;
use super::super::folder::Ended;
use super::super::guard::Guard;
use super::super::setup::{Setup, sample};
use super::super::world::{World, by_schedule, conclude, simulate};
use headway_cc::cc::{self, Ack, Control, Controller, ControllerError};
use headway_cc::rand::Rng;

/// What the guard promises to need at most, in ends of connections with the candidate.
const PROMISED: usize = 800;

/// A controller that sends at 0.3 times what it has found out, or one that takes no notice of losses.
#[derive(Debug)]
enum Bad {
    Slow(Box<dyn Controller>),
    Blind,
}

impl Clone for Bad {
    fn clone(&self) -> Self {
        match self {
            Self::Slow(inner) => Self::Slow(inner.clone_box()),
            Self::Blind => Self::Blind,
        }
    }
}

impl Controller for Bad {
    fn on_event(&mut self, ack: &Ack) -> Control {
        match self {
            Self::Slow(inner) => {
                let control = inner.on_event(ack);
                let pacing_rate = control.pacing_rate / 10 * 3;
                Control { cwnd: control.cwnd / 10 * 3 + ack.smss, pacing_rate, ..control }
            }
            // Ten times what the path holds, however much of it is lost.
            Self::Blind => Control {
                cwnd: 750_000,
                pacing_rate: 5_000_000,
                send_quantum: 2 * ack.smss,
                mark_app_limited: false,
            },
        }
    }

    fn state(&self) -> Vec<u64> {
        Vec::new()
    }

    fn state_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

fn make(name: &str) -> Result<Box<dyn Controller>, ControllerError> {
    Ok(match name {
        "slow" => Box::new(Bad::Slow(cc::controller("bbr3")?)),
        "blind" => Box::new(Bad::Blind),
        name => cc::controller(name)?,
    })
}

/// A service whose traffic rises and falls by half.
fn world() -> World {
    World {
        path: "20mbit 30ms queue=2bdp".into(),
        networks: 12,
        is_shared: true,
        bytes: 300_000,
        think_ms: 3600,
        swing: 0.5,
    }
}

/// How many connections with the candidate had ended when the guard ended the trial, and why.
fn stopped(candidate: &str, canary: f64, seed: u64) -> Option<(usize, String)> {
    let arms = ["cubic".into(), candidate.into()];
    let setup = Setup { arms, canary, seed, slot_ms: 120_000, burn_in_ms: 10_000, slots: 26, ..sample() };
    let connections = simulate(&setup, &world(), &by_schedule(&setup), &make).unwrap();
    let (connections, _, ended) = conclude(&setup, connections);
    let Ended::Stopped { because, .. } = ended else { return None };
    Some((connections.iter().filter(|c| c.arm == 1 && !c.is_open).count(), because))
}

fn rate(candidate: &str, canary: f64, seeds: std::ops::Range<u64>) -> usize {
    let mut hits = 0;
    for seed in seeds {
        let found = stopped(candidate, canary, seed);
        println!("{candidate}, canary {canary}, seed {seed}: {found:?}");
        hits += usize::from(found.is_some_and(|(outcomes, _)| outcomes <= PROMISED));
    }
    hits
}

#[test]
fn a_slow_candidate_is_stopped_and_a_good_one_is_not() {
    assert_eq!((rate("slow", 0.05, 1..2), rate("bbr3", 0.05, 1..2)), (1, 0));
}

#[test]
#[ignore = "long: 80 simulated trials"]
fn long_harm_is_stopped_and_good_is_not() {
    let seeds = super::seeds(1..21);
    let count = (seeds.end - seeds.start) as usize;
    for candidate in ["slow", "blind"] {
        assert_eq!(rate(candidate, 0.05, seeds.clone()), count, "{candidate}");
    }
    for candidate in ["bbr3", "cubic"] {
        let wrong = rate(candidate, 0.05, seeds.clone());
        assert!(wrong * 20 <= count, "{candidate}: {wrong}");
    }
}

/// Connections whose goodput has this mean logarithm and whose errors are so many, with the candidate in every second place.
fn stream(worse_by: f64, errors: f64, seed: u64) -> Option<usize> {
    let setup = Setup { slots: 40, by: super::super::schedule::By::Connection, seed, ..sample() };
    let mut guard = Guard::new(&setup);
    let mut rng = Rng::new(seed, 60);
    let mut candidates = 0;
    for i in 0..4000u64 {
        let arm = (rng.below(2)) as u8;
        candidates += u32::from(arm);
        let slower = if arm == 1 { worse_by } else { 0.0 };
        let log = rng.normal() as f64 / 65_536.0 + slower;
        let share = 0.01 + if arm == 1 { errors } else { 0.0 };
        let connection = Connection {
            slot: (i / 100) as u32,
            arm,
            began_ms: i * 600 + 15_000,
            ended_ms: i * 600 + 16_000,
            is_as_set: true,
            error: u32::from(rng.chance((share * 1e9) as u32)),
            bytes_acked: 1_000_000,
            bytes_sent: 1_000_000,
            busy_us: (1e6 * log.exp()) as u64,
            ..Connection::default()
        };
        if let Some(breach) = guard.see(&connection) {
            let after = format!("after {candidates} of its connections");
            assert!(breach.0.contains(&after), "{breach:?} and not {after}");
            return Some(i as usize / 2);
        }
    }
    None
}

/// A third of the goodput, or every fifth connection failing, is found; less than what is allowed is not.
#[test]
fn harm_beyond_what_is_allowed_is_found_in_a_stream() {
    for seed in 0..20 {
        for (worse_by, errors) in [(1.2, 0.0), (0.0, 0.2)] {
            let after = stream(worse_by, errors, seed);
            assert!(after.is_some_and(|after| after < PROMISED), "{worse_by} {errors}: {after:?}");
        }
    }
    let wrong = (0..100).filter(|seed| stream(0.2, 0.04, *seed).is_some()).count();
    assert!(wrong <= 5, "{wrong} of 100 candidates within what is allowed were stopped");
}

#[test]
fn what_cannot_be_trusted_ends_a_trial() {
    let setup = sample();
    let mut guard = Guard::new(&setup);
    assert!(guard.lost(0).is_none() && guard.foreign(&[]).is_none());
    assert!(guard.lost(3).unwrap().0.contains("3 connections"));
    assert!(guard.foreign(&["tuner".into()]).unwrap().0.contains("tuner"));
    let ended = |i: u64, is_as_set: bool| Connection {
        began_ms: i,
        ended_ms: i + 1,
        is_as_set,
        ..Connection::default()
    };
    let breach = (0..300).find_map(|i| Some((i, guard.see(&ended(i, i % 50 != 0))?)));
    let (at, breach) = breach.unwrap();
    assert_eq!((at, breach.0.starts_with("196 of 200 ")), (199, true), "{breach:?}");
}
