//! Holds what a kernel controller was told against the packets that passed its host's device (`packets.txt`).
//!
//! A replay shows that a controller decides on an event as its Rust twin does, and says nothing about whether the event was
//! true. So here a second account of the connection is kept, from nothing but the packets: which segments were sent when and
//! how often, and which of them each ACK reports as received, cumulatively or selectively (RFC 2018). Everything that TCP
//! counts follows from that, except what it believes to be lost, which is in no packet. There the sum is checked: of the
//! segments sent and not received, those in flight are the ones that are not marked lost, or have been sent again since.

use crate::raw::packets::Packet;
use anyhow::{Context, Result};
use headway_cc::cc::{Ack, CaState, Control, Event, TRACE_SET};
use std::collections::BTreeMap;

/// By how many packets the reconstruction of what was in flight may be wrong (docs/explanation/kernel.md, "How exact it is").
const RECONSTRUCTED: u64 = 3;

/// One field of the events, and how it compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    /// Values that were compared.
    pub compared: u64,
    /// Of these, other than the packets say.
    pub differing: u64,
    /// Of these, how many may differ, for the reason in the table of `Tally::fields`.
    pub allowed: u64,
    /// The first that differs.
    pub first: Option<String>,
}

impl Field {
    pub fn is_true(&self) -> bool {
        self.differing <= self.allowed
    }
}

/// The fields in the order of the table.
const FIELDS: [&str; 10] = [
    "delivered",
    "delivered_ce",
    "newly_acked",
    "inflight",
    "prior_inflight",
    "rs_prior_delivered",
    "rs_delivered_ce",
    "rs_tx_in_flight",
    "rs_starts_lost_range",
    "is_app_limited",
];

/// Compares all flows of a trace with the packets beside it.
///
/// # Errors
/// The trace cannot be read.
pub fn compare(trace: &str, packets: &[Packet]) -> Result<Vec<Field>> {
    let mut by_port: BTreeMap<u16, Vec<(Ack, Control)>> = BTreeMap::new();
    for line in trace.lines().filter(|l| !l.starts_with('#') && !l.starts_with(TRACE_SET)) {
        let (port, ack, control) = event(line).context("the trace has a line that is no event")?;
        by_port.entry(port).or_default().push((ack, control));
    }
    let mut tally = Tally::default();
    // The far end of iperf3 sends with the same controller, through a device that nobody looks at.
    let is_seen = |port: &u16| packets.iter().any(|p| p.port == *port);
    for (port, events) in by_port.iter().filter(|(port, _)| is_seen(port)) {
        Account::new(*port, packets, events).compare(events, &mut tally);
    }
    Ok(tally.fields())
}

/// Port, event and answer of a line.
fn event(line: &str) -> Option<(u16, Ack, Control)> {
    let (flow, rest) = line.split_once(' ')?;
    let words: Vec<u64> = rest.split(' ').map(|w| w.parse().ok()).collect::<Option<_>>()?;
    let (event, rest) = words.split_at_checked(Ack::FIELDS.len())?;
    let control = Control::from_words(rest.get(..Control::FIELDS.len())?)?;
    Some((flow.split_once(':')?.1.parse().ok()?, Ack::from_words(event)?, control))
}

/// What was compared so far.
#[derive(Default)]
struct Tally {
    compared: BTreeMap<&'static str, (u64, u64, Option<String>)>,
    /// Segments that arrived twice, so that one was marked lost that was not.
    spurious: u64,
}

impl Tally {
    fn compare(&mut self, name: &'static str, ack: &Ack, told: u64, packets: i64) {
        self.note(name, i64::try_from(told) == Ok(packets), || {
            format!("at {} us it was told {told}, and the packets say {packets}", ack.now_us)
        });
    }

    fn note(&mut self, name: &'static str, is_equal: bool, what: impl FnOnce() -> String) {
        let (compared, differing, first) = self.compared.entry(name).or_default();
        *compared += 1;
        if !is_equal {
            *differing += 1;
            first.get_or_insert_with(what);
        }
    }

