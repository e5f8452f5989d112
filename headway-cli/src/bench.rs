//! `headway bench`: a plan, then one cell after the other, each a folder of raw text files.
//!
//! The seam between measuring and judging is the run folder (docs/architecture.md): an interrupted run goes on
//! where it stopped, and `headway report` works on any folder that was ever made.

use crate::matrix::{self, Axes};
use crate::remote::{self, Setup};
use crate::shard::Shard;
use crate::tools::{self, Tool};
use crate::traffic::{self, Traffic};
use crate::transport::Transport;
use crate::{doctor, interrupt, kernel, lab, place, simcell, suite};
use anyhow::{Context, Result, bail, ensure};
use headway_cc::path;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Version of the raw folder's layout; a folder of another version is refused with a clear sentence.
pub const LAYOUT: u32 = 1;

/// Where a cell runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Our sender model over `link` in virtual time.
    Sim,
    /// A stock kernel under QEMU in virtual time.
    Lab,
    /// The running kernel, namespaces and the emulator.
    Here,
    /// The running kernel and the real path to an iperf3 server, the best of `HOST[:PORT][,HOST…]`.
    Remote(String),
}

impl Place {
    /// The first word of `--in`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Lab => "lab",
            Self::Here => "here",
            Self::Remote(_) => "remote",
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Remote(host) => write!(f, "remote {host}"),
            local => f.write_str(local.word()),
        }
    }
}

/// Everything that is about to be measured: `plan.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub layout: u32,
    pub place: Place,
    /// Labels of controllers ([`controller`]); the first is the baseline of the comparison.
    pub ccs: Vec<String>,
    pub paths: Vec<PathEntry>,
    /// `--suite`; empty where the paths were given one by one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suite: String,
    pub blocks: u32,
    #[serde(default, skip_serializing_if = "Transport::is_tcp")]
    pub transport: Transport,
    #[serde(default, skip_serializing_if = "Tool::is_usual")]
    pub tool: Tool,
    /// On every path that has none of its own.
    #[serde(flatten)]
    pub traffic: Traffic,
    pub seed: u64,
    /// Keep the per-ACK trace of our own controllers.
    pub trace: bool,
    /// The lab's kernel, `--kernel` as given; empty elsewhere.
    #[serde(default)]
    pub kernel: String,
    /// The lab kernel's modules, `--modules` as given.
    #[serde(default)]
    pub modules: String,
    #[serde(default, skip_serializing_if = "Setup::is_usual")]
    pub remote: Setup,
    /// In the order of execution.
    pub cells: Vec<Cell>,
}

/// A path by name (preset name, name of a suite's row, or the text itself) and canonical text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathEntry {
    pub name: String,
    /// The name as it was given, where values of lists make several entries of one path (`matrix.rs`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub given: String,
    pub text: String,
    /// Content of trace files named in the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<(String, String)>,
    /// What happens on it, where a suite or a matrix says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    /// The lab's kernel, where the plan has several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
}

/// One controller on one path once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub index: usize,
    /// Index into `Plan::paths`.
    pub path: usize,
    pub cc: String,
    pub block: u32,
    /// Seeds every random part of this cell; the same for all controllers of one block on one path.
    pub seed: u64,
}

/// What became of a cell: `cells/NNN/cell.json`, written last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    pub layout: u32,
    pub cell: Cell,
    /// Path name and text, repeated so that a cell folder explains itself.
    pub path: PathEntry,
    pub place: Place,
    #[serde(flatten)]
    pub traffic: Traffic,
    pub kernel: String,
    /// `ok`, or why the cell does not count.
    pub status: String,
    /// The controller's name in the kernel, which the sending sockets must report.
    pub sender_cc: String,
    /// The same of the rival's; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rival_cc: String,
    pub base_rtt_us: u64,
    /// Why earlier attempts at this cell came to nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<String>,
    /// What a reader must know beside the figures; the same words for the same thing, so that a report can count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What `headway bench` was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    pub place: Place,
    pub ccs: Vec<String>,
    pub paths: Vec<String>,
    /// A suite, whose rows bring their own traffic; paths beside it get its usual one.
    pub suite: Option<String>,
    pub blocks: u32,
    pub transport: Transport,
    pub tool: Tool,
    pub traffic: Traffic,
    /// Say more about the traffic, and about the kernel.
    pub axes: Axes,
    /// The traffic's warm-up was asked for, and is not to follow from the paths.
    pub has_warmup: bool,
    pub seed: u64,
    pub trace: bool,
    pub modules: String,
    pub remote: Setup,
}

