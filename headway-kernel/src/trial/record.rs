//! What becomes of a connection of a trial: `struct record` of `bpf/trial.bpf.c`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use headway_cc::cc::NO_RTT;
use headway_cc::histogram::BUCKETS;
use rustix::time::{ClockId, clock_getres};

use crate::error::{Context, Result, ensure};
use crate::object::to_words;

/// Words of `struct record` before the buckets, and all of them.
const HEAD: usize = 28;
const WORDS: usize = HEAD + BUCKETS / 4;

/// How a connection of a trial went, or goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The kernel's number for the socket, by which `ss -e` knows it: a connection that was open at one look and has ended at
    /// the next has the same.
    pub cookie: u64,
    /// The slot in which its handshake was done.
    pub slot: u32,
    /// Which of the two congestion controls it got, 0 or 1.
    pub arm: u8,
    /// When its handshake was done; `CLOCK_MONOTONIC`.
    pub began_ns: u64,
    /// When it ended; 0: it was open when it was looked at.
    pub ended_ns: u64,
    /// Its own port.
    pub local_port: u16,
    /// The peer's address; an address of IPv4 that a socket of IPv6 wears is shown as what it is.
    pub remote: IpAddr,
    /// The peer's port.
    pub remote_port: u16,
    /// It came in at a listener.
    pub is_inbound: bool,
    /// It has the congestion control of its arm, or had it at its end. Otherwise its program, or another program of BPF, has
    /// chosen another one meanwhile.
    pub as_set: bool,
    /// How it ended.
    pub end: End,
    /// The socket's error at its end, as `errno` numbers it; 0: none. [`Record::end`] says what is made of it.
    pub error: u32,
    /// Acknowledged by the peer.
    pub bytes_acked: u64,
    /// Sent, for the first time or again.
    pub bytes_sent: u64,
    /// Of these, sent again.
    pub bytes_retransmitted: u64,
    /// How often its retransmission timer fired.
    pub rtos: u32,
    /// Segments that the sender took for lost.
    pub lost: u64,
    /// Segments of whose ECN mark the peer has told.
    pub ce: u64,
    /// Segments that the peer said it had twice.
    pub dsacks: u64,
    /// Segments with data that were sent, first times and again.
    pub segments: u64,
    /// How long there was data that the peer had not acknowledged. As the kernel counts it, this and the next two grow by
    /// whole ticks of its clock, 1 to 10 ms.
    pub busy_us: u64,
    /// Of this, how long the peer's window held it up.
    pub rwnd_limited_us: u64,
    /// Of this, how long its own send buffer held it up.
    pub sndbuf_limited_us: u64,
    /// Its smoothed round trip, microseconds; 0: none was measured.
    pub srtt_us: u64,
    /// The least round trip of its life, microseconds; 0: none was measured.
    pub min_rtt_us: u64,
    /// Its round trips, one sample each, counted in the buckets of [`headway_cc::histogram`]. A sample is taken by the ACK that
    /// is the first to acknowledge data sent after the sample before. From Linux 6.10 on it is the kernel's own measurement,
    /// the time since the *first* packet was sent of those that this ACK acknowledges; before, the kernel does not hand it
    /// over, and it is the time since the *last* one was. The round trip of the handshake is not in it. Above 65,535 in one
    /// bucket these are multiples of 2, and so on: one sample in two is counted twice.
    pub rtt_counts: [u32; BUCKETS],
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has not.
    Open,
    /// Both sides have closed it.
    Closed,
    /// The peer has reset it.
    ResetByPeer,
    /// This side has given it up: its program closed it with data unread, or asked for a reset.
    Aborted,
    /// The peer did not answer any more.
    TimedOut,
    /// With another error, as a network that cannot be reached.
    Failed,
}

/// The state of a socket whose connection has ended (`TCP_CLOSE`).
const CLOSE: u64 = 7;

impl End {
    /// Both sides must have closed it when these were its last states: FIN-WAIT-2, TIME-WAIT, LAST-ACK, CLOSING.
    const ORDERLY: [u64; 4] = [5, 6, 9, 11];

