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
//! Differs from `tcp_bbr.c`: the list is in `docs/reference/draft.md`. In packets the integers are the kernel's.

mod control;
mod model;
mod modes;
mod policer;
mod probe_rtt;

use super::brake::{Brake, BrakeAck, BrakeMode, BrakeParams, brake_bw, brake_gain, brake_on_ack};
use super::fixed::{GAIN_UNIT, USEC_PER_MSEC, USEC_PER_SEC, Winmax};
use super::row::{row, word};
use super::{Ack, CaState, Control, Controller, Event, NO_RTT};
pub use control::bbr1_min_tso_segs;
use control::{
    bbr_bw, bbr_init_pacing_rate_from_rtt, bbr_max_bw, bbr_save_cwnd, bbr_segs, bbr_set_cwnd,
    bbr_set_pacing_rate, bbr_tso_segs_goal,
};
use model::{bbr_update_ack_aggregation, bbr_update_bw};
use modes::{
    bbr_check_drain, bbr_check_full_bw_reached, bbr_reset_startup_mode, bbr_update_cycle_phase,
    bbr_update_gains,
};
use policer::{bbr_lt_bw_sampling, bbr_reset_lt_bw_sampling};
use probe_rtt::{bbr_check_probe_rtt_done, bbr_update_min_rtt};
use std::sync::Arc;

word! {
/// The mode of the state machine ([`Bbr1State::mode`]).
pub enum Mode {
    /// Doubles the rate each round to find out what the path carries.
    #[default]
    Startup = 0,
    /// Sends slower until the queue that STARTUP built is gone.
    Drain = 1,
    /// Sends at the estimated bandwidth, and probes for more once a cycle.
    ProbeBw = 2,
    /// Keeps four segments in flight, so that the queue empties and the minimum RTT is seen.
    ProbeRtt = 3,
}
}

impl Mode {
    /// Whether the state machine may go from this mode to `next`. Each line gives one reason to change; a change that
    /// is not listed would be a defect, because no event leads to it.
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
            // The minimum RTT was not seen for 10 s.
            (Startup | Drain | ProbeBw, ProbeRtt) => true,
            // PROBE_RTT is over. A flow that never filled the pipe goes on looking for its rate, any other keeps its
            // estimate.
            (ProbeRtt, Startup | ProbeBw) => true,
            _ => false,
        }
    }
}

/// A gain of Linux, which counts in parts of 256, in our format.
const fn bbr_unit(parts: u64) -> u64 {
    parts * (GAIN_UNIT >> 8)
}

