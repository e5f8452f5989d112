//! Root tests of every controller of ours over emulated paths: whatever loss, reordering, marks, pauses and switches
//! make of a connection, each event replays equal in Rust. Without root they skip.

use std::io::{Read, Write};
use std::net::TcpStream;

use headway_cc::cc::bbr3::{BBR3_PROBE_RTT, BBR3_STARTUP, Bbr3State};
use headway_cc::cc::fixed::GAIN_UNIT;
use headway_cc::cc::{EVENT_LOST, EVENT_SSTHRESH, EVENT_TX_START};

use super::replay::{ReplayReport, replay_check};
use super::root_tests::{Shared, between, choose, in_lab, own_name, text_of};
use super::*;
use crate::emu::{Emu, EmuOptions};
use crate::load::iperf::{PORT, Server};
use crate::plan::tool::Tool;

/// A path, and what iperf3 does over it.
const LOADS: &[(&str, &str)] = &[
    ("50mbit 20ms queue=0.5bdp loss=0.5%", "-t 4"),
    ("50mbit 20ms queue=2bdp reorder=5%/10ms", "-t 3"),
    ("30mbit 30ms queue=1bdp jitter=4ms uploss=5%", "-t 3 -P 4"),
    ("20mbit 20ms queue=1bdp", "-t 4 -b 3M"),
    ("20mbit 20ms queue=1bdp @1s 2mbit @2s 20mbit @3s loss=100% @3.6s loss=0%", "-t 5"),
    ("5mbit 30ms queue=2bdp", "-t 7"),
];

/// The same with a sender that negotiates ECN, over links that mark.
const MARKED: &[(&str, &str)] = &[
    ("20mbit 20ms queue=4bdp ce=2ms", "-t 4"),
    ("50mbit 2ms queue=20bdp ce=1ms", "-t 3 -P 2"),
    ("20mbit 20ms queue=codel ecn", "-t 3"),
];

/// A controller in the kernel with its trace.
struct Traced {
    attached: Attached,
    trace: Trace,
    sink: Shared,
}

impl Traced {
    fn start(program: &'static Program, tag: char, set: &[&str]) -> Self {
        let name = own_name(tag);
        let params = program.params.with(set.iter().copied()).unwrap();
        let wanted = Wanted { params, ..Wanted::new(program, &name, true) };
        let mut attached = register(&wanted).unwrap_or_else(|e| panic!("{e:#}"));
        let sink = Shared::default();
        let trace = attached.trace(sink.clone()).unwrap();
        Self { attached, trace, sink }
    }

    /// Demands that every event replays equal.
    fn finish(self) -> (String, ReplayReport) {
        let traced = self.trace.finish().unwrap();
        let text = self.sink.text();
        let report = replay_check(&text).unwrap_or_else(|e| panic!("{e:#}"));
        let counters = self.attached.counters().unwrap();
        println!("{report:?} {counters:?}");
        assert_eq!((traced.lost, report.events), (0, traced.events));
        assert_eq!(counters.without_storage, 0);
        (text, report)
    }
}

/// Runs iperf3 over an emulated path, both ends with this setting of `tcp_ecn`.
fn load(cc: &str, path: &str, args: &str, tcp_ecn: &str) {
    let emu = Emu::up(&path.parse().unwrap(), &EmuOptions::default()).unwrap();
    let far = emu.far().unwrap();
    for netns in [emu.near(), far] {
        netns.enter(|| fs::write("/proc/sys/net/ipv4/tcp_ecn", tcp_ecn)).unwrap();
    }
    let _server = Server::start(Tool::Iperf3, far.command("iperf3"), PORT).unwrap();
    emu.start_clock();
    let to = [emu.far_addr().to_string(), PORT.to_string()];
    let mut iperf3 = emu.near().command("iperf3");
    iperf3.args(["-c", &to[0], "-p", &to[1], "-C", cc]).args(args.split(' '));
    let output = iperf3.output().unwrap();
    assert!(output.status.success(), "{path}: {}", text_of(&output));
}

#[test]
fn root_trouble_on_emulated_paths_replays_equal() {
    if !has_rights() {
        return println!("skipped: needs root");
    }
    for (program, tag) in PROGRAMS.iter().zip('r'..) {
        let traced = Traced::start(program, tag, &[]);
        for (path, args) in LOADS {
            load(traced.attached.name(), path, args, "2");
        }
        let (text, report) = traced.finish();
        assert!(report.events > 10_000 && report.kinds[EVENT_TX_START as usize] > 0, "{report:?}");
        assert!(report.kinds[EVENT_SSTHRESH as usize] > 0, "{report:?}");
        if program.name == "bbr3" {
            assert!(report.kinds[EVENT_LOST as usize] > 50, "{report:?}");
            assert!((BBR3_STARTUP..=BBR3_PROBE_RTT).all(|s| states(&text).any(|at| at.state == s)));
        }
    }
}

