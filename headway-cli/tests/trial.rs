//! `headway trial` beside real traffic: nginx, curl and the emulated paths of `scripts/example-service`, in namespaces and a
//! cgroup of their own. What the trial says of itself is held against its raw files, against what the clients have noted of
//! each download, and against what the kernel has when the trial is gone.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

const HEADWAY: &str = env!("CARGO_BIN_EXE_headway");

/// Folders, file systems, processes and a network of its own, which end with the script; and the service.
const GROUND: &str = r#"
set -u
exec 2>&1
export HEADWAY=$H
for folder in /run /var/lib /mnt; do mount -t tmpfs none $folder; done
mkdir -p /etc/headway && mount -t tmpfs none /etc/headway
mount -t bpf bpf /sys/fs/bpf; ip link set lo up
grep -q ' cgroup2 ' /proc/self/mounts || mount -t cgroup2 none /sys/fs/cgroup
cd /mnt; touch log
# A setting gives it a name in the kernel that nobody else uses.
OURS=bbr3:default_cwnd_gain=2.1
served() { # for so many seconds, with more flags
    $SERVICE --cgroup=$GROUP --log=/mnt/log --seconds="$@" > up & service=$!
    for i in $(seq 200); do grep -qs 'is up' up && break; sleep 0.1; done
    cat up
}
over() { kill $service; wait $service; echo "the service is over"; }
until_slot() { # the trial in $1 has so many slots behind it
    for i in $(seq 400); do [ "$(grep -vc '#' $1/slots.txt 2> /dev/null)" -ge $2 ] 2> /dev/null && break; sleep 0.1; done
}
downloads() { grep -c . log; }
trial() { $H trial --cgroup $GROUP --port 8480 "$@"; echo "exit $?"; }
begin() { $H trial --cgroup $GROUP --port 8480 "$@" & trial=$!; }
goes_on() { # the clients go on loading after $1, each with its answer
    local before=$(downloads)
    for i in $(seq 100); do [ $(downloads) -gt $((before + 3)) ] && break; sleep 0.1; done
    [ $(downloads) -gt $((before + 3)) ] || echo "BAD: nothing is loaded after $1"
    grep -v ' 200$' log | head -3 | sed 's/^/BAD: /'
}
nothing_left() { # after $1
    grep -q hwtrial /proc/sys/net/ipv4/tcp_available_congestion_control && echo "BAD: registered after $1"
    find /sys/fs/bpf -name '*headway*' | grep . && echo "BAD: pins after $1"
    pgrep -f "^$H trial" && echo "BAD: a process after $1"
}
"#;

/// One at a time: what one test leaves in the kernel must not be taken for another's.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a script of the shell on that ground; `None`, said so, where this is not root or there is no web server.
fn script(name: &str, seconds: u32, text: &str) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: this test needs root");
        return None;
    }
    if !["/usr/sbin/nginx", "/usr/bin/nginx", "/sbin/nginx"].iter().any(|file| Path::new(file).exists()) {
        println!(
            "skipped: this test needs nginx, whose package starts a web server on port 80: apt-get install nginx-light"
        );
        return None;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let service = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/example-service");
    let group = format!("headway-test-{name}-{}", std::process::id());
    let whole = format!("H={HEADWAY} SERVICE={} GROUP={group}\n{GROUND}\n{text}", service.display());
    let run = Command::new("timeout")
        .args([&seconds.to_string(), "unshare"])
        .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", &whole])
        .output()
        .expect("timeout and unshare are in every Debian");
    let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    println!("{said}");
    assert!(!said.contains("BAD"), "{said}");
    assert!(said.ends_with("END\n"), "{said}");
    Some(said)
}

/// Fails unless these stand in the text, in this order.
fn in_order(text: &str, wanted: &[&str]) {
    let mut rest = text;
    for word in wanted {
        let at = rest.find(word).unwrap_or_else(|| panic!("no `{word}` where it should be:\n{text}"));
        rest = &rest[at + word.len()..];
    }
}

/// What stands between two marks, each on a line of its own.
fn part<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split_once(&format!("\n{from}\n")).unwrap_or_else(|| panic!("no {from}: {text}")).1;
    rest.split_once(&format!("\n{to}\n")).unwrap_or_else(|| panic!("no {to}: {text}")).0
}

