//! CUBIC (RFC 9438) with fast convergence, the Reno-friendly region, HyStart and proportional rate reduction.
//!
//! It is here as the neighbour that most flows on the Internet have, so that a simulation can tell what a BBR does to
//! it and what it does to a BBR. It is held against Linux's default `cubic` in the lab: where the RFC leaves room, it
//! does what `tcp_cubic.c` does. The reduction of the window during Recovery and CWR is PRR (RFC 6937), which Linux
//! keeps in the stack. Here it lives in the controller, because a transport of ours has no window of its own.
//!
//! Pacing: Linux paces CUBIC only under the `fq` qdisc. With `is_paced = 0` the send quantum is `u64::MAX`
//! (bursts as large as the window: ACK-clocked) and the rate is only a hint for the size of a burst; with 1 the
//! quantum is two segments and the transport is expected to pace.
//!
//! ```text
//!               HyStart or loss              Event::Ssthresh (loss, ECE)
//!  slow start ────────────────────► avoidance ◄───────────────────────► reduction (PRR)
//!       ▲                                │         recovery ends
//!       └──────── Event::Loss (RTO) ──────┴──────────────────────────────────┘
//! ```
//!
//! Differs from RFC 9438: ssthresh is beta times the window, not the flight (§4.6 permits it while the window is
//! used up, and growth stops while it is not); HyStart as Linux has it instead of HyStart++ (§4.10); until the
//! first loss the window grows by at least 5 % a round in avoidance, as in Linux.

use super::Event;
use super::row::row;
use super::{Ack, CaState, Control, Controller, NO_RTT};

/// Parameters. The defaults are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CubicParams {
    /// Multiplicative decrease in 1/1024 (RFC: 0.7; Linux: 717).
    pub beta_1024: u64,
    /// The constant C in 1/1000 segments/s³ (RFC: 0.4).
    pub c_milli: u64,
    /// 1: release bandwidth to newcomers faster (§4.7).
    pub is_fast_convergence: bool,
    /// 1: never slower than Reno would be (§4.3).
    pub is_reno_friendly: bool,
    /// 1: leave slow start before the first loss.
    pub is_hystart: bool,
    /// 1: the transport paces this controller (Linux: under `fq`).
    pub is_paced: bool,
}

impl Default for CubicParams {
    fn default() -> Self {
        Self {
            beta_1024: 717,
            c_milli: 400,
            is_fast_convergence: true,
            is_reno_friendly: true,
            is_hystart: true,
            is_paced: false,
        }
    }
}

row! {
/// State. Amounts in the transport's unit, times in microseconds unless the name says otherwise.
pub struct CubicState {
    /// Window after the last event.
    cwnd: u64,
    /// Window at which slow start ends; `u64::MAX` until HyStart or a reduction sets it.
    ssthresh: u64,
    /// `W_max`; 0 before the first congestion event.
    w_max: u64,
    /// 1 while a congestion avoidance epoch runs.
    is_epoch: bool,
    /// When the epoch began, put off by idle periods (§5.8).
    epoch_us: u64,
    /// `K`, milliseconds.
    k_ms: u64,
    /// The plateau of the cubic: `W_max`, or the window at the start of the epoch where that was higher.
    origin: u64,
    /// `W_est` in 1/1024.
    w_est_1024: u64,
    /// Window at the start of the last reduction: from there on `W_est` grows like Reno (alpha = 1).
    cwnd_prior: u64,
    /// Rounding remainder of window growth, in units times the window.
    remainder: u64,
    /// Minimum RTT seen by this controller; 0 for none.
    delay_min_us: u64,
    /// When the last event happened.
    last_us: u64,
    /// 1 once HyStart has ended slow start; 0 again after a timeout.
    hystart_found: bool,
    /// When the HyStart round began.
    hystart_round_start_us: u64,
    /// When the last ACK of the train came that began with the round.
    hystart_last_ack_us: u64,
    /// `delivered` at which the HyStart round ends.
    hystart_round_end: u64,
    /// Smallest RTT of the HyStart round; [`NO_RTT`] before its first sample.
    hystart_curr_rtt_us: u64,
    /// RTT samples of the HyStart round, counted up to the eight that the delay test needs.
    hystart_samples: u64,
    /// 1 from a reduction until the window has been set to ssthresh at its end.
    is_reducing: bool,
    /// RFC 6937 `RecoverFS`, as Linux has it: the window when the reduction began.
    prr_prior_cwnd: u64,
    /// RFC 6937 `prr_delivered`: delivered since the reduction began.
    prr_delivered: u64,
    /// RFC 6937 `prr_out`: sent since the reduction began.
    prr_out: u64,
    /// In flight at the end of the last ACK event: what was sent since is the difference.
    last_inflight: u64,
    /// `cwnd` before the last reduction; 0 when there is none to undo.
    undo_cwnd: u64,
    /// `ssthresh` before the last reduction.
    undo_ssthresh: u64,
    /// `w_max` before the last reduction.
    undo_w_max: u64,
}
}

