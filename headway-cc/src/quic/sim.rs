//! A connection of a real QUIC stack in virtual time. [`run`] takes the same [`SimSpec`] as the simulator and gives
//! the same kind of [`SimRun`].
//!
//! ```text
//!  server: endpoint of the stack ──────► down (the bottleneck) ──────► client: endpoint of the stack
//!     ▲  controller                                                         │
//!     └────────────────────────────── up (ACKs) ◄───────────────────────────┘   probes and messages cross too
//! ```
//!
//! It shows a controller inside a real stack without the noise of a machine. The flows of the spec are streams of one
//! connection and share its controller. Packets, TLS, loss recovery and pacing are the stack's own, and its timers
//! fire exactly when they are due. Stacks do not report what is in flight or their pacing rate, so both are 0 in the
//! bins.

// Both modules compile the same file (`net.rs`) against their stack, because the types of the two stacks have the
// same names and are different types.
#[allow(clippy::duplicate_mod)]
pub mod noq;
#[allow(clippy::duplicate_mod)]
pub mod quinn;

use super::Factory;
use crate::cc::{Ack, Control};
use crate::sim::{FlowBin, FlowRun, SimError, SimRun, SimSpec, Source, TraceRow};
use std::sync::{Arc, Mutex, PoisonError};

/// A QUIC stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// noq 1.x.
    Noq,
    /// quinn 0.11.
    Quinn,
}

/// The controllers that the stacks ship. Each runs in its own stack, whichever stack is asked for. `noq-bbr3` and
/// `quinn-bbr` draw random numbers that cannot be seeded from outside, so no two runs of them are the same.
pub const OWN: &[&str] =
    &["noq-bbr3", "noq-cubic", "noq-newreno", "quinn-bbr", "quinn-cubic", "quinn-newreno"];

impl Stack {
    /// The stack that `cc` runs in: its own if it is shipped with one, otherwise this one.
    pub fn of(self, cc: &str) -> Self {
        match cc.split_once('-') {
            Some(("noq", _)) => Self::Noq,
            Some(("quinn", _)) => Self::Quinn,
            _ => self,
        }
    }
}

/// Bytes of the IPv4 and UDP headers of a packet.
pub(crate) const HEADERS: u32 = 28;
/// Bytes of a full packet of a bulk stream that are not payload: the short header with a connection identifier of 8
/// bytes and a packet number, the STREAM frame and the tag.
pub const QUIC_BYTES: u32 = 36;
/// Payload of a full packet in bytes. The largest datagram that both stacks probe for has 1452 bytes.
pub const MSS: u32 = 1452 - QUIC_BYTES;

/// A bin of the connection as a whole, and the bytes that each stream had delivered at its end.
pub type Bin = (FlowBin, Vec<u64>);

/// The streams of a connection as flows. A packet may hold data of several streams, so what was sent and lost is
/// divided equally among them.
pub fn flows(cc: &str, streams: usize, bins: &[Bin]) -> Vec<FlowRun> {
    (0..streams).map(|stream| flow(cc, (stream as u64, streams as u64), bins)).collect()
}

fn flow(cc: &str, (stream, streams): (u64, u64), bins: &[Bin]) -> FlowRun {
    // The first streams get the remainder of the division.
    let share = |total: u64| total / streams + u64::from(stream < total % streams);
    let mut before = 0;
    let bin = |(whole, read): &Bin| {
        let read = read.get(stream as usize).copied().unwrap_or(0);
        let delivered_bytes = read - std::mem::replace(&mut before, read);
        let (sent_bytes, retransmitted_packets) =
            (share(whole.sent_bytes), share(whole.retransmitted_packets));
        FlowBin { delivered_bytes, sent_bytes, retransmitted_packets, ..*whole }
    };
    let bins: Vec<FlowBin> = bins.iter().map(bin).collect();
    let total = |of: fn(&FlowBin) -> u64| bins.iter().map(of).sum::<u64>();
    let rtts: Vec<u64> = bins.iter().map(|b| b.srtt_us).filter(|us| *us > 0).collect();
    let retransmitted_packets = total(|b| b.retransmitted_packets);
    FlowRun {
        cc: cc.into(),
        sent_packets: total(|b| b.sent_bytes) / u64::from(MSS),
        sent_bytes: total(|b| b.sent_bytes),
        retransmitted_packets,
        retransmitted_bytes: (retransmitted_packets * u64::from(MSS)).min(total(|b| b.sent_bytes)),
        delivered_bytes: total(|b| b.delivered_bytes),
        min_rtt_us: rtts.iter().copied().min().unwrap_or(0),
        max_rtt_us: rtts.iter().copied().max().unwrap_or(0),
        mean_rtt_us: rtts.iter().sum::<u64>().checked_div(rtts.len() as u64).unwrap_or(0),
        max_cwnd_bytes: bins.iter().map(|b| b.cwnd_bytes).max().unwrap_or(0),
        bins,
        ..FlowRun::default()
    }
}

