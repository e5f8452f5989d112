//! How numbers and words are written, in every table and on every page.
//!
//! A number has about three significant digits, no exponent and never loses a digit of its integer part: a reader
//! compares values by eye. A value that rounds to zero is printed without a sign.

use super::judge::Spread;
use crate::metric::Unit;
use std::ops::Range;

/// Columns padded to their widest word; those in `right` are set flush right.
pub fn aligned(rows: &[Vec<String>], right: Range<usize>) -> String {
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (word, width))| {
            if right.contains(&column) { format!("{word:>width$}") } else { format!("{word:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

impl Spread {
    /// The median as people read it; `≥` where it is a lower bound.
    pub fn show(&self, unit: &Unit) -> String {
        format!("{}{}", if self.is_bound { "≥ " } else { "" }, unit.show(self.median))
    }
}

impl Unit {
    /// A value as people read it, with its unit.
    pub fn show(&self, value: f64) -> String {
        format!("{} {}", number(value * self.factor), self.word).trim_end().to_string()
    }
}

/// The p of a test. What is smaller than a thousandth is not said more exactly, and never as 0, which no p is.
pub fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".into() } else { format!("{p:.3}") }
}

/// A p within a sentence.
pub fn p_equals(p: f64) -> String {
    let value = p_value(p);
    if value.starts_with('<') { format!("p {value}") } else { format!("p = {value}") }
}

/// About three significant digits, every digit of the integer part, no exponent.
pub fn number(x: f64) -> String {
    if x.abs() < 0.00005 { "0".into() } else { format!("{x:.0$}", digits(x)) }
}

/// Decimals with which a number of this size is written.
pub fn digits(x: f64) -> usize {
    match x.abs() {
        a if a < 0.01 => 4,
        a if a < 0.1 => 3,
        a if a < 10.0 => 2,
        a if a < 1000.0 => 1,
        _ => 0,
    }
}

/// A difference, with its sign.
pub fn signed(x: f64) -> String {
    let text = number(x);
    match text.as_str() {
        "0" => "0.0".into(),
        _ if x > 0.0 => format!("+{text}"),
        _ => text,
    }
}

/// A share as a signed percentage: a tenth of a percent is as fine as any claim gets.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        x if x.abs() < 0.05 => "0.0".into(),
        x if x.abs() < 100.0 => format!("{x:+.1}"),
        x => format!("{x:+.0}"),
    }
}

/// Rows as CSV, with quotes where a word needs them.
pub fn csv(rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(&row).expect("rows of one table are equally long, and memory takes all");
    }
    let bytes = writer.into_inner().expect("memory takes all");
    String::from_utf8(bytes).expect("words are UTF-8, and so is what stands between them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_whole() {
        assert_eq!(
            [0.0, 0.00004, 0.0012, 0.034, 0.5, 9.123, 46.07, 123_456.0].map(number).join(" "),
            "0 0 0.0012 0.034 0.50 9.12 46.1 123456"
        );
        assert_eq!([0.0, 1.5, -1.5].map(signed), ["0.0", "+1.50", "-1.50"]);
        assert_eq!([0.0004, -0.0004, 0.05, -5.0].map(percent), ["0.0", "0.0", "+5.0", "-500"]);
    }

    #[test]
    fn no_p_is_zero() {
        assert_eq!([0.05, 0.001, 0.0009, 0.0].map(p_value), ["0.050", "0.001", "< 0.001", "< 0.001"]);
        assert_eq!([0.02, 0.0].map(p_equals), ["p = 0.020", "p < 0.001"]);
    }

    #[test]
    fn a_word_with_a_comma_is_quoted() {
        let row = ["plain text", "a, \"b\"", "", "1.5"].map(String::from).to_vec();
        assert_eq!(csv([row]), "plain text,\"a, \"\"b\"\"\",,1.5\n");
    }
}
