//! Congestion controllers (BBRv1, BBRv3, CUBIC) as pure functions of one event, and what it takes to try them: a link
//! model, a simulator, and adapters for QUIC stacks.
//!
//! ```text
//!   transport ──Ack──► controller ──Control──► transport        cc, driver, sampler
//!   flows ──packets──► link ──packets──► receiver ──ACKs──►      sim, link, path
//! ```
//!
//! Nothing here reads a clock, does I/O or draws random numbers but from a seed, so the same arguments give the same
//! result, bit for bit. There is no dependency but for the QUIC stacks of the features `noq` and `quinn`. The same
//! controllers run in the Linux kernel: their C twins are in the crate `headway-kernel`, held equal by tests.
//!
//! Where to begin: [`sim::run`] simulates flows over a [`path::Path`]; [`cc::controller`] gives a controller by its name;
//! a transport of your own puts a [`driver::Driver`] and a [`sampler::Sampler`] around it.
//!
//! Two flows share a bottleneck for twenty simulated seconds:
//!
//! ```
//! use headway_cc::sim::{FlowSpec, SimSpec, run};
//!
//! let path = "20mbit 40ms queue=1bdp loss=0.1%".parse()?;
//! let flows = vec![FlowSpec::bulk("bbr1"), FlowSpec::bulk("cubic")];
//! let result = run(&SimSpec::new(path, flows, 20_000_000, 1))?;
//!
//! let mbit = |bytes: u64| bytes as f64 * 8.0 / 20e6;
//! for flow in &result.flows {
//!     println!("{}: {:.1} Mbit/s, mean RTT {} us", flow.cc, mbit(flow.delivered_bytes), flow.mean_rtt_us);
//! }
//! let total: u64 = result.flows.iter().map(|f| f.delivered_bytes).sum();
//! assert!(mbit(total) > 18.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A controller alone is one function, here at the first event of a TCP connection (unit of data: the packet):
//!
//! ```
//! use headway_cc::cc::{Ack, Event, controller};
//!
//! let mut bbr1 = controller("bbr1").expect("one of CONTROLLERS");
//! let start = Ack {
//!     event: Event::Init,
//!     unit_bytes: 1448,
//!     smss: 1,
//!     cwnd: 10,
//!     cwnd_clamp: u32::MAX.into(),
//!     max_pacing_rate: u64::MAX,
//!     srtt_us: 40_000,
//!     ..Ack::default()
//! };
//! // 2.885 windows a round trip, less 1 %, in bytes per second.
//! assert_eq!(bbr1.on_event(&start).pacing_rate / 1000, 1034);
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cc;
pub mod driver;
pub mod histogram;
pub mod link;
pub mod messages;
pub mod names;
pub mod path;
#[cfg(any(feature = "noq", feature = "quinn"))]
pub mod quic;
pub mod rand;
pub mod reconstruct;
pub mod sampler;
mod sequence;
pub mod sim;

/// The manual's lines for noq, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../docs/tutorial/quinn.md")]
struct Manual;
