//! What the figures mean, on the page itself: the terms of the method, the verdicts, and every metric the run has.
//!
//! Each has an anchor, and the tables and charts link to it, so that a reader who does not know a word is one click away
//! from its meaning and needs no other document.

use super::path::was_asked_for;
use crate::metric::{Better, METRICS, Metric};
use crate::report::run::Run;
use crate::stats::{MIN_BLOCKS, Verdict};
use maud::{Markup, html};

/// A word that links to its meaning: the anchor of a term is `means-` and one of the names in [`section`].
pub fn link(term: &str, text: &str) -> Markup {
    html! { a class="term" href={ "#means-" (term) } { (text) } }
}

/// A metric's label, which links to what is measured.
pub fn metric(metric: &Metric) -> Markup {
    link_to_metric(metric, metric.label)
}

/// The same where a column has a shorter name for it.
pub fn link_to_metric(metric: &Metric, text: &str) -> Markup {
    html! { a class="term" href={ "#metric-" (metric.name) } { (text) } }
}

/// A verdict's badge, which links to what it claims.
pub fn verdict(verdict: Verdict, text: &str) -> Markup {
    html! { a class={ "verdict v-" (id(verdict)) } href={ "#verdict-" (id(verdict)) } { (text) } }
}

fn id(verdict: Verdict) -> String {
    verdict.word().replace([' ', '(', ')'], "")
}

pub fn section(run: &Run) -> Markup {
    let is_listed = |m: usize| (0..run.plan.paths.len()).any(|path| was_asked_for(run, path, m));
    html! {
        section id="meaning" {
            h2 { "What the figures mean" }
            dl class="glossary" {
                (terms(run))
                dt id="means-verdicts" { "Verdict" }
                dd { "What the comparison of a primary metric amounts to, in one of these words:" }
                @for v in Verdict::ALL { dt id={ "verdict-" (id(v)) } { span class={ "verdict v-" (id(v)) } { (v) } } dd { (v.claim()) } }
            }
            h3 id="means-metrics" { "Metrics" }
            dl class="glossary" {
                @for (_, m) in METRICS.iter().enumerate().filter(|(m, _)| is_listed(*m)) {
                    dt id={ "metric-" (m.name) } { (m.label) " " code { (m.name) } }
                    dd {
                        (m.about) ". " (if m.better == Better::Higher { "Higher is better." } else { "Lower is better." })
                        @if let Some(margin) = m.margin {
                            " Primary: it gets a verdict. " (link("margin", "Margin")) ": " (format!("{:.0} %", margin.share * 100.0))
                            @if margin.amount > 0.0 { " or " (m.unit.show(margin.amount)) ", whichever is more" } "."
                        }
                    }
                }
            }
        }
    }
}

/// The terms of the method, in the order in which they build on each other.
fn terms(run: &Run) -> Markup {
    let base = run.baseline();
    let fewest = format!("Fewer than {MIN_BLOCKS} blocks get no interval and no verdict.");
    let terms = [
        ("blocks", "Block, n", format!("One run of every controller on every path, in random order and with the same seed per path. Compared are only runs of one block, so what changes from block to block hurts no one. n is the number of blocks in which both runs count. {fewest}")),
        ("values", "Baseline, candidate's, difference", format!("Medians over the runs that count, of {base} and of the candidate; the difference is the candidate's less the baseline's.")),
        ("improvement", "Improvement", format!("How much better the candidate is than {base}, as a share of {base}'s value; positive is better for every metric. It is the Hodges–Lehmann estimate of the log ratios within blocks, so it can differ a little from the ratio of the medians. Where values are zero it is a difference.")),
        ("interval", "95 % interval", "The improvements that the data do not contradict: the true one lies inside in 95 of 100 such experiments. It inverts the exact signed-rank test.".into()),
        (
            "means",
            "Over all paths",
            "The geometric mean over the paths of candidate / baseline: ×0.5 is half, ×2 is twice. Its interval says how sure that is for these very paths where there are blocks enough, and for paths like these where there are not. A path without a value in every block, or with a zero, is left out.".into(),
        ),
        ("noise", "A/A noise", "What the baseline shows against itself: in 95 of 100 comparisons whose both sides are drawn from its own runs, the estimate stays within it.".into()),
        ("margin", "Margin", "The smallest improvement that matters, set for each metric before any run: the grey field of the picture of improvements.".into()),
        ("holm", "p (Holm)", "The chance of a difference as large as this if there were none, after Holm's correction: one comparison in twenty looks significant by chance, so the more comparisons a metric has (paths × candidates), the stricter each is held.".into()),
    ];
    html! { @for (anchor, name, text) in terms { dt id={ "means-" (anchor) } { (name) } dd { (text) } } }
}
