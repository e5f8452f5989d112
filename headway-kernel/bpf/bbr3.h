/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * BBRv3 after draft-ietf-ccwg-bbr, and by its names. "§" is a section of the revision in docs/reference/draft.md.
 *
 * Use: fill struct bbr3_params from Rust, call bbr3_on_event() for every event, apply what it puts in struct
 * control. The glue's min_tso_segs callback is bbr3_min_tso_segs(). It needs an EVENT_LOST for each packet marked
 * lost. struct ack is best kept in map memory: on the stack the verifier tracks each word.
 *
 * Twin: headway-cc/src/cc/bbr3.rs and the files of cc/bbr3/, which lead: same functions in the same order; reasons
 * and numbers are there. Plain C for BPF and native builds. Amounts of data are in the transport's unit. BPF nests
 * eight calls and three lead here: no chain of functions that are not inline is longer than five.
 */
#ifndef HEADWAY_BBR3_H
#define HEADWAY_BBR3_H

#include "brake.h"

/* The state of the state machine. */
enum bbr3_mode {
	BBR3_NONE = 0,	/* before the first event; as undo_state: no state to return to */
	BBR3_STARTUP = 1,	/* looks for the path's rate by doubling each round */
	BBR3_DRAIN = 2,	/* drains the queue that Startup has built */
	BBR3_PROBE_BW_DOWN = 3,	/* sends slower after a probe, until its queue is gone and headroom is left */
	BBR3_PROBE_BW_CRUISE = 4,	/* sends at the estimate */
	BBR3_PROBE_BW_REFILL = 5,	/* fills the pipe for a round */
	BBR3_PROBE_BW_UP = 6,	/* sends faster, to see whether the path has more */
	BBR3_PROBE_RTT = 7,	/* has little in flight, to see the RTT without a queue */
};

/* Which part of a probe the present ACKs answer; ACKs come a round after sending. */
enum bbr3_ack_phase {
	BBR3_ACKS_INIT = 0,	/* no probe is being judged */
	BBR3_ACKS_REFILLING = 1,	/* ACKs come for what was sent before the pipe was full */
	BBR3_ACKS_PROBE_STARTING = 2,	/* the probe has begun, but ACKs still come for what was sent before it */
	BBR3_ACKS_PROBE_FEEDBACK = 3,	/* ACKs come for what the probe has sent */
	BBR3_ACKS_PROBE_STOPPING = 4,	/* the probe is over, and its last ACKs come */
};

/* The value of a bound that is not in force (the draft's Infinity). */
#define BBR3_INFINITY U64_MAX

/* The ladder's tunables; reasons and values are in LadderParams. Gains and parts of 1 are times 2^16. */
struct ladder_params {
	u64 is_on;	/* Whether a probe climbs and ends at its own queue: 1 yes, 0 no, which is the draft's probe */
	u64 first_gain;	/* Pacing rate over bandwidth at the beginning of a probe */
	u64 first_rounds;	/* Rounds with that gain */
	u64 top_gain;	/* Pacing rate over bandwidth once the rate has grown, where no probe has lost too much */
	u64 flat_rounds;	/* Rounds without growth that end a probe, as in the draft */
	u64 max_rounds;	/* Most rounds between two probes that climb */
	/* The count of these rounds starts at a random number below this, so that flows that share a bottleneck do
	 * not probe together */
	u64 rand_rounds;
	u64 slot;	/* How long a slot of ACKs lasts at least, as a part of the minimum RTT */
	u64 slot_min_acks;	/* Fewest ACKs of a slot, because one may be late by chance */
	u64 slot_min_segments;	/* Segments that a slot delivers at least */
	u64 slots;	/* Slots in a row with a queue that end a probe */
	/* An RTT counts as a queue when it is above the usual one by more than this part of the minimum RTT */
	u64 rtt;
	u64 deviations;	/* It must also be above it by this many mean deviations */
	/* Other flows keep a queue when the usual RTT is above the minimum RTT by more than this part of it */
	u64 shared;
	u64 shared_us;	/* They count as being there for this time after that, in microseconds */
	u64 memory;	/* Weight of the newest slot in the averages */
};

