//! The kernels that the lab can boot: finding one by its version, and preparing it once for all its guests.

use super::initramfs::Content;
use super::{image, initramfs};
use crate::sys::lab::memory_file;
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Stands in for the host's time of day, which QEMU lets the guest feel (`lab/clock.c` says how).
static CLOCK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

/// A kernel to boot, with everything that all its guests share, in memory files.
#[derive(Debug)]
pub struct Kernel {
    pub version: String,
    /// SHA-256 of a kernel that was named by its file or built here, which may have become another since.
    pub digest: Option<String>,
    /// SHA-256 of the initramfs: this program, its libraries and the modules. Another build of the same source has another, and
    /// its guests take other instructions, which are their time.
    pub initramfs_digest: String,
    pub(super) image: File,
    pub(super) initramfs: File,
    pub(super) clock: File,
}

impl Kernel {
    /// `spec`: a kernel file, the beginning of a version (`6.1`), or nothing for the newest kernel there is.
    /// `modules`: the directory of its modules; needed with a file that has none beside it.
    pub fn find(spec: Option<&str>, modules: Option<&Path>, content: &Content) -> Result<Self> {
        let (file, found_modules) = match spec {
            Some(path) if is_file(path) => {
                let file = PathBuf::from(path);
                ensure!(
                    file.is_file(),
                    "there is no kernel file `{path}`\nhint: name a vmlinuz or bzImage, or a version as `headway doctor` shows it"
                );
                let beside = file.with_file_name("modules");
                (file, Some(beside).filter(|dir| dir.is_dir()))
            }
            version => choose(&kernels(), version)?,
        };
        let packed =
            std::fs::read(&file).with_context(|| format!("cannot read the kernel {}", file.display()))?;
        let is_own = |spec: &str| is_file(spec) || built().iter().any(|kernel| kernel.version == spec);
        let digest = spec.filter(|spec| is_own(spec)).map(|_| sha256(&packed));
        let image =
            image::unpack(packed).with_context(|| format!("cannot use the kernel {}", file.display()))?;
        let version = image::version(&image).context("the kernel file holds no version")?;
        let initramfs = initramfs::build(modules.or(found_modules.as_deref()), content)?;
        Ok(Self {
            version,
            digest,
            initramfs_digest: sha256(&initramfs),
            image: filled("headway-kernel", &image)?,
            initramfs: filled("headway-initramfs", &initramfs)?,
            clock: filled("headway-clock", CLOCK)?,
        })
    }
}

fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether this names a kernel file and not a version.
pub fn is_file(spec: &str) -> bool {
    spec.contains('/') || Path::new(spec).is_file()
}

/// The versions of the kernels that can be chosen.
pub fn versions() -> Vec<String> {
    kernels().into_iter().map(|kernel| kernel.version).collect()
}

/// A kernel that can be chosen.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// Its release, as `uname -r` prints it.
    pub version: String,
    pub file: PathBuf,
    pub modules: Option<PathBuf>,
    pub origin: Origin,
}

/// Where a kernel comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `headway kernel fetch` has fetched it.
    Fetched,
    /// It is installed on this machine.
    Installed,
    /// `headway kernel build` has built it. It is taken where its whole name is given, so that it never stands for a
    /// distribution's kernel.
    Built,
}

impl Origin {
    pub fn word(self) -> &'static str {
        match self {
            Self::Fetched => "fetched",
            Self::Installed => "installed",
            Self::Built => "built",
        }
    }
}

/// Every kernel that can be chosen.
pub fn kernels() -> Vec<Found> {
    let mut all = unbuilt();
    all.extend(built());
    all
}

fn built() -> Vec<Found> {
    cache_dir().map(|dir| in_folders(&dir.join("built"), Origin::Built)).unwrap_or_default()
}

/// Kernels that were fetched; failing those, the ones installed on this machine.
fn unbuilt() -> Vec<Found> {
    let fetched =
        cache_dir().map(|dir| in_folders(&dir.join("kernels"), Origin::Fetched)).unwrap_or_default();
    if !fetched.is_empty() {
        return fetched;
    }
    let boot = Path::new("/boot");
    names(boot)
        .filter_map(|name| Some(name.strip_prefix("vmlinuz-")?.to_string()))
        .map(|version| Found {
            file: boot.join(format!("vmlinuz-{version}")),
            modules: Some(Path::new("/lib/modules").join(&version)).filter(|dir| dir.is_dir()),
            version,
            origin: Origin::Installed,
        })
        .filter(|found| File::open(&found.file).is_ok()) // some distributions let only root read them
        .collect()
}

