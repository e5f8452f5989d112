/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The kernel's callbacks, each of them one event for the controller, after one of losses where there were any. A
 * *.bpf.c names its controller as tcp.bpf.h says, that is
 *
 *	CC_STATE	struct, all u64: at most 270 words where CC_WANTS_LOST is defined
 *	CC_PARAMS	struct, all u64: the words that the loader's row of the controller gives, in its order
 *	CC_WANTS_LOST	defined (to nothing) by a controller that takes EVENT_LOST, rs_tx_in_flight and rs_lost
 *
 * and with
 *
 *	CC_ON_EVENT	void (CC_STATE *, const CC_PARAMS *, const struct ack *, struct control *)
 *
 * then includes this file, adds cc_min_tso_segs and ends with CC_TABLE("NAME"): bbr1.bpf.c is the whole of it.
 *
 * With CC_WANTS_LOST: losses since the last event come before the next event, one EVENT_LOST for each run of adjacent
 * packets that left between the same two entries of the ring, with newly_lost their number and the transmission of the
 * last of them. What it decides is applied before that event is filled.
 * rs_tx_in_flight 0 means not known, then rs_lost is 0 too, in EVENT_LOST as in EVENT_ACK: nothing is too high then.
 * Costs 5 KB a socket.
 */
#ifndef HEADWAY_CALLBACKS_BPF_H
#define HEADWAY_CALLBACKS_BPF_H

#include "tcp.bpf.h"
#include "lost.bpf.h"

/*
 * The parameters as the controller takes them. The compiler may not look through the pointer: it would find
 * zeros, the loader's values come later.
 */
static __always_inline const CC_PARAMS *loaded_params(void)
{
	const CC_PARAMS *params = (const CC_PARAMS *)&config.params;

	asm volatile("" : "+r"(params));
	return params;
}

/*
 * The controller itself. Not static: the verifier then walks it once by itself, for any event and any state,
 * instead of once for each way that leads here. The controller's entry is inline, so that what it keeps on the stack
 * lies in this frame: verifiers of 7.1 and 7.2 lose sight of a frame that is neither the outermost nor the reader's own.
 */
__noinline int decide(struct flow *flow)
{
	if (flow)
		CC_ON_EVENT(&flow->record.state, loaded_params(), &flow->record.ack, &flow->record.control);
	return 0;
}

/* One event of one socket: the event is filled, the rest is the same for all. */
static __noinline int step(struct flow *flow, struct tcp_sock *tp)
{
	decide(flow);
	apply(flow, tp);
	trace_event(flow);
	return 0;
}

/*
 * Packets that the kernel marked lost since the last event, or `repaired` ones that it never marked: the controller
 * hears of them first. Inline: BPF nests eight calls, and the controller needs them.
 */
static __always_inline void tell_losses(struct flow *flow, struct tcp_sock *tp, u32 repaired)
{
	if (!untold(flow, tp) && !repaired)
		return;
	start_walk(flow, tp);
	for (u32 i = 0; i < LOST_EVENTS; i++) {
		if (!fill_lost(flow, tp, repaired, i + 1 == LOST_EVENTS))
			break;
		step(flow, tp);
		repaired = 0;
	}
}

/* A callback that brings no sample. */
static __always_inline void on_event(struct flow *flow, struct tcp_sock *tp, u64 event)
{
	if (event != EVENT_INIT)
		tell_losses(flow, tp, event == EVENT_SSTHRESH && tail_was_repaired(flow, tp));
	fill_socket(flow, tp, event);
	clear_sample(flow);
	step(flow, tp);
}

/*
 * Without room for the state there is no model. Plain AIMD in the fields that the socket has anyway keeps such a
 * connection going and fair. An ACK before init (the SYN-ACK) is none of ours.
 */
static __noinline int aimd(struct tcp_sock *tp, u32 acked)
{
	u64 ca_state = read_bits((const struct inet_connection_sock *)tp, icsk_ca_state);
	u32 cwnd = tp->snd_cwnd, ssthresh = tp->snd_ssthresh, count = tp->snd_cwnd_cnt;

	if (((const struct sock *)tp)->__sk_common.skc_state == TCP_SYN_SENT)
		return 0;
	if (ca_state == CA_CWR || ca_state == CA_RECOVERY) {
		cwnd = cwnd < ssthresh ? cwnd : ssthresh;
	} else if (cwnd < ssthresh) {
		cwnd += acked;
	} else {
		count += acked;
		if (count >= cwnd) {
			count = 0;
			cwnd += 1;
		}
		tp->snd_cwnd_cnt = count;
	}
	tp->snd_cwnd = min_u64(cwnd ? cwnd : 1, tp->snd_cwnd_clamp);
	return 0;
}

