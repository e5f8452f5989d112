/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The glue between Linux TCP and a controller: it fills struct ack from tcp_sock and rate_sample, applies struct control to
 * the socket, and records both. callbacks.bpf.h puts it behind the callbacks of the kernel. The file that includes it names
 *
 *	CC_STATE	the controller's state, a struct of u64
 *	CC_PARAMS	its parameters, a struct of u64
 *	CC_WANTS_LOST	defined if it must know, of a packet, how much was in flight when it was sent and was lost since
 *
 * Units: the kernel counts data in segments ("packets" here), so smss is 1 and unit_bytes the MSS. The kernel holds the
 * socket lock around every callback, hence one event at a time per socket, and what belongs to a socket needs no lock of its
 * own.
 *
 * A stock kernel does not tell rs_tx_in_flight and rs_lost; they are 0 here. lost.bpf.h reconstructs them for controllers with
 * CC_WANTS_LOST, and tells those of losses.
 */
#ifndef HEADWAY_TCP_BPF_H
#define HEADWAY_TCP_BPF_H

#include "kernel.h"
#ifdef CC_WANTS_LOST
#include "ring.h"
#endif

/* Written by the loader before the programs are loaded, so that the verifier sees constants and skips what they switch off. */
const volatile struct {
	u64 cong_control_has_ack;	/* 1: cong_control takes (sk, ack, flag, rs), from Linux 6.10 on; 0: (sk, rs) */
	u64 can_write_app_limited;	/* 1: BPF may write tp->app_limited; 0: the marks in struct flow stand in for it */
	u64 trace;			/* 1: record every event */
	CC_PARAMS params;		/* of the controller */
} config SEC(".rodata");

/* Read by the loader, in this order; counted since the programs were loaded. */
struct {
	u64 flows;		/* connections that started with us or switched to us */
	u64 spare;		/* of these: no socket storage, the state is in spare_flows */
	u64 without_storage;	/* of the flows: no room there either, so they run plain AIMD */
	u64 traced;		/* events offered to the trace */
	u64 trace_lost;		/* of these: the ring buffer was full */
	u64 unknown;		/* samples and losses of packets for which it is not known what was in flight with them */
	u64 unfound;		/* packets marked lost that were not found, and told of with the data of another packet */
	u64 ended;		/* of the flows: closed, or gone to another controller; the rest is what these have done */
	u64 bytes_acked;	/* acknowledged while they were ours */
	u64 bytes_sent;		/* sent, again or for the first time */
	u64 bytes_retrans;	/* of these: sent again */
	u64 brake_entries;	/* times the brake was put on */
} counters SEC(".bss");

/* One event as it happened, all of it words of 64 bits; also the record that goes to the trace. */
struct record {
	u64 flow;		/* number of the flow since the programs were loaded */
	u64 port;		/* local port */
	struct ack ack;		/* what the controller was given */
	struct control control;	/* what it answered */
	CC_STATE state;		/* what it remembers */
};

#ifdef CC_WANTS_LOST
/* Where we are in the queue of packets that may be sent again, which lost.bpf.h walks one packet at a time. */
struct lost_walk {
	u64 next;			/* address of the packet to look at next, 0 at the end of the queue */
	u64 cb[6];			/* of the packet looked at: a copy of its struct tcp_skb_cb */
	u64 sent_ns;			/* of the packet looked at: when it was sent last, ns */
	u64 newest_ns;			/* of the packets told of by now, the one sent last: when it was sent, ns */
	u32 newest_end;			/* of that packet: where it ends in the stream, bytes */
	u32 steps;			/* packets that may still be looked at before this event */
	u32 left;			/* packets that the kernel counted as lost and the controller was not told of */
	u32 is_in_hand;			/* 1: the packet looked at was marked since the last event and is in no run yet */
	struct ring_packet packet;	/* the packet in hand, as the ring knows packets */
	u32 entry;			/* of the packet in hand: index of its entry in the ring, or RING_NONE */
};

