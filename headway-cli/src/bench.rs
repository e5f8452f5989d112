//! `headway bench`: a plan, then one cell after the other, each a folder of raw text files.
//!
//! The seam between measuring and judging is the run folder (docs/architecture.md): an interrupted run goes on
//! where it stopped, and `headway report` works on any folder that was ever made.

use crate::{doctor, interrupt, kernel, lab, place, simcell};
use anyhow::{Context, Result, bail, ensure};
use headway_cc::{cc, path};
use serde::{Deserialize, Serialize};
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
    /// The running kernel and the real path to an iperf3 server, `HOST[:PORT]`.
    Remote(String),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sim => f.write_str("sim"),
            Self::Lab => f.write_str("lab"),
            Self::Here => f.write_str("here"),
            Self::Remote(host) => write!(f, "remote {host}"),
        }
    }
}

/// Everything that is about to be measured: `plan.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub layout: u32,
    pub place: Place,
    /// Controllers; the first is the baseline of the comparison.
    pub ccs: Vec<String>,
    pub paths: Vec<PathEntry>,
    pub streams: u32,
    pub blocks: u32,
    /// Flows beside ours on the same path, `streams` of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Rival>,
    /// Length of the load phase.
    pub seconds: u32,
    /// Left out of the summary metrics at the start of the load phase.
    pub warmup_ms: u64,
    pub seed: u64,
    /// Keep the per-ACK trace of our own controllers.
    pub trace: bool,
    /// The lab's kernel, `--kernel` as given; empty elsewhere.
    #[serde(default)]
    pub kernel: String,
    /// The lab kernel's modules, `--modules` as given.
    #[serde(default)]
    pub modules: String,
    /// In the order of execution.
    pub cells: Vec<Cell>,
}

/// Who competes with the controller under test in every cell: `--against CC[+EXTRA_RTT]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rival {
    pub cc: String,
    /// What its packets travel longer than ours, both ways together.
    pub extra_rtt_us: u64,
}

impl std::str::FromStr for Rival {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (cc, extra) = text.split_once('+').unwrap_or((text, "0ms"));
        let extra_rtt_us = cc::params::Kind::Micros
            .read(extra)
            .map_err(|e| anyhow::anyhow!("`{extra}` in `--against {text}`: {e}"))?;
        ensure!(extra_rtt_us <= 10_000_000, "`{extra}` in `--against {text}`: at most 10s");
        Ok(Self { cc: cc.into(), extra_rtt_us })
    }
}

impl std::fmt::Display for Rival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.extra_rtt_us {
            0 => f.write_str(&self.cc),
            us => write!(f, "{}+{us}us", self.cc),
        }
    }
}

/// A path by name (preset name or the text itself) and canonical text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathEntry {
    pub name: String,
    pub text: String,
    /// Content of trace files named in the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<(String, String)>,
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
    pub streams: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Rival>,
    pub seconds: u32,
    pub warmup_ms: u64,
    pub kernel: String,
    /// `ok`, or why the cell does not count.
    pub status: String,
    /// The controller's name in the kernel, which the sending sockets must report.
    pub sender_cc: String,
    /// The same of the rival's; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rival_cc: String,
    pub base_rtt_us: u64,
}

/// What `headway bench` was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    pub place: Place,
    pub ccs: Vec<String>,
    pub paths: Vec<String>,
    pub streams: u32,
    pub against: Option<Rival>,
    pub blocks: u32,
    pub seconds: u32,
    pub warmup_ms: Option<u64>,
    pub seed: u64,
    pub trace: bool,
    pub kernel: String,
    pub modules: String,
}

