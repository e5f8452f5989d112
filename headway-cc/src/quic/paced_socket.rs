//! A UDP socket for quinn 0.11 that paces each registered connection at its controller's own rate.
//!
//! Without it quinn paces by its window alone, and the controller's rate holds only on average over a round trip.
//!
//! quinn builds a buffer of packets, marks them as sent, and only then asks the socket. A buffer that comes too early
//! is refused (`WouldBlock`) and a timer is set for its time; quinn keeps that one buffer until then. The socket
//! tells the controller when the buffer really left, so that the controller's RTTs and rates are those of the path.
//! quinn's own RTT includes the time for which a buffer was held. To keep that time short, the socket takes fewer
//! packets at once when the rate is slow.

use super::Factory;
use super::pacer::{SocketPacer, lock};
use super::quinn::Quinn;
use quinn::congestion::{Controller, ControllerFactory};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};
use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::thread::{self, ThreadId};
use std::time::Instant;

/// A socket around another one that paces the connections registered with it. Packets of other connections pass at
/// once.
///
/// Give it to `Endpoint::new_with_abstract_socket`. Register each connection before it begins. Connections are told
/// apart by the peer's address, so two connections to one address share a pacer, and a peer that moves to another
/// address is from then on paced by quinn alone.
#[derive(Debug)]
pub struct PacedSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    runtime: Arc<dyn Runtime>,
    pacers: Mutex<HashMap<SocketAddr, Weak<SocketPacer>>>,
    /// Until when the connection that a thread is driving has to wait. quinn asks for writability on the same thread
    /// right after it was refused, so the thread identifies the connection.
    waits: Mutex<HashMap<ThreadId, Instant>>,
}

impl PacedSocket {
    /// Paces what goes through `inner`, with the clock and the timers of `runtime`.
    pub fn new(inner: Arc<dyn AsyncUdpSocket>, runtime: Arc<dyn Runtime>) -> Arc<Self> {
        Arc::new(Self { inner, runtime, pacers: Mutex::default(), waits: Mutex::default() })
    }

    /// Paces the connection to `peer`. The result belongs in that connection's own `TransportConfig`, for
    /// `Endpoint::connect_with` or `Incoming::accept_with`.
    pub fn register(&self, peer: SocketAddr, factory: &Factory) -> PacedFactory {
        let pacer = Arc::new(SocketPacer::new());
        let mut pacers = lock(&self.pacers);
        pacers.retain(|_, pacer| pacer.strong_count() > 0);
        pacers.insert(peer, Arc::downgrade(&pacer));
        PacedFactory { factory: factory.clone(), pacer }
    }

    fn pacer(&self, peer: SocketAddr) -> Option<Arc<SocketPacer>> {
        lock(&self.pacers).get(&peer)?.upgrade()
    }
}

impl AsyncUdpSocket for PacedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        let inner = self.inner.clone().create_io_poller();
        Box::pin(Poller { inner, socket: self, timer: Mutex::new(None) })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let Some(pacer) = self.pacer(transmit.destination) else { return self.inner.try_send(transmit) };
        let send = || self.inner.try_send(transmit);
        pacer.try_send(self.runtime.now(), transmit.contents.len(), send).unwrap_or_else(|at| {
            lock(&self.waits).insert(thread::current().id(), at);
            Err(io::ErrorKind::WouldBlock.into())
        })
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// quinn asks this before each sending but does not say for which connection, so the slowest connection decides.
    fn max_transmit_segments(&self) -> usize {
        let slowest =
            lock(&self.pacers).values().filter_map(Weak::upgrade).map(|pacer| pacer.segments()).min();
        self.inner.max_transmit_segments().min(slowest.unwrap_or(usize::MAX))
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// Tells quinn when it may send: when the inner socket is writable and the connection's time has come.
#[derive(Debug)]
struct Poller {
    inner: Pin<Box<dyn UdpPoller>>,
    socket: Arc<PacedSocket>,
    /// The timer that runs while a buffer is held. The lock is never contended; it makes the timer `Sync`, as quinn
    /// demands.
    timer: Mutex<Option<Pin<Box<dyn AsyncTimer>>>>,
}

impl UdpPoller for Poller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wait = lock(&self.socket.waits).remove(&thread::current().id());
        let runtime = self.socket.runtime.clone();
        let timer = self.timer.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = wait {
            *timer = Some(runtime.new_timer(at));
        }
        if let Some(running) = timer {
            ready!(running.as_mut().poll(cx));
            *timer = None;
        }
        self.inner.as_mut().poll_writable(cx)
    }
}

/// Makes the controllers of one paced connection; see [`PacedSocket::register`].
#[derive(Clone, Debug)]
pub struct PacedFactory {
    factory: Factory,
    pacer: Arc<SocketPacer>,
}

impl ControllerFactory for PacedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Quinn::new(&self.factory, now, current_mtu, Some(self.pacer.clone())))
    }
}
