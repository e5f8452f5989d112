//! Room for a newcomer: a flow that had the path to itself gives half of it to one that comes later. None of it is in the
//! draft, and with `newcomer` off it changes nothing.
//!
//! **Why.** Two flows of a BBR keep a queue that never goes. Each has measured its bandwidth in its own probe, while the other
//! yielded, so the sum of both is more than the path carries. In that queue each gets what it asks for in proportion, so
//! nothing moves a flow that has three quarters and one that has a quarter towards each other: a newcomer waits for tens
//! of seconds.
//!
//! **How.** If there was a queue all the time in two rounds of ProbeBW_CRUISE, and much less arrived than the bandwidth that the flow
//! had *alone*, somebody else has come. The flow then comes down to a bit more than half of that bandwidth until it probes again. It
//! never does so if it was not alone, so that the newcomer keeps what it finds. Without the memory of having been alone both would
//! yield, and to anybody: a flow that yields to each queue has lost its share beside CUBIC, and beside a BBR that does not yield.
//!
//! ```text
//!   alone_bw = max_bw     when a probe of the ladder meets its queue at its first gain, the path was empty before, and
//!                         ProbeBW_CRUISE was without a growing queue for a second
//!
//!   after a round of ProbeBW_CRUISE with a queue throughout, until the next probe:
//!   max_bw  <= what arrived       if at least 13/16 of alone_bw arrived
//!   max_bw  <= 0.55 alone_bw      if less arrived, and in the last such round, too
//! ```
//!
//! Where only a bit less arrives, the path may have become slower by less than the brake notices, and the queue goes when the flow
//! takes for its bandwidth what arrives. To do so in every case was the first form: it left the newcomer to its probes, each of
//! which takes a little, and took up to twice as long.
//!
//! **What counts as a queue.** That others are there is seen by the ladder's slots, which notice small queues; that
//! a queue stands is seen by the smallest RTT of a round, which must be a quarter above the minimum RTT. The first round of each
//! ProbeBW_CRUISE counts for neither, because its ACKs answer what was sent before.
//!
//! **Why the first gain.** It adds a twentieth of the flow's own rate. If its share of the path is small, that fits into what the others
//! leave unused and makes no queue. So a queue at the first gain means that the share is large. Two flows of which both take themselves to be alone share as they
//! happen to for minutes, because no queue is left that would move them.
//!
//! **ProbeRTT.** A flow that has just shown that it is alone has seen the path empty, and ProbeRTT, which halves what is in flight to see
//! that, would cost 2 to 9 % of its goodput for nothing. So each such probe puts ProbeRTT off. Where the flow is not alone, or the path has
//! become longer, no probe shows it, and ProbeRTT comes as in the draft.
//!
//! **Limits.** Who begins together with another, or after it, was never alone and does not yield. Neither does a flow in a
//! buffer that is too short for a queue of a quarter of the minimum RTT, or one whose minimum RTT contains the queue of
//! the others, until ProbeRTT has shown the path. The first of many flows yields a half only. Where the brake holds a flow
//! back, or the application does, nothing is learned.

use super::control::{bbr3_min_rtt_and, bbr3_segment_us};
use super::{Conn, Mode};
use crate::cc::NO_RTT;
use crate::cc::brake::BrakeMode;
use crate::cc::fixed::{GAIN_UNIT, USEC_PER_SEC, bw_from, gain_apply};
use crate::cc::row::row;

row! {
/// The parameters of the room for a newcomer. Fractions are times [`GAIN_UNIT`].
pub struct NewcomerParams "newcomer_" {
    /// Whether a flow that was alone yields to one that comes later: 1 yes, 0 no, as in the draft.
    is_on: bool as ["newcomer"],
    /// Time in ProbeBW_CRUISE without a queue after which a flow may have been alone. Other flows probe, or fill the
    /// buffer, every few seconds, and most of the time a bit of their queue can be seen.
    alone_us: u64 = USEC_PER_SEC,
    /// The path is empty when the usual RTT is above the minimum RTT by no more than this part of it and a segment. Flows that
    /// share a path without a queue that grows often leave one that stays.
    empty: u64 = GAIN_UNIT / 32,
    /// A queue stands when the smallest RTT of a round is above the minimum RTT by more than this part of it. Small
    /// queues come and go where flows share a path as they should.
    queue: u64 = GAIN_UNIT / 4,
    /// Somebody else has come when less arrives than the bandwidth alone by more than this part of it. The brake answers a path that
    /// becomes slower by so much.
    taken: u64 = GAIN_UNIT * 3 / 16,
    /// The part of the bandwidth alone that is kept. It is more than a half because the probes of the newcomer take some of it.
    keep: u64 = GAIN_UNIT * 11 / 20,
    /// Whether a flow that has just shown that it is alone on an empty path puts ProbeRTT off: 1 yes, 0 no.
    spares_probe_rtt: bool = true,
}
}

