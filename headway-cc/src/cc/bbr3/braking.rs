//! The connection of BBRv3 to the brake ([`crate::cc::brake`]). None of it is in the draft, and with the brake off it
//! changes nothing.
//!
//! The brake judges each ACK after the model and the state machine. While it is on, its bandwidth replaces the
//! model's for pacing and for the window. The model itself goes on learning, so that it is right when the brake lets
//! go.

use super::control::{bbr3_is_in_a_probe_bw_state, bbr3_min_pipe_cwnd};
use super::{Conn, Mode};
use crate::cc::brake::{BrakeAck, BrakeMode, brake_bw, brake_on_ack, brake_release};

/// Lets go of the brake because something else takes its place. The long-term bound of before the slow-down comes back: losses on the
/// slower path have lowered it meanwhile, and it must not hold back the faster one.
pub(super) fn bbr3_release_brake(c: &mut Conn) {
    if c.bbr.brake.mode != BrakeMode::Watch {
        c.bbr.inflight_longterm = c.bbr.inflight_longterm.max(c.bbr.unbraked_inflight_longterm);
    }
    brake_release(&mut c.bbr.brake);
}

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
/// the rate and the queue themselves, and a link that varies has its own bound.
fn bbr3_run_brake(c: &mut Conn) {
    let (mode, bw, floor) = (c.bbr.brake.mode, c.bbr.brake.bw, bbr3_min_pipe_cwnd(c));
    let is_watching =
        (bbr3_is_in_a_probe_bw_state(c) || c.bbr.state == Mode::ProbeRtt) && !c.bbr.varying.is_on;
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

#[cfg(test)]
mod tests {
    use super::super::startup::bbr3_enter_startup;
    use super::super::tests::{MSS, with};
    use super::super::{BBR3_INFINITY, Bbr3Params, bbr3_update_on_ack};
    use super::*;
    use crate::cc::Ack;
    use crate::cc::brake::Brake;
    use crate::cc::fixed::BW_UNIT;

    /// Half of a megabyte a second arrives behind 20 ms of queue: eight segments in 19.2 ms. The brake stands between
    /// model and control, so the ACK that shows it is answered by itself: 99 % of that rate, and its BDP of 20,000.
    /// While the link varies the same ACK is left to the answer to such links.
    fn brakes_at_the_ack<R>(link_varies: bool, read: impl FnOnce(&Conn) -> R) -> R {
        with(|c| {
            let p = Bbr3Params { brake: crate::cc::brake::BrakeParams::on(), ..*c.p };
            let (now_us, delivered) = (c.ack.now_us + 1_000_000, 900_000);
            (c.bbr.state, c.bbr.full_bw_reached) = (Mode::ProbeBwCruise, true);
            (c.bbr.cycle_stamp, c.bbr.bw_probe_wait_us) = (now_us, 2_000_000);
            (c.bbr.max_bw_0, c.bbr.max_bw, c.bbr.bw) = (BW_UNIT, BW_UNIT, BW_UNIT);
            (c.bbr.pacing_gain, c.bbr.cwnd_gain) = (c.p.cruise_pacing_gain, c.p.default_cwnd_gain);
            (c.bbr.next_round_delivered, c.bbr.loss_round_delivered) = (delivered, delivered);
            c.bbr.brake = Brake {
                slot_us: now_us - 19_200,
                slot_delivered: delivered - 8 * MSS,
                slot_acks: 2,
                slot_ack_us: now_us - 2_400,
                slot_rtt_us: u64::MAX,
                last_us: now_us - 2_400,
                usual_rtt_us: 40_000,
                usual_bw: BW_UNIT,
                paced_bw: BW_UNIT,
                paced_bw_before: BW_UNIT,
                ..Brake::default()
            };
            let sample = (delivered - 60_000, MSS, 20_000, 40_000);
            let mut ack = Ack { now_us, delivered, rs_rtt_us: 60_000, inflight: 60_000, ..*c.ack };
            (ack.rs_prior_delivered, ack.newly_acked, ack.rs_delivered, ack.rs_interval_us) = sample;
            c.out.cwnd = 60_000;
            (c.bbr.varying.is_on, c.bbr.varying.until_us) = (link_varies, u64::MAX);
            let c = &mut Conn { bbr: c.bbr, p: &p, ack: &ack, out: c.out, delivery_rate: 0 };
            bbr3_update_on_ack(c);
            read(c)
        })
    }

    #[test]
    fn the_ack_that_puts_the_brake_on_is_answered_by_it() {
        brakes_at_the_ack(false, |c| {
            assert_eq!((c.bbr.brake.mode, c.bbr.brake.bw), (BrakeMode::Drain, BW_UNIT / 2));
            assert!(c.out.pacing_rate.abs_diff(495_000) <= 1, "{}", c.out.pacing_rate);
            assert_eq!((c.bbr.bw, c.bbr.max_bw, c.out.cwnd), (BW_UNIT / 2, BW_UNIT, 20_000));
        });
        brakes_at_the_ack(true, |c| assert_eq!((c.bbr.brake.mode, c.bbr.bw), (BrakeMode::Watch, BW_UNIT)));
    }

    /// What an undo leads back to is neither a slower path nor one that varies.
    #[test]
    fn in_startup_nothing_holds_the_flow_back() {
        with(|c| {
            c.bbr.state = Mode::ProbeBwDown;
            (c.bbr.brake.mode, c.bbr.varying.is_on) = (BrakeMode::Hold, true);
            (c.bbr.inflight_longterm, c.bbr.unbraked_inflight_longterm) = (30_000, 90_000);
            bbr3_enter_startup(c);
            assert_eq!((c.bbr.brake.mode, c.bbr.varying.is_on), (BrakeMode::Watch, false));
            assert_eq!((c.bbr.inflight_longterm, c.bbr.brake.releases), (90_000, 1));
        });
    }

    /// The long-term bound from before the slow-down comes back with the old rate, once, and never lowers a bound.
    #[test]
    fn the_long_term_bound_comes_back_with_the_old_rate() {
        for (before, learned, allowed, want) in [
            (90_000, 30_000, 10, 90_000),
            (90_000, 30_000, 9, 30_000),
            (30_000, 90_000, 10, 90_000),
            (BBR3_INFINITY, 30_000, 10, BBR3_INFINITY),
        ] {
            with(|c| {
                c.bbr.inflight_longterm = before;
                (c.bbr.brake.mode, c.bbr.brake.target_bw) = (BrakeMode::Drain, 10);
                bbr3_adapt_inflight_longterm_to_brake(c, BrakeMode::Watch, 0);
                c.bbr.inflight_longterm = learned;
                bbr3_adapt_inflight_longterm_to_brake(c, BrakeMode::Drain, 5);
                (c.bbr.brake.mode, c.bbr.brake.bw) = (BrakeMode::Hold, allowed);
                bbr3_adapt_inflight_longterm_to_brake(c, BrakeMode::Hold, 5);
                assert_eq!(c.bbr.inflight_longterm, want, "{before} {learned} {allowed}");
                // What is learned at the old rate is no longer the slower path's.
                c.bbr.inflight_longterm = 20_000;
                bbr3_adapt_inflight_longterm_to_brake(c, BrakeMode::Hold, 10);
                assert_eq!(c.bbr.inflight_longterm, 20_000);
            });
        }
    }
}
