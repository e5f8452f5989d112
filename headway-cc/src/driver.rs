//! What stands between a transport and a controller: it puts each event together from what the transport knows and
//! what the [`Sampler`] counts, hands it over, and keeps what the controller answered within the host's bounds.
//!
//! The simulator and the QUIC adapters both go through it, so that a controller is told the same things in the same
//! units by both. It counts data in bytes, reads no clock, and neither sends nor paces: the transport does, by
//! [`Driver::cwnd`] and [`Driver::control`].
//!
//! ```
//! use headway_cc::cc::{Event, controller};
//! use headway_cc::driver::{Driver, Moment};
//! use headway_cc::sampler::Sampler;
//!
//! let mut sampler = Sampler::default();
//! let mut driver = Driver::new(controller("bbr3")?, 14_480, 1448, u64::MAX);
//! let start = Moment { now_us: 1, srtt_us: 40_000, ..Moment::default() };
//! let init = driver.event(Event::Init, &start, &sampler);
//! driver.tell(&init, &mut sampler);
//! assert!(driver.control().pacing_rate > 0);
//! # Ok::<(), headway_cc::cc::ControllerError>(())
//! ```

use crate::cc::{Ack, CaState, Control, Controller, Event, NO_RTT};
use crate::sampler::{Sampler, Sent};

/// What a transport knows at the moment of an event, beside what the sampler counts.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The transport's clock; above 0, which controllers take as "never".
    pub now_us: u64,
    /// Smoothed RTT; 0 before the first sample.
    pub srtt_us: u64,
    /// Smallest RTT; [`NO_RTT`] before the first sample.
    pub min_rtt_us: u64,
    /// The state of loss recovery.
    pub ca_state: CaState,
    /// The window, not the application, kept the sender from sending more in the last round.
    pub is_cwnd_limited: bool,
    /// How far in the future the next departure is scheduled already.
    pub edt_us: u64,
    /// 32 random bits.
    pub rand: u64,
}

impl Default for Moment {
    fn default() -> Self {
        Self {
            now_us: 0,
            srtt_us: 0,
            min_rtt_us: NO_RTT,
            ca_state: CaState::Open,
            is_cwnd_limited: false,
            edt_us: 0,
            rand: 0,
        }
    }
}

/// A controller, and what it has decided.
#[derive(Debug)]
pub struct Driver {
    cc: Box<dyn Controller>,
    control: Control,
    cwnd: u64,
    smss: u64,
    max_pacing_rate: u64,
}

impl Driver {
    /// `cwnd`: the window before the first event; `smss`: the largest packet, both in bytes. `max_pacing_rate`: bytes
    /// a second; `u64::MAX` for no bound.
    pub fn new(cc: Box<dyn Controller>, cwnd: u64, smss: u64, max_pacing_rate: u64) -> Self {
        Self { cc, control: Control::default(), cwnd, smss, max_pacing_rate: max_pacing_rate.max(1) }
    }

    /// A driver of a copy of the controller in its present state, with the same window.
    pub fn copied(&self) -> Self {
        Self { cc: self.cc.clone_box(), ..*self }
    }

    /// The window in force, bytes.
    #[inline]
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// Sets the window where the transport, not the controller, decides on it: after a timeout or a long silence.
    #[inline]
    pub fn set_cwnd(&mut self, cwnd: u64) {
        self.cwnd = cwnd;
    }

    /// What the controller said last, its rate within the bound.
    #[inline]
    pub fn control(&self) -> Control {
        self.control
    }

    /// The largest packet, bytes.
    #[inline]
    pub fn smss(&self) -> u64 {
        self.smss
    }

    /// The path takes larger or smaller packets; the window stays at least one of them.
    pub fn set_smss(&mut self, smss: u64) {
        self.smss = smss;
        self.cwnd = self.cwnd.max(smss);
    }

    /// The controller, to ask it for its state.
    pub fn controller(&self) -> &dyn Controller {
        &*self.cc
    }

    /// An event with everything that all events have in common.
    #[inline]
    pub fn event(&self, event: Event, at: &Moment, sampler: &Sampler) -> Ack {
        let mut ack = self.blank(event, at);
        sampler.fill_counters(&mut ack);
        ack
    }

