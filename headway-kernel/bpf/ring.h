/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What a kernel that keeps no record of each packet can still tell: a ring of entries keyed by `delivered`.
 * Twin: headway-cc/src/reconstruct.rs, which says why and how exactly; same names in the same order.
 *
 * Plain C without kernel types: compiles for BPF and natively. Amounts are the low 32 bits of the counters.
 */
#ifndef HEADWAY_RING_H
#define HEADWAY_RING_H

#include "fixed.h"

#define RING_ENTRIES 256
/* What is in flight fills about 2^RING_SHIFT entries, what was lost in a flight at most 2^RING_LOST_SHIFT more. */
#define RING_SHIFT 6
#define RING_LOST_SHIFT 7
/* ring_find(): there is no entry for this packet. */
#define RING_NONE RING_ENTRIES

struct ring_entry {
	u32 delivered;
	u32 lost;
	u32 inflight;
	u32 outstanding;
	u32 end;
};

struct ring_packet {
	u32 delivered;
	u32 end;
	u32 is_retransmission;
};

struct ring {
	u64 opened;	/* entries so far; the newest has the number opened - 1 */
	struct ring_entry entries[RING_ENTRIES];
	u32 sample_delivered;	/* of the packet of the latest sample */
	u32 sample_lost;
};

/* In BPF a global function: the verifier walks it once, whatever leads there. */
#ifdef __bpf__
#define RING_FN __noinline
#else
#define RING_FN static __always_inline
#endif

static __always_inline struct ring_entry *ring_entry(struct ring *r, u64 number)
{
	return &r->entries[number & (RING_ENTRIES - 1)];
}

/* An ACK arrives: so much was in flight when the last packet since the newest entry had left. */
static __always_inline void ring_raise(struct ring *r, u32 prior_inflight)
{
	struct ring_entry *newest = ring_entry(r, r->opened - 1);

	if (r->opened && prior_inflight > newest->inflight)
		newest->inflight = prior_inflight;
}

/* After an event: packets sent from now on find this, if it is news enough for an entry. */
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

/* Whether an entry was opened before the packet left. */
static __always_inline int ring_is_before(const struct ring_entry *e, const struct ring_packet *p)
{
	return (int)(p->delivered - e->delivered) >= 0 && (p->is_retransmission || (int)(p->end - e->end) > 0);
}

/* Index of the newest entry that was there when the packet left, or RING_NONE. */
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

/* How much was in flight with a packet that found this entry, itself included. */
static __always_inline u32 ring_tx_in_flight(const struct ring_entry *e, const struct ring_packet *p, u32 unit_bytes)
{
	u32 delivered = p->delivered - e->delivered, unit = unit_bytes ? unit_bytes : 1, span = p->end - e->end;
	u32 sent = (int)span > 0 ? span / unit + !!(span % unit) : delivered;
	u32 outstanding = e->outstanding + sent - delivered;

	return e->inflight < outstanding ? e->inflight : outstanding;
}

#endif
