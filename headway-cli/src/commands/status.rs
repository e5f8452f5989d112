//! `headway status`: what is enabled, what of it is in force, and why the rest is not.

use crate::error::sentence;
use crate::operate::default::{self, Other};
use crate::operate::enabled::{self, All, Enabled, FOLDER};
use crate::operate::machine::{Force, Machine};
use crate::operate::scope::Scope;
use crate::operate::{boot, confirm};
use crate::sys::out;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

#[derive(Args)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Status {
    /// Whether everything that is enabled is in force, and nothing waits for a word of the user's.
    ok: bool,
    /// What the user should know first, a sentence each.
    notes: Vec<String>,
    controllers: Vec<Controller>,
    /// What new connections of this network namespace get.
    default: String,
    /// The other network namespaces with another default. They are no fault: what exists is not changed.
    other_defaults: Vec<OtherDefault>,
}

/// A network namespace, a container's mostly, with another default than ours.
#[derive(Serialize)]
struct OtherDefault {
    /// Its inode, as `lsns -t net` shows it.
    netns: u64,
    /// A process in it.
    pid: u32,
    default: String,
}

#[derive(Serialize)]
struct Controller {
    name: String,
    controller: String,
    parameters: Vec<String>,
    in_force: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
    /// Sockets that use it now, in all network namespaces.
    sockets: u64,
    /// Connections that started with it or switched to it since it was loaded.
    flows: u64,
    /// Of these, those that found no memory for its state and run plain AIMD.
    without_storage: u64,
    loaded_seconds: u64,
    scopes: Vec<Of>,
}

/// A scope of a controller.
#[derive(Serialize)]
struct Of {
    scope: String,
    in_force: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
    /// Connections that were given the controller, and those where the kernel refused. Not known of defaults and routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<u64>,
}

/// What monitoring asks: anything else than 0 deserves a look.
const NOT_IN_FORCE: u8 = 3;

/// Exit code 0 where all that is enabled is in force, and 3 where something is not.
pub fn run(args: StatusArgs) -> Result<ExitCode> {
    let all = enabled::read(Path::new(FOLDER))?;
    let machine = Machine::look()?;
    let status = status(&all, &machine);
    match args.json {
        true => out::say(serde_json::to_string_pretty(&status)?)?,
        false => out::print(text(&status, &machine))?,
    }
    Ok(ExitCode::from(if status.ok { 0 } else { NOT_IN_FORCE }))
}

fn status(all: &All, machine: &Machine) -> Status {
    let mut notes = Vec::new();
    notes.extend(boot::why_skipped().map(|why| why + "; `headway apply` puts it in force now"));
    notes.extend(
        confirm::pending().map(|p| {
            format!("a change goes back in {} s unless you run `headway confirm`", p.seconds_left())
        }),
    );
    notes.extend(all.refused.iter().map(|(_, why)| sentence(why).replace("\nhint: ", "; ")));
    notes.extend(all.check().err().map(|e| sentence(&e).replace("\nhint: ", "; ")));
    let controllers: Vec<Controller> = all.enabled.iter().map(|e| controller(e, machine)).collect();
    let ok =
        notes.is_empty() && controllers.iter().all(|c| c.in_force && c.scopes.iter().all(|s| s.in_force));
    let default = machine.default.clone();
    let other_defaults = default::others()
        .into_iter()
        .filter(|other| other.default != default)
        .map(|Other { netns, default }| OtherDefault { netns: netns.inode, pid: netns.pid, default })
        .collect();
    Status { ok, notes, controllers, default, other_defaults }
}

