//! The long-term bandwidth: the rate behind a policer.
//!
//! A token-bucket policer lets a burst through at full speed and drops what comes faster than its tokens. The
//! windowed maximum believes the burst, so the flow would pace at that rate and lose a fifth or more for as long as
//! it lasts. Sampling begins at a loss. Two intervals in a row that lose much at about the same rate count as a
//! policer, and for 48 rounds that rate is the estimate. A pause of the application ends the sampling.

use super::control::bbr_rate_bytes_per_sec;
use super::modes::bbr_reset_probe_bw_mode;
use super::{Mode, Sock};
use crate::cc::fixed::{GAIN_UNIT, USEC_PER_MSEC, bw_from, gain_apply};

/// Begins an interval in which the rate behind a policer is measured.
fn bbr_reset_lt_bw_sampling_interval(sk: &mut Sock) {
    sk.bbr.lt_last_stamp = sk.ack.delivered_us / USEC_PER_MSEC;
    sk.bbr.lt_last_delivered = sk.ack.delivered;
    sk.bbr.lt_last_lost = sk.ack.lost;
    sk.bbr.lt_rtt_cnt = 0;
}

/// Forgets the policer, so that the windowed maximum is the estimate again.
#[inline]
pub(super) fn bbr_reset_lt_bw_sampling(sk: &mut Sock) {
    sk.bbr.lt_bw = 0;
    sk.bbr.lt_use_bw = false;
    sk.bbr.lt_is_sampling = false;
    bbr_reset_lt_bw_sampling_interval(sk);
}

/// Compares the rate of a lossy interval with that of the one before. If both are about the same, a policer is
/// assumed and their mean rate is used from now on, because pacing faster would only lose packets.
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

/// Ends the interval if it lost enough, and compares its rate with that of the interval before. One that lasted too
/// long for a policer starts the sampling over.
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

/// Looks for a policer on each ACK. Its intervals last 4 to 16 rounds, go from loss to loss, and must lose a fifth.
/// Without this the flow would pace by the bursts that the policer lets through and lose everything beyond the
/// tokens.
#[inline]
pub(super) fn bbr_lt_bw_sampling(sk: &mut Sock, losses: u64, is_app_limited: bool) {
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
