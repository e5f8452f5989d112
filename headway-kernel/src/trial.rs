//! A trial of two congestion controls on the connections of a cgroup: a coin decides which of the two a new connection gets,
//! and at its end a record says how it went. A sockops program does both (`bpf/trial.bpf.c`).
//!
//! Nothing is pinned and nothing is changed but the congestion control of new connections. So when the process ends, however it
//! does, the kernel takes the programs away, new connections get what they would have got without, and open ones keep what
//! they have.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use libbpf_rs::query::{LinkTypeInfo, ProgInfoIter};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};

use crate::assign::{
    attach_beside, check_cc, check_ports, demand_registered, open_cgroup, ranges_to_settings,
};
use crate::calls::{sockops_at, sockops_of};
use crate::error::{Context, Error, Result, ensure};
use crate::iterator::{Sights, Walker, drain};
use crate::need::demand_bpf;
use crate::object::{COUNTERS, ONLY_KEY, SETTINGS, explain, is_named, map_of, to_words, with_log};
use crate::programs::{NAME_MAX, object};

mod record;

use record::Tick;
pub use record::{End, Record};

/// The programs of `bpf/trial.bpf.c`, and their maps.
const SOCKOPS: &str = "trial";
const OF_OPEN: Sights =
    Sights { of_maps: [("see_enrolled", ENROLLED), ("see_spare", SPARES)], of_sockets: "see_participant" };
const SLOTS: &str = "slots";
const ENROLLED: &str = "enrolled";
const SPARES: &str = "spares";
const ENDED: &str = "ended";
const OPEN: &str = "open";

/// How many remote networks the program has room for: `MAX_PREFIXES` in `bpf/trial.bpf.c`.
const MAX_PREFIXES: usize = 16;

/// Bytes of `config` in `bpf/trial.bpf.c`.
const CONFIG: usize = 640;

/// `chance` of [`Trial::set_slot`] that gives everybody arm 1.
const ALL: u32 = 1 << 16;

/// Which connections take part in a trial, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialOptions {
    /// The names of the two congestion controls; the same twice to learn what chance does.
    pub arms: [String; 2],
    /// What the coin is tossed for.
    pub by: TrialUnit,
    /// Ranges of ports, first and last, both inclusive; at most 16. A connection takes part if the port of either end is in
    /// one of them, or whatever its ports are if there is none.
    pub ports: Vec<(u16, u16)>,
    /// Which connections take part, by who made them.
    pub direction: Direction,
    /// Remote networks, address and length; at most 16. A connection takes part if its peer is in one of them, or wherever
    /// its peer is if there is none.
    pub prefixes: Vec<(IpAddr, u8)>,
    /// Subflows of Multipath TCP take part. They may end with another congestion control than the one that they got, because
    /// the kernel copies the choice of the whole connection to them.
    pub with_mptcp: bool,
    /// Another seed makes other tosses.
    pub seed: u64,
    /// Bytes of the ring in which records wait for [`Trial::ended`], 392 each; rounded up to a power of 2.
    pub ring_bytes: usize,
    /// For so many open connections there is room that get no memory of their own for their record, 250 bytes each.
    pub spares: u32,
}

impl TrialOptions {
    /// All connections of a cgroup but those of Multipath TCP, a coin for each; room for 42,000 records.
    pub fn new(arms: [&str; 2]) -> TrialOptions {
        TrialOptions {
            arms: arms.map(String::from),
            by: TrialUnit::Connection,
            ports: Vec::new(),
            direction: Direction::Both,
            prefixes: Vec::new(),
            with_mptcp: false,
            seed: 1,
            ring_bytes: 16 << 20,
            spares: 4096,
        }
    }
}

/// What the coin of a trial is tossed for, anew in each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialUnit {
    /// For each connection.
    Connection,
    /// For the remote /24 of IPv4 or /48 of IPv6, so that all connections with a network have the same.
    Prefix,
}

/// Which connections take part in a trial, by who made them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// All.
    Both,
    /// Those that come in at a listener.
    In,
    /// Those that a program of the cgroup makes.
    Out,
}

/// What a trial's program has counted since it was attached.
///
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrialCounters {
    /// Connections that take part, by arm.
    pub enrolled: [u64; 2],
    /// Connections that were to take part and keep what they had, by arm, because the kernel did not take the arm's name.
    pub refused: [u64; 2],
    /// Records of connections that have ended, fetched by [`Trial::ended`] or not.
    pub recorded: u64,
    /// Connections that have ended and found no room in the ring.
    pub lost: u64,
    /// Of those recorded or lost: ended with another congestion control than their arm's.
    pub not_as_set: u64,
    /// Connections that take part and got no memory of their own for their record, so that they use the spare table.
    pub spare: u64,
    /// Connections that were left out, because they found room in neither.
    pub without_storage: u64,
    /// Subflows of Multipath TCP that were left out.
    pub mptcp: u64,
    /// Connections that take part and for which somebody had chosen a congestion control before the handshake was done, so that
    /// theirs was started anew.
    pub restarted: u64,
}

