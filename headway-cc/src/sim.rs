//! N flows over one bottleneck in virtual time: [`run`] turns a [`SimSpec`] into a [`SimRun`].
//!
//! ```text
//!  source → sender ──────► down: Link (the bottleneck) ──────► receiver
//!             ▲  controller                                       │
//!             └───────────────── up: Link (ACKs) ◄────────────────┘      probe packets cross both
//! ```
//!
//! The sender is a model of Linux TCP with SACK as far as a controller can tell: loss detection by time (RACK), tail
//! loss probes and timeouts, delayed ACKs, bursts as large as Linux makes them, pacing by the stack. It counts bytes
//! (`smss` is the MSS, `unit_bytes` is 1). The same spec gives the same run, bit for bit.
//!
//! Thousands of flows are cheap: each direction is one ring of packets, of which a plain link knows the departures when
//! they come, each flow keeps its segments in a ring, too, the timers of all flows are a tournament tree, and nothing is
//! allocated for a packet. With `bbr1` a data packet takes about 1200 instructions where one flow is alone, and 1600 to
//! 1700 with 10 to 1000 flows, where most ACKs report a gap. In time it more than doubles from 10 flows to 1000, because
//! the state of a thousand flows does not fit into a processor's nearest caches; `cargo bench -p headway-cc --bench sim`
//! measures it.
//!
//! Not modelled are the receive window, the limit of SACK blocks (an ACK reports every arrival so far), TSQ and GRO.
//!
//! `flow.rs` holds both ends of a flow; its `sender.rs` puts `loss.rs`, `pacer.rs`, the sampler and the controller
//! together; `logged_link.rs` is one direction of the path.

mod flow;
mod kernel_record;
pub(crate) mod logged_link;
mod loss;
mod pacer;
mod packet;
mod packet_log;
mod receiver;
mod rtt;
mod segment;
mod sender;
mod source;
mod timers;

use crate::cc::{self, Ack, Control, Controller, ControllerError};
use crate::messages::{self, Messages};
use crate::path::Path;
use flow::Flow;
pub use logged_link::LinkBin;
use logged_link::LoggedLink;
use packet::{Packet, Reply};
pub use packet_log::{PacketRow, Step, What};
use std::fmt;
use timers::Timers;

/// What an application does.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// As much as the window allows, until the end.
    Bulk,
    /// So much, then the flow ends.
    Finite {
        /// Payload, all of it written at the start.
        bytes: u64,
    },
    /// Bulk and silent in turn, bulk first. What is not sent when a silence begins is never sent, except for at most
    /// 128 kB that a QUIC stack has taken by then.
    OnOff {
        /// How long it is bulk; above 0.
        on_us: u64,
        /// How long it is silent; above 0.
        off_us: u64,
    },
    /// Messages of one size at a steady rate, the first at the start.
    Messages {
        /// Payload of each.
        bytes: u64,
        /// From one write to the next; above 0.
        interval_us: u64,
    },
}

/// One flow of a simulated run.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// A controller, with settings if there are any, as [`controller`](crate::cc::controller) takes it.
    pub cc: String,
    /// What it has to send.
    pub source: Source,
    /// When its handshake begins, since the run's start; over a QUIC stack 0.
    pub start_us: u64,
    /// Added to the path's base RTT (half each way).
    pub extra_rtt_us: u64,
    /// Bytes a second above which it is never paced, as by `SO_MAX_PACING_RATE`; `u64::MAX` for none. A controller
    /// that leaves the spacing to the ACK clock is paced all the same where there is one.
    pub max_pacing_rate: u64,
}

impl FlowSpec {
    /// A bulk flow that starts at once.
    pub fn bulk(cc: &str) -> Self {
        Self {
            cc: cc.to_string(),
            source: Source::Bulk,
            start_us: 0,
            extra_rtt_us: 0,
            max_pacing_rate: u64::MAX,
        }
    }
}

/// How much a sender can tell its controller of a packet's own transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signals {
    /// What it kept with the packet: every loss by itself, `rs_tx_in_flight` and `rs_lost` exact.
    #[default]
    Exact,
    /// What our BPF glue can reconstruct on a stock Linux. The losses since the last event are told before the next one,
    /// by runs of adjacent packets, and `rs_tx_in_flight` and `rs_lost` come from a [`Ring`](crate::reconstruct::Ring).
    Kernel,
}

