//! One flow: its sender, its receiver, and what lies between them and the links they share with other flows.
//!
//! The receiver's log of arrivals is read by the sender directly: an ACK only says up to where. That stands in for
//! SACK blocks, without their limit of three or four ranges.

use super::logged_link::LoggedLink;
use super::packet::{Packet, Reply};
use super::receiver::{Answer, Receiver};
use super::sender::Sender;
use super::{FlowRun, FlowSpec, HANDSHAKE_BYTES, HEADER_BYTES, SimSpec, Source};
use crate::cc::Controller;
use std::collections::VecDeque;

/// Both ends of one flow. The fields stay in this order, so that what a packet needs is together; see [`Sender`].
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Flow {
    receiver: Receiver,
    /// What the flow's own way adds to the path's delay, each way.
    half_extra_ns: u64,
    index: u32,
    /// The application takes note of what is received.
    has_reader: bool,
    sender: Sender,
    /// Packets, and whether they were CE-marked, and replies that are on the flow's own way, with their arrival times.
    late_packets: VecDeque<(u64, Packet, bool)>,
    late_replies: VecDeque<(u64, Reply)>,
}

impl Flow {
    pub(crate) fn new(spec: &SimSpec, index: u32, flow: &FlowSpec, cc: Box<dyn Controller>) -> Self {
        Self {
            sender: Sender::new(spec, index, flow, cc),
            receiver: Receiver::new(),
            index,
            half_extra_ns: flow.extra_rtt_us * 500,
            has_reader: matches!(flow.source, Source::Finite { .. } | Source::Messages { .. }),
            late_packets: VecDeque::new(),
            late_replies: VecDeque::new(),
        }
    }

    /// When [`Flow::on_timers`] is due next; `u64::MAX` for never.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        let at = self.sender.next_ns().min(self.receiver.ack_ns);
        if self.half_extra_ns == 0 {
            return at;
        }
        let packet = self.late_packets.front().map_or(u64::MAX, |p| p.0);
        at.min(packet).min(self.late_replies.front().map_or(u64::MAX, |r| r.0))
    }

    /// A packet leaves the bottleneck; when the receiving end wants to be called next.
    #[inline]
    pub(crate) fn on_packet(
        &mut self,
        now_ns: u64,
        packet: Packet,
        ce: bool,
        up: &mut LoggedLink<Reply>,
    ) -> u64 {
        if self.half_extra_ns > 0 {
            self.late_packets.push_back((now_ns + self.half_extra_ns, packet, ce));
            return now_ns + self.half_extra_ns;
        }
        self.receive(now_ns, packet, ce, up);
        self.receiver.ack_ns
    }

    /// A reply leaves the return path.
    #[inline]
    pub(crate) fn on_reply(&mut self, now_ns: u64, reply: Reply, down: &mut LoggedLink<Packet>) {
        if self.half_extra_ns > 0 {
            self.late_replies.push_back((now_ns + self.half_extra_ns, reply));
        } else {
            self.take_reply(now_ns, reply, down);
        }
    }

    /// Does what is due.
    pub(crate) fn on_timers(
        &mut self,
        now_ns: u64,
        down: &mut LoggedLink<Packet>,
        up: &mut LoggedLink<Reply>,
    ) {
        if self.half_extra_ns > 0 {
            self.take_late(now_ns, down, up);
        }
        if self.receiver.ack_ns <= now_ns {
            self.send_ack(now_ns, false, up);
        }
        self.sender.on_timers(now_ns, down);
    }

    /// Ends a bin of the time series that began at `t_us`.
    pub(crate) fn close_bin(&mut self, t_us: u64) {
        self.sender.close_bin(t_us, self.receiver.bytes);
    }

    pub(crate) fn finish(self) -> FlowRun {
        self.sender.finish(self.receiver.bytes)
    }

    /// Takes what arrives over the flow's own way.
    #[inline(never)]
    fn take_late(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>, up: &mut LoggedLink<Reply>) {
        while let Some((at_ns, packet, ce)) = self.late_packets.front().copied()
            && at_ns <= now_ns
        {
            self.late_packets.pop_front();
            self.receive(now_ns, packet, ce, up);
        }
        while let Some((at_ns, reply)) = self.late_replies.front().copied()
            && at_ns <= now_ns
        {
            self.late_replies.pop_front();
            self.take_reply(now_ns, reply, down);
        }
    }

    #[inline(always)]
    fn receive(&mut self, now_ns: u64, packet: Packet, ce: bool, up: &mut LoggedLink<Reply>) {
        match packet {
            Packet::Segment { seq, bytes, tx, .. } => {
                let rtt_ns = || self.sender.srtt_us() * 1000;
                let answer = self.receiver.on_segment(now_ns, (seq, bytes, tx), ce, rtt_ns);
                if answer != Answer::None {
                    self.send_ack(now_ns, answer == Answer::Duplicate, up);
                }
                if self.has_reader {
                    self.sender.app.ends.on_received(now_ns, self.receiver.bytes);
                }
            }
            Packet::Syn { flow, sent_ns } => {
                up.push(now_ns, HANDSHAKE_BYTES, false, Reply::SynAck { flow, syn_sent_ns: sent_ns });
            }
            Packet::Probe { .. } | Packet::Message { .. } => {}
        }
    }

    #[inline]
    fn send_ack(&mut self, now_ns: u64, is_duplicate: bool, up: &mut LoggedLink<Reply>) {
        let (log_end, ce_bytes) = (self.receiver.log.end(), self.receiver.ce_bytes);
        self.receiver.on_ack_sent();
        up.push(
            now_ns,
            HEADER_BYTES,
            false,
            Reply::Ack { flow: self.index, log_end, ce_bytes, is_duplicate },
        );
    }

    #[inline(always)]
    fn take_reply(&mut self, now_ns: u64, reply: Reply, down: &mut LoggedLink<Packet>) {
        match reply {
            // An ACK that was overtaken by a later one reports nothing that the later one did not.
            Reply::Ack { log_end, .. } if log_end < self.receiver.log.start() => {}
            Reply::Ack { log_end, ce_bytes, is_duplicate, .. } => {
                let log = (&mut self.receiver.log, log_end);
                self.sender.on_ack(now_ns, log, ce_bytes, is_duplicate, down);
            }
            Reply::SynAck { syn_sent_ns, .. } => self.sender.on_syn_ack(now_ns, syn_sent_ns, down),
            Reply::Probe { .. } => {}
        }
    }
}
