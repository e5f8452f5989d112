//! The Pareto front: the candidates that no other one beats in goodput and in delay at once.
//!
//! Where many candidates are compared, as in a search, the question is not which of them is better than the baseline, but
//! which are worth another look: of any other candidate one of these carries at least as much with at most as long a queue.
//! `text` and `page` show the front; a search begins and ends with it.

use super::answer::{DROP_DELAY, GOODPUT, MESSAGE_DELAY, QUEUE_DELAY, noun};
use super::findings::Comparison;
use super::mean::{self, Mean};
use super::run::Run;
use crate::metric::{METRICS, Metric, index_of};
use crate::plan::draw::has_range;
use headway_cc::cc::name_and_settings;
use std::collections::BTreeSet;

/// Fewer candidates besides the baseline are read one by one.
const LEAST_CANDIDATES: usize = 3;

/// More candidates that have no place are counted and not named.
const NAMED: usize = 3;

#[derive(Debug)]
pub struct Front {
    /// The delay that is compared; every path has it.
    pub delay: &'static Metric,
    pub points: Vec<Point>,
    /// Whether the baseline itself is on the front.
    pub has_baseline: bool,
    /// Candidates that lack goodput or delay on a path that others have them on.
    pub without_place: Vec<String>,
    /// How many candidates came out exactly as the baseline or as a candidate before them.
    pub repeated: usize,
}

/// A candidate's place: its means over the paths, as ratios to the baseline.
#[derive(Clone, Debug)]
pub struct Point {
    pub cc: String,
    pub goodput: Mean,
    pub delay: Mean,
    pub is_on_front: bool,
}

/// Goodput and delay as ratios to the baseline.
type Place = (f64, f64);

const BASELINE: Place = (1.0, 1.0);

impl Front {
    /// `None` where too few candidates have a place.
    pub fn of(run: &Run, comparisons: &[Comparison]) -> Option<Self> {
        if run.plan.draws.is_none() && run.plan.ccs.len() <= LEAST_CANDIDATES {
            return None;
        }
        let delay = delay(run, comparisons);
        let of = |name: &str| {
            let all = mean::over_paths(run, index_of(name), 1);
            let most = all.iter().map(|mean| mean.paths).max().unwrap_or(0);
            all.into_iter().filter(move |mean| mean.paths == most).collect::<Vec<_>>()
        };
        let (goodputs, delays) = (of(GOODPUT), of(delay));
        let mut points = Vec::new();
        let mut without_place = Vec::new();
        for cc in run.plan.labels().skip(1) {
            let mine = |means: &[Mean]| means.iter().find(|mean| mean.candidate == cc).cloned();
            match (mine(&goodputs), mine(&delays)) {
                (Some(goodput), Some(delay)) => {
                    points.push(Point { cc: cc.into(), goodput, delay, is_on_front: false })
                }
                _ => without_place.push(cc.to_string()),
            }
        }
        if points.is_empty() || points.len() < LEAST_CANDIDATES && run.plan.draws.is_none() {
            return None;
        }
        let places: Vec<Place> = std::iter::once(BASELINE).chain(points.iter().map(Point::place)).collect();
        let on_front: Vec<bool> = (0..places.len()).map(|at| is_on_front(&places, at)).collect();
        points.iter_mut().zip(&on_front[1..]).for_each(|(point, is_on)| point.is_on_front = *is_on);
        let repeated = (1..places.len()).filter(|at| places[..*at].contains(&places[*at])).count();
        let delay = &METRICS[index_of(delay)];
        Some(Self { delay, points, has_baseline: on_front[0], without_place, repeated })
    }

    /// The candidates on the front, the shortest delay first.
    pub fn members(&self) -> Vec<&Point> {
        let mut members: Vec<&Point> = self.points.iter().filter(|point| point.is_on_front).collect();
        members.sort_by(|a, b| a.delay.ratio.total_cmp(&b.delay.ratio));
        members
    }

    /// What a reader must know of the candidates that have no place of their own.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.repeated > 0 {
            remarks.push(format!(
                "{} of {} candidates came out exactly as the baseline or as another one: on these paths what tells them apart makes \
                 no difference.",
                self.repeated,
                self.points.len()
            ));
        }
        if !self.without_place.is_empty() {
            let named = self.without_place.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let more = match self.without_place.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            remarks.push(format!(
                "Left out, because they have no goodput or no {} on some path: {named}{more}. results.csv has the reasons.",
                noun(self.delay)
            ));
        }
        remarks
    }
}

impl Point {
    fn place(&self) -> Place {
        (self.goodput.ratio, self.delay.ratio)
    }
}

