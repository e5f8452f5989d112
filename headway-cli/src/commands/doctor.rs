//! `headway doctor`: what this machine can do, what is missing, and what to do about it.

use crate::bench::need;
use crate::emu;
use crate::lab;
use crate::operate;
use crate::plan::tool::Tool;
use crate::sys::out;
use anyhow::Result;
use clap::Args;
use headway_kernel::{self as kernel, Check};
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;

#[derive(Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What needs something of this machine, and whether it has it.
#[derive(Serialize)]
struct Verdict {
    /// What the user would type.
    name: &'static str,
    ready: bool,
    checks: Vec<Item>,
}

/// A [`Check`], as JSON has it. The hint is there only where something is missing.
#[derive(Serialize)]
struct Item {
    what: String,
    ok: bool,
    required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Prints a verdict on every place and on what an operator runs. Exit code 1 unless the lab works, because it is the place
/// that needs no rights and no particular kernel, so that every machine can be brought to have it.
pub fn run(args: DoctorArgs) -> Result<ExitCode> {
    let here = [emu::check(), kernel::needs(), vec![need::load_tool(Tool::Iperf3)]].concat();
    let all = [
        verdict("--in sim", Vec::new()),
        verdict("--in lab", lab::check()),
        verdict("headway load", kernel::load_needs()),
        verdict("headway enable", operate::need::enable()),
        verdict("headway watch", kernel::watch_needs()),
        verdict("--in here", here),
    ];
    match args.json {
        true => out::say(serde_json::to_string_pretty(&all)?)?,
        false => out::print(all.iter().map(text).collect::<String>())?,
    }
    let has_lab = all.iter().any(|v| v.name == "--in lab" && v.ready);
    Ok(if has_lab { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn verdict(name: &'static str, checks: Vec<Check>) -> Verdict {
    let item =
        |c: Check| Item { what: c.what, ok: c.ok, required: c.required, hint: (!c.ok).then_some(c.hint) };
    let checks: Vec<Item> = checks.into_iter().map(item).collect();
    Verdict { name, ready: checks.iter().all(|c| c.ok || !c.required), checks }
}

/// Whether something works, then a line for each thing that it needs, with a hint where it is missing.
fn text(v: &Verdict) -> String {
    let mut s = format!("{}: {}\n", v.name, if v.ready { "ready" } else { "not ready" });
    for c in &v.checks {
        let found = match (c.ok, c.required) {
            (true, _) => "ok     ",
            (false, true) => "MISSING",
            (false, false) => "without",
        };
        let _ = writeln!(s, "  {found} {}", c.what);
        if let Some(hint) = &c.hint {
            let _ = writeln!(s, "          hint: {hint}");
        }
    }
    s
}
