//! The brake: what a BBR does when the path becomes slower than its model. One module for BBRv1 and BBRv3.
//!
//! A BBR remembers the largest bandwidth of the last rounds. When a path becomes slower (a radio link fades, a shaper
//! changes its rate), it goes on sending at the old rate until that maximum is forgotten, and everything that is too
//! much waits in the queue: for seconds, behind a large buffer. The brake sees this within a part of a round and lets
//! the queue drain. It takes care to stay off where nothing is wrong, because on most paths most of the time nothing
//! is.
//!
//! ```text
//!          a slot is slow and met a queue, or slots are slow and lossy
//!   WATCH ───────────────────────────────────────────────────────────────► DRAIN  window: a BDP of what arrives
//!    ▲ ▲      the queue stays though our share of it is gone                │  ▲
//!    │ └────────────────────────────────────────────────────────────────────┤  │  there is a queue again
//!    │        the old rate is back, or was looked for long enough           ▼  │
//!    └──────────────────────────────────────────────────────────────────── HOLD   bound: above what arrives
//! ```
//!
//! 1. **Measure.** ACKs are gathered in slots of about a sixteenth of the minimum RTT, because a single ACK tells no
//!    rate. A slot has two numbers: the rate at which data arrived, which is what the path lets through now, and the
//!    smallest RTT, which shows how long the queue is now.
//! 2. **Learn.** While the flow neither probes nor drains, slots are averaged into the baseline: the mean rate, the
//!    mean RTT, and how far both scatter (their mean deviations). The fields of the baseline are called `usual_*`.
//!    A path that becomes slower bit by bit must not be learned with each bit, so a queue is not learned unless other
//!    flows are known to keep one (`long_us`; 0 switches that off, as `bbr1_brake` does).
//! 3. **Watch.** A slot that is clearly slower than the baseline *and* met a queue puts the brake on. Either sign
//!    alone has other causes: a pause of the sender, or another flow's queue. Where the buffer is too short to hold a
//!    queue, much loss or many CE marks take the place of the longer RTT.
//! 4. **Drain.** The flow paces at the rate that arrives, and its window is the BDP at that rate, so the queue
//!    empties. After a round with no more than that in flight, our part of the queue is gone. If half of the queue
//!    still stands then, it belongs to other flows, and the brake lets go. If the path becomes slower still, that
//!    round begins anew, because its window was made for the rate of before.
//! 5. **Hold.** Once the queue is gone, the allowed rate rises above what arrives, step by step. Hold ends when the
//!    old rate is back, or when the search has lasted long enough (`hold_us`) and the model no longer knows the old
//!    rate.
//!
//! Use: a controller has a [`Brake`] in its state and [`BrakeParams`] among its parameters. Once an ACK, after its
//! model is updated, it calls `brake_on_ack`. From then on it takes its bandwidth from `brake_bw`, its pacing gain
//! from `brake_gain`, and keeps its window within [`Brake::window`]. "The model" in the comments here is the
//! controller's own estimate of bandwidth and minimum RTT. Figures and limits: `docs/explanation/brake.md`.
//!
//! Twin: `headway-kernel/bpf/brake.h` (same functions in the same order; `min`, `max`, `saturating_add` and
//! `saturating_sub` are `brake_min`, `brake_max`, `brake_add` and `brake_sub` there).

mod state;
#[cfg(test)]
mod tests;

use super::fixed::{BW_UNIT, GAIN_UNIT, bw_data, bw_from, gain_apply};
use super::{Ack, NO_RTT};

pub use state::{Brake, BrakeMode, BrakeParams};

