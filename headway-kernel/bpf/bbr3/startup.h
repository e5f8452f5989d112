/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Startup (§5.3.1) and Drain (§5.3.2): finding the path's rate for the first time. Part of bbr3.h; twin:
 * headway-cc/src/cc/bbr3/startup.rs, which has the reasons.
 */
#ifndef HEADWAY_BBR3_STARTUP_H
#define HEADWAY_BBR3_STARTUP_H

/*
 * Begins to look for the path's rate, doubling the rate each round (§5.3.1.1 EnterStartup). What bounds the flow to a slower
 * path, or to one that varies, lets go, because neither is watched in Startup.
 */
static __always_inline void bbr3_enter_startup(struct bbr3_conn *c)
{
	bbr3_release_brake(c);
	c->bbr->varying.is_on = 0;
	bbr3_set_state(c, BBR3_STARTUP);
}

/*
 * Begins Drain, which sends at half of the rate found, so that the queue that Startup built in its last rounds is
 * gone within about one (§5.3.2 EnterDrain).
 */
static __always_inline void bbr3_enter_drain(struct bbr3_conn *c)
{
	bbr3_set_state(c, BBR3_DRAIN);
	c->bbr->drain_start_round = c->bbr->round_count;
}

/*
 * Whether loss shows that the pipe is full before the rate does (§5.3.1.3). One burst of random loss must not end
 * Startup, so there must be many ranges, too much of the volume lost, and a whole round of fast recovery.
 */
static __always_inline u64 bbr3_is_startup_loss_high(const struct bbr3_conn *c)
{
	u64 is_ce_loss, is_round_in_recovery;

	if (!c->ack->has_selective_acks && c->ack->ca_state == CA_RECOVERY)
		return c->ack->newly_lost || c->bbr->is_loss_in_round;
	is_ce_loss = c->ack->rs_delivered_ce && !bbr3_is_ecn_eligible(c);
	is_round_in_recovery =
		c->ack->ca_state == CA_RECOVERY && c->ack->rs_prior_delivered >= c->bbr->recovery_delivered;
	return c->bbr->loss_round_start && !bbr3_is_growth_free(c) && (is_round_in_recovery || is_ce_loss) &&
	       c->bbr->lost_ranges_in_round >= c->p->startup_full_loss_count && bbr3_is_inflight_too_high(c);
}

/*
 * Whether enough rounds in a row were mostly marked to say that the pipe is full (Linux
 * bbr_check_ecn_too_high_in_startup).
 */
static __always_inline u64 bbr3_is_startup_ecn_high(const struct bbr3_conn *c)
{
	return bbr3_is_ecn_eligible(c) && c->bbr->startup_ecn_rounds >= c->p->startup_full_ecn_count;
}

/*
 * Ends the search when loss or marks show that the pipe is full, because a shallow buffer overflows long before the
 * rate stops growing (§5.3.1.3 CheckStartupHighLoss).
 */
static __noinline void bbr3_check_startup_high_loss(struct bbr3_conn *c)
{
	if (c->bbr->state != BBR3_STARTUP || c->bbr->full_bw_reached)
		return;
	if (bbr3_is_startup_loss_high(c) || bbr3_is_startup_ecn_high(c)) {
		c->bbr->undo_state = BBR3_STARTUP;
		c->bbr->full_bw_reached = 1;
		c->bbr->inflight_longterm =
			u64_max(bbr3_bdp_multiple(c, c->bbr->max_bw, GAIN_UNIT), c->bbr->inflight_latest);
	}
}

/* Leaves Startup when the pipe is full, for whichever reason (§5.3.1.1 CheckStartupDone). */
static __always_inline void bbr3_check_startup_done(struct bbr3_conn *c)
{
	bbr3_check_startup_high_loss(c);
	if (c->bbr->state == BBR3_STARTUP && c->bbr->full_bw_reached)
		bbr3_enter_drain(c);
}

/*
 * Leaves Drain when inflight fits into the path, because the queue is gone then (§5.3.2 CheckDrainDone, with §5.3.3.9
 * EnterProbeBW). After three rounds it ends in any case, because other flows may keep the queue up.
 */
static __noinline void bbr3_check_drain_done(struct bbr3_conn *c)
{
	u64 last_round = sat_add(c->bbr->drain_start_round, c->p->drain_rounds);

	if (c->bbr->state != BBR3_DRAIN)
		return;
	if (c->ack->inflight <= bbr3_inflight(c, c->bbr->max_bw, GAIN_UNIT) || c->bbr->round_count > last_round)
		bbr3_start_probe_bw_down(c);
}

#endif
