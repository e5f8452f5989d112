//! What BBRv1 is known for, one test each.

mod flow;

use flow::{Flow, MSS, Step};
use headway_cc::cc::bbr1::{Bbr1, Bbr1Params, Bbr1State, Mode, bbr1_min_tso_segs};
use headway_cc::cc::fixed::{BW_UNIT, GAIN_UNIT};
use headway_cc::cc::{Ack, CaState, Controller, Event, NO_RTT};

/// Packets per microsecond of the flow's bottleneck, and the bandwidth-delay product.
const LINK_BW: u64 = BW_UNIT / 1_000;
const BDP: u64 = 40;

/// The steps at which the mode changes, with the mode before.
fn mode_changes(steps: &[Step]) -> Vec<(Mode, Step)> {
    let pairs = steps.iter().zip(steps.iter().skip(1));
    pairs.filter(|(a, b)| a.state.mode != b.state.mode).map(|(a, b)| (a.state.mode, *b)).collect()
}

/// A flow that has reached PROBE_BW, with a full window.
fn settled() -> Flow {
    let mut flow = Flow::new();
    flow.run_us(3_000_000);
    assert_eq!(flow.state().mode, Mode::ProbeBw);
    flow
}

#[test]
fn the_first_pacing_rate_is_high_gain_times_window_per_rtt() {
    let rate = |srtt_us| {
        let ack = Ack { event: Event::Init, srtt_us, unit_bytes: MSS, smss: 1, cwnd: 10, ..Ack::default() };
        let ack = Ack { max_pacing_rate: u64::MAX, min_rtt_us: NO_RTT, ..ack };
        let mut cc = Bbr1::new(Bbr1Params::default());
        let control = cc.on_event(&ack);
        assert_eq!(control.cwnd, 10);
        (control.pacing_rate, Bbr1State::from_words(&cc.state()).expect("a whole state").has_seen_rtt)
    };
    // 10 packets of 1448 bytes in 40 ms, times 739/256, less 1 %, in integer steps.
    let (known, seen) = rate(40_000);
    assert!(seen);
    assert!(known.abs_diff(362_000 * 739 / 256 * 99 / 100) <= 362_000 / 1_000, "{known}");
    // Without an RTT one millisecond is assumed.
    let (unknown, seen) = rate(0);
    assert!(!seen);
    assert!(unknown.abs_diff(14_480_000 * 739 / 256 * 99 / 100) <= 14_480, "{unknown}");
}

/// `bbr_set_pacing_rate` of tcp_bbr.c: at the first ACK that has an RTT (`!bbr->has_seen_rtt && tp->srtt_us`) the rate
/// that a millisecond gave is replaced, also by a lower one, with the window per RTT; later ones in STARTUP only raise it.
#[test]
fn the_first_rtt_replaces_the_rate_that_was_assumed() {
    let mut cc = Bbr1::new(Bbr1Params::default());
    let ack = Ack { event: Event::Init, unit_bytes: MSS, smss: 1, cwnd: 10, ..Ack::default() };
    let ack = Ack { max_pacing_rate: u64::MAX, min_rtt_us: NO_RTT, now_us: 1_000_000, ..ack };
    let mut pacing_rate = cc.on_event(&ack).pacing_rate;
    let mut rate_at = |srtt_us| {
        let ack = Ack { event: Event::Ack, srtt_us, pacing_rate, newly_acked: 1, delivered: 1, ..ack };
        let ack = Ack { rs_delivered: 1, rs_interval_us: 40_000, rs_rtt_us: 40_000, ..ack };
        pacing_rate = cc.on_event(&ack).pacing_rate;
        (pacing_rate, Bbr1State::from_words(&cc.state()).expect("a whole state").has_seen_rtt)
    };
    // Without an RTT the millisecond stays: 10 packets of 1448 bytes in 1 ms. (10 << 24) / 1000 = 167,772;
    // * 1448 * 739 >> 8 = 701,281,717; * 990,000 >> 24 = 41,381,651.
    assert_eq!(rate_at(0), (41_381_651, false));
    // (10 << 24) / 40,000 = 4194; * 1448 * 739 >> 8 = 17,530,788; * 990,000 >> 24 = 1,034,467.
    assert_eq!(rate_at(40_000), (1_034_467, true));
    assert_eq!(rate_at(80_000), (1_034_467, true));
}

