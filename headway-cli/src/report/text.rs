//! What is printed: the answer in sentences, the means over the paths, then the comparisons, grouped by path and with
//! the verdict in front, then counts, exclusions, second attempts and notes.
//!
//! It is as short as a reader of `ping` expects. Where a run has more comparisons than can be read, those are printed
//! in which a candidate is better or worse; where the terminal is too narrow, columns are left out. Both are said, and
//! `--format full` prints everything.

use super::answer::{FEW_PATHS, noun, price, weight};
use super::findings::{Comparison, Findings};
use super::front::{Front, Point};
use super::run::{Count, NOT_RUN, Run};
use super::terminal::{Column, Row, Word, bold, faint, styled, table, wrapped};
use crate::metric::Metric;
use crate::stats::Verdict;

/// More rows than this are not read.
const ROWS: usize = 48;

/// More exclusions, or second attempts, than this are not read either.
const LINES: usize = 5;

/// Of more controllers the cells are counted together.
const COUNTED: usize = 12;

/// How much of it is printed.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How wide a line may be; `usize::MAX` where that does not matter.
    pub width: usize,
    /// Every comparison and every exclusion, however many there are.
    pub is_full: bool,
}

pub fn of(run: &Run, findings: &Findings, printed: impl Fn(&Metric) -> bool, extent: Extent) -> String {
    let width = extent.width;
    let mut text: String = findings.answer.sentences.iter().map(|s| wrapped(s, width, 2)).collect();
    let shown: Vec<&Comparison> = findings.comparisons.iter().filter(|c| printed(c.metric)).collect();
    let mut parts = [comparisons(run, &shown, extent), means(run, findings, &printed, width)];
    // Few paths are read one by one, many by their mean.
    if run.plan.paths.len() > FEW_PATHS {
        parts.reverse();
    }
    let of_search =
        findings.front.as_ref().filter(|_| run.plan.draws.is_some()).map(|front| search(run, front, width));
    let parts = match of_search {
        Some(search) if extent.is_full => Vec::from([search]).into_iter().chain(parts).collect(),
        Some(search) => vec![search],
        None => Vec::from(parts),
    };
    for part in parts.into_iter().chain([counts(run, findings, extent)]) {
        if !part.is_empty() {
            text += &format!("\n{part}");
        }
    }
    text += &lines(&excluded(run), "excluded", extent);
    text += &lines(&tried_again(run), "tried again", extent);
    findings.notes.iter().for_each(|note| text += &wrapped(&format!("note: {note}"), width, 2));
    text
}

/// The means of the metrics that are printed; empty where there is only one path.
fn means(run: &Run, findings: &Findings, printed: impl Fn(&Metric) -> bool, width: usize) -> String {
    let shown: Vec<_> = findings.answer.means.iter().filter(|m| printed(m.metric)).collect();
    let Some(first) = shown.first() else { return String::new() };
    let caption = format!("Geometric means over the paths, as ratios to {}", run.baseline());
    let columns = [
        Column::word("candidate", 0),
        Column::word("metric", 0),
        Column::number("ratio", 0),
        Column::number("95 % interval", 0),
        Column::number("paths", 1),
        Column::number("left out", 2),
        Column::word("interval over", 3),
    ];
    let row = |m: &&super::mean::Mean| {
        let words = [
            m.candidate.clone(),
            m.metric.label.to_string(),
            m.ratio_text(),
            m.interval_text(),
            m.paths.to_string(),
            m.left_out.to_string(),
            m.over_text(),
        ];
        Row::Words(words.map(Word::from).into())
    };
    let (text, _) = table(&columns, &shown.iter().map(row).collect::<Vec<_>>(), width);
    format!("{}, interval over {}\n{text}", styled(&caption, bold()), first.over_text())
}

