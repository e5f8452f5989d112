//! Charts as inline SVG: forest plot, dots of every run, order of the runs, distribution of the probes.
//!
//! They need no script. Horizontal positions are percentages and heights are pixels, so a chart follows the width of
//! its column without scaling its text. Colours are classes (`c0` and so on for controllers), because the style sheet
//! has a light and a dark set. `page` places them.

use super::findings::Comparison;
use super::judge::Scale;
use super::mean::Mean;
use super::run::{Run, RunCell};
pub use super::scale::typeset;
use super::scale::{self, Linear, grid_line, pct};
use crate::metric::{METRICS, Metric};
use crate::stats::{self, MIN_BLOCKS};
use maud::{Markup, html};

/// As many colours as can be told apart; more controllers share them, and differ by the shape of their mark.
const COLOURS: usize = 6;

/// The class that gives a controller its colour.
pub fn colour(run: &Run, cc: &str) -> String {
    format!("c{}", index_of(run, cc) % COLOURS)
}

fn index_of(run: &Run, cc: &str) -> usize {
    run.plan.labels().position(|c| c == cc).unwrap_or(0)
}

/// A controller's mark. It differs in colour and in shape, so that a reader who sees no colours can tell two apart.
pub fn key(run: &Run, cc: &str) -> Markup {
    html! { svg class={ "key " (colour(run, cc)) } width="12" height="12" aria-hidden="true" { (mark(run, cc, "50%", "50%", false, "")) } }
}

fn mark(run: &Run, cc: &str, x: &str, y: &str, hollow: bool, title: &str) -> Markup {
    scale::mark(index_of(run, cc), [x, y], hollow, title)
}

/// A controller's mark at a place of a chart.
pub fn mark_at(run: &Run, cc: &str, [x, y]: [&str; 2], hollow: bool) -> Markup {
    mark(run, cc, x, y, hollow, "")
}

/// Improvements with their intervals, one row a comparison, on a scale that shows 1 % and 500 % in one chart.
pub fn forest(run: &Run, comparisons: &[&Comparison]) -> Markup {
    let ratios = comparisons.iter().filter(|c| c.judged.scale == Scale::Ratio);
    let bounds = ratios
        .flat_map(|c| [c.judged.improvement.low, c.judged.improvement.high, c.judged.improvement.center]);
    let widest = bounds.filter(|b| b.is_finite()).fold(0.06, |w: f64, b| w.max(b.abs()));
    let scale = Forest { widest: (widest * 1.1).min(10.0) };
    html! {
        div class="forest" role="img" aria-label="Improvement of each candidate with its 95 % interval; the table above has the numbers" {
            @for (path, entry) in run.plan.paths.iter().enumerate() {
                @let rows = comparisons.iter().filter(|c| c.path == path);
                @if rows.clone().next().is_some() { div class="forest-path" { (entry.name) } }
                @for c in rows { (forest_row(run, c, &scale)) }
            }
            div {} (scale.axis()) div {}
        }
        p class="legend-note" {
            "← worse · better →  Dot: estimate. Bar: 95 % interval. Grey field: differences too small to matter. "
            "The scale is linear near 0 and logarithmic beyond."
        }
    }
}

/// The scale of the forest plot: linear near 0, logarithmic beyond, symmetric.
struct Forest {
    /// The improvement, as a share, at both edges.
    widest: f64,
}

impl Forest {
    fn percent(&self, share: f64) -> f64 {
        let bent = |x: f64| (x / 0.03).asinh();
        50.0 + 49.0 * (bent(share) / bent(self.widest)).clamp(-1.0, 1.0)
    }

