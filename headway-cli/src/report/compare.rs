//! `headway compare --summary FILE.csv`: intervals and verdicts for a table of means that somebody else measured.
//!
//! One row a sample. The columns before the one that ends in `_mean` name the case; one of them is `cc`. After it come
//! the standard deviation (`…_stddev` or `…_sd`) and `n`. A column `remark` holds what was said about the case: a
//! controller and a word (`cubic slightly better`), or `same`. Other columns behind the mean are passed over.

use crate::metric::Better;
use crate::report::{self, as_shares};
use crate::stats::welch::{MIN_VALUES, Moments, welch};
use crate::stats::{Shift, Verdict, holm};
use anyhow::{Context, Result, bail, ensure};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::path::Path;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The controller that the others are held against; the file's first when `None`.
    pub baseline: Option<String>,
    pub better: Better,
    /// Smallest share of the baseline that matters.
    pub margin: f64,
}

/// A table, judged.
#[derive(Debug)]
pub struct Comparison {
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
    /// After Holm over the pairs that can be compared.
    p_family: f64,
    verdict: Verdict,
    remark: Option<Remark>,
}

#[derive(Clone, Debug)]
struct Sample {
    moments: Moments,
    /// As the file has it: mean and standard deviation.
    text: String,
}

/// What was said, and whether the numbers bear it out.
#[derive(Clone, Debug, PartialEq)]
struct Remark {
    text: String,
    /// `Err` says why not.
    holds: Result<(), String>,
}

#[derive(Debug)]
struct Row {
    line: usize,
    case: Vec<String>,
    cc: String,
    sample: Sample,
    remark: String,
}

/// Reads a file and judges it.
pub fn summary(file: &Path, request: &Request) -> Result<Comparison> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read `{shown}`"))?;
    judge(&text, request, &shown.to_string()).with_context(|| {
        format!("cannot compare `{shown}`\nhint: it takes columns such as `host,cc,goodput_gbps_mean,goodput_gbps_stddev,n`")
    })
}

fn judge(text: &str, request: &Request, source: &str) -> Result<Comparison> {
    let table = Table::read(text)?;
    let rows = table.rows()?;
    let first = rows.first().context("the file has no rows")?;
    let baseline = request.baseline.clone().unwrap_or_else(|| first.cc.clone());
    ensure!(rows.iter().any(|r| r.cc == baseline), "no row has the baseline `{baseline}` in its column `cc`");
    let mut cases: Vec<&Vec<String>> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let twin = rows[..at].iter().find(|r| r.case == row.case && r.cc == row.cc);
        if let Some(twin) = twin {
            bail!("lines {} and {} are the same case of `{}`", twin.line, row.line, row.cc);
        }
        if !cases.contains(&&row.case) {
            cases.push(&row.case);
        }
    }
    let (mut pairs, mut alone) = (Vec::new(), Vec::new());
    for case in cases {
        let here: Vec<&Row> = rows.iter().filter(|r| r.case == *case).collect();
        match here.iter().find(|r| r.cc == baseline) {
            Some(base) if here.len() > 1 => {
                pairs.extend(
                    here.iter().filter(|r| r.cc != baseline).map(|cand| Pair::new(base, cand, request)),
                );
            }
            _ => alone.push(case.join(" ")),
        }
    }
    settle(&mut pairs, &rows, &baseline, request)?;
    let (keys, metric) = (table.keys(), table.metric().to_string());
    let source =
        Path::new(source).file_name().map_or(source.into(), |name| name.to_string_lossy().into_owned());
    Ok(Comparison {
        source,
        baseline,
        better: request.better,
        margin: request.margin,
        keys,
        metric,
        pairs,
        alone,
    })
}

/// Holm over the pairs that can be compared, the verdicts, then what was said about them.
fn settle(pairs: &mut [Pair], rows: &[Row], baseline: &str, request: &Request) -> Result<()> {
    let mut family: Vec<&mut Pair> = pairs.iter_mut().filter(|p| p.improvement.is_some()).collect();
    let adjusted = holm(&family.iter().filter_map(|p| Some(p.improvement?.p)).collect::<Vec<_>>());
    for (pair, p) in family.iter_mut().zip(adjusted) {
        pair.p_family = p;
        if let Some(shift) = &pair.improvement {
            pair.verdict = Verdict::of(shift, p, request.margin);
        }
    }
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
    fn new(base: &Row, cand: &Row, request: &Request) -> Self {
        let sign = if request.better == Better::Higher { 1.0 } else { -1.0 };
        let improvement = welch(&base.sample.moments, &cand.sample.moments).map(|ratio| {
            let gain = if sign > 0.0 { ratio } else { ratio.mirrored() };
            as_shares(gain, request.better)
        });
        Self {
            case: base.case.clone(),
            candidate: cand.cc.clone(),
            base: base.sample.clone(),
            cand: cand.sample.clone(),
            improvement,
            p_family: 1.0,
            verdict: Verdict::TooSmall,
            remark: None,
        }
    }

    fn n(&self) -> String {
        format!("{} and {}", self.base.moments.n, self.cand.moments.n)
    }

    fn improvement_text(&self) -> String {
        self.improvement.map_or("-".into(), |s| report::percent(s.center) + " %")
    }

    fn interval_text(&self) -> String {
        let ends = |s: Shift| format!("{} .. {} %", report::percent(s.low), report::percent(s.high));
        self.improvement.map_or("-".into(), ends)
    }

    fn p_text(&self) -> String {
        self.improvement.map_or("-".into(), |_| format!("{:.3}", self.p_family))
    }

    fn remark_text(&self) -> String {
        match &self.remark {
            None => String::new(),
            Some(Remark { text, holds: Ok(()) }) => format!("\"{text}\" holds"),
            Some(Remark { text, holds: Err(why) }) => format!("\"{text}\" does not hold: {why}"),
        }
    }
}

