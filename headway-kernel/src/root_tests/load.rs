//! Load and faults: ten thousand connections, thousands a second, no memory for their state, a path that changes under
//! their data, sequence numbers that wrap, controllers that come and go. What is asked each time: did all data arrive as
//! it was sent, does every event replay equal, and is what the kernel held for us given back. The figures are in
//! docs/measurements/faults.md.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::query::{LinkInfoIter, ProgInfoIter, ProgInfoQueryOptions};

use super::losses::told_without_a_gap;
use super::*;
use crate::loaded::{pin_of, unregister};
use crate::private::{
    bind_any, count_calls, demand, here, set_number, set_option, slab, socket_of, wait_until,
};
use crate::{Order, is_registered, unload};

/// What a controller has in the kernel, by the kernel's own numbers: what neighbours load meanwhile does not count.
#[derive(Debug)]
struct InKernel {
    maps: Vec<u32>,
    programs: Vec<u32>,
    link: u32,
}

impl InKernel {
    fn of(attached: &Attached) -> Self {
        let maps: Vec<u32> = attached.object.maps().map(|m| m.info().unwrap().info.id).collect();
        let with_maps = ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default().include_map_ids(true));
        let programs: Vec<u32> =
            with_maps.filter(|p| p.map_ids.iter().any(|id| maps.contains(id))).map(|p| p.id).collect();
        assert!(maps.len() >= 5 && programs.len() >= 8, "{maps:?} {programs:?}");
        Self { maps, programs, link: attached._link.info().unwrap().id }
    }

    /// Whether the kernel has freed all of it. It does so after a grace period.
    fn is_gone(&self) -> bool {
        self.maps.iter().all(|id| MapHandle::from_map_id(*id).is_err())
            && ProgInfoIter::default().all(|p| !self.programs.contains(&p.id))
            && LinkInfoIter::default().all(|l| l.id != self.link)
    }
}

/// The bytes that all maps of a controller take, as the kernel counts them; elements of socket storage are not in it.
fn bytes_of_maps(attached: &Attached) -> u64 {
    let bytes_of = |fd: i32| {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
        info.lines().find_map(|l| l.strip_prefix("memlock:")?.trim().parse::<u64>().ok()).unwrap()
    };
    attached.object.maps().map(|m| bytes_of(m.as_fd().as_raw_fd())).sum()
}

/// The caches that grew most, and the sum of all.
fn growth(before: &BTreeMap<String, i64>, after: &BTreeMap<String, i64>) -> (Vec<(String, i64)>, i64) {
    let mut grown: Vec<_> =
        after.iter().map(|(name, n)| (name.clone(), n - before.get(name).unwrap_or(&0))).collect();
    let sum = grown.iter().map(|(_, n)| n).sum();
    grown.sort_by_key(|(_, n)| -n);
    grown.truncate(6);
    (grown, sum)
}

/// Bytes of the caches from which socket storage of `bbr3` comes: its 6.2 KB take a block of 8 KB.
fn in_blocks_of_8k(slab: &BTreeMap<String, i64>) -> i64 {
    slab.iter()
        .filter(|(name, _)| name.starts_with("kmalloc-") && name.ends_with("-8k"))
        .map(|(_, n)| n)
        .sum()
}

/// A line of /proc/meminfo, in bytes.
fn meminfo(key: &str) -> i64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse::<i64>().unwrap() << 10
}

/// What the kernel says when it finds itself in the wrong. Lines of other programs' doing count, too: there are none.
fn complaints() -> usize {
    let log = Command::new("dmesg").output().unwrap();
    let bad = ["WARNING:", "BUG:", "general protection", "Oops", "soft lockup", "hung task"];
    text_of(&log).lines().filter(|l| bad.iter().any(|b| l.contains(b))).count()
}

fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// How often the programs were called, and for how long.
fn calls(kernel: &InKernel) -> (u64, Duration) {
    let ours = ProgInfoIter::default().filter(|p| kernel.programs.contains(&p.id));
    let (calls, ns) = ours.fold((0, 0), |(calls, ns), p| (calls + p.run_cnt, ns + p.run_time_ns));
    (calls, Duration::from_nanos(ns))
}