SEC("struct_ops/init")
int cc_init(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct sock *sk = (struct sock *)tp;
	u64 id = __sync_fetch_and_add(&counters.flows, 1);
	struct flow *flow = new_flow(tp);

	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	if (!flow)
		return 0;
	clear_flow(flow);
	flow->record.flow = id;
	flow->record.port = sk->__sk_common.skc_num;
	on_event(flow, tp, EVENT_INIT);
	start_record(flow, tp);
	keep_record(flow, tp);
	/* fq announces itself here; only where nobody paces, TCP's own timer is to. */
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	return 0;
}

/* The socket closes or takes another congestion control; its own storage goes with it. */
SEC("struct_ops/release")
int cc_release(u64 *ctx)
{
	u64 key = ctx[0];

	bpf_map_delete_elem(&spare_flows, &key);
	return 0;
}

SEC("struct_ops/cong_control")
int cc_cong_control(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct flow *flow = flow_of(tp);
	const struct rate_sample *rs;

	/*
	 * Each load is written out: the compiler would merge the branches into one load at a computed offset,
	 * and a context access that does not exist on this kernel is refused even if it never happens.
	 */
	if (config.cong_control_has_ack)
		asm volatile("%0 = *(u64 *)(%1 + 24)" : "=r"(rs) : "r"(ctx));
	else
		asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(rs) : "r"(ctx));
	if (!flow)
		return aimd(tp, rs->acked_sacked), 0;
	see_sample(flow, rs);
	tell_losses(flow, tp, 0);
	fill_socket(flow, tp, EVENT_ACK);
	fill_sample(flow, rs);
	fill_record(flow, rs);
	finish_sample(flow);
	step(flow, tp);
	keep_record(flow, tp);
	return 0;
}

static __always_inline void on_tx_start(struct tcp_sock *tp)
{
	struct flow *flow = flow_of(tp);

	/* Restarting from idle; a pause that the network caused is none of the controller's business. */
	if (flow && (tp->app_limited || widen(flow->record.ack.delivered, tp->delivered) <= flow->marked_end))
		on_event(flow, tp, EVENT_TX_START);
}

/* Up to Linux 7.0 ... */
SEC("struct_ops/cwnd_event")
int cc_cwnd_event(u64 *ctx)
{
	if ((u32)ctx[1] == CA_EVENT_TX_START)
		on_tx_start((struct tcp_sock *)ctx[0]);
	return 0;
}

/* ... and from 7.1 on. */
SEC("struct_ops/cwnd_event_tx_start")
int cc_cwnd_event_tx_start(u64 *ctx)
{
	on_tx_start((struct tcp_sock *)ctx[0]);
	return 0;
}

SEC("struct_ops/ssthresh")
int cc_ssthresh(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct flow *flow = flow_of(tp);
	u32 half = tp->snd_cwnd / 2;

	if (!flow)
		return half > 2 ? half : 2;
	on_event(flow, tp, EVENT_SSTHRESH);
	return tp->snd_ssthresh;
}

SEC("struct_ops/set_state")
int cc_set_state(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct flow *flow = flow_of(tp);

	if (!flow || (u8)ctx[1] != CA_LOSS)
		return 0;
	on_event(flow, tp, EVENT_LOSS);
	keep_record(flow, tp);
	return 0;
}

SEC("struct_ops/undo_cwnd")
int cc_undo_cwnd(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct flow *flow = flow_of(tp);

	if (flow) {
		on_event(flow, tp, EVENT_UNDO);
		forget_marks(flow, 0);
	}
	return tp->snd_cwnd;
}

/* Paced sending leaves more in the send queue than the stack's factor of 2 expects. */
SEC("struct_ops/sndbuf_expand")
int cc_sndbuf_expand(u64 *ctx)
{
	return 3;
}

/*
 * The table, after cc_min_tso_segs. The loader may rename it. Without restriction: any user's socket may choose it. The
 * kernel hands its helpers only to programs under a licence with GPL in it.
 */
#define CC_TABLE(controller)                                                                                    \
	char LICENSE[] SEC("license") = "Dual BSD/GPL";                                                         \
	SEC(".struct_ops.link")                                                                                 \
	struct tcp_congestion_ops ops = {                                                                       \
		.init = (void *)cc_init,                                                                        \
		.release = (void *)cc_release,                                                                  \
		.cong_control = (void *)cc_cong_control,                                                        \
		.cwnd_event = (void *)cc_cwnd_event,                                                            \
		.cwnd_event_tx_start = (void *)cc_cwnd_event_tx_start,                                          \
		.ssthresh = (void *)cc_ssthresh,                                                                \
		.set_state = (void *)cc_set_state,                                                              \
		.undo_cwnd = (void *)cc_undo_cwnd,                                                              \
		.min_tso_segs = (void *)cc_min_tso_segs,                                                        \
		.sndbuf_expand = (void *)cc_sndbuf_expand,                                                      \
		.flags = TCP_CONG_NON_RESTRICTED,                                                               \
		.name = controller,                                                                             \
	}

#endif
