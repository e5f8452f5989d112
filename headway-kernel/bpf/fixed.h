/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The two fixed-point formats, bandwidth and gain, and the windowed maximum.
 * Twin: headway-cc/src/cc/fixed.rs, which states ranges and reasons; same names in the same order.
 *
 * Plain C without kernel types: compiles for BPF (no 128-bit integers, unsigned division only) and natively.
 */
#ifndef HEADWAY_FIXED_H
#define HEADWAY_FIXED_H

#include "cc.h"

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#ifndef __noinline
#define __noinline __attribute__((noinline))
#endif

#define U64_MAX (~0ULL)

#define USEC_PER_SEC 1000000ULL
#define USEC_PER_MSEC 1000ULL

/* Bandwidth: units of data per microsecond, times 2^24. */
#define BW_SCALE 24
#define BW_UNIT (1ULL << BW_SCALE)

/* Gain: a ratio, times 2^16. */
#define GAIN_SCALE 16
#define GAIN_UNIT (1ULL << GAIN_SCALE)

static __always_inline u64 u64_min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline u64 u64_max(u64 a, u64 b)
{
	return a > b ? a : b;
}

static __always_inline u64 sat_add(u64 a, u64 b)
{
	return a + b < a ? U64_MAX : a + b;
}

static __always_inline u64 sat_sub(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/*
 * A function of its own in BPF: the verifier walks a global one once, an inlined one for each use and outcome. Inlining only
 * the short way out of it was tried, and took the verifier beyond its million instructions on Linux 6.18.
 */
#ifdef __bpf__
#define MUL_SHIFT __noinline
#else
#define MUL_SHIFT static __always_inline
#endif

/*
 * floor(a * b / 2^shift) for a shift of 0 to 63, U64_MAX when that needs more than 64 bits. Nearly always the product has 64
 * bits: of two words of 32 bits, or of a value and a gain below 16, which has 20.
 */
MUL_SHIFT u64 mul_shift(u64 a, u64 b, u32 shift)
{
	u64 a0, a1, b0, b1, lo, mid, mid2, hi;

	if (!((a | b) >> 32) || !(a >> 44 | b >> 20))
		return a * b >> shift;
	a0 = (u32)a;
	a1 = a >> 32;
	b0 = (u32)b;
	b1 = b >> 32;
	lo = a0 * b0;
	mid = a1 * b0 + (lo >> 32); /* at most 2^64 - 2^32: no carry is lost */
	mid2 = a0 * b1 + (u32)mid;
	hi = a1 * b1 + (mid >> 32) + (mid2 >> 32);
	lo = (mid2 << 32) | (u32)lo;
	if (hi >> shift)
		return U64_MAX;
	return shift ? (hi << (64 - shift)) | (lo >> shift) : lo;
}

static __always_inline u64 sat_mul(u64 a, u64 b)
{
	return mul_shift(a, b, 0);
}

/* The bandwidth that moves this much data in this time; a time of 0 counts as 1 us. */
static __always_inline u64 bw_from(u64 data, u64 interval_us)
{
	return sat_mul(data, BW_UNIT) / u64_max(interval_us, 1);
}

/* The data that this bandwidth moves in this time, rounded down. */
static __always_inline u64 bw_data(u64 bw, u64 interval_us)
{
	return mul_shift(bw, interval_us, BW_SCALE);
}

/* A value times a gain, rounded down. */
static __always_inline u64 gain_apply(u64 value, u64 gain)
{
	return mul_shift(value, gain, GAIN_SCALE);
}

/* One sample that a windowed maximum remembers. */
struct winmax_sample {
	u64 t;	/* when it was taken, by the clock of the caller (BBR: rounds) */
	u64 v;	/* what was measured, in any unit */
};

/* The best three samples of the window, best first; times never decrease along the array. */
struct winmax {
	struct winmax_sample s[3];	/* where fewer are known the last is repeated */
};

/* The maximum over the window. */
static __always_inline u64 winmax_get(const struct winmax *m)
{
	return m->s[0].v;
}

/* Forgets everything but this sample. */
static __always_inline void winmax_reset(struct winmax *m, u64 t, u64 v)
{
	m->s[0].t = m->s[1].t = m->s[2].t = t;
	m->s[0].v = m->s[1].v = m->s[2].v = v;
}

/* Lets old samples leave and places the newest where the window has a gap. */
static __always_inline void winmax_subwin_update(struct winmax *m, u64 win, u64 t, u64 v)
{
	struct winmax_sample val = { t, v };
	u64 dt = sat_sub(t, m->s[0].t);

	if (dt > win) {
		/* The best is too old: the others move up, twice if the second is too old as well. */
		m->s[0] = m->s[1];
		m->s[1] = m->s[2];
		m->s[2] = val;
		if (sat_sub(t, m->s[0].t) > win) {
			m->s[0] = m->s[1];
			m->s[1] = m->s[2];
			m->s[2] = val;
		}
	} else if (m->s[1].t == m->s[0].t && dt > win / 4) {
		m->s[1] = m->s[2] = val; /* a second best from the window's second quarter */
	} else if (m->s[2].t == m->s[1].t && dt > win / 2) {
		m->s[2] = val; /* a third best from its second half */
	}
}

/* Takes a sample at time t into a window of length win. */
static __always_inline void winmax_running_max(struct winmax *m, u64 win, u64 t, u64 v)
{
	struct winmax_sample val = { t, v };

	if (v >= m->s[0].v || sat_sub(t, m->s[2].t) > win) {
		winmax_reset(m, t, v); /* a new maximum, or nothing left in the window */
		return;
	}
	if (v >= m->s[1].v)
		m->s[1] = m->s[2] = val;
	else if (v >= m->s[2].v)
		m->s[2] = val;
	winmax_subwin_update(m, win, t, v);
}

#endif
