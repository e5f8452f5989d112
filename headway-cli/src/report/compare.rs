//! `headway compare --summary FILE.csv`: intervals and verdicts for a table of means that somebody else measured.
//!
//! One row is one sample. The columns before the one that ends in `_mean` name the case; one of them is `cc`, the
//! controller. After it come the standard deviation (`…_stddev` or `…_sd`) and `n`. A column `remark` holds what
//! somebody said about the case: a controller and a word (`cubic slightly better`), or `same`. Other columns behind
//! the mean are passed over.
//!
//! `input` reads the table, `remark` a remark, `output` prints. Values that were measured one by one are not judged
//! here but in `judge`: moments tell less than pairs do.

mod input;
mod output;
mod remark;

use crate::metric::Better;
use crate::report::judge;
use crate::stats::welch::welch;
use crate::stats::{Shift, Verdict};
use crate::sys::file::read_text;
use crate::sys::out::plain;
use anyhow::{Context, Result, bail, ensure};
use input::{Row, Sample, Table};
use remark::{Claim, Remark};
use std::path::Path;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The controller that the others are held against; the file's first when `None`.
    pub baseline: Option<String>,
    pub better: Better,
    /// Smallest share of the baseline that matters.
    pub margin: f64,
}

/// A table, judged.
#[derive(Debug)]
pub struct JudgedTable {
    source: String,
    baseline: String,
    better: Better,
    margin: f64,
    /// Names of the columns that make a case.
    keys: Vec<String>,
    metric: String,
    pairs: Vec<Pair>,
    /// Cases that lack the baseline or have nothing but it.
    alone: Vec<String>,
}

/// Baseline and candidate in one case.
#[derive(Debug)]
struct Pair {
    case: Vec<String>,
    candidate: String,
    base: Sample,
    cand: Sample,
    /// As shares of the baseline, positive is better; `None` where a sample is too small.
    improvement: Option<Shift>,
    /// The p value after Holm's correction over the pairs that can be compared.
    p_family: f64,
    verdict: Verdict,
    remark: Option<Remark>,
}

/// Reads a file and judges it.
///
/// # Errors
/// One sentence with the line, and a hint, where the file is no such table or a remark cannot be understood.
pub fn summary(file: &Path, terms: &Terms) -> Result<JudgedTable> {
    let shown = file.display();
    let text = read_text(file).with_context(|| format!("cannot read `{shown}`"))?;
    compare(&plain(&text), terms, &shown.to_string()).with_context(|| {
        format!("cannot compare `{shown}`\nhint: it takes columns such as `host,cc,goodput_gbps_mean,goodput_gbps_stddev,n`")
    })
}

fn compare(text: &str, terms: &Terms, source: &str) -> Result<JudgedTable> {
    let table = Table::read(text)?;
    let rows = table.rows()?;
    let first = rows.first().context("the file has no rows")?;
    let baseline = terms.baseline.clone().unwrap_or_else(|| first.cc.clone());
    ensure!(rows.iter().any(|r| r.cc == baseline), "no row has the baseline `{baseline}` in its column `cc`");
    let (mut pairs, mut alone) = (Vec::new(), Vec::new());
    for case in cases(&rows)? {
        let here: Vec<&Row> = rows.iter().filter(|r| r.case == *case).collect();
        match here.iter().find(|r| r.cc == baseline) {
            Some(base) if here.len() > 1 => {
                let candidates = here.iter().filter(|r| r.cc != baseline);
                pairs.extend(candidates.map(|cand| Pair::new(base, cand, terms)));
            }
            _ => alone.push(case.join(" ")),
        }
    }
    decide(&mut pairs, terms.margin);
    check_remarks(&mut pairs, &rows, &baseline)?;
    let (keys, metric) = (table.keys(), table.metric().to_string());
    let source =
        Path::new(source).file_name().map_or(source.into(), |name| name.to_string_lossy().into_owned());
    let Terms { better, margin, .. } = *terms;
    Ok(JudgedTable { source, baseline, better, margin, keys, metric, pairs, alone })
}

/// The cases in the order of the file. A controller that has two rows in one is an error: nobody knows which counts.
fn cases(rows: &[Row]) -> Result<Vec<&Vec<String>>> {
    let mut cases: Vec<&Vec<String>> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        if let Some(twin) = rows[..at].iter().find(|r| r.case == row.case && r.cc == row.cc) {
            bail!("lines {} and {} are the same case of `{}`", twin.line, row.line, row.cc);
        }
        if !cases.contains(&&row.case) {
            cases.push(&row.case);
        }
    }
    Ok(cases)
}

