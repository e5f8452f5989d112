/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The brake: what a BBR does when the path becomes slower than its model. One module for BBRv1 and BBRv3.
 *
 * When the path becomes slower, a BBR goes on at the old rate until its maximum filter forgets it, and the excess waits
 * in the queue. The brake gathers ACKs in short slots. A slot that is clearly slower than the baseline (the average of
 * the slots before, in the fields usual_*) and met a queue puts it on: the flow paces at what arrives until the queue is
 * gone (BRAKE_DRAIN). Then it looks for the old rate (BRAKE_HOLD).
 *
 * Use: a controller has a struct brake_params among its parameters and a struct brake in its
 * state. Once an ACK, after its model is updated, it calls brake_on_ack(). From then on it takes its bandwidth from
 * brake_bw(), its pacing gain from brake_gain(), and keeps its window within brake.window.
 *
 * Twin: headway-cc/src/cc/brake.rs, which leads: same functions in the same order, after five whose work integers do by
 * themselves there; reasons and numbers are there. All functions are inline, because the verifiers of Linux 7.1 and 7.2
 * lose track of struct brake_ack in any stack frame but the one that reads it.
 */
#ifndef HEADWAY_BRAKE_H
#define HEADWAY_BRAKE_H

#include "fixed.h"

enum brake_mode {
	BRAKE_WATCH = 0,	/* off: slots are averaged into the baseline, the flow is not limited */
	BRAKE_DRAIN = 1,	/* on: the flow sends at the rate that arrives, so that its queue drains */
	BRAKE_HOLD = 2,	/* on: the queue is gone, and the allowed rate rises until a new one appears */
};

/* Tunables; reasons and values are in BrakeParams. Gains and parts of 1 are times 2^16, times in microseconds. */
struct brake_params {
	u64 is_on;	/* Whether the flow yields when the path becomes slower: 1 yes, 0 no */
	/* How long a slot of ACKs lasts at least while the brake is off, as a part of the minimum RTT */
	u64 slot;
	/* How long a slot of ACKs lasts at least while the brake is on, as a part of the minimum RTT */
	u64 slot_braked;
	/* Fewest ACKs of a slot. ACKs that come together count as one, because a bunch of ACKs tells no rate. */
	u64 slot_min_acks;
	/* Segments that a slot delivers at least. Fewer tell no rate, but a slot may also end without them when
	 * twice as many should have arrived, because then the path has become slower. */
	u64 slot_min_segments;
	/* While the brake is off, an RTT counts as a queue when it is above the baseline by more than this part of
	 * the minimum RTT */
	u64 rtt;
	u64 rtt_braked;	/* The same while the brake is on */
	u64 rtt_us;	/* An RTT must also be above the baseline by more than this time to count as a queue */
	u64 rate;	/* A slot is slow when its rate is below the expected one by more than this part */
	u64 deviations;	/* Rate and RTT must also differ from the baseline by this many mean deviations */
	u64 loss;	/* A slow slot that lost more than this part of what arrived is lossy */
	u64 loss_slots;	/* Number of lossy slots in a row that put the brake on without a longer RTT */
	u64 memory;	/* Weight of the newest slot in the averages of the baseline */
	u64 grow;	/* Once the queue is gone, the allowed rate is this times what arrives */
	u64 grow_fast;	/* The same factor once more arrives than the slower path let through */
	/* Rounds without a queue and without more data after which the allowed rate rises all the same. It also
	 * limits how many RTTs the brake may have been on for the model to count as still knowing the old rate. */
	u64 patience;
	u64 hold_us;	/* How long the brake looks for the old rate at least before it gives up */
	u64 extra_segments;	/* Segments that the sender's bursts add to the queue at any rate */
	u64 max_further_drops;	/* How many further drops of the path's rate are believed while one queue drains */
	/* Weight in the averages of the baseline of a slot whose RTT is above them and whose rate is below */
	u64 memory_worse;
	u64 long_us;	/* Time over which the long mean of the RTT goes; 0: every queue is learned */
	/* Other flows keep a queue when the long mean is above the minimum RTT by more than this part of it */
	u64 shared;
};

