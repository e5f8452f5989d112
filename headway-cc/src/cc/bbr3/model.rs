//! The model of the path (§5.5): the clock of rounds, bandwidth, minimum RTT, bunching of ACKs, and the short-term
//! bounds after loss.
//!
//! It is updated on each ACK, before the state machine looks at it. Bandwidth is a maximum and RTT a minimum, because
//! queues and pauses only lower rate samples and only raise RTT samples. Losses are collected over a loss round and
//! answered once at its end. Without the short-term bounds a flow would go on at the rate of its last probe although
//! the path keeps losing the excess; and unless they are lifted later, it would never probe above them again.

use super::control::{bbr3_permille, bbr3_segments};
use super::loss_model::{
    bbr3_is_flight_too_small, bbr3_is_loss_ours, bbr3_is_loss_round_tolerated, bbr3_start_loss_round,
    bbr3_update_loss_model,
};
use super::{BBR3_INFINITY, Conn, Mode};
use crate::cc::fixed::{GAIN_UNIT, bw_data, gain_apply};
use crate::cc::{CaState, NO_RTT};

/// Begins a round, which ends when what is sent from now on is delivered (§5.5.1 StartRound). The path's answer takes
/// one RTT, so rounds are the clock of the model.
pub(super) fn bbr3_start_round(c: &mut Conn) {
    c.bbr.next_round_delivered = c.ack.delivered;
}

/// Ends the round if this ACK is for a packet that was sent after the round had begun (§5.5.1 UpdateRound).
fn bbr3_update_round(c: &mut Conn) {
    c.bbr.round_start = c.ack.rs_prior_delivered >= c.bbr.next_round_delivered;
    if c.bbr.round_start {
        bbr3_start_round(c);
        c.bbr.round_count += 1;
        c.bbr.rounds_since_probe_up += 1;
        c.bbr.last_round_rtt_us = c.bbr.round_rtt_us;
        c.bbr.round_rtt_us = NO_RTT;
    }
    c.bbr.round_rtt_us = c.bbr.round_rtt_us.min(c.ack.rs_rtt_us);
}

/// Takes the rate sample into the maximum of this probe cycle: queues and pauses only lower samples, so the largest
/// is the path's (§5.5.5 UpdateMaxBw). A sample that the application limited says little of the path, unless it is
/// at least as high as the maximum.
fn bbr3_update_max_bw(c: &mut Conn) {
    bbr3_update_round(c);
    let rate = c.delivery_rate;
    if rate != 0 && (rate >= c.bbr.max_bw || !c.ack.rs_is_app_limited) {
        c.bbr.max_bw_1 = c.bbr.max_bw_1.max(rate);
        c.bbr.max_bw = c.bbr.max_bw_0.max(c.bbr.max_bw_1);
    }
}

/// Ends a cycle of the maximum filter: the older of its two slots is forgotten, so that a path that became slower
/// is believed after two cycles (§5.5.6 AdvanceMaxBwFilter). A cycle without any sample does not push out the one
/// before it.
pub(super) fn bbr3_advance_max_bw_filter(c: &mut Conn) {
    c.bbr.cycle_count += 1;
    if c.bbr.max_bw_1 != 0 {
        c.bbr.max_bw_0 = c.bbr.max_bw_1;
        c.bbr.max_bw_1 = 0;
        c.bbr.max_bw = c.bbr.max_bw_0;
    }
}

/// Starts the search for a full pipe over, because each probe needs one of its own (§5.3.1.2 ResetFullBW).
pub(super) fn bbr3_reset_full_bw(c: &mut Conn) {
    c.bbr.full_bw = 0;
    c.bbr.full_bw_count = 0;
    c.bbr.full_bw_now = false;
    c.bbr.loss.small_rounds = 0;
}