/// The verdicts of the pairs that can be compared, as one family.
fn decide(pairs: &mut [Pair], margin: f64) {
    let mut family: Vec<(&mut Pair, Shift)> =
        pairs.iter_mut().filter_map(|p| p.improvement.map(|improvement| (p, improvement))).collect();
    let members: Vec<(Shift, f64)> = family.iter().map(|(_, improvement)| (*improvement, margin)).collect();
    for ((pair, _), (p, verdict)) in family.iter_mut().zip(judge::verdicts(&members)) {
        (pair.p_family, pair.verdict) = (p, verdict);
    }
}

/// Holds against its verdict what was said about a pair, in the row of either side.
fn check_remarks(pairs: &mut [Pair], rows: &[Row], baseline: &str) -> Result<()> {
    for pair in pairs {
        let said =
            rows.iter().filter(|r| r.case == pair.case && (r.cc == baseline || r.cc == pair.candidate));
        if let Some(row) = said.into_iter().find(|r| !r.remark.is_empty()) {
            let claim = Claim::read(&row.remark, [baseline, &pair.candidate])
                .with_context(|| format!("line {}: the remark `{}`", row.line, row.remark))?;
            pair.remark = Some(Remark { text: row.remark.clone(), holds: claim.check(pair.verdict) });
        }
    }
    Ok(())
}