/// The comparisons by path, and what of them was left out.
fn comparisons(run: &Run, all: &[&Comparison], extent: Extent) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut shown = all.to_vec();
    if !extent.is_full && all.len() > ROWS {
        shown.retain(|c| matches!(c.judged.verdict, Some(Verdict::Better | Verdict::Worse)));
        let mut by_weight = shown.clone();
        by_weight.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        if let Some(least) = by_weight.get(ROWS - 1).map(|c| weight(c)) {
            shown.retain(|c| weight(c) >= least);
            shown.truncate(ROWS);
        }
    }
    let mut rows = Vec::new();
    let mut bought = false;
    for (at, c) in shown.iter().enumerate() {
        if at == 0 || shown[at - 1].path != c.path {
            rows.push(Row::Heading(heading(run, c.path, extent.width)));
        }
        let mark = if price(all.iter().copied(), c).is_some() { " *" } else { "" };
        bought |= !mark.is_empty();
        rows.push(row(c, mark));
    }
    let caption = format!("Against {}: a positive improvement is good", run.baseline());
    let (table, left_out) = table(&columns(run), &rows, extent.width);
    let mut text =
        if shown.is_empty() { String::new() } else { format!("{}\n{table}", styled(&caption, bold())) };
    if bought {
        text += &wrapped(
            "* bought: on the same path its goodput is worse, or, where its goodput is better, its delay.",
            extent.width,
            2,
        );
    }
    if shown.len() < all.len() {
        text += &wrapped(&not_shown(all, shown.len()), extent.width, 2);
    }
    if !left_out.is_empty() && !shown.is_empty() {
        let what = format!("Left out for width: {}; --format full prints them.", left_out.join(", "));
        text += &wrapped(&what, extent.width, 2);
    }
    text
}

fn columns(run: &Run) -> Vec<Column> {
    let several = run.plan.ccs.len() > 2;
    let mut columns =
        vec![Column::word("metric", 0), Column::word("verdict", 0), Column::number("improvement", 0)];
    columns.extend([
        Column::number("base → candidate", 1),
        Column::number("95 % interval", 2),
        Column::number("difference", 3),
        Column::number("A/A noise", 4),
        Column::number("blocks", 5),
    ]);
    // One candidate is named once, in the caption's place of the column.
    columns.insert(0, Column::word("candidate", if several { 0 } else { 6 }));
    columns
}

fn row(c: &Comparison, mark: &str) -> Row {
    let unit = c.metric.unit;
    let (base, cand) = (c.judged.baseline_spread.show(unit), c.judged.candidate_spread.show(unit));
    let number = |text: String| Word::from(text);
    Row::Words(vec![
        number(c.candidate.clone()),
        number(c.metric.label.to_string()),
        Word::verdict(c.judged.verdict, mark),
        number(c.improvement_text()),
        number(format!("{} → {cand}", base.trim_end_matches(unit.word).trim_end())),
        number(c.interval_text()),
        number(c.difference_text()),
        number(c.noise_text()),
        number(c.judged.improvement.n.to_string()),
    ])
}

/// A path's name and its text, once.
fn heading(run: &Run, path: usize, width: usize) -> String {
    let path = &run.plan.paths[path];
    let name = styled(&path.name, bold());
    if path.name == path.text || path.text.is_empty() {
        return name;
    }
    let one_line = path.name.chars().count() + 2 + path.text.chars().count() <= width;
    let text =
        if one_line { path.text.clone() } else { wrapped(&path.text, width - 4, 4).trim_end().to_string() };
    format!("{name}{}{}", if one_line { "  " } else { "\n    " }, styled(&text, faint()))
}

/// How many comparisons are not in the table, by what they amount to.
fn not_shown(all: &[&Comparison], shown: usize) -> String {
    let judged = all.iter().filter_map(|c| c.judged.verdict);
    let count = |verdict: &Verdict| judged.clone().filter(|v| v == verdict).count();
    let counts: Vec<String> =
        Verdict::ALL.iter().filter(|v| count(v) > 0).map(|v| format!("{} {v}", count(v))).collect();
    let decided = count(&Verdict::Better) + count(&Verdict::Worse);
    let (counts, all, verdicts) = (counts.join(", "), all.len(), judged.clone().count());
    if shown == 0 {
        return format!(
            "None of {verdicts} verdicts is better or worse ({counts}); --format full prints them."
        );
    }
    let which = if shown < decided { "the largest of those" } else { "those" };
    format!(
        "Shown are {shown} of {all} comparisons, {which} that are better or worse. All verdicts: {counts}. --format full prints \
         every comparison."
    )
}

