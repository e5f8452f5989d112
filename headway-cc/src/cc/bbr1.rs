//! BBRv1, as Linux `net/ipv4/tcp_bbr.c` behaves, and by its names.
//!
//! ```text
//!      ┌──► STARTUP ──────┐   pipe full: no 25 % growth in 3 rounds
//!      │       │          ▼
//!      │       │        DRAIN     until inflight <= 1 BDP
//!      │       │          ▼
//!      │       │       PROBE_BW   8 phases of 1 min_rtt: 5/4, 3/4, 1 x 6
//!      │       ▼          │ ▲
//!      └── PROBE_RTT ◄────┘ │     min_rtt not seen for 10 s: 4 segments for 200 ms
//!              └────────────┘
//! ```
//!
//! Use: [`Bbr1`] is a [`Controller`]. The transport owns window and pacing rate: each event brings the values in
//! force and each control replaces them.
//!
//! Twin: `headway-kernel/bpf/bbr1.h` (same functions in the same order, which is that of `tcp_bbr.c`).
//!
//! Differs from `tcp_bbr.c`: the list is in `docs/spec.md`. In packets the integers are the kernel's.

use super::brake::{Brake, BrakeAck, BrakeMode, BrakeParams, brake_bw, brake_gain, brake_on_ack};
use super::fixed::{
    BW_SCALE, BW_UNIT, GAIN_UNIT, USEC_PER_MSEC, USEC_PER_SEC, Winmax, bw_data, bw_from, gain_apply,
    mul_shift,
};
use super::row::{row, word};
use super::{Ack, CaState, Control, Controller, Event, NO_RTT};
use std::sync::Arc;

word! {
/// The mode of the state machine ([`Bbr1State::mode`]).
pub enum Mode {
    /// Ramp up quickly.
    #[default]
    Startup = 0,
    /// Drain the queue that STARTUP built.
    Drain = 1,
    /// Cycle the pacing gain around the estimated bandwidth.
    ProbeBw = 2,
    /// Cut inflight to see the minimum RTT.
    ProbeRtt = 3,
}
}

impl Mode {
    /// Whether the state machine may go from this mode to `next`. Each line is one reason to change; no event leads to
    /// what is not here.
    const fn may_become(self, next: Self) -> bool {
        use Mode::*;
        match (self, next) {
            // A connection begins without any idea of the path's rate.
            (Startup, Startup) => true,
            // The pipe is full, so more speed would only make a longer queue; the queue that STARTUP built must go.
            (Startup, Drain) => true,
            // The queue is gone: from here on the estimate is kept, and tested once a cycle.
            (Drain, ProbeBw) => true,
            // A policer's rate was used for long enough: the cycle starts anew, to see whether it still polices.
            (ProbeBw, ProbeBw) => true,
            // The minimum RTT was not seen for too long.
            (Startup | Drain | ProbeBw, ProbeRtt) => true,
            // It was seen. A flow that never filled the pipe goes on looking for its rate, any other keeps its estimate.
            (ProbeRtt, Startup | ProbeBw) => true,
            _ => false,
        }
    }
}

/// One of Linux's gains, which are in 1/256.
const fn bbr_unit(parts: u64) -> u64 {
    parts * (GAIN_UNIT >> 8)
}

