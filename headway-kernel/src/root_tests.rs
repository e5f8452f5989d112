//! Root tests: our controllers in the running kernel, under real sockets on loopback and real traffic through network
//! namespaces of their own. Without root they skip. Tests that need the program's emulated paths stand with the
//! program, in `headway-cli/src/commands/check_switching/root_tests.rs`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use headway_cc::cc::bbr1::Mode;
use headway_cc::cc::params::ParamTable;
use headway_cc::cc::{Ack, Control, Event};
use rustix::net::sockopt;

use crate::btf::Api;
use crate::need::has_rights;
use crate::programs::object;
use crate::trace::Columns;
use crate::*;

mod load;
mod losses;

/// A name of this process's own, so that tests neither meet each other nor somebody's controller.
fn own_name(tag: char) -> String {
    format!("hw{tag}{}", std::process::id())
}

fn attach_as(tag: char, trace: bool) -> Option<Attached> {
    attach_program(&PROGRAMS[0], tag, trace)
}

fn attach_program(program: &'static Program, tag: char, trace: bool) -> Option<Attached> {
    if !has_rights() {
        println!("skipped: needs root");
        return None;
    }
    let name = own_name(tag);
    Some(register(&Wanted::new(program, &name, trace)).unwrap_or_else(|e| panic!("{e:#}")))
}

#[test]
fn root_attach_registers_and_drop_takes_it_away() {
    let Some(attached) = attach_as('a', false) else { return };
    let name = attached.name().to_string();
    assert!(is_registered(&name));
    drop(attached);
    assert!(!is_registered(&name));
}

/// The verifier gives up after a million instructions. Our limit is far below, because kernels differ by a factor of
/// two, and because attaching takes emulated time in the lab.
#[test]
fn root_the_verifier_has_little_to_walk() {
    let Some(_attached) = attach_as('h', false) else { return };
    let _others: Vec<_> =
        PROGRAMS[1..].iter().zip('1'..).map(|(p, tag)| attach_program(p, tag, false)).collect();
    let ours =
        libbpf_rs::query::ProgInfoIter::default().filter(|p| p.name.to_string_lossy().starts_with("cc_"));
    let walked: Vec<_> = ours.map(|p| (p.name, p.verified_insns)).collect();
    println!("verified instructions: {walked:?}");
    assert!(!walked.is_empty() && walked.iter().all(|(_, n)| *n < 100_000), "{walked:?}");
}

#[test]
fn root_a_name_is_attached_once_and_another_stands_beside() {
    let Some(first) = attach_as('b', false) else { return };
    let error =
        attach("bbr1", &Options { name: Some(first.name().into()), ..Options::default() }).unwrap_err();
    assert!(format!("{error:#}").contains("already"), "{error:#}");
    let beside = attach_as('c', false).unwrap();
    assert!(is_registered(first.name()) && is_registered(beside.name()));
}

#[test]
fn root_a_live_socket_switches_and_survives_detach() {
    let Some(mut attached) = attach_as('d', true) else { return };
    let sink = Shared::default();
    let trace = attached.trace(sink.clone()).unwrap();
    let (mut near, mut far) = pair();
    exchange(&mut near, &mut far);
    choose(&near, attached.name()).unwrap();
    exchange(&mut near, &mut far);
    choose(&near, "reno").unwrap();
    exchange(&mut near, &mut far);
    choose(&near, attached.name()).unwrap();
    exchange(&mut near, &mut far);
    let traced = trace.finish().unwrap();
    let counters = attached.counters().unwrap();
    assert_eq!((counters.flows, counters.without_storage), (2, 0), "each switch is a new flow");
    assert!(counters.traced >= traced.events, "{counters:?}");
    assert_eq!(traced.lost, 0);
    let report = replay(&sink.text()).unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!((report.events, report.flows), (traced.events, 2));
    let name = attached.name().to_string();
    drop(attached);
    assert!(!is_registered(&name));
    exchange(&mut near, &mut far);
    assert_eq!(chosen(&near), name, "the socket keeps what it had");
}

/// All flows of ours.
fn flows(watcher: &mut Watcher) -> Vec<Flow> {
    let mut flows = Vec::new();
    watcher.flows(|flow| flows.push(flow)).unwrap_or_else(|e| panic!("{e:#}"));
    flows
}

