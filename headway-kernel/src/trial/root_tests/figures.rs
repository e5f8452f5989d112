//! Root tests: what a record says is what the kernel says of the same socket by `TCP_INFO`.

use std::os::fd::AsRawFd;

use headway_cc::histogram::{bucket, edge_us, quantile};
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};

use super::route::{DELAY, FAR, NEAR, Route};
use super::*;
use crate::private::set_number;

#[test]
fn root_trial_records_say_what_the_kernel_says() {
    here("trial::root_tests::figures::as_the_kernel_says");
}

#[test]
fn root_lab_trial_records_say_what_the_kernel_says() {
    in_guests("trial::root_tests::figures::as_the_kernel_says");
}

/// `struct tcp_info` of `linux/tcp.h`.
struct Info([u8; 256]);

impl Info {
    fn of(socket: &TcpStream) -> Info {
        let (mut info, mut length) = ([0; 256], 256);
        // SAFETY: the kernel writes at most `length` bytes.
        let failed = unsafe {
            libc::getsockopt(socket.as_raw_fd(), 6, libc::TCP_INFO, (&raw mut info).cast(), &mut length)
        };
        assert_eq!(failed, 0);
        Info(info)
    }

    fn u32(&self, at: usize) -> u64 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap()).into()
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    /// Whether everything was sent and acknowledged: `tcpi_unacked`, `tcpi_notsent_bytes`.
    fn is_at_rest(&self) -> bool {
        self.u32(24) == 0 && self.u32(144) == 0
    }

    fn words(&self) -> [(&'static str, u64); 11] {
        [
            ("rtt", self.u32(68)),
            ("bytes_acked", self.u64(120)),
            ("min_rtt", self.u32(148)),
            ("data_segs_out", self.u32(156)),
            ("busy_time", self.u64(168)),
            ("rwnd_limited", self.u64(176)),
            ("sndbuf_limited", self.u64(184)),
            ("delivered_ce", self.u32(196)),
            ("bytes_sent", self.u64(200)),
            ("bytes_retrans", self.u64(208)),
            ("dsack_dups", self.u32(216)),
        ]
    }

    /// `tcpi_total_rto`, from Linux 6.7 on.
    fn rtos(&self) -> Option<u32> {
        let has_it = crate::release().split('.').take(2).map(|n| n.parse().unwrap_or(0)).ge([6_u32, 7]);
        has_it.then(|| u16::from_ne_bytes([self.0[240], self.0[241]]).into())
    }
}

fn words(r: &Record) -> [(&'static str, u64); 11] {
    [
        ("rtt", r.srtt_us),
        ("bytes_acked", r.bytes_acked),
        ("min_rtt", r.min_rtt_us),
        ("data_segs_out", r.segments),
        ("busy_time", r.busy_us),
        ("rwnd_limited", r.rwnd_limited_us),
        ("sndbuf_limited", r.sndbuf_limited_us),
        ("delivered_ce", r.ce),
        ("bytes_sent", r.bytes_sent),
        ("bytes_retrans", r.bytes_retransmitted),
        ("dsack_dups", r.dsacks),
    ]
}

/// The record of this open socket, when both it and the kernel's word of it are at rest; they must be equal.
fn compare(trial: &Trial, socket: &TcpStream) -> Record {
    let cookie = socket_cookie(socket).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < deadline, "the socket does not come to rest");
        std::thread::sleep(Duration::from_millis(50));
        let before = Info::of(socket);
        let record = trial.open().unwrap().into_iter().find(|r| r.cookie == cookie).unwrap();
        let after = Info::of(socket);
        if before.is_at_rest() && before.words() == after.words() {
            assert_eq!(words(&record), after.words());
            assert_eq!(record.rtos, after.rtos().unwrap_or(record.rtos));
            assert!(record.is_open() && record.end == End::Open);
            return record;
        }
    }
}

#[test]
#[ignore = "run by another test"]
fn as_the_kernel_says() {
    demand();
    let Some(route) = Route::up() else { return println!("skipped: this kernel has no tun devices") };
    let cgroups = Cgroups::new();
    let cgroup = cgroups.below("service");
    let mut trial = Trial::attach(&TrialOptions::new(ARMS), &cgroup).unwrap_or_else(|e| panic!("{e:#}"));
    trial.set_slot(1, ALL / 2).unwrap();
    let listener = TcpListener::bind(NEAR).unwrap();
    let pair = || [inside(&cgroup, || TcpStream::connect(FAR).unwrap()), listener.accept().unwrap().0];
    asks_and_answers(&trial, pair());
    loses(&trial, &route, pair());
    times_out(&trial, &route, pair());
    is_held_up(&trial, pair());
    let records = fetch(&mut trial, 4);
    assert!(records.iter().all(|r| r.end == End::Closed), "{records:?}");
    ends(&mut trial, &route, pair);
    assert_eq!(trial.open().unwrap(), []);
}

