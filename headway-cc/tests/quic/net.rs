//! Two real endpoints over two `Link`s in virtual time: the server sends, the client receives.
//!
//! One file for both stacks: each includes it beside a `stack` module that names the crate and the few calls that
//! differ. Nothing waits and nothing depends on the machine; the same spec gives the same run but for the randomness of
//! TLS, whose sizes are constant.

use super::stack::{self, proto};
use bytes::{Bytes, BytesMut};
use headway_cc::link::{Link, LinkStats};
use headway_cc::path::Path;
use proto::congestion::ControllerFactory;
use proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
};
use proto::{EcnCodepoint, ServerConfig, StreamId, TransportConfig, VarInt};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// IPv4 and UDP.
const HEADERS: u32 = 28;
/// The endpoints' clock starts here; only differences count.
static ORIGIN: LazyLock<Instant> = LazyLock::new(|| {
    #[allow(clippy::disallowed_methods)]
    Instant::now()
});
const CERT: &[u8] = include_bytes!("../data/localhost.cert.der");
const KEY: &[u8] = include_bytes!("../data/localhost.key.der");

pub struct Spec {
    pub path: Path,
    /// Of the server, which sends.
    pub factory: Arc<dyn ControllerFactory + Send + Sync>,
    pub streams: usize,
    pub source: Source,
    pub seed: u64,
    /// Packets of one transmission.
    pub segments: usize,
    /// Adapts the transport of both ends.
    pub tune: fn(&mut TransportConfig),
}

impl Spec {
    pub fn new(path: &str, factory: impl ControllerFactory + Send + Sync + 'static) -> Self {
        let path = headway_cc::path::resolve(path).unwrap();
        let factory = Arc::new(factory);
        Self { path, factory, streams: 1, source: Source::Bulk, seed: 1, segments: 10, tune: |_| () }
    }
}

/// What the server's application has to send, on each stream.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)]
pub enum Source {
    Bulk,
    /// So many bytes at the start.
    Finite(u64),
    /// So many bytes every so many microseconds.
    Every(u64, u64),
    /// Bulk until this time, then nothing until that.
    Pause(u64, u64),
}

impl Source {
    /// How many bytes the application has written by `now_ns`, and when that changes.
    fn offered(self, now_ns: u64) -> (u64, u64) {
        match self {
            Source::Bulk => (u64::MAX, u64::MAX),
            Source::Finite(bytes) => (bytes, u64::MAX),
            Source::Every(bytes, us) => {
                let n = now_ns / (us * 1000) + 1;
                (n * bytes, n * us * 1000)
            }
            Source::Pause(from_us, _) if now_ns < from_us * 1000 => (u64::MAX, from_us * 1000),
            Source::Pause(_, to_us) if now_ns < to_us * 1000 => (0, to_us * 1000),
            Source::Pause(..) => (u64::MAX, u64::MAX),
        }
    }
}

/// What becomes of a datagram before it enters the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Pass,
    Drop,
    Twice,
}

#[derive(Clone, Debug)]
pub struct Datagram {
    from: SocketAddr,
    to: SocketAddr,
    ecn: Option<EcnCodepoint>,
    data: BytesMut,
}

struct Host {
    endpoint: Endpoint,
    addr: SocketAddr,
    connection: Option<(ConnectionHandle, Connection)>,
}

pub struct Net {
    server: Host,
    client: Host,
    down: Link<Datagram>,
    up: Link<Datagram>,
    now_ns: u64,
    source: Source,
    segments: usize,
    streams: usize,
    opened: Vec<(StreamId, u64)>,
    accepted: Vec<StreamId>,
    buffer: Vec<u8>,
    /// Payload that the client's application got.
    pub received: u64,
    /// How long each data packet was in the bottleneck, its own serialisation included.
    pub queued_us: Vec<u32>,
    /// Times and sizes of what the server sent, if asked for.
    pub sent: Option<Vec<(u64, u32)>>,
    /// Datagrams beyond this are dropped, both ways.
    pub mtu: usize,
    /// Decides on each datagram: time, whether it is data (down), size.
    pub fate: Box<dyn FnMut(u64, bool, usize) -> Fate>,
    /// What the endpoints see of the time.
    pub clock: fn(u64) -> u64,
    /// Timers fire so much later.
    pub late_ns: u64,
    pub is_lost: bool,
}

