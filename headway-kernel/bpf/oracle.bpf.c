/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The kernel's own `bbr`, watched: every callback records the event as our glue sees it, lets the kernel's function
 * decide, and records what it decided. A root test replays the events through our BBRv1 and compares the decisions.
 *
 * For that test only. It takes Linux 6.10 to 7.0, where BPF may call the functions of `bbr` and one callback tells all
 * events, with `bbr` built in or loaded.
 */
#include "kernel.h"

/* A function of the kernel, which libbpf finds by its name. */
#define __ksym __attribute__((section(".ksyms")))

extern void bbr_init(struct sock *sk) __ksym;
extern void bbr_main(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs) __ksym;
extern u32 bbr_sndbuf_expand(struct sock *sk) __ksym;
extern u32 bbr_undo_cwnd(struct sock *sk) __ksym;
extern void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern u32 bbr_ssthresh(struct sock *sk) __ksym;
extern u32 bbr_min_tso_segs(struct sock *sk) __ksym;
extern void bbr_set_state(struct sock *sk, u8 new_state) __ksym;

/* Not a controller's state, but what the test must know besides to decide as the kernel does. */
struct oracle_state {
	u64 jiffies;	/* the clock of the kernel's timers, ticks since the boot */
	u64 cycle_idx;	/* the phase of ProbeBW that `bbr` is in, 0 to 7; the kernel enters a random one */
};

struct oracle_params {
	u64 unused;	/* the loader wants at least one word */
};

#define CC_STATE struct oracle_state
#define CC_PARAMS struct oracle_params
#include "tcp.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
/* The state of the kernel's `bbr`. */
struct bbr {
	u32 cycle_idx : 3;	/* the phase of ProbeBW, 0 to 7 */
};
/* What libbpf takes for struct inet_connection_sock, too: it ignores what follows three underscores. */
struct inet_connection_sock___priv {
	u64 icsk_ca_priv[13];	/* where the kernel's controllers keep their state: 104 bytes */
};
#pragma clang attribute pop

/* Before the kernel's function decides: the event, as our glue fills it. */
static __always_inline void before(struct flow *flow, struct tcp_sock *tp, u64 event)
{
	fill_socket(flow, tp, event);
	clear_sample(flow);
	flow->record.state.jiffies = bpf_jiffies64();
}

/* After it has decided: its decision stands in the socket. */
static __always_inline void after(struct flow *flow, struct tcp_sock *tp)
{
	const struct inet_connection_sock___priv *icsk = (void *)tp;
	const struct bbr *bbr = (const struct bbr *)icsk->icsk_ca_priv;

	flow->record.control.cwnd = tp->snd_cwnd;
	flow->record.control.pacing_rate = ((struct sock *)tp)->sk_pacing_rate;
	flow->record.state.cycle_idx = read_bits(bbr, cycle_idx);
	trace_event(flow);
}

SEC("struct_ops/init")
int oracle_init(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	u64 id = __sync_fetch_and_add(&counters.flows, 1);
	struct flow *flow = new_flow(tp);

	if (flow) {
		clear_flow(flow);
		flow->record.flow = id;
		before(flow, tp, EVENT_INIT);
	}
	bbr_init((struct sock *)tp);
	if (flow)
		after(flow, tp);
	return 0;
}

SEC("struct_ops/cong_control")
int oracle_cong_control(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	const struct rate_sample *rs = (const struct rate_sample *)ctx[3];
	struct flow *flow = flow_of(tp);

	if (flow) {
		before(flow, tp, EVENT_ACK);
		fill_sample(flow, rs);
		finish_sample(flow);
	}
	bbr_main((struct sock *)tp, ctx[1], ctx[2], rs);
	if (flow)
		after(flow, tp);
	return 0;
}

SEC("struct_ops/cwnd_event")
int oracle_cwnd_event(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct flow *flow = flow_of(tp);
	u32 event = ctx[1];
	/* The other events mean nothing to `bbr`, nor does a pause that the network caused. */
	bool counts = flow && event == CA_EVENT_TX_START && tp->app_limited;

	if (counts)
		before(flow, tp, EVENT_TX_START);
	bbr_cwnd_event((struct sock *)tp, event);
	if (counts)
		after(flow, tp);
	return 0;
}

SEC("struct_ops/ssthresh")
int oracle_ssthresh(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct flow *flow = flow_of(tp);
	u32 ssthresh;

	if (flow)
		before(flow, tp, EVENT_SSTHRESH);
	ssthresh = bbr_ssthresh((struct sock *)tp);
	if (flow)
		after(flow, tp);
	return ssthresh;
}

SEC("struct_ops/set_state")
int oracle_set_state(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct flow *flow = flow_of(tp);
	u8 new_state = ctx[1];
	/* `bbr` acts only on a timeout. */
	bool counts = flow && new_state == CA_LOSS;

	if (counts)
		before(flow, tp, EVENT_LOSS);
	bbr_set_state((struct sock *)tp, new_state);
	if (counts)
		after(flow, tp);
	return 0;
}

SEC("struct_ops/undo_cwnd")
int oracle_undo_cwnd(u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct flow *flow = flow_of(tp);
	u32 cwnd;

	if (flow)
		before(flow, tp, EVENT_UNDO);
	cwnd = bbr_undo_cwnd((struct sock *)tp);
	if (flow)
		after(flow, tp);
	return cwnd;
}

SEC("struct_ops/min_tso_segs")
int oracle_min_tso_segs(u64 *ctx)
{
	return bbr_min_tso_segs((struct sock *)ctx[0]);
}

SEC("struct_ops/sndbuf_expand")
int oracle_sndbuf_expand(u64 *ctx)
{
	return bbr_sndbuf_expand((struct sock *)ctx[0]);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops ops = {
	.init = (void *)oracle_init,
	.cong_control = (void *)oracle_cong_control,
	.cwnd_event = (void *)oracle_cwnd_event,
	.ssthresh = (void *)oracle_ssthresh,
	.set_state = (void *)oracle_set_state,
	.undo_cwnd = (void *)oracle_undo_cwnd,
	.min_tso_segs = (void *)oracle_min_tso_segs,
	.sndbuf_expand = (void *)oracle_sndbuf_expand,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "oracle",
};
