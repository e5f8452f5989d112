//! Laws of the simulator: what must hold for every path, source and controller.

use headway_cc::cc::{self, CaState, Event};
use headway_cc::rand::Rng;
use headway_cc::sim::{FlowRun, FlowSpec, SimError, SimRun, SimSpec, Source, Step, TraceRow, What, run};

const CCS: [&str; 3] = ["bbr1", "bbr3", "cubic"];
const SECOND_US: u64 = 1_000_000;

fn spec(path: &str, flows: Vec<FlowSpec>, seconds: u64) -> SimSpec {
    SimSpec::new(path.parse().unwrap(), flows, seconds * SECOND_US, 1)
}

fn with_source(cc: &str, source: Source) -> FlowSpec {
    FlowSpec { source, ..FlowSpec::bulk(cc) }
}

fn sim(spec: &SimSpec) -> SimRun {
    let run = run(spec).unwrap();
    check_laws(spec, &run);
    run
}

/// Checks what holds for any run: no packet appears or vanishes, and no link carries more than its capacity.
fn check_laws(spec: &SimSpec, run: &SimRun) {
    let total = |of: fn(&FlowRun) -> u64| run.flows.iter().map(of).sum::<u64>();
    let capacity_bits = spec.path.capacity_bits(0, spec.duration_us * 1000);
    // What is in the policer's bucket at the start comes on top.
    let bucket_bits = spec.path.down.policer.map_or(0, |p| 8 * p.burst_bytes);
    assert!(
        8 * total(|f| f.delivered_bytes) <= capacity_bits.saturating_add(bucket_bits),
        "more than the link carries"
    );
    for bins in [&run.down, &run.up] {
        let sum = |of: fn(&headway_cc::sim::LinkBin) -> u64| bins.iter().map(of).sum::<u64>();
        assert!(
            sum(|b| b.in_packets)
                >= sum(|b| b.out_packets) + sum(|b| b.drop_packets) + sum(|b| b.lost_packets)
        );
    }
    if spec.duration_us.is_multiple_of(spec.bin_us) {
        let pushed: u64 = run.down.iter().map(|b| b.in_packets).sum();
        let sent = total(|f| f.sent_packets) + (run.probes.len() + run.datagrams.len()) as u64;
        let syns = pushed - sent;
        assert!(
            (run.flows.len() as u64..=12 * run.flows.len() as u64).contains(&syns),
            "{pushed} pushed, {sent} sent"
        );
    }
    for flow in &run.flows {
        let bins: u64 = flow.bins.iter().map(|b| b.delivered_bytes).sum();
        assert!(bins <= flow.delivered_bytes && flow.delivered_bytes <= flow.sent_bytes);
        assert!(flow.retransmitted_packets <= flow.sent_packets);
        let least_us = spec.path.base_rtt_us();
        assert!(flow.min_rtt_us == 0 || flow.min_rtt_us >= least_us, "{} < {least_us}", flow.min_rtt_us);
    }
    for probe in run.probes.iter().filter_map(|p| p.rtt_us) {
        assert!(probe + 1 >= spec.path.base_rtt_us());
    }
    for delay in run.datagrams.iter().filter_map(|d| d.delay_us) {
        assert!(delay + 1 >= spec.path.down.delay_ns / 1000);
    }
}

/// On an idle path a message takes the propagation delay and its serialisation. Beside a loss-based flow it waits in
/// the same queue. The last messages arrive although the flows have ended. The path loses messages like any other
/// packet.
#[test]
fn messages_share_the_queue() {
    let with_messages = |path, flows, text: &str| {
        let mut spec = spec(path, flows, 20);
        spec.probe_interval_us = 0;
        spec.messages = Some(text.parse().unwrap());
        sim(&spec)
    };
    let idle = with_messages("10mbit 40ms queue=2bdp", Vec::new(), "222@50");
    assert_eq!(idle.datagrams.len(), 1000);
    assert!(idle.datagrams.iter().all(|d| d.delay_us.is_some_and(|us| us.abs_diff(20_200) <= 1)));
    assert!(idle.datagrams.windows(2).all(|w| (w[1].due_us - w[0].due_us).abs_diff(20_000) <= 1));
    let busy = with_messages("10mbit 40ms queue=2bdp", vec![FlowSpec::bulk("cubic")], "64..1200@100");
    let most = busy.datagrams.iter().filter_map(|d| d.delay_us).max().unwrap();
    // The sum of 20 ms of propagation, 80 ms of queue, and the packet that is being sent.
    assert!((95_000..=103_000).contains(&most), "{most}");
    assert!(busy.datagrams.iter().rev().take(5).all(|d| d.delay_us.is_some()));
    let lossy = with_messages("10mbit 40ms queue=2bdp loss=2%", Vec::new(), "200@100");
    let lost = lossy.datagrams.iter().filter(|d| d.delay_us.is_none()).count();
    assert!((10..80).contains(&lost), "5 sigma around 40 of 2000 are 9 to 71: {lost}");
    let other = with_messages("10mbit 40ms queue=2bdp", vec![FlowSpec::bulk("cubic")], "64..1200@100");
    assert_eq!(busy.datagrams, other.datagrams);
}