/// The front of a search, and how its members are measured again. Names have lines of their own, because they must be whole
/// to be copied.
fn search(run: &Run, front: &Front, width: usize) -> String {
    let members = front.members();
    let columns = [
        Column::number("goodput", 0),
        Column::number("95 % interval", 0),
        Column::number(&noun(front.delay), 0),
        Column::number("95 % interval", 0),
    ];
    let rows = |points: &[&Point]| -> Vec<Row> {
        let row = |point: &&Point| {
            let mut words = Vec::new();
            for mean in [&point.goodput, &point.delay] {
                words.extend([mean.ratio_text(), mean.interval_text()].map(Word::from));
            }
            [Row::Heading(point.cc.clone()), Row::Words(words)]
        };
        points.iter().flat_map(row).collect()
    };
    let is_given =
        |cc: &str| run.plan.draws.iter().flat_map(|draws| &draws.of).any(|asked| asked.as_str() == cc);
    let given: Vec<&Point> = front.points.iter().filter(|p| !p.is_on_front && is_given(&p.cc)).collect();
    let mut text = String::new();
    for (which, points) in [("The front", &members), ("Not drawn, and not on the front", &given)] {
        if !points.is_empty() {
            let caption = format!("{which}, as ratios to {}", run.baseline());
            text += &format!("{}\n{}", styled(&caption, bold()), table(&columns, &rows(points), width).0);
        }
    }
    for remark in front.remarks() {
        text += &wrapped(&remark, width, 2);
    }
    text += &wrapped("results.json has all candidates, and --format full prints them.", width, 2);
    if !members.is_empty() {
        let names: Vec<&str> = members.iter().map(|point| point.cc.as_str()).collect();
        let what = "To measure the front again with another seed; put other paths in the place of these:";
        text += &format!("\n{}{}\n", wrapped(what, width, 2), run.plan.command_again(&names));
    }
    text
}

/// One line for each controller; where these would not be read, one for all and one for each that lost cells.
fn counts(run: &Run, findings: &Findings, extent: Extent) -> String {
    let all = &findings.counts;
    let is_read = all.len() <= COUNTED && run.plan.draws.is_none();
    if !is_read && !extent.is_full {
        let sum = |of: fn(&Count) -> usize| all.iter().map(of).sum::<usize>();
        let lost: Vec<&Count> = all.iter().filter(|c| c.ok < c.planned).collect();
        let (ok, planned) = (sum(|c| c.ok), sum(|c| c.planned));
        let mut text = format!(
            "{} controllers: {ok} of {planned} cells ok, {} excluded\n",
            all.len(),
            sum(|c| c.excluded)
        );
        lost.iter().take(LINES).for_each(|c| text += &count(c));
        if lost.len() > LINES {
            text += &format!("{} more controllers lost cells; --format full has them\n", lost.len() - LINES);
        }
        return text;
    }
    all.iter().map(count).collect()
}

fn count(c: &Count) -> String {
    let not_run = match c.planned - c.attempted {
        0 => String::new(),
        n => format!(", {n} not run"),
    };
    format!("{}: {} of {} cells ok, {} excluded{not_run}\n", c.cc, c.ok, c.planned, c.excluded)
}

fn excluded(run: &Run) -> Vec<String> {
    let cells = run.cells.iter().filter(|c| c.excluded.is_some() && c.status() != NOT_RUN);
    let line = |c: &super::run::RunCell| {
        let path = &run.plan.paths[c.cell.path].name;
        format!("cell {:03} ({} on {path}): {}", c.cell.index, c.cell.cc, c.status())
    };
    cells.map(line).collect()
}

fn tried_again(run: &Run) -> Vec<String> {
    let cells = run.cells.iter().filter_map(|c| Some((c, c.data.as_ref()?)));
    let attempts = cells.flat_map(|(cell, data)| {
        let line = |(number, why): (usize, &String)| {
            format!("cell {:03}, attempt {}: {why}", cell.cell.index, number + 1)
        };
        data.result.attempts.iter().enumerate().map(line).collect::<Vec<_>>()
    });
    attempts.collect()
}

/// Lines of one kind, each with the kind in front; the rest is counted.
fn lines(all: &[String], kind: &str, extent: Extent) -> String {
    let shown = if extent.is_full { all.len() } else { LINES };
    let mut text: String =
        all.iter().take(shown).map(|line| wrapped(&format!("{kind}: {line}"), extent.width, 2)).collect();
    if all.len() > shown {
        text += &format!("{kind}: {} more, see report.html\n", all.len() - shown);
    }
    text
}
