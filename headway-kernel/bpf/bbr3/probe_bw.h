/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * ProbeBW (§5.3.3): the cycle in which a flow spends its life, the long-term bound, and lost packets (§5.5.10.2).
 * Part of bbr3.h; twin: headway-cc/src/cc/bbr3/probe_bw.rs, which has the reasons.
 */
#ifndef HEADWAY_BBR3_PROBE_BW_H
#define HEADWAY_BBR3_PROBE_BW_H

/*
 * Draws the time until the next probe (§5.3.3.8 PickProbeWait). Flows that share a bottleneck must not probe
 * together, or each would take the other's queue for its own.
 */
static __always_inline void bbr3_pick_probe_wait(struct bbr3_conn *c)
{
	u64 rand = (u32)c->ack->rand;

	c->bbr->rounds_since_probe_up = mul_shift(rand & 0xffff, bbr3_rand_rounds(c), 16);
	c->bbr->bw_probe_wait_us =
		sat_add(c->p->bw_probe_wait_us, mul_shift(rand, c->p->bw_probe_wait_rand_us, 32));
}

/*
 * Begins DOWN, which sends slower than the estimate after a probe or after Drain until the queue is gone and headroom
 * is left; the wait for the next probe begins (§5.3.3.9 StartProbeBW_DOWN).
 */
static __noinline void bbr3_start_probe_bw_down(struct bbr3_conn *c)
{
	bbr3_reset_congestion_signals(c);
	c->bbr->probe_up_acked_per_inc = BBR3_INFINITY;
	bbr3_pick_probe_wait(c);
	c->bbr->cycle_stamp = c->ack->now_us;
	c->bbr->ack_phase = BBR3_ACKS_PROBE_STOPPING;
	bbr3_start_round(c);
	bbr3_set_state(c, BBR3_PROBE_BW_DOWN);
}

/*
 * Begins CRUISE, which sends at the estimate and so neither makes a queue nor drains one (§5.3.3.9
 * StartProbeBW_CRUISE).
 */
static __always_inline void bbr3_start_probe_bw_cruise(struct bbr3_conn *c)
{
	bbr3_set_state(c, BBR3_PROBE_BW_CRUISE);
	bbr3_note_cruise(c);
}

/*
 * Begins REFILL, which fills the pipe for one round at the estimate and without short-term bounds, so that losses in
 * the probe that follows show that too much is in flight, and nothing older (§5.3.3.9 StartProbeBW_REFILL).
 */
static __noinline void bbr3_start_probe_bw_refill(struct bbr3_conn *c)
{
	bbr3_reset_short_term_model(c);
	c->bbr->bw_probe_up_rounds = 0;
	c->bbr->bw_probe_up_acked = 0;
	c->bbr->prev_probe_precautionary = 0;
	c->bbr->ack_phase = BBR3_ACKS_REFILLING;
	bbr3_start_round(c);
	bbr3_set_state(c, BBR3_PROBE_BW_REFILL);
}

/* Doubles, once a round, how fast the long-term bound grows (§5.3.3.9 RaiseInflightLongtermSlope). */
static __always_inline void bbr3_raise_inflight_longterm_slope(struct bbr3_conn *c)
{
	u64 per_inc = c->out->cwnd >> (c->bbr->bw_probe_up_rounds & 63);

	c->bbr->bw_probe_up_rounds = u64_min(c->bbr->bw_probe_up_rounds + 1, c->p->bw_probe_up_rounds_max);
	c->bbr->probe_up_acked_per_inc = u64_max(per_inc, bbr3_segments(c, 1));
}

/*
 * Begins UP, which sends a quarter faster than the estimate to see whether more arrives (§5.3.3.9 StartProbeBW_UP).
 */
static __always_inline void bbr3_start_probe_bw_up(struct bbr3_conn *c)
{
	c->bbr->ack_phase = BBR3_ACKS_PROBE_STARTING;
	bbr3_start_round(c);
	bbr3_reset_full_bw(c);
	c->bbr->full_bw = c->delivery_rate;
	bbr3_set_state(c, BBR3_PROBE_BW_UP);
	bbr3_start_ladder(c);
	bbr3_raise_inflight_longterm_slope(c);
}

/*
 * Whether a Reno flow with this window would have met loss by now (§5.3.3.8 IsRenoCoexistenceProbeTime). That takes
 * it about as many rounds as it has segments, and probing no more often than that leaves Reno its share.
 */
static __always_inline u64 bbr3_is_reno_coexistence_probe_time(const struct bbr3_conn *c)
{
	return c->bbr->rounds_since_probe_up >= u64_min(bbr3_target_segments(c), bbr3_max_rounds(c));
}

