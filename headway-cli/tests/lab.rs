//! The lab as its users meet it: the same bytes for the same seed, and no guest that can hang or outlive a run.
//!
//! Needs QEMU, iperf3 (for one test) and a fetched kernel (`make lab-kernels`), but no root. Says so and passes where
//! they are missing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

/// A scratch directory that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lab-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    /// `headway bench --in lab` of short cells into the folder `out`, with further arguments.
    fn bench(&self, out: &str, args: &[&str]) -> Command {
        self.bench_over("10mbit 20ms queue=1bdp loss=0.1%", out, args)
    }

    fn bench_over(&self, path: &str, out: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headway"));
        command.args(["bench", "--in", "lab", "--path", path, "--blocks", "1"]);
        command.args(["--seconds", "2", "--out", out]).args(args).current_dir(&self.0);
        command
    }

    fn run(&self, out: &str, args: &[&str]) -> Output {
        self.bench(out, args).output().unwrap()
    }

    /// The cells' folders of a run that keeps every event and packet.
    fn traced(&self, out: &str, args: &[&str]) -> Vec<PathBuf> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headway"));
        command.args(["bench", "--in", "lab", "--trace", "--blocks", "1", "--out", out]).args(args);
        let run = command.current_dir(&self.0).output().unwrap();
        assert!(run.status.success(), "{}", text(&run));
        let cells = fs::read_dir(self.0.join(out).join("cells")).unwrap();
        cells.map(|cell| cell.unwrap().path()).collect()
    }

    fn status(&self, cell: &str) -> String {
        fs::read_to_string(self.0.join(cell).join("cell.json")).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Days since 1970. What is done on each kernel or path in `make test-long` is done on one of them in `make test`, on another each
/// day, because a second of the lab takes several.
fn day() -> usize {
    let days = SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_secs() / 86_400;
    usize::try_from(days).expect("a small number")
}

/// One of the kernels that are here, another each day.
fn today<'a>(kernels: &[&'a str]) -> Option<&'a str> {
    let kernels: Vec<_> = kernels.iter().copied().filter(|k| kernel(k).is_some()).collect();
    (!kernels.is_empty()).then(|| kernels[day() % kernels.len()])
}

/// The folder of a fetched kernel whose version begins with `wanted`; any kernel for "".
fn kernel(wanted: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))?;
    let all = fs::read_dir(cache.join("headway/kernels")).ok()?.flatten();
    let found = all.map(|entry| entry.path()).find(|dir| {
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        dir.join("vmlinuz").is_file() && name.starts_with(wanted)
    });
    let ready = found.filter(|_| has("qemu-system-x86_64") && has("iperf3"));
    if ready.is_none() {
        println!("skipped: needs qemu-system-x86_64, iperf3 and a kernel {wanted} (make lab-kernels)");
    }
    ready
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Every file below `dir` with its content.
fn raw_files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(at).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => todo.push(entry.path()),
                false => {
                    let name = entry.path().strip_prefix(dir).unwrap().to_path_buf();
                    files.insert(name, fs::read(entry.path()).unwrap());
                }
            }
        }
    }
    files
}

/// The emulators that `headway` has started, by process id.
fn guests(headway: &Child) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{}/task", headway.id())).into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| {
        let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        list.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>()
    });
    let is_guest = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // An emulator without a kernel is one that is only asked for its version.
        line.starts_with(b"qemu-system-x86_64\0") && line.windows(9).any(|word| word == b"\0-kernel\0")
    };
    children.filter(is_guest).collect()
}

/// Waits until a guest runs, and returns its process id.
fn first_guest(headway: &mut Child) -> u32 {
    loop {
        if let Some(&pid) = guests(headway).first() {
            return pid;
        }
        assert!(headway.try_wait().unwrap().is_none(), "headway ended before it started a guest");
        std::thread::yield_now();
    }
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_does_not() {
    if kernel("").is_none() {
        return;
    }
    let s = Scratch::new("same");
    for (out, seed, jobs) in [("a", "7", "1"), ("b", "7", "2"), ("c", "8", "2")] {
        let output = s.run(out, &["--cc", "cubic,bbr1", "--trace", "--seed", seed, "--jobs", jobs]);
        assert!(output.status.success(), "{}", text(&output));
    }
    let [a, b, c] = ["a", "b", "c"].map(|out| raw_files(&s.0.join(out)));
    assert!(a.keys().any(|name| name.ends_with("acks.txt")), "{:?}", a.keys());
    for (name, content) in &a {
        let other = b.get(name).unwrap_or_else(|| panic!("{} is missing", name.display()));
        let lines =
            |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_string).collect::<Vec<_>>();
        let first = lines(content).into_iter().zip(lines(other)).enumerate().find(|(_, (x, y))| x != y);
        assert!(content == other, "{} differs, first at line {first:?}", name.display());
    }
    assert_eq!(a.len(), b.len());
    let probe = Path::new("cells/000/probe.txt");
    assert!(a[probe] != c[probe], "another seed gave the same probes");
}

