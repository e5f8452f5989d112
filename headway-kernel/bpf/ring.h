/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * How much was in flight when a packet was sent, and how much was lost since, for a kernel that keeps neither with
 * the packet. After some ACKs the ring notes the present counters, and a packet finds the newest entry that existed
 * when it was sent. Twin: headway-cc/src/reconstruct.rs, which says why this works and how exactly; same names in the
 * same order.
 *
 * Plain C without kernel types: compiles for BPF and natively. Amounts are in packets, the low 32 bits of the
 * counters; places in the stream are in bytes, and wrap too.
 */
#ifndef HEADWAY_RING_H
#define HEADWAY_RING_H

#include "fixed.h"

/* A power of two. More would not fit into a socket's storage. */
#define RING_ENTRIES 256
/*
 * A flight (what was sent within one round trip) fills about 2^RING_SHIFT entries, and the losses in it at most
 * 2^RING_LOST_SHIFT more. The rest is for packets that stay away for longer.
 */
#define RING_SHIFT 6
#define RING_LOST_SHIFT 7
/* ring_find(): there is no entry for this packet. */
#define RING_NONE RING_ENTRIES

/* How things stood when the entry was made. */
struct ring_entry {
	u32 delivered;		/* packets delivered so far (C.delivered) */
	u32 lost;		/* packets marked lost so far (C.lost) */
	u32 inflight;		/* the most packets that were in flight until the next entry was made */
	u32 outstanding;	/* packets sent and not delivered: in flight, or marked lost and to be sent again */
	u32 end;		/* where new data begins in the stream, bytes */
};

/* A packet, as far as a kernel without a record of it knows it. */
struct ring_packet {
	u32 delivered;		/* packets that were delivered when it was sent (P.delivered) */
	u32 end;		/* where it ends in the stream, bytes */
	u32 is_retransmission;	/* 1: it was not its first transmission */
};

/* The latest entries of a connection. */
struct ring {
	u64 opened;				/* entries made so far; the newest has the number opened - 1 */
	struct ring_entry entries[RING_ENTRIES];	/* entry n is at n modulo RING_ENTRIES */
	u32 sample_delivered;			/* `delivered` of the packet of the latest sample; the glue writes it */
	u32 sample_lost;			/* packets lost when that packet was sent, or an earlier one where the ring did
						 * not find it; the glue writes it */
};

/* In BPF a global function, because the verifier walks it once, and not once for each way that leads there. */
#ifdef __bpf__
#define RING_FN __noinline
#else
#define RING_FN static __always_inline
#endif

/* The entry of this number. */
static __always_inline struct ring_entry *ring_entry(struct ring *r, u64 number)
{
	return &r->entries[number & (RING_ENTRIES - 1)];
}

/*
 * Raises the newest entry to what was in flight before this ACK, if that is more, because packets sent since the
 * entry may have seen so much. It must be the first step of each ACK.
 */
static __always_inline void ring_raise(struct ring *r, u32 prior_inflight)
{
	struct ring_entry *newest = ring_entry(r, r->opened - 1);

	if (r->opened && prior_inflight > newest->inflight)
		newest->inflight = prior_inflight;
}

/*
 * Makes an entry for the packets that are sent from now on, if enough has changed since the last one. With an entry
 * for each ACK, a flight of many ACKs would not fit into the ring.
 */
RING_FN int ring_note(struct ring *r, const struct ring_entry *now)
{
	u32 delivered, lost, flight;

	if (!r || !now)
		return 0;
	if (r->opened) {
		const struct ring_entry *e = ring_entry(r, r->opened - 1);

		delivered = now->delivered - e->delivered;
		lost = now->lost - e->lost;
		flight = u64_max(now->inflight, now->delivered - r->sample_delivered);
		if (!(delivered + lost) ||
		    (delivered + lost < flight >> RING_SHIFT &&
		     (!lost || lost < (now->lost - r->sample_lost) >> RING_LOST_SHIFT)))
			return 0;
	} else {
		r->sample_delivered = now->delivered;
		r->sample_lost = now->lost;
	}
	r->opened++;
	*ring_entry(r, r->opened - 1) = *now;
	return 0;
}

/*
 * Whether an entry was made before the packet was sent: no more was delivered then, and if the packet was sent for the first
 * time, it ends beyond what had been sent.
 */
static __always_inline int ring_is_before(const struct ring_entry *e, const struct ring_packet *p)
{
	return (int)(p->delivered - e->delivered) >= 0 && (p->is_retransmission || (int)(p->end - e->end) > 0);
}

/* Index of the newest entry that was there when the packet was sent, or RING_NONE; by bisection. */
RING_FN u32 ring_find(struct ring *r, const struct ring_packet *p)
{
	u64 end, at;

	if (!r || !p || !r->opened)
		return RING_NONE;
	end = r->opened;
	at = sat_sub(end, RING_ENTRIES);
	if (!ring_is_before(ring_entry(r, at), p))
		return RING_NONE;
	for (u32 step = RING_ENTRIES / 2; step; step /= 2)
		if (at + step < end && ring_is_before(ring_entry(r, at + step), p))
			at += step;
	return at & (RING_ENTRIES - 1);
}

/*
 * How many packets were in flight when a packet that found this entry was sent, itself included: what was outstanding at the
 * entry, more by what was sent since (told by the stream) and less by what was delivered since. After a timeout much is
 * outstanding and little in flight, so the most that was in flight bounds it.
 */
static __always_inline u32 ring_tx_in_flight(const struct ring_entry *e, const struct ring_packet *p, u32 unit_bytes)
{
	u32 delivered = p->delivered - e->delivered, unit = unit_bytes ? unit_bytes : 1, span = p->end - e->end;
	u32 sent = (int)span > 0 ? span / unit + !!(span % unit) : delivered;
	u32 outstanding = e->outstanding + sent - delivered;

	return e->inflight < outstanding ? e->inflight : outstanding;
}

#endif
