//! BBRv3 after draft-ietf-ccwg-bbr (the revision is pinned in `docs/reference/draft.md`), and by its names.
//!
//! ```text
//!      ┌──► Startup ───┐     pipe full: no 25 % growth in 3 rounds, or a round of much loss
//!      │       │       ▼
//!      │       │     Drain          until inflight <= 1 BDP, at most 3 rounds
//!      │       │       ▼
//!      │       │ ┌─► ProbeBW_DOWN   0.9: leave headroom, drain the queue
//!      │       │ │     ▼
//!      │       │ │   ProbeBW_CRUISE 1.0: until 2 to 3 s or up to 63 rounds since the last probe
//!      │       │ │     ▼
//!      │       │ │   ProbeBW_REFILL 1.0: one round without short-term bounds
//!      │       │ │     ▼
//!      │       │ └── ProbeBW_UP     1.25: until the rate stops growing, or loss
//!      │       ▼       │ ▲
//!      └── ProbeRTT ◄──┘ │   no lower RTT for 5 s: half a BDP for 200 ms and a round
//!              └─────────┘
//! ```
//!
//! Use: [`Bbr3`] is a [`Controller`]. The transport owns window and pacing rate: each event brings the values in
//! force and each control replaces them. It needs an [`Event::Lost`] for each packet marked lost.
//!
//! Twin: `headway-kernel/bpf/bbr3.h`: same functions in the same order (`control`, `loss_model`, `model`, `newcomer`,
//! `ladder`, `probe_bw`, `startup`, `probe_rtt`, `recovery`, `braking`, `varying`, then this file).
//!
//! Differs from the draft (the reasons, and what was decided where it is silent, are in `docs/reference/draft.md`):
//! - A sample whose own loss is too high ends a probe too, as in Linux. The draft's text asks for this, but its
//!   pseudocode looks only at packets marked lost; [`Bbr3Params::is_ack_judged`] = 0 follows the pseudocode.
//! - The coexistence bound on rounds counts packets, not bytes.
//! - A cautious probe ends when not one segment more fits below `inflight_longterm`. This is judged by what was in
//!   flight before the ACK made room.
//! - The state for an undo is saved once per recovery, not at every loss round.
//! - An ACK that delivers nothing changes nothing, and an invalid rate (0) is no sample.
//! - Gains and fractions are rounded to integers, the BDP up and everything else down.

mod braking;
mod control;
mod ladder;
mod loss_model;
mod model;
mod newcomer;
mod probe_bw;
mod probe_rtt;
mod recovery;
mod startup;
#[cfg(test)]
mod tests;
mod varying;

use super::brake::{Brake, BrakeParams};
use super::fixed::{GAIN_UNIT, USEC_PER_MSEC, USEC_PER_SEC, Winmax, bw_from};
use super::row::{row, word};
use super::{Ack, CaState, Control, Controller, Event, NO_RTT};
use braking::{bbr3_bound_cwnd_for_brake, bbr3_update_brake};
use control::{bbr3_init_pacing_rate, bbr3_set_cwnd, bbr3_set_pacing_rate, bbr3_set_send_quantum};
pub use ladder::{Ladder, LadderParams};
use loss_model::bbr3_loss_gain;
pub use loss_model::{LossModel, LossModelParams};
use model::{
    bbr3_advance_latest_delivery_signals, bbr3_bound_bw_for_model, bbr3_check_full_bw_reached,
    bbr3_reset_congestion_signals, bbr3_reset_full_bw, bbr3_reset_short_term_model,
    bbr3_update_ack_aggregation, bbr3_update_congestion_signals, bbr3_update_latest_delivery_signals,
    bbr3_update_min_rtt,
};
pub use newcomer::{Newcomer, NewcomerParams};
use probe_bw::{bbr3_handle_lost_packet, bbr3_note_ce, bbr3_update_probe_bw_cycle_phase};
use probe_rtt::bbr3_check_probe_rtt;
use recovery::{
    bbr3_handle_restart_from_idle, bbr3_handle_spurious_loss_detection, bbr3_on_enter_fast_recovery,
    bbr3_on_enter_rto, bbr3_update_recovery,
};
use startup::{bbr3_check_drain_done, bbr3_check_startup_done, bbr3_enter_startup};
use std::sync::Arc;
pub use varying::{Varying, VaryingParams};
use varying::{bbr3_bound_cwnd_for_varying, bbr3_update_varying};

