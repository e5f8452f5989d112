//! The loss model: losses that come as often without a queue as with one are the path's, and are not answered. None of it
//! is in the draft, and with `loss_model` off it changes nothing.
//!
//! **Why.** A radio link loses packets however slowly one sends. The draft takes more than 2 % of a probe for a full buffer
//! and lowers its bounds in every round with a loss, so that at 3 % of random loss a flow keeps a third of the link. To
//! overlook losses instead fills short buffers and takes everything from flows that yield: what is needed is to know which
//! losses are our own.
//!
//! **How.** A full buffer loses packets while the queue is long, and the RTTs of the packets beside the lost ones show it.
//! So losses are counted at ACKs, by whether the RTT of an eighth of a round trip shows a queue, in rounds without a probe ("quiet"
//! ones); the part lost at ACKs without a queue is the path's own, `share`. As much is tolerated: it ends no probe and lowers no
//! bound.
//!
//! ```text
//!                       RTT without a queue             RTT with one
//!   quiet rounds        the path's own loss: `share`    more than `share`: a buffer or an AQM drops
//!   a round after UP    more than `share`: a policer    (not counted: a probe may overflow)
//! ```
//!
//! **When it ends.** At once, when more is lost with a queue than without (a buffer or an AQM drops), or after a probe (a policer does,
//! which has no queue that could be seen), or than when the tolerance began; also at a CE mark, at a much smaller RTT, and after two
//! probes without a queue. Each end holds twice as long as the one before.
//!
//! **The smallest RTT.** A flow that begins in a full queue takes that for the path. So the smallest RTT of the last minute or two
//! counts, and not the draft's of 10 s, and what was learned is forgotten when a much smaller one comes: all flows yield
//! at once in ProbeRTT, and then it does. Until then such a flow may overlook losses that are its own. So Startup, which may
//! go on in spite of losses while the rate grows, does so only where few are lost (`growth_share`): a flow that begins where the
//! queue is full grows at the expense of the others, and loses a quarter of what it sends.
//!
//! **What is lost is sent on top.** The bandwidth is what arrived. A flow that paces at it loses the path's share of that again,
//! so it paces at the bandwidth divided by the part that arrives, while it neither probes nor yields and no queue shows.
//!
//! **A full path shows a queue.** In a buffer of a few packets, or behind a policer, no RTT tells a full path from an empty one,
//! and what others lose to a flow that tolerates looks like the path's own loss. So a flow that tolerates losses must meet a
//! queue when it probes: the ladder's, or one that lengthens all RTTs of a round. If two probes since the last queue have ended without
//! one, and neither too much loss nor the application has ended them, the tolerance ends. Where no queue has been seen each end holds
//! for much longer, because such flows would take turns in taking the path from those that yield.
//!
//! **Limits.** Flows with few packets in flight lose a part of them by their own growth, about as the inverse square of the
//! window, and in a very short buffer no RTT shows it. So the share that is tolerated is no more than a part
//! of the window (`share_per_segment`), and flows with small windows answer random loss as the draft does. Many small
//! flows behind one policer see the same losses whatever each of them does, which no sender can tell from random loss. Losses that
//! only a timer finds, and no ACK, are not counted.

#[cfg(test)]
mod tests;

use super::control::{bbr3_bdp_multiple, bbr3_segments};
use super::{Conn, Mode};
use crate::cc::NO_RTT;
use crate::cc::brake::{brake_span_us, brake_step};
use crate::cc::fixed::{GAIN_UNIT, gain_apply};
use crate::cc::row::row;

