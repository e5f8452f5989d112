/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Not for use: a sockops program as others have them, for the tests of trials. It asks for one kind of call, and does not hand
 * in again what others have asked for.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define BPF_SOCK_OPS_RETRANS_CB_FLAG 2

/* Read by the test, in this order. */
struct {
	u64 asked;	/* connections for which it has asked */
	u64 kept;	/* changes of state, of which others want to hear, of connections that still have what it asked for */
	u64 replaced;	/* the same of connections that no longer have it */
} counters SEC(".bss");

SEC("sockops")
int flags(struct bpf_sock_ops *ops)
{
	u32 op = ops->op;

	if (op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB) {
		bpf_sock_ops_cb_flags_set(ops, BPF_SOCK_OPS_RETRANS_CB_FLAG);
		__sync_fetch_and_add(&counters.asked, 1);
	} else if (op == BPF_SOCK_OPS_STATE_CB) {
		if (ops->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_RETRANS_CB_FLAG)
			__sync_fetch_and_add(&counters.kept, 1);
		else
			__sync_fetch_and_add(&counters.replaced, 1);
	}
	return 1;
}
