//! `headway`: load, compare and measure congestion controllers on the kernel you already run.
//!
//! This file is the command line: the subcommands, one match, the exit code. The rooms below it are in the order of
//! `docs/architecture.md`, and each imports only those below itself.

// Both panic when their stream is closed or full; `sys::out` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]
// libFuzzer brings a `main` of its own.
#![cfg_attr(fuzzing, no_main)]

mod bench;
mod cell;
mod commands;
mod emu;
mod error;
#[cfg(any(fuzzing, test))]
mod fuzz;
mod interop;
mod lab;
mod load;
mod metric;
mod observe;
mod operate;
mod plan;
mod raw;
mod report;
mod stats;
mod sys;
mod trial;
mod watch;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use error::{exit_code, sentence};
use lab::guest;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use sys::{interrupt, out};

/// Compare, load and measure TCP and QUIC congestion controllers
///
/// `headway bench` runs controllers over network paths and says, with confidence intervals, which is better. It can
/// do so in a simulator, in a virtual machine with a stock kernel, on this kernel over an emulated path, and over a
/// real path.
///
/// `headway load` puts a controller into the running kernel, for any socket to use.
///
/// Begin with `headway doctor`, which says what this machine can do, and `headway list`, which shows what there is to
/// choose from.
#[derive(Parser)]
#[command(name = "headway", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare controllers over paths and write a report
    ///
    /// Runs every controller on every path in every block, prints the verdicts, and leaves the raw data, results.csv,
    /// results.json and report.html in the run folder. A run that was interrupted goes on when the same command is
    /// given again with its --out.
    Bench(Box<commands::bench::BenchArgs>),
    /// Make the tables and report.html of a run or a trial again
    Report(commands::report::ReportArgs),
    /// Make one run of the shards that `bench --shard` made
    ///
    /// The result has the same bytes as a run without shards.
    Merge(commands::merge::MergeArgs),
    /// Find out which controller is better here, live
    ///
    /// On this machine's own traffic: new connections get one controller for a slot of time and the other for the
    /// next, in an order that a coin decides, and the slots are compared. Changes nothing but the controller of new
    /// connections, ends by itself when the candidate does harm, and leaves nothing behind. Needs root. `headway report`
    /// makes its report again.
    Trial(Box<commands::trial::TrialArgs>),
    /// Write the cells of a run in the format of another program
    ///
    /// Cells that do not count are left out.
    Export(commands::exchange::ExportArgs),
    /// Read runs of iperf3, flent, ping, pScheduler and ESnet's harness
    ///
    /// Prints a row for each run, as CSV.
    Import(commands::exchange::ImportArgs),
    /// Write the tasks of a plan for another program to run
    Plan(Box<commands::plan::TasksArgs>),
    /// Judge a table of means that somebody else measured
    ///
    /// Prints confidence intervals and verdicts, and checks the table's own remarks against its numbers.
    Compare(commands::compare::CompareArgs),
    /// Simulate one run and show it
    Sim(commands::sim::SimArgs),
    /// Run a command inside an emulated path
    ///
    /// As mm-link and mm-delay of mahimahi do, in network namespaces of its own. Counts of packets go to standard
    /// error at the end.
    Emu(commands::emu::EmuArgs),
    /// Enable a controller, for good
    ///
    /// It is loaded now and at each boot, and given to the connections that the flags name. Enabling again adds to
    /// that. Needs root. If it cannot be put in force, nothing is changed.
    Enable(commands::enable::EnableArgs),
    /// Disable what was enabled
    ///
    /// Takes controllers out of the kernel, or takes scopes from them. What was there before them comes back: the
    /// default, and what a route asked for. Open connections keep what they have.
    Disable(commands::enable::DisableArgs),
    /// Say what is enabled, and whether it is in force
    ///
    /// The exit code is 0 if everything that is enabled is in force, and 3 if something is not. Needs root.
    Status(commands::status::StatusArgs),
    /// Show the flows of our controllers, live
    ///
    /// Those of all network namespaces, with what each controller knows of its flow. On a terminal it is painted anew each
    /// second until Ctrl-C; elsewhere it prints a table for each look. Needs root.
    Watch(commands::watch::WatchArgs),
    /// Print what the controllers do, for Prometheus
    ///
    /// By controller and scope, never by flow. Once, over HTTP, or as a file for node_exporter. Histograms and the time in
    /// each state need more than one look, so printing once has none. Needs root.
    Metrics(commands::metrics::MetricsArgs),
    /// Give a controller other parameters
    ///
    /// One that is enabled, or only loaded, without losing its name: open connections keep the old parameters, new
    /// ones get the new. Needs root.
    Tune(commands::enable::TuneArgs),
    /// Put in force what is enabled
    ///
    /// After editing a file in /etc/headway/enabled.d, or when `headway status` says that something is not in force.
    /// Applying twice is applying once. Needs root.
    Apply(commands::apply::ApplyArgs),
    /// Let a change of `enable --confirm` stay
    Confirm,
    /// Load a controller into the running kernel
    ///
    /// It stays until it is unloaded or the machine reboots. Needs root, and a BPF file system.
    Load(commands::load::LoadArgs),
    /// Take a loaded controller out of the kernel
    ///
    /// Connections that use it keep it until they close.
    Unload(commands::load::UnloadArgs),
    /// Show controllers, paths, suites, and what is loaded
    List(commands::list::ListArgs),
    /// Say what this machine can do, and what is missing
    ///
    /// Names for each place of `bench --in`, and for `headway load`, `enable` and `watch`, what it needs, what of that is missing, and the
    /// command that adds it. The exit code is 1 unless the lab works.
    Doctor(commands::doctor::DoctorArgs),
    /// Fetch, build and show kernels for the lab
    ///
    /// None is installed. Works as any user, on Debian and Ubuntu, with the mirror and the keys that this machine's own
    /// sources name.
    Kernel(commands::kernel::KernelArgs),
    /// Print the completions for a shell
    Completions(commands::package::CompletionsArgs),
    /// Check a trace of ACKs (acks.txt) against the controller
    ///
    /// Gives the trace's events to the Rust controller, which must answer each as the controller in the kernel did.
    Replay(commands::replay::ReplayArgs),
    /// Run commands in a guest of the lab, to try out what a kernel does
    #[command(hide = true)]
    InLab(commands::hidden::InLabArgs),
    /// Hold our controllers in the running kernel equal to Rust while a socket switches between them and pauses
    #[command(hide = true)]
    CheckSwitching,
    /// Take a change back that was not confirmed
    #[command(hide = true)]
    Revert(commands::apply::RevertArgs),
    /// What `bench --ssh` starts at the far end: answers questions until its standard input ends
    #[command(hide = true)]
    FarEnd(commands::hidden::FarEndArgs),
    /// Say whether a command line is understood, without doing what it says; the manual's test asks
    #[command(hide = true)]
    Parse(commands::hidden::ParseArgs),
    /// Write the man pages
    #[command(hide = true)]
    Man(commands::package::ManArgs),
    /// Write the reference pages of the manual
    #[command(hide = true)]
    Reference(commands::reference::ReferenceArgs),
}