row! {
/// The loss model's parameters. Gains, shares and fractions are times [`GAIN_UNIT`].
pub struct LossModelParams "loss_" {
    /// Whether losses that do not depend on the queue are tolerated: 1 yes, 0 no, which is the draft.
    is_on: bool as ["loss_model"],
    /// An RTT shows a queue when it is above the smallest one by more than this part of it and by more than `loss_low_us`.
    low_rtt: u64 = GAIN_UNIT / 64,
    /// It must also be above the smallest RTT by more than this time, because hosts and links delay single packets by that much.
    /// After a loss a Linux receiver holds its ACKs back for up to 1 ms, to send fewer (`tcp_comp_sack_delay_ns`).
    low_us: u64 = 1250,
    /// How long a slot of ACKs lasts, as a part of the minimum RTT. The smallest RTT of this slot and of the one before counts.
    /// Packets leave a host in small groups, so single RTTs differ by the time of some segments, and more so after a loss, when each
    /// packet is acknowledged by itself.
    slot: u64 = GAIN_UNIT / 16,
    /// For how long the smallest RTT counts, and twice as long at most. The draft forgets its minimum after 10 s, when others
    /// may keep a queue that has not been empty since.
    base_us: u64 = 60_000_000,
    /// Weight of an ACK in the usual RTT. An RTT above the usual one shows a queue, too, so that in a short buffer the
    /// longer half of the RTTs counts as a queue.
    memory: u64 = GAIN_UNIT / 64,
    /// Segments that must have been sent in quiet rounds before their losses are judged.
    min_sent: u64 = 512,
    /// Segments of them that must have been lost.
    min_lost: u64 = 24,
    /// The counts are halved when so many segments were lost without a queue, so that a path that changes is believed.
    window_lost: u64 = 64,
    /// They are halved, too, when so many segments were sent without a queue.
    window_sent: u64 = 8192,
    /// Least share that is tolerated. Below it the draft's own tolerance is enough.
    min_share: u64 = GAIN_UNIT / 256,
    /// Largest share that is tolerated. More is no link that one would want to use.
    max_share: u64 = GAIN_UNIT * 15 / 100,
    /// Largest share that is tolerated, for each segment of the BDP: a flow with a small window loses more than that by its
    /// own growth.
    share_per_segment: u64 = GAIN_UNIT / 1000,
    /// More is lost than elsewhere when it is this many times as much and `loss_limit_deviations` more.
    limit: u64 = GAIN_UNIT * 3 / 2,
    /// Standard deviations of chance that are allowed for in this comparison. With two, real Linux TCP ended the tolerance by
    /// chance every five seconds.
    limit_deviations: u64 = 3,
    /// How much of a flight or round may be lost, as a multiple of the share; `loss_tolerated_deviations` are added. A round that
    /// loses more is answered as the draft says.
    tolerated: u64 = GAIN_UNIT * 5 / 4,
    /// Standard deviations of chance that a flight or round may lose above that.
    tolerated_deviations: u64 = 3,
    /// Packets that are lost together, in the mean. A larger number allows for more chance.
    burst: u64 = 2,
    /// Rounds for which losses are answered after the tolerance has ended; doubled each time.
    hold_rounds: u64 = 64,
    /// An RTT that is above the smallest one by more than this part of it shows that the path is full.
    full_rtt: u64 = GAIN_UNIT / 8,
    /// The tolerance ends after so many probes, since the last queue, in which neither such an RTT nor one of the ladder's slots showed one.
    blind_probes: u64 = 2,
    /// The hold is this many times as long where no queue has been seen.
    blind_hold: u64 = 16,
    /// Startup overlooks losses while a round loses no more than is tolerated on a path that loses this part. A flow that begins in
    /// a queue that others keep full sees no longer RTT and grows at their expense, but loses a quarter of what it sends.
    growth_share: u64 = GAIN_UNIT / 16,
    /// Most rounds in a row that Startup leaves out because too little was in flight for the rate to grow. A receiver that waits for a
    /// lost packet opens its window again before that; a window that stays small is what the flow can have.
    small_rounds: u64 = 16,
    /// Whether a flow that sends at its bandwidth, in ProbeBW_CRUISE and ProbeBW_REFILL, sends what the path loses on top: 1 yes,
    /// 0 no.
    compensate: bool = true,
}
}