row! {
/// Tunables. [`Bbr1Params::default`] gives the constants of `tcp_bbr.c`; no other place writes them.
pub struct Bbr1Params {
    /// Window of the bandwidth filter, rounds.
    bw_rtts: u64 = 10,
    /// Window of the minimum-RTT filter.
    min_rtt_win_us: u64 = 10 * USEC_PER_SEC,
    /// Time spent at the minimum window in PROBE_RTT; 0 turns PROBE_RTT off.
    probe_rtt_mode_us: u64 = 200 * USEC_PER_MSEC,
    /// Below this pacing rate (bytes/s) one segment is a burst.
    min_tso_rate: u64 = 1_200_000 / 8,
    /// Pacing stays this much below the estimate, to keep queues short.
    pacing_margin_percent: u64 = 1,
    /// A burst lasts 2^-shift seconds (Linux `sk_pacing_shift`).
    pacing_shift: u64 = 10,
    /// Largest burst in bytes (Linux `GSO_LEGACY_MAX_SIZE - 1 - MAX_TCP_HEADER`, with WLAN configured).
    gso_max_bytes: u64 = 65_536 - 1 - 320,
    /// Largest burst in segments.
    max_tso_segs: u64 = 127,
    /// Bursts that sit in the offload engines of both hosts.
    tso_budget: u64 = 3,
    /// Segments added to the window in the probing phase, so that small BDPs are probed too.
    probe_bw_segs: u64 = 2,
    /// STARTUP: 2/ln 2 doubles the rate each round.
    high_gain: u64 = bbr_unit(256 * 2885 / 1000 + 1),
    /// DRAIN: the inverse.
    drain_gain: u64 = bbr_unit(256 * 1000 / 2885),
    /// PROBE_BW: window over BDP, tolerates delayed and stretched ACKs.
    cwnd_gain: u64 = 2 * GAIN_UNIT,
    /// PROBE_BW phase 0: look for more bandwidth.
    pacing_gain_up: u64 = GAIN_UNIT * 5 / 4,
    /// PROBE_BW phase 1: drain what phase 0 queued. The other phases pace at 1.
    pacing_gain_down: u64 = GAIN_UNIT * 3 / 4,
    /// Phases of the gain cycle.
    cycle_len: u64 = 8,
    /// PROBE_BW starts at one of this many phases.
    cycle_rand: u64 = 7,
    /// Smallest window, segments.
    cwnd_min_target: u64 = 4,
    /// Window without any RTT sample, segments (Linux `TCP_INIT_CWND`).
    init_cwnd: u64 = 10,
    /// RTT assumed before the first sample.
    init_rtt_us: u64 = USEC_PER_MSEC,
    /// Bandwidth growth that says "not full yet".
    full_bw_thresh: u64 = GAIN_UNIT * 5 / 4,
    /// Rounds without such growth that say "full".
    full_bw_cnt: u64 = 3,
    /// Shortest long-term sampling interval, rounds.
    lt_intvl_min_rtts: u64 = 4,
    /// Longest long-term sampling interval, rounds.
    lt_intvl_max_rtts: u64 = 4 * 4,
    /// Longest long-term sampling interval, milliseconds (Linux: as many as fit in 32 bits of microseconds).
    lt_intvl_max_ms: u64 = u32::MAX as u64 / USEC_PER_MSEC,
    /// Lost over delivered that makes an interval lossy.
    lt_loss_thresh: u64 = bbr_unit(50),
    /// Two intervals agree when their bandwidths differ by this ratio ...
    lt_bw_ratio: u64 = GAIN_UNIT / 8,
    /// ... or by this many bytes/s.
    lt_bw_diff: u64 = 4_000 / 8,
    /// Rounds for which the long-term bandwidth is used.
    lt_bw_max_rtts: u64 = 48,
    /// Share of the extra ACKed data that is added to the window.
    extra_acked_gain: u64 = GAIN_UNIT,
    /// Each of the two slots of extra ACKed data covers this many rounds.
    extra_acked_win_rtts: u64 = 5,
    /// An aggregation epoch of this many segments is started anew.
    ack_epoch_acked_reset_thresh: u64 = 1 << 20,
    /// Extra ACKed data is capped by what this time would deliver.
    extra_acked_max_us: u64 = 100 * USEC_PER_MSEC,
    /// The brake.
    brake: BrakeParams,
}
}

row! {
/// Everything a connection remembers. Data in units, bandwidths and gains in the formats of [`super::fixed`].
pub struct Bbr1State {
    /// Minimum RTT of the last window; [`NO_RTT`] before the first sample.
    min_rtt_us: u64,
    /// When it was seen.
    min_rtt_stamp: u64,
    /// When PROBE_RTT may end; 0 while inflight has not fallen yet.
    probe_rtt_done_stamp: u64,
    /// The bandwidth filter, whose clock is `rtt_cnt`. Its largest sample is the bandwidth estimate while `lt_use_bw` is
    /// not set.
    bw: Winmax as ["bw_s0_t", "bw_s0_v", "bw_s1_t", "bw_s1_v", "bw_s2_t", "bw_s2_v"],
    /// Rounds so far.
    rtt_cnt: u64,
    /// `delivered` at which the round ends.
    next_rtt_delivered: u64,
    /// Start of the phase of the gain cycle.
    cycle_mstamp: u64,
    /// The mode of the state machine.
    mode: Mode,
    /// `ca_state` at the previous ACK.
    prev_ca_state: CaState,
    /// 1 in the first round of recovery.
    packet_conservation: bool,
    /// 1 when this ACK starts a round.
    round_start: bool,
    /// 1 between the restart from idle and the next delivery.
    idle_restart: bool,
    /// 1 after a round at the minimum window.
    probe_rtt_round_done: bool,
    /// 1 while a long-term sampling interval runs.
    lt_is_sampling: bool,
    /// Rounds in the interval, or rounds since `lt_bw` is used.
    lt_rtt_cnt: u64,
    /// 1 while `lt_bw` is the bandwidth estimate.
    lt_use_bw: bool,
    /// Long-term bandwidth; 0 before the first interval.
    lt_bw: u64,
    /// `delivered` at the start of the interval.
    lt_last_delivered: u64,
    /// Start of the interval, milliseconds.
    lt_last_stamp: u64,
    /// `lost` at the start of the interval.
    lt_last_lost: u64,
    /// Pacing rate over bandwidth: that of the mode and, in PROBE_BW, of the phase.
    pacing_gain: u64,
    /// Window over BDP: that of the mode.
    cwnd_gain: u64,
    /// 1 once STARTUP has filled the pipe.
    full_bw_reached: bool,
    /// Rounds without much growth of bandwidth.
    full_bw_cnt: u64,
    /// Phase of the gain cycle.
    cycle_idx: u64,
    /// 1 once a smoothed RTT was used for pacing.
    has_seen_rtt: bool,
    /// Window to come back to after recovery or PROBE_RTT.
    prior_cwnd: u64,
    /// Bandwidth against which growth is measured.
    full_bw: u64,
    /// Start of the aggregation epoch.
    ack_epoch_mstamp: u64,
    /// Most extra data ACKed in one epoch, in two alternating slots: slot 0.
    extra_acked_0: u64,
    /// Slot 1. The window has room for the larger of the two.
    extra_acked_1: u64,
    /// ACKed since the start of the epoch.
    ack_epoch_acked: u64,
    /// Age of the slot in use, rounds.
    extra_acked_win_rtts: u64,
    /// The slot in use.
    extra_acked_win_idx: u64,
    /// The brake.
    brake: Brake,
}
}

