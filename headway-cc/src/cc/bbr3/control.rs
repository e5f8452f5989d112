//! Computes what the transport is told (§5.6): the pacing rate, the size of a burst and the window, and the volumes
//! that these are made of.
//!
//! All of it is computed on each ACK from the model (bandwidth and minimum RTT), from the gains of the state, and
//! from the bounds that losses have set. The rate keeps the queue short. The window limits what is in flight when the
//! model is wrong or ACKs are missing. The limit that the host sets on a window is applied last.

use super::{BBR3_INFINITY, Conn, Mode};
use crate::cc::NO_RTT;
use crate::cc::brake::{brake_gain, brake_span_us};
use crate::cc::fixed::{BW_SCALE, BW_UNIT, USEC_PER_SEC, bw_from, gain_apply, mul_shift};

/// A number of segments in the transport's unit of data, which is the packet for TCP and the byte for QUIC.
pub(super) fn bbr3_segments(c: &Conn, segments: u64) -> u64 {
    segments.saturating_mul(c.ack.smss.max(1))
}

/// How long the path takes for one segment, in microseconds. RTTs differ by as much without any queue.
pub(super) fn bbr3_segment_us(c: &Conn) -> u64 {
    brake_span_us(c.bbr.max_bw, bbr3_segments(c, 1))
}

/// The RTT that is above the minimum RTT by a part of it, in microseconds.
pub(super) fn bbr3_min_rtt_and(c: &Conn, part: u64) -> u64 {
    c.bbr.min_rtt_us.saturating_add(gain_apply(c.bbr.min_rtt_us, part))
}

/// Bytes in one unit of data: the MSS for TCP, 1 for QUIC.
pub(super) fn bbr3_unit_bytes(c: &Conn) -> u64 {
    c.ack.unit_bytes.max(1)
}

/// Thousandths of a value, rounded down. In packets this may be a packet less than the exact number, which makes
/// bounds and headroom smaller rather than larger.
pub(super) fn bbr3_permille(value: u64, permille: u64) -> u64 {
    value.saturating_mul(permille) / 1000
}

/// The smallest window: with fewer segments in flight, a receiver that acknowledges every second one would leave
/// the flow waiting for its delayed ACKs (§2.8 MinPipeCwnd).
pub(super) fn bbr3_min_pipe_cwnd(c: &Conn) -> u64 {
    bbr3_segments(c, c.p.min_pipe_cwnd)
}

/// Whether the flow is in the cycle of probes, where it knows the path's rate and only refines it (§5.3.3.9
/// IsInAProbeBWState).
pub(super) fn bbr3_is_in_a_probe_bw_state(c: &Conn) -> bool {
    c.bbr.state >= Mode::ProbeBwDown && c.bbr.state <= Mode::ProbeBwUp
}

/// Sets the gains of the state (§5.6.1): how fast it sends, and how much it may have in flight, in proportion to the
/// model.
fn bbr3_set_gains(c: &mut Conn) {
    let state = c.bbr.state;
    c.bbr.pacing_gain = c.p.cruise_pacing_gain;
    c.bbr.cwnd_gain = c.p.default_cwnd_gain;
    if state == Mode::Startup {
        c.bbr.pacing_gain = c.p.startup_pacing_gain;
    } else if state == Mode::Drain {
        c.bbr.pacing_gain = c.p.drain_pacing_gain;
    } else if state == Mode::ProbeBwDown {
        c.bbr.pacing_gain = c.p.down_pacing_gain;
    } else if state == Mode::ProbeBwUp {
        c.bbr.pacing_gain = c.p.up_pacing_gain;
        c.bbr.cwnd_gain = c.p.up_cwnd_gain;
    } else if state == Mode::ProbeRtt {
        c.bbr.cwnd_gain = c.p.probe_rtt_cwnd_gain;
    }
}

/// Changes the state. It is the only place that does, so that no state is entered with the gains of another. Debug
/// builds also check each change against the table of those that have a reason.
pub(super) fn bbr3_set_state(c: &mut Conn, state: Mode) {
    debug_assert!(c.bbr.state.may_become(state), "{:?} to {state:?}", c.bbr.state);
    c.bbr.state = state;
    bbr3_set_gains(c);
}

