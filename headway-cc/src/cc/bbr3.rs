//! BBRv3 after draft-ietf-ccwg-bbr (the revision is pinned in `docs/spec.md`), and by its names.
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
//! Twin: `headway-kernel/bpf/bbr3.h`: same functions in the same order (`control`, `model`, `probe_bw`, `startup`,
//! `probe_rtt`, `recovery`, `braking`, then this file).
//!
//! Differs from the draft (the reasons, and what was decided where it is silent, are in `docs/spec.md`):
//! - A sample whose own loss is too high ends a probe too, as in Linux; the draft's text wants it, its pseudocode
//!   asks only about packets marked lost. [`Bbr3Params::is_ack_judged`] = 0 follows the pseudocode.
//! - The coexistence bound on rounds counts packets, not bytes.
//! - A cautious probe ends when no segment more fits below `inflight_longterm`, seen before the ACK made room.
//! - State for an undo is saved once a recovery, not at every loss round.
//! - An ACK that delivers nothing changes nothing, and an invalid rate (0) is no sample.
//! - Gains and fractions are rounded to integers, the BDP up and everything else down.

mod braking;
mod control;
mod model;
mod probe_bw;
mod probe_rtt;
mod recovery;
mod startup;

use super::brake::{Brake, BrakeParams};
use super::fixed::{GAIN_UNIT, USEC_PER_MSEC, USEC_PER_SEC, Winmax, bw_from};
use super::row::{row, word};
use super::{Ack, CaState, Control, Controller, Event, NO_RTT};
use braking::{bbr3_bound_cwnd_for_brake, bbr3_update_brake};
use control::{bbr3_init_pacing_rate, bbr3_set_cwnd, bbr3_set_pacing_rate, bbr3_set_send_quantum};
use model::{
    bbr3_advance_latest_delivery_signals, bbr3_bound_bw_for_model, bbr3_check_full_bw_reached,
    bbr3_reset_congestion_signals, bbr3_reset_full_bw, bbr3_reset_short_term_model,
    bbr3_update_ack_aggregation, bbr3_update_congestion_signals, bbr3_update_latest_delivery_signals,
    bbr3_update_min_rtt,
};
use probe_bw::{bbr3_handle_lost_packet, bbr3_note_ce, bbr3_update_probe_bw_cycle_phase};
use probe_rtt::bbr3_check_probe_rtt;
use recovery::{
    bbr3_handle_restart_from_idle, bbr3_handle_spurious_loss_detection, bbr3_on_enter_fast_recovery,
    bbr3_on_enter_rto, bbr3_update_recovery,
};
use startup::{bbr3_check_drain_done, bbr3_check_startup_done, bbr3_enter_startup};
use std::sync::Arc;

word! {
/// The state of the state machine ([`Bbr3State::state`]).
pub enum Mode {
    /// Before the first event. As [`Bbr3State::undo_state`]: there is no state to return to.
    #[default]
    None = 0,
    /// Looks for the path's rate by doubling each round.
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
    /// Whether the state machine may go from this state to `next`. Each line is one reason to change; what is not here
    /// would be a mistake of ours, since no event of the draft leads there.
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
            // It is time to look for more again. Down may be left for it too, when the wait is over before the queue is
            // gone, or when a cautious probe met no loss and goes on.
            (ProbeBwDown | ProbeBwCruise, ProbeBwRefill) => true,
            // The pipe is full again, so what the probe adds is seen.
            (ProbeBwRefill, ProbeBwUp) => true,
            // The probe found the path's limit, or its bound, or loss; what it queued must go.
            (ProbeBwUp, ProbeBwDown) => true,
            // The minimum RTT was not seen for too long.
            (Startup | Drain | ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp, ProbeRtt) => true,
            // The minimum RTT was seen. A flow that never filled the pipe goes on looking for its rate; any other goes
            // through Down, which starts a new cycle, to Cruise, because inflight is low already.
            (ProbeRtt, Startup | ProbeBwDown) => true,
            // The loss that ended Startup proved spurious, so its verdict on the pipe is void.
            (Drain | ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp, Startup) => true,
            // The loss that ended a probe proved spurious, so the probe is run again from its start. (Down and Cruise
            // are above.)
            (ProbeBwRefill, ProbeBwRefill) => true,
            _ => false,
        }
    }
}

