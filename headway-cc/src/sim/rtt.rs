//! Smoothed RTT and retransmission timeout as Linux computes them (`tcp_rtt_estimator`), and the minimum RTT.
//!
//! The factors of four and eight in the fields are those of Linux, which keeps the fractions that way.

use crate::cc::NO_RTT;
use crate::histogram::{BUCKETS, bucket};

/// Lower bound of the variance part of the timeout (Linux `TCP_RTO_MIN`).
pub(crate) const RTO_MIN_US: u64 = 200_000;
/// Upper bound of the timeout (Linux `TCP_RTO_MAX`).
const RTO_MAX_US: u64 = 120_000_000;
/// The timeout before the first sample.
const RTO_INIT_US: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    /// Eight times the smoothed RTT; 0 before the first sample.
    srtt8_us: i64,
    /// Four times the mean deviation.
    mdev4_us: i64,
    mdev4_max_us: i64,
    rttvar_us: i64,
    /// First segment of the next round: the variance may fall once a round.
    round_end: u64,
    sum_us: u64,
    pub(crate) min_us: u64,
    pub(crate) max_us: u64,
    samples: u64,
    pub(crate) counts: Box<[u32; BUCKETS]>,
}

impl Rtt {
    pub(crate) fn new() -> Self {
        Self {
            srtt8_us: 0,
            mdev4_us: 0,
            mdev4_max_us: 0,
            rttvar_us: 0,
            round_end: 0,
            min_us: NO_RTT,
            max_us: 0,
            sum_us: 0,
            samples: 0,
            counts: Box::new([0; BUCKETS]),
        }
    }

    #[inline]
    pub(crate) fn srtt_us(&self) -> u64 {
        (self.srtt8_us >> 3) as u64
    }

    pub(crate) fn mean_us(&self) -> u64 {
        self.sum_us.checked_div(self.samples).unwrap_or(0)
    }

    /// Notes the RTT of the latest delivered segment.
    #[inline]
    pub(crate) fn on_latest(&mut self, rtt_us: u64) {
        self.min_us = self.min_us.min(rtt_us);
        self.max_us = self.max_us.max(rtt_us);
        self.sum_us += rtt_us;
        self.samples += 1;
        self.counts[bucket(rtt_us)] += 1;
    }

    /// Smooths the RTT of the oldest segment an ACK delivers. `una` and `nxt` bound what is outstanding.
    #[inline]
    pub(crate) fn on_oldest(&mut self, rtt_us: u64, una: u64, nxt: u64) {
        let min_us = RTO_MIN_US as i64;
        let sample_us = rtt_us.max(1) as i64;
        if self.srtt8_us == 0 {
            self.srtt8_us = sample_us << 3;
            self.mdev4_us = sample_us << 1;
            self.rttvar_us = self.mdev4_us.max(min_us);
            self.mdev4_max_us = self.rttvar_us;
            self.round_end = nxt;
            return;
        }
        let error_us = sample_us - (self.srtt8_us >> 3);
        self.srtt8_us += error_us;
        let mut grown_us = error_us.abs() - (self.mdev4_us >> 2);
        if error_us < 0 && grown_us > 0 {
            // A falling RTT must not raise the timeout: such deviations count for an eighth.
            grown_us >>= 3;
        }
        self.mdev4_us += grown_us;
        if self.mdev4_us > self.mdev4_max_us {
            self.mdev4_max_us = self.mdev4_us;
            self.rttvar_us = self.rttvar_us.max(self.mdev4_max_us);
        }
        if una > self.round_end {
            if self.mdev4_max_us < self.rttvar_us {
                self.rttvar_us -= (self.rttvar_us - self.mdev4_max_us) >> 2;
            }
            self.round_end = nxt;
            self.mdev4_max_us = min_us;
        }
    }

    /// The timeout after `backoff` timeouts in a row.
    #[inline]
    pub(crate) fn rto_us(&self, backoff: u32) -> u64 {
        let base_us = if self.srtt8_us == 0 { RTO_INIT_US } else { self.srtt_us() + self.rttvar_us as u64 };
        (base_us << backoff.min(20)).min(RTO_MAX_US)
    }

    /// How long a tail loss probe waits: two RTTs, and, for a segment that is out alone, the time for which a receiver may
    /// hold back its ACK (Linux `tcp_schedule_loss_probe`).
    pub(crate) fn pto_us(&self, is_alone: bool) -> u64 {
        if self.srtt8_us == 0 {
            return RTO_INIT_US;
        }
        2 * self.srtt_us() + if is_alone { RTO_MIN_US } else { 2_000 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_rtt_gives_rtt_plus_the_minimum() {
        let mut r = Rtt::new();
        assert_eq!(r.rto_us(0), 1_000_000);
        (0..200).for_each(|i| r.on_oldest(40_000, i * 10, i * 10 + 10));
        assert_eq!(r.srtt_us(), 40_000);
        assert_eq!(r.rto_us(0), 240_000);
        assert_eq!(r.rto_us(2), 960_000);
        assert_eq!(r.rto_us(50), RTO_MAX_US);
        assert_eq!((r.pto_us(false), r.pto_us(true)), (82_000, 280_000));
    }

    /// RFC 6298 §2 by hand: 400 ms gives RTTVAR 200; then RTTVAR = 3/4 RTTVAR + 1/4 |SRTT - R|, SRTT = 7/8 SRTT + 1/8 R, and the
    /// timeout is SRTT + 4 RTTVAR.
    #[test]
    fn the_timeout_is_that_of_the_rfc() {
        let mut r = Rtt::new();
        // The sample, SRTT and the timeout: |425 - 1000| is a deviation of 575, so RTTVAR is 293.75.
        for (sample_us, srtt_us, rto_us) in
            [(400_000, 400_000, 1_200_000), (600_000, 425_000, 1_225_000), (1_000_000, 496_875, 1_671_875)]
        {
            r.on_oldest(sample_us, 0, 10);
            assert_eq!((r.srtt_us(), r.rto_us(0)), (srtt_us, rto_us), "after {sample_us}");
        }
        // Linux: a deviation downwards counts for an eighth of what it exceeds RTTVAR by, (396.875 - 293.75) / 8 = 12.89 ms.
        r.on_oldest(100_000, 0, 10);
        assert_eq!((r.srtt_us(), r.rto_us(0)), (447_265, 447_265 + 1_175_000 + 12_890));
        // Linux: the variance falls at the end of a round only, by a quarter of its distance to the round's largest.
        let steady = |r: &mut Rtt, una: u64| r.on_oldest(r.srtt_us(), una, una + 10);
        steady(&mut r, 11);
        let before_us = r.rto_us(0);
        steady(&mut r, 12);
        assert_eq!(r.rto_us(0), before_us, "within the round");
        steady(&mut r, 22);
        // Four times the deviation was 1187.890 ms, and without errors it loses a quarter a sample: 668.189 at the most in
        // this round, so (1187.890 - 668.189) / 4 = 129.925 ms less.
        assert_eq!(r.rto_us(0), before_us - 129_925);
    }

    #[test]
    fn variance_raises_the_timeout() {
        let mut r = Rtt::new();
        (0..200).for_each(|i| r.on_oldest(if i % 2 == 0 { 100_000 } else { 500_000 }, i * 10, i * 10 + 10));
        assert!(r.rto_us(0) > 700_000, "{}", r.rto_us(0));
    }
}
