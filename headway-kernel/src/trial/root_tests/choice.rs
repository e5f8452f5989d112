//! Root tests: who takes part, and that the coin falls as it should.

use std::collections::BTreeSet;

use rustix::net::sockopt::set_tcp_congestion;

use super::route::{FAR, NEAR, Route, add_to_loopback};
use super::*;
use crate::private::{bind_any, wait_until};

#[test]
fn root_trial_only_those_asked_for_take_part() {
    here("trial::root_tests::choice::only_those_asked_for");
}

#[test]
fn root_trial_a_network_has_one_arm() {
    here("trial::root_tests::choice::by_network");
}

#[test]
fn root_trial_slots_and_chances_are_kept() {
    here("trial::root_tests::choice::slots_and_chances");
}

#[test]
fn root_trial_a_controller_that_had_begun_begins_again() {
    here("trial::root_tests::choice::begun_before");
}

#[test]
#[ignore = "a minute: `make test-long`"]
fn long_lab_trial_choices_are_the_same_on_each_kernel() {
    for test in ["only_those_asked_for", "by_network", "slots_and_chances", "begun_before", "multipath"] {
        in_guests(&format!("trial::root_tests::choice::{test}"));
    }
}

#[test]
fn root_trial_multipath_is_left_out() {
    here("trial::root_tests::choice::multipath");
}

#[test]
#[ignore = "run by another test"]
fn multipath() {
    demand();
    if !fs::exists("/proc/sys/net/mptcp/enabled").unwrap() {
        return println!("skipped: this kernel has no Multipath TCP");
    }
    let cgroups = Cgroups::new();
    let cgroup = cgroups.below("service");
    let listener = TcpListener::from(socket_of("multipath", true));
    bind_any(&listener, 4000);
    for with_mptcp in [false, true] {
        let options = TrialOptions { with_mptcp, ..TrialOptions::new(ARMS) };
        let trial = Trial::attach(&options, &cgroup).unwrap_or_else(|e| panic!("{e:#}"));
        trial.set_slot(0, 0).unwrap();
        for kind in ["multipath", ""] {
            let near = inside(&cgroup, || socket_of(kind, true));
            rustix::net::connect(&near, &"[::1]:4000".parse::<SocketAddr>().unwrap()).unwrap();
            drop((near, listener.accept().unwrap()));
        }
        let counters = trial.counters().unwrap();
        let expected = if with_mptcp { (0, [2, 0]) } else { (1, [1, 0]) };
        assert_eq!((counters.mptcp, counters.enrolled), expected);
    }
}

/// `coin` of `bpf/trial.h`.
fn coin(seed: u64, slot: u32, key: u64, chance: u32) -> u8 {
    let mixed = |x: u64| {
        let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    };
    let toss = mixed(mixed(mixed(seed).wrapping_add(slot.into())).wrapping_add(key));
    u8::from(toss >> 48 < u64::from(chance))
}

/// The number of a /24 or /48.
fn network(remote: IpAddr) -> u64 {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b));
    match remote {
        IpAddr::V4(v4) => number(&v4.octets()[..3]) | 1 << 63,
        IpAddr::V6(v6) => number(&v6.octets()[..6]),
    }
}

/// One connection to this address and port, from inside the cgroup or to a listener inside; closed again.
fn one(cgroup: &Path, to: SocketAddr, is_inbound: bool) {
    let listen = || TcpListener::bind(to).unwrap();
    let listener = if is_inbound { inside(cgroup, listen) } else { listen() };
    let connect = || TcpStream::connect(to).unwrap();
    let near = if is_inbound { connect() } else { inside(cgroup, connect) };
    drop((near, listener.accept().unwrap()));
}

/// The remote end of each record, when so many connections have been made: the address and the direction.
fn who(cgroup: &Path, options: &TrialOptions) -> Vec<(String, bool)> {
    let mut trial = Trial::attach(options, cgroup).unwrap_or_else(|e| panic!("{e:#}"));
    trial.set_slot(0, ALL / 2).unwrap();
    for (to, is_inbound) in MANY {
        one(cgroup, to.parse().unwrap(), is_inbound);
    }
    let wanted: u64 = trial.counters().unwrap().enrolled.iter().sum();
    fetch(&mut trial, wanted as usize)
        .iter()
        .map(|r| {
            (
                format!("{}:{}", r.remote, if r.is_inbound { r.local_port } else { r.remote_port }),
                r.is_inbound,
            )
        })
        .collect()
}

