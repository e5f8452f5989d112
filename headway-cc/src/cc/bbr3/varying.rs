//! Links whose rate moves all the time: while it does, the window follows what arrives. None of it is in the draft, and with
//! `varying` off it changes nothing.
//!
//! **Why.** The bandwidth of the model is the largest of two cycles of probes. On a cellular link it was true some seconds
//! ago, and a window of twice its BDP waits in the queue for seconds when the link slows down to a tenth. The brake does not help, because it
//! asks what is unusual, and there a low rate and a long RTT are usual.
//!
//! ```text
//!           the rate of a busy link with a long queue has moved
//!   OFF ──────────────────────────────────────────────────────────────────► ON   window: what arrives in the minimum RTT
//!    ▲                                                                      │    and the queue that is allowed
//!    └──────────────────────────────────────────────────────────────────────┘
//!           it has not moved for six seconds; or six rounds had more queue than allowed, so it is another's
//! ```
//!
//! 1. **Measure.** If all RTTs of an interval of 300 ms are more than twice the minimum RTT, the link was busy all the time, the rate at
//!    which data arrived is the link's, and the queue is longer than a path at the rate of the model should have.
//! 2. **Notice.** If such a rate differs from the last one that was noticed by more than a quarter, the link varies. A path that becomes slower once
//!    is seldom noticed, because the brake drains the queue before the interval is over.
//! 3. **Bound.** The window is what the fastest of the last three slots carries in the minimum RTT, the queue that is allowed, and
//!    the time for which ACKs wait for each other: where they come in bunches, a smaller window is used up before the next bunch.
//!    A slot lasts a minimum RTT, or until three segments have arrived. The pace remains the model's, so that the rate can
//!    double in each round when the link is fast again; a fall to half may still be taken for a newcomer, which lowers it until
//!    the next probe. Not to do so there was tried, and costs as much in deep buffers as it brings on such links.
//! 4. **Judge.** With no more in flight than that, a queue of our own is short after a round or two. If it is longer in all RTTs of six
//!    rounds, it is another flow's, and yielding to it would only give the path away.
//!
//! The brake is off meanwhile: both answer the same thing, and the brake, which looks for the rate of before in steps, is
//! too slow for a link that is fast again after half a second.
//!
//! **Limits.** The rate of the link is known a minimum RTT late and more. Beside others in a deep buffer the rate of one flow moves as
//! well, and it may yield for six rounds of every 20 seconds. Where the buffer is too short for a queue of a minimum RTT, nothing is done.

use super::Conn;
use super::braking::bbr3_release_brake;
use super::control::{bbr3_is_in_a_probe_bw_state, bbr3_min_pipe_cwnd, bbr3_min_rtt_and, bbr3_segments};
use crate::cc::NO_RTT;
use crate::cc::fixed::{GAIN_UNIT, USEC_PER_MSEC, USEC_PER_SEC, bw_data, bw_from, gain_apply};
use crate::cc::row::row;

row! {
/// The parameters for links that vary. Factors and parts of 1 are times [`GAIN_UNIT`].
pub struct VaryingParams "varying_" {
    /// Whether links that vary are looked for: 1 yes, 0 no, as in the draft.
    is_on: bool as ["varying"],
    /// Segments that a slot delivers at least, because one or two may arrive together at any rate.
    slot_min_segments: u64 = 3,
    /// Time after which a rate is compared with the one before; it is never less than an RTT. The rate over a shorter time beside
    /// another flow is how the packets of both happen to lie in the queue.
    interval_us: u64 = 300 * USEC_PER_MSEC,
    /// The link was busy, and its queue long, when the smallest RTT is above the minimum RTT by more than this part of it. With less,
    /// flows that share a path as they should would often take it for one that varies.
    busy: u64 = GAIN_UNIT,
    /// The rate has moved when it differs by more than this factor.
    step: u64 = GAIN_UNIT * 5 / 4,
    /// Time after the last move for which the link counts as one that varies.
    memory_us: u64 = 6 * USEC_PER_SEC,
    /// The queue that is allowed then, as a part of the minimum RTT. It is what is sent when the link becomes faster, before ACKs tell
    /// of it: with less, goodput is lost.
    queue: u64 = GAIN_UNIT * 3 / 2,
    /// Rounds in a row with more queue than that, after which it counts as another's.
    rounds: u64 = 6,
    /// Time for which a link does not count as one that varies after that.
    hold_us: u64 = 20 * USEC_PER_SEC,
}
}

impl VaryingParams {
    /// The defaults, with links that vary looked for.
    pub fn on() -> Self {
        Self { is_on: true, ..Self::default() }
    }
}

