//! One path of a QUIC connection: a stack's calls in, a controller's events out.
//!
//! An ACK frame reaches a stack's controller in pieces: each packet, the end of the packets, then what it shows as
//! lost, then its CE marks. They are gathered in a [`Batch`] and become one `Event::Ack` when the stack goes on to
//! something else ([`Flow::settle`]); so the event has the losses and the marks of its own frame, as the draft's
//! per-ACK steps want.
//!
//! Made here, because no stack hands it over: `P.…` of each packet, the RTT (with the peer's delay), random bits, and
//! the recovery period of RFC 9002 §7.3.2: from the loss of a packet sent after the last one began to the
//! acknowledgement of one sent in it, or up to a round later for a controller that wants it so
//! ([`Controller::recovers_until_repaired`]).

use super::Factory;
use crate::cc::{Ack, CaState, Control, Controller, Event, NO_RTT};
use crate::rand;
use crate::sampler::{Sampler, Sent};
use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Instant;

/// Initial window (RFC 9002 §7.2): ten packets, but no more than this many bytes or two packets.
const INITIAL_BYTES: u64 = 14_720;
const INITIAL_PACKETS: u64 = 10;
/// The clock starts here, so that no time is 0, which controllers take as "never".
const START_NS: u64 = 1_000_000_000;
/// What the stack has neither acknowledged nor declared lost by so many RTTs (and so long) after a later packet was
/// acknowledged, it has forgotten: packets of discarded keys, lost MTU probes.
const FORGOTTEN_RTTS: u64 = 3;
const FORGOTTEN_US: u64 = 100_000;

/// Ack-eliciting data sent at once: a packet, or a buffer of them where the stack does not tell them apart.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// When the stack says, by which it names it again, and how much later it really left.
    sent_ns: u64,
    held_ns: u64,
    /// Packet number, of the last packet in a buffer. Three packet-number spaces are mixed while the handshake lasts.
    pn: u64,
    /// Counts records from 0, in the order of sending.
    seq: u64,
    /// Bytes neither acknowledged nor lost, and bytes lost.
    open: u32,
    lost: u32,
    sent: Sent,
}

/// The ACK frame being processed.
#[derive(Clone, Copy, Debug)]
struct Batch {
    now_ns: u64,
    /// All its packets have been told; losses and marks may follow.
    is_whole: bool,
    packets: u64,
    bytes: u64,
    /// RTT of the latest sent packet, if it is later than all acknowledged before.
    rtt_us: u64,
}