/* What the ladder remembers of a connection. */
struct ladder {
	u64 slot_us;	/* When the slot began, in microseconds */
	u64 slot_delivered;	/* delivered when the slot began */
	u64 slot_acks;	/* ACKs of the slot so far */
	/* Smallest rs_prior_delivered among them: delivered when the oldest of their packets was sent */
	u64 slot_prior;
	u64 slot_rtt_us;	/* Their smallest RTT, in microseconds; NO_RTT before the first sample */
	/* Mean of the slots' smallest RTTs in ProbeBW_CRUISE, in 1024ths of a microsecond; 0 while it is not known */
	u64 usual_rtt;
	u64 usual_rtt_dev;	/* Their mean deviation from it, in 1024ths of a microsecond */
	u64 shared_stamp_us;	/* When it last showed that other flows keep a queue, in microseconds; 0 before the first time */
	u64 is_climbing;	/* Whether this probe climbs */
	u64 phase_delivered;	/* delivered when this probe, or this ProbeBW_CRUISE, began */
	u64 queue_slots;	/* Slots in a row with a queue, of packets that this probe has sent */
	/* Bandwidth from which on growth is counted: the largest one when the probe began, or when the rate had grown last */
	u64 reference_bw;
	u64 rung_round;	/* round_count when the gain was raised last */
};

/* The loss model's tunables; reasons and values are in LossModelParams. Gains and parts of 1 are times 2^16. */
struct loss_model_params {
	u64 is_on;	/* Whether losses that do not depend on the queue are tolerated: 1 yes, 0 no, which is the draft */
	/* An RTT shows a queue when it is above the smallest one by more than this part of it and by more than low_us */
	u64 low_rtt;
	u64 low_us;	/* It must also be above the smallest RTT by more than this time, in microseconds */
	u64 slot;	/* How long a slot of ACKs lasts, as a part of the minimum RTT */
	u64 base_us;	/* For how long the smallest RTT counts, and twice as long at most */
	u64 memory;	/* Weight of an ACK in the usual RTT */
	u64 min_sent;	/* Segments that must have been sent in quiet rounds before their losses are judged */
	u64 min_lost;	/* Segments of them that must have been lost */
	u64 window_lost;	/* The counts are halved when so many segments were lost without a queue */
	u64 window_sent;	/* They are halved, too, when so many segments were sent without a queue */
	u64 min_share;	/* Least share that is tolerated */
	u64 max_share;	/* Largest share that is tolerated */
	u64 share_per_segment;	/* Largest share that is tolerated, for each segment of the BDP */
	u64 limit;	/* More is lost than elsewhere when it is this many times as much and limit_deviations more */
	u64 limit_deviations;	/* Standard deviations of chance that are allowed for in this comparison */
	/* How much of a flight or round may be lost, as a multiple of the share; tolerated_deviations are added */
	u64 tolerated;
	u64 tolerated_deviations;	/* Standard deviations of chance that a flight or round may lose above that */
	u64 burst;	/* Packets that are lost together, in the mean */
	u64 hold_rounds;	/* Rounds for which losses are answered after the tolerance has ended; doubled each time */
	u64 full_rtt;	/* An RTT above the smallest one by more than this part of it shows that the path is full */
	u64 blind_probes;	/* The tolerance ends after so many probes that showed no queue, since the last queue */
	u64 blind_hold;	/* The hold is this many times as long where no queue has been seen */
	u64 growth_share;	/* Startup overlooks losses while a round loses no more than is tolerated of this share */
	u64 small_rounds;	/* Most rounds in a row that Startup leaves out because too little was in flight */
	/* Whether a flow that sends at its bandwidth sends what the path loses on top: 1 yes, 0 no */
	u64 compensate;
};