word! {
/// The state of the state machine ([`Bbr3State::state`]).
pub enum Mode {
    /// Before the first event. In [`Bbr3State::undo_state`] it means that there is no state to return to.
    #[default]
    None = 0,
    /// Doubles the rate each round to find out what the path carries.
    Startup = 1,
    /// Drains the queue that Startup has built.
    Drain = 2,
    /// Sends slower after a probe, until its queue is gone and headroom is left.
    ProbeBwDown = 3,
    /// Sends at the estimate.
    ProbeBwCruise = 4,
    /// Fills the pipe for a round, so that the probe that follows starts from a full one.
    ProbeBwRefill = 5,
    /// Sends faster, to see whether the path has more.
    ProbeBwUp = 6,
    /// Has little in flight, to see the RTT without a queue.
    ProbeRtt = 7,
}
}

impl Mode {
    /// Whether the state machine may go from this state to `next`. Each line gives one reason to change; a change
    /// that is not listed would be a defect, because no event of the draft leads to it.
    const fn may_become(self, next: Self) -> bool {
        use Mode::*;
        match (self, next) {
            // A connection begins without any idea of the path's rate.
            (None, Startup) => true,
            // The pipe is full, so more speed would only make a longer queue; the queue that Startup built must go.
            (Startup, Drain) => true,
            // The queue is gone, or has had enough rounds to go.
            (Drain, ProbeBwDown) => true,
            // Inflight leaves headroom for others and fits in the pipe: from here on the estimate is kept.
            (ProbeBwDown, ProbeBwCruise) => true,
            // It is time to look for more again. Down may be left for it too, when the wait is over before the queue
            // is gone, or when a cautious probe met no loss and goes on.
            (ProbeBwDown | ProbeBwCruise, ProbeBwRefill) => true,
            // The pipe is full again, so what the probe adds is seen.
            (ProbeBwRefill, ProbeBwUp) => true,
            // The probe found the path's limit, or its bound, or loss; what it queued must go.
            (ProbeBwUp, ProbeBwDown) => true,
            // No lower RTT was seen for 5 s. (None stands for an ACK before Init. No transport of ours sends that,
            // and the flow would then begin like one whose RTT is stale.)
            (None | Startup | Drain | ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp, ProbeRtt) => {
                true
            }
            // ProbeRTT is over. A flow that never filled the pipe goes on looking for its rate; any other goes
            // through Down, which starts a new cycle, to Cruise, because inflight is low already.
            (ProbeRtt, Startup | ProbeBwDown) => true,
            // The loss that ended Startup proved spurious, so it does not show that the pipe is full.
            (Drain | ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp, Startup) => true,
            // The loss that ended a probe proved spurious, so the probe is run again from its start. (Down and Cruise
            // are above.)
            (ProbeBwRefill, ProbeBwRefill) => true,
            _ => false,
        }
    }
}

word! {
/// Which part of a probe the present ACKs answer ([`Bbr3State::ack_phase`]). ACKs come a round after sending, so it
/// lags behind the state.
pub enum AckPhase {
    /// No probe is being judged.
    #[default]
    Init = 0,
    /// ACKs come for what was sent before the pipe was full.
    Refilling = 1,
    /// The probe has begun, but ACKs still come for what was sent before it.
    ProbeStarting = 2,
    /// ACKs come for what the probe has sent.
    ProbeFeedback = 3,
    /// The probe is over, and its last ACKs come.
    ProbeStopping = 4,
}
}