/// Whether no other place has as much goodput with as short a delay, and more of one. Of equal places the first counts.
fn is_on_front(places: &[Place], at: usize) -> bool {
    let (goodput, delay) = places[at];
    let beats = |(other, place): (usize, &Place)| {
        let is_as_good = place.0 >= goodput && place.1 <= delay;
        is_as_good && (*place != places[at] || other < at)
    };
    !places.iter().enumerate().any(beats)
}

/// The delay that a user of these paths feels: that of messages where every path has them, that after a drop of the rate
/// where every path has one.
fn delay(run: &Run, comparisons: &[Comparison]) -> &'static str {
    let paths = run.plan.paths.len();
    let drops: BTreeSet<usize> =
        comparisons.iter().filter(|c| c.metric.name == DROP_DELAY).map(|c| c.path).collect();
    match () {
        () if (0..paths).all(|path| run.plan.traffic(path).messages.is_some()) => MESSAGE_DELAY,
        () if drops.len() == paths => DROP_DELAY,
        () => QUEUE_DELAY,
    }
}

/// The candidates that are shown one by one, the baseline first: all, or of a search those that nobody has drawn and the
/// front.
pub fn shown(run: &Run, front: Option<&Front>) -> Vec<String> {
    let members: BTreeSet<&str> =
        front.iter().flat_map(|f| &f.points).filter(|p| p.is_on_front).map(|p| p.cc.as_str()).collect();
    let is_shown = |cc: &&str| match &run.plan.draws {
        Some(draws) => members.contains(cc) || draws.of.iter().any(|asked| asked.as_str() == *cc),
        None => true,
    };
    run.plan.labels().filter(is_shown).map(String::from).collect()
}

/// The candidates of a search as its title names them: `headway` and `64 draws of headway`. The ranges stand elsewhere.
pub fn searched(run: &Run) -> Vec<String> {
    let of = run.plan.draws.iter().flat_map(|draws| draws.of.iter().skip(1).map(|cc| (draws.count, cc)));
    let name = |(count, cc): (u32, &crate::plan::Label)| match has_range(cc) {
        true => format!("{count} draws of {}", name_and_settings(cc.controller()).0),
        false => cc.to_string(),
    };
    of.map(name).collect()
}

/// What a search amounts to: the front, and what it is worth.
pub fn sentences(run: &Run, front: Option<&Front>) -> Vec<String> {
    let Some(front) = front else {
        return vec!["No candidate has both goodput and a delay to compare, so there is no front.".into()];
    };
    let (base, delay, all) = (run.baseline(), noun(front.delay), front.points.len());
    let members = front.members();
    let over = match front.points[0].goodput.paths {
        1 => "on this path".to_string(),
        paths => format!("in the geometric mean over {paths} paths"),
    };
    let at = |point: &Point| {
        format!(
            "{} (goodput ×{}, {delay} ×{} of {base}'s)",
            point.cc,
            point.goodput.ratio_text(),
            point.delay.ratio_text()
        )
    };
    let first = match &members[..] {
        [] => {
            return vec![format!(
                "None of {all} candidates is on the front: {base} itself has at least as much goodput and at most as long a \
                 {delay} as each of them, {over}."
            )];
        }
        [one] if !front.has_baseline => {
            format!(
                "Of {all} candidates {} has both the most goodput and the shortest {delay}, {over}.",
                at(one)
            )
        }
        [one] => format!(
            "Only one of {all} candidates is on the front, {}: each of the others is equalled or beaten in goodput and in {delay} at \
             once, by it or by {base}, {over}.",
            at(one)
        ),
        [first, .., last] => format!(
            "{} of {all} candidates are on the front, where no other has both more goodput and a shorter {delay}, {over}: from \
             {} to {}.",
            members.len(),
            at(first),
            at(last)
        ),
    };
    let they = if members.len() == 1 { "It is" } else { "They are" };
    let luck = format!(
        "{they} the best of {all}, and whatever is the best of many owes a part of that to luck: before anything is claimed, measure \
         again with another seed and on paths that had no part in the search."
    );
    vec![first, luck]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_front(places: &[Place]) -> Vec<usize> {
        (0..places.len()).filter(|at| is_on_front(places, *at)).collect()
    }

    #[test]
    fn the_front_are_those_that_no_other_beats_in_both() {
        assert_eq!(on_front(&[(1.0, 1.0), (1.1, 1.2), (0.9, 0.5), (0.8, 0.6), (1.05, 1.3)]), [0, 1, 2]);
        assert_eq!(
            on_front(&[(1.0, 1.0), (1.1, 0.9), (1.0, 0.9)]),
            [1],
            "more in one and as much in the other"
        );
    }

    #[test]
    fn of_equals_the_first_is_on_the_front() {
        assert_eq!(on_front(&[(1.0, 1.0), (1.0, 1.0), (1.2, 2.0), (1.2, 2.0)]), [0, 2]);
        assert_eq!(on_front(&[(1.0, 1.0); 5]), [0]);
    }
}
