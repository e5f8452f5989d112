//! Rows of the conformance list through an adapter, read from its ACK trace. One file for both stacks, as `net.rs`.

use super::net::{Net, Spec};
use super::stack;
use crate::trace::{Row, Trace};
use headway_cc::cc::bbr3::*;
use headway_cc::cc::{Event, NO_RTT};
use headway_cc::quic::Factory;
use headway_cc::sim::Source;
use stack::proto::congestion::ControllerFactory;
use std::sync::Arc;

/// The clock of an adapter starts at one second.
const START_US: u64 = 1_000_000;

/// Runs bbr3 over `path`; the network at the end and the events of the sender.
fn run(path: &str, seconds: u64, with: impl FnOnce(&mut Spec)) -> (Net, Vec<Row>) {
    let (trace, factory) = Trace::of("bbr3");
    let mut spec = Spec::new(path, factory);
    with(&mut spec);
    let mut net = Net::new(&spec);
    (net.sent, net.queued_us) = (Some(Vec::new()), Some(Vec::new()));
    net.run_until(seconds * 1_000_000);
    trace.replay("bbr3");
    (net, trace.rows())
}

/// How often one state followed another.
fn changes(rows: &[Row], is_from: impl Fn(Mode) -> bool, is_to: impl Fn(Mode) -> bool) -> usize {
    let state = |r: &Row| r.mode();
    rows.windows(2)
        .filter(|w| is_from(state(&w[0])) && is_to(state(&w[1])) && state(&w[0]) != state(&w[1]))
        .count()
}

/// Goodput from `from_s` to the end, Mbit/s.
fn mbit(bytes: u64, seconds: u64) -> u64 {
    bytes * 8 / seconds / 1_000_000
}

#[test]
fn init_06_no_probe_rtt_in_the_first_five_seconds() {
    let (_, rows) = run("20mbit 50ms queue=4bdp", 8, |_| ());
    let first = rows.iter().find(|r| r.ack.event == Event::Ack).unwrap();
    assert_eq!(first.mode(), Mode::Startup);
    let probe_rtt = rows.iter().find(|r| r.mode() == Mode::ProbeRtt).unwrap();
    assert!(probe_rtt.ack.now_us > START_US + 5_000_000, "{}", probe_rtt.ack.now_us);
}

#[test]
fn init_08_the_window_is_that_of_rfc_9002() {
    #[allow(clippy::disallowed_methods)]
    let now = std::time::Instant::now();
    let factory = Arc::new(Factory::named("bbr3").unwrap());
    for (mtu, window) in [(1200, 12_000), (1452, 14_520), (1500, 14_720), (9000, 18_000)] {
        let controller = ControllerFactory::build(factory.clone(), now, mtu);
        // quinn stops a byte short of what it is told.
        assert!(controller.initial_window() == window && controller.window().abs_diff(window) <= 1);
    }
    let (_, rows) = run("20mbit 10ms", 1, |_| ());
    assert_eq!((rows[0].ack.event, rows[0].control.cwnd), (Event::Init, 12_000));
}

#[test]
fn init_09_the_first_rtt_replaces_the_nominal_one() {
    let (_, rows) = run("20mbit 100ms", 1, |spec| spec.source = Source::Finite { bytes: 3000 });
    assert_eq!(rows[0].control.pacing_rate / 10_000, 3_324, "2.77 * 12000 / 1 ms");
    let first = rows.iter().find(|r| r.ack.event == Event::Ack && r.ack.rs_rtt_us != NO_RTT).unwrap();
    assert!((100_000..103_000).contains(&first.ack.rs_rtt_us), "{}", first.ack.rs_rtt_us);
    let expected = 2_770 * 12_000_000 / first.ack.rs_rtt_us;
    assert!(first.control.pacing_rate.abs_diff(expected) < expected / 500, "{}", first.control.pacing_rate);
}

