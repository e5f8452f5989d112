//! One flow: its sender, and the glue between sender, receiver and application.
//!
//! Loss detection and recovery are in `loss.rs`, as a second `impl` of [`Flow`].

use super::kernel_record::Record;
use super::logged_link::LoggedLink;
use super::loss::Loss;
use super::receiver::{Answer, Receiver};
use super::rtt::Rtt;
use super::segment::{DELIVERED, IN_FLIGHT, LOST, Segment};
use super::sequence::SequenceBuffer;
use super::source::App;
use super::{
    AckPacket, FlowBin, FlowRun, FlowSpec, HANDSHAKE, HANDSHAKE_BYTES, HEADER_BYTES, Packet, Signals,
    SimError, SimSpec, TraceRow,
};
use crate::cc::{self, Ack, CaState, Control, Controller, Event, NO_RTT};
use crate::rand;
use crate::sampler::{Sampler, Sent};
use std::collections::VecDeque;

/// Initial window, segments (RFC 6928).
const INITIAL_SEGMENTS: u64 = 10;
/// The first segments are not paced (Linux: `data_segs_out >= 10`).
const UNPACED_SEGMENTS: u64 = 10;
/// A burst is what the pacing rate sends in 2^-10 s (Linux `sk_pacing_shift`).
const PACING_SHIFT: u32 = 10;
/// Largest burst, bytes (Linux `sk_gso_max_size`).
const BURST_BYTES: u64 = 65_216;
/// At short RTTs bursts grow by their maximum shifted right by the minimum RTT in units of 2^9 µs (Linux ≥ 5.18).
const BURST_RTT_SHIFT: u32 = 9;
/// A burst may wait for more window only this soon after the last one (Linux `tcp_tso_should_defer`).
const DEFER_NS: u64 = 1_000_000;
/// The random stream of flow `i` is this plus `i`; links use small numbers.
const RANDOM_STREAM: u64 = 1 << 32;

/// What the ACK being processed has brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    /// RTT of the oldest and of the latest sent segment that was delivered, if it was never retransmitted.
    oldest_rtt_us: u64,
    latest_rtt_us: u64,
    is_retransmission: bool,
    pub(crate) segments: u64,
    /// A segment sent before the timeout and never retransmitted arrived, or one whose retransmission was needless.
    pub(crate) is_spurious: bool,
    pub(crate) is_duplicate: bool,
    pub(crate) has_ce: bool,
    pub(crate) una_before: u64,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) sampler: Sampler,
    pub(crate) rtt: Rtt,
    /// From the oldest unacknowledged (`una`) to the newest sent (`nxt`).
    pub(crate) segments: SequenceBuffer<Segment>,
    pub(crate) loss: Loss,
    /// What stands in for the sampler's memory of each segment; `None` where the controller is told exactly.
    pub(crate) record: Option<Record>,
    pub(crate) cwnd: u64,
    control: Control,
    burst_segments: u64,
    mss: u64,
    index: u32,
    is_ect: bool,
    is_cwnd_limited: bool,
    /// Segment whose acknowledgement ends the window in which the limit was noted.
    limited_until: u64,
    /// When the next burst may leave (Linux `tcp_wstamp_ns`).
    departure_ns: u64,
    last_burst_ns: u64,
    pace_ns: u64,
    half_extra_ns: u64,
    max_pacing_rate: u64,
    receiver: Receiver,
    pub(crate) app: App,
    late_packets: VecDeque<(u64, Packet, bool)>,
    late_acks: VecDeque<(u64, AckPacket)>,
    ce_seen: u64,
    cc: Box<dyn Controller>,
    random_seed: u64,
    events: u64,
    is_traced: bool,
    pub(crate) run: FlowRun,
    at_last_bin: FlowBin,
}