    fn fields(self) -> Vec<Field> {
        let field = |name: &'static str| {
            let (compared, differing, first) = self.compared.get(name).cloned().unwrap_or_default();
            // Packets do not say when a mark of a loss is taken back, after a packet that was only late.
            let late = if self.spurious > 0 { compared / 100 } else { 0 };
            let allowed = match name {
                "inflight" => late,
                // Before an ACK, RACK's timer may have marked packets, and no event tells of that.
                "prior_inflight" => late + compared / 200 + 1,
                "rs_tx_in_flight" => compared / 100,
                // A retransmission that is lost, too, is marked between others that are adjacent.
                "rs_starts_lost_range" => compared / 20 + 1,
                _ => 0,
            };
            Field { name, compared, differing, allowed, first }
        };
        FIELDS.into_iter().map(field).filter(|f| f.compared > 0).collect()
    }
}

/// A piece of the stream that travels as one.
#[derive(Debug)]
struct Segment {
    end: u64,
    /// As things stood when it was sent last.
    sent: Sent,
}

/// How things stood when a segment was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    /// Which of the packets it was.
    number: usize,
    delivered: i64,
    delivered_ce: i64,
    /// In flight, itself included.
    inflight: i64,
}

/// The account of one connection.
struct Account<'a> {
    sent: Vec<&'a Packet>,
    received: Vec<&'a Packet>,
    /// How many of either are in the account.
    at: [usize; 2],
    /// Sequence number of the first byte.
    start: u32,
    mss: u64,
    /// Sent and not received, by where they begin in the stream.
    out: BTreeMap<u64, Segment>,
    /// The end of what was sent.
    next: u64,
    delivered: i64,
    delivered_ce: i64,
    /// Segments sent again.
    again: i64,
    /// How many runs of adjacent segments these were.
    runs: i64,
    again_end: Option<u64>,
    /// Marked lost, as the kernel counts it.
    lost: i64,
    /// The same at the latest event, which may be one before an ACK's that tells of what this ACK reveals.
    told_lost: i64,
    ca_state: CaState,
    /// Retransmissions without a mark (tail loss probes), less marks that were taken back.
    unmarked: i64,
    spurious: u64,
}

/// What the trace counts from elsewhere than the account.
#[derive(Default)]
struct Base {
    delivered: i64,
    delivered_ce: i64,
    lost: i64,
}

impl<'a> Account<'a> {
    fn new(port: u16, packets: &'a [Packet], events: &[(Ack, Control)]) -> Self {
        let own = || packets.iter().filter(move |p| p.port == port);
        let syn = own().find(|p| p.is_sent && p.has_syn).map(|p| p.seq.wrapping_add(1));
        let first = || own().find(|p| p.is_sent && p.bytes > 0).map(|p| p.seq);
        Self {
            sent: own().filter(|p| p.is_sent && (p.bytes > 0 || p.has_fin)).collect(),
            received: own().filter(|p| !p.is_sent && !p.has_syn).collect(),
            at: [0, 0],
            start: syn.or_else(first).unwrap_or_default(),
            mss: events.iter().map(|(ack, _)| ack.unit_bytes).max().unwrap_or(1).max(1),
            out: BTreeMap::new(),
            next: 0,
            delivered: 0,
            delivered_ce: 0,
            again: 0,
            runs: 0,
            again_end: None,
            lost: 0,
            told_lost: 0,
            ca_state: CaState::Open,
            unmarked: 0,
            spurious: 0,
        }
    }

