/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The ladder: a probe that climbs while the rate follows, and ends when its own queue shows; none of it is in the draft.
 * Part of bbr3.h; twin: headway-cc/src/cc/bbr3/ladder.rs, which has the reasons.
 */
#ifndef HEADWAY_BBR3_LADDER_H
#define HEADWAY_BBR3_LADDER_H

/* Parts of a microsecond in which the averages are kept, or small steps would be lost. */
#define LADDER_PARTS 1024

/* Begins a slot with this ACK. */
static __always_inline void ladder_start_slot(struct bbr3_conn *c)
{
	struct ladder *l = &c->bbr->ladder;

	l->slot_us = c->ack->now_us;
	l->slot_delivered = c->ack->delivered;
	l->slot_acks = 0;
	l->slot_prior = U64_MAX;
	l->slot_rtt_us = NO_RTT;
}

/* Whether the slot is long enough for its smallest RTT to be none of chance. */
static __always_inline u64 ladder_is_slot_over(const struct bbr3_conn *c)
{
	const struct ladder *l = &c->bbr->ladder;

	return sat_sub(c->ack->now_us, l->slot_us) >= gain_apply(c->bbr->min_rtt_us, c->p->ladder.slot) &&
	       l->slot_acks >= c->p->ladder.slot_min_acks &&
	       sat_sub(c->ack->delivered, l->slot_delivered) >= bbr3_segments(c, c->p->ladder.slot_min_segments);
}

/* Averages the slot's RTT and how far it is from the mean. The first slot sets the mean. */
static __always_inline void ladder_learn(struct bbr3_conn *c, u64 rtt)
{
	struct ladder *l = &c->bbr->ladder;
	u64 weight = c->p->ladder.memory;
	u64 away = u64_max(rtt, l->usual_rtt) - u64_min(rtt, l->usual_rtt);

	if (!l->usual_rtt) {
		l->usual_rtt = rtt;
		return;
	}
	l->usual_rtt_dev = brake_step(l->usual_rtt_dev, away, weight);
	l->usual_rtt = brake_step(l->usual_rtt, rtt, weight);
}

/* Whether this RTT, in parts of a microsecond, shows a queue. Before the usual RTT is known none can be seen. */
static __always_inline u64 ladder_is_queue(const struct bbr3_conn *c, u64 rtt)
{
	const struct ladder *l = &c->bbr->ladder;
	u64 margin_us = u64_max(gain_apply(c->bbr->min_rtt_us, c->p->ladder.rtt), bbr3_segment_us(c));
	u64 margin = sat_mul(margin_us, LADDER_PARTS);
	u64 noise = sat_mul(l->usual_rtt_dev, c->p->ladder.deviations);

	return l->usual_rtt && rtt > sat_add(l->usual_rtt, u64_max(margin, noise));
}

/* Whether the usual RTT shows a queue that other flows keep. */
static __always_inline u64 ladder_is_queue_of_others(const struct bbr3_conn *c)
{
	return c->bbr->ladder.usual_rtt > sat_mul(bbr3_min_rtt_and(c, c->p->ladder.shared), LADDER_PARTS);
}

/*
 * Judges a slot that is over: in ProbeBW_CRUISE it is learned, and in ProbeBW_UP it may have a queue. ACKs for what was
 * sent before say nothing about either: the first round trip of ProbeBW_CRUISE still shows the queue that ProbeBW_DOWN
 * has drained.
 */
static __noinline void ladder_judge_slot(struct bbr3_conn *c)
{
	struct ladder *l = &c->bbr->ladder;
	u64 rtt = sat_mul(l->slot_rtt_us, LADDER_PARTS);

	if (l->slot_rtt_us == NO_RTT || l->slot_prior < l->phase_delivered)
		return;
	if (c->bbr->state == BBR3_PROBE_BW_CRUISE) {
		if (ladder_is_queue(c, rtt))
			bbr3_note_cruise_queue(c);
		ladder_learn(c, rtt);
		if (ladder_is_queue_of_others(c))
			l->shared_stamp_us = c->ack->now_us;
	} else if (c->bbr->state == BBR3_PROBE_BW_UP) {
		l->queue_slots = ladder_is_queue(c, rtt) ? l->queue_slots + 1 : 0;
	}
}

/* Gathers this ACK. It is called once an ACK while the flow is in the cycle of probes. */
static __always_inline void bbr3_update_ladder(struct bbr3_conn *c)
{
	struct ladder *l = &c->bbr->ladder;

	if (!c->p->ladder.is_on)
		return;
	l->slot_acks++;
	l->slot_prior = u64_min(l->slot_prior, c->ack->rs_prior_delivered);
	l->slot_rtt_us = u64_min(l->slot_rtt_us, c->ack->rs_rtt_us);
	if (ladder_is_slot_over(c)) {
		ladder_judge_slot(c);
		ladder_start_slot(c);
	}
}

