//! Giving a congestion control to the connections of a cgroup, optionally on certain ports only, whatever their programs
//! choose by default: a sockops program that calls `setsockopt` when a handshake is done (`bpf/assign.bpf.c`).
//!
//! Like a loaded controller, an assignment is one file in the kernel's BPF file system, and everything about it is read
//! back from what the file stands for. It is a pinned link to the cgroup, and the link is attached first and pinned last:
//! a process that dies in between takes it along. Or it is the program alone, for systemd to attach whenever a unit
//! starts, because a link ends with its cgroup.

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, Program, ProgramMut};
use rustix::fs::fstatfs;

use crate::calls::{MULTI, OVERRIDE, sockops_at, sockops_of};
use crate::error::{Context, Error, ErrorKind, Result, bail, ensure};
use crate::is_registered;
use crate::loaded::{lock, maps_of};
use crate::need::{BPF_FS, demand_bpf, demand_bpf_fs, demand_rights};
use crate::object::{COUNTERS, ONLY_KEY, SETTINGS, explain, is_named, to_words, with_log};
use crate::programs::{NAME_MAX, object};

/// The folders of the two kinds. They are not below the one of loaded controllers, whose folders are controllers.
const SCOPES: &str = "/sys/fs/bpf/headway-scopes";
const PROGRAMS: &str = "/sys/fs/bpf/headway-programs";

/// How many ranges of ports the program has room for: `MAX_RANGES` in `bpf/assign.bpf.c` and `bpf/trial.bpf.c`.
const MAX_RANGES: usize = 16;

/// The number by which `statfs` tells a file system of cgroups, version 2 (`linux/magic.h`).
const CGROUP_MAGIC: u64 = 0x6367_7270;

/// Which congestion control connections get, and on which ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The congestion control's name, ours or one of the kernel's own.
    pub cc: String,
    /// Ranges of ports, first and last, both inclusive; at most 16. A connection is given the congestion control if the
    /// port of either end is in one of them, or whatever its ports are if there is none.
    pub ports: Vec<(u16, u16)>,
}

/// An assignment in the kernel.
#[derive(Clone, Debug)]
pub struct Assigned {
    /// The name that it was made under.
    pub id: String,
    /// What it assigns.
    pub assignment: Assignment,
    /// The identifier of its cgroup, which is the inode number of the cgroup's folder. `None` when that cgroup is gone,
    /// and for a program alone.
    pub cgroup: Option<u64>,
    /// Connections that got the congestion control.
    pub given: u64,
    /// Connections that kept what they had, because the kernel did not take the name.
    pub refused: u64,
    /// How it is attached.
    pub kind: AssignedKind,
}

/// How an assignment is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssignedKind {
    /// By a link of ours to a cgroup, made by [`assign`]. It ends with the cgroup.
    Cgroup,
    /// Not by us: a program alone, made by [`assign_program`].
    Program,
}

/// Gives new connections of the cgroup with this folder, and of the cgroups below it, a congestion control. It stays
/// until [`unassign`], until the cgroup is removed, or until the next boot; connections that are open already keep what
/// they have. Programs of others on the same cgroups go on working.
///
/// A connection belongs to the cgroup in which its socket was made, and one that came in to the cgroup in which its
/// listener was made. A service whose listener was made elsewhere, as systemd makes it for socket activation, is not
/// reached by its own cgroup, but by its port from the cgroup above all.
///
/// Fails when there is an assignment of this name, when nobody in the kernel is called `cc`, when the path is not a
/// cgroup, and when another's program is in the way, which the kernel would not run beside ours.
pub fn assign(id: &str, assignment: &Assignment, cgroup: &Path) -> Result<()> {
    let pin = AssignedKind::Cgroup.pin(id);
    let cannot = || format!("cannot assign `{}` to {}", assignment.cc, cgroup.display());
    check_id(id).and_then(|()| attach(&pin, assignment, cgroup)).with_context(cannot)
}

fn attach(pin: &Path, assignment: &Assignment, cgroup: &Path) -> Result<()> {
    let _alone = begin(pin, assignment)?;
    let folder = open_cgroup(cgroup)?;
    let object = load(assignment)?;
    let mut link = attach_beside(&program_of(&object)?, &folder, cgroup)?;
    make_folder(pin)?;
    link.pin(pin).with_context(|| format!("cannot pin {}", pin.display()))
}