/* What the loss model remembers of a connection. Data is in the transport's units. */
struct loss_model {
	u64 share;	/* The part that is lost without a queue, a gain; 0 while losses are answered */
	u64 first_share;	/* share when it was tolerated first */
	u64 slot_us;	/* When the slot began, in microseconds; 0 before the first */
	u64 slot_rtt_us;	/* Its smallest RTT, in microseconds; NO_RTT before its first sample */
	u64 last_slot_rtt_us;	/* That of the slot before */
	u64 base_stamp_us;	/* When the span of the smallest RTT began, in microseconds; 0 before the first */
	u64 base_rtt_us;	/* Smallest RTT of this span, in microseconds */
	u64 last_base_rtt_us;	/* That of the span before */
	u64 usual_rtt;	/* Mean of these RTTs in quiet rounds, in 256ths of a microsecond; 0 before the first */
	u64 quiet_low_sent;	/* Quiet rounds: what ACKs without a queue reported, as delivered or as lost */
	u64 quiet_low_lost;	/* Lost of that */
	u64 quiet_low_bdp;	/* What was sent of that in each round, times the segments of the BDP then */
	u64 quiet_high_sent;	/* Quiet rounds: what ACKs with a queue reported */
	u64 quiet_high_lost;	/* Lost of that */
	u64 up_sent;	/* Rounds after those of a probe: what ACKs without a queue reported */
	u64 up_lost;	/* Lost of that */
	u64 low_sent;	/* Of this round, at ACKs without a queue */
	u64 low_lost;	/* Lost of that */
	u64 high_sent;	/* Of this round, at ACKs with a queue */
	u64 high_lost;	/* Lost of that */
	u64 is_up;	/* Whether the flow probed in this round */
	u64 was_up;	/* Whether it did in the round before */
	u64 quiet_rounds;	/* Rounds in a row without a probe that are over */
	u64 round_sent;	/* Of this loss round: what was reported, as delivered or as lost */
	u64 round_lost;	/* Of this loss round: lost */
	u64 round_high;	/* Of this loss round: what ACKs with a queue reported */
	u64 was_full;	/* Whether the loss round before showed a queue at any ACK, or lost more than growth_share allows */
	u64 failures;	/* Times that the tolerance has ended, up to six, less half at each halving of the counts */
	u64 hold_round;	/* round_count until which losses are answered */
	u64 saw_full;	/* Whether a queue has shown since the last probe that the path is full */
	u64 is_app_limited;	/* Whether the application has limited the flow since then */
	u64 blind_probes;	/* Probes since such a queue that ended without one while losses were tolerated */
	u64 shows_full;	/* Whether such a queue has been seen since the tolerance last ended for want of one */
	u64 small_rounds;	/* Rounds in a row that Startup has left out because too little was in flight */
	/* Largest of the smallest RTTs that counted since the counts began, in microseconds; 0 before the first */
	u64 counted_base_us;
};

/* The tunables of the room for a newcomer; reasons and values are in NewcomerParams. Parts of 1 are times 2^16. */
struct newcomer_params {
	u64 is_on;	/* Whether a flow that was alone yields to one that comes later: 1 yes, 0 no, as in the draft */
	u64 alone_us;	/* Time in ProbeBW_CRUISE without a queue after which a flow may have been alone */
	/* The path is empty when the usual RTT is above the minimum RTT by no more than this part of it and a segment */
	u64 empty;
	/* A queue stands when the smallest RTT of a round is above the minimum RTT by more than this part of it */
	u64 queue;
	u64 taken;	/* Somebody else has come when less arrives than the bandwidth alone by more than this part of it */
	u64 keep;	/* The part of the bandwidth alone that is kept */
	/* Whether a flow that has just shown that it is alone on an empty path puts ProbeRTT off: 1 yes, 0 no */
	u64 spares_probe_rtt;
};

/* What is remembered of a connection to make room for a newcomer. */
struct newcomer {
	u64 rounds;	/* Rounds that have begun in this ProbeBW_CRUISE */
	u64 round_us;	/* When the round began, in microseconds */
	u64 round_delivered;	/* delivered when it began */
	u64 is_app_limited;	/* Whether the application limited what it delivered */
	u64 had_queue;	/* Whether one of the ladder's slots in it showed a queue */
	u64 quiet_us;	/* Time in ProbeBW_CRUISE since a round with a queue, in microseconds */
	u64 alone_bw;	/* Bandwidth when the flow was alone last; 0 if it never was */
	/* Whether so little arrived in the last round of this ProbeBW_CRUISE with a queue throughout that somebody else may have come */
	u64 was_taken;
	u64 limit;	/* The largest bandwidth until this ProbeBW_CRUISE is over; 0 for any */
};

/* The tunables for links that vary; reasons and values are in VaryingParams. Factors and parts of 1 are times 2^16. */
struct varying_params {
	u64 is_on;	/* Whether links that vary are looked for: 1 yes, 0 no, as in the draft */
	u64 slot_min_segments;	/* Segments that a slot delivers at least */
	u64 interval_us;	/* Time after which a rate is compared with the one before; it is never less than an RTT */
	/* The link was busy, and its queue long, when the smallest RTT is above the minimum RTT by more than this part of it */
	u64 busy;
	u64 step;	/* The rate has moved when it differs by more than this factor */
	u64 memory_us;	/* Time after the last move for which the link counts as one that varies */
	u64 queue;	/* The queue that is allowed then, as a part of the minimum RTT */
	u64 rounds;	/* Rounds in a row with more queue than that, after which it counts as another's */
	u64 hold_us;	/* Time for which a link does not count as one that varies after that */
};

