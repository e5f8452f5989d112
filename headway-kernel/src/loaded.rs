//! Controllers that stay loaded: `headway load`, `headway unload`, and what `headway list` says of them.
//!
//! A loaded controller is one file in the kernel's BPF file system, `/sys/fs/bpf/headway/CONTROLLER/NAME`: the pinned
//! link from Linux 6.4 on, the pinned table before. Everything else is found from there (table, programs, their
//! parameters and counters), so making the file is the one step that makes it stay, and nothing can be half there:
//!
//! * From 6.4 on the table is registered first and its link pinned last. Killed in between, the kernel takes the
//!   registration away with the link's descriptor.
//! * Before, a registration lasts until it is deleted, so the table is pinned first and registered last. Killed in
//!   between, a file remains whose table is not in force: it counts as absent, and the next load replaces it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, bail, ensure};
use libbpf_rs::query::{LinkTypeInfo, ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapMut};
use rustix::fs::{FlockOperation, flock, statfs};

use crate::need::Check;
use crate::{
    Api, COUNTERS, Counters, ONLY_KEY, PROGRAMS, Program, SETTINGS, SWITCHES, Wanted, blocker, check_bpf,
    check_name, has_rights, is_named, is_registered, load, put_in_force, read_counters, read_line, release,
    table_of, to_words, unknown, with_log,
};

/// Where the kernel's BPF file system belongs.
const BPF_FS: &str = "/sys/fs/bpf";
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
const OURS: &str = "/sys/fs/bpf/headway";

/// The controller of sockets that do not choose one, in the caller's network namespace.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// How long the kernel may take to unregister; it does so when nobody else needs its attention.
const UNLOAD_TIME: Duration = Duration::from_secs(10);

/// What is to be loaded, checked as far as that goes without the kernel.
#[derive(Debug)]
pub struct Order {
    program: &'static Program,
    name: String,
    params: Vec<u64>,
}

/// A controller in the kernel that [`Order::load`] put there.
#[derive(Debug)]
pub struct Loaded {
    /// The name that sockets choose.
    pub name: String,
    /// One of ours.
    pub controller: &'static str,
    /// Since when.
    pub age: Duration,
    /// The parameters that are not at their defaults, as `param=value`; `None` if another version's.
    pub settings: Option<Vec<String>>,
    /// Sockets that use it now, in all network namespaces; a namespace whose default it is counts as one.
    pub users: u64,
    /// `None` if another version's.
    pub counters: Option<Counters>,
}

impl Order {
    /// `settings`: `param=value` each. An error is the user's.
    pub fn new(cc: &str, name: Option<&str>, settings: &[String]) -> Result<Order> {
        let program = Program::named(cc).ok_or_else(|| unknown(cc))?;
        let name = name.unwrap_or(cc);
        check_name(name)?;
        let params = program.params.with(settings.iter().map(String::as_str));
        let params = params
            .with_context(|| format!("`{cc}` cannot be loaded so"))
            .map_err(|e| anyhow!("{e:#}\nhint: `headway list --params {cc}` shows all of them"))?;
        Ok(Order { program, name: name.to_string(), params })
    }

    /// Loads and registers it, to stay until [`unload`] or the next boot. On failure nothing has changed.
    pub fn load(&self) -> Result<Loaded> {
        let Order { program, name, .. } = self;
        self.put_in_kernel().with_context(|| format!("cannot load `{}` as `{name}`", program.name))?;
        Loaded::open(program, &pin_of(program, name), &Api::of_kernel()?)
    }

    fn put_in_kernel(&self) -> Result<()> {
        let Order { program, name, params } = self;
        blocker()?;
        need_bpf_fs()?;
        let _alone = lock()?;
        let api = Api::of_kernel()?;
        self.need_free_name(&api)?;
        let pin = pin_of(program, name);
        fs::create_dir_all(pin.parent().context("a pin has a folder")?)
            .with_context(|| format!("cannot make a folder in {BPF_FS}"))?;
        let wanted = Wanted { params: params.clone(), ..Wanted::new(program, name, false) };
        let mut object = load(&wanted, &api)?;
        let mut table = table_of(&mut object)?;
        match api.has_links {
            true => put_in_force(&mut table)?.pin(&pin).with_context(|| format!("cannot pin {pin:?}")),
            false => register_then_keep(&mut table, &pin),
        }
    }

