/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Computes what the transport is told: the pacing rate, the size of a burst and the window, and the volumes that
 * these are made of. Part of bbr1.h; twin: headway-cc/src/cc/bbr1/control.rs.
 */
#ifndef HEADWAY_BBR1_CONTROL_H
#define HEADWAY_BBR1_CONTROL_H

/* A number of segments in the transport's unit of data, which is the packet for TCP and the byte for QUIC. */
static __always_inline u64 bbr_segs(const struct bbr1_sock *sk, u64 segs)
{
	return sat_mul(segs, u64_max(sk->ack->smss, 1));
}

/* Bytes in one unit of data: the MSS for TCP, 1 for QUIC. */
static __always_inline u64 bbr_unit_bytes(const struct bbr1_sock *sk)
{
	return u64_max(sk->ack->unit_bytes, 1);
}

/*
 * The largest rate sample of the last ten rounds. Queues and pauses only lower samples, so the largest is the path's
 * rate.
 */
static __always_inline u64 bbr_max_bw(const struct bbr1_sock *sk)
{
	return winmax_get(&sk->bbr->bw);
}

/*
 * The bandwidth in use: the windowed maximum, or a policer's rate where one was found, because the bursts that a
 * policer lets through make the maximum too high.
 */
static __always_inline u64 bbr_bw(const struct bbr1_sock *sk)
{
	return sk->bbr->lt_use_bw ? sk->bbr->lt_bw : bbr_max_bw(sk);
}

/* The most data that was ACKed in one bunch beyond what the bandwidth explains, over the last one to two slots. */
static __always_inline u64 bbr_extra_acked(const struct bbr1_sock *sk)
{
	return u64_max(sk->bbr->extra_acked[0], sk->bbr->extra_acked[1]);
}

/* A bandwidth times a gain in bytes per second, less one per cent, so that an existing queue shrinks. */
static __noinline u64 bbr_rate_bytes_per_sec(const struct bbr1_sock *sk, u64 bw, u64 gain)
{
	u64 rate = gain_apply(sat_mul(bw, bbr_unit_bytes(sk)), gain);

	return mul_shift(rate, USEC_PER_SEC / 100 * sat_sub(100, sk->p->pacing_margin_percent), BW_SCALE);
}

/* The pacing rate for a bandwidth and a gain, in bytes per second, within the limit that the application sets. */
static __always_inline u64 bbr_bw_to_pacing_rate(const struct bbr1_sock *sk, u64 bw, u64 gain)
{
	return u64_min(bbr_rate_bytes_per_sec(sk, bw, gain), sk->ack->max_pacing_rate);
}

/*
 * Sets the first pacing rate: the window per smoothed RTT, times the gain of STARTUP. Before there is an RTT a
 * millisecond is assumed, so that a fast path does not begin slowly.
 */
static __always_inline void bbr_init_pacing_rate_from_rtt(struct bbr1_sock *sk)
{
	u64 rtt_us = sk->p->init_rtt_us;

	if (sk->ack->srtt_us) {
		rtt_us = sk->ack->srtt_us;
		sk->bbr->has_seen_rtt = 1;
	}
	sk->out->pacing_rate = bbr_bw_to_pacing_rate(sk, bw_from(sk->out->cwnd, rtt_us), sk->p->high_gain);
}

/*
 * Sets the pacing rate to bandwidth times gain. Until the pipe was full once the rate only rises, because a low
 * sample early on must not slow down STARTUP.
 */
static __noinline void bbr_set_pacing_rate(struct bbr1_sock *sk, u64 bw, u64 gain)
{
	u64 rate = bbr_bw_to_pacing_rate(sk, bw, gain);

	if (!sk->bbr->has_seen_rtt && sk->ack->srtt_us)
		bbr_init_pacing_rate_from_rtt(sk);
	if (sk->bbr->full_bw_reached || rate > sk->out->pacing_rate)
		sk->out->pacing_rate = rate;
}

/*
 * The smallest burst at this pacing rate (bytes per second), in segments. On slow paths even two segments would be a
 * noticeable queue.
 */
static __always_inline u64 bbr1_min_tso_segs(const struct bbr1_params *p, u64 pacing_rate)
{
	return pacing_rate < p->min_tso_rate ? 1 : 2;
}

/*
 * How much leaves in one burst, in units of data: what the pacing rate sends in about a millisecond, because larger
 * bursts make queues and smaller ones cost CPU time.
 */
static __noinline u64 bbr_tso_segs_goal(const struct bbr1_sock *sk)
{
	u64 mss = bbr_segs(sk, bbr_unit_bytes(sk));
	u64 bytes = u64_min(sk->out->pacing_rate >> (sk->p->pacing_shift & 63), sk->p->gso_max_bytes);
	u64 segs = u64_max(bytes / mss, bbr1_min_tso_segs(sk->p, sk->out->pacing_rate));

	return bbr_segs(sk, u64_min(segs, sk->p->max_tso_segs));
}

/* Saves the window before recovery or PROBE_RTT reduces it, so that it can be restored. */
static __always_inline void bbr_save_cwnd(struct bbr1_sock *sk)
{
	struct bbr1_state *bbr = sk->bbr;

	if (bbr->prev_ca_state < CA_RECOVERY && bbr->mode != BBR_PROBE_RTT)
		bbr->prior_cwnd = sk->out->cwnd;
	else /* reduced already: the earlier value may be the better one */
		bbr->prior_cwnd = u64_max(bbr->prior_cwnd, sk->out->cwnd);
}

