//! From paired values to a verdict: how much better is the candidate, how sure is that, and does it matter?
//!
//! The caller hands in pairs: the n-th value of the baseline and the n-th of the candidate were measured under the
//! same conditions, for instance in one block of a plan. Nothing here knows of plans, cells or run folders, so
//! whatever comes in pairs can be judged, measurements of a production trial too. The tests and intervals are those
//! of `stats`; `docs/explanation/method.md` says why these. `findings` judges the pairs of a run, `compare` samples of which only
//! the moments are known.

use crate::metric::{Better, Margin};
use crate::stats::{self, Shift, Verdict};
use serde::Serialize;

/// A baseline's values and a candidate's, pair by pair.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    pub baseline: Vec<f64>,
    /// As many as of the baseline.
    pub candidate: Vec<f64>,
}

/// What is asked of pairs.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub better: Better,
    /// The smallest improvement that matters. Without one there are estimate and interval, but no verdict.
    pub margin: Option<Margin>,
    /// A value at or above this is only known to be at least that: the run ended before the event came.
    pub ceiling: Option<f64>,
}

/// The answer, without the verdict until [`decide`] has seen the whole family.
#[derive(Clone, Debug)]
pub struct Judgement {
    pub baseline_spread: Spread,
    pub candidate_spread: Spread,
    pub scale: Scale,
    /// On that scale; positive is better, whichever way the values themselves are better.
    pub improvement: Shift,
    /// The improvement that the baseline's values show against each other in 95 of 100 draws: what noise alone does.
    /// Only where there is a margin.
    pub noise: Option<f64>,
    /// Smallest improvement that matters, on the scale above.
    pub margin: Option<f64>,
    /// The p value after Holm's correction over the family.
    pub p_family: Option<f64>,
    pub verdict: Option<Verdict>,
}

/// What an improvement is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Shares of the baseline.
    Ratio,
    /// The values' own unit. Used where some value is zero, because then there is no ratio.
    Difference,
}

/// Median and quartiles of one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub q1: f64,
    pub q3: f64,
    /// The median is at the ceiling, so the true one is at least as large.
    pub is_bound: bool,
}

impl Judgement {
    /// `None` where there is not a single pair.
    pub fn of(pairs: &Pairs, question: &Question) -> Option<Self> {
        Self::by(Shift::of, pairs, question)
    }

    /// The same with another estimate of the location than the exact signed-rank one, such as one that may be looked at while
    /// pairs come in.
    pub fn by(estimate: Estimate, pairs: &Pairs, question: &Question) -> Option<Self> {
        let Pairs { baseline, candidate } = pairs;
        let baseline_spread = Spread::of(baseline, question.ceiling)?;
        let (scale, gains) = gains(question.better, baseline, candidate);
        let improvement = on_scale(scale, estimate(&gains)?, question.better);
        Some(Self {
            baseline_spread,
            candidate_spread: Spread::of(candidate, question.ceiling)?,
            scale,
            improvement,
            noise: question.margin.and_then(|_| noise(scale, baseline)),
            margin: question.margin.map(|m| margin(m, scale, baseline_spread.median)),
            p_family: None,
            verdict: None,
        })
    }
}

/// Gives the verdicts of one family: all judgements among which a reader would look for the one that stands out, such
/// as all metrics of all candidates on all paths of a run. Holm's correction keeps the chance that any of them is wrongly
/// called a difference at 5 %. Judgements without a margin are passed over.
pub fn decide<'a>(judgements: impl Iterator<Item = &'a mut Judgement>) {
    let mut family: Vec<(&mut Judgement, f64)> =
        judgements.filter_map(|j| j.margin.map(|margin| (j, margin))).collect();
    let members: Vec<(Shift, f64)> = family.iter().map(|(j, margin)| (j.improvement, *margin)).collect();
    for ((judgement, _), (p, verdict)) in family.iter_mut().zip(verdicts(&members)) {
        judgement.p_family = Some(p);
        judgement.verdict = Some(verdict);
    }
}

