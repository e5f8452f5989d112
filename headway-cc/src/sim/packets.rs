//! What happened to every packet at the two links, on request: what a capture or a link's own log would show.

use super::{AckPacket, HANDSHAKE, PROBE, Packet};

/// One thing that happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRow {
    pub t_ns: u64,
    /// Towards the receiver, or back.
    pub is_down: bool,
    pub step: Step,
    /// On the wire, headers included.
    pub bytes: u32,
    pub what: What,
}

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It reaches the link.
    In,
    /// It arrives at the far end; it left the queue, serialised, at `sent_ns` after it came at `in_ns`.
    Out { in_ns: u64, sent_ns: u64 },
    /// The queue drops so many packets, `bytes` together, while it handles this one, which may or may not be among
    /// them.
    Drop { packets: u64 },
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Probe {
        number: u64,
    },
    /// A SYN or its answer.
    Handshake {
        flow: u32,
    },
    /// Segments count from 0; `tx` is which transmission of it this is, from 0, up to 255.
    Segment {
        flow: u32,
        number: u64,
        payload: u16,
        tx: u8,
    },
    /// After so many segments have arrived for the first time.
    Ack {
        flow: u32,
        arrivals: u64,
    },
}

impl From<&Packet> for What {
    fn from(p: &Packet) -> Self {
        match *p {
            Packet { flow: PROBE, seq: number, .. } => Self::Probe { number },
            Packet { flow, seq, .. } if seq & HANDSHAKE != 0 => Self::Handshake { flow },
            Packet { flow, seq: number, bytes: payload, tx } => Self::Segment { flow, number, payload, tx },
        }
    }
}

impl From<&AckPacket> for What {
    fn from(a: &AckPacket) -> Self {
        match *a {
            AckPacket { flow: PROBE, log_end: number, .. } => Self::Probe { number },
            AckPacket { flow, log_end, .. } if log_end & HANDSHAKE != 0 => Self::Handshake { flow },
            AckPacket { flow, log_end: arrivals, .. } => Self::Ack { flow, arrivals },
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
