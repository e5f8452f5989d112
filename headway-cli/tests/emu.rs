//! `headway emu` as a user meets it: exit codes, addresses, errors, and what is left after `kill -9`.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn headway(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headway"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// What `headway` with these arguments gave; `None`, with a word about it, where the test does not run as root.
fn output(arguments: &[&str]) -> Option<Output> {
    is_root().then(|| headway(arguments).output().expect("headway runs"))
}

fn is_root() -> bool {
    let is_root = Path::new("/proc/self").metadata().is_ok_and(|m| m.uid() == 0);
    if !is_root {
        eprintln!("skipped: needs root");
    }
    is_root
}

#[test]
fn root_the_exit_code_is_that_of_the_command() {
    for (command, code) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143)] {
        let Some(out) = output(&["emu", "unlimited 1ms", "--", "sh", "-c", command]) else { return };
        assert_eq!(out.status.code(), Some(code), "{command}: {}", String::from_utf8_lossy(&out.stderr));
    }
    let Some(out) = output(&["emu", "unlimited 1ms", "--", "no-such-program"]) else { return };
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && error.contains("no-such-program"), "{error}");
}

#[test]
fn root_the_command_reaches_its_peer_and_the_log_tells() {
    let log = std::env::temp_dir().join(format!("headway-emu-test-{}", std::process::id()));
    let script = "ping -q -c 2 -i 0.05 $HEADWAY_PEER && ip -o addr show | grep -q \"$HEADWAY_LOCAL\"";
    let log_name = log.to_str().expect("a plain name");
    let far = "exec sleep 1000";
    for arguments in [&["--log", log_name][..], &["--log", log_name, "--far", far, "--mtu", "9000"]] {
        let words = [&["emu", "10mbit 20ms"], arguments, &["--", "sh", "-c", script]].concat();
        let Some(out) = output(&words) else { return };
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = std::fs::read_to_string(&log).expect("a log");
        std::fs::remove_file(&log).expect("removing the log");
        let mut lines = text.lines();
        assert!(lines.next().is_some_and(|l| l.starts_with("# t_us dir rate_bps in_packets")), "{text}");
        let rows: Vec<Vec<&str>> = lines.map(|l| l.split(' ').collect()).collect();
        let sent: u64 = rows.iter().filter(|w| w[1] == "down").map(|w| w[5].parse::<u64>().unwrap()).sum();
        assert_eq!(sent, 2, "two pings, nothing else: {text}");
    }
}

#[test]
fn root_nothing_is_left_after_kill_9() {
    if !is_root() {
        return;
    }
    let script = "echo $HEADWAY_PEER; readlink /proc/$$/ns/net; exec sleep 1000";
    let mut headway = headway(&["emu", "unlimited 1ms", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("headway runs");
    let mut stdout = BufReader::new(headway.stdout.take().expect("a pipe"));
    let mut line = || {
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        line.trim().to_string()
    };
    let (peer, netns) = (line(), line());
    let device = format!("/sys/class/net/headway{}-0", peer.split('.').nth(2).expect("an address"));
    assert!(Path::new(&device).exists(), "{device} while the path is up");
    assert!(namespaces().contains(&netns), "{netns} while the path is up");
    headway.kill().expect("kill -9");
    headway.wait().expect("the end of headway");
    // The command inside holds the other end of the pipe, so the pipe ends when the command has died too.
    stdout.read_to_end(&mut Vec::new()).expect("the end of the command");
    assert!(!Path::new(&device).exists(), "{device} after kill -9");
    assert!(!namespaces().contains(&netns), "{netns} after kill -9");
}

/// The network namespaces that processes of this machine are in.
fn namespaces() -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let links = processes.flat_map(|p| std::fs::read_link(p.path().join("ns/net")));
    links.map(|l| l.to_string_lossy().into_owned()).collect()
}

#[test]
fn root_an_unprivileged_user_is_told_what_is_missing() {
    if !is_root() {
        return;
    }
    // A copy, because other users may not be able to read the build folder.
    let copy = std::env::temp_dir().join(format!("headway-unprivileged-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_headway"), &copy).expect("a copy");
    let out = Command::new(&copy).args(["emu", "10mbit 10ms", "--", "true"]).uid(65_534).gid(65_534).output();
    std::fs::remove_file(&copy).expect("removing the copy");
    let out = out.expect("headway runs");
    let error = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{error}");
    let words = ["CAP_NET_ADMIN", "CAP_SYS_ADMIN", "hint:"];
    assert!(words.iter().all(|w| error.contains(w)), "{error}");
}

/// A load that pauses, and messages beside it, on the running kernel. The exit code is not looked at: on a busy
/// machine the run may not count, and its files are right all the same.
#[test]
fn root_messages_run_beside_a_load_that_pauses() {
    let out = std::env::temp_dir().join(format!("headway-here-test-{}", std::process::id()));
    let folder = out.to_str().expect("a plain name");
    let words = "bench --in here --cc reno --blocks 1 --seconds 3 --warmup 1 --messages 64..1200@100 --on-off 1s/1s --streams 2";
    let arguments: Vec<&str> = words.split(' ').chain(["--path", "10mbit 20ms", "--out", folder]).collect();
    let Some(run) = output(&arguments) else { return };
    let read = |name: &str| {
        let text = std::fs::read_to_string(out.join("cells/000").join(name));
        text.unwrap_or_else(|e| panic!("{name}: {e}\n{}", String::from_utf8_lossy(&run.stderr)))
    };
    let messages = read("messages.txt");
    let rows: Vec<Vec<&str>> = messages.lines().skip(1).map(|l| l.split(' ').collect()).collect();
    assert_eq!(rows.len(), 300);
    let delays: Vec<i64> = rows.iter().filter_map(|row| row[3].parse().ok()).collect();
    assert!(delays.len() > 250 && delays.iter().all(|us| *us >= 10_000), "half of 20 ms: {messages}");
    let load: serde_json::Value = serde_json::from_str(&read("load.json")).expect("JSON");
    assert_eq!(load["end"]["sender_tcp_congestion"], "reno");
    assert!(read("cpu.txt").contains("\nboth 0 "), "one machine is both ends: {}", read("cpu.txt"));
    let bytes = |bin: usize| load["server_output_json"]["intervals"][bin]["sum"]["bytes"].as_u64().unwrap();
    // The queue of 20 ms and what waits in the sockets are empty after the first 0.5 s of the pause.
    let (on, off): (u64, u64) = ((2..10).map(bytes).sum(), (15..20).map(bytes).sum());
    assert!(on > 300_000 && off < on / 4, "{on} bytes in 0.8 s, {off} in 0.5 s of the pause");
    assert_eq!(load["intervals"][0]["streams"].as_array().map(Vec::len), Some(2));
    std::fs::remove_dir_all(&out).expect("removing the run");
}