fn jain(flows: &[FlowRun]) -> f64 {
    let rates: Vec<f64> = flows.iter().map(|f| f.delivered_bytes as f64).collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
    sum * sum / (rates.len() as f64 * squares)
}

#[test]
fn same_seed_same_run() {
    let flows = || CCS.map(FlowSpec::bulk).to_vec();
    let mut one = spec("20mbit 40ms queue=1bdp loss=0.5% jitter=2ms", flows(), 5);
    one.trace = true;
    let first = sim(&one);
    assert_eq!(first, sim(&one));
    one.seed = 2;
    assert_ne!(first.flows, sim(&one).flows);
}

#[test]
fn idle_path_has_its_base_rtt() {
    let run = sim(&spec("50mbit 40ms queue=1bdp", vec![], 2));
    assert_eq!(run.probes.len(), 100);
    // A probe has 84 bytes, which take 13 µs at 50 Mbit/s.
    assert!(run.probes.iter().filter_map(|p| p.rtt_us).all(|rtt| rtt == 40_013));
    assert_eq!(run.probes.iter().filter(|p| p.rtt_us.is_none()).count(), 2, "still on their way at the end");
}

#[test]
fn finite_flows_finish_with_every_byte() {
    for cc in CCS {
        for bytes in [1, 1448, 1449, 14_480, 1_000_000] {
            let flow = with_source(cc, Source::Finite { bytes });
            let run = sim(&spec("20mbit 40ms queue=20pkt loss=1%", vec![flow], 30));
            assert_eq!(run.flows[0].delivered_bytes, bytes, "{cc}");
            assert!(run.flows[0].finished_us.is_some(), "{cc} {bytes}");
        }
    }
    // Ten segments are the initial window, so the flow takes a handshake, half a round trip and their serialisation.
    let flow = with_source("cubic", Source::Finite { bytes: 14_480 });
    let finished_us = sim(&spec("20mbit 40ms", vec![flow], 1)).flows[0].finished_us.unwrap();
    assert!((66_000..66_150).contains(&finished_us), "{finished_us}");
}

#[test]
fn no_flow_is_stuck_under_heavy_loss() {
    for cc in CCS {
        for seed in 0..20 {
            let flow = with_source(cc, Source::Finite { bytes: 100_000 });
            let mut one = spec("10mbit 40ms queue=1bdp loss=30% uploss=10%", vec![flow], 600);
            (one.seed, one.probe_interval_us) = (seed, 0);
            let flow = &sim(&one).flows[0];
            assert_eq!(flow.delivered_bytes, 100_000, "{cc} seed {seed}: {flow:?}");
        }
    }
}

#[test]
fn flow_resumes_after_an_outage() {
    for cc in CCS {
        let path = "10mbit 40ms queue=100pkt @3s 0mbit @6s 10mbit";
        let run = sim(&spec(path, vec![FlowSpec::bulk(cc)], 15));
        let late = run.flows[0].bins.iter().filter(|b| b.t_us >= 10 * SECOND_US);
        let rate_bps = late.map(|b| b.delivered_bytes).sum::<u64>() * 8 / 5;
        assert!(rate_bps > 8_000_000, "{cc}: {rate_bps} bit/s four seconds after the outage");
    }
}

#[test]
fn equal_flows_share_fairly() {
    for (cc, least) in [("cubic", 0.9), ("bbr1", 0.8)] {
        let late = FlowSpec { start_us: SECOND_US, ..FlowSpec::bulk(cc) };
        let run = sim(&spec("50mbit 40ms queue=1bdp", vec![FlowSpec::bulk(cc), late], 60));
        assert!(jain(&run.flows) > least, "{cc}: {}", jain(&run.flows));
    }
}

#[test]
fn extra_rtt_is_seen_by_its_flow_alone() {
    let far = FlowSpec { extra_rtt_us: 60_000, ..FlowSpec::bulk("cubic") };
    let run = sim(&spec("10mbit 40ms queue=1bdp", vec![FlowSpec::bulk("cubic"), far], 5));
    let (near_us, far_us) = (run.flows[0].min_rtt_us, run.flows[1].min_rtt_us);
    assert!((40_000..46_000).contains(&near_us), "{near_us}");
    assert!((100_000..120_000).contains(&far_us), "{far_us}");
}

