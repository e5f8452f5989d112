//! ProbeRTT (§5.3.4).

use super::control::{bbr3_probe_rtt_cwnd, bbr3_set_state};
use super::model::{bbr3_reset_short_term_model, bbr3_restore_cwnd, bbr3_save_cwnd, bbr3_start_round};
use super::probe_bw::{bbr3_start_probe_bw_cruise, bbr3_start_probe_bw_down};
use super::startup::bbr3_enter_startup;
use super::{BBR3_ACKS_PROBE_STOPPING, BBR3_PROBE_RTT, Conn};

/// §5.3.4.3 EnterProbeRTT and what comes with it. The window is saved first: in ProbeRTT an older, larger one would
/// survive.
fn bbr3_enter_probe_rtt(c: &mut Conn) {
    bbr3_save_cwnd(c);
    bbr3_set_state(c, BBR3_PROBE_RTT);
    c.bbr.probe_rtt_done_stamp = 0;
    c.bbr.ack_phase = BBR3_ACKS_PROBE_STOPPING;
    bbr3_start_round(c);
}

/// §5.3.4.4 ExitProbeRTT.
fn bbr3_exit_probe_rtt(c: &mut Conn) {
    bbr3_reset_short_term_model(c);
    if c.bbr.full_bw_reached != 0 {
        bbr3_start_probe_bw_down(c);
        bbr3_start_probe_bw_cruise(c);
    } else {
        bbr3_enter_startup(c);
    }
}

/// §5.3.4.3 CheckProbeRTTDone.
pub(super) fn bbr3_check_probe_rtt_done(c: &mut Conn) {
    if c.bbr.probe_rtt_done_stamp != 0 && c.ack.now_us > c.bbr.probe_rtt_done_stamp {
        c.bbr.probe_rtt_min_stamp = c.ack.now_us;
        bbr3_restore_cwnd(c);
        bbr3_exit_probe_rtt(c);
    }
}

/// §5.3.4.3 HandleProbeRTT.
fn bbr3_handle_probe_rtt(c: &mut Conn) {
    c.out.mark_app_limited = 1; // samples of this state are low by design
    if c.bbr.probe_rtt_done_stamp == 0 && c.ack.inflight <= bbr3_probe_rtt_cwnd(c) {
        c.bbr.probe_rtt_done_stamp = c.ack.now_us.saturating_add(c.p.probe_rtt_duration_us);
        c.bbr.probe_rtt_round_done = 0;
        bbr3_start_round(c);
    } else if c.bbr.probe_rtt_done_stamp != 0 {
        if c.bbr.round_start != 0 {
            c.bbr.probe_rtt_round_done = 1;
        }
        if c.bbr.probe_rtt_round_done != 0 {
            bbr3_check_probe_rtt_done(c);
        }
    }
}

/// §5.3.4.3 CheckProbeRTT.
pub(super) fn bbr3_check_probe_rtt(c: &mut Conn) {
    if c.bbr.state != BBR3_PROBE_RTT && c.bbr.probe_rtt_expired != 0 && c.bbr.idle_restart == 0 {
        bbr3_enter_probe_rtt(c);
    }
    if c.bbr.state == BBR3_PROBE_RTT {
        bbr3_handle_probe_rtt(c);
    }
    c.bbr.idle_restart = 0; // the ACK delivered data
}
