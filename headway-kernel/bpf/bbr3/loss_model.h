/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The loss model: losses that come as often without a queue as with one are the path's, and are not answered; none of it
 * is in the draft. Part of bbr3.h; twin: headway-cc/src/cc/bbr3/loss_model.rs, which has the reasons.
 */
#ifndef HEADWAY_BBR3_LOSS_MODEL_H
#define HEADWAY_BBR3_LOSS_MODEL_H

/* Parts of a microsecond in which the usual RTT is kept, and of a unit of data in which losses are compared. */
#define LOSS_PARTS 256
/* The hold is doubled so often at most. */
#define LOSS_MAX_FAILURES 6
/* Rounds without a probe before one is quiet: what a probe has queued is gone then. */
#define LOSS_QUIET_AFTER 2

/*
 * Whether more is lost of sent than a multiple of this share of it, by more than some standard deviations of chance:
 * those of a binomial distribution whose losses come in bursts. Counted in parts of a unit, because a share of a few
 * packets is less than one.
 */
static __noinline u64 loss_is_above(const struct bbr3_conn *c, u64 lost, u64 sent, u64 share, u64 is_limit)
{
	u64 times = is_limit ? c->p->loss.limit : c->p->loss.tolerated;
	u64 deviations = is_limit ? c->p->loss.limit_deviations : c->p->loss.tolerated_deviations;
	u64 mean = gain_apply(sat_mul(sent, LOSS_PARTS), share);
	u64 above = sat_sub(sat_mul(lost, LOSS_PARTS), gain_apply(mean, times));
	u64 variance = sat_mul(mean, sat_mul(bbr3_segments(c, c->p->loss.burst), LOSS_PARTS));

	return sat_mul(above, above) > sat_mul(variance, sat_mul(deviations, deviations));
}

/* Whether more is lost of some part than its share, by the limit that ends the tolerance. A segment is allowed for. */
static __always_inline u64 loss_is_over_limit(const struct bbr3_conn *c, u64 lost, u64 sent, u64 share)
{
	return loss_is_above(c, sat_sub(lost, bbr3_segments(c, 1)), sent, share, 1);
}

/* Whether more is lost than the path loses by itself. While nothing is tolerated, any loss is more. */
static __always_inline u64 bbr3_is_loss_ours(const struct bbr3_conn *c, u64 lost, u64 sent)
{
	return loss_is_above(c, lost, sent, c->bbr->loss.share, 0);
}

/* Whether the losses of the loss round that ends are no more than the path's, and no queue asks the flow to yield. */
static __always_inline u64 bbr3_is_loss_round_tolerated(const struct bbr3_conn *c)
{
	const struct loss_model *l = &c->bbr->loss;

	return l->share && l->round_high <= l->round_sent / 2 && !bbr3_is_loss_ours(c, l->round_lost, l->round_sent);
}

/* Begins the counts of a loss round. */
static __always_inline void bbr3_start_loss_round(struct bbr3_conn *c)
{
	struct loss_model *l = &c->bbr->loss;

	l->was_full = l->round_high || loss_is_above(c, l->round_lost, l->round_sent, c->p->loss.growth_share, 0);
	l->round_sent = 0;
	l->round_lost = 0;
	l->round_high = 0;
}

/* Gathers this ACK's RTT. A slot ends with the first ACK that comes later. */
static __always_inline void loss_gather_rtt(struct bbr3_conn *c)
{
	struct loss_model *l = &c->bbr->loss;

	if (!l->slot_us || sat_sub(c->ack->now_us, l->slot_us) >= gain_apply(c->bbr->min_rtt_us, c->p->loss.slot)) {
		l->last_slot_rtt_us = l->slot_us ? l->slot_rtt_us : NO_RTT;
		l->slot_us = c->ack->now_us;
		l->slot_rtt_us = NO_RTT;
	}
	l->slot_rtt_us = u64_min(l->slot_rtt_us, c->ack->rs_rtt_us);
}

/* The RTT that counts at this ACK, in microseconds; NO_RTT where there is none. */
static __always_inline u64 loss_rtt_us(const struct bbr3_conn *c)
{
	return u64_min(c->bbr->loss.slot_rtt_us, c->bbr->loss.last_slot_rtt_us);
}

