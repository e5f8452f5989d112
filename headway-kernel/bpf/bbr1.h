/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * BBRv1, as Linux tcp_bbr.c behaves.
 *
 * Use: fill struct bbr1_params from Rust, call bbr1_on_event() for every event, apply what it puts in struct
 * control. The glue's min_tso_segs callback is bbr1_min_tso_segs(). struct ack is best kept in map memory: on
 * the stack the verifier tracks each word and walks six times as many instructions.
 *
 * Twin: headway-cc/src/cc/bbr1.rs, which leads: same functions in the same order (that of tcp_bbr.c); reasons
 * and numbers are there. Plain C for BPF and native builds. Amounts of data are in the transport's unit.
 */
#ifndef HEADWAY_BBR1_H
#define HEADWAY_BBR1_H

#include "brake.h"

enum bbr_mode {
	BBR_STARTUP = 0,
	BBR_DRAIN = 1,
	BBR_PROBE_BW = 2,
	BBR_PROBE_RTT = 3,
};

/* Documented, with values, in Bbr1Params. */
struct bbr1_params {
	u64 bw_rtts;
	u64 min_rtt_win_us;
	u64 probe_rtt_mode_us;
	u64 min_tso_rate;
	u64 pacing_margin_percent;
	u64 pacing_shift;
	u64 gso_max_bytes;
	u64 max_tso_segs;
	u64 tso_budget;
	u64 probe_bw_segs;
	u64 high_gain;
	u64 drain_gain;
	u64 cwnd_gain;
	u64 pacing_gain_up;
	u64 pacing_gain_down;
	u64 cycle_len;
	u64 cycle_rand;
	u64 cwnd_min_target;
	u64 init_cwnd;
	u64 init_rtt_us;
	u64 full_bw_thresh;
	u64 full_bw_cnt;
	u64 lt_intvl_min_rtts;
	u64 lt_intvl_max_rtts;
	u64 lt_intvl_max_ms;
	u64 lt_loss_thresh;
	u64 lt_bw_ratio;
	u64 lt_bw_diff;
	u64 lt_bw_max_rtts;
	u64 extra_acked_gain;
	u64 extra_acked_win_rtts;
	u64 ack_epoch_acked_reset_thresh;
	u64 extra_acked_max_us;
	struct brake_params brake;
};

/* Documented in Bbr1State. */
struct bbr1_state {
	u64 min_rtt_us;
	u64 min_rtt_stamp;
	u64 probe_rtt_done_stamp;
	struct winmax bw;
	u64 rtt_cnt;
	u64 next_rtt_delivered;
	u64 cycle_mstamp;
	u64 mode;
	u64 prev_ca_state;
	u64 packet_conservation;
	u64 round_start;
	u64 idle_restart;
	u64 probe_rtt_round_done;
	u64 lt_is_sampling;
	u64 lt_rtt_cnt;
	u64 lt_use_bw;
	u64 lt_bw;
	u64 lt_last_delivered;
	u64 lt_last_stamp;
	u64 lt_last_lost;
	u64 pacing_gain;
	u64 cwnd_gain;
	u64 full_bw_reached;
	u64 full_bw_cnt;
	u64 cycle_idx;
	u64 has_seen_rtt;
	u64 prior_cwnd;
	u64 full_bw;
	u64 ack_epoch_mstamp;
	u64 extra_acked[2];
	u64 ack_epoch_acked;
	u64 extra_acked_win_rtts;
	u64 extra_acked_win_idx;
	struct brake brake;
};

/* What tcp_bbr.c reaches through its sk; out->cwnd and out->pacing_rate are the values in force. */
struct bbr1_sock {
	struct bbr1_state *bbr;
	const struct bbr1_params *p;
	const struct ack *ack;
	struct control *out;
};

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
 * The largest rate sample of the last ten rounds: queues and pauses only lower samples, so the largest is the
 * path's.
 */
static __always_inline u64 bbr_max_bw(const struct bbr1_sock *sk)
{
	return winmax_get(&sk->bbr->bw);
}

/*
 * The bandwidth in use: the windowed maximum, or a policer's rate where one was found, since the bursts that a
 * policer lets through would mislead the maximum.
 */
static __always_inline u64 bbr_bw(const struct bbr1_sock *sk)
{
	return sk->bbr->lt_use_bw ? sk->bbr->lt_bw : bbr_max_bw(sk);
}

