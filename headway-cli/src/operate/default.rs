//! The default: the congestion control of sockets that choose none, a setting of each network namespace.
//!
//! A new namespace takes the default of the machine's first one, so a container that starts later has ours by itself.
//! Namespaces that exist already are not changed, because what is in them was started with another default; they are
//! counted. Only on the way out they are looked after: a namespace whose default is a name that goes would give its
//! connections `reno`.

use anyhow::{Context, Result};
use headway_kernel::Netns;
use std::fs;

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
    /// The namespace.
    pub netns: Netns,
    /// Its default.
    pub default: String,
}

/// The other network namespaces that processes are in, as far as the user may see.
pub fn others() -> Vec<Other> {
    let other = |netns: Netns| {
        let default = netns.inside(get).ok()?.ok()?;
        Some(Other { netns, default })
    };
    Netns::all().into_iter().filter(|netns| !netns.is_own()).filter_map(other).collect()
}

impl Other {
    /// Sets its default.
    pub fn set(&self, name: &str) -> bool {
        matches!(self.netns.inside(|| set(name)), Ok(Ok(())))
    }
}