/// Messages and a load that pauses are as repeatable as the rest, and keep to their schedule.
#[test]
fn messages_arrive_in_the_lab_as_they_were_due() {
    if kernel("").is_none() {
        return;
    }
    let s = Scratch::new("messages");
    for out in ["a", "b"] {
        let output = s.run(out, &["--cc", "cubic", "--messages", "64..1200@128", "--on-off", "500ms/500ms"]);
        assert!(output.status.success(), "{}", text(&output));
    }
    assert!(raw_files(&s.0.join("a")) == raw_files(&s.0.join("b")), "two runs differ");
    let messages = fs::read_to_string(s.0.join("a/cells/000/messages.txt")).unwrap();
    let rows = messages.lines().skip(1).map(|l| l.split(' ').map(|w| w.parse::<i64>()).collect::<Vec<_>>());
    let mut late = 0;
    assert_eq!(rows.clone().count(), 256);
    for row in rows {
        let [Ok(_), Ok(bytes), Ok(late_us), delay] = &row[..] else { panic!("{messages}") };
        assert!((64..=1200).contains(bytes));
        // The least delay is half of the 20 ms and the message's own time on the wire at 10 Mbit/s. A message without
        // one was lost: the path loses one in a thousand, and the queue may drop.
        assert!(delay.as_ref().is_ok_and(|us| *us >= 10_000 + (bytes + 28) * 8 / 10) || delay.is_err());
        late += i64::from(*late_us > 500);
    }
    assert!(late < 10, "{late} of 256 left late: {messages}");
}

/// The lab's own streams keep to a limited rate and to a limited pacing rate, and leave the rest of the path to a
/// rival.
#[test]
fn streams_in_the_lab_keep_to_their_limits() {
    if kernel("").is_none() {
        return;
    }
    let s = Scratch::new("limits");
    for (out, args) in [
        ("rate", &["--cc", "cubic", "--rate", "2mbit", "--streams", "2"][..]),
        ("pacing", &["--cc", "cubic", "--pacing", "3mbit", "--against", "reno"]),
    ] {
        let output = s.run(out, args);
        assert!(output.status.success(), "{}", text(&output));
    }
    let bytes = |file: &str| {
        let load = fs::read_to_string(s.0.join(file)).unwrap();
        let load: serde_json::Value = serde_json::from_str(&load).unwrap();
        assert!(
            load["end"]["cpu_utilization_percent"]["host_total"].as_f64().is_some_and(|p| p > 0.0),
            "{load}"
        );
        load["end"]["sum_received"]["bytes"].as_u64().unwrap()
    };
    // Bytes in two seconds: two streams of 2 Mbit/s carry 500,000 each, less what is under way;
    // one stream paced at 3 Mbit/s carries about 750,000 at most; the rival has what is left of 2,500,000.
    let [limited, paced, rival] =
        ["rate/cells/000/load.json", "pacing/cells/000/load.json", "pacing/cells/000/rival.json"].map(bytes);
    assert!((900_000..=1_020_000).contains(&limited), "{limited}");
    assert!((300_000..=770_000).contains(&paced), "{paced}");
    assert!((1_000_000..2_200_000).contains(&rival), "{rival}");
}

