/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * A trial of two congestion controls on the connections of a cgroup, and of the cgroups below: a coin decides which of the two
 * a connection gets when its handshake is done, and when it ends, one record says how it went.
 *
 * Both arms are set by the same call at the same moment, so that they differ in nothing else. At that moment no controller has
 * been started yet: the kernel starts the one that the connection has right after this program. So a connection whose arm is
 * what it would have had anyway, and for which the call therefore does nothing, begins like the others. Where a controller was
 * started earlier, because the application or another program has chosen one before the handshake was done, establish() sees
 * to it that it is started again.
 */
#include "kernel.h"
#include "trial.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MAX_RANGES 16
#define MAX_PREFIXES 16

#define OUTBOUND 1
#define INBOUND 2

/* Written by the loader before the programs are loaded; trial.rs lays it out the same. */
const volatile struct {
	u64 seed;
	u64 arms[2][TCP_CA_NAME_MAX / 8];	/* the names of the two congestion controls */
	u32 by_prefix;		/* the coin is tossed for the remote network, not for each connection */
	u32 directions;		/* OUTBOUND, INBOUND */
	u32 with_mptcp;		/* subflows of Multipath TCP take part */
	u32 ranges;		/* how many of the following count; 0: every port */
	struct {
		u16 first;
		u16 last;	/* inclusive */
	} range[MAX_RANGES];
	u32 prefixes;		/* how many of the following count; 0: every remote address */
	struct {
		u32 address[4];	/* network byte order; IPv4 as ::ffff:a.b.c.d, the bits outside the mask are 0 */
		u32 mask[4];
	} prefix[MAX_PREFIXES];
} config SEC(".rodata");

/* Read by the loader, in this order; counted since the program was loaded. */
struct {
	u64 enrolled[2];	/* connections that take part, by arm */
	u64 refused[2];		/* connections that keep what they had, because the kernel did not take the name of their arm */
	u64 recorded;		/* records of connections that have ended */
	u64 lost;		/* connections that have ended and found the ring full */
	u64 not_as_set;		/* of those recorded or lost: ended with another congestion control than their arm's */
	u64 spare;		/* connections without socket storage, in the spare table */
	u64 without_storage;	/* connections that were left out because there was room in neither */
	u64 mptcp;		/* subflows that were left out */
	u64 restarted;		/* connections whose controller had been started before the handshake was done */
} counters SEC(".bss");

#define count(counter) __sync_fetch_and_add(&counters.counter, 1)

/* Which slot it is and the share of arm 1, of 65,536. A hash, because its elements are exchanged as a whole: no connection sees
 * the number of one slot with the share of another. Without the element nobody takes part. */
struct slot {
	u32 number;
	u32 chance;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} enrolled SEC(".maps");

/* Connections that got no storage of their own, by their cookies. Made ahead, because this is needed where memory is short. */
struct spare {
	u64 socket;	/* its address */
	struct connection connection;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);	/* the loader says how many */
	__type(key, u64);
	__type(value, struct spare);
} spares SEC(".maps");

/* Records of connections that have ended; and of those that are open, while the loader looks at them. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);	/* the loader says how many bytes */
} ended SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} open SEC(".maps");

/* How a connection goes or went, in words of 64 bits; record.rs reads it. */
struct record {
	u64 cookie;
	u64 began_ns;
	u64 ended_ns;		/* 0: it is open */
	u64 slot;
	u64 arm;
	u64 is_inbound;
	u64 is_as_set;		/* it has the congestion control of its arm */
	u64 state;		/* in which it is, or was before it ended */
	u64 error;		/* errno of its end */
	u64 family;
	u64 local_port;
	u64 remote_port;
	u64 remote[2];		/* address, in network byte order; IPv4: the first 4 bytes */
	u64 bytes_acked;
	u64 bytes_sent;
	u64 bytes_retrans;
	u64 rtos;
	u64 lost;		/* segments marked lost */
	u64 ce;			/* segments of whose ECN mark the peer has told */
	u64 dsacks;		/* segments that the peer said it had twice */
	u64 segments;		/* with data, sent */
	u64 busy;		/* time with data to send, jiffies */
	u64 rwnd_limited;	/* of this, held up by the peer's window */
	u64 sndbuf_limited;	/* of this, held up by our own buffer */
	u64 srtt;		/* smoothed round trip, eighths of a us */
	u64 min_rtt_us;
	u64 halvings;		/* of struct connection, as the rest */
	u64 words[RTT_BUCKETS / 4];
};