#[test]
fn maxbw_02_and_03_the_filter_advances_once_a_cycle() {
    let (net, rows) = run("20mbit 40ms queue=2bdp", 60, |_| ());
    let last = rows.last().unwrap();
    let is_cycling = |s: Mode| (Mode::ProbeBwDown..=Mode::ProbeBwRefill).contains(&s);
    let ups = changes(&rows, |s| s == Mode::ProbeBwUp, is_cycling);
    let drains = changes(&rows, |s| s == Mode::Drain, is_cycling);
    let probe_rtts = changes(&rows, |s| s == Mode::ProbeRtt, |_| true);
    // ProbeRTT comes about every five seconds, and hardly ever without a probe of the bandwidth between two.
    assert!(drains == 1 && probe_rtts >= 9 && ups + 1 >= probe_rtts, "{ups} {drains} {probe_rtts}");
    // ProbeRTT starts a cycle too, or ends one without advancing the filter, because its samples are
    // application-limited (MAXBW-04).
    let (cycles, ends) = (last.state("cycle_count"), (ups + drains) as u64);
    assert!(cycles.abs_diff(ends) <= probe_rtts as u64, "{cycles}: {ups} {drains} {probe_rtts}");
    assert!(last.state("round_count") > 1000, "{}", last.state("round_count"));
    let in_cruise = rows.windows(2).filter(|w| {
        w[0].mode() == Mode::ProbeBwCruise && w[0].value::<AckPhase>("ack_phase") == AckPhase::Init
    });
    assert!(in_cruise.clone().count() > 10_000);
    assert!(in_cruise.clone().all(|w| w[0].state("cycle_count") == w[1].state("cycle_count")));
    assert!(mbit(net.received, 60) >= 18, "{} Mbit/s", mbit(net.received, 60));
}

/// In any 10 ms no more leaves than the highest rate in that time allows, plus one quantum, plus the token bucket of
/// the stack's own pacer, which holds 2 ms or ten packets.
#[test]
fn pace_04_what_leaves_is_paced() {
    let (net, rows) = run("100mbit 40ms queue=1bdp", 10, |_| ());
    let sent = net.sent.unwrap();
    let packets: Vec<(u64, u64)> = sent.iter().map(|(ns, bytes)| (ns / 1000, u64::from(*bytes))).collect();
    let (percent, mut checked) = (stack::PACED_PERCENT, 0);
    let offset_us = START_US - rows_start_us(&packets, &rows);
    let mut end = 0;
    let mut rate_at = 0;
    for (i, (from_us, _)) in packets.iter().enumerate() {
        while end < packets.len() && packets[end].0 < from_us + 10_000 {
            end += 1;
        }
        let (from, to) = (from_us + offset_us, from_us + offset_us + 10_000);
        while rate_at + 1 < rows.len() && rows[rate_at + 1].ack.now_us <= from {
            rate_at += 1;
        }
        // The first RTT is that of the handshake: before it there is only the nominal rate.
        if rows[rate_at].state("has_seen_rtt") == 0 {
            continue;
        }
        let in_force = rows[rate_at..].iter().take_while(|r| r.ack.now_us <= to);
        let rate = in_force.clone().map(|r| r.control.pacing_rate).max().unwrap();
        let quantum = in_force.map(|r| r.control.send_quantum).max().unwrap();
        let bytes: u64 = packets[i..end].iter().map(|p| p.1).sum();
        let paced = rate / 100 * percent;
        let allowed = paced / 100 + quantum + (paced / 500).max(10 * 1452);
        assert!(bytes <= allowed, "{bytes} in 10 ms from {from} us, {allowed} allowed");
        checked += 1;
    }
    assert!(checked > 50_000, "{checked}");
}

/// The time, on the network's clock, at which the client's first packet arrives, because that is when the server's
/// controller is made.
fn rows_start_us(packets: &[(u64, u64)], rows: &[Row]) -> u64 {
    let first_sent = rows.iter().find(|r| r.ack.event == Event::TxStart).unwrap();
    packets[0].0 - (first_sent.ack.now_us - START_US)
}

