//! `report.html`, for people: verdicts first, then each path with its charts, then how to read it and how to run it
//! again.
//!
//! It computes nothing: `findings` has the numbers, `chart` draws, `series` holds what the script draws, `shell` is
//! the document around it.

use super::chart::{arrow, distribution, dots, forest, key, order, typeset, verdict_class};
use super::findings::{Comparison, Findings};
use super::run::{Count, NOT_RUN, Run};
use super::shell::{self, verbatim};
use super::tails::{self, Tail};
use super::words::number;
use super::{headline, series};
use crate::metric::{METRICS, NOT_ASKED};
use crate::plan::show::shell_word;
use crate::plan::traffic::{Traffic, is_usual_mtu, pacing_text};
use crate::plan::{PathEntry, Place, Plan};
use crate::stats::{MIN_BLOCKS, Verdict};
use maud::{Markup, html};
use serde_json::Value;

const SCRIPT: &str = concat!(include_str!("vendor/uPlot.iife.min.js"), "\n", include_str!("page.js"));

pub fn html(run: &Run, findings: &Findings) -> String {
    let Findings { comparisons, tails, counts, notes } = findings;
    let primary: Vec<&Comparison> = comparisons.iter().filter(|c| c.metric.is_primary()).collect();
    let body = html! {
        a class="skip" href="#verdicts" { "Skip to the verdicts" }
        (header(run, &primary, notes))
        (controls(run))
        main {
            @if let Some(messages) = headline::messages(run) { (messages) }
            @if !primary.is_empty() { (verdicts(run, &primary)) }
            @for path in 0..run.plan.paths.len() { (path_section(run, path, comparisons, tails)) }
            (cells_section(run, counts))
            (method_section(run))
            (environment_section(run))
        }
        footer { "Made by " code { "headway report" } " from the raw files beside this page. It contains all that it shows and fetches nothing." }
        script type="application/json" id="data" { (verbatim(&series::json(run))) }
        script { (verbatim(SCRIPT)) }
    };
    shell::document(&title(run), &body)
}

fn title(run: &Run) -> String {
    match &run.plan.labels().skip(1).collect::<Vec<_>>()[..] {
        [] => run.baseline().to_string(),
        candidates => format!("{} against {}", in_words(candidates), run.baseline()),
    }
}

fn in_words(names: &[&str]) -> String {
    match names {
        [one] => one.to_string(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
        [] => String::new(),
    }
}

fn header(run: &Run, primary: &[&Comparison], notes: &[String]) -> Markup {
    let plan = &run.plan;
    let one = (0..plan.paths.len()).all(|path| plan.traffic(path).warmup_ms == plan.traffic(0).warmup_ms);
    let facts = [
        ("Where", place_in_words(plan)),
        ("Kernel", run.kernels().join(", ")),
        ("Transport", if plan.transport.is_tcp() { String::new() } else { plan.transport.to_string() }),
        ("Paths", plan.paths.len().to_string()),
        ("Blocks", plan.blocks.to_string()),
        ("Suite", plan.suite.clone()),
        ("Load", format!("{}{}", load_in_words(plan), load_tool(run))),
        (
            "Warm-up left out",
            if one { format!("{} s", plan.traffic(0).warmup_ms as f64 / 1e3) } else { String::new() },
        ),
    ];
    html! {
        header class="top" {
            p class="brand" { "Headway" }
            h1 { (title(run)) }
            @for cc in plan.labels().skip(1) { (tally(run, cc, primary)) }
            dl class="facts" {
                @for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) { div { dt { (name) } dd { (value) } } }
            }
            pre class="command" tabindex="0" aria-label="Command" { code { (command(run)) } }
            @if !notes.is_empty() { ul class="notes" { @for note in notes { li { (note) } } } }
        }
    }
}

/// The traffic in words, or that it differs from path to path.
fn load_in_words(plan: &Plan) -> String {
    let t = plan.traffic(0);
    if (0..plan.paths.len()).any(|path| plan.traffic(path) != t) {
        return "by path".into();
    }
    in_words_of(t)
}