impl NewcomerParams {
    /// The defaults with the room for a newcomer on.
    pub fn on() -> Self {
        Self { is_on: true, ..Self::default() }
    }
}

row! {
/// What is remembered of a connection to make room for a newcomer.
pub struct Newcomer "newcomer_" {
    /// Rounds that have begun in this ProbeBW_CRUISE.
    rounds: u64,
    /// When the round began, in microseconds.
    round_us: u64,
    /// `delivered` when it began.
    round_delivered: u64,
    /// Whether the application limited what it delivered.
    is_app_limited: bool,
    /// Whether one of the ladder's slots in it showed a queue.
    had_queue: bool,
    /// Time in ProbeBW_CRUISE since a round with a queue, in microseconds.
    quiet_us: u64,
    /// Bandwidth when the flow was alone last; 0 if it never was.
    alone_bw: u64,
    /// Whether so little arrived in the last round of this ProbeBW_CRUISE with a queue throughout that somebody else may have come.
    was_taken: bool,
    /// The largest bandwidth until this ProbeBW_CRUISE is over; 0 for any.
    limit: u64,
}
}

/// Begins a round with this ACK.
fn newcomer_start_round(c: &mut Conn) {
    let n = &mut c.bbr.newcomer;
    n.rounds += 1;
    n.round_us = c.ack.now_us;
    n.round_delivered = c.ack.delivered;
    n.is_app_limited = false;
    n.had_queue = false;
}

/// Whether this RTT shows that a queue stands.
fn newcomer_is_queue(c: &Conn, rtt_us: u64) -> bool {
    rtt_us != NO_RTT && rtt_us > bbr3_min_rtt_and(c, c.p.newcomer.queue)
}

/// Whether this RTT is that of an empty path.
fn newcomer_is_empty(c: &Conn, rtt_us: u64) -> bool {
    rtt_us <= bbr3_min_rtt_and(c, c.p.newcomer.empty).saturating_add(bbr3_segment_us(c))
}

/// Whether the round that is over had a queue. One of the ladder's slots is enough to show it. But where losses are tolerated the
/// flow makes small queues itself, since it sends on top what the path loses, so that the path must not have been empty at any time.
fn newcomer_had_queue(c: &Conn) -> bool {
    c.bbr.newcomer.had_queue && (c.bbr.loss.share == 0 || !newcomer_is_empty(c, c.bbr.last_round_rtt_us))
}

/// After a round with a queue throughout: comes down to its part of the bandwidth alone if somebody else has come, and to what
/// arrives if a bit less does. One round of few arrivals may be that in which the path became longer, so it takes two. If the path
/// has shown more than the bandwidth alone since, the path has more, and the part is one of that.
fn newcomer_yield(c: &mut Conn, span_us: u64) {
    let n = &mut c.bbr.newcomer;
    n.alone_bw = n.alone_bw.max(c.bbr.max_bw);
    let arrived = bw_from(c.ack.delivered.saturating_sub(n.round_delivered), span_us);
    let is_taken = arrived < gain_apply(n.alone_bw, GAIN_UNIT.saturating_sub(c.p.newcomer.taken));
    if !is_taken {
        n.limit = arrived;
    } else if n.was_taken {
        n.limit = gain_apply(n.alone_bw, c.p.newcomer.keep);
    }
    n.was_taken = is_taken;
}

/// Keeps the bandwidth within the limit. What is in flight when the limit is set still arrives faster, and would raise it again.
fn newcomer_bound(c: &mut Conn) {
    let limit = c.bbr.newcomer.limit;
    if limit != 0 {
        c.bbr.max_bw_0 = c.bbr.max_bw_0.min(limit);
        c.bbr.max_bw_1 = c.bbr.max_bw_1.min(limit);
        c.bbr.max_bw = c.bbr.max_bw.min(limit);
    }
}

