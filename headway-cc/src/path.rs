//! A path between two hosts: one text form, used on the command line, in presets, raw files and the report.
//!
//! `100mbit 40ms queue=1bdp @10s 20mbit @20s 100mbit`

use crate::link::LinkSpec;
use std::fmt;
use std::str::FromStr;

/// A parsed path. `Display` gives the canonical text, which parses back to the same value.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Data direction: the bottleneck.
    pub down: LinkSpec,
    /// ACK direction.
    pub up: LinkSpec,
    text: String,
}

impl Path {
    /// Base round-trip time: both propagation delays, no queueing, no jitter.
    pub fn base_rtt_us(&self) -> u64 {
        (self.down.delay_ns + self.up.delay_ns) / 1000
    }
    /// The bottleneck's rate at `t_ns` after the start; `None` when unlimited or driven by a trace.
    pub fn rate_bps_at(&self, _t_ns: u64) -> Option<u64> {
        Some(self.down.rate_bps)
    }
    /// Bits the bottleneck could carry between two instants: what utilisation is measured against.
    pub fn capacity_bits(&self, from_ns: u64, to_ns: u64) -> u64 {
        (u128::from(self.down.rate_bps) * u128::from(to_ns - from_ns) / 1_000_000_000) as u64
    }
    /// Names of the files that `trace=` and `loss=trace:` refer to.
    pub fn files(&self) -> Vec<String> {
        Vec::new()
    }
    /// Hands over the content of a file named by [`Path::files`].
    pub fn load(&mut self, _name: &str, _text: &str) -> Result<(), PathError> {
        Ok(())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What is wrong with a path text, and at which word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    pub word: String,
    pub at: usize,
    pub reason: String,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at column {}: {}", self.word, self.at + 1, self.reason)
    }
}
impl std::error::Error for PathError {}

impl FromStr for Path {
    type Err = PathError;
    fn from_str(_s: &str) -> Result<Self, PathError> {
        Err(PathError { word: String::new(), at: 0, reason: "not written yet".into() })
    }
}

/// A named path.
#[derive(Debug)]
pub struct Preset {
    pub name: &'static str,
    pub text: &'static str,
    pub about: &'static str,
}

/// Every preset; a new one is one row here.
pub const PRESETS: &[Preset] = &[];

/// Resolves a preset name or a path text.
pub fn resolve(name_or_text: &str) -> Result<Path, PathError> {
    match PRESETS.iter().find(|p| p.name == name_or_text) {
        Some(p) => p.text.parse(),
        None => name_or_text.parse(),
    }
}