impl LossModelParams {
    /// The defaults with the loss model on.
    pub fn on() -> Self {
        Self { is_on: true, ..Self::default() }
    }
}

row! {
/// What the loss model remembers of a connection. Data is in the transport's units.
pub struct LossModel "loss_" {
    /// The part that is lost without a queue, a gain; 0 while losses are answered.
    share: u64,
    /// `share` when it was tolerated first.
    first_share: u64,
    /// When the slot began, in microseconds; 0 before the first.
    slot_us: u64,
    /// Its smallest RTT, in microseconds; [`NO_RTT`] before its first sample.
    slot_rtt_us: u64,
    /// That of the slot before.
    last_slot_rtt_us: u64,
    /// When the span of the smallest RTT began, in microseconds; 0 before the first.
    base_stamp_us: u64,
    /// Smallest RTT of this span, in microseconds.
    base_rtt_us: u64,
    /// That of the span before.
    last_base_rtt_us: u64,
    /// Mean of these RTTs in quiet rounds, in 256ths of a microsecond; 0 before the first.
    usual_rtt: u64,
    /// Quiet rounds: what ACKs without a queue reported, as delivered or as lost.
    quiet_low_sent: u64,
    /// Lost of that.
    quiet_low_lost: u64,
    /// What was sent of that in each round, times the segments of the BDP then.
    quiet_low_bdp: u64,
    /// Quiet rounds: what ACKs with a queue reported.
    quiet_high_sent: u64,
    /// Lost of that.
    quiet_high_lost: u64,
    /// Rounds after those of a probe: what ACKs without a queue reported.
    up_sent: u64,
    /// Lost of that.
    up_lost: u64,
    /// Of this round, at ACKs without a queue.
    low_sent: u64,
    /// Lost of that.
    low_lost: u64,
    /// Of this round, at ACKs with a queue.
    high_sent: u64,
    /// Lost of that.
    high_lost: u64,
    /// Whether the flow probed in this round.
    is_up: bool,
    /// Whether it did in the round before.
    was_up: bool,
    /// Rounds in a row without a probe that are over.
    quiet_rounds: u64,
    /// Of this loss round: what was reported, as delivered or as lost.
    round_sent: u64,
    /// Of this loss round: lost.
    round_lost: u64,
    /// Of this loss round: what ACKs with a queue reported.
    round_high: u64,
    /// Whether the loss round before showed a queue at any ACK, or lost more than `growth_share` allows.
    was_full: bool,
    /// Times that the tolerance has ended, up to six, less half at each halving of the counts.
    failures: u64,
    /// `round_count` until which losses are answered.
    hold_round: u64,
    /// Whether a queue has shown since the last probe that the path is full.
    saw_full: bool,
    /// Whether the application has limited the flow since then.
    is_app_limited: bool,
    /// Probes since such a queue that ended without one while losses were tolerated.
    blind_probes: u64,
    /// Whether such a queue has been seen at all since the tolerance last ended for want of one.
    shows_full: bool,
    /// Rounds in a row that Startup has left out because too little was in flight.
    small_rounds: u64,
    /// Largest of the smallest RTTs that counted since the counts began, in microseconds; 0 before the first.
    counted_base_us: u64,
}
}

/// Parts of a microsecond in which the usual RTT is kept, and of a unit of data in which losses are compared.
const PARTS: u64 = 256;
/// The hold is doubled so often at most.
const MAX_FAILURES: u64 = 6;
/// Rounds without a probe before one is quiet: what a probe has queued is gone then.
const QUIET_AFTER: u64 = 2;