    fn compare(mut self, events: &[(Ack, Control)], tally: &mut Tally) {
        let (mut base, mut starts, mut marked) = (Base::default(), 0, None);
        let is_undone = events.iter().any(|(ack, _)| ack.event == Event::Undo);
        for (ack, control) in events {
            self.send_until(ack.now_us);
            match ack.event {
                Event::Init => base = self.base(ack),
                // All marks of losses are taken back.
                Event::Undo => self.unmarked = self.again - (signed(ack.lost) - base.lost),
                Event::Lost => starts += i64::from(ack.rs_starts_lost_range),
                // Only an application that had nothing to send was idle.
                Event::TxStart => tally.note("is_app_limited", ack.is_app_limited, || {
                    format!("at {} us an idle restart was told of and the application had data", ack.now_us)
                }),
                Event::Ack => self.compare_ack(ack, &base, tally),
                // Of the timers, only this one is an event.
                Event::Loss => self.lost = signed(ack.lost) - base.lost,
                Event::Ssthresh => {}
            }
            (self.told_lost, self.ca_state) = (signed(ack.lost) - base.lost, ack.ca_state);
            if marked.is_some_and(|end| ack.delivered <= end) {
                tally.note("is_app_limited", ack.is_app_limited, || {
                    format!("at {} us, before what ProbeRTT held back was delivered", ack.now_us)
                });
            }
            if control.mark_app_limited {
                marked = Some(ack.delivered + ack.inflight);
            }
        }
        tally.spurious += self.spurious;
        // Controllers that are not told of losses have no ranges. Where marks were taken back, because packets were only late,
        // what is marked and what is sent again are not the same ranges.
        if starts > 0 && self.spurious == 0 && !is_undone {
            let (compared, differing, _) = tally.compared.entry("rs_starts_lost_range").or_default();
            *compared += self.runs.unsigned_abs();
            *differing += self.runs.abs_diff(starts);
        }
    }

    /// Where the trace's counters stood when the connection came to the controller.
    fn base(&mut self, ack: &Ack) -> Base {
        self.receive_until(ack.now_us, i64::MAX);
        let base = Base {
            delivered: signed(ack.delivered) - self.delivered,
            delivered_ce: signed(ack.delivered_ce) - self.delivered_ce,
            lost: signed(ack.lost) - self.lost,
        };
        self.unmarked = self.again - self.lost;
        base
    }

    fn compare_ack(&mut self, ack: &Ack, base: &Base, tally: &mut Tally) {
        let prior = self.inflight();
        let before = self.delivered;
        let sample = self.receive_until(ack.now_us, signed(ack.delivered) - base.delivered);
        tally.compare("delivered", ack, ack.delivered, self.delivered + base.delivered);
        tally.compare("delivered_ce", ack, ack.delivered_ce, self.delivered_ce + base.delivered_ce);
        tally.compare("newly_acked", ack, ack.newly_acked, self.delivered - before);
        self.lost = signed(ack.lost) - base.lost;
        if ack.ca_state == CaState::Open {
            // Nothing is marked lost in this state.
            self.unmarked = self.again - self.lost;
        }
        tally.compare("inflight", ack, ack.inflight, self.inflight());
        tally.compare("prior_inflight", ack, ack.prior_inflight, prior);
        let Some(sample) = sample.filter(|_| ack.rs_delivered > 0) else { return };
        tally.compare("rs_prior_delivered", ack, ack.rs_prior_delivered, sample.delivered + base.delivered);
        tally.compare("rs_delivered_ce", ack, ack.rs_delivered_ce, self.delivered_ce - sample.delivered_ce);
        if ack.rs_tx_in_flight > 0 {
            let is_near = ack.rs_tx_in_flight.abs_diff(sample.inflight.max(0) as u64) <= RECONSTRUCTED;
            tally.note("rs_tx_in_flight", is_near, || {
                format!(
                    "at {} us it was told {}, and the packets say {}",
                    ack.now_us, ack.rs_tx_in_flight, sample.inflight
                )
            });
        }
    }

    fn inflight(&self) -> i64 {
        self.out.len() as i64 - self.to_send_again()
    }

    /// Segments that are marked lost and were not sent again yet.
    fn to_send_again(&self) -> i64 {
        self.lost - self.again + self.unmarked
    }

    /// Takes what was sent until then into the account.
    fn send_until(&mut self, now_us: u64) {
        while let Some(packet) = self.sent.get(self.at[0]).filter(|p| p.t_ns / 1000 <= now_us) {
            let (start, bytes) = (self.place(packet.seq), u64::from(packet.bytes));
            self.at[0] += 1;
            self.send(start, start + bytes, u64::from(packet.has_fin));
        }
    }

