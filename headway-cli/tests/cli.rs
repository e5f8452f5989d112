//! Tests the program as its users meet it: results go to stdout, every wrong input gets one clear sentence and a
//! hint, the exit code is 2 for wrong usage and 1 for a failure, and nothing that was measured is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A scratch directory that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn headway(&self, args: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_headway")).args(words(args)).current_dir(&self.0).output().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Splits a command line at blanks, except within `'…'`, which holds the text of a path.
fn words(args: &str) -> Vec<String> {
    let quoted = args.split('\'').enumerate();
    quoted
        .flat_map(|(i, part)| match i % 2 {
            1 => vec![part.to_string()],
            _ => part.split_whitespace().map(String::from).collect(),
        })
        .collect()
}

fn stderr(o: &Output) -> String {
    String::from_utf8_lossy(&o.stderr).into_owned()
}

fn stdout(o: &Output) -> String {
    String::from_utf8_lossy(&o.stdout).into_owned()
}

const SMALL: &str = "bench --in sim --cc bbr1,cubic --path '20mbit 20ms queue=1bdp' --blocks 2 --seconds 3";

#[test]
#[expect(clippy::too_many_lines, reason = "a table of wrong command lines")]
fn wrong_usage_exits_2_and_names_the_word() {
    let s = Scratch::new("usage");
    for (args, names) in [
        ("bench --in sim --cc nosuch --path clean", "nosuch"),
        ("bench --in sim --cc bbr1 --path nosuch", "nosuch"),
        ("bench --in sim --cc bbr1 --path '100mbit 40mss queue=1bdp'", "40mss"),
        ("bench --in sim --cc bbr1 --path '0mbit 40ms'", "0mbit"),
        ("bench --in sim --cc bbr1 --path '100mbit 40ms queue=1bdp colour=red'", "colour"),
        ("bench --in sim --cc bbr1 --path '100mbit 40ms @9s 1mbit @3s 2mbit'", "@3s"),
        ("bench --in sim --cc bbr1 --path ''", "path"),
        ("bench --in sim --cc bbr1,bbr1 --path clean", "twice"),
        ("bench --in sim --cc bbr1 --against vegas --path clean", "vegas"),
        ("bench --in sim --cc bbr1 --against cubic+80 --path clean", "`80`"),
        ("bench --in remote 192.0.2.1 --cc cubic --against cubic", "--against"),
        ("bench --in remote 192.0.2.1 --cc cubic --messages", "--messages"),
        ("bench --in remote 192.0.2.1 --cc cubic --suite drop", "--suite"),
        ("bench --in remote 192.0.2.1 --cc cubic --on-off 1s/1s", "--on-off"),
        ("bench --in remote 192.0.2.1,, --cc cubic", "`` is no server"),
        ("bench --in remote 192.0.2.1:http --cc cubic", "`192.0.2.1:http`"),
        ("bench --in remote 192.0.2.1,192.0.2.1 --cc cubic", "twice"),
        ("bench --in remote 192.0.2.1 --cc cubic --probe a:b", "`--probe a:b`"),
        ("bench --in sim --cc bbr1 --path clean --probe 192.0.2.1", "--probe"),
        ("bench --in remote 192.0.2.1 --cc cubic --direction back", "back"),
        ("bench --in remote 192.0.2.1 --cc cubic --direction forward,reverse --pacing 1mbit", "--pacing"),
        ("bench --in remote 192.0.2.1 --cc bbr1 --direction reverse --trace", "--trace"),
        ("bench --in remote 192.0.2.1 --cc bbr1:cwnd_gain=1.5 --direction reverse", "`bbr1:cwnd_gain=1.5`"),
        ("bench --in sim --cc bbr1 --path clean --direction reverse", "its ends exchanged"),
        ("bench --in sim --cc bbr1 --path clean --fq", "--fq"),
        ("bench --in here --cc bbr --path clean --ssh host", "--ssh"),
        ("bench --in remote 192.0.2.1,192.0.2.2 --cc cubic --ssh host", "names several"),
        ("bench --in remote 192.0.2.1 --cc cubic --ssh=-oProxyCommand=x", "no [USER@]HOST"),
        ("bench --in remote 192.0.2.1 --cc cubic --cpu-load 101", "--cpu-load"),
        ("bench --in remote 192.0.2.1 --cc cubic --cpu-load x", "x"),
        ("bench --in lab --cc bbr1 --path clean --cpu-load 0,100", "virtual time"),
        ("bench --in sim --cc bbr1 --suite nosuch", "unknown suite `nosuch`"),
        ("bench --in sim --cc bbr1 --suite drop --seconds 5", "--seconds"),
        ("bench --in sim --cc bbr1 --path drop-2x-50mbit-40ms-4bdb-5s", "`4bdb` at column 21"),
        ("bench --in sim --cc bbr1 --path clean --messages 200", "`200`"),
        ("bench --in sim --cc bbr1 --path clean --messages 200@64hz", "`64hz`"),
        ("bench --in sim --cc bbr1 --path clean --rate 2", "`2`"),
        ("bench --in sim --cc bbr1 --path clean --on-off 1s/x", "`x`"),
        ("bench --in sim --cc bbr1 --path clean --on-off 1s/1s --rate 1mbit", "--rate"),
        ("bench --in sim --cc bbr1 --path clean --streams 1,4,1", "--streams has a value twice"),
        ("bench --in sim --cc bbr1 --path clean --pacing 0,fast", "`fast`"),
        ("bench --in sim --cc bbr1 --path clean --stagger soon", "--stagger"),
        (
            "bench --in sim --cc bbr1 --path clean --streams 5 --stagger 3s",
            "the last of 5 streams would begin at 12 s",
        ),
        (
            "bench --in sim --cc bbr1 --path clean --transport noq --streams 2 --stagger 1s",
            "--stagger needs TCP",
        ),
        (
            "bench --in remote 192.0.2.1 --cc cubic --streams 2 --stagger 1s",
            "--stagger needs an emulated path",
        ),
        (
            "bench --in here --cc cubic --path clean --tool iperf2 --streams 2 --stagger 1s",
            "cannot pause or wait",
        ),
        ("bench --in sim --cc bbr1 --path clean --mtu 1500,500", "--mtu"),
        ("bench --in sim --cc bbr1 --path clean --mtu 1000 --messages 1000@64", "--mtu 1000"),
        ("bench --in remote 192.0.2.1 --cc cubic --mtu 9000", "--mtu"),
        ("bench --in sim --cc bbr1 --path clean --tool iperf2", "sim and lab make their own"),
        (
            "bench --in here --cc cubic --path clean --tool iperf2 --on-off 1s/1s",
            "--tool iperf2 cannot pause",
        ),
        (
            "bench --in here --cc cubic --path clean --tool iperf2 --transport noq",
            "--tool iperf2 speaks no QUIC",
        ),
        ("bench --in remote 192.0.2.1 --cc cubic --tool iperf2 --direction reverse", "--tool iperf2"),
        ("bench --in here --cc cubic --path clean --tool netperf", "netperf"),
        ("bench --in sim --cc bbr1,cubic --path clean,clean", "path `clean` is given twice"),
        ("bench --in sim --cc bbr1,cubic --path clean --path '20mbit 40ms'", "are the same"),
        ("bench --in sim --cc bbr1,cubic --path drop --seconds 4", "changes first at 4 s"),
        ("bench --in sim --cc bbr1,cubic --path drop-2x-50mbit-40ms-4bdp-5s", "--seconds 20"),
        ("bench --in sim --cc bbr1,cubic --path clean --kernel 6.1", "--kernel names a kernel of the lab"),
        ("bench --in sim --cc bbr1,cubic --path clean --modules m", "--modules names a kernel of the lab"),
        ("bench --in sim --cc bbr1,cubic --path clean --tool iperf3", "sim and lab make their own"),
        ("bench --in sim --cc cubic --path clean --trace", "--trace records our own controllers"),
        ("bench --in remote 192.0.2.1 --cc cubic,reno --path clean", "--path is for an emulated path"),
        ("bench --in remote 192.0.2.1 --cc cubic,reno --jobs 2", "--jobs needs --in sim or lab"),
        ("bench --resume run --seed 3", "--seed"),
        ("bench --plan run --transport noq", "--transport"),
        ("bench --in sim --cc bbr1 --suite drop --streams 1,4", "--streams"),
        ("bench --plan run --cc bbr1", "--plan"),
        ("bench --in sim --cc bbr1,bbr1#x --path clean", "`bbr1#x`"),
        ("bench --in moon --cc bbr1 --path clean", "moon"),
        ("bench --in remote --cc bbr --path clean", "remote"),
        ("bench --in sim --cc bbr1 --path clean --blocks 0", "--blocks"),
        ("bench --in sim --cc bbr1 --path clean --seconds 0", "--seconds"),
        ("bench --in sim --cc bbr1 --path clean --streams 1000", "--streams"),
        ("bench --in sim --cc bbr1,bbr3:up_pacing_gain=1.1..2 --path clean", "--draws 16"),
        ("bench --in sim --cc bbr1,bbr3 --draws 4 --path clean", "--draws needs a candidate with a range"),
        (
            "bench --in sim --cc bbr1,bbr3:up_pacing_gain=1.1..2 --draws 1001 --path clean",
            "between 1 and 1000",
        ),
        (
            "bench --in sim --cc bbr1,bbr3:up_pacing_gain=2..1 --draws 4 --path clean",
            "must be below the second",
        ),
        ("bench --in sim --cc bbr1,bbr3:up_pacing_gain=1..11 --draws 4 --path clean", "expected 1 to 10"),
        ("bench --in sim --cc bbr1,bbr3:full_bw_count=2..5 --draws 9 --path clean", "only 4 different"),
        ("bench --in sim --cc bbr3:up_pacing_gain=1.1..2 --draws 4 --path clean", "is the baseline"),
        ("bench --in sim --cc bbr1,cubic:x=1..2 --draws 4 --path clean", "`cubic` has no parameters"),
        ("bench --in sim --cc bbr1,nosuch:x=1..2 --draws 4 --path clean", "unknown controller `nosuch`"),
        (
            "bench --in sim --cc bbr1,bbr3:up_pacing_gain=1..2 --draws 4 --path clean --fail-if worse",
            "--fail-if",
        ),
        ("bench --in sim --cc bbr1 --path clean --seconds 5 --warmup 5", "--warmup"),
        ("bench --in sim --cc bbr1 --path clean --warmup -1", "-1"),
        ("bench --in sim --cc bbr1 --path 'trace=missing.down 40ms'", "missing.down"),
        ("bench --in sim --cc bbr1 --path clean --metric nosuch", "nosuch"),
        ("report . --metric nosuch", "nosuch"),
        ("compare --summary nosuch --margin=-1", "--margin"),
        ("compare", "--summary"),
        ("bench --in sim --cc bbr1 --path clean --shard 3/2", "3/2"),
        ("bench --in remote 192.0.2.1 --cc cubic --shard 1/2", "--shard"),
        ("merge --out x", "SHARD"),
        ("export run", "--flent"),
        ("import", "<PATH>"),
        ("plan --in lab --cc bbr1 --path clean --pscheduler tasks", "--in remote HOST"),
        ("sim --cc nosuch", "nosuch"),
        ("emu '12 parsecs' -- true", "12"),
        ("load nosuch", "nosuch"),
        ("load cubic", "`cubic` is the kernel's own"),
        ("load bbr3:up_pacing_gain=1.1", "headway load bbr3 --set up_pacing_gain=1.1"),
        ("load vegas", "modprobe tcp_vegas"),
        ("bench --in sim --blocks -1", "invalid value '-1' for '--blocks"),
        ("bench --in sim --seconds -5", "'-5'"),
        ("sim --flows -1", "'-1'"),
        ("bench --in sim --cc bbr1 --path 'trace=/dev/zero 40ms'", "it is no regular file"),
        ("bench --in sim --cc bbr1 --path 'trace=. 40ms'", "it is no regular file"),
        ("load bbr1 --as sixteen_letters_", "sixteen_letters_"),
        ("load bbr1 --as a.b", "`a.b`"),
        ("load bbr1 --as a/b", "`a/b`"),
        ("load bbr1 --set nosuch=1", "there is no parameter `nosuch`, only bw_rtts"),
        ("load bbr1 --set high_gain=2.9,nosuch=1", "`nosuch`"),
        ("load bbr1 --set high_gain", "`high_gain` is not a setting"),
        ("load bbr1 --set high_gain=99", "`99` in `high_gain=99`: expected 1.01 to 10"),
        ("load bbr1 --set min_rtt_win_us=10", "the unit is missing"),
        ("list --params nosuch", "nosuch"),
        ("unload", "NAME"),
        ("unload bbr1 --all", "--all"),
        ("nosuch", "nosuch"),
    ] {
        let o = s.headway(args);
        let text = stderr(&o);
        assert_eq!(o.status.code(), Some(2), "{args}\n{text}");
        assert!(text.contains("error: ") && text.contains(names), "{args}\n{text}");
        assert!(!text.contains("panicked"), "{args}\n{text}");
        assert_eq!(stdout(&o), "", "{args}");
    }
    assert_eq!(fs::read_dir(&s.0).unwrap().count(), 0, "wrong usage must leave nothing behind");
}