const INFINITE: u64 = u64::MAX;
/// HyStart acts from this window on, segments (Linux `hystart_low_window`).
const HYSTART_LOW_WINDOW: u64 = 16;
/// RTT samples a round before the delay test speaks (Linux `HYSTART_MIN_SAMPLES`).
const HYSTART_MIN_SAMPLES: u64 = 8;
/// ACKs closer than this form a train (Linux `hystart_ack_delta_us`).
const HYSTART_ACK_DELTA_US: u64 = 2000;
/// Bounds of the RTT increase that ends slow start (Linux `HYSTART_DELAY_MIN`, `…_MAX`).
const HYSTART_DELAY_US: (u64, u64) = (4_000, 16_000);
/// RTT samples this soon after an epoch began are ignored (Linux: one second after recovery).
const DELAY_HOLDOFF_US: u64 = 1_000_000;
/// The cubic is evaluated at most this far from its plateau; beyond, the window is bounded otherwise.
const MAX_OFFSET_MS: u64 = 100_000;
const SECOND_US: u64 = 1_000_000;

/// CUBIC.
#[derive(Clone, Debug)]
pub struct Cubic {
    params: CubicParams,
    state: CubicState,
}

impl Cubic {
    /// A connection in slow start, with the window that its first event brings.
    pub fn new(params: CubicParams) -> Self {
        let state = CubicState { ssthresh: INFINITE, hystart_curr_rtt_us: NO_RTT, ..Default::default() };
        Self { params, state }
    }

    /// Reduces the window while losses are being repaired, else lets it grow. A window that the application does not
    /// fill stays as it is (§5.8), for it was not tested.
    fn on_ack(&mut self, ack: &Ack) {
        self.update_delay(ack);
        self.state.prr_out += ack.prior_inflight.saturating_sub(self.state.last_inflight);
        if matches!(ack.ca_state, CaState::Recovery | CaState::Cwr) && self.state.is_reducing {
            self.reduce(ack);
        } else {
            if self.state.is_reducing && ack.ca_state != CaState::Loss {
                self.end_reduction();
            }
            if ack.is_cwnd_limited && ack.newly_acked > 0 && ack.ca_state != CaState::Disorder {
                self.grow(ack);
            }
        }
        self.state.last_inflight = ack.inflight;
    }

    /// Linux `cubictcp_acked`: the minimum RTT, and HyStart while in slow start.
    fn update_delay(&mut self, ack: &Ack) {
        let s = &mut self.state;
        if ack.rs_rtt_us == NO_RTT || (s.is_epoch && ack.now_us - s.epoch_us < DELAY_HOLDOFF_US) {
            return;
        }
        let rtt_us = ack.rs_rtt_us.max(1);
        if s.delay_min_us == 0 || rtt_us < s.delay_min_us {
            s.delay_min_us = rtt_us;
        }
        let is_slow_start = s.cwnd < s.ssthresh;
        if self.params.is_hystart
            && !s.hystart_found
            && is_slow_start
            && s.cwnd >= HYSTART_LOW_WINDOW * ack.smss
        {
            self.hystart(ack, rtt_us);
        }
    }

