//! Preset × controller as a readable table, frozen in `tests/golden/presets.txt`.
//!
//! Two guards: the text must not change unnoticed (`HEADWAY_GOLDEN=write cargo test -p headway-cc --test golden`
//! accepts a change), and the figures must make sense, so that accepting blindly cannot freeze nonsense.

use headway_cc::path::{self, PRESETS};
use headway_cc::sim::{FlowSpec, SimRun, SimSpec, run};

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

fn figures(name: &str, cc: &str, seconds: u64, warmup_us: u64) -> Figures {
    let path = path::resolve(name).unwrap();
    let spec = SimSpec::new(path.clone(), vec![FlowSpec::bulk(cc)], seconds * 1_000_000, SEED);
    let run = run(&spec).unwrap();
    let capacity_bits = path.capacity_bits(warmup_us * 1000, seconds * 1_000_000_000);
    let bins = run.flows[0].bins.iter().filter(|b| b.t_us >= warmup_us);
    let payload_bits = 8 * bins.map(|b| b.delivered_bytes).sum::<u64>();
    let queue = queueing_delays(&run, warmup_us);
    Figures {
        // Headers are no payload: what fills the link is 1448 of 1500 bytes.
        utilisation: payload_bits * 1500 / 1448 * 1000 / capacity_bits,
        queue_p50_us: queue[queue.len() / 2],
        queue_p95_us: queue[queue.len() * 95 / 100],
        retransmitted: run.flows[0].retransmitted_bytes * 1000 / run.flows[0].sent_bytes,
    }
}

/// Of the probes that came back, sorted.
fn queueing_delays(run: &SimRun, warmup_us: u64) -> Vec<u64> {
    let load = run.probes.iter().filter(|p| p.sent_us >= warmup_us);
    let mut delays: Vec<u64> = load.filter_map(|p| Some(p.rtt_us?.saturating_sub(run.base_rtt_us))).collect();
    delays.sort_unstable();
    delays
}

/// What must hold whatever the table says: (preset, controller, least utilisation ‰, most queueing delay p95 µs,
/// least and most retransmitted ‰). The reasons:
/// `clean`: one BDP is all the buffer either needs, BBR drains it and CUBIC fills it (40 ms). `drop`: the old rate's
/// flight must drain at 15 Mbit/s. `lossy`, `randloss`: BBR ignores 1 %, CUBIC falls to about 1.2 / sqrt(loss)
/// segments a round. `policer`: a token bucket never queues. `bloat`: only CUBIC fills ten BDP (300 ms). `shallow`: a
/// fiftieth of a BDP throws CUBIC back at every overshoot. `aqm`: CoDel holds the queue near 5 ms. `dc-1g`: nothing
/// is lost for want of a millisecond. `step`: up and down with 300 ms of buffer.
/// `bbr3`: paces at 99 % of the rate and halves its window for ProbeRTT every 5 s (`clean` and all that never lose);
/// tolerates 1 % of loss (`lossy`, `randloss`) but not what bbr1 loses in `shallow`, where it cruises at 85 % of the
/// volume that was lost at; its probes fill up to a round trip of buffer, twice in 5 s (the p95). In `dc-ecn` every
/// mark above 0.24 ms of queue counts as a loss. `noise`: a steady mean is filled whatever its noise, and 3 ms of the
/// delay are jitter. `lte-att`: 1.5 MB last seconds when the rate falls.
const SENSE: &[(&str, &str, u64, u64, u64, u64)] = &[
    ("clean", "bbr1", 950, 25_000, 1, 10),
    ("clean", "bbr3", 950, 30_000, 0, 5),
    ("clean", "cubic", 980, 41_000, 0, 5),
    ("drop", "bbr1", 900, 280_000, 0, 60),
    ("drop", "bbr3", 930, 260_000, 0, 20),
    ("drop", "cubic", 950, 280_000, 0, 20),
    ("lossy", "bbr1", 850, 60_000, 10, 40),
    ("lossy", "bbr3", 850, 90_000, 8, 30),
    ("lossy", "cubic", 10, 10_000, 8, 20),
    ("policer", "bbr1", 900, 5_000, 0, 150),
    ("policer", "bbr3", 900, 5_000, 0, 100),
    ("policer", "cubic", 800, 5_000, 0, 50),
    ("dc-1g", "bbr1", 950, 10_000, 0, 1),
    ("dc-1g", "bbr3", 950, 2_000, 0, 1),
    ("dc-1g", "cubic", 950, 11_000, 0, 1),
    ("bloat", "bbr1", 950, 30_000, 0, 5),
    ("bloat", "bbr3", 950, 30_000, 0, 5),
    ("bloat", "cubic", 980, 310_000, 0, 5),
    ("coexist", "bbr1", 950, 30_000, 0, 10),
    ("coexist", "bbr3", 950, 30_000, 0, 5),
    ("coexist", "cubic", 980, 31_000, 0, 5),
    ("shallow", "bbr1", 850, 3_000, 10, 100),
    ("shallow", "bbr3", 820, 3_000, 5, 30),
    ("shallow", "cubic", 100, 3_000, 0, 5),
    ("randloss", "bbr1", 850, 60_000, 8, 40),
    ("randloss", "bbr3", 850, 90_000, 8, 20),
    ("randloss", "cubic", 5, 10_000, 8, 20),
    ("step", "bbr1", 900, 100_000, 0, 10),
    ("step", "bbr3", 930, 100_000, 0, 10),
    ("step", "cubic", 950, 310_000, 0, 10),
    ("aqm", "bbr1", 900, 20_000, 0, 10),
    ("aqm", "bbr3", 930, 20_000, 0, 10),
    ("aqm", "cubic", 900, 10_000, 0, 10),
    ("aqm-ecn", "bbr3", 930, 20_000, 0, 0),
    ("aqm-ecn", "cubic", 900, 10_000, 0, 0),
    ("dc-ecn", "bbr3", 350, 1_000, 0, 0),
    ("outage", "bbr1", 100, 100_000, 0, 100),
    ("outage", "bbr3", 100, 100_000, 0, 100),
    ("outage", "cubic", 100, 100_000, 0, 100),
    ("noise", "bbr1", 950, 90_000, 0, 5),
    ("noise", "bbr3", 950, 90_000, 0, 5),
    ("noise", "cubic", 980, 170_000, 0, 5),
    ("lte-att", "bbr1", 700, 5_000_000, 0, 50),
    ("lte-att", "bbr3", 700, 5_000_000, 0, 50),
    ("lte-att", "cubic", 700, 7_000_000, 0, 100),
];

