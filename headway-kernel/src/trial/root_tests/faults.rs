//! Root tests: a trial among the programs of others, without memory, with a full ring, and killed.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd;

use libbpf_rs::query::ProgInfoIter;

use super::*;
use crate::assign::root_tests::{Foreign, Way};
use crate::calls::{MULTI, OVERRIDE};
use crate::error::ErrorKind;
use crate::private::{Other, say, wait_until};

#[test]
fn root_trial_other_programs_go_on_working() {
    here("trial::root_tests::faults::beside_others");
}

#[test]
fn root_trial_what_finds_no_room_is_counted() {
    here("trial::root_tests::faults::full_ring");
    here("trial::root_tests::faults::no_storage");
}

#[test]
fn root_trial_a_killed_one_leaves_nothing() {
    here("trial::root_tests::faults::killed");
}

#[test]
#[ignore = "minutes: `make test-long`"]
fn long_lab_trial_faults_are_the_same_on_each_kernel() {
    for test in ["beside_others", "full_ring", "no_storage", "killed"] {
        in_guests(&format!("trial::root_tests::faults::{test}"));
    }
}

/// Connections in each case.
const FEW: usize = 20;

const WAYS: [(Way, &str); 4] = [
    (Way::Rules(0), "flags 0"),
    (Way::Rules(OVERRIDE), "OVERRIDE"),
    (Way::Rules(MULTI), "MULTI"),
    (Way::Link, "link"),
];

fn attach(cgroup: &Path) -> Result<Trial> {
    let trial = Trial::attach(&TrialOptions::new(ARMS), cgroup)?;
    trial.set_slot(0, 0)?;
    Ok(trial)
}

/// A few connections of a cgroup, all ended.
fn traffic(cgroup: &Path) {
    drop(connections(&KINDS[0], false, cgroup, FEW, 0));
}

#[test]
#[ignore = "run by another test"]
fn beside_others() {
    demand();
    let cgroups = Cgroups::new();
    let (ours, below) = (cgroups.below("b"), cgroups.below("b/c"));
    println!("| theirs | place | how | they ran | enrolled | as set | told |");
    for (theirs, place) in [(&cgroups.top, "above"), (&ours, "same"), (&below, "below")] {
        let runs_in = if place == "below" { &below } else { &ours };
        for (way, how) in WAYS {
            there_before(theirs, place, way, how, [&ours, runs_in]);
            comes_later(theirs, place, way, how, [&ours, runs_in]);
        }
    }
    is_told_when_detached(&ours);
    for is_first in [true, false] {
        replaces_what_others_ask_for(&ours, is_first);
    }
}

/// A program that asks for its calls as if it were alone. Before ours it keeps what it asked for. After ours it takes from us
/// what we asked for, and that is told.
fn replaces_what_others_ask_for(cgroup: &Path, is_first: bool) {
    let object = ObjectBuilder::default().open_memory(object!("flags")).unwrap().load().unwrap();
    let folder = File::open(cgroup).unwrap();
    let their = || object.progs_mut().next().unwrap().attach_cgroup(folder.as_raw_fd()).unwrap();
    let before = is_first.then(their);
    let trial = attach(cgroup).unwrap();
    let after = (!is_first).then(their);
    traffic(cgroup);
    wait_until("none is open", || trial.open().unwrap().is_empty());
    let value = map_of(&object, COUNTERS).unwrap().lookup(&ONLY_KEY, MapFlags::ANY).unwrap().unwrap();
    let [asked, kept, replaced] = to_words(&value).try_into().unwrap();
    let vanished = trial.counters().unwrap().vanished(0);
    println!("flags, ours after theirs: {is_first}: {kept} calls keep theirs, {vanished} of ours vanish");
    assert_eq!((asked, replaced), (FEW as u64, 0));
    assert_eq!((vanished, kept > 0), if is_first { (0, true) } else { (FEW as u64, false) });
    drop((before, after));
}

/// The controller that the others' program gives: not that of the arm.
const THEIRS: &str = ARMS[1];