/// Whether more is lost of `sent` than `times` this share of it, by more than some standard deviations of chance: those of
/// a binomial distribution whose losses come in bursts, `lost - times·share·sent > deviations·sqrt(share·sent·burst)`. Counted in parts of a unit, because a share of a few packets is
/// less than one.
fn loss_is_above(c: &Conn, lost: u64, sent: u64, share: u64, times: u64, deviations: u64) -> bool {
    let mean = gain_apply(sent.saturating_mul(PARTS), share);
    let above = lost.saturating_mul(PARTS).saturating_sub(gain_apply(mean, times));
    let variance = mean.saturating_mul(bbr3_segments(c, c.p.loss.burst).saturating_mul(PARTS));
    above.saturating_mul(above) > variance.saturating_mul(deviations.saturating_mul(deviations))
}

/// Whether more is lost of some part than its share, by the limit that ends the tolerance. A segment is allowed for.
fn loss_is_over_limit(c: &Conn, lost: u64, sent: u64, share: u64) -> bool {
    let lost = lost.saturating_sub(bbr3_segments(c, 1));
    loss_is_above(c, lost, sent, share, c.p.loss.limit, c.p.loss.limit_deviations)
}

/// Whether more is lost of a flight or round than is tolerated on a path that loses this share.
fn loss_is_over_tolerance(c: &Conn, lost: u64, sent: u64, share: u64) -> bool {
    loss_is_above(c, lost, sent, share, c.p.loss.tolerated, c.p.loss.tolerated_deviations)
}

/// Whether more is lost than the path loses by itself. While nothing is tolerated, any loss is more.
pub(super) fn bbr3_is_loss_ours(c: &Conn, lost: u64, sent: u64) -> bool {
    loss_is_over_tolerance(c, lost, sent, c.bbr.loss.share)
}

/// Whether the losses of the loss round that ends are no more than the path's, and no queue asks the flow to yield.
pub(super) fn bbr3_is_loss_round_tolerated(c: &Conn) -> bool {
    let l = &c.bbr.loss;
    l.share != 0 && l.round_high <= l.round_sent / 2 && !bbr3_is_loss_ours(c, l.round_lost, l.round_sent)
}

/// Begins the counts of a loss round.
pub(super) fn bbr3_start_loss_round(c: &mut Conn) {
    let l = &c.bbr.loss;
    let is_lossy = loss_is_over_tolerance(c, l.round_lost, l.round_sent, c.p.loss.growth_share);
    let l = &mut c.bbr.loss;
    l.was_full = l.round_high != 0 || is_lossy;
    l.round_sent = 0;
    l.round_lost = 0;
    l.round_high = 0;
}

/// Gathers this ACK's RTT. A slot ends with the first ACK that comes later.
fn loss_gather_rtt(c: &mut Conn) {
    let l = &mut c.bbr.loss;
    if l.slot_us == 0 || c.ack.now_us.saturating_sub(l.slot_us) >= gain_apply(c.bbr.min_rtt_us, c.p.loss.slot)
    {
        l.last_slot_rtt_us = if l.slot_us == 0 { NO_RTT } else { l.slot_rtt_us };
        l.slot_us = c.ack.now_us;
        l.slot_rtt_us = NO_RTT;
    }
    l.slot_rtt_us = l.slot_rtt_us.min(c.ack.rs_rtt_us);
}

/// The RTT that counts at this ACK, in microseconds; [`NO_RTT`] where there is none.
fn loss_rtt_us(c: &Conn) -> u64 {
    c.bbr.loss.slot_rtt_us.min(c.bbr.loss.last_slot_rtt_us)
}

/// The smallest RTT of the last minute or two, in microseconds; [`NO_RTT`] before the first.
fn loss_base_us(c: &Conn) -> u64 {
    if c.bbr.loss.base_stamp_us == 0 {
        NO_RTT
    } else {
        c.bbr.loss.base_rtt_us.min(c.bbr.loss.last_base_rtt_us)
    }
}

/// How far an RTT may be above the smallest one without showing a queue. A segment and a quarter may always stand in it,
/// because packets that arrive together leave one after the other.
fn loss_margin_us(c: &Conn) -> u64 {
    let base_us = loss_base_us(c);
    let segment_us = (brake_span_us(c.bbr.max_bw, bbr3_segments(c, 5)) / 4).min(base_us / 8);
    gain_apply(base_us, c.p.loss.low_rtt).max(c.p.loss.low_us).max(segment_us)
}

