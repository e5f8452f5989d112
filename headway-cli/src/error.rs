//! How errors are told to the user. Every error is an `anyhow::Error` whose causes may each end in `\nhint: …` lines
//! that say what to do; this room joins them into one text and tells a wrong argument from a failure.

use anyhow::Result;

/// Every exit code and what it says. `headway reference` writes the manual's page of them from this table.
pub const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "It was done as asked."),
    (
        "1",
        "It failed: the sentence on standard error says what, and a hint says what to do. `headway doctor` ends with 1 unless the lab works.",
    ),
    (
        "2",
        "The command line was wrong: an unknown flag, a value that cannot be, two flags that exclude each other. Nothing was begun.",
    ),
    (
        "128 + n",
        "Signal number n ended it, such as 130 after Ctrl-C. What it had changed on the machine is undone. `headway emu` ends with the exit code of its command, and with 128 + n where a signal ended that.",
    ),
];

/// A wrong argument. The program ends with exit code 2 on it, and with 1 on every other error.
#[derive(Debug)]
pub struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Marks an error as one of a wrong argument.
pub fn usage<T>(result: Result<T, impl Into<anyhow::Error>>) -> Result<T> {
    result.map_err(|e| Usage(sentence(&e.into())).into())
}

/// What failed, from the outermost cause to the innermost, and then what to do about it: the hints of all causes come
/// last, so that they do not stand in the middle of the sentence.
pub fn sentence(e: &anyhow::Error) -> String {
    let (mut what, mut hints) = (Vec::new(), Vec::new());
    for cause in e.chain().map(ToString::to_string) {
        let (first, rest) = cause.split_once("\nhint: ").unwrap_or((&cause, ""));
        what.push(first.to_string());
        hints.extend(rest.split("\nhint: ").filter(|h| !h.is_empty()).map(|h| format!("\nhint: {h}")));
    }
    what.join(": ") + &hints.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn hints_come_last() {
        let error = anyhow!("no such file\nhint: make it").context("cannot read it\nhint: ask for it");
        assert_eq!(sentence(&error), "cannot read it: no such file\nhint: ask for it\nhint: make it");
        let usage = usage(Err::<(), _>(error)).unwrap_err();
        assert!(usage.is::<Usage>() && usage.to_string().ends_with("hint: make it"));
    }
}