/// Decides whether the pipe is full: three rounds in a row brought less than a quarter more (§5.3.1.2
/// CheckFullBWReached). Had there been room, sending faster would have delivered faster. A sample that the
/// application limited cannot tell, and without a valid rate there is nothing to compare.
pub(super) fn bbr3_check_full_bw_reached(c: &mut Conn) {
    let rate = c.delivery_rate;
    if c.bbr.full_bw_now || !c.bbr.round_start || c.ack.rs_is_app_limited || rate == 0 {
        return;
    }
    if rate >= gain_apply(c.bbr.full_bw, c.p.full_bw_gain) {
        bbr3_reset_full_bw(c);
        c.bbr.full_bw = rate;
        return;
    }
    if bbr3_is_flight_too_small(c) {
        c.bbr.loss.small_rounds += 1;
        return;
    }
    c.bbr.full_bw_count += 1;
    if c.bbr.full_bw_count >= c.p.full_bw_count {
        c.bbr.full_bw_now = true;
        c.bbr.full_bw_reached = true;
    }
}

/// Collects the largest rate and volume that this loss round delivers (§5.5.10.3 UpdateLatestDeliverySignals): the
/// path can do at least that much, however much it loses. Also notes whether this ACK ends the loss round.
pub(super) fn bbr3_update_latest_delivery_signals(c: &mut Conn) {
    c.bbr.loss_round_start = false;
    c.bbr.bw_latest = c.bbr.bw_latest.max(c.delivery_rate);
    c.bbr.inflight_latest = c.bbr.inflight_latest.max(c.ack.rs_delivered);
    if c.ack.rs_prior_delivered >= c.bbr.loss_round_delivered {
        c.bbr.loss_round_delivered = c.ack.delivered;
        c.bbr.loss_round_start = true;
    }
}

/// Begins the next loss round with this ACK's own sample, so that nothing older counts in it (§5.5.10.3
/// AdvanceLatestDeliverySignals).
pub(super) fn bbr3_advance_latest_delivery_signals(c: &mut Conn) {
    if c.bbr.loss_round_start {
        c.bbr.bw_latest = c.delivery_rate;
        c.bbr.inflight_latest = c.ack.rs_delivered;
        c.bbr.lost_ranges_in_round = 0;
    }
}

/// Forgets the losses and marks of this round, so that the next phase does not answer for those of the last one
/// (§5.5.10.3 ResetCongestionSignals).
pub(super) fn bbr3_reset_congestion_signals(c: &mut Conn) {
    c.bbr.is_loss_in_round = false;
    c.bbr.is_ce_in_round = false;
    c.bbr.bw_latest = 0;
    c.bbr.inflight_latest = 0;
}

/// Lifts the short-term bounds, because only without them can a probe find out whether their cause is over (§5.5.10.3
/// ResetShortTermModel).
pub(super) fn bbr3_reset_short_term_model(c: &mut Conn) {
    c.bbr.bw_shortterm = BBR3_INFINITY;
    c.bbr.inflight_shortterm = BBR3_INFINITY;
}

/// Whether the flow sends faster on purpose (§5.3.3.9 IsProbingBW). Some loss is to be expected then, and it does not
/// cut the short-term bounds.
fn bbr3_is_probing_bw(c: &Conn) -> bool {
    c.bbr.state == Mode::Startup || c.bbr.state == Mode::ProbeBwRefill || c.bbr.state == Mode::ProbeBwUp
}

/// Whether CE marks are answered as marks and not as losses (§3.7): the parameter asks for it, and the RTT is that of
/// a data centre, where switches mark long before they drop.
pub(super) fn bbr3_is_ecn_eligible(c: &Conn) -> bool {
    c.p.ecn && c.bbr.min_rtt_us <= c.p.ecn_max_rtt_us
}

