//! `headway`: load, compare and measure congestion controllers on the kernel you already run.
#![allow(dead_code)] // until every part is connected

mod bench;
mod emu;
mod guest;
mod kernel;
mod lab;
mod metric;
mod probe;
mod report;
mod stats;
mod sys;
mod tools;

/// `headway emu PATH [--far CMD] [--mtu N] [--seed N] [--log FILE] -- CMD…`
#[derive(clap::Parser)]
enum Cli {
    Emu {
        path: String,
        #[arg(long)]
        far: Option<std::ffi::OsString>,
        #[arg(long, default_value_t = 1500)]
        mtu: u32,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        #[arg(long)]
        log: Option<std::path::PathBuf>,
        #[arg(last = true)]
        command: Vec<std::ffi::OsString>,
    },
}

fn main() -> anyhow::Result<()> {
    let Cli::Emu { path, far, mtu, seed, log, command } = clap::Parser::parse();
    let path = headway_cc::path::resolve(&path)?;
    let what = emu::command::EmuCommand { path, mtu, seed, near: command, far, log };
    std::process::exit(emu::command::run_command(&what)?)
}
