//! The C twins against the Rust cores, bit for bit: seeded random streams, every simulated preset, planted bugs.
//!
//! `HEADWAY_SEED=n` chooses the stream; the first differing event is the bug report.

mod replay;
mod ring;
mod stream;

use headway_cc::cc::bbr1::{BBR_PROBE_BW, Bbr1, Bbr1Params, Bbr1State};
use headway_cc::cc::fixed::{Winmax, bw_data, bw_from, gain_apply, mul_shift};
use headway_cc::cc::{Ack, CA_LOSS, CA_RECOVERY, Control, Controller, EVENT_INIT, EVENT_UNDO, controller};
use headway_cc::path::{self, PRESETS};
use headway_cc::sim::{self, FlowSpec, SimSpec, Source};
use replay::{Scratch, build, build_with_bug, compare, replay, sources};
use std::collections::BTreeSet;
use stream::{Rng, Unit, stream};

/// Events per (controller, unit).
const LINES: usize = 200_000;

/// A controller with a C twin.
struct Twin {
    name: &'static str,
    /// What C is given.
    params: fn() -> Vec<u64>,
}

/// Every controller with a C twin; a new one is a row here.
const TWINS: &[Twin] = &[Twin { name: "bbr1", params: || Bbr1Params::default().words() }];

fn seed() -> u64 {
    let seed =
        std::env::var("HEADWAY_SEED").ok().map_or(1, |s| s.parse().expect("HEADWAY_SEED is an integer"));
    println!("HEADWAY_SEED={seed}");
    seed
}

fn new(name: &str) -> Box<dyn Controller> {
    controller(name).unwrap_or_else(|| panic!("no controller `{name}`"))
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
    for Twin { name, params } in TWINS {
        let acks = stream(seed, unit, LINES, &|| new(name));
        let mut seen = Coverage::default();
        let rows = replay(&program, name, &params(), &acks);
        let result = compare(rows, &acks, new(name), |ack, control, state| {
            seen.note(name, ack, control, state);
        });
        if let Err(difference) = result {
            panic!("{name}, {unit:?}, HEADWAY_SEED={seed}: {difference}");
        }
        seen.assert_complete();
    }
}

#[test]
fn every_simulated_preset_is_equal() {
    let seed = seed();
    let scratch = Scratch::new("presets");
    let program = build(&sources(), &scratch);
    for (twin, preset) in TWINS.iter().flat_map(|t| PRESETS.iter().map(move |p| (t, p))) {
        let path = path::resolve(preset.name).expect("presets parse");
        if !path.files().is_empty() {
            continue; // the trace file is no part of the program
        }
        let bulk = FlowSpec::bulk(twin.name);
        let on_off = Source::OnOff { on_us: 700_000, off_us: 1_300_000 };
        let second = FlowSpec { source: on_off, start_us: 2_000_000, ..bulk.clone() };
        // Long enough for the first PROBE_RTT, unless the path is so fast that the trace would fill the memory.
        let times_100_mbit = path.rate_bps_at(0).map_or(0, |bps| bps / 100_000_000);
        let duration_us = (12_000_000 / times_100_mbit.max(1)).max(2_500_000);
        let spec = SimSpec { trace: true, ..SimSpec::new(path, vec![bulk, second], duration_us, seed) };
        let run = sim::run(&spec).expect("presets run");
        let events: usize = run.flows.iter().map(|f| f.trace.len()).sum();
        println!("{}, {}: {events} events", twin.name, preset.name);
        assert!(events > 20, "{}: {events} events", preset.name);
        for (i, flow) in run.flows.iter().enumerate() {
            let acks: Vec<Ack> = flow.trace.iter().map(|row| row.ack).collect();
            let rows = replay(&program, twin.name, &(twin.params)(), &acks);
            if let Err(difference) = compare(rows, &acks, new(twin.name), |_, _, _| ()) {
                panic!(
                    "{}, preset `{}`, flow {i}, HEADWAY_SEED={seed}: {difference}",
                    twin.name, preset.name
                );
            }
        }
    }
}

/// The arithmetic by itself; `replay.c` has the same under the name `fixed`.
#[derive(Debug, Default)]
struct Fixed(Winmax);

