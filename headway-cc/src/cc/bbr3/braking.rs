//! The connection of BBRv3 to the brake ([`crate::cc::brake`]). None of it is in the draft, and with the brake off it
//! changes nothing.
//!
//! The brake judges each ACK after the model and the state machine. While it is on, its bandwidth replaces the
//! model's for pacing and for the window. The model itself goes on learning, so that it is right when the brake lets
//! go.

use super::control::{bbr3_is_in_a_probe_bw_state, bbr3_min_pipe_cwnd};
use super::{Conn, Mode};
use crate::cc::brake::{BrakeAck, BrakeMode, brake_bw, brake_on_ack};

/// Restores the long-term bound of before the slow-down once the brake allows the old rate again. Losses on the
/// slower path have lowered the bound meanwhile, and it must not hold back the faster path.
fn bbr3_adapt_inflight_longterm_to_brake(c: &mut Conn, mode: BrakeMode, bw: u64) {
    if mode == BrakeMode::Watch && c.bbr.brake.mode != BrakeMode::Watch {
        c.bbr.unbraked_inflight_longterm = c.bbr.inflight_longterm;
    }
    if mode == BrakeMode::Hold && bw < c.bbr.brake.target_bw && c.bbr.brake.bw >= c.bbr.brake.target_bw {
        c.bbr.inflight_longterm = c.bbr.inflight_longterm.max(c.bbr.unbraked_inflight_longterm);
    }
}

/// Hands this ACK to the brake and takes over its bandwidth. Startup and Drain are not watched, because both change
/// the rate and the queue themselves.
fn bbr3_run_brake(c: &mut Conn) {
    let (mode, bw, floor) = (c.bbr.brake.mode, c.bbr.brake.bw, bbr3_min_pipe_cwnd(c));
    let is_watching = bbr3_is_in_a_probe_bw_state(c) || c.bbr.state == Mode::ProbeRtt;
    brake_on_ack(&mut BrakeAck {
        s: &mut c.bbr.brake,
        p: &c.p.brake,
        ack: c.ack,
        max_bw: c.bbr.max_bw,
        min_rtt_us: c.bbr.min_rtt_us,
        bw: c.bbr.bw,
        pacing_gain: c.bbr.pacing_gain,
        is_round_start: c.bbr.round_start,
        is_marking: c.out.mark_app_limited,
        is_watching,
        is_steady: c.bbr.state == Mode::ProbeBwCruise,
        floor,
    });
    bbr3_adapt_inflight_longterm_to_brake(c, mode, bw);
    c.bbr.bw = brake_bw(&c.bbr.brake, c.bbr.bw);
}

/// Lets the brake judge the ACK if it is switched on.
pub(super) fn bbr3_update_brake(c: &mut Conn) {
    if c.p.brake.is_on {
        bbr3_run_brake(c);
    }
}

/// Keeps the window within the brake's bound. Pacing slower only stops a queue from growing; less data in flight
/// empties it.
pub(super) fn bbr3_bound_cwnd_for_brake(c: &mut Conn) {
    if c.bbr.brake.mode != BrakeMode::Watch {
        c.out.cwnd = c.out.cwnd.min(c.bbr.brake.window);
    }
}
