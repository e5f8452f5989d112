//! The ring of what was in flight; `replay.c` has the same under the name `ring`.

use super::replay::{Bug, Scratch, build, build_with_bug, compare, replay, sources};
use super::stream::{Unit, stream};
use super::{LINES, new, seed};
use headway_cc::cc::{Ack, Control, Controller, Event};
use headway_cc::reconstruct::{RING_ENTRIES, Ring, RingEntry, RingPacket};

/// The ring behind the face of a controller: each event asks it for the packet of the sample and for one of any age.
#[derive(Clone, Debug, Default)]
struct RingTwin {
    ring: Ring,
    found: RingEntry,
}

impl Controller for RingTwin {
    fn on_event(&mut self, ack: &Ack) -> Control {
        let [delivered, lost, inflight, rand] =
            [ack.delivered, ack.lost, ack.inflight, ack.rand].map(|w| w as u32);
        let end = delivered.wrapping_add(inflight);
        let now = RingEntry { delivered, lost, inflight, outstanding: inflight.wrapping_add(rand % 8), end };
        let sample = RingPacket {
            delivered: ack.rs_prior_delivered as u32,
            end: delivered.wrapping_sub(rand % 16),
            is_retransmission: ack.rs_is_app_limited,
        };
        let age = rand % inflight.wrapping_mul(4).wrapping_add(1);
        let any =
            RingPacket { delivered: delivered.wrapping_sub(age), end, is_retransmission: rand & 1 != 0 };
        if ack.event == Event::Init {
            self.ring = Ring::default();
        }
        self.ring.raise(ack.prior_inflight as u32);
        self.ring.sample_delivered = sample.delivered;
        let (of_sample, of_any) = (self.ring.find(&sample), self.ring.find(&any));
        let mut tx_in_flight = 0;
        if let Some(at) = of_sample {
            self.found = self.ring.entry(at);
            self.ring.sample_lost = self.found.lost;
            tx_in_flight = self.ring.tx_in_flight(at, &sample, rand % 3).into();
        }
        self.ring.note(&now);
        let index = |at: Option<usize>| at.unwrap_or(RING_ENTRIES) as u64;
        Control {
            cwnd: index(of_sample),
            pacing_rate: index(of_any),
            send_quantum: tx_in_flight,
            ..Control::default()
        }
    }

    fn state(&self) -> Vec<u64> {
        let RingEntry { delivered, lost, inflight, outstanding, end } = self.found;
        let found = [self.ring.sample_lost, delivered, lost, inflight, outstanding, end].map(u64::from);
        [&[self.ring.opened()], &found[..]].concat()
    }

    fn state_fields(&self) -> &'static [&'static str] {
        &["opened", "sample_lost", "delivered", "lost", "inflight", "outstanding", "end"]
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
    Bug { file: "ring.h", function: "ring_note", from: "delivered + lost < flight", to: "delivered + lost <= flight" },
    Bug { file: "ring.h", function: "ring_note", from: "now->delivered - r->sample_delivered)", to: "0)" },
    Bug { file: "ring.h", function: "ring_note", from: "lost < (now", to: "lost <= (now" },
    Bug { file: "ring.h", function: "ring_note", from: "(!lost ||", to: "(1 ||" },
    Bug { file: "ring.h", function: "ring_is_before", from: "p->is_retransmission ||", to: "" },
    Bug { file: "ring.h", function: "ring_is_before", from: "e->end) > 0", to: "e->end) >= 0" },
    Bug { file: "ring.h", function: "ring_find", from: "at + step < end &&", to: "" },
    Bug { file: "ring.h", function: "ring_find", from: "step = RING_ENTRIES / 2", to: "step = RING_ENTRIES / 4" },
    Bug { file: "ring.h", function: "ring_tx_in_flight", from: "(int)span > 0", to: "(int)span >= 0" },
    Bug { file: "ring.h", function: "ring_tx_in_flight", from: "!!(span % unit)", to: "0" },
    Bug { file: "ring.h", function: "ring_tx_in_flight", from: "e->inflight < outstanding", to: "0" },
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