/// `ss` is the other party: it asks the kernel by other means. The sockets are at rest, so both see the same.
#[test]
#[expect(clippy::too_many_lines, reason = "one story of one socket, whose steps depend on each other")]
fn root_a_flow_is_seen_as_ss_sees_it() {
    let Some(attached) = attach_program(&PROGRAMS[3], 'W', false) else { return };
    let (mut near, mut far) = pair();
    exchange(&mut near, &mut far);
    choose(&near, attached.name()).unwrap();
    let mut watcher = Watcher::new().unwrap_or_else(|e| panic!("{e:#}"));
    let ours = |watcher: &mut Watcher| {
        let mut flows = flows(watcher);
        flows.retain(|f| *f.socket.name == *attached.name());
        flows
    };
    assert!(ours(&mut watcher)[0].bytes.acked <= 1, "what was sent before is not ours");
    exchange(&mut near, &mut far);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let flows = ours(&mut watcher);
    let [flow] = flows.as_slice() else { panic!("{flows:?}") };
    assert_eq!(flow.socket.local, near.local_addr().unwrap());
    assert_eq!((flow.socket.peer, flow.socket.state), (near.peer_addr().unwrap(), "ESTAB"));
    let port = near.local_addr().unwrap().port();
    let said = Command::new("ss").args(["-tineH", "src", &format!("127.0.0.1:{port}")]).output().unwrap();
    let said = text_of(&said);
    let of_ss = |key: &str| {
        let word = said.split_whitespace().find_map(|w| w.strip_prefix(key));
        word.unwrap_or_else(|| panic!("{key}: {said}")).split(['/', ',']).next().unwrap().to_string()
    };
    let Bytes { acked, sent, .. } = flow.socket.bytes;
    assert_eq!((acked.to_string(), sent.to_string()), (of_ss("bytes_acked:"), of_ss("bytes_sent:")));
    assert_eq!(flow.socket.cwnd.to_string(), of_ss("cwnd:"));
    assert_eq!(flow.socket.mss.to_string(), of_ss("mss:"));
    assert_eq!(flow.socket.delivered.to_string(), of_ss("delivered:"));
    assert_eq!(format!("{:x}", flow.socket.cookie), of_ss("sk:"));
    assert!(said.contains(attached.name()), "{said}");
    // `ss` cuts after three digits.
    let min_rtt = flow.socket.min_rtt.unwrap().as_secs_f64() * 1e3;
    assert!((min_rtt - of_ss("minrtt:").parse::<f64>().unwrap()).abs() < 1e-3, "{min_rtt}: {said}");
    let model = flow.model.as_ref().unwrap();
    assert!(model.bandwidth > 1_000_000 && model.min_rtt.is_some() && model.brake_entries < 10, "{flow:?}");
    assert!((4 << 20..5 << 20).contains(&flow.bytes.acked), "{flow:?}");
    let mut sockets = Vec::new();
    watcher.sockets(|socket| sockets.push(socket)).unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(sockets.iter().find(|s| s.key == flow.socket.key), Some(&flow.socket));
    assert!(
        sockets.iter().any(|s| s.local == far.local_addr().unwrap() && s.peer == near.local_addr().unwrap())
    );
    // A socket that leaves is no flow any more, and what it did is counted; one that comes back is, and begins anew.
    let acked = flow.bytes.acked;
    choose(&near, "reno").unwrap();
    assert_eq!(ours(&mut watcher), []);
    let past = attached.counters().unwrap().past;
    assert_eq!((past.flows, past.bytes.acked), (1, acked));
    choose(&near, attached.name()).unwrap();
    assert_eq!(ours(&mut watcher)[0].bytes.acked, 0);
    drop((near, far));
}

