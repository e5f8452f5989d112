//! Two real endpoints over the two links of a path in virtual time: the server sends, the client receives.
//!
//! The two stacks have the same interface in different crates, so this file is compiled once for each, beside a
//! `stack` module that names the crate and the few calls that differ. Nothing here waits, and nothing depends on the
//! machine: the same spec gives the same run. Only the random bytes of TLS differ, and their number is constant.

use super::stack::{self, proto};
use crate::link::LinkStats;
use crate::messages::{self, Messages};
use crate::path::Path;
use crate::quic::sim::{Bin, HEADERS, MSS, Packet, QUIC_BYTES, flows, offered};
use crate::sim::logged_link::LoggedLink;
use crate::sim::{DRAIN_NS, Datagram as Message, FlowBin, PROBE_BYTES, Probe, SimRun, SimSpec, Source};
use bytes::{Bytes, BytesMut};
use proto::congestion::ControllerFactory;
use proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
};
use proto::{EcnCodepoint, ServerConfig, StreamId, TransportConfig, VarInt};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

const BIN_US: u64 = 100_000;
/// Nanoseconds that an end takes from the arrival of a packet to what it sends in answer. With 0 both would have the
/// same time, which never happens on a real host. noq's own BBRv3 compares these times (was a packet sent after a
/// loss was found?) and would leave STARTUP for losses for which it seldom does so on a kernel.
const TURN_NS: u64 = 1000;
/// Where the clock of the endpoints starts. They want an `Instant`, but only differences count.
static ORIGIN: LazyLock<Instant> = LazyLock::new(|| {
    #[allow(clippy::disallowed_methods)]
    Instant::now()
});
const CERT: &[u8] = include_bytes!("localhost.cert.der");
const KEY: &[u8] = include_bytes!("localhost.key.der");

/// What connection to run, over which path, and what to measure beside it.
#[allow(missing_debug_implementations)]
pub struct Spec {
    /// The path; data goes down and ACKs go up.
    pub path: Path,
    /// Makes the controller of the server, which is the end that sends.
    pub factory: Arc<dyn ControllerFactory + Send + Sync>,
    /// Number of streams of the connection.
    pub streams: usize,
    /// What the application sends on each stream.
    pub source: Source,
    /// Seed of the random numbers of links, endpoints and messages.
    pub seed: u64,
    /// Most packets that the stack may hand over at once.
    pub segments: usize,
    /// Time between two small probe packets that cross the same bottleneck, in microseconds; 0 for none.
    pub probe_interval_us: u64,
    /// Schedule of small messages that are sent beside the connection, in the direction of the data.
    pub messages: Option<Messages>,
    /// Length of a bin of the time series, in microseconds.
    pub bin_us: u64,
    /// Changes the transport settings of both ends.
    pub tune: fn(&mut TransportConfig),
}

impl Spec {
    /// One bulk stream over `path`, which is a preset's name or a path text, and nothing beside it. Panics if there
    /// is no such path.
    pub fn new(path: &str, factory: impl ControllerFactory + Send + Sync + 'static) -> Self {
        let path = crate::path::resolve(path).unwrap_or_else(|e| panic!("{e}"));
        Self::over(path, Arc::new(factory))
    }

    fn over(path: Path, factory: Arc<dyn ControllerFactory + Send + Sync>) -> Self {
        Self {
            path,
            factory,
            streams: 1,
            source: Source::Bulk,
            seed: 1,
            segments: 10,
            probe_interval_us: 0,
            messages: None,
            bin_us: BIN_US,
            tune: |_| (),
        }
    }
}

/// Runs `sim`, whose flows are the streams of one connection.
pub(in crate::quic::sim) fn run(sim: &SimSpec, factory: Arc<dyn ControllerFactory + Send + Sync>) -> SimRun {
    let mut net = Net::new(&Spec {
        streams: sim.flows.len(),
        source: sim.flows[0].source.clone(),
        seed: sim.seed,
        probe_interval_us: sim.probe_interval_us,
        messages: sim.messages,
        bin_us: sim.bin_us,
        ..Spec::over(sim.path.clone(), factory)
    });
    net.run_until(sim.duration_us);
    net.finish(&sim.flows[0].cc)
}

