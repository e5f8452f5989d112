/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What the transport is told: the pacing rate, the size of a burst and the window (§5.6); and the volumes they are
 * made of. Part of bbr3.h; twin: headway-cc/src/cc/bbr3/control.rs, which has the reasons.
 */
#ifndef HEADWAY_BBR3_CONTROL_H
#define HEADWAY_BBR3_CONTROL_H

/* A number of segments in the transport's unit of data, which is the packet for TCP and the byte for QUIC. */
static __always_inline u64 bbr3_segments(const struct bbr3_conn *c, u64 segments)
{
	return sat_mul(segments, u64_max(c->ack->smss, 1));
}

/* How long the path takes for one segment, in microseconds. RTTs differ by as much without any queue. */
static __always_inline u64 bbr3_segment_us(const struct bbr3_conn *c)
{
	return brake_span_us(c->bbr->max_bw, bbr3_segments(c, 1));
}

/* The RTT that is above the minimum RTT by a part of it, in microseconds. */
static __always_inline u64 bbr3_min_rtt_and(const struct bbr3_conn *c, u64 part)
{
	return sat_add(c->bbr->min_rtt_us, gain_apply(c->bbr->min_rtt_us, part));
}

/* Bytes in one unit of data: the MSS for TCP, 1 for QUIC. */
static __always_inline u64 bbr3_unit_bytes(const struct bbr3_conn *c)
{
	return u64_max(c->ack->unit_bytes, 1);
}

/*
 * Thousandths of a value, rounded down. In packets this may be a packet less than the exact number, which makes
 * bounds and headroom smaller rather than larger.
 */
static __always_inline u64 bbr3_permille(u64 value, u64 permille)
{
	return sat_mul(value, permille) / 1000;
}

/*
 * The smallest window: with fewer segments in flight, a receiver that acknowledges every second one would leave the
 * flow waiting for its delayed ACKs (§2.8 MinPipeCwnd).
 */
static __always_inline u64 bbr3_min_pipe_cwnd(const struct bbr3_conn *c)
{
	return bbr3_segments(c, c->p->min_pipe_cwnd);
}

/*
 * Whether the flow is in the cycle of probes, where it knows the path's rate and only refines it (§5.3.3.9
 * IsInAProbeBWState).
 */
static __always_inline u64 bbr3_is_in_a_probe_bw_state(const struct bbr3_conn *c)
{
	return c->bbr->state >= BBR3_PROBE_BW_DOWN && c->bbr->state <= BBR3_PROBE_BW_UP;
}

/*
 * Sets the gains of the state (§5.6.1): how fast it sends, and how much it may have in flight, in proportion to the
 * model.
 */
static __always_inline void bbr3_set_gains(struct bbr3_conn *c)
{
	u64 state = c->bbr->state;

	c->bbr->pacing_gain = c->p->cruise_pacing_gain;
	c->bbr->cwnd_gain = c->p->default_cwnd_gain;
	if (state == BBR3_STARTUP) {
		c->bbr->pacing_gain = c->p->startup_pacing_gain;
	} else if (state == BBR3_DRAIN) {
		c->bbr->pacing_gain = c->p->drain_pacing_gain;
	} else if (state == BBR3_PROBE_BW_DOWN) {
		c->bbr->pacing_gain = c->p->down_pacing_gain;
	} else if (state == BBR3_PROBE_BW_UP) {
		c->bbr->pacing_gain = c->p->up_pacing_gain;
		c->bbr->cwnd_gain = c->p->up_cwnd_gain;
	} else if (state == BBR3_PROBE_RTT) {
		c->bbr->cwnd_gain = c->p->probe_rtt_cwnd_gain;
	}
}

/*
 * Changes the state. It is the only place that does, so that no state is entered with the gains of another. Debug
 * builds also check each change against the table of those that have a reason.
 */
static __always_inline void bbr3_set_state(struct bbr3_conn *c, u64 state)
{
	c->bbr->state = state;
	bbr3_set_gains(c);
}

/*
 * The BDP (bandwidth times minimum RTT, the volume that fills the path without a queue), times a gain (§5.6.4.2
 * BDPMultiple). It is rounded up, because a pipe that holds 3.2 packets is not full with 3.
 */
static __noinline u64 bbr3_bdp_multiple(const struct bbr3_conn *c, u64 bw, u64 gain)
{
	u64 bdp;

	if (c->bbr->min_rtt_us >= NO_RTT)
		return c->bbr->init_cwnd;
	bdp = gain_apply(sat_mul(bw, c->bbr->min_rtt_us), gain);
	return sat_add(bdp, BW_UNIT - 1) >> BW_SCALE;
}

