//! The plan of a `headway bench`: which controllers run over which paths with what traffic, and in which order.
//!
//! A plan is data. This room makes it from a request, checks it against the controllers that the machine has (handed
//! in as [`check::Known`]), shows it, and writes and reads it as `plan.json`. It runs nothing, asks the machine
//! nothing, and opens no files but `plan.json` and the trace files that a path names. `commands` makes plans, `bench`
//! runs them, `cell` and `report` read them.

pub mod check;
pub mod draw;
pub mod label;
pub mod matrix;
pub mod path;
pub mod place;
pub mod request;
pub mod server;
pub mod shard;
pub mod show;
pub mod suite;
pub mod time;
pub mod tool;
pub mod traffic;
pub mod transport;
pub mod wire;

pub use draw::Draws;
pub use label::Label;
pub use path::PathEntry;
pub use place::Place;
pub use request::Request;

use crate::sys::file::{read_plain_text, read_text};
use crate::sys::out::is_plain;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use server::RemoteOptions;
use shard::Shard;
use std::collections::BTreeSet;
use std::path::Path as FsPath;
use tool::Tool;
use traffic::Traffic;
use transport::Transport;
use wire::Nic;

/// Version of the raw folder's layout. A folder of another version is refused with a clear sentence instead of being
/// misread.
pub const LAYOUT: u32 = 1;

/// Everything that is about to be measured: `plan.json`. The order of the fields is the order in the file, by which a
/// run that goes on and the shards of a run recognise their plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub layout: u32,
    pub place: Place,
    /// The candidates; the first is the baseline of the comparison.
    pub ccs: Vec<Label>,
    /// Of a search: what its candidates were drawn from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draws: Option<Draws>,
    pub paths: Vec<PathEntry>,
    /// `--suite`; empty where the paths were given one by one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suite: String,
    pub blocks: u32,
    #[serde(default, skip_serializing_if = "Transport::is_tcp")]
    pub transport: Transport,
    #[serde(default, skip_serializing_if = "Tool::is_usual")]
    pub tool: Tool,
    /// The traffic on every path that has none of its own.
    #[serde(flatten)]
    pub traffic: Traffic,
    pub seed: u64,
    /// Keep the per-ACK trace of our own controllers.
    pub trace: bool,
    /// The lab's kernel, `--kernel` as given; empty elsewhere.
    #[serde(default)]
    pub kernel: String,
    /// The lab kernel's modules, `--modules` as given.
    #[serde(default)]
    pub modules: String,
    #[serde(default, skip_serializing_if = "RemoteOptions::is_usual")]
    pub remote: RemoteOptions,
    /// In the order of execution.
    pub cells: Vec<Cell>,
}

/// One controller on one path once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub index: usize,
    /// Index into `Plan::paths`.
    pub path: usize,
    pub cc: Label,
    pub block: u32,
    /// Seeds every random part of this cell. It is the same for all controllers of one block on one path, so that
    /// they meet the same losses and their results can be compared in pairs.
    pub seed: u64,
}

impl Plan {
    /// Reads `plan.json` of a run folder, or that file by its name.
    pub fn read(dir: &FsPath) -> Result<Self> {
        let shown = dir.display();
        let text = if dir.is_file() { read_text(dir) } else { read_plain_text(&dir.join("plan.json")) };
        let text = text.with_context(|| {
            format!("`{shown}` is not a run: cannot read its plan.json\nhint: name the folder that `headway bench --out` made")
        })?;
        let broken = || {
            format!(
                "plan.json in `{shown}` is broken\nhint: the run cannot be read without it; repeat the bench"
            )
        };
        let value: serde_json::Value = serde_json::from_str(&text).with_context(broken)?;
        match value["layout"].as_u64() {
            Some(layout) if layout == u64::from(LAYOUT) => {}
            Some(layout) => bail!(
                "`{shown}` has raw folder layout {layout}, this program reads layout {LAYOUT}\n\
                 hint: use the version of headway that made it"
            ),
            None => {
                bail!(
                    "plan.json in `{shown}` names no layout\nhint: is this a folder that `headway bench` made?"
                )
            }
        }
        ensure!(is_plain(&value), "{}", broken());
        let plan: Self = serde_json::from_value(value).with_context(broken)?;
        plan.hangs_together().with_context(broken)?;
        Ok(plan)
    }

