//! `headway enable` and its family against the running kernel, as root, in namespaces of their own: nothing of the machine
//! is touched. What is in force is asked of the kernel itself, through sysctl, `ip route` and sockets.

use std::process::{Command, Output};

const HEADWAY: &str = env!("CARGO_BIN_EXE_headway");

/// Folders, file systems and a network of its own, which end with the script.
const GROUND: &str = r#"
set -u
mount -t tmpfs none /run
mount -t tmpfs none /etc; mount -t tmpfs none /var/lib; mkdir /etc/headway
mount -t bpf bpf /sys/fs/bpf; ip link set lo up
default() { cat /proc/sys/net/ipv4/tcp_congestion_control; }
names() { cat /proc/sys/net/ipv4/tcp_available_congestion_control; }
"#;

/// Runs a script of the shell; `None`, said so, where this is not root.
fn script(text: &str) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this test needs root");
        return None;
    }
    let whole = format!("H={HEADWAY}\n{GROUND}\n{text}");
    let run: Output = Command::new("timeout")
        .args([
            "400",
            "unshare",
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "bash",
            "-c",
            &whole,
        ])
        .output()
        .expect("timeout and unshare are in every Debian");
    let text = [run.stdout, run.stderr].concat();
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Fails unless these stand in the text, in this order.
fn in_order(text: &str, wanted: &[&str]) {
    let mut rest = text;
    for word in wanted {
        let at = rest.find(word).unwrap_or_else(|| panic!("no `{word}` where it should be:\n{text}"));
        rest = &rest[at + word.len()..];
    }
}

#[test]
fn root_what_is_enabled_is_in_force_and_goes_without_a_trace() {
    let said = script(
        r#"
before=$(default)
ip link add d0 type veth peer name d1; ip link set d0 up; ip route add 10.9.0.0/16 dev d0 metric 50 mtu 1300 initcwnd 20
ip route show 10.9.0.0/16 > /run/route
$H enable bbr3 --as hwa --default 2>&1; echo "default=$(default)"
$H enable bbr3 --as hwa --route 10.9.0.0/16 2>&1; ip route show 10.9.0.0/16
$H tune hwa --set default_cwnd_gain=2.5 2>&1; echo "default=$(default)"
unshare --net sh -c 'echo reno > /proc/sys/net/ipv4/tcp_congestion_control; echo; sleep 60' > /run/other & other=$!
until [ -s /run/other ]; do sleep 0.1; done
$H status; echo "status=$?"; kill $other
echo reno > /proc/sys/net/ipv4/tcp_congestion_control
$H status; echo "status=$?"
$H apply 2>&1; echo "default=$(default)"
$H enable bbr1 --as hwb --default 2>&1; echo "refused=$?"; names
printf 'version = 2\n' > /etc/headway/enabled.d/newer.toml
$H apply --check 2>&1; echo "check=$?"
rm /etc/headway/enabled.d/newer.toml
$H disable --all 2>&1
[ "$before" = "$(default)" ] && echo "default is as before"
ip route show 10.9.0.0/16 | cmp - /run/route && echo "route is as before"
names | grep -q hwa || echo "name is gone"
ls /sys/fs/bpf | grep headway || echo "no pins"
ls /etc/headway/enabled.d | grep . || echo "no files"
"#,
    );
    let Some(said) = said else { return };
    in_order(
        &said,
        &["`hwa` is the default", "default=hwa", "`hwa` is for route", "mtu 1300", "congctl hwa"],
    );
    in_order(&said, &["`hwa` is tuned: bbr3 with default_cwnd_gain=2.5", "default=hwa", "is in force"]);
    in_order(&said, &["1 other network namespace with another default: reno in 1", "status=0"]);
    in_order(&said, &["default: NOT in force: the default is `reno`", "status=3", "default=hwa"]);
    in_order(&said, &["contradict each other", "refused=1", "format 2", "check=1"]);
    in_order(&said, &["default is as before", "route is as before", "name is gone", "no pins", "no files"]);
    assert!(!said.contains("hwb "), "what was refused is not loaded:\n{said}");
}