/// Attaches a sockops program by a link to the cgroup of this open folder. Fails where it would take the place of another's
/// program, and then nothing is attached.
pub(crate) fn attach_beside(program: &ProgramMut<'_>, folder: &File, cgroup: &Path) -> Result<Link> {
    demand_neighbours(cgroup)?;
    let before = sockops_of(folder.as_fd()).context("cannot ask for the cgroup's programs")?;
    let (link, _) = with_log(|| program.attach_cgroup(folder.as_raw_fd()));
    let refused = |e| Error::new("the kernel does not attach it").of(ErrorKind::RefusedByKernel).caused_by(e);
    let link = link.map_err(refused)?;
    // In a container the cgroups above its own cannot be asked. If theirs were replaced, ours goes at once.
    let after = sockops_of(folder.as_fd()).context("cannot ask for the cgroup's programs")?;
    if before.iter().any(|theirs| !after.contains(theirs)) {
        bail!("a cgroup above {} has a program that ours would take the place of", cgroup.display());
    }
    Ok(link)
}

fn make_folder(pin: &Path) -> Result<()> {
    let folder = pin.parent().context("a pin has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make a folder in {BPF_FS}"))
}

/// Loads the program and pins it, for systemd to attach: `BPFProgram=sock_ops:PATH` in a unit, with the path that is
/// returned. It stays until [`unassign`] or the next boot.
///
/// Fails when there is an assignment of this name, and when nobody in the kernel is called `cc`.
pub fn assign_program(id: &str, assignment: &Assignment) -> Result<PathBuf> {
    let pin = assigned_program(id);
    let put = || {
        check_id(id)?;
        let _alone = begin(&pin, assignment)?;
        let object = load(assignment)?;
        make_folder(&pin)?;
        program_of(&object)?.pin(&pin).with_context(|| format!("cannot pin {}", pin.display()))
    };
    put().with_context(|| format!("cannot load the program that assigns `{}`", assignment.cc))?;
    Ok(pin)
}

/// Where [`assign_program`] puts the program of this name.
pub fn assigned_program(id: &str) -> PathBuf {
    AssignedKind::Program.pin(id)
}

/// Takes the assignment of this name and kind away. Connections keep what they were given. A unit that systemd has
/// started with the program goes on assigning until it is stopped.
///
/// Fails when there is none.
pub fn unassign(id: &str, kind: AssignedKind) -> Result<()> {
    check_id(id)
        .and_then(|()| take_away(&kind.pin(id)))
        .with_context(|| format!("cannot take the assignment `{id}` away"))
}

fn take_away(pin: &Path) -> Result<()> {
    demand_rights("only root can take it away")?;
    demand_bpf_fs()?;
    let _alone = lock()?;
    if !pin.exists() {
        return Err(Error::new("there is none of that name").of(ErrorKind::NotLoaded));
    }
    let link = pin.starts_with(SCOPES).then(|| Link::open(pin)).and_then(|link| link.ok());
    fs::remove_file(pin).with_context(|| format!("cannot remove {}", pin.display()))?;
    // Only an empty folder can be removed.
    let _ = fs::remove_dir(pin.parent().context("a pin has a folder")?);
    // The kernel lets go of a link some time after its file. This makes it happen now; it fails where the cgroup is
    // gone already.
    let _ = link.map(|link| link.detach());
    Ok(())
}

/// Every assignment in the kernel, by name. Fails without the rights to load BPF.
pub fn assigned() -> Result<Vec<Assigned>> {
    demand_rights("only root can tell what is assigned")?;
    let mut all = Vec::new();
    for pin in pins() {
        match Assigned::open(&pin) {
            Ok(assigned) => all.push(assigned),
            // Taken away since the folder was listed.
            Err(_) if !pin.exists() => (),
            Err(e) => return Err(e),
        }
    }
    all.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(all)
}

/// What both kinds begin with: rights, a good order, and nobody of that name. Holds the lock.
fn begin(pin: &Path, assignment: &Assignment) -> Result<File> {
    assignment.check()?;
    demand_bpf()?;
    demand_bpf_fs()?;
    let alone = lock()?;
    if pin.exists() {
        let error = Error::new(format!("there is one of that name: {}", pin.display()));
        return Err(error.of(ErrorKind::NameTaken));
    }
    demand_registered(&assignment.cc)?;
    Ok(alone)
}

/// Fails when nobody in the kernel is called `cc`.
pub(crate) fn demand_registered(cc: &str) -> Result<()> {
    if is_registered(cc) {
        return Ok(());
    }
    Err(Error::new(format!("the kernel has no congestion control `{cc}`"))
        .with_hint(format!("`headway load {cc}` first, or `modprobe tcp_{cc}`"))
        .of(ErrorKind::NotLoaded))
}

/// The BPF file system takes no dot in a name.
fn check_id(id: &str) -> Result<()> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "_-@:".contains(c);
    ensure!(
        (1..=200).contains(&id.len()) && id.chars().all(is_fine),
        "`{id}` cannot name an assignment: 1 to 200 letters, digits, `_`, `-`, `@` or `:`"
    );
    Ok(())
}