impl Controller for Fixed {
    fn on_event(&mut self, ack: &Ack) -> Control {
        let (a, b) = (ack.event, ack.now_us);
        self.0.running_max(ack.unit_bytes, ack.smss, ack.cwnd);
        Control {
            cwnd: bw_from(a, b),
            pacing_rate: bw_data(a, b),
            send_quantum: gain_apply(a, b),
            mark_app_limited: mul_shift(a, b, 63),
        }
    }

    fn state(&self) -> Vec<u64> {
        self.0.s.iter().flat_map(|s| [s.t, s.v]).collect()
    }

    fn state_fields(&self) -> &'static [&'static str] {
        &["s0_t", "s0_v", "s1_t", "s1_v", "s2_t", "s2_v"]
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
        .map(|(event, now_us)| {
            let (unit_bytes, smss, cwnd) = (rng.range(0, 12), rng.range(0, 40), rng.range(0, 40));
            Ack { event, now_us, unit_bytes, smss, cwnd, ..Ack::default() }
        })
        .collect();
    let rows = replay(&program, "fixed", &[], &acks);
    compare(rows, &acks, Box::new(Fixed::default()), |_, _, _| ()).unwrap_or_else(|d| panic!("{d}"));
}

/// What a stream has reached; an equality over a stream that stays in STARTUP would say little.
#[derive(Debug, Default)]
struct Coverage {
    seen: BTreeSet<String>,
    before: Bbr1State,
}

impl Coverage {
    fn note(&mut self, name: &str, ack: &Ack, control: &Control, state: &[u64]) {
        if name != "bbr1" {
            return;
        }
        let now = Bbr1State::from_words(state).expect("a whole state");
        let before = std::mem::replace(&mut self.before, now);
        if now == before {
            return;
        }
        let mut facts = vec![
            format!("event {}", ack.event),
            format!("mode {} to {}", before.mode, now.mode),
            format!("round_start {}", now.round_start),
            format!("idle_restart {}", now.idle_restart),
            format!("packet_conservation {}", now.packet_conservation),
            format!("probe_rtt_round_done {}", now.probe_rtt_round_done),
            format!("has_seen_rtt {}", now.has_seen_rtt),
            format!("full_bw_cnt {}", now.full_bw_cnt),
            format!("extra_acked_win_idx {}", now.extra_acked_win_idx),
            format!("lt_is_sampling {}", now.lt_is_sampling),
            format!("mark_app_limited {}", control.mark_app_limited),
            format!("prev_ca_state {}", now.prev_ca_state.min(CA_LOSS + 1)),
        ];
        if now.mode == BBR_PROBE_BW {
            facts.push(format!("cycle_idx {}", now.cycle_idx));
        }
        if now.lt_use_bw != before.lt_use_bw && ack.event != EVENT_INIT && ack.event != EVENT_UNDO {
            facts.push(format!("lt_use_bw {}", now.lt_use_bw));
        }
        self.seen.extend(facts);
    }

    fn assert_complete(&self) {
        let both =
            ["round_start", "idle_restart", "packet_conservation", "probe_rtt_round_done", "has_seen_rtt"];
        let more = ["extra_acked_win_idx", "lt_is_sampling", "lt_use_bw", "mark_app_limited"];
        let mut want: Vec<String> =
            both.iter().chain(&more).flat_map(|f| [format!("{f} 0"), format!("{f} 1")]).collect();
        want.extend((0..=5).map(|i| format!("event {i}")));
        want.extend((0..=3).map(|i| format!("full_bw_cnt {i}")));
        want.extend((0..=7).map(|i| format!("cycle_idx {i}")));
        want.extend(
            ["0 to 1", "0 to 2", "0 to 3", "1 to 2", "2 to 3", "3 to 0", "3 to 2"]
                .map(|m| format!("mode {m}")),
        );
        want.extend([0, CA_RECOVERY, CA_LOSS].map(|s| format!("prev_ca_state {s}")));
        let missing: Vec<_> = want.iter().filter(|w| !self.seen.contains(*w)).collect();
        assert!(missing.is_empty(), "the stream never reached {missing:?}; it reached {:?}", self.seen);
    }
}

