//! Delivery-rate sampling: how much the path delivers in what time, measured by every ACK. BBR's model rests on it.
//!
//! This is for transports that have no sampler of their own, the simulator and QUIC; Linux TCP has one. It follows the
//! section "Delivery Rate Samples" of draft-ietf-ccwg-bbr without a difference: `C.x` is a field of [`Sampler`], `P.x`
//! one of [`Sent`]. Amounts are bytes (or any one unit of data), times microseconds.
//!
//! The transport keeps one [`Sent`] for each packet. For each ACK it calls [`Sampler::begin`], then
//! [`Sampler::on_delivered`] and [`Sampler::on_lost`] for each packet, then [`Sampler::fill`], which writes the `rs_…`
//! fields of an [`Ack`]. A sample over less than the minimum RTT is invalid, since ACKs that arrive together would show
//! a rate that the path does not have (GenerateRateSample).

use crate::cc::{Ack, NO_RTT};

/// What is remembered with a packet at the moment it is sent (`P.…`). To save memory two of its times are kept as spans
/// before `sent_us`, in 32 bits, which is enough for 71 minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// `P.sent_time`.
    pub sent_us: u64,
    /// `P.delivered`.
    pub delivered: u64,
    /// CE-marked part of `P.delivered`.
    pub delivered_ce: u64,
    /// `P.lost`.
    pub lost: u64,
    /// `P.tx_in_flight`: in flight just after this packet was sent, itself included.
    pub tx_in_flight: u64,
    /// `P.sent_time - P.first_sent_time`: how long the flight that this packet's sample measures had been sent for.
    pub send_elapsed_us: u32,
    /// `P.sent_time - P.delivered_time`.
    pub delivered_age_us: u32,
    /// Size of the packet.
    pub bytes: u32,
    /// `P.is_app_limited`.
    pub is_app_limited: bool,
}

impl Sent {
    /// Orders packets by when they were sent. Of several sent at the same moment the one with more data before it is the
    /// later one; the draft's IsNewestPacket compares packet numbers, which a [`Sent`] does not have.
    fn order(&self) -> (u64, u64) {
        (self.sent_us, self.delivered + self.lost + self.tx_in_flight)
    }
}

/// The connection's side of the sampler (`C.…`).
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    delivered: u64,
    delivered_us: u64,
    delivered_ce: u64,
    lost: u64,
    first_sent_us: u64,
    /// 0, or the value of `delivered` at which the application-limited bubble has left the pipe.
    app_limited: u64,
    inflight: u64,
    prior_inflight: u64,
    newly_acked: u64,
    newly_lost: u64,
    /// The most recently sent packet among those this ACK delivered, if any.
    newest: Option<Sent>,
}

impl Sampler {
    /// `C.inflight`: sent and neither delivered nor lost.
    pub fn inflight(&self) -> u64 {
        self.inflight
    }

    /// `C.delivered`: total delivered.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// CE-marked part of what was delivered.
    pub fn delivered_ce(&self) -> u64 {
        self.delivered_ce
    }

