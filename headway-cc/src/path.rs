//! A path between two hosts: one text form, used on the command line, in presets, raw files and the report.
//!
//! `RATE RTT [WORD…] [@TIME CHANGE…]…`, for example `100mbit 40ms queue=1bdp @10s 20mbit @20s 100mbit`.
//!
//! | word | meaning |
//! | --- | --- |
//! | `100mbit` \| `unlimited` \| `trace=FILE` | first: rate of the data direction (bit, kbit, mbit, gbit, 1tbit at most), or a mahimahi trace |
//! | `40ms` \| `10ms/30ms` | second: base round-trip time, half each way, or delay down/up (ns, us, ms, s) |
//! | `queue=1bdp` | drop-tail limit: `1bdp`, `150kB`, `100pkt`, `200ms`, `infinite`; default 1bdp |
//! | `queue=codel` | CoDel; `codel:5ms/100ms` target/interval, `codel:5ms/100ms/1000pkt` with a limit |
//! | `ecn` | CoDel marks ECT packets instead of dropping them |
//! | `ce=1ms` | ECT packets that waited longer are marked CE |
//! | `policer=10mbit/100kB` | token bucket rate/burst in front of the queue; the burst also as time, `10mbit/50ms` |
//! | `loss=1%` | each packet is lost with this probability; `30%/3`: never more than 3 in a row |
//! | `loss=ge:1%/30%` | Gilbert-Elliott: good→bad, bad→good per packet; `ge:1%/30%/0%/50%` with the loss in each state |
//! | `loss=burst:1%/5` | 1 % of packets, in runs of exactly 5 |
//! | `loss=square:3.3%/5.6%/2s` | first half, second half of each period |
//! | `loss=trace:FILE` | CSV with columns start_s, end_s, lost_packets, sent_packets; repeats |
//! | `jitter=2ms` | adds 0 to 2 ms, uniform; `normal:2ms`: mean 3 and deviation 1 of the size; `2ms/50ms`: a new draw every 50 ms |
//! | `reorder` \| `reorder=5%/10ms` | jitter may reorder \| so many packets come so much later and are overtaken |
//! | `up=10mbit` \| `uptrace=FILE` | rate of the ACK direction; default unlimited |
//! | `upqueue=` `uploss=` `upjitter=` | as above, for the ACK direction |
//! | `ackagg=4ms` | ACKs arrive only at multiples of this |
//! | `repeat=30s` | the schedule repeats |
//! | `@10s 20mbit 65ms loss=1%` | last: from this time on this rate (0mbit: outage), delay, loss; any of the three |
//!
//! Where it matters: a BDP and a queue in time are reckoned with the rate at time 0 (a trace: its mean) and the base
//! round-trip time, and hold at least one packet of 1500 bytes; queue limits do not count the packet being sent;
//! loss happens on the wire behind the queue; jitter only adds, so the base round-trip time stays the minimum.

mod files;
mod parse;
mod presets;
mod show;
mod units;

use crate::link::{LinkSpec, Loss, TRACE_SLOT_BYTES, UNLIMITED};
pub use presets::{PRESETS, Preset};
use std::fmt;
use std::str::FromStr;

/// A parsed path. `Display` gives the canonical text, which parses back to the same value (files aside).
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Data direction: the bottleneck.
    pub down: LinkSpec,
    /// ACK direction.
    pub up: LinkSpec,
    queue: Option<Limit>,
    up_queue: Option<Limit>,
}

/// A queue limit as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Infinite,
    Bytes(u64),
    Packets(u64),
    Ns(u64),
    MicroBdp(u64),
}

/// A word that may follow rate and round-trip time.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub example: &'static str,
    pub about: &'static str,
}

/// Every such word, in canonical order.
pub const KEYS: &[Key] = &[
    Key {
        name: "queue",
        example: "queue=1bdp",
        about: "1bdp, 150kB, 100pkt, 200ms, infinite, codel[:5ms/100ms[/1000pkt]]",
    },
    Key { name: "ecn", example: "ecn", about: "CoDel marks instead of dropping" },
    Key { name: "ce", example: "ce=1ms", about: "mark packets that waited longer" },
    Key {
        name: "policer",
        example: "policer=10mbit/100kB",
        about: "token bucket, rate/burst (bytes or time)",
    },
    Key {
        name: "loss",
        example: "loss=1%",
        about: "1%, 30%/3, ge:1%/30%, burst:1%/5, square:3%/6%/2s, trace:FILE",
    },
    Key {
        name: "jitter",
        example: "jitter=2ms",
        about: "2ms, normal:2ms; 2ms/50ms for a new draw every 50ms",
    },
    Key {
        name: "reorder",
        example: "reorder=5%/10ms",
        about: "alone: jitter may reorder; share/time: held back",
    },
    Key { name: "up", example: "up=10mbit", about: "rate of the ACK direction" },
    Key { name: "uptrace", example: "uptrace=FILE", about: "trace of the ACK direction" },
    Key { name: "upqueue", example: "upqueue=100pkt", about: "queue of the ACK direction" },
    Key { name: "uploss", example: "uploss=1%", about: "loss of the ACK direction" },
    Key { name: "upjitter", example: "upjitter=2ms", about: "jitter of the ACK direction" },
    Key { name: "ackagg", example: "ackagg=4ms", about: "ACKs arrive only at multiples of this" },
    Key { name: "repeat", example: "repeat=30s", about: "the schedule repeats" },
];