/// What each connection sends at once, none of it the same.
const MESSAGE: usize = 4000;

/// Connects `count` times over loopback with the congestion control `cc`, and moves a message over each connection.
fn meet(count: usize, cc: &str) -> Vec<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let meet = |number| {
        let mut near = TcpStream::connect(to).unwrap();
        choose(&near, cc).unwrap();
        let mut far = listener.accept().unwrap().0;
        talk(&mut near, &mut far, number);
        (near, far)
    };
    (0..count).map(meet).collect()
}

fn talk(near: &mut TcpStream, far: &mut TcpStream, number: usize) {
    let mut got = vec![0; MESSAGE];
    near.write_all(&message(number)).unwrap();
    far.read_exact(&mut got).unwrap();
    assert!(got == message(number), "what connection {number} sent arrived otherwise");
}

fn message(number: usize) -> Vec<u8> {
    (0..MESSAGE).map(|at| pattern((number * MESSAGE + at) as u64)).collect()
}

/// The byte at a place of a stream. Neighbours differ, and so do places that are a power of two apart.
fn pattern(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

const TEN_THOUSAND: usize = 10_000;

#[test]
fn root_ten_thousand_connections_at_once_have_their_state_and_give_it_back() {
    here("root_tests::load::ten_thousand_at_once");
}

/// The same connections with `reno`, which has no state of its own, show what the connections cost without us.
#[test]
#[ignore = "run by another test"]
fn ten_thousand_at_once() {
    demand();
    fs::write("/proc/sys/net/core/somaxconn", (2 * TEN_THOUSAND).to_string()).unwrap();
    let by_reno = stand("reno", || ());
    let attached = attach_program(Program::named("bbr3").unwrap(), 'A', false).unwrap();
    let kernel = InKernel::of(&attached);
    let (maps, counting) = (bytes_of_maps(&attached), count_calls());
    let by_bbr3 = stand(attached.name(), || all_are_there(&attached));
    wait_until("all have ended", || attached.counters().unwrap().past.flows == TEN_THOUSAND as u64);
    let (calls, time) = calls(&kernel);
    drop(counting);
    println!("{:?}", attached.counters().unwrap());
    println!(
        "bbr3: {} bytes of storage a connection, {} more of all slab than reno; all maps {maps} bytes",
        by_bbr3.storage,
        by_bbr3.slab - by_reno.slab,
    );
    println!(
        "bbr3: {} calls of programs a connection, {} ns a call",
        calls as f64 / TEN_THOUSAND as f64,
        time.as_nanos() / u128::from(calls)
    );
    // Others may be at work on this machine, and 10,000 blocks are far more than they take.
    assert!((7000..10_000).contains(&by_bbr3.storage), "{by_bbr3:?}");
    assert_eq!(bytes_of_maps(&attached), maps, "the maps do not grow with flows");
    let left = || in_blocks_of_8k(&slab()) - in_blocks_of_8k(&by_bbr3.before);
    wait_until("the storage is given back", || left() < 8192 * TEN_THOUSAND as i64 / 20);
    drop(attached);
    wait_until("all of it is gone", || kernel.is_gone());
}

/// What one connection of ten thousand took, in bytes.
#[derive(Debug)]
struct Took {
    before: BTreeMap<String, i64>,
    /// In the caches that hold our state.
    storage: i64,
    /// In all caches.
    slab: i64,
}

/// Has ten thousand connections at once. The far ends wait to be accepted, so that they take no descriptors, of which a
/// process may have 20,000 here.
fn stand(cc: &str, meanwhile: impl FnOnce()) -> Took {
    let each = |n: i64| n / TEN_THOUSAND as i64;
    let listener = TcpListener::from(socket_of("", false));
    let any = std::net::SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), 0);
    rustix::net::bind(&listener, &any).unwrap();
    rustix::net::listen(&listener, 2 * TEN_THOUSAND as i32).unwrap();
    let to = listener.local_addr().unwrap();
    let (before, begun) = (slab(), cpu());
    let mut connections: Vec<_> = (0..TEN_THOUSAND)
        .map(|number| {
            let mut near = TcpStream::connect(to).unwrap();
            choose(&near, cc).unwrap();
            near.write_all(&message(number)).unwrap();
            near
        })
        .collect();
    let (took, there) = (cpu() - begun, slab());
    meanwhile();
    for (number, near) in connections.drain(..).enumerate() {
        near.shutdown(std::net::Shutdown::Write).unwrap();
        let mut got = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
        assert!(got == message(number), "what connection {number} sent arrived otherwise");
    }
    let (caches, sum) = growth(&before, &there);
    let caches: Vec<_> = caches.into_iter().map(|(name, n)| format!("{name} {}", each(n))).collect();
    println!("{cc}: {} bytes of slab a connection ({})", each(sum), caches.join(", "));
    println!("{cc}: {} ns of CPU a connection, to its first data", took.as_nanos() / TEN_THOUSAND as u128);
    let storage = each(in_blocks_of_8k(&there) - in_blocks_of_8k(&before));
    Took { before, storage, slab: each(sum) }
}

