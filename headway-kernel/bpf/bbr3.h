/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * BBRv3 after draft-ietf-ccwg-bbr, and by its names. "§" is a section of the revision in docs/spec.md.
 *
 * Use: fill struct bbr3_params from Rust, call bbr3_on_event() for every event, apply what it puts in struct
 * control. The glue's min_tso_segs callback is bbr3_min_tso_segs(). It needs an EVENT_LOST for each packet marked
 * lost. struct ack is best kept in map memory: on the stack the verifier tracks each word.
 *
 * Twin: headway-cc/src/cc/bbr3.rs and the files of cc/bbr3/, which lead: same functions in the same order; reasons
 * and numbers are there. Plain C for BPF and native builds. Amounts of data are in the transport's unit. BPF nests
 * eight calls and three lead here: no chain of functions that are not inline is longer than five.
 */
#ifndef HEADWAY_BBR3_H
#define HEADWAY_BBR3_H

#include "brake.h"

enum bbr3_mode {
	BBR3_NONE = 0,
	BBR3_STARTUP = 1,
	BBR3_DRAIN = 2,
	BBR3_PROBE_BW_DOWN = 3,
	BBR3_PROBE_BW_CRUISE = 4,
	BBR3_PROBE_BW_REFILL = 5,
	BBR3_PROBE_BW_UP = 6,
	BBR3_PROBE_RTT = 7,
};

enum bbr3_ack_phase {
	BBR3_ACKS_INIT = 0,
	BBR3_ACKS_REFILLING = 1,
	BBR3_ACKS_PROBE_STARTING = 2,
	BBR3_ACKS_PROBE_FEEDBACK = 3,
	BBR3_ACKS_PROBE_STOPPING = 4,
};

#define BBR3_INFINITY U64_MAX

/* Documented, with values, in Bbr3Params. */
struct bbr3_params {
	u64 startup_pacing_gain;
	u64 drain_pacing_gain;
	u64 down_pacing_gain;
	u64 cruise_pacing_gain;
	u64 up_pacing_gain;
	u64 default_cwnd_gain;
	u64 up_cwnd_gain;
	u64 probe_rtt_cwnd_gain;
	u64 pacing_margin_percent;
	u64 loss_thresh_permille;
	u64 beta_permille;
	u64 headroom_permille;
	u64 min_pipe_cwnd;
	u64 extra_acked_filter_len;
	u64 startup_extra_acked_filter_len;
	u64 min_rtt_filter_len_us;
	u64 probe_rtt_interval_us;
	u64 probe_rtt_duration_us;
	u64 full_bw_gain;
	u64 full_bw_count;
	u64 startup_full_loss_count;
	u64 drain_rounds;
	u64 bw_probe_wait_us;
	u64 bw_probe_wait_rand_us;
	u64 bw_probe_max_rounds;
	u64 bw_probe_rand_rounds;
	u64 bw_probe_up_rounds_max;
	u64 up_extra_segments;
	u64 send_quantum_us;
	u64 send_quantum_max_bytes;
	u64 send_quantum_min_segments;
	u64 tcp_offload_quanta;
	u64 quic_offload_quanta;
	u64 init_rtt_us;
	u64 is_ack_judged;
	u64 ecn;
	u64 ecn_max_rtt_us;
	u64 ecn_alpha_gain;
	u64 ecn_alpha_init;
	u64 ecn_factor;
	u64 ecn_thresh;
	u64 startup_full_ecn_count;
	struct brake_params brake;
};

/* Documented in Bbr3State. */
struct bbr3_state {
	u64 state;
	u64 pacing_gain;
	u64 cwnd_gain;
	u64 init_cwnd;
	u64 has_seen_rtt;
	u64 send_quantum;
	u64 round_count;
	u64 next_round_delivered;
	u64 round_start;
	u64 max_bw_0;
	u64 max_bw_1;
	u64 max_bw;
	u64 bw;
	u64 cycle_count;
	u64 bw_shortterm;
	u64 inflight_shortterm;
	u64 inflight_longterm;
	u64 bw_latest;
	u64 inflight_latest;
	u64 loss_round_delivered;
	u64 loss_round_start;
	u64 is_loss_in_round;
	u64 lost_ranges_in_round;
	u64 min_rtt_us;
	u64 min_rtt_stamp;
	u64 probe_rtt_min_delay_us;
	u64 probe_rtt_min_stamp;
	u64 probe_rtt_expired;
	u64 probe_rtt_done_stamp;
	u64 probe_rtt_round_done;
	u64 idle_restart;
	struct winmax extra_acked_filter;
	u64 extra_acked;
	u64 extra_acked_interval_start;
	u64 extra_acked_delivered;
	u64 full_bw_reached;
	u64 full_bw_now;
	u64 full_bw;
	u64 full_bw_count;
	u64 drain_start_round;
	u64 ack_phase;
	u64 cycle_stamp;
	u64 bw_probe_wait_us;
	u64 rounds_since_probe_up;
	u64 bw_probe_up_rounds;
	u64 bw_probe_up_acked;
	u64 probe_up_acked_per_inc;
	u64 is_bw_probe_sample;
	u64 prev_probe_too_high;
	u64 prev_probe_precautionary;
	u64 prev_ca_state;
	u64 recovery_delivered;
	u64 prior_cwnd;
	u64 is_undo_saved;
	u64 undo_state;
	u64 undo_bw_shortterm;
	u64 undo_inflight_shortterm;
	u64 undo_inflight_longterm;
	u64 unbraked_inflight_longterm;
	u64 delivered_ce;
	u64 is_ce_in_round;
	u64 ecn_alpha;
	u64 alpha_last_delivered;
	u64 alpha_last_delivered_ce;
	u64 startup_ecn_rounds;
	struct brake brake;
};

