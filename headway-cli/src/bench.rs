//! `headway bench`: plan, run one cell, write its raw files. (stub: being written)

use serde::{Deserialize, Serialize};

/// Version of the raw folder's layout; a folder of another version is refused with a clear sentence.
pub const LAYOUT: u32 = 1;

/// Where a cell runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    Sim,
    Lab,
    Here,
    Remote(String),
}

/// Everything that is about to be measured: `plan.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub layout: u32,
    pub place: Place,
    /// Controllers; the first is the baseline of the comparison.
    pub ccs: Vec<String>,
    /// Canonical path texts, with the name they were asked for by (preset name or the text itself).
    pub paths: Vec<PathEntry>,
    pub streams: u32,
    pub blocks: u32,
    /// Length of the load phase.
    pub seconds: u32,
    /// Left out of the summary metrics at the start of the load phase.
    pub warmup_ms: u64,
    pub seed: u64,
    /// Keep the per-ACK trace of our own controllers.
    pub trace: bool,
    /// In the order of execution.
    pub cells: Vec<Cell>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathEntry {
    pub name: String,
    pub text: String,
    /// Content of trace files named in the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<(String, String)>,
}

/// One controller on one path once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub index: usize,
    /// Index into `Plan::paths`.
    pub path: usize,
    pub cc: String,
    pub block: u32,
    /// Seeds every random part of this cell; the same for all controllers of one block on one path.
    pub seed: u64,
}

/// What became of a cell: `cells/NNN/cell.json`, written last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    pub layout: u32,
    pub cell: Cell,
    /// Path name and text, repeated so that a cell folder explains itself.
    pub path: PathEntry,
    pub place: Place,
    pub streams: u32,
    pub seconds: u32,
    pub warmup_ms: u64,
    pub kernel: String,
    /// `ok`, or why the cell does not count.
    pub status: String,
    /// The controller that the sending sockets reported.
    pub sender_cc: String,
    pub base_rtt_us: u64,
}
