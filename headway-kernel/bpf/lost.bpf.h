/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What a stock kernel does not keep with a packet, reconstructed for controllers that define CC_WANTS_LOST: how much
 * was in flight when it left and how much was lost since (rs_tx_in_flight, rs_lost), for the sample of an ACK and for
 * EVENT_LOST. Which entry answers for a packet: ring.h. How exact it is: docs/kernel.md. For other controllers
 * nothing of it is compiled.
 *
 * The kernel calls nobody when it marks a packet lost. But it counts (`tp->lost`), and the packet stays in the queue of
 * what may be sent again, where `delivered` at its sending and its place in the stream are kept with it. So before each
 * event, if the count has grown, we walk that queue as tcp_xmit_retransmit_queue() will, and tell of each run of packets
 * that were marked since the last event. The steps are those of headway-cc/src/sim/kernel_record.rs.
 */
#ifndef HEADWAY_LOST_BPF_H
#define HEADWAY_LOST_BPF_H

#include "tcp.bpf.h"

#ifdef CC_WANTS_LOST

/* At most so many EVENT_LOST come before one event; the last takes all that is left. */
#define LOST_EVENTS 8
/* Packets looked at before one event. */
#define LOST_STEPS 256
/* A red-black tree of 2^20 nodes is not deeper. */
#define RB_DEPTH 40

/* To the verifier a child in the tree is a node and never the packet around it. So addresses are numbers here. */
static __always_inline u64 read_u64(const void *from)
{
	u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), from);
	return word;
}

__noinline u64 rb_first(u64 at)
{
	for (u32 i = 0; i < RB_DEPTH && at; i++) {
		u64 left = read_u64(&((struct rb_node *)at)->rb_left);

		if (!left)
			break;
		at = left;
	}
	return at;
}

__noinline u64 rb_next(u64 at)
{
	u64 right = read_u64(&((struct rb_node *)at)->rb_right);

	if (right)
		return rb_first(right);
	for (u32 i = 0; i < RB_DEPTH; i++) {
		/* The lowest bits are the colour. */
		u64 parent = read_u64(&((struct rb_node *)at)->__rb_parent_color) & ~3ULL;

		if (!parent || read_u64(&((struct rb_node *)parent)->rb_right) != at)
			return parent;
		at = parent;
	}
	return 0;
}

/* RACK marks in the order of sending: what was sent no later than the last packet told of was marked before. */
static __always_inline bool is_sent_after(u64 sent_ns, u32 end, u64 than_ns, u32 than_end)
{
	return sent_ns > than_ns || (sent_ns == than_ns && (s32)(end - than_end) > 0);
}

/* Takes the next packet of the queue in hand if it was marked since the last event. */
static __always_inline void look_at_packet(struct flow *flow, struct lost_walk *walk)
{
	const struct tcp_skb_cb *cb = (const struct tcp_skb_cb *)walk->cb;
	const struct sk_buff *skb = (const struct sk_buff *)walk->next;

	walk->steps--;
	walk->next = rb_next((u64)skb);
	bpf_probe_read_kernel(walk->cb, sizeof(walk->cb), &skb->cb);
	if ((cb->sacked & (TCPCB_LOST | TCPCB_SACKED_RETRANS)) != TCPCB_LOST)
		return;
	walk->sent_ns = read_u64(&skb->skb_mstamp_ns);
	if (!is_sent_after(walk->sent_ns, cb->end_seq, flow->told_ns, flow->told_end))
		return;
	walk->packet.delivered = cb->tx.delivered;
	walk->packet.end = cb->end_seq;
	walk->packet.is_retransmission = !!(cb->sacked & TCPCB_EVER_RETRANS);
	walk->entry = ring_find(&flow->ring, &walk->packet);
	walk->is_in_hand = 1;
}

