//! RTT: RTT samples (§4.2, §5.5.7.1), as the simulator's transport takes them.

use super::driver::*;
use headway_cc::cc::{Event, NO_RTT, bbr3::*};

#[test]
fn rtt_01_the_sample_is_the_latest_sent_packet_s() {
    // Many ACKs are lost: one of ten segments at 1.2 ms each makes the oldest look 10 ms slower than the newest.
    let steps = alone("10mbit 40ms queue=4bdp uploss=50%", 10);
    let bundles = steps.iter().filter(|s| s.ack.newly_acked >= 10 * 1_448 && s.ack.rs_rtt_us < NO_RTT);
    let least = bundles.map(|s| s.ack.rs_rtt_us).min().expect("there are bundles");
    assert!((40_000..=44_000).contains(&least), "{least}");
}

#[test]
fn rtt_02_retransmitted_data_gives_no_rtt() {
    let without = |path: &str| {
        let steps = alone(path, 10);
        let acks = steps.iter().filter(|s| s.ack.event == Event::Ack && s.ack.newly_acked > 0);
        assert!(acks.clone().all(|s| s.ack.rs_rtt_us >= 40_000 && s.s.min_rtt_us >= 40_000));
        acks.filter(|s| s.ack.rs_rtt_us == NO_RTT).count()
    };
    assert_eq!(without("10mbit 40ms queue=infinite"), 0);
    assert!(without("10mbit 40ms queue=infinite loss=3%") > 10);
}

#[test]
fn rtt_03_without_a_sample_the_filters_stay() {
    let mut f = Flow::at(Mode::ProbeBwCruise);
    f.c.now_us += 20_000_000;
    let before = f.s;
    f.more_with(RATE, |a| a.rs_rtt_us = NO_RTT);
    assert!(f.s.probe_rtt_expired);
    assert_eq!(f.s.probe_rtt_min_delay_us, before.probe_rtt_min_delay_us);
    assert_eq!((f.s.probe_rtt_min_stamp, f.s.min_rtt_us), (before.probe_rtt_min_stamp, before.min_rtt_us));
}