/// Whether the RTT shows no queue at this ACK.
fn loss_is_queue_low(c: &Conn) -> bool {
    let (rtt_us, base_us, usual) = (loss_rtt_us(c), loss_base_us(c), c.bbr.loss.usual_rtt);
    if rtt_us >= NO_RTT || base_us >= NO_RTT {
        return false;
    }
    // Timers round.
    let slack_us = base_us / 256;
    let is_usual = usual == 0 || rtt_us <= (usual / PARTS).saturating_add(slack_us);
    is_usual && rtt_us <= base_us.saturating_add(loss_margin_us(c)).saturating_add(slack_us)
}

/// Whether the RTT shows a queue at this ACK. One that acknowledges only what was sent again has no RTT, and says neither.
fn loss_is_queue_high(c: &Conn) -> bool {
    loss_rtt_us(c) < NO_RTT && !loss_is_queue_low(c)
}

/// Whether the smallest RTT of the round that is over shows that the path is full. A single RTT may be long because the
/// receiver has delayed its ACK.
fn loss_is_path_full(c: &Conn) -> bool {
    let (rtt_us, base_us) = (c.bbr.last_round_rtt_us, loss_base_us(c));
    let margin_us = gain_apply(base_us, c.p.loss.full_rtt).max(loss_margin_us(c));
    rtt_us < NO_RTT && rtt_us > base_us.saturating_add(margin_us)
}

/// Notes that a queue shows that the path is full.
pub(super) fn bbr3_note_full_path(c: &mut Conn) {
    if c.p.loss.is_on {
        c.bbr.loss.saw_full = true;
        c.bbr.loss.shows_full = true;
        c.bbr.loss.blind_probes = 0;
    }
}

/// Whether the rate still grows in Startup, and neither this ACK nor the loss round before it looks like a full path: losses then are
/// not those of a full buffer.
pub(super) fn bbr3_is_growth_free(c: &Conn) -> bool {
    c.p.loss.is_on && c.bbr.full_bw_count == 0 && !c.bbr.loss.was_full && !loss_is_queue_high(c)
}

/// Whether too little was in flight in Startup for the rate to grow by a quarter, so that its not growing says nothing about the
/// path: a round trip delivers no more than what is in flight and not lost. A receiver that waits for a packet whose
/// retransmission was lost, too, closes its window for some rounds, and a timeout closes the congestion window. Without a loss,
/// where a queue shows, and after some such rounds in a row the draft's rule holds, so that a flow with a small window leaves Startup.
/// Where it is not known what was in flight it holds, too.
pub(super) fn bbr3_is_flight_too_small(c: &Conn) -> bool {
    let arrived = c.ack.rs_tx_in_flight.saturating_sub(c.ack.rs_lost);
    let grown = gain_apply(c.bbr.full_bw, c.p.full_bw_gain);
    let may_tell = c.bbr.state != Mode::Startup || c.ack.lost == 0 || loss_is_queue_high(c);
    let is_known = c.ack.rs_tx_in_flight != 0 && c.bbr.loss.small_rounds < c.p.loss.small_rounds;
    c.p.loss.is_on && !may_tell && is_known && arrived < bbr3_bdp_multiple(c, grown, GAIN_UNIT)
}

/// The pacing gain with what the path loses on top, while the flow sends at the bandwidth and no queue shows. Without it less
/// arrives than the bandwidth that was measured.
pub(super) fn bbr3_loss_gain(c: &Conn, gain: u64) -> u64 {
    let share = c.bbr.loss.share.min(GAIN_UNIT / 2);
    let is_even = matches!(c.bbr.state, Mode::ProbeBwCruise | Mode::ProbeBwRefill);
    if c.p.loss.compensate && share != 0 && is_even && loss_is_queue_low(c) {
        gain.saturating_mul(GAIN_UNIT) / (GAIN_UNIT - share)
    } else {
        gain
    }
}