/// None was refused unnoticed: the programs have counted all, and a walk over the sockets finds all.
fn all_are_there(attached: &Attached) {
    let counters = attached.counters().unwrap();
    assert_eq!((counters.flows, counters.spare), (TEN_THOUSAND as u64, 0), "{counters:?}");
    assert_eq!((counters.without_storage, counters.past.flows), (0, 0), "{counters:?}");
    let mut watcher = Watcher::new().unwrap();
    let seen = flows(&mut watcher);
    let seen = seen.iter().filter(|f| *f.socket.name == *attached.name()).count();
    assert_eq!(seen, TEN_THOUSAND, "the flows that a watcher sees");
}

/// Connections a second.
const CHURN: usize = 2000;

#[test]
fn root_connections_that_come_and_go_leave_nothing() {
    here("root_tests::load::churns_for_5_seconds");
}

#[test]
#[ignore = "a minute: `make test-long`"]
fn long_connections_that_come_and_go_for_a_minute_leave_nothing() {
    here("root_tests::load::churns_for_a_minute");
}

#[test]
#[ignore = "run by another test"]
fn churns_for_5_seconds() {
    churn(5);
}

#[test]
#[ignore = "run by another test"]
fn churns_for_a_minute() {
    churn(60);
}

/// Every second connection ends with a reset, as those of impatient clients do. The others leave their port in TIME-WAIT,
/// so there are several addresses to connect to.
fn churn(seconds: usize) {
    demand();
    let attached = attach_program(Program::named("bbr3").unwrap(), 'B', false).unwrap();
    let kernel = InKernel::of(&attached);
    let listeners: Vec<_> =
        (1..9).map(|host| TcpListener::bind(format!("127.0.0.{host}:0")).unwrap()).collect();
    let (maps, before, begun) = (bytes_of_maps(&attached), slab(), Instant::now());
    let count = CHURN * seconds;
    for number in 0..count {
        let due = Duration::from_secs_f64(number as f64 / CHURN as f64);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let listener = &listeners[number / 2 % listeners.len()];
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        choose(&near, attached.name()).unwrap();
        let mut far = listener.accept().unwrap().0;
        talk(&mut near, &mut far, number);
        if number % 2 == 0 {
            sockopt::set_socket_linger(&near, Some(Duration::ZERO)).unwrap();
        }
    }
    let took = begun.elapsed();
    wait_until("all have ended", || attached.counters().unwrap().past.flows == count as u64);
    let counters = attached.counters().unwrap();
    println!("{count} connections in {took:?}: {counters:?}; maps {maps} bytes");
    println!("slab grew in {:?}", growth(&before, &slab()));
    assert_eq!((counters.flows, counters.spare, counters.without_storage), (count as u64, 0, 0));
    // Each has sent its message, and the last few may have been reset before it was acknowledged.
    assert!(counters.past.bytes.sent >= (count * MESSAGE) as u64, "{counters:?}");
    assert_eq!(bytes_of_maps(&attached), maps);
    let left = || in_blocks_of_8k(&slab()) - in_blocks_of_8k(&before);
    wait_until("the storage is given back", || left() < 8192 * 500);
    drop((attached, listeners));
    wait_until("all of it is gone", || kernel.is_gone());
}

