//! Goodput against delay: one dot for each candidate, and the front that no other one beats. At the head of the page; a
//! search has its table of the front here, and the command that measures the front again.

use super::meaning;
use crate::report::chart::{colour, key, mark_at, typeset};
use crate::report::front::{Front, Point, searched};
use crate::report::mean::Mean;
use crate::report::run::Run;
use crate::report::scale::pct;
use maud::{Markup, html};

const HEIGHT: f64 = 300.0;

/// Longer names have a number in the picture, and stand beside it in the table below.
const LONGEST_LABEL: usize = 18;

/// A candidate that is named in the picture.
struct Named<'a> {
    cc: &'a str,
    label: String,
    x: f64,
    y: f64,
    is_beyond: bool,
}

pub fn picture(run: &Run, front: &Front) -> Markup {
    let (base, members) = (run.baseline(), front.members());
    let scale = Scale::of(front);
    let named = named(run, front, &scale);
    let is_named = |point: &&Point| named.iter().any(|n| n.cc == point.cc);
    let line: Vec<(f64, f64)> = named
        .iter()
        .filter(|n| n.cc == base && front.has_baseline || is_member(front, n.cc))
        .map(|n| (n.x, n.y))
        .collect();
    html! {
        figure class="front" data-panel="front" {
            figcaption { "Goodput against delay" span class="quiet" { " ratios to " (base) "; up and left is better" } }
            div class="plot" {
                svg height=(HEIGHT) width="100%" {
                    @for tick in scale.goodput.ticks(6) { text x="100%" y=(px(scale.y(tick))) dy="4" text-anchor="end" class="tick" { (times(tick)) } }
                }
                svg height=(HEIGHT) width="100%" role="img" aria-label={ "Goodput against " (front.delay.label) " of each candidate, as ratios to " (base) } {
                    @for tick in scale.goodput.ticks(6) { line x1="0" x2="100%" y1=(px(scale.y(tick))) y2=(px(scale.y(tick))) class=(line_class(tick)) {} }
                    @for tick in scale.delay.ticks(6) { line x1=(pct(scale.x(tick))) x2=(pct(scale.x(tick))) y1="0" y2=(HEIGHT) class=(line_class(tick)) {} }
                    svg viewBox={ "0 0 100 " (HEIGHT) } width="100%" height=(HEIGHT) preserveAspectRatio="none" { path d=(path(line)) class="front-line" {} }
                    @for point in front.points.iter().filter(|p| !is_named(p)) {
                        circle cx=(pct(scale.x(point.delay.ratio))) cy=(px(scale.y(point.goodput.ratio))) r="3.5" class=(if scale.is_beyond(point) { "other hollow" } else { "other" }) { title { (title(point)) } }
                    }
                    @for n in &named {
                        g class=(colour(run, n.cc)) data-cc=(n.cc) { (mark_at(run, n.cc, [&pct(n.x), &px(n.y)], n.is_beyond)) }
                    }
                    @for (n, (dx, dy, anchor)) in named.iter().zip(places(&named)) {
                        text x=(pct(n.x)) y=(px(n.y)) dx=(dx) dy=(dy) text-anchor=(anchor) class={ "front-label" @if is_member(front, n.cc) { " member" } } data-cc=(n.cc) { (n.label) }
                    }
                }
                div {}
                svg height="18" width="100%" {
                    @for tick in scale.delay.ticks(6) { text x=(pct(scale.x(tick))) y="13" text-anchor="middle" class="tick" { (times(tick)) } }
                }
                div {}
                div class="front-axis" { (meaning::metric(front.delay)) ", divided by " (base) "'s" }
            }
            p class="legend-note" {
                "One mark for each of " (front.points.len() + 1) " controllers, " (over(front)) ". "
                @if members.is_empty() { "No candidate is on the front: none beats " (base) " in goodput or in delay without losing in the other." }
                @else { "The line joins the front: no other one has both more goodput and a shorter delay than one of these." }
                @if named.iter().any(|n| n.is_beyond) || front.points.iter().any(|p| scale.is_beyond(p)) { " A hollow mark lies beyond the edge." }
            }
        }
    }
}