/* What is remembered of a connection to know a link that varies. */
struct varying {
	u64 is_on;	/* Whether the link varies, so that the window is bounded */
	u64 slot_us;	/* When the slot began, in microseconds */
	u64 slot_delivered;	/* delivered when it began */
	u64 is_app_limited;	/* Whether the application limited what it delivered */
	u64 gap_us;	/* Its longest time without an ACK so far, in microseconds */
	u64 last_us;	/* When the last ACK came, in microseconds */
	u64 bw_0;	/* Rate of the last slot */
	u64 bw_1;	/* Rate of the one before */
	u64 bw_2;	/* Rate of the one before that */
	u64 gap_0_us;	/* Longest time without an ACK in the last slot, in microseconds */
	u64 gap_1_us;	/* That of the one before */
	u64 gap_2_us;	/* That of the one before that */
	u64 interval_us;	/* When the interval began, in microseconds */
	u64 interval_delivered;	/* delivered when it began */
	u64 interval_rtt_us;	/* Its smallest RTT, in microseconds; NO_RTT before its first sample */
	u64 move_bw;	/* Rate of the link at its last move; 0 before it was busy for the first time */
	u64 until_us;	/* Until when the link counts as one that varies, in microseconds */
	u64 queue_rounds;	/* Rounds in a row with more queue than allowed */
	u64 hold_us;	/* Until when the link does not count as one that varies, however its rate moves; in microseconds */
};

