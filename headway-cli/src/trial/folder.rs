//! The folder of a trial, which grows while it runs.
//!
//! ```text
//! trial.json       what was asked for (`Setup`)
//! connections.txt  a row for each connection, appended at every poll
//! slots.txt        a row for each slot, appended at its end
//! ended.json       why and when it ended; not there while it runs, and not there after a kill
//! ```
//!
//! Everything that is written is whole lines, so that after a kill at most the last line is cut. A slot without a row was not
//! finished: `resume` goes on with it, and what had begun in it before does not count.

use super::connection::{self, Connection};
use super::setup::Setup;
use crate::raw::folder::write_atomic;
use crate::raw::table::Table;
use anyhow::{Context, Result, anyhow, ensure};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

const SETUP: &str = "trial.json";
const CONNECTIONS: &str = "connections.txt";
const SLOTS: &str = "slots.txt";
const ENDED: &str = "ended.json";

/// What happened in a slot. Times are in milliseconds since the trial began; counters are of this slot alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotRow {
    /// Its number in the schedule.
    pub slot: u32,
    pub began_ms: u64,
    pub ended_ms: u64,
    /// Connections that were given a controller, by arm.
    pub enrolled: [u64; 2],
    /// Of them, those whose end was seen while the slot lasted.
    pub recorded: u64,
    /// Ends that found the ring buffer full.
    pub lost: u64,
    /// The kernel refused the controller.
    pub refused: u64,
    /// There was no memory to follow them.
    pub no_storage: u64,
    /// MPTCP connections, which were left alone.
    pub mptcp: u64,
}

/// A column of slots.txt and its field.
type Column = (&'static str, fn(&mut SlotRow) -> &mut u64);

/// The columns after `slot`.
const COLUMNS: [Column; 9] = [
    ("began_ms", |s| &mut s.began_ms),
    ("ended_ms", |s| &mut s.ended_ms),
    ("enrolled_0", |s| &mut s.enrolled[0]),
    ("enrolled_1", |s| &mut s.enrolled[1]),
    ("recorded", |s| &mut s.recorded),
    ("lost", |s| &mut s.lost),
    ("refused", |s| &mut s.refused),
    ("no_storage", |s| &mut s.no_storage),
    ("mptcp", |s| &mut s.mptcp),
];

/// Why a trial ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "why", deny_unknown_fields)]
pub enum Ended {
    /// All slots were run.
    Done { at_ms: u64 },
    /// A guard ended it.
    Stopped {
        at_ms: u64,
        /// A sentence with the numbers.
        because: String,
    },
    /// Somebody did.
    Interrupted { at_ms: u64 },
}

impl Ended {
    /// Milliseconds since the trial began.
    pub fn at_ms(&self) -> u64 {
        match self {
            Self::Done { at_ms } | Self::Stopped { at_ms, .. } | Self::Interrupted { at_ms } => *at_ms,
        }
    }
}

/// A trial as its folder has it, finished or not.
#[derive(Clone, Debug)]
pub struct Trial {
    pub setup: Setup,
    pub connections: Vec<Connection>,
    pub slots: Vec<SlotRow>,
    pub ended: Option<Ended>,
    /// What could not be read, a sentence each.
    pub damage: Vec<String>,
}

/// The folder of a trial that is running. Nobody else can write to it as long as this lives.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    connections: File,
    slots: File,
    /// Holds the lock.
    _lock: File,
}

