//! Root tests: who takes part in a trial and with what, what the records say, and what becomes of other programs. The figures
//! are in docs/measurements/trial.md.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{socket_cookie, tcp_congestion};

use super::*;
use crate::private::{Cgroups, demand, here, in_guests, socket_of};

mod choice;
mod cost;
mod faults;
mod figures;
mod route;

/// Both arms differ from what connections have by default in none of the kernels of the tests, so that one arm is always the
/// default itself.
pub(super) const ARMS: [&str; 2] = ["cubic", "reno"];

/// Connections of each kind.
const EACH: usize = 1000;

/// Of these, those that stay open.
const KEPT: usize = 100;

#[test]
fn root_trial_every_kind_of_connection_is_split_and_recorded() {
    here("trial::root_tests::every_kind");
}

#[test]
#[ignore = "minutes: `make test-long`"]
fn long_lab_trial_every_kind_of_connection_is_split_and_recorded() {
    in_guests("trial::root_tests::every_kind");
}

/// A kind of connection: how its two ends are made.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    listens_at: &'static str,
    connects_to: &'static str,
    /// Data in the SYN.
    is_fast_open: bool,
    /// Every handshake by a SYN cookie.
    has_cookies: bool,
}

const KINDS: [Kind; 6] = [
    Kind::plain("IPv4", "127.0.0.1:4001", "127.0.0.1:4001"),
    Kind::plain("IPv6", "[::1]:4002", "[::1]:4002"),
    Kind::plain("v4-mapped", "[::]:4003", "[::ffff:127.0.0.1]:4003"),
    Kind { has_cookies: true, ..Kind::plain("IPv4, SYN cookies", "127.0.0.1:4004", "127.0.0.1:4004") },
    Kind { has_cookies: true, ..Kind::plain("IPv6, SYN cookies", "[::1]:4005", "[::1]:4005") },
    Kind { is_fast_open: true, ..Kind::plain("IPv4, Fast Open", "[::]:4006", "127.0.0.1:4006") },
];

impl Kind {
    const fn plain(name: &'static str, listens_at: &'static str, connects_to: &'static str) -> Self {
        Kind { name, listens_at, connects_to, is_fast_open: false, has_cookies: false }
    }

    fn listen(&self) -> TcpListener {
        let at: SocketAddr = self.listens_at.parse().unwrap();
        if !self.is_fast_open {
            return TcpListener::bind(at).unwrap();
        }
        let listener = TcpListener::from(socket_of("fastopen", true));
        rustix::net::bind(&listener, &at).unwrap();
        rustix::net::listen(&listener, 128).unwrap();
        listener
    }

    fn connect(&self) -> TcpStream {
        let to: SocketAddr = self.connects_to.parse().unwrap();
        if !self.is_fast_open {
            return TcpStream::connect(to).unwrap();
        }
        let near = TcpStream::from(socket_of("fastopen", false));
        rustix::net::connect(&near, &to).unwrap();
        near
    }

    /// Both ends, over which something was sent in both directions: what connected, and what was accepted.
    fn pair(&self, listener: &TcpListener) -> [TcpStream; 2] {
        let mut near = self.connect();
        near.write_all(&[1; 1000]).unwrap();
        let mut far = listener.accept().unwrap().0;
        far.read_exact(&mut [0; 1000]).unwrap();
        far.write_all(&[2; 3000]).unwrap();
        near.read_exact(&mut [0; 3000]).unwrap();
        [near, far]
    }
}

/// Lets this process belong to a cgroup while it makes sockets, and to the one above all cgroups of the test otherwise.
pub(super) fn inside<T>(cgroup: &Path, make: impl FnOnce() -> T) -> T {
    let is_top =
        |at: &&Path| at.file_name().is_some_and(|n| n.to_string_lossy().starts_with("headway-test-"));
    let outside = cgroup.ancestors().find(is_top).unwrap().parent().unwrap();
    let enter = |at: &Path| fs::write(at.join("cgroup.procs"), "0").unwrap();
    enter(cgroup);
    let made = make();
    enter(outside);
    made
}

fn set(sysctl: &str, value: &str) {
    fs::write(format!("/proc/sys/net/ipv4/{sysctl}"), value).unwrap();
}

/// A count of the kernel's for this network namespace.
fn netstat(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/net/netstat").unwrap();
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("TcpExt:")).collect();
    let at = lines[0].split(' ').position(|n| n == name).unwrap();
    lines[1].split(' ').nth(at).unwrap().parse().unwrap()
}

/// Makes so many connections and keeps the last ones. Those that are in the cgroup are the ones that connected, or the ones
/// that were accepted.
fn connections(
    kind: &Kind,
    is_inbound: bool,
    cgroup: &Path,
    each: usize,
    kept: usize,
) -> Vec<[TcpStream; 2]> {
    set("tcp_syncookies", if kind.has_cookies { "2" } else { "1" });
    // Both ends without asking for a cookie first.
    set("tcp_fastopen", if kind.is_fast_open { "519" } else { "0" });
    let listener = if is_inbound { inside(cgroup, || kind.listen()) } else { kind.listen() };
    let mut all = Vec::new();
    let mut make = || {
        for n in 0..each {
            let pair = kind.pair(&listener);
            if n >= each - kept {
                all.push(pair);
            }
        }
    };
    if is_inbound {
        make()
    } else {
        inside(cgroup, make)
    }
    all
}