/* The smallest RTT of the last minute or two, in microseconds; NO_RTT before the first. */
static __always_inline u64 loss_base_us(const struct bbr3_conn *c)
{
	const struct loss_model *l = &c->bbr->loss;

	return l->base_stamp_us ? u64_min(l->base_rtt_us, l->last_base_rtt_us) : NO_RTT;
}

/*
 * How far an RTT may be above the smallest one without showing a queue. A segment and a quarter may always stand in it,
 * because packets that arrive together leave one after the other.
 */
static __always_inline u64 loss_margin_us(const struct bbr3_conn *c)
{
	u64 base_us = loss_base_us(c);
	u64 segment_us = u64_min(brake_span_us(c->bbr->max_bw, bbr3_segments(c, 5)) / 4, base_us / 8);

	return u64_max(u64_max(gain_apply(base_us, c->p->loss.low_rtt), c->p->loss.low_us), segment_us);
}

/* Whether the RTT shows no queue at this ACK. */
static __noinline u64 loss_is_queue_low(const struct bbr3_conn *c)
{
	u64 rtt_us = loss_rtt_us(c), base_us = loss_base_us(c), usual = c->bbr->loss.usual_rtt;
	u64 slack_us = base_us / 256;
	u64 is_usual;

	if (rtt_us >= NO_RTT || base_us >= NO_RTT)
		return 0;
	is_usual = !usual || rtt_us <= sat_add(usual / LOSS_PARTS, slack_us);
	return is_usual && rtt_us <= sat_add(sat_add(base_us, loss_margin_us(c)), slack_us);
}

/*
 * Whether the RTT shows a queue at this ACK. One that acknowledges only what was sent again has no RTT, and says
 * neither.
 */
static __always_inline u64 loss_is_queue_high(const struct bbr3_conn *c)
{
	return loss_rtt_us(c) < NO_RTT && !loss_is_queue_low(c);
}

/*
 * Whether the smallest RTT of the round that is over shows that the path is full. A single RTT may be long because the
 * receiver has delayed its ACK.
 */
static __noinline u64 loss_is_path_full(const struct bbr3_conn *c)
{
	u64 rtt_us = c->bbr->last_round_rtt_us, base_us = loss_base_us(c);
	u64 margin_us = u64_max(gain_apply(base_us, c->p->loss.full_rtt), loss_margin_us(c));

	return rtt_us < NO_RTT && rtt_us > sat_add(base_us, margin_us);
}

/* Notes that a queue shows that the path is full. */
static __always_inline void bbr3_note_full_path(struct bbr3_conn *c)
{
	if (c->p->loss.is_on) {
		c->bbr->loss.saw_full = 1;
		c->bbr->loss.shows_full = 1;
		c->bbr->loss.blind_probes = 0;
	}
}

/*
 * Whether the rate still grows in Startup, and neither this ACK nor the loss round before it looks like a full path:
 * losses then are not those of a full buffer.
 */
static __always_inline u64 bbr3_is_growth_free(const struct bbr3_conn *c)
{
	return c->p->loss.is_on && !c->bbr->full_bw_count && !c->bbr->loss.was_full && !loss_is_queue_high(c);
}

/*
 * Whether too little was in flight in Startup for the rate to grow by a quarter, so that its not growing says nothing
 * about the path: a round trip delivers no more than what is in flight and not lost. A receiver that waits for a packet
 * whose retransmission was lost, too, closes its window for some rounds, and a timeout closes the congestion window.
 * Without a loss, where a queue shows, and after some such rounds in a row the draft's rule holds, so that a flow with a
 * small window leaves Startup. Where it is not known what was in flight it holds, too.
 */
static __noinline u64 bbr3_is_flight_too_small(const struct bbr3_conn *c)
{
	u64 arrived = sat_sub(c->ack->rs_tx_in_flight, c->ack->rs_lost);
	u64 grown = gain_apply(c->bbr->full_bw, c->p->full_bw_gain);
	u64 may_tell = c->bbr->state != BBR3_STARTUP || !c->ack->lost || loss_is_queue_high(c);
	u64 is_known = c->ack->rs_tx_in_flight && c->bbr->loss.small_rounds < c->p->loss.small_rounds;

	return c->p->loss.is_on && !may_tell && is_known && arrived < bbr3_bdp_multiple(c, grown, GAIN_UNIT);
}