impl Folder {
    /// Makes the folder of a new trial.
    ///
    /// # Errors
    /// There is a trial already, or it cannot be made.
    pub fn create(dir: &Path, setup: &Setup) -> Result<Self> {
        ensure!(
            !is_trial(dir),
            "`{0}` holds a trial already\nhint: `headway trial --resume {0}` goes on with it; or give another --out",
            dir.display()
        );
        fs::create_dir_all(dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
        write_atomic(&dir.join(SETUP), &(serde_json::to_string_pretty(setup)? + "\n"))?;
        let mut folder = Self::open(dir)?;
        folder.begin()?;
        Ok(folder)
    }

    /// Opens the folder of a trial that was interrupted or killed, and reads what it has. A line that was cut is taken away,
    /// and so is the word that it has ended.
    ///
    /// # Errors
    /// It holds no trial, one that was finished or stopped by a guard, or another program is writing to it.
    pub fn resume(dir: &Path) -> Result<(Self, Trial)> {
        let mut folder = Self::open(dir)?;
        let trial = read(dir)?;
        match &trial.ended {
            Some(Ended::Done { .. }) => {
                return Err(anyhow!(
                    "the trial in `{}` is complete: there is nothing left to do",
                    dir.display()
                ));
            }
            Some(Ended::Stopped { because, .. }) => {
                return Err(anyhow!(
                    "the trial in `{}` was stopped: {because}\nhint: begin another one",
                    dir.display()
                ));
            }
            Some(Ended::Interrupted { .. }) => fs::remove_file(dir.join(ENDED))?,
            None => {}
        }
        for file in [CONNECTIONS, SLOTS] {
            cut_half_line(&dir.join(file))?;
        }
        folder.begin()?;
        Ok((folder, trial))
    }

    fn open(dir: &Path) -> Result<Self> {
        let setup = dir.join(SETUP);
        let lock = File::open(&setup).with_context(|| format!("`{}` holds no trial", dir.display()))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .with_context(|| format!("another headway is writing to `{}`", dir.display()))?;
        let append = |name: &str| {
            let file = dir.join(name);
            let opened = OpenOptions::new().create(true).append(true).open(&file);
            opened.with_context(|| format!("cannot write `{}`", file.display()))
        };
        Ok(Self { dir: dir.into(), connections: append(CONNECTIONS)?, slots: append(SLOTS)?, _lock: lock })
    }

    /// Writes the first lines where they are missing.
    fn begin(&mut self) -> Result<()> {
        if self.connections.metadata()?.len() == 0 {
            append(&mut self.connections, &connection::head())?;
        }
        if self.slots.metadata()?.len() == 0 {
            append(&mut self.slots, &format!("# slot {}\n", COLUMNS.map(|(name, _)| name).join(" ")))?;
        }
        Ok(())
    }

    /// Adds rows. They are in the file when this returns.
    ///
    /// # Errors
    /// They cannot be written, as on a full disk. The file is then as long as before.
    pub fn add(&mut self, connections: &[Connection]) -> Result<()> {
        append(&mut self.connections, &connections.iter().map(connection::line).collect::<String>())
    }

    /// Adds the row of a slot that has ended.
    ///
    /// # Errors
    /// As [`Folder::add`].
    pub fn slot(&mut self, row: &SlotRow) -> Result<()> {
        append(&mut self.slots, &slot_line(row))
    }

    /// Says that the trial has ended.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&mut self, ended: &Ended) -> Result<()> {
        write_atomic(&self.dir.join(ENDED), &(serde_json::to_string_pretty(ended)? + "\n"))
    }
}

/// All of the text or nothing of it: what a full disk took half of is taken back.
fn append(file: &mut File, text: &str) -> Result<()> {
    let before = file.metadata()?.len();
    let written = file.write_all(text.as_bytes()).and_then(|()| file.flush());
    written
        .inspect_err(|_| drop(file.set_len(before)))
        .context("cannot write to the trial's folder\nhint: is the disk full?")
}

fn cut_half_line(file: &Path) -> Result<()> {
    let bytes = fs::read(file)?;
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
    if whole < bytes.len() {
        OpenOptions::new().write(true).open(file)?.set_len(whole as u64)?;
    }
    Ok(())
}

/// Whether there is a trial in this folder, and not a run of the bench.
pub fn is_trial(dir: &Path) -> bool {
    dir.join(SETUP).exists()
}

/// Whether somebody is running it now.
pub fn is_running(dir: &Path) -> bool {
    let lock = File::open(dir.join(SETUP));
    lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
}