#[test]
fn startup_ends_after_three_rounds_without_a_quarter_more_bandwidth() {
    let steps = Flow::new().run_us(3_000_000);
    let (mode, exit) = mode_changes(&steps)[0];
    assert_eq!((mode, exit.state.mode), (Mode::Startup, Mode::Drain));
    let growth = steps.iter().rfind(|s| s.state.full_bw_cnt == 0).expect("bandwidth grew");
    assert_eq!(exit.state.rtt_cnt, growth.state.rtt_cnt + 3, "{:?}", growth.state);
    assert!(exit.state.bw.s[0].v.abs_diff(LINK_BW) <= LINK_BW / 20);
    let startup = steps.iter().take_while(|s| s.state.mode == Mode::Startup);
    assert!(startup.clone().all(|s| s.state.pacing_gain == 739 << 8 && s.state.cwnd_gain == 739 << 8));
    assert!(
        startup
            .zip(&steps[1..])
            .all(|(a, b)| a.control.pacing_rate <= b.control.pacing_rate || b.state.mode != Mode::Startup)
    );
}

#[test]
fn application_limited_rounds_never_fill_the_pipe() {
    let mut flow = Flow::new();
    let mut steps = Vec::new();
    for _ in 0..60 {
        flow.has_data = true;
        steps.extend(flow.run_us(4_000));
        flow.has_data = false;
        steps.extend(flow.run_us(60_000));
    }
    assert!(steps.len() > 100 && steps.iter().any(|s| s.ack.rs_is_app_limited));
    assert!(steps.last().is_some_and(|s| s.state.rtt_cnt > 20 && s.state.mode == Mode::Startup));
}

#[test]
fn drain_lasts_until_the_queue_is_gone() {
    let steps = Flow::new().run_us(3_000_000);
    let changes = mode_changes(&steps);
    let (entry, exit) = (changes[0].1, changes[1].1);
    assert_eq!((changes[1].0, exit.state.mode), (Mode::Drain, Mode::ProbeBw));
    assert_eq!(entry.state.pacing_gain, 88 << 8);
    assert!(entry.ack.inflight > 2 * BDP, "STARTUP built a queue: {}", entry.ack.inflight);
    let budget = 3 * exit.control.send_quantum + 2;
    assert!(exit.ack.inflight <= BDP + budget, "{} of {BDP} + {budget}", exit.ack.inflight);
    assert!(exit.ack.now_us - entry.ack.now_us < 400_000);
}

#[test]
fn probe_bw_cycles_through_its_gains_one_round_trip_each() {
    let mut flow = settled();
    let steps = flow.run_us(4_000_000);
    let starts: Vec<&Step> = steps
        .iter()
        .zip(steps.iter().skip(1))
        .filter(|(a, b)| a.state.cycle_idx != b.state.cycle_idx)
        .map(|(_, b)| b)
        .collect();
    assert!(starts.len() > 30);
    for pair in starts.windows(2) {
        let (a, b) = (pair[0].state, pair[1].state);
        assert_eq!(b.cycle_idx, (a.cycle_idx + 1) % 8);
        let gain = [5 * GAIN_UNIT / 4, 3 * GAIN_UNIT / 4].get(a.cycle_idx as usize).copied();
        assert_eq!(a.pacing_gain, gain.unwrap_or(GAIN_UNIT));
        let lasted_us = b.cycle_mstamp - a.cycle_mstamp;
        let least = if a.cycle_idx == 1 { 1_000 } else { a.min_rtt_us };
        assert!(lasted_us >= least && lasted_us <= 2 * a.min_rtt_us, "phase {}: {lasted_us} us", a.cycle_idx);
    }
    let goodput = steps.last().map_or(0, |s| s.ack.delivered) - steps[0].ack.delivered;
    assert!(goodput > 3_900, "the link carries 4000 packets in this time, {goodput} arrived");
}

