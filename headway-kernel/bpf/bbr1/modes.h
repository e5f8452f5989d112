/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The modes, and the gain cycle of PROBE_BW. Part of bbr1.h; twin: headway-cc/src/cc/bbr1/modes.rs. */
#ifndef HEADWAY_BBR1_MODES_H
#define HEADWAY_BBR1_MODES_H

/*
 * Whether this phase of the gain cycle is over. A phase at gain 1 lasts one minimum RTT; the probing and the draining
 * phase also depend on how much is in flight.
 */
static __always_inline u64 bbr_is_next_cycle_phase(const struct bbr1_sock *sk)
{
	const struct bbr1_state *bbr = sk->bbr;
	u64 is_full_length = sat_sub(sk->ack->delivered_us, bbr->cycle_mstamp) > bbr->min_rtt_us;
	u64 inflight;

	if (bbr->pacing_gain == GAIN_UNIT)
		return is_full_length;
	inflight = bbr_packets_in_net_at_edt(sk, sk->ack->prior_inflight);
	/* Probing goes on until inflight is reached, unless losses show that the buffer is too short. */
	if (bbr->pacing_gain > GAIN_UNIT)
		return is_full_length && (sk->ack->newly_lost ||
					  inflight >= bbr_inflight(sk, bbr_max_bw(sk), bbr->pacing_gain));
	/* Draining ends early when the extra queue is gone. */
	return is_full_length || inflight <= bbr_inflight(sk, bbr_max_bw(sk), GAIN_UNIT);
}

/* Goes to the next phase of the gain cycle and notes its start, from which its length is measured. */
static __always_inline void bbr_advance_cycle_phase(struct bbr1_sock *sk)
{
	u64 next = sk->bbr->cycle_idx + 1;

	sk->bbr->cycle_idx = next < sk->p->cycle_len ? next : 0;
	sk->bbr->cycle_mstamp = sk->ack->delivered_us;
}

/*
 * Advances the gain cycle of PROBE_BW: one phase a quarter faster to find out whether there is more, one as much
 * slower to drain what that queued, then six at the estimate.
 */
static __always_inline void bbr_update_cycle_phase(struct bbr1_sock *sk)
{
	if (sk->bbr->mode == BBR_PROBE_BW && bbr_is_next_cycle_phase(sk))
		bbr_advance_cycle_phase(sk);
}

/*
 * Changes the mode. It is the only place that does; the twin in Rust checks each change against a table of reasons.
 */
static __always_inline void bbr_set_mode(struct bbr1_sock *sk, u64 mode)
{
	sk->bbr->mode = mode;
}

/* Begins to look for the path's rate, doubling the rate each round. */
static __always_inline void bbr_reset_startup_mode(struct bbr1_sock *sk)
{
	bbr_set_mode(sk, BBR_STARTUP);
}

/*
 * Begins the gain cycle at a random phase, so that flows that share a bottleneck do not probe together. It is never
 * the draining phase, because nothing was queued.
 */
static __always_inline void bbr_reset_probe_bw_mode(struct bbr1_sock *sk)
{
	u64 back = mul_shift((u32)sk->ack->rand, sk->p->cycle_rand, 32);

	bbr_set_mode(sk, BBR_PROBE_BW);
	sk->bbr->cycle_idx = sat_sub(sat_sub(sk->p->cycle_len, 1), back);
	bbr_advance_cycle_phase(sk);
}

/*
 * Goes back to STARTUP or PROBE_BW after PROBE_RTT. DRAIN needs no return, because PROBE_RTT has emptied the queue.
 */
static __always_inline void bbr_reset_mode(struct bbr1_sock *sk)
{
	if (!sk->bbr->full_bw_reached)
		bbr_reset_startup_mode(sk);
	else
		bbr_reset_probe_bw_mode(sk);
}

/*
 * Decides whether the pipe is full: the bandwidth has not grown by a quarter for three rounds. Had there been room,
 * sending faster would have delivered faster.
 */
static __always_inline void bbr_check_full_bw_reached(struct bbr1_sock *sk)
{
	struct bbr1_state *bbr = sk->bbr;

	if (bbr->full_bw_reached || !bbr->round_start || sk->ack->rs_is_app_limited)
		return;
	if (bbr_max_bw(sk) >= gain_apply(bbr->full_bw, sk->p->full_bw_thresh)) {
		bbr->full_bw = bbr_max_bw(sk);
		bbr->full_bw_cnt = 0;
		return;
	}
	bbr->full_bw_cnt++;
	bbr->full_bw_reached = bbr->full_bw_cnt >= sk->p->full_bw_cnt;
}

/* Goes from STARTUP to DRAIN when the pipe is full, and on to PROBE_BW when the queue that STARTUP built is gone. */
static __always_inline void bbr_check_drain(struct bbr1_sock *sk)
{
	if (sk->bbr->mode == BBR_STARTUP && sk->bbr->full_bw_reached)
		bbr_set_mode(sk, BBR_DRAIN);
	if (sk->bbr->mode == BBR_DRAIN &&
	    bbr_packets_in_net_at_edt(sk, sk->ack->inflight) <= bbr_inflight(sk, bbr_max_bw(sk), GAIN_UNIT))
		bbr_reset_probe_bw_mode(sk);
}

/* Sets the gains of the mode: how fast it sends, and how much it may have in flight, in proportion to the model. */
static __always_inline void bbr_update_gains(struct bbr1_sock *sk)
{
	struct bbr1_state *bbr = sk->bbr;
	const struct bbr1_params *p = sk->p;

	if (bbr->mode == BBR_STARTUP) {
		bbr->pacing_gain = p->high_gain;
		bbr->cwnd_gain = p->high_gain;
	} else if (bbr->mode == BBR_DRAIN) {
		bbr->pacing_gain = p->drain_gain;
		bbr->cwnd_gain = p->high_gain;
	} else if (bbr->mode == BBR_PROBE_BW) {
		bbr->pacing_gain = GAIN_UNIT;
		if (!bbr->lt_use_bw && bbr->cycle_idx == 0)
			bbr->pacing_gain = p->pacing_gain_up;
		else if (!bbr->lt_use_bw && bbr->cycle_idx == 1)
			bbr->pacing_gain = p->pacing_gain_down;
		bbr->cwnd_gain = p->cwnd_gain;
	} else {
		bbr->pacing_gain = GAIN_UNIT;
		bbr->cwnd_gain = GAIN_UNIT;
	}
}

#endif
