/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What we need of the kernel: the structs and fields we touch (CO-RE moves the offsets to where the running
 * kernel has them), the helpers we call, and the words of libbpf's object format.
 *
 * No vmlinux.h: a field that is not declared here is not used.
 */
#ifndef HEADWAY_KERNEL_H
#define HEADWAY_KERNEL_H

#include "cc.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef int s32;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define NULL ((void *)0)

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1
#define BPF_RB_NO_WAKEUP 1

/* Helper numbers are kernel ABI. */
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
static void *(*bpf_sk_storage_get)(void *map, void *sk, void *value, u64 flags) = (void *)107;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;

#define TCP_SYN_SENT 2
#define TCPCB_SACKED_RETRANS 0x02
#define TCPCB_LOST 0x04
#define TCPCB_EVER_RETRANS 0x80
#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define TCP_CONG_NON_RESTRICTED 1
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1

/* The only one we answer. */
enum tcp_ca_event {
	CA_EVENT_TX_START,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rb_node {
	unsigned long __rb_parent_color;
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct sk_buff {
	struct rb_node rbnode;
	u64 skb_mstamp_ns;
	char cb[48];
};

/* In sk_buff.cb. */
struct tcp_skb_cb {
	u32 seq;
	u32 end_seq;
	u16 tcp_gso_segs;
	u8 sacked;
	struct {
		u32 is_app_limited : 1;
		u32 delivered;
	} tx;
};

struct sock_common {
	u8 skc_state;
	u16 skc_num;
};

struct sock {
	struct sock_common __sk_common;
	struct rb_root tcp_rtx_queue;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u32 sk_pacing_status;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	u8 icsk_ca_state : 5;
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_options_received {
	u16 sack_ok : 3;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	struct tcp_options_received rx_opt;
	struct minmax rtt_min;
	u64 tcp_wstamp_ns;
	u64 tcp_clock_cache;
	u64 tcp_mstamp;
	u64 delivered_mstamp;
	struct sk_buff *retransmit_skb_hint;
	u32 mss_cache;
	u32 snd_nxt;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 delivered;
	u32 delivered_ce;
	u32 lost;
	u32 srtt_us;
	u32 app_limited;
	u32 tlp_high_seq;
	u8 is_cwnd_limited : 1;
	u8 tlp_retrans : 1;
};

struct rate_sample {
	u32 prior_delivered;
	s32 delivered;
	s32 delivered_ce;
	long interval_us;
	long rtt_us;
	int losses;
	u32 acked_sacked;
	u32 prior_in_flight;
	u32 last_end_seq;
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
};

#pragma clang attribute pop

/*
 * The members we fill. The loader empties those that the running kernel does not have: cwnd_event_tx_start
 * split off from cwnd_event in newer kernels.
 */
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*cwnd_event_tx_start)(struct sock *sk);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	char name[16];
	u32 flags;
};

/*
 * Reads a bit-field of a u8: compilers load it with a width and shift of their own declaration, which CO-RE
 * cannot move, so the field's byte and its shifts are asked of the running kernel.
 */
#define read_bits(object, field)                                                                                \
	({                                                                                                      \
		const u8 *__byte = (const u8 *)(object) + __builtin_preserve_field_info((object)->field, 0);    \
		u64 __bits = 0;                                                                                 \
		switch (__builtin_preserve_field_info((object)->field, 1)) {                                    \
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
		__bits <<= __builtin_preserve_field_info((object)->field, 4);                                   \
		__bits >> __builtin_preserve_field_info((object)->field, 5);                                    \
	})

#endif