fn transport(spec: &Spec) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let far = VarInt::from_u32(1 << 30);
    transport.receive_window(far).stream_receive_window(far).send_window(32 << 20);
    transport.max_idle_timeout(Some(Duration::from_secs(3600).try_into().unwrap()));
    (spec.tune)(&mut transport);
    transport
}

impl Net {
    pub fn new(spec: &Spec) -> Self {
        let seed = |n: u8| {
            let mut config = EndpointConfig::default();
            config.rng_seed(Some([n ^ spec.seed as u8; 32]));
            Arc::new(config)
        };
        let cert = rustls::pki_types::CertificateDer::from(CERT);
        let key = rustls::pki_types::PrivateKeyDer::try_from(KEY).unwrap();
        let mut config = ServerConfig::with_single_cert(vec![cert.clone()], key).unwrap();
        let mut sending = transport(spec);
        sending.congestion_controller_factory(spec.factory.clone());
        config.transport_config(Arc::new(sending));
        let server = stack::endpoint(seed(1), Some(Arc::new(config)));
        let mut client = stack::endpoint(seed(2), None);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(cert).unwrap();
        let mut config = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
        config.transport_config(Arc::new(transport(spec)));
        let (server_addr, client_addr) = (([10, 0, 0, 2], 443).into(), ([10, 0, 0, 1], 5000).into());
        let connection = client.connect(*ORIGIN, config, server_addr, "localhost").unwrap();
        Self {
            server: Host { endpoint: server, addr: server_addr, connection: None },
            client: Host { endpoint: client, addr: client_addr, connection: Some(connection) },
            down: Link::new(&spec.path.down, spec.seed),
            up: Link::new(&spec.path.up, spec.seed),
            now_ns: 0,
            source: spec.source,
            segments: spec.segments,
            streams: spec.streams,
            opened: Vec::new(),
            accepted: Vec::new(),
            buffer: Vec::new(),
            received: 0,
            queued_us: Vec::new(),
            sent: None,
            mtu: 1500 - HEADERS as usize,
            fate: Box::new(|_, _, _| Fate::Pass),
            clock: |ns| ns,
            late_ns: 0,
            is_lost: false,
        }
    }

    pub fn now_us(&self) -> u64 {
        self.now_ns / 1000
    }

    pub fn down_stats(&self) -> &LinkStats {
        self.down.stats()
    }

    /// The client's address is another from now on, and it has something to say; what is under way to the old one is
    /// lost.
    pub fn move_client(&mut self, ip: [u8; 4], port: u16) {
        self.client.addr = (ip, port).into();
        self.client.connection.as_mut().expect("the client has connected").1.ping();
    }

    /// Goes on until `end_us`.
    pub fn run_until(&mut self, end_us: u64) {
        let end_ns = end_us * 1000;
        self.drive();
        loop {
            let now_ns = self.next_ns().max(self.now_ns);
            if now_ns >= end_ns {
                break;
            }
            self.now_ns = now_ns;
            self.deliver();
            self.drive();
        }
        self.now_ns = end_ns;
    }

    fn seen(&self) -> Instant {
        *ORIGIN + Duration::from_nanos((self.clock)(self.now_ns))
    }

    /// When something happens next. A clock that does not run with time is looked at every millisecond.
    fn next_ns(&mut self) -> u64 {
        let links = [self.down.next_ns(), self.up.next_ns()].into_iter().flatten().min().unwrap_or(u64::MAX);
        let timer = [&mut self.server, &mut self.client].into_iter().filter_map(Host::timer_ns).min();
        let is_odd = (self.clock)(self.now_ns) != self.now_ns;
        let timer = match timer {
            _ if is_odd => self.now_ns + 1_000_000,
            Some(ns) => ns.saturating_add(self.late_ns).max(self.now_ns + 1),
            None => u64::MAX,
        };
        links.min(timer).min(self.source.offered(self.now_ns).1)
    }

    fn deliver(&mut self) {
        let now = self.seen();
        while let Some(out) = self.down.pop(self.now_ns) {
            self.queued_us.push(((out.sent_ns - out.in_ns) / 1000) as u32);
            self.client.receive(now, out.packet, out.ce);
        }
        while let Some(out) = self.up.pop(self.now_ns) {
            self.server.receive(now, out.packet, out.ce);
        }
    }

