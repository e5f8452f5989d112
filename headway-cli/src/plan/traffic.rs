//! The traffic of a cell: how many flows, in which pattern, beside which others, for how long.

use super::wire::Wire;
use anyhow::{Result, anyhow, bail, ensure};
use headway_cc::cc::params::Kind;
use headway_cc::messages::Messages;
use headway_cc::sim::Source;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The traffic of a cell. In `plan.json` and `cell.json` its fields are flattened into the others, so their names and
/// order are part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Parallel TCP streams under test.
    pub streams: u32,
    /// The controller of the flows that compete on the path; there are `streams` of them, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Rival>,
    #[serde(default, skip_serializing_if = "Pattern::is_bulk")]
    pub pattern: Pattern,
    /// How much later than the one before it each stream begins, those of a rival after ours. 0: all at once.
    #[serde(default, skip_serializing_if = "is_at_once")]
    pub stagger_ms: u64,
    /// Upper limit of the rate at which each stream under test sends, in bit/s, whatever its controller asks for
    /// (`SO_MAX_PACING_RATE`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Direction::is_forward")]
    pub direction: Direction,
    /// Every CPU of this machine is kept busy for at least this share of the time.
    #[serde(default, skip_serializing_if = "is_none")]
    pub cpu_load_percent: u32,
    /// MTU of the path, in bytes.
    #[serde(default = "usual_mtu", skip_serializing_if = "is_usual_mtu")]
    pub mtu: u32,
    /// Small datagrams that are sent beside the streams, in the direction of the data.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "as_text")]
    pub messages: Option<Messages>,
    /// What the hosts do in place of bulk streams, on a wire.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "as_text")]
    pub host_load: Option<HostLoad>,
    /// Length of the load phase, in seconds.
    pub seconds: u32,
    /// How much of the start of the load phase the summary metrics leave out.
    pub warmup_ms: u64,
}

/// iperf3's limit.
pub const MOST_STREAMS: usize = 128;

impl Traffic {
    /// One bulk stream and nothing beside it.
    pub fn bulk(seconds: u32) -> Self {
        Self {
            streams: 1,
            against: None,
            pattern: Pattern::Bulk,
            stagger_ms: 0,
            pacing_bps: None,
            direction: Direction::Forward,
            cpu_load_percent: 0,
            mtu: usual_mtu(),
            messages: None,
            host_load: None,
            seconds,
            warmup_ms: 2000,
        }
    }

    /// Fails on lengths and counts that no load has. A plan that is read is held against it, too.
    pub fn check(&self) -> Result<()> {
        ensure!((1..=86_400).contains(&self.seconds), "--seconds must be between 1 and 86400");
        ensure!(
            (1..=MOST_STREAMS as u32).contains(&self.streams),
            "--streams must be between 1 and 128 (iperf3's limit)"
        );
        let last_ms = self.last_start_ms();
        ensure!(
            last_ms < u64::from(self.seconds) * 1000,
            "the last of {} streams would begin at {} s, and the load ends at {} s\nhint: a longer --seconds or a shorter --stagger",
            self.all_streams(),
            last_ms as f64 / 1000.0,
            self.seconds
        );
        ensure!(self.warmup_ms < u64::from(self.seconds) * 1000, "--warmup must be shorter than --seconds");
        ensure!((576..=9000).contains(&self.mtu), "--mtu must be between 576 and 9000");
        ensure!(self.cpu_load_percent <= 100, "--cpu-load is a percentage, 0 to 100");
        Ok(())
    }

    /// Streams under test and their rivals.
    pub fn all_streams(&self) -> u32 {
        if self.against.is_some() { 2 * self.streams } else { self.streams }
    }

    /// When a stream begins, counted from 0 over those under test and then their rivals.
    pub fn start_ms(&self, nth: u32) -> u64 {
        u64::from(nth).saturating_mul(self.stagger_ms)
    }

    /// When the last stream begins.
    pub fn last_start_ms(&self) -> u64 {
        self.start_ms(self.all_streams().saturating_sub(1))
    }

