//! A flow without a stack: calls in, events out.

use super::*;
use crate::cc::CONTROLLERS;
use crate::rand::Rng;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

static ORIGIN: LazyLock<Instant> = LazyLock::new(|| {
    #[allow(clippy::disallowed_methods)]
    Instant::now()
});

fn at(us: u64) -> Instant {
    *ORIGIN + Duration::from_micros(us)
}

/// A flow of this controller whose events are written down.
fn traced(name: &str) -> (Flow, impl Fn() -> Vec<Ack>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    let factory = Factory::named(name).unwrap();
    let factory = factory.trace(move |line| sink.lock().unwrap().push(line.to_string()));
    let events = move || {
        let parse = |line: &String| {
            let words: Vec<u64> = line.split(' ').skip(1).map(|w| w.parse().unwrap()).collect();
            Ack::from_words(&words[..Ack::FIELDS.len()]).unwrap()
        };
        lines.lock().unwrap().iter().skip(1).map(parse).collect()
    };
    (Flow::new(&factory, at(0), 1200), events)
}

#[test]
fn an_ack_is_one_event_with_the_losses_and_marks_of_its_frame() {
    let (mut f, events) = traced("bbr3");
    (0..6).for_each(|pn| _ = f.on_sent(at(10), 1200, pn));
    f.on_acked(at(40_010), at(10), 1200, Some(5));
    f.on_acked(at(40_010), at(10), 1200, Some(4));
    f.on_end_acks(at(40_010), 4800, false);
    (0..2).for_each(|pn| f.on_packet_lost(at(40_010), 1200, pn));
    f.on_congestion(at(40_010), at(10), false, false);
    f.on_congestion(at(40_010), at(10), true, false);
    assert_eq!(events().iter().filter(|a| a.event == Event::Ack).count(), 0);
    f.settle();
    let events = events();
    let kinds: Vec<Event> = events.iter().map(|a| a.event).collect();
    assert_eq!(kinds, [Event::Init, Event::TxStart, Event::Lost, Event::Lost, Event::Ssthresh, Event::Ack]);
    assert_eq!((events[2].rs_starts_lost_range, events[3].rs_starts_lost_range), (true, false));
    assert_eq!((events[3].rs_tx_in_flight, events[3].rs_lost), (2400, 2400));
    let ack = events[5];
    assert_eq!((ack.newly_acked, ack.newly_lost, ack.delivered_ce), (2400, 2400, 2400));
    assert_eq!((ack.prior_inflight, ack.inflight, ack.rs_rtt_us), (7200, 2400, 40_000));
    assert_eq!((ack.ca_state, ack.rs_tx_in_flight), (CaState::Recovery, 7200));
}

#[test]
fn what_is_acknowledged_twice_counts_once() {
    let (mut f, events) = traced("bbr3");
    f.on_sent(at(0), 1200, 0);
    for us in [40_000, 50_000] {
        f.on_acked(at(us), at(0), 1200, Some(0));
        f.on_end_acks(at(us), 0, false);
    }
    f.settle();
    let acks: Vec<Ack> = events().into_iter().filter(|a| a.event == Event::Ack).collect();
    assert_eq!((acks.len(), acks[0].delivered), (1, 1200));
}

#[test]
fn the_handshake_s_packet_numbers_are_told_apart() {
    let (mut f, events) = traced("bbr3");
    f.on_sent(at(0), 300, 0);
    f.on_sent(at(0), 900, 0);
    f.on_sent(at(5), 1200, 0);
    f.on_acked(at(100), at(5), 1200, Some(0));
    f.on_acked(at(100), at(0), 300, Some(0));
    f.on_acked(at(100), at(0), 900, Some(0));
    f.on_end_acks(at(100), 0, false);
    f.settle();
    assert_eq!(events().last().unwrap().newly_acked, 2400);
}

/// Each space of packet numbers begins at 0 (RFC 9000 §12.3), so the number alone may name a packet that has arrived and
/// one that has not: what is lost is what is still in flight. A number that no record has is a packet that was never
/// counted as in flight (RFC 9002 §2), and takes nothing from the others.
#[test]
fn a_lost_packet_is_the_one_of_its_number_that_is_in_flight() {
    let (mut f, events) = traced("bbr3");
    f.on_sent(at(0), 300, 0);
    f.on_sent(at(5), 900, 0);
    f.on_sent(at(10), 1200, 2);
    f.on_acked(at(100), at(0), 300, Some(0));
    f.on_end_acks(at(100), 2100, false);
    f.on_packet_lost(at(100), 1200, 1);
    assert_eq!(f.sampler.inflight(), 2100);
    f.on_packet_lost(at(100), 900, 0);
    assert_eq!(f.sampler.inflight(), 1200);
    let lost: Vec<u64> = events().iter().filter(|a| a.event == Event::Lost).map(|a| a.newly_lost).collect();
    assert_eq!(lost, [900]);
}