/*
 * The pacing gain with what the path loses on top, while the flow sends at the bandwidth and no queue shows. Without it
 * less arrives than the bandwidth that was measured.
 */
static __noinline u64 bbr3_loss_gain(const struct bbr3_conn *c, u64 gain)
{
	u64 share = u64_min(c->bbr->loss.share, GAIN_UNIT / 2);
	u64 is_even = c->bbr->state == BBR3_PROBE_BW_CRUISE || c->bbr->state == BBR3_PROBE_BW_REFILL;

	if (c->p->loss.compensate && share && is_even && loss_is_queue_low(c))
		return sat_mul(gain, GAIN_UNIT) / (GAIN_UNIT - share);
	return gain;
}

/* Learns the RTT of quiet rounds. */
static __always_inline void loss_learn_rtt(struct bbr3_conn *c)
{
	struct loss_model *l = &c->bbr->loss;
	u64 rtt = loss_rtt_us(c);

	if (l->quiet_rounds < LOSS_QUIET_AFTER || l->is_up || rtt >= NO_RTT)
		return;
	rtt = sat_mul(rtt, LOSS_PARTS);
	l->usual_rtt = l->usual_rtt ? brake_step(l->usual_rtt, rtt, c->p->loss.memory) : rtt;
}

/* Counts what this ACK says was delivered and lost. */
static __always_inline void loss_count(struct bbr3_conn *c)
{
	struct loss_model *l = &c->bbr->loss;
	u64 sent = sat_add(c->ack->newly_acked, c->ack->newly_lost), lost = c->ack->newly_lost;

	l->is_app_limited |= c->ack->rs_is_app_limited;
	l->round_sent = sat_add(l->round_sent, sent);
	l->round_lost = sat_add(l->round_lost, lost);
	if (loss_is_queue_low(c)) {
		l->low_sent = sat_add(l->low_sent, sent);
		l->low_lost = sat_add(l->low_lost, lost);
	} else if (loss_rtt_us(c) < NO_RTT) {
		l->round_high = sat_add(l->round_high, sent);
		l->high_sent = sat_add(l->high_sent, sent);
		l->high_lost = sat_add(l->high_lost, lost);
	}
}

/* The BDP in segments. */
static __always_inline u64 loss_bdp_segments(const struct bbr3_conn *c)
{
	return bbr3_bdp_multiple(c, c->bbr->max_bw, GAIN_UNIT) / bbr3_segments(c, 1);
}

/*
 * Adds the counts of the round that is over to those of its kind. Where most ACKs of a round show a queue, the others
 * say nothing about a path without one.
 */
static __always_inline void loss_add_round(struct bbr3_conn *c)
{
	u64 segments = loss_bdp_segments(c);
	struct loss_model *l = &c->bbr->loss;

	if (l->was_up) {
		l->up_sent = sat_add(l->up_sent, l->low_sent);
		l->up_lost = sat_add(l->up_lost, l->low_lost);
	} else if (!l->is_up && l->quiet_rounds >= LOSS_QUIET_AFTER) {
		l->quiet_high_sent = sat_add(l->quiet_high_sent, l->high_sent);
		l->quiet_high_lost = sat_add(l->quiet_high_lost, l->high_lost);
		if (l->high_sent <= l->low_sent) {
			l->quiet_low_sent = sat_add(l->quiet_low_sent, l->low_sent);
			l->quiet_low_lost = sat_add(l->quiet_low_lost, l->low_lost);
			l->quiet_low_bdp = sat_add(l->quiet_low_bdp, sat_mul(l->low_sent, segments));
		}
	}
}

/* Begins the counts of a round. */
static __always_inline void loss_start_round(struct bbr3_conn *c)
{
	struct loss_model *l = &c->bbr->loss;

	l->quiet_rounds = l->is_up ? 0 : l->quiet_rounds + 1;
	l->was_up = l->is_up;
	l->is_up = 0;
	l->low_sent = 0;
	l->low_lost = 0;
	l->high_sent = 0;
	l->high_lost = 0;
}

