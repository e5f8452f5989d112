//! The page of the commands, from what clap knows of them.

use super::{prose, wrapped};
use clap::{Arg, Command};
use std::collections::BTreeSet;

/// Every subcommand that `--help` shows, with every flag.
pub fn page(program: Command) -> String {
    let mut program = program.name("headway").bin_name("headway");
    program.build();
    let mut s = String::from("# Commands\n\n");
    s += &description(&program);
    let shown: Vec<&Command> =
        program.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help").collect();
    s += "\n`headway --version` prints the version. `-h` prints the short help of a command, `--help` all of it.\n\n";
    for c in &shown {
        let about = c.get_about().map(ToString::to_string).unwrap_or_default();
        s += &wrapped(&format!("[`{0}`](#headway-{0}): {1}", c.get_name(), prose(&about)), "- ", "  ");
    }
    s.extend(shown.into_iter().map(|c| command(c, "##", "headway")));
    s
}

/// A command, and the commands of it. `before` are the words in front of its name.
fn command(of: &Command, level: &str, before: &str) -> String {
    let name = format!("{before} {}", of.get_name());
    let mut s = alone(of, level, &name);
    let nested = of.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
    s.extend(nested.map(|c| command(c, &format!("{level}#"), &name)));
    s
}

fn alone(command: &Command, level: &str, name: &str) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replace("\n       ", "\n");
    let mut s = format!("\n{level} {name}\n\n{}\n```text\n{usage}\n```\n", description(command));
    let args: Vec<&Arg> =
        command.get_arguments().filter(|a| !a.is_hide_set() && a.get_id() != "help").collect();
    let mut seen = BTreeSet::new();
    let headings = args.iter().map(|a| a.get_help_heading());
    let headings: Vec<Option<&str>> = headings.filter(|h| seen.insert(*h)).collect();
    for heading in &headings {
        match heading {
            Some(heading) => s += &format!("\n### {}: {}\n\n", command.get_name(), prose(heading)),
            None => s.push('\n'),
        }
        s.extend(args.iter().filter(|a| a.get_help_heading() == *heading).map(|a| argument(a)));
    }
    if let Some(after) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        s += "\n";
        s += &examples(&after.to_string());
    }
    s
}

fn description(command: &Command) -> String {
    let about = command.get_long_about().or_else(|| command.get_about());
    let paragraphs = about.map(ToString::to_string).unwrap_or_default();
    let paragraphs: Vec<String> = paragraphs.split("\n\n").map(sentence).collect();
    paragraphs.join("\n")
}

/// A paragraph that ends as one: short helps have no full stop.
fn sentence(paragraph: &str) -> String {
    let stop = if paragraph.trim_end().ends_with(['.', ':', '?']) { "" } else { "." };
    wrapped(&format!("{}{stop}", prose(paragraph)), "", "")
}

fn argument(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut paragraphs = help.split("\n\n");
    let mut head = format!("`{arg}`");
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|v| v.to_string_lossy().into_owned()).collect();
    let is_shown = arg.get_action().takes_values() && !arg.is_hide_default_value_set();
    if is_shown && !defaults.is_empty() {
        head += &format!(", default `{}`", defaults.join(","));
    }
    let mut s = wrapped(&format!("{head}: {}", prose(paragraphs.next().unwrap_or_default())), "- ", "  ");
    for paragraph in paragraphs {
        s += "\n";
        s += &wrapped(&prose(paragraph), "  ", "  ");
    }
    s
}

/// What stands below the flags. An indented part below `Examples:` is commands, which the tests of the manual run;
/// any other text stays as it is.
fn examples(text: &str) -> String {
    let mut s = String::new();
    for part in text.trim().split("\n\n") {
        let (title, rest) = part.split_once('\n').unwrap_or((part, ""));
        let lines: Vec<&str> = rest.lines().map(|l| l.strip_prefix("  ").unwrap_or(l)).collect();
        let is_code = rest.starts_with(' ');
        let language = if title == "Examples:" { "sh" } else { "text" };
        s += &match is_code {
            true => format!("{}\n\n```{language}\n{}\n```\n\n", prose(title), lines.join("\n")),
            false => wrapped(&prose(part), "", "") + "\n",
        };
    }
    s
}
