/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The model of the path (§5.5): the clock of rounds, bandwidth, minimum RTT, bunching of ACKs, short-term bounds
 * after loss. Part of bbr3.h; twin: headway-cc/src/cc/bbr3/model.rs, which has the reasons.
 */
#ifndef HEADWAY_BBR3_MODEL_H
#define HEADWAY_BBR3_MODEL_H

/*
 * Begins a round, which ends when what is sent from now on is delivered (§5.5.1 StartRound). The path's answer takes
 * one RTT, so rounds are the clock of the model.
 */
static __always_inline void bbr3_start_round(struct bbr3_conn *c)
{
	c->bbr->next_round_delivered = c->ack->delivered;
}

/* Ends the round if this ACK is for a packet that was sent after the round had begun (§5.5.1 UpdateRound). */
static __always_inline void bbr3_update_round(struct bbr3_conn *c)
{
	c->bbr->round_start = c->ack->rs_prior_delivered >= c->bbr->next_round_delivered;
	if (c->bbr->round_start) {
		bbr3_start_round(c);
		c->bbr->round_count++;
		c->bbr->rounds_since_probe_up++;
		c->bbr->last_round_rtt_us = c->bbr->round_rtt_us;
		c->bbr->round_rtt_us = NO_RTT;
	}
	c->bbr->round_rtt_us = u64_min(c->bbr->round_rtt_us, c->ack->rs_rtt_us);
}

/*
 * Takes the rate sample into the maximum of this probe cycle: queues and pauses only lower samples, so the largest is
 * the path's (§5.5.5 UpdateMaxBw).
 */
static __always_inline void bbr3_update_max_bw(struct bbr3_conn *c)
{
	u64 rate = c->delivery_rate;

	bbr3_update_round(c);
	if (rate && (rate >= c->bbr->max_bw || !c->ack->rs_is_app_limited)) {
		c->bbr->max_bw_1 = u64_max(c->bbr->max_bw_1, rate);
		c->bbr->max_bw = u64_max(c->bbr->max_bw_0, c->bbr->max_bw_1);
	}
}

/*
 * Ends a cycle of the maximum filter: the older of its two slots is forgotten, so that a path that became slower is
 * believed after two cycles (§5.5.6 AdvanceMaxBwFilter). A cycle without any sample does not push out the one before
 * it.
 */
static __always_inline void bbr3_advance_max_bw_filter(struct bbr3_conn *c)
{
	c->bbr->cycle_count++;
	if (c->bbr->max_bw_1) {
		c->bbr->max_bw_0 = c->bbr->max_bw_1;
		c->bbr->max_bw_1 = 0;
		c->bbr->max_bw = c->bbr->max_bw_0;
	}
}

/* Starts the search for a full pipe over, because each probe needs one of its own (§5.3.1.2 ResetFullBW). */
static __always_inline void bbr3_reset_full_bw(struct bbr3_conn *c)
{
	c->bbr->full_bw = 0;
	c->bbr->full_bw_count = 0;
	c->bbr->full_bw_now = 0;
	c->bbr->loss.small_rounds = 0;
}

/*
 * Decides whether the pipe is full: three rounds in a row brought less than a quarter more (§5.3.1.2
 * CheckFullBWReached). Had there been room, sending faster would have delivered faster.
 */
static __noinline void bbr3_check_full_bw_reached(struct bbr3_conn *c)
{
	u64 rate = c->delivery_rate;

	if (c->bbr->full_bw_now || !c->bbr->round_start || c->ack->rs_is_app_limited || !rate)
		return;
	if (rate >= gain_apply(c->bbr->full_bw, c->p->full_bw_gain)) {
		bbr3_reset_full_bw(c);
		c->bbr->full_bw = rate;
		return;
	}
	if (bbr3_is_flight_too_small(c)) {
		c->bbr->loss.small_rounds++;
		return;
	}
	c->bbr->full_bw_count++;
	if (c->bbr->full_bw_count >= c->p->full_bw_count) {
		c->bbr->full_bw_now = 1;
		c->bbr->full_bw_reached = 1;
	}
}