/// The value of a bound that is not in force (the draft's Infinity).
pub const BBR3_INFINITY: u64 = u64::MAX;

/// A gain in hundredths, as the draft writes it, rounded to our format.
const fn hundredths(n: u64) -> u64 {
    (n * GAIN_UNIT + 50) / 100
}

row! {
/// Tunables. [`Bbr3Params::default`] gives the draft's constants; they are written nowhere else, so that lists, C and
/// Rust cannot disagree. Gains are in the format of [`super::fixed`]. Fractions of volumes and of losses are in
/// thousandths, in which the draft's values are exact.
pub struct Bbr3Params {
    /// Pacing rate over bandwidth in Startup (§2.5 StartupPacingGain). 4 ln 2 is the least gain that doubles the
    /// rate each round.
    startup_pacing_gain: u64 = hundredths(277),
    /// Pacing rate over bandwidth in Drain (§2.5 DrainPacingGain). At half speed the queue that Startup built is
    /// gone in about a round.
    drain_pacing_gain: u64 = hundredths(50),
    /// Pacing rate over bandwidth in ProbeBW_DOWN (§5.6.1). A little below 1 it drains what the probe has queued
    /// without starving the path.
    down_pacing_gain: u64 = hundredths(90),
    /// Pacing rate over bandwidth in ProbeBW_CRUISE, ProbeBW_REFILL, ProbeRTT and after an idle period (§5.6.1). At
    /// 1 a queue neither grows nor shrinks.
    cruise_pacing_gain: u64 = GAIN_UNIT,
    /// Pacing rate over bandwidth in ProbeBW_UP (§5.6.1). A quarter more is enough to see that the path has more,
    /// and little to queue if it has not.
    up_pacing_gain: u64 = hundredths(125),
    /// Window over BDP in all states but ProbeBW_UP and ProbeRTT (§2.6 DefaultCwndGain). Twice the BDP lets the flow
    /// go on sending while ACKs are late or come in bunches.
    default_cwnd_gain: u64 = hundredths(200),
    /// Window over BDP in ProbeBW_UP (§5.6.1). The window must leave room for what the faster pace adds.
    up_cwnd_gain: u64 = hundredths(225),
    /// Window over BDP in ProbeRTT (§2.16.2 ProbeRTTCwndGain). Half a BDP empties the queue and still keeps the
    /// path half used.
    probe_rtt_cwnd_gain: u64 = hundredths(50),
    /// How far the pacing rate stays below the estimate, in per cent (§2.5 PacingMarginPercent). An estimate that
    /// is a little too high would otherwise make a queue that never goes.
    pacing_margin_percent: u64 = 1,
    /// Part of a volume in flight, in thousandths, above which its loss is too much (§2.8 LossThresh). Less is taken
    /// for random loss and not for a full buffer.
    loss_thresh_permille: u64 = 20,
    /// The part that a reduction keeps, in thousandths (§2.8 Beta). CUBIC keeps the same, so that the two yield
    /// alike.
    beta_permille: u64 = 700,
    /// What stays free below the long-term bound, in thousandths of it (§2.8 Headroom). Flows that come to the
    /// bottleneck find that much room without losing packets first.
    headroom_permille: u64 = 150,
    /// The smallest window, in segments (§2.8 MinPipeCwnd). With fewer, a receiver that acknowledges every second
    /// segment would stall the flow.
    min_pipe_cwnd: u64 = 4,
    /// Rounds over which the largest bunch of ACKs counts (§2.12 ExtraAckedFilterLen). Bunching comes and goes with
    /// the radio or the host, so older bunches say little about the present path.
    extra_acked_filter_len: u64 = 10,
    /// The same before the pipe was full for the first time, in rounds (§5.5.9). The rate doubles each round then, so
    /// older bunches say nothing.
    startup_extra_acked_filter_len: u64 = 1,
    /// How long a minimum RTT is believed (§2.16.1 MinRTTFilterLen). It is also the time after which a path that
    /// became longer is noticed.
    min_rtt_filter_len_us: u64 = 10 * USEC_PER_SEC,
    /// Time without a lower RTT after which ProbeRTT is due (§2.16.2 ProbeRTTInterval). Another value does not
    /// conform to the draft, because flows only empty the queue together if all use the same interval.
    probe_rtt_interval_us: u64 = 5 * USEC_PER_SEC,
    /// How long ProbeRTT holds its window at least (§2.16.2 ProbeRTTDuration). Flows with different RTTs need that
    /// long to be in it at the same time.
    probe_rtt_duration_us: u64 = 200 * USEC_PER_MSEC,
    /// Factor by which the rate must grow from round to round for the pipe not to count as full (§5.3.1.2). Smaller
    /// growth may be noise.
    full_bw_gain: u64 = hundredths(125),
    /// Rounds in a row without such growth after which the pipe counts as full (§5.3.1.2). One or two may be slow
    /// because of the receiver's window or a bunch of ACKs.
    full_bw_count: u64 = 3,
    /// Lost ranges in a round that end Startup if the loss is also too much (§5.3.1.3 StartupFullLossCnt). One burst
    /// of random loss is a single range.
    startup_full_loss_count: u64 = 6,
    /// Rounds after which Drain ends in any case (§5.3.2), because other flows may keep the queue up.
    drain_rounds: u64 = 3,
    /// Shortest wait between two probes (§5.3.3.8). Each probe costs others some queue.
    bw_probe_wait_us: u64 = 2 * USEC_PER_SEC,
    /// Largest random time that is added to that wait (§5.3.3.8), so that flows that share a bottleneck do not probe
    /// together.
    bw_probe_wait_rand_us: u64 = USEC_PER_SEC,
    /// Most rounds between two probes (§5.3.3.8). Waiting for as many rounds as Reno needs on a large BDP would
    /// miss bandwidth for minutes.
    bw_probe_max_rounds: u64 = 63,
    /// The count of rounds since the last probe starts at a random number below this (§5.3.3.8), so that flows that
    /// wait by rounds do not probe together either.
    bw_probe_rand_rounds: u64 = 2,
    /// How many times a probe may double the speed at which it raises the long-term bound (§5.3.3.9). The limit keeps
    /// a shift within its 64 bits.
    bw_probe_up_rounds_max: u64 = 30,
    /// Segments added to the window in ProbeBW_UP (§5.6.4.2), because a quarter of a very small BDP is less than a
    /// packet.
    up_extra_segments: u64 = 2,
    /// How long a burst lasts at the pacing rate (§5.6.3). Longer bursts make queues, shorter ones cost CPU time.
    send_quantum_us: u64 = USEC_PER_MSEC,
    /// Largest burst, in bytes (§5.6.3). Hosts cannot offload more at once.
    send_quantum_max_bytes: u64 = 64 * 1024,
    /// Smallest burst, in segments (§5.6.3). Receivers acknowledge every second segment, so one alone would wait for
    /// a delayed ACK.
    send_quantum_min_segments: u64 = 2,
    /// Bursts that wait in the offload engines with TCP, where a unit of data is a packet (§5.5.8.1). The window has
    /// room for them, or a small window would be stuck there.
    tcp_offload_quanta: u64 = 3,
    /// The same with QUIC, where a unit of data is a byte (§5.5.8.2). QUIC offloads less.
    quic_offload_quanta: u64 = 1,
    /// RTT that is assumed for pacing before the first sample (§5.6.2). It is short, so that a fast path does not
    /// begin slowly.
    init_rtt_us: u64 = USEC_PER_MSEC,
    /// Whether a probe ends when the losses in an ACK's own sample are too many (1), as the draft's text says, or
    /// only when packets marked lost are, as its pseudocode has it (0).
    is_ack_judged: bool = true,
    /// Whether CE marks are answered as in Linux BBRv3 where the minimum RTT is short enough (1), or always count as
    /// losses (0).
    ecn: bool,
    /// Largest minimum RTT at which marks do not count as losses (Linux `bbr_ecn_max_rtt_us`). On longer paths marks
    /// do not come from the shallow marking threshold of a data centre.
    ecn_max_rtt_us: u64 = 5 * USEC_PER_MSEC,
    /// Weight of the newest round in the average of the marked part (Linux `bbr_ecn_alpha_gain`). Sixteen rounds
    /// smooth out the chance of a single one.
    ecn_alpha_gain: u64 = GAIN_UNIT / 16,
    /// First value of the average of the marked part, where 1 is all (Linux `bbr_ecn_alpha_init`). At 1 the first
    /// marks are answered in full.
    ecn_alpha_init: u64 = GAIN_UNIT,
    /// A round with marks cuts the short-term bound by the average of the marked part times this (Linux
    /// `bbr_ecn_factor`). A few marks cost little, and even a fully marked round at most a third.
    ecn_factor: u64 = GAIN_UNIT / 3,
    /// Marked part of a round from which on too much is in flight (Linux `bbr_ecn_thresh`). With fewer marks the
    /// queue is near the threshold, where it is meant to be.
    ecn_thresh: u64 = GAIN_UNIT / 2,
    /// Rounds in a row above that threshold that end Startup (Linux `bbr_full_ecn_cnt`). A single one may be a burst.
    startup_full_ecn_count: u64 = 2,
    /// The brake's parameters.
    brake: BrakeParams,
    /// The ladder's parameters.
    ladder: LadderParams,
    /// The loss model's parameters.
    loss: LossModelParams,
    /// The parameters of the room for a newcomer.
    newcomer: NewcomerParams,
    /// The parameters for links that vary.
    varying: VaryingParams,
}
}