impl Bbr1State {
    /// The slot of extra ACKed data in use.
    fn extra_acked(&mut self) -> &mut u64 {
        if self.extra_acked_win_idx != 0 { &mut self.extra_acked_1 } else { &mut self.extra_acked_0 }
    }
}

/// A BBRv1 connection.
#[derive(Clone, Debug)]
pub struct Bbr1 {
    /// Shared by all flows with the same parameters: a thousand flows read one copy.
    params: Arc<Bbr1Params>,
    state: Bbr1State,
}

impl Bbr1 {
    /// A connection before its first event, which must be [`Event::Init`]: that fills the state.
    pub fn new(params: impl Into<Arc<Bbr1Params>>) -> Self {
        Self { params: params.into(), state: Bbr1State::default() }
    }
}

impl Controller for Bbr1 {
    fn on_event(&mut self, ack: &Ack) -> Control {
        let mut out = Control::default();
        bbr1_on_event(&mut self.state, &self.params, ack, &mut out);
        out
    }

    fn state(&self) -> Vec<u64> {
        self.state.words()
    }

    fn state_fields(&self) -> &'static [&'static str] {
        Bbr1State::FIELDS
    }

    /// The window stands still in the first round of each recovery: with one in every round it would never grow.
    fn recovers_until_repaired(&self) -> bool {
        true
    }
}

/// What `tcp_bbr.c` reaches through its `sk`; `out.cwnd` and `out.pacing_rate` are the values in force.
struct Sock<'a> {
    bbr: &'a mut Bbr1State,
    p: &'a Bbr1Params,
    ack: &'a Ack,
    out: &'a mut Control,
}

/// A number of segments in the transport's unit of data, which is the packet for TCP and the byte for QUIC.
fn bbr_segs(sk: &Sock, segs: u64) -> u64 {
    segs.saturating_mul(sk.ack.smss.max(1))
}

/// Bytes in one unit of data: the MSS for TCP, 1 for QUIC.
fn bbr_unit_bytes(sk: &Sock) -> u64 {
    sk.ack.unit_bytes.max(1)
}

/// The largest rate sample of the last ten rounds: queues and pauses only lower samples, so the largest is the
/// path's.
fn bbr_max_bw(sk: &Sock) -> u64 {
    sk.bbr.bw.get()
}

/// The bandwidth in use: the windowed maximum, or a policer's rate where one was found, since the bursts that a
/// policer lets through would mislead the maximum.
fn bbr_bw(sk: &Sock) -> u64 {
    if sk.bbr.lt_use_bw { sk.bbr.lt_bw } else { bbr_max_bw(sk) }
}

/// The most data that was ACKed beyond expectation in the last one to two windows.
fn bbr_extra_acked(sk: &Sock) -> u64 {
    sk.bbr.extra_acked_0.max(sk.bbr.extra_acked_1)
}

/// A bandwidth times a gain in bytes per second, a per cent less so that a queue that exists shrinks.
fn bbr_rate_bytes_per_sec(sk: &Sock, bw: u64, gain: u64) -> u64 {
    let rate = gain_apply(bw.saturating_mul(bbr_unit_bytes(sk)), gain);
    mul_shift(rate, USEC_PER_SEC / 100 * 100_u64.saturating_sub(sk.p.pacing_margin_percent), BW_SCALE)
}

/// The same, within the limit that the application sets.
fn bbr_bw_to_pacing_rate(sk: &Sock, bw: u64, gain: u64) -> u64 {
    bbr_rate_bytes_per_sec(sk, bw, gain).min(sk.ack.max_pacing_rate)
}

/// The first rate is the window per smoothed RTT, times the gain of STARTUP. Before there is an RTT a millisecond
/// is assumed, so that a fast path is not begun slowly.
fn bbr_init_pacing_rate_from_rtt(sk: &mut Sock) {
    let mut rtt_us = sk.p.init_rtt_us;
    if sk.ack.srtt_us != 0 {
        rtt_us = sk.ack.srtt_us;
        sk.bbr.has_seen_rtt = true;
    }
    sk.out.pacing_rate = bbr_bw_to_pacing_rate(sk, bw_from(sk.out.cwnd, rtt_us), sk.p.high_gain);
}

/// Paces at bandwidth times gain. Until the pipe was full once the rate only rises, because a low sample early on
/// must not slow down STARTUP.
fn bbr_set_pacing_rate(sk: &mut Sock, bw: u64, gain: u64) {
    let rate = bbr_bw_to_pacing_rate(sk, bw, gain);
    if !sk.bbr.has_seen_rtt && sk.ack.srtt_us != 0 {
        bbr_init_pacing_rate_from_rtt(sk);
    }
    if sk.bbr.full_bw_reached || rate > sk.out.pacing_rate {
        sk.out.pacing_rate = rate;
    }
}

/// The fewest segments worth one burst at this pacing rate (bytes/s): on slow paths even two would be a queue.
pub fn bbr1_min_tso_segs(p: &Bbr1Params, pacing_rate: u64) -> u64 {
    if pacing_rate < p.min_tso_rate { 1 } else { 2 }
}