/// The spare table as `headway load` sizes it, and more connections than fit into it.
const SPARE_ROOM: u64 = 1024;
const TOO_MANY: u64 = SPARE_ROOM + 400;

#[test]
fn root_more_connections_than_the_spare_table_holds_go_on_and_are_counted() {
    here("root_tests::load::too_many_without_storage");
}

/// Those that find no room run plain AIMD, of which nothing but the counter tells. Once the others have ended, there must
/// be room again.
#[test]
#[ignore = "run by another test"]
fn too_many_without_storage() {
    demand();
    let optmem = "/proc/sys/net/core/optmem_max";
    if !fs::exists(optmem).unwrap() {
        return println!("skipped: this kernel has one optmem_max for all");
    }
    fs::write(optmem, "256").unwrap();
    let attached = attach_program(Program::named("bbr3").unwrap(), 'C', false).unwrap();
    let kernel = InKernel::of(&attached);
    let mut crowd = meet(TOO_MANY as usize, attached.name());
    for (number, (near, far)) in crowd.iter_mut().enumerate() {
        talk(far, near, number);
        talk(near, far, number + 7);
    }
    let counters = attached.counters().unwrap();
    println!("{counters:?}");
    assert_eq!(
        (counters.flows, counters.spare, counters.without_storage),
        (TOO_MANY, SPARE_ROOM, TOO_MANY - SPARE_ROOM)
    );
    drop(crowd);
    wait_until("the spare ones have ended", || attached.counters().unwrap().past.flows == SPARE_ROOM);
    let crowd = meet(SPARE_ROOM as usize, attached.name());
    let counters = attached.counters().unwrap();
    assert_eq!((counters.spare, counters.without_storage), (2 * SPARE_ROOM, TOO_MANY - SPARE_ROOM));
    drop((crowd, attached));
    wait_until("all of it is gone", || kernel.is_gone());
}

#[test]
fn root_an_unload_that_was_killed_halfway_is_finished_by_the_next() {
    here("root_tests::load::half_unloaded");
}

/// An unload lets the kernel unregister the controller first and then removes its file. Killed between the two, it leaves
/// the file of a controller that is not in force.
#[test]
#[ignore = "run by another test"]
fn half_unloaded() {
    demand();
    let order = Order::new("bbr3", Some("hwhalf"), [""; 0]).unwrap();
    order.load().unwrap();
    let pin = pin_of(order.program, "hwhalf");
    unregister(&pin, &Api::of_kernel().unwrap()).unwrap();
    wait_until("it is not registered", || !is_registered("hwhalf"));
    assert!(pin.exists());
    let error = format!("{:#}", unload("hwhalf").unwrap_err());
    assert!(error.contains("it is not loaded"), "{error}");
    assert!(!pin.exists() && !pin.parent().unwrap().exists(), "the file or its folder is left");
    order.load().unwrap();
    unload("hwhalf").unwrap();
}

#[test]
fn root_a_hundred_loads_under_traffic_leave_nothing() {
    hundred_loads(1);
}

#[test]
#[ignore = "minutes: `make test-long`"]
fn long_a_thousand_loads_under_traffic_leave_nothing() {
    hundred_loads(10);
}

fn hundred_loads(times: usize) {
    let keys = ["Slab", "Percpu", "VmallocUsed"];
    let before = keys.map(meminfo);
    (0..times).for_each(|_| here("root_tests::load::loads_a_hundred_times"));
    let grown: Vec<_> = keys.iter().zip(before).map(|(key, n)| (*key, meminfo(key) - n)).collect();
    println!("grown by the end, in bytes: {grown:?}");
}

