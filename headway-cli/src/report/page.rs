//! `report.html`, for people: the answer and one picture first, then the verdicts, then each path with its charts, then
//! what the figures mean and how to run it again.
//!
//! It computes nothing: `findings` has the numbers, `chart` draws, `series` holds what the script draws, `shell` is
//! the document around it. `page/` has a file for each part of the page, in the page's order: `top`, `picture`,
//! `front`, `messages`, `verdicts`, `path`, `runs`, `meaning`.

mod front;
mod meaning;
mod messages;
mod path;
mod picture;
mod runs;
mod top;
mod verdicts;

use super::findings::{Comparison, Findings};
use super::run::Run;
use super::series;
use super::shell::{self, verbatim};
use maud::{Markup, html};

const SCRIPT: &str = concat!(include_str!("vendor/uPlot.iife.min.js"), "\n", include_str!("page.js"));

/// With more paths than this, a page shows each path's part only when it is opened, and its picture shows ratios
/// instead of a bar for every path.
const FEW_PATHS: usize = 6;

pub fn html(run: &Run, findings: &Findings) -> String {
    let primary: Vec<&Comparison> = findings.comparisons.iter().filter(|c| c.metric.is_primary()).collect();
    let of_search = findings.front.as_ref().filter(|_| run.plan.draws.is_some());
    let series = series::of(run);
    let body = html! {
        @if of_search.is_some() { a class="skip" href="#front" { "Skip to the front" } }
        @else { a class="skip" href="#verdicts" { "Skip to the verdicts" } }
        (top::header(run, findings, &primary))
        (top::controls(run))
        main {
            @if let Some(messages) = messages::section(run) { (messages) }
            @if let Some(front) = of_search { (front::section(run, front)) }
            (verdicts::section(run, findings, &primary))
            @for path in 0..run.plan.paths.len() { (path::section(run, path, findings, series.get(path))) }
            (runs::cells_section(run, &findings.counts))
            (meaning::section(run))
            (runs::environment_section(run))
        }
        footer { "Made by " code { "headway report" } " from the raw files beside this page. It contains all that it shows and fetches nothing." }
        script type="application/json" id="data" { (verbatim(&series::json(run, &series))) }
        script { (verbatim(SCRIPT)) }
    };
    shell::document(&top::title(run), &body)
}

/// Rows for each path: of a few paths they are shown, of many only when a reader opens them.
fn folded(run: &Run, summary: &str, body: &Markup) -> Markup {
    html! {
        @if run.plan.paths.len() <= FEW_PATHS { (body) }
        @else { details { summary { (summary) } (body) } }
    }
}
