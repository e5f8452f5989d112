//! A look as a table: a line for each controller with what its flows do together, then the flows.

use super::groups::{Groups, short};
use super::look::Seen;
use super::units;
use crate::report::terminal::{Column, Row, Word, bold, faint, styled, table, wrapped};
use clap::ValueEnum;
use clap::builder::styling::{AnsiColor, Style};
use headway_kernel::Model;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What the flows are ordered by, the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// What the peer acknowledges now
    Rate,
    /// What the controller believes the path to carry
    Bandwidth,
    /// Smoothed round trip
    Rtt,
    /// Round trip above its minimum: the queue
    Queue,
    /// In flight
    Inflight,
    /// Share of what was sent again
    Loss,
    /// How often the brake was put on
    Brake,
    /// What it has transferred
    Delivered,
    /// How long it has used the controller
    Age,
}

impl Sort {
    /// A number by which flows can be ordered.
    fn key(self, seen: &Seen) -> u64 {
        let model = seen.model();
        match self {
            Sort::Rate => seen.rate.unwrap_or(0),
            Sort::Bandwidth => model.map_or(0, |m| m.bandwidth),
            Sort::Rtt => seen.socket.srtt.map_or(0, |rtt| rtt.as_micros() as u64),
            Sort::Queue => {
                let least = model.and_then(|m| m.min_rtt).or(seen.socket.min_rtt).unwrap_or_default();
                seen.socket.srtt.map_or(0, |rtt| rtt.saturating_sub(least).as_micros() as u64)
            }
            Sort::Inflight => seen.socket.inflight * seen.socket.mss,
            Sort::Loss => seen.loss().map_or(0, |loss| (loss * 1e9) as u64),
            Sort::Brake => model.map_or(0, |m| m.brake_entries),
            Sort::Delivered => seen.bytes().acked,
            Sort::Age => seen.ours.as_ref().and_then(|o| o.age).map_or(0, |age| age.as_millis() as u64),
        }
    }
}

/// How much is shown.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub width: usize,
    /// Lines in all, or any number.
    pub height: Option<usize>,
    pub sort: Sort,
}

/// The whole text of one look.
pub fn text(shown: &[Seen], groups: &mut Groups, own_netns: u64, extent: Extent) -> String {
    let mut text = totals(shown, extent.width);
    let lines = text.lines().count() + 2;
    let room = extent.height.map_or(usize::MAX, |height| height.saturating_sub(lines).max(1));
    let mut order: Vec<&Seen> = shown.iter().collect();
    let by = |seen: &&Seen| Reverse((extent.sort.key(seen), seen.bytes().acked, seen.socket.key));
    // Of thousands only a screenful is shown, and only that is put in order.
    if room < order.len() {
        order.select_nth_unstable_by_key(room, by);
        order.truncate(room);
    }
    order.sort_by_key(by);
    if order.is_empty() {
        return text;
    }
    // What would say the same in every row says nothing.
    let one_cc = order.iter().all(|seen| seen.socket.name == order[0].socket.name);
    let one_netns = order.iter().all(|seen| seen.socket.netns == own_netns);
    let is_shown = |column: &Column| !(one_cc && column.head == "cc" || one_netns && column.head == "netns");
    let all = columns();
    let shown_columns: Vec<bool> = all.iter().map(is_shown).collect();
    let rows: Vec<Row> = order.iter().map(|seen| chosen(row(seen, groups), &shown_columns)).collect();
    let columns: Vec<Column> = all.into_iter().filter(is_shown).collect();
    text += &table(&columns, &rows, extent.width).0;
    let more = shown.len() - order.len();
    if more > 0 {
        let _ = writeln!(text, "{}", styled(&format!("  and {more} more"), faint()));
    }
    text
}

fn chosen(words: Vec<Word>, shown: &[bool]) -> Row {
    Row::Words(words.into_iter().zip(shown).filter_map(|(word, shown)| shown.then_some(word)).collect())
}

/// The columns; where the terminal is narrow, those with the highest rank go first.
fn columns() -> Vec<Column> {
    vec![
        Column::word("peer", 0),
        Column::number("port", 8),
        Column::word("cc", 0),
        Column::number("age", 9),
        Column::word("state", 0),
        Column::number("rate", 0),
        Column::number("bw", 1),
        Column::number("rtt ms", 0),
        Column::number("min", 2),
        Column::number("inflight", 3),
        Column::number("cwnd", 7),
        Column::number("bound", 10),
        Column::number("lost %", 4),
        Column::word("brake", 5),
        Column::number("acked", 6),
        Column::word("service", 11),
        Column::number("netns", 12),
    ]
}

