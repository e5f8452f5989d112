/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Looks at sockets from outside: the flows of a controller of ours, found through the map in which it keeps them, and the
 * sockets of the reader's network namespace whatever they use. Each program puts one struct a socket into a ring buffer, which
 * the reader (src/flows.rs) empties.
 *
 * One object is loaded for each controller, because where its record has what we show is written into `config` first.
 */
#include "kernel.h"

/* Words that are copied from a controller's record. */
#define COLUMNS 16

/* Written by the loader, in bytes of struct flow (tcp.bpf.h). */
const volatile struct {
	u32 beginning;		/* where struct beginning is; 0: the record is of another version, so nothing of it is read */
	u32 at[COLUMNS];	/* where each word is; 0: the controller has no such word */
} config SEC(".rodata");

/* What every TCP socket has, all of it words of 64 bits. */
struct seen {
	u64 key;		/* the socket's address */
	u64 cookie;		/* the number by which `ss -e` knows it; 0: it has none yet */
	u64 name[2];		/* of its congestion control: 16 bytes */
	u64 state;		/* TCP_ESTABLISHED and others, as in `ss` */
	u64 family;		/* AF_INET, AF_INET6 */
	u64 local_port;
	u64 peer_port;
	u64 local[2];		/* address, in network byte order; IPv4: the first 4 bytes */
	u64 peer[2];
	u64 netns;		/* inode of its network namespace */
	u64 cgroup;		/* id of the cgroup in which it was made */
	u64 uid;		/* of the user that made it */
	u64 mss;		/* bytes of a full segment */
	u64 cwnd;		/* congestion window, segments */
	u64 inflight;		/* in the network, segments */
	u64 delivered;		/* so far, segments; wraps at 2^32 */
	u64 lost;		/* marked lost so far, segments; wraps at 2^32 */
	u64 srtt_us;		/* smoothed round trip, eighths of a us; 0: none */
	u64 min_rtt_us;		/* least round trip of the last minutes; all ones of 32 bits: none */
	u64 pacing_rate;	/* bytes/s */
	u64 bytes_acked;
	u64 bytes_sent;
	u64 bytes_retrans;
};

/* A flow of ours: the socket, and what the controller keeps with it. */
struct seen_flow {
	struct seen socket;
	u64 beginning[4];	/* struct beginning */
	u64 flow;		/* record.flow */
	u64 columns[COLUMNS];
};

/*
 * The maps of a controller (tcp.bpf.h), which the loader puts in the place of these before the programs are loaded. So the values
 * are longer than here: struct flow, of whichever version.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, u64);
} spare_flows SEC(".maps");

/* What is being written; too large for the stack. One reader at a time has this object. */
struct seen_flow seen SEC(".bss");

static __always_inline void see_addresses(struct seen *s, struct sock_common *sk, const bool is_handed)
{
	s->family = look(is_handed, sk->skc_family);
	s->local_port = look(is_handed, sk->skc_num);
	s->peer_port = swap16(look(is_handed, sk->skc_dport));
	if (s->family == AF_INET6 && __builtin_preserve_field_info(sk->skc_v6_daddr, BPF_FIELD_EXISTS)) {
		s->local[0] = pair(look(is_handed, sk->skc_v6_rcv_saddr.in6_u.u6_addr32[0]),
				   look(is_handed, sk->skc_v6_rcv_saddr.in6_u.u6_addr32[1]));
		s->local[1] = pair(look(is_handed, sk->skc_v6_rcv_saddr.in6_u.u6_addr32[2]),
				   look(is_handed, sk->skc_v6_rcv_saddr.in6_u.u6_addr32[3]));
		s->peer[0] = pair(look(is_handed, sk->skc_v6_daddr.in6_u.u6_addr32[0]),
				  look(is_handed, sk->skc_v6_daddr.in6_u.u6_addr32[1]));
		s->peer[1] = pair(look(is_handed, sk->skc_v6_daddr.in6_u.u6_addr32[2]),
				  look(is_handed, sk->skc_v6_daddr.in6_u.u6_addr32[3]));
		return;
	}
	s->local[0] = look(is_handed, sk->skc_rcv_saddr);
	s->local[1] = 0;
	s->peer[0] = look(is_handed, sk->skc_daddr);
	s->peer[1] = 0;
}

/* Whose socket it is. */
static __always_inline void see_owner(struct seen *s, struct sock *sk, const bool is_handed)
{
	struct net *net = look(is_handed, sk->__sk_common.skc_net.net);

	s->netns = look(is_handed, net->ns.inum);
	s->uid = look(is_handed, sk->sk_uid.val);
	s->cgroup = 0;
	if (__builtin_preserve_field_info(sk->sk_cgrp_data, BPF_FIELD_EXISTS)) {
		struct cgroup *cgroup = look(is_handed, sk->sk_cgrp_data.cgroup);
		struct kernfs_node *kn = look(is_handed, cgroup->kn);

		s->cgroup = look(is_handed, kn->id);
	}
}

