//! Percentiles of the queueing delay that no single run has enough probes for.
//!
//! All probes of a controller on a path are taken together, and the interval comes from resampling whole blocks. It
//! is for exploring: nobody said before the run which percentile would decide, so there is no verdict.

use super::run::Run;
use crate::metric::CellData;
use crate::stats::bootstrap::{self, Interval, Pool, bootstrap};
use crate::stats::samples_needed;
use serde_json::{Value, json};

/// The explanation below the table.
pub const ABOUT: &str = "All probes of all blocks together, an interval by the bootstrap of whole blocks (BCa, \
                         which covers 92 to 94 % where 95 % are meant); improvement over the baseline in the same blocks. Without a verdict.";

const PERCENTILES: [(f64, &str); 2] = [(0.99, "p99"), (0.999, "p99.9")];

/// One percentile of one controller's queueing delay on one path, in microseconds.
#[derive(Clone, Debug)]
pub struct Tail {
    /// Index into `Plan::paths`.
    pub path: usize,
    pub cc: String,
    pub name: &'static str,
    pub blocks: usize,
    pub delay_us: Interval,
    /// As a share of the baseline's delay, positive is better; `None` for the baseline itself, and where its delay is
    /// 0.
    pub improvement: Option<Interval>,
}

/// Every percentile of these candidates for which there are enough blocks and probes.
pub fn of(run: &Run, ccs: &[String]) -> Vec<Tail> {
    let mut tails = Vec::new();
    for path in 0..run.plan.paths.len() {
        for cc in ccs {
            tails.extend(PERCENTILES.iter().filter_map(|(q, name)| tail(run, path, cc, *q, name)));
        }
    }
    tails
}

fn tail(run: &Run, path: usize, cc: &str, q: f64, name: &'static str) -> Option<Tail> {
    let own = delays(run, path, cc);
    let blocks: Vec<Vec<f64>> = own.iter().map(|(_, delays)| delays.clone()).collect();
    if blocks.len() < bootstrap::MIN_BLOCKS {
        return None;
    }
    let pool = Pool::new(&blocks);
    if pool.count() < samples_needed(q) {
        return None;
    }
    let delay_us = bootstrap(blocks.len(), |times| pool.percentile(times, q))?;
    let improvement = (cc != run.baseline()).then(|| improvement(run, path, own, q)).flatten();
    Some(Tail { path, cc: cc.into(), name, blocks: blocks.len(), delay_us, improvement })
}

/// Over the blocks in which both count.
fn improvement(run: &Run, path: usize, own: Vec<(u32, Vec<f64>)>, q: f64) -> Option<Interval> {
    let mut base = delays(run, path, run.baseline());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for (block, delays) in own {
        if let Some(at) = base.iter().position(|(b, _)| *b == block) {
            ours.push(delays);
            theirs.push(base.swap_remove(at).1);
        }
    }
    let (cand, base) = (Pool::new(&ours), Pool::new(&theirs));
    bootstrap(ours.len(), |times| 1.0 - cand.percentile(times, q) / base.percentile(times, q))
}

/// Block and queueing delays, in microseconds, of every cell that counts and has any.
fn delays(run: &Run, path: usize, cc: &str) -> Vec<(u32, Vec<f64>)> {
    let of = |data: &CellData| (data.result.cell.block, data.queue_delays_us());
    run.data_of(path, cc).map(of).filter(|(_, delays)| !delays.is_empty()).collect()
}

impl Tail {
    pub fn json(&self, run: &Run) -> Value {
        json!({
            "path": run.plan.paths[self.path].name,
            "cc": self.cc,
            "metric": format!("queue_delay_{}_us", self.name.replace('.', "")),
            "blocks": self.blocks,
            "delay_us": self.delay_us,
            "improvement": self.improvement,
        })
    }

    /// Delay, its interval, improvement, its interval.
    pub fn texts(&self) -> [String; 4] {
        let ms = |us: f64| format!("{} ms", super::words::number(us / 1e3));
        let share = |share: f64| super::words::percent(share) + " %";
        let of = |interval: Option<Interval>, show: &dyn Fn(f64) -> String| match interval {
            None => ["–".to_string(), "–".to_string()],
            Some(i) => [show(i.estimate), format!("{} .. {}", show(i.low), show(i.high))],
        };
        let [delay, delay_interval] = of(Some(self.delay_us), &ms);
        let [improvement, interval] = of(self.improvement, &share);
        [delay, delay_interval, improvement, interval]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{findings::Findings, synthetic};
    use super::*;
    use crate::stats;

    #[test]
    fn tails_need_ten_blocks_and_pool_their_probes() {
        let folder = synthetic::run("tails", 10);
        let mut run = Run::read(&folder.dir).unwrap();
        let tails = Findings::of(&run).tails;
        assert_eq!(tails.len(), 3 * 3 * 2);
        let find = |cc: &str, name: &str| {
            tails.iter().find(|t| t.path == 0 && t.cc == cc && t.name == name).unwrap()
        };
        let pooled: Vec<f64> = delays(&run, 0, "cubic").into_iter().flat_map(|(_, d)| d).collect();
        for (q, name) in PERCENTILES {
            let tail = find("cubic", name);
            assert_eq!(tail.delay_us.estimate, stats::percentile(&pooled, q).unwrap());
            assert!(
                tail.delay_us.low <= tail.delay_us.estimate && tail.delay_us.estimate <= tail.delay_us.high
            );
            let worse = tail.improvement.unwrap();
            assert!(worse.high < 0.0, "cubic fills buffers: {worse:?}");
        }
        assert_eq!(find("bbr", "p99").improvement, None, "the baseline is compared with no one");
        // The first 300 of a cell are sent before its warm-up is over. 100 more in each of 10 blocks are 1000, and p99.9 needs 3688.
        run.cells.iter_mut().filter_map(|c| c.data.as_mut()).for_each(|data| data.probes.truncate(400));
        let all: Vec<String> = run.plan.labels().map(String::from).collect();
        let names: Vec<&str> = of(&run, &all).iter().map(|t| t.name).collect();
        assert_eq!(names, ["p99"; 9]);
        let few = synthetic::run("few-tails", 9);
        assert!(of(&Run::read(&few.dir).unwrap(), &all).is_empty());
    }
}
