//! Our controllers in the running kernel: open, fill in the parameters, load, register, trace.
//!
//! [`attach`] registers a controller as a TCP congestion control under a name that any socket may then choose;
//! dropping [`Attached`] takes the name away again, and sockets that still use it keep it until they close.
//! From Linux 6.4 on the registration hangs on a file descriptor, so not even `kill -9` leaves it behind.
//! What is to stay after the program ends is loaded by [`loaded`] instead.
//!
//! The programs are `bpf/*.bpf.c`, compiled by `build.rs`. They hold no numbers: every parameter is copied from
//! the Rust controller's defaults into the object's read-only data before the kernel verifies it.

pub mod loaded;
pub mod need;
pub mod replay;
#[cfg(test)]
mod root_tests;
pub mod trace;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow, bail, ensure};
use headway_cc::cc::params::{self, ParamTable};
use headway_cc::cc::{self, Controller, name_and_settings};
use libbpf_rs::btf::types::{FuncProto, MemberAttr, Ptr, Struct, StructMember};
use libbpf_rs::btf::{Btf, ReferencesType, TypeId};
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapHandle, MapMut, Object, ObjectBuilder, OpenObject, PrintLevel,
    set_print,
};

use need::Check;
use trace::{Columns, Trace};

/// A controller that exists as a BPF program.
#[derive(Debug)]
struct Program {
    name: &'static str,
    object: &'static [u8],
    params: &'static ParamTable,
}

/// Embeds an object file; libelf reads it in place and wants it aligned.
macro_rules! object {
    ($stem:literal) => {{
        #[repr(align(8))]
        struct Aligned<T: ?Sized>(T);
        static OBJECT: &Aligned<[u8]> =
            &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $stem, ".bpf.o")));
        &OBJECT.0
    }};
}
#[cfg(test)]
use object;

/// Every controller that can be attached. A new one is one row here.
const PROGRAMS: &[Program] = &[
    Program { name: "bbr1", object: object!("bbr1"), params: &params::BBR1 },
    Program { name: "bbr3", object: object!("bbr3"), params: &params::BBR3 },
    Program { name: "bbr1_brake", object: object!("bbr1"), params: &params::BBR1_BRAKE },
    Program { name: "bbr3_brake", object: object!("bbr3"), params: &params::BBR3_BRAKE },
];

/// `TCP_CA_NAME_MAX` less the closing zero.
const NAME_MAX: usize = 15;

/// Room for the records that pile up while the reader is not running: 18,000 events of `bbr3`.
const TRACE_BYTES: u32 = 16 << 20;

/// The table, the settings and the counters in the object file.
const TABLE: &str = "ops";
const SETTINGS: &str = ".rodata";
const COUNTERS: &str = ".bss";
const RING: &str = "trace";
const SPARE: &str = "spare_flows";

/// Words in the settings before the parameters.
const SWITCHES: usize = 3;

/// How many sockets without storage of their own find room.
const SPARE_FLOWS: u32 = 1024;

/// The tables, the settings and the counters are maps with one element; this is its key.
const ONLY_KEY: [u8; 4] = [0; 4];

impl Program {
    fn named(name: &str) -> Option<&'static Program> {
        PROGRAMS.iter().find(|p| p.name == name)
    }

    /// The Rust twin with such parameters; `None` when they are not as many.
    fn twin(&self, params: &[u64]) -> Option<Box<dyn Controller>> {
        cc::entry(self.name)?.with(params)
    }
}

/// What the running kernel can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// What sockets can choose now, our attached ones included.
    pub registered: Vec<String>,
    /// What [`attach`] takes.
    pub attachable: Vec<&'static str>,
}

/// Lists the congestion controls of the running kernel; the first list is empty where it cannot be read.
pub fn available() -> Available {
    Available {
        registered: read_words("/proc/sys/net/ipv4/tcp_available_congestion_control"),
        attachable: PROGRAMS.iter().map(|p| p.name).collect(),
    }
}

/// Can sockets choose a congestion control of this name now?
pub fn is_registered(name: &str) -> bool {
    available().registered.iter().any(|r| r == name)
}

/// Release of the running kernel, as `uname -r` prints it.
pub fn release() -> String {
    read_line("/proc/sys/kernel/osrelease").unwrap_or_default()
}

/// How to attach.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The name in the kernel; by default the controller's own, or where that is taken, `hw_` and our process id.
    pub name: Option<String>,
    /// Record every event, to be read by [`Attached::trace`].
    pub trace: bool,
}