#[test]
fn messages_arrive_within_a_one_way_delay() {
    for cc in CCS {
        let source = Source::Messages { bytes: 1000, interval_us: 10_000 };
        let run = sim(&spec("10mbit 40ms queue=1bdp", vec![with_source(cc, source)], 5));
        let messages = &run.flows[0].messages;
        assert!((497..=500).contains(&messages.len()), "{}", messages.len());
        // 20 ms and 1052 bytes at 10 Mbit/s; probes now and then go first, and the handshake before all.
        assert!(
            messages.iter().filter(|m| m.sent_us > 50_000).all(|m| (20_841..21_200).contains(&m.delay_us)),
            "{messages:?}"
        );
        assert_eq!(run.flows[0].retransmitted_packets, 0);
    }
}

#[test]
fn on_off_source_is_silent_in_between() {
    let source = Source::OnOff { on_us: SECOND_US, off_us: SECOND_US };
    for cc in CCS {
        let run = sim(&spec("10mbit 40ms queue=1bdp", vec![with_source(cc, source.clone())], 6));
        let new_bytes = |from_ms: u64, to_ms: u64| -> u64 {
            let bins = run.flows[0].bins.iter();
            let bins = bins.filter(|b| (from_ms * 1000..to_ms * 1000).contains(&b.t_us));
            bins.map(|b| b.sent_bytes - 1448 * b.retransmitted_packets).sum()
        };
        assert_eq!(new_bytes(1100, 2000) + new_bytes(3100, 4000), 0, "{cc}");
        assert!(new_bytes(2000, 3000) > 800_000, "{cc} {}", new_bytes(2000, 3000));
    }
}

#[test]
fn marks_replace_drops_where_the_path_marks() {
    let flow = || vec![FlowSpec::bulk("cubic")];
    let run = sim(&spec("20mbit 40ms queue=codel ecn", flow(), 20));
    let marks: u64 = run.down.iter().map(|b| b.mark_packets).sum();
    assert!(marks > 0);
    assert_eq!(run.flows[0].retransmitted_packets, 0, "CoDel alone would have dropped");
    let dropping = sim(&spec("20mbit 40ms queue=codel", flow(), 20));
    assert!(dropping.flows[0].retransmitted_packets > 0);
}

#[test]
fn reordering_is_not_taken_for_loss_for_long() {
    let run = sim(&spec("20mbit 40ms queue=1bdp reorder=2%/5ms", vec![FlowSpec::bulk("cubic")], 30));
    let flow = &run.flows[0];
    let late: u64 =
        flow.bins.iter().filter(|b| b.t_us > 5 * SECOND_US).map(|b| b.retransmitted_packets).sum();
    // Two in a hundred packets come 5 ms late: a fixed threshold of three would retransmit each.
    assert!(late * 500 < flow.sent_packets, "{late} of {}", flow.sent_packets);
    assert!(flow.delivered_bytes * 8 / 30 > 17_000_000, "{}", flow.delivered_bytes);
}

/// RFC 2861: a window that nothing paces is halved for every timeout of silence. A pause of 700 ms has two timeouts, of 200 ms
/// and a round trip of 40 to 70 ms each. It is not halved below the initial window of ten segments.
#[test]
fn a_window_is_halved_for_every_timeout_of_silence() {
    let source = Source::OnOff { on_us: 3 * SECOND_US, off_us: 700_000 };
    let mut one = spec("20mbit 40ms queue=0.7bdp", vec![with_source("cubic", source)], 12);
    one.trace = true;
    let rows = &sim(&one).flows[0].trace;
    let is_restart = |pair: &&[TraceRow]| pair[1].ack.event == Event::TxStart;
    let restarts: Vec<(u64, u64)> =
        rows.windows(2).filter(is_restart).map(|w| (w[0].control.cwnd, w[1].ack.cwnd)).collect();
    assert!(restarts.iter().filter(|(before, _)| before / 4 > 14_480).count() >= 2, "{restarts:?}");
    for (before, after) in restarts {
        assert_eq!(after, (before / 4).max(14_480), "{before}");
    }
}

