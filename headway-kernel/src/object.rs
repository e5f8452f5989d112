//! A BPF object file, from our bytes to a registered congestion control: open it, write the settings into it, adapt
//! it to the running kernel, let the kernel verify it, register its table. And the way back: what its maps say once
//! it is loaded.
//!
//! The object files hold no numbers of their own. The parameters of a controller are copied into their read-only data
//! before the kernel verifies them, so the verifier sees constants and skips what they switch off.

use std::ffi::OsStr;
use std::sync::Mutex;

use libbpf_rs::{
    ErrorKind as Libbpf, Link, MapCore, MapFlags, MapHandle, MapMut, Object, ObjectBuilder, OpenMapMut,
    OpenObject, PrintLevel, set_print,
};

use crate::btf::{Api, Layout};
use crate::error::{Context, Error, ErrorKind, Result, bail};
use crate::programs::Program;
use crate::{Bytes, Counters, Past, release};

/// The maps of an object file: the table of callbacks, the settings, the counters, the trace's ring buffer, and the
/// states of sockets that got no storage of their own. libbpf puts the object's name before those that begin with a
/// dot.
pub(crate) const TABLE: &str = "ops";
pub(crate) const SETTINGS: &str = ".rodata";
pub(crate) const COUNTERS: &str = ".bss";
pub(crate) const RING: &str = "trace";
pub(crate) const SPARE: &str = "spare_flows";

/// Words in the settings before the parameters: `config` in `bpf/tcp.bpf.h`.
pub(crate) const SWITCHES: usize = 3;

/// The table, the settings and the counters are maps with one element; this is its key.
pub(crate) const ONLY_KEY: [u8; 4] = [0; 4];

/// Bytes for the records that pile up while the reader of a trace does not run: 18,000 events of `bbr3`.
const TRACE_BYTES: u32 = 16 << 20;

/// How many sockets without storage of their own find room.
const SPARE_FLOWS: u32 = 1024;

/// One registration, every choice made.
pub(crate) struct Wanted<'a> {
    pub(crate) program: &'static Program,
    /// The name that sockets are to choose.
    pub(crate) name: &'a str,
    /// Whether every event is to be recorded.
    pub(crate) trace: bool,
    /// How many sockets without storage of their own are to find room.
    pub(crate) spare_flows: u32,
    /// The row of parameters.
    pub(crate) params: Vec<u64>,
}

impl<'a> Wanted<'a> {
    /// With default parameters.
    pub(crate) fn new(program: &'static Program, name: &'a str, trace: bool) -> Self {
        Self { program, name, trace, spare_flows: SPARE_FLOWS, params: (program.params.defaults)() }
    }
}

/// Loads the programs. A kernel that lets nobody but itself write `app_limited` refuses them at first; then they are
/// loaded with the switch that makes them do without, so that no version number has to be trusted.
pub(crate) fn load(wanted: &Wanted<'_>, api: &Api) -> Result<Object> {
    let (loaded, log) = with_log(|| verify(wanted, api, true));
    match loaded {
        Ok(object) => return Ok(object),
        Err(e) if !log.contains(REFUSED_WRITE) => return Err(explain(&e, &log)),
        Err(_) => (),
    }
    let (loaded, log) = with_log(|| verify(wanted, api, false));
    loaded.map_err(|e| explain(&e, &log))
}

/// How the verifier says that a field of the socket is not BPF's to write.
const REFUSED_WRITE: &str = "no write support to tcp_sock";

/// What the verifier says where the kernel keeps its memory from BPF, since 6.8 or so and before.
const REFUSED_READS: [&str; 2] = ["cannot use helper bpf_probe_read", "unknown func bpf_probe_read"];

fn verify(wanted: &Wanted<'_>, api: &Api, writes_app_limited: bool) -> Result<Object> {
    prepare(wanted, api, writes_app_limited)?.load().context("cannot load it")
}

/// Opens the object and adapts it to this kernel and these options.
fn prepare(wanted: &Wanted<'_>, api: &Api, writes_app_limited: bool) -> Result<OpenObject> {
    let object = ObjectBuilder::default().open_memory(wanted.program.object);
    let mut object = object.context("cannot open the BPF object")?;
    let switches: [u64; SWITCHES] =
        [api.cong_control_has_ack.into(), writes_app_limited.into(), wanted.trace.into()];
    let settings: Vec<u8> =
        switches.iter().chain(&wanted.params).flat_map(|word| word.to_ne_bytes()).collect();
    let layout = Layout::of_object(wanted.program)?;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.ends_with(SETTINGS) {
            map.set_initial_value(&settings)
                .context("the BPF object and the Rust controller differ in parameters")?;
        } else if name == RING && wanted.trace {
            map.set_max_entries(TRACE_BYTES).context("cannot size the trace's ring")?;
        } else if name == SPARE {
            map.set_max_entries(wanted.spare_flows).context("cannot size the spare table")?;
        } else if name == TABLE {
            prepare_table(&mut map, wanted.name, &layout, api)?;
        }
    }
    Ok(object)
}

fn prepare_table(table: &mut OpenMapMut<'_>, name: &str, layout: &Layout, api: &Api) -> Result<()> {
    if !api.has_links {
        // The object asks for a link, which these kernels refuse as an unknown flag.
        table.set_map_flags(0).context("cannot set the table's flags")?;
    }
    layout.adapt(table.initial_value_mut().context("the table has no value")?, name, api)
}

