//! Rate traces made by formula, for links whose recordings we may not ship: `trace=cell:5.17mbit`,
//! `trace=poisson:3mbit`.
//!
//! `poisson` has chances to send at independent random moments. `cell` is a cellular link after the model of Sprout
//! (Winstein, Sivaraman and Balakrishnan, NSDI 2013, section 3.1): a Poisson process whose rate walks at random in
//! ticks of 20 ms, and stays at zero for a while whenever it gets there. It differs from Sprout in four points. The
//! walk stays between 0 and twice the mean. Its size is half the mean per root of a second, which is what Sprout's
//! 200 packets a second are at the rates that it was made for. An outage lasts 100 ms in the mean (Sprout: 1 s). And
//! the trace as a whole has exactly the mean rate that is asked for.
//!
//! The same word gives the same trace everywhere; it repeats after two minutes.

use super::PathError;
use super::units::{Kind, RATE, Word};
use crate::link::{TRACE_SLOT_BYTES, Trace};
use crate::rand::Rng;

const PERIOD_MS: u64 = 120_000;
const TICK_MS: u64 = 20;
/// Stream of the random generator, different from those of links and flows, so that a trace does not change with
/// them.
const STREAM: u64 = 3 << 32;
/// The mean rate in the units of the walk.
const MEAN: i64 = 1 << 20;
/// Standard deviation of one tick's step: half the mean times the root of 0.02.
const STEP: i64 = MEAN * 707 / 10_000;
/// Chance that an outage ends with a tick, in parts per billion: one in five, so that it lasts five ticks (100 ms) in
/// the mean.
const ESCAPE_PPB: u32 = 200_000_000;

/// The mean rates that are allowed: from one chance to send a second up to what is cheap to make.
const MEAN_RATE: Kind = Kind {
    min: 12_000,
    max: 200_000_000,
    range: "the mean rate of such a trace is at least 12kbit and at most 200mbit",
    ..RATE
};

/// Whether `name` stands for a formula and not for a file.
pub(super) fn is_formula(name: &str) -> bool {
    matches!(name.split_once(':'), Some(("cell" | "poisson", _)))
}

/// The trace that `word` (`cell:5.17mbit`) stands for; `None` when it names a file.
pub(super) fn trace(word: Word) -> Option<Result<Trace, PathError>> {
    is_formula(word.text).then(|| {
        let (kind, rate) = word.cut(':').unwrap_or((word, word));
        let rate_bps = MEAN_RATE.read(rate)?;
        let chances = rate_bps * PERIOD_MS / 1000 / (8 * TRACE_SLOT_BYTES);
        let mut rng = Rng::new(rate_bps, STREAM);
        let mut at_ms: Vec<u32> = match kind.text {
            "cell" => walk(chances, &mut rng),
            _ => (1..chances).map(|_| rng.below(PERIOD_MS) as u32).collect(),
        };
        at_ms.sort_unstable();
        at_ms.push(PERIOD_MS as u32);
        Ok(Trace { name: format!("{}:{}", kind.text, RATE.show(rate_bps)), at_ms: at_ms.into() })
    })
}

/// Places all chances to send but the last, so that each tick has a share in proportion to the walk.
fn walk(chances: u64, rng: &mut Rng) -> Vec<u32> {
    let mut level = MEAN;
    let levels: Vec<u64> = (0..PERIOD_MS / TICK_MS)
        .map(|_| {
            if level > 0 || rng.chance(ESCAPE_PPB) {
                level += (rng.normal() * STEP) >> 16;
                level = if level > 2 * MEAN { 4 * MEAN - level } else { level.max(0) };
            }
            level as u64
        })
        .collect();
    let total: u64 = levels.iter().sum();
    let (mut at_ms, mut so_far) = (Vec::new(), 0);
    for (tick, level) in levels.iter().enumerate() {
        so_far += level;
        let until = (u128::from(chances - 1) * u128::from(so_far) / u128::from(total)) as u64;
        for _ in at_ms.len() as u64..until {
            at_ms.push((tick as u64 * TICK_MS + rng.below(TICK_MS)) as u32);
        }
    }
    at_ms
}

#[cfg(test)]
mod tests {
    use crate::path::Path;

    fn counts(word: &str, bin_ms: u32) -> Vec<u64> {
        let path: Path = format!("trace={word} 40ms queue=1.5MB").parse().unwrap();
        let trace = path.down.trace.as_ref().unwrap();
        let mut bins = vec![0; (120_000 / bin_ms) as usize];
        trace.at_ms.iter().filter(|ms| **ms < 120_000).for_each(|ms| bins[(ms / bin_ms) as usize] += 1);
        bins
    }

    fn mean_and_variance(counts: &[u64]) -> (f64, f64) {
        let n = counts.len() as f64;
        let mean = counts.iter().sum::<u64>() as f64 / n;
        (mean, counts.iter().map(|c| (*c as f64 - mean).powi(2)).sum::<f64>() / n)
    }

    #[test]
    fn the_mean_is_exact_and_the_word_reads_back() {
        for (word, bps) in
            [("cell:5.17mbit", 5_170_000), ("cell:520kbit", 520_000), ("poisson:50mbit", 50_000_000)]
        {
            let path: Path = format!("trace={word} 40ms queue=1.5MB").parse().unwrap();
            assert!(path.down.trace.as_ref().unwrap().mean_bps().abs_diff(bps) <= 100, "{word}");
            assert_eq!(path.to_string().parse(), Ok(path.clone()));
            assert!(path.files().is_empty() && path.missing_file().is_none());
        }
    }

    /// The counts of a Poisson process have a variance equal to their mean. The rate of a cellular link itself
    /// varies, and is zero now and then.
    #[test]
    fn poisson_is_poisson_and_cell_wanders() {
        let (mean, variance) = mean_and_variance(&counts("poisson:12mbit", 100));
        assert!((0.85..1.15).contains(&(variance / mean)), "{variance} / {mean}");
        let seconds = counts("cell:12mbit", 1000);
        let (mean, variance) = mean_and_variance(&seconds);
        let deviation = variance.sqrt() / mean;
        assert!((0.4..0.8).contains(&deviation), "a uniform rate has 0.58: {deviation}");
        let neighbours = seconds.windows(2).map(|w| (w[0] as f64 - mean) * (w[1] as f64 - mean)).sum::<f64>();
        assert!(neighbours / variance / 119.0 > 0.6, "what comes next is like what was");
        let silent = counts("cell:12mbit", 100).iter().filter(|c| **c == 0).count();
        assert!((5..200).contains(&silent), "of 1200 tenths of a second: {silent}");
    }

    #[test]
    fn refusals_name_the_word() {
        for (text, word) in
            [("trace=cell:5 40ms", "5"), ("trace=poisson:1gbit 40ms", "1gbit"), ("trace=cell: 40ms", "")]
        {
            assert_eq!(text.parse::<Path>().expect_err(text).word, word);
        }
    }
}
