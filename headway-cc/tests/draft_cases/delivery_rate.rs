//! RATE: delivery-rate samples (§4.1). The sampler serves the simulator and QUIC; the kernel has its own.

use super::driver::*;
use headway_cc::cc::{Ack, Event, NO_RTT, bbr3::*};
use headway_cc::sampler::{Sampler, Sent};
use headway_cc::sim::{FlowSpec, Source};

/// Acknowledges packets in flight and gives the sample.
fn acked(s: &mut Sampler, now_us: u64, packets: &[&Sent], min_rtt_us: u64) -> Ack {
    s.begin();
    packets.iter().for_each(|p| s.on_delivered(now_us, p, true));
    let mut ack = Ack::default();
    s.fill(&mut ack, min_rtt_us);
    ack
}

#[test]
fn rate_01_an_idle_restart_begins_the_sample_at_its_first_packet() {
    let mut s = Sampler::default();
    let first = s.on_sent(1_000, 1_200);
    assert_eq!((first.send_elapsed_us, first.delivered_age_us), (0, 0));
    acked(&mut s, 41_000, &[&first], NO_RTT);
    let after_idle = s.on_sent(9_000_000, 1_200);
    assert_eq!((after_idle.send_elapsed_us, after_idle.delivered_age_us), (0, 0));
    let ack = acked(&mut s, 9_040_000, &[&after_idle], NO_RTT);
    assert_eq!((ack.rs_delivered, ack.rs_interval_us), (1_200, 40_000), "the silence does not count");
}

#[test]
fn rate_02_what_a_packet_remembers() {
    let mut s = Sampler::default();
    let sent: Vec<Sent> = (0..3).map(|i| s.on_sent(1_000 + i * 100, 1_200)).collect();
    assert_eq!(sent.iter().map(|p| p.tx_in_flight).collect::<Vec<_>>(), [1_200, 2_400, 3_600]);
    assert_eq!((sent[2].send_elapsed_us, sent[2].delivered_age_us), (200, 200));
    s.begin();
    s.on_delivered(41_000, &sent[0], true);
    s.on_lost(1_200);
    s.mark_app_limited();
    let later = s.on_sent(42_000, 1_200);
    assert_eq!((later.delivered, later.lost, later.is_app_limited), (1_200, 1_200, true));
    assert_eq!((later.send_elapsed_us, later.delivered_age_us), (41_000, 1_000));
    assert_eq!(later.tx_in_flight, 2_400);
}

#[test]
fn rate_03_data_is_delivered_once() {
    // Late packets are retransmitted needlessly and arrive twice; the application's bytes are counted once.
    let bytes = 3_000_000;
    let source = Source::Finite { bytes };
    let flow = FlowSpec { source, ..FlowSpec::bulk("bbr3") };
    let run = simulate("10mbit 40ms queue=4bdp reorder=2%/100ms", vec![flow], 20);
    assert!(run.flows[0].retransmitted_packets > 10 && run.flows[0].finished_us.is_some());
    let acks: Vec<Step> = steps(&run.flows[0]).into_iter().filter(|s| s.ack.event == Event::Ack).collect();
    assert_eq!(acks.iter().map(|s| s.ack.newly_acked).sum::<u64>(), bytes);
    assert_eq!(acks[acks.len() - 1].ack.delivered, bytes);
}

#[test]
fn rate_04_the_latest_sent_packet_gives_the_sample() {
    for times in [[0, 100, 200], [0, 0, 0]] {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut s = Sampler::default();
            let sent: Vec<Sent> = times.iter().map(|t| s.on_sent(1_000 + t, 1_200)).collect();
            let packets: Vec<&Sent> = order.iter().map(|i| &sent[*i]).collect();
            let ack = acked(&mut s, 41_000, &packets, NO_RTT);
            assert_eq!(ack.rs_tx_in_flight, 3_600, "sent at {times:?}, ACKed as {order:?}");
            assert_eq!((ack.rs_delivered, ack.rs_interval_us), (3_600, 40_000));
        }
    }
}

#[test]
fn rate_05_the_next_sample_begins_at_that_packet_s_sending() {
    let mut s = Sampler::default();
    let sent: Vec<Sent> = (0..3).map(|i| s.on_sent(1_000 + i * 100, 1_200)).collect();
    acked(&mut s, 41_000, &[&sent[1], &sent[0]], NO_RTT);
    assert_eq!(s.on_sent(41_500, 1_200).send_elapsed_us, 40_400, "since 1,100");
}

