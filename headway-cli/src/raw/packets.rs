//! `packets.txt`: the TCP packets at the sender's device, one row each, in the order in which the kernel handled them. It is
//! what tcpdump would show; nothing of ours has a part in it but the writing. `headway replay` holds the trace of a controller
//! against it.

use crate::raw::table::Table;
use std::fmt::Write as _;

/// One packet. The kernel hands several segments in a row to the device as one packet, and so it is one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// When it passed the device, on the monotonic clock.
    pub t_ns: u64,
    /// The sender sent it; else the receiver did.
    pub is_sent: bool,
    /// The sender's port.
    pub port: u16,
    /// Where its data begin in the stream.
    pub seq: u32,
    /// Bytes of data.
    pub bytes: u32,
    /// Up to where its sender has received everything.
    pub ack: u32,
    pub has_syn: bool,
    /// Its sender has no more data; this, too, has a place in the stream.
    pub has_fin: bool,
    /// It echoes a congestion mark (ECE, RFC 3168).
    pub has_ece: bool,
    /// What else its sender has received: start and end (RFC 2018).
    pub sacks: Vec<(u32, u32)>,
}

pub fn to_text(packets: &[Packet]) -> String {
    let mut text = String::from("# t_ns way port seq bytes ack syn fin ece sack\n");
    for p in packets {
        let sacks: Vec<String> = p.sacks.iter().map(|(start, end)| format!("{start}-{end}")).collect();
        let sacks = if sacks.is_empty() { "-".into() } else { sacks.join(",") };
        let way = if p.is_sent { "sent" } else { "received" };
        let (syn, fin, ece) = (u8::from(p.has_syn), u8::from(p.has_fin), u8::from(p.has_ece));
        writeln!(
            text,
            "{} {way} {} {} {} {} {syn} {fin} {ece} {sacks}",
            p.t_ns, p.port, p.seq, p.bytes, p.ack
        )
        .expect("writing to memory");
    }
    text
}

pub fn parse(text: &str) -> Result<Vec<Packet>, String> {
    Table::read(text)?.rows(|row| {
        let sacks = row.word("sack")?;
        let range = |word: &str| {
            let (start, end) = word.split_once('-')?;
            Some((start.parse().ok()?, end.parse().ok()?))
        };
        let ranges = if sacks == "-" { Some(Vec::new()) } else { sacks.split(',').map(range).collect() };
        Ok(Packet {
            t_ns: row.word("t_ns")?.parse().map_err(|e| format!("line {}: t_ns: {e}", row.line))?,
            is_sent: row.word("way")? == "sent",
            port: row.number("port")?,
            seq: row.number("seq")?,
            bytes: row.number("bytes")?,
            ack: row.number("ack")?,
            has_syn: row.number::<u8>("syn")? != 0,
            has_fin: row.number::<u8>("fin")? != 0,
            has_ece: row.number::<u8>("ece")? != 0,
            sacks: ranges.ok_or_else(|| format!("line {}: `{sacks}` are no ranges", row.line))?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let sent = Packet {
            t_ns: 1,
            is_sent: true,
            port: 40_000,
            seq: 7,
            bytes: 2896,
            has_fin: true,
            ..Packet::default()
        };
        let ack = Packet { ack: 7, has_ece: true, sacks: vec![(9, 12), (20, 30)], ..Packet::default() };
        let packets = [sent, ack];
        assert_eq!(parse(&to_text(&packets)).unwrap(), packets);
        assert!(parse("# t_ns way port seq bytes ack syn fin ece sack\n1 sent 1 1 1 1 0 0 0 5\n").is_err());
    }
}
