//! What happens at boot, and what must not: a machine that cannot boot because of us.
//!
//! A note on the disk says that a boot with our controllers has begun; it is removed when that boot has got through. A
//! boot that finds the note of an earlier one puts nothing in force: whatever stopped the earlier one, this one is
//! without us. After it has got through, the next one tries again. If that does not get through either, nothing is put
//! in force until somebody says `headway apply`.

use super::disk;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const NOTE: &str = "/var/lib/headway/boot.json";

/// After so many boots with us that did not get through, in a row, only `headway apply` tries again.
const TRIES: u32 = 2;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    /// The kernel's number of the boot that this note is of.
    boot: String,
    phase: Phase,
    /// Boots with us that did not get through, in a row.
    unfinished: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Phase {
    /// That boot puts our controllers in force, and has not got through yet.
    WithUs,
    /// It does not.
    WithoutUs,
    /// It did not, has got through, and the next one is to try.
    TryAgain,
}

/// What a boot does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Boot {
    /// Put in force what is enabled.
    Apply,
    /// Put nothing in force, and this is why: a whole sentence.
    Skip(String),
}

/// What this boot does, written down.
pub fn begin() -> Result<Boot> {
    let this = id()?;
    let (boot, note) = decide(read()?, &this);
    if let Some(note) = note {
        write(&note)?;
    }
    Ok(boot)
}

/// What a boot does that finds this note, and which note it leaves.
fn decide(found: Option<Note>, this: &str) -> (Boot, Option<Note>) {
    let note = |phase, unfinished| Some(Note { boot: this.into(), phase, unfinished });
    let Some(found) = found else { return (Boot::Apply, note(Phase::WithUs, 0)) };
    let n = found.unfinished;
    match (found.phase, found.boot == this) {
        (Phase::WithUs, true) => (Boot::Apply, None),
        (_, true) => (Boot::Skip(skipped(n)), None),
        (Phase::WithUs, false) => (Boot::Skip(skipped(n + 1)), note(Phase::WithoutUs, n + 1)),
        // It did not get through either, but that was not ours to answer for.
        (Phase::WithoutUs, false) => (Boot::Skip(skipped(n)), note(Phase::WithoutUs, n)),
        (Phase::TryAgain, false) => (Boot::Apply, note(Phase::WithUs, n)),
    }
}

fn skipped(unfinished: u32) -> String {
    let next = match unfinished < TRIES {
        true => "the next boot tries again",
        false => "this stays so until somebody runs `headway apply`",
    };
    format!("the last boot with our controllers did not get through, so this one is without them; {next}")
}

/// This boot has got through. Answers why it is without us, if it is.
pub fn got_through() -> Result<Option<String>> {
    let Some(note) = read()?.filter(|note| id().is_ok_and(|id| note.boot == id)) else { return Ok(None) };
    match note.phase {
        Phase::WithUs => {
            disk::remove(&file())?;
            return Ok(None);
        }
        Phase::WithoutUs if note.unfinished < TRIES => {
            write(&Note { phase: Phase::TryAgain, boot: note.boot, unfinished: note.unfinished })?;
        }
        Phase::WithoutUs | Phase::TryAgain => {}
    }
    Ok(Some(skipped(note.unfinished)))
}

/// Somebody has put in force by hand what is enabled: the boots before do not count any more.
pub fn forget() -> Result<()> {
    disk::remove(&file())
}

/// Why this boot is without our controllers, if it is.
pub fn why_skipped() -> Option<String> {
    let note = read().ok()??;
    (note.boot == id().ok()? && note.phase != Phase::WithUs).then(|| skipped(note.unfinished))
}

fn file() -> PathBuf {
    Path::new(NOTE).into()
}

fn read() -> Result<Option<Note>> {
    // A note that cannot be read is one that power was lost over: a boot that did not get through.
    let damaged = || Note { boot: "damaged".into(), phase: Phase::WithUs, unfinished: 0 };
    Ok(disk::read(&file())?.map(|text| serde_json::from_str(&text).unwrap_or_else(|_| damaged())))
}

fn write(note: &Note) -> Result<()> {
    disk::write(&file(), &serde_json::to_string(note)?)
}

fn id() -> Result<String> {
    let file = "/proc/sys/kernel/random/boot_id";
    Ok(std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(boot: &str, phase: Phase, unfinished: u32) -> Option<Note> {
        Some(Note { boot: boot.into(), phase, unfinished })
    }

    #[test]
    fn an_unfinished_boot_makes_the_next_one_do_without() {
        use Phase::{TryAgain, WithUs, WithoutUs};
        let tries_again =
            |boot: &Boot| matches!(boot, Boot::Skip(why) if why.ends_with("the next boot tries again"));
        assert_eq!(decide(None, "1"), (Boot::Apply, note("1", WithUs, 0)));
        // It did not get through.
        let (boot, left) = decide(note("1", WithUs, 0), "2");
        assert!(tries_again(&boot) && left == note("2", WithoutUs, 1));
        // Nor did that one: it was without us, so it does not count.
        assert_eq!(decide(left, "3").1, note("3", WithoutUs, 1));
        // One without us got through: the next tries, and does not get through either.
        assert_eq!(decide(note("3", TryAgain, 1), "4"), (Boot::Apply, note("4", WithUs, 1)));
        let (boot, left) = decide(note("4", WithUs, 1), "5");
        assert!(!tries_again(&boot) && boot != Boot::Apply && left == note("5", WithoutUs, 2));
        // Whoever asks twice in one boot is told the same.
        assert_eq!(decide(note("2", WithUs, 1), "2"), (Boot::Apply, None));
        for phase in [WithoutUs, TryAgain] {
            assert!(tries_again(&decide(note("2", phase, 1), "2").0));
        }
    }
}
