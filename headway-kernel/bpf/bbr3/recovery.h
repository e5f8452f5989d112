/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Recovery of losses (§5.6.4.4), its undo (§5.5.11.2), and the restart from idle (§5.4.1). Part of bbr3.h; twin:
 * headway-cc/src/cc/bbr3/recovery.rs, which has the reasons.
 */
#ifndef HEADWAY_BBR3_RECOVERY_H
#define HEADWAY_BBR3_RECOVERY_H

/*
 * Notes when recovery begins and ends. At its end the window is restored, because loss alone must not shrink it for
 * good (§5.6.4.4).
 */
static __always_inline void bbr3_update_recovery(struct bbr3_conn *c)
{
	u64 prev_state = c->bbr->prev_ca_state, state = c->ack->ca_state;

	if (state != CA_RECOVERY)
		c->bbr->recovery_delivered = BBR3_INFINITY;
	else if (prev_state != CA_RECOVERY)
		c->bbr->recovery_delivered = c->ack->delivered;
	if (state < CA_RECOVERY) {
		if (prev_state >= CA_RECOVERY)
			bbr3_restore_cwnd(c);
		/* Losses that this ACK revealed without entering recovery may yet lead to one. */
		if (!c->ack->newly_lost)
			c->bbr->is_undo_saved = 0;
	}
	c->bbr->prev_ca_state = state;
}

/*
 * Saves the window and the bounds when the transport is about to cut the window, for the end of recovery and for an
 * undo (§5.6.4.4 OnEnterFastRecovery).
 */
static __noinline void bbr3_on_enter_fast_recovery(struct bbr3_conn *c)
{
	bbr3_save_cwnd(c);
	bbr3_save_state_upon_loss(c);
}

/*
 * Handles a retransmission timeout (§5.6.4.4 OnEnterRTO). Nothing is known of what is still in flight, so the window
 * leaves room for one segment more and grows from there.
 */
static __noinline void bbr3_on_enter_rto(struct bbr3_conn *c)
{
	c->bbr->prev_ca_state = CA_LOSS;
	c->bbr->recovery_delivered = BBR3_INFINITY;
	bbr3_save_cwnd(c);
	bbr3_save_state_upon_loss(c);
	c->out->cwnd = sat_add(c->ack->inflight, bbr3_segments(c, 1));
	bbr3_clamp_cwnd(c);
}

/*
 * Handles losses that proved spurious: undoes what they did to the window, the bounds and the state (§5.5.11.2
 * HandleSpuriousLossDetection). The bounds are not lowered, because they may have grown for other reasons.
 */
static __noinline void bbr3_handle_spurious_loss_detection(struct bbr3_conn *c)
{
	struct bbr3_state *bbr = c->bbr;

	bbr3_restore_cwnd(c);
	bbr3_clamp_cwnd(c);
	bbr->is_loss_in_round = 0;
	bbr3_reset_full_bw(c);
	bbr->bw_shortterm = u64_max(bbr->bw_shortterm, bbr->undo_bw_shortterm);
	bbr->inflight_shortterm = u64_max(bbr->inflight_shortterm, bbr->undo_inflight_shortterm);
	bbr->inflight_longterm = u64_max(bbr->inflight_longterm, bbr->undo_inflight_longterm);
	if (bbr->undo_state == BBR3_STARTUP && bbr->state != BBR3_STARTUP) {
		bbr->full_bw_reached = 0;
		if (bbr->state != BBR3_PROBE_RTT)
			bbr3_enter_startup(c);
	} else if (bbr->undo_state == BBR3_PROBE_BW_UP && bbr->state != BBR3_PROBE_BW_UP &&
		   bbr->state != BBR3_PROBE_RTT) {
		bbr3_start_probe_bw_refill(c);
	}
	bbr->undo_state = BBR3_NONE;
	bbr->is_undo_saved = 0;
}

/*
 * Handles the application sending again after nothing was in flight (§5.4.1 HandleRestartFromIdle). The flow paces at
 * the estimate, because a burst at the gain of the phase would rebuild the queue that the pause has emptied.
 */
static __noinline void bbr3_handle_restart_from_idle(struct bbr3_conn *c)
{
	if (!c->ack->is_app_limited)
		return;
	c->bbr->idle_restart = 1;
	c->bbr->extra_acked_interval_start = c->ack->now_us;
	c->bbr->extra_acked_delivered = 0;
	bbr3_note_restart(c);
	if (bbr3_is_in_a_probe_bw_state(c)) {
		bbr3_set_pacing_rate_with_gain(c, c->p->cruise_pacing_gain);
	} else if (c->bbr->state == BBR3_PROBE_RTT) {
		bbr3_check_probe_rtt_done(c);
		bbr3_clamp_cwnd(c);
	}
}

#endif