    /// Whether it is a plan that a request could have made, also where a stranger wrote the file: every candidate on
    /// every path in every block, so that nothing in it asks for more work than it has cells; and traffic that there is.
    fn hangs_together(&self) -> Result<()> {
        let is_known = |c: &Cell| {
            let is_row = c.path < self.paths.len() && self.ccs.contains(&c.cc) && c.block < self.blocks;
            is_row && c.index <= u32::MAX as usize
        };
        let cells =
            self.ccs.len().checked_mul(self.paths.len()).and_then(|n| n.checked_mul(self.blocks as usize));
        ensure!(
            !self.cells.is_empty() && cells == Some(self.cells.len()) && self.cells.iter().all(is_known),
            "its cells are not every candidate on every path in every block"
        );
        self.traffics().try_for_each(Traffic::check)
    }

    /// The candidates' labels as text, the baseline first.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.ccs.iter().map(Label::as_str)
    }

    /// The candidates as a line has room for them: those that were drawn are counted.
    pub fn candidates_in_words(&self) -> Vec<String> {
        match &self.draws {
            Some(draws) => draws.in_words(),
            None => self.labels().map(String::from).collect(),
        }
    }

    /// The traffic of every path, in the order of the paths.
    pub fn traffics(&self) -> impl Iterator<Item = &Traffic> {
        (0..self.paths.len()).map(|path| self.traffic(path))
    }

    /// How many verdicts the run gives: paths × candidates × primary metrics. They share one correction, so the more there
    /// are, the more blocks each of them takes.
    pub fn comparisons(&self) -> usize {
        let verdicts = |path: usize| self.traffic(path).primary_metrics(self.paths[path].wire());
        (0..self.paths.len()).map(verdicts).sum::<usize>() * (self.ccs.len() - 1)
    }

    /// The cells of a shard; all of them without one.
    pub fn cells_of(&self, shard: Option<Shard>) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |c| shard.is_none_or(|s| s.has(c.index)))
    }

    /// The traffic of one path, by its index.
    pub fn traffic(&self, path: usize) -> &Traffic {
        self.paths[path].traffic.as_ref().unwrap_or(&self.traffic)
    }

    /// The lab's kernel for a candidate on one path, by its index: the candidate's own, or what `--kernel` names.
    pub fn kernel_of<'a>(&'a self, path: usize, cc: &'a Label) -> &'a str {
        let of_path = &self.paths[path].kernel;
        cc.kernel().unwrap_or(if of_path.is_empty() { &self.kernel } else { of_path })
    }

    /// Every kernel of the lab that the plan names, once; an empty name is the newest there is.
    pub fn kernels(&self) -> BTreeSet<&str> {
        let of_path = |path| self.ccs.iter().map(move |cc| self.kernel_of(path, cc));
        (0..self.paths.len()).flat_map(of_path).collect()
    }

    /// Every kind of network card between which the plan sends, once.
    pub fn cards(&self) -> BTreeSet<Nic> {
        self.paths.iter().filter_map(|path| path.wire()?.nic()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const PLAN: &str = r#"{"layout": 1, "place": "sim", "ccs": ["cubic", "bbr3"], "blocks": 1, "streams": 1, "seconds": 1,
        "paths": [{"name": "slow", "text": "5mbit 40ms queue=1bdp"}], "warmup_ms": 200, "seed": 1, "trace": false, "cells": [
        {"index": 0, "path": 0, "cc": "cubic", "block": 0, "seed": 7},
        {"index": 1, "path": 0, "cc": "bbr3", "block": 0, "seed": 7}]}"#;

    /// A cell of a path, of a block or of a candidate that the plan does not have; one too many; and no cell at all.
    #[test]
    fn a_plan_has_every_candidate_on_every_path_in_every_block_and_nothing_else() {
        let file = std::env::temp_dir().join(format!("headway-plan-{}.json", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Plan::read(&file)
        };
        let plan = read(PLAN).unwrap();
        let strange: [fn(&mut Plan); 6] = [
            |p| p.cells[0].path = p.paths.len(),
            |p| p.cells[0].block = p.blocks,
            |p| p.cells[0].cc = p.cells[0].cc.again(),
            |p| p.cells[0].index = u32::MAX as usize + 1,
            |p| p.cells.push(p.cells[0].clone()),
            |p| (p.paths.clear(), p.cells.clear()).1,
        ];
        for (i, change) in strange.into_iter().enumerate() {
            let mut plan = plan.clone();
            change(&mut plan);
            let error = format!("{:#}", read(&serde_json::to_string(&plan).unwrap()).unwrap_err());
            assert!(error.contains("every candidate on every path in every block"), "{i}: {error}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}