/// How much leaves in one burst at the pacing rate in force: about a millisecond's worth, since larger bursts make
/// queues and smaller ones cost CPU time.
fn bbr_tso_segs_goal(sk: &Sock) -> u64 {
    let mss = bbr_segs(sk, bbr_unit_bytes(sk));
    let bytes = (sk.out.pacing_rate >> (sk.p.pacing_shift & 63)).min(sk.p.gso_max_bytes);
    let segs = (bytes / mss).max(bbr1_min_tso_segs(sk.p, sk.out.pacing_rate));
    bbr_segs(sk, segs.min(sk.p.max_tso_segs))
}

/// Notes the window to come back to, before loss recovery or PROBE_RTT cut it for a while.
fn bbr_save_cwnd(sk: &mut Sock) {
    if sk.bbr.prev_ca_state < CaState::Recovery && sk.bbr.mode != Mode::ProbeRtt {
        sk.bbr.prior_cwnd = sk.out.cwnd;
    } else {
        // Already cut for a while: the earlier note may be the better one.
        sk.bbr.prior_cwnd = sk.bbr.prior_cwnd.max(sk.out.cwnd);
    }
}

/// The volume that fills the path without a queue (bandwidth times minimum RTT), times a gain. It is rounded up,
/// because a pipe that holds 3.2 packets is not full with 3.
fn bbr_bdp(sk: &Sock, bw: u64, gain: u64) -> u64 {
    if sk.bbr.min_rtt_us >= NO_RTT {
        return bbr_segs(sk, sk.p.init_cwnd);
    }
    let w = gain_apply(bw.saturating_mul(sk.bbr.min_rtt_us), gain);
    w.saturating_add(BW_UNIT - 1) >> BW_SCALE
}

/// Adds to a window what sits in the offload engines of both hosts, and in the probing phase something extra,
/// because a quarter of a very small BDP would be no probe at all.
fn bbr_quantization_budget(sk: &Sock, cwnd: u64) -> u64 {
    let pair = bbr_segs(sk, 2);
    let mut cwnd = cwnd.saturating_add(sk.p.tso_budget.saturating_mul(bbr_tso_segs_goal(sk)));
    // An even number of segments: receivers ACK every other one.
    cwnd = (cwnd.saturating_add(pair - 1) / pair).saturating_mul(pair);
    if sk.bbr.mode == Mode::ProbeBw && sk.bbr.cycle_idx == 0 {
        cwnd = cwnd.saturating_add(bbr_segs(sk, sk.p.probe_bw_segs));
    }
    cwnd
}

/// How much to have in flight for this bandwidth and gain, on real hosts.
fn bbr_inflight(sk: &Sock, bw: u64, gain: u64) -> u64 {
    bbr_quantization_budget(sk, bbr_bdp(sk, bw, gain))
}

/// Of the data in flight, what is still in the network when the next packet departs: pacing has scheduled that for
/// later, and some will have arrived by then.
fn bbr_packets_in_net_at_edt(sk: &Sock, inflight_now: u64) -> u64 {
    let mut inflight_at_edt = inflight_now;
    if sk.bbr.pacing_gain > GAIN_UNIT {
        // Inflight grows: count the departing burst.
        inflight_at_edt = inflight_at_edt.saturating_add(bbr_tso_segs_goal(sk));
    }
    inflight_at_edt.saturating_sub(bw_data(bbr_bw(sk), sk.ack.edt_us))
}

/// What the window has to hold more because ACKs come in bunches: without it the flow would run dry between two
/// bunches.
fn bbr_ack_aggregation_cwnd(sk: &Sock) -> u64 {
    if !sk.bbr.full_bw_reached {
        return 0;
    }
    gain_apply(bbr_extra_acked(sk), sk.p.extra_acked_gain).min(bw_data(bbr_bw(sk), sk.p.extra_acked_max_us))
}

/// In the first round of recovery no more leaves than arrives, since nothing is known of the queue yet; afterwards
/// the window comes back, because loss alone says little of the path. Returns the new window and whether packets
/// are being conserved (then it is final).
fn bbr_set_cwnd_to_recover_or_restore(sk: &mut Sock, acked: u64) -> (u64, bool) {
    let (prev_state, state) = (sk.bbr.prev_ca_state, sk.ack.ca_state);
    let conserved = sk.ack.inflight.saturating_add(acked);
    let mut cwnd = sk.out.cwnd;
    if sk.ack.newly_lost != 0 {
        cwnd = cwnd.saturating_sub(sk.ack.newly_lost).max(bbr_segs(sk, 1));
    }
    if state == CaState::Recovery && prev_state != CaState::Recovery {
        sk.bbr.packet_conservation = true;
        sk.bbr.next_rtt_delivered = sk.ack.delivered;
        cwnd = conserved;
    } else if prev_state >= CaState::Recovery && state < CaState::Recovery {
        cwnd = cwnd.max(sk.bbr.prior_cwnd);
        sk.bbr.packet_conservation = false;
    }
    sk.bbr.prev_ca_state = state;
    if sk.bbr.packet_conservation {
        return (cwnd.max(conserved), true);
    }
    (cwnd, false)
}

