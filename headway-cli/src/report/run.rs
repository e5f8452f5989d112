//! A run folder, read into what is judged: the plan, and for each planned cell its metrics or the reason why it has
//! none.
//!
//! A cell that cannot be used never stops the others: it stays in the list with its reason, so that every output can
//! name and count it. `findings` compares what is read here; the tables and the page show it.

use super::judge::Spread;
use crate::metric::{CellData, DAMAGED, METRICS};
use crate::plan::{Cell, Label, Place, Plan};
use crate::raw::about::About;
use crate::raw::folder::cell_dir;
use crate::sys::file::read_plain_text;
use crate::sys::out::{is_plain, plain};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// With more paths than this the page has no time series, and none are kept in memory: they would take gigabytes.
const MAX_SERIES_PATHS: usize = 64;

/// Status of a planned cell that has no folder.
pub const NOT_RUN: &str = "not run";

/// A run's folder, parsed.
#[derive(Debug)]
pub struct Run {
    pub plan: Plan,
    /// `env.json` as it stands; `Null` when it is missing or broken.
    pub env: Value,
    /// Title and note of the user's, and when the run was begun.
    pub about: About,
    /// In the order of execution.
    pub cells: Vec<RunCell>,
    /// What of the run's files is missing, cut or unreadable, in sentences.
    pub damage: Vec<String>,
}

/// One planned cell and what was measured in it.
#[derive(Debug)]
pub struct RunCell {
    pub cell: Cell,
    pub data: Option<CellData>,
    /// Why the cell does not count; `None` when it does.
    pub excluded: Option<String>,
    /// One per row of [`METRICS`]; `Err` says why there is no value.
    pub values: Vec<Result<f64, String>>,
    /// One per row of [`METRICS`]: the value from which on it is only a lower bound
    /// ([`Metric::ceiling`](crate::metric::Metric::ceiling)).
    pub ceilings: Vec<Option<f64>>,
}

/// What became of a controller's cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Count {
    pub cc: String,
    pub planned: usize,
    pub attempted: usize,
    pub ok: usize,
    pub excluded: usize,
}

impl Run {
    /// # Errors
    /// One sentence and a hint where the folder holds no plan that can be read.
    pub fn read(dir: &Path) -> anyhow::Result<Self> {
        let plan = Plan::read(dir)?;
        let env = read_plain_text(&dir.join("env.json")).ok();
        let env =
            env.and_then(|text| serde_json::from_str(&text).ok()).filter(is_plain).unwrap_or(Value::Null);
        let cells: Vec<RunCell> = plan.cells.iter().map(|cell| RunCell::read(dir, &plan, cell)).collect();
        let damage = damage(&env, &cells);
        Ok(Self { about: About::read(dir)?, plan, env, cells, damage })
    }

    /// The controller that the others are compared with: the plan's first.
    pub fn baseline(&self) -> &str {
        self.plan.ccs[0].as_str()
    }

    /// The place as the tables name it.
    pub fn place(&self) -> String {
        match &self.plan.place {
            Place::Sim => "sim".into(),
            Place::Lab => "lab".into(),
            Place::Here => "here".into(),
            Place::Remote(host) => format!("remote {host}"),
        }
    }

    pub fn cells_of<'a>(&'a self, path: usize, cc: &'a str) -> impl Iterator<Item = &'a RunCell> {
        self.cells.iter().filter(move |c| c.cell.path == path && c.cell.cc == cc)
    }

    /// The cells of every candidate.
    pub fn by_candidate(&self) -> BTreeMap<&str, Vec<&RunCell>> {
        let mut all: BTreeMap<&str, Vec<&RunCell>> = self.plan.labels().map(|cc| (cc, Vec::new())).collect();
        for cell in &self.cells {
            all.entry(cell.cell.cc.as_str()).or_default().push(cell);
        }
        all
    }

    /// The same run as if only these candidates had been in it.
    pub fn only(mut self, ccs: &[String]) -> Self {
        let is_kept = |cc: &Label| ccs.iter().any(|kept| kept == cc.as_str());
        self.cells.retain(|c| is_kept(&c.cell.cc));
        self.plan.ccs.retain(is_kept);
        self
    }

    /// Data of the cells that count.
    pub fn data_of<'a>(&'a self, path: usize, cc: &'a str) -> impl Iterator<Item = &'a CellData> {
        self.cells_of(path, cc).filter(|c| c.excluded.is_none()).filter_map(|c| c.data.as_ref())
    }

    /// The least value of a metric on a path that is a lower bound; `None` where every value is exact.
    pub fn ceiling(&self, path: usize, metric: usize) -> Option<f64> {
        let cells = self.cells.iter().filter(|c| c.cell.path == path);
        cells.filter_map(|c| c.ceilings[metric]).reduce(f64::min)
    }

    /// Median and quartiles of a metric over the cells that count.
    pub fn spread(&self, path: usize, cc: &str, metric: usize) -> Option<Spread> {
        let values: Vec<f64> = self.cells_of(path, cc).filter_map(|c| c.counted(metric)).collect();
        Spread::of(&values, self.ceiling(path, metric))
    }