/// How to run a plan.
#[derive(Debug)]
pub struct Options {
    pub out: PathBuf,
    /// Only these cells of the plan.
    pub shard: Option<Shard>,
    /// Cells side by side in `sim` and `lab`; elsewhere always one.
    pub jobs: usize,
}

impl PathEntry {
    /// A preset's name or a path text; reads the trace files it names.
    pub fn resolve(name: &str) -> Result<Self> {
        let path = path::resolve(name).map_err(|e| anyhow::anyhow!("{e}")).with_context(|| {
            format!("cannot read the path `{name}`\nhint: `headway list` shows the presets and the path text's words")
        })?;
        let read = |file: &String| {
            let text =
                fs::read_to_string(file).with_context(|| format!("cannot read the trace file `{file}`"))?;
            Ok((file.clone(), text))
        };
        let files = path.files().iter().map(read).collect::<Result<Vec<_>>>()?;
        let entry = Self { name: name.into(), text: path.to_string(), files, ..Self::default() };
        entry.path()?;
        Ok(entry)
    }

    /// The path, trace files loaded.
    pub fn path(&self) -> Result<path::Path> {
        let mut p: path::Path =
            self.text.parse().map_err(|e| anyhow::anyhow!("path `{}`: {e}", self.text))?;
        for (name, text) in &self.files {
            p.load(name, text).map_err(|e| anyhow::anyhow!("trace file `{name}`: {e}"))?;
        }
        Ok(p)
    }
}

impl Plan {
    /// Cells = controller × path × block; random order inside each block.
    pub fn new(r: &Request) -> Result<Self> {
        ensure!(!r.ccs.is_empty(), "no controller given\nhint: `--cc bbr,bbr1`");
        ensure!((1..=10_000).contains(&r.blocks), "--blocks must be between 1 and 10000");
        let mut ccs = r.ccs.clone();
        if r.suite.as_ref().map(|name| suite::find(name)).transpose()?.is_some_and(|suite| suite.has_twin) {
            let twin = format!("{}#2", controller(&r.ccs[0]));
            ccs.extend((!r.ccs.contains(&twin)).then_some(twin));
        }
        let paths = paths(r)?;
        ensure!(
            !paths.is_empty(),
            "no path given\nhint: `--path clean` or `--path '100mbit 40ms queue=1bdp'`"
        );
        let mut traffic = r.axes.first(r.traffic.clone());
        if !r.has_warmup {
            traffic.warmup_ms = warmup_ms(&r.place, &paths, traffic.seconds)?;
        }
        let paths = r.axes.expand(paths, &traffic);
        ensure!(
            r.modules.is_empty() || r.axes.kernels.len() == 1,
            "--modules belongs to one --kernel file\nhint: name versions, as `headway doctor` shows them"
        );
        let cells = cells(r, &ccs, paths.len());
        let plan = Self {
            layout: LAYOUT,
            place: r.place.clone(),
            ccs,
            paths,
            suite: r.suite.clone().unwrap_or_default(),
            blocks: r.blocks,
            transport: r.transport,
            tool: r.tool,
            traffic,
            seed: r.seed,
            trace: r.trace,
            kernel: if r.axes.kernels.len() == 1 { r.axes.kernels[0].clone() } else { String::new() },
            modules: r.modules.clone(),
            remote: r.remote.clone(),
            cells,
        };
        plan.check()?;
        Ok(plan)
    }

    /// Can its place run its controllers and its traffic, on this machine and with this version?
    pub fn check(&self) -> Result<()> {
        self.remote.check(self)?;
        for (i, cc) in self.ccs.iter().enumerate() {
            check_cc(&self.place, self.transport, cc)?;
            ensure!(!self.ccs[..i].contains(cc), "controller `{cc}` is given twice");
        }
        for traffic in self.paths.iter().filter_map(|p| p.traffic.as_ref()).chain([&self.traffic]) {
            check_traffic(&self.place, self.transport, traffic)?;
            check_tool(self.tool, &self.place, self.transport, traffic)?;
        }
        ensure!(
            !self.trace || self.traffics().all(|t| t.direction.is_forward()),
            "--trace is of a sender on this machine\nhint: leave out --direction reverse"
        );
        Ok(())
    }

    /// What happens on each of its paths.
    pub fn traffics(&self) -> impl Iterator<Item = &Traffic> {
        (0..self.paths.len()).map(|path| self.traffic(path))
    }