/// The BDP (bandwidth times minimum RTT, the volume that fills the path without a queue), times a gain (§5.6.4.2
/// BDPMultiple). It is rounded up, because a pipe that holds 3.2 packets is not full with 3. Before the first RTT
/// there is no BDP, and the initial window stands in for it.
pub(super) fn bbr3_bdp_multiple(c: &Conn, bw: u64, gain: u64) -> u64 {
    if c.bbr.min_rtt_us >= NO_RTT {
        return c.bbr.init_cwnd;
    }
    let bdp = gain_apply(bw.saturating_mul(c.bbr.min_rtt_us), gain);
    bdp.saturating_add(BW_UNIT - 1) >> BW_SCALE
}

/// Data that waits in the offload engines of both hosts, in units: without room for it a small window would be stuck
/// there (§5.5.8 UpdateOffloadBudget). A unit of several bytes is a packet, which means TCP; QUIC offloads less.
pub(super) fn bbr3_offload_budget(c: &Conn) -> u64 {
    let quanta = if bbr3_unit_bytes(c) > 1 { c.p.tcp_offload_quanta } else { c.p.quic_offload_quanta };
    quanta.saturating_mul(c.bbr.send_quantum)
}

/// Rounds a volume up to what real hosts need (§5.6.4.2 QuantizationBudget): room for offload, the smallest window,
/// and in ProbeBW_UP two segments more, because a quarter of a very small BDP is less than a packet.
pub(super) fn bbr3_quantization_budget(c: &Conn, inflight_cap: u64) -> u64 {
    let cap = inflight_cap.max(bbr3_offload_budget(c)).max(bbr3_min_pipe_cwnd(c));
    if c.bbr.state == Mode::ProbeBwUp {
        return cap.saturating_add(bbr3_segments(c, c.p.up_extra_segments));
    }
    cap
}

/// How much to have in flight for this bandwidth and gain, with the room that real hosts need (§5.6.4.2 Inflight).
pub(super) fn bbr3_inflight(c: &Conn, bw: u64, gain: u64) -> u64 {
    bbr3_quantization_budget(c, bbr3_bdp_multiple(c, bw, gain))
}

/// The long-term bound less a part that stays free, so that flows that come to the bottleneck find room without
/// losing packets first (§5.3.3.9 InflightWithHeadroom). At least one segment stays free.
pub(super) fn bbr3_inflight_with_headroom(c: &Conn) -> u64 {
    let longterm = c.bbr.inflight_longterm;
    if longterm == BBR3_INFINITY {
        return BBR3_INFINITY;
    }
    let headroom = bbr3_permille(longterm, c.p.headroom_permille).max(bbr3_segments(c, 1));
    longterm.saturating_sub(headroom).max(bbr3_min_pipe_cwnd(c))
}

/// Sets the pacing rate, in bytes per second, within the limit that the application sets. It is never 0, which would
/// stop the flow for ever.
fn bbr3_apply_pacing_rate(c: &mut Conn, rate: u64) {
    c.out.pacing_rate = rate.min(c.ack.max_pacing_rate).max(1);
}

/// Sets the first pacing rate: the initial window per RTT, times the gain of Startup (§5.6.2 InitPacingRate). Without
/// it the first flight would leave as one burst. Before there is an RTT a millisecond is assumed, so that a fast path
/// does not begin slowly.
pub(super) fn bbr3_init_pacing_rate(c: &mut Conn) {
    let mut rtt_us = c.p.init_rtt_us;
    if c.ack.srtt_us != 0 {
        rtt_us = c.ack.srtt_us;
        c.bbr.has_seen_rtt = true;
    }
    let nominal_bandwidth = bw_from(c.bbr.init_cwnd.saturating_mul(bbr3_unit_bytes(c)), rtt_us);
    let rate = gain_apply(nominal_bandwidth, c.p.startup_pacing_gain);
    bbr3_apply_pacing_rate(c, mul_shift(rate, USEC_PER_SEC, BW_SCALE));
}

/// Paces at a multiple of the estimated bandwidth, less one per cent, so that an existing queue shrinks (§5.6.2
/// SetPacingRateWithGain). Until the pipe was full once the rate only rises, because a low sample early on must not
/// slow down Startup. Without an estimate it stays.
pub(super) fn bbr3_set_pacing_rate_with_gain(c: &mut Conn, gain: u64) {
    let margin = USEC_PER_SEC / 100 * 100_u64.saturating_sub(c.p.pacing_margin_percent);
    let rate = gain_apply(c.bbr.bw.saturating_mul(bbr3_unit_bytes(c)), gain);
    let rate = mul_shift(rate, margin, BW_SCALE);
    if rate != 0 && (c.bbr.full_bw_reached || rate > c.out.pacing_rate) {
        bbr3_apply_pacing_rate(c, rate);
    }
}