/* What the brake remembers of a connection. */
struct brake {
	u64 mode;	/* Whether the brake is off (watch), drains the queue, or looks for the old rate (hold) */
	u64 bw;	/* Bandwidth that the controller uses instead of the model's while the brake is on */
	u64 window;	/* Upper bound of the window, in units of data; all ones while the brake is off */
	u64 slot_us;	/* When the slot began, in microseconds */
	u64 slot_delivered;	/* delivered when the slot began */
	u64 slot_lost;	/* lost when the slot began */
	u64 slot_ce;	/* delivered_ce when the slot began */
	/* Smallest rs_prior_delivered among the slot's ACKs: the value of delivered when the oldest of their
	 * packets was sent */
	u64 slot_prior;
	u64 slot_acks;	/* ACKs of the slot so far, where ACKs that came together count as one */
	u64 slot_ack_us;	/* When the last ACK that slot_acks counts came, in microseconds */
	u64 slot_gap_us;	/* Longest time between two ACKs of the slot, in microseconds */
	u64 slot_rtt_us;	/* Smallest RTT of the slot, in microseconds; NO_RTT before its first sample */
	/* Whether the slot has samples that were limited by the application, which say nothing about the path's
	 * rate */
	u64 slot_is_app_limited;
	/* Whether the slot has samples that are marked as application-limited only because ProbeRTT marked what
	 * was in flight */
	u64 slot_is_marked;
	u64 marked_start;	/* delivered when ProbeRTT last marked what is sent as application-limited */
	/* The mark lasts until delivered exceeds this, because it also covers what was in flight when it was set */
	u64 marked_end;
	u64 last_us;	/* When the previous ACK came, in microseconds */
	/* Rate of the previous slot; 0 where there is none, or where it was measured before the path became slower */
	u64 last_bw;
	/* Baseline RTT: the mean of the slots' smallest RTTs, in microseconds; 0 while it is not known */
	u64 usual_rtt_us;
	/* Mean deviation of the slots' smallest RTTs from the baseline, in microseconds */
	u64 usual_rtt_dev_us;
	u64 usual_bw;	/* Baseline rate: the mean of the slots' rates; 0 while it is not known */
	u64 usual_bw_dev;	/* Mean deviation of the slots' rates from the baseline */
	u64 long_rtt;	/* Mean RTT of the last seconds, in 1024ths of a microsecond; 0 while it is not known */
	u64 paced_bw;	/* Lowest bandwidth at which the flow has paced in this round */
	u64 paced_bw_before;	/* Lowest bandwidth at which the flow paced in the round before */
	u64 lossy_slots;	/* Slots in a row that were slow and lossy */
	u64 target_bw;	/* The old rate: the model's largest bandwidth when the brake was put on */
	u64 base_bw;	/* The slower path's rate: what arrived when the queue was gone */
	u64 entry_us;	/* When the brake was put on, in microseconds */
	/* Longest RTT, in microseconds, since the brake was put on, or since the end of the last round that had no
	 * more in flight than the window allows */
	u64 queue_rtt_us;
	/* delivered when inflight had come down to the window, or when the last round at that level ended; 0
	 * before */
	u64 quiet_delivered;
	u64 further_drops;	/* Further drops of the path's rate since the flow began to drain this queue */
	u64 back_delivered;	/* delivered when data first arrived at the old rate again; 0 before */
	u64 raise_rounds;	/* Value of rounds when the allowed rate was raised last */
	u64 entries;	/* Times the brake was put on */
	u64 rounds;	/* Rounds in which it was on */
	u64 releases;	/* Times it was let go because the old rate was back or could not be found */
	u64 false_entries;	/* Times it was let go because the queue belonged to other flows */
};

/* Parts of a microsecond in which the long mean of the RTT is kept: one slot moves it by less than a microsecond. */
#define BRAKE_LONG_UNIT 1024