#[test]
fn a_remote_plan_has_directions_and_busy_cpus_as_axes() {
    let s = Scratch::new("remote-axes");
    let o = s.headway(
        "bench --in remote 192.0.2.1,192.0.2.2 --cc cubic --blocks 2 --direction forward,reverse --cpu-load 0,100 --probe 192.0.2.9 \
         --fq --dry-run",
    );
    let text = stdout(&o);
    assert!(o.status.success() && text.contains("\n8 cells, "), "{text}{}", stderr(&o));
    for (direction, percent) in [("forward", 0), ("forward", 100), ("reverse", 0), ("reverse", 100)] {
        let name = format!("`192.0.2.1,192.0.2.2 direction={direction} cpu-load={percent}`");
        assert_eq!(text.matches(&name).count(), 2, "{text}");
    }
}

#[test]
fn what_the_machine_lacks_is_named_before_anything_is_made() {
    let s = Scratch::new("lacks");
    for (place, lacks) in [("lab", "qemu-system"), ("here", "")] {
        let mut bare = Command::new(env!("CARGO_BIN_EXE_headway"));
        bare.args(words(&format!("bench --in {place} --cc bbr --path clean --out run")));
        let o = bare.env("PATH", &s.0).current_dir(&s.0).output().unwrap();
        let text = stderr(&o);
        // Where the running kernel has no `bbr`, that error comes first, with exit code 2.
        assert!(matches!(o.status.code(), Some(1 | 2)), "{place}\n{text}");
        assert!(
            text.starts_with("error: ") && text.contains("\nhint: ") && text.contains(lacks),
            "{place}\n{text}"
        );
        assert_eq!(fs::read_dir(&s.0).unwrap().count(), 0, "{place}");
    }
    let o = s.headway("report nowhere");
    assert_eq!(o.status.code(), Some(1));
    assert!(
        stderr(&o).starts_with("error: `nowhere` is not a run") && stderr(&o).contains("\nhint: "),
        "{}",
        stderr(&o)
    );
}