/* ---- Who takes part ---- */

static __always_inline bool is_in_range(u32 port)
{
	for (u32 i = 0; i < MAX_RANGES && i < config.ranges; i++)
		if (config.range[i].first <= port && port <= config.range[i].last)
			return 1;
	return 0;
}

/* Either end, so that a port stands for the service behind it, whether that is here or over there. */
static __always_inline bool has_port(struct sock_common *sk)
{
	return !config.ranges || is_in_range(sk->skc_num) || is_in_range(swap16(sk->skc_dport));
}

/* The remote address in 128 bits, IPv4 as ::ffff:a.b.c.d, which is also how an IPv6 socket has it. */
static __always_inline void remote_of(struct sock_common *sk, u32 *remote)
{
	if (sk->skc_family == AF_INET6 && __builtin_preserve_field_info(sk->skc_v6_daddr, BPF_FIELD_EXISTS)) {
		remote[0] = sk->skc_v6_daddr.in6_u.u6_addr32[0];
		remote[1] = sk->skc_v6_daddr.in6_u.u6_addr32[1];
		remote[2] = sk->skc_v6_daddr.in6_u.u6_addr32[2];
		remote[3] = sk->skc_v6_daddr.in6_u.u6_addr32[3];
		return;
	}
	remote[0] = 0;
	remote[1] = 0;
	remote[2] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0xffff0000 : 0xffff;
	remote[3] = sk->skc_daddr;
}

static __always_inline bool has_prefix(const u32 *remote)
{
	if (!config.prefixes)
		return 1;
	for (u32 i = 0; i < MAX_PREFIXES && i < config.prefixes; i++) {
		u32 differs = 0;

#pragma unroll
		for (u32 word = 0; word < 4; word++)
			differs |= (remote[word] & config.prefix[i].mask[word]) ^ config.prefix[i].address[word];
		if (!differs)
			return 1;
	}
	return 0;
}

/* The remote /24 of IPv4 or /48 of IPv6 as a number: the bytes of the address that remain, in network byte order. */
static __always_inline u64 network_of(const u32 *remote)
{
	const u8 *byte = (const u8 *)remote;
	u64 network = 0;
	bool is_v4 = !remote[0] && !remote[1] && byte[8] == 0 && byte[9] == 0 && byte[10] == 0xff && byte[11] == 0xff;
	u32 first = is_v4 ? 12 : 0, count = is_v4 ? 3 : 6;

#pragma unroll
	for (u32 i = 0; i < 6; i++)
		if (i < count)
			network = network << 8 | byte[(first + i) & 15];
	return network | (u64)is_v4 << 63;
}

/* ---- Enrolment ---- */

/* Whether the connection has the congestion control of this arm. */
static __always_inline bool has_choice(struct tcp_sock *tp, u32 arm, const bool is_handed)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;
	const struct tcp_congestion_ops___named *ops = look(is_handed, icsk->icsk_ca_ops);

	return look(is_handed, *(u64 *)&ops->name[0]) == config.arms[arm & 1][0] &&
	       look(is_handed, *(u64 *)&ops->name[8]) == config.arms[arm & 1][1];
}

/* Memory for the connection; NULL where there is none. */
static __always_inline struct connection *enrol(struct bpf_sock_ops *ops, void *sk, u64 cookie)
{
	struct connection *c = bpf_sk_storage_get(&enrolled, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	struct spare fresh = { .socket = (u64)bpf_skc_to_tcp_sock(sk) }, *spare;

	if (c)
		return c;
	if (bpf_map_update_elem(&spares, &cookie, &fresh, BPF_ANY))
		return NULL;
	spare = bpf_map_lookup_elem(&spares, &cookie);
	if (!spare)
		return NULL;
	count(spare);
	return &spare->connection;
}

static __always_inline void forget(void *sk, u64 cookie)
{
	if (bpf_sk_storage_delete(&enrolled, sk))
		bpf_map_delete_elem(&spares, &cookie);
}

static __always_inline long choose(struct bpf_sock_ops *ops, u32 arm)
{
	return bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, (void *)config.arms[arm & 1], TCP_CA_NAME_MAX);
}

