//! The commands as a shell and a script meet them: help, examples, exit codes, output that cannot be written.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn headway(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headway"));
    command.args(args).env("TERM", "dumb");
    command
}

fn run(args: &[&str]) -> Output {
    headway(args).output().unwrap()
}

fn said(o: &Output) -> String {
    String::from_utf8_lossy(&o.stdout).into_owned() + &String::from_utf8_lossy(&o.stderr)
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("headway-commands-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The commands that `headway --help` names.
fn commands() -> Vec<String> {
    let help = said(&run(&["--help"]));
    let commands = help.split("\nOptions:").next().unwrap().split("\nCompare:").nth(1).unwrap();
    let named = commands.lines().filter(|l| l.starts_with("  "));
    named.map(|l| l.split_whitespace().next().unwrap().to_string()).collect()
}

#[test]
fn every_example_is_understood() {
    let all = commands();
    assert!(all.len() >= 16, "{all:?}");
    for command in all {
        let help = said(&run(&[&command, "-h"]));
        let examples = help.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("{command}: {help}"));
        let lines: Vec<&str> = examples.lines().take_while(|l| l.starts_with("  headway ")).collect();
        assert!(!lines.is_empty(), "{command}");
        for line in lines {
            // The shell splits the words and leaves comments and redirections out.
            let words = line.trim().strip_prefix("headway ").unwrap().replace(" > ", " # > ");
            let script = format!("'{}' parse -- {words}", env!("CARGO_BIN_EXE_headway"));
            let o = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert!(o.status.success(), "{line}\n{}", said(&o));
        }
    }
}

#[test]
fn output_that_cannot_be_written_is_told_and_a_reader_that_has_gone_is_not() {
    for args in [
        &["list"][..],
        &["--help"],
        &["bench", "-h"],
        &["--version"],
        &["list", "--json"],
        &["sim", "--seconds", "1s"],
        &["bench", "--in", "sim", "--cc", "cubic", "--path", "clean", "--dry-run"],
        &["completions", "bash"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let o = headway(args).stdout(full).output().unwrap();
        assert_eq!(o.status.code(), Some(1), "{args:?}: {}", said(&o));
        assert!(said(&o).starts_with("error: cannot write to standard output: "), "{args:?}: {}", said(&o));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let o = headway(args).stdout(writer).output().unwrap();
        assert_eq!((o.status.code(), said(&o)), (Some(141), String::new()), "{args:?}");
    }
    // Nobody can be told, but the exit code still says it.
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let status = headway(&["bench", "--cc", "nosuch"]).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn a_signal_is_named_by_the_exit_code_and_the_command_goes_on() {
    let scratch = Scratch::new("signal");
    for (signal, code) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let dir = scratch.path(&format!("it's {signal}"));
        let args = ["bench", "--in", "sim", "--cc", "cubic", "--path", "clean", "--seconds", "24h"];
        let more = ["--blocks", "2", "--jobs", "1", "--metric", "jain", "--out", &dir];
        let child = headway(&args).args(more).stderr(Stdio::piped()).spawn().unwrap();
        // The folder of a cell that runs is there as soon as it does.
        let cells = PathBuf::from(&dir).join("cells");
        while !std::fs::read_dir(&cells).is_ok_and(|mut all| all.next().is_some()) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let kill = format!("kill -{signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let o = child.wait_with_output().unwrap();
        assert_eq!(o.status.code(), Some(code), "{}", said(&o));
        let quoted = format!("'{}'", dir.replace('\'', r"'\''"));
        let go_on = format!("\n  headway bench --resume {quoted} --jobs 1 --metric jain\n");
        assert!(said(&o).ends_with(&go_on), "{}", said(&o));
    }
}

#[test]
fn a_verdict_can_fail_a_script_after_the_report_is_written() {
    let scratch = Scratch::new("fail-if");
    let dir = scratch.path("run");
    let bench = [
        "bench",
        "--in",
        "sim",
        "--cc",
        "cubic,bbr1",
        "--path",
        "clean",
        "--seconds",
        "2s",
        "--warmup",
        "500ms",
    ];
    let o = headway(&bench)
        .args(["--blocks", "7", "--quiet", "--out", &dir, "--fail-if", "worse"])
        .output()
        .unwrap();
    assert_eq!(o.status.code(), Some(3), "{}", said(&o));
    assert!(
        said(&o).contains("error: --fail-if applies to") && said(&o).contains("bbr1 on clean, "),
        "{}",
        said(&o)
    );
    assert!(!said(&o).contains("[1/12]"), "{}", said(&o));
    assert!(PathBuf::from(&dir).join("report.html").exists());
    assert_eq!(run(&["report", &dir, "--fail-if", "not-better"]).status.code(), Some(3));
    assert_eq!(run(&["report", &dir]).status.code(), Some(0));
    let json = run(&["report", &dir, "--json"]).stdout;
    assert_eq!(json, std::fs::read(PathBuf::from(&dir).join("results.json")).unwrap());
    let alone = scratch.path("alone");
    let o = run(&[
        "bench",
        "--in",
        "sim",
        "--cc",
        "cubic",
        "--path",
        "clean",
        "--seconds",
        "2",
        "--blocks",
        "1",
        "--out",
        &alone,
        "--fail-if",
        "undecided",
    ]);
    assert!(o.status.code() == Some(3) && said(&o).contains("there is no verdict at all"), "{}", said(&o));
}

#[test]
fn json_has_what_other_programs_ask_for() {
    let list: serde_json::Value = serde_json::from_slice(&run(&["list", "--json"]).stdout).unwrap();
    let of = |key: &str| list[key].as_array().unwrap_or_else(|| panic!("{key}")).clone();
    let bbr3 = of("controllers").into_iter().find(|c| c["name"] == "bbr3").unwrap();
    let parameters = bbr3["parameters"].as_array().unwrap();
    assert!(parameters.len() > 10);
    for key in ["name", "unit", "default", "min", "max", "about"] {
        assert!(parameters.iter().all(|p| p[key].is_string()), "{key}");
    }
    assert!(of("paths").iter().any(|p| p["name"] == "clean" && p["text"].is_string()));
    assert!(of("wires").iter().any(|w| w["name"] == "loopback" && w["about"].is_string()));
    assert!(of("path_words").len() > 5 && of("suites").iter().all(|s| s["rows"].as_u64() > Some(0)));
    let doctor: serde_json::Value = serde_json::from_slice(&run(&["doctor", "--json"]).stdout).unwrap();
    let lab = doctor.as_array().unwrap().iter().find(|v| v["name"] == "--in lab").unwrap();
    let missing = lab["checks"].as_array().unwrap().iter().any(|c| c["required"] == true && c["ok"] == false);
    assert_eq!(lab["ready"], !missing);
}

#[test]
fn what_is_close_is_proposed() {
    for (args, meant) in [
        (&["bench", "--in", "sim", "--cc", "cubic,bbr4"][..], "`bbr"),
        (&["bench", "--in", "sim", "--path", "clena"], "`clean`"),
        (&["bench", "--in", "sim", "--path", "10mbit 20ms quue=1bdp"], "`queue`"),
        (&["bench", "--in", "sim", "--suite", "drops"], "`drop`"),
        (&["bench", "--in", "sim", "--metric", "goodput_bsp"], "`goodput_bps`"),
        (&["bench", "--in", "sim", "--cc", "cubic,bbr1:hihg_gain=2"], "`high_gain`"),
        (&["sim", "--cc", "bbr11"], "`bbr1`"),
    ] {
        let o = run(args);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {}", said(&o));
        assert!(said(&o).contains(&format!("did you mean {meant}")), "{args:?}: {}", said(&o));
    }
    assert!(said(&run(&["bnech"])).contains("'bench'"));
}

#[test]
fn times_and_shares_take_their_units() {
    for (flag, value) in
        [("--seconds", "1m"), ("--seconds", "90s"), ("--warmup", "500ms"), ("--warmup", "1.5")]
    {
        let o = run(&["bench", "--in", "sim", "--cc", "cubic", "--path", "clean", "--dry-run", flag, value]);
        assert!(o.status.success(), "{flag} {value}: {}", said(&o));
    }
    for (flag, value) in [
        ("--seconds", "10d"),
        ("--seconds", "-5"),
        ("--warmup", "x"),
        ("--pacing", "12"),
        ("--cpu-load", "5x"),
    ] {
        let o = run(&["bench", "--in", "sim", "--cc", "cubic", "--dry-run", &format!("{flag}={value}")]);
        assert_eq!(o.status.code(), Some(2), "{flag} {value}: {}", said(&o));
        assert!(said(&o).contains("expected a"), "{flag} {value}: {}", said(&o));
    }
}

#[test]
fn completions_and_man_pages_are_of_every_command() {
    let scratch = Scratch::new("man");
    assert!(run(&["man", &scratch.path("")]).status.success());
    let pages: Vec<String> = std::fs::read_dir(&scratch.0)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    for command in commands() {
        assert!(pages.contains(&format!("headway-{command}.1")), "{command}: {pages:?}");
        for shell in ["bash", "zsh", "fish"] {
            assert!(said(&run(&["completions", shell])).contains(&command), "{shell}: {command}");
        }
    }
    let nested = ["kernel-fetch", "kernel-build", "kernel-list", "trial-plan", "trial-status"];
    for nested in nested {
        assert!(pages.contains(&format!("headway-{nested}.1")), "{nested}: {pages:?}");
    }
    assert_eq!(pages.len(), commands().len() + 1 + nested.len(), "hidden commands have no page: {pages:?}");
}