/// One connection never stops sending and takes each controller that comes, so that each is unregistered amid its data. The
/// spare table alone is 6 MB, so memory that stayed would show.
#[test]
#[ignore = "run by another test"]
fn loads_a_hundred_times() {
    demand();
    let (near, mut far) = pair();
    let mut sender = near.try_clone().unwrap();
    let stops = AtomicBool::new(false);
    let vmalloc = meminfo("VmallocUsed");
    let kernels: Vec<InKernel> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stops.load(Ordering::Relaxed) {
                sender.write_all(&[5; 4096]).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
            sender.shutdown(std::net::Shutdown::Write).unwrap();
        });
        scope.spawn(|| std::io::copy(&mut far, &mut std::io::sink()).unwrap());
        let one = |_| {
            let attached = attach_program(&PROGRAMS[0], 'D', false).unwrap();
            choose(&near, attached.name()).unwrap();
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(attached.counters().unwrap().flows, 1);
            InKernel::of(&attached)
        };
        let kernels = (0..100).map(one).collect();
        choose(&near, "reno").unwrap();
        stops.store(true, Ordering::Relaxed);
        kernels
    });
    let programs: usize = kernels.iter().map(|k| k.programs.len()).sum();
    let maps: usize = kernels.iter().map(|k| k.maps.len()).sum();
    wait_until("all hundred are gone", || kernels.iter().all(InKernel::is_gone));
    let left = meminfo("VmallocUsed") - vmalloc;
    println!("100 loads: {programs} programs and {maps} maps, none left; VmallocUsed grew by {left} bytes");
    assert!(left < 20 * 6_300_000, "{left} bytes are more than neighbours take");
}

/// What a stream of the tests below carries.
const STREAM: u64 = 8 << 20;

/// Two of the ignored tests below over the path of [`LAB`], and `faults` meanwhile. The receiver compares each byte with
/// what must stand there. `before` is run first, and what it exports the two find.
fn stream_through(before: &str, faults: &str) -> String {
    let exe = std::env::current_exe().unwrap();
    let child = |name| format!("{} --exact root_tests::load::{name} --ignored --nocapture", exe.display());
    format!(
        "{before}
         ip netns exec rcv {} > /run/receiver 2>&1 & receiver=$!
         until ip netns exec rcv ss -tan | grep -q :5202; do :; done
         snd {} & sender=$!
         {faults}
         wait $sender
         wait $receiver || {{ cat /run/receiver; exit 1; }}
         cat /run/receiver",
        child("receives_streams"),
        child("sends_streams")
    )
}

/// Demands that all streams arrive whole, that each event replays equal, that every flow is counted as ended, and that the
/// kernel did not complain.
fn whole(tag: char, script: &str) -> Option<Run> {
    if !has_rights() {
        println!("skipped: needs root");
        return None;
    }
    let before = complaints();
    let traced = Traced::start(Program::named("bbr3").unwrap(), tag);
    let kernel = InKernel::of(&traced.attached);
    let output = in_lab(traced.attached.name(), script);
    assert!(output.status.success(), "{}", text_of(&output));
    let counters = || traced.attached.counters().unwrap();
    wait_until("all flows have ended", || counters().past.flows == counters().flows);
    let run = traced.finish();
    println!("{:?}", run.counters);
    wait_until("all of it is gone", || kernel.is_gone());
    assert_eq!(complaints(), before, "the kernel complains: see dmesg");
    Some(run)
}

#[test]
fn root_a_stream_over_ipv6_arrives_whole() {
    let before = "
        ip -n snd addr add fd09:1::1/64 dev vsnd nodad; ip addr add fd09:1::2/64 dev vin nodad
        ip -n rcv addr add fd09:2::1/64 dev vrcv nodad; ip addr add fd09:2::2/64 dev vout nodad
        ip -n snd route add default via fd09:1::2; ip -n rcv route add default via fd09:2::2
        echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
        export TO=[fd09:2::1]:5202";
    let Some(run) = whole('E', &stream_through(before, "")) else { return };
    assert_eq!(run.counters.flows, 1);
}

/// The segment grows and shrinks under the data, so that what is in flight is of several sizes.
#[test]
fn root_a_stream_arrives_whole_while_the_mtu_changes() {
    let faults =
        "for mtu in 1400 576 1500 800 1200 1500; do sleep 0.2; ip -n snd link set vsnd mtu $mtu; done";
    let Some(run) = whole('F', &stream_through("", faults)) else { return };
    let rows = run.text.lines().skip(1).map(|l| split_row(l).unwrap().1);
    let sizes: std::collections::BTreeSet<u64> =
        rows.map(|words| Ack::from_words(&words[..Ack::FIELDS.len()]).unwrap().unit_bytes).collect();
    println!("segments of {sizes:?} bytes");
    assert!(sizes.len() > 2 && sizes.iter().all(|s| (400..1460).contains(s)), "{sizes:?}");
}

