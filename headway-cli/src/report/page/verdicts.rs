//! The table of verdicts, and the same as a picture of intervals.

use super::path::is_described;
use super::{folded, meaning};
use crate::metric::{METRICS, Metric};
use crate::report::SUITE;
use crate::report::answer;
use crate::report::chart::{arrow, forest, key, typeset};
use crate::report::findings::{Comparison, Findings};
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
pub fn section(run: &Run, findings: &Findings, primary: &[&Comparison]) -> Markup {
    if primary.is_empty() {
        return html! {};
    }
    if run.plan.draws.is_some() {
        return html! {
            section class="search" id="verdicts" {
                h2 { "Over all paths" }
                p class="lead" { "Of the front, and of the candidates that nobody has drawn." }
                div class="scroll" { (means(run, findings)) }
            }
        };
    }
    html! {
        section id="verdicts" {
            h2 { "Verdicts" }
            p class="lead" { "Each candidate against " b { (run.baseline()) } ". Medians over blocks; improvement is paired within blocks, and positive is better." }
            (means(run, findings))
            (folded(run, &format!("All {} comparisons", primary.len()), &table(run, primary)))
            h3 { "Improvements" }
            (folded(run, "A row for each comparison", &html! { div data-panel="improvements" { (forest(run, primary)) } }))
        }
    }
}

/// One figure for all paths: a row for each metric, a column for each candidate. Empty for one path.
fn means(run: &Run, findings: &Findings) -> Markup {
    let means = &findings.answer.means;
    let of =
        |m: &Metric, cc: &str| means.iter().find(|mean| mean.metric.name == m.name && mean.candidate == cc);
    let rows: Vec<&Metric> =
        METRICS.iter().filter(|m| run.plan.labels().any(|cc| of(m, cc).is_some())).collect();
    let is_short = |m: &&&Metric| m.is_primary() || SUITE.contains(&m.name);
    let table = |rows: Vec<&Metric>| {
        html! {
            table class="small means" {
                thead { tr { th scope="col" { (meaning::link("means", "Over all paths")) } @for cc in run.plan.labels().skip(1) { th scope="col" data-cc=(cc) { (key(run, cc)) " " (cc) " / " (run.baseline()) } } } }
                tbody {
                    @for m in rows {
                        tr {
                            th scope="row" { (meaning::metric(m)) span class="quiet" { " " (arrow(m)) } }
                            @for cc in run.plan.labels().skip(1) {
                                td data-cc=(cc) { @if let Some(mean) = of(m, cc) { b { "×" (mean.ratio_text()) } span class="quiet" { " [" (typeset(&mean.interval_text())) "]" } } @else { "–" } }
                            }
                        }
                    }
                }
            }
        }
    };
    html! {
        @if !rows.is_empty() {
            (table(rows.iter().filter(is_short).copied().collect()))
            @let others: Vec<&Metric> = rows.iter().filter(|m| !is_short(m)).copied().collect();
            @if !others.is_empty() { details { summary { "Other metrics over all paths" } (table(others)) } }
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
                            @for c in rows { (verdict_row(run, primary, c)) }
                        }
                    }
                }
            }
        }
    }
}

fn verdict_row(run: &Run, primary: &[&Comparison], c: &Comparison) -> Markup {
    let unit = c.metric.unit;
    let price = answer::price(primary.iter().copied(), c);
    let p = c
        .judged
        .p_family
        .filter(|_| c.judged.improvement.n >= MIN_BLOCKS)
        .map_or("–".into(), |p| format!("{p:.3}"));
    html! {
        tr data-cc=(c.candidate) {
            th scope="row" { (meaning::metric(c.metric)) span class="quiet" { " " (arrow(c.metric)) } }
            td data-label="Candidate" class="name" { (key(run, &c.candidate)) " " (c.candidate) }
            td data-label="Verdict" class="name" {
                @if let Some(v) = c.judged.verdict { (meaning::verdict(v, v.word())) } @else { "–" }
                @if let Some(price) = price { span class="sub price" { "bought with " (price.metric.label.to_lowercase()) " " (typeset(&price.improvement_text())) } }
            }
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