row! {
/// Tunables. [`Bbr1Params::default`] gives the constants of `tcp_bbr.c`; they are written nowhere else, so that
/// lists, C and Rust cannot disagree.
pub struct Bbr1Params {
    /// Rounds over which the largest rate sample is the bandwidth estimate. They must cover a gain cycle, which has
    /// eight phases, so that the sample of a probe lasts until the next one.
    bw_rtts: u64 = 10,
    /// How long a minimum RTT is believed before PROBE_RTT looks for it again. It is also the time after which a path
    /// that became longer is noticed.
    min_rtt_win_us: u64 = 10 * USEC_PER_SEC,
    /// Time spent at the minimum window in PROBE_RTT; 0 turns PROBE_RTT off. Flows with different RTTs must be in it
    /// at the same time for the queue to empty.
    probe_rtt_mode_us: u64 = 200 * USEC_PER_MSEC,
    /// Pacing rate, in bytes per second, below which a burst is one segment. On slow paths even two segments would be
    /// a noticeable queue.
    min_tso_rate: u64 = 1_200_000 / 8,
    /// How far the pacing rate stays below the estimate, in per cent. An estimate that is a little too high would
    /// otherwise make a queue that never goes.
    pacing_margin_percent: u64 = 1,
    /// The length of a burst as an exponent: at the pacing rate it lasts 2^-shift seconds (Linux `sk_pacing_shift`).
    /// Longer bursts make queues, shorter ones cost CPU time.
    pacing_shift: u64 = 10,
    /// Largest burst, in bytes (Linux `GSO_LEGACY_MAX_SIZE - 1 - MAX_TCP_HEADER`, with WLAN configured).
    gso_max_bytes: u64 = 65_536 - 1 - 320,
    /// Largest burst, in segments.
    max_tso_segs: u64 = 127,
    /// Number of bursts that wait in the offload engines of both hosts. The window has room for them on top of the
    /// BDP, or a small window would be stuck there.
    tso_budget: u64 = 3,
    /// Segments added to the window in the probing phase, because a quarter of a very small BDP is less than a
    /// packet.
    probe_bw_segs: u64 = 2,
    /// Pacing rate over bandwidth, and window over BDP, in STARTUP. 2/ln 2 is the least gain that doubles the rate
    /// each round.
    high_gain: u64 = bbr_unit(256 * 2885 / 1000 + 1),
    /// Pacing rate over bandwidth in DRAIN. The inverse of STARTUP's gain empties its queue in about a round.
    drain_gain: u64 = bbr_unit(256 * 1000 / 2885),
    /// Window over BDP in PROBE_BW. Twice the BDP lets the flow go on sending while ACKs are late or come in bunches.
    cwnd_gain: u64 = 2 * GAIN_UNIT,
    /// Pacing rate over bandwidth in phase 0 of PROBE_BW, which looks for more.
    pacing_gain_up: u64 = GAIN_UNIT * 5 / 4,
    /// Pacing rate over bandwidth in phase 1 of PROBE_BW, which drains what phase 0 queued. The other phases pace
    /// at 1.
    pacing_gain_down: u64 = GAIN_UNIT * 3 / 4,
    /// Phases of the gain cycle, of one minimum RTT each.
    cycle_len: u64 = 8,
    /// PROBE_BW starts at a random one of this many phases, so that flows that share a bottleneck do not probe
    /// together.
    cycle_rand: u64 = 7,
    /// Smallest window, in segments. With fewer, a receiver that acknowledges every second segment would stall the
    /// flow.
    cwnd_min_target: u64 = 4,
    /// Window before any RTT sample, in segments (Linux `TCP_INIT_CWND`). Without an RTT there is no BDP to use
    /// instead.
    init_cwnd: u64 = 10,
    /// RTT that is assumed for pacing before the first sample. It is short, so that a fast path does not begin
    /// slowly.
    init_rtt_us: u64 = USEC_PER_MSEC,
    /// Factor by which the bandwidth must grow from round to round for the pipe not to count as full. Smaller growth
    /// may be noise.
    full_bw_thresh: u64 = GAIN_UNIT * 5 / 4,
    /// Rounds in a row without such growth after which the pipe counts as full. One or two may be slow because of the
    /// receiver's window or a bunch of ACKs.
    full_bw_cnt: u64 = 3,
    /// Shortest interval in which the rate behind a policer is measured, in rounds.
    lt_intvl_min_rtts: u64 = 4,
    /// Longest such interval, in rounds. After it there was too little loss for a policer, and the sampling starts
    /// over.
    lt_intvl_max_rtts: u64 = 4 * 4,
    /// Longest such interval, in milliseconds (Linux: as many as fit in 32 bits of microseconds).
    lt_intvl_max_ms: u64 = u32::MAX as u64 / USEC_PER_MSEC,
    /// Lost over delivered data above which an interval may come from a policer. Random loss is rarer.
    lt_loss_thresh: u64 = bbr_unit(50),
    /// Two intervals agree when their rates differ by no more than this part. A policer is assumed once two in a row
    /// agree.
    lt_bw_ratio: u64 = GAIN_UNIT / 8,
    /// They also agree when their rates differ by no more than this many bytes per second, because on slow paths a
    /// single packet is a large part of the rate.
    lt_bw_diff: u64 = 4_000 / 8,
    /// Rounds for which the rate of a policer is used. After them the flow probes again, because the policer may be
    /// gone.
    lt_bw_max_rtts: u64 = 48,
    /// Part of the data that ACKs bring in bunches that is added to the window; 0 turns the measuring off. Without it
    /// the flow runs dry between two bunches.
    extra_acked_gain: u64 = GAIN_UNIT,
    /// Rounds that each of the two slots of the filter for bunched ACKs covers. Older bunches say little about the
    /// present path.
    extra_acked_win_rtts: u64 = 5,
    /// Segments after which the measuring of a bunch starts over, because Linux keeps the count in a field of 20
    /// bits.
    ack_epoch_acked_reset_thresh: u64 = 1 << 20,
    /// Upper limit of what is added to the window for bunched ACKs: what the estimated bandwidth delivers in this
    /// time. A larger bunch is a stall of the path.
    extra_acked_max_us: u64 = 100 * USEC_PER_MSEC,
    /// The brake's parameters.
    brake: BrakeParams,
}
}

