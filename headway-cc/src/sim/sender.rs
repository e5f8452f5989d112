//! The sending end of a flow: a model of Linux TCP with SACK as far as a controller can tell.
//!
//! It puts the parts together: the sampler measures, [`Loss`] decides what is lost, [`Pacer`] when to send, the
//! controller how much. Each event of the connection goes to the controller in the order in which Linux would tell it.

mod events;

use super::kernel_record::KernelRecord;
use super::logged_link::LoggedLink;
use super::loss::{Loss, Marked, News, Timer};
use super::pacer::Pacer;
use super::packet::Packet;
use super::rtt::Rtt;
use super::segment::Arrival;
use super::source::App;
use super::{FlowBin, FlowRun, FlowSpec, HANDSHAKE_BYTES, HEADER_BYTES, Signals, SimSpec};
use crate::cc::{CaState, Controller, Event, NO_RTT};
use crate::driver::Driver;
use crate::rand;
use crate::sampler::{Sampler, Sent};
use crate::sequence::SequenceBuffer;

/// Initial window, segments (RFC 6928).
const INITIAL_SEGMENTS: u64 = 10;
/// A burst may wait for more window only this soon after the last one (Linux `tcp_tso_should_defer`).
const DEFER_NS: u64 = 1_000_000;
/// The random stream of flow `i` is this plus `i`; links use small numbers.
const RANDOM_STREAM: u64 = 1 << 32;

/// The RTTs that an ACK measures.
#[derive(Clone, Copy, Debug)]
struct Rtts {
    /// Of the oldest and of the latest sent segment that it delivers, if that was never retransmitted.
    oldest_us: u64,
    latest_us: u64,
    /// It delivers a retransmission, too.
    is_blurred: bool,
}

impl Rtts {
    /// More segments are delivered, each at its first transmission: the RTTs of the first and of the last of them.
    #[inline]
    fn add(&mut self, oldest_us: u64, latest_us: u64) {
        self.latest_us = latest_us;
        if self.oldest_us == NO_RTT {
            self.oldest_us = oldest_us;
        }
    }
}

/// The sending end of one flow. Its fields stay in this order, what every packet needs before what is rarely looked at:
/// with a thousand flows each line of the cache that a packet touches is fetched from memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Sender {
    /// When pacing lets the next burst go; `u64::MAX` when nothing waits for that.
    pace_ns: u64,
    /// Segments and payload put on the wire, retransmissions included. They are not neighbours, as in
    /// [`LinkStats`](crate::link::LinkStats).
    sent_packets: u64,
    mss: u64,
    sent_bytes: u64,
    ce_seen: u64,
    /// Segment whose acknowledgement ends the window in which the limit was noted.
    limited_until: u64,
    random_seed: u64,
    events: u64,
    max_cwnd_bytes: u64,
    index: u32,
    is_ect: bool,
    is_cwnd_limited: bool,
    is_traced: bool,
    /// What stands in for the sampler's memory of each segment; `None` where the controller is told exactly.
    record: Option<Box<KernelRecord>>,
    pub(crate) app: App,
    driver: Driver,
    pacer: Pacer,
    sampler: Sampler,
    rtt: Rtt,
    loss: Loss,
    run: FlowRun,
    at_last_bin: FlowBin,
}

impl Sender {
    pub(crate) fn new(spec: &SimSpec, index: u32, flow: &FlowSpec, cc: Box<dyn Controller>) -> Self {
        let mss = u64::from(spec.mtu - HEADER_BYTES);
        let down = &spec.path.down;
        Self {
            sampler: Sampler::default(),
            rtt: Rtt::new(),
            loss: Loss::new(),
            pacer: Pacer::new(mss, flow.max_pacing_rate != u64::MAX),
            record: (spec.signals == Signals::Kernel).then(|| Box::new(KernelRecord::new(mss))),
            app: App::new(&flow.source, flow.start_us * 1000),
            driver: Driver::new(cc, INITIAL_SEGMENTS * mss, mss, flow.max_pacing_rate),
            mss,
            index,
            is_ect: down.ecn || down.ce_ns.is_some(),
            is_cwnd_limited: false,
            limited_until: 0,
            pace_ns: u64::MAX,
            ce_seen: 0,
            random_seed: rand::hash(spec.seed, RANDOM_STREAM + u64::from(index)),
            events: 0,
            is_traced: spec.trace,
            sent_packets: 0,
            sent_bytes: 0,
            max_cwnd_bytes: 0,
            run: FlowRun { cc: flow.cc.clone(), start_us: flow.start_us, ..Default::default() },
            at_last_bin: FlowBin::default(),
        }
    }