/// The p value after Holm's correction and the verdict of each member of a family: its improvement and the smallest
/// one that matters, both on the same scale. What is inconclusive and could not have come out otherwise with so few
/// blocks is told apart from what might have, because more blocks are the answer to one and not always to the other.
pub fn verdicts(family: &[(Shift, f64)]) -> Vec<(f64, Verdict)> {
    let ps: Vec<f64> = family.iter().map(|(improvement, _)| improvement.p).collect();
    let adjusted = stats::holm(&ps);
    let verdict = |(member, (improvement, margin)): (usize, &(Shift, f64))| {
        let p = adjusted[member];
        match Verdict::of(improvement, p, *margin) {
            Verdict::Inconclusive if !stats::could_pass(&ps, member, improvement.least_p) => {
                (p, Verdict::TooFewBlocks)
            }
            verdict => (p, verdict),
        }
    };
    family.iter().enumerate().map(verdict).collect()
}

/// What estimates the location of paired differences.
pub type Estimate = fn(&[f64]) -> Option<Shift>;

/// The gain of each pair, positive is better: log ratios, or differences where a value allows no ratio.
pub fn gains(better: Better, base: &[f64], cand: &[f64]) -> (Scale, Vec<f64>) {
    let paired = |gain: fn(f64, f64) -> f64| -> Vec<f64> {
        base.iter().zip(cand).map(|(base, cand)| better.sign() * gain(*base, *cand)).collect()
    };
    match base.iter().chain(cand).any(|v| *v <= 0.0) {
        true => (Scale::Difference, paired(|base, cand| cand - base)),
        false => (Scale::Ratio, paired(|base, cand| (cand / base).ln())),
    }
}

/// What was estimated of gains, on the scale on which it is printed. Log ratios are estimated and then turned into shares of
/// the baseline: the map is monotone, so an interval goes through it end by end.
pub fn on_scale(scale: Scale, gain: Shift, better: Better) -> Shift {
    match scale {
        Scale::Ratio => as_shares(gain, better),
        Scale::Difference => gain,
    }
}

/// Gains as shares of the baseline. A gain is the log ratio of candidate and baseline, with the sign that makes a
/// positive one better.
pub fn as_shares(gain: Shift, better: Better) -> Shift {
    let share = |g: f64| better.sign() * (better.sign() * g).exp_m1();
    Shift {
        center: share(gain.center),
        low: share(gain.low),
        high: share(gain.high),
        low90: share(gain.low90),
        high90: share(gain.high90),
        ..gain
    }
}

/// What the baseline's own values show against each other (the A/A noise floor), on the comparison's scale.
fn noise(scale: Scale, base: &[f64]) -> Option<f64> {
    match scale {
        Scale::Ratio => stats::noise_floor(&base.iter().map(|v| v.ln()).collect::<Vec<_>>()).map(f64::exp_m1),
        Scale::Difference => stats::noise_floor(base),
    }
}

/// The larger of the margin's two sizes, on the comparison's scale; `baseline` is the baseline's median.
fn margin(margin: Margin, scale: Scale, baseline: f64) -> f64 {
    match scale {
        Scale::Ratio => margin.share.max(margin.amount / baseline),
        Scale::Difference => margin.amount.max(margin.share * baseline),
    }
}