/// What a controller hands to the brake with each ACK. The brake knows nothing else about it, so that BBRv1 and BBRv3
/// can share the code.
#[derive(Debug)]
pub(crate) struct BrakeAck<'a> {
    /// What the brake remembers.
    pub s: &'a mut Brake,
    /// Its parameters.
    pub p: &'a BrakeParams,
    /// The event.
    pub ack: &'a Ack,
    /// The model's largest bandwidth.
    pub max_bw: u64,
    /// The model's minimum RTT, microseconds.
    pub min_rtt_us: u64,
    /// The bandwidth that the model would pace by.
    pub bw: u64,
    /// The gain that the model would pace with.
    pub pacing_gain: u64,
    /// Whether the model has begun a round with this ACK.
    pub is_round_start: bool,
    /// Whether ProbeRTT marks what is sent from now on as application-limited.
    pub is_marking: bool,
    /// Whether ACKs of this phase show what the path can do. Those of Startup and Drain do not, because both change
    /// the rate and the queue themselves.
    pub is_watching: bool,
    /// Whether the phase neither builds a queue nor empties one, so that its slots may be averaged into the baseline.
    pub is_steady: bool,
    /// The smallest window, in units of data.
    pub floor: u64,
}

/// Parts of a microsecond in which the long mean of the RTT is kept: one slot moves it by less than a microsecond.
const LONG_UNIT: u64 = 1024;

/// The time in which a bandwidth moves this much data, in microseconds, rounded down.
pub(crate) fn brake_span_us(bw: u64, data: u64) -> u64 {
    data.saturating_mul(BW_UNIT) / bw.max(1)
}

/// The data that the sender's own bursts add to the queue at any rate (two segments by default), in units of data.
fn brake_extra(b: &BrakeAck) -> u64 {
    b.p.extra_segments.saturating_mul(b.ack.smss.max(1))
}

/// The upper bound of the window, in units of data: the BDP at the brake's bandwidth, so that what is in flight
/// beyond it can leave the queue. In Hold there is room for a burst more, because a window of exactly a BDP would
/// keep the rate from growing.
fn brake_window(b: &BrakeAck) -> u64 {
    let bdp = bw_data(b.s.bw, b.s.usual_rtt_us);
    let extra = if b.s.mode == BrakeMode::Hold { brake_extra(b) } else { 0 };
    bdp.saturating_add(extra).max(b.floor)
}

/// The bandwidth that the controller has to use: the model's, or the brake's while it is on.
pub(crate) fn brake_bw(s: &Brake, bw: u64) -> u64 {
    if s.mode == BrakeMode::Watch { bw } else { s.bw }
}

/// The pacing gain that the controller has to use. While the brake is on, it looks for more bandwidth by itself, and
/// a gain above 1 on top of that would only build a queue.
pub(crate) fn brake_gain(mode: BrakeMode, gain: u64) -> u64 {
    if mode == BrakeMode::Watch { gain } else { gain.min(GAIN_UNIT) }
}

/// How long a slot lasts at least, in microseconds. It must be long enough to hold some ACKs and short enough to show
/// a slower path within a part of a round.
fn brake_slot_us(b: &BrakeAck) -> u64 {
    gain_apply(b.min_rtt_us, if b.s.mode == BrakeMode::Watch { b.p.slot } else { b.p.slot_braked })
}

/// Begins a slot with this ACK. Rates are differences of counters, so their present values are noted.
fn brake_start_slot(b: &mut BrakeAck) {
    b.s.slot_us = b.ack.now_us;
    b.s.slot_delivered = b.ack.delivered;
    b.s.slot_lost = b.ack.lost;
    b.s.slot_ce = b.ack.delivered_ce;
    b.s.slot_prior = u64::MAX;
    b.s.slot_acks = 0;
    b.s.slot_ack_us = b.ack.now_us;
    b.s.slot_gap_us = 0;
    b.s.slot_rtt_us = NO_RTT;
    b.s.slot_is_app_limited = false;
    b.s.slot_is_marked = false;
}

/// Whether the packet was sent in ProbeRTT, or limited by the application before that: little was in flight then,
/// so its ACK says nothing of the path's rate.
fn brake_is_of_probe_rtt(b: &BrakeAck) -> bool {
    b.ack.rs_is_app_limited && b.ack.rs_prior_delivered < b.s.marked_start
}