#[test]
fn bad_trace_files_name_the_line() {
    let s = Scratch::new("trace");
    for (name, text, line) in [
        ("empty-line", "1\n\n2\n", "2"),
        ("backwards", "5\n9\n7\n", "3"),
        ("nothing", "", ""),
        ("words", "1\nten\n", "2"),
    ] {
        fs::write(s.0.join(name), text).unwrap();
        let o = s.headway(&format!("bench --in sim --cc bbr1 --path 'trace={name} 40ms'"));
        assert_eq!(o.status.code(), Some(2), "{name}: {}", stderr(&o));
        assert!(stderr(&o).contains(&format!("line {line}")) || line.is_empty(), "{name}: {}", stderr(&o));
    }
}

#[test]
fn a_simulated_bench_is_the_same_to_the_byte_and_resumes() {
    let s = Scratch::new("bytes");
    for out in ["a", "b"] {
        let o = s.headway(&format!("{SMALL} --out {out}"));
        assert!(o.status.success(), "{}", stderr(&o));
        assert!(stdout(&o).contains("too few blocks"), "two blocks give no verdict:\n{}", stdout(&o));
    }
    assert_eq!(folder(&s.0.join("a")), folder(&s.0.join("b")));
    assert!(!s.0.join("a/about.json").exists(), "a simulated run does not depend on the day");
    let before = folder(&s.0.join("a"));
    fs::remove_dir_all(s.0.join("a/cells/002")).unwrap();
    fs::create_dir(s.0.join("a/cells/.003.tmp")).unwrap(); // as `kill -9` leaves it
    let o = s.headway(&format!("{SMALL} --out a"));
    assert!(o.status.success() && stderr(&o).contains("3 of 4 cells are there already"), "{}", stderr(&o));
    assert_eq!(folder(&s.0.join("a")), before);
    fs::remove_dir_all(s.0.join("a/cells/001")).unwrap();
    let o = s.headway("bench --resume a");
    assert!(o.status.success() && stderr(&o).contains("3 of 4 cells are there already"), "{}", stderr(&o));
    assert_eq!(folder(&s.0.join("a")), before);
    let o = s.headway(&format!("{SMALL} --out a --seed 2"));
    assert_eq!(o.status.code(), Some(1));
    assert!(stderr(&o).contains("another plan"), "{}", stderr(&o));
    assert_eq!(folder(&s.0.join("a")), before);
    // A run goes on in the environment that it was begun in, or not at all.
    let env = s.0.join("a/env.json");
    let begun = fs::read_to_string(&env).unwrap();
    let older =
        begun.replace(&format!("\"headway\": \"{}\"", env!("CARGO_PKG_VERSION")), "\"headway\": \"0.0.9\"");
    assert_ne!(older, begun);
    fs::write(&env, &older).unwrap();
    fs::remove_dir_all(s.0.join("a/cells/001")).unwrap();
    let o = s.headway("bench --resume a");
    assert_eq!(o.status.code(), Some(1));
    assert!(stderr(&o).contains("headway: \"0.0.9\" and \""), "{}", stderr(&o));
    assert_eq!(fs::read_to_string(&env).unwrap(), older);
    fs::remove_file(&env).unwrap();
    let o = s.headway("bench --resume a");
    assert_eq!(o.status.code(), Some(1));
    assert!(stderr(&o).contains("has cells and no env.json"), "{}", stderr(&o));
}