word! {
/// What the ACKs of now tell of a probe of the bandwidth ([`Bbr3State::ack_phase`]).
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

/// A bound that bounds nothing (the draft's Infinity).
pub const BBR3_INFINITY: u64 = u64::MAX;

/// A gain in hundredths, as the draft writes it, to the nearest of ours.
const fn hundredths(n: u64) -> u64 {
    (n * GAIN_UNIT + 50) / 100
}

row! {
/// Tunables. [`Bbr3Params::default`] gives the draft's constants; no other place writes them. Gains are in the
/// format of [`super::fixed`]; fractions that are compared or that shape a volume are in thousandths, in which the
/// draft's are exact.
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
    /// Window over BDP in all states but ProbeBW_UP and ProbeRTT (§2.6 DefaultCwndGain). Twice the BDP lets the
    /// flow go on while ACKs are late or come in bunches.
    default_cwnd_gain: u64 = hundredths(200),
    /// Window over BDP in ProbeBW_UP (§5.6.1). The window must leave room for what the faster pace adds.
    up_cwnd_gain: u64 = hundredths(225),
    /// Window over BDP in ProbeRTT (§2.16.2 ProbeRTTCwndGain). Half a BDP empties the queue and still keeps the
    /// path half used.
    probe_rtt_cwnd_gain: u64 = hundredths(50),
    /// How far the pacing rate stays below the estimate, in per cent (§2.5 PacingMarginPercent). An estimate that
    /// is a little too high would otherwise make a queue that never goes.
    pacing_margin_percent: u64 = 1,
    /// Loss above which a volume in flight is too much, in thousandths of it (§2.8 LossThresh). Below it loss is
    /// taken for chance and not for a full buffer.
    loss_thresh_permille: u64 = 20,
    /// What a reduction keeps, in thousandths (§2.8 Beta). It is what CUBIC keeps, so that the two yield alike.
    beta_permille: u64 = 700,
    /// What stays free below the long-term bound, in thousandths of it (§2.8 Headroom). Flows that come to the
    /// bottleneck find that much room without losing packets first.
    headroom_permille: u64 = 150,
    /// The smallest window, in segments (§2.8 MinPipeCwnd). With fewer, a receiver that acknowledges every second
    /// segment would stall the flow.
    min_pipe_cwnd: u64 = 4,
    /// Rounds over which the largest bunch of ACKs counts (§2.12 ExtraAckedFilterLen). Bunching comes and goes with
    /// the radio or the host, so older bunches say little.
    extra_acked_filter_len: u64 = 10,
    /// The same before the pipe was full once, in rounds (§5.5.9). The rate doubles each round then, so that older
    /// bunches say nothing.
    startup_extra_acked_filter_len: u64 = 1,
    /// How long a minimum RTT is believed (§2.16.1 MinRTTFilterLen). A path that became longer is believed after
    /// that time.
    min_rtt_filter_len_us: u64 = 10 * USEC_PER_SEC,
    /// Time without a lower RTT after which ProbeRTT is due (§2.16.2 ProbeRTTInterval). Another value does not
    /// conform: flows empty the queue together by it.
    probe_rtt_interval_us: u64 = 5 * USEC_PER_SEC,
    /// How long ProbeRTT holds its window at least (§2.16.2 ProbeRTTDuration). Flows with different RTTs need that
    /// long to be in it at the same time.
    probe_rtt_duration_us: u64 = 200 * USEC_PER_MSEC,
    /// Growth of the rate from round to round that says the pipe is not full yet (§5.3.1.2). Less is within what
    /// noise does to samples.
    full_bw_gain: u64 = hundredths(125),
    /// Rounds without such growth that say the pipe is full (§5.3.1.2). One or two may be slow because of the
    /// receiver's window or a bunch of ACKs.
    full_bw_count: u64 = 3,
    /// Ranges lost in a round that, with too much loss, end Startup (§5.3.1.3 StartupFullLossCnt). One burst of
    /// chance losses is a single range.
    startup_full_loss_count: u64 = 6,
    /// Rounds after which Drain gives up (§5.3.2). Others may keep the queue up for ever.
    drain_rounds: u64 = 3,
    /// Shortest wait between two probes (§5.3.3.8). Each probe costs others some queue.
    bw_probe_wait_us: u64 = 2 * USEC_PER_SEC,
    /// What chance adds to that wait at most (§5.3.3.8). Flows that share a bottleneck must not probe together.
    bw_probe_wait_rand_us: u64 = USEC_PER_SEC,
    /// Most rounds between two probes (§5.3.3.8). Waiting for as many rounds as Reno needs on a large BDP would
    /// miss bandwidth for minutes.
    bw_probe_max_rounds: u64 = 63,
    /// The count of rounds since the last probe starts at a random number below this (§5.3.3.8). So flows that
    /// count in rounds do not probe together either.
    bw_probe_rand_rounds: u64 = 2,
    /// Most doublings of the growth of the long-term bound in one probe (§5.3.3.9). It keeps a shift within its 64
    /// bits.
    bw_probe_up_rounds_max: u64 = 30,
    /// Segments added to the window in ProbeBW_UP (§5.6.4.2). A quarter of a very small BDP would be no probe at
    /// all.
    up_extra_segments: u64 = 2,
    /// How long a burst lasts at the pacing rate (§5.6.3). Longer bursts make queues, shorter ones cost CPU time.
    send_quantum_us: u64 = USEC_PER_MSEC,
    /// Largest burst, in bytes (§5.6.3). Hosts cannot offload more at once.
    send_quantum_max_bytes: u64 = 64 * 1024,
    /// Smallest burst, in segments (§5.6.3). Receivers acknowledge every second segment.
    send_quantum_min_segments: u64 = 2,
    /// Bursts that the offload engines hold back with TCP, where a unit of data is a packet (§5.5.8.1).
    tcp_offload_quanta: u64 = 3,
    /// Bursts that the hosts hold back with QUIC, where a unit of data is a byte (§5.5.8.2).
    quic_offload_quanta: u64 = 1,
    /// RTT that is assumed for pacing before the first sample (§5.6.2). It is short, so that a fast path is not
    /// begun slowly.
    init_rtt_us: u64 = USEC_PER_MSEC,
    /// Whether the losses of an ACK's own sample can end a probe (1), or only packets marked lost, as the draft's
    /// pseudocode has it (0).
    is_ack_judged: bool = true,
    /// Whether CE marks are answered as Linux BBRv3 does where the minimum RTT is short enough (1), or always count
    /// as losses (0).
    ecn: bool,
    /// Largest minimum RTT at which marks have an answer of their own (Linux `bbr_ecn_max_rtt_us`). On longer paths
    /// marks are not those of a data centre's shallow threshold.
    ecn_max_rtt_us: u64 = 5 * USEC_PER_MSEC,
    /// Weight of the newest round in the average of marks (Linux `bbr_ecn_alpha_gain`).
    ecn_alpha_gain: u64 = GAIN_UNIT / 16,
    /// The average of marks to begin with, as a part of 1 (Linux `bbr_ecn_alpha_init`). At 1 the first marks are
    /// answered in full.
    ecn_alpha_init: u64 = GAIN_UNIT,
    /// A round with marks cuts the short-term bound by the average of marks times this (Linux `bbr_ecn_factor`).
    ecn_factor: u64 = GAIN_UNIT / 3,
    /// Marked part of a round that says there is too much in flight (Linux `bbr_ecn_thresh`).
    ecn_thresh: u64 = GAIN_UNIT / 2,
    /// Rounds above that threshold which end Startup (Linux `bbr_full_ecn_cnt`).
    startup_full_ecn_count: u64 = 2,
    /// The brake's parameters.
    brake: BrakeParams,
}
}

