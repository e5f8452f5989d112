//! Root tests: who gets the congestion control and who does not, and what becomes of other programs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use libbpf_rs::libbpf_sys;
use rustix::net::sockopt::tcp_congestion;

use super::*;
use crate::object::map_of;
use crate::private::{Cgroups, Other, demand, here, in_guests, say};
use crate::read_line;

/// The ports of the service, which is inside the cgroup, and of its peer, which is not: IPv4, IPv6, and IPv4 at a
/// listener for IPv6. They are below those that the kernel gives to connections.
const SERVICE: [u16; 3] = [4001, 4002, 4003];
const PEER: [u16; 3] = [5001, 5002, 5003];

/// 204 connections: so many for each of the three, in both directions.
const EACH: usize = 34;

#[test]
fn root_those_inside_have_it_and_nobody_else() {
    here("assign::root_tests::inside_and_outside");
}

#[test]
fn root_other_programs_go_on_working() {
    here("assign::root_tests::beside_others");
}

#[test]
fn root_a_killed_assignment_is_there_or_not() {
    here("assign::root_tests::killed");
}

#[test]
fn root_lab_assignments_work_on_each_kernel() {
    in_guests("assign::root_tests::inside_and_outside");
}

#[test]
#[ignore = "a minute: `make test-long`"]
fn long_lab_assignments_stand_beside_others_and_kills() {
    in_guests("assign::root_tests::beside_others");
    in_guests("assign::root_tests::killed");
}

fn listen(ports: [u16; 3]) -> [TcpListener; 3] {
    let on: [IpAddr; 3] =
        [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into()];
    [0, 1, 2].map(|i| TcpListener::bind((on[i], ports[i])).unwrap())
}

fn connect(ports: [u16; 3], each: usize) -> [Vec<TcpStream>; 3] {
    let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    let to: [IpAddr; 3] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), mapped.into()];
    [0, 1, 2].map(|i| (0..each).map(|_| TcpStream::connect((to[i], ports[i])).unwrap()).collect())
}

fn accept(listeners: &[TcpListener; 3], each: usize) -> [Vec<TcpStream>; 3] {
    [0, 1, 2].map(|i| (0..each).map(|_| listeners[i].accept().unwrap().0).collect())
}

/// For each of the six kinds, out and in, how many connections have this congestion control.
fn count(cc: &str, out: &[Vec<TcpStream>; 3], into: &[Vec<TcpStream>; 3]) -> Vec<usize> {
    let has = |s: &&TcpStream| tcp_congestion(s).unwrap() == cc;
    out.iter().chain(into).map(|all| all.iter().filter(has).count()).collect()
}

/// The service: inside the cgroup it listens, connects to its peer, accepts, and says what its connections have.
#[test]
#[ignore = "run by another test"]
fn service() {
    demand();
    let variable = |name| std::env::var(name).unwrap();
    fs::write(Path::new(&variable("CGROUP")).join("cgroup.procs"), "0").unwrap();
    let each = variable("EACH").parse().unwrap();
    let listeners = listen(SERVICE);
    say("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let out = connect(PEER, each);
    let into = accept(&listeners, each);
    say(&format!("{:?}", count(&variable("CC"), &out, &into)));
}

/// Lets a service of this cgroup and a peer outside connect. The answer is what the service says of its connections,
/// and how many of the peer's have the congestion control.
fn traffic(cgroup: &Path, cc: &str, each: usize, start: impl FnOnce()) -> (String, Vec<usize>) {
    let variables =
        [("CGROUP", cgroup.display().to_string()), ("CC", cc.to_string()), ("EACH", each.to_string())];
    let listeners = listen(PEER);
    let mut service = Other::start("assign::root_tests::service", &variables);
    assert_eq!(service.line(), "ready");
    start();
    service.tell("go");
    let out = connect(SERVICE, each);
    let into = accept(&listeners, each);
    let said = service.line();
    service.wait();
    (said, count(cc, &out, &into))
}

/// One that connections do not have by default.
fn another_cc() -> &'static str {
    match read_line("/proc/sys/net/ipv4/tcp_congestion_control").unwrap().as_str() {
        "reno" => "cubic",
        _ => "reno",
    }
}