row! {
/// What is remembered of a connection to know a link that varies.
pub struct Varying "varying_" {
    /// Whether the link varies, so that the window is bounded.
    is_on: bool,
    /// When the slot began, in microseconds.
    slot_us: u64,
    /// `delivered` when it began.
    slot_delivered: u64,
    /// Whether the application limited what it delivered.
    is_app_limited: bool,
    /// Its longest time without an ACK so far, in microseconds.
    gap_us: u64,
    /// When the last ACK came, in microseconds.
    last_us: u64,
    /// Rate of the last slot.
    bw_0: u64,
    /// Rate of the one before.
    bw_1: u64,
    /// Rate of the one before that.
    bw_2: u64,
    /// Longest time without an ACK in the last slot, in microseconds.
    gap_0_us: u64,
    /// That of the one before.
    gap_1_us: u64,
    /// That of the one before that.
    gap_2_us: u64,
    /// When the interval began, in microseconds.
    interval_us: u64,
    /// `delivered` when it began.
    interval_delivered: u64,
    /// Its smallest RTT, in microseconds; [`NO_RTT`] before its first sample.
    interval_rtt_us: u64,
    /// Rate of the link at its last move; 0 before it was busy for the first time.
    move_bw: u64,
    /// Until when the link counts as one that varies, in microseconds.
    until_us: u64,
    /// Rounds in a row with more queue than allowed.
    queue_rounds: u64,
    /// Until when the link does not count as one that varies, however its rate moves; in microseconds.
    hold_us: u64,
}
}

/// The part of the minimum RTT by which the queue of a round may be longer than what is allowed, by chance.
const SLACK: u64 = GAIN_UNIT / 4;

/// Begins a slot with this ACK.
fn varying_start_slot(c: &mut Conn) {
    let v = &mut c.bbr.varying;
    v.slot_us = c.ack.now_us;
    v.slot_delivered = c.ack.delivered;
    v.is_app_limited = false;
    v.gap_us = 0;
    v.last_us = c.ack.now_us;
}

/// Begins an interval with this ACK.
fn varying_start_interval(c: &mut Conn) {
    let v = &mut c.bbr.varying;
    v.interval_us = c.ack.now_us;
    v.interval_delivered = c.ack.delivered;
    v.interval_rtt_us = NO_RTT;
}

/// The largest rate of the last three slots.
fn varying_bw(c: &Conn) -> u64 {
    let v = &c.bbr.varying;
    v.bw_0.max(v.bw_1).max(v.bw_2)
}

/// The minimum RTT, this part of it, and the time for which an ACK may wait for others. One long time without an ACK is a link that
/// stalled, so that it is the shortest of the last three slots'.
fn varying_rtt_and(c: &Conn, part: u64) -> u64 {
    let v = &c.bbr.varying;
    bbr3_min_rtt_and(c, part).saturating_add(v.gap_0_us.min(v.gap_1_us).min(v.gap_2_us))
}

/// Whether the rate differs from the one at the last move by the factor of a move.
fn varying_has_moved(c: &Conn, bw: u64) -> bool {
    let (before, step) = (c.bbr.varying.move_bw, c.p.varying.step);
    before != 0 && (bw > gain_apply(before, step) || before > gain_apply(bw, step))
}

/// Notes that the link varies from now on, unless the last queue was another's.
fn varying_enter(c: &mut Conn) {
    let v = &mut c.bbr.varying;
    v.until_us = c.ack.now_us.saturating_add(c.p.varying.memory_us);
    if !v.is_on && c.ack.now_us >= v.hold_us {
        v.is_on = true;
        v.queue_rounds = 0;
        bbr3_release_brake(c);
    }
}

/// Judges the interval that is over: whether the link was busy, and its rate has moved.
fn varying_end_interval(c: &mut Conn) {
    let v = &c.bbr.varying;
    let data = c.ack.delivered.saturating_sub(v.interval_delivered);
    let bw = bw_from(data, c.ack.now_us.saturating_sub(v.interval_us));
    if v.interval_rtt_us > bbr3_min_rtt_and(c, c.p.varying.busy) {
        if varying_has_moved(c, bw) {
            c.bbr.varying.move_bw = bw;
            varying_enter(c);
        }
        if c.bbr.varying.move_bw == 0 {
            c.bbr.varying.move_bw = bw;
        }
    }
    varying_start_interval(c);
}

