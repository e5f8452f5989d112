//! AGG: ACK aggregation (§5.5.9).

use crate::driver::{BDP, Flow, MSS, RATE};
use crate::whole::{SECOND_US, Whole, payload_rate};
use headway_cc::cc::Event;
use headway_cc::cc::bbr3::*;

/// In CRUISE at 1 MB/s; the interval has begun now and `acked` bytes were ACKed in it.
fn interval(acked: u64) -> Flow {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    (f.s.extra_acked_interval_start, f.s.extra_acked_delivered) = (f.c.now_us, acked);
    f
}

#[test]
fn agg_01_an_interval_ends_when_no_more_was_acked_than_expected() {
    // 1 MB/s for 1 ms are 1000 bytes.
    for (acked, is_new) in [(0, true), (1_000, true), (1_001, false), (50_000, false)] {
        let mut f = interval(acked);
        let start = f.c.now_us;
        f.more(RATE);
        let (at, sum) = if is_new { (start + 1_000, MSS) } else { (start, acked + MSS) };
        assert_eq!((f.s.extra_acked_interval_start, f.s.extra_acked_delivered), (at, sum), "{acked}");
    }
}

#[test]
fn agg_02_extra_is_what_was_acked_beyond_it_up_to_the_window() {
    let mut f = interval(0);
    f.c.cwnd = 80_000;
    f.more_with(RATE, |a| a.newly_acked = 24_000);
    assert_eq!(f.s.extra_acked, 24_000);
    f.more_with(RATE, |a| a.newly_acked = 24_000);
    assert_eq!(f.s.extra_acked, 47_000, "48,000 less the 1000 of a millisecond");
    let mut f = interval(0);
    f.c.cwnd = 20_000;
    f.more_with(RATE, |a| a.newly_acked = 24_000);
    assert_eq!(f.s.extra_acked, 20_000);
}

#[test]
fn agg_03_a_burst_is_remembered_for_ten_rounds_and_in_startup_for_one() {
    for (state, rounds) in [(Mode::Startup, 1), (Mode::ProbeBwCruise, 10)] {
        let mut f = Flow::at(state);
        f.c.cwnd = 30_000;
        f.ack_with(RATE, |a| a.newly_acked = 24_000);
        assert_eq!(f.s.extra_acked, 24_000);
        for round in 1..rounds {
            f.ack(RATE << round.min(8));
            assert_eq!(f.s.extra_acked, 24_000, "round {round}");
        }
        f.more(RATE);
        assert!(f.s.extra_acked >= 24_000, "the same round");
        f.ack(RATE << 9);
        assert!(f.s.extra_acked < 24_000, "state {state:?}: {}", f.s.extra_acked);
    }
}

#[test]
fn agg_04_it_is_added_to_the_scaled_bdp() {
    let mut f = interval(0);
    f.rtt_us = 50_000;
    (f.s.min_rtt_us, f.s.probe_rtt_min_delay_us) = (50_000, 50_000);
    f.c.cwnd = 200_000;
    f.more_with(RATE, |a| a.newly_acked = 6_000);
    assert_eq!((f.s.extra_acked, f.c.cwnd), (6_000, 106_000), "2 * 50,000 + 6000");
}

#[test]
fn agg_05_a_link_with_slots_of_5_or_10_ms_stays_full() {
    for slot in ["5ms", "10ms"] {
        let w = Whole::bulk(&format!("50mbit 30ms queue=10bdp ackagg={slot}"), 10);
        let (_, full) = w.change(Mode::Startup, Mode::Drain, 0);
        assert!(full.ack.cwnd > 2 * full.bdp(), "{} {}", full.ack.cwnd, full.bdp());
        let before_us = full.ack.now_us - 200_000;
        assert!(
            w.goodput(before_us, full.ack.now_us) * 100 >= 95 * payload_rate(50_000_000),
            "{}",
            w.story()
        );
        let mut cruise_us = 0;
        let changes: Vec<_> = w.changes().map(|(_, b)| b).collect();
        for pair in changes.windows(2).filter(|p| p[0].s.state == Mode::ProbeBwCruise) {
            // After a round in which what ProbeRTT left empty fills again.
            let (from_us, to_us) = (pair[0].ack.now_us + 200_000, pair[1].ack.now_us);
            if to_us > from_us + 500_000 {
                cruise_us += to_us - from_us;
                assert!(
                    w.goodput(from_us, to_us) * 100 >= 95 * payload_rate(50_000_000),
                    "{slot} {}",
                    w.story()
                );
                assert!(w.acks(from_us, to_us).all(|a| a.control.cwnd > 2 * a.bdp()), "{slot}");
            }
        }
        assert!(cruise_us > 2 * SECOND_US, "{}", w.story());
    }
}

#[test]
fn agg_06_idleness_is_not_taken_for_aggregation() {
    let mut f = interval(500_000);
    f.c.now_us += 10 * SECOND_US;
    (f.c.inflight, f.c.is_app_limited) = (0, true);
    f.tell(Event::TxStart);
    assert_eq!((f.s.extra_acked_interval_start, f.s.extra_acked_delivered), (f.c.now_us, 0));
    f.ack(RATE);
    assert_eq!(f.s.extra_acked_delivered, MSS, "40 ms later 1200 bytes are no more than expected");
    assert!(f.s.extra_acked <= 2 * MSS && f.c.cwnd <= 2 * BDP + 2 * MSS, "{}", f.s.extra_acked);
}
