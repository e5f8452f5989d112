//! `connections.txt`: one row for each connection that took part in a trial, written when it ended, and at the end of the
//! trial for those that were still open.
//!
//! No address is in it. The remote network is a number that a keyed hash made of it (see [`Key`]), and the key is not in the
//! folder: who has the folder can tell that two connections came from one network, and not from which.

use crate::raw::table::{Row, Table, word_or_missing};
use headway_cc::histogram::{BUCKETS, quantile};
use std::fmt::Write as _;
use std::net::IpAddr;

/// What a connection did, from its beginning to its end, or as far as it had come when the trial ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The slot that it began in, for which it counts.
    pub slot: u32,
    /// The controller that it was given: an index into `Setup::arms`.
    pub arm: u8,
    /// Milliseconds since the trial began.
    pub began_ms: u64,
    /// When it ended, or, of an open one, when its row was taken.
    pub ended_ms: u64,
    /// It had not ended: what it would have done from then on is not known (it is censored).
    pub is_open: bool,
    /// The remote network, hashed.
    pub prefix: u64,
    /// The other side opened it.
    pub is_inbound: bool,
    /// At its end it had the controller that it had been given.
    pub is_as_set: bool,
    /// The socket's error at its end, as an errno; 0 for none.
    pub error: u32,
    pub bytes_acked: u64,
    /// With retransmissions.
    pub bytes_sent: u64,
    pub bytes_retransmitted: u64,
    pub segments: u64,
    /// Retransmission timeouts.
    pub rtos: u32,
    /// Segments that were marked lost.
    pub lost: u32,
    /// Segments whose receiver reported a congestion mark.
    pub ce: u32,
    /// Segments that the receiver reported to have had twice.
    pub dsacks: u32,
    /// Time in which it had data to send, of it that in which the receiver's window, and that in which the own send buffer was in
    /// the way.
    pub busy_us: u64,
    pub rwnd_limited_us: u64,
    pub sndbuf_limited_us: u64,
    pub srtt_us: u64,
    /// The smallest round-trip time; 0 when none was measured.
    pub min_rtt_us: u64,
    /// Round-trip times by `headway_cc::histogram::bucket`, those that occurred: bucket and count, buckets rising.
    pub rtts: Vec<(u8, u32)>,
}

/// Fewer bytes are through before the controller has had anything to decide.
pub const LEAST_BYTES: u64 = 64 * 1024;

impl Connection {
    /// Bytes a second in the time in which nothing but the network held it up. `None` where too little was sent to tell.
    pub fn goodput(&self) -> Option<f64> {
        let held_us = self.rwnd_limited_us.saturating_add(self.sndbuf_limited_us);
        let free_us = self.busy_us.saturating_sub(held_us);
        (self.bytes_acked >= LEAST_BYTES && free_us > 0)
            .then(|| self.bytes_acked as f64 * 1e6 / free_us as f64)
    }

    /// The round-trip time below which 95 % of its samples lie.
    pub fn rtt_p95_us(&self) -> Option<f64> {
        let mut counts = [0; BUCKETS];
        for (bucket, count) in &self.rtts {
            *counts.get_mut(usize::from(*bucket))? = *count;
        }
        quantile(&counts, 0.95)
    }

    /// Puts the counts of a histogram in.
    pub fn set_rtts(&mut self, counts: &[u32]) {
        let counted = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        self.rtts = counted.map(|(bucket, count)| (bucket as u8, *count)).collect();
    }

    pub fn life_ms(&self) -> u64 {
        self.ended_ms.saturating_sub(self.began_ms)
    }
}

/// What the numbers of networks are made with. It stays on the machine, outside of the trial's folder; the same key gives a
/// network the same number when a trial goes on after a reboot.
pub struct Key(ring::hmac::Key);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret))
    }

    /// The number of the network that the address belongs to: its /24, or of an IPv6 address its /48.
    pub fn network(&self, address: IpAddr) -> u64 {
        let tag = match address {
            IpAddr::V4(v4) => ring::hmac::sign(&self.0, &v4.octets()[..3]),
            IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                Some(v4) => ring::hmac::sign(&self.0, &v4.octets()[..3]),
                None => ring::hmac::sign(&self.0, &v6.octets()[..6]),
            },
        };
        let first: [u8; 8] = tag.as_ref()[..8].try_into().expect("SHA-256 has 32 bytes");
        u64::from_be_bytes(first)
    }
}