fn main() -> ExitCode {
    // In the lab's guest this program is the first process, and the kernel's command line is no command line of ours.
    if guest::is_guest() {
        guest::main();
    }
    let outcome = match parse(std::env::args_os()) {
        Ok(cli) => interrupt::catch().and_then(|()| run(cli.command)),
        Err(answer) => show(&answer),
    };
    outcome.unwrap_or_else(|e| {
        interrupt::wait_if_ending();
        let text = sentence(&e);
        if !text.is_empty() {
            out::note(format_args!("error: {text}"));
        }
        ExitCode::from(exit_code(&e))
    })
}

/// The description of the command line, from which come parsing, help, completions, man pages and the reference.
fn program() -> clap::Command {
    // A negative number is a wrong value of the flag before it, and not a flag that does not exist.
    commands::help::dressed(Cli::command()).mut_subcommands(|command| command.allow_negative_numbers(true))
}

fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&program().try_get_matches_from(words)?)
}

/// Prints what clap has for the user instead of a command: help, the version, or what is wrong with the flags.
fn show(answer: &clap::Error) -> Result<ExitCode> {
    let printed = answer.print().and_then(|()| std::io::stdout().flush());
    if !answer.use_stderr() {
        out::written(printed)?;
    }
    Ok(ExitCode::from(answer.exit_code() as u8))
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Bench(args) => commands::bench::run(*args),
        Command::Report(args) => commands::report::run(args),
        Command::Trial(args) => commands::trial::run(*args),
        Command::Merge(args) => commands::merge::run(args),
        Command::Export(args) => commands::exchange::export(args),
        Command::Import(args) => commands::exchange::import(args),
        Command::Plan(args) => commands::plan::run(*args),
        Command::Compare(args) => commands::compare::run(args),
        Command::Sim(args) => commands::sim::run(args),
        Command::Emu(args) => commands::emu::run(args),
        Command::Enable(args) => commands::enable::enable(args),
        Command::Disable(args) => commands::enable::disable(args),
        Command::Status(args) => commands::status::run(args),
        Command::Tune(args) => commands::enable::tune(args),
        Command::Apply(args) => commands::apply::run(args),
        Command::Confirm => commands::apply::confirm(),
        Command::Revert(args) => commands::apply::revert(args),
        Command::Watch(args) => commands::watch::run(args),
        Command::Metrics(args) => commands::metrics::run(args),
        Command::Load(args) => commands::load::load(args),
        Command::Unload(args) => commands::load::unload(args),
        Command::List(args) => commands::list::run(args),
        Command::Doctor(args) => commands::doctor::run(args),
        Command::Kernel(args) => commands::kernel::run(args),
        Command::Completions(args) => commands::package::completions(args, program()),
        Command::Man(args) => commands::package::man(args, program()),
        Command::Replay(args) => commands::replay::run(args),
        Command::InLab(args) => commands::hidden::in_lab(args),
        Command::CheckSwitching => commands::hidden::check_switching(),
        Command::FarEnd(args) => commands::hidden::far_end(args),
        Command::Parse(args) => match parse(["headway".into()].into_iter().chain(args.words)) {
            Ok(cli) => understood(cli.command).map(|()| ExitCode::SUCCESS),
            Err(e) => show(&e),
        },
        Command::Reference(args) => commands::reference::run(args, program()),
    }
}