#[test]
fn prtt_a_probe_of_the_rtt_every_five_seconds() {
    let (net, rows) = run("20mbit 40ms queue=2bdp", 30, |_| ());
    let is_probe = |r: &Row| r.mode() == Mode::ProbeRtt;
    let mut entered = Vec::new();
    for (i, row) in rows.iter().enumerate().skip(1) {
        if is_probe(row) && !is_probe(&rows[i - 1]) {
            let end = i + rows[i..].iter().position(|r| !is_probe(r)).unwrap_or(rows.len() - i - 1);
            let probe = &rows[i..end];
            // PRTT-03: half a BDP (of 100 kB), and something smaller was in flight for 200 ms and a round (PRTT-05).
            let least = probe.iter().map(|r| r.control.cwnd).max().unwrap();
            assert!((4 * 1200..=55_000).contains(&least), "{least}");
            let low: Vec<_> = probe.iter().filter(|r| r.state("probe_rtt_done_stamp") != 0).collect();
            if let (Some(first), true) = (low.first(), end + 1 < rows.len()) {
                let us = rows[end].ack.now_us - first.ack.now_us;
                assert!((200_000..400_000).contains(&us), "{us}");
            }
            entered.push(row.ack.now_us);
            // PRTT-12: nothing measured in it lowers the maximum.
            assert!(probe.iter().all(|r| r.state("max_bw") == probe[0].state("max_bw")));
        }
    }
    assert!((4..=6).contains(&entered.len()), "{entered:?}");
    assert!(entered.windows(2).all(|w| w[1] - w[0] > 5_000_000), "{entered:?}");
    assert!(mbit(net.received, 30) >= 18, "PRTT-10: {} Mbit/s", mbit(net.received, 30));
}

#[test]
fn loss_a_lost_packet_is_judged_by_its_own_transmission() {
    let (_, rows) = run("50mbit 40ms queue=0.2bdp", 30, |_| ());
    let lost: Vec<&Row> = rows.iter().filter(|r| r.ack.event == Event::Lost).collect();
    assert!(lost.len() > 100, "{}", lost.len());
    for r in &lost {
        let a = &r.ack;
        // LOSS-03: the packet itself is in what was lost and in what was in flight.
        assert!(a.rs_lost >= a.newly_lost && a.newly_lost > 0 && a.rs_tx_in_flight >= a.newly_lost);
        assert!(a.newly_lost <= stack::LOST_BYTES, "{}", a.newly_lost);
    }
    // LOSS-04 and LOSS-08: more than 2 % of it ends UP at once, with the long-term bound cut to what was in flight.
    let mut ended = 0;
    for w in rows.windows(2).filter(|w| w[1].ack.event == Event::Lost) {
        let (before, a) = (&w[0], &w[1].ack);
        let is_too_high = a.rs_lost * 50 > a.rs_tx_in_flight;
        if before.mode() == Mode::ProbeBwUp && before.state("is_bw_probe_sample") == 1 && is_too_high {
            assert_eq!(w[1].mode(), Mode::ProbeBwDown);
            assert_eq!(w[1].value::<Mode>("undo_state"), Mode::ProbeBwUp);
            assert!(w[1].state("inflight_longterm") < BBR3_INFINITY);
            ended += 1;
        }
    }
    assert!(ended >= 3, "{ended} probes ended by loss");
    // The counters: each packet once, and the ACK's event knows of the losses of its own frame.
    let told: u64 = lost.iter().map(|r| r.ack.newly_lost).sum();
    assert_eq!(told, rows.last().unwrap().ack.lost);
    assert!(rows.iter().any(|r| r.ack.event == Event::Ack && r.ack.newly_lost > 0));
    // One reaction a recovery period.
    let reactions = rows.iter().filter(|r| r.ack.event == Event::Ssthresh).count();
    assert!(reactions > 3 && reactions < lost.len(), "{reactions}");
}