/// What becomes of a datagram before it enters the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// It enters the link.
    Pass,
    /// It is dropped.
    Drop,
    /// It enters the link twice.
    Twice,
}

#[derive(Clone, Debug)]
struct Datagram {
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

/// A stream at one end, with the bytes that the application there wrote or read.
type Stream = (StreamId, u64);
/// Decides on each datagram: time, whether it is data (down), size.
type Decide = dyn FnMut(u64, bool, usize) -> Fate;

/// A connection under way.
#[allow(missing_debug_implementations)]
pub struct Net {
    server: Host,
    client: Host,
    path: Path,
    down: LoggedLink<Packet<Datagram>>,
    up: LoggedLink<Packet<Datagram>>,
    now_ns: u64,
    seed: u64,
    source: Source,
    segments: usize,
    streams: usize,
    opened: Vec<Stream>,
    /// Counts writes, so that the streams take turns.
    turn: usize,
    /// Bytes that left the server; an upper estimate of the stream data among them.
    sent_bytes: u64,
    accepted: Vec<Stream>,
    buffer: Vec<u8>,
    probes: Vec<Probe>,
    probe_interval_ns: u64,
    next_probe_ns: u64,
    messages: Option<Messages>,
    datagrams: Vec<Message>,
    next_message_ns: u64,
    bin_ns: u64,
    next_bin_ns: u64,
    /// The bins of the connection as a whole, each with the bytes that every stream had delivered at its end.
    bins: Vec<Bin>,
    /// Payload in bytes that left the server, retransmissions included: until now, and until the end of the last bin.
    payload: [u64; 2],
    /// Payload in bytes that the client's application has read.
    pub received: u64,
    /// Time in microseconds that each data packet spent in the bottleneck, its own serialisation included; `None` if
    /// not asked for.
    pub queued_us: Option<Vec<u32>>,
    /// Time in nanoseconds and size in bytes of each packet that the server sent; `None` if not asked for.
    pub sent: Option<Vec<(u64, u32)>>,
    /// Size in bytes above which datagrams are dropped in both directions.
    pub mtu: usize,
    /// Decides on each datagram: time, whether it is data (down), size.
    pub fate: Box<Decide>,
    /// Turns the network's time in nanoseconds into the time that the endpoints see, so that tests can give them a
    /// broken clock.
    pub clock: fn(u64) -> u64,
    /// Nanoseconds by which timers fire too late.
    pub late_ns: u64,
    /// Whether an end has given the connection up.
    pub is_lost: bool,
}

/// How the two ends of a connection are set up, in virtual time and over sockets.
#[allow(missing_debug_implementations)]
pub struct Setup {
    /// Settings of the server's and of the client's endpoint, with the seeds of their random numbers.
    pub endpoints: [EndpointConfig; 2],
    /// Settings of the end that sends.
    pub server: ServerConfig,
    /// Settings of the end that receives, which knows the server as [`NAME`].
    pub client: ClientConfig,
}

/// The server's name in its certificate.
pub const NAME: &str = "localhost";
/// Most bytes that a source with pauses leaves unsent in the connection. More would still be sent after the pause has
/// begun.
pub const UNSENT_BYTES: u64 = 128 << 10;
/// Bytes that a source with more data keeps written beyond what was sent. It writes in large blocks: if it wrote as
/// much as each ACK frees, the stack would keep a long flight in small pieces and search them all for every packet.
pub const AHEAD_BYTES: u64 = 16 << 20;
/// Fewest bytes that both stacks add to the data of a stream in a full packet: the header with the peer's ID, the
/// tag, the frame's type, stream and offset. Subtracting it from what left never gives less than the stream data that
/// was sent.
pub const LEAST_QUIC_BYTES: u64 = 1 + 8 + 1 + 16 + 1 + 1 + 4;

impl Setup {
    /// Settings for `streams` streams of one connection with the controllers of `factory`; `tune` changes the
    /// transport of both ends.
    pub fn new(
        seed: u64,
        streams: usize,
        factory: Arc<dyn ControllerFactory + Send + Sync>,
        tune: fn(&mut TransportConfig),
    ) -> Self {
        let endpoint = |n: u8| {
            let mut bytes = [n; 32];
            bytes[..8].copy_from_slice(&seed.to_le_bytes());
            let mut config = EndpointConfig::default();
            config.rng_seed(Some(bytes));
            config
        };
        let transport = || {
            let mut transport = TransportConfig::default();
            let far = VarInt::from_u32(1 << 30);
            transport.receive_window(far).stream_receive_window(far).send_window(128 << 20);
            transport.max_concurrent_uni_streams(VarInt::from_u32(streams as u32));
            transport.max_idle_timeout(Some(VarInt::from_u32(3_600_000).into()));
            tune(&mut transport);
            transport
        };
        let cert = rustls::pki_types::CertificateDer::from(CERT);
        let key = rustls::pki_types::PrivateKeyDer::try_from(KEY).expect("the key is PKCS #8");
        let mut server =
            ServerConfig::with_single_cert(vec![cert.clone()], key).expect("they belong together");
        let mut sending = transport();
        sending.congestion_controller_factory(factory);
        server.transport_config(Arc::new(sending));
        let mut roots = rustls::RootCertStore::empty();
        roots.add(cert).expect("it is a certificate");
        let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).expect("there is a root");
        client.transport_config(Arc::new(transport()));
        Self { endpoints: [endpoint(1), endpoint(2)], server, client }
    }
}

