//! What all flows have done together, for a monitoring system: in the text format of Prometheus, by controller and scope.
//!
//! Counters come from the kernel, which counts what ended flows have done; what open ones have done is added. How long flows
//! are in which state, and how their round trips and bandwidths are distributed, nobody counts in the kernel: for these the
//! flows are looked at once a second, and a flow counts in each look in which it had an event since the look before.

use super::look::{Looker, Seen};
use anyhow::Result;
use headway_kernel::{Bytes, Loaded, Model};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Upper bounds of the buckets of round trips, seconds.
const RTTS: [f64; 14] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0];

/// Upper bounds of the buckets of bandwidths, bytes/s: 100 kbit/s to 10 Gbit/s.
const BANDWIDTHS: [f64; 11] =
    [12.5e3, 37.5e3, 125e3, 375e3, 1.25e6, 3.75e6, 12.5e6, 37.5e6, 125e6, 375e6, 1.25e9];

/// Sums that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    flows: u64,
    without_storage: u64,
    bytes: Bytes,
    brake_entries: u64,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.flows += other.flows;
        self.without_storage += other.without_storage;
        self.bytes = plus(self.bytes, other.bytes);
        self.brake_entries += other.brake_entries;
    }

    /// A flow that ends between two questions to the kernel may be missing in both answers, and a counter that falls
    /// counts as one that began anew.
    fn at_least(&mut self, before: Sums) {
        self.flows = self.flows.max(before.flows);
        self.without_storage = self.without_storage.max(before.without_storage);
        self.bytes.acked = self.bytes.acked.max(before.bytes.acked);
        self.bytes.sent = self.bytes.sent.max(before.bytes.sent);
        self.bytes.retransmitted = self.bytes.retransmitted.max(before.bytes.retransmitted);
        self.brake_entries = self.brake_entries.max(before.brake_entries);
    }
}

fn plus(a: Bytes, b: Bytes) -> Bytes {
    Bytes {
        acked: a.acked + b.acked,
        sent: a.sent + b.sent,
        retransmitted: a.retransmitted + b.retransmitted,
    }
}

/// Counts by buckets, and the sum.
#[derive(Debug)]
struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn add(&mut self, value: f64) {
        let at = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        self.counts[at] += 1;
        self.sum += value;
    }
}

/// Everything about the controllers of one name.
#[derive(Debug)]
struct Of {
    /// Of generations that are gone: after `headway tune` the last flow of the old programs takes them along.
    gone: Sums,
    /// Of each generation that is there.
    generations: BTreeMap<u32, Sums>,
    open: u64,
    braking: u64,
    states: BTreeMap<&'static str, u64>,
    rtt: Histogram,
    bandwidth: Histogram,
    state_seconds: BTreeMap<&'static str, f64>,
    brake_seconds: f64,
}

impl Of {
    fn new() -> Self {
        Of {
            gone: Sums::default(),
            generations: BTreeMap::new(),
            open: 0,
            braking: 0,
            states: BTreeMap::new(),
            rtt: Histogram::new(&RTTS),
            bandwidth: Histogram::new(&BANDWIDTHS),
            state_seconds: BTreeMap::new(),
            brake_seconds: 0.0,
        }
    }

    fn total(&self) -> Sums {
        let mut total = self.gone;
        self.generations.values().for_each(|sums| total.add(*sums));
        total
    }
}

/// What one scope has given its controller.
#[derive(Clone, Debug)]
pub struct Scope {
    pub name: String,
    pub scope: String,
    pub in_force: bool,
    pub given: Option<u64>,
    pub refused: Option<u64>,
}

#[derive(Debug)]
pub struct Meter {
    looker: Looker,
    all: BTreeMap<String, Of>,
    looked: Option<Instant>,
    looks: u64,
}

impl Meter {
    /// # Errors
    /// The kernel or the user's rights do not allow to look.
    pub fn new() -> Result<Meter> {
        Ok(Meter { looker: Looker::new(false)?, all: BTreeMap::new(), looked: None, looks: 0 })
    }

    /// Looks at all flows and adds what they do to the sums.
    pub fn look(&mut self) -> Result<()> {
        let loaded = self.looker.loaded()?;
        let seen = self.looker.look(|_| true)?;
        let now = Instant::now();
        let passed = self.looked.replace(now).map_or(Duration::ZERO, |before| now - before);
        self.add_sums(&loaded, &seen);
        for of in self.all.values_mut() {
            (of.open, of.braking, of.states) = (0, 0, BTreeMap::new());
        }
        for one in &seen {
            self.all.entry(one.socket.name.to_string()).or_insert_with(Of::new).add(one, passed);
        }
        self.looks += 1;
        Ok(())
    }