    /// One packet of the device, which may be several segments. Its end may lie one further than its data (`fin`), which makes
    /// a segment only where there are no data.
    fn send(&mut self, start: u64, data_end: u64, fin: u64) {
        let end = data_end + fin;
        // What was told since the last ACK was found by a timer.
        self.lost = self.lost.max(self.told_lost);
        // A tail loss probe (RFC 8985 §7) sends again what is not marked, and Linux does not count it as in flight. In
        // recovery there are none; what is sent there without a mark was marked by a timer of which no event tells.
        let is_probe = self.to_send_again() <= 0 && self.ca_state < CaState::Recovery;
        let mut pieces = Vec::new();
        let mut at = start;
        while at < end {
            let piece_end = match self.out.get_mut(&at) {
                Some(known) => {
                    self.unmarked += i64::from(is_probe);
                    self.again += 1;
                    known.end
                }
                None if at < self.next => {
                    // Received already, and sent again before its ACK came: nothing is out for it.
                    self.again += 1;
                    self.unmarked += 1;
                    at = self.piece_end(at, data_end, end);
                    continue;
                }
                None => {
                    let piece_end = self.piece_end(at, data_end, end);
                    self.out.insert(at, Segment { end: piece_end, sent: Sent::default() });
                    piece_end
                }
            };
            pieces.push(at);
            at = piece_end;
        }
        if start < self.next {
            self.runs += i64::from(self.again_end != Some(start));
            self.again_end = Some(end);
        }
        self.next = self.next.max(end);
        let sent = Sent {
            number: self.at[0],
            delivered: self.delivered,
            delivered_ce: self.delivered_ce,
            inflight: self.inflight(),
        };
        pieces.iter().filter_map(|at| self.out.get_mut(at).map(|s| s.sent = sent)).count();
    }

    /// Where a segment ends that begins at `at`, of a packet with data up to `data_end`.
    fn piece_end(&self, at: u64, data_end: u64, end: u64) -> u64 {
        if at + self.mss >= data_end { end } else { at + self.mss }
    }

    /// Takes ACKs that came until then into the account, as long as no more is delivered than `target`. What is left waits
    /// for a later event: the kernel puts packets aside while a program is using the socket. The answer is how things
    /// stood when the packet left that was sent last of those that are delivered now.
    fn receive_until(&mut self, now_us: u64, target: i64) -> Option<Sent> {
        let mut sample = None;
        while let Some(packet) = self.received.get(self.at[1]).filter(|p| p.t_ns / 1000 <= now_us) {
            let packet = *packet;
            let ranges = self.ranges(packet);
            let newly: Vec<u64> = self
                .out
                .iter()
                .filter(|(start, segment)| {
                    ranges.iter().any(|(from, to)| from <= *start && segment.end <= *to)
                })
                .map(|(start, _)| *start)
                .collect();
            let twice = self.arrived_twice(packet);
            let delivered = newly.len() as i64 + twice;
            if delivered > 0 && self.delivered + delivered > target {
                break;
            }
            self.at[1] += 1;
            self.delivered += delivered;
            self.delivered_ce += if packet.has_ece { delivered } else { 0 };
            self.spurious += twice.unsigned_abs();
            for start in newly {
                let Some(segment) = self.out.remove(&start) else { continue };
                sample = sample.max(Some(segment.sent));
            }
        }
        sample
    }

    /// What the packet reports as received.
    fn ranges(&self, packet: &Packet) -> Vec<(u64, u64)> {
        let selective = packet.sacks.iter().map(|(start, end)| (self.place(*start), self.place(*end)));
        std::iter::once((0, self.place(packet.ack))).chain(selective).collect()
    }

    /// Segments of which the packet says that they came a second time: its first range is below what is acknowledged, or
    /// within the second (RFC 2883 §4). TCP counts them as delivered, because each is a packet that has left the network.
    fn arrived_twice(&self, packet: &Packet) -> i64 {
        let mut ranges = packet.sacks.iter().map(|(start, end)| (self.place(*start), self.place(*end)));
        let Some((start, end)) = ranges.next() else { return 0 };
        let is_within = |(from, to): (u64, u64)| from <= start && end <= to;
        let is_twice = end <= self.place(packet.ack) || ranges.next().is_some_and(is_within);
        if is_twice { end.saturating_sub(start).div_ceil(self.mss) as i64 } else { 0 }
    }

