//! The matrix: where flags of `bench` have several values, each path becomes one entry of the plan for each
//! combination.
//!
//! A new axis is one field of [`Axes`] and one line of [`Axes::expand`].

use crate::plan::path::PathEntry;
use crate::plan::traffic::{self, Direction, Rival, Traffic};
use anyhow::{Result, ensure};

/// The values of the flags that take lists. With one value each there is no matrix.
#[derive(Clone, Debug)]
pub struct Axes {
    pub streams: Vec<u32>,
    pub pacing_bps: Vec<Option<u64>>,
    pub direction: Vec<Direction>,
    pub cpu_load_percent: Vec<u32>,
    pub mtu: Vec<u32>,
    pub against: Vec<Option<Rival>>,
    /// The lab's kernels. Unlike the other axes they are no traffic, so that they apply to a suite's rows as well,
    /// which bring their own traffic.
    pub kernels: Vec<String>,
}

/// What `bench` does unless told otherwise.
impl Default for Axes {
    fn default() -> Self {
        Self {
            streams: vec![1],
            pacing_bps: vec![None],
            direction: vec![Direction::Forward],
            cpu_load_percent: vec![0],
            mtu: vec![traffic::usual_mtu()],
            against: vec![None],
            kernels: vec![String::new()],
        }
    }
}

impl Axes {
    /// The first value of each list in `rest`: the traffic of a plan without a matrix.
    pub fn first(&self, rest: Traffic) -> Traffic {
        Traffic {
            streams: self.streams[0],
            pacing_bps: self.pacing_bps[0],
            direction: self.direction[0],
            cpu_load_percent: self.cpu_load_percent[0],
            mtu: self.mtu[0],
            against: self.against[0].clone(),
            ..rest
        }
    }

    /// When the last stream of any combination begins, where each begins so much later than the one before it.
    pub fn last_start_ms(&self, stagger_ms: u64) -> u64 {
        let streams = self.streams.iter().copied().max().unwrap_or(0);
        let against = self.against.iter().flatten().next().cloned();
        Traffic { streams, against, stagger_ms, ..Traffic::bulk(1) }.last_start_ms()
    }

    /// Fails on an empty list and on a value that is given twice.
    pub fn check(&self) -> Result<()> {
        distinct("--streams", &self.streams)?;
        distinct("--pacing", &self.pacing_bps)?;
        distinct("--direction", &self.direction)?;
        distinct("--cpu-load", &self.cpu_load_percent)?;
        distinct("--mtu", &self.mtu)?;
        distinct("--against", &self.against)?;
        distinct("--kernel", &self.kernels)
    }

    /// Whether no axis of the traffic has several values, so that paths need no traffic of their own.
    pub fn is_only_kernels(&self) -> bool {
        let lists = [self.streams.len(), self.pacing_bps.len(), self.direction.len(), self.mtu.len()];
        lists == [1; 4] && [self.against.len(), self.cpu_load_percent.len()] == [1; 2]
    }

    /// Every path with every combination of values, the last axis changing fastest. Its name shows the values of the
    /// axes that have several. Rows of a suite keep their own traffic.
    pub fn expand(&self, paths: Vec<PathEntry>, usual: &Traffic) -> Vec<PathEntry> {
        let mut paths = paths;
        if !self.is_only_kernels() {
            for entry in paths.iter_mut().filter(|p| p.traffic.is_none()) {
                entry.given = entry.name.clone();
                entry.traffic = Some(usual.clone());
            }
        }
        let traffic = |entry: &mut PathEntry, change: &dyn Fn(&mut Traffic)| {
            entry.traffic.as_mut().filter(|_| !entry.given.is_empty()).map(change).is_some()
        };
        paths = cross(paths, &self.streams, |e, n| {
            traffic(e, &|t| t.streams = *n).then(|| format!("streams={n}"))
        });
        paths = cross(paths, &self.pacing_bps, |e, bps| {
            traffic(e, &|t| t.pacing_bps = *bps).then(|| format!("pacing={}", traffic::pacing_text(*bps)))
        });
        paths = cross(paths, &self.direction, |e, direction| {
            traffic(e, &|t| t.direction = *direction).then(|| format!("direction={direction}"))
        });
        paths = cross(paths, &self.cpu_load_percent, |e, percent| {
            traffic(e, &|t| t.cpu_load_percent = *percent).then(|| format!("cpu-load={percent}"))
        });
        paths = cross(paths, &self.mtu, |e, mtu| traffic(e, &|t| t.mtu = *mtu).then(|| format!("mtu={mtu}")));
        paths = cross(paths, &self.against, |e, rival| {
            traffic(e, &|t| t.against = rival.clone())
                .then(|| format!("against={}", traffic::rival_text(rival.as_ref())))
        });
        cross(paths, &self.kernels, |e, kernel| {
            e.kernel = kernel.clone();
            Some(format!("kernel={kernel}"))
        })
    }
}

