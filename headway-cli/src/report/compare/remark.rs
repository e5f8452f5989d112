//! What somebody has said about a case, held against the numbers.

use crate::stats::Verdict;
use crate::stats::welch::MIN_VALUES;
use anyhow::{Result, bail, ensure};

/// What was said, and whether the numbers bear it out.
#[derive(Clone, Debug, PartialEq)]
pub struct Remark {
    pub text: String,
    /// `Err` says why it does not hold.
    pub holds: Result<(), String>,
}

/// What a remark says: that the candidate is better (`Some(true)`), the baseline, or neither.
#[derive(Debug, PartialEq)]
pub struct Claim {
    for_candidate: Option<bool>,
}

impl Claim {
    /// Reads a remark about two controllers.
    ///
    /// # Errors
    /// It names neither of them, or does not say which is better.
    pub fn read(remark: &str, [baseline, candidate]: [&str; 2]) -> Result<Self> {
        let text = remark.to_lowercase();
        let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let any = |list: &[&str]| words.iter().any(|w| list.contains(w));
        if any(&["same", "equal", "similar", "equivalent"]) {
            return Ok(Self { for_candidate: None });
        }
        let good = any(&["better", "faster", "best", "wins"]);
        let bad = any(&["worse", "slower", "worst", "loses"]);
        // Of two names the first is the subject: `bbr better than cubic`.
        let at = |cc: &str| words.iter().position(|w| *w == cc.to_lowercase());
        let of_candidate = match (at(baseline), at(candidate)) {
            (Some(b), Some(c)) => c < b,
            (base, cand) if base.is_some() != cand.is_some() => cand.is_some(),
            _ => bail!("names neither {baseline} nor {candidate}"),
        };
        ensure!(
            good != bad,
            "does not say which is better: expected `{candidate} better`, `worse` or `same`"
        );
        Ok(Self { for_candidate: Some(of_candidate == good) })
    }

    /// `Err` says why the verdict contradicts the claim or cannot support it.
    pub fn check(&self, verdict: Verdict) -> Result<(), String> {
        use Verdict::{Better, BetterTrivial, Equivalent, Inconclusive, TooFewBlocks, Worse, WorseTrivial};
        match (self.for_candidate, verdict) {
            (_, Inconclusive) => Err("the numbers are inconclusive".into()),
            (_, TooFewBlocks) => Err(format!("fewer than {MIN_VALUES} values on a side")),
            (None, Equivalent | BetterTrivial | WorseTrivial)
            | (Some(true), Better | BetterTrivial)
            | (Some(false), Worse | WorseTrivial) => Ok(()),
            (Some(_), Equivalent) => Err("they are equivalent".into()),
            (Some(_), _) => Err("it is the other way round".into()),
            (None, _) => Err("they differ".into()),
        }
    }
}