#[test]
fn a_recovery_period_asks_for_one_reaction_and_ends_with_a_packet_sent_in_it() {
    for (name, ends_with) in [("bbr3", 8), ("bbr1", 9)] {
        let (mut f, events) = traced(name);
        let lose = |f: &mut Flow, us, pn| {
            f.on_packet_lost(at(us), 1200, pn);
            f.on_congestion(at(us), at(pn), false, false);
        };
        (0..8).for_each(|pn| _ = f.on_sent(at(pn), 1200, pn));
        lose(&mut f, 100, 0);
        f.on_sent(at(105), 1200, 8);
        lose(&mut f, 110, 2);
        f.on_sent(at(120), 1200, 9);
        for (pn, sent_us) in [(7, 7), (8, 105), (9, 120)] {
            assert_eq!(f.ca_state, CaState::Recovery, "{name}: {pn}");
            f.on_acked(at(200 + pn), at(sent_us), 1200, Some(pn));
            f.on_end_acks(at(200 + pn), 6000, false);
            f.settle();
            if pn == ends_with {
                break;
            }
        }
        assert_eq!(f.ca_state, CaState::Open, "{name}");
        // Lost before the last period, known only now: nothing new. Then one that is.
        lose(&mut f, 310, 3);
        assert_eq!(f.ca_state, CaState::Open);
        f.on_sent(at(320), 1200, 10);
        f.on_packet_lost(at(400), 1200, 10);
        f.on_congestion(at(400), at(320), false, false);
        assert_eq!(events().iter().filter(|a| a.event == Event::Ssthresh).count(), 2);
    }
}

/// A reduction can be undone until something is acknowledged that was sent after the recovery period had ended.
#[test]
fn a_reduction_is_undone_as_long_as_what_was_sent_before_its_end_is_acknowledged() {
    let undone_after = |acked: &[(u64, u64)]| {
        let (mut f, events) = traced("bbr3");
        (0..8).for_each(|pn| _ = f.on_sent(at(pn), 1200, pn));
        f.on_packet_lost(at(100), 1200, 0);
        f.on_congestion(at(100), at(0), false, false);
        (8..10).for_each(|pn| _ = f.on_sent(at(100 + pn), 1200, pn));
        for (pn, sent_us) in acked {
            f.on_acked(at(200 + pn), at(*sent_us), 1200, Some(*pn));
            f.on_end_acks(at(200 + pn), 6000, false);
            f.on_sent(at(300 + pn), 1200, pn + 2);
        }
        f.on_spurious_loss();
        events().iter().any(|a| a.event == Event::Undo)
    };
    // Packet 8 ends the period, when 9 was the last one sent. 10 is the first after it.
    assert!(undone_after(&[(8, 108)]));
    assert!(undone_after(&[(8, 108), (9, 109)]));
    assert!(!undone_after(&[(8, 108), (9, 109), (10, 308)]));
}

#[test]
fn persistent_congestion_leaves_a_packet_s_room() {
    for entry in CONTROLLERS {
        let factory = Factory::named(entry.name).unwrap();
        let mut f = Flow::new(&factory, at(0), 1200);
        (0..8).for_each(|pn| _ = f.on_sent(at(pn), 1200, pn));
        (0..7).for_each(|pn| f.on_packet_lost(at(9000), 1200, pn));
        f.on_congestion(at(9000), at(6), false, true);
        assert_eq!((f.ca_state, f.window()), (CaState::Loss, 2400), "{}", entry.name);
    }
}