#[test]
fn root_flows_of_other_namespaces_and_without_storage_are_seen() {
    for (tag, program, spare) in [('X', &PROGRAMS[1], false), ('Y', &PROGRAMS[0], true)] {
        let Some(attached) = attach_program(program, tag, false) else { return };
        let storage = if spare { "256" } else { "131072" };
        let script = format!(
            "snd sh -c 'test ! -e /proc/sys/net/core/optmem_max || echo {storage} > /proc/sys/net/core/optmem_max'
             serve; snd iperf3 -c 10.9.2.1 -C $CC -t 3 -P 3"
        );
        let name = attached.name().to_string();
        let lab = std::thread::spawn(move || in_lab(&name, &script));
        let mut watcher = Watcher::new().unwrap_or_else(|e| panic!("{e:#}"));
        let mut seen = Vec::new();
        while !lab.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(100));
            let mut flows = flows(&mut watcher);
            // Young flows believe in what the router's buffer took at once.
            let is_old = |f: &Flow| f.age.is_some_and(|age| age.as_millis() > 1500);
            flows.retain(|f| *f.socket.name == *attached.name() && f.bytes.acked > 100_000 && is_old(f));
            if flows.len() >= seen.len() {
                seen = flows;
            }
        }
        let output = lab.join().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
        assert_eq!(seen.len(), 3, "{seen:?}");
        let own =
            std::fs::metadata("/proc/self/ns/net").map(|m| std::os::unix::fs::MetadataExt::ino(&m)).unwrap();
        for flow in &seen {
            assert_eq!(flow.socket.peer.to_string(), "10.9.2.1:5201");
            assert_eq!(flow.socket.local.ip().to_string(), "10.9.1.1");
            assert!(flow.socket.netns != own && flow.socket.netns == seen[0].socket.netns, "{flow:?}");
            let model = flow.model.as_ref().unwrap();
            assert!((100_000..10_000_000).contains(&model.bandwidth), "{flow:?}");
        }
        let counters = attached.counters().unwrap();
        println!("{counters:?}");
        if spare {
            assert!(counters.spare > 0, "{counters:?}");
        }
        assert_eq!(counters.past.flows, counters.flows, "all have ended: {counters:?}");
        assert!(counters.past.bytes.acked >= 300_000, "{counters:?}");
    }
}

#[test]
fn root_an_ordinary_user_may_choose_it() {
    let Some(attached) = attach_as('e', false) else { return };
    let output = in_lab(attached.name(), UNPRIVILEGED);
    assert!(output.status.success(), "{}", text_of(&output));
    assert!(attached.counters().unwrap().flows > 0);
}

#[test]
fn root_many_sockets_at_once_replay_equal() {
    let Some(run) = traced_run('f', MANY) else { return };
    assert!(run.report.flows >= 16, "{:?}", run.report);
}

#[test]
fn root_every_event_of_real_traffic_replays_equal() {
    let Some(run) = traced_run('g', TROUBLE) else { return };
    assert!(run.report.events > 1000, "{:?}", run.report);
    for event in [Event::Init, Event::Ack, Event::TxStart, Event::Ssthresh, Event::Loss, Event::Undo] {
        assert!(run.report.kinds[event as usize] > 0, "no event {event:?}: {:?}", run.report);
    }
    assert_eq!(run.counters.without_storage, 0);
}

/// A script that runs two of the ignored tests against each other, over the path of [`LAB`]. Through descriptor
/// 9 the sender switches the router's forwarding off, so that it drops what it is given, and on again.
fn between(receiver: &str, sender: &str) -> String {
    let exe = std::env::current_exe().unwrap();
    let child = |name| format!("{} --exact {name} --ignored --nocapture", exe.display());
    format!(
        "exec 9<> /proc/sys/net/ipv4/ip_forward
         ip netns exec rcv {} & until ip netns exec rcv ss -ltn | grep -q :5202; do :; done
         snd {}",
        child(receiver),
        child(sender)
    )
}

#[test]
#[ignore = "run by another test"]
fn swallows() {
    let (mut far, _) = TcpListener::bind("0.0.0.0:5202").unwrap().accept().unwrap();
    std::io::copy(&mut far, &mut std::io::sink()).unwrap();
}

