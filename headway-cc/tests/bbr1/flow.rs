//! One flow over one bottleneck, packet by packet: just enough to watch a controller behave.

use headway_cc::cc::bbr1::{Bbr1, Bbr1Params, Bbr1State};
use headway_cc::cc::{Ack, CaState, Control, Controller, Event};
use std::collections::VecDeque;

pub const MSS: u64 = 1_448;

/// A packet on its way, with what the transport noted when it was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    sent_us: u64,
    ack_us: u64,
    is_dropped: bool,
    delivered: u64,
    delivered_us: u64,
    first_sent_us: u64,
    is_app_limited: bool,
}

/// One event with the answer to it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub ack: Ack,
    pub control: Control,
    pub state: Bbr1State,
}

/// The flow and its path; the unit of data is the packet.
#[derive(Debug)]
pub struct Flow {
    cc: Bbr1,
    pub ack: Ack,
    sent: VecDeque<Sent>,
    next_send_us: u64,
    link_free_us: u64,
    first_sent_us: u64,
    app_limited_until: u64,
    recovery_until: u64,
    newly_lost: u64,
    tokens_us: u64,
    /// The bottleneck: time it takes for a packet, and its queue in packets.
    pub packet_us: u64,
    pub queue: u64,
    pub base_rtt_us: u64,
    /// A policer lets a packet through every so often, with a bucket of 10; 0 for none.
    pub policed_packet_us: u64,
    /// The application has data to send.
    pub has_data: bool,
}

impl Flow {
    /// 12 Mbit/s, 40 ms, a queue that holds what it must.
    pub fn new() -> Self {
        let ack = Ack {
            now_us: 1_000_000,
            unit_bytes: MSS,
            smss: 1,
            cwnd: 10,
            cwnd_clamp: u64::MAX,
            max_pacing_rate: u64::MAX,
            srtt_us: 40_000,
            min_rtt_us: 40_000,
            rand: 0xffff_ffff,
            ..Ack::default()
        };
        let mut flow = Self {
            cc: Bbr1::new(Bbr1Params::default()),
            ack,
            sent: VecDeque::new(),
            next_send_us: 0,
            link_free_us: 0,
            first_sent_us: 0,
            app_limited_until: 0,
            recovery_until: 0,
            newly_lost: 0,
            tokens_us: 0,
            packet_us: 1_000,
            queue: 10_000,
            base_rtt_us: 40_000,
            policed_packet_us: 0,
            has_data: true,
        };
        flow.tell(Event::Init);
        flow
    }

    pub fn state(&self) -> Bbr1State {
        Bbr1State::from_words(&self.cc.state()).expect("a whole state")
    }

    /// Runs until this much time has passed; every ACK is a step.
    pub fn run_us(&mut self, us: u64) -> Vec<Step> {
        let (until, mut steps) = (self.ack.now_us + us, Vec::new());
        while self.ack.now_us < until {
            match self.next_is_send() {
                Some(true) => self.send(),
                Some(false) => steps.extend(self.arrive()),
                None => self.ack.now_us = until,
            }
        }
        steps
    }

    /// Hands an event over and applies the answer.
    pub fn tell(&mut self, event: Event) -> Step {
        self.ack.event = event;
        let ack = self.ack;
        let control = self.cc.on_event(&ack);
        (self.ack.cwnd, self.ack.pacing_rate) = (control.cwnd, control.pacing_rate);
        if control.mark_app_limited {
            self.app_limited_until = self.ack.delivered + self.ack.inflight;
        }
        Step { ack, control, state: self.state() }
    }

    /// Whether a sending comes before the next arrival; `None` when nothing is left to happen.
    fn next_is_send(&mut self) -> Option<bool> {
        let may_send = self.has_data && self.ack.inflight < self.ack.cwnd;
        let send_us = self.next_send_us.max(self.ack.now_us);
        match self.sent.front() {
            Some(head) => Some(may_send && send_us < head.ack_us),
            None => may_send.then_some(true),
        }
    }

    fn send(&mut self) {
        self.ack.now_us = self.ack.now_us.max(self.next_send_us);
        let now_us = self.ack.now_us;
        if self.ack.inflight == 0 {
            (self.first_sent_us, self.ack.delivered_us) = (now_us, now_us);
            self.ack.is_app_limited = self.app_limited_until > self.ack.delivered;
            self.tell(Event::TxStart);
        }
        self.next_send_us = now_us + MSS * 1_000_000 / self.ack.pacing_rate.max(1);
        let is_dropped = self.is_policed() || self.link_free_us > now_us + self.queue * self.packet_us;
        if !is_dropped {
            self.link_free_us = self.link_free_us.max(now_us) + self.packet_us;
        }
        self.sent.push_back(Sent {
            sent_us: now_us,
            ack_us: self.link_free_us.max(now_us) + self.base_rtt_us - self.packet_us,
            is_dropped,
            delivered: self.ack.delivered,
            delivered_us: self.ack.delivered_us,
            first_sent_us: self.first_sent_us,
            is_app_limited: self.app_limited_until > self.ack.delivered,
        });
        self.ack.inflight += 1;
    }

    fn is_policed(&mut self) -> bool {
        if self.policed_packet_us == 0 {
            return false;
        }
        let now_us = self.ack.now_us;
        let earliest = now_us.saturating_sub(10 * self.policed_packet_us);
        self.tokens_us = self.tokens_us.max(earliest);
        if self.tokens_us + self.policed_packet_us > now_us {
            return true;
        }
        self.tokens_us += self.policed_packet_us;
        false
    }

    /// The head of the line reaches the receiver, or its loss is noticed there.
    fn arrive(&mut self) -> Option<Step> {
        let packet = self.sent.pop_front()?;
        self.ack.now_us = self.ack.now_us.max(packet.ack_us);
        if packet.is_dropped {
            self.newly_lost += 1;
            self.ack.lost += 1;
            self.ack.inflight -= 1;
            return None;
        }
        self.ack.prior_inflight = self.ack.inflight + self.newly_lost;
        self.ack.inflight -= 1;
        self.ack.delivered += 1;
        self.ack.delivered_us = self.ack.now_us;
        self.first_sent_us = packet.sent_us;
        if !self.has_data {
            self.app_limited_until = self.ack.delivered + self.ack.inflight.max(1);
        }
        self.recover();
        Some(self.acked(&packet))
    }

    fn recover(&mut self) {
        if self.newly_lost != 0 && self.ack.ca_state == CaState::Open {
            self.tell(Event::Ssthresh);
            self.ack.ca_state = CaState::Recovery;
            self.recovery_until = self.ack.delivered + self.ack.inflight;
        } else if self.ack.delivered >= self.recovery_until {
            self.ack.ca_state = CaState::Open;
        }
    }

    fn acked(&mut self, packet: &Sent) -> Step {
        let now_us = self.ack.now_us;
        self.ack.newly_acked = 1;
        self.ack.newly_lost = std::mem::take(&mut self.newly_lost);
        self.ack.rs_prior_delivered = packet.delivered;
        self.ack.rs_delivered = self.ack.delivered - packet.delivered;
        self.ack.rs_interval_us =
            (now_us - packet.delivered_us).max(packet.sent_us - packet.first_sent_us).max(1);
        self.ack.rs_rtt_us = now_us - packet.sent_us;
        self.ack.srtt_us = (self.ack.srtt_us * 7 + self.ack.rs_rtt_us) / 8;
        self.ack.rs_is_app_limited = packet.is_app_limited;
        self.tell(Event::Ack)
    }
}
