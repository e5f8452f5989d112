/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What a stock kernel does not keep with a packet, reconstructed for controllers that define CC_WANTS_LOST: how much
 * was in flight when it left and how much was lost since (rs_tx_in_flight, rs_lost), for the sample of an ACK and for
 * EVENT_LOST. Which entry answers for a packet: ring.h. How exact it is: docs/kernel.md. For other controllers
 * nothing of it is compiled.
 *
 * The kernel calls nobody when it marks a packet lost. But it counts (`tp->lost`), so whatever was marked since the
 * last event is told of in one EVENT_LOST before the next, be it the ACK, the reduction or the timeout that it caused.
 */
#ifndef HEADWAY_LOST_BPF_H
#define HEADWAY_LOST_BPF_H

#include "tcp.bpf.h"

#ifdef CC_WANTS_LOST

/* rs_tx_in_flight and rs_lost of a packet sent when `delivered` had the value `key`; 0 and 0 when not known. */
static __always_inline void fill_transmission(struct flow *flow, u32 key)
{
	struct ack *ack = &flow->record.ack;
	u32 at = ring_find(&flow->ring, key);

	ack->rs_prior_delivered = key;
	ack->rs_tx_in_flight = 0;
	ack->rs_lost = 0;
	if (at >= RING_ENTRIES || !flow->ring.entries[at].inflight) {
		__sync_fetch_and_add(&counters.unknown, 1);
		return;
	}
	ack->rs_tx_in_flight = flow->ring.entries[at].inflight;
	ack->rs_lost = (u32)ack->lost - flow->ring.entries[at].lost;
}

/* An ACK: what the ring needs of it before anything is looked up. */
static __always_inline void see_sample(struct flow *flow, const struct rate_sample *rs)
{
	ring_raise(&flow->ring, rs->prior_in_flight);
	if (rs->delivered < 0)
		return;
	flow->ring.sample = rs->prior_delivered;
	flow->sample_is_app_limited = rs->is_app_limited;
}

static __always_inline void fill_record(struct flow *flow, const struct rate_sample *rs)
{
	if (rs->delivered >= 0)
		fill_transmission(flow, rs->prior_delivered);
}

/*
 * EVENT_LOST, if there is anything to tell, in the name of the latest sample's packet: RACK marks in the order of
 * sending what left before that one, so it left right after the lost. At a timeout the first of the lost left right
 * after it.
 */
static __noinline int fill_lost(struct flow *flow, struct tcp_sock *tp, u64 repaired)
{
	struct ack *ack = &flow->record.ack;
	u64 burst = (u32)(tp->lost - (u32)ack->lost) + repaired;

	if (!burst)
		return 0;
	fill_socket(flow, tp, EVENT_LOST);
	clear_sample(flow);
	fill_transmission(flow, flow->ring.sample);
	ack->rs_lost += ack->rs_tx_in_flight ? repaired : 0;
	ack->newly_lost = burst;
	ack->rs_is_app_limited = flow->sample_is_app_limited;
	ack->rs_starts_lost_range = 1;
	finish_sample(flow);
	return 1;
}

/*
 * A reduction without a packet marked lost, after a tail loss probe: the probe filled a hole. The kernel concludes it
 * at the first ACK beyond what it had sent when the probe left (tlp_high_seq, forgotten by the time it calls us).
 */
static __always_inline bool tail_was_repaired(const struct flow *flow, const struct tcp_sock *tp)
{
	return flow->probe_is_out && tp->lost == (u32)flow->record.ack.lost &&
	       read_bits((const struct inet_connection_sock *)tp, icsk_ca_state) < CA_RECOVERY;
}

/* After an event that changes what is in flight or lost. */
static __always_inline void keep_record(struct flow *flow, const struct tcp_sock *tp)
{
	const struct ack *ack = &flow->record.ack;

	ring_note(&flow->ring, ack->delivered, ack->lost, ack->inflight);
	flow->probe_is_out = tp->tlp_high_seq && read_bits(tp, tlp_retrans);
}

#else

static __always_inline void see_sample(struct flow *flow, const struct rate_sample *rs)
{
}

static __always_inline void fill_record(struct flow *flow, const struct rate_sample *rs)
{
}

static __always_inline int fill_lost(struct flow *flow, struct tcp_sock *tp, u64 repaired)
{
	return 0;
}

static __always_inline bool tail_was_repaired(const struct flow *flow, const struct tcp_sock *tp)
{
	return 0;
}

static __always_inline void keep_record(struct flow *flow, const struct tcp_sock *tp)
{
}

#endif
#endif