row! {
/// Everything a connection remembers. Data in units, bandwidths and gains in the formats of [`super::fixed`],
/// [`BBR3_INFINITY`] where the draft says Infinity, times in microseconds.
pub struct Bbr3State {
    /// State of the state machine.
    state: Mode,
    /// Pacing rate over bandwidth in this state (§5.6.1).
    pacing_gain: u64,
    /// Window over BDP in this state (§5.6.1).
    cwnd_gain: u64,
    /// The window when the connection began, in units of data (`C.InitialCwnd`).
    init_cwnd: u64,
    /// Whether a smoothed RTT was used for pacing; until then a nominal one is.
    has_seen_rtt: bool,
    /// Largest burst, in units of data (`C.send_quantum`).
    send_quantum: u64,
    /// Rounds so far.
    round_count: u64,
    /// `delivered` at which the round ends.
    next_round_delivered: u64,
    /// Whether this ACK starts a round.
    round_start: bool,
    /// Largest rate of the probe cycle before this one: the older slot of the filter (§5.5.6).
    max_bw_0: u64,
    /// Largest rate of this probe cycle, the newer slot; 0 before its first sample.
    max_bw_1: u64,
    /// The larger of the two slots: what the path was seen to carry.
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
    /// When ProbeRTT may end, in microseconds; 0 while inflight has not fallen yet.
    probe_rtt_done_stamp: u64,
    /// Whether a round at the window of ProbeRTT is over.
    probe_rtt_round_done: bool,
    /// Whether nothing was delivered yet since the flow restarted from idle.
    idle_restart: bool,
    /// Largest bunches of ACKs of late, in units, by `round_count` (§5.5.9).
    extra_acked_filter: Winmax as [
        "extra_acked_s0_t",
        "extra_acked_s0_v",
        "extra_acked_s1_t",
        "extra_acked_s1_v",
        "extra_acked_s2_t",
        "extra_acked_s2_v"
    ],
    /// The filter's value in units: the window has room for so much more than the BDP.
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
    /// Rounds without much growth.
    full_bw_count: u64,
    /// `round_count` when Drain was entered.
    drain_start_round: u64,
    /// Which phase of a probe the ACKs of now tell of.
    ack_phase: AckPhase,
    /// When ProbeBW_DOWN was entered, in microseconds.
    cycle_stamp: u64,
    /// Wait from there until the next probe.
    bw_probe_wait_us: u64,
    /// Rounds since the last probe, plus a random start.
    rounds_since_probe_up: u64,
    /// Doublings of the growth of `inflight_longterm` in this probe.
    bw_probe_up_rounds: u64,
    /// ACKed since it was raised last, in units.
    bw_probe_up_acked: u64,
    /// ACKed data that raises it by one segment, in units.
    probe_up_acked_per_inc: u64,
    /// Whether lost packets may stem from a probe.
    is_bw_probe_sample: bool,
    /// Whether the last probe met too much loss.
    prev_probe_too_high: bool,
    /// Whether the last probe was ended early, out of caution.
    prev_probe_precautionary: bool,
    /// State of loss recovery at the previous ACK.
    prev_ca_state: CaState,
    /// `delivered` when fast recovery was seen to begin; infinite outside of it.
    recovery_delivered: u64,
    /// Window to come back to after recovery or ProbeRTT, in units.
    prior_cwnd: u64,
    /// Whether the state before this recovery is saved.
    is_undo_saved: bool,
    /// State that this recovery made the flow leave; none if it did not.
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
    /// Whether something was marked in this loss round, where marks do not count as losses.
    is_ce_in_round: bool,
    /// Moving average of the marked part of what is delivered, a gain.
    ecn_alpha: u64,
    /// `delivered` when that was updated last.
    alpha_last_delivered: u64,
    /// `delivered_ce` when that was updated last.
    alpha_last_delivered_ce: u64,
    /// Rounds of Startup in a row above the threshold of marks.
    startup_ecn_rounds: u64,
    /// What the brake remembers.
    brake: Brake,
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

/// What every step gets: one event of one connection. `bbr` is the draft's `BBR.…`, `ack` its `C.…` and `RS.…`; `out.cwnd` and
/// `out.pacing_rate` are `C.cwnd` and `C.pacing_rate` in force.
struct Conn<'a> {
    bbr: &'a mut Bbr3State,
    p: &'a Bbr3Params,
    ack: &'a Ack,
    out: &'a mut Control,
    /// `RS.delivery_rate`; 0 when there is no valid sample.
    delivery_rate: u64,
}

/// Updates the model, then the state that depends on it; the order matters, because each step uses what those
/// before it found out (§5.2.3 UpdateModelAndState).
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
    bbr3_set_pacing_rate(c);
    bbr3_set_send_quantum(c);
    bbr3_set_cwnd(c);
}