/// Segmentation by the card and by the stack, and their reverse at the receiver, off and on every now and then; then
/// bursts of one segment.
#[test]
fn root_a_stream_arrives_whole_while_offloads_go_off_and_on() {
    let exe = std::env::current_exe().unwrap();
    let switch = format!("{} --exact root_tests::load::switches_offloads --ignored", exe.display());
    let faults = format!(
        "for on in 0 1 0 1; do
            sleep 0.2
            ON=$on CARD=vsnd snd {switch}; ON=$on CARD=vrcv ip netns exec rcv {switch}
         done
         ip -n snd link set vsnd gso_max_segs 1; sleep 0.2; ip -n snd link set vsnd gso_max_size 8000 gso_max_segs 64"
    );
    whole('G', &stream_through("", &faults));
}

/// Data in the SYN: the second connection has a cookie. The socket is ours before it is connected, so the ACK of that data
/// comes before a flow begins.
#[test]
fn root_a_stream_that_begins_in_the_syn_arrives_whole() {
    let before = "
        for of in snd rcv; do ip netns exec $of sh -c 'echo 3 > /proc/sys/net/ipv4/tcp_fastopen'; done
        export KIND=fastopen COUNT=2";
    let after = "snd nstat -asz TcpExtTCPFastOpenActive | grep -Eq 'Active +1 '";
    let script = format!("{}\n{after}", stream_through(before, ""));
    let Some(run) = whole('H', &script) else { return };
    assert_eq!(run.counters.flows, 2);
}

/// Each subflow is a connection of its own to a controller.
#[test]
fn root_a_stream_over_two_subflows_of_multipath_tcp_arrives_whole() {
    let before = "
        snd cat /proc/sys/net/mptcp/enabled > /dev/null || exit 77
        ip -n snd addr add 10.9.1.3/24 dev vsnd
        for of in snd rcv; do ip -n $of mptcp limits set subflow 2 add_addr_accepted 2; done
        ip -n snd mptcp endpoint add 10.9.1.3 dev vsnd subflow
        export KIND=multipath";
    let Some(run) = whole('I', &stream_through(before, "")) else { return };
    assert_eq!(run.counters.flows, 2, "one for each subflow");
}

/// The namespaces end with all that is in them, while eight flows have data under way. The kernel goes on sending what a
/// program has left behind, so it is told to give up after the first try instead of the eighth.
#[test]
fn root_flows_end_with_their_namespaces() {
    let script = "
        for of in snd rcv; do ip netns exec $of sh -c 'echo 1 > /proc/sys/net/ipv4/tcp_orphan_retries'; done
        serve; snd iperf3 -c 10.9.2.1 -C $CC -t 30 -P 8 > /dev/null 2>&1 & sleep 2; exit 0";
    let Some(run) = whole('J', script) else { return };
    assert!(run.counters.flows >= 8 && run.report.events > 500, "{:?}", run.report);
}

/// Takes streams and tells their senders how much of each arrived.
#[test]
#[ignore = "run by another test"]
fn receives_streams() {
    let kind = std::env::var("KIND").unwrap_or_default();
    if kind == "repaired" {
        return receive_stream(repaired(false));
    }
    let listener = TcpListener::from(socket_of(&kind, true));
    bind_any(&listener, 5202);
    for _ in 0..count_of_streams() {
        receive_stream(listener.accept().unwrap().0);
    }
}

fn receive_stream(mut from: TcpStream) {
    let (mut at, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        let count = from.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        for byte in &buffer[..count] {
            assert_eq!(*byte, pattern(at), "at {at}");
            at += 1;
        }
    }
    from.write_all(&at.to_be_bytes()).unwrap();
}

#[test]
#[ignore = "run by another test"]
fn sends_streams() {
    let kind = std::env::var("KIND").unwrap_or_default();
    let to = std::env::var("TO").unwrap_or("10.9.2.1:5202".into());
    for _ in 0..count_of_streams() {
        let is_repaired = kind == "repaired";
        let mut near = match is_repaired {
            true => repaired(true),
            false => TcpStream::from(socket_of(&kind, to.starts_with('['))),
        };
        choose(&near, &std::env::var("CC").unwrap()).unwrap();
        if !is_repaired {
            rustix::net::connect(&near, &to.parse::<std::net::SocketAddr>().unwrap()).unwrap();
        }
        assert_eq!(send_stream(&mut near), STREAM, "what the receiver has");
    }
}

