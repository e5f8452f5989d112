//! What the streams of a controller with its brake on must reach, and bugs of the brake that they must find.

use super::replay::Bug;
use headway_cc::cc::brake::Brake;

/// What can be said of the brake after an event.
pub fn facts(before: &Brake, now: &Brake) -> Vec<String> {
    let is = |value: bool| u64::from(value);
    let mut facts = vec![
        format!("brake {} to {}", u64::from(before.mode), u64::from(now.mode)),
        format!("lossy slots {}", now.lossy_slots.min(1)),
        format!("app-limited slot {}", is(now.slot_is_app_limited)),
        format!("marked slot {}", is(now.slot_is_marked)),
    ];
    let counted = [
        ("entry", before.entries, now.entries),
        ("braked round", before.rounds, now.rounds),
        ("release", before.releases, now.releases),
        ("false entry", before.false_entries, now.false_entries),
    ];
    facts.extend(counted.iter().filter(|(_, then, now)| now > then).map(|(what, ..)| what.to_string()));
    facts
}

pub fn wanted() -> Vec<String> {
    let both = ["lossy slots", "app-limited slot", "marked slot"];
    let mut want: Vec<String> = both.iter().flat_map(|f| [format!("{f} 0"), format!("{f} 1")]).collect();
    want.extend(["entry", "braked round", "release", "false entry"].map(String::from));
    want.extend([(0, 1), (1, 2), (2, 1), (2, 0), (1, 0)].map(|(from, to)| format!("brake {from} to {to}")));
    want
}

/// How many paths [`fall`] has.
pub const FALLS: u64 = 12;

/// A path whose rate falls twice within two seconds, at moments that differ from one to the next.
pub fn fall(nth: u64) -> String {
    let at = 8000 + nth * 370;
    format!("50mbit 40ms queue=4bdp @{at}ms 12mbit @{}ms 5mbit @15s 50mbit", at + 1500)
}

/// The largest values that the counters of a rate that falls several times had.
#[derive(Debug, Default)]
pub struct Highest([u64; REACHED.len()]);

const REACHED: [&str; 1] = ["brake_further_drops"];

impl Highest {
    pub fn note(&mut self, fields: &[&str], row: &[u64]) {
        for (highest, name) in self.0.iter_mut().zip(REACHED) {
            let at = fields.iter().position(|field| *field == name).expect("a field of the state");
            *highest = (*highest).max(row[at]);
        }
    }

    /// Whether each was more than 0 at some time.
    pub fn all_reached(&self) -> bool {
        self.0.iter().all(|highest| *highest > 0)
    }
}

#[rustfmt::skip]
pub const BUGS: &[Bug] = &[
    Bug { file: "brake.h", function: "brake_is_less", from: "& (a - b)", to: "& (b - a)" },
    Bug { file: "brake.h", function: "brake_window", from: "== BRAKE_HOLD", to: "== BRAKE_DRAIN" },
    Bug { file: "brake.h", function: "brake_note_ack", from: ">= brake_slot_us(b) / 8", to: "> brake_slot_us(b) / 8" },
    Bug { file: "brake.h", function: "brake_rtt_limit", from: "? b->p->rtt :", to: "? b->p->rtt * 2 :" },
    Bug { file: "brake.h", function: "brake_watch", from: "b->is_steady &&", to: "" },
    Bug { file: "brake.h", function: "brake_watch", from: "&& !b->s->slot_is_marked", to: "" },
    Bug { file: "brake.h", function: "brake_is_of_probe_rtt", from: "b->ack->rs_is_app_limited && ", to: "" },
    Bug { file: "brake.h", function: "brake_is_only_marked", from: "<= b->s->marked_end", to: "< b->s->marked_start" },
    Bug { file: "brake.h", function: "brake_is_slower_still", from: "> b->s->queue_rtt_us", to: "< b->s->queue_rtt_us" },
    Bug { file: "brake.h", function: "brake_weight", from: "? b->p->memory_worse", to: "? b->p->memory" },
    Bug { file: "brake.h", function: "brake_is_queue_usual", from: "> shared_us", to: "< shared_us" },
    Bug { file: "brake.h", function: "brake_note_long_rtt", from: "? brake_step", to: "== 1 ? brake_step" },
    Bug { file: "brake.h", function: "brake_judge_slot", from: "slot_gap_us, 2)", to: "slot_gap_us, 3)" },
];