impl Pair {
    fn new(base: &Row, cand: &Row, terms: &Terms) -> Self {
        let improvement = welch(&base.sample.moments, &cand.sample.moments).map(|ratio| {
            let gain = if terms.better == Better::Higher { ratio } else { ratio.mirrored() };
            judge::as_shares(gain, terms.better)
        });
        Self {
            case: base.case.clone(),
            candidate: cand.cc.clone(),
            base: base.sample.clone(),
            cand: cand.sample.clone(),
            improvement,
            p_family: 1.0,
            verdict: Verdict::TooFewBlocks,
            remark: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published means of BBR and CUBIC on 100G hosts.
    const DTN: &str = include_str!("../../tests/data/dtn_throughput_summary.csv");

    fn terms() -> Terms {
        Terms { baseline: Some("cubic".into()), better: Better::Higher, margin: 0.02 }
    }

    fn verdicts<'a>(c: &'a JudgedTable, host: &str, case: [&str; 2]) -> (&'a Pair, Verdict) {
        let pair = c.pairs.iter().find(|p| p.case[0].starts_with(host) && p.case[2..] == case).unwrap();
        (pair, pair.verdict)
    }

    #[test]
    fn the_published_dtn_table_is_judged() {
        let c = compare(DTN, &terms(), "dtn").unwrap();
        assert_eq!(c.keys, ["dest_host", "rtt_ms", "streams", "pacing_gbps"]);
        assert_eq!((c.pairs.len(), c.count(|p| p.improvement.is_some())), (21, 17));
        assert_eq!(c.count(|p| p.verdict == Verdict::Inconclusive), 7);
        // Unpaced, 8 streams: BBR is ahead, by less than the margin. Paced it is behind, by more.
        let (pair, verdict) = verdicts(&c, "star-dtn1", ["8", "0.0"]);
        assert_eq!(verdict, Verdict::BetterTrivial);
        assert!(pair.improvement.unwrap().low > 0.0 && pair.interval_text() == "+1.1 .. +1.9 %", "{pair:?}");
        assert_eq!(verdicts(&c, "star-dtn1", ["8", "12.0"]).1, Verdict::Worse);
        assert_eq!(verdicts(&c, "star-dtn1", ["1", "0.0"]).1, Verdict::Inconclusive);
        assert_eq!(verdicts(&c, "cern773", ["8", "0.0"]).1, Verdict::Better);
        // Two printed standard deviations of 0.00 are no certainty.
        assert_eq!(verdicts(&c, "ps01-l", ["8", "12.0"]).1, Verdict::Inconclusive);
        assert_eq!(verdicts(&c, "fiona", ["8", "0.0"]).1, Verdict::TooFewBlocks);
        let narrow = anstream::adapter::strip_str(&c.text(80)).to_string();
        assert!(narrow.lines().all(|l| l.chars().count() <= 80), "{narrow}");
        let text = c.text(usize::MAX);
        assert!(text.contains("17 of 21 pairs can be compared; 7 of these are inconclusive."), "{text}");
        // The other way round the verdicts mirror.
        let mirrored = compare(DTN, &Terms { baseline: None, ..terms() }, "dtn").unwrap();
        assert_eq!(mirrored.baseline, "bbr");
        assert_eq!(verdicts(&mirrored, "star-dtn1", ["8", "12.0"]).1, Verdict::Better);
        assert_eq!(mirrored.count(|p| p.verdict == Verdict::Inconclusive), 7);
    }

    #[test]
    fn remarks_are_held_against_the_numbers() {
        let said = |remark: &str| {
            let text = format!(
                "host,cc,goodput_mean,goodput_sd,n,remark\na,cubic,94.66,0.46,10,{remark}\na,bbr,96.09,0.39,10,\n\
                 b,cubic,26.85,2.63,10,{remark}\nb,bbr,24.65,2.59,10,\n"
            );
            let c = compare(&text, &terms(), "said")?;
            let held = |p: &Pair| p.remark.clone().unwrap().holds.err().unwrap_or_else(|| "holds".into());
            anyhow::Ok((c.pairs.iter().map(held).collect::<Vec<_>>(), c))
        };
        let (held, c) = said("CUBIC slightly better").unwrap();
        assert_eq!(held, ["it is the other way round", "the numbers are inconclusive"]);
        assert!(c.text(usize::MAX).contains("2 of 2 remarks do not hold."));
        let page = c.page();
        assert!(page.contains("Remarks that do not hold") && page.contains("it is the other way round"));
        assert_eq!(said("bbr better than cubic").unwrap().0[0], "holds");
        assert_eq!(said("cubic slower").unwrap().0[0], "holds");
        assert_eq!(said("same").unwrap().0[0], "holds", "1.5 % is within the margin");
        let error = |remark: &str| format!("{:#}", said(remark).unwrap_err());
        assert!(
            error("reno better").contains("line 2: the remark `reno better`: names neither cubic nor bbr")
        );
        assert!(error("bbr").contains("does not say which is better"));
    }

    #[test]
    fn lower_can_be_better() {
        let text = "cc,rtt_ms_mean,rtt_ms_sd,n\nbbr,100,1,10\ncubic,200,1,10\n";
        let c = compare(text, &Terms { better: Better::Lower, ..terms() }, "x").unwrap();
        let improvement = c.pairs[0].improvement.unwrap();
        assert!(
            (improvement.center - 0.5).abs() < 0.001
                && improvement.low > 0.49
                && improvement.low < improvement.high
        );
        assert_eq!(c.pairs[0].verdict, Verdict::Better);
    }

    #[test]
    fn a_wrong_file_names_the_line_and_the_column() {
        let error = |text: &str| format!("{:#}", compare(text, &terms(), "x").unwrap_err());
        assert!(error("").contains("empty"));
        assert!(error("a,b\n").contains("no column `cc`"));
        assert!(error("cc,x_mean,n\n").contains("`_stddev` or `_sd`"));
        assert!(error("cc,x_mean,x_sd,n\n").contains("no rows"));
        let head = "host,cc,x_mean,x_sd,n\n";
        assert!(error(&format!("{head}a,bbr,1,1,5\n")).contains("baseline `cubic`"));
        assert!(error(&format!("{head}a,cubic,one,1,5\n")).contains("line 2: `one` is no number for x_mean"));
        assert!(error(&format!("{head}a,cubic,1,1\n")).contains("line 2 has 4 columns, the first line 5"));
        assert!(error(&format!("{head}a,cubic,1,-1,5\n")).contains("negative"));
        assert!(error(&format!("{head}a,cubic,1,1,2.5\n")).contains("`2.5` is no count"));
        let twice = format!("{head}a,cubic,1,1,5\na,cubic,1,1,5\n");
        assert!(error(&twice).contains("lines 2 and 3 are the same case of `cubic`"));
        let lonely = compare(&format!("{head}a,cubic,1,1,5\n\"b, c\",bbr,1,1,5\n"), &terms(), "x").unwrap();
        assert!(
            lonely.text(usize::MAX).contains("Cases without cubic and another controller: a; b, c."),
            "{}",
            lonely.text(usize::MAX)
        );
    }
}
