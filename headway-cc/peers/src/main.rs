//! The four confirmed defects of the BBRv3 of quinn's pull request #2481, shown on the last published crate that has
//! it as it was taken over, noq-proto 1.1.1: `cargo run --release --manifest-path headway-cc/peers/Cargo.toml`.
//!
//! Two real endpoints in virtual time over `100mbit 20ms queue=2bdp`, one bulk stream. That ours has none of the
//! defects, and what a later noq has mended, is `headway-cc/tests/quic/peers.rs`.

use bytes::BytesMut;
use headway_cc::link::{Link, LinkStats};
use headway_cc::path;
use noq_proto::congestion::{Bbr3Config, Controller, ControllerFactory, ControllerMetrics, CubicConfig};
use noq_proto::{ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint};
use noq_proto::{Endpoint, EndpointConfig, FourTuple, RttEstimator, ServerConfig, TransportConfig, VarInt};
use std::any::Any;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATH: &str = "100mbit 20ms queue=2bdp";
const SECONDS: u64 = 5;
const HEADERS: u32 = 28;
/// As tokio's.
const TIMER_NS: u64 = 1_000_000;
/// The text has every packet in flight: writing it after each ACK would take minutes.
const LOOK_EVERY: u64 = 20;
const CERT: &[u8] = include_bytes!("../../src/quic/sim/localhost.cert.der");
const KEY: &[u8] = include_bytes!("../../src/quic/sim/localhost.key.der");

/// What the controller was at first, and after an ACK.
struct Seen {
    at: Duration,
    state: String,
    window: u64,
    pacing_rate: u64,
    rounds: u64,
    cycles: u64,
}

/// The peer's controller; what it was is read from its `Debug` text.
#[derive(Clone)]
struct Watched {
    inner: Arc<Mutex<Box<dyn Controller>>>,
    start: Instant,
    seen: Arc<Mutex<Vec<Seen>>>,
    acks: u64,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watched")
    }
}

/// The text between `name: ` and the next comma.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let start = text.find(&format!(" {name}: ")).expect("the controller has this field") + name.len() + 3;
    text[start..].split([',', ' ']).next().unwrap_or_default()
}

impl Watched {
    fn look(&self, now: Instant) {
        let inner = self.inner.lock().unwrap();
        let text = format!("{inner:?}");
        let number = |name| field(&text, name).parse().expect("it is a number");
        self.seen.lock().unwrap().push(Seen {
            at: now - self.start,
            state: field(&text, "state").to_string(),
            window: inner.window(),
            pacing_rate: inner.metrics().pacing_rate.unwrap_or(0),
            rounds: number("round_count"),
            cycles: number("cycle_count"),
        });
    }
}

