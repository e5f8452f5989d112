//! The ladder: a probe that climbs while the rate follows, and ends when its own queue shows. None of it is in the draft,
//! and with `ladder` off it changes nothing.
//!
//! **Why.** The draft's probe (ProbeBW_UP) sends a quarter faster until the rate has not grown for three rounds, or until
//! too much is lost. On a path that has no more to give, a quarter of a BDP is added to the queue in each of these rounds,
//! so that a single flow sees a queue of most of a BDP every few seconds. To stop after one round instead would
//! overlook a path that has become faster, because the rate of a single round may not show it.
//!
//! **How.** A probe begins with a gain of 1.05 for two rounds, until the ACKs for what it has sent come. A twentieth more
//! is enough to see a queue begin, and little to queue. Then it goes on with the draft's gain, and with a larger one as
//! soon as the rate has grown by half of what the gain asks for. A path that is already full shows a queue within a round;
//! one that has become faster carries what the probe adds, and no queue appears. Where a probe has lost too much before, the
//! draft's gain stays the largest: a policer lets more through for as long as its bucket lasts, which looks like growth, and
//! what is sent faster than the draft's is lost when the bucket is empty.
//!
//! ```text
//!              2 rounds                  the rate has grown
//!   UP   1.05  ─────────► 1.25 ─────────────────────────► 1.5 ◄┐ once a round, while it grows
//!          │                │                              │ └─┘
//!          └────────────────┴──────────────┬───────────────┘
//!                                          ▼
//!                            DOWN   two slots in a row with a queue, or 3 rounds without growth, or the draft's reasons
//! ```
//!
//! **What counts as a queue.** ACKs are gathered in slots of about a sixteenth of the minimum RTT, of which the smallest RTT
//! counts, because a single late ACK is no queue. The mean of these in ProbeBW_CRUISE is the usual RTT, a queue of other flows
//! included: measured from the minimum RTT instead, the flow would never probe beside others, nor after the path has become
//! longer. An RTT is above the usual one when it is so by more than the path's noise (four mean deviations), more than a
//! 64th of the minimum RTT, and more than the time that a segment takes.
//!
//! **Limits.** Where the RTT varies for other reasons (Wi-Fi, cellular links), the deviations are large and the probe ends as
//! the draft's does. Where other flows keep a queue, or did in the last five seconds, the probe is the draft's in all respects.

use super::control::{bbr3_min_rtt_and, bbr3_segment_us, bbr3_segments};
use super::loss_model::bbr3_note_full_path;
use super::newcomer::{bbr3_note_cruise_queue, bbr3_note_own_queue};
use super::{BBR3_INFINITY, Conn, Mode};
use crate::cc::NO_RTT;
use crate::cc::brake::brake_step;
use crate::cc::fixed::{GAIN_UNIT, USEC_PER_SEC, gain_apply};
use crate::cc::row::row;

row! {
/// The ladder's parameters. Gains and fractions are times [`GAIN_UNIT`].
pub struct LadderParams "ladder_" {
    /// Whether a probe climbs and ends at its own queue: 1 yes, 0 no, which is the draft's probe.
    is_on: bool as ["ladder"],
    /// Pacing rate over bandwidth at the beginning of a probe. It must show a queue where the path has no more, and add little
    /// to it.
    first_gain: u64 = GAIN_UNIT * 21 / 20,
    /// Rounds with that gain. ACKs for what the first has sent come in the second.
    first_rounds: u64 = 2,
    /// Pacing rate over bandwidth once the rate has grown, where no probe has lost too much. A path with much more is reached in
    /// fewer rounds.
    top_gain: u64 = GAIN_UNIT * 3 / 2,
    /// Rounds without growth that end a probe, as in the draft. Where no queue can be seen, they are the only end besides loss.
    flat_rounds: u64 = 3,
    /// Most rounds between two probes that climb. They queue little, so they may come more often than the draft's, and a path
    /// that has become faster is noticed sooner.
    max_rounds: u64 = 16,
    /// The count of these rounds starts at a random number below this, so that flows that share a bottleneck do not probe
    /// together.
    rand_rounds: u64 = 9,
    /// How long a slot of ACKs lasts at least, as a part of the minimum RTT. Longer slots would show a queue later.
    slot: u64 = GAIN_UNIT / 16,
    /// Fewest ACKs of a slot, because one may be late by chance.
    slot_min_acks: u64 = 2,
    /// Segments that a slot delivers at least.
    slot_min_segments: u64 = 4,
    /// Slots in a row with a queue that end a probe. One may be chance.
    slots: u64 = 2,
    /// An RTT counts as a queue when it is above the usual one by more than this part of the minimum RTT.
    rtt: u64 = GAIN_UNIT / 64,
    /// It must also be above it by this many mean deviations. On noisy paths the other margin is reached by chance.
    deviations: u64 = 4,
    /// Other flows keep a queue when the usual RTT is above the minimum RTT by more than this part of it. A probe is then the
    /// draft's: it adds little to their queue, and a flow that stopped at every longer RTT would lose its share to those that do
    /// not.
    shared: u64 = GAIN_UNIT / 4,
    /// They count as being there for this time after that, in microseconds. A flow of CUBIC leaves the queue empty for some
    /// seconds after each of its losses, and what is not asked for meanwhile is CUBIC's.
    shared_us: u64 = 5 * USEC_PER_SEC,
    /// Weight of the newest slot in the averages. A larger weight follows noise, a smaller one a path that has become longer
    /// too slowly.
    memory: u64 = GAIN_UNIT / 32,
}
}