/// Of a search: the front as a table, how to measure it again, and every candidate for whoever looks for one.
pub fn section(run: &Run, front: &Front) -> Markup {
    let members = front.members();
    let names: Vec<&str> = members.iter().map(|point| point.cc.as_str()).collect();
    let given: Vec<&Point> =
        front.points.iter().filter(|p| !p.is_on_front && run.plan.labels().any(|cc| cc == p.cc)).collect();
    let mut all: Vec<&Point> = front.points.iter().collect();
    all.sort_by(|a, b| a.delay.ratio.total_cmp(&b.delay.ratio));
    html! {
        section id="front" {
            h2 { "The front" }
            p class="lead" { "Ratios to " b { (run.baseline()) } ", " (over(front)) ". A search has no verdicts: they come from the run that measures the front again." }
            @if !members.is_empty() || !given.is_empty() { (table(run, front, &members, &given)) }
            @for remark in front.remarks() { p class="legend-note" { (remark) } }
            @if !names.is_empty() {
                h3 { "Measure the front again" }
                p { "With another seed. Put other paths in the place of these." }
                pre class="command" tabindex="0" aria-label="Command that measures the front again" { code { (run.plan.command_again(&names)) } }
            }
            details { summary { "All " (all.len()) " candidates" } (table(run, front, &all, &[])) }
        }
    }
}

fn table(run: &Run, front: &Front, points: &[&Point], given: &[&Point]) -> Markup {
    let numbers: Vec<&str> = front.members().iter().map(|point| point.cc.as_str()).collect();
    let row = |point: &Point| {
        html! {
            tr data-cc=(point.cc) {
                td { @if let Some(at) = numbers.iter().position(|cc| *cc == point.cc) { (at + 1) } }
                th scope="row" class="name whole" { @if run.plan.labels().any(|cc| cc == point.cc) { (key(run, &point.cc)) " " } (point.cc) @if given.iter().any(|g| g.cc == point.cc) { span class="quiet" { " not on the front" } } }
                (ratio(&point.goodput)) (ratio(&point.delay))
            }
        }
    };
    html! {
        div class="scroll" {
            table class="small front-table" {
                thead { tr { th scope="col" { "No." } th scope="col" class="name" { "Candidate" } th scope="col" { "Goodput" } th scope="col" { (front.delay.label) } } }
                tbody { @for point in points.iter().chain(given) { (row(point)) } }
            }
        }
    }
}

fn ratio(mean: &Mean) -> Markup {
    html! { td { b { "×" (mean.ratio_text()) } span class="quiet" { " [" (typeset(&mean.interval_text())) "]" } } }
}

/// The title of a search's page.
pub fn heading(run: &Run) -> String {
    format!("{} against {}", searched(run).join(" and "), run.baseline())
}

fn over(front: &Front) -> String {
    match front.points[0].goodput.paths {
        1 => "on one path".into(),
        paths => format!("geometric means over {paths} paths"),
    }
}

fn is_member(front: &Front, cc: &str) -> bool {
    front.points.iter().any(|point| point.is_on_front && point.cc == cc)
}

/// The baseline, the front in its order, and of the others those of which the page has a part of their own.
fn named<'a>(run: &'a Run, front: &'a Front, scale: &Scale) -> Vec<Named<'a>> {
    let members = front.members();
    let numbered = members.iter().any(|point| point.cc.chars().count() > LONGEST_LABEL);
    let place = |label: String, point: &'a Point| Named {
        cc: &point.cc,
        label,
        x: scale.x(point.delay.ratio),
        y: scale.y(point.goodput.ratio),
        is_beyond: scale.is_beyond(point),
    };
    let label = |(at, point): (usize, &&'a Point)| {
        place(if numbered { (at + 1).to_string() } else { point.cc.clone() }, point)
    };
    let mut named: Vec<Named<'_>> = members.iter().enumerate().map(label).collect();
    let is_other = |p: &&'a Point| !p.is_on_front && run.plan.labels().any(|cc| cc == p.cc);
    named.extend(front.points.iter().filter(is_other).map(|point| place(point.cc.clone(), point)));
    let base = run.baseline();
    let is_beyond = scale.goodput.is_beyond(1.0) || scale.delay.is_beyond(1.0);
    named.push(Named { cc: base, label: base.into(), x: scale.x(1.0), y: scale.y(1.0), is_beyond });
    // The line of the front goes from one to the next.
    named.sort_by(|a, b| a.x.total_cmp(&b.x));
    named
}