    /// Linux `hystart_update`: slow start ends when a train of ACKs is as long as half the minimum RTT, or when
    /// the RTT of a round rises above it.
    fn hystart(&mut self, ack: &Ack, rtt_us: u64) {
        let train_limit_us = self.hystart_train_limit_us(ack);
        let s = &mut self.state;
        if ack.delivered > s.hystart_round_end {
            Self::start_hystart_round(s, ack);
        }
        if ack.now_us.saturating_sub(s.hystart_last_ack_us) <= HYSTART_ACK_DELTA_US {
            s.hystart_last_ack_us = ack.now_us;
            if ack.now_us - s.hystart_round_start_us > train_limit_us {
                s.hystart_found = true;
            }
        }
        s.hystart_curr_rtt_us = s.hystart_curr_rtt_us.min(rtt_us);
        if s.hystart_samples < HYSTART_MIN_SAMPLES {
            s.hystart_samples += 1;
        } else {
            let rise_us = (s.delay_min_us / 8).clamp(HYSTART_DELAY_US.0, HYSTART_DELAY_US.1);
            if s.hystart_curr_rtt_us > s.delay_min_us + rise_us {
                s.hystart_found = true;
            }
        }
        if s.hystart_found {
            s.ssthresh = s.cwnd;
        }
    }

    /// The minimum RTT plus the time that four bursts take at the current rate (Linux `hystart_ack_delay`); half
    /// of it where nothing paces.
    fn hystart_train_limit_us(&self, ack: &Ack) -> u64 {
        let four_bursts = 4 * 65_536 * SECOND_US;
        let slack_us = four_bursts.checked_div(self.pacing_rate(ack)).unwrap_or(0).min(1000);
        let limit_us = self.state.delay_min_us + slack_us;
        if self.params.is_paced { limit_us } else { limit_us / 2 }
    }

    /// A HyStart round ends when what is in flight now was ACKed: each test compares the samples of one round trip.
    fn start_hystart_round(s: &mut CubicState, ack: &Ack) {
        s.hystart_round_start_us = ack.now_us;
        s.hystart_last_ack_us = ack.now_us;
        s.hystart_round_end = ack.delivered + ack.inflight;
        s.hystart_curr_rtt_us = NO_RTT;
        s.hystart_samples = 0;
    }

    /// Proportional rate reduction (RFC 6937 §3). Above ssthresh it sends one packet for each 1/beta delivered, so
    /// that the window comes down evenly instead of falling silent for half a round; below, it makes up for what
    /// burst losses took.
    fn reduce(&mut self, ack: &Ack) {
        let s = &mut self.state;
        s.prr_delivered += ack.newly_acked;
        let room = if ack.inflight > s.ssthresh {
            let share = u128::from(s.ssthresh) * u128::from(s.prr_delivered);
            (share.div_ceil(u128::from(s.prr_prior_cwnd.max(1))) as u64).saturating_sub(s.prr_out)
        } else {
            let owed = s.prr_delivered.saturating_sub(s.prr_out).max(ack.newly_acked);
            let extra = if ack.newly_acked > 0 && ack.newly_lost == 0 { ack.smss } else { 0 };
            (owed + extra).min(s.ssthresh - ack.inflight)
        };
        let first = if s.prr_out == 0 { ack.smss } else { 0 };
        s.cwnd = (ack.inflight + room.max(first)).max(ack.smss);
    }

    /// Recovery is over: the window goes to where the reduction was to lead.
    fn end_reduction(&mut self) {
        self.state.is_reducing = false;
        self.state.cwnd = self.state.ssthresh;
    }

