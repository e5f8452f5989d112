//! `--draws`: candidates drawn from ranges, for a search.
//!
//! `headway:newcomer_keep=0.3..0.7:newcomer_alone_us=500ms..2s` is a space of candidates, and a search measures N points of
//! it. They are drawn before the run, from the plan's seed, and stand in the plan like candidates that a user has written,
//! so that whatever runs, resumes, merges or reports a plan knows nothing of them.

use crate::plan::label::Label;
use anyhow::{Result, ensure};
use headway_cc::cc::params::Range;
use headway_cc::cc::{entry, name_and_settings};
use headway_cc::rand::Rng;
use serde::{Deserialize, Serialize};

/// More candidates than this are no longer compared on one plan: with four paths and eight blocks they are 32 000 cells.
const MOST: u32 = 1000;

/// What the candidates of a plan were drawn from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draws {
    /// The candidates as they were asked for, some of them with ranges.
    pub of: Vec<Label>,
    /// How many candidates each of those with ranges stands for.
    pub count: u32,
}

impl Draws {
    /// The candidates that have ranges.
    pub fn ranged(&self) -> impl Iterator<Item = &str> {
        self.of.iter().filter(|cc| has_range(cc)).map(Label::whole)
    }

    /// `bbr3`, `headway` and `64 draws of headway:newcomer_keep=0.3..0.7`.
    pub fn in_words(&self) -> Vec<String> {
        let word =
            |cc: &Label| if has_range(cc) { format!("{} draws of {cc}", self.count) } else { cc.to_string() };
        self.of.iter().map(word).collect()
    }
}

/// Is some setting of the candidate a range?
pub fn has_range(cc: &Label) -> bool {
    name_and_settings(cc.controller()).1.any(is_range)
}

fn is_range(setting: &str) -> bool {
    setting.contains("..")
}

/// The candidates with `count` drawn ones in the place of each that has ranges.
///
/// # Errors
/// Ranges without a count and a count without ranges; a count that is too large, for the program or for the ranges; ranges
/// that their parameters cannot have.
pub fn drawn(ccs: &[Label], count: Option<u32>, seed: u64) -> Result<Vec<Label>> {
    let ranged = ccs.iter().find(|cc| has_range(cc));
    let (Some(ranged), Some(count)) = (ranged, count) else {
        ensure!(
            count.is_none(),
            "--draws needs a candidate with a range of values\nhint: `--cc bbr3,bbr3:up_pacing_gain=1.1..1.5 --draws 16`"
        );
        ensure!(
            ranged.is_none(),
            "`{}` has a range of values, which is not one candidate but many\nhint: `--draws 16` measures 16 of them",
            ranged.map_or("", Label::whole)
        );
        return Ok(ccs.to_vec());
    };
    ensure!((1..=MOST).contains(&count), "--draws must be between 1 and {MOST}");
    ensure!(
        !has_range(&ccs[0]),
        "`{ranged}` is the baseline, which must be one candidate and not a range\nhint: `--cc {},{ranged}`",
        name_and_settings(ccs[0].controller()).0
    );
    let mut all = Vec::new();
    for cc in ccs {
        if has_range(cc) { all.extend(draw(cc, count, seed)?) } else { all.push(cc.clone()) }
    }
    Ok(all)
}

/// The first `count` different candidates of the sequence. A longer sequence begins with the same ones, so that a search
/// can be made larger.
fn draw(cc: &Label, count: u32, seed: u64) -> Result<Vec<Label>> {
    let (name, settings) = name_and_settings(cc.controller());
    let Some(table) = entry(name).and_then(|entry| entry.params) else {
        // The check of the plan refuses it, and knows which controllers there are.
        return Ok(vec![cc.clone()]);
    };
    let settings: Vec<&str> = settings.collect();
    let fail = |e| anyhow::Error::new(e).context(format!("cannot draw from `{cc}`"));
    let ranges: Vec<Option<Range>> =
        settings.iter().map(|s| table.range(s)).collect::<Result<_, _>>().map_err(fail)?;
    let after = &cc.whole()[cc.controller().len()..];
    let mut drawn: Vec<Label> = Vec::new();
    // A point that has been drawn already adds nothing. Ranges with few values are used up long before this many points.
    for point in 0..100 * u64::from(count) {
        if drawn.len() == count as usize {
            break;
        }
        let mut text = name.to_string();
        let mut dimension = 0;
        for (setting, range) in settings.iter().zip(&ranges) {
            text += ":";
            text += &match range {
                Some(range) => {
                    dimension += 1;
                    range.at(share(point, dimension, seed))
                }
                None => setting.to_string(),
            };
        }
        let label = Label::from(text + after);
        if !drawn.contains(&label) {
            drawn.push(label);
        }
    }
    ensure!(
        drawn.len() == count as usize,
        "`{cc}` stands for only {} different candidates of three significant digits, and --draws asks for {count}\n\
         hint: --draws {0}, or a wider range",
        drawn.len()
    );
    Ok(drawn)
}

/// A coordinate, from 0 to 1, of one point of a randomized Halton sequence (Owen 2017, arXiv 1706.02808). Its points fill
/// the space evenly however many of them are taken: the digits of the point's number, in a prime base of the dimension's
/// own and the last digit first, are the digits of the coordinate, after a random permutation of each.
fn share(point: u64, dimension: u64, seed: u64) -> f64 {
    let base = prime(dimension);
    let (mut rest, mut unit, mut share) = (point, 1.0, 0.0);
    for place in 0.. {
        unit /= base as f64;
        if unit < f64::EPSILON {
            break;
        }
        let mut digits: Vec<u64> = (0..base).collect();
        let mut rng = Rng::new(seed, STREAM | dimension << 8 | place);
        for i in (1..digits.len()).rev() {
            digits.swap(i, rng.below(i as u64 + 1) as usize);
        }
        share += unit * digits[(rest % base) as usize] as f64;
        rest /= base;
    }
    share
}

