//! A transport around BBRv3 with a fake clock, and runs of the simulator with every event.
//!
//! [`Flow`] counts bytes and makes up ACKs, each with the rate that it is to measure. State, parameters and the next
//! event are open to the test. An ACK from [`Flow::ack`] is a round of its own, one from [`Flow::more`] is not;
//! [`Flow::flight`] is a round of several. [`Flow::at`] gives a flow that events have led to a state.

use headway_cc::cc::bbr3::*;
use headway_cc::cc::fixed::{BW_SCALE, USEC_PER_SEC, bw_from};
use headway_cc::cc::{Ack, CaState, Control, Event, NO_RTT};
use headway_cc::sim::{self, FlowRun, FlowSpec, SimRun, SimSpec};

/// Bytes of a segment.
pub const MSS: u64 = 1_200;
/// RTT of a new flow.
pub const RTT_US: u64 = 40_000;
/// The rate that [`Flow::at`] has measured, bytes/s, and the bandwidth-delay product.
pub const RATE: u64 = 1_000_000;
pub const BDP: u64 = 40_000;
/// When a new flow begins.
pub const START_US: u64 = 1_000_000;

/// A connection as the controller sees it.
#[derive(Clone, Debug)]
pub struct Flow {
    pub s: Bbr3State,
    pub p: Bbr3Params,
    /// What the next event says, but for the sample that it makes up: a test sets `inflight`, `ca_state` and so on.
    pub c: Ack,
    /// How long a round takes, and the RTT that ACKs measure.
    pub rtt_us: u64,
    /// What ACKs measure on the way to a state, bytes/s.
    pub rate: u64,
}

impl Flow {
    /// Ten segments of window, a handshake of 40 ms, selective ACKs, always limited by the window.
    pub fn new() -> Self {
        Self::init(Bbr3Params::default(), |_| {})
    }

    /// The same with other parameters and another first event.
    pub fn init(p: Bbr3Params, change: impl FnOnce(&mut Ack)) -> Self {
        let mut c = Ack {
            event: Event::Init,
            now_us: START_US,
            unit_bytes: 1,
            smss: MSS,
            cwnd: 10 * MSS,
            cwnd_clamp: u64::MAX,
            max_pacing_rate: u64::MAX,
            srtt_us: RTT_US,
            min_rtt_us: RTT_US,
            rs_rtt_us: NO_RTT,
            is_cwnd_limited: true,
            has_selective_acks: true,
            ..Ack::default()
        };
        change(&mut c);
        let mut flow = Self { s: Bbr3State::default(), p, c, rtt_us: RTT_US, rate: RATE };
        flow.give(&c);
        flow
    }

    /// A new flow over another path.
    pub fn over(rtt_us: u64, rate: u64) -> Self {
        let flow = Self::init(Bbr3Params::default(), |c| (c.srtt_us, c.min_rtt_us) = (rtt_us, rtt_us));
        Self { rtt_us, rate, ..flow }
    }

    /// A flow that has measured [`RATE`] over [`RTT_US`] and come to `state` in the usual way, as early as it could.
    /// No long-term bound is set, inflight is three quarters of a BDP from CRUISE on.
    pub fn at(state: Mode) -> Self {
        let mut flow = Self::new();
        flow.go(state);
        flow
    }

    /// Leads a flow on to `state`.
    pub fn go(&mut self, state: Mode) {
        for _ in 0..30 {
            if self.s.state == state {
                return;
            }
            self.step(state);
        }
        panic!("{:?} is not {state:?}: {self:?}", self.s.state);
    }

    /// An ACK towards `goal`, which is another state: flat rounds end Startup and UP, small inflight ends Drain and
    /// DOWN unless they are the goal, and ProbeRTT, which an RTT seen just before keeps away; the wait ends with a probe.
    fn step(&mut self, goal: Mode) {
        let state = self.s.state;
        if goal == Mode::ProbeRtt && state >= Mode::ProbeBwDown {
            self.c.now_us = self.s.probe_rtt_min_stamp + 5_000_001;
            self.more(self.rate);
            return;
        }
        if state == Mode::ProbeBwCruise {
            self.s.probe_rtt_min_stamp = self.c.now_us;
            self.c.now_us = self.c.now_us.max(self.s.cycle_stamp + self.s.bw_probe_wait_us);
            self.more(self.rate);
            return;
        }
        let bdp = self.rate * self.rtt_us / USEC_PER_SEC / self.c.unit_bytes;
        self.c.inflight = match goal {
            Mode::Drain => 2 * bdp,
            Mode::ProbeBwDown => bdp * 9 / 8,
            _ if state == Mode::ProbeRtt => bdp / 2,
            _ => bdp * 3 / 4,
        };
        self.ack(self.rate);
    }

    /// Hands an event over and applies the answer.
    pub fn give(&mut self, ack: &Ack) -> Control {
        let mut out = Control::default();
        bbr3_on_event(&mut self.s, &self.p, ack, &mut out);
        (self.c.cwnd, self.c.pacing_rate) = (out.cwnd, out.pacing_rate);
        out
    }

    /// An event other than an ACK.
    pub fn tell(&mut self, event: Event) -> Control {
        self.give(&Ack { event, ..self.c })
    }

    /// An RTT later an ACK of one segment that measures `rate` bytes/s (0: no valid rate) and starts a round.
    pub fn ack(&mut self, rate: u64) -> Control {
        self.ack_with(rate, |_| {})
    }