/// How to run a plan.
#[derive(Debug)]
pub struct Options {
    pub out: PathBuf,
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
        let entry = Self { name: name.into(), text: path.to_string(), files };
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
        ensure!((1..=86_400).contains(&r.seconds), "--seconds must be between 1 and 86400");
        ensure!((1..=128).contains(&r.streams), "--streams must be between 1 and 128 (iperf3's limit)");
        for (i, cc) in r.ccs.iter().enumerate() {
            check_cc(&r.place, cc)?;
            ensure!(!r.ccs[..i].contains(cc), "controller `{cc}` is given twice");
        }
        if let Some(rival) = &r.against {
            ensure!(
                !matches!(r.place, Place::Remote(_)),
                "--against needs a path of its own\nhint: --in sim, lab or here"
            );
            check_cc(&r.place, &rival.cc)?;
        }
        let paths = match &r.place {
            Place::Remote(host) => {
                let text = String::new();
                vec![PathEntry { name: host.clone(), text, files: Vec::new() }]
            }
            _ => r.paths.iter().map(|p| PathEntry::resolve(p)).collect::<Result<Vec<_>>>()?,
        };
        ensure!(
            !paths.is_empty(),
            "no path given\nhint: `--path clean` or `--path '100mbit 40ms queue=1bdp'`"
        );
        let longest_rtt_ms = match &r.place {
            Place::Remote(_) => 0,
            _ => paths
                .iter()
                .map(|p| Ok(p.path()?.base_rtt_us() / 1000))
                .collect::<Result<Vec<_>>>()?
                .into_iter()
                .max()
                .unwrap_or(0),
        };
        let third_ms = u64::from(r.seconds) * 1000 / 3;
        let warmup_ms = r.warmup_ms.unwrap_or_else(|| (20 * longest_rtt_ms).max(2000).min(third_ms));
        ensure!(warmup_ms < u64::from(r.seconds) * 1000, "--warmup must be shorter than --seconds");
        let cells = cells(r, paths.len());
        Ok(Self {
            layout: LAYOUT,
            place: r.place.clone(),
            ccs: r.ccs.clone(),
            paths,
            streams: r.streams,
            against: r.against.clone(),
            blocks: r.blocks,
            seconds: r.seconds,
            warmup_ms,
            seed: r.seed,
            trace: r.trace,
            kernel: r.kernel.clone(),
            modules: r.modules.clone(),
            cells,
        })
    }

    /// The command that makes this plan again.
    pub fn command(&self) -> String {
        let mut s = format!("headway bench --cc {}", shell_word(&self.ccs.join(",")));
        if !matches!(self.place, Place::Remote(_)) {
            for p in &self.paths {
                s += &format!(" --path {}", shell_word(&p.name));
            }
        }
        s += &format!(" --blocks {} --seconds {} --streams {}", self.blocks, self.seconds, self.streams);
        if let Some(rival) = &self.against {
            s += &format!(" --against {}", shell_word(&rival.to_string()));
        }
        s +=
            &format!(" --warmup {} --seed {} --in {}", self.warmup_ms as f64 / 1000.0, self.seed, self.place);
        for (flag, value) in [("--kernel", &self.kernel), ("--modules", &self.modules)] {
            if !value.is_empty() {
                s += &format!(" {flag} {}", shell_word(value));
            }
        }
        if self.trace {
            s += " --trace";
        }
        s
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

/// Is `cc` a controller this place can run, with the settings that follow its name?
fn check_cc(place: &Place, cc: &str) -> Result<()> {
    let (name, settings) = headway_cc::cc::name_and_settings(cc);
    let ours = || kernel::available().attachable.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    let known = match place {
        Place::Sim => headway_cc::cc::CONTROLLERS.iter().map(|e| e.name.to_string()).collect(),
        Place::Lab => [ours(), lab::BUILT_IN.map(String::from).to_vec()].concat(),
        Place::Here | Place::Remote(_) => [ours(), kernel::available().registered].concat(),
    };
    ensure!(
        known.iter().any(|k| k == name),
        "unknown controller `{name}` for --in {place}\nhint: there is {}",
        known.join(", ")
    );
    let table = headway_cc::cc::CONTROLLERS.iter().find(|e| e.name == name).and_then(|e| e.params);
    for setting in settings {
        let table =
            table.with_context(|| format!("`{name}` has no parameters to set\nhint: `--cc {name}`"))?;
        table.set(&mut (table.defaults)(), setting).with_context(|| format!("cannot set `{cc}`"))?;
    }
    Ok(())
}

fn cells(r: &Request, paths: usize) -> Vec<Cell> {
    let mut cells = Vec::new();
    for block in 0..r.blocks {
        let mut mates: Vec<(usize, &String)> =
            (0..paths).flat_map(|p| r.ccs.iter().map(move |cc| (p, cc))).collect();
        let mut rng = headway_cc::rand::Rng::new(r.seed, u64::from(block));
        for i in (1..mates.len()).rev() {
            mates.swap(i, rng.below(i as u64 + 1) as usize);
        }
        for (path, cc) in mates {
            // 48 bits: a JSON reader that keeps numbers as doubles must not change it.
            let seed = headway_cc::rand::hash(r.seed, u64::from(block) << 16 | path as u64) >> 16;
            cells.push(Cell { index: cells.len(), path, cc: cc.clone(), block, seed });
        }
    }
    cells
}

/// Runs every cell of the plan that the run folder does not have yet. Returns how many failed.
pub fn run(plan: &Plan, o: &Options) -> Result<usize> {
    doctor::need(plan)?;
    let lab_kernel = match plan.place {
        Place::Lab => Some(lab::Kernel::find(some(&plan.kernel), some(&plan.modules).map(FsPath::new))?),
        _ => None,
    };
    let _lock = open_run(plan, &o.out)?;
    let env = place::env(plan, lab_kernel.as_ref())?;
    write_atomic(&o.out.join("env.json"), &(serde_json::to_string_pretty(&env)? + "\n"))?;
    let todo: Vec<&Cell> = plan.cells.iter().filter(|c| !cell_dir(&o.out, c).exists()).collect();
    if todo.len() < plan.cells.len() {
        eprintln!(
            "going on: {} of {} cells are there already",
            plan.cells.len() - todo.len(),
            plan.cells.len()
        );
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
                    match run_and_keep(plan, cell, lab_kernel.as_ref(), &o.out) {
                        Ok(status) => progress.done(plan, cell, &status),
                        Err(e) => *first_error.lock().unwrap_or_else(|e| e.into_inner()) = Some(e),
                    }
                }
            });
        }
    });
    match first_error.into_inner().unwrap_or_else(|e| e.into_inner()) {
        Some(e) => Err(e),
        None => Ok(progress.failed.load(Ordering::Relaxed)),
    }
}

