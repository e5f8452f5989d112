//! Our controllers on kernels in the lab: they run, a socket changes to them, they stay loaded, and what the kernel tells them is
//! what the packets say.

use super::*;

#[test]
fn our_controllers_run_on_a_kernel() {
    our_controllers_run_on(today(&["6.1.", "6.12."]).as_slice());
}

#[test]
#[ignore = "two kernels: `make test-long`"]
fn long_our_controllers_run_on_the_oldest_and_a_newer_kernel() {
    our_controllers_run_on(&["6.1.", "6.12."]);
}

fn our_controllers_run_on(versions: &[&str]) {
    for version in fetched(versions) {
        let s = Scratch::new(version);
        let kernel = version.trim_end_matches('.');
        let output = s.run("run", &["--cc", "bbr1,bbr3", "--trace", "--kernel", kernel]);
        assert!(output.status.success(), "{}", text(&output));
        for cell in ["run/cells/000", "run/cells/001"] {
            assert!(s.status(cell).contains(&format!("\"kernel\": \"{version}")), "{version}");
            let acks = s.0.join(cell).join("acks.txt");
            let replay =
                Command::new(env!("CARGO_BIN_EXE_headway")).arg("replay").arg(acks).output().unwrap();
            println!("{version} {}", text(&replay));
            assert!(replay.status.success(), "{}", text(&replay));
        }
    }
}

/// A flow that pauses, and one that changes its controller amid its data: `cubic`, `bbr3`, `bbr1`, `bbr3`, and round
/// again. On the oldest kernel and the newest that is to be had; the running kernel does the same in
/// `commands/check_switching`.
#[test]
fn a_socket_switches_and_pauses_on_a_kernel() {
    a_socket_switches_and_pauses_on(today(&["6.1.", "7.2."]).as_slice());
}

#[test]
#[ignore = "two kernels: `make test-long`"]
fn long_a_socket_switches_and_pauses_on_each_kernel() {
    a_socket_switches_and_pauses_on(&["6.1.", "7.2."]);
}

fn a_socket_switches_and_pauses_on(versions: &[&str]) {
    for version in fetched(versions) {
        let kernel = version.trim_end_matches('.');
        let output = Command::new(env!("CARGO_BIN_EXE_headway"))
            .args(["in-lab", "--kernel", kernel, "headway check-switching"])
            .output()
            .unwrap();
        let said = text(&output);
        println!("{version} {said}");
        assert!(output.status.success() && said.contains("[exit status: 0]"), "{said}");
        // How many events of each kind the controller has seen: flows that began, ACKs, restarts from idle.
        for (cc, flows) in [("bbr1", 11), ("bbr3", 21)] {
            let line = said.lines().find(|l| l.contains(&format!("cc: \"{cc}\""))).unwrap();
            let (_, kinds) = line.split_once("kinds: [").unwrap();
            let kinds: Vec<u64> = kinds.split([',', ']']).map_while(|n| n.trim().parse().ok()).collect();
            assert_eq!(kinds[0], flows, "{line}");
            assert!(kinds[1] > 500 && kinds[2] > 10, "{line}");
        }
    }
}

/// Without links (6.1) and with them: what is loaded outlives the program that loaded it, and unloading it under
/// traffic leaves the connection alone.
#[test]
fn a_loaded_controller_stays_until_it_is_unloaded() {
    a_loaded_controller_stays_on(today(&["6.1.", "6.12."]).as_slice());
}

#[test]
#[ignore = "two kernels: `make test-long`"]
fn long_a_loaded_controller_stays_until_it_is_unloaded_on_each_kernel() {
    a_loaded_controller_stays_on(&["6.1.", "6.12."]);
}