/*
 * Starts the next probe when the wait is over, in time or in rounds, and says whether it did (§5.3.3.8
 * IsTimeToProbeBW).
 */
static __noinline u64 bbr3_is_time_to_probe_bw(struct bbr3_conn *c)
{
	u64 has_elapsed = c->ack->now_us > sat_add(c->bbr->cycle_stamp, c->bbr->bw_probe_wait_us);

	if (!has_elapsed && !bbr3_is_reno_coexistence_probe_time(c))
		return 0;
	bbr3_start_probe_bw_refill(c);
	return 1;
}

/*
 * Whether DOWN has done its work: inflight leaves headroom below the long-term bound, and fits into the path without
 * a queue (§5.3.3.9 IsTimeToCruise).
 */
static __always_inline u64 bbr3_is_time_to_cruise(const struct bbr3_conn *c)
{
	return c->ack->inflight <= bbr3_inflight_with_headroom(c) &&
	       c->ack->inflight <= bbr3_inflight(c, c->bbr->max_bw, GAIN_UNIT);
}

/*
 * Whether the long-term bound is what limits the flow: the window is all used, and no smaller than the bound. Only
 * then does raising the bound have an effect.
 */
static __always_inline u64 bbr3_is_limited_by_inflight_longterm(const struct bbr3_conn *c)
{
	return c->ack->is_cwnd_limited && c->out->cwnd >= c->bbr->inflight_longterm;
}

/*
 * Whether inflight has come up to the long-term bound, so that not one segment more was allowed when this ACK came.
 * After the ACK there is room again, so what was in flight before it counts too.
 */
static __always_inline u64 bbr3_has_reached_inflight_longterm(const struct bbr3_conn *c)
{
	u64 inflight = u64_max(c->ack->prior_inflight, c->ack->inflight);

	return sat_add(inflight, bbr3_segments(c, 1)) > c->bbr->inflight_longterm;
}

/*
 * Whether the probe is over (§5.3.3.9 IsTimeToGoDown). After a probe that lost too much, the next one stops out of
 * caution at the bound that it left. While the bound holds the flow back, a rate that does not grow proves nothing.
 */
static __always_inline u64 bbr3_is_time_to_go_down(struct bbr3_conn *c)
{
	u64 is_limited;

	if (c->bbr->prev_probe_too_high && bbr3_has_reached_inflight_longterm(c)) {
		c->bbr->prev_probe_precautionary = 1;
		return 1;
	}
	is_limited = bbr3_is_limited_by_inflight_longterm(c);
	if (c->bbr->ladder.is_climbing)
		return bbr3_is_ladder_over(c, is_limited);
	if (is_limited) {
		bbr3_reset_full_bw(c);
		c->bbr->full_bw = c->delivery_rate;
		return 0;
	}
	return c->bbr->full_bw_now;
}

/*
 * Raises the long-term bound by a segment for every probe_up_acked_per_inc of ACKed data, as long as the bound is
 * what limits the flow (§5.3.3.9 ProbeInflightLongtermUpward). The remainder is kept for the next segment.
 */
static __noinline void bbr3_probe_inflight_longterm_upward(struct bbr3_conn *c)
{
	u64 per_inc = u64_max(c->bbr->probe_up_acked_per_inc, 1), delta;

	if (!bbr3_is_limited_by_inflight_longterm(c))
		return;
	c->bbr->bw_probe_up_acked = sat_add(c->bbr->bw_probe_up_acked, c->ack->newly_acked);
	if (c->bbr->bw_probe_up_acked >= per_inc) {
		delta = c->bbr->bw_probe_up_acked / per_inc;
		c->bbr->bw_probe_up_acked -= delta * per_inc;
		c->bbr->inflight_longterm = sat_add(c->bbr->inflight_longterm, bbr3_segments(c, delta));
	}
	if (c->bbr->round_start)
		bbr3_raise_inflight_longterm_slope(c);
}

/*
 * Handles a probe that lost too much: the volume in flight becomes the long-term bound, and the probe is over
 * (§5.5.10.2 HandleInflightTooHigh). This happens once per probe, because the losses that follow come from the same
 * flight.
 */
static __noinline void bbr3_handle_inflight_too_high(struct bbr3_conn *c, u64 tx_in_flight)
{
	c->bbr->prev_probe_too_high = 1;
	c->bbr->is_bw_probe_sample = 0;
	if (!c->ack->rs_is_app_limited)
		c->bbr->inflight_longterm =
			u64_max(tx_in_flight, bbr3_permille(bbr3_target_inflight(c), c->p->beta_permille));
	if (c->bbr->state == BBR3_PROBE_BW_UP) {
		c->bbr->undo_state = BBR3_PROBE_BW_UP;
		bbr3_start_probe_bw_down(c);
	}
}

