//! The brake while it is on: what it bounds the flow to, and when it lets go.

use super::*;

/// The faster of the last two slots is the rate of the path. The queue counts as gone within an eighth of 40 ms and
/// the 400 µs that two segments take at 5 bytes/µs: 45.4 ms.
#[test]
fn draining_follows_what_arrives_until_the_queue_is_gone() {
    let mut f = Slots::in_drain();
    f.slot(24_000, 50_000);
    assert_eq!((f.s.bw, f.s.window), (rate(5), 200_000));
    f.slot(24_000, 50_000);
    assert_eq!((f.s.bw, f.s.window), (rate(4), 160_000));
    for (rtt_us, mode) in [(45_401, BrakeMode::Drain), (45_400, BrakeMode::Hold)] {
        let mut f = Slots::in_drain();
        f.slot(30_000, rtt_us);
        assert_eq!(f.s.mode, mode, "{rtt_us}");
    }
    let mut f = Slots::in_drain();
    f.slot(24_000, 40_000);
    assert_eq!((f.s.mode, f.s.bw, f.s.base_bw), (BrakeMode::Hold, rate(5), rate(5)));
    assert_eq!(f.s.window, 202_000, "room for two segments more");
    let mut f = Slots::in_drain();
    f.floor = 300_000;
    f.slot(30_000, 50_000);
    assert_eq!(f.s.window, 300_000, "no less than the controller's smallest window");
}

/// The window is 200,000 bytes. Of a queue of 40 ms, half are 20 ms.
#[test]
fn half_of_the_longest_queue_after_a_quiet_round_is_somebody_else_s() {
    for (inflight, rtt_us, floor, false_entries) in [
        (200_000, 60_001, 4_000, 1),
        (200_000, 60_000, 4_000, 0),
        (200_001, 60_001, 4_000, 0),
        // A window at its minimum cannot tell.
        (200_000, 60_001, 200_000, 0),
    ] {
        let mut f = Slots::in_drain();
        for rtt_us in [60_000, 80_000, 70_000] {
            f.slot(30_000, rtt_us);
        }
        assert_eq!((f.s.queue_rtt_us, f.s.quiet_delivered), (80_000, 0), "the longest");
        (f.floor, f.ack.inflight) = (floor, inflight);
        f.slot(30_000, rtt_us);
        assert_eq!(f.end(), (BrakeMode::Drain, 0, 0), "the round is not over");
        let is_quiet = inflight == 200_000;
        assert_eq!(f.s.quiet_delivered, if is_quiet { f.ack.delivered - 20_000 } else { 0 });
        // What was sent a byte earlier is not of the quiet round.
        f.ack.rs_prior_delivered = (f.ack.delivered - 20_000) - 1;
        f.slot(30_000, rtt_us);
        assert_eq!(f.end(), (BrakeMode::Drain, 0, 0));
        f.ack.rs_prior_delivered += 1;
        f.slot(30_000, rtt_us);
        let mode = if false_entries == 1 { BrakeMode::Watch } else { BrakeMode::Drain };
        assert_eq!(f.end(), (mode, 0, false_entries), "{inflight} {rtt_us} {floor}");
        if false_entries == 1 {
            assert_eq!((f.s.usual_rtt_us, f.s.usual_bw, f.s.window), (60_001, rate(5), u64::MAX));
        } else if is_quiet {
            assert_eq!((f.s.queue_rtt_us, f.s.quiet_delivered), (rtt_us, f.ack.delivered), "once more");
        }
    }
}