/* Lost packets that one EVENT_LOST tells of: adjacent in the stream, and with the same entry in the ring. */
struct lost_run {
	struct ring_packet packet;	/* the last of them */
	u32 entry;			/* index of their entry in the ring, or RING_NONE */
	u32 start;			/* where the first begins in the stream, bytes */
	u32 segments;			/* how many segments they are; 0: there is no run */
	u32 is_app_limited;		/* of the last: sent while the application had nothing more to send */
};
#endif

/* record.flow of a socket that has left us: it closes, or has taken another controller and keeps its storage. */
#define FLOW_LEFT (~0ULL)

/* A socket when it came to us, for a socket may come amid its data. flows.bpf.c reads it behind the record. */
struct beginning {
	u64 now_us;		/* when that was: CLOCK_MONOTONIC, us */
	u64 bytes_acked;	/* what the socket had done by then, as in counters */
	u64 bytes_sent;
	u64 bytes_retrans;
};

/* What we keep with a socket. */
struct flow {
	struct record record;	/* the latest event, and the controller's state */
	struct beginning beginning;
	/*
	 * Where tp->app_limited cannot be written: packets sent while `delivered` was in [start, end] count as
	 * application-limited, which is what the kernel would have made of the write. In packets delivered.
	 */
	u64 marked_start;
	u64 marked_end;		/* 0: no packet counts so */
#ifdef CC_WANTS_LOST
	u64 probe_is_out;		/* after the last ACK, 1: a tail loss probe sent old data again and is not answered */
	u64 told_ns;			/* before this event, of the packets told of the one sent last: when it was sent, ns */
	u32 told_end;			/* of that packet: where it ends in the stream, bytes */
	u32 range_end;			/* where the packet that was told of last ends in the stream, bytes */
	struct ring_packet sample;	/* the packet of the latest ACK's sample */
	u32 sample_is_app_limited;	/* of that packet: sent while the application had nothing more to send */
	struct lost_walk walk;		/* where the search for lost packets is */
	struct lost_run run;		/* what the next EVENT_LOST tells of */
	struct ring_entry now;		/* what keep_record() offers to the ring; too large for the stack */
	struct ring ring;		/* last, because a new flow's entries are not cleared */
#endif
};

/* Linux has 8 KB for a socket's storage from 6.19 on, of which its own head takes up to 192 bytes. */
_Static_assert(sizeof(struct flow) <= 8000, "no room in socket storage");

/* The flow of each socket that got storage; it ends with the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/*
 * The flows of sockets that get no storage, because net.core.optmem_max is used up, or because the kernel (from 6.19 on)
 * allocates it in a way that some CPUs cannot do (no 16-byte compare-and-exchange). The key is the socket's address. All
 * elements are allocated ahead; the loader may change how many.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, struct flow);
} spare_flows SEC(".maps");

/* What a new element of spare_flows begins as. A flow is too large for the stack, from which it would be copied otherwise. */
const volatile struct flow empty_flow SEC(".rodata.empty");

/* The trace: struct record after struct record. The loader makes it large when it wants one. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} trace SEC(".maps");

/* The kernel counts in 32 bits, and a flow may deliver more packets than that. Adds to `last` what was counted since. */
static __always_inline u64 widen(u64 last, u32 now)
{
	return last + (u32)(now - (u32)last);
}

/* Packets in the network, as far as TCP knows; tcp_packets_in_flight() of the kernel. */
static __always_inline u32 packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/*
 * The part of the event that every callback knows. A round trip that was measured and is below 1 us counts as 1, because 0
 * means that there is none.
 */