impl TrialCounters {
    /// How many connections took part, are not among these open ones, and have left no trace. The kernel then did not tell the
    /// program of their end, because another sockops program has replaced what the connection had asked to hear of.
    pub fn vanished(&self, open: usize) -> u64 {
        let [one, other] = self.enrolled;
        (one + other).saturating_sub(self.recorded + self.lost + open as u64)
    }
}

/// The sockops programs beside that of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// The trial's own program is still attached. It is not when its cgroup is gone, or when somebody has detached it.
    pub is_attached: bool,
    /// Those that were there before the trial.
    pub before: Vec<Neighbour>,
    /// Those that came since.
    pub since: Vec<Neighbour>,
}

/// A sockops program of somebody else, which sees connections of the trial's cgroup and may choose their congestion control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The kernel's number for it, by which `bpftool prog` knows it.
    pub id: u32,
    /// The name that its author gave it; empty when it went meanwhile.
    pub name: String,
    /// The cgroup below the trial's to which it is attached; `None` for the trial's own, and those above it.
    pub cgroup: Option<PathBuf>,
}

/// A trial that runs. It ends when this is dropped, or with the process.
#[derive(Debug)]
pub struct Trial {
    // Fields drop in this order: the program is detached first.
    link: Link,
    walker: Walker,
    object: Object,
    cgroup: PathBuf,
    folder: File,
    /// Our program's number.
    program: u32,
    before: BTreeSet<u32>,
    tick: Tick,
}

impl Trial {
    /// Attaches the program to the cgroup with this folder. Nobody takes part before [`Trial::set_slot`].
    ///
    /// A connection belongs to the cgroup in which its socket was made, and one that came in to the cgroup in which its
    /// listener was made. Those of the cgroups below belong to it, too.
    ///
    /// Fails when an option cannot be, when nobody in the kernel has the name of an arm, when the path is not a cgroup, when
    /// another's program is in the way, which the kernel would not run beside ours, and when the kernel or the user's rights
    /// do not allow it.
    pub fn attach(options: &TrialOptions, cgroup: &Path) -> Result<Trial> {
        let cannot = || format!("cannot begin a trial on {}", cgroup.display());
        options.check().and_then(|()| begin(options, cgroup)).with_context(cannot)
    }

    /// From now on new connections belong to this slot, and so many of 65,536 get arm 1: none by 0, all by 65,536.
    pub fn set_slot(&self, slot: u32, chance: u32) -> Result<()> {
        ensure!(chance <= ALL, "a chance of {chance} in {ALL}");
        let value = [slot.to_ne_bytes(), chance.to_ne_bytes()].concat();
        map_of(&self.object, SLOTS)?
            .update(&ONLY_KEY, &value, MapFlags::ANY)
            .context("cannot set the slot of the trial")
    }

    /// New connections take part no longer; those that do are still recorded.
    pub fn pause(&self) -> Result<()> {
        let slots = map_of(&self.object, SLOTS)?;
        match slots.lookup(&ONLY_KEY, MapFlags::ANY).context("cannot read the slot of the trial")? {
            Some(_) => slots.delete(&ONLY_KEY).context("cannot end the slot of the trial"),
            None => Ok(()),
        }
    }

    /// Fetches the records of connections that have ended since the last time.
    pub fn ended(&mut self) -> Result<Vec<Record>> {
        let mut records = Records::new(self.tick);
        drain(&map_of(&self.object, ENDED)?, |bytes| records.take(bytes))
            .context("cannot read the records of the trial")?;
        records.done()
    }

    /// How the connections go that take part and are open. One that ends meanwhile may be in it and in what [`Trial::ended`]
    /// returns next: it has the same [`Record::cookie`].
    pub fn open(&self) -> Result<Vec<Record>> {
        let mut records = Records::new(self.tick);
        let rows = map_of(&self.object, OPEN)?;
        self.walker
            .walk(&rows, |bytes| records.take(bytes))
            .context("cannot look at the open connections of the trial")?;
        records.done()
    }

