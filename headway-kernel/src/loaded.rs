//! Controllers that stay in the kernel when the program ends: loading them, listing them, unloading them.
//!
//! A loaded controller is one file in the kernel's BPF file system, `/sys/fs/bpf/headway/CONTROLLER/NAME`: the pinned
//! link from Linux 6.4 on, the pinned table before. Everything else is found from there (table, programs, their
//! parameters and counters), so making the file is the one step that makes it stay, and nothing can be half there:
//!
//! * From 6.4 on the table is registered first and its link pinned last. If the process dies in between, the kernel takes the
//!   registration away with the link's descriptor.
//! * Before 6.4 a registration lasts until it is deleted, so the table is pinned first and registered last. If the process
//!   dies in between, a file remains whose table is not in force: it counts as absent, and the next load replaces it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use libbpf_rs::query::{LinkTypeInfo, ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapMut};
use rustix::fs::{FlockOperation, flock};

use crate::btf::Api;
use crate::error::{Context, Error, ErrorKind, Result, bail, ensure};
use crate::need::{BPF_FS, demand_bpf, demand_bpf_fs, demand_rights};
use crate::object::{
    COUNTERS, ONLY_KEY, SETTINGS, SWITCHES, Wanted, is_named, load, put_in_force, read_counters, table_of,
    to_words, with_log,
};
use crate::programs::{PROGRAMS, Program, check_name};
use crate::{Counters, is_registered, read_line, release};

/// Where our controllers are, a folder for each and in it a file for each name.
const OURS: &str = "/sys/fs/bpf/headway";

/// The controller of sockets that do not choose one, in the caller's network namespace.
pub(crate) const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// How long the kernel may take to unregister, which it does in the background.
const UNLOAD_TIME: Duration = Duration::from_secs(10);

/// What is to be loaded, checked as far as that goes without the kernel.
///
/// ```no_run
/// use headway_kernel::Order;
///
/// let loaded = Order::new("bbr3", Some("my_bbr3"), ["default_cwnd_gain=2.5"])?.load()?;
/// println!("`{}` is loaded: {}", loaded.name, loaded.what());
/// # Ok::<(), headway_kernel::Error>(())
/// ```
#[derive(Debug)]
pub struct Order {
    pub(crate) program: &'static Program,
    pub(crate) name: String,
    pub(crate) params: Vec<u64>,
}

/// A controller in the kernel that [`Order::load`] put there.
#[derive(Debug)]
pub struct Loaded {
    /// The name that sockets choose.
    pub name: String,
    /// Which controller it is, one of [`Available::attachable`](crate::Available::attachable).
    pub controller: &'static str,
    /// The number of its programs in the kernel.
    pub generation: u32,
    /// How long it has been loaded.
    pub age: Duration,
    /// The parameters that are not at their defaults, as `param=value`; `None` if another version of this crate
    /// loaded it.
    pub settings: Option<Vec<String>>,
    /// Sockets that use it now, in all network namespaces; a namespace whose default it is counts as one.
    pub users: u64,
    /// What its programs counted; `None` if another version of this crate loaded it.
    pub counters: Option<Counters>,
}

/// Controllers that Linux brings as modules, which are there once their module is.
const LINUX_MODULES: [&str; 6] = ["bbr", "cubic", "dctcp", "htcp", "vegas", "westwood"];

/// Our controller of this name. Whoever names it with its settings, as `headway bench --cc` takes them, or names a
/// controller of Linux's own, is told how to have that.
fn named(cc: &str) -> Result<&'static Program> {
    if let Some((name, settings)) = cc.split_once(':')
        && Program::named(name).is_ok()
    {
        let error = Error::new(format!("`{cc}` is how `headway bench --cc` names settings"));
        return Err(error.with_hint(format!("headway load {name} --set {settings}")));
    }
    Program::named(cc).map_err(|e| match crate::available().registered.iter().any(|own| own == cc) {
        true => Error::new(format!("`{cc}` is the kernel's own, or loaded already")).with_hint(format!(
            "sysctl -w net.ipv4.tcp_congestion_control={cc} chooses it for new connections"
        )),
        false if LINUX_MODULES.contains(&cc) => {
            Error::new(format!("`{cc}` is Linux's own, in a module that is not loaded"))
                .with_hint(format!("modprobe tcp_{cc}"))
        }
        false => e,
    })
}