/* Keeps this part of all counts, a gain: a half, or nothing. */
static __always_inline void loss_keep(struct bbr3_conn *c, u64 part)
{
	struct loss_model *l = &c->bbr->loss;

	l->quiet_low_sent = gain_apply(l->quiet_low_sent, part);
	l->quiet_low_lost = gain_apply(l->quiet_low_lost, part);
	l->quiet_low_bdp = gain_apply(l->quiet_low_bdp, part);
	l->quiet_high_sent = gain_apply(l->quiet_high_sent, part);
	l->quiet_high_lost = gain_apply(l->quiet_high_lost, part);
	l->up_sent = gain_apply(l->up_sent, part);
	l->up_lost = gain_apply(l->up_lost, part);
}

/* Ends the tolerance, and the counts begin anew. */
static __noinline void loss_fail(struct bbr3_conn *c)
{
	struct loss_model *l = &c->bbr->loss;
	u64 times = (l->shows_full ? 1 : c->p->loss.blind_hold) << (u64_min(l->failures, LOSS_MAX_FAILURES) & 63);
	u64 hold = sat_mul(c->p->loss.hold_rounds, times);

	l->share = 0;
	l->hold_round = sat_add(c->bbr->round_count, hold);
	l->failures = u64_min(l->failures + 1, LOSS_MAX_FAILURES);
	l->blind_probes = 0;
	loss_keep(c, 0);
}

/*
 * Ends the tolerance for a sign that may come several times in a row. If nothing was tolerated, nothing has failed: the
 * counts begin anew, and losses are answered for the usual time.
 */
static __noinline void loss_end(struct bbr3_conn *c)
{
	u64 hold_round = sat_add(c->bbr->round_count, c->p->loss.hold_rounds);

	if (c->bbr->loss.share) {
		loss_fail(c);
		return;
	}
	c->bbr->loss.hold_round = u64_max(c->bbr->loss.hold_round, hold_round);
	loss_keep(c, 0);
}

/*
 * Judges a probe when the round after it is over: a path that is full must have shown a queue. A probe that lost too
 * much, or that the application limited, did not fill the path.
 */
static __always_inline void loss_judge_probe(struct bbr3_conn *c)
{
	struct loss_model *l = &c->bbr->loss;
	u64 is_blind;

	if (loss_is_path_full(c))
		bbr3_note_full_path(c);
	if (!l->was_up || l->is_up)
		return;
	is_blind = !l->saw_full && !l->is_app_limited && !c->bbr->prev_probe_too_high;
	l->blind_probes += is_blind && l->share;
	l->saw_full = 0;
	l->is_app_limited = 0;
	if (l->blind_probes >= c->p->loss.blind_probes) {
		l->shows_full = 0;
		loss_fail(c);
	}
}

/* The share that is lost without a queue in quiet rounds. */
static __always_inline u64 loss_quiet_share(const struct bbr3_conn *c)
{
	return sat_mul(c->bbr->loss.quiet_low_lost, GAIN_UNIT) / u64_max(c->bbr->loss.quiet_low_sent, 1);
}

/*
 * Whether a share of this size may be tolerated. A flow whose losses are answered has soon only a few packets in flight,
 * so what counts is the BDP while the losses were counted, if that was larger.
 * The tolerance begins after a probe whose next round had no queue; it does not end when that is forgotten, as the
 * counts are halved several times between two probes.
 */
static __always_inline u64 loss_may_tolerate(const struct bbr3_conn *c, u64 share)
{
	const struct loss_model *l = &c->bbr->loss;
	u64 counted = l->quiet_low_bdp / u64_max(l->quiet_low_sent, 1);
	u64 segments = u64_max(loss_bdp_segments(c), counted);
	u64 most = u64_min(sat_mul(segments, c->p->loss.share_per_segment), c->p->loss.max_share);

	return share >= c->p->loss.min_share && share <= most && (l->share || l->up_sent) &&
	       c->ack->has_selective_acks;
}

/* Whether the counts show that losses depend on what the flow does. */
static __always_inline u64 loss_depends_on_us(const struct bbr3_conn *c, u64 share)
{
	const struct loss_model *l = &c->bbr->loss;
	u64 sent = sat_add(l->quiet_low_sent, l->quiet_high_sent);
	u64 lost = sat_add(l->quiet_low_lost, l->quiet_high_lost);

	return loss_is_over_limit(c, l->up_lost, l->up_sent, share) ||
	       loss_is_over_limit(c, l->quiet_high_lost, l->quiet_high_sent, share) ||
	       (l->share && loss_is_over_limit(c, lost, sent, l->first_share));
}

