//! What a trial amounts to, in sentences, and what it may not claim.

use super::findings::{Effect, Findings, Spill, change_text, interval_text, size_text};
use super::folder::{Ended, Trial};
use super::foretell::length;
use super::schedule::By;
use crate::report::judge::{Judgement, Scale};
use crate::report::words::p_equals;
use crate::stats::Verdict;

/// Above this share of bytes of the other controller a slot is not its controller's own.
pub const ISOLATED: f64 = 0.10;
/// Fewer groups of slots cannot show that connections touch each other: of two tests at once neither can pass.
pub const LEAST_GROUPS: usize = 7;

/// The answer first, then what must be known before believing it.
pub fn sentences(trial: &Trial, findings: &Findings) -> Vec<String> {
    let mut all = vec![state(trial, findings)];
    all.push(headline(trial, findings));
    all.extend(spill(trial, findings));
    all.push(limits(trial));
    all.retain(|sentence| !sentence.is_empty());
    all
}

/// Empty for a trial that ran as it was meant to.
fn state(trial: &Trial, findings: &Findings) -> String {
    let (run, all) = (trial.slots.len(), trial.setup.schedule().len());
    let look = if findings.pairs() > 0 {
        " The intervals are wider than those at the end, and hold at every look."
    } else {
        ""
    };
    match &trial.ended {
        Some(Ended::Done { .. }) => String::new(),
        Some(Ended::Stopped { at_ms, because }) => {
            format!("A guard ended the trial after {}: {because}.{look}", length(*at_ms))
        }
        Some(Ended::Interrupted { .. }) => {
            format!(
                "The trial was interrupted after {run} of {all} slots; `headway trial --resume` goes on with it.{look}"
            )
        }
        None => format!("The trial has done {run} of {all} slots and has not ended.{look}"),
    }
}

fn headline(trial: &Trial, findings: &Findings) -> String {
    let judged: Vec<String> =
        findings.effects.iter().filter(|e| e.metric.margin.is_some()).map(clause).collect();
    let [base, cand] = &trial.setup.arms;
    if findings.pairs() == 0 {
        return "There is no complete pair of slots yet, so nothing is known.".into();
    }
    let clauses = judged.join("; ");
    match trial.setup.by {
        _ if trial.setup.is_rehearsal() => {
            format!("Both controllers are {base}, so whatever differs is chance: {clauses}.")
        }
        By::Slot => format!(
            "On this machine, in these hours, moving all of this traffic from {base} to {cand} {clauses}."
        ),
        By::Prefix => format!(
            "On this machine, in these hours, giving a remote network {cand} instead of {base} {clauses}. That is what moving all \
             networks would do as far as no two of them share a bottleneck."
        ),
        By::Connection => format!(
            "Connections with {cand} beside connections with {base}: {clauses}. That shows harm, and no size: connections that share \
             a bottleneck share what either controller does to it."
        ),
    }
}

/// `changes the RTT above minimum, p95 by −31 % [−38, −22]`.
fn clause(effect: &Effect) -> String {
    let (metric, judged) = (effect.metric, &effect.judged);
    let name = lower(metric.label);
    let change = with_interval(effect, judged);
    let margin = judged.margin.map_or(String::new(), |m| size_text(metric, judged.scale, m));
    match judged.verdict {
        Some(Verdict::Better | Verdict::Worse) => format!("changes the {name} by {change}"),
        Some(Verdict::BetterTrivial | Verdict::WorseTrivial) => {
            format!("changes the {name} by {change}, which is less than the ±{margin} that matter")
        }
        Some(Verdict::Equivalent) => format!("leaves the {name} where it was ({change}, within ±{margin})"),
        Some(Verdict::Inconclusive) => format!("leaves open what becomes of the {name} ({change})"),
        Some(Verdict::TooFewBlocks) => {
            format!("cannot be judged on the {name} from {} pairs of slots", judged.improvement.n)
        }
        None => format!("{name} {change}"),
    }
}

/// The label within a sentence: `RTT` stays, `Goodput` does not.
fn lower(label: &str) -> String {
    match label.starts_with("RTT") {
        true => label.to_string(),
        false => label[..1].to_lowercase() + &label[1..],
    }
}

fn with_interval(effect: &Effect, judged: &Judgement) -> String {
    let change = change_text(effect.metric, judged.scale, judged.improvement.center);
    format!("{change} {}", interval_text(effect.metric, judged)).trim_end().to_string()
}

fn spill(trial: &Trial, findings: &Findings) -> Vec<String> {
    let mut all = Vec::new();
    if findings.foreign_share > ISOLATED {
        all.push(format!(
            "Of the bytes in whole slots {:.0} % were of connections from before, with the other controller: the slots are not isolated, \
             and the effect is larger or smaller than it seems. Longer slots and a longer burn-in mend that.",
            findings.foreign_share * 100.0
        ));
    }
    if trial.setup.by != By::Slot || trial.setup.is_rehearsal() {
        return all;
    }
    let groups = findings.spill.iter().map(|s| s.groups).max().unwrap_or(0);
    match findings.has_spill() {
        true => all.extend(findings.spill.iter().filter(|s| s.is_found()).filter_map(|s| touching(findings, s))),
        false if groups >= LEAST_GROUPS => all.push(format!(
            "No sign that connections touch each other: in {groups} groups of slots the gap between connections side by side is that \
             between whole slots, as far as can be told."
        )),
        false if groups > 0 => all.push(format!(
            "Whether connections touch each other cannot be told from {groups} groups of slots: it takes {LEAST_GROUPS}."
        )),
        false => {}
    }
    all
}

/// Both numbers, where they differ.
fn touching(findings: &Findings, spill: &Spill) -> Option<String> {
    let effect = findings.effects.iter().find(|e| e.metric.name == spill.metric.name)?;
    let side = effect.side_by_side.as_ref()?;
    let name = lower(effect.metric.label);
    Some(format!(
        "Connections touch each other: side by side in half slots the candidate's {name} was {} against the baseline's, where moving \
         everybody changes it by {} ({}). Figures of single connections are biased.",
        with_interval(effect, side),
        with_interval(effect, &effect.judged),
        p_equals(spill.p)
    ))
}

fn limits(trial: &Trial) -> String {
    let simulated = if trial.setup.is_simulated() { " It was a simulation." } else { "" };
    format!(
        "It says nothing about other hours, machines or traffic, about what applications feel, or about others who share the \
         network and took no part.{simulated}"
    )
}

/// The scale as a word, for other programs.
pub fn scale_word(scale: Scale) -> &'static str {
    if scale == Scale::Ratio { "ratio" } else { "difference" }
}