/* Sets the gain of the probe; rounds without growth are counted from here on. */
static __always_inline void ladder_climb(struct bbr3_conn *c, u64 gain)
{
	c->bbr->pacing_gain = gain;
	c->bbr->ladder.rung_round = c->bbr->round_count;
}

/*
 * Whether other flows keep a queue at the bottleneck, or did a short time ago. What was a short time ago does not count
 * where losses are tolerated, because the draft's probe would end at a full buffer only, nor on a link that varies, where
 * the queue was the flow's own.
 */
static __always_inline u64 ladder_is_shared(const struct bbr3_conn *c)
{
	u64 stamp_us = c->bbr->ladder.shared_stamp_us;
	u64 is_recent = stamp_us && sat_sub(c->ack->now_us, stamp_us) < c->p->ladder.shared_us;

	return (is_recent && !c->bbr->loss.share && !c->bbr->varying.is_on) || ladder_is_queue_of_others(c);
}

/*
 * Whether the wait for the next probe may be shorter than the draft's. After a probe that lost too much it may not,
 * because in a buffer that is too short to show a queue each probe loses packets.
 */
static __always_inline u64 ladder_is_wait_ours(const struct bbr3_conn *c)
{
	return c->p->ladder.is_on && !c->bbr->prev_probe_too_high;
}

/* Most rounds between two probes: fewer than the draft's where probes climb. */
static __always_inline u64 bbr3_max_rounds(const struct bbr3_conn *c)
{
	u64 is_cheap = ladder_is_wait_ours(c) && !ladder_is_shared(c);

	return is_cheap ? c->p->ladder.max_rounds : c->p->bw_probe_max_rounds;
}

/* Below which number the count of rounds between two probes begins. */
static __always_inline u64 bbr3_rand_rounds(const struct bbr3_conn *c)
{
	return ladder_is_wait_ours(c) ? c->p->ladder.rand_rounds : c->p->bw_probe_rand_rounds;
}

/* Notes that ProbeBW_CRUISE begins. */
static __always_inline void bbr3_note_cruise(struct bbr3_conn *c)
{
	if (c->p->ladder.is_on)
		c->bbr->ladder.phase_delivered = c->ack->delivered;
}

/* Begins a probe at the foot of the ladder. It comes after the state has set the draft's gain. */
static __always_inline void bbr3_start_ladder(struct bbr3_conn *c)
{
	c->bbr->ladder.is_climbing = c->p->ladder.is_on && !ladder_is_shared(c);
	if (!c->bbr->ladder.is_climbing)
		return;
	c->bbr->ladder.phase_delivered = c->ack->delivered;
	c->bbr->ladder.queue_slots = 0;
	c->bbr->ladder.reference_bw = c->bbr->max_bw;
	ladder_climb(c, c->p->ladder.first_gain);
	ladder_start_slot(c);
}

/*
 * Whether the rate has grown by half of what the gain asks for. All of it is seldom measured: the ACKs of a round mix
 * what was sent before the gain was raised with what was sent after.
 */
static __always_inline u64 ladder_has_grown(const struct bbr3_conn *c)
{
	u64 half = sat_sub(c->bbr->pacing_gain, GAIN_UNIT) / 2;

	return c->bbr->max_bw >= gain_apply(c->bbr->ladder.reference_bw, GAIN_UNIT + half);
}

/*
 * Climbs if it is time to, and says whether the probe is over: it has met its own queue, or the rate has not grown for
 * some rounds. Where the long-term bound holds the flow back, a rate that does not grow proves nothing.
 */
static __noinline u64 bbr3_is_ladder_over(struct bbr3_conn *c, u64 is_limited)
{
	struct ladder *l = &c->bbr->ladder;
	u64 rounds = sat_sub(c->bbr->round_count, l->rung_round);

	if (l->queue_slots >= c->p->ladder.slots) {
		bbr3_note_own_queue(c, l->usual_rtt / LADDER_PARTS);
		bbr3_note_full_path(c);
		return 1;
	}
	if (c->bbr->pacing_gain < c->p->up_pacing_gain) {
		if (rounds >= c->p->ladder.first_rounds)
			ladder_climb(c, c->p->up_pacing_gain);
		return 0;
	}
	if (rounds && ladder_has_grown(c)) {
		u64 was_free = c->bbr->inflight_longterm == BBR3_INFINITY;

		l->reference_bw = c->bbr->max_bw;
		ladder_climb(c, was_free ? c->p->ladder.top_gain : c->p->up_pacing_gain);
		return 0;
	}
	if (is_limited) {
		l->rung_round = c->bbr->round_count;
		return 0;
	}
	return rounds >= c->p->ladder.flat_rounds;
}

#endif
