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

#include "bbr1/control.h"
#include "bbr1/modes.h"
#include "bbr1/policer.h"
#include "bbr1/model.h"
#include "bbr1/probe_rtt.h"

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
