//! The part of the page about one path: its course in time, every run, the tails, and all metrics.

use super::top::in_words_of;
use super::{FEW_PATHS, meaning};
use crate::metric::{METRICS, NOT_ASKED};
use crate::plan::PathEntry;
use crate::report::chart::{arrow, distribution, dots, key, order, typeset};
use crate::report::findings::{Comparison, Findings};
use crate::report::run::{Run, RunCell};
use crate::report::series::{Content, KINDS, PathSeries};
use crate::report::tails::{self, Tail};
use crate::report::words::number;
use crate::stats::MIN_BLOCKS;
use maud::{Markup, html};

/// Everything about one path; only a sentence where no run counts.
pub fn section(run: &Run, path: usize, findings: &Findings, series: Option<&PathSeries>) -> Markup {
    let entry = &run.plan.paths[path];
    let traffic = in_words_of(run.plan.traffic(path));
    let head = html! {
        h2 { (entry.name) }
        p class="lead" { @if is_described(entry) { code { (entry.text) } " · " } @if let Some(rtt) = base_rtt(run, path) { (rtt) " · " } (traffic) }
    };
    let body = html! {
        @if let Some(series) = series { (time_series(path, series)) }
        @if run.has_series() { (every_run(run, path)) }
        (tail_table(run, path, &findings.tails))
        (metric_table(run, path, &findings.comparisons))
    };
    html! {
        section class="path" id={ "path-" (path) } {
            @if base_rtt(run, path).is_none() {
                (head)
                p { "No run on this path counts; " a href="#cells" { "Runs" } " has the reasons." }
            } @else if run.plan.paths.len() > FEW_PATHS {
                details class="path-body" { summary { (head) } (body) }
            } @else { (head) (body) }
        }
    }
}

/// Charts of what there is to draw; a sentence in the place of a chart of zeros.
fn time_series(path: usize, series: &PathSeries) -> Markup {
    let with = |content: Content| (0..KINDS.len()).filter(move |kind| series.content(*kind) == content);
    html! {
        @if with(Content::Values).next().is_some() {
            div class="time" data-path=(path) data-panel={ "time-series-" (path) } {
                @for kind in with(Content::Values) {
                    @let (label, unit) = KINDS[kind];
                    h4 { (label) span class="quiet" { " " (unit) } }
                    div class="chart" data-kind=(kind) tabindex="0" role="img" aria-label={ (label) " over time; arrow keys move the cursor" } {}
                }
                p class="readout quiet" {}
                noscript { p class="legend-note" { "The time series need JavaScript; everything else on this page does not." } }
            }
            p class="legend-note" { "Line: median over blocks. Band: lowest to highest block. Dotted: payload that the path could carry." span class="screen" { " Drag to zoom, double-click or Esc to zoom out." } }
        }
        @for kind in with(Content::Zeros) { p class="legend-note" { (KINDS[kind].0) ": none in any run, at any time." } }
    }
}

/// One panel for each metric whose runs differ, and a sentence for those that are the same in every run.
fn every_run(run: &Run, path: usize) -> Markup {
    let same: Vec<(usize, f64)> =
        (0..METRICS.len()).filter_map(|m| Some((m, the_same(run, path, m)?))).collect();
    let differs = |m: &usize| !same.iter().any(|(same, _)| same == m);
    html! {
        h3 { "Every run" }
        @let figures: Vec<Markup> = (0..METRICS.len()).filter(differs).filter_map(|m| dots(run, path, m)).collect();
        @if !figures.is_empty() {
            div class="grid" { @for figure in figures { (figure) } }
            p class="legend-note" { "One mark per run, hollow when excluded; the tick is the median of those that count." }
        }
        @if !same.is_empty() {
            p class="legend-note" {
                "The same in every run: "
                @for (i, (m, value)) in same.iter().enumerate() { @if i > 0 { ", " } (meaning::metric(&METRICS[*m])) " " (METRICS[*m].unit.show(*value)) }
                "."
            }
        }
        div class="grid wide" {
            @for (m, _) in METRICS.iter().enumerate().filter(|(m, metric)| metric.is_primary() && differs(m)) { @if let Some(figure) = order(run, path, m) { (figure) } }
            @if let Some(figure) = distribution(run, path) { (figure) }
        }
    }
}

/// The value of a metric that is one and the same in every run of a path.
fn the_same(run: &Run, path: usize, m: usize) -> Option<f64> {
    let value = |c: &RunCell| c.values[m].as_ref().ok().copied();
    let mut values = run.cells.iter().filter(|c| c.cell.path == path).filter_map(value);
    let first = values.next()?;
    values.all(|v| v == first).then_some(first)
}

/// Percentiles over all probes of a path; empty where there are too few blocks for the bootstrap.
fn tail_table(run: &Run, path: usize, tails: &[Tail]) -> Markup {
    let rows: Vec<&Tail> = tails.iter().filter(|t| t.path == path).collect();
    html! {
        @if !rows.is_empty() {
            h3 { "Tails of the queueing delay" }
            table class="small" {
                thead { tr { @for head in ["Controller", "Percentile", "All blocks", "95 % interval", "Improvement", "95 % interval"] { th scope="col" { (head) } } } }
                tbody {
                    @for t in rows {
                        tr data-cc=(t.cc) {
                            th scope="row" { (key(run, &t.cc)) " " (t.cc) } td { (t.name) }
                            @for text in t.texts() { td { (typeset(&text)) } }
                        }
                    }
                }
            }
            p class="legend-note" { (tails::ABOUT) }
        }
    }
}