/* Adds the packet in hand to the run; false if it begins another. */
static __always_inline bool join_run(struct lost_run *run, struct lost_walk *walk)
{
	const struct tcp_skb_cb *cb = (const struct tcp_skb_cb *)walk->cb;

	if (!run->segments)
		run->start = cb->seq;
	else if (cb->seq != run->packet.end || walk->entry != run->entry ||
		 walk->packet.is_retransmission != run->packet.is_retransmission)
		return 0;
	run->packet = walk->packet;
	run->entry = walk->entry;
	run->is_app_limited = read_bits(cb, tx.is_app_limited);
	run->segments += cb->tcp_gso_segs;
	if (is_sent_after(walk->sent_ns, cb->end_seq, walk->newest_ns, walk->newest_end)) {
		walk->newest_ns = walk->sent_ns;
		walk->newest_end = cb->end_seq;
	}
	walk->is_in_hand = 0;
	return 1;
}

/* False when the run is complete. A function of its own, which the verifier walks once and not once a step. */
__noinline int extend_run(struct flow *flow)
{
	struct lost_walk *walk;

	if (!flow)
		return 0;
	walk = &flow->walk;
	if (walk->is_in_hand && !join_run(&flow->run, walk))
		return 0;
	if (flow->run.segments >= walk->left || !walk->next || !walk->steps)
		return 0;
	look_at_packet(flow, walk);
	return 1;
}

/* The next run: adjacent packets that find the same entry, in the name of the last. Its segments, 0 if there is none. */
__noinline int find_run(struct flow *flow)
{
	if (!flow)
		return 0;
	flow->run.segments = 0;
	for (u32 i = 0; i <= LOST_STEPS; i++)
		if (!extend_run(flow))
			break;
	return flow->run.segments;
}

/* rs_tx_in_flight and rs_lost of a packet that found entry `at`; 0 and 0 when not known. */
static __always_inline void fill_transmission(struct flow *flow, const struct ring_packet *p, u32 at)
{
	struct ack *ack = &flow->record.ack;

	ack->rs_prior_delivered = p->delivered;
	ack->rs_tx_in_flight = 0;
	ack->rs_lost = 0;
	if (at >= RING_ENTRIES) {
		__sync_fetch_and_add(&counters.unknown, 1);
		return;
	}
	ack->rs_tx_in_flight = u64_max(ring_tx_in_flight(&flow->ring.entries[at], p, ack->unit_bytes), ack->smss);
	ack->rs_lost = (u32)ack->lost - flow->ring.entries[at].lost;
}

/* An ACK: what the ring needs of it before anything is looked up. */
static __always_inline void see_sample(struct flow *flow, const struct rate_sample *rs)
{
	ring_raise(&flow->ring, rs->prior_in_flight);
	if (rs->delivered < 0)
		return;
	flow->sample.delivered = rs->prior_delivered;
	flow->sample.end = rs->last_end_seq;
	flow->sample.is_retransmission = rs->is_retrans;
	flow->sample_is_app_limited = rs->is_app_limited;
	flow->ring.sample_delivered = rs->prior_delivered;
}

static __always_inline void fill_record(struct flow *flow, const struct rate_sample *rs)
{
	struct ack *ack = &flow->record.ack;

	if (rs->delivered < 0)
		return;
	fill_transmission(flow, &flow->sample, ring_find(&flow->ring, &flow->sample));
	if (ack->rs_tx_in_flight)
		flow->ring.sample_lost = (u32)ack->lost - (u32)ack->rs_lost;
}

/* How many packets the controller has not heard of. */
static __always_inline u32 untold(const struct flow *flow, const struct tcp_sock *tp)
{
	return tp->lost - (u32)flow->record.ack.lost;
}

/*
 * The walk begins where TCP will look for what to send again. Its hint stands at or before whatever was marked last
 * (tcp_verify_retransmit_hint()) and is empty after a timeout, when all of the queue is to be looked at.
 */
static __always_inline void start_walk(struct flow *flow, const struct tcp_sock *tp)
{
	struct lost_walk *walk = &flow->walk;
	u64 hint = read_u64(&tp->retransmit_skb_hint);

	if (is_sent_after(walk->newest_ns, walk->newest_end, flow->told_ns, flow->told_end)) {
		flow->told_ns = walk->newest_ns;
		flow->told_end = walk->newest_end;
	}
	walk->is_in_hand = 0;
	walk->steps = LOST_STEPS;
	walk->next = hint ? hint : rb_first(read_u64(&((const struct sock *)tp)->tcp_rtx_queue.rb_node));
}

