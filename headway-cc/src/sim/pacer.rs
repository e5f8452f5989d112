//! Pacing and burst sizes of a sender, as Linux does them: a burst is handed to the network at once and the next one
//! waits for the time that the pacing rate needs to send it (EDT pacing, `tcp_update_skb_after_send`).
//!
//! Without it every controller here would send a window's worth back to back, and queues, losses and delivery rates
//! would tell of bursts instead of the path.

use crate::cc::Control;

/// The first segments are not paced (Linux: `data_segs_out >= 10`), so that short transfers start at once.
const UNPACED_SEGMENTS: u64 = 10;
/// A burst is what the pacing rate sends in 2^-10 s (Linux `sk_pacing_shift`).
const PACING_SHIFT: u32 = 10;
/// Largest burst, bytes (Linux `sk_gso_max_size`).
const BURST_BYTES: u64 = 65_216;
/// At short RTTs bursts grow: by their maximum, shifted right by the minimum RTT in units of 2^9 µs (Linux 5.18 and
/// later, `tcp_tso_autosize`).
const BURST_RTT_SHIFT: u32 = 9;
/// Segments of a burst where the controller sets no quantum (Linux `tcp_min_tso_segs`).
const LEAST_SEGMENTS: u64 = 2;

/// When a sender may send, and how much at once.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    /// Payload bytes of a full segment.
    mss: u64,
    /// The application bounds the rate, so that even a controller without a pacing rate is paced.
    has_max_rate: bool,
    /// Bytes per second.
    rate: u64,
    /// The controller's largest burst, bytes; `u64::MAX` leaves the spacing to the ACK clock.
    quantum: u64,
    burst_segments: u64,
    /// When the next burst may leave (Linux `tcp_wstamp_ns`).
    departure_ns: u64,
    last_burst_ns: u64,
}

impl Pacer {
    pub(crate) fn new(mss: u64, has_max_rate: bool) -> Self {
        let (rate, quantum, departure_ns, last_burst_ns) = (0, 0, 0, 0);
        Self { mss, has_max_rate, rate, quantum, burst_segments: LEAST_SEGMENTS, departure_ns, last_burst_ns }
    }

    /// Takes over rate and quantum of a controller. The size of a burst changes with them alone, not with the RTT.
    #[inline]
    pub(crate) fn apply(&mut self, control: &Control, min_rtt_us: u64) {
        if (control.pacing_rate, control.send_quantum) != (self.rate, self.quantum) {
            (self.rate, self.quantum) = (control.pacing_rate, control.send_quantum);
            self.burst_segments = self.burst_segments_at(min_rtt_us);
        }
    }

    /// Size of a burst as Linux `tcp_tso_autosize` reckons it; never below the controller's quantum.
    #[inline]
    fn burst_segments_at(&self, min_rtt_us: u64) -> u64 {
        let rtt_shift = min_rtt_us >> BURST_RTT_SHIFT;
        let bonus = if rtt_shift < 32 { BURST_BYTES >> rtt_shift } else { 0 };
        let bytes = (self.rate >> PACING_SHIFT).saturating_add(bonus).min(BURST_BYTES);
        let floor = if self.quantum == u64::MAX { LEAST_SEGMENTS } else { self.quantum / self.mss };
        (bytes / self.mss).max(floor).max(1)
    }

    /// Bytes per second.
    #[inline]
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// Most segments that leave at once.
    #[inline]
    pub(crate) fn burst_segments(&self) -> u64 {
        self.burst_segments
    }

    /// When the last burst left.
    pub(crate) fn last_burst_ns(&self) -> u64 {
        self.last_burst_ns
    }

    /// How far in the future the next departure is.
    #[inline]
    pub(crate) fn wait_ns(&self, now_ns: u64) -> u64 {
        self.departure_ns.saturating_sub(now_ns)
    }