/*
 * Where the connection's controller is that of its arm and has been started already, the call would leave it as it is, with
 * what it has learned, while the other arm would start anew. A detour through the other arm makes it start, too.
 */
static __always_inline long choose_alike(struct bpf_sock_ops *ops, struct tcp_sock *tp, u32 arm)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;

	if (read_bits(icsk, icsk_ca_initialized)) {
		count(restarted);
		if (has_choice(tp, arm, 1))
			choose(ops, arm ^ 1);
	}
	return choose(ops, arm);
}

/* Whether the connection takes part; tells where it comes from, too. */
static __always_inline bool is_wanted(const struct bpf_sock_ops *ops, struct tcp_sock *tp, u32 *remote)
{
	struct sock_common *sk = &((struct sock *)tp)->__sk_common;
	u32 direction = ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB ? INBOUND : OUTBOUND;

	if (!(config.directions & direction) || !has_port(sk))
		return 0;
	remote_of(sk, remote);
	if (!has_prefix(remote))
		return 0;
	if (!config.with_mptcp && __builtin_preserve_field_info(tp->is_mptcp, BPF_FIELD_EXISTS) &&
	    tp->is_mptcp) {
		count(mptcp);
		return 0;
	}
	return 1;
}

static __always_inline void establish(struct bpf_sock_ops *ops, void *sk, struct tcp_sock *tp)
{
	const int wanted = BPF_SOCK_OPS_RTT_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG;
	u32 only = 0, remote[4], arm, flags = ops->bpf_sock_ops_cb_flags;
	const struct slot *slot = bpf_map_lookup_elem(&slots, &only);
	struct connection *c;
	u64 cookie;

	if (!slot || !is_wanted(ops, tp, remote))
		return;
	cookie = bpf_get_socket_cookie(ops);
	arm = coin(config.seed, slot->number, config.by_prefix ? network_of(remote) : cookie, slot->chance);
	c = enrol(ops, sk, cookie);
	if (!c) {
		count(without_storage);
		return;
	}
	c->began_ns = bpf_ktime_get_ns();
	c->slot = slot->number;
	c->min_rtt_us = ~0U;
	c->arm = arm;
	c->is_inbound = ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB;
	/* The call replaces what others have asked for, unless it is handed in again. */
	if (bpf_sock_ops_cb_flags_set(ops, flags | wanted) || choose_alike(ops, tp, arm)) {
		bpf_sock_ops_cb_flags_set(ops, flags);
		forget(sk, cookie);
		__sync_fetch_and_add(arm ? &counters.refused[1] : &counters.refused[0], 1);
		return;
	}
	__sync_fetch_and_add(arm ? &counters.enrolled[1] : &counters.enrolled[0], 1);
}

/* ---- How it went ---- */

/*
 * What look() does, for tcp_sock.chrono_type, which is two bits of a word or, from some kernel on, a byte. A load that has the
 * offset in itself can only be moved to a field of the same kind, so the offset goes through a register.
 */
static __always_inline u32 look_chrono_type(struct tcp_sock *tp, const bool is_handed)
{
	u64 bits = 0, offset = __builtin_preserve_field_info(tp->chrono_type, BPF_FIELD_BYTE_OFFSET);
	const u32 size = __builtin_preserve_field_info(tp->chrono_type, BPF_FIELD_BYTE_SIZE);
	const u8 *at;

	asm volatile("" : "+r"(offset));
	at = (const u8 *)tp + offset;
	if (!is_handed)
		bpf_probe_read_kernel(&bits, size & 7, at);
	else if (size == 1)
		bits = *at;
	else if (size == 4)
		bits = *(const u32 *)at;
	bits <<= __builtin_preserve_field_info(tp->chrono_type, BPF_FIELD_LSHIFT_U64);
	return bits >> __builtin_preserve_field_info(tp->chrono_type, BPF_FIELD_RSHIFT_U64);
}