/// A kill at any moment leaves the old state or the new one, a default that exists, and nothing that `headway apply`
/// does not finish.
fn kills(rounds: u32) {
    let said = script(&format!(
        r#"
ip link add d0 type veth peer name d1; ip link set d0 up; ip route add 10.9.0.0/16 dev d0 mtu 1300
ip route show 10.9.0.0/16 > /run/route
check() {{ # what is enabled and what is in force must agree after an apply, and the default must always be there
    names | grep -qw "$(default)" || echo "DEFAULT IS GONE after $1"
    $H apply > /run/apply 2>&1 || {{ echo "APPLY FAILS after $1"; cat /run/apply; }}
    $H status > /run/status 2>&1 || {{ echo "NOT IN FORCE after $1"; cat /run/status; }}
    if [ -e /etc/headway/enabled.d/hwk{rounds}.toml ]; then
        [ "$(default)" = hwk{rounds} ] && ip route show 10.9.0.0/16 | grep -q hwk{rounds} && echo "new after ${{1%% *}}"
    else
        [ "$(default)" != hwk{rounds} ] && ip route show 10.9.0.0/16 | cmp -s - /run/route && echo "old after ${{1%% *}}"
    fi
}}
for i in $(seq {rounds}); do
    for what in "enable bbr3 --as hwk{rounds} --default --route 10.9.0.0/16" "tune hwk{rounds} --set default_cwnd_gain=2.$i" apply "disable hwk{rounds}"; do
        if [ "$what" = apply ] && [ -e /etc/headway/enabled.d/hwk{rounds}.toml ]; then # somebody has edited the file
            printf 'version = 1\ncontroller = "bbr3"\nparameters = {{ loss_thresh_permille = "%s%%" }}\n[[scope]]\ndefault = true\n[[scope]]\nroute = "10.9.0.0/16"\n' $i > /etc/headway/enabled.d/hwk{rounds}.toml
        fi
        $H $what > /dev/null 2>&1 & p=$!
        sleep 0.0$((RANDOM % 2 * (RANDOM % 9)))$((RANDOM % 10))
        # Every second time the process that makes the change is killed, too.
        second=$(cat /proc/$p/task/*/children 2> /dev/null)
        [ $((i % 2)) = 0 ] && second=
        kill -9 $p $second 2> /dev/null
        wait $p 2> /dev/null; sleep 0.25
        check "$what"
    done
done
$H disable --all > /dev/null 2>&1; names | grep -q hwk{rounds} || echo "all gone"
ls /sys/fs/bpf | grep headway; ip route show 10.9.0.0/16 | cmp - /run/route
"#
    ));
    let Some(said) = said else { return };
    let count = |word: &str| said.lines().filter(|l| *l == word).count();
    for what in ["enable", "tune", "apply", "disable"] {
        let (old, new) = (count(&format!("old after {what}")), count(&format!("new after {what}")));
        println!("{rounds} kills of {what}: {old} times the old state, {new} times the new one");
        assert_eq!(old + new, rounds as usize, "{said}");
    }
    assert!(said.ends_with("all gone\n"), "{said}");
    assert!(!said.chars().any(|c| c.is_ascii_uppercase()), "{said}");
}

#[test]
fn root_a_kill_leaves_no_half() {
    kills(6);
}

#[test]
#[ignore = "two minutes: `make test-long`"]
fn long_fifty_kills_of_each_leave_no_half() {
    kills(50);
}

/// A folder that cannot be written and a disk that is full: nothing is changed, and the sentence names the file.
#[test]
fn root_what_cannot_be_written_changes_nothing() {
    let Some(said) = script(
        r#"
exec 2>&1
$H enable bbr3 --as hwf --default; ls /etc/headway/enabled.d > /run/files; cp /etc/headway/enabled.d/hwf.toml /run/
same() {
    echo "exit $?"; [ "$(default)" = hwf ] || echo "DEFAULT $(default)"
    ls -A /etc/headway/enabled.d | cmp - /run/files; cmp /etc/headway/enabled.d/hwf.toml /run/hwf.toml; names | grep -q hwg && echo LOADED
    $H status > /run/status || cat /run/status
}
echo "read-only:"; mount -o remount,ro /etc
$H enable bbr1 --as hwg --port 5000; same
$H tune hwf --set default_cwnd_gain=2.5; same
$H disable hwf; same
echo "full:"; mount -o remount,rw,size=64k /etc; cat /dev/zero > /etc/fill
$H enable bbr1 --as hwg --port 5000; same
$H tune hwf --set default_cwnd_gain=2.5; same
echo "no room in /run:"; rm /etc/fill; mount -t tmpfs -o size=64k none /run/headway; cat /dev/zero > /run/headway/fill
$H enable bbr1 --as hwg --port 5000; same
umount /run/headway
echo "no room for --confirm:"; mount -o remount,size=64k /var/lib; cat /dev/zero > /var/lib/fill
$H enable bbr1 --as hwg --port 5000 --confirm 10m; same; rm /var/lib/fill; ls -A /var/lib/headway
echo "a full disk lets go:"; cat /dev/zero > /etc/fill
$H disable hwf; echo "exit $?"; names | grep hwf
echo "two at once:"; rm /etc/fill
for i in 1 2 3 4 5; do $H enable bbr3 --as hw$i --port 600$i & done; wait; ls /etc/headway/enabled.d; $H status > /dev/null; echo "status $?"
$H disable --all > /dev/null; ls /sys/fs/bpf | grep headway; ls -A /etc/headway/enabled.d /var/lib/headway
"#,
    ) else {
        return;
    };
    println!("{said}");
    let parts = [
        ("read-only:", "full:", 3),
        ("full:", "no room in /run:", 2),
        ("no room in /run:", "no room for --confirm:", 1),
        ("no room for --confirm:", "a full disk lets go:", 1),
    ];
    for (from, to, refusals) in parts {
        let part =
            said.split(&format!("\n{from}\n")).nth(1).unwrap().split(&format!("\n{to}\n")).next().unwrap();
        let count = |word: &str| part.lines().filter(|l| l.starts_with(word)).count();
        let counts = [count("error: cannot "), count("hint: the "), count("exit 1")];
        assert_eq!(counts, [refusals; 3], "{part}");
    }
    assert!(!said.contains("DEFAULT") && !said.contains("LOADED") && !said.contains("differ"), "{said}");
    in_order(
        &said,
        &[
            "a full disk lets go:\n",
            "exit 0\n",
            "two at once:\n",
            "hw1.toml\nhw2.toml\nhw3.toml\nhw4.toml\nhw5.toml\nstatus 0\n",
        ],
    );
}

/// `ss` is the other party for which sockets there are.
#[test]
#[expect(clippy::too_many_lines, reason = "one script, and what it must say")]
fn root_flows_are_watched_and_counted() {
    let Some(said) = script(
        r#"
exec 2>&1
$H enable bbr3_brake --as hww --port 4000
iperf3 -s -1 -p 4000 >/dev/null & sleep 0.5
iperf3 -c 127.0.0.1 -p 4000 -t 8 -b 10M -P 3 >/dev/null & sleep 1
echo "ss: $(ss -tinH | grep -c ' hww ')"
$H watch --once --json --cc hww > /run/json; echo "watch: $(wc -l < /run/json)"; head -1 /run/json
$H watch --once --cc hww
$H watch --once --cc hww --peer 192.0.2.0/24
$H metrics | grep -v '#'
timeout -s INT 1 $H watch --follow 127.0.0.1:4000 --every 300ms 2>&1 | tail -2
$H metrics --listen 127.0.0.1:9757 & sleep 2.5
ask() { exec 3<>/dev/tcp/127.0.0.1/9757; printf "$1\r\nHost: a\r\n\r\n" >&3; cat <&3; exec 3>&-; }
ask 'GET /metrics HTTP/1.1' | tr -d '\r'; ask 'GET / HTTP/1.1' | head -1; ask 'POST /metrics HTTP/1.1' | head -1
$H metrics --listen 127.0.0.1:9757; echo "taken=$?"; kill %3
timeout -s INT 2 $H metrics --textfile /run/headway.prom --every 1s; ls /run; grep -c '_bucket{cc="hww"' /run/headway.prom
wait
$H watch --once --cc hww; $H metrics | grep -v '#'
$H metrics --textfile /run/none/a.prom; $H metrics --textfile /run/a.txt
$H disable --all
"#,
    ) else {
        return;
    };
    println!("{said}");
    in_order(
        &said,
        &[
            "ss: 8\nwatch: 8\n",
            "\"cc\":\"hww\"",
            "hww: 8 flows, ",
            "No flows.\n",
            "headway_open_flows{cc=\"hww\"} 8\n",
            "headway_flows_total{cc=\"hww\"} 8\n",
            "headway_scope_in_force{cc=\"hww\",scope=\"port 4000\"} 1\n",
            "headway_scope_given_total{cc=\"hww\",scope=\"port 4000\"} 8\n",
            "headway_scope_refused_total{cc=\"hww\",scope=\"port 4000\"} 0\n",
            "% sent again",
            "http://127.0.0.1:9757/metrics\n",
            "HTTP/1.1 200 OK",
            "content-type: text/plain; version=0.0.4",
            "headway_state_seconds_total{cc=\"hww\",state=",
            "headway_rtt_seconds_bucket{cc=\"hww\",le=\"0.0005\"} ",
            "headway_bandwidth_bytes_per_second_count{cc=\"hww\"} ",
            "HTTP/1.1 404",
            "HTTP/1.1 405",
            "cannot listen on 127.0.0.1:9757",
            "taken=1",
            "headway.prom\n",
            "27\n",
            "No flows.\n",
            "headway_open_flows{cc=\"hww\"} 0\n",
            "headway_flows_total{cc=\"hww\"} 8\n",
            "there is no folder /run/none\nhint: ",
            "does not end with .prom",
        ],
    );
    let acked =
        said.rsplit("headway_acked_bytes_total{cc=\"hww\"} ").next().unwrap().split('\n').next().unwrap();
    // Three streams of 10 Mbit/s for 8 s.
    assert!((25_000_000..35_000_000).contains(&acked.parse::<u64>().unwrap()), "{acked}");
}
