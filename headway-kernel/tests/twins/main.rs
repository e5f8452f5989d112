//! The C twins against the Rust cores, bit for bit: seeded random streams, every simulated preset, planted bugs.
//!
//! `HEADWAY_SEED=n` chooses the stream; the first differing event is the bug report.

mod bbr1;
mod bbr3;
mod brake;
mod fuzz;
mod replay;
mod ring;
mod stream;
mod trial;

use headway_cc::cc::bbr1::{Bbr1, Bbr1Params};
use headway_cc::cc::fixed::{Winmax, bw_data, bw_from, gain_apply, mul_shift};
use headway_cc::cc::{Ack, Control, Controller, controller};
use headway_cc::path::{self, PRESETS};
use headway_cc::sim::{self, FlowSpec, SimSpec, Source};
use replay::{
    Bug, Scratch, build, build_with_bug, compare, compare_words, plant, replay, sources, start, words_of,
    write_input,
};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::SystemTime;
use stream::{Rng, Unit, stream};

/// Events per (controller, parameters, unit).
const LINES: usize = 200_000;

/// A controller with a C twin.
struct Twin {
    name: &'static str,
    /// Names of the parameters, in the order in which C is given them.
    fields: &'static [&'static str],
    /// The parameters of each stream: rows that switch on the parts that the defaults leave off, and the defaults.
    /// The row with most parts on is first, so that a planted bug is found early.
    params: fn() -> Vec<Vec<u64>>,
    /// The controllers that run it by their names in Rust, each with the index of its row in `params`.
    controllers: &'static [(&'static str, usize)],
    /// The Rust core with such parameters.
    new: fn(&[u64]) -> Box<dyn Controller>,
    /// What one event showed, in words such as a state that was entered; and what all streams of a unit of data
    /// together must have shown, so that no part of the controller stays untested.
    facts: fn(&Change) -> Vec<String>,
    wanted: fn() -> Vec<String>,
    bugs: &'static [&'static [Bug]],
}

/// An event, what the controller answered, and its state before and after.
struct Change<'a> {
    ack: &'a Ack,
    control: &'a Control,
    before: &'a [u64],
    now: &'a [u64],
}

/// Every controller with a C twin; a new one is a row here.
const TWINS: &[Twin] = &[bbr1::TWIN, bbr3::TWIN];

fn seed() -> u64 {
    let seed =
        std::env::var("HEADWAY_SEED").ok().map_or(1, |s| s.parse().expect("HEADWAY_SEED is an integer"));
    println!("HEADWAY_SEED={seed}");
    seed
}