    /// Slow start up to ssthresh; what an ACK brings beyond it counts for congestion avoidance.
    fn grow(&mut self, ack: &Ack) {
        let mut acked = ack.newly_acked;
        let s = &mut self.state;
        if s.cwnd < s.ssthresh {
            let room = s.ssthresh - s.cwnd;
            let used = acked.min(room);
            s.cwnd += used;
            acked -= used;
        }
        if acked > 0 {
            self.avoid(ack, acked);
        }
    }

    /// One ACK of congestion avoidance (§4.2 to §4.5): quickly back to near the window at which the last loss came,
    /// slowly around it, then ever faster beyond, to find out whether there is more by now.
    fn avoid(&mut self, ack: &Ack, acked: u64) {
        if !self.state.is_epoch {
            self.start_epoch(ack);
        }
        let w_est = self.update_w_est(ack, acked);
        let s = &self.state;
        let t_ms = (ack.now_us - s.epoch_us + s.delay_min_us) / 1000;
        // §4.4, §4.5: towards the cubic one round from now, by no more than half a window a round.
        let target = self.w_cubic(t_ms, ack.smss).clamp(s.cwnd, s.cwnd + s.cwnd / 2);
        let mut step = target - s.cwnd;
        if s.w_max == 0 {
            step = step.max(s.cwnd / 20);
        }
        let s = &mut self.state;
        s.remainder += step * acked;
        let add = s.remainder / s.cwnd;
        s.remainder -= add * s.cwnd;
        s.cwnd += add;
        if self.params.is_reno_friendly && w_est > s.cwnd {
            s.cwnd = w_est;
            s.remainder = 0;
        }
    }

    /// §4.2: `K = cbrt((W_max - cwnd_epoch) / C)`; 0 where the window is already above `W_max` (§4.8).
    fn start_epoch(&mut self, ack: &Ack) {
        let s = &mut self.state;
        s.is_epoch = true;
        s.epoch_us = ack.now_us;
        s.remainder = 0;
        s.w_est_1024 = s.cwnd * 1024;
        s.origin = s.w_max.max(s.cwnd);
        let segments_e12 = u128::from(s.origin - s.cwnd) * 1_000_000_000_000;
        s.k_ms = cube_root((segments_e12 / u128::from(self.params.c_milli * ack.smss)) as u64);
    }

    /// §4.3: `W_est` grows by alpha segments a window, alpha = 3 (1 - beta) / (1 + beta), and by one from the
    /// window before the reduction on.
    fn update_w_est(&mut self, ack: &Ack, acked: u64) -> u64 {
        let s = &mut self.state;
        let beta = self.params.beta_1024;
        let alpha_1024 =
            if s.w_est_1024 >= s.cwnd_prior * 1024 { 1024 } else { 3 * 1024 * (1024 - beta) / (1024 + beta) };
        s.w_est_1024 += alpha_1024 * ack.smss * acked / s.cwnd.max(1);
        s.w_est_1024 / 1024
    }

    /// §4.2: `W_cubic(t) = C (t - K)^3 + W_max`.
    fn w_cubic(&self, t_ms: u64, smss: u64) -> u64 {
        let s = &self.state;
        let offset_ms = t_ms.abs_diff(s.k_ms).min(MAX_OFFSET_MS);
        // The cube in units of (100 ms)³ keeps every product below 2^63 and rounds off less than a byte.
        let delta = offset_ms.pow(3) / 1_000_000 * (self.params.c_milli * smss) / 1_000_000;
        if t_ms < s.k_ms { s.origin.saturating_sub(delta) } else { s.origin + delta }
    }

