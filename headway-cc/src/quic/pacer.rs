//! The pace of one quinn connection, shared by its controller, which sets the rate, and by the socket, which holds
//! each buffer until its turn comes.
//!
//! It is a module of its own so that the adapter (`quinn.rs`) and the socket (`paced_socket.rs`) do not import each
//! other.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A buffer holds no more than the rate sends in this time. quinn counts the time that a buffer is held as part of
/// the RTT, so its RTT grows by no more than this.
const HOLD: Duration = Duration::from_millis(1);
/// A buffer that leaves late lets the next ones leave earlier, by up to this time in all. Timers in user space are
/// late by about as much, and without the credit the rate would be too low.
const CREDIT: Duration = Duration::from_millis(4);
/// A buffer may leave early by this time, because timers are no finer.
const EARLY: Duration = Duration::from_micros(50);

/// What a controller and the socket tell each other about one connection.
#[derive(Debug)]
pub(super) struct SocketPacer(Mutex<PacerState>);

#[derive(Debug)]
struct PacerState {
    /// Bytes per second; `u64::MAX` leaves the spacing to quinn.
    rate: u64,
    mtu: u64,
    /// The earliest departure of the next buffer.
    next: Option<Instant>,
    /// Record and size of the buffer that quinn has built and not sent yet.
    held: Option<(u64, usize)>,
    /// Records that have left since the controller last asked, and when they left.
    released: Vec<(u64, Instant)>,
}

/// Locks even if another thread panicked while it held the lock: the data are plain numbers, which are valid in any
/// state.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SocketPacer {
    /// A pacer without a rate: until the controller sets one, buffers pass at once.
    pub(super) fn new() -> Self {
        let (rate, mtu) = (u64::MAX, 1200);
        Self(Mutex::new(PacerState { rate, mtu, next: None, held: None, released: Vec::new() }))
    }

    /// Sets the rate, in bytes per second, and the packet size, in bytes, that the controller wants.
    pub(super) fn set_rate(&self, rate: u64, mtu: u64) {
        let mut state = lock(&self.0);
        (state.rate, state.mtu) = (rate.max(1), mtu);
    }

    /// Notes that quinn has built a buffer, which the socket will be asked to send next.
    pub(super) fn hold(&self, record: u64, bytes: u64) {
        lock(&self.0).held = usize::try_from(bytes).ok().map(|bytes| (record, bytes));
    }

    /// The buffers that have left since the last call, and when, for the controller.
    pub(super) fn released(&self) -> Vec<(u64, Instant)> {
        std::mem::take(&mut lock(&self.0).released)
    }

    /// Sends if the time has come, and returns the result; otherwise returns the time as the error.
    pub(super) fn try_send(
        &self,
        now: Instant,
        bytes: usize,
        send: impl FnOnce() -> io::Result<()>,
    ) -> Result<io::Result<()>, Instant> {
        let mut state = lock(&self.0);
        let next = state.next.unwrap_or(now);
        if state.rate != u64::MAX && now + EARLY < next {
            return Err(next);
        }
        let sent = send();
        if sent.is_ok() {
            let nanos = u128::from(bytes as u64) * 1_000_000_000 / u128::from(state.rate);
            let length = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            let from = now.checked_sub(CREDIT).map_or(next, |least| next.max(least));
            state.next = from.checked_add(length);
            if let Some((record, _)) = state.held.take_if(|(_, held)| *held == bytes) {
                state.released.push((record, now));
            }
        }
        Ok(sent)
    }

    pub(super) fn segments(&self) -> usize {
        let state = lock(&self.0);
        let bytes = u128::from(state.rate) * HOLD.as_nanos() / 1_000_000_000;
        usize::try_from(bytes / u128::from(state.mtu.max(1))).unwrap_or(usize::MAX).max(1)
    }
}