/// Learns the RTT of quiet rounds.
fn loss_learn_rtt(c: &mut Conn) {
    let rtt = loss_rtt_us(c);
    if c.bbr.loss.quiet_rounds < QUIET_AFTER || c.bbr.loss.is_up || rtt >= NO_RTT {
        return;
    }
    let rtt = rtt.saturating_mul(PARTS);
    let usual = c.bbr.loss.usual_rtt;
    c.bbr.loss.usual_rtt = if usual == 0 { rtt } else { brake_step(usual, rtt, c.p.loss.memory) };
}

/// Counts what this ACK says was delivered and lost.
fn loss_count(c: &mut Conn) {
    let (sent, lost) = (c.ack.newly_acked.saturating_add(c.ack.newly_lost), c.ack.newly_lost);
    let (is_low, has_rtt) = (loss_is_queue_low(c), loss_rtt_us(c) < NO_RTT);
    let l = &mut c.bbr.loss;
    l.is_app_limited |= c.ack.rs_is_app_limited;
    l.round_sent = l.round_sent.saturating_add(sent);
    l.round_lost = l.round_lost.saturating_add(lost);
    if is_low {
        l.low_sent = l.low_sent.saturating_add(sent);
        l.low_lost = l.low_lost.saturating_add(lost);
    } else if has_rtt {
        l.round_high = l.round_high.saturating_add(sent);
        l.high_sent = l.high_sent.saturating_add(sent);
        l.high_lost = l.high_lost.saturating_add(lost);
    }
}

/// Adds the counts of the round that is over to those of its kind. Where most ACKs of a round show a queue, the others say
/// nothing about a path without one.
fn loss_add_round(c: &mut Conn) {
    let segments = loss_bdp_segments(c);
    let l = &mut c.bbr.loss;
    if l.was_up {
        l.up_sent = l.up_sent.saturating_add(l.low_sent);
        l.up_lost = l.up_lost.saturating_add(l.low_lost);
    } else if !l.is_up && l.quiet_rounds >= QUIET_AFTER {
        l.quiet_high_sent = l.quiet_high_sent.saturating_add(l.high_sent);
        l.quiet_high_lost = l.quiet_high_lost.saturating_add(l.high_lost);
        if l.high_sent <= l.low_sent {
            l.quiet_low_sent = l.quiet_low_sent.saturating_add(l.low_sent);
            l.quiet_low_lost = l.quiet_low_lost.saturating_add(l.low_lost);
            l.quiet_low_bdp = l.quiet_low_bdp.saturating_add(l.low_sent.saturating_mul(segments));
        }
    }
}

/// Begins the counts of a round.
fn loss_start_round(c: &mut Conn) {
    let l = &mut c.bbr.loss;
    l.quiet_rounds = if l.is_up { 0 } else { l.quiet_rounds + 1 };
    l.was_up = l.is_up;
    l.is_up = false;
    l.low_sent = 0;
    l.low_lost = 0;
    l.high_sent = 0;
    l.high_lost = 0;
}

/// Keeps this part of all counts, a gain: a half, or nothing.
fn loss_keep(c: &mut Conn, part: u64) {
    let l = &mut c.bbr.loss;
    l.quiet_low_sent = gain_apply(l.quiet_low_sent, part);
    l.quiet_low_lost = gain_apply(l.quiet_low_lost, part);
    l.quiet_low_bdp = gain_apply(l.quiet_low_bdp, part);
    l.quiet_high_sent = gain_apply(l.quiet_high_sent, part);
    l.quiet_high_lost = gain_apply(l.quiet_high_lost, part);
    l.up_sent = gain_apply(l.up_sent, part);
    l.up_lost = gain_apply(l.up_lost, part);
}

