//! `headway kernel`: the kernels that the lab can boot. Fetching and building are a script of the repository, which an
//! installed program brings along.

use crate::lab;
use crate::sys::{out, process};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

#[derive(Args)]
pub struct KernelArgs {
    #[command(subcommand)]
    command: KernelCommand,
}

#[derive(Subcommand)]
enum KernelCommand {
    /// Show the kernels that the lab has
    List,
    /// Fetch a distribution's kernel
    ///
    /// Into ~/.cache/headway/kernels. It needs no rights and installs nothing on this machine.
    Fetch {
        /// A version (6.12), or a suite of this distribution (trixie)
        ///
        /// Without it, the kernel that this machine's apt sources offer. A version may be shortened; the suites of the
        /// distribution are searched until one offers it.
        #[arg(default_value = "default", hide_default_value = true)]
        what: String,
    },
    /// Build a small kernel from the distribution's source, with patches of your own
    ///
    /// Into ~/.cache/headway/built, where --kernel and --cc CC@NAME find it by its name. It has BTF, TCP, the usual qdiscs
    /// and what the lab emulates, and no modules. The same version, patches and compiler give the same kernel, which is built
    /// once; building says before it starts how long it takes and how much room. It needs gcc, flex, bison, bc, pahole and
    /// libelf's header.
    Build {
        /// A version whose source the distribution has: 6.12
        version: String,
        /// Files that `patch -p1` takes, applied in this order
        #[arg(value_name = "PATCH")]
        patches: Vec<PathBuf>,
    },
}

const SCRIPT: &str = include_str!("../../../scripts/kernel");
const CONFIG: &str = include_str!("../../../scripts/kernel.config");

pub fn run(args: KernelArgs) -> Result<ExitCode> {
    match args.command {
        KernelCommand::List => list(),
        KernelCommand::Fetch { what } => {
            script(Command::new("sh").args(["-c", SCRIPT, "headway kernel", "fetch"]).arg(what))
        }
        KernelCommand::Build { version, patches } => script(
            Command::new("sh").args(["-c", SCRIPT, "headway kernel", "build"]).arg(version).args(patches),
        ),
    }
}

/// Runs the script, which prints the kernel's folder. Its errors are sentences with hints already.
fn script(command: &mut Command) -> Result<ExitCode> {
    let command =
        process::end_with_parent(command.env("HEADWAY_KERNEL_CONFIG", CONFIG), process::Signal::TERM);
    let status = command.status().context("cannot run `sh`")?;
    Ok(ExitCode::from(status.code().map_or(1, |code| code as u8)))
}

fn list() -> Result<ExitCode> {
    let all = lab::kernels();
    if all.is_empty() {
        out::say("the lab has no kernel; `headway kernel fetch` fetches one")?;
        return Ok(ExitCode::SUCCESS);
    }
    for kernel in all {
        out::say(format_args!("{}", kernel.version))?;
        out::say(format_args!("    {}: {}", kernel.origin.word(), kernel.file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
