//! A path between two hosts as text: the same form on the command line, in presets, in raw files and in the report,
//! so that a result names the path it was measured on and can be repeated from that alone.
//!
//! The form is `RATE RTT [WORD…] [@TIME CHANGE…]…`, for example `100mbit 40ms queue=1bdp @10s 20mbit @20s 100mbit`.
//!
//! | word | meaning |
//! | --- | --- |
//! | `100mbit` \| `unlimited` \| `trace=FILE` | first: rate of the data direction (bit, kbit, mbit, gbit, 1tbit at most), or a mahimahi trace |
//! | `trace=cell:5mbit` \| `trace=poisson:5mbit` | first: a trace made by formula with this mean rate, like a cellular link, or of random chances to send |
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
//! | `reorder` \| `reorder=5%/10ms` | jitter may reorder packets, both ways \| this share of data packets is held back for this time and overtaken |
//! | `up=10mbit` \| `uptrace=FILE` | rate of the ACK direction; default unlimited |
//! | `upqueue=` `uploss=` `upjitter=` | as `queue=`, `loss=` and `jitter=`, for the ACK direction |
//! | `ackagg=4ms` | ACKs arrive only at multiples of this |
//! | `repeat=30s` | the schedule repeats |
//! | `@10s 20mbit 65ms loss=1%` | last: from this time on another rate (0mbit: outage), delay or loss; any of the three |
//!
//! A BDP, and a queue given as time, are computed from the rate at time 0 (of a trace: its mean rate) and the base
//! round-trip time, and are at least one packet of 1500 bytes. Queue limits do not count the packet that is being
//! sent. Loss happens on the wire behind the queue. Jitter only adds delay, so the base round-trip time stays the
//! minimum.

mod drops;
mod files;
mod parse;
mod presets;
mod show;
mod synthetic;
pub(crate) mod units;

use crate::link::{LinkSpec, Loss, TRACE_SLOT_BYTES, UNLIMITED};
pub use drops::DROP_EXAMPLE;
pub use presets::{PRESETS, Preset};
use std::fmt;
use std::str::FromStr;

/// A parsed path. `Display` gives its canonical text, which parses back to the same value, except that the content of
/// files is not part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The data direction, which has the bottleneck.
    pub down: LinkSpec,
    /// The ACK direction.
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
    /// What stands before the `=`, or the whole word where no value follows.
    pub name: &'static str,
    /// The word as it may stand in a path.
    pub example: &'static str,
    /// What it does or the forms of its value, for lists: one line without a full stop.
    pub about: &'static str,
}

