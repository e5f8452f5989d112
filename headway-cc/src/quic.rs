//! Any controller of this crate in a QUIC stack: `noq` and `quinn`, each behind the feature of its name.
//!
//! ```text
//!   stack ──sent, acked, lost──► noq.rs, quinn.rs ──► Flow: sampler + controller ──Control──► stack
//! ```
//!
//! A [`Factory`] is what a stack's `TransportConfig` takes; it makes one controller for each path of a connection.
//! `noq.rs` and `quinn.rs` turn a stack's calls into those of `flow::Flow`, which keeps what the stacks do not tell: the
//! state of the connection when each packet was sent, the recovery period of RFC 9002 §7.3.2, and which calls belong to
//! one ACK. Data is counted in bytes of UDP payload. Nothing here reads a clock; the stacks hand time in. `docs/explanation/quic.md`
//! says what each stack withholds and what that costs.

mod flow;
#[cfg(feature = "noq")]
mod noq;
#[cfg(feature = "quinn")]
mod paced_socket;
#[cfg(feature = "quinn")]
mod pacer;
#[cfg(feature = "quinn")]
mod quinn;
#[cfg(feature = "quic-sim")]
pub mod sim;

#[cfg(feature = "quinn")]
pub use paced_socket::{PacedFactory, PacedSocket};
#[cfg(feature = "quinn")]
pub use quinn::running_in_quinn;

use crate::cc::{self, Controller, ControllerError};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type New = dyn Fn() -> Box<dyn Controller> + Send + Sync;
type Sink = dyn Fn(&str) + Send + Sync;

/// Makes controllers for a QUIC stack: give it, in an [`Arc`], to the stack's
/// `TransportConfig::congestion_controller_factory`.
///
/// ```
/// use headway_cc::quic::Factory;
///
/// let factory = Factory::named("bbr3")?.seed(7).max_pacing_rate(12_500_000);
/// assert!(Factory::named("bbr4").is_err());
/// # Ok::<(), headway_cc::cc::ControllerError>(())
/// ```
#[derive(Clone)]
pub struct Factory {
    name: Arc<str>,
    new: Arc<New>,
    max_pacing_rate: u64,
    seed: u64,
    trace: Option<Arc<Sink>>,
    flows: Arc<AtomicU64>,
}

impl Factory {
    /// Makes controllers by name, with settings if there are any, as [`cc::controller`] does.
    pub fn named(name: &str) -> Result<Self, ControllerError> {
        let fresh = cc::controller(name)?;
        Ok(Self::new(name, move || fresh.clone_box()))
    }

    /// Makes controllers with `new`; `name` is what a trace calls them.
    pub fn new(name: &str, new: impl Fn() -> Box<dyn Controller> + Send + Sync + 'static) -> Self {
        Self {
            name: name.into(),
            new: Arc::new(new),
            max_pacing_rate: u64::MAX,
            seed: 0,
            trace: None,
            flows: Arc::default(),
        }
    }

    /// Bounds the pacing rate of each connection, bytes per second.
    pub fn max_pacing_rate(mut self, bytes_per_second: u64) -> Self {
        self.max_pacing_rate = bytes_per_second.max(1);
        self
    }

    /// Changes the controllers' random numbers. They come from this seed, the number of the flow and the times at
    /// which ACKs arrive, so that flows probe apart also with the same seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Writes every event of every controller: `sink` is given lines without their ends, first the one that names
    /// the columns and, if there are settings, the one that has them. The form is that of the kernel's trace, and
    /// `headway replay` reads it. A sink that is slow slows the connection.
    pub fn trace(mut self, sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let (name, settings) = cc::name_and_settings(&self.name);
        let columns = cc::trace_columns(name, &*(self.new)());
        cc::trace_header(&columns, &settings.collect::<Vec<_>>()).lines().for_each(&sink);
        self.trace = Some(Arc::new(sink));
        self
    }

    /// The number of a new flow, from 1.
    fn next_flow(&self) -> u64 {
        self.flows.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Factory").field("name", &self.name).finish_non_exhaustive()
    }
}