    /// Says why the name is taken, if it is; takes away what a killed load has left in its place.
    fn need_free_name(&self, api: &Api) -> Result<()> {
        let Order { program, name, .. } = self;
        if let Some((by, pin)) = pins().into_iter().find(|(_, pin)| pin.ends_with(name)) {
            match Loaded::open(by, &pin, api) {
                Ok(there) => bail!(
                    "it is loaded already: {}\nhint: `headway unload {name}` first, or give this one \
                     another name: `headway load {} --as NAME`",
                    there.what(),
                    program.name
                ),
                Err(_) if !is_registered(name) => remove_pin(&pin)?,
                Err(e) => return Err(e),
            }
        }
        let other = format!("hint: give ours another name: `headway load {} --as NAME`", program.name);
        if is_registered(name) {
            bail!(
                "the kernel has a congestion control `{name}` already, and not from `headway load`\n{other}"
            );
        }
        let modules = fs::read_to_string(format!("/lib/modules/{}/modules.dep", release()));
        if modules.is_ok_and(|m| m.contains(&format!("/tcp_{name}.ko"))) {
            bail!("the kernel has a congestion control `{name}` of its own, as a module\n{other}");
        }
        Ok(())
    }
}

/// Before Linux 6.4. What ends the process in between leaves the file of a table that is not in force, which counts as
/// absent, or the whole.
fn register_then_keep(table: &mut MapMut<'_>, pin: &Path) -> Result<()> {
    table.pin(pin).with_context(|| format!("cannot pin {pin:?}"))?;
    match put_in_force(table) {
        Ok(mut link) => link.disconnect(), // dropping it would delete the registration
        Err(e) => {
            let _ = remove_pin(pin);
            return Err(e);
        }
    }
    Ok(())
}

/// Takes `name` away. Sockets that use it keep it until they close; the answer is how many those are.
pub fn unload(name: &str) -> Result<u64> {
    take_away(name).with_context(|| format!("cannot unload `{name}`"))
}

fn take_away(name: &str) -> Result<u64> {
    blocker()?;
    need_bpf_fs()?;
    let _alone = lock()?;
    let api = Api::of_kernel()?;
    let there = pins().into_iter().find(|(_, pin)| pin.ends_with(name));
    let in_force = there.and_then(|(_, pin)| Some((table_value(&pin, &api).ok()?, pin)));
    let Some((value, pin)) = in_force else {
        let whose = match is_registered(name) {
            true => "the kernel has it, but not from `headway load`",
            false => "it is not loaded",
        };
        bail!("{whose}\nhint: `headway list` shows what is");
    };
    ensure!(
        read_line(DEFAULT).is_none_or(|default| default != name),
        "it is the default of new connections, and the kernel would go on giving it to them\n\
         hint: choose another first: `sysctl -w net.ipv4.tcp_congestion_control=cubic`"
    );
    if api.has_links {
        // Where the kernel cannot detach a link (before 6.11), it goes with its last file.
        let _ = Link::open(&pin)?.detach();
    } else {
        MapHandle::from_pinned_path(&pin)?.delete(&ONLY_KEY).context("the kernel does not unregister it")?;
    }
    remove_pin(&pin)?;
    let deadline = Instant::now() + UNLOAD_TIME;
    while is_registered(name) {
        ensure!(Instant::now() < deadline, "the kernel still has it: another program holds its BPF link");
        thread::sleep(Duration::from_millis(5));
    }
    users(&value)
}

/// Everything loaded, by name.
pub fn all() -> Result<Vec<Loaded>> {
    ensure!(has_rights(), "only root can tell what is loaded");
    let pins = pins();
    if pins.is_empty() {
        return Ok(Vec::new());
    }
    let api = Api::of_kernel()?;
    let mut all: Vec<_> = pins.iter().filter_map(|(by, pin)| Loaded::open(by, pin, &api).ok()).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// What loading for good needs of this machine.
pub fn check() -> Vec<Check> {
    let mounted = Check::required("BPF file system", has_bpf_fs(), MOUNT);
    [check_bpf(), vec![mounted]].concat()
}

/// The parameters of a controller: name, default, range, and what each is for.
pub fn params_text(cc: &str) -> Result<String> {
    let program = Program::named(cc).ok_or_else(|| unknown(cc))?;
    let mut text =
        format!("parameters of {cc}: default (range), for `headway load {cc} --set PARAM=VALUE`\n");
    for (param, default, about) in program.params.described() {
        text += &format!("  {:<29} {default} ({})\n      {about}\n", param.name, param.range());
    }
    Ok(text)
}

const MOUNT: &str = "mount -t bpf bpf /sys/fs/bpf";

fn has_bpf_fs() -> bool {
    statfs(BPF_FS).is_ok_and(|s| s.f_type as u64 & 0xffff_ffff == BPF_FS_MAGIC)
}

/// Not mounted here by us: in a container the mount, and with it the controller, would end with the container.
fn need_bpf_fs() -> Result<()> {
    ensure!(
        has_bpf_fs(),
        "{BPF_FS} is not the kernel's BPF file system, where it would be kept\nhint: {MOUNT}"
    );
    Ok(())
}

/// One load or unload at a time, until dropped.
fn lock() -> Result<File> {
    let root = File::open(BPF_FS).with_context(|| format!("cannot open {BPF_FS}\nhint: run as root"))?;
    flock(&root, FlockOperation::LockExclusive).with_context(|| format!("cannot lock {BPF_FS}"))?;
    Ok(root)
}

fn pin_of(program: &Program, name: &str) -> PathBuf {
    Path::new(OURS).join(program.name).join(name)
}

/// Every file that a load has made, with its controller.
fn pins() -> Vec<(&'static Program, PathBuf)> {
    let files = |program: &'static Program| {
        let dir = fs::read_dir(Path::new(OURS).join(program.name));
        dir.into_iter().flatten().flatten().map(move |file| (program, file.path()))
    };
    PROGRAMS.iter().flat_map(files).collect()
}