    /// When [`Sender::on_timers`] is due next; `u64::MAX` for never.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        let at = self.pace_ns.min(self.loss.timer_ns()).min(self.loss.reorder_ns());
        at.min(self.app.next_ns)
    }

    /// Smoothed RTT; 0 before the first sample.
    pub(crate) fn srtt_us(&self) -> u64 {
        self.rtt.srtt_us()
    }

    /// Does what is due.
    pub(crate) fn on_timers(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        if self.loss.reorder_ns() <= now_ns {
            self.on_reorder_timer(now_ns, down);
        }
        if self.loss.timer_ns() <= now_ns {
            self.on_loss_timer(now_ns, down);
        }
        if self.app.next_ns <= now_ns {
            self.on_write(now_ns, down);
        }
        if self.pace_ns <= now_ns {
            self.transmit(now_ns, down);
        }
    }

    /// Ends a bin of the time series. `delivered_bytes`: what the receiving application has got.
    pub(crate) fn close_bin(&mut self, t_us: u64, delivered_bytes: u64) {
        let total = FlowBin {
            t_us,
            delivered_bytes,
            sent_bytes: self.sent_bytes,
            retransmitted_packets: self.run.retransmitted_packets,
            cwnd_bytes: self.driver.cwnd(),
            inflight_bytes: self.sampler.inflight(),
            srtt_us: self.rtt.srtt_us(),
            pacing_rate: if self.pacer.is_paced() { self.pacer.rate() } else { u64::MAX },
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

    /// The flow's result. `delivered_bytes`: what the receiving application has got.
    pub(crate) fn finish(mut self, delivered_bytes: u64) -> FlowRun {
        (self.run.sent_packets, self.run.sent_bytes) = (self.sent_packets, self.sent_bytes);
        self.run.delivered_bytes = delivered_bytes;
        self.run.max_cwnd_bytes = self.max_cwnd_bytes;
        self.run.finished_us = self.app.ends.finished_ns.map(|ns| ns / 1000);
        self.run.min_rtt_us = if self.rtt.min_us == NO_RTT { 0 } else { self.rtt.min_us };
        self.run.max_rtt_us = self.rtt.max_us;
        self.run.mean_rtt_us = self.rtt.mean_us();
        self.run.rtt_counts = self.rtt.counts.to_vec();
        self.run.messages = self.app.ends.arrived;
        self.run.state = self.driver.controller().state();
        self.run
    }
}

/// Connecting.
impl Sender {
    fn on_write(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        self.app.write(now_ns);
        if self.run.connected_us.is_some() {
            self.transmit(now_ns, down);
        } else if self.loss.timer_ns() == u64::MAX {
            self.send_syn(now_ns, down);
        }
    }

    /// Opens the connection, again after a timeout that doubles.
    fn send_syn(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        down.push(now_ns, HANDSHAKE_BYTES, false, Packet::Syn { flow: self.index, sent_ns: now_ns });
        self.loss.arm_handshake(now_ns, &self.rtt);
    }

    /// The SYN that left at `syn_sent_ns` is answered. The handshake's RTT is known when the controller is
    /// initialised, as in Linux. A second answer says nothing new.
    pub(crate) fn on_syn_ack(&mut self, now_ns: u64, syn_sent_ns: u64, down: &mut LoggedLink<Packet>) {
        if self.run.connected_us.is_some() {
            return;
        }
        let rtt_us = (now_ns - syn_sent_ns) / 1000;
        self.run.connected_us = Some(now_ns / 1000);
        self.rtt.on_latest(rtt_us);
        self.rtt.on_oldest(rtt_us, 0, 0);
        self.loss.on_connected();
        self.dispatch(Event::Init, now_ns);
        self.transmit(now_ns, down);
    }
}

/// Acknowledgements.
impl Sender {
    /// An ACK reports every arrival up to position `log_end` of the receiver's `log`. The order of steps is that of
    /// Linux `tcp_ack`.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        now_ns: u64,
        (log, log_end): (&mut SequenceBuffer<Arrival>, u64),
        ce_bytes: u64,
        is_duplicate: bool,
        down: &mut LoggedLink<Packet>,
    ) {
        self.sampler.begin();
        let mut news = News { is_duplicate, ..News::default() };
        let rtts = self.read_log(now_ns / 1000, log, log_end, &mut news);
        if ce_bytes > self.ce_seen {
            self.sampler.on_ce(ce_bytes - self.ce_seen);
            self.ce_seen = ce_bytes;
            news.has_ce = true;
        }
        let rtt_us = self.update_rtt(&rtts);
        self.update_recovery(now_ns, &news);
        self.dispatch_ack(now_ns, rtt_us);
        let nxt = self.loss.nxt();
        self.transmit(now_ns, down);
        if news.is_advance || self.loss.nxt() > nxt {
            self.loss.arm(now_ns, &self.rtt);
        }
    }

    /// Takes note of every arrival that an ACK reports, in the order in which they arrived.
    #[inline]
    fn read_log(
        &mut self,
        now_us: u64,
        log: &mut SequenceBuffer<Arrival>,
        log_end: u64,
        news: &mut News,
    ) -> Rtts {
        let mut rtts = Rtts { oldest_us: NO_RTT, latest_us: NO_RTT, is_blurred: false };
        let (mut i, una) = (log.start(), self.loss.una());
        while i < log_end {
            let reported = (&*log, i, log_end);
            if let Some(run) = self.loss.on_run_delivered(reported, now_us, &self.rtt, &self.sampler) {
                self.sampler.on_delivered(now_us, &run.newest, true);
                self.note_sample(run.last, &run.newest, false);
                rtts.add(now_us - run.oldest_sent_us, now_us - run.newest.sent_us);
                i += run.segments;
            } else {
                self.deliver(now_us, log[i], &mut rtts, news);
                i += 1;
            }
        }
        log.forget_before(log_end);
        news.is_advance = self.loss.advance(una);
        rtts
    }

    /// Takes note of one arrival. Not inlined, because few arrivals are in no run.
    #[inline(never)]
    fn deliver(&mut self, now_us: u64, arrival: Arrival, rtts: &mut Rtts, news: &mut News) {
        let delivered = self.loss.on_delivered(arrival, now_us, &self.rtt, &self.sampler);
        self.sampler.on_delivered(now_us, &delivered.sent, delivered.was_in_flight);
        self.note_sample(arrival.seq(), &delivered.sent, delivered.is_retransmission);
        news.is_spurious |= delivered.is_spurious;
        if delivered.is_retransmission {
            rtts.is_blurred = true;
            return;
        }
        let rtt_us = now_us - delivered.sent.sent_us;
        rtts.add(rtt_us, rtt_us);
    }

    /// Keeps on record which packet the ACK's sample is about, if it is this one.
    #[inline]
    fn note_sample(&mut self, seq: u64, sent: &Sent, is_retransmission: bool) {
        if let Some(record) = &mut self.record
            && self.sampler.newest() == Some(sent)
        {
            record.on_delivered(seq, sent.delivered, is_retransmission);
        }
    }

    /// The sample for the controller: the RTT of the latest segment. A retransmission leaves open which transmission
    /// is answered (Karn's algorithm, RFC 6298), so where one is among the segments the smoothed RTT learns nothing.
    #[inline]
    fn update_rtt(&mut self, rtts: &Rtts) -> u64 {
        if rtts.latest_us != NO_RTT {
            self.rtt.on_latest(rtts.latest_us);
            if !rtts.is_blurred {
                self.rtt.on_oldest(rtts.oldest_us, self.loss.una(), self.loss.nxt());
            }
        }
        rtts.latest_us
    }

    /// The order of steps is that of Linux `tcp_fastretrans_alert`.
    #[inline]
    fn update_recovery(&mut self, now_ns: u64, news: &News) {
        if self.loss.settle_probe(news) {
            self.tell_repaired(now_ns, self.mss);
            self.dispatch(Event::Ssthresh, now_ns);
        }
        self.loss.adapt_reordering_window(news, &self.sampler);
        if self.loss.is_spurious(news) {
            self.sampler.on_undone(self.loss.undo());
            self.dispatch(Event::Undo, now_ns);
        } else {
            self.loss.leave_recovery();
        }
        self.detect_losses(now_ns);
        if let Some(ca_state) = self.loss.next_reduction(news) {
            self.reduce(now_ns, ca_state);
        }
    }

    #[inline]
    fn detect_losses(&mut self, now_ns: u64) {
        self.loss.detect(now_ns / 1000, &self.rtt);
        if self.loss.has_marked() {
            self.count_marked(now_ns / 1000);
        }
    }

    /// Counts the segments just marked lost. The controller hears of each by itself, unless it is to know only what a
    /// stock kernel's glue can tell.
    fn count_marked(&mut self, now_us: u64) {
        let marked = self.loss.take_marked();
        for &Marked { seq, starts_range } in &marked {
            let sent = self.loss.sent(seq, now_us, &self.sampler);
            self.sampler.on_lost(sent.bytes);
            if self.record.is_none() {
                self.tell_lost(now_us, &sent, starts_range);
            }
        }
        self.loss.give_back(marked);
    }

    /// The controller hears of the reduction while the state is still the old one, as in Linux.
    fn reduce(&mut self, now_ns: u64, ca_state: CaState) {
        self.dispatch(Event::Ssthresh, now_ns);
        self.loss.enter(ca_state);
    }
}