/// Seven eighths of 5 bytes/µs are 26,250 bytes in a slot, and the longest queue stood at 50,001 µs. A further drop
/// takes back that the flow was quiet; without one the queue is somebody else's when the round is over.
#[test]
fn a_further_drop_with_a_longer_queue_begins_the_quiet_round_anew() {
    for (inflight, bytes, rtt_us, further_drops, mode) in [
        (200_000, 26_249, 50_002, 1, BrakeMode::Drain),
        (200_000, 26_250, 50_002, 0, BrakeMode::Watch),
        (200_000, 26_249, 50_001, 0, BrakeMode::Watch),
        // Nothing is taken back from a flow that was not quiet yet.
        (200_001, 26_249, 50_002, 0, BrakeMode::Drain),
    ] {
        let mut f = Slots::in_drain();
        f.ack.inflight = inflight;
        f.slot(30_000, 50_000);
        // The faster of two slots counts, so that the first one changes nothing.
        f.slot(bytes, 50_001);
        assert_eq!((f.s.bw, f.s.further_drops), (rate(5), 0));
        f.slot(bytes, rtt_us);
        assert_eq!(f.s.further_drops, further_drops, "{inflight} {bytes} {rtt_us}");
        assert_eq!(f.s.quiet_delivered == 0, mode == BrakeMode::Drain);
        f.ack.rs_prior_delivered = f.ack.delivered;
        f.slot(bytes, 50_003);
        assert_eq!(f.s.mode, mode, "{inflight} {bytes} {rtt_us}");
    }
}

/// Four further drops are believed in each queue that is drained.
#[test]
fn the_fifth_further_drop_is_somebody_else_s_queue() {
    let (mut f, mut bytes, mut rtt_us) = (Slots::in_drain(), 30_000, 50_000);
    f.ack.inflight = 0;
    for drop in 1..=5 {
        bytes = bytes * 4 / 5;
        for _ in 0..2 {
            rtt_us += 1;
            f.slot(bytes, rtt_us);
        }
        assert_eq!((f.s.further_drops, f.s.quiet_delivered == 0), (drop.min(4), drop <= 4));
    }
    f.slot(bytes, 40_000);
    f.slot(bytes, 60_000);
    assert_eq!((f.s.mode, f.s.further_drops), (BrakeMode::Drain, 0), "another queue");
}

/// The bound is 1.25 times what arrives, and four times once more than 1.25 times the slower path's 5 bytes/µs
/// arrives (37,500 bytes), but never above the old rate, whatever the model says meanwhile.
#[test]
fn the_allowed_rate_grows_with_what_arrives_up_to_the_old_rate() {
    for max_bw in [rate(5), rate(12), rate(50)] {
        let mut f = Slots::in_hold();
        f.max_bw = max_bw;
        f.slot(30_000, 40_000);
        assert_eq!((f.s.bw, f.s.window), (rate(25) / 4, 252_000));
        f.slot(15_000, 40_000);
        assert_eq!(f.s.bw, rate(25) / 4, "it does not fall");
        f.slot(37_500, 40_000);
        assert_eq!(f.s.bw, rate(125) / 16);
        f.slot(37_502, 40_000);
        assert_eq!((f.s.mode, f.s.bw), (BrakeMode::Hold, rate(12)), "25 would be allowed");
        f.slot(62_400, 40_000);
        assert_eq!((f.s.mode, f.s.bw), (BrakeMode::Hold, rate(12)));
    }
    // Four times 1.5 are 6, where the slower path let 1 through.
    let mut f = Slots::in_hold();
    f.s.base_bw = rate(1);
    f.slot(9_000, 40_000);
    assert_eq!(f.s.bw, rate(6));
}

/// A queue says that the allowed rate is too high: at 6.25 bytes/µs two segments take 320 µs.
#[test]
fn a_queue_ends_the_search_for_more() {
    for (rtt_us, mode) in [(45_320, BrakeMode::Hold), (45_321, BrakeMode::Drain)] {
        let mut f = Slots::in_hold();
        f.slot(30_000, 40_000);
        f.s.quiet_delivered = 1;
        f.slot(36_000, rtt_us);
        assert_eq!((f.s.mode, f.s.entries, f.s.releases), (mode, 1, 0));
        if mode == BrakeMode::Drain {
            assert_eq!((f.s.bw, f.s.queue_rtt_us, f.s.quiet_delivered), (rate(6), rtt_us, 0));
        }
    }
}

