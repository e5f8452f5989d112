//! Faults as an administrator meets them: a process that is killed at any moment, a disk that is full, a clock that is set,
//! a cgroup without memory, a JIT compiler that is hardened. Each time two things are asked: does the same command, or its
//! opposite, work afterwards, and is nothing left. What happens to the kernel's own memory is asked in
//! `headway-kernel/src/root_tests/load.rs`; the answers are in docs/measurements/faults.md.

use std::fs;
use std::process::Command;
use std::time::SystemTime;

const HEADWAY: &str = env!("CARGO_BIN_EXE_headway");

/// Folders, file systems, processes and a network of its own, which end with the script, and what must be as before after
/// each fault. The shell is process 1, so it is alone when everything has ended.
const GROUND: &str = r#"
set -u
mount -t tmpfs none /run; mount -t tmpfs none /etc; mount -t tmpfs none /var/lib; mkdir /etc/headway
mount -t bpf bpf /sys/fs/bpf; ip link set lo up
names() { cat /proc/sys/net/ipv4/tcp_available_congestion_control; }
default() { cat /proc/sys/net/ipv4/tcp_congestion_control; }
default_before=$(default)
alone() { # after everything has had 10 s to end
    for i in $(seq 100); do
        set -- /proc/[0-9]*
        [ $# = 1 ] && return
        sleep 0.1
    done
    echo "BAD: processes are left: $(ps -eo pid=,args= | head)"
}
nothing_left() { # after $1; the shell's jobs are done
    what=$1; alone
    names | grep -q "$NAME" && echo "BAD: registered after $what"
    [ "$(default)" = "$default_before" ] || echo "BAD: the default after $what is $(default)"
    [ "$(ip -o link | wc -l)" = 1 ] || echo "BAD: links are left after $what: $(ip -o link)"
    grep nsfs /proc/mounts && echo "BAD: a namespace is left after $what"
    # A kill between the removal of a pin and that of its folder leaves the folder, which the next load uses.
    find /sys/fs/bpf/headway -type f 2> /dev/null | grep . && echo "BAD: pins are left after $what"
    find /etc/headway /var/lib /run -type f | grep -v '^/run/out$\|^/run/headway/lock$\|^/run/headway/state.json$' && echo "BAD: files are left after $what"
    # What is remembered until the next boot, and a lock, which nobody may remove.
    grep "$NAME" /run/headway/state.json 2> /dev/null && echo "BAD: it is remembered after $what"
}
"#;

/// Runs a script of the shell on that ground; `None`, said so, where this is not root.
fn script(name: &str, seconds: u32, text: &str) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: this test needs root");
        return None;
    }
    let whole = format!("H={HEADWAY} NAME={name}\n{GROUND}\nexec 2>&1\n{text}");
    let seconds = seconds.to_string();
    let apart = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let run = Command::new("timeout")
        .args([&seconds, "unshare"])
        .args(apart)
        .args(["bash", "-c", &whole])
        .output()
        .expect("timeout and unshare are in every Debian");
    Some(String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned())
}

/// What is killed: how the ground is made ready, the command, within how many milliseconds it is killed, and what must work
/// afterwards, whether or not the command was done.
const KILLED: [(&str, &str, &str, u32, &str); 10] = [
    ("load", "true", "load bbr3 --as $NAME", 400, "again load bbr3 --as $NAME; ok unload $NAME"),
    ("unload", "ok load bbr3 --as $NAME", "unload $NAME", 200, "again unload $NAME"),
    (
        "enable",
        "true",
        "enable bbr3 --as $NAME --default",
        800,
        "ok apply; ok enable bbr3 --as $NAME --default; ok disable --all",
    ),
    ("disable", "ok enable bbr3 --as $NAME --default", "disable $NAME", 400, "ok apply; ok disable --all"),
    (
        "apply",
        "ok enable bbr3 --as $NAME --default; edit",
        "apply",
        600,
        "ok apply; ok status; ok disable --all",
    ),
    (
        "tune",
        "ok enable bbr3 --as $NAME --default",
        "tune $NAME --set default_cwnd_gain=2.5",
        600,
        "ok apply; ok status; ok disable --all",
    ),
    ("watch", "ok load bbr3 --as $NAME", "watch --every 100ms", 1000, "ok watch --once; ok unload $NAME"),
    (
        "metrics",
        "ok load bbr3 --as $NAME",
        "metrics --textfile /run/m.prom --every 1s",
        1500,
        "whole; ok metrics; ok unload $NAME",
    ),
    ("bench", "true", "bench $BENCH", 6000, "true"),
    ("emu", "true", "emu clean -- sleep 30", 600, "ok emu clean -- true"),
];