impl Assignment {
    fn check(&self) -> Result<()> {
        check_cc(&self.cc)?;
        check_ports(&self.ports)
    }

    /// As `config` in `bpf/assign.bpf.c` is laid out.
    fn to_settings(&self) -> Vec<u8> {
        let mut settings = self.cc.clone().into_bytes();
        settings.resize(NAME_MAX + 1, 0);
        settings.extend(ranges_to_settings(&self.ports));
        settings
    }

    fn from_settings(settings: &[u8]) -> Option<Self> {
        let (cc, rest) = settings.split_at_checked(NAME_MAX + 1)?;
        let (ranges, ports) = rest.split_at_checked(4)?;
        let ranges = u32::from_ne_bytes(ranges.try_into().ok()?) as usize;
        if ports.len() != 4 * MAX_RANGES || ranges > MAX_RANGES {
            return None;
        }
        let port = |bytes: &[u8]| u16::from_ne_bytes([bytes[0], bytes[1]]);
        let range = |bytes: &[u8]| (port(bytes), port(&bytes[2..]));
        let cc = cc.split(|b| *b == 0).next()?;
        let cc = String::from_utf8(cc.to_vec()).ok()?;
        Some(Self { cc, ports: ports.chunks_exact(4).take(ranges).map(range).collect() })
    }
}

/// Whether a congestion control can have this name, be it ours or the kernel's own.
pub(crate) fn check_cc(cc: &str) -> Result<()> {
    let is_name = (1..=NAME_MAX).contains(&cc.len()) && cc.chars().all(|c| c.is_ascii_graphic());
    ensure!(is_name, "`{cc}` cannot name a congestion control");
    Ok(())
}

pub(crate) fn check_ports(ports: &[(u16, u16)]) -> Result<()> {
    let ranges = ports.len();
    ensure!(ranges <= MAX_RANGES, "{ranges} ranges of ports, and at most {MAX_RANGES} are possible");
    match ports.iter().find(|(first, last)| first > last) {
        Some((first, last)) => Err(Error::new(format!("the range of ports {first}-{last} runs backwards"))
            .with_hint(format!("did you mean {last}-{first}?"))),
        None => Ok(()),
    }
}

/// How many ranges there are, and room for the most: as BPF programs lay them out.
pub(crate) fn ranges_to_settings(ports: &[(u16, u16)]) -> Vec<u8> {
    let mut settings = (ports.len() as u32).to_ne_bytes().to_vec();
    for at in 0..MAX_RANGES {
        let (first, last) = ports.get(at).copied().unwrap_or_default();
        settings.extend(first.to_ne_bytes());
        settings.extend(last.to_ne_bytes());
    }
    settings
}

fn load(assignment: &Assignment) -> Result<Object> {
    let open = ObjectBuilder::default().open_memory(object!("assign"));
    let mut open = open.context("cannot open the BPF object")?;
    let mut settings = open.maps_mut().find(|m| is_named(m.name(), SETTINGS)).context("no settings")?;
    settings
        .set_initial_value(&assignment.to_settings())
        .context("the BPF object and Rust differ in the settings")?;
    let (loaded, log) = with_log(|| open.load().context("cannot load it"));
    loaded.map_err(|e| explain(&e, &log))
}

fn program_of(object: &Object) -> Result<ProgramMut<'_>> {
    object.progs_mut().next().context("the BPF object has no program")
}

/// The folder of a cgroup of version 2; an error where it is none.
pub(crate) fn open_cgroup(path: &Path) -> Result<File> {
    let folder = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    if !is_cgroup(folder.as_fd()) {
        return Err(Error::new(format!("{} is not a cgroup of version 2", path.display()))
            .with_hint("they are the folders below the mount of type cgroup2: `findmnt -t cgroup2`"));
    }
    Ok(folder)
}

fn is_cgroup(folder: BorrowedFd<'_>) -> bool {
    fstatfs(folder).is_ok_and(|s| s.f_type as u64 & 0xffff_ffff == CGROUP_MAGIC)
}

/// Fails where ours would take another's program's place. What a connection's cgroup has of its own is run, and what
/// those above it have only if they were attached as one of several ([`MULTI`]). So the nearest cgroup that has programs
/// decides: the kernel itself lets nobody in beside one that is attached alone, but it does let us in below one that
/// says it may be overridden, and then runs it no longer.
fn demand_neighbours(cgroup: &Path) -> Result<()> {
    let path = fs::canonicalize(cgroup).with_context(|| format!("cannot find {}", cgroup.display()))?;
    for path in path.ancestors() {
        let Some(folder) = File::open(path).ok().filter(|f| is_cgroup(f.as_fd())) else { break };
        let there = sockops_at(folder.as_fd());
        let there = there.with_context(|| format!("cannot ask for the programs of {}", path.display()))?;
        if there.ids.is_empty() {
            continue;
        }
        if there.rules & MULTI != 0 {
            break;
        }
        let how = match there.rules & OVERRIDE {
            0 => "bears no other beside it or below",
            _ => "ours would take the place of",
        };
        let what = format!("the cgroup {} has a sockops program that {how}", path.display());
        let hint =
            "its owner must attach it with BPF_F_ALLOW_MULTI or by a link; `bpftool cgroup tree` shows it";
        return Err(Error::new(what).with_hint(hint).of(ErrorKind::RefusedByKernel));
    }
    Ok(())
}

