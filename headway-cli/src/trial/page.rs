//! The page of a trial: the answer first, then the verdicts, the schedule with what was measured in each slot, whether connections
//! touch each other, for whom and when the effect is how large, and who was left out.
//!
//! Style sheet, scales and the policy that forbids the page to fetch anything are those of the bench's page. There is no script, and no
//! address of anybody: networks are counted and not named.

mod parts;
mod slots;

use super::answer;
use super::findings::{Effect, Findings, bare_change, change_text, interval_text, size_text};
use super::folder::Trial;
use super::foretell::length;
use super::outcome::METRICS;
use crate::report::scale::{self, mark, pct};
use crate::report::shell;
use crate::report::words::p_value;
use crate::stats::{MIN_BLOCKS, Verdict};
use maud::{Markup, html};

/// The class that gives a controller its colour.
fn colour(arm: usize) -> &'static str {
    ["c0", "c1"][arm.min(1)]
}

/// A controller's mark.
fn key(arm: usize) -> Markup {
    html! { svg class={ "key " (colour(arm)) } width="12" height="12" aria-hidden="true" { (mark(arm, ["50%", "50%"], false, "")) } }
}

/// Text of the terminal with the minus signs that a page should have, also within brackets.
fn typeset(text: &str) -> String {
    scale::typeset(&text.replace("[-", "[−").replace("(-", "(−"))
}

pub fn html(trial: &Trial, findings: &Findings) -> String {
    let body = html! {
        a class="skip" href="#verdicts" { "Skip to the verdicts" }
        (header(trial, findings))
        main {
            (verdicts(trial, findings))
            (slots::section(trial, findings))
            (parts::spill(trial, findings))
            (parts::section(findings))
            (parts::left_out(trial, findings))
            (meaning(trial))
        }
        footer { "Made by " code { "headway report" } " from the raw files beside this page. It contains all that it shows, fetches nothing, and names no address." }
    };
    shell::document(&title(trial), &body)
}

fn title(trial: &Trial) -> String {
    let [base, cand] = &trial.setup.arms;
    if trial.setup.is_rehearsal() {
        format!("{base} against itself")
    } else {
        format!("{cand} against {base}")
    }
}