/*
 * EVENT_LOST, if there is anything left to tell: of the next run of packets; of all that is left if this is the last
 * event or no packet is found, because it was sent again already (RACK's timer calls nobody) or was never marked. Then
 * it comes in the name of the latest sample's packet, which left right after what RACK marks.
 */
static __noinline int fill_lost(struct flow *flow, struct tcp_sock *tp, u32 repaired, u32 is_last)
{
	struct ack *ack = &flow->record.ack;
	struct lost_run *run = &flow->run;
	u64 left = untold(flow, tp) + repaired, segments;

	if (!left)
		return 0;
	flow->walk.left = left;
	segments = repaired ? 0 : find_run(flow);
	if (!segments) {
		__sync_fetch_and_add(&counters.unfound, left - repaired);
		run->packet = flow->sample;
		run->start = flow->sample.end;
		run->is_app_limited = flow->sample_is_app_limited;
		run->entry = ring_find(&flow->ring, &run->packet);
	}
	if (!segments || is_last || segments > left)
		segments = left;
	fill_socket(flow, tp, EVENT_LOST);
	ack->lost -= left - segments;
	clear_sample(flow);
	fill_transmission(flow, &run->packet, run->entry);
	ack->rs_lost += ack->rs_tx_in_flight ? repaired : 0;
	ack->newly_lost = segments;
	ack->rs_is_app_limited = run->is_app_limited;
	ack->rs_starts_lost_range = run->start != flow->range_end;
	flow->range_end = run->packet.end;
	finish_sample(flow);
	return 1;
}

/*
 * A reduction without a packet marked lost, after a tail loss probe: the probe filled a hole. The kernel concludes it
 * at the first ACK beyond what it had sent when the probe left (tlp_high_seq, forgotten by the time it calls us).
 */
static __always_inline bool tail_was_repaired(const struct flow *flow, const struct tcp_sock *tp)
{
	return flow->probe_is_out && !untold(flow, tp) &&
	       read_bits((const struct inet_connection_sock *)tp, icsk_ca_state) < CA_RECOVERY;
}

/* Packets sent so far, marked or not, are none of ours (the start) or have lost their marks (an undo). */
static __always_inline void forget_marks(struct flow *flow, u64 until_ns)
{
	flow->told_ns = until_ns;
	flow->walk.newest_ns = until_ns;
}

/* What was sent before the socket came to us is unknown anyway. */
static __always_inline void start_record(struct flow *flow, const struct tcp_sock *tp)
{
	forget_marks(flow, tp->tcp_wstamp_ns);
}

/* After an event that changes what is in flight or lost. */
static __always_inline void keep_record(struct flow *flow, const struct tcp_sock *tp)
{
	const struct ack *ack = &flow->record.ack;
	struct ring_entry *now = &flow->now;

	now->delivered = ack->delivered;
	now->lost = ack->lost;
	now->inflight = ack->inflight;
	now->outstanding = tp->packets_out - tp->sacked_out;
	now->end = tp->snd_nxt;
	ring_note(&flow->ring, now);
	flow->probe_is_out = tp->tlp_high_seq && read_bits(tp, tlp_retrans);
}

#else

#define LOST_EVENTS 0

static __always_inline void see_sample(struct flow *flow, const struct rate_sample *rs)
{
}

static __always_inline void fill_record(struct flow *flow, const struct rate_sample *rs)
{
}

static __always_inline u32 untold(const struct flow *flow, const struct tcp_sock *tp)
{
	return 0;
}

static __always_inline void start_walk(struct flow *flow, const struct tcp_sock *tp)
{
}

static __always_inline int fill_lost(struct flow *flow, struct tcp_sock *tp, u32 repaired, u32 is_last)
{
	return 0;
}

static __always_inline bool tail_was_repaired(const struct flow *flow, const struct tcp_sock *tp)
{
	return 0;
}

static __always_inline void forget_marks(struct flow *flow, u64 until_ns)
{
}

static __always_inline void start_record(struct flow *flow, const struct tcp_sock *tp)
{
}

static __always_inline void keep_record(struct flow *flow, const struct tcp_sock *tp)
{
}

#endif
#endif
