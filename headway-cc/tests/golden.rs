//! Preset × controller as a readable table, frozen in `tests/golden/presets.txt`.
//!
//! Two guards: the text must not change unnoticed (`HEADWAY_GOLDEN=write cargo test -p headway-cc --test golden`
//! accepts a change), and the figures must make sense, so that accepting blindly cannot freeze nonsense.

use headway_cc::path::{self, PRESETS};
use headway_cc::sim::{FlowSpec, SimRun, SimSpec, run};
use std::fmt::Write;

const SECONDS: u64 = 20;
const WARMUP_US: u64 = 2_000_000;
const SEED: u64 = 1;
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/presets.txt");

/// Per mille, so that a table of them needs no rounding rules.
struct Figures {
    utilisation: u64,
    queue_p50_us: u64,
    queue_p95_us: u64,
    retransmitted: u64,
}

fn figures(name: &str, cc: &str) -> Figures {
    let path = path::resolve(name).unwrap();
    let spec = SimSpec::new(path.clone(), vec![FlowSpec::bulk(cc)], SECONDS * 1_000_000, SEED);
    let run = run(&spec).unwrap();
    let capacity_bits = path.capacity_bits(WARMUP_US * 1000, SECONDS * 1_000_000_000);
    let bins = run.flows[0].bins.iter().filter(|b| b.t_us >= WARMUP_US);
    let payload_bits = 8 * bins.map(|b| b.delivered_bytes).sum::<u64>();
    let queue = queueing_delays(&run);
    Figures {
        // Headers are no payload: what fills the link is 1448 of 1500 bytes.
        utilisation: payload_bits * 1500 / 1448 * 1000 / capacity_bits,
        queue_p50_us: queue[queue.len() / 2],
        queue_p95_us: queue[queue.len() * 95 / 100],
        retransmitted: run.flows[0].retransmitted_bytes * 1000 / run.flows[0].sent_bytes,
    }
}

/// Of the probes that came back, sorted.
fn queueing_delays(run: &SimRun) -> Vec<u64> {
    let load = run.probes.iter().filter(|p| p.sent_us >= WARMUP_US);
    let mut delays: Vec<u64> = load.filter_map(|p| Some(p.rtt_us?.saturating_sub(run.base_rtt_us))).collect();
    delays.sort_unstable();
    delays
}

/// What must hold whatever the table says: (preset, controller, least utilisation ‰, most queueing delay p95 µs,
/// least and most retransmitted ‰).
const SENSE: &[(&str, &str, u64, u64, u64, u64)] = &[
    ("clean", "bbr1", 930, 25_000, 0, 5),
    ("clean", "cubic", 950, 45_000, 0, 5),
    ("drop", "bbr1", 850, 300_000, 0, 60),
    ("drop", "cubic", 850, 300_000, 0, 20),
    ("lossy", "bbr1", 800, 150_000, 5, 40),
    ("lossy", "cubic", 10, 10_000, 5, 20),
    ("policer", "bbr1", 600, 20_000, 0, 300),
    ("policer", "cubic", 500, 20_000, 0, 30),
];

#[test]
fn table_is_as_frozen_and_makes_sense() {
    let mut table =
        String::from("# path cc utilisation_permille queue_p50_us queue_p95_us retransmitted_permille\n");
    let mut nonsense = String::new();
    for preset in PRESETS {
        for cc in ["bbr1", "cubic"] {
            let f = figures(preset.name, cc);
            writeln!(
                table,
                "{} {cc} {} {} {} {}",
                preset.name, f.utilisation, f.queue_p50_us, f.queue_p95_us, f.retransmitted
            )
            .unwrap();
            let sense = SENSE.iter().find(|s| s.0 == preset.name && s.1 == cc);
            let Some((.., least, most_us, least_lost, most_lost)) = sense else {
                panic!("no row in SENSE for {} with {cc}: say what is to be expected", preset.name)
            };
            if !(*least..=1000).contains(&f.utilisation)
                || f.queue_p95_us > *most_us
                || !(*least_lost..=*most_lost).contains(&f.retransmitted)
            {
                writeln!(nonsense, "{} {cc}", preset.name).unwrap();
            }
        }
    }
    println!("{table}");
    assert!(nonsense.is_empty(), "outside the bounds of SENSE:\n{nonsense}\n{table}");
    // The one variable of the environment that a test of this crate reads.
    if std::env::var_os("HEADWAY_GOLDEN").is_some_and(|v| v == "write") {
        std::fs::write(FILE, &table).unwrap();
    }
    let frozen = std::fs::read_to_string(FILE).unwrap_or_default();
    assert_eq!(table, frozen, "the table changed; accept with HEADWAY_GOLDEN=write if that is meant");
}
