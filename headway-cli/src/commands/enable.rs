//! `headway enable`, `disable`, `tune`: controllers that are there after the next boot, too.

use crate::error::usage;
use crate::operate::change::{self, Change};
use crate::operate::enabled::{self, All, Enabled, FOLDER};
use crate::operate::scope::{self, Ports, Prefix, Scope, cgroups};
use crate::operate::{others, state, unit};
use crate::plan::time;
use crate::sys::out;
use crate::sys::route;
use anyhow::{Result, anyhow, ensure};
use clap::Args;
use headway_kernel::Order;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// Which connections.
#[derive(Args)]
pub struct Scopes {
    /// Connections that choose no controller
    ///
    /// Those of this network namespace, and of namespaces (containers) that are made later.
    #[arg(long)]
    default: bool,
    /// Connections over a route that there is
    ///
    /// As `ip route` shows it, such as 192.0.2.0/24 or default (::/0 for IPv6). The route keeps all else that it has.
    #[arg(long, value_name = "PREFIX")]
    route: Vec<String>,
    /// Connections of the processes in a cgroup
    ///
    /// A path below /sys/fs/cgroup. With --port only those on these ports.
    #[arg(long, value_name = "PATH")]
    cgroup: Vec<String>,
    /// Connections of a systemd unit
    ///
    /// Whenever it starts. A socket that systemd opens for a service (socket activation) is systemd's: use --port
    /// there. With --port only those on these ports.
    #[arg(long, value_name = "NAME.service")]
    unit: Vec<String>,
    /// Connections from or to these ports
    ///
    /// A number or a range (8000-8010), several with commas. With --cgroup or --unit only theirs.
    #[arg(long, value_name = "N[-M]", value_delimiter = ',')]
    port: Vec<String>,
}

impl Scopes {
    fn scopes(&self) -> Result<Vec<Scope>> {
        let ports = Ports::of(&self.port)?;
        let mut all = Vec::new();
        all.extend(self.default.then_some(Scope::Default));
        for text in &self.route {
            all.push(Scope::Route(text.parse::<Prefix>()?));
        }
        for path in &self.cgroup {
            all.push(Scope::Cgroup(scope::cgroup(path)?, ports.clone()));
        }
        for name in &self.unit {
            all.push(Scope::Unit(scope::unit(name)?, ports.clone()));
        }
        if self.cgroup.is_empty() && self.unit.is_empty() && !ports.0.is_empty() {
            all.push(Scope::Port(ports));
        }
        Ok(all)
    }
}

#[derive(Args)]
pub struct EnableArgs {
    /// One of our controllers, as `headway list` shows them
    #[arg(value_name = "CONTROLLER")]
    cc: String,
    #[command(flatten)]
    scopes: Scopes,
    /// Its name for sockets [default: the controller's]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Parameters to change, with commas
    ///
    /// `headway list --params CONTROLLER` shows all with their defaults and ranges.
    #[arg(long = "set", value_name = "PARAM=VALUE", value_delimiter = ',')]
    settings: Vec<String>,
    /// Go back after this time unless confirmed
    ///
    /// For a server that you reach over the network: if the change cuts you off, it goes back, also when the machine
    /// is switched off and on. `headway confirm` makes it stay.
    #[arg(long, value_name = "TIME", value_parser = time::seconds)]
    confirm: Option<u32>,
}

impl EnableArgs {
    /// What is to be enabled, once it is known that there can be such a thing.
    pub fn wanted(&self) -> Result<Enabled> {
        let name = self.name.as_deref().unwrap_or(&self.cc);
        usage(Order::new(&self.cc, Some(name), &self.settings))?;
        let setting =
            |s: &String| s.split_once('=').map(|(n, v)| (n.trim().to_string(), v.trim().to_string()));
        Ok(Enabled {
            name: name.into(),
            controller: self.cc.clone(),
            parameters: self.settings.iter().filter_map(setting).collect(),
            scopes: usage(self.scopes.scopes())?,
        })
    }
}