#[test]
#[ignore = "run by another test"]
fn inside_and_outside() {
    demand();
    let (cgroups, cc) = (Cgroups::new(), another_cc());
    let cgroup = cgroups.below("service");
    let every = Assignment { cc: cc.into(), ports: vec![] };
    let (said, outside) = traffic(&cgroup, cc, EACH, || assign("every", &every, &cgroup).unwrap());
    assert_eq!(said, format!("{:?}", [EACH; 6]));
    assert_eq!(outside, [0; 6]);
    let there = assigned().unwrap();
    let id = rustix::fs::stat(&cgroup).unwrap().st_ino;
    assert_eq!((there.len(), &there[0].assignment, there[0].cgroup), (1, &every, Some(id)));
    assert_eq!((there[0].given, there[0].refused, there[0].kind), (6 * EACH as u64, 0, AssignedKind::Cgroup));
    let taken = assign("every", &every, &cgroup).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::NameTaken, "{taken:?}");
    unassign("every", AssignedKind::Cgroup).unwrap();
    let (said, outside) = traffic(&cgroup, cc, 4, || ());
    assert_eq!((said.as_str(), outside.as_slice()), ("[0, 0, 0, 0, 0, 0]", [0; 6].as_slice()));

    // The ports of the service's own IPv4 and of the peer's IPv6.
    let some =
        Assignment { cc: cc.into(), ports: vec![(1, 10), (SERVICE[0], SERVICE[0]), (PEER[1], PEER[1])] };
    let (said, outside) = traffic(&cgroup, cc, EACH, || assign("some", &some, &cgroup).unwrap());
    assert_eq!(said, format!("{:?}", [0, EACH, 0, EACH, 0, 0]), "out over IPv6, in over IPv4");
    assert_eq!(outside, [0; 6]);
    assert_eq!(assigned().unwrap()[0].given, 2 * EACH as u64);
    // The whole test's cgroup is above the service's.
    let pin = assign_program("alone", &some).unwrap();
    assert_eq!(pin, assigned_program("alone"));
    assert_eq!(assigned().unwrap().iter().map(|a| a.id.as_str()).collect::<Vec<_>>(), ["alone", "some"]);
    unassign("alone", AssignedKind::Program).unwrap();
    fs::remove_dir(&cgroup).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while assigned().unwrap()[0].cgroup.is_some() {
        assert!(Instant::now() < deadline, "the link outlives its cgroup");
        std::thread::sleep(Duration::from_millis(20));
    }
    unassign("some", AssignedKind::Cgroup).unwrap();
    assert!(assigned().unwrap().is_empty() && !Path::new(SCOPES).exists() && !Path::new(PROGRAMS).exists());
    let none = unassign("some", AssignedKind::Cgroup).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotLoaded, "{none:?}");
    let unknown = Assignment { cc: "nosuch".into(), ports: vec![] };
    assert_eq!(assign("x", &unknown, &cgroups.top).unwrap_err().kind(), ErrorKind::NotLoaded);
    let error = format!("{:#}", assign("x", &every, Path::new("/proc")).unwrap_err());
    assert!(error.contains("/proc is not a cgroup of version 2\nhint: "), "{error}");
}

/// Somebody else's program, which counts the connections that it sees, and gives them a congestion control.
pub(crate) struct Foreign {
    object: Object,
    _link: Option<Link>,
    cgroup: File,
}

impl Foreign {
    fn attach(cgroup: &Path, way: Way, cc: &str) -> Self {
        Foreign::try_attach(cgroup, way, cc).expect("the kernel takes it")
    }

    /// `None` where the kernel does not let it in.
    pub(crate) fn try_attach(cgroup: &Path, way: Way, cc: &str) -> Option<Self> {
        let object = load(&Assignment { cc: cc.into(), ports: vec![] }).unwrap();
        let cgroup = File::open(cgroup).unwrap();
        let program = program_of(&object).unwrap();
        let link = match way {
            Way::Link => Some(program.attach_cgroup(cgroup.as_raw_fd()).ok()?),
            Way::Rules(rules) => {
                let at = libbpf_sys::BPF_CGROUP_SOCK_OPS;
                let program = program.as_fd().as_raw_fd();
                // SAFETY: both descriptors are open.
                let failed = unsafe { libbpf_sys::bpf_prog_attach(program, cgroup.as_raw_fd(), at, rules) };
                (failed == 0).then_some(None)?
            }
        };
        Some(Self { object, _link: link, cgroup })
    }