impl LadderParams {
    /// The defaults with the ladder on.
    pub fn on() -> Self {
        Self { is_on: true, ..Self::default() }
    }
}

row! {
/// What the ladder remembers of a connection.
pub struct Ladder "ladder_" {
    /// When the slot began, in microseconds.
    slot_us: u64,
    /// `delivered` when the slot began.
    slot_delivered: u64,
    /// ACKs of the slot so far.
    slot_acks: u64,
    /// Smallest `rs_prior_delivered` among them: `delivered` when the oldest of their packets was sent.
    slot_prior: u64,
    /// Their smallest RTT, in microseconds; [`NO_RTT`] before the first sample.
    slot_rtt_us: u64,
    /// Mean of the slots' smallest RTTs in ProbeBW_CRUISE, in 1024ths of a microsecond; 0 while it is not known.
    usual_rtt: u64,
    /// Their mean deviation from it, in 1024ths of a microsecond.
    usual_rtt_dev: u64,
    /// When it last showed that other flows keep a queue, in microseconds; 0 before the first time.
    shared_stamp_us: u64,
    /// Whether this probe climbs.
    is_climbing: bool,
    /// `delivered` when this probe, or this ProbeBW_CRUISE, began.
    phase_delivered: u64,
    /// Slots in a row with a queue, of packets that this probe has sent.
    queue_slots: u64,
    /// Bandwidth from which on growth is counted: the largest one when the probe began, or when the rate had grown last.
    reference_bw: u64,
    /// `round_count` when the gain was raised last.
    rung_round: u64,
}
}

/// Parts of a microsecond in which the averages are kept: at a weight of 1/32 a step of whole microseconds would never come
/// nearer than 31 of them.
const PARTS: u64 = 1024;

/// Begins a slot with this ACK.
fn ladder_start_slot(c: &mut Conn) {
    let l = &mut c.bbr.ladder;
    l.slot_us = c.ack.now_us;
    l.slot_delivered = c.ack.delivered;
    l.slot_acks = 0;
    l.slot_prior = u64::MAX;
    l.slot_rtt_us = NO_RTT;
}

/// Whether the slot is long enough for its smallest RTT to be none of chance.
fn ladder_is_slot_over(c: &Conn) -> bool {
    let l = &c.bbr.ladder;
    c.ack.now_us.saturating_sub(l.slot_us) >= gain_apply(c.bbr.min_rtt_us, c.p.ladder.slot)
        && l.slot_acks >= c.p.ladder.slot_min_acks
        && c.ack.delivered.saturating_sub(l.slot_delivered) >= bbr3_segments(c, c.p.ladder.slot_min_segments)
}

/// Averages the slot's RTT and how far it is from the mean. The first slot sets the mean.
fn ladder_learn(c: &mut Conn, rtt: u64) {
    let (l, weight) = (&mut c.bbr.ladder, c.p.ladder.memory);
    if l.usual_rtt == 0 {
        l.usual_rtt = rtt;
        return;
    }
    l.usual_rtt_dev = brake_step(l.usual_rtt_dev, rtt.abs_diff(l.usual_rtt), weight);
    l.usual_rtt = brake_step(l.usual_rtt, rtt, weight);
}

