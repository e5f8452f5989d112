//! Startup (§5.3.1) and Drain (§5.3.2): finding the path's rate for the first time.
//!
//! Startup is entered when a connection begins, and again when ProbeRTT or an undo finds that the pipe was never
//! full. It doubles the rate each round, so that any path's rate is found within some ten rounds. It ends when the
//! rate no longer grows (the search of the model), or when loss or CE marks show that the buffer is full; by then up
//! to one or two BDP wait in the queue. Drain sends slower until that queue is gone; without it all flows would begin
//! their cruise behind it.

use super::braking::bbr3_release_brake;
use super::control::{bbr3_bdp_multiple, bbr3_inflight, bbr3_set_state};
use super::loss_model::bbr3_is_growth_free;
use super::model::{bbr3_is_ecn_eligible, bbr3_is_inflight_too_high};
use super::probe_bw::bbr3_start_probe_bw_down;
use super::{Conn, Mode};
use crate::cc::CaState;
use crate::cc::fixed::GAIN_UNIT;

/// Begins to look for the path's rate, doubling the rate each round (§5.3.1.1 EnterStartup). What bounds the flow to a slower path, or
/// to one that varies, lets go, because neither is watched in Startup.
pub(super) fn bbr3_enter_startup(c: &mut Conn) {
    bbr3_release_brake(c);
    c.bbr.varying.is_on = false;
    bbr3_set_state(c, Mode::Startup);
}

/// Begins Drain, which sends at half of the rate found, so that the queue that Startup built in its last rounds is
/// gone within about one (§5.3.2 EnterDrain).
fn bbr3_enter_drain(c: &mut Conn) {
    bbr3_set_state(c, Mode::Drain);
    c.bbr.drain_start_round = c.bbr.round_count;
}

/// Whether loss shows that the pipe is full before the rate does (§5.3.1.3). One burst of random loss must not end
/// Startup, so there must be many ranges, too much of the volume lost, and a whole round of fast recovery. Without
/// selective ACKs losses cannot be counted, and any loss in fast recovery is enough. CE marks that count as losses
/// cause no recovery, so for them the third condition is dropped.
fn bbr3_is_startup_loss_high(c: &Conn) -> bool {
    if !c.ack.has_selective_acks && c.ack.ca_state == CaState::Recovery {
        return c.ack.newly_lost != 0 || c.bbr.is_loss_in_round;
    }
    let is_ce_loss = c.ack.rs_delivered_ce != 0 && !bbr3_is_ecn_eligible(c);
    let is_round_in_recovery =
        c.ack.ca_state == CaState::Recovery && c.ack.rs_prior_delivered >= c.bbr.recovery_delivered;
    c.bbr.loss_round_start
        && !bbr3_is_growth_free(c)
        && (is_round_in_recovery || is_ce_loss)
        && c.bbr.lost_ranges_in_round >= c.p.startup_full_loss_count
        && bbr3_is_inflight_too_high(c)
}

/// Whether enough rounds in a row were mostly marked to say that the pipe is full (Linux
/// `bbr_check_ecn_too_high_in_startup`).
fn bbr3_is_startup_ecn_high(c: &Conn) -> bool {
    bbr3_is_ecn_eligible(c) && c.bbr.startup_ecn_rounds >= c.p.startup_full_ecn_count
}

/// Ends the search when loss or marks show that the pipe is full, because a shallow buffer overflows long before the
/// rate stops growing (§5.3.1.3 CheckStartupHighLoss). The long-term bound becomes what was delivered, so that the
/// next probe starts from what is known to fit.
fn bbr3_check_startup_high_loss(c: &mut Conn) {
    if c.bbr.state != Mode::Startup || c.bbr.full_bw_reached {
        return;
    }
    if bbr3_is_startup_loss_high(c) || bbr3_is_startup_ecn_high(c) {
        c.bbr.undo_state = Mode::Startup;
        c.bbr.full_bw_reached = true;
        c.bbr.inflight_longterm = bbr3_bdp_multiple(c, c.bbr.max_bw, GAIN_UNIT).max(c.bbr.inflight_latest);
    }
}