impl Flow {
    pub(crate) fn new(spec: &SimSpec, index: u32, flow: &FlowSpec) -> Result<Self, SimError> {
        let cc = cc::controller(&flow.cc)?;
        let mss = u64::from(spec.mtu - HEADER_BYTES);
        let down = &spec.path.down;
        Ok(Self {
            sampler: Sampler::default(),
            rtt: Rtt::new(),
            segments: SequenceBuffer::new(64),
            loss: Loss::new(),
            record: (spec.signals == Signals::Kernel).then(Record::default),
            cwnd: INITIAL_SEGMENTS * mss,
            control: Control::default(),
            burst_segments: 2,
            mss,
            index,
            is_ect: down.ecn || down.ce_ns.is_some(),
            is_cwnd_limited: false,
            limited_until: 0,
            departure_ns: 0,
            last_burst_ns: 0,
            pace_ns: u64::MAX,
            half_extra_ns: flow.extra_rtt_us * 500,
            max_pacing_rate: flow.max_pacing_rate.max(1),
            receiver: Receiver::new(),
            app: App::new(&flow.source, flow.start_us * 1000),
            late_packets: VecDeque::new(),
            late_acks: VecDeque::new(),
            ce_seen: 0,
            cc,
            random_seed: rand::hash(spec.seed, RANDOM_STREAM + u64::from(index)),
            events: 0,
            is_traced: spec.trace,
            run: FlowRun { cc: flow.cc.clone(), start_us: flow.start_us, ..Default::default() },
            at_last_bin: FlowBin::default(),
        })
    }