/* The most data that was ACKed beyond expectation in the last one to two windows. */
static __always_inline u64 bbr_extra_acked(const struct bbr1_sock *sk)
{
	return u64_max(sk->bbr->extra_acked[0], sk->bbr->extra_acked[1]);
}

/* A bandwidth times a gain in bytes per second, a per cent less so that a queue that exists shrinks. */
static __noinline u64 bbr_rate_bytes_per_sec(const struct bbr1_sock *sk, u64 bw, u64 gain)
{
	u64 rate = gain_apply(sat_mul(bw, bbr_unit_bytes(sk)), gain);

	return mul_shift(rate, USEC_PER_SEC / 100 * sat_sub(100, sk->p->pacing_margin_percent), BW_SCALE);
}

/* The same, within the limit that the application sets. */
static __always_inline u64 bbr_bw_to_pacing_rate(const struct bbr1_sock *sk, u64 bw, u64 gain)
{
	return u64_min(bbr_rate_bytes_per_sec(sk, bw, gain), sk->ack->max_pacing_rate);
}

/* The first rate is the window per smoothed RTT, times the gain of STARTUP. */
static __always_inline void bbr_init_pacing_rate_from_rtt(struct bbr1_sock *sk)
{
	u64 rtt_us = sk->p->init_rtt_us;

	if (sk->ack->srtt_us) {
		rtt_us = sk->ack->srtt_us;
		sk->bbr->has_seen_rtt = 1;
	}
	sk->out->pacing_rate = bbr_bw_to_pacing_rate(sk, bw_from(sk->out->cwnd, rtt_us), sk->p->high_gain);
}

/* Paces at bandwidth times gain. */
static __noinline void bbr_set_pacing_rate(struct bbr1_sock *sk, u64 bw, u64 gain)
{
	u64 rate = bbr_bw_to_pacing_rate(sk, bw, gain);

	if (!sk->bbr->has_seen_rtt && sk->ack->srtt_us)
		bbr_init_pacing_rate_from_rtt(sk);
	if (sk->bbr->full_bw_reached || rate > sk->out->pacing_rate)
		sk->out->pacing_rate = rate;
}

/* The fewest segments worth one burst at this pacing rate (bytes/s): on slow paths even two would be a queue. */
static __always_inline u64 bbr1_min_tso_segs(const struct bbr1_params *p, u64 pacing_rate)
{
	return pacing_rate < p->min_tso_rate ? 1 : 2;
}

/*
 * How much leaves in one burst at the pacing rate in force: about a millisecond's worth, since larger bursts make
 * queues and smaller ones cost CPU time.
 */
static __noinline u64 bbr_tso_segs_goal(const struct bbr1_sock *sk)
{
	u64 mss = bbr_segs(sk, bbr_unit_bytes(sk));
	u64 bytes = u64_min(sk->out->pacing_rate >> (sk->p->pacing_shift & 63), sk->p->gso_max_bytes);
	u64 segs = u64_max(bytes / mss, bbr1_min_tso_segs(sk->p, sk->out->pacing_rate));

	return bbr_segs(sk, u64_min(segs, sk->p->max_tso_segs));
}

/* Notes the window to come back to, before loss recovery or PROBE_RTT cut it for a while. */
static __always_inline void bbr_save_cwnd(struct bbr1_sock *sk)
{
	struct bbr1_state *bbr = sk->bbr;

	if (bbr->prev_ca_state < CA_RECOVERY && bbr->mode != BBR_PROBE_RTT)
		bbr->prior_cwnd = sk->out->cwnd;
	else /* already cut for a while: the earlier note may be the better one */
		bbr->prior_cwnd = u64_max(bbr->prior_cwnd, sk->out->cwnd);
}

/* The volume that fills the path without a queue (bandwidth times minimum RTT), times a gain. */
static __noinline u64 bbr_bdp(const struct bbr1_sock *sk, u64 bw, u64 gain)
{
	u64 w;

	if (sk->bbr->min_rtt_us >= NO_RTT)
		return bbr_segs(sk, sk->p->init_cwnd);
	w = gain_apply(sat_mul(bw, sk->bbr->min_rtt_us), gain);
	return sat_add(w, BW_UNIT - 1) >> BW_SCALE;
}

/*
 * Adds to a window what sits in the offload engines of both hosts, and in the probing phase something extra,
 * because a quarter of a very small BDP would be no probe at all.
 */
