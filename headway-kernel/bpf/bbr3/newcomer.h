/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Room for a newcomer: a flow that had the path to itself gives half of it to one that comes later; none of it is in the
 * draft. Part of bbr3.h; twin: headway-cc/src/cc/bbr3/newcomer.rs, which has the reasons.
 */
#ifndef HEADWAY_BBR3_NEWCOMER_H
#define HEADWAY_BBR3_NEWCOMER_H

/* Begins a round with this ACK. */
static __always_inline void newcomer_start_round(struct bbr3_conn *c)
{
	struct newcomer *n = &c->bbr->newcomer;

	n->rounds++;
	n->round_us = c->ack->now_us;
	n->round_delivered = c->ack->delivered;
	n->is_app_limited = 0;
	n->had_queue = 0;
}

/* Whether this RTT shows that a queue stands. */
static __always_inline u64 newcomer_is_queue(const struct bbr3_conn *c, u64 rtt_us)
{
	return rtt_us != NO_RTT && rtt_us > bbr3_min_rtt_and(c, c->p->newcomer.queue);
}

/* Whether this RTT is that of an empty path. */
static __always_inline u64 newcomer_is_empty(const struct bbr3_conn *c, u64 rtt_us)
{
	return rtt_us <= sat_add(bbr3_min_rtt_and(c, c->p->newcomer.empty), bbr3_segment_us(c));
}

/*
 * Whether the round that is over had a queue. One of the ladder's slots is enough to show it. But where losses are tolerated
 * the flow makes small queues itself, since it sends on top what the path loses, so that the path must not have been empty at
 * any time.
 */
static __always_inline u64 newcomer_had_queue(const struct bbr3_conn *c)
{
	return c->bbr->newcomer.had_queue &&
	       (!c->bbr->loss.share || !newcomer_is_empty(c, c->bbr->last_round_rtt_us));
}

/*
 * After a round with a queue throughout: comes down to its part of the bandwidth alone if somebody else has come, and to what
 * arrives if a bit less does. One round of few arrivals may be that in which the path became longer, so it takes two. If the
 * path has shown more than the bandwidth alone since, the path has more, and the part is one of that.
 */
static __always_inline void newcomer_yield(struct bbr3_conn *c, u64 span_us)
{
	struct newcomer *n = &c->bbr->newcomer;
	u64 arrived = bw_from(sat_sub(c->ack->delivered, n->round_delivered), span_us);
	u64 is_taken;

	n->alone_bw = u64_max(n->alone_bw, c->bbr->max_bw);
	is_taken = arrived < gain_apply(n->alone_bw, sat_sub(GAIN_UNIT, c->p->newcomer.taken));
	if (!is_taken)
		n->limit = arrived;
	else if (n->was_taken)
		n->limit = gain_apply(n->alone_bw, c->p->newcomer.keep);
	n->was_taken = is_taken;
}

/* Keeps the bandwidth within the limit. What is in flight when the limit is set still arrives faster, and would raise it again. */
static __always_inline void newcomer_bound(struct bbr3_conn *c)
{
	u64 limit = c->bbr->newcomer.limit;

	if (limit) {
		c->bbr->max_bw_0 = u64_min(c->bbr->max_bw_0, limit);
		c->bbr->max_bw_1 = u64_min(c->bbr->max_bw_1, limit);
		c->bbr->max_bw = u64_min(c->bbr->max_bw, limit);
	}
}

/* Judges a round that is over: it was quiet, or a queue stood in it. */
static __noinline void newcomer_judge_round(struct bbr3_conn *c)
{
	struct newcomer *n = &c->bbr->newcomer;
	u64 span_us = sat_sub(c->ack->now_us, n->round_us);
	u64 is_steady = c->bbr->brake.mode == BRAKE_WATCH && !n->is_app_limited;

	if (n->rounds < 2)
		return;
	if (newcomer_had_queue(c))
		n->quiet_us = 0;
	else if (!n->is_app_limited)
		n->quiet_us = sat_add(n->quiet_us, span_us);
	if (n->alone_bw && is_steady && newcomer_is_queue(c, c->bbr->last_round_rtt_us))
		newcomer_yield(c, span_us);
}

/* Gathers this ACK. It is called once an ACK while the flow is in the cycle of probes. */
static __always_inline void bbr3_make_room(struct bbr3_conn *c)
{
	struct newcomer *n = &c->bbr->newcomer;

	if (!c->p->newcomer.is_on)
		return;
	if (c->bbr->state != BBR3_PROBE_BW_CRUISE) {
		n->rounds = 0;
		n->was_taken = 0;
		n->limit = 0;
		return;
	}
	if (c->bbr->round_start) {
		newcomer_judge_round(c);
		newcomer_start_round(c);
	}
	n->is_app_limited |= c->ack->rs_is_app_limited;
	newcomer_bound(c);
}

/* Notes that the flow begins again after a pause: time in which nothing was sent is no time without a queue, and no round. */
static __always_inline void bbr3_note_restart(struct bbr3_conn *c)
{
	c->bbr->newcomer.rounds = 0;
	c->bbr->newcomer.was_taken = 0;
}

/* Notes that one of the ladder's slots in ProbeBW_CRUISE showed a queue. */
static __always_inline void bbr3_note_cruise_queue(struct bbr3_conn *c)
{
	c->bbr->newcomer.had_queue = c->p->newcomer.is_on;
}

/*
 * Notes that a probe has ended at its own queue. If there is no other and there has been none, and the first gain of the
 * ladder was enough to make it, the flow is alone, its bandwidth is the path's, and its usual RTT is that of the empty
 * path.
 */
static __always_inline void bbr3_note_own_queue(struct bbr3_conn *c, u64 usual_rtt_us)
{
	u64 is_empty = newcomer_is_empty(c, usual_rtt_us);
	u64 is_first_gain = c->bbr->pacing_gain < c->p->up_pacing_gain;
	u64 is_quiet = c->bbr->newcomer.quiet_us >= c->p->newcomer.alone_us;

	if (c->p->newcomer.is_on && is_first_gain && is_empty && is_quiet) {
		c->bbr->newcomer.alone_bw = c->bbr->max_bw;
		if (c->p->newcomer.spares_probe_rtt)
			c->bbr->probe_rtt_min_stamp = c->ack->now_us;
	}
}

#endif