/// Registers the controller `cc`, with the settings that follow its name if any, with the running kernel.
///
/// Fails with a sentence and a hint when the controller is unknown, when the kernel or the user's rights do not
/// allow it, or when the name is taken.
pub fn attach(cc: &str, options: &Options) -> Result<Attached> {
    let (own, settings) = name_and_settings(cc);
    let program = Program::named(own).ok_or_else(|| unknown(own))?;
    let name = options.name.clone().unwrap_or_else(|| free_name(program.name));
    check_name(&name)?;
    let params = program.params.with(settings).with_context(|| format!("cannot set `{cc}`"))?;
    let wanted = Wanted { params, ..Wanted::new(program, &name, options.trace) };
    let attached = blocker().and_then(|()| register(&wanted));
    attached.with_context(|| format!("cannot attach `{name}`"))
}

/// A registered controller; unregistered on drop.
#[derive(Debug)]
pub struct Attached {
    // Fields drop in this order: the name goes first, then the programs.
    _link: Link,
    has_links: bool,
    object: Object,
    name: String,
    program: &'static Program,
    params: Vec<u64>,
    traces: bool,
}

/// What the programs counted since they were attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Connections that started with this controller or switched to it.
    pub flows: u64,
    /// Of these, those whose state is not in socket storage, which was not to be had, but in a spare table.
    pub spare: u64,
    /// Of these, those that found no room there either: they run plain AIMD, and measuring them says nothing
    /// about the controller.
    pub without_storage: u64,
    /// Events offered to the trace.
    pub traced: u64,
    /// Of these, those that found the trace's ring full.
    pub trace_lost: u64,
    /// Where a controller is told of losses: samples and losses of packets whose in-flight is not known.
    pub unknown: u64,
    /// Packets marked lost that were told of in the name of another.
    pub unfound: u64,
}

impl Attached {
    /// The name that sockets choose.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts to write the trace to `sink`, one line an event, until [`Trace::finish`]; once for each attach.
    pub fn trace(&mut self, sink: impl Write + Send + 'static) -> Result<Trace> {
        ensure!(self.traces, "`{}` has no trace, or it was taken already", self.name);
        self.traces = false;
        Trace::start(
            self.map(RING)?,
            self.map(COUNTERS)?,
            columns(self.program, &self.params)?,
            Box::new(sink),
        )
    }

    /// Reads the programs' counters.
    pub fn counters(&self) -> Result<Counters> {
        read_counters(&self.map(COUNTERS)?)
    }

    /// What takes the registration away when the process is about to end without dropping `self`, for a signal handler's
    /// thread to run; `None` where the kernel does it by itself (Linux 6.4 or newer).
    pub fn undo(&self) -> Result<Option<Undo>> {
        Ok(match self.has_links {
            true => None,
            false => Some(Undo(self.map(TABLE)?)),
        })
    }

    fn map(&self, name: &str) -> Result<MapHandle> {
        let map = self.object.maps().find(|m| is_named(m.name(), name));
        let map = map.with_context(|| format!("the BPF object has no map `{name}`"))?;
        Ok(MapHandle::try_from(&map)?)
    }
}

/// Takes a registration away that would outlive the process.
#[derive(Debug)]
pub struct Undo(MapHandle);

impl Undo {
    /// Takes it away; does nothing when that has happened already.
    pub fn run(self) {
        let _ = self.0.delete(&ONLY_KEY);
    }
}

/// What attaching needs of this machine.
pub fn check() -> Vec<Check> {
    let ends = Check {
        what: "registration that ends with the process".into(),
        ok: Api::of_kernel().is_ok_and(|a| a.has_links),
        hint:
            "without it (before Linux 6.4) a killed `headway` leaves its controller registered until reboot"
                .into(),
        required: false,
    };
    [check_bpf(), vec![ends]].concat()
}

/// What our programs need of this machine, in the order in which it is needed.
fn check_bpf() -> Vec<Check> {
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

/// The first check that fails and must not, as an error.
fn blocker() -> Result<()> {
    match check_bpf().into_iter().find(|c| c.required && !c.ok) {
        Some(c) => bail!("this machine lacks: {}\nhint: {}", c.what, c.hint),
        None => Ok(()),
    }
}

fn unknown(cc: &str) -> anyhow::Error {
    let names: Vec<_> = PROGRAMS.iter().map(|p| format!("`{}`", p.name)).collect();
    anyhow!("no BPF controller is called `{cc}`\nhint: there is {}", names.join(", "))
}

/// The controller's own name, unless somebody has loaded it for good, or the kernel has one of that name.
fn free_name(own: &str) -> String {
    match is_registered(own) {
        true => format!("hw_{}", std::process::id()),
        false => own.to_string(),
    }
}

/// Linux takes what is letters, digits, `_` and `.` from BPF, and its BPF file system has no names with a dot.
fn check_name(name: &str) -> Result<()> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    ensure!(
        (1..=NAME_MAX).contains(&name.len()) && name.chars().all(is_fine),
        "`{name}` cannot name a congestion control\nhint: use 1 to {NAME_MAX} letters, digits or `_`"
    );
    Ok(())
}

