//! Network namespaces: the sets of sockets that a machine has, one for each container and more.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace, which stays as long as this is kept.
#[derive(Debug)]
pub struct Netns {
    /// Its inode, as `lsns -t net` shows it.
    pub inode: u64,
    /// A process in it.
    pub pid: u32,
    file: File,
}

impl Netns {
    /// Those that processes are in, by their inodes, as far as the user may see.
    pub fn all() -> Vec<Netns> {
        let mut found = BTreeMap::new();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Ok(file) = File::open(process.path().join("ns/net")) else { continue };
            if let Ok(inode) = file.metadata().map(|m| m.ino()) {
                found.entry(inode).or_insert(Netns { inode, pid, file });
            }
        }
        found.into_values().collect()
    }

    /// Whether the calling thread is in it.
    pub fn is_own(&self) -> bool {
        fs::metadata("/proc/thread-self/ns/net").is_ok_and(|own| own.ino() == self.inode)
    }

    /// Does some work in it, by a thread of its own, which ends there. Fails where the user may not enter it.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let enter_and_work = || {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        };
        std::thread::scope(|scope| {
            scope.spawn(enter_and_work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}