/// Every other row: something gets through, no more than the link carries (2 % for data that waited for a hole to be
/// filled while the warm-up ended), and less is sent again than not.
const ANYWHERE: (u64, u64, u64, u64) = (1, u64::MAX, 0, 500);

fn makes_sense(preset: &str, cc: &str, f: &Figures) -> bool {
    let row = SENSE.iter().find(|s| s.0 == preset && s.1 == cc).map(|s| (s.2, s.3, s.4, s.5));
    let (least, most_us, least_lost, most_lost) = row.unwrap_or(ANYWHERE);
    (least..=1020).contains(&f.utilisation)
        && f.queue_p95_us <= most_us
        && (least_lost..=most_lost).contains(&f.retransmitted)
}

#[test]
fn table_is_as_frozen_and_makes_sense() {
    let mut table =
        String::from("# path cc utilisation_permille queue_p50_us queue_p95_us retransmitted_permille\n");
    let mut nonsense = String::new();
    // Presets that need a trace file are no part of the crate.
    for preset in PRESETS.iter().filter(|p| path::resolve(p.name).unwrap().files().is_empty()) {
        for cc in ["bbr1", "bbr3", "cubic"] {
            let f = figures(preset.name, cc, SECONDS, WARMUP_US);
            let row = format!(
                "{} {cc} {} {} {} {}\n",
                preset.name, f.utilisation, f.queue_p50_us, f.queue_p95_us, f.retransmitted
            );
            table += &row;
            if !makes_sense(preset.name, cc, &f) {
                nonsense += &row;
            }
        }
    }
    for row in SENSE {
        assert!(PRESETS.iter().any(|p| p.name == row.0), "no preset `{}`", row.0);
    }
    assert!(nonsense.is_empty(), "outside the bounds of SENSE:\n{nonsense}\n{table}");
    accept_or_compare(&table);
}

/// What Linux 6.12 measured in the lab over 12 s of which 3 s are warm-up (`bbr` is the kernel's own): (path,
/// kernel's controller, ours, goodput kbit/s, queueing delay p95 µs).
const LAB: &[(&str, &str, &str, u64, u64)] = &[
    ("50mbit 40ms queue=1bdp", "bbr", "bbr1", 46_940, 11_300),
    ("50mbit 40ms queue=1bdp", "cubic", "cubic", 48_230, 38_200),
    ("50mbit 30ms queue=10bdp", "bbr", "bbr1", 46_970, 9_100),
    ("50mbit 30ms queue=10bdp", "cubic", "cubic", 48_200, 297_800),
];

#[test]
fn simulated_flows_behave_as_linux_did_in_the_lab() {
    for (path, kernel, cc, goodput_kbps, p95_us) in LAB {
        let f = figures(path, cc, 12, 3_000_000);
        // The link is full of packets of 1500 bytes that carry 1448.
        let lab_permille = goodput_kbps * 1500 / 1448 * 1000 / 50_000;
        assert!(
            f.utilisation.abs_diff(lab_permille) <= 30,
            "{path}: {cc} {} ‰, {kernel} in the lab {lab_permille} ‰",
            f.utilisation
        );
        assert!(
            f.queue_p95_us.abs_diff(*p95_us) * 100 <= 15 * p95_us,
            "{path}: {cc} {} µs, {kernel} in the lab {p95_us} µs",
            f.queue_p95_us
        );
    }
}

/// The environment variable is the only one that a test of this crate reads.
fn accept_or_compare(table: &str) {
    if std::env::var_os("HEADWAY_GOLDEN").is_some_and(|v| v == "write") {
        std::fs::write(FILE, table).unwrap();
    }
    let frozen = std::fs::read_to_string(FILE).unwrap_or_default();
    let changed: Vec<&str> = table.lines().filter(|l| !frozen.lines().any(|f| f == *l)).collect();
    assert!(
        table == frozen,
        "the table changed (accept with HEADWAY_GOLDEN=write if that is meant):\n{}",
        changed.join("\n")
    );
}