    /// How many primary metrics this traffic has, on an emulated or a real path or on a wire: as many verdicts as one
    /// candidate gets against the baseline. `metric` has the metrics themselves, and a test holds the two together.
    pub fn primary_metrics(&self, wire: Option<Wire>) -> usize {
        // A machine's CPU time says nothing where its CPUs are kept busy on purpose.
        let machine = usize::from(self.cpu_load_percent == 0);
        match (self.host_load, wire) {
            // Round trip of a ping.
            (Some(HostLoad::Idle), _) => 1,
            // p99 of the requests, or goodput of the flood; and the ping.
            (Some(HostLoad::Requests(_) | HostLoad::Flood { .. }), _) => 2 + machine,
            // Goodput, retransmissions, and the ping.
            (None, Some(_)) => 3 + machine,
            // Goodput, queueing delay and retransmissions; p99 of messages.
            (None, None) => 3 + usize::from(self.messages.is_some()),
        }
    }
}

fn is_none(percent: &u32) -> bool {
    *percent == 0
}

fn is_at_once(stagger_ms: &u64) -> bool {
    *stagger_ms == 0
}

pub fn usual_mtu() -> u32 {
    1500
}

pub fn is_usual_mtu(mtu: &u32) -> bool {
    *mtu == usual_mtu()
}

/// Reads a value of `--pacing`, such as `12mbit`, as bit/s; `0` is no limit.
pub fn pacing(text: &str) -> Result<Option<u64>> {
    if text == "0" {
        return Ok(None);
    }
    let bytes_per_s = Kind::Rate.read(text).map_err(|e| anyhow!("`{text}`: {e}, or 0 for none"))?;
    ensure!(bytes_per_s >= 1000, "`{text}`: at least 8kbit, or 0 for none");
    Ok(Some(bytes_per_s * 8))
}

/// The text that [`pacing`] reads.
pub fn pacing_text(bps: Option<u64>) -> String {
    bps.map_or("0".into(), |bps| Kind::Rate.show(bps / 8))
}

/// The text of a value of `--stagger`.
pub fn stagger_text(ms: u64) -> String {
    Kind::Millis.show(ms)
}

/// Reads a value of `--against`, `CC[+RTT]`; `none` is nobody.
pub fn rival(text: &str) -> Result<Option<Rival>> {
    if text == "none" { Ok(None) } else { text.parse().map(Some) }
}

/// The text that [`rival`] reads.
pub fn rival_text(rival: Option<&Rival>) -> String {
    rival.map_or("none".into(), Rival::to_string)
}

/// Which end sends the data under test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// This end sends.
    #[default]
    Forward,
    /// The server sends.
    Reverse,
}

impl Direction {
    pub fn is_forward(&self) -> bool {
        *self == Self::Forward
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_forward() { "forward" } else { "reverse" })
    }
}

/// When each stream under test has data to send. A rival's streams always have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// It always has data to send.
    #[default]
    Bulk,
    /// The application writes payload at this rate and thereby limits the stream.
    Limited { rate_bps: u64 },
    /// It has data for `on_ms`, none for `off_ms`, and so on in turns.
    OnOff { on_ms: u64, off_ms: u64 },
}

/// Time between two writes of a limited stream.
const CHUNK_US: u64 = 10_000;
/// The most that a limited stream writes at a time. Above 105 Mbit/s it therefore writes more often than every
/// `CHUNK_US`.
const CHUNK_BYTES: u64 = 128 << 10;

impl Pattern {
    pub fn is_bulk(&self) -> bool {
        *self == Self::Bulk
    }

    pub fn is_pausing(&self) -> bool {
        matches!(self, Self::OnOff { .. })
    }

    /// Reads the value of `--rate`, such as `10mbit`.
    pub fn limited(rate: &str) -> Result<Self> {
        let bytes_per_s = Kind::Rate.read(rate).map_err(|e| anyhow!("`{rate}`: {e}"))?;
        ensure!(bytes_per_s >= 1000, "`{rate}`: at least 8kbit");
        Ok(Self::Limited { rate_bps: bytes_per_s * 8 })
    }

    /// Reads the value of `--on-off`, such as `1s/500ms`.
    pub fn on_off(times: &str) -> Result<Self> {
        let (on, off) = times
            .split_once('/')
            .ok_or_else(|| anyhow!("expected two times like 1s/500ms, got `{times}`"))?;
        let read = |word: &str| {
            let ms = Kind::Millis.read(word).map_err(|e| anyhow!("`{word}`: {e}"))?;
            ensure!((10..=3_600_000).contains(&ms), "`{word}`: from 10ms to 3600s");
            Ok(ms)
        };
        Ok(Self::OnOff { on_ms: read(on)?, off_ms: read(off)? })
    }