/// Where the kernel lets nobody but itself set `app_limited`, our own marks must have the same effect: samples of
/// packets sent in ProbeRTT count as application-limited. On a busy machine a whole run may bring no ACK of such a
/// packet; then another run follows.
#[test]
fn root_probe_rtt_makes_samples_application_limited() {
    for tag in ['i', 'y', 'z'] {
        let Some(run) = traced_run(tag, PROBE_RTT) else { return };
        let columns: Vec<_> = run.text.lines().next().unwrap_or_default().split(' ').skip(1).collect();
        let at = ["bbr1.mode", "delivered", "rs_prior_delivered", "rs_is_app_limited", "newly_acked"]
            .map(|name| columns.iter().position(|c| *c == name).unwrap());
        let (mut since, mut judged) = (std::collections::HashMap::new(), 0);
        for row in run.text.lines().skip(1) {
            let words: Vec<&str> = row.split(' ').collect();
            let [mode, delivered, prior, limited, acked] = at.map(|i| words[i].parse::<u64>().unwrap());
            if mode != u64::from(Mode::ProbeRtt) {
                since.remove(words[0]);
            } else if *since.entry(words[0]).or_insert(delivered) < prior && acked > 0 {
                assert_eq!(limited, 1, "{row}");
                judged += 1;
            }
        }
        if judged > 0 {
            return println!("{judged} samples of packets sent in ProbeRTT");
        }
    }
    panic!("no ACK of a packet sent in ProbeRTT in three runs");
}

/// A receiver that closes its window leaves the sender with nothing in flight and with data to send. The kernel calls what
/// follows a first transmission, as after a pause; but the application did not pause, so the model must not be told of an
/// idle restart (draft-ietf-ccwg-bbr, §5.4.1).
#[test]
fn root_a_closed_window_is_no_idle_application() {
    let Some(mut attached) = attach_as('j', true) else { return };
    let sink = Shared::default();
    let trace = attached.trace(sink.clone()).unwrap();
    let (mut near, mut far) = pair();
    choose(&near, attached.name()).unwrap();
    let bytes = 16 << 20;
    std::thread::scope(|scope| {
        scope.spawn(|| near.write_all(&vec![0; bytes]).unwrap());
        let mut left = bytes;
        while left > 0 {
            // By then the window is closed, and what was sent is acknowledged, be it by the receiver's timer of 40 ms.
            std::thread::sleep(std::time::Duration::from_millis(150));
            let mut part = vec![0; left.min(2 << 20)];
            far.read_exact(&mut part).unwrap();
            left -= part.len();
        }
    });
    // Only now the application pauses, and begins again.
    std::thread::sleep(std::time::Duration::from_millis(300));
    near.write_all(&[0; 1000]).unwrap();
    far.read_exact(&mut [0; 1000]).unwrap();
    assert_eq!(trace.finish().unwrap().lost, 0);
    let text = sink.text();
    let columns: Vec<&str> = text.lines().next().unwrap().split(' ').collect();
    let at = |name: &str| columns.iter().position(|c| *c == name).unwrap() - 1;
    let (event, limited, inflight) = (at("event"), at("is_app_limited"), at("inflight"));
    let word = |row: &str, at: usize| row.split(' ').nth(at).unwrap().parse::<u64>().unwrap();
    let rows = || text.lines().filter(|l| !l.starts_with('#'));
    let restarts: Vec<&str> = rows().filter(|r| word(r, event) == Event::TxStart as u64).collect();
    let empty = rows().filter(|r| word(r, event) == Event::Ack as u64 && word(r, inflight) == 0).count();
    assert!(empty >= 3, "the window was never closed: {empty} ACKs left nothing in flight");
    assert!(restarts.iter().all(|row| word(row, limited) == 1), "{restarts:#?}");
    assert!((1..=2).contains(&restarts.len()), "the pauses of the application: {}", restarts.len());
}

