/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The seam between a transport and a congestion controller: one flat event in, one control out.
 * Twin: headway-cc/src/cc.rs, which documents every field; same fields in the same order, all u64.
 *
 * Counters never wrap: glue over 32-bit counters extends them.
 */
#ifndef HEADWAY_CC_H
#define HEADWAY_CC_H

typedef unsigned long long u64;
typedef unsigned int u32;

#define NO_RTT 0xffffffffULL

enum cc_event {
	EVENT_INIT = 0,
	EVENT_ACK = 1,
	EVENT_TX_START = 2,
	EVENT_SSTHRESH = 3,
	EVENT_LOSS = 4,
	EVENT_UNDO = 5,
	EVENT_LOST = 6,
};

enum cc_ca_state {
	CA_OPEN = 0,
	CA_DISORDER = 1,
	CA_CWR = 2,
	CA_RECOVERY = 3,
	CA_LOSS = 4,
};

struct ack {
	u64 event;
	u64 now_us;
	u64 unit_bytes;
	u64 smss;
	u64 cwnd;
	u64 cwnd_clamp;
	u64 pacing_rate;
	u64 max_pacing_rate;
	u64 delivered;
	u64 delivered_us;
	u64 delivered_ce;
	u64 lost;
	u64 newly_acked;
	u64 newly_lost;
	u64 inflight;
	u64 prior_inflight;
	u64 srtt_us;
	u64 min_rtt_us;
	u64 rs_delivered;
	u64 rs_lost;
	u64 rs_interval_us;
	u64 rs_rtt_us;
	u64 rs_prior_delivered;
	u64 rs_tx_in_flight;
	u64 rs_delivered_ce;
	u64 rs_starts_lost_range;
	u64 rs_is_app_limited;
	u64 rs_is_ack_delayed;
	u64 is_app_limited;
	u64 is_cwnd_limited;
	u64 has_selective_acks;
	u64 ca_state;
	u64 edt_us;
	u64 rand;
};

struct control {
	u64 cwnd;
	u64 pacing_rate;
	u64 send_quantum;
	u64 mark_app_limited;
};

#endif