/* Tunables; reasons and values are in Bbr3Params. Gains and parts of 1 are times 2^16, times in microseconds. */
struct bbr3_params {
	/* Pacing rate over bandwidth in Startup (§2.5 StartupPacingGain). 4 ln 2 is the least gain that doubles
	 * the rate each round */
	u64 startup_pacing_gain;
	u64 drain_pacing_gain;	/* Pacing rate over bandwidth in Drain (§2.5 DrainPacingGain) */
	u64 down_pacing_gain;	/* Pacing rate over bandwidth in ProbeBW_DOWN (§5.6.1) */
	/* Pacing rate over bandwidth in ProbeBW_CRUISE, ProbeBW_REFILL, ProbeRTT and after an idle period (§5.6.1) */
	u64 cruise_pacing_gain;
	u64 up_pacing_gain;	/* Pacing rate over bandwidth in ProbeBW_UP (§5.6.1) */
	/* Window over BDP in all states but ProbeBW_UP and ProbeRTT (§2.6 DefaultCwndGain) */
	u64 default_cwnd_gain;
	u64 up_cwnd_gain;	/* Window over BDP in ProbeBW_UP (§5.6.1) */
	u64 probe_rtt_cwnd_gain;	/* Window over BDP in ProbeRTT (§2.16.2 ProbeRTTCwndGain) */
	/* How far the pacing rate stays below the estimate, in per cent (§2.5 PacingMarginPercent) */
	u64 pacing_margin_percent;
	/* Part of a volume in flight, in thousandths, above which its loss is too much (§2.8 LossThresh) */
	u64 loss_thresh_permille;
	u64 beta_permille;	/* The part that a reduction keeps, in thousandths (§2.8 Beta) */
	/* What stays free below the long-term bound, in thousandths of it (§2.8 Headroom) */
	u64 headroom_permille;
	u64 min_pipe_cwnd;	/* The smallest window, in segments (§2.8 MinPipeCwnd) */
	/* Rounds over which the largest bunch of ACKs counts (§2.12 ExtraAckedFilterLen) */
	u64 extra_acked_filter_len;
	/* The same before the pipe was full for the first time, in rounds (§5.5.9) */
	u64 startup_extra_acked_filter_len;
	u64 min_rtt_filter_len_us;	/* How long a minimum RTT is believed (§2.16.1 MinRTTFilterLen) */
	/* Time without a lower RTT after which ProbeRTT is due (§2.16.2 ProbeRTTInterval) */
	u64 probe_rtt_interval_us;
	u64 probe_rtt_duration_us;	/* How long ProbeRTT holds its window at least (§2.16.2 ProbeRTTDuration) */
	/* Factor by which the rate must grow from round to round for the pipe not to count as full (§5.3.1.2) */
	u64 full_bw_gain;
	/* Rounds in a row without such growth after which the pipe counts as full (§5.3.1.2) */
	u64 full_bw_count;
	/* Lost ranges in a round that end Startup if the loss is also too much (§5.3.1.3 StartupFullLossCnt) */
	u64 startup_full_loss_count;
	/* Rounds after which Drain ends in any case (§5.3.2), because other flows may keep the queue up */
	u64 drain_rounds;
	u64 bw_probe_wait_us;	/* Shortest wait between two probes (§5.3.3.8) */
	/* Largest random time that is added to that wait (§5.3.3.8), so that flows that share a bottleneck do not
	 * probe together */
	u64 bw_probe_wait_rand_us;
	u64 bw_probe_max_rounds;	/* Most rounds between two probes (§5.3.3.8) */
	/* The count of rounds since the last probe starts at a random number below this (§5.3.3.8), so that flows
	 * that wait by rounds do not probe together either */
	u64 bw_probe_rand_rounds;
	/* How many times a probe may double the speed at which it raises the long-term bound (§5.3.3.9) */
	u64 bw_probe_up_rounds_max;
	/* Segments added to the window in ProbeBW_UP (§5.6.4.2), because a quarter of a very small BDP is less
	 * than a packet */
	u64 up_extra_segments;
	u64 send_quantum_us;	/* How long a burst lasts at the pacing rate (§5.6.3) */
	u64 send_quantum_max_bytes;	/* Largest burst, in bytes (§5.6.3) */
	u64 send_quantum_min_segments;	/* Smallest burst, in segments (§5.6.3) */
	/* Bursts that wait in the offload engines with TCP, where a unit of data is a packet (§5.5.8.1) */
	u64 tcp_offload_quanta;
	u64 quic_offload_quanta;	/* The same with QUIC, where a unit of data is a byte (§5.5.8.2) */
	u64 init_rtt_us;	/* RTT that is assumed for pacing before the first sample (§5.6.2) */
	/* Whether a probe ends when the losses in an ACK's own sample are too many (1), as the draft's text says,
	 * or only when packets marked lost are, as its pseudocode has it (0) */
	u64 is_ack_judged;
	/* Whether CE marks are answered as in Linux BBRv3 where the minimum RTT is short enough (1), or always
	 * count as losses (0) */
	u64 ecn;
	/* Largest minimum RTT at which marks do not count as losses (Linux bbr_ecn_max_rtt_us) */
	u64 ecn_max_rtt_us;
	/* Weight of the newest round in the average of the marked part (Linux bbr_ecn_alpha_gain) */
	u64 ecn_alpha_gain;
	/* First value of the average of the marked part, where 1 is all (Linux bbr_ecn_alpha_init) */
	u64 ecn_alpha_init;
	/* A round with marks cuts the short-term bound by the average of the marked part times this (Linux
	 * bbr_ecn_factor) */
	u64 ecn_factor;
	u64 ecn_thresh;	/* Marked part of a round from which on too much is in flight (Linux bbr_ecn_thresh) */
	/* Rounds in a row above that threshold that end Startup (Linux bbr_full_ecn_cnt) */
	u64 startup_full_ecn_count;
	struct brake_params brake;	/* The brake's parameters */
	struct ladder_params ladder;	/* The ladder's parameters */
	struct loss_model_params loss;	/* The loss model's parameters */
	struct newcomer_params newcomer;	/* The parameters of the room for a newcomer */
	struct varying_params varying;	/* The parameters for links that vary */
};