    /// The cells of a shard; all of them without one.
    pub fn cells_of(&self, shard: Option<Shard>) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |c| shard.is_none_or(|s| s.has(c)))
    }

    /// What happens on a path of the plan.
    pub fn traffic(&self, path: usize) -> &Traffic {
        self.paths[path].traffic.as_ref().unwrap_or(&self.traffic)
    }

    /// The lab's kernel for a path of the plan, as `--kernel` names it.
    pub fn kernel_of(&self, path: usize) -> &str {
        let own = &self.paths[path].kernel;
        if own.is_empty() { &self.kernel } else { own }
    }

    /// The command that makes this plan again.
    pub fn command(&self) -> String {
        let mut s = format!("headway bench --cc {}", shell_word(&self.ccs.join(",")));
        if !self.suite.is_empty() {
            s += &format!(" --suite {}", shell_word(&self.suite));
        }
        let mut given: Vec<&str> = Vec::new();
        for p in self.given() {
            let name = if p.given.is_empty() { &p.name } else { &p.given };
            if !matches!(self.place, Place::Remote(_)) && !given.contains(&name.as_str()) {
                s += &format!(" --path {}", shell_word(name));
                given.push(name);
            }
        }
        s += &format!(" --blocks {}", self.blocks);
        if self.given().next().is_some() {
            s += &self.traffic_flags();
        }
        s += &format!(" --seed {} --in {}{}", self.seed, self.place, self.remote.flags());
        if !self.transport.is_tcp() {
            s += &format!(" --transport {}", self.transport);
        }
        if !self.tool.is_usual() {
            s += &format!(" --tool {}", self.tool);
        }
        let kernels = matrix::values(self.paths.iter(), |p| p.kernel.clone());
        let kernel = if kernels.is_empty() { &self.kernel } else { &kernels };
        for (flag, value) in [("--kernel", kernel), ("--modules", &self.modules)] {
            if !value.is_empty() {
                s += &format!(" {flag} {}", shell_word(value));
            }
        }
        if self.trace {
            s += " --trace";
        }
        s
    }

    /// The paths that no suite brought.
    fn given(&self) -> impl Iterator<Item = &PathEntry> {
        self.paths.iter().filter(|p| p.traffic.is_none() || !p.given.is_empty())
    }

    /// What the paths that no suite brought were given as traffic.
    fn traffic_flags(&self) -> String {
        let usual = &self.traffic;
        let list = |of: &dyn Fn(&Traffic) -> String| {
            matrix::values(self.given(), |p| of(p.traffic.as_ref().unwrap_or(usual)))
        };
        let streams = list(&|t| t.streams.to_string());
        let mut s = format!(" --seconds {} --streams {streams}{}", usual.seconds, usual.pattern.flags());
        for (flag, value, none) in [
            ("--pacing", list(&|t| traffic::pacing_text(t.pacing_bps)), "0"),
            ("--direction", list(&|t| t.direction.to_string()), "forward"),
            ("--cpu-load", list(&|t| t.cpu_load_percent.to_string()), "0"),
            ("--mtu", list(&|t| t.mtu.to_string()), &traffic::usual_mtu().to_string()),
            ("--against", list(&|t| traffic::rival_text(t.against.as_ref())), "none"),
        ] {
            if value != none {
                s += &format!(" {flag} {}", shell_word(&value));
            }
        }
        if let Some(messages) = &usual.messages {
            s += &format!(" --messages {messages}");
        }
        s + &format!(" --warmup {}", usual.warmup_ms as f64 / 1000.0)
    }
}

/// The word as a shell takes it.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The rows of the suite that are honest in this place, then the paths that were named.
fn paths(r: &Request) -> Result<Vec<PathEntry>> {
    if let Place::Remote(host) = &r.place {
        ensure!(r.suite.is_none(), "--suite needs paths of its own\nhint: --in sim, lab or here");
        return Ok(vec![PathEntry { name: host.clone(), ..PathEntry::default() }]);
    }
    let mut paths = Vec::new();
    if let Some(name) = &r.suite {
        let rows = suite::find(name)?.rows_in(&r.place);
        ensure!(!rows.is_empty(), "no row of the suite `{name}` is honest in {}", r.place);
        for row in rows {
            let entry = PathEntry::resolve(&row.path)?;
            paths.push(PathEntry { name: row.name, traffic: Some(row.traffic), ..entry });
        }
    }
    for name in &r.paths {
        paths.push(PathEntry::resolve(name)?);
    }
    Ok(paths)
}

/// 20 of the longest round trips and 2 s at least, but no more than a third of the load.
fn warmup_ms(place: &Place, paths: &[PathEntry], seconds: u32) -> Result<u64> {
    let mut longest_rtt_ms = 0;
    for path in paths.iter().filter(|_| !matches!(place, Place::Remote(_))) {
        longest_rtt_ms = longest_rtt_ms.max(path.path()?.base_rtt_us() / 1000);
    }
    Ok((20 * longest_rtt_ms).max(2000).min(u64::from(seconds) * 1000 / 3))
}