/// What the scripts of the table use.
const KILLER: &str = r#"
BENCH="--in here --cc reno,bbr3 --path clean --seconds 1s --blocks 1 --out /mnt/run"
mount -t tmpfs none /mnt
ok() { eval "$H $*" > /run/out 2>&1 || { echo "BAD: $* fails after the kill of $what"; cat /run/out; }; }
again() { # either it is as if nothing had been done, or it was done
    eval "$H $*" > /run/out 2>&1 || grep -q "it is loaded already\|it is not loaded" /run/out || { echo "BAD: $*"; cat /run/out; }
}
finish() { # what was begun goes on to its end; a cell that this machine has disturbed by a stall is measured again
    for i in 1 2 3 4 5; do
        $H bench $BENCH > /run/out 2>&1 && return
        grep -q "^excluded: .* disturbed: " /run/out || break
    done
    echo "BAD: bench fails after the kill of $what"; cat /run/out
}
edit() { # somebody edits the file of what is enabled
    printf 'version = 1\ncontroller = "bbr3"\nparameters = { default_cwnd_gain = "2.7" }\n[[scope]]\ndefault = true\n' > /etc/headway/enabled.d/$NAME.toml
}
whole() { # a file for another program is complete or not there
    [ ! -e /run/m.prom ] || [ "$(tail -c 1 /run/m.prom | od -An -tx1)" = " 0a" ] && [ ! -e /run/m.prom ] || grep -q 'headway_flows_total{' /run/m.prom || echo "BAD: half a file"
    rm -f /run/m.prom; rm -f /run/.m.prom*
}
strike() { # kills it, and every second time those that work for it, too
    eval "exec $H $1" > /run/out 2>&1 & p=$!
    sleep $(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))
    second=; [ $((RANDOM % 2)) = 0 ] && second=$(cat /proc/$p/task/*/children 2> /dev/null)
    kill -9 $p $second 2> /dev/null; wait $p 2> /dev/null; alone
}
"#;

/// The seed makes the moments; give it in HEADWAY_SEED to have them again.
fn kills(rounds: u32, seconds: u32) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let drawn = (now.subsec_micros() % 30_000).to_string();
    let seed = std::env::var("HEADWAY_SEED").unwrap_or(drawn);
    println!("HEADWAY_SEED={seed}");
    let mut text = format!("{KILLER}\nRANDOM={seed}\nfor round in $(seq {rounds}); do\n");
    for (name, ready, command, within, after) in KILLED {
        text += &format!(
            "what={name}; ms=$((RANDOM % {within})); {ready}; strike \"{command}\"; {after}; nothing_left {name}; echo \"struck {name} after $ms ms\"\n"
        );
    }
    // Cells that were begun are done by the next run with the same folder, and nothing that is half stays in it.
    text += "done\nwhat=bench; finish; nothing_left bench\nfind /mnt/run -name '.*' | grep . && echo 'BAD: temporary files are left'\nls /mnt/run/results.json";
    let Some(said) = script(&format!("hwq{}", std::process::id()), seconds, &text) else { return };
    println!("{said}");
    assert!(!said.contains("BAD"), "{said}");
    assert!(said.ends_with("/mnt/run/results.json\n"), "{said}");
    for (name, ..) in KILLED {
        assert_eq!(said.matches(&format!("struck {name} after")).count(), rounds as usize, "{said}");
    }
}

#[test]
fn root_whatever_is_killed_can_be_run_again_and_leaves_nothing() {
    kills(3, 300);
}

#[test]
#[ignore = "half an hour: `make test-long`"]
fn long_fifty_kills_of_each_command_leave_nothing() {
    kills(50, 3600);
}

/// What an unload leaves that is killed between the file and its folder: the next one takes it away, though nothing is loaded.
#[test]
fn root_an_unload_takes_an_empty_folder_away() {
    let text = "mkdir -p /sys/fs/bpf/headway/bbr3; $H unload $NAME; test -e /sys/fs/bpf/headway || echo gone";
    let Some(said) = script("hwnobody", 30, text) else { return };
    assert!(said.contains("it is not loaded") && said.ends_with("gone\n"), "{said}");
}

/// A disable that is killed after the kernel has unregistered the controller leaves its file in /sys/fs/bpf. A second name
/// of that file, moved into its place after an unload, is the same state.
#[test]
fn root_a_disable_that_was_killed_halfway_is_finished_by_the_next() {
    let text = r#"
$H enable bbr3 --as $NAME --default > /run/out 2>&1; pin=/sys/fs/bpf/headway/bbr3/$NAME
ln $pin /sys/fs/bpf/second; echo reno > /proc/sys/net/ipv4/tcp_congestion_control; $H unload $NAME > /run/out 2>&1
rm /etc/headway/enabled.d/$NAME.toml; mkdir -p ${pin%/*}; mv /sys/fs/bpf/second $pin; test -e $pin && echo half
names | grep "$NAME"; $H disable --all > /run/out 2>&1 || cat /run/out
echo "$default_before" > /proc/sys/net/ipv4/tcp_congestion_control; nothing_left disable; echo done"#;
    let Some(said) = script("hwhalf2", 60, text) else { return };
    assert_eq!(said, "half\ndone\n");
}

/// A disk of 64 kB. Each says in a sentence what it cannot write and what helps, no file is half written, and what was
/// measured before stays.
#[test]
fn root_a_full_disk_is_said_and_keeps_what_was_measured() {
    let Some(said) = script(
        &format!("hwr{}", std::process::id()),
        120,
        r#"
mount -t tmpfs -o size=64k none /mnt
bench() { echo "$1:"; $H bench --in $1 --cc $2 --path clean --seconds 2s --blocks 8 --out /mnt/run; echo "exit $?"; }
kept() { # every cell has all its files, and nothing else is there
    for cell in /mnt/run/cells/*; do [ -s $cell/cell.json ] && [ -s $cell/load.json ] && echo "whole"; done
    find /mnt/run -name '.*.tmp' -type f | grep . && echo "BAD: half a file"
}
bench sim cubic,bbr3; kept; (cd /mnt/run/cells && sha256sum */*) > /run/sums
mount -o remount,size=64m /mnt
bench sim cubic,bbr3 | tail -1; (cd /mnt/run/cells && sha256sum --quiet -c /run/sums) && echo "as before"; rm -r /mnt/run /run/sums
mount -o remount,size=16k /mnt
bench here reno,reno#2; kept; rm -rf /mnt/run; nothing_left here
cat /dev/zero > /mnt/fill
echo "emu:"; $H emu '20mbit 10ms' --log /mnt/log.txt -- true; echo "exit $?"; ls /mnt
$H load bbr3 --as $NAME > /run/out 2>&1
echo "metrics:"; timeout 3 $H metrics --textfile /mnt/m.prom --every 1s; echo "exit $?"; ls -A /mnt
$H unload $NAME > /run/out 2>&1; nothing_left metrics
"#,
    ) else {
        return;
    };
    println!("{said}");
    assert!(!said.contains("BAD") && said.contains("\nas before\n"), "{said}");
    let part = |from: &str| said.split(&format!("{from}:\n")).nth(1).unwrap().to_string();
    let refused = |text: &str| {
        let error = text.split("\nexit 1\n").next().unwrap().to_string();
        let error = &error[error.find("error: cannot write ").unwrap_or_else(|| panic!("{said}"))..];
        assert!(error.lines().next().unwrap().ends_with("No space left on device (os error 28)"), "{error}");
        assert!(error.lines().skip(1).all(|l| l.starts_with("hint: ") && !l.contains("os error")), "{error}");
        assert!(error.contains("\nhint: "), "{error}");
    };
    for of in ["sim", "here", "emu", "metrics"] {
        refused(&part(of));
    }
    assert!(part("sim").contains("exit 1\nwhole\n"), "{said}");
    assert!(
        part("emu").contains("\nexit 1\nfill\nmetrics:") && part("metrics").contains("\nexit 1\nfill\n"),
        "{said}"
    );
}