/// Timers.
impl Sender {
    fn on_reorder_timer(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        self.sampler.begin();
        self.detect_losses(now_ns);
        if self.loss.lost() > 0 && self.loss.ca_state() < CaState::Recovery {
            self.reduce(now_ns, CaState::Recovery);
        }
        self.transmit(now_ns, down);
        if self.loss.is_timeout_unarmed() {
            self.loss.arm(now_ns, &self.rtt);
        }
    }

    fn on_loss_timer(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        match self.loss.fire() {
            Timer::Handshake => return self.send_syn(now_ns, down),
            _ if self.loss.is_all_acked() => return,
            Timer::Probe => self.send_probe(now_ns, down),
            Timer::Timeout => self.on_timeout(now_ns, down),
        }
        self.loss.arm(now_ns, &self.rtt);
    }

    /// The probe is new data if there is some, whatever the window says, else the last segment again.
    fn send_probe(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        let is_new = self.send_new(now_ns, 1, down) > 0;
        if !is_new && let Some(last) = self.loss.take_last() {
            self.resend(now_ns, last, down);
        }
        self.loss.on_probe_sent(!is_new);
    }

    /// The window becomes one segment more than what stays in flight, whatever the controller says to the reduction
    /// (Linux `tcp_enter_loss`).
    fn on_timeout(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        self.run.timeouts += 1;
        let is_new = self.loss.on_timeout(now_ns / 1000);
        self.count_marked(now_ns / 1000);
        if is_new {
            self.dispatch(Event::Ssthresh, now_ns);
        }
        self.driver.set_cwnd(self.sampler.inflight() + self.loss.oldest_bytes());
        self.loss.enter_loss(is_new);
        self.dispatch(Event::Loss, now_ns);
        let bytes = self.retransmit_lost(now_ns, 1, down);
        if bytes > 0 {
            self.pacer.on_burst(now_ns, bytes, self.sent_packets);
        }
    }
}

