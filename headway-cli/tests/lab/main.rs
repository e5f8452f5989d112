//! The lab as its users meet it: the same bytes for the same seed, and no guest that can hang or outlive a run.
//!
//! Needs QEMU, iperf3 (for one test) and a fetched kernel (`make lab-kernels`), but no root. Says so and passes where
//! they are missing.

mod controllers;
mod hosts;
mod kernels;

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
        self.cells(out).collect()
    }

    /// The cells' folders of a run.
    fn cells(&self, out: &str) -> impl Iterator<Item = PathBuf> {
        fs::read_dir(self.0.join(out).join("cells")).unwrap().map(|cell| cell.unwrap().path())
    }

    /// The raw files of a controller's only cell in a run.
    fn cell_of(&self, out: &str, cc: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let is_its = |cell: &PathBuf| {
            let result = fs::read(cell.join("cell.json")).unwrap();
            serde_json::from_slice::<serde_json::Value>(&result).unwrap()["cell"]["cc"] == cc
        };
        raw_files(&self.cells(out).find(is_its).unwrap())
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

/// Those of these kernels that are here.
fn fetched<'a>(kernels: &[&'a str]) -> Vec<&'a str> {
    kernels.iter().copied().filter(|k| kernel(k).is_some()).collect()
}

/// One of them, another each day.
fn today<'a>(kernels: &[&'a str]) -> Option<&'a str> {
    let kernels = fetched(kernels);
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
    // A cell is the same in a plan with other candidates, too. What differs is its number there.
    let output = s.run("d", &["--cc", "reno,bbr1,cubic", "--trace", "--seed", "7"]);
    assert!(output.status.success(), "{}", text(&output));
    for cc in ["cubic", "bbr1"] {
        let [in_a, in_d] = ["a", "d"].map(|out| s.cell_of(out, cc));
        let files = in_a.keys().filter(|name| !name.ends_with("cell.json"));
        assert!(files.clone().count() >= 3 && in_a.len() == in_d.len(), "{:?}", in_a.keys());
        for name in files {
            assert!(
                in_a[name] == in_d[name],
                "{} of {cc} depends on the plan's other candidates",
                name.display()
            );
        }
    }
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