/// One simulated run.
#[derive(Clone, Debug)]
pub struct SimSpec {
    /// The bottleneck and the way back, which all flows share; files it names are to be loaded before.
    pub path: Path,
    /// A flow's place here is its number in [`What`] and gives its random numbers.
    pub flows: Vec<FlowSpec>,
    /// Length of the run; above 0.
    pub duration_us: u64,
    /// Of all that is random: links, controllers, messages.
    pub seed: u64,
    /// MTU of the path in bytes (1500).
    pub mtu: u32,
    /// A small probe packet crosses the same bottleneck this often (0: never).
    pub probe_interval_us: u64,
    /// Datagrams beside the flows, in the direction of the data.
    pub messages: Option<Messages>,
    /// Length of a bin of the time series; above 0.
    pub bin_us: u64,
    /// Keep every event of every controller.
    pub trace: bool,
    /// Keep what happened to every packet.
    pub packets: bool,
    /// How well the controllers are informed.
    pub signals: Signals,
}

impl SimSpec {
    /// `flows` over `path` at an MTU of 1500, with bins of 100 ms, no messages, no trace and exact signals. A probe leaves
    /// every 20 ms, or less often where that would take more than one per cent of the bottleneck.
    pub fn new(path: Path, flows: Vec<FlowSpec>, duration_us: u64, seed: u64) -> Self {
        let mean_bps = path.capacity_bits(0, duration_us * 1000) / (duration_us / 1_000_000).max(1);
        let share_us = 100 * 8 * u64::from(PROBE_BYTES) * 1_000_000 / mean_bps.max(8);
        let (mtu, probe_interval_us, bin_us) = (1500, share_us.max(20_000), 100_000);
        Self {
            path,
            flows,
            duration_us,
            seed,
            mtu,
            probe_interval_us,
            messages: None,
            bin_us,
            trace: false,
            packets: false,
            signals: Signals::Exact,
        }
    }
}

/// What a simulated run gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimRun {
    /// As asked for.
    pub duration_us: u64,
    /// As asked for: length of a bin of `flows`, `down` and `up`.
    pub bin_us: u64,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// [`Path::base_rtt_us`], without what flows add by [`FlowSpec::extra_rtt_us`].
    pub base_rtt_us: u64,
    /// In the order of the spec.
    pub flows: Vec<FlowRun>,
    /// The data direction.
    pub down: Vec<LinkBin>,
    /// The ACK direction.
    pub up: Vec<LinkBin>,
    /// In the order of sending.
    pub probes: Vec<Probe>,
    /// In the order of their schedule.
    pub datagrams: Vec<Datagram>,
    /// In order of time, if asked for.
    pub packets: Vec<PacketRow>,
}

/// One flow of a [`SimRun`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowRun {
    /// [`FlowSpec::cc`], with its settings.
    pub cc: String,
    /// [`FlowSpec::start_us`].
    pub start_us: u64,
    /// When the handshake was through; `None`: never, or a QUIC stack's.
    pub connected_us: Option<u64>,
    /// Segments put on the wire, retransmissions included.
    pub sent_packets: u64,
    /// Payload bytes put on the wire, retransmissions included.
    pub sent_bytes: u64,
    /// Of `sent_packets`, those that had been sent before.
    pub retransmitted_packets: u64,
    /// Of `sent_bytes`, those that had been sent before.
    pub retransmitted_bytes: u64,
    /// Payload bytes that the receiving application got, in order.
    pub delivered_bytes: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// When the last byte of a finite flow was received; `None`: not by the end, not a finite flow, or a QUIC stack's.
    pub finished_us: Option<u64>,
    /// Smallest RTT sample, the handshake's included; 0 when there was none. Of a QUIC stack: of the smoothed RTTs at
    /// the ends of the bins, as the other two.
    pub min_rtt_us: u64,
    /// Largest RTT sample; 0 when there was none.
    pub max_rtt_us: u64,
    /// Mean of the RTT samples; 0 when there was none.
    pub mean_rtt_us: u64,
    /// RTT samples by [`bucket`](crate::histogram::bucket); of a QUIC stack: empty.
    pub rtt_counts: Vec<u32>,
    /// Largest window; 0 when no connection came about.
    pub max_cwnd_bytes: u64,
    /// One every [`SimRun::bin_us`] from the run's start on; what is left at its end is in none.
    pub bins: Vec<FlowBin>,
    /// Of a source of messages: those that arrived, in order.
    pub messages: Vec<Message>,
    /// The controller's state at the end, as [`Controller::state`]; of a QUIC stack: empty.
    pub state: Vec<u64>,
    /// Every event, if asked for.
    pub trace: Vec<TraceRow>,
}