/// Whether the packet was sent in the round after ProbeRTT. It is still marked as limited by the application, but
/// the old window was back, so its ACK does count.
fn brake_is_only_marked(b: &BrakeAck) -> bool {
    b.ack.rs_prior_delivered >= b.s.marked_start && b.ack.rs_prior_delivered <= b.s.marked_end
}

/// Counts the ACK in the slot. ACKs that come within an eighth of a slot's length count as one, because a bunch of
/// ACKs tells no rate.
fn brake_note_ack(b: &mut BrakeAck) {
    let now_us = b.ack.now_us;
    if now_us.saturating_sub(b.s.slot_ack_us) >= brake_slot_us(b) / 8 {
        b.s.slot_acks += 1;
        b.s.slot_ack_us = now_us;
    }
    b.s.slot_gap_us = b.s.slot_gap_us.max(now_us.saturating_sub(b.s.last_us));
    b.s.slot_prior = b.s.slot_prior.min(b.ack.rs_prior_delivered);
    b.s.slot_rtt_us = b.s.slot_rtt_us.min(b.ack.rs_rtt_us);
    if brake_is_only_marked(b) {
        b.s.slot_is_marked |= b.ack.rs_is_app_limited;
    } else {
        b.s.slot_is_app_limited |= b.ack.rs_is_app_limited;
    }
}

/// The RTT, in microseconds, up to which no queue is assumed: the baseline, plus the largest of the margins that
/// hosts, noise and the path itself explain, plus the time that our own bursts take while the brake is on.
fn brake_rtt_limit(b: &BrakeAck) -> u64 {
    let part = if b.s.mode == BrakeMode::Watch { b.p.rtt } else { b.p.rtt_braked };
    let noise_us = b.s.usual_rtt_dev_us.saturating_mul(b.p.deviations);
    let margin_us = gain_apply(b.min_rtt_us, part).max(b.p.rtt_us).max(noise_us);
    let burst_us = if b.s.mode == BrakeMode::Watch { 0 } else { brake_span_us(b.s.bw, brake_extra(b)) };
    b.s.usual_rtt_us.saturating_add(margin_us).saturating_add(burst_us)
}

/// Whether the slot met a queue. The smallest RTT decides, because a single late ACK must not look like a queue.
fn brake_is_inflated(b: &BrakeAck) -> bool {
    b.s.slot_rtt_us < NO_RTT && b.s.usual_rtt_us != 0 && b.s.slot_rtt_us > brake_rtt_limit(b)
}

/// The baseline rate, but no more than the model's largest bandwidth: a path that has become slower for good lowers
/// the model, and the baseline must follow.
fn brake_usual_bw(b: &BrakeAck) -> u64 {
    b.s.usual_bw.min(b.max_bw)
}

/// The rate that should have arrived in this slot: the baseline rate, or less if the flow sent less. Behind a clear
/// queue (twice the margin) it does not matter what was sent, because the queue keeps the path busy.
fn brake_expected_bw(b: &BrakeAck) -> u64 {
    let margin_us = brake_rtt_limit(b).saturating_sub(b.s.usual_rtt_us);
    if brake_is_inflated(b) && b.s.slot_rtt_us > brake_rtt_limit(b).saturating_add(margin_us) {
        return brake_usual_bw(b);
    }
    brake_usual_bw(b).min(b.s.paced_bw).min(b.s.paced_bw_before)
}

/// Whether a rate is lower than expected by more than noise explains.
fn brake_is_below(b: &BrakeAck, bw: u64, expected: u64) -> bool {
    let noise = b.s.usual_bw_dev.saturating_mul(b.p.deviations);
    bw < gain_apply(expected, GAIN_UNIT.saturating_sub(b.p.rate)).saturating_sub(noise)
}