/// Each stream begins 400 ms after the one before it, those of the rival last, and is opened then: its first data comes after a
/// handshake in the queue of the others, and before the next one begins. The queue is deep, because a first packet that is lost comes an
/// RTO later.
#[test]
fn streams_in_the_lab_begin_one_after_the_other() {
    if kernel("").is_none() {
        return;
    }
    let s = Scratch::new("stagger");
    let args = ["--cc", "bbr3", "--streams", "2", "--stagger", "400ms", "--against", "same+20ms"];
    let output = s.bench_over("20mbit 20ms queue=8bdp", "run", &args).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let first_bins = |file: &str| {
        let load = fs::read_to_string(s.0.join("run/cells/000").join(file)).unwrap();
        let load: serde_json::Value = serde_json::from_str(&load).unwrap();
        let bins = load["server_output_json"]["intervals"].as_array().unwrap().clone();
        [0, 1]
            .map(|stream| bins.iter().position(|b| b["streams"][stream]["bytes"].as_u64() > Some(0)).unwrap())
    };
    let bins = [first_bins("load.json"), first_bins("rival.json")].concat();
    assert_eq!(bins[0], 0);
    assert!(bins.iter().zip([0, 4, 8, 12]).all(|(bin, begin)| (begin..begin + 4).contains(bin)), "{bins:?}");
}

/// QUIC stacks in the guest: their timers, their keys and their own random numbers are as repeatable as the rest.
#[test]
fn quic_is_the_same_to_the_byte_and_its_trace_replays() {
    if kernel("").is_none() {
        return;
    }
    let s = Scratch::new("quic");
    let quic = ["--transport", "quinn", "--cc", "bbr3,noq-bbr3", "--streams", "4", "--trace"];
    for (out, jobs) in [("a", "1"), ("b", "2")] {
        let output = s.run(out, &[&quic[..], &["--jobs", jobs]].concat());
        assert!(output.status.success(), "{}", text(&output));
    }
    let [a, b] = ["a", "b"].map(|out| raw_files(&s.0.join(out)));
    let differing: Vec<_> = a.iter().filter(|(name, content)| b.get(*name) != Some(content)).collect();
    assert!(
        differing.is_empty() && a.len() == b.len(),
        "{:?}",
        differing.iter().map(|d| d.0).collect::<Vec<_>>()
    );
    let traced: Vec<_> = a.keys().filter(|name| name.ends_with("acks.txt")).collect();
    assert_eq!(traced.len(), 1, "the trace of ours alone: {traced:?}");
    let acks = s.0.join("a").join(traced[0]);
    let replay = Command::new(env!("CARGO_BIN_EXE_headway")).arg("replay").arg(acks).output().unwrap();
    assert!(replay.status.success(), "{}", text(&replay));
}