/* The draft's BBR.*, C.* and RS.*; out->cwnd and out->pacing_rate are C.cwnd and C.pacing_rate in force. */
struct bbr3_conn {
	struct bbr3_state *bbr;
	const struct bbr3_params *p;
	const struct ack *ack;
	struct control *out;
	u64 delivery_rate;	/* 0 when there is no valid sample */
};

#include "bbr3/control.h"
#include "bbr3/model.h"
#include "bbr3/probe_bw.h"
#include "bbr3/startup.h"
#include "bbr3/probe_rtt.h"
#include "bbr3/recovery.h"
#include "bbr3/braking.h"

/*
 * Updates the model, then the state that depends on it; the order matters, because each step uses what those before
 * it found out (§5.2.3 UpdateModelAndState).
 */
static __always_inline void bbr3_update_model_and_state(struct bbr3_conn *c)
{
	bbr3_update_latest_delivery_signals(c);
	bbr3_update_congestion_signals(c);
	bbr3_update_ack_aggregation(c);
	bbr3_check_full_bw_reached(c);
	bbr3_check_startup_done(c);
	bbr3_check_drain_done(c);
	bbr3_update_probe_bw_cycle_phase(c);
	bbr3_update_min_rtt(c);
	bbr3_check_probe_rtt(c);
	bbr3_advance_latest_delivery_signals(c);
	bbr3_bound_bw_for_model(c);
}

/* Turns the model into what the transport applies: a rate, a burst and a window (§5.2.3 UpdateControlParameters). */
static __always_inline void bbr3_update_control_parameters(struct bbr3_conn *c)
{
	bbr3_set_pacing_rate(c);
	bbr3_set_send_quantum(c);
	bbr3_set_cwnd(c);
}

/* One ACK: the model, the brake, the control (§5.2.3 UpdateOnACK). */
static __always_inline void bbr3_update_on_ack(struct bbr3_conn *c)
{
	if (!c->ack->newly_acked)
		return;
	if (c->ack->rs_interval_us)
		c->delivery_rate = bw_from(c->ack->rs_delivered, c->ack->rs_interval_us);
	bbr3_update_recovery(c);
	bbr3_note_ce(c);
	bbr3_update_model_and_state(c);
	bbr3_update_brake(c);
	bbr3_update_control_parameters(c);
	bbr3_bound_cwnd_for_brake(c);
}

/* A connection begins (§5.2.1 OnInit). */
static __noinline void bbr3_on_init(struct bbr3_conn *c)
{
	u64 now_us = c->ack->now_us, srtt_us = c->ack->srtt_us;

	__builtin_memset(c->bbr, 0, sizeof(*c->bbr));
	c->bbr->init_cwnd = c->ack->cwnd;
	c->bbr->min_rtt_us = srtt_us ? srtt_us : NO_RTT;
	c->bbr->min_rtt_stamp = now_us;
	c->bbr->probe_rtt_min_delay_us = NO_RTT;
	c->bbr->probe_rtt_min_stamp = now_us;
	c->bbr->extra_acked_interval_start = now_us;
	c->bbr->inflight_longterm = BBR3_INFINITY;
	c->bbr->probe_up_acked_per_inc = BBR3_INFINITY;
	c->bbr->recovery_delivered = BBR3_INFINITY;
	c->bbr->next_round_delivered = c->ack->delivered;
	c->bbr->loss_round_delivered = sat_add(c->ack->delivered, 1);
	c->bbr->delivered_ce = c->ack->delivered_ce;
	c->bbr->ecn_alpha = c->p->ecn_alpha_init;
	c->bbr->alpha_last_delivered = c->ack->delivered;
	c->bbr->alpha_last_delivered_ce = c->ack->delivered_ce;
	bbr3_reset_congestion_signals(c);
	bbr3_reset_short_term_model(c);
	bbr3_reset_full_bw(c);
	bbr3_init_pacing_rate(c);
	bbr3_set_send_quantum(c);
	bbr3_enter_startup(c);
}

/* The fewest segments worth one burst (§5.6.3): the kernel's own burst size is about a millisecond already. */
static __always_inline u64 bbr3_min_tso_segs(const struct bbr3_params *p)
{
	return p->send_quantum_min_segments;
}

/* Processes one event: the only way into this controller. */
static __always_inline void bbr3_on_event(struct bbr3_state *bbr, const struct bbr3_params *p,
					  const struct ack *ack, struct control *out)
{
	struct bbr3_conn conn = { bbr, p, ack, out, 0 };
	struct bbr3_conn *c = &conn;

	out->cwnd = ack->cwnd;
	out->pacing_rate = ack->pacing_rate;
	out->mark_app_limited = 0;
	if (ack->event == EVENT_ACK)
		bbr3_update_on_ack(c);
	else if (ack->event == EVENT_LOST)
		bbr3_handle_lost_packet(c);
	else if (ack->event == EVENT_INIT)
		bbr3_on_init(c);
	else if (ack->event == EVENT_TX_START)
		bbr3_handle_restart_from_idle(c);
	else if (ack->event == EVENT_SSTHRESH)
		bbr3_on_enter_fast_recovery(c);
	else if (ack->event == EVENT_LOSS)
		bbr3_on_enter_rto(c);
	else if (ack->event == EVENT_UNDO)
		bbr3_handle_spurious_loss_detection(c);
	out->send_quantum = bbr->send_quantum;
}

#endif
