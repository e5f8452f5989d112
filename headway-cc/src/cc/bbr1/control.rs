//! Computes what the transport is told (the pacing rate, the size of a burst and the window) and the volumes that
//! these are made of.
//!
//! All of it is computed on each ACK from the model (bandwidth and minimum RTT) and from the gains of the mode.
//! Without pacing each window would leave as a burst, which makes a queue. Without the window a stall of the ACKs
//! would let inflight grow without limit.

use super::{Bbr1Params, Mode, Sock};
use crate::cc::fixed::{BW_SCALE, BW_UNIT, GAIN_UNIT, USEC_PER_SEC, bw_data, bw_from, gain_apply, mul_shift};
use crate::cc::{CaState, NO_RTT};

/// A number of segments in the transport's unit of data, which is the packet for TCP and the byte for QUIC.
#[inline]
pub(super) fn bbr_segs(sk: &Sock, segs: u64) -> u64 {
    segs.saturating_mul(sk.ack.smss.max(1))
}

/// Bytes in one unit of data: the MSS for TCP, 1 for QUIC.
fn bbr_unit_bytes(sk: &Sock) -> u64 {
    sk.ack.unit_bytes.max(1)
}

/// The largest rate sample of the last ten rounds. Queues and pauses only lower samples, so the largest is the path's
/// rate.
#[inline]
pub(super) fn bbr_max_bw(sk: &Sock) -> u64 {
    sk.bbr.bw.get()
}

/// The bandwidth in use: the windowed maximum, or a policer's rate where one was found, because the bursts that a
/// policer lets through make the maximum too high.
#[inline]
pub(super) fn bbr_bw(sk: &Sock) -> u64 {
    if sk.bbr.lt_use_bw { sk.bbr.lt_bw } else { bbr_max_bw(sk) }
}

/// The most data that was ACKed in one bunch beyond what the bandwidth explains, over the last one to two slots.
fn bbr_extra_acked(sk: &Sock) -> u64 {
    sk.bbr.extra_acked_0.max(sk.bbr.extra_acked_1)
}

/// A bandwidth times a gain in bytes per second, less one per cent, so that an existing queue shrinks.
#[inline]
pub(super) fn bbr_rate_bytes_per_sec(sk: &Sock, bw: u64, gain: u64) -> u64 {
    let rate = gain_apply(bw.saturating_mul(bbr_unit_bytes(sk)), gain);
    mul_shift(rate, USEC_PER_SEC / 100 * 100_u64.saturating_sub(sk.p.pacing_margin_percent), BW_SCALE)
}

/// The pacing rate for a bandwidth and a gain, in bytes per second, within the limit that the application sets.
fn bbr_bw_to_pacing_rate(sk: &Sock, bw: u64, gain: u64) -> u64 {
    bbr_rate_bytes_per_sec(sk, bw, gain).min(sk.ack.max_pacing_rate)
}

/// Sets the first pacing rate: the window per smoothed RTT, times the gain of STARTUP. Before there is an RTT a
/// millisecond is assumed, so that a fast path does not begin slowly.
#[inline]
pub(super) fn bbr_init_pacing_rate_from_rtt(sk: &mut Sock) {
    let mut rtt_us = sk.p.init_rtt_us;
    if sk.ack.srtt_us != 0 {
        rtt_us = sk.ack.srtt_us;
        sk.bbr.has_seen_rtt = true;
    }
    sk.out.pacing_rate = bbr_bw_to_pacing_rate(sk, bw_from(sk.out.cwnd, rtt_us), sk.p.high_gain);
}

/// Sets the pacing rate to bandwidth times gain. Until the pipe was full once the rate only rises, because a low
/// sample early on must not slow down STARTUP.
#[inline]
pub(super) fn bbr_set_pacing_rate(sk: &mut Sock, bw: u64, gain: u64) {
    let rate = bbr_bw_to_pacing_rate(sk, bw, gain);
    if !sk.bbr.has_seen_rtt && sk.ack.srtt_us != 0 {
        bbr_init_pacing_rate_from_rtt(sk);
    }
    if sk.bbr.full_bw_reached || rate > sk.out.pacing_rate {
        sk.out.pacing_rate = rate;
    }
}

/// The smallest burst at this pacing rate (bytes per second), in segments. On slow paths even two segments would be a
/// noticeable queue.
pub fn bbr1_min_tso_segs(p: &Bbr1Params, pacing_rate: u64) -> u64 {
    if pacing_rate < p.min_tso_rate { 1 } else { 2 }
}