/*
 * The BDP (bandwidth times minimum RTT, the volume that fills the path without a queue), times a gain. It is rounded
 * up, because a pipe that holds 3.2 packets is not full with 3. Without an RTT the initial window stands in for it.
 */
static __noinline u64 bbr_bdp(const struct bbr1_sock *sk, u64 bw, u64 gain)
{
	u64 w;

	if (sk->bbr->min_rtt_us >= NO_RTT)
		return bbr_segs(sk, sk->p->init_cwnd);
	w = gain_apply(sat_mul(bw, sk->bbr->min_rtt_us), gain);
	return sat_add(w, BW_UNIT - 1) >> BW_SCALE;
}

/*
 * Adds to a window what waits in the offload engines of both hosts, and in the probing phase two segments more,
 * because a quarter of a very small BDP is less than a packet.
 */
static __noinline u64 bbr_quantization_budget(const struct bbr1_sock *sk, u64 cwnd)
{
	u64 pair = bbr_segs(sk, 2);

	cwnd = sat_add(cwnd, sat_mul(sk->p->tso_budget, bbr_tso_segs_goal(sk)));
	/* An even number, because receivers acknowledge every second segment. */
	cwnd = sat_mul(sat_add(cwnd, pair - 1) / pair, pair);
	if (sk->bbr->mode == BBR_PROBE_BW && sk->bbr->cycle_idx == 0)
		cwnd = sat_add(cwnd, bbr_segs(sk, sk->p->probe_bw_segs));
	return cwnd;
}

/* How much to have in flight for this bandwidth and gain, with the room that real hosts need. */
static __always_inline u64 bbr_inflight(const struct bbr1_sock *sk, u64 bw, u64 gain)
{
	return bbr_quantization_budget(sk, bbr_bdp(sk, bw, gain));
}

/*
 * How much of the data in flight will still be in the network when the next packet departs. Pacing has scheduled that
 * departure for later, and some data will have arrived by then.
 */
static __always_inline u64 bbr_packets_in_net_at_edt(const struct bbr1_sock *sk, u64 inflight_now)
{
	u64 inflight_at_edt = inflight_now;

	if (sk->bbr->pacing_gain > GAIN_UNIT) /* inflight grows: count the departing burst */
		inflight_at_edt = sat_add(inflight_at_edt, bbr_tso_segs_goal(sk));
	return sat_sub(inflight_at_edt, bw_data(bbr_bw(sk), sk->ack->edt_us));
}

/*
 * What the window needs beyond the BDP because ACKs come in bunches. Without it the flow would run dry between two
 * bunches.
 */
static __always_inline u64 bbr_ack_aggregation_cwnd(const struct bbr1_sock *sk)
{
	if (!sk->bbr->full_bw_reached)
		return 0;
	return u64_min(gain_apply(bbr_extra_acked(sk), sk->p->extra_acked_gain),
		       bw_data(bbr_bw(sk), sk->p->extra_acked_max_us));
}

/*
 * Handles recovery. In its first round no more data leaves than arrives, because nothing is known of the queue yet;
 * at its end the window is restored, because loss alone says little about the path.
 */
static __always_inline u64 bbr_set_cwnd_to_recover_or_restore(struct bbr1_sock *sk, u64 acked, u64 *new_cwnd)
{
	struct bbr1_state *bbr = sk->bbr;
	u64 prev_state = bbr->prev_ca_state, state = sk->ack->ca_state;
	u64 conserved = sat_add(sk->ack->inflight, acked);
	u64 cwnd = sk->out->cwnd;

	if (sk->ack->newly_lost)
		cwnd = u64_max(sat_sub(cwnd, sk->ack->newly_lost), bbr_segs(sk, 1));
	if (state == CA_RECOVERY && prev_state != CA_RECOVERY) {
		bbr->packet_conservation = 1;
		bbr->next_rtt_delivered = sk->ack->delivered;
		cwnd = conserved;
	} else if (prev_state >= CA_RECOVERY && state < CA_RECOVERY) {
		cwnd = u64_max(cwnd, bbr->prior_cwnd);
		bbr->packet_conservation = 0;
	}
	bbr->prev_ca_state = state;
	*new_cwnd = bbr->packet_conservation ? u64_max(cwnd, conserved) : cwnd;
	return bbr->packet_conservation;
}

/*
 * Moves the window towards its target by no more than what was ACKed, so that inflight never jumps, and then applies
 * the limits.
 */
static __always_inline void bbr_set_cwnd(struct bbr1_sock *sk, u64 acked, u64 bw, u64 gain)
{
	u64 floor = bbr_segs(sk, sk->p->cwnd_min_target);
	u64 cwnd = sk->out->cwnd, target;

	if (acked && !bbr_set_cwnd_to_recover_or_restore(sk, acked, &cwnd)) {
		target = sat_add(bbr_bdp(sk, bw, gain), bbr_ack_aggregation_cwnd(sk));
		target = bbr_quantization_budget(sk, target);
		if (sk->bbr->full_bw_reached)
			cwnd = u64_min(sat_add(cwnd, acked), target);
		else if (cwnd < target || sk->ack->delivered < bbr_segs(sk, sk->p->init_cwnd))
			cwnd = sat_add(cwnd, acked);
		cwnd = u64_max(cwnd, floor);
	}
	cwnd = u64_min(cwnd, u64_max(sk->ack->cwnd_clamp, bbr_segs(sk, 1)));
	if (sk->bbr->mode == BBR_PROBE_RTT)
		cwnd = u64_min(cwnd, floor);
	sk->out->cwnd = cwnd;
}

#endif
