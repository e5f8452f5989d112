//! The packets of a simulated run, as a capture (pcap) and as mahimahi's log of a link.
//!
//! The capture is what tcpdump would show at the sender: data as it leaves, ACKs as they arrive. Headers are made up
//! from what the simulation knows: 10.0.0.1 port 40000 + flow sends to 10.0.0.2 port 5201. ACKs carry no SACK option,
//! though the simulated sender knows every arrival, and every packet announces the largest window. Payloads are cut
//! off, as `tcpdump -s` cuts them.

use headway_cc::path::Path;
use headway_cc::sim::{HEADER_BYTES, PacketRow, SimRun, Step, What};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes of IPv4 and of TCP with timestamps.
const IP: usize = 20;
const TCP: usize = 32;
const MS: u64 = 1_000_000;

/// What the sequence numbers of one flow's packets follow from.
#[derive(Default)]
struct Numbers {
    /// The position in the stream after each segment, by the segment's number; it wraps at 2³², as in TCP.
    ends: Vec<u32>,
    /// After each arrival, the number of segments that have arrived without a gap: what an ACK then acknowledges.
    acknowledged: Vec<u64>,
}

/// The capture: pcap with time stamps in nanoseconds, packets from the IP header on.
pub fn pcap(run: &SimRun) -> Vec<u8> {
    let numbers = numbers(&run.packets);
    let mut file = Vec::new();
    // Magic for nanoseconds, version 2.4, time zone, accuracy, snap length, LINKTYPE_RAW.
    for word in [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 65_535, 101u32] {
        file.extend(word.to_le_bytes());
    }
    for row in &run.packets {
        let seen = matches!((row.is_down, row.step), (true, Step::In) | (false, Step::Out { .. }));
        if !seen {
            continue;
        }
        let headers = packet(row, &numbers);
        let (s, ns) = (row.t_ns / 1_000_000_000, row.t_ns % 1_000_000_000);
        for word in [s as u32, ns as u32, headers.len() as u32, row.bytes] {
            file.extend(word.to_le_bytes());
        }
        file.extend(headers);
    }
    file
}

/// Sizes of the segments sent, and how far each arrival completes the stream.
fn numbers(rows: &[PacketRow]) -> BTreeMap<u32, Numbers> {
    let mut all: BTreeMap<u32, Numbers> = BTreeMap::new();
    let mut arrived: BTreeMap<u32, (u64, std::collections::BTreeSet<u64>)> = BTreeMap::new();
    for row in rows.iter().filter(|r| r.is_down) {
        let What::Segment { flow, number, payload, .. } = row.what else { continue };
        let own = all.entry(flow).or_default();
        match row.step {
            Step::In if number == own.ends.len() as u64 => {
                let start = own.ends.last().copied().unwrap_or(0);
                own.ends.push(start.wrapping_add(u32::from(payload)));
            }
            Step::Out { .. } => {
                let (next, beyond) = arrived.entry(flow).or_default();
                if number < *next || !beyond.insert(number) {
                    continue; // a duplicate
                }
                while beyond.remove(next) {
                    *next += 1;
                }
                own.acknowledged.push(*next);
            }
            _ => {}
        }
    }
    all
}

impl Numbers {
    /// Sequence number at which a segment starts. The SYN takes number 0, so the stream begins at 1.
    fn start(&self, segment: u64) -> u32 {
        let before = segment.checked_sub(1).and_then(|at| self.ends.get(at as usize));
        before.copied().unwrap_or(0).wrapping_add(1)
    }

    fn acknowledged(&self, arrivals: u64) -> u32 {
        let segments = arrivals.checked_sub(1).and_then(|at| self.acknowledged.get(at as usize));
        self.start(segments.copied().unwrap_or(0))
    }
}

const ACK: u8 = 0x10;
const SYN: u8 = 0x02;