static __always_inline void fill_socket(struct flow *flow, const struct tcp_sock *tp, u64 event)
{
	const struct sock *sk = (const struct sock *)tp;
	struct ack *ack = &flow->record.ack;
	u64 now_ns = tp->tcp_clock_cache, edt_ns = tp->tcp_wstamp_ns, srtt = tp->srtt_us;

	ack->event = event;
	ack->now_us = tp->tcp_mstamp;
	ack->unit_bytes = tp->mss_cache;
	ack->smss = 1;
	ack->cwnd = tp->snd_cwnd;
	ack->cwnd_clamp = tp->snd_cwnd_clamp;
	ack->pacing_rate = sk->sk_pacing_rate;
	ack->max_pacing_rate = sk->sk_max_pacing_rate;
	ack->delivered = widen(ack->delivered, tp->delivered);
	ack->delivered_us = tp->delivered_mstamp;
	ack->delivered_ce = widen(ack->delivered_ce, tp->delivered_ce);
	ack->lost = widen(ack->lost, tp->lost);
	ack->inflight = packets_in_flight(tp);
	ack->srtt_us = srtt ? (srtt >> 3 ? srtt >> 3 : 1) : 0;
	ack->min_rtt_us = tp->rtt_min.s[0].v;
	ack->is_app_limited = tp->app_limited || ack->delivered <= flow->marked_end;
	ack->is_cwnd_limited = read_bits(tp, is_cwnd_limited);
	ack->has_selective_acks = read_bits(tp, rx_opt.sack_ok) != 0;
	ack->ca_state = read_bits((const struct inet_connection_sock *)tp, icsk_ca_state);
	ack->edt_us = edt_ns > now_ns ? (edt_ns - now_ns) / 1000 : 0;
	ack->rand = bpf_get_prandom_u32();
}

/* The part that only an ACK brings. What the kernel marks as no sample, by negative numbers, becomes 0 or NO_RTT. */
static __always_inline void fill_sample(struct flow *flow, const struct rate_sample *rs)
{
	struct ack *ack = &flow->record.ack;
	long interval_us = rs->interval_us, rtt_us = rs->rtt_us;
	s32 delivered = rs->delivered, losses = rs->losses;
	bool valid = delivered >= 0 && interval_us > 0;

	ack->newly_acked = rs->acked_sacked;
	ack->newly_lost = losses > 0 ? losses : 0;
	ack->prior_inflight = rs->prior_in_flight;
	ack->rs_delivered = valid ? delivered : 0;
	ack->rs_lost = 0;
	ack->rs_interval_us = valid ? interval_us : 0;
	ack->rs_rtt_us = rtt_us < 0 ? NO_RTT : rtt_us;
	ack->rs_prior_delivered = rs->prior_delivered;
	ack->rs_tx_in_flight = 0;
	ack->rs_delivered_ce = valid && rs->delivered_ce > 0 ? rs->delivered_ce : 0;
	ack->rs_is_app_limited = rs->is_app_limited;
	ack->rs_is_ack_delayed = rs->is_ack_delayed;
}

/* After both: widens prior_delivered to 64 bits, and applies the marks where they stand in for tp->app_limited. */
static __always_inline void finish_sample(struct flow *flow)
{
	struct ack *ack = &flow->record.ack;

	ack->rs_prior_delivered = ack->delivered - (u32)(ack->delivered - ack->rs_prior_delivered);
	if (!config.can_write_app_limited && ack->rs_prior_delivered >= flow->marked_start &&
	    ack->rs_prior_delivered <= flow->marked_end)
		ack->rs_is_app_limited = 1;
}

/* In place of fill_sample(), where no ACK brought one. */
static __always_inline void clear_sample(struct flow *flow)
{
	struct ack *ack = &flow->record.ack;

	ack->newly_acked = 0;
	ack->newly_lost = 0;
	ack->prior_inflight = ack->inflight;
	ack->rs_delivered = 0;
	ack->rs_lost = 0;
	ack->rs_interval_us = 0;
	ack->rs_rtt_us = NO_RTT;
	ack->rs_prior_delivered = 0;
	ack->rs_tx_in_flight = 0;
	ack->rs_delivered_ce = 0;
	ack->rs_starts_lost_range = 0;
	ack->rs_is_app_limited = 0;
	ack->rs_is_ack_delayed = 0;
}

/*
 * What is in flight from now on counts as application-limited until it is delivered: the controller holds the sender back
 * (in ProbeRTT), so the rate at which it is delivered says nothing about the path.
 */
static __always_inline void mark_app_limited(struct flow *flow, struct tcp_sock *tp)
{
	u64 delivered = flow->record.ack.delivered, end = delivered + flow->record.ack.inflight;

	if (config.can_write_app_limited) {
		tp->app_limited = (u32)end ? (u32)end : 1;
		return;
	}
	if (delivered > flow->marked_end)
		flow->marked_start = delivered;
	flow->marked_end = end;
}