fn in_words_of(t: &Traffic) -> String {
    let streams = if t.streams == 1 { "1 stream".to_string() } else { format!("{} streams", t.streams) };
    let pattern = if t.pattern.is_bulk() { String::new() } else { format!(", {}", t.pattern) };
    let messages = t.messages.map_or(String::new(), |m| format!(", messages {m}"));
    let against = t.against.as_ref().map_or(String::new(), |rival| format!(", against {rival}"));
    let pacing =
        t.pacing_bps.map_or(String::new(), |bps| format!(", paced at {} each", pacing_text(Some(bps))));
    let mtu = if is_usual_mtu(&t.mtu) { String::new() } else { format!(", MTU {}", t.mtu) };
    let direction = if t.direction.is_forward() { "" } else { ", sent by the server" };
    let cpu = match t.cpu_load_percent {
        0 => String::new(),
        percent => format!(", CPUs {percent} % busy"),
    };
    format!("{streams}{pattern}{pacing}{direction}{cpu}{against}{messages}{mtu}, {} s", t.seconds)
}

fn load_tool(run: &Run) -> String {
    let loads = run.cells.iter().filter_map(|c| c.data.as_ref()?.load.as_ref().ok());
    let version = loads.map(|load| &load.version).find(|version| !version.is_empty());
    version.map_or(String::new(), |version| format!(", {version}"))
}

/// How often a candidate got each verdict; those that matter most come first.
fn tally(run: &Run, cc: &str, primary: &[&Comparison]) -> Markup {
    let own: Vec<&&Comparison> = primary.iter().filter(|c| c.candidate == cc).collect();
    let order = [
        Verdict::Better,
        Verdict::Worse,
        Verdict::BetterTrivial,
        Verdict::WorseTrivial,
        Verdict::Equivalent,
        Verdict::Inconclusive,
        Verdict::TooSmall,
    ];
    html! {
        p class="findings" {
            (key(run, cc)) " " b { (cc) } " "
            @for verdict in order {
                @let hits: Vec<_> = own.iter().filter(|c| c.judged.verdict == Some(verdict)).collect();
                @if let Some(first) = hits.first() { span class={ "verdict " (verdict_class(first)) } { (hits.len()) " " (verdict) } " " }
            }
            span class="quiet" { "of " (own.len()) " comparisons" }
        }
    }
}

fn place_in_words(plan: &Plan) -> String {
    match &plan.place {
        Place::Sim => "simulator, virtual time".into(),
        Place::Lab => "lab: real Linux TCP in virtual time".into(),
        Place::Here => "this machine's kernel, emulated path".into(),
        Place::Remote(hosts) => match plan.remote.server.as_str() {
            server if !server.is_empty() && server != hosts => {
                format!("real path to {server}, the nearest of {hosts}")
            }
            _ => format!("real path to {hosts}"),
        },
    }
}

/// The command of the run as `env.json` has it; without one, a command that makes the same run, from the plan.
fn command(run: &Run) -> String {
    run.env["command"].as_str().map_or_else(|| run.plan.command(), str::to_string)
}

fn controls(run: &Run) -> Markup {
    html! {
        nav class="controls" aria-label="Controllers shown" {
            @for cc in run.plan.labels() {
                button type="button" aria-pressed="true" data-toggle=(cc) { (key(run, cc)) " " (cc) @if cc == run.baseline() { span class="quiet" { " baseline" } } }
            }
            // The bar stays in sight while the page scrolls, and a suite has too many paths for it.
            @for (i, path) in run.plan.paths.iter().enumerate().filter(|_| run.plan.suite.is_empty()) { a href={ "#path-" (i) } { (path.name) } }
        }
    }
}

