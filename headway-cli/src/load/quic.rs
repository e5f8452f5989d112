//! The load of a real QUIC stack (noq or quinn) between the ends of an emulated path: one connection, on whose
//! streams the near end sends and the far end reads. The output is JSON in iperf3's form, as far as `raw/load.rs`
//! reads it. `cell/here.rs` calls this.
//!
//! Each end has its socket in its own namespace, and a thread of its own with a tokio runtime. The connection is set
//! up like the simulator's (`headway_cc::quic::sim`), with the same limits, certificate and seeds. quinn spaces its
//! packets by the window that the adapter tells it, so a pacing rate holds over a round trip but not within it.
//!
//! Unlike TCP in the kernel, a QUIC stack in a program waits for the CPU like any other program, and that wait would
//! be measured as delay. So its threads get a better priority, and a cell in which one of them was late all the same
//! does not count. In the lab nothing else wants the CPU: a thread that is late there is late by its own work, which
//! is part of the result. There a cell does not count when that work leaves too little of the guest's one CPU for the
//! emulated path to be what limits the load.

// `noq` and `quinn` both include `ends.rs`. The stacks' types have the same names but are different types, so the
// same text must be compiled once against each.
#[allow(clippy::duplicate_mod)]
mod noq;
#[allow(clippy::duplicate_mod)]
mod quinn;

use crate::emu::Netns;
use crate::observe::lateness::lateness_limit_us;
use crate::plan::traffic::Traffic;
use crate::raw::load;
use crate::sys;
use anyhow::{Context, Result, anyhow};
use headway_cc::quic::Factory;
use headway_cc::quic::sim::{Bin, MSS, Stack, flows};
use headway_cc::sim::{FlowBin, SimRun, Source};
use rustix::net::sockopt;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Length of the intervals in which the load is counted.
const BIN: Duration = Duration::from_millis(100);
/// How long a handshake may take before the load fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Receive buffer of a socket, in bytes. It is larger than what arrives while the socket's thread waits for the CPU,
/// so that the socket itself drops nothing.
const RECEIVE_BYTES: usize = 8 << 20;
/// The most of the guest's one CPU that a load may take, in percent. The emulated path needs the rest.
const MOST_CPU_PERCENT: f64 = 70.0;

/// The QUIC load between two ends of an emulated path.
#[derive(Debug)]
pub struct Connection<'a> {
    /// The stack that Headway's controllers run in. A stack's own controller brings its stack with it.
    pub stack: Stack,
    pub cc: &'a str,
    pub traffic: &'a Traffic,
    pub seed: u64,
    /// Keep the events of the controller, if it is one of Headway's.
    pub is_traced: bool,
}

/// What a load leaves behind.
#[derive(Debug)]
pub struct Done {
    /// JSON like that of `iperf3 -J --get-server-output`.
    pub json: String,
    /// The text of `acks.txt`, if a trace was asked for and the controller is one of Headway's.
    pub acks: Option<String>,
    /// The longest time by which an end was late to the end of a bin.
    pub late: Duration,
    /// CPU time that both ends took together.
    pub cpu: Duration,
}

/// What the two ends of the load must know about it.
#[derive(Clone, Debug)]
struct Workload {
    streams: usize,
    /// What each stream has to send, and when.
    source: Source,
    seed: u64,
    bins: u32,
}

/// What one end counted in each bin, the CPU time it took, and the longest time by which it was late to the end of a
/// bin.
#[derive(Debug)]
struct Side<B> {
    bins: Vec<B>,
    cpu: Duration,
    late: Duration,
}

/// The near end with the counters of its connection, and the far end with the bytes that it has read from each
/// stream.
type Sides = (Side<FlowBin>, Side<Vec<u64>>);