/// Is there something for the tool to do?
fn check_tool(tool: Tool, place: &Place, transport: Transport, t: &Traffic) -> Result<()> {
    if tool.is_usual() {
        return Ok(());
    }
    ensure!(
        *place == Place::Here || matches!(place, Place::Remote(_)),
        "--tool {tool}: sim and lab make their own streams\nhint: --in here or remote HOST"
    );
    ensure!(transport.is_tcp(), "--tool {tool} speaks no QUIC\nhint: leave --transport {transport} out");
    ensure!(
        !t.pattern.is_pausing(),
        "--tool {tool} cannot pause\nhint: leave it out, --on-off makes its own streams"
    );
    ensure!(
        t.direction.is_forward(),
        "--tool {tool}: an iperf 2 server does not say with which controller it sends\nhint: leave out --direction reverse"
    );
    Ok(())
}

fn check_traffic(place: &Place, transport: Transport, t: &Traffic) -> Result<()> {
    transport.check(place, t)?;
    ensure!((1..=86_400).contains(&t.seconds), "--seconds must be between 1 and 86400");
    ensure!((1..=128).contains(&t.streams), "--streams must be between 1 and 128 (iperf3's limit)");
    ensure!(t.warmup_ms < u64::from(t.seconds) * 1000, "--warmup must be shorter than --seconds");
    ensure!((576..=9000).contains(&t.mtu), "--mtu must be between 576 and 9000");
    let is_remote = matches!(place, Place::Remote(_));
    if let Some(messages) = &t.messages {
        ensure!(
            messages.max_bytes + headway_cc::messages::HEADER_BYTES <= t.mtu,
            "messages of {} bytes do not fit --mtu {}",
            messages.max_bytes,
            t.mtu
        );
    }
    for (flag, is_given) in [
        ("--against", t.against.is_some()),
        ("--messages", t.messages.is_some()),
        ("--mtu", !traffic::is_usual_mtu(&t.mtu)),
        ("--on-off", t.pattern.is_pausing()),
    ] {
        ensure!(!(is_given && is_remote), "{flag} needs a path of its own\nhint: --in sim, lab or here");
    }
    ensure!(t.cpu_load_percent <= 100, "--cpu-load is a percentage, 0 to 100");
    ensure!(
        t.cpu_load_percent == 0 || is_remote || *place == Place::Here,
        "--cpu-load needs a real clock: virtual time does not feel a busy CPU\nhint: --in here or remote HOST"
    );
    let is_reverse = !t.direction.is_forward();
    ensure!(
        is_remote || !is_reverse,
        "--direction reverse needs a real path: an emulated one is the same with its ends exchanged\n\
         hint: write the path as the data meets it, `up=RATE` is the way back; or --in remote HOST"
    );
    ensure!(
        !is_reverse || t.pacing_bps.is_none(),
        "--pacing is of a sender on this machine: iperf3 before 3.17 sends it to no server\n\
         hint: leave out --direction reverse"
    );
    t.against.as_ref().map_or(Ok(()), |rival| check_cc(place, transport, &rival.cc))
}

/// The controller that a label means: `bbr#2` is `bbr` once more, to be compared with itself.
pub fn controller(label: &str) -> &str {
    label.split_once('#').map_or(label, |(cc, _)| cc)
}

/// The 2 of `bbr#2`.
fn label_number(label: &str) -> Option<u64> {
    label.split_once('#').and_then(|(_, number)| number.parse().ok())
}

/// Is this the label of a controller this place can run, with the settings that follow its name?
fn check_cc(place: &Place, transport: Transport, label: &str) -> Result<()> {
    let is_plain = !label.contains('#') || label_number(label).is_some();
    ensure!(is_plain, "`{label}` is no label of a controller\nhint: `{}#2`", controller(label));
    let cc = controller(label);
    let (name, settings) = headway_cc::cc::name_and_settings(cc);
    let ours = || kernel::available().attachable.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    let known = match place {
        Place::Sim => transport.controllers(),
        _ if !transport.is_tcp() => transport.controllers(),
        Place::Lab => [ours(), lab::BUILT_IN.map(String::from).to_vec()].concat(),
        Place::Here | Place::Remote(_) => [ours(), kernel::available().registered].concat(),
    };
    let over = if transport.is_tcp() { String::new() } else { format!(" --transport {transport}") };
    ensure!(
        known.iter().any(|k| k == name),
        "unknown controller `{name}` for --in {place}{over}\nhint: there is {}",
        known.join(", ")
    );
    if name.len() < cc.len() {
        let table = headway_cc::cc::entry(name).and_then(|e| e.params);
        let table =
            table.with_context(|| format!("`{name}` has no parameters to set\nhint: `--cc {name}`"))?;
        table.with(settings).with_context(|| format!("cannot set `{cc}`"))?;
    }
    Ok(())
}

