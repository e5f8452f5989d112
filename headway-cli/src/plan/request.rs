//! From what `headway bench` was asked for to a plan: which paths, in which traffic, and the cells in their order.

use crate::plan::draw::{self, Draws};
use crate::plan::label::Label;
use crate::plan::matrix::Axes;
use crate::plan::path::PathEntry;
use crate::plan::place::Place;
use crate::plan::server::RemoteOptions;
use crate::plan::suite;
use crate::plan::tool::Tool;
use crate::plan::traffic::Traffic;
use crate::plan::transport::Transport;
use crate::plan::{Cell, LAYOUT, Plan};
use crate::stats;
use anyhow::{Result, bail, ensure};

/// Blocks where nobody asks for a number. Six comparisons can be decided with them.
pub const USUAL_BLOCKS: u32 = 8;

/// What `headway bench` was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    pub place: Place,
    /// Of which some may have ranges, where candidates are drawn.
    pub ccs: Vec<Label>,
    /// How many candidates are drawn of each that has a range.
    pub draws: Option<u32>,
    pub paths: Vec<String>,
    /// A suite, whose rows bring their own traffic. Paths that are named beside it get the traffic below.
    pub suite: Option<String>,
    /// Without a number, [`USUAL_BLOCKS`] or as many as the comparisons need for a verdict.
    pub blocks: Option<u32>,
    pub transport: Transport,
    pub tool: Tool,
    pub traffic: Traffic,
    /// The flags that take several values: the rest of the traffic, and the lab's kernels.
    pub axes: Axes,
    /// Whether the warm-up in `traffic` was asked for; otherwise it follows from the paths' round trips.
    pub has_warmup: bool,
    pub seed: u64,
    pub trace: bool,
    pub modules: String,
    pub remote: RemoteOptions,
}

impl Request {
    /// The plan: every controller on every path in every block. It opens nothing but the trace files that paths name,
    /// and whether the machine can run it is for [`Plan::check`] to say.
    pub fn plan(&self) -> Result<Plan> {
        ensure!(!self.ccs.is_empty(), "no controller given\nhint: `--cc bbr,bbr1`");
        let ccs = self.labels()?;
        let paths = self.paths()?;
        ensure!(
            !paths.is_empty(),
            "no path given\nhint: `--path clean` or `--path '100mbit 40ms queue=1bdp'`"
        );
        let mut traffic = self.axes.first(self.traffic.clone());
        if !self.has_warmup {
            let begun_ms = self.axes.last_start_ms(traffic.stagger_ms);
            traffic.warmup_ms = warmup_ms(&self.place, &paths, traffic.seconds, begun_ms)?;
        }
        let paths = self.axes.expand(paths, &traffic);
        ensure!(
            self.axes.kernels.len() == 1 || ccs.iter().all(|cc| cc.kernel().is_none()),
            "--kernel with several kernels is for candidates that name none\nhint: `--cc bbr@6.1,bbr@6.12` compares kernels, \
             `--kernel 6.1,6.12` repeats the comparison on each"
        );
        ensure!(
            self.modules.is_empty() || self.axes.kernels.len() == 1,
            "--modules belongs to one --kernel file\nhint: name versions, as `headway doctor` shows them"
        );
        let mut plan = Plan {
            layout: LAYOUT,
            place: self.place.clone(),
            ccs,
            draws: self.draws.map(|count| Draws { of: self.ccs.clone(), count }),
            paths,
            suite: self.suite.clone().unwrap_or_default(),
            blocks: 0,
            transport: self.transport,
            tool: self.tool,
            traffic,
            seed: self.seed,
            trace: self.trace,
            kernel: if self.axes.kernels.len() == 1 { self.axes.kernels[0].clone() } else { String::new() },
            modules: self.modules.clone(),
            remote: self.remote.clone(),
            cells: Vec::new(),
        };
        // A search has no verdicts, and what it finds is measured again, so more blocks would be wasted on those that lose.
        let needed = if plan.draws.is_some() { 0 } else { stats::blocks_needed(plan.comparisons()) as u32 };
        plan.blocks = self.blocks.unwrap_or(USUAL_BLOCKS.max(needed));
        ensure!((1..=10_000).contains(&plan.blocks), "--blocks must be between 1 and 10000");
        plan.cells = cells(self.seed, plan.blocks, &plan.ccs, plan.paths.len());
        Ok(plan)
    }

    /// The controllers, those that are drawn among them; with the baseline a second time where the suite wants to show what
    /// noise alone looks like.
    fn labels(&self) -> Result<Vec<Label>> {
        let mut ccs = draw::drawn(&self.ccs, self.draws, self.seed)?;
        if self.suite.as_ref().map(|name| suite::find(name)).transpose()?.is_some_and(|suite| suite.has_twin)
        {
            let twin = ccs[0].again();
            if !ccs.contains(&twin) {
                ccs.push(twin);
            }
        }
        Ok(ccs)
    }

