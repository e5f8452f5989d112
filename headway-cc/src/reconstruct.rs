//! What a kernel that keeps no record of each packet can still tell of a packet's own transmission: how much was in
//! flight when it left, and how much was lost since.
//!
//! BBRv3 judges a loss by `P.tx_in_flight` and `P.lost`, which are to be kept with every packet. A stock Linux keeps
//! `P.delivered` alone (and hands it over as `rs->prior_delivered`). But all packets with one value of it left between
//! the same two ACKs. So a [`Ring`] of what was in flight and lost after each ACK, keyed by `delivered`, answers for
//! them, after the fact:
//!
//! ```text
//! at an ACK    raise(prior_inflight)            the last packet since the newest entry saw this in flight
//!              sample = rs_prior_delivered      of the packet that the ACK's sample is about
//!              find(sample)                     rs_tx_in_flight = .inflight, rs_lost = lost - .lost
//!              note(delivered, lost, inflight)  packets sent from now on
//! ```
//!
//! The ring is small and one flight may see more ACKs than it has entries. So an ACK opens an entry only when a
//! 2^[`RING_SHIFT`]th of the flight has left the network, delivered or lost, since the last one; a packet then finds
//! the newest entry that is not after it.
//!
//! Of a lost packet even the key is out of reach. But Linux marks by the time of sending (RACK): the packet of the
//! latest sample left right after the lost ones, so `find(sample)` answers for them too.
//!
//! Measured against the truth in `tests/reconstruction.rs`.
//!
//! Any one unit of data; the low 32 bits of each counter are kept, enough for 2^31 units in flight.
//!
//! Twin: `headway-cli/bpf/ring.h` (same names in the same order), filled by `headway-cli/bpf/lost.bpf.h`.

/// Entries of a ring: with the rest of a flow's state below the 8 KB that recent kernels give to a socket.
pub const RING_ENTRIES: usize = 512;
/// What is in flight fills about 2^this entries, half of the ring: the other half is there for packets that stay
/// away longer than a flight.
pub const RING_SHIFT: u32 = 8;

/// What was so when `delivered` had this value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingEntry {
    /// The key: `C.delivered` when the entry was opened.
    pub delivered: u32,
    /// `C.lost` then.
    pub lost: u32,
    /// The most that was in flight until the next entry was opened.
    pub inflight: u32,
}

/// The latest entries of a connection.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Entries so far; the newest has the number `opened - 1`.
    opened: u64,
    entries: Box<[RingEntry; RING_ENTRIES]>,
    /// `rs_prior_delivered` of the latest sample. The transport sets it before it looks anything up.
    pub sample: u32,
}

impl Default for Ring {
    fn default() -> Self {
        Self { opened: 0, entries: Box::new([RingEntry::default(); RING_ENTRIES]), sample: 0 }
    }
}

impl Ring {
    /// Entries opened so far.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// The entry at an index that [`Ring::find`] gave.
    pub fn entry(&self, index: usize) -> RingEntry {
        self.entries[index]
    }

    /// An ACK arrives: so much was in flight when the last packet since the newest entry had left.
    #[inline]
    pub fn raise(&mut self, prior_inflight: u32) {
        if self.opened > 0 {
            let newest = &mut self.entries[index(self.opened - 1)];
            newest.inflight = newest.inflight.max(prior_inflight);
        }
    }

    /// After an event: packets sent from now on find this, if it is news enough for an entry.
    ///
    /// The first entry answers for the packets that leave after the connection's start (or after the switch to a
    /// controller that keeps a ring). Losses alone, without a delivery, replace the newest entry: what is sent from
    /// now on is what has still to come back.
    #[inline]
    pub fn note(&mut self, delivered: u32, lost: u32, inflight: u32) {
        if self.opened > 0 {
            let e = self.entries[index(self.opened - 1)];
            let left = delivered.wrapping_sub(e.delivered).wrapping_add(lost.wrapping_sub(e.lost));
            // While the flight shrinks, packets of the larger one are still to come.
            let flight = inflight.max(delivered.wrapping_sub(self.sample));
            if left == 0 || left < flight >> RING_SHIFT {
                return;
            }
            self.opened += u64::from(delivered != e.delivered);
        } else {
            (self.sample, self.opened) = (delivered, 1);
        }
        self.entries[index(self.opened - 1)] = RingEntry { delivered, lost, inflight };
    }

