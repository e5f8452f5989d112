/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What we need of the kernel: the structs and fields that we touch, the helpers that we call, and the words of libbpf's
 * object format. Names and meanings are the kernel's (include/linux, include/net, include/uapi/linux/bpf.h).
 *
 * This stands instead of a generated vmlinux.h of 3 MB, so that a reader sees all that we depend on: a field that is not
 * declared here is not used. The offsets here are not those of any kernel. When the programs are loaded, libbpf moves each
 * access to where the running kernel has the field (CO-RE, "compile once, run everywhere").
 */
#ifndef HEADWAY_KERNEL_H
#define HEADWAY_KERNEL_H

#include "fixed.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef int s32;
typedef _Bool bool;

/* libbpf's object format: what a section is for, and the integers and types that describe a map. */
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define NULL ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};

/* Flags of maps and helpers. */
#define BPF_F_NO_PREALLOC 1		/* of a map: allocate elements when they are made, as socket storage must */
#define BPF_ANY 0			/* of an update: make the element or overwrite it */
#define BPF_SK_STORAGE_GET_F_CREATE 1	/* of a look-up: make the element if the socket has none */
#define BPF_RB_NO_WAKEUP 1		/* of an output: do not wake the reader, who polls */
#define BPF_NOEXIST 1			/* of an update: fail where there is such an element */

/* The numbers by which a program calls the kernel's helpers; they are ABI and never change. */
enum bpf_func_id {
	BPF_FUNC_map_lookup_elem = 1,
	BPF_FUNC_map_update_elem = 2,
	BPF_FUNC_map_delete_elem = 3,
	BPF_FUNC_ktime_get_ns = 5,
	BPF_FUNC_get_prandom_u32 = 7,
	BPF_FUNC_get_socket_cookie = 46,
	BPF_FUNC_setsockopt = 49,
	BPF_FUNC_sock_ops_cb_flags_set = 59,
	BPF_FUNC_sk_storage_get = 107,
	BPF_FUNC_sk_storage_delete = 108,
	BPF_FUNC_probe_read_kernel = 113,
	BPF_FUNC_jiffies64 = 118,
	BPF_FUNC_ringbuf_output = 130,
	BPF_FUNC_ringbuf_reserve = 131,
	BPF_FUNC_ringbuf_submit = 132,
	BPF_FUNC_skc_to_tcp_sock = 137,
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) =
	(void *)BPF_FUNC_map_update_elem;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_delete_elem;
