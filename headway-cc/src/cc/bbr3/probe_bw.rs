//! ProbeBW (§5.3.3), the cycle in which a flow spends most of its life; the long-term bound; and what a lost packet
//! says about that bound (§5.5.10.2).
//!
//! The cycle is entered from Drain and from ProbeRTT, and left for ProbeRTT, or for Startup by an undo. DOWN drains
//! what a probe has queued and leaves headroom, CRUISE keeps the estimate for two to three seconds, REFILL fills the
//! pipe for a round, and UP sends faster until the rate stops growing or too much is lost. Without UP a path that
//! became faster would never be noticed. Without DOWN each probe would leave its queue behind. Without the long-term
//! bound each probe would lose as much as the one before. ACKs answer what was sent a round ago, so the part of a
//! probe that they belong to (`ack_phase`) is tracked apart from the state.

use super::control::{
    bbr3_inflight, bbr3_inflight_with_headroom, bbr3_is_in_a_probe_bw_state, bbr3_permille, bbr3_segments,
    bbr3_set_state,
};
use super::ladder::{
    bbr3_is_ladder_over, bbr3_max_rounds, bbr3_note_cruise, bbr3_rand_rounds, bbr3_start_ladder,
    bbr3_update_ladder,
};
use super::loss_model::bbr3_end_tolerance;
use super::model::{
    bbr3_advance_max_bw_filter, bbr3_inflight_at_loss, bbr3_is_ecn_eligible, bbr3_is_inflight_too_high,
    bbr3_is_loss_too_high, bbr3_note_loss, bbr3_reset_congestion_signals, bbr3_reset_full_bw,
    bbr3_reset_short_term_model, bbr3_start_round, bbr3_target_inflight, bbr3_target_segments,
};
use super::newcomer::bbr3_make_room;
use super::{AckPhase, BBR3_INFINITY, Conn, Mode};
use crate::cc::fixed::{GAIN_UNIT, mul_shift};

/// Draws the time until the next probe (§5.3.3.8 PickProbeWait). Flows that share a bottleneck must not probe
/// together, or each would take the other's queue for its own. The time uses all random bits, the first count of
/// rounds the lower half.
fn bbr3_pick_probe_wait(c: &mut Conn) {
    let rand = c.ack.rand & u64::from(u32::MAX);
    c.bbr.rounds_since_probe_up = mul_shift(rand & 0xffff, bbr3_rand_rounds(c), 16);
    c.bbr.bw_probe_wait_us =
        c.p.bw_probe_wait_us.saturating_add(mul_shift(rand, c.p.bw_probe_wait_rand_us, 32));
}

/// Begins DOWN, which sends slower than the estimate after a probe or after Drain until the queue is gone and
/// headroom is left; the wait for the next probe begins (§5.3.3.9 StartProbeBW_DOWN).
pub(super) fn bbr3_start_probe_bw_down(c: &mut Conn) {
    bbr3_reset_congestion_signals(c);
    c.bbr.probe_up_acked_per_inc = BBR3_INFINITY;
    bbr3_pick_probe_wait(c);
    c.bbr.cycle_stamp = c.ack.now_us;
    c.bbr.ack_phase = AckPhase::ProbeStopping;
    bbr3_start_round(c);
    bbr3_set_state(c, Mode::ProbeBwDown);
}

/// Begins CRUISE, which sends at the estimate and so neither makes a queue nor drains one (§5.3.3.9
/// StartProbeBW_CRUISE).
pub(super) fn bbr3_start_probe_bw_cruise(c: &mut Conn) {
    bbr3_set_state(c, Mode::ProbeBwCruise);
    bbr3_note_cruise(c);
}

/// Begins REFILL, which fills the pipe for one round at the estimate and without short-term bounds, so that losses in
/// the probe that follows show that too much is in flight, and nothing older (§5.3.3.9 StartProbeBW_REFILL).
pub(super) fn bbr3_start_probe_bw_refill(c: &mut Conn) {
    bbr3_reset_short_term_model(c);
    c.bbr.bw_probe_up_rounds = 0;
    c.bbr.bw_probe_up_acked = 0;
    c.bbr.prev_probe_precautionary = false;
    c.bbr.ack_phase = AckPhase::Refilling;
    bbr3_start_round(c);
    bbr3_set_state(c, Mode::ProbeBwRefill);
}