/// quinn tells of buffers, not of packets: losses are the oldest bytes, and such a loss may yet be withdrawn.
#[test]
fn lost_bytes_are_found_in_the_oldest_buffers() {
    let (mut f, events) = traced("bbr3");
    f.on_sent(at(0), 12_000, 9);
    f.on_sent(at(50), 2400, 11);
    f.on_sent(at(60), 2400, 13);
    f.on_acked(at(40_060), at(60), 1200, None);
    f.on_acked(at(40_060), at(0), 1200, None);
    f.on_end_acks(at(40_060), 14_400, false);
    f.on_bytes_lost(at(40_060), 12_000, at(50));
    f.on_congestion(at(40_060), at(50), false, false);
    f.settle();
    let lost: Vec<(u64, u64)> = events()
        .iter()
        .filter(|a| a.event == Event::Lost)
        .map(|a| (a.newly_lost, a.rs_tx_in_flight))
        .collect();
    assert_eq!(lost, [(10_800, 12_000), (1200, 14_400)]);
    f.on_acked(at(41_000), at(0), 10_800, None);
    f.on_end_acks(at(41_000), 2400, false);
    f.settle();
    assert!(events().iter().all(|a| a.event != Event::Undo), "a packet is still missing");
    f.on_acked(at(41_100), at(50), 1200, None);
    f.on_acked(at(41_100), at(50), 1200, None);
    f.on_end_acks(at(41_100), 1200, false);
    f.settle();
    assert_eq!(events().last().unwrap().event, Event::Undo);
    assert_eq!(f.sampler.delivered(), 1200 + 12_000 + 2400);
}

#[test]
fn another_address_keeps_the_model_and_leaves_what_is_in_flight() {
    let (mut f, events) = traced("bbr3");
    (0..8).for_each(|pn| _ = f.on_sent(at(pn), 1200, pn));
    f.on_acked(at(40_000), at(0), 1200, Some(0));
    f.on_end_acks(at(40_000), 8400, false);
    let window = f.window();
    let mut moved = f.migrated();
    assert_eq!((moved.sampler.inflight(), moved.window()), (0, window));
    moved.on_acked(at(50_000), at(1), 1200, Some(1));
    moved.on_sent(at(50_000), 1200, 8);
    moved.on_acked(at(90_000), at(50_000), 1200, Some(8));
    moved.on_end_acks(at(90_000), 0, false);
    moved.settle();
    let last = *events().last().unwrap();
    assert_eq!((last.delivered, last.newly_acked, last.rs_rtt_us), (2400, 1200, 40_000));
}

/// Any calls in any order, on a clock that stands still, runs back and jumps: the window is a packet at least and
/// there is a pace; what the controller is told adds up; what is kept is bounded by what the stack has in flight.
#[test]
#[expect(clippy::too_many_lines, reason = "one arm for each call that a stack makes")]
fn no_call_breaks_a_flow() {
    for (i, entry) in CONTROLLERS.iter().enumerate() {
        for seed in 0..40 {
            let factory = Factory::named(entry.name).unwrap().seed(seed);
            let mut rng = Rng::new(seed, i as u64);
            let mut f = Flow::new(&factory, at(10_000_000), 1200);
            let (mut us, mut pn) = (10_000_000, 0);
            for _ in 0..2000 {
                us += [0, 0, 1, 100, 5_000, 1_000_000][rng.below(6) as usize];
                let now = at(us - rng.below(2) * rng.below(1_500_000));
                let some = |rng: &mut Rng| (at(us - rng.below(200_000)), pn - rng.below(30).min(pn));
                let (sent, old) = some(&mut rng);
                let bytes = [1, 1200, 1452, 65_535, u64::MAX][rng.below(5) as usize];
                match rng.below(12) {
                    0..3 => {
                        let record = f.on_sent(now, bytes.min(65_535), pn);
                        f.on_released(record, at(us + rng.below(5000)));
                        pn += 1;
                    }
                    3..6 => f.on_acked(now, sent, bytes, (seed % 2 == 0).then_some(old)),
                    6 => f.on_end_acks(now, rng.below(1 << 20), rng.chance(500_000_000)),
                    7 => f.on_packet_lost(now, bytes, old),
                    8 => f.on_bytes_lost(now, bytes, sent),
                    9 => f.on_congestion(now, sent, rng.chance(300_000_000), rng.chance(100_000_000)),
                    10 => f.on_mtu([0, 1, 576, 1200, 65_535][rng.below(5) as usize]),
                    _ if rng.chance(100_000_000) => f = f.migrated(),
                    _ if rng.chance(500_000_000) => f.on_spurious_loss(),
                    _ => (f.on_cwnd_limited(), f.on_ack_threshold(rng.below(100))).0,
                }
                assert!(
                    f.window() >= f.driver.smss() && f.control().pacing_rate >= 1,
                    "{} {seed}",
                    entry.name
                );
            }
            // Everything sent is settled one way or the other in the end.
            us += 100_000_000;
            f.on_sent(at(us), 1200, pn);
            f.on_acked(at(us + 1), at(us), 1200, Some(pn));
            f.on_end_acks(at(us + 1), 0, true);
            f.settle();
            assert!(f.records.is_empty() && f.sampler.inflight() == 0, "{} {seed}", entry.name);
        }
    }
}
