//! What a stock kernel can tell of a packet's transmission, held against what the simulated sender knows.
//!
//! `bbr1` and `cubic` look neither at `rs_tx_in_flight` and `rs_lost` nor at Event::Lost. So a run with kernel signals
//! is the run with exact signals, event by event, and each pair of events differs by the error of the reconstruction.

use headway_cc::cc::{Ack, Event};
use headway_cc::sim::{FlowSpec, Signals, SimSpec, run};
use std::fmt;

/// The events of one bulk flow.
fn events(cc: &str, path: &str, duration_us: u64, signals: Signals) -> Vec<Ack> {
    let mut spec = SimSpec::new(path.parse().unwrap(), vec![FlowSpec::bulk(cc)], duration_us, 1);
    (spec.trace, spec.signals, spec.probe_interval_us) = (true, signals, 0);
    run(&spec).unwrap().flows.remove(0).trace.into_iter().map(|row| row.ack).collect()
}

/// BBR's question: was more than 2 % lost of what was in flight with the packet?
fn is_too_high(ack: &Ack) -> bool {
    ack.rs_lost * 50 > ack.rs_tx_in_flight
}

/// How well the samples of ACKs were reconstructed.
#[derive(Debug, Default)]
struct Samples {
    count: u64,
    /// The entry was the newest that was opened before the packet left.
    exact_key: u64,
    same_decision: u64,
    too_high: u64,
    /// Errors of `rs_tx_in_flight`, of the true value in millionths, sorted.
    inflight_ppm: Vec<u64>,
    /// Errors of `rs_lost`, of the true in-flight in millionths, sorted.
    lost_ppm: Vec<u64>,
    largest_flight: u64,
}

impl Samples {
    fn compare(exact: &[Ack], kernel: &[Ack]) -> Self {
        let acks = |of: &[Ack]| of.iter().filter(|a| a.event == Event::Ack).copied().collect::<Vec<_>>();
        let (exact, kernel) = (acks(exact), acks(kernel));
        assert_eq!(exact.len(), kernel.len());
        let mut s = Self::default();
        for (e, k) in exact.iter().zip(&kernel) {
            let told = Ack { rs_tx_in_flight: e.rs_tx_in_flight, rs_lost: e.rs_lost, ..*k };
            assert_eq!(*e, told, "the runs are the same");
            if e.newly_acked == 0 {
                continue;
            }
            s.count += 1;
            // Of entries with one key the losses tell which was there when the packet left.
            s.exact_key += u64::from(k.rs_tx_in_flight > 0 && k.rs_lost >= e.rs_lost);
            s.same_decision += u64::from(is_too_high(e) == is_too_high(k));
            s.too_high += u64::from(is_too_high(e));
            let ppm = |error: u64| error * 1_000_000 / e.rs_tx_in_flight;
            s.inflight_ppm.push(ppm(e.rs_tx_in_flight.abs_diff(k.rs_tx_in_flight)));
            s.lost_ppm.push(ppm(e.rs_lost.abs_diff(k.rs_lost)));
            s.largest_flight = s.largest_flight.max(e.rs_tx_in_flight / e.smss);
        }
        s.inflight_ppm.sort_unstable();
        s.lost_ppm.sort_unstable();
        s
    }

    fn share(&self, part: u64) -> f64 {
        part as f64 * 100.0 / self.count as f64
    }
}

fn quantile(sorted: &[u64], per_mille: usize) -> f64 {
    sorted[(sorted.len() - 1) * per_mille / 1000] as f64 / 10_000.0
}

/// How well Event::Lost was reconstructed.
#[derive(Debug, Default)]
struct Losses {
    /// With kernel signals: times that something was told of, and events; segments with exact ones.
    bursts: u64,
    events: u64,
    segments: u64,
    same_decision: u64,
    too_high: u64,
    inflight_ppm: Vec<u64>,
}

impl Losses {
    /// The truth has an event for each segment as it is marked, the kernel's signals tell of all that were marked since the
    /// last event in a row: such a burst is too high when one of its events is.
    fn compare(exact: &[Ack], kernel: &[Ack]) -> Self {
        let lost: Vec<Ack> = exact.iter().filter(|a| a.event == Event::Lost).copied().collect();
        let mut s = Self { segments: lost.len() as u64, ..Self::default() };
        let mut exact = lost.iter().peekable();
        for told in kernel.chunk_by(|a, b| a.event == Event::Lost && b.event == Event::Lost) {
            let last = told[told.len() - 1];
            let mut burst: Vec<&Ack> = Vec::new();
            while last.event == Event::Lost
                && let Some(e) = exact.next_if(|e| e.lost <= last.lost)
            {
                burst.push(e);
            }
            // A tail that a probe repaired is told of by the kernel's signals only.
            let Some(oldest) = burst.iter().min_by_key(|e| e.rs_prior_delivered) else { continue };
            let sum = |of: &mut dyn Iterator<Item = u64>| of.sum::<u64>();
            assert_eq!(
                sum(&mut told.iter().map(|k| k.newly_lost)),
                sum(&mut burst.iter().map(|e| e.newly_lost))
            );
            let too_high = burst.iter().any(|e| is_too_high(e));
            s.bursts += 1;
            s.events += told.len() as u64;
            s.same_decision += u64::from(too_high == told.iter().any(is_too_high));
            s.too_high += u64::from(too_high);
            let ours = told.iter().min_by_key(|k| k.rs_prior_delivered).expect("it is not empty");
            let error = oldest.rs_tx_in_flight.abs_diff(ours.rs_tx_in_flight);
            s.inflight_ppm.push(error * 1_000_000 / oldest.rs_tx_in_flight);
        }
        s.inflight_ppm.sort_unstable();
        s
    }
}