/*
 * Data that waits in the offload engines of both hosts, in units: without room for it a small window would be stuck
 * there (§5.5.8 UpdateOffloadBudget). A unit of several bytes is a packet, which means TCP; QUIC offloads less.
 */
static __always_inline u64 bbr3_offload_budget(const struct bbr3_conn *c)
{
	u64 quanta = bbr3_unit_bytes(c) > 1 ? c->p->tcp_offload_quanta : c->p->quic_offload_quanta;

	return sat_mul(quanta, c->bbr->send_quantum);
}

/*
 * Rounds a volume up to what real hosts need (§5.6.4.2 QuantizationBudget): room for offload, the smallest window,
 * and in ProbeBW_UP two segments more, because a quarter of a very small BDP is less than a packet.
 */
static __noinline u64 bbr3_quantization_budget(const struct bbr3_conn *c, u64 inflight_cap)
{
	u64 cap = u64_max(u64_max(inflight_cap, bbr3_offload_budget(c)), bbr3_min_pipe_cwnd(c));

	if (c->bbr->state == BBR3_PROBE_BW_UP)
		return sat_add(cap, bbr3_segments(c, c->p->up_extra_segments));
	return cap;
}

/* How much to have in flight for this bandwidth and gain, with the room that real hosts need (§5.6.4.2 Inflight). */
static __always_inline u64 bbr3_inflight(const struct bbr3_conn *c, u64 bw, u64 gain)
{
	return bbr3_quantization_budget(c, bbr3_bdp_multiple(c, bw, gain));
}

/*
 * The long-term bound less a part that stays free, so that flows that come to the bottleneck find room without losing
 * packets first (§5.3.3.9 InflightWithHeadroom). At least one segment stays free.
 */
static __noinline u64 bbr3_inflight_with_headroom(const struct bbr3_conn *c)
{
	u64 longterm = c->bbr->inflight_longterm, headroom;

	if (longterm == BBR3_INFINITY)
		return BBR3_INFINITY;
	headroom = u64_max(bbr3_permille(longterm, c->p->headroom_permille), bbr3_segments(c, 1));
	return u64_max(sat_sub(longterm, headroom), bbr3_min_pipe_cwnd(c));
}

/*
 * Sets the pacing rate, in bytes per second, within the limit that the application sets. It is never 0, which would
 * stop the flow for ever.
 */
static __always_inline void bbr3_apply_pacing_rate(struct bbr3_conn *c, u64 rate)
{
	c->out->pacing_rate = u64_max(u64_min(rate, c->ack->max_pacing_rate), 1);
}

/*
 * Sets the first pacing rate: the initial window per RTT, times the gain of Startup (§5.6.2 InitPacingRate). Without
 * it the first flight would leave as one burst.
 */
static __noinline void bbr3_init_pacing_rate(struct bbr3_conn *c)
{
	u64 rtt_us = c->p->init_rtt_us, nominal_bandwidth, rate;

	if (c->ack->srtt_us) {
		rtt_us = c->ack->srtt_us;
		c->bbr->has_seen_rtt = 1;
	}
	nominal_bandwidth = bw_from(sat_mul(c->bbr->init_cwnd, bbr3_unit_bytes(c)), rtt_us);
	rate = gain_apply(nominal_bandwidth, c->p->startup_pacing_gain);
	bbr3_apply_pacing_rate(c, mul_shift(rate, USEC_PER_SEC, BW_SCALE));
}

/*
 * Paces at a multiple of the estimated bandwidth, less one per cent, so that an existing queue shrinks (§5.6.2
 * SetPacingRateWithGain).
 */
static __noinline void bbr3_set_pacing_rate_with_gain(struct bbr3_conn *c, u64 gain)
{
	u64 margin = USEC_PER_SEC / 100 * sat_sub(100, c->p->pacing_margin_percent);
	u64 rate = gain_apply(sat_mul(c->bbr->bw, bbr3_unit_bytes(c)), gain);

	rate = mul_shift(rate, margin, BW_SCALE);
	if (rate && (c->bbr->full_bw_reached || rate > c->out->pacing_rate))
		bbr3_apply_pacing_rate(c, rate);
}

