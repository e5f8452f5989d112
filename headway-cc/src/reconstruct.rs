//! What a stock kernel withholds from a controller, and how it is reconstructed: how much was in flight when a packet
//! left, and how much was lost since.
//!
//! BBRv3 judges a loss by `P.tx_in_flight` and `P.lost`, which the draft wants to be kept with every packet. A stock
//! Linux keeps only `P.delivered` and where the packet ends in the stream. So a [`Ring`] remembers the state of the
//! connection after some of the ACKs, and what it remembers of the latest ACK before a packet left answers for that
//! packet:
//!
//! ```text
//! at an ACK    raise(prior_inflight)                      the last packet since the newest entry saw this in flight
//!              find(packet) -> (tx_in_flight, lost)       of the sample, and of each packet marked lost
//!              note(delivered, lost, inflight, ..)        packets sent from now on
//! ```
//!
//! **First transmissions.** A sender sends lost data again before it sends new data. So when new data leaves, everything
//! that was sent and not delivered is in flight. That is what was outstanding at the entry, plus what was sent since,
//! less what was delivered since. The place in the stream tells how much was sent and `P.delivered` how much was
//! delivered, so the sum is exact, however many ACKs an entry stands for.
//!
//! **Retransmissions.** Only `P.delivered` tells when one left, so what was outstanding at the entry is taken.
//!
//! Both are bounded by the most that was in flight until the next entry was opened: after a timeout much is outstanding
//! and little in flight.
//!
//! The ring is small, and one flight may see more ACKs than it has entries. So an ACK opens an entry only when, since
//! the last one, a 2^[`RING_SHIFT`]th of the flight was delivered or lost, or a 2^[`RING_LOST_SHIFT`]th of the flight's
//! losses are new, since `P.lost` can be no finer than the entries. When more than 4 % of a flight are lost one by one,
//! after a flight without losses, the entries of a flight exceed the ring, and for up to a round trip some packets are
//! not found.
//!
//! `tests/reconstruction.rs` measures all this against the truth. Any one unit of data will do; the low 32 bits of each
//! counter are kept, which is enough for 2^31 units in flight.
//!
//! Twin: `headway-kernel/bpf/ring.h` (same names in the same order), filled by `headway-kernel/bpf/lost.bpf.h`.

/// Entries of a ring: with the rest of a flow's state below the 8 KB that recent kernels give to a socket.
pub const RING_ENTRIES: usize = 256;
/// What is in flight fills about 2^this entries.
pub const RING_SHIFT: u32 = 6;
/// What was lost in a flight fills at most about 2^this entries more. The rest of the ring is there for packets that
/// stay away longer than a flight.
pub const RING_LOST_SHIFT: u32 = 7;

/// The state of the connection when the entry was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingEntry {
    /// `C.delivered`.
    pub delivered: u32,
    /// `C.lost`.
    pub lost: u32,
    /// The most that was in flight until the next entry was opened.
    pub inflight: u32,
    /// Sent and not delivered: in flight or, marked lost, to be sent again.
    pub outstanding: u32,
    /// Where new data begins in the stream, bytes.
    pub end: u32,
}

/// A packet, as far as a kernel without a record of it can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingPacket {
    /// `P.delivered`.
    pub delivered: u32,
    /// Where it ends in the stream, bytes.
    pub end: u32,
    /// Not its first transmission.
    pub is_retransmission: bool,
}