/// Bugs of a token or two: where, what it reads, what the mutant reads.
const BUGS: &[(&str, &str, &str, &str)] = &[
    ("fixed.h", "mul_shift", "a0 * b1 + (u32)mid;", "a0 * b1 + mid;"),
    ("fixed.h", "winmax_subwin_update", "dt > win / 4", "dt >= win / 4"),
    ("fixed.h", "winmax_running_max", "v >= m->s[1].v", "v > m->s[1].v"),
    ("bbr1.h", "bbr_save_cwnd", "prev_ca_state < CA_RECOVERY &&", "prev_ca_state <= CA_RECOVERY &&"),
    ("bbr1.h", "bbr_bdp", "sat_add(w, BW_UNIT - 1)", "sat_add(w, BW_UNIT)"),
    ("bbr1.h", "bbr_set_cwnd_to_recover_or_restore", "&& state < CA_RECOVERY", "&& state <= CA_RECOVERY"),
    (
        "bbr1.h",
        "bbr_is_next_cycle_phase",
        "return is_full_length || inflight",
        "return is_full_length && inflight",
    ),
    ("bbr1.h", "bbr_reset_probe_bw_mode", "(u32)sk->ack->rand", "sk->ack->rand"),
    ("bbr1.h", "bbr_lt_bw_sampling", "lt_rtt_cnt >= p->lt_bw_max_rtts", "lt_rtt_cnt > p->lt_bw_max_rtts"),
    ("bbr1.h", "bbr_update_ack_aggregation", "ack_epoch_acked <= expected", "ack_epoch_acked < expected"),
    ("bbr1.h", "bbr_check_full_bw_reached", "bbr->full_bw_cnt >= sk->p", "bbr->full_bw_cnt > sk->p"),
    (
        "bbr1.h",
        "bbr_check_probe_rtt_done",
        "u64_max(sk->out->cwnd, bbr->prior_cwnd);\n\tbbr_reset",
        "u64_min(sk->out->cwnd, bbr->prior_cwnd);\n\tbbr_reset",
    ),
    ("bbr1.h", "bbr_update_min_rtt", "ack->rs_rtt_us < bbr->min_rtt_us", "ack->rs_rtt_us <= bbr->min_rtt_us"),
    ("bbr1.h", "bbr_update_gains", "bbr->cycle_idx == 1)", "bbr->cycle_idx == 2)"),
];

#[test]
fn a_bug_planted_in_c_is_found() {
    let seed = seed();
    let acks = stream(seed, Unit::Packets, LINES, &|| new("bbr1"));
    let params = Bbr1Params::default().words();
    for (file, function, from, to) in BUGS {
        let scratch = Scratch::new(function);
        let program = build_with_bug(&scratch, file, from, to);
        let rows = replay(&program, "bbr1", &params, &acks);
        let result = compare(rows, &acks, new("bbr1"), |_, _, _| ());
        let found = result.expect_err(&format!("a bug in {function} stays unseen (HEADWAY_SEED={seed})"));
        println!("{function}: event {}, `{}`", found.line, found.field);
    }
}

#[test]
fn a_changed_parameter_in_rust_is_found() {
    let seed = seed();
    let scratch = Scratch::new("params");
    let program = build(&sources(), &scratch);
    let acks = stream(seed, Unit::Packets, LINES, &|| new("bbr1"));
    let params = Bbr1Params::default().words();
    let rows: Vec<String> = replay(&program, "bbr1", &params, &acks).collect();
    for (i, field) in Bbr1Params::FIELDS.iter().enumerate() {
        let found = [params[i] / 2, params[i] >> 16].into_iter().find_map(|value| {
            let mut changed = params.clone();
            changed[i] = value;
            let changed = Bbr1Params::from_words(&changed).expect("as many words as before");
            compare(rows.iter(), &acks, Box::new(Bbr1::new(changed)), |_, _, _| ()).err()
        });
        let found = found.unwrap_or_else(|| panic!("no event depends on `{field}` (HEADWAY_SEED={seed})"));
        println!("{field}: event {}, `{}`", found.line, found.field);
    }
}

/// A controller whose answer is off by one once in a while.
#[derive(Debug)]
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
