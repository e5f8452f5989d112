//! What loading our programs needs of the machine: each need as a [`Check`] that can be shown, and the first unmet
//! one as an error. Nothing here changes anything.

use std::fs;
use std::path::Path;

use rustix::fs::statfs;

use crate::btf::{Api, BTF_FILE};
use crate::error::{Error, ErrorKind, Result};
use crate::{read_line, release};

/// Where the kernel's BPF file system belongs, and the number by which `statfs` tells it (`linux/magic.h`).
pub(crate) const BPF_FS: &str = "/sys/fs/bpf";
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// How to mount it where it is missing.
const MOUNT: &str = "mount -t bpf bpf /sys/fs/bpf";

/// One thing that something needs of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is needed, as a noun: `BPF compiler (JIT)`.
    pub what: String,
    /// Whether the machine has it.
    pub ok: bool,
    /// What to do when it is missing.
    pub hint: String,
    /// Whether nothing works without it. What is not required makes something better.
    pub required: bool,
}

impl Check {
    /// A need without which nothing works.
    pub fn required(what: impl Into<String>, ok: bool, hint: impl Into<String>) -> Self {
        Self { what: what.into(), ok, hint: hint.into(), required: true }
    }
}

/// What [`attach`](crate::attach) needs of this machine.
pub fn needs() -> Vec<Check> {
    let ends = Check {
        what: "registration that ends with the process".into(),
        ok: Api::of_kernel().is_ok_and(|a| a.has_links),
        hint:
            "without it (before Linux 6.4) a killed `headway` leaves its controller registered until reboot"
                .into(),
        required: false,
    };
    [bpf_needs(), vec![ends]].concat()
}

/// What [`Order::load`](crate::Order::load) needs of this machine.
pub fn load_needs() -> Vec<Check> {
    [bpf_needs(), vec![Check::required("BPF file system", has_bpf_fs(), MOUNT)]].concat()
}

/// What [`Watcher`](crate::Watcher) needs of this machine.
pub fn watch_needs() -> Vec<Check> {
    bpf_needs()
}

/// What our programs need of this machine, in the order in which it is needed.
fn bpf_needs() -> Vec<Check> {
    let release = release();
    vec![
        Check::required(
            "rights to load BPF",
            has_rights(),
            "run as root (or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN)",
        ),
        Check::required(
            "kernel type information (BTF)",
            Path::new(BTF_FILE).exists(),
            "use a kernel with CONFIG_DEBUG_INFO_BTF, or try the simulator: `headway sim`",
        ),
        Check::required("BPF compiler (JIT)", is_jit_on(), "enable it: `sysctl net.core.bpf_jit_enable=1`"),
        Check::required(
            "BPF congestion controls",
            Api::of_kernel().is_ok(),
            "use a kernel with CONFIG_BPF_JIT and CONFIG_INET, 6.0 or newer, or try the simulator: `headway sim`",
        ),
        Check {
            what: "Linux 6.0 or newer".into(),
            ok: version(&release).is_none_or(|v| v >= (6, 0)),
            hint: format!("this is {release}; older kernels let BPF set the pacing rate only by backports"),
            required: false,
        },
    ]
}

/// Fails with this sentence where the rights to load BPF, and so to look at what is loaded, are missing.
pub(crate) fn demand_rights(what: &str) -> Result<()> {
    match has_rights() {
        true => Ok(()),
        false => Err(Error::new(what).of(ErrorKind::NeedsRights)),
    }
}

/// The first required need that this machine does not meet, as an error.
pub(crate) fn demand_bpf() -> Result<()> {
    match bpf_needs().into_iter().find(|c| c.required && !c.ok) {
        Some(c) => {
            let kind = if has_rights() { ErrorKind::RefusedByKernel } else { ErrorKind::NeedsRights };
            Err(Error::new(format!("this machine lacks: {}", c.what)).with_hint(c.hint).of(kind))
        }
        None => Ok(()),
    }
}

fn has_bpf_fs() -> bool {
    statfs(BPF_FS).is_ok_and(|s| s.f_type as u64 & 0xffff_ffff == BPF_FS_MAGIC)
}

/// Fails where there is no BPF file system. We do not mount it: in a container the mount, and with it the controller,
/// would end with the container.
pub(crate) fn demand_bpf_fs() -> Result<()> {
    match has_bpf_fs() {
        true => Ok(()),
        false => {
            let what = format!("{BPF_FS} is not the kernel's BPF file system, where it would be kept");
            Err(Error::new(what).with_hint(MOUNT).of(ErrorKind::NoBpfFs))
        }
    }
}

/// Whether this process has the capabilities that loading takes (numbers from `linux/capability.h`); CAP_SYS_ADMIN
/// stands for those that were split off from it.
pub(crate) fn has_rights() -> bool {
    const NET_ADMIN: u32 = 12;
    const SYS_ADMIN: u32 = 21;
    const PERFMON: u32 = 38;
    const BPF: u32 = 39;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let held = held.and_then(|h| u64::from_str_radix(h.trim(), 16).ok()).unwrap_or(0);
    let has = |bit: u32| held >> bit & 1 == 1;
    has(NET_ADMIN) && (has(SYS_ADMIN) || has(PERFMON) && has(BPF))
}

/// Only "0" counts against the JIT: where the file is missing or unreadable, the kernel may have it always on.
fn is_jit_on() -> bool {
    read_line("/proc/sys/net/core/bpf_jit_enable").is_none_or(|mode| mode != "0")
}

/// Major and minor of a release such as `6.1.0-49-cloud-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_releases() {
        assert_eq!(version("6.1.0-49-cloud-amd64"), Some((6, 1)));
        assert_eq!(version("7.2"), Some((7, 2)));
        assert_eq!(version("next"), None);
    }
}
