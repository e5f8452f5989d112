//! One flow over time: what it does now in a few words, and a small chart of its bandwidth, its round trip and its states.

use super::groups::{Groups, short};
use super::look::Seen;
use super::units;
use crate::report::terminal::{bold, faint, styled, wrapped};
use headway_kernel::Brake;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

/// Characters of the labels to the left of a chart.
const LABEL: usize = 12;

/// What the letters are.
const LEGEND: &str = "states: S startup, D drain, B probe_bw, d down, c cruise, r refill, U up, P probe_rtt; brake: D drain, H hold";

/// Lines of a chart.
const HEIGHT: usize = 4;

/// What the chart shows of one look.
#[derive(Clone, Copy, Debug)]
struct Point {
    bandwidth: u64,
    rate: u64,
    srtt: Duration,
    state: char,
    brake: char,
}

/// The flow's looks so far, the latest last.
#[derive(Debug)]
pub struct History {
    points: VecDeque<Point>,
    every: Duration,
}

/// The flow between these ends: the peer's address and port as the table shows them, or its own.
pub fn find(all: &[Seen], end: SocketAddr) -> Option<&Seen> {
    let of = |address: fn(&Seen) -> SocketAddr| all.iter().find(|seen| address(seen) == end);
    of(|seen| seen.socket.peer).or_else(|| of(|seen| seen.socket.local))
}

impl History {
    pub fn new(every: Duration) -> History {
        History { points: VecDeque::new(), every }
    }

    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    pub fn add(&mut self, seen: &Seen) {
        let model = seen.model();
        self.points.push_back(Point {
            bandwidth: model.map_or(0, |m| m.bandwidth),
            rate: seen.rate.unwrap_or(0),
            srtt: seen.socket.srtt.unwrap_or_default(),
            state: model.map_or('-', |m| letter(m.phase)),
            brake: model.map_or('-', |m| match m.brake {
                Brake::Off => '.',
                Brake::Drain => 'D',
                Brake::Hold => 'H',
            }),
        });
        // No terminal is wider.
        if self.points.len() > 1000 {
            self.points.pop_front();
        }
    }

    /// The chart, no wider than this.
    pub fn chart(&self, width: usize) -> String {
        let room = width.saturating_sub(LABEL + 1).max(10);
        let shown: Vec<&Point> = self.points.iter().skip(self.points.len().saturating_sub(room)).collect();
        let values = |of: fn(&Point) -> f64| shown.iter().map(|p| of(p)).collect::<Vec<_>>();
        let rate = |top: f64| format!("{}bit/s", units::bits(top as u64));
        let mut text = bars("bandwidth", &values(|p| p.bandwidth as f64), rate);
        text += &bars("rate", &values(|p| p.rate as f64), rate);
        text += &bars("rtt", &values(|p| p.srtt.as_secs_f64() * 1e3), |top| format!("{top:.1} ms"));
        text += &line("state", shown.iter().map(|p| p.state));
        text += &line("brake", shown.iter().map(|p| p.brake));
        let long = self.every.as_secs_f64() * shown.len().saturating_sub(1) as f64;
        let ago = format!("{long:.0} s ago");
        let gap = shown.len().saturating_sub(ago.len() + 3).max(1);
        let _ = writeln!(text, "{:LABEL$} {}", "", styled(&format!("{ago}{}now", " ".repeat(gap)), faint()));
        text + &wrapped(LEGEND, width, 2)
    }
}

fn letter(state: &str) -> char {
    match state {
        "startup" => 'S',
        "drain" => 'D',
        "probe_bw" => 'B',
        "down" => 'd',
        "cruise" => 'c',
        "refill" => 'r',
        "up" => 'U',
        "probe_rtt" => 'P',
        _ => '-',
    }
}

fn line(label: &str, letters: impl Iterator<Item = char>) -> String {
    format!("{} {}\n", styled(&format!("{label:>LABEL$}"), faint()), letters.collect::<String>())
}

/// Columns of eighths of a character, from zero to the largest value.
fn bars(label: &str, values: &[f64], show: impl Fn(f64) -> String) -> String {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = values.iter().copied().fold(0.0, f64::max);
    let levels = |v: f64| if top > 0.0 { (v / top * (8 * HEIGHT) as f64).round() as usize } else { 0 };
    let mut text = String::new();
    for row in (0..HEIGHT).rev() {
        let column = |v: &f64| EIGHTHS[levels(*v).saturating_sub(8 * row).min(8)];
        let label = match row {
            row if row == HEIGHT - 1 => show(top),
            0 => label.to_string(),
            _ => String::new(),
        };
        let columns: String = values.iter().map(column).collect();
        let _ = writeln!(text, "{} {}", styled(&format!("{label:>LABEL$}"), faint()), columns.trim_end());
    }
    text
}

/// What the flow does now, in lines no wider than this.
pub fn sentence(seen: &Seen, groups: &mut Groups, width: usize) -> String {
    wrapped(&who(seen, groups), width, 2) + &wrapped(&what(seen), width, 2)
}

fn who(seen: &Seen, groups: &mut Groups) -> String {
    let socket = &seen.socket;
    let mut text = format!("{} {} to {}", styled(&socket.name, bold()), socket.local, socket.peer);
    let service = short(groups.path(socket.cgroup));
    if !service.is_empty() {
        let _ = write!(text, ", {service}");
    }
    if let Some(age) = seen.ours.as_ref().and_then(|o| o.age) {
        let _ = write!(text, ", {} old", units::age(age));
    }
    text
}

fn what(seen: &Seen) -> String {
    let socket = &seen.socket;
    let mut text = String::new();
    match seen.model() {
        Some(m) => {
            let limited = if m.is_app_limited { ", limited by the application" } else { "" };
            let _ = write!(
                text,
                "{}{limited}: {}bit/s of {}bit/s",
                m.phase,
                units::bits(seen.rate.unwrap_or(0)),
                units::bits(m.bandwidth)
            );
        }
        None => {
            let _ = write!(text, "{}: {}bit/s", socket.state, units::bits(seen.rate.unwrap_or(0)));
        }
    }
    let ms = |time: Option<Duration>| time.map_or("-".into(), units::ms);
    let least = seen.model().and_then(|m| m.min_rtt).or(socket.min_rtt);
    let _ = write!(
        text,
        "; rtt {} ms, least {}; in flight {} of {} segments",
        ms(socket.srtt),
        ms(least),
        socket.inflight,
        socket.cwnd
    );
    if let Some(m) = seen.model() {
        for (bound, word) in [(m.inflight_longterm, "long-term"), (m.inflight_shortterm, "short-term")] {
            if let Some(bound) = bound {
                let _ = write!(text, ", {word} bound {bound}");
            }
        }
        if m.brake_entries > 0 {
            let _ = write!(text, "; brake {}, {} times so far", m.brake.word(), m.brake_entries);
        }
    }
    if let Some(loss) = seen.loss() {
        let _ = write!(text, "; {} % sent again", units::percent(loss));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_on_zero_and_reach_the_top() {
        let text = anstream::adapter::strip_str(&bars("x", &[0.0, 1.0, 2.0, 4.0], |top| format!("{top}")))
            .to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            ["           4    █", "                █", "               ██", "           x  ███"]
        );
    }

    #[test]
    fn every_state_has_a_letter_of_its_own() {
        let letters: std::collections::BTreeSet<char> =
            headway_kernel::Model::PHASES.iter().map(|p| letter(p)).collect();
        assert_eq!(letters.len(), headway_kernel::Model::PHASES.len());
    }
}