/// A table of a trial's folder: its rows, each the numbers of the columns that are asked for.
fn columns(text: &str, wanted: &[&str]) -> Vec<Vec<u64>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().trim_start_matches("# ").split(' ').collect();
    let place = |name: &&str| head.iter().position(|column| column == name).unwrap();
    let places: Vec<usize> = wanted.iter().map(place).collect();
    let row = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        places.iter().map(|at| words[*at].parse().unwrap()).collect()
    };
    lines.map(row).collect()
}

#[test]
fn root_a_trial_of_the_example_service_from_plan_to_report() {
    let text = r#"
served 300
$H trial plan --cc cubic --cgroup $GROUP --port 8480 --for 20s --slot 1s --out A --quiet; echo "exit $?"
trial --cc cubic,$OURS --for 44s --slot 2s --burn-in 500ms --seed 3 --show-prefixes --out T --quiet
nothing_left 'a whole trial'; over
sha256sum T/report.html T/results.json > sums
$H report T > again; echo "exit $?"; sha256sum -c sums
$H report T | cmp - again && echo 'said again the same'
$H trial status T > /dev/null; echo "exit $?"
grep -rl '10\.77\.' T; cut -d' ' -f2 T/networks.txt | sort; stat -c %a /var/lib/headway/trial.key
echo SLOTS; cat T/slots.txt; echo CONNECTIONS; cat T/connections.txt; echo LOG; awk '{n[$1]++} END {for (k in n) print k, n[k]}' log
echo END
"#;
    let Some(said) = script("whole", 400, text) else { return };
    in_order(
        &said,
        &[
            "is up",
            "cubic against itself, all connections of port 8480",
            "95 of 100 lived",
            "exit 0\n",
            "cubic against bbr3:",
            "exit 0\n",
            "T/report.html: OK\nT/results.json: OK\nsaid again the same\nexit 0\n",
            "T/networks.txt\n10.77.1.0/24\n10.77.2.0/24\n10.77.3.0/24\n10.77.4.0/24\n10.77.5.0/24\n10.77.6.0/24\n600\n",
        ],
    );
    let slots = columns(
        part(&said, "SLOTS", "CONNECTIONS"),
        &["slot", "enrolled_0", "enrolled_1", "lost", "refused", "no_storage"],
    );
    let rows = columns(
        part(&said, "CONNECTIONS", "LOG"),
        &["slot", "arm", "as_set", "inbound", "open", "began_ms", "ended_ms", "bytes_acked"],
    );
    assert!(slots.len() >= 20 && rows.len() > 100, "{} slots, {} connections", slots.len(), rows.len());
    // What was enrolled is closed or was open at the end, and each has its row. A connection that begins while one slot gives way
    // to the next may be counted with the next.
    for arm in [0, 1] {
        let has_row = |r: &&Vec<u64>| r[1] == arm;
        let enrolled: u64 = slots.iter().map(|slot| slot[1 + arm as usize]).sum();
        assert_eq!(rows.iter().filter(has_row).count() as u64, enrolled);
        for slot in &slots {
            let of_slot = rows.iter().filter(has_row).filter(|r| r[0] == slot[0]).count() as u64;
            assert!(of_slot.abs_diff(slot[1 + arm as usize]) <= 3, "slot {}: {of_slot}", slot[0]);
        }
    }
    assert!(slots.iter().all(|slot| slot[3..] == [0, 0, 0]), "{slots:?}");
    let kinds: BTreeSet<[bool; 2]> = slots.iter().map(|slot| [slot[1] > 3, slot[2] > 3]).collect();
    assert!(kinds.is_superset(&[[true, false], [false, true], [true, true]].into()), "{slots:?}");
    assert!(rows.iter().all(|r| r[2] == 1 && r[3] == 1), "each as set, and inbound");
    // A connection that began within the last round trips before the end is still open, and its first bytes may be on their way.
    let is_young = |r: &&Vec<u64>| r[4] == 1 && r[6] - r[5] < 1_000;
    let without: Vec<&Vec<u64>> = rows.iter().filter(|r| r[7] == 0 && !is_young(r)).collect();
    assert!(without.is_empty(), "connections without a byte acknowledged: {without:?}");
}

/// bbr3 that paces at half of what it knows to be there, and with half of the usual window.
const BAD: &str = "bbr3:startup_pacing_gain=1.01:cruise_pacing_gain=0.5:up_pacing_gain=1:default_cwnd_gain=1:up_cwnd_gain=1:pacing_margin_percent=50%";

