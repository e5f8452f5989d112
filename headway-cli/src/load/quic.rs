//! A load of a real QUIC stack between the ends of an emulated path: one connection, whose streams the near end sends and
//! the far end reads. What it prints is what iperf3 would have printed, as far as anything reads it.
//!
//! Each end has its socket in its namespace and a thread with a tokio runtime of its own. The connection is set up as the
//! simulator's is (`headway_cc::quic::sim`): the same limits, certificate and seeds. quinn is paced by the window, which is
//! what its adapter does by itself.
//!
//! A program's stack waits for the CPU, which a kernel's does not. So the threads are favoured, and a cell in which one was
//! late all the same does not count. In the lab nothing else wants the CPU: whoever is late there is late by its own work,
//! which counts, unless the work leaves too little of the guest's one CPU for the path to be what limits it.

// The same text compiled against each stack: their types have the same names and are different types.
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

const BIN: Duration = Duration::from_millis(100);
/// How long a handshake may take before the load fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Receive buffer of a socket: more than arrives while its thread waits for the CPU, so that the socket itself drops nothing.
const RECEIVE_BYTES: usize = 8 << 20;
/// The share of the guest's one CPU that a load may take; the emulated path needs the rest.
const MOST_CPU_PERCENT: f64 = 70.0;

/// The load.
#[derive(Debug)]
pub struct Connection<'a> {
    /// The stack that our controllers run in.
    pub stack: Stack,
    pub cc: &'a str,
    pub traffic: &'a Traffic,
    pub seed: u64,
    /// Keep the events of our controllers.
    pub is_traced: bool,
}

/// What a load leaves behind.
#[derive(Debug)]
pub struct Done {
    /// JSON like that of `iperf3 -J --get-server-output`.
    pub json: String,
    /// Text of `acks.txt`, if it was asked for and the controller is ours.
    pub acks: Option<String>,
    /// The worst that an end was late.
    pub late: Duration,
    /// CPU time of both ends.
    pub cpu: Duration,
}

/// What the two ends of the load must know.
#[derive(Clone, Debug)]
struct Load {
    streams: usize,
    /// What each stream has to send, and when.
    source: Source,
    seed: u64,
    bins: u32,
}

/// What one end counted in each bin, the CPU time it took, and the worst that it came late to the end of a bin.
#[derive(Debug)]
struct Side<B> {
    bins: Vec<B>,
    cpu: Duration,
    late: Duration,
}

/// The near end's sockets and counters, and how much the far end had read of each stream.
type Sides = (Side<FlowBin>, Side<Vec<u64>>);

impl Connection<'_> {
    /// Runs from `near`, where the port is free, to `far`.
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
        let load = Load {
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

    /// One of ours; its events, if they are to be kept, are added to `acks`.
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

/// The rule, fixed beforehand and blind to the traffic, by which a load on the running kernel does not count: an end was late
/// by more than 5 % of the base RTT, or 5 ms; the event loop's timers have 1 ms.
pub fn disturbed(late: Duration, base_rtt_us: u64) -> Option<String> {
    let limit_us = lateness_limit_us(base_rtt_us).max(5000);
    let late_us = late.as_micros();
    (late_us > limit_us.into())
        .then(|| format!("a thread of the QUIC load was {late_us} us late (worst, limit {limit_us} us)"))
}

/// The same for a load in a guest: its ends took more than so much of the one CPU, which the path's emulator needs too.
pub fn saturated(cpu: Duration, length: Duration) -> Option<String> {
    let percent = 100.0 * cpu.as_secs_f64() / length.as_secs_f64();
    (percent > MOST_CPU_PERCENT)
        .then(|| format!("the QUIC load took {percent:.0} % of the guest's CPU (limit {MOST_CPU_PERCENT} %)"))
}

/// Runs an end to its end in the calling thread.
fn alone<T>(end: impl Future<Output = Result<T>>) -> Result<T> {
    sys::sched::run_before_normal_threads();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start an event loop")?.block_on(end)
}

/// Both ends, each in a thread.
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

    /// Over loopback: what is read as iperf3's output, and a trace that replays.
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
            // Four streams of 500 kB a second at most; how much of it depends on how busy the machine is.
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