/// Every entry once for each value. `set` applies a value and returns its label for the name; an entry for which it
/// returns `None` stays as it is, once.
fn cross<T>(
    paths: Vec<PathEntry>,
    values: &[T],
    set: impl Fn(&mut PathEntry, &T) -> Option<String>,
) -> Vec<PathEntry> {
    if values.len() < 2 {
        return paths;
    }
    let mut all = Vec::new();
    for path in paths {
        let with = |value| {
            let mut entry = path.clone();
            let label = set(&mut entry, value)?;
            entry.name += &format!(" {label}");
            Some(entry)
        };
        let made: Vec<PathEntry> = values.iter().filter_map(with).collect();
        all.extend(if made.is_empty() { vec![path] } else { made });
    }
    all
}

fn distinct<T: PartialEq>(flag: &str, values: &[T]) -> Result<()> {
    ensure!(!values.is_empty(), "{flag} has no value");
    let is_new = |(i, value): (usize, &T)| !values[..i].contains(value);
    ensure!(values.iter().enumerate().all(is_new), "{flag} has a value twice");
    Ok(())
}

/// The values of an axis as they were given: each once, in the order of the plan.
pub fn values<'a>(entries: impl Iterator<Item = &'a PathEntry>, of: impl Fn(&PathEntry) -> String) -> String {
    let mut values: Vec<String> = Vec::new();
    for value in entries.map(of) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Axes {
        Axes { streams: vec![1, 4], pacing_bps: vec![None, Some(8_000_000)], ..Axes::default() }
    }

    #[test]
    fn every_combination_is_an_entry_and_a_suites_rows_stay() {
        let usual = Traffic::bulk(10);
        let row = PathEntry { traffic: Some(Traffic::bulk(60)), ..PathEntry::resolve("lossy").unwrap() };
        let given = vec![row.clone(), PathEntry::resolve("clean").unwrap()];
        let paths = axes().expand(given.clone(), &usual);
        let names: Vec<&str> = paths.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "lossy",
                "clean streams=1 pacing=0",
                "clean streams=1 pacing=8mbit",
                "clean streams=4 pacing=0",
                "clean streams=4 pacing=8mbit"
            ]
        );
        assert_eq!(paths[0], row);
        assert_eq!(
            paths[4].traffic,
            Some(Traffic { streams: 4, pacing_bps: Some(8_000_000), ..usual.clone() })
        );
        assert!(paths[1..].iter().all(|p| p.given == "clean"));
        // Kernels apply to the rows of a suite too.
        let kernels = Axes { kernels: vec!["6.1".into(), "6.12".into()], ..Axes::default() };
        let paths = kernels.expand(given, &usual);
        assert_eq!(
            paths.iter().map(|p| p.kernel.as_str()).collect::<Vec<_>>(),
            ["6.1", "6.12", "6.1", "6.12"]
        );
        assert_eq!(
            (paths[1].name.as_str(), paths[3].name.as_str()),
            ("lossy kernel=6.12", "clean kernel=6.12")
        );
        assert!(paths[2].traffic.is_none());
    }

    #[test]
    fn a_value_that_is_given_twice_is_refused() {
        assert!(axes().check().is_ok());
        let error = Axes { mtu: vec![1500, 9000, 1500], ..axes() }.check().unwrap_err();
        assert_eq!(error.to_string(), "--mtu has a value twice");
    }
}
