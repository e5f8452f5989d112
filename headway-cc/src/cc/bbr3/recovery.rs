//! Recovery of losses (§5.6.4.4), its undo (§5.5.11.2), and the restart from idle (§5.4.1).
//!
//! The transport detects losses and says when recovery begins and ends; the model's bounds answer them. This module
//! saves and restores the window, because loss that is not congestion must not shrink it for good, and undoes the
//! answer to losses that prove to be reordering. Without the undo, a path that reorders would end each probe, and
//! Startup, far too early.

use super::control::{
    bbr3_clamp_cwnd, bbr3_is_in_a_probe_bw_state, bbr3_segments, bbr3_set_pacing_rate_with_gain,
};
use super::model::{bbr3_reset_full_bw, bbr3_restore_cwnd, bbr3_save_cwnd, bbr3_save_state_upon_loss};
use super::newcomer::bbr3_note_restart;
use super::probe_bw::bbr3_start_probe_bw_refill;
use super::probe_rtt::bbr3_check_probe_rtt_done;
use super::startup::bbr3_enter_startup;
use super::{BBR3_INFINITY, Conn, Mode};
use crate::cc::CaState;

/// Notes when recovery begins and ends. At its end the window is restored, because loss alone must not shrink it for
/// good (§5.6.4.4).
pub(super) fn bbr3_update_recovery(c: &mut Conn) {
    let (prev_state, state) = (c.bbr.prev_ca_state, c.ack.ca_state);
    if state != CaState::Recovery {
        c.bbr.recovery_delivered = BBR3_INFINITY;
    } else if prev_state != CaState::Recovery {
        c.bbr.recovery_delivered = c.ack.delivered;
    }
    if state < CaState::Recovery {
        if prev_state >= CaState::Recovery {
            bbr3_restore_cwnd(c);
        }
        // Losses that this ACK revealed without entering recovery may yet lead to one.
        if c.ack.newly_lost == 0 {
            c.bbr.is_undo_saved = false;
        }
    }
    c.bbr.prev_ca_state = state;
}

/// Saves the window and the bounds when the transport is about to cut the window, for the end of recovery and for an
/// undo (§5.6.4.4 OnEnterFastRecovery).
pub(super) fn bbr3_on_enter_fast_recovery(c: &mut Conn) {
    bbr3_save_cwnd(c);
    bbr3_save_state_upon_loss(c);
}

/// Handles a retransmission timeout (§5.6.4.4 OnEnterRTO). Nothing is known of what is still in flight, so the window
/// leaves room for one segment more and grows from there. The transport may have cut the window already: then
/// [`bbr3_on_enter_fast_recovery`] has saved it, and the larger counts.
pub(super) fn bbr3_on_enter_rto(c: &mut Conn) {
    c.bbr.prev_ca_state = CaState::Loss;
    c.bbr.recovery_delivered = BBR3_INFINITY;
    bbr3_save_cwnd(c);
    bbr3_save_state_upon_loss(c);
    c.out.cwnd = c.ack.inflight.saturating_add(bbr3_segments(c, 1));
    bbr3_clamp_cwnd(c);
}

/// Handles losses that proved spurious: undoes what they did to the window, the bounds and the state (§5.5.11.2
/// HandleSpuriousLossDetection). The bounds are not lowered, because they may have grown for other reasons. In
/// ProbeRTT the state stays, and only the state that follows it changes.
pub(super) fn bbr3_handle_spurious_loss_detection(c: &mut Conn) {
    bbr3_restore_cwnd(c);
    bbr3_clamp_cwnd(c);
    c.bbr.is_loss_in_round = false;
    bbr3_reset_full_bw(c);
    c.bbr.bw_shortterm = c.bbr.bw_shortterm.max(c.bbr.undo_bw_shortterm);
    c.bbr.inflight_shortterm = c.bbr.inflight_shortterm.max(c.bbr.undo_inflight_shortterm);
    c.bbr.inflight_longterm = c.bbr.inflight_longterm.max(c.bbr.undo_inflight_longterm);
    if c.bbr.undo_state == Mode::Startup && c.bbr.state != Mode::Startup {
        c.bbr.full_bw_reached = false;
        if c.bbr.state != Mode::ProbeRtt {
            bbr3_enter_startup(c);
        }
    } else if c.bbr.undo_state == Mode::ProbeBwUp
        && c.bbr.state != Mode::ProbeBwUp
        && c.bbr.state != Mode::ProbeRtt
    {
        bbr3_start_probe_bw_refill(c);
    }
    c.bbr.undo_state = Mode::None;
    c.bbr.is_undo_saved = false;
}

/// Handles the application sending again after nothing was in flight (§5.4.1 HandleRestartFromIdle). The flow paces
/// at the estimate, because a burst at the gain of the phase would rebuild the queue that the pause has emptied.
pub(super) fn bbr3_handle_restart_from_idle(c: &mut Conn) {
    if !c.ack.is_app_limited {
        return;
    }
    c.bbr.idle_restart = true;
    c.bbr.extra_acked_interval_start = c.ack.now_us;
    c.bbr.extra_acked_delivered = 0;
    bbr3_note_restart(c);
    if bbr3_is_in_a_probe_bw_state(c) {
        bbr3_set_pacing_rate_with_gain(c, c.p.cruise_pacing_gain);
    } else if c.bbr.state == Mode::ProbeRtt {
        bbr3_check_probe_rtt_done(c);
        bbr3_clamp_cwnd(c);
    }
}