/*
 * Halves the counts when so much was sent, while there is nothing to judge: what a path lost long ago must not hide what it
 * loses now.
 */
static __always_inline void loss_age(struct bbr3_conn *c)
{
	if (c->bbr->loss.quiet_low_sent >= bbr3_segments(c, c->p->loss.window_sent))
		loss_keep(c, GAIN_UNIT / 2);
}

/* Judges the counts at the end of a round. */
static __noinline void loss_judge(struct bbr3_conn *c)
{
	struct loss_model *l = &c->bbr->loss;
	u64 is_enough = l->quiet_low_sent >= bbr3_segments(c, c->p->loss.min_sent) &&
			l->quiet_low_lost >= bbr3_segments(c, c->p->loss.min_lost);
	u64 share = loss_quiet_share(c);

	if (c->bbr->round_count < l->hold_round || (!l->share && !is_enough)) {
		loss_age(c);
		return;
	}
	if (loss_depends_on_us(c, share)) {
		loss_fail(c);
		return;
	}
	if (!loss_may_tolerate(c, share))
		share = 0;
	if (!l->share)
		l->first_share = share;
	l->share = share;
	if (l->quiet_low_lost >= bbr3_segments(c, c->p->loss.window_lost) ||
	    l->quiet_low_sent >= bbr3_segments(c, c->p->loss.window_sent)) {
		loss_keep(c, GAIN_UNIT / 2);
		l->failures /= 2;
	}
}

/*
 * Ends the tolerance when the smallest RTT is much smaller than while the losses were counted. A flow that begins where
 * others keep a queue takes it for the path until all of them yield at once, and what it has learned until then is not the
 * path's. It is asked once a round, because a queue that drains makes the RTT smaller by little with each ACK.
 */
static __always_inline void loss_judge_base(struct bbr3_conn *c)
{
	struct loss_model *l = &c->bbr->loss;
	u64 base_us = loss_base_us(c);

	if (base_us >= NO_RTT)
		return;
	if (sat_add(base_us, loss_margin_us(c)) < l->counted_base_us) {
		loss_end(c);
		l->counted_base_us = 0;
	}
	l->counted_base_us = u64_max(l->counted_base_us, base_us);
}

/* Remembers the smallest RTT. */
static __noinline void loss_update_base(struct bbr3_conn *c)
{
	struct loss_model *l = &c->bbr->loss;
	u64 now_us = c->ack->now_us, rtt_us = c->ack->rs_rtt_us, base_us = loss_base_us(c);

	if (rtt_us >= NO_RTT)
		return;
	if (base_us >= NO_RTT || sat_sub(now_us, l->base_stamp_us) >= c->p->loss.base_us) {
		l->last_base_rtt_us = base_us >= NO_RTT ? NO_RTT : l->base_rtt_us;
		l->base_rtt_us = NO_RTT;
		l->base_stamp_us = now_us;
	}
	l->base_rtt_us = u64_min(l->base_rtt_us, rtt_us);
}

/* A CE mark comes from an AQM, which marks what it would drop: such losses are answered. */
static __always_inline void bbr3_end_tolerance(struct bbr3_conn *c)
{
	if (c->p->loss.is_on)
		loss_end(c);
}

/* Counts this ACK, judges the round that it ends, and says whether losses are tolerated from now on. */
static __always_inline u64 bbr3_update_loss_model(struct bbr3_conn *c)
{
	struct loss_model *l = &c->bbr->loss;
	u64 before = l->share;

	if (!c->p->loss.is_on)
		return 0;
	loss_update_base(c);
	loss_gather_rtt(c);
	if (c->bbr->round_start) {
		loss_judge_base(c);
		loss_judge_probe(c);
		loss_add_round(c);
		loss_judge(c);
		loss_start_round(c);
	}
	l->is_up = l->is_up || c->bbr->state == BBR3_STARTUP || c->bbr->state == BBR3_PROBE_BW_UP;
	loss_learn_rtt(c);
	loss_count(c);
	return !before && l->share;
}

#endif
