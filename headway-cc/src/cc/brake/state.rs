//! The brake's modes, its parameters and what it remembers of a connection.
//!
//! All of it is part of a controller's row: the traces, the C twin and `headway load --set` know these fields by the
//! names here with `brake_` before them. How they are used is in `brake.rs`.

use crate::cc::fixed::{GAIN_UNIT, USEC_PER_SEC};
use crate::cc::row::{row, word};

word! {
/// What the brake does ([`Brake::mode`]).
pub enum BrakeMode {
    /// Off: slots are judged and averaged into the baseline, and the flow is not limited.
    #[default]
    Watch = 0,
    /// On: the flow sends at the rate that arrives, so that its queue drains.
    Drain = 1,
    /// On: the queue is gone, and the allowed rate rises for as long as no new queue appears.
    Hold = 2,
}
}

impl BrakeMode {
    /// Whether the brake may go from this mode to `next`. Each line gives one reason to change; a change that is not
    /// listed would be a defect.
    pub(super) const fn may_become(self, next: Self) -> bool {
        use BrakeMode::*;
        match (self, next) {
            // The path has become slower than the model, and the difference stands in its queue.
            (Watch, Drain) => true,
            // The queue is gone: from here on the flow looks for the rate that the path has now.
            (Drain, Hold) => true,
            // Our share of the queue is gone and the queue is still there: it is somebody else's, and yielding to it
            // would only give the path away.
            (Drain, Watch) => true,
            // The bound was raised above what the path carries, and the queue is back.
            (Hold, Drain) => true,
            // The old rate is back, or was looked for long enough: the model is right again.
            (Hold, Watch) => true,
            _ => false,
        }
    }
}

row! {
/// The brake's parameters. Fractions and factors are in the format of gains (times [`GAIN_UNIT`]).
pub struct BrakeParams "brake_" {
    /// Whether the flow yields when the path becomes slower: 1 yes, 0 no.
    is_on: bool as ["brake"],
    /// How long a slot of ACKs lasts at least while the brake is off, as a part of the minimum RTT. Shorter slots
    /// have too few ACKs to tell a rate, longer ones see a slower path later.
    slot: u64 = GAIN_UNIT / 16,
    /// How long a slot of ACKs lasts at least while the brake is on, as a part of the minimum RTT. Less arrives
    /// then, so a slot needs longer to tell a rate.
    slot_braked: u64 = GAIN_UNIT / 8,
    /// Fewest ACKs of a slot. ACKs that come together count as one, because a bunch of ACKs tells no rate.
    slot_min_acks: u64 = 3,
    /// Segments that a slot delivers at least. Fewer tell no rate, but a slot may also end without them when twice as
    /// many should have arrived, because then the path has become slower.
    slot_min_segments: u64 = 8,
    /// While the brake is off, an RTT counts as a queue when it is above the baseline by more than this part of the
    /// minimum RTT.
    rtt: u64 = GAIN_UNIT / 16,
    /// The same while the brake is on. It is larger, because the brake's own search for more bandwidth makes small
    /// queues.
    rtt_braked: u64 = GAIN_UNIT / 8,
    /// An RTT must also be above the baseline by more than this time to count as a queue. On short paths a part of
    /// the RTT is less than the scheduling delays of the hosts.
    rtt_us: u64 = 500,
    /// A slot is slow when its rate is below the expected one by more than this part. Smaller differences are within
    /// the noise of the samples.
    rate: u64 = GAIN_UNIT / 8,
    /// Rate and RTT must also differ from the baseline by this many mean deviations. On noisy paths the other margins
    /// are reached by chance.
    deviations: u64 = 4,
    /// A slow slot that lost more than this part of what arrived is lossy. Loss stands for a queue where the buffer
    /// is too short to hold one.
    loss: u64 = GAIN_UNIT / 8,
    /// Number of lossy slots in a row that put the brake on without a longer RTT. A single one may be chance.
    loss_slots: u64 = 2,
    /// Weight of the newest slot in the averages of the baseline. A larger weight would let noise, or a slower path,
    /// become the baseline.
    memory: u64 = GAIN_UNIT / 32,
    /// Once the queue is gone, the allowed rate is this times what arrives. It must be above 1, or the flow would
    /// never see that the path has become faster.
    grow: u64 = GAIN_UNIT * 5 / 4,
    /// The same factor once more arrives than the slower path let through. The path has become faster then, and the
    /// old rate is likely back.
    grow_fast: u64 = 4 * GAIN_UNIT,
    /// Rounds without a queue and without more data after which the allowed rate rises all the same. It also limits
    /// how many RTTs the brake may have been on for the model to count as still knowing the old rate.
    patience: u64 = 4,
    /// How long the brake looks for the old rate at least before it gives up. After that the model's own probes take
    /// over.
    hold_us: u64 = 30 * USEC_PER_SEC,
    /// Segments that the sender's bursts add to the queue at any rate. They are part of every window, so they must
    /// not be taken for a queue.
    extra_segments: u64 = 2,
    /// How many further drops of the path's rate are believed while one queue drains. Without a limit another flow
    /// that fills a deep buffer would look like one drop after the other, and the flow would yield to it for long.
    max_further_drops: u64 = 4,
    /// Weight in the averages of the baseline of a slot whose RTT is above them and whose rate is below. A slow fall of
    /// the rate begins like that, and with the other weight the baseline would follow it.
    memory_worse: u64 = GAIN_UNIT / 256,
    /// Time over which the long mean of the RTT goes, which shows whether other flows keep a queue. A longer one takes
    /// the queue at the start of the connection for theirs, a shorter one the beginning of a slow fall. 0: every queue
    /// is learned, and with it a slow fall of the rate.
    long_us: u64 = 5 * USEC_PER_SEC,
    /// Other flows keep a queue when the long mean is above the minimum RTT by more than this part of it. A flow by
    /// itself keeps less while the path does not become slower.
    shared: u64 = GAIN_UNIT / 4,
}
}

