//! A judged table in words: aligned columns for the terminal, and a page.

use super::remark::Remark;
use super::{JudgedTable, Pair};
use crate::metric::Better;
use crate::report::shell;
use crate::report::words::{aligned, percent};
use crate::stats::welch::MIN_VALUES;
use crate::stats::{Shift, Verdict};
use maud::{Markup, html};

impl Pair {
    fn n(&self) -> String {
        format!("{} and {}", self.base.moments.n, self.cand.moments.n)
    }

    fn improvement_text(&self) -> String {
        self.improvement.map_or("-".into(), |s| percent(s.center) + " %")
    }

    pub(super) fn interval_text(&self) -> String {
        let ends = |s: Shift| format!("{} .. {} %", percent(s.low), percent(s.high));
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

impl JudgedTable {
    pub(super) fn count(&self, of: impl Fn(&Pair) -> bool) -> usize {
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
            aligned(&rows, right)
        )
    }

    fn direction(&self) -> &'static str {
        if self.better == Better::Higher { "higher is better" } else { "lower is better" }
    }

    /// One HTML file that needs nothing else.
    pub fn page(&self) -> String {
        shell::document(&self.metric, &self.body())
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
                    table class="verdicts pairs" {
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