/* As tcp_get_info_chrono_stats() does it: the stretch that is not over counts, and every kind of stretch is busy time. */
static __always_inline void look_chrono(struct record *r, struct tcp_sock *tp, const bool is_handed)
{
	u32 type = look_chrono_type(tp, is_handed);
	u32 present = (u32)bpf_jiffies64() - look(is_handed, tp->chrono_start);
	u32 plain = look(is_handed, tp->chrono_stat[0]), rwnd = look(is_handed, tp->chrono_stat[1]),
	    sndbuf = look(is_handed, tp->chrono_stat[2]);

	if (type == TCP_CHRONO_BUSY)
		plain += present;
	if (type == TCP_CHRONO_RWND_LIMITED)
		rwnd += present;
	if (type == TCP_CHRONO_SNDBUF_LIMITED)
		sndbuf += present;
	r->busy = (u64)plain + rwnd + sndbuf;
	r->rwnd_limited = rwnd;
	r->sndbuf_limited = sndbuf;
}

static __always_inline void look_ends(struct record *r, struct sock_common *sk, const bool is_handed)
{
	r->family = look(is_handed, sk->skc_family);
	r->local_port = look(is_handed, sk->skc_num);
	r->remote_port = swap16(look(is_handed, sk->skc_dport));
	r->state = look(is_handed, sk->skc_state);
	if (r->family == AF_INET6 && __builtin_preserve_field_info(sk->skc_v6_daddr, BPF_FIELD_EXISTS)) {
		r->remote[0] = pair(look(is_handed, sk->skc_v6_daddr.in6_u.u6_addr32[0]),
				    look(is_handed, sk->skc_v6_daddr.in6_u.u6_addr32[1]));
		r->remote[1] = pair(look(is_handed, sk->skc_v6_daddr.in6_u.u6_addr32[2]),
				    look(is_handed, sk->skc_v6_daddr.in6_u.u6_addr32[3]));
		return;
	}
	r->remote[0] = look(is_handed, sk->skc_daddr);
	r->remote[1] = 0;
}

static __always_inline void look_transfer(struct record *r, struct tcp_sock *tp, const bool is_handed)
{
	struct sock *sk = (struct sock *)tp;

	r->error = (u32)look(is_handed, sk->sk_err);
	r->bytes_acked = look(is_handed, tp->bytes_acked);
	r->bytes_sent = look(is_handed, tp->bytes_sent);
	r->bytes_retrans = look(is_handed, tp->bytes_retrans);
	r->lost = look(is_handed, tp->lost);
	r->ce = look(is_handed, tp->delivered_ce);
	r->dsacks = look(is_handed, tp->dsack_dups);
	r->segments = look(is_handed, tp->data_segs_out);
	r->srtt = look(is_handed, tp->srtt_us);
}

/* The kernel's minimum is that of the last 5 minutes, and ours the least of these. */
static __always_inline u32 least_rtt(const struct connection *c, u32 of_kernel)
{
	return of_kernel < c->min_rtt_us ? of_kernel : c->min_rtt_us;
}

static __always_inline void fill(struct record *r, const struct connection *c, struct tcp_sock *tp, u64 cookie,
				 const bool is_handed)
{
	r->cookie = cookie;
	r->began_ns = c->began_ns;
	r->ended_ns = 0;
	r->slot = c->slot;
	r->arm = c->arm;
	r->is_inbound = c->is_inbound;
	r->is_as_set = has_choice(tp, c->arm, is_handed);
	r->rtos = c->rtos;
	r->min_rtt_us = least_rtt(c, look(is_handed, tp->rtt_min.s[0].v));
	r->halvings = c->halvings;
#pragma unroll
	for (u32 i = 0; i < RTT_BUCKETS / 4; i++)
		r->words[i] = c->words[i];
	look_ends(r, &((struct sock *)tp)->__sk_common, is_handed);
	look_transfer(r, tp, is_handed);
	look_chrono(r, tp, is_handed);
}

static __always_inline struct connection *find(void *sk, u64 cookie)
{
	struct connection *c = bpf_sk_storage_get(&enrolled, sk, NULL, 0);
	struct spare *spare;

	if (c)
		return c;
	spare = bpf_map_lookup_elem(&spares, &cookie);
	return spare ? &spare->connection : NULL;
}

/* The kernel calls before it changes anything, so the socket is still as it was. */
static __always_inline void end(struct bpf_sock_ops *ops, void *sk, struct tcp_sock *tp)
{
	u64 cookie = bpf_get_socket_cookie(ops);
	struct connection *c = find(sk, cookie);
	struct record *r;

	if (!c)
		return;
	if (!has_choice(tp, c->arm, 1))
		count(not_as_set);
	r = bpf_ringbuf_reserve(&ended, sizeof(*r), 0);
	if (r) {
		fill(r, c, tp, cookie, 1);
		r->ended_ns = bpf_ktime_get_ns();
		bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
		count(recorded);
	} else {
		count(lost);
	}
	forget(sk, cookie);
}