/// The headers of a packet.
fn packet(row: &PacketRow, all: &BTreeMap<u32, Numbers>) -> Vec<u8> {
    let none = Numbers::default();
    let of = |flow: u32| all.get(&flow).unwrap_or(&none);
    let stamp = (row.t_ns / MS) as u32;
    let body = match row.what {
        What::Probe { number } => echo(row.is_down, number as u16),
        What::Handshake { flow } => {
            // MSS 1460, SACK permitted, timestamps, no operation, window scale 7.
            let mut options = vec![2, 4, 5, 180, 4, 2, 8, 10];
            options.extend(stamp.to_be_bytes());
            options.extend([0, 0, 0, 0, 1, 3, 3, 7]);
            let (flags, ack) = if row.is_down { (SYN, 0) } else { (SYN | ACK, 1) };
            tcp(row.is_down, flow, 0, ack, flags, &options)
        }
        What::Segment { flow, number, .. } => {
            tcp(true, flow, of(flow).start(number), 1, ACK, &timestamps(stamp))
        }
        What::Ack { flow, arrivals } => {
            tcp(false, flow, 1, of(flow).acknowledged(arrivals), ACK, &timestamps(stamp))
        }
        What::Unknown => Vec::new(),
    };
    let protocol = if matches!(row.what, What::Probe { .. }) { 1 } else { 6 };
    let mut headers = ip(row.is_down, protocol, row.bytes);
    headers.extend(body);
    headers
}

fn timestamps(stamp: u32) -> Vec<u8> {
    let mut options = vec![1, 1, 8, 10];
    options.extend(stamp.to_be_bytes());
    options.extend([0; 4]);
    options
}

fn ip(is_down: bool, protocol: u8, bytes: u32) -> Vec<u8> {
    let (near, far) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (from, to) = if is_down { (near, far) } else { (far, near) };
    let length = u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
    let mut header = vec![0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, protocol, 0, 0];
    header.extend(from.into_iter().chain(to));
    let sum = crate::observe::probe::checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    debug_assert_eq!(header.len(), IP);
    header
}