#[test]
#[ignore = "two minutes: `make test-long`"]
fn long_harm_ends_a_trial() {
    let text = format!(
        r#"
served 300 --shared='100mbit 30ms up=30mbit upqueue=450kB'
trial --cc cubic,{BAD} --by connection --for 150s --slot 5s --burn-in 500ms --canary 0 --seed 3 --out T --quiet
goes_on harm; nothing_left harm; cat T/ended.json; over
$H trial --resume T; echo "exit $?"
echo END
"#
    );
    let Some(said) = script("harm", 400, &text) else { return };
    in_order(
        &said,
        &[
            "the trial ended before its time: ",
            "exit 3\n",
            "\"why\": \"stopped\"",
            "was stopped: ",
            "exit 1\n",
        ],
    );
}

/// The seed makes the moments; give it in HEADWAY_SEED to have them again.
fn kills(rounds: u32, seconds: u32) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = std::env::var("HEADWAY_SEED").unwrap_or((now.subsec_micros() % 30_000).to_string());
    println!("HEADWAY_SEED={seed}");
    let text = format!(
        r#"
served {seconds}
RANDOM={seed}; seen=0
slots() {{ grep -vc '#' T/slots.txt 2> /dev/null || true; }}
begin --cc cubic,$OURS --for 25s --slot 1s --burn-in 200ms --seed 3 --out T --quiet
for round in $(seq {rounds}); do
    # Every second time after one more slot, so that the trial gets on, and otherwise perhaps while it begins.
    [ $((round % 2)) = 0 ] && for i in $(seq 200); do [ $(slots) -gt $seen ] && break; sleep 0.1; done
    ms=$((RANDOM % 3000)); sleep $(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))
    kill -9 $trial; wait $trial
    goes_on "kill $round"; nothing_left "kill $round"
    [ -e T/trial.json ] || {{ begin --cc cubic,$OURS --for 25s --slot 1s --burn-in 200ms --seed 3 --out T --quiet; continue; }}
    [ -e T/ended.json ] && {{ echo "ended before kill $round"; rm T/ended.json; sed -i '$d' T/slots.txt; }}
    seen=$(slots); echo "killed after $ms ms with $seen slots"
    $H trial --resume T --quiet & trial=$!
done
wait $trial; echo "exit $?"
cat T/ended.json; nothing_left end; over
echo SLOTS; cat T/slots.txt; echo END
"#
    );
    let Some(said) = script("kills", seconds + 60, &text) else { return };
    assert!(!said.contains("other programs"), "a program of a killed trial was still there: {said}");
    in_order(&said, &["exit 0\n", "\"why\": \"done\"", "the service is over\n"]);
    let slots: Vec<u64> = columns(part(&said, "SLOTS", "END"), &["slot"]).concat();
    assert_eq!(slots, (0..slots.len() as u64).collect::<Vec<_>>(), "each slot once, in order");
}

#[test]
fn root_a_killed_trial_leaves_nothing_and_goes_on() {
    kills(3, 300);
}

#[test]
#[ignore = "ten minutes: `make test-long`"]
fn long_fifty_kills_of_a_trial_leave_nothing() {
    kills(50, 1500);
}

/// A full disk ends a trial in a sentence; what was recorded is kept, and it goes on when there is room.
#[test]
fn root_a_full_disk_ends_a_trial_and_not_the_traffic() {
    let text = r#"
served 300
mkdir disk; mount -t tmpfs -o size=24k none disk
trial --cc cubic,$OURS --for 25s --slot 1s --burn-in 200ms --seed 3 --out disk/T --quiet
goes_on 'a full disk'; nothing_left 'a full disk'
tail -c 1 disk/T/connections.txt | od -An -tx1; rows=$(grep -vc '#' disk/T/connections.txt); echo "rows $rows"
mount -o remount,size=8m disk
$H trial --resume disk/T --quiet; echo "exit $?"; cat disk/T/ended.json; nothing_left end; over
[ $(grep -vc '#' disk/T/connections.txt) -gt $rows ] && echo more
echo END
"#;
    let Some(said) = script("disk", 400, text) else { return };
    in_order(
        &said,
        &[
            "error: ",
            "No space left on device",
            "hint: ",
            "exit 1\n",
            " 0a\nrows ",
            "exit 0\n",
            "\"done\"",
            "more\n",
        ],
    );
}