    /// The flags of `headway bench` that ask for this pattern.
    pub fn flags(&self) -> String {
        match self {
            Self::Bulk => String::new(),
            Self::Limited { rate_bps } => format!(" --rate {}", Kind::Rate.show(rate_bps / 8)),
            Self::OnOff { on_ms, off_ms } => {
                format!(" --on-off {}/{}", Kind::Millis.show(*on_ms), Kind::Millis.show(*off_ms))
            }
        }
    }

    /// How many bytes a limited stream writes at a time, and the time between two writes in µs.
    pub fn chunk(rate_bps: u64) -> (u64, u64) {
        let bytes = (rate_bps * CHUNK_US / 8_000_000).clamp(1, CHUNK_BYTES);
        (bytes, bytes * 8_000_000 / rate_bps.max(1))
    }

    /// This pattern as the simulator has it.
    pub fn source(&self) -> Source {
        match *self {
            Self::Bulk => Source::Bulk,
            Self::Limited { rate_bps } => {
                let (bytes, interval_us) = Self::chunk(rate_bps);
                Source::Messages { bytes, interval_us }
            }
            Self::OnOff { on_ms, off_ms } => Source::OnOff { on_us: on_ms * 1000, off_us: off_ms * 1000 },
        }
    }
}

/// The pattern in words, for the report.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bulk => f.write_str("bulk"),
            Self::Limited { rate_bps } => write!(f, "limited to {} a stream", Kind::Rate.show(rate_bps / 8)),
            Self::OnOff { on_ms, off_ms } => {
                write!(f, "{} on, {} off", Kind::Millis.show(*on_ms), Kind::Millis.show(*off_ms))
            }
        }
    }
}

/// What the hosts at the ends of a wire do where it is not bulk TCP. Each of the traffic's streams is a client or a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLoad {
    /// Nothing: only the latency probes are on the wire.
    Idle,
    /// Each client sends a request of 64 bytes and waits for an answer of 64 bytes before it sends the next.
    Requests(Carrier),
    /// Each sender sends UDP datagrams with this payload as fast as it can.
    Flood { bytes: u32 },
}

/// What carries requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Carrier {
    Tcp,
    Udp,
}

impl HostLoad {
    /// The flag of `headway bench` that asks for it.
    pub fn flags(self) -> String {
        match self {
            Self::Idle => " --idle".into(),
            Self::Requests(carrier) => format!(" --requests {carrier}"),
            Self::Flood { bytes } => format!(" --flood {bytes}"),
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Tcp { "tcp" } else { "udp" })
    }
}

/// As it stands in `plan.json`; [`FromStr`] reads it.
impl fmt::Display for HostLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::Requests(carrier) => write!(f, "requests {carrier}"),
            Self::Flood { bytes } => write!(f, "flood {bytes}"),
        }
    }
}

impl FromStr for HostLoad {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["idle"] => Self::Idle,
            ["requests", "tcp"] => Self::Requests(Carrier::Tcp),
            ["requests", "udp"] => Self::Requests(Carrier::Udp),
            ["flood", bytes] => Self::Flood { bytes: bytes.parse()? },
            _ => bail!("`{text}` is no load of a wire"),
        })
    }
}

/// The rival that is the candidate itself.
pub const SAME: &str = "same";

/// The flows that compete with those under test: `--against CC[+EXTRA_RTT]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rival {
    /// A controller, or [`SAME`].
    pub cc: String,
    /// How much longer the round trip of its packets is than that of ours, in µs.
    pub extra_rtt_us: u64,
}

impl Rival {
    /// The controller of its flows beside a candidate's.
    pub fn controller<'a>(&'a self, tested: &'a str) -> &'a str {
        if self.cc == SAME { tested } else { &self.cc }
    }
}