    fn add_sums(&mut self, loaded: &[Loaded], seen: &[Seen]) {
        let mut names: BTreeMap<u32, String> =
            loaded.iter().map(|l| (l.generation, l.name.clone())).collect();
        let mut open: BTreeMap<u32, Sums> = BTreeMap::new();
        for (one, ours) in seen.iter().filter_map(|s| Some((s, s.ours.as_ref()?))) {
            names.entry(ours.generation).or_insert_with(|| one.socket.name.to_string());
            let sums = open.entry(ours.generation).or_default();
            sums.bytes = plus(sums.bytes, ours.bytes);
            sums.brake_entries += ours.model.as_ref().map_or(0, |m| m.brake_entries);
        }
        for (name, of) in &mut self.all {
            // What was known of an old generation without flows is not lost as long as its programs are there.
            for generation in of.generations.keys() {
                names.entry(*generation).or_insert_with(|| name.clone());
            }
        }
        for (generation, name) in names {
            let of = self.all.entry(name).or_insert_with(Of::new);
            match self.looker.counters(generation) {
                Some(counters) => {
                    let mut sums = open.get(&generation).copied().unwrap_or_default();
                    sums.flows = counters.flows;
                    sums.without_storage = counters.without_storage;
                    sums.bytes = plus(sums.bytes, counters.past.bytes);
                    sums.brake_entries += counters.past.brake_entries;
                    let known = of.generations.entry(generation).or_default();
                    sums.at_least(*known);
                    *known = sums;
                }
                None => of.gone.add(of.generations.remove(&generation).unwrap_or_default()),
            }
        }
    }

    /// The text, with what is known of the scopes.
    pub fn text(&self, scopes: &[Scope]) -> String {
        let mut s = Text::default();
        self.flows(&mut s);
        of_scopes(&mut s, scopes);
        // What is measured over time takes two looks.
        if self.looks > 1 {
            self.times(&mut s);
            self.histograms(&mut s);
        }
        s.0
    }

    /// What there is now, and what was done so far.
    fn flows(&self, s: &mut Text) {
        let open = "Sockets that use the controller now, in all network namespaces.";
        s.family("open_flows", GAUGE, open, self.each(|of| of.open as f64));
        let braking = "Of these, those on which the brake is.";
        s.family("open_flows_braking", GAUGE, braking, self.each(|of| of.braking as f64));
        let by_state = self.by_state(|of, state| of.states.get(state).map(|n| *n as f64));
        s.family("open_flows_in_state", GAUGE, "Sockets by the state of the controller.", by_state);
        let sums: [(&str, &str, Value); 6] = [
            ("flows_total", "Connections that started with the controller or switched to it.", |s| s.flows),
            (
                "flows_without_storage_total",
                "Of these, those that found no memory for their state and run plain AIMD.",
                |s| s.without_storage,
            ),
            ("acked_bytes_total", "Bytes that peers acknowledged.", |s| s.bytes.acked),
            ("sent_bytes_total", "Bytes sent, for the first time or again.", |s| s.bytes.sent),
            ("retransmitted_bytes_total", "Of these, bytes sent again.", |s| s.bytes.retransmitted),
            ("brake_entries_total", "Times the brake was put on.", |s| s.brake_entries),
        ];
        for (name, help, value) in sums {
            s.family(name, COUNTER, help, self.each(|of| value(&of.total()) as f64));
        }
    }

    /// How long flows were what.
    fn times(&self, s: &mut Text) {
        let brake = self.each(|of| of.brake_seconds);
        s.family("brake_seconds_total", COUNTER, "Flow-seconds with the brake on.", brake);
        let help = "Flow-seconds in each state of the controller, of flows that had events.";
        let by_state = self.by_state(|of, state| of.state_seconds.get(state).copied());
        s.family("state_seconds_total", COUNTER, help, by_state);
    }

    fn histograms(&self, s: &mut Text) {
        let all = |of: fn(&Of) -> &Histogram| self.all.iter().map(move |(cc, all)| (cc.as_str(), of(all)));
        let rtt = "Smoothed round trip of each flow that had events, once a second.";
        s.histogram("rtt_seconds", rtt, all(|of| &of.rtt));
        let bandwidth = "Bandwidth that the controller of each flow that had events paces by, once a second.";
        s.histogram("bandwidth_bytes_per_second", bandwidth, all(|of| &of.bandwidth));
    }