/// Reads the folder of a trial, also while it runs.
///
/// # Errors
/// There is no trial in it, or one of a kind that this program does not know. Rows that are damaged are no error: they are in
/// [`Trial::damage`].
pub fn read(dir: &Path) -> Result<Trial> {
    let file = dir.join(SETUP);
    let text = fs::read_to_string(&file).with_context(|| format!("`{}` holds no trial", dir.display()))?;
    let setup: Setup =
        serde_json::from_str(&text).with_context(|| format!("`{}` is no trial", file.display()))?;
    setup.check().with_context(|| format!("`{}` describes no trial that can be", file.display()))?;
    let mut damage = Vec::new();
    let connections = table(dir, CONNECTIONS, connection::parse, &mut damage)?;
    let slots = table(dir, SLOTS, parse_slots, &mut damage)?;
    let ended = match fs::read_to_string(dir.join(ENDED)) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| damage.push(format!("{ENDED}: {e}."))).ok(),
        Err(_) => None,
    };
    let mut trial = Trial { setup, connections, slots, ended, damage };
    trial.leave_out_impossible();
    Ok(trial)
}

/// What a reader of a table says: rows, and what is wrong with others.
type Parsed<T> = Result<(Vec<T>, Vec<String>), String>;

fn table<T>(
    dir: &Path,
    name: &str,
    parse: impl Fn(&str) -> Parsed<T>,
    damage: &mut Vec<String>,
) -> Result<Vec<T>> {
    let bytes = match fs::read(dir.join(name)) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e).with_context(|| format!("cannot read `{}`", dir.join(name).display())),
    };
    match parse(&String::from_utf8_lossy(&bytes)) {
        Ok((rows, bad)) => {
            if let Some(first) = bad.first() {
                let more = if bad.len() > 1 { format!(" ({} such lines)", bad.len()) } else { String::new() };
                damage.push(format!("{name}: {first}{more}."));
            }
            Ok(rows)
        }
        Err(why) => {
            damage.push(format!("{name}: {why}."));
            Ok(Vec::new())
        }
    }
}

impl Trial {
    /// Drops what the schedule does not have: a folder may come from anywhere.
    fn leave_out_impossible(&mut self) {
        let slots = self.setup.schedule().len() as u32;
        let before = self.connections.len() + self.slots.len();
        self.connections.retain(|c| c.slot < slots);
        let mut seen = std::collections::BTreeSet::new();
        self.slots.retain(|s| s.slot < slots && seen.insert(s.slot));
        let dropped = before - self.connections.len() - self.slots.len();
        if dropped > 0 {
            self.damage.push(format!(
                "{dropped} rows are of slots that the schedule does not have, or has already."
            ));
        }
        self.slots.sort_by_key(|s| s.slot);
    }

    /// The first slot that was not run to its end; as many as there are when all were.
    pub fn next_slot(&self) -> u32 {
        (0..).zip(&self.slots).find(|(n, row)| row.slot != *n).map_or(self.slots.len() as u32, |(n, _)| n)
    }

    /// When the last thing happened that the folder knows of.
    pub fn last_ms(&self) -> u64 {
        let slots = self.slots.iter().map(|s| s.ended_ms);
        let ended = self.ended.iter().map(Ended::at_ms);
        slots.chain(ended).chain(self.connections.iter().map(|c| c.ended_ms)).max().unwrap_or(0)
    }
}

fn slot_line(row: &SlotRow) -> String {
    let mut row = *row;
    let words = COLUMNS.map(|(_, of)| of(&mut row).to_string()).join(" ");
    format!("{} {words}\n", row.slot)
}

fn parse_slots(text: &str) -> Parsed<SlotRow> {
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let (rows, mut bad) = Table::read(whole)?.readable_rows(|row| {
        let mut slot = SlotRow { slot: row.number("slot")?, ..SlotRow::default() };
        for (name, of) in COLUMNS {
            *of(&mut slot) = row.number(name)?;
        }
        match slot.ended_ms >= slot.began_ms {
            true => Ok(slot),
            false => Err(format!("line {}: it ends before it begins", row.line)),
        }
    });
    if whole.len() < text.len() {
        bad.push("the last line is cut".into());
    }
    Ok((rows, bad))
}

#[cfg(test)]
mod tests {
    use super::super::setup::sample;
    use super::*;

    /// A folder of its own for each test, gone with it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("headway-trial-{name}-{}", std::process::id()));
            drop(fs::remove_dir_all(&dir));
            Self(dir)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn connection(slot: u32) -> Connection {
        Connection {
            slot,
            began_ms: u64::from(slot) * 60_000 + 1,
            ended_ms: 1_000_000,
            ..Connection::default()
        }
    }

