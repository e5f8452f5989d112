/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The minimum RTT, and PROBE_RTT. Part of bbr1.h; twin: headway-cc/src/cc/bbr1/probe_rtt.rs. */
#ifndef HEADWAY_BBR1_PROBE_RTT_H
#define HEADWAY_BBR1_PROBE_RTT_H

/* Leaves PROBE_RTT when its time is up, and restores the window. */
static __always_inline void bbr_check_probe_rtt_done(struct bbr1_sock *sk)
{
	struct bbr1_state *bbr = sk->bbr;

	if (!bbr->probe_rtt_done_stamp || sk->ack->now_us <= bbr->probe_rtt_done_stamp)
		return;
	bbr->min_rtt_stamp = sk->ack->now_us;
	sk->out->cwnd = u64_max(sk->out->cwnd, bbr->prior_cwnd);
	bbr_reset_mode(sk);
}

/*
 * Tracks the minimum RTT of the last 10 s, which is the RTT without a queue. When it was not seen for that long,
 * PROBE_RTT holds four segments in flight to see it again; otherwise a standing queue would count as part of the
 * path.
 */
static __always_inline void bbr_update_min_rtt(struct bbr1_sock *sk)
{
	struct bbr1_state *bbr = sk->bbr;
	const struct ack *ack = sk->ack;
	u64 filter_expired = ack->now_us > sat_add(bbr->min_rtt_stamp, sk->p->min_rtt_win_us);

	if (ack->rs_rtt_us < NO_RTT &&
	    (ack->rs_rtt_us < bbr->min_rtt_us || (filter_expired && !ack->rs_is_ack_delayed))) {
		bbr->min_rtt_us = ack->rs_rtt_us;
		bbr->min_rtt_stamp = ack->now_us;
	}
	if (sk->p->probe_rtt_mode_us && filter_expired && !bbr->idle_restart && bbr->mode != BBR_PROBE_RTT) {
		bbr_set_mode(sk, BBR_PROBE_RTT);
		bbr_save_cwnd(sk);
		bbr->probe_rtt_done_stamp = 0;
	}
	if (bbr->mode == BBR_PROBE_RTT) {
		sk->out->mark_app_limited = 1; /* samples of this mode are low by design */
		if (!bbr->probe_rtt_done_stamp && ack->inflight <= bbr_segs(sk, sk->p->cwnd_min_target)) {
			bbr->probe_rtt_done_stamp = sat_add(ack->now_us, sk->p->probe_rtt_mode_us);
			bbr->probe_rtt_round_done = 0;
			bbr->next_rtt_delivered = ack->delivered;
		} else if (bbr->probe_rtt_done_stamp) {
			if (bbr->round_start)
				bbr->probe_rtt_round_done = 1;
			if (bbr->probe_rtt_round_done)
				bbr_check_probe_rtt_done(sk);
		}
	}
	if (ack->rs_delivered)
		bbr->idle_restart = 0;
}

#endif