#[test]
fn rate_06_the_longer_of_send_and_ack_interval() {
    let mut s = Sampler::default();
    let before = s.on_sent(0, 1_200);
    let sent: Vec<Sent> = (1..=10).map(|i| s.on_sent(i * 1_000, 1_200)).collect();
    acked(&mut s, 40_000, &[&before], NO_RTT);
    // Sent over 10 ms; their ACKs come within 1 ms of the one before.
    let ack = acked(&mut s, 41_000, &sent.iter().collect::<Vec<_>>(), NO_RTT);
    assert_eq!((ack.rs_delivered, ack.rs_interval_us), (13_200, 41_000));
    let sent: Vec<Sent> = (0..10).map(|i| s.on_sent(42_000 + i * 1_000, 1_200)).collect();
    let next = s.on_sent(52_000, 1_200);
    acked(&mut s, 82_000, &sent.iter().collect::<Vec<_>>(), NO_RTT);
    let burst: Vec<Sent> = (0..9).map(|i| s.on_sent(83_000 + i * 1_000, 1_200)).collect();
    acked(&mut s, 92_000, &[&next], NO_RTT);
    let ack = acked(&mut s, 92_100, &burst.iter().collect::<Vec<_>>(), NO_RTT);
    // Between the last delivery that the burst knew (82.0 ms) and now are 10.1 ms, but it left within 40 ms.
    assert_eq!((ack.rs_delivered, ack.rs_interval_us), (12_000, 40_000));
}

#[test]
fn rate_07_no_rate_from_less_than_a_minimum_rtt() {
    for (now_us, interval_us, delivered) in [(39_999, 0, 0), (40_000, 40_000, 1_200)] {
        let mut s = Sampler::default();
        let packet = s.on_sent(0, 1_200);
        let ack = acked(&mut s, now_us, &[&packet], 40_000);
        assert_eq!((ack.rs_interval_us, ack.rs_delivered), (interval_us, delivered));
        assert_eq!((ack.newly_acked, ack.delivered, ack.inflight), (1_200, 1_200, 0));
    }
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.ack_with(100 * RATE, |a| a.rs_interval_us = 0);
    assert_eq!(rate_of(f.s.max_bw), RATE);
}

#[test]
fn rate_08_no_sample_without_new_data() {
    let mut s = Sampler::default();
    s.on_sent(0, 1_200);
    let ack = acked(&mut s, 40_000, &[], NO_RTT);
    assert_eq!((ack.rs_delivered, ack.rs_interval_us, ack.newly_acked), (0, 0, 0));
    for &state in &Mode::ALL[1..] {
        let mut f = Flow::at(state);
        let (before, cwnd) = (f.s, f.c.cwnd);
        f.ack_with(9 * RATE, |a| a.newly_acked = 0);
        assert_eq!((f.s, f.c.cwnd), (before, cwnd), "state {state:?}");
    }
}

#[test]
fn rate_09_the_flag_is_the_newest_packet_s() {
    let mut s = Sampler::default();
    let plain = s.on_sent(0, 1_200);
    s.mark_app_limited();
    let marked = s.on_sent(100, 1_200);
    assert!(acked(&mut s.clone(), 40_000, &[&plain, &marked], NO_RTT).rs_is_app_limited);
    // The third leaves before the mark is delivered, the last after: of the two the last counts.
    let third = s.on_sent(200, 1_200);
    acked(&mut s, 40_000, &[&plain, &marked], NO_RTT);
    assert!(!s.is_app_limited());
    let last = s.on_sent(40_100, 1_200);
    assert_eq!((third.is_app_limited, last.is_app_limited), (true, false));
    assert!(!acked(&mut s, 80_000, &[&last, &third], NO_RTT).rs_is_app_limited);
}

#[test]
fn rate_10_in_flight_and_lost_are_the_newest_packet_s() {
    let mut s = Sampler::default();
    let sent: Vec<Sent> = (0..4).map(|i| s.on_sent(i * 100, 1_200)).collect();
    s.begin();
    s.on_lost(1_200);
    let between = s.on_sent(30_000, 1_200);
    s.on_lost(1_200);
    s.on_delivered(40_000, &sent[3], true);
    let mut ack = Ack::default();
    s.fill(&mut ack, NO_RTT);
    assert_eq!((ack.rs_lost, ack.rs_tx_in_flight), (2_400, 4_800));
    let ack = acked(&mut s, 70_000, &[&sent[0], &between], NO_RTT);
    assert_eq!((ack.rs_lost, ack.rs_tx_in_flight), (1_200, 4_800), "one was lost before it left");
}