fn some(s: &str) -> Option<&str> {
    (!s.is_empty()).then_some(s)
}

/// Creates the run folder, or checks that an existing one is of this very plan. The lock lasts as long as the file.
fn open_run(plan: &Plan, out: &FsPath) -> Result<fs::File> {
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

/// Reads `plan.json` of a run folder.
pub fn read_plan(dir: &FsPath) -> Result<Plan> {
    let file = dir.join("plan.json");
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
fn run_and_keep(plan: &Plan, cell: &Cell, lab_kernel: Option<&lab::Kernel>, out: &FsPath) -> Result<String> {
    let dest = cell_dir(out, cell);
    let tmp = out.join("cells").join(format!(".{:03}.tmp", cell.index));
    fs::create_dir_all(&tmp).with_context(|| format!("cannot create `{}`", tmp.display()))?;
    let dir = tmp.clone();
    let guard = interrupt::guard(move || drop(fs::remove_dir_all(&dir)));
    let ran = match (&plan.place, lab_kernel) {
        (Place::Sim, _) => simcell::run_cell(plan, cell, &tmp),
        (Place::Lab, Some(kernel)) => lab::run_cell(kernel, plan, cell, &tmp, lab::Limits::for_cell(plan)),
        (Place::Lab, None) => bail!("the lab has no kernel"),
        (Place::Here, _) => place::run_cell_here(plan, cell, &tmp),
        (Place::Remote(_), _) => place::run_cell_remote(plan, cell, &tmp),
    };
    if let Err(e) = ran {
        ensure!(!is_disk_full(&e), "{e:#}\nhint: free some room and run the same command again");
        let failed = CellResult::new(plan, cell, &format!("failed: {}", crate::sentence(&e)));
        failed.write(&tmp)?;
    }
    let status = CellResult::read(&tmp)?.status;
    fs::rename(&tmp, &dest).with_context(|| format!("cannot keep `{}`", dest.display()))?;
    guard.keep();
    Ok(status)
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
        Self {
            layout: LAYOUT,
            cell: cell.clone(),
            path: PathEntry { files: Vec::new(), ..plan.paths[cell.path].clone() },
            place: plan.place.clone(),
            streams: plan.streams,
            against: plan.against.clone(),
            seconds: plan.seconds,
            warmup_ms: plan.warmup_ms,
            kernel: String::new(),
            status: status.into(),
            sender_cc: cell.cc.clone(),
            rival_cc: plan.against.as_ref().map_or_else(String::new, |rival| rival.cc.clone()),
            base_rtt_us: 0,
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
pub fn write_atomic(file: &FsPath, text: &str) -> Result<()> {
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let tmp = file.with_file_name(format!(".{name}.tmp"));
    let write = || {
        let mut f = fs::File::create(&tmp)?;
        f.write_all(text.as_bytes())?;
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
pub fn dry_run(plan: &Plan, jobs: usize) -> Result<String> {
    use std::fmt::Write as _;
    let mut s = String::from("cell block path cc seed\n");
    let mut bits = 0u64;
    for c in &plan.cells {
        let path = &plan.paths[c.path];
        writeln!(s, "{} {} `{}` {} {}", c.index, c.block + 1, path.name, c.cc, c.seed)?;
        if !matches!(plan.place, Place::Remote(_)) {
            // An unlimited link carries u64::MAX.
            bits =
                bits.saturating_add(path.path()?.capacity_bits(0, u64::from(plan.seconds) * 1_000_000_000));
        }
    }
    // Measured: a lab cell boots in 3 s and runs at about the speed of the clock; the simulator is free.
    let seconds = match plan.place {
        Place::Sim => 0,
        Place::Lab => (u64::from(plan.seconds) + 6) * plan.cells.len() as u64 / jobs as u64,
        Place::Here | Place::Remote(_) => (u64::from(plan.seconds) + 3) * plan.cells.len() as u64,
    };
    write!(s, "{} cells, about {} min, ", plan.cells.len(), seconds.div_ceil(60))?;
    match bits {
        u64::MAX => writeln!(s, "no limit to the traffic over the paths")?,
        bits => writeln!(s, "at most {:.1} GB over the paths", bits as f64 / 8e9)?,
    }
    Ok(s)
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
        eprintln!(
            "{total} cells to run: {} × {} × {} blocks, {} s each, in {}",
            plan.ccs.join(", "),
            plan.paths.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", "),
            plan.blocks,
            plan.seconds,
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
        let left = Duration::from_secs(left.as_secs());
        let path = &plan.paths[cell.path].name;
        eprintln!(
            "[{done}/{}] block {} {path}: {} {status} ({left:?} left)",
            self.total,
            cell.block + 1,
            cell.cc
        );
    }
}