row! {
/// Everything a connection remembers. Data is in the transport's units, bandwidths and gains are in the formats of
/// [`super::fixed`], times in microseconds, and [`BBR3_INFINITY`] stands where the draft says Infinity.
pub struct Bbr3State {
    /// State of the state machine.
    state: Mode,
    /// Pacing rate over bandwidth in this state (§5.6.1).
    pacing_gain: u64,
    /// Window over BDP in this state (§5.6.1).
    cwnd_gain: u64,
    /// The window when the connection began, in units of data (`C.InitialCwnd`).
    init_cwnd: u64,
    /// Whether the pacing rate was computed from a measured RTT; before that `init_rtt_us` is used.
    has_seen_rtt: bool,
    /// Largest burst, in units of data (`C.send_quantum`).
    send_quantum: u64,
    /// Rounds so far.
    round_count: u64,
    /// `delivered` at which the round ends.
    next_round_delivered: u64,
    /// Whether this ACK starts a round.
    round_start: bool,
    /// Smallest RTT of this round so far, in microseconds; [`NO_RTT`] before its first sample, and 0 in the very first
    /// round, of which nothing is concluded.
    round_rtt_us: u64,
    /// That of the round before, in microseconds.
    last_round_rtt_us: u64,
    /// Largest rate of the probe cycle before this one: the older slot of the filter (§5.5.6).
    max_bw_0: u64,
    /// Largest rate of this probe cycle, the newer slot; 0 before its first sample.
    max_bw_1: u64,
    /// The larger of the two slots: the most that the path was seen to carry.
    max_bw: u64,
    /// Bandwidth in use: `max_bw`, but no more than `bw_shortterm` or the brake allow.
    bw: u64,
    /// Times the filter was advanced.
    cycle_count: u64,
    /// Short-term bound of the bandwidth: cut after a round with loss, lifted before the next probe (§5.5.10.3).
    bw_shortterm: u64,
    /// Short-term bound of the volume in flight, in units; cut and lifted with `bw_shortterm`, or cut alone by CE
    /// marks (§5.5.10.3).
    inflight_shortterm: u64,
    /// Long-term bound of the volume in flight, in units: what the path was seen to bear without much loss
    /// (§5.5.10.2).
    inflight_longterm: u64,
    /// Largest rate delivered in this loss round.
    bw_latest: u64,
    /// Largest volume that one sample of this loss round delivered, in units.
    inflight_latest: u64,
    /// `delivered` at which the loss round ends.
    loss_round_delivered: u64,
    /// Whether this ACK starts a loss round.
    loss_round_start: bool,
    /// Whether something was lost in this loss round.
    is_loss_in_round: bool,
    /// Discontiguous ranges lost in this loss round.
    lost_ranges_in_round: u64,
    /// Minimum RTT of the model, of the last [`Bbr3Params::min_rtt_filter_len_us`]; [`NO_RTT`] before the first
    /// sample.
    min_rtt_us: u64,
    /// When it was seen, in microseconds.
    min_rtt_stamp: u64,
    /// Minimum RTT since the last ProbeRTT; [`NO_RTT`] before the first sample.
    probe_rtt_min_delay_us: u64,
    /// When that was seen, or when ProbeRTT ended if that was later, in microseconds.
    probe_rtt_min_stamp: u64,
    /// Whether `probe_rtt_min_delay_us` is due for a refresh.
    probe_rtt_expired: bool,
    /// When ProbeRTT may end, in microseconds; 0 while inflight has not yet come down to ProbeRTT's window.
    probe_rtt_done_stamp: u64,
    /// Whether the flow has spent a round at ProbeRTT's window.
    probe_rtt_round_done: bool,
    /// Whether nothing has been delivered since the flow restarted from idle.
    idle_restart: bool,
    /// Filter of the largest bunches of ACKs of the last rounds, in units (§5.5.9).
    extra_acked_filter: Winmax as [
        "extra_acked_s0_t",
        "extra_acked_s0_v",
        "extra_acked_s1_t",
        "extra_acked_s1_v",
        "extra_acked_s2_t",
        "extra_acked_s2_v"
    ],
    /// Largest bunch in that filter, in units: the window has room for this much beyond the BDP.
    extra_acked: u64,
    /// Start of the interval in which a bunch is measured, in microseconds.
    extra_acked_interval_start: u64,
    /// ACKed since the start of the interval, in units.
    extra_acked_delivered: u64,
    /// Whether the pipe was full once: Startup is over for good.
    full_bw_reached: bool,
    /// Whether the search that runs now has found the pipe full.
    full_bw_now: bool,
    /// Rate against which growth is measured.
    full_bw: u64,
    /// Rounds in a row in which the rate grew by less than `full_bw_gain`.
    full_bw_count: u64,
    /// `round_count` when Drain was entered.
    drain_start_round: u64,
    /// Which part of a probe the present ACKs answer.
    ack_phase: AckPhase,
    /// When ProbeBW_DOWN was entered, in microseconds.
    cycle_stamp: u64,
    /// Time from `cycle_stamp` until the next probe, in microseconds.
    bw_probe_wait_us: u64,
    /// Rounds since the last probe, plus a random start.
    rounds_since_probe_up: u64,
    /// How many times this probe has doubled the speed at which it raises `inflight_longterm`.
    bw_probe_up_rounds: u64,
    /// Data ACKed since `inflight_longterm` was raised last, in units.
    bw_probe_up_acked: u64,
    /// Data that has to be ACKed for `inflight_longterm` to rise by one segment, in units.
    probe_up_acked_per_inc: u64,
    /// Whether packets that are lost now may have been sent in a probe.
    is_bw_probe_sample: bool,
    /// Whether the last probe met too much loss.
    prev_probe_too_high: bool,
    /// Whether the last probe was ended early, out of caution.
    prev_probe_precautionary: bool,
    /// State of loss recovery at the previous ACK.
    prev_ca_state: CaState,
    /// `delivered` when fast recovery was seen to begin; infinite outside of it.
    recovery_delivered: u64,
    /// Window to restore after recovery or ProbeRTT, in units.
    prior_cwnd: u64,
    /// Whether the state before this recovery is saved.
    is_undo_saved: bool,
    /// State that the losses of this recovery made the flow leave; [`Mode::None`] if they did not.
    undo_state: Mode,
    /// `bw_shortterm` before this recovery (§5.5.11.1).
    undo_bw_shortterm: u64,
    /// `inflight_shortterm` before this recovery.
    undo_inflight_shortterm: u64,
    /// `inflight_longterm` before this recovery.
    undo_inflight_longterm: u64,
    /// `inflight_longterm` when the brake was put on.
    unbraked_inflight_longterm: u64,
    /// CE-marked data delivered up to the previous ACK, in units.
    delivered_ce: u64,
    /// Whether data was CE-marked in this loss round; not set where marks count as losses.
    is_ce_in_round: bool,
    /// Moving average of the marked part of what is delivered, a gain.
    ecn_alpha: u64,
    /// `delivered` when `ecn_alpha` was updated last.
    alpha_last_delivered: u64,
    /// `delivered_ce` when `ecn_alpha` was updated last.
    alpha_last_delivered_ce: u64,
    /// Rounds of Startup in a row above the threshold of marks.
    startup_ecn_rounds: u64,
    /// What the brake remembers.
    brake: Brake,
    /// What the ladder remembers.
    ladder: Ladder,
    /// What the loss model remembers.
    loss: LossModel,
    /// What is remembered to make room for a newcomer.
    newcomer: Newcomer,
    /// What is remembered of a link that varies.
    varying: Varying,
}
}