impl AssignedKind {
    /// The file of the assignment of this name.
    fn pin(self, id: &str) -> PathBuf {
        let folder = match self {
            AssignedKind::Cgroup => SCOPES,
            AssignedKind::Program => PROGRAMS,
        };
        Path::new(folder).join(id)
    }
}

fn pins() -> Vec<PathBuf> {
    let files = |folder| fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    [SCOPES, PROGRAMS].into_iter().flat_map(files).collect()
}

impl Assigned {
    fn open(pin: &Path) -> Result<Self> {
        let cannot = || format!("cannot read {}", pin.display());
        let (program, cgroup, kind) = match pin.starts_with(SCOPES) {
            true => {
                let info = Link::open(pin).and_then(|link| link.info()).with_context(cannot)?;
                let LinkTypeInfo::Cgroup(at) = info.info else {
                    bail!("{} is another kind of link", pin.display())
                };
                (info.prog_id, Some(at.cgroup_id).filter(|id| *id != 0), AssignedKind::Cgroup)
            }
            false => {
                let program = Program::fd_from_pinned_path(pin);
                let id = program.and_then(|program| Program::id_from_fd(program.as_fd()));
                (id.with_context(cannot)?, None, AssignedKind::Program)
            }
        };
        let (assignment, [given, refused]) = read_back(program).with_context(cannot)?;
        let id = pin.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { id, assignment, cgroup, given, refused, kind })
    }
}

/// What a program in the kernel was loaded with, and what it has counted.
fn read_back(program: u32) -> Result<(Assignment, [u64; 2])> {
    let maps = maps_of(program)?;
    let value = |name| -> Result<Vec<u8>> {
        let map = maps.iter().find(|m| is_named(m.name(), name)).context("it is not one of ours")?;
        let value = map.lookup(&ONLY_KEY, MapFlags::ANY).context("it cannot be asked")?;
        value.context("it is not one of ours")
    };
    let assignment = Assignment::from_settings(&value(SETTINGS)?);
    let counters = to_words(&value(COUNTERS)?).try_into().ok();
    assignment.zip(counters).context("another version of headway has made it")
}

#[cfg(test)]
pub(crate) mod root_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_back_as_they_were_written() {
        let ports: Vec<_> = (0..MAX_RANGES as u16).map(|n| (n * 1000, n * 1000 + n)).collect();
        for ports in [vec![], vec![(0, u16::MAX)], ports] {
            let assignment = Assignment { cc: "fifteen_letters".into(), ports };
            assert!(assignment.check().is_ok());
            assert_eq!(Assignment::from_settings(&assignment.to_settings()), Some(assignment));
        }
        assert_eq!(Assignment::from_settings(&[0; 83]), None);
        let mut open = ObjectBuilder::default().open_memory(object!("assign")).unwrap();
        let map = open.maps_mut().find(|m| m.name().to_string_lossy().ends_with(SETTINGS)).unwrap();
        let words = Assignment { cc: "reno".into(), ports: vec![] }.to_settings();
        assert_eq!(map.initial_value().unwrap().len(), words.len());
    }

    #[test]
    fn a_wrong_order_is_refused_before_anything_is_touched() {
        let refused = |id: &str, cc: &str, ports: Vec<(u16, u16)>| {
            let error = assign_program(id, &Assignment { cc: cc.into(), ports }).unwrap_err();
            format!("{error:#}")
        };
        assert!(refused("a.b", "reno", vec![]).contains("`a.b` cannot name an assignment"));
        assert!(refused("", "reno", vec![]).contains("`` cannot name"));
        assert!(refused("../x", "reno", vec![]).contains("cannot name an assignment"));
        assert!(refused("a", "sixteen_letters_", vec![]).contains("cannot name a congestion control"));
        let backwards = refused("a", "reno", vec![(80, 80), (443, 80)]);
        assert!(backwards.contains("443-80 runs backwards\nhint: did you mean 80-443?"), "{backwards}");
        assert!(refused("a", "reno", vec![(1, 1); 17]).contains("17 ranges of ports"));
    }
}
