/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* BBRv3 as a TCP congestion control: the controller of bbr3.h behind the callbacks of callbacks.bpf.h. */
#include "kernel.h"
#include "bbr3.h"

#define CC_STATE struct bbr3_state
#define CC_PARAMS struct bbr3_params
#define CC_ON_EVENT bbr3_on_event
#define CC_WANTS_LOST
#include "callbacks.bpf.h"

/* The kernel hands its helpers only to programs under a licence with GPL in it. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("struct_ops/min_tso_segs")
int cc_min_tso_segs(u64 *ctx)
{
	return bbr3_min_tso_segs(loaded_params());
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
	.name = "bbr3",
};
