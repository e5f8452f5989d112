//! What an installed program brings along: `headway completions`, `headway man`, and `headway fetch-kernel`, which is
//! a script in the repository and must be there without it.

use crate::sys::out;
use anyhow::{Context, Result, anyhow};
use clap::{Args, Command};
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell
    #[arg(hide_possible_values = true)]
    shell: Shell,
}

pub fn completions(args: CompletionsArgs, mut program: Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "headway", &mut script);
    out::print(String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub struct ManArgs {
    /// The folder that the pages are written to
    dir: PathBuf,
}

/// One page for the program and one for each command.
pub fn man(args: ManArgs, program: Command) -> Result<ExitCode> {
    let name = args.dir.display();
    let written =
        std::fs::create_dir_all(&args.dir).and_then(|()| clap_mangen::generate_to(program, &args.dir));
    written.with_context(|| {
        format!("cannot write man pages to `{name}`\nhint: name a folder that you may write")
    })?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub struct FetchKernelArgs {
    /// A version (6.12), or a suite of this distribution (trixie)
    ///
    /// Without it, the kernel that this machine's apt sources offer. A version may be shortened; the suites of the
    /// distribution are searched until one offers it.
    #[arg(default_value = "default", hide_default_value = true)]
    what: String,
}

const FETCH_KERNEL: &str = include_str!("../../../scripts/fetch-kernel");

/// Runs the script, which prints the kernel's folder. Its errors are sentences with hints already.
pub fn fetch_kernel(args: FetchKernelArgs) -> Result<ExitCode> {
    let mut script = std::process::Command::new("sh");
    let status = script.args(["-c", FETCH_KERNEL, "headway fetch-kernel", &args.what]).status();
    let status = status.map_err(|e| anyhow!(e)).context("cannot run `sh`")?;
    Ok(ExitCode::from(status.code().map_or(1, |code| code as u8)))
}
