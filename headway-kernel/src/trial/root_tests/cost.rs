//! Root tests: what a trial costs, in time and in memory.

use std::collections::BTreeMap;

use libbpf_rs::query::ProgInfoIter;
use rustix::net::listen;

use super::*;
use crate::private::{count_calls, slab};

#[test]
fn root_trial_costs_little_time() {
    here("trial::root_tests::cost::time");
}

#[test]
fn root_trial_costs_little_memory() {
    here("trial::root_tests::cost::memory");
}

#[test]
#[ignore = "a minute: `make test-long`"]
fn long_lab_trial_costs_the_same_on_each_kernel() {
    in_guests("trial::root_tests::cost::time");
}

/// How often our program was called, and for how many nanoseconds.
fn spent(trial: &Trial) -> [u64; 2] {
    let ours = ProgInfoIter::default().find(|p| p.id == trial.program).unwrap();
    [ours.run_cnt, ours.run_time_ns]
}

/// The median of rounds, because others may be at work on this machine: calls, and nanoseconds, for one of `count`.
fn cost(trial: &Trial, count: u64, mut round: impl FnMut()) -> [f64; 2] {
    const ROUNDS: usize = 7;
    let mut rounds: Vec<[f64; 2]> = (0..ROUNDS)
        .map(|_| {
            let before = spent(trial);
            round();
            let after = spent(trial);
            [0, 1].map(|i| (after[i] - before[i]) as f64 / count as f64)
        })
        .collect();
    rounds.sort_by(|a, b| a[1].total_cmp(&b[1]));
    rounds[ROUNDS / 2]
}

#[test]
#[ignore = "run by another test"]
fn time() {
    demand();
    let _counting = count_calls();
    let cgroups = Cgroups::new();
    let cgroup = cgroups.below("service");
    let of = |options: &TrialOptions| {
        let trial = Trial::attach(options, &cgroup).unwrap_or_else(|e| panic!("{e:#}"));
        trial.set_slot(0, ALL / 2).unwrap();
        trial
    };
    let begin = || TrialOptions::new(ARMS);
    let mut trial = of(&begin());
    let a_connection = cost(&trial, 500, || drop(connections(&KINDS[0], true, &cgroup, 500, 0)));
    fetch(&mut trial, 7 * 500);
    let listener = inside(&cgroup, || KINDS[0].listen());
    let [mut near, mut far] = KINDS[0].pair(&listener);
    let an_answer = cost(&trial, 2000, || {
        for _ in 0..2000 {
            near.write_all(&[1]).unwrap();
            far.read_exact(&mut [0]).unwrap();
            far.write_all(&[1]).unwrap();
            near.read_exact(&mut [0]).unwrap();
        }
    });
    drop((near, far, listener));
    let samples = fetch(&mut trial, 1)[0].rtt_counts.iter().sum::<u32>();
    assert!(u64::from(samples) > 7 * 1900, "each answer is a sample: {samples}");
    drop(trial);
    let elsewhere = of(&TrialOptions { ports: vec![(1, 1)], ..begin() });
    let another = cost(&elsewhere, 500, || drop(connections(&KINDS[0], true, &cgroup, 500, 0)));
    for (of, [calls, ns]) in [
        ("a connection, whole", a_connection),
        ("an RTT sample", an_answer),
        ("a connection of other ports", another),
    ] {
        println!("| {of} | {calls:.2} | {ns:.0} |");
    }
    assert!(a_connection[1] < 10_000.0 && an_answer[1] < 2_000.0 && another[1] < 2_000.0);
}

const CROWD: usize = 5000;

/// The kernel's caches once what an earlier crowd had is given back, which happens a while after it has gone.
fn settled() -> BTreeMap<String, i64> {
    let total = |caches: &BTreeMap<String, i64>| caches.values().sum::<i64>();
    let mut last = slab();
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = slab();
        if total(&now) > total(&last) - CROWD as i64 {
            return now;
        }
        last = now;
    }
}

/// Bytes by which each of the kernel's caches grows for each of a crowd of connections that wait to be accepted.
fn of_a_crowd(cgroup: &Path) -> BTreeMap<String, i64> {
    let listener = TcpListener::from(socket_of("", false));
    rustix::net::bind(&listener, &"127.0.0.1:4001".parse::<SocketAddr>().unwrap()).unwrap();
    listen(&listener, 2 * CROWD as i32).unwrap();
    let before = settled();
    let crowd: Vec<_> =
        inside(cgroup, || (0..CROWD).map(|_| TcpStream::connect("127.0.0.1:4001").unwrap()).collect());
    let after = slab();
    drop(crowd);
    let grown = |name: &str, n: i64| (n - before.get(name).unwrap_or(&0)) / CROWD as i64;
    after.into_iter().map(|(name, n)| (name.clone(), grown(&name, n))).collect()
}

#[test]
#[ignore = "run by another test"]
fn memory() {
    demand();
    fs::write("/proc/sys/net/core/somaxconn", (2 * CROWD).to_string()).unwrap();
    let cgroups = Cgroups::new();
    let cgroup = cgroups.below("service");
    let without = of_a_crowd(&cgroup);
    let mut trial = Trial::attach(&TrialOptions::new(ARMS), &cgroup).unwrap_or_else(|e| panic!("{e:#}"));
    trial.set_slot(0, ALL / 2).unwrap();
    let with = of_a_crowd(&cgroup);
    fetch(&mut trial, CROWD);
    let more: Vec<(&String, i64)> = with
        .iter()
        .map(|(name, n)| (name, n - without.get(name).unwrap_or(&0)))
        // BPF takes its memory from these; what happens in others is the rest of the machine's doing.
        .filter(|(name, n)| name.starts_with("kmalloc-") && n.abs() > 20)
        .collect();
    let total = more.iter().map(|(_, n)| n).sum::<i64>();
    println!(
        "{} bytes of slab a connection without, {total} more with: {more:?}",
        without.values().sum::<i64>()
    );
    assert!((400..=500).contains(&total), "{more:?}");
    let spare = trial.object.maps().find(|m| is_named(m.name(), SPARES)).unwrap();
    assert_eq!((spare.key_size(), spare.value_size()), (8, 192));
    let own = trial.object.maps().find(|m| is_named(m.name(), ENROLLED)).unwrap();
    // 72 bytes come before it, so that a block of 256 is full.
    assert_eq!(own.value_size(), 184);
}
