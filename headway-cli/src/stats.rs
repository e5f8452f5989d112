//! Estimates, intervals, tests and verdicts. Numbers in, numbers out: nothing here knows what was measured.
//!
//! A comparison is a list of gains, one for each block: the log ratio of candidate and baseline, with the sign that
//! makes a positive one better. Its estimate is the Hodges–Lehmann one, the median of all pairwise (Walsh) averages;
//! its interval inverts the exact signed-rank test, and `p` is that test's. For `p`, equal sizes share their mean
//! rank, and zeros keep their rank but count for neither side (Pratt); the null distribution is the exact one of
//! those very ranks. The interval uses the distribution without ties, which can only make it wider than needed.
//! `docs/explanation/method.md` says why this method.
//!
//! Without blocks there are `welch`, for two samples of which only mean and deviation are known, and `bootstrap`, for
//! percentiles of probes pooled over runs. `report::judge` is the main caller.

pub mod bootstrap;
pub mod coin;
pub mod distribution;
pub mod welch;

use headway_cc::rand::Rng;
use std::fmt;

/// Level of the printed intervals, and one minus the chance of a false verdict in a family.
pub const LEVEL: f64 = 0.95;

/// Fewest blocks for which an exact 95 % interval exists: 2/2⁵ > 0.05 > 2/2⁶.
pub const MIN_BLOCKS: usize = 6;

/// Comparisons of a sample with itself from which its noise floor is taken.
const FLOOR_DRAWS: usize = 400;

/// The location of a sample of paired differences. The ends of an interval are infinite where the sample is too small.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    pub n: usize,
    pub center: f64,
    pub low: f64,
    pub high: f64,
    /// The 90 % interval: equivalence is two one-sided tests at 5 %, which amount to this interval within the margin.
    pub low90: f64,
    pub high90: f64,
    /// Two-sided, exact.
    pub p: f64,
    /// The smallest p value that a sample of this size can have, whatever its values.
    pub least_p: f64,
}

impl Shift {
    /// `None` for an empty sample.
    pub fn of(differences: &[f64]) -> Option<Self> {
        let walsh = walsh_averages(differences);
        let center = median_of_sorted(&walsh)?;
        let n = differences.len();
        let (low, high) = interval(&walsh, n, LEVEL);
        let (low90, high90) = interval(&walsh, n, 2.0 * LEVEL - 1.0);
        let (p, least_p) = (signed_rank_p(differences), least_signed_rank_p(n));
        Some(Self { n, center, low, high, low90, high90, p, least_p })
    }

    /// The same in the other direction.
    pub fn mirrored(self) -> Self {
        Self {
            center: -self.center,
            low: -self.high,
            high: -self.low,
            low90: -self.high90,
            high90: -self.low90,
            ..self
        }
    }
}

/// What a comparison amounts to. `Display` is the word that is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Better,
    Worse,
    /// Real, and too small to matter: the whole interval lies within the margin.
    BetterTrivial,
    WorseTrivial,
    Equivalent,
    Inconclusive,
    /// Nothing could have been decided: there is no interval (fewer blocks than [`MIN_BLOCKS`]), or not even the
    /// smallest p value that so few blocks can have would have passed [`holm`].
    TooFewBlocks,
}

