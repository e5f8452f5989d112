//! The one picture at the head of the page: how much each controller carries, and how long it makes others wait.
//!
//! For a few paths it is a bar for each controller and path, from zero and with its value beside it; for many, a dot
//! for each path at the ratio of candidate and baseline. Nothing has to be looked up in a legend.

use super::{FEW_PATHS, meaning};
use crate::metric::{METRICS, Metric, index_of};
use crate::report::chart::{self, colour, key, ratios};
use crate::report::findings::{Comparison, Findings};
use crate::report::judge::Scale;
use crate::report::run::Run;
use maud::{Markup, html};

/// `None` where no run counts, or where many paths have nothing to compare.
pub fn picture(run: &Run, findings: &Findings) -> Option<Markup> {
    if run.plan.paths.len() > FEW_PATHS { many(run, findings) } else { few(run, findings) }
}

/// The metric of delay that a path's users feel: that of the messages where there are any.
fn delay_of(run: &Run, path: usize) -> usize {
    let messages = run.plan.traffic(path).messages.is_some();
    index_of(if messages { "message_delay_p99_us" } else { "queue_delay_p95_us" })
}

fn few(run: &Run, findings: &Findings) -> Option<Markup> {
    let goodput = index_of("goodput_bps");
    let has = |path: &usize| {
        run.plan
            .labels()
            .any(|cc| [goodput, delay_of(run, *path)].iter().any(|m| run.spread(*path, cc, *m).is_some()))
    };
    let paths: Vec<usize> = (0..run.plan.paths.len()).filter(has).collect();
    (!paths.is_empty()).then(|| html! {
        figure class="picture" data-panel="picture" {
            @for path in paths {
                div class="picture-path" {
                    b { (run.plan.paths[path].name) }
                    @for m in [goodput, delay_of(run, path)] { div class="picture-head" { (meaning::metric(&METRICS[m])) span class="quiet" { " " (good(&METRICS[m])) } } }
                }
                @for cc in run.plan.labels() {
                    div class={ "picture-row " (colour(run, cc)) } data-cc=(cc) {
                        div class="picture-name" { (key(run, cc)) " " (cc) }
                        @for m in [goodput, delay_of(run, path)] { (bar(run, findings, path, cc, m)) }
                    }
                }
            }
            p class="legend-note" {
                "Medians over the runs that count. Every bar begins at 0; each path has scales of its own."
                @if run.plan.ccs.len() > 1 { " Verdicts are against " (run.baseline()) "." }
            }
        }
    })
}

/// One bar with its value and its verdict.
fn bar(run: &Run, findings: &Findings, path: usize, cc: &str, m: usize) -> Markup {
    let spread = run.spread(path, cc, m);
    let highest =
        run.plan.labels().filter_map(|cc| run.spread(path, cc, m)).map(|s| s.median).fold(0.0, f64::max);
    let is_this = |c: &&Comparison| c.path == path && c.candidate == cc && c.metric.name == METRICS[m].name;
    let verdict = findings.comparisons.iter().find(is_this).and_then(|c| c.judged.verdict);
    html! {
        div class="bar" {
            svg height="16" width="100%" aria-hidden="true" {
                rect width="100%" height="16" class="track" {}
                @if let Some(s) = spread { rect width=(chart::share(s.median, highest)) height="16" class="filled" {} }
            }
            span class="bar-value" {
                @match spread {
                    Some(s) => { b { (s.show(METRICS[m].unit)) } }
                    None => { span class="quiet" { "no value" } }
                }
                @if let Some(v) = verdict { " " (meaning::verdict(v, v.word())) }
            }
        }
    }
}

fn good(metric: &Metric) -> &'static str {
    if chart::arrow(metric) == "↑" { "more is better" } else { "less is better" }
}

fn many(run: &Run, findings: &Findings) -> Option<Markup> {
    let delay = delay_of_all(run, findings);
    let of = |name: &str, cc: &str| -> Vec<(&str, f64)> {
        let own = findings.comparisons.iter().filter(|c| c.metric.name == name && c.candidate == cc);
        own.filter_map(|c| Some((&*run.plan.paths[c.path].name, ratio(c)?))).collect()
    };
    let mean = |metric: &Metric, cc: &str| {
        findings.answer.means.iter().find(|mean| mean.metric.name == metric.name && mean.candidate == cc)
    };
    let columns: Vec<(&Metric, chart::Ratios)> = ["goodput_bps", delay]
        .into_iter()
        .filter_map(|name| {
            let all: Vec<f64> =
                run.plan.labels().skip(1).flat_map(|cc| of(name, cc)).map(|(_, r)| r).collect();
            Some((&METRICS[index_of(name)], chart::Ratios::over(&all)?))
        })
        .collect();
    (!columns.is_empty()).then(|| html! {
        figure class="picture" data-panel="picture" {
            div class="picture-path" {
                b { "Compared with " (run.baseline()) }
                @for (metric, _) in &columns { div class="picture-head" { (meaning::metric(metric)) span class="quiet" { " " (good(metric)) } } }
            }
            @for cc in run.plan.labels().skip(1) {
                div class={ "picture-row " (colour(run, cc)) } data-cc=(cc) {
                    div class="picture-name" { (key(run, cc)) " " (cc) }
                    @for (metric, scale) in &columns { (ratios(&of(metric.name, cc), mean(metric, cc), scale)) }
                }
            }
            div class="picture-row" { div class="picture-name" {} @for (_, scale) in &columns { (scale.axis()) } }
            p class="legend-note" {
                "One dot for each of " (run.plan.paths.len()) " paths: the candidate's value divided by " (run.baseline()) "'s, so ×1 is the same; "
                "a hollow one lies beyond the edge. "
                "The tick is the geometric mean over the paths, with its 95 % interval."
            }
        }
    })
}

/// The delay that most paths are about: that of messages where every path has them, that after a drop of the rate where
/// half of the paths have one.
fn delay_of_all(run: &Run, findings: &Findings) -> &'static str {
    let paths = run.plan.paths.len();
    let dropped = "queue_delay_p99_after_drop_us";
    let drops = findings.comparisons.iter().filter(|c| c.metric.name == dropped).count();
    match () {
        () if (0..paths).all(|path| run.plan.traffic(path).messages.is_some()) => "message_delay_p99_us",
        () if 2 * drops >= paths * (run.plan.ccs.len() - 1) => dropped,
        () => "queue_delay_p95_us",
    }
}

/// Candidate over baseline; `None` where zeros allow no ratio.
fn ratio(c: &Comparison) -> Option<f64> {
    (c.judged.scale == Scale::Ratio).then(|| 1.0 + c.metric.better.sign() * c.judged.improvement.center)
}