/* Everything a connection remembers. Bandwidths are times 2^24 units of data per microsecond, gains times 2^16. */
struct bbr3_state {
	u64 state;	/* State of the state machine */
	u64 pacing_gain;	/* Pacing rate over bandwidth in this state (§5.6.1) */
	u64 cwnd_gain;	/* Window over BDP in this state (§5.6.1) */
	u64 init_cwnd;	/* The window when the connection began, in units of data (C.InitialCwnd) */
	/* Whether the pacing rate was computed from a measured RTT; before that init_rtt_us is used */
	u64 has_seen_rtt;
	u64 send_quantum;	/* Largest burst, in units of data (C.send_quantum) */
	u64 round_count;	/* Rounds so far */
	u64 next_round_delivered;	/* delivered at which the round ends */
	u64 round_start;	/* Whether this ACK starts a round */
	/* Smallest RTT of this round so far, in microseconds; NO_RTT before its first sample, and 0 in the very first
	 * round, of which nothing is concluded */
	u64 round_rtt_us;
	u64 last_round_rtt_us;	/* That of the round before, in microseconds */
	/* Largest rate of the probe cycle before this one: the older slot of the filter (§5.5.6) */
	u64 max_bw_0;
	u64 max_bw_1;	/* Largest rate of this probe cycle, the newer slot; 0 before its first sample */
	u64 max_bw;	/* The larger of the two slots: the most that the path was seen to carry */
	u64 bw;	/* Bandwidth in use: max_bw, but no more than bw_shortterm or the brake allow */
	u64 cycle_count;	/* Times the filter was advanced */
	/* Short-term bound of the bandwidth: cut after a round with loss, lifted before the next probe (§5.5.10.3) */
	u64 bw_shortterm;
	/* Short-term bound of the volume in flight, in units; cut and lifted with bw_shortterm, or cut alone by CE
	 * marks (§5.5.10.3) */
	u64 inflight_shortterm;
	/* Long-term bound of the volume in flight, in units: what the path was seen to bear without much loss
	 * (§5.5.10.2) */
	u64 inflight_longterm;
	u64 bw_latest;	/* Largest rate delivered in this loss round */
	u64 inflight_latest;	/* Largest volume that one sample of this loss round delivered, in units */
	u64 loss_round_delivered;	/* delivered at which the loss round ends */
	u64 loss_round_start;	/* Whether this ACK starts a loss round */
	u64 is_loss_in_round;	/* Whether something was lost in this loss round */
	u64 lost_ranges_in_round;	/* Discontiguous ranges lost in this loss round */
	/* Minimum RTT of the model, of the last min_rtt_filter_len_us; NO_RTT before the first sample */
	u64 min_rtt_us;
	u64 min_rtt_stamp;	/* When it was seen, in microseconds */
	u64 probe_rtt_min_delay_us;	/* Minimum RTT since the last ProbeRTT; NO_RTT before the first sample */
	/* When that was seen, or when ProbeRTT ended if that was later, in microseconds */
	u64 probe_rtt_min_stamp;
	u64 probe_rtt_expired;	/* Whether probe_rtt_min_delay_us is due for a refresh */
	/* When ProbeRTT may end, in microseconds; 0 while inflight has not yet come down to ProbeRTT's window */
	u64 probe_rtt_done_stamp;
	u64 probe_rtt_round_done;	/* Whether the flow has spent a round at ProbeRTT's window */
	u64 idle_restart;	/* Whether nothing has been delivered since the flow restarted from idle */
	/* Filter of the largest bunches of ACKs of the last rounds, in units (§5.5.9) */
	struct winmax extra_acked_filter;
	/* Largest bunch in that filter, in units: the window has room for this much beyond the BDP */
	u64 extra_acked;
	/* Start of the interval in which a bunch is measured, in microseconds */
	u64 extra_acked_interval_start;
	u64 extra_acked_delivered;	/* ACKed since the start of the interval, in units */
	u64 full_bw_reached;	/* Whether the pipe was full once: Startup is over for good */
	u64 full_bw_now;	/* Whether the search that runs now has found the pipe full */
	u64 full_bw;	/* Rate against which growth is measured */
	u64 full_bw_count;	/* Rounds in a row in which the rate grew by less than full_bw_gain */
	u64 drain_start_round;	/* round_count when Drain was entered */
	u64 ack_phase;	/* Which part of a probe the present ACKs answer */
	u64 cycle_stamp;	/* When ProbeBW_DOWN was entered, in microseconds */
	u64 bw_probe_wait_us;	/* Time from cycle_stamp until the next probe, in microseconds */
	u64 rounds_since_probe_up;	/* Rounds since the last probe, plus a random start */
	/* How many times this probe has doubled the speed at which it raises inflight_longterm */
	u64 bw_probe_up_rounds;
	u64 bw_probe_up_acked;	/* Data ACKed since inflight_longterm was raised last, in units */
	/* Data that has to be ACKed for inflight_longterm to rise by one segment, in units */
	u64 probe_up_acked_per_inc;
	u64 is_bw_probe_sample;	/* Whether packets that are lost now may have been sent in a probe */
	u64 prev_probe_too_high;	/* Whether the last probe met too much loss */
	u64 prev_probe_precautionary;	/* Whether the last probe was ended early, out of caution */
	u64 prev_ca_state;	/* State of loss recovery at the previous ACK */
	u64 recovery_delivered;	/* delivered when fast recovery was seen to begin; infinite outside of it */
	u64 prior_cwnd;	/* Window to restore after recovery or ProbeRTT, in units */
	u64 is_undo_saved;	/* Whether the state before this recovery is saved */
	/* State that the losses of this recovery made the flow leave; BBR3_NONE if they did not */
	u64 undo_state;
	u64 undo_bw_shortterm;	/* bw_shortterm before this recovery (§5.5.11.1) */
	u64 undo_inflight_shortterm;	/* inflight_shortterm before this recovery */
	u64 undo_inflight_longterm;	/* inflight_longterm before this recovery */
	u64 unbraked_inflight_longterm;	/* inflight_longterm when the brake was put on */
	u64 delivered_ce;	/* CE-marked data delivered up to the previous ACK, in units */
	/* Whether data was CE-marked in this loss round; not set where marks count as losses */
	u64 is_ce_in_round;
	u64 ecn_alpha;	/* Moving average of the marked part of what is delivered, a gain */
	u64 alpha_last_delivered;	/* delivered when ecn_alpha was updated last */
	u64 alpha_last_delivered_ce;	/* delivered_ce when ecn_alpha was updated last */
	u64 startup_ecn_rounds;	/* Rounds of Startup in a row above the threshold of marks */
	struct brake brake;	/* What the brake remembers */
	struct ladder ladder;	/* What the ladder remembers */
	struct loss_model loss;	/* What the loss model remembers */
	struct newcomer newcomer;	/* What is remembered to make room for a newcomer */
	struct varying varying;	/* What is remembered to know a link that varies */
};

