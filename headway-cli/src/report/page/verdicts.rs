//! The table of verdicts, and the same as a picture of intervals.

use super::path::is_described;
use super::{folded, meaning};
use crate::report::chart::{arrow, forest, key, typeset};
use crate::report::findings::Comparison;
use crate::report::run::Run;
use crate::stats::MIN_BLOCKS;
use maud::{Markup, html};

/// The columns, each with the term that explains it.
const HEADS: [(&str, &str); 11] = [
    ("Metric", "metrics"),
    ("Candidate", "metrics"),
    ("Verdict", "verdicts"),
    ("Baseline", "values"),
    ("Candidate's", "values"),
    ("Difference", "values"),
    ("Improvement", "improvement"),
    ("95 % interval", "interval"),
    ("A/A noise", "noise"),
    ("p (Holm)", "holm"),
    ("n", "blocks"),
];

/// Empty where nothing is compared.
pub fn section(run: &Run, primary: &[&Comparison]) -> Markup {
    if primary.is_empty() {
        return html! {};
    }
    html! {
        section id="verdicts" {
            h2 { "Verdicts" }
            p class="lead" { "Each candidate against " b { (run.baseline()) } ". Medians over blocks; improvement is paired within blocks, and positive is better." }
            (folded(run, &format!("All {} comparisons", primary.len()), &table(run, primary)))
            h3 { "Improvements" }
            (folded(run, "A row for each comparison", &html! { div data-panel="improvements" { (forest(run, primary)) } }))
        }
    }
}

fn table(run: &Run, primary: &[&Comparison]) -> Markup {
    html! {
        div class="scroll" {
            table class="verdicts" {
                thead { tr { @for (head, term) in HEADS { th scope="col" { (meaning::link(term, head)) } } } }
                @for (path, entry) in run.plan.paths.iter().enumerate() {
                    @let rows = primary.iter().filter(|c| c.path == path);
                    @if rows.clone().next().is_some() {
                        tbody {
                            tr class="group" { th colspan="11" scope="rowgroup" { a href={ "#path-" (path) } { (entry.name) } " " @if is_described(entry) { code { (entry.text) } } } }
                            @for c in rows { (verdict_row(run, c)) }
                        }
                    }
                }
            }
        }
    }
}

fn verdict_row(run: &Run, c: &Comparison) -> Markup {
    let unit = c.metric.unit;
    let p = c
        .judged
        .p_family
        .filter(|_| c.judged.improvement.n >= MIN_BLOCKS)
        .map_or("–".into(), |p| format!("{p:.3}"));
    html! {
        tr data-cc=(c.candidate) {
            th scope="row" { (meaning::metric(c.metric)) span class="quiet" { " " (arrow(c.metric)) } }
            td data-label="Candidate" class="name" { (key(run, &c.candidate)) " " (c.candidate) }
            td data-label="Verdict" class="name" { @if let Some(v) = c.judged.verdict { (meaning::verdict(v, v.word())) } @else { "–" } }
            td data-label="Baseline" { (c.judged.baseline_spread.show(unit)) }
            td data-label="Candidate’s" { (c.judged.candidate_spread.show(unit)) }
            td data-label="Difference" { (typeset(&c.difference_text())) }
            td data-label="Improvement" { b { (typeset(&c.improvement_text())) } }
            td data-label="95 % interval" { (typeset(&c.interval_text())) }
            td data-label="A/A noise" { (typeset(&c.noise_text())) }
            td data-label="p (Holm)" { (p) }
            td data-label="n" { (c.judged.improvement.n) }
        }
    }
}