/// Where connections go, and whether the listener is what is in the cgroup. What comes in comes from the same address.
const MANY: [(&str, bool); 6] = [
    ("127.0.1.1:443", false),
    ("127.0.2.1:443", false),
    ("127.0.2.1:80", false),
    ("[fd00:0:1::1]:443", false),
    ("127.0.2.200:443", true),
    ("[fd00:0:2::1]:8443", true),
];

#[test]
#[ignore = "run by another test"]
fn only_those_asked_for() {
    demand();
    for address in ["fd00:0:1::1", "fd00:0:2::1"] {
        add_to_loopback(address.parse().unwrap());
    }
    let cgroups = Cgroups::new();
    let cgroup = cgroups.below("service");
    let all = || TrialOptions::new(ARMS);
    let of = |options: &TrialOptions| who(&cgroup, options).len();
    assert_eq!(of(&all()), 6);
    assert_eq!(of(&TrialOptions { direction: Direction::In, ..all() }), 2);
    assert_eq!(of(&TrialOptions { direction: Direction::Out, ..all() }), 4);
    assert_eq!(of(&TrialOptions { ports: vec![(443, 443)], ..all() }), 4);
    assert_eq!(of(&TrialOptions { ports: vec![(80, 80), (8000, 9000)], ..all() }), 2);
    let to = |prefixes: &[(&str, u8)]| {
        let prefixes = prefixes.iter().map(|(a, n)| (a.parse().unwrap(), *n)).collect();
        let mut who = who(&cgroup, &TrialOptions { prefixes, ..all() });
        who.sort();
        who.into_iter().map(|(of, _)| of).collect::<Vec<_>>()
    };
    // The peer of what comes in is 127.0.0.1 or ::1, which the kernel takes for itself.
    assert_eq!(to(&[("127.0.2.77", 24)]), ["127.0.2.1:443", "127.0.2.1:80"]);
    assert_eq!(to(&[("127.0.2.77", 32)]), [""; 0]);
    assert_eq!(to(&[("127.0.0.1", 32)]), ["127.0.0.1:443"]);
    assert_eq!(to(&[("fd00:0:1::", 48)]), ["fd00:0:1::1:443"]);
    assert_eq!(to(&[("127.0.1.0", 24), ("fd00::", 16), ("::1", 128)]).len(), 3);
    assert_eq!(to(&[("0.0.0.0", 0)]).len(), 4);
    assert_eq!(to(&[("::", 0)]).len(), 6);
}

/// 400 networks, half of them of IPv6, with two connections each.
#[test]
#[ignore = "run by another test"]
fn by_network() {
    demand();
    let of_ipv6 = |n: usize, host: usize| format!("fd00:{}:{n:x}::{host}", n % 7);
    for (n, host) in (0..200).flat_map(|n| [(n, 1), (n, 9)]) {
        add_to_loopback(of_ipv6(n, host).parse().unwrap());
    }
    let cgroups = Cgroups::new();
    let cgroup = cgroups.below("service");
    let options = TrialOptions { by: TrialUnit::Prefix, seed: 0x1234_5678_9abc, ..TrialOptions::new(ARMS) };
    let mut trial = Trial::attach(&options, &cgroup).unwrap_or_else(|e| panic!("{e:#}"));
    let mut arms = Vec::new();
    for slot in [3, 4] {
        trial.set_slot(slot, ALL / 2).unwrap();
        for host in [1, 9] {
            for n in 0..200 {
                one(&cgroup, format!("127.{}.{n}.{host}:4000", n % 7).parse().unwrap(), false);
                one(&cgroup, format!("[{}]:4000", of_ipv6(n, host)).parse().unwrap(), false);
            }
        }
        let records = fetch(&mut trial, 800);
        let expected = |r: &Record| coin(options.seed, slot, network(r.remote), ALL / 2);
        assert!(records.iter().all(|r| r.arm == expected(r)), "another arm than its network's");
        let of: HashMap<u64, u8> = records.iter().map(|r| (network(r.remote), r.arm)).collect();
        let of_arm_1 = of.values().filter(|arm| **arm == 1).count();
        println!("slot {slot}: {} networks, {of_arm_1} of them with arm 1", of.len());
        assert_eq!(of.len(), 400);
        // 5 standard deviations of 400 tosses.
        assert!(of_arm_1.abs_diff(200) <= 50);
        arms.push(of);
    }
    let changed = arms[0].iter().filter(|(network, arm)| arms[1][network] != **arm).count();
    assert!(changed.abs_diff(200) <= 50, "{changed} of 400 networks have another arm in the next slot");
}

