/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* ProbeBW (§5.3.3): the cycle of probes, the long-term bound, lost packets (§5.5.10.2). Part of bbr3.h. */
#ifndef HEADWAY_BBR3_PROBE_BW_H
#define HEADWAY_BBR3_PROBE_BW_H

/* §5.3.3.8 PickProbeWait: the time from all random bits, the rounds from the lower half. */
static __always_inline void bbr3_pick_probe_wait(struct bbr3_conn *c)
{
	u64 rand = (u32)c->ack->rand;

	c->bbr->rounds_since_probe_up = mul_shift(rand & 0xffff, c->p->bw_probe_rand_rounds, 16);
	c->bbr->bw_probe_wait_us =
		sat_add(c->p->bw_probe_wait_us, mul_shift(rand, c->p->bw_probe_wait_rand_us, 32));
}

/* §5.3.3.9 StartProbeBW_DOWN. */
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

/* §5.3.3.9 StartProbeBW_CRUISE. */
static __always_inline void bbr3_start_probe_bw_cruise(struct bbr3_conn *c)
{
	bbr3_set_state(c, BBR3_PROBE_BW_CRUISE);
}

/* §5.3.3.9 StartProbeBW_REFILL. */
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

/* §5.3.3.9 RaiseInflightLongtermSlope. The exponent stays below the width of the shift. */
static __always_inline void bbr3_raise_inflight_longterm_slope(struct bbr3_conn *c)
{
	u64 per_inc = c->out->cwnd >> (c->bbr->bw_probe_up_rounds & 63);

	c->bbr->bw_probe_up_rounds = u64_min(c->bbr->bw_probe_up_rounds + 1, c->p->bw_probe_up_rounds_max);
	c->bbr->probe_up_acked_per_inc = u64_max(per_inc, bbr3_segments(c, 1));
}

/* §5.3.3.9 StartProbeBW_UP. */
static __always_inline void bbr3_start_probe_bw_up(struct bbr3_conn *c)
{
	c->bbr->ack_phase = BBR3_ACKS_PROBE_STARTING;
	bbr3_start_round(c);
	bbr3_reset_full_bw(c);
	c->bbr->full_bw = c->delivery_rate;
	bbr3_set_state(c, BBR3_PROBE_BW_UP);
	bbr3_raise_inflight_longterm_slope(c);
}

/* §5.3.3.8 IsRenoCoexistenceProbeTime. */
static __always_inline u64 bbr3_is_reno_coexistence_probe_time(const struct bbr3_conn *c)
{
	return c->bbr->rounds_since_probe_up >= u64_min(bbr3_target_segments(c), c->p->bw_probe_max_rounds);
}

/* §5.3.3.8 IsTimeToProbeBW: true when it has started the refill. */
static __noinline u64 bbr3_is_time_to_probe_bw(struct bbr3_conn *c)
{
	u64 has_elapsed = c->ack->now_us > sat_add(c->bbr->cycle_stamp, c->bbr->bw_probe_wait_us);

	if (!has_elapsed && !bbr3_is_reno_coexistence_probe_time(c))
		return 0;
	bbr3_start_probe_bw_refill(c);
	return 1;
}

/* §5.3.3.9 IsTimeToCruise. */
static __always_inline u64 bbr3_is_time_to_cruise(const struct bbr3_conn *c)
{
	return c->ack->inflight <= bbr3_inflight_with_headroom(c) &&
	       c->ack->inflight <= bbr3_inflight(c, c->bbr->max_bw, GAIN_UNIT);
}

/* The window, and it is all used, is no smaller than the long-term bound. */
static __always_inline u64 bbr3_is_limited_by_inflight_longterm(const struct bbr3_conn *c)
{
	return c->ack->is_cwnd_limited && c->out->cwnd >= c->bbr->inflight_longterm;
}

/* When this ACK came, not one segment more was allowed below the long-term bound. */
static __always_inline u64 bbr3_has_reached_inflight_longterm(const struct bbr3_conn *c)
{
	u64 inflight = u64_max(c->ack->prior_inflight, c->ack->inflight);

	return sat_add(inflight, bbr3_segments(c, 1)) > c->bbr->inflight_longterm;
}

/* §5.3.3.9 IsTimeToGoDown. */
static __always_inline u64 bbr3_is_time_to_go_down(struct bbr3_conn *c)
{
	if (c->bbr->prev_probe_too_high && bbr3_has_reached_inflight_longterm(c)) {
		c->bbr->prev_probe_precautionary = 1;
		return 1;
	}
	if (bbr3_is_limited_by_inflight_longterm(c)) {
		bbr3_reset_full_bw(c);
		c->bbr->full_bw = c->delivery_rate;
		return 0;
	}
	return c->bbr->full_bw_now;
}

/* §5.3.3.9 ProbeInflightLongtermUpward. The bound grows by whole segments; what was ACKed beyond is kept. */
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

/* §5.5.10.2 HandleInflightTooHigh: with this volume in flight the path lost too much. Once a probe. */
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

/* §5.5.10.2 HandleLostPacket. */
static __noinline void bbr3_handle_lost_packet(struct bbr3_conn *c)
{
	bbr3_note_loss(c, c->ack->rs_starts_lost_range);
	if (c->bbr->is_bw_probe_sample && bbr3_is_loss_too_high(c, c->ack->rs_lost, c->ack->rs_tx_in_flight))
		bbr3_handle_inflight_too_high(c, bbr3_inflight_at_loss(c));
}

/* §3.7 CE marks that this ACK reports. Without an answer of their own they are losses, a range an ACK. */
static __always_inline void bbr3_note_ce(struct bbr3_conn *c)
{
	if (c->ack->delivered_ce <= c->bbr->delivered_ce)
		return;
	c->bbr->delivered_ce = c->ack->delivered_ce;
	if (bbr3_is_ecn_eligible(c))
		c->bbr->is_ce_in_round = 1;
	else
		bbr3_note_loss(c, 1);
}

/* §5.3.3.9 AdaptLongTermModel, the first half: the phase of the probe's ACKs. True when it has started a refill. */
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
	/* §5.3.3.6: the cautious probe met no loss, so the next may go on where it stopped. */
	if (!c->bbr->prev_probe_precautionary || c->bbr->prev_probe_too_high)
		return 0;
	bbr3_start_probe_bw_refill(c);
	return 1;
}

/* §5.3.3.9 AdaptLongTermModel, the second half: the bound rises with what proved safe, and falls with what did not. */
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

/* §5.3.3.9 UpdateProbeBWCyclePhase. */
static __noinline void bbr3_update_probe_bw_cycle_phase(struct bbr3_conn *c)
{
	if (!c->bbr->full_bw_reached || bbr3_advance_ack_phase(c))
		return;
	bbr3_adapt_inflight_longterm(c);
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
