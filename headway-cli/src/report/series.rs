//! The time series behind a path's charts, as compact JSON: one time axis, and for each controller the median over
//! blocks with the range from the lowest to the highest block.
//!
//! `page.js` draws them in the browser, which lets a reader zoom; the JSON stands inside the page.

use super::run::Run;
use crate::metric::{BIN_US, CellData};
use crate::raw::load::Interval;
use crate::stats;
use serde::Serialize;
use serde_json::json;

/// As many points as fit on a screen; longer runs get longer bins.
const MAX_BINS: i64 = 600;

/// What is drawn over time, in the order of the charts, and its unit.
pub const KINDS: [(&str, &str); 3] =
    [("Goodput", "Mbit/s"), ("Queueing delay", "ms"), ("Retransmits", "packets/s")];

/// `[medians, lowest, highest]` over the blocks, bin by bin.
type Band = [Vec<Option<f64>>; 3];

/// The series of one path.
#[derive(Debug, Serialize)]
pub struct PathSeries {
    name: String,
    /// Seconds since the load's start, one a bin.
    t: Vec<f64>,
    warmup: f64,
    /// Payload in Mbit/s that the path could carry.
    capacity: Vec<Option<f64>>,
    /// For each controller a band of each kind.
    ccs: Vec<[Band; KINDS.len()]>,
}

/// What a chart would show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Nothing,
    Zeros,
    Values,
}

impl PathSeries {
    pub fn content(&self, kind: usize) -> Content {
        let highest = self.ccs.iter().flat_map(|bands| bands[kind][2].iter().flatten());
        match highest.copied().reduce(f64::max) {
            None => Content::Nothing,
            Some(0.0) => Content::Zeros,
            Some(_) => Content::Values,
        }
    }
}

/// The series of each path; none where the run has more paths than a page can draw.
pub fn of(run: &Run) -> Vec<PathSeries> {
    let charted = if run.has_series() { run.plan.paths.len() } else { 0 };
    (0..charted).map(|path| of_path(run, path)).collect()
}

/// Everything that the page's script needs: the controllers, and for each path the axis in seconds and the series.
pub fn json(run: &Run, paths: &[PathSeries]) -> String {
    let text = json!({ "ccs": run.plan.ccs, "paths": paths }).to_string();
    // The text stands inside a script element, and nothing in it may look like the end of that element.
    text.replace('<', "\\u003c")
}

fn of_path(run: &Run, path: usize) -> PathSeries {
    let axis = Axis::new(i64::from(run.plan.traffic(path).seconds) * 1_000_000);
    let of_cc = |cc: &str| {
        let over_blocks = |of: fn(&CellData, &Axis) -> Vec<Option<f64>>, digits: i32| {
            let runs: Vec<_> = run.data_of(path, cc).map(|data| of(data, &axis)).collect();
            bands(&runs, axis.bins, digits)
        };
        [over_blocks(goodput_mbps, 2), over_blocks(delay_ms, 2), over_blocks(retransmits_per_s, 0)]
    };
    PathSeries {
        name: run.plan.paths[path].name.clone(),
        t: (0..axis.bins).map(|bin| rounded((bin as i64 * axis.bin_us) as f64 / 1e6, 3)).collect(),
        warmup: run.plan.traffic(path).warmup_ms as f64 / 1e3,
        capacity: capacity_mbps(run, path, &axis),
        ccs: run.plan.labels().map(of_cc).collect(),
    }
}

/// Bins of equal length from the start to the end of the load phase.
struct Axis {
    bin_us: i64,
    bins: usize,
}

impl Axis {
    fn new(length_us: i64) -> Self {
        let merged = (length_us / BIN_US + MAX_BINS - 1) / MAX_BINS;
        let bin_us = BIN_US * merged.max(1);
        Self { bin_us, bins: (length_us / bin_us) as usize }
    }

    fn bin(&self, t_us: i64) -> Option<usize> {
        let bin = t_us.div_euclid(self.bin_us);
        (0..self.bins as i64).contains(&bin).then_some(bin as usize)
    }

    /// Spreads what was counted between two instants evenly over the bins that they touch.
    fn spread(&self, sums: &mut [Option<f64>], from_us: i64, to_us: i64, amount: f64) {
        let last = (to_us - 1).div_euclid(self.bin_us).min(self.bins as i64 - 1);
        for bin in from_us.div_euclid(self.bin_us).max(0)..=last {
            let (start, end) = (bin * self.bin_us, (bin + 1) * self.bin_us);
            let share = (to_us.min(end) - from_us.max(start)) as f64 / (to_us - from_us) as f64;
            if let Some(sum) = usize::try_from(bin).ok().and_then(|bin| sums.get_mut(bin)) {
                *sum = Some(sum.unwrap_or(0.0) + share * amount);
            }
        }
    }
}