/*
 * Collects the largest rate and volume that this loss round delivers (§5.5.10.3 UpdateLatestDeliverySignals): the
 * path can do at least that much, however much it loses. Also notes whether this ACK ends the loss round.
 */
static __always_inline void bbr3_update_latest_delivery_signals(struct bbr3_conn *c)
{
	c->bbr->loss_round_start = 0;
	c->bbr->bw_latest = u64_max(c->bbr->bw_latest, c->delivery_rate);
	c->bbr->inflight_latest = u64_max(c->bbr->inflight_latest, c->ack->rs_delivered);
	if (c->ack->rs_prior_delivered >= c->bbr->loss_round_delivered) {
		c->bbr->loss_round_delivered = c->ack->delivered;
		c->bbr->loss_round_start = 1;
	}
}

/*
 * Begins the next loss round with this ACK's own sample, so that nothing older counts in it (§5.5.10.3
 * AdvanceLatestDeliverySignals).
 */
static __always_inline void bbr3_advance_latest_delivery_signals(struct bbr3_conn *c)
{
	if (c->bbr->loss_round_start) {
		c->bbr->bw_latest = c->delivery_rate;
		c->bbr->inflight_latest = c->ack->rs_delivered;
		c->bbr->lost_ranges_in_round = 0;
	}
}

/*
 * Forgets the losses and marks of this round, so that the next phase does not answer for those of the last one
 * (§5.5.10.3 ResetCongestionSignals).
 */
static __always_inline void bbr3_reset_congestion_signals(struct bbr3_conn *c)
{
	c->bbr->is_loss_in_round = 0;
	c->bbr->is_ce_in_round = 0;
	c->bbr->bw_latest = 0;
	c->bbr->inflight_latest = 0;
}

/*
 * Lifts the short-term bounds, because only without them can a probe find out whether their cause is over (§5.5.10.3
 * ResetShortTermModel).
 */
static __always_inline void bbr3_reset_short_term_model(struct bbr3_conn *c)
{
	c->bbr->bw_shortterm = BBR3_INFINITY;
	c->bbr->inflight_shortterm = BBR3_INFINITY;
}

/*
 * Whether the flow sends faster on purpose (§5.3.3.9 IsProbingBW). Some loss is to be expected then, and it does not
 * cut the short-term bounds.
 */
static __always_inline u64 bbr3_is_probing_bw(const struct bbr3_conn *c)
{
	return c->bbr->state == BBR3_STARTUP || c->bbr->state == BBR3_PROBE_BW_REFILL ||
	       c->bbr->state == BBR3_PROBE_BW_UP;
}

/*
 * Whether CE marks are answered as marks and not as losses (§3.7): the parameter asks for it, and the RTT is that of
 * a data centre, where switches mark long before they drop.
 */
static __always_inline u64 bbr3_is_ecn_eligible(const struct bbr3_conn *c)
{
	return c->p->ecn && c->bbr->min_rtt_us <= c->p->ecn_max_rtt_us;
}

/*
 * Averages the marked part of each round, so that the cut is in proportion to how much was marked in the last rounds,
 * as in DCTCP (Linux bbr_update_ecn_alpha).
 */
static __noinline void bbr3_update_ecn_alpha(struct bbr3_conn *c)
{
	u64 delivered = sat_sub(c->ack->delivered, c->bbr->alpha_last_delivered);
	u64 delivered_ce, ce_ratio, kept;

	if (!bbr3_is_ecn_eligible(c) || !delivered)
		return;
	delivered_ce = sat_sub(c->ack->delivered_ce, c->bbr->alpha_last_delivered_ce);
	ce_ratio = sat_mul(delivered_ce, GAIN_UNIT) / delivered;
	kept = gain_apply(c->bbr->ecn_alpha, sat_sub(GAIN_UNIT, c->p->ecn_alpha_gain));
	c->bbr->ecn_alpha = u64_min(sat_add(kept, gain_apply(ce_ratio, c->p->ecn_alpha_gain)), GAIN_UNIT);
	c->bbr->alpha_last_delivered = c->ack->delivered;
	c->bbr->alpha_last_delivered_ce = c->ack->delivered_ce;
	c->bbr->startup_ecn_rounds = ce_ratio >= c->p->ecn_thresh ? c->bbr->startup_ecn_rounds + 1 : 0;
}