impl Connection<'_> {
    /// Sends from `near`, where the port of `from` is free, to `far`, whose address is `to`.
    pub fn run(&self, [near, far]: [&Netns; 2], from: SocketAddrV4, to: Ipv4Addr) -> Result<Done> {
        let bind = |at: SocketAddrV4| -> Result<UdpSocket> {
            let socket = UdpSocket::bind(at)?;
            sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES)?;
            Ok(socket)
        };
        let near = near.enter(|| bind(from)).context("cannot open a socket at the near end")?;
        let far =
            far.enter(|| bind(SocketAddrV4::new(to, 0))).context("cannot open a socket at the far end")?;
        self.run_over([near, far])
    }

    fn run_over(&self, sockets: [UdpSocket; 2]) -> Result<Done> {
        let load = Workload {
            streams: self.traffic.streams as usize,
            source: self.traffic.pattern.source(),
            seed: self.seed,
            bins: self.traffic.seconds * (Duration::from_secs(1).as_millis() / BIN.as_millis()) as u32,
        };
        let mut acks = None;
        let sides = match self.stack.of(self.cc) {
            Stack::Noq => {
                let factory = match noq::stack::own(self.cc) {
                    Some(own) => own,
                    None => Arc::new(self.factory(&mut acks)?),
                };
                noq::ends::run(&load, factory, sockets)?
            }
            Stack::Quinn => {
                let factory = match quinn::stack::own(self.cc) {
                    Some(own) => own,
                    None => Arc::new(self.factory(&mut acks)?),
                };
                quinn::ends::run(&load, factory, sockets)?
            }
        };
        let take = |acks: Arc<Mutex<String>>| {
            std::mem::take(&mut *acks.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let late = sides.0.late.max(sides.1.late);
        let cpu = sides.0.cpu + sides.1.cpu;
        Ok(Done { json: self.json(sides), acks: acks.map(take), late, cpu })
    }

    /// Makes one of Headway's controllers. Its events, if they are to be kept, are added to `acks`.
    fn factory(&self, acks: &mut Option<Arc<Mutex<String>>>) -> Result<Factory> {
        let factory = Factory::named(self.cc)?.seed(self.seed);
        if !self.is_traced {
            return Ok(factory);
        }
        let text = acks.insert(Arc::default()).clone();
        Ok(factory.trace(move |line| {
            let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
            text.push_str(line);
            text.push('\n');
        }))
    }

    fn json(&self, (near, far): Sides) -> String {
        let seconds = u64::from(self.traffic.seconds);
        let cpu = [near.cpu, far.cpu];
        let bins: Vec<Bin> = near.bins.into_iter().zip(far.bins).collect();
        let flows = flows(self.cc, self.traffic.streams as usize, &bins);
        let run = SimRun {
            duration_us: seconds * 1_000_000,
            bin_us: BIN.as_micros() as u64,
            mss: MSS,
            ..SimRun::default()
        };
        load::kernel_json(&run, &flows, cpu)
    }
}

/// Why a load on the running kernel does not count: an end was late by more than 5 % of the base RTT, and by more
/// than 5 ms, because the timers of the event loop have a resolution of 1 ms. The rule is fixed beforehand and does
/// not look at the result.
pub fn disturbed(late: Duration, base_rtt_us: u64) -> Option<String> {
    let limit_us = lateness_limit_us(base_rtt_us).max(5000);
    let late_us = late.as_micros();
    (late_us > limit_us.into())
        .then(|| format!("a thread of the QUIC load was {late_us} us late (worst, limit {limit_us} us)"))
}

/// Why a load in a guest of the lab does not count: its ends took more than 70 % of the guest's one CPU, which the
/// emulated path needs too.
pub fn saturated(cpu: Duration, length: Duration) -> Option<String> {
    let percent = 100.0 * cpu.as_secs_f64() / length.as_secs_f64();
    (percent > MOST_CPU_PERCENT)
        .then(|| format!("the QUIC load took {percent:.0} % of the guest's CPU (limit {MOST_CPU_PERCENT} %)"))
}

/// Runs one end of the load to completion, in the calling thread.
fn alone<T>(end: impl Future<Output = Result<T>>) -> Result<T> {
    sys::sched::run_before_normal_threads();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start an event loop")?.block_on(end)
}

/// Runs both ends of the load, each in a thread of its own.
fn both<A: Send, B: Send>(
    near: impl Future<Output = Result<A>> + Send,
    far: impl Future<Output = Result<B>> + Send,
) -> Result<(A, B)> {
    std::thread::scope(|s| {
        let (near, far) = (s.spawn(move || alone(near)), s.spawn(move || alone(far)));
        let near = near.join().map_err(|_| anyhow!("the near end of the load crashed"))?;
        let far = far.join().map_err(|_| anyhow!("the far end of the load crashed"))?;
        Ok((near.context("the near end of the load")?, far.context("the far end of the load")?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::traffic::Pattern;
    use crate::raw::load::{self, Load};
    use headway_kernel::replay;

    fn run(stack: Stack, cc: &str, traffic: &Traffic) -> (Load, Done) {
        let connection = Connection { stack, cc, traffic, seed: 3, is_traced: true };
        let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let done = connection.run_over([socket(), socket()]).unwrap();
        (load::parse(&done.json).unwrap(), done)
    }

    /// Runs over loopback. The output must be readable as iperf3's, and the trace must replay to the same decisions.
    #[test]
    fn each_stack_carries_a_limited_load_in_streams() {
        for (stack, cc) in [
            (Stack::Noq, "bbr3"),
            (Stack::Quinn, "bbr1:probe_rtt_mode_us=100ms"),
            (Stack::Noq, "noq-cubic"),
            (Stack::Noq, "quinn-newreno"),
        ] {
            let pattern = Pattern::limited("4mbit").unwrap();
            let (load, done) = run(stack, cc, &Traffic { streams: 4, pattern, ..Traffic::bulk(1) });
            assert_eq!(load.judge(cc), Ok(()));
            assert_eq!((load.sent.len(), load.received.len()), (10, 10), "{cc}");
            assert!(load.received.iter().all(|i| i.stream_bytes.len() == 4), "{cc}");
            // Four streams of 500 kB/s send 2 MB in the second at most; how much less depends on how busy the machine
            // is.
            assert!((500_000..=2_040_000).contains(&load.received_bytes), "{cc}: {}", load.received_bytes);
            assert!(load.sender_cpu_percent.is_some_and(|p| p > 0.0) && load.mss_bytes == Some(1416), "{cc}");
            let replayed = done.acks.map(|text| replay(&text).unwrap());
            assert_eq!(replayed.is_none(), cc.contains('-'), "{cc}");
            assert!(replayed.is_none_or(|r| r.events > 100 && r.flows == 1), "{cc}");
        }
    }

    #[test]
    fn a_late_thread_disturbs() {
        let late = Duration::from_millis;
        assert_eq!([disturbed(late(5), 40_000), disturbed(late(9), 200_000)], [None, None]);
        assert!(disturbed(late(6), 40_000).is_some_and(|why| why.contains("6000 us late")));
        assert!(disturbed(late(11), 200_000).is_some_and(|why| why.contains("limit 10000 us")));
    }

    #[test]
    fn a_load_that_takes_the_guests_cpu_does_not_count() {
        let taken = |ms| saturated(Duration::from_millis(ms), Duration::from_secs(2));
        assert_eq!(taken(1400), None);
        assert!(taken(1600).is_some_and(|why| why.contains("80 % of the guest's CPU")));
    }

    #[test]
    fn an_unknown_controller_is_named() {
        let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let traffic = Traffic::bulk(1);
        let connection =
            Connection { stack: Stack::Noq, cc: "bbr4", traffic: &traffic, seed: 1, is_traced: false };
        let error = connection.run_over([socket(), socket()]).unwrap_err();
        assert!(error.to_string().contains("`bbr4`"), "{error:#}");
    }
}