/// Doubles, once a round, how fast the long-term bound grows (§5.3.3.9 RaiseInflightLongtermSlope). It grows slowly
/// at first, so that little is lost where the bound was right, and then fast, so that a path with far more room is
/// found soon. The exponent stays below the width of the shift, and the result is rounded down to whole units.
fn bbr3_raise_inflight_longterm_slope(c: &mut Conn) {
    let per_inc = c.out.cwnd >> (c.bbr.bw_probe_up_rounds & 63);
    c.bbr.bw_probe_up_rounds = (c.bbr.bw_probe_up_rounds + 1).min(c.p.bw_probe_up_rounds_max);
    c.bbr.probe_up_acked_per_inc = per_inc.max(bbr3_segments(c, 1));
}

/// Begins UP, which sends a quarter faster than the estimate to see whether more arrives (§5.3.3.9 StartProbeBW_UP).
fn bbr3_start_probe_bw_up(c: &mut Conn) {
    c.bbr.ack_phase = AckPhase::ProbeStarting;
    bbr3_start_round(c);
    bbr3_reset_full_bw(c);
    c.bbr.full_bw = c.delivery_rate;
    bbr3_set_state(c, Mode::ProbeBwUp);
    bbr3_start_ladder(c);
    bbr3_raise_inflight_longterm_slope(c);
}

/// Whether a Reno flow with this window would have met loss by now (§5.3.3.8 IsRenoCoexistenceProbeTime). That takes
/// it about as many rounds as it has segments, and probing no more often than that leaves Reno its share. On large
/// BDPs 63 rounds are the limit, because waiting longer would only miss bandwidth.
fn bbr3_is_reno_coexistence_probe_time(c: &Conn) -> bool {
    c.bbr.rounds_since_probe_up >= bbr3_target_segments(c).min(bbr3_max_rounds(c))
}

/// Starts the next probe when the wait is over, in time or in rounds, and says whether it did (§5.3.3.8
/// IsTimeToProbeBW).
fn bbr3_is_time_to_probe_bw(c: &mut Conn) -> bool {
    let has_elapsed = c.ack.now_us > c.bbr.cycle_stamp.saturating_add(c.bbr.bw_probe_wait_us);
    if !has_elapsed && !bbr3_is_reno_coexistence_probe_time(c) {
        return false;
    }
    bbr3_start_probe_bw_refill(c);
    true
}

/// Whether DOWN has done its work: inflight leaves headroom below the long-term bound, and fits into the path
/// without a queue (§5.3.3.9 IsTimeToCruise).
fn bbr3_is_time_to_cruise(c: &Conn) -> bool {
    c.ack.inflight <= bbr3_inflight_with_headroom(c)
        && c.ack.inflight <= bbr3_inflight(c, c.bbr.max_bw, GAIN_UNIT)
}

/// Whether the long-term bound is what limits the flow: the window is all used, and no smaller than the bound. Only
/// then does raising the bound have an effect.
fn bbr3_is_limited_by_inflight_longterm(c: &Conn) -> bool {
    c.ack.is_cwnd_limited && c.out.cwnd >= c.bbr.inflight_longterm
}

/// Whether inflight has come up to the long-term bound, so that not one segment more was allowed when this ACK
/// came. After the ACK there is room again, so what was in flight before it counts too.
fn bbr3_has_reached_inflight_longterm(c: &Conn) -> bool {
    let inflight = c.ack.prior_inflight.max(c.ack.inflight);
    inflight.saturating_add(bbr3_segments(c, 1)) > c.bbr.inflight_longterm
}

/// Whether the probe is over (§5.3.3.9 IsTimeToGoDown). After a probe that lost too much, the next one stops out of
/// caution at the bound that it left. While the bound holds the flow back, a rate that does not grow proves
/// nothing. Otherwise a full pipe ends the probe.
fn bbr3_is_time_to_go_down(c: &mut Conn) -> bool {
    if c.bbr.prev_probe_too_high && bbr3_has_reached_inflight_longterm(c) {
        c.bbr.prev_probe_precautionary = true;
        return true;
    }
    let is_limited = bbr3_is_limited_by_inflight_longterm(c);
    if c.bbr.ladder.is_climbing {
        return bbr3_is_ladder_over(c, is_limited);
    }
    if is_limited {
        bbr3_reset_full_bw(c);
        c.bbr.full_bw = c.delivery_rate;
        return false;
    }
    c.bbr.full_bw_now
}