    fn of(is_open: bool, state: u64, error: u32) -> End {
        const EPIPE: u32 = 32;
        const ECONNRESET: u32 = 104;
        const ETIMEDOUT: u32 = 110;
        const ECONNREFUSED: u32 = 111;
        match error {
            _ if is_open => End::Open,
            0 if End::ORDERLY.contains(&state) => End::Closed,
            0 => End::Aborted,
            // By the state of this side the kernel makes three errors of the peer's reset.
            ECONNRESET | EPIPE | ECONNREFUSED => End::ResetByPeer,
            ETIMEDOUT => End::TimedOut,
            _ => End::Failed,
        }
    }
}

impl Record {
    /// Whether it was open when it was looked at, so that its figures are those so far.
    pub fn is_open(&self) -> bool {
        self.ended_ns == 0
    }

    /// Reads `struct record`. `None` for a socket that went while it was looked at, or that is closed but not yet freed: who looks
    /// for open ones finds these too, and Linux 7.2 may keep one for longer than 20 s.
    pub(super) fn read(bytes: &[u8], tick: Tick) -> Result<Option<Record>> {
        let words = to_words(bytes);
        ensure!(words.len() == WORDS, "a record of a trial has {} words, not {WORDS}", words.len());
        let (head, counts) = words.split_at(HEAD);
        let head: &[u64; HEAD] = head.try_into().expect("split there");
        Ok(Record::of(head, counts, tick))
    }

    #[rustfmt::skip]
    fn of(head: &[u64; HEAD], counts: &[u64], tick: Tick) -> Option<Record> {
        let &[cookie, began_ns, ended_ns, slot, arm, is_inbound, as_set, state, error, family, local_port, remote_port,
            remote0, remote1, bytes_acked, bytes_sent, bytes_retransmitted, rtos, lost, ce, dsacks, segments, busy,
            rwnd_limited, sndbuf_limited, srtt, min_rtt_us, halvings] = head;
        let remote = address(family, [remote0, remote1])?;
        let error = error as u32;
        let is_open = ended_ns == 0;
        let is_gone = began_ns == 0 || is_open && state == CLOSE;
        (!is_gone).then(|| Record {
            cookie, slot: slot as u32, arm: arm as u8, began_ns, ended_ns, local_port: local_port as u16, remote,
            remote_port: remote_port as u16, is_inbound: is_inbound == 1, as_set: as_set == 1,
            end: End::of(is_open, state, error), error, bytes_acked, bytes_sent, bytes_retransmitted,
            rtos: rtos as u32, lost, ce, dsacks, segments, busy_us: tick.us(busy),
            rwnd_limited_us: tick.us(rwnd_limited), sndbuf_limited_us: tick.us(sndbuf_limited), srtt_us: srtt >> 3,
            min_rtt_us: if min_rtt_us == NO_RTT { 0 } else { min_rtt_us }, rtt_counts: spread(counts, halvings),
        })
    }
}

/// Counts of 16 bits, four to a word, as what they stand for.
fn spread(words: &[u64], halvings: u64) -> [u32; BUCKETS] {
    let mut counts = [0; BUCKETS];
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    for (count, pair) in counts.iter_mut().zip(bytes.chunks_exact(2)) {
        let times = 1_u64 << (halvings & 31);
        let samples = u64::from(u16::from_ne_bytes([pair[0], pair[1]])) * times;
        *count = samples.try_into().unwrap_or(u32::MAX);
    }
    counts
}

fn address(family: u64, words: [u64; 2]) -> Option<IpAddr> {
    match family {
        2 => Some(Ipv4Addr::from((words[0] as u32).to_ne_bytes()).into()),
        10 => {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&words[0].to_ne_bytes());
            bytes[8..].copy_from_slice(&words[1].to_ne_bytes());
            Some(IpAddr::from(Ipv6Addr::from(bytes)).to_canonical())
        }
        _ => None,
    }
}

/// A tick of the kernel's clock, in which it counts busy time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tick {
    ns: u64,
}

