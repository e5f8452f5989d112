/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The kernel's callbacks. Each is one event for the controller, after events of losses where there were any. Each says here
 * when the kernel calls it, and what we do there and why.
 *
 * A *.bpf.c names its controller as tcp.bpf.h says, that is
 *
 *	CC_STATE	struct, all u64, with a struct brake `brake`: at most 270 words where CC_WANTS_LOST is defined
 *	CC_PARAMS	struct, all u64: the words that the loader's row of the controller gives, in its order
 *	CC_WANTS_LOST	defined (to nothing) by a controller that takes EVENT_LOST, rs_tx_in_flight and rs_lost
 *
 * and with
 *
 *	CC_ON_EVENT	void (CC_STATE *, const CC_PARAMS *, const struct ack *, struct control *)
 *
 * then includes this file, adds cc_min_tso_segs and ends with CC_TABLE("NAME"): bbr1.bpf.c is the whole of it.
 *
 * With CC_WANTS_LOST the controller is told of losses before the next event: one EVENT_LOST for each run of adjacent packets
 * that have the same entry in the ring, with their number in newly_lost and what was in flight with the last of them in
 * rs_tx_in_flight. What it decides on that is applied before the next event is filled.
 * Where it is not known what was in flight, rs_tx_in_flight and rs_lost are 0, in EVENT_LOST as in EVENT_ACK, and the
 * controller must not take the loss as a sign that too much was. All this costs 5 KB a socket, and the kernel takes
 * a block of 8 KB for the whole.
 */
#ifndef HEADWAY_CALLBACKS_BPF_H
#define HEADWAY_CALLBACKS_BPF_H

#include "tcp.bpf.h"
#include "lost.bpf.h"

/*
 * The parameters as the controller takes them. The empty assembly hides from the compiler what the pointer points to: it
 * would take the zeros that stand there now, but the loader writes the values later.
 */
static __always_inline const CC_PARAMS *loaded_params(void)
{
	const CC_PARAMS *params = (const CC_PARAMS *)&config.params;

	asm volatile("" : "+r"(params));
	return params;
}

/*
 * The controller itself. It is not static, because the verifier then walks it once by itself, for any event and any state,
 * instead of once for each way that leads here. The controller's entry is inline, so that what it keeps on the stack
 * lies in this frame: the verifiers of 7.1 and 7.2 refuse accesses to the stack of a caller that is not the outermost.
 */
__noinline int decide(struct flow *flow)
{
	if (flow)
		CC_ON_EVENT(&flow->record.state, loaded_params(), &flow->record.ack, &flow->record.control);
	return 0;
}

/* One event of one socket, once it is filled: the rest is the same for all events. */
static __noinline int step(struct flow *flow, struct tcp_sock *tp)
{
	decide(flow);
	apply(flow, tp);
	trace_event(flow);
	return 0;
}

/*
 * Tells the controller of the packets that the kernel marked lost since the last event, and of `repaired` ones that it never
 * marked. They come first, because what they change must be known when the controller judges the event itself. Inline,
 * because BPF allows eight nested calls, and the controller needs them.
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

/* The whole of an event that brings no sample. */
static __always_inline void on_event(struct flow *flow, struct tcp_sock *tp, u64 event)
{
	if (event != EVENT_INIT)
		tell_losses(flow, tp, event == EVENT_SSTHRESH && tail_was_repaired(flow, tp));
	fill_socket(flow, tp, event);
	clear_sample(flow);
	step(flow, tp);
}

/*
 * For a socket that got no room for a controller's state. Plain AIMD (slow start, then one packet a round trip), in fields
 * that the socket has anyway, keeps such a connection going and fair. In recovery the window falls to ssthresh. Before the
 * SYN is answered there is nothing to grow: the kernel calls cong_control for the SYN-ACK, before init.
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
	tp->snd_cwnd = u64_min(cwnd ? cwnd : 1, tp->snd_cwnd_clamp);
	return 0;
}

/*
 * Called when the handshake is done, and when a socket switches to us amid its data (setsockopt). Here the flow gets its
 * state. The kernel's own ssthresh is set out of the way, so that nothing but the controller ends its start.
 */
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
	begin(flow, tp);
	on_event(flow, tp, EVENT_INIT);
	start_record(flow, tp);
	keep_record(flow, tp);
	/* Where the queueing discipline fq paces it has said so here. Where nobody does, TCP's own timer must. */
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	return 0;
}

