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

/* rs_rtt_us and min_rtt_us when there is no RTT. */
#define NO_RTT 0xffffffffULL

/* What happened; numbers as in Event. */
enum cc_event {
	EVENT_INIT = 0,	/* a connection starts, or switches to this controller mid-flight */
	EVENT_ACK = 1,	/* an ACK was processed */
	EVENT_TX_START = 2,	/* the first transmission after an idle period */
	EVENT_SSTHRESH = 3,	/* the transport is about to reduce the window */
	EVENT_LOSS = 4,	/* the retransmission timer fired */
	EVENT_UNDO = 5,	/* the last reduction proved spurious */
	EVENT_LOST = 6,	/* a packet was marked lost; comes before the event that reveals the loss */
};

/* State of loss recovery, each worse than the one before it; numbers as in Linux and in CaState. */
enum cc_ca_state {
	CA_OPEN = 0,	/* nothing is missing */
	CA_DISORDER = 1,	/* something later was delivered first, nothing is marked lost */
	CA_CWR = 2,	/* the window is being reduced without a loss */
	CA_RECOVERY = 3,	/* fast recovery: losses are being repaired */
	CA_LOSS = 4,	/* the retransmission timer has fired */
};

/* One event. Data in units of the transport, times in microseconds, rates in bytes per second. */
struct ack {
	u64 event;	/* one of enum cc_event */
	u64 now_us;	/* When it happened; later events have no earlier time */
	/* Bytes in one unit of data: the MSS for TCP (unit: packet), 1 where the unit is the byte */
	u64 unit_bytes;
	u64 smss;	/* Sender maximum segment size in units: 1 for TCP (unit: packet) */
	/* The congestion window now in force; the transport may have changed it since the last control */
	u64 cwnd;
	u64 cwnd_clamp;	/* Upper bound the host sets on the window (Linux snd_cwnd_clamp) */
	u64 pacing_rate;	/* The pacing rate now in force, bytes/s; 0 before the first control */
	/* Upper bound the application sets (SO_MAX_PACING_RATE), bytes/s; all ones for none */
	u64 max_pacing_rate;
	u64 delivered;	/* C.delivered: total delivered so far, this ACK included */
	u64 delivered_us;	/* Time of the most recent delivery (Linux delivered_mstamp) */
	u64 delivered_ce;	/* CE-marked part of delivered, so far as the receiver has said */
	u64 lost;	/* Total marked lost so far */
	u64 newly_acked;	/* Newly ACKed or SACKed by this ACK */
	u64 newly_lost;	/* Newly marked lost by this ACK */
	u64 inflight;	/* In flight after this ACK was processed */
	u64 prior_inflight;	/* In flight before this ACK was processed */
	u64 srtt_us;	/* Smoothed RTT; 0 when there is none yet */
	u64 min_rtt_us;	/* The transport's own minimum RTT; NO_RTT when there is none yet */
	u64 rs_delivered;	/* Delivered over the sampling interval (RS.delivered); 0 when there is no sample */
	u64 rs_lost;	/* Lost over the sampling interval (RS.lost) */
	u64 rs_interval_us;	/* Length of the sampling interval (RS.interval); 0 when there is no valid rate */
	u64 rs_rtt_us;	/* RTT sample (RS.rtt); NO_RTT when there is none */
	u64 rs_prior_delivered;	/* P.delivered of the packet that the sample is about */
	u64 rs_tx_in_flight;	/* In flight just after that packet was sent (RS.tx_in_flight) */
	u64 rs_delivered_ce;	/* CE-marked part of rs_delivered */
	/* EVENT_LOST: whether the packet starts a discontiguous range of losses, because it does not follow
	 * the last one marked lost */
	u64 rs_starts_lost_range;
	u64 rs_is_app_limited;	/* Whether the sample is application-limited */
	u64 rs_is_ack_delayed;	/* Whether the receiver probably delayed the ACK (Linux is_ack_delayed) */
	u64 is_app_limited;	/* Whether the connection is application-limited now */
	u64 is_cwnd_limited;	/* Whether the window, not the application, limited sending in the last round */
	u64 has_selective_acks;	/* Whether the receiver acknowledges selectively (QUIC: always; TCP: with SACK) */
	u64 ca_state;	/* one of enum cc_ca_state */
	/* How far in the future the next packet's departure is already scheduled, microseconds (EDT pacing) */
	u64 edt_us;
	u64 rand;	/* 32 random bits drawn by the transport */
};

/* What the controller wants after an event. */
struct control {
	u64 cwnd;	/* Congestion window, in units of data */
	u64 pacing_rate;	/* Bytes per second */
	u64 send_quantum;	/* Largest burst, in units of data (Linux: segments per skb goal) */
	/* Whether everything in flight is to count as application-limited from now on (BBR in ProbeRTT) */
	u64 mark_app_limited;
};

#endif
