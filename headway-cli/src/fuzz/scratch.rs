//! A run folder in memory that nobody but one input writes to, and beside it a file that must stay as it is.
//!
//! Several files are one input when each stands behind a line `==> NAME`. A line `==> NAME ->` makes a link to the file
//! beside the folder, which a report must neither write to nor show.

use super::page;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub struct Scratch {
    /// Holds `run` and `beside`.
    dir: PathBuf,
    kept: RefCell<BTreeMap<PathBuf, Vec<u8>>>,
}

/// What stands in the file beside the folder.
const SECRET: &str = "\"this is nobody else's\"\n";
/// What a report writes.
const WRITTEN: [&str; 3] = ["results.csv", "results.json", "report.html"];
/// Files that an input may name, in the run folder or in the folders of its cells.
const NAMES: [&str; 22] = [
    "plan.json",
    "env.json",
    "about.json",
    "cell.json",
    "load.json",
    "rival.json",
    "probe.txt",
    "link.txt",
    "messages.txt",
    "ping.txt",
    "requests.txt",
    "host.txt",
    "cpu.txt",
    "acks.txt",
    "packets.txt",
    "console.txt",
    "results.csv",
    "report.html",
    ".results.csv.tmp",
    ".results.json.tmp",
    ".report.html.tmp",
    "cells",
];

impl Scratch {
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let dir = root.join(format!("headway-fuzz-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("run/cells")).unwrap();
        fs::write(dir.join("beside"), SECRET).unwrap();
        Self { dir, kept: RefCell::default() }
    }

    pub fn run(&self) -> PathBuf {
        self.dir.join("run")
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        let file = self.run().join(name);
        if fs::symlink_metadata(&file).is_ok_and(|m| m.is_symlink()) {
            fs::remove_file(&file).unwrap();
        }
        let made = fs::create_dir_all(file.parent().unwrap()).and_then(|()| fs::write(&file, bytes));
        drop(made); // Nothing can be put below a link.
    }

    pub fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.run().join(name)).ok()
    }

    pub fn unpack(&self, bytes: &[u8]) {
        let mut file: Option<(&str, Vec<u8>)> = None;
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            match line.strip_prefix(b"==> ").and_then(|head| str::from_utf8(head).ok()) {
                Some(head) => {
                    file.take().into_iter().for_each(|(name, bytes)| self.put(name, &bytes));
                    file = self.begin(head.trim_end());
                }
                None => file.iter_mut().for_each(|(_, bytes)| bytes.extend(line)),
            }
        }
        file.into_iter().for_each(|(name, bytes)| self.put(name, &bytes));
    }

    /// The file that a line begins; none where it makes a link, or the name is none that a run folder has.
    fn begin<'a>(&self, head: &'a str) -> Option<(&'a str, Vec<u8>)> {
        let name = head.strip_suffix(" ->").unwrap_or(head);
        let inner = ["cells/000/", "cells/001/"].iter().find_map(|cell| name.strip_prefix(cell));
        if !NAMES.contains(&inner.unwrap_or(name)) {
            return None;
        }
        if name == head {
            return Some((name, Vec::new()));
        }
        let file = self.run().join(name);
        let _ = fs::remove_file(&file).or_else(|_| fs::remove_dir_all(&file));
        let _ = std::os::unix::fs::symlink(self.dir.join("beside"), file);
        None
    }

    /// Remembers all files, which [`Scratch::check`] wants to find again.
    pub fn keep(&self) {
        *self.kept.borrow_mut() = self.files();
    }

    /// Only the report's files are new or different, the file beside is what it was, and the page is ours.
    pub fn check(&self) {
        let (before, after) = (self.kept.borrow(), self.files());
        let is_report = |file: &Path| WRITTEN.iter().any(|name| file == self.run().join(name));
        let is_temporary =
            |file: &Path| WRITTEN.iter().any(|name| file == self.run().join(format!(".{name}.tmp")));
        for (file, bytes) in after.iter().filter(|(file, _)| !is_report(file)) {
            assert_eq!(before.get(file), Some(bytes), "{} is new or changed", file.display());
        }
        for file in before.keys().filter(|file| !is_temporary(file)) {
            assert!(after.contains_key(file), "{} is gone", file.display());
        }
        let page = self.run().join("report.html");
        if before.get(&page) != after.get(&page) {
            let html = str::from_utf8(&after[&page]).unwrap();
            page::check(html, 2);
            assert!(!html.contains("nobody else"), "the page shows what lies outside");
        }
    }

    /// Every file below the folder with its content, a link with its target.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.dir.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                match () {
                    () if kind.is_dir() => folders.push(path),
                    () if kind.is_symlink() => drop(files.insert(path, b"a link".to_vec())),
                    () => drop(files.insert(path.clone(), fs::read(&path).unwrap())),
                }
            }
        }
        files
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}