/// `None` where no run of the path counts.
fn base_rtt(run: &Run, path: usize) -> Option<String> {
    let data = run.plan.labels().find_map(|cc| run.data_of(path, cc).next())?;
    Some(format!("base RTT {:.1} ms", data.result.base_rtt_us as f64 / 1e3))
}

/// Whether the path's text says more than its name does. A path given as text is its own name, and a real path has no
/// text.
pub fn is_described(entry: &PathEntry) -> bool {
    !entry.text.is_empty() && entry.name != entry.text
}

/// All metrics of a path. Those that are not primary have an interval and no verdict.
fn metric_table(run: &Run, path: usize, comparisons: &[Comparison]) -> Markup {
    let of = |m: usize, cc: &str| {
        comparisons.iter().find(|c| c.path == path && c.metric.name == METRICS[m].name && c.candidate == *cc)
    };
    html! {
        details open {
            summary { "All metrics" }
            div class="scroll" tabindex="0" role="region" aria-label="All metrics of this path" {
                table class="metrics" {
                    thead { tr { th scope="col" { "Metric" } @for cc in run.plan.labels() { th scope="col" data-cc=(cc) { (key(run, cc)) " " (cc) } } } }
                    tbody {
                        @for (m, metric) in METRICS.iter().enumerate().filter(|(m, _)| has_value(run, path, *m)) {
                            tr {
                                th scope="row" title=(metric.about) { (meaning::metric(metric)) span class="quiet" { " " (arrow(metric)) } }
                                @for cc in run.plan.labels() {
                                    td data-cc=(cc) { (spread_text(run, path, m, cc)) @if let Some(c) = of(m, cc) { (improvement_line(c)) } }
                                }
                            }
                        }
                    }
                }
            }
            p class="legend-note" {
                "Median [quartiles] over the runs that count. Below it the improvement on " (run.baseline())
                " with its 95 % interval; without a verdict except for the primary metrics."
            }
            @let missing: Vec<usize> = (0..METRICS.len()).filter(|m| was_asked_for(run, path, *m) && !has_value(run, path, *m)).collect();
            @if !missing.is_empty() {
                p class="legend-note" {
                    "No run has a value for: "
                    @for (i, m) in missing.iter().enumerate() { @if i > 0 { "; " } (METRICS[*m].label) " (" (reason(run, path, *m)) ")" }
                    "."
                }
            }
        }
    }
}

/// Whether the metric belongs on this path. It does not where every run says that it was not meant to have it.
pub fn was_asked_for(run: &Run, path: usize, m: usize) -> bool {
    let mut values = run.cells.iter().filter(|c| c.cell.path == path).map(|c| &c.values[m]);
    values.any(|v| !v.as_ref().is_err_and(|reason| reason.starts_with(NOT_ASKED)))
}

fn has_value(run: &Run, path: usize, m: usize) -> bool {
    run.plan.labels().any(|cc| run.spread(path, cc, m).is_some())
}

/// Why the first run that counts has no value of the metric.
fn reason(run: &Run, path: usize, m: usize) -> &str {
    let mut cells = run.cells.iter().filter(|c| c.cell.path == path && c.excluded.is_none());
    cells.find_map(|c| c.values[m].as_ref().err()).map_or("no run counts", |r| r.as_str())
}

fn spread_text(run: &Run, path: usize, m: usize, cc: &str) -> Markup {
    let unit = METRICS[m].unit;
    match run.spread(path, cc, m) {
        Some(s) => {
            html! { (s.show(unit)) span class="quiet" { " [" (number(s.q1 * unit.factor)) "–" (number(s.q3 * unit.factor)) "]" } }
        }
        None => {
            let reason = run.cells_of(path, cc).find_map(|c| c.values[m].as_ref().err());
            html! { span class="quiet missing" { (reason.map_or("–", |r| r.as_str())) } }
        }
    }
}

fn improvement_line(c: &Comparison) -> Markup {
    html! { span class="sub" { (typeset(&c.improvement_text())) @if c.judged.improvement.n >= MIN_BLOCKS { " [" (typeset(&c.interval_text())) "]" } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::index_of;
    use crate::report::synthetic;

    #[test]
    fn a_metric_that_is_the_same_in_every_run_has_a_sentence_in_place_of_a_panel() {
        let folder = synthetic::run("the-same", 1);
        let mut run = Run::read(&folder.dir).unwrap();
        run.cells.iter_mut().for_each(|c| c.values[index_of("retransmit_rate")] = Ok(0.0));
        let html = every_run(&run, 0).into_string();
        let has_panel = |metric: &str| html.contains(&format!("every-run-0-{metric}"));
        assert!(has_panel("goodput_bps") && !has_panel("retransmit_rate"), "{html}");
        assert!(html.contains("The same in every run: "), "{html}");
    }
}