fn row(seen: &Seen, groups: &mut Groups) -> Vec<Word> {
    let socket = &seen.socket;
    let model = seen.model();
    let none = || "-".to_string();
    let min_rtt = model.and_then(|m| m.min_rtt).or(socket.min_rtt);
    // The tighter of the two bounds holds.
    let bound = model.and_then(|m| [m.inflight_longterm, m.inflight_shortterm].into_iter().flatten().min());
    let words = [
        socket.peer.to_string(),
        socket.local.port().to_string(),
        socket.name.to_string(),
        seen.ours.as_ref().and_then(|o| o.age).map_or_else(none, units::age),
        state(seen),
        seen.rate.map_or_else(none, units::bits),
        model.map(|m| m.bandwidth).filter(|bw| *bw > 0).map_or_else(none, units::bits),
        socket.srtt.map_or_else(none, units::ms),
        min_rtt.map_or_else(none, units::ms),
        socket.inflight.to_string(),
        socket.cwnd.to_string(),
        bound.map_or_else(none, |segments| segments.to_string()),
        seen.loss().map_or_else(none, units::percent),
        brake(model),
        units::bytes(seen.bytes().acked),
        Some(short(groups.path(socket.cgroup))).filter(|s| !s.is_empty()).map_or_else(none, String::from),
        socket.netns.to_string(),
    ];
    let mut words: Vec<Word> = words.map(Word::from).into();
    if model.is_some_and(|m| m.brake.is_on()) {
        words.iter_mut().for_each(|word| word.style = Style::new().fg_color(Some(AnsiColor::Yellow.into())));
    }
    words
}

/// The controller's state, or the connection's where it is not established; `*`: the application limits it.
fn state(seen: &Seen) -> String {
    let socket = &seen.socket;
    match seen.model() {
        Some(m) if socket.state == "ESTAB" => {
            format!("{}{}", m.phase, if m.is_app_limited { "*" } else { "" })
        }
        _ => socket.state.to_string(),
    }
}

/// What the brake does, and how often it was put on.
fn brake(model: Option<&Model>) -> String {
    match model {
        Some(m) if m.brake.is_on() => format!("{} {}", m.brake.word(), m.brake_entries),
        Some(m) if m.brake_entries > 0 => format!("off {}", m.brake_entries),
        _ => "-".into(),
    }
}

/// What all flows of a controller do together.
#[derive(Debug, Default)]
struct Total<'a> {
    flows: usize,
    rate: u64,
    acked: u64,
    sent: u64,
    retransmitted: u64,
    braking: usize,
    states: BTreeMap<&'a str, usize>,
}

fn totals(shown: &[Seen], width: usize) -> String {
    let mut all: BTreeMap<&str, Total> = BTreeMap::new();
    for seen in shown {
        let total = all.entry(&seen.socket.name).or_default();
        let bytes = seen.bytes();
        total.flows += 1;
        total.rate += seen.rate.unwrap_or(0);
        total.acked += bytes.acked;
        total.sent += bytes.sent;
        total.retransmitted += bytes.retransmitted;
        if let Some(model) = seen.model() {
            total.braking += usize::from(model.brake.is_on());
            *total.states.entry(model.phase).or_default() += 1;
        }
    }
    if all.is_empty() {
        return "No flows.\n".into();
    }
    let has_rate = shown.iter().any(|seen| seen.rate.is_some());
    all.iter().map(|(name, total)| wrapped(&total.text(name, has_rate), width, 2)).collect()
}

impl Total<'_> {
    fn text(&self, name: &str, has_rate: bool) -> String {
        let mut text = format!(
            "{} {} flow{}",
            styled(&format!("{name}:"), bold()),
            self.flows,
            if self.flows == 1 { "" } else { "s" }
        );
        if has_rate {
            let _ = write!(text, ", {}bit/s", spaced(&units::bits(self.rate)));
        }
        let _ = write!(text, ", {}B acknowledged", spaced(&units::bytes(self.acked)));
        if self.sent > 0 {
            let lost = units::percent(self.retransmitted as f64 / self.sent as f64);
            let _ = write!(text, ", {lost} % sent again");
        }
        let mut states: Vec<_> = self.states.iter().collect();
        states.sort_by_key(|(_, n)| Reverse(**n));
        let states: Vec<String> = states.iter().map(|(state, n)| format!("{n} {state}")).collect();
        if !states.is_empty() {
            let _ = write!(text, "; {}", states.join(", "));
        }
        if self.braking > 0 {
            let _ = write!(text, "; {} braking", self.braking);
        }
        text
    }
}

/// `9.4M` as `9.4 M`, to stand before a unit.
fn spaced(text: &str) -> String {
    match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => format!("{} {}", &text[..at], &text[at..]),
        None => format!("{text} "),
    }
}
