//! N flows over one bottleneck in virtual time. (stub: being written)

use crate::path::Path;

/// What an application does.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// As much as the window allows, until the end.
    Bulk,
    /// This many bytes, then the flow ends.
    Finite { bytes: u64 },
    /// Bulk for `on_us`, silent for `off_us`, repeated.
    OnOff { on_us: u64, off_us: u64 },
    /// A message of `bytes` every `interval_us`.
    Messages { bytes: u64, interval_us: u64 },
}

/// One flow of a simulated run.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    pub cc: String,
    pub source: Source,
    pub start_us: u64,
    /// Added to the path's base RTT (half each way).
    pub extra_rtt_us: u64,
}

/// One simulated run.
#[derive(Clone, Debug)]
pub struct SimSpec {
    pub path: Path,
    pub flows: Vec<FlowSpec>,
    pub duration_us: u64,
    pub seed: u64,
    /// MTU of the path in bytes (1500).
    pub mtu: u32,
    /// A small probe packet crosses the same bottleneck this often (0: never).
    pub probe_interval_us: u64,
    /// Length of a bin of the time series.
    pub bin_us: u64,
    /// Keep every event of every controller.
    pub trace: bool,
}