/// Moves the window towards its target by no more than what was ACKed, so that inflight never jumps, then applies
/// the bounds.
fn bbr_set_cwnd(sk: &mut Sock, acked: u64, bw: u64, gain: u64) {
    let floor = bbr_segs(sk, sk.p.cwnd_min_target);
    let mut cwnd = sk.out.cwnd;
    let mut is_conserving = false;
    if acked != 0 {
        (cwnd, is_conserving) = bbr_set_cwnd_to_recover_or_restore(sk, acked);
    }
    if acked != 0 && !is_conserving {
        let target = bbr_bdp(sk, bw, gain).saturating_add(bbr_ack_aggregation_cwnd(sk));
        let target = bbr_quantization_budget(sk, target);
        if sk.bbr.full_bw_reached {
            cwnd = cwnd.saturating_add(acked).min(target);
        } else if cwnd < target || sk.ack.delivered < bbr_segs(sk, sk.p.init_cwnd) {
            cwnd = cwnd.saturating_add(acked);
        }
        cwnd = cwnd.max(floor);
    }
    cwnd = cwnd.min(sk.ack.cwnd_clamp.max(bbr_segs(sk, 1)));
    if sk.bbr.mode == Mode::ProbeRtt {
        cwnd = cwnd.min(floor);
    }
    sk.out.cwnd = cwnd;
}

/// Whether this phase of the gain cycle has done its work.
fn bbr_is_next_cycle_phase(sk: &Sock) -> bool {
    let is_full_length = sk.ack.delivered_us.saturating_sub(sk.bbr.cycle_mstamp) > sk.bbr.min_rtt_us;
    let pacing_gain = sk.bbr.pacing_gain;
    if pacing_gain == GAIN_UNIT {
        return is_full_length;
    }
    let inflight = bbr_packets_in_net_at_edt(sk, sk.ack.prior_inflight);
    if pacing_gain > GAIN_UNIT {
        // Probing lasts until inflight got there, unless the queue cannot hold that much.
        return is_full_length
            && (sk.ack.newly_lost != 0 || inflight >= bbr_inflight(sk, bbr_max_bw(sk), pacing_gain));
    }
    // Draining ends early when the extra queue is gone.
    is_full_length || inflight <= bbr_inflight(sk, bbr_max_bw(sk), GAIN_UNIT)
}

/// Steps to the next phase of the gain cycle.
fn bbr_advance_cycle_phase(sk: &mut Sock) {
    let next = sk.bbr.cycle_idx + 1;
    sk.bbr.cycle_idx = if next < sk.p.cycle_len { next } else { 0 };
    sk.bbr.cycle_mstamp = sk.ack.delivered_us;
}

/// Goes round the cycle of gains in PROBE_BW: a quarter faster to find out whether there is more, as much slower to
/// drain what that queued, then six phases at the estimate.
fn bbr_update_cycle_phase(sk: &mut Sock) {
    if sk.bbr.mode == Mode::ProbeBw && bbr_is_next_cycle_phase(sk) {
        bbr_advance_cycle_phase(sk);
    }
}

/// Every change of mode goes through here. Debug builds hold it against the table of those that can happen.
fn bbr_set_mode(sk: &mut Sock, mode: Mode) {
    debug_assert!(sk.bbr.mode.may_become(mode), "{:?} to {mode:?}", sk.bbr.mode);
    sk.bbr.mode = mode;
}

/// Looks for the path's rate from scratch, doubling each round.
fn bbr_reset_startup_mode(sk: &mut Sock) {
    bbr_set_mode(sk, Mode::Startup);
}

/// Begins the gain cycle at a random phase, so that flows that share a bottleneck do not probe together; never at
/// the draining one, since nothing was queued.
fn bbr_reset_probe_bw_mode(sk: &mut Sock) {
    let back = mul_shift(sk.ack.rand & u64::from(u32::MAX), sk.p.cycle_rand, 32);
    bbr_set_mode(sk, Mode::ProbeBw);
    sk.bbr.cycle_idx = sk.p.cycle_len.saturating_sub(1).saturating_sub(back);
    bbr_advance_cycle_phase(sk);
}

/// Goes back to the mode that PROBE_RTT interrupted.
fn bbr_reset_mode(sk: &mut Sock) {
    if !sk.bbr.full_bw_reached {
        bbr_reset_startup_mode(sk);
    } else {
        bbr_reset_probe_bw_mode(sk);
    }
}

/// Begins an interval in which the rate behind a policer is measured.
fn bbr_reset_lt_bw_sampling_interval(sk: &mut Sock) {
    sk.bbr.lt_last_stamp = sk.ack.delivered_us / USEC_PER_MSEC;
    sk.bbr.lt_last_delivered = sk.ack.delivered;
    sk.bbr.lt_last_lost = sk.ack.lost;
    sk.bbr.lt_rtt_cnt = 0;
}

/// Forgets what is known of a policer: the windowed maximum counts again.
fn bbr_reset_lt_bw_sampling(sk: &mut Sock) {
    sk.bbr.lt_bw = 0;
    sk.bbr.lt_use_bw = false;
    sk.bbr.lt_is_sampling = false;
    bbr_reset_lt_bw_sampling_interval(sk);
}

/// Two lossy intervals in a row with about the same rate are a policer: from now on that rate is used, because
/// pacing faster would only lose packets.
fn bbr_lt_bw_interval_done(sk: &mut Sock, bw: u64) {
    let lt_bw = sk.bbr.lt_bw;
    let diff = bw.abs_diff(lt_bw);
    if lt_bw != 0
        && (diff <= gain_apply(lt_bw, sk.p.lt_bw_ratio)
            || bbr_rate_bytes_per_sec(sk, diff, GAIN_UNIT) <= sk.p.lt_bw_diff)
    {
        sk.bbr.lt_bw = bw.saturating_add(lt_bw) >> 1;
        sk.bbr.lt_use_bw = true;
        sk.bbr.pacing_gain = GAIN_UNIT;
        sk.bbr.lt_rtt_cnt = 0;
        return;
    }
    sk.bbr.lt_bw = bw;
    bbr_reset_lt_bw_sampling_interval(sk);
}