/// Every word that may follow rate and round-trip time, in canonical order. `headway list` prints them.
pub const KEYS: &[Key] = &[
    Key {
        name: "queue",
        example: "queue=1bdp",
        about: "1bdp, 150kB, 100pkt, 200ms, infinite, codel[:5ms/100ms[/1000pkt]]",
    },
    Key { name: "ecn", example: "ecn", about: "CoDel marks packets instead of dropping them" },
    Key { name: "ce", example: "ce=1ms", about: "packets that waited longer than this are marked" },
    Key {
        name: "policer",
        example: "policer=10mbit/100kB",
        about: "token bucket in front of the queue: rate/burst, the burst as bytes or time",
    },
    Key {
        name: "loss",
        example: "loss=1%",
        about: "1%, 30%/3, ge:1%/30%, burst:1%/5, square:3%/6%/2s, trace:FILE",
    },
    Key { name: "jitter", example: "jitter=2ms", about: "2ms, normal:2ms; 2ms/50ms draws anew every 50ms" },
    Key {
        name: "reorder",
        example: "reorder=5%/10ms",
        about: "jitter may reorder packets; with a share and a time, so many are held back",
    },
    Key { name: "up", example: "up=10mbit", about: "rate of the ACK direction; unlimited without it" },
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

    /// Bits that the bottleneck could carry between two times in nanoseconds, of which utilisation is a share;
    /// `u64::MAX` when unlimited. The values of adjoining spans add up to that of the whole.
    pub fn capacity_bits(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.down.capacity_bits(from_ns, to_ns).unwrap_or(u64::MAX)
    }

    /// The first fall of the bottleneck's rate; `None` if it never falls, and for traces. It is also `None` for a
    /// schedule that repeats, because a controller meets each fall there with what it learnt from the one before.
    pub fn rate_drop(&self) -> Option<RateDrop> {
        if self.down.repeat_ns.is_some() || self.down.trace.is_some() {
            return None;
        }
        let changes = self.down.steps.iter().filter_map(|s| Some((s.at_ns, s.rate_bps?)));
        let mut from_bps = self.down.rate_bps;
        let mut drop: Option<RateDrop> = None;
        for (at_ns, bps) in changes {
            match &mut drop {
                None if bps < from_bps => drop = Some(RateDrop { at_ns, from_bps, back_ns: None }),
                None => from_bps = bps,
                Some(drop) if bps >= drop.from_bps => {
                    drop.back_ns = Some(at_ns);
                    break;
                }
                Some(_) => {}
            }
        }
        drop
    }

    /// When the path first changes, in either direction; `None` if it never does.
    pub fn first_change_ns(&self) -> Option<u64> {
        self.down.steps.iter().chain(&self.up.steps).map(|s| s.at_ns).min()
    }

    /// Names of the files that `trace=`, `uptrace=` and `loss=trace:` refer to, each once.
    pub fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (name, _) in self.named_files() {
            if !names.iter().any(|n| n == name) {
                names.push(name.to_string());
            }
        }
        names
    }

    /// The first file that was not handed over to [`Path::load`] yet.
    pub fn missing_file(&self) -> Option<&str> {
        self.named_files().find(|(_, is_loaded)| !is_loaded).map(|(name, _)| name)
    }

    /// Whether the path may mark packets CE, so that the hosts should negotiate ECN.
    pub fn marks(&self) -> bool {
        self.down.ecn || self.down.ce_ns.is_some()
    }

    /// Each mention of a file, and whether it is loaded.
    fn named_files(&self) -> impl Iterator<Item = (&str, bool)> {
        [&self.down, &self.up].into_iter().flat_map(|spec| {
            let losses = std::iter::once(&spec.loss).chain(spec.steps.iter().filter_map(|s| s.loss.as_ref()));
            let losses = losses.filter_map(|loss| match loss {
                Loss::Trace(trace) => Some((trace.name.as_str(), !trace.rows.is_empty())),
                _ => None,
            });
            let traces = spec.trace.iter().filter(|t| !synthetic::is_formula(&t.name));
            let rate = traces.map(|t| (t.name.as_str(), !t.at_ms.is_empty()));
            rate.chain(losses)
        })
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

/// A fall of the bottleneck's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateDrop {
    /// When the rate falls, since the path's start.
    pub at_ns: u64,
    /// The rate before, bits per second.
    pub from_bps: u64,
    /// When that rate, or a higher one, is back, since the path's start; `None` for never.
    pub back_ns: Option<u64>,
}

/// Resolves a preset's name, a drop's name (`drop-2x-50mbit-40ms-4bdp-5s`) or a path text.
pub fn resolve(name_or_text: &str) -> Result<Path, PathError> {
    let text = name_or_text.trim();
    if let Some(preset) = PRESETS.iter().find(|p| p.name == text) {
        return preset.text.parse();
    }
    if let Some(drop) = drops::text(text) {
        return drop?.parse();
    }
    let is_name = !text.is_empty() && !text.contains(['=', ' ']) && text != "unlimited";
    if is_name && !text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        let hint = match crate::names::nearest(text, PRESETS.iter().map(|p| p.name)) {
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
    /// Line of the file, from 1; `None` where no line is to blame.
    pub line: Option<usize>,
    /// What is wrong and what was expected, to be shown after a colon.
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
            None if self.word.trim().is_empty() => write!(f, "column {}: {}", self.at + 1, self.reason),
            None => write!(f, "`{}` at column {}: {}", self.word, self.at + 1, self.reason),
        }
    }
}

