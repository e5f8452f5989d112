//! Turns a stack's calls about one path of a QUIC connection into the events of a controller.
//!
//! A stack tells its controller of an ACK frame in pieces: each packet, the end of the packets, then the losses that
//! it shows, then its CE marks. The pieces are gathered in a [`Batch`] and become one `Event::Ack` when the stack
//! goes on to something else ([`Flow::settle`]). So the event has the losses and the marks of its own frame, as the
//! draft's per-ACK steps want.
//!
//! No stack reports the state at the sending of each packet (`P.…`), an RTT that includes the peer's delay, or random
//! bits, so this module provides them. It also keeps the recovery period of RFC 9002 §7.3.2, which begins with the
//! loss of a packet that was sent after the last period began, and ends with the acknowledgement of a packet sent in
//! it. A controller can ask for up to a round trip more
//! ([`Controller::recovers_until_repaired`](crate::cc::Controller::recovers_until_repaired)).

use super::Factory;
use crate::cc::{Ack, CaState, Control, Event, NO_RTT};
use crate::driver::{Driver, Moment};
use crate::rand;
use crate::sampler::{Sampler, Sent};
use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Instant;

/// Initial window (RFC 9002 §7.2): ten packets, but no more than the larger of this many bytes and two packets.
const INITIAL_BYTES: u64 = 14_720;
const INITIAL_PACKETS: u64 = 10;
/// The flow's clock starts at this time, because controllers take a time of 0 as "never".
const START_NS: u64 = 1_000_000_000;
/// After a later packet was acknowledged, a packet that was neither acknowledged nor declared lost is forgotten once
/// this many RTTs and this much time have passed. Stacks never report packets whose keys were discarded, or lost MTU
/// probes, so their records would stay for ever.
const FORGOTTEN_RTTS: u64 = 3;
const FORGOTTEN_US: u64 = 100_000;

/// Ack-eliciting data that was sent at once: a packet, or a buffer of packets where the stack does not tell them
/// apart.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// When the stack says it was sent, which is also how the stack identifies it later; and how much later than that
    /// a paced socket really let it go, both in nanoseconds.
    sent_ns: u64,
    held_ns: u64,
    /// Packet number, that of the last packet in a buffer. During the handshake the numbers of three spaces are
    /// mixed.
    pn: u64,
    /// Counts records from 0, in the order of sending.
    seq: u64,
    /// Bytes that are neither acknowledged nor lost, and bytes that are lost.
    open: u32,
    lost: u32,
    sent: Sent,
}

/// The ACK frame being processed.
#[derive(Clone, Copy, Debug)]
struct Batch {
    now_ns: u64,
    /// Whether the stack has reported all packets of the frame. Losses and marks may follow.
    is_whole: bool,
    packets: u64,
    bytes: u64,
    /// RTT of the packet that was sent last, in microseconds, if none sent later was acknowledged before; else
    /// [`NO_RTT`].
    rtt_us: u64,
}

