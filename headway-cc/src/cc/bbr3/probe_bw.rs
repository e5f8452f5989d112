//! ProbeBW (§5.3.3): the cycle of probes, the long-term bound, and what a lost packet says of it (§5.5.10.2).

use super::control::{
    bbr3_inflight, bbr3_inflight_with_headroom, bbr3_is_in_a_probe_bw_state, bbr3_permille, bbr3_segments,
    bbr3_set_state,
};
use super::model::{
    bbr3_advance_max_bw_filter, bbr3_inflight_at_loss, bbr3_is_ecn_eligible, bbr3_is_inflight_too_high,
    bbr3_is_loss_too_high, bbr3_note_loss, bbr3_reset_congestion_signals, bbr3_reset_full_bw,
    bbr3_reset_short_term_model, bbr3_start_round, bbr3_target_inflight, bbr3_target_segments,
};
use super::{AckPhase, BBR3_INFINITY, Conn, Mode};
use crate::cc::fixed::{GAIN_UNIT, mul_shift};

/// §5.3.3.8 PickProbeWait: the time from all random bits, the rounds from the lower half.
fn bbr3_pick_probe_wait(c: &mut Conn) {
    let rand = c.ack.rand & u64::from(u32::MAX);
    c.bbr.rounds_since_probe_up = mul_shift(rand & 0xffff, c.p.bw_probe_rand_rounds, 16);
    c.bbr.bw_probe_wait_us =
        c.p.bw_probe_wait_us.saturating_add(mul_shift(rand, c.p.bw_probe_wait_rand_us, 32));
}

/// §5.3.3.9 StartProbeBW_DOWN.
pub(super) fn bbr3_start_probe_bw_down(c: &mut Conn) {
    bbr3_reset_congestion_signals(c);
    c.bbr.probe_up_acked_per_inc = BBR3_INFINITY;
    bbr3_pick_probe_wait(c);
    c.bbr.cycle_stamp = c.ack.now_us;
    c.bbr.ack_phase = AckPhase::ProbeStopping;
    bbr3_start_round(c);
    bbr3_set_state(c, Mode::ProbeBwDown);
}

/// §5.3.3.9 StartProbeBW_CRUISE.
pub(super) fn bbr3_start_probe_bw_cruise(c: &mut Conn) {
    bbr3_set_state(c, Mode::ProbeBwCruise);
}

/// §5.3.3.9 StartProbeBW_REFILL.
pub(super) fn bbr3_start_probe_bw_refill(c: &mut Conn) {
    bbr3_reset_short_term_model(c);
    c.bbr.bw_probe_up_rounds = 0;
    c.bbr.bw_probe_up_acked = 0;
    c.bbr.prev_probe_precautionary = false;
    c.bbr.ack_phase = AckPhase::Refilling;
    bbr3_start_round(c);
    bbr3_set_state(c, Mode::ProbeBwRefill);
}

/// §5.3.3.9 RaiseInflightLongtermSlope. The exponent stays below the width of the shift; rounded down to whole units.
fn bbr3_raise_inflight_longterm_slope(c: &mut Conn) {
    let per_inc = c.out.cwnd >> (c.bbr.bw_probe_up_rounds & 63);
    c.bbr.bw_probe_up_rounds = (c.bbr.bw_probe_up_rounds + 1).min(c.p.bw_probe_up_rounds_max);
    c.bbr.probe_up_acked_per_inc = per_inc.max(bbr3_segments(c, 1));
}

/// §5.3.3.9 StartProbeBW_UP.
fn bbr3_start_probe_bw_up(c: &mut Conn) {
    c.bbr.ack_phase = AckPhase::ProbeStarting;
    bbr3_start_round(c);
    bbr3_reset_full_bw(c);
    c.bbr.full_bw = c.delivery_rate;
    bbr3_set_state(c, Mode::ProbeBwUp);
    bbr3_raise_inflight_longterm_slope(c);
}

/// §5.3.3.8 IsRenoCoexistenceProbeTime.
fn bbr3_is_reno_coexistence_probe_time(c: &Conn) -> bool {
    c.bbr.rounds_since_probe_up >= bbr3_target_segments(c).min(c.p.bw_probe_max_rounds)
}