static __always_inline void see_socket(struct seen *s, struct tcp_sock *tp, const bool is_handed)
{
	struct sock *sk = (struct sock *)tp;
	const struct tcp_congestion_ops___named *ops =
		look(is_handed, ((struct inet_connection_sock *)tp)->icsk_ca_ops);

	s->key = (u64)tp;
	s->cookie = 0;
	s->name[0] = look(is_handed, *(u64 *)&ops->name[0]);
	s->name[1] = look(is_handed, *(u64 *)&ops->name[8]);
	s->state = look(is_handed, sk->__sk_common.skc_state);
	s->mss = look(is_handed, tp->mss_cache);
	s->cwnd = look(is_handed, tp->snd_cwnd);
	s->inflight = (u32)(look(is_handed, tp->packets_out) - look(is_handed, tp->sacked_out) -
			    look(is_handed, tp->lost_out) + look(is_handed, tp->retrans_out));
	s->delivered = look(is_handed, tp->delivered);
	s->lost = look(is_handed, tp->lost);
	s->srtt_us = look(is_handed, tp->srtt_us);
	s->min_rtt_us = look(is_handed, tp->rtt_min.s[0].v);
	s->pacing_rate = look(is_handed, sk->sk_pacing_rate);
	s->bytes_acked = look(is_handed, tp->bytes_acked);
	s->bytes_sent = look(is_handed, tp->bytes_sent);
	s->bytes_retrans = look(is_handed, tp->bytes_retrans);
	see_addresses(s, &sk->__sk_common, is_handed);
	see_owner(s, sk, is_handed);
}

/* A socket that the kernel has handed over, which may be asked for its cookie. */
static __always_inline void see_handed(struct tcp_sock *tp)
{
	see_socket(&seen.socket, tp, 1);
	seen.socket.cookie = bpf_get_socket_cookie(tp);
}

/* What the controller keeps. The offsets are constants to the verifier, which wants to know them. */
static __always_inline void see_record(const u8 *flow)
{
	u32 beginning = config.beginning;

	seen.flow = beginning ? *(const u64 *)flow : 0;
#pragma unroll
	for (u32 i = 0; i < 4; i++)
		seen.beginning[i] = beginning ? *(const u64 *)(flow + beginning + 8 * i) : 0;
#pragma unroll
	for (u32 i = 0; i < COLUMNS; i++) {
		u32 at = config.at[i];

		seen.columns[i] = at ? *(const u64 *)(flow + at) : 0;
	}
}

/*
 * What the reader gets. An iterator's own output ends every 32 KB, and the kernel finds its way back by walking the list from
 * its beginning, which for ten thousand sockets takes longer than all else. So the output is this, which has room for ten
 * thousand sockets and is emptied only where there are more.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} rows SEC(".maps");

/* What finds no room is offered again: after a 1 the reader is told to come again (EAGAIN), and empties the ring first. */
static __always_inline int give(u32 size)
{
	return bpf_ringbuf_output(&rows, &seen, size, BPF_RB_NO_WAKEUP) ? 1 : 0;
}

/* Called for each socket that has a flow in the map. ctx: meta, map, socket, flow. */
SEC("iter/bpf_sk_storage_map")
int see_flow(u64 *ctx)
{
	void *sk = (void *)ctx[2], *flow = (void *)ctx[3];
	struct tcp_sock *tp;

	if (!sk || !flow)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	see_handed(tp);
	see_record(flow);
	return give(sizeof(seen));
}

/* Called for each element of the spare table, whose key is a socket's address. ctx: meta, map, key, flow. */
SEC("iter/bpf_map_elem")
int see_spare_flow(u64 *ctx)
{
	const u64 *key = (const u64 *)ctx[2];
	void *flow = (void *)ctx[3];

	if (!key || !flow)
		return 0;
	see_socket(&seen.socket, (struct tcp_sock *)*key, 0);
	see_record(flow);
	return give(sizeof(seen));
}

/*
 * Called for each TCP socket of the reader's network namespace. ctx: meta, socket, user. It finds the same flows as the two above,
 * for kernels that let nobody walk over maps; it has to look at all sockets for it.
 */
SEC("iter/tcp")
int see_own_flow(u64 *ctx)
{
	void *sk = (void *)ctx[1];
	const u8 *flow;
	struct tcp_sock *tp;
	u64 key;

	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	flow = bpf_sk_storage_get(&flows, sk, NULL, 0);
	if (!flow) {
		key = (u64)tp;
		flow = bpf_map_lookup_elem(&spare_flows, &key);
	}
	if (!flow)
		return 0;
	see_handed(tp);
	see_record(flow);
	return give(sizeof(seen));
}

/* Called for each TCP socket of the reader's network namespace. ctx: meta, socket, user. */
SEC("iter/tcp")
int see_tcp(u64 *ctx)
{
	void *sk = (void *)ctx[1];
	struct tcp_sock *tp;

	if (!sk)
		return 0;
	/* A handshake that is not done and a socket in TIME_WAIT are no whole sockets. */
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	see_handed(tp);
	return give(sizeof(seen.socket));
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