fn cells(r: &Request, ccs: &[String], paths: usize) -> Vec<Cell> {
    let mut cells = Vec::new();
    for block in 0..r.blocks {
        let mut mates: Vec<(usize, &String)> =
            (0..paths).flat_map(|p| ccs.iter().map(move |cc| (p, cc))).collect();
        let mut rng = headway_cc::rand::Rng::new(r.seed, u64::from(block));
        for i in (1..mates.len()).rev() {
            mates.swap(i, rng.below(i as u64 + 1) as usize);
        }
        for (path, cc) in mates {
            // 48 bits: a JSON reader that keeps numbers as doubles must not change it.
            let seed = headway_cc::rand::hash(r.seed, u64::from(block) << 16 | path as u64) >> 16;
            // With the same seed the second label would be the same bytes where time is virtual.
            let seed = match label_number(cc) {
                Some(number) => headway_cc::rand::hash(seed, number) >> 16,
                None => seed,
            };
            cells.push(Cell { index: cells.len(), path, cc: cc.clone(), block, seed });
        }
    }
    cells
}

/// Runs every cell of the plan that the run folder does not have yet. Returns how many failed.
pub fn run(plan: &Plan, o: &Options) -> Result<usize> {
    doctor::need(plan)?;
    let lab_kernels = lab_kernels(plan)?;
    let (remote, plan) = match remote::Session::open(plan, &o.out)? {
        Some((session, plan)) => (Some(session), plan),
        None => (None, plan.clone()),
    };
    let (plan, ground) = (&plan, Ground { lab_kernels, remote });
    let _lock = open_run(plan, &o.out)?;
    let env = place::env(plan, &ground.lab_kernels, ground.remote.as_ref())?;
    write_atomic(&o.out.join("env.json"), &(serde_json::to_string_pretty(&env)? + "\n"))?;
    let own: Vec<&Cell> = plan.cells_of(o.shard).collect();
    let todo: Vec<&Cell> = own.iter().copied().filter(|c| !cell_dir(&o.out, c).exists()).collect();
    if todo.len() < own.len() {
        eprintln!("going on: {} of {} cells are there already", own.len() - todo.len(), own.len());
    }
    let jobs = match plan.place {
        Place::Sim | Place::Lab => o.jobs,
        Place::Here | Place::Remote(_) => 1,
    };
    let next = AtomicUsize::new(0);
    let progress = Progress::new(plan, todo.len());
    let first_error: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    std::thread::scope(|s| {
        for _ in 0..jobs.min(todo.len()) {
            s.spawn(|| {
                while let Some(cell) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if first_error.lock().unwrap_or_else(|e| e.into_inner()).is_some() {
                        break;
                    }
                    match run_and_keep(plan, cell, &ground, &o.out) {
                        Ok(status) => progress.done(plan, cell, &status),
                        Err(e) => *first_error.lock().unwrap_or_else(|e| e.into_inner()) = Some(e),
                    }
                }
            });
        }
    });
    match first_error.into_inner().unwrap_or_else(|e| e.into_inner()) {
        Some(e) => Err(e),
        None => {
            progress.end(jobs);
            Ok(progress.failed.load(Ordering::Relaxed))
        }
    }
}

/// What lasts as long as the run.
struct Ground {
    lab_kernels: BTreeMap<String, lab::Kernel>,
    remote: Option<remote::Session>,
}

/// The kernels that the plan names, by those names; none outside the lab.
fn lab_kernels(plan: &Plan) -> Result<BTreeMap<String, lab::Kernel>> {
    let mut kernels = BTreeMap::new();
    if plan.place == Place::Lab {
        for spec in (0..plan.paths.len()).map(|path| plan.kernel_of(path)) {
            if !kernels.contains_key(spec) {
                let kernel = lab::Kernel::find(some(spec), some(&plan.modules).map(FsPath::new), &[])?;
                kernels.insert(spec.to_string(), kernel);
            }
        }
    }
    Ok(kernels)
}

fn some(s: &str) -> Option<&str> {
    (!s.is_empty()).then_some(s)
}