/// Whether the slot is long enough to tell a rate: `slot_min_segments` have arrived, or twice as many should have
/// arrived by now, which is how a path that hardly delivers any more is noticed.
fn brake_has_slot_data(b: &BrakeAck, span_us: u64) -> bool {
    let enough = b.p.slot_min_segments.saturating_mul(b.ack.smss.max(1));
    b.ack.delivered.saturating_sub(b.s.slot_delivered) >= enough
        || (b.s.mode == BrakeMode::Watch
            && bw_data(brake_expected_bw(b), span_us) >= enough.saturating_mul(2))
}

/// Whether loss or CE marks show congestion where the buffer is too short for a longer RTT to show it. Either more
/// than half of the missing data was lost and the loss is above `loss`, or more than half of what arrived is marked.
fn brake_is_lossy(b: &BrakeAck, span_us: u64) -> bool {
    let delivered = b.ack.delivered.saturating_sub(b.s.slot_delivered);
    let lost = b.ack.lost.saturating_sub(b.s.slot_lost);
    let ce = b.ack.delivered_ce.saturating_sub(b.s.slot_ce);
    let missing = bw_data(brake_expected_bw(b), span_us).saturating_sub(delivered);
    (lost.saturating_mul(2) > missing && lost > gain_apply(delivered, b.p.loss))
        || ce.saturating_mul(2) > delivered
}

/// Moves an average towards a new value by `weight` of the difference, so that old values are forgotten
/// exponentially.
pub(crate) fn brake_step(from: u64, to: u64, weight: u64) -> u64 {
    if to >= from {
        from.saturating_add(gain_apply(to - from, weight))
    } else {
        from.saturating_sub(gain_apply(from - to, weight))
    }
}

/// Averages the slot's RTT over the last seconds (`long_us`). The weight is the slot's share of that time, so that the
/// mean covers as much time on short paths as on long ones.
fn brake_note_long_rtt(b: &mut BrakeAck, span_us: u64) {
    let rtt = b.s.slot_rtt_us.saturating_mul(LONG_UNIT);
    let weight = span_us.saturating_mul(GAIN_UNIT) / b.p.long_us.max(1);
    b.s.long_rtt = if b.s.long_rtt == 0 { rtt } else { brake_step(b.s.long_rtt, rtt, weight.min(GAIN_UNIT)) };
}

/// Whether a queue may be averaged into the baseline, because it is no sign of a slower path: other flows have kept
/// one for seconds, or the path has become so long that its shortest RTT looks like one. Our own queue is as long
/// only when the path becomes slower. To yield to others again and again would give them the path bit by bit.
fn brake_is_queue_usual(b: &BrakeAck) -> bool {
    let margin_us = brake_rtt_limit(b).saturating_sub(b.s.usual_rtt_us);
    let shared_us = b.min_rtt_us.saturating_add(gain_apply(b.min_rtt_us, b.p.shared).max(margin_us));
    b.p.long_us == 0 || b.s.long_rtt / LONG_UNIT > shared_us || b.min_rtt_us > brake_rtt_limit(b)
}

/// The weight of the slot in the baseline. An RTT above it together with a rate below it are how a slow fall of the
/// rate begins, and learned as fast as other slots they would hide it.
fn brake_weight(b: &BrakeAck, bw: u64) -> u64 {
    let is_worse = b.s.slot_rtt_us > b.s.usual_rtt_us && bw < b.s.usual_bw;
    if is_worse && !brake_is_queue_usual(b) { b.p.memory_worse } else { b.p.memory }
}

/// Averages the slot into the baseline: RTT, rate, and how far slots are away from both. The first slot sets it.
fn brake_learn(b: &mut BrakeAck, bw: u64) {
    let (rtt_us, weight) = (b.s.slot_rtt_us, brake_weight(b, bw));
    if b.s.usual_rtt_us == 0 {
        (b.s.usual_rtt_us, b.s.usual_bw) = (rtt_us, bw);
        return;
    }
    b.s.usual_rtt_dev_us = brake_step(b.s.usual_rtt_dev_us, rtt_us.abs_diff(b.s.usual_rtt_us), weight);
    b.s.usual_rtt_us = brake_step(b.s.usual_rtt_us, rtt_us, weight);
    b.s.usual_bw_dev = brake_step(b.s.usual_bw_dev, bw.abs_diff(b.s.usual_bw), weight);
    b.s.usual_bw = brake_step(b.s.usual_bw, bw, weight);
}