static u32 (*bpf_get_prandom_u32)(void) = (void *)BPF_FUNC_get_prandom_u32;
static long (*bpf_setsockopt)(void *of, int level, int option, void *value, int bytes) = (void *)BPF_FUNC_setsockopt;
static void *(*bpf_sk_storage_get)(void *map, void *sk, void *value, u64 flags) = (void *)BPF_FUNC_sk_storage_get;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)BPF_FUNC_probe_read_kernel;
static void *(*bpf_skc_to_tcp_sock)(void *sk) = (void *)BPF_FUNC_skc_to_tcp_sock;
static long (*bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)BPF_FUNC_ringbuf_output;
static void *(*bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)BPF_FUNC_ringbuf_reserve;
static void (*bpf_ringbuf_submit)(void *data, u64 flags) = (void *)BPF_FUNC_ringbuf_submit;
static long (*bpf_sk_storage_delete)(void *map, void *sk) = (void *)BPF_FUNC_sk_storage_delete;
static long (*bpf_sock_ops_cb_flags_set)(void *ops, int flags) = (void *)BPF_FUNC_sock_ops_cb_flags_set;
static u64 (*bpf_ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static u64 (*bpf_jiffies64)(void) = (void *)BPF_FUNC_jiffies64;

static u64 (*bpf_get_socket_cookie)(void *sk) = (void *)BPF_FUNC_get_socket_cookie;

/* sock_common.skc_family. */
#define AF_INET 2
#define AF_INET6 10

/* sock_common.skc_state: our SYN is out and no answer is in; the connection has ended; the socket waits for connections. */
#define TCP_SYN_SENT 2
#define TCP_CLOSE 7
#define TCP_LISTEN 10

/* tcp_skb_cb.sacked, bits: what the kernel knows of a packet that was sent and not acknowledged. */
#define TCPCB_SACKED_RETRANS 0x02	/* sent again since it was marked lost */
#define TCPCB_LOST 0x04			/* marked lost */
#define TCPCB_EVER_RETRANS 0x80		/* not its first transmission */

/* tcp_sock.snd_ssthresh: no threshold yet; the value with which each connection starts. */
#define TCP_INFINITE_SSTHRESH 0x7fffffff

/* tcp_congestion_ops.flags: any user's socket may choose it, not only one with CAP_NET_ADMIN. */
#define TCP_CONG_NON_RESTRICTED 1

/* Bytes of tcp_congestion_ops.name, with the closing zero. */
#define TCP_CA_NAME_MAX 16

/* The socket option by which a socket chooses its congestion control, and its level. */
#define SOL_TCP 6
#define TCP_CONGESTION 13

/* bpf_sock_ops.op: a handshake is done, and the connection was made by connect(), or came in at a listener. */
#define BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB 4
#define BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB 5

/* These are told of connections that have asked for them: the retransmission timer has fired; the state changes from args[0]
 * to args[1]; a round trip is over, of which args[0] is the measured time in us from Linux 6.10 on. */
#define BPF_SOCK_OPS_RTO_CB 8
#define BPF_SOCK_OPS_STATE_CB 10
#define BPF_SOCK_OPS_RTT_CB 12

/* bpf_sock_ops.bpf_sock_ops_cb_flags: what a connection has asked for. */
#define BPF_SOCK_OPS_RTO_CB_FLAG 1
#define BPF_SOCK_OPS_STATE_CB_FLAG 4
#define BPF_SOCK_OPS_RTT_CB_FLAG 8

/* What a sockops program is given. This is ABI: the members are at these places in every kernel. */
struct bpf_sock_ops {
	u32 op;			/* BPF_SOCK_OPS_...: why the program is called */
	u32 args[4];
	u32 family;
	u32 remote_ip4;
	u32 local_ip4;
	u32 remote_ip6[4];
	u32 local_ip6[4];
	u32 remote_port;	/* in the network's order, 16 bits that are followed by 16 zeros */
	u32 local_port;		/* in the machine's order */
	u32 is_fullsock;
	u32 snd_cwnd;
	u32 srtt_us;
	u32 bpf_sock_ops_cb_flags;	/* BPF_SOCK_OPS_..._FLAG */
	u32 unused[24];
	void *sk;		/* the socket; NULL where it is not a whole one yet */
};

/* sock.sk_pacing_status: who spaces the packets of a socket. */
enum sk_pacing {
	SK_PACING_NONE = 0,	/* nobody does */
	SK_PACING_NEEDED = 1,	/* TCP's own timer; a third value means that the queueing discipline fq does it */
};

/* What cwnd_event tells; we answer only this one. */
enum tcp_ca_event {
	CA_EVENT_TX_START,	/* the first packet after everything sent was acknowledged */
};

/* setsockopt(): the option that chooses a congestion control by its name. */
#define SOL_TCP 6
#define TCP_CONGESTION 13

struct sock_common;

/* What an iterator over TCP sockets is given. */
struct bpf_iter__tcp {
	void *meta;	/* of the whole walk; a word of 64 bits, as the next */
	struct sock_common *sk_common;	/* a socket, of which it is not known how much it is; NULL at the end */
	u32 uid;	/* the socket's owner */
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* A node of a red-black tree. */
struct rb_node {
	unsigned long __rb_parent_color;	/* address of the parent, 0 at the root; the lowest bit is the colour */
	struct rb_node *rb_right;		/* what comes later in the stream */
	struct rb_node *rb_left;		/* what comes earlier */
};

struct rb_root {
	struct rb_node *rb_node;	/* the root, NULL of an empty tree */
};

/* A packet, or several adjacent ones that are sent as one. */
struct sk_buff {
	struct rb_node rbnode;	/* its place in sock.tcp_rtx_queue */
	u64 skb_mstamp_ns;	/* when it was sent last, ns */
	char cb[48];		/* what the layer that holds the packet keeps with it; in TCP: struct tcp_skb_cb */
};

/* In sk_buff.cb, while TCP holds the packet. */
struct tcp_skb_cb {
	u32 seq;		/* where it begins in the stream, bytes */
	u32 end_seq;		/* where it ends, bytes */
	u16 tcp_gso_segs;	/* segments in it */
	u8 sacked;		/* TCPCB_... */
	struct {		/* as things stood when it was sent last */
		u32 is_app_limited : 1;	/* sent while the application had nothing more to send */
		u32 delivered;		/* tcp_sock.delivered when it was sent last, segments */
	} tx;
};

struct in6_addr {
	union {
		u32 u6_addr32[4];	/* in network byte order */
	} in6_u;
};

/* What all kinds of namespaces have. */
struct ns_common {
	u32 inum;	/* its inode, which `lsns` and /proc/PID/ns show */
};

/* A network namespace. */
struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	u32 val;
} kuid_t;

/* A file of cgroupfs or of another file system that the kernel makes up. */
struct kernfs_node {
	u64 id;	/* its inode number, and where that is not enough, its generation in the upper half */
};

struct cgroup {
	struct kernfs_node *kn;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;	/* the cgroup, of version 2, in which the socket was made */
};

typedef struct {
	long long counter;
} atomic64_t;

struct sock_common {
	u8 skc_state;	/* of the connection: TCP_SYN_SENT and others */
	u16 skc_num;	/* the local port */
	u16 skc_dport;	/* the peer's, in network byte order */
	u16 skc_family;	/* AF_INET, AF_INET6 */
	u32 skc_daddr;	/* the peer's address of IPv4, in network byte order */
	u32 skc_rcv_saddr;	/* the local one */
	struct in6_addr skc_v6_daddr;	/* the peer's address of IPv6 */
	struct in6_addr skc_v6_rcv_saddr;	/* the local one */
	possible_net_t skc_net;	/* the network namespace */
	atomic64_t skc_cookie;	/* the number by which `ss -e` knows it; 0: it has none yet */
};

struct sock {
	struct sock_common __sk_common;		/* what all kinds of sockets have first */
	kuid_t sk_uid;				/* the user that made it */
	struct sock_cgroup_data sk_cgrp_data;	/* where it was made */
	struct rb_root tcp_rtx_queue;		/* packets sent and not acknowledged, in the order of the stream */
	unsigned long sk_pacing_rate;		/* bytes/s */
	unsigned long sk_max_pacing_rate;	/* bytes/s: SO_MAX_PACING_RATE of the application, or all ones */
	u32 sk_pacing_status;			/* enum sk_pacing */
	int sk_err;				/* errno of what ended the connection; 0: nothing has gone wrong */
};

struct inet_sock {
	struct sock sk;	/* first, so that its address is the socket's, as in the next two */
};

/* The kernel's own table of a congestion control; ours, to be filled, is below. libbpf ignores what follows `___`. */
struct tcp_congestion_ops___named {
	char name[TCP_CA_NAME_MAX];	/* what sockets choose it by */
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;	/* addresses and ports */
	const struct tcp_congestion_ops___named *icsk_ca_ops;	/* its congestion control */
	u8 icsk_ca_state : 5;		/* enum cc_ca_state of cc.h: TCP_CA_Open to TCP_CA_Loss */
	u8 icsk_ca_initialized : 1;	/* its control's init() was called */
	u8 icsk_ca_setsockopt : 1;	/* the socket, or whoever made it, has chosen its control by name */
};

struct minmax_sample {
	u32 t;	/* when it was measured, jiffies */
	u32 v;	/* the value, us */
};

/* The least value of a window of time, and what follows it when it grows too old. */
struct minmax {
	struct minmax_sample s[3];	/* s[0] is the least, the others are later and not less */
};

struct tcp_options_received {
	u16 sack_ok : 3;	/* not 0: the peer sends selective acknowledgements */
};

/* Of loss detection by time (RACK). */
struct tcp_rack {
	u32 rtt_us;	/* round trip of the packet that was sent last of those delivered, us */
};

/* tcp_sock.chrono_type: what holds the sender up. Data is on its way, the peer's window is full, or our buffer is. */
#define TCP_CHRONO_BUSY 1
#define TCP_CHRONO_RWND_LIMITED 2
#define TCP_CHRONO_SNDBUF_LIMITED 3

/* Counts are segments of at most mss_cache bytes, and wrap at 2^32. */
struct tcp_sock {
	struct inet_connection_sock inet_conn;	/* what all connections have */
	struct tcp_options_received rx_opt;	/* what the peer has negotiated */
	struct minmax rtt_min;			/* the least round trip of the last 5 minutes (net.ipv4.tcp_min_rtt_wlen), us */
	u64 tcp_wstamp_ns;			/* when pacing lets the next packet go, or the last one went; ns */
	u64 tcp_clock_cache;			/* the clock, read when the event began; ns */
	u64 tcp_mstamp;				/* the same, us */
	u64 bytes_acked;			/* acknowledged so far, cumulatively */
	u64 bytes_sent;				/* sent so far, again or for the first time */
	u64 bytes_retrans;			/* of these: sent again */
	u64 delivered_mstamp;			/* when `delivered` grew last, us */
	struct sk_buff *retransmit_skb_hint;	/* where the search for packets to send again goes on; NULL: at the first */
	u32 mss_cache;				/* bytes of a full segment, headers aside */
	u32 snd_nxt;				/* where new data begins in the stream, bytes */
	u32 snd_cwnd;				/* congestion window */
	u32 snd_cwnd_cnt;			/* of plain AIMD: segments acknowledged since the window grew */
	u32 snd_cwnd_clamp;			/* upper bound of the window */
	u32 snd_ssthresh;			/* slow-start threshold */
	u32 packets_out;			/* sent and not acknowledged cumulatively */
	u32 sacked_out;				/* of these, acknowledged selectively */
	u32 lost_out;				/* of these, marked lost */
	u32 retrans_out;			/* retransmissions of these that are still out */
	u32 delivered;				/* delivered so far, by either acknowledgement */
	u32 delivered_ce;			/* of these, those whose ACK told of an ECN mark */
	u32 lost;				/* marked lost so far */
	u32 srtt_us;				/* smoothed round trip, eighths of a us; 0: none measured */
	u32 app_limited;			/* `delivered` at which the last packet sent for want of data is out of the
						 * network; 0: there is none in it */
	u32 tlp_high_seq;			/* snd_nxt when a tail loss probe left that is not answered yet, bytes; else 0 */
	u8 is_cwnd_limited : 1;			/* the window held data back in the last round trip */
	u8 tlp_retrans : 1;			/* that probe sent old data again */
	struct tcp_rack rack;			/* of the last ACK */
	u32 dsack_dups;				/* segments that the peer said it had twice */
	u32 data_segs_out;			/* segments with data sent so far */
	u32 chrono_stat[3];			/* time in each TCP_CHRONO_... so far, without the present stretch; jiffies */
	u32 chrono_start;			/* when the present stretch began, jiffies */
	u8 chrono_type : 2;			/* what the present stretch is; a byte from some kernel on, hence read_bits() */
	bool is_mptcp;				/* a subflow of Multipath TCP */
};

/* What an ACK tells of delivery (net/ipv4/tcp_rate.c). The packet that it is about is the last sent of those delivered. */
struct rate_sample {
	u32 prior_delivered;	/* tcp_sock.delivered when that packet was sent, segments */
	s32 delivered;		/* segments delivered since then; negative: no sample */
	s32 delivered_ce;	/* of these, marked by ECN */
	long interval_us;	/* the time that this took, us; 0 or less: no sample */
	long rtt_us;		/* round trip of the newest packet that was sent once, us; negative: none */
	int losses;		/* segments marked lost by this ACK */
	u32 acked_sacked;	/* segments delivered by this ACK */
	u32 prior_in_flight;	/* segments in flight before this ACK */
	u32 last_end_seq;	/* where that packet ends in the stream, bytes */
	bool is_app_limited;	/* that packet was sent while the application had nothing more to send */
	bool is_retrans;	/* that packet was a retransmission */
	bool is_ack_delayed;	/* the receiver may have waited with this ACK */
};

#pragma clang attribute pop

/*
 * The table of a congestion control: the members that we fill. The loader empties those that the running kernel does not
 * have, as cwnd_event_tx_start, which was split off from cwnd_event in Linux 7.1. callbacks.bpf.h says when the kernel
 * calls each, and why we do what we do there.
 */
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);				/* a reduction begins; returns the threshold, segments */
	void (*set_state)(struct sock *sk, u8 new_state);		/* the state of recovery changes */
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);	/* something happened to the socket */
	void (*cwnd_event_tx_start)(struct sock *sk);			/* it sends after it was idle */
	u32 (*min_tso_segs)(struct sock *sk);				/* returns the least size of a burst, segments */
	void (*cong_control)(struct sock *sk, u32 ack, int flag,	/* an ACK was processed; the first argument and */
			     const struct rate_sample *rs);		/* the last are ours */
	u32 (*undo_cwnd)(struct sock *sk);				/* a reduction was spurious; returns the window */
	u32 (*sndbuf_expand)(struct sock *sk);				/* returns how many windows the send buffer holds */
	void (*init)(struct sock *sk);					/* the socket starts with the controller */
	void (*release)(struct sock *sk);				/* the socket leaves it */
	char name[TCP_CA_NAME_MAX];	/* what sockets choose it by; the loader may write another */
	u32 flags;			/* TCP_CONG_... */
};

