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

#define RING_ENTRIES 512
/* What is in flight fills about 2^RING_SHIFT entries, half of the ring. */
#define RING_SHIFT 8
/* ring_find(): there is no entry for this key. */
#define RING_NONE RING_ENTRIES

struct ring_entry {
	u32 delivered;
	u32 lost;
	u32 inflight;
};

struct ring {
	u64 opened;	/* entries so far; the newest has the number opened - 1 */
	struct ring_entry entries[RING_ENTRIES];
	u32 sample;	/* rs_prior_delivered of the latest sample */
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
RING_FN int ring_note(struct ring *r, u32 delivered, u32 lost, u32 inflight)
{
	struct ring_entry *e;
	u32 left, flight;

	if (!r)
		return 0;
	e = ring_entry(r, r->opened - 1);
	if (r->opened) {
		left = delivered - e->delivered + lost - e->lost;
		flight = u64_max(inflight, delivered - r->sample);
		if (!left || left < flight >> RING_SHIFT)
			return 0;
		if (delivered != e->delivered)
			r->opened++;
	} else {
		r->sample = delivered;
		r->opened = 1;
	}
	e = ring_entry(r, r->opened - 1);
	e->delivered = delivered;
	e->lost = lost;
	e->inflight = inflight;
	return 0;
}

/* Index of the newest entry whose `delivered` is not after the key, or RING_NONE. */
RING_FN u32 ring_find(struct ring *r, u32 key)
{
	u64 end, at;

	if (!r || !r->opened)
		return RING_NONE;
	end = r->opened;
	at = sat_sub(end, RING_ENTRIES);
	if ((int)(key - ring_entry(r, at)->delivered) < 0)
		return RING_NONE;
	for (u32 step = RING_ENTRIES / 2; step; step /= 2)
		if (at + step < end && (int)(key - ring_entry(r, at + step)->delivered) >= 0)
			at += step;
	return at & (RING_ENTRIES - 1);
}

#endif