/// Takes the rate of the slot that is over. What the application limited shows a rate only if that is larger than those known.
/// An interval without an RTT goes on.
fn varying_end_slot(c: &mut Conn, bw: u64) {
    if c.bbr.varying.is_app_limited && bw <= varying_bw(c) {
        varying_start_interval(c);
        return;
    }
    let v = &mut c.bbr.varying;
    (v.bw_2, v.bw_1, v.bw_0) = (v.bw_1, v.bw_0, bw);
    (v.gap_2_us, v.gap_1_us, v.gap_0_us) = (v.gap_1_us, v.gap_0_us, v.gap_us);
    if c.ack.now_us.saturating_sub(v.interval_us) >= c.p.varying.interval_us.max(v.interval_rtt_us) {
        varying_end_interval(c);
    }
}

/// Judges whose the queue of the round is that is over.
fn varying_judge_round(c: &mut Conn) {
    let part = c.p.varying.queue.saturating_add(SLACK);
    let (rtt_us, limit_us) = (c.bbr.last_round_rtt_us, varying_rtt_and(c, part));
    let is_long = rtt_us != NO_RTT && rtt_us > limit_us;
    let v = &mut c.bbr.varying;
    v.queue_rounds = if is_long { v.queue_rounds + 1 } else { 0 };
    if v.queue_rounds >= c.p.varying.rounds {
        v.is_on = false;
        v.hold_us = c.ack.now_us.saturating_add(c.p.varying.hold_us);
    }
}

/// Takes this ACK. Only ACKs of the cycle of probes show the link's rate: the other states send less, or more, on purpose.
fn bbr3_run_varying(c: &mut Conn) {
    c.bbr.varying.is_on &= c.ack.now_us < c.bbr.varying.until_us;
    if !bbr3_is_in_a_probe_bw_state(c) {
        varying_start_slot(c);
        varying_start_interval(c);
        return;
    }
    if c.bbr.round_start && c.bbr.varying.is_on {
        varying_judge_round(c);
    }
    let v = &mut c.bbr.varying;
    v.interval_rtt_us = v.interval_rtt_us.min(c.ack.rs_rtt_us);
    v.is_app_limited |= c.ack.rs_is_app_limited;
    v.gap_us = v.gap_us.max(c.ack.now_us.saturating_sub(v.last_us));
    v.last_us = c.ack.now_us;
    let span_us = c.ack.now_us.saturating_sub(v.slot_us);
    let data = c.ack.delivered.saturating_sub(v.slot_delivered);
    if span_us >= c.bbr.min_rtt_us && data >= bbr3_segments(c, c.p.varying.slot_min_segments) {
        varying_end_slot(c, bw_from(data, span_us));
        varying_start_slot(c);
    }
}

/// Looks for a link that varies if that is switched on.
pub(super) fn bbr3_update_varying(c: &mut Conn) {
    if c.p.varying.is_on {
        bbr3_run_varying(c);
    }
}

