//! `headway`: load, compare and measure congestion controllers on the kernel you already run.

mod bench;
mod cell;
mod commands;
mod doctor;
mod emu;
mod error;
mod interop;
mod lab;
mod load;
mod metric;
mod observe;
mod plan;
mod raw;
mod report;
mod stats;
mod sys;

use anyhow::{Result, bail};
use cell::remote;
use cell::sim;
use clap::{Args, Parser, Subcommand};
use commands::emu::EmuCommand;
use error::{Usage, sentence, usage};
use headway_cc::sim::Signals;
use headway_kernel as kernel;
use lab::guest;
use plan::matrix::Axes;
use plan::server::{self, RemoteOptions};
use plan::shard;
use plan::tool::Tool;
use plan::traffic::{self, Direction, Pattern, Traffic};
use plan::transport::Transport;
use plan::{Label, PathEntry, Place, Plan, Request};
use raw::folder;
use report::compare;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use sys::interrupt;

/// Congestion control that people can have, tune and trust.
///
/// `headway bench` compares controllers over network paths and says, with intervals, which is better.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Cmd,
}

#[derive(Subcommand)]
enum Cmd {
    /// Compare controllers over paths: run every cell, then print the verdicts and write report.html
    Bench(Box<BenchArgs>),
    /// Make the tables and report.html of a run folder again
    Report {
        /// The run folder
        dir: PathBuf,
        /// Further metrics in the table (comma separated; results.csv has all of them)
        #[arg(long, value_delimiter = ',')]
        metric: Vec<String>,
        /// What to print
        #[arg(long, value_enum, default_value_t)]
        format: report::Format,
    },
    /// Make one run of the shards of a plan (`bench --shard`): the same bytes as the unsharded run
    Merge {
        /// The shards' folders
        #[arg(required = true)]
        shard: Vec<PathBuf>,
        /// The run folder; an existing one of the same plan is continued [default: a new headway-run-N]
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Write the cells of a run that count in the format of another program
    Export(ExportArgs),
    /// Read runs that other programs made: iperf3, flent, ping, pScheduler, folders of ESnet's testing harness
    Import(ImportArgs),
    /// Write the tasks of a plan for another program to run
    Plan {
        #[command(flatten)]
        bench: Box<BenchArgs>,
        /// A pScheduler task (JSON) a cell into this folder; needs `--in remote HOST`
        #[arg(long, value_name = "DIR")]
        pscheduler: PathBuf,
    },
    /// Judge a table of means that somebody else measured: intervals, verdicts, and remarks that do not hold
    Compare(CompareArgs),
    /// One simulated run, as a table or as JSON
    Sim(SimArgs),
    /// Run a command inside an emulated path, as mm-link and mm-delay do
    Emu(EmuArgs),
    /// Load a controller into the running kernel, to stay until it is unloaded or the machine reboots
    Load(LoadArgs),
    /// Take a loaded controller out of the kernel; connections that use it keep it until they close
    Unload {
        /// Names, as `headway list` shows them
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        name: Vec<String>,
        /// Everything that `headway load` has loaded
        #[arg(long)]
        all: bool,
    },
    /// Show controllers, what is loaded in the kernel, path presets and the words of a path text
    List {
        /// Show only what is loaded in the kernel
        #[arg(long, conflicts_with = "params")]
        loaded: bool,
        /// Show the parameters of this controller instead: default, range, and what each is for
        #[arg(long, value_name = "CONTROLLER")]
        params: Option<String>,
    },
    /// What can this machine do (sim, lab, here), what is missing, and the command that mends it
    Doctor,
    /// Run commands in a guest of the lab, to try out what a kernel does
    #[command(hide = true)]
    InLab {
        /// A version prefix (6.1) or a vmlinuz file
        #[arg(long)]
        kernel: Option<String>,
        /// One argument each; words are split at blanks
        commands: Vec<String>,
    },
    /// Hold our controllers in the running kernel equal to Rust while a socket switches between them and pauses
    #[command(hide = true)]
    CheckSwitching,
    /// What `bench --ssh` starts at the far end: answers questions until its standard input ends
    #[command(hide = true)]
    FarEnd {
        /// The folder it was copied to, which it removes
        folder: PathBuf,
    },
    /// Check a per-ACK trace (acks.txt): feed its inputs to the Rust controller and demand equality
    Replay {
        /// acks.txt of a cell that was run with `--trace`
        file: PathBuf,
    },
}

/// The flags that make a plan: of no use with a plan that is made.
const MADE_BY_FLAGS: [&str; 26] = [
    "cc",
    "path",
    "suite",
    "blocks",
    "seconds",
    "warmup",
    "streams",
    "pacing",
    "direction",
    "cpu_load",
    "mtu",
    "against",
    "rate",
    "on_off",
    "messages",
    "seed",
    "place",
    "probe",
    "fq",
    "qdisc",
    "ssh",
    "kernel",
    "modules",
    "trace",
    "tool",
    "transport",
];

#[derive(Args)]
struct BenchArgs {
    /// Controllers, the baseline first. `bbr#2` is `bbr` once more: `--cc bbr,bbr#2` shows what noise looks like
    #[arg(long, value_delimiter = ',', default_value = "bbr,bbr1,cubic")]
    cc: Vec<Label>,
    /// Path presets (comma separated) or a path text; may be given several times [default: clean,drop,lossy]
    #[arg(long)]
    path: Vec<String>,
    /// A list of paths, each with the traffic that belongs on it (`headway list` shows them); paths given beside it get
    /// the traffic that the other arguments ask for
    #[arg(long)]
    suite: Option<String>,
    /// Repetitions; each block runs every controller on every path once, in random order. An interval takes 6,
    /// verdicts over several paths a few more (the report says how many)
    #[arg(long, default_value_t = 8)]
    blocks: u32,
    /// Length of the load in each cell, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Seconds at the start of the load that the summary leaves out [default: max(2, 20 RTT), at most a third]
    #[arg(long)]
    warmup: Option<f64>,
    /// Parallel streams: TCP connections, or streams of one QUIC connection. Several values (1,4,8) here, in --pacing, --direction,
    /// --cpu-load, --mtu, --against and --kernel are a matrix: every path
    /// with each combination
    #[arg(long, value_delimiter = ',', default_value = "1")]
    streams: Vec<u32>,
    /// Let no stream send faster than this, whatever its controller says (0: no limit): 0,12gbit
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "RATE")]
    pacing: Vec<String>,
    /// Remote: who sends, this machine (forward) or the server (reverse). A server sends with what its own kernel has under the
    /// controller's name, and a run counts only where iperf3 says that it did
    #[arg(long, value_enum, value_delimiter = ',', default_value = "forward")]
    direction: Vec<Direction>,
    /// Here and remote: keep every CPU of this machine busy for so many percent of the time, beside what the load needs, as a
    /// condition: 0,100
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "PERCENT")]
    cpu_load: Vec<u32>,
    /// MTU of the path: 1500,9000
    #[arg(long, value_delimiter = ',', default_value = "1500")]
    mtu: Vec<u32>,
    /// Let as many streams of another controller compete on the same path, with a longer round trip if asked for: cubic,
    /// bbr3+80ms (none: nobody). Shows its goodput (the harm done to it, where the baseline is that very controller) and Jain's index
    #[arg(long, value_delimiter = ',', default_value = "none", value_name = "CC[+RTT]")]
    against: Vec<String>,
    /// Let each stream send at this rate only, as an application would: 2mbit
    #[arg(long, conflicts_with = "on_off")]
    rate: Option<String>,
    /// Let each stream send for a time and pause for another, in turns: 1s/500ms
    #[arg(long, value_name = "ON/OFF")]
    on_off: Option<String>,
    /// Send small datagrams beside the streams, as a game server does, and measure their one-way delay: 200@64 is 200 bytes
    /// 64 times a second, 64..1200@64 draws each size
    #[arg(long, value_name = "BYTES@HZ", num_args = 0..=1, default_missing_value = "64..1200@64")]
    messages: Option<String>,
    /// Seed of every random choice; the same plan and seed give the same bytes in sim and lab
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where: sim, lab, here, or `remote HOST[:PORT][,HOST…]`: servers of iperf3 (or --tool), each tried before the run; the one with the
    /// lowest round-trip time among those that answer without a failure is fixed for the whole run
    #[arg(long = "in", num_args = 1..=2, default_value = "lab", value_names = ["PLACE", "HOST"])]
    place: Vec<String>,
    /// Remote: probe the latency under load to this host instead of the server
    #[arg(long, value_name = "HOST", default_value = "")]
    probe: String,
    /// Remote: give the network card that the route leaves through the fq qdisc for the length of the run, and put the old one
    /// back however the run ends. Needs root
    #[arg(long)]
    fq: bool,
    /// For tests: any other qdisc and its options
    #[arg(long, hide = true, default_value = "", conflicts_with = "fq")]
    qdisc: String,
    /// Remote: ask the server's machine over ssh (without a password; your own configuration applies) for its environment and CPU
    /// use, and let it send with our controllers in reverse runs. This program is copied there and removed
    #[arg(long, value_name = "[USER@]HOST", default_value = "")]
    ssh: String,
    /// The run folder; an existing one of the same plan is continued [default: a new headway-run-N]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Lab: a version prefix (6.1), or a vmlinuz file (with --modules)
    #[arg(long, value_delimiter = ',', default_value = "")]
    kernel: Vec<String>,
    /// Lab: the directory with the modules of a --kernel file
    #[arg(long, default_value = "")]
    modules: String,
    /// What carries the data: tcp, or a QUIC stack, noq or quinn, whose streams share one connection (not in remote). The stacks' own
    /// controllers (noq-bbr3, quinn-bbr ...) run in their stack either way
    #[arg(long, default_value_t = Transport::Tcp)]
    transport: Transport,
    /// Here and remote: what makes the load. iperf 2 tells less: no CPU use, and in remote only the sender's bytes
    #[arg(long, value_enum, default_value_t)]
    tool: Tool,
    /// Keep the per-ACK trace of our own controllers (acks.txt)
    #[arg(long)]
    trace: bool,
    /// Cells side by side in sim and lab [default: one a core]
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Run only every N-th cell, the I-th first, and make no report: one shard of the plan, for `headway merge`
    #[arg(long, value_name = "I/N")]
    shard: Option<String>,
    /// Further metrics in the table (comma separated; results.csv has all of them)
    #[arg(long, value_delimiter = ',')]
    metric: Vec<String>,
    /// What to print at the end
    #[arg(long, value_enum, default_value_t)]
    format: report::Format,
    /// Run the plan of this run folder or plan.json again, as it is: same cells, order and seeds
    #[arg(long, value_name = "PLAN", conflicts_with_all = MADE_BY_FLAGS)]
    plan: Option<PathBuf>,
    /// Go on with this run, whose plan it knows: what the same command with its --out does
    #[arg(long, value_name = "RUN", conflicts_with_all = MADE_BY_FLAGS, conflicts_with_all = ["plan", "out"])]
    resume: Option<PathBuf>,
    /// Only show the cells, the time and the bytes this would take
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  headway load bbr1
  headway load bbr1 --as gentle --set probe_rtt_mode_us=0s,cwnd_gain=1.5
  sysctl -w net.ipv4.tcp_congestion_control=bbr1    every new connection of this network namespace
  ip route change default via 192.0.2.1 congctl bbr1    new connections over one route
  iperf3 -C bbr1 -c HOST    one connection: setsockopt(TCP_CONGESTION), as any user")]
