//! Real packets through real devices. What is asserted is counted on the links' own clock, so that a busy
//! machine cannot fail a test.

use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

/// A path that is up; `None`, with a word about it, where the test does not run as root.
fn up(path: &str, options: &EmuOptions) -> Option<Emu> {
    if !sys::process::missing_capabilities().unwrap().is_empty() {
        eprintln!("skipped: needs root");
        return None;
    }
    Some(Emu::up(&path.parse().expect("a path"), options).expect("a path that is up"))
}

/// Sends `bytes` of noise from near to far over TCP and checks what arrives.
fn transfer(emu: &Emu, bytes: usize) {
    let far = emu.far().expect("a far end of its own");
    let listener = far.enter(|| TcpListener::bind((emu.far_addr(), 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let mut sender = emu.near().enter(|| TcpStream::connect(address)).unwrap();
    let mut receiver = listener.accept().unwrap().0;
    let mut state = 1_u32;
    let sent: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(bytes)
    .collect();
    let mut received = Vec::new();
    thread::scope(|s| {
        s.spawn(|| {
            sender.write_all(&sent).unwrap();
            sender.shutdown(std::net::Shutdown::Write).unwrap();
        });
        receiver.read_to_end(&mut received).unwrap();
    });
    assert!(received == sent, "{} bytes arrived, {} were sent, or they differ", received.len(), sent.len());
}

/// Has a packet that never comes fail the test instead of stopping it for ever.
fn patient(socket: &UdpSocket) {
    socket.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
}

fn udp_pair(emu: &Emu) -> (UdpSocket, UdpSocket) {
    let near = emu.near().enter(|| UdpSocket::bind((emu.near_addr(), 0))).unwrap();
    let far = emu.far().unwrap().enter(|| UdpSocket::bind((emu.far_addr(), 0))).unwrap();
    near.connect(far.local_addr().unwrap()).unwrap();
    far.connect(near.local_addr().unwrap()).unwrap();
    [&near, &far].into_iter().for_each(patient);
    (near, far)
}

/// Bytes that came to the queue of the `down` link, and that left it, in each bin.
fn in_and_out_bytes(log: &EmuLog) -> (Vec<u64>, Vec<u64>) {
    let rows = log.bins.lines().map(|l| l.split(' ').collect::<Vec<_>>()).filter(|w| w[1] == "down");
    rows.map(|w| (w[4].parse::<u64>().unwrap(), w[6].parse::<u64>().unwrap())).unzip()
}

#[test]
fn root_no_answer_comes_before_the_base_rtt_and_all_come() {
    let Some(emu) = up("unlimited 30ms/10ms", &EmuOptions::default()) else { return };
    emu.start_clock();
    let (near, far) = udp_pair(&emu);
    let mut buffer = [0; 100];
    for _ in 0..5 {
        let start_ns = monotonic_ns();
        near.send(b"ping").unwrap();
        let n = far.recv(&mut buffer).unwrap();
        let half_ns = monotonic_ns();
        far.send(&buffer[..n]).unwrap();
        assert_eq!(near.recv(&mut buffer).unwrap(), 4);
        assert!(half_ns - start_ns >= 30_000_000, "{half_ns} - {start_ns}");
        assert!(monotonic_ns() - start_ns >= 40_000_000);
    }
    let log = emu.stop().unwrap();
    assert_eq!(
        (log.down.out_packets, log.up.out_packets, log.kernel_drops),
        (5, 5, 0),
        "and nothing else moved"
    );
    assert_eq!((log.down.out_bytes, log.late.packets), (5 * 32, 10));
}

#[test]
fn root_rate_and_its_drop_are_exact_on_the_clock_of_the_link() {
    // The rate shows only while packets wait, and a machine that stands still hands them over too slowly. The log says
    // when that was so, and then it is tried again.
    for attempt in 1..=8 {
        let Some((came, left)) = bins_of_a_burst() else { return };
        assert_eq!(left.iter().sum::<u64>(), 512_000);
        let first = left.iter().position(|b| *b > 0).unwrap();
        let came_by = |bin: usize| came[..bin].iter().sum::<u64>();
        if (first + 1..10).any(|bin| came_by(bin) < 40_000 * (bin - first + 1) as u64) {
            println!("attempt {attempt}: packets came too slowly: {came:?}");
            continue;
        }
        assert!(left[first + 1..10].iter().all(|b| b.abs_diff(40_000) <= 1000), "16 Mbit/s: {left:?}");
        assert!(left[10..20].iter().all(|b| b.abs_diff(10_000) <= 1000), "4 Mbit/s from 200 ms on: {left:?}");
        return;
    }
    panic!("in eight attempts this machine never handed over 512 packets in time");
}

/// Sends 512 kB at once: 400 kB leave until the drop, the rest takes 224 ms after it. `None` without root.
fn bins_of_a_burst() -> Option<(Vec<u64>, Vec<u64>)> {
    let options = EmuOptions { bin_us: 20_000, ..EmuOptions::default() };
    let emu = up("16mbit 10ms queue=infinite @200ms 4mbit", &options)?;
    let (near, far) = udp_pair(&emu);
    emu.start_clock();
    for _ in 0..512 {
        near.send(&[0; 972]).unwrap();
    }
    // Not all may reach the receiver, whose socket overflows when this thread is kept waiting; the link has sent them
    // all the same, and its log is what is asserted.
    far.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    let received = (0..512).take_while(|_| far.recv(&mut [0; 2000]).is_ok()).count();
    println!("{received} of 512 received");
    let log = emu.stop().unwrap();
    assert_eq!((log.down.drop_packets, log.kernel_drops), (0, 0));
    Some(in_and_out_bytes(&log))
}

#[test]
fn root_the_bottleneck_drops_single_mtu_packets_of_unsegmented_ones() {
    let Some(emu) = up("20mbit 4ms queue=10pkt", &EmuOptions::default()) else { return };
    emu.start_clock();
    transfer(&emu, 3_000_000);
    let log = emu.stop().unwrap();
    let down = log.down;
    assert!(down.drop_packets > 0, "{down:?}");
    assert!(down.in_packets + log.up.in_packets > log.reads, "the kernel segmented by itself: {log:?}");
    assert!(
        down.in_bytes <= 1500 * down.in_packets && down.drop_bytes <= 1500 * down.drop_packets,
        "{down:?}"
    );
    assert!(down.drop_bytes >= 1400 * down.drop_packets, "MTU packets were dropped: {down:?}");
    assert!(in_and_out_bytes(&log).1.iter().all(|b| *b <= 250_000 + 1500), "20 Mbit/s: {}", log.bins);
}

#[test]
fn root_tcp_arrives_intact_whatever_the_path_does() {
    let tiny = EmuOptions { mtu: 576, ..EmuOptions::default() };
    let jumbo = EmuOptions { mtu: 9000, ..EmuOptions::default() };
    let plain = EmuOptions { offload: false, ..EmuOptions::default() };
    let cases = [
        ("unlimited 0ms", &jumbo, 30_000_000),
        ("10gbit 1ms queue=1000pkt", &EmuOptions::default(), 30_000_000),
        ("200mbit 2ms queue=100pkt loss=1%", &jumbo, 2_000_000),
        ("200mbit 2ms queue=100pkt jitter=1ms reorder", &tiny, 1_000_000),
        ("100mbit 2ms queue=50pkt", &plain, 1_000_000),
    ];
    for (path, options, bytes) in cases {
        let Some(emu) = up(path, options) else { return };
        emu.start_clock();
        transfer(&emu, bytes);
        let (mtu, log) = (u64::from(options.mtu), emu.stop().unwrap());
        let down = log.down;
        assert!(down.in_bytes >= bytes as u64 && down.in_bytes <= mtu * down.in_packets, "{path}: {down:?}");
        assert!(
            down.in_bytes > mtu * 3 / 4 * down.in_packets || mtu == 576,
            "{path}: full packets: {down:?}"
        );
        assert_eq!(options.offload, log.reads < down.in_packets + log.up.in_packets, "{path}: {log:?}");
    }
}

#[test]
fn root_marks_reach_the_receiver() {
    let Some(emu) = up("20mbit 10ms queue=codel ecn", &EmuOptions::default()) else { return };
    let far = emu.far().unwrap();
    for netns in [emu.near(), far] {
        netns
            .enter(|| std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1"))
            .expect("ECN for this namespace alone");
    }
    emu.start_clock();
    transfer(&emu, 3_000_000);
    let marked = far.enter(|| ip_counter("InCEPkts"));
    let log = emu.stop().unwrap();
    assert!(log.down.mark_packets > 0 && marked > 0, "{marked} seen, {:?}", log.down);
    assert!(marked <= log.down.mark_packets, "{marked} seen, {:?}", log.down);
}

/// A counter of the `IpExt` lines of /proc/net/netstat.
fn ip_counter(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let lines: Vec<Vec<&str>> =
        text.lines().filter(|l| l.starts_with("IpExt:")).map(|l| l.split(' ').collect()).collect();
    let column = lines[0].iter().position(|w| *w == name).expect("a counter of that name");
    lines[1][column].parse().unwrap()
}

#[test]
fn root_ipv6_crosses_the_path() {
    let Some(emu) = up("10gbit 2ms queue=1000pkt", &EmuOptions::default()) else { return };
    let ends = emu.ends;
    let listener = emu.far().unwrap().enter(|| TcpListener::bind((ends.far_ipv6(), 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let mut sender = emu.near().enter(|| TcpStream::connect(address)).unwrap();
    let mut receiver = listener.accept().unwrap().0;
    thread::scope(|s| {
        s.spawn(move || sender.write_all(&[7; 1_000_000]).unwrap());
        let mut received = Vec::new();
        receiver.read_to_end(&mut received).unwrap();
        assert!(received.len() == 1_000_000 && received.iter().all(|b| *b == 7));
    });
}

#[test]
fn root_paths_nest_and_the_innermost_command_reaches_the_outermost_host() {
    let Some(outer) = up("unlimited 10ms", &EmuOptions::default()) else { return };
    let host = outer.far().unwrap().enter(|| UdpSocket::bind((outer.far_addr(), 0))).unwrap();
    let options = EmuOptions { far: Far::Caller, ..EmuOptions::default() };
    let middle = outer.near().enter(|| up("unlimited 20ms", &options)).unwrap();
    let inner = middle.near().enter(|| up("unlimited 30ms", &options)).unwrap();
    assert!(inner.far().is_none());
    let start_ns = monotonic_ns();
    let near = inner.near().enter(|| UdpSocket::bind((inner.near_addr(), 0))).unwrap();
    [&near, &host].into_iter().for_each(patient);
    near.send_to(b"hello", host.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 10];
    assert_eq!(host.recv_from(&mut buffer).unwrap(), (5, near.local_addr().unwrap()));
    host.send_to(b"there", near.local_addr().unwrap()).unwrap();
    near.recv_from(&mut buffer).unwrap();
    assert!(monotonic_ns() - start_ns >= 60_000_000, "all three delays");
    for emu in [inner, middle, outer] {
        let log = emu.stop().unwrap();
        assert_eq!((log.down.out_packets, log.up.out_packets, log.kernel_drops), (1, 1, 0));
    }
}

#[test]
fn root_paths_stand_side_by_side() {
    // A namespace of its own plays the host, so that the machine's own interfaces stay as they are.
    if !sys::process::missing_capabilities().unwrap().is_empty() {
        eprintln!("skipped: needs root");
        return;
    }
    let (host, ()) = Netns::with(|| Ok(())).unwrap();
    let options = EmuOptions { far: Far::Caller, ..EmuOptions::default() };
    let [a, b] = [0, 1].map(|_| host.enter(|| up("unlimited 0ms", &options)).unwrap());
    // Two paths side by side inside a path: both are reached, though only one can have the route to the paths inside
    // it.
    let [c, d] = [0, 1].map(|_| a.near().enter(|| up("unlimited 0ms", &options)).unwrap());
    let ends = [a.ends, b.ends, c.ends, d.ends];
    assert!((1..4).all(|i| !ends[..i].contains(&ends[i])), "{ends:?}");
    for path in [&c, &d] {
        let far = a.near().enter(|| UdpSocket::bind((path.far_addr(), 0))).unwrap();
        patient(&far);
        let near = path.near().enter(|| UdpSocket::bind((path.near_addr(), 0))).unwrap();
        near.send_to(b"hello", far.local_addr().unwrap()).unwrap();
        assert_eq!(far.recv(&mut [0; 10]).unwrap(), 5);
    }
}

#[test]
fn root_the_schedule_waits_for_the_clock() {
    let Some(emu) = up("80mbit 4ms queue=infinite @1us 8kbit", &EmuOptions::default()) else { return };
    // If the schedule, which falls to 8 kbit/s after 1 µs, did not wait for the clock, this would take more than a
    // minute.
    transfer(&emu, 100_000);
    let log = emu.stop().unwrap();
    assert!(log.down.out_bytes > 100_000);
}

#[test]
fn a_trace_that_was_not_loaded_is_refused() {
    let path: Path = "trace=lte.down 40ms".parse().unwrap();
    let error = Emu::up(&path, &EmuOptions::default()).unwrap_err();
    assert!(error.to_string().contains("lte.down"), "{error}");
}

#[test]
fn an_absurd_mtu_is_refused() {
    let path: Path = "10mbit 10ms".parse().unwrap();
    for mtu in [0, 575, 9001] {
        let error = Emu::up(&path, &EmuOptions { mtu, ..EmuOptions::default() }).unwrap_err();
        assert!(error.to_string().contains(&mtu.to_string()), "{error}");
    }
}

/// The acceptance figures of the emulator on the running kernel. Wall-clock, so only on an idle machine and on
/// demand: `cargo test --release -p headway-cli measure_accuracy -- --ignored --nocapture`.
#[test]
#[ignore = "measures the running machine: run it alone on an idle one"]
fn root_measure_accuracy() {
    sys::sched::make_real_time(); // what is measured is the emulator, not the wait for a core
    let mut excess_ms = Vec::new();
    for rtt_ms in [10.0, 40.0, 200.0] {
        let Some((mean_ms, late)) = mean_rtt_excess_ms(rtt_ms) else { return };
        println!("base RTT of {rtt_ms} ms: {mean_ms:.3} ms too long on average; {late:?}");
        excess_ms.push(mean_ms);
    }
    let (before, after, moment_ns) = arrivals_around_a_drop();
    println!("rate: {before:.4} of 50 Mbit/s, {after:.4} of 10 Mbit/s; drop {} us late", moment_ns / 1000);
    assert!(excess_ms.iter().all(|ms| (0.0..0.2).contains(ms)));
    assert!((before - 1.0).abs() < 0.005 && (after - 1.0).abs() < 0.005);
    assert!(moment_ns.abs() < 20_000_000);
}

/// How much longer than the base RTT an answer to `ping` takes on average, in milliseconds. The pings are as dense as
/// the probes of a run, because a processor that idles for longer takes 0.1 to 0.2 ms more to wake up. The kernel
/// answers them: waking a process to do so would take longer than all that is measured here.
fn mean_rtt_excess_ms(rtt_ms: f64) -> Option<(f64, Lateness)> {
    let emu = up(&format!("unlimited {rtt_ms}ms"), &EmuOptions::default())?;
    let peer = emu.far_addr().to_string();
    let out = emu.near().command("ping").args(["-q", "-c50", "-i0.02", &peer]).output().expect("ping runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    // rtt min/avg/max/mdev = 40.1/40.2/40.5/0.1 ms
    let mean_ms = text.rsplit(" = ").next().and_then(|t| t.split('/').nth(1)?.parse::<f64>().ok());
    Some((mean_ms.unwrap_or_else(|| panic!("no answer: {text}")) - rtt_ms, emu.stop().unwrap().late))
}

/// Shares of the rates that a receiver sees before and after a drop at 1 s, and how late it sees the drop.
fn arrivals_around_a_drop() -> (f64, f64, i64) {
    let emu = up("50mbit 20ms queue=infinite @1s 10mbit", &EmuOptions::default()).unwrap();
    let (near, far) = udp_pair(&emu);
    far.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    let zero_ns = monotonic_ns();
    emu.start_clock();
    let count = 6250 + 1250; // of 1000 bytes: a second at each rate, and fewer than the device holds
    thread::spawn(move || (0..count).for_each(|_| assert_eq!(near.send(&[0; 972]).unwrap(), 972)));
    let mut buffer = [0; 2000];
    let mut arrive = || far.recv(&mut buffer).map(|_| monotonic_ns() - zero_ns);
    let at_ns: Vec<u64> = (0..count)
        .map(|i| arrive().unwrap_or_else(|_| panic!("{i} of {count} arrived: busy machine")))
        .collect();
    let rate_bps =
        |from: usize, to: usize| (to - from) as f64 * 8000.0 * 1e9 / (at_ns[to] - at_ns[from]) as f64;
    let left_s = |i: usize| (at_ns[i] as f64 - 1e7) / 1e9;
    let begin_s = left_s(0) - 1.0 / 6250.0;
    // The receiver's count tells the moment x of the drop: when n packets have arrived at time t, well after the
    // drop, then n = 6250 (x - begin) + 1250 (t - x).
    let moment = |n: usize| (n as f64 + 6250.0 * begin_s - 1250.0 * left_s(n - 1)) / 5000.0;
    let mut moments: Vec<f64> = (6500..count).map(moment).collect();
    moments.sort_by(f64::total_cmp);
    let late_ns = (moments[moments.len() / 2] - 1.0) * 1e9;
    (rate_bps(500, 5500) / 5e7, rate_bps(6500, 7400) / 1e7, late_ns as i64)
}