/// Without socket storage a flow keeps its state in the spare table and decides as ever; where that is full too, it
/// still sends. The test lets the memory for socket options run out, which newer kernels limit for each network
/// namespace.
#[test]
fn root_sockets_without_storage_still_send() {
    if !has_rights() {
        return println!("skipped: needs root");
    }
    let name = own_name('j');
    let wanted = Wanted { spare_flows: 2, ..Wanted::new(&PROGRAMS[0], &name, true) };
    let mut attached = register(&wanted).unwrap_or_else(|e| panic!("{e:#}"));
    let sink = Shared::default();
    let trace = attached.trace(sink.clone()).unwrap();
    let output = in_lab(&name, NO_STORAGE);
    if output.status.code() == Some(77) {
        return println!("skipped: this kernel has one optmem_max for all");
    }
    assert!(output.status.success(), "{}", text_of(&output));
    let traced = trace.finish().unwrap();
    let report = replay(&sink.text()).unwrap_or_else(|e| panic!("{e:#}"));
    let counters = attached.counters().unwrap();
    println!("{traced:?} {report:?} {counters:?}");
    assert_eq!((traced.lost, report.events), (0, traced.events));
    assert!(counters.spare >= 2 && counters.without_storage > 0, "{counters:?}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for stream in json["end"]["streams"].as_array().unwrap() {
        let bytes = stream["receiver"]["bytes"].as_u64().unwrap();
        assert!(bytes > 200_000, "only {bytes} bytes in 2 s over a share of 50 Mbit/s");
    }
}

#[test]
fn root_a_killed_process_leaves_nothing_registered() {
    if !has_rights() || !Api::of_kernel().unwrap().has_links {
        return println!("skipped: needs root and Linux 6.4");
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "root_tests::holds_an_attachment", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let name =
        lines.map_while(Result::ok).find_map(|l| Some(l.split_once("holding ")?.1.to_string())).unwrap();
    assert!(is_registered(&name));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!is_registered(&name));
}

/// The process that the test above kills: it holds a controller until its standard input ends.
#[test]
#[ignore = "run by another test"]
fn holds_an_attachment() {
    let attached = attach_as('k', false).unwrap();
    println!("holding {}", attached.name());
    let _ = std::io::stdin().read(&mut [0]);
}

/// The kernel's own `bbr` decides, and our controller is given the same events: every window and every rate must be
/// equal.
#[test]
fn root_the_kernels_own_bbr_decides_the_same() {
    if !has_rights() || !has_watchable_bbr() {
        return println!("skipped: needs root and Linux 6.10 to 7.0 with `bbr`");
    }
    let name = own_name('o');
    let wanted = Wanted { spare_flows: 1, ..Wanted::new(&ORACLE, &name, true) };
    let attached = register(&wanted).unwrap_or_else(|e| panic!("{e:#}"));
    let sink = Shared::default();
    let ring = map_of(&attached.object, RING).unwrap();
    let columns =
        Columns { names: vec!["-".into(); Ack::FIELDS.len() + Control::FIELDS.len() + 2], set: Vec::new() };
    let trace =
        Trace::start(ring, map_of(&attached.object, COUNTERS).unwrap(), columns, Box::new(sink.clone()))
            .unwrap();
    let output = in_lab(&name, &format!("{TROUBLE}\n{PROBE_RTT}"));
    assert!(output.status.success(), "{}", text_of(&output));
    assert_eq!(trace.finish().unwrap().lost, 0);
    let equal = same_decisions(&sink.text());
    println!("{equal} decisions of the kernel's bbr are ours");
    assert!(equal > 1000);
}

static ORACLE: Program = Program {
    name: "oracle",
    object: object!("oracle"),
    params: &ParamTable { rows: &[], about: &[], defaults: || vec![0] },
};

fn has_watchable_bbr() -> bool {
    let api = Api::of_kernel().unwrap();
    let is_one_callback = !api.members.iter().any(|m| m == "cwnd_event_tx_start");
    api.cong_control_has_ack && is_one_callback && is_registered("bbr")
}

/// Counts the events; panics at the first on which our controller decides otherwise than the kernel's.
fn same_decisions(text: &str) -> usize {
    let rows: Vec<(&str, Vec<u64>)> = text.lines().skip(1).map(|l| split_row(l).unwrap()).collect();
    let tick_us = tick_us(&rows);
    let mut flows = std::collections::HashMap::new();
    for (number, (flow, words)) in rows.iter().enumerate() {
        let (ack, rest) = words.split_at(Ack::FIELDS.len());
        let kernel = Control::from_words(&rest[..Control::FIELDS.len()]).unwrap();
        let &[jiffies, cycle_idx] = &rest[Control::FIELDS.len()..] else { panic!("{rest:?}") };
        // The kernel's timers count jiffies, and its draw shows in the phase that it entered.
        let rand = (((8 - cycle_idx) & 7) << 32) / 7 + 1;
        let ack = Ack { now_us: jiffies * tick_us, rand, ..Ack::from_words(ack).unwrap() };
        let ours =
            flows.entry(*flow).or_insert_with(|| headway_cc::cc::controller("bbr1").unwrap()).on_event(&ack);
        let decision = |c: &Control| (c.cwnd, c.pacing_rate);
        assert_eq!(decision(&ours), decision(&kernel), "event {number}, ours first: {ack:?}");
    }
    rows.len()
}