    fn row(slot: u32) -> SlotRow {
        let began_ms = u64::from(slot) * 60_000;
        SlotRow {
            slot,
            began_ms,
            ended_ms: began_ms + 60_000,
            enrolled: [1, 2],
            mptcp: 3,
            ..SlotRow::default()
        }
    }

    #[test]
    fn what_is_written_is_read_and_goes_on_after_an_interruption() {
        let place = Place::new("goes-on");
        let mut folder = Folder::create(&place.0, &sample()).unwrap();
        folder.add(&[connection(0), connection(1)]).unwrap();
        folder.slot(&row(0)).unwrap();
        folder.end(&Ended::Interrupted { at_ms: 90_000 }).unwrap();
        assert!(
            Folder::resume(&place.0).unwrap_err().to_string().contains("another headway"),
            "the lock is held"
        );
        drop(folder);
        let (mut folder, past) = Folder::resume(&place.0).unwrap();
        assert_eq!((past.connections.len(), past.next_slot(), past.last_ms()), (2, 1, 1_000_000));
        folder.add(&[connection(1)]).unwrap();
        folder.slot(&row(1)).unwrap();
        let trial = read(&place.0).unwrap();
        assert_eq!(
            (trial.connections.len(), &trial.slots[..], trial.ended),
            (3, &[row(0), row(1)][..], None)
        );
        assert!(trial.damage.is_empty(), "{:?}", trial.damage);
    }

    /// As a kill may leave it: whatever of the last line is there, the rest is kept, and what is added later stands in a line of
    /// its own.
    #[test]
    fn a_kill_in_the_middle_of_a_line_costs_that_line() {
        let place = Place::new("kill");
        Folder::create(&place.0, &sample()).unwrap().add(&[connection(0), connection(1)]).unwrap();
        let file = place.0.join(CONNECTIONS);
        let whole = fs::read(&file).unwrap();
        for cut in 1..60 {
            fs::write(&file, &whole[..whole.len() - cut]).unwrap();
            let before = read(&place.0).unwrap();
            assert_eq!((before.connections.len(), before.damage.len()), (1, 1), "cut {cut}");
            let (mut folder, _) = Folder::resume(&place.0).unwrap();
            folder.add(&[connection(2)]).unwrap();
            let after = read(&place.0).unwrap();
            assert_eq!(
                (after.connections, after.damage),
                (vec![connection(0), connection(2)], vec![]),
                "cut {cut}"
            );
        }
    }

    #[test]
    fn a_trial_that_is_over_is_not_gone_on_with_nor_begun_again() {
        let place = Place::new("over");
        let mut folder = Folder::create(&place.0, &sample()).unwrap();
        folder.end(&Ended::Stopped { at_ms: 5, because: "it was slow".into() }).unwrap();
        drop(folder);
        assert!(Folder::resume(&place.0).unwrap_err().to_string().contains("it was slow"));
        assert!(Folder::create(&place.0, &sample()).unwrap_err().to_string().contains("--resume"));
        assert!(read(Path::new("/nonexistent")).unwrap_err().to_string().contains("no trial"));
    }

    #[test]
    fn a_folder_of_a_stranger_is_an_error_or_damage_and_never_a_panic() {
        let place = Place::new("stranger");
        drop(Folder::create(&place.0, &sample()).unwrap());
        let write = |name: &str, text: &[u8]| fs::write(place.0.join(name), text).unwrap();
        let head = connection::head();
        let far = Connection { slot: 4_000_000_000, ..connection(0) };
        for text in
            [&b"\xff\xfe\0"[..], b"", b"no table\n", (head.clone() + &connection::line(&far)).as_bytes()]
        {
            write(CONNECTIONS, text);
            write(SLOTS, b"# slot\n1\n1 2\n");
            write(ENDED, b"{}");
            let trial = read(&place.0).unwrap();
            assert!(trial.connections.is_empty() && trial.slots.is_empty() && !trial.damage.is_empty());
            drop(super::super::findings::Findings::of(&trial));
        }
        for text in [&b"{}"[..], b"[[[[", b"\xff"] {
            write(SETUP, text);
            assert!(read(&place.0).is_err());
        }
    }
}