/// Ends the tolerance, and the counts begin anew.
fn loss_fail(c: &mut Conn) {
    c.bbr.loss.share = 0;
    let times = if c.bbr.loss.shows_full { 1 } else { c.p.loss.blind_hold };
    let hold = c.p.loss.hold_rounds.saturating_mul(times << c.bbr.loss.failures.min(MAX_FAILURES));
    c.bbr.loss.hold_round = c.bbr.round_count.saturating_add(hold);
    c.bbr.loss.failures = (c.bbr.loss.failures + 1).min(MAX_FAILURES);
    c.bbr.loss.blind_probes = 0;
    loss_keep(c, 0);
}

/// Ends the tolerance for a sign that may come several times in a row. If nothing was tolerated, nothing has failed: the counts begin
/// anew, and losses are answered for the usual time.
fn loss_end(c: &mut Conn) {
    if c.bbr.loss.share != 0 {
        loss_fail(c);
        return;
    }
    let hold_round = c.bbr.round_count.saturating_add(c.p.loss.hold_rounds);
    c.bbr.loss.hold_round = c.bbr.loss.hold_round.max(hold_round);
    loss_keep(c, 0);
}

/// Judges a probe when the round after it is over: a path that is full must have shown a queue. A probe that lost too much, or that
/// the application limited, did not fill the path.
fn loss_judge_probe(c: &mut Conn) {
    if loss_is_path_full(c) {
        bbr3_note_full_path(c);
    }
    let l = &mut c.bbr.loss;
    if !l.was_up || l.is_up {
        return;
    }
    let is_blind = !l.saw_full && !l.is_app_limited && !c.bbr.prev_probe_too_high;
    l.blind_probes += u64::from(is_blind && l.share != 0);
    l.saw_full = false;
    l.is_app_limited = false;
    if l.blind_probes >= c.p.loss.blind_probes {
        l.shows_full = false;
        loss_fail(c);
    }
}

/// The share that is lost without a queue in quiet rounds.
fn loss_quiet_share(c: &Conn) -> u64 {
    c.bbr.loss.quiet_low_lost.saturating_mul(GAIN_UNIT) / c.bbr.loss.quiet_low_sent.max(1)
}

/// The BDP in segments.
fn loss_bdp_segments(c: &Conn) -> u64 {
    bbr3_bdp_multiple(c, c.bbr.max_bw, GAIN_UNIT) / bbr3_segments(c, 1)
}

/// Whether a share of this size may be tolerated. A flow whose losses are answered has soon only a few packets in flight, so
/// what counts is the BDP while the losses were counted, if that was larger. The tolerance begins after a probe whose next round had
/// no queue; it does not end when that is forgotten, as the counts are halved several times between two probes.
fn loss_may_tolerate(c: &Conn, share: u64) -> bool {
    let counted = c.bbr.loss.quiet_low_bdp / c.bbr.loss.quiet_low_sent.max(1);
    let segments = loss_bdp_segments(c).max(counted);
    let most = segments.saturating_mul(c.p.loss.share_per_segment).min(c.p.loss.max_share);
    let has_probed = c.bbr.loss.share != 0 || c.bbr.loss.up_sent != 0;
    share >= c.p.loss.min_share && share <= most && has_probed && c.ack.has_selective_acks
}

/// Whether the counts show that losses depend on what the flow does.
fn loss_depends_on_us(c: &Conn, share: u64) -> bool {
    let l = &c.bbr.loss;
    let (sent, lost) = (
        l.quiet_low_sent.saturating_add(l.quiet_high_sent),
        l.quiet_low_lost.saturating_add(l.quiet_high_lost),
    );
    loss_is_over_limit(c, l.up_lost, l.up_sent, share)
        || loss_is_over_limit(c, l.quiet_high_lost, l.quiet_high_sent, share)
        || (l.share != 0 && loss_is_over_limit(c, lost, sent, l.first_share))
}