/// Converts bytes to the 32 bits that a record has for them; no record is larger.
fn size(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[derive(Debug)]
pub(super) struct Flow {
    factory: Factory,
    driver: Driver,
    id: u64,
    epoch: Instant,
    now_ns: u64,
    events: u64,
    sampler: Sampler,
    records: VecDeque<Record>,
    next_seq: u64,
    batch: Option<Batch>,
    initial_window: u64,
    srtt_us: u64,
    min_rtt_us: u64,
    /// One more than the number of the latest sent record of which anything was acknowledged.
    acked_seq: u64,
    /// One more than the number of the record that was acknowledged last, which is most often the next one to be
    /// acknowledged.
    found_seq: u64,
    /// The last record of which anything was lost.
    lost_seq: Option<u64>,
    ca_state: CaState,
    /// First record sent after the recovery period began.
    recovery_seq: u64,
    /// The first record whose acknowledgement ends the period: `recovery_seq`, or, for controllers that recover until
    /// all is repaired, the first record sent after the last loss of the period was known.
    repair_seq: u64,
    /// Bytes lost since the stack last asked for a reaction.
    fresh_lost: u64,
    /// Lost bytes of the last recovery period that have not been acknowledged since. At 0 all its losses were
    /// spurious.
    episode_lost: u64,
    /// The last reduction can be undone until a record with this number is acknowledged; `None` if it cannot be
    /// undone.
    undo_until: Option<u64>,
    is_cwnd_limited: bool,
    limited_until: u64,
    /// Number of ack-eliciting packets that the peer may wait for before it acknowledges.
    ack_threshold: u64,
}

impl Flow {
    pub(super) fn new(factory: &Factory, now: Instant, mtu: u16) -> Self {
        let smss = u64::from(mtu).max(1);
        let window = (INITIAL_PACKETS * smss).min(INITIAL_BYTES.max(2 * smss));
        let mut flow = Self {
            factory: factory.clone(),
            driver: Driver::new((factory.new)(), window, smss, factory.max_pacing_rate),
            id: factory.next_flow(),
            epoch: now,
            now_ns: START_NS,
            events: 0,
            sampler: Sampler::default(),
            records: VecDeque::new(),
            next_seq: 0,
            batch: None,
            initial_window: window,
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
        flow.initial_window = flow.driver.cwnd();
        flow
    }

    /// The flow after the peer has moved to another address on the same path. The model stays; what is in flight
    /// belongs to the old address.
    pub(super) fn migrated(&self) -> Self {
        let mut sampler = self.sampler.clone();
        while sampler.inflight() > 0 {
            sampler.on_replaced(size(sampler.inflight()));
        }
        Self {
            factory: self.factory.clone(),
            driver: self.driver.copied(),
            sampler,
            records: VecDeque::new(),
            batch: None,
            ca_state: CaState::Open,
            undo_until: None,
            ..*self
        }
    }

    /// The controller with its settings, as the factory was given it.
    #[cfg(feature = "quinn")]
    pub(super) fn name(&self) -> &str {
        &self.factory.name
    }

    pub(super) fn initial_window(&self) -> u64 {
        self.initial_window
    }

    /// The window in bytes, at least one packet, after the ACK that is being processed.
    pub(super) fn window(&mut self) -> u64 {
        self.settle();
        self.driver.cwnd()
    }

    /// The controller's last decision, after the ACK that is being processed. A quantum of `u64::MAX` leaves the
    /// spacing to the stack.
    pub(super) fn control(&mut self) -> Control {
        self.settle();
        self.driver.control()
    }

    #[cfg(feature = "quinn")]
    pub(super) fn smss(&self) -> u64 {
        self.driver.smss()
    }

    #[cfg(feature = "quinn")]
    pub(super) fn inflight(&self) -> u64 {
        self.sampler.inflight()
    }

    /// The smoothed RTT in microseconds; 0 before the first sample.
    #[cfg(feature = "quinn")]
    pub(super) fn srtt_us(&self) -> u64 {
        self.srtt_us
    }

    /// Notes that ack-eliciting data leaves, and returns the number of its record.
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

    /// Notes that a paced socket held a record and sent it only at `at`, which becomes its `P.sent_time`.
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

    /// Notes that the window, and not the application, keeps the sender from sending more.
    pub(super) fn on_cwnd_limited(&mut self) {
        self.is_cwnd_limited = true;
        self.limited_until = self.next_seq;
    }

    /// Notes that a packet is acknowledged; `pn` if the stack reports it. Packets that were sent before this
    /// controller existed are ignored.
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

    /// Notes that the stack has reported all packets of an ACK frame. `inflight` is the stack's own count, and
    /// `is_app_limited` says whether it had nothing left to send.
    pub(super) fn on_end_acks(&mut self, now: Instant, inflight: u64, is_app_limited: bool) {
        self.advance(now);
        self.reconcile(inflight);
        if is_app_limited && self.sampler.inflight() + self.driver.smss() <= self.driver.cwnd() {
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

    /// Notes that a packet is declared lost.
    #[cfg(any(feature = "noq", test))]
    pub(super) fn on_packet_lost(&mut self, now: Instant, bytes: u64, pn: u64) {
        self.advance(now);
        if let Some(at) = self.find_pn(pn) {
            self.lose(at, size(bytes));
        }
    }

    /// Notes that `bytes` are declared lost, the last of them sent at `last_sent`. Stacks judge packets by their
    /// number, so of each earlier record all that was not acknowledged is taken.
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

    /// Handles the stack's request for a reaction to losses or CE marks. `last_sent` is when the latest packet that
    /// was lost, or that carried the marks, was sent. If that was before the current recovery period began, no new
    /// reaction is due.
    pub(super) fn on_congestion(
        &mut self,
        now: Instant,
        last_sent: Instant,
        is_ecn: bool,
        is_persistent: bool,
    ) {
        self.advance(now);
        if is_ecn {
            // The stack knows how many marks there were but does not report it, so all that this ACK delivered counts
            // as marked.
            self.sampler.on_ce(self.batch.map_or(self.driver.smss(), |b| b.bytes));
        }
        let last_ns = self.ns(last_sent);
        let last = self.records.partition_point(|r| r.sent_ns <= last_ns);
        let last_seq = last.checked_sub(1).map(|at| self.records[at].seq);
        let is_of_period = last_seq.is_some_and(|seq| seq < self.recovery_seq);
        let is_new = self.ca_state == CaState::Open && !is_of_period;
        if is_of_period && !is_ecn && self.driver.controller().recovers_until_repaired() {
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
            self.driver.set_cwnd(self.sampler.inflight() + self.driver.smss());
            self.dispatch(Event::Loss);
        } else if is_new || self.ca_state == CaState::Cwr {
            self.ca_state = if is_ecn { CaState::Cwr } else { CaState::Recovery };
        }
    }

    /// Handles the news that all losses of the last recovery period were spurious: the reduction is undone.
    pub(super) fn on_spurious_loss(&mut self) {
        self.settle();
        if self.undo_until.take().is_some() {
            self.ca_state = CaState::Open;
            self.dispatch(Event::Undo);
        }
    }

    pub(super) fn on_mtu(&mut self, mtu: u16) {
        self.settle();
        self.driver.set_smss(u64::from(mtu).max(1));
    }

    #[cfg(any(feature = "noq", test))]
    pub(super) fn on_ack_threshold(&mut self, packets: u64) {
        self.ack_threshold = packets.max(1);
    }

    /// Ends the processing of an ACK frame, if one is being processed: the controller gets its event and decides.
    pub(super) fn settle(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        let at = self.moment();
        let mut ack = self.driver.ack(&at, &mut self.sampler, batch.rtt_us);
        ack.rs_is_ack_delayed = batch.packets <= self.ack_threshold;
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

    /// Nanoseconds on the flow's clock; a time before its start counts as the start.
    fn ns(&self, at: Instant) -> u64 {
        let ns = at.saturating_duration_since(self.epoch).as_nanos();
        START_NS.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX >> 1))
    }

    /// Advances the clock. It never goes back, whatever the stack says, because controllers subtract times.
    fn advance(&mut self, now: Instant) {
        self.now_ns = self.now_ns.max(self.ns(now));
    }

    /// The place of the record with this number in the queue. The numbers of the records there have no gaps.
    fn index(&self, seq: u64) -> Option<usize> {
        let at = seq.checked_sub(self.records.front()?.seq)?;
        usize::try_from(at).ok().filter(|at| *at < self.records.len())
    }

    /// The record of a packet sent at `sent_ns`: the one with the number `pn`, or, of several sent at that time, the
    /// first that is not fully acknowledged.
    fn find(&self, sent_ns: u64, pn: Option<u64>) -> Option<usize> {
        let is_it = |at: &usize| {
            let r = &self.records[*at];
            r.sent_ns == sent_ns && r.open + r.lost > 0 && pn.is_none_or(|pn| r.pn == pn)
        };
        // A frame reports its packets in order, and the numbers of one space are in order, so only packets of the
        // handshake have to be searched for.
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

    /// Marks up to `bytes` of a record as lost and returns how many it were.
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
        let at = self.moment();
        let ack = self.driver.lost(&at, &self.sampler, &sent, starts_range);
        self.tell(&ack);
        lost
    }

    /// Takes over the stack's count of what is in flight, because that is the count that it compares with the window.
    /// The counts differ by what stacks do not report: padded ACKs, packets whose keys were discarded, and ACKs while
    /// a new address is validated.
    fn reconcile(&mut self, inflight: u64) {
        let ours = self.sampler.inflight();
        if ours > inflight {
            self.sampler.on_replaced(size(ours - inflight));
        } else {
            self.sampler.on_undone(inflight - ours);
        }
    }

    /// Drops records that the stack has forgotten, and lost ones that did not arrive after all.
    fn forget(&mut self) {
        let age_us = (FORGOTTEN_RTTS * self.srtt_us).saturating_add(FORGOTTEN_US);
        let before_ns = self.now_ns.saturating_sub(age_us.saturating_mul(1000));
        let acked_seq = self.acked_seq;
        while self.records.front().is_some_and(|r| r.sent_ns < before_ns && r.seq + 1 < acked_seq) {
            self.records.pop_front();
        }
    }

    /// Sends the controller an event that is neither an ACK nor a lost packet.
    fn dispatch(&mut self, event: Event) {
        let at = self.moment();
        let ack = self.driver.event(event, &at, &self.sampler);
        self.tell(&ack);
    }

    /// What the driver needs beside the sampler's counters. The random bits come from the seed, the number of the
    /// flow, the number of the event and the time, so that flows with the same seed do not probe together.
    fn moment(&mut self) -> Moment {
        self.events += 1;
        let seed = rand::hash(self.factory.seed, self.id);
        Moment {
            now_us: self.now_ns / 1000,
            srtt_us: self.srtt_us,
            min_rtt_us: self.min_rtt_us,
            ca_state: self.ca_state,
            is_cwnd_limited: self.is_cwnd_limited,
            edt_us: 0,
            rand: rand::hash(seed, self.events.wrapping_add(self.now_ns)) >> 32,
        }
    }

    fn tell(&mut self, ack: &Ack) {
        let control = self.driver.tell(ack, &mut self.sampler);
        if let Some(sink) = &self.factory.trace {
            let mut line = self.id.to_string();
            let state = self.driver.controller().state();
            for word in ack.words().into_iter().chain(control.words()).chain(state) {
                let _ = write!(line, " {word}");
            }
            sink(&line);
        }
    }
}

#[cfg(test)]
mod tests;