#[expect(clippy::too_many_lines, reason = "one story in a guest, whose steps depend on each other")]
fn a_loaded_controller_stays_on(versions: &[&str]) {
    for version in fetched(versions) {
        let commands = [
            "headway load bbr1 --as mine --set high_gain=2.9,min_rtt_win_us=5s",
            "headway load bbr1 --as mine",
            "headway load bbr1 --as cubic",
            "server & iperf3 -s -1",
            "wait 200",
            "client & iperf3 -c 127.0.0.1 -C mine -t 3 -b 20M",
            "wait 1000",
            "headway list --loaded",
            "headway unload mine",
            "headway unload mine",
            "headway list --loaded",
            "client wait",
            "headway load bbr1 --as mine",
            "headway list --loaded",
            "headway unload --all",
            "headway list --loaded",
            // A run is not disturbed by a loaded controller of the same name, nor the other way round.
            "headway load bbr1 --set cwnd_gain=1.5",
            "headway bench --in here --cc bbr1 --path clean --blocks 1 --seconds 2 --warmup 0.5 --out /tmp/run",
            "headway list --loaded",
        ];
        let kernel = version.trim_end_matches('.');
        let output = Command::new(env!("CARGO_BIN_EXE_headway"))
            .args(["in-lab", "--kernel", kernel])
            .args(commands)
            .output()
            .unwrap();
        let said = text(&output);
        println!("{said}");
        assert!(output.status.success(), "{said}");
        let parts: Vec<&str> = said.split("$ ").skip(1).collect();
        let expected = [
            "`mine` is loaded: bbr1 with min_rtt_win_us=5s,high_gain=2.9",
            "it is loaded already: bbr1 with min_rtt_win_us=5s,high_gain=2.9",
            "has a congestion control `cubic` already",
            "",
            "",
            "",
            "",
            "sockets now, ",
            "`mine` is unloaded; ",
            "it is not loaded",
            "nothing by us",
            "iperf Done.",
            "`mine` is loaded: bbr1 with default parameters",
            " 0 sockets now, 0 flows so far",
            "`mine` is unloaded",
            "nothing by us",
            "`bbr1` is loaded: bbr1 with cwnd_gain=1.5",
            "bbr1: 1 of 1 cells ok",
            " 0 sockets now, 0 flows so far",
        ];
        assert_eq!(parts.len(), expected.len(), "{said}");
        for (part, words) in parts.iter().zip(expected) {
            assert!(part.contains(words), "Linux {kernel}: `{words}` is not in: {part}");
        }
        assert!(!parts[7].contains(" 0 sockets"), "{}", parts[7]);
        let intervals = parts[11].lines().filter(|l| l.contains("/sec") && !l.contains("sender"));
        assert!(intervals.clone().count() >= 4, "{}", parts[11]);
        assert!(intervals.clone().all(|l| !l.contains(" 0.00 bits/sec")), "{}", parts[11]);
    }
}

/// What the kernel told our controllers, held against the packets that passed the device: a replay alone would show that two
/// programs of ours agree on a wrong event. Each path has what the fields are about: losses and tails that are lost, marks,
/// packets that overtake each other, and ProbeRTT, which holds the sender back. One path on one kernel a day.
#[test]
fn the_kernel_tells_what_the_packets_say() {
    let is_today = |number| number == day() % PACKET_PATHS;
    compare_with_the_packets("packets", |kernels, number| match is_today(number) {
        true => vec![kernels[day() / PACKET_PATHS % kernels.len()]],
        false => Vec::new(),
    });
}

#[test]
#[ignore = "five paths on three kernels: `make test-long`"]
fn long_each_kernel_tells_what_the_packets_say() {
    compare_with_the_packets("all-packets", |kernels, _| kernels.to_vec());
}

/// How many paths [`compare_with_the_packets`] has.
const PACKET_PATHS: usize = 5;

