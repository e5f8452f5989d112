//! Seeded streams of events: plausible connections, some of them with hostile values mixed in.
//!
//! A connection here is a crude model of a bottleneck, good enough that a controller passes through all of its
//! modes. Window and pacing rate are those that the controller under test asked for.

use headway_cc::cc::{Ack, CaState, Control, Controller, Event, NO_RTT};

/// How a transport counts data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Packets,
    Bytes,
}

/// A stream of `lines` events; the controller made by `new` answers to it on the way.
pub fn stream(seed: u64, unit: Unit, lines: usize, new: &dyn Fn() -> Box<dyn Controller>) -> Vec<Ack> {
    let mut rng = Rng(seed);
    let mut acks = Vec::with_capacity(lines);
    let mut cc = new();
    while acks.len() < lines {
        let length = rng.range(500, 8_000) as usize;
        let mut flow = Flow::new(&mut rng, unit);
        for _ in 0..length.min(lines - acks.len()) {
            let event = flow.next(&mut rng);
            let event = flow.spoil(&mut rng, event);
            let control = cc.on_event(&event);
            flow.obey(&event, &control);
            acks.push(event);
        }
    }
    acks
}

/// splitmix64: small, seedable, good enough to scatter events.
#[derive(Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform, both ends included.
    pub fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from + 1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.next() % of.len() as u64) as usize]
    }
}

/// One connection over one bottleneck.
#[derive(Debug)]
struct Flow {
    /// What the next event is built on: totals, times, window.
    ack: Ack,
    /// A connection whose handshake has measured no RTT goes on without one until this much is delivered.
    no_rtt_until: u64,
    started: bool,
    /// The bottleneck: time it takes for a segment, propagation delay, queue in segments.
    segment_us: u64,
    base_rtt_us: u64,
    queue_segs: u64,
    /// How long the bottleneck takes for what other connections keep in its queue.
    rival_us: u64,
    /// One loss in this many segments beyond those of the full queue; 0 for none.
    loss_one_in: u64,
    /// From time to time a policer drops so many percent more.
    policed_percent: u64,
    /// Events for which the application has little to send.
    app_limited_for: u64,
    /// `delivered` at which recovery ends.
    recovery_until: u64,
    /// While the queue is long, one unit of data in this many is marked by ECN; 0 for none.
    ce_one_in: u64,
    /// Events that must come before the next ACK.
    pending: Vec<Event>,
    /// An ACK that reveals losses, held back until the events that tell of them are out.
    revealed: Vec<Ack>,
    /// A few hundred bytes per second, unsteady: where the absolute thresholds of bandwidth matter.
    is_trickle: bool,
    /// One hostile event in this many; 0 for none.
    hostile_one_in: u64,
}

impl Flow {
    fn new(rng: &mut Rng, unit: Unit) -> Self {
        let mss = rng.pick(&[88, 536, 1_200, 1_448, 1_448, 8_948]);
        let (unit_bytes, smss) = if unit == Unit::Packets { (mss, 1) } else { (1, mss) };
        let base_rtt_us = rng.pick(&[0, 50, 2_000, 20_000, 40_000, 180_000]) + rng.range(1, 999);
        let ack = Ack {
            now_us: rng.next() >> rng.range(24, 60),
            unit_bytes,
            smss,
            cwnd: 10 * smss,
            cwnd_clamp: rng.pick(&[u64::from(u32::MAX), u64::MAX, 40 * smss]),
            max_pacing_rate: rng.pick(&[u64::MAX, u64::MAX, 2_000_000]),
            srtt_us: rng.pick(&[0, base_rtt_us]),
            min_rtt_us: rng.pick(&[NO_RTT, base_rtt_us]),
            has_selective_acks: !rng.one_in(6),
            ..Ack::default()
        };
        let mut flow = Self {
            no_rtt_until: if ack.srtt_us == 0 { 30 * smss } else { 0 },
            ack,
            started: false,
            segment_us: rng.pick(&[1, 12, 120, 1_200, 6_000, 100_000]),
            base_rtt_us,
            queue_segs: rng.pick(&[4, 30, 200, 2_000]),
            rival_us: 0,
            loss_one_in: rng.pick(&[0, 0, 10_000, 100]),
            policed_percent: rng.pick(&[0, 0, 25, 40]),
            app_limited_for: 0,
            recovery_until: 0,
            ce_one_in: rng.pick(&[0, 0, 1, 30]),
            pending: vec![Event::Init],
            revealed: Vec::new(),
            is_trickle: false,
            hostile_one_in: rng.pick(&[0, 0, 1_000, 5]),
        };
        if rng.one_in(10) {
            flow.become_trickle(unit);
        }
        flow
    }