/// Changes the mode. It is the only place that does, so that debug builds can check each change against the table of
/// those that have a reason.
fn brake_set_mode(s: &mut Brake, mode: BrakeMode) {
    debug_assert!(s.mode.may_become(mode), "{:?} to {mode:?}", s.mode);
    s.mode = mode;
}

/// Puts the brake on: from now on the flow sends no more than arrives, and its queue drains. What arrives through a
/// queue is the rate of the path. The faster of the last two slots counts, so that one late ACK does not make the
/// rate too low.
fn brake_enter_drain(b: &mut BrakeAck, bw: u64) {
    brake_set_mode(b.s, BrakeMode::Drain);
    b.s.bw = bw.max(b.s.last_bw).max(1);
    b.s.queue_rtt_us = b.s.slot_rtt_us;
    b.s.quiet_delivered = 0;
    b.s.further_drops = 0;
}

/// Lets go: the old rate is back, or the controller has found another answer to the slower path.
pub(crate) fn brake_release(s: &mut Brake) {
    if s.mode != BrakeMode::Watch {
        brake_set_mode(s, BrakeMode::Watch);
        s.releases += 1;
    }
}

/// Judges a slot while the brake is off: it goes on when the slot is slow and has met a queue, or when slots in a
/// row were slow and lossy. Either sign alone has other causes: a slow slot may be a pause of the sender, and a
/// queue may be another flow's.
fn brake_watch(b: &mut BrakeAck, bw: u64, span_us: u64) {
    let is_slow = brake_is_below(b, bw, brake_expected_bw(b));
    let is_inflated = brake_is_inflated(b);
    let is_usual = b.is_steady && !b.s.slot_is_marked;
    b.s.lossy_slots = if is_slow && brake_is_lossy(b, span_us) { b.s.lossy_slots + 1 } else { 0 };
    if is_slow && (is_inflated || b.s.lossy_slots >= b.p.loss_slots) {
        b.s.entries += 1;
        b.s.lossy_slots = 0;
        b.s.target_bw = b.max_bw;
        b.s.entry_us = b.ack.now_us;
        b.s.last_bw = 0;
        brake_enter_drain(b, bw);
        return;
    }
    b.s.usual_bw = brake_usual_bw(b);
    if !is_usual || b.s.slot_rtt_us == NO_RTT {
        return;
    }
    brake_note_long_rtt(b, span_us);
    // Three things must not enter the baseline: a slower path that the brake cannot see because the flow sends too
    // little, the empty queue that ProbeRTT leaves, and a queue that only now begins.
    if !brake_is_below(b, bw, b.s.usual_bw) && (!is_inflated || brake_is_queue_usual(b)) {
        brake_learn(b, bw);
    }
}

/// Whether no more than the window was in flight for a whole round, after which a queue of our own would be gone.
fn brake_was_quiet(b: &BrakeAck) -> bool {
    b.s.quiet_delivered != 0 && b.s.slot_prior >= b.s.quiet_delivered
}

/// Whether half of the queue still stands after such a round, which shows that it belongs to other flows. With a
/// window at its minimum nothing can be told, because we cannot send less.
fn brake_is_not_ours(b: &BrakeAck) -> bool {
    let excess_us = b.s.queue_rtt_us.saturating_sub(b.s.usual_rtt_us);
    b.s.slot_rtt_us > b.s.usual_rtt_us.saturating_add(excess_us / 2) && brake_window(b) > b.floor
}

