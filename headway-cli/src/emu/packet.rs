//! Packets as a TUN device hands them over: a virtio-net header, then an IP packet of up to 64 KB, a super-packet,
//! that stands for several packets of the MTU's size (GSO, generic segmentation offload). [`shape`] tells how it
//! divides. [`cut`] makes the headers for some consecutive ones of its MTU packets, so that the kernel accepts these
//! as one packet again (GRO does the same with packets of a network card). No payload is touched.

use crate::sys::tun::VNET_BYTES;
use std::ops::Range;

/// Room for the virtio-net header and all headers of a packet that can be divided: IP and TCP with all their options
/// take 120 bytes, IPv6 extension headers may add to that.
pub const HEAD_MAX: usize = 256;

// Fields of the virtio-net header, as in linux/virtio_net.h.
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
    /// Bytes of IP and TCP or UDP headers, which every MTU packet repeats.
    pub head_bytes: u16,
    /// Payload bytes of every MTU packet but the last; 0: the packet is not divided.
    pub mss: u16,
    /// The IP header says that the transport understands congestion marks (ECT, RFC 3168).
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
        if self.mss == 0 {
            self.ip_bytes
        } else {
            u32::from(self.head_bytes) + self.payload(index, 1).len() as u32
        }
    }

    /// Where the payload of `count` MTU packets from `first` on lies, from the start of the payload.
    fn payload(&self, first: u32, count: u32) -> Range<usize> {
        let all = self.ip_bytes - u32::from(self.head_bytes);
        let at = |index: u32| (index * u32::from(self.mss)).min(all) as usize;
        at(first)..at(first + count)
    }
}

/// How the packet divides whose first bytes are `head` (virtio-net header first) and whose IP packet has `ip_bytes`.
/// What is not a well-formed TCP or UDP super-packet travels undivided.
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

/// Whether this is a TCP packet over IPv4 from or to this port. `head` begins with the virtio-net header.
pub fn has_port(head: &[u8], port: u16) -> bool {
    let ip = head.get(VNET_BYTES..).unwrap_or_default();
    let is_tcp = ip.first().is_some_and(|b| b >> 4 == 4) && ip.get(9) == Some(&6);
    let l4 = ip.first().map_or(0, |b| usize::from(b & 15) * 4);
    let port_at = |at: usize| Some(u16::from_be_bytes([*ip.get(at)?, *ip.get(at + 1)?]));
    is_tcp && [port_at(l4), port_at(l4 + 2)].contains(&Some(port))
}

/// Header bytes, and payload bytes of each MTU packet, of a super-packet; `None` if it is none.
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

/// Turns `head` (virtio-net header and headers of a whole super-packet) into the headers of its MTU packets `first ..
/// first + count`, marked CE (congestion experienced) if asked for. Returns how many bytes of `head` to send, and
/// which part of the IP packet follows them.
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

/// Sets length and identification in the IP header. The kernel would have numbered the MTU packets one after the
/// other.
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

/// Sets sequence number and flags. As when the kernel segments, FIN and PSH belong to the last MTU packet, CWR to the
/// first.
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

/// Sets the virtio-net header. A single MTU packet is no super-packet any more; the kernel computes the checksum
/// either way.
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

