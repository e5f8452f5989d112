//! The table that is judged: columns found by their names, rows checked.

use crate::stats::welch::Moments;
use anyhow::{Context, Result, ensure};

/// The file as words, its columns found.
pub struct Table {
    head: Vec<String>,
    /// Line number and words.
    rows: Vec<(usize, Vec<String>)>,
    cc: usize,
    mean: usize,
    sd: usize,
    n: usize,
    remark: Option<usize>,
}

/// One sample of a case.
#[derive(Debug)]
pub struct Row {
    /// In the file, counted from 1.
    pub line: usize,
    /// The words of the columns that name the case.
    pub case: Vec<String>,
    pub cc: String,
    pub sample: Sample,
    /// Empty where nothing was said.
    pub remark: String,
}

#[derive(Clone, Debug)]
pub struct Sample {
    pub moments: Moments,
    /// As the file has it: mean and standard deviation.
    pub text: String,
}

impl Table {
    /// # Errors
    /// Names the column that is missing or in the wrong place.
    pub fn read(text: &str) -> Result<Self> {
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

    /// What was measured: the name of the mean's column without its end.
    pub fn metric(&self) -> &str {
        let name = &self.head[self.mean];
        name.strip_suffix("_mean").unwrap_or(name)
    }

    /// Names of the columns that make a case.
    pub fn keys(&self) -> Vec<String> {
        self.case(&self.head)
    }

    fn case(&self, words: &[String]) -> Vec<String> {
        (0..self.mean)
            .filter(|i| *i != self.cc && Some(*i) != self.remark)
            .map(|i| words[i].clone())
            .collect()
    }

    /// # Errors
    /// Names the line, and what is wrong in it.
    pub fn rows(&self) -> Result<Vec<Row>> {
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
