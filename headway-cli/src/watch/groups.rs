//! The names of cgroups. A socket knows the number of the cgroup in which it was made, which is the inode number of the
//! cgroup's folder.

use crate::operate::scope::cgroups;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The folders are not walked again within this time.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub struct Groups {
    paths: HashMap<u64, String>,
    read: Option<Instant>,
}

impl Groups {
    /// The path of a cgroup below the mount, `/` for the one above all; empty where it is not known or gone.
    pub fn path(&mut self, id: u64) -> &str {
        let is_old = self.read.is_none_or(|read| read.elapsed() > PATIENCE);
        if id != 0 && is_old && !self.paths.contains_key(&id) {
            self.read = Some(Instant::now());
            self.walk();
        }
        self.known(id)
    }

    /// As [`Groups::path`], without looking again.
    pub fn known(&self, id: u64) -> &str {
        self.paths.get(&id).map_or("", String::as_str)
    }

    fn walk(&mut self) {
        self.paths.clear();
        let mount = cgroups();
        if let Ok(root) = fs::metadata(&mount) {
            self.paths.insert(std::os::unix::fs::MetadataExt::ino(&root), "/".into());
        }
        self.walk_below(&mount, "");
    }

    fn walk_below(&mut self, folder: &Path, path: &str) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|t| t.is_dir()) {
                continue;
            }
            let below = format!("{path}/{}", entry.file_name().to_string_lossy());
            self.walk_below(&entry.path(), &below);
            self.paths.insert(entry.ino(), below);
        }
    }
}

/// The unit, where a path ends with one, or the last folder: what tells services apart in a narrow column.
pub fn short(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shortened_to_what_tells_services_apart() {
        for (path, expected) in
            [("/system.slice/nginx.service", "nginx.service"), ("/a/b", "b"), ("/", "/"), ("", "")]
        {
            assert_eq!(short(path), expected);
        }
    }

    #[test]
    fn a_number_that_nobody_has_is_no_name() {
        assert_eq!(Groups::default().path(u64::MAX), "");
    }
}