#[test]
#[ignore = "run by another test"]
fn slots_and_chances() {
    demand();
    let cgroups = Cgroups::new();
    let cgroup = cgroups.below("service");
    let options = TrialOptions { seed: 99, ..TrialOptions::new(ARMS) };
    let mut trial = Trial::attach(&options, &cgroup).unwrap_or_else(|e| panic!("{e:#}"));
    let make = |count: usize| drop(connections(&KINDS[0], false, &cgroup, count, 0));
    make(20);
    assert_eq!(
        trial.counters().unwrap(),
        TrialCounters::default(),
        "nobody takes part before the first slot"
    );
    for (slot, chance, of_arm_1) in [(0, 0, 0..=0), (1, ALL, 200..=200), (2, ALL / 20, 0..=26)] {
        trial.set_slot(slot, chance).unwrap();
        make(200);
        let records = fetch(&mut trial, 200);
        assert!(records.iter().all(|r| r.slot == slot && r.arm == coin(99, slot, r.cookie, chance)));
        assert!(of_arm_1.contains(&records.iter().filter(|r| r.arm == 1).count()), "slot {slot}");
        assert_eq!(records.iter().map(|r| r.cookie).collect::<BTreeSet<_>>().len(), 200);
    }
    trial.pause().unwrap();
    trial.pause().unwrap();
    let before = trial.counters().unwrap();
    make(20);
    assert_eq!(trial.counters().unwrap(), before);
    assert!(trial.set_slot(3, ALL + 1).is_err());
}

/// The program has chosen its controller while the handshake was under way, so that it runs already: the arm that is the same
/// must begin anew like the other one. Our own controllers count how often they begin.
#[test]
#[ignore = "run by another test"]
fn begun_before() {
    demand();
    let Some(_route) = Route::up() else { return println!("skipped: this kernel has no tun devices") };
    let attached = crate::attach("bbr1", &crate::Options::default()).unwrap_or_else(|e| panic!("{e:#}"));
    let cgroups = Cgroups::new();
    let cgroup = cgroups.below("service");
    let listener = TcpListener::bind(NEAR).unwrap();
    let begun = |arms, chosen: Option<&str>| {
        let mut trial = Trial::attach(&TrialOptions::new(arms), &cgroup).unwrap_or_else(|e| panic!("{e:#}"));
        trial.set_slot(0, 0).unwrap();
        let before = attached.counters().unwrap().flows;
        let near = inside(&cgroup, || TcpStream::from(socket_of("", false)));
        rustix::io::ioctl_fionbio(&near, true).unwrap();
        let _ = rustix::net::connect(&near, &FAR.parse::<SocketAddr>().unwrap());
        if let Some(name) = chosen {
            set_tcp_congestion(&near, name).unwrap();
        }
        drop((listener.accept().unwrap(), near));
        let records = fetch(&mut trial, 1);
        assert!(records[0].as_set && records[0].arm == 0, "{records:?}");
        (attached.counters().unwrap().flows - before, trial.counters().unwrap().restarted)
    };
    let name = attached.name();
    assert_eq!(begun([name, "reno"], None), (1, 0), "it begins when the handshake is done");
    assert_eq!(begun([name, "reno"], Some(name)), (2, 1), "it begins when it is chosen, and again");
    // One that is not the default: to choose that changes nothing.
    let default = crate::read_line("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let third = ARMS.into_iter().find(|arm| **arm != default).unwrap();
    assert_eq!(begun([name, "reno"], Some(third)), (1, 1));
    wait_until("all have ended", || attached.counters().unwrap().past.flows >= 3);
}