row! {
/// Everything a connection remembers. Data in units, bandwidths and gains in the formats of [`super::fixed`].
pub struct Bbr1State {
    /// Minimum RTT of the last `min_rtt_win_us`, in microseconds; [`NO_RTT`] before the first sample.
    min_rtt_us: u64,
    /// When it was seen, in microseconds.
    min_rtt_stamp: u64,
    /// When PROBE_RTT may end, in microseconds; 0 while inflight has not yet come down to the minimum window.
    probe_rtt_done_stamp: u64,
    /// Filter of the largest rate samples of the last `bw_rtts` rounds. The largest is the bandwidth estimate, unless
    /// a policer's rate is used.
    bw: Winmax as ["bw_s0_t", "bw_s0_v", "bw_s1_t", "bw_s1_v", "bw_s2_t", "bw_s2_v"],
    /// Rounds so far.
    rtt_cnt: u64,
    /// `delivered` at which the round ends.
    next_rtt_delivered: u64,
    /// Start of the phase of the gain cycle, in microseconds.
    cycle_mstamp: u64,
    /// Mode of the state machine.
    mode: Mode,
    /// State of loss recovery at the previous ACK.
    prev_ca_state: CaState,
    /// Whether this is the first round of recovery, in which no more data leaves than arrives.
    packet_conservation: bool,
    /// Whether this ACK starts a round.
    round_start: bool,
    /// Whether nothing has been delivered since the flow restarted from idle.
    idle_restart: bool,
    /// Whether the flow has spent a round at the minimum window of PROBE_RTT.
    probe_rtt_round_done: bool,
    /// Whether the rate behind a policer is being measured.
    lt_is_sampling: bool,
    /// Rounds in the interval that is being measured, or rounds since a policer's rate has been in use.
    lt_rtt_cnt: u64,
    /// Whether a policer's rate is the bandwidth estimate.
    lt_use_bw: bool,
    /// Rate of the last lossy interval, and the estimate while `lt_use_bw`; 0 before the first one.
    lt_bw: u64,
    /// `delivered` at the start of the interval.
    lt_last_delivered: u64,
    /// Start of the interval, in milliseconds.
    lt_last_stamp: u64,
    /// `lost` at the start of the interval.
    lt_last_lost: u64,
    /// Pacing rate over bandwidth: that of the mode and, in PROBE_BW, of the phase.
    pacing_gain: u64,
    /// Window over BDP: that of the mode.
    cwnd_gain: u64,
    /// Whether STARTUP has filled the pipe.
    full_bw_reached: bool,
    /// Rounds in a row in which the bandwidth grew by less than `full_bw_thresh`.
    full_bw_cnt: u64,
    /// Phase of the gain cycle, from 0.
    cycle_idx: u64,
    /// Whether the pacing rate was computed from a measured RTT; before that `init_rtt_us` is used.
    has_seen_rtt: bool,
    /// Window to restore after recovery or PROBE_RTT, in units of data.
    prior_cwnd: u64,
    /// Bandwidth against which growth is measured.
    full_bw: u64,
    /// Start of the epoch in which a bunch of ACKs is measured, in microseconds.
    ack_epoch_mstamp: u64,
    /// Most data that was ACKed in one epoch beyond what the bandwidth explains, in units of data. This is the first
    /// of two slots that are used in turn.
    extra_acked_0: u64,
    /// The second slot. The window has room for the larger of the two.
    extra_acked_1: u64,
    /// Data ACKed since the start of the epoch, in units of data.
    ack_epoch_acked: u64,
    /// Age of the slot in use, in rounds.
    extra_acked_win_rtts: u64,
    /// The slot in use, 0 or 1.
    extra_acked_win_idx: u64,
    /// What the brake remembers.
    brake: Brake,
}
}