/// Sends the stream and its end, and returns how much the receiver says it has.
fn send_stream(near: &mut TcpStream) -> u64 {
    let data: Vec<u8> = (0..STREAM).map(pattern).collect();
    near.write_all(&data).unwrap();
    near.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = [0; 8];
    near.read_exact(&mut answer).unwrap();
    u64::from_be_bytes(answer)
}

fn count_of_streams() -> usize {
    std::env::var("COUNT").map_or(1, |n| n.parse().unwrap())
}

/// Does what `ethtool -K CARD tso gso gro` does.
#[test]
#[ignore = "run by another test"]
fn switches_offloads() {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    const SET_TSO: u32 = 0x1f;
    const SET_GSO: u32 = 0x24;
    const SET_GRO: u32 = 0x2c;
    let (card, on) = (std::env::var("CARD").unwrap(), std::env::var("ON").unwrap().parse::<u32>().unwrap());
    let socket = socket_of("", false);
    for command in [SET_TSO, SET_GSO, SET_GRO] {
        let mut value = [command, on];
        // SAFETY: zeros are a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(card.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        // SAFETY: the request names two words that outlive the call, as these commands demand.
        let rc = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request) };
        assert_eq!(rc, 0, "{command:#x}: {}", std::io::Error::last_os_error());
    }
}

/// A stream beyond 4 GB passes the end of the sequence numbers, which count bytes in 32 bits. These streams begin shortly
/// before it, as the kernel's own means of moving a connection to another machine (`TCP_REPAIR`) allows, so that the wrap
/// comes in the first round trips, or amid losses. The first does not wrap and shows what there is without.
#[test]
fn root_sequence_numbers_wrap_amid_losses() {
    for (tag, before_the_end) in [('K', 1 << 31), ('M', 20_000), ('N', 400_000), ('O', 4_000_000)] {
        let begins = 0_u32.wrapping_sub(before_the_end);
        let before = format!("export KIND=repaired BEGINS={begins}");
        println!("from {begins}");
        if told_without_a_gap(|| whole(tag, &stream_through(&before, ""))).is_none() {
            return;
        }
    }
}

/// One end of a connection without a handshake, of which the sender begins at the sequence number BEGINS. The sender asks
/// for the receiver's window when it leaves the repair; the receiver leaves it silently, because nobody is there yet.
fn repaired(is_sender: bool) -> TcpStream {
    const OTHER: u32 = 77_000;
    const SILENTLY: u32 = -1_i32 as u32;
    let begins = std::env::var("BEGINS").unwrap().parse().unwrap();
    let [sender, receiver] =
        ["10.9.1.1:4001", "10.9.2.1:5202"].map(|a| a.parse::<std::net::SocketAddr>().unwrap());
    let (own, peer, sends, receives) =
        if is_sender { (sender, receiver, begins, OTHER) } else { (receiver, sender, OTHER, begins) };
    let socket = socket_of("", false);
    set_number(&socket, libc::TCP_REPAIR, 1);
    rustix::net::bind(&socket, &own).unwrap();
    // The queues by their numbers in linux/tcp.h: what comes in is 1, what goes out is 2.
    for (queue, number) in [(1, receives), (2, sends)] {
        set_number(&socket, libc::TCP_REPAIR_QUEUE, queue);
        set_number(&socket, libc::TCP_QUEUE_SEQ, number);
    }
    rustix::net::connect(&socket, &peer).unwrap();
    // What the SYNs would have agreed upon: the largest segment, scaled windows, selective acknowledgements.
    let options: Vec<u8> =
        [2, 1460, 3, 7 | 7 << 16, 4, 0].iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
    set_option(&socket, libc::TCP_REPAIR_OPTIONS, &options);
    set_number(&socket, libc::TCP_REPAIR, if is_sender { 0 } else { SILENTLY });
    TcpStream::from(socket)
}