impl BrakeParams {
    /// The defaults with the brake on.
    pub fn on() -> Self {
        Self { is_on: true, ..Self::default() }
    }
}

row! {
/// What the brake remembers of a connection. Data is in units, bandwidths are in the format of [`crate::cc::fixed`].
pub struct Brake "brake_" {
    /// Whether the brake is off (watch), drains the queue, or looks for the old rate (hold).
    mode: BrakeMode,
    /// Bandwidth that the controller uses instead of the model's while the brake is on.
    bw: u64,
    /// Upper bound of the window, in units of data; `u64::MAX` while the brake is off.
    window: u64,
    /// When the slot began, in microseconds.
    slot_us: u64,
    /// `delivered` when the slot began.
    slot_delivered: u64,
    /// `lost` when the slot began.
    slot_lost: u64,
    /// `delivered_ce` when the slot began.
    slot_ce: u64,
    /// Smallest `rs_prior_delivered` among the slot's ACKs: the value of `delivered` when the oldest of their packets
    /// was sent.
    slot_prior: u64,
    /// ACKs of the slot so far, where ACKs that came together count as one.
    slot_acks: u64,
    /// When the last ACK that `slot_acks` counts came, in microseconds.
    slot_ack_us: u64,
    /// Longest time between two ACKs of the slot, in microseconds.
    slot_gap_us: u64,
    /// Smallest RTT of the slot, in microseconds; [`NO_RTT`](crate::cc::NO_RTT) before its first sample.
    slot_rtt_us: u64,
    /// Whether the slot has samples that were limited by the application, which say nothing about the path's rate.
    slot_is_app_limited: bool,
    /// Whether the slot has samples that are marked as application-limited only because ProbeRTT marked what was in
    /// flight.
    slot_is_marked: bool,
    /// `delivered` when ProbeRTT last marked what is sent as application-limited.
    marked_start: u64,
    /// The mark lasts until `delivered` exceeds this, because it also covers what was in flight when it was set.
    marked_end: u64,
    /// When the previous ACK came, in microseconds.
    last_us: u64,
    /// Rate of the previous slot; 0 where there is none, or where it was measured before the path became slower.
    last_bw: u64,
    /// Baseline RTT: the mean of the slots' smallest RTTs, in microseconds; 0 while it is not known.
    usual_rtt_us: u64,
    /// Mean deviation of the slots' smallest RTTs from the baseline, in microseconds.
    usual_rtt_dev_us: u64,
    /// Baseline rate: the mean of the slots' rates; 0 while it is not known.
    usual_bw: u64,
    /// Mean deviation of the slots' rates from the baseline.
    usual_bw_dev: u64,
    /// Mean RTT of the last seconds, in 1024ths of a microsecond; 0 while it is not known.
    long_rtt: u64,
    /// Lowest bandwidth at which the flow has paced in this round.
    paced_bw: u64,
    /// Lowest bandwidth at which the flow paced in the round before.
    paced_bw_before: u64,
    /// Slots in a row that were slow and lossy.
    lossy_slots: u64,
    /// The old rate: the model's largest bandwidth when the brake was put on.
    target_bw: u64,
    /// The slower path's rate: what arrived when the queue was gone.
    base_bw: u64,
    /// When the brake was put on, in microseconds.
    entry_us: u64,
    /// Longest RTT, in microseconds, since the brake was put on, or since the end of the last round that had no more
    /// in flight than the window allows.
    queue_rtt_us: u64,
    /// `delivered` when inflight had come down to the window, or when the last round at that level ended; 0 before.
    quiet_delivered: u64,
    /// Further drops of the path's rate since the flow began to drain this queue.
    further_drops: u64,
    /// `delivered` when data first arrived at the old rate again; 0 before.
    back_delivered: u64,
    /// Value of `rounds` when the allowed rate was raised last.
    raise_rounds: u64,
    /// Times the brake was put on.
    entries: u64,
    /// Rounds in which it was on.
    rounds: u64,
    /// Times it was let go because the old rate was back or could not be found.
    releases: u64,
    /// Times it was let go because the queue belonged to other flows.
    false_entries: u64,
}
}