    /// Ticks from the edge inwards, as many as have room for their texts on a telephone.
    fn ticks(&self) -> Vec<f64> {
        let steps = [10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02];
        let mut inside: Vec<f64> = Vec::new();
        for step in steps.into_iter().filter(|t| *t <= self.widest) {
            let room = inside.last().map_or(100.0, |last| self.percent(*last) - self.percent(step));
            if room >= 15.0 && self.percent(step) >= 63.0 {
                inside.push(step);
            }
        }
        inside.iter().map(|t| -t).chain([0.0]).chain(inside.iter().rev().copied()).collect()
    }

    fn axis(&self) -> Markup {
        html! {
            svg height="20" width="100%" {
                @for tick in self.ticks() {
                    text x=(pct(self.percent(tick))) y="14" text-anchor="middle" class="tick" {
                        (typeset(&format!("{:+} %", (tick * 100.0).round()).replace("+0 ", "0 ")))
                    }
                }
            }
        }
    }
}

fn forest_row(run: &Run, c: &Comparison, scale: &Forest) -> Markup {
    html! {
        div class="forest-name" data-cc=(c.candidate) { (key(run, &c.candidate)) " " (c.candidate) " " (caption(c.metric)) }
        svg height="26" width="100%" data-cc=(c.candidate) class=(verdict_class(c)) {
            @if c.judged.scale == Scale::Ratio { (forest_bar(c, scale)) }
            @else { text x="50%" y="17" text-anchor="middle" class="tick" { "zeros: a difference, no ratio" } }
        }
        div class={ "forest-value " (verdict_class(c)) } data-cc=(c.candidate) { (typeset(&c.improvement_text())) }
    }
}

fn forest_bar(c: &Comparison, scale: &Forest) -> Markup {
    let s = &c.judged.improvement;
    let (x, margin) = (|share| pct(scale.percent(share)), c.judged.margin.unwrap_or(0.0));
    html! {
        rect x=(x(-margin)) width=(pct(scale.percent(margin) - scale.percent(-margin))) y="0" height="26" class="margin" {}
        @for tick in scale.ticks() { line x1=(x(tick)) x2=(x(tick)) y1="0" y2="26" class=(if tick == 0.0 { "zero" } else { "grid" }) {} }
        @if s.n >= MIN_BLOCKS { line x1=(x(s.low)) x2=(x(s.high)) y1="13" y2="13" class="interval" {} }
        circle cx=(x(s.center)) cy="13" r="4.5" class=(if s.n >= MIN_BLOCKS { "estimate" } else { "estimate hollow" }) {}
        @if s.n >= MIN_BLOCKS && s.low < -scale.widest { text x="0" y="17" class="beyond" { "◂" } }
        @if s.n >= MIN_BLOCKS && s.high > scale.widest { text x="100%" y="17" text-anchor="end" class="beyond" { "▸" } }
    }
}

/// Class that gives a verdict its colour. Only `better` is green.
pub fn verdict_class(c: &Comparison) -> String {
    let word = c.judged.verdict.map_or("none", |v| v.word());
    format!("v-{}", word.replace([' ', '(', ')'], ""))
}

/// A bar's width in a plot whose full width is `highest`.
pub fn share(value: f64, highest: f64) -> String {
    pct(if highest > 0.0 { 100.0 * value / highest } else { 0.0 })
}

/// A logarithmic scale of ratios, symmetric around ×1.
pub struct Ratios {
    /// The ratio at the right edge; its inverse is at the left.
    widest: f64,
}

impl Ratios {
    /// Covers all ratios but the farthest twentieth, which stand at the edge: one path that differs tenfold would leave
    /// no room to tell the others apart. `None` without any.
    pub fn over(ratios: &[f64]) -> Option<Self> {
        let mut widths: Vec<f64> = ratios.iter().map(|r| r.max(1e-9).ln().abs()).collect();
        widths.sort_by(f64::total_cmp);
        let widest = widths.get(widths.len().checked_sub(1)? * 19 / 20)?;
        Some(Self { widest: (widest * 1.15).clamp(1.25f64.ln(), 16f64.ln()).exp() })
    }

