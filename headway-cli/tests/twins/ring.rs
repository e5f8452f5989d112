//! The ring of what was in flight; `replay.c` has the same under the name `ring`.

use super::replay::{Scratch, build, build_with_bug, compare, replay, sources};
use super::stream::{Unit, stream};
use super::{LINES, new, seed};
use headway_cc::cc::{Ack, Control, Controller, EVENT_INIT};
use headway_cc::reconstruct::{RING_ENTRIES, Ring};

/// Asked for the packet of the sample and for one of any age.
#[derive(Debug, Default)]
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

#[test]
fn a_bug_planted_in_the_ring_is_found() {
    let acks = stream(seed(), Unit::Packets, LINES, &|| new("bbr1"));
    for (function, from, to) in [
        ("ring_raise", "prior_inflight > newest", "prior_inflight < newest"),
        ("ring_note", "left < flight", "left <= flight"),
        ("ring_note", "delivered - r->sample)", "0)"),
        ("ring_note", "if (delivered != e->delivered)", "if (1)"),
        ("ring_find", "at + step < end &&", ""),
        (
            "ring_find",
            "- ring_entry(r, at + step)->delivered) >= 0",
            "- ring_entry(r, at + step)->delivered) > 0",
        ),
        ("ring_find", "step = RING_ENTRIES / 2", "step = RING_ENTRIES / 4"),
    ] {
        let scratch = Scratch::new(&format!("bug-{function}-{}", from.len()));
        let program = build_with_bug(&scratch, "ring.h", from, to);
        let rows = replay(&program, "ring", &[], &acks);
        let result = compare(rows, &acks, Box::new(RingTwin::default()), |_, _, _| ());
        let found = result.expect_err(&format!("`{to}` in {function} stays unseen"));
        println!("{function}: event {}, `{}`", found.line, found.field);
    }
}