fn split_row(line: &str) -> Option<(&str, Vec<u64>)> {
    let (flow, words) = line.split_once(' ')?;
    Some((flow, words.split(' ').map(|w| w.parse().ok()).collect::<Option<_>>()?))
}

/// The length of a jiffy in microseconds. The kernel does not tell it, so it is the one of those in use that fits the
/// trace best.
fn tick_us(rows: &[(&str, Vec<u64>)]) -> u64 {
    let at = |row: &(&str, Vec<u64>)| (row.1[1], row.1[Ack::FIELDS.len() + Control::FIELDS.len()]);
    let (first, last) = (at(&rows[0]), at(&rows[rows.len() - 1]));
    let measured = (last.0 - first.0) / (last.1 - first.1);
    [1000, 4000, 10_000].into_iter().min_by_key(|t| measured.abs_diff(*t)).unwrap()
}

#[test]
fn root_without_capabilities_the_error_says_so() {
    if !has_rights() {
        return println!("skipped: needs root");
    }
    let output = Command::new("setpriv")
        .args(["--bounding-set=-all", "--inh-caps=-all", std::env::current_exe().unwrap().to_str().unwrap()])
        .args(["--exact", "root_tests::lacks_rights", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    assert!(output.status.success() && text_of(&output).contains("1 passed"), "{}", text_of(&output));
}

/// The child of the test above.
#[test]
#[ignore = "run by another test"]
fn lacks_rights() {
    let error = format!("{:#}", attach("bbr1", &Options::default()).unwrap_err());
    println!("{error}");
    assert!(error.starts_with("cannot attach `bbr1`: ") && error.contains("\nhint: run as root"), "{error}");
    assert!(!needs()[0].ok);
}

const HOPS: usize = 20;

/// One socket switches in the middle of its data, from `cubic` to `bbr3`, to `bbr1`, back to `bbr3`, and round again.
#[test]
fn root_a_socket_hops_between_controllers() {
    if !has_rights() {
        return println!("skipped: needs root");
    }
    let [bbr1, bbr3] =
        [('w', "bbr1"), ('x', "bbr3")].map(|(tag, name)| Traced::start(Program::named(name).unwrap(), tag));
    let names = format!("{} {}", bbr1.attached.name(), bbr3.attached.name());
    let output = in_lab(&names, &between("root_tests::swallows", "root_tests::hops"));
    assert!(output.status.success(), "{}", text_of(&output));
    let [by_bbr1, by_bbr3] = [bbr1, bbr3].map(|traced| traced.finish().report);
    assert_eq!((by_bbr1.flows, by_bbr3.flows), (HOPS as u64, 2 * HOPS as u64));
    assert!(by_bbr1.events > 500 && by_bbr3.events > 1000);
}

/// The sender of the test above.
#[test]
#[ignore = "run by another test"]
fn hops() {
    let names = std::env::var("CC").unwrap();
    let (bbr1, bbr3) = names.split_once(' ').unwrap();
    let mut near = TcpStream::connect("10.9.2.1:5202").unwrap();
    for _ in 0..HOPS {
        for name in ["cubic", bbr3, bbr1, bbr3] {
            choose(&near, name).unwrap();
            near.write_all(&vec![0; 1 << 18]).unwrap();
        }
    }
}

const CROWD: usize = 2000;
/// What each of them sends: less than the buffers of sender and receiver hold, so that all have data under way at
/// once.
const CROWD_BYTES: usize = 64 << 10;

/// Thousands of connections at once: each gets its state, each finishes, and what a flow costs is printed.
#[test]
fn root_two_thousand_flows_finish() {
    let Some(attached) = attach_program(Program::named("bbr3").unwrap(), '0', false) else { return };
    let child = format!("{} --exact root_tests::crowd --ignored", std::env::current_exe().unwrap().display());
    let script = format!("ip -n snd link set lo up; ulimit -n {}; snd {child}", 2 * CROWD + 100);
    let output = in_lab(attached.name(), &script);
    assert!(output.status.success() && text_of(&output).contains("1 passed"), "{}", text_of(&output));
    let counters = attached.counters().unwrap();
    println!(
        "{counters:?}, {} bytes of state a flow",
        map_of(&attached.object, "flows").unwrap().value_size()
    );
    assert_eq!((counters.flows, counters.without_storage), (CROWD as u64, 0));
}

/// The crowd of the test above, over loopback.
#[test]
#[ignore = "run by another test"]
fn crowd() {
    let name = std::env::var("CC").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let pairs = (0..CROWD).map(|_| {
        let near = TcpStream::connect(to).unwrap();
        choose(&near, &name).unwrap();
        (near, listener.accept().unwrap().0)
    });
    let (mut near, mut far): (Vec<_>, Vec<_>) = pairs.unzip();
    std::thread::scope(|scope| {
        scope.spawn(|| near.iter_mut().for_each(|s| s.write_all(&[7; CROWD_BYTES]).unwrap()));
        let mut buffer = vec![0; CROWD_BYTES];
        far.iter_mut().for_each(|s| s.read_exact(&mut buffer).unwrap());
    });
}

/// A traced run of a script, of which every event replays equal and none is missing.
struct Run {
    text: String,
    report: ReplayReport,
    counters: Counters,
}

fn traced_run(tag: char, script: &str) -> Option<Run> {
    traced_program(&PROGRAMS[0], tag, script)
}

fn traced_program(program: &'static Program, tag: char, script: &str) -> Option<Run> {
    if !has_rights() {
        println!("skipped: needs root");
        return None;
    }
    let traced = Traced::start(program, tag);
    let output = in_lab(traced.attached.name(), script);
    assert!(output.status.success(), "{}", text_of(&output));
    Some(traced.finish())
}

/// A controller in the kernel with its trace.
struct Traced {
    attached: Attached,
    trace: Trace,
    sink: Shared,
}

impl Traced {
    fn start(program: &'static Program, tag: char) -> Self {
        let mut attached = attach_program(program, tag, true).unwrap();
        let sink = Shared::default();
        let trace = attached.trace(sink.clone()).unwrap();
        Self { attached, trace, sink }
    }

    /// Demands that every event replays equal.
    fn finish(self) -> Run {
        let traced = self.trace.finish().unwrap();
        let text = self.sink.text();
        let report = replay(&text).unwrap_or_else(|e| panic!("{e:#}"));
        println!("{traced:?} {report:?}");
        let counters = self.attached.counters().unwrap();
        assert_eq!((traced.lost, report.events), (0, traced.events));
        assert!(counters.traced >= traced.events, "{counters:?}");
        assert_eq!(counters.without_storage, 0);
        Run { text, report, counters }
    }
}

/// What a trace is written to and read back from.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

/// Moves enough data for many ACKs; the reader's answer shows that all of it arrived.
fn exchange(near: &mut TcpStream, far: &mut TcpStream) {
    const BYTES: usize = 4 << 20;
    std::thread::scope(|scope| {
        scope.spawn(|| near.write_all(&vec![0; BYTES]).unwrap());
        far.read_exact(&mut vec![0; BYTES]).unwrap();
    });
    far.write_all(&[1]).unwrap();
    near.read_exact(&mut [0]).unwrap();
}

fn choose(socket: &TcpStream, name: &str) -> std::io::Result<()> {
    Ok(sockopt::set_tcp_congestion(socket, name)?)
}

fn chosen(socket: &TcpStream) -> String {
    sockopt::tcp_congestion(socket).unwrap()
}

/// A sender, a router with a bottleneck and a receiver, all in namespaces that end with the script.
const LAB: &str = "
    set -eu
    mount -t tmpfs none /run
    ip netns add snd; ip netns add rcv
    ip link add vin type veth peer name vsnd; ip link add vout type veth peer name vrcv
    ip link set vsnd netns snd; ip link set vrcv netns rcv
    ip -n snd addr add 10.9.1.1/24 dev vsnd; ip addr add 10.9.1.2/24 dev vin
    ip -n rcv addr add 10.9.2.1/24 dev vrcv; ip addr add 10.9.2.2/24 dev vout
    ip -n snd link set vsnd up; ip link set vin up; ip link set vout up; ip -n rcv link set vrcv up
    ip -n snd route add default via 10.9.1.2; ip -n rcv route add default via 10.9.2.2
    echo 1 > /proc/sys/net/ipv4/ip_forward
    snd() { ip netns exec snd \"$@\"; }
    rate() { tc qdisc replace dev vout root tbf rate $1 burst 10kb limit 60kb; }
    serve() {
        wait
        ip netns exec rcv iperf3 -s -1 > /dev/null 2>&1 &
        until ip netns exec rcv ss -ltn | grep -q :5201; do :; done
    }
    rate 50mbit
";

/// Losses at a small queue, pauses, a black hole (timeout) and a stall (a timeout that was spurious).
const TROUBLE: &str = "
    serve; snd iperf3 -c 10.9.2.1 -C $CC -t 2
    serve; snd iperf3 -c 10.9.2.1 -C $CC -t 2 -b 5M
    serve; snd iperf3 -c 10.9.2.1 -C $CC -t 4 -i 0.5 --forceflush | {
        n=0
        while read line; do
            n=$((n + 1))
            case $n in
            5) echo 0 > /proc/sys/net/ipv4/ip_forward ;;
            6) echo 1 > /proc/sys/net/ipv4/ip_forward ;;
            8) rate 8kbit ;;
            9) rate 50mbit ;;
            esac
        done
    }