/// The width of the narrowest screen's plot and of a letter, in pixels: labels that do not meet there meet nowhere.
const NARROWEST: f64 = 300.0;
const LETTER: f64 = 6.6;

/// For each label how far from its mark it stands, and its anchor: the first place of a few where it meets no mark and no
/// label before it.
fn places(named: &[Named<'_>]) -> Vec<(i32, i32, &'static str)> {
    const TRIED: [(i32, i32, &str); 6] = [
        (8, -6, "start"),
        (-8, -6, "end"),
        (8, 14, "start"),
        (-8, 14, "end"),
        (0, -10, "middle"),
        (0, 20, "middle"),
    ];
    let mut taken: Vec<[f64; 4]> = named.iter().map(|n| around(n.x * NARROWEST / 100.0, n.y, 5.0)).collect();
    let mut chosen = Vec::new();
    for n in named {
        let width = n.label.chars().count() as f64 * LETTER;
        let area = |(dx, dy, anchor): (i32, i32, &str)| {
            let x = n.x * NARROWEST / 100.0 + f64::from(dx);
            let left = match anchor {
                "start" => x,
                "end" => x - width,
                _ => x - width / 2.0,
            };
            let bottom = n.y + f64::from(dy);
            [left, bottom - 11.0, left + width, bottom]
        };
        let is_free = |place: &(i32, i32, &'static str)| {
            let area = area(*place);
            let is_inside = area[0] >= 0.0 && area[2] <= NARROWEST && area[1] >= 0.0 && area[3] <= HEIGHT;
            is_inside && !taken.iter().any(|other| meet(&area, other))
        };
        let place = TRIED.into_iter().find(is_free).unwrap_or(if n.x > 50.0 { TRIED[1] } else { TRIED[0] });
        taken.push(area(place));
        chosen.push(place);
    }
    chosen
}

fn around(x: f64, y: f64, by: f64) -> [f64; 4] {
    [x - by, y - by, x + by, y + by]
}

fn meet(a: &[f64; 4], b: &[f64; 4]) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

/// Both scales are logarithmic, because ratios are: ×0.5 is as far from ×1 as ×2.
struct Scale {
    goodput: Ratios,
    delay: Ratios,
}

impl Scale {
    fn of(front: &Front) -> Self {
        let over = |of: fn(&Point) -> f64| Ratios::over(front.points.iter().map(|p| (of(p), p.is_on_front)));
        Self { goodput: over(|p| p.goodput.ratio), delay: over(|p| p.delay.ratio) }
    }

    fn x(&self, ratio: f64) -> f64 {
        3.0 + 94.0 * self.delay.share(ratio)
    }

    fn y(&self, ratio: f64) -> f64 {
        10.0 + (HEIGHT - 20.0) * (1.0 - self.goodput.share(ratio))
    }

    fn is_beyond(&self, point: &Point) -> bool {
        self.goodput.is_beyond(point.goodput.ratio) || self.delay.is_beyond(point.delay.ratio)
    }
}

/// Candidates that differ less are one crowd, however far off ×1 is.
const LEAST_WIDTH: f64 = 0.1;

/// A logarithmic scale over ratios.
struct Ratios {
    low: f64,
    high: f64,
}

impl Ratios {
    /// Covers the front and all others but the farthest twentieth, and ×1 where that is not farther off than they are wide.
    /// What is beyond stands at the edge.
    fn over(ratios: impl Iterator<Item = (f64, bool)>) -> Self {
        let (mut inside, mut others) = (Vec::new(), Vec::new());
        for (ratio, is_on_front) in ratios {
            if is_on_front { inside.push(log(ratio)) } else { others.push(log(ratio)) }
        }
        others.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        others.truncate((others.len() * 19).div_ceil(20));
        inside.extend(others);
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut low, mut high) = inside.iter().fold(ends, |(low, high), x| (low.min(*x), high.max(*x)));
        if low.max(-high).max(0.0) <= (high - low).max(LEAST_WIDTH) {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        let room = ((high - low) * 0.06).max(0.005);
        Self { low: low - room, high: high + room }
    }

    fn is_beyond(&self, ratio: f64) -> bool {
        !(self.low..=self.high).contains(&log(ratio))
    }

    fn share(&self, ratio: f64) -> f64 {
        ((log(ratio) - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// At most so many round ratios; ×1 is one of them where the scale has it.
    fn ticks(&self, most: usize) -> Vec<f64> {
        let steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0];
        let of = |step: f64| -> Vec<f64> {
            let first = (self.low.exp() / step).ceil() as i64;
            let ticks = (first..).map(|i| i as f64 * step).take_while(|tick| tick.ln() <= self.high);
            // Round ratios lie the closer the larger they are.
            let mut far: Vec<f64> = Vec::new();
            for tick in ticks.take(1000).filter(|tick| *tick > 0.0) {
                let is_near = |other: &f64| (self.share(tick) - self.share(*other)).abs() < 0.8 / most as f64;
                if !far
                    .iter()
                    .chain([&1.0].into_iter().filter(|_| !self.is_beyond(1.0)))
                    .any(|other| is_near(other) && (*other - tick).abs() > 1e-9)
                {
                    far.push(tick);
                }
            }
            far
        };
        let all = steps.map(of);
        all.iter().find(|ticks| (2..=most).contains(&ticks.len())).or(all.last()).cloned().unwrap_or_default()
    }
}

fn log(ratio: f64) -> f64 {
    ratio.max(1e-9).ln()
}

fn px(y: f64) -> String {
    format!("{y:.1}")
}

/// `×0.985`, without zeros at its end.
fn times(ratio: f64) -> String {
    let text = format!("{ratio:.3}");
    format!("×{}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn line_class(tick: f64) -> &'static str {
    if (tick - 1.0).abs() < 1e-9 { "zero" } else { "grid" }
}

fn path(points: Vec<(f64, f64)>) -> String {
    let step =
        |(at, (x, y)): (usize, (f64, f64))| format!("{}{x:.2} {y:.1}", if at == 0 { 'M' } else { 'L' });
    points.into_iter().enumerate().map(step).collect()
}

fn title(point: &Point) -> String {
    format!("{}: goodput ×{}, delay ×{}", point.cc, point.goodput.ratio_text(), point.delay.ratio_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_has_a_few_ticks_and_one_of_them_is_one_where_that_is_near() {
        for (low, high) in [(0.99, 1.01), (0.5, 1.0), (1.0, 1.0), (0.05, 8.0), (0.9, 40.0), (0.998, 1.0)] {
            let scale = Ratios::over([(low, true), (high, true)].into_iter());
            let ticks = scale.ticks(6);
            assert!((2..=6).contains(&ticks.len()), "{low} .. {high}: {ticks:?}");
            assert!(ticks.iter().any(|tick| (tick - 1.0).abs() < 1e-9), "{ticks:?}");
        }
        let far = Ratios::over([(0.25, true), (0.3, false)].into_iter());
        assert!(far.is_beyond(1.0) && far.share(1.0) == 1.0 && (2..=6).contains(&far.ticks(6).len()));
    }

    /// Nineteen of twenty lie around one, and the one that lost everything would leave them no room.
    #[test]
    fn what_lies_far_off_stands_at_the_edge() {
        let all = (0..40).map(|n| (if n == 7 { 0.001 } else { 0.95 + f64::from(n) / 400.0 }, false));
        let scale = Ratios::over(all);
        assert!(scale.is_beyond(0.001) && !scale.is_beyond(0.95) && !scale.is_beyond(1.04));
        assert_eq!(scale.share(0.001), 0.0);
        let of_front = Ratios::over([(0.001, true), (1.0, false)].into_iter());
        assert!(!of_front.is_beyond(0.001), "the front is always inside");
    }

    #[test]
    fn labels_that_would_meet_stand_apart() {
        let named: Vec<Named<'_>> = [(50.0, 100.0), (52.0, 102.0), (54.0, 104.0)]
            .map(|(x, y)| Named { cc: "cc", label: "a candidate".into(), x, y, is_beyond: false })
            .into();
        let places = places(&named);
        assert!(places[0] != places[1] && places[1] != places[2] && places[0] != places[2], "{places:?}");
    }
}