/// Whether the path has become slower once more while the queue drains: less arrives than the flow sends, by more than
/// noise explains, and the queue is longer than it was at any time before. As in Watch both signs are needed. Beside
/// another flow less arrives as well while we yield, but then the queue does not grow beyond what it was. One that
/// fills a deep buffer could still show both for seconds, so that only a few further drops are believed.
fn brake_is_slower_still(b: &BrakeAck, arriving_bw: u64) -> bool {
    arriving_bw < gain_apply(b.s.bw, GAIN_UNIT.saturating_sub(b.p.rate))
        && b.s.slot_rtt_us > b.s.queue_rtt_us
        && b.s.further_drops < b.p.max_further_drops
}

/// Judges a slot while the queue drains. Once the queue is gone, the flow begins to look for its rate. If the queue
/// belongs to other flows the brake lets go, because yielding would only give the path to them; this slot's RTT and
/// rate become the new baseline, or the same queue would put the brake on again.
fn brake_drain(b: &mut BrakeAck, bw: u64) {
    if !brake_is_inflated(b) {
        brake_set_mode(b.s, BrakeMode::Hold);
        b.s.base_bw = b.s.bw;
        b.s.raise_rounds = b.s.rounds;
        b.s.back_delivered = 0;
        return;
    }
    let arriving_bw = bw.max(b.s.last_bw).max(1);
    if b.s.quiet_delivered != 0 && brake_is_slower_still(b, arriving_bw) {
        // What is in flight fits the window of before the further drop, so the queue that it has made is our own.
        b.s.quiet_delivered = 0;
        b.s.further_drops += 1;
    }
    if !brake_was_quiet(b) {
        b.s.queue_rtt_us = b.s.queue_rtt_us.max(b.s.slot_rtt_us);
    } else if brake_is_not_ours(b) {
        brake_set_mode(b.s, BrakeMode::Watch);
        b.s.false_entries += 1;
        (b.s.usual_rtt_us, b.s.usual_bw) = (b.s.slot_rtt_us, bw);
        return;
    } else {
        // Some of the queue is gone. What is left either goes in the next round or belongs to other flows.
        (b.s.queue_rtt_us, b.s.quiet_delivered) = (b.s.slot_rtt_us, b.ack.delivered);
    }
    b.s.bw = arriving_bw;
}

/// Whether the raised rate has brought neither a queue nor more data for `patience` rounds. Then something else
/// limits the flow, such as its application.
fn brake_is_unused(b: &BrakeAck) -> bool {
    b.s.rounds.saturating_sub(b.s.raise_rounds) > b.p.patience
}

/// The allowed rate after a slot without a queue: above what arrives, and far above it once the path is clearly
/// faster, but never above the old rate. Where the flow does not use what is allowed, the rate grows from its own
/// value, or it would stay at the rate of the application.
fn brake_raised_bw(b: &BrakeAck, bw: u64) -> u64 {
    let is_faster = bw > gain_apply(b.s.base_bw, b.p.grow);
    let grow = if is_faster { b.p.grow_fast } else { b.p.grow };
    let from = if brake_is_unused(b) || b.s.slot_is_app_limited { b.s.bw.max(bw) } else { bw };
    b.s.bw.max(gain_apply(from, grow)).min(b.s.target_bw)
}

/// Whether the brake was on for a few rounds only, so that the model still knows the old rate.
fn brake_is_brief(b: &BrakeAck) -> bool {
    b.ack.now_us.saturating_sub(b.s.entry_us) <= b.s.usual_rtt_us.saturating_mul(b.p.patience)
}

/// Whether the old rate arrives again. Unless the brake was on only briefly, it must have done so for a round: let go
/// earlier, the flow would pace at the slower path's rate until its next probe, because the model has not seen more
/// yet.
fn brake_is_back(b: &mut BrakeAck, is_nearly: bool) -> bool {
    if b.s.back_delivered == 0 && is_nearly {
        b.s.back_delivered = b.ack.delivered;
    }
    b.s.back_delivered != 0 && (brake_is_brief(b) || b.s.slot_prior >= b.s.back_delivered)
}

