//! `headway reference DIR`: the manual's reference pages, written from the tables that the program itself uses, so
//! that a page cannot say something else than the program does. `make docs` runs it, and a test compares the pages in
//! the repository with what it writes.

mod commands;

use crate::metric::{Better, METRICS, Metric};
use crate::plan::place::Place;
use crate::plan::suite::{self, Suite};
use crate::plan::traffic::stagger_text;
use crate::plan::wire::WIRES;
use crate::raw::folder::write_atomic;
use crate::stats::Verdict;
use anyhow::{Context, Result};
use clap::Args;
use headway_cc::cc::params::{Kind, Param, ParamTable};
use headway_cc::{cc, path};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct ReferenceArgs {
    /// The folder that the pages are written to
    dir: PathBuf,
}

/// Begins every page, so that nobody mends a page by hand.
const MADE: &str = "<!-- Written by `make docs` from the program; change the program, not this page. -->\n\n";

/// Suites with more rows than this are described without a table of them.
const ROWS_SHOWN: usize = 100;

pub fn run(args: ReferenceArgs, program: clap::Command) -> Result<ExitCode> {
    std::fs::create_dir_all(&args.dir)
        .with_context(|| format!("cannot create `{}`\nhint: name a folder", args.dir.display()))?;
    let pages = [
        ("commands.md", commands::page(program)),
        ("exit-codes.md", exit_codes()),
        ("paths.md", paths()),
        ("suites.md", suites()),
        ("metrics.md", metrics()),
        ("verdicts.md", verdicts()),
        ("controllers.md", controllers()),
    ];
    for (name, text) in pages {
        write_atomic(&args.dir.join(name), &format!("{MADE}{}\n", text.trim_end()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Text of the program as Markdown: flags become code, and what is no code keeps its signs.
fn prose(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let escaped = parts.map(|(i, part)| match i % 2 {
        0 => part.replace('<', "\\<").replace('*', "\\*").split(' ').map(flag).collect::<Vec<_>>().join(" "),
        _ => part.to_string(),
    });
    escaped.collect::<Vec<_>>().join("`")
}

/// `(--in` as "(`--in`".
fn flag(word: &str) -> String {
    let Some(start) = word.find("--").filter(|at| word[..*at].chars().all(|c| "(\n".contains(c))) else {
        return word.to_string();
    };
    let is_of_flag = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let end = word[start..].find(|c| !is_of_flag(c)).map_or(word.len(), |n| start + n);
    match end - start > 2 {
        true => format!("{}`{}`{}", &word[..start], &word[start..end], &word[end..]),
        false => word.to_string(),
    }
}

/// A row of a table. A `|` would end its column, also in a code span.
fn row(columns: &[&str]) -> String {
    let columns: Vec<String> = columns.iter().map(|c| c.replace('|', "\\|")).collect();
    format!("| {} |\n", columns.join(" | "))
}

/// The head of a table.
fn head(columns: &[&str]) -> String {
    row(columns) + &row(&vec!["---"; columns.len()])
}

/// A paragraph, broken at 118 columns as all text of the repository; its lines after the first are indented.
fn wrapped(text: &str, first: &str, indent: &str) -> String {
    let (mut lines, mut line) = (String::new(), first.to_string());
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > 118 {
            lines += &(line + "\n");
            (line, is_empty) = (indent.to_string(), true);
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    lines + &line + "\n"
}

fn exit_codes() -> String {
    let mut s = String::from(
        "# Exit codes\n\nA script can tell from the exit code what happened. Results go to standard output; errors go to standard \
         error\nas one sentence of what failed, and a line beginning with `hint:` that says what to do.\n\n",
    );
    s += &head(&["code", "meaning"]);
    for (code, meaning) in crate::error::EXIT_CODES {
        s += &row(&[&format!("`{code}`"), meaning]);
    }
    s
}

fn paths() -> String {
    let mut s = String::from("# Paths\n\n");
    s += &wrapped(
        "A path between two hosts is one text, the same on the command line, in the files of a run and in the report: \
         `RATE RTT [WORD...] [@TIME CHANGE...]`. An example is `100mbit 40ms queue=1bdp @10s 20mbit @20s 100mbit`: 100 Mbit/s, a \
         base round-trip time of 40 ms, a buffer of one bandwidth-delay product; at 10 s the rate falls to 20 Mbit/s, and at \
         20 s it is back. `headway emu`, `headway sim` and `headway bench --path` take it.",
        "",
        "",
    );
    s += "\n## Rate and round-trip time\n\n";
    s += &head(&["word", "meaning"]);
    for (word, meaning) in LEADING_WORDS {
        s += &row(&[&format!("`{word}`"), meaning]);
    }
    s += "\n## Words that may follow\n\n";
    s += &head(&["word", "meaning, or the forms of its value"]);
    for key in path::KEYS {
        s += &row(&[&format!("`{}`", key.example), &prose(key.about)]);
    }
    s += "\n## Named paths\n\n";
    s += &wrapped(
        "Each name stands for the text beside it. The source of the numbers is in brackets: `tcpeval` is \
         draft-irtf-iccrg-tcpeval-01, `nsperf` the BBRv3 authors' test script, `pantheon` the Pantheon's calibrated and \
         pathological paths, `rmcat` RFC 8867, `9743` RFC 9743, `interop` the QUIC interop runner, `mahimahi` the mean rates of \
         its traces, `quic-bbr` a published discussion of BBRv3 over QUIC, `own` nobody but us.",
        "",
        "",
    );
    s.push('\n');
    for p in path::PRESETS {
        s += &wrapped(&format!("`{}` is `{}`: {}.", p.name, p.text, prose(p.about)), "- ", "  ");
    }
    s += "\n## Falls of the rate by name\n\n";
    let about = format!(
        "`{}` is a fall of the rate by this factor from this rate, on a path of this round-trip time and queue, for this \
         time. It begins 10 s after the start. Any values will do.",
        path::DROP_EXAMPLE
    );
    s += &wrapped(&about, "", "");
    s += "\n## Wires\n\n";
    s += &wrapped(
        "A wire joins two hosts without a bottleneck, so what is measured on it is the hosts. `headway bench --path` takes its \
         name in place of a path's text; [how to compare hosts](../how-to/compare-hosts.md) has the loads for it.",
        "",
        "",
    );
    s += "\n";
    for (wire, about) in WIRES {
        let places = match wire.is_in(&Place::Here) {
            true => "lab and here",
            false => "lab",
        };
        s += &wrapped(&format!("`{wire}` is {about} ({places})."), "- ", "  ");
    }
    s
}

/// The words that every path text begins with.
const LEADING_WORDS: [(&str, &str); 4] = [
    (
        "100mbit",
        "first: the rate of the data direction, in bit, kbit, mbit, gbit or tbit; `unlimited` is none",
    ),
    (
        "trace=FILE",
        "first, instead of a rate: a recording in mahimahi's format; `trace=cell:5mbit` and `trace=poisson:5mbit` are made \
         by formula with this mean rate",
    ),
    (
        "40ms",
        "second: the base round-trip time, half of it each way, in ns, us, ms or s; `10ms/30ms` is the delay of each direction",
    ),
    (
        "@10s 20mbit",
        "last: from this time on another rate (`0mbit` is an outage), round-trip time or loss; any of the three",
    ),
];

fn suites() -> String {
    let mut s = String::from("# Suites\n\n");
    s += &wrapped(
        "A suite is a list of paths, each with the traffic that belongs on it: `headway bench --suite NAME`. A row is run only \
         in the places where its result says something about the controller; a dry run names what is left out, and why.",
        "",
        "",
    );
    s.extend(suite::SUITES.iter().map(one_suite));
    s
}

fn one_suite(suite: &Suite) -> String {
    let rows = (suite.rows)();
    let places = [Place::Sim, Place::Lab, Place::Here];
    let counts: Vec<String> = places.iter().map(|p| format!("{} in `{p}`", suite.rows_in(p).len())).collect();
    let mut s = format!("\n## {}\n\n", suite.name);
    let about = format!("{}{}", suite.about[..1].to_uppercase(), &suite.about[1..]);
    s += &wrapped(&format!("{}. {} rows: {}.", prose(&about), rows.len(), counts.join(", ")), "", "");
    if !suite.missing.is_empty() {
        s += "\nWhat its source asks for as well, and why there is no row for it:\n\n";
        for (what, why) in suite.missing {
            s += &wrapped(&format!("{}: {}", prose(what), prose(why)), "- ", "  ");
        }
    }
    s.push('\n');
    if rows.len() > ROWS_SHOWN {
        return s + "`headway bench --suite " + suite.name + " --in sim --dry-run` lists its rows.\n";
    }
    s += &head(&["row", "path", "seconds", "streams", "places"]);
    for r in rows {
        let traffic = &r.traffic;
        let apart = match traffic.stagger_ms {
            0 => String::new(),
            ms => format!(", begun {} apart", stagger_text(ms)),
        };
        let (seconds, streams) = (traffic.seconds.to_string(), format!("{}{apart}", traffic.streams));
        s += &row(&[&prose(&r.name), &format!("`{}`", r.path), &seconds, &streams, &r.places.join(", ")]);
    }
    s
}

fn metrics() -> String {
    let mut s = String::from("# Metrics\n\n");
    s += &wrapped(
        "What is measured in each cell: the columns of `results.csv`, in its order. Primary metrics get a \
         [verdict](verdicts.md); the others get an interval only, because among many metrics some favour one side by \
         chance. The margin is the smallest difference that matters: the larger of a share of the baseline and an amount.",
        "",
        "",
    );
    let (primary, other): (Vec<&Metric>, Vec<&Metric>) = METRICS.iter().partition(|m| m.is_primary());
    s += "\n## Primary metrics\n\n";
    s.extend(primary.into_iter().map(metric));
    s += "\n## Other metrics\n\n";
    s.extend(other.into_iter().map(metric));
    s
}

fn metric(m: &Metric) -> String {
    let label = format!("{}{}", m.label[..1].to_lowercase(), &m.label[1..]);
    let unit = if m.unit.word.is_empty() { String::new() } else { format!(" in {}", m.unit.word) };
    let better = if m.better == Better::Higher { "higher" } else { "lower" };
    let margin = m.margin.map_or_else(String::new, |margin| {
        let share = format!(", margin {} %", margin.share * 100.0);
        match margin.amount * m.unit.factor {
            0.0 => share,
            amount => format!("{share}, at least {amount} {}", m.unit.word),
        }
    });
    let head = format!("`{}`, {label}{unit}, {better} is better{margin}", m.name);
    wrapped(&format!("{head}: {}.", prose(m.about)), "- ", "  ")
}

fn verdicts() -> String {
    let mut s = String::from("# Verdicts\n\n");
    s += &wrapped(
        "The word that stands at a comparison of a candidate with the baseline, on one path, by one primary \
         [metric](metrics.md). The interval is of the improvement, so above zero is better, whichever way the metric is \
         better. How the numbers come about is in [the method](../explanation/method.md).",
        "",
        "",
    );
    s.push('\n');
    s += &head(&["word", "meaning"]);
    for verdict in Verdict::ALL {
        s += &row(&[&format!("`{verdict}`"), verdict.claim()]);
    }
    s
}

fn controllers() -> String {
    let mut s = String::from("# Controllers and their parameters\n\n");
    s += &wrapped(
        "Our controllers, which exist in the simulator and in QUIC, and those with parameters also as BPF programs for a stock \
         kernel. A parameter is set by its name, with `headway load CONTROLLER --set PARAM=VALUE` in the kernel and with \
         `--cc CONTROLLER:PARAM=VALUE` in a comparison. Beside them `--cc` takes every controller that the kernel has of its \
         own, such as `bbr`, `cubic` and `reno`, and with `--transport` those of the QUIC stacks.",
        "",
        "",
    );
    s.push('\n');
    s += &head(&["controller", "what it is", "parameters"]);
    for e in cc::CONTROLLERS {
        let parameters = e.params.map_or("none", |_| "below");
        s += &row(&[&format!("`{}`", e.name), &prose(e.about), parameters]);
    }
    let own = headway_cc::quic::sim::OWN.join("`, `");
    s += "\n";
    s += &wrapped(&format!("Of the QUIC stacks themselves: `{own}`."), "", "");
    let mut shown: Vec<(&str, &ParamTable)> = Vec::new();
    for e in cc::CONTROLLERS {
        let Some(table) = e.params else { continue };
        let _ = write!(s, "\n## Parameters of {}\n\n", e.name);
        // A controller with a brake is another one with other defaults: only those are worth a reader's time.
        let is_of_same_row =
            |t: &ParamTable| t.rows.iter().map(|p| p.name).eq(table.rows.iter().map(|p| p.name));
        match shown.iter().find(|(_, t)| is_of_same_row(t)) {
            Some((base, t)) => {
                let changed = t.changed(&(table.defaults)()).join("`, `");
                s += &wrapped(&format!("Those of `{base}`, with other defaults: `{changed}`."), "", "");
            }
            None => s += &parameters(table),
        }
        shown.push((e.name, table));
    }
    s
}

fn parameters(table: &ParamTable) -> String {
    let one = |(param, default, about): (&Param, String, &str)| {
        let head =
            format!("`{}`, {}, default {default}, from {}", param.name, unit(param.kind), param.range());
        wrapped(&format!("{head}: {}", prose(about)), "- ", "  ")
    };
    table.described().map(one).collect()
}

/// What a parameter counts, and with which units it is written.
fn unit(kind: Kind) -> &'static str {
    match kind {
        Kind::Count => "a number",
        Kind::Gain => "a ratio",
        Kind::Percent => "a whole share in %",
        Kind::Permille => "a share in %",
        Kind::Micros => "a time in us, ms or s",
        Kind::Millis => "a time in ms or s",
        Kind::Rate => "a rate in bit, kbit, mbit or gbit",
        Kind::Bytes => "a size in B, kB or MB",
    }
}
