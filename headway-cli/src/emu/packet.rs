//! Packets as a TUN device hands them over: a virtio-net header, then an IP packet of up to 64 KB that stands
//! for several MTU packets. [`shape`] tells how it divides; [`cut`] makes the headers for any run of its
//! MTU packets, so that the kernel takes the run as one packet again. No payload is touched.

use crate::sys::VNET_BYTES;
use std::ops::Range;

/// Room for the virtio-net header and all headers of a packet that can be divided.
pub const HEAD_MAX: usize = 256;

// linux/virtio_net.h
const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

const PROTO_TCP: u8 = 6;
const PROTO_UDP: u8 = 17;
const TCP_FIN_PSH: u8 = 0x09;
const TCP_CWR: u8 = 0x80;

/// How an IP packet divides into MTU packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of the IP packet.
    pub ip_bytes: u32,
    /// Header bytes that every MTU packet repeats.
    pub head_bytes: u16,
    /// Payload bytes of every MTU packet but the last; 0: the packet is one.
    pub mss: u16,
    /// The sender's transport understands CE marks.
    pub ect: bool,
}

impl Shape {
    /// Number of MTU packets.
    pub fn count(&self) -> u32 {
        match self.mss {
            0 => 1,
            mss => (self.ip_bytes - u32::from(self.head_bytes)).div_ceil(u32::from(mss)),
        }
    }

    /// Bytes of MTU packet `index`, IP header included.
    pub fn bytes_of(&self, index: u32) -> u32 {
        if self.mss == 0 { self.ip_bytes } else { u32::from(self.head_bytes) + self.payload(index, 1).len() as u32 }
    }

    /// Where the payload of `count` MTU packets from `first` on lies, from the start of the payload.
    fn payload(&self, first: u32, count: u32) -> Range<usize> {
        let all = self.ip_bytes - u32::from(self.head_bytes);
        let at = |index: u32| (index * u32::from(self.mss)).min(all) as usize;
        at(first)..at(first + count)
    }
}

/// Reads the shape of the packet whose first bytes are `head` (virtio-net header first). What is not a
/// well-formed TCP or UDP super-packet is one packet.
pub fn shape(head: &[u8], ip_bytes: usize) -> Shape {
    let (vnet, ip) = head.split_at(VNET_BYTES.min(head.len()));
    let ect = match ip.first().map(|b| b >> 4) {
        Some(4) => ip.get(1).is_some_and(|b| b & 3 != 0),
        Some(6) => ip.get(1).is_some_and(|b| b & 0x30 != 0),
        _ => false,
    };
    let divided = divide(vnet, ip, ip_bytes).unwrap_or((0, 0));
    Shape { ip_bytes: ip_bytes as u32, head_bytes: divided.0, mss: divided.1, ect }
}

/// Header bytes and payload bytes of each MTU packet of a super-packet.
fn divide(vnet: &[u8], ip: &[u8], ip_bytes: usize) -> Option<(u16, u16)> {
    let kind = vnet.get(1)? & !GSO_ECN;
    let (mss, l4) = (word(vnet, 4), usize::from(word(vnet, 6)));
    let fixed = match kind {
        GSO_TCPV4 | GSO_TCPV6 => usize::from(ip.get(l4 + 12)? >> 4) * 4,
        GSO_UDP_L4 => 8,
        _ => return None,
    };
    let head_bytes = l4 + fixed;
    let version = ip.first()? >> 4;
    let is_sound = vnet[0] & NEEDS_CSUM != 0
        && mss > 0
        && fixed >= 8
        && l4 >= if version == 4 { 20 } else { 40 }
        && matches!((version, kind), (4, GSO_TCPV4 | GSO_UDP_L4) | (6, GSO_TCPV6 | GSO_UDP_L4))
        && l4 + usize::from(word(vnet, 8)) + 2 <= head_bytes
        && VNET_BYTES + head_bytes <= HEAD_MAX
        && head_bytes < ip_bytes
        && ip_bytes <= 0xffff;
    is_sound.then_some((head_bytes as u16, mss))
}