/// Makes the two ends; the client has begun to connect, and its first packet waits to be sent.
fn hosts(spec: &Spec) -> (Host, Host) {
    let setup = Setup::new(spec.seed, spec.streams, spec.factory.clone(), spec.tune);
    let [server, client] = setup.endpoints.map(Arc::new);
    let server = stack::endpoint(server, Some(Arc::new(setup.server)));
    let mut client = stack::endpoint(client, None);
    let (server_addr, client_addr) = (([10, 0, 0, 2], 443).into(), ([10, 0, 0, 1], 5000).into());
    let connection = client.connect(*ORIGIN, setup.client, server_addr, NAME).expect("the name is in order");
    (
        Host { endpoint: server, addr: server_addr, connection: None },
        Host { endpoint: client, addr: client_addr, connection: Some(connection) },
    )
}

impl Net {
    /// The connection of `spec` at time 0, before its first packet.
    pub fn new(spec: &Spec) -> Self {
        let (server, client) = hosts(spec);
        Self {
            server,
            client,
            path: spec.path.clone(),
            down: LoggedLink::new(&spec.path.down, spec.seed, None),
            up: LoggedLink::new(&spec.path.up, spec.seed, None),
            now_ns: 0,
            seed: spec.seed,
            source: spec.source.clone(),
            segments: spec.segments,
            streams: spec.streams,
            opened: Vec::new(),
            turn: 0,
            sent_bytes: 0,
            accepted: Vec::new(),
            buffer: Vec::new(),
            probes: Vec::new(),
            probe_interval_ns: spec.probe_interval_us * 1000,
            next_probe_ns: if spec.probe_interval_us == 0 { u64::MAX } else { 0 },
            messages: spec.messages,
            datagrams: Vec::new(),
            next_message_ns: spec.messages.map_or(u64::MAX, |m| m.due_ns(spec.seed, 0)),
            bin_ns: spec.bin_us * 1000,
            next_bin_ns: spec.bin_us * 1000,
            bins: Vec::new(),
            payload: [0; 2],
            received: 0,
            queued_us: None,
            sent: None,
            mtu: 1500 - HEADERS as usize,
            fate: Box::new(|_, _, _| Fate::Pass),
            clock: |ns| ns,
            late_ns: 0,
            is_lost: false,
        }
    }

    /// The time on the network's clock, in microseconds.
    pub fn now_us(&self) -> u64 {
        self.now_ns / 1000
    }

    /// The counters of the bottleneck.
    pub fn down_stats(&self) -> &LinkStats {
        self.down.stats()
    }

