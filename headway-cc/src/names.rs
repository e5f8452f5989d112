//! What to tell a user who typed a name that there is not.

/// The names that there are, after the one that was probably meant: the text of a hint.
pub fn choices(word: &str, names: &[&str]) -> String {
    let all = format!("there is {}", names.join(", "));
    match nearest(word, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? {}", all.replacen('t', "T", 1)),
        None => all,
    }
}

/// The name that is most like `word`, for "did you mean"; none if it takes more edits than a third of the word's
/// length and one.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = word.len() / 3 + 1;
    names.map(|n| (edits(word, n), n)).min().filter(|(d, _)| *d <= allowed).map(|(_, n)| n)
}

/// The Levenshtein distance: how many letters have to be put in, taken out or changed.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_close_is_proposed() {
        assert_eq!(choices("bbr4", &["cubic", "bbr1"]), "did you mean `bbr1`? There is cubic, bbr1");
        assert_eq!(choices("vegas", &["cubic", "bbr1"]), "there is cubic, bbr1");
        assert_eq!(nearest("loss", ["cross", "los"].into_iter()), Some("los"));
        assert_eq!(nearest("", ["a", "bbr"].into_iter()), Some("a"));
    }
}