    pub(crate) fn seen(&self) -> u64 {
        let value = map_of(&self.object, COUNTERS).unwrap().lookup(&ONLY_KEY, MapFlags::ANY).unwrap();
        to_words(&value.unwrap())[0]
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let program = program_of(&self.object).unwrap();
        let at = libbpf_sys::BPF_CGROUP_SOCK_OPS;
        // SAFETY: both descriptors are open. It fails where a link did it.
        unsafe { libbpf_sys::bpf_prog_detach2(program.as_fd().as_raw_fd(), self.cgroup.as_raw_fd(), at) };
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Link,
    Rules(u32),
}

#[test]
#[ignore = "run by another test"]
fn beside_others() {
    demand();
    let (cgroups, cc) = (Cgroups::new(), another_cc());
    let (ours, below) = (cgroups.below("b"), cgroups.below("b/c"));
    let assignment = Assignment { cc: cc.into(), ports: vec![] };
    for (theirs, place) in [(&cgroups.top, "above"), (&ours, "same"), (&below, "below")] {
        for way in [Way::Rules(0), Way::Rules(OVERRIDE), Way::Rules(MULTI), Way::Link] {
            let foreign = Foreign::attach(theirs, way, cc);
            let result = assign("ours", &assignment, &ours);
            let is_alone = matches!(way, Way::Rules(0 | OVERRIDE)) && place != "below";
            if let Err(e) = &result {
                println!("{place}, {way:?}: {e:#}");
                let name = fs::canonicalize(theirs).unwrap().display().to_string();
                assert!(
                    format!("{e:#}").contains(&format!("the cgroup {name} has a sockops program")),
                    "{e:?}"
                );
                assert_eq!(e.kind(), ErrorKind::RefusedByKernel);
            }
            assert_eq!(result.is_err(), is_alone, "{place}, {way:?}");
            let where_to = if place == "below" { &below } else { &ours };
            let (said, _) = traffic(where_to, cc, 2, || ());
            assert_eq!(said, format!("{:?}", [2; 6]), "{place}, {way:?}");
            assert_eq!(foreign.seen(), 12, "{place}, {way:?}: theirs goes on");
            if result.is_ok() {
                assert_eq!(assigned().unwrap()[0].given, 12, "{place}, {way:?}: so does ours");
                unassign("ours", AssignedKind::Cgroup).unwrap();
            }
        }
    }
}

/// A process that assigns and takes away until it is killed, at 50 moments of a round: what is attached is what is pinned.
#[test]
#[ignore = "run by another test"]
fn killed() {
    demand();
    let (cgroups, cc) = (Cgroups::new(), another_cc());
    let folder = File::open(&cgroups.top).unwrap();
    let mut outcomes = [0; 2];
    let start = || {
        let variables = [("CGROUP", cgroups.top.display().to_string()), ("CC", cc.to_string())];
        let mut other = Other::start("assign::root_tests::assigns_until_killed", &variables);
        other.line();
        other
    };
    // The kernel checks the programs in the first part of a round, for longer the newer it is.
    let (mut other, began) = (start(), Instant::now());
    other.line();
    let round = began.elapsed();
    other.kill();
    // Killed in its second round it may have left an assignment.
    let _ = unassign("killed", AssignedKind::Cgroup);
    for moment in 0..50 {
        let other = start();
        std::thread::sleep(round * moment / 50);
        other.kill();
        let pinned = assigned().unwrap().len();
        outcomes[pinned] += 1;
        let deadline = Instant::now() + Duration::from_secs(10);
        while sockops_at(folder.as_fd()).unwrap().ids.len() != pinned {
            assert!(Instant::now() < deadline, "{pinned} pinned, and another number attached");
            std::thread::sleep(Duration::from_millis(1));
        }
        if pinned == 1 {
            unassign("killed", AssignedKind::Cgroup).unwrap();
            assert!(sockops_at(folder.as_fd()).unwrap().ids.is_empty());
        }
    }
    println!("killed 50 times in {round:?}: {} without, {} with the assignment", outcomes[0], outcomes[1]);
    assert!(outcomes.iter().all(|n| *n > 0), "the kills came at one moment only");
}

#[test]
#[ignore = "run by another test"]
fn assigns_until_killed() {
    demand();
    let variable = |name| std::env::var(name).unwrap();
    let (cc, cgroup) = (variable("CC"), variable("CGROUP"));
    let assignment = Assignment { cc, ports: vec![] };
    say("ready");
    loop {
        assign("killed", &assignment, Path::new(&cgroup)).unwrap();
        // To take it away waits for a grace period of RCU, 5 to 20 ms. Held for much less, few of the kills would find it.
        std::thread::sleep(Duration::from_millis(10));
        unassign("killed", AssignedKind::Cgroup).unwrap();
        say("a round");
    }
}
