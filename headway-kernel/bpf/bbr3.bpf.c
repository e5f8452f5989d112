/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* BBRv3 as a TCP congestion control: the controller of bbr3.h behind the callbacks of callbacks.bpf.h. */
#include "kernel.h"
#include "bbr3.h"

#define CC_STATE struct bbr3_state
#define CC_PARAMS struct bbr3_params
#define CC_ON_EVENT bbr3_on_event
#define CC_WANTS_LOST
#include "callbacks.bpf.h"

SEC("struct_ops/min_tso_segs")
int cc_min_tso_segs(u64 *ctx)
{
	return bbr3_min_tso_segs(loaded_params());
}

CC_TABLE("bbr3");