impl Verdict {
    /// Every verdict, from those that say most to those that say least.
    pub const ALL: [Self; 7] = [
        Self::Better,
        Self::Worse,
        Self::BetterTrivial,
        Self::WorseTrivial,
        Self::Equivalent,
        Self::Inconclusive,
        Self::TooFewBlocks,
    ];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::BetterTrivial => "better (trivial)",
            Self::WorseTrivial => "worse (trivial)",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
            Self::TooFewBlocks => "too few blocks",
        }
    }

    /// What the verdict claims, and what it does not: for the report's page and the manual.
    pub const fn claim(self) -> &'static str {
        match self {
            Self::Better => {
                "The candidate is better, by more than noise and chance explain: the 95 % interval lies above zero, also \
                 after Holm's correction."
            }
            Self::Worse => {
                "The candidate is worse, by more than noise and chance explain: the 95 % interval lies below zero, also \
                 after Holm's correction."
            }
            Self::BetterTrivial => {
                "The candidate is better, but the whole interval lies within the margin: too little to matter."
            }
            Self::WorseTrivial => {
                "The candidate is worse, but the whole interval lies within the margin: too little to matter."
            }
            Self::Equivalent => {
                "No difference that matters: the 90 % interval lies within the margin (two one-sided tests at 5 %)."
            }
            Self::Inconclusive => {
                "Neither a difference nor its absence is shown. More blocks make the interval narrower."
            }
            Self::TooFewBlocks => {
                "Nothing could have been decided: an interval takes 6 blocks, and a family of many comparisons takes more."
            }
        }
    }

    /// What an improvement (positive is better) amounts to, given its p value after [`holm`] and the smallest
    /// improvement that matters, on the same scale.
    pub fn of(shift: &Shift, p_family: f64, margin: f64) -> Self {
        let within = |low: f64, high: f64| low >= -margin && high <= margin;
        let trivial = within(shift.low, shift.high);
        let significant = p_family <= 1.0 - LEVEL;
        match () {
            () if !(shift.low.is_finite() && shift.high.is_finite()) => Self::TooFewBlocks,
            () if significant && shift.low > 0.0 && trivial => Self::BetterTrivial,
            () if significant && shift.low > 0.0 => Self::Better,
            () if significant && shift.high < 0.0 && trivial => Self::WorseTrivial,
            () if significant && shift.high < 0.0 => Self::Worse,
            () if within(shift.low90, shift.high90) => Self::Equivalent,
            () => Self::Inconclusive,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Holm's step-down correction of a family of p values, in the order given. One comparison in twenty looks
/// significant by chance; after the correction the chance that any of the family does is one in twenty.
pub fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|a, b| ps[*a].total_cmp(&ps[*b]));
    let mut adjusted = vec![0.0; ps.len()];
    let mut floor: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        floor = floor.max(ps[index] * (ps.len() - rank) as f64).min(1.0);
        adjusted[index] = floor;
    }
    adjusted
}

/// What noise alone shows: if a sample is compared with itself, both sides of every block drawn from it, 95 % of the
/// estimates lie within ± this. `None` below [`MIN_BLOCKS`] values.
pub fn noise_floor(values: &[f64]) -> Option<f64> {
    if values.len() < MIN_BLOCKS {
        return None;
    }
    let mut rng = Rng::new(1, 1);
    let mut any = || values[rng.below(values.len() as u64) as usize];
    let mut estimate = || {
        let differences: Vec<f64> = values.iter().map(|_| any() - any()).collect();
        median_of_sorted(&walsh_averages(&differences)).unwrap_or(0.0).abs()
    };
    let sizes = sorted(&(0..FLOOR_DRAWS).map(|_| estimate()).collect::<Vec<_>>());
    Some(sizes[(LEVEL * FLOOR_DRAWS as f64).ceil() as usize - 1])
}

/// The smallest p value that n pairs can have: that of differences which all have one sign, 2/2ⁿ.
fn least_signed_rank_p(n: usize) -> f64 {
    (2.0 / 2f64.powi(n as i32)).min(1.0)
}

/// Fewest blocks with which any of so many comparisons can still be significant: Holm multiplies the smallest p value
/// of the family by the family's size.
pub fn blocks_needed(comparisons: usize) -> usize {
    let passes = |n: usize| least_signed_rank_p(n) * comparisons as f64 <= 1.0 - LEVEL;
    (MIN_BLOCKS..64).find(|n| passes(*n)).unwrap_or(64)
}

/// Whether one member of a family of p values would have passed [`holm`] with the smallest p value that its sample
/// can have, the others as they are.
pub fn could_pass(ps: &[f64], member: usize, least_p: f64) -> bool {
    let mut best = ps.to_vec();
    best[member] = least_p;
    holm(&best)[member] <= 1.0 - LEVEL
}

/// Two-sided Fisher's exact test of the table `[[a, b], [c, d]]`.
pub fn fisher(a: u64, b: u64, c: u64, d: u64) -> f64 {
    let (row, column, total) = (a + b, a + c, a + b + c + d);
    let ln_weight =
        |x: u64| ln_choose(row, x) + ln_choose(total - row, column - x) - ln_choose(total, column);
    let observed = ln_weight(a);
    let range = column.saturating_sub(total - row)..=row.min(column);
    let as_rare = range.map(ln_weight).filter(|w| *w <= observed + 1e-9);
    as_rare.map(f64::exp).sum::<f64>().min(1.0)
}

/// Mean; `None` for an empty sample.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation of a sample; `None` below two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let sum: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    Some((sum / (values.len() - 1) as f64).sqrt())
}

