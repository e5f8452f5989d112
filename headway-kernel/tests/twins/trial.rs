//! The arithmetic of a trial: the coin, and the buckets of round trips; `replay.c` has the same under the name `trial`.

use super::replay::{Scratch, build, compare, replay, sources};
use super::seed;
use super::stream::Rng;
use headway_cc::cc::{Ack, Control, Controller};
use headway_cc::histogram::{BUCKETS, bucket};

/// `struct connection` of `bpf/trial.h` behind the face of a controller: each event is a round trip, and a toss.
#[derive(Clone, Debug)]
struct TrialTwin {
    samples: u64,
    halvings: u64,
    counts: [u16; BUCKETS],
}

impl TrialTwin {
    fn count(&mut self, us: u64) {
        let is_skipped = mixed(self.samples) & ((1 << self.halvings) - 1) != 0;
        self.samples += 1;
        if is_skipped {
            return;
        }
        if self.counts[bucket(us)] == u16::MAX {
            self.counts = self.counts.map(|n| n.div_ceil(2));
            self.halvings += 1;
        }
        self.counts[bucket(us)] += 1;
    }
}

fn mixed(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Controller for TrialTwin {
    fn on_event(&mut self, ack: &Ack) -> Control {
        self.count(ack.delivered);
        let toss = mixed(mixed(mixed(ack.now_us).wrapping_add(ack.smss)).wrapping_add(ack.cwnd));
        Control {
            cwnd: bucket(ack.delivered) as u64,
            pacing_rate: u64::from(toss >> 48 < ack.unit_bytes),
            ..Control::default()
        }
    }

    fn state(&self) -> Vec<u64> {
        let words =
            self.counts.chunks_exact(4).map(|c| c.iter().rev().fold(0, |w, n| w << 16 | u64::from(*n)));
        [self.samples, self.halvings].into_iter().chain(words).collect()
    }

    fn state_fields(&self) -> &'static [&'static str] {
        const NAMES: [&str; 2 + BUCKETS / 4] = {
            let mut names = ["counts"; 2 + BUCKETS / 4];
            (names[0], names[1]) = ("samples", "halvings");
            names
        };
        &NAMES
    }
}

/// Times at the edges of all buckets and between, every second one of 40 ms so that its bucket overflows, and tosses of all
/// chances.
#[test]
fn coins_and_buckets_are_equal() {
    let scratch = Scratch::new("trial");
    let program = build(&sources(), &scratch);
    let mut rng = Rng(seed());
    let acks: Vec<Ack> = (0..250_000)
        .map(|n: u64| {
            let octave = 1 << (n / 2 % 32);
            let edge: u64 = (octave + rng.range(0, 4) * (octave >> 2)).saturating_sub(rng.range(0, 2));
            let us = if n.is_multiple_of(2) { 40_000 } else { edge.min(u64::from(u32::MAX)) };
            let (slot, key) = (rng.range(0, (1 << 32) - 1), rng.range(0, u64::MAX - 1));
            let (chance, toss_seed) = (rng.range(0, 65_537), rng.range(0, u64::MAX - 1));
            Ack {
                delivered: us,
                now_us: toss_seed,
                smss: slot,
                cwnd: key,
                unit_bytes: chance,
                ..Ack::default()
            }
        })
        .collect();
    let new = TrialTwin { samples: 0, halvings: 0, counts: [0; BUCKETS] };
    let mut last = Vec::new();
    let rows = replay(&program, "trial", &[], &acks);
    compare(rows, &acks, Box::new(new), |_, _, state: &[u64]| last = state.to_vec())
        .unwrap_or_else(|d| panic!("{d}"));
    // What the halved counts stand for is what was there, as counted without them.
    let (halvings, truth) = (last[1], acks.iter().filter(|a| bucket(a.delivered) == bucket(40_000)).count());
    let stands_for = (last[2 + bucket(40_000) / 4] >> (16 * (bucket(40_000) % 4)) & 0xffff) << halvings;
    println!("{halvings} halvings: {stands_for} stands for {truth}");
    assert!(halvings >= 1 && stands_for.abs_diff(truth as u64) * 100 < truth as u64);
}