    fn become_trickle(&mut self, unit: Unit) {
        let mss = 88;
        (self.ack.unit_bytes, self.ack.smss) = if unit == Unit::Packets { (mss, 1) } else { (1, mss) };
        (self.segment_us, self.base_rtt_us, self.queue_segs) = (100_000, 50, 8);
        (self.policed_percent, self.hostile_one_in, self.is_trickle) = (40, 0, true);
    }

    /// The next plausible event.
    fn next(&mut self, rng: &mut Rng) -> Ack {
        if let Some(ack) = self.revealed.pop() {
            return Ack { cwnd: self.ack.cwnd, pacing_rate: self.ack.pacing_rate, ..ack };
        }
        self.ack.rand = rng.next() >> if self.hostile_one_in == 0 { 32 } else { 0 };
        self.ack.event = self.pending.pop().unwrap_or(Event::Ack);
        if self.ack.event == Event::Ack && self.started && self.ack.inflight == 0 {
            self.ack.now_us += rng.range(0, 12_000_000);
            self.ack.is_app_limited = !rng.one_in(8);
            self.ack.inflight = self.ack.smss;
            self.ack.event = Event::TxStart;
        }
        self.started = true;
        if self.ack.event == Event::Ack {
            self.acked(rng);
            if self.ack.newly_lost != 0 {
                self.reveal(rng);
                return self.next(rng);
            }
        }
        self.ack
    }

    /// The losses of an ACK come before it, as one event, which is how our TCP glue tells of them, or as one for each
    /// segment.
    fn reveal(&mut self, rng: &mut Rng) {
        let lost = self.ack.newly_lost;
        let size = if rng.one_in(2) { lost } else { self.ack.smss.max(lost / 16) };
        let mut told = Vec::new();
        let mut rest = lost;
        while rest > 0 {
            let newly_lost = size.min(rest);
            rest -= newly_lost;
            told.push(Ack {
                event: Event::Lost,
                newly_lost,
                newly_acked: 0,
                rs_lost: self.ack.rs_lost.saturating_sub(rest),
                rs_delivered: 0,
                rs_interval_us: 0,
                rs_rtt_us: NO_RTT,
                rs_starts_lost_range: !rng.one_in(3),
                ..self.ack
            });
        }
        // In the kernel the reduction comes before the ACK that caused it, elsewhere after.
        self.revealed.push(self.ack);
        if self.pending == [Event::Ssthresh] && rng.one_in(2) {
            self.pending.clear();
            self.revealed.push(Ack {
                event: Event::Ssthresh,
                ca_state: CaState::Open,
                newly_acked: 0,
                ..self.ack
            });
        }
        self.revealed.extend(told.into_iter().rev());
    }

    /// An ACK: time passes, data arrives, some is lost, more is sent.
    fn acked(&mut self, rng: &mut Rng) {
        let (smss, prior_inflight) = (self.ack.smss, self.ack.inflight.max(self.ack.smss));
        let most = if rng.one_in(40) { 64 } else { 3 };
        let acked = (rng.range(1, most) * smss).min(prior_inflight);
        let bytes = acked.saturating_mul(self.ack.unit_bytes);
        let paced_us = bytes.saturating_mul(1_000_000) / self.ack.pacing_rate.max(1_000);
        let link_us = acked / smss * self.segment_us;
        let dt_us = if prior_inflight > 4 * smss { link_us } else { link_us.max(paced_us.min(1_000_000)) };
        self.ack.now_us += dt_us + rng.range(0, 1) * self.segment_us / 8;
        self.ack.delivered += acked;
        self.ack.newly_acked = acked;
        self.ack.prior_inflight = prior_inflight;
        self.ack.inflight = prior_inflight - acked;
        self.lose(rng);
        self.sample(rng, prior_inflight);
        self.send(rng, dt_us);
        self.change(rng);
    }