fn tcp(is_down: bool, flow: u32, seq: u32, ack: u32, flags: u8, options: &[u8]) -> Vec<u8> {
    let (near, far) = ((40_000 + flow % 20_000) as u16, 5201u16);
    let (from, to) = if is_down { (near, far) } else { (far, near) };
    let mut header = Vec::with_capacity(TCP);
    header.extend(from.to_be_bytes());
    header.extend(to.to_be_bytes());
    header.extend(seq.to_be_bytes());
    header.extend(ack.to_be_bytes());
    header.extend([((20 + options.len()) as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    header.extend(options);
    header
}

fn echo(is_request: bool, number: u16) -> Vec<u8> {
    let n = number.to_be_bytes();
    vec![if is_request { 8 } else { 0 }, 0, 0, 0, 0, 1, n[0], n[1]]
}

/// mahimahi's log of the link that carries the data, in whole milliseconds: what the link could have carried (`#`),
/// arrivals (`+`), departures with their delay in the queue (`-`) and drops (`d`). A path without a rate limit has no
/// `#` lines.
pub fn mahimahi(run: &SimRun, path: &Path) -> String {
    let mut text = String::from(
        "# mahimahi mm-link (downlink) [simulated] > headway\n# command line: headway sim\n# queue: simulated\n\
         # init timestamp: 0\n# base timestamp: 0\n",
    );
    let mut lines: Vec<(u64, String)> = Vec::new();
    for ms in 0..run.duration_us / 1000 {
        let bytes = path.capacity_bits(ms * MS, (ms + 1) * MS) / 8;
        if bytes > 0 && bytes < u64::from(u32::MAX) {
            lines.push((ms, format!("# {bytes}")));
        }
    }
    for row in run.packets.iter().filter(|r| r.is_down) {
        lines.push(match row.step {
            Step::In => (row.t_ns / MS, format!("+ {}", row.bytes)),
            Step::Out { in_ns, sent_ns } => {
                (sent_ns / MS, format!("- {} {}", row.bytes, sent_ns / MS - in_ns / MS))
            }
            Step::Drop { packets } => (row.t_ns / MS, format!("d {packets} {}", row.bytes)),
        });
    }
    // The simulator reports a packet when it arrives, which is later than when it left the queue: hence sorted again.
    lines.sort_by_key(|(ms, _)| *ms);
    lines.iter().for_each(|(ms, line)| {
        let _ = writeln!(text, "{ms} {line}");
    });
    text
}

const _: () = assert!(HEADER_BYTES as usize == IP + TCP);

#[cfg(test)]
mod tests {
    use super::*;
    use headway_cc::sim::{FlowSpec, SimSpec, run};

    const PATH: &str = "10mbit 40ms queue=20pkt loss=0.5%";

    fn simulated() -> SimRun {
        let mut spec = SimSpec::new(PATH.parse().unwrap(), vec![FlowSpec::bulk("cubic"); 2], 3_000_000, 5);
        spec.packets = true;
        run(&spec).unwrap()
    }

    /// Time, captured bytes, length on the wire.
    fn records(file: &[u8]) -> Vec<(f64, &[u8], u32)> {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(20)), (0xa1b2_3c4d, 101));
        let (mut at, mut all) = (24, Vec::new());
        while at < file.len() {
            let t = f64::from(word(at)) + f64::from(word(at + 4)) / 1e9;
            let cut = word(at + 8) as usize;
            all.push((t, &file[at + 16..at + 16 + cut], word(at + 12)));
            at += 16 + cut;
        }
        all
    }

    #[test]
    fn the_capture_shows_both_flows_whole() {
        let run = simulated();
        let file = pcap(&run);
        let records = records(&file);
        assert!(records.windows(2).all(|w| w[0].0 <= w[1].0));
        let be32 = |h: &[u8], at: usize| u32::from_be_bytes(h[at..at + 4].try_into().unwrap());
        let port = |h: &[u8], at: usize| u16::from_be_bytes(h[at..at + 2].try_into().unwrap());
        for (index, flow) in run.flows.iter().enumerate() {
            let ours = 40_000 + index as u16;
            let tcp = || records.iter().filter(|(_, h, _)| h[9] == 6);
            let data: Vec<_> = tcp().filter(|(_, h, _)| port(h, 20) == ours && h[33] == ACK).collect();
            let acks: Vec<_> = tcp().filter(|(_, h, _)| port(h, 22) == ours && h[33] == ACK).collect();
            assert_eq!(data.len() as u64, flow.sent_packets);
            let flags: Vec<u8> = tcp()
                .filter(|(_, h, _)| port(h, 20).max(port(h, 22)) == ours)
                .map(|(_, h, _)| h[33])
                .collect();
            assert_eq!(flags[..3], [SYN, SYN | ACK, ACK], "a handshake, then data");
            let payload: u64 = data.iter().map(|(_, _, wire)| u64::from(wire - HEADER_BYTES)).sum();
            assert_eq!(payload, flow.sent_bytes);
            let first = be32(data[0].1, 24);
            assert_eq!(first, 1, "the stream starts after the SYN");
            let last_ack = acks.iter().map(|(_, h, _)| be32(h, 28)).max().unwrap();
            let end = data.iter().map(|(_, h, wire)| be32(h, 24) + wire - HEADER_BYTES).max().unwrap();
            assert!(last_ack <= end && u64::from(last_ack - 1) <= flow.delivered_bytes, "{last_ack} {end}");
            assert!(u64::from(last_ack - 1) + 200_000 > flow.delivered_bytes, "{last_ack}");
            assert!(acks.windows(2).all(|w| be32(w[0].1, 28) <= be32(w[1].1, 28)), "ACKs never go back");
        }
        assert!(records.iter().all(|(_, h, _)| crate::observe::probe::checksum(&h[..20]) == 0));
    }

    #[test]
    fn the_log_has_the_rate_and_the_queue() {
        let run = simulated();
        let text = mahimahi(&run, &PATH.parse().unwrap());
        let rows: Vec<Vec<&str>> =
            text.lines().filter(|l| !l.starts_with('#')).map(|l| l.split(' ').collect()).collect();
        let times: Vec<u64> = rows.iter().map(|r| r[0].parse().unwrap()).collect();
        assert!(times.windows(2).all(|w| w[0] <= w[1]));
        let sum = |kind: &str, column: usize| -> u64 {
            rows.iter().filter(|r| r[1] == kind).map(|r| r[column].parse::<u64>().unwrap()).sum()
        };
        assert_eq!(sum("#", 2), 10_000_000 / 8 * 3);
        assert_eq!(sum("+", 2), run.down.iter().map(|b| b.in_bytes).sum::<u64>());
        assert_eq!(sum("d", 2), run.down.iter().map(|b| b.drop_packets).sum::<u64>());
        let longest =
            rows.iter().filter(|r| r[1] == "-").map(|r| r[3].parse::<u64>().unwrap()).max().unwrap();
        let sojourn = run.down.iter().map(|b| b.sojourn_us_max).max().unwrap() / 1000;
        assert!(longest.abs_diff(sojourn) <= 1, "{longest} {sojourn}");
        assert!(text.starts_with("# mahimahi mm-link (") && text.contains("\n# base timestamp: 0\n"));
    }
}