/// §5.3.3.8 IsTimeToProbeBW: true when it has started the refill.
fn bbr3_is_time_to_probe_bw(c: &mut Conn) -> bool {
    let has_elapsed = c.ack.now_us > c.bbr.cycle_stamp.saturating_add(c.bbr.bw_probe_wait_us);
    if !has_elapsed && !bbr3_is_reno_coexistence_probe_time(c) {
        return false;
    }
    bbr3_start_probe_bw_refill(c);
    true
}

/// §5.3.3.9 IsTimeToCruise.
fn bbr3_is_time_to_cruise(c: &Conn) -> bool {
    c.ack.inflight <= bbr3_inflight_with_headroom(c)
        && c.ack.inflight <= bbr3_inflight(c, c.bbr.max_bw, GAIN_UNIT)
}

/// The window, and it is all used, is no smaller than the long-term bound.
fn bbr3_is_limited_by_inflight_longterm(c: &Conn) -> bool {
    c.ack.is_cwnd_limited && c.out.cwnd >= c.bbr.inflight_longterm
}

/// The volume in flight has reached the long-term bound: when this ACK came, not one segment more was allowed. After
/// the ACK there is room again, and the window is no larger than the bound.
fn bbr3_has_reached_inflight_longterm(c: &Conn) -> bool {
    let inflight = c.ack.prior_inflight.max(c.ack.inflight);
    inflight.saturating_add(bbr3_segments(c, 1)) > c.bbr.inflight_longterm
}

/// §5.3.3.9 IsTimeToGoDown.
fn bbr3_is_time_to_go_down(c: &mut Conn) -> bool {
    if c.bbr.prev_probe_too_high && bbr3_has_reached_inflight_longterm(c) {
        c.bbr.prev_probe_precautionary = true;
        return true;
    }
    if bbr3_is_limited_by_inflight_longterm(c) {
        bbr3_reset_full_bw(c);
        c.bbr.full_bw = c.delivery_rate;
        return false;
    }
    c.bbr.full_bw_now
}

/// §5.3.3.9 ProbeInflightLongtermUpward. The bound grows by whole segments; what was ACKed beyond is kept.
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

/// §5.5.10.2 HandleInflightTooHigh: with this volume in flight the path lost too much. Once a probe.
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

/// §5.5.10.2 HandleLostPacket.
pub(super) fn bbr3_handle_lost_packet(c: &mut Conn) {
    bbr3_note_loss(c, c.ack.rs_starts_lost_range);
    if c.bbr.is_bw_probe_sample && bbr3_is_loss_too_high(c, c.ack.rs_lost, c.ack.rs_tx_in_flight) {
        bbr3_handle_inflight_too_high(c, bbr3_inflight_at_loss(c));
    }
}

/// §3.7 CE marks that this ACK reports. Without an answer of their own they are losses, a range an ACK.
pub(super) fn bbr3_note_ce(c: &mut Conn) {
    if c.ack.delivered_ce <= c.bbr.delivered_ce {
        return;
    }
    c.bbr.delivered_ce = c.ack.delivered_ce;
    if bbr3_is_ecn_eligible(c) {
        c.bbr.is_ce_in_round = true;
    } else {
        bbr3_note_loss(c, true);
    }
}

/// §5.3.3.9 AdaptLongTermModel, the first half: the phase of the probe's ACKs. True when it has started a refill.
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
    // §5.3.3.6: the cautious probe met no loss, so the next may go on where it stopped.
    if !c.bbr.prev_probe_precautionary || c.bbr.prev_probe_too_high {
        return false;
    }
    bbr3_start_probe_bw_refill(c);
    true
}

/// §5.3.3.9 AdaptLongTermModel, the second half: the bound rises with what proved safe, and falls with what did not.
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

/// §5.3.3.9 UpdateProbeBWCyclePhase.
pub(super) fn bbr3_update_probe_bw_cycle_phase(c: &mut Conn) {
    if !c.bbr.full_bw_reached || bbr3_advance_ack_phase(c) {
        return;
    }
    bbr3_adapt_inflight_longterm(c);
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