/// Real QUIC stacks in virtual time: Headway's controllers and the stacks' own are in one table, and a cell has the
/// same raw files as with TCP.
#[test]
fn a_quic_bench_is_the_same_to_the_byte_and_resumes() {
    let s = Scratch::new("quic");
    let plan = "bench --in sim --transport noq --cc bbr3,noq-cubic,quinn-cubic --path '20mbit 20ms queue=1bdp loss=0.1%' \
                --blocks 1 --seconds 3 --streams 4 --messages --trace --seed 5";
    for out in ["a", "b"] {
        let o = s.headway(&format!("{plan} --out {out}"));
        assert!(o.status.success(), "{}", stderr(&o));
    }
    assert_eq!(folder(&s.0.join("a")), folder(&s.0.join("b")));
    let before = folder(&s.0.join("a"));
    fs::remove_dir_all(s.0.join("a/cells/001")).unwrap();
    let o = s.headway(&format!("{plan} --out a"));
    assert!(o.status.success() && stderr(&o).contains("2 of 3 cells are there already"), "{}", stderr(&o));
    assert_eq!(folder(&s.0.join("a")), before);
    let text = |file: &str| fs::read_to_string(s.0.join(file)).unwrap();
    assert!(
        text("a/plan.json").contains("\"transport\": \"noq\"")
            && text("a/env.json").contains("--transport noq")
    );
    let cells = (0..3).map(|n| format!("a/cells/{n:03}"));
    let traced: Vec<String> = cells.filter(|cell| s.0.join(cell).join("acks.txt").exists()).collect();
    assert_eq!(traced.len(), 1, "the trace of ours alone: {traced:?}");
    assert!(text(&format!("{}/cell.json", traced[0])).contains("\"cc\": \"bbr3\""));
    let o = s.headway(&format!("replay {}/acks.txt", traced[0]));
    assert!(o.status.success(), "{}", stderr(&o));
    let o = s.headway(&format!("{plan} --dry-run"));
    assert!(stdout(&o).contains("3 cells"), "{}", stdout(&o));
}

#[test]
fn a_quic_bench_says_what_it_cannot_do() {
    let s = Scratch::new("quic-refused");
    for (args, why) in [
        ("--in sim --transport noq --cc bbr4", "bbr3, bbr3_brake, headway, cubic, noq-bbr3"),
        ("--in sim --cc noq-bbr3", "unknown controller `noq-bbr3`"),
        ("--in remote 192.0.2.1 --transport quinn --cc bbr3", "needs a far end of its own"),
        ("--in lab --transport noq --cc bbr", "unknown controller `bbr` for --in lab --transport noq"),
        ("--in here --transport quinn --cc bbr3:cwnd_gain=big", "cannot set `bbr3:cwnd_gain=big`"),
        ("--in lab --transport quinn --cc bbr3 --mtu 9000", "--mtu needs TCP flows"),
        ("--in sim --transport noq --cc bbr3 --against cubic", "--against needs TCP flows"),
        ("--in sim --transport sctp --cc bbr3", "there is tcp, noq, quinn"),
    ] {
        let o = s.headway(&format!("bench {args}"));
        assert_eq!(o.status.code(), Some(2), "{args}: {}", stderr(&o));
        assert!(stderr(&o).contains(why), "{args}: {}", stderr(&o));
    }
}