/// A BBRv3 connection.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    /// Shared by all flows with the same parameters.
    params: Arc<Bbr3Params>,
    state: Bbr3State,
}

impl Bbr3 {
    /// A connection before its first event, which must be [`Event::Init`]: that fills the state.
    pub fn new(params: impl Into<Arc<Bbr3Params>>) -> Self {
        Self { params: params.into(), state: Bbr3State::default() }
    }

    /// The state by name.
    pub fn state_row(&self) -> &Bbr3State {
        &self.state
    }
}

impl Controller for Bbr3 {
    fn on_event(&mut self, ack: &Ack) -> Control {
        let mut out = Control::default();
        bbr3_on_event(&mut self.state, &self.params, ack, &mut out);
        out
    }

    fn state(&self) -> Vec<u64> {
        self.state.words()
    }

    fn state_fields(&self) -> &'static [&'static str] {
        Bbr3State::FIELDS
    }
}

/// One event of one connection, which every step is given. `bbr` is the draft's `BBR.…`, and `ack` its `C.…` and
/// `RS.…`. `out.cwnd` and `out.pacing_rate` are `C.cwnd` and `C.pacing_rate`, the values that the transport uses now.
struct Conn<'a> {
    bbr: &'a mut Bbr3State,
    p: &'a Bbr3Params,
    ack: &'a Ack,
    out: &'a mut Control,
    /// `RS.delivery_rate`; 0 when there is no valid sample.
    delivery_rate: u64,
}

