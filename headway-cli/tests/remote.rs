//! Tests `headway bench --in remote` over paths that `headway emu` makes, with every server in a namespace of its
//! own. The tests assert facts only: whether the machine was quiet enough for a cell to count is not their question.

use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const HEADWAY: &str = env!("CARGO_BIN_EXE_headway");
const SERVER: &str = "exec iperf3 -s -J -i 0.1";
/// A run of one short cell.
const BENCH: &str = "$HEADWAY bench --blocks 1 --seconds 1 --warmup 0.2 --out $OUT --cc reno --in remote";

/// A folder that is removed at the end of the test. The run's own folder is `run` in it.
struct Run(PathBuf);

impl Run {
    /// Makes the folder; `None` without root.
    fn new(name: &str) -> Option<Self> {
        if !Path::new("/proc/self").metadata().is_ok_and(|m| m.uid() == 0) {
            eprintln!("skipped: needs root");
            return None;
        }
        let dir =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("remote-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("a folder");
        Some(Self(dir))
    }

    /// A command that runs the shell script `script` at the near end of `path`, and the command `far` at its far end.
    fn script(&self, path: &str, far: &str, script: &str) -> Command {
        let mut command = Command::new(HEADWAY);
        command.args(["emu", path, "--far", far, "--", "sh", "-c", script]);
        command
            .env("HEADWAY", HEADWAY)
            .env("WORK", &self.0)
            .env("OUT", self.0.join("run"))
            .stdin(Stdio::null());
        command
    }

    fn sh(&self, path: &str, far: &str, script: &str) -> Output {
        self.script(path, far, script).output().expect("headway runs")
    }

    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join("run").join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
    }

