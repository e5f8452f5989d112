//! The default: the congestion control of sockets that choose none, a setting of each network namespace.
//!
//! A new namespace takes the default of the machine's first one, so a container that starts later has ours by itself.
//! Namespaces that exist already are not changed, because what is in them was started with another default; they are
//! counted. Only on the way out they are looked after: a namespace whose default is a name that goes would give its
//! connections `reno`.

use crate::sys::ns;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

const SYSCTL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// What stands in for a default that is gone, if the kernel has it: Linux's own default, and what every kernel has.
const FALLBACKS: [&str; 2] = ["cubic", "reno"];

/// The default of the calling thread's namespace.
pub fn get() -> Result<String> {
    Ok(fs::read_to_string(SYSCTL).with_context(|| format!("cannot read {SYSCTL}"))?.trim().to_string())
}

/// Sets the default of the calling thread's namespace. The kernel takes a name only if there is such a congestion
/// control, so it is never without one.
pub fn set(name: &str) -> Result<()> {
    fs::write(SYSCTL, name).with_context(|| format!("cannot make `{name}` the default in {SYSCTL}"))
}

/// What the default is to be when `ours` goes: what it was before, if that is still there.
pub fn fallback(before: Option<&str>, ours: &[&str]) -> String {
    let there = headway_kernel::available().registered;
    let is_there = |name: &&str| there.iter().any(|r| r == *name) && !ours.contains(name);
    let wanted = before.into_iter().chain(FALLBACKS).find(is_there);
    wanted.unwrap_or("reno").to_string()
}

/// Another network namespace.
#[derive(Debug)]
pub struct Other {
    /// Its inode, as `lsns -t net` shows it.
    pub netns: u64,
    /// A process in it.
    pub pid: u32,
    /// Its default.
    pub default: String,
    handle: OwnedFd,
}

/// The other network namespaces that processes are in, as far as the user may see.
pub fn others() -> Vec<Other> {
    let own = fs::metadata("/proc/self/ns/net").map(|m| m.ino()).unwrap_or_default();
    let mut found: BTreeMap<u64, (u32, File)> = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(file) = File::open(process.path().join("ns/net")) else { continue };
        if let Ok(netns) = file.metadata().map(|m| m.ino()) {
            found.entry(netns).or_insert((pid, file));
        }
    }
    found.remove(&own);
    let other = |(netns, (pid, file)): (u64, (u32, File))| {
        let handle = OwnedFd::from(file);
        let default = inside(&handle, get)?;
        Some(Other { netns, pid, default, handle })
    };
    found.into_iter().filter_map(other).collect()
}

impl Other {
    /// Sets its default.
    pub fn set(&self, name: &str) -> bool {
        inside(&self.handle, || set(name)).is_some()
    }
}

/// Does some work in another namespace, by a thread of its own, which ends there; `None` where it cannot be done.
fn inside<T: Send>(netns: &OwnedFd, work: impl FnOnce() -> Result<T> + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            ns::enter_netns(netns)?;
            work()
        });
        thread.join().ok()?.ok()
    })
}