/// Fetches records until there are so many.
pub(super) fn fetch(trial: &mut Trial, wanted: usize) -> Vec<Record> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut records = trial.ended().unwrap();
    while records.len() < wanted {
        assert!(Instant::now() < deadline, "{} records of {wanted}", records.len());
        std::thread::sleep(Duration::from_millis(10));
        records.extend(trial.ended().unwrap());
    }
    records
}

#[test]
#[ignore = "run by another test"]
fn every_kind() {
    demand();
    let cgroups = Cgroups::new();
    let cgroup = cgroups.below("service");
    for kind in &KINDS {
        for is_inbound in [false, true] {
            // What connects does not know that it was answered with a cookie.
            if is_inbound || !kind.has_cookies {
                one_kind(kind, is_inbound, &cgroup);
            }
        }
    }
}

fn one_kind(kind: &Kind, is_inbound: bool, cgroup: &Path) {
    let mut trial = Trial::attach(&TrialOptions::new(ARMS), cgroup).unwrap_or_else(|e| panic!("{e:#}"));
    trial.set_slot(7, ALL / 2).unwrap();
    let sent = ["SyncookiesRecv", "TCPFastOpenPassive"];
    let before = sent.map(netstat);
    let kept = connections(kind, is_inbound, cgroup, EACH, KEPT);
    let [cookies, fast] = [0, 1].map(|i| netstat(sent[i]) - before[i]);
    assert_eq!(cookies, if kind.has_cookies { EACH as u64 } else { 0 }, "{kind:?}");
    assert_eq!(fast, if kind.is_fast_open { EACH as u64 } else { 0 }, "{kind:?}");
    let mut records = fetch(&mut trial, EACH - KEPT);
    let open = trial.open().unwrap();
    let counters = trial.counters().unwrap();
    let ours = usize::from(is_inbound);
    has_what_the_kernel_says(&open, &kept.iter().map(|pair| &pair[ours]).collect::<Vec<_>>());
    assert_eq!((records.len(), open.len()), (EACH - KEPT, KEPT), "{kind:?} {counters:?}");
    drop(kept);
    records.extend(fetch(&mut trial, KEPT));
    let counters = trial.counters().unwrap();
    assert_eq!(trial.open().unwrap(), []);
    let name = format!("{} | {}", kind.name, if is_inbound { "in" } else { "out" });
    all_is_told(&name, &records, &counters);
    let sent = if is_inbound { 3000 } else { 1000 };
    // 6.1 itself ends now and then one of Fast Open with a reset.
    let closed = records.iter().filter(|r| r.end == End::Closed).count();
    assert!(if kind.is_fast_open { closed >= EACH - 5 } else { closed == EACH }, "{closed} closed");
    for record in &records {
        assert_eq!((record.slot, record.is_inbound), (7, is_inbound), "{record:?}");
        // A SYN and a FIN count as a byte each.
        assert!((sent..=sent + 2).contains(&record.bytes_acked), "{kind:?} {record:?}");
        assert!(record.remote.is_loopback() && record.ended_ns > record.began_ns, "{record:?}");
        assert!(record.rtt_counts.iter().sum::<u32>() > 0 && record.min_rtt_us > 0, "{record:?}");
    }
}

/// Every connection was enrolled, has its arm and left a record, and the coin was fair.
fn all_is_told(name: &str, records: &[Record], counters: &TrialCounters) {
    let count = |is: fn(&&Record) -> bool| records.iter().filter(is).count();
    let (of_arm_1, as_set) = (count(|r| r.arm == 1), count(|r| r.as_set));
    let (all, spare) = (records.len(), counters.spare);
    println!("| {name} | {EACH} | {} / {of_arm_1} | {all} | {as_set} | {spare} |", all - of_arm_1);
    assert_eq!((all, as_set), (EACH, EACH));
    let enrolled = [EACH - of_arm_1, of_arm_1].map(|n| n as u64);
    assert_eq!(*counters, TrialCounters { enrolled, spare, recorded: EACH as u64, ..Default::default() });
    // 5 standard deviations of 1,000 tosses.
    assert!(of_arm_1.abs_diff(EACH / 2) <= 79, "{of_arm_1} of {EACH}");
}

/// The open connections are these sockets, and each has the congestion control of its arm.
fn has_what_the_kernel_says(open: &[Record], sockets: &[&TcpStream]) {
    let arms: HashMap<u64, u8> = open.iter().map(|r| (r.cookie, r.arm)).collect();
    assert_eq!(arms.len(), sockets.len());
    for socket in sockets {
        let arm = arms[&socket_cookie(socket).unwrap()];
        assert_eq!(tcp_congestion(socket).unwrap(), ARMS[usize::from(arm)]);
    }
}
