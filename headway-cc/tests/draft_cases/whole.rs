//! One whole connection in the simulator, with what an application does and how the story of its states went.

use crate::driver::{Step, rate_of, steps};
use headway_cc::cc::Event;
use headway_cc::cc::bbr3::Mode;
use headway_cc::sim::{FlowSpec, SimRun, SimSpec, Source, run};

pub const SECOND_US: u64 = 1_000_000;
/// Payload of a segment at an MTU of 1500.
pub const SEGMENT: u64 = 1448;

impl Step {
    /// `max_bw` in bytes per second.
    pub fn max_bw(&self) -> u64 {
        rate_of(self.s.max_bw)
    }

    /// The volume of one BDP, from `max_bw`.
    pub fn bdp(&self) -> u64 {
        self.max_bw() * self.s.min_rtt_us / SECOND_US
    }
}

/// One BBRv3 flow: what the transport saw, and every event.
#[derive(Debug)]
pub struct Whole {
    pub run: SimRun,
    pub steps: Vec<Step>,
}

impl Whole {
    /// `source` over `path` for so many seconds.
    pub fn new(path: &str, source: Source, seconds: u64) -> Self {
        Self::over(path, source, seconds * SECOND_US)
    }

    /// The same for a time in microseconds.
    pub fn over(path: &str, source: Source, duration_us: u64) -> Self {
        let flow = FlowSpec { source, ..FlowSpec::bulk("bbr3") };
        let mut spec = SimSpec::new(path.parse().expect(path), vec![flow], duration_us, 1);
        (spec.trace, spec.probe_interval_us, spec.bin_us) = (true, 0, 10_000);
        let mut run = run(&spec).expect(path);
        let steps = steps(&run.flows[0]);
        run.flows[0].trace.clear();
        Self { run, steps }
    }

    pub fn bulk(path: &str, seconds: u64) -> Self {
        Self::new(path, Source::Bulk, seconds)
    }

    /// Every change of state: the event before it and the event that made it.
    pub fn changes(&self) -> impl Iterator<Item = (&Step, &Step)> {
        self.steps.windows(2).map(|w| (&w[0], &w[1])).filter(|(a, b)| a.s.state != b.s.state)
    }

    /// The first change from one state to another at or after a time.
    pub fn change(&self, from: Mode, to: Mode, since_us: u64) -> (&Step, &Step) {
        let mut changes = self.changes();
        let found = changes.find(|(a, b)| a.s.state == from && b.s.state == to && b.ack.now_us >= since_us);
        found
            .unwrap_or_else(|| panic!("no change from {from:?} to {to:?} after {since_us}: {}", self.story()))
    }

    /// ACKs in a span of time.
    pub fn acks(&self, from_us: u64, to_us: u64) -> impl Iterator<Item = &Step> {
        let is_within = move |s: &&Step| (from_us..to_us).contains(&s.ack.now_us);
        self.steps.iter().filter(|s| s.ack.event == Event::Ack).filter(is_within)
    }

    /// Payload delivered between two times, bytes per second.
    pub fn goodput(&self, from_us: u64, to_us: u64) -> u64 {
        let bins = self.run.flows[0].bins.iter().filter(|b| (from_us..to_us).contains(&b.t_us));
        bins.map(|b| b.delivered_bytes).sum::<u64>() * SECOND_US / (to_us - from_us)
    }

    /// The states with the times of entry in milliseconds, for messages.
    pub fn story(&self) -> String {
        let name = |s: Mode| ["?", "STARTUP", "DRAIN", "DOWN", "CRUISE", "REFILL", "UP", "RTT"][s as usize];
        self.changes().map(|(_, b)| format!("{}:{} ", b.ack.now_us / 1000, name(b.s.state))).collect()
    }
}

/// Payload bytes per second of a link of so many bits per second that is full of segments.
pub fn payload_rate(bps: u64) -> u64 {
    bps / 8 * SEGMENT / 1500
}