/// Sending.
impl Sender {
    /// Sends what window, pacing and application allow; retransmissions first.
    fn transmit(&mut self, now_ns: u64, down: &mut LoggedLink<Packet>) {
        let mut is_deferred = false;
        loop {
            if let Some(pace_ns) = self.pacer.not_before_ns(now_ns) {
                self.pace_ns = pace_ns;
                break;
            }
            self.pace_ns = u64::MAX;
            let room = self.room_segments();
            let bytes = if self.loss.lost() > 0 {
                self.retransmit_lost(now_ns, room, down)
            } else if self.should_defer(now_ns, room) {
                is_deferred = true;
                0
            } else {
                self.send_new(now_ns, room, down)
            };
            if bytes == 0 {
                break;
            }
            self.pacer.on_burst(now_ns, bytes, self.sent_packets);
        }
        self.note_limits(is_deferred);
    }

    /// Whole segments that fit into the window, but no more than a burst.
    #[inline]
    fn room_segments(&self) -> u64 {
        let room = self.driver.cwnd().saturating_sub(self.sampler.inflight());
        let burst_segments = self.pacer.burst_segments();
        if room >= burst_segments * self.mss { burst_segments } else { room / self.mss }
    }

    /// Linux `tcp_tso_should_defer`: a burst cut short by the window waits for more ACKs if one is near.
    #[inline]
    fn should_defer(&self, now_ns: u64, room: u64) -> bool {
        if room == 0
            || room >= self.pacer.burst_segments()
            || self.loss.ca_state() >= CaState::Recovery
            || self.loss.is_all_acked()
            || self.app.pending_bytes <= room * self.mss
            || now_ns > self.pacer.last_burst_ns() + DEFER_NS
            || room * self.mss * 3 >= self.driver.cwnd()
        {
            return false;
        }
        let now_us = now_ns / 1000;
        now_us - self.loss.oldest_sent_us(now_us) >= self.rtt.srtt_us() / 2
    }

