//! `headway doctor`: what this machine can do, what is missing, and what to do about it.

use crate::bench::need;
use crate::emu;
use crate::lab;
use crate::plan::tool::Tool;
use crate::sys::out;
use anyhow::Result;
use headway_kernel::{self as kernel, Check};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Prints a verdict on every place and on `headway load`. Exit code 1 unless the lab works, because it is the place
/// that needs no rights and no particular kernel, so that every machine can be brought to have it.
pub fn run() -> Result<ExitCode> {
    let lab = lab::check();
    let here = [emu::check(), kernel::needs(), vec![need::load_tool(Tool::Iperf3)]].concat();
    let text = [
        verdict("--in sim", &[]),
        verdict("--in lab", &lab),
        verdict("headway load", &kernel::load_needs()),
        verdict("--in here", &here),
    ];
    out::print(text.concat())?;
    Ok(if is_ready(&lab) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_ready(checks: &[Check]) -> bool {
    checks.iter().all(|c| c.ok || !c.required)
}

/// Whether something works, then a line for each thing that it needs, with a hint where it is missing.
fn verdict(name: &str, checks: &[Check]) -> String {
    let mut s = format!("{name}: {}\n", if is_ready(checks) { "ready" } else { "not ready" });
    for c in checks {
        let found = match (c.ok, c.required) {
            (true, _) => "ok     ",
            (false, true) => "MISSING",
            (false, false) => "without",
        };
        let _ = writeln!(s, "  {found} {}", c.what);
        if !c.ok {
            let _ = writeln!(s, "          hint: {}", c.hint);
        }
    }
    s
}