    /// Congestion (§4.6, §4.7): remembers the window and lowers the threshold. Where the window was still below its
    /// last maximum, a newcomer takes its share, so it aims lower still (fast convergence). The window itself follows
    /// by PRR or, after a timeout, by the transport.
    fn on_ssthresh(&mut self, ack: &Ack) {
        let beta = self.params.beta_1024;
        let s = &mut self.state;
        (s.undo_cwnd, s.undo_ssthresh, s.undo_w_max) = (s.cwnd, s.ssthresh, s.w_max);
        s.is_epoch = false;
        s.cwnd_prior = s.cwnd;
        s.w_max = if s.cwnd < s.w_max && self.params.is_fast_convergence {
            s.cwnd * (1024 + beta) / 2048
        } else {
            s.cwnd
        };
        s.ssthresh = (s.cwnd * beta / 1024).max(2 * ack.smss);
        s.is_reducing = true;
        (s.prr_prior_cwnd, s.prr_delivered, s.prr_out) = (s.cwnd, 0, 0);
        s.last_inflight = ack.inflight;
    }

    /// §4.8: after a timeout the next avoidance phase starts afresh; slow start may use HyStart again.
    fn on_loss(&mut self, ack: &Ack) {
        let s = &mut self.state;
        s.is_epoch = false;
        s.is_reducing = false;
        s.w_max = 0;
        s.delay_min_us = 0;
        s.hystart_found = false;
        s.last_inflight = ack.inflight;
        Self::start_hystart_round(s, ack);
    }

    /// The reduction proved spurious (§4.9), so all of it is taken back.
    fn on_undo(&mut self) {
        let s = &mut self.state;
        if s.undo_cwnd > 0 {
            s.cwnd = s.cwnd.max(s.undo_cwnd);
            s.ssthresh = s.ssthresh.max(s.undo_ssthresh);
            s.w_max = s.undo_w_max;
            s.is_reducing = false;
            s.is_epoch = false;
            s.undo_cwnd = 0;
        }
    }

    /// §5.8: an idle period does not count as time in avoidance. If the transport has shrunk the window over it
    /// (RFC 2861), slow start leads back to three quarters of what was in use.
    fn on_tx_start(&mut self, ack: &Ack, cwnd_before: u64) {
        let s = &mut self.state;
        let idle_us = ack.now_us - s.last_us;
        if s.is_epoch {
            s.epoch_us = (s.epoch_us + idle_us).min(ack.now_us);
        }
        if s.cwnd < cwnd_before && s.ssthresh != INFINITE {
            s.ssthresh = s.ssthresh.max(cwnd_before * 3 / 4);
        }
        s.last_inflight = 0;
    }

    /// Linux `tcp_update_pacing_rate`: twice the window a round well below ssthresh, 1.2 times from there on.
    fn pacing_rate(&self, ack: &Ack) -> u64 {
        let s = &self.state;
        let percent = if s.cwnd < s.ssthresh / 2 { 200 } else { 120 };
        let window_bytes = s.cwnd.max(ack.inflight) * ack.unit_bytes;
        let rtt_us = if ack.srtt_us == 0 { 1000 } else { ack.srtt_us };
        (window_bytes * percent * (SECOND_US / 100) / rtt_us).min(ack.max_pacing_rate)
    }
}

impl Controller for Cubic {
    fn on_event(&mut self, ack: &Ack) -> Control {
        let send_quantum = if self.params.is_paced { 2 * ack.smss } else { u64::MAX };
        if ack.event == Event::Lost {
            // What a loss means is said by the event that follows.
            return Control {
                cwnd: ack.cwnd,
                pacing_rate: ack.pacing_rate,
                send_quantum,
                mark_app_limited: false,
            };
        }
        let cwnd_before = self.state.cwnd;
        self.state.cwnd = ack.cwnd;
        match ack.event {
            Event::Ack => self.on_ack(ack),
            Event::Ssthresh => self.on_ssthresh(ack),
            Event::Loss => self.on_loss(ack),
            Event::Undo => self.on_undo(),
            Event::TxStart => self.on_tx_start(ack, cwnd_before),
            _ => Self::start_hystart_round(&mut self.state, ack),
        }
        let s = &mut self.state;
        s.last_us = ack.now_us;
        s.cwnd = s.cwnd.min(ack.cwnd_clamp);
        Control { cwnd: s.cwnd, pacing_rate: self.pacing_rate(ack), send_quantum, mark_app_limited: false }
    }

