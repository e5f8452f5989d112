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

/* Tunables; reasons and values are in Bbr1Params. Gains and parts of 1 are times 2^16, times in microseconds. */
struct bbr1_params {
	u64 bw_rtts;	/* Rounds over which the largest rate sample is the bandwidth estimate */
	u64 min_rtt_win_us;	/* How long a minimum RTT is believed before PROBE_RTT looks for it again */
	u64 probe_rtt_mode_us;	/* Time spent at the minimum window in PROBE_RTT; 0 turns PROBE_RTT off */
	u64 min_tso_rate;	/* Pacing rate, in bytes per second, below which a burst is one segment */
	u64 pacing_margin_percent;	/* How far the pacing rate stays below the estimate, in per cent */
	/* The length of a burst as an exponent: at the pacing rate it lasts 2^-shift seconds (Linux
	 * sk_pacing_shift) */
	u64 pacing_shift;
	/* Largest burst, in bytes (Linux GSO_LEGACY_MAX_SIZE - 1 - MAX_TCP_HEADER, with WLAN configured) */
	u64 gso_max_bytes;
	u64 max_tso_segs;	/* Largest burst, in segments */
	u64 tso_budget;	/* Number of bursts that wait in the offload engines of both hosts */
	/* Segments added to the window in the probing phase, because a quarter of a very small BDP is less than a
	 * packet */
	u64 probe_bw_segs;
	/* Pacing rate over bandwidth, and window over BDP, in STARTUP. 2/ln 2 is the least gain that doubles the
	 * rate each round */
	u64 high_gain;
	u64 drain_gain;	/* Pacing rate over bandwidth in DRAIN */
	u64 cwnd_gain;	/* Window over BDP in PROBE_BW */
	u64 pacing_gain_up;	/* Pacing rate over bandwidth in phase 0 of PROBE_BW, which looks for more */
	/* Pacing rate over bandwidth in phase 1 of PROBE_BW, which drains what phase 0 queued */
	u64 pacing_gain_down;
	u64 cycle_len;	/* Phases of the gain cycle, of one minimum RTT each */
	/* PROBE_BW starts at a random one of this many phases, so that flows that share a bottleneck do not probe
	 * together */
	u64 cycle_rand;
	u64 cwnd_min_target;	/* Smallest window, in segments */
	u64 init_cwnd;	/* Window before any RTT sample, in segments (Linux TCP_INIT_CWND) */
	u64 init_rtt_us;	/* RTT that is assumed for pacing before the first sample */
	/* Factor by which the bandwidth must grow from round to round for the pipe not to count as full */
	u64 full_bw_thresh;
	u64 full_bw_cnt;	/* Rounds in a row without such growth after which the pipe counts as full */
	/* Shortest interval in which the rate behind a policer is measured, in rounds */
	u64 lt_intvl_min_rtts;
	u64 lt_intvl_max_rtts;	/* Longest such interval, in rounds */
	/* Longest such interval, in milliseconds (Linux: as many as fit in 32 bits of microseconds) */
	u64 lt_intvl_max_ms;
	u64 lt_loss_thresh;	/* Lost over delivered data above which an interval may come from a policer */
	u64 lt_bw_ratio;	/* Two intervals agree when their rates differ by no more than this part */
	/* They also agree when their rates differ by no more than this many bytes per second, because on slow
	 * paths a single packet is a large part of the rate */
	u64 lt_bw_diff;
	u64 lt_bw_max_rtts;	/* Rounds for which the rate of a policer is used */
	/* Part of the data that ACKs bring in bunches that is added to the window; 0 turns the measuring off */
	u64 extra_acked_gain;
	u64 extra_acked_win_rtts;	/* Rounds that each of the two slots of the filter for bunched ACKs covers */
	/* Segments after which the measuring of a bunch starts over, because Linux keeps the count in a field of
	 * 20 bits */
	u64 ack_epoch_acked_reset_thresh;
	/* Upper limit of what is added to the window for bunched ACKs: what the estimated bandwidth delivers in
	 * this time */
	u64 extra_acked_max_us;
	struct brake_params brake;	/* The brake's parameters */
};

