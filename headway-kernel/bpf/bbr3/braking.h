/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Where BBRv3 meets the brake; none of it is in the draft. Part of bbr3.h; twin: headway-cc/src/cc/bbr3/braking.rs,
 * which has the reasons.
 */
#ifndef HEADWAY_BBR3_BRAKING_H
#define HEADWAY_BBR3_BRAKING_H

/*
 * Lets go of the brake because something else takes its place. The long-term bound of before the slow-down comes back: losses
 * on the slower path have lowered it meanwhile, and it must not hold back the faster one.
 */
static __always_inline void bbr3_release_brake(struct bbr3_conn *c)
{
	if (c->bbr->brake.mode != BRAKE_WATCH)
		c->bbr->inflight_longterm = u64_max(c->bbr->inflight_longterm, c->bbr->unbraked_inflight_longterm);
	brake_release(&c->bbr->brake);
}

/*
 * Restores the long-term bound of before the slow-down once the brake allows the old rate again. Losses on the slower
 * path have lowered the bound meanwhile, and it must not hold back the faster path.
 */
static __always_inline void bbr3_adapt_inflight_longterm_to_brake(struct bbr3_conn *c, u64 mode, u64 bw)
{
	const struct brake *now = &c->bbr->brake;

	if (mode == BRAKE_WATCH && now->mode != BRAKE_WATCH)
		c->bbr->unbraked_inflight_longterm = c->bbr->inflight_longterm;
	if (mode == BRAKE_HOLD && bw < now->target_bw && now->bw >= now->target_bw)
		c->bbr->inflight_longterm = u64_max(c->bbr->inflight_longterm, c->bbr->unbraked_inflight_longterm);
}

/*
 * Hands this ACK to the brake and takes over its bandwidth. Startup and Drain are not watched, because both change
 * the rate and the queue themselves, and a link that varies has its own bound.
 */
static __noinline void bbr3_run_brake(struct bbr3_conn *c)
{
	struct brake_ack b = {
		.s = &c->bbr->brake,
		.p = &c->p->brake,
		.ack = c->ack,
		.max_bw = c->bbr->max_bw,
		.min_rtt_us = c->bbr->min_rtt_us,
		.bw = c->bbr->bw,
		.pacing_gain = c->bbr->pacing_gain,
		.is_round_start = c->bbr->round_start,
		.is_marking = c->out->mark_app_limited,
		.is_watching = (bbr3_is_in_a_probe_bw_state(c) || c->bbr->state == BBR3_PROBE_RTT) &&
			       !c->bbr->varying.is_on,
		.is_steady = c->bbr->state == BBR3_PROBE_BW_CRUISE,
		.floor = bbr3_min_pipe_cwnd(c),
	};
	u64 mode = b.s->mode, bw = b.s->bw;

	brake_on_ack(&b);
	bbr3_adapt_inflight_longterm_to_brake(c, mode, bw);
	c->bbr->bw = brake_bw(b.s, c->bbr->bw);
}

/* Lets the brake judge the ACK if it is switched on. */
static __always_inline void bbr3_update_brake(struct bbr3_conn *c)
{
	if (c->p->brake.is_on)
		bbr3_run_brake(c);
}

/*
 * Keeps the window within the brake's bound. Pacing slower only stops a queue from growing; less data in flight
 * empties it.
 */
static __always_inline void bbr3_bound_cwnd_for_brake(struct bbr3_conn *c)
{
	if (c->bbr->brake.mode != BRAKE_WATCH)
		c->out->cwnd = u64_min(c->out->cwnd, c->bbr->brake.window);
}

#endif