/// The old rate is 12 bytes/µs; seven eighths of it are 63,000 bytes in a slot.
#[test]
fn the_old_rate_must_have_arrived_for_a_round() {
    let mut f = Slots::in_hold();
    f.slot(62_999, 40_000);
    assert_eq!((f.s.mode, f.s.back_delivered), (BrakeMode::Hold, 0));
    f.slot(63_000, 40_000);
    let back = f.ack.delivered;
    assert_eq!((f.end(), f.s.back_delivered), ((BrakeMode::Hold, 0, 0), back));
    f.ack.rs_prior_delivered = back - 1;
    f.slot(63_000, 40_000);
    assert_eq!((f.end(), f.s.back_delivered), ((BrakeMode::Hold, 0, 0), back), "since the first time");
    f.ack.rs_prior_delivered = back;
    f.slot(63_000, 40_000);
    assert_eq!((f.end(), f.s.window), ((BrakeMode::Watch, 1, 0), u64::MAX));
    assert_eq!(brake_bw(&f.s, rate(12)), rate(12), "the model's bandwidth is in use again");
    assert_eq!(brake_gain(f.s.mode, GAIN_UNIT * 2), GAIN_UNIT * 2);
}

/// Four round trips of 40 ms.
#[test]
fn after_a_brief_brake_the_old_rate_ends_it_at_once() {
    for (since_us, end) in [(160_000, (BrakeMode::Watch, 1, 0)), (160_001, (BrakeMode::Hold, 0, 0))] {
        let mut f = Slots::in_hold();
        f.s.entry_us = f.ack.now_us + 6_000 - since_us;
        f.slot(63_000, 40_000);
        assert_eq!(f.end(), end, "{since_us}");
    }
}

/// What arrived before the last queue says nothing about the path after it.
#[test]
fn a_queue_in_between_begins_the_round_of_the_old_rate_anew() {
    let mut f = Slots::in_hold();
    f.slot(63_000, 40_000);
    assert_ne!(f.s.back_delivered, 0);
    for _ in 0..2 {
        f.slot(30_000, 60_000);
        assert_eq!(f.s.mode, BrakeMode::Drain);
    }
    f.slot(30_000, 40_000);
    assert_eq!((f.s.mode, f.s.bw), (BrakeMode::Hold, rate(5)));
    f.ack.rs_prior_delivered = f.ack.delivered;
    f.slot(30_000, 40_000);
    assert_eq!((f.end(), f.s.bw), ((BrakeMode::Hold, 0, 0), rate(25) / 4));
    f.slot(63_000, 40_000);
    assert_eq!(f.end(), (BrakeMode::Hold, 0, 0));
    f.ack.rs_prior_delivered = f.ack.delivered;
    f.slot(63_000, 40_000);
    assert_eq!(f.end(), (BrakeMode::Watch, 1, 0));
}

/// The first round after a rise has begun before it, so the fifth round start is the first that has four whole
/// rounds before it.
#[test]
fn the_allowed_rate_rises_by_itself_after_four_whole_rounds() {
    let mut f = Slots::in_hold();
    f.slot(30_000, 40_000);
    for want in [rate(25) / 4, rate(125) / 16, rate(625) / 64] {
        for round in 1..=4 {
            assert_eq!((f.s.mode, f.s.bw), (BrakeMode::Hold, want), "round {round}");
            f.round(30_000);
        }
        assert_eq!(f.s.bw, want);
        f.round(30_000);
    }
    assert_eq!((f.s.bw, f.s.rounds), (rate(12), 15), "12.2 would be above the old rate");
}

/// 5 of the 12 bytes/µs that are allowed arrive: because the application sends no more, or because something else
/// limits the flow. 42,000 bytes are more than the slower path let through, and still not the old rate.
#[test]
fn an_old_rate_that_is_not_used_for_four_whole_rounds_ends_the_brake() {
    for (is_app_limited, bytes) in [(false, 30_000), (true, 30_000), (false, 42_000), (true, 42_000)] {
        let mut f = Slots::in_hold_at_the_old_rate();
        f.ack.rs_is_app_limited = is_app_limited;
        for round in 1..=4 {
            f.round(bytes);
            assert_eq!((f.end(), f.s.bw), ((BrakeMode::Hold, 0, 0), rate(12)), "round {round}");
        }
        f.round(bytes);
        assert_eq!((f.end(), f.s.window), ((BrakeMode::Watch, 1, 0), u64::MAX), "{is_app_limited} {bytes}");
    }
    // Less than the old rate is allowed: the flow goes on looking for it.
    let mut f = Slots::in_hold();
    f.slot(30_000, 40_000);
    (0..5).for_each(|_| f.round(30_000));
    assert_eq!(f.end(), (BrakeMode::Hold, 0, 0));
}