fn new(name: &str) -> Box<dyn Controller> {
    controller(name).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn random_streams_of_packets_are_equal() {
    random_streams_are_equal(Unit::Packets);
}

#[test]
fn random_streams_of_bytes_are_equal() {
    random_streams_are_equal(Unit::Bytes);
}

fn random_streams_are_equal(unit: Unit) {
    let seed = seed();
    let scratch = Scratch::new(&format!("{unit:?}"));
    let program = build(&sources(), &scratch);
    for twin in TWINS {
        let mut seen = BTreeSet::new();
        for params in (twin.params)() {
            let acks = stream(seed, unit, LINES, &|| (twin.new)(&params));
            let mut before = Vec::new();
            let rows = replay(&program, twin.name, &params, &acks);
            let result = compare(rows, &acks, (twin.new)(&params), |ack, control, now| {
                if now != before {
                    seen.extend((twin.facts)(&Change { ack, control, before: &before, now }));
                }
                before = now.to_vec();
            });
            if let Err(difference) = result {
                panic!("{}, {unit:?}, HEADWAY_SEED={seed}: {difference}", twin.name);
            }
        }
        let missing: Vec<_> = (twin.wanted)().into_iter().filter(|w| !seen.contains(w)).collect();
        assert!(missing.is_empty(), "{}, {unit:?}: no stream reached {missing:?}, but {seen:?}", twin.name);
    }
}

#[test]
fn every_simulated_preset_is_equal() {
    let seed = seed();
    let scratch = Scratch::new("presets");
    let program = build(&sources(), &scratch);
    let named = TWINS.iter().flat_map(|t| t.controllers.iter().map(move |c| (t, c)));
    for ((twin, (name, set)), preset) in named.flat_map(|c| PRESETS.iter().map(move |p| (c, p))) {
        let path = path::resolve(preset.name).expect("presets parse");
        if !path.files().is_empty() {
            continue; // the trace file is no part of the program
        }
        let bulk = FlowSpec::bulk(name);
        let on_off = Source::OnOff { on_us: 700_000, off_us: 1_300_000 };
        let second = FlowSpec { source: on_off, start_us: 2_000_000, ..bulk.clone() };
        // Long enough for the first PROBE_RTT, unless the path is so fast that the trace would fill the memory.
        let times_100_mbit = path.rate_bps_at(0).map_or(0, |bps| bps / 100_000_000);
        let duration_us = (12_000_000 / times_100_mbit.max(1)).max(2_500_000);
        let spec = SimSpec { trace: true, ..SimSpec::new(path, vec![bulk, second], duration_us, seed) };
        let run = sim::run(&spec).expect("presets run");
        let events: usize = run.flows.iter().map(|f| f.trace.len()).sum();
        println!("{name}, {}: {events} events", preset.name);
        assert!(events > 20, "{}: {events} events", preset.name);
        for (i, flow) in run.flows.iter().enumerate() {
            let acks: Vec<Ack> = flow.trace.iter().map(|row| row.ack).collect();
            let rows = replay(&program, twin.name, &(twin.params)()[*set], &acks);
            if let Err(difference) = compare(rows, &acks, new(name), |_, _, _| ()) {
                panic!("{name}, preset `{}`, flow {i}, HEADWAY_SEED={seed}: {difference}", preset.name);
            }
        }
    }
}

/// Random streams seldom fall twice in a row, so that what the brake does about it is held equal on paths that do.
#[test]
fn paths_that_fall_several_times_are_equal() {
    let scratch = Scratch::new("falls");
    let program = build(&sources(), &scratch);
    for (twin, (name, set)) in TWINS.iter().flat_map(|t| t.controllers.iter().map(move |c| (t, c))) {
        let mut highest = brake::Highest::default();
        for seed in 1..=brake::FALLS {
            let path = brake::fall(seed).parse().expect("a path");
            let flows = vec![FlowSpec::bulk(name)];
            let spec = SimSpec { trace: true, ..SimSpec::new(path, flows, 16_000_000, seed) };
            let run = sim::run(&spec).expect("paths run");
            let acks: Vec<Ack> = run.flows[0].trace.iter().map(|row| row.ack).collect();
            let rows = replay(&program, twin.name, &(twin.params)()[*set], &acks);
            let cc = new(name);
            let fields = cc.state_fields();
            if let Err(difference) = compare(rows, &acks, cc, |_, _, now| highest.note(fields, now)) {
                panic!("{name}, {}, seed {seed}: {difference}", brake::fall(seed));
            }
        }
        assert_eq!(highest.all_reached(), !["bbr1", "bbr3"].contains(name), "{name}: {highest:?}");
    }
}

/// Not a controller but the arithmetic by itself; `replay.c` has the same under the name `fixed`.
#[derive(Clone, Debug, Default)]
struct Fixed(Winmax, [u64; 5]);

impl Controller for Fixed {
    fn on_event(&mut self, ack: &Ack) -> Control {
        let (a, b) = (ack.delivered, ack.now_us);
        self.1 = [mul_shift(a, b, 63), a.min(b), a.max(b), a.saturating_add(b), a.saturating_sub(b)];
        self.0.running_max(ack.unit_bytes, ack.smss, ack.cwnd);
        Control {
            cwnd: bw_from(a, b),
            pacing_rate: bw_data(a, b),
            send_quantum: gain_apply(a, b),
            mark_app_limited: false,
        }
    }

    fn state(&self) -> Vec<u64> {
        self.0.s.iter().flat_map(|s| [s.t, s.v]).chain(self.1).collect()
    }

    fn state_fields(&self) -> &'static [&'static str] {
        &["s0_t", "s0_v", "s1_t", "s1_v", "s2_t", "s2_v", "shifted", "least", "largest", "sum", "difference"]
    }
}