/// Enables a controller, or gives one that is enabled more scopes, and other parameters where some are named.
pub fn enable(args: EnableArgs) -> Result<ExitCode> {
    let mut wanted = args.wanted()?;
    if let Some(code) = change::in_second_process()? {
        return Ok(code);
    }
    let _alone = state::lock()?;
    let all = enabled::read(Path::new(FOLDER))?;
    demand_readable(&all, &wanted.name)?;
    wanted.scopes.iter().try_for_each(is_there)?;
    if let Some(old) = all.find(&wanted.name) {
        ensure!(
            old.controller == wanted.controller,
            "`{}` is enabled already, as {}\nhint: `headway disable {}` first, or give this one another name with --as",
            old.name,
            old.controller,
            old.name
        );
        let new = std::mem::take(&mut wanted.scopes);
        wanted.scopes = old.scopes.clone();
        wanted.scopes.extend(new.into_iter().filter(|s| !old.scopes.contains(s)));
        if wanted.parameters.is_empty() {
            wanted.parameters = old.parameters.clone();
        }
    }
    let outcome = change::make(&[Change::Put(wanted.clone())], args.confirm.map(u64::from))?;
    match outcome.done.is_empty() && outcome.failed.is_empty() {
        true => out::say(format_args!("`{}` is enabled so already", wanted.name))?,
        false => change::tell(&outcome)?,
    }
    warn(&wanted);
    if let Some(seconds) = args.confirm {
        out::say(format_args!("it goes back in {seconds} s unless you run: headway confirm"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A file that cannot be read must not be overwritten: it may be of a newer version.
fn demand_readable(all: &All, name: &str) -> Result<()> {
    match all.refused.iter().find(|(refused, _)| refused == name) {
        Some((_, why)) => Err(anyhow!("{}", crate::error::sentence(why))),
        None => Ok(()),
    }
}

/// Fails for a scope of something that this machine does not have.
fn is_there(scope: &Scope) -> Result<()> {
    match scope {
        Scope::Default | Scope::Port(_) => Ok(()),
        Scope::Unit(name, _) => unit::find(name).map(drop),
        Scope::Cgroup(path, _) => {
            let folder = cgroups().join(path);
            ensure!(
                folder.is_dir(),
                "there is no cgroup {}\nhint: `systemd-cgls` shows them",
                folder.display()
            );
            Ok(())
        }
        Scope::Route(prefix) => {
            let routes = route::routes()?;
            let is_it = |r: &route::Route| r.network == prefix.network && r.bits == prefix.bits;
            ensure!(
                routes.iter().any(is_it),
                "there is no route {prefix}\nhint: `ip route` and `ip -6 route` show them; make it first: `ip route add {prefix} via GATEWAY`"
            );
            Ok(())
        }
    }
}

/// What the user should know that is no failure.
fn warn(enabled: &Enabled) {
    let mut warnings = Vec::new();
    if enabled.is_default() {
        warnings.extend(others::warnings(&enabled.name));
    }
    for scope in &enabled.scopes {
        let Scope::Unit(name, _) = scope else { continue };
        if let Ok(unit) = unit::find(name)
            && !unit.sockets.is_empty()
        {
            let sockets = unit.sockets.join(" and ");
            warnings.push(format!(
                "{name} gets its listening socket from {sockets}, so connections to it belong to systemd: enable `--port` for them."
            ));
        }
    }
    if !unit::has_boot_unit() {
        warnings.push(
            "nothing puts this in force at the next boot, because headway.service is not enabled: `systemctl enable headway.service \
             headway-late.service`, or run `headway apply --boot` in whatever starts this machine."
                .into(),
        );
    }
    if enabled.scopes.is_empty() {
        warnings
            .push(format!("no connection gets `{}` by itself: only sockets that choose it.", enabled.name));
    }
    for warning in warnings {
        out::note(format_args!("note: {warning}"));
    }
}

#[derive(Args)]
pub struct DisableArgs {
    /// Names, as `headway status` shows them
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    name: Vec<String>,
    /// Everything that is enabled
    #[arg(long, conflicts_with_all = ["default", "route", "cgroup", "unit", "port"])]
    all: bool,
    #[command(flatten)]
    scopes: Scopes,
}

impl DisableArgs {
    pub fn scopes(&self) -> Result<Vec<Scope>> {
        usage(self.scopes.scopes())
    }
}

/// Disables controllers, or takes scopes from them.
pub fn disable(args: DisableArgs) -> Result<ExitCode> {
    let scopes = args.scopes()?;
    if let Some(code) = change::in_second_process()? {
        return Ok(code);
    }
    let _alone = state::lock()?;
    let all = enabled::read(Path::new(FOLDER))?;
    let names: Vec<String> = match args.all {
        true => all
            .enabled
            .iter()
            .map(|e| e.name.clone())
            .chain(all.refused.iter().map(|(n, _)| n.clone()))
            .collect(),
        false => args.name,
    };
    let mut changes = Vec::new();
    for name in names {
        changes.push(without(&all, name, &scopes)?);
    }
    let outcome = change::make(&changes, None)?;
    match outcome.done.is_empty() && outcome.failed.is_empty() {
        true => out::say("nothing of it was in force")?,
        false => change::tell(&outcome)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn without(all: &All, name: String, scopes: &[Scope]) -> Result<Change> {
    let Some(old) = all.find(&name) else {
        let refused = all.refused.iter().any(|(refused, _)| *refused == name);
        ensure!(
            refused && scopes.is_empty(),
            "`{name}` is not enabled\nhint: `headway status` shows what is"
        );
        return Ok(Change::Remove(name));
    };
    if scopes.is_empty() {
        return Ok(Change::Remove(name));
    }
    for scope in scopes {
        ensure!(
            old.scopes.contains(scope),
            "`{name}` is not enabled for {scope}\nhint: `headway status` shows for what it is"
        );
    }
    let left = old.scopes.iter().filter(|s| !scopes.contains(s)).cloned().collect();
    Ok(Change::Put(Enabled { scopes: left, ..old.clone() }))
}

#[derive(Args)]
pub struct TuneArgs {
    /// Its name, as `headway status` and `headway list --loaded` show it
    name: String,
    /// Parameters to change, with commas
    ///
    /// All others stay as they are.
    #[arg(
        long = "set",
        value_name = "PARAM=VALUE",
        value_delimiter = ',',
        required_unless_present = "reset"
    )]
    settings: Vec<String>,
    /// Defaults for all that --set does not name
    #[arg(long)]
    reset: bool,
}

/// New parameters for a controller that is enabled or loaded.
pub fn tune(args: TuneArgs) -> Result<ExitCode> {
    if let Some(code) = change::in_second_process()? {
        return Ok(code);
    }
    let _alone = state::lock()?;
    let all = enabled::read(Path::new(FOLDER))?;
    demand_readable(&all, &args.name)?;
    if let Some(old) = all.find(&args.name) {
        let parameters = changed(&old.settings(), &args);
        let new = Enabled { parameters, ..old.clone() };
        usage(new.order())?;
        let outcome = change::make(&[Change::Put(new)], None)?;
        match outcome.done.is_empty() && outcome.failed.is_empty() {
            true => out::say(format_args!("`{}` has these parameters already", args.name))?,
            false => change::tell(&outcome)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let loaded = headway_kernel::loaded()?.into_iter().find(|l| l.name == args.name);
    let Some(loaded) = loaded else {
        anyhow::bail!(
            "`{}` is neither enabled nor loaded\nhint: `headway status` and `headway list --loaded` show what is",
            args.name
        )
    };
    let parameters = changed(&loaded.settings.unwrap_or_default(), &args);
    let settings: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let order = usage(Order::new(loaded.controller, Some(&args.name), settings))?;
    let tuned = order.tune()?;
    out::say(format_args!("`{}` is tuned: {}", args.name, tuned.loaded.what()))?;
    Ok(ExitCode::SUCCESS)
}

fn changed(old: &[String], args: &TuneArgs) -> BTreeMap<String, String> {
    let pairs = |settings: &[String]| -> Vec<(String, String)> {
        let pair = |s: &String| s.split_once('=').map(|(n, v)| (n.trim().to_string(), v.trim().to_string()));
        settings.iter().map(|s| pair(s).unwrap_or((s.clone(), String::new()))).collect()
    };
    let kept = if args.reset { Vec::new() } else { pairs(old) };
    kept.into_iter().chain(pairs(&args.settings)).collect()
}