/// Sets the pacing rate after an ACK: that of this gain, within what the brake allows (§5.6.2 SetPacingRate). The
/// first RTT that is measured replaces the assumed one in the initial rate.
pub(super) fn bbr3_set_pacing_rate(c: &mut Conn, gain: u64) {
    if !c.bbr.has_seen_rtt && c.ack.srtt_us != 0 {
        bbr3_init_pacing_rate(c);
    }
    bbr3_set_pacing_rate_with_gain(c, brake_gain(c.bbr.brake.mode, gain));
}

/// Sets how much may leave at once: what the rate sends in a millisecond, because larger bursts make queues and
/// smaller ones cost CPU time (§5.6.3 SetSendQuantum). Where the unit is a packet it is rounded down to whole
/// packets.
pub(super) fn bbr3_set_send_quantum(c: &mut Conn) {
    let bytes = c.out.pacing_rate.saturating_mul(c.p.send_quantum_us) / USEC_PER_SEC;
    let quantum = bytes.min(c.p.send_quantum_max_bytes) / bbr3_unit_bytes(c);
    c.bbr.send_quantum = quantum.max(bbr3_segments(c, c.p.send_quantum_min_segments));
}

/// The window of ProbeRTT: half of the BDP, so that our part of any queue empties and the RTT without a queue is seen
/// (§5.6.4.5 ProbeRTTCwnd).
pub(super) fn bbr3_probe_rtt_cwnd(c: &Conn) -> u64 {
    bbr3_bdp_multiple(c, c.bbr.bw, c.p.probe_rtt_cwnd_gain).max(bbr3_min_pipe_cwnd(c))
}

/// The largest window that the model justifies: the BDP times the state's gain, plus what bunches of ACKs hold back
/// (§5.6.4.2 UpdateMaxInflight).
fn bbr3_max_inflight(c: &Conn) -> u64 {
    let cap = bbr3_bdp_multiple(c, c.bbr.bw, c.bbr.cwnd_gain);
    bbr3_quantization_budget(c, cap.saturating_add(c.bbr.extra_acked))
}

/// Keeps the window within what loss has shown to be too much: the long-term bound while the flow probes, with
/// headroom below it while it cruises, and the short-term bound always (§5.6.4.7 BoundCwndForModel).
fn bbr3_bound_cwnd_for_model(c: &mut Conn) {
    let mut cap = BBR3_INFINITY;
    if bbr3_is_in_a_probe_bw_state(c) && c.bbr.state != Mode::ProbeBwCruise {
        cap = c.bbr.inflight_longterm;
    } else if c.bbr.state == Mode::ProbeRtt || c.bbr.state == Mode::ProbeBwCruise {
        cap = bbr3_inflight_with_headroom(c);
    }
    cap = cap.min(c.bbr.inflight_shortterm).max(bbr3_min_pipe_cwnd(c));
    c.out.cwnd = c.out.cwnd.min(cap);
}

/// Keeps the window within the bound that the host sets.
pub(super) fn bbr3_clamp_cwnd(c: &mut Conn) {
    c.out.cwnd = c.out.cwnd.min(c.ack.cwnd_clamp.max(bbr3_segments(c, 1)));
}

/// Moves the window towards its target by no more than what was ACKed, so that inflight never jumps (§5.6.4.6
/// SetCwnd, with §5.6.4.5 BoundCwndForProbeRTT). Until the pipe was full once the window only grows, since the
/// target itself is still growing.
pub(super) fn bbr3_set_cwnd(c: &mut Conn) {
    let max_inflight = bbr3_max_inflight(c);
    let grown = c.out.cwnd.saturating_add(c.ack.newly_acked);
    if c.bbr.full_bw_reached {
        c.out.cwnd = grown.min(max_inflight);
    } else if c.out.cwnd < max_inflight || c.ack.delivered < c.bbr.init_cwnd {
        c.out.cwnd = grown;
    }
    c.out.cwnd = c.out.cwnd.max(bbr3_min_pipe_cwnd(c));
    if c.bbr.state == Mode::ProbeRtt {
        c.out.cwnd = c.out.cwnd.min(bbr3_probe_rtt_cwnd(c));
    }
    bbr3_bound_cwnd_for_model(c);
    bbr3_clamp_cwnd(c);
}

#[cfg(test)]
mod tests {
    use super::super::Mode;
    use super::super::tests::{MSS, with};
    use super::*;
    use crate::cc::Ack;
    use crate::cc::fixed::GAIN_UNIT;

