//! Whether connections touch each other, for whom and when the effect is how large, and who was left out.

use super::super::answer::LEAST_GROUPS;
use super::super::findings::{Effect, Findings, Part, change_text, interval_text};
use super::super::folder::Trial;
use super::super::schedule::By;
use super::super::text::left_out as kinds;
use super::{Bent, typeset};
use crate::report::judge::{Judgement, Scale};
use crate::report::words::p_equals;
use maud::{Markup, html};

/// The gap between connections side by side beside that between whole slots.
pub fn spill(trial: &Trial, findings: &Findings) -> Markup {
    if trial.setup.by != By::Slot || findings.spill.is_empty() {
        return html! {};
    }
    let effect = |name: &str| findings.effects.iter().find(|e| e.metric.name == name);
    html! {
        section id="spill" {
            h2 { "Do connections touch each other?" }
            p class="lead" {
                "Side by side in half slots, and everybody in whole ones. If the two gaps differ, a connection's figures depend on what the "
                "others use, and a test that gives every second connection the candidate is wrong by that. It takes " (LEAST_GROUPS) " groups of slots to tell."
            }
            div class="forest" {
                @for s in &findings.spill {
                    @if let Some((e, side)) = effect(s.metric.name).and_then(|e| Some((e, e.side_by_side.as_ref()?))) {
                        div class="forest-path" {
                            (s.metric.label) span class="quiet" { ": " (if s.is_found() { "they do" } else { "no sign of it" }) ", " (p_equals(s.p)) ", " (s.groups) " groups" }
                        }
                        (gap_rows(e, side))
                    }
                }
            }
        }
    }
}

fn gap_rows(e: &Effect, side: &Judgement) -> Markup {
    let ends = |j: &Judgement| {
        [j.improvement.low, j.improvement.center, j.improvement.high].map(|x| e.metric.better.sign() * x)
    };
    let scale = Bent::over(ends(side).into_iter().chain(ends(&e.judged)));
    html! {
        @for (name, j) in [("side by side", side), ("everybody", &e.judged)] {
            div class="forest-name" { (name) }
            svg height="26" width="100%" class="v-equivalent" {
                @if j.scale == Scale::Ratio { (scale.bar(ends(j), 0.0, j.improvement.low.is_finite() && j.improvement.high.is_finite())) }
                @else { text x="50%" y="17" text-anchor="middle" class="tick" { "zeros: a difference, no ratio" } }
            }
            div class="forest-value v-equivalent" { (typeset(&change_text(e.metric, j.scale, j.improvement.center))) }
        }
    }
}

/// Effects by hour, distance and size of the network.
pub fn section(findings: &Findings) -> Markup {
    let mut kinds: Vec<&str> = findings.parts.iter().map(|p| p.of).collect();
    kinds.dedup();
    html! {
        @if !kinds.is_empty() {
            section id="parts" {
                h2 { "When, and for whom" }
                p class="lead" { "Changes among a part of the connections, without verdicts: among so many rows one stands out by chance. An interval takes 6 pairs." }
                @for kind in kinds { (table(kind, &findings.parts.iter().filter(|p| p.of == kind).collect::<Vec<_>>())) }
            }
        }
    }
}

fn table(kind: &str, parts: &[&Part]) -> Markup {
    html! {
        h3 { (kind) }
        div class="scroll" {
            table class="small" {
                thead { tr { th scope="col" { (kind) } th scope="col" { "Connections" } @for p in parts.iter().take(2) { th scope="col" { (p.metric.label) } } } }
                tbody {
                    @for rows in parts.chunks(2) {
                        tr { th scope="row" { (rows[0].name) } td { (rows[0].connections) } @for p in rows { td { (change(p)) } } }
                    }
                }
            }
        }
    }
}

fn change(part: &Part) -> Markup {
    html! {
        @if let Some(j) = &part.judged {
            b { (typeset(&change_text(part.metric, j.scale, j.improvement.center))) }
            span class="sub" {
                @let interval = interval_text(part.metric, j);
                @if interval.is_empty() { (j.improvement.n) " pairs" } @else { (typeset(&interval)) }
            }
        } @else { "–" }
    }
}

/// Connections that do not count, and why.
pub fn left_out(trial: &Trial, findings: &Findings) -> Markup {
    let counts = &findings.counts;
    let sum = |of: fn(&super::super::folder::SlotRow) -> u64| {
        trial.slots.iter().map(of).fold(0, u64::saturating_add)
    };
    let kernel = [
        (sum(|s| s.mptcp), "MPTCP connections, which were left alone"),
        (sum(|s| s.no_storage), "that there was no memory to follow"),
        (sum(|s| s.refused), "for which the kernel refused the controller"),
        (sum(|s| s.lost), "whose end found the ring buffer full"),
    ];
    let of_counted = [
        (counts.open, "were still open at the end, and count with what they had done"),
        (counts.not_as_set, "had another controller at their end than they were given"),
        (counts.small, "sent too little for a goodput"),
        (counts.without_rtt, "had no round-trip time"),
    ];
    let row = |n: u64, why: &str| html! { tr { th scope="row" class="reason" { (why) } td { (n) } } };
    html! {
        section id="left-out" {
            h2 { "Who counts" }
            table class="small" {
                thead { tr { th scope="col" { "Left out" } th scope="col" { "Connections" } } }
                tbody {
                    @for (n, why) in kinds(counts) { (row(n as u64, why)) }
                    @for (n, why) in kernel { (row(n, why)) }
                }
                thead { tr { th scope="col" { "Of the " (counts.counted[0] + counts.counted[1]) " that count" } th scope="col" {} } }
                tbody { @for (n, why) in of_counted { (row(n as u64, why)) } }
            }
            p class="legend-note" { "Bytes of the other controller in whole slots, by connections from before: " (format!("{:.1} %", findings.foreign_share * 100.0)) "." }
        }
    }
}