/// An interval may end here: if it lost much, its rate is compared with that of the one before.
fn bbr_lt_bw_interval_end(sk: &mut Sock) {
    let lost = sk.ack.lost.saturating_sub(sk.bbr.lt_last_lost);
    let delivered = sk.ack.delivered.saturating_sub(sk.bbr.lt_last_delivered);
    let t_ms = (sk.ack.delivered_us / USEC_PER_MSEC).saturating_sub(sk.bbr.lt_last_stamp);
    if delivered == 0 || lost.saturating_mul(GAIN_UNIT) < delivered.saturating_mul(sk.p.lt_loss_thresh) {
        return;
    }
    if t_ms >= sk.p.lt_intvl_max_ms {
        bbr_reset_lt_bw_sampling(sk);
    } else if t_ms != 0 {
        bbr_lt_bw_interval_done(sk, bw_from(delivered, t_ms.saturating_mul(USEC_PER_MSEC)));
    }
}

/// Looks for a policer, whose token bucket lets bursts through and drops the rest: intervals of 4 to 16 rounds,
/// from loss to loss, that lose a fifth. Without it the flow would pace by the bursts and lose what is beyond the
/// tokens, for ever.
fn bbr_lt_bw_sampling(sk: &mut Sock, losses: u64, is_app_limited: bool) {
    if sk.bbr.lt_use_bw {
        if sk.bbr.mode == Mode::ProbeBw && sk.bbr.round_start {
            sk.bbr.lt_rtt_cnt += 1;
            if sk.bbr.lt_rtt_cnt >= sk.p.lt_bw_max_rtts {
                bbr_reset_lt_bw_sampling(sk);
                bbr_reset_probe_bw_mode(sk);
            }
        }
        return;
    }
    if !sk.bbr.lt_is_sampling {
        if losses == 0 {
            return; // the policer still has tokens
        }
        bbr_reset_lt_bw_sampling_interval(sk);
        sk.bbr.lt_is_sampling = true;
    }
    if is_app_limited {
        bbr_reset_lt_bw_sampling(sk);
        return;
    }
    if sk.bbr.round_start {
        sk.bbr.lt_rtt_cnt += 1;
    }
    if sk.bbr.lt_rtt_cnt < sk.p.lt_intvl_min_rtts {
        return;
    }
    if sk.bbr.lt_rtt_cnt > sk.p.lt_intvl_max_rtts {
        bbr_reset_lt_bw_sampling(sk);
        return;
    }
    if losses != 0 {
        bbr_lt_bw_interval_end(sk); // an interval ends where tokens ran out
    }
}

/// Counts rounds, which are the clock of the model, and takes the rate sample into the windowed maximum. A sample
/// that the application limited says little of the path, unless it is at least as high.
fn bbr_update_bw(sk: &mut Sock) {
    let ack = sk.ack;
    sk.bbr.round_start = false;
    if ack.rs_interval_us == 0 {
        return;
    }
    if ack.rs_prior_delivered >= sk.bbr.next_rtt_delivered {
        sk.bbr.next_rtt_delivered = ack.delivered;
        sk.bbr.rtt_cnt += 1;
        sk.bbr.round_start = true;
        sk.bbr.packet_conservation = false;
    }
    bbr_lt_bw_sampling(sk, ack.newly_lost, ack.rs_is_app_limited);
    let bw = bw_from(ack.rs_delivered, ack.rs_interval_us);
    // An application-limited sample says little, unless it is at least as high.
    if !ack.rs_is_app_limited || bw >= bbr_max_bw(sk) {
        sk.bbr.bw.running_max(sk.p.bw_rtts, sk.bbr.rtt_cnt, bw);
    }
}

/// Measures how much more than the bandwidth explains arrives in one bunch of ACKs; the window needs that much
/// room.
fn bbr_update_ack_aggregation(sk: &mut Sock) {
    let (ack, thresh) = (sk.ack, sk.p.ack_epoch_acked_reset_thresh);
    if sk.p.extra_acked_gain == 0 || ack.newly_acked == 0 || ack.rs_interval_us == 0 {
        return;
    }
    if sk.bbr.round_start {
        sk.bbr.extra_acked_win_rtts += 1;
        if sk.bbr.extra_acked_win_rtts >= sk.p.extra_acked_win_rtts {
            sk.bbr.extra_acked_win_rtts = 0;
            sk.bbr.extra_acked_win_idx = u64::from(sk.bbr.extra_acked_win_idx == 0);
            *sk.bbr.extra_acked() = 0;
        }
    }
    let epoch_us = ack.delivered_us.saturating_sub(sk.bbr.ack_epoch_mstamp);
    let mut expected_acked = bw_data(bbr_bw(sk), epoch_us);
    // A new epoch when ACKs are no faster than expected, or when the old one is very long.
    if sk.bbr.ack_epoch_acked <= expected_acked
        || sk.bbr.ack_epoch_acked.saturating_add(ack.newly_acked) >= bbr_segs(sk, thresh)
    {
        sk.bbr.ack_epoch_acked = 0;
        sk.bbr.ack_epoch_mstamp = ack.delivered_us;
        expected_acked = 0;
    }
    let acked = sk.bbr.ack_epoch_acked.saturating_add(ack.newly_acked);
    sk.bbr.ack_epoch_acked = acked.min(bbr_segs(sk, thresh.saturating_sub(1)));
    let extra_acked = sk.bbr.ack_epoch_acked.saturating_sub(expected_acked).min(sk.out.cwnd);
    let slot = sk.bbr.extra_acked();
    *slot = extra_acked.max(*slot);
}