#[test]
fn a_matrix_is_every_combination_and_its_plan_runs_again() {
    let s = Scratch::new("matrix");
    let matrix = "bench --in sim --cc bbr1,cubic --path clean --streams 1,2 --pacing 0,4mbit --mtu 1500,9000 \
                  --against none,cubic --blocks 1 --seconds 3";
    let o = s.headway(&format!("{matrix} --dry-run"));
    assert!(stdout(&o).contains("32 cells") && stdout(&o).contains("at most"), "{}", stdout(&o));
    let o = s.headway(&format!("{matrix} --out a"));
    assert!(o.status.success(), "{}", stderr(&o));
    let env = fs::read_to_string(s.0.join("a/env.json")).unwrap();
    let flags = "--path clean --blocks 1 --seconds 3 --streams 1,2 --pacing 0,4mbit --mtu 1500,9000 --against none,cubic";
    assert!(env.contains(flags), "{env}");
    let o = s.headway("bench --in sim --cc bbr1 --path clean --streams 2 --stagger 500ms --against same+20ms --blocks 1 --out s");
    assert!(o.status.success(), "{}", stderr(&o));
    let env = fs::read_to_string(s.0.join("s/env.json")).unwrap();
    // The last of the four begins after 1.5 s.
    assert!(env.contains("--against same+20000us --stagger 500ms --warmup 3.5"), "{env}");
    let csv = fs::read_to_string(s.0.join("a/results.csv")).unwrap();
    let mut rows = csv.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let column = |name: &str| head.iter().position(|h| *h == name).unwrap();
    let (path, goodput) = (column("path"), column("goodput_bps"));
    let mut count = 0;
    for row in rows {
        let bps: f64 = row[goodput].parse().unwrap();
        let streams = if row[path].contains("streams=2") { 2.0 } else { 1.0 };
        match row[path].contains("pacing=4mbit") {
            true => assert!(bps < streams * 4e6 * 1.02, "{row:?}"),
            false if row[path].contains("against=none") => assert!(bps > 11e6, "{row:?}"),
            false => {}
        }
        count += 1;
    }
    assert_eq!(count, 32);
    // ESnet's table has a row for each combination and controller. An axis for which it has no column stays in the
    // name of the row.
    let table = stdout(&s.headway("report a --format esnet"));
    let rows: Vec<&str> = table.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 33, "{table}");
    assert!(rows[0].starts_with("Dest Host") && rows[0].ends_with("RXMTs"), "{table}");
    assert!(rows[1].contains("40.0") && rows[1].contains("bbr1") && rows[1].contains("- (1)"), "{table}");
    // The same plan runs again from its folder and from its file.
    for (plan, out) in [("a", "b"), ("a/plan.json", "c")] {
        let o = s.headway(&format!("bench --plan {plan} --out {out}"));
        assert!(o.status.success(), "{}", stderr(&o));
        assert_eq!(folder(&s.0.join(out)), folder(&s.0.join("a")));
    }
}

#[test]
fn a_controller_beside_itself_is_another_draw_of_the_same() {
    let s = Scratch::new("twin");
    let o = s.headway("bench --in sim --cc cubic,cubic#2 --path '20mbit 20ms queue=1bdp loss=0.5%' --blocks 8 --seconds 3 --out a");
    assert!(o.status.success(), "{}", stderr(&o));
    assert!(stdout(&o).contains("cubic#2: 8 of 8 cells ok"), "{}", stdout(&o));
    assert!(!stdout(&o).contains("better") && !stdout(&o).contains("worse"), "{}", stdout(&o));
    let csv = fs::read_to_string(s.0.join("a/results.csv")).unwrap();
    let seeds: std::collections::BTreeSet<&str> = csv
        .lines()
        .skip(1)
        .map(|row| {
            row.split(',')
                .nth(csv.lines().next().unwrap().split(',').position(|h| h == "seed").unwrap())
                .unwrap()
        })
        .collect();
    assert_eq!(seeds.len(), 16, "every cell draws anew");
    // The suite `smoke` adds the second label by itself, and the plan that is shown says so.
    let o = s.headway("bench --in sim --suite smoke --cc cubic,bbr1 --blocks 1 --dry-run");
    assert!(stdout(&o).contains("cubic#2") && stdout(&o).contains("21 cells"), "{}", stdout(&o));
    let o = s.headway("bench --in lab --suite bbr --cc cubic --blocks 1 --dry-run");
    assert!(stdout(&o).contains("left out: dc-ecn 100 streams: honest only in sim"), "{}", stdout(&o));
    let o = s.headway("bench --in lab --suite tcpeval --cc cubic --dry-run");
    assert!(
        o.status.code() == Some(2) && stderr(&o).contains("no row of the suite `tcpeval`"),
        "{}",
        stderr(&o)
    );
}