/* One ACK as the brake sees it: what the controller tells of itself. */
struct brake_ack {
	struct brake *s;	/* What the brake remembers */
	const struct brake_params *p;	/* Its parameters */
	const struct ack *ack;	/* The event */
	u64 max_bw;	/* The model's largest bandwidth */
	u64 min_rtt_us;	/* The model's minimum RTT, microseconds */
	u64 bw;	/* The bandwidth that the model would pace by */
	u64 pacing_gain;	/* The gain that the model would pace with */
	u64 is_round_start;	/* Whether the model has begun a round with this ACK */
	u64 is_marking;	/* Whether ProbeRTT marks what is sent from now on as application-limited */
	u64 is_watching;	/* Whether ACKs of this phase show what the path can do */
	/* Whether the phase neither builds a queue nor empties one, so that its slots may be averaged into the
	 * baseline */
	u64 is_steady;
	u64 floor;	/* The smallest window, in units of data */
};

/*
 * Whether a is less than b, as 1 or 0: the borrow of a - b. BPF compares only in order to branch, and the verifier may
 * walk what follows a branch once for each way. With the functions of fixed.h in place of the next four, which do not
 * branch, it walked 188,000 instructions of bbr1_brake on Linux 6.18, and with these 25,000, both with brake_long_us
 * above 0. The rest of a controller keeps those of fixed.h, which run in fewer instructions. The empty assembly hides
 * from the compiler that the value is a comparison, of which it could make a branch again.
 */
static __always_inline u64 brake_is_less(u64 a, u64 b)
{
	u64 less = ((~a & b) | ((~a | b) & (a - b))) >> 63;

	__asm__("" : "+r"(less));
	return less;
}

/* u64_min() without a branch. */
static __always_inline u64 brake_min(u64 a, u64 b)
{
	return b ^ ((a ^ b) & -brake_is_less(a, b));
}

/* u64_max() without a branch. */
static __always_inline u64 brake_max(u64 a, u64 b)
{
	return a ^ ((a ^ b) & -brake_is_less(a, b));
}

/* sat_add() without a branch. */
static __always_inline u64 brake_add(u64 a, u64 b)
{
	return (a + b) | -brake_is_less(a + b, a);
}

/* sat_sub() without a branch. */
static __always_inline u64 brake_sub(u64 a, u64 b)
{
	return (a - b) & (brake_is_less(a, b) - 1);
}

/* The time in which a bandwidth moves this much data, in microseconds, rounded down. */
static __always_inline u64 brake_span_us(u64 bw, u64 data)
{
	return sat_mul(data, BW_UNIT) / brake_max(bw, 1);
}

/* The data that the sender's own bursts add to the queue at any rate (two segments by default), in units of data. */
static __always_inline u64 brake_extra(const struct brake_ack *b)
{
	return sat_mul(b->p->extra_segments, brake_max(b->ack->smss, 1));
}

/*
 * The upper bound of the window, in units of data: the BDP at the brake's bandwidth, so that what is in flight beyond
 * it can leave the queue.
 */
static __always_inline u64 brake_window(const struct brake_ack *b)
{
	u64 bdp = bw_data(b->s->bw, b->s->usual_rtt_us);
	u64 extra = b->s->mode == BRAKE_HOLD ? brake_extra(b) : 0;

	return brake_max(brake_add(bdp, extra), b->floor);
}

/* The bandwidth that the controller has to use: the model's, or the brake's while it is on. */
static __always_inline u64 brake_bw(const struct brake *s, u64 bw)
{
	return s->mode == BRAKE_WATCH ? bw : s->bw;
}

/*
 * The pacing gain that the controller has to use. While the brake is on, it looks for more bandwidth by itself, and a
 * gain above 1 on top of that would only build a queue.
 */
static __always_inline u64 brake_gain(u64 mode, u64 gain)
{
	return mode == BRAKE_WATCH ? gain : brake_min(gain, GAIN_UNIT);
}

/*
 * How long a slot lasts at least, in microseconds. It must be long enough to hold some ACKs and short enough to show
 * a slower path within a part of a round.
 */
static __always_inline u64 brake_slot_us(const struct brake_ack *b)
{
	return gain_apply(b->min_rtt_us, b->s->mode == BRAKE_WATCH ? b->p->slot : b->p->slot_braked);
}