fn there_before(theirs: &Path, place: &str, way: Way, how: &str, [ours, runs_in]: [&Path; 2]) {
    let foreign = Foreign::try_attach(theirs, way, THEIRS).unwrap();
    let trial = attach(ours);
    traffic(runs_in);
    assert_eq!(foreign.seen(), FEW as u64, "{place}, {how}: theirs goes on");
    let is_alone = matches!(way, Way::Rules(0 | OVERRIDE)) && place != "below";
    let Ok(mut trial) = trial else {
        assert_eq!(trial.unwrap_err().kind(), ErrorKind::RefusedByKernel);
        assert!(is_alone, "{place}, {how}");
        return println!("| before | {place} | {how} | {FEW} | ours is refused | | |");
    };
    let neighbours = trial.neighbours().unwrap();
    assert!(!is_alone && neighbours.is_attached && neighbours.since.is_empty(), "{neighbours:?}");
    assert_eq!(neighbours.before.len(), 1);
    // The programs of a cgroup run before those of the cgroups above it, and the last one has the last word.
    outcome(&mut trial, ["before", place, how, "1 from before"], foreign.seen(), place != "above");
}

fn comes_later(theirs: &Path, place: &str, way: Way, how: &str, [ours, runs_in]: [&Path; 2]) {
    let mut trial = attach(ours).unwrap();
    let Some(foreign) = Foreign::try_attach(theirs, way, THEIRS) else {
        traffic(runs_in);
        assert!(place == "same" && matches!(way, Way::Rules(0 | OVERRIDE)), "{place}, {how}");
        return outcome(&mut trial, ["later", place, how, "theirs is refused"], 0, true);
    };
    traffic(runs_in);
    let neighbours = trial.neighbours().unwrap();
    let is_run = place != "above" || matches!(way, Way::Rules(MULTI) | Way::Link);
    assert_eq!(neighbours.since.len(), usize::from(is_run), "{place}, {how}: {neighbours:?}");
    assert!(neighbours.is_attached && neighbours.before.is_empty());
    if let Some(found) = neighbours.since.first() {
        assert_eq!((found.name.as_str(), found.cgroup.is_some()), ("assign", place == "below"));
    }
    assert_eq!(foreign.seen(), if is_run { FEW as u64 } else { 0 }, "{place}, {how}");
    let told = if is_run { "1 came since" } else { "none" };
    outcome(&mut trial, ["later", place, how, told], foreign.seen(), !is_run || place == "below");
}

/// All of ours take part and are recorded, whoever else is there; with whose controller is another question.
fn outcome(trial: &mut Trial, [when, place, how, told]: [&str; 4], seen: u64, is_as_set: bool) {
    let records = fetch(trial, FEW);
    let as_set = records.iter().filter(|r| r.as_set).count();
    let counters = trial.counters().unwrap();
    println!("| {when} | {place} | {how} | {seen} | {} | {as_set} | {told} |", records.len());
    assert_eq!((records.len(), counters.enrolled), (FEW, [FEW as u64, 0]), "{when}, {place}, {how}");
    assert_eq!(counters.not_as_set, (FEW - as_set) as u64);
    assert_eq!(as_set, if is_as_set { FEW } else { 0 }, "{when}, {place}, {how}");
}

fn is_told_when_detached(cgroup: &Path) {
    let trial = attach(cgroup).unwrap();
    assert!(trial.neighbours().unwrap().is_attached);
    trial.link.detach().unwrap();
    assert!(!trial.neighbours().unwrap().is_attached);
    let gone = cgroup.join("gone");
    fs::create_dir(&gone).unwrap();
    let trial = attach(&gone).unwrap();
    fs::remove_dir(&gone).unwrap();
    wait_until("the link ends with its cgroup", || !trial.neighbours().unwrap().is_attached);
}

/// A ring of a page has room for ten records.
#[test]
#[ignore = "run by another test"]
fn full_ring() {
    demand();
    let cgroups = Cgroups::new();
    let cgroup = cgroups.below("service");
    let options = TrialOptions { ring_bytes: 1, ..TrialOptions::new(ARMS) };
    let mut trial = Trial::attach(&options, &cgroup).unwrap_or_else(|e| panic!("{e:#}"));
    trial.set_slot(0, ALL / 2).unwrap();
    for round in 1..=3 {
        drop(connections(&KINDS[0], false, &cgroup, 50, 0));
        let counts = || {
            let c = trial.counters().unwrap();
            (c.enrolled.iter().sum::<u64>(), c.recorded, c.lost)
        };
        wait_until("all have ended", || counts().1 + counts().2 == 50 * round);
        assert_eq!(counts(), (50 * round, 10 * round, 40 * round));
        let records = trial.ended().unwrap();
        assert_eq!((records.len(), trial.open().unwrap().len()), (10, 0));
    }
}

/// Room in the spare table.
const SPARE_ROOM: usize = 20;