#[test]
fn probe_bw_starts_at_any_phase_but_the_draining_one() {
    let mut phases = std::collections::BTreeSet::new();
    for i in 0..64 {
        let mut flow = Flow::new();
        flow.ack.rand = i << 26;
        let steps = flow.run_us(2_000_000);
        let (_, start) =
            *mode_changes(&steps).iter().find(|(mode, _)| *mode == Mode::Drain).expect("DRAIN ends");
        phases.insert(start.state.cycle_idx);
    }
    assert_eq!(phases.into_iter().collect::<Vec<_>>(), [0, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn probe_rtt_comes_every_ten_seconds_with_four_packets_for_200_ms() {
    let mut flow = settled();
    flow.base_rtt_us += 1_000; // the minimum is not seen again
    let steps = flow.run_us(35_000_000);
    let changes = mode_changes(&steps);
    let entries: Vec<&Step> =
        changes.iter().map(|c| &c.1).filter(|s| s.state.mode == Mode::ProbeRtt).collect();
    let exits: Vec<&Step> = changes.iter().filter(|c| c.0 == Mode::ProbeRtt).map(|c| &c.1).collect();
    assert!(entries.len() >= 3 && exits.len() >= 2, "{} entries", entries.len());
    for (entry, exit) in entries.iter().zip(&exits) {
        let inside: Vec<&Step> = steps
            .iter()
            .filter(|s| s.ack.now_us >= entry.ack.now_us && s.ack.now_us < exit.ack.now_us)
            .collect();
        assert!(inside.iter().all(|s| s.control.cwnd == 4 && s.control.mark_app_limited));
        assert!(inside.iter().all(|s| s.ack.newly_lost == 0));
        let four = inside.iter().find(|s| s.ack.inflight <= 4).expect("inflight falls to 4");
        let held_us = exit.ack.now_us - four.ack.now_us;
        assert!((200_000..300_000).contains(&held_us), "{held_us} us");
        assert_eq!(exit.state.mode, Mode::ProbeBw);
        assert!(exit.control.cwnd >= entry.ack.cwnd, "the window comes back");
    }
    let outside = steps.windows(2).filter(|w| w.iter().all(|s| s.state.mode == Mode::ProbeBw));
    assert!(outside.clone().count() > 10_000 && outside.clone().all(|w| !w[1].control.mark_app_limited));
    for (exit, entry) in exits.iter().zip(&entries[1..]) {
        let apart_us = entry.ack.now_us - exit.ack.now_us;
        assert!((8_000_000..11_000_000).contains(&apart_us), "{apart_us} us between two");
    }
}

#[test]
fn a_policer_is_recognised_and_its_rate_used_for_48_rounds() {
    let mut flow = Flow::new();
    flow.policed_packet_us = 4_000;
    let steps = flow.run_us(20_000_000);
    let engaged = steps.iter().position(|s| s.state.lt_use_bw).expect("the policer is recognised");
    let released = engaged + steps[engaged..].iter().position(|s| !s.state.lt_use_bw).expect("released");
    let (first, last) = (steps[engaged], steps[released]);
    let policed_bw = BW_UNIT / 4_000;
    assert!(
        first.state.lt_bw.abs_diff(policed_bw) <= policed_bw / 5,
        "{} of {policed_bw}",
        first.state.lt_bw
    );
    assert_eq!(last.state.rtt_cnt - first.state.rtt_cnt, 48);
    let policed = &steps[engaged..released];
    assert!(policed.iter().all(|s| s.state.pacing_gain == GAIN_UNIT || s.state.mode != Mode::ProbeBw));
    let lost = last.ack.lost - first.ack.lost;
    assert!(lost * 5 < last.ack.delivered - first.ack.delivered, "{lost} lost while the rate is known");
}

#[test]
fn a_restart_from_idle_paces_at_the_estimate_and_puts_probe_rtt_off() {
    let mut flow = settled();
    flow.has_data = false;
    flow.run_us(12_000_000); // the minimum RTT expires in silence
    assert_eq!(flow.ack.inflight, 0);
    flow.has_data = true;
    flow.ack.is_app_limited = true;
    let restart = flow.tell(Event::TxStart);
    assert!(restart.state.idle_restart);
    let bytes_per_s = restart.state.bw.s[0].v * MSS * 990_000 / BW_UNIT;
    assert_eq!(restart.control.pacing_rate, bytes_per_s, "gain 1, less 1 %");
    let steps = flow.run_us(200_000);
    assert!(!steps[0].state.idle_restart);
    assert!(steps.iter().all(|s| s.state.mode == Mode::ProbeBw), "a new minimum was seen instead");
}

#[test]
fn a_restart_that_is_not_application_limited_changes_nothing() {
    let mut flow = settled();
    flow.ack.is_app_limited = false;
    let before = flow.state();
    let step = flow.tell(Event::TxStart);
    assert_eq!((step.state, step.control.pacing_rate), (before, step.ack.pacing_rate));
}

#[test]
fn recovery_conserves_packets_for_a_round_and_gives_the_window_back() {
    let mut flow = settled();
    let window = flow.ack.cwnd;
    flow.tell(Event::Ssthresh);
    assert_eq!(flow.state().prior_cwnd, window);
    flow.ack.ca_state = CaState::Recovery;
    (flow.ack.newly_acked, flow.ack.newly_lost, flow.ack.inflight) = (1, 20, 15);
    flow.ack.rs_prior_delivered = 0; // mid-round
    let first = flow.tell(Event::Ack);
    assert_eq!((first.control.cwnd, first.state.packet_conservation), (16, true), "inflight + acked");
    (flow.ack.newly_lost, flow.ack.inflight) = (0, 14);
    assert_eq!(flow.tell(Event::Ack).control.cwnd, 16, "one out for one in");
    flow.ack.rs_prior_delivered = flow.ack.delivered;
    let next = flow.tell(Event::Ack);
    assert_eq!(
        (next.control.cwnd, next.state.packet_conservation),
        (17, false),
        "slow start in the next round"
    );
    flow.ack.ca_state = CaState::Open;
    let after = flow.tell(Event::Ack);
    assert!(after.control.cwnd >= window.min(2 * BDP), "{} of {window}", after.control.cwnd);
}

#[test]
fn a_timeout_restarts_from_one_packet_and_ends_a_round() {
    let mut flow = settled();
    flow.ack.cwnd = 1;
    let loss = flow.tell(Event::Loss);
    assert_eq!(
        (loss.state.prev_ca_state, loss.state.full_bw, loss.state.round_start),
        (CaState::Loss, 0, true)
    );
    assert!(loss.state.lt_is_sampling, "it counts as a loss");
    assert_eq!(loss.control.cwnd, 1, "the transport's cut stands");
    flow.ack.ca_state = CaState::Loss;
    flow.ack.newly_acked = 1;
    assert_eq!(flow.tell(Event::Ack).control.cwnd, 4);
}

#[test]
fn undo_forgets_what_a_spurious_loss_taught() {
    let mut flow = Flow::new();
    flow.policed_packet_us = 4_000;
    while flow.state().lt_bw == 0 || flow.state().full_bw == 0 {
        flow.run_us(1_000);
    }
    let undo = flow.tell(Event::Undo);
    let s = undo.state;
    assert_eq!((s.full_bw, s.full_bw_cnt, s.lt_bw, s.lt_use_bw, s.lt_is_sampling), (0, 0, 0, false, false));
    assert_eq!((s.lt_last_delivered, s.lt_last_lost), (undo.ack.delivered, undo.ack.lost));
    assert_eq!((undo.control.cwnd, undo.control.pacing_rate), (undo.ack.cwnd, undo.ack.pacing_rate));
}

#[test]
fn bytes_and_packets_ask_for_the_same() {
    let mut bytes = Bbr1::new(Bbr1Params::default());
    let scaled = |ack: &Ack| {
        let mut a = Ack { unit_bytes: 1, smss: MSS, ..*ack };
        for data in [&mut a.cwnd, &mut a.delivered, &mut a.lost, &mut a.newly_acked, &mut a.newly_lost] {
            *data *= MSS;
        }
        for data in [&mut a.inflight, &mut a.prior_inflight, &mut a.rs_delivered, &mut a.rs_prior_delivered] {
            *data *= MSS;
        }
        a
    };
    let mut flow = Flow::new();
    bytes.on_event(&scaled(&Ack { event: Event::Init, cwnd: 10, pacing_rate: 0, ..flow.ack }));
    for step in flow.run_us(3_000_000) {
        let control = bytes.on_event(&scaled(&step.ack));
        // Rounding up to whole packets may differ by a pair, bandwidth by what the scale cuts off.
        assert!(control.cwnd.abs_diff(step.control.cwnd * MSS) <= 2 * MSS, "{:?}", step.ack);
        assert!(control.pacing_rate.abs_diff(step.control.pacing_rate) <= step.control.pacing_rate / 1_000);
        assert_eq!(control.send_quantum, step.control.send_quantum * MSS);
    }
}

#[test]
fn limits_of_host_and_application_are_kept() {
    let mut flow = Flow::new();
    (flow.ack.cwnd_clamp, flow.ack.max_pacing_rate) = (25, 500_000);
    let steps = flow.run_us(2_000_000);
    assert!(steps.iter().all(|s| s.control.cwnd <= 25));
    let caught = steps.iter().skip_while(|s| !s.state.full_bw_reached);
    assert!(caught.clone().count() > 100);
    assert!(caught.clone().all(|s| s.control.pacing_rate <= 500_000));
}

#[test]
fn slow_flows_send_single_segments() {
    let p = Bbr1Params::default();
    assert_eq!((bbr1_min_tso_segs(&p, 149_999), bbr1_min_tso_segs(&p, 150_000)), (1, 2));
}

#[test]
fn nonsense_is_clamped() {
    let mut cc = Bbr1::new(Bbr1Params::default());
    for word in [0, 1, NO_RTT, u64::MAX] {
        for event in Event::ALL.iter().copied() {
            let (mut words, legal) = (vec![word; Ack::FIELDS.len()], Ack::default().words());
            for at in 0..words.len() {
                // A flag or a state of recovery has few values.
                let one = [&legal[..at], &[word], &legal[at + 1..]].concat();
                words[at] = Ack::from_words(&one).map_or(word.min(1), |_| word);
            }
            let ack = Ack { event, ..Ack::from_words(&words).expect("as many words as fields") };
            let control = cc.on_event(&ack);
            assert!(control.send_quantum >= 1);
            assert!(control.cwnd >= 1 || word == 0, "{word} {event:?}");
        }
    }
}

/// A receiver that delays an ACK makes the round trip look longer, so such a sample must not replace a minimum that has
/// grown old; one that is lower counts all the same (Linux `bbr_update_min_rtt`).
#[test]
fn a_delayed_ack_replaces_no_old_minimum() {
    let min_rtt_after = |rs_rtt_us: u64, is_delayed: bool| {
        let mut cc = Bbr1::new(Bbr1Params::default());
        let ack = |now_us: u64, rs_rtt_us: u64| Ack {
            event: Event::Ack,
            now_us,
            rs_rtt_us,
            unit_bytes: MSS,
            smss: 1,
            cwnd: 10,
            cwnd_clamp: u64::MAX,
            max_pacing_rate: u64::MAX,
            delivered: now_us / 1_000,
            newly_acked: 1,
            rs_delivered: 1,
            rs_interval_us: 1_000,
            ca_state: CaState::Open,
            min_rtt_us: NO_RTT,
            ..Ack::default()
        };
        cc.on_event(&Ack { event: Event::Init, rs_rtt_us: NO_RTT, ..ack(1_000, 0) });
        cc.on_event(&ack(2_000, 40_000));
        // Eleven seconds later the minimum is too old: it is of the last ten.
        cc.on_event(&Ack { rs_is_ack_delayed: is_delayed, ..ack(11_002_000, rs_rtt_us) });
        Bbr1State::from_words(&cc.state()).expect("a whole state").min_rtt_us
    };
    assert_eq!((min_rtt_after(60_000, false), min_rtt_after(60_000, true)), (60_000, 40_000));
    assert_eq!((min_rtt_after(30_000, false), min_rtt_after(30_000, true)), (30_000, 30_000));
}
