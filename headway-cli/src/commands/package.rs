//! What an installed program brings along: `headway completions` and `headway man`.

use crate::sys::out;
use anyhow::{Context, Result};
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
