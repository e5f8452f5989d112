//! What happened to every packet at the two links, on request: the simulator's counterpart of a packet capture.

use super::packet::{Packet, Reply};

/// One thing that happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRow {
    /// When it happened, since the run's start.
    pub t_ns: u64,
    /// Towards the receiver, or back.
    pub is_down: bool,
    /// What happened to it.
    pub step: Step,
    /// On the wire, headers included.
    pub bytes: u32,
    /// Which packet.
    pub what: What,
}

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It reaches the link.
    In,
    /// It arrives at the far end.
    Out {
        /// When it had come to the link.
        in_ns: u64,
        /// When it had left the queue, serialised.
        sent_ns: u64,
    },
    /// The queue drops packets while it handles this one, which may or may not be among them.
    Drop {
        /// How many; [`PacketRow::bytes`] is the size of all.
        packets: u64,
    },
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A latency probe or its answer.
    Probe {
        /// Counts from 0 in the order of sending.
        number: u64,
    },
    /// A SYN or its answer.
    Handshake {
        /// Its place among the flows of the spec.
        flow: u32,
    },
    /// A segment of data. A message of [`SimSpec::messages`](super::SimSpec::messages) is logged as one, too: with the
    /// flow `u32::MAX - 1` and no payload.
    Segment {
        /// Its place among the flows of the spec.
        flow: u32,
        /// Counts the flow's segments from 0; a retransmission keeps its number.
        number: u64,
        /// Bytes, headers not included.
        payload: u16,
        /// Which transmission of the segment this is, from 0, up to 255.
        tx: u8,
    },
    /// An acknowledgement.
    Ack {
        /// Its place among the flows of the spec.
        flow: u32,
        /// Segments that had arrived for the first time when it left.
        arrivals: u64,
    },
    /// Only with [`Step::Drop`]: the queue dropped packets while none arrived, and does not say which ones.
    Unknown,
}

/// The flow number under which messages are logged: no flow of a spec has it.
const MESSAGE_FLOW: u32 = u32::MAX - 1;

impl From<&Packet> for What {
    fn from(packet: &Packet) -> Self {
        match *packet {
            Packet::Segment { flow, seq, bytes, tx } => {
                Self::Segment { flow, number: seq, payload: bytes, tx }
            }
            Packet::Syn { flow, .. } => Self::Handshake { flow },
            Packet::Probe { number } => Self::Probe { number },
            Packet::Message { number } => Self::Segment { flow: MESSAGE_FLOW, number, payload: 0, tx: 0 },
        }
    }
}

impl From<&Reply> for What {
    fn from(reply: &Reply) -> Self {
        match *reply {
            Reply::Ack { flow, log_end, .. } => Self::Ack { flow, arrivals: log_end },
            Reply::SynAck { flow, .. } => Self::Handshake { flow },
            Reply::Probe { number } => Self::Probe { number },
        }
    }
}

/// The rows of both directions in order of time. At one instant causes come first: what arrives at the receiver, then
/// its answer; what arrives at the sender, then what it sends.
pub(crate) fn merged(mut down: Vec<PacketRow>, mut up: Vec<PacketRow>) -> Vec<PacketRow> {
    down.iter_mut().for_each(|row| row.is_down = true);
    down.append(&mut up);
    down.sort_by_key(|row| {
        let rank = match (row.is_down, row.step) {
            (true, Step::Out { .. }) => 0,
            (false, Step::In | Step::Drop { .. }) => 1,
            (false, Step::Out { .. }) => 2,
            (true, Step::In | Step::Drop { .. }) => 3,
        };
        (row.t_ns, rank)
    });
    down
}