/// The pipe is full when bandwidth has not grown by a quarter for three rounds: had there been room, sending faster
/// would have delivered faster.
fn bbr_check_full_bw_reached(sk: &mut Sock) {
    if sk.bbr.full_bw_reached || !sk.bbr.round_start || sk.ack.rs_is_app_limited {
        return;
    }
    if bbr_max_bw(sk) >= gain_apply(sk.bbr.full_bw, sk.p.full_bw_thresh) {
        sk.bbr.full_bw = bbr_max_bw(sk);
        sk.bbr.full_bw_cnt = 0;
        return;
    }
    sk.bbr.full_bw_cnt += 1;
    sk.bbr.full_bw_reached = sk.bbr.full_bw_cnt >= sk.p.full_bw_cnt;
}

/// Goes from STARTUP to DRAIN when the pipe is full, and on to PROBE_BW when the queue that STARTUP built is gone.
fn bbr_check_drain(sk: &mut Sock) {
    if sk.bbr.mode == Mode::Startup && sk.bbr.full_bw_reached {
        bbr_set_mode(sk, Mode::Drain);
    }
    if sk.bbr.mode == Mode::Drain
        && bbr_packets_in_net_at_edt(sk, sk.ack.inflight) <= bbr_inflight(sk, bbr_max_bw(sk), GAIN_UNIT)
    {
        bbr_reset_probe_bw_mode(sk);
    }
}

/// Leaves PROBE_RTT when its time is up, and brings back the window.
fn bbr_check_probe_rtt_done(sk: &mut Sock) {
    let done_stamp = sk.bbr.probe_rtt_done_stamp;
    if done_stamp == 0 || sk.ack.now_us <= done_stamp {
        return;
    }
    sk.bbr.min_rtt_stamp = sk.ack.now_us;
    sk.out.cwnd = sk.out.cwnd.max(sk.bbr.prior_cwnd);
    bbr_reset_mode(sk);
}

/// Tracks the minimum RTT of the last 10 s, which is that without a queue. When it was not seen for so long,
/// PROBE_RTT holds four segments in flight to see it again; otherwise a standing queue would pass for the path's
/// own length.
fn bbr_update_min_rtt(sk: &mut Sock) {
    let ack = sk.ack;
    let filter_expired = ack.now_us > sk.bbr.min_rtt_stamp.saturating_add(sk.p.min_rtt_win_us);
    if ack.rs_rtt_us < NO_RTT
        && (ack.rs_rtt_us < sk.bbr.min_rtt_us || (filter_expired && !ack.rs_is_ack_delayed))
    {
        sk.bbr.min_rtt_us = ack.rs_rtt_us;
        sk.bbr.min_rtt_stamp = ack.now_us;
    }
    if sk.p.probe_rtt_mode_us != 0 && filter_expired && !sk.bbr.idle_restart && sk.bbr.mode != Mode::ProbeRtt
    {
        bbr_set_mode(sk, Mode::ProbeRtt);
        bbr_save_cwnd(sk);
        sk.bbr.probe_rtt_done_stamp = 0;
    }
    if sk.bbr.mode == Mode::ProbeRtt {
        sk.out.mark_app_limited = true; // samples of this mode are low by design
        if sk.bbr.probe_rtt_done_stamp == 0 && ack.inflight <= bbr_segs(sk, sk.p.cwnd_min_target) {
            sk.bbr.probe_rtt_done_stamp = ack.now_us.saturating_add(sk.p.probe_rtt_mode_us);
            sk.bbr.probe_rtt_round_done = false;
            sk.bbr.next_rtt_delivered = ack.delivered;
        } else if sk.bbr.probe_rtt_done_stamp != 0 {
            if sk.bbr.round_start {
                sk.bbr.probe_rtt_round_done = true;
            }
            if sk.bbr.probe_rtt_round_done {
                bbr_check_probe_rtt_done(sk);
            }
        }
    }
    if ack.rs_delivered != 0 {
        sk.bbr.idle_restart = false;
    }
}

/// Sets how fast the mode sends, and how much it may have in flight, in proportion to the model.
fn bbr_update_gains(sk: &mut Sock) {
    let (bbr, p) = (&mut *sk.bbr, sk.p);
    (bbr.pacing_gain, bbr.cwnd_gain) = match bbr.mode {
        Mode::Startup => (p.high_gain, p.high_gain),
        Mode::Drain => (p.drain_gain, p.high_gain),
        Mode::ProbeBw => match bbr.cycle_idx {
            0 if !bbr.lt_use_bw => (p.pacing_gain_up, p.cwnd_gain),
            1 if !bbr.lt_use_bw => (p.pacing_gain_down, p.cwnd_gain),
            _ => (GAIN_UNIT, p.cwnd_gain),
        },
        _ => (GAIN_UNIT, GAIN_UNIT),
    };
}