/// One bin of one flow's time series. Amounts are of the bin alone, the rest is the state at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowBin {
    /// Start of the bin.
    pub t_us: u64,
    /// Payload that the receiving application got, in order.
    pub delivered_bytes: u64,
    /// Payload put on the wire, retransmissions included.
    pub sent_bytes: u64,
    /// Segments put on the wire that had been sent before.
    pub retransmitted_packets: u64,
    /// The window that the sender goes by: the controller's, or what a silence has left of it (RFC 2861).
    pub cwnd_bytes: u64,
    /// Sent and neither delivered nor marked lost; of a QUIC stack: 0.
    pub inflight_bytes: u64,
    /// Smoothed RTT; 0 before the first sample.
    pub srtt_us: u64,
    /// Bytes per second; `u64::MAX` when not paced; of a QUIC stack: 0.
    pub pacing_rate: u64,
}

/// A message that arrived whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When the application wrote it, since the run's start.
    pub sent_us: u64,
    /// From the application's write to the last byte in order at the receiver.
    pub delay_us: u64,
}

/// A probe packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Since the run's start.
    pub sent_us: u64,
    /// Over the bottleneck and back, without what flows add by [`FlowSpec::extra_rtt_us`]; `None`: lost, or still on
    /// its way at the end.
    pub rtt_us: Option<u64>,
}

/// A message of [`SimSpec::messages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// When it leaves, as the schedule says, since the run's start.
    pub due_us: u64,
    /// Payload.
    pub bytes: u32,
    /// One way, from when it was due; `None`: lost.
    pub delay_us: Option<u64>,
}

/// One event of a controller and what it made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// What the controller was told.
    pub ack: Ack,
    /// What it answered, before the sender's own bounds.
    pub control: Control,
    /// Its state after that, as [`Controller::state`].
    pub state: Vec<u64>,
}

/// Why a [`SimSpec`] cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimError {
    /// There is no such controller, or a setting of it was refused.
    Controller(ControllerError),
    /// The MTU leaves no room for data, or is above 65535.
    Mtu(u32),
    /// Something that must be above zero is not: its name.
    Zero(&'static str),
    /// The streams of a QUIC connection share its controller, what they have to send, its start and its path.
    OneConnection,
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller(e) => e.fmt(f),
            Self::Mtu(mtu) => write!(f, "an MTU of {mtu} bytes is not between 100 and 65535"),
            Self::OneConnection => f.write_str("the flows of a QUIC connection are not alike"),
            Self::Zero(what) => write!(f, "{what} must be above zero"),
        }
    }
}

impl std::error::Error for SimError {}

impl From<ControllerError> for SimError {
    fn from(e: ControllerError) -> Self {
        Self::Controller(e)
    }
}

/// IP and TCP headers with timestamps: what a segment adds to its payload.
pub const HEADER_BYTES: u32 = 52;
/// A probe on the wire: an ICMP echo of 56 bytes.
pub const PROBE_BYTES: u32 = 84;

/// A SYN on the wire, and its answer.
pub const HANDSHAKE_BYTES: u32 = 60;
/// How long after the end a message may still arrive. That is enough for whatever waits in the bottleneck then.
pub(crate) const DRAIN_NS: u64 = 100_000_000_000;

/// Runs a simulation to its end.
pub fn run(spec: &SimSpec) -> Result<SimRun, SimError> {
    run_with(spec, &cc::controller)
}

/// A function that makes a flow's controller from its name and settings.
pub type MakeController<'a> = &'a dyn Fn(&str) -> Result<Box<dyn Controller>, ControllerError>;