/// Whether this RTT, in parts of a microsecond, shows a queue. Before the usual RTT is known none can be seen.
fn ladder_is_queue(c: &Conn, rtt: u64) -> bool {
    let l = &c.bbr.ladder;
    let margin = gain_apply(c.bbr.min_rtt_us, c.p.ladder.rtt).max(bbr3_segment_us(c)).saturating_mul(PARTS);
    let noise = l.usual_rtt_dev.saturating_mul(c.p.ladder.deviations);
    l.usual_rtt != 0 && rtt > l.usual_rtt.saturating_add(margin.max(noise))
}

/// Whether the usual RTT shows a queue that other flows keep.
fn ladder_is_queue_of_others(c: &Conn) -> bool {
    c.bbr.ladder.usual_rtt > bbr3_min_rtt_and(c, c.p.ladder.shared).saturating_mul(PARTS)
}

/// Judges a slot that is over: in ProbeBW_CRUISE it is learned, and in ProbeBW_UP it may have a queue. ACKs for what was sent
/// before say nothing about either: the first round trip of ProbeBW_CRUISE still shows the queue that ProbeBW_DOWN has drained.
fn ladder_judge_slot(c: &mut Conn) {
    let rtt = c.bbr.ladder.slot_rtt_us.saturating_mul(PARTS);
    if c.bbr.ladder.slot_rtt_us == NO_RTT || c.bbr.ladder.slot_prior < c.bbr.ladder.phase_delivered {
        return;
    }
    if c.bbr.state == Mode::ProbeBwCruise {
        if ladder_is_queue(c, rtt) {
            bbr3_note_cruise_queue(c);
        }
        ladder_learn(c, rtt);
        if ladder_is_queue_of_others(c) {
            c.bbr.ladder.shared_stamp_us = c.ack.now_us;
        }
    } else if c.bbr.state == Mode::ProbeBwUp {
        c.bbr.ladder.queue_slots = if ladder_is_queue(c, rtt) { c.bbr.ladder.queue_slots + 1 } else { 0 };
    }
}

/// Gathers this ACK. It is called once an ACK after the pipe was full.
pub(super) fn bbr3_update_ladder(c: &mut Conn) {
    if !c.p.ladder.is_on {
        return;
    }
    let l = &mut c.bbr.ladder;
    l.slot_acks += 1;
    l.slot_prior = l.slot_prior.min(c.ack.rs_prior_delivered);
    l.slot_rtt_us = l.slot_rtt_us.min(c.ack.rs_rtt_us);
    if ladder_is_slot_over(c) {
        ladder_judge_slot(c);
        ladder_start_slot(c);
    }
}

/// Sets the gain of the probe; rounds without growth are counted from here on.
fn ladder_climb(c: &mut Conn, gain: u64) {
    c.bbr.pacing_gain = gain;
    c.bbr.ladder.rung_round = c.bbr.round_count;
}

/// Whether other flows keep a queue at the bottleneck, or did a short time ago. What was a short time ago does not count where
/// losses are tolerated, because the draft's probe would end at a full buffer only, nor on a link that varies, where the queue
/// was the flow's own.
fn ladder_is_shared(c: &Conn) -> bool {
    let stamp_us = c.bbr.ladder.shared_stamp_us;
    let is_recent = stamp_us != 0 && c.ack.now_us.saturating_sub(stamp_us) < c.p.ladder.shared_us;
    (is_recent && c.bbr.loss.share == 0 && !c.bbr.varying.is_on) || ladder_is_queue_of_others(c)
}

/// Whether the wait for the next probe may be shorter than the draft's. After a probe that lost too much it may not, because in
/// a buffer that is too short to show a queue each probe loses packets.
fn ladder_is_wait_ours(c: &Conn) -> bool {
    c.p.ladder.is_on && !c.bbr.prev_probe_too_high
}

/// Most rounds between two probes: fewer than the draft's where probes climb.
pub(super) fn bbr3_max_rounds(c: &Conn) -> u64 {
    let is_cheap = ladder_is_wait_ours(c) && !ladder_is_shared(c);
    if is_cheap { c.p.ladder.max_rounds } else { c.p.bw_probe_max_rounds }
}