/// What a remark says: that the candidate is better (`Some(true)`), the baseline, or neither.
#[derive(Debug, PartialEq)]
struct Claim {
    for_candidate: Option<bool>,
}

impl Claim {
    fn read(remark: &str, [baseline, candidate]: [&str; 2]) -> Result<Self> {
        let text = remark.to_lowercase();
        let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let any = |list: &[&str]| words.iter().any(|w| list.contains(w));
        if any(&["same", "equal", "similar", "equivalent"]) {
            return Ok(Self { for_candidate: None });
        }
        let good = any(&["better", "faster", "best", "wins"]);
        let bad = any(&["worse", "slower", "worst", "loses"]);
        // Of two names the first is the subject: `bbr better than cubic`.
        let at = |cc: &str| words.iter().position(|w| *w == cc.to_lowercase());
        let of_candidate = match (at(baseline), at(candidate)) {
            (Some(b), Some(c)) => c < b,
            (base, cand) if base.is_some() != cand.is_some() => cand.is_some(),
            _ => bail!("names neither {baseline} nor {candidate}"),
        };
        ensure!(
            good != bad,
            "does not say which is better: expected `{candidate} better`, `worse` or `same`"
        );
        Ok(Self { for_candidate: Some(of_candidate == good) })
    }

    fn check(&self, verdict: Verdict) -> Result<(), String> {
        use Verdict::{Better, BetterTrivial, Equivalent, Inconclusive, TooSmall, Worse, WorseTrivial};
        match (self.for_candidate, verdict) {
            (_, Inconclusive) => Err("the numbers are inconclusive".into()),
            (_, TooSmall) => Err(format!("fewer than {MIN_VALUES} values on a side")),
            (None, Equivalent | BetterTrivial | WorseTrivial)
            | (Some(true), Better | BetterTrivial)
            | (Some(false), Worse | WorseTrivial) => Ok(()),
            (Some(_), Equivalent) => Err("they are equivalent".into()),
            (Some(_), _) => Err("it is the other way round".into()),
            (None, _) => Err("they differ".into()),
        }
    }
}

impl Comparison {
    fn count(&self, of: impl Fn(&Pair) -> bool) -> usize {
        self.pairs.iter().filter(|p| of(p)).count()
    }

    /// What a reader must know, a sentence each.
    fn findings(&self) -> Vec<String> {
        let comparable = self.count(|p| p.improvement.is_some());
        let mut said = vec![format!(
            "{comparable} of {} pairs can be compared; {} of these are inconclusive.",
            self.pairs.len(),
            self.count(|p| p.verdict == Verdict::Inconclusive)
        )];
        if comparable < self.pairs.len() {
            let small = self.pairs.len() - comparable;
            said.push(format!("{small} have fewer than {MIN_VALUES} values on a side, or a mean of zero."));
        }
        let remarks = self.count(|p| p.remark.is_some());
        if remarks > 0 {
            let wrong = self.count(|p| p.remark.as_ref().is_some_and(|r| r.holds.is_err()));
            said.push(format!("{wrong} of {remarks} remarks do not hold."));
        }
        if !self.alone.is_empty() {
            let alone = self.alone.join("; ");
            said.push(format!("Cases without {} and another controller: {alone}.", self.baseline));
        }
        said
    }

    fn heads(&self) -> Vec<String> {
        let columns = [
            "candidate",
            "n",
            "baseline",
            "candidate's",
            "improvement",
            "95 % interval",
            "p (Holm)",
            "verdict",
            "",
        ];
        self.keys.iter().cloned().chain(columns.map(String::from)).collect()
    }