fn compare_with_the_packets<'a>(name: &str, on: impl Fn(&[&'a str], usize) -> Vec<&'a str>) {
    let kernels = fetched(&["6.1.", "6.12.", "7.2."]);
    if kernels.is_empty() {
        return;
    }
    let kernels: Vec<&str> = kernels.iter().map(|k| k.trim_end_matches('.')).collect();
    let s = Scratch::new(name);
    let loads: [(&str, &[&str], &str, u64); PACKET_PATHS] = [
        (
            "20mbit 20ms queue=0.5bdp loss=2%",
            &["--on-off", "300ms/200ms", "--seconds", "3"],
            "rs_starts_lost_range",
            20,
        ),
        // The kernel finds a run of losses bit by bit, and it is one range all the same.
        ("20mbit 20ms queue=2bdp loss=burst:1%/8", &["--seconds", "3"], "rs_starts_lost_range", 3),
        ("20mbit 20ms queue=4bdp ce=2ms", &["--seconds", "2"], "rs_delivered_ce", 500),
        ("20mbit 20ms queue=2bdp reorder=5%/10ms", &["--seconds", "2"], "rs_tx_in_flight", 500),
        ("5mbit 30ms queue=2bdp", &["--seconds", "7"], "is_app_limited", 20),
    ];
    for (number, (path, load, field, least)) in loads.into_iter().enumerate() {
        let kernels = on(&kernels, number).join(",");
        if kernels.is_empty() {
            continue;
        }
        let args = [&["--cc", "bbr3", "--kernel", &kernels, "--path", path], load].concat();
        for cell in s.traced(&format!("run{number}"), &args) {
            let said = what_the_packets_say(&cell);
            let row = said.lines().find(|l| l.trim_start().starts_with(field));
            let compared = row.and_then(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok());
            assert!(compared.is_some_and(|n| n >= least), "{path}: {field}: {said}");
            println!("{path}\n{said}");
        }
    }
}

/// What `headway replay` says of a cell in which every event decides alike and is what the packets say.
fn what_the_packets_say(cell: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headway"));
    let replayed = command.arg("replay").arg(cell.join("acks.txt")).output().unwrap();
    let said = text(&replayed);
    assert!(replayed.status.success() && said.contains("is what the packets say"), "{cell:?}: {said}");
    said
}

/// The kernel counts delivered, marked and lost packets in 32 bits, and a controller must not see them begin again at 0. No test can
/// send four billion packets, so this kernel's counters begin shortly before their end.
#[test]
#[ignore = "builds a kernel in 8 minutes: `make test-long`"]
fn long_counters_that_wrap_go_on() {
    let s = Scratch::new("wrap");
    let patch = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/patches/near-wrap.patch");
    let mut command = Command::new(env!("CARGO_BIN_EXE_headway"));
    let built = command.args(["kernel", "build", "6.12", patch]).output().unwrap();
    assert!(built.status.success(), "{}", text(&built));
    let kernel = String::from_utf8(built.stdout).unwrap().trim().to_string() + "/vmlinuz";
    for (number, path) in
        ["20mbit 20ms queue=1bdp loss=1%", "20mbit 20ms queue=4bdp ce=2ms"].into_iter().enumerate()
    {
        let args = ["--kernel", &kernel, "--cc", "bbr3,bbr1", "--path", path, "--seconds", "20"];
        for cell in s.traced(&format!("run{number}"), &args) {
            println!("{path}\n{}", what_the_packets_say(&cell));
            let trace = fs::read_to_string(cell.join("acks.txt")).unwrap();
            let columns: Vec<&str> =
                trace.lines().find(|l| l.starts_with("# flow")).unwrap().split(' ').skip(1).collect();
            let values = |name: &str| -> Vec<u64> {
                let at = columns.iter().position(|c| *c == name).unwrap();
                let rows = trace.lines().filter(|l| l.starts_with(|c: char| c.is_ascii_digit()));
                rows.map(|l| l.split(' ').nth(at).unwrap().parse().unwrap()).collect()
            };
            let wraps = |name: &str| {
                let values = values(name);
                println!("{name} from {:?} to {:?}", values.iter().min(), values.iter().max());
                values.iter().any(|v| *v < 1 << 32) && values.iter().any(|v| *v > 1 << 32)
            };
            assert!(wraps("delivered"), "{path}: not enough was delivered");
            assert!(wraps(if path.contains("loss") { "lost" } else { "delivered_ce" }), "{path}");
        }
    }
}