/// The latest entries of a connection.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Entries so far; the newest has the number `opened - 1`.
    opened: u64,
    entries: Box<[RingEntry; RING_ENTRIES]>,
    /// `P.delivered` of the packet that the latest sample is about. The glue writes it, at each ACK before
    /// [`Ring::note`], which tells from it how large a flight is; the first note sets it too.
    pub sample_delivered: u32,
    /// `P.lost` of that packet, or of an earlier one where the ring did not find it. The glue writes it, too.
    pub sample_lost: u32,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            opened: 0,
            entries: Box::new([RingEntry::default(); RING_ENTRIES]),
            sample_delivered: 0,
            sample_lost: 0,
        }
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
    /// controller that keeps a ring).
    #[inline]
    pub fn note(&mut self, now: &RingEntry) {
        if self.opened > 0 {
            let e = self.entries[index(self.opened - 1)];
            let delivered = now.delivered.wrapping_sub(e.delivered);
            let lost = now.lost.wrapping_sub(e.lost);
            // While the flight shrinks, packets of the larger one are still to come.
            let flight = now.inflight.max(now.delivered.wrapping_sub(self.sample_delivered));
            let flight_lost = now.lost.wrapping_sub(self.sample_lost);
            let left = delivered.wrapping_add(lost);
            if left == 0
                || (left < flight >> RING_SHIFT && (lost == 0 || lost < flight_lost >> RING_LOST_SHIFT))
            {
                return;
            }
        } else {
            (self.sample_delivered, self.sample_lost) = (now.delivered, now.lost);
        }
        self.opened += 1;
        self.entries[index(self.opened - 1)] = *now;
    }

    /// Index of the newest entry that was there when the packet left; `None` when the ring does not reach back so far.
    #[inline]
    pub fn find(&self, p: &RingPacket) -> Option<usize> {
        let end = self.opened;
        let mut at = end.saturating_sub(RING_ENTRIES as u64);
        if end == 0 || !is_before(&self.entries[index(at)], p) {
            return None;
        }
        let mut step = RING_ENTRIES as u64 / 2;
        while step > 0 {
            if at + step < end && is_before(&self.entries[index(at + step)], p) {
                at += step;
            }
            step /= 2;
        }
        Some(index(at))
    }

    /// How much was in flight with a packet that found entry `index`, itself included. `unit_bytes`: of one unit of data.
    #[inline]
    pub fn tx_in_flight(&self, index: usize, p: &RingPacket, unit_bytes: u32) -> u32 {
        let e = &self.entries[index];
        let delivered = p.delivered.wrapping_sub(e.delivered);
        let is_newer = is_after(p.end, e.end);
        let sent = if is_newer { p.end.wrapping_sub(e.end).div_ceil(unit_bytes.max(1)) } else { delivered };
        e.inflight.min(e.outstanding.wrapping_add(sent).wrapping_sub(delivered))
    }
}

/// Where the entry of a number lies.
#[inline]
fn index(number: u64) -> usize {
    number as usize & (RING_ENTRIES - 1)
}

/// Whether an entry was opened before the packet left.
#[inline]
fn is_before(e: &RingEntry, p: &RingPacket) -> bool {
    !is_after(e.delivered, p.delivered) && (p.is_retransmission || is_after(p.end, e.end))
}