fn controller(enabled: &Enabled, machine: &Machine) -> Controller {
    let (in_force, why_not) = said(machine.controller(enabled));
    let loaded = machine.loaded(&enabled.name);
    let counters = loaded.and_then(|l| l.counters);
    let of = |scope: &Scope| {
        let (in_force, why_not) = said(machine.scope(&enabled.name, scope));
        let given = machine.given(&enabled.name, scope);
        Of {
            scope: scope.to_string(),
            in_force,
            why_not,
            given: given.map(|(given, _)| given),
            refused: given.map(|(_, refused)| refused),
        }
    };
    Controller {
        name: enabled.name.clone(),
        controller: enabled.controller.clone(),
        parameters: enabled.settings(),
        in_force,
        why_not,
        sockets: loaded.map_or(0, |l| l.users),
        flows: counters.map_or(0, |c| c.flows),
        without_storage: counters.map_or(0, |c| c.without_storage),
        loaded_seconds: loaded.map_or(0, |l| l.age.as_secs()),
        scopes: enabled.scopes.iter().map(of).collect(),
    }
}

fn said(force: Force) -> (bool, Option<String>) {
    match force {
        Force::Yes => (true, None),
        Force::No(why) => (false, Some(why)),
    }
}

fn text(status: &Status, machine: &Machine) -> String {
    let mut s = match (status.controllers.len(), status.ok) {
        (0, true) => "Nothing is enabled.\n".to_string(),
        (_, true) => "Everything that is enabled is in force.\n".to_string(),
        (_, false) => {
            "NOT everything that is enabled is in force; `headway apply` tries again.\n".to_string()
        }
    };
    for note in &status.notes {
        let _ = writeln!(s, "note: {note}");
    }
    for c in &status.controllers {
        let parameters = match c.parameters.is_empty() {
            true => String::new(),
            false => format!(" with {}", c.parameters.join(",")),
        };
        let own = if c.name == c.controller { String::new() } else { format!(" ({})", c.controller) };
        let _ = write!(s, "{}{own}{parameters}: ", c.name);
        let _ = match &c.why_not {
            Some(why) => writeln!(s, "NOT in force: {why}"),
            None => writeln!(
                s,
                "{} now, {} since it was loaded{}",
                counted(c.sockets, "socket"),
                counted(c.flows, "connection"),
                poor(c)
            ),
        };
        for of in &c.scopes {
            let given = match (of.given, of.refused) {
                (Some(given), Some(0)) => format!(", {} given", counted(given, "connection")),
                (Some(given), Some(refused)) => {
                    format!(", {} given, {refused} REFUSED by the kernel", counted(given, "connection"))
                }
                _ => String::new(),
            };
            let _ = match &of.why_not {
                Some(why) => writeln!(s, "  {}: NOT in force: {why}{given}", of.scope),
                None => writeln!(s, "  {}: in force{given}", of.scope),
            };
        }
        if c.scopes.is_empty() {
            s.push_str("  for sockets that choose it\n");
        }
    }
    let enabled = |name: &String| status.controllers.iter().any(|c| c.name == *name);
    let by_hand: Vec<&str> =
        machine.loaded.iter().map(|l| &l.name).filter(|n| !enabled(n)).map(String::as_str).collect();
    if !by_hand.is_empty() {
        let _ = writeln!(s, "loaded until the next boot, and not enabled: {}", by_hand.join(", "));
    }
    let _ = writeln!(s, "default of new connections: {}", status.default);
    if let Some(first) = status.other_defaults.first() {
        let n = counted(status.other_defaults.len() as u64, "other network namespace");
        let (by_default, pid) = (by_default(&status.other_defaults), first.pid);
        let _ = writeln!(
            s,
            "{n} with another default: {by_default} (process {pid} is in the first; --json names all)"
        );
    }
    s
}

/// `cubic in 3, bbr in 1`.
fn by_default(others: &[OtherDefault]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for other in others {
        *counts.entry(&other.default).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(default, n)| format!("{default} in {n}")).collect();
    counts.join(", ")
}

fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn poor(c: &Controller) -> String {
    match c.without_storage {
        0 => String::new(),
        n => format!("; {n} of them found no memory for its state and run plain AIMD"),
    }
}