/*
 * Handles a packet that was marked lost (§5.5.10.2 HandleLostPacket). If it may have been sent in a probe, and too
 * much of its flight is lost, the probe was too high.
 */
static __noinline void bbr3_handle_lost_packet(struct bbr3_conn *c)
{
	bbr3_note_loss(c, c->ack->rs_starts_lost_range);
	if (c->bbr->is_bw_probe_sample && bbr3_is_loss_too_high(c, c->ack->rs_lost, c->ack->rs_tx_in_flight))
		bbr3_handle_inflight_too_high(c, bbr3_inflight_at_loss(c));
}

/*
 * Takes the CE marks that this ACK reports. Where they do not count as marks, they count as one range of losses per
 * ACK (§3.7).
 */
static __always_inline void bbr3_note_ce(struct bbr3_conn *c)
{
	if (c->ack->delivered_ce <= c->bbr->delivered_ce)
		return;
	c->bbr->delivered_ce = c->ack->delivered_ce;
	bbr3_end_tolerance(c);
	if (bbr3_is_ecn_eligible(c))
		c->bbr->is_ce_in_round = 1;
	else
		bbr3_note_loss(c, 1);
}

/*
 * Tracks which part of a probe the present ACKs answer, because they lag behind sending by a round (§5.3.3.9
 * AdaptLongTermModel, the first half). True when it has started a refill.
 */
static __always_inline u64 bbr3_advance_ack_phase(struct bbr3_conn *c)
{
	if (!c->bbr->round_start)
		return 0;
	if (c->bbr->ack_phase == BBR3_ACKS_PROBE_STARTING)
		c->bbr->ack_phase = BBR3_ACKS_PROBE_FEEDBACK;
	if (c->bbr->ack_phase != BBR3_ACKS_PROBE_STOPPING)
		return 0;
	c->bbr->is_bw_probe_sample = 0;
	c->bbr->ack_phase = BBR3_ACKS_INIT;
	if (!bbr3_is_in_a_probe_bw_state(c))
		return 0;
	if (!c->ack->rs_is_app_limited)
		bbr3_advance_max_bw_filter(c);
	/* The probe stopped early and met no loss, so the next may go on where it stopped (§5.3.3.6). */
	if (!c->bbr->prev_probe_precautionary || c->bbr->prev_probe_too_high)
		return 0;
	bbr3_start_probe_bw_refill(c);
	return 1;
}

/*
 * Raises the long-term bound to a volume that proved safe, and lowers it to one that proved too much (§5.3.3.9
 * AdaptLongTermModel, the second half).
 */
static __always_inline void bbr3_adapt_inflight_longterm(struct bbr3_conn *c)
{
	if (bbr3_is_inflight_too_high(c)) {
		if (c->bbr->is_bw_probe_sample && c->p->is_ack_judged)
			bbr3_handle_inflight_too_high(c, c->ack->rs_tx_in_flight);
		return;
	}
	if (c->bbr->inflight_longterm == BBR3_INFINITY)
		return;
	c->bbr->inflight_longterm = u64_max(c->bbr->inflight_longterm, c->ack->rs_tx_in_flight);
	if (c->bbr->state == BBR3_PROBE_BW_UP)
		bbr3_probe_inflight_longterm_upward(c);
}

/* Moves to the next phase of the cycle once the present one is over (§5.3.3.9 UpdateProbeBWCyclePhase). */
static __noinline void bbr3_update_probe_bw_cycle_phase(struct bbr3_conn *c)
{
	if (!c->bbr->full_bw_reached || bbr3_advance_ack_phase(c))
		return;
	bbr3_adapt_inflight_longterm(c);
	bbr3_make_room(c);
	bbr3_update_ladder(c);
	if (c->bbr->state == BBR3_PROBE_BW_DOWN) {
		if (!bbr3_is_time_to_probe_bw(c) && bbr3_is_time_to_cruise(c))
			bbr3_start_probe_bw_cruise(c);
	} else if (c->bbr->state == BBR3_PROBE_BW_CRUISE) {
		bbr3_is_time_to_probe_bw(c);
	} else if (c->bbr->state == BBR3_PROBE_BW_REFILL && c->bbr->round_start) {
		c->bbr->is_bw_probe_sample = 1;
		bbr3_start_probe_bw_up(c);
	} else if (c->bbr->state == BBR3_PROBE_BW_UP && bbr3_is_time_to_go_down(c)) {
		c->bbr->prev_probe_too_high = 0;
		bbr3_start_probe_bw_down(c);
	}
}

#endif