impl ControllerFactory for Watched {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::new(Bbr3Config::default()).build(now, mtu);
        let watched = Self { inner: Arc::new(Mutex::new(inner)), start: now, ..(*self).clone() };
        watched.look(now);
        Box::new(watched)
    }
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, pn: u64) {
        self.inner.lock().unwrap().on_sent(now, bytes, pn);
    }
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.inner.lock().unwrap().on_packet_sent(now, bytes, pn);
    }
    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.inner.lock().unwrap().on_ack(now, sent, bytes, pn, app_limited, rtt);
    }
    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.inner.lock().unwrap().on_end_acks(now, in_flight, app_limited, largest);
        self.acks += 1;
        if self.acks % LOOK_EVERY == 1 {
            self.look(now);
        }
    }
    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost: u64,
    ) {
        let mut inner = self.inner.lock().unwrap();
        inner.on_congestion_event(now, sent, is_persistent, is_ecn, lost_bytes, largest_lost);
    }
    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.inner.lock().unwrap().on_packet_lost(lost_bytes, pn, now);
    }
    fn on_spurious_congestion_event(&mut self) {
        self.inner.lock().unwrap().on_spurious_congestion_event();
    }
    fn on_mtu_update(&mut self, mtu: u16) {
        self.inner.lock().unwrap().on_mtu_update(mtu);
    }
    fn on_ack_frequency_update(&mut self, threshold: u64, delay: Duration) {
        self.inner.lock().unwrap().on_ack_frequency_update(threshold, delay);
    }
    fn window(&self) -> u64 {
        self.inner.lock().unwrap().window()
    }
    fn metrics(&self) -> ControllerMetrics {
        self.inner.lock().unwrap().metrics()
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
    fn initial_window(&self) -> u64 {
        self.inner.lock().unwrap().initial_window()
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

struct Host {
    endpoint: Endpoint,
    addr: SocketAddr,
    connection: Option<(ConnectionHandle, Connection)>,
}

/// Sender, explicit congestion mark, data.
type Datagram = (SocketAddr, Option<EcnCodepoint>, BytesMut);

impl Host {
    fn receive(&mut self, now: Instant, (from, ecn, data): Datagram) {
        let mut answer = Vec::new();
        match self.endpoint.handle(now, FourTuple::new(from, None), ecn, data, &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.connection = self.endpoint.accept(incoming, now, &mut answer, None).ok();
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            _ => {}
        }
    }

    /// Fires the timer that is due, and gives what the connection sends now.
    fn drive(&mut self, now: Instant) -> Vec<Datagram> {
        let mut sent = Vec::new();
        let Some((handle, connection)) = &mut self.connection else { return sent };
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        let mut buffer = Vec::new();
        loop {
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            buffer.clear();
            let Some(out) = connection.poll_transmit(now, NonZeroUsize::MIN, &mut buffer) else {
                return sent;
            };
            sent.push((self.addr, out.ecn, BytesMut::from(&buffer[..out.size])));
        }
    }
}

/// The two ends, of which the server sends.
fn hosts(start: Instant, factory: Arc<dyn ControllerFactory + Send + Sync>) -> [Host; 2] {
    let transport = || {
        let mut transport = TransportConfig::default();
        let far = VarInt::from_u32(1 << 30);
        transport.receive_window(far).stream_receive_window(far).send_window(32 << 20);
        transport
    };
    let cert = rustls::pki_types::CertificateDer::from(CERT);
    let key = rustls::pki_types::PrivateKeyDer::try_from(KEY).expect("the key is PKCS #8");
    let mut server = ServerConfig::with_single_cert(vec![cert.clone()], key).expect("they belong together");
    let mut sending = transport();
    sending.congestion_controller_factory(factory);
    server.transport_config(Arc::new(sending));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert).expect("it is a certificate");
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).expect("there is a root");
    client.transport_config(Arc::new(transport()));
    let [server_addr, client_addr] = [2, 1].map(|n| SocketAddr::from(([10, 0, 0, n], 443)));
    let config = Arc::new(EndpointConfig::default());
    let server = Endpoint::new(config.clone(), Some(Arc::new(server)), true);
    let mut endpoint = Endpoint::new(config, None, true);
    let connection = endpoint.connect(start, client, server_addr, "localhost").expect("the name is in order");
    [
        Host { endpoint: server, addr: server_addr, connection: None },
        Host { endpoint, addr: client_addr, connection: Some(connection) },
    ]
}

