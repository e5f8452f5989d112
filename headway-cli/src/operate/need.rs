//! What this machine must have for controllers that are there for good.

use super::enabled::FOLDER;
use super::scope::cgroup_mount;
use super::{boot, unit};
use headway_kernel::{self as kernel, Check};
use std::path::Path;

/// What `headway enable` needs, and what more there is to have.
pub fn enable() -> Vec<Check> {
    let better = |what: &str, ok: bool, hint: String| Check { what: what.into(), ok, hint, required: false };
    let at_boot = "without it nothing is in force after a boot: `systemctl enable headway.service headway-late.service`, or have \
                   this machine's init run `headway apply --boot`";
    let cgroups = "needed for --cgroup, --unit and --port: `mount -t cgroup2 none /sys/fs/cgroup`, or boot with \
                   systemd.unified_cgroup_hierarchy=1";
    let skipped = boot::why_skipped();
    let mut all = kernel::load_needs();
    all.extend([
        Check::required(
            "a place for what is enabled",
            can_write(Path::new(FOLDER)),
            format!("{FOLDER} must be writable, by root"),
        ),
        better("units that bring it back at boot", unit::has_boot_unit(), at_boot.into()),
        better(
            "a boot that got through",
            skipped.is_none(),
            skipped.unwrap_or_default() + "; `headway apply` puts it in force now",
        ),
        better("cgroups of version 2", cgroup_mount().is_some(), cgroups.into()),
        better(
            "systemd, for --unit",
            unit::is_here(),
            "use --cgroup or --port where another init runs".into(),
        ),
    ]);
    all
}

/// Whether the nearest folder that there is can be written.
fn can_write(folder: &Path) -> bool {
    let there = folder.ancestors().find(|f| f.is_dir()).unwrap_or(Path::new("/"));
    rustix::fs::access(there, rustix::fs::Access::WRITE_OK).is_ok()
}
