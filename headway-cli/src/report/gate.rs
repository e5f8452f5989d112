//! `--fail-if`: which verdicts a script or a CI job wants to hear of by the exit code.

use super::findings::{Comparison, Findings};
use super::run::Run;
use crate::stats::Verdict;

/// A condition under which the program fails after the report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FailIf {
    /// A candidate is worse than the baseline.
    Worse,
    /// A comparison has no verdict: it is inconclusive, or there were too few blocks.
    Undecided,
    /// A candidate is not better than the baseline in everything.
    NotBetter,
}

impl FailIf {
    fn applies(self, verdict: Verdict) -> bool {
        match self {
            Self::Worse => verdict == Verdict::Worse,
            Self::Undecided => matches!(verdict, Verdict::Inconclusive | Verdict::TooFewBlocks),
            Self::NotBetter => verdict != Verdict::Better,
        }
    }
}

/// The comparisons that any of the conditions applies to, a phrase each. A run without a single verdict is a reason,
/// too, because it cannot have shown what the user wanted to be sure of.
pub fn reasons(run: &Run, findings: &Findings, asked: &[FailIf]) -> Vec<String> {
    let judged: Vec<(&Comparison, Verdict)> =
        findings.comparisons.iter().filter_map(|c| Some((c, c.judged.verdict?))).collect();
    if judged.is_empty() && !asked.is_empty() {
        return vec!["there is no verdict at all".into()];
    }
    let is_reason = |(_, verdict): &&(&Comparison, Verdict)| asked.iter().any(|a| a.applies(*verdict));
    judged.iter().filter(is_reason).map(|(c, verdict)| phrase(run, c, *verdict)).collect()
}

fn phrase(run: &Run, c: &Comparison, verdict: Verdict) -> String {
    let path = &run.plan.paths[c.path].name;
    format!("{} on {path}, {}: {} ({})", c.candidate, c.metric.name, verdict.word(), c.improvement_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_condition_names_its_verdicts() {
        let of = |asked: FailIf| -> Vec<&str> {
            Verdict::ALL.into_iter().filter(|v| asked.applies(*v)).map(Verdict::word).collect()
        };
        assert_eq!(of(FailIf::Worse), ["worse"]);
        assert_eq!(of(FailIf::Undecided), ["inconclusive", "too few blocks"]);
        assert_eq!(of(FailIf::NotBetter).len(), Verdict::ALL.len() - 1);
    }
}