#[test]
fn fixed_point_is_equal_at_both_ends() {
    let scratch = Scratch::new("fixed");
    let program = build(&sources(), &scratch);
    let mut rng = Rng(seed());
    let ends: Vec<u64> =
        (0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([u64::MAX]).collect();
    let pairs = ends.iter().flat_map(|a| ends.iter().map(move |b| (*a, *b)));
    let acks: Vec<Ack> = pairs
        .map(|(delivered, now_us)| {
            let (unit_bytes, smss, cwnd) = (rng.range(0, 12), rng.range(0, 40), rng.range(0, 40));
            Ack { delivered, now_us, unit_bytes, smss, cwnd, ..Ack::default() }
        })
        .collect();
    let rows = replay(&program, "fixed", &[], &acks);
    compare(rows, &acks, Box::new(Fixed::default()), |_, _, _| ()).unwrap_or_else(|d| panic!("{d}"));
}

/// The streams of a twin, written for C: parameters, unit, events, input file.
fn streams(twin: &Twin, seed: u64, scratch: &Scratch) -> Vec<(Vec<u64>, Vec<Ack>, PathBuf)> {
    let mut all = Vec::new();
    for params in (twin.params)() {
        for unit in [Unit::Packets, Unit::Bytes] {
            let acks = stream(seed, unit, LINES, &|| (twin.new)(&params));
            let file = scratch.path().join(format!("{}.in", all.len()));
            write_input(&file, twin.name, &params, &acks);
            all.push((params.clone(), acks, file));
        }
    }
    all
}

/// Says at once which bugs no longer change their function, because it takes days until each had its turn.
#[test]
fn every_bug_can_be_planted() {
    let bugs = TWINS.iter().flat_map(|twin| twin.bugs.iter().copied().flatten());
    let errors: Vec<String> = bugs.filter_map(|bug| plant(bug).err()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Which of so many parts of a long test is today's, from 0: as many days see them all.
fn today(parts: usize) -> usize {
    let days = SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_secs() / 86_400;
    let part = usize::try_from(days).expect("a small number") % parts;
    println!("every {parts}th from number {part}");
    part
}

/// Every tenth bug, because each takes a compilation.
#[test]
fn a_bug_planted_in_c_is_found() {
    bugs_planted_in_c_are_found(seed(), today(10), 10);
}

#[test]
#[ignore = "compiles the twins once for each of some 280 bugs: `make test-long`"]
fn long_every_bug_planted_in_c_is_found() {
    bugs_planted_in_c_are_found(seed(), 0, 1);
}

/// All CPUs take part, because this is what the tests of this file spend most of their time on.
fn bugs_planted_in_c_are_found(seed: u64, first: usize, every: usize) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    for twin in TWINS {
        let scratch = Scratch::new(&format!("bugs-{}-{every}", twin.name));
        let streams = &streams(twin, seed, &scratch);
        let bugs = || twin.bugs.iter().copied().flatten().enumerate().skip(first).step_by(every);
        let find = |(i, bug): (usize, &Bug)| {
            let mutant = Scratch::new(&format!("bug-{}-{every}-{i}", twin.name));
            let program = build_with_bug(&mutant, bug);
            let found = streams.iter().find_map(|(params, acks, file)| {
                compare(start(&program, file), acks, (twin.new)(params), |_, _, _| ()).err()
            });
            let found = found.unwrap_or_else(|| panic!("{bug:?} stays unseen (HEADWAY_SEED={seed})"));
            println!("{}, {}: event {}, `{}`", twin.name, bug.function, found.line, found.field);
        };
        std::thread::scope(|scope| {
            for cpu in 0..cpus {
                scope.spawn(move || bugs().skip(cpu).step_by(cpus).for_each(find));
            }
        });
    }
}

/// Every fifth parameter, because each replays the streams until a difference shows.
#[test]
fn a_changed_parameter_in_rust_is_found() {
    changed_parameters_in_rust_are_found(seed(), today(5), 5);
}

#[test]
#[ignore = "minutes: `make test-long`"]
fn long_every_changed_parameter_in_rust_is_found() {
    changed_parameters_in_rust_are_found(seed(), 0, 1);
}

fn changed_parameters_in_rust_are_found(seed: u64, first: usize, every: usize) {
    let scratch = Scratch::new(&format!("params-{every}"));
    let program = build(&sources(), &scratch);
    for twin in TWINS {
        let mut unseen: BTreeSet<usize> = (first..twin.fields.len()).step_by(every).collect();
        for (params, acks, file) in streams(twin, seed, &scratch) {
            let rows: Vec<Vec<u64>> = start(&program, &file).map(|row| words_of(&row)).collect();
            unseen.retain(|&i| {
                let found = [params[i] / 2, params[i] >> 16, params[i] + 1, params[i].saturating_mul(4)]
                    .into_iter()
                    .find_map(|value| {
                        let mut changed = params.clone();
                        changed[i] = value;
                        compare_words(rows.iter(), &acks, (twin.new)(&changed), |_, _, _| ()).err()
                    });
                if let Some(f) = &found {
                    println!("{}, {}: event {}, `{}`", twin.name, twin.fields[i], f.line, f.field);
                }
                found.is_none()
            });
        }
        let unseen: Vec<_> = unseen.into_iter().map(|i| twin.fields[i]).collect();
        assert!(unseen.is_empty(), "{}: no event depends on {unseen:?} (HEADWAY_SEED={seed})", twin.name);
    }
}

/// A controller whose answer is off by one once in a while.
#[derive(Clone, Debug)]
struct OffByOne(Bbr1, u64);

impl Controller for OffByOne {
    fn on_event(&mut self, ack: &Ack) -> Control {
        let mut control = self.0.on_event(ack);
        self.1 += 1;
        control.cwnd += u64::from(self.1 == 12_345);
        control
    }

    fn state(&self) -> Vec<u64> {
        self.0.state()
    }

    fn state_fields(&self) -> &'static [&'static str] {
        self.0.state_fields()
    }
}

#[test]
fn a_single_wrong_answer_in_rust_is_reported_where_it_is() {
    let scratch = Scratch::new("single");
    let program = build(&sources(), &scratch);
    let acks = stream(seed(), Unit::Bytes, 20_000, &|| new("bbr1"));
    let wrong = Box::new(OffByOne(Bbr1::new(Bbr1Params::default()), 0));
    let rows = replay(&program, "bbr1", &Bbr1Params::default().words(), &acks);
    let found = compare(rows, &acks, wrong, |_, _, _| ()).expect_err("one wrong answer");
    assert_eq!((found.line, found.field.as_str(), found.rust), (12_345, "control.cwnd", found.c + 1));
    assert!(found.to_string().contains(&format!("now_us={}", acks[12_344].now_us)), "{found}");
}

/// Every value of an enum stands in a C file under its name in capitals, with the same number.
fn assert_numbers<T: Copy + std::fmt::Debug + Into<u64>>(file: &str, prefix: &str, all: &[T]) {
    let text = std::fs::read_to_string(sources().join(file)).expect(file);
    for value in all {
        let name = format!("{value:?}").chars().fold(String::from(prefix), |mut name, c| {
            if c.is_uppercase() {
                name.push('_');
            }
            name.push(c.to_ascii_uppercase());
            name
        });
        let line = format!("\t{name} = {},", (*value).into());
        assert!(text.contains(&line), "{file} has no `{}`", line.trim());
    }
}

#[test]
fn the_numbers_of_enums_are_the_same_in_both_languages() {
    use headway_cc::cc::{CaState, Event, bbr1, bbr3, brake::BrakeMode};
    assert_numbers("cc.h", "EVENT", Event::ALL);
    assert_numbers("cc.h", "CA", CaState::ALL);
    assert_numbers("bbr1.h", "BBR", bbr1::Mode::ALL);
    assert_numbers("bbr3.h", "BBR3", bbr3::Mode::ALL);
    assert_numbers("bbr3.h", "BBR3_ACKS", bbr3::AckPhase::ALL);
    assert_numbers("brake.h", "BRAKE", BrakeMode::ALL);
}