fn cache_dir() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(base.join("headway"))
}

fn in_folders(dir: &Path, origin: Origin) -> Vec<Found> {
    let found = |version: String| Found {
        file: dir.join(&version).join("vmlinuz"),
        modules: Some(dir.join(&version).join("modules")).filter(|dir| dir.is_dir()),
        version,
        origin,
    };
    let mut all: Vec<_> = names(dir).map(found).filter(|f| f.file.is_file()).collect();
    all.sort_by(|a, b| a.version.cmp(&b.version));
    all
}

fn names(dir: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// File and modules of the newest kernel, or of the newest whose version begins with `wanted`.
fn choose(kernels: &[Found], wanted: Option<&str>) -> Result<(PathBuf, Option<PathBuf>)> {
    let fits = |found: &&Found| {
        wanted.is_none_or(|w| {
            found.version.strip_prefix(w).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    let is_named = |found: &&Found| found.origin == Origin::Built && wanted == Some(&*found.version);
    if let Some(found) = kernels.iter().find(is_named) {
        return Ok((found.file.clone(), found.modules.clone()));
    }
    let unbuilt = kernels.iter().filter(|found| found.origin != Origin::Built);
    if let Some(found) = unbuilt.filter(fits).max_by_key(|found| numbers(&found.version)) {
        return Ok((found.file.clone(), found.modules.clone()));
    }
    let names: Vec<_> = kernels.iter().map(|k| k.version.as_str()).collect();
    match wanted {
        Some(wanted) if names.is_empty() => {
            bail!("there is no kernel `{wanted}` for the lab\nhint: headway kernel fetch")
        }
        Some(wanted) => {
            bail!(
                "there is no kernel `{wanted}` for the lab, only {}\nhint: `headway kernel fetch {wanted}` fetches it",
                names.join(", ")
            )
        }
        None => bail!("there is no kernel for the lab\nhint: headway kernel fetch"),
    }
}

/// `6.12.107+deb13` → [6, 12, 107, 13]: versions are ordered by their numbers, as 6.9 comes before 6.12.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

fn filled(name: &str, content: &[u8]) -> Result<File> {
    let mut file = memory_file(name, 0)?;
    file.write_all(content).context("cannot fill a memory file")?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(version: &str) -> Found {
        Found { version: version.into(), file: version.into(), modules: None, origin: Origin::Fetched }
    }

    fn chosen(wanted: Option<&str>) -> Result<String> {
        let kernels = [found("6.1.0-49-cloud-amd64"), found("6.12.107+deb13-cloud-amd64"), found("6.9.1")];
        choose(&kernels, wanted).map(|(file, _)| file.display().to_string())
    }

    #[test]
    fn the_newest_kernel_is_chosen_by_numbers_not_letters() {
        assert_eq!(chosen(None).unwrap(), "6.12.107+deb13-cloud-amd64");
    }

    /// By `printf abc | sha256sum`.
    #[test]
    fn a_digest_is_what_sha256sum_prints() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_kernel_that_was_built_is_taken_by_its_whole_name_only() {
        let kernels = [found("6.12.95-1"), Found { origin: Origin::Built, ..found("6.12.99-lab-napi") }];
        let chosen = |wanted| choose(&kernels, wanted).map(|(file, _)| file.display().to_string());
        assert_eq!(chosen(None).unwrap(), "6.12.95-1");
        assert_eq!(chosen(Some("6.12")).unwrap(), "6.12.95-1");
        assert_eq!(chosen(Some("6.12.99-lab-napi")).unwrap(), "6.12.99-lab-napi");
        assert!(chosen(Some("6.12.99")).is_err());
    }

    #[test]
    fn a_version_prefix_ends_at_a_number() {
        assert_eq!(chosen(Some("6.1")).unwrap(), "6.1.0-49-cloud-amd64");
        assert_eq!(chosen(Some("6.9.1")).unwrap(), "6.9.1");
    }

    #[test]
    fn a_missing_kernel_is_named_with_what_there_is() {
        let error = chosen(Some("5.4")).unwrap_err().to_string();
        assert!(error.contains("`5.4`") && error.contains("6.9.1") && error.contains("hint: "), "{error}");
        assert!(choose(&[], None).unwrap_err().to_string().contains("headway kernel fetch"));
    }
}