    /// Reads what the program has counted.
    pub fn counters(&self) -> Result<TrialCounters> {
        let value = map_of(&self.object, COUNTERS)?.lookup(&ONLY_KEY, MapFlags::ANY);
        let value = value.context("cannot read the counters of the trial")?.context("no counters")?;
        let words = to_words(&value);
        let words: [u64; 11] = words.try_into().ok().context("another number of counters")?;
        let [enrolled0, enrolled1, refused0, refused1, ..] = words;
        let [.., recorded, lost, not_as_set, spare, without_storage, mptcp, restarted] = words;
        let (enrolled, refused) = ([enrolled0, enrolled1], [refused0, refused1]);
        Ok(TrialCounters {
            enrolled,
            refused,
            recorded,
            lost,
            not_as_set,
            spare,
            without_storage,
            mptcp,
            restarted,
        })
    }

    /// Looks for our program and for those of others, in the trial's cgroup, in those above and in all below.
    pub fn neighbours(&self) -> Result<Neighbours> {
        let here = sockops_of(self.folder.as_fd()).unwrap_or_default();
        let is_attached = here.contains(&self.program) && is_in_force(&self.link);
        let mut found: Vec<(u32, Option<PathBuf>)> = here.into_iter().map(|id| (id, None)).collect();
        below(&self.cgroup, &mut found);
        found.retain(|(id, _)| *id != self.program);
        let names: Vec<(u32, String)> = match found.is_empty() {
            true => Vec::new(),
            false => ProgInfoIter::default().map(|p| (p.id, p.name.to_string_lossy().into_owned())).collect(),
        };
        let name = |id: u32| names.iter().find(|(of, _)| *of == id).map(|(_, name)| name.clone());
        let all = found.into_iter().map(|(id, cgroup)| Neighbour {
            id,
            name: name(id).unwrap_or_default(),
            cgroup,
        });
        let (before, since) = all.partition(|n| self.before.contains(&n.id));
        Ok(Neighbours { is_attached, before, since })
    }
}

/// A link whose cgroup is gone, or that was detached, says 0 for its cgroup.
fn is_in_force(link: &Link) -> bool {
    link.info().is_ok_and(|info| matches!(info.info, LinkTypeInfo::Cgroup(at) if at.cgroup_id != 0))
}

/// The programs of the cgroups below. A cgroup that goes meanwhile has none.
fn below(cgroup: &Path, found: &mut Vec<(u32, Option<PathBuf>)>) {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    for folder in entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()) {
        let there = File::open(&folder).ok().and_then(|f| sockops_at(f.as_fd()).ok());
        found.extend(there.into_iter().flat_map(|t| t.ids).map(|id| (id, Some(folder.clone()))));
        below(&folder, found);
    }
}

fn begin(options: &TrialOptions, cgroup: &Path) -> Result<Trial> {
    demand_bpf()?;
    options.arms.iter().try_for_each(|arm| demand_registered(arm))?;
    let folder = open_cgroup(cgroup)?;
    let tick = Tick::of_kernel()?;
    let mut found = sockops_of(folder.as_fd()).context("cannot ask for the cgroup's programs")?;
    let mut programs = Vec::new();
    below(cgroup, &mut programs);
    found.extend(programs.into_iter().map(|(id, _)| id));
    let (object, walker) = Walker::open(&OF_OPEN, |iterators| load(options, iterators))?;
    let program =
        object.progs_mut().find(|p| p.name() == SOCKOPS).context("the BPF object has no program")?;
    let link = attach_beside(&program, &folder, cgroup)?;
    let program = link.info().context("cannot ask for the link")?.prog_id;
    let before = found.into_iter().collect();
    Ok(Trial { link, walker, object, cgroup: cgroup.to_path_buf(), folder, program, before, tick })
}

/// Loads the program of the trial, and those of its iterators that are named.
fn load(options: &TrialOptions, iterators: &[&str]) -> Result<Object> {
    let mut open =
        ObjectBuilder::default().open_memory(object!("trial")).context("cannot open the BPF object")?;
    for mut program in open.progs_mut() {
        let is_wanted = program.name() == SOCKOPS || iterators.iter().any(|name| program.name() == *name);
        program.set_autoload(is_wanted);
    }
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if is_named(map.name(), SETTINGS) {
            map.set_initial_value(&options.to_settings())
                .context("the BPF object and Rust differ in the settings")?;
        } else if name == ENDED {
            map.set_max_entries(options.ring()).context("cannot size the ring")?;
        } else if name == SPARES {
            map.set_max_entries(options.spares.max(1)).context("cannot size the spare table")?;
        }
    }
    let (loaded, log) = with_log(|| open.load().context("cannot load it"));
    loaded.map_err(|e| explain(&e, &log))
}