    /// The same, changed before it is handed over.
    pub fn ack_with(&mut self, rate: u64, change: impl FnOnce(&mut Ack)) -> Control {
        self.sample(self.rtt_us, self.c.delivered, rate, change)
    }

    /// A millisecond later another ACK of the same round and of the same loss round.
    pub fn more(&mut self, rate: u64) -> Control {
        self.more_with(rate, |_| {})
    }

    /// The same, changed before it is handed over.
    pub fn more_with(&mut self, rate: u64, change: impl FnOnce(&mut Ack)) -> Control {
        let sentinel = self.s.next_round_delivered.min(self.s.loss_round_delivered);
        self.sample(1_000, sentinel.saturating_sub(1), rate, change)
    }

    /// A round of `packets` that left together after all before them was delivered; their ACKs are spread over an RTT.
    pub fn flight(&mut self, packets: u64, rate: u64) -> Control {
        let prior_delivered = self.c.delivered;
        let mut control = Control::default();
        for _ in 0..packets {
            control = self.sample(self.rtt_us / packets, prior_delivered, rate, |_| {});
        }
        control
    }

    fn sample(&mut self, after_us: u64, prior: u64, rate: u64, change: impl FnOnce(&mut Ack)) -> Control {
        self.c.now_us += after_us;
        self.c.delivered += self.c.smss;
        let mut ack = Ack {
            event: Event::Ack,
            delivered_us: self.c.now_us,
            newly_acked: self.c.smss,
            prior_inflight: self.c.inflight,
            rs_delivered: rate * self.rtt_us / USEC_PER_SEC / self.c.unit_bytes,
            rs_interval_us: if rate == 0 { 0 } else { self.rtt_us },
            rs_rtt_us: self.rtt_us,
            rs_prior_delivered: prior,
            rs_tx_in_flight: self.c.inflight,
            ..self.c
        };
        change(&mut ack);
        self.give(&ack)
    }

    /// A round in recovery: `ranges` of a segment each are lost, then an ACK measures `rate`, `lost` bytes lost since its
    /// packet left with `tx_in_flight`. It ends the loss round that its losses began.
    pub fn lossy_round(&mut self, rate: u64, ranges: u64, lost: u64, tx_in_flight: u64) {
        if self.c.ca_state < CaState::Recovery {
            self.tell(Event::Ssthresh);
            self.c.ca_state = CaState::Recovery;
        }
        (0..ranges).for_each(|i| self.lose((i + 1) * self.c.smss, tx_in_flight));
        let newly_lost = ranges * self.c.smss;
        self.ack_with(rate, |a| {
            (a.rs_lost, a.rs_tx_in_flight, a.newly_lost) = (lost, tx_in_flight, newly_lost)
        });
    }

    /// A segment is marked lost that left with `tx_in_flight` in flight; `lost` bytes were lost since, itself included.
    pub fn lose(&mut self, lost: u64, tx_in_flight: u64) {
        self.lose_with(lost, tx_in_flight, |_| {});
    }

    /// The same, changed before it is handed over.
    pub fn lose_with(&mut self, lost: u64, tx_in_flight: u64, change: impl FnOnce(&mut Ack)) {
        self.c.lost += self.c.smss;
        let mut ack = Ack {
            event: Event::Lost,
            newly_lost: self.c.smss,
            rs_lost: lost,
            rs_tx_in_flight: tx_in_flight,
            rs_starts_lost_range: true,
            ..self.c
        };
        change(&mut ack);
        self.give(&ack);
    }
}

/// Bytes per second as the controller holds them.
pub fn bw(rate: u64) -> u64 {
    bw_from(rate, USEC_PER_SEC)
}

/// A bandwidth of the controller in bytes per second, to the nearest.
pub fn rate_of(bw: u64) -> u64 {
    u64::try_from((u128::from(bw) * u128::from(USEC_PER_SEC) + (1 << (BW_SCALE - 1))) >> BW_SCALE)
        .unwrap_or(u64::MAX)
}

/// Demands that a number is within `per_mille` of what is expected.
#[track_caller]
pub fn assert_near(got: u64, want: u64, per_mille: u64) {
    assert!(got.abs_diff(want) * 1000 <= want * per_mille, "{got} is not {want} to {per_mille} per mille");
}

/// One event of a simulated flow, the answer to it and the state after it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub ack: Ack,
    pub control: Control,
    pub s: Bbr3State,
}

/// Simulates flows over a path, with traces.
pub fn simulate(path: &str, flows: Vec<FlowSpec>, seconds: u64) -> SimRun {
    let path = path.parse().expect("a path");
    let mut spec = SimSpec::new(path, flows, seconds * USEC_PER_SEC, 1);
    spec.trace = true;
    sim::run(&spec).expect("a run")
}

/// The events of a bbr3 flow.
pub fn steps(flow: &FlowRun) -> Vec<Step> {
    let state = |words: &[u64]| Bbr3State::from_words(words).expect("a whole state");
    flow.trace.iter().map(|row| Step { ack: row.ack, control: row.control, s: state(&row.state) }).collect()
}

/// One bulk bbr3 flow alone on a path, step by step.
pub fn alone(path: &str, seconds: u64) -> Vec<Step> {
    steps(&simulate(path, vec![FlowSpec::bulk("bbr3")], seconds).flows[0])
}
