//! What the sender remembers about a segment, in half a cache line: with a thousand flows most of the time goes into
//! fetching these from memory.

use crate::sampler::{Sampler, Sent};

/// [`Segment::flags`]: acknowledged.
pub(crate) const DELIVERED: u8 = 1;
/// Marked lost and not retransmitted since.
pub(crate) const LOST: u8 = 2;
/// Counts as in flight.
pub(crate) const IN_FLIGHT: u8 = 4;
/// The sampler's stamp says application-limited.
const APP_LIMITED: u8 = 8;

/// A segment between the oldest unacknowledged and the newest sent. Of times and counters the low 32 bits are kept:
/// enough while a segment is acknowledged within 71 minutes and 4 GB.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(crate) struct Segment {
    sent_us: u32,
    delivered: u32,
    delivered_ce: u32,
    lost: u32,
    tx_in_flight: u32,
    send_elapsed_us: u32,
    delivered_age_us: u32,
    /// Payload.
    pub(crate) bytes: u16,
    pub(crate) flags: u8,
    /// How often it was retransmitted, up to 255.
    pub(crate) tx: u8,
}

impl Segment {
    /// A segment on its first way, in flight.
    #[inline]
    pub(crate) fn new(sent: &Sent) -> Self {
        let mut segment = Self::default();
        segment.stamp(sent);
        segment
    }

    /// It is sent, and in flight.
    #[inline]
    pub(crate) fn stamp(&mut self, sent: &Sent) {
        self.sent_us = sent.sent_us as u32;
        self.delivered = sent.delivered as u32;
        self.delivered_ce = sent.delivered_ce as u32;
        self.lost = sent.lost as u32;
        self.tx_in_flight = u32::try_from(sent.tx_in_flight).unwrap_or(u32::MAX);
        self.send_elapsed_us = sent.send_elapsed_us;
        self.delivered_age_us = sent.delivered_age_us;
        self.bytes = sent.bytes as u16;
        self.flags = IN_FLIGHT | if sent.is_app_limited { APP_LIMITED } else { 0 };
    }

    /// In flight, and never marked lost or sent again.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        self.tx == 0 && self.flags & !APP_LIMITED == IN_FLIGHT
    }

    /// When it was sent last, as known at `now_us`.
    #[inline]
    pub(crate) fn sent_us(&self, now_us: u64) -> u64 {
        widen(self.sent_us, now_us)
    }

    /// The sampler's stamp again.
    #[inline]
    pub(crate) fn sent(&self, now_us: u64, sampler: &Sampler) -> Sent {
        Sent {
            sent_us: self.sent_us(now_us),
            delivered: widen(self.delivered, sampler.delivered()),
            delivered_ce: widen(self.delivered_ce, sampler.delivered_ce()),
            lost: widen(self.lost, sampler.lost()),
            tx_in_flight: u64::from(self.tx_in_flight),
            send_elapsed_us: self.send_elapsed_us,
            delivered_age_us: self.delivered_age_us,
            bytes: u32::from(self.bytes),
            is_app_limited: self.flags & APP_LIMITED != 0,
        }
    }
}

/// A segment that arrived at the receiver, and which transmission of it: what the receiver's log holds for the sender.
/// One word, because the log of a thousand flows is fetched from memory like their segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrival(u64);

impl Arrival {
    #[inline]
    pub(crate) fn new(seq: u64, tx: u8) -> Self {
        Self(seq << 8 | u64::from(tx))
    }

    #[inline]
    pub(crate) fn seq(self) -> u64 {
        self.0 >> 8
    }

    #[inline]
    pub(crate) fn tx(self) -> u8 {
        self.0 as u8
    }
}

/// The number at or before `now` whose low bits are `low`.
#[inline]
fn widen(low: u32, now: u64) -> u64 {
    now - u64::from((now as u32).wrapping_sub(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_cache_line() {
        assert_eq!(size_of::<Segment>(), 32);
    }

    #[test]
    fn stamps_survive_the_32_bits() {
        let mut sampler = Sampler::default();
        let mut now_us = 5_000_000_000; // beyond 2^32
        for _ in 0..4 {
            sampler.begin();
            for bytes in [1448, 9000, 65_000] {
                let sent = sampler.on_sent(now_us, bytes);
                let segment = Segment::new(&sent);
                now_us += 1_700_000_000;
                assert_eq!(segment.sent(now_us, &sampler), sent);
                sampler.on_delivered(now_us, &sent, true);
                sampler.on_lost(1);
                assert_eq!(segment.sent(now_us, &sampler), sent, "the counters went on");
            }
        }
    }
}