/// Updates the model, then the state that depends on it (§5.2.3 UpdateModelAndState). The order matters, because each
/// step uses what the steps before it found out.
fn bbr3_update_model_and_state(c: &mut Conn) {
    bbr3_update_latest_delivery_signals(c);
    bbr3_update_congestion_signals(c);
    bbr3_update_ack_aggregation(c);
    bbr3_check_full_bw_reached(c);
    bbr3_check_startup_done(c);
    bbr3_check_drain_done(c);
    bbr3_update_probe_bw_cycle_phase(c);
    bbr3_update_min_rtt(c);
    bbr3_check_probe_rtt(c);
    bbr3_advance_latest_delivery_signals(c);
    bbr3_bound_bw_for_model(c);
}

/// Turns the model into what the transport applies: a rate, a burst and a window (§5.2.3 UpdateControlParameters).
fn bbr3_update_control_parameters(c: &mut Conn) {
    bbr3_set_pacing_rate(c, bbr3_loss_gain(c, c.bbr.pacing_gain));
    bbr3_set_send_quantum(c);
    bbr3_set_cwnd(c);
}

/// Processes one ACK (§5.2.3 UpdateOnACK). The model learns from it first, then the brake may replace the model's
/// bandwidth, and only then are rate, burst and window computed from the result. An ACK that delivers nothing has no
/// sample, so there is nothing to learn from it.
fn bbr3_update_on_ack(c: &mut Conn) {
    if c.ack.newly_acked == 0 {
        return;
    }
    if c.ack.rs_interval_us != 0 {
        c.delivery_rate = bw_from(c.ack.rs_delivered, c.ack.rs_interval_us);
    }
    bbr3_update_recovery(c);
    bbr3_note_ce(c);
    bbr3_update_model_and_state(c);
    bbr3_update_varying(c);
    bbr3_update_brake(c);
    bbr3_update_control_parameters(c);
    bbr3_bound_cwnd_for_brake(c);
    bbr3_bound_cwnd_for_varying(c);
}