/// Turns `head` (virtio-net header and headers of a whole super-packet) into the headers of its MTU packets
/// `first .. first + count`, CE-marked if asked for. The answer: bytes of `head` to send, and the part of the
/// IP packet that follows them.
pub fn cut(head: &mut [u8], shape: &Shape, first: u32, count: u32, ce: bool) -> (usize, Range<usize>) {
    let ip_bytes = shape.ip_bytes as usize;
    if shape.mss == 0 {
        let kept = head.len().min(VNET_BYTES + ip_bytes);
        if ce {
            mark_ce(&mut head[VNET_BYTES..kept]);
        }
        return (kept, kept - VNET_BYTES..ip_bytes);
    }
    let head_bytes = usize::from(shape.head_bytes);
    let payload = shape.payload(first, count);
    let (vnet, ip) = head[..VNET_BYTES + head_bytes].split_at_mut(VNET_BYTES);
    let l4 = usize::from(word(vnet, 6));
    cut_ip(ip, l4, payload.len(), first);
    let is_tcp = vnet[1] & !GSO_ECN != GSO_UDP_L4;
    if is_tcp {
        cut_tcp(&mut ip[l4..], payload.start, head_bytes + payload.end == ip_bytes);
    } else {
        put_be(ip, l4 + 4, (8 + payload.len()) as u16);
    }
    let sum = pseudo_sum(ip, if is_tcp { PROTO_TCP } else { PROTO_UDP }, head_bytes - l4 + payload.len());
    put_be(ip, l4 + usize::from(word(vnet, 8)), sum);
    if ce {
        mark_ce(ip);
    }
    let has_cwr = is_tcp && ip[l4 + 13] & TCP_CWR != 0;
    cut_vnet(vnet, head_bytes, payload.len() > usize::from(shape.mss), has_cwr);
    (VNET_BYTES + head_bytes, head_bytes + payload.start..head_bytes + payload.end)
}

/// Length and identification of the IP header.
fn cut_ip(ip: &mut [u8], l4: usize, payload: usize, first: u32) {
    let bytes = ip.len() + payload;
    if ip[0] >> 4 == 4 {
        let id = be(ip, 4).wrapping_add(first as u16);
        put_be(ip, 2, bytes as u16);
        put_be(ip, 4, id);
        fix_ipv4_sum(&mut ip[..l4]);
    } else {
        put_be(ip, 4, (bytes - 40) as u16);
    }
}

/// Sequence number and flags: FIN and PSH belong to the last MTU packet, CWR to the first.
fn cut_tcp(tcp: &mut [u8], payload_start: usize, is_last: bool) {
    let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(payload_start as u32);
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    if !is_last {
        tcp[13] &= !TCP_FIN_PSH;
    }
    if payload_start > 0 {
        tcp[13] &= !TCP_CWR;
    }
}

/// One MTU packet is not a super-packet any more; a checksum is wanted either way.
fn cut_vnet(vnet: &mut [u8], head_bytes: usize, is_several: bool, has_cwr: bool) {
    vnet[0] = NEEDS_CSUM;
    vnet[2..4].copy_from_slice(&(head_bytes as u16).to_ne_bytes());
    if is_several {
        vnet[1] = (vnet[1] & !GSO_ECN) | if has_cwr { GSO_ECN } else { 0 };
    } else {
        vnet[1] = GSO_NONE;
        vnet[4..6].fill(0);
    }
}

/// Sets both ECN bits of an IP header.
fn mark_ce(ip: &mut [u8]) {
    match ip.first().map(|b| b >> 4) {
        Some(4) => {
            let ihl = usize::from(ip[0] & 15) * 4;
            if ihl >= 20 && ihl <= ip.len() {
                ip[1] |= 3;
                fix_ipv4_sum(&mut ip[..ihl]);
            }
        }
        Some(6) if ip.len() >= 40 => ip[1] |= 0x30,
        _ => {}
    }
}

fn fix_ipv4_sum(header: &mut [u8]) {
    put_be(header, 10, 0);
    let sum = !fold(sum_words(header));
    put_be(header, 10, sum);
}

/// What a checksum field holds before the device adds the rest: the folded sum of the pseudo-header.
fn pseudo_sum(ip: &[u8], proto: u8, l4_bytes: usize) -> u16 {
    let addresses = if ip[0] >> 4 == 4 { &ip[12..20] } else { &ip[8..40] };
    fold(sum_words(addresses) + u32::from(proto) + l4_bytes as u32)
}

fn sum_words(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0))).sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A field of the virtio-net header, in the machine's byte order.
fn word(vnet: &[u8], at: usize) -> u16 {
    vnet.get(at..at + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]))
}

fn be(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put_be(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
