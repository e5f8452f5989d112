//! Packets on their way through the emulator: where their bytes lie, how one packet of the kernel becomes several of
//! the link, and how these become one packet for the kernel again.
//!
//! The kernel hands over super-packets of up to 64 KB, each of which stands for several packets of the path's MTU;
//! the link must see the latter. A super-packet is read once into a [`Buffer`] and stays there; what travels through
//! the link are [`Segment`]s, which name an MTU packet of it. No payload is copied, which is what lets one thread
//! carry gigabits.

use super::packet::{self, HEAD_MAX, Shape};
use crate::sys::tun::{Tun, VNET_BYTES};
use headway_cc::link::Out;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

/// One MTU packet of a super-packet.
#[derive(Clone, Debug)]
pub struct Segment {
    pub buffer: Rc<Buffer>,
    /// Where the virtio-net header of the super-packet is in the buffer.
    pub at: u32,
    pub shape: Shape,
    /// Which of the super-packet's MTU packets it is, from 0.
    pub index: u16,
}

impl Segment {
    /// Bytes of the MTU packet, IP header included.
    pub fn bytes(&self) -> u32 {
        self.shape.bytes_of(u32::from(self.index))
    }
}

/// Consecutive segments of one super-packet, equally marked, that leave together as one packet again: the kernel then
/// takes many MTU packets with one write.
pub struct Batch {
    first: Segment,
    pub count: u32,
    ce: bool,
}

impl Batch {
    pub fn of(out: &Out<Segment>) -> Batch {
        Batch { first: out.packet.clone(), count: 1, ce: out.ce }
    }

    /// Adds the segment if it continues the batch; false: it does not.
    pub fn add(&mut self, out: &Out<Segment>) -> bool {
        let (first, next) = (&self.first, &out.packet);
        let is_next = Rc::ptr_eq(&first.buffer, &next.buffer)
            && first.at == next.at
            && u32::from(next.index) == u32::from(first.index) + self.count
            && self.ce == out.ce;
        self.count += u32::from(is_next);
        is_next
    }

    pub fn write(&self, to: &Tun) -> io::Result<()> {
        let Segment { buffer, at, shape, index } = &self.first;
        let at = *at as usize;
        let end = at + VNET_BYTES + shape.ip_bytes as usize;
        if self.count == shape.count() && !self.ce {
            return to.write(&[], &buffer.bytes[at..end]);
        }
        let mut head = [0; HEAD_MAX];
        let n = buffer.copy_head(at, end - at, &mut head).len();
        let (head_bytes, rest) = packet::cut(&mut head[..n], shape, u32::from(*index), self.count, self.ce);
        let body = &buffer.bytes[at + VNET_BYTES..end];
        to.write(&head[..head_bytes], &body[rest])
    }
}

/// Room for one read: virtio-net header and the largest packet.
pub const READ_MAX: usize = VNET_BYTES + 65_536;
/// Holds sixteen super-packets or more, so that a buffer is changed seldom.
const BUFFER_BYTES: usize = 1 << 20;

/// Memory that packets are read into, one behind the other. The bytes are cells because new packets are read into a
/// buffer while segments of earlier ones still refer to it.
pub struct Buffer {
    pub bytes: Box<[Cell<u8>]>,
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").finish_non_exhaustive()
    }
}

impl Buffer {
    fn new() -> Rc<Buffer> {
        Rc::new(Buffer { bytes: vec![Cell::new(0); BUFFER_BYTES].into() })
    }

    /// A copy of the first bytes, [`HEAD_MAX`] at most, of the `n` bytes at `at`.
    pub fn copy_head<'h>(&self, at: usize, n: usize, head: &'h mut [u8; HEAD_MAX]) -> &'h [u8] {
        let n = n.min(HEAD_MAX);
        for (to, from) in head.iter_mut().zip(&self.bytes[at..at + n]) {
            *to = from.get();
        }
        &head[..n]
    }
}

/// The buffers of one direction: the one being filled, and full ones in the order of filling. A buffer is free again
/// once the last of its segments has left or was dropped.
pub struct Pool {
    current: Rc<Buffer>,
    used: usize,
    full: VecDeque<Rc<Buffer>>,
}

impl Pool {
    pub fn new() -> Pool {
        Pool { current: Buffer::new(), used: 0, full: VecDeque::new() }
    }

    /// A buffer and a place in it with room for a read of [`READ_MAX`] bytes.
    pub fn room(&mut self) -> (&Rc<Buffer>, usize) {
        if Rc::strong_count(&self.current) == 1 {
            self.used = 0; // nothing of it is under way: stay in the same memory, which the CPU has in its cache
        } else if self.used + READ_MAX > BUFFER_BYTES {
            let free = self.full.iter().position(|b| Rc::strong_count(b) == 1);
            let next = free.and_then(|i| self.full.remove(i)).unwrap_or_else(Buffer::new);
            self.full.push_back(std::mem::replace(&mut self.current, next));
            self.used = 0;
        }
        (&self.current, self.used)
    }

    /// The first `n` bytes of the room hold a packet now.
    pub fn keep(&mut self, n: usize) {
        self.used += n.next_multiple_of(8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(buffer: &Rc<Buffer>, at: u32, index: u16) -> Out<Segment> {
        let shape = Shape { ip_bytes: 10_040, head_bytes: 40, mss: 1000, ect: false };
        let packet = Segment { buffer: Rc::clone(buffer), at, shape, index };
        Out { packet, bytes: 1040, ce: false, in_ns: 0, sent_ns: 0, at_ns: 0 }
    }

    #[test]
    fn only_the_next_equally_marked_segment_of_the_same_packet_continues_a_batch() {
        let (a, b) = (Buffer::new(), Buffer::new());
        let mut batch = Batch::of(&segment(&a, 0, 3));
        for wrong in [segment(&a, 0, 3), segment(&a, 0, 5), segment(&a, 8, 4), segment(&b, 0, 4)] {
            assert!(!batch.add(&wrong));
        }
        assert!(!batch.add(&Out { ce: true, ..segment(&a, 0, 4) }));
        assert!(batch.add(&segment(&a, 0, 4)) && batch.add(&segment(&a, 0, 5)));
        assert_eq!(batch.count, 3);
    }

    #[test]
    fn memory_is_reused_once_its_packets_have_left_and_not_before() {
        let mut pool = Pool::new();
        let mut held = Vec::new();
        let mut places = std::collections::HashSet::new();
        for _ in 0..100 {
            let (buffer, at) = pool.room();
            assert!(at + READ_MAX <= BUFFER_BYTES);
            held.push(Rc::clone(buffer));
            assert!(places.insert((Rc::as_ptr(buffer), at)), "a place was given twice");
            pool.keep(60_000);
        }
        let buffers = pool.full.len() + 1;
        assert_eq!(buffers, 100_usize.div_ceil(BUFFER_BYTES / 60_000));
        drop(held);
        for _ in 0..100 {
            let (buffer, _) = pool.room();
            let _hold = Rc::clone(buffer);
            pool.keep(60_000);
        }
        assert_eq!(pool.full.len() + 1, buffers, "no new memory");
    }
}