    /// `C.lost`: total marked lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether an application-limited bubble is in the pipe.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited != 0
    }

    /// A packet leaves: the stamp to keep with it (OnPacketSent).
    #[inline]
    pub fn on_sent(&mut self, now_us: u64, bytes: u32) -> Sent {
        if self.inflight == 0 {
            self.first_sent_us = now_us;
            self.delivered_us = now_us;
        }
        self.inflight += u64::from(bytes);
        Sent {
            sent_us: now_us,
            delivered: self.delivered,
            delivered_ce: self.delivered_ce,
            lost: self.lost,
            tx_in_flight: self.inflight,
            send_elapsed_us: span_us(self.first_sent_us, now_us),
            delivered_age_us: span_us(self.delivered_us, now_us),
            bytes,
            is_app_limited: self.app_limited != 0,
        }
    }

    /// The application has nothing to send although the window has room: what is in flight now, and all that
    /// follows until it is delivered, measures the application and not the path.
    pub fn mark_app_limited(&mut self) {
        self.app_limited = (self.delivered + self.inflight).max(1);
    }

    /// Starts the processing of an ACK.
    #[inline]
    pub fn begin(&mut self) {
        self.prior_inflight = self.inflight;
        self.newly_acked = 0;
        self.newly_lost = 0;
        self.newest = None;
    }

    /// A packet was delivered (UpdateRateSample). `was_in_flight` is false when it had been marked lost.
    #[inline]
    pub fn on_delivered(&mut self, now_us: u64, p: &Sent, was_in_flight: bool) {
        let bytes = u64::from(p.bytes);
        self.delivered += bytes;
        self.delivered_us = now_us;
        self.newly_acked += bytes;
        if was_in_flight {
            self.inflight = self.inflight.saturating_sub(bytes);
        }
        if self.newest.as_ref().is_none_or(|n| p.order() >= n.order()) {
            self.newest = Some(*p);
            self.first_sent_us = p.sent_us;
        }
    }

    /// The packet that this ACK's sample is about, so far.
    #[inline]
    pub(crate) fn newest(&self) -> Option<&Sent> {
        self.newest.as_ref()
    }

    /// Delivered data that the receiver reports as CE-marked.
    pub fn on_ce(&mut self, bytes: u64) {
        self.delivered_ce += bytes;
    }

    /// A packet that was in flight is marked lost.
    pub fn on_lost(&mut self, bytes: u32) {
        self.lost += u64::from(bytes);
        self.newly_lost += u64::from(bytes);
        self.inflight = self.inflight.saturating_sub(u64::from(bytes));
    }

    /// A packet in flight is sent again, or given up, without being counted as lost.
    pub fn on_replaced(&mut self, bytes: u32) {
        self.inflight = self.inflight.saturating_sub(u64::from(bytes));
    }

    /// A loss mark is withdrawn (a spurious timeout): the packet counts as in flight again.
    pub fn on_undone(&mut self, bytes: u64) {
        self.inflight += bytes;
    }

    /// Ends the processing of an ACK (GenerateRateSample): fills the counters and the sample.
    #[inline]
    pub fn fill(&mut self, ack: &mut Ack, min_rtt_us: u64) {
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        self.fill_counters(ack);
        ack.prior_inflight = self.prior_inflight;
        ack.newly_acked = self.newly_acked;
        ack.newly_lost = self.newly_lost;
        let Some(p) = &self.newest else { return };
        ack.rs_prior_delivered = p.delivered;
        ack.rs_tx_in_flight = p.tx_in_flight;
        ack.rs_lost = self.lost - p.lost;
        ack.rs_is_app_limited = p.is_app_limited;
        ack.rs_delivered_ce = self.delivered_ce - p.delivered_ce;
        let ack_elapsed = self.delivered_us - p.sent_us + u64::from(p.delivered_age_us);
        let interval = ack_elapsed.max(u64::from(p.send_elapsed_us));
        if interval > 0 && (min_rtt_us == NO_RTT || interval >= min_rtt_us) {
            ack.rs_interval_us = interval;
            ack.rs_delivered = self.delivered - p.delivered;
        }
    }

    /// Fills what `Event::Lost` says of a packet that [`Sampler::on_lost`] has just counted.
    pub fn fill_lost(&self, ack: &mut Ack, p: &Sent) {
        self.fill_counters(ack);
        ack.newly_lost = u64::from(p.bytes);
        ack.rs_prior_delivered = p.delivered;
        ack.rs_tx_in_flight = p.tx_in_flight;
        ack.rs_lost = self.lost - p.lost;
        ack.rs_is_app_limited = p.is_app_limited;
    }

    /// Fills the counters that every event carries.
    #[inline]
    pub fn fill_counters(&self, ack: &mut Ack) {
        ack.delivered = self.delivered;
        ack.delivered_us = self.delivered_us;
        ack.delivered_ce = self.delivered_ce;
        ack.lost = self.lost;
        ack.inflight = self.inflight;
        ack.prior_inflight = self.inflight;
        ack.is_app_limited = self.app_limited != 0;
    }
}

