/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Runs a controller's C twin over recorded or made-up events, as an ordinary program, so that the test `twins` can compare it
 * with what Rust computes. No kernel is needed.
 *
 * Input:  a line `NAME PARAM ...`, then a line of integers for each event: the words of struct ack.
 * Output: a line of integers for each event: the words of struct control, then those of the state.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bbr1.h"
#include "bbr3.h"
#include "ring.h"
#include "trial.h"

/* How many words of 64 bits something has. */
#define WORDS(x) (sizeof(x) / sizeof(u64))

static struct bbr1_params bbr1_params;
static struct bbr1_state bbr1_state;

static void run_bbr1(const struct ack *ack, struct control *out)
{
	bbr1_on_event(&bbr1_state, &bbr1_params, ack, out);
}

static struct bbr3_params bbr3_params;
static struct bbr3_state bbr3_state;

static void run_bbr3(const struct ack *ack, struct control *out)
{
	bbr3_on_event(&bbr3_state, &bbr3_params, ack, out);
}

static struct {
	struct winmax winmax;
	u64 shifted;
	u64 of_brake[4];	/* least, largest, sum and difference by the functions of brake.h */
} fixed;

/* Not a controller: the arithmetic by itself, on some words of the event. */
static void run_fixed(const struct ack *ack, struct control *out)
{
	u64 a = ack->delivered, b = ack->now_us;

	out->cwnd = bw_from(a, b);
	out->pacing_rate = bw_data(a, b);
	out->send_quantum = gain_apply(a, b);
	fixed.shifted = mul_shift(a, b, 63);
	fixed.of_brake[0] = brake_min(a, b);
	fixed.of_brake[1] = brake_max(a, b);
	fixed.of_brake[2] = brake_add(a, b);
	fixed.of_brake[3] = brake_sub(a, b);
	winmax_running_max(&fixed.winmax, ack->unit_bytes, ack->smss, ack->cwnd);
}

static struct ring ring;

/* What run_ring() shows as its state. */
static struct {
	u64 opened;		/* of the ring */
	u64 sample_lost;	/* of the ring */
	u64 delivered;		/* of the entry that the sample's packet found last, as the next four */
	u64 lost;
	u64 inflight;
	u64 outstanding;
	u64 end;
} found;

/* Nor is this: the ring, asked for the packet of the sample and for one of any age. */
static void run_ring(const struct ack *ack, struct control *out)
{
	u32 delivered = ack->delivered, inflight = ack->inflight, rand = ack->rand;
	struct ring_entry now = { delivered, ack->lost, inflight, inflight + rand % 8, delivered + inflight };
	struct ring_packet sample = { ack->rs_prior_delivered, delivered - rand % 16, !!ack->rs_is_app_limited };
	struct ring_packet any = { delivered - rand % (4 * inflight + 1), delivered + inflight, rand & 1 };
	u32 at;

	if (ack->event == EVENT_INIT)
		memset(&ring, 0, sizeof(ring));
	ring_raise(&ring, ack->prior_inflight);
	ring.sample_delivered = sample.delivered;
	at = ring_find(&ring, &sample);
	out->cwnd = at;
	out->pacing_rate = ring_find(&ring, &any);
	if (at != RING_NONE) {
		const struct ring_entry *e = &ring.entries[at];

		ring.sample_lost = e->lost;
		found.delivered = e->delivered;
		found.lost = e->lost;
		found.inflight = e->inflight;
		found.outstanding = e->outstanding;
		found.end = e->end;
		out->send_quantum = ring_tx_in_flight(e, &sample, rand % 3);
	}
	ring_note(&ring, &now);
	found.opened = ring.opened;
	found.sample_lost = ring.sample_lost;
}

static struct connection connection;

/* What is compared of it. */
static struct {
	u64 samples;
	u64 halvings;
	u64 words[RTT_BUCKETS / 4];
} counted;