fn header(trial: &Trial, findings: &Findings) -> Markup {
    let setup = &trial.setup;
    let counted = findings.counts.counted;
    let facts = [
        ("Connections", setup.scope.in_words()),
        (
            "Slots",
            format!("{} of {}, {} each", trial.slots.len(), setup.schedule().len(), length(setup.slot_ms)),
        ),
        ("Burn-in", length(setup.burn_in_ms)),
        ("Counted", format!("{} + {} connections", counted[0], counted[1])),
        ("Networks", findings.networks.to_string()),
        ("Seed", setup.seed.to_string()),
    ];
    html! {
        header class="top" {
            p class="brand" { "Headway · trial" }
            h1 { (title(trial)) }
            p class="lead" { @if setup.is_simulated() { "In " (setup.place) "." } @else { "On this machine's own traffic: " (setup.place) "." } }
            div class="answer" { @for sentence in answer::sentences(trial, findings) { p { (typeset(&sentence)) } } }
            @if !trial.damage.is_empty() { ul class="notes" { @for note in &trial.damage { li { (note) } } } }
            dl class="facts" { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
        }
    }
}

const HEADS: [&str; 9] = [
    "Metric",
    "Verdict",
    "Baseline",
    "Candidate’s",
    "Change",
    "95 % interval",
    "A/A noise",
    "p (coin)",
    "Pairs",
];

fn verdicts(trial: &Trial, findings: &Findings) -> Markup {
    let [base, cand] = &trial.setup.arms;
    html! {
        section id="verdicts" {
            h2 { "Verdicts" }
            p class="lead" { (key(1)) " " b { (cand) } " against " (key(0)) " " b { (base) } ". One value for each slot; slots are compared within their pair." }
            @if findings.effects.is_empty() { p { "There is no complete pair of slots yet." } }
            @else {
                div class="scroll" {
                    table class="verdicts pairs" {
                        thead { tr { @for head in HEADS { th scope="col" { (head) } } } }
                        tbody { @for effect in &findings.effects { (verdict_row(effect)) } }
                    }
                }
                h3 { "Changes" }
                (forest(&findings.effects))
            }
        }
    }
}

fn verdict_row(e: &Effect) -> Markup {
    let (j, unit) = (&e.judged, e.metric.unit);
    let noise = j.noise.map_or("-".into(), |n| format!("±{}", size_text(e.metric, j.scale, n)));
    let p = match e.p_coin {
        _ if j.improvement.n < MIN_BLOCKS => "-".into(),
        p => p_value(p),
    };
    let cells = [
        (HEADS[2], j.baseline_spread.show(unit)),
        (HEADS[3], j.candidate_spread.show(unit)),
        (HEADS[4], change_text(e.metric, j.scale, j.improvement.center)),
        (HEADS[5], interval_text(e.metric, j)),
        (HEADS[6], noise),
        (HEADS[7], p),
        (HEADS[8], j.improvement.n.to_string()),
    ];
    html! {
        tr {
            th scope="row" { a class="term" href={ "#metric-" (e.metric.name) } { (e.metric.label) } }
            td data-label="Verdict" class="name" { @if let Some(v) = j.verdict { (verdict(v)) } @else { "–" } }
            @for (head, text) in cells {
                td data-label=(head) { @if text.is_empty() { "–" } @else if head == HEADS[4] { b { (typeset(&text)) } } @else { (typeset(&text)) } }
            }
        }
    }
}

fn verdict_class(verdict: Option<Verdict>) -> String {
    format!("v-{}", verdict.map_or("none", Verdict::word).replace([' ', '(', ')'], ""))
}

fn verdict(verdict: Verdict) -> Markup {
    html! { a class={ "verdict " (verdict_class(Some(verdict))) } href={ "#verdict-" (verdict_class(Some(verdict))) } { (verdict) } }
}

/// A change as a share, on a scale that is linear near 0 and bent beyond.
struct Bent {
    widest: f64,
}

impl Bent {
    /// Covers the finite ones of these shares.
    fn over(shares: impl Iterator<Item = f64>) -> Self {
        let widest = shares.filter(|s| s.is_finite()).fold(0.06, |w: f64, s| w.max(s.abs()));
        Self { widest: (widest * 1.1).min(10.0) }
    }

    fn x(&self, share: f64) -> String {
        let bent = |x: f64| (x / 0.03).asinh();
        pct(50.0 + 49.0 * (bent(share) / bent(self.widest)).clamp(-1.0, 1.0))
    }

    /// An interval with its estimate, on a ground that marks zero.
    fn bar(&self, [low, center, high]: [f64; 3], margin: f64, has_interval: bool) -> Markup {
        let middle = |x: &str| x.trim_end_matches('%').parse::<f64>().unwrap_or(50.0);
        let width = |a: f64, b: f64| pct((middle(&self.x(b)) - middle(&self.x(a))).abs());
        html! {
            rect x=(self.x(-margin)) width=(width(-margin, margin)) y="0" height="26" class="margin" {}
            line x1="50%" x2="50%" y1="0" y2="26" class="zero" {}
            @if has_interval { line x1=(self.x(low)) x2=(self.x(high)) y1="13" y2="13" class="interval" {} }
            circle cx=(self.x(center)) cy="13" r="4.5" class=(if has_interval { "estimate" } else { "estimate hollow" }) {}
        }
    }
}

/// Changes with their intervals, where they are ratios.
fn forest(effects: &[Effect]) -> Markup {
    let ends = |e: &Effect| {
        let s = &e.judged.improvement;
        [s.low, s.center, s.high].map(|end| e.metric.better.sign() * end)
    };
    let is_ratio = |e: &&Effect| e.judged.scale == crate::report::judge::Scale::Ratio;
    let shown: Vec<&Effect> = effects.iter().filter(is_ratio).collect();
    let scale = Bent::over(shown.iter().flat_map(|e| ends(e)));
    html! {
        div class="forest" role="img" aria-label="Change of each metric with its 95 % interval; the table above has the numbers" {
            @for e in &shown {
                @let class = verdict_class(e.judged.verdict);
                div class="forest-name" { (e.metric.label) span class="quiet" { (if e.metric.better.sign() > 0.0 { " ↑" } else { " ↓" }) } }
                svg height="26" width="100%" class=(class) {
                    (scale.bar(ends(e), e.judged.margin.unwrap_or(0.0), e.judged.improvement.low.is_finite() && e.judged.improvement.high.is_finite()))
                }
                div class={ "forest-value " (class) } { (typeset(&bare_change(e.metric, e.judged.scale, e.judged.improvement.center))) " %" }
            }
        }
        p class="legend-note" {
            "← less · more →  Dot: estimate. Bar: 95 % interval. Grey field: changes too small to matter. The scale is linear near 0 and "
            "logarithmic beyond. An arrow says which way is good."
        }
    }
}

fn meaning(trial: &Trial) -> Markup {
    let look = "While a trial runs, or after it was ended early, the interval is one that holds at every look and is wider for that.";
    let terms = [
        ("Slot", format!("A time of {} in which new connections get the controller that the schedule says. A connection counts for the slot it began in.", length(trial.setup.slot_ms))),
        ("Pair", "Two slots beside each other, one with each controller, in an order that a coin decided. So the hour weighs on both alike.".into()),
        ("Change", "How much more or less of the metric there is with the candidate: the Hodges–Lehmann estimate over the pairs.".into()),
        ("95 % interval", format!("The changes that the slots do not contradict. {look}")),
        ("A/A noise", "What the coin alone shows: in 95 of 100 orders of the slots, without an effect, the estimate stays within it.".into()),
        ("p (coin)", "The share of all orders that the coin could have given in which the mean difference is as large as it was.".into()),
        ("Half slot", "New connections get either controller, side by side. If their gap is not that of whole slots, connections touch each other.".into()),
    ];
    html! {
        section id="meaning" {
            h2 { "What the figures mean" }
            dl class="glossary" {
                @for (name, text) in terms { dt { (name) } dd { (text) } }
                @for v in Verdict::ALL { dt id={ "verdict-" (verdict_class(Some(v))) } { span class={ "verdict " (verdict_class(Some(v))) } { (v) } } dd { (v.claim().replace("blocks", "pairs")) } }
            }
            h3 { "Metrics" }
            dl class="glossary" {
                @for m in &METRICS {
                    dt id={ "metric-" (m.name) } { (m.label) " " code { (m.name) } }
                    dd { (m.about) "." @if let Some(margin) = m.margin { " It gets a verdict; margin: " (format!("{:.0} %", margin.share * 100.0)) @if margin.amount > 0.0 { " or " (m.unit.show(margin.amount)) ", whichever is more" } "." } }
                }
            }
        }
    }
}