#[test]
fn root_who_else_decides_ends_a_trial() {
    let text = r#"
served 300
begin --cc cubic,$OURS --for 80s --slot 2s --seed 3 --out T
until_slot T 1; $H enable bbr1 --as hwother --cgroup $GROUP; s=$(date +%s%N)
wait $trial; echo "exit $?"; echo "after $((($(date +%s%N) - s) / 1000000)) ms"
cat T/ended.json; $H disable --all; goes_on 'a stranger'; nothing_left 'a stranger'
begin --cc cubic,$OURS --for 80s --slot 2s --seed 3 --out U --quiet
until_slot U 1; kill -TERM $trial; wait $trial; echo "interrupted with $?"
cat U/ended.json; ls U/report.html; nothing_left 'an interrupt'
$H trial --resume U --quiet & trial=$!
until_slot U 3; over; wait $trial; echo "exit $?"; cat U/ended.json
echo END
"#;
    let Some(said) = script("others", 400, text) else { return };
    in_order(
        &said,
        &[
            "exit 3\n",
            "\"why\": \"stopped\"",
            "another program",
            "interrupted with 143",
            "\"why\": \"interrupted\"",
            "U/report.html",
            "exit 3\n",
            "cgroup is gone",
        ],
    );
    let ms = part(&said, "exit 3", "{").trim_start_matches("after ").trim_end_matches(" ms").to_string();
    // One poll, and what the report takes on a busy machine.
    assert!(ms.parse::<u64>().unwrap() < 8000, "{ms}");
}

/// Each kind of wrong input has its sentence and what to do, and nothing is made.
#[test]
fn what_cannot_be_tried_is_said_before_anything_is_touched() {
    let folder = std::env::temp_dir().join(format!("headway-trial-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let trial = "trial --cc cubic,bbr3 --for 24h";
    for (words, code, says) in [
        ("trial", 2, "--cc"),
        ("trial --cc cubic --for 1h", 2, "--cc names 1"),
        ("trial --cc cubic,bbr3,bbr1 --for 1h", 2, "--cc names 3"),
        ("trial --cc cubic,bbr9 --for 1h", 2, "`bbr9`"),
        ("trial --cc cubic,bbr3:nosuch=1 --for 1h", 2, "nosuch"),
        ("trial --cc cubic,bbr3@6.12 --for 1h", 2, "more than a controller"),
        ("trial --cc cubic,bbr3", 2, "--for"),
        ("trial --cc cubic,bbr3 --for 1d", 2, "expected a time"),
        ("trial --cc cubic,bbr3 --for 1h --slot 10m", 2, "a verdict takes at least"),
        ("trial --cc cubic,bbr3 --for 1h --slot 10s --burn-in 10s", 2, "leaves nothing"),
        ("trial --cc cubic,bbr3 --for 1h --canary 60%", 2, "at most half"),
        ("trial --cc cubic,bbr3 --for 1h --max-harm 200", 2, "between 0 and 100 %"),
        ("trial --cc cubic,bbr3 --for 1h --by flow", 2, "--by"),
        ("trial --resume T --for 1h", 2, "cannot be used with"),
        ("trial --cc cubic,bbr3 --for 1h --in lab", 2, "--in"),
        ("trial --resume", 2, "--resume"),
        ("trial --resume nosuch", 1, "holds no trial"),
        ("trial status nosuch", 1, "holds no trial"),
        ("trial status", 1, "headway-trial-1"),
        ("trial plan", 2, "--cc"),
        ("trial plan --cc bbr9", 2, "`bbr9`"),
        (&format!("{trial} --port 0"), 2, "is no port"),
        (&format!("{trial} --prefix 10.0.0.1/8"), 2, "is no network"),
        (&format!("{trial} --prefix default"), 2, "is no network"),
        (&format!("{trial} --cgroup /"), 2, "leave --cgroup out"),
        (&format!("{trial} --cgroup a/../b"), 2, "is no path of a cgroup"),
        (&format!("{trial} --cgroup a --unit b"), 2, "cannot be used with"),
        (&format!("{trial} --unit 'a b'"), 2, "cannot name a systemd unit"),
        (&format!("{trial} --plan nosuch"), 1, "holds no trial"),
        (&format!("{trial} --in sim --path nosuch"), 2, "nosuch"),
        (&format!("{trial} --cgroup headway-no-such-group"), 1, ""),
    ] {
        let arguments = words.split(' ').filter(|w| !w.starts_with('\''));
        let arguments: Vec<&str> = match words.contains('\'') {
            true => arguments.filter(|w| !w.ends_with('\'')).chain(["a b"]).collect(),
            false => arguments.collect(),
        };
        let run = Command::new(HEADWAY).args(&arguments).current_dir(&folder).output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(code), "{words}: {said}");
        assert!(said.starts_with("error: ") && said.contains(says), "{words}: {said}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{words} has made something");
    }
    fs::remove_dir_all(&folder).unwrap();
}