/// A pause begins when it should, because a stream lets little wait that is written but not sent.
#[test]
fn quic_that_pauses_is_silent_in_the_pause() {
    if kernel("").is_none() {
        return;
    }
    let s = Scratch::new("quic-pause");
    let output = s.run("a", &["--transport", "noq", "--cc", "bbr3", "--on-off", "500ms/1s"]);
    assert!(output.status.success(), "{}", text(&output));
    let link = fs::read_to_string(s.0.join("a/cells/000/link.txt")).unwrap();
    let rows = link.lines().skip(1).map(|l| l.split(' ').collect::<Vec<_>>());
    let bytes = |from_us: i64, to_us: i64| -> u64 {
        let within =
            |row: &Vec<&str>| (from_us..to_us).contains(&row[0].parse().unwrap()) && row[1] == "down";
        rows.clone().filter(within).map(|row| row[4].parse::<u64>().unwrap()).sum()
    };
    // The 128 kB that wait take another 100 ms, and the connection took up to 100 ms to be made. In the pause the
    // latency probes go on, which are a few bytes.
    assert!(bytes(0, 600_000) > 300_000 && bytes(900_000, 1_500_000) < 10_000, "{link}");
    assert!(bytes(1_500_000, 2_000_000) > 300_000, "{link}");
}

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
    for version in versions {
        if kernel(version).is_none() {
            continue;
        }
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

/// A run that was begun on one kernel goes on with it when a newer one has come, and not at all when it has gone.
#[test]
fn a_run_keeps_its_kernel() {
    let (Some(old), Some(new)) = (kernel("6.1."), kernel("6.12.")) else { return };
    let s = Scratch::new("kernel");
    let cache = s.0.join("headway/kernels");
    fs::create_dir_all(&cache).unwrap();
    let have = |kernel: &Path| {
        std::os::unix::fs::symlink(kernel, cache.join(kernel.file_name().unwrap())).unwrap();
    };
    let go_on = || s.bench("run", &["--cc", "cubic,reno"]).env("XDG_CACHE_HOME", &s.0).output().unwrap();
    have(&old);
    let begun = go_on();
    assert!(begun.status.success(), "{}", text(&begun));
    fs::remove_dir_all(s.0.join("run/cells/001")).unwrap();
    have(&new);
    let resumed = go_on();
    assert!(resumed.status.success(), "{}", text(&resumed));
    for file in ["env.json", "cells/000/cell.json", "cells/001/cell.json"] {
        let said = fs::read_to_string(s.0.join("run").join(file)).unwrap();
        assert!(said.contains("6.1.") && !said.contains("6.12."), "{file}: {said}");
    }
    fs::remove_dir_all(s.0.join("run/cells/001")).unwrap();
    fs::remove_file(cache.join(old.file_name().unwrap())).unwrap();
    let refused = go_on();
    let said = text(&refused);
    assert!(!refused.status.success() && said.contains("the run was begun with Linux 6.1."), "{said}");
    assert!(!s.0.join("run/cells/001").exists());
}

/// Candidates that differ in the kernel, the qdisc and a sysctl. The kernel itself is the other party: it says its release,
/// and what `tbf` and a receive buffer let through can be worked out by hand.
#[test]
fn kernels_qdiscs_and_sysctls_are_candidates() {
    compare_kernels_qdiscs_and_sysctls("candidates", false);
}

#[test]
#[ignore = "eight cells more: `make test-long`"]
fn long_kernels_qdiscs_and_sysctls_are_merged_to_the_same_bytes() {
    compare_kernels_qdiscs_and_sysctls("merged", true);
}

/// With `shards` also in two shards, which are merged.
fn compare_kernels_qdiscs_and_sysctls(name: &str, shards: bool) {
    let (Some(old), Some(_)) = (kernel("6.1."), kernel("6.12.")) else { return };
    let s = Scratch::new(name);
    let file = old.join("vmlinuz").display().to_string();
    let ccs = format!(
        "cubic@6.12,cubic@{file},cubic@6.12/qdisc=tbf rate 3mbit burst 10kb latency 100ms,cubic@6.12/net.ipv4.tcp_rmem=4096 8192 8192"
    );
    let path = "5mbit 40ms queue=1bdp";
    let run = |out: &str, more: &[&str]| {
        let plan = [&["--cc", &*ccs, "--jobs", "2"], more].concat();
        s.bench_over(path, out, &plan).output().unwrap()
    };
    let whole = run("whole", &[]);
    assert!(whole.status.success(), "{}", text(&whole));
    let cells: Vec<serde_json::Value> =
        (0..4).map(|n| serde_json::from_str(&s.status(&format!("whole/cells/00{n}"))).unwrap()).collect();
    let of = |label: &str| {
        let is_it = |c: &&serde_json::Value| c["cell"]["cc"] == label;
        cells.iter().find(is_it).unwrap_or_else(|| panic!("no {label}: {cells:#?}"))
    };
    let labels: Vec<&str> = ccs.split(',').collect();
    assert!(of(labels[0])["kernel"].as_str().unwrap().starts_with("6.12."));
    assert!(of(labels[1])["kernel"].as_str().unwrap().starts_with("6.1."));
    let rows = csv::Reader::from_path(s.0.join("whole/results.csv"));
    let mut rows = rows.unwrap();
    let heads = rows.headers().unwrap().clone();
    let column =
        |name: &str| heads.iter().position(|h| h == name).unwrap_or_else(|| panic!("{name}: {heads:?}"));
    let (cc, goodput) = (column("cc"), column("goodput_bps"));
    let all: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    let mbps = |short: &str| -> f64 {
        let row = all.iter().find(|r| &r[cc] == short);
        row.unwrap_or_else(|| panic!("no {short}: {all:?}"))[goodput].parse::<f64>().unwrap() / 1e6
    };
    // 5 Mbit/s on the wire are 4.83 of data in packets of 1500 bytes; a loss within this second and a half costs a tenth.
    let usual = mbps("cubic@6.12");
    assert!((4.2..4.9).contains(&usual), "{usual}");
    let older = mbps(&format!("cubic@{}", old.file_name().unwrap().to_str().unwrap()));
    assert!((4.2..4.9).contains(&older), "{older}");
    // 3 Mbit/s on the wire are 2.9 of data in packets of 1500 bytes, counted over a second and a half.
    let shaped = mbps("cubic@6.12/tbf rate 3mbit burst 10kb latency 100ms");
    assert!((2.5..3.1).contains(&shaped), "{shaped}");
    // A receiver with 8 KiB of room lets at most 8 KiB come each 40 ms: 1.6 Mbit/s.
    let short = mbps("cubic@6.12/rmem=4096 8192 8192");
    assert!((0.2..1.64).contains(&short), "{short}");
    // What is missing is made again, to the same bytes; what a shard made is merged to the same bytes.
    fs::remove_dir_all(s.0.join("whole/cells/003")).unwrap();
    let before = raw_files(&s.0.join("whole/cells"));
    let resumed = run("whole", &[]);
    assert!(resumed.status.success() && text(&resumed).contains("3 of 4 cells"), "{}", text(&resumed));
    let mut after = raw_files(&s.0.join("whole/cells"));
    after.retain(|file, _| !file.starts_with("003"));
    assert_eq!(after, before);
    if shards {
        shards_are_merged_to_the_same(&s, run);
    }
}

fn shards_are_merged_to_the_same(s: &Scratch, run: impl Fn(&str, &[&str]) -> Output) {
    for part in ["1/2", "2/2"] {
        let out = format!("part{}", &part[..1]);
        let done = run(&out, &["--shard", part]);
        assert!(done.status.success(), "{}", text(&done));
    }
    let merge = Command::new(env!("CARGO_BIN_EXE_headway"))
        .args(["merge", "part1", "part2", "--out", "merged"])
        .current_dir(&s.0)
        .output()
        .unwrap();
    assert!(merge.status.success(), "{}", text(&merge));
    assert_eq!(raw_files(&s.0.join("merged/cells")), raw_files(&s.0.join("whole/cells")));
}

/// What a kernel does not take is said before the run, once, and nothing is left.
#[test]
fn a_setting_that_the_kernel_refuses_is_one_sentence_before_the_run() {
    if kernel("6.12.").is_none() {
        return;
    }
    let s = Scratch::new("settings");
    for (candidate, word) in [
        ("cubic@6.12/qdisc=nothing", "does not take the qdisc `nothing`"),
        ("cubic@6.12/net.ipv4.tcp_nothing=1", "has no sysctl `net.ipv4.tcp_nothing`"),
        ("cubic@6.12/net.ipv4.tcp_available_congestion_control=bbr", "can only be read"),
        ("cubic@./nothing", "there is no kernel file `./nothing`"),
        ("cubic@9.9", "there is no kernel `9.9`"),
    ] {
        let output = s.run("run", &["--cc", &format!("cubic@6.12,{candidate}")]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(word) && said.contains("hint: ") && said.lines().count() < 4, "{said}");
        assert!(!s.0.join("run").exists(), "{candidate}");
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
    for version in versions {
        if kernel(version).is_none() {
            continue;
        }
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
    for version in versions {
        if kernel(version).is_none() {
            continue;
        }
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

#[test]
fn a_kernel_without_its_modules_is_a_failed_cell_that_says_so() {
    let Some(dir) = kernel("6.1.") else { return };
    let s = Scratch::new("modules");
    fs::create_dir(s.0.join("none")).unwrap();
    let file = dir.join("vmlinuz").display().to_string();
    let output = s.run("run", &["--cc", "cubic", "--kernel", &file, "--modules", "none"]);
    assert!(s.status("run/cells/000").contains("no TUN device"), "{}", text(&output));
    assert!(s.0.join("run/cells/000/console.txt").is_file());
}

#[test]
fn an_unknown_kernel_is_one_sentence_with_a_hint() {
    let s = Scratch::new("unknown");
    let output = s.run("run", &["--cc", "cubic", "--kernel", "0.99"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("`0.99`") && text(&output).contains("hint: "), "{}", text(&output));
}

#[test]
fn a_file_that_is_no_kernel_is_refused() {
    let s = Scratch::new("nokernel");
    fs::write(s.0.join("text"), "not a kernel").unwrap();
    let output = s.run("run", &["--cc", "cubic", "--kernel", "./text"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("neither a bzImage nor an ELF image"), "{}", text(&output));
}

#[test]
fn when_a_guest_is_killed_the_other_cells_go_on() {
    if kernel("").is_none() {
        return;
    }
    let s = Scratch::new("killed");
    let mut headway = s
        .bench("run", &["--cc", "cubic,reno", "--jobs", "1"])
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    kill(first_guest(&mut headway));
    headway.wait().unwrap();
    assert!(s.status("run/cells/000").contains("the guest was lost"), "{}", s.status("run/cells/000"));
    assert!(s.status("run/cells/001").contains("\"status\": \"ok\""), "{}", s.status("run/cells/001"));
}

#[test]
fn a_bench_that_is_killed_three_times_loses_nothing_has_nothing_twice_and_leaves_no_guest() {
    if kernel("").is_none() {
        return;
    }
    let s = Scratch::new("cut");
    let plan = ["--cc", "cubic,bbr1,reno", "--path", "5mbit 10ms queue=1bdp", "--jobs", "2"];
    let whole = s.run("whole", &plan);
    assert!(whole.status.success(), "{}", text(&whole));
    let cells = |out: &str| {
        let names = fs::read_dir(s.0.join(out).join("cells")).into_iter().flatten().flatten();
        names.filter(|e| !e.file_name().to_string_lossy().starts_with('.')).count()
    };
    let all = cells("whole");
    assert_eq!(all, 6);
    for there in [0, 2, 4] {
        let mut headway = s.bench("cut", &plan).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        first_guest(&mut headway);
        while cells("cut") < there && headway.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        // Killed at another moment of the cell each time: in its boot, in its load, at its end.
        let ms = SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_micros() % 2000;
        std::thread::sleep(Duration::from_millis(ms.into()));
        let guests = guests(&headway);
        kill(headway.id());
        headway.wait().unwrap();
        assert!(cells("cut") < all, "killed too late, {ms} ms after cell {there}");
        // Guests end when the kernel has delivered their signal, which takes a moment. A guest that stays would make
        // this loop endless, which the time limit of whoever runs the tests ends.
        while guests.iter().any(|guest| is_running(*guest)) {
            std::thread::yield_now();
        }
    }
    let there = format!("{} of {all} cells are there already", cells("cut"));
    let cut = s.run("cut", &plan);
    assert!(cut.status.success() && text(&cut).contains(&there), "{there}\n{}", text(&cut));
    assert_eq!(raw_files(&s.0.join("cut")), raw_files(&s.0.join("whole")));
}

/// Whether a process still runs. A zombie, which has ended and whose new parent has not waited for it, does not.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

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

/// What is wrong is said before anything is fetched, and nothing is left. A build takes minutes: `make test-long` makes one.
#[test]
fn a_kernel_that_cannot_be_built_is_one_sentence() {
    let s = Scratch::new("build");
    let built = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headway"));
        command.args(["kernel", "build"]).args(args).env("XDG_CACHE_HOME", &s.0).current_dir(&s.0);
        command.output().unwrap()
    };
    for (args, word) in
        [(vec!["newest"], "no version of Linux"), (vec!["6.12", "none.patch"], "there is no patch")]
    {
        let output = built(&args);
        let said = text(&output);
        let is_ready = !said.contains("is missing");
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(!is_ready || said.contains(word) && said.contains("hint: "), "{said}");
        let left = fs::read_dir(s.0.join("headway/built")).into_iter().flatten().count();
        assert_eq!(left, 0, "{args:?}");
    }
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
    let kernels: Vec<&str> = ["6.1.", "6.12.", "7.2."].into_iter().filter(|k| kernel(k).is_some()).collect();
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

/// A distribution's small kernel has no driver for the cards, which is said before the run.
#[test]
fn a_kernel_without_a_driver_is_one_sentence() {
    let Some(folder) = kernel("6.12") else { return };
    let s = Scratch::new("driver");
    let version = folder.file_name().unwrap().to_str().unwrap();
    let output = s.run("run", &["--cc", "cubic", "--kernel", version, "--path", "e1000"]);
    let said = text(&output);
    assert!(!output.status.success() && said.contains("no driver for the network card `e1000`"), "{said}");
    assert!(said.contains("headway kernel build") && !s.0.join("run/cells/000").exists(), "{said}");
}

/// Two builds of the same inputs are the same kernel to the byte, so they also measure alike.
#[test]
#[ignore = "two builds of 8 minutes each: `make test-long`"]
fn long_two_builds_of_a_kernel_are_the_same() {
    let s = Scratch::new("builds");
    let built = |cache: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headway"));
        let output = command
            .args(["kernel", "build", "6.12"])
            .env("XDG_CACHE_HOME", s.0.join(cache))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let folder = String::from_utf8(output.stdout).unwrap();
        fs::read(Path::new(folder.trim()).join("vmlinuz")).unwrap()
    };
    assert!(built("one") == built("two"), "the kernels differ");
}