/// Judges a round that is over: it was quiet, or a queue stood in it.
fn newcomer_judge_round(c: &mut Conn) {
    let n = &c.bbr.newcomer;
    if n.rounds < 2 {
        return;
    }
    let span_us = c.ack.now_us.saturating_sub(n.round_us);
    let (was_alone, is_app_limited) = (n.alone_bw != 0, n.is_app_limited);
    if newcomer_had_queue(c) {
        c.bbr.newcomer.quiet_us = 0;
    } else if !is_app_limited {
        c.bbr.newcomer.quiet_us = c.bbr.newcomer.quiet_us.saturating_add(span_us);
    }
    let is_steady = c.bbr.brake.mode == BrakeMode::Watch && !is_app_limited;
    if was_alone && is_steady && newcomer_is_queue(c, c.bbr.last_round_rtt_us) {
        newcomer_yield(c, span_us);
    }
}

/// Gathers this ACK. It is called once an ACK after the pipe was full.
pub(super) fn bbr3_make_room(c: &mut Conn) {
    if !c.p.newcomer.is_on {
        return;
    }
    if c.bbr.state != Mode::ProbeBwCruise {
        (c.bbr.newcomer.rounds, c.bbr.newcomer.was_taken, c.bbr.newcomer.limit) = (0, false, 0);
        return;
    }
    if c.bbr.round_start {
        newcomer_judge_round(c);
        newcomer_start_round(c);
    }
    c.bbr.newcomer.is_app_limited |= c.ack.rs_is_app_limited;
    newcomer_bound(c);
}

/// Notes that the flow begins again after a pause: time in which nothing was sent is no time without a queue, and no round.
pub(super) fn bbr3_note_restart(c: &mut Conn) {
    (c.bbr.newcomer.rounds, c.bbr.newcomer.was_taken) = (0, false);
}

/// Notes that one of the ladder's slots in ProbeBW_CRUISE showed a queue.
pub(super) fn bbr3_note_cruise_queue(c: &mut Conn) {
    c.bbr.newcomer.had_queue = c.p.newcomer.is_on;
}