/// The same with controllers of the caller's own: `make` is asked for each flow's, by [`FlowSpec::cc`].
pub fn run_with(spec: &SimSpec, make: MakeController) -> Result<SimRun, SimError> {
    let mut simulation = Simulation::new(spec, make)?;
    simulation.run();
    Ok(simulation.finish(spec))
}

#[derive(Debug)]
struct Simulation {
    down: LoggedLink<Packet>,
    up: LoggedLink<Reply>,
    flows: Vec<Flow>,
    timers: Timers,
    probes: Vec<Probe>,
    probe_interval_ns: u64,
    next_probe_ns: u64,
    messages: Option<(Messages, u64)>,
    datagrams: Vec<Datagram>,
    next_datagram_ns: u64,
    bin_ns: u64,
    next_bin_ns: u64,
    end_ns: u64,
}

impl Simulation {
    fn new(spec: &SimSpec, make: MakeController) -> Result<Self, SimError> {
        if !(100..=65_535).contains(&spec.mtu) {
            return Err(SimError::Mtu(spec.mtu));
        }
        let positive = [(spec.duration_us, "the duration"), (spec.bin_us, "the length of a bin")];
        if let Some((_, what)) = positive.iter().find(|(value, _)| *value == 0) {
            return Err(SimError::Zero(what));
        }
        let flows: Vec<Flow> = spec
            .flows
            .iter()
            .enumerate()
            .map(|(index, flow)| Ok(Flow::new(spec, index as u32, flow, make(&flow.cc)?)))
            .collect::<Result<_, SimError>>()?;
        let mut timers = Timers::new(flows.len());
        flows.iter().enumerate().for_each(|(i, flow)| timers.set(i, flow.next_ns()));
        let probe_interval_ns = spec.probe_interval_us * 1000;
        Ok(Self {
            down: LoggedLink::new(&spec.path.down, spec.seed, spec.packets.then_some(|p| What::from(p))),
            up: LoggedLink::new(&spec.path.up, spec.seed, spec.packets.then_some(|p| What::from(p))),
            flows,
            timers,
            probes: Vec::new(),
            probe_interval_ns,
            next_probe_ns: if probe_interval_ns == 0 { u64::MAX } else { 0 },
            messages: spec.messages.map(|m| (m, spec.seed)),
            datagrams: Vec::new(),
            next_datagram_ns: spec.messages.map_or(u64::MAX, |m| m.due_ns(spec.seed, 0)),
            bin_ns: spec.bin_us * 1000,
            next_bin_ns: spec.bin_us * 1000,
            end_ns: spec.duration_us * 1000,
        })
    }

    /// The event loop, over `[0, end)`. Where several things happen at one instant, bins end first, since what happens
    /// belongs to the next one; packets and timers come before probes and messages.
    fn run(&mut self) {
        loop {
            let now_ns = self.next_probe_ns.min(self.next_datagram_ns).min(self.next_bin_ns).min(self.end_ns);
            self.run_flows(now_ns);
            if now_ns == self.next_bin_ns {
                self.close_bin(now_ns);
            } else if now_ns == self.end_ns {
                break;
            } else {
                self.run_flows(now_ns + 1);
                if now_ns == self.next_probe_ns {
                    self.send_probe(now_ns);
                } else {
                    self.send_datagram(now_ns);
                }
            }
        }
        self.drain_datagrams();
    }

    /// Everything that packets and timers bring before `end_ns`. Deliveries come before timers, so that an ACK stops the
    /// timer that waits for it.
    fn run_flows(&mut self, end_ns: u64) {
        loop {
            let (down_ns, up_ns, timer_ns) = (self.down.next_ns(), self.up.next_ns(), self.timers.next_ns());
            let now_ns = down_ns.min(up_ns).min(timer_ns);
            if now_ns >= end_ns {
                return;
            }
            if now_ns == down_ns {
                self.drain_down(now_ns);
            } else if now_ns == up_ns {
                self.drain_up(now_ns);
            } else {
                self.fire_timer(now_ns);
            }
        }
    }

    fn drain_down(&mut self, now_ns: u64) {
        while let Some(out) = self.down.pop(now_ns) {
            match out.packet {
                Packet::Segment { flow, .. } | Packet::Syn { flow, .. } => {
                    let index = flow as usize;
                    let next_ns = self.flows[index].on_packet(now_ns, out.packet, out.ce, &mut self.up);
                    self.timers.lower(index, next_ns);
                }
                Packet::Probe { .. } | Packet::Message { .. } => self.on_other(now_ns, out.packet),
            }
            if self.down.next_ns() > now_ns {
                return;
            }
        }
    }

