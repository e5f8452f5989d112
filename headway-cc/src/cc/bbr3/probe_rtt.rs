//! ProbeRTT (§5.3.4): seeing the RTT without a queue again.
//!
//! The minimum RTT is half of the model, and a flow that keeps some queue may never see it. ProbeRTT is entered from
//! any state when no lower RTT was seen for five seconds. It halves what is in flight for 200 ms and at least a
//! round, and goes back to Startup or to ProbeBW. Flows that share a bottleneck see the same low RTT at the same
//! time, so their next ProbeRTT falls together, which is what lets the queue empty at all. Without it a standing
//! queue would count as part of the path, and all windows would grow by it.

use super::control::{bbr3_probe_rtt_cwnd, bbr3_set_state};
use super::model::{bbr3_reset_short_term_model, bbr3_restore_cwnd, bbr3_save_cwnd, bbr3_start_round};
use super::probe_bw::{bbr3_start_probe_bw_cruise, bbr3_start_probe_bw_down};
use super::startup::bbr3_enter_startup;
use super::{AckPhase, Conn, Mode};

/// Begins to look for the minimum RTT (§5.3.4.3 EnterProbeRTT). The window is saved before the state changes: in
/// ProbeRTT saving keeps the larger of two values, so that an older, larger window would survive.
fn bbr3_enter_probe_rtt(c: &mut Conn) {
    bbr3_save_cwnd(c);
    bbr3_set_state(c, Mode::ProbeRtt);
    c.bbr.probe_rtt_done_stamp = 0;
    c.bbr.ack_phase = AckPhase::ProbeStopping;
    bbr3_start_round(c);
}

/// Leaves ProbeRTT for Startup if the pipe was never full, else for CRUISE (§5.3.4.4 ExitProbeRTT). The short-term
/// bounds are lifted, because the samples that they came from are old by now. DOWN comes first, because it begins a
/// cycle and draws the wait for the next probe.
fn bbr3_exit_probe_rtt(c: &mut Conn) {
    bbr3_reset_short_term_model(c);
    if c.bbr.full_bw_reached {
        bbr3_start_probe_bw_down(c);
        bbr3_start_probe_bw_cruise(c);
    } else {
        bbr3_enter_startup(c);
    }
}

/// Leaves ProbeRTT when its time is up, and restores the window (§5.3.4.3 CheckProbeRTTDone).
pub(super) fn bbr3_check_probe_rtt_done(c: &mut Conn) {
    if c.bbr.probe_rtt_done_stamp != 0 && c.ack.now_us > c.bbr.probe_rtt_done_stamp {
        c.bbr.probe_rtt_min_stamp = c.ack.now_us;
        bbr3_restore_cwnd(c);
        bbr3_exit_probe_rtt(c);
    }
}

/// Waits until inflight is low, and then for 200 ms and a round, which is long enough for all flows to empty the
/// queue together (§5.3.4.3 HandleProbeRTT).
fn bbr3_handle_probe_rtt(c: &mut Conn) {
    c.out.mark_app_limited = true; // samples of this state are low by design
    if c.bbr.probe_rtt_done_stamp == 0 && c.ack.inflight <= bbr3_probe_rtt_cwnd(c) {
        c.bbr.probe_rtt_done_stamp = c.ack.now_us.saturating_add(c.p.probe_rtt_duration_us);
        c.bbr.probe_rtt_round_done = false;
        bbr3_start_round(c);
    } else if c.bbr.probe_rtt_done_stamp != 0 {
        if c.bbr.round_start {
            c.bbr.probe_rtt_round_done = true;
        }
        if c.bbr.probe_rtt_round_done {
            bbr3_check_probe_rtt_done(c);
        }
    }
}

/// Enters ProbeRTT when no lower RTT was seen for too long (§5.3.4.3 CheckProbeRTT). It does not do so after an idle
/// period, which has emptied the queue anyway.
pub(super) fn bbr3_check_probe_rtt(c: &mut Conn) {
    if c.bbr.state != Mode::ProbeRtt && c.bbr.probe_rtt_expired && !c.bbr.idle_restart {
        bbr3_enter_probe_rtt(c);
    }
    if c.bbr.state == Mode::ProbeRtt {
        bbr3_handle_probe_rtt(c);
    }
    c.bbr.idle_restart = false; // the ACK delivered data
}