#[test]
fn ecn_marks_count_as_congestion() {
    let (net, rows) = run("50mbit 40ms queue=4bdp ce=2ms", 20, |_| ());
    let marked = rows.last().unwrap().ack.delivered_ce;
    let marks = net.down_stats().mark_packets;
    assert!(marks > 100 && net.down_stats().drop_packets == 0, "{marks}");
    // No mark is missed; of an ACK with one, all it delivered counts.
    assert!(marked >= marks * 1200 && marked <= marks * 4 * 1452, "{marked} bytes of {marks} packets");
    assert!(rows.iter().any(|r| r.ack.event == Event::Ssthresh));
    // ECN-02: marks count as losses, so they end probes, and in the other phases they lower the short-term bounds.
    assert!(rows.iter().any(|r| r.state("inflight_longterm") < BBR3_INFINITY));
    assert!(rows.iter().any(|r| r.state("bw_shortterm") < BBR3_INFINITY));
    let queued_us = net.queued_us.unwrap();
    let mean_ms = queued_us.iter().map(|us| u64::from(*us)).sum::<u64>() / queued_us.len() as u64 / 1000;
    assert!(mean_ms < 10, "{mean_ms} ms in the queue");
}

/// An application that writes less than the path carries: its samples are marked, and never lower the maximum.
#[test]
fn rate_09_samples_of_a_quiet_application_are_marked() {
    let (_, rows) = run("50mbit 40ms queue=1bdp", 10, |spec| {
        spec.source = Source::Messages { bytes: 20_000, interval_us: 100_000 }
    });
    let acks: Vec<&Row> =
        rows.iter().filter(|r| r.ack.event == Event::Ack && r.ack.rs_delivered > 0).collect();
    let marked = acks.iter().filter(|r| r.ack.rs_is_app_limited).count();
    assert!(acks.len() > 500 && marked * 10 > acks.len() * 8, "{marked} of {}", acks.len());
    assert!(rows.iter().filter(|r| r.ack.event == Event::TxStart).count() > 90);
    let (_, rows) = run("50mbit 40ms queue=1bdp", 10, |_| ());
    let acks: Vec<&Row> = rows.iter().filter(|r| r.ack.event == Event::Ack).collect();
    // Some samples are marked all the same, because ProbeRTT marks what is in flight for an eighth of a second in
    // five.
    let marked = acks.iter().skip(50).filter(|r| r.ack.rs_is_app_limited).count();
    assert!(marked * 20 < acks.len(), "{marked} of {}", acks.len());
}

/// On a clean path Startup doubles the window each round until the link is full, and nothing ends it earlier.
#[test]
fn startup_01_fills_the_link() {
    let (_, rows) = run("100mbit 50ms queue=4bdp", 4, |_| ());
    let drain = rows.iter().find(|r| r.mode() == Mode::Drain).expect("Startup ends");
    let link = 100_000_000 / 8 * 1472 / 1500;
    let max_bw = (u128::from(drain.state("max_bw")) * 1_000_000) >> headway_cc::cc::fixed::BW_SCALE;
    assert!(max_bw.abs_diff(link) * 50 < link, "{max_bw} of {link} bytes/s");
    assert!(drain.ack.now_us - START_US < 1_200_000, "{}", drain.ack.now_us);
}

/// A recovery period of RFC 9002 lasts a round and ends before the next one begins, so no round is wholly in
/// recovery, and scattered losses do not end Startup before the link is full.
#[test]
fn startup_03_scattered_losses_do_not_end_startup() {
    let (_, rows) = run("50mbit 100ms queue=2bdp loss=3%", 6, |_| ());
    let drain = rows.iter().find(|r| r.mode() == Mode::Drain).expect("Startup ends");
    assert_eq!((drain.state("full_bw_count"), drain.state("inflight_longterm")), (3, BBR3_INFINITY));
    assert!(rows.iter().filter(|r| r.ack.event == Event::Lost).count() > 30);
}
