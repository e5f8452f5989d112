//! Subcommands that `headway --help` does not show: those that this program starts itself, and those for its
//! developers.

use crate::cell::remote::far;
use crate::commands::check_switching;
use crate::lab;
use crate::plan::wire::Nic;
use crate::sys::out;
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct InLabArgs {
    /// A version or a prefix of one (6.1), or a vmlinuz file
    #[arg(long)]
    kernel: Option<String>,
    /// A program of this machine that the commands may start: a name or a path; several with commas
    #[arg(long, value_delimiter = ',', default_value = "iperf3")]
    tool: Vec<String>,
    /// A folder whose files the guest finds in its root
    #[arg(long)]
    root: Option<PathBuf>,
    /// Two network cards that are joined: virtio or e1000
    #[arg(long, value_enum)]
    card: Option<Nic>,
    /// Stop the kernel's tick while nothing runs, for hours of waiting
    #[arg(long)]
    tickless: bool,
    /// Each argument is one command, whose words are split at blanks
    commands: Vec<String>,
}

pub fn in_lab(args: InLabArgs) -> Result<ExitCode> {
    let tools: Vec<&str> = args.tool.iter().map(String::as_str).filter(|tool| !tool.is_empty()).collect();
    let content = lab::Content { tools: &tools, root: args.root.as_deref(), ..lab::Content::default() };
    let kernel = lab::Kernel::find(args.kernel.as_deref(), None, &content)?;
    let commands = lab::Commands { commands: args.commands, nic: args.card, is_tickless: args.tickless };
    out::print(lab::run_commands(&kernel, commands)?)?;
    Ok(ExitCode::SUCCESS)
}

pub fn check_switching() -> Result<ExitCode> {
    out::print(check_switching::check()?)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub struct FarEndArgs {
    /// The folder that the program was copied to, which it removes
    folder: PathBuf,
}

pub fn far_end(args: FarEndArgs) -> Result<ExitCode> {
    far::serve(&args.folder)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub struct ParseArgs {
    /// The command line, without the program's name
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}