    fn is_beyond(&self, ratio: f64) -> bool {
        ratio.max(1e-9).ln().abs() > self.widest.ln()
    }

    fn x(&self, ratio: f64) -> String {
        pct(50.0 + 46.0 * (ratio.max(1e-9).ln() / self.widest.ln()).clamp(-1.0, 1.0))
    }

    /// ×1 in the middle and at most two on each side.
    fn ticks(&self) -> Vec<f64> {
        let steps: &[f64] = match self.widest {
            w if w >= 9.0 => &[3.0, 9.0],
            w if w >= 4.0 => &[2.0, 4.0],
            w if w >= 2.0 => &[1.4, 2.0],
            _ => &[1.1, 1.2],
        };
        steps.iter().rev().map(|s| 1.0 / s).chain([1.0]).chain(steps.iter().copied()).collect()
    }

    /// The texts between ×1 and the ends are left out where a telephone has no room for them.
    pub fn axis(&self) -> Markup {
        html! {
            svg height="18" width="100%" {
                @for (i, tick) in self.ticks().into_iter().enumerate() {
                    text x=(self.x(tick)) y="13" text-anchor="middle" class=(if i % 2 == 1 { "tick inner" } else { "tick" }) { (times(tick)) }
                }
            }
        }
    }
}

/// `×0.38`, without zeros at its end.
fn times(ratio: f64) -> String {
    let text = if ratio >= 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.2}") };
    format!("×{}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The ratio on each path as a dot, and the geometric mean over the paths as a tick with its value and its interval.
pub fn ratios(of_paths: &[(&str, f64)], mean: Option<&Mean>, scale: &Ratios) -> Markup {
    html! {
        svg height="42" width="100%" {
            @for tick in scale.ticks() { line x1=(scale.x(tick)) x2=(scale.x(tick)) y1="16" y2="42" class=(if tick == 1.0 { "zero" } else { "grid" }) {} }
            @for (i, (name, ratio)) in of_paths.iter().enumerate() {
                circle cx=(scale.x(*ratio)) cy=(23 + (i * 7 % 5) * 3) r="3" class=(if scale.is_beyond(*ratio) { "one-path hollow" } else { "one-path" }) { title { (name) ": " (times(*ratio)) } }
            }
            @if let Some(mean) = mean {
                @let x = scale.x(mean.ratio);
                @if let Some((low, high)) = mean.interval { line x1=(scale.x(low)) x2=(scale.x(high)) y1="29" y2="29" class="mean-interval" {} }
                line x1=(x) x2=(x) y1="16" y2="42" class="median" {}
                text x=(x) y="12" text-anchor="middle" class="mean" { "×" (mean.ratio_text()) @if mean.interval.is_some() { tspan class="mean-range" { " [" (typeset(&mean.interval_text())) "]" } } }
            }
        }
    }
}

/// Every run of one metric on one path, one strip a controller; excluded runs are hollow. `None` when no run has a
/// value.
pub fn dots(run: &Run, path: usize, index: usize) -> Option<Markup> {
    let metric = &METRICS[index];
    let cells = run.cells.iter().filter(|c| c.cell.path == path);
    let values: Vec<f64> = cells.filter_map(|c| value(c, index)).collect();
    let scale = Linear::over(values.iter().map(|v| v * metric.unit.factor))?;
    Some(html! {
        figure class="dots" data-panel={ "every-run-" (path) "-" (metric.name) } {
            figcaption { (caption(metric)) span class="quiet" { " " (metric.unit.word) " " (arrow(metric)) } }
            @for cc in run.plan.labels() {
                div class="strip" data-cc=(cc) {
                    div class="strip-name" { (key(run, cc)) " " (cc) }
                    svg height="30" width="100%" class=(colour(run, cc)) { (strip(run, path, cc, index, &scale)) }
                }
            }
            div class="strip" { div {} (scale.axis()) }
        }
    })
}

/// A metric's label as a link to what it means, which the page says below its charts.
fn caption(metric: &Metric) -> Markup {
    html! { a class="term" href={ "#metric-" (metric.name) } { (metric.label) } }
}

/// Which way the metric is good.
pub fn arrow(metric: &Metric) -> &'static str {
    if metric.better == crate::metric::Better::Higher { "↑" } else { "↓" }
}