/* What __builtin_preserve_field_info() can be asked of the running kernel's declaration of a field. */
enum bpf_field_info_kind {
	BPF_FIELD_BYTE_OFFSET = 0,	/* of the word that holds the field */
	BPF_FIELD_BYTE_SIZE = 1,	/* of that word */
	BPF_FIELD_EXISTS = 2,		/* 1: there is such a field */
	BPF_FIELD_LSHIFT_U64 = 4,	/* bits by which to shift that word left, in 64 bits, to drop what is above the field */
	BPF_FIELD_RSHIFT_U64 = 5,	/* bits by which to shift it right then, to drop what is below */
};

/*
 * Reads a bit-field. A compiler loads a bit-field with the width and the shifts of the declaration that it sees, which CO-RE
 * cannot move, so where the field is and how to shift it is asked of the running kernel.
 */
#define read_bits(object, field)                                                                                \
	({                                                                                                      \
		const u8 *__byte = (const u8 *)(object) +                                                       \
				   __builtin_preserve_field_info((object)->field, BPF_FIELD_BYTE_OFFSET);       \
		u64 __bits = 0;                                                                                 \
		switch (__builtin_preserve_field_info((object)->field, BPF_FIELD_BYTE_SIZE)) {                  \
		case 1:                                                                                         \
			__bits = *__byte;                                                                       \
			break;                                                                                  \
		case 2:                                                                                         \
			__bits = *(const u16 *)__byte;                                                          \
			break;                                                                                  \
		case 4:                                                                                         \
			__bits = *(const u32 *)__byte;                                                          \
			break;                                                                                  \
		case 8:                                                                                         \
			__bits = *(const u64 *)__byte;                                                          \
			break;                                                                                  \
		}                                                                                               \
		__bits <<= __builtin_preserve_field_info((object)->field, BPF_FIELD_LSHIFT_U64);                \
		__bits >> __builtin_preserve_field_info((object)->field, BPF_FIELD_RSHIFT_U64);                 \
	})

/*
 * A field of the socket. From a socket that the kernel has handed to us it is loaded, and from an address that we found in a
 * map it is copied by a helper, which bears it when the socket is gone.
 */
#define look(is_handed, field)                                                                                  \
	({                                                                                                      \
		typeof(field) __value = 0;                                                                      \
		if (is_handed)                                                                                  \
			__value = (field);                                                                      \
		else                                                                                            \
			bpf_probe_read_kernel(&__value, sizeof(__value), (const void *)&(field));               \
		__value;                                                                                        \
	})

static __always_inline u16 swap16(u16 x)
{
	return x >> 8 | x << 8;
}

static __always_inline u64 pair(u32 low, u32 high)
{
	return low | (u64)high << 32;
}

#endif
