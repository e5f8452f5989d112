//! quinn's runtime in virtual time: tasks, timers and two sockets over two `Link`s, on one thread.

use headway_cc::link::Link;
use headway_cc::path::Path;
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

static ORIGIN: LazyLock<Instant> = LazyLock::new(|| {
    #[allow(clippy::disallowed_methods)]
    Instant::now()
});

/// A datagram: its sender, its ECN mark and its content.
type Datagram = (SocketAddr, Option<EcnCodepoint>, Vec<u8>);
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
struct State {
    now_ns: u64,
    /// Timers fire at multiples of this time.
    granularity_ns: u64,
    timers: BTreeMap<(u64, u64), Waker>,
    next_timer: u64,
    spawned: Vec<Task>,
    /// The two links: one for data, one for ACKs.
    links: Vec<Link<Datagram>>,
    inbound: [VecDeque<Datagram>; 2],
    readers: [Option<Waker>; 2],
    /// Times and sizes of what each socket sent.
    sent: [Vec<(u64, usize)>; 2],
    /// How long each data packet was in the bottleneck, and when it left.
    queued_ns: Vec<(u64, u64)>,
}

#[derive(Clone)]
pub struct World(Arc<Mutex<State>>);

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

impl World {
    /// Two sockets over a path; side 1 sends the data.
    pub fn new(path: &Path, granularity_us: u64) -> Self {
        let links = vec![Link::new(&path.up, 1), Link::new(&path.down, 1)];
        Self(Arc::new(Mutex::new(State { links, granularity_ns: granularity_us * 1000, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn address(side: usize) -> SocketAddr {
        ([10, 0, 0, 1 + side as u8], 4433).into()
    }

    pub fn socket(&self, side: usize) -> Arc<dyn AsyncUdpSocket> {
        Arc::new(Socket { world: self.clone(), side })
    }

    /// What a socket sent between two times, bytes.
    pub fn sent(&self, side: usize, from_us: u64, to_us: u64) -> u64 {
        let state = self.state();
        let is_in = |(ns, _): &&(u64, usize)| (from_us * 1000..to_us * 1000).contains(ns);
        state.sent[side].iter().filter(is_in).map(|(_, bytes)| *bytes as u64).sum()
    }

    /// The mean time in the bottleneck of the data packets that left it from `from_us` on.
    pub fn mean_queued_us(&self, from_us: u64) -> u64 {
        let state = self.state();
        let of = state.queued_ns.iter().filter(|(ns, _)| *ns >= from_us * 1000).map(|(_, queued)| queued);
        of.clone().sum::<u64>() / 1000 / (of.count() as u64).max(1)
    }

    /// Runs all tasks until `end_us`.
    pub fn run_until(&self, end_us: u64, tasks: &mut Tasks) {
        loop {
            tasks.run(self);
            let mut state = self.state();
            let links = state.links.iter().filter_map(|l| l.next_ns()).min().unwrap_or(u64::MAX);
            let timer = state.timers.keys().next().map_or(u64::MAX, |(ns, _)| *ns);
            let next_ns = links.min(timer).max(state.now_ns);
            if next_ns > end_us * 1000 {
                state.now_ns = end_us * 1000;
                return;
            }
            state.now_ns = next_ns;
            for side in 0..2 {
                while let Some(out) = state.links[side].pop(next_ns) {
                    if side == 1 {
                        state.queued_ns.push((out.sent_ns, out.sent_ns - out.in_ns));
                    }
                    state.inbound[1 - side].push_back(out.packet);
                }
            }
            let mut due: Vec<Waker> = Vec::new();
            while let Some(entry) = state.timers.first_entry().filter(|e| e.key().0 <= next_ns) {
                due.push(entry.remove());
            }
            for side in 0..2 {
                if !state.inbound[side].is_empty() {
                    due.extend(state.readers[side].take());
                }
            }
            drop(state);
            due.into_iter().for_each(Waker::wake);
        }
    }
}

/// The tasks of a world, each with whether it has been woken.
#[derive(Default)]
pub struct Tasks(Vec<(Option<Task>, Arc<Woken>)>);

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Tasks {
    fn run(&mut self, world: &World) {
        loop {
            let spawned = std::mem::take(&mut world.state().spawned);
            self.0
                .extend(spawned.into_iter().map(|task| (Some(task), Arc::new(Woken(AtomicBool::new(true))))));
            let mut is_idle = true;
            for (task, woken) in &mut self.0 {
                if !woken.0.swap(false, Ordering::Relaxed) {
                    continue;
                }
                is_idle = false;
                let waker = Waker::from(woken.clone());
                if let Some(running) = task
                    && running.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
                {
                    *task = None;
                }
            }
            if is_idle && world.state().spawned.is_empty() {
                return;
            }
        }
    }
}

impl Runtime for World {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer { world: self.clone(), at, key: None })
    }

    fn spawn(&self, future: Task) {
        self.state().spawned.push(future);
    }

    fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn now(&self) -> Instant {
        *ORIGIN + Duration::from_nanos(self.state().now_ns)
    }
}

#[derive(Debug)]
struct Timer {
    world: World,
    at: Instant,
    key: Option<(u64, u64)>,
}

impl Timer {
    fn cancel(&mut self) {
        if let Some(key) = self.key.take() {
            self.world.state().timers.remove(&key);
        }
    }
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.cancel();
        self.at = at;
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.cancel();
        let world = self.world.clone();
        let mut state = world.state();
        let at_ns = self.at.saturating_duration_since(*ORIGIN).as_nanos() as u64;
        let at_ns = at_ns.next_multiple_of(state.granularity_ns.max(1));
        if at_ns <= state.now_ns {
            return Poll::Ready(());
        }
        state.next_timer += 1;
        let key = (at_ns, state.next_timer);
        state.timers.insert(key, cx.waker().clone());
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.cancel();
    }
}

#[derive(Debug)]
struct Socket {
    world: World,
    side: usize,
}

#[derive(Debug)]
struct Always;

impl UdpPoller for Always {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Always)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut state = self.world.state();
        let (now_ns, from) = (state.now_ns, World::address(self.side));
        state.sent[self.side].push((now_ns, transmit.contents.len()));
        for data in transmit.contents.chunks(transmit.segment_size.unwrap_or(usize::MAX).max(1)) {
            let packet = (from, transmit.ecn, data.to_vec());
            state.links[self.side].push(now_ns, data.len() as u32 + 28, false, packet);
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.world.state();
        let mut n = 0;
        while n < bufs.len().min(meta.len())
            && let Some((addr, ecn, data)) = state.inbound[self.side].pop_front()
        {
            bufs[n][..data.len()].copy_from_slice(&data);
            meta[n] = RecvMeta { addr, len: data.len(), stride: data.len(), ecn, ..RecvMeta::default() };
            n += 1;
        }
        if n == 0 {
            state.readers[self.side] = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(n))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(World::address(self.side))
    }

    fn max_transmit_segments(&self) -> usize {
        10
    }
}