fn strip(run: &Run, path: usize, cc: &str, index: usize, scale: &Linear) -> Markup {
    let unit = METRICS[index].unit;
    let counted: Vec<f64> = run.cells_of(path, cc).filter_map(|c| c.counted(index)).collect();
    html! {
        @for tick in scale.ticks() { (grid_line(scale.x(tick), "30")) }
        @if let Some(median) = stats::median(&counted) {
            @let x = scale.x(median * unit.factor);
            line x1=(x) x2=(x) y1="3" y2="27" class="median" {}
        }
        @for cell in run.cells_of(path, cc) {
            @if let Some(v) = value(cell, index) {
                @let y = 15 + (cell.cell.block as i32 % 5 - 2) * 4;
                (mark(run, cc, &scale.x(v * unit.factor), &y.to_string(), cell.excluded.is_some(), &title(cell, metric_value(index, v))))
            }
        }
    }
}

/// A metric's runs in the order in which they were made, so that a drift of the machine or the path shows.
pub fn order(run: &Run, path: usize, index: usize) -> Option<Markup> {
    let metric = &METRICS[index];
    let cells: Vec<&RunCell> =
        run.cells.iter().filter(|c| c.cell.path == path && value(c, index).is_some()).collect();
    let scale = Linear::over(cells.iter().filter_map(|c| value(c, index)).map(|v| v * metric.unit.factor))?;
    let x = |c: &RunCell| pct(2.0 + 96.0 * (c.cell.index as f64 + 0.5) / run.plan.cells.len() as f64);
    let y = |c: &RunCell| scale.y(value(c, index).unwrap_or(0.0) * metric.unit.factor, 120.0);
    Some(html! {
        figure class="order" data-panel={ "in-order-" (path) "-" (metric.name) } {
            figcaption { (caption(metric)) span class="quiet" { " " (metric.unit.word) ", in order of execution →" } }
            div class="plot" {
                (scale.y_axis(120.0))
                svg height="120" width="100%" {
                    @for tick in scale.ticks() { line x1="0" x2="100%" y1=(scale.y(tick, 120.0)) y2=(scale.y(tick, 120.0)) class="grid" {} }
                    @for cc in run.plan.labels() {
                        @let own: Vec<&&RunCell> = cells.iter().filter(|c| c.cell.cc == *cc).collect();
                        g class=(colour(run, cc)) data-cc=(cc) {
                            @for w in own.windows(2) { line x1=(x(w[0])) y1=(y(w[0])) x2=(x(w[1])) y2=(y(w[1])) class="trail" {} }
                            @for c in &own { (mark(run, cc, &x(c), &y(c), c.excluded.is_some(), &title(c, metric_value(index, value(c, index).unwrap_or(0.0))))) }
                        }
                    }
                }
            }
        }
    })
}