    /// False where the controller leaves the spacing to the ACK clock, which an unlimited quantum says.
    #[inline]
    pub(crate) fn is_paced(&self) -> bool {
        self.quantum != u64::MAX || self.has_max_rate
    }

    /// When the next burst may leave, if that is not now.
    #[inline]
    pub(crate) fn not_before_ns(&self, now_ns: u64) -> Option<u64> {
        (self.is_paced() && self.departure_ns > now_ns).then_some(self.departure_ns)
    }

    /// A burst leaves: sets the earliest departure of the next one. Lateness is made up for by at most half a burst
    /// (Linux `tcp_update_skb_after_send`), else a long pause would be followed by as long a burst. `sent_segments`
    /// counts the flow's segments so far, this burst included.
    #[inline]
    pub(crate) fn on_burst(&mut self, now_ns: u64, bytes: u64, sent_segments: u64) {
        let departure_ns = self.departure_ns.max(now_ns);
        let credit_ns = departure_ns - self.departure_ns;
        self.departure_ns = departure_ns;
        self.last_burst_ns = now_ns;
        if self.is_paced() && sent_segments >= UNPACED_SEGMENTS {
            let length_ns = bytes * 1_000_000_000 / self.rate.max(1);
            self.departure_ns += length_ns - credit_ns.min(length_ns / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::NO_RTT;

    const MSS: u64 = 1_000;

    fn paced(rate: u64, quantum: u64) -> Pacer {
        let mut pacer = Pacer::new(MSS, false);
        pacer.apply(&Control { pacing_rate: rate, send_quantum: quantum, ..Control::default() }, NO_RTT);
        pacer
    }

    #[test]
    fn a_burst_is_a_millisecond_of_the_rate_within_bounds() {
        assert_eq!(paced(10_240_000, MSS).burst_segments(), 10);
        assert_eq!(paced(1_000, 3 * MSS).burst_segments(), 3, "the controller's quantum");
        assert_eq!(paced(1_000, 1).burst_segments(), 1, "never nothing");
        assert_eq!(paced(u64::MAX, MSS).burst_segments(), 65);
        assert_eq!(paced(1_000, u64::MAX).burst_segments(), LEAST_SEGMENTS);
    }

    #[test]
    fn bursts_grow_where_the_rtt_is_short() {
        let mut pacer = Pacer::new(MSS, false);
        pacer.apply(&Control { pacing_rate: 1_024_000, send_quantum: MSS, ..Control::default() }, 1_024);
        assert_eq!(pacer.burst_segments(), 1 + 65_216 / 4 / MSS);
    }

    #[test]
    fn bursts_are_spaced_by_the_rate_after_the_first_segments() {
        let mut pacer = paced(1_000_000, MSS);
        pacer.on_burst(0, 10_000, 9);
        assert_eq!(pacer.not_before_ns(0), None);
        pacer.on_burst(0, 10_000, 19);
        assert_eq!(pacer.not_before_ns(0), Some(10_000_000));
        assert_eq!(pacer.wait_ns(4_000_000), 6_000_000);
    }

    #[test]
    fn half_a_burst_of_lateness_is_made_up_for() {
        let mut pacer = paced(1_000_000, MSS);
        pacer.on_burst(0, 10_000, 20);
        pacer.on_burst(12_000_000, 10_000, 30);
        assert_eq!(pacer.not_before_ns(12_000_000), Some(20_000_000), "2 ms late, made up for whole");
        pacer.on_burst(90_000_000, 10_000, 40);
        assert_eq!(pacer.not_before_ns(90_000_000), Some(95_000_000), "70 ms late, by 5 ms");
    }

    #[test]
    fn an_unlimited_quantum_is_not_paced_unless_the_application_bounds_the_rate() {
        assert!(!paced(1_000, u64::MAX).is_paced());
        let mut pacer = Pacer::new(MSS, true);
        pacer.apply(&Control { pacing_rate: 1, send_quantum: u64::MAX, ..Control::default() }, NO_RTT);
        assert!(pacer.is_paced());
    }
}