#[test]
fn trace_is_complete() {
    for cc in CCS {
        let mut one = spec("20mbit 40ms queue=0.5bdp loss=0.1%", vec![FlowSpec::bulk(cc)], 5);
        one.trace = true;
        let rows = &sim(&one).flows[0].trace;
        assert!(rows.iter().filter(|r| r.ack.event == Event::Ack).count() > 2000);
        let mut twin = cc::controller(cc).unwrap();
        for (i, row) in rows.iter().enumerate() {
            assert_eq!(twin.on_event(&row.ack), row.control, "{cc} row {i}");
            assert_eq!(twin.state(), row.state, "{cc} row {i}");
        }
    }
}

/// Each lost packet is reported once, before the events that follow from it, with its own stamp. Losses of 2 % in
/// bursts of two make about as many ranges as bursts. An outage causes timeouts too.
#[test]
fn every_lost_packet_is_told_of_first() {
    for path in ["20mbit 40ms queue=1bdp loss=burst:1%/2", "10mbit 40ms queue=1bdp @2s 0mbit @3s 10mbit"] {
        let mut one = spec(path, vec![FlowSpec::bulk("cubic")], 8);
        one.trace = true;
        let rows = &sim(&one).flows[0].trace;
        let (mut lost, mut told, mut packets, mut ranges) = (0, 0, 0, 0);
        for (before, row) in rows.iter().zip(&rows[1..]) {
            let ack = &row.ack;
            told = if ack.now_us == before.ack.now_us { told } else { 0 };
            if ack.event == Event::Lost {
                assert!(ack.newly_lost > 0 && ack.rs_lost >= ack.newly_lost, "{ack:?}");
                assert!(
                    ack.rs_tx_in_flight >= ack.newly_lost && ack.lost == lost + ack.newly_lost,
                    "{ack:?}"
                );
                assert_eq!((row.control.cwnd, row.control.pacing_rate), (ack.cwnd, ack.pacing_rate));
                told += ack.newly_lost;
                packets += 1;
                ranges += u64::from(ack.rs_starts_lost_range);
            } else if ack.event == Event::Ack {
                assert_eq!(told, ack.newly_lost, "{ack:?}");
            }
            if matches!(ack.event, Event::Ssthresh | Event::Loss) && ack.ca_state < CaState::Recovery {
                assert!(before.ack.event == Event::Lost || ack.lost == before.ack.lost, "{ack:?}");
            }
            lost = ack.lost;
        }
        assert!(packets > 30 && lost > 0, "{path}: {packets}");
        assert!((1..packets).contains(&ranges), "{path}: {ranges} ranges of {packets} packets");
    }
}

#[test]
fn bad_specs_are_refused_in_words() {
    let mut one = spec("10mbit 40ms", vec![FlowSpec::bulk("reno")], 1);
    for (cc, said) in [
        (
            "reno",
            "unknown controller `reno`\nhint: there is bbr1, bbr1_brake, bbr3, bbr3_brake, headway, cubic",
        ),
        ("reno:beta=1", "unknown controller `reno`"),
        ("cubic:beta=1", "`cubic` has no parameters to set"),
        ("bbr3:bet=1", "there is no parameter `bet`"),
        ("bbr3:drain_rounds=ten", "`ten` in `drain_rounds=ten`: expected a whole number like 3"),
        ("bbr3:", "`` is not a setting; expected param=value"),
    ] {
        one.flows[0] = FlowSpec::bulk(cc);
        let error = run(&one).unwrap_err().to_string();
        assert!(error.starts_with(said), "{cc}: {error}");
    }
    one.flows.clear();
    one.mtu = 60;
    assert_eq!(run(&one), Err(SimError::Mtu(60)));
    one.mtu = 1500;
    one.bin_us = 0;
    assert_eq!(run(&one), Err(SimError::Zero("the length of a bin")));
}

/// Random paths, sources and controllers; the seed is printed by the assertion that fails.
#[test]
fn laws_hold_for_random_runs() {
    let mut rng = Rng::new(7, 0);
    let pick = |rng: &mut Rng, words: &[&str]| words[rng.below(words.len() as u64) as usize].to_string();
    for case in 0..150u64 {
        let path = [
            pick(&mut rng, &["1mbit", "10mbit", "100mbit", "unlimited"]),
            pick(&mut rng, &["1ms", "40ms", "10ms/150ms"]),
            pick(&mut rng, &["queue=1bdp", "queue=5pkt", "queue=300ms", "queue=codel"]),
            pick(&mut rng, &["", "ecn", "ce=1ms", "policer=5mbit/20kB"]),
            pick(&mut rng, &["", "loss=2%", "loss=ge:1%/30%", "loss=burst:1%/5"]),
            pick(&mut rng, &["", "jitter=3ms", "reorder=5%/10ms"]),
            pick(&mut rng, &["", "up=500kbit", "uploss=5%", "ackagg=10ms"]),
            pick(&mut rng, &["", "@300ms 500kbit @700ms 20mbit", "@500ms 0mbit @900ms 10mbit"]),
        ];
        let path = path.iter().filter(|w| !w.is_empty()).cloned().collect::<Vec<_>>().join(" ");
        let Ok(parsed) = path.parse() else { continue };
        let flows =
            (0..1 + rng.below(5)).map(|i| random_flow(&mut rng, i, path.starts_with("unlimited"))).collect();
        let mut one = SimSpec::new(parsed, flows, 1_500_000, case);
        one.mtu = [200, 1280, 1500, 9000][rng.below(4) as usize];
        println!("case {case}: {path} mtu {} {:?}", one.mtu, one.flows);
        sim(&one);
    }
}