/// The largest valid rate of all samples, bytes/s, and how many there were.
fn samples(path: &str, seconds: u64) -> (u64, u64) {
    let acks =
        alone(path, seconds).into_iter().filter(|s| s.ack.event == Event::Ack && s.ack.rs_interval_us > 0);
    acks.fold((0, 0), |(max, n), s| (max.max(s.ack.rs_delivered * 1_000_000 / s.ack.rs_interval_us), n + 1))
}

#[test]
fn rate_11_retransmissions_do_not_overestimate() {
    // 10 Mbit/s carry 1,206,000 bytes/s of payload; a sample may straddle one burst.
    let (rate, n) = samples("10mbit 40ms queue=2bdp loss=3%", 20);
    assert!(n > 1_000 && rate <= 1_250_000, "{rate} of {n}");
}

#[test]
fn rate_12_reordering_does_not_bias() {
    // Of what 10 ms hold back, eight packets, a few may fall into a sample of forty packets and more.
    let (rate, n) = samples("10mbit 40ms queue=2bdp reorder=5%/10ms", 20);
    assert!(n > 1_000 && rate <= 1_330_000, "{rate} of {n}");
    let total = |order: [usize; 4]| {
        let mut s = Sampler::default();
        let sent: Vec<Sent> = (0..4).map(|i| s.on_sent(i * 100, 1_200)).collect();
        order.iter().map(|i| acked(&mut s, 40_000, &[&sent[*i]], NO_RTT).newly_acked).sum::<u64>()
    };
    assert_eq!([total([0, 1, 2, 3]), total([3, 1, 0, 2])], [4_800; 2]);
}

#[test]
fn rate_13_the_receive_window_is_a_limit_of_the_path() {
    // The peer allows 10 packets; data waits, so nothing is marked. Its window per RTT is the bandwidth.
    let (mut s, mut f) = (Sampler::default(), Flow::new());
    let mut now_us = START_US;
    for _ in 0..5 {
        let flight: Vec<Sent> = (0..10).map(|_| s.on_sent(now_us, 1_200)).collect();
        now_us += RTT_US;
        for packet in &flight {
            s.begin();
            s.on_delivered(now_us, packet, true);
            let mut ack = Ack { event: Event::Ack, now_us, rs_rtt_us: RTT_US, ..f.c };
            s.fill(&mut ack, RTT_US);
            assert!(!ack.rs_is_app_limited);
            f.give(&ack);
        }
    }
    assert_near(rate_of(f.s.max_bw), 300_000, 1);
    assert!(f.s.full_bw_reached, "it fills the pipe");
}

#[test]
fn rate_14_bare_acks_are_not_data() {
    let source = Source::Finite { bytes: 100_000 };
    let run = simulate("10mbit 40ms", vec![FlowSpec { source, ..FlowSpec::bulk("bbr3") }], 5);
    assert_eq!((run.flows[0].sent_bytes, run.flows[0].delivered_bytes), (100_000, 100_000));
    let steps = steps(&run.flows[0]);
    let last = &steps[steps.len() - 1].ack;
    assert_eq!((last.delivered, last.inflight, last.lost), (100_000, 0, 0));
}

#[test]
fn rate_15_a_packet_is_stamped_when_it_departs() {
    // 40 kB are written at once and paced over some 15 ms of a link that needs 3 ms: the wait is in no RTT.
    let source = Source::Messages { bytes: 40_000, interval_us: 500_000 };
    let run = simulate("100mbit 40ms", vec![FlowSpec { source, ..FlowSpec::bulk("bbr3") }], 10);
    let waits = run.flows[0].messages.iter().skip(1).filter(|m| m.delay_us >= 20_000 + 3_000 + 5_000).count();
    assert!(waits >= 10, "{:?}", run.flows[0].messages);
    let steps = steps(&run.flows[0]);
    let worst = steps.iter().map(|s| s.ack.rs_rtt_us).filter(|us| *us < NO_RTT).max();
    assert!(worst.is_some_and(|us| us <= 44_000), "{worst:?}");
}