/* Everything a connection remembers. Bandwidths are times 2^24 units of data per microsecond, gains times 2^16. */
struct bbr1_state {
	/* Minimum RTT of the last min_rtt_win_us, in microseconds; NO_RTT before the first sample */
	u64 min_rtt_us;
	u64 min_rtt_stamp;	/* When it was seen, in microseconds */
	/* When PROBE_RTT may end, in microseconds; 0 while inflight has not yet come down to the minimum window */
	u64 probe_rtt_done_stamp;
	struct winmax bw;	/* Filter of the largest rate samples of the last bw_rtts rounds */
	u64 rtt_cnt;	/* Rounds so far */
	u64 next_rtt_delivered;	/* delivered at which the round ends */
	u64 cycle_mstamp;	/* Start of the phase of the gain cycle, in microseconds */
	u64 mode;	/* Mode of the state machine */
	u64 prev_ca_state;	/* State of loss recovery at the previous ACK */
	/* Whether this is the first round of recovery, in which no more data leaves than arrives */
	u64 packet_conservation;
	u64 round_start;	/* Whether this ACK starts a round */
	u64 idle_restart;	/* Whether nothing has been delivered since the flow restarted from idle */
	u64 probe_rtt_round_done;	/* Whether the flow has spent a round at the minimum window of PROBE_RTT */
	u64 lt_is_sampling;	/* Whether the rate behind a policer is being measured */
	/* Rounds in the interval that is being measured, or rounds since a policer's rate has been in use */
	u64 lt_rtt_cnt;
	u64 lt_use_bw;	/* Whether a policer's rate is the bandwidth estimate */
	/* Rate of the last lossy interval, and the estimate while lt_use_bw; 0 before the first one */
	u64 lt_bw;
	u64 lt_last_delivered;	/* delivered at the start of the interval */
	u64 lt_last_stamp;	/* Start of the interval, in milliseconds */
	u64 lt_last_lost;	/* lost at the start of the interval */
	u64 pacing_gain;	/* Pacing rate over bandwidth: that of the mode and, in PROBE_BW, of the phase */
	u64 cwnd_gain;	/* Window over BDP: that of the mode */
	u64 full_bw_reached;	/* Whether STARTUP has filled the pipe */
	u64 full_bw_cnt;	/* Rounds in a row in which the bandwidth grew by less than full_bw_thresh */
	u64 cycle_idx;	/* Phase of the gain cycle, from 0 */
	/* Whether the pacing rate was computed from a measured RTT; before that init_rtt_us is used */
	u64 has_seen_rtt;
	u64 prior_cwnd;	/* Window to restore after recovery or PROBE_RTT, in units of data */
	u64 full_bw;	/* Bandwidth against which growth is measured */
	u64 ack_epoch_mstamp;	/* Start of the epoch in which a bunch of ACKs is measured, in microseconds */
	/* Most data ACKed beyond expectation in one epoch, in units: two slots that take turns */
	u64 extra_acked[2];
	u64 ack_epoch_acked;	/* Data ACKed since the start of the epoch, in units of data */
	u64 extra_acked_win_rtts;	/* Age of the slot in use, in rounds */
	u64 extra_acked_win_idx;	/* The slot in use, 0 or 1 */
	struct brake brake;	/* What the brake remembers */
};

/* What tcp_bbr.c reaches through its sk; out->cwnd and out->pacing_rate are the values in force. */
struct bbr1_sock {
	struct bbr1_state *bbr; /* the connection's memory */
	const struct bbr1_params *p; /* the same for all connections */
	const struct ack *ack; /* the event */
	struct control *out; /* the answer */
};

#include "bbr1/control.h"
#include "bbr1/modes.h"
#include "bbr1/policer.h"
#include "bbr1/model.h"
#include "bbr1/probe_rtt.h"

/*
 * Updates the model, then the mode that depends on it. The order matters, because each step uses what the steps
 * before it found out.
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

/*
 * Hands this ACK to the brake. STARTUP and DRAIN are not watched, because both change the rate and the queue
 * themselves; nor is a flow that uses a policer's rate.
 */
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

/*
 * Processes one ACK. The model learns from it first, then the brake may replace the model's bandwidth, and only then
 * are the pacing rate and the window computed from the result.
 */
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

/*
 * Sets the state for a new connection: the transport's minimum RTT so far, a first pacing rate from the window and
 * the RTT, no policer, and STARTUP.
 */
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
 * Handles the application sending again after nothing was in flight. The flow paces at the estimate, because a burst
 * at the gain of the phase would rebuild the queue that the pause has emptied.
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

/* Saves the window, because the transport is about to cut it and it is restored after recovery. */
static __always_inline void bbr_ssthresh(struct bbr1_sock *sk)
{
	bbr_save_cwnd(sk);
}

/*
 * Handles a retransmission timeout. It ends the round and counts as a loss; the search for a full pipe begins again,
 * because the timeout says nothing about the rate.
 */
static __always_inline void bbr_set_state(struct bbr1_sock *sk)
{
	sk->bbr->prev_ca_state = CA_LOSS;
	sk->bbr->full_bw = 0;
	sk->bbr->round_start = 1;
	bbr_lt_bw_sampling(sk, 1, 0);
}

/* Handles losses that proved spurious. What they taught about a full pipe and about a policer is forgotten. */
static __always_inline void bbr_undo_cwnd(struct bbr1_sock *sk)
{
	sk->bbr->full_bw = 0;
	sk->bbr->full_bw_cnt = 0;
	bbr_reset_lt_bw_sampling(sk);
}

/*
 * Processes one event and writes what the transport has to apply into out. It is the only entry; values that no step
 * sets keep what the transport reports.
 */
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