/// Below which number the count of rounds between two probes begins.
pub(super) fn bbr3_rand_rounds(c: &Conn) -> u64 {
    if ladder_is_wait_ours(c) { c.p.ladder.rand_rounds } else { c.p.bw_probe_rand_rounds }
}

/// Notes that ProbeBW_CRUISE begins.
pub(super) fn bbr3_note_cruise(c: &mut Conn) {
    if c.p.ladder.is_on {
        c.bbr.ladder.phase_delivered = c.ack.delivered;
    }
}

/// Begins a probe at the foot of the ladder. It comes after the state has set the draft's gain.
pub(super) fn bbr3_start_ladder(c: &mut Conn) {
    c.bbr.ladder.is_climbing = c.p.ladder.is_on && !ladder_is_shared(c);
    if !c.bbr.ladder.is_climbing {
        return;
    }
    c.bbr.ladder.phase_delivered = c.ack.delivered;
    c.bbr.ladder.queue_slots = 0;
    c.bbr.ladder.reference_bw = c.bbr.max_bw;
    ladder_climb(c, c.p.ladder.first_gain);
    ladder_start_slot(c);
}

/// Whether the rate has grown by half of what the gain asks for. All of it is seldom measured: the ACKs of a round mix what
/// was sent before the gain was raised with what was sent after.
fn ladder_has_grown(c: &Conn) -> bool {
    let half = c.bbr.pacing_gain.saturating_sub(GAIN_UNIT) / 2;
    c.bbr.max_bw >= gain_apply(c.bbr.ladder.reference_bw, GAIN_UNIT + half)
}

