//! `headway trial`: which of two controllers is better for the connections of this machine.

use crate::error::usage;
use crate::operate::scope::{self, Ports, Prefix, cgroup_mount};
use crate::operate::unit;
use crate::plan::{PathEntry, time};
use crate::sys::{interrupt, out};
use crate::trial::folder::{self, Ended, Folder, Trial};
use crate::trial::live::{self, Stop};
use crate::trial::schedule::By;
use crate::trial::setup::{LEAST_SLOTS, Scope, Setup, VERSION};
use crate::trial::world::{self, World};
use crate::trial::{self, foretell};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TrialArgs {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    begin: BeginArgs,
}

#[derive(Subcommand)]
enum Other {
    /// Find out what a trial could show here
    ///
    /// One controller against itself: the differences between its slots are chance, and say how small an effect can be
    /// seen in how many hours. Proposes the length of a slot and of its burn-in. Changes nothing for the connections if
    /// the controller is the one that they have already.
    Plan(Box<PlanArgs>),
    /// Say how a trial goes, or how it ended
    ///
    /// With intervals that hold however often one looks. Changes nothing.
    Status(StatusArgs),
}

#[derive(Args)]
struct BeginArgs {
    /// The one in use and the one to try: cubic,bbr3
    ///
    /// Ours, as `headway list` shows them, are put into the kernel for the trial if they are not loaded. Settings may
    /// follow a name: bbr3:default_cwnd_gain=2.5. The same twice is a rehearsal.
    #[arg(long, value_name = "CC,CC", value_delimiter = ',', required_unless_present = "resume")]
    cc: Vec<String>,
    /// How long it takes altogether: 24h
    #[arg(long = "for", value_name = "TIME", value_parser = time::ms, required_unless_present = "resume")]
    length: Option<u64>,
    /// What gets one controller at a time
    ///
    /// slot: all connections for a slot of time. This alone says what moving all traffic does, because connections
    /// that share a bottleneck then have the same controller. prefix: a client network, /24 or /48, for a slot. Says
    /// the same where the bottlenecks are the clients' own. connection: each connection. Shows harm, and no size.
    #[arg(long, value_enum, value_name = "UNIT", hide_possible_values = true, default_value = "slot")]
    by: By,
    /// Share that tries it first [default: 5%]
    ///
    /// In the first slot only this share of the connections gets the candidate. If that does harm, the trial ends
    /// before all connections have it. 0 is no such slot.
    #[arg(long, value_name = "SHARE", value_parser = time::percent, default_value = "5", hide_default_value = true)]
    canary: f64,
    /// Harm at which it ends [default: 20%]
    ///
    /// The trial ends when it is sure that the candidate's goodput is less by more than this, that its share of failed connections or
    /// of bytes sent again is larger by a quarter of it (with 20%, by 5 percentage points), or that a connection has more timeouts in
    /// the mean by this number (0.2).
    #[arg(long, value_name = "SHARE", value_parser = time::percent, default_value = "20", hide_default_value = true)]
    max_harm: f64,
    /// The folder of `headway trial plan` to plan with
    ///
    /// Without it the newest headway-plan-N here of the same connections. It gives the noise, and slot and burn-in where
    /// they are not given.
    #[arg(long, value_name = "DIR")]
    plan: Option<PathBuf>,
    /// Go on with the trial in this folder
    ///
    /// One that was interrupted, killed, or ended by a full disk. It keeps its schedule, and the slot in which it was
    /// ended begins anew.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cc", "length", "plan", "port", "prefix", "cgroup", "unit", "mptcp", "slot", "burn_in", "seed", "out", "show_prefixes"])]
    resume: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct PlanArgs {
    /// The controller in use
    #[arg(long, value_name = "CC")]
    cc: String,
    /// How long it takes
    #[arg(long = "for", value_name = "TIME", value_parser = time::ms, default_value = "1h")]
    length: u64,
    #[command(flatten)]
    common: Common,
}

/// What a trial and its planning are asked for alike.
#[derive(Args)]
struct Common {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    world: WorldArgs,
}

#[derive(Args)]
struct StatusArgs {
    /// Its folder [default: the newest headway-trial-N here]
    dir: Option<PathBuf>,
}

const WHICH: &str = "Which connections";

/// Which connections take part.
#[derive(Args)]
#[command(next_help_heading = WHICH)]
struct Which {
    /// Those from or to these ports
    ///
    /// A number or a range (8000-8010), several with commas. Without it all connections.
    #[arg(long, value_name = "N[-M]", value_delimiter = ',')]
    port: Vec<String>,
    /// Those that came in or went out
    ///
    /// in: clients connect to this machine. out: this machine connects. both: all.
    #[arg(long, value_enum, value_name = "WAY", hide_possible_values = true, default_value = "both")]
    direction: Way,
    /// Those with hosts of these networks
    ///
    /// As 192.0.2.0/24 or 2001:db8::/32, several with commas.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    prefix: Vec<String>,
    /// Those of the processes in a cgroup
    ///
    /// A path below /sys/fs/cgroup. Without it those of all processes.
    #[arg(long, value_name = "PATH", conflicts_with = "unit")]
    cgroup: Option<String>,
    /// Those of a systemd unit, which must run
    ///
    /// If it stops or starts anew, the trial ends, because its cgroup does. A socket that systemd opens for a service
    /// (socket activation) is systemd's: use --port there.
    #[arg(long, value_name = "NAME.service")]
    unit: Option<String>,
    /// MPTCP's, too
    ///
    /// They are left out otherwise, because the kernel may undo the choice of a subflow.
    #[arg(long)]
    mptcp: bool,
}

/// How it is run, whatever it is.
#[derive(Args)]
#[command(next_help_heading = "Run and results")]
struct How {
    /// Length of a slot [default: 10m, or less]
    ///
    /// At least ten times as long as all but the longest connections. The default is a 40th of --for, and at most 10m.
    #[arg(long, value_name = "TIME", value_parser = time::ms)]
    slot: Option<u64>,
    /// First part of a slot, left out [default: a 10th]
    ///
    /// What begins in it meets connections of the slot before. As long as all but the longest connections.
    #[arg(long, value_name = "TIME", value_parser = time::ms)]
    burn_in: Option<u64>,
    /// Decides the order of the slots [default: by chance]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Its folder [default: a new headway-trial-N]
    ///
    /// `headway trial plan` makes a headway-plan-N.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep client networks readable
    ///
    /// Otherwise the folder has no addresses: each network (/24, /48) is a number, made with a key that stays on this machine.
    #[arg(long)]
    show_prefixes: bool,
    /// here, or sim
    ///
    /// sim is traffic in the simulator of which the truth is known, to see what a trial says of it.
    #[arg(
        long = "in",
        value_enum,
        value_name = "PLACE",
        hide_possible_values = true,
        default_value = "here"
    )]
    place: Where,
    /// Say nothing about the progress
    #[arg(long, short)]
    quiet: bool,
}