impl Order {
    /// The controller `cc`, to be chosen as `name` (by default its own name), with settings, `param=value` each.
    ///
    /// Fails when there is no such controller or parameter, or when the kernel would not take the name: mistakes of
    /// the caller.
    pub fn new<S: AsRef<str>>(
        cc: &str,
        name: Option<&str>,
        settings: impl IntoIterator<Item = S>,
    ) -> Result<Order> {
        let program = named(cc)?;
        let name = name.unwrap_or(cc);
        check_name(name)?;
        let mut params = (program.params.defaults)();
        let set = settings.into_iter().try_for_each(|s| program.params.set(&mut params, s.as_ref()));
        set.map_err(|e| {
            Error::new(format!("`{cc}` cannot be loaded so"))
                .with_hint(format!("`headway list --params {cc}` shows all of them"))
                .caused_by(e)
        })?;
        Ok(Order { program, name: name.to_string(), params })
    }

    /// The parameters that are not at their defaults, as `param=value`.
    pub fn settings(&self) -> Vec<String> {
        self.program.params.changed(&self.params)
    }

    /// Loads and registers it, to stay until [`unload`] or the next boot.
    ///
    /// Fails when the kernel or the user's rights do not allow it, when the BPF file system is not mounted, or when
    /// the name is taken. Then nothing has changed.
    pub fn load(&self) -> Result<Loaded> {
        let Order { program, name, .. } = self;
        self.put_in_kernel().with_context(|| format!("cannot load `{}` as `{name}`", program.name))?;
        Loaded::open(program, &pin_of(program, name), &Api::of_kernel()?)
    }

    fn put_in_kernel(&self) -> Result<()> {
        let Order { program, name, params } = self;
        demand_bpf()?;
        demand_bpf_fs()?;
        let _alone = lock()?;
        let api = Api::of_kernel()?;
        self.demand_free_name(&api)?;
        let pin = pin_of(program, name);
        fs::create_dir_all(pin.parent().context("a pin has a folder")?)
            .with_context(|| format!("cannot make a folder in {BPF_FS}"))?;
        let wanted = Wanted { params: params.clone(), ..Wanted::new(program, name, false) };
        let mut object = load(&wanted, &api)?;
        let mut table = table_of(&mut object)?;
        match api.has_links {
            true => put_in_force(&mut table)?.pin(&pin).with_context(|| format!("cannot pin {pin:?}")),
            false => pin_then_register(&mut table, &pin),
        }
    }

    /// Says why the name is taken, if it is. Takes away what a load that was killed has left in its place.
    fn demand_free_name(&self, api: &Api) -> Result<()> {
        let Order { program, name, .. } = self;
        if let Some((by, pin)) = pins().into_iter().find(|(_, pin)| pin.ends_with(name)) {
            match Loaded::open(by, &pin, api) {
                Ok(there) => {
                    let what = format!("it is loaded already: {}", there.what());
                    let hint = format!(
                        "`headway unload {name}` first, or give this one another name: `headway load {} --as NAME`",
                        program.name
                    );
                    return Err(Error::new(what).with_hint(hint).of(ErrorKind::NameTaken));
                }
                Err(_) if !is_registered(name) => remove_pin(&pin)?,
                Err(e) => return Err(e),
            }
        }
        let taken = match () {
            () if is_registered(name) => "already, and not from `headway load`",
            () if is_module(name) => "of its own, as a module",
            () => return Ok(()),
        };
        Err(Error::new(format!("the kernel has a congestion control `{name}` {taken}"))
            .with_hint(format!("give ours another name: `headway load {} --as NAME`", program.name))
            .of(ErrorKind::NameTaken))
    }
}

/// Whether the kernel could load a congestion control of this name itself, when a socket asks for it.
fn is_module(name: &str) -> bool {
    let modules = fs::read_to_string(format!("/lib/modules/{}/modules.dep", release()));
    modules.is_ok_and(|m| m.contains(&format!("/tcp_{name}.ko")))
}

/// For kernels before 6.4, in the order that the head of this file explains.
pub(crate) fn pin_then_register(table: &mut MapMut<'_>, pin: &Path) -> Result<()> {
    table.pin(pin).with_context(|| format!("cannot pin {pin:?}"))?;
    match put_in_force(table) {
        // Dropping the link instead would delete the registration.
        Ok(mut link) => link.disconnect(),
        Err(e) => {
            let _ = remove_pin(pin);
            return Err(e);
        }
    }
    Ok(())
}

/// Takes the loaded controller `name` away. Sockets that use it keep it until they close; the answer is how many
/// those are.
///
/// Fails when nothing of that name was loaded by [`Order::load`], when it is the default of new connections, and when
/// the user's rights do not allow it.
pub fn unload(name: &str) -> Result<u64> {
    take_away(name).with_context(|| format!("cannot unload `{name}`"))
}