    /// Whether the page can draw series over time.
    pub fn has_series(&self) -> bool {
        self.plan.paths.len() <= MAX_SERIES_PATHS
    }

    /// The kernels that the cells report.
    pub fn kernels(&self) -> Vec<&str> {
        let mut kernels: Vec<&str> =
            self.cells.iter().filter_map(|c| c.data.as_ref()).map(|d| &*d.result.kernel).collect();
        kernels.retain(|k| !k.is_empty());
        kernels.sort_unstable();
        kernels.dedup();
        kernels
    }

    /// What became of the cells of each controller, in the plan's order.
    pub fn counts(&self) -> Vec<Count> {
        let count = |cc: &str| {
            let cells: Vec<&RunCell> = self.cells.iter().filter(|c| c.cell.cc == *cc).collect();
            let attempted = cells.iter().filter(|c| c.status() != NOT_RUN).count();
            let ok = cells.iter().filter(|c| c.excluded.is_none()).count();
            Count { cc: cc.into(), planned: cells.len(), attempted, ok, excluded: attempted - ok }
        };
        self.plan.labels().map(count).collect()
    }
}

fn damage(env: &Value, cells: &[RunCell]) -> Vec<String> {
    let mut damage = Vec::new();
    if env.is_null() {
        damage.push("env.json is missing or cannot be read: what the run was made with is not known.".into());
    }
    let what = |cell: &RunCell| Some((cell.cell.index, cell.status().strip_prefix(DAMAGED)?.to_string()));
    let damaged: Vec<(usize, String)> = cells.iter().filter_map(what).collect();
    if let Some((index, what)) = damaged.first() {
        damage.push(format!(
            "{} of {} cells are damaged and do not count; the first is {index:03}: {what}.",
            damaged.len(),
            cells.len()
        ));
    }
    damage
}

impl RunCell {
    fn read(dir: &Path, plan: &Plan, cell: &Cell) -> Self {
        let folder = cell_dir(dir, cell);
        let (mut data, excluded) =
            match folder.exists().then(|| CellData::read(&folder, &plan.paths[cell.path])) {
                None => (None, Some(NOT_RUN.to_string())),
                Some(Err(reason)) => (None, Some(reason)),
                Some(Ok(data)) if data.result.cell != *cell => {
                    (None, Some("the folder holds a cell of another plan".to_string()))
                }
                Some(Ok(data)) => {
                    let excluded = data.excluded();
                    (Some(data), excluded)
                }
            };
        let excluded = excluded.map(|reason| plain(&reason));
        let no_data = || Err(excluded.clone().unwrap_or_default());
        let values = METRICS.iter().map(|m| data.as_ref().map_or_else(no_data, |d| (m.of)(d))).collect();
        let ceilings = METRICS.iter().map(|m| Some((m.ceiling?)(data.as_ref()?))).collect();
        if plan.paths.len() > MAX_SERIES_PATHS {
            data.iter_mut().for_each(CellData::forget_series);
        }
        Self { cell: cell.clone(), data, excluded, values, ceilings }
    }

    /// `ok`, or why the cell does not count.
    pub fn status(&self) -> &str {
        self.excluded.as_deref().unwrap_or("ok")
    }

    /// Value of a metric in a cell that counts.
    pub fn counted(&self, metric: usize) -> Option<f64> {
        self.values[metric].as_ref().ok().copied().filter(|v| self.excluded.is_none() && v.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;
    use super::*;

    #[test]
    fn metrics_are_what_the_series_say() {
        let folder = synthetic::run("metrics", 1);
        let run = Run::read(&folder.dir).unwrap();
        let value = |cc: &str, name: &str| {
            run.cells_of(0, cc).next().unwrap().values[crate::metric::index_of(name)].clone()
        };
        let utilisation = value("bbr", "utilisation").unwrap();
        assert!((0.93..0.99).contains(&utilisation), "{utilisation}");
        let expected = value("bbr", "goodput_bps").unwrap() / (100e6 * 1448.0 / 1500.0);
        assert!((utilisation - expected).abs() < 1e-3, "{utilisation} {expected}");
        let p95 = value("cubic", "queue_delay_p95_us").unwrap();
        assert!((35_000.0..44_000.0).contains(&p95), "{p95}");
        assert!(value("bbr", "time_to_90_ms").unwrap() < 1000.0);
        assert_eq!(value("bbr", "retransmit_rate"), Ok(0.0));
        assert_eq!(value("bbr", "jain").unwrap_err(), "not asked for: needs two streams");
        let cpu = value("bbr", "cpu_s_per_gb").unwrap();
        assert!((4.0..7.0).contains(&cpu), "0.06 × 20 s for 0.22 GB is {cpu}");
        assert!(run.data_of(0, "bbr").all(|d| !d.probes.is_empty()), "so few paths have their series drawn");
    }
}