/// The bytes of one packet are at most this many.
fn size(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[derive(Debug)]
pub(super) struct Flow {
    factory: Factory,
    cc: Box<dyn Controller>,
    control: Control,
    id: u64,
    epoch: Instant,
    now_ns: u64,
    events: u64,
    sampler: Sampler,
    records: VecDeque<Record>,
    next_seq: u64,
    batch: Option<Batch>,
    cwnd: u64,
    initial_window: u64,
    smss: u64,
    srtt_us: u64,
    min_rtt_us: u64,
    /// One more than the latest sent record of which anything was acknowledged.
    acked_seq: u64,
    /// One more than the record that was acknowledged last: most often the next one to be.
    found_seq: u64,
    /// The last record of which anything was lost.
    lost_seq: Option<u64>,
    ca_state: CaState,
    /// First record sent after the recovery period began.
    recovery_seq: u64,
    /// The first record whose acknowledgement ends the period: the same, or the first sent after its last loss was
    /// known.
    repair_seq: u64,
    /// Bytes lost since the stack last asked for a reaction.
    fresh_lost: u64,
    /// Lost bytes of the last recovery period that were not acknowledged since.
    episode_lost: u64,
    /// The last reduction can be undone until a record with this number is acknowledged; `None`: it cannot.
    undo_until: Option<u64>,
    is_cwnd_limited: bool,
    limited_until: u64,
    /// The peer may wait for so many ack-eliciting packets before it acknowledges.
    ack_threshold: u64,
}

impl Flow {
    pub(super) fn new(factory: &Factory, now: Instant, mtu: u16) -> Self {
        let smss = u64::from(mtu).max(1);
        let window = (INITIAL_PACKETS * smss).min(INITIAL_BYTES.max(2 * smss));
        let mut flow = Self {
            factory: factory.clone(),
            cc: (factory.new)(),
            control: Control::default(),
            id: factory.next_flow(),
            epoch: now,
            now_ns: START_NS,
            events: 0,
            sampler: Sampler::default(),
            records: VecDeque::new(),
            next_seq: 0,
            batch: None,
            cwnd: window,
            initial_window: window,
            smss,
            srtt_us: 0,
            min_rtt_us: NO_RTT,
            acked_seq: 0,
            found_seq: 0,
            lost_seq: None,
            ca_state: CaState::Open,
            recovery_seq: 0,
            repair_seq: 0,
            fresh_lost: 0,
            episode_lost: 0,
            undo_until: None,
            is_cwnd_limited: false,
            limited_until: 0,
            ack_threshold: 1,
        };
        flow.dispatch(Event::Init);
        flow.initial_window = flow.cwnd;
        flow
    }

    /// The same path at another address of the peer: the model stays, what was in flight stays with the old address.
    pub(super) fn migrated(&self) -> Self {
        let mut sampler = self.sampler.clone();
        while sampler.inflight() > 0 {
            sampler.on_replaced(size(sampler.inflight()));
        }
        Self {
            factory: self.factory.clone(),
            cc: self.cc.clone_box(),
            sampler,
            records: VecDeque::new(),
            batch: None,
            ca_state: CaState::Open,
            undo_until: None,
            ..*self
        }
    }

    pub(super) fn initial_window(&self) -> u64 {
        self.initial_window
    }

    /// The window in force, at least one packet.
    pub(super) fn window(&mut self) -> u64 {
        self.settle();
        self.cwnd
    }

    /// What is in force; a quantum of `u64::MAX` leaves the spacing to the stack.
    pub(super) fn control(&mut self) -> Control {
        self.settle();
        self.control
    }

    #[cfg(feature = "quinn")]
    pub(super) fn smss(&self) -> u64 {
        self.smss
    }

    #[cfg(feature = "quinn")]
    pub(super) fn inflight(&self) -> u64 {
        self.sampler.inflight()
    }

    /// 0 before the first sample.
    #[cfg(feature = "quinn")]
    pub(super) fn srtt_us(&self) -> u64 {
        self.srtt_us
    }

    /// Ack-eliciting data leaves; the number of its record.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64, pn: u64) -> u64 {
        self.settle();
        self.advance(now);
        if self.sampler.inflight() == 0 {
            self.dispatch(Event::TxStart);
        }
        let sent = self.sampler.on_sent(self.now_ns / 1000, size(bytes));
        let record = Record {
            sent_ns: self.now_ns,
            held_ns: 0,
            pn,
            seq: self.next_seq,
            open: size(bytes),
            lost: 0,
            sent,
        };
        self.records.push_back(record);
        self.next_seq += 1;
        record.seq
    }

    /// A record was held by a paced socket and has left only at `at`, which is its `P.sent_time`.
    #[cfg(any(feature = "quinn", test))]
    pub(super) fn on_released(&mut self, seq: u64, at: Instant) {
        let at_ns = self.ns(at);
        let Some(at) = self.index(seq) else { return };
        let r = &mut self.records[at];
        self.now_ns = self.now_ns.max(at_ns);
        r.held_ns = at_ns.saturating_sub(r.sent_ns);
        let held_us = r.held_ns / 1000;
        let span = u32::try_from(held_us).unwrap_or(u32::MAX);
        r.sent.sent_us += held_us;
        r.sent.send_elapsed_us = r.sent.send_elapsed_us.saturating_add(span);
        r.sent.delivered_age_us = r.sent.delivered_age_us.saturating_add(span);
    }

    /// The window, not the application, keeps the sender from sending more.
    pub(super) fn on_cwnd_limited(&mut self) {
        self.is_cwnd_limited = true;
        self.limited_until = self.next_seq;
    }

    /// A packet is acknowledged; `pn` where the stack tells it. What was sent before this controller is ignored.
    pub(super) fn on_acked(&mut self, now: Instant, sent: Instant, bytes: u64, pn: Option<u64>) {
        if self.batch.is_some_and(|b| b.is_whole || b.now_ns != self.ns(now)) {
            self.settle();
        }
        self.advance(now);
        let Some(at) = self.find(self.ns(sent), pn) else { return };
        let now_ns = self.now_ns;
        if self.batch.is_none() {
            self.sampler.begin();
        }
        let no_news = Batch { now_ns, is_whole: false, packets: 0, bytes: 0, rtt_us: NO_RTT };
        let batch = self.batch.get_or_insert(no_news);
        let r = &mut self.records[at];
        let was_in_flight = r.open > 0;
        let acked = size(bytes).min(if was_in_flight { r.open } else { r.lost });
        if was_in_flight {
            r.open -= acked;
        } else {
            r.lost -= acked;
            self.episode_lost = self.episode_lost.saturating_sub(u64::from(acked));
        }
        batch.packets += 1;
        batch.bytes += u64::from(acked);
        self.found_seq = r.seq + 1;
        if r.seq >= self.acked_seq {
            self.acked_seq = r.seq + 1;
            batch.rtt_us = now_ns.saturating_sub(r.sent_ns + r.held_ns) / 1000;
        }
        let sent = Sent { bytes: acked, ..r.sent };
        self.sampler.on_delivered(now_ns / 1000, &sent, was_in_flight);
    }

    /// All packets of an ACK frame have been told. `inflight` is the stack's own count, `is_app_limited` whether it
    /// had nothing left to send.
    pub(super) fn on_end_acks(&mut self, now: Instant, inflight: u64, is_app_limited: bool) {
        self.advance(now);
        self.reconcile(inflight);
        if is_app_limited && self.sampler.inflight() + self.smss <= self.cwnd {
            self.sampler.mark_app_limited();
        }
        let Some(batch) = &mut self.batch else { return };
        batch.is_whole = true;
        if batch.rtt_us != NO_RTT {
            let rtt_us = batch.rtt_us;
            self.srtt_us = if self.srtt_us == 0 { rtt_us.max(1) } else { (7 * self.srtt_us + rtt_us) / 8 };
            self.min_rtt_us = self.min_rtt_us.min(rtt_us);
        }
        if self.ca_state != CaState::Open && self.acked_seq > self.repair_seq {
            self.ca_state = CaState::Open;
            self.undo_until = self.undo_until.map(|_| self.next_seq);
        } else if self.ca_state == CaState::Open
            && self.undo_until.is_some_and(|until| self.acked_seq > until)
        {
            self.undo_until = None;
        }
        self.forget();
    }

    /// A packet is declared lost.
    #[cfg(any(feature = "noq", test))]
    pub(super) fn on_packet_lost(&mut self, now: Instant, bytes: u64, pn: u64) {
        self.advance(now);
        if let Some(at) = self.find_pn(pn) {
            self.lose(at, size(bytes));
        }
    }

    /// So many bytes are declared lost, the last of them sent at `last_sent`: of each earlier record all that was not
    /// acknowledged, since a stack judges packets by their number.
    #[cfg(any(feature = "quinn", test))]
    pub(super) fn on_bytes_lost(&mut self, now: Instant, bytes: u64, last_sent: Instant) {
        self.advance(now);
        let last_ns = self.ns(last_sent);
        let mut left = size(bytes);
        for at in 0..self.records.len() {
            if left == 0 || self.records[at].sent_ns > last_ns {
                break;
            }
            left -= self.lose(at, left);
        }
    }

    /// The stack asks for a reaction to losses, or to CE marks. `last_sent` is when the latest of the packets that
    /// were lost or that carried the news was sent: one sent before the current recovery period began asks for nothing
    /// new.
    pub(super) fn on_congestion(
        &mut self,
        now: Instant,
        last_sent: Instant,
        is_ecn: bool,
        is_persistent: bool,
    ) {
        self.advance(now);
        if is_ecn {
            // The stack knows how many marks there were and does not say: all that this ACK delivered may be marked.
            self.sampler.on_ce(self.batch.map_or(self.smss, |b| b.bytes));
        }
        let last_ns = self.ns(last_sent);
        let last = self.records.partition_point(|r| r.sent_ns <= last_ns);
        let last_seq = last.checked_sub(1).map(|at| self.records[at].seq);
        let is_of_period = last_seq.is_some_and(|seq| seq < self.recovery_seq);
        let is_new = self.ca_state == CaState::Open && !is_of_period;
        if is_of_period && !is_ecn && self.cc.recovers_until_repaired() {
            self.repair_seq = self.next_seq;
        }
        if is_new {
            self.dispatch(Event::Ssthresh);
            (self.recovery_seq, self.repair_seq) = (self.next_seq, self.next_seq);
            self.undo_until = (!is_ecn).then_some(u64::MAX);
            self.episode_lost = 0;
        }
        self.episode_lost += std::mem::take(&mut self.fresh_lost);
        if is_persistent {
            self.ca_state = CaState::Loss;
            (self.recovery_seq, self.repair_seq) = (self.next_seq, self.next_seq);
            self.cwnd = self.sampler.inflight() + self.smss;
            self.dispatch(Event::Loss);
        } else if is_new || self.ca_state == CaState::Cwr {
            self.ca_state = if is_ecn { CaState::Cwr } else { CaState::Recovery };
        }
    }

    /// All that was declared lost lately has arrived after all.
    pub(super) fn on_spurious_loss(&mut self) {
        self.settle();
        if self.undo_until.take().is_some() {
            self.ca_state = CaState::Open;
            self.dispatch(Event::Undo);
        }
    }

    pub(super) fn on_mtu(&mut self, mtu: u16) {
        self.settle();
        self.smss = u64::from(mtu).max(1);
        self.cwnd = self.cwnd.max(self.smss);
    }

    #[cfg(any(feature = "noq", test))]
    pub(super) fn on_ack_threshold(&mut self, packets: u64) {
        self.ack_threshold = packets.max(1);
    }

    /// Ends the processing of an ACK frame, if there is one: the controller decides.
    pub(super) fn settle(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        let mut ack = self.event(Event::Ack);
        ack.rs_rtt_us = batch.rtt_us;
        ack.rs_is_ack_delayed = batch.packets <= self.ack_threshold;
        self.sampler.fill(&mut ack, self.min_rtt_us);
        self.tell(&ack);
        if self.acked_seq >= self.limited_until {
            self.is_cwnd_limited = false;
        }
        if self.undo_until.is_some() && self.episode_lost == 0 {
            self.on_spurious_loss();
        }
        while self.records.front().is_some_and(|r| r.open == 0 && r.lost == 0) {
            self.records.pop_front();
        }
    }

    /// Nanoseconds on the flow's clock; a time before its start is its start.
    fn ns(&self, at: Instant) -> u64 {
        let ns = at.saturating_duration_since(self.epoch).as_nanos();
        START_NS.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX >> 1))
    }

    /// Time does not go back, whatever the stack says.
    fn advance(&mut self, now: Instant) {
        self.now_ns = self.now_ns.max(self.ns(now));
    }

    /// Where the record with this number is: from the first to the last kept, the numbers have no gaps.
    fn index(&self, seq: u64) -> Option<usize> {
        let at = seq.checked_sub(self.records.front()?.seq)?;
        usize::try_from(at).ok().filter(|at| *at < self.records.len())
    }

    /// The record of a packet sent at `sent_ns`: the one with the number `pn`, or of several sent at that time the
    /// first of which something is open.
    fn find(&self, sent_ns: u64, pn: Option<u64>) -> Option<usize> {
        let is_it = |at: &usize| {
            let r = &self.records[*at];
            r.sent_ns == sent_ns && r.open + r.lost > 0 && pn.is_none_or(|pn| r.pn == pn)
        };
        // A frame names its packets in order, and one packet-number space is in order: only a handshake is searched.
        let near = pn.map(|pn| {
            let next = self.index(self.found_seq).filter(|at| self.records[*at].pn == pn);
            next.unwrap_or_else(|| self.records.partition_point(|r| r.pn < pn))
        });
        if let Some(near) = near.filter(|at| *at < self.records.len()).filter(is_it) {
            return Some(near);
        }
        let first = self.records.partition_point(|r| r.sent_ns < sent_ns);
        let end = self.records.partition_point(|r| r.sent_ns <= sent_ns);
        let open = (first..end).find(|at| is_it(at) && self.records[*at].open > 0);
        open.or_else(|| (first..end).find(is_it))
    }

    /// The record of a packet in flight by its number alone.
    #[cfg(any(feature = "noq", test))]
    fn find_pn(&self, pn: u64) -> Option<usize> {
        let is_it = |r: &Record| r.pn == pn && r.open > 0;
        let near = self.records.partition_point(|r| r.pn < pn);
        if self.records.get(near).is_some_and(is_it) {
            return Some(near);
        }
        self.records.iter().position(is_it)
    }

    /// Up to `bytes` of a record are lost; how many.
    fn lose(&mut self, at: usize, bytes: u32) -> u32 {
        let r = &mut self.records[at];
        let lost = bytes.min(r.open);
        if lost == 0 {
            return 0;
        }
        r.open -= lost;
        r.lost += lost;
        let (seq, sent) = (r.seq, Sent { bytes: lost, ..r.sent });
        self.sampler.on_lost(lost);
        self.fresh_lost += u64::from(lost);
        let starts_range = self.lost_seq.is_none_or(|last| seq != last && seq != last + 1);
        self.lost_seq = Some(seq);
        let mut ack = self.event(Event::Lost);
        ack.rs_starts_lost_range = starts_range;
        self.sampler.fill_lost(&mut ack, &sent);
        self.tell(&ack);
        lost
    }

    /// The stack's count of what is in flight is the one that its checks use: ours follows it. They differ by what a
    /// stack does not tell: padded ACKs, packets whose keys were discarded, ACKs while a new address is validated.
    fn reconcile(&mut self, inflight: u64) {
        let ours = self.sampler.inflight();
        if ours > inflight {
            self.sampler.on_replaced(size(ours - inflight));
        } else {
            self.sampler.on_undone(inflight - ours);
        }
    }

    /// Lets go of records that the stack has forgotten, and of lost ones that did not arrive after all.
    fn forget(&mut self) {
        let age_us = (FORGOTTEN_RTTS * self.srtt_us).saturating_add(FORGOTTEN_US);
        let before_ns = self.now_ns.saturating_sub(age_us.saturating_mul(1000));
        let acked_seq = self.acked_seq;
        while self.records.front().is_some_and(|r| r.sent_ns < before_ns && r.seq + 1 < acked_seq) {
            self.records.pop_front();
        }
    }

    /// Tells the controller of something else than an ACK or a lost packet.
    fn dispatch(&mut self, event: Event) {
        let mut ack = self.event(event);
        self.sampler.fill_counters(&mut ack);
        self.tell(&ack);
    }

    /// The part of an event that is the same for all.
    fn event(&mut self, event: Event) -> Ack {
        self.events += 1;
        let seed = rand::hash(self.factory.seed, self.id);
        Ack {
            event,
            now_us: self.now_ns / 1000,
            unit_bytes: 1,
            smss: self.smss,
            cwnd: self.cwnd,
            cwnd_clamp: u64::MAX,
            pacing_rate: self.control.pacing_rate,
            max_pacing_rate: self.factory.max_pacing_rate,
            srtt_us: self.srtt_us,
            min_rtt_us: self.min_rtt_us,
            rs_rtt_us: NO_RTT,
            is_cwnd_limited: self.is_cwnd_limited,
            has_selective_acks: true,
            ca_state: self.ca_state,
            rand: rand::hash(seed, self.events.wrapping_add(self.now_ns)) >> 32,
            ..Ack::default()
        }
    }

    fn tell(&mut self, ack: &Ack) {
        let control = self.cc.on_event(ack);
        if let Some(sink) = &self.factory.trace {
            let mut line = self.id.to_string();
            for word in ack.words().into_iter().chain(control.words()).chain(self.cc.state()) {
                let _ = write!(line, " {word}");
            }
            sink(&line);
        }
        self.cwnd = control.cwnd.max(self.smss);
        if control.mark_app_limited {
            self.sampler.mark_app_limited();
        }
        self.control = control;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::CONTROLLERS;
    use crate::rand::Rng;
    use std::sync::{Arc, LazyLock, Mutex};
    use std::time::Duration;

    static ORIGIN: LazyLock<Instant> = LazyLock::new(|| {
        #[allow(clippy::disallowed_methods)]
        Instant::now()
    });

    fn at(us: u64) -> Instant {
        *ORIGIN + Duration::from_micros(us)
    }

    /// A flow of this controller whose events are written down.
    fn traced(name: &str) -> (Flow, impl Fn() -> Vec<Ack>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let factory = Factory::named(name).unwrap();
        let factory = factory.trace(move |line| sink.lock().unwrap().push(line.to_string()));
        let events = move || {
            let parse = |line: &String| {
                let words: Vec<u64> = line.split(' ').skip(1).map(|w| w.parse().unwrap()).collect();
                Ack::from_words(&words[..Ack::FIELDS.len()]).unwrap()
            };
            lines.lock().unwrap().iter().skip(1).map(parse).collect()
        };
        (Flow::new(&factory, at(0), 1200), events)
    }

    #[test]
    fn an_ack_is_one_event_with_the_losses_and_marks_of_its_frame() {
        let (mut f, events) = traced("bbr3");
        (0..6).for_each(|pn| _ = f.on_sent(at(10), 1200, pn));
        f.on_acked(at(40_010), at(10), 1200, Some(5));
        f.on_acked(at(40_010), at(10), 1200, Some(4));
        f.on_end_acks(at(40_010), 4800, false);
        (0..2).for_each(|pn| f.on_packet_lost(at(40_010), 1200, pn));
        f.on_congestion(at(40_010), at(10), false, false);
        f.on_congestion(at(40_010), at(10), true, false);
        assert_eq!(events().iter().filter(|a| a.event == Event::Ack).count(), 0);
        f.settle();
        let events = events();
        let kinds: Vec<Event> = events.iter().map(|a| a.event).collect();
        assert_eq!(
            kinds,
            [Event::Init, Event::TxStart, Event::Lost, Event::Lost, Event::Ssthresh, Event::Ack]
        );
        assert_eq!((events[2].rs_starts_lost_range, events[3].rs_starts_lost_range), (true, false));
        assert_eq!((events[3].rs_tx_in_flight, events[3].rs_lost), (2400, 2400));
        let ack = events[5];
        assert_eq!((ack.newly_acked, ack.newly_lost, ack.delivered_ce), (2400, 2400, 2400));
        assert_eq!((ack.prior_inflight, ack.inflight, ack.rs_rtt_us), (7200, 2400, 40_000));
        assert_eq!((ack.ca_state, ack.rs_tx_in_flight), (CaState::Recovery, 7200));
    }

    #[test]
    fn what_is_acknowledged_twice_counts_once() {
        let (mut f, events) = traced("bbr3");
        f.on_sent(at(0), 1200, 0);
        for us in [40_000, 50_000] {
            f.on_acked(at(us), at(0), 1200, Some(0));
            f.on_end_acks(at(us), 0, false);
        }
        f.settle();
        let acks: Vec<Ack> = events().into_iter().filter(|a| a.event == Event::Ack).collect();
        assert_eq!((acks.len(), acks[0].delivered), (1, 1200));
    }

    #[test]
    fn the_handshake_s_packet_numbers_are_told_apart() {
        let (mut f, events) = traced("bbr3");
        f.on_sent(at(0), 300, 0);
        f.on_sent(at(0), 900, 0);
        f.on_sent(at(5), 1200, 0);
        f.on_acked(at(100), at(5), 1200, Some(0));
        f.on_acked(at(100), at(0), 300, Some(0));
        f.on_acked(at(100), at(0), 900, Some(0));
        f.on_end_acks(at(100), 0, false);
        f.settle();
        assert_eq!(events().last().unwrap().newly_acked, 2400);
    }

    #[test]
    fn a_recovery_period_asks_for_one_reaction_and_ends_with_a_packet_sent_in_it() {
        for (name, ends_with) in [("bbr3", 8), ("bbr1", 9)] {
            let (mut f, events) = traced(name);
            let lose = |f: &mut Flow, us, pn| {
                f.on_packet_lost(at(us), 1200, pn);
                f.on_congestion(at(us), at(pn), false, false);
            };
            (0..8).for_each(|pn| _ = f.on_sent(at(pn), 1200, pn));
            lose(&mut f, 100, 0);
            f.on_sent(at(105), 1200, 8);
            lose(&mut f, 110, 2);
            f.on_sent(at(120), 1200, 9);
            for (pn, sent_us) in [(7, 7), (8, 105), (9, 120)] {
                assert_eq!(f.ca_state, CaState::Recovery, "{name}: {pn}");
                f.on_acked(at(200 + pn), at(sent_us), 1200, Some(pn));
                f.on_end_acks(at(200 + pn), 6000, false);
                f.settle();
                if pn == ends_with {
                    break;
                }
            }
            assert_eq!(f.ca_state, CaState::Open, "{name}");
            // Lost before the last period, known only now: nothing new. Then one that is.
            lose(&mut f, 310, 3);
            assert_eq!(f.ca_state, CaState::Open);
            f.on_sent(at(320), 1200, 10);
            f.on_packet_lost(at(400), 1200, 10);
            f.on_congestion(at(400), at(320), false, false);
            assert_eq!(events().iter().filter(|a| a.event == Event::Ssthresh).count(), 2);
        }
    }

    #[test]
    fn persistent_congestion_leaves_a_packet_s_room() {
        for entry in CONTROLLERS {
            let factory = Factory::named(entry.name).unwrap();
            let mut f = Flow::new(&factory, at(0), 1200);
            (0..8).for_each(|pn| _ = f.on_sent(at(pn), 1200, pn));
            (0..7).for_each(|pn| f.on_packet_lost(at(9000), 1200, pn));
            f.on_congestion(at(9000), at(6), false, true);
            assert_eq!((f.ca_state, f.window()), (CaState::Loss, 2400), "{}", entry.name);
        }
    }

    /// quinn tells of buffers, not of packets: losses are the oldest bytes, and such a loss may yet be withdrawn.
    #[test]
    fn lost_bytes_are_found_in_the_oldest_buffers() {
        let (mut f, events) = traced("bbr3");
        f.on_sent(at(0), 12_000, 9);
        f.on_sent(at(50), 2400, 11);
        f.on_sent(at(60), 2400, 13);
        f.on_acked(at(40_060), at(60), 1200, None);
        f.on_acked(at(40_060), at(0), 1200, None);
        f.on_end_acks(at(40_060), 14_400, false);
        f.on_bytes_lost(at(40_060), 12_000, at(50));
        f.on_congestion(at(40_060), at(50), false, false);
        f.settle();
        let lost: Vec<(u64, u64)> = events()
            .iter()
            .filter(|a| a.event == Event::Lost)
            .map(|a| (a.newly_lost, a.rs_tx_in_flight))
            .collect();
        assert_eq!(lost, [(10_800, 12_000), (1200, 14_400)]);
        f.on_acked(at(41_000), at(0), 10_800, None);
        f.on_end_acks(at(41_000), 2400, false);
        f.settle();
        assert!(events().iter().all(|a| a.event != Event::Undo), "a packet is still missing");
        f.on_acked(at(41_100), at(50), 1200, None);
        f.on_acked(at(41_100), at(50), 1200, None);
        f.on_end_acks(at(41_100), 1200, false);
        f.settle();
        assert_eq!(events().last().unwrap().event, Event::Undo);
        assert_eq!(f.sampler.delivered(), 1200 + 12_000 + 2400);
    }

    #[test]
    fn another_address_keeps_the_model_and_leaves_what_is_in_flight() {
        let (mut f, events) = traced("bbr3");
        (0..8).for_each(|pn| _ = f.on_sent(at(pn), 1200, pn));
        f.on_acked(at(40_000), at(0), 1200, Some(0));
        f.on_end_acks(at(40_000), 8400, false);
        let window = f.window();
        let mut moved = f.migrated();
        assert_eq!((moved.sampler.inflight(), moved.window()), (0, window));
        moved.on_acked(at(50_000), at(1), 1200, Some(1));
        moved.on_sent(at(50_000), 1200, 8);
        moved.on_acked(at(90_000), at(50_000), 1200, Some(8));
        moved.on_end_acks(at(90_000), 0, false);
        moved.settle();
        let last = *events().last().unwrap();
        assert_eq!((last.delivered, last.newly_acked, last.rs_rtt_us), (2400, 1200, 40_000));
    }

    /// Any calls in any order, on a clock that stands still, runs back and jumps: the window is a packet at least and
    /// there is a pace; what the controller is told adds up; what is kept is bounded by what the stack has in flight.
    #[test]
    fn no_call_breaks_a_flow() {
        for (i, entry) in CONTROLLERS.iter().enumerate() {
            for seed in 0..40 {
                let factory = Factory::named(entry.name).unwrap().seed(seed);
                let mut rng = Rng::new(seed, i as u64);
                let mut f = Flow::new(&factory, at(10_000_000), 1200);
                let (mut us, mut pn) = (10_000_000, 0);
                for _ in 0..2000 {
                    us += [0, 0, 1, 100, 5_000, 1_000_000][rng.below(6) as usize];
                    let now = at(us - rng.below(2) * rng.below(1_500_000));
                    let some = |rng: &mut Rng| (at(us - rng.below(200_000)), pn - rng.below(30).min(pn));
                    let (sent, old) = some(&mut rng);
                    let bytes = [1, 1200, 1452, 65_535, u64::MAX][rng.below(5) as usize];
                    match rng.below(12) {
                        0..3 => {
                            let record = f.on_sent(now, bytes.min(65_535), pn);
                            f.on_released(record, at(us + rng.below(5000)));
                            pn += 1;
                        }
                        3..6 => f.on_acked(now, sent, bytes, (seed % 2 == 0).then_some(old)),
                        6 => f.on_end_acks(now, rng.below(1 << 20), rng.chance(500_000_000)),
                        7 => f.on_packet_lost(now, bytes, old),
                        8 => f.on_bytes_lost(now, bytes, sent),
                        9 => f.on_congestion(now, sent, rng.chance(300_000_000), rng.chance(100_000_000)),
                        10 => f.on_mtu([0, 1, 576, 1200, 65_535][rng.below(5) as usize]),
                        _ if rng.chance(100_000_000) => f = f.migrated(),
                        _ if rng.chance(500_000_000) => f.on_spurious_loss(),
                        _ => (f.on_cwnd_limited(), f.on_ack_threshold(rng.below(100))).0,
                    }
                    assert!(f.window() >= f.smss && f.control().pacing_rate >= 1, "{} {seed}", entry.name);
                }
                // Everything sent is settled one way or the other in the end.
                us += 100_000_000;
                f.on_sent(at(us), 1200, pn);
                f.on_acked(at(us + 1), at(us), 1200, Some(pn));
                f.on_end_acks(at(us + 1), 0, true);
                f.settle();
                assert!(f.records.is_empty() && f.sampler.inflight() == 0, "{} {seed}", entry.name);
            }
        }
    }
}
