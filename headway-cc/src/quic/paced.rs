//! A UDP socket for quinn 0.11 that paces each registered connection at its controller's own rate.
//!
//! quinn builds a buffer of packets, stamps them as sent, and only then asks the socket. A buffer that comes too early
//! is refused (`WouldBlock`) and a timer is set for its turn; quinn keeps the one buffer until then. The socket tells
//! the controller when the buffer really left, so that its RTTs and rates are those of the path; quinn's own RTT has
//! the hold in it, which is why the slower the rate the fewer packets the socket takes at once.

use super::Factory;
use super::quinn::Quinn;
use quinn::congestion::{Controller, ControllerFactory};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};
use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// A buffer holds no more than its rate sends in this time, so that quinn's RTT grows by no more.
const HOLD: Duration = Duration::from_millis(1);
/// A buffer that leaves late brings the next ones forward, up to this time: timers of user space are that coarse.
const CREDIT: Duration = Duration::from_millis(4);
/// A buffer may leave so much early: timers are not finer.
const EARLY: Duration = Duration::from_micros(50);

/// What a controller and the socket tell each other about one connection.
#[derive(Debug)]
pub(super) struct Lane(Mutex<LaneState>);

#[derive(Debug)]
struct LaneState {
    /// Bytes per second; `u64::MAX` leaves the spacing to quinn.
    rate: u64,
    mtu: u64,
    /// The earliest departure of the next buffer.
    next: Option<Instant>,
    /// Record and size of the buffer that quinn has built and not sent yet.
    held: Option<(u64, usize)>,
    /// Records that left, and when.
    released: Vec<(u64, Instant)>,
}

/// A poisoned lock guards plain numbers: they are used as they are.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lane {
    /// The controller's wish.
    pub(super) fn set_rate(&self, rate: u64, mtu: u64) {
        let mut lane = lock(&self.0);
        (lane.rate, lane.mtu) = (rate.max(1), mtu);
    }

    /// quinn has built a buffer.
    pub(super) fn hold(&self, record: u64, bytes: u64) {
        lock(&self.0).held = usize::try_from(bytes).ok().map(|bytes| (record, bytes));
    }

    /// The buffers that left since the last call.
    pub(super) fn released(&self) -> Vec<(u64, Instant)> {
        std::mem::take(&mut lock(&self.0).released)
    }

    /// Sends if the time has come; otherwise when it comes.
    fn try_send(
        &self,
        now: Instant,
        bytes: usize,
        send: impl FnOnce() -> io::Result<()>,
    ) -> Result<io::Result<()>, Instant> {
        let mut lane = lock(&self.0);
        let next = lane.next.unwrap_or(now);
        if lane.rate != u64::MAX && now + EARLY < next {
            return Err(next);
        }
        let sent = send();
        if sent.is_ok() {
            let nanos = u128::from(bytes as u64) * 1_000_000_000 / u128::from(lane.rate);
            let length = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            let from = now.checked_sub(CREDIT).map_or(next, |least| next.max(least));
            lane.next = from.checked_add(length);
            if let Some((record, _)) = lane.held.take_if(|(_, held)| *held == bytes) {
                lane.released.push((record, now));
            }
        }
        Ok(sent)
    }

    fn segments(&self) -> usize {
        let lane = lock(&self.0);
        let bytes = u128::from(lane.rate) * HOLD.as_nanos() / 1_000_000_000;
        usize::try_from(bytes / u128::from(lane.mtu.max(1))).unwrap_or(usize::MAX).max(1)
    }
}

/// A socket around another that paces the connections registered with it; others pass as they come.
///
/// Give it to `Endpoint::new_with_abstract_socket`. Register each connection before it begins: the peer's address is
/// what tells connections apart, so two at once to one address share a pace, and a peer that moves to another address is
/// paced by quinn alone from then on.
#[derive(Debug)]
pub struct PacedSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    runtime: Arc<dyn Runtime>,
    lanes: Mutex<HashMap<SocketAddr, Weak<Lane>>>,
    /// Until when the connection that a thread drives just now has to wait: quinn asks for writability on the same
    /// thread, right after it was refused.
    waits: Mutex<HashMap<ThreadId, Instant>>,
}

impl PacedSocket {
    /// Paces what goes through `inner`, by the clock and the timers of `runtime`.
    pub fn new(inner: Arc<dyn AsyncUdpSocket>, runtime: Arc<dyn Runtime>) -> Arc<Self> {
        Arc::new(Self { inner, runtime, lanes: Mutex::default(), waits: Mutex::default() })
    }

    /// Paces the connection to `peer`: what this returns goes into that connection's own `TransportConfig`, for
    /// `Endpoint::connect_with` or `Incoming::accept_with`.
    pub fn register(&self, peer: SocketAddr, factory: &Factory) -> PacedFactory {
        let lane = LaneState { rate: u64::MAX, mtu: 1200, next: None, held: None, released: Vec::new() };
        let lane = Arc::new(Lane(Mutex::new(lane)));
        let mut lanes = lock(&self.lanes);
        lanes.retain(|_, lane| lane.strong_count() > 0);
        lanes.insert(peer, Arc::downgrade(&lane));
        PacedFactory { factory: factory.clone(), lane }
    }

    fn lane(&self, peer: SocketAddr) -> Option<Arc<Lane>> {
        lock(&self.lanes).get(&peer)?.upgrade()
    }
}

impl AsyncUdpSocket for PacedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        let inner = self.inner.clone().create_io_poller();
        Box::pin(Poller { inner, socket: self, timer: Mutex::new(None) })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let Some(lane) = self.lane(transmit.destination) else { return self.inner.try_send(transmit) };
        let send = || self.inner.try_send(transmit);
        lane.try_send(self.runtime.now(), transmit.contents.len(), send).unwrap_or_else(|at| {
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

    /// quinn asks before each sending, but not for which connection: the slowest decides.
    fn max_transmit_segments(&self) -> usize {
        let slowest = lock(&self.lanes).values().filter_map(Weak::upgrade).map(|lane| lane.segments()).min();
        self.inner.max_transmit_segments().min(slowest.unwrap_or(usize::MAX))
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// Writable when the inner socket is and the connection's turn has come.
#[derive(Debug)]
struct Poller {
    inner: Pin<Box<dyn UdpPoller>>,
    socket: Arc<PacedSocket>,
    /// While a buffer is held. The lock is never contended: it makes the timer `Sync`, as quinn asks.
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

/// Makes the controllers of one connection, see [`PacedSocket::register`].
#[derive(Clone, Debug)]
pub struct PacedFactory {
    factory: Factory,
    lane: Arc<Lane>,
}

impl ControllerFactory for PacedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Quinn::new(&self.factory, now, current_mtu, Some(self.lane.clone())))
    }
}
