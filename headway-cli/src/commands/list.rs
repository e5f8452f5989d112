//! `headway list`: what there is to choose from, and what `headway load` has put into the kernel.

mod json;

use crate::error::usage;
use crate::lab;
use crate::plan::suite;
use crate::plan::wire::WIRES;
use crate::sys::out;
use anyhow::Result;
use clap::Args;
use headway_cc::{cc, path};
use headway_kernel as kernel;
use std::fmt::Write as _;
use std::process::ExitCode;

#[derive(Args)]
pub struct ListArgs {
    /// Show only what is loaded in the kernel
    #[arg(long, conflicts_with = "params")]
    loaded: bool,
    /// Show the parameters of a controller
    ///
    /// With the default, the range and the purpose of each.
    #[arg(long, value_name = "CONTROLLER")]
    params: Option<String>,
    /// Print JSON: all that there is, with all parameters
    #[arg(long, conflicts_with_all = ["loaded", "params"])]
    json: bool,
}

pub fn run(args: ListArgs) -> Result<ExitCode> {
    if args.json {
        out::say(serde_json::to_string_pretty(&json::everything())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    match (args.params, args.loaded) {
        (Some(cc), _) => out::print(usage(kernel::params_text(&cc))?)?,
        (None, true) => out::print(loaded_text())?,
        (None, false) => {
            out::print(format_args!("{}\n{}\n{}", controllers(), loaded_text(), paths_and_suites()))?
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn controllers() -> String {
    let mut s = String::from("controllers\n");
    let ours = kernel::available();
    for e in cc::CONTROLLERS {
        let homes =
            if ours.attachable.contains(&e.name) { "sim; as BPF in lab, here and remote" } else { "sim" };
        let _ = writeln!(s, "  {:<12} {} ({homes})", e.name, e.about);
    }
    let _ = writeln!(s, "  of the lab's kernels: {} (lab)", lab::BUILT_IN.join(", "));
    let _ = writeln!(s, "  of this kernel: {} (here, remote)", ours.registered.join(", "));
    let own = headway_cc::quic::sim::OWN.join(", ");
    let _ = writeln!(s, "  of the QUIC stacks: {own} (sim, lab and here, with --transport)");
    s
}

/// What `headway load` has put into the kernel, and how it fares.
fn loaded_text() -> String {
    let all = match kernel::loaded() {
        Ok(all) if all.is_empty() => return "loaded in the kernel: nothing by us\n".into(),
        Ok(all) => all,
        Err(_) => return "loaded in the kernel: only root can see it\n".into(),
    };
    let mut s = String::from("loaded in the kernel\n");
    for l in all {
        let _ = writeln!(s, "  {:<15} {}", l.name, l.what());
        let _ = write!(s, "  {:<15} {} sockets now", "", l.users);
        if let Some(c) = l.counters {
            let _ = write!(s, ", {} flows so far", c.flows);
            if c.spare > 0 {
                let _ = write!(s, ", {} of them with their state in the spare table", c.spare);
            }
            if c.without_storage > 0 {
                let _ =
                    write!(s, ", {} without memory for their state, which run plain AIMD", c.without_storage);
            }
        }
        s.push('\n');
    }
    s
}

fn paths_and_suites() -> String {
    let mut s = String::from("paths\n");
    for p in path::PRESETS {
        let _ = writeln!(s, "  {:<13} {}\n                {}", p.name, p.text, p.about);
    }
    let _ = writeln!(
        s,
        "  {}\n                a fall of the rate by this factor from this rate, on a path of this round trip and queue,\n\
         \x20               for this time; it begins 10 s after the start. Any values will do",
        path::DROP_EXAMPLE
    );
    s.push_str("\nwires (ways between two hosts without a bottleneck, in place of a path, for --path)\n");
    for (wire, about) in WIRES {
        let _ = writeln!(s, "  {:<13} {about}", wire.name());
    }
    s.push_str("\nsuites (paths with traffic, for --suite)\n");
    for suite in suite::SUITES {
        let _ = writeln!(s, "  {:<13} {} rows: {}", suite.name, (suite.rows)().len(), suite.about);
    }
    s.push_str(
        "\npath text: RATE RTT [WORD...] [@TIME CHANGE...], a path and what changes at a time after the start, such as\n  \
         '100mbit 40ms queue=1bdp @10s 20mbit @20s 100mbit'\n",
    );
    for k in path::KEYS {
        let _ = writeln!(s, "  {:<24} {}", k.example, k.about);
    }
    s
}