    /// Sends up to `count` new segments; the bytes sent.
    fn send_new(&mut self, now_ns: u64, count: u64, down: &mut LoggedLink<Packet>) -> u64 {
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
            let seq = self.loss.on_sent(&sent);
            self.put(now_ns, seq, 0, size, down);
            bytes += u64::from(size);
        }
        if self.loss.timer_ns() == u64::MAX {
            self.loss.arm(now_ns, &self.rtt);
        }
        bytes
    }

    /// Sends up to `count` lost segments again; the bytes sent.
    fn retransmit_lost(&mut self, now_ns: u64, count: u64, down: &mut LoggedLink<Packet>) -> u64 {
        let mut bytes = 0;
        for _ in 0..count {
            let Some(seq) = self.loss.take_lost() else { break };
            bytes += self.resend(now_ns, seq, down);
        }
        bytes
    }

    fn resend(&mut self, now_ns: u64, seq: u64, down: &mut LoggedLink<Packet>) -> u64 {
        self.start_after_idle(now_ns);
        let (size, is_in_flight) = self.loss.before_resending(seq);
        if is_in_flight {
            self.sampler.on_replaced(size);
        }
        let tx = self.loss.on_resent(seq, &self.sampler.on_sent(now_ns / 1000, size));
        self.run.retransmitted_packets += 1;
        self.run.retransmitted_bytes += u64::from(size);
        self.put(now_ns, seq, tx, size, down);
        u64::from(size)
    }

    #[inline]
    fn put(&mut self, now_ns: u64, seq: u64, tx: u8, size: u32, down: &mut LoggedLink<Packet>) {
        self.sent_packets += 1;
        self.sent_bytes += u64::from(size);
        let packet = Packet::Segment { flow: self.index, seq, bytes: size as u16, tx };
        down.push(now_ns, size + HEADER_BYTES, self.is_ect, packet);
    }

    /// Nothing is in flight: the controller hears of it. A window that nothing paces shrinks by half for every
    /// timeout of silence, since what it was measured on is gone and nothing spreads the burst (RFC 2861; Linux
    /// `tcp_cwnd_restart`, which spares controllers that set their own rate).
    fn start_after_idle(&mut self, now_ns: u64) {
        if self.sampler.inflight() > 0 {
            return;
        }
        if !self.pacer.is_paced() && self.loss.is_all_acked() && self.loss.nxt() > 0 {
            let rto_ns = self.rtt.rto_us(0) * 1000;
            let mut idle_ns = now_ns - self.pacer.last_burst_ns();
            let mut cwnd = self.driver.cwnd();
            let least = cwnd.min(INITIAL_SEGMENTS * self.mss);
            while idle_ns > rto_ns && cwnd > least {
                idle_ns -= rto_ns;
                cwnd = (cwnd / 2).max(least);
            }
            self.driver.set_cwnd(cwnd);
        }
        self.dispatch(Event::TxStart, now_ns);
    }

    /// What kept the sender from sending more: the window (Linux `tcp_cwnd_validate`) or the application.
    #[inline]
    fn note_limits(&mut self, is_deferred: bool) {
        let has_room = self.sampler.inflight() + self.mss <= self.driver.cwnd();
        let is_limited = is_deferred || !has_room;
        if is_limited || self.loss.una() >= self.limited_until {
            self.is_cwnd_limited = is_limited;
            self.limited_until = self.loss.nxt();
        }
        if self.app.pending_bytes == 0 && self.loss.lost() == 0 && has_room {
            self.sampler.mark_app_limited();
        }
    }
}