    fn row(&self, pair: &Pair) -> Vec<String> {
        let numbers = [
            format!("{} vs {}", pair.candidate, self.baseline),
            pair.n(),
            pair.base.text.clone(),
            pair.cand.text.clone(),
            pair.improvement_text(),
            pair.interval_text(),
            pair.p_text(),
            pair.verdict.to_string(),
            pair.remark_text(),
        ];
        pair.case.iter().cloned().chain(numbers).collect()
    }

    /// Aligned columns, then the findings.
    pub fn text(&self) -> String {
        let rows: Vec<_> =
            std::iter::once(self.heads()).chain(self.pairs.iter().map(|p| self.row(p))).collect();
        let right = self.keys.len() + 1..self.keys.len() + 7;
        let findings: String = self.findings().iter().map(|f| format!("{f}\n")).collect();
        format!(
            "{} ({}), {}\n\n{}\n{findings}",
            self.metric,
            self.direction(),
            self.source,
            report::aligned(&rows, right)
        )
    }

    fn direction(&self) -> &'static str {
        if self.better == Better::Higher { "higher is better" } else { "lower is better" }
    }

    /// One HTML file that needs nothing else.
    pub fn page(&self) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content=(report::POLICY);
                    meta name="color-scheme" content="light dark";
                    title { (self.metric) " · Headway" }
                    style { (PreEscaped(report::STYLE)) }
                }
                body { (self.body()) }
            }
        };
        page.into_string()
    }

    fn body(&self) -> Markup {
        let wrong: Vec<&Pair> =
            self.pairs.iter().filter(|p| p.remark.as_ref().is_some_and(|r| r.holds.is_err())).collect();
        html! {
            header class="top" {
                p class="brand" { "Headway" }
                h1 { (self.metric) }
                p class="lead" { code { (self.source) } ". Against " b { (self.baseline) } ", " (self.direction()) ". Positive is better." }
                ul class="notes" { @for finding in self.findings() { li { (finding) } } }
            }
            main {
                @if !wrong.is_empty() {
                    section id="remarks" {
                        h2 { "Remarks that do not hold" }
                        ul { @for p in wrong { li { (p.case.join(" ")) ": " (p.remark_text()) } } }
                    }
                }
                section id="verdicts" {
                    h2 { "Verdicts" }
                    table class="verdicts" {
                        thead { tr { th scope="col" { (self.keys.join(" · ")) } @for head in PAGE_HEADS { th scope="col" { (head) } } } }
                        tbody { @for p in &self.pairs { (html_row(p)) } }
                    }
                    p class="lead" {
                        "Welch's t-test on the logarithms, their moments as those of a log-normal distribution; a printed standard deviation is taken at the "
                        "upper end of its rounding. Verdicts after Holm's correction over the pairs that can be compared; margin " (self.margin * 100.0) " %. "
                        "Nobody knows in what order these samples were taken: a drift between them would look like a difference."
                    }
                }
            }
        }
    }
}

const PAGE_HEADS: [&str; 9] = [
    "Candidate",
    "Verdict",
    "Baseline",
    "Candidate's",
    "Improvement",
    "95 % interval",
    "p (Holm)",
    "n",
    "Remark",
];

fn html_row(pair: &Pair) -> Markup {
    let class = pair.verdict.word().replace([' ', '(', ')'], "");
    let numbers = [
        &pair.base.text,
        &pair.cand.text,
        &pair.improvement_text(),
        &pair.interval_text(),
        &pair.p_text(),
        &pair.n(),
        &pair.remark_text(),
    ];
    html! {
        tr {
            th scope="row" { (pair.case.join(" · ")) }
            td class="name" { (pair.candidate) }
            td class="name" { span class={ "verdict v-" (class) } { (pair.verdict) } }
            @for (head, text) in PAGE_HEADS[2..].iter().zip(numbers) { td data-label=(head) { (text) } }
        }
    }
}

/// The file as words, its columns found.
struct Table {
    head: Vec<String>,
    /// Line number and words.
    rows: Vec<(usize, Vec<String>)>,
    cc: usize,
    mean: usize,
    sd: usize,
    n: usize,
    remark: Option<usize>,
}

impl Table {
    fn read(text: &str) -> Result<Self> {
        let mut lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
        let (_, head) = lines.next().context("the file is empty")?;
        let head = words(head);
        let find = |what: &str, is: &dyn Fn(&str) -> bool| {
            head.iter().position(|h| is(h)).with_context(|| format!("there is no column {what}"))
        };
        let cc = find("`cc`", &|h| h == "cc")?;
        let mean = find("that ends in `_mean`", &|h| h == "mean" || h.ends_with("_mean"))?;
        let is_sd = |h: &str| ["sd", "stddev"].iter().any(|s| h == *s || h.ends_with(&format!("_{s}")));
        let sd = find("that ends in `_stddev` or `_sd`", &is_sd)?;
        let n = find("`n`", &|h| h == "n")?;
        ensure!(cc < mean, "the column `cc` must stand before `{}`", head[mean]);
        let rows = lines.map(|(at, line)| (at + 1, words(line))).collect();
        Ok(Self { cc, mean, sd, n, remark: head.iter().position(|h| h == "remark"), head, rows })
    }