#[test]
#[ignore = "run by another test"]
fn no_storage() {
    demand();
    let optmem = "/proc/sys/net/core/optmem_max";
    if !fs::exists(optmem).unwrap() {
        return println!("skipped: this kernel has one optmem_max for all");
    }
    fs::write(optmem, "256").unwrap();
    let cgroups = Cgroups::new();
    let cgroup = cgroups.below("service");
    let options = TrialOptions { spares: SPARE_ROOM as u32, ..TrialOptions::new(["reno", "reno"]) };
    let mut trial = Trial::attach(&options, &cgroup).unwrap_or_else(|e| panic!("{e:#}"));
    trial.set_slot(0, ALL / 2).unwrap();
    for round in 1..=2 {
        let all = connections(&KINDS[0], false, &cgroup, SPARE_ROOM + 10, SPARE_ROOM + 10);
        let counters = trial.counters().unwrap();
        assert_eq!((counters.spare, counters.without_storage), (20 * round, 10 * round), "{counters:?}");
        assert_eq!(counters.enrolled.iter().sum::<u64>(), 20 * round);
        let open = trial.open().unwrap();
        let enrolled: BTreeSet<u64> = open.iter().map(|r| r.cookie).collect();
        assert_eq!(enrolled.len(), SPARE_ROOM);
        for [near, _] in &all {
            let is_enrolled = enrolled.contains(&socket_cookie(near).unwrap());
            let has_reno = tcp_congestion(near).unwrap() == "reno";
            assert_eq!(has_reno, is_enrolled, "what is left out keeps what it had");
        }
        for record in &open {
            assert!(record.as_set && record.is_open() && record.bytes_acked == 1001, "{record:?}");
            assert!(record.remote.is_loopback() && record.rtt_counts.iter().sum::<u32>() > 0, "{record:?}");
        }
        drop(all);
        let records = fetch(&mut trial, SPARE_ROOM);
        assert_eq!((records.len(), trial.open().unwrap().len()), (SPARE_ROOM, 0));
        assert!(records.iter().all(|r| r.end == End::Closed && r.as_set && r.bytes_sent == 1000));
    }
}

#[test]
#[ignore = "run by another test"]
fn killed() {
    demand();
    let cgroups = Cgroups::new();
    let cgroup = cgroups.below("service");
    let folder = File::open(&cgroup).unwrap();
    let default = crate::read_line("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let arm = ARMS.iter().find(|arm| **arm != default).unwrap().to_string();
    let pinned = || fs::read_dir("/sys/fs/bpf").unwrap().count();
    let (mut open, mut given, before) = (Vec::new(), 0, pinned());
    for moment in 0..50 {
        let variables = [("CGROUP", cgroup.display().to_string()), ("CC", arm.clone())];
        let mut other = Other::start("trial::root_tests::faults::runs_until_killed", &variables);
        let program: u32 = other.line().parse().unwrap();
        let until = Instant::now() + Duration::from_micros(moment * 1_370);
        while Instant::now() < until {
            open.extend(connections(&KINDS[0], false, &cgroup, 1, 1));
        }
        other.kill();
        let is_gone = || ProgInfoIter::default().all(|p| p.id != program);
        wait_until("nothing is attached", || sockops_at(folder.as_fd()).unwrap().ids.is_empty());
        wait_until("no program is left", is_gone);
        given += open.iter().filter(|[near, _]| tcp_congestion(near).unwrap() == arm).count();
        for [near, far] in &mut open {
            near.write_all(&[moment as u8]).unwrap();
            far.read_exact(&mut [0]).unwrap();
        }
        let after = &connections(&KINDS[0], false, &cgroup, 1, 1)[0][0];
        assert_eq!(tcp_congestion(after).unwrap(), default);
        open.truncate(20);
        if moment % 10 == 9 {
            // A guest that says nothing for long counts as stuck.
            println!("killed {} times", moment + 1);
        }
    }
    assert_eq!(pinned(), before, "nothing is pinned");
    println!("killed 50 times, nothing left; {given} open connections went on with the arm's controller");
    assert!(given > 50);
}

#[test]
#[ignore = "run by another test"]
fn runs_until_killed() {
    demand();
    let variable = |name| std::env::var(name).unwrap();
    let cc = variable("CC");
    let mut trial = Trial::attach(&TrialOptions::new([&cc, &cc]), Path::new(&variable("CGROUP"))).unwrap();
    say(&trial.program.to_string());
    for slot in 0.. {
        trial.set_slot(slot, ALL / 2).unwrap();
        trial.ended().unwrap();
        trial.open().unwrap();
        trial.neighbours().unwrap();
    }
}
