//! `cell.json`: what became of a cell. It is written last and repeats what the reader of the folder must know of the
//! plan.

use crate::plan::traffic::Traffic;
use crate::plan::{Cell, LAYOUT, PathEntry, Place, Plan};
use crate::raw::folder::write_atomic;
use crate::sys::file::read_plain_text;
use crate::sys::out::is_plain;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Display;
use std::path::Path;

/// The content of `cell.json`. The order of the fields is the order in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    pub layout: u32,
    pub cell: Cell,
    /// Path name and text, repeated so that a cell folder explains itself.
    pub path: PathEntry,
    pub place: Place,
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Release of the kernel that sent, or the simulator's name and version.
    pub kernel: String,
    /// `ok`, or why the cell does not count.
    pub status: String,
    /// The controller's name in the kernel, which the sending sockets must report.
    pub sender_cc: String,
    /// The same of the rival's; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rival_cc: String,
    /// Round-trip time of the empty path.
    pub base_rtt_us: u64,
    /// Why earlier attempts at this cell failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<String>,
    /// What a reader must know beside the figures; the same words for the same thing, so that a report can count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl CellResult {
    /// A result with nothing measured yet.
    pub fn new(plan: &Plan, cell: &Cell, status: &str) -> Self {
        let traffic = plan.traffic(cell.path);
        Self {
            layout: LAYOUT,
            cell: cell.clone(),
            path: path_of(plan, cell),
            place: plan.place.clone(),
            traffic: traffic.clone(),
            kernel: String::new(),
            status: status.into(),
            sender_cc: cell.cc.controller().into(),
            rival_cc: traffic
                .against
                .as_ref()
                .map_or_else(String::new, |rival| rival.controller(cell.cc.controller()).to_string()),
            base_rtt_us: 0,
            attempts: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The same result as that of a cell of a plan, where whoever measured it knew nothing of that plan.
    pub fn of(self, plan: &Plan, cell: &Cell) -> Self {
        Self { cell: cell.clone(), path: path_of(plan, cell), ..self }
    }

    /// Writes `cell.json` into a cell's folder.
    pub fn write(&self, dir: &Path) -> Result<()> {
        write_atomic(&dir.join("cell.json"), &(serde_json::to_string_pretty(self)? + "\n"))
    }

    /// Reads `cell.json` of a cell's folder, of whatever layout; [`parse`] checks it.
    pub fn read(dir: &Path) -> Result<Self> {
        let file = dir.join("cell.json");
        let text = read_plain_text(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("`{}` is damaged", file.display()))
    }
}

/// The path of a cell without what is large or stands elsewhere in the result.
fn path_of(plan: &Plan, cell: &Cell) -> PathEntry {
    PathEntry { files: Vec::new(), traffic: None, ..plan.paths[cell.path].clone() }
}

/// Longest round trip of a path: a day.
const MOST_US: u64 = 86_400_000_000;

/// The content of a `cell.json`.
///
/// # Errors
/// It has another layout than this program reads, or cannot be read.
pub fn parse(text: &str) -> std::result::Result<CellResult, String> {
    #[derive(Deserialize)]
    struct Versioned {
        layout: u32,
    }
    let broken = |e: &dyn Display| format!("cell.json is broken: {e}");
    match serde_json::from_str::<Versioned>(text).map_err(|e| broken(&e))?.layout {
        LAYOUT => {
            let value: Value = serde_json::from_str(text).map_err(|e| broken(&e))?;
            let is_plain = is_plain(&value);
            let result: CellResult = serde_json::from_value(value).map_err(|e| broken(&e))?;
            result.traffic.check().map_err(|e| broken(&e))?;
            match is_plain && result.base_rtt_us <= MOST_US {
                true => Ok(result),
                false => Err(broken(&"it holds what no program of this name writes")),
            }
        }
        other => Err(format!("cell.json has layout {other}, this program reads layout {LAYOUT}")),
    }
}