/* Begins a slot with this ACK. Rates are differences of counters, so their present values are noted. */
static __always_inline void brake_start_slot(const struct brake_ack *b)
{
	b->s->slot_us = b->ack->now_us;
	b->s->slot_delivered = b->ack->delivered;
	b->s->slot_lost = b->ack->lost;
	b->s->slot_ce = b->ack->delivered_ce;
	b->s->slot_prior = U64_MAX;
	b->s->slot_acks = 0;
	b->s->slot_ack_us = b->ack->now_us;
	b->s->slot_gap_us = 0;
	b->s->slot_rtt_us = NO_RTT;
	b->s->slot_is_app_limited = 0;
	b->s->slot_is_marked = 0;
}

/*
 * Whether the packet was sent in ProbeRTT, or limited by the application before that: little was in flight then, so
 * its ACK says nothing of the path's rate.
 */
static __always_inline u64 brake_is_of_probe_rtt(const struct brake_ack *b)
{
	return b->ack->rs_is_app_limited && b->ack->rs_prior_delivered < b->s->marked_start;
}

/*
 * Whether the packet was sent in the round after ProbeRTT. It is still marked as limited by the application, but the
 * old window was back, so its ACK does count.
 */
static __always_inline u64 brake_is_only_marked(const struct brake_ack *b)
{
	return b->ack->rs_prior_delivered >= b->s->marked_start && b->ack->rs_prior_delivered <= b->s->marked_end;
}

/*
 * Counts the ACK in the slot. ACKs that come within an eighth of a slot's length count as one, because a bunch of
 * ACKs tells no rate.
 */
static __always_inline void brake_note_ack(const struct brake_ack *b)
{
	u64 now_us = b->ack->now_us;

	if (brake_sub(now_us, b->s->slot_ack_us) >= brake_slot_us(b) / 8) {
		b->s->slot_acks++;
		b->s->slot_ack_us = now_us;
	}
	b->s->slot_gap_us = brake_max(b->s->slot_gap_us, brake_sub(now_us, b->s->last_us));
	b->s->slot_prior = brake_min(b->s->slot_prior, b->ack->rs_prior_delivered);
	b->s->slot_rtt_us = brake_min(b->s->slot_rtt_us, b->ack->rs_rtt_us);
	if (brake_is_only_marked(b))
		b->s->slot_is_marked |= b->ack->rs_is_app_limited;
	else
		b->s->slot_is_app_limited |= b->ack->rs_is_app_limited;
}

/*
 * The RTT, in microseconds, up to which no queue is assumed: the baseline, plus the largest of the margins that
 * hosts, noise and the path itself explain, plus the time that our own bursts take while the brake is on.
 */
static __always_inline u64 brake_rtt_limit(const struct brake_ack *b)
{
	u64 part = b->s->mode == BRAKE_WATCH ? b->p->rtt : b->p->rtt_braked;
	u64 noise_us = sat_mul(b->s->usual_rtt_dev_us, b->p->deviations);
	u64 margin_us = brake_max(brake_max(gain_apply(b->min_rtt_us, part), b->p->rtt_us), noise_us);
	u64 burst_us = b->s->mode == BRAKE_WATCH ? 0 : brake_span_us(b->s->bw, brake_extra(b));

	return brake_add(brake_add(b->s->usual_rtt_us, margin_us), burst_us);
}

/* Whether the slot met a queue. The smallest RTT decides, because a single late ACK must not look like a queue. */
static __always_inline u64 brake_is_inflated(const struct brake_ack *b)
{
	return b->s->slot_rtt_us < NO_RTT && b->s->usual_rtt_us && b->s->slot_rtt_us > brake_rtt_limit(b);
}

/*
 * The baseline rate, but no more than the model's largest bandwidth: a path that has become slower for good lowers
 * the model, and the baseline must follow.
 */
static __always_inline u64 brake_usual_bw(const struct brake_ack *b)
{
	return brake_min(b->s->usual_bw, b->max_bw);
}

/*
 * The rate that should have arrived in this slot: the baseline rate, or less if the flow sent less. Behind a clear
 * queue (twice the margin) it does not matter what was sent, because the queue keeps the path busy.
 */