impl Spread {
    /// `None` without values.
    pub fn of(values: &[f64], ceiling: Option<f64>) -> Option<Self> {
        let (q1, q3) = stats::quartiles(values)?;
        let median = stats::median(values)?;
        Some(Self { median, q1, q3, is_bound: ceiling.is_some_and(|ceiling| median >= ceiling) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn improvement(better: Better, base: &[f64], cand: &[f64]) -> (Scale, Shift) {
        let (scale, gains) = gains(better, base, cand);
        (scale, on_scale(scale, Shift::of(&gains).unwrap(), better))
    }

    #[test]
    fn improvements_are_signed_ratios() {
        let of = |better, base: f64, cand: f64| improvement(better, &[base; 6], &[cand; 6]);
        let near = |better, base, cand, expected: f64| {
            let (scale, shift) = of(better, base, cand);
            assert_eq!(scale, Scale::Ratio);
            for value in [shift.center, shift.low, shift.high] {
                assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
            }
        };
        near(Better::Higher, 100.0, 120.0, 0.2);
        near(Better::Lower, 100.0, 120.0, -0.2);
        near(Better::Lower, 100.0, 25.0, 0.75);
        near(Better::Higher, 100.0, 50.0, -0.5);
    }

    #[test]
    fn without_a_ratio_differences_are_compared() {
        let (scale, shift) = improvement(Better::Lower, &[0.0, 0.0, 1.0], &[3.0, 3.0, 4.0]);
        assert_eq!((scale, shift.center), (Scale::Difference, -3.0));
        let (scale, shift) = improvement(Better::Lower, &[0.0; 6], &[0.0; 6]);
        assert_eq!((scale, shift.center, shift.p), (Scale::Difference, 0.0, 1.0));
    }

    #[test]
    fn margins_are_the_larger_of_share_and_amount() {
        let delay = Margin { share: 0.05, amount: 500.0 };
        assert_eq!(margin(delay, Scale::Ratio, 50_000.0), 0.05);
        assert_eq!(margin(delay, Scale::Ratio, 1000.0), 0.5);
        assert_eq!(margin(delay, Scale::Difference, 0.0), 500.0);
        assert_eq!(margin(delay, Scale::Difference, 100_000.0), 5000.0);
    }

    /// Six blocks, all for the candidate: p is 2/2⁶ = 0.031. That decides one question, and of three that are asked at once none,
    /// because one in eleven such families has so small a p by chance.
    #[test]
    fn what_one_question_decides_three_do_not() {
        let baseline: Vec<f64> = (0..6).map(|host| 100.0 + f64::from(host)).collect();
        let candidate = baseline.iter().map(|v| v * 1.5).collect();
        let pairs = Pairs { baseline, candidate };
        let margin = Some(Margin { share: 0.02, amount: 0.0 });
        let question = Question { better: Better::Higher, margin, ceiling: None };
        let verdicts = |size: usize| {
            let mut family = vec![Judgement::of(&pairs, &question).unwrap(); size];
            decide(family.iter_mut());
            (family[0].p_family.unwrap(), family[0].verdict.unwrap())
        };
        assert_eq!(verdicts(1), (0.03125, Verdict::Better));
        assert_eq!(verdicts(3), (0.09375, Verdict::TooFewBlocks));
    }

    /// Pairs that no plan made: sixteen hosts of a trial, measured before and after.
    #[test]
    fn any_pairs_are_judged_and_share_a_family() {
        let before: Vec<f64> = (0..16).map(|host| 100.0 + f64::from(host)).collect();
        let times = |factor: f64| Pairs {
            candidate: before.iter().map(|v| v * factor).collect(),
            baseline: before.clone(),
        };
        let question = Question {
            better: Better::Lower,
            margin: Some(Margin { share: 0.02, amount: 0.0 }),
            ceiling: Some(200.0),
        };
        let mut family: Vec<Judgement> =
            [0.5, 1.0, 2.0].map(|factor| Judgement::of(&times(factor), &question).unwrap()).into();
        assert!(family.iter().all(|j| j.verdict.is_none() && j.noise.is_some()));
        decide(family.iter_mut());
        let verdicts: Vec<_> = family.iter().map(|j| j.verdict.unwrap()).collect();
        assert_eq!(verdicts, [Verdict::Better, Verdict::Equivalent, Verdict::Worse]);
        assert_eq!(
            family.iter().map(|j| j.candidate_spread.is_bound).collect::<Vec<_>>(),
            [false, false, true]
        );
        assert_eq!(family[0].p_family, Some(3.0 * family[0].improvement.p));
        let open = Question { margin: None, ..question };
        let mut secondary = Judgement::of(&times(0.5), &open).unwrap();
        decide(std::iter::once(&mut secondary));
        assert!(secondary.verdict.is_none() && secondary.noise.is_none());
        assert!(Judgement::of(&Pairs::default(), &question).is_none());
    }
}