/// Median; `None` for an empty sample.
pub fn median(values: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(values))
}

/// First and third quartile, interpolated; `None` for an empty sample.
pub fn quartiles(values: &[f64]) -> Option<(f64, f64)> {
    let values = sorted(values);
    let last = values.len().checked_sub(1)?;
    let at = |q: f64| {
        let position = q * last as f64;
        let (below, part) = (position.floor() as usize, position.fract());
        values[below] + part * (values[(below + 1).min(last)] - values[below])
    };
    Some((at(0.25), at(0.75)))
}

/// A percentile within a run, where there are enough values for a distribution-free 95 % interval of it with two
/// finite ends. With fewer, the percentile would be little more than the largest value.
///
/// # Errors
/// How many values it takes: 72 for p95, 368 for p99, 3688 for p99.9.
pub fn percentile(values: &[f64], q: f64) -> Result<f64, usize> {
    let needed = samples_needed(q);
    if values.len() < needed {
        return Err(needed);
    }
    quantile(values, q).ok_or(needed)
}

/// The smallest value that is not below the share `q` of all; `None` for an empty sample.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let rank = (q * values.len() as f64).ceil() as usize;
    sorted(values).get(rank.max(1) - 1).copied()
}

/// How many values an interval of the quantile `q` needs so that both of its ends lie among them.
pub fn samples_needed(q: f64) -> usize {
    ((1.0 - LEVEL) / 2.0).log(q.max(1.0 - q)).ceil() as usize
}

/// Jain's fairness index: 1 when all shares are equal, 1/n when one has everything; `None` when there is nothing to
/// share.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// All n(n+1)/2 averages of pairs, a value with itself included, sorted.
fn walsh_averages(x: &[f64]) -> Vec<f64> {
    let pairs = (0..x.len()).flat_map(|i| (i..x.len()).map(move |j| (i, j)));
    sorted(&pairs.map(|(i, j)| (x[i] + x[j]) / 2.0).collect::<Vec<_>>())
}

/// The exact signed-rank interval. It reaches from the k-th smallest Walsh average to the k-th largest, where k − 1
/// is the largest rank sum that still lies in the rejected tail: the test rejects every shift outside of that.
fn interval(walsh: &[f64], n: usize, level: f64) -> (f64, f64) {
    let null = null_distribution(&(1..=n).map(|r| 2 * r).collect::<Vec<_>>());
    let mut tail = 0.0;
    let k = null.iter().step_by(2).take_while(|p| {
        tail += **p;
        tail <= (1.0 - level) / 2.0
    });
    match k.count() {
        0 => (f64::NEG_INFINITY, f64::INFINITY),
        k => (walsh[k - 1], walsh[walsh.len() - k]),
    }
}

/// Two-sided p of the signed-rank test, exact whatever ties and zeros there are.
fn signed_rank_p(x: &[f64]) -> f64 {
    let ranks = doubled_ranks(x);
    let signed: Vec<usize> = x.iter().zip(&ranks).filter(|(v, _)| **v != 0.0).map(|(_, r)| *r).collect();
    let positive: usize = x.iter().zip(&ranks).filter(|(v, _)| **v > 0.0).map(|(_, r)| *r).sum();
    let null = null_distribution(&signed);
    let upper: f64 = null[positive..].iter().sum();
    let lower: f64 = null[..=positive].iter().sum();
    (2.0 * upper.min(lower)).min(1.0)
}

/// Twice the rank of each absolute value, zeros ranked too. Ties share their mean rank, and twice that is a whole
/// number.
fn doubled_ranks(x: &[f64]) -> Vec<usize> {
    let below = |v: f64| x.iter().filter(|w| w.abs() < v.abs()).count();
    let equal = |v: f64| x.iter().filter(|w| w.abs() == v.abs()).count();
    x.iter().map(|v| 2 * below(*v) + equal(*v) + 1).collect()
}

/// Distribution of the sum of `weights`, each counted with probability one half.
fn null_distribution(weights: &[usize]) -> Vec<f64> {
    let mut p = vec![0.0; weights.iter().sum::<usize>() + 1];
    p[0] = 1.0;
    for weight in weights {
        for sum in (0..p.len()).rev() {
            let with = if sum >= *weight { p[sum - weight] } else { 0.0 };
            p[sum] = (p[sum] + with) / 2.0;
        }
    }
    p
}

