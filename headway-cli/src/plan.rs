//! The plan of a `headway bench`: which controllers over which paths with what traffic, checked before anything runs.

pub mod matrix;
pub mod shard;
pub mod suite;
pub mod traffic;
pub mod transport;

use crate::cell::remote::Setup;
use crate::kernel;
use crate::lab;
use crate::load::iperf::Tool;
use crate::plan::matrix::Axes;
use crate::plan::shard::Shard;

use crate::plan::traffic::Traffic;
use crate::plan::transport::Transport;
use anyhow::{Context, Result, bail, ensure};
use headway_cc::path;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path as FsPath;

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

    /// Reads `plan.json` of a run folder, or that file by its name.
    pub fn read(dir: &FsPath) -> Result<Self> {
        let file = if dir.is_file() { dir.to_path_buf() } else { dir.join("plan.json") };
        let shown = dir.display();
        let text = fs::read_to_string(&file).with_context(|| {
            format!("`{shown}` is not a run: cannot read its plan.json\nhint: name the folder that `headway bench --out` made")
        })?;
        let broken = || {
            format!(
                "plan.json in `{shown}` is broken\nhint: the run cannot be read without it; repeat the bench"
            )
        };
        let value: serde_json::Value = serde_json::from_str(&text).with_context(broken)?;
        match value["layout"].as_u64() {
            Some(layout) if layout == u64::from(LAYOUT) => {}
            Some(layout) => bail!(
                "`{shown}` has raw folder layout {layout}, this program reads layout {LAYOUT}\n\
                 hint: use the version of headway that made it"
            ),
            None => {
                bail!(
                    "plan.json in `{shown}` names no layout\nhint: is this a folder that `headway bench` made?"
                )
            }
        }
        let plan: Self = serde_json::from_value(value).with_context(broken)?;
        let known = |c: &Cell| c.path < plan.paths.len() && plan.ccs.contains(&c.cc);
        if plan.ccs.is_empty() || plan.cells.is_empty() || !plan.cells.iter().all(known) {
            bail!("{}", broken());
        }
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

    /// What the plan would take: cells in their order, wall time and traffic.
    pub fn dry_run(&self, shard: Option<Shard>, jobs: usize) -> Result<String> {
        use std::fmt::Write as _;
        let mut s = String::from("cell block path cc seed\n");
        for c in self.cells_of(shard) {
            writeln!(s, "{} {} `{}` {} {}", c.index, c.block + 1, self.paths[c.path].name, c.cc, c.seed)?;
        }
        if !self.suite.is_empty() {
            let left_out = suite::find(&self.suite)?.left_out(&self.place);
            let (suite, count) = (&self.suite, self.paths.len());
            writeln!(s, "suite {suite}: {count} paths; {} left out in {}", left_out.len(), self.place)?;
            left_out.iter().try_for_each(|line| writeln!(s, "left out: {line}"))?;
        }
        let (seconds, bits) = self.cost(shard, jobs)?;
        write!(s, "{} cells, about {} min, ", self.cells_of(shard).count(), seconds.div_ceil(60))?;
        match bits {
            u64::MAX => writeln!(s, "no limit to the traffic over the paths")?,
            bits => writeln!(s, "at most {:.1} GB over the paths", bits as f64 / 8e9)?,
        }
        Ok(s)
    }

    /// Seconds of wall time, and bits over the paths (`u64::MAX`: without a limit).
    fn cost(&self, shard: Option<Shard>, jobs: usize) -> Result<(u64, u64)> {
        let load_s = |path: usize| u64::from(self.traffic(path).seconds);
        let capacity = |(index, path): (usize, &PathEntry)| match self.place {
            Place::Remote(_) => Ok(0),
            // An unlimited link carries u64::MAX.
            _ => Ok(path.path()?.capacity_bits(0, load_s(index) * 1_000_000_000)),
        };
        let capacities = self.paths.iter().enumerate().map(capacity).collect::<Result<Vec<_>>>()?;
        let (mut seconds, mut bits) = (0u64, 0u64);
        for cell in self.cells_of(shard) {
            bits = bits.saturating_add(capacities[cell.path]);
            // Measured: a lab cell boots in 3 s and runs at about the speed of the clock, or a QUIC stack at 25 Mbit/s.
            let stack_s = if self.transport.is_tcp() { 0 } else { capacities[cell.path] / 25_000_000 };
            seconds += match self.place {
                Place::Sim => 0,
                Place::Lab => load_s(cell.path).max(stack_s) + 6,
                Place::Here | Place::Remote(_) => load_s(cell.path) + 3,
            };
        }
        match self.place {
            // Measured: 30 Gbit of packets a second, and 1.5 of a QUIC stack's, which encrypts them.
            Place::Sim if self.transport.is_tcp() => seconds = bits / 30_000_000_000 / jobs as u64,
            Place::Sim => seconds = bits / 1_500_000_000 / jobs as u64,
            Place::Lab => seconds /= jobs as u64,
            Place::Here | Place::Remote(_) => {}
        }
        Ok((seconds, bits))
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