impl TrialOptions {
    fn check(&self) -> Result<()> {
        self.arms.iter().try_for_each(|arm| check_cc(arm))?;
        check_ports(&self.ports)?;
        let networks = self.prefixes.len();
        ensure!(networks <= MAX_PREFIXES, "{networks} networks, and at most {MAX_PREFIXES} are possible");
        for (address, length) in &self.prefixes {
            let most = if address.is_ipv4() { 32 } else { 128 };
            ensure!(*length <= most, "{address}/{length} is no network: its length is at most {most}");
        }
        Ok(())
    }

    /// A ring's size is a power of 2 and at least a page.
    fn ring(&self) -> u32 {
        (self.ring_bytes.clamp(4096, 1 << 30) as u32).next_power_of_two()
    }

    /// As `config` in `bpf/trial.bpf.c` is laid out.
    fn to_settings(&self) -> Vec<u8> {
        let mut settings = self.seed.to_ne_bytes().to_vec();
        for arm in &self.arms {
            let mut name = arm.clone().into_bytes();
            name.resize(NAME_MAX + 1, 0);
            settings.extend(name);
        }
        let by_prefix = u32::from(self.by == TrialUnit::Prefix);
        let directions: u32 = match self.direction {
            Direction::Out => 1,
            Direction::In => 2,
            Direction::Both => 3,
        };
        for word in [by_prefix, directions, self.with_mptcp.into()] {
            settings.extend(word.to_ne_bytes());
        }
        settings.extend(ranges_to_settings(&self.ports));
        settings.extend((self.prefixes.len() as u32).to_ne_bytes());
        for (address, length) in &self.prefixes {
            let (address, mask) = masked(*address, *length);
            settings.extend(address);
            settings.extend(mask);
        }
        settings.resize(CONFIG, 0);
        settings
    }
}

/// A network as 128 bits of address and of mask, in network byte order, those of IPv4 as `::ffff:a.b.c.d`.
fn masked(address: IpAddr, length: u8) -> ([u8; 16], [u8; 16]) {
    let (address, length) = match address {
        IpAddr::V4(v4) => (v4.to_ipv6_mapped(), length + 96),
        IpAddr::V6(v6) => (v6, length),
    };
    let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
    ((u128::from(address) & mask).to_be_bytes(), mask.to_be_bytes())
}

/// Gathers records as a ring hands them over.
struct Records {
    tick: Tick,
    all: Vec<Record>,
    failure: Option<Error>,
}

impl Records {
    fn new(tick: Tick) -> Self {
        Self { tick, all: Vec::new(), failure: None }
    }

    fn take(&mut self, bytes: &[u8]) {
        match Record::read(bytes, self.tick) {
            Ok(record) => self.all.extend(record),
            Err(e) => self.failure = Some(e),
        }
    }

    fn done(self) -> Result<Vec<Record>> {
        match self.failure {
            Some(e) => Err(e),
            None => Ok(self.all),
        }
    }
}

#[cfg(test)]
mod root_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_as_long_as_the_program_has_them() {
        let open = ObjectBuilder::default().open_memory(object!("trial"));
        let mut open = open.unwrap();
        let map = open.maps_mut().find(|m| is_named(m.name(), SETTINGS)).unwrap();
        let options = TrialOptions { ports: vec![(1, 2); 16], ..TrialOptions::new(["bbr", "cubic"]) };
        assert_eq!(map.initial_value().unwrap().len(), options.to_settings().len());
    }

    #[test]
    fn a_network_is_address_and_mask() {
        let of = |address: &str, length| masked(address.parse().unwrap(), length);
        let (address, mask) = of("192.0.2.129", 25);
        assert_eq!(address, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 192, 0, 2, 128]);
        assert_eq!((&mask[..15], mask[15]), ([255; 15].as_slice(), 128));
        assert_eq!(of("2001:db8::1", 32).0[..5], [0x20, 1, 0x0d, 0xb8, 0]);
        assert_eq!(of("::1", 0), ([0; 16], [0; 16]));
        assert_eq!(of("::1", 128).1, [255; 16]);
    }

    #[test]
    fn a_wrong_option_is_refused_before_anything_is_touched() {
        let refused =
            |options: TrialOptions| format!("{:#}", Trial::attach(&options, Path::new("/")).unwrap_err());
        let fine = || TrialOptions::new(["reno", "cubic"]);
        assert!(refused(TrialOptions::new(["reno", ""])).contains("`` cannot name a congestion control"));
        assert!(refused(TrialOptions { ports: vec![(2, 1)], ..fine() }).contains("2-1 runs backwards"));
        let v4: IpAddr = "10.0.0.0".parse().unwrap();
        assert!(
            refused(TrialOptions { prefixes: vec![(v4, 33)], ..fine() })
                .contains("10.0.0.0/33 is no network")
        );
        assert!(refused(TrialOptions { prefixes: vec![(v4, 8); 17], ..fine() }).contains("17 networks"));
    }
}
