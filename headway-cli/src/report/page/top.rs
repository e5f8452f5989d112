//! The head of the page: title, the user's note, the answer, one picture, and the facts of the run; below it the bar that
//! hides controllers.

use super::{FEW_PATHS, front, meaning, picture};
use crate::plan::traffic::{Traffic, is_usual_mtu, pacing_text, stagger_text};
use crate::plan::{Draws, Place, Plan};
use crate::report::chart::{key, typeset};
use crate::report::findings::{Comparison, Findings};
use crate::report::run::Run;
use crate::stats::Verdict;
use maud::{Markup, html};

/// The user's title, or which controllers are compared.
pub fn title(run: &Run) -> String {
    if run.about.title.is_empty() { compared(run) } else { run.about.title.clone() }
}

fn compared(run: &Run) -> String {
    if run.plan.draws.is_some() {
        return front::heading(run);
    }
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

/// What a reader in a hurry sees, in the order of importance.
pub fn header(run: &Run, findings: &Findings, primary: &[&Comparison]) -> Markup {
    let about = &run.about;
    html! {
        header class="top" {
            p class="brand" { "Headway" @if let Some(day) = day(&about.begun) { " · " time datetime=(about.begun) { (day) } } }
            h1 { (title(run)) }
            @if !about.title.is_empty() { p class="lead" { (compared(run)) } }
            @if !about.note.is_empty() { p class="note" { (about.note) } }
            div class="answer" { @for sentence in &findings.answer.sentences { p { (typeset(sentence)) } } }
            @if run.plan.draws.is_none() { @for cc in run.plan.labels().skip(1) { (tally(run, cc, primary)) } }
            @if !findings.notes.is_empty() { ul class="notes" { @for note in &findings.notes { li { (note) } } } }
            @if run.plan.draws.is_none() { @if let Some(picture) = picture::picture(run, findings) { (picture) } }
            @if let Some(found) = &findings.front { (front::picture(run, found)) }
            (facts(run))
        }
    }
}

/// The day and minute of an RFC 3339 time in UTC, as people read it.
fn day(begun: &str) -> Option<String> {
    let (day, time) = begun.split_once('T')?;
    Some(format!("{day} {} UTC", time.get(..5)?))
}

fn facts(run: &Run) -> Markup {
    let plan = &run.plan;
    let one = (0..plan.paths.len()).all(|path| plan.traffic(path).warmup_ms == plan.traffic(0).warmup_ms);
    let facts = [
        ("Where", place_in_words(plan)),
        ("Kernel", run.kernels().join(", ")),
        ("Transport", if plan.transport.is_tcp() { String::new() } else { plan.transport.to_string() }),
        ("Drawn from", plan.draws.iter().flat_map(Draws::ranged).collect::<Vec<_>>().join(", ")),
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
        dl class="facts" {
            @for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) { div { dt { (name) } dd { (value) } } }
            div { dt { "Command" } dd { a href="#environment" { "how to run it again" } } }
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

pub fn in_words_of(t: &Traffic) -> String {
    let streams = if t.streams == 1 { "1 stream".to_string() } else { format!("{} streams", t.streams) };
    let host_load = t.host_load.map_or(String::new(), |load| format!(", {load}"));
    let pattern = if t.pattern.is_bulk() { String::new() } else { format!(", {}", t.pattern) };
    let stagger = match t.stagger_ms {
        0 => String::new(),
        ms => format!(", which begin {} apart", stagger_text(ms)),
    };
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
    format!(
        "{streams}{host_load}{pattern}{pacing}{direction}{cpu}{against}{stagger}{messages}{mtu}, {} s",
        t.seconds
    )
}

fn load_tool(run: &Run) -> String {
    let loads = run.cells.iter().filter_map(|c| c.data.as_ref()?.load.as_ref().ok());
    let version = loads.map(|load| &load.version).find(|version| !version.is_empty());
    version.map_or(String::new(), |version| format!(", {version}"))
}

/// How often a candidate got each verdict; those that matter most come first.
fn tally(run: &Run, cc: &str, primary: &[&Comparison]) -> Markup {
    let own: Vec<&&Comparison> = primary.iter().filter(|c| c.candidate == cc).collect();
    html! {
        p class="findings" {
            (key(run, cc)) " " b { (cc) } " "
            @for verdict in Verdict::ALL {
                @let hits: Vec<_> = own.iter().filter(|c| c.judged.verdict == Some(verdict)).collect();
                @if !hits.is_empty() { (meaning::verdict(verdict, &format!("{} {verdict}", hits.len()))) " " }
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
pub fn command(run: &Run) -> String {
    run.env["command"].as_str().map_or_else(|| run.plan.command(), str::to_string)
}

pub fn controls(run: &Run) -> Markup {
    html! {
        // Names of drawn candidates are so long that a bar which stayed in sight would hide the page.
        nav class={ "controls" @if run.plan.draws.is_some() { " still" } } aria-label="Controllers shown" {
            @for cc in run.plan.labels() {
                button type="button" aria-pressed="true" data-toggle=(cc) { (key(run, cc)) " " (cc) @if cc == run.baseline() { span class="quiet" { " baseline" } } }
            }
            // The bar stays in sight while the page scrolls, which many paths leave no room for.
            @for (i, path) in run.plan.paths.iter().enumerate().filter(|_| run.plan.paths.len() <= FEW_PATHS) { a href={ "#path-" (i) } { (path.name) } }
        }
    }
}
