//! The ring of what was in flight; `replay.c` has the same under the name `ring`.

use super::replay::{Bug, Scratch, build, build_with_bug, compare, replay, sources};
use super::stream::{Unit, stream};
use super::{LINES, new, seed};
use headway_cc::cc::{Ack, Control, Controller, EVENT_INIT};
use headway_cc::reconstruct::{RING_ENTRIES, Ring};

/// Asked for the packet of the sample and for one of any age.
#[derive(Clone, Debug, Default)]
struct RingTwin {
    ring: Ring,
    found: [u64; 3],
}

impl Controller for RingTwin {
    fn on_event(&mut self, ack: &Ack) -> Control {
        if ack.event == EVENT_INIT {
            self.ring = Ring::default();
        }
        self.ring.raise(ack.prior_inflight as u32);
        self.ring.sample = ack.rs_prior_delivered as u32;
        let of_sample = self.ring.find(self.ring.sample);
        let age = (ack.rand as u32) % (ack.inflight as u32).wrapping_mul(4).wrapping_add(1);
        let of_any = self.ring.find((ack.delivered as u32).wrapping_sub(age));
        self.ring.note(ack.delivered as u32, ack.lost as u32, ack.inflight as u32);
        if let Some(at) = of_sample {
            let e = self.ring.entry(at);
            self.found = [e.delivered, e.lost, e.inflight].map(u64::from);
        }
        let index = |at: Option<usize>| at.unwrap_or(RING_ENTRIES) as u64;
        Control { cwnd: index(of_sample), pacing_rate: index(of_any), ..Control::default() }
    }

    fn state(&self) -> Vec<u64> {
        let [delivered, lost, inflight] = self.found;
        vec![self.ring.opened(), self.ring.sample.into(), delivered, lost, inflight]
    }

    fn state_fields(&self) -> &'static [&'static str] {
        &["opened", "sample", "delivered", "lost", "inflight"]
    }
}

#[test]
fn rings_are_equal() {
    let seed = seed();
    let scratch = Scratch::new("ring");
    let program = build(&sources(), &scratch);
    for unit in [Unit::Packets, Unit::Bytes] {
        let acks = stream(seed, unit, LINES, &|| new("bbr1"));
        let rows = replay(&program, "ring", &[], &acks);
        let mut misses = [0; 2];
        let result = compare(rows, &acks, Box::new(RingTwin::default()), |_, control, _| {
            misses[0] += u64::from(control.cwnd == RING_ENTRIES as u64);
            misses[1] += u64::from(control.pacing_rate == RING_ENTRIES as u64);
        });
        if let Err(difference) = result {
            panic!("{unit:?}, HEADWAY_SEED={seed}: {difference}");
        }
        println!("{unit:?}: {misses:?} of {LINES} not found");
        assert!(misses.iter().all(|n| (1..LINES as u64 / 4).contains(n)), "{misses:?}");
    }
}

#[rustfmt::skip]
const BUGS: &[Bug] = &[
    Bug { file: "ring.h", function: "ring_raise", from: "prior_inflight > newest", to: "prior_inflight < newest" },
    Bug { file: "ring.h", function: "ring_note", from: "left < flight", to: "left <= flight" },
    Bug { file: "ring.h", function: "ring_note", from: "delivered - r->sample)", to: "0)" },
    Bug { file: "ring.h", function: "ring_note", from: "if (delivered != e->delivered)", to: "if (1)" },
    Bug { file: "ring.h", function: "ring_find", from: "at + step < end &&", to: "" },
    Bug { file: "ring.h", function: "ring_find", from: "step)->delivered) >= 0", to: "step)->delivered) > 0" },
    Bug { file: "ring.h", function: "ring_find", from: "step = RING_ENTRIES / 2", to: "step = RING_ENTRIES / 4" },
];

#[test]
fn a_bug_planted_in_the_ring_is_found() {
    let acks = stream(seed(), Unit::Packets, LINES, &|| new("bbr1"));
    for bug in BUGS {
        let scratch = Scratch::new(&format!("bug-{}-{}", bug.function, bug.from.len()));
        let program = build_with_bug(&scratch, bug);
        let rows = replay(&program, "ring", &[], &acks);
        let result = compare(rows, &acks, Box::new(RingTwin::default()), |_, _, _| ());
        let found = result.expect_err(&format!("{bug:?} stays unseen"));
        println!("{}: event {}, `{}`", bug.function, found.line, found.field);
    }
}
