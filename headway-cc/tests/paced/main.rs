//! Runs the whole paced socket around the whole of quinn 0.11 in virtual time.

mod world;

use headway_cc::cc::{Ack, Control, Controller, Event, NO_RTT};
use headway_cc::quic::{Factory, PacedSocket};
use quinn::congestion::ControllerFactory;
use quinn::{ClientConfig, Endpoint, EndpointConfig, Runtime, ServerConfig, TransportConfig, VarInt};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use world::{Tasks, World};

const SERVER: usize = 1;
const CLIENT: usize = 0;
const SECOND: u64 = 1_000_000;

/// A controller that wants one rate and never runs out of window.
#[derive(Clone, Debug)]
struct Fixed(u64);

impl Controller for Fixed {
    fn on_event(&mut self, _: &Ack) -> Control {
        Control { cwnd: 64 << 20, pacing_rate: self.0, send_quantum: 3000, mark_app_limited: false }
    }

    fn state(&self) -> Vec<u64> {
        Vec::new()
    }

    fn state_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

fn transport(factory: Option<Arc<dyn ControllerFactory + Send + Sync>>) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    let far = VarInt::from_u32(1 << 30);
    transport.receive_window(far).stream_receive_window(far).send_window(8 << 20);
    if let Some(factory) = factory {
        transport.congestion_controller_factory(factory);
    }
    Arc::new(transport)
}

/// How the server's connection is paced.
#[derive(Clone, Copy, Debug)]
enum Pacing {
    Socket,
    Window,
}

/// A server that sends for ever to a client that reads.
struct Pair {
    world: World,
    tasks: Tasks,
    received: Arc<Mutex<u64>>,
    /// quinn's own smoothed RTT.
    stack_rtt: Arc<Mutex<Duration>>,
}

impl Pair {
    #[expect(clippy::too_many_lines, reason = "both ends of a connection, set up field by field")]
    fn new(path: &str, granularity_us: u64, pacing: Pacing, factory: Factory) -> Self {
        let world = World::new(&headway_cc::path::resolve(path).unwrap(), granularity_us);
        let runtime: Arc<dyn Runtime> = Arc::new(world.clone());
        let socket = PacedSocket::new(world.socket(SERVER), runtime.clone());
        let cert = rustls::pki_types::CertificateDer::from(
            &include_bytes!("../../src/quic/sim/localhost.cert.der")[..],
        );
        let key = &include_bytes!("../../src/quic/sim/localhost.key.der")[..];
        let config = ServerConfig::with_single_cert(vec![cert.clone()], key.try_into().unwrap()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(cert).unwrap();
        let mut client_config = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
        client_config.transport_config(transport(None));
        let end = |config, socket| {
            let runtime = runtime.clone();
            Endpoint::new_with_abstract_socket(EndpointConfig::default(), config, socket, runtime).unwrap()
        };
        let (server, client) = (end(Some(config.clone()), socket.clone()), end(None, world.socket(CLIENT)));
        let (received, stack_rtt) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(Duration::ZERO)));
        let (count, rtt) = (received.clone(), stack_rtt.clone());
        runtime.spawn(Box::pin(async move {
            let incoming = server.accept().await.unwrap();
            let mut config = config;
            let factory: Arc<dyn ControllerFactory + Send + Sync> = match pacing {
                Pacing::Socket => Arc::new(socket.register(incoming.remote_address(), &factory)),
                Pacing::Window => Arc::new(factory),
            };
            config.transport_config(transport(Some(factory)));
            let connection = incoming.accept_with(Arc::new(config)).unwrap().await.unwrap();
            let mut stream = connection.open_uni().await.unwrap();
            let chunk = vec![0; 1 << 16];
            while stream.write_all(&chunk).await.is_ok() {
                *rtt.lock().unwrap() = connection.rtt();
            }
        }));
        runtime.spawn(Box::pin(async move {
            let connecting = client.connect_with(client_config, World::address(SERVER), "localhost").unwrap();
            let mut stream = connecting.await.unwrap().accept_uni().await.unwrap();
            while let Ok(Some(chunk)) = stream.read_chunk(usize::MAX, false).await {
                *count.lock().unwrap() += chunk.bytes.len() as u64;
            }
        }));
        Self { world, tasks: Tasks::default(), received, stack_rtt }
    }

    fn run_until(&mut self, us: u64) {
        self.world.run_until(us, &mut self.tasks);
    }
}