/// Averages the marked part of each round, so that the cut is in proportion to how much was marked in the last
/// rounds, as in DCTCP (Linux `bbr_update_ecn_alpha`).
fn bbr3_update_ecn_alpha(c: &mut Conn) {
    let delivered = c.ack.delivered.saturating_sub(c.bbr.alpha_last_delivered);
    if !bbr3_is_ecn_eligible(c) || delivered == 0 {
        return;
    }
    let delivered_ce = c.ack.delivered_ce.saturating_sub(c.bbr.alpha_last_delivered_ce);
    let ce_ratio = delivered_ce.saturating_mul(GAIN_UNIT) / delivered;
    let kept = gain_apply(c.bbr.ecn_alpha, GAIN_UNIT.saturating_sub(c.p.ecn_alpha_gain));
    c.bbr.ecn_alpha = kept.saturating_add(gain_apply(ce_ratio, c.p.ecn_alpha_gain)).min(GAIN_UNIT);
    c.bbr.alpha_last_delivered = c.ack.delivered;
    c.bbr.alpha_last_delivered_ce = c.ack.delivered_ce;
    c.bbr.startup_ecn_rounds = if ce_ratio >= c.p.ecn_thresh { c.bbr.startup_ecn_rounds + 1 } else { 0 };
}

/// The short-term bound after a round with marks: lower by a third of the average marked part (Linux
/// `bbr_ecn_lower_bounds`). Infinity where nothing was marked.
fn bbr3_ecn_inflight_shortterm(c: &Conn) -> u64 {
    if !c.bbr.is_ce_in_round {
        return BBR3_INFINITY;
    }
    let cut = gain_apply(c.bbr.ecn_alpha, c.p.ecn_factor);
    let volume =
        if c.bbr.inflight_shortterm == BBR3_INFINITY { c.out.cwnd } else { c.bbr.inflight_shortterm };
    gain_apply(volume, GAIN_UNIT.saturating_sub(cut))
}

/// Cuts both short-term bounds by 30 % after a round with loss, but never below what the round delivered in spite of
/// it (§5.5.10.3 InitLowerBounds and LossLowerBounds). The first loss cuts from the estimates in use.
fn bbr3_loss_lower_bounds(c: &mut Conn) {
    if c.bbr.bw_shortterm == BBR3_INFINITY {
        c.bbr.bw_shortterm = c.bbr.max_bw;
    }
    if c.bbr.inflight_shortterm == BBR3_INFINITY {
        c.bbr.inflight_shortterm = c.out.cwnd;
    }
    let beta = c.p.beta_permille;
    c.bbr.bw_shortterm = c.bbr.bw_latest.max(bbr3_permille(c.bbr.bw_shortterm, beta)).max(1);
    c.bbr.inflight_shortterm = c.bbr.inflight_latest.max(bbr3_permille(c.bbr.inflight_shortterm, beta));
}

/// Answers the losses and marks of a round, except while probing (§5.5.10.3 AdaptLowerBoundsFromCongestion). Without
/// this the flow would keep its rate until the next probe although the queue overflows.
fn bbr3_adapt_lower_bounds_from_congestion(c: &mut Conn) {
    if bbr3_is_probing_bw(c) {
        return;
    }
    let ecn_inflight_shortterm = bbr3_ecn_inflight_shortterm(c);
    if c.bbr.is_loss_in_round && !bbr3_is_loss_round_tolerated(c) {
        bbr3_loss_lower_bounds(c);
    }
    c.bbr.inflight_shortterm = c.bbr.inflight_shortterm.min(ecn_inflight_shortterm);
}

/// Lifts the bounds that losses have set which are tolerated from now on.
fn bbr3_forget_losses(c: &mut Conn) {
    bbr3_reset_short_term_model(c);
    c.bbr.inflight_longterm = BBR3_INFINITY;
}