fn take_away(name: &str) -> Result<u64> {
    demand_bpf()?;
    demand_bpf_fs()?;
    let _alone = lock()?;
    remove_empty_folders();
    let api = Api::of_kernel()?;
    let there = pins().into_iter().find(|(_, pin)| pin.ends_with(name)).map(|(_, pin)| pin);
    let in_force = there.as_ref().and_then(|pin| Some((table_value(pin, &api).ok()?, pin)));
    let Some((value, pin)) = in_force else {
        let whose = match is_registered(name) {
            true => "the kernel has it, but not from `headway load`",
            false => {
                // An unload that was killed after the kernel had unregistered it leaves the file.
                there.map_or(Ok(()), |pin| remove_pin(&pin))?;
                "it is not loaded"
            }
        };
        return Err(Error::new(whose).with_hint("`headway list` shows what is").of(ErrorKind::NotLoaded));
    };
    if read_line(DEFAULT).is_some_and(|default| default == name) {
        let what = "it is the default of new connections, and the kernel would go on giving it to them";
        let hint = "choose another first: `sysctl -w net.ipv4.tcp_congestion_control=cubic`";
        return Err(Error::new(what).with_hint(hint));
    }
    unregister(pin, &api)?;
    remove_pin(pin)?;
    let deadline = Instant::now() + UNLOAD_TIME;
    while is_registered(name) {
        ensure!(Instant::now() < deadline, "the kernel still has it: another program holds its BPF link");
        thread::sleep(Duration::from_millis(5));
    }
    users(&value)
}

pub(crate) fn unregister(pin: &Path, api: &Api) -> Result<()> {
    match api.has_links {
        true => {
            // A kernel that cannot detach a link (before 6.11) takes it away with its last file.
            let _ = Link::open(pin).with_context(|| format!("cannot open {pin:?}"))?.detach();
            Ok(())
        }
        false => MapHandle::from_pinned_path(pin)
            .and_then(|table| table.delete(&ONLY_KEY))
            .context("the kernel does not unregister it"),
    }
}

/// Everything that [`Order::load`] has loaded, by name. Fails without the rights to load BPF.
pub fn loaded() -> Result<Vec<Loaded>> {
    demand_rights("only root can tell what is loaded")?;
    let pins = pins();
    if pins.is_empty() {
        return Ok(Vec::new());
    }
    let api = Api::of_kernel()?;
    let mut all: Vec<_> = pins.iter().filter_map(|(by, pin)| Loaded::open(by, pin, &api).ok()).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// One change at a time, until dropped.
pub(crate) fn lock() -> Result<File> {
    let cannot = || Error::new(format!("cannot open {BPF_FS}")).with_hint("run as root");
    let root = File::open(BPF_FS).map_err(|e| cannot().of(ErrorKind::NeedsRights).caused_by(e))?;
    flock(&root, FlockOperation::LockExclusive).with_context(|| format!("cannot lock {BPF_FS}"))?;
    Ok(root)
}

pub(crate) fn pin_of(program: &Program, name: &str) -> PathBuf {
    Path::new(OURS).join(program.name).join(name)
}

/// Every file that a load has made, with its controller.
pub(crate) fn pins() -> Vec<(&'static Program, PathBuf)> {
    let files = |program: &'static Program| {
        let dir = fs::read_dir(Path::new(OURS).join(program.name));
        dir.into_iter().flatten().flatten().map(move |file| (program, file.path()))
    };
    PROGRAMS.iter().flat_map(files).collect()
}

/// Removes the file, and the folders when they are empty.
pub(crate) fn remove_pin(pin: &Path) -> Result<()> {
    fs::remove_file(pin).with_context(|| format!("cannot remove {}", pin.display()))?;
    for folder in pin.ancestors().skip(1).take(2) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}

/// An unload that was killed between the file and its folder leaves the folder.
fn remove_empty_folders() {
    for program in PROGRAMS {
        let _ = fs::remove_dir(Path::new(OURS).join(program.name));
    }
    let _ = fs::remove_dir(OURS);
}

/// A table's value starts with two words of 32 bits: a count of references, then the state. This is the state of a
/// registered table where there are no links.
const BEFORE_LINKS_IN_FORCE: u32 = 1;

impl Loaded {
    /// The controller, its settings and its age in words: `bbr3 with default_cwnd_gain=2.5, 3 min ago`.
    pub fn what(&self) -> String {
        let settings = match &self.settings {
            None => "with parameters of another version of headway".to_string(),
            Some(set) if set.is_empty() => "with default parameters".to_string(),
            Some(set) => format!("with {}", set.join(",")),
        };
        format!("{} {settings}, {} ago", self.controller, span(self.age))
    }