/// What these commands check before they change the machine.
fn understood(command: Command) -> Result<()> {
    match command {
        Command::Load(args) => args.order().map(drop),
        Command::Enable(args) => args.wanted().map(drop),
        Command::Disable(args) => args.scopes().map(drop),
        Command::Emu(args) => args.path().map(drop),
        Command::Trial(args) => args.check(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commands::help::GROUPS;

    #[test]
    fn short_help_has_a_line_for_each_flag() {
        for command in program().get_subcommands().filter(|c| !c.is_hide_set()) {
            let help = command.clone().term_width(80).render_help().to_string();
            let wrapped: Vec<&str> = help.lines().filter(|l| l.starts_with("            ")).collect();
            assert!(wrapped.is_empty(), "{}: shorten these: {wrapped:?}", command.get_name());
        }
    }

    #[test]
    fn every_command_is_in_one_group_and_has_examples() {
        let shown: Vec<String> =
            program().get_subcommands().filter(|c| !c.is_hide_set()).map(|c| c.get_name().into()).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for name in &shown {
            assert_eq!(grouped.iter().filter(|g| *g == name).count(), 1, "`{name}` in the groups of help.rs");
            let help = program().find_subcommand(name).unwrap().get_after_help().map(ToString::to_string);
            assert!(
                help.unwrap_or_default().starts_with("Examples:\n  headway "),
                "`{name}` has no examples"
            );
        }
        assert_eq!(grouped.len(), shown.len());
    }

    #[test]
    fn every_help_fits_80_columns() {
        let wide = |help: String| {
            help.lines().filter(|l| l.chars().count() > 80).map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(wide(program().term_width(80).render_help().to_string()), [""; 0]);
        for command in program().get_subcommands().filter(|c| !c.is_hide_set()) {
            let help = command.clone().term_width(80).render_help().to_string();
            assert_eq!(wide(help), [""; 0], "{}", command.get_name());
        }
    }
}
