//! The BCa bootstrap of whole blocks, for percentiles that no single run has enough probes for.
//!
//! Probes of one run are not independent of each other, so a run is drawn whole or not at all. The interval is
//! bias-corrected and accelerated (Efron 1987). With few blocks that is too short: draws vary by a factor of (n - 1) / n
//! less than new blocks would, and a normal quantile stands where Student's belongs. So the level is expanded by both
//! (Hesterberg 2015, "What teachers should know about the bootstrap", §5.3), and below [`MIN_BLOCKS`] there is none.

use super::distribution::{normal, normal_quantile, student_quantile};
use super::{LEVEL, sorted};
use headway_cc::rand::Rng;

/// Fewest blocks for which the interval covers the true value about as often as it promises
/// (docs/measurements/method.md has the share).
pub const MIN_BLOCKS: usize = 10;
const RESAMPLES: usize = 10_000;
/// Fixed, so that the same blocks give the same interval.
const SEED: u64 = 1;

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Interval {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

/// The estimate of a statistic and its 95 % interval. `statistic` is told how often each block was drawn. `None` below
/// [`MIN_BLOCKS`] blocks, and where the statistic is not finite for some draw.
pub fn bootstrap(blocks: usize, statistic: impl Fn(&[u32]) -> f64) -> Option<Interval> {
    if blocks < MIN_BLOCKS {
        return None;
    }
    let n = blocks as f64;
    let tail = normal(-(n / (n - 1.0)).sqrt() * student_quantile(LEVEL, n - 1.0));
    bca(blocks, tail, statistic)
}

/// The BCa interval that leaves this share out at either end.
fn bca(blocks: usize, tail: f64, statistic: impl Fn(&[u32]) -> f64) -> Option<Interval> {
    let estimate = statistic(&vec![1; blocks]);
    let mut rng = Rng::new(SEED, 0);
    let draws: Vec<f64> = (0..RESAMPLES).map(|_| statistic(&draw(&mut rng, blocks))).collect();
    if !draws.iter().chain([&estimate]).all(|v| v.is_finite()) {
        return None;
    }
    let draws = sorted(&draws);
    let below =
        draws.iter().filter(|v| **v < estimate).count() + draws.iter().filter(|v| **v <= estimate).count();
    let bias = normal_quantile(below as f64 / (2 * RESAMPLES) as f64);
    let acceleration = acceleration(blocks, &statistic);
    let end = |level: f64| {
        let z = bias + normal_quantile(level);
        quantile(&draws, normal(bias + z / (1.0 - acceleration * z)))
    };
    // Where every draw gives the same value, the bias is not defined, and the interval is that value.
    match draws[0] == draws[RESAMPLES - 1] {
        true => Some(Interval { estimate, low: estimate, high: estimate }),
        false => Some(Interval { estimate, low: end(tail), high: end(1.0 - tail) }),
    }
}

fn draw(rng: &mut Rng, blocks: usize) -> Vec<u32> {
    let mut times = vec![0; blocks];
    for _ in 0..blocks {
        times[rng.below(blocks as u64) as usize] += 1;
    }
    times
}

/// Skewness of the statistic, from leaving out one block at a time.
fn acceleration(blocks: usize, statistic: impl Fn(&[u32]) -> f64) -> f64 {
    let without = |i: usize| statistic(&(0..blocks).map(|b| u32::from(b != i)).collect::<Vec<_>>());
    let values: Vec<f64> = (0..blocks).map(without).collect();
    let mean = values.iter().sum::<f64>() / blocks as f64;
    let sum = |power: i32| values.iter().map(|v| (mean - v).powi(power)).sum::<f64>();
    let (cubes, squares) = (sum(3), sum(2));
    if squares == 0.0 { 0.0 } else { cubes / (6.0 * squares.powf(1.5)) }
}

/// The quantile of sorted values, interpolated between neighbours.
fn quantile(values: &[f64], q: f64) -> f64 {
    let position = q * (values.len() - 1) as f64;
    let (below, part) = (position.floor() as usize, position.fract());
    values[below] + part * (values[(below + 1).min(values.len() - 1)] - values[below])
}

/// The samples of several blocks together, the largest first, each with the number of its block. Sorted once, so that
/// the percentile of each of ten thousand draws takes one pass.
#[derive(Clone, Debug)]
pub struct Pool {
    samples: Vec<(f64, usize)>,
    sizes: Vec<u64>,
}

impl Pool {
    pub fn new(blocks: &[Vec<f64>]) -> Self {
        let tagged = blocks.iter().enumerate().flat_map(|(b, values)| values.iter().map(move |v| (*v, b)));
        let mut samples: Vec<(f64, usize)> = tagged.collect();
        samples.sort_by(|a, b| b.0.total_cmp(&a.0));
        Self { samples, sizes: blocks.iter().map(|b| b.len() as u64).collect() }
    }

    pub fn count(&self) -> usize {
        self.samples.len()
    }

    /// The percentile of a draw that has block b `times[b]` times; NaN for an empty draw.
    pub fn percentile(&self, times: &[u32], q: f64) -> f64 {
        let total: u64 = self.sizes.iter().zip(times).map(|(size, t)| size * u64::from(*t)).sum();
        let above = total - ((q * total as f64).ceil() as u64).clamp(1, total.max(1)).min(total);
        let mut passed = 0;
        let hit = self.samples.iter().find(|(_, block)| {
            passed += u64::from(times[*block]);
            passed > above
        });
        hit.map_or(f64::NAN, |(value, _)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::percentile;
    use crate::stats::tests::golden;

    #[test]
    fn intervals_are_those_of_scipy_from_the_same_draws() {
        let cases = golden("bca");
        assert_eq!(cases.len(), 6);
        for (x, expected) in cases {
            let mean = |times: &[u32]| {
                let sum: f64 = x.iter().zip(times).map(|(v, t)| v * f64::from(*t)).sum();
                sum / times.iter().sum::<u32>() as f64
            };
            let ours = bca(x.len(), (1.0 - LEVEL) / 2.0, mean).unwrap();
            for (ours, scipy) in [ours.estimate, ours.low, ours.high].into_iter().zip(expected) {
                assert!((ours - scipy.unwrap()).abs() < 1e-9, "{ours} is not {scipy:?} for {x:?}");
            }
        }
    }

    /// How often the interval has the true value in it: the p95 of the delays of many blocks, whose level differs from block to
    /// block as a log-normal variable does (deviation 0.3 of the logarithm), with exponential delays within each.
    #[test]
    fn the_interval_covers_what_it_promises() {
        const BLOCKS: [usize; 3] = [10, 20, 40];
        const RUNS: u64 = 400;
        let normal = |rng: &mut Rng| normal_quantile((rng.below(1 << 52) as f64 + 0.5) / (1u64 << 52) as f64);
        let exponential = |rng: &mut Rng| -((rng.below(1 << 52) as f64 + 0.5) / (1u64 << 52) as f64).ln();
        let block = |rng: &mut Rng, samples: usize| -> Vec<f64> {
            let level = (0.3 * normal(rng)).exp();
            (0..samples).map(|_| level * exponential(rng)).collect()
        };
        let mut rng = Rng::new(5, 5);
        let all: Vec<f64> = (0..20_000).flat_map(|_| block(&mut rng, 50)).collect();
        let truth = percentile(&all, 0.95).unwrap();
        for blocks in BLOCKS {
            let mut covered = [0, 0];
            for _ in 0..RUNS {
                let sample: Vec<Vec<f64>> = (0..blocks).map(|_| block(&mut rng, 100)).collect();
                let pool = Pool::new(&sample);
                let p95 = |times: &[u32]| pool.percentile(times, 0.95);
                let plain = bca(blocks, (1.0 - LEVEL) / 2.0, p95).unwrap();
                let ours = bootstrap(blocks, p95).unwrap();
                for (covered, i) in covered.iter_mut().zip([plain, ours]) {
                    *covered += u64::from(i.low <= truth && truth <= i.high);
                }
            }
            let share = covered.map(|n| 100.0 * n as f64 / RUNS as f64);
            println!("{blocks} blocks: plain BCa covers {:.1} %, expanded {:.1} %", share[0], share[1]);
            assert!(share[1] >= share[0] && share[1] > 91.5, "{share:?}");
        }
    }

    #[test]
    fn too_few_blocks_have_no_interval_and_equal_ones_no_width() {
        assert_eq!(bootstrap(9, |_| 1.0), None);
        assert_eq!(bootstrap(10, |_| 1.0), Some(Interval { estimate: 1.0, low: 1.0, high: 1.0 }));
        assert_eq!(bootstrap(10, |times| if times[0] == 0 { f64::NAN } else { 1.0 }), None);
    }

    #[test]
    fn a_pool_has_the_percentile_of_all_its_samples() {
        let blocks: Vec<Vec<f64>> =
            (0..10).map(|b| (0..400).map(|i| f64::from(i * 10 + b)).collect()).collect();
        let pool = Pool::new(&blocks);
        for q in [0.5, 0.95, 0.99, 0.999] {
            assert_eq!(pool.percentile(&[1; 10], q), percentile(&blocks.concat(), q).unwrap(), "{q}");
            assert_eq!(
                pool.percentile(&[3; 10], q),
                percentile(&blocks.concat().repeat(3), q).unwrap(),
                "{q}"
            );
        }
        let mut one = [0; 10];
        one[7] = 1;
        assert_eq!(pool.percentile(&one, 0.99), percentile(&blocks[7], 0.99).unwrap());
        assert!(pool.percentile(&[0; 10], 0.5).is_nan());
    }
}