/// The simulated service.
#[derive(Args)]
#[command(next_help_heading = "With --in sim")]
struct WorldArgs {
    /// The bottleneck
    ///
    /// A preset or a path text. The default is 20mbit 40ms queue=4bdp.
    #[arg(long, value_name = "PATH", default_value = "20mbit 40ms queue=4bdp", hide_default_value = true)]
    path: String,
    /// Client networks
    #[arg(long, value_name = "N", default_value_t = 8)]
    networks: u32,
    /// Each network has a bottleneck of its own
    #[arg(long)]
    apart: bool,
}

impl WorldArgs {
    fn world(&self) -> Result<World> {
        Ok(World {
            path: PathEntry::resolve(&self.path)?.path()?.to_string(),
            networks: self.networks,
            is_shared: !self.apart,
            bytes: 300_000,
            think_ms: 2000,
            swing: 0.3,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Where {
    Here,
    Sim,
}

#[derive(Clone, Copy, ValueEnum)]
enum Way {
    In,
    Out,
    Both,
}

pub fn run(args: TrialArgs) -> Result<ExitCode> {
    match args.other {
        Some(Other::Plan(args)) => rehearse(&args),
        Some(Other::Status(args)) => status(&args),
        None => match &args.begin.resume {
            Some(dir) => resume(dir, args.begin.common.how.quiet),
            None => begin(&args.begin),
        },
    }
}

impl TrialArgs {
    /// What the flags ask for, once it is known that there can be such a trial.
    pub fn check(&self) -> Result<()> {
        match &self.other {
            Some(Other::Plan(args)) => usage(args.setup().map(drop)),
            Some(Other::Status(_)) => Ok(()),
            None if self.begin.resume.is_some() => Ok(()),
            None => usage(self.begin.setup(None).map(drop)),
        }
    }
}

fn begin(args: &BeginArgs) -> Result<ExitCode> {
    let known = args.known()?;
    let mut setup = usage(args.setup(known.as_ref()))?;
    let dir = args.common.find(&mut setup, TRIAL)?;
    say_before(&setup, &dir, known.as_ref())?;
    args.common.conduct(&dir, setup)
}

/// What it is, where it is kept, and what it can show: said before anything is touched.
fn say_before(setup: &Setup, dir: &Path, known: Option<&foretell::Plan>) -> Result<()> {
    let [first, second] = &setup.arms;
    out::say(format_args!("{first} against {second}, {}, in {}", setup.scope.in_words(), dir.display()))?;
    out::say(foretell::before(setup, known))
}

fn rehearse(args: &PlanArgs) -> Result<ExitCode> {
    let mut setup = usage(args.setup())?;
    let dir = args.common.find(&mut setup, PLAN)?;
    out::say(format_args!("{} against itself, {}, in {}", args.cc, setup.scope.in_words(), dir.display()))?;
    let code = args.common.conduct(&dir, setup)?;
    let trial = folder::read(&dir)?;
    let plan = foretell::plan(&trial).context("no connection has ended, so nothing can be foretold")?;
    out::print(foretell::text(&plan, By::Slot))?;
    Ok(code)
}

fn resume(dir: &Path, is_quiet: bool) -> Result<ExitCode> {
    ensure!(folder::is_trial(dir), "`{}` holds no trial", dir.display());
    let (folder, past) = Folder::resume(dir)?;
    ensure!(!past.setup.is_simulated(), "the trial in `{}` is simulated: begin it again", dir.display());
    let cgroup = ready(&past.setup)?;
    let order = live::Order { dir: dir.into(), cgroup, shows_networks: false, is_quiet };
    conduct_live(&order, &past.setup.clone(), folder, Some(&past))
}

fn conduct_live(
    order: &live::Order,
    setup: &Setup,
    folder: Folder,
    past: Option<&Trial>,
) -> Result<ExitCode> {
    let stop = Stop::on_interrupt(&order.dir);
    let ended = live::run(order, setup, folder, past, &stop)?;
    let told = tell(&order.dir, &ended);
    drop(stop);
    if matches!(ended, Ended::Interrupted { .. }) {
        interrupt::wait_if_ending();
    }
    told
}

/// Makes the report and says where it is. A trial that something else than its schedule has ended has an exit code of its own.
fn tell(dir: &Path, ended: &Ended) -> Result<ExitCode> {
    out::print(trial::report(dir, out::width())?)?;
    match ended {
        Ended::Stopped { because, .. } => {
            out::note(format_args!("the trial ended before its time: {because}"));
            Ok(ExitCode::from(ENDED_EARLY))
        }
        Ended::Done { .. } | Ended::Interrupted { .. } => Ok(ExitCode::SUCCESS),
    }
}

/// The exit code of a trial that a guard has ended.
const ENDED_EARLY: u8 = 3;

fn status(args: &StatusArgs) -> Result<ExitCode> {
    let dir = args.dir.clone().map_or_else(|| newest(TRIAL), Ok)?;
    out::print(trial::status(&dir, out::width())?)?;
    Ok(ExitCode::SUCCESS)
}

/// What the folders of trials, and of A/A phases, are called.
const TRIAL: &str = "headway-trial";
const PLAN: &str = "headway-plan";

/// The folder with the largest number here.
fn newest(stem: &str) -> Result<PathBuf> {
    let last =
        (1..MOST_FOLDERS).map(|n| PathBuf::from(format!("{stem}-{n}"))).take_while(|p| p.exists()).last();
    last.with_context(|| format!("there is no {stem}-1 here\nhint: name the folder of the trial"))
}

fn folder_of(how: &How, stem: &str) -> Result<PathBuf> {
    let mut numbered = (1..MOST_FOLDERS).map(|n| PathBuf::from(format!("{stem}-{n}")));
    let free = || {
        numbered.find(|p| !p.exists()).with_context(|| format!("there are {MOST_FOLDERS} of {stem}-N here"))
    };
    how.out.clone().map_or_else(free, Ok)
}

const MOST_FOLDERS: u32 = 100_000;

/// What a trial needs of this machine. Answers the folder of its cgroup.
fn ready(setup: &Setup) -> Result<PathBuf> {
    if let Some(c) = headway_kernel::needs().into_iter().find(|c| c.required && !c.ok) {
        bail!("cannot run a trial here: this machine lacks {}\nhint: {}", c.what, c.hint);
    }
    setup.arms.iter().try_for_each(|arm| live::check_arm(arm))?;
    let mount = cgroup_mount().context(
        "no cgroups of version 2 are mounted here, by which a trial finds connections\n\
         hint: `mount -t cgroup2 none /sys/fs/cgroup`, or boot with systemd.unified_cgroup_hierarchy=1",
    )?;
    let folder = mount.join(&setup.scope.cgroup);
    ensure!(folder.is_dir(), "there is no cgroup {}\nhint: `systemd-cgls` shows them", folder.display());
    Ok(folder)
}

impl BeginArgs {
    /// What an A/A phase of the same connections has shown, if there is one.
    fn known(&self) -> Result<Option<foretell::Plan>> {
        let newest = || newest(PLAN).ok();
        let Some(dir) = self.plan.clone().or_else(newest) else { return Ok(None) };
        let phase = folder::read(&dir)?;
        let is_same = phase.setup.scope == usage(self.common.which.found())?;
        ensure!(
            is_same || self.plan.is_none(),
            "`{}` is of other connections: {}\nhint: `headway trial plan` with the flags of this trial",
            dir.display(),
            phase.setup.scope.in_words()
        );
        let plan = foretell::plan(&phase).filter(|_| is_same);
        if plan.is_some() {
            out::note(format_args!("planned with {}", dir.display()));
        }
        Ok(plan)
    }

    fn setup(&self, known: Option<&foretell::Plan>) -> Result<Setup> {
        let arms: [String; 2] = self.cc.clone().try_into().map_err(|cc: Vec<String>| {
            anyhow!("a trial compares two controllers, and --cc names {}\nhint: --cc cubic,bbr3", cc.len())
        })?;
        let length_ms = self.length.context("--for says how long the trial takes: --for 24h")?;
        let setup = Setup {
            by: self.by,
            canary: self.canary / 100.0,
            max_harm: self.max_harm / 100.0,
            ..self.common.setup(arms, length_ms, known)?
        };
        setup.check()?;
        Ok(setup)
    }
}

impl PlanArgs {
    fn setup(&self) -> Result<Setup> {
        let arms = [self.cc.clone(), self.cc.clone()];
        let setup = self.common.setup(arms, self.length, None)?;
        setup.check()?;
        Ok(setup)
    }
}

impl Common {
    fn is_simulated(&self) -> bool {
        self.how.place == Where::Sim
    }

    /// Finds out whether the place has both controllers, which connections they are, and the folder.
    fn find(&self, setup: &mut Setup, stem: &str) -> Result<PathBuf> {
        let check = if self.is_simulated() { live::check_simulated } else { live::check_arm };
        usage(setup.arms.iter().try_for_each(|arm| check(arm)))?;
        setup.scope = usage(self.which.found())?;
        folder_of(&self.how, stem)
    }

    /// Runs a trial from its beginning, where it was asked for.
    fn conduct(&self, dir: &Path, setup: Setup) -> Result<ExitCode> {
        if self.is_simulated() {
            let world = usage(self.world.world())?;
            usage(world.check(&setup))?;
            world::run(&setup, &world, dir)?;
            return tell(dir, &Ended::Done { at_ms: 0 });
        }
        let cgroup = ready(&setup)?;
        let folder = Folder::create(dir, &setup)?;
        let How { show_prefixes: shows_networks, quiet: is_quiet, .. } = self.how;
        let order = live::Order { dir: dir.into(), cgroup, shows_networks, is_quiet };
        conduct_live(&order, &setup, folder, None)
    }

    /// A trial without a canary.
    fn setup(&self, arms: [String; 2], length_ms: u64, known: Option<&foretell::Plan>) -> Result<Setup> {
        let is_simulated = self.is_simulated();
        arms.iter().try_for_each(|arm| live::check_label(arm))?;
        let usual_ms = (length_ms / USUAL_SLOTS).clamp(1000, LONGEST_USUAL_SLOT_MS);
        let slot_ms = self.how.slot.or(known.map(|k| k.slot_ms)).unwrap_or(usual_ms);
        let burn_in_ms = self.how.burn_in.or(known.map(|k| k.burn_in_ms)).unwrap_or(slot_ms / 10);
        let slots = length_ms / slot_ms.max(1);
        ensure!(
            slots >= u64::from(LEAST_SLOTS),
            "{} has {slots} slots of {}, and a verdict takes at least {LEAST_SLOTS}\nhint: a longer --for, or a shorter --slot",
            foretell::length(length_ms),
            foretell::length(slot_ms)
        );
        Ok(Setup {
            version: VERSION,
            arms,
            by: By::Slot,
            scope: self.which.scope()?,
            slot_ms,
            burn_in_ms,
            slots: u32::try_from(slots).unwrap_or(u32::MAX),
            canary: 0.0,
            max_harm: 0.2,
            seed: self.how.seed.unwrap_or_else(|| live::unix_now().subsec_nanos().into()),
            began_unix_s: if is_simulated { 0 } else { live::unix_now().as_secs() },
            place: if is_simulated {
                "the simulator".into()
            } else {
                format!("Linux {}", headway_kernel::release())
            },
        })
    }
}

/// A trial has so many slots where nobody says how long they are, unless they would be longer than that.
const USUAL_SLOTS: u64 = 40;
const LONGEST_USUAL_SLOT_MS: u64 = 600_000;

impl Which {
    fn scope(&self) -> Result<Scope> {
        Ok(Scope {
            ports: Ports::of(&self.port)?.0,
            direction: match self.direction {
                Way::In => "in",
                Way::Out => "out",
                Way::Both => "both",
            }
            .into(),
            prefixes: self.prefix.iter().map(|text| network(text)).collect::<Result<_>>()?,
            cgroup: self.cgroup()?,
            with_mptcp: self.mptcp,
        })
    }

    /// The same with the cgroup that the unit has now.
    fn found(&self) -> Result<Scope> {
        let mut scope = self.scope()?;
        if let Some(name) = &self.unit {
            let name = scope::unit(name)?;
            let cgroup = unit::find(&name)?.cgroup;
            scope.cgroup = cgroup
                .with_context(|| format!("{name} does not run\nhint: `systemctl start {name}` first"))?;
        }
        Ok(scope)
    }

    /// Below the mount of cgroups; empty for the one above all, and for that of a unit, which has to be asked for.
    fn cgroup(&self) -> Result<String> {
        if let Some(name) = &self.unit {
            scope::unit(name)?;
        }
        let Some(path) = &self.cgroup else { return Ok(String::new()) };
        ensure!(
            !path.trim_matches('/').is_empty(),
            "the root cgroup is every process\nhint: leave --cgroup out"
        );
        scope::cgroup(path)
    }
}

fn network(text: &str) -> Result<String> {
    let prefix: Option<Prefix> = text.parse().ok().filter(|_| text != "default");
    let prefix = prefix.with_context(|| {
        format!("`{text}` is no network\nhint: write it as 192.0.2.0/24 or 2001:db8::/32, with zeros behind its prefix")
    })?;
    Ok(format!("{}/{}", prefix.network, prefix.bits))
}