    /// Where a sequence number is in the stream, which may be longer than these numbers are: near the end of what was sent.
    fn place(&self, seq: u32) -> u64 {
        let now = self.next as u32;
        let ahead = seq.wrapping_sub(self.start).wrapping_sub(now) as i32;
        self.next.saturating_add_signed(i64::from(ahead))
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sent(ms: u64, seq: u32, bytes: u32) -> Packet {
        Packet { t_ns: ms * MS, is_sent: true, port: 7, seq, bytes, ..Packet::default() }
    }

    fn received(ms: u64, ack: u32, sacks: &[(u32, u32)], has_ece: bool) -> Packet {
        Packet { t_ns: ms * MS, port: 7, ack, sacks: sacks.to_vec(), has_ece, ..Packet::default() }
    }

    /// Three segments leave at once, of which the second is lost: the first is acknowledged, the third selectively and with
    /// a mark, then the second is sent again.
    fn packets() -> Vec<Packet> {
        vec![
            Packet { has_syn: true, ..sent(1, 99, 0) },
            sent(10, 100, 3000),
            received(30, 1100, &[], false),
            received(31, 1100, &[(2100, 3100)], true),
            sent(32, 1100, 1000),
            received(52, 3100, &[], false),
        ]
    }

    /// What a true glue tells of it, with `change` made to the event of that number.
    fn trace(number: usize, change: &dyn Fn(&mut Ack)) -> String {
        let ack = |ms: u64| Ack {
            event: Event::Ack,
            now_us: ms * 1000,
            unit_bytes: 1000,
            delivered: 1,
            rs_delivered: 1,
            newly_acked: 1,
            rs_prior_delivered: 1,
            ..Ack::default()
        };
        let mut events = [
            Ack { event: Event::Init, newly_acked: 0, ..ack(5) },
            Ack { delivered: 2, inflight: 2, prior_inflight: 3, rs_tx_in_flight: 3, ..ack(30) },
            Ack {
                delivered: 3,
                delivered_ce: 1,
                rs_delivered_ce: 1,
                rs_delivered: 2,
                lost: 1,
                prior_inflight: 2,
                ca_state: CaState::Recovery,
                ..ack(31)
            },
            Ack {
                delivered: 4,
                delivered_ce: 1,
                lost: 1,
                prior_inflight: 1,
                rs_prior_delivered: 3,
                rs_tx_in_flight: 1,
                ..ack(52)
            },
        ];
        change(&mut events[number]);
        let line = |ack: &Ack| {
            let words = ack.words().into_iter().chain(Control::default().words());
            words.fold("1:7".to_string(), |line, word| format!("{line} {word}"))
        };
        events.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn wrong(number: usize, change: &dyn Fn(&mut Ack)) -> Vec<&'static str> {
        let fields = compare(&trace(number, change), &packets()).unwrap();
        fields.iter().filter(|f| f.differing > 0).map(|f| f.name).collect()
    }

    #[test]
    fn a_true_account_has_no_differences() {
        let fields = compare(&trace(0, &|_| {}), &packets()).unwrap();
        assert!(fields.iter().all(|f| f.differing == 0), "{fields:#?}");
        let compared: Vec<_> = fields.iter().map(|f| (f.name, f.compared)).collect();
        assert!(compared.contains(&("delivered", 3)) && compared.contains(&("rs_delivered_ce", 3)));
        // A flow of another device is not judged.
        assert_eq!(compare(&trace(0, &|_| {}).replace("1:7", "1:8"), &packets()).unwrap(), []);
    }

    #[test]
    fn one_wrong_value_is_found_and_named() {
        assert_eq!(wrong(2, &|a| a.rs_delivered_ce = 0), ["rs_delivered_ce"]);
        assert_eq!(wrong(2, &|a| a.delivered_ce = 0), ["delivered_ce"]);
        assert_eq!(wrong(1, &|a| a.inflight = 1), ["inflight"]);
        assert_eq!(wrong(3, &|a| a.inflight = 1), ["inflight"]);
        assert_eq!(wrong(1, &|a| a.newly_acked = 2), ["newly_acked"]);
        assert_eq!(wrong(3, &|a| a.rs_prior_delivered = 1), ["rs_prior_delivered"]);
        assert_eq!(wrong(1, &|a| a.rs_tx_in_flight = 7), ["rs_tx_in_flight"]);
        assert_eq!(wrong(0, &|a| a.event = Event::TxStart)[..1], ["delivered"], "no beginning, no base");
        assert!(compare("1:7 1 2 3", &packets()).is_err());
    }
}