/// Sends for [`SECONDS`]; what became of it at the bottleneck in the first of them, and in all.
fn run(start: Instant, factory: Arc<dyn ControllerFactory + Send + Sync>) -> [LinkStats; 2] {
    let [mut server, mut client] = hosts(start, factory);
    let path = path::resolve(PATH).expect("the path is in order");
    let [mut down, mut up] = [&path.down, &path.up].map(|spec| Link::new(spec, 1));
    let (mut opened, mut now_ns, mut first) = (None, 0, LinkStats::default());
    while now_ns < SECONDS * 1_000_000_000 {
        let now = start + Duration::from_nanos(now_ns);
        if now_ns < 1_000_000_000 {
            first = *down.stats();
        }
        while let Some(out) = down.pop(now_ns) {
            client.receive(now, out.packet);
        }
        while let Some(out) = up.pop(now_ns) {
            server.receive(now, out.packet);
        }
        if let Some((_, sending)) = server.connection.as_mut().filter(|(_, c)| !c.is_handshaking()) {
            opened = opened.or_else(|| sending.streams().open(Dir::Uni));
            while let Some(id) = opened
                && sending.send_stream(id).write(&[0; 65_536]).is_ok_and(|n| n > 0)
            {}
        }
        for datagram in server.drive(now) {
            down.push(now_ns, datagram.2.len() as u32 + HEADERS, false, datagram);
        }
        for datagram in client.drive(now) {
            up.push(now_ns, datagram.2.len() as u32 + HEADERS, false, datagram);
        }
        if let Some((_, connection)) = &mut client.connection {
            while connection.poll().is_some() {}
            while let Some(id) = connection.streams().accept(Dir::Uni) {
                opened = opened.or(Some(id));
            }
            if let Some(id) = opened {
                let mut stream = connection.recv_stream(id);
                if let Ok(mut chunks) = stream.read(false) {
                    while let Ok(Some(_)) = chunks.next(usize::MAX) {}
                    let _ = chunks.finalize();
                }
            }
        }
        let timer = |host: &mut Host| {
            let at = host.connection.as_mut()?.1.poll_timeout()?;
            let due_ns = at.saturating_duration_since(start).as_nanos() as u64;
            Some(due_ns.max(now_ns + 1).next_multiple_of(TIMER_NS))
        };
        let next = [timer(&mut server), timer(&mut client), down.next_ns(), up.next_ns()];
        now_ns = next.into_iter().flatten().min().unwrap_or(u64::MAX);
    }
    [first, *down.stats()]
}

fn main() -> ExitCode {
    let start = Instant::now();
    let fresh = Arc::new(Bbr3Config::default()).build(start, 1200);
    let watched = Watched { inner: Arc::new(Mutex::new(fresh)), start, seen: Arc::default(), acks: 0 };
    let seen = watched.seen.clone();
    let [first_second, stats] = run(start, Arc::new(watched));
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let [_, control] = run(start, Arc::new(CubicConfig::default()));
    let dropped = |s: &LinkStats| 100.0 * s.drop_packets as f64 / s.in_packets as f64;
    let (first, last) = (&seen[1], &seen[seen.len() - 1]);
    let sent = (stats.in_bytes - first_second.in_bytes) as f64 / (SECONDS - 1) as f64;
    let most = seen.iter().filter(|s| s.at.as_secs() >= 1).map(|s| s.pacing_rate).max().unwrap_or(0) as f64;
    let findings = [
        (
            sent > 1.5 * most,
            format!(
                "1. the pacer does not delay: {:.1} MB/s were sent after 1 s, the controller's rate was {:.1} at most",
                sent / 1e6,
                most / 1e6
            ),
        ),
        (first.state == "ProbeRtt", format!("2. state after the first ACK: {}", first.state)),
        (seen[0].window == 131_054, format!("3. initial window: {} bytes", seen[0].window)),
        (
            last.cycles * 2 > last.rounds,
            format!("4. the bandwidth filter moved {} times in {} rounds", last.cycles, last.rounds),
        ),
    ];
    println!("noq-proto 1.1.1's BBRv3 over {PATH}, {SECONDS} s:");
    for (is_there, text) in &findings {
        println!("  {} {text}", if *is_there { "there: " } else { "absent:" });
    }
    println!(
        "  {:.0} % dropped; its CUBIC here, for comparison: {:.1} %",
        dropped(&stats),
        dropped(&control)
    );
    // Where CUBIC drops much as well, it is this program that is wrong.
    let is_shown = dropped(&control) < 5.0 && findings.iter().all(|(is_there, _)| *is_there);
    if is_shown { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
