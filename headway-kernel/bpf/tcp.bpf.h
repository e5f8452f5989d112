/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The glue between Linux TCP and a controller: tcp_sock + rate_sample -> struct ack, control -> socket, trace.
 * callbacks.bpf.h puts it behind the callbacks of the kernel. The file that includes it names
 *
 *	CC_STATE	the controller's state, a struct of u64
 *	CC_PARAMS	its parameters, a struct of u64
 *	CC_WANTS_LOST	defined if it asks how much was in flight and lost with a packet's own transmission
 *
 * Units: data in packets, so smss is 1 and unit_bytes the MSS. The kernel holds the socket lock around every
 * callback, hence one event at a time per socket, and what belongs to a socket needs no lock of its own.
 *
 * What a stock kernel does not hand over is 0 here: rs_tx_in_flight and rs_lost. lost.bpf.h reconstructs them for
 * controllers with CC_WANTS_LOST, and tells those of losses.
 */
#ifndef HEADWAY_TCP_BPF_H
#define HEADWAY_TCP_BPF_H

#include "kernel.h"
#ifdef CC_WANTS_LOST
#include "ring.h"
#endif

/* Written by the loader before load, so the verifier sees constants and prunes what they switch off. */
const volatile struct {
	u64 cong_control_has_ack;	/* Linux >= 6.10: (sk, ack, flag, rs); before: (sk, rs) */
	u64 can_write_app_limited;	/* else the marker of struct flow stands in for it */
	u64 trace;
	CC_PARAMS params;
} config SEC(".rodata");

/* Read by the loader. */
struct {
	u64 flows;		/* connections that started with us or switched to us */
	u64 spare;		/* of these: no socket storage, the state is in spare_flows */
	u64 without_storage;	/* of these: no room there either, so they run plain AIMD */
	u64 traced;		/* events offered to the trace */
	u64 trace_lost;		/* of these: the ring was full */
	u64 unknown;		/* samples and losses whose packet's in-flight is not known */
	u64 unfound;		/* packets marked lost and told of in the name of another */
} counters SEC(".bss");

/* One event as it happened: what the controller was given, what it answered, what it remembers. */
struct record {
	u64 flow;
	u64 port;
	struct ack ack;
	struct control control;
	CC_STATE state;
};

#ifdef CC_WANTS_LOST
/* Through the queue of what may be sent again, one packet at a time: lost.bpf.h. */
struct lost_walk {
	u64 next;		/* address of the packet to look at, 0 at the end */
	u64 cb[6];		/* of the last one: its struct tcp_skb_cb ... */
	u64 sent_ns;
	u64 newest_ns;		/* ... and of those told of, the last sent */
	u32 newest_end;
	u32 steps;
	u32 left;
	u32 is_in_hand;		/* it was marked since the last event and belongs to no run yet */
	struct ring_packet packet;
	u32 entry;
};

/* Lost packets that one EVENT_LOST tells of. */
struct lost_run {
	struct ring_packet packet;
	u32 entry;
	u32 start;
	u32 segments;
	u32 is_app_limited;
};
#endif

struct flow {
	struct record record;
	/*
	 * Where tp->app_limited cannot be written: packets sent while `delivered` was in [start, end] count as
	 * application-limited, which is what the kernel would have made of the write. end == 0: no such packet.
	 */
	u64 marked_start;
	u64 marked_end;
#ifdef CC_WANTS_LOST
	u64 probe_is_out;	/* after the last ACK: the tail was sent again, and nobody knows yet why */
	u64 told_ns;		/* when the last sent of the lost packets told of was sent, and where it ends */
	u32 told_end;
	u32 range_end;		/* where the last one told of ends */
	struct ring_packet sample;
	u32 sample_is_app_limited;
	struct lost_walk walk;
	struct lost_run run;
	struct ring_entry now;
	struct ring ring;		/* last: a new flow's entries are not cleared */
#endif
};

/* Of the 8 KB that Linux has for a socket's storage from 6.19 on, its own head takes up to 192 bytes. */
_Static_assert(sizeof(struct flow) <= 8000, "no room in socket storage");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/*
 * For sockets that get no storage: net.core.optmem_max is used up, or the kernel (from 6.19 on) allocates it in a
 * way that some CPUs cannot do (no 16-byte compare-and-exchange). Keyed by the socket's address, allocated ahead.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, struct flow);
} spare_flows SEC(".maps");

const volatile struct flow empty_flow SEC(".rodata.empty");

/* The loader makes it large when it wants a trace. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} trace SEC(".maps");

static __always_inline u64 min_u64(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* The kernel counts in 32 bits; a flow may deliver more packets than that. */
static __always_inline u64 widen(u64 last, u32 now)
{
	return last + (u32)(now - (u32)last);
}

static __always_inline u32 packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/* The part of the event that every callback knows. */
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

/* The part that only an ACK brings; what the kernel flags as no sample becomes 0 or NO_RTT. */
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

/* After both: prior_delivered in 64 bits, and the marker where it stands in for tp->app_limited. */
static __always_inline void finish_sample(struct flow *flow)
{
	struct ack *ack = &flow->record.ack;

	ack->rs_prior_delivered = ack->delivered - (u32)(ack->delivered - ack->rs_prior_delivered);
	if (!config.can_write_app_limited && ack->rs_prior_delivered >= flow->marked_start &&
	    ack->rs_prior_delivered <= flow->marked_end)
		ack->rs_is_app_limited = 1;
}

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

/* From now on what is in flight counts as application-limited. */
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

static __always_inline void apply(struct flow *flow, struct tcp_sock *tp)
{
	const struct control *out = &flow->record.control;
	struct sock *sk = (struct sock *)tp;
	u64 cwnd = min_u64(out->cwnd, tp->snd_cwnd_clamp);

	/* A window of 0 would stop the socket for good. */
	tp->snd_cwnd = cwnd ? cwnd : 1;
	sk->sk_pacing_rate = min_u64(out->pacing_rate, sk->sk_max_pacing_rate);
	if (out->mark_app_limited)
		mark_app_limited(flow, tp);
}

static __always_inline struct flow *flow_of(struct tcp_sock *tp)
{
	struct flow *flow = bpf_sk_storage_get(&flows, tp, NULL, 0);
	u64 key = (u64)tp;

	return flow ? flow : bpf_map_lookup_elem(&spare_flows, &key);
}

static __always_inline struct flow *new_flow(struct tcp_sock *tp)
{
	struct flow *flow = bpf_sk_storage_get(&flows, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	u64 key = (u64)tp;

	if (flow)
		return flow;
	bpf_map_update_elem(&spare_flows, &key, (const void *)&empty_flow, 0);
	flow = bpf_map_lookup_elem(&spare_flows, &key);
	__sync_fetch_and_add(flow ? &counters.spare : &counters.without_storage, 1);
	return flow;
}

/* A socket that comes back to us finds its old storage. */
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

static __always_inline void trace_event(struct flow *flow)
{
	if (!config.trace)
		return;
	__sync_fetch_and_add(&counters.traced, 1);
	if (bpf_ringbuf_output(&trace, &flow->record, sizeof(flow->record), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&counters.trace_lost, 1);
}

#endif
