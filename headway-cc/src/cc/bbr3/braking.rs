//! Where BBRv3 meets the brake ([`crate::cc::brake`]); none of it is in the draft. Without a brake nothing happens here.

use super::control::{bbr3_is_in_a_probe_bw_state, bbr3_min_pipe_cwnd};
use super::{BBR3_PROBE_BW_CRUISE, BBR3_PROBE_RTT, Conn};
use crate::cc::brake::{
    BRAKE_CONFIRMED, BRAKE_HOLD, BRAKE_PUBLISHED, BRAKE_WATCH, BrakeAck, brake_bw, brake_on_ack,
    brake_published,
};
use crate::cc::fixed::GAIN_UNIT;

/// The published formula takes each valid sample before the model does.
pub(super) fn bbr3_note_sample_for_brake(c: &mut Conn) {
    if c.p.brake != BRAKE_PUBLISHED || c.delivery_rate == 0 {
        return;
    }
    let (mut s, p) = (c.bbr.brake(), c.p.brake());
    brake_published(&mut s, &p, c.bbr.max_bw, c.bbr.bw, c.delivery_rate, GAIN_UNIT);
    c.bbr.set_brake(s);
}

/// What probes and losses say of the slower path must not hold back the faster one: once the brake allows the old rate
/// again, so does the long-term model.
fn bbr3_adapt_inflight_longterm_to_brake(c: &mut Conn, mode: u64, bw: u64) {
    if mode == BRAKE_WATCH && c.bbr.brake_mode != BRAKE_WATCH {
        c.bbr.unbraked_inflight_longterm = c.bbr.inflight_longterm;
    }
    if mode == BRAKE_HOLD && bw < c.bbr.brake_target_bw && c.bbr.brake_bw >= c.bbr.brake_target_bw {
        c.bbr.inflight_longterm = c.bbr.inflight_longterm.max(c.bbr.unbraked_inflight_longterm);
    }
}

/// The confirmed brake.
fn bbr3_run_brake(c: &mut Conn) {
    let (mut s, p) = (c.bbr.brake(), c.p.brake());
    let (mode, bw) = (s.mode, s.bw);
    brake_on_ack(&mut BrakeAck {
        s: &mut s,
        p: &p,
        ack: c.ack,
        max_bw: c.bbr.max_bw,
        min_rtt_us: c.bbr.min_rtt_us,
        bw: c.bbr.bw,
        pacing_gain: c.bbr.pacing_gain,
        is_round_start: c.bbr.round_start != 0,
        is_marking: c.out.mark_app_limited != 0,
        is_watching: bbr3_is_in_a_probe_bw_state(c) || c.bbr.state == BBR3_PROBE_RTT,
        is_steady: c.bbr.state == BBR3_PROBE_BW_CRUISE,
        floor: bbr3_min_pipe_cwnd(c),
    });
    c.bbr.set_brake(s);
    bbr3_adapt_inflight_longterm_to_brake(c, mode, bw);
    c.bbr.bw = brake_bw(&s, c.bbr.bw);
}

/// What the brake makes of the ACK, and of the model's bandwidth.
pub(super) fn bbr3_update_brake(c: &mut Conn) {
    if c.p.brake == BRAKE_PUBLISHED {
        c.bbr.brake_rounds += u64::from(c.bbr.round_start != 0 && c.bbr.brake_reduction != 0);
    }
    if c.p.brake == BRAKE_CONFIRMED {
        bbr3_run_brake(c);
    }
}

/// The brake's bound on the window.
pub(super) fn bbr3_bound_cwnd_for_brake(c: &mut Conn) {
    if c.p.brake == BRAKE_CONFIRMED && c.bbr.brake_mode != BRAKE_WATCH {
        c.out.cwnd = c.out.cwnd.min(c.bbr.brake_window);
    }
}
