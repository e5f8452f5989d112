/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Links whose rate moves all the time: while it does, the window follows what arrives; none of it is in the draft. Part
 * of bbr3.h; twin: headway-cc/src/cc/bbr3/varying.rs, which has the reasons.
 */
#ifndef HEADWAY_BBR3_VARYING_H
#define HEADWAY_BBR3_VARYING_H

/* The part of the minimum RTT by which the queue of a round may be longer than what is allowed, by chance. */
#define VARYING_SLACK (GAIN_UNIT / 4)

/* Begins a slot with this ACK. */
static __always_inline void varying_start_slot(struct bbr3_conn *c)
{
	struct varying *v = &c->bbr->varying;

	v->slot_us = c->ack->now_us;
	v->slot_delivered = c->ack->delivered;
	v->is_app_limited = 0;
	v->gap_us = 0;
	v->last_us = c->ack->now_us;
}

/* Begins an interval with this ACK. */
static __always_inline void varying_start_interval(struct bbr3_conn *c)
{
	struct varying *v = &c->bbr->varying;

	v->interval_us = c->ack->now_us;
	v->interval_delivered = c->ack->delivered;
	v->interval_rtt_us = NO_RTT;
}

/* The largest rate of the last three slots. */
static __always_inline u64 varying_bw(const struct bbr3_conn *c)
{
	const struct varying *v = &c->bbr->varying;

	return u64_max(u64_max(v->bw_0, v->bw_1), v->bw_2);
}

/*
 * The minimum RTT, this part of it, and the time for which an ACK may wait for others. One long time without an ACK is a
 * link that stalled, so that it is the shortest of the last three slots'.
 */
static __always_inline u64 varying_rtt_and(const struct bbr3_conn *c, u64 part)
{
	const struct varying *v = &c->bbr->varying;
	u64 gap_us = u64_min(u64_min(v->gap_0_us, v->gap_1_us), v->gap_2_us);

	return sat_add(bbr3_min_rtt_and(c, part), gap_us);
}

/* Whether the rate differs from the one at the last move by the factor of a move. */
static __always_inline u64 varying_has_moved(const struct bbr3_conn *c, u64 bw)
{
	u64 before = c->bbr->varying.move_bw, step = c->p->varying.step;

	return before && (bw > gain_apply(before, step) || before > gain_apply(bw, step));
}

/* Notes that the link varies from now on, unless the last queue was another's. */
static __always_inline void varying_enter(struct bbr3_conn *c)
{
	struct varying *v = &c->bbr->varying;

	v->until_us = sat_add(c->ack->now_us, c->p->varying.memory_us);
	if (!v->is_on && c->ack->now_us >= v->hold_us) {
		v->is_on = 1;
		v->queue_rounds = 0;
		bbr3_release_brake(c);
	}
}

/* Judges the interval that is over: whether the link was busy, and its rate has moved. */
static __noinline void varying_end_interval(struct bbr3_conn *c)
{
	struct varying *v = &c->bbr->varying;
	u64 data = sat_sub(c->ack->delivered, v->interval_delivered);
	u64 bw = bw_from(data, sat_sub(c->ack->now_us, v->interval_us));
	u64 busy_rtt_us = bbr3_min_rtt_and(c, c->p->varying.busy);

	if (v->interval_rtt_us > busy_rtt_us) {
		if (varying_has_moved(c, bw)) {
			v->move_bw = bw;
			varying_enter(c);
		}
		if (!v->move_bw)
			v->move_bw = bw;
	}
	varying_start_interval(c);
}

/*
 * Takes the rate of the slot that is over. What the application limited shows a rate only if that is larger than those
 * known. An interval without an RTT goes on.
 */
static __noinline void varying_end_slot(struct bbr3_conn *c, u64 bw)
{
	struct varying *v = &c->bbr->varying;

	if (v->is_app_limited && bw <= varying_bw(c)) {
		varying_start_interval(c);
		return;
	}
	v->bw_2 = v->bw_1;
	v->bw_1 = v->bw_0;
	v->bw_0 = bw;
	v->gap_2_us = v->gap_1_us;
	v->gap_1_us = v->gap_0_us;
	v->gap_0_us = v->gap_us;
	if (sat_sub(c->ack->now_us, v->interval_us) >= u64_max(c->p->varying.interval_us, v->interval_rtt_us))
		varying_end_interval(c);
}

/* Judges whose the queue of the round is that is over. */
static __always_inline void varying_judge_round(struct bbr3_conn *c)
{
	struct varying *v = &c->bbr->varying;
	u64 part = sat_add(c->p->varying.queue, VARYING_SLACK);
	u64 rtt_us = c->bbr->last_round_rtt_us, limit_us = varying_rtt_and(c, part);
	u64 is_long = rtt_us != NO_RTT && rtt_us > limit_us;

	v->queue_rounds = is_long ? v->queue_rounds + 1 : 0;
	if (v->queue_rounds >= c->p->varying.rounds) {
		v->is_on = 0;
		v->hold_us = sat_add(c->ack->now_us, c->p->varying.hold_us);
	}
}

/*
 * Takes this ACK. Only ACKs of the cycle of probes show the link's rate: the other states send less, or more, on purpose.
 */
static __noinline void bbr3_run_varying(struct bbr3_conn *c)
{
	struct varying *v = &c->bbr->varying;
	u64 span_us = sat_sub(c->ack->now_us, v->slot_us);
	u64 data = sat_sub(c->ack->delivered, v->slot_delivered);

	v->is_on &= c->ack->now_us < v->until_us;
	if (!bbr3_is_in_a_probe_bw_state(c)) {
		varying_start_slot(c);
		varying_start_interval(c);
		return;
	}
	if (c->bbr->round_start && v->is_on)
		varying_judge_round(c);
	v->interval_rtt_us = u64_min(v->interval_rtt_us, c->ack->rs_rtt_us);
	v->is_app_limited |= c->ack->rs_is_app_limited;
	v->gap_us = u64_max(v->gap_us, sat_sub(c->ack->now_us, v->last_us));
	v->last_us = c->ack->now_us;
	if (span_us >= c->bbr->min_rtt_us && data >= bbr3_segments(c, c->p->varying.slot_min_segments)) {
		varying_end_slot(c, bw_from(data, span_us));
		varying_start_slot(c);
	}
}

/* Looks for a link that varies if that is switched on. */
static __always_inline void bbr3_update_varying(struct bbr3_conn *c)
{
	if (c->p->varying.is_on)
		bbr3_run_varying(c);
}

/* Keeps the window within what arrives in a minimum RTT and the queue that is allowed. */
static __always_inline void bbr3_bound_cwnd_for_varying(struct bbr3_conn *c)
{
	u64 window;

	if (!c->bbr->varying.is_on)
		return;
	window = bw_data(varying_bw(c), varying_rtt_and(c, c->p->varying.queue));
	c->out->cwnd = u64_min(c->out->cwnd, u64_max(window, bbr3_min_pipe_cwnd(c)));
}

#endif
