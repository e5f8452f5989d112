//! `about.json`: what a reader is told of a run beside its plan: a title and a note of the user's, and when the run was
//! begun.
//!
//! It is a file of its own because none of it changes what is run: a plan with another title is the same plan, and a
//! run goes on, is merged and is reported whatever it is called. The file is there only where there is something to
//! tell. In `sim` and `lab` a run does not depend on the day, so neither does its folder: no time is kept there.

use super::folder::write_atomic;
use crate::sys::file::read_plain_text;
use crate::sys::out::is_plain;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

/// What `about.json` says; empty is not said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When the first cell was begun, as RFC 3339 in UTC.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub begun: String,
}

/// What the user wants changed: a text replaces the one that is there, an empty one removes it, `None` keeps it.
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub title: Option<String>,
    pub note: Option<String>,
}

impl About {
    /// # Errors
    /// The file is there and cannot be read.
    pub fn read(run_dir: &Path) -> Result<Self> {
        let file = run_dir.join("about.json");
        let text = match read_plain_text(&file) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            other => other.with_context(|| format!("cannot read `{}`", file.display()))?,
        };
        let read = || {
            let value = serde_json::from_str(&text)?;
            ensure!(is_plain(&value), "it has control characters");
            Ok(serde_json::from_value(value)?)
        };
        read().with_context(|| {
            format!("`{}` is broken\nhint: remove it, it holds only title, note and date", file.display())
        })
    }

    /// Changes what is there. `begun` is kept only where no moment is known yet.
    pub fn change(run_dir: &Path, change: &Change, begun: Option<SystemTime>) -> Result<()> {
        let old = Self::read(run_dir)?;
        let mut new = old.clone();
        if let Some(title) = &change.title {
            new.title = title.trim().to_string();
        }
        if let Some(note) = &change.note {
            new.note = note.trim().to_string();
        }
        if let Some(begun) = begun.filter(|_| new.begun.is_empty()) {
            new.begun = humantime::format_rfc3339_seconds(begun).to_string();
        }
        if new == old { Ok(()) } else { new.write(run_dir) }
    }

    /// Without anything to tell there is no file.
    pub fn write(&self, run_dir: &Path) -> Result<()> {
        let file = run_dir.join("about.json");
        if *self != Self::default() {
            return write_atomic(&file, &(serde_json::to_string_pretty(self)? + "\n"));
        }
        match std::fs::remove_file(&file) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                Err(e).with_context(|| format!("cannot remove `{}`", file.display()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn texts_are_replaced_kept_and_removed_and_the_first_moment_stays() {
        let dir = std::env::temp_dir().join(format!("headway-about-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let change = |title: Option<&str>, note: Option<&str>, begun| {
            let change = Change { title: title.map(String::from), note: note.map(String::from) };
            About::change(&dir, &change, begun).unwrap();
            About::read(&dir).unwrap()
        };
        let at = |s| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(s));
        assert_eq!(change(None, None, None), About::default());
        assert!(!dir.join("about.json").exists(), "nothing to tell, no file");
        assert_eq!(change(Some(" Trial \n"), None, None).title, "Trial");
        let both = change(None, Some("two lines\nof text"), at(86_400));
        assert_eq!(
            (&*both.title, &*both.note, &*both.begun),
            ("Trial", "two lines\nof text", "1970-01-02T00:00:00Z")
        );
        assert_eq!(
            change(None, None, at(99_999_999)),
            both,
            "a run that goes on was begun when it was begun"
        );
        let untitled = change(Some(""), Some(""), None);
        assert_eq!(untitled, About { begun: both.begun, ..About::default() });
        About::default().write(&dir).unwrap();
        About::default().write(&dir).unwrap();
        assert!(!dir.join("about.json").exists());
        std::fs::write(dir.join("about.json"), "{").unwrap();
        assert!(format!("{:#}", About::read(&dir).unwrap_err()).contains("is broken\nhint: "));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