";

const MANY: &str = "serve; snd iperf3 -c 10.9.2.1 -C $CC -t 2 -P 16";

/// Long enough for the minimum RTT to expire.
const PROBE_RTT: &str = "rate 5mbit; serve; snd iperf3 -c 10.9.2.1 -C $CC -t 11";

const NO_STORAGE: &str = "
    snd cat /proc/sys/net/core/optmem_max > /dev/null || exit 77
    snd sh -c 'echo 256 > /proc/sys/net/core/optmem_max'
    serve; snd iperf3 -c 10.9.2.1 -C $CC -t 2 -P 4 -J
";

const UNPRIVILEGED: &str = "
    serve; snd setpriv --reuid 65534 --regid 65534 --clear-groups iperf3 -c 10.9.2.1 -C $CC -t 1
";

fn in_lab(cc: &str, script: &str) -> Output {
    // The router is to outlive the server's last packets.
    let script = format!("{LAB}\n{script}\nwait");
    let args = ["60", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", &script];
    Command::new("timeout")
        .args(args)
        .env("CC", cc)
        .output()
        .expect("timeout and unshare are in every Debian")
}

fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What a look costs: 9,800 flows, and the CPU time of the process that looks, which is `headway watch` without its table.
#[test]
#[ignore = "prints a figure: `make test-long`"]
fn long_what_a_look_costs() {
    let Some(attached) = attach_program(&PROGRAMS[3], 'Z', false) else { return };
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let raised = rustix::process::Rlimit { current: limit, maximum: limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let pairs: Vec<_> = (0..4900)
        .map(|_| {
            let (mut near, mut far) = pair();
            for socket in [&near, &far] {
                choose(socket, attached.name()).unwrap();
            }
            near.write_all(&[0; 1000]).unwrap();
            far.write_all(&[0; 1000]).unwrap();
            (near, far)
        })
        .collect();
    let mut watcher = Watcher::new().unwrap();
    assert!(flows(&mut watcher).len() >= 2 * pairs.len());
    let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let ns = |t: rustix::time::Timespec| t.tv_sec * 1_000_000_000 + t.tv_nsec;
    let before = ns(cpu());
    const LOOKS: i64 = 20;
    for _ in 0..LOOKS {
        let mut seen = 0;
        watcher.flows(|_| seen += 1).unwrap();
        assert!(seen >= 2 * pairs.len());
    }
    println!("{} flows: {:.2} ms a look", 2 * pairs.len(), (ns(cpu()) - before) as f64 / 1e6 / LOOKS as f64);
}