/// Removes the file, and the folders when they are empty.
fn remove_pin(pin: &Path) -> Result<()> {
    fs::remove_file(pin).with_context(|| format!("cannot remove {}", pin.display()))?;
    for folder in pin.ancestors().skip(1).take(2) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}

/// A table's value starts with two words of 32 bits: a count of references, then the state. This is the state of a
/// registered table where there are no links.
const BEFORE_LINKS_IN_FORCE: u32 = 1;

impl Loaded {
    /// The controller, its parameters and its age in words.
    pub fn what(&self) -> String {
        let settings = match &self.settings {
            None => "with parameters of another version of headway".to_string(),
            Some(set) if set.is_empty() => "with default parameters".to_string(),
            Some(set) => format!("with {}", set.join(",")),
        };
        format!("{} {settings}, {} ago", self.controller, span(self.age))
    }

    /// Reads what a pin stands for; an error when its table is not in force.
    fn open(program: &'static Program, pin: &Path, api: &Api) -> Result<Loaded> {
        let value = table_value(pin, api)?;
        let maps = maps_of(word(&value, api.init_at)?)?;
        let map = |name: &str| {
            let found = maps.iter().find(|m| is_named(m.name(), name));
            found.with_context(|| format!("the programs have no map `{name}`"))
        };
        let settings = map(SETTINGS)?.lookup(&ONLY_KEY, MapFlags::ANY)?.context("no settings")?;
        let words = to_words(&settings);
        let is_ours = words.len() == SWITCHES + program.params.rows.len();
        let age = fs::metadata(pin)?.modified().unwrap_or(SystemTime::UNIX_EPOCH).elapsed();
        Ok(Loaded {
            name: pin.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            controller: program.name,
            age: age.unwrap_or_default(),
            settings: is_ours.then(|| program.params.changed(&words[SWITCHES..])),
            users: users(&value)?,
            counters: read_counters(map(COUNTERS)?).ok(),
        })
    }
}

/// The value of the table that a pin stands for; an error when it is not in force.
fn table_value(pin: &Path, api: &Api) -> Result<Vec<u8>> {
    let open = || match api.has_links {
        true => match Link::open(pin)?.info()?.info {
            LinkTypeInfo::StructOps(ops) => Ok(MapHandle::from_map_id(ops.map_id)?),
            other => bail!("{} is another kind of link: {other:?}", pin.display()),
        },
        false => Ok(MapHandle::from_pinned_path(pin)?),
    };
    let table = with_log(open).0?;
    let value = table.lookup(&ONLY_KEY, MapFlags::ANY)?.context("the table has no value")?;
    ensure!(api.has_links || word(&value, 4)? == BEFORE_LINKS_IN_FORCE, "{} is not in force", pin.display());
    Ok(value)
}

/// References to a table in force, less the registration's own.
fn users(value: &[u8]) -> Result<u64> {
    Ok(word(value, 0)?.saturating_sub(1).into())
}

fn word(value: &[u8], at: usize) -> Result<u32> {
    let bytes = value.get(at..at + 4).and_then(|b| b.try_into().ok());
    bytes.map(u32::from_ne_bytes).context("the table's value is too short")
}

/// The maps of a program.
fn maps_of(program_id: u32) -> Result<Vec<MapHandle>> {
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let mut programs = ProgInfoIter::with_query_opts(options);
    let program = programs.find(|p| p.id == program_id).context("the table's program is gone")?;
    program.map_ids.iter().map(|id| Ok(MapHandle::from_map_id(*id)?)).collect()
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
        let settings: Vec<_> = settings.iter().map(|s| s.to_string()).collect();
        Order::new(cc, name, &settings).unwrap_err().to_string()
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
    fn parameters_are_described() {
        let text = params_text("bbr1").unwrap();
        assert!(text.contains("min_rtt_win_us") && text.contains("10s (100ms to 3600s)"), "{text}");
        assert!(text.contains("Window of the minimum-RTT filter."), "{text}");
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