/* Gives the socket what the controller decided, within the bounds that are not the controller's. */
static __always_inline void apply(struct flow *flow, struct tcp_sock *tp)
{
	const struct control *out = &flow->record.control;
	struct sock *sk = (struct sock *)tp;
	u64 cwnd = u64_min(out->cwnd, tp->snd_cwnd_clamp);

	/* A window of 0 would stop the socket for good: no data, so no ACK, so no event that could raise it again. */
	tp->snd_cwnd = cwnd ? cwnd : 1;
	sk->sk_pacing_rate = u64_min(out->pacing_rate, sk->sk_max_pacing_rate);
	if (out->mark_app_limited)
		mark_app_limited(flow, tp);
}

/* The flow of a socket; NULL if there was no room for one. */
static __always_inline struct flow *flow_of(struct tcp_sock *tp)
{
	struct flow *flow = bpf_sk_storage_get(&flows, tp, NULL, 0);
	u64 key = (u64)tp;

	return flow ? flow : bpf_map_lookup_elem(&spare_flows, &key);
}

/* Makes room for a socket's flow, and counts what was not to be had; NULL if there is none. */
static __always_inline struct flow *new_flow(struct tcp_sock *tp)
{
	struct flow *flow = bpf_sk_storage_get(&flows, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	u64 key = (u64)tp;

	if (flow)
		return flow;
	bpf_map_update_elem(&spare_flows, &key, (const void *)&empty_flow, BPF_ANY);
	flow = bpf_map_lookup_elem(&spare_flows, &key);
	__sync_fetch_and_add(flow ? &counters.spare : &counters.without_storage, 1);
	return flow;
}

/*
 * Clears a flow, because a socket that left us and comes back finds its old storage. The ring's entries stay: with
 * `opened` at 0 nobody reads them, and they are most of it.
 */
static __always_inline void clear_flow(struct flow *flow)
{
	u64 *words = (u64 *)flow;
#ifdef CC_WANTS_LOST
	u64 count = __builtin_offsetof(struct flow, ring) / sizeof(u64);

	flow->ring.opened = 0;
#else
	u64 count = sizeof(*flow) / sizeof(u64);
#endif

	for (u64 i = 0; i < count; i++) {
		words[i] = 0;
		/* One by one: BPF has no memset to call. */
		asm volatile("" ::: "memory");
	}
}

/* Remembers what the socket had done before it came to us. */
static __always_inline void begin(struct flow *flow, const struct tcp_sock *tp)
{
	flow->beginning.now_us = tp->tcp_mstamp;
	flow->beginning.bytes_acked = tp->bytes_acked;
	flow->beginning.bytes_sent = tp->bytes_sent;
	flow->beginning.bytes_retrans = tp->bytes_retrans;
}

/*
 * Adds what a flow has done to the counters, once, because nobody can ask the socket afterwards. 6.1 also calls release for
 * sockets that never came to us: those have no flow, or one that has left.
 */
static __always_inline void end(struct flow *flow, const struct tcp_sock *tp, u64 brake_entries)
{
	if (flow->record.flow == FLOW_LEFT)
		return;
	flow->record.flow = FLOW_LEFT;
	__sync_fetch_and_add(&counters.ended, 1);
	__sync_fetch_and_add(&counters.bytes_acked, tp->bytes_acked - flow->beginning.bytes_acked);
	__sync_fetch_and_add(&counters.bytes_sent, tp->bytes_sent - flow->beginning.bytes_sent);
	__sync_fetch_and_add(&counters.bytes_retrans, tp->bytes_retrans - flow->beginning.bytes_retrans);
	if (brake_entries)
		__sync_fetch_and_add(&counters.brake_entries, brake_entries);
}

/* Records the event, if there is a trace. The reader polls: waking it would make each event cost ten times as much. */
static __always_inline void trace_event(struct flow *flow)
{
	if (!config.trace)
		return;
	__sync_fetch_and_add(&counters.traced, 1);
	if (bpf_ringbuf_output(&trace, &flow->record, sizeof(flow->record), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&counters.trace_lost, 1);
}

#endif