/*
 * The short-term bound after a round with marks: lower by a third of the average marked part (Linux
 * bbr_ecn_lower_bounds). Infinity where nothing was marked.
 */
static __noinline u64 bbr3_ecn_inflight_shortterm(const struct bbr3_conn *c)
{
	u64 cut, volume;

	if (!c->bbr->is_ce_in_round)
		return BBR3_INFINITY;
	cut = gain_apply(c->bbr->ecn_alpha, c->p->ecn_factor);
	volume = c->bbr->inflight_shortterm;
	if (volume == BBR3_INFINITY)
		volume = c->out->cwnd;
	return gain_apply(volume, sat_sub(GAIN_UNIT, cut));
}

/*
 * Cuts both short-term bounds by 30 % after a round with loss, but never below what the round delivered in spite of
 * it (§5.5.10.3 InitLowerBounds and LossLowerBounds). The first loss cuts from the estimates in use.
 */
static __noinline void bbr3_loss_lower_bounds(struct bbr3_conn *c)
{
	u64 beta = c->p->beta_permille;

	if (c->bbr->bw_shortterm == BBR3_INFINITY)
		c->bbr->bw_shortterm = c->bbr->max_bw;
	if (c->bbr->inflight_shortterm == BBR3_INFINITY)
		c->bbr->inflight_shortterm = c->out->cwnd;
	c->bbr->bw_shortterm =
		u64_max(u64_max(c->bbr->bw_latest, bbr3_permille(c->bbr->bw_shortterm, beta)), 1);
	c->bbr->inflight_shortterm =
		u64_max(c->bbr->inflight_latest, bbr3_permille(c->bbr->inflight_shortterm, beta));
}

/*
 * Answers the losses and marks of a round, except while probing (§5.5.10.3 AdaptLowerBoundsFromCongestion). Without
 * this the flow would keep its rate until the next probe although the queue overflows.
 */
static __always_inline void bbr3_adapt_lower_bounds_from_congestion(struct bbr3_conn *c)
{
	u64 ecn_inflight_shortterm;

	if (bbr3_is_probing_bw(c))
		return;
	ecn_inflight_shortterm = bbr3_ecn_inflight_shortterm(c);
	if (c->bbr->is_loss_in_round && !bbr3_is_loss_round_tolerated(c))
		bbr3_loss_lower_bounds(c);
	c->bbr->inflight_shortterm = u64_min(c->bbr->inflight_shortterm, ecn_inflight_shortterm);
}

/* Lifts the bounds that losses have set which are tolerated from now on. */
static __always_inline void bbr3_forget_losses(struct bbr3_conn *c)
{
	bbr3_reset_short_term_model(c);
	c->bbr->inflight_longterm = BBR3_INFINITY;
}

/*
 * Answers losses once per loss round, because all losses of one round come from the same moment of congestion
 * (§5.5.10.3 UpdateCongestionSignals).
 */
static __always_inline void bbr3_update_congestion_signals(struct bbr3_conn *c)
{
	bbr3_update_max_bw(c);
	if (bbr3_update_loss_model(c))
		bbr3_forget_losses(c);
	if (!c->bbr->loss_round_start)
		return;
	bbr3_update_ecn_alpha(c);
	bbr3_adapt_lower_bounds_from_congestion(c);
	bbr3_start_loss_round(c);
	c->bbr->is_loss_in_round = 0;
	c->bbr->is_ce_in_round = 0;
}

/* Sets the bandwidth in use: the long-term maximum, or less if recent loss has cut it (§5.5.10.3 BoundBWForModel). */
static __always_inline void bbr3_bound_bw_for_model(struct bbr3_conn *c)
{
	c->bbr->bw = u64_min(c->bbr->max_bw, c->bbr->bw_shortterm);
}