#[test]
fn a_bench_that_is_killed_five_times_loses_nothing_and_has_nothing_twice() {
    let s = Scratch::new("killed");
    let plan = "bench --in sim --suite smoke --cc cubic,bbr1 --blocks 2 --jobs 2";
    let o = s.headway(&format!("{plan} --out whole"));
    assert!(o.status.success(), "{}", stderr(&o));
    let cells = |out: &str| {
        let names = fs::read_dir(s.0.join(out).join("cells")).into_iter().flatten().flatten();
        names.filter(|e| !e.file_name().to_string_lossy().starts_with('.')).count()
    };
    let all = cells("whole");
    assert_eq!(all, 7 * 3 * 2);
    for kill in 1..=5 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_headway"));
        child.args(words(&format!("{plan} --out cut"))).current_dir(&s.0).stderr(std::process::Stdio::null());
        let mut child = child.stdout(std::process::Stdio::null()).spawn().unwrap();
        // The kill comes as soon as some more cells are there, whatever the program is doing at that moment.
        while cells("cut") < all * kill / 7 && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(cells("cut") < all, "kill {kill} came too late");
    }
    let there = format!("{} of {all} cells are there already", cells("cut"));
    let o = s.headway(&format!("{plan} --out cut"));
    assert!(
        o.status.success() && stderr(&o).contains(&there),
        "{there}
{}",
        stderr(&o)
    );
    assert_eq!(folder(&s.0.join("cut")), folder(&s.0.join("whole")));
}

#[test]
fn merged_shards_are_the_unsharded_run_to_the_byte() {
    let s = Scratch::new("shards");
    let plan =
        "bench --in sim --cc bbr1,cubic --path '20mbit 20ms queue=1bdp loss=0.1%' --blocks 6 --seconds 2";
    assert!(s.headway(&format!("{plan} --out whole")).status.success());
    for part in 1..=3 {
        let o = s.headway(&format!("{plan} --shard {part}/3 --out s{part} --jobs 1"));
        assert!(o.status.success() && stdout(&o).contains("shard"), "{}", stderr(&o));
        assert_eq!(fs::read_dir(s.0.join(format!("s{part}/cells"))).unwrap().count(), 4);
    }
    let o = s.headway(&format!("{plan} --shard 2/3 --dry-run"));
    assert!(stdout(&o).contains("4 cells"), "{}", stdout(&o));
    let refused = |args: &str, why: &str| {
        let o = s.headway(args);
        assert!(o.status.code() == Some(1) && stderr(&o).contains(why), "{args}\n{}", stderr(&o));
    };
    refused("merge --out m s1 s3", "4 of 12 cells are in no shard, the first is 001");
    assert!(!s.0.join("m").exists());
    // A cell that two shards have is taken once if both agree.
    fs::create_dir(s.0.join("s1/cells/001")).unwrap();
    for entry in fs::read_dir(s.0.join("s2/cells/001")).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, s.0.join("s1/cells/001").join(from.file_name().unwrap())).unwrap();
    }
    let o = s.headway("merge --out m s3 s1 s2");
    assert!(o.status.success(), "{}", stderr(&o));
    assert_eq!(stdout(&o).lines().next(), stdout(&s.headway("report whole")).lines().next());
    assert_eq!(folder(&s.0.join("m")), folder(&s.0.join("whole")));
    assert!(s.headway("merge --out m s1 s2 s3").status.success(), "a second time changes nothing");
    fs::write(s.0.join("s1/cells/001/probe.txt"), "# sent_us rtt_us\n").unwrap();
    refused("merge --out n s1 s2 s3", "differ");
    let env = fs::read_to_string(s.0.join("s2/env.json")).unwrap();
    fs::write(s.0.join("s2/env.json"), env.replacen("\"headway\": \"", "\"headway\": \"9", 1)).unwrap();
    refused("merge --out n s3 s2", "another environment than `s3`: headway: ");
    let o = s.headway(
        "bench --in sim --cc bbr1,cubic --path clean --blocks 6 --seconds 2 --shard 1/3 --out other",
    );
    assert!(o.status.success(), "{}", stderr(&o));
    refused("merge --out n s3 other", "`other` is a shard of another plan");
}

/// A search is a plan like any other: its candidates are drawn before the run, so that its shards, one of which was killed
/// and resumed, are the whole of it.
#[test]
fn a_search_in_shards_of_which_one_was_killed_is_the_whole_search_to_the_byte() {
    let s = Scratch::new("search");
    let plan = "bench --in sim --cc bbr3,bbr3:up_pacing_gain=1.1..1.5:bw_probe_wait_us=100ms..4s --draws 9 --seed 5 \
                --path '20mbit 20ms queue=2bdp loss=0.1%' --path '8mbit 50ms queue=4bdp' --blocks 6 --seconds 5";
    let o = s.headway(&format!("{plan} --out whole"));
    assert!(o.status.success(), "{}", stderr(&o));
    let said = stdout(&o);
    assert!(said.contains(" 9 candidates") && said.contains("measure again with another seed"), "{said}");
    let again = said.lines().find(|line| line.starts_with("headway bench --cc bbr3,")).unwrap();
    assert!(again.contains("--seed 6") && !again.contains("--draws"), "{again}");
    let o = s.headway(&format!("{} --dry-run", again.trim_start_matches("headway ")));
    assert!(o.status.success(), "{again}\n{}", stderr(&o));
    for part in [1, 3] {
        let o = s.headway(&format!("{plan} --shard {part}/3 --out s{part}"));
        assert!(o.status.success(), "{}", stderr(&o));
    }
    let cells = || fs::read_dir(s.0.join("s2/cells")).map_or(0, Iterator::count);
    let mut child = Command::new(env!("CARGO_BIN_EXE_headway"));
    child.args(words(&format!("{plan} --shard 2/3 --jobs 1 --out s2"))).current_dir(&s.0);
    let mut child =
        child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    while cells() < 5 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(cells() < 40, "the kill came too late");
    let o = s.headway("bench --resume s2 --shard 2/3");
    assert!(o.status.success() && stderr(&o).contains("of 40 cells are there already"), "{}", stderr(&o));
    let o = s.headway("merge --out m s1 s2 s3");
    assert!(o.status.success(), "{}", stderr(&o));
    assert_eq!(stdout(&o).replace("m/report", "whole/report"), said);
    assert_eq!(folder(&s.0.join("m")), folder(&s.0.join("whole")));
}

