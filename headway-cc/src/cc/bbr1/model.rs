//! The model of the path: the windowed maximum of rate samples, and how much ACKs come in bunches.
//!
//! Both are updated on each ACK. Their clock is the round: one ends when what was in flight at its beginning is
//! delivered, because the path's answer to what is sent takes that long.

use super::Sock;
use super::control::{bbr_bw, bbr_max_bw, bbr_segs};
use super::policer::bbr_lt_bw_sampling;
use crate::cc::fixed::{bw_data, bw_from};

/// Counts rounds and takes the rate sample into the windowed maximum. A sample that the application limited says
/// little about the path, unless it is at least as high as the maximum.
#[inline]
pub(super) fn bbr_update_bw(sk: &mut Sock) {
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
    if !ack.rs_is_app_limited || bw >= bbr_max_bw(sk) {
        sk.bbr.bw.running_max(sk.p.bw_rtts, sk.bbr.rtt_cnt, bw);
    }
}

/// Measures how much more data one bunch of ACKs brings than the bandwidth explains, because the window needs that
/// much room.
#[inline]
pub(super) fn bbr_update_ack_aggregation(sk: &mut Sock) {
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
    // A new epoch begins when ACKs come no faster than expected, or when the old epoch is very long.
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