/// What crosses a link.
#[derive(Clone, Debug)]
pub(crate) enum Packet<D> {
    Quic(D),
    /// The number of a probe; probes and messages are numbered in the order of sending.
    Probe(usize),
    Message(usize),
}

/// Runs the connection to its end: one of our controllers over `stack`, or one of [`OWN`] over its own. The spec's
/// `mtu`, `packets` and `signals` and the flows' `max_pacing_rate` have no effect.
pub fn run(stack: Stack, spec: &SimSpec) -> Result<SimRun, SimError> {
    let first = spec.flows.first().ok_or(SimError::Zero("the number of streams"))?;
    if spec.flows.iter().any(|f| (&f.cc, &f.source) != (&first.cc, &first.source)) {
        return Err(SimError::OneConnection);
    }
    if spec.flows.iter().any(|f| f.start_us != 0 || f.extra_rtt_us != 0) {
        return Err(SimError::OneConnection);
    }
    if let Some(own) = noq::own(&first.cc) {
        return Ok(noq::net::run(spec, own));
    }
    if let Some(own) = quinn::own(&first.cc) {
        return Ok(quinn::net::run(spec, own));
    }
    let ours = Factory::named(&first.cc)?.seed(spec.seed);
    let rows: Arc<Mutex<Vec<TraceRow>>> = Arc::default();
    let ours = match spec.trace {
        true => {
            let rows = rows.clone();
            ours.trace(move |line| {
                rows.lock().unwrap_or_else(PoisonError::into_inner).extend(trace_row(line));
            })
        }
        false => ours,
    };
    let mut run = match stack {
        Stack::Noq => noq::net::run(spec, Arc::new(ours)),
        Stack::Quinn => quinn::net::run(spec, Arc::new(ours)),
    };
    run.flows[0].trace = std::mem::take(&mut *rows.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(run)
}

/// Reads an event of an adapter's trace, whose first word is the flow. `None` for the line that names the columns.
fn trace_row(line: &str) -> Option<TraceRow> {
    let words: Vec<u64> = line.split(' ').skip(1).map(|w| w.parse().ok()).collect::<Option<_>>()?;
    let (ack, rest) = words.split_at_checked(Ack::FIELDS.len())?;
    let (control, state) = rest.split_at_checked(Control::FIELDS.len())?;
    Some(TraceRow { ack: Ack::from_words(ack)?, control: Control::from_words(control)?, state: state.into() })
}

/// The bytes that the application has offered to a stream by `now_ns`, and the time, in nanoseconds, at which this
/// changes.
pub fn offered(source: &Source, now_ns: u64) -> (u64, u64) {
    match *source {
        Source::Bulk => (u64::MAX, u64::MAX),
        Source::Finite { bytes } => (bytes, u64::MAX),
        Source::Messages { bytes, interval_us } => {
            let n = now_ns / (interval_us * 1000) + 1;
            (n * bytes, n * interval_us * 1000)
        }
        Source::OnOff { on_us, off_us } => {
            let period_ns = (on_us + off_us) * 1000;
            let start_ns = now_ns - now_ns % period_ns;
            let stop_ns = start_ns + on_us * 1000;
            if now_ns < stop_ns { (u64::MAX, stop_ns) } else { (0, start_ns + period_ns) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::ControllerError;
    use crate::sim::FlowSpec;

    fn spec(cc: &str, streams: usize, seed: u64) -> SimSpec {
        let path = "20mbit 40ms queue=1bdp loss=0.5%".parse().unwrap();
        let mut spec = SimSpec::new(path, vec![FlowSpec::bulk(cc); streams], 3_000_000, seed);
        spec.messages = Some("100@50".parse().unwrap());
        spec
    }

    /// Runs each controller on each stack: every series must be complete, and its parts must add up to the totals.
    #[test]
    fn a_run_has_all_that_the_simulator_gives() {
        for (stack, cc) in
            OWN.iter().map(|cc| (Stack::Noq, *cc)).chain([(Stack::Noq, "bbr3"), (Stack::Quinn, "bbr1")])
        {
            let run = run(stack, &spec(cc, 4, 1)).unwrap();
            assert!(run.flows.len() == 4 && run.down.len() == 30 && run.up.len() == 30, "{cc}");
            let rtts: Vec<u64> = run.probes.iter().filter_map(|p| p.rtt_us).collect();
            assert!(rtts.len() > 100, "{cc}");
            // 84 bytes take 33.6 µs, and a full queue 40 ms.
            assert!(rtts.iter().all(|rtt| (40_033..81_000).contains(rtt)), "{cc}: {rtts:?}");
            assert!(run.datagrams.iter().filter(|d| d.delay_us.is_some()).count() > 100, "{cc}");
            let delivered: u64 = run.flows.iter().map(|f| f.delivered_bytes).sum();
            let [sent, again] = [
                run.flows.iter().map(|f| f.sent_bytes).sum::<u64>(),
                run.flows.iter().map(|f| f.retransmitted_bytes).sum(),
            ];
            assert!(
                delivered > 500_000 && again > 0 && sent < 10_000_000,
                "{cc}: {delivered} {again} {sent}"
            );
            // What was sent and not lost has arrived or is under way. The size of the headers is only known to 1 %.
            let lost_packets: u64 = run.down.iter().map(|b| b.lost_packets + b.drop_packets).sum();
            let lost = lost_packets * u64::from(run.mss);
            assert!((sent - lost) * 101 / 100 >= delivered, "{cc}: {sent} {lost} {delivered}");
            assert!(run.flows.iter().all(|f| f.min_rtt_us >= 40_000 && f.max_cwnd_bytes > 5_000), "{cc}");
        }
    }

    #[test]
    fn the_same_spec_gives_the_same_run() {
        for (stack, cc) in [(Stack::Noq, "bbr3"), (Stack::Quinn, "bbr3"), (Stack::Noq, "noq-cubic")] {
            let mut spec = spec(cc, 4, 7);
            spec.trace = true;
            let first = run(stack, &spec).unwrap();
            assert_eq!(first, run(stack, &spec).unwrap(), "{cc}");
            assert_eq!(first.flows[0].trace.is_empty(), cc != "bbr3");
            spec.seed = 8;
            assert_ne!(first, run(stack, &spec).unwrap(), "{cc}");
        }
    }

    #[test]
    fn a_source_that_pauses_is_silent_in_the_pause() {
        for (stack, streams) in [(Stack::Noq, 1), (Stack::Quinn, 4)] {
            let mut spec = spec("bbr3", streams, 1);
            let pauses = Source::OnOff { on_us: 1_000_000, off_us: 1_000_000 };
            spec.flows.iter_mut().for_each(|f| f.source = pauses.clone());
            spec.path = "20mbit 40ms queue=1bdp".parse().unwrap();
            let run = run(stack, &spec).unwrap();
            let bin = |n: usize| run.flows.iter().map(|f| f.bins[n].delivered_bytes).sum::<u64>();
            // What was written takes 50 ms to be sent and at most 60 ms to arrive.
            let [on, off, again] = [5..10, 12..20, 22..30].map(|bins| bins.map(bin).sum::<u64>());
            assert!(on > 800_000 && off == 0 && again > 1_200_000, "{stack:?}: {on} {off} {again}");
        }
    }

    #[test]
    fn what_is_not_one_connection_is_refused() {
        let mut spec = spec("bbr3", 2, 1);
        spec.flows[1].cc = "cubic".into();
        assert_eq!(run(Stack::Noq, &spec), Err(SimError::OneConnection));
        spec.flows.clear();
        assert!(run(Stack::Noq, &spec).is_err());
        let unknown = SimError::Controller(ControllerError::Unknown("bbr4".into()));
        assert_eq!(run(Stack::Quinn, &self::spec("bbr4", 1, 1)), Err(unknown));
    }

    #[test]
    fn what_an_application_offers() {
        let on_off = Source::OnOff { on_us: 3, off_us: 2 };
        for (ns, expected) in [(0, (u64::MAX, 3000)), (3000, (0, 5000)), (5000, (u64::MAX, 8000))] {
            assert_eq!(offered(&on_off, ns), expected);
        }
        let messages = Source::Messages { bytes: 10, interval_us: 2 };
        assert_eq!([offered(&messages, 1999), offered(&messages, 2000)], [(10, 2000), (20, 4000)]);
    }
}