/// Creates the run folder, or checks that an existing one is of this very plan. The lock lasts as long as the file.
pub fn open_run(plan: &Plan, out: &FsPath) -> Result<fs::File> {
    let file = out.join("plan.json");
    if file.exists() {
        let old = read_plan(out)?;
        ensure!(
            old == *plan,
            "`{}` holds a run of another plan: {}\nhint: give the same arguments to go on with it, or another --out",
            out.display(),
            old.command()
        );
    } else {
        fs::create_dir_all(out.join("cells"))
            .with_context(|| format!("cannot create `{}`", out.display()))?;
        write_atomic(&file, &(serde_json::to_string_pretty(plan)? + "\n"))?;
    }
    let lock = fs::File::open(&file)?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .with_context(|| format!("another headway is writing to `{}`", out.display()))?;
    for entry in fs::read_dir(out.join("cells"))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            fs::remove_dir_all(entry.path())?; // left by a run that was killed
        }
    }
    Ok(lock)
}

/// Reads `plan.json` of a run folder, or that file by its name.
pub fn read_plan(dir: &FsPath) -> Result<Plan> {
    let file = if dir.is_file() { dir.to_path_buf() } else { dir.join("plan.json") };
    let shown = dir.display();
    let text = fs::read_to_string(&file).with_context(|| {
        format!("`{shown}` is not a run: cannot read its plan.json\nhint: name the folder that `headway bench --out` made")
    })?;
    let broken = || {
        format!("plan.json in `{shown}` is broken\nhint: the run cannot be read without it; repeat the bench")
    };
    let value: serde_json::Value = serde_json::from_str(&text).with_context(broken)?;
    match value["layout"].as_u64() {
        Some(layout) if layout == u64::from(LAYOUT) => {}
        Some(layout) => bail!(
            "`{shown}` has raw folder layout {layout}, this program reads layout {LAYOUT}\n\
             hint: use the version of headway that made it"
        ),
        None => {
            bail!("plan.json in `{shown}` names no layout\nhint: is this a folder that `headway bench` made?")
        }
    }
    let plan: Plan = serde_json::from_value(value).with_context(broken)?;
    let known = |c: &Cell| c.path < plan.paths.len() && plan.ccs.contains(&c.cc);
    if plan.ccs.is_empty() || plan.cells.is_empty() || !plan.cells.iter().all(known) {
        bail!("{}", broken());
    }
    Ok(plan)
}

/// `cells/NNN` of a cell.
pub fn cell_dir(out: &FsPath, cell: &Cell) -> PathBuf {
    out.join("cells").join(format!("{:03}", cell.index))
}

/// Runs one cell into a temporary folder and renames it: a cell folder that exists is whole.
/// A cell that fails is kept with its reason; only what stops every cell (a full disk) is an error.
fn run_and_keep(plan: &Plan, cell: &Cell, ground: &Ground, out: &FsPath) -> Result<String> {
    let dest = cell_dir(out, cell);
    let tmp = out.join("cells").join(format!(".{:03}.tmp", cell.index));
    fs::create_dir_all(&tmp).with_context(|| format!("cannot create `{}`", tmp.display()))?;
    let dir = tmp.clone();
    let guard = interrupt::guard(move || drop(fs::remove_dir_all(&dir)));
    let limit = match plan.place {
        Place::Sim => 1,
        // The emulator may have stood still. All else would come out the same again.
        Place::Lab => 2,
        Place::Here | Place::Remote(_) => ATTEMPTS,
    };
    let pause = |attempt| {
        eprintln!("attempt {attempt} at cell {:03} failed, trying again", cell.index);
        std::thread::sleep(Duration::from_secs(2 * u64::from(attempt)));
    };
    let (status, attempts) = with_attempts(limit, pause, || attempt(plan, cell, ground, &tmp))?;
    if !attempts.is_empty() {
        CellResult { attempts, ..CellResult::read(&tmp)? }.write(&tmp)?;
    }
    fs::rename(&tmp, &dest).with_context(|| format!("cannot keep `{}`", dest.display()))?;
    guard.keep();
    Ok(status)
}

/// How often a cell is tried whose server is busy, away, or does not end. One whose guest does nothing is tried twice.
const ATTEMPTS: u32 = 5;

/// The status of the first attempt that is not worth another one, and those before it.
fn with_attempts(
    limit: u32,
    pause: impl Fn(u32),
    mut attempt: impl FnMut() -> Result<String>,
) -> Result<(String, Vec<String>)> {
    let mut earlier: Vec<String> = Vec::new();
    loop {
        let status = attempt()?;
        let count = earlier.len() as u32 + 1;
        if count >= limit || !(tools::is_worth_retrying(&status) || lab::is_stuck(&status)) {
            return Ok((status, earlier));
        }
        pause(count);
        earlier.push(status);
    }
}

