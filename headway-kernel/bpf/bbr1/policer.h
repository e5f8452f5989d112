/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The long-term bandwidth: the rate behind a policer. Part of bbr1.h; twin: headway-cc/src/cc/bbr1/policer.rs. */
#ifndef HEADWAY_BBR1_POLICER_H
#define HEADWAY_BBR1_POLICER_H

/* Begins an interval in which the rate behind a policer is measured. */
static __always_inline void bbr_reset_lt_bw_sampling_interval(struct bbr1_sock *sk)
{
	sk->bbr->lt_last_stamp = sk->ack->delivered_us / USEC_PER_MSEC;
	sk->bbr->lt_last_delivered = sk->ack->delivered;
	sk->bbr->lt_last_lost = sk->ack->lost;
	sk->bbr->lt_rtt_cnt = 0;
}

/* Forgets the policer, so that the windowed maximum is the estimate again. */
static __always_inline void bbr_reset_lt_bw_sampling(struct bbr1_sock *sk)
{
	sk->bbr->lt_bw = 0;
	sk->bbr->lt_use_bw = 0;
	sk->bbr->lt_is_sampling = 0;
	bbr_reset_lt_bw_sampling_interval(sk);
}

/*
 * Compares the rate of a lossy interval with that of the one before. If both are about the same, a policer is assumed
 * and their mean rate is used from now on, because pacing faster would only lose packets.
 */
static __always_inline void bbr_lt_bw_interval_done(struct bbr1_sock *sk, u64 bw)
{
	struct bbr1_state *bbr = sk->bbr;
	u64 diff = bw > bbr->lt_bw ? bw - bbr->lt_bw : bbr->lt_bw - bw;

	if (bbr->lt_bw && (diff <= gain_apply(bbr->lt_bw, sk->p->lt_bw_ratio) ||
			   bbr_rate_bytes_per_sec(sk, diff, GAIN_UNIT) <= sk->p->lt_bw_diff)) {
		bbr->lt_bw = sat_add(bw, bbr->lt_bw) >> 1;
		bbr->lt_use_bw = 1;
		bbr->pacing_gain = GAIN_UNIT;
		bbr->lt_rtt_cnt = 0;
		return;
	}
	bbr->lt_bw = bw;
	bbr_reset_lt_bw_sampling_interval(sk);
}

/*
 * Ends the interval if it lost enough, and compares its rate with that of the interval before. One that lasted too
 * long for a policer starts the sampling over.
 */
static __always_inline void bbr_lt_bw_interval_end(struct bbr1_sock *sk)
{
	const struct bbr1_params *p = sk->p;
	u64 lost = sat_sub(sk->ack->lost, sk->bbr->lt_last_lost);
	u64 delivered = sat_sub(sk->ack->delivered, sk->bbr->lt_last_delivered);
	u64 t_ms = sat_sub(sk->ack->delivered_us / USEC_PER_MSEC, sk->bbr->lt_last_stamp);

	if (!delivered || sat_mul(lost, GAIN_UNIT) < sat_mul(delivered, p->lt_loss_thresh))
		return;
	if (t_ms >= p->lt_intvl_max_ms)
		bbr_reset_lt_bw_sampling(sk);
	else if (t_ms)
		bbr_lt_bw_interval_done(sk, bw_from(delivered, sat_mul(t_ms, USEC_PER_MSEC)));
}

/*
 * Looks for a policer on each ACK. Its intervals last 4 to 16 rounds, go from loss to loss, and must lose a fifth.
 * Without this the flow would pace by the bursts that the policer lets through and lose everything beyond the tokens.
 */
static __noinline void bbr_lt_bw_sampling(struct bbr1_sock *sk, u64 losses, u64 is_app_limited)
{
	struct bbr1_state *bbr = sk->bbr;
	const struct bbr1_params *p = sk->p;

	if (bbr->lt_use_bw) {
		if (bbr->mode == BBR_PROBE_BW && bbr->round_start && ++bbr->lt_rtt_cnt >= p->lt_bw_max_rtts) {
			bbr_reset_lt_bw_sampling(sk);
			bbr_reset_probe_bw_mode(sk);
		}
		return;
	}
	if (!bbr->lt_is_sampling) {
		if (!losses) /* the policer still has tokens */
			return;
		bbr_reset_lt_bw_sampling_interval(sk);
		bbr->lt_is_sampling = 1;
	}
	if (is_app_limited) {
		bbr_reset_lt_bw_sampling(sk);
		return;
	}
	if (bbr->round_start)
		bbr->lt_rtt_cnt++;
	if (bbr->lt_rtt_cnt < p->lt_intvl_min_rtts)
		return;
	if (bbr->lt_rtt_cnt > p->lt_intvl_max_rtts) {
		bbr_reset_lt_bw_sampling(sk);
		return;
	}
	if (losses) /* an interval ends where tokens ran out */
		bbr_lt_bw_interval_end(sk);
}

#endif