/// An application-limited flow does not show what the path carries, so the rate grows from its own value in each
/// slot, or it would stay at the rate of the application.
#[test]
fn the_allowed_rate_of_an_application_limited_flow_grows_from_itself() {
    let mut f = Slots::in_hold();
    f.ack.rs_is_app_limited = true;
    for want in [rate(25) / 4, rate(125) / 16, rate(625) / 64, rate(12)] {
        f.slot(12_000, 40_000);
        assert_eq!(f.s.bw, want);
    }
}

/// After 30 s the model takes over, unless it still remembers a higher rate than is allowed.
#[test]
fn the_search_ends_after_30_s_once_the_model_has_forgotten_the_old_rate() {
    let allowed = rate(25) / 4;
    for (since_us, max_bw, is_over) in [
        (30_000_000, allowed, false),
        (30_000_001, allowed, true),
        (30_000_001, allowed + 1, false),
        (90_000_000, allowed + 1, false),
        (30_000_001, rate(3), true),
    ] {
        let mut f = Slots::in_hold();
        f.max_bw = max_bw;
        f.s.entry_us = f.ack.now_us + 6_000 - since_us;
        f.slot(30_000, 40_000);
        let end = if is_over { (BrakeMode::Watch, 1, 0) } else { (BrakeMode::Hold, 0, 0) };
        assert_eq!((f.end(), f.s.bw), (end, allowed), "{since_us} {max_bw}");
    }
}

/// Only rounds with the brake on are counted.
#[test]
fn rounds_are_counted_while_the_brake_is_on() {
    let mut f = Slots::new();
    f.round(60_000);
    assert_eq!(f.s.rounds, 0);
    f.slot(30_000, 50_000);
    f.round(30_000);
    f.round(30_000);
    assert_eq!((f.s.mode, f.s.rounds), (BrakeMode::Hold, 2));
}

/// ProbeRTT marks what it sends, and what was in flight then, as application-limited. A packet counts in spite of the
/// mark if it was sent in the round after, which ends with what was in flight when the last mark was set.
#[test]
fn what_probe_rtt_sends_is_in_no_slot_and_the_round_after_it_is() {
    let mut f = Slots::new();
    (f.is_marking, f.ack.inflight) = (true, 70_000);
    f.ack(2_000, 1_000, 40_000);
    assert_eq!((f.s.marked_start, f.s.marked_end), (f.ack.delivered, f.ack.delivered + 70_000));
    for (prior, is_counted) in [(99, false), (100, true), (200, true), (201, false)] {
        let marked = |f: &mut Slots| {
            (f.s.marked_start, f.s.marked_end) = (100, 200);
            (f.ack.rs_is_app_limited, f.ack.rs_prior_delivered) = (true, prior);
        };
        assert_eq!(enters(30_000, 50_000, marked), is_counted, "{prior}");
    }
    // In HOLD, where application-limited slots are judged, too: 5 bytes/µs allow 6.25.
    for (prior, is_app_limited, bw) in
        [(99, true, rate(5)), (99, false, rate(25) / 4), (100, true, rate(25) / 4)]
    {
        let mut f = Slots::in_hold();
        (f.s.marked_start, f.s.marked_end) = (100, 200);
        (f.ack.rs_is_app_limited, f.ack.rs_prior_delivered) = (is_app_limited, prior);
        f.slot(30_000, 40_000);
        assert_eq!((f.s.bw, f.s.slot_us), (bw, f.ack.now_us), "{prior} {is_app_limited}");
    }
}