const COLUMNS: &str = "slot arm began_ms ended_ms open prefix inbound as_set error bytes_acked bytes_sent bytes_retransmitted segments \
                       rtos lost ce dsacks busy_us rwnd_limited_us sndbuf_limited_us srtt_us min_rtt_us rtts";

/// The first line of the file.
pub fn head() -> String {
    format!("# {COLUMNS}\n")
}

/// One line.
pub fn line(c: &Connection) -> String {
    let mut rtts = String::new();
    for (bucket, count) in &c.rtts {
        let comma = if rtts.is_empty() { "" } else { "," };
        write!(rtts, "{comma}{bucket}:{count}").expect("writing to memory");
    }
    let rtts = word_or_missing((!rtts.is_empty()).then_some(rtts));
    let flag = u8::from;
    format!(
        "{} {} {} {} {} {:016x} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {rtts}\n",
        c.slot,
        c.arm,
        c.began_ms,
        c.ended_ms,
        flag(c.is_open),
        c.prefix,
        flag(c.is_inbound),
        flag(c.is_as_set),
        c.error,
        c.bytes_acked,
        c.bytes_sent,
        c.bytes_retransmitted,
        c.segments,
        c.rtos,
        c.lost,
        c.ce,
        c.dsacks,
        c.busy_us,
        c.rwnd_limited_us,
        c.sndbuf_limited_us,
        c.srtt_us,
        c.min_rtt_us
    )
}

/// The connections that can be read, and what is wrong with the rest. A last line without an end is one whose writer was killed
/// in the middle of it; it is left out in any case.
pub fn parse(text: &str) -> Result<(Vec<Connection>, Vec<String>), String> {
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let (rows, mut bad) = Table::read(whole)?.readable_rows(row);
    if whole.len() < text.len() {
        bad.push("the last line is cut, as by a kill in the middle of writing".into());
    }
    Ok((rows, bad))
}

fn row(row: &Row) -> Result<Connection, String> {
    let flag = |column: &str| match row.word(column)? {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(format!("line {}: `{other}` is neither 0 nor 1 for {column}", row.line)),
    };
    let prefix = row.word("prefix")?;
    let connection = Connection {
        slot: row.number("slot")?,
        arm: u8::from(flag("arm")?),
        began_ms: row.number("began_ms")?,
        ended_ms: row.number("ended_ms")?,
        is_open: flag("open")?,
        prefix: u64::from_str_radix(prefix, 16)
            .map_err(|_| format!("line {}: `{prefix}` is no hashed network", row.line))?,
        is_inbound: flag("inbound")?,
        is_as_set: flag("as_set")?,
        error: row.number("error")?,
        bytes_acked: row.number("bytes_acked")?,
        bytes_sent: row.number("bytes_sent")?,
        bytes_retransmitted: row.number("bytes_retransmitted")?,
        segments: row.number("segments")?,
        rtos: row.number("rtos")?,
        lost: row.number("lost")?,
        ce: row.number("ce")?,
        dsacks: row.number("dsacks")?,
        busy_us: row.number("busy_us")?,
        rwnd_limited_us: row.number("rwnd_limited_us")?,
        sndbuf_limited_us: row.number("sndbuf_limited_us")?,
        srtt_us: row.number("srtt_us")?,
        min_rtt_us: row.number("min_rtt_us")?,
        rtts: rtts(row)?,
    };
    match connection.ended_ms >= connection.began_ms {
        true => Ok(connection),
        false => Err(format!("line {}: it ends before it begins", row.line)),
    }
}