    fn state(&self) -> Vec<u64> {
        self.state.words()
    }

    fn state_fields(&self) -> &'static [&'static str] {
        CubicState::FIELDS
    }
}

/// The largest integer whose cube is not above `x`.
fn cube_root(x: u64) -> u64 {
    let (mut rest, mut root) = (x, 0u64);
    for shift in (0..64u32).step_by(3).rev() {
        root *= 2;
        let step = 3 * root * (root + 1) + 1;
        if rest >> shift >= step {
            rest -= step << shift;
            root += 1;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::{CaState, Event};

    const MSS: u64 = 1000;

    /// An ACK event of a flow that fills its window, in bytes.
    fn event(kind: Event, now_us: u64, cwnd: u64) -> Ack {
        Ack {
            event: kind,
            now_us,
            unit_bytes: 1,
            smss: MSS,
            cwnd,
            cwnd_clamp: u64::MAX,
            max_pacing_rate: u64::MAX,
            inflight: cwnd,
            prior_inflight: cwnd,
            srtt_us: 100_000,
            rs_rtt_us: NO_RTT,
            min_rtt_us: NO_RTT,
            is_cwnd_limited: true,
            ca_state: CaState::Open,
            ..Default::default()
        }
    }

    fn acked(now_us: u64, cwnd: u64, bytes: u64) -> Ack {
        Ack { newly_acked: bytes, ..event(Event::Ack, now_us, cwnd) }
    }

    /// A controller that has just ended its reduction from `from` bytes.
    fn after_reduction(params: CubicParams, from: u64) -> Cubic {
        let mut c = Cubic::new(params);
        c.on_event(&event(Event::Init, 0, from));
        c.on_event(&event(Event::Ssthresh, 0, from));
        c
    }

    #[test]
    fn cube_roots_are_exact() {
        for r in [0u64, 1, 2, 9, 100, 4217, 2_642_245] {
            assert_eq!(cube_root(r.pow(3)), r);
            assert_eq!(cube_root(r.pow(3) + 1), if r == 0 { 1 } else { r });
            assert_eq!(cube_root((r.pow(3)).saturating_sub(1)), r.saturating_sub(1));
        }
    }

    #[test]
    fn reduction_is_seven_tenths() {
        let mut c = after_reduction(CubicParams::default(), 100 * MSS);
        assert_eq!(c.state.ssthresh, 100 * MSS * 717 / 1024);
        assert_eq!(c.state.w_max, 100 * MSS);
        // §4.7: a second loss below W_max gives up (1 + beta) / 2 of the window as the new W_max.
        c.on_event(&event(Event::Ssthresh, 1000, 80 * MSS));
        assert_eq!(c.state.w_max, 80 * MSS * (1024 + 717) / 2048);
    }

    #[test]
    fn k_and_the_cubic_are_the_rfc_s() {
        // W_max = 100, window 70 at the epoch's start: K = cbrt(30 / 0.4) = 4.217 s.
        let mut c = after_reduction(CubicParams { is_reno_friendly: false, ..Default::default() }, 100 * MSS);
        c.state.cwnd = 70 * MSS;
        c.start_epoch(&acked(0, 70 * MSS, 0));
        assert_eq!(c.state.k_ms, 4217);
        // W_cubic(0) = 70, W_cubic(K) = 100, W_cubic(K + 2 s) = 100 + 0.4 * 8 = 103.2, one byte of rounding.
        assert!(c.w_cubic(0, MSS).abs_diff(70 * MSS) < 10, "{}", c.w_cubic(0, MSS));
        assert_eq!(c.w_cubic(4217, MSS), 100 * MSS);
        assert_eq!(c.w_cubic(6217, MSS), 103_200);
    }

    /// §5.8: the time of a pause is no time in avoidance. A flow that pauses for a minute goes on as one that did not.
    #[test]
    fn a_pause_is_no_time_in_avoidance() {
        let params = CubicParams { is_reno_friendly: false, ..Default::default() };
        let window = |pause_us: u64| {
            let mut c = after_reduction(params, 100 * MSS);
            let mut cwnd = c.state.ssthresh;
            let mut now = 0;
            for round in 0..20u64 {
                if round == 10 {
                    now += pause_us;
                    cwnd = c.on_event(&event(Event::TxStart, now, cwnd)).cwnd;
                }
                for _ in 0..50 {
                    now += 2_000;
                    cwnd = c.on_event(&acked(now, cwnd, cwnd / 50)).cwnd;
                }
            }
            cwnd
        };
        assert_eq!(window(60_000_000), window(0));
    }

    /// RFC 2861 §2: if the window was halved over a pause, slow start leads back to three quarters of what was in use.
    #[test]
    fn a_window_that_shrank_over_a_pause_comes_back_by_slow_start() {
        let mut c = after_reduction(CubicParams::default(), 100 * MSS);
        let ssthresh = c.state.ssthresh;
        c.on_event(&acked(1000, 70 * MSS, 0));
        c.state.cwnd = 120 * MSS;
        c.on_event(&event(Event::TxStart, 2_000_000, 60 * MSS));
        assert_eq!(c.state.ssthresh, (90 * MSS).max(ssthresh));
        // A window that did not shrink says nothing.
        let mut c = after_reduction(CubicParams::default(), 100 * MSS);
        c.on_event(&acked(1000, 70 * MSS, 0));
        c.state.cwnd = 120 * MSS;
        c.on_event(&event(Event::TxStart, 2_000_000, 120 * MSS));
        assert_eq!(c.state.ssthresh, ssthresh);
    }

    #[test]
    fn growth_follows_the_cubic_back_to_w_max() {
        let params = CubicParams { is_reno_friendly: false, ..Default::default() };
        let mut c = after_reduction(params, 100 * MSS);
        let mut cwnd = c.state.ssthresh;
        let mut at_k = 0;
        for round in 0..70u64 {
            for _ in 0..50 {
                cwnd = c.on_event(&acked(round * 100_000, cwnd, cwnd / 50)).cwnd;
            }
            if round == 42 {
                at_k = cwnd;
            }
        }
        assert!((98 * MSS..=101 * MSS).contains(&at_k), "{at_k}");
        // At 6.9 s: 100 + 0.4 * 2.7^3 = 107.9.
        assert!((106 * MSS..=109 * MSS).contains(&cwnd), "{cwnd}");
    }

    #[test]
    fn small_windows_grow_like_reno() {
        // W = 10 segments, RTT 10 ms: the cubic is nearly flat, Reno's estimate gains alpha = 0.53 a round.
        let mut c = after_reduction(CubicParams::default(), 10 * MSS);
        let start = c.state.ssthresh;
        let mut cwnd = start;
        for round in 0..4u64 {
            for _ in 0..7 {
                cwnd = c.on_event(&acked(round * 10_000, cwnd, cwnd / 7)).cwnd;
            }
        }
        let gain = cwnd - start;
        assert!((1900..=2300).contains(&gain), "4 rounds x 0.53 segments = 2.1, got {gain}");
    }

    #[test]
    fn slow_start_adds_what_was_acked() {
        let mut c = Cubic::new(CubicParams::default());
        c.on_event(&event(Event::Init, 0, 10 * MSS));
        assert_eq!(c.on_event(&acked(100, 10 * MSS, 2 * MSS)).cwnd, 12 * MSS);
        let idle = Ack { is_cwnd_limited: false, ..acked(200, 12 * MSS, 2 * MSS) };
        assert_eq!(c.on_event(&idle).cwnd, 12 * MSS, "the application, not the window, is the limit");
    }

    #[test]
    fn hystart_ends_slow_start_when_the_rtt_rises() {
        let mut c = Cubic::new(CubicParams::default());
        c.on_event(&event(Event::Init, 0, 20 * MSS));
        let rtt = |now, rtt_us, delivered| Ack { rs_rtt_us: rtt_us, delivered, ..acked(now, 20 * MSS, 0) };
        // Far apart, so no train; delay_min = 40 ms, the threshold is 40 / 8 = 5 ms.
        for i in 0..20 {
            c.on_event(&rtt(i * 10_000, 40_000, 0));
        }
        assert_eq!(c.state.ssthresh, INFINITE);
        for i in 0..8 {
            c.on_event(&rtt(300_000 + i * 10_000, 45_100, 30_000));
        }
        assert_eq!(c.state.ssthresh, INFINITE, "eight samples are needed first");
        c.on_event(&rtt(400_000, 45_100, 30_000));
        assert_eq!((c.state.ssthresh, c.state.hystart_found), (20 * MSS, true));
    }

    #[test]
    fn hystart_ends_slow_start_on_a_long_ack_train() {
        let mut c = Cubic::new(CubicParams::default());
        c.on_event(&event(Event::Init, 0, 20 * MSS));
        let mut now = 40_000;
        while !c.state.hystart_found && now < 100_000 {
            // The first window was delivered: a round begins at 40 ms and lasts for the next window.
            c.on_event(&Ack { rs_rtt_us: 40_000, delivered: 20 * MSS + 1, ..acked(now, 20 * MSS, 0) });
            now += 1000;
        }
        // Half of (40 ms + at most 1 ms of slack) after the round began at 40 ms.
        assert!((60_000..=64_000).contains(&now), "{now}");
    }

    #[test]
    fn prr_ends_at_ssthresh() {
        let mut c = after_reduction(CubicParams::default(), 100 * MSS);
        let ssthresh = c.state.ssthresh;
        let (mut inflight, mut cwnd) = (99 * MSS, 100 * MSS);
        for i in 0..90 {
            let ack = Ack {
                newly_acked: MSS,
                prior_inflight: inflight,
                inflight: inflight - MSS,
                ca_state: CaState::Recovery,
                ..event(Event::Ack, 100 + i, cwnd)
            };
            cwnd = c.on_event(&ack).cwnd;
            inflight -= MSS;
            while inflight + MSS <= cwnd {
                inflight += MSS;
            }
        }
        assert!(inflight.abs_diff(ssthresh) <= 2 * MSS, "{inflight} against {ssthresh}");
        assert_eq!(c.on_event(&acked(1000, cwnd, 0)).cwnd, ssthresh, "the end of recovery");
    }

    #[test]
    fn undo_restores_the_window() {
        let mut c = after_reduction(CubicParams::default(), 100 * MSS);
        let control = c.on_event(&event(Event::Undo, 10, 60 * MSS));
        assert_eq!((control.cwnd, c.state.ssthresh, c.state.w_max), (100 * MSS, INFINITE, 0));
    }

    #[test]
    fn timeout_keeps_the_transport_s_window_and_slow_starts() {
        let mut c = after_reduction(CubicParams::default(), 100 * MSS);
        let ssthresh = c.state.ssthresh;
        assert_eq!(c.on_event(&event(Event::Loss, 10, MSS)).cwnd, MSS);
        let ack = Ack { ca_state: CaState::Loss, ..acked(20, MSS, MSS) };
        assert_eq!(c.on_event(&ack).cwnd, 2 * MSS);
        assert_eq!(c.state.ssthresh, ssthresh);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut c = Cubic::new(CubicParams::default());
        let huge = 50_000_000_000; // 400 Gbit/s for a second
        c.on_event(&event(Event::Init, 0, huge));
        c.on_event(&event(Event::Ssthresh, 1, huge));
        for now in [2, 1_000_000, 1_000_000_000_000] {
            let control = c.on_event(&acked(now, huge, 65_536));
            assert!(control.cwnd >= 65_536 && control.pacing_rate > 0);
        }
        c.on_event(&acked(1_000_000_000_001, 1, 0));
    }
}
