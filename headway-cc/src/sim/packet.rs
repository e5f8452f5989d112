//! What travels over the two links of a simulation. Both types stay within two and three words, because a full
//! bottleneck holds many thousands of them.

/// A packet on its way down, from sender to receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Packet {
    /// Data of a flow.
    Segment {
        /// Index of the flow in the spec.
        flow: u32,
        /// Number of the segment, from 0; a retransmission keeps it.
        seq: u64,
        /// Payload.
        bytes: u16,
        /// Which transmission of the segment this is, from 0, up to 255.
        tx: u8,
    },
    /// A SYN. It carries the time when it left, as TCP's timestamps do, so that the answer says which SYN it answers.
    Syn { flow: u32, sent_ns: u64 },
    /// A latency probe, numbered from 0 in the order of sending.
    Probe { number: u64 },
    /// A message of [`SimSpec::messages`](super::SimSpec::messages), numbered in the same way.
    Message { number: u64 },
}

/// A packet on its way up, from receiver to sender.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    /// An acknowledgement.
    Ack {
        /// Index of the flow in the spec.
        flow: u32,
        /// Position in the receiver's log of arrivals: everything before it is acknowledged.
        log_end: u64,
        /// Payload bytes that arrived CE-marked so far.
        ce_bytes: u64,
        /// The arrival that caused this ACK was a duplicate (DSACK, RFC 2883).
        is_duplicate: bool,
    },
    /// The answer to the SYN that left at `syn_sent_ns`.
    SynAck { flow: u32, syn_sent_ns: u64 },
    /// The answer to a latency probe.
    Probe { number: u64 },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_small() {
        assert_eq!((size_of::<Packet>(), size_of::<Reply>()), (16, 24));
    }
}