/*
 * Called once a round trip, by the ACK with which it ends. From Linux 6.10 on the kernel hands over what it has measured: the
 * time since the first packet was sent of those that this ACK acknowledges. Before, we take the time since the last one was.
 */
static __always_inline void measure(struct bpf_sock_ops *ops, void *sk, struct tcp_sock *tp)
{
	struct connection *c = find(sk, bpf_get_socket_cookie(ops));
	u32 us = ops->args[0];

	if (!c)
		return;
	if (!us)
		us = tp->rack.rtt_us;
	if (us)
		count_rtt(c, us);
	c->min_rtt_us = least_rtt(c, tp->rtt_min.s[0].v);
}

static __always_inline void time_out(struct bpf_sock_ops *ops, void *sk)
{
	struct connection *c = find(sk, bpf_get_socket_cookie(ops));

	if (c && c->rtos < 0xffff)
		c->rtos++;
}

/* Always 1: anything else would tell the kernel that what other programs have answered does not count. */
SEC("sockops")
int trial(struct bpf_sock_ops *ops)
{
	u32 op = ops->op;
	void *sk = ops->sk;
	struct tcp_sock *tp;

	if (op == BPF_SOCK_OPS_STATE_CB && ops->args[1] != TCP_CLOSE)
		return 1;
	if (op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB &&
	    op != BPF_SOCK_OPS_RTT_CB && op != BPF_SOCK_OPS_RTO_CB && op != BPF_SOCK_OPS_STATE_CB)
		return 1;
	if (!sk)
		return 1;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 1;
	if (op == BPF_SOCK_OPS_RTT_CB)
		measure(ops, sk, tp);
	else if (op == BPF_SOCK_OPS_STATE_CB)
		end(ops, sk, tp);
	else if (op == BPF_SOCK_OPS_RTO_CB)
		time_out(ops, sk);
	else
		establish(ops, sk, tp);
	return 1;
}

/* ---- Those that are open ---- */

/*
 * Gives the reader an open connection whose socket the kernel has handed over. What finds no room is offered again: after a 1 the
 * reader is told to come again (EAGAIN), and empties the ring first.
 */
static __always_inline int give(const struct connection *c, struct tcp_sock *tp, u64 cookie)
{
	struct record *r = bpf_ringbuf_reserve(&open, sizeof(*r), 0);

	if (!r)
		return 1;
	fill(r, c, tp, cookie, 1);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Called for each socket that takes part and has storage. ctx: meta, map, socket, connection. */
SEC("iter/bpf_sk_storage_map")
int see_enrolled(u64 *ctx)
{
	void *sk = (void *)ctx[2];
	const struct connection *c = (const void *)ctx[3];
	struct tcp_sock *tp;

	if (!sk || !c)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	return tp ? give(c, tp, bpf_get_socket_cookie(sk)) : 0;
}

/* Called for each element of the spare table. ctx: meta, map, cookie, spare. The socket may go meanwhile; then its cookie is
 * no longer there, and the reader leaves the record out. */
SEC("iter/bpf_map_elem")
int see_spare(u64 *ctx)
{
	const u64 *cookie = (const u64 *)ctx[2];
	const struct spare *spare = (const void *)ctx[3];
	struct record *r;

	if (!cookie || !spare)
		return 0;
	r = bpf_ringbuf_reserve(&open, sizeof(*r), 0);
	if (!r)
		return 1;
	fill(r, &spare->connection, (struct tcp_sock *)spare->socket, *cookie, 0);
	if (look(0, ((struct sock_common *)spare->socket)->skc_cookie.counter) != *cookie)
		r->began_ns = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * Called for each TCP socket of the reader's network namespace. ctx: meta, socket, user. It finds the same connections as the two
 * above, for kernels that let nobody walk over maps; it has to look at all sockets for it.
 */
SEC("iter/tcp")
int see_participant(u64 *ctx)
{
	void *sk = (void *)ctx[1];
	const struct connection *c;
	struct tcp_sock *tp;
	u64 cookie;

	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	cookie = bpf_get_socket_cookie(sk);
	c = find(sk, cookie);
	return c ? give(c, tp, cookie) : 0;
}