/* Nor is this: what a trial does with a round trip, and the coin that it tosses. */
static void run_trial(const struct ack *ack, struct control *out)
{
	count_rtt(&connection, ack->delivered);
	out->cwnd = rtt_bucket(ack->delivered);
	out->pacing_rate = coin(ack->now_us, ack->smss, ack->cwnd, ack->unit_bytes);
	counted.samples = connection.samples;
	counted.halvings = connection.halvings;
	memcpy(counted.words, connection.words, sizeof(counted.words));
}

/* Every controller with a C twin; a new one is one row. */
static const struct twin {
	const char *name;	/* as the first line of the input has it */
	void *params;		/* its parameters, into which that line is read */
	size_t n_params;	/* how many words they are */
	const void *state;	/* its state, which is printed after each event */
	size_t n_state;		/* how many words it is */
	void (*run)(const struct ack *ack, struct control *out);	/* one event */
} twins[] = {
	{ "bbr1", &bbr1_params, WORDS(bbr1_params), &bbr1_state, WORDS(bbr1_state), run_bbr1 },
	{ "bbr3", &bbr3_params, WORDS(bbr3_params), &bbr3_state, WORDS(bbr3_state), run_bbr3 },
	{ "fixed", NULL, 0, &fixed, WORDS(fixed), run_fixed },
	{ "ring", NULL, 0, &found, WORDS(found), run_ring },
	{ "trial", NULL, 0, &counted, WORDS(counted), run_trial },
};

static void fail(size_t line, const char *what)
{
	fprintf(stderr, "replay: input line %zu: %s\n", line, what);
	exit(1);
}

/* Reads exactly n integers, separated by spaces, into words. */
static void parse(char *text, void *words, size_t n, size_t line)
{
	for (size_t i = 0; i < n; i++) {
		char *end;
		u64 word;

		errno = 0;
		word = strtoull(text, &end, 10);
		if (end == text || errno)
			fail(line, "expected another integer of 64 bits");
		memcpy((u64 *)words + i, &word, sizeof(word));
		text = end;
	}
	if (text[strspn(text, " \n")])
		fail(line, "more words than the fields of the row");
}

/* Decimal digits by hand: printf would take most of the time of a long replay. */
static void print(const void *words, size_t n, char last)
{
	for (size_t i = 0; i < n; i++) {
		char digits[21];
		size_t at = sizeof(digits);
		u64 word;

		memcpy(&word, (const u64 *)words + i, sizeof(word));
		digits[--at] = i + 1 < n ? ' ' : last;
		do {
			digits[--at] = (char)('0' + word % 10);
			word /= 10;
		} while (word);
		fwrite(digits + at, 1, sizeof(digits) - at, stdout);
	}
}

static const struct twin *find_twin(const char *name)
{
	for (size_t i = 0; i < sizeof(twins) / sizeof(twins[0]); i++)
		if (!strcmp(twins[i].name, name))
			return &twins[i];
	return NULL;
}

int main(void)
{
	const struct twin *twin;
	struct control out;
	struct ack ack;
	char *text = NULL, *params;
	size_t size = 0, line = 1;

	if (getline(&text, &size, stdin) < 0)
		fail(line, "expected `NAME PARAM ...`");
	params = text + strcspn(text, " \n");
	if (*params)
		*params++ = 0;
	twin = find_twin(text);
	if (!twin)
		fail(line, "no controller of that name has a C twin");
	parse(params, twin->params, twin->n_params, line);

	while (getline(&text, &size, stdin) >= 0) {
		parse(text, &ack, WORDS(ack), ++line);
		memset(&out, 0, sizeof(out));
		twin->run(&ack, &out);
		print(&out, WORDS(out), ' ');
		print(twin->state, twin->n_state, '\n');
	}
	free(text);
	if (ferror(stdin) || fflush(stdout)) {
		perror("replay");
		return 1;
	}
	return 0;
}