/// Sets the state for a new connection (§5.2.1 OnInit). The draft leaves two points open: here ProbeRTT is due one
/// interval from now, and the first loss round ends only after a whole flight.
fn bbr3_on_init(c: &mut Conn) {
    let (now_us, srtt_us) = (c.ack.now_us, c.ack.srtt_us);
    *c.bbr = Bbr3State::default();
    c.bbr.init_cwnd = c.ack.cwnd;
    c.bbr.min_rtt_us = if srtt_us != 0 { srtt_us } else { NO_RTT };
    c.bbr.min_rtt_stamp = now_us;
    c.bbr.probe_rtt_min_delay_us = NO_RTT;
    c.bbr.probe_rtt_min_stamp = now_us;
    c.bbr.extra_acked_interval_start = now_us;
    c.bbr.inflight_longterm = BBR3_INFINITY;
    c.bbr.probe_up_acked_per_inc = BBR3_INFINITY;
    c.bbr.recovery_delivered = BBR3_INFINITY;
    c.bbr.next_round_delivered = c.ack.delivered;
    c.bbr.loss_round_delivered = c.ack.delivered.saturating_add(1);
    c.bbr.delivered_ce = c.ack.delivered_ce;
    c.bbr.ecn_alpha = c.p.ecn_alpha_init;
    c.bbr.alpha_last_delivered = c.ack.delivered;
    c.bbr.alpha_last_delivered_ce = c.ack.delivered_ce;
    bbr3_reset_congestion_signals(c);
    bbr3_reset_short_term_model(c);
    bbr3_reset_full_bw(c);
    bbr3_init_pacing_rate(c);
    bbr3_set_send_quantum(c);
    bbr3_enter_startup(c);
}

/// Processes one event and writes what the transport has to apply into `out`. It is the only entry, so the C twin can
/// be fed the same rows and compared. Values that no step sets keep what the transport reports.
pub fn bbr3_on_event(bbr: &mut Bbr3State, p: &Bbr3Params, ack: &Ack, out: &mut Control) {
    out.cwnd = ack.cwnd;
    out.pacing_rate = ack.pacing_rate;
    out.mark_app_limited = false;
    let c = &mut Conn { bbr, p, ack, out, delivery_rate: 0 };
    match ack.event {
        Event::Ack => bbr3_update_on_ack(c),
        Event::Lost => bbr3_handle_lost_packet(c),
        Event::Init => bbr3_on_init(c),
        Event::TxStart => bbr3_handle_restart_from_idle(c),
        Event::Ssthresh => bbr3_on_enter_fast_recovery(c),
        Event::Loss => bbr3_on_enter_rto(c),
        Event::Undo => bbr3_handle_spurious_loss_detection(c),
    }
    c.out.send_quantum = c.bbr.send_quantum;
}
