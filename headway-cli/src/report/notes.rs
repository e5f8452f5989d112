//! Notes: what a reader must know before believing a run's comparisons.
//!
//! Too few blocks, cells that are missing, exclusions that differ between controllers, values that are only lower
//! bounds, and what the cells themselves have noted. Printed below the table and at the head of the page.

use super::run::{Count, Run, RunCell};
use crate::metric::METRICS;
use crate::stats::fisher;

/// Two controllers that lose cells with these odds or less by chance do not lose them by chance: 5 %.
const EXCLUSION_LEVEL: f64 = 0.05;

/// What concerns single candidates is said of these.
pub fn of(run: &Run, counts: &[Count], ccs: &[String]) -> Vec<String> {
    let mut notes = run.damage.clone();
    notes.extend(run.plan.what_cannot_be_decided());
    let missing: usize = counts.iter().map(|c| c.planned - c.attempted).sum();
    if missing > 0 {
        notes.push(format!("{missing} of {} planned cells have not been run.", run.cells.len()));
    }
    notes.extend(without_chance(run));
    notes.extend(exclusions(counts, ccs));
    // A search is about goodput and delay, of which neither is a bound.
    if run.plan.draws.is_none() {
        notes.extend((0..METRICS.len()).flat_map(|metric| bounds(run, metric)));
    }
    notes.extend(noted_by_cells(run, ccs));
    notes
}

/// Paths on which every block of every controller came out the same to the last bit: nothing on them is random, as in the
/// simulator on a path without loss, jitter or messages. Then blocks are one run counted several times.
fn without_chance(run: &Run) -> Option<String> {
    let is_same = |path: usize| {
        let mut repeated = false;
        for cc in run.plan.labels() {
            let cells = || run.cells.iter().filter(move |c| c.cell.path == path && c.cell.cc == *cc);
            let values = |metric| cells().filter_map(move |c| c.counted(metric)).collect::<Vec<f64>>();
            let all: Vec<Vec<f64>> = (0..METRICS.len()).map(values).collect();
            if all.iter().any(|v| v.iter().any(|x| x.to_bits() != v[0].to_bits())) {
                return false;
            }
            repeated |= all.iter().any(|v| v.len() > 1);
        }
        repeated
    };
    let same: Vec<&str> =
        (0..run.plan.paths.len()).filter(|p| is_same(*p)).map(|p| run.plan.paths[p].name.as_str()).collect();
    (!same.is_empty()).then(|| {
        format!(
            "On {} all blocks came out the same: nothing there is random, so each counts once and not {} times. The verdicts \
             and intervals are those of this one case and say nothing of networks that vary.",
            same.join(" and "),
            run.plan.blocks
        )
    })
}

/// Candidates that lost cells more or less often than the baseline. If a controller fails where the path is hardest,
/// the cells that are left are not those that the baseline is left with, and the comparison is between two different
/// paths.
fn exclusions(counts: &[Count], ccs: &[String]) -> Vec<String> {
    let base = &counts[0];
    let differs = |cand: &&Count| {
        let table = [base.ok, base.excluded, cand.ok, cand.excluded].map(|n| n as u64);
        fisher(table[0], table[1], table[2], table[3]) < EXCLUSION_LEVEL
    };
    let note = |cand: &Count| {
        format!(
            "Exclusions differ between {} ({} of {}) and {} ({} of {}): what is left may be a selection.",
            base.cc, base.excluded, base.attempted, cand.cc, cand.excluded, cand.attempted
        )
    };
    counts[1..].iter().filter(|c| ccs.contains(&c.cc)).filter(differs).map(note).collect()
}

/// Says of each controller how many runs have a lower bound only.
fn bounds(run: &Run, metric: usize) -> Vec<String> {
    let note = |cc: &str| {
        let cells = run.cells.iter().filter(|c| c.cell.cc == *cc);
        let values: Vec<(f64, f64)> =
            cells.filter_map(|c| Some((c.counted(metric)?, c.ceilings[metric]?))).collect();
        let bounds = values.iter().filter(|(value, ceiling)| value >= ceiling).count();
        (bounds > 0).then(|| {
            let (name, all) = (METRICS[metric].name, values.len());
            format!(
                "{name}: {bounds} of {all} runs of {cc} never got there. They count with the whole time there was, a \
                 lower bound (≥ where a median is one): differences to them are at least what is shown."
            )
        })
    };
    run.plan.labels().filter_map(note).collect()
}

/// The notes in the cells' own `cell.json`, counted for each controller.
fn noted_by_cells(run: &Run, ccs: &[String]) -> Vec<String> {
    let mut counts: Vec<(&str, &str, usize)> = Vec::new();
    let is_shown = |cell: &&RunCell| ccs.iter().any(|cc| cell.cell.cc == **cc);
    for cell in run.cells.iter().filter(is_shown).filter(|c| c.excluded.is_none()) {
        for note in cell.data.iter().flat_map(|d| &d.result.notes) {
            match counts.iter_mut().find(|(cc, text, _)| (*cc, *text) == (cell.cell.cc.as_str(), note)) {
                Some((_, _, count)) => *count += 1,
                None => counts.push((cell.cell.cc.as_str(), note, 1)),
            }
        }
    }
    counts.sort_unstable();
    let line = |(cc, text, count): (&str, &str, usize)| {
        let all = run.cells.iter().filter(|c| c.cell.cc == cc && c.excluded.is_none()).count();
        format!("{cc}, {count} of {all} runs: {text}.")
    };
    counts.into_iter().map(line).collect()
}