    /// Losses, and the recovery or timeout that follows from them.
    fn lose(&mut self, rng: &mut Rng) {
        let smss = self.ack.smss;
        let pipe_segs = self.base_rtt_us / self.segment_us + self.queue_segs;
        let over = (self.ack.inflight / smss).saturating_sub(pipe_segs);
        let random = u64::from(self.loss_one_in != 0 && rng.one_in(self.loss_one_in.max(1)));
        let policed =
            if rng.one_in(3) { self.ack.newly_acked / smss * 3 * self.policed_percent / 100 } else { 0 };
        self.ack.newly_lost = ((over + random + policed) * smss).min(self.ack.inflight);
        self.ack.inflight -= self.ack.newly_lost;
        self.ack.lost += self.ack.newly_lost;
        if self.ack.ca_state >= CaState::Recovery && self.ack.delivered >= self.recovery_until {
            if rng.one_in(60) {
                self.pending.push(Event::Undo);
            }
            self.ack.ca_state = CaState::Open;
        }
        if self.ack.newly_lost != 0 && self.ack.ca_state < CaState::Recovery {
            self.recovery_until = self.ack.delivered + self.ack.inflight;
            if rng.one_in(20) {
                // A timeout: the events come in this order, and the transport cuts the window itself.
                self.pending.extend([Event::Loss, Event::Ssthresh]);
                self.ack.ca_state = CaState::Loss;
                self.ack.cwnd = self.ack.inflight + smss;
            } else {
                self.pending.push(Event::Ssthresh);
                self.ack.ca_state = CaState::Recovery;
            }
        }
    }

    /// RTT and delivery-rate sample.
    fn sample(&mut self, rng: &mut Rng, prior_inflight: u64) {
        let queue_us = (prior_inflight / self.ack.smss * self.segment_us).saturating_sub(self.base_rtt_us);
        let jitter_us = if rng.one_in(200) { 0 } else { 1 + rng.range(0, self.base_rtt_us / 16) };
        let rtt_us = self.base_rtt_us + self.rival_us + queue_us + jitter_us;
        let has_rtt = !rng.one_in(30) && self.ack.delivered >= self.no_rtt_until;
        self.ack.rs_rtt_us = if has_rtt { rtt_us } else { NO_RTT };
        self.ack.srtt_us = if self.ack.srtt_us == 0 { rtt_us } else { (self.ack.srtt_us * 7 + rtt_us) / 8 };
        self.ack.min_rtt_us = self.ack.min_rtt_us.min(self.ack.rs_rtt_us);
        self.ack.delivered_us = self.ack.now_us - rng.range(0, 1) * (self.ack.now_us % 3);
        self.ack.rs_prior_delivered = self.ack.delivered.saturating_sub(prior_inflight);
        self.ack.rs_delivered = self.ack.delivered - self.ack.rs_prior_delivered;
        self.ack.rs_interval_us = if rng.one_in(50) { 0 } else { rtt_us };
        let earlier =
            if self.ack.ca_state >= CaState::Recovery { rng.range(0, 3) * self.ack.smss } else { 0 };
        self.ack.rs_lost = self.ack.newly_lost + earlier;
        self.ack.rs_tx_in_flight = if rng.one_in(40) { 0 } else { prior_inflight };
        let is_marked = self.ce_one_in != 0 && queue_us > 0 && rng.one_in(self.ce_one_in);
        let marked = if is_marked { self.ack.newly_acked } else { 0 };
        self.ack.delivered_ce += marked;
        self.ack.rs_delivered_ce = (marked * rng.range(1, 8)).min(self.ack.rs_delivered);
        self.ack.rs_is_ack_delayed = rng.one_in(10);
        self.ack.rs_is_app_limited = self.app_limited_for != 0;
        self.ack.edt_us = if rng.one_in(3) { rng.range(0, 3_000) } else { 0 };
    }