    /// Gives the client another address and lets it send a ping from there. What is under way to the old address is
    /// lost.
    pub fn move_client(&mut self, ip: [u8; 4], port: u16) {
        self.client.addr = (ip, port).into();
        self.client.connection.as_mut().expect("the client has connected").1.ping();
    }

    /// Runs until `end_us`. Probes, messages and bins do not wake the ends, so measuring changes nothing.
    pub fn run_until(&mut self, end_us: u64) {
        let end_ns = end_us * 1000;
        self.drive();
        loop {
            let rare_ns = self.next_probe_ns.min(self.next_message_ns).min(self.next_bin_ns);
            let busy_ns = self.next_ns().max(self.now_ns);
            if self.next_bin_ns <= busy_ns && self.next_bin_ns <= end_ns && rare_ns == self.next_bin_ns {
                self.close_bin();
            } else if rare_ns.min(busy_ns) >= end_ns {
                break;
            } else if rare_ns <= busy_ns {
                self.send_beside(rare_ns);
            } else {
                self.now_ns = busy_ns;
                self.deliver();
                self.drive();
            }
        }
        self.now_ns = self.now_ns.max(end_ns);
    }

    fn seen(&self) -> Instant {
        *ORIGIN + Duration::from_nanos((self.clock)(self.now_ns))
    }

    /// When something happens to the connection next, in nanoseconds. If the endpoints' clock is not the network's,
    /// the times of timers cannot be converted, so the ends look every millisecond.
    fn next_ns(&mut self) -> u64 {
        let timer = [&mut self.server, &mut self.client].into_iter().filter_map(Host::timer_ns).min();
        let is_odd = (self.clock)(self.now_ns) != self.now_ns;
        let timer = match timer {
            _ if is_odd => self.now_ns + 1_000_000,
            Some(ns) => ns.saturating_add(self.late_ns).max(self.now_ns + 1),
            None => u64::MAX,
        };
        let links = self.down.next_ns().min(self.up.next_ns());
        links.min(timer).min(offered(&self.source, self.now_ns).1)
    }

    fn deliver(&mut self) {
        let now = self.seen();
        while self.down.next_ns() <= self.now_ns {
            let Some(out) = self.down.pop(self.now_ns) else { continue };
            match out.packet {
                Packet::Quic(datagram) => {
                    if let Some(queued_us) = &mut self.queued_us {
                        queued_us.push(((out.sent_ns - out.in_ns) / 1000) as u32);
                    }
                    self.client.receive(now, datagram, out.ce);
                }
                Packet::Probe(n) => self.up.push(self.now_ns, PROBE_BYTES, false, Packet::Probe(n)),
                Packet::Message(n) => self.datagrams[n].arrive(self.now_ns),
            }
        }
        while self.up.next_ns() <= self.now_ns {
            let Some(out) = self.up.pop(self.now_ns) else { continue };
            match out.packet {
                Packet::Quic(datagram) => self.server.receive(now, datagram, out.ce),
                Packet::Probe(n) => {
                    let probe = &mut self.probes[n];
                    probe.rtt_us = Some(self.now_ns / 1000 - probe.sent_us);
                }
                Packet::Message(_) => {}
            }
        }
    }

    /// Sends the probe or the message that is due at `now_ns`.
    fn send_beside(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        if now_ns == self.next_probe_ns {
            let packet = Packet::Probe(self.probes.len());
            self.probes.push(Probe { sent_us: now_ns / 1000, rtt_us: None });
            self.down.push(now_ns, PROBE_BYTES, false, packet);
            self.next_probe_ns += self.probe_interval_ns;
        } else if let Some(schedule) = self.messages {
            let n = self.datagrams.len();
            let bytes = schedule.bytes(self.seed, n as u64);
            self.datagrams.push(Message { due_us: now_ns / 1000, bytes, delay_us: None });
            self.down.push(now_ns, bytes + messages::HEADER_BYTES, false, Packet::Message(n));
            self.next_message_ns = schedule.due_ns(self.seed, n as u64 + 1);
        }
    }