static __always_inline u64 brake_expected_bw(const struct brake_ack *b)
{
	u64 limit_us = brake_rtt_limit(b);
	u64 margin_us = brake_sub(limit_us, b->s->usual_rtt_us);

	if (brake_is_inflated(b) && b->s->slot_rtt_us > brake_add(limit_us, margin_us))
		return brake_usual_bw(b);
	return brake_min(brake_min(brake_usual_bw(b), b->s->paced_bw), b->s->paced_bw_before);
}

/* Whether a rate is lower than expected by more than noise explains. */
static __always_inline u64 brake_is_below(const struct brake_ack *b, u64 bw, u64 expected)
{
	u64 noise = sat_mul(b->s->usual_bw_dev, b->p->deviations);

	return bw < brake_sub(gain_apply(expected, brake_sub(GAIN_UNIT, b->p->rate)), noise);
}

/*
 * Whether the slot is long enough to tell a rate: slot_min_segments have arrived, or twice as many should have
 * arrived by now, which is how a path that hardly delivers any more is noticed.
 */
static __always_inline u64 brake_has_slot_data(const struct brake_ack *b, u64 span_us)
{
	u64 enough = sat_mul(b->p->slot_min_segments, brake_max(b->ack->smss, 1));

	if (brake_sub(b->ack->delivered, b->s->slot_delivered) >= enough)
		return 1;
	return b->s->mode == BRAKE_WATCH && bw_data(brake_expected_bw(b), span_us) >= sat_mul(enough, 2);
}

/*
 * Whether loss or CE marks show congestion where the buffer is too short for a longer RTT to show it. Either more
 * than half of the missing data was lost and the loss is above loss, or more than half of what arrived is marked.
 */
static __always_inline u64 brake_is_lossy(const struct brake_ack *b, u64 span_us)
{
	u64 delivered = brake_sub(b->ack->delivered, b->s->slot_delivered);
	u64 lost = brake_sub(b->ack->lost, b->s->slot_lost);
	u64 ce = brake_sub(b->ack->delivered_ce, b->s->slot_ce);
	u64 missing = brake_sub(bw_data(brake_expected_bw(b), span_us), delivered);

	return (sat_mul(lost, 2) > missing && lost > gain_apply(delivered, b->p->loss)) || sat_mul(ce, 2) > delivered;
}

/*
 * Moves an average towards a new value by weight of the difference, so that old values are forgotten exponentially.
 */
static __always_inline u64 brake_step(u64 from, u64 to, u64 weight)
{
	if (to >= from)
		return brake_add(from, gain_apply(to - from, weight));
	return brake_sub(from, gain_apply(from - to, weight));
}