/// Microseconds between two moments, as far as 32 bits go.
#[inline]
fn span_us(from_us: u64, to_us: u64) -> u32 {
    u32::try_from(to_us - from_us).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends the ACK that is being processed, as a transport does.
    fn finish(s: &mut Sampler, min_rtt_us: u64) -> Ack {
        let mut ack = Ack::default();
        s.fill(&mut ack, min_rtt_us);
        ack
    }

    #[test]
    fn steady_flow_measures_its_rate() {
        // 1000 bytes every 1000 µs, delivered 10 ms later: 1 MB/s whichever packet is looked at.
        let mut s = Sampler::default();
        let mut sent = std::collections::VecDeque::new();
        for i in 0..100u64 {
            let now = i * 1000;
            if i >= 10 {
                s.begin();
                let p: Sent = sent.pop_front().unwrap();
                s.on_delivered(now, &p, true);
                let ack = finish(&mut s, 10_000);
                if i >= 25 {
                    assert_eq!(ack.rs_delivered, 10 * 1000);
                    assert_eq!(ack.rs_interval_us, 10_000);
                    assert_eq!(ack.rs_tx_in_flight, 10 * 1000);
                }
            }
            sent.push_back(s.on_sent(now, 1000));
        }
        assert_eq!(s.inflight(), 10_000);
    }

    #[test]
    fn compressed_acks_are_limited_by_the_send_rate() {
        // Ten packets sent over 9 ms arrive at once: ack_elapsed alone would say 1 ms.
        let mut s = Sampler::default();
        let first = s.on_sent(0, 1000);
        s.begin();
        s.on_delivered(10_000, &first, true);
        finish(&mut s, NO_RTT);
        let sent: Vec<Sent> = (0..10).map(|i| s.on_sent(20_000 + i * 1000, 1000)).collect();
        s.begin();
        sent.iter().for_each(|p| s.on_delivered(40_000, p, true));
        let ack = finish(&mut s, NO_RTT);
        assert_eq!(ack.rs_delivered, 10_000);
        assert_eq!(ack.rs_interval_us, 20_000, "since the restart after idle, not since the last delivery");
        assert_eq!(ack.newly_acked, 10_000);
    }

    #[test]
    fn loss_and_inflight_are_counted_since_the_packet_was_sent() {
        let mut s = Sampler::default();
        let a = s.on_sent(0, 1000);
        let b = s.on_sent(0, 1000);
        let c = s.on_sent(0, 500);
        assert_eq!((a.tx_in_flight, c.tx_in_flight), (1000, 2500));
        s.begin();
        s.on_delivered(100, &c, true);
        s.on_lost(a.bytes);
        s.on_lost(b.bytes);
        let ack = finish(&mut s, NO_RTT);
        assert_eq!((ack.rs_lost, ack.newly_lost, ack.lost), (2000, 2000, 2000));
        assert_eq!((ack.prior_inflight, ack.inflight), (2500, 0));
        let d = s.on_sent(200, 1000);
        assert_eq!(d.lost, 2000, "losses before it are not this packet's");
    }

    #[test]
    fn app_limited_bubble_ends_when_it_is_delivered() {
        let mut s = Sampler::default();
        let a = s.on_sent(0, 1000);
        s.mark_app_limited();
        let b = s.on_sent(50, 1000);
        assert!(!a.is_app_limited && b.is_app_limited);
        s.begin();
        s.on_delivered(100, &a, true);
        assert!(finish(&mut s, NO_RTT).is_app_limited, "the bubble is still inside");
        s.begin();
        s.on_delivered(150, &b, true);
        let ack = finish(&mut s, NO_RTT);
        assert_eq!((ack.rs_is_app_limited, ack.is_app_limited), (true, false));
        assert!(!s.on_sent(200, 1).is_app_limited);
    }

    #[test]
    fn sample_shorter_than_the_minimum_rtt_is_invalid() {
        let mut s = Sampler::default();
        let a = s.on_sent(0, 1000);
        s.begin();
        s.on_delivered(900, &a, true);
        let ack = finish(&mut s, 1000);
        assert_eq!((ack.rs_delivered, ack.rs_interval_us), (0, 0));
        assert_eq!(ack.newly_acked, 1000);
    }
}