/*
 * Saves the window before loss or ProbeRTT reduces it, so that it can be restored (§5.6.4.4 SaveCwnd). If it is
 * reduced already, it says little about the path, and the larger of the two values counts.
 */
static __always_inline void bbr3_save_cwnd(struct bbr3_conn *c)
{
	if (c->bbr->prev_ca_state < CA_RECOVERY && c->bbr->state != BBR3_PROBE_RTT)
		c->bbr->prior_cwnd = c->out->cwnd;
	else
		c->bbr->prior_cwnd = u64_max(c->bbr->prior_cwnd, c->out->cwnd);
}

/* Restores the window from before the reduction, whose reason is over (§5.6.4.4 RestoreCwnd). */
static __always_inline void bbr3_restore_cwnd(struct bbr3_conn *c)
{
	c->out->cwnd = u64_max(c->out->cwnd, c->bbr->prior_cwnd);
}

/*
 * Saves the bounds before the first reaction to a recovery, so that all of it can be undone if the losses prove to be
 * reordering (§5.5.11.1 SaveStateUponLoss).
 */
static __always_inline void bbr3_save_state_upon_loss(struct bbr3_conn *c)
{
	if (c->bbr->is_undo_saved)
		return;
	c->bbr->is_undo_saved = 1;
	bbr3_save_cwnd(c);
	c->bbr->undo_state = BBR3_NONE;
	c->bbr->undo_bw_shortterm = c->bbr->bw_shortterm;
	c->bbr->undo_inflight_shortterm = c->bbr->inflight_shortterm;
	c->bbr->undo_inflight_longterm = c->bbr->inflight_longterm;
}

/*
 * Handles the loss of a packet (§5.5.10.2 NoteLoss). A loss round begins unless one is under way, and ranges of
 * losses are counted, because by their number Startup tells a full buffer from random loss.
 */
static __noinline void bbr3_note_loss(struct bbr3_conn *c, u64 starts_range)
{
	bbr3_save_state_upon_loss(c);
	if (!c->bbr->is_loss_in_round) {
		c->bbr->loss_round_delivered = c->ack->delivered;
		c->bbr->lost_ranges_in_round = 0;
		bbr3_start_loss_round(c);
	}
	c->bbr->is_loss_in_round = 1;
	c->bbr->lost_ranges_in_round += starts_range;
}

/*
 * Measures how much more data one bunch of ACKs brings than the bandwidth explains (§5.5.9 UpdateACKAggregation). The
 * window needs that much room, or the flow would run dry between two bunches.
 */
static __noinline void bbr3_update_ack_aggregation(struct bbr3_conn *c)
{
	u64 now_us = c->ack->now_us, filter_len = c->p->startup_extra_acked_filter_len, extra;
	u64 interval_us = sat_sub(now_us, c->bbr->extra_acked_interval_start);
	u64 expected_delivered = bw_data(c->bbr->bw, interval_us);

	if (c->bbr->extra_acked_delivered <= expected_delivered) {
		c->bbr->extra_acked_delivered = 0;
		c->bbr->extra_acked_interval_start = now_us;
		expected_delivered = 0;
	}
	c->bbr->extra_acked_delivered = sat_add(c->bbr->extra_acked_delivered, c->ack->newly_acked);
	extra = u64_min(sat_sub(c->bbr->extra_acked_delivered, expected_delivered), c->out->cwnd);
	if (c->bbr->full_bw_reached)
		filter_len = c->p->extra_acked_filter_len;
	winmax_running_max(&c->bbr->extra_acked_filter, sat_sub(filter_len, 1), c->bbr->round_count, extra);
	c->bbr->extra_acked = winmax_get(&c->bbr->extra_acked_filter);
}

/*
 * Tracks the RTT without a queue in two filters (§5.3.4.3 UpdateMinRTT). The short one says when ProbeRTT is due, the
 * long one is the model's.
 */