/// Answers losses once per loss round, because all losses of one round come from the same moment of congestion
/// (§5.5.10.3 UpdateCongestionSignals).
pub(super) fn bbr3_update_congestion_signals(c: &mut Conn) {
    bbr3_update_max_bw(c);
    if bbr3_update_loss_model(c) {
        bbr3_forget_losses(c);
    }
    if !c.bbr.loss_round_start {
        return;
    }
    bbr3_update_ecn_alpha(c);
    bbr3_adapt_lower_bounds_from_congestion(c);
    bbr3_start_loss_round(c);
    c.bbr.is_loss_in_round = false;
    c.bbr.is_ce_in_round = false;
}

/// Sets the bandwidth in use: the long-term maximum, or less if recent loss has cut it (§5.5.10.3 BoundBWForModel).
pub(super) fn bbr3_bound_bw_for_model(c: &mut Conn) {
    c.bbr.bw = c.bbr.max_bw.min(c.bbr.bw_shortterm);
}

/// Saves the window before loss or ProbeRTT reduces it, so that it can be restored (§5.6.4.4 SaveCwnd). If it is
/// reduced already, it says little about the path, and the larger of the two values counts.
pub(super) fn bbr3_save_cwnd(c: &mut Conn) {
    if c.bbr.prev_ca_state < CaState::Recovery && c.bbr.state != Mode::ProbeRtt {
        c.bbr.prior_cwnd = c.out.cwnd;
    } else {
        c.bbr.prior_cwnd = c.bbr.prior_cwnd.max(c.out.cwnd);
    }
}

/// Restores the window from before the reduction, whose reason is over (§5.6.4.4 RestoreCwnd).
pub(super) fn bbr3_restore_cwnd(c: &mut Conn) {
    c.out.cwnd = c.out.cwnd.max(c.bbr.prior_cwnd);
}

/// Saves the bounds before the first reaction to a recovery, so that all of it can be undone if the losses prove to
/// be reordering (§5.5.11.1 SaveStateUponLoss). It happens once per recovery: a later loss would overwrite the saved
/// values with reduced ones.
pub(super) fn bbr3_save_state_upon_loss(c: &mut Conn) {
    if c.bbr.is_undo_saved {
        return;
    }
    c.bbr.is_undo_saved = true;
    bbr3_save_cwnd(c);
    c.bbr.undo_state = super::Mode::None;
    c.bbr.undo_bw_shortterm = c.bbr.bw_shortterm;
    c.bbr.undo_inflight_shortterm = c.bbr.inflight_shortterm;
    c.bbr.undo_inflight_longterm = c.bbr.inflight_longterm;
}

/// Handles the loss of a packet (§5.5.10.2 NoteLoss). A loss round begins unless one is under way, and ranges of
/// losses are counted, because by their number Startup tells a full buffer from random loss. The state is saved here
/// too, because a recovery may begin while its loss round is already under way.
pub(super) fn bbr3_note_loss(c: &mut Conn, starts_range: bool) {
    bbr3_save_state_upon_loss(c);
    if !c.bbr.is_loss_in_round {
        c.bbr.loss_round_delivered = c.ack.delivered;
        c.bbr.lost_ranges_in_round = 0;
        bbr3_start_loss_round(c);
    }
    c.bbr.is_loss_in_round = true;
    c.bbr.lost_ranges_in_round += u64::from(starts_range);
}

/// Measures how much more data one bunch of ACKs brings than the bandwidth explains (§5.5.9 UpdateACKAggregation).
/// The window needs that much room, or the flow would run dry between two bunches. The filter covers exactly its
/// number of rounds, this one included.
pub(super) fn bbr3_update_ack_aggregation(c: &mut Conn) {
    let now_us = c.ack.now_us;
    let interval_us = now_us.saturating_sub(c.bbr.extra_acked_interval_start);
    let mut expected_delivered = bw_data(c.bbr.bw, interval_us);
    if c.bbr.extra_acked_delivered <= expected_delivered {
        c.bbr.extra_acked_delivered = 0;
        c.bbr.extra_acked_interval_start = now_us;
        expected_delivered = 0;
    }
    c.bbr.extra_acked_delivered = c.bbr.extra_acked_delivered.saturating_add(c.ack.newly_acked);
    let extra = c.bbr.extra_acked_delivered.saturating_sub(expected_delivered).min(c.out.cwnd);
    let mut filter_len = c.p.startup_extra_acked_filter_len;
    if c.bbr.full_bw_reached {
        filter_len = c.p.extra_acked_filter_len;
    }
    c.bbr.extra_acked_filter.running_max(filter_len.saturating_sub(1), c.bbr.round_count, extra);
    c.bbr.extra_acked = c.bbr.extra_acked_filter.get();
}

