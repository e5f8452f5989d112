//! OFFL: the offload budget (§5.5.8), seen as the least window of a path without length.

use crate::driver::{Flow, MSS, bw};
use headway_cc::cc::bbr3::*;

/// The window at 10,000 segments of 1448 bytes a second over 100 µs, counted in units of so many bytes.
fn window(state: Mode, unit_bytes: u64) -> (u64, Flow) {
    let segment = 1448 / unit_bytes;
    let mut f = Flow::init(Bbr3Params::default(), |a| {
        (a.unit_bytes, a.smss, a.cwnd) = (unit_bytes, segment, 10 * segment);
    });
    f.rtt_us = 100;
    let rate = 14_480_000;
    for _ in 0..5_000 {
        if f.s.state == state {
            break;
        }
        f.ack_with(rate, |a| a.newly_acked = 1);
    }
    assert_eq!(f.s.state, state);
    for _ in 0..100 {
        let prior = f.s.next_round_delivered - 1;
        f.ack_with(rate, |a| (a.newly_acked, a.rs_prior_delivered) = (segment, prior));
    }
    assert_eq!(f.s.state, state);
    (f.c.cwnd, f)
}

#[test]
fn offl_01_tcp_keeps_room_for_three_quanta() {
    // 1 % below 14.48 MB/s: 14,335 bytes a millisecond, 9 packets; the BDP is a packet.
    let (cwnd, f) = window(Mode::ProbeBwCruise, 1448);
    assert_eq!((f.s.send_quantum, cwnd), (9, 27));
}

#[test]
fn offl_02_quic_keeps_room_for_one() {
    let (cwnd, f) = window(Mode::ProbeBwCruise, 1);
    assert_eq!((f.s.send_quantum, cwnd), (14_335, 14_335));
}

#[test]
fn offl_03_the_budget_and_four_segments_are_floors_and_up_adds_two_segments() {
    let (cwnd, f) = window(Mode::ProbeBwUp, 1);
    assert_eq!(cwnd, f.s.send_quantum + 2 * 1448);
    let (cwnd, f) = window(Mode::ProbeBwUp, 1448);
    assert_eq!(cwnd, 3 * f.s.send_quantum + 2);
    // 10 kB/s over 40 ms: 400 bytes of BDP, a quantum of two segments.
    for (state, segments) in [(Mode::ProbeBwCruise, 4), (Mode::ProbeBwUp, 6)] {
        let mut f = Flow::at(state);
        (f.s.max_bw_0, f.s.max_bw_1, f.s.max_bw, f.s.bw) = (0, bw(10_000), bw(10_000), bw(10_000));
        f.c.cwnd = 50_000;
        f.more_with(10_000, |a| a.newly_acked = 1);
        assert_eq!((f.s.send_quantum, f.c.cwnd), (2 * MSS, segments * MSS));
    }
}
