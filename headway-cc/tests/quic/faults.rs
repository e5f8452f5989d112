//! Bad peers, bad paths and bad clocks: nothing may panic or stall for longer than the stack itself would. Both
//! stacks use this one file, as they do `net.rs`.

use super::net::{Fate, Net, Spec};
use crate::trace::Trace;
use headway_cc::cc::{Ack, Control, Controller, Event};
use headway_cc::quic::Factory;
use headway_cc::sim::Source;

const SECOND: u64 = 1_000_000;
const PATH: &str = "20mbit 40ms queue=1bdp";

/// A connection over `path` with each of our controllers.
fn each(path: &str, with: fn(&mut Spec), test: impl Fn(&mut Net, &Trace, &str)) {
    for cc in ["bbr3", "bbr1", "cubic"] {
        let (trace, factory) = Trace::of(cc);
        let mut spec = Spec::new(path, factory);
        with(&mut spec);
        let mut net = Net::new(&spec);
        test(&mut net, &trace, cc);
        assert!(!net.is_lost, "{cc}");
        trace.replay(cc);
    }
}

/// Payload that arrives in the next second, Mbit/s.
fn mbit(net: &mut Net) -> u64 {
    let (before, end) = (net.received, net.now_us() + SECOND);
    net.run_until(end);
    (net.received - before) * 8 / SECOND
}

#[test]
fn a_peer_that_does_not_acknowledge_is_probed_and_found_again() {
    each(
        PATH,
        |_| (),
        |net, trace, cc| {
            net.run_until(3 * SECOND);
            net.sent = Some(Vec::new());
            net.fate = Box::new(|now_ns, is_down, _| {
                let is_mute = (3_000_000_000..13_000_000_000).contains(&now_ns);
                if is_mute && !is_down { Fate::Drop } else { Fate::Pass }
            });
            net.run_until(4 * SECOND);
            let filled = net.sent.take().unwrap().len();
            net.sent = Some(Vec::new());
            net.run_until(13 * SECOND);
            let probes = net.sent.take().unwrap().len();
            assert!(filled < 500 && probes < 100, "{cc}: {filled} packets, then {probes}");
            // The next probe comes with the stack's timer, which has doubled all the while.
            net.run_until(30 * SECOND);
            let rate = mbit(net);
            assert!(rate >= 10, "{cc}: {rate} Mbit/s");
            assert!(trace.rows().iter().all(|r| r.control.cwnd > 0 && r.control.pacing_rate > 0));
        },
    );
}

#[test]
fn everything_arrives_twice() {
    each(
        "20mbit 40ms queue=4bdp",
        |_| (),
        |net, _, cc| {
            net.fate = Box::new(|_, is_down, _| if is_down { Fate::Pass } else { Fate::Twice });
            net.run_until(5 * SECOND);
            let rate = mbit(net);
            assert!(rate >= 15, "{cc}: {rate} Mbit/s");
        },
    );
}

/// Jitter of half the round trip moves each packet past hundreds of others; the stack declares most lost.
#[test]
fn everything_is_reordered() {
    each(
        "20mbit 40ms queue=4bdp jitter=20ms reorder",
        |_| (),
        |net, _, cc| {
            net.run_until(10 * SECOND);
            let before = net.received;
            net.run_until(20 * SECOND);
            let kbit = (net.received - before) * 8 / 10_000;
            assert!(kbit >= 100, "{cc}: {kbit} kbit/s");
        },
    );
}

#[test]
fn the_mtu_falls() {
    each(
        PATH,
        |_| (),
        |net, trace, cc| {
            net.run_until(5 * SECOND);
            net.mtu = 1250;
            net.run_until(30 * SECOND);
            let rate = mbit(net);
            assert!(rate >= 10, "{cc}: {rate} Mbit/s");
            let rows = trace.rows();
            let largest = rows.iter().map(|r| r.ack.smss).max().unwrap();
            assert!(largest > 1400 && rows.last().unwrap().ack.smss <= 1250, "{cc}: {largest}");
        },
    );
}

/// Another port is the same path, so the model is kept. Another address is another path and gets a new controller.
#[test]
fn the_peer_moves() {
    for (ip, flows) in [([10, 0, 0, 1], 1), ([10, 0, 0, 9], 2)] {
        let (trace, factory) = Trace::of("bbr3");
        let mut net = Net::new(&Spec::new(PATH, factory));
        net.run_until(5 * SECOND);
        net.move_client(ip, 6000);
        net.run_until(10 * SECOND);
        let rate = mbit(&mut net);
        assert!(rate >= 15 && !net.is_lost, "{rate} Mbit/s");
        trace.replay("bbr3");
        let starts = trace.rows().iter().filter(|r| r.ack.event == Event::Init).count();
        assert_eq!(starts, flows, "{ip:?}");
    }
}

#[test]
fn the_clock_stands_still() {
    each(
        PATH,
        |_| (),
        |net, _, cc| {
            net.clock = |ns| match ns {
                0..3_000_000_000 => ns,
                3_000_000_000..3_500_000_000 => 3_000_000_000,
                _ => ns - 500_000_000,
            };
            // RTTs of 0 were measured while the clock stood still, and BBR believes its minimum for ten seconds.
            net.run_until(20 * SECOND);
            let rate = mbit(net);
            assert!(rate >= 15, "{cc}: {rate} Mbit/s");
        },
    );
}

/// A controller that always asks for a window of one byte, without pacing.
#[derive(Clone, Debug)]
struct One;

impl Controller for One {
    fn on_event(&mut self, _: &Ack) -> Control {
        Control { cwnd: 1, pacing_rate: u64::MAX, send_quantum: u64::MAX, mark_app_limited: false }
    }

    fn state(&self) -> Vec<u64> {
        Vec::new()
    }

    fn state_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

/// One packet is sent every round trip plus the peer's delay of its ACK (25 ms).
#[test]
fn a_window_of_one_packet() {
    let mut net = Net::new(&Spec::new(PATH, Factory::new("one", || Box::new(One))));
    net.run_until(10 * SECOND);
    assert!(net.received > 10 * 1_000_000 / 66_000 * 1100, "{}", net.received);
}

#[test]
fn timers_fire_late() {
    each(
        PATH,
        |_| (),
        |net, _, cc| {
            net.late_ns = 50_000_000;
            net.run_until(10 * SECOND);
            let rate = mbit(net);
            // Between two timers no more is sent than the stack's token bucket holds, except when ACKs come.
            assert!(rate >= 5, "{cc}: {rate} Mbit/s");
        },
    );
}

#[test]
fn an_application_that_pauses_goes_on() {
    let pause = |spec: &mut Spec| {
        spec.source = Source::OnOff { on_us: 4 * SECOND, off_us: 5 * SECOND };
        spec.tune = |t| _ = t.send_window(400_000);
    };
    each(PATH, pause, |net, trace, cc| {
        net.run_until(10 * SECOND);
        let rate = mbit(net);
        assert!(rate >= 12, "{cc}: {rate} Mbit/s");
        assert!(trace.rows().iter().any(|r| r.ack.event == Event::TxStart && r.ack.now_us > 9 * SECOND));
    });
}