fn rtts(row: &Row) -> Result<Vec<(u8, u32)>, String> {
    let word = row.word("rtts")?;
    let pair = |text: &str| {
        let (bucket, count) = text.split_once(':')?;
        Some((bucket.parse::<u8>().ok().filter(|b| usize::from(*b) < BUCKETS)?, count.parse().ok()?))
    };
    let pairs: Option<Vec<(u8, u32)>> =
        if word == "-" { Some(Vec::new()) } else { word.split(',').map(pair).collect() };
    let is_rising = |pairs: &Vec<(u8, u32)>| pairs.windows(2).all(|w| w[0].0 < w[1].0);
    pairs
        .filter(is_rising)
        .ok_or_else(|| format!("line {}: `{word}` are no counts of round-trip times", row.line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Connection {
        Connection {
            slot: 3,
            arm: 1,
            began_ms: 1000,
            ended_ms: 2500,
            prefix: 0xabc,
            is_as_set: true,
            bytes_acked: 1_000_000,
            bytes_sent: 1_100_000,
            bytes_retransmitted: 100_000,
            busy_us: 1_500_000,
            rwnd_limited_us: 300_000,
            sndbuf_limited_us: 200_000,
            rtos: 2,
            min_rtt_us: 40_000,
            rtts: vec![(40, 3), (41, 7)],
            ..Connection::default()
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let open = Connection { is_open: true, rtts: Vec::new(), ..sample() };
        let text = head() + &line(&sample()) + &line(&open);
        assert_eq!(parse(&text).unwrap(), (vec![sample(), open], vec![]));
        assert!(text.contains(" 0000000000000abc ") && text.contains(" 40:3,41:7\n"), "{text}");
    }

    #[test]
    fn damaged_rows_are_said_and_the_others_are_kept() {
        let good = line(&sample());
        for wrong in [
            good.replacen("3 1 1000", "3 2 1000", 1),
            good.replacen("40:3,41:7", "41:3,40:7", 1),
            good.replacen("40:3,41:7", "80:3", 1),
            good.replacen("1000 2500", "2500 1000", 1),
            good.replacen("1000000", "99999999999999999999", 1),
            good.replacen("abc", "xyz", 1),
            "3 1\n".to_string(),
        ] {
            assert_ne!(wrong, good);
            let (rows, bad) = parse(&(head() + &good + &wrong + &good)).unwrap();
            assert_eq!((rows.len(), bad.len()), (2, 1), "{bad:?}");
        }
        assert!(parse("slot arm\n").is_err());
    }

    #[test]
    fn a_line_that_was_cut_is_left_out_wherever_the_cut_was() {
        let (head, line) = (head(), line(&sample()));
        for cut in 1..line.len() {
            let (rows, bad) = parse(&format!("{head}{line}{}", &line[..cut])).unwrap();
            assert_eq!((rows.len(), bad.len()), (1, 1), "cut after {cut}");
        }
        assert_eq!(parse(&head[..head.len() - 1]).unwrap().0.len(), 0);
    }

    /// By hand: 1 MB in 1.5 − 0.3 − 0.2 s. Of ten samples 95 % are 9.5: 6.5 of the seven in [40.960, 49.152) ms.
    #[test]
    fn goodput_is_that_of_the_time_in_which_the_network_was_the_limit() {
        assert_eq!(sample().goodput(), Some(1_000_000.0));
        assert_eq!(Connection { bytes_acked: LEAST_BYTES - 1, ..sample() }.goodput(), None);
        assert_eq!(Connection { rwnd_limited_us: u64::MAX, ..sample() }.goodput(), None);
        let p95 = sample().rtt_p95_us().unwrap();
        assert!((p95 - (40_960.0 + 8192.0 * 6.5 / 7.0)).abs() < 1e-9, "{p95}");
    }

    #[test]
    fn a_network_is_hashed_with_the_key_and_its_hosts_are_one() {
        let number = |key: u8, address: &str| Key::new(&[key; 32]).network(address.parse().unwrap());
        let first = number(1, "192.0.2.1");
        for (key, address, is_same) in [
            (1, "192.0.2.77", true),
            (1, "::ffff:192.0.2.9", true),
            (1, "192.0.3.1", false),
            (2, "192.0.2.1", false),
            (1, "2001:db8:1::1", false),
        ] {
            assert_eq!(number(key, address) == first, is_same, "{key} {address}");
        }
        assert_eq!(number(1, "2001:db8:1::1"), number(1, "2001:db8:1:ffff::2"));
        // HMAC-SHA-256 of c0 00 02 under 32 bytes of 01, by Python's hmac: its first eight bytes.
        assert_eq!(first, 0x81ca_e8dc_b6db_e57e);
    }
}
