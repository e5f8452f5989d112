//! The guest's root file system: this very program as `/init`, the tools and files that were asked for, the tools'
//! shared libraries and the kernel modules, as an uncompressed `newc` archive. Nothing in it depends on the clock or on the order in
//! which directories list their files, so the same program and kernel give the same bytes.

use super::image;
use crate::sys::program;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Modules loaded in the guest when the kernel has them as modules; what is built in needs no file.
const MODULES: &[&str] = &["tun", "tcp_bbr", "sch_fq", "veth"];

/// Where modules lie in the guest, numbered in the order of loading.
pub const MODULE_DIR: &str = "/modules";

/// File types and permissions, as in `st_mode`.
const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// What a guest finds beside this program.
#[derive(Debug, Default)]
pub struct Content<'a> {
    /// Programs of this machine, each a name or a path, that commands in the guest may start.
    pub tools: &'a [&'a str],
    /// Modules beside the usual ones, where the kernel has them as modules.
    pub modules: &'a [String],
    /// A folder whose files the guest finds in its root.
    pub root: Option<&'a Path>,
}

/// Builds the archive for the kernel whose modules are below `modules`.
pub fn build(modules: Option<&Path>, content: &Content) -> Result<Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let me = format!("/proc/{}/exe", std::process::id());
    files.extend(program::with_libraries("/init", Path::new(&me))?);
    for tool in content.tools {
        let path = program::find_program(tool)
            .with_context(|| format!("`{tool}` is not installed\nhint: apt-get install {tool}"))?;
        let name = path.file_name().context("a program has a name")?.to_string_lossy();
        files.extend(program::with_libraries(&format!("/bin/{name}"), &path)?);
    }
    if let Some(root) = content.root {
        add_files(root, root, &mut files)
            .with_context(|| format!("cannot read the files below {}", root.display()))?;
    }
    for (at, (name, content)) in collect_modules(modules, content.modules)?.into_iter().enumerate() {
        files.insert(format!("{MODULE_DIR}/{at:02}-{name}.ko"), content);
    }
    let mut archive = Archive::default();
    for dir in directories(files.keys()) {
        archive.add(&dir, DIRECTORY, &[]);
    }
    for (name, content) in &files {
        archive.add(name, PROGRAM, content);
    }
    Ok(archive.finish())
}

/// Adds every file below `dir`, by its path below `root`.
fn add_files(dir: &Path, root: &Path, files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            add_files(&path, root, files)?;
        } else {
            let name = format!("/{}", path.strip_prefix(root)?.display());
            files.insert(name, std::fs::read(&path)?);
        }
    }
    Ok(())
}

/// Name and content of the wanted modules and of those that they depend on, dependencies first.
fn collect_modules(dir: Option<&Path>, further: &[String]) -> Result<Vec<(String, Vec<u8>)>> {
    let mut index = BTreeMap::new();
    if let Some(dir) = dir {
        index_modules(dir, &mut index)
            .with_context(|| format!("cannot list the kernel modules in {}", dir.display()))?;
    }
    let mut ordered = Vec::new();
    let mut seen = BTreeSet::new();
    for name in MODULES.iter().copied().chain(further.iter().map(String::as_str)) {
        add_module(name, &index, &mut seen, &mut ordered)?;
    }
    Ok(ordered)
}

/// Appends a module behind the modules that it depends on; nothing if it is not in `index`, because then it is built
/// in.
fn add_module(
    name: &str,
    index: &BTreeMap<String, PathBuf>,
    seen: &mut BTreeSet<String>,
    ordered: &mut Vec<(String, Vec<u8>)>,
) -> Result<()> {
    let Some(path) = index.get(name) else { return Ok(()) };
    if !seen.insert(name.to_string()) {
        return Ok(());
    }
    let mut content = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if !content.starts_with(b"\x7fELF") {
        content = image::decompress(&content).with_context(|| format!("cannot unpack {}", path.display()))?;
    }
    for needed in dependencies(&content) {
        add_module(&needed, index, seen, ordered)?;
    }
    ordered.push((name.to_string(), content));
    Ok(())
}

/// Adds every module below `dir` to `index`, by its name, in which the kernel takes `-` for `_`.
fn index_modules(dir: &Path, index: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            index_modules(&path, index)?;
        } else if let Some((name, "" | ".xz" | ".zst" | ".gz")) =
            path.file_name().and_then(|n| n.to_str()).and_then(|n| n.split_once(".ko"))
        {
            index.insert(name.replace('-', "_"), path.clone());
        }
    }
    Ok(())
}

/// The names of the modules that a module depends on, from the `depends=` line in its `.modinfo` section.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|w| w == KEY) else { return Vec::new() };
    let value = &module[at + KEY.len()..];
    let value = &value[..value.iter().position(|&b| b == 0).unwrap_or(0)];
    let names = String::from_utf8_lossy(value).replace('-', "_");
    names.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect()
}

/// Every directory above the files, and the mount points of the guest; parents first, as an archive must have them.
fn directories<'a>(files: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    let mut dirs: BTreeSet<String> =
        ["/dev", "/proc", "/sys", "/tmp", "/run", MODULE_DIR].map(String::from).into();
    for file in files {
        for (at, _) in file.match_indices('/').skip(1) {
            dirs.insert(file[..at].to_string());
        }
    }
    dirs
}

/// A cpio archive in the `newc` format, as the kernel's `initramfs` documentation describes it.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.inode += 1;
        let name = name.trim_start_matches('/');
        let links = if mode == DIRECTORY { 2 } else { 1 };
        // inode, mode, uid, gid, links, mtime, size, device (2), special device (2), length of the name, check
        let size = content.len() as u32;
        let fields = [self.inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    fn finish(mut self) -> Vec<u8> {
        self.inode = 0;
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_has_the_newc_layout() {
        let mut archive = Archive::default();
        archive.add("/bin", DIRECTORY, &[]);
        archive.add("/bin/a", PROGRAM, b"hello");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let first = String::from_utf8_lossy(&bytes[..110]).to_string();
        assert_eq!(first, "07070100000001000041ed00000000000000000000000200000000000000000000000000000000000000000000000000000004000000 00".replace(' ', ""));
        assert_eq!(&bytes[110..116], b"bin\0\0\0".as_slice().get(..6).unwrap());
        let second = (110 + 4usize).next_multiple_of(4);
        assert_eq!(&bytes[second..second + 6], b"070701");
        assert_eq!(&bytes[second + 54..second + 62], b"00000005", "size of the file");
        assert!(bytes.windows(10).any(|w| w == b"TRAILER!!!"));
    }

    #[test]
    fn dependencies_come_from_modinfo() {
        assert_eq!(
            dependencies(b"license=GPL\0depends=virtio,virtio-ring\0retpoline=Y\0"),
            ["virtio", "virtio_ring"]
        );
        assert!(dependencies(b"x\0depends=\0y").is_empty());
        assert!(dependencies(b"no such line").is_empty());
    }

    #[test]
    fn directories_list_parents_first() {
        let dirs = directories(["/lib/x86/libc.so".to_string(), "/init".to_string()].iter());
        let dirs: Vec<_> = dirs.iter().map(String::as_str).collect();
        assert_eq!(dirs, ["/dev", "/lib", "/lib/x86", "/modules", "/proc", "/run", "/sys", "/tmp"]);
    }
}