/// Keeps the window within what arrives in a minimum RTT and the queue that is allowed.
pub(super) fn bbr3_bound_cwnd_for_varying(c: &mut Conn) {
    if !c.bbr.varying.is_on {
        return;
    }
    let window = bw_data(varying_bw(c), varying_rtt_and(c, c.p.varying.queue));
    c.out.cwnd = c.out.cwnd.min(window.max(bbr3_min_pipe_cwnd(c)));
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MSS, with};
    use super::super::{Bbr3Params, Mode};
    use super::*;
    use crate::cc::Ack;
    use crate::cc::brake::BrakeMode;
    use crate::cc::fixed::BW_UNIT;

    const RTT_US: u64 = 40_000;
    /// An RTT that is more than twice the minimum RTT.
    const BUSY_US: u64 = 2 * RTT_US + 1;

    /// A flow in ProbeBW_CRUISE with a minimum RTT of 40 ms, and the time of its next ACK.
    struct Flow<'a> {
        c: Conn<'a>,
        now_us: u64,
        delivered: u64,
        is_app_limited: bool,
    }

    impl Flow<'_> {
        /// An ACK after `span_us` that says that `bytes` have arrived, and `rtt_us`.
        fn ack(&mut self, span_us: u64, bytes: u64, rtt_us: u64) {
            self.now_us += span_us;
            self.delivered += bytes;
            let ack = Ack {
                now_us: self.now_us,
                delivered: self.delivered,
                rs_rtt_us: rtt_us,
                rs_is_app_limited: self.is_app_limited,
                ..*self.c.ack
            };
            let c = &mut self.c;
            bbr3_update_varying(&mut Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 });
        }

        /// 320 ms in which data arrives at so many bytes a microsecond: eight slots, and an interval.
        fn interval(&mut self, rate: u64, rtt_us: u64) {
            (0..8).for_each(|_| self.ack(RTT_US, rate * RTT_US, rtt_us));
        }

        fn varying(&self) -> &Varying {
            &self.c.bbr.varying
        }
    }

    fn flow<R>(f: impl FnOnce(Flow) -> R) -> R {
        with(|c| {
            let p = Bbr3Params { varying: VaryingParams::on(), ..Bbr3Params::default() };
            (c.bbr.min_rtt_us, c.bbr.state) = (RTT_US, Mode::ProbeBwCruise);
            let c = Conn { bbr: c.bbr, p: &p, ack: c.ack, out: c.out, delivery_rate: 0 };
            let mut flow = Flow { c, now_us: 1_000_000, delivered: 100 * MSS, is_app_limited: false };
            // The first ACK ends the slot that began at 0.
            flow.ack(0, 0, RTT_US);
            f(flow)
        })
    }

    /// Three intervals of 1000 bytes/us behind a long queue, and then one at another rate.
    fn varies_after(rate: u64, rtt_us: u64, change: fn(&mut Flow)) -> bool {
        flow(|mut f| {
            (0..3).for_each(|_| f.interval(1000, BUSY_US));
            assert!(!f.varying().is_on);
            change(&mut f);
            f.interval(rate, rtt_us);
            f.varying().is_on
        })
    }

    #[test]
    fn a_link_with_a_long_queue_whose_rate_moves_by_a_quarter_varies() {
        assert!(varies_after(1251, BUSY_US, |_| ()));
        assert!(!varies_after(1250, BUSY_US, |_| ()));
        assert!(varies_after(799, BUSY_US, |_| ()));
        assert!(!varies_after(800, BUSY_US, |_| ()));
    }

    #[test]
    fn what_is_no_move() {
        assert!(!varies_after(500, BUSY_US - 1, |_| ()), "the queue is not long");
        assert!(!varies_after(500, NO_RTT, |_| ()), "nothing is known of the queue");
        let probe_rtt = |f: &mut Flow| f.c.bbr.state = Mode::ProbeRtt;
        assert!(!varies_after(500, BUSY_US, probe_rtt), "ProbeRTT sends less on purpose");
        let one_short_rtt = |f: &mut Flow| f.ack(0, 0, RTT_US);
        assert!(!varies_after(500, BUSY_US, one_short_rtt), "the queue was not long all the time");
    }

    /// A rate that falls bit by bit is compared with that of the last move: 1250 is no move from 1000, nor is 1001 from 1250.
    #[test]
    fn small_moves_add_up() {
        let is_on = |rates: &[u64]| {
            flow(|mut f| {
                rates.iter().for_each(|rate| f.interval(*rate, BUSY_US));
                f.varying().is_on
            })
        };
        assert!(is_on(&[1000, 1000, 1100, 1200, 1260]));
        assert!(!is_on(&[1000, 1000, 1250, 1001, 1250, 801]));
    }

    /// What the application limits has no rate, unless it is more than was known.
    #[test]
    fn the_application_is_no_link() {
        let limited = |f: &mut Flow| f.is_app_limited = true;
        assert!(!varies_after(500, BUSY_US, limited));
        assert!(!varies_after(1000, BUSY_US, limited));
        let bw = |rate: u64| {
            flow(|mut f| {
                f.interval(10, BUSY_US);
                f.is_app_limited = true;
                f.interval(rate, BUSY_US);
                varying_bw(&f.c)
            })
        };
        assert_eq!((bw(5), bw(20)), (10 * BW_UNIT, 20 * BW_UNIT));
    }

    /// 6 s after the last move.
    #[test]
    fn a_link_that_no_longer_moves_does_not_vary() {
        let is_on = |after_us: u64| {
            flow(|mut f| {
                [1000, 1000, 2000].iter().for_each(|rate| f.interval(*rate, BUSY_US));
                assert!(f.varying().is_on);
                let moved_us = f.varying().until_us - 6_000_000;
                assert_eq!(f.now_us, moved_us);
                f.ack(after_us, 1, RTT_US);
                f.varying().is_on
            })
        };
        assert!(is_on(5_999_999) && !is_on(6_000_000));
    }

    /// The fastest of three slots of 40 ms is 3 bytes/us. So much is sent in the minimum RTT, the 3/2 of it that are the queue, and the
    /// 40 ms for which an ACK may wait, since one comes in each slot. Where it is two times 100 ms and once 60 ms, 60 ms count.
    #[test]
    fn the_window_is_what_arrives_and_the_queue() {
        let window = |slots: &[(u64, u64)], is_on: bool| {
            flow(|mut f| {
                slots.iter().for_each(|(span_us, bytes)| f.ack(*span_us, *bytes, BUSY_US));
                (f.c.bbr.varying.is_on, f.c.bbr.varying.until_us) = (is_on, u64::MAX);
                f.c.out.cwnd = 1_000_000;
                bbr3_bound_cwnd_for_varying(&mut f.c);
                f.c.out.cwnd
            })
        };
        let steady = [(RTT_US, 80_000), (RTT_US, 120_000), (RTT_US, 40_000)];
        assert_eq!(window(&steady, true), 3 * (RTT_US + RTT_US * 3 / 2 + RTT_US));
        assert_eq!(window(&steady, false), 1_000_000);
        let bunches = [(60_000, 120_000), (100_000, 200_000), (100_000, 200_000)];
        assert_eq!(window(&bunches, true), 2 * (RTT_US + RTT_US * 3 / 2 + 60_000));
        assert_eq!(window(&[(400_000, 3 * MSS); 3], true), 4 * MSS, "the smallest window");
        // A slot goes on until three segments have arrived.
        assert_eq!(
            window(&[(RTT_US, 80_000), (RTT_US, 2 * MSS), (RTT_US, MSS)], true),
            2 * (RTT_US + RTT_US * 3 / 2 + RTT_US)
        );
    }

    /// A queue is allowed up to 3/2 of the minimum RTT and a quarter: 110 ms of RTT.
    #[test]
    fn a_queue_that_stays_is_anothers() {
        let is_on = |rounds: &[u64]| {
            flow(|mut f| {
                (f.c.bbr.varying.is_on, f.c.bbr.varying.until_us) = (true, u64::MAX);
                for rtt_us in rounds {
                    (f.c.bbr.round_start, f.c.bbr.last_round_rtt_us) = (true, *rtt_us);
                    f.ack(1_000, MSS, 200_000);
                    (f.c.bbr.round_start, f.c.bbr.last_round_rtt_us) = (false, 200_000);
                    f.ack(1_000, MSS, 200_000);
                }
                let v = f.varying();
                assert_eq!(v.hold_us, if v.is_on { 0 } else { f.now_us - 1_000 + 20_000_000 });
                v.is_on
            })
        };
        assert!(!is_on(&[110_001; 6]));
        assert!(is_on(&[110_001; 5]));
        assert!(is_on(&[110_000; 9]), "no more than is allowed");
        assert!(is_on(&[NO_RTT; 9]), "nothing is known");
        assert!(is_on(&[200_000, 200_000, 200_000, 200_000, 200_000, 90_000, 200_000]), "in a row");
    }

    #[test]
    fn while_the_queue_is_anothers_no_link_varies() {
        let is_on = |hold_us: u64| {
            flow(|mut f| {
                f.c.bbr.varying.hold_us = hold_us;
                [1000, 1000, 2000].iter().for_each(|rate| f.interval(*rate, BUSY_US));
                assert_eq!(f.now_us, 1_960_000);
                f.varying().is_on
            })
        };
        assert!(is_on(1_960_000) && !is_on(1_960_001));
    }

    #[test]
    fn it_takes_the_place_of_the_brake() {
        flow(|mut f| {
            f.c.bbr.brake.mode = BrakeMode::Drain;
            (f.c.bbr.inflight_longterm, f.c.bbr.unbraked_inflight_longterm) = (30_000, 90_000);
            [1000, 1000].iter().for_each(|rate| f.interval(*rate, BUSY_US));
            assert_eq!(f.c.bbr.brake.mode, BrakeMode::Drain);
            f.interval(2000, BUSY_US);
            assert_eq!((f.c.bbr.brake.mode, f.c.bbr.brake.releases), (BrakeMode::Watch, 1));
            assert_eq!(
                f.c.bbr.inflight_longterm, 90_000,
                "losses on the slower path do not hold back the faster one"
            );
            f.c.bbr.inflight_longterm = 30_000;
            f.interval(1000, BUSY_US);
            assert_eq!(f.c.bbr.brake.releases, 1, "it is not on any more");
            assert_eq!(f.c.bbr.inflight_longterm, 30_000);
        });
    }

    #[test]
    fn with_it_off_nothing_is_remembered() {
        with(|c| {
            (c.bbr.min_rtt_us, c.bbr.state) = (RTT_US, Mode::ProbeBwCruise);
            bbr3_update_varying(c);
            assert_eq!(c.bbr.varying, Varying::default());
        });
    }
}