/// Whether counter `a` is ahead of `b`, both less than 2^31 apart.
#[inline]
fn is_after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u32 = 10;

    fn entry(delivered: u32, lost: u32, inflight: u32) -> RingEntry {
        let end = delivered.wrapping_add(inflight).wrapping_mul(UNIT);
        RingEntry { delivered, lost, inflight, outstanding: inflight, end }
    }

    fn again(delivered: u32) -> RingPacket {
        RingPacket { delivered, end: 0, is_retransmission: true }
    }

    fn found(ring: &Ring, p: &RingPacket) -> Option<RingEntry> {
        ring.find(p).map(|i| ring.entry(i))
    }

    #[test]
    fn a_packet_finds_what_it_saw() {
        let mut ring = Ring::default();
        assert_eq!(ring.find(&again(0)), None);
        ring.note(&entry(5, 0, 3));
        assert_eq!(ring.find(&again(4)), None, "it was in flight when the record began");
        let early = RingPacket { delivered: 5, end: 80, is_retransmission: false };
        assert_eq!(ring.find(&early), None, "so was this one, as the stream tells");
        for (delivered, lost) in (6..200).map(|d| (d, d / 10)) {
            ring.raise(7);
            ring.sample_delivered = delivered - 5;
            ring.note(&entry(delivered, lost, 6));
        }
        assert_eq!(found(&ring, &again(5)), Some(RingEntry { inflight: 7, ..entry(5, 0, 3) }));
        assert_eq!(found(&ring, &again(123)), Some(RingEntry { inflight: 7, ..entry(123, 12, 6) }));
        assert_eq!(found(&ring, &again(1_000)), Some(entry(199, 19, 6)));
    }

    /// One entry for many packets: each had in flight what was sent until then and not delivered.
    #[test]
    fn new_data_leaves_when_all_that_is_outstanding_is_in_flight() {
        let mut ring = Ring::default();
        ring.note(&RingEntry { outstanding: 103, ..entry(1_000, 0, 100) });
        ring.raise(200);
        let first = entry(1_000, 0, 100).end;
        for (delivered, packets, expected) in
            [(1_000, 1, 104), (1_000, 5, 108), (1_001, 6, 108), (1_010, 150, 200)]
        {
            let p = RingPacket { delivered, end: first + packets * UNIT, is_retransmission: false };
            assert_eq!(ring.tx_in_flight(ring.find(&p).unwrap(), &p, UNIT), expected, "{p:?}");
        }
        assert_eq!(
            ring.tx_in_flight(0, &again(1_000), UNIT),
            103,
            "what was to be sent again, and all of it was"
        );
    }

    /// A flight has its share of the ring, however many ACKs it sees, also while it shrinks and when counters wrap.
    #[test]
    fn a_flight_is_always_found() {
        for flight in [10u32, 255, 256, 1_000, 167_000, 20_000_000] {
            let mut ring = Ring::default();
            let mut delivered = u32::MAX - 2 * flight;
            ring.note(&entry(delivered, 0, flight));
            for i in 0..20_000 {
                let acked = 1 + flight / (300 + i % 1_000);
                delivered = delivered.wrapping_add(acked);
                // A packet of the full flight is acknowledged, while what is in flight fell to an eighth.
                ring.raise(flight / 8);
                ring.sample_delivered = delivered.wrapping_sub(flight);
                let entry_found = found(&ring, &again(ring.sample_delivered));
                let age = entry_found.map(|e| ring.sample_delivered.wrapping_sub(e.delivered));
                assert!(i < 2_000 || age.is_some_and(|age| age <= flight / 32), "{flight} {i}: {age:?}");
                ring.note(&entry(delivered, 0, flight / 8));
            }
        }
    }

    /// However many of a flight are lost, its packets find how many were lost before them, to a 128th.
    #[test]
    fn losses_are_found_apart() {
        for every in [7u32, 50, 3_000] {
            let mut ring = Ring::default();
            let (flight, mut lost) = (10_000, 0);
            let mut lost_at = std::collections::VecDeque::new();
            for delivered in 0..60_000u32 {
                lost += u32::from(delivered % every == 0);
                lost_at.push_back(lost);
                if lost_at.len() > flight {
                    let truth = lost_at.pop_front().unwrap();
                    ring.sample_delivered = delivered - flight as u32;
                    // When many losses set in at once, the first flight takes more entries than its share.
                    let at = found(&ring, &again(ring.sample_delivered));
                    ring.sample_lost = at.map_or(ring.sample_lost, |at| at.lost);
                    let off = at.map(|at| truth.abs_diff(at.lost));
                    let is_close = off.is_some_and(|off| off <= flight as u32 / every / 96);
                    assert!(delivered < 30_000 || is_close, "{every} {delivered}: {truth}, {at:?}");
                }
                ring.note(&entry(delivered, lost, flight as u32));
            }
        }
    }

    /// After a timeout nothing was delivered, yet what is sent again is a new start.
    #[test]
    fn losses_without_a_delivery_open_an_entry() {
        let mut ring = Ring::default();
        ring.note(&entry(100, 3, 1));
        ring.raise(500);
        ring.sample_delivered = 90;
        ring.note(&RingEntry { outstanding: 500, ..entry(100, 503, 0) });
        assert_eq!(found(&ring, &again(100)).map(|e| (e.lost, e.inflight)), Some((503, 0)));
        assert_eq!(ring.opened(), 2);
    }
}