/*
 * Sets the pacing rate after an ACK: that of this gain, within what the brake allows (§5.6.2 SetPacingRate). The
 * first RTT that is measured replaces the assumed one in the initial rate.
 */
static __always_inline void bbr3_set_pacing_rate(struct bbr3_conn *c, u64 gain)
{
	if (!c->bbr->has_seen_rtt && c->ack->srtt_us)
		bbr3_init_pacing_rate(c);
	bbr3_set_pacing_rate_with_gain(c, brake_gain(c->bbr->brake.mode, gain));
}

/*
 * Sets how much may leave at once: what the rate sends in a millisecond, because larger bursts make queues and
 * smaller ones cost CPU time (§5.6.3 SetSendQuantum). Where the unit is a packet it is rounded down to whole packets.
 */
static __noinline void bbr3_set_send_quantum(struct bbr3_conn *c)
{
	u64 bytes = sat_mul(c->out->pacing_rate, c->p->send_quantum_us) / USEC_PER_SEC;
	u64 quantum = u64_min(bytes, c->p->send_quantum_max_bytes) / bbr3_unit_bytes(c);

	c->bbr->send_quantum = u64_max(quantum, bbr3_segments(c, c->p->send_quantum_min_segments));
}

/*
 * The window of ProbeRTT: half of the BDP, so that our part of any queue empties and the RTT without a queue is seen
 * (§5.6.4.5 ProbeRTTCwnd).
 */
static __always_inline u64 bbr3_probe_rtt_cwnd(const struct bbr3_conn *c)
{
	return u64_max(bbr3_bdp_multiple(c, c->bbr->bw, c->p->probe_rtt_cwnd_gain), bbr3_min_pipe_cwnd(c));
}

/*
 * The largest window that the model justifies: the BDP times the state's gain, plus what bunches of ACKs hold back
 * (§5.6.4.2 UpdateMaxInflight).
 */
static __always_inline u64 bbr3_max_inflight(const struct bbr3_conn *c)
{
	u64 cap = bbr3_bdp_multiple(c, c->bbr->bw, c->bbr->cwnd_gain);

	return bbr3_quantization_budget(c, sat_add(cap, c->bbr->extra_acked));
}

/*
 * Keeps the window within what loss has shown to be too much: the long-term bound while the flow probes, with
 * headroom below it while it cruises, and the short-term bound always (§5.6.4.7 BoundCwndForModel).
 */
static __always_inline void bbr3_bound_cwnd_for_model(struct bbr3_conn *c)
{
	u64 cap = BBR3_INFINITY;

	if (bbr3_is_in_a_probe_bw_state(c) && c->bbr->state != BBR3_PROBE_BW_CRUISE)
		cap = c->bbr->inflight_longterm;
	else if (c->bbr->state == BBR3_PROBE_RTT || c->bbr->state == BBR3_PROBE_BW_CRUISE)
		cap = bbr3_inflight_with_headroom(c);
	cap = u64_max(u64_min(cap, c->bbr->inflight_shortterm), bbr3_min_pipe_cwnd(c));
	c->out->cwnd = u64_min(c->out->cwnd, cap);
}

/* Keeps the window within the bound that the host sets. */
static __always_inline void bbr3_clamp_cwnd(struct bbr3_conn *c)
{
	c->out->cwnd = u64_min(c->out->cwnd, u64_max(c->ack->cwnd_clamp, bbr3_segments(c, 1)));
}

/*
 * Moves the window towards its target by no more than what was ACKed, so that inflight never jumps (§5.6.4.6 SetCwnd,
 * with §5.6.4.5 BoundCwndForProbeRTT).
 */
static __noinline void bbr3_set_cwnd(struct bbr3_conn *c)
{
	u64 max_inflight = bbr3_max_inflight(c);
	u64 grown = sat_add(c->out->cwnd, c->ack->newly_acked);

	if (c->bbr->full_bw_reached)
		c->out->cwnd = u64_min(grown, max_inflight);
	else if (c->out->cwnd < max_inflight || c->ack->delivered < c->bbr->init_cwnd)
		c->out->cwnd = grown;
	c->out->cwnd = u64_max(c->out->cwnd, bbr3_min_pipe_cwnd(c));
	if (c->bbr->state == BBR3_PROBE_RTT)
		c->out->cwnd = u64_min(c->out->cwnd, bbr3_probe_rtt_cwnd(c));
	bbr3_bound_cwnd_for_model(c);
	bbr3_clamp_cwnd(c);
}

#endif