/// Climbs if it is time to, and says whether the probe is over: it has met its own queue, or the rate has not grown for some
/// rounds. Where the long-term bound holds the flow back (`is_limited`), a rate that does not grow proves nothing.
pub(super) fn bbr3_is_ladder_over(c: &mut Conn, is_limited: bool) -> bool {
    if c.bbr.ladder.queue_slots >= c.p.ladder.slots {
        bbr3_note_own_queue(c, c.bbr.ladder.usual_rtt / PARTS);
        bbr3_note_full_path(c);
        return true;
    }
    let rounds = c.bbr.round_count.saturating_sub(c.bbr.ladder.rung_round);
    if c.bbr.pacing_gain < c.p.up_pacing_gain {
        if rounds >= c.p.ladder.first_rounds {
            ladder_climb(c, c.p.up_pacing_gain);
        }
        return false;
    }
    if rounds > 0 && ladder_has_grown(c) {
        c.bbr.ladder.reference_bw = c.bbr.max_bw;
        let was_free = c.bbr.inflight_longterm == BBR3_INFINITY;
        ladder_climb(c, if was_free { c.p.ladder.top_gain } else { c.p.up_pacing_gain });
        return false;
    }
    if is_limited {
        c.bbr.ladder.rung_round = c.bbr.round_count;
        return false;
    }
    rounds >= c.p.ladder.flat_rounds
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MSS, with};
    use super::super::{Bbr3Params, Bbr3State, LossModelParams, NewcomerParams};
    use super::*;
    use crate::cc::fixed::BW_UNIT;
    use crate::cc::{Ack, Control};

    const RTT_US: u64 = 40_000;

    /// Calls `f` with a flow of 5 bytes/us (40 Mbit/s) in ProbeBW_UP, whose usual RTT is its minimum RTT of 40 ms.
    fn probing<R>(f: impl FnOnce(&mut Conn) -> R) -> R {
        with(|c| {
            let p = Bbr3Params { ladder: LadderParams::on(), ..Bbr3Params::default() };
            (c.bbr.max_bw, c.bbr.min_rtt_us, c.bbr.round_count) = (5 * BW_UNIT, RTT_US, 7);
            c.bbr.ladder.usual_rtt = RTT_US * PARTS;
            let mut c = Conn { bbr: c.bbr, p: &p, ack: c.ack, out: c.out, delivery_rate: 0 };
            c.bbr.state = Mode::ProbeBwUp;
            bbr3_start_ladder(&mut c);
            f(&mut c)
        })
    }

    /// Hands over ACKs of three segments each, a millisecond apart, of packets sent in the probe.
    fn acks(c: &mut Conn, rtts_us: &[u64]) {
        let from = *c.ack;
        for (i, rtt_us) in (1..).zip(rtts_us) {
            let ack = Ack {
                now_us: from.now_us + i * 1_000,
                delivered: from.delivered + i * 3 * MSS,
                rs_prior_delivered: from.delivered,
                rs_rtt_us: *rtt_us,
                ..from
            };
            bbr3_update_ladder(&mut Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 });
        }
    }

    /// A sixteenth of 40 ms are 2.5 ms, so every third ACK ends a slot. A 64th are 625 us.
    #[test]
    fn two_slots_with_a_queue_in_a_row_end_a_probe() {
        let over = |rtts: &[u64]| {
            probing(|c| {
                acks(c, rtts);
                bbr3_is_ladder_over(c, false)
            })
        };
        assert!(over(&[40_626; 6]));
        assert!(!over(&[40_625; 6]), "no more than the margin");
        assert!(!over(&[40_626; 5]), "one slot, and a part of another");
        assert!(!over(&[40_626, 40_626, 40_626, 40_626, 40_000, 40_626]), "the smallest of a slot counts");
        let between = [[40_626; 3], [40_000; 3], [40_626; 3]].concat();
        assert!(!over(&between), "not in a row");
    }

    /// A queue in ProbeBW_CRUISE is somebody else's. One that ends a probe shows that the flow is alone, if none came before.
    #[test]
    fn the_room_for_a_newcomer_is_told_of_queues() {
        let had_queue = |rtt_us: u64, newcomer: NewcomerParams| {
            probing(|c| {
                let p = Bbr3Params { newcomer, ..*c.p };
                let c = &mut Conn { bbr: c.bbr, p: &p, ack: c.ack, out: c.out, delivery_rate: 0 };
                c.bbr.state = Mode::ProbeBwCruise;
                acks(c, &[rtt_us; 3]);
                c.bbr.newcomer.had_queue
            })
        };
        assert!(had_queue(40_626, NewcomerParams::on()) && !had_queue(40_625, NewcomerParams::on()));
        assert!(!had_queue(40_626, NewcomerParams::default()), "nobody asks");
        let alone_bw = |rtt_us: u64| {
            probing(|c| {
                let p = Bbr3Params { newcomer: NewcomerParams::on(), ..*c.p };
                let mut c = Conn { bbr: c.bbr, p: &p, ack: c.ack, out: c.out, delivery_rate: 0 };
                c.bbr.newcomer.quiet_us = 1_000_000;
                acks(&mut c, &[rtt_us; 6]);
                bbr3_is_ladder_over(&mut c, false);
                c.bbr.newcomer.alone_bw
            })
        };
        assert_eq!((alone_bw(40_626), alone_bw(40_625)), (5 * BW_UNIT, 0));
    }

    #[test]
    fn the_loss_model_is_told_that_a_probe_has_filled_the_path() {
        let shows_full = |rtt_us: u64| {
            probing(|c| {
                let p = Bbr3Params { loss: LossModelParams::on(), ..*c.p };
                let mut c = Conn { bbr: c.bbr, p: &p, ack: c.ack, out: c.out, delivery_rate: 0 };
                acks(&mut c, &[rtt_us; 6]);
                bbr3_is_ladder_over(&mut c, false);
                c.bbr.loss.shows_full
            })
        };
        assert!(shows_full(40_626) && !shows_full(40_625));
    }

    #[test]
    fn what_was_sent_before_the_probe_is_no_queue_of_its_own() {
        probing(|c| {
            c.bbr.ladder.phase_delivered += 1;
            acks(c, &[60_000; 9]);
            assert_eq!(c.bbr.ladder.queue_slots, 0);
        });
        probing(|c| {
            acks(c, &[60_000; 9]);
            assert_eq!(c.bbr.ladder.queue_slots, 3);
        });
    }

    /// At 0.3 bytes/us a segment of 1200 bytes takes 4 ms; deviations of 500 us make a margin of 2 ms.
    #[test]
    fn the_largest_margin_counts() {
        probing(|c| {
            assert!(ladder_is_queue(c, 40_626 * PARTS) && !ladder_is_queue(c, 40_625 * PARTS));
            c.bbr.ladder.usual_rtt_dev = 500 * PARTS;
            assert!(ladder_is_queue(c, 42_001 * PARTS) && !ladder_is_queue(c, 42_000 * PARTS));
            c.bbr.max_bw = BW_UNIT * 3 / 10;
            assert!(ladder_is_queue(c, 44_001 * PARTS) && !ladder_is_queue(c, 44_000 * PARTS));
            c.bbr.ladder.usual_rtt = 0;
            assert!(!ladder_is_queue(c, 90_000 * PARTS), "nothing is known to compare with");
        });
    }

    #[test]
    fn only_cruise_is_learned_and_with_a_weight_of_a_32nd() {
        probing(|c| {
            acks(c, &[72_000; 3]);
            assert_eq!(c.bbr.ladder.usual_rtt, RTT_US * PARTS);
        });
        probing(|c| {
            c.bbr.state = Mode::ProbeBwCruise;
            acks(c, &[72_000; 3]);
            assert_eq!((c.bbr.ladder.usual_rtt, c.bbr.ladder.usual_rtt_dev), (41_000 * PARTS, 1_000 * PARTS));
        });
        probing(|c| {
            c.bbr.state = Mode::ProbeBwCruise;
            let ack = Ack { delivered: c.ack.delivered + 1, ..*c.ack };
            bbr3_note_cruise(&mut Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 });
            acks(c, &[72_000; 3]);
            assert_eq!(c.bbr.ladder.usual_rtt, RTT_US * PARTS, "sent before");
        });
    }

    /// 1.05 for two rounds, then 1.25, then 1.5 once the rate has grown by an eighth, and no further climb in the same round.
    #[test]
    fn a_probe_climbs_while_the_rate_follows() {
        probing(|c| {
            assert_eq!(c.bbr.pacing_gain, GAIN_UNIT * 21 / 20);
            let round = |c: &mut Conn, bw_64ths: u64| {
                c.bbr.round_count += 1;
                c.bbr.max_bw = bw_64ths * BW_UNIT / 64 * 5;
                let is_over = bbr3_is_ladder_over(c, false);
                (c.bbr.pacing_gain * 16 / GAIN_UNIT, is_over)
            };
            assert_eq!(round(c, 64), (16, false), "1.05 is 16.8 of them");
            assert_eq!(round(c, 68), (20, false));
            assert_eq!(round(c, 71), (20, false), "less than an eighth more than when the probe began");
            assert_eq!(round(c, 72), (24, false));
            c.bbr.max_bw *= 2;
            assert!(!bbr3_is_ladder_over(c, false));
            assert_eq!(c.bbr.ladder.reference_bw, 72 * BW_UNIT / 64 * 5, "one climb a round");
            assert_eq!(round(c, 89), (24, false), "less than a quarter more than 72");
            assert_eq!(round(c, 90), (24, false));
            // Three rounds without growth.
            assert_eq!([round(c, 100), round(c, 100), round(c, 100)], [(24, false), (24, false), (24, true)]);
        });
    }

    /// The rate has grown by a quarter after the two first rounds, and by a quarter again.
    #[test]
    fn where_a_probe_has_lost_too_much_the_draft_s_gain_is_the_largest() {
        let gain = |inflight_longterm: u64| {
            probing(|c| {
                c.bbr.inflight_longterm = inflight_longterm;
                c.bbr.round_count += 2;
                bbr3_is_ladder_over(c, false);
                c.bbr.round_count += 1;
                c.bbr.max_bw = c.bbr.max_bw * 5 / 4;
                assert!(!bbr3_is_ladder_over(c, false));
                assert_eq!(c.bbr.ladder.rung_round, c.bbr.round_count, "growth is counted from here on");
                c.bbr.pacing_gain * 4 / GAIN_UNIT
            })
        };
        assert_eq!((gain(BBR3_INFINITY), gain(200_000)), (6, 5));
    }

    #[test]
    fn a_bound_that_holds_the_flow_back_stops_the_count_of_flat_rounds() {
        probing(|c| {
            c.bbr.round_count += 2;
            assert!(!bbr3_is_ladder_over(c, false));
            for _ in 0..9 {
                c.bbr.round_count += 1;
                assert!(!bbr3_is_ladder_over(c, true));
            }
            c.bbr.round_count += 2;
            assert!(!bbr3_is_ladder_over(c, false));
            c.bbr.round_count += 1;
            assert!(bbr3_is_ladder_over(c, false));
        });
    }

    /// A usual RTT of more than 50 ms over a minimum of 40 is the queue of others.
    #[test]
    fn beside_others_the_probe_and_its_wait_are_the_drafts() {
        probing(|c| {
            c.bbr.ladder.usual_rtt = 50_000 * PARTS;
            assert_eq!((bbr3_max_rounds(c), bbr3_rand_rounds(c)), (16, 9));
            c.bbr.prev_probe_too_high = true;
            assert_eq!((bbr3_max_rounds(c), bbr3_rand_rounds(c)), (63, 2), "the last probe lost too much");
            c.bbr.prev_probe_too_high = false;
            c.bbr.ladder.usual_rtt += 1;
            assert_eq!((bbr3_max_rounds(c), bbr3_rand_rounds(c)), (63, 9));
            c.bbr.pacing_gain = GAIN_UNIT * 5 / 4;
            bbr3_start_ladder(c);
            assert_eq!((c.bbr.ladder.is_climbing, c.bbr.pacing_gain), (false, GAIN_UNIT * 5 / 4));
        });
    }

    /// A usual RTT of more than 50 ms in ProbeBW_CRUISE counts for five seconds.
    #[test]
    fn others_count_as_being_there_for_five_seconds() {
        let shared_with = |share: u64, varies: bool, rtt_us: u64, after_us: u64| {
            probing(|c| {
                c.bbr.state = Mode::ProbeBwCruise;
                c.bbr.ladder.usual_rtt = 50_000 * PARTS;
                acks(c, &[rtt_us; 3]);
                let stamp_us = c.bbr.ladder.shared_stamp_us;
                (c.bbr.ladder.usual_rtt, c.bbr.loss.share) = (RTT_US * PARTS, share);
                c.bbr.varying.is_on = varies;
                let ack = Ack { now_us: c.ack.now_us + 3_000 + after_us, ..*c.ack };
                let c = Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 };
                (stamp_us != 0, ladder_is_shared(&c))
            })
        };
        let shared = |rtt_us: u64, after_us: u64| shared_with(0, false, rtt_us, after_us);
        assert_eq!(shared(50_000, 0), (false, false));
        assert_eq!(shared(50_033, 4_999_999), (true, true));
        assert_eq!(shared(50_033, 5_000_000), (true, false));
        assert_eq!(shared_with(1, false, 50_033, 4_999_999), (true, false), "losses are tolerated");
        assert_eq!(shared_with(0, true, 50_033, 4_999_999), (true, false), "the link varies");
    }

    /// A slot lasts a 16th of 40 ms, has two ACKs and delivers four segments; one without an RTT teaches nothing.
    #[test]
    fn a_slot_is_over_after_some_time_acks_and_segments() {
        let is_over = |span_us: u64, acks: u64, segments: u64| {
            probing(|c| {
                c.bbr.ladder.slot_acks = acks;
                let (now_us, delivered) = (c.ack.now_us + span_us, c.ack.delivered + segments * MSS);
                let ack = Ack { now_us, delivered, ..*c.ack };
                ladder_is_slot_over(&Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 })
            })
        };
        assert!(is_over(2_500, 2, 4));
        assert!(!is_over(2_499, 2, 4) && !is_over(2_500, 1, 4) && !is_over(2_500, 2, 3));
        let usual_us = |rtt_us: u64| {
            probing(|c| {
                c.bbr.state = Mode::ProbeBwCruise;
                (c.bbr.ladder.slot_rtt_us, c.bbr.ladder.slot_prior) = (rtt_us, c.bbr.ladder.phase_delivered);
                ladder_judge_slot(c);
                c.bbr.ladder.usual_rtt / PARTS
            })
        };
        assert_eq!((usual_us(72_000), usual_us(NO_RTT)), (41_000, RTT_US));
    }

    #[test]
    fn switched_off_it_remembers_nothing() {
        let (mut bbr, mut out) = (Bbr3State::default(), Control::default());
        let (ack, p) = (Ack { delivered: 9, ..Ack::default() }, Bbr3Params::default());
        let c = &mut Conn { bbr: &mut bbr, p: &p, ack: &ack, out: &mut out, delivery_rate: 0 };
        bbr3_update_ladder(c);
        bbr3_start_ladder(c);
        bbr3_note_cruise(c);
        assert_eq!((bbr3_max_rounds(c), bbr3_rand_rounds(c)), (63, 2));
        assert_eq!(bbr.ladder, Ladder::default());
    }
}
