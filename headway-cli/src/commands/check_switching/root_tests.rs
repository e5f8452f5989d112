//! Tests of every controller of Headway in the kernel, over emulated paths: whatever loss, reordering, ECN marks,
//! pauses and switches do to a connection, Rust must replay each event to the same decision. They need root and skip
//! without it.

use std::fs;
use std::thread;

use headway_cc::cc::Event;
use headway_cc::cc::bbr3::{Bbr3State, Mode};
use headway_cc::cc::fixed::GAIN_UNIT;
use headway_kernel::available;

use super::*;
use crate::load::iperf::{PORT, Server};
use crate::plan::tool::Tool;

/// Paths, each with the arguments of the iperf3 client that runs over it.
const LOADS: &[(&str, &str)] = &[
    ("50mbit 20ms queue=0.5bdp loss=0.5%", "-t 4"),
    ("50mbit 20ms queue=2bdp reorder=5%/10ms", "-t 3"),
    ("30mbit 30ms queue=1bdp jitter=4ms uploss=5%", "-t 3 -P 4"),
    ("20mbit 20ms queue=1bdp", "-t 4 -b 3M"),
    ("20mbit 20ms queue=1bdp @1s 2mbit @2s 20mbit @3s loss=100% @3.6s loss=0%", "-t 5"),
    ("5mbit 30ms queue=2bdp", "-t 7"),
];

/// The same for a sender that negotiates ECN, over links that mark.
const MARKED: &[(&str, &str)] = &[
    ("20mbit 20ms queue=4bdp ce=2ms", "-t 4"),
    ("50mbit 2ms queue=20bdp ce=1ms", "-t 3 -P 2"),
    ("20mbit 20ms queue=codel ecn", "-t 3"),
];

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Ends the trace and returns its text. Every event in it must replay to the same decision.
fn finish(traced: Traced) -> (String, ReplayReport) {
    let text = traced.text.clone();
    let report = traced.finish().unwrap_or_else(|e| panic!("{e:#}"));
    println!("{report:?}");
    let text = text.0.lock().unwrap().clone();
    (String::from_utf8(text).unwrap(), report)
}

/// A name that belongs to this process alone, because the kernel's names are global: tests that run at the same time,
/// and controllers that somebody else loaded, must not get in each other's way.
fn own_name(tag: char) -> String {
    format!("hw{tag}{}", std::process::id())
}

/// Runs iperf3 over an emulated path. `tcp_ecn` is the sysctl's value at both ends.
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
    assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
}

/// These two have all of the others' code, and use it.
#[test]
fn root_trouble_on_emulated_paths_replays_equal() {
    troubles(["bbr1_brake", "headway"]);
}

#[test]
#[ignore = "a minute and a half: `make test-long`"]
fn long_root_trouble_replays_equal_with_every_controller() {
    troubles(available().attachable);
}

fn troubles(controllers: impl IntoIterator<Item = &'static str>) {
    if !is_root() {
        return println!("skipped: needs root");
    }
    // Two at a time: most of it is waiting. More would take the CPUs from the tests beside this one, some of which need
    // packets to be handed over in time.
    let tagged: Vec<_> = controllers.into_iter().zip('r'..).collect();
    thread::scope(|scope| {
        for lane in tagged.chunks(tagged.len().div_ceil(2)) {
            scope.spawn(|| lane.iter().for_each(|(cc, tag)| trouble(cc, *tag)));
        }
    });
}

fn trouble(cc: &str, tag: char) {
    let traced = Traced::start_as(Some(own_name(tag)), cc).unwrap();
    for (path, args) in LOADS {
        load(traced.attached.name(), path, args, "2");
    }
    let (text, report) = finish(traced);
    assert!(report.events > 10_000 && report.kinds[Event::TxStart as usize] > 0, "{report:?}");
    assert!(report.kinds[Event::Ssthresh as usize] > 0, "{report:?}");
    if !cc.starts_with("bbr1") {
        assert!(report.kinds[Event::Lost as usize] > 50, "{report:?}");
        assert!(Mode::ALL[1..].iter().all(|s| states(&text).any(|at| at.state == *s)));
    }
}

/// By default ECN marks count as losses; with the parameter `ecn` they get a response of their own. Neither setting
/// makes the connection negotiate ECN: that is the affair of `tcp_ecn`.
#[test]
fn root_marks_replay_equal() {
    if !is_root() {
        return println!("skipped: needs root");
    }
    for (ecn, tag, tcp_ecn) in [(0, 'k', "1"), (1, 'l', "1"), (1, 'm', "2")] {
        let traced = Traced::start_as(Some(own_name(tag)), &format!("bbr3:ecn={ecn}")).unwrap();
        for (path, args) in MARKED {
            load(traced.attached.name(), path, args, tcp_ecn);
        }
        let (text, report) = finish(traced);
        assert!(report.events > 3000, "{report:?}");
        let (are_asked_for, has_answer) = (tcp_ecn == "1", ecn == 1);
        let marked = states(&text).map(|s| s.delivered_ce).max().unwrap();
        println!("ecn={ecn} tcp_ecn={tcp_ecn}: up to {marked} packets of a flow marked");
        assert_eq!(marked > 0, are_asked_for);
        assert_eq!(states(&text).any(|s| s.is_ce_in_round), are_asked_for && has_answer);
        assert_eq!(states(&text).any(|s| s.ecn_alpha < GAIN_UNIT), has_answer);
    }
}

/// The controller's states in a trace of `bbr3`, in order.
fn states(text: &str) -> impl Iterator<Item = Bbr3State> {
    text.lines().filter(|l| !l.starts_with('#')).map(|line| {
        let words: Vec<u64> = line.split(' ').skip(1).map(|w| w.parse().unwrap()).collect();
        Bbr3State::from_words(&words[words.len() - Bbr3State::FIELDS.len()..]).unwrap()
    })
}