/// In a guest, where nothing of a machine's can be broken: a hardened JIT compiler, a clock that is set to another decade
/// and back while data is under way, and a cgroup that may take no more memory while connections come. The kernel charges
/// the state of a connection to the cgroup of the process that loaded the controller.
const GUEST: &str = r#"
exec 2>&1
export PATH=/bin
mount -t cgroup2 none /sys/fs/cgroup; echo +memory > /sys/fs/cgroup/cgroup.subtree_control
flows() { # $1 connections with $2 for a second at 20 Mbit/s each; how many bytes came through
    iperf3 -s -1 > /dev/null & sleep 0.3
    iperf3 -c 127.0.0.1 -C $2 -P $1 -t 1 -b 20M -J > /result; grep -c sender_tcp_congestion.*$2 /result
    grep -A 8 sum_received /result | grep bytes\"; wait
}
echo "hardened:"; echo 2 > /proc/sys/net/core/bpf_jit_harden; cat /proc/sys/net/core/bpf_jit_harden
/init load bbr3 --as hard; echo "exit $?"; flows 2 hard; /init metrics | grep hard | grep flows
echo "clock:"
(sleep 0.5; date -s 2035-05-05; sleep 0.2; /init watch --once > /seen; date -s 1999-01-01; sleep 0.2; date -s 2020-01-01) > /dev/null &
flows 2 hard; grep hard /seen; /init list --loaded; /init unload hard; echo "exit $?"
echo "cgroup:"; mkdir /sys/fs/cgroup/small
(read -r PID REST < /proc/self/stat; echo $PID > /sys/fs/cgroup/small/cgroup.procs; /init load bbr3 --as small); echo "exit $?"
read -r USED < /sys/fs/cgroup/small/memory.current; echo $((USED + 300000)) > /sys/fs/cgroup/small/memory.max
(sleep 0.8; grep . /sys/fs/cgroup/small/memory.current > /now) &
flows 100 small; /init metrics | grep small | grep flows; grep -w max /sys/fs/cgroup/small/memory.events
read -r NOW < /now; echo "above the limit: $((NOW - USED - 300000))"
/init unload small; echo "exit $?"; /init list --loaded
echo 0 > /proc/sys/net/core/bpf_jit_harden
dmesg | grep -E "WARNING:|BUG:|Oops|general protection"
echo "END"
"#;

