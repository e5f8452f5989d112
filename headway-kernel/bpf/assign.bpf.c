/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Gives connections a congestion control: those of the cgroup that the program is attached to, and of the cgroups below.
 *
 * It does so when the handshake is done and not when connect() is called, because only then is the controller started once
 * and with a measured round trip, as if the connection had begun with it. A connection that came in does not show its
 * process, but it is in the cgroup in which its listener was made.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MAX_RANGES 16

/* Written by the loader before the program is loaded; assign.rs lays it out the same, and reads it back. */
const volatile struct {
	char cc[TCP_CA_NAME_MAX];	/* the congestion control that connections get */
	u32 ranges;			/* how many of the following count; 0: every port */
	struct {
		u16 first;
		u16 last;		/* inclusive */
	} range[MAX_RANGES];
} config SEC(".rodata");

/* Read by the loader, in this order; counted since the program was loaded. */
struct {
	u64 given;	/* connections that got it */
	u64 refused;	/* connections that keep what they had, because the kernel did not take the name */
} counters SEC(".bss");

static __always_inline bool is_in_range(u32 port)
{
	for (u32 i = 0; i < MAX_RANGES && i < config.ranges; i++)
		if (config.range[i].first <= port && port <= config.range[i].last)
			return 1;
	return 0;
}

/* The kernel keeps the remote port as it came from the network. */
static __always_inline u32 remote_port(const struct bpf_sock_ops *ops)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap32(ops->remote_port);
#else
	return ops->remote_port;
#endif
}

/* Always 1: anything else would tell the kernel that what other programs have answered does not count. */
SEC("sockops")
int assign(struct bpf_sock_ops *ops)
{
	u32 op = ops->op;

	if (op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	/* Either end, so that a port stands for the service behind it, whether that is here or over there. */
	if (config.ranges && !is_in_range(ops->local_port) && !is_in_range(remote_port(ops)))
		return 1;
	if (bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, (void *)config.cc, TCP_CA_NAME_MAX))
		__sync_fetch_and_add(&counters.refused, 1);
	else
		__sync_fetch_and_add(&counters.given, 1);
	return 1;
}