/// One registration, every choice made.
struct Wanted<'a> {
    program: &'static Program,
    name: &'a str,
    trace: bool,
    spare_flows: u32,
    /// The row of parameters.
    params: Vec<u64>,
}

impl<'a> Wanted<'a> {
    fn new(program: &'static Program, name: &'a str, trace: bool) -> Self {
        Self { program, name, trace, spare_flows: SPARE_FLOWS, params: (program.params.defaults)() }
    }
}

fn register(wanted: &Wanted<'_>) -> Result<Attached> {
    let api = Api::of_kernel()?;
    let mut object = load(wanted, &api)?;
    let mut table = table_of(&mut object)?;
    let link = put_in_force(&mut table)?;
    let Wanted { program, name, trace, params, .. } = wanted;
    let (name, params) = (name.to_string(), params.clone());
    Ok(Attached { _link: link, has_links: api.has_links, object, name, program, params, traces: *trace })
}

fn table_of(object: &mut Object) -> Result<MapMut<'_>> {
    object.maps_mut().find(|m| is_named(m.name(), TABLE)).context("the BPF object has no table")
}

/// Registers a loaded table; from here on sockets can choose it.
fn put_in_force(table: &mut MapMut<'_>) -> Result<Link> {
    let (link, log) = with_log(|| table.attach_struct_ops());
    link.map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => anyhow!(
            "the kernel has a congestion control of that name already\n\
             hint: another `headway` may hold it; run again when it has ended"
        ),
        _ => anyhow!("the kernel does not register it: {e}\n{log}"),
    })
}

/// Loads the programs; where the kernel refuses the write to `app_limited`, without it, which the flag tells.
fn load(wanted: &Wanted<'_>, api: &Api) -> Result<Object> {
    let (loaded, log) = with_log(|| prepare(wanted, api, true)?.load().map_err(Into::into));
    match loaded {
        Ok(object) => return Ok(object),
        Err(e) if !log.contains(REFUSED_WRITE) => return Err(explain(&e, &log)),
        Err(_) => (),
    }
    let (loaded, log) = with_log(|| prepare(wanted, api, false)?.load().map_err(Into::into));
    loaded.map_err(|e: anyhow::Error| explain(&e, &log))
}

/// How the verifier says that a field of the socket is not BPF's to write.
const REFUSED_WRITE: &str = "no write support to tcp_sock";

/// Opens the object and adapts it to this kernel and these options.
fn prepare(wanted: &Wanted<'_>, api: &Api, writes_app_limited: bool) -> Result<OpenObject> {
    let &Wanted { program, name, trace, spare_flows, .. } = wanted;
    let mut open = ObjectBuilder::default().open_memory(program.object)?;
    let switches: [u64; SWITCHES] =
        [api.cong_control_has_ack.into(), writes_app_limited.into(), trace.into()];
    let words: Vec<u64> = switches.into_iter().chain(wanted.params.iter().copied()).collect();
    let layout = Layout::of_object(program)?;
    for mut map in open.maps_mut() {
        let map_name = map.name().to_string_lossy().into_owned();
        if map_name.ends_with(SETTINGS) {
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
            map.set_initial_value(&bytes)
                .context("the BPF object and the Rust controller differ in parameters")?;
        } else if map_name == RING && trace {
            map.set_max_entries(TRACE_BYTES)?;
        } else if map_name == SPARE {
            map.set_max_entries(spare_flows)?;
        } else if map_name == TABLE {
            if !api.has_links {
                map.set_map_flags(0)?;
            }
            layout.adapt(map.initial_value_mut().context("the table has no value")?, name, api)?;
        }
    }
    Ok(open)
}

/// Turns a refusal into one sentence and a hint; what cannot be recognised keeps the verifier's last words.
fn explain(error: &anyhow::Error, log: &str) -> anyhow::Error {
    let release = release();
    if log.contains(REFUSED_WRITE) {
        return anyhow!(
            "Linux {release} does not let BPF set the pacing rate\n\
             hint: use Linux 6.0 or newer, or try the simulator: `headway sim`"
        );
    }
    let tail: Vec<&str> = log.lines().rev().take(12).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    anyhow!("Linux {release} refuses the program: {error:#}\n{}", tail.join("\n"))
}