    /// The event of an ACK: the sampler's work on it ends with this. `rs_rtt_us`: the RTT that it measures, or
    /// [`NO_RTT`].
    #[inline]
    pub fn ack(&self, at: &Moment, sampler: &mut Sampler, rs_rtt_us: u64) -> Ack {
        let mut ack = self.blank(Event::Ack, at);
        ack.rs_rtt_us = rs_rtt_us;
        sampler.fill(&mut ack, at.min_rtt_us);
        ack
    }

    /// The event of a packet that [`Sampler::on_lost`] has just counted. `starts_range`: it does not follow the one
    /// that was marked lost before it.
    #[inline]
    pub fn lost(&self, at: &Moment, sampler: &Sampler, sent: &Sent, starts_range: bool) -> Ack {
        let mut ack = self.blank(Event::Lost, at);
        ack.rs_starts_lost_range = starts_range;
        sampler.fill_lost(&mut ack, sent);
        ack
    }

    #[inline]
    fn blank(&self, event: Event, at: &Moment) -> Ack {
        Ack {
            event,
            now_us: at.now_us,
            unit_bytes: 1,
            smss: self.smss,
            cwnd: self.cwnd,
            cwnd_clamp: u64::MAX,
            pacing_rate: self.control.pacing_rate,
            max_pacing_rate: self.max_pacing_rate,
            srtt_us: at.srtt_us,
            min_rtt_us: at.min_rtt_us,
            rs_rtt_us: NO_RTT,
            is_cwnd_limited: at.is_cwnd_limited,
            has_selective_acks: true,
            ca_state: at.ca_state,
            edt_us: at.edt_us,
            rand: at.rand,
            ..Ack::default()
        }
    }

    /// Hands an event over and applies the answer, which it returns as the controller gave it. A window is never
    /// below one packet, or nothing would ever be sent again.
    #[inline]
    pub fn tell(&mut self, ack: &Ack, sampler: &mut Sampler) -> Control {
        let control = self.cc.on_event(ack);
        self.cwnd = control.cwnd.max(self.smss);
        if control.mark_app_limited {
            sampler.mark_app_limited();
        }
        self.control = Control { pacing_rate: control.pacing_rate.min(self.max_pacing_rate), ..control };
        control
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wants the impossible, to see what the driver makes of it.
    #[derive(Clone, Debug)]
    struct Greedy;

    impl Controller for Greedy {
        fn on_event(&mut self, _: &Ack) -> Control {
            Control { cwnd: 0, pacing_rate: u64::MAX, send_quantum: 1, mark_app_limited: true }
        }
        fn state(&self) -> Vec<u64> {
            Vec::new()
        }
        fn state_fields(&self) -> &'static [&'static str] {
            &[]
        }
    }

    #[test]
    fn answers_stay_within_the_bounds_of_the_host() {
        let mut sampler = Sampler::default();
        let mut driver = Driver::new(Box::new(Greedy), 10_000, 1_000, 5_000);
        let init = driver.event(Event::Init, &Moment::default(), &sampler);
        assert_eq!((init.cwnd, init.max_pacing_rate, init.is_app_limited), (10_000, 5_000, false));
        assert_eq!(driver.tell(&init, &mut sampler).pacing_rate, u64::MAX, "as the controller gave it");
        assert_eq!((driver.cwnd(), driver.control().pacing_rate), (1_000, 5_000));
        assert!(sampler.is_app_limited());
        driver.set_smss(1_400);
        assert_eq!(driver.event(Event::Ack, &Moment::default(), &sampler).cwnd, 1_400);
    }

    #[test]
    fn an_event_of_a_loss_tells_of_the_packet_s_own_transmission() {
        let mut sampler = Sampler::default();
        let driver = Driver::new(Box::new(Greedy), 10_000, 1_000, u64::MAX);
        let first = sampler.on_sent(1, 1_000);
        sampler.on_sent(1, 1_000);
        sampler.on_lost(first.bytes);
        let lost = driver.lost(&Moment { now_us: 9, ..Moment::default() }, &sampler, &first, true);
        assert_eq!((lost.event, lost.newly_lost, lost.rs_tx_in_flight), (Event::Lost, 1_000, 1_000));
        assert_eq!((lost.rs_lost, lost.inflight, lost.rs_starts_lost_range), (1_000, 1_000, true));
    }
}