/// Leaves Startup when the pipe is full, for whichever reason (§5.3.1.1 CheckStartupDone).
pub(super) fn bbr3_check_startup_done(c: &mut Conn) {
    bbr3_check_startup_high_loss(c);
    if c.bbr.state == Mode::Startup && c.bbr.full_bw_reached {
        bbr3_enter_drain(c);
    }
}

/// Leaves Drain when inflight fits into the path, because the queue is gone then (§5.3.2 CheckDrainDone, with
/// §5.3.3.9 EnterProbeBW). After three rounds it ends in any case, because other flows may keep the queue up. The BDP
/// is that of `max_bw`: a loss in Drain would shrink `bw` and keep the flow there.
pub(super) fn bbr3_check_drain_done(c: &mut Conn) {
    if c.bbr.state != Mode::Drain {
        return;
    }
    let last_round = c.bbr.drain_start_round.saturating_add(c.p.drain_rounds);
    if c.ack.inflight <= bbr3_inflight(c, c.bbr.max_bw, GAIN_UNIT) || c.bbr.round_count > last_round {
        bbr3_start_probe_bw_down(c);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MSS, with};
    use super::*;
    use crate::cc::{Ack, CaState};

    /// Whether Startup ends with this ACK, made from one that has every reason to end it; and the bound it leaves.
    fn ends(change: impl FnOnce(&mut Ack, &mut Conn)) -> Option<u64> {
        with(|c| {
            let mut ack = Ack { ca_state: CaState::Recovery, rs_lost: 30, rs_tx_in_flight: 1000, ..*c.ack };
            (ack.delivered, ack.rs_prior_delivered, ack.newly_acked) = (90 * MSS, 50 * MSS, MSS);
            (c.bbr.recovery_delivered, c.bbr.loss_round_start) = (50 * MSS, true);
            (c.bbr.lost_ranges_in_round, c.bbr.inflight_latest) = (6, 77_000);
            change(&mut ack, c);
            let c = &mut Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 };
            bbr3_check_startup_done(c);
            (c.bbr.state == Mode::Drain).then_some(c.bbr.inflight_longterm)
        })
    }

    #[test]
    fn much_loss_in_many_ranges_over_a_round_of_recovery_ends_startup() {
        assert_eq!(ends(|_, _| {}), Some(77_000));
        assert_eq!(ends(|a, _| a.ca_state = CaState::Open), None);
        assert_eq!(ends(|a, _| a.rs_prior_delivered -= 1), None, "less than a round in recovery");
        assert_eq!(ends(|a, _| a.rs_lost = 20), None, "2 %");
        assert_eq!(ends(|_, c| c.bbr.lost_ranges_in_round = 5), None);
        assert_eq!(ends(|_, c| c.bbr.loss_round_start = false), None);
        assert_eq!(ends(|a, c| (a.rs_lost, c.bbr.full_bw_reached) = (0, true)), Some(u64::MAX), "a plateau");
    }

    #[test]
    fn without_selective_acks_one_loss_in_recovery_ends_startup() {
        let one = |a: &mut Ack, c: &mut Conn| {
            (a.has_selective_acks, a.rs_lost, a.newly_lost) = (false, 0, 1);
            c.bbr.loss_round_start = false;
        };
        assert_eq!(ends(one), Some(77_000));
        assert_eq!(ends(|a, c| (one(a, c), a.newly_lost = 0).1), None);
        assert_eq!(ends(|a, c| (one(a, c), a.ca_state = CaState::Open).1), None);
    }

    #[test]
    fn drain_ends_at_one_bdp_or_in_the_fourth_round() {
        for (inflight, rounds, is_over) in [(40_001, 3, false), (40_000, 0, true), (40_001, 4, true)] {
            with(|c| {
                c.bbr.max_bw = crate::cc::fixed::BW_UNIT;
                bbr3_enter_drain(c);
                c.bbr.round_count += rounds;
                let ack = Ack { inflight, ..*c.ack };
                let c = &mut Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 };
                bbr3_check_drain_done(c);
                assert_eq!(c.bbr.state != Mode::Drain, is_over, "{inflight} bytes, {rounds} rounds");
            });
        }
    }
}