#[test]
fn what_others_measured_is_imported_and_compared() {
    let s = Scratch::new("import");
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/iperf3");
    let o = s.headway(&format!("import {data}/3.21-ok.json {data}/3.21-busy.json"));
    assert!(
        o.status.success() && stderr(&o).contains("3.21-busy.json: iperf3: the server is busy"),
        "{}",
        stderr(&o)
    );
    assert!(stdout(&o).contains("cubic,1.000") && stdout(&o).lines().count() == 3, "{}", stdout(&o));
    assert_eq!(s.headway(&format!("import {data}/3.21-busy.json")).status.code(), Some(1));
    // The second controller is the same run under another name, so the comparison must find the two equivalent.
    for version in ["3.14", "3.16", "3.18"] {
        let text = fs::read_to_string(format!("{data}/{version}-ok.json")).unwrap();
        fs::write(s.0.join(format!("{version}.json")), text.replace("\"cubic\"", "\"bbr\"")).unwrap();
    }
    let o =
        s.headway(&format!("import . {data}/3.14-ok.json {data}/3.16-ok.json {data}/3.18-ok.json --summary"));
    fs::write(s.0.join("table.csv"), stdout(&o)).unwrap();
    let o = s.headway("compare --summary table.csv --baseline cubic --page page.html");
    assert!(o.status.success() && stdout(&o).contains("equivalent"), "{}{}", stdout(&o), stderr(&o));
    assert!(fs::read_to_string(s.0.join("page.html")).unwrap().contains("1 of 1 pairs can be compared"));
}