    fn drain_up(&mut self, now_ns: u64) {
        while let Some(out) = self.up.pop(now_ns) {
            match out.packet {
                Reply::Ack { flow, .. } | Reply::SynAck { flow, .. } => {
                    let index = flow as usize;
                    let flow = &mut self.flows[index];
                    flow.on_reply(now_ns, out.packet, &mut self.down);
                    self.timers.lower(index, flow.next_ns());
                }
                Reply::Probe { number } => self.on_answer(now_ns, number),
            }
            if self.up.next_ns() > now_ns {
                return;
            }
        }
    }

    /// What is no flow's leaves the bottleneck.
    #[cold]
    fn on_other(&mut self, now_ns: u64, packet: Packet) {
        match packet {
            Packet::Probe { number } => self.up.push(now_ns, PROBE_BYTES, false, Reply::Probe { number }),
            Packet::Message { number } => self.datagrams[number as usize].arrive(now_ns),
            Packet::Segment { .. } | Packet::Syn { .. } => {}
        }
    }

    /// The answer to a probe is back.
    #[cold]
    fn on_answer(&mut self, now_ns: u64, number: u64) {
        let probe = &mut self.probes[number as usize];
        probe.rtt_us = Some(now_ns / 1000 - probe.sent_us);
    }

    fn fire_timer(&mut self, now_ns: u64) {
        let index = self.timers.first();
        let flow = &mut self.flows[index];
        flow.on_timers(now_ns, &mut self.down, &mut self.up);
        self.timers.set(index, flow.next_ns());
    }

    fn send_probe(&mut self, now_ns: u64) {
        let packet = Packet::Probe { number: self.probes.len() as u64 };
        self.probes.push(Probe { sent_us: now_ns / 1000, rtt_us: None });
        self.down.push(now_ns, PROBE_BYTES, false, packet);
        self.next_probe_ns += self.probe_interval_ns;
    }

    fn send_datagram(&mut self, now_ns: u64) {
        let Some((messages, seed)) = self.messages else { return };
        let number = self.datagrams.len() as u64;
        let bytes = messages.bytes(seed, number);
        self.datagrams.push(Datagram { due_us: now_ns / 1000, bytes, delay_us: None });
        self.down.push(now_ns, bytes + messages::HEADER_BYTES, false, Packet::Message { number });
        self.next_datagram_ns = messages.due_ns(seed, number + 1);
    }

    /// Lets the messages that are under way at the end arrive. Counted as lost they would make the last moments of every
    /// run look worse than the rest.
    fn drain_datagrams(&mut self) {
        if self.messages.is_none() {
            return;
        }
        while self.down.next_ns() <= self.end_ns + DRAIN_NS {
            let now_ns = self.down.next_ns();
            if let Some(out) = self.down.pop(now_ns)
                && let Packet::Message { number } = out.packet
            {
                self.datagrams[number as usize].arrive(now_ns);
            }
        }
    }

    fn close_bin(&mut self, now_ns: u64) {
        let start_us = (now_ns - self.bin_ns) / 1000;
        self.down.close_bin(start_us);
        self.up.close_bin(start_us);
        self.flows.iter_mut().for_each(|f| f.close_bin(start_us));
        self.next_bin_ns += self.bin_ns;
    }

    fn finish(self, spec: &SimSpec) -> SimRun {
        let (down, down_packets) = self.down.finish();
        let (up, up_packets) = self.up.finish();
        SimRun {
            duration_us: spec.duration_us,
            bin_us: spec.bin_us,
            mss: spec.mtu - HEADER_BYTES,
            base_rtt_us: spec.path.base_rtt_us(),
            flows: self.flows.into_iter().map(Flow::finish).collect(),
            down,
            up,
            probes: self.probes,
            datagrams: self.datagrams,
            packets: packet_log::merged(down_packets, up_packets),
        }
    }
}

impl Datagram {
    pub(crate) fn arrive(&mut self, now_ns: u64) {
        self.delay_us = Some((now_ns / 1000).saturating_sub(self.due_us));
    }
}