/// Tracks the RTT without a queue in two filters (§5.3.4.3 UpdateMinRTT). The short one says when ProbeRTT is due,
/// the long one is the model's. When the long one expires, the minimum of the short one replaces it; otherwise a path
/// that became longer would never be noticed.
pub(super) fn bbr3_update_min_rtt(c: &mut Conn) {
    let (now_us, rtt_us) = (c.ack.now_us, c.ack.rs_rtt_us);
    let due_us = c.bbr.probe_rtt_min_stamp.saturating_add(c.p.probe_rtt_interval_us);
    c.bbr.probe_rtt_expired = now_us > due_us;
    if rtt_us < NO_RTT && (rtt_us < c.bbr.probe_rtt_min_delay_us || c.bbr.probe_rtt_expired) {
        c.bbr.probe_rtt_min_delay_us = rtt_us;
        c.bbr.probe_rtt_min_stamp = now_us;
    }
    let is_expired = now_us > c.bbr.min_rtt_stamp.saturating_add(c.p.min_rtt_filter_len_us);
    // Without any sample there is nothing to put in the place of the expired minimum.
    let has_sample = c.bbr.probe_rtt_min_delay_us < NO_RTT;
    if has_sample && (c.bbr.probe_rtt_min_delay_us < c.bbr.min_rtt_us || is_expired) {
        c.bbr.min_rtt_us = c.bbr.probe_rtt_min_delay_us;
        c.bbr.min_rtt_stamp = c.bbr.probe_rtt_min_stamp;
    }
}

/// Whether more than 2 % of what was in flight is lost, which is more than random loss and less than an overflowing
/// buffer loses (§5.5.10.2, the loss half of IsInflightTooHigh). Where `tx_in_flight` is unknown (0) the answer is
/// no. Without selective ACKs losses cannot be counted, so any loss is too much.
///
/// Losses are whole units, so more than 2 % is the same as more than 2 % rounded down.
pub(super) fn bbr3_is_loss_too_high(c: &Conn, lost: u64, tx_in_flight: u64) -> bool {
    if tx_in_flight == 0 || lost == 0 {
        return false;
    }
    let above = lost.saturating_sub(bbr3_permille(tx_in_flight, c.p.loss_thresh_permille));
    bbr3_is_loss_ours(c, above, tx_in_flight) || !c.ack.has_selective_acks
}

/// Whether this ACK's own sample lost too much or was marked too much (§5.5.10.2 IsInflightTooHigh). Marks that are
/// not answered as marks count as losses.
pub(super) fn bbr3_is_inflight_too_high(c: &Conn) -> bool {
    let (ack, ce) = (c.ack, c.ack.rs_delivered_ce);
    if bbr3_is_ecn_eligible(c) {
        return bbr3_is_loss_too_high(c, ack.rs_lost, ack.rs_tx_in_flight)
            || (ce != 0 && ack.rs_delivered != 0 && ce > gain_apply(ack.rs_delivered, c.p.ecn_thresh));
    }
    bbr3_is_loss_too_high(c, ack.rs_lost.saturating_add(ce), ack.rs_tx_in_flight)
}