/// The parts of the kernel's interface that differ between versions.
#[derive(Clone, Debug)]
struct Api {
    /// Members of `struct tcp_congestion_ops`.
    members: Vec<String>,
    /// From 6.10 on `cong_control` is given `ack` and `flag` too.
    cong_control_has_ack: bool,
    /// From 6.4 on a registration can hang on a file descriptor.
    has_links: bool,
    /// Where a registered table's value, as the kernel shows it, names the program behind `init`.
    init_at: usize,
}

const BTF_FILE: &str = "/sys/kernel/btf/vmlinux";

impl Api {
    fn of_kernel() -> Result<Api> {
        let btf = Btf::from_path(BTF_FILE).with_context(|| format!("cannot read {BTF_FILE}"))?;
        // The wrapper exists only where BPF may implement the table.
        ensure!(
            btf.type_by_name::<Struct>("bpf_struct_ops_tcp_congestion_ops").is_some(),
            "this kernel takes no congestion controls from BPF"
        );
        let ops: Struct = btf.type_by_name("tcp_congestion_ops").context("no tcp_congestion_ops in BTF")?;
        let member = |name| ops.iter().find(|m| m.name.is_some_and(|n| n == name));
        let params =
            member("cong_control").and_then(|m| prototype(&btf, m.ty)).context("no cong_control in BTF")?;
        let value: Struct =
            btf.type_by_name("bpf_struct_ops_tcp_congestion_ops").context("no table in BTF")?;
        let offset = |m: Option<StructMember<'_>>| match m.map(|m| m.attr) {
            Some(MemberAttr::Normal { offset }) => Ok(offset as usize / 8),
            _ => Err(anyhow!("no place for `init` in BTF")),
        };
        let data = value.iter().find(|m| m.name.is_some_and(|n| n == "data"));
        Ok(Api {
            init_at: offset(data)? + offset(member("init"))?,
            members: ops.iter().filter_map(|m| Some(m.name?.to_string_lossy().into_owned())).collect(),
            cong_control_has_ack: params.iter().count() == 4,
            has_links: btf.type_by_name::<Struct>("bpf_struct_ops_link").is_some(),
        })
    }
}

/// The type of the function that a member points to.
fn prototype<'a>(btf: &'a Btf<'_>, member: TypeId) -> Option<FuncProto<'a>> {
    let pointer: Ptr<'a> = btf.type_by_id(member)?;
    FuncProto::try_from(pointer.referenced_type()).ok()
}

/// Where the object's own `struct tcp_congestion_ops` has its members.
struct Layout {
    /// Name, byte offset, and whether it is a callback.
    members: Vec<(String, usize, bool)>,
}

impl Layout {
    fn of_object(program: &Program) -> Result<Layout> {
        let btf = Btf::from_raw(program.name, program.object)?.context("the BPF object has no BTF")?;
        let ops: Struct =
            btf.type_by_name("tcp_congestion_ops").context("the BPF object has no table type")?;
        let member = |m: StructMember<'_>| {
            let MemberAttr::Normal { offset } = m.attr else { return None };
            let name = m.name?.to_string_lossy().into_owned();
            Some((name, offset as usize / 8, btf.type_by_id::<Ptr>(m.ty).is_some()))
        };
        Ok(Layout { members: ops.iter().filter_map(member).collect() })
    }

    /// Writes the name and empties the callbacks that this kernel never calls.
    fn adapt(&self, table: &mut [u8], name: &str, api: &Api) -> Result<()> {
        for (member, at, is_callback) in &self.members {
            if member == "name" {
                let field = table.get_mut(*at..*at + NAME_MAX + 1).context("the table is too short")?;
                field.fill(0);
                field[..name.len()].copy_from_slice(name.as_bytes());
            } else if *is_callback && !api.members.contains(member) {
                table.get_mut(*at..*at + 8).context("the table is too short")?.fill(0);
            }
        }
        Ok(())
    }
}

/// Names of everything in one trace record after the flow.
fn columns(program: &'static Program, params: &[u64]) -> Result<Columns> {
    let twin = program
        .twin(params)
        .with_context(|| format!("the Rust twin of `{}` has other parameters", program.name))?;
    let names = cc::trace_columns(program.name, &*twin);
    Ok(Columns { names, set: program.params.changed(params) })
}

