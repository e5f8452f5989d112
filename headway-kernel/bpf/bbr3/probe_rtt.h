/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * ProbeRTT (§5.3.4): seeing the RTT without a queue again. Part of bbr3.h; twin:
 * headway-cc/src/cc/bbr3/probe_rtt.rs, which has the reasons.
 */
#ifndef HEADWAY_BBR3_PROBE_RTT_H
#define HEADWAY_BBR3_PROBE_RTT_H

/*
 * Begins to look for the minimum RTT (§5.3.4.3 EnterProbeRTT). The window is saved before the state changes: in
 * ProbeRTT saving keeps the larger of two values, so that an older, larger window would survive.
 */
static __always_inline void bbr3_enter_probe_rtt(struct bbr3_conn *c)
{
	bbr3_save_cwnd(c);
	bbr3_set_state(c, BBR3_PROBE_RTT);
	c->bbr->probe_rtt_done_stamp = 0;
	c->bbr->ack_phase = BBR3_ACKS_PROBE_STOPPING;
	bbr3_start_round(c);
}

/*
 * Leaves ProbeRTT for Startup if the pipe was never full, else for CRUISE (§5.3.4.4 ExitProbeRTT). The short-term
 * bounds are lifted, because the samples that they came from are old by now.
 */
static __always_inline void bbr3_exit_probe_rtt(struct bbr3_conn *c)
{
	bbr3_reset_short_term_model(c);
	if (c->bbr->full_bw_reached) {
		bbr3_start_probe_bw_down(c);
		bbr3_start_probe_bw_cruise(c);
	} else {
		bbr3_enter_startup(c);
	}
}

/* Leaves ProbeRTT when its time is up, and restores the window (§5.3.4.3 CheckProbeRTTDone). */
static __noinline void bbr3_check_probe_rtt_done(struct bbr3_conn *c)
{
	if (c->bbr->probe_rtt_done_stamp && c->ack->now_us > c->bbr->probe_rtt_done_stamp) {
		c->bbr->probe_rtt_min_stamp = c->ack->now_us;
		bbr3_restore_cwnd(c);
		bbr3_exit_probe_rtt(c);
	}
}

/*
 * Waits until inflight is low, and then for 200 ms and a round, which is long enough for all flows to empty the queue
 * together (§5.3.4.3 HandleProbeRTT).
 */
static __noinline void bbr3_handle_probe_rtt(struct bbr3_conn *c)
{
	c->out->mark_app_limited = 1; /* samples of this state are low by design */
	if (!c->bbr->probe_rtt_done_stamp && c->ack->inflight <= bbr3_probe_rtt_cwnd(c)) {
		c->bbr->probe_rtt_done_stamp = sat_add(c->ack->now_us, c->p->probe_rtt_duration_us);
		c->bbr->probe_rtt_round_done = 0;
		bbr3_start_round(c);
	} else if (c->bbr->probe_rtt_done_stamp) {
		if (c->bbr->round_start)
			c->bbr->probe_rtt_round_done = 1;
		if (c->bbr->probe_rtt_round_done)
			bbr3_check_probe_rtt_done(c);
	}
}

/*
 * Enters ProbeRTT when no lower RTT was seen for too long (§5.3.4.3 CheckProbeRTT). It does not do so after an idle
 * period, which has emptied the queue anyway.
 */
static __always_inline void bbr3_check_probe_rtt(struct bbr3_conn *c)
{
	if (c->bbr->state != BBR3_PROBE_RTT && c->bbr->probe_rtt_expired && !c->bbr->idle_restart)
		bbr3_enter_probe_rtt(c);
	if (c->bbr->state == BBR3_PROBE_RTT)
		bbr3_handle_probe_rtt(c);
	c->bbr->idle_restart = 0; /* the ACK delivered data */
}

#endif