/// Cumulative distribution of the queueing delay, over the probes of all runs that count.
pub fn distribution(run: &Run, path: usize) -> Option<Markup> {
    let pooled: Vec<(&str, Vec<f64>)> =
        run.plan.labels().map(|cc| (cc, pooled_delays_ms(run, path, cc))).collect();
    let tails = pooled.iter().filter_map(|(_, d)| d.get(d.len() * 995 / 1000).copied());
    let scale = Linear::over(tails.chain([0.0])).filter(|_| pooled.iter().any(|(_, d)| !d.is_empty()))?;
    let shares = Linear { low: 0.0, high: 1.0 };
    Some(html! {
        figure class="distribution" data-panel={ "distribution-" (path) } {
            figcaption { "Queueing delay of the probes" span class="quiet" { " ms, share of probes at or below it" } }
            div class="plot" {
                (shares.y_axis(160.0))
                svg height="160" width="100%" {
                    @for share in shares.ticks() { line x1="0" x2="100%" y1=(shares.y(share, 160.0)) y2=(shares.y(share, 160.0)) class="grid" {} }
                    @for tick in scale.ticks() { (grid_line(scale.x(tick), "160")) }
                    svg viewBox="0 0 100 160" width="100%" height="160" preserveAspectRatio="none" {
                        @for (cc, delays) in &pooled {
                            g class=(colour(run, cc)) data-cc=(cc) { path d=(steps(delays, &scale, &shares)) class={ "curve d" (index_of(run, cc) % 4) } {} }
                        }
                    }
                }
                div {} (scale.axis())
            }
        }
    })
}

fn pooled_delays_ms(run: &Run, path: usize, cc: &str) -> Vec<f64> {
    let mut delays: Vec<f64> =
        run.data_of(path, cc).flat_map(|d| d.queue_delays_us()).map(|us| us / 1e3).collect();
    delays.sort_by(f64::total_cmp);
    delays
}

/// The curve through two hundred quantiles, which is finer than a screen shows and keeps the page small.
fn steps(sorted: &[f64], x: &Linear, y: &Linear) -> String {
    let Some(last) = sorted.len().checked_sub(1) else { return String::new() };
    let at = |i: usize| {
        let share = i as f64 / 200.0;
        let value = sorted[(share * last as f64).round() as usize];
        format!("{}{:.2} {}", if i == 0 { 'M' } else { 'L' }, x.percent(value), y.y(share, 160.0))
    };
    (0..=200).map(at).collect()
}

fn value(cell: &RunCell, index: usize) -> Option<f64> {
    cell.values[index].as_ref().ok().copied().filter(|v| v.is_finite())
}

fn metric_value(index: usize, value: f64) -> String {
    METRICS[index].unit.show(value)
}

fn title(cell: &RunCell, value: String) -> String {
    format!(
        "{}, block {}, cell {:03}: {value} ({})",
        cell.cell.cc,
        cell.cell.block,
        cell.cell.index,
        cell.status()
    )
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;
    use super::*;
    use crate::metric::index_of;

    #[test]
    fn the_forest_scale_is_symmetric_and_ends_at_its_edge() {
        let scale = Forest { widest: 2.0 };
        assert_eq!(scale.percent(0.0), 50.0);
        assert!((scale.percent(0.5) + scale.percent(-0.5) - 100.0).abs() < 1e-9);
        assert_eq!(scale.percent(f64::NEG_INFINITY), 1.0);
        assert!(scale.percent(0.02) - 50.0 > 3.0, "a difference of 2 % can be seen");
        assert!(scale.ticks().contains(&0.0));
    }

    /// By hand: nine runs from 20 to 28 Mbit/s, and 6 % of room at both ends of the scale. So the lowest stands 8 + 104 × 1.06 / 1.12
    /// below the upper edge and the highest 8 + 104 × 0.06 / 1.12.
    #[test]
    fn a_run_stands_where_its_number_and_its_value_say() {
        let folder = synthetic::run("order", 1);
        let mut run = Run::read(&folder.dir).unwrap();
        let goodput = index_of("goodput_bps");
        for cell in &mut run.cells {
            cell.cell.path = 0;
            cell.values[goodput] = Ok(20e6 + 1e6 * cell.cell.index as f64);
        }
        let chart = order(&run, 0, goodput).unwrap().into_string();
        for place in [r#"x="7.33%" y="106.4""#, r#"x="50.00%" y="60.0""#, r#"x="92.67%" y="13.6""#] {
            assert!(chart.contains(place), "{place} is not in {chart}");
        }
    }
}