/// Notes that a probe has ended at its own queue. If there is no other and there has been none, and the first gain of the ladder
/// was enough to make it, the flow is alone, its bandwidth is the path's, and its usual RTT is that of the empty path.
pub(super) fn bbr3_note_own_queue(c: &mut Conn, usual_rtt_us: u64) {
    let is_empty = newcomer_is_empty(c, usual_rtt_us);
    let is_first_gain = c.bbr.pacing_gain < c.p.up_pacing_gain;
    let is_quiet = c.bbr.newcomer.quiet_us >= c.p.newcomer.alone_us;
    if c.p.newcomer.is_on && is_first_gain && is_empty && is_quiet {
        c.bbr.newcomer.alone_bw = c.bbr.max_bw;
        if c.p.newcomer.spares_probe_rtt {
            c.bbr.probe_rtt_min_stamp = c.ack.now_us;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bbr3Params;
    use super::super::recovery::bbr3_handle_restart_from_idle;
    use super::super::tests::{MSS, with};
    use super::*;
    use crate::cc::Ack;
    use crate::cc::fixed::BW_UNIT;

    const RTT_US: u64 = 40_000;
    /// Bytes that arrive in a round at 5 bytes/us (40 Mbit/s).
    const BDP: u64 = 5 * RTT_US;

    /// Calls `f` with a flow of 40 Mbit/s in ProbeBW_CRUISE, with a minimum RTT of 40 ms.
    fn cruising<R>(f: impl FnOnce(&mut Conn) -> R) -> R {
        with(|c| {
            let p = Bbr3Params { newcomer: NewcomerParams::on(), ..Bbr3Params::default() };
            (c.bbr.max_bw_0, c.bbr.max_bw_1, c.bbr.max_bw) = (5 * BW_UNIT, 4 * BW_UNIT, 5 * BW_UNIT);
            (c.bbr.min_rtt_us, c.bbr.state) = (RTT_US, Mode::ProbeBwCruise);
            f(&mut Conn { bbr: c.bbr, p: &p, ack: c.ack, out: c.out, delivery_rate: 0 })
        })
    }

    /// Rounds that deliver `bytes` each in 40 ms: an ACK that begins the round, and one in the middle with the shortest RTT.
    fn rounds(c: &mut Conn, from: &mut Ack, bytes: &[u64], rtt_us: u64) {
        for bytes in bytes {
            for (part, rtt_us) in [(1, rtt_us + 9_000), (0, rtt_us)] {
                let ack = Ack { rs_rtt_us: rtt_us, ..*from };
                c.bbr.round_start = part == 1;
                if part == 1 {
                    c.bbr.last_round_rtt_us = c.bbr.round_rtt_us;
                    c.bbr.round_rtt_us = NO_RTT;
                }
                c.bbr.round_rtt_us = c.bbr.round_rtt_us.min(rtt_us);
                bbr3_make_room(&mut Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 });
                from.now_us += RTT_US / 2;
                from.delivered += bytes / 2;
            }
        }
    }

    fn ack() -> Ack {
        Ack { now_us: 1_000_000, delivered: 100 * MSS, smss: MSS, unit_bytes: 1, ..Ack::default() }
    }

    /// The bandwidth that a flow keeps of 5 bytes/us: 36,044 of 65,536, which is 0.55 rounded down.
    const KEPT: u64 = 5 * BW_UNIT / 65_536 * 36_044;

    /// The round that a call judges is the one before; the first is never judged. An RTT of 50 ms is no queue yet, and 13/16 of the
    /// bandwidth alone may be what a slower path has.
    #[test]
    fn a_flow_that_was_alone_yields_to_a_queue_that_stands() {
        let bw = |alone: u64, bytes: &[u64], rtt_us: u64| {
            cruising(|c| {
                c.bbr.newcomer.alone_bw = alone * BW_UNIT;
                rounds(c, &mut ack(), bytes, rtt_us);
                (c.bbr.max_bw_0, c.bbr.max_bw_1, c.bbr.max_bw)
            })
        };
        let as_before = (5 * BW_UNIT, 4 * BW_UNIT, 5 * BW_UNIT);
        let (three, slower, halved) = (BDP * 3 / 5, BDP * 13 / 16, (KEPT, KEPT, KEPT));
        let arrived = 5 * BW_UNIT / 16 * 13;
        assert_eq!(bw(5, &[three, three, three, 0], 50_001), halved);
        assert_eq!(bw(5, &[three, three, 0], 50_001), as_before, "one round may be that of a longer path");
        assert_eq!(bw(5, &[three, three, BDP, three, 0], 50_001), as_before, "not in a row");
        assert_eq!(bw(5, &[three, three, three, 0], 50_000), as_before, "no more than the margin");
        assert_eq!(bw(0, &[three, three, three, 0], 50_001), as_before, "never alone");
        assert_eq!(bw(5, &[three, slower, 0], 50_001), (arrived, 4 * BW_UNIT, arrived), "slower");
        assert_eq!(bw(5, &[three, slower - 2, slower - 2, 0], 50_001), halved);
        assert_eq!(bw(3, &[three, three, three, 0], 50_001), halved, "alone it has more than it knew");
    }

    /// What was in flight before still arrives at the old rate and raises the bandwidth, as the next probe does.
    #[test]
    fn what_it_has_given_away_it_does_not_take_back_before_it_probes() {
        cruising(|c| {
            c.bbr.newcomer.alone_bw = 5 * BW_UNIT;
            let mut from = ack();
            rounds(c, &mut from, &[BDP * 3 / 5; 4], 60_000);
            (c.bbr.max_bw_0, c.bbr.max_bw) = (4 * BW_UNIT, 4 * BW_UNIT);
            rounds(c, &mut from, &[BDP], 40_000);
            assert_eq!((c.bbr.max_bw_0, c.bbr.max_bw), (KEPT, KEPT));
            c.bbr.state = Mode::ProbeBwUp;
            (c.bbr.max_bw_0, c.bbr.max_bw) = (4 * BW_UNIT, 4 * BW_UNIT);
            rounds(c, &mut from, &[BDP], 40_000);
            c.bbr.state = Mode::ProbeBwCruise;
            rounds(c, &mut from, &[BDP; 3], 40_000);
            assert_eq!((c.bbr.max_bw_0, c.bbr.max_bw), (4 * BW_UNIT, 4 * BW_UNIT));
        });
    }

    #[test]
    fn it_does_not_yield_while_something_else_holds_it_back() {
        for what in ["nothing", "the brake", "the application", "no RTT"] {
            let bw = cruising(|c| {
                c.bbr.newcomer.alone_bw = 5 * BW_UNIT;
                let mut from = Ack { rs_is_app_limited: what == "the application", ..ack() };
                if what == "the brake" {
                    c.bbr.brake.mode = BrakeMode::Hold;
                }
                let rtt_us = if what == "no RTT" { NO_RTT } else { 60_000 };
                rounds(c, &mut from, &[BDP * 3 / 5; 4], rtt_us);
                c.bbr.max_bw
            });
            assert_eq!(bw == KEPT, what == "nothing", "{what}");
        }
    }

    /// A second is 25 rounds: with the one that is not judged, 26 must be over, and another begin. The path is empty up to 1.25 ms
    /// above the minimum RTT and the 289 us that a segment takes.
    #[test]
    fn a_flow_is_alone_after_a_second_without_a_queue() {
        let alone = |before: usize, queue: bool, after: usize, usual_us: u64| {
            cruising(|c| {
                let mut from = ack();
                rounds(c, &mut from, &vec![BDP; before], RTT_US);
                if queue {
                    bbr3_note_cruise_queue(c);
                }
                rounds(c, &mut from, &vec![BDP; after], RTT_US);
                (c.bbr.state, c.bbr.pacing_gain) = (Mode::ProbeBwUp, c.p.up_pacing_gain);
                bbr3_note_own_queue(c, usual_us);
                assert_eq!(c.bbr.newcomer.alone_bw, 0, "not at its first gain");
                c.bbr.pacing_gain = c.p.up_pacing_gain - 1;
                bbr3_note_own_queue(c, usual_us);
                c.bbr.newcomer.alone_bw
            })
        };
        assert_eq!(alone(27, false, 0, 40_000), 5 * BW_UNIT);
        assert_eq!(alone(26, false, 0, 40_000), 0, "too short");
        let segment_us = MSS / 5;
        assert_eq!(alone(27, false, 0, 41_250 + segment_us), 5 * BW_UNIT);
        assert_eq!(alone(27, false, 0, 41_251 + segment_us), 0, "somebody's queue is there");
        assert_eq!(alone(8, true, 25, 40_000), 0, "one round with a queue");
        assert_eq!(alone(8, true, 26, 40_000), 5 * BW_UNIT, "a second after it");
        assert_eq!(alone(1, true, 26, 40_000), 5 * BW_UNIT, "the first round may have one");
    }

    /// Where losses are tolerated the flow's own packets make a slot show a queue. The path is empty up to 1.25 ms above the
    /// minimum RTT and the 240 us that a segment takes.
    #[test]
    fn where_losses_are_tolerated_a_round_in_which_the_path_was_empty_is_quiet() {
        let quiet_us = |share: u64, rtt_us: u64| {
            cruising(|c| {
                (c.bbr.loss.share, c.bbr.newcomer.quiet_us) = (share, 1_000);
                let mut from = ack();
                rounds(c, &mut from, &[BDP; 2], rtt_us);
                bbr3_note_cruise_queue(c);
                rounds(c, &mut from, &[BDP], rtt_us);
                c.bbr.newcomer.quiet_us
            })
        };
        let empty_us = RTT_US + RTT_US / 32 + MSS / 5;
        assert_eq!(quiet_us(1, empty_us), 1_000 + RTT_US);
        assert_eq!(quiet_us(1, empty_us + 1), 0);
        assert_eq!(quiet_us(0, RTT_US), 0, "no losses are tolerated");
    }

    /// In a pause nothing arrives and no queue shows, which says nothing of others. The round after it is the first again.
    #[test]
    fn a_pause_is_neither_quiet_nor_a_round_of_few_arrivals() {
        let after_pause = |pauses: bool, rtt_us: u64| {
            cruising(|c| {
                c.bbr.newcomer.alone_bw = 5 * BW_UNIT;
                let mut from = ack();
                rounds(c, &mut from, &[BDP * 3 / 5; 3], rtt_us);
                if pauses {
                    let ack = Ack { is_app_limited: true, ..from };
                    let c = &mut Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 };
                    bbr3_handle_restart_from_idle(c);
                }
                from.now_us += USEC_PER_SEC;
                rounds(c, &mut from, &[BDP * 3 / 5; 3], rtt_us);
                (c.bbr.newcomer.quiet_us, c.bbr.max_bw == KEPT)
            })
        };
        assert_eq!(
            after_pause(true, RTT_US).0,
            2 * RTT_US,
            "the last round before it, and the third after it"
        );
        assert_eq!(after_pause(false, RTT_US).0, USEC_PER_SEC + 4 * RTT_US, "no pause: the path was quiet");
        assert!(
            after_pause(false, 60_000).1 && !after_pause(true, 60_000).1,
            "two in a row, and one on each side of it"
        );
    }

    /// What the application limits is no time without a queue, but a queue that shows in it is one.
    #[test]
    fn a_queue_counts_where_the_application_limits_the_flow() {
        let quiet_us = |queue: bool| {
            cruising(|c| {
                let mut from = ack();
                rounds(c, &mut from, &[BDP; 4], RTT_US);
                from.rs_is_app_limited = true;
                rounds(c, &mut from, &[BDP], RTT_US);
                c.bbr.newcomer.had_queue = queue;
                rounds(c, &mut from, &[BDP; 2], RTT_US);
                c.bbr.newcomer.quiet_us
            })
        };
        assert_eq!((quiet_us(false), quiet_us(true)), (3 * RTT_US, 0));
    }

    #[test]
    fn who_is_alone_puts_probe_rtt_off() {
        let stamp_us = |usual_us: u64, spares_probe_rtt: bool| {
            cruising(|c| {
                let newcomer = NewcomerParams { spares_probe_rtt, ..NewcomerParams::on() };
                let p = Bbr3Params { newcomer, ..Bbr3Params::default() };
                (c.bbr.newcomer.quiet_us, c.bbr.probe_rtt_min_stamp, c.bbr.pacing_gain) =
                    (USEC_PER_SEC, 7, GAIN_UNIT);
                let ack = Ack { now_us: 900, ..*c.ack };
                bbr3_note_own_queue(
                    &mut Conn { bbr: c.bbr, p: &p, ack: &ack, out: c.out, delivery_rate: 0 },
                    usual_us,
                );
                c.bbr.probe_rtt_min_stamp
            })
        };
        assert_eq!((stamp_us(40_000, true), stamp_us(40_000, false), stamp_us(50_000, true)), (900, 7, 7));
    }

    /// Time in other states does not count, and does not end the quiet either.
    #[test]
    fn the_quiet_goes_on_in_the_next_cruise() {
        let quiet_us = cruising(|c| {
            let mut from = ack();
            rounds(c, &mut from, &[BDP; 4], RTT_US);
            c.bbr.state = Mode::ProbeBwUp;
            rounds(c, &mut from, &[BDP; 9], 90_000);
            c.bbr.state = Mode::ProbeBwCruise;
            rounds(c, &mut from, &[BDP; 4], RTT_US);
            c.bbr.newcomer.quiet_us
        });
        assert_eq!(quiet_us, 4 * RTT_US);
    }

    #[test]
    fn with_it_off_nothing_is_remembered() {
        cruising(|c| {
            let p = Bbr3Params {
                newcomer: NewcomerParams { alone_us: 0, ..NewcomerParams::default() },
                ..Bbr3Params::default()
            };
            let c = &mut Conn { bbr: c.bbr, p: &p, ack: c.ack, out: c.out, delivery_rate: 0 };
            (c.bbr.pacing_gain, c.bbr.probe_rtt_min_stamp) = (GAIN_UNIT, 7);
            rounds(c, &mut ack(), &[BDP; 30], RTT_US);
            bbr3_note_cruise_queue(c);
            bbr3_note_own_queue(c, RTT_US);
            assert_eq!((&c.bbr.newcomer, c.bbr.probe_rtt_min_stamp), (&Newcomer::default(), 7));
        });
    }
}