/// The rate at the receiver, or at the sender where the receiver's intervals did not come back.
fn goodput_mbps(data: &CellData, axis: &Axis) -> Vec<Option<f64>> {
    let Ok(load) = &data.load else { return Vec::new() };
    let side = if load.received.is_empty() { &load.sent } else { &load.received };
    per_second(data, side, axis, |i| i.bytes() as f64 * 8e-6)
}

fn retransmits_per_s(data: &CellData, axis: &Axis) -> Vec<Option<f64>> {
    let Ok(load) = &data.load else { return Vec::new() };
    let counted: Vec<Interval> = load.sent.iter().filter(|i| i.retransmits.is_some()).cloned().collect();
    per_second(data, &counted, axis, |i| i.retransmits.unwrap_or(0) as f64)
}

fn per_second(
    data: &CellData,
    side: &[Interval],
    axis: &Axis,
    amount: fn(&Interval) -> f64,
) -> Vec<Option<f64>> {
    let mut sums = vec![None; axis.bins];
    for interval in side.iter().filter(|i| i.to_us > i.from_us) {
        let span = data.span_us(interval);
        axis.spread(&mut sums, span.start, span.end, amount(interval));
    }
    sums.into_iter().map(|sum| sum.map(|sum| sum * 1e6 / axis.bin_us as f64)).collect()
}

/// Median queueing delay of the probes sent in each bin.
fn delay_ms(data: &CellData, axis: &Axis) -> Vec<Option<f64>> {
    let mut samples = vec![Vec::new(); axis.bins];
    for probe in &data.probes {
        if let (Some(bin), Some(delay_us)) = (axis.bin(probe.sent_us), data.queue_delay(probe)) {
            samples[bin].push(delay_us / 1e3);
        }
    }
    samples.iter().map(|bin| stats::median(bin)).collect()
}

/// The payload that the path could carry. It is the same for every cell of a path, so the first that counts is taken.
fn capacity_mbps(run: &Run, path: usize, axis: &Axis) -> Vec<Option<f64>> {
    let Some(data) = run.plan.labels().find_map(|cc| run.data_of(path, cc).next()) else {
        return vec![None; axis.bins];
    };
    let bins = (0..axis.bins as i64).map(|bin| bin * axis.bin_us);
    bins.map(|from| {
        let bits = data.capacity_bits(from..from + axis.bin_us)?;
        Some(rounded(bits * data.payload_share() / axis.bin_us as f64, 3))
    })
    .collect()
}

fn bands(runs: &[Vec<Option<f64>>], bins: usize, digits: i32) -> Band {
    let mut out = [vec![None; bins], vec![None; bins], vec![None; bins]];
    for bin in 0..bins {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.get(bin).copied().flatten()).collect();
        let Some(median) = stats::median(&values) else { continue };
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (series, value) in out.iter_mut().zip([median, low, high]) {
            series[bin] = Some(rounded(value, digits));
        }
    }
    out
}

fn rounded(x: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (x * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;
    use super::*;

    #[test]
    fn times_are_in_seconds() {
        let folder = synthetic::run("axis", 1);
        let series = of_path(&Run::read(&folder.dir).unwrap(), 0);
        assert_eq!((series.warmup, &series.t[..3]), (5.0, &[0.0, 0.1, 0.2][..]));
    }

    #[test]
    fn long_runs_get_longer_bins() {
        assert_eq!((Axis::new(20_000_000).bin_us, Axis::new(20_000_000).bins), (100_000, 200));
        assert_eq!((Axis::new(300_000_000).bin_us, Axis::new(300_000_000).bins), (500_000, 600));
    }

    #[test]
    fn an_instant_has_one_bin_and_none_beyond_the_axis() {
        let axis = Axis::new(1_000_000);
        assert_eq!([-1, 0, 99_999, 100_000].map(|t| axis.bin(t)), [None, Some(0), Some(0), Some(1)]);
        assert_eq!([999_999, 1_000_000].map(|t| axis.bin(t)), [Some(9), None]);
    }

    #[test]
    fn spreading_keeps_the_amount() {
        let axis = Axis::new(1_000_000);
        let mut sums = vec![None; axis.bins];
        axis.spread(&mut sums, 150_000, 350_000, 8.0);
        assert_eq!(sums[..5], [None, Some(2.0), Some(4.0), Some(2.0), None]);
        axis.spread(&mut sums, 900_000, 1_100_000, 8.0);
        assert_eq!(sums[9], Some(4.0), "what lies beyond the axis is left out");
        axis.spread(&mut sums, -1_000_000_000_000_000, 1_000_000_000_000_000, 2e10);
        assert_eq!(sums[0], Some(1.0), "and takes no time");
    }

    #[test]
    fn a_band_is_median_low_high() {
        let runs = vec![vec![Some(1.0), None], vec![Some(3.0), None], vec![Some(2.0)]];
        assert_eq!(
            bands(&runs, 2, 1),
            [[Some(2.0), None], [Some(1.0), None], [Some(3.0), None]].map(Vec::from)
        );
    }
}