/// One ACK: the model, the brake, the control (§5.2.3 UpdateOnACK). An ACK that delivers nothing has no sample, so
/// there is nothing to learn from it.
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
    bbr3_update_brake(c);
    bbr3_update_control_parameters(c);
    bbr3_bound_cwnd_for_brake(c);
}

/// A connection begins (§5.2.1 OnInit). What the draft leaves out: ProbeRTT is due one interval from now, and the
/// first loss round ends only after a whole flight.
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

/// Processes one event: the only way into this controller.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::CaState;

    pub(super) const MSS: u64 = 1200;

    /// Calls `f` with a connection that has just begun: bytes, ten segments, 40 ms.
    pub(super) fn with<R>(f: impl FnOnce(&mut Conn) -> R) -> R {
        let ack = start();
        let (mut bbr, mut out) = (Bbr3State::default(), Control::default());
        bbr3_on_event(&mut bbr, &Bbr3Params::default(), &ack, &mut out);
        let p = &Bbr3Params::default();
        f(&mut Conn { bbr: &mut bbr, p, ack: &ack, out: &mut out, delivery_rate: 0 })
    }

    fn start() -> Ack {
        Ack {
            event: Event::Init,
            now_us: 1_000_000,
            unit_bytes: 1,
            smss: MSS,
            cwnd: 10 * MSS,
            cwnd_clamp: u64::MAX,
            max_pacing_rate: u64::MAX,
            srtt_us: 40_000,
            min_rtt_us: 40_000,
            has_selective_acks: true,
            is_cwnd_limited: true,
            rs_rtt_us: NO_RTT,
            ..Ack::default()
        }
    }

    /// A connection that is fed ACKs of one segment, each the first of a round unless told otherwise.
    struct Feed {
        cc: Bbr3,
        ack: Ack,
    }

    impl Feed {
        fn new() -> Self {
            let mut cc = Bbr3::new(Bbr3Params::default());
            let control = cc.on_event(&start());
            let ack = Ack { pacing_rate: control.pacing_rate, ..start() };
            Self { cc, ack }
        }

        /// An ACK 40 ms later that measures `rate` bytes/s, changed by `with`.
        fn ack(&mut self, rate: u64, with: impl FnOnce(&mut Ack)) -> Control {
            let a = &mut self.ack;
            a.event = Event::Ack;
            a.now_us += 40_000;
            a.rs_prior_delivered = a.delivered;
            a.newly_acked = MSS;
            a.delivered += MSS;
            (a.rs_delivered, a.rs_interval_us, a.rs_rtt_us) = (rate / 25, 40_000, 40_000);
            a.rs_tx_in_flight = a.inflight;
            let mut ack = self.ack;
            with(&mut ack);
            self.give(&ack)
        }

        fn give(&mut self, ack: &Ack) -> Control {
            let control = self.cc.on_event(ack);
            (self.ack.cwnd, self.ack.pacing_rate) = (control.cwnd, control.pacing_rate);
            control
        }

        /// `segments` are lost of a packet that left with `tx_in_flight`.
        fn lose(&mut self, segments: u64, tx_in_flight: u64) {
            let mut ack = Ack { event: Event::Lost, rs_starts_lost_range: true, ..self.ack };
            (ack.newly_lost, ack.rs_lost, ack.rs_tx_in_flight) = (MSS, segments * MSS, tx_in_flight);
            self.give(&ack);
        }

        /// Three flat rounds at 1 MB/s end Startup, small inflight ends Drain, and the wait ends with a probe.
        fn go_up(&mut self) {
            self.ack.inflight = 40_000;
            for _ in 0..200 {
                self.ack(1_000_000, |_| {});
                if self.s().state == Mode::ProbeBwUp {
                    return;
                }
            }
            panic!("no probe: {:?}", self.s());
        }

        fn s(&self) -> &Bbr3State {
            self.cc.state_row()
        }
    }

    #[test]
    fn a_connection_starts_with_the_transport_s_window_paced_by_its_rtt() {
        let f = Feed::new();
        assert!(f.ack.pacing_rate.abs_diff(831_000) <= 10, "2.77 * 12000 / 40 ms: {}", f.ack.pacing_rate);
        assert_eq!((f.ack.cwnd, f.s().state, f.s().min_rtt_us), (12_000, Mode::Startup, 40_000));
        assert_eq!((f.s().inflight_longterm, f.s().bw_shortterm), (BBR3_INFINITY, BBR3_INFINITY));
    }

    #[test]
    fn the_first_rtt_replaces_the_nominal_one() {
        let mut cc = Bbr3::new(Bbr3Params::default());
        let init = Ack { srtt_us: 0, ..start() };
        assert!(cc.on_event(&init).pacing_rate.abs_diff(33_240_000) <= 400);
        let ack =
            Ack { event: Event::Ack, srtt_us: 100_000, newly_acked: MSS, pacing_rate: 33_240_000, ..init };
        assert!(cc.on_event(&ack).pacing_rate.abs_diff(332_400) <= 10);
    }

    #[test]
    fn an_ack_that_delivers_nothing_changes_nothing() {
        let mut f = Feed::new();
        f.ack(1_000_000, |_| {});
        let before = *f.s();
        let control = f.ack(2_000_000, |a| a.newly_acked = 0);
        assert_eq!((*f.s(), control.cwnd), (before, f.ack.cwnd));
    }

    #[test]
    fn a_probe_ends_at_loss_and_the_next_is_cautious() {
        let mut f = Feed::new();
        f.go_up();
        f.lose(1, 60_000);
        assert_eq!(f.s().state, Mode::ProbeBwUp, "1200 is exactly 2 % of 60000");
        f.lose(2, 60_000);
        assert_eq!((f.s().state, f.s().undo_state), (Mode::ProbeBwDown, Mode::ProbeBwUp));
        assert_eq!((f.s().prev_probe_too_high, f.s().is_bw_probe_sample), (true, false));
        assert_eq!(f.s().inflight_longterm, 58_800, "what was in flight before the packet");
        let longterm = f.s().inflight_longterm;
        f.lose(30, 60_000);
        assert_eq!(f.s().inflight_longterm, longterm, "one reaction a probe");
        f.ack.inflight = 40_000;
        f.go_up();
        f.ack(1_000_000, |a| a.inflight = longterm);
        assert_eq!((f.s().state, f.s().prev_probe_precautionary), (Mode::ProbeBwDown, true));
        f.ack(1_000_000, |_| {});
        assert_eq!(f.s().state, Mode::ProbeBwRefill, "nothing was lost: on at once");
    }

    #[test]
    fn the_filter_advances_once_a_cycle() {
        let mut f = Feed::new();
        f.go_up();
        f.ack.inflight = 15_000; // little enough for ProbeRTT
        let (cycles, mut ups, mut probe_rtts) = (f.s().cycle_count, 0, 0);
        for _ in 0..2000 {
            let before = f.s().state;
            f.ack(1_000_000, |_| {});
            ups += u64::from(before == Mode::ProbeBwUp && f.s().state == Mode::ProbeBwDown);
            probe_rtts += u64::from(before == Mode::ProbeRtt && f.s().state != Mode::ProbeRtt);
        }
        assert!(ups >= 10 && probe_rtts >= 10, "{ups} {probe_rtts}");
        // Every exit of ProbeRTT starts a cycle too; here its samples are not application-limited.
        assert!((f.s().cycle_count - cycles).abs_diff(ups + probe_rtts) <= 1, "{:?}", f.s());
    }

    #[test]
    fn a_spurious_recovery_is_undone() {
        let mut f = Feed::new();
        f.go_up();
        let (cwnd, longterm) = (f.ack.cwnd, f.s().inflight_longterm);
        f.lose(9, 60_000);
        f.give(&Ack { event: Event::Ssthresh, ..f.ack });
        for _ in 0..3 {
            f.ack.ca_state = CaState::Recovery;
            f.lose(1, 60_000);
            f.ack(500_000, |_| {});
        }
        assert!(f.s().bw_shortterm < BBR3_INFINITY && f.ack.cwnd < cwnd, "{:?}", f.s());
        f.ack.ca_state = CaState::Open;
        let control = f.give(&Ack { event: Event::Undo, ..f.ack });
        assert_eq!((control.cwnd, f.s().inflight_longterm), (cwnd, longterm));
        assert_eq!((f.s().state, f.s().bw_shortterm), (Mode::ProbeBwRefill, BBR3_INFINITY));
        assert_eq!(f.s().undo_state, Mode::None);
    }

    #[test]
    fn a_timeout_leaves_room_for_one_segment() {
        let mut f = Feed::new();
        f.go_up();
        let cwnd = f.ack.cwnd;
        f.give(&Ack { event: Event::Ssthresh, ..f.ack });
        let control = f.give(&Ack { event: Event::Loss, cwnd: 2 * MSS, inflight: MSS, ..f.ack });
        assert_eq!((control.cwnd, f.s().prior_cwnd), (2 * MSS, cwnd));
    }

    /// The same connection counted in packets asks for the same, but for rounding: within 1 % and three segments.
    #[test]
    fn packets_and_bytes_ask_for_the_same() {
        let mut bytes = Feed::new();
        bytes.ack.inflight = 40_800;
        let (mut states, mut before) = (0, Mode::None);
        let mut packets = Bbr3::new(Bbr3Params { tcp_offload_quanta: 1, ..Bbr3Params::default() });
        let in_packets = |a: &Ack, cwnd, pacing_rate| Ack {
            unit_bytes: MSS,
            smss: 1,
            cwnd,
            pacing_rate,
            delivered: a.delivered / MSS,
            newly_acked: a.newly_acked / MSS,
            newly_lost: a.newly_lost / MSS,
            inflight: a.inflight / MSS,
            rs_delivered: a.rs_delivered / MSS,
            rs_lost: a.rs_lost / MSS,
            rs_prior_delivered: a.rs_prior_delivered / MSS,
            rs_tx_in_flight: a.rs_tx_in_flight / MSS,
            ..*a
        };
        let mut p = packets.on_event(&in_packets(&start(), 10, 0));
        for i in 0..600u64 {
            if i % 97 == 96 {
                bytes.lose(3, 48_000);
                let lost = Ack { event: Event::Lost, newly_lost: MSS, rs_lost: 3 * MSS, ..bytes.ack };
                let lost = Ack { rs_tx_in_flight: 48_000, rs_starts_lost_range: true, ..lost };
                p = packets.on_event(&in_packets(&lost, p.cwnd, p.pacing_rate));
            }
            bytes.ack.inflight = if i % 40 < 20 { 40_800 } else { 12_000 };
            let rate = 40 * MSS * 25; // 40 packets a round
            let mut seen = Ack::default();
            let b = bytes.ack(rate, |a| seen = *a);
            p = packets.on_event(&in_packets(&seen, p.cwnd, p.pacing_rate));
            assert_eq!(packets.state_row().state, bytes.s().state, "ACK {i}");
            assert!((p.cwnd * MSS).abs_diff(b.cwnd) <= b.cwnd / 100 + 3 * MSS, "ACK {i}: {p:?} {b:?}");
            assert!(p.pacing_rate.abs_diff(b.pacing_rate) <= b.pacing_rate / 100, "ACK {i}: {p:?} {b:?}");
            states += u64::from(before != bytes.s().state);
            before = bytes.s().state;
        }
        assert!(states > 20, "{states} changes of state");
    }

    #[test]
    fn ce_marks_count_as_losses_unless_they_have_an_answer() {
        for (ecn, min_rtt_us, is_loss) in [(false, 1_000, true), (true, 40_000, true), (true, 1_000, false)] {
            with(|c| {
                let p = Bbr3Params { ecn, ..Bbr3Params::default() };
                let ack = Ack { delivered_ce: 1, ..*c.ack };
                c.bbr.min_rtt_us = min_rtt_us;
                let c = &mut Conn { bbr: c.bbr, p: &p, ack: &ack, out: c.out, delivery_rate: 0 };
                bbr3_note_ce(c);
                assert_eq!((c.bbr.is_loss_in_round, c.bbr.is_ce_in_round), (is_loss, !is_loss));
            });
        }
    }
}