/// What a script says in a guest with Debian's 6.12, if that kernel is here.
fn in_guest(script: &str, flags: &[&str]) -> Option<String> {
    let cached = std::path::PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/headway/kernels");
    let is_there = fs::read_dir(cached)
        .is_ok_and(|mut d| d.any(|f| f.unwrap().file_name().to_string_lossy().starts_with("6.12.")));
    if !is_there {
        println!("skipped: Linux 6.12 is not here (make lab-kernels)");
        return None;
    }
    let name = format!("headway-faults-{}-{}", std::process::id(), script.len());
    let disk = std::env::temp_dir().join(name);
    fs::create_dir_all(&disk).unwrap();
    fs::write(disk.join("init.sh"), script).unwrap();
    let run = Command::new(HEADWAY)
        .args(["in-lab", "--kernel", "6.12", "--tool"])
        .args(["iperf3,sh,cat,mkdir,mount,sleep,grep,date,dmesg", "--root"])
        .arg(&disk)
        .args(flags)
        .arg("sh /init.sh")
        .output()
        .unwrap();
    fs::remove_dir_all(&disk).unwrap();
    let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    println!("{said}");
    Some(said)
}

/// The number behind the last of these words.
fn after(said: &str, word: &str) -> u64 {
    let rest = said.rsplit(word).next().unwrap();
    rest.split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap()
        .parse()
        .unwrap_or_else(|_| panic!("{word}: {said}"))
}