fn ln_choose(n: u64, k: u64) -> f64 {
    (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

fn median_of_sorted(values: &[f64]) -> Option<f64> {
    let half = values.len().checked_sub(1)? / 2;
    Some((values[half] + values[values.len() - 1 - half]) / 2.0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn one_value_has_no_deviation() {
        assert_eq!((mean(&[]), mean(&[1.0, 3.0]), deviation(&[2.0])), (None, Some(2.0), None));
        assert_eq!(deviation(&[1.0, 3.0]), Some(2f64.sqrt()));
    }

    #[test]
    fn a_mirrored_difference_is_that_of_mirrored_values() {
        let differences: Vec<f64> = (1..=9).map(|i: i32| f64::from(i * i - 12)).collect();
        let mirrored: Vec<f64> = differences.iter().map(|d| -d).collect();
        let [ours, theirs] = [&differences, &mirrored].map(|d| Shift::of(d).unwrap());
        assert_eq!(format!("{:?}", ours.mirrored()), format!("{theirs:?}"));
        assert!(ours.center != theirs.center && ours.low90 != theirs.low90);
    }

    /// Made by SciPy; the script is `stats.py` beside it.
    const GOLDEN: &str = include_str!("../tests/data/stats.txt");

    /// The rows of a section: numbers before and after the bar; `-` is none.
    pub(crate) fn golden(section: &str) -> Vec<(Vec<f64>, Vec<Option<f64>>)> {
        let lines = GOLDEN.lines().skip_while(|l| !l.starts_with(&format!("# {section}:"))).skip(1);
        let numbers = |text: &str| text.split_whitespace().map(|w| w.parse().ok()).collect::<Vec<_>>();
        lines
            .take_while(|l| !l.starts_with('#'))
            .map(|l| l.split_once('|').unwrap())
            .map(|(x, y)| (numbers(x).into_iter().flatten().collect(), numbers(y)))
            .collect()
    }

    fn same(ours: f64, scipy: f64) -> bool {
        ours == scipy || (ours - scipy).abs() < 1e-12
    }

    #[test]
    fn shifts_are_those_of_scipy() {
        let cases = golden("signed-rank");
        assert_eq!(cases.len(), 21);
        for (x, expected) in cases {
            let s = Shift::of(&x).unwrap();
            let ours = [s.center, s.low, s.high, s.low90, s.high90, s.p];
            for (ours, scipy) in ours.into_iter().zip(expected) {
                assert!(scipy.is_none_or(|scipy| same(ours, scipy)), "{ours} is not {scipy:?} for {x:?}");
            }
        }
    }

    #[test]
    fn fisher_is_that_of_scipy() {
        let cases = golden("fisher");
        assert_eq!(cases.len(), 5);
        for (t, p) in cases {
            let ours = fisher(t[0] as u64, t[1] as u64, t[2] as u64, t[3] as u64);
            assert!((ours - p[0].unwrap()).abs() < 1e-9, "{t:?}: {ours}");
        }
    }

    #[test]
    fn holm_steps_down_and_keeps_the_order() {
        assert_eq!(holm(&[0.01, 0.04, 0.03, 0.5]), [0.04, 0.09, 0.09, 0.5]);
        assert_eq!(holm(&[0.4, 0.6]), [0.8, 0.8]);
        assert_eq!(holm(&[0.03, 0.9, 0.9]), [0.09, 1.0, 1.0]);
        assert!(holm(&[]).is_empty());
        assert_eq!([1, 2, 6, 12, 18].map(blocks_needed), [6, 7, 8, 9, 10]);
    }

    #[test]
    fn a_percentile_needs_its_samples() {
        let ramp = |n: usize| (1..=n).map(|i| i as f64).collect::<Vec<_>>();
        assert_eq!(percentile(&ramp(71), 0.95), Err(72));
        assert_eq!(percentile(&ramp(72), 0.95), Ok(69.0));
        assert_eq!(percentile(&ramp(367), 0.99), Err(368));
        assert_eq!(percentile(&ramp(3687), 0.999), Err(3688));
        assert_eq!(percentile(&ramp(3688), 0.999), Ok(3685.0));
        assert_eq!(percentile(&ramp(5), 0.5), Err(6));
        assert_eq!(percentile(&ramp(7), 0.5), Ok(4.0));
    }

    #[test]
    fn small_summaries() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(quartiles(&[1.0, 2.0, 3.0, 4.0, 5.0]), Some((2.0, 4.0)));
        assert_eq!(quartiles(&[7.0]), Some((7.0, 7.0)));
        assert_eq!(jain(&[1.0, 1.0, 1.0]), Some(1.0));
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    #[test]
    fn verdicts_follow_the_interval_and_the_margin() {
        let verdict = |low: f64, high: f64, low90: f64, high90: f64, p: f64| {
            let center = (low + high) / 2.0;
            let shift = Shift { n: 10, center, low, high, low90, high90, p, least_p: 0.0 };
            Verdict::of(&shift, p, 0.02)
        };
        assert_eq!(verdict(0.01, 0.05, 0.02, 0.04, 0.01), Verdict::Better);
        assert_eq!(verdict(-0.05, -0.01, -0.04, -0.02, 0.01), Verdict::Worse);
        assert_eq!(verdict(0.001, 0.019, 0.002, 0.018, 0.01), Verdict::BetterTrivial);
        assert_eq!(verdict(-0.019, -0.001, -0.018, -0.002, 0.01), Verdict::WorseTrivial);
        assert_eq!(verdict(-0.021, 0.021, -0.019, 0.019, 0.7), Verdict::Equivalent);
        assert_eq!(verdict(-0.03, 0.021, -0.025, 0.019, 0.7), Verdict::Inconclusive);
        // Significant alone, not within its family.
        assert_eq!(verdict(0.01, 0.05, 0.02, 0.04, 0.2), Verdict::Inconclusive);
        assert_eq!(Verdict::of(&Shift::of(&[0.5; 5]).unwrap(), 0.01, 0.02), Verdict::TooFewBlocks);
        assert_eq!(Verdict::of(&Shift::of(&[0.0; 6]).unwrap(), 1.0, 0.02), Verdict::Equivalent);
    }

    #[test]
    fn a_claim_has_the_number_that_counts() {
        let takes = format!("an interval takes {MIN_BLOCKS} blocks");
        assert!(Verdict::TooFewBlocks.claim().contains(&takes));
    }

    #[test]
    fn the_noise_floor_is_what_noise_shows() {
        // Differences of two draws of a normal sample: the estimate's standard error is sd √(2/n) / 0.977.
        let n = 40;
        let values: Vec<f64> = (0..n)
            .map(|i| 0.05 * distribution::normal_quantile((f64::from(i) + 0.5) / f64::from(n)))
            .collect();
        let expected = 1.96 * 0.05 * (2.0 / f64::from(n)).sqrt() / 0.977;
        let floor = noise_floor(&values).unwrap();
        assert!((floor / expected - 1.0).abs() < 0.12, "{floor} is not near {expected}");
        assert_eq!(noise_floor(&[3.0; 8]), Some(0.0));
        assert_eq!(noise_floor(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
    }

    struct SplitMix(u64);

    impl SplitMix {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }
        /// Symmetric about 0 with heavy tails: the logistic quantile, stretched.
        fn noise(&mut self) -> f64 {
            let u = self.uniform().clamp(1e-9, 1.0 - 1e-9);
            let x = (u / (1.0 - u)).ln();
            x * x.abs().sqrt()
        }
    }

    #[test]
    fn intervals_cover_what_they_promise() {
        let mut random = SplitMix(1);
        for n in [6, 10, 14] {
            let rounds = 4000;
            let (mut in95, mut in90, mut rejected) = (0, 0, 0);
            for _ in 0..rounds {
                let x: Vec<f64> = (0..n).map(|_| 0.3 + random.noise()).collect();
                let s = Shift::of(&x).unwrap();
                in95 += usize::from(s.low <= 0.3 && 0.3 <= s.high);
                in90 += usize::from(s.low90 <= 0.3 && 0.3 <= s.high90);
                let centred: Vec<f64> = x.iter().map(|v| v - 0.3).collect();
                rejected += usize::from(signed_rank_p(&centred) <= 0.05);
            }
            let share = |hits: usize| hits as f64 / rounds as f64;
            // Exact and discrete: at least the level, at most what the next rank would give, ± 3 standard errors.
            assert!((0.940..0.985).contains(&share(in95)), "n={n}: {}", share(in95));
            assert!((0.885..0.955).contains(&share(in90)), "n={n}: {}", share(in90));
            assert_eq!(in95 + rejected, rounds, "n={n}: interval and test agree");
        }
    }
}