impl Tick {
    /// The coarse clock moves once a tick, and says how far.
    pub(super) fn of_kernel() -> Result<Tick> {
        let tick = clock_getres(ClockId::MonotonicCoarse);
        let ns = u64::try_from(tick.tv_nsec).ok().filter(|ns| (100_000..=10_000_000).contains(ns));
        Ok(Tick { ns: ns.context("the kernel's clock has no tick")? })
    }

    fn us(self, ticks: u64) -> u64 {
        (ticks * self.ns + 500) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Tick = Tick { ns: 4_000_000 };

    fn words() -> [u64; WORDS] {
        let mut words = [0; WORDS];
        for (i, word) in words.iter_mut().enumerate().take(HEAD) {
            *word = 100 + i as u64;
        }
        (words[2], words[4], words[5], words[6], words[7], words[8]) = (2000, 1, 0, 1, 9, 0);
        (words[9], words[12], words[26], words[27]) =
            (2, u64::from(u32::from_ne_bytes([192, 0, 2, 7])), NO_RTT, 3);
        words[HEAD + 1] = u64::from_ne_bytes([1, 0, 2, 0, 0, 1, 0, 0]);
        words
    }

    fn record(words: &[u64; WORDS]) -> Option<Record> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        Record::read(&bytes, TICK).unwrap()
    }

    #[test]
    fn words_become_a_record() {
        let mut words = words();
        let there = record(&words).unwrap();
        assert_eq!(
            (there.cookie, there.began_ns, there.ended_ns, there.slot, there.arm),
            (100, 101, 2000, 103, 1)
        );
        assert_eq!(
            (there.remote.to_string(), there.local_port, there.remote_port),
            ("192.0.2.7".into(), 110, 111)
        );
        assert_eq!((there.bytes_acked, there.bytes_sent, there.bytes_retransmitted), (114, 115, 116));
        assert_eq!(
            (there.rtos, there.lost, there.ce, there.dsacks, there.segments),
            (117, 118, 119, 120, 121)
        );
        assert_eq!(
            (there.busy_us, there.rwnd_limited_us, there.sndbuf_limited_us),
            (488_000, 492_000, 496_000)
        );
        assert_eq!((there.srtt_us, there.min_rtt_us, there.as_set, there.is_inbound), (15, 0, true, false));
        // Three halvings: each count stands for eight samples.
        assert_eq!(there.rtt_counts[4..8], [8, 16, 2048, 0]);
        assert_eq!(there.rtt_counts.iter().sum::<u32>(), 8 + 16 + 2048);
        (words[9], words[12], words[13]) = (10, 0, u64::from_ne_bytes([0, 0, 0xff, 0xff, 192, 0, 2, 7]));
        assert_eq!(record(&words).unwrap().remote, there.remote);
        // An open connection, and one that has ended unnoticed.
        (words[2], words[7]) = (0, 1);
        assert_eq!(record(&words).unwrap().end, End::Open);
        words[7] = CLOSE;
        assert_eq!(record(&words), None);
        (words[1], words[7]) = (0, 1);
        assert_eq!(record(&words), None);
        assert!(Record::read(&[0; 8], TICK).is_err());
    }

    /// errno: 104 is ECONNRESET, 110 ETIMEDOUT, 113 EHOSTUNREACH. States: 1 is ESTABLISHED, 4 FIN-WAIT-1, 8 CLOSE-WAIT.
    #[test]
    fn an_end_is_told_by_state_and_error() {
        let ends = [(5, 0), (9, 0), (1, 0), (4, 0), (1, 104), (8, 32), (1, 110), (1, 113)];
        let ends = ends.map(|(state, error)| End::of(false, state, error));
        let expected = [
            End::Closed,
            End::Closed,
            End::Aborted,
            End::Aborted,
            End::ResetByPeer,
            End::ResetByPeer,
            End::TimedOut,
            End::Failed,
        ];
        assert_eq!(ends, expected);
        assert_eq!(End::of(true, 1, 0), End::Open);
    }
}