/// Runs one flow twice and prints how the two differ; of the decisions 99.9 % must be the same.
fn check(cc: &str, path: &str, duration_us: u64) -> (Samples, Losses) {
    let exact = events(cc, path, duration_us, Signals::Exact);
    let kernel = events(cc, path, duration_us, Signals::Kernel);
    let (s, l) = (Samples::compare(&exact, &kernel), Losses::compare(&exact, &kernel));
    println!("{cc}, {path}: {s}\n{l}");
    assert!(s.count > 1000 && l.bursts > 10);
    assert!(s.exact_key * 1000 >= s.count * 999, "{cc}, {path}: {s}");
    assert!(s.same_decision * 1000 >= s.count * 999, "{cc}, {path}: {s}");
    assert!(l.same_decision * 1000 >= l.bursts * 999, "{cc}, {path}: {l}");
    // By construction: a 128th of the flight's losses, and what one ACK adds to it.
    assert!(quantile(&s.lost_ppm, 999) <= 0.4, "{cc}, {path}: {s}");
    assert!(
        quantile(&s.inflight_ppm, 500) == 0.0 && quantile(&s.inflight_ppm, 900) <= 0.1,
        "{cc}, {path}: {s}"
    );
    assert!(quantile(&l.inflight_ppm, 500) <= 1.5, "{cc}, {path}: {l}");
    (s, l)
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (t, l) = (&self.inflight_ppm, &self.lost_ppm);
        write!(f, "{} samples, up to {} segments in flight; ", self.count, self.largest_flight)?;
        write!(f, "key exact {:.3} %, ", self.share(self.exact_key))?;
        write!(f, "decision equal {:.2} %, too high {}; ", self.share(self.same_decision), self.too_high)?;
        write!(f, "rs_tx_in_flight off by {:.2} %, ", quantile(t, 500))?;
        write!(f, "p90 {:.2} %, p99 {:.2} %; ", quantile(t, 900), quantile(t, 990))?;
        write!(f, "rs_lost off by p99.9 {:.2} % of the flight", quantile(l, 999))
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = &self.inflight_ppm;
        write!(f, "    {} lost, told of {} times in {} events; ", self.segments, self.bursts, self.events)?;
        write!(f, "decision equal {}, too high {}; ", self.same_decision, self.too_high)?;
        write!(f, "rs_tx_in_flight off by {:.2} %, p90 {:.2} %", quantile(t, 500), quantile(t, 900))
    }
}

#[test]
fn at_10_mbit() {
    check("cubic", "10mbit 40ms queue=1bdp", 60_000_000);
    check("bbr1", "10mbit 40ms queue=20pkt policer=6mbit/50kB @5s 0mbit @7s 10mbit", 20_000_000);
}

#[test]
fn at_1_gbit() {
    check("cubic", "1gbit 10ms queue=1bdp ackagg=1ms", 3_000_000);
    check("bbr1", "1gbit 40ms queue=1bdp loss=0.5% ackagg=2ms", 3_000_000);
}

/// With stretched ACKs: once the connection is under way only one of twenty arrives.
#[test]
fn at_40_gbit() {
    let stretched = "uploss=ge:0.02%/0.0001%/0%/95%";
    let (s, _) = check("cubic", &format!("40gbit 50ms queue=0.3bdp {stretched}"), 1_500_000);
    assert!(s.largest_flight > 167_000, "{s}");
    check("bbr1", &format!("40gbit 50ms queue=1bdp loss=0.02% {stretched}"), 1_200_000);
    check("bbr1", "40gbit 50ms queue=0.3bdp loss=0.01% ackagg=100us", 1_100_000);
}

/// Where a single segment decides: one lost of fifty in flight, and a loss rate of 2 %.
#[test]
fn at_the_threshold() {
    check("bbr1", "10mbit 40ms queue=1bdp loss=0.1%", 60_000_000);
    check("bbr1", "10mbit 40ms queue=1bdp loss=1%", 60_000_000);
    check("bbr1", "10mbit 40ms queue=1bdp loss=1% reorder=2%/5ms", 60_000_000);
    check("bbr1", "1gbit 40ms queue=1bdp loss=2%", 3_000_000);
}