/// Judges a slot while the flow looks for its old rate. Hold ends when that rate is back, when the flow is allowed it
/// and does not use it, or when the search has lasted `hold_us` and the model knows no higher rate. A queue means
/// that the allowed rate is above what the path carries, so the flow drains again.
fn brake_hold(b: &mut BrakeAck, bw: u64) {
    let nearly = gain_apply(b.s.target_bw, GAIN_UNIT.saturating_sub(b.p.rate));
    let mut is_over = brake_is_back(b, bw >= nearly) || (brake_is_unused(b) && b.s.bw >= b.s.target_bw);
    if brake_is_inflated(b) {
        brake_enter_drain(b, bw);
        return;
    }
    let raised = brake_raised_bw(b, bw);
    if raised > b.s.bw {
        b.s.raise_rounds = b.s.rounds;
    }
    b.s.bw = raised;
    is_over |= b.ack.now_us.saturating_sub(b.s.entry_us) > b.p.hold_us && b.max_bw <= b.s.bw;
    if is_over {
        brake_release(b.s);
    }
}

/// Judges a slot that is over, by the rules of the mode. If half of its time was a single gap between two ACKs, it
/// shows a stall and not a rate, so it is ignored.
fn brake_judge_slot(b: &mut BrakeAck, span_us: u64) {
    if b.s.slot_gap_us.saturating_mul(2) > span_us {
        return;
    }
    let bw = bw_from(b.ack.delivered.saturating_sub(b.s.slot_delivered), span_us);
    if b.s.mode == BrakeMode::Hold {
        brake_hold(b, bw);
    } else if b.s.slot_is_app_limited {
        b.s.lossy_slots = 0;
    } else if b.s.mode == BrakeMode::Drain {
        brake_drain(b, bw);
    } else {
        brake_watch(b, bw, span_us);
    }
    b.s.last_bw = bw;
}

/// Notes the pace of this round and of the one before. Data arrives a round after it was sent, so a slow slot is only
/// a sign of a slow path if the flow did send faster.
fn brake_note_pacing(b: &mut BrakeAck) {
    let paced_bw = gain_apply(brake_bw(b.s, b.bw), brake_gain(b.s.mode, b.pacing_gain));
    if b.is_round_start {
        b.s.paced_bw_before = b.s.paced_bw;
        b.s.paced_bw = paced_bw;
        b.s.rounds += u64::from(b.s.mode != BrakeMode::Watch);
    }
    b.s.paced_bw = b.s.paced_bw.min(paced_bw);
}

/// Processes one ACK, after the controller has updated its model and before it sets its rate and window. It is the
/// only entry to the brake. Outside the phases that show what the path can do, each ACK begins a new slot.
pub(crate) fn brake_on_ack(b: &mut BrakeAck) {
    let span_us = b.ack.now_us.saturating_sub(b.s.slot_us);
    brake_note_pacing(b);
    if b.is_marking {
        b.s.marked_start = b.ack.delivered;
        b.s.marked_end = b.ack.delivered.saturating_add(b.ack.inflight);
    }
    if b.s.mode == BrakeMode::Drain && b.s.quiet_delivered == 0 && b.ack.inflight <= brake_window(b) {
        b.s.quiet_delivered = b.ack.delivered;
    }
    if b.is_watching && !brake_is_of_probe_rtt(b) {
        brake_note_ack(b);
        if span_us >= brake_slot_us(b)
            && b.s.slot_acks >= b.p.slot_min_acks
            && brake_has_slot_data(b, span_us)
        {
            brake_judge_slot(b, span_us);
            brake_start_slot(b);
        }
    } else {
        brake_start_slot(b);
    }
    b.s.last_us = b.ack.now_us;
    b.s.window = if b.s.mode == BrakeMode::Watch { u64::MAX } else { brake_window(b) };
}