static __always_inline u64 brake_diff(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

/* Averages the slot's RTT over the last seconds; the weight is the slot's share of that time. */
static __always_inline void brake_note_long_rtt(const struct brake_ack *b, u64 span_us)
{
	u64 rtt = sat_mul(b->s->slot_rtt_us, BRAKE_LONG_UNIT);
	u64 weight = brake_min(sat_mul(span_us, GAIN_UNIT) / brake_max(b->p->long_us, 1), GAIN_UNIT);

	b->s->long_rtt = b->s->long_rtt ? brake_step(b->s->long_rtt, rtt, weight) : rtt;
}

/*
 * Whether a queue may be averaged into the baseline, because it is no sign of a slower path: other flows have kept one
 * for seconds, or the path has become so long that its shortest RTT looks like one.
 */
static __always_inline u64 brake_is_queue_usual(const struct brake_ack *b)
{
	u64 limit_us = brake_rtt_limit(b);
	u64 margin_us = brake_sub(limit_us, b->s->usual_rtt_us);
	u64 shared_us = brake_add(b->min_rtt_us, brake_max(gain_apply(b->min_rtt_us, b->p->shared), margin_us));

	return !b->p->long_us || b->s->long_rtt / BRAKE_LONG_UNIT > shared_us || b->min_rtt_us > limit_us;
}

/*
 * The weight of the slot in the baseline. An RTT above it together with a rate below it are how a slow fall of the rate
 * begins, and learned as fast as other slots they would hide it.
 */
static __always_inline u64 brake_weight(const struct brake_ack *b, u64 bw)
{
	u64 is_worse = b->s->slot_rtt_us > b->s->usual_rtt_us && bw < b->s->usual_bw;

	return is_worse && !brake_is_queue_usual(b) ? b->p->memory_worse : b->p->memory;
}

/* Averages the slot into the baseline: RTT, rate, and how far slots are away from both. The first slot sets it. */
static __always_inline void brake_learn(const struct brake_ack *b, u64 bw)
{
	u64 rtt_us = b->s->slot_rtt_us, weight = brake_weight(b, bw);

	if (!b->s->usual_rtt_us) {
		b->s->usual_rtt_us = rtt_us;
		b->s->usual_bw = bw;
		return;
	}
	b->s->usual_rtt_dev_us =
		brake_step(b->s->usual_rtt_dev_us, brake_diff(rtt_us, b->s->usual_rtt_us), weight);
	b->s->usual_rtt_us = brake_step(b->s->usual_rtt_us, rtt_us, weight);
	b->s->usual_bw_dev = brake_step(b->s->usual_bw_dev, brake_diff(bw, b->s->usual_bw), weight);
	b->s->usual_bw = brake_step(b->s->usual_bw, bw, weight);
}

/*
 * Changes the mode. It is the only place that does; the twin in Rust checks each change against a table of reasons.
 */
static __always_inline void brake_set_mode(struct brake *s, u64 mode)
{
	s->mode = mode;
}

/*
 * Puts the brake on: from now on the flow sends no more than arrives, and its queue drains. What arrives through a
 * queue is the rate of the path.
 */
static __always_inline void brake_enter_drain(const struct brake_ack *b, u64 bw)
{
	brake_set_mode(b->s, BRAKE_DRAIN);
	b->s->bw = brake_max(brake_max(bw, b->s->last_bw), 1);
	b->s->queue_rtt_us = b->s->slot_rtt_us;
	b->s->quiet_delivered = 0;
	b->s->further_drops = 0;
}

/* Lets go: the old rate is back, or the controller has found another answer to the slower path. */
static __always_inline void brake_release(struct brake *s)
{
	if (s->mode != BRAKE_WATCH) {
		brake_set_mode(s, BRAKE_WATCH);
		s->releases++;
	}
}

/*
 * Judges a slot while the brake is off: it goes on when the slot is slow and has met a queue, or when slots in a row
 * were slow and lossy.
 */
static __always_inline void brake_watch(const struct brake_ack *b, u64 bw, u64 span_us)
{
	u64 is_slow = brake_is_below(b, bw, brake_expected_bw(b));
	u64 is_inflated = brake_is_inflated(b);
	u64 is_usual = b->is_steady && !b->s->slot_is_marked;

	b->s->lossy_slots = is_slow && brake_is_lossy(b, span_us) ? b->s->lossy_slots + 1 : 0;
	if (is_slow && (is_inflated || b->s->lossy_slots >= b->p->loss_slots)) {
		b->s->entries++;
		b->s->lossy_slots = 0;
		b->s->target_bw = b->max_bw;
		b->s->entry_us = b->ack->now_us;
		b->s->last_bw = 0;
		brake_enter_drain(b, bw);
		return;
	}
	b->s->usual_bw = brake_usual_bw(b);
	if (!is_usual || b->s->slot_rtt_us == NO_RTT)
		return;
	brake_note_long_rtt(b, span_us);
	/* The baseline must not take in a slower path that too little was sent to show, nor an empty or a new queue. */
	if (!brake_is_below(b, bw, b->s->usual_bw) && (!is_inflated || brake_is_queue_usual(b)))
		brake_learn(b, bw);
}

/* Whether no more than the window was in flight for a whole round, after which a queue of our own would be gone. */
static __always_inline u64 brake_was_quiet(const struct brake_ack *b)
{
	return b->s->quiet_delivered && b->s->slot_prior >= b->s->quiet_delivered;
}

/*
 * Whether half of the queue still stands after such a round, which shows that it belongs to other flows. With a
 * window at its minimum nothing can be told, because we cannot send less.
 */
static __always_inline u64 brake_is_not_ours(const struct brake_ack *b)
{
	u64 excess_us = brake_sub(b->s->queue_rtt_us, b->s->usual_rtt_us);

	return b->s->slot_rtt_us > brake_add(b->s->usual_rtt_us, excess_us / 2) && brake_window(b) > b->floor;
}

/*
 * Whether the path has become slower once more while the queue drains: less arrives than the flow sends, by more than
 * noise explains, and the queue is longer than it was at any time before. Only a few further drops are believed,
 * because another flow that fills a deep buffer could show both signs for seconds.
 */
static __always_inline u64 brake_is_slower_still(const struct brake_ack *b, u64 arriving_bw)
{
	return arriving_bw < gain_apply(b->s->bw, brake_sub(GAIN_UNIT, b->p->rate)) &&
	       b->s->slot_rtt_us > b->s->queue_rtt_us && b->s->further_drops < b->p->max_further_drops;
}

/* Judges a slot while the queue drains. Once the queue is gone, the flow begins to look for its rate. */
static __always_inline void brake_drain(const struct brake_ack *b, u64 bw)
{
	u64 arriving_bw = brake_max(brake_max(bw, b->s->last_bw), 1);

	if (!brake_is_inflated(b)) {
		brake_set_mode(b->s, BRAKE_HOLD);
		b->s->base_bw = b->s->bw;
		b->s->raise_rounds = b->s->rounds;
		b->s->back_delivered = 0;
		return;
	}
	if (b->s->quiet_delivered && brake_is_slower_still(b, arriving_bw)) {
		/* What is in flight fits the window of before, so the queue that the further drop has made is our own. */
		b->s->quiet_delivered = 0;
		b->s->further_drops++;
	}
	if (!brake_was_quiet(b)) {
		b->s->queue_rtt_us = brake_max(b->s->queue_rtt_us, b->s->slot_rtt_us);
	} else if (brake_is_not_ours(b)) {
		brake_set_mode(b->s, BRAKE_WATCH);
		b->s->false_entries++;
		b->s->usual_rtt_us = b->s->slot_rtt_us;
		b->s->usual_bw = bw;
		return;
	} else {
		/* What is left of the queue goes in the next round, or belongs to other flows. */
		b->s->queue_rtt_us = b->s->slot_rtt_us;
		b->s->quiet_delivered = b->ack->delivered;
	}
	b->s->bw = arriving_bw;
}

/*
 * Whether the raised rate has brought neither a queue nor more data for patience rounds. Then something else limits
 * the flow, such as its application.
 */
static __always_inline u64 brake_is_unused(const struct brake_ack *b)
{
	return brake_sub(b->s->rounds, b->s->raise_rounds) > b->p->patience;
}

/*
 * The allowed rate after a slot without a queue: above what arrives, and far above it once the path is clearly
 * faster, but never above the old rate. Where the flow does not use what is allowed, the rate grows from its own
 * value, or it would stay at the rate of the application.
 */
static __always_inline u64 brake_raised_bw(const struct brake_ack *b, u64 bw)
{
	u64 is_faster = bw > gain_apply(b->s->base_bw, b->p->grow);
	u64 grow = is_faster ? b->p->grow_fast : b->p->grow;
	u64 from = brake_is_unused(b) || b->s->slot_is_app_limited ? brake_max(b->s->bw, bw) : bw;

	return brake_min(brake_max(b->s->bw, gain_apply(from, grow)), b->s->target_bw);
}

/* Whether the brake was on for a few rounds only, so that the model still knows the old rate. */
static __always_inline u64 brake_is_brief(const struct brake_ack *b)
{
	return brake_sub(b->ack->now_us, b->s->entry_us) <= sat_mul(b->s->usual_rtt_us, b->p->patience);
}

/*
 * Whether the old rate arrives again. Unless the brake was on only briefly, it must have done so for a round: let go
 * earlier, the flow would pace at the slower path's rate until its next probe, because the model has not seen more
 * yet.
 */
static __always_inline u64 brake_is_back(const struct brake_ack *b, u64 is_nearly)
{
	if (!b->s->back_delivered && is_nearly)
		b->s->back_delivered = b->ack->delivered;
	return b->s->back_delivered && (brake_is_brief(b) || b->s->slot_prior >= b->s->back_delivered);
}

/*
 * Judges a slot while the flow looks for its old rate. Hold ends when that rate is back, when the flow is allowed it
 * and does not use it, or when the search has lasted hold_us and the model knows no higher rate.
 */
static __always_inline void brake_hold(const struct brake_ack *b, u64 bw)
{
	u64 nearly = gain_apply(b->s->target_bw, brake_sub(GAIN_UNIT, b->p->rate));
	u64 is_over = brake_is_back(b, bw >= nearly) || (brake_is_unused(b) && b->s->bw >= b->s->target_bw);
	u64 raised;

	if (brake_is_inflated(b)) {
		brake_enter_drain(b, bw);
		return;
	}
	raised = brake_raised_bw(b, bw);
	if (raised > b->s->bw)
		b->s->raise_rounds = b->s->rounds;
	b->s->bw = raised;
	is_over |= brake_sub(b->ack->now_us, b->s->entry_us) > b->p->hold_us && b->max_bw <= b->s->bw;
	if (is_over)
		brake_release(b->s);
}

/*
 * Judges a slot that is over, by the rules of the mode. If half of its time was a single gap between two ACKs, it
 * shows a stall and not a rate, so it is ignored.
 */
static __always_inline void brake_judge_slot(const struct brake_ack *b, u64 span_us)
{
	u64 bw;

	if (sat_mul(b->s->slot_gap_us, 2) > span_us)
		return;
	bw = bw_from(brake_sub(b->ack->delivered, b->s->slot_delivered), span_us);
	if (b->s->mode == BRAKE_HOLD)
		brake_hold(b, bw);
	else if (b->s->slot_is_app_limited)
		b->s->lossy_slots = 0;
	else if (b->s->mode == BRAKE_DRAIN)
		brake_drain(b, bw);
	else
		brake_watch(b, bw, span_us);
	b->s->last_bw = bw;
}

/*
 * Notes the pace of this round and of the one before. Data arrives a round after it was sent, so a slow slot is only
 * a sign of a slow path if the flow did send faster.
 */
static __always_inline void brake_note_pacing(const struct brake_ack *b)
{
	u64 paced_bw = gain_apply(brake_bw(b->s, b->bw), brake_gain(b->s->mode, b->pacing_gain));

	if (b->is_round_start) {
		b->s->paced_bw_before = b->s->paced_bw;
		b->s->paced_bw = paced_bw;
		b->s->rounds += b->s->mode != BRAKE_WATCH;
	}
	b->s->paced_bw = brake_min(b->s->paced_bw, paced_bw);
}

/*
 * Processes one ACK, after the controller has updated its model and before it sets its rate and window. It is the
 * only entry to the brake. Outside the phases that show what the path can do, each ACK begins a new slot.
 */
static __always_inline void brake_on_ack(const struct brake_ack *b)
{
	u64 span_us = brake_sub(b->ack->now_us, b->s->slot_us);

	brake_note_pacing(b);
	if (b->is_marking) {
		b->s->marked_start = b->ack->delivered;
		b->s->marked_end = brake_add(b->ack->delivered, b->ack->inflight);
	}
	if (b->s->mode == BRAKE_DRAIN && !b->s->quiet_delivered && b->ack->inflight <= brake_window(b))
		b->s->quiet_delivered = b->ack->delivered;
	if (b->is_watching && !brake_is_of_probe_rtt(b)) {
		brake_note_ack(b);
		if (span_us >= brake_slot_us(b) && b->s->slot_acks >= b->p->slot_min_acks &&
		    brake_has_slot_data(b, span_us)) {
			brake_judge_slot(b, span_us);
			brake_start_slot(b);
		}
	} else {
		brake_start_slot(b);
	}
	b->s->last_us = b->ack->now_us;
	b->s->window = b->s->mode == BRAKE_WATCH ? U64_MAX : brake_window(b);
}

#endif