#[test]
fn a_guest_bears_a_hardened_jit_a_clock_that_is_set_and_a_full_cgroup() {
    let Some(said) = in_guest(GUEST, &[]) else { return };
    let in_part = |from: &str, to: &str, wanted: &[&str]| {
        let part =
            said.split(&format!("\n{from}:\n")).nth(1).unwrap().split(&format!("\n{to}")).next().unwrap();
        for word in wanted {
            assert!(part.contains(word), "no `{word}`:\n{part}");
        }
    };
    let no_plain = "headway_flows_without_storage_total{cc=\"hard\"} 0";
    in_part("hardened", "clock:", &["2\n", "exit 0", "\"bytes\":\t5242880,", "{cc=\"hard\"} 4\n", no_plain]);
    // As much in a second of the monotonic clock as before. The second iperf3 has four connections of ours, both ends.
    in_part("clock", "cgroup:", &["\"bytes\":\t5242880,", "hard: 4 flows", "8 flows so far", "exit 0"]);
    in_part("cgroup", "END", &["exit 0", "{cc=\"small\"} 200\n", "total{cc=\"small\"} 0", "nothing by us"]);
    // 300 kB hold the state of 36 of the 200. Where it cannot wait for memory, as in a softirq, the kernel goes above a
    // cgroup's limit, so none is without state.
    assert!(after(&said, "\nmax ") >= 60, "{said}");
    assert!(after(&said, "above the limit: ") > 200_000, "{said}");
    assert!(after(&said, "\"bytes\":\t") > 200_000_000, "{said}");
    let complaints = said.split("nothing by us\n").nth(1).unwrap();
    assert!(complaints.starts_with("END"), "the kernel complains: {complaints}");
}

/// A day of the guest's time in one connection, of 20 kbit/s. It wraps each clock of 32 bits that counts microseconds twenty times,
/// and Linux lets its jiffies begin five minutes before their end.
const DAY: &str = r#"
exec 2>&1
export PATH=/bin
/init load bbr3 --as day
iperf3 -s -1 > /dev/null & sleep 0.3
iperf3 -c 127.0.0.1 -C day -t 86400 -b 20k -l 1k -i 0 --pacing-timer 400000 -J > /result &
sleep 5; hour=0
while [ $hour -lt 24 ]; do
    echo "hour $hour:"; /init watch --once --json
    hour=$((hour + 1)); sleep 3599
done
wait
grep -A 6 sum_sent /result | grep bytes\"; /init metrics | grep _total.*day
/init unload day; echo "exit $?"
dmesg | grep -E "WARNING:|BUG:|Oops|general protection"
echo "END"
"#;

#[test]
#[ignore = "some minutes of CPU time: `make test-long`"]
fn long_a_connection_lasts_a_day() {
    let Some(said) = in_guest(DAY, &["--tickless"]) else { return };
    assert!(said.contains("exit 0\nEND"), "{said}");
    // 20 kbit/s for a day are 216 MB, in blocks of 1 kB.
    let sent = after(&said, "\"bytes\":\t");
    assert!((215_990_000..=216_001_024).contains(&sent), "{sent}");
    assert_eq!(after(&said, "headway_sent_bytes_total{cc=\"day\"} "), sent);
    assert_eq!(after(&said, "headway_retransmitted_bytes_total{cc=\"day\"} "), 0);
}
