//! A judged table in words: aligned columns for the terminal, and a page.

use super::remark::Remark;
use super::{JudgedTable, Pair};
use crate::metric::Better;
use crate::report::shell;
use crate::report::terminal::{Column, Row, Word, table, wrapped};
use crate::report::words::percent;
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

fn words(pair: &Pair) -> Vec<Word> {
    let mut words: Vec<Word> = pair.case.iter().cloned().map(Word::from).collect();
    words.push(pair.candidate.clone().into());
    words.push(Word::verdict(Some(pair.verdict), ""));
    words.push(pair.improvement_text().into());
    words.push(pair.base.text.clone().into());
    words.push(pair.cand.text.clone().into());
    words.push(pair.interval_text().into());
    words.push(pair.p_text().into());
    words.push(pair.n().into());
    words
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

    /// What each candidate has to show against the baseline.
    fn answers(&self) -> Vec<String> {
        let mut candidates: Vec<&str> = self.pairs.iter().map(|p| p.candidate.as_str()).collect();
        candidates.sort_unstable();
        candidates.dedup();
        let answer = |cc: &str| {
            let count = |of: &dyn Fn(&Pair) -> bool| self.count(|p| p.candidate == *cc && of(p));
            format!(
                "{cc} is better than {} in {} and worse in {} of {} pairs that can be compared.",
                self.baseline,
                count(&|p| p.verdict == Verdict::Better),
                count(&|p| p.verdict == Verdict::Worse),
                count(&|p| p.improvement.is_some())
            )
        };
        candidates.into_iter().map(answer).collect()
    }

    /// What was compared, the answer, then the pairs in lines no longer than `width`, then the remarks that do not hold.
    pub fn text(&self, width: usize) -> String {
        let head = format!("{} ({}), {}", self.metric, self.direction(), self.source);
        let mut text = wrapped(&head, width, 2);
        let said: Vec<String> = self.answers().into_iter().chain(self.findings()).collect();
        said.iter().for_each(|sentence| text += &wrapped(sentence, width, 2));
        let rows: Vec<Row> = self.pairs.iter().map(|p| Row::Words(words(p))).collect();
        let (table, left_out) = table(&self.columns(), &rows, width);
        text += &format!("\n{table}");
        if !left_out.is_empty() {
            let left_out = left_out.join(", ");
            text += &wrapped(&format!("Left out for width: {left_out}; COLUMNS=200 prints them."), width, 2);
        }
        for pair in self.pairs.iter().filter(|p| p.remark.is_some()) {
            text += &wrapped(&format!("{}: {}", pair.case.join(" "), pair.remark_text()), width, 2);
        }
        text
    }

    fn columns(&self) -> Vec<Column> {
        let keys = self.keys.iter().map(|key| Column::word(key, 0));
        keys.chain([
            Column::word("candidate", if self.answers().len() > 1 { 0 } else { 6 }),
            Column::word("verdict", 0),
            Column::number("improvement", 0),
            Column::number("baseline", 1),
            Column::number("candidate's", 2),
            Column::number("95 % interval", 3),
            Column::number("p (Holm)", 4),
            Column::number("n", 5),
        ])
        .collect()
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
