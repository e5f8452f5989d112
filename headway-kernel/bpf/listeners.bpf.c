/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Sets the congestion control of listening sockets again that have chosen one by a certain name. Their connections inherit it,
 * and what they remember is not the name but the table of callbacks that had it when they chose: after an exchange of the
 * table it would be the old one for ever.
 *
 * The kernel runs this for every TCP socket of the network namespace of whoever reads the iterator.
 */
#include "kernel.h"

/* Written by the loader before the program is loaded. */
const volatile struct {
	char cc[TCP_CA_NAME_MAX];	/* the name */
} config SEC(".rodata");

/* Read by the loader. */
struct {
	u64 set;	/* listening sockets that were set again */
	u64 refused;	/* those where the kernel refused */
} counters SEC(".bss");

SEC("iter/tcp")
int set_again(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct inet_connection_sock *socket;
	const struct tcp_congestion_ops___named *ops;
	char cc[TCP_CA_NAME_MAX], own[TCP_CA_NAME_MAX];

	if (!common || common->skc_state != TCP_LISTEN)
		return 0;
	socket = bpf_skc_to_tcp_sock(common);
	/* One that follows the default must go on following it. */
	if (!socket || !read_bits(socket, icsk_ca_setsockopt))
		return 0;
	ops = socket->icsk_ca_ops;
	if (bpf_probe_read_kernel(own, sizeof(own), ops->name))
		return 0;
	for (u32 i = 0; i < TCP_CA_NAME_MAX; i++) {
		cc[i] = config.cc[i];
		if (cc[i] != own[i])
			return 0;
		if (!cc[i])
			break;
	}
	for (u32 i = 0; i < TCP_CA_NAME_MAX; i++)
		cc[i] = config.cc[i];
	if (bpf_setsockopt(common, SOL_TCP, TCP_CONGESTION, cc, sizeof(cc)))
		counters.refused++;
	else
		counters.set++;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
