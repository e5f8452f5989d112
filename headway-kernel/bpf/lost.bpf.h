/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Reconstructs what a stock kernel does not keep with a packet: how much was in flight when it was sent, and how much
 * was lost since (rs_tx_in_flight, rs_lost), for the sample of an ACK and for EVENT_LOST. ring.h says how,
 * docs/explanation/kernel.md how exact it is. It is compiled only for controllers that define CC_WANTS_LOST.
 *
 * The kernel has no callback for packets that it marks lost. But it counts them (`tp->lost`), and they stay in the
 * queue of what may be sent again, which has for each packet its place in the stream and how much was delivered when
 * it was sent. So before each event, if the count has grown, we walk that queue as tcp_xmit_retransmit_queue() will,
 * and report each run of packets that were marked since the last event. The steps are those of
 * headway-cc/src/sim/kernel_record.rs.
 */
#ifndef HEADWAY_LOST_BPF_H
#define HEADWAY_LOST_BPF_H

#include "tcp.bpf.h"

#ifdef CC_WANTS_LOST

/* Most EVENT_LOST before one event; the last reports all that is left. The verifier demands a bound. */
#define LOST_EVENTS 8
/* Most packets that are looked at before one event, so that the cost of an ACK has a bound. */
#define LOST_STEPS 256
/* A red-black tree of 2^20 nodes, far more packets than a window holds, is not deeper. */
#define RB_DEPTH 40

/*
 * A word of the kernel's memory. The verifier takes a child in the tree for a node and not for the packet around it, so packets
 * are addressed by number here and read by this.
 */
static __always_inline u64 read_u64(const void *from)
{
	u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), from);
	return word;
}

/* The first node at or below one, in the order of the stream. */
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

/* The node after one, 0 after the last. */
__noinline u64 rb_next(u64 at)
{
	u64 right = read_u64(&((struct rb_node *)at)->rb_right);

	if (right)
		return rb_first(right);
	for (u32 i = 0; i < RB_DEPTH; i++) {
		/* Nodes are aligned, and the two lowest bits hold the colour. */
		u64 parent = read_u64(&((struct rb_node *)at)->__rb_parent_color) & ~3ULL;

		if (!parent || read_u64(&((struct rb_node *)parent)->rb_right) != at)
			return parent;
		at = parent;
	}
	return 0;
}

/*
 * Whether one packet was sent after another; of those sent in one burst, the later one in the stream. RACK marks
 * packets lost in the order of sending, so a packet sent no later than the last one reported has been reported
 * already.
 */
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

/*
 * One step of find_run(): adds the packet in hand, looks at the next one. False when the run is complete. A global function,
 * because the verifier then walks it once and not once a step.
 */
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

/* Finds the next run of lost packets. Returns how many segments they are, 0 if there is none. */
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

/*
 * Fills rs_tx_in_flight and rs_lost for a packet with this entry of the ring, with 0 and 0 if there is none. At least
 * the packet itself was in flight.
 */
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

/* Brings the ring up to date at an ACK, before anything is looked up in it. */
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

/* Fills what was in flight with the packet of the sample, and what was lost since; at an ACK, after fill_sample(). */
static __always_inline void fill_record(struct flow *flow, const struct rate_sample *rs)
{
	struct ack *ack = &flow->record.ack;

	if (rs->delivered < 0)
		return;
	fill_transmission(flow, &flow->sample, ring_find(&flow->ring, &flow->sample));
	if (ack->rs_tx_in_flight)
		flow->ring.sample_lost = (u32)ack->lost - (u32)ack->rs_lost;
}

/* The number of packets that the kernel has marked lost and that were not reported to the controller yet. */
static __always_inline u32 untold(const struct flow *flow, const struct tcp_sock *tp)
{
	return tp->lost - (u32)flow->record.ack.lost;
}

/*
 * Begins the walk where TCP will look for what to send again. The kernel's hint points at or before the packet that
 * was marked last (tcp_verify_retransmit_hint()). It is empty after a timeout, when all of the queue must be looked
 * at.
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
 * Fills an EVENT_LOST if any loss is left to report. It reports the next run of packets, or all that is left if this
 * is the last event. If no packet is found, because it was sent again already (there is no callback for RACK's timer)
 * or was never marked, it reports all that is left with the data of the latest sample's packet, because that one was
 * sent right after what RACK marks.
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
 * Whether a tail loss probe has filled a hole, so that the kernel reduces the window although no packet was marked
 * lost. The kernel concludes this at the first ACK beyond what it had sent when the probe left, and has cleared that
 * place (tlp_high_seq) by the time it calls us, so probe_is_out remembers it.
 */
static __always_inline bool tail_was_repaired(const struct flow *flow, const struct tcp_sock *tp)
{
	return flow->probe_is_out && !untold(flow, tp) &&
	       read_bits((const struct inet_connection_sock *)tp, icsk_ca_state) < CA_RECOVERY;
}

/*
 * From now on only packets sent after `until_ns` are reported. At the start of a flow, those sent before do not
 * belong to the controller. After an undo (0) all packets have lost their marks, so any mark is a new one.
 */
static __always_inline void forget_marks(struct flow *flow, u64 until_ns)
{
	flow->told_ns = until_ns;
	flow->walk.newest_ns = until_ns;
}

/*
 * Starts the record of a flow. What was sent before the socket came to us has no entry in the ring and is not
 * reported.
 */
static __always_inline void start_record(struct flow *flow, const struct tcp_sock *tp)
{
	forget_marks(flow, tp->tcp_wstamp_ns);
}

/* Offers the present state to the ring, after an event that changes what is in flight or lost. */
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

#else /* !CC_WANTS_LOST: the same names, which do nothing, so that callbacks.bpf.h need not ask. */

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
