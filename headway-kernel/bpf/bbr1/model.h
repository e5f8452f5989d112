/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The model of the path: the windowed maximum of rate samples, and how much ACKs come in bunches. Part of bbr1.h;
 * twin: headway-cc/src/cc/bbr1/model.rs.
 */
#ifndef HEADWAY_BBR1_MODEL_H
#define HEADWAY_BBR1_MODEL_H

/*
 * Counts rounds and takes the rate sample into the windowed maximum. A sample that the application limited says
 * little about the path, unless it is at least as high as the maximum.
 */
static __always_inline void bbr_update_bw(struct bbr1_sock *sk)
{
	struct bbr1_state *bbr = sk->bbr;
	const struct ack *ack = sk->ack;
	u64 bw;

	bbr->round_start = 0;
	if (!ack->rs_interval_us)
		return;
	if (ack->rs_prior_delivered >= bbr->next_rtt_delivered) {
		bbr->next_rtt_delivered = ack->delivered;
		bbr->rtt_cnt++;
		bbr->round_start = 1;
		bbr->packet_conservation = 0;
	}
	bbr_lt_bw_sampling(sk, ack->newly_lost, ack->rs_is_app_limited);
	bw = bw_from(ack->rs_delivered, ack->rs_interval_us);
	/* An application-limited sample says little, unless it is at least as high. */
	if (!ack->rs_is_app_limited || bw >= bbr_max_bw(sk))
		winmax_running_max(&bbr->bw, sk->p->bw_rtts, bbr->rtt_cnt, bw);
}

/*
 * Measures how much more data one bunch of ACKs brings than the bandwidth explains, because the window needs that
 * much room.
 */
static __always_inline void bbr_update_ack_aggregation(struct bbr1_sock *sk)
{
	struct bbr1_state *bbr = sk->bbr;
	const struct bbr1_params *p = sk->p;
	const struct ack *ack = sk->ack;
	u64 expected_acked, extra_acked;

	if (!p->extra_acked_gain || !ack->newly_acked || !ack->rs_interval_us)
		return;
	if (bbr->round_start && ++bbr->extra_acked_win_rtts >= p->extra_acked_win_rtts) {
		bbr->extra_acked_win_rtts = 0;
		bbr->extra_acked_win_idx = !bbr->extra_acked_win_idx;
		if (bbr->extra_acked_win_idx)
			bbr->extra_acked[1] = 0;
		else
			bbr->extra_acked[0] = 0;
	}
	expected_acked = bw_data(bbr_bw(sk), sat_sub(ack->delivered_us, bbr->ack_epoch_mstamp));
	/* A new epoch when ACKs are no faster than expected, or when the old one is very long. */
	if (bbr->ack_epoch_acked <= expected_acked ||
	    sat_add(bbr->ack_epoch_acked, ack->newly_acked) >= bbr_segs(sk, p->ack_epoch_acked_reset_thresh)) {
		bbr->ack_epoch_acked = 0;
		bbr->ack_epoch_mstamp = ack->delivered_us;
		expected_acked = 0;
	}
	bbr->ack_epoch_acked = u64_min(sat_add(bbr->ack_epoch_acked, ack->newly_acked),
				       bbr_segs(sk, sat_sub(p->ack_epoch_acked_reset_thresh, 1)));
	extra_acked = u64_min(sat_sub(bbr->ack_epoch_acked, expected_acked), sk->out->cwnd);
	if (bbr->extra_acked_win_idx)
		bbr->extra_acked[1] = u64_max(bbr->extra_acked[1], extra_acked);
	else
		bbr->extra_acked[0] = u64_max(bbr->extra_acked[0], extra_acked);
}

#endif
