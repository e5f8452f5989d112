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
        "3",
        "The report was written, and says what `--fail-if` of `headway bench` and `headway report` asks about. Of `headway status`: something that is enabled is not in force. Of `headway trial`: something ended it before its time, as harm that the candidate did.",
    ),
    (
        "128 + n",
        "Signal number n ended it: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP. What it had changed on the machine is undone; what `headway enable` and `headway disable` have begun is finished instead, so ask `headway status`. 141 means that the reader of its output had gone, as in `headway list | head -1`.",
    ),
    (
        "of the command",
        "`headway emu` ends with the exit code of its command, and with 128 + n where a signal ended that; with 127 where there is no such command, and with 126 where it cannot be run.",
    ),
];

/// An error that ends the program with an exit code of its own.
#[derive(Debug)]
struct Coded {
    code: u8,
    text: String,
}

impl std::fmt::Display for Coded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Coded {}

/// Gives an error the exit code that the program ends with.
pub fn coded<T>(code: u8, result: Result<T, impl Into<anyhow::Error>>) -> Result<T> {
    result.map_err(|e| Coded { code, text: sentence(&e.into()) }.into())
}

/// Marks an error as one of a wrong argument.
pub fn usage<T>(result: Result<T, impl Into<anyhow::Error>>) -> Result<T> {
    coded(WRONG_USAGE, result)
}

/// The exit code of a wrong argument.
const WRONG_USAGE: u8 = 2;

/// The exit code of this error: 1 where nothing else was said.
pub fn exit_code(e: &anyhow::Error) -> u8 {
    e.downcast_ref::<Coded>().map_or(1, |coded| coded.code)
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
        assert!(exit_code(&usage) == 2 && usage.to_string().ends_with("hint: make it"));
    }
}