    fn each(&self, value: impl Fn(&Of) -> f64) -> Vec<Sample> {
        self.all.iter().map(|(name, of)| (vec![("cc", name.clone())], value(of))).collect()
    }

    fn by_state(&self, value: impl Fn(&Of, &str) -> Option<f64>) -> Vec<Sample> {
        let states = |(name, of): (&String, &Of)| {
            let sample = |state: &&str| {
                let labels = vec![("cc", name.clone()), ("state", state.to_string())];
                Some((labels, value(of, state)?))
            };
            Model::PHASES.iter().filter_map(sample).collect::<Vec<_>>()
        };
        self.all.iter().flat_map(states).collect()
    }
}

/// One of the sums.
type Value = fn(&Sums) -> u64;

/// Labels, and the value with them.
type Sample = (Vec<(&'static str, String)>, f64);

const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

fn of_scopes(s: &mut Text, scopes: &[Scope]) {
    let samples = |of: fn(&Scope) -> Option<u64>| {
        let labels = |scope: &Scope| vec![("cc", scope.name.clone()), ("scope", scope.scope.clone())];
        scopes.iter().filter_map(move |scope| Some((labels(scope), of(scope)? as f64))).collect()
    };
    let in_force = "1 where new connections of the scope get the controller.";
    s.family("scope_in_force", GAUGE, in_force, samples(|s| Some(u64::from(s.in_force))));
    let given = "Connections that the scope gave its controller.";
    s.family("scope_given_total", COUNTER, given, samples(|s| s.given));
    let refused = "Connections of the scope that the kernel did not let have it.";
    s.family("scope_refused_total", COUNTER, refused, samples(|s| s.refused));
}

/// The text format of Prometheus, version 0.0.4.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP headway_{name} {help}\n# TYPE headway_{name} {kind}");
    }

    /// A metric without samples is left out.
    fn family(&mut self, name: &str, kind: &str, help: &str, samples: Vec<Sample>) {
        if !samples.is_empty() {
            self.head(name, kind, help);
        }
        for (labels, value) in samples {
            let _ = writeln!(self.0, "headway_{name}{} {value}", braces(&labels));
        }
    }

    fn histogram<'a>(&mut self, name: &str, help: &str, all: impl Iterator<Item = (&'a str, &'a Histogram)>) {
        self.head(name, "histogram", help);
        for (cc, histogram) in all {
            let cc = ("cc", cc.to_string());
            let mut count = 0;
            for (at, n) in histogram.counts.iter().enumerate() {
                count += n;
                let le = histogram.bounds.get(at).map_or("+Inf".into(), ToString::to_string);
                let _ =
                    writeln!(self.0, "headway_{name}_bucket{} {count}", braces(&[cc.clone(), ("le", le)]));
            }
            let (labels, sum) = (braces(&[cc]), histogram.sum);
            let _ =
                writeln!(self.0, "headway_{name}_sum{labels} {sum}\nheadway_{name}_count{labels} {count}");
        }
    }
}

impl Of {
    fn add(&mut self, seen: &Seen, passed: Duration) {
        self.open += 1;
        let Some(model) = seen.model() else { return };
        *self.states.entry(model.phase).or_default() += 1;
        self.braking += u64::from(model.brake.is_on());
        if model.idle > passed {
            return;
        }
        *self.state_seconds.entry(model.phase).or_default() += passed.as_secs_f64();
        if model.brake.is_on() {
            self.brake_seconds += passed.as_secs_f64();
        }
        if let Some(rtt) = seen.socket.srtt {
            self.rtt.add(rtt.as_secs_f64());
        }
        if model.bandwidth > 0 {
            self.bandwidth.add(model.bandwidth as f64);
        }
    }
}

fn braces(labels: &[(&str, String)]) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", labels.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_each_value_once() {
        let mut h = Histogram::new(&RTTS);
        [0.0005, 0.0006, 0.03, 9.0].into_iter().for_each(|v| h.add(v));
        assert_eq!((h.counts[0], h.counts[1], h.counts[6], h.counts[14]), (1, 1, 1, 1));
        assert!((h.sum - 9.0311).abs() < 1e-9 && h.counts.iter().sum::<u64>() == 4);
    }

    #[test]
    fn sums_never_fall() {
        let mut sums = Sums { flows: 3, brake_entries: 7, ..Sums::default() };
        sums.at_least(Sums { flows: 5, brake_entries: 2, ..Sums::default() });
        assert_eq!((sums.flows, sums.brake_entries), (5, 7));
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(braces(&[("scope", "unit a\\x2db\"".into())]), "{scope=\"unit a\\\\x2db\\\"\"}");
    }
}