    #[test]
    fn each_state_has_the_gains_of_the_draft_s_table() {
        let gains = [
            (Mode::Startup, 277, 200),
            (Mode::Drain, 50, 200),
            (Mode::ProbeBwDown, 90, 200),
            (Mode::ProbeBwCruise, 100, 200),
            (Mode::ProbeBwRefill, 100, 200),
            (Mode::ProbeBwUp, 125, 225),
            (Mode::ProbeRtt, 100, 50),
        ];
        for (state, pacing, cwnd) in gains {
            with(|c| {
                c.bbr.state = state;
                bbr3_set_gains(c);
                let per_cent = |gain: u64| (gain * 100 + GAIN_UNIT / 2) / GAIN_UNIT;
                assert_eq!((per_cent(c.bbr.pacing_gain), per_cent(c.bbr.cwnd_gain)), (pacing, cwnd));
                // 1 MB/s over 40 ms: less 1 % of pace, and twice 40 kB of window.
                c.bbr.bw = BW_UNIT;
                (c.bbr.full_bw_reached, c.out.cwnd) = (true, 1 << 30);
                bbr3_set_pacing_rate(c, c.bbr.pacing_gain);
                assert!(c.out.pacing_rate.abs_diff(9_900 * pacing) <= 20, "{}", c.out.pacing_rate);
                bbr3_set_cwnd(c);
                let extra = if state == Mode::ProbeBwUp { 2 * MSS } else { 0 };
                assert!(c.out.cwnd.abs_diff(400 * cwnd + extra) <= 1, "{}", c.out.cwnd);
            });
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "Startup to ProbeBwUp")]
    fn a_change_of_state_that_no_event_makes_is_caught() {
        with(|c| bbr3_set_state(c, Mode::ProbeBwUp));
    }

    #[test]
    fn headroom_is_a_sixth_but_a_segment_at_least() {
        with(|c| {
            assert_eq!(bbr3_inflight_with_headroom(c), BBR3_INFINITY);
            for (longterm, left) in [(120_000, 102_000), (6_000, 4_800), (4_800, 4_800), (100, 4_800)] {
                c.bbr.inflight_longterm = longterm;
                assert_eq!(bbr3_inflight_with_headroom(c), left);
            }
        });
    }

    #[test]
    fn a_quantum_is_a_millisecond_within_bounds() {
        for (rate, unit, bytes) in [
            (1_000_000, 1, 2_400),
            (12_500_000, 1, 12_500),
            (100_000_000, 1, 65_536),
            (1, MSS, 2),
            (12_500_000, MSS, 10),
        ] {
            with(|c| {
                let ack = Ack { unit_bytes: unit, smss: MSS / unit, ..*c.ack };
                c.out.pacing_rate = rate;
                let c = &mut Conn { bbr: c.bbr, p: c.p, ack: &ack, out: c.out, delivery_rate: 0 };
                bbr3_set_send_quantum(c);
                assert_eq!(c.bbr.send_quantum, bytes);
                let quanta = if unit > 1 { 3 } else { 1 };
                assert_eq!(bbr3_offload_budget(c), quanta * bytes);
            });
        }
    }

    #[test]
    fn each_state_has_its_caps() {
        let caps = [
            (Mode::Startup, 1 << 30),
            (Mode::Drain, 1 << 30),
            (Mode::ProbeBwDown, 100_000),
            (Mode::ProbeBwRefill, 100_000),
            (Mode::ProbeBwUp, 100_000),
            (Mode::ProbeBwCruise, 85_000),
            (Mode::ProbeRtt, 85_000),
        ];
        for (state, cap) in caps {
            with(|c| {
                c.bbr.state = state;
                (c.bbr.inflight_longterm, c.out.cwnd) = (100_000, 1 << 30);
                bbr3_bound_cwnd_for_model(c);
                assert_eq!(c.out.cwnd, cap, "state {state:?}");
                c.bbr.inflight_shortterm = 1;
                bbr3_bound_cwnd_for_model(c);
                assert_eq!(c.out.cwnd, 4 * MSS, "never below the minimum pipe");
            });
        }
    }

    #[test]
    fn without_a_bandwidth_the_pacing_rate_stays() {
        with(|c| {
            (c.bbr.full_bw_reached, c.out.pacing_rate) = (true, 777);
            bbr3_set_pacing_rate(c, c.bbr.pacing_gain);
            assert_eq!(c.out.pacing_rate, 777);
        });
    }
}