static __noinline void bbr3_update_min_rtt(struct bbr3_conn *c)
{
	u64 now_us = c->ack->now_us, rtt_us = c->ack->rs_rtt_us;
	u64 due_us = sat_add(c->bbr->probe_rtt_min_stamp, c->p->probe_rtt_interval_us);
	u64 is_expired = now_us > sat_add(c->bbr->min_rtt_stamp, c->p->min_rtt_filter_len_us);
	u64 has_sample;

	c->bbr->probe_rtt_expired = now_us > due_us;
	if (rtt_us < NO_RTT && (rtt_us < c->bbr->probe_rtt_min_delay_us || c->bbr->probe_rtt_expired)) {
		c->bbr->probe_rtt_min_delay_us = rtt_us;
		c->bbr->probe_rtt_min_stamp = now_us;
	}
	/* Without any sample there is nothing to put in the place of the expired minimum. */
	has_sample = c->bbr->probe_rtt_min_delay_us < NO_RTT;
	if (has_sample && (c->bbr->probe_rtt_min_delay_us < c->bbr->min_rtt_us || is_expired)) {
		c->bbr->min_rtt_us = c->bbr->probe_rtt_min_delay_us;
		c->bbr->min_rtt_stamp = c->bbr->probe_rtt_min_stamp;
	}
}

/*
 * Whether more than 2 % of what was in flight is lost, which is more than random loss and less than an overflowing
 * buffer loses (§5.5.10.2, the loss half of IsInflightTooHigh). Where tx_in_flight is unknown (0) the answer is no.
 * Without selective ACKs losses cannot be counted, so any loss is too much.
 *
 * Losses are whole units, so more than 2 % is the same as more than 2 % rounded down.
 */
static __noinline u64 bbr3_is_loss_too_high(const struct bbr3_conn *c, u64 lost, u64 tx_in_flight)
{
	u64 above;

	if (!tx_in_flight || !lost)
		return 0;
	above = sat_sub(lost, bbr3_permille(tx_in_flight, c->p->loss_thresh_permille));
	return bbr3_is_loss_ours(c, above, tx_in_flight) || !c->ack->has_selective_acks;
}

/*
 * Whether this ACK's own sample lost too much or was marked too much (§5.5.10.2 IsInflightTooHigh). Marks that are
 * not answered as marks count as losses.
 */
static __noinline u64 bbr3_is_inflight_too_high(const struct bbr3_conn *c)
{
	const struct ack *ack = c->ack;
	u64 ce = ack->rs_delivered_ce;

	if (bbr3_is_ecn_eligible(c))
		return bbr3_is_loss_too_high(c, ack->rs_lost, ack->rs_tx_in_flight) ||
		       (ce && ack->rs_delivered && ce > gain_apply(ack->rs_delivered, c->p->ecn_thresh));
	return bbr3_is_loss_too_high(c, sat_add(ack->rs_lost, ce), ack->rs_tx_in_flight);
}

/*
 * The volume in flight at which losses crossed the threshold (§5.5.10.2 InflightAtLoss). The lost packet may be a
 * burst of many segments, and the bound belongs where loss became too much, not where the burst ended.
 */
static __always_inline u64 bbr3_inflight_at_loss(const struct bbr3_conn *c)
{
	u64 size = c->ack->newly_lost, thresh = u64_min(c->p->loss_thresh_permille, 999);
	u64 inflight_prev = sat_sub(c->ack->rs_tx_in_flight, size);
	u64 lost_prev = sat_sub(c->ack->rs_lost, size);
	u64 spare = sat_sub(sat_mul(inflight_prev, thresh), sat_mul(lost_prev, 1000));

	return sat_add(inflight_prev, u64_min(spare / (1000 - thresh), size));
}

/*
 * The volume that the flow wants in flight: the BDP, or less where congestion has cut the window (§5.3.3.8
 * TargetInflight).
 */
static __always_inline u64 bbr3_target_inflight(const struct bbr3_conn *c)
{
	return u64_min(bbr3_bdp_multiple(c, c->bbr->bw, GAIN_UNIT), c->out->cwnd);
}

/* The same in segments and at least 1, which is how Reno would count it. */
static __always_inline u64 bbr3_target_segments(const struct bbr3_conn *c)
{
	return u64_max(bbr3_target_inflight(c) / bbr3_segments(c, 1), 1);
}

#endif
