//! The modes, and the gain cycle of PROBE_BW.
//!
//! STARTUP doubles the rate until it no longer grows, DRAIN empties the queue that this has built, and PROBE_BW goes
//! round a cycle of eight phases of one minimum RTT each, of which one looks for more bandwidth. Without the probing
//! phase a path that became faster would never be noticed, and without the draining phase after it each probe would
//! leave its queue behind.

use super::control::{bbr_inflight, bbr_max_bw, bbr_packets_in_net_at_edt};
use super::{Mode, Sock};
use crate::cc::fixed::{GAIN_UNIT, gain_apply, mul_shift};

/// Whether this phase of the gain cycle is over. A phase at gain 1 lasts one minimum RTT; the probing and the
/// draining phase also depend on how much is in flight.
fn bbr_is_next_cycle_phase(sk: &Sock) -> bool {
    let is_full_length = sk.ack.delivered_us.saturating_sub(sk.bbr.cycle_mstamp) > sk.bbr.min_rtt_us;
    let pacing_gain = sk.bbr.pacing_gain;
    if pacing_gain == GAIN_UNIT {
        return is_full_length;
    }
    let inflight = bbr_packets_in_net_at_edt(sk, sk.ack.prior_inflight);
    if pacing_gain > GAIN_UNIT {
        // Probing goes on until inflight has reached what it aims at, unless losses show that the buffer cannot hold
        // that much.
        return is_full_length
            && (sk.ack.newly_lost != 0 || inflight >= bbr_inflight(sk, bbr_max_bw(sk), pacing_gain));
    }
    // Draining ends early once inflight is back at the BDP, because the path would then run empty.
    is_full_length || inflight <= bbr_inflight(sk, bbr_max_bw(sk), GAIN_UNIT)
}

/// Goes to the next phase of the gain cycle and notes its start, from which its length is measured.
fn bbr_advance_cycle_phase(sk: &mut Sock) {
    let next = sk.bbr.cycle_idx + 1;
    sk.bbr.cycle_idx = if next < sk.p.cycle_len { next } else { 0 };
    sk.bbr.cycle_mstamp = sk.ack.delivered_us;
}

/// Advances the gain cycle of PROBE_BW: one phase a quarter faster to find out whether there is more, one as much
/// slower to drain what that queued, then six at the estimate.
#[inline]
pub(super) fn bbr_update_cycle_phase(sk: &mut Sock) {
    if sk.bbr.mode == Mode::ProbeBw && bbr_is_next_cycle_phase(sk) {
        bbr_advance_cycle_phase(sk);
    }
}

/// Changes the mode. It is the only place that does, so that debug builds can check each change against the table of
/// those that have a reason.
#[inline]
pub(super) fn bbr_set_mode(sk: &mut Sock, mode: Mode) {
    debug_assert!(sk.bbr.mode.may_become(mode), "{:?} to {mode:?}", sk.bbr.mode);
    sk.bbr.mode = mode;
}

/// Begins to look for the path's rate, doubling the rate each round.
#[inline]
pub(super) fn bbr_reset_startup_mode(sk: &mut Sock) {
    bbr_set_mode(sk, Mode::Startup);
}

/// Begins the gain cycle at a random phase, so that flows that share a bottleneck do not probe together. It is never
/// the draining phase, because nothing was queued.
#[inline]
pub(super) fn bbr_reset_probe_bw_mode(sk: &mut Sock) {
    let back = mul_shift(sk.ack.rand & u64::from(u32::MAX), sk.p.cycle_rand, 32);
    bbr_set_mode(sk, Mode::ProbeBw);
    sk.bbr.cycle_idx = sk.p.cycle_len.saturating_sub(1).saturating_sub(back);
    bbr_advance_cycle_phase(sk);
}

/// Goes back to STARTUP or PROBE_BW after PROBE_RTT. DRAIN needs no return, because PROBE_RTT has emptied the queue.
#[inline]
pub(super) fn bbr_reset_mode(sk: &mut Sock) {
    if !sk.bbr.full_bw_reached {
        bbr_reset_startup_mode(sk);
    } else {
        bbr_reset_probe_bw_mode(sk);
    }
}

/// Decides whether the pipe is full: the bandwidth has not grown by a quarter for three rounds. Had there been room,
/// sending faster would have delivered faster.
#[inline]
pub(super) fn bbr_check_full_bw_reached(sk: &mut Sock) {
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
#[inline]
pub(super) fn bbr_check_drain(sk: &mut Sock) {
    if sk.bbr.mode == Mode::Startup && sk.bbr.full_bw_reached {
        bbr_set_mode(sk, Mode::Drain);
    }
    if sk.bbr.mode == Mode::Drain
        && bbr_packets_in_net_at_edt(sk, sk.ack.inflight) <= bbr_inflight(sk, bbr_max_bw(sk), GAIN_UNIT)
    {
        bbr_reset_probe_bw_mode(sk);
    }
}

/// Sets the gains of the mode: how fast it sends, and how much it may have in flight, in proportion to the model.
#[inline]
pub(super) fn bbr_update_gains(sk: &mut Sock) {
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