    /// Reads what a pin stands for; an error when its table is not in force.
    pub(crate) fn open(program: &'static Program, pin: &Path, api: &Api) -> Result<Loaded> {
        let value = table_value(pin, api)?;
        let generation = word(&value, api.init_at)?;
        let maps = maps_of(generation)?;
        let map = |name: &str| {
            let found = maps.iter().find(|m| is_named(m.name(), name));
            found.with_context(|| format!("the programs have no map `{name}`"))
        };
        let settings = map(SETTINGS)?.lookup(&ONLY_KEY, MapFlags::ANY).context("cannot read the settings")?;
        let words = to_words(&settings.context("no settings")?);
        let is_ours = words.len() == SWITCHES + program.params.rows.len();
        let since = fs::metadata(pin).and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        Ok(Loaded {
            name: pin.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            controller: program.name,
            generation,
            age: since.elapsed().unwrap_or_default(),
            settings: is_ours.then(|| program.params.changed(&words[SWITCHES..])),
            users: users(&value)?,
            counters: read_counters(map(COUNTERS)?).ok(),
        })
    }
}

/// The value of the table that a pin stands for; an error when it is not in force.
fn table_value(pin: &Path, api: &Api) -> Result<Vec<u8>> {
    let (table, _) = with_log(|| table_behind(pin, api));
    let value = table?.lookup(&ONLY_KEY, MapFlags::ANY).context("cannot read the table")?;
    let value = value.context("the table has no value")?;
    ensure!(api.has_links || word(&value, 4)? == BEFORE_LINKS_IN_FORCE, "{} is not in force", pin.display());
    Ok(value)
}

fn table_behind(pin: &Path, api: &Api) -> Result<MapHandle> {
    let cannot = || format!("cannot open {}", pin.display());
    if !api.has_links {
        return MapHandle::from_pinned_path(pin).with_context(cannot);
    }
    match Link::open(pin).and_then(|link| link.info()).with_context(cannot)?.info {
        LinkTypeInfo::StructOps(ops) => MapHandle::from_map_id(ops.map_id).with_context(cannot),
        other => bail!("{} is another kind of link: {other:?}", pin.display()),
    }
}

/// Sockets that use a table in force: references to it, less the registration's own.
fn users(value: &[u8]) -> Result<u64> {
    Ok(word(value, 0)?.saturating_sub(1).into())
}

fn word(value: &[u8], at: usize) -> Result<u32> {
    let bytes = value.get(at..at + 4).and_then(|b| b.try_into().ok());
    bytes.map(u32::from_ne_bytes).context("the table's value is too short")
}

/// The maps of a program.
pub(crate) fn maps_of(program_id: u32) -> Result<Vec<MapHandle>> {
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let mut programs = ProgInfoIter::with_query_opts(options);
    let program = programs.find(|p| p.id == program_id).context("the table's program is gone")?;
    let open = |id: &u32| MapHandle::from_map_id(*id).context("cannot open a map of the programs");
    program.map_ids.iter().map(open).collect()
}

/// A length of time in its largest unit.
fn span(time: Duration) -> String {
    let s = time.as_secs();
    match s {
        0..120 => format!("{s} s"),
        120..7200 => format!("{} min", s / 60),
        7200..172_800 => format!("{} h", s / 3600),
        _ => format!("{} days", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(cc: &str, name: Option<&str>, settings: &[&str]) -> String {
        format!("{:#}", Order::new(cc, name, settings).unwrap_err())
    }

    #[test]
    fn an_order_is_checked_before_anything_is_touched() {
        assert!(refused("bbr9", None, &[]).contains("`bbr9`"));
        assert!(refused("bbr1", Some("a.b"), &[]).contains("`a.b`"));
        assert!(refused("bbr1", Some(""), &[]).contains("``"));
        let unknown = refused("bbr1", None, &["nosuch=1"]);
        assert!(unknown.contains("`nosuch`") && unknown.contains("high_gain"), "{unknown}");
        assert!(unknown.contains("\nhint: `headway list --params bbr1`"), "{unknown}");
        assert!(refused("bbr1", None, &["bw_rtts=10", "high_gain=99"]).contains("`99`"));
    }

    #[test]
    fn times_are_told_in_one_unit() {
        let of = |s| span(Duration::from_secs(s));
        assert_eq!(
            [of(0), of(119), of(120), of(7200), of(200_000)],
            ["0 s", "119 s", "2 min", "2 h", "2 days"]
        );
    }
}