fn verdicts(run: &Run, primary: &[&Comparison]) -> Markup {
    let heads = [
        "Metric",
        "Candidate",
        "Verdict",
        "Baseline",
        "Candidate's",
        "Difference",
        "Improvement",
        "95 % interval",
        "A/A noise",
        "p (Holm)",
        "n",
    ];
    html! {
        section id="verdicts" {
            h2 { "Verdicts" }
            p class="lead" { "Each candidate against " b { (run.baseline()) } ". Medians over blocks; improvement is paired within blocks, and positive is better." }
            table class="verdicts" {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
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
            h3 { "Improvements" }
            (forest(run, primary))
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
            th scope="row" { (c.metric.label) span class="quiet" { " " (arrow(c.metric)) } }
            td data-label="Candidate" class="name" { (key(run, &c.candidate)) " " (c.candidate) }
            td data-label="Verdict" class="name" { span class={ "verdict " (verdict_class(c)) } { (c.judged.verdict.map_or("–", |v| v.word())) } }
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

fn path_section(run: &Run, path: usize, comparisons: &[Comparison], tails: &[Tail]) -> Markup {
    let entry = &run.plan.paths[path];
    html! {
        section class="path" id={ "path-" (path) } {
            h2 { (entry.name) }
            p class="lead" { @if is_described(entry) { code { (entry.text) } " · " } (base_rtt(run, path)) " · " (in_words_of(run.plan.traffic(path))) }
            @if run.has_series() { (time_series(path)) (every_run(run, path)) }
            (tail_table(run, path, tails))
            (metric_table(run, path, comparisons))
        }
    }
}

fn time_series(path: usize) -> Markup {
    let kinds = [
        ("goodput", "Goodput", "Mbit/s"),
        ("delay", "Queueing delay", "ms"),
        ("retransmits", "Retransmits", "packets/s"),
    ];
    html! {
        div class="time" data-path=(path) {
            @for (kind, label, unit) in kinds {
                h4 { (label) span class="quiet" { " " (unit) } }
                div class="chart" data-kind=(kind) tabindex="0" role="img" aria-label={ (label) " over time; arrow keys move the cursor" } {}
            }
            p class="readout quiet" {}
            noscript { p class="legend-note" { "The time series need JavaScript; everything else on this page does not." } }
        }
        p class="legend-note" { "Line: median over blocks. Band: lowest to highest block. Dotted: payload that the path could carry. Drag to zoom, double-click or Esc to zoom out." }
    }
}

fn every_run(run: &Run, path: usize) -> Markup {
    html! {
        h3 { "Every run" }
        div class="grid" { @for m in 0..METRICS.len() { @if let Some(figure) = dots(run, path, m) { (figure) } } }
        p class="legend-note" { "One mark per run, hollow when excluded; the tick is the median of those that count." }
        div class="grid wide" {
            @for (m, _) in METRICS.iter().enumerate().filter(|(_, m)| m.is_primary()) { @if let Some(figure) = order(run, path, m) { (figure) } }
            @if let Some(figure) = distribution(run, path) { (figure) }
        }
    }
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

fn base_rtt(run: &Run, path: usize) -> String {
    let data = run.plan.labels().find_map(|cc| run.data_of(path, cc).next());
    data.map_or("no run counts".into(), |d| format!("base RTT {:.1} ms", d.result.base_rtt_us as f64 / 1e3))
}

/// Whether the path's text says more than its name does. A path given as text is its own name, and a real path has no
/// text.
fn is_described(entry: &PathEntry) -> bool {
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
                        @for (m, metric) in METRICS.iter().enumerate().filter(|(m, _)| was_asked_for(run, path, *m)) {
                            tr {
                                th scope="row" title=(metric.about) { (metric.label) span class="quiet" { " " (arrow(metric)) } }
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
        }
    }
}

/// Whether the metric belongs on this path. It does not where every run says that it was not meant to have it.
fn was_asked_for(run: &Run, path: usize, m: usize) -> bool {
    let mut values = run.cells.iter().filter(|c| c.cell.path == path).map(|c| &c.values[m]);
    values.any(|v| !v.as_ref().is_err_and(|reason| reason.starts_with(NOT_ASKED)))
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

fn cells_section(run: &Run, counts: &[Count]) -> Markup {
    let failed: Vec<_> = run.cells.iter().filter(|c| c.excluded.is_some()).collect();
    html! {
        section id="cells" {
            h2 { "Runs" }
            table class="small" {
                thead { tr { @for head in ["Controller", "Planned", "Attempted", "Ok", "Excluded"] { th scope="col" { (head) } } } }
                tbody {
                    @for c in counts { tr { th scope="row" { (key(run, &c.cc)) " " (c.cc) } td { (c.planned) } td { (c.attempted) } td { (c.ok) } td { (c.excluded) } } }
                }
            }
            @if !failed.is_empty() {
                h3 { "Runs that do not count" }
                div class="scroll" tabindex="0" role="region" aria-label="Runs that do not count" {
                    table class="small reasons" {
                        thead { tr { @for head in ["Cell", "Controller", "Path", "Block", "Reason"] { th scope="col" { (head) } } } }
                        tbody {
                            @for c in failed {
                                tr {
                                    th scope="row" { (format!("{:03}", c.cell.index)) } td { (c.cell.cc) } td { (run.plan.paths[c.cell.path].name) } td { (c.cell.block) }
                                    td class=(if c.status() == NOT_RUN { "reason quiet" } else { "reason" }) { (c.status()) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn method_section(run: &Run) -> Markup {
    html! {
        section id="method" {
            h2 { "How to read this" }
            p {
                "A block holds one run of every controller on every path, in random order and with the same seed per path. The improvement is the "
                "Hodges–Lehmann estimate of the log ratios of candidate and " (run.baseline()) " within blocks; its interval inverts the exact "
                "signed-rank test. " b { "better" } " and " b { "worse" } " hold after Holm's correction over all paths and candidates of a metric; "
                "with " b { "(trivial)" } " the whole interval lies within the margin. " b { "equivalent" } " means that the 90 % interval lies within "
                "the margin (two one-sided tests at 5 %). " b { "A/A noise" } " is what the baseline shows against itself: in 95 of 100 comparisons whose both "
                "sides are drawn from its own runs, the estimate stays within it. " b { "inconclusive" } " means neither: more blocks would tell. Fewer than " (MIN_BLOCKS) " blocks get no verdict."
            }
            dl class="glossary" {
                @for m in METRICS {
                    dt { (m.label) " " code { (m.name) } }
                    dd {
                        (m.about) ". " (if arrow(m) == "↑" { "Higher is better." } else { "Lower is better." })
                        @if let Some(margin) = m.margin {
                            " Primary; margin " (format!("{:.0} %", margin.share * 100.0))
                            @if margin.amount > 0.0 { " or " (m.unit.show(margin.amount)) ", whichever is more" } "."
                        }
                    }
                }
            }
        }
    }
}

fn environment_section(run: &Run) -> Markup {
    let mut rows = Vec::new();
    flatten("", &run.env, &mut rows);
    html! {
        section id="environment" {
            h2 { "Environment, and how to run it again" }
            pre class="command" tabindex="0" aria-label="Command to run it again" { code { (command(run)) "\nheadway report DIR" } }
            @if rows.is_empty() { p class="lead" { "env.json is missing or cannot be read: the environment of this run is not known." } }
            @else {
                details {
                    summary { "Environment (" (rows.len()) " entries)" }
                    dl class="environment" { @for (name, value) in rows { dt { (name) } dd { (value) } } }
                }
            }
        }
    }
}

/// The entries of a JSON value, one row each: objects become dotted names, lists of words one line.
fn flatten(name: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(map) => {
            let below = |key: &str| if name.is_empty() { key.to_string() } else { format!("{name}.{key}") };
            map.iter().for_each(|(key, value)| flatten(&below(key), value, rows));
        }
        Value::String(text) => rows.push((name.into(), text.clone())),
        Value::Array(items) => {
            let word = |v: &Value| v.as_str().map_or_else(|| v.to_string(), shell_word);
            rows.push((name.into(), items.iter().map(word).collect::<Vec<_>>().join(" ")));
        }
        other => rows.push((name.into(), other.to_string())),
    }
}
