//! The schedule as a strip, and what was measured in each slot as dots over time.

use super::super::findings::Findings;
use super::super::folder::Trial;
use super::super::outcome::{METRICS, Metric, Outcome};
use super::super::schedule::Kind;
use super::{colour, key};
use crate::report::scale::{Linear, mark, pct};
use maud::{Markup, html};

/// Height of a chart of slots.
const HEIGHT: f64 = 150.0;

pub fn section(trial: &Trial, findings: &Findings) -> Markup {
    let [base, cand] = &trial.setup.arms;
    let judged = METRICS.iter().enumerate().filter(|(_, metric)| metric.margin.is_some());
    html! {
        section id="slots" {
            h2 { "Schedule and slots" }
            p class="lead" {
                (key(0)) " " (base) ", " (key(1)) " " (cand) ". Whole slots are full, half slots have both; slots that were not run are empty. "
                "Hollow marks are those of half slots, whose connections ran side by side."
            }
            div class="plot" { div {} (strip(trial)) }
            @for (index, metric) in judged { @if let Some(chart) = dots(trial, findings, index, metric) { (chart) } }
        }
    }
}

/// Left edge and width of a slot in per cent of the strip.
fn place(trial: &Trial, slot: usize) -> (f64, f64) {
    let width = 96.0 / trial.setup.schedule().len().max(1) as f64;
    (2.0 + width * slot as f64, width)
}

fn strip(trial: &Trial) -> Markup {
    let schedule = trial.setup.schedule();
    let was_run = |slot: usize| trial.slots.iter().any(|row| row.slot as usize == slot);
    html! {
        svg height="30" width="100%" role="img" aria-label="The schedule, a field for each slot" {
            @for (slot, scheduled) in schedule.iter().enumerate() {
                @let (x, width) = place(trial, slot);
                @let run = if was_run(slot) { "1" } else { "0.15" };
                g opacity=(run) {
                    @match scheduled.kind {
                        Kind::Whole(arm) => { (field(x, width, [0.0, 24.0], arm, 1.0)) }
                        Kind::Half => { (field(x, width, [0.0, 12.0], 0, 0.75)) (field(x, width, [12.0, 12.0], 1, 0.75)) }
                        Kind::Canary => { (field(x, width, [0.0, 20.0], 0, 0.75)) (field(x, width, [20.0, 4.0], 1, 0.75)) }
                    }
                }
            }
        }
    }
}

fn field(x: f64, width: f64, [y, height]: [f64; 2], arm: usize, opacity: f64) -> Markup {
    html! { g class=(colour(arm)) { rect x=(pct(x)) width=(pct(width * 0.9)) y=(y) height=(height) class="filled" opacity=(opacity) {} } }
}

/// `None` where no slot has the metric.
fn dots(trial: &Trial, findings: &Findings, index: usize, metric: &Metric) -> Option<Markup> {
    let of = |o: &Outcome| Some(o.values[index]? * metric.unit.factor);
    let scale = Linear::over(findings.outcomes.iter().filter_map(of))?;
    let x = |o: &Outcome| {
        let (left, width) = place(trial, o.slot as usize);
        pct(left + width * 0.45)
    };
    let shown: Vec<(&Outcome, f64)> = findings.outcomes.iter().filter_map(|o| Some((o, of(o)?))).collect();
    let is_pair = |a: &Outcome, b: &Outcome| a.schedule.pair == b.schedule.pair;
    Some(html! {
        figure class="order" {
            figcaption { a class="term" href={ "#metric-" (metric.name) } { (metric.label) } span class="quiet" { " " (metric.unit.word) ", slot by slot →" } }
            div class="plot" {
                (scale.y_axis(HEIGHT))
                svg height=(HEIGHT) width="100%" {
                    @for tick in scale.ticks() { line x1="0" x2="100%" y1=(scale.y(tick, HEIGHT)) y2=(scale.y(tick, HEIGHT)) class="grid" {} }
                    @for two in shown.windows(2) {
                        @if is_pair(two[0].0, two[1].0) { line x1=(x(two[0].0)) x2=(x(two[1].0)) y1=(scale.y(two[0].1, HEIGHT)) y2=(scale.y(two[1].1, HEIGHT)) class="grid" {} }
                    }
                    @for (o, value) in &shown {
                        g class=(colour(o.arm)) { (mark(o.arm, [&x(o), &scale.y(*value, HEIGHT)], o.schedule.kind == Kind::Half, &title(trial, o, metric))) }
                    }
                }
            }
        }
    })
}

fn title(trial: &Trial, o: &Outcome, metric: &Metric) -> String {
    let index = METRICS.iter().position(|m| m.name == metric.name).unwrap_or(0);
    let value = o.values[index].map_or(String::new(), |v| metric.unit.show(v));
    format!("slot {}, {}: {value} over {} connections", o.slot + 1, trial.setup.arms[o.arm], o.connections)
}

#[cfg(test)]
mod tests {
    use super::super::super::setup::{Setup, sample};
    use super::*;

    /// By hand: the strip has 96 of the 100 per cent, and 2 on each side.
    #[test]
    fn slots_lie_side_by_side_over_the_width_of_the_strip() {
        let setup = Setup { slots: 40, ..sample() };
        let trial = Trial { setup, connections: vec![], slots: vec![], ended: None, damage: vec![] };
        assert_eq!([0, 10, 39].map(|slot| place(&trial, slot)), [(2.0, 2.4), (26.0, 2.4), (95.6, 2.4)]);
    }
}