struct LoadArgs {
    /// One of our controllers
    #[arg(value_name = "CONTROLLER")]
    cc: String,
    /// The name that sockets choose: at most 15 letters, digits or `_` [default: the controller's own]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Parameters that are not to have their defaults (comma separated, or several times); gains are decimals, times
    /// and rates have units. `headway list --params CONTROLLER` shows all
    #[arg(long = "set", value_name = "PARAM=VALUE", value_delimiter = ',')]
    settings: Vec<String>,
}

#[derive(Args)]
#[group(required = true, multiple = true)]
struct ExportFormats {
    /// A `.flent.gz` a cell into this folder, which flent opens and plots
    #[arg(long, value_name = "DIR")]
    flent: Option<PathBuf>,
}

#[derive(Args)]
struct ExportArgs {
    /// The run folder
    dir: PathBuf,
    #[command(flatten)]
    formats: ExportFormats,
}

#[derive(Args)]
struct ImportArgs {
    /// Files and folders
    #[arg(required = true)]
    path: Vec<PathBuf>,
    /// The controller of runs whose file names none
    #[arg(long, default_value = "")]
    cc: String,
    /// Print means, standard deviations and counts, which `compare --summary` judges, instead of a row a run
    #[arg(long)]
    summary: bool,
}

#[derive(Args)]
struct CompareArgs {
    /// A CSV file: columns that name the case, `cc` among them, then `…_mean`, `…_stddev` and `n`; a column `remark` is
    /// held against the numbers
    #[arg(long, value_name = "FILE")]
    summary: PathBuf,
    /// The controller to hold the others against [default: the first in the file]
    #[arg(long, value_name = "CC")]
    baseline: Option<String>,
    /// Lower is better: delays, losses, times
    #[arg(long)]
    lower: bool,
    /// The smallest difference that matters, in percent of the baseline
    #[arg(long, default_value_t = 2.0)]
    margin: f64,
    /// Write a page as well
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

#[derive(Args)]
struct SimArgs {
    /// Controllers; one flow each
    #[arg(long, value_delimiter = ',', default_value = "bbr1")]
    cc: Vec<String>,
    /// A preset or a path text
    #[arg(long, default_value = "clean")]
    path: String,
    /// Flows of each controller
    #[arg(long, default_value_t = 1)]
    flows: u32,
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What controllers are told of a packet's own transmission: all of it, or what a stock kernel's glue can
    /// reconstruct
    #[arg(long, value_parser = ["exact", "kernel"], default_value = "exact")]
    signals: String,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Write a capture, as tcpdump would make it at the sender
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write mahimahi's log (mm-link --downlink-log) of the link that carries the data
    #[arg(long, value_name = "FILE")]
    mahimahi: Option<PathBuf>,
}

#[derive(Args)]
struct EmuArgs {
    /// A preset or a path text, such as '100mbit 40ms queue=1bdp'
    path: String,
    /// Run this shell command at the far end, in a namespace of its own (otherwise the far end is this host)
    #[arg(long)]
    far: Option<OsString>,
    /// Write the bottleneck's log (link.txt) here at the end
    #[arg(long)]
    log: Option<PathBuf>,
    #[arg(long, default_value_t = 1500)]
    mtu: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The command to run inside the path [default: $SHELL]
    #[arg(last = true)]
    command: Vec<OsString>,
}

fn main() -> ExitCode {
    if guest::is_guest() {
        guest::main();
    }
    let cli = Cli::parse();
    match interrupt::catch().and_then(|()| run(cli)) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("error: {}", sentence(&e));
            ExitCode::from(if e.is::<Usage>() { 2 } else { 1 })
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Cmd::Bench(a) => bench(*a),
        Cmd::Report { dir, metric, format } => {
            usage(report::known(&metric))?;
            show(&dir, report::Options { metrics: metric, format })?;
            Ok(ExitCode::SUCCESS)
        }
        Cmd::Merge { shard: shards, out } => {
            let out = out.map_or_else(folder::new_run_dir, Ok)?;
            bench::merge::merge(&out, &shards)?;
            show(&out, report::Options::default())?;
            Ok(ExitCode::SUCCESS)
        }
        Cmd::Export(a) => export(a),
        Cmd::Import(a) => import(a),
        Cmd::Plan { bench: a, pscheduler } => {
            let plan = usage(request(&a).and_then(|r| checked(&r)))?;
            for file in usage(interop::pscheduler::write_tasks(&plan, &pscheduler))? {
                println!("{}", file.display());
            }
            Ok(ExitCode::SUCCESS)
        }
        Cmd::Compare(a) => compare(a),
        Cmd::Sim(a) => {
            let path = usage(PathEntry::resolve(&a.path))?;
            let what = sim::Show {
                path,
                ccs: a.cc,
                flows: a.flows,
                seconds: a.seconds,
                seed: a.seed,
                signals: if a.signals == "kernel" { Signals::Kernel } else { Signals::Exact },
                json: a.json,
                pcap: a.pcap,
                mahimahi: a.mahimahi,
            };
            print!("{}", usage(sim::show(&what))?);
            Ok(ExitCode::SUCCESS)
        }
        Cmd::Emu(a) => {
            let path = usage(PathEntry::resolve(&a.path))?.path()?;
            let what = EmuCommand { path, mtu: a.mtu, seed: a.seed, near: a.command, far: a.far, log: a.log };
            Ok(ExitCode::from(commands::emu::run_command(&what)? as u8))
        }
        Cmd::Load(a) => {
            let order = usage(kernel::loaded::Order::new(&a.cc, a.name.as_deref(), &a.settings))?;
            let loaded = order.load()?;
            println!("`{}` is loaded: {}", loaded.name, loaded.what());
            Ok(ExitCode::SUCCESS)
        }
        Cmd::Unload { name, all } => unload(name, all),
        Cmd::List { params: Some(cc), .. } => {
            print!("{}", usage(kernel::loaded::params_text(&cc))?);
            Ok(ExitCode::SUCCESS)
        }
        Cmd::List { loaded, .. } => {
            print!("{}", if loaded { doctor::loaded() } else { doctor::list() });
            Ok(ExitCode::SUCCESS)
        }
        Cmd::Doctor => {
            let (text, ok) = doctor::doctor();
            print!("{text}");
            Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Cmd::InLab { kernel, commands } => {
            let kernel = lab::Kernel::find(kernel.as_deref(), None, &["iperf3"])?;
            print!("{}", lab::run_commands(&kernel, commands)?);
            Ok(ExitCode::SUCCESS)
        }
        Cmd::CheckSwitching => {
            print!("{}", commands::check_switching::check()?);
            Ok(ExitCode::SUCCESS)
        }
        Cmd::FarEnd { folder } => {
            remote::far::serve(&folder)?;
            Ok(ExitCode::SUCCESS)
        }
        Cmd::Replay { file } => {
            println!("{}", kernel::replay::replay_file(&file)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Unloads what can be unloaded; the last refusal is the error.
fn unload(names: Vec<String>, all: bool) -> Result<ExitCode> {
    let names = match all {
        true => kernel::loaded::all()?.into_iter().map(|l| l.name).collect(),
        false => names,
    };
    let mut refused = None;
    for name in names {
        match kernel::loaded::unload(&name) {
            Ok(0) => println!("`{name}` is unloaded"),
            Ok(users) => println!("`{name}` is unloaded; {users} sockets keep it until they close"),
            Err(e) => {
                if let Some(earlier) = refused.replace(e) {
                    eprintln!("error: {}", sentence(&earlier));
                }
            }
        }
    }
    refused.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Prints the comparison; the page is beside the raw files.
fn show(dir: &std::path::Path, options: report::Options) -> Result<()> {
    let summary = report::report(dir, &options)?;
    print!("{}", summary.table);
    println!("\n{}", summary.page.display());
    Ok(())
}

fn export(a: ExportArgs) -> Result<ExitCode> {
    let mut files = Vec::new();
    if let Some(to) = a.formats.flent {
        files.extend(interop::export(&a.dir, &to, |plan, data| {
            Ok((interop::flent::END, interop::flent::file(plan, data)?))
        })?);
    }
    for file in files {
        println!("{}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The rows on stdout; what does not count on stderr as well. Exit code 1 when nothing counts.
fn import(a: ImportArgs) -> Result<ExitCode> {
    let imported = interop::import::read(&a.path, &a.cc)?;
    for (file, reason) in imported.iter().filter_map(|i| Some((&i.file, i.run.as_ref().err()?))) {
        eprintln!("excluded: {}: {reason}", file.display());
    }
    let to_csv = if a.summary { interop::import::summary_csv } else { interop::import::runs_csv };
    print!("{}", to_csv(&imported));
    Ok(if imported.iter().any(|i| i.run.is_ok()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A shard of a plan whose cells do not depend on where and when they run.
fn shard_of(text: &str, place: &Place) -> Result<shard::Shard> {
    match place {
        Place::Sim | Place::Lab => text.parse(),
        _ => bail!("--shard needs --in sim or lab: elsewhere a block must run on one machine, in order"),
    }
}

fn compare(a: CompareArgs) -> Result<ExitCode> {
    if !(a.margin.is_finite() && a.margin >= 0.0) {
        return usage(Err(anyhow::anyhow!("--margin must be a percentage, 0 or more; got {}", a.margin)));
    }
    let better = if a.lower { metric::Better::Lower } else { metric::Better::Higher };
    let request = compare::Request { baseline: a.baseline, better, margin: a.margin / 100.0 };
    let comparison = compare::summary(&a.summary, &request)?;
    print!("{}", comparison.text());
    if let Some(page) = a.page {
        folder::write_atomic(&page, &comparison.page())?;
        println!("\n{}", page.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn bench(a: BenchArgs) -> Result<ExitCode> {
    let plan = match a.plan.as_ref().or(a.resume.as_ref()) {
        Some(made) => {
            let plan = Plan::read(made)?;
            usage(plan.check(&bench::need::known()))?;
            plan
        }
        None => usage(request(&a).and_then(|r| checked(&r)))?,
    };
    usage(report::known(&a.metric))?;
    let shard = usage(a.shard.as_deref().map(|s| shard_of(s, &plan.place)).transpose())?;
    let jobs = a.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, usize::from);
    if a.dry_run {
        print!("{}", plan.dry_run(shard, jobs)?);
        return Ok(ExitCode::SUCCESS);
    }
    let out = a.resume.or(a.out).map_or_else(folder::new_run_dir, Ok)?;
    let failed = bench::run(&plan, &bench::Options { out: out.clone(), shard, jobs })?;
    match shard {
        None => show(&out, report::Options { metrics: a.metric, format: a.format })?,
        Some(shard) => {
            println!("{}: shard {shard}; `headway merge` makes a run of all {}", out.display(), shard.of)
        }
    }
    if failed > 0 {
        bail!("{failed} of {} cells failed; the report lists them with the reason", plan.cells.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// The plan of a request, once this machine is known to have its controllers.
fn checked(request: &Request) -> Result<Plan> {
    let plan = request.plan()?;
    plan.check(&bench::need::known())?;
    Ok(plan)
}

fn request(a: &BenchArgs) -> Result<Request> {
    let place = match a.place.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["sim"] => Place::Sim,
        ["lab"] => Place::Lab,
        ["here"] => Place::Here,
        ["remote", host] => Place::Remote(host.into()),
        _ => bail!("--in takes sim, lab, here, or remote HOST[:PORT]; got `{}`", a.place.join(" ")),
    };
    // A list of preset names is split at commas; a path text (it has blanks) is one path.
    let split = |p: &String| match p.contains(' ') {
        true => vec![p.clone()],
        false => p.split(',').map(String::from).collect(),
    };
    let mut paths: Vec<String> = a.path.iter().flat_map(split).collect();
    if paths.is_empty() && a.suite.is_none() {
        paths = ["clean", "drop", "lossy"].map(String::from).to_vec();
    }
    let (axes, traffic) = (axes(a)?, traffic(a)?);
    let is_usual =
        axes.first(traffic.clone()) == Traffic { warmup_ms: 0, ..Traffic::bulk(10) } && a.warmup.is_none();
    let is_usual = is_usual && axes.is_only_kernels();
    anyhow::ensure!(
        is_usual || a.suite.is_none() || !a.path.is_empty(),
        "a suite brings its own traffic: --seconds, --streams, --pacing, --direction, --cpu-load, --mtu, --rate, --on-off, --messages, --against and --warmup are \
         for paths beside it\nhint: leave them out, or add --path"
    );
    if let Some(w) = a.warmup {
        anyhow::ensure!(w.is_finite() && w >= 0.0, "--warmup must be a number of seconds, 0 or more");
    }
    Ok(Request {
        place,
        ccs: a.cc.clone(),
        paths,
        suite: a.suite.clone(),
        blocks: a.blocks,
        traffic,
        axes,
        transport: a.transport,
        tool: a.tool,
        has_warmup: a.warmup.is_some(),
        seed: a.seed,
        trace: a.trace,
        modules: a.modules.clone(),
        remote: RemoteOptions {
            server: String::new(),
            probe: a.probe.clone(),
            qdisc: if a.fq { server::FQ.into() } else { a.qdisc.clone() },
            ssh: a.ssh.clone(),
        },
    })
}

/// What several values make a matrix of.
fn axes(a: &BenchArgs) -> Result<Axes> {
    let axes = Axes {
        streams: a.streams.clone(),
        pacing_bps: a.pacing.iter().map(|text| traffic::pacing(text)).collect::<Result<_>>()?,
        direction: a.direction.clone(),
        cpu_load_percent: a.cpu_load.clone(),
        mtu: a.mtu.clone(),
        against: a.against.iter().map(|text| traffic::rival(text)).collect::<Result<_>>()?,
        kernels: a.kernel.clone(),
    };
    axes.check()?;
    Ok(axes)
}

/// What the flows do on every path that no suite brings, but for what the axes say.
fn traffic(a: &BenchArgs) -> Result<Traffic> {
    let pattern = match (&a.rate, &a.on_off) {
        (Some(rate), _) => Pattern::limited(rate)?,
        (None, Some(times)) => Pattern::on_off(times)?,
        (None, None) => Pattern::Bulk,
    };
    let messages = a
        .messages
        .as_deref()
        .map(|text| text.parse().map_err(|e| anyhow::anyhow!("{e}, in `--messages {text}`")));
    Ok(Traffic {
        pattern,
        messages: messages.transpose()?,
        warmup_ms: a.warmup.map_or(0, |w| (w * 1000.0).round() as u64),
        ..Traffic::bulk(a.seconds)
    })
}