/*
 * Called when the socket closes or takes another congestion control. Socket storage ends with the socket by itself, but an
 * element of the spare table must be freed for others.
 */
SEC("struct_ops/release")
int cc_release(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct flow *flow = flow_of(tp);
	u64 key = ctx[0];

	if (flow)
		end(flow, tp, flow->record.state.brake.entries);
	bpf_map_delete_elem(&spare_flows, &key);
	return 0;
}

/*
 * Called at the end of every ACK's processing, in place of the kernel's own window and pacing: the one callback that brings
 * a rate sample. The ring must see the sample before losses are looked up in it, and the new state of the socket after.
 */
SEC("struct_ops/cong_control")
int cc_cong_control(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct flow *flow = flow_of(tp);
	const struct rate_sample *rs;

	/*
	 * Each load is written out, because the compiler would merge the branches into one load at a computed offset, and
	 * the verifier refuses an access to an argument that this kernel does not pass even if it never happens.
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

/*
 * The first packet after everything sent was acknowledged. To the controller it is a restart from idle, unless the network
 * caused the pause (a closed receive window): then the application still had data to send.
 */
static __always_inline void on_tx_start(struct tcp_sock *tp)
{
	struct flow *flow = flow_of(tp);

	if (flow && (tp->app_limited || widen(flow->record.ack.delivered, tp->delivered) <= flow->marked_end))
		on_event(flow, tp, EVENT_TX_START);
}

/* Called for some events of sending and receiving, up to Linux 7.0 for that first packet, too. */
SEC("struct_ops/cwnd_event")
int cc_cwnd_event(u64 *ctx)
{
	if ((u32)ctx[1] == CA_EVENT_TX_START)
		on_tx_start((struct tcp_sock *)ctx[0]);
	return 0;
}

/* Called for that first packet from Linux 7.1 on. */
SEC("struct_ops/cwnd_event_tx_start")
int cc_cwnd_event_tx_start(u64 *ctx)
{
	on_tx_start((struct tcp_sock *)ctx[0]);
	return 0;
}

/*
 * Called when the kernel is about to reduce the window: on entering recovery, at a timeout, and for ECN. The controller hears
 * that a reduction begins; the kernel keeps its threshold, because the controller sets the window itself.
 */
SEC("struct_ops/ssthresh")
int cc_ssthresh(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct flow *flow = flow_of(tp);
	u32 half = tp->snd_cwnd / 2;

	/* Plain AIMD halves, and goes on with two packets at least (RFC 5681, equation 4). */
	if (!flow)
		return half > 2 ? half : 2;
	on_event(flow, tp, EVENT_SSTHRESH);
	return tp->snd_ssthresh;
}

/*
 * Called when the socket's state of recovery changes. Only a timeout (Loss) is an event: the kernel has marked all in flight
 * as lost then. Of the other states the controller reads ca_state at the next ACK.
 */
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

/*
 * Called when the kernel finds that a reduction was spurious: nothing was lost, only late. It asks for the window to go back
 * to. It also takes all marks of losses away, so we forget which packets we have reported.
 */
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

/*
 * Called when the kernel sizes the send buffer: how many windows it is to hold. A paced sender leaves more in the queue than
 * the stack's factor of 2 expects, so three, as the kernel's own bbr has it.
 */
SEC("struct_ops/sndbuf_expand")
int cc_sndbuf_expand(u64 *ctx)
{
	return 3;
}

/*
 * The table, to be put after cc_min_tso_segs, which the kernel calls to ask how many segments a burst has at least. The
 * loader may write another name. The licence is spelled so because the kernel gives its helpers only to programs under one
 * that is compatible with the GPL.
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
