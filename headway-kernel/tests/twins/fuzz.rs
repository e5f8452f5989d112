//! Events that no transport sends, through both twins: C under the address and undefined-behaviour sanitizers, Rust
//! with its overflow checks, and both must answer the same.
//!
//! `HEADWAY_FUZZ_SECONDS=600` goes on for so long; without it a few rounds are run. A failure names its seed:
//! `HEADWAY_SEED=n` starts with it.

use super::replay::{Scratch, build_with, compare, sources, start, write_input};
use super::stream::{Rng, Unit, legal, stream};
use super::{TWINS, Twin, seed};
use headway_cc::cc::{Ack, NO_RTT};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Rounds for each twin, and events in one.
const ROUNDS: u64 = 12;
const EVENTS: usize = 4_000;

const SANITIZERS: &[&str] = &["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// Runs `round` with one seed after the other.
fn rounds(mut round: impl FnMut(u64)) {
    let seconds = std::env::var("HEADWAY_FUZZ_SECONDS").ok().map(|s| s.parse().expect("whole seconds"));
    let end = seconds.map(|s| Instant::now() + Duration::from_secs(s));
    let first = seed();
    let mut n = 0;
    while end.map_or(n < ROUNDS, |end| Instant::now() < end) {
        round(first + n);
        n += 1;
    }
    println!("{n} rounds");
}

#[test]
fn any_event_has_the_same_answer_and_no_undefined_behaviour() {
    let scratch = Scratch::new("fuzz");
    let program = build_with(&sources(), &scratch, SANITIZERS);
    let input = scratch.path().join("events");
    rounds(|seed| {
        for twin in TWINS {
            let mut rng = Rng(seed);
            let sets = (twin.params)();
            let params = &sets[rng.range(0, sets.len() as u64 - 1) as usize];
            let acks = events(&mut rng, twin, params);
            write_input(&input, twin.name, params, &acks);
            let result = compare(start(&program, &input), &acks, (twin.new)(params), |_, _, _| ());
            if let Err(difference) = result {
                panic!("{}, HEADWAY_SEED={seed}: {difference}", twin.name);
            }
        }
    });
}

/// Whatever the input, `replay` ends by itself: with 0, or with 1 and a sentence.
#[test]
fn any_text_is_replayed_or_refused() {
    let scratch = Scratch::new("texts");
    let program = build_with(&sources(), &scratch, SANITIZERS);
    let input = scratch.path().join("text");
    let mut refused = 0;
    rounds(|seed| {
        let mut rng = Rng(seed);
        let twin = &TWINS[rng.range(0, TWINS.len() as u64 - 1) as usize];
        let params = &(twin.params)()[0];
        write_input(&input, twin.name, params, &events(&mut rng, twin, params)[..20]);
        let text = fs::read(&input).expect("the file was just written");
        for _ in 0..8 {
            fs::write(&input, spoiled(&mut rng, text.clone())).expect("the scratch folder is writable");
            let code = run(&program, &input);
            assert!(code == Some(0) || code == Some(1), "HEADWAY_SEED={seed}: {code:?}");
            refused += u64::from(code == Some(1));
        }
    });
    assert!(refused > 0);
}

/// The exit code. A sanitizer that finds something ends the program with 99.
fn run(program: &Path, input: &Path) -> Option<i32> {
    let status = Command::new(program)
        .stdin(fs::File::open(input).expect("the file was just written"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .env("ASAN_OPTIONS", "exitcode=99")
        .env("UBSAN_OPTIONS", "exitcode=99")
        .status();
    status.expect("the program was just built").code()
}

/// Events of a connection, of whose fields more and more are changed; or words at random.
fn events(rng: &mut Rng, twin: &Twin, params: &[u64]) -> Vec<Ack> {
    let unit = rng.pick(&[Unit::Packets, Unit::Bytes]);
    let mut acks = stream(rng.next(), unit, EVENTS, &|| (twin.new)(params));
    let one_in = rng.pick(&[1, 3, 50]);
    let most = rng.pick(&[1, 4, Ack::FIELDS.len() as u64]);
    let mut last = acks[0].words();
    for ack in &mut acks {
        let mut words = ack.words();
        if rng.one_in(one_in) {
            for _ in 0..rng.range(1, most) {
                let at = rng.range(0, words.len() as u64 - 1) as usize;
                words[at] = word(rng, words[at], last[at]);
            }
        }
        last.clone_from(&words);
        *ack = legal(&words);
    }
    acks
}

/// Another value for a field, from its own, that of the event before, or none at all.
fn word(rng: &mut Rng, now: u64, before: u64) -> u64 {
    let bits = rng.range(0, 63);
    match rng.range(0, 9) {
        0 => rng.range(0, 8),
        1 => rng.pick(&[NO_RTT - 1, NO_RTT, NO_RTT + 1, 1 << 24, 1 << 40]),
        2 => rng.pick(&[1 << 63, u64::MAX - 1, u64::MAX]),
        3 => before,
        4 => now.wrapping_add(rng.range(0, 2)).wrapping_sub(1),
        5 => now ^ (1 << bits),
        6 => now << (bits / 2),
        7 => now >> (bits / 2),
        8 => u64::MAX >> bits,
        _ => rng.next() >> bits,
    }
}

/// A text with bytes changed, left out, doubled or cut off.
fn spoiled(rng: &mut Rng, mut text: Vec<u8>) -> Vec<u8> {
    for _ in 0..rng.range(1, 3) {
        let at = rng.range(0, text.len() as u64 - 1) as usize;
        match rng.range(0, 5) {
            0 => text[at] = rng.next() as u8,
            1 => text[at] = rng.pick(b" \n-+x0\0"),
            2 => drop(text.remove(at)),
            3 => text.insert(at, rng.pick(b"9 \n\0")),
            4 => text.truncate(at.max(1)),
            _ => {
                let piece = text[at..].to_vec();
                text.extend(piece);
            }
        }
    }
    text
}