/// What a checksum field must hold for the kernel to complete it: the folded sum of the pseudo-header.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64.
    struct Rng(u64);

    impl Rng {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ z >> 31) % n as u64) as usize
        }

        fn bytes(&mut self, n: usize) -> Vec<u8> {
            (0..n).map(|_| self.below(256) as u8).collect()
        }
    }

    #[test]
    fn a_port_counts_at_either_end_of_tcp_over_ipv4_only() {
        let packet = |version_ihl: u8, protocol: u8, ports: [u16; 2]| {
            let mut ip = vec![0; VNET_BYTES + usize::from(version_ihl & 15) * 4];
            (ip[VNET_BYTES], ip[VNET_BYTES + 9]) = (version_ihl, protocol);
            ports.iter().for_each(|port| ip.extend(port.to_be_bytes()));
            ip
        };
        assert!(
            has_port(&packet(0x45, 6, [5202, 40_000]), 5202) && has_port(&packet(0x4f, 6, [1, 5202]), 5202)
        );
        assert!(
            !has_port(&packet(0x45, 6, [5201, 5203]), 5202) && !has_port(&packet(0x45, 17, [5202, 1]), 5202)
        );
        assert!(!has_port(&packet(0x65, 6, [5202, 5202]), 5202) && !has_port(&[0; VNET_BYTES + 20], 5202));
    }

    /// A super-packet as the kernel hands it over, and the start of its payload within it.
    fn super_packet(rng: &mut Rng) -> (Vec<u8>, usize) {
        let (is_v4, is_tcp) = (rng.below(2) == 0, rng.below(3) > 0);
        let l4 = if is_v4 { 20 + 4 * rng.below(11) } else { 40 };
        let head_bytes = l4 + if is_tcp { 20 + 4 * rng.below(11) } else { 8 };
        let mss = 1 + rng.below(8960);
        let payload = 1 + rng.below((65_535 - head_bytes).min(50 * mss));
        let mut p = rng.bytes(VNET_BYTES + head_bytes + payload);
        let has_cwr = is_tcp && rng.below(4) == 0;
        p[0] = NEEDS_CSUM;
        p[1] = match (is_v4, is_tcp) {
            (_, false) => GSO_UDP_L4,
            (true, true) => GSO_TCPV4,
            (false, true) => GSO_TCPV6,
        } | if has_cwr { GSO_ECN } else { 0 };
        for (at, n) in [(2, head_bytes), (4, mss), (6, l4), (8, if is_tcp { 16 } else { 6 })] {
            p[at..at + 2].copy_from_slice(&(n as u16).to_ne_bytes());
        }
        let ip = &mut p[VNET_BYTES..];
        let bytes = ip.len();
        let proto = if is_tcp { 6 } else { 17 };
        if is_v4 {
            ip[0] = 0x40 | (l4 / 4) as u8;
            ip[9] = proto;
            put_be(ip, 2, bytes as u16);
            put_be(ip, 10, 0);
            let sum = internet_checksum(&ip[..l4]);
            put_be(ip, 10, sum);
        } else {
            (ip[0], ip[6]) = (0x60, proto);
            put_be(ip, 4, (bytes - 40) as u16);
        }
        if is_tcp {
            ip[l4 + 12] = ((head_bytes - l4) * 4) as u8; // in words, in the upper half
            ip[l4 + 13] = ip[l4 + 13] & !TCP_CWR | if has_cwr { TCP_CWR } else { 0 };
        } else {
            put_be(ip, l4 + 4, (bytes - l4) as u16);
        }
        let sum = !internet_checksum(&pseudo_header(ip, l4));
        put_be(ip, l4 + if is_tcp { 16 } else { 6 }, sum);
        (p, VNET_BYTES + head_bytes)
    }

    /// RFC 1071, the slow way.
    fn internet_checksum(bytes: &[u8]) -> u16 {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(2), 0);
        let sum = padded.chunks(2).fold(0_u64, |s, c| s + u64::from(c[0]) * 256 + u64::from(c[1]));
        let once = sum % 65_535;
        !(if once == 0 && sum > 0 { 65_535 } else { once as u16 })
    }

    fn pseudo_header(ip: &[u8], l4: usize) -> Vec<u8> {
        let is_v4 = ip[0] >> 4 == 4;
        let mut bytes = if is_v4 { ip[12..20].to_vec() } else { ip[8..40].to_vec() };
        bytes.extend([0, if is_v4 { ip[9] } else { ip[6] }]);
        bytes.extend(((ip.len() - l4) as u16).to_be_bytes());
        bytes
    }

    /// What a network card sends for a packet with a virtio-net header: MTU packets with all checksums made.
    fn on_the_wire(p: &[u8]) -> Vec<Vec<u8>> {
        let (vnet, ip) = p.split_at(VNET_BYTES);
        let l4 = usize::from(word(vnet, 6));
        let is_v4 = ip[0] >> 4 == 4;
        let sum_at = l4 + usize::from(word(vnet, 8));
        let is_tcp = sum_at == l4 + 16;
        let head_bytes = l4 + if is_tcp { usize::from(ip[l4 + 12] >> 4) * 4 } else { 8 };
        assert_eq!(be(ip, sum_at), !internet_checksum(&pseudo_header(ip, l4)), "pseudo-header sum");
        assert_eq!(usize::from(word(vnet, 2)), head_bytes, "header length for the kernel");
        let stated = if is_v4 { usize::from(be(ip, 2)) } else { usize::from(be(ip, 4)) + 40 };
        assert_eq!(stated, ip.len(), "IP length");
        assert!(!is_v4 || internet_checksum(&ip[..l4]) == 0, "IP checksum");
        assert!(is_tcp || usize::from(be(ip, l4 + 4)) == ip.len() - l4, "UDP length");
        let mss = if vnet[1] == GSO_NONE { usize::MAX } else { usize::from(word(vnet, 4)) };
        let wants_ecn = is_tcp && mss < usize::MAX && ip[l4 + 13] & TCP_CWR != 0;
        assert_eq!(vnet[1] & GSO_ECN != 0, wants_ecn, "ECN flag of the virtio-net header");
        let parts: Vec<&[u8]> = ip[head_bytes..].chunks(mss).collect();
        let mut packets = Vec::new();
        for (i, part) in parts.iter().enumerate() {
            let mut w = [&ip[..head_bytes], part].concat();
            if is_v4 {
                let (bytes, id) = (w.len() as u16, be(ip, 4).wrapping_add(i as u16));
                put_be(&mut w, 2, bytes);
                put_be(&mut w, 4, id);
            } else {
                let bytes = w.len() as u16 - 40;
                put_be(&mut w, 4, bytes);
            }
            if is_tcp {
                let seq = u32::from_be_bytes(ip[l4 + 4..l4 + 8].try_into().unwrap());
                let seq = seq.wrapping_add(i as u32 * mss.min(65_535) as u32);
                w[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
                w[l4 + 13] &= if i + 1 < parts.len() { !TCP_FIN_PSH } else { 0xff };
                w[l4 + 13] &= if i > 0 { !TCP_CWR } else { 0xff };
            } else {
                put_be(&mut w, l4 + 4, (8 + part.len()) as u16);
            }
            put_be(&mut w, sum_at, 0);
            let sum = internet_checksum(&[pseudo_header(&w, l4), w[l4..].to_vec()].concat());
            put_be(&mut w, sum_at, sum);
            packets.push(with_ip_checksum(w, l4));
        }
        packets
    }

    fn with_ip_checksum(mut w: Vec<u8>, l4: usize) -> Vec<u8> {
        if w[0] >> 4 == 4 {
            put_be(&mut w, 10, 0);
            let sum = internet_checksum(&w[..l4]);
            put_be(&mut w, 10, sum);
        }
        w
    }

    fn marked(mut w: Vec<u8>, l4: usize) -> Vec<u8> {
        w[1] |= if w[0] >> 4 == 4 { 3 } else { 0x30 };
        with_ip_checksum(w, l4)
    }

    #[test]
    fn every_run_is_on_the_wire_what_the_whole_packet_would_have_been() {
        let mut rng = Rng(7);
        for case in 0..400 {
            let (p, payload_at) = super_packet(&mut rng);
            let wire = on_the_wire(&p);
            let head = &p[..p.len().min(HEAD_MAX)];
            let shape = shape(head, p.len() - VNET_BYTES);
            assert_eq!(
                (shape.count() as usize, VNET_BYTES + usize::from(shape.head_bytes)),
                (wire.len(), payload_at)
            );
            let mut first = 0;
            while first < wire.len() {
                let (count, ce) = (1 + rng.below(wire.len() - first), rng.below(2) == 0);
                let mut head = head.to_vec();
                let (n, rest) = cut(&mut head, &shape, first as u32, count as u32, ce);
                let run = [&head[..n], &p[VNET_BYTES..][rest]].concat();
                let l4 = usize::from(word(&p, 6));
                let got = on_the_wire(&run);
                assert_eq!(got.len(), count, "case {case}");
                for (i, got) in got.iter().enumerate() {
                    let expected = &wire[first + i];
                    assert_eq!(shape.bytes_of((first + i) as u32) as usize, expected.len(), "case {case}");
                    let expected = if ce { marked(expected.clone(), l4) } else { expected.clone() };
                    assert!(*got == expected, "case {case}: packet {} of {}", first + i, wire.len());
                }
                first += count;
            }
        }
    }

    #[test]
    fn a_plain_packet_is_one_and_changes_only_by_its_mark() {
        let mut rng = Rng(8);
        let (p, payload_at) = super_packet(&mut rng);
        let l4 = usize::from(word(&p, 6));
        for n in [payload_at + 1, payload_at, VNET_BYTES + 40] {
            let mut plain = p[..n.max(VNET_BYTES + l4)].to_vec();
            plain[..VNET_BYTES].fill(0);
            let s = shape(&plain, plain.len() - VNET_BYTES);
            assert_eq!((s.count(), s.bytes_of(0) as usize), (1, plain.len() - VNET_BYTES));
            let mut head = plain.clone();
            let (n, rest) = cut(&mut head, &s, 0, 1, true);
            assert_eq!(n + rest.len(), plain.len());
            let expected = marked(plain[VNET_BYTES..].to_vec(), l4);
            assert_eq!([&head[VNET_BYTES..n], &plain[VNET_BYTES..][rest]].concat(), expected);
        }
    }

    #[test]
    fn ect_is_read_from_both_kinds_of_header() {
        for (bytes, ect) in
            [([0x45, 0], false), ([0x45, 2], true), ([0x60, 0x10], true), ([0x60, 0x0f], false)]
        {
            let packet = [&[0; VNET_BYTES][..], &bytes, &[0; 60]].concat();
            assert_eq!(shape(&packet, 62).ect, ect, "{bytes:x?}");
        }
    }

    #[test]
    fn nonsense_is_one_packet_and_never_a_panic() {
        let mut rng = Rng(9);
        for _ in 0..20_000 {
            let n = rng.below(120);
            let mut p = rng.bytes(n);
            if n > 11 {
                (p[0], p[1]) = (1, [1, 3, 4, 5, 0x81][rng.below(5)]);
                p[10] = [0x45, 0x60, 0x4f, 0x40][rng.below(4)];
            }
            let s = shape(&p, n.saturating_sub(VNET_BYTES));
            if n > VNET_BYTES {
                let count = s.count();
                let (head, rest) = cut(&mut p.clone(), &s, 0, count, true);
                assert_eq!(head + rest.len(), n);
            }
        }
    }
}