/// Runs the cell once into `tmp`, which is emptied first.
fn attempt(plan: &Plan, cell: &Cell, ground: &Ground, tmp: &FsPath) -> Result<String> {
    fs::remove_dir_all(tmp)
        .and_then(|()| fs::create_dir(tmp))
        .with_context(|| format!("cannot empty `{}`", tmp.display()))?;
    let ran = match &plan.place {
        Place::Sim => simcell::run_cell(plan, cell, tmp),
        Place::Lab => {
            let kernel =
                ground.lab_kernels.get(plan.kernel_of(cell.path)).context("the lab has no kernel")?;
            lab::run_cell(kernel, plan, cell, tmp, lab::Limits::for_cell(plan, cell))
        }
        Place::Here => place::run_cell_here(plan, cell, tmp),
        Place::Remote(_) => {
            let session = ground.remote.as_ref().context("the plan has no server")?;
            remote::run_cell(session, plan, cell, tmp)
        }
    };
    if let Err(e) = ran {
        ensure!(!is_disk_full(&e), "{e:#}\nhint: free some room and run the same command again");
        let failed = CellResult::new(plan, cell, &format!("failed: {}", crate::sentence(&e)));
        failed.write(tmp)?;
    }
    Ok(CellResult::read(tmp)?.status)
}

fn is_disk_full(e: &anyhow::Error) -> bool {
    let full = |c: &(dyn std::error::Error + 'static)| {
        c.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::StorageFull)
    };
    e.chain().any(full)
}

impl CellResult {
    /// A result with nothing measured yet.
    pub fn new(plan: &Plan, cell: &Cell, status: &str) -> Self {
        let traffic = plan.traffic(cell.path);
        Self {
            layout: LAYOUT,
            cell: cell.clone(),
            path: PathEntry { files: Vec::new(), traffic: None, ..plan.paths[cell.path].clone() },
            place: plan.place.clone(),
            traffic: traffic.clone(),
            kernel: String::new(),
            status: status.into(),
            sender_cc: controller(&cell.cc).into(),
            rival_cc: traffic.against.as_ref().map_or_else(String::new, |rival| rival.cc.clone()),
            base_rtt_us: 0,
            attempts: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Writes `cell.json` into a cell's folder.
    pub fn write(&self, dir: &FsPath) -> Result<()> {
        write_atomic(&dir.join("cell.json"), &(serde_json::to_string_pretty(self)? + "\n"))
    }

    /// Reads `cell.json` of a cell's folder.
    pub fn read(dir: &FsPath) -> Result<Self> {
        let file = dir.join("cell.json");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("`{}` is damaged", file.display()))
    }
}

/// Writes a file so that it is either whole or not there.
pub fn write_atomic(file: &FsPath, content: &(impl AsRef<[u8]> + ?Sized)) -> Result<()> {
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let tmp = file.with_file_name(format!(".{name}.tmp"));
    let write = || {
        let mut f = fs::File::create(&tmp)?;
        f.write_all(content.as_ref())?;
        fs::rename(&tmp, file)
    };
    write().inspect_err(|_| drop(fs::remove_file(&tmp))).with_context(|| {
        format!("cannot write `{}`\nhint: is the disk full or the folder read-only?", file.display())
    })
}

/// `headway-run-N` with the first free N in the working directory.
pub fn new_run_dir() -> Result<PathBuf> {
    (1..100_000)
        .map(|n| PathBuf::from(format!("headway-run-{n}")))
        .find(|p| !p.exists())
        .context("there are 100000 run folders here\nhint: name one with --out")
}

/// What the plan would take: cells in their order, wall time and traffic.
pub fn dry_run(plan: &Plan, shard: Option<Shard>, jobs: usize) -> Result<String> {
    use std::fmt::Write as _;
    let mut s = String::from("cell block path cc seed\n");
    for c in plan.cells_of(shard) {
        writeln!(s, "{} {} `{}` {} {}", c.index, c.block + 1, plan.paths[c.path].name, c.cc, c.seed)?;
    }
    if !plan.suite.is_empty() {
        let left_out = suite::find(&plan.suite)?.left_out(&plan.place);
        let (suite, count) = (&plan.suite, plan.paths.len());
        writeln!(s, "suite {suite}: {count} paths; {} left out in {}", left_out.len(), plan.place)?;
        left_out.iter().try_for_each(|line| writeln!(s, "left out: {line}"))?;
    }
    let (seconds, bits) = cost(plan, shard, jobs)?;
    write!(s, "{} cells, about {} min, ", plan.cells_of(shard).count(), seconds.div_ceil(60))?;
    match bits {
        u64::MAX => writeln!(s, "no limit to the traffic over the paths")?,
        bits => writeln!(s, "at most {:.1} GB over the paths", bits as f64 / 8e9)?,
    }
    Ok(s)
}

/// Seconds of wall time, and bits over the paths (`u64::MAX`: without a limit).
fn cost(plan: &Plan, shard: Option<Shard>, jobs: usize) -> Result<(u64, u64)> {
    let load_s = |path: usize| u64::from(plan.traffic(path).seconds);
    let capacity = |(index, path): (usize, &PathEntry)| match plan.place {
        Place::Remote(_) => Ok(0),
        // An unlimited link carries u64::MAX.
        _ => Ok(path.path()?.capacity_bits(0, load_s(index) * 1_000_000_000)),
    };
    let capacities = plan.paths.iter().enumerate().map(capacity).collect::<Result<Vec<_>>>()?;
    let (mut seconds, mut bits) = (0u64, 0u64);
    for cell in plan.cells_of(shard) {
        bits = bits.saturating_add(capacities[cell.path]);
        // Measured: a lab cell boots in 3 s and runs at about the speed of the clock.
        seconds += match plan.place {
            Place::Sim => 0,
            Place::Lab => load_s(cell.path) + 6,
            Place::Here | Place::Remote(_) => load_s(cell.path) + 3,
        };
    }
    match plan.place {
        // Measured: 30 Gbit of packets a second, and 1.5 of a QUIC stack's, which encrypts them.
        Place::Sim if plan.transport.is_tcp() => seconds = bits / 30_000_000_000 / jobs as u64,
        Place::Sim => seconds = bits / 1_500_000_000 / jobs as u64,
        Place::Lab => seconds /= jobs as u64,
        Place::Here | Place::Remote(_) => {}
    }
    Ok((seconds, bits))
}

/// One line a cell on stderr, with the time left.
struct Progress {
    start: Instant,
    total: usize,
    done: AtomicUsize,
    failed: AtomicUsize,
}

impl Progress {
    fn new(plan: &Plan, total: usize) -> Self {
        let paths = match plan.suite.as_str() {
            "" => plan.paths.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", "),
            suite => format!("suite {suite} ({} paths)", plan.paths.len()),
        };
        eprintln!(
            "{total} cells to run: {} × {paths} × {} blocks, in {}",
            plan.ccs.join(", "),
            plan.blocks,
            plan.place
        );
        Self { start: Instant::now(), total, done: AtomicUsize::new(0), failed: AtomicUsize::new(0) }
    }

