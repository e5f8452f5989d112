//! `headway doctor` (what this machine can do, what is missing, what mends it) and `headway list`.

use crate::bench::need;
use crate::emu;
use crate::lab;
use crate::plan::suite;
use crate::plan::tool::Tool;
use headway_cc::{cc, path};
use headway_kernel as kernel;
use headway_kernel::need::Check;
use std::fmt::Write as _;

/// The text, and whether at least the lab works.
pub fn doctor() -> (String, bool) {
    let mut s = String::new();
    place(&mut s, "--in sim", &[]);
    let lab_ok = place(&mut s, "--in lab", &lab::check());
    place(&mut s, "load", &kernel::loaded::check());
    place(
        &mut s,
        "--in here",
        &[emu::check(), kernel::check(), vec![need::load_tool(Tool::Iperf3)]].concat(),
    );
    (s, lab_ok)
}

fn place(s: &mut String, name: &str, checks: &[Check]) -> bool {
    let ok = checks.iter().all(|c| c.ok || !c.required);
    let _ = writeln!(s, "{name}: {}", if ok { "ready" } else { "not ready" });
    for c in checks {
        let _ = writeln!(s, "  {} {}", if c.ok { "ok     " } else { "MISSING" }, c.what);
        if !c.ok {
            let _ = writeln!(s, "          hint: {}", c.hint);
        }
    }
    ok
}

/// What `headway load` has put into the kernel, and how it fares.
pub fn loaded() -> String {
    let all = match kernel::loaded::all() {
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
                let _ = write!(s, ", {} of them in the spare table", c.spare);
            }
            if c.without_storage > 0 {
                let _ = write!(s, ", {} without memory for their state: plain AIMD", c.without_storage);
            }
        }
        s.push('\n');
    }
    s
}

/// Controllers, what is loaded, presets, and the words of a path text.
pub fn list() -> String {
    let mut s = String::from("controllers\n");
    let ours = kernel::available();
    for e in cc::CONTROLLERS {
        let homes =
            if ours.attachable.contains(&e.name) { "sim, and BPF for lab, here, remote" } else { "sim" };
        let _ = writeln!(s, "  {:<12} {} ({homes})", e.name, e.about);
    }
    let _ = writeln!(
        s,
        "  the kernel's own: {} (lab); {} (here, remote)",
        lab::BUILT_IN.join(", "),
        ours.registered.join(", ")
    );
    let _ = writeln!(
        s,
        "  the QUIC stacks' own: {} (sim, lab, here; --transport)",
        headway_cc::quic::sim::OWN.join(", ")
    );
    s.push('\n');
    s += &loaded();
    s.push_str("\npaths\n");
    for p in path::PRESETS {
        let _ = writeln!(s, "  {:<13} {}\n                {}", p.name, p.text, p.about);
    }
    let _ = writeln!(
        s,
        "  {}\n                any drop: factor, high rate, round trip, queue, length; the rate falls at 10 s",
        path::DROP_EXAMPLE
    );
    s.push_str("\nsuites\n");
    for suite in suite::SUITES {
        let _ = writeln!(s, "  {:<13} {} rows: {}", suite.name, (suite.rows)().len(), suite.about);
    }
    let _ = writeln!(
        s,
        "\npath text: RATE RTT [WORD…] [@TIME CHANGE…], such as '100mbit 40ms queue=1bdp @10s 20mbit @20s 100mbit'"
    );
    for k in path::KEYS {
        let _ = writeln!(s, "  {:<24} {}", k.example, k.about);
    }
    s
}