pub(crate) fn read_counters(map: &MapHandle) -> Result<Counters> {
    let value = map.lookup(&ONLY_KEY, MapFlags::ANY)?.context("the BPF object has no counters")?;
    let words = to_words(&value);
    let &[flows, spare, without_storage, traced, trace_lost, unknown, unfound] = words.as_slice() else {
        bail!("{} counters", words.len())
    };
    Ok(Counters { flows, spare, without_storage, traced, trace_lost, unknown, unfound })
}

/// A row of integers as the BPF programs lay it out.
pub(crate) fn to_words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|c| u64::from_ne_bytes(c.try_into().expect("chunks of 8"))).collect()
}

/// What libbpf says while one object is loaded; one at a time, for libbpf has one place to say it.
static LOG: Mutex<String> = Mutex::new(String::new());
static LOADING: Mutex<()> = Mutex::new(());

fn with_log<T>(work: impl FnOnce() -> T) -> (T, String) {
    let _one = LOADING.lock().unwrap_or_else(|e| e.into_inner());
    let append = |_: PrintLevel, text: String| LOG.lock().unwrap_or_else(|e| e.into_inner()).push_str(&text);
    let previous = set_print(Some((PrintLevel::Warn, append)));
    let result = work();
    set_print(previous);
    (result, std::mem::take(&mut LOG.lock().unwrap_or_else(|e| e.into_inner())))
}

/// The capabilities that loading takes; CAP_SYS_ADMIN stands for all of them.
fn has_rights() -> bool {
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

/// A file that is missing or unreadable says nothing against the JIT: some kernels have it always on.
fn is_jit_on() -> bool {
    read_line("/proc/sys/net/core/bpf_jit_enable").is_none_or(|mode| mode != "0")
}

/// Major and minor of a release such as `6.1.0-49-cloud-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn is_named(name: &std::ffi::OsStr, wanted: &str) -> bool {
    name == wanted || wanted.starts_with('.') && name.to_string_lossy().ends_with(wanted)
}

fn read_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_string())
}

fn read_words(path: &str) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().split_whitespace().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_rust_twin_and_room_for_its_parameters() {
        for program in PROGRAMS {
            let words = SWITCHES + (program.params.defaults)().len();
            let mut open = ObjectBuilder::default().open_memory(program.object).unwrap();
            let map = open.maps_mut().find(|m| m.name().to_string_lossy().ends_with(SETTINGS)).unwrap();
            assert_eq!(map.initial_value().unwrap().len(), words * 8, "{}", program.name);
            assert!(columns(program, &(program.params.defaults)()).is_ok());
            assert!(check_name(program.name).is_ok());
        }
    }

    #[test]
    fn callbacks_unknown_to_the_kernel_are_left_empty() {
        let members = ["init", "cong_control", "name"].map(String::from).to_vec();
        let api = Api { members, cong_control_has_ack: false, has_links: false, init_at: 0 };
        let layout = Layout {
            members: vec![
                ("init".into(), 0, true),
                ("cwnd_event".into(), 8, true),
                ("name".into(), 16, false),
            ],
        };
        let mut table = [1u8; 32];
        layout.adapt(&mut table, "bbr1", &api).unwrap();
        assert_eq!(&table[..16], &[1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&table[16..], b"bbr1\0\0\0\0\0\0\0\0\0\0\0\0");
        assert!(layout.adapt(&mut table[..20], "bbr1", &api).is_err());
    }

    #[test]
    fn names_and_versions() {
        for bad in ["", "sixteen_letters_", "a b", "ümlaut", "a/b", "a.b", "a-b"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name("fifteen_letters").is_ok());
        assert_eq!(free_name("nosuch"), "nosuch");
        let beside = free_name("reno"); // in every kernel
        assert!(beside.starts_with("hw_") && check_name(&beside).is_ok(), "{beside}");
        assert_eq!(version("6.1.0-49-cloud-amd64"), Some((6, 1)));
        assert_eq!(version("7.2"), Some((7, 2)));
        assert_eq!(version("next"), None);
    }

    #[test]
    fn an_unknown_controller_is_refused_by_name() {
        let error = attach("bbr9", &Options::default()).unwrap_err().to_string();
        assert!(error.contains("`bbr9`") && error.contains("`bbr1`"), "{error}");
    }

    #[test]
    fn a_refused_pacing_rate_is_one_clear_sentence() {
        let error = explain(&anyhow!("EACCES"), "no write support to tcp_sock at off 368").to_string();
        assert!(error.contains("does not let BPF set the pacing rate\nhint: "), "{error}");
    }
}