#[test]
fn damaged_run_folders_are_refused_with_a_sentence() {
    let s = Scratch::new("damaged");
    assert!(s.headway(&format!("{SMALL} --out run")).status.success());
    let refused = |what: &str| {
        let o = s.headway("report run");
        assert_eq!(o.status.code(), Some(1), "{what}: {}", stdout(&o));
        assert!(
            stderr(&o).starts_with("error: ") && !stderr(&o).contains("panicked"),
            "{what}: {}",
            stderr(&o)
        );
        stderr(&o)
    };
    let plan = fs::read_to_string(s.0.join("run/plan.json")).unwrap();
    fs::write(s.0.join("run/plan.json"), plan.replacen("\"layout\": 1", "\"layout\": 99", 1)).unwrap();
    assert!(refused("layout").contains("layout 99"));
    fs::write(s.0.join("run/plan.json"), &plan[..plan.len() / 2]).unwrap();
    refused("half a plan");
    fs::remove_file(s.0.join("run/plan.json")).unwrap();
    assert!(refused("no plan").contains("is not a run"));
    // A damaged cell is excluded and named; the others are reported.
    fs::write(s.0.join("run/plan.json"), plan).unwrap();
    fs::write(s.0.join("run/cells/001/load.json"), "{\"start\":").unwrap();
    assert!(refused("half a load").contains("1 of 4 cells are damaged"));
    let csv = fs::read_to_string(s.0.join("run/results.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5, "{csv}");
}

#[test]
fn help_and_list_name_what_there_is() {
    let s = Scratch::new("help");
    for command in [
        "bench", "report", "compare", "merge", "export", "import", "plan", "sim", "emu", "load", "unload",
        "list", "doctor", "replay",
    ] {
        assert!(stdout(&s.headway("--help")).contains(command));
        let o = s.headway(&format!("{command} --help"));
        assert!(o.status.success() && stdout(&o).contains("Usage:"), "{command}");
    }
    let list = stdout(&s.headway("list"));
    for name in ["bbr1", "cubic", "clean", "drop", "lossy", "policer", "queue="] {
        assert!(list.contains(name), "{name}\n{list}");
    }
    let params = stdout(&s.headway("list --params bbr1"));
    assert!(params.contains("high_gain") && params.contains("2.88672 (1.01 to 10)"), "{params}");
    let o = s.headway("sim --cc bbr1,cubic --path clean --seconds 3 --json");
    let v: serde_json::Value = serde_json::from_slice(&o.stdout).expect("JSON on stdout");
    assert!(v["flows"].as_array().is_some_and(|f| f.len() == 2), "{v}");
}

#[test]
fn a_simulated_run_leaves_its_packets() {
    let s = Scratch::new("packets");
    let sim = "sim --cc bbr1 --path clean --seconds 2";
    let o = s.headway(&format!("{sim} --pcap a.pcap --mahimahi a.log"));
    assert!(o.status.success(), "{}", stderr(&o));
    assert_eq!(stdout(&o), stdout(&s.headway(sim)), "looking changes nothing");
    assert!(fs::read(s.0.join("a.pcap")).unwrap().starts_with(&0xa1b2_3c4du32.to_le_bytes()));
    assert!(fs::read_to_string(s.0.join("a.log")).unwrap().starts_with("# mahimahi mm-link"));
    let o = s.headway(&format!("{sim} --pcap nowhere/a.pcap"));
    assert!(o.status.code() != Some(0) && stderr(&o).contains("nowhere/a.pcap"), "{}", stderr(&o));
}

#[test]
fn a_rival_shares_the_path_and_is_measured() {
    let s = Scratch::new("rival");
    let o = s.headway(&format!("{SMALL} --against cubic+40ms --out a"));
    assert!(o.status.success(), "{}", stderr(&o));
    assert!(stdout(&o).contains("Rival's goodput") && stdout(&o).contains("Jain's index"), "{}", stdout(&o));
    let rival = fs::read_to_string(s.0.join("a/cells/000/rival.json")).unwrap();
    assert!(rival.contains("\"sender_tcp_congestion\":\"cubic\""));
    let csv = fs::read_to_string(s.0.join("a/results.csv")).unwrap();
    let mut rows = csv.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let column = |name: &str| head.iter().position(|h| *h == name).unwrap();
    for row in rows {
        let bps = |name: &str| row[column(name)].parse::<f64>().unwrap();
        let both = bps("goodput_bps") + bps("rival_goodput_bps");
        assert!(bps("rival_goodput_bps") > 1e5 && both < 20e6, "{row:?}");
        assert!((0.5..=1.0).contains(&bps("jain")) && bps("utilisation") > 0.9, "{row:?}");
    }
}

#[test]
fn dry_run_shows_cells_and_writes_nothing() {
    let s = Scratch::new("dry");
    let o = s.headway("bench --in sim --cc bbr1,cubic --path clean,lossy --blocks 3 --dry-run");
    assert!(o.status.success() && stdout(&o).contains("12 cells"), "{}", stdout(&o));
    let o = s.headway("bench --in sim --cc bbr1 --path 'unlimited 20ms' --blocks 3 --dry-run");
    assert!(o.status.success() && stdout(&o).contains("no limit to the traffic"), "{}", stdout(&o));
    // The estimate is longer with QUIC, because a QUIC stack takes more real time than the lab's virtual clock shows.
    for (transport, minutes) in [("tcp", 4), ("noq", 13)] {
        let o = s.headway(&format!(
            "bench --in lab --cc bbr3 --path lan-100 --blocks 6 --seconds 30 --transport {transport} --jobs 1 --dry-run"
        ));
        assert!(stdout(&o).contains(&format!("6 cells, about {minutes} min")), "{}", stdout(&o));
    }
    assert_eq!(s.headway("bench --in lab --dry-run --jobs 0").status.code(), Some(2));
    assert_eq!(fs::read_dir(&s.0).unwrap().count(), 0);
}

/// Messages run beside bulk, limited and pausing flows. The command that the run's `env.json` names makes the same
/// run again.
#[test]
fn messages_and_patterns_run_and_are_repeatable() {
    let s = Scratch::new("messages");
    for (n, (pattern, goodput)) in
        [("", 15e6..20e6), ("--rate 2mbit", 1.9e6..2.1e6), ("--on-off 500ms/500ms", 5e6..14e6)]
            .into_iter()
            .enumerate()
    {
        let o = s.headway(&format!("{SMALL} --warmup 1 {pattern} --messages 64..1200@200 --out a{n}"));
        assert!(o.status.success(), "{}", stderr(&o));
        let table = stdout(&o);
        assert!(table.contains("Message delay p99"), "{table}");
        let messages = fs::read_to_string(s.0.join(format!("a{n}/cells/000/messages.txt"))).unwrap();
        assert_eq!(messages.lines().count(), 1 + 600);
        let csv = fs::read_to_string(s.0.join(format!("a{n}/results.csv"))).unwrap();
        let mut rows = csv.lines().map(|row| row.split(',').collect::<Vec<_>>());
        let at = rows.next().unwrap().iter().position(|h| *h == "goodput_bps").unwrap();
        assert!(rows.all(|row| goodput.contains(&row[at].parse::<f64>().unwrap())), "{pattern}: {csv}");
        let env: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(s.0.join(format!("a{n}/env.json"))).unwrap()).unwrap();
        let command = env["command"].as_str().unwrap().strip_prefix("headway ").unwrap().to_string();
        let o = s.headway(&format!("{command} --out b{n}"));
        assert!(o.status.success(), "{command}: {}", stderr(&o));
        assert_eq!(folder(&s.0.join(format!("a{n}"))), folder(&s.0.join(format!("b{n}"))));
    }
}

#[test]
fn a_suite_brings_its_own_traffic_and_takes_further_paths() {
    let s = Scratch::new("suite");
    fs::write(s.0.join("mine.down"), "1\n2\n3\n").unwrap();
    let args = "bench --in sim --cc bbr1,cubic --suite drop --path 'trace=mine.down 40ms queue=100pkt' --seconds 5 --blocks 2";
    let o = s.headway(&format!("{args} --dry-run"));
    let cells = stdout(&o);
    assert!(o.status.success() && cells.contains("144 cells"), "{}", stderr(&o));
    assert!(
        cells.contains("`drop-2x-50mbit-40ms-1bdp-5s against cubic`") && cells.contains("`lte-att`"),
        "{cells}"
    );
    assert!(cells.contains("suite drop: 36 paths"), "{cells}");
    let o = s.headway("bench --in sim --cc bbr1 --suite drop-all --blocks 1 --dry-run");
    assert!(stdout(&o).contains("659 cells"), "{}", stderr(&o));
}

/// Every file below `dir`, with its content.
fn folder(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(folder(&path)),
            false => files.push((path.strip_prefix(dir).unwrap().to_path_buf(), fs::read(&path).unwrap())),
        }
    }
    files.sort();
    files
}