/// How much leaves in one burst, in units of data: what the pacing rate sends in about a millisecond, because larger
/// bursts make queues and smaller ones cost CPU time.
#[inline]
pub(super) fn bbr_tso_segs_goal(sk: &Sock) -> u64 {
    let mss = bbr_segs(sk, bbr_unit_bytes(sk));
    let bytes = (sk.out.pacing_rate >> (sk.p.pacing_shift & 63)).min(sk.p.gso_max_bytes);
    let segs = (bytes / mss).max(bbr1_min_tso_segs(sk.p, sk.out.pacing_rate));
    bbr_segs(sk, segs.min(sk.p.max_tso_segs))
}

/// Saves the window before recovery or PROBE_RTT reduces it, so that it can be restored.
#[inline]
pub(super) fn bbr_save_cwnd(sk: &mut Sock) {
    if sk.bbr.prev_ca_state < CaState::Recovery && sk.bbr.mode != Mode::ProbeRtt {
        sk.bbr.prior_cwnd = sk.out.cwnd;
    } else {
        // The window is reduced already, so it says little about the path; the earlier value may be the better one.
        sk.bbr.prior_cwnd = sk.bbr.prior_cwnd.max(sk.out.cwnd);
    }
}

/// The BDP (bandwidth times minimum RTT, the volume that fills the path without a queue), times a gain. It is rounded
/// up, because a pipe that holds 3.2 packets is not full with 3. Without an RTT the initial window stands in for it.
fn bbr_bdp(sk: &Sock, bw: u64, gain: u64) -> u64 {
    if sk.bbr.min_rtt_us >= NO_RTT {
        return bbr_segs(sk, sk.p.init_cwnd);
    }
    let w = gain_apply(bw.saturating_mul(sk.bbr.min_rtt_us), gain);
    w.saturating_add(BW_UNIT - 1) >> BW_SCALE
}

/// Adds to a window what waits in the offload engines of both hosts, and in the probing phase two segments more,
/// because a quarter of a very small BDP is less than a packet.
fn bbr_quantization_budget(sk: &Sock, cwnd: u64) -> u64 {
    let pair = bbr_segs(sk, 2);
    let mut cwnd = cwnd.saturating_add(sk.p.tso_budget.saturating_mul(bbr_tso_segs_goal(sk)));
    // The number of segments is even, because receivers acknowledge every second one and an odd one would wait for a
    // delayed ACK.
    cwnd = (cwnd.saturating_add(pair - 1) / pair).saturating_mul(pair);
    if sk.bbr.mode == Mode::ProbeBw && sk.bbr.cycle_idx == 0 {
        cwnd = cwnd.saturating_add(bbr_segs(sk, sk.p.probe_bw_segs));
    }
    cwnd
}

/// How much to have in flight for this bandwidth and gain, with the room that real hosts need.
#[inline]
pub(super) fn bbr_inflight(sk: &Sock, bw: u64, gain: u64) -> u64 {
    bbr_quantization_budget(sk, bbr_bdp(sk, bw, gain))
}

/// How much of the data in flight will still be in the network when the next packet departs. Pacing has scheduled
/// that departure for later, and some data will have arrived by then.
#[inline]
pub(super) fn bbr_packets_in_net_at_edt(sk: &Sock, inflight_now: u64) -> u64 {
    let mut inflight_at_edt = inflight_now;
    if sk.bbr.pacing_gain > GAIN_UNIT {
        // A gain above 1 makes inflight grow, so the departing burst counts too.
        inflight_at_edt = inflight_at_edt.saturating_add(bbr_tso_segs_goal(sk));
    }
    inflight_at_edt.saturating_sub(bw_data(bbr_bw(sk), sk.ack.edt_us))
}

/// What the window needs beyond the BDP because ACKs come in bunches. Without it the flow would run dry between two
/// bunches.
fn bbr_ack_aggregation_cwnd(sk: &Sock) -> u64 {
    if !sk.bbr.full_bw_reached {
        return 0;
    }
    gain_apply(bbr_extra_acked(sk), sk.p.extra_acked_gain).min(bw_data(bbr_bw(sk), sk.p.extra_acked_max_us))
}

/// Handles recovery. In its first round no more data leaves than arrives, because nothing is known of the queue yet;
/// at its end the window is restored, because loss alone says little about the path. Returns the new window and
/// whether packets are being conserved, in which case that window is final.
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

/// Moves the window towards its target by no more than what was ACKed, so that inflight never jumps, and then applies
/// the limits.
#[inline]
pub(super) fn bbr_set_cwnd(sk: &mut Sock, acked: u64, bw: u64, gain: u64) {
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