fn random_flow(rng: &mut Rng, index: u64, is_unlimited: bool) -> FlowSpec {
    let source = match rng.below(4) {
        // Without a bottleneck a bulk flow would grow without limit.
        0 if !is_unlimited => Source::Bulk,
        1 if !is_unlimited => Source::OnOff { on_us: 1 + rng.below(300_000), off_us: 1 + rng.below(300_000) },
        2 => Source::Messages { bytes: 1 + rng.below(5000), interval_us: 1000 + rng.below(50_000) },
        _ => Source::Finite { bytes: 1 + rng.below(2_000_000) },
    };
    let cc = CCS[rng.below(3) as usize].to_string();
    FlowSpec {
        cc,
        source,
        start_us: index * 10_000,
        extra_rtt_us: rng.below(2) * rng.below(100_000),
        max_pacing_rate: u64::MAX,
    }
}

#[test]
fn the_log_of_packets_is_the_run() {
    packets_are_logged("10mbit 40ms queue=10pkt loss=1%");
    // CoDel drops packets that it takes out of the queue, so that a call may deliver none at all.
    packets_are_logged("10mbit 0ms queue=codel:1ms/5ms/100pkt loss=square:0%/100%/100ms");
}

fn packets_are_logged(path: &str) {
    let quiet = spec(path, vec![FlowSpec::bulk("cubic"), FlowSpec::bulk("bbr1")], 5);
    let logged = SimSpec { packets: true, ..quiet.clone() };
    let (quiet, logged) = (sim(&quiet), sim(&logged));
    assert!(quiet.packets.is_empty());
    assert_eq!(SimRun { packets: Vec::new(), ..logged.clone() }, quiet, "looking changes nothing");
    let rows = &logged.packets;
    assert!(rows.windows(2).all(|w| w[0].t_ns <= w[1].t_ns));
    for (is_down, bins) in [(true, &logged.down), (false, &logged.up)] {
        let own = || rows.iter().filter(|r| r.is_down == is_down);
        let bytes =
            |of: fn(&Step) -> bool| own().filter(|r| of(&r.step)).map(|r| u64::from(r.bytes)).sum::<u64>();
        let sum = |of: fn(&headway_cc::sim::LinkBin) -> u64| bins.iter().map(of).sum::<u64>();
        assert_eq!(bytes(|s| *s == Step::In), sum(|b| b.in_bytes));
        assert_eq!(bytes(|s| matches!(s, Step::Drop { .. })), sum(|b| b.drop_bytes));
        // What left the queue may still be on its way at the end.
        let arrived = bytes(|s| matches!(s, Step::Out { .. }));
        assert!(arrived <= sum(|b| b.out_bytes) && arrived + 100_000 > sum(|b| b.out_bytes), "{arrived}");
    }
    let segments = |flow: u32| {
        let sent = rows.iter().filter(|r| r.is_down && r.step == Step::In);
        sent.filter(|r| matches!(r.what, What::Segment { flow: f, .. } if f == flow)).count() as u64
    };
    for (flow, run) in logged.flows.iter().enumerate() {
        assert_eq!(segments(flow as u32), run.sent_packets);
    }
}

#[test]
fn no_flow_is_faster_than_it_is_paced() {
    for cc in ["bbr1", "bbr3", "cubic"] {
        let flow = FlowSpec { max_pacing_rate: 500_000, ..FlowSpec::bulk(cc) };
        let run =
            sim(&SimSpec::new("20mbit 40ms queue=1bdp".parse().unwrap(), vec![flow], 10 * SECOND_US, 1));
        let bps = run.flows[0].delivered_bytes as f64 * 8.0 / 10.0;
        assert!((3.0e6..4.0e6).contains(&bps), "{cc}: {bps}");
        assert_eq!(run.flows[0].retransmitted_packets, 0, "{cc}");
    }
}