impl std::error::Error for PathError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rand::Rng;

    fn error(text: &str) -> (usize, String, String) {
        let e = text.parse::<Path>().expect_err(text);
        (e.at + 1, e.word, e.reason)
    }

    #[test]
    fn presets_are_canonical_and_unique() {
        for (i, preset) in PRESETS.iter().enumerate() {
            let path: Path = preset.text.parse().unwrap_or_else(|e| panic!("{}: {e}", preset.name));
            assert_eq!(path.to_string(), preset.text, "{}", preset.name);
            assert_eq!(path.to_string().parse::<Path>(), Ok(path));
            assert_eq!(resolve(preset.name), resolve(preset.text));
            assert!(PRESETS[..i].iter().all(|p| p.name != preset.name), "{} twice", preset.name);
            assert!(preset.about.ends_with(']'), "{} names no source", preset.name);
        }
    }

    #[test]
    fn keys_and_examples_agree_with_the_parser() {
        for key in KEYS {
            let text = match key.name {
                "ecn" => "10mbit 40ms queue=codel ecn".to_string(),
                "repeat" => format!("10mbit 40ms {} @10s 5mbit", key.example),
                _ => format!("10mbit 40ms {}", key.example),
            };
            let path: Path = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert!(path.to_string().contains(key.example), "{text} became {path}");
        }
    }

    #[test]
    fn the_header_table_is_true() {
        let table = include_str!("path.rs").lines().map_while(|l| l.strip_prefix("//!")).map(str::trim);
        let cells = table.filter_map(|l| l.strip_prefix("| `")?.split(" | ").next());
        let words = cells.flat_map(|c| c.split('`')).map(|w| w.trim_matches(['`', '|', '\\', ' ']));
        let options: Vec<&str> = words.filter(|w| w.contains('=') && !w.ends_with('=')).collect();
        assert!(options.len() >= 15, "{options:?}");
        for option in options.iter().filter(|o| !o.contains("trace=") && !o.starts_with("repeat")) {
            let text = if option.starts_with('@') {
                format!("10mbit 40ms {option}")
            } else {
                format!("10mbit 40ms {option} @10s 20mbit")
            };
            text.parse::<Path>().unwrap_or_else(|e| panic!("{text}: {e}"));
        }
    }

    /// A random path text, not canonical.
    #[expect(clippy::too_many_lines, reason = "one draw for each word of a path")]
    fn random_text(rng: &mut Rng) -> String {
        let mut pick = |choices: &[&str]| choices[rng.below(choices.len() as u64) as usize].to_string();
        let loss = [
            "0.10%",
            "30%/3",
            "ge:1%/30%",
            "ge:1%/30%/0.5%/50%",
            "burst:2%/4",
            "square:1%/2%/3s",
            "trace:l.csv",
        ];
        let queue = [
            "0.5bdp",
            "1500B",
            "0.15MB",
            "100pkt",
            "0.2s",
            "infinite",
            "codel",
            "codel:5ms/100ms",
            "codel:1ms/20ms/1MB",
        ];
        let mut words = vec![pick(&["100mbit", "0.5gbit", "1500kbit", "trace=a.down", "trace=cell:1mbit"])];
        let is_trace = words[0].starts_with("trace");
        words.push(pick(&["40ms", "0.04s", "33333ns", "10ms/30ms", "0ms", "1us/0s"]));
        let ups = ["", "", "up=10mbit", "uptrace=b.up"];
        let options = [
            format!("queue={}", pick(&queue)),
            format!("ce={}", pick(&["1ms", "242us"])),
            format!("policer={}", pick(&["10mbit/100kB", "10mbit/50ms"])),
            format!("loss={}", pick(&loss)),
            format!("jitter={}", pick(&["2ms", "normal:0.5ms", "8ms/20ms", "normal:1ms/2ms"])),
            pick(&["reorder", "reorder=5%/10ms"]),
            pick(&ups),
            format!("upqueue={}", pick(&["100pkt", "15kB", "infinite", "codel"])),
            format!("uploss={}", pick(&loss)),
            format!("upjitter={}", pick(&["2ms", "normal:0.5ms"])),
            "ackagg=4ms".to_string(),
        ];
        let wanted: Vec<bool> = options.iter().map(|o| !o.is_empty() && pick(&["y", "n"]) == "y").collect();
        words.extend(options.iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(o, _)| o.clone()));
        let steps = pick(&["", "1", "12", "123"]);
        if !steps.is_empty() && pick(&["y", "n"]) == "y" {
            words.push("repeat=100s".to_string());
        }
        for digit in steps.chars() {
            words.push(format!("@{digit}.50s"));
            match pick(&["rate", "delay", "loss"]).as_str() {
                "rate" if !is_trace => words.push(pick(&["0mbit", "20mbit", "0.001tbit"])),
                "delay" => words.push(pick(&["65ms", "10ms/5ms"])),
                _ => words.push(format!("loss={}", pick(&loss))),
            }
        }
        words.join(&pick(&[" ", "  "]))
    }

    #[test]
    fn canonical_text_reads_back_to_the_same_path() {
        let mut rng = Rng::new(1, 0);
        for _ in 0..5000 {
            let text = random_text(&mut rng);
            let path: Path = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            let canonical = path.to_string();
            let again: Path = canonical.parse().unwrap_or_else(|e| panic!("{text} became {canonical}: {e}"));
            assert_eq!(again, path, "{text} became {canonical}");
            assert_eq!(again.to_string(), canonical);
        }
    }

    #[test]
    fn mangled_text_never_panics() {
        let mut rng = Rng::new(2, 0);
        for _ in 0..20_000 {
            let mut text = random_text(&mut rng).into_bytes();
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(text.len() as u64) as usize;
                match rng.below(3) {
                    0 => text[at] = (32 + rng.below(96)) as u8,
                    1 => text.insert(at, (32 + rng.below(96)) as u8),
                    _ => _ = text.remove(at),
                }
            }
            let text = String::from_utf8(text).unwrap();
            match text.parse::<Path>() {
                Ok(path) => assert_eq!(path.to_string().parse(), Ok(path), "{text}"),
                Err(e) => {
                    assert_eq!(text.get(e.at..e.at + e.word.len()), Some(e.word.as_str()), "{text}: {e}")
                }
            }
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of wrong texts")]
    fn errors_point_at_the_word() {
        let cases = [
            ("", 1, "", "empty; expected a path"),
            ("   ", 1, "   ", "empty"),
            ("100mbit", 1, "100mbit", "the base RTT is missing"),
            ("40ms 100mbit", 1, "40ms", "expected a rate like 100mbit"),
            ("queue=1bdp 40ms", 1, "queue=1bdp", "expected the rate first"),
            ("100mbit 40mss", 9, "40mss", "expected a time like 40ms"),
            ("0mbit 40ms", 1, "0mbit", "at least 1bit and at most 1tbit"),
            ("1.1tbit 40ms", 1, "1.1tbit", "at least 1bit and at most 1tbit"),
            ("-5mbit 40ms", 1, "-5mbit", "must not be negative"),
            ("100mbit -40ms", 9, "-40ms", "must not be negative"),
            ("100mbit 1/2/3", 9, "1/2/3", "two like 10ms/30ms"),
            ("100mbit 40ms 20mbit", 14, "20mbit", "a second value"),
            ("100mbit 40ms queue=1bpd", 20, "1bpd", "expected a queue like 1bdp"),
            ("100mbit 40ms queue", 14, "queue", "needs a value, like `queue=1bdp`"),
            ("100mbit 40ms quue=1bdp", 14, "quue", "did you mean `queue`?"),
            ("100mbit 40ms zzzzzzzz=1", 14, "zzzzzzzz", "known are queue, ecn"),
            ("100mbit 40ms loss=1% loss=2%", 22, "loss=2%", "`loss` is given twice"),
            ("100mbit 40ms loss=101%", 19, "101%", "at most 100%"),
            ("100mbit 40ms loss=sqare:1%/2%/1s", 19, "sqare", "unknown kind of loss"),
            ("100mbit 40ms loss=square:1%/2%", 26, "1%/2%", "like `square:3.3%/5.6%/2s`"),
            ("100mbit 40ms loss=burst:1%/0", 28, "0", "at least 1"),
            ("100mbit 40ms loss=trace:", 19, "trace:", "expected a file"),
            ("100mbit 40ms policer=10mbit/10B", 29, "10B", "at least one packet"),
            ("100mbit 40ms ecn", 14, "ecn", "needs queue=codel"),
            ("100mbit 40ms ecn=1", 14, "ecn", "takes no value"),
            ("100mbit 40ms up=1mbit uptrace=x", 23, "uptrace=x", "exclude each other"),
            ("unlimited 40ms queue=1bdp", 16, "queue=1bdp", "needs a rate"),
            ("100mbit 40ms repeat=1us @10s 1mbit", 21, "1us", "at least 1ms"),
            ("100mbit 40ms repeat=10s", 14, "repeat=10s", "no schedule to repeat"),
            ("100mbit 40ms repeat=10s @10s 1mbit", 25, "@10s", "not before the end"),
            ("100mbit 40ms @20s 1mbit @10s 2mbit", 25, "@10s", "goes backwards"),
            ("100mbit 40ms @10s", 14, "@10s", "nothing changes"),
            ("100mbit 40ms @10x 1mbit", 15, "10x", "expected a time like 10s"),
            ("100mbit 40ms @10s 20mbt", 19, "20mbt", "expected a rate like 20mbit or a delay like 65ms"),
            ("100mbit 40ms @10s -5mbit", 19, "-5mbit", "must not be negative"),
            ("100mbit 40ms @10s ecn", 19, "ecn", "before the first @"),
            ("100mbit 40ms @10s 20mbit 30mbit", 26, "30mbit", "given twice for one time"),
            ("100mbit 40ms @10s 20mbit queue=1bdp", 26, "queue=1bdp", "before the first @"),
            ("trace=x 40ms @10s 20mbit", 19, "20mbit", "comes from the trace"),
            ("trace= 40ms", 7, "", "expected a file"),
            ("100mbit 40ms l\u{f6}ss=1%", 14, "l\u{f6}ss=1%", "only printable ASCII"),
            ("100mbit\t40ms", 1, "100mbit\t40ms", "only printable ASCII"),
        ];
        for (text, column, word, reason) in cases {
            let e = error(text);
            assert_eq!((e.0, e.1.as_str()), (column, word), "{text:?}: {}", e.2);
            assert!(e.2.contains(reason), "{text:?}: {}", e.2);
        }
        let shown = "100mbit 40mss".parse::<Path>().unwrap_err().to_string();
        assert!(shown.starts_with("`40mss` at column 9: expected a time like 40ms"), "{shown}");
    }

    #[test]
    fn a_mistyped_preset_gets_a_hint() {
        let reason = resolve("cleen").unwrap_err().reason;
        assert!(reason.ends_with("did you mean `clean`?"), "{reason}");
        assert!(resolve("something-else-entirely").unwrap_err().reason.starts_with("neither a preset"));
        assert!(resolve("unlimited 0ms").is_ok());
    }

    #[test]
    fn queues_are_resolved() {
        let limit = |text: &str| {
            let path: Path = text.parse().unwrap();
            (path.down.limit_bytes, path.down.limit_packets)
        };
        assert_eq!(limit("100mbit 40ms"), (500_000, u64::MAX));
        assert_eq!(limit("100mbit 10ms/30ms queue=0.5bdp"), (250_000, u64::MAX));
        assert_eq!(limit("100mbit 40ms queue=200ms"), (2_500_000, u64::MAX));
        assert_eq!(limit("100mbit 40ms queue=100pkt"), (u64::MAX, 100));
        assert_eq!(limit("100mbit 40ms queue=codel:5ms/100ms/1MB"), (1_000_000, u64::MAX));
        assert_eq!(limit("100mbit 0ms"), (1500, u64::MAX), "at least one packet");
        let up: Path = "100mbit 40ms up=10mbit".parse().unwrap();
        assert_eq!(up.up.limit_bytes, 50_000);
    }

    #[test]
    fn capacity_is_the_integral_of_the_schedule() {
        let path: Path = "100mbit 40ms @10s 20mbit @20s 0mbit @30s 100mbit".parse().unwrap();
        let s = 1_000_000_000;
        assert_eq!(path.capacity_bits(0, 10 * s), 1_000_000_000);
        assert_eq!(path.capacity_bits(5 * s, 15 * s), 600_000_000);
        assert_eq!(path.capacity_bits(20 * s, 30 * s), 0);
        assert_eq!(path.capacity_bits(25 * s, 35 * s), 500_000_000);
        let rates = [0, 9, 10, 20, 30, 99].map(|t| path.rate_bps_at(t * s).unwrap());
        assert_eq!(rates, [100_000_000, 100_000_000, 20_000_000, 0, 100_000_000, 100_000_000]);
        let policed: Path = "100mbit 40ms policer=12mbit/50ms @1s 6mbit".parse().unwrap();
        assert_eq!(policed.capacity_bits(0, 2 * s), 18_000_000);
        assert_eq!(policed.rate_bps_at(0), Some(12_000_000));
        let repeated: Path = "10mbit 40ms repeat=2s @1s 20mbit".parse().unwrap();
        assert_eq!(repeated.capacity_bits(0, 5 * s), 70_000_000);
        assert_eq!(repeated.rate_bps_at(11 * s), Some(20_000_000));
        let unlimited: Path = "unlimited 40ms".parse().unwrap();
        assert_eq!((unlimited.rate_bps_at(0), unlimited.capacity_bits(0, 1)), (None, u64::MAX));
    }

    #[test]
    fn a_rate_trace_is_loaded() {
        let mut path: Path = "trace=t.down 40ms loss=trace:l.csv uptrace=t.down".parse().unwrap();
        assert_eq!(path.files(), ["t.down", "l.csv"]);
        assert_eq!(path.missing_file(), Some("t.down"));
        path.load("t.down", "1\n").unwrap();
        assert_eq!(path.down.trace.as_ref().unwrap().mean_bps(), 12_000_000);
        assert_eq!(path.up.trace.as_ref().unwrap().mean_bps(), 12_000_000);
        assert_eq!(path.down.limit_bytes, 60_000, "a BDP of the mean rate");
        assert_eq!(path.rate_bps_at(0), None);
        path.load("t.down", "0\n1\n2\n3\n4\n5").unwrap();
        let ms = 1_000_000;
        // Chances in [from, to): 0 to 4 make five, the entry at 5 belongs to the next millisecond with 0.
        let chances = |from, to| path.capacity_bits(from, to) / 12_000;
        assert_eq!(chances(0, 5 * ms), 5);
        assert_eq!(chances(0, 5 * ms + 1), 7);
        assert_eq!(chances(0, 10 * ms), 11);
        assert_eq!(chances(5 * ms, 10 * ms), 6);
        assert_eq!(chances(1, 2 * ms), 1);
        assert_eq!(chances(0, 5_000 * ms), 5999);
        path.load("l.csv", "a,lost_packets,sent_packets,end_s,start_s\r\nx,1,4,1.5,0.00\r\nx,0,0,2,1.5\r\n")
            .unwrap();
        assert_eq!(path.missing_file(), None);
        let Loss::Trace(trace) = &path.down.loss else { panic!() };
        assert_eq!(*trace.rows, [(1_500_000_000, 250_000_000), (2_000_000_000, 0)]);
        assert_eq!(
            path.to_string(),
            "trace=t.down 40ms queue=1bdp loss=trace:l.csv uptrace=t.down upqueue=1bdp"
        );
    }

    #[test]
    fn bad_files_are_refused_with_the_line() {
        let mut path: Path = "trace=t 40ms loss=trace:l".parse().unwrap();
        let mut message = |name: &str, text: &str| path.load(name, text).unwrap_err().to_string();
        let cases = [
            ("", "`t` line 1: empty file"),
            ("1\n\n2\n", "`t` line 2: empty line"),
            ("1\n5\n4\n", "`t` line 3: 4 ms after 5 ms"),
            ("0\n0\n", "`t` line 2: the last time is 0 ms"),
            ("1\n2x\n", "`t` line 2: `2x` is not a whole number"),
            ("-1\n", "`t` line 1: `-1` is not"),
            ("1.5\n", "`t` line 1: `1.5` is not"),
            ("99999999999\n", "`t` line 1: 99999999999 ms is more than a day"),
        ];
        for (text, expected) in cases {
            let message = message("t", text);
            assert!(message.starts_with(expected), "{message}");
        }
        let head = "start_s,end_s,lost_packets,sent_packets\n";
        let cases = [
            ("".to_string(), "`l` line 1: empty file"),
            (head.to_string(), "`l` line 1: only a header"),
            ("a,b\n".to_string(), "`l` line 1: the header has no column `start_s`"),
            (format!("{head}0,1,0,10\n\n"), "`l` line 3: empty line"),
            (format!("{head}0,1,0\n"), "`l` line 2: only 3 columns"),
            (format!("{head}0,1,11,10\n"), "`l` line 2: 11 packets lost of 10 sent"),
            (format!("{head}0,1,0,10\n0.5,2,0,10\n"), "`l` line 3: the interval 0.5 to 2 goes backwards"),
            (format!("{head}0,x,0,10\n"), "`l` line 2: `x` is not a time"),
            (format!("{head}0,1,-1,10\n"), "`l` line 2: `-1` is not a number of packets"),
        ];
        for (text, expected) in cases {
            let message = message("l", &text);
            assert!(message.starts_with(expected), "{message}");
        }
        assert!(message("other", "1").contains("names no such file"));
    }
}