/// Raises the long-term bound by a segment for every `probe_up_acked_per_inc` of ACKed data, as long as the bound is
/// what limits the flow (§5.3.3.9 ProbeInflightLongtermUpward). The remainder is kept for the next segment.
fn bbr3_probe_inflight_longterm_upward(c: &mut Conn) {
    if !bbr3_is_limited_by_inflight_longterm(c) {
        return;
    }
    let per_inc = c.bbr.probe_up_acked_per_inc.max(1);
    c.bbr.bw_probe_up_acked = c.bbr.bw_probe_up_acked.saturating_add(c.ack.newly_acked);
    if c.bbr.bw_probe_up_acked >= per_inc {
        let delta = c.bbr.bw_probe_up_acked / per_inc;
        c.bbr.bw_probe_up_acked -= delta * per_inc;
        c.bbr.inflight_longterm = c.bbr.inflight_longterm.saturating_add(bbr3_segments(c, delta));
    }
    if c.bbr.round_start {
        bbr3_raise_inflight_longterm_slope(c);
    }
}

/// Handles a probe that lost too much: the volume in flight becomes the long-term bound, and the probe is over
/// (§5.5.10.2 HandleInflightTooHigh). This happens once per probe, because the losses that follow come from the same
/// flight. A sample that the application limited says nothing about the path, so it leaves the bound alone.
fn bbr3_handle_inflight_too_high(c: &mut Conn, tx_in_flight: u64) {
    c.bbr.prev_probe_too_high = true;
    c.bbr.is_bw_probe_sample = false;
    if !c.ack.rs_is_app_limited {
        let floor = bbr3_permille(bbr3_target_inflight(c), c.p.beta_permille);
        c.bbr.inflight_longterm = tx_in_flight.max(floor);
    }
    if c.bbr.state == Mode::ProbeBwUp {
        c.bbr.undo_state = Mode::ProbeBwUp;
        bbr3_start_probe_bw_down(c);
    }
}

/// Handles a packet that was marked lost (§5.5.10.2 HandleLostPacket). If it may have been sent in a probe, and too
/// much of its flight is lost, the probe was too high.
pub(super) fn bbr3_handle_lost_packet(c: &mut Conn) {
    bbr3_note_loss(c, c.ack.rs_starts_lost_range);
    if c.bbr.is_bw_probe_sample && bbr3_is_loss_too_high(c, c.ack.rs_lost, c.ack.rs_tx_in_flight) {
        bbr3_handle_inflight_too_high(c, bbr3_inflight_at_loss(c));
    }
}

/// Takes the CE marks that this ACK reports. Where they do not count as marks, they count as one range of losses per
/// ACK (§3.7).
pub(super) fn bbr3_note_ce(c: &mut Conn) {
    if c.ack.delivered_ce <= c.bbr.delivered_ce {
        return;
    }
    c.bbr.delivered_ce = c.ack.delivered_ce;
    bbr3_end_tolerance(c);
    if bbr3_is_ecn_eligible(c) {
        c.bbr.is_ce_in_round = true;
    } else {
        bbr3_note_loss(c, true);
    }
}

/// Tracks which part of a probe the present ACKs answer, because they lag behind sending by a round (§5.3.3.9
/// AdaptLongTermModel, the first half). True when it has started a refill.
fn bbr3_advance_ack_phase(c: &mut Conn) -> bool {
    if !c.bbr.round_start {
        return false;
    }
    if c.bbr.ack_phase == AckPhase::ProbeStarting {
        c.bbr.ack_phase = AckPhase::ProbeFeedback;
    }
    if c.bbr.ack_phase != AckPhase::ProbeStopping {
        return false;
    }
    c.bbr.is_bw_probe_sample = false;
    c.bbr.ack_phase = AckPhase::Init;
    if !bbr3_is_in_a_probe_bw_state(c) {
        return false;
    }
    if !c.ack.rs_is_app_limited {
        bbr3_advance_max_bw_filter(c);
    }
    // The probe stopped early out of caution and met no loss, so the next one may go on where it stopped (§5.3.3.6).
    if !c.bbr.prev_probe_precautionary || c.bbr.prev_probe_too_high {
        return false;
    }
    bbr3_start_probe_bw_refill(c);
    true
}