/* What every step gets: one event of one connection. */
struct bbr3_conn {
	struct bbr3_state *bbr;	/* the draft's BBR.* */
	const struct bbr3_params *p;	/* the constants of the draft */
	const struct ack *ack;	/* its C.* and RS.* */
	struct control *out;	/* cwnd and pacing_rate are C.cwnd and C.pacing_rate in force */
	u64 delivery_rate;	/* RS.delivery_rate; 0 when there is no valid sample */
};

#include "bbr3/control.h"
#include "bbr3/loss_model.h"
#include "bbr3/model.h"
#include "bbr3/newcomer.h"
#include "bbr3/ladder.h"
#include "bbr3/probe_bw.h"
#include "bbr3/braking.h"
#include "bbr3/startup.h"
#include "bbr3/probe_rtt.h"
#include "bbr3/recovery.h"
#include "bbr3/varying.h"

/*
 * Updates the model, then the state that depends on it (§5.2.3 UpdateModelAndState). The order matters, because each
 * step uses what the steps before it found out.
 */
static __always_inline void bbr3_update_model_and_state(struct bbr3_conn *c)
{
	bbr3_update_latest_delivery_signals(c);
	bbr3_update_congestion_signals(c);
	bbr3_update_ack_aggregation(c);
	bbr3_check_full_bw_reached(c);
	bbr3_check_startup_done(c);
	bbr3_check_drain_done(c);
	bbr3_update_probe_bw_cycle_phase(c);
	bbr3_update_min_rtt(c);
	bbr3_check_probe_rtt(c);
	bbr3_advance_latest_delivery_signals(c);
	bbr3_bound_bw_for_model(c);
}

/* Turns the model into what the transport applies: a rate, a burst and a window (§5.2.3 UpdateControlParameters). */
static __always_inline void bbr3_update_control_parameters(struct bbr3_conn *c)
{
	bbr3_set_pacing_rate(c, bbr3_loss_gain(c, c->bbr->pacing_gain));
	bbr3_set_send_quantum(c);
	bbr3_set_cwnd(c);
}

/*
 * Processes one ACK (§5.2.3 UpdateOnACK). The model learns from it first, then the brake may replace the model's
 * bandwidth, and only then are rate, burst and window computed from the result.
 */