    fn close_bin(&mut self) {
        let t_us = (self.next_bin_ns - self.bin_ns) / 1000;
        self.down.close_bin(t_us);
        self.up.close_bin(t_us);
        let mut bin = FlowBin { t_us, sent_bytes: self.payload[0] - self.payload[1], ..FlowBin::default() };
        self.payload[1] = self.payload[0];
        if let Some((_, connection)) = &mut self.server.connection {
            let (cwnd, srtt, lost) = stack::path(connection);
            (bin.cwnd_bytes, bin.srtt_us) = (cwnd, srtt.as_micros() as u64);
            let before: u64 = self.bins.iter().map(|(bin, _)| bin.retransmitted_packets).sum();
            bin.retransmitted_packets = lost.saturating_sub(before);
        }
        self.bins.push((bin, self.accepted.iter().map(|(_, bytes)| *bytes).collect()));
        self.next_bin_ns += self.bin_ns;
    }

    /// Lets both ends do all that they can at this moment, and sends what results from it.
    fn drive(&mut self) {
        let now = self.seen();
        let late = Duration::from_nanos(self.late_ns);
        self.server.on_timers(now, late);
        self.client.on_timers(now, late);
        self.now_ns += TURN_NS;
        let now = self.seen();
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
        if is_down {
            self.sent_bytes += (bytes as u64).saturating_sub(LEAST_QUIC_BYTES);
            self.payload[0] += (bytes as u64).saturating_sub(QUIC_BYTES.into());
            if let Some(sent) = &mut self.sent {
                sent.push((self.now_ns, bytes as u32));
            }
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
            link.push(self.now_ns, bytes as u32 + HEADERS, is_ect, Packet::Quic(packet.clone()));
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
        if let Source::OnOff { .. } = self.source {
            let window = stack::path(connection).0 + UNSENT_BYTES;
            connection.set_send_window(window);
        }
        let offered = offered(&self.source, self.now_ns).0;
        let written: u64 = self.opened.iter().map(|(_, written)| written).sum();
        let mut ahead = (self.sent_bytes + AHEAD_BYTES).saturating_sub(written);
        // The streams are written to in turn, so that none of them takes all the room.
        let mut idle = 0;
        while idle < self.opened.len() && ahead > 0 {
            let turn = self.turn % self.opened.len();
            let (id, written) = &mut self.opened[turn];
            let room = offered.saturating_sub(*written).min(ZEROS.len() as u64) as usize;
            let n = match room {
                0 => 0,
                _ => connection.send_stream(*id).write(&ZEROS[..room]).unwrap_or(0),
            };
            *written += n as u64;
            ahead = ahead.saturating_sub(n as u64);
            self.turn += 1;
            idle = if n == 0 { idle + 1 } else { 0 };
        }
    }

    fn read(&mut self) {
        let Some((_, connection)) = &mut self.client.connection else { return };
        while let Some(event) = connection.poll() {
            self.is_lost |= matches!(event, Event::ConnectionLost { .. });
        }
        while let Some(id) = connection.streams().accept(Dir::Uni) {
            self.accepted.push((id, 0));
        }
        for (id, bytes) in &mut self.accepted {
            let mut stream = connection.recv_stream(*id);
            let Ok(mut chunks) = stream.read(false) else { continue };
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                *bytes += chunk.bytes.len() as u64;
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

    /// Ends the run and returns what was measured. Messages under way may still arrive, so that they are not counted
    /// as lost.
    fn finish(mut self, cc: &str) -> SimRun {
        let end_ns = self.now_ns;
        while self.messages.is_some() && self.down.next_ns() <= end_ns + DRAIN_NS {
            let now_ns = self.down.next_ns();
            if let Some(out) = self.down.pop(now_ns)
                && let Packet::Message(n) = out.packet
            {
                self.datagrams[n].arrive(now_ns);
            }
        }
        SimRun {
            duration_us: end_ns / 1000,
            bin_us: self.bin_ns / 1000,
            mss: MSS,
            base_rtt_us: self.path.base_rtt_us(),
            flows: flows(cc, self.streams, &self.bins),
            down: self.down.finish().0,
            up: self.up.finish().0,
            probes: self.probes,
            datagrams: self.datagrams,
            packets: Vec::new(),
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
