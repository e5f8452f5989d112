//! Welch's t-test for two samples of which only mean, standard deviation and size are known, on their logarithms.
//!
//! The moments of the logarithms follow from those of the values as for a log-normal distribution. A printed number
//! is rounded, so the standard deviation is taken at the upper end of what it can have been, and the error of
//! rounding the mean is added to the variance. Without that, "0.94 ± 0.00" would prove any difference.

use super::distribution::{student_quantile, student_two_sided};
use super::{LEVEL, Shift};

/// Fewest values in each sample: with two the standard deviation has one degree of freedom.
pub const MIN_VALUES: u32 = 3;

/// One sample as a table prints it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    pub mean: f64,
    pub sd: f64,
    pub n: u32,
    /// One unit in the last printed digit of each; 0 for exact numbers.
    pub mean_step: f64,
    pub sd_step: f64,
}

/// The log ratio of candidate and baseline, with its interval and p value; its `n` is that of the smaller sample.
/// `None` where a mean is not positive or a sample is smaller than [`MIN_VALUES`].
pub fn welch(baseline: &Moments, candidate: &Moments) -> Option<Shift> {
    let (base, cand) = (baseline.of_logs()?, candidate.of_logs()?);
    let (vb, vc) = (base.variance / base.n, cand.variance / cand.n);
    let rounding = base.rounding + cand.rounding;
    let center = cand.mean - base.mean;
    let error = (vb + vc + rounding).sqrt();
    let n = baseline.n.min(candidate.n) as usize;
    if error == 0.0 {
        let p = if center == 0.0 { 1.0 } else { 0.0 };
        return Some(Shift {
            n,
            center,
            low: center,
            high: center,
            low90: center,
            high90: center,
            p,
            least_p: 0.0,
        });
    }
    // Welch–Satterthwaite. Without any spread that formula is 0/0, and the smaller sample's degrees of freedom are
    // used.
    let spread = vb * vb / (base.n - 1.0) + vc * vc / (cand.n - 1.0);
    let df = if spread > 0.0 { (vb + vc).powi(2) / spread } else { base.n.min(cand.n) - 1.0 };
    let half = |level: f64| student_quantile(level, df) * error;
    let (half95, half90) = (half(LEVEL), half(2.0 * LEVEL - 1.0));
    Some(Shift {
        n,
        center,
        low: center - half95,
        high: center + half95,
        low90: center - half90,
        high90: center + half90,
        p: student_two_sided(center / error, df),
        least_p: 0.0,
    })
}

/// Moments of the logarithms.
struct Logs {
    mean: f64,
    variance: f64,
    /// Variance of the mean's rounding error.
    rounding: f64,
    n: f64,
}

impl Moments {
    fn of_logs(&self) -> Option<Logs> {
        if self.n < MIN_VALUES || self.mean <= 0.0 || self.sd < 0.0 {
            return None;
        }
        let variance = ((self.sd + self.sd_step / 2.0) / self.mean).powi(2).ln_1p();
        let rounding = (self.mean_step / self.mean).powi(2) / 12.0;
        Some(Logs { mean: self.mean.ln() - variance / 2.0, variance, rounding, n: f64::from(self.n) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::golden;

    fn exact(mean: f64, sd: f64, n: f64) -> Moments {
        Moments { mean, sd, n: n as u32, mean_step: 0.0, sd_step: 0.0 }
    }

    #[test]
    fn welch_is_that_of_scipy() {
        let cases = golden("welch");
        assert_eq!(cases.len(), 8);
        for (x, expected) in cases {
            let s = welch(&exact(x[0], x[1], x[2]), &exact(x[3], x[4], x[5])).unwrap();
            for (ours, scipy) in [s.center, s.low, s.high, s.low90, s.high90, s.p].into_iter().zip(expected) {
                let scipy = scipy.unwrap();
                assert!(
                    (ours - scipy).abs() < 1e-9 * scipy.abs().max(1e-3),
                    "{ours} is not {scipy} for {x:?}"
                );
            }
        }
    }

    #[test]
    fn rounding_is_no_evidence() {
        let printed = |mean| Moments { mean, sd: 0.0, n: 3, mean_step: 0.01, sd_step: 0.01 };
        let s = welch(&printed(0.93), &printed(0.94)).unwrap();
        assert!(s.low < 0.0 && s.high > 0.0 && s.p > 0.05, "{s:?}");
        let s = welch(&exact(0.93, 0.0, 3.0), &exact(0.94, 0.0, 3.0)).unwrap();
        assert!(s.low == s.high && s.low > 0.0 && s.p == 0.0, "{s:?}");
        let s = welch(&exact(0.93, 0.0, 3.0), &exact(0.93, 0.0, 3.0)).unwrap();
        assert_eq!((s.low, s.p), (0.0, 1.0));
    }

    #[test]
    fn what_cannot_be_compared_is_not() {
        assert!(welch(&exact(1.0, 0.1, 2.0), &exact(2.0, 0.1, 9.0)).is_none());
        assert!(welch(&exact(0.0, 0.1, 9.0), &exact(2.0, 0.1, 9.0)).is_none());
        assert!(welch(&exact(1.0, 0.1, 3.0), &exact(2.0, 0.1, 3.0)).is_some());
    }
}