/// Updates the model, then the mode that depends on it; the order matters, because each step uses what those before
/// it found out.
fn bbr_update_model(sk: &mut Sock) {
    bbr_update_bw(sk);
    bbr_update_ack_aggregation(sk);
    bbr_update_cycle_phase(sk);
    bbr_check_full_bw_reached(sk);
    bbr_check_drain(sk);
    bbr_update_min_rtt(sk);
    bbr_update_gains(sk);
}

/// Tells the brake what it must know of this ACK and of the mode. STARTUP and DRAIN are not watched, since both
/// change the rate and the queue themselves. The second half of the gain cycle is steady.
fn bbr_run_brake(sk: &mut Sock) {
    let is_probe_bw = sk.bbr.mode == Mode::ProbeBw;
    let (max_bw, bw, floor) = (bbr_max_bw(sk), bbr_bw(sk), bbr_segs(sk, sk.p.cwnd_min_target));
    brake_on_ack(&mut BrakeAck {
        s: &mut sk.bbr.brake,
        p: &sk.p.brake,
        ack: sk.ack,
        max_bw,
        min_rtt_us: sk.bbr.min_rtt_us,
        bw,
        pacing_gain: sk.bbr.pacing_gain,
        is_round_start: sk.bbr.round_start,
        is_marking: sk.out.mark_app_limited,
        is_watching: (is_probe_bw || sk.bbr.mode == Mode::ProbeRtt) && !sk.bbr.lt_use_bw,
        is_steady: is_probe_bw && sk.bbr.cycle_idx.saturating_mul(2) >= sk.p.cycle_len,
        floor,
    });
}

/// One ACK: the model, the brake, the control.
fn bbr_main(sk: &mut Sock) {
    bbr_update_model(sk);
    let (mut bw, mut gain) = (bbr_bw(sk), sk.bbr.pacing_gain);
    if sk.p.brake.is_on {
        bbr_run_brake(sk);
    }
    let brake = &sk.bbr.brake;
    (bw, gain) = (brake_bw(brake, bw), brake_gain(brake.mode, gain));
    bbr_set_pacing_rate(sk, bw, gain);
    bbr_set_cwnd(sk, sk.ack.newly_acked, bw, sk.bbr.cwnd_gain);
    if sk.bbr.brake.mode != BrakeMode::Watch {
        sk.out.cwnd = sk.out.cwnd.min(sk.bbr.brake.window);
    }
}

/// A connection begins.
fn bbr_init(sk: &mut Sock) {
    *sk.bbr = Bbr1State::default();
    sk.bbr.min_rtt_us = sk.ack.min_rtt_us.min(NO_RTT);
    sk.bbr.min_rtt_stamp = sk.ack.now_us;
    sk.bbr.next_rtt_delivered = sk.ack.delivered;
    bbr_init_pacing_rate_from_rtt(sk);
    bbr_reset_lt_bw_sampling(sk);
    bbr_reset_startup_mode(sk);
    sk.bbr.ack_epoch_mstamp = sk.ack.now_us;
}

/// The application sends again after nothing was in flight: it paces at the estimate, because a burst at the gain
/// of the phase would make the queue that the pause has emptied.
fn bbr_cwnd_event(sk: &mut Sock) {
    if !sk.ack.is_app_limited {
        return;
    }
    sk.bbr.idle_restart = true;
    sk.bbr.ack_epoch_mstamp = sk.ack.now_us;
    sk.bbr.ack_epoch_acked = 0;
    if sk.bbr.mode == Mode::ProbeBw {
        bbr_set_pacing_rate(sk, bbr_bw(sk), GAIN_UNIT);
    } else if sk.bbr.mode == Mode::ProbeRtt {
        bbr_check_probe_rtt_done(sk);
    }
}

/// The transport is about to cut the window.
fn bbr_ssthresh(sk: &mut Sock) {
    bbr_save_cwnd(sk);
}

/// A retransmission timeout ends the round and counts as a loss; the search for a full pipe begins anew, because
/// the timeout says nothing of the rate.
fn bbr_set_state(sk: &mut Sock) {
    sk.bbr.prev_ca_state = CaState::Loss;
    sk.bbr.full_bw = 0;
    sk.bbr.round_start = true;
    bbr_lt_bw_sampling(sk, 1, false);
}

/// The slow-down was spurious, so what it taught is forgotten.
fn bbr_undo_cwnd(sk: &mut Sock) {
    sk.bbr.full_bw = 0;
    sk.bbr.full_bw_cnt = 0;
    bbr_reset_lt_bw_sampling(sk);
}

/// Processes one event: the only way into this controller.
pub fn bbr1_on_event(bbr: &mut Bbr1State, p: &Bbr1Params, ack: &Ack, out: &mut Control) {
    out.cwnd = ack.cwnd;
    out.pacing_rate = ack.pacing_rate;
    out.mark_app_limited = false;
    let sk = &mut Sock { bbr, p, ack, out };
    match ack.event {
        Event::Ack => bbr_main(sk),
        Event::Init => bbr_init(sk),
        Event::TxStart => bbr_cwnd_event(sk),
        Event::Ssthresh => bbr_ssthresh(sk),
        Event::Loss => bbr_set_state(sk),
        Event::Undo => bbr_undo_cwnd(sk),
        Event::Lost => {} // the event that follows tells what the loss means
    }
    sk.out.send_quantum = bbr_tso_segs_goal(sk);
}
