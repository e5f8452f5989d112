//! `headway bench`: makes a plan, or takes one that is made, runs it and reports.

use crate::bench::{self, need};
use crate::commands::plan::PlanArgs;
use crate::commands::report;
use crate::error::usage;
use crate::plan::shard::Shard;
use crate::plan::show::shell_word;
use crate::plan::{Place, Plan};
use crate::raw::folder;
use crate::report::{Format, Options, known};
use crate::sys::out;
use anyhow::{Result, bail, ensure};
use clap::{Arg, Args, ValueEnum};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
#[command(mut_args = refused_with_a_plan)]
pub struct BenchArgs {
    #[command(flatten)]
    flags: PlanArgs,
    #[command(flatten)]
    run: RunArgs,
}

/// A plan that is made already takes none of the flags from which one is made, only those that say how to run it.
fn refused_with_a_plan(arg: Arg) -> Arg {
    match arg.get_help_heading() {
        Some(RUN) => arg,
        _ => arg.conflicts_with_all(["plan", "resume"]),
    }
}

const RUN: &str = "Run and results";

/// How to run a plan, whichever way it was made.
#[derive(Args)]
#[command(next_help_heading = RUN)]
struct RunArgs {
    /// The run folder [default: a new headway-run-N]
    ///
    /// A folder that exists is continued if it is of the same plan: cells that are there are not run again.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Cells side by side [default: one a core]
    ///
    /// Only in sim and lab. Elsewhere one cell runs after the other, because each would disturb the other.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Run part I of N, for `headway merge`
    ///
    /// Part I is every N-th cell from the I-th on. It makes no report. Only in sim and lab, where a cell's result
    /// does not depend on the machine that it runs on.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Further metrics for the table (comma separated)
    ///
    /// results.csv has all of them, and its first line is the list of their names.
    #[arg(long, value_delimiter = ',')]
    metric: Vec<String>,
    /// What to print: table, full or esnet
    ///
    /// table has the answer in sentences and as much of the comparisons as is read and fits the terminal. full has
    /// every comparison, column and exclusion. esnet is the table of ESnet's summarize-iperf3.py: means, standard
    /// deviations, retransmissions.
    #[arg(long, value_enum, hide_possible_values = true, default_value_t)]
    format: Format,
    #[command(flatten)]
    fail: report::FailArgs,
    /// Say nothing about the progress
    ///
    /// Warnings and errors are still printed.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    about: report::AboutArgs,
    /// Only show cells, time and bytes
    ///
    /// Prints the cells in their order, and the wall time and the traffic that they would take. Writes nothing.
    #[arg(long)]
    dry_run: bool,
    /// Run this plan.json, or a run folder's, again
    ///
    /// The plan is taken as it is, with the same cells, order and seeds, so no flag that makes a plan can stand
    /// beside this one.
    #[arg(long, value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// Continue the run in this folder, with its own plan
    ///
    /// The same as repeating the command that began the run, with its --out.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["plan", "out"])]
    resume: Option<PathBuf>,
}

pub fn run(args: BenchArgs) -> Result<ExitCode> {
    let BenchArgs { flags, run: a } = args;
    let plan = match a.plan.as_ref().or(a.resume.as_ref()) {
        Some(made) => {
            let plan = Plan::read(made)?;
            usage(plan.check(&need::known()))?;
            plan
        }
        None => usage(flags.plan())?,
    };
    usage(known(&a.metric))?;
    usage(check_shard(a.shard, &plan.place))?;
    usage(check_fail_if(&a, &plan))?;
    usage(check_jobs(a.jobs, &plan.place))?;
    let jobs = a.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, usize::from);
    if a.dry_run {
        out::print(plan.dry_run(a.shard, jobs)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let dir = a.resume.clone().or(a.out.clone()).map_or_else(folder::new_run_dir, Ok)?;
    let failed = bench::run(
        &plan,
        &bench::Options {
            out: dir.clone(),
            shard: a.shard,
            jobs,
            quiet: a.quiet,
            go_on: going_on(&a, &dir),
            about: a.about.change(),
        },
    )?;
    let options = Options { metrics: a.metric, format: a.format, fail_if: a.fail.fail_if, width: None };
    match a.shard {
        None if failed == 0 => report::show(&dir, options, false)?,
        // That cells failed weighs more than what the others say.
        None => report::show(&dir, Options { fail_if: Vec::new(), ..options }, false)?,
        Some(shard) => out::say(format_args!(
            "{}: shard {shard}; `headway merge` makes a run of all {}",
            dir.display(),
            shard.of
        ))?,
    }
    if failed > 0 {
        bail!("{failed} of {} cells failed; the report lists them with the reason", plan.cells.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// The command that goes on with the run in `dir` after an interrupt. Title and note are kept there already.
fn going_on(a: &RunArgs, dir: &Path) -> String {
    let mut words = vec!["headway".into(), "bench".into(), "--resume".into(), dir.display().to_string()];
    let mut add = |flag: &str, value: String| words.extend([flag.into(), value]);
    if let Some(jobs) = a.jobs {
        add("--jobs", jobs.to_string());
    }
    if let Some(shard) = a.shard {
        add("--shard", shard.to_string());
    }
    if !a.metric.is_empty() {
        add("--metric", a.metric.join(","));
    }
    if a.format != Format::default() {
        add("--format", value_name(&a.format));
    }
    if !a.fail.fail_if.is_empty() {
        add("--fail-if", a.fail.fail_if.iter().map(value_name).collect::<Vec<_>>().join(","));
    }
    if a.quiet {
        words.push("--quiet".into());
    }
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// What the user types for this value of a flag.
fn value_name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|v| v.get_name().to_string()).unwrap_or_default()
}

fn check_fail_if(a: &RunArgs, plan: &Plan) -> Result<()> {
    ensure!(
        plan.draws.is_none() || a.fail.fail_if.is_empty(),
        "--fail-if is about verdicts, and a search (--draws) gives none\nhint: they come from the run that measures its front again"
    );
    ensure!(
        a.shard.is_none() || a.fail.fail_if.is_empty(),
        "--fail-if needs a whole run, and --shard makes a part of one\nhint: `headway report RUN --fail-if ...` after `headway merge`"
    );
    Ok(())
}

fn check_jobs(jobs: Option<NonZeroUsize>, place: &Place) -> Result<()> {
    ensure!(
        jobs.is_none_or(|jobs| jobs.get() == 1) || place.is_virtual(),
        "--jobs needs --in sim or lab: elsewhere one cell would disturb the other"
    );
    Ok(())
}

/// Where time is real, the cells of a block are compared with each other because they ran on one machine one after
/// the other.
fn check_shard(shard: Option<Shard>, place: &Place) -> Result<()> {
    ensure!(
        shard.is_none() || place.is_virtual(),
        "--shard needs --in sim or lab: elsewhere a block must run on one machine, in order"
    );
    Ok(())
}