/// Turns the kernel's refusal into one sentence and a hint; one that is not recognised keeps the verifier's last
/// words.
pub(crate) fn explain(error: &Error, log: &str) -> Error {
    let release = release();
    if log.contains(REFUSED_WRITE) {
        return Error::new(format!("Linux {release} does not let BPF set the pacing rate"))
            .with_hint("use Linux 6.0 or newer, or try the simulator: `headway sim`")
            .of(ErrorKind::RefusedByKernel);
    }
    if REFUSED_READS.iter().any(|said| log.contains(said)) {
        return Error::new(format!("Linux {release} is locked down and does not let BPF read its memory"))
            .with_hint("it was booted with lockdown=confidentiality; `cat /sys/kernel/security/lockdown`")
            .of(ErrorKind::RefusedByKernel);
    }
    let mut tail: Vec<&str> = log.lines().rev().take(12).collect();
    tail.reverse();
    Error::new(format!("Linux {release} refuses the program: {error:#}\n{}", tail.join("\n")))
        .of(ErrorKind::RefusedByKernel)
}

/// The loaded object's table of callbacks.
pub(crate) fn table_of(object: &mut Object) -> Result<MapMut<'_>> {
    object.maps_mut().find(|m| is_named(m.name(), TABLE)).context("the BPF object has no table")
}

/// Registers a loaded table; from here on sockets can choose it.
pub(crate) fn put_in_force(table: &mut MapMut<'_>) -> Result<Link> {
    let (link, log) = with_log(|| table.attach_struct_ops());
    link.map_err(|e| match e.kind() {
        Libbpf::AlreadyExists => Error::new("the kernel has a congestion control of that name already")
            .with_hint("another `headway` may hold it; run again when it has ended")
            .of(ErrorKind::NameTaken),
        _ => {
            Error::new(format!("the kernel does not register it: {e}\n{log}")).of(ErrorKind::RefusedByKernel)
        }
    })
}

/// A descriptor of our own for a map of a loaded object.
pub(crate) fn map_of(object: &Object, name: &str) -> Result<MapHandle> {
    let map = object.maps().find(|m| is_named(m.name(), name));
    let map = map.with_context(|| format!("the BPF object has no map `{name}`"))?;
    MapHandle::try_from(&map).with_context(|| format!("cannot open the map `{name}`"))
}

/// Reads the counters of loaded programs: `counters` in `bpf/tcp.bpf.h`.
pub(crate) fn read_counters(map: &MapHandle) -> Result<Counters> {
    let value = map.lookup(&ONLY_KEY, MapFlags::ANY).context("cannot read the counters")?;
    let words = to_words(&value.context("the BPF object has no counters")?);
    let &[
        flows,
        spare,
        without_storage,
        traced,
        trace_lost,
        unknown,
        unfound,
        ended,
        bytes_acked,
        bytes_sent,
        bytes_retrans,
        brake_entries,
    ] = words.as_slice()
    else {
        bail!("{} counters", words.len())
    };
    let bytes = Bytes { acked: bytes_acked, sent: bytes_sent, retransmitted: bytes_retrans };
    let past = Past { flows: ended, bytes, brake_entries };
    Ok(Counters { flows, spare, without_storage, traced, trace_lost, unknown, unfound, past })
}

/// A row of integers as the BPF programs lay it out.
pub(crate) fn to_words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|c| u64::from_ne_bytes(c.try_into().expect("chunks of 8"))).collect()
}

/// Whether a map's name, as libbpf or the kernel shows it, is this one of ours.
pub(crate) fn is_named(name: &OsStr, wanted: &str) -> bool {
    name == wanted || wanted.starts_with('.') && name.to_string_lossy().ends_with(wanted)
}

/// What libbpf prints while it works. It has one place to print to for the whole process, so one piece of work at a
/// time.
static LOG: Mutex<String> = Mutex::new(String::new());
static LOADING: Mutex<()> = Mutex::new(());

/// Does some work with libbpf and returns what libbpf printed meanwhile, instead of letting it print that to stderr.
pub(crate) fn with_log<T>(work: impl FnOnce() -> T) -> (T, String) {
    let _one = LOADING.lock().unwrap_or_else(|e| e.into_inner());
    let append = |_: PrintLevel, text: String| LOG.lock().unwrap_or_else(|e| e.into_inner()).push_str(&text);
    let previous = set_print(Some((PrintLevel::Warn, append)));
    let result = work();
    set_print(previous);
    (result, std::mem::take(&mut LOG.lock().unwrap_or_else(|e| e.into_inner())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::{PROGRAMS, check_name};

    #[test]
    fn every_program_has_room_for_its_parameters() {
        for program in PROGRAMS {
            let words = SWITCHES + (program.params.defaults)().len();
            let mut open = ObjectBuilder::default().open_memory(program.object).unwrap();
            let map = open.maps_mut().find(|m| m.name().to_string_lossy().ends_with(SETTINGS)).unwrap();
            assert_eq!(map.initial_value().unwrap().len(), words * 8, "{}", program.name);
            assert!(check_name(program.name).is_ok());
        }
    }

    #[test]
    fn a_refused_pacing_rate_is_one_clear_sentence() {
        let error = explain(&Error::new("EACCES"), "no write support to tcp_sock at off 368").to_string();
        assert!(error.contains("does not let BPF set the pacing rate\nhint: "), "{error}");
    }
}