/// Halves the counts when so much was sent, while there is nothing to judge: what a path lost long ago must not hide what it loses now.
fn loss_age(c: &mut Conn) {
    if c.bbr.loss.quiet_low_sent >= bbr3_segments(c, c.p.loss.window_sent) {
        loss_keep(c, GAIN_UNIT / 2);
    }
}

/// Judges the counts at the end of a round.
fn loss_judge(c: &mut Conn) {
    let l = &c.bbr.loss;
    let is_enough = l.quiet_low_sent >= bbr3_segments(c, c.p.loss.min_sent)
        && l.quiet_low_lost >= bbr3_segments(c, c.p.loss.min_lost);
    if c.bbr.round_count < l.hold_round || (l.share == 0 && !is_enough) {
        loss_age(c);
        return;
    }
    let share = loss_quiet_share(c);
    if loss_depends_on_us(c, share) {
        loss_fail(c);
        return;
    }
    let share = if loss_may_tolerate(c, share) { share } else { 0 };
    if c.bbr.loss.share == 0 {
        c.bbr.loss.first_share = share;
    }
    c.bbr.loss.share = share;
    if c.bbr.loss.quiet_low_lost >= bbr3_segments(c, c.p.loss.window_lost)
        || c.bbr.loss.quiet_low_sent >= bbr3_segments(c, c.p.loss.window_sent)
    {
        loss_keep(c, GAIN_UNIT / 2);
        c.bbr.loss.failures /= 2;
    }
}

/// Ends the tolerance when the smallest RTT is much smaller than while the losses were counted. A flow that begins where others keep a
/// queue takes it for the path until all of them yield at once, and what it has learned until then is not the path's. It is asked
/// once a round, because a queue that drains makes the RTT smaller by little with each ACK.
fn loss_judge_base(c: &mut Conn) {
    let base_us = loss_base_us(c);
    if base_us >= NO_RTT {
        return;
    }
    if base_us.saturating_add(loss_margin_us(c)) < c.bbr.loss.counted_base_us {
        loss_end(c);
        c.bbr.loss.counted_base_us = 0;
    }
    c.bbr.loss.counted_base_us = c.bbr.loss.counted_base_us.max(base_us);
}

/// Remembers the smallest RTT.
fn loss_update_base(c: &mut Conn) {
    let (now_us, rtt_us, base_us) = (c.ack.now_us, c.ack.rs_rtt_us, loss_base_us(c));
    if rtt_us >= NO_RTT {
        return;
    }
    let l = &mut c.bbr.loss;
    if base_us >= NO_RTT || now_us.saturating_sub(l.base_stamp_us) >= c.p.loss.base_us {
        l.last_base_rtt_us = if base_us >= NO_RTT { NO_RTT } else { l.base_rtt_us };
        l.base_rtt_us = NO_RTT;
        l.base_stamp_us = now_us;
    }
    l.base_rtt_us = l.base_rtt_us.min(rtt_us);
}

/// A CE mark comes from an AQM, which marks what it would drop: such losses are answered.
pub(super) fn bbr3_end_tolerance(c: &mut Conn) {
    if c.p.loss.is_on {
        loss_end(c);
    }
}

/// Counts this ACK, judges the round that it ends, and says whether losses are tolerated from now on.
pub(super) fn bbr3_update_loss_model(c: &mut Conn) -> bool {
    if !c.p.loss.is_on {
        return false;
    }
    let before = c.bbr.loss.share;
    loss_update_base(c);
    loss_gather_rtt(c);
    if c.bbr.round_start {
        loss_judge_base(c);
        loss_judge_probe(c);
        loss_add_round(c);
        loss_judge(c);
        loss_start_round(c);
    }
    c.bbr.loss.is_up |= c.bbr.state == Mode::Startup || c.bbr.state == Mode::ProbeBwUp;
    loss_learn_rtt(c);
    loss_count(c);
    before == 0 && c.bbr.loss.share != 0
}