static __noinline u64 bbr_quantization_budget(const struct bbr1_sock *sk, u64 cwnd)
{
	u64 pair = bbr_segs(sk, 2);

	cwnd = sat_add(cwnd, sat_mul(sk->p->tso_budget, bbr_tso_segs_goal(sk)));
	/* An even number of segments: receivers ACK every other one. */
	cwnd = sat_mul(sat_add(cwnd, pair - 1) / pair, pair);
	if (sk->bbr->mode == BBR_PROBE_BW && sk->bbr->cycle_idx == 0)
		cwnd = sat_add(cwnd, bbr_segs(sk, sk->p->probe_bw_segs));
	return cwnd;
}

/* How much to have in flight for this bandwidth and gain, on real hosts. */
static __always_inline u64 bbr_inflight(const struct bbr1_sock *sk, u64 bw, u64 gain)
{
	return bbr_quantization_budget(sk, bbr_bdp(sk, bw, gain));
}

/*
 * Of the data in flight, what is still in the network when the next packet departs: pacing has scheduled that for
 * later, and some will have arrived by then.
 */
static __always_inline u64 bbr_packets_in_net_at_edt(const struct bbr1_sock *sk, u64 inflight_now)
{
	u64 inflight_at_edt = inflight_now;

	if (sk->bbr->pacing_gain > GAIN_UNIT) /* inflight grows: count the departing burst */
		inflight_at_edt = sat_add(inflight_at_edt, bbr_tso_segs_goal(sk));
	return sat_sub(inflight_at_edt, bw_data(bbr_bw(sk), sk->ack->edt_us));
}

/*
 * What the window has to hold more because ACKs come in bunches: without it the flow would run dry between two
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
 * In the first round of recovery no more leaves than arrives, since nothing is known of the queue yet; afterwards
 * the window comes back, because loss alone says little of the path.
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
 * Moves the window towards its target by no more than what was ACKed, so that inflight never jumps, then applies
 * the bounds.
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

/* Whether this phase of the gain cycle has done its work. */
static __always_inline u64 bbr_is_next_cycle_phase(const struct bbr1_sock *sk)
{
	const struct bbr1_state *bbr = sk->bbr;
	u64 is_full_length = sat_sub(sk->ack->delivered_us, bbr->cycle_mstamp) > bbr->min_rtt_us;
	u64 inflight;

	if (bbr->pacing_gain == GAIN_UNIT)
		return is_full_length;
	inflight = bbr_packets_in_net_at_edt(sk, sk->ack->prior_inflight);
	/* Probing lasts until inflight got there, unless the queue cannot hold that much. */
	if (bbr->pacing_gain > GAIN_UNIT)
		return is_full_length && (sk->ack->newly_lost ||
					  inflight >= bbr_inflight(sk, bbr_max_bw(sk), bbr->pacing_gain));
	/* Draining ends early when the extra queue is gone. */
	return is_full_length || inflight <= bbr_inflight(sk, bbr_max_bw(sk), GAIN_UNIT);
}

/* Steps to the next phase of the gain cycle. */
static __always_inline void bbr_advance_cycle_phase(struct bbr1_sock *sk)
{
	u64 next = sk->bbr->cycle_idx + 1;

	sk->bbr->cycle_idx = next < sk->p->cycle_len ? next : 0;
	sk->bbr->cycle_mstamp = sk->ack->delivered_us;
}

/*
 * Goes round the cycle of gains in PROBE_BW: a quarter faster to find out whether there is more, as much slower to
 * drain what that queued, then six phases at the estimate.
 */
static __always_inline void bbr_update_cycle_phase(struct bbr1_sock *sk)
{
	if (sk->bbr->mode == BBR_PROBE_BW && bbr_is_next_cycle_phase(sk))
		bbr_advance_cycle_phase(sk);
}

/* Every change of mode goes through here. */
static __always_inline void bbr_set_mode(struct bbr1_sock *sk, u64 mode)
{
	sk->bbr->mode = mode;
}

/* Looks for the path's rate from scratch, doubling each round. */
static __always_inline void bbr_reset_startup_mode(struct bbr1_sock *sk)
{
	bbr_set_mode(sk, BBR_STARTUP);
}

/*
 * Begins the gain cycle at a random phase, so that flows that share a bottleneck do not probe together; never at
 * the draining one, since nothing was queued.
 */