impl Path {
    /// Base round-trip time at the start: both propagation delays, no queueing, no jitter.
    pub fn base_rtt_us(&self) -> u64 {
        (self.down.delay_ns + self.up.delay_ns) / 1000
    }

    /// The bottleneck's rate at `t_ns` after the start, a policer's included; `None` when unlimited or driven by a
    /// trace.
    pub fn rate_bps_at(&self, t_ns: u64) -> Option<u64> {
        self.down.rate_bps_at(t_ns)
    }

    /// Bits the bottleneck could carry between two instants: what utilisation is measured against. Additive over
    /// adjoining spans; `u64::MAX` when unlimited.
    pub fn capacity_bits(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.down.capacity_bits(from_ns, to_ns).unwrap_or(u64::MAX)
    }

    /// Names of the files that `trace=`, `uptrace=` and `loss=trace:` refer to, each once.
    pub fn files(&self) -> Vec<String> {
        let mut names = Vec::new();
        for spec in [&self.down, &self.up] {
            let losses = std::iter::once(&spec.loss).chain(spec.steps.iter().filter_map(|s| s.loss.as_ref()));
            let traces = losses.filter_map(|l| if let Loss::Trace(t) = l { Some(&t.name) } else { None });
            for name in spec.trace.iter().map(|t| &t.name).chain(traces) {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        names
    }

    /// Hands over the content of a file named by [`Path::files`]. Until then a rate trace carries nothing and a loss
    /// trace loses nothing.
    pub fn load(&mut self, name: &str, text: &str) -> Result<(), PathError> {
        if !self.files().iter().any(|f| f == name) {
            return Err(PathError::new(name, "this path names no such file"));
        }
        for spec in [&mut self.down, &mut self.up] {
            if let Some(trace) = spec.trace.as_mut().filter(|t| t.name == name) {
                trace.at_ms = files::rate_trace(name, text)?;
            }
            let steps = spec.steps.iter_mut().filter_map(|s| s.loss.as_mut());
            for loss in std::iter::once(&mut spec.loss).chain(steps) {
                if let Loss::Trace(trace) = loss
                    && trace.name == name
                {
                    trace.rows = files::loss_trace(name, text)?;
                }
            }
        }
        self.resolve_queues();
        Ok(())
    }

    /// Turns queue limits as written into bytes and packets.
    fn resolve_queues(&mut self) {
        let rtt_ns = self.down.delay_ns + self.up.delay_ns;
        for (spec, queue) in [(&mut self.down, &mut self.queue), (&mut self.up, &mut self.up_queue)] {
            let rate_bps = spec.trace.as_ref().map_or(spec.rate_bps, |t| t.mean_bps());
            let default = if rate_bps == UNLIMITED { Limit::Infinite } else { Limit::MicroBdp(1_000_000) };
            let bytes = |ns: u128| {
                let bytes = u128::from(rate_bps) * ns / 8_000_000_000;
                u64::try_from(bytes).unwrap_or(u64::MAX).max(TRACE_SLOT_BYTES)
            };
            (spec.limit_bytes, spec.limit_packets) = match *queue.get_or_insert(default) {
                Limit::Infinite => (u64::MAX, u64::MAX),
                Limit::Bytes(bytes) => (bytes, u64::MAX),
                Limit::Packets(packets) => (u64::MAX, packets),
                Limit::Ns(ns) => (bytes(u128::from(ns)), u64::MAX),
                Limit::MicroBdp(n) => (bytes(u128::from(n) * u128::from(rtt_ns) / 1_000_000), u64::MAX),
            };
        }
    }
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        parse::path(text)
    }
}

/// Resolves a preset name or a path text.
pub fn resolve(name_or_text: &str) -> Result<Path, PathError> {
    let text = name_or_text.trim();
    if let Some(preset) = PRESETS.iter().find(|p| p.name == text) {
        return preset.text.parse();
    }
    let is_name = !text.is_empty() && !text.contains(['=', ' ']) && text != "unlimited";
    if is_name && !text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        let hint = match parse::nearest(text, PRESETS.iter().map(|p| p.name)) {
            Some(name) => format!("; did you mean `{name}`?"),
            None => String::new(),
        };
        return Err(PathError::new(
            text,
            &format!("neither a preset nor a path like `100mbit 40ms queue=1bdp`{hint}"),
        ));
    }
    name_or_text.parse()
}

/// What is wrong with a path text, and at which word; or with a file, and at which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// The offending word, or the file's name.
    pub word: String,
    /// Byte offset of the word in the text.
    pub at: usize,
    /// Line of the file, from 1.
    pub line: Option<usize>,
    pub reason: String,
}

impl PathError {
    fn new(word: &str, reason: &str) -> Self {
        Self { word: word.to_string(), at: 0, line: None, reason: reason.to_string() }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "`{}` line {line}: {}", self.word, self.reason),
            None => write!(f, "`{}` at column {}: {}", self.word, self.at + 1, self.reason),
        }
    }
}

impl std::error::Error for PathError {}