    fn metric(&self) -> &str {
        let name = &self.head[self.mean];
        name.strip_suffix("_mean").unwrap_or(name)
    }

    /// Columns that name a case.
    fn keys(&self) -> Vec<String> {
        self.case(&self.head)
    }

    fn case(&self, words: &[String]) -> Vec<String> {
        (0..self.mean)
            .filter(|i| *i != self.cc && Some(*i) != self.remark)
            .map(|i| words[i].clone())
            .collect()
    }

    fn rows(&self) -> Result<Vec<Row>> {
        self.rows.iter().map(|(line, words)| self.row(*line, words)).collect()
    }

    fn row(&self, line: usize, words: &[String]) -> Result<Row> {
        ensure!(
            words.len() == self.head.len(),
            "line {line} has {} columns, the first line {}",
            words.len(),
            self.head.len()
        );
        let number = |at: usize| {
            let value = words[at].parse::<f64>().ok().filter(|v| v.is_finite());
            value.with_context(|| format!("line {line}: `{}` is no number for {}", words[at], self.head[at]))
        };
        let n = words[self.n].parse::<u32>();
        let n = n.with_context(|| format!("line {line}: `{}` is no count for n", words[self.n]))?;
        let (mean, sd) = (number(self.mean)?, number(self.sd)?);
        ensure!(sd >= 0.0, "line {line}: the standard deviation {sd} is negative");
        let moments =
            Moments { mean, sd, n, mean_step: step(&words[self.mean]), sd_step: step(&words[self.sd]) };
        let text = format!("{} ± {}", words[self.mean], words[self.sd]);
        Ok(Row {
            line,
            case: self.case(words),
            cc: words[self.cc].clone(),
            sample: Sample { moments, text },
            remark: self.remark.map(|at| words[at].clone()).unwrap_or_default(),
        })
    }
}

/// One unit in the last printed digit; a number with an exponent is taken as exact.
fn step(text: &str) -> f64 {
    if text.contains(['e', 'E']) {
        return 0.0;
    }
    let decimals = text.split_once('.').map_or(0, |(_, d)| d.len());
    10f64.powi(-(decimals as i32))
}

/// A line of CSV; `"…"` keeps commas, `""` inside is a quote.
fn words(line: &str) -> Vec<String> {
    let (mut all, mut word, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.trim_end().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => word.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(std::mem::take(&mut word).trim().to_string()),
            c => word.push(c),
        }
    }
    all.push(word.trim().to_string());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published means of BBR and CUBIC on 100G hosts.
    const DTN: &str = include_str!("../../tests/data/dtn_throughput_summary.csv");

    fn request() -> Request {
        Request { baseline: Some("cubic".into()), better: Better::Higher, margin: 0.02 }
    }

    fn verdicts<'a>(c: &'a Comparison, host: &str, case: [&str; 2]) -> (&'a Pair, Verdict) {
        let pair = c.pairs.iter().find(|p| p.case[0].starts_with(host) && p.case[2..] == case).unwrap();
        (pair, pair.verdict)
    }

    #[test]
    fn the_published_dtn_table_is_judged() {
        let c = judge(DTN, &request(), "dtn").unwrap();
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
        assert_eq!(verdicts(&c, "fiona", ["8", "0.0"]).1, Verdict::TooSmall);
        let text = c.text();
        assert!(text.contains("17 of 21 pairs can be compared; 7 of these are inconclusive."), "{text}");
        // The other way round the verdicts mirror.
        let mirrored = judge(DTN, &Request { baseline: None, ..request() }, "dtn").unwrap();
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
            let c = judge(&text, &request(), "said")?;
            let held = |p: &Pair| p.remark.clone().unwrap().holds.err().unwrap_or_else(|| "holds".into());
            anyhow::Ok((c.pairs.iter().map(held).collect::<Vec<_>>(), c))
        };
        let (held, c) = said("CUBIC slightly better").unwrap();
        assert_eq!(held, ["it is the other way round", "the numbers are inconclusive"]);
        assert!(c.text().contains("2 of 2 remarks do not hold."));
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
        let c = judge(text, &Request { better: Better::Lower, ..request() }, "x").unwrap();
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
        let error = |text: &str| format!("{:#}", judge(text, &request(), "x").unwrap_err());
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
        let lonely = judge(&format!("{head}a,cubic,1,1,5\n\"b, c\",bbr,1,1,5\n"), &request(), "x").unwrap();
        assert!(
            lonely.text().contains("Cases without cubic and another controller: a; b, c."),
            "{}",
            lonely.text()
        );
    }
}
