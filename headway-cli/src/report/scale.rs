//! The linear scale of a chart and what is drawn along it, whatever the chart shows. `chart` has the charts of a run, and a trial
//! has its own.

use super::words::number;
use maud::{Markup, html};

/// A linear scale with round ends.
pub struct Linear {
    pub low: f64,
    pub high: f64,
}

impl Linear {
    /// Covers the values, and begins at 0 where 0 is not far away; `None` without values.
    pub fn over(values: impl Iterator<Item = f64>) -> Option<Self> {
        let finite = values.filter(|v| v.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            return None;
        }
        let low = if low > 0.0 && low < 0.6 * high { 0.0 } else { low };
        let room = if high > low { (high - low) * 0.06 } else { (high.abs() * 0.05).max(0.05) };
        Some(Self { low: if low == 0.0 { 0.0 } else { low - room }, high: high + room })
    }

    pub fn percent(&self, v: f64) -> f64 {
        2.0 + 96.0 * ((v - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    pub fn x(&self, v: f64) -> String {
        pct(self.percent(v))
    }

    pub fn y(&self, v: f64, height: f64) -> String {
        format!("{:.1}", 8.0 + (height - 16.0) * (1.0 - (v - self.low) / (self.high - self.low)))
    }

    /// Three or four round numbers.
    pub fn ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 3.5;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 2.5, 5.0, 10.0].map(|s| s * power).into_iter().find(|s| *s >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        (first..).map(|i| i as f64 * step).take_while(|t| *t <= self.high).collect()
    }

    pub fn axis(&self) -> Markup {
        html! {
            svg height="18" width="100%" {
                @for tick in self.ticks() {
                    @let anchor = match self.percent(tick) { p if p < 8.0 => "start", p if p > 92.0 => "end", _ => "middle" };
                    text x=(self.x(tick)) y="13" text-anchor=(anchor) class="tick" { (tick_text(tick)) }
                }
            }
        }
    }

    pub fn y_axis(&self, height: f64) -> Markup {
        html! {
            svg height=(height) width="100%" {
                @for tick in self.ticks() {
                    text x="100%" y=(self.y(tick, height)) dy="4" text-anchor="end" class="tick" { (tick_text(tick)) }
                }
            }
        }
    }
}

pub fn grid_line(x: String, height: &str) -> Markup {
    html! { line x1=(x) x2=(x) y1="0" y2=(height) class="grid" {} }
}

fn tick_text(tick: f64) -> String {
    let text = number(tick);
    typeset(if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text })
}

pub fn pct(x: f64) -> String {
    format!("{x:.2}%")
}

/// The mark of the candidate with this number. Marks differ in colour, by the class around them, and in shape, so that a reader
/// who sees no colours can tell two apart.
pub fn mark(index: usize, [x, y]: [&str; 2], hollow: bool, title: &str) -> Markup {
    let shape = match index % 4 {
        0 => "M4 0A4 4 0 1 1-4 0A4 4 0 1 1 4 0Z",
        1 => "M-3.5-3.5H3.5V3.5H-3.5Z",
        2 => "M0-4.6L4.4 3.2H-4.4Z",
        _ => "M0-4.8L4.8 0L0 4.8L-4.8 0Z",
    };
    html! {
        svg x=(x) y=(y) overflow="visible" {
            path d=(shape) class=(if hollow { "mark hollow" } else { "mark" }) { @if !title.is_empty() { title { (title) } } }
        }
    }
}

/// Text of the terminal with the minus signs and dashes that a page should have.
pub fn typeset(text: &str) -> String {
    if text == "-" {
        return "–".into();
    }
    let text = text.replace(" .. ", " … ").replace(" -", " −");
    text.strip_prefix('-').map_or(text.clone(), |rest| format!("−{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_have_a_few_round_ticks_inside() {
        for (low, high) in [(0.0, 1.0), (96.1, 96.4), (0.0, 0.0), (-3.0, 1234.0), (1e-5, 2e-5), (5.0, 5.0)] {
            let scale = Linear::over([low, high].into_iter()).unwrap();
            let ticks = scale.ticks();
            assert!((2..=6).contains(&ticks.len()), "{low} .. {high}: {ticks:?}");
            assert!(ticks.iter().all(|t| (scale.low..=scale.high).contains(t)), "{ticks:?}");
        }
        assert!(Linear::over([].into_iter()).is_none());
        assert_eq!(Linear::over([10.0, 100.0].into_iter()).unwrap().low, 0.0);
    }
}