/// The rate must be within 5 % of the target, and the controller's RTT within 1 ms of the path's, with exact timers
/// and with those of tokio (1 ms). quinn's own RTT includes the time that packets are held.
#[test]
fn the_rate_is_kept_and_the_rtt_is_that_of_the_path() {
    for granularity_us in [0, 1000] {
        for (rate, us) in [
            (500_000, 4_000_000),
            (2_000_000, 2_000_000),
            (10_000_000, 1_000_000),
            (50_000_000, 500_000),
            (100_000_000, 500_000),
        ] {
            let rtts = Arc::new(Mutex::new(Vec::new()));
            let sink = rtts.clone();
            let factory = Factory::new("fixed", move || Box::new(Fixed(rate))).trace(move |line| {
                let words: Vec<u64> = line.split(' ').skip(1).filter_map(|w| w.parse().ok()).collect();
                let ack = words.get(..Ack::FIELDS.len()).and_then(Ack::from_words).unwrap_or_default();
                if ack.event == Event::Ack && ack.rs_rtt_us != NO_RTT {
                    sink.lock().unwrap().push(ack.rs_rtt_us);
                }
            });
            let mut pair = Pair::new("unlimited 10ms", granularity_us, Pacing::Socket, factory);
            pair.run_until(SECOND);
            rtts.lock().unwrap().clear();
            pair.run_until(SECOND + us);
            let sent = pair.world.sent(SERVER, SECOND, SECOND + us) * SECOND / us;
            let rtts = rtts.lock().unwrap();
            let excess_us = rtts.iter().sum::<u64>() / rtts.len() as u64 - 10_000;
            let stack_us = pair.stack_rtt.lock().unwrap().as_micros() as u64 - 10_000;
            println!(
                "{rate} bytes/s, timers of {granularity_us} us: {sent}, RTT +{excess_us} us, quinn's +{stack_us} us"
            );
            assert!(sent.abs_diff(rate) * 20 <= rate, "{rate}, {granularity_us}: {sent}");
            assert!(excess_us < 1000, "{rate}, {granularity_us}: {excess_us}");
            assert!(
                stack_us < 1500 * SECOND / rate + 1000 + granularity_us,
                "{rate}, {granularity_us}: {stack_us}"
            );
        }
    }
}

/// Shows where each way of pacing is better; docs/measurements/quic.md has the table that this prints.
#[test]
fn the_socket_keeps_the_queue_shorter_than_the_window_does() {
    for (path, mbit) in [("20mbit 40ms queue=4bdp", 20), ("5mbit 100ms queue=2bdp", 5)] {
        let mut queues = Vec::new();
        for pacing in [Pacing::Socket, Pacing::Window] {
            let mut pair = Pair::new(path, 1000, pacing, Factory::named("bbr3").unwrap());
            pair.run_until(5 * SECOND);
            let before = *pair.received.lock().unwrap();
            pair.run_until(15 * SECOND);
            let rate = (*pair.received.lock().unwrap() - before) * 8 / 10 / 10_000;
            let queued_us = pair.world.mean_queued_us(5 * SECOND);
            println!(
                "{path}, {pacing:?}: {}.{:02} Mbit/s, {queued_us} us in the queue",
                rate / 100,
                rate % 100
            );
            assert!(rate >= mbit * 80, "{path}, {pacing:?}: {rate}");
            queues.push(queued_us);
        }
        assert!(queues[0] * 3 < queues[1] * 2, "{path}: {queues:?}");
    }
}