/// Raises the long-term bound to a volume that proved safe, and lowers it to one that proved too much (§5.3.3.9
/// AdaptLongTermModel, the second half).
fn bbr3_adapt_inflight_longterm(c: &mut Conn) {
    if bbr3_is_inflight_too_high(c) {
        if c.bbr.is_bw_probe_sample && c.p.is_ack_judged {
            bbr3_handle_inflight_too_high(c, c.ack.rs_tx_in_flight);
        }
        return;
    }
    if c.bbr.inflight_longterm == BBR3_INFINITY {
        return;
    }
    c.bbr.inflight_longterm = c.bbr.inflight_longterm.max(c.ack.rs_tx_in_flight);
    if c.bbr.state == Mode::ProbeBwUp {
        bbr3_probe_inflight_longterm_upward(c);
    }
}

/// Moves to the next phase of the cycle once the present one is over (§5.3.3.9 UpdateProbeBWCyclePhase).
pub(super) fn bbr3_update_probe_bw_cycle_phase(c: &mut Conn) {
    if !c.bbr.full_bw_reached || bbr3_advance_ack_phase(c) {
        return;
    }
    bbr3_adapt_inflight_longterm(c);
    bbr3_make_room(c);
    bbr3_update_ladder(c);
    if c.bbr.state == Mode::ProbeBwDown {
        if !bbr3_is_time_to_probe_bw(c) && bbr3_is_time_to_cruise(c) {
            bbr3_start_probe_bw_cruise(c);
        }
    } else if c.bbr.state == Mode::ProbeBwCruise {
        bbr3_is_time_to_probe_bw(c);
    } else if c.bbr.state == Mode::ProbeBwRefill && c.bbr.round_start {
        c.bbr.is_bw_probe_sample = true;
        bbr3_start_probe_bw_up(c);
    } else if c.bbr.state == Mode::ProbeBwUp && bbr3_is_time_to_go_down(c) {
        c.bbr.prev_probe_too_high = false;
        bbr3_start_probe_bw_down(c);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::with;
    use super::super::{Bbr3Params, LossModelParams};
    use super::*;
    use crate::cc::Ack;

    #[test]
    fn a_mark_ends_the_tolerance_of_losses() {
        let share = |marks: u64| {
            with(|c| {
                let p = Bbr3Params { loss: LossModelParams::on(), ..*c.p };
                c.bbr.loss.share = 9;
                let ack = Ack { delivered_ce: c.bbr.delivered_ce + marks, ..*c.ack };
                bbr3_note_ce(&mut Conn { bbr: c.bbr, p: &p, ack: &ack, out: c.out, delivery_rate: 0 });
                c.bbr.loss.share
            })
        };
        assert_eq!((share(0), share(1)), (9, 0));
    }

    /// In a flow the ACK that starts UP has begun a round already, so that only the step alone shows that UP begins
    /// one, which it needs to tell the ACKs of the probe from those of REFILL.
    #[test]
    fn up_begins_a_round_and_a_search_of_its_own() {
        with(|c| {
            let ack = Ack { delivered: 90_000, cwnd: 64_000, ..*c.ack };
            (c.bbr.state, c.bbr.ack_phase) = (Mode::ProbeBwRefill, AckPhase::Refilling);
            (c.bbr.next_round_delivered, c.bbr.full_bw, c.bbr.full_bw_count) = (50_000, 7, 2);
            c.out.cwnd = 64_000;
            let c = &mut Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 900 };
            bbr3_start_probe_bw_up(c);
            assert_eq!((c.bbr.next_round_delivered, c.bbr.ack_phase), (90_000, AckPhase::ProbeStarting));
            assert_eq!((c.bbr.full_bw, c.bbr.full_bw_count, c.bbr.state), (900, 0, Mode::ProbeBwUp));
            assert_eq!((c.bbr.bw_probe_up_rounds, c.bbr.probe_up_acked_per_inc), (1, 64_000));
        });
    }
}
