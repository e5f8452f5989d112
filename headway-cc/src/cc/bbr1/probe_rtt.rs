//! The minimum RTT, and PROBE_RTT.
//!
//! The RTT of an empty path is the other half of the model, and a flow that keeps some queue may never see it. When
//! the minimum was not seen for 10 s, PROBE_RTT holds four segments in flight for 200 ms and at least a round, and
//! then the flow returns to STARTUP or PROBE_BW. Flows that share a bottleneck see the same low RTT at the same time,
//! so their next PROBE_RTT falls together, which is what lets the queue empty at all. Without it a standing queue
//! would count as part of the path, and all windows would grow.

use super::control::{bbr_save_cwnd, bbr_segs};
use super::modes::{bbr_reset_mode, bbr_set_mode};
use super::{Mode, Sock};
use crate::cc::NO_RTT;

/// Leaves PROBE_RTT when its time is up, and restores the window.
#[inline]
pub(super) fn bbr_check_probe_rtt_done(sk: &mut Sock) {
    let done_stamp = sk.bbr.probe_rtt_done_stamp;
    if done_stamp == 0 || sk.ack.now_us <= done_stamp {
        return;
    }
    sk.bbr.min_rtt_stamp = sk.ack.now_us;
    sk.out.cwnd = sk.out.cwnd.max(sk.bbr.prior_cwnd);
    bbr_reset_mode(sk);
}

/// Tracks the minimum RTT of the last 10 s, which is the RTT without a queue. When it was not seen for that long,
/// PROBE_RTT holds four segments in flight to see it again; otherwise a standing queue would count as part of the
/// path.
#[inline]
pub(super) fn bbr_update_min_rtt(sk: &mut Sock) {
    let ack = sk.ack;
    let filter_expired = ack.now_us > sk.bbr.min_rtt_stamp.saturating_add(sk.p.min_rtt_win_us);
    if ack.rs_rtt_us < NO_RTT
        && (ack.rs_rtt_us < sk.bbr.min_rtt_us || (filter_expired && !ack.rs_is_ack_delayed))
    {
        sk.bbr.min_rtt_us = ack.rs_rtt_us;
        sk.bbr.min_rtt_stamp = ack.now_us;
    }
    if sk.p.probe_rtt_mode_us != 0 && filter_expired && !sk.bbr.idle_restart && sk.bbr.mode != Mode::ProbeRtt
    {
        bbr_set_mode(sk, Mode::ProbeRtt);
        bbr_save_cwnd(sk);
        sk.bbr.probe_rtt_done_stamp = 0;
    }
    if sk.bbr.mode == Mode::ProbeRtt {
        sk.out.mark_app_limited = true; // samples of this mode are low by design
        if sk.bbr.probe_rtt_done_stamp == 0 && ack.inflight <= bbr_segs(sk, sk.p.cwnd_min_target) {
            sk.bbr.probe_rtt_done_stamp = ack.now_us.saturating_add(sk.p.probe_rtt_mode_us);
            sk.bbr.probe_rtt_round_done = false;
            sk.bbr.next_rtt_delivered = ack.delivered;
        } else if sk.bbr.probe_rtt_done_stamp != 0 {
            if sk.bbr.round_start {
                sk.bbr.probe_rtt_round_done = true;
            }
            if sk.bbr.probe_rtt_round_done {
                bbr_check_probe_rtt_done(sk);
            }
        }
    }
    if ack.rs_delivered != 0 {
        sk.bbr.idle_restart = false;
    }
}