static __always_inline void bbr_reset_probe_bw_mode(struct bbr1_sock *sk)
{
	u64 back = mul_shift((u32)sk->ack->rand, sk->p->cycle_rand, 32);

	bbr_set_mode(sk, BBR_PROBE_BW);
	sk->bbr->cycle_idx = sat_sub(sat_sub(sk->p->cycle_len, 1), back);
	bbr_advance_cycle_phase(sk);
}

/* Goes back to the mode that PROBE_RTT interrupted. */
static __always_inline void bbr_reset_mode(struct bbr1_sock *sk)
{
	if (!sk->bbr->full_bw_reached)
		bbr_reset_startup_mode(sk);
	else
		bbr_reset_probe_bw_mode(sk);
}

/* Begins an interval in which the rate behind a policer is measured. */
static __always_inline void bbr_reset_lt_bw_sampling_interval(struct bbr1_sock *sk)
{
	sk->bbr->lt_last_stamp = sk->ack->delivered_us / USEC_PER_MSEC;
	sk->bbr->lt_last_delivered = sk->ack->delivered;
	sk->bbr->lt_last_lost = sk->ack->lost;
	sk->bbr->lt_rtt_cnt = 0;
}

/* Forgets what is known of a policer: the windowed maximum counts again. */
static __always_inline void bbr_reset_lt_bw_sampling(struct bbr1_sock *sk)
{
	sk->bbr->lt_bw = 0;
	sk->bbr->lt_use_bw = 0;
	sk->bbr->lt_is_sampling = 0;
	bbr_reset_lt_bw_sampling_interval(sk);
}

/*
 * Two lossy intervals in a row with about the same rate are a policer: from now on that rate is used, because
 * pacing faster would only lose packets.
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

/* An interval may end here: if it lost much, its rate is compared with that of the one before. */
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
 * Looks for a policer, whose token bucket lets bursts through and drops the rest: intervals of 4 to 16 rounds, from
 * loss to loss, that lose a fifth.
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

/* Counts rounds, which are the clock of the model, and takes the rate sample into the windowed maximum. */
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
 * Measures how much more than the bandwidth explains arrives in one bunch of ACKs; the window needs that much room.
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

/*
 * The pipe is full when bandwidth has not grown by a quarter for three rounds: had there been room, sending faster
 * would have delivered faster.
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

/* Leaves PROBE_RTT when its time is up, and brings back the window. */
static __always_inline void bbr_check_probe_rtt_done(struct bbr1_sock *sk)
{
	struct bbr1_state *bbr = sk->bbr;

	if (!bbr->probe_rtt_done_stamp || sk->ack->now_us <= bbr->probe_rtt_done_stamp)
		return;
	bbr->min_rtt_stamp = sk->ack->now_us;
	sk->out->cwnd = u64_max(sk->out->cwnd, bbr->prior_cwnd);
	bbr_reset_mode(sk);
}

/* Tracks the minimum RTT of the last 10 s, which is that without a queue. */
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

/* Sets how fast the mode sends, and how much it may have in flight, in proportion to the model. */
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

/*
 * Updates the model, then the mode that depends on it; the order matters, because each step uses what those before
 * it found out.
 */
static __always_inline void bbr_update_model(struct bbr1_sock *sk)
{
	bbr_update_bw(sk);
	bbr_update_ack_aggregation(sk);
	bbr_update_cycle_phase(sk);
	bbr_check_full_bw_reached(sk);
	bbr_check_drain(sk);
	bbr_update_min_rtt(sk);
	bbr_update_gains(sk);
}

/* Tells the brake what it must know of this ACK and of the mode. */
static __noinline void bbr_run_brake(struct bbr1_sock *sk)
{
	u64 is_probe_bw = sk->bbr->mode == BBR_PROBE_BW;
	struct brake_ack b = {
		.s = &sk->bbr->brake,
		.p = &sk->p->brake,
		.ack = sk->ack,
		.max_bw = bbr_max_bw(sk),
		.min_rtt_us = sk->bbr->min_rtt_us,
		.bw = bbr_bw(sk),
		.pacing_gain = sk->bbr->pacing_gain,
		.is_round_start = sk->bbr->round_start,
		.is_marking = sk->out->mark_app_limited,
		.is_watching = (is_probe_bw || sk->bbr->mode == BBR_PROBE_RTT) && !sk->bbr->lt_use_bw,
		.is_steady = is_probe_bw && sat_mul(sk->bbr->cycle_idx, 2) >= sk->p->cycle_len,
		.floor = bbr_segs(sk, sk->p->cwnd_min_target),
	};

	brake_on_ack(&b);
}

