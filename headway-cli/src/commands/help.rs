//! What `--help` says beside the flags: the commands in groups, and examples of each.

use crate::error::EXIT_CODES;
use clap::Command;

/// The commands by what they are for. Every command that is not hidden is in one group.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("Compare", &["bench", "trial", "report", "merge", "compare", "plan"]),
    (
        "Operate",
        &[
            "enable", "disable", "status", "watch", "metrics", "tune", "apply", "confirm", "load", "unload",
            "list",
        ],
    ),
    ("Look", &["sim", "emu", "replay"]),
    ("Exchange", &["import", "export"]),
    ("This machine", &["doctor", "kernel", "completions"]),
];

/// Examples of each command, with what they are for. A test reads each as a command line; `load` has its own, with
/// what follows them.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "bench",
        &[
            ("headway bench", "the kernel's bbr and ours, in the lab"),
            ("headway bench --in sim --cc bbr3,cubic --path lossy", "in seconds, no QEMU"),
            ("headway bench --path '50mbit 30ms queue=2bdp loss=0.5%'", "a path of your own"),
            ("headway bench --suite drop --dry-run", "what would run, and how long"),
            ("headway bench --resume RUN", "go on with what was interrupted"),
            ("headway bench --in sim --cc cubic,bbr3 --fail-if worse", "exit code 3 for CI"),
        ],
    ),
    (
        "report",
        &[
            ("headway report RUN", "its tables, and report.html"),
            ("headway report RUN --metric jain,srtt_us", "with more metrics"),
            ("headway report RUN --json", "for jq and other programs"),
        ],
    ),
    (
        "trial",
        &[
            ("headway trial plan --cc cubic --port 443", "what could be seen, in an hour"),
            ("headway trial --cc cubic,bbr3 --port 443 --for 24h", ""),
            ("headway trial --cc bbr,bbr3 --unit nginx.service --for 24h", ""),
            ("headway trial status", "how it goes"),
            ("headway trial --resume headway-trial-1", "after a kill or a reboot"),
            ("headway trial --cc cubic,bbr3 --for 1h --in sim", "in seconds, truth known"),
        ],
    ),
    ("merge", &[("headway merge part1 part2 --out RUN", "")]),
    (
        "compare",
        &[
            ("headway compare --summary means.csv --baseline cubic", ""),
            ("headway compare --summary delays.csv --lower --margin 5%", "less is better"),
        ],
    ),
    ("plan", &[("headway plan --in remote perf.example.org --cc cubic,bbr --pscheduler tasks", "")]),
    (
        "enable",
        &[
            ("headway enable bbr3 --default", "for all that choose nothing"),
            ("headway enable bbr3_brake --unit nginx.service --port 443", "one service only"),
            ("headway enable bbr3 --port 8000-8010", "in and out"),
            ("headway enable bbr3 --route default --confirm 10m", "goes back by itself"),
        ],
    ),
    (
        "disable",
        &[
            ("headway disable bbr3", ""),
            ("headway disable bbr3 --port 8000-8010", "keeps its other scopes"),
            ("headway disable --all", ""),
        ],
    ),
    ("status", &[("headway status", ""), ("headway status --json", "for monitoring")]),
    (
        "watch",
        &[
            ("headway watch", "live; Ctrl-C ends it"),
            ("headway watch --once --sort queue", "who queues most, now"),
            ("headway watch --follow 198.51.100.7:443", "one flow, with a chart"),
            ("headway watch --cgroup nginx.service --json", "a line a flow and second"),
        ],
    ),
    (
        "metrics",
        &[
            ("headway metrics", "once"),
            ("headway metrics --listen", "for Prometheus, on loopback"),
            ("headway metrics --textfile /var/lib/prometheus/node-exporter/headway.prom", ""),
        ],
    ),
    (
        "tune",
        &[
            ("headway tune bbr3 --set default_cwnd_gain=2.5", "all others stay"),
            ("headway tune bbr3 --reset", "the defaults"),
        ],
    ),
    ("apply", &[("headway apply", ""), ("headway apply --check", "are the files right?")]),
    ("confirm", &[("headway confirm", "")]),
    ("unload", &[("headway unload bbr1", ""), ("headway unload --all", "")]),
    (
        "list",
        &[
            ("headway list", "controllers, what is loaded, paths, suites"),
            ("headway list --params bbr3", "its parameters, with their ranges"),
            ("headway list --json", "all of it, for other programs"),
        ],
    ),
    (
        "sim",
        &[
            ("headway sim --cc bbr3 --path drop --seconds 1m", ""),
            ("headway sim --cc cubic,bbr3 --flows 2 --json", "two flows of each"),
            ("headway sim --pcap run.pcap", "look at it in wireshark"),
        ],
    ),
    (
        "emu",
        &[
            ("headway emu lossy", "a shell inside the path"),
            ("headway emu '20mbit 60ms' -- curl -O http://192.0.2.1/file", ""),
            ("headway emu clean --far 'iperf3 -s' -- sh -c 'iperf3 -c $HEADWAY_PEER'", ""),
        ],
    ),
    ("replay", &[("headway replay RUN/cells/000/acks.txt", "")]),
    (
        "import",
        &[
            ("headway import results/ --summary", "means, for headway compare"),
            ("headway import run1.json run2.flent.gz --cc bbr", ""),
        ],
    ),
    ("export", &[("headway export RUN --flent plots", "then open them in flent")]),
    ("doctor", &[("headway doctor", ""), ("headway doctor --json", "for other programs")]),
    (
        "kernel",
        &[
            ("headway kernel fetch", "the kernel of this distribution"),
            ("headway kernel fetch 6.12", "the newest that begins so"),
            ("headway kernel build 6.12 my.patch", "a small kernel with a patch"),
        ],
    ),
    ("completions", &[("headway completions bash > ~/.local/share/bash-completion/completions/headway", "")]),
];

/// The program's description of itself, with groups and examples.
pub fn dressed(program: Command) -> Command {
    let groups = groups(&program);
    let program = program.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\nOptions:\n{{options}}{{after-help}}"
    ));
    let codes = EXIT_CODES.iter().map(|(code, meaning)| format!("\n  {code}: {meaning}"));
    let program = program.after_long_help(format!("Exit codes:{}", codes.collect::<String>()));
    program.mut_subcommands(|c| match EXAMPLES.iter().find(|(name, _)| *name == c.get_name()) {
        Some((_, examples)) => c.after_help(text(examples)),
        None => c,
    })
}

fn groups(program: &Command) -> String {
    let line = |name: &&str| {
        let about = program.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
        format!("  {name:<13} {}\n", about.unwrap_or_default())
    };
    let group = |(title, names): &(&str, &[&str])| {
        format!("\n{title}:\n{}", names.iter().map(line).collect::<String>())
    };
    GROUPS.iter().map(group).collect()
}

/// A comment stands behind its command where both fit 80 columns.
fn text(examples: &[(&str, &str)]) -> String {
    let width = examples.iter().map(|(command, _)| command.len()).filter(|n| *n <= 50).max().unwrap_or(0);
    let line = |(command, why): &(&str, &str)| match why.is_empty() {
        true => format!("\n  {command}"),
        false => format!("\n  {command:<width$}  # {why}"),
    };
    format!("Examples:{}", examples.iter().map(line).collect::<String>())
}