    /// Index of the newest entry whose `delivered` is not after the key; `None` when the ring does not reach back so
    /// far.
    #[inline]
    pub fn find(&self, key: u32) -> Option<usize> {
        let end = self.opened;
        let mut at = end.saturating_sub(RING_ENTRIES as u64);
        if end == 0 || is_after(self.entries[index(at)].delivered, key) {
            return None;
        }
        let mut step = RING_ENTRIES as u64 / 2;
        while step > 0 {
            if at + step < end && !is_after(self.entries[index(at + step)].delivered, key) {
                at += step;
            }
            step /= 2;
        }
        Some(index(at))
    }
}

/// Where the entry of a number lies.
#[inline]
fn index(number: u64) -> usize {
    number as usize & (RING_ENTRIES - 1)
}

/// Whether counter `a` is ahead of `b`, both less than 2^31 apart.
#[inline]
fn is_after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ring: &Ring, key: u32) -> Option<RingEntry> {
        ring.find(key).map(|i| ring.entry(i))
    }

    #[test]
    fn a_packet_finds_what_it_saw() {
        let mut ring = Ring::default();
        assert_eq!(ring.find(0), None);
        ring.note(5, 0, 3);
        assert_eq!(ring.find(4), None, "it was in flight when the record began");
        for (delivered, lost) in (6..400).map(|d| (d, d / 10)) {
            ring.raise(7);
            ring.sample = delivered - 5;
            ring.note(delivered, lost, 6);
        }
        assert_eq!(found(&ring, 5), Some(RingEntry { delivered: 5, lost: 0, inflight: 7 }));
        assert_eq!(found(&ring, 123), Some(RingEntry { delivered: 123, lost: 12, inflight: 7 }));
        assert_eq!(found(&ring, 1_000), Some(RingEntry { delivered: 399, lost: 39, inflight: 6 }));
    }

    /// A flight fills half of the ring, however many ACKs it sees, also while it shrinks and when counters wrap.
    #[test]
    fn a_flight_is_always_found() {
        for flight in [10u32, 255, 256, 1_000, 167_000, 20_000_000] {
            let mut ring = Ring::default();
            let mut delivered = u32::MAX - 2 * flight;
            ring.note(delivered, 0, flight);
            for i in 0..20_000 {
                let acked = 1 + flight / (300 + i % 1_000);
                delivered = delivered.wrapping_add(acked);
                // A packet of the full flight is acknowledged, while what is in flight fell to an eighth.
                ring.raise(flight / 8);
                ring.sample = delivered.wrapping_sub(flight);
                let entry = found(&ring, ring.sample);
                let age = entry.map(|e| ring.sample.wrapping_sub(e.delivered));
                assert!(i < 2_000 || age.is_some_and(|age| age <= flight / 128), "{flight} {i}: {age:?}");
                ring.note(delivered, 0, flight / 8);
            }
        }
    }

    /// After a timeout nothing was delivered, yet what is sent again is a new start.
    #[test]
    fn losses_without_a_delivery_replace_the_newest_entry() {
        let mut ring = Ring::default();
        ring.note(100, 3, 1);
        ring.raise(500);
        ring.sample = 90;
        ring.note(100, 503, 0);
        assert_eq!(found(&ring, 100), Some(RingEntry { delivered: 100, lost: 503, inflight: 0 }));
        assert_eq!(ring.opened(), 1);
    }
}