    /// New data leaves, as window and pacing allow.
    fn send(&mut self, rng: &mut Rng, dt_us: u64) {
        let paced = self.ack.pacing_rate.min(1 << 40) / self.ack.unit_bytes * dt_us.min(1 << 20) / 1_000_000;
        let room = self.ack.cwnd.min(1 << 40).saturating_sub(self.ack.inflight);
        let mut sent = (paced + self.ack.newly_acked).min(room);
        self.app_limited_for = self.app_limited_for.saturating_sub(1);
        if self.app_limited_for == 0 && rng.one_in(1_500) {
            self.app_limited_for = rng.range(1, 300);
        }
        self.ack.is_app_limited = self.app_limited_for != 0;
        if self.app_limited_for != 0 {
            sent = sent.min(rng.range(0, 1) * self.ack.smss);
        }
        self.ack.is_cwnd_limited = sent == room;
        self.ack.inflight += sent;
    }

    /// The path changes now and then.
    fn change(&mut self, rng: &mut Rng) {
        if self.is_trickle && rng.one_in(60) {
            self.segment_us = rng.range(60_000, 180_000);
        } else if !self.is_trickle && rng.one_in(2_000) {
            self.segment_us = (self.segment_us * rng.range(1, 4) / rng.range(1, 4)).max(1);
            self.policed_percent = rng.pick(&[0, 0, 30]);
        }
        if !self.is_trickle && rng.one_in(300) {
            // Another flow comes and takes half, or goes.
            let is_here = self.rival_us > 0;
            self.rival_us = if is_here { 0 } else { self.base_rtt_us };
            self.segment_us = if is_here { (self.segment_us / 2).max(1) } else { self.segment_us * 2 };
        }
        if rng.one_in(3_000) {
            self.ack.now_us += rng.range(0, 20_000_000);
        }
    }

    /// Replaces some fields by hostile values, in hostile connections.
    fn spoil(&mut self, rng: &mut Rng, ack: Ack) -> Ack {
        if self.hostile_one_in == 0 || !rng.one_in(self.hostile_one_in) {
            return ack;
        }
        let mut words = ack.words();
        for _ in 0..rng.range(1, 3) {
            let at = rng.range(0, words.len() as u64 - 1) as usize;
            let word = words[at];
            words[at] = match rng.range(0, 7) {
                0 => rng.pick(&[0, 1, 2, 3, 4, 5, 6]),
                1 => rng.pick(&[NO_RTT - 1, NO_RTT, NO_RTT + 1]),
                2 => rng.pick(&[1 << 63, u64::MAX - 1, u64::MAX]),
                3 => word.wrapping_add(1),
                4 => word.wrapping_sub(rng.range(1, 1_000_000)),
                5 => word << rng.range(1, 40),
                6 => word >> rng.range(1, 10),
                _ => rng.next() >> rng.range(0, 63),
            };
        }
        legal(&words)
    }

    /// The transport applies a control, within reason.
    fn obey(&mut self, event: &Ack, control: &Control) {
        let most = self.ack.smss << 24;
        self.ack.cwnd = control.cwnd.clamp(self.ack.smss, most);
        self.ack.pacing_rate = control.pacing_rate;
        if event.event == Event::Loss {
            self.ack.cwnd = (self.ack.inflight + self.ack.smss).min(most);
        }
    }
}

/// The event of these words. A flag has two values, a state of recovery five, and there are seven events: a word
/// beyond them is brought among them.
pub fn legal(words: &[u64]) -> Ack {
    let (mut legal, none) = (words.to_vec(), Ack::default().words());
    for at in 0..words.len() {
        let is_legal =
            |word: u64| Ack::from_words(&[&none[..at], &[word], &none[at + 1..]].concat()).is_some();
        let mut values = [words[at], words[at] % 7, words[at] % 5, words[at] % 2].into_iter();
        legal[at] = values.find(|word| is_legal(*word)).expect("a flag of 0 or 1");
    }
    Ack::from_words(&legal).expect("as many words as fields")
}