/// Keeps the draws apart from what else the seed decides.
const STREAM: u64 = 0x6472_6177 << 32;

/// The n-th prime number.
fn prime(n: u64) -> u64 {
    let is_prime = |n: &u64| (2..*n).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (2..).filter(is_prime).nth(n as usize - 1).unwrap_or(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn labels(ccs: &[&str]) -> Vec<Label> {
        ccs.iter().map(|cc| Label::from(*cc)).collect()
    }

    fn texts(ccs: &[&str], count: u32, seed: u64) -> Vec<String> {
        drawn(&labels(ccs), Some(count), seed).unwrap().iter().map(|cc| cc.whole().to_string()).collect()
    }

    const SPACE: &str =
        "headway:newcomer_keep=0.3..0.7:ladder=1:newcomer_alone_us=10ms..2s:ladder_slots=2..9";

    #[test]
    fn a_longer_search_begins_with_the_shorter_one() {
        let all = texts(&["bbr3", SPACE], 300, 7);
        assert_eq!(all.len(), 301);
        assert_eq!(texts(&["bbr3", SPACE], 20, 7), all[..21]);
        assert_ne!(texts(&["bbr3", SPACE], 20, 8), all[..21], "another seed draws others");
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "none is drawn twice");
    }

    /// What is drawn is written down: a search that is repeated with another version must draw the same.
    #[test]
    fn the_first_draws_of_a_seed_are_these() {
        let first = texts(&["bbr3", SPACE, "headway"], 3, 1);
        assert_eq!(first[0], "bbr3");
        assert_eq!(first[4], "headway");
        let drawn = [
            "headway:newcomer_keep=0.624:ladder=1:newcomer_alone_us=1.34s:ladder_slots=9",
            "headway:newcomer_keep=0.424:ladder=1:newcomer_alone_us=39.3ms:ladder_slots=6",
            "headway:newcomer_keep=0.524:ladder=1:newcomer_alone_us=230ms:ladder_slots=3",
        ];
        assert_eq!(first[1..4], drawn);
    }

    #[test]
    fn every_drawn_candidate_lies_in_its_ranges_and_can_be_set() {
        for cc in drawn(&labels(&["bbr3", SPACE]), Some(200), 3).unwrap().iter().skip(1) {
            let (name, settings) = name_and_settings(cc.controller());
            let table = entry(name).unwrap().params.unwrap();
            let words = table.with(settings).unwrap();
            let word = |name: &str| words[table.rows.iter().position(|p| p.name == name).unwrap()];
            assert!((10_000..=2_000_000).contains(&word("newcomer_alone_us")), "{cc}");
            assert!((2..=9).contains(&word("ladder_slots")) && cc.whole().contains(":ladder=1:"), "{cc}");
        }
    }

    /// Each quarter of a range gets a quarter of the draws, in every dimension and also in pairs of them.
    #[test]
    fn the_draws_fill_the_space_evenly() {
        for seed in 1..4 {
            let mut of_cell = [[0; 4]; 4];
            for point in 0..144 {
                let quarter = |dimension| (share(point, dimension, seed) * 4.0) as usize;
                assert!(quarter(3) < 4 && quarter(40) < 4);
                of_cell[quarter(1)][quarter(2)] += 1;
            }
            let counts = of_cell.iter().flatten();
            assert!(counts.clone().all(|n| (6..=12).contains(n)), "9 in each: {of_cell:?}");
        }
    }

    #[test]
    fn what_else_differs_stays_with_each_draw() {
        let all = texts(&["bbr3", "bbr3:up_pacing_gain=1.1..1.5@6.12/qdisc=fq"], 2, 1);
        let draws = Draws { of: labels(&["bbr3", SPACE]), count: 2 };
        assert_eq!(draws.in_words(), ["bbr3".to_string(), format!("2 draws of {SPACE}")]);
        assert!(all[1..].iter().all(|cc| cc.ends_with("@6.12/qdisc=fq") && !cc.contains("..")), "{all:?}");
    }

    #[test]
    fn draws_and_ranges_need_each_other() {
        let error = |ccs: &[&str], count| drawn(&labels(ccs), count, 1).unwrap_err().to_string();
        let range = "bbr3:up_pacing_gain=1.1..1.5";
        assert!(error(&["bbr", range], None).contains("hint: `--draws 16` measures 16"));
        assert!(error(&["bbr", "bbr3"], Some(16)).contains("--draws needs a candidate with a range"));
        assert!(error(&["bbr", range], Some(0)).contains("between 1 and 1000"));
        assert!(error(&["bbr", range], Some(1001)).contains("between 1 and 1000"));
        assert!(error(&[range], Some(4)).contains("is the baseline"));
        assert!(error(&["bbr", "bbr3:full_bw_count=2..5"], Some(16)).contains("stands for only 4 different"));
        let wrong = |range: &str| format!("{:#}", drawn(&labels(&["bbr", range]), Some(4), 1).unwrap_err());
        assert!(wrong("bbr3:up_pacing_gain=1.1..99").contains("expected 1 to 10"));
        assert!(wrong("bbr3:up_gain=1.1..2").contains("there is no parameter `up_gain`"));
        assert!(wrong("bbr3:up_pacing_gain=2..1").contains("must be below the second"));
        assert!(wrong("bbr3:init_rtt_us=1..2ms").contains("the unit is missing"));
    }

    #[test]
    fn without_ranges_nothing_changes() {
        let ccs = labels(&["bbr", "bbr3:up_pacing_gain=1.1"]);
        assert_eq!(drawn(&ccs, None, 1).unwrap(), ccs);
    }
}
