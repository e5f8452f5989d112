//! Kernels and their settings as candidates, kernels that are built, and what is said of one that cannot be used.

use super::*;

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