    fn json(&self, file: &str) -> Value {
        serde_json::from_str(&self.text(file)).expect("JSON")
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Shell commands that wait until the condition holds, for so many tenths of a second at most.
fn until(condition: &str, tenths: u32) -> String {
    format!("i=0; until {condition} || [ $i = {tenths} ]; do i=$((i+1)); sleep 0.1; done")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

#[test]
fn root_the_nearest_server_that_answers_is_fixed_for_the_whole_run() {
    let Some(run) = Run::new("nearest") else { return };
    // The path to the first server takes 30 ms. Inside it is another path of 10 ms, so one server is 40 ms away and
    // the other 10 ms.
    let hosts = "127.0.0.1,$HEADWAY_LOCAL,$HEADWAY_PEER:5299,$OUTER,$HEADWAY_PEER";
    let inner = format!(
        "{BENCH} {hosts}; rm -r $OUT/cells/000 && cp $OUT/env.json $OUT/first.json && {BENCH} {hosts}"
    );
    let script = format!(
        "export OUTER=$HEADWAY_PEER; iperf3 -s -J -i 0.1 >/dev/null 2>&1 & trap \"kill $!\" EXIT; sleep 0.5; $HEADWAY emu '50mbit 10ms' -- sh -c '{inner}'"
    );
    let output = run.sh("50mbit 30ms", SERVER, &script);
    let said = said(&output);
    let candidates = run.json("first.json")["remote"]["candidates"].clone();
    let all = candidates.as_array().unwrap_or_else(|| panic!("{said}"));
    let failure = |i: usize| all[i]["failure"].as_str().expect("a text");
    for own in [0, 1] {
        assert!(failure(own).contains("address of this machine"), "{candidates}");
        assert!(all[own]["rtt_us"].is_null() && all[own]["test_bps"].is_null(), "{candidates}");
    }
    assert!(failure(2).contains("unable to connect"), "{candidates}");
    let rtt_us = |i: usize| all[i]["rtt_us"].as_i64().expect("a number");
    if failure(3).is_empty() && failure(4).is_empty() {
        assert!(rtt_us(3) >= 40_000 && rtt_us(4) >= 10_000, "{candidates}");
    }
    let chosen = run.json("plan.json")["remote"]["server"].clone();
    let best = (0..5)
        .filter(|i| failure(*i).is_empty())
        .min_by_key(|i| rtt_us(*i))
        .unwrap_or_else(|| panic!("{said}"));
    assert_eq!(chosen, all[best]["host"], "{candidates}");
    // The run that was resumed did not try the servers again.
    assert_eq!(run.json("env.json")["remote"], run.json("first.json")["remote"]);
    let cell = run.json("cells/000/cell.json");
    assert_eq!(cell["sender_cc"], "reno", "{said}");
    assert!(cell["base_rtt_us"].as_i64().is_some_and(|us| us >= 10_000), "{cell}");
    assert_eq!(run.json("cells/000/load.json")["end"]["sender_tcp_congestion"], "reno", "{said}");
}

#[test]
fn root_iperf_2_makes_the_load_where_it_is_asked_to() {
    let Some(run) = Run::new("iperf2") else { return };
    let bench = BENCH.replace("--in", "--tool iperf2 --in");
    let output = run.sh(
        "20mbit 10ms",
        "exec iperf -s",
        &format!("{bench} $HEADWAY_LOCAL:9,$HEADWAY_PEER:9,$HEADWAY_PEER"),
    );
    let said = said(&output);
    let candidates = run.json("env.json")["remote"]["candidates"].clone();
    assert!(
        candidates[1]["failure"].as_str().is_some_and(|f| f.contains("Connection refused")),
        "{candidates}"
    );
    assert!(candidates[2]["address"].as_str().is_some_and(|a| a.ends_with(":5001")), "{candidates}");
    let cell = run.json("cells/000/cell.json");
    assert!(!cell["status"].as_str().is_some_and(|s| s.starts_with("failed")), "{cell}");
    let load = run.json("cells/000/load.json");
    assert_eq!(load["end"]["sender_tcp_congestion"], "reno", "{said}");
    assert!(load["iperf2"]["client"].as_str().is_some_and(|t| t.contains("Client connecting to")), "{load}");
    // One second at 20 Mbit/s makes 2.5 MB, less the headers and the slow start.
    let bytes = load["end"]["sum_received"]["bytes"].as_u64().expect("a number");
    assert!((1_000_000..3_000_000).contains(&bytes), "{bytes}");
}

#[test]
fn root_an_interrupted_run_keeps_its_cells_and_leaves_nothing_behind() {
    let Some(run) = Run::new("interrupt") else { return };
    // The port tells this test's processes from those of other tests.
    let bench = BENCH.replace("--blocks 1", "--blocks 3") + " $HEADWAY_PEER:5377";
    let begun = until("[ -d $OUT/cells/000 ] || [ -d $OUT/cells/001 ]", 300);
    let script = format!(
        "{bench} & bench=$!; {begun}; \
         sleep 1.5; kill -INT $bench; wait $bench; echo code=$?; ps -eo args | grep '^iperf3 -c .* -p 5377'; ls $OUT $OUT/cells; {bench}"
    );
    let output = run.sh("50mbit 10ms", "exec iperf3 -s -J -i 0.1 -p 5377", &script);
    let said = said(&output);
    assert!(said.contains("interrupted: what was measured is kept"), "{said}");
    assert!(said.contains("code=130") && !said.contains("iperf3 -c"), "{said}");
    let cells: Vec<bool> =
        (0..3).map(|i| run.0.join(format!("run/cells/00{i}/cell.json")).exists()).collect();
    assert_eq!(cells, [true; 3], "the same command goes on: {said}");
}

#[test]
fn root_without_a_server_nothing_is_measured() {
    let Some(run) = Run::new("nobody") else { return };
    let output = run.sh("50mbit 10ms", "exec sleep 1000", &format!("{BENCH} $HEADWAY_LOCAL,$HEADWAY_PEER"));
    let said = said(&output);
    for words in
        ["error: no server can be used", "address of this machine", "unable to connect", "hint: start"]
    {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!run.0.join("run").exists(), "a folder was made");
}

#[test]
fn root_both_directions_are_measured_and_the_sender_is_proven() {
    let Some(run) = Run::new("reverse") else { return };
    let bench = BENCH.replace("--in", "--direction forward,reverse --in");
    let output = run.sh("20mbit 10ms up=5mbit", SERVER, &format!("{bench} $HEADWAY_PEER"));
    let said = said(&output);
    for index in ["000", "001"] {
        let cell = run.json(&format!("cells/{index}/cell.json"));
        let load = run.json(&format!("cells/{index}/load.json"));
        let is_reverse = cell["direction"] == "reverse";
        assert_eq!(cell["path"]["name"].as_str().map(|n| n.ends_with("direction=reverse")), Some(is_reverse));
        assert_eq!(load["start"]["test_start"]["reverse"].as_u64(), Some(is_reverse.into()), "{said}");
        assert_eq!(load["end"]["sender_tcp_congestion"], "reno", "{said}");
        let has_note = cell["notes"][0].as_str().is_some_and(|n| n.starts_with("the server sent"));
        assert_eq!(has_note, is_reverse, "{cell}");
        // 5 Mbit/s is the rate towards the near end, which carries the data of the reverse run.
        let bytes = load["end"]["sum_received"]["bytes"].as_u64().expect("a number");
        assert!(bytes > 0 && (!is_reverse || bytes < 5_000_000 / 8 * 2), "{bytes}");
    }
}

#[test]
fn root_probes_go_where_they_are_sent_and_busy_cpus_are_recorded() {
    let Some(run) = Run::new("probe") else { return };
    // The prober's target is nearer than the server: 5 ms and not 45 ms.
    let bench = format!("{BENCH} $OUTER --probe $HEADWAY_PEER --cpu-load 100");
    let script = format!("export OUTER=$HEADWAY_PEER; $HEADWAY emu '50mbit 5ms' -- sh -c '{bench}'");
    let output = run.sh("20mbit 40ms", SERVER, &script);
    let said = said(&output);
    let env = run.json("env.json");
    let candidate = &env["remote"]["candidates"][0];
    assert_ne!(
        env["remote"]["probe"],
        candidate["address"].as_str().unwrap_or_default().trim_end_matches(":5201"),
        "{said}"
    );
    assert!(candidate["rtt_us"].as_i64().is_some_and(|us| us >= 45_000), "TCP's: {candidate}");
    let cell = run.json("cells/000/cell.json");
    assert_eq!((cell["cpu_load_percent"].as_i64(), &cell["notes"]), (Some(100), &Value::Null), "{cell}");
    let rows = run.text("cells/000/cpu.txt");
    let mut lines = rows.lines();
    assert_eq!(lines.next(), Some("# side cpu busy_percent"));
    assert!(rows.contains("sender 0 "), "{rows}");
    let nic = &env["nic"];
    assert_eq!((nic["device"].as_str(), nic["mtu"].as_u64()), (Some("headway"), Some(1500)), "{nic}");
    assert!(nic["kind"] == "tun" && nic["address"].is_null() && nic["steering"].is_null(), "{nic}");
    assert!(nic["qdisc"][0]["kind"].is_string() && env["sysctl"]["net.ipv4.tcp_rmem"].is_string(), "{env}");
}

#[test]
fn root_the_qdisc_is_put_back_however_the_run_ends() {
    let Some(run) = Run::new("qdisc") else { return };
    let wait = |what: &str| until(&format!("tc qdisc show dev headway | grep -q '{what}'"), 300);
    let killed = |signal: &str| {
        let long = BENCH.replace("--seconds 1", "--seconds 20").replace("$OUT", &format!("$OUT-{signal}"));
        let (forced, back) = (wait("limit 77p"), wait("tbf 8001:"));
        format!(
            "{long} $HEADWAY_PEER --qdisc 'pfifo limit 77' & bench=$!; {forced}; show {signal}-during; kill -{signal} $bench; {back}; \
             show {signal}; wait $bench"
        )
    };
    let script = [
        "show() { tc qdisc show dev headway > $WORK/$1; }",
        "tc qdisc replace dev headway root handle 8001: tbf rate 100mbit burst 50kb latency 50ms && show before",
        &format!("{BENCH} $HEADWAY_PEER --qdisc 'pfifo limit 77'; show normal"),
        &format!("{BENCH} $HEADWAY_PEER --qdisc 'pfifo limit 77' --ssh nobody@127.0.0.1; show error")
            .replace("$OUT", "$OUT-error"),
        &format!("{BENCH} $HEADWAY_PEER --qdisc no_such_kind; show unknown").replace("$OUT", "$OUT-unknown"),
        &killed("TERM"),
        &killed("KILL"),
        "true",
    ];
    let output = run.sh("50mbit 10ms", SERVER, &script.join("\n"));
    let said = said(&output);
    let shown = |name: &str| {
        std::fs::read_to_string(run.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}\n{said}"))
    };
    assert!(shown("before").contains("tbf 8001: root"), "{said}");
    assert_eq!(run.json("env.json")["nic"]["qdisc"][0]["kind"], "pfifo", "{said}");
    assert!(run.json("env.json")["remote"]["qdisc_before"].as_str().is_some_and(|q| q.contains("tbf 8001:")));
    for name in ["TERM-during", "KILL-during"] {
        assert!(shown(name).contains("pfifo"), "{name}: {said}");
    }
    for name in ["normal", "error", "unknown", "TERM", "KILL"] {
        assert_eq!(shown(name), shown("before"), "{name}: {said}");
    }
    assert!(
        said.contains("cannot give `headway` the qdisc no_such_kind") && !run.0.join("run-unknown").exists(),
        "{said}"
    );
}

/// Prepares an sshd for the far end's namespace, with keys of the test's own, and an `ssh` that knows them. Returns
/// the command for the far end; `None` where sshd is not installed.
fn far_end_with_ssh(run: &Run) -> Option<String> {
    if !Path::new("/usr/sbin/sshd").exists() {
        eprintln!("skipped: needs /usr/sbin/sshd (Debian's openssh-server)");
        return None;
    }
    let work = run.0.to_str().expect("a plain name");
    for key in ["host", "user"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(run.0.join(key))
            .status();
        assert!(made.expect("ssh-keygen").success());
    }
    std::fs::create_dir_all(run.0.join("bin")).expect("a folder");
    std::fs::create_dir_all(run.0.join("far")).expect("a folder");
    let sshd = format!(
        "HostKey {work}/host\nAuthorizedKeysFile {work}/user.pub\nStrictModes no\nUsePAM no\nPidFile none\n\
         PermitRootLogin yes\nSetEnv TMPDIR={work}/far\n"
    );
    let ssh = format!(
        "IdentityFile {work}/user\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
    );
    for (name, text) in [("sshd_config", &sshd), ("ssh_config", &ssh)] {
        std::fs::write(run.0.join(name), text).expect("a file");
    }
    let wrapper = run.0.join("bin/ssh");
    std::fs::write(&wrapper, format!("#!/bin/sh\nexec /usr/bin/ssh -F {work}/ssh_config \"$@\"\n"))
        .expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&wrapper, mode).expect("its mode");
    // sshd needs the directory /run/sshd. It gets a /run of its own, so that the machine's is left alone.
    Some(format!(
        "unshare -m sh -c 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec /usr/sbin/sshd -D -e -f {work}/sshd_config' \
         2>{work}/sshd.log & exec iperf3 -s -J -i 0.1"
    ))
}

#[test]
fn root_the_far_end_is_asked_over_ssh_and_nothing_is_left_there() {
    let Some(run) = Run::new("ssh") else { return };
    let Some(far) = far_end_with_ssh(&run) else { return };
    let bench = BENCH.replace("reno", "reno,bbr1").replace("--in", "--direction reverse --in");
    let long = bench.replace("--seconds 1", "--seconds 20").replace("$OUT", "$OUT-killed");
    let script = [
        "export PATH=$WORK/bin:$PATH; until ssh root@$HEADWAY_PEER true; do sleep 0.3; done",
        &format!("{bench} $HEADWAY_PEER --ssh root@$HEADWAY_PEER; ls $WORK/far > $WORK/left"),
        &format!("{long} $HEADWAY_PEER --ssh root@$HEADWAY_PEER & bench=$!"),
        &until("pgrep -f \"far-end $WORK/far\" > $WORK/agents", 600),
        "ls $WORK/far > $WORK/left-during; kill -KILL $bench",
        &until("! pgrep -f \"far-end $WORK/far\" > $WORK/agents-left", 300),
        "ls $WORK/far > $WORK/left-killed; true",
    ];
    let output = run.sh("200mbit 5ms", &far, &script.join("\n"));
    let log = std::fs::read_to_string(run.0.join("sshd.log")).unwrap_or_default();
    let said = said(&output) + &log;
    let read = |name: &str| {
        std::fs::read_to_string(run.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}\n{said}"))
    };
    assert!(run.0.join("run/env.json").exists(), "{said}");
    let far_end = run.json("env.json")["remote"]["far_end"].clone();
    assert_eq!(
        (&far_end["nic"]["device"], far_end["kernel"].is_string()),
        (&Value::from("headway"), true),
        "{said}"
    );
    for index in ["000", "001"] {
        let cell = run.json(&format!("cells/{index}/cell.json"));
        assert!(cell["notes"][0].as_str().is_some_and(|n| n.contains("--ssh set there")), "{cell} {said}");
        let load = run.json(&format!("cells/{index}/load.json"));
        assert_eq!(load["end"]["sender_tcp_congestion"], cell["sender_cc"], "{cell}");
        let cpus = run.text(&format!("cells/{index}/cpu.txt"));
        assert!(cpus.contains("receiver 0 ") && cpus.contains("sender 0 "), "{cpus}");
    }
    assert_eq!(read("left"), "", "{said}");
    assert_ne!(read("agents"), "", "no program ran at the far end: {said}");
    assert_eq!((read("agents-left"), read("left-killed")), (String::new(), String::new()), "{said}");
}

#[test]
fn root_a_far_end_that_ssh_does_not_reach_is_named() {
    let Some(run) = Run::new("no-ssh") else { return };
    let output = run.sh("50mbit 10ms", SERVER, &format!("{BENCH} $HEADWAY_PEER --ssh nobody@$HEADWAY_PEER"));
    let said = said(&output);
    assert!(
        said.contains("cannot copy this program to `nobody@") && said.contains("hint: does `ssh "),
        "{said}"
    );
    assert!(!run.0.join("run").exists(), "a folder was made");
}

/// A candidate's qdisc and sysctl are there for the length of its cells, and no longer, whatever happens. What `tbf` lets
/// through is iperf3's word.
#[test]
fn root_what_a_candidate_changes_comes_back_however_the_run_ends() {
    let Some(run) = Run::new("settings") else { return };
    const CANDIDATE: &str =
        "reno/qdisc=tbf rate 5mbit burst 20kb latency 50ms/net.ipv4.tcp_notsent_lowat=131072";
    let bench = |out: &str, ccs: &str| {
        BENCH.replace("--cc reno", &format!("--cc '{ccs}'")).replace("$OUT", &format!("$OUT{out}"))
    };
    let wait = |what: &str| until(&format!("now | grep -q '{what}'"), 300);
    let killed = |signal: &str| {
        let long = bench(&format!("-{signal}"), CANDIDATE).replace("--seconds 1", "--seconds 20");
        let (there, back) = (wait("131072"), wait("^4294967295"));
        let runs = until("client=$(pgrep -P $bench -f -- '-t 20')", 300);
        let gone = until(&format!("! ps -o stat= -p $client | grep -v Z > $WORK/{signal}-left"), 50);
        format!(
            "{long} $HEADWAY_PEER & bench=$!; {there}; \
             {runs}; sleep 1; now > $WORK/{signal}-during; echo $client > $WORK/{signal}-client; kill -{signal} $bench; \
             {back}; sleep 0.5; now > $WORK/{signal}; {gone}; wait $bench"
        )
    };
    let script = [
        "now() { cat /proc/sys/net/ipv4/tcp_notsent_lowat; tc qdisc show dev headway; }; now > $WORK/before",
        &format!("{} $HEADWAY_PEER; now > $WORK/normal", bench("", &format!("reno,{CANDIDATE}"))),
        &format!("{} $HEADWAY_PEER; now > $WORK/unknown", bench("-unknown", "reno,reno/qdisc=nothing")),
        &format!(
            "{} $HEADWAY_PEER; now > $WORK/value",
            bench("-value", "reno,reno/net.ipv4.tcp_notsent_lowat=x")
        ),
        &killed("TERM"),
        &killed("KILL"),
        "true",
    ];
    let output = run.sh("50mbit 10ms", SERVER, &script.join("\n"));
    let said = said(&output);
    let shown = |name: &str| {
        std::fs::read_to_string(run.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}\n{said}"))
    };
    assert!(shown("before").starts_with("4294967295\n"), "{said}");
    for name in ["TERM-during", "KILL-during"] {
        assert!(shown(name).contains("131072\n") && shown(name).contains("tbf"), "{name}: {said}");
    }
    for signal in ["TERM", "KILL"] {
        assert_ne!(shown(&format!("{signal}-client")).trim(), "", "iperf3 did not run: {said}");
        assert_eq!(shown(&format!("{signal}-left")), "", "iperf3 outlived the program: {said}");
    }
    for name in ["normal", "unknown", "value", "TERM", "KILL"] {
        assert_eq!(shown(name), shown("before"), "{name}: {said}");
    }
    for word in ["does not take the qdisc `nothing`", "does not take `x`"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(!run.0.join("run-unknown").exists() && !run.0.join("run-value").exists(), "{said}");
    for cell in ["cells/000", "cells/001"] {
        let label = run.json(&format!("{cell}/cell.json"))["cell"]["cc"].clone();
        let bps = run.json(&format!("{cell}/load.json"))["end"]["sum_received"]["bits_per_second"].clone();
        let mbps = bps.as_f64().unwrap_or_else(|| panic!("{said}")) / 1e6;
        assert_eq!(label == CANDIDATE, mbps < 7.0, "{label}: {mbps} Mbit/s\n{said}");
    }
}