    /// Lets both ends do all they can at this moment.
    fn drive(&mut self) {
        let now = self.seen();
        let late = Duration::from_nanos(self.late_ns);
        self.server.on_timers(now, late);
        self.client.on_timers(now, late);
        self.write();
        for is_down in [true, false] {
            loop {
                let host = if is_down { &mut self.server } else { &mut self.client };
                let packets = host.transmit(now, self.segments, &mut self.buffer);
                if packets.is_empty() {
                    break;
                }
                packets.into_iter().for_each(|packet| self.send(is_down, packet));
            }
        }
        self.read();
    }

    fn send(&mut self, is_down: bool, packet: Datagram) {
        let bytes = packet.data.len();
        if is_down && let Some(sent) = &mut self.sent {
            sent.push((self.now_ns, bytes as u32));
        }
        let copies = match (self.fate)(self.now_ns, is_down, bytes) {
            _ if bytes > self.mtu => 0,
            Fate::Pass => 1,
            Fate::Drop => 0,
            Fate::Twice => 2,
        };
        let link = if is_down { &mut self.down } else { &mut self.up };
        let is_ect = packet.ecn.is_some();
        for _ in 0..copies {
            link.push(self.now_ns, bytes as u32 + HEADERS, is_ect, packet.clone());
        }
    }

    fn write(&mut self) {
        static ZEROS: [u8; 65_536] = [0; 65_536];
        let Some((_, connection)) = &mut self.server.connection else { return };
        if connection.is_handshaking() {
            return;
        }
        while self.opened.len() < self.streams
            && let Some(id) = connection.streams().open(Dir::Uni)
        {
            self.opened.push((id, 0));
        }
        let offered = self.source.offered(self.now_ns).0;
        for (id, written) in &mut self.opened {
            while *written < offered {
                let room = (offered - *written).min(ZEROS.len() as u64) as usize;
                let Ok(n) = connection.send_stream(*id).write(&ZEROS[..room]) else { break };
                *written += n as u64;
            }
        }
    }

    fn read(&mut self) {
        let Some((_, connection)) = &mut self.client.connection else { return };
        while let Some(event) = connection.poll() {
            self.is_lost |= matches!(event, Event::ConnectionLost { .. });
        }
        while let Some(id) = connection.streams().accept(Dir::Uni) {
            self.accepted.push(id);
        }
        for id in &self.accepted {
            let mut stream = connection.recv_stream(*id);
            let Ok(mut chunks) = stream.read(false) else { continue };
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                self.received += chunk.bytes.len() as u64;
            }
            let _ = chunks.finalize();
        }
        if let Some((_, connection)) = &mut self.server.connection {
            while let Some(event) = connection.poll() {
                self.is_lost |= matches!(event, Event::ConnectionLost { .. });
            }
        }
    }
}

impl Host {
    fn timer_ns(&mut self) -> Option<u64> {
        let at = self.connection.as_mut()?.1.poll_timeout()?;
        Some(at.saturating_duration_since(*ORIGIN).as_nanos() as u64)
    }

    fn on_timers(&mut self, now: Instant, late: Duration) {
        let Some((_, connection)) = &mut self.connection else { return };
        if connection.poll_timeout().is_some_and(|at| at + late <= now) {
            connection.handle_timeout(now);
        }
    }

    fn receive(&mut self, now: Instant, packet: Datagram, ce: bool) {
        if packet.to != self.addr {
            return;
        }
        let ecn = if ce { EcnCodepoint::from_bits(3) } else { packet.ecn };
        let mut answer = Vec::new();
        match stack::handle(&mut self.endpoint, now, packet.from, ecn, packet.data, &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.connection = self.endpoint.accept(incoming, now, &mut answer, None).ok();
            }
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some((ours, connection)) = &mut self.connection
                    && *ours == handle
                {
                    connection.handle_event(event);
                }
            }
            _ => {}
        }
    }

    fn transmit(&mut self, now: Instant, segments: usize, buffer: &mut Vec<u8>) -> Vec<Datagram> {
        let Some((handle, connection)) = &mut self.connection else { return Vec::new() };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        buffer.clear();
        let Some(transmit) = stack::poll_transmit(connection, now, segments, buffer) else {
            return Vec::new();
        };
        let size = transmit.segment_size.unwrap_or(transmit.size).max(1);
        let packet = |data: &[u8]| Datagram {
            from: self.addr,
            to: transmit.destination,
            ecn: transmit.ecn,
            data: BytesMut::from(Bytes::copy_from_slice(data)),
        };
        buffer[..transmit.size].chunks(size).map(packet).collect()
    }
}