/// One message at a time, so that each is a round trip and a sample.
fn asks_and_answers(trial: &Trial, [mut near, mut far]: [TcpStream; 2]) {
    const TIMES: u32 = 50;
    near.set_nodelay(true).unwrap();
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        near.write_all(&[1; 100]).unwrap();
        far.read_exact(&mut [0; 100]).unwrap();
        far.write_all(&[1; 10]).unwrap();
        near.read_exact(&mut [0; 10]).unwrap();
        times.push(begun.elapsed().as_micros() as u64);
    }
    let record = compare(trial, &near);
    let counts = record.rtt_counts;
    times.sort();
    let (median, least) = (quantile(&counts, 0.5).unwrap(), (0..80).find(|b| counts[*b] > 0).unwrap());
    let of_program = times[times.len() / 2];
    println!(
        "{} samples of {TIMES} round trips of {:?}: median {median:.0} us, {of_program} us for the program",
        counts.iter().sum::<u32>(),
        2 * DELAY
    );
    assert!((TIMES - 2..=TIMES + 1).contains(&counts.iter().sum::<u32>()), "{counts:?}");
    let path_us = 2 * DELAY.as_micros() as u64;
    assert!(least >= bucket(path_us) && record.min_rtt_us >= path_us, "{counts:?}");
    assert!(median < edge_us(bucket(of_program) + 1) as f64, "{median} {of_program}");
}

/// So many bytes through a path that loses every 40th packet.
fn loses(trial: &Trial, route: &Route, [mut near, far]: [TcpStream; 2]) {
    use std::sync::atomic::Ordering::Relaxed;
    route.loses.store(40, Relaxed);
    let reader = swallow(far);
    near.write_all(&vec![0; 1 << 20]).unwrap();
    let record = compare(trial, &near);
    route.loses.store(0, Relaxed);
    println!(
        "1 MB: {} bytes sent again, {} segments lost, {} timeouts",
        record.bytes_retransmitted, record.lost, record.rtos
    );
    assert!(record.bytes_retransmitted >= 10 * 1000 && record.lost >= 10, "{record:?}");
    drop(near);
    reader.join().unwrap();
}

fn times_out(trial: &Trial, route: &Route, [mut near, far]: [TcpStream; 2]) {
    let reader = swallow(far);
    near.write_all(&[1; 100]).unwrap();
    compare(trial, &near);
    let cutter = route.cut(Duration::from_millis(1500));
    std::thread::sleep(Duration::from_millis(20));
    near.write_all(&[1; 100]).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    // Time that is not over counts, too. It goes on between the looks.
    let busy = || Info::of(&near).u64(168);
    let (before, record, after) = (busy(), &trial.open().unwrap()[0], busy());
    assert!(before > 400_000 && (before..=after).contains(&record.busy_us), "{before} {after} {record:?}");
    cutter.join().unwrap();
    let record = compare(trial, &near);
    println!("cut for 1.5 s: {} timeouts, {} bytes sent again", record.rtos, record.bytes_retransmitted);
    assert!(record.rtos >= 1 && record.bytes_retransmitted >= 100, "{record:?}");
    drop(near);
    reader.join().unwrap();
}

/// By the peer, who does not read. What its own buffer does the kernel finds in rare cases only, and none is made here.
fn is_held_up(trial: &Trial, [mut near, far]: [TcpStream; 2]) {
    set_socket_recv_buffer_size(&far, 16 << 10).unwrap();
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        swallow(far).join().unwrap();
    });
    near.write_all(&vec![0; 200_000]).unwrap();
    let record = compare(trial, &near);
    let (busy, rwnd) = (record.busy_us, record.rwnd_limited_us);
    println!("busy for {busy} us, held up by the peer for {rwnd}");
    assert!(rwnd > 100_000 && busy >= rwnd + record.sndbuf_limited_us, "{record:?}");
    drop(near);
    reader.join().unwrap();
}

fn swallow(mut from: TcpStream) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || std::io::copy(&mut from, &mut std::io::sink()).unwrap())
}

/// Each way in which a connection can end.
fn ends(trial: &mut Trial, route: &Route, pair: impl Fn() -> [TcpStream; 2]) {
    let mut ended = |close: &dyn Fn(TcpStream, TcpStream)| {
        let [near, far] = pair();
        close(near, far);
        let records = fetch(trial, 1);
        (records.len(), records[0].end)
    };
    assert_eq!(ended(&|near, far| drop((near, far))), (1, End::Closed));
    assert_eq!(ended(&|near, far| drop((far, near))), (1, End::Closed));
    let reset = |of: &TcpStream| set_socket_linger(of, Some(Duration::ZERO)).unwrap();
    let by_peer = ended(&|mut near, far| {
        reset(&far);
        drop(far);
        assert!(near.read(&mut [0]).is_err());
    });
    assert_eq!(by_peer, (1, End::ResetByPeer));
    let by_us = ended(&|near, _far| {
        reset(&near);
        drop(near);
    });
    assert_eq!(by_us, (1, End::Aborted));
    let unread = ended(&|near, mut far| {
        far.write_all(&[1; 100]).unwrap();
        std::thread::sleep(4 * DELAY);
        drop(near);
    });
    assert_eq!(unread, (1, End::Aborted));
    let silent = ended(&|mut near, _far| {
        set_number(&near, libc::TCP_USER_TIMEOUT, 300);
        let cutter = route.cut(Duration::from_secs(3));
        std::thread::sleep(Duration::from_millis(20));
        near.write_all(&[1; 100]).unwrap();
        assert!(near.read(&mut [0]).is_err());
        cutter.join().unwrap();
    });
    assert_eq!(silent, (1, End::TimedOut));
}
