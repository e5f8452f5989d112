//! The table that is judged: columns found by their names, rows checked.

use crate::stats::welch::Moments;
use anyhow::{Context, Result, ensure};
use csv::{ReaderBuilder, StringRecord, Trim};

/// The file as words, its columns found.
pub struct Table {
    head: StringRecord,
    /// Line number and words.
    rows: Vec<(usize, StringRecord)>,
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
        let mut records = records(text)?.into_iter();
        let (_, head) = records.next().context("the file is empty")?;
        let find = |what: &str, is: &dyn Fn(&str) -> bool| {
            head.iter().position(is).with_context(|| format!("there is no column {what}"))
        };
        let cc = find("`cc`", &|h| h == "cc")?;
        let mean = find("that ends in `_mean`", &|h| h == "mean" || h.ends_with("_mean"))?;
        let is_sd = |h: &str| ["sd", "stddev"].iter().any(|s| h == *s || h.ends_with(&format!("_{s}")));
        let sd = find("that ends in `_stddev` or `_sd`", &is_sd)?;
        let n = find("`n`", &|h| h == "n")?;
        ensure!(cc < mean, "the column `cc` must stand before `{}`", &head[mean]);
        Ok(Self {
            rows: records.collect(),
            remark: head.iter().position(|h| h == "remark"),
            head,
            cc,
            mean,
            sd,
            n,
        })
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

    fn case(&self, words: &StringRecord) -> Vec<String> {
        (0..self.mean)
            .filter(|i| *i != self.cc && Some(*i) != self.remark)
            .map(|i| words[i].to_string())
            .collect()
    }

    /// # Errors
    /// Names the line, and what is wrong in it.
    pub fn rows(&self) -> Result<Vec<Row>> {
        self.rows.iter().map(|(line, words)| self.row(*line, words)).collect()
    }

    fn row(&self, line: usize, words: &StringRecord) -> Result<Row> {
        ensure!(
            words.len() == self.head.len(),
            "line {line} has {} columns, the first line {}",
            words.len(),
            self.head.len()
        );
        let number = |at: usize| {
            let value = words[at].parse::<f64>().ok().filter(|v| v.is_finite());
            value
                .with_context(|| format!("line {line}: `{}` is no number for {}", &words[at], &self.head[at]))
        };
        let n = words[self.n].parse::<u32>();
        let n = n.with_context(|| format!("line {line}: `{}` is no count for n", &words[self.n]))?;
        let (mean, sd) = (number(self.mean)?, number(self.sd)?);
        ensure!(sd >= 0.0, "line {line}: the standard deviation {sd} is negative");
        let moments =
            Moments { mean, sd, n, mean_step: step(&words[self.mean]), sd_step: step(&words[self.sd]) };
        let text = format!("{} ± {}", &words[self.mean], &words[self.sd]);
        Ok(Row {
            line,
            case: self.case(words),
            cc: words[self.cc].to_string(),
            sample: Sample { moments, text },
            remark: self.remark.map(|at| words[at].to_string()).unwrap_or_default(),
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

/// The records of a CSV text, each with the number of the line on which it begins. Empty lines and those that start
/// with `#` are no records; spaces around a word do not belong to it.
fn records(text: &str) -> Result<Vec<(usize, StringRecord)>> {
    // Spreadsheets put a byte order mark in front.
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        // Columns are counted later: that error names the line as a person counts it.
        .flexible(true)
        .comment(Some(b'#'))
        .trim(Trim::All)
        .from_reader(text.as_bytes());
    let mut all = Vec::new();
    for record in reader.records() {
        let record = record.context("it cannot be read as CSV")?;
        let from = record.position().map_or(0, |position| position.byte() as usize);
        if record.len() > 1 || !record[0].is_empty() {
            all.push((line_at(text, from), record));
        }
    }
    Ok(all)
}

/// The number of the first line from `from` bytes on that is a record. The reader's own position is where it began to
/// look for one, before the lines that it passed over.
fn line_at(text: &str, from: usize) -> usize {
    let is_passed_over = |line: &&str| line.trim().is_empty() || line.starts_with('#');
    let passed: usize = text[from..].split_inclusive('\n').take_while(is_passed_over).map(str::len).sum();
    1 + text[..from + passed].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spreadsheet_writes_is_read() {
        let text = "\u{feff}# made by hand, say \"so\r\n\r\nhost, cc ,x_mean,x_sd,n\r\n  \r\n\"a \"\"b\"\"\r\nc, d\",bbr,1,1,5\r\n# x\r\n\r\ne,cubic,2,1,5";
        let rows = Table::read(text).unwrap().rows().unwrap();
        assert_eq!(rows.iter().map(|r| r.line).collect::<Vec<_>>(), [5, 9]);
        assert_eq!((&*rows[0].case[0], &*rows[0].cc), ("a \"b\"\r\nc, d", "bbr"));
        assert_eq!((&*rows[1].case[0], &*rows[1].cc), ("e", "cubic"));
        let unix = text.replace("\r\n", "\n");
        assert_eq!(Table::read(&unix).unwrap().rows().unwrap()[1].line, 9);
    }
}
