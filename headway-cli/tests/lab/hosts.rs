//! What the hosts cost: the instructions that the lab counts, and requests and echoes on a wire that takes no time.

use super::*;

/// A second of idling takes a thousand million instructions' time and hardly any instructions, and work takes the same
/// number of them on every run: the same to the last one on an idle host, and some 25,000 more or fewer on one that compiled
/// meanwhile. What takes them is not known.
#[test]
fn instructions_are_counted_and_idle_time_is_not() {
    if kernel("6.12.").is_none() {
        return;
    }
    let counted = || {
        let output = Command::new(env!("CARGO_BIN_EXE_headway"))
            .args([
                "in-lab",
                "--kernel",
                "6.12",
                "--tool",
                "",
                "count",
                "wait 1000",
                "count",
                "headway list",
                "count",
            ])
            .output()
            .unwrap();
        let said = text(&output);
        let counts = said.lines().filter_map(|l| l.strip_prefix("counted ")?.strip_suffix(" instructions"));
        let counts: Vec<u64> = counts.map(|n| n.parse().unwrap()).collect();
        assert_eq!(counts.len(), 2, "{said}");
        counts
    };
    let first = counted();
    assert!(first[0] < 100_000_000, "a second of waiting: {first:?}");
    assert!((1_000_000..1_000_000_000).contains(&first[1]), "work: {first:?}");
    let second = counted();
    let apart: Vec<u64> = first.iter().zip(&second).map(|(a, b)| a.abs_diff(*b)).collect();
    assert!(apart.iter().all(|n| *n < 100_000), "{first:?} {second:?}");
}

/// On a wire nothing is measured but the hosts, to the nanosecond and the same on every run. The `ping` of iputils, in a guest of its own,
/// is who our echoes must agree with.
#[test]
fn a_wire_measures_the_hosts() {
    measure_the_hosts("wire", false);
}

#[test]
#[ignore = "six comparisons: `make test-long`"]
fn long_a_wire_has_as_many_verdicts_as_announced() {
    measure_the_hosts("verdicts", true);
}

/// With `verdicts` also whether each kind of load has as many as its plan announces.
fn measure_the_hosts(name: &str, verdicts: bool) {
    if kernel("6.12").is_none() {
        return;
    }
    let s = Scratch::new(name);
    let run = |out: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headway"));
        command.args([
            "bench",
            "--in",
            "lab",
            "--kernel",
            "6.12",
            "--cc",
            "cubic",
            "--path",
            "loopback,veth",
        ]);
        command.args(["--seconds", "1", "--blocks", "1", "--out", out]).args(more).current_dir(&s.0);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        fs::read_to_string(s.0.join(out).join("results.csv")).unwrap()
    };
    let csv = run("one", &["--requests", "udp", "--streams", "4"]);
    run("two", &["--requests", "udp", "--streams", "4"]);
    assert!(
        raw_files(&s.0.join("one/cells")) == raw_files(&s.0.join("two/cells")),
        "not the same bytes again"
    );
    let value = |csv: &str, row: usize, name: &str| -> f64 {
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let at = lines.next().unwrap().iter().position(|column| *column == name).unwrap();
        lines.nth(row).unwrap()[at].parse().unwrap_or(f64::NAN)
    };
    // Four clients keep the one CPU busy, so what a request costs is what lies between two of them.
    let (cost_us, per_s) = (value(&csv, 0, "machine_us_per_request"), value(&csv, 0, "requests_per_s"));
    assert!((cost_us * per_s / 1e6 - 1.0).abs() < 0.05, "{cost_us} us, {per_s}/s");
    let (median_us, p99_us) = (value(&csv, 0, "request_p50_us"), value(&csv, 0, "request_p99_us"));
    assert!(median_us > cost_us && median_us <= p99_us, "{median_us} {p99_us}");
    let idle = run("idle", &["--idle"]);
    if verdicts {
        verdicts_are_as_many_as_announced(&run, &value, &[("idle", &idle), ("requests", &csv)]);
    }
    let ours_us = value(&idle, 0, "ping_mean_us");
    if has("ping") {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headway"));
        // -U: until the program has the answer, as ours.
        let ping = "ping -q -U -c 200 127.0.0.1";
        let output = command.args(["in-lab", "--kernel", "6.12", "--tool", "ping", ping]).output().unwrap();
        let said = text(&output);
        let times = said.split("mdev = ").nth(1).expect(&said);
        let its_us = times.split('/').nth(1).unwrap().parse::<f64>().unwrap() * 1000.0;
        assert!((ours_us / its_us - 1.0).abs() < 0.5, "ours {ours_us} us, ping's {its_us} us");
    }
}

/// How many verdicts a plan announces (`Traffic::primary_metrics`) is how many its cells on a wire can have.
fn verdicts_are_as_many_as_announced(
    run: &dyn Fn(&str, &[&str]) -> String,
    value: &dyn Fn(&str, usize, &str) -> f64,
    made: &[(&str, &str)],
) {
    let loads: [(&str, &[&str]); 3] =
        [("flood", &["--flood", "64"]), ("bulk", &[]), ("busy", &["--cpu-load", "50"])];
    let more = loads.map(|(load, args)| (load, run(load, args)));
    let announced = [("idle", 1), ("requests", 3), ("flood", 3), ("bulk", 4), ("busy", 3)];
    for (load, csv) in made.iter().copied().chain(more.iter().map(|(load, csv)| (*load, &**csv))) {
        let primaries = [
            "goodput_bps",
            "queue_delay_p95_us",
            "retransmit_rate",
            "request_p99_us",
            "ping_mean_us",
            "machine_s_per_gb",
            "machine_us_per_request",
        ];
        let has = primaries.iter().filter(|name| !value(csv, 0, name).is_nan()).count();
        assert!(announced.contains(&(load, has)), "{load} has {has}: {csv}");
    }
}