impl Bbr1State {
    /// The slot that this round's bunches go into.
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

    /// In BBRv1 the window does not grow in the first round of each recovery. If every round began a new recovery the
    /// window would never grow, so a recovery has to last until its losses are repaired.
    fn recovers_until_repaired(&self) -> bool {
        true
    }
}

/// One event of one connection, named as in `tcp_bbr.c`, whose functions reach all of this through `sk`. `out.cwnd`
/// and `out.pacing_rate` are the values that the transport uses now.
struct Sock<'a> {
    bbr: &'a mut Bbr1State,
    p: &'a Bbr1Params,
    ack: &'a Ack,
    out: &'a mut Control,
}

/// Updates the model, then the mode that depends on it. The order matters, because each step uses what the steps
/// before it found out.
fn bbr_update_model(sk: &mut Sock) {
    bbr_update_bw(sk);
    bbr_update_ack_aggregation(sk);
    bbr_update_cycle_phase(sk);
    bbr_check_full_bw_reached(sk);
    bbr_check_drain(sk);
    bbr_update_min_rtt(sk);
    bbr_update_gains(sk);
}

/// Hands this ACK to the brake. STARTUP and DRAIN are not watched, because both change the rate and the queue
/// themselves; nor is a flow that uses a policer's rate. Only the second half of the gain cycle is steady, because
/// the first half probes and drains.
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

/// Processes one ACK. The model learns from it first, then the brake may replace the model's bandwidth, and only then
/// are the pacing rate and the window computed from the result.
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

/// Sets the state for a new connection: the transport's minimum RTT so far, a first pacing rate from the window and
/// the RTT, no policer, and STARTUP.
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

/// Handles the application sending again after nothing was in flight. The flow paces at the estimate, because a burst
/// at the gain of the phase would rebuild the queue that the pause has emptied.
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

/// Saves the window, because the transport is about to cut it and it is restored after recovery.
fn bbr_ssthresh(sk: &mut Sock) {
    bbr_save_cwnd(sk);
}

/// Handles a retransmission timeout. It ends the round and counts as a loss; the search for a full pipe begins again,
/// because the timeout says nothing about the rate.
fn bbr_set_state(sk: &mut Sock) {
    sk.bbr.prev_ca_state = CaState::Loss;
    sk.bbr.full_bw = 0;
    sk.bbr.round_start = true;
    bbr_lt_bw_sampling(sk, 1, false);
}

/// Handles losses that proved spurious. What they taught about a full pipe and about a policer is forgotten.
fn bbr_undo_cwnd(sk: &mut Sock) {
    sk.bbr.full_bw = 0;
    sk.bbr.full_bw_cnt = 0;
    bbr_reset_lt_bw_sampling(sk);
}

/// Processes one event and writes what the transport has to apply into `out`. It is the only entry, so the C twin can
/// be fed the same rows and compared. Values that no step sets keep what the transport reports.
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