    fn done(&self, plan: &Plan, cell: &Cell, status: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if status != "ok" {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        let left = self.start.elapsed().mul_f64((self.total - done) as f64 / done as f64);
        let left = left.as_secs();
        let path = &plan.paths[cell.path].name;
        eprintln!(
            "[{done}/{}] block {} {path}: {} {status} ({left} s left)",
            self.total,
            cell.block + 1,
            cell.cc
        );
    }

    /// The wall time of what ran now.
    fn end(&self, jobs: usize) {
        let (seconds, side_by_side) = (self.start.elapsed().as_secs_f64(), jobs.min(self.total));
        eprintln!("{} cells took {seconds:.1} s, {side_by_side} side by side", self.total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_is_tried_again_up_to_the_limit_and_each_attempt_is_kept() {
        let busy = "failed: load.json: iperf3: the server is busy running a test. try again later";
        let tried = |limit, said: &[&str]| {
            let mut said = said.iter().map(|s| s.to_string());
            with_attempts(limit, |_| (), || said.next().context("asked too often")).unwrap()
        };
        assert_eq!(tried(5, &["ok"]), ("ok".into(), vec![]));
        assert_eq!(tried(5, &[busy, busy, "ok"]), ("ok".into(), vec![busy.to_string(); 2]));
        assert_eq!(tried(3, &[busy; 3]), (busy.into(), vec![busy.to_string(); 2]));
        // What another attempt would not mend, and where nothing is tried twice.
        let wrong = "failed: load.json: the sender used `cubic`, not `bbr`";
        assert_eq!(tried(5, &[wrong]), (wrong.into(), vec![]));
        assert_eq!(tried(5, &["disturbed: packets left late"]).1.len(), 0);
        assert_eq!(tried(1, &[busy]), (busy.into(), vec![]));
        let late = "failed: iperf3 did not end 20 s after its time was up";
        assert_eq!(tried(5, &[late, "ok"]).1, [late]);
        let stuck = "failed: Linux 6.12 in the lab: the guest did nothing for 30 s";
        assert_eq!(tried(2, &[stuck, "ok"]).1, [stuck]);
    }
}