impl FromStr for Rival {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (cc, extra) = text.split_once('+').unwrap_or((text, "0ms"));
        let extra_rtt_us = Kind::Micros.read(extra).map_err(|e| anyhow!("`{extra}`: {e}"))?;
        ensure!(extra_rtt_us <= 10_000_000, "`{extra}`: at most 10s");
        Ok(Self { cc: cc.into(), extra_rtt_us })
    }
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.extra_rtt_us {
            0 => f.write_str(&self.cc),
            us => write!(f, "{}+{us}us", self.cc),
        }
    }
}

/// An optional value in JSON as the text that people write.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Display;
    use std::str::FromStr;

    pub fn serialize<T: Display, S: Serializer>(value: &Option<T>, s: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => s.collect_str(value),
            None => s.serialize_none(),
        }
    }

    pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(d)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/lab/hosts.rs` and `report/tests.rs` hold the numbers against cells.
    #[test]
    fn a_load_has_so_many_verdicts() {
        let on = |host_load, wire| Traffic { host_load, ..Traffic::bulk(1) }.primary_metrics(wire);
        let wire = Some(Wire::Loopback);
        assert_eq!(on(None, None), 3);
        let messages = Some("64..1200@64".parse().unwrap());
        assert_eq!(Traffic { messages, ..Traffic::bulk(1) }.primary_metrics(None), 4);
        assert_eq!([on(None, wire), on(Some(HostLoad::Idle), wire)], [4, 1]);
        assert_eq!(on(Some(HostLoad::Requests(Carrier::Tcp)), wire), 3);
        assert_eq!(on(Some(HostLoad::Flood { bytes: 64 }), wire), 3);
        assert_eq!(Traffic { cpu_load_percent: 50, ..Traffic::bulk(1) }.primary_metrics(wire), 3);
    }

    #[test]
    fn an_old_plan_reads_as_bulk_without_messages() {
        let old = r#"{"streams": 2, "seconds": 10, "warmup_ms": 2000}"#;
        let traffic: Traffic = serde_json::from_str(old).unwrap();
        assert!(traffic.pattern.is_bulk() && traffic.messages.is_none() && traffic.against.is_none());
        assert!(traffic.pacing_bps.is_none() && is_usual_mtu(&traffic.mtu));
        assert_eq!(
            serde_json::to_value(&traffic).unwrap(),
            serde_json::from_str::<serde_json::Value>(old).unwrap()
        );
        let new = Traffic {
            pattern: Pattern::on_off("1s/500ms").unwrap(),
            messages: Some("64..1200@64".parse().unwrap()),
            ..traffic
        };
        let text = serde_json::to_string(&new).unwrap();
        assert!(text.contains("\"64..1200@64\""), "{text}");
        assert_eq!(serde_json::from_str::<Traffic>(&text).unwrap(), new);
    }

    #[test]
    fn flags_read_back() {
        for rate in ["8kbit", "2mbit", "1.6mbit", "10gbit"] {
            let pattern = Pattern::limited(rate).unwrap();
            assert_eq!(pattern.flags(), format!(" --rate {rate}"));
            let Pattern::Limited { rate_bps } = pattern else { panic!() };
            let (bytes, interval_us) = Pattern::chunk(rate_bps);
            assert!(bytes <= CHUNK_BYTES && interval_us <= CHUNK_US);
            let made_bps = bytes as f64 * 8e6 / interval_us as f64;
            assert!((made_bps / rate_bps as f64 - 1.0).abs() < 0.01, "{rate}: {made_bps}");
        }
        let pattern = Pattern::on_off("1.5s/20ms").unwrap();
        assert_eq!(pattern.flags(), " --on-off 1.5s/20ms");
        for (wrong, word) in [("1s", "1s"), ("1s/0ms", "`0ms`"), ("x/1s", "`x`")] {
            assert!(Pattern::on_off(wrong).unwrap_err().to_string().contains(word));
        }
        assert!(Pattern::limited("fast").unwrap_err().to_string().contains("`fast`"));
        for text in ["0", "8kbit", "12gbit"] {
            assert_eq!(pacing_text(pacing(text).unwrap()), text);
        }
        assert!(pacing("fast").unwrap_err().to_string().contains("`fast`"));
        for text in ["none", "cubic", "bbr+80000us"] {
            assert_eq!(rival_text(rival(text).unwrap().as_ref()), text);
        }
    }
}
