//! Text for a terminal: columns that fit its width, wrapped sentences, colours.
//!
//! Escape sequences are written always, and whoever prints takes them out where no terminal or no wish for colours is:
//! `anstream` knows `NO_COLOR`, `CLICOLOR` and `TERM=dumb`. A width counts characters that are seen.

use crate::stats::Verdict;
pub use clap::builder::styling::Style;
use clap::builder::styling::{AnsiColor, Effects};

/// Lines of prose on a terminal are not longer than this, however wide it is.
const PROSE_WIDTH: usize = 100;

/// A column of a table.
pub struct Column {
    pub head: String,
    /// Numbers are set flush right.
    pub is_number: bool,
    /// Where the table is too wide, the column with the highest rank goes first. One of rank 0 stays.
    pub rank: u8,
}

/// A word of a table and how it is set.
#[derive(Clone, Debug)]
pub struct Word {
    pub text: String,
    pub style: Style,
}

pub enum Row {
    /// A line of its own above the rows that follow.
    Heading(String),
    Words(Vec<Word>),
}

impl Column {
    pub fn word(head: &str, rank: u8) -> Self {
        Self { head: head.into(), is_number: false, rank }
    }

    pub fn number(head: &str, rank: u8) -> Self {
        Self { head: head.into(), is_number: true, rank }
    }
}

impl From<String> for Word {
    fn from(text: String) -> Self {
        Self { text, style: Style::new() }
    }
}

impl Word {
    pub fn verdict(verdict: Option<Verdict>, mark: &str) -> Self {
        let color = match verdict {
            Some(Verdict::Better) => Style::new().fg_color(Some(AnsiColor::Green.into())),
            Some(Verdict::Worse) => Style::new().fg_color(Some(AnsiColor::Red.into())),
            _ => Style::new(),
        };
        Self { text: verdict.map_or("-", Verdict::word).to_string() + mark, style: color }
    }
}

pub fn bold() -> Style {
    Style::new().effects(Effects::BOLD)
}

pub fn faint() -> Style {
    Style::new().effects(Effects::DIMMED)
}

pub fn styled(text: &str, style: Style) -> String {
    if text.is_empty() { String::new() } else { format!("{style}{text}{style:#}") }
}

/// A table that is no wider than `width`, and the heads of the columns that were left out for that.
pub fn table(columns: &[Column], rows: &[Row], width: usize) -> (String, Vec<String>) {
    let of_column = |i: usize| {
        rows.iter().filter_map(move |row| match row {
            Row::Words(words) => Some(seen(&words[i].text)),
            Row::Heading(_) => None,
        })
    };
    let mut widths: Vec<usize> =
        columns.iter().enumerate().map(|(i, c)| of_column(i).max().unwrap_or(0).max(seen(&c.head))).collect();
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let total = |kept: &[usize], widths: &[usize]| kept.iter().map(|i| widths[*i] + GAP).sum::<usize>();
    while total(&kept, &widths) > width {
        let Some(widest_rank) =
            kept.iter().copied().filter(|i| columns[*i].rank > 0).max_by_key(|i| columns[*i].rank)
        else {
            break;
        };
        kept.retain(|i| *i != widest_rank);
    }
    // What is left are words that name something. A name that is cut ends with `…`; the rest of the output has it whole.
    while total(&kept, &widths) > width {
        let Some(longest) =
            kept.iter().copied().max_by_key(|i| widths[*i]).filter(|i| widths[*i] > MIN_COLUMN)
        else {
            break;
        };
        widths[longest] -= 1;
    }
    let left_out =
        (0..columns.len()).filter(|i| !kept.contains(i)).map(|i| columns[i].head.clone()).collect();
    let heads: Vec<Word> = columns.iter().map(|c| Word { text: c.head.clone(), style: faint() }).collect();
    let mut text = line(columns, &heads, &kept, &widths);
    for row in rows {
        match row {
            Row::Heading(heading) => text += &format!("{heading}\n"),
            Row::Words(words) => text += &line(columns, words, &kept, &widths),
        }
    }
    (text, left_out)
}

/// Two spaces stand before every column, so that headings stand out to the left.
const GAP: usize = 2;

/// Fewer letters say nothing.
const MIN_COLUMN: usize = 6;

fn line(columns: &[Column], words: &[Word], kept: &[usize], widths: &[usize]) -> String {
    let mut line = String::new();
    let mut space = 0;
    for i in kept.iter().copied() {
        let word = &words[i];
        let text = cut(&word.text, widths[i]);
        let padding = widths[i] - seen(&text);
        let (before, after) = if columns[i].is_number { (padding, 0) } else { (0, padding) };
        line += &" ".repeat(space + GAP + before);
        line += &styled(&text, word.style);
        space = after;
    }
    line + "\n"
}

fn cut(text: &str, width: usize) -> String {
    if seen(text) <= width {
        return text.to_string();
    }
    text.chars().take(width.saturating_sub(1)).collect::<String>() + "…"
}

fn seen(text: &str) -> usize {
    text.chars().count()
}

/// Prose in lines that fit; the second and later ones begin with `indent` spaces. A word longer than a line keeps one
/// of its own. Where the width does not matter, nothing is wrapped: whoever looks for a sentence finds it in one line.
pub fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let width = if width == usize::MAX { width } else { width.min(PROSE_WIDTH) };
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let current = lines.last_mut().expect("there is one");
        let is_begin = current.trim().is_empty();
        if is_begin || seen(current) + 1 + seen(word) <= width {
            if !is_begin {
                current.push(' ');
            }
            current.push_str(word);
        } else {
            lines.push(" ".repeat(indent) + word);
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(texts: [&str; 3]) -> Row {
        Row::Words(texts.map(|t| Word::from(t.to_string())).into())
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_table_loses_columns_by_rank_and_never_exceeds_its_width() {
        let columns = [Column::word("name", 0), Column::number("gain", 1), Column::number("interval", 2)];
        let rows = [
            Row::Heading("first".into()),
            words(["a_long_name", "+7 %", "+1 .. +9 %"]),
            words(["b", "-", "-"]),
        ];
        let (text, left_out) = table(&columns, &rows, 80);
        assert_eq!(
            plain(&text),
            "  name         gain    interval\nfirst\n  a_long_name  +7 %  +1 .. +9 %\n  b               -           -\n"
        );
        assert!(left_out.is_empty());
        let (text, left_out) = table(&columns, &rows, 20);
        assert_eq!(plain(&text), "  name         gain\nfirst\n  a_long_name  +7 %\n  b               -\n");
        assert_eq!(left_out, ["interval"]);
        let (text, left_out) = table(&columns, &rows, 10);
        assert_eq!(plain(&text), "  name\nfirst\n  a_long_…\n  b\n");
        assert_eq!(left_out, ["gain", "interval"]);
    }

    #[test]
    fn verdicts_have_colours_and_words() {
        let word = Word::verdict(Some(Verdict::Better), " *");
        assert_eq!(word.text, "better *");
        assert_eq!(styled(&word.text, word.style), "\u{1b}[32mbetter *\u{1b}[0m");
        assert_eq!(Word::verdict(None, "").text, "-");
        assert_eq!(styled("", bold()), "");
    }

    #[test]
    fn prose_is_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 8, 2), "one two\n  three\n");
        assert_eq!(wrapped("a-word-that-is-too-long b", 8, 0), "a-word-that-is-too-long\nb\n");
        assert_eq!(wrapped("", 8, 0), "\n");
    }
}
