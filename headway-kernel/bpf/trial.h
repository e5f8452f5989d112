/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The arithmetic of a trial: the coin that is tossed for a connection, and the buckets in which its round trips are counted. */
#ifndef HEADWAY_TRIAL_H
#define HEADWAY_TRIAL_H

#include "fixed.h"

typedef unsigned char u8;
typedef unsigned short u16;

/* Four buckets to an octave, from 32 us on: headway-cc/src/histogram.rs. */
#define RTT_BUCKETS 80
#define RTT_FIRST_OCTAVE 5

/* The octave of a number: the place of its highest bit. */
static __always_inline u32 octave_of(u32 x)
{
	u32 octave = 0;

	for (u32 half = 16; half; half >>= 1) {
		if (x >> half) {
			x >>= half;
			octave += half;
		}
	}
	return octave;
}

static __always_inline u32 rtt_bucket(u32 us)
{
	u32 octave = octave_of(us), bucket;

	if (octave < RTT_FIRST_OCTAVE)
		return 0;
	bucket = 4 * (octave - RTT_FIRST_OCTAVE) + (us >> (octave - 2) & 3);
	return bucket < RTT_BUCKETS ? bucket : RTT_BUCKETS - 1;
}

/*
 * What we keep of a connection while it is open. With what the kernel puts before it, it fills a block of 256 bytes; one byte
 * more, and it takes 512.
 */
struct connection {
	u64 began_ns;		/* when the handshake was done; CLOCK_MONOTONIC */
	u32 slot;		/* in which that was */
	u32 min_rtt_us;		/* least round trip of its life; all ones: none measured */
	u32 samples;		/* round trips measured so far, counted below or not */
	u16 rtos;		/* how often the retransmission timer has fired; stays at its largest value */
	u8 arm : 1;		/* which of the two controllers it got */
	u8 is_inbound : 1;	/* it came in at a listener */
	u8 halvings;		/* each count below stands for 2 to the power of this many samples */
	union {
		u16 count[RTT_BUCKETS];		/* samples in each bucket */
		u64 words[RTT_BUCKETS / 4];
	};
};

/* Turns a number into one all of whose bits depend on all of its bits: the finaliser of SplitMix64. */
static __always_inline u64 mixed(u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/*
 * Counts have 16 bits. When one is full, all are halved, and from then on one in two samples counts, then one in four: so old
 * and new samples keep their proportions, however long the connection lasts. Which ones count looks random, because round trips
 * may alternate.
 */
static __always_inline void count_rtt(struct connection *c, u32 us)
{
	u32 bucket = rtt_bucket(us), halvings = c->halvings & 31;

	if (mixed(c->samples++) & ((1U << halvings) - 1))
		return;
	if (c->count[bucket] == 0xffff) {
		/* Upwards, so that a sample that stands alone in its bucket does not vanish. */
		for (u32 i = 0; i < RTT_BUCKETS; i++)
			c->count[i] = (c->count[i] + 1) >> 1;
		c->halvings = halvings + 1;
	}
	c->count[bucket]++;
}

/* The arm, 0 or 1, of what has this key in this slot: arm 1 for `chance` of 65,536 keys. */
static __always_inline u32 coin(u64 seed, u32 slot, u64 key, u32 chance)
{
	u64 toss = mixed(mixed(mixed(seed) + slot) + key);

	return toss >> 48 < chance;
}

#endif