    /// When [`Flow::on_timers`] is due next; `u64::MAX` for never.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        let at = self.pace_ns.min(self.loss.timer_ns).min(self.loss.reorder_ns);
        let at = at.min(self.receiver.ack_ns).min(self.app.next_ns);
        if self.half_extra_ns == 0 {
            return at;
        }
        let packet = self.late_packets.front().map_or(u64::MAX, |p| p.0);
        at.min(packet).min(self.late_acks.front().map_or(u64::MAX, |a| a.0))
    }

    /// A packet leaves the bottleneck; when the receiving end wants to be called next.
    pub(crate) fn on_packet(
        &mut self,
        now_ns: u64,
        packet: Packet,
        ce: bool,
        up: &mut LoggedLink<AckPacket>,
    ) -> u64 {
        if self.half_extra_ns > 0 {
            self.late_packets.push_back((now_ns + self.half_extra_ns, packet, ce));
            return now_ns + self.half_extra_ns;
        }
        self.receive(now_ns, packet, ce, up);
        self.receiver.ack_ns
    }

    /// An ACK leaves the return path.
    pub(crate) fn on_ack_packet(&mut self, now_ns: u64, ack: AckPacket, down: &mut LoggedLink<Packet>) {
        if self.half_extra_ns > 0 {
            self.late_acks.push_back((now_ns + self.half_extra_ns, ack));
        } else {
            self.on_ack(now_ns, ack, down);
        }
    }

    /// Does what is due.
    pub(crate) fn on_timers(
        &mut self,
        now_ns: u64,
        down: &mut LoggedLink<Packet>,
        up: &mut LoggedLink<AckPacket>,
    ) {
        while self.late_packets.front().is_some_and(|p| p.0 <= now_ns) {
            let (_, packet, ce) = self.late_packets.pop_front().expect("just seen");
            self.receive(now_ns, packet, ce, up);
        }
        while self.late_acks.front().is_some_and(|a| a.0 <= now_ns) {
            let (_, ack) = self.late_acks.pop_front().expect("just seen");
            self.on_ack(now_ns, ack, down);
        }
        if self.receiver.ack_ns <= now_ns {
            self.send_ack(now_ns, false, up);
        }
        if self.loss.reorder_ns <= now_ns {
            self.on_reorder_timer(now_ns, down);
        }
        if self.loss.timer_ns <= now_ns {
            self.on_loss_timer(now_ns, down);
        }
        if self.app.next_ns <= now_ns {
            self.on_write(now_ns, down);
        }
        if self.pace_ns <= now_ns {
            self.transmit(now_ns, down);
        }
    }

    pub(crate) fn close_bin(&mut self, t_us: u64) {
        let total = FlowBin {
            t_us,
            delivered_bytes: self.receiver.bytes,
            sent_bytes: self.run.sent_bytes,
            retransmitted_packets: self.run.retransmitted_packets,
            cwnd_bytes: self.cwnd,
            inflight_bytes: self.sampler.inflight(),
            srtt_us: self.rtt.srtt_us(),
            pacing_rate: if self.is_paced() { self.control.pacing_rate } else { u64::MAX },
        };
        let last = self.at_last_bin;
        self.run.bins.push(FlowBin {
            delivered_bytes: total.delivered_bytes - last.delivered_bytes,
            sent_bytes: total.sent_bytes - last.sent_bytes,
            retransmitted_packets: total.retransmitted_packets - last.retransmitted_packets,
            ..total
        });
        self.at_last_bin = total;
    }

    pub(crate) fn finish(mut self) -> FlowRun {
        self.run.delivered_bytes = self.receiver.bytes;
        self.run.finished_us = self.app.finished_ns.map(|ns| ns / 1000);
        self.run.min_rtt_us = if self.rtt.min_us == NO_RTT { 0 } else { self.rtt.min_us };
        self.run.max_rtt_us = self.rtt.max_us;
        self.run.mean_rtt_us = self.rtt.mean_us();
        self.run.messages = self.app.arrived;
        self.run.state = self.cc.state();
        self.run
    }

    fn receive(&mut self, now_ns: u64, packet: Packet, ce: bool, up: &mut LoggedLink<AckPacket>) {
        let rtt_ns = self.rtt.srtt_us() * 1000;
        if packet.seq & HANDSHAKE != 0 {
            let answer = AckPacket { flow: self.index, log_end: packet.seq, ..Default::default() };
            return up.push(now_ns, HANDSHAKE_BYTES, false, answer);
        }
        match self.receiver.on_segment(now_ns, packet, ce, rtt_ns) {
            Answer::None => {}
            Answer::Ack => self.send_ack(now_ns, false, up),
            Answer::Duplicate => self.send_ack(now_ns, true, up),
        }
        self.app.on_received(now_ns, self.receiver.bytes);
    }

    #[inline]
    fn send_ack(&mut self, now_ns: u64, is_duplicate: bool, up: &mut LoggedLink<AckPacket>) {
        let (log_end, ce_bytes) = (self.receiver.log.end(), self.receiver.ce_bytes);
        self.receiver.on_ack_sent();
        up.push(now_ns, HEADER_BYTES, false, AckPacket { log_end, ce_bytes, flow: self.index, is_duplicate });
    }

    fn on_write(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        self.app.write(now_ns);
        if self.is_connected() {
            self.transmit(now_ns, down);
        } else if self.loss.timer_ns == u64::MAX {
            self.knock(now_ns, down);
        }
    }

    fn is_connected(&self) -> bool {
        self.run.connected_us.is_some()
    }

    /// Opens the connection, again after a timeout that doubles.
    pub(crate) fn knock(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        let packet = Packet { seq: HANDSHAKE | now_ns, flow: self.index, ..Default::default() };
        down.push(now_ns, HANDSHAKE_BYTES, false, packet);
        self.loss.arm_handshake(now_ns, &self.rtt);
    }

    /// The handshake's RTT is known when the controller is initialised, as in Linux.
    fn on_connected(&mut self, now_ns: u64, sent_ns: u64, down: &mut LoggedLink<Packet>) {
        if self.is_connected() {
            return;
        }
        let rtt_us = (now_ns - sent_ns) / 1000;
        self.run.connected_us = Some(now_ns / 1000);
        self.rtt.on_latest(rtt_us);
        self.rtt.on_oldest(rtt_us, 0, 0);
        self.loss.disarm();
        self.dispatch(Event::Init, now_ns, NO_RTT);
        self.transmit(now_ns, down);
    }

    /// The order of steps is that of Linux `tcp_ack`.
    fn on_ack(&mut self, now_ns: u64, ack: AckPacket, down: &mut LoggedLink<Packet>) {
        if ack.log_end & HANDSHAKE != 0 {
            return self.on_connected(now_ns, ack.log_end - HANDSHAKE, down);
        }
        if ack.log_end < self.receiver.log.start() {
            return; // Overtaken by a later ACK that reported the same and more.
        }
        let now_us = now_ns / 1000;
        self.sampler.begin();
        let mut news = self.read_log(now_us, &ack);
        if ack.ce_bytes > self.ce_seen {
            self.sampler.on_ce(ack.ce_bytes - self.ce_seen);
            self.ce_seen = ack.ce_bytes;
            news.has_ce = true;
        }
        let rtt_us = self.update_rtt(&news);
        self.update_recovery(now_ns, &news);
        self.dispatch(Event::Ack, now_ns, rtt_us);
        let nxt = self.segments.end();
        self.transmit(now_ns, down);
        if self.segments.start() > news.una_before || self.segments.end() > nxt {
            self.arm_timer(now_ns);
        }
    }

    /// Takes note of every arrival that an ACK reports, in the order in which they arrived.
    fn read_log(&mut self, now_us: u64, ack: &AckPacket) -> News {
        let mut news = News {
            oldest_rtt_us: NO_RTT,
            latest_rtt_us: NO_RTT,
            is_retransmission: false,
            segments: 0,
            is_spurious: false,
            is_duplicate: ack.is_duplicate,
            has_ce: false,
            una_before: self.segments.start(),
        };
        for i in self.receiver.log.start()..ack.log_end {
            let entry = self.receiver.log[i];
            self.deliver(now_us, entry >> 8, entry as u8, &mut news);
        }
        self.receiver.log.forget_before(ack.log_end);
        let mut una = news.una_before;
        while una < self.segments.end() && self.segments[una].flags & DELIVERED != 0 {
            una += 1;
        }
        self.loss.sacked -= una - news.una_before;
        self.segments.forget_before(una);
        news
    }

    fn deliver(&mut self, now_us: u64, seq: u64, arrived_tx: u8, news: &mut News) {
        let segment = &mut self.segments[seq];
        let flags = segment.flags;
        segment.flags = flags & !(LOST | IN_FLIGHT) | DELIVERED;
        let (sent, tx) = (segment.sent(now_us, &self.sampler), segment.tx);
        self.sampler.on_delivered(now_us, &sent, flags & IN_FLIGHT != 0);
        if self.record.is_some() && self.sampler.newest() == Some(&sent) {
            self.note_sample(seq, sent.delivered, tx > 0);
        }
        let sent_us = sent.sent_us;
        news.segments += 1;
        if tx == 0 {
            let rtt_us = now_us - sent_us;
            if news.oldest_rtt_us == NO_RTT {
                news.oldest_rtt_us = rtt_us;
            }
            news.latest_rtt_us = rtt_us;
        } else {
            news.is_retransmission = true;
        }
        let is_needless = tx != arrived_tx;
        news.is_spurious |= self.note_delivery(seq, tx, flags & LOST != 0, is_needless);
        self.advance_rack(now_us, seq, sent_us, tx);
    }

    /// The sample for the controller: the RTT of the latest segment, or none where a retransmission blurs it.
    fn update_rtt(&mut self, news: &News) -> u64 {
        if news.latest_rtt_us == NO_RTT {
            return NO_RTT;
        }
        self.rtt.on_latest(news.latest_rtt_us);
        if !news.is_retransmission {
            self.rtt.on_oldest(news.oldest_rtt_us, self.segments.start(), self.segments.end());
        }
        news.latest_rtt_us
    }

    /// Tells the controller of an event and does what it says.
    pub(crate) fn dispatch(&mut self, event: Event, now_ns: u64, rs_rtt_us: u64) {
        self.prepare_signals(event, now_ns);
        let mut ack = self.event(event, now_ns, rs_rtt_us);
        ack.rand = self.random();
        if event == Event::Ack {
            self.sampler.fill(&mut ack, self.rtt.min_us);
            self.degrade_sample(&mut ack);
        } else {
            self.sampler.fill_counters(&mut ack);
        }
        self.tell(&ack);
        self.keep_record(event);
    }

    /// Tells the controller of a segment that was just marked lost. The random number comes from the count of what
    /// was lost, so that the other events get the same numbers whether or not there are losses between them.
    pub(crate) fn tell_lost(&mut self, now_us: u64, sent: &Sent, starts_range: bool) {
        let mut ack = self.event(Event::Lost, now_us * 1000, NO_RTT);
        ack.rand = rand::hash(self.random_seed, !self.sampler.lost()) >> 32;
        ack.rs_starts_lost_range = starts_range;
        self.sampler.fill_lost(&mut ack, sent);
        self.tell(&ack);
    }

    /// The part of an event that is the same for all.
    pub(crate) fn event(&self, event: Event, now_ns: u64, rs_rtt_us: u64) -> Ack {
        Ack {
            event,
            now_us: now_ns / 1000,
            unit_bytes: 1,
            smss: self.mss,
            cwnd: self.cwnd,
            cwnd_clamp: u64::MAX,
            pacing_rate: self.control.pacing_rate,
            max_pacing_rate: self.max_pacing_rate,
            srtt_us: self.rtt.srtt_us(),
            min_rtt_us: self.rtt.min_us,
            rs_rtt_us,
            is_cwnd_limited: self.is_cwnd_limited,
            has_selective_acks: true,
            ca_state: self.loss.ca_state,
            edt_us: self.departure_ns.saturating_sub(now_ns) / 1000,
            ..Default::default()
        }
    }

    pub(crate) fn tell(&mut self, ack: &Ack) {
        let control = self.cc.on_event(ack);
        if self.is_traced {
            self.run.trace.push(TraceRow { ack: *ack, control, state: self.cc.state() });
        }
        self.obey(control);
    }

    pub(crate) fn mss(&self) -> u64 {
        self.mss
    }

    pub(crate) fn random_seed(&self) -> u64 {
        self.random_seed
    }

    fn random(&mut self) -> u64 {
        self.events += 1;
        rand::hash(self.random_seed, self.events) >> 32
    }

    fn obey(&mut self, control: Control) {
        let control = Control { pacing_rate: control.pacing_rate.min(self.max_pacing_rate), ..control };
        self.cwnd = control.cwnd.max(self.mss);
        self.run.max_cwnd_bytes = self.run.max_cwnd_bytes.max(self.cwnd);
        if control.mark_app_limited {
            self.sampler.mark_app_limited();
        }
        if control.pacing_rate != self.control.pacing_rate
            || control.send_quantum != self.control.send_quantum
        {
            self.burst_segments = self.burst_segments(&control);
        }
        self.control = control;
    }

    /// Size of a burst as Linux `tcp_tso_autosize` reckons it; never below the controller's quantum.
    fn burst_segments(&self, control: &Control) -> u64 {
        let rtt_shift = self.rtt.min_us >> BURST_RTT_SHIFT;
        let bonus = if rtt_shift < 32 { BURST_BYTES >> rtt_shift } else { 0 };
        let bytes = (control.pacing_rate >> PACING_SHIFT).saturating_add(bonus).min(BURST_BYTES);
        let floor = if control.send_quantum == u64::MAX { 2 } else { control.send_quantum / self.mss };
        (bytes / self.mss).max(floor).max(1)
    }

    /// An unlimited quantum says that the controller leaves the spacing to the ACK clock.
    fn is_paced(&self) -> bool {
        self.control.send_quantum != u64::MAX || self.max_pacing_rate != u64::MAX
    }

    /// Sends what window, pacing and application allow; retransmissions first.
    pub(crate) fn transmit(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        let mut is_deferred = false;
        loop {
            if self.is_paced() && self.departure_ns > now_ns {
                self.pace_ns = self.departure_ns;
                break;
            }
            self.pace_ns = u64::MAX;
            let room = self.room_segments();
            let bytes = if self.loss.lost > 0 {
                self.retransmit_lost(now_ns, room.min(self.burst_segments), down)
            } else if self.should_defer(now_ns, room) {
                is_deferred = true;
                0
            } else {
                self.send_new(now_ns, room.min(self.burst_segments), down)
            };
            if bytes == 0 {
                break;
            }
            self.space(now_ns, bytes);
        }
        self.note_limits(is_deferred);
    }

    /// Whole segments that fit into the window, but no more than a burst.
    #[inline]
    fn room_segments(&self) -> u64 {
        let room = self.cwnd.saturating_sub(self.sampler.inflight());
        if room >= self.burst_segments * self.mss { self.burst_segments } else { room / self.mss }
    }

    /// Linux `tcp_tso_should_defer`: a burst cut short by the window waits for more ACKs if one is near.
    fn should_defer(&self, now_ns: u64, room: u64) -> bool {
        if room == 0
            || room >= self.burst_segments
            || self.loss.ca_state >= CaState::Recovery
            || self.segments.start() == self.segments.end()
            || self.app.pending_bytes <= room * self.mss
            || now_ns > self.last_burst_ns + DEFER_NS
            || room * self.mss * 3 >= self.cwnd
        {
            return false;
        }
        let waiting_us = now_ns / 1000 - self.segments[self.segments.start()].sent_us(now_ns / 1000);
        waiting_us >= self.rtt.srtt_us() / 2
    }

    /// Sends up to `count` new segments; the bytes sent.
    pub(crate) fn send_new(&mut self, now_ns: u64, count: u64, down: &mut LoggedLink<Packet>) -> u64 {
        let mut bytes = 0;
        if count == 0 || self.app.pending_bytes == 0 {
            return 0;
        }
        self.start_after_idle(now_ns);
        for _ in 0..count {
            let size = self.app.pending_bytes.min(self.mss) as u32;
            if size == 0 {
                break;
            }
            self.app.pending_bytes -= u64::from(size);
            let sent = self.sampler.on_sent(now_ns / 1000, size);
            let seq = self.segments.end();
            self.segments.push(Segment::new(&sent));
            self.put(now_ns, seq, 0, size, down);
            bytes += u64::from(size);
        }
        if self.loss.timer_ns == u64::MAX {
            self.arm_timer(now_ns);
        }
        bytes
    }

    /// Sends a segment again.
    pub(crate) fn resend(&mut self, now_ns: u64, seq: u64, down: &mut LoggedLink<Packet>) -> u64 {
        self.start_after_idle(now_ns);
        let segment = &mut self.segments[seq];
        let size = u32::from(segment.bytes);
        if segment.flags & IN_FLIGHT != 0 {
            self.sampler.on_replaced(size);
        }
        segment.stamp(&self.sampler.on_sent(now_ns / 1000, size));
        segment.tx = segment.tx.saturating_add(1);
        let tx = segment.tx;
        self.note_resent(seq, tx);
        self.run.retransmitted_packets += 1;
        self.run.retransmitted_bytes += u64::from(size);
        self.put(now_ns, seq, tx, size, down);
        u64::from(size)
    }

    #[inline]
    fn put(&mut self, now_ns: u64, seq: u64, tx: u8, size: u32, down: &mut LoggedLink<Packet>) {
        self.run.sent_packets += 1;
        self.run.sent_bytes += u64::from(size);
        down.push(
            now_ns,
            size + HEADER_BYTES,
            self.is_ect,
            Packet { seq, flow: self.index, bytes: size as u16, tx },
        );
    }

    /// Nothing is in flight: the controller hears of it. A window that nothing paces shrinks by half for every
    /// timeout of silence (RFC 2861; Linux `tcp_cwnd_restart`, which spares controllers that set their own rate).
    fn start_after_idle(&mut self, now_ns: u64) {
        if self.sampler.inflight() > 0 {
            return;
        }
        if !self.is_paced() && self.segments.start() == self.segments.end() && self.segments.end() > 0 {
            let rto_ns = self.rtt.rto_us(0) * 1000;
            let mut idle_ns = now_ns - self.last_burst_ns;
            let least = self.cwnd.min(INITIAL_SEGMENTS * self.mss);
            while idle_ns > rto_ns && self.cwnd > least {
                idle_ns -= rto_ns;
                self.cwnd = (self.cwnd / 2).max(least);
            }
        }
        self.dispatch(Event::TxStart, now_ns, NO_RTT);
    }

    /// Sets the earliest departure of the next burst (Linux `tcp_update_skb_after_send`): lateness is made up for
    /// by at most half a burst.
    pub(crate) fn space(&mut self, now_ns: u64, bytes: u64) {
        let departure_ns = self.departure_ns.max(now_ns);
        let credit_ns = departure_ns - self.departure_ns;
        self.departure_ns = departure_ns;
        self.last_burst_ns = now_ns;
        if self.is_paced() && self.run.sent_packets >= UNPACED_SEGMENTS {
            let length_ns = bytes * 1_000_000_000 / self.control.pacing_rate.max(1);
            self.departure_ns += length_ns - credit_ns.min(length_ns / 2);
        }
    }

    /// What kept the sender from sending more: the window (Linux `tcp_cwnd_validate`) or the application.
    fn note_limits(&mut self, is_deferred: bool) {
        let has_room = self.sampler.inflight() + self.mss <= self.cwnd;
        let is_limited = is_deferred || !has_room;
        if is_limited || self.segments.start() >= self.limited_until {
            self.is_cwnd_limited = is_limited;
            self.limited_until = self.segments.end();
        }
        if self.app.pending_bytes == 0 && self.loss.lost == 0 && has_room {
            self.sampler.mark_app_limited();
        }
    }
}
