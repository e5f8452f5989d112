//! The text tables of the raw folder: a first line `# ` that names the columns, then rows of words separated by one
//! space. `-` stands for a value that is missing.

use std::fmt::Display;
use std::str::FromStr;

/// A value as a word, `-` where there is none.
pub fn word_or_missing(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_string(), |value| value.to_string())
}

/// 31 years in microseconds, a petabyte.
const MOST_DIGITS: usize = 15;

/// A table that was read.
pub struct Table<'a> {
    columns: Vec<&'a str>,
    /// With their numbers, from 1.
    lines: Vec<(usize, &'a str)>,
}

/// One row of it. Columns are found by name, so that a table may have more of them than its reader knows.
pub struct Row<'a> {
    columns: &'a [&'a str],
    words: Vec<&'a str>,
    /// The line's number in the file, from 1.
    pub line: usize,
}

impl<'a> Table<'a> {
    /// Reads the columns' names. An empty text is a table without rows.
    ///
    /// # Errors
    /// The first line names no columns.
    pub fn read(text: &'a str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let columns = match lines.next() {
            None => Vec::new(),
            Some((_, head)) => {
                head.strip_prefix("# ").ok_or("line 1 does not name the columns")?.split(' ').collect()
            }
        };
        Ok(Self { columns, lines: lines.filter(|(_, l)| !l.is_empty() && !l.starts_with('#')).collect() })
    }

    /// What `parse` makes of each row, in the order of the file.
    ///
    /// # Errors
    /// A row has more or fewer words than there are columns, or `parse` fails.
    pub fn rows<T>(&self, parse: impl Fn(&Row) -> Result<T, String>) -> Result<Vec<T>, String> {
        self.each(parse).collect()
    }

    /// The same for a table that is worth having with some rows damaged: the rows that can be read, and what is wrong with
    /// the others.
    pub fn readable_rows<T>(&self, parse: impl Fn(&Row) -> Result<T, String>) -> (Vec<T>, Vec<String>) {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for row in self.each(parse) {
            match row {
                Ok(row) => good.push(row),
                Err(why) => bad.push(why),
            }
        }
        (good, bad)
    }

    fn each<T>(&self, parse: impl Fn(&Row) -> Result<T, String>) -> impl Iterator<Item = Result<T, String>> {
        self.lines.iter().map(move |(line, text)| {
            let words: Vec<&str> = text.split(' ').collect();
            let (have, want) = (words.len(), self.columns.len());
            if have != want {
                return Err(format!("line {line} has {have} words, its table {want} columns"));
            }
            parse(&Row { columns: &self.columns, words, line: *line })
        })
    }
}

impl Row<'_> {
    pub fn word(&self, column: &str) -> Result<&str, String> {
        let at = self.columns.iter().position(|c| *c == column);
        at.map(|at| self.words[at]).ok_or_else(|| format!("there is no column `{column}`"))
    }

    /// # Errors
    /// There is no such column, or what stands in it is no number, or a greater one than anything has that is measured:
    /// sums of it must fit into 64 bits.
    pub fn number<T: FromStr>(&self, column: &str) -> Result<T, String> {
        let word = self.word(column)?;
        if word.split('.').next().is_some_and(|whole| whole.len() > MOST_DIGITS) {
            return Err(format!("line {}: {column} has more than {MOST_DIGITS} digits", self.line));
        }
        word.parse().map_err(|_| format!("line {}: `{word}` is no number for {column}", self.line))
    }

    /// `None` where the value is missing.
    pub fn optional<T: FromStr>(&self, column: &str) -> Result<Option<T>, String> {
        if self.word(column)? == "-" { Ok(None) } else { self.number(column).map(Some) }
    }
}