/// With the defaults marks count as losses, with `ecn` they have an answer of their own; and neither asks for any.
#[test]
fn root_marks_replay_equal() {
    if !has_rights() {
        return println!("skipped: needs root");
    }
    let bbr3 = Program::named("bbr3").unwrap();
    for (ecn, tag, tcp_ecn) in [(0, 't', "1"), (1, 'u', "1"), (1, 'v', "2")] {
        let traced = Traced::start(bbr3, tag, &[&format!("ecn={ecn}")]);
        for (path, args) in MARKED {
            load(traced.attached.name(), path, args, tcp_ecn);
        }
        let (text, report) = traced.finish();
        assert!(report.events > 3000, "{report:?}");
        let (are_asked_for, has_answer) = (tcp_ecn == "1", ecn == 1);
        let marked = states(&text).map(|s| s.delivered_ce).max().unwrap();
        println!("ecn={ecn} tcp_ecn={tcp_ecn}: up to {marked} packets of a flow marked");
        assert_eq!(marked > 0, are_asked_for);
        assert_eq!(states(&text).any(|s| s.is_ce_in_round == 1), are_asked_for && has_answer);
        assert_eq!(states(&text).any(|s| s.ecn_alpha < GAIN_UNIT), has_answer);
    }
}

/// The states of a trace of `bbr3`, in order.
fn states(text: &str) -> impl Iterator<Item = Bbr3State> {
    text.lines().filter(|l| !l.starts_with('#')).map(|line| {
        let words: Vec<u64> = line.split(' ').skip(1).map(|w| w.parse().unwrap()).collect();
        Bbr3State::from_words(&words[words.len() - Bbr3State::FIELDS.len()..]).unwrap()
    })
}

const HOPS: usize = 20;

/// One socket amid its data: from `cubic` to `bbr3`, to `bbr1`, back to `bbr3`, and round again.
#[test]
fn root_a_socket_hops_between_controllers() {
    if !has_rights() {
        return println!("skipped: needs root");
    }
    let [bbr1, bbr3] = [('w', "bbr1"), ('x', "bbr3")]
        .map(|(tag, name)| Traced::start(Program::named(name).unwrap(), tag, &[]));
    let names = format!("{} {}", bbr1.attached.name(), bbr3.attached.name());
    let output = in_lab(&names, &between("root_tests::swallows", "root_paths::hops"));
    assert!(output.status.success(), "{}", text_of(&output));
    let (_, by_bbr1) = bbr1.finish();
    let (_, by_bbr3) = bbr3.finish();
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
/// What each of them sends: less than the buffers of sender and receiver hold, so that all are under way at once.
const CROWD_BYTES: usize = 64 << 10;

/// Thousands of connections at once: each gets its state, each finishes, and what a flow costs is printed.
#[test]
fn root_two_thousand_flows_finish() {
    if !has_rights() {
        return println!("skipped: needs root");
    }
    let name = own_name('0');
    let attached = register(&Wanted::new(Program::named("bbr3").unwrap(), &name, false)).unwrap();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let all = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, all).unwrap();
    std::thread::scope(|scope| scope.spawn(|| crowd(&name)).join()).unwrap();
    let counters = attached.counters().unwrap();
    println!("{counters:?}, {} bytes of state a flow", attached.map("flows").unwrap().value_size());
    assert_eq!((counters.flows, counters.without_storage), (CROWD as u64, 0));
}

/// In a network namespace of the calling thread's own, over loopback.
fn crowd(name: &str) {
    let _netns = crate::sys::new_netns().unwrap();
    crate::sys::set_up("lo").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let pairs = (0..CROWD).map(|_| {
        let near = TcpStream::connect(to).unwrap();
        choose(&near, name).unwrap();
        (near, listener.accept().unwrap().0)
    });
    let (mut near, mut far): (Vec<_>, Vec<_>) = pairs.unzip();
    std::thread::scope(|scope| {
        scope.spawn(|| near.iter_mut().for_each(|s| s.write_all(&[7; CROWD_BYTES]).unwrap()));
        let mut buffer = vec![0; CROWD_BYTES];
        far.iter_mut().for_each(|s| s.read_exact(&mut buffer).unwrap());
    });
}