    /// The rows of the suite that this place can measure, then the paths that were named.
    fn paths(&self) -> Result<Vec<PathEntry>> {
        if let Place::Remote(host) = &self.place {
            ensure!(self.suite.is_none(), "--suite needs emulated paths\nhint: --in sim, lab or here");
            ensure!(
                self.paths.is_empty(),
                "--path is for an emulated path, and --in remote {host} is a real one\nhint: leave --path out"
            );
            return Ok(vec![PathEntry { name: host.clone(), ..PathEntry::default() }]);
        }
        let mut paths = Vec::new();
        if let Some(name) = &self.suite {
            let rows = suite::find(name)?.rows_in(&self.place);
            ensure!(
                !rows.is_empty(),
                "no row of the suite `{name}` can be measured in {}\nhint: --in sim",
                self.place
            );
            for row in rows {
                let entry = PathEntry::resolve(&row.path)?;
                paths.push(PathEntry { name: row.name, traffic: Some(row.traffic), ..entry });
            }
        }
        for name in &self.paths {
            let entry = PathEntry::resolve(name)?;
            check_new(&entry, &paths)?;
            check_changes(&entry, self.traffic.seconds)?;
            paths.push(entry);
        }
        Ok(paths)
    }
}

/// A path that is named twice would be measured twice under one name. Twice in other traffic, as a suite may have it,
/// is not the same.
fn check_new(entry: &PathEntry, others: &[PathEntry]) -> Result<()> {
    let same =
        |other: &&PathEntry| other.name == entry.name || other.traffic.is_none() && other.text == entry.text;
    match others.iter().find(same) {
        Some(other) if other.name == entry.name => {
            bail!("path `{}` is given twice\nhint: name it once", entry.name)
        }
        Some(other) => {
            bail!("paths `{}` and `{}` are the same\nhint: name one of them", other.name, entry.name)
        }
        None => Ok(()),
    }
}

/// A path whose first change comes after the end is measured as if it never changed, which is not what its name says.
fn check_changes(entry: &PathEntry, seconds: u32) -> Result<()> {
    if entry.wire().is_some() {
        return Ok(());
    }
    let first_ns = entry.path()?.first_change_ns().unwrap_or(0);
    let (first_s, end_ns) = (first_ns.div_ceil(1_000_000_000), u64::from(seconds) * 1_000_000_000);
    ensure!(
        first_ns < end_ns,
        "path `{}` changes first at {} s, and the load ends at {seconds} s: the run would not show it\nhint: --seconds {}",
        entry.name,
        first_ns as f64 / 1e9,
        first_s + u64::from(seconds).max(10)
    );
    Ok(())
}

/// Long enough that every controller has left its start behind: from when the last stream has begun 20 of the longest round
/// trips and at least 2 s, but no more than a third of the load that is left then, so that something is left to measure.
fn warmup_ms(place: &Place, paths: &[PathEntry], seconds: u32, begun_ms: u64) -> Result<u64> {
    let mut longest_rtt_ms = 0;
    for path in paths.iter().filter(|path| !place.is_remote() && path.wire().is_none()) {
        longest_rtt_ms = longest_rtt_ms.max(path.path()?.base_rtt_us() / 1000);
    }
    let left_ms = (u64::from(seconds) * 1000).saturating_sub(begun_ms);
    Ok(begun_ms + (20 * longest_rtt_ms).max(2000).min(left_ms / 3))
}

/// Every controller on every path once a block. The order within a block is random, so that what changes slowly on
/// the machine (heat, other load) meets every controller alike instead of looking like a difference between them.
fn cells(seed: u64, blocks: u32, ccs: &[Label], paths: usize) -> Vec<Cell> {
    let mut cells = Vec::new();
    for block in 0..blocks {
        let mut mates: Vec<(usize, &Label)> =
            (0..paths).flat_map(|p| ccs.iter().map(move |cc| (p, cc))).collect();
        let mut rng = headway_cc::rand::Rng::new(seed, u64::from(block));
        for i in (1..mates.len()).rev() {
            mates.swap(i, rng.below(i as u64 + 1) as usize);
        }
        for (path, cc) in mates {
            // 48 bits: a JSON reader that keeps numbers as doubles must not change it.
            let shared = headway_cc::rand::hash(seed, u64::from(block) << 16 | path as u64) >> 16;
            // With the same seed a second label of a controller would give the same bytes where time is virtual.
            let seed = match cc.number() {
                Some(number) => headway_cc::rand::hash(shared, number) >> 16,
                None => shared,
            };
            cells.push(Cell { index: cells.len(), path, cc: cc.clone(), block, seed });
        }
    }
    cells
}