/* One ACK: the model, the brake, the control. */
static __noinline void bbr_main(struct bbr1_sock *sk)
{
	const struct brake *brake = &sk->bbr->brake;
	u64 bw, gain;

	bbr_update_model(sk);
	bw = bbr_bw(sk);
	gain = sk->bbr->pacing_gain;
	if (sk->p->brake.is_on)
		bbr_run_brake(sk);
	bw = brake_bw(brake, bw);
	gain = brake_gain(brake->mode, gain);
	bbr_set_pacing_rate(sk, bw, gain);
	bbr_set_cwnd(sk, sk->ack->newly_acked, bw, sk->bbr->cwnd_gain);
	if (brake->mode != BRAKE_WATCH)
		sk->out->cwnd = u64_min(sk->out->cwnd, brake->window);
}

/* A connection begins. */
static __noinline void bbr_init(struct bbr1_sock *sk)
{
	__builtin_memset(sk->bbr, 0, sizeof(*sk->bbr));
	sk->bbr->min_rtt_us = u64_min(sk->ack->min_rtt_us, NO_RTT);
	sk->bbr->min_rtt_stamp = sk->ack->now_us;
	sk->bbr->next_rtt_delivered = sk->ack->delivered;
	bbr_init_pacing_rate_from_rtt(sk);
	bbr_reset_lt_bw_sampling(sk);
	bbr_reset_startup_mode(sk);
	sk->bbr->ack_epoch_mstamp = sk->ack->now_us;
}

/*
 * The application sends again after nothing was in flight: it paces at the estimate, because a burst at the gain of
 * the phase would make the queue that the pause has emptied.
 */
static __noinline void bbr_cwnd_event(struct bbr1_sock *sk)
{
	if (!sk->ack->is_app_limited)
		return;
	sk->bbr->idle_restart = 1;
	sk->bbr->ack_epoch_mstamp = sk->ack->now_us;
	sk->bbr->ack_epoch_acked = 0;
	if (sk->bbr->mode == BBR_PROBE_BW)
		bbr_set_pacing_rate(sk, bbr_bw(sk), GAIN_UNIT);
	else if (sk->bbr->mode == BBR_PROBE_RTT)
		bbr_check_probe_rtt_done(sk);
}

/* The transport is about to cut the window. */
static __always_inline void bbr_ssthresh(struct bbr1_sock *sk)
{
	bbr_save_cwnd(sk);
}

/*
 * A retransmission timeout ends the round and counts as a loss; the search for a full pipe begins anew, because the
 * timeout says nothing of the rate.
 */
static __always_inline void bbr_set_state(struct bbr1_sock *sk)
{
	sk->bbr->prev_ca_state = CA_LOSS;
	sk->bbr->full_bw = 0;
	sk->bbr->round_start = 1;
	bbr_lt_bw_sampling(sk, 1, 0);
}

/* The slow-down was spurious, so what it taught is forgotten. */
static __always_inline void bbr_undo_cwnd(struct bbr1_sock *sk)
{
	sk->bbr->full_bw = 0;
	sk->bbr->full_bw_cnt = 0;
	bbr_reset_lt_bw_sampling(sk);
}

/* Processes one event: the only way into this controller. */
static __always_inline void bbr1_on_event(struct bbr1_state *bbr, const struct bbr1_params *p,
					  const struct ack *ack, struct control *out)
{
	struct bbr1_sock sock = { bbr, p, ack, out };
	struct bbr1_sock *sk = &sock;

	out->cwnd = ack->cwnd;
	out->pacing_rate = ack->pacing_rate;
	out->mark_app_limited = 0;
	if (ack->event == EVENT_ACK)
		bbr_main(sk);
	else if (ack->event == EVENT_INIT)
		bbr_init(sk);
	else if (ack->event == EVENT_TX_START)
		bbr_cwnd_event(sk);
	else if (ack->event == EVENT_SSTHRESH)
		bbr_ssthresh(sk);
	else if (ack->event == EVENT_LOSS)
		bbr_set_state(sk);
	else if (ack->event == EVENT_UNDO)
		bbr_undo_cwnd(sk);
	out->send_quantum = bbr_tso_segs_goal(sk);
}

#endif