static __always_inline void bbr3_update_on_ack(struct bbr3_conn *c)
{
	if (!c->ack->newly_acked)
		return;
	if (c->ack->rs_interval_us)
		c->delivery_rate = bw_from(c->ack->rs_delivered, c->ack->rs_interval_us);
	bbr3_update_recovery(c);
	bbr3_note_ce(c);
	bbr3_update_model_and_state(c);
	bbr3_update_varying(c);
	bbr3_update_brake(c);
	bbr3_update_control_parameters(c);
	bbr3_bound_cwnd_for_brake(c);
	bbr3_bound_cwnd_for_varying(c);
}

/*
 * Sets the state for a new connection (§5.2.1 OnInit). The draft leaves two points open: here ProbeRTT is due one
 * interval from now, and the first loss round ends only after a whole flight.
 */
static __noinline void bbr3_on_init(struct bbr3_conn *c)
{
	u64 now_us = c->ack->now_us, srtt_us = c->ack->srtt_us;

	/* In parts: more than 1024 bytes at once would be a call of a function, which BPF does not have. */
	__builtin_memset(c->bbr, 0, __builtin_offsetof(struct bbr3_state, brake));
	__builtin_memset(&c->bbr->brake, 0, sizeof(c->bbr->brake));
	__builtin_memset(&c->bbr->ladder, 0, sizeof(c->bbr->ladder));
	__builtin_memset(&c->bbr->loss, 0, sizeof(c->bbr->loss));
	__builtin_memset(&c->bbr->newcomer, 0, sizeof(c->bbr->newcomer));
	__builtin_memset(&c->bbr->varying, 0, sizeof(c->bbr->varying));
	c->bbr->init_cwnd = c->ack->cwnd;
	c->bbr->min_rtt_us = srtt_us ? srtt_us : NO_RTT;
	c->bbr->min_rtt_stamp = now_us;
	c->bbr->probe_rtt_min_delay_us = NO_RTT;
	c->bbr->probe_rtt_min_stamp = now_us;
	c->bbr->extra_acked_interval_start = now_us;
	c->bbr->inflight_longterm = BBR3_INFINITY;
	c->bbr->probe_up_acked_per_inc = BBR3_INFINITY;
	c->bbr->recovery_delivered = BBR3_INFINITY;
	c->bbr->next_round_delivered = c->ack->delivered;
	c->bbr->loss_round_delivered = sat_add(c->ack->delivered, 1);
	c->bbr->delivered_ce = c->ack->delivered_ce;
	c->bbr->ecn_alpha = c->p->ecn_alpha_init;
	c->bbr->alpha_last_delivered = c->ack->delivered;
	c->bbr->alpha_last_delivered_ce = c->ack->delivered_ce;
	bbr3_reset_congestion_signals(c);
	bbr3_reset_short_term_model(c);
	bbr3_reset_full_bw(c);
	bbr3_init_pacing_rate(c);
	bbr3_set_send_quantum(c);
	bbr3_enter_startup(c);
}

/* The fewest segments worth one burst (§5.6.3): the kernel's own burst size is about a millisecond already. */
static __always_inline u64 bbr3_min_tso_segs(const struct bbr3_params *p)
{
	return p->send_quantum_min_segments;
}

/*
 * Processes one event and writes what the transport has to apply into out. It is the only entry; values that no step
 * sets keep what the transport reports.
 */
static __always_inline void bbr3_on_event(struct bbr3_state *bbr, const struct bbr3_params *p,
					  const struct ack *ack, struct control *out)
{
	struct bbr3_conn conn = { bbr, p, ack, out, 0 };
	struct bbr3_conn *c = &conn;

	out->cwnd = ack->cwnd;
	out->pacing_rate = ack->pacing_rate;
	out->mark_app_limited = 0;
	if (ack->event == EVENT_ACK)
		bbr3_update_on_ack(c);
	else if (ack->event == EVENT_LOST)
		bbr3_handle_lost_packet(c);
	else if (ack->event == EVENT_INIT)
		bbr3_on_init(c);
	else if (ack->event == EVENT_TX_START)
		bbr3_handle_restart_from_idle(c);
	else if (ack->event == EVENT_SSTHRESH)
		bbr3_on_enter_fast_recovery(c);
	else if (ack->event == EVENT_LOSS)
		bbr3_on_enter_rto(c);
	else if (ack->event == EVENT_UNDO)
		bbr3_handle_spurious_loss_detection(c);
	out->send_quantum = bbr->send_quantum;
}

#endif