/// The volume in flight at which losses crossed the threshold (§5.5.10.2 InflightAtLoss). The lost packet may be a
/// burst of many segments, and the bound belongs where loss became too much, not where the burst ended. It is rounded
/// down to whole units. If losses were too high before this packet already, the answer is what was in flight then.
pub(super) fn bbr3_inflight_at_loss(c: &Conn) -> u64 {
    let (size, thresh) = (c.ack.newly_lost, c.p.loss_thresh_permille.min(999));
    let inflight_prev = c.ack.rs_tx_in_flight.saturating_sub(size);
    let lost_prev = c.ack.rs_lost.saturating_sub(size);
    let spare = inflight_prev.saturating_mul(thresh).saturating_sub(lost_prev.saturating_mul(1000));
    inflight_prev.saturating_add((spare / (1000 - thresh)).min(size))
}

/// The volume that the flow wants in flight: the BDP, or less where congestion has cut the window (§5.3.3.8
/// TargetInflight).
pub(super) fn bbr3_target_inflight(c: &Conn) -> u64 {
    super::control::bbr3_bdp_multiple(c, c.bbr.bw, GAIN_UNIT).min(c.out.cwnd)
}

/// The same in segments and at least 1, which is how Reno would count it.
pub(super) fn bbr3_target_segments(c: &Conn) -> u64 {
    (bbr3_target_inflight(c) / bbr3_segments(c, 1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::with;
    use super::*;
    use crate::cc::Ack;
    use crate::cc::fixed::BW_UNIT;

    #[test]
    fn two_per_cent_is_not_too_high_and_a_byte_more_is() {
        with(|c| {
            assert!(!bbr3_is_loss_too_high(c, 2_400, 120_000));
            assert!(bbr3_is_loss_too_high(c, 2_401, 120_000));
            assert!(!bbr3_is_loss_too_high(c, 1_000_000, 50_000_000));
            assert!(bbr3_is_loss_too_high(c, 1_000_001, 50_000_000));
            assert!(!bbr3_is_loss_too_high(c, 5_000, 0), "unknown");
            let ack = Ack { has_selective_acks: false, ..*c.ack };
            let c = Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 };
            assert!(bbr3_is_loss_too_high(&c, 1, 120_000) && !bbr3_is_loss_too_high(&c, 0, 120_000));
        });
    }

    #[test]
    fn inflight_at_loss_is_within_the_packet() {
        // (in flight, size, lost with it, result): the draft's formula gives 108982.9 for the first.
        for (tx, size, lost, at) in [
            (120_000, 12_000, 13_200, 108_000 + 979),
            (120_000, 12_000, 12_000, 108_000 + 2_204),
            (100, 10, 11, 90),
            (100, 1, 20, 99),
            (50_000, 1_200, 1_200, 48_800 + 995),
            (10, 20, 20, 0),
        ] {
            with(|c| {
                let ack = Ack { newly_lost: size, rs_lost: lost, rs_tx_in_flight: tx, ..*c.ack };
                let c = Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 };
                assert_eq!(bbr3_inflight_at_loss(&c), at, "{size} of {tx}, {lost} lost");
            });
        }
    }

    /// Two ACKs a round, of which the first begins it. A round without samples has no smallest RTT.
    #[test]
    fn a_round_has_its_smallest_rtt() {
        with(|c| {
            let rounds = [(70, 60), (50, 90), (NO_RTT, NO_RTT), (80, 85), (99, 99)];
            let mut last = Vec::new();
            for (n, (first, second)) in rounds.into_iter().enumerate() {
                for (rs_rtt_us, delivered) in [(first, 0), (second, 1)] {
                    let (delivered, before) =
                        (n as u64 * 10 + delivered + 100, n as u64 * 10 + delivered + 90);
                    let ack = Ack { rs_rtt_us, delivered, rs_prior_delivered: before, ..*c.ack };
                    bbr3_update_round(&mut Conn {
                        bbr: c.bbr,
                        p: c.p,
                        ack: &ack,
                        out: c.out,
                        delivery_rate: 0,
                    });
                    assert_eq!(c.bbr.round_start, ack.delivered.is_multiple_of(10), "round {n}");
                }
                last.push(c.bbr.last_round_rtt_us);
            }
            assert_eq!(last[1..], [60, 50, NO_RTT, 80]);
        });
    }

    #[test]
    fn a_maximum_leaves_after_two_cycles_but_not_for_nothing() {
        with(|c| {
            c.delivery_rate = 100 * BW_UNIT;
            bbr3_update_max_bw(c);
            bbr3_advance_max_bw_filter(c);
            bbr3_advance_max_bw_filter(c);
            assert_eq!(c.bbr.max_bw, 100 * BW_UNIT, "no sample since");
            c.delivery_rate = 40 * BW_UNIT;
            bbr3_update_max_bw(c);
            assert_eq!(c.bbr.max_bw, 100 * BW_UNIT);
            bbr3_advance_max_bw_filter(c);
            assert_eq!((c.bbr.max_bw, c.bbr.cycle_count), (40 * BW_UNIT, 3));
        });
    }

    #[test]
    fn a_short_term_bound_is_seven_tenths_or_what_arrived() {
        with(|c| {
            (c.bbr.max_bw, c.bbr.bw_latest) = (1000, 600);
            (c.out.cwnd, c.bbr.inflight_latest) = (100_000, 95_000);
            bbr3_loss_lower_bounds(c);
            assert_eq!((c.bbr.bw_shortterm, c.bbr.inflight_shortterm), (700, 95_000));
            bbr3_loss_lower_bounds(c);
            assert_eq!(c.bbr.bw_shortterm, 600);
        });
    }

    #[test]
    fn a_round_with_marks_cuts_by_a_third_of_their_average() {
        with(|c| {
            let p = super::super::Bbr3Params { ecn: true, ..*c.p };
            let ack = Ack { delivered: 64_000, delivered_ce: 32_000, ..*c.ack };
            c.bbr.min_rtt_us = 1_000;
            (c.bbr.is_ce_in_round, c.bbr.ecn_alpha, c.out.cwnd) = (true, GAIN_UNIT / 4, 96_000);
            c.bbr.state = super::super::Mode::ProbeBwCruise;
            let c = &mut Conn { bbr: c.bbr, p: &p, ack: &ack, out: c.out, delivery_rate: 0 };
            bbr3_update_ecn_alpha(c);
            // 15/16 of a quarter and 1/16 of a half.
            assert_eq!((c.bbr.ecn_alpha, c.bbr.startup_ecn_rounds), (GAIN_UNIT * 17 / 64, 1));
            bbr3_adapt_lower_bounds_from_congestion(c);
            assert_eq!(c.bbr.bw_shortterm, BBR3_INFINITY, "volume only");
            assert!(c.bbr.inflight_shortterm.abs_diff(96_000 - 96_000 * 17 / 192) <= 2);
        });
    }

    #[test]
    fn extra_acked_is_forgotten_after_its_rounds() {
        for (full, rounds) in [(false, 1), (true, 10)] {
            with(|c| {
                c.bbr.full_bw_reached = full;
                c.out.cwnd = 100_000;
                let burst = Ack { newly_acked: 24_000, ..*c.ack };
                let quiet = Ack { newly_acked: 1, now_us: c.ack.now_us + 1_000_000, ..*c.ack };
                c.bbr.bw = BW_UNIT;
                let mut step = |ack: &Ack, round: u64| {
                    c.bbr.round_count = round;
                    let c = &mut Conn { bbr: c.bbr, p: c.p, ack, out: c.out, delivery_rate: 0 };
                    bbr3_update_ack_aggregation(c);
                    c.bbr.extra_acked
                };
                assert_eq!(step(&burst, 50), 24_000);
                for round in 51..50 + rounds {
                    assert_eq!(step(&quiet, round), 24_000, "round {round}");
                }
                assert!(step(&quiet, 50 + rounds) < 24_000);
            });
        }
    }
}
