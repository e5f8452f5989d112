//! Where BBRv3 meets the brake ([`crate::cc::brake`]). None of it is in the draft, and without a brake nothing happens
//! here.
//!
//! After the model and the state machine the brake judges the ACK; while it is on, its bandwidth replaces the model's for
//! pacing and for the window. The model itself goes on learning, so that it is right when the brake lets go.

use super::control::{bbr3_is_in_a_probe_bw_state, bbr3_min_pipe_cwnd};
use super::{Conn, Mode};
use crate::cc::brake::{BrakeAck, BrakeMode, brake_bw, brake_on_ack};

/// What probes and losses say of the slower path must not hold back the faster one: once the brake allows the old
/// rate again, the long-term model does so, too.
fn bbr3_adapt_inflight_longterm_to_brake(c: &mut Conn, mode: BrakeMode, bw: u64) {
    if mode == BrakeMode::Watch && c.bbr.brake.mode != BrakeMode::Watch {
        c.bbr.unbraked_inflight_longterm = c.bbr.inflight_longterm;
    }
    if mode == BrakeMode::Hold && bw < c.bbr.brake.target_bw && c.bbr.brake.bw >= c.bbr.brake.target_bw {
        c.bbr.inflight_longterm = c.bbr.inflight_longterm.max(c.bbr.unbraked_inflight_longterm);
    }
}

/// Tells the brake what it must know of this ACK and of the phase, and takes over its bandwidth. Startup and Drain
/// are not watched: both change the rate and the queue themselves.
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

/// Lets the brake judge the ACK, if there is one.
pub(super) fn bbr3_update_brake(c: &mut Conn) {
    if c.p.brake.is_on {
        bbr3_run_brake(c);
    }
}

/// Keeps the window within the brake's bound: pacing slower would stop a queue from growing, only less in flight
/// empties it.
pub(super) fn bbr3_bound_cwnd_for_brake(c: &mut Conn) {
    if c.bbr.brake.mode != BrakeMode::Watch {
        c.out.cwnd = c.out.cwnd.min(c.bbr.brake.window);
    }
}
