/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* BBRv1 as a TCP congestion control: the controller of bbr1.h under the glue of tcp.bpf.h. */
#include "kernel.h"
#include "bbr1.h"

#define CC_STATE struct bbr1_state
#define CC_PARAMS struct bbr1_params
#define CC_ON_EVENT bbr1_on_event
#include "tcp.bpf.h"

/* The kernel hands its helpers only to programs under a licence with GPL in it. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("struct_ops/min_tso_segs")
int cc_min_tso_segs(u64 *ctx)
{
	return bbr1_min_tso_segs(loaded_params(), ((struct sock *)ctx[0])->sk_pacing_rate);
}

/* The loader may rename it. Without restriction: any user's socket may choose it. */
SEC(".struct_ops.link")
struct tcp_congestion_ops ops = {
	.init = (void *)cc_init,
	.release = (void *)cc_release,
	.cong_control = (void *)cc_cong_control,
	.cwnd_event = (void *)cc_cwnd_event,
	.cwnd_event_tx_start = (void *)cc_cwnd_event_tx_start,
	.ssthresh = (void *)cc_ssthresh,
	.set_state = (void *)cc_set_state,
	.undo_cwnd = (void *)cc_undo_cwnd,
	.min_tso_segs = (void *)cc_min_tso_segs,
	.sndbuf_expand = (void *)cc_sndbuf_expand,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bbr1",
};
