/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* BBRv1 as a TCP congestion control: the controller of bbr1.h behind the callbacks of callbacks.bpf.h. */
#include "kernel.h"
#include "bbr1.h"

#define CC_STATE struct bbr1_state
#define CC_PARAMS struct bbr1_params
#define CC_ON_EVENT bbr1_on_event
#include "callbacks.bpf.h"

SEC("struct_ops/min_tso_segs")
int cc_min_tso_segs(u64 *ctx)
{
	return bbr1_min_tso_segs(loaded_params(), ((struct sock *)ctx[0])->sk_pacing_rate);
}

CC_TABLE("bbr1");
