//! Making the machine follow what is enabled.
//!
//! Each step looks at what is there and changes only what differs, so that applying twice is applying once, and
//! applying after a `kill -9` finishes what was begun. What connections notice is always one step of the kernel: a
//! sysctl is written, a program is attached, a route is replaced. The order is: controllers first, then what points
//! at them; and on the way out what points at a controller before the controller, so that nothing ever names a
//! congestion control that is not there.

use super::default;
use super::enabled::{All, Enabled};
use super::machine::{Force, Machine};
use super::scope::{Scope, cgroups};
use super::state::{SetRoute, State};
use super::unit;
use crate::sys::route::Route;
use anyhow::{Context, Result, anyhow};
use headway_kernel::{self as kernel, Assigned, AssignedKind, Assignment, ErrorKind};
use std::path::{Path, PathBuf};

/// What applying did, and what it could not do.
#[derive(Debug, Default)]
pub struct Outcome {
    pub done: Vec<String>,
    /// What could not be done, with the name of the controller that it is about.
    pub failed: Vec<(String, anyhow::Error)>,
}

/// Puts in force what is enabled, and takes away what was and is no longer. What fails is collected, and the rest is
/// done: a cgroup that is not there must not keep the default from being set.
pub fn apply(all: &All) -> Result<Outcome> {
    let mut work =
        Work { all, machine: Machine::look()?, state: State::read()?, outcome: Outcome::default() };
    work.load()?;
    work.attach();
    work.set_routes()?;
    work.set_default()?;
    work.take_back_routes()?;
    work.detach();
    work.unload()?;
    Ok(work.outcome)
}

struct Work<'a> {
    all: &'a All,
    machine: Machine,
    state: State,
    outcome: Outcome,
}

impl Work<'_> {
    fn done(&mut self, what: impl Into<String>) {
        self.outcome.done.push(what.into());
    }

    /// Keeps a failure, with what was being done.
    fn note<T>(&mut self, name: &str, outcome: Result<T>, what: impl FnOnce() -> String) -> Option<T> {
        outcome.map_err(|e| self.outcome.failed.push((name.into(), e.context(what())))).ok()
    }

    /// Whether this name's file cannot be read, so that what it had put in force stays.
    fn is_kept(&self, name: &str) -> bool {
        self.all.refused.iter().any(|(refused, _)| refused == name)
    }

    fn load(&mut self) -> Result<()> {
        for enabled in &self.all.enabled {
            if self.machine.controller(enabled) == Force::Yes && self.state.loaded.contains(&enabled.name) {
                continue;
            }
            if self.state.loaded.insert(enabled.name.clone()) {
                self.state.write()?;
            }
            let is_there = self.machine.loaded(&enabled.name).is_some();
            let loaded = match self.machine.controller(enabled) {
                Force::Yes => continue,
                Force::No(_) if is_there => enabled.order().and_then(|o| o.tune()).map(|t| {
                    let gap = t.gap.map_or(String::new(), |g| {
                        format!(
                            "; for {} ms the kernel had no `{}`, and new connections got reno",
                            g.as_millis(),
                            enabled.name
                        )
                    });
                    format!("`{}` is tuned: {}{gap}", enabled.name, t.loaded.what())
                }),
                Force::No(_) => enabled
                    .order()
                    .and_then(|o| o.load())
                    .map(|l| format!("`{}` is loaded: {}", l.name, l.what())),
            };
            let what = || format!("`{}` is not in force", enabled.name);
            if let Some(said) = self.note(&enabled.name, loaded.map_err(Into::into), what) {
                self.done(said);
            }
        }
        self.machine.loaded = kernel::loaded()?;
        Ok(())
    }

    /// The controllers that can be pointed at.
    fn there(&self) -> impl Iterator<Item = &'_ Enabled> {
        self.all.enabled.iter().filter(|e| self.machine.loaded(&e.name).is_some())
    }

    fn attach(&mut self) {
        let all = self.all;
        let mut changed_units = false;
        for enabled in
            all.enabled.iter().filter(|e| self.machine.loaded(&e.name).is_some()).collect::<Vec<_>>()
        {
            for scope in &enabled.scopes {
                let attached = match scope {
                    Scope::Default | Scope::Route(_) => continue,
                    Scope::Unit(name, _) => {
                        self.attach_to_unit(enabled, scope, name).map(|(done, changed)| {
                            changed_units |= changed;
                            done
                        })
                    }
                    Scope::Cgroup(path, _) => self.attach_to_cgroup(enabled, scope, &cgroups().join(path)),
                    Scope::Port(_) => self.attach_to_cgroup(enabled, scope, &cgroups()),
                };
                let what = || format!("`{}` is not in force for {scope}", enabled.name);
                if self.note(&enabled.name, attached, what) == Some(true) {
                    self.done(format!("`{}` is for {scope}", enabled.name));
                }
            }
        }
        if changed_units {
            self.note("systemd", unit::reload(), || "systemd has not read its drop-ins again".into());
        }
    }

    fn attach_to_cgroup(&self, enabled: &Enabled, scope: &Scope, cgroup: &Path) -> Result<bool> {
        let id = scope.id(&enabled.name);
        match self.machine.assigned(&id, AssignedKind::Cgroup) {
            Some(Assigned { cgroup: Some(_), .. }) => return Ok(false),
            Some(_) => kernel::unassign(&id, AssignedKind::Cgroup)?, // of a cgroup that is gone, and may be there again
            None => {}
        }
        if !cgroup.is_dir() {
            return Err(anyhow!(
                "there is no cgroup {}\nhint: `headway apply` when it is there",
                cgroup.display()
            ));
        }
        kernel::assign(&id, &assignment(enabled, scope), cgroup)?;
        Ok(true)
    }

    /// Answers whether anything was done, and whether systemd must read its files again.
    fn attach_to_unit(&self, enabled: &Enabled, scope: &Scope, name: &str) -> Result<(bool, bool)> {
        let id = scope.id(&enabled.name);
        let is_new = self.machine.assigned(&id, AssignedKind::Program).is_none();
        if is_new {
            kernel::assign_program(&id, &assignment(enabled, scope))?;
        }
        let changed = unit::write_drop_in(name, &self.programs_of(name))?;
        // A unit that has started since has the program from systemd.
        let running = if is_new || changed { unit::find(name).ok().and_then(|u| u.cgroup) } else { None };
        if let Some(cgroup) = running {
            self.attach_to_cgroup(enabled, scope, &cgroups().join(cgroup))?;
        }
        Ok((is_new || changed, changed))
    }

    /// Of all controllers that a unit has for some of its ports.
    fn programs_of(&self, unit: &str) -> Vec<PathBuf> {
        let of = |enabled: &Enabled| {
            let is_it = |scope: &&Scope| matches!(scope, Scope::Unit(name, _) if name == unit);
            let path = |scope: &Scope| kernel::assigned_program(&scope.id(&enabled.name));
            enabled.scopes.iter().filter(is_it).map(path).collect::<Vec<_>>()
        };
        self.there().flat_map(of).collect()
    }

    fn set_routes(&mut self) -> Result<()> {
        let all = self.all;
        for enabled in
            all.enabled.iter().filter(|e| self.machine.loaded(&e.name).is_some()).collect::<Vec<_>>()
        {
            for scope in &enabled.scopes {
                let Scope::Route(prefix) = scope else { continue };
                let routes: Vec<Route> = self.machine.routes_to(prefix).into_iter().cloned().collect();
                let what = || format!("`{}` is not in force for {scope}", enabled.name);
                if routes.is_empty() {
                    let missing = anyhow!(
                        "there is no such route\nhint: `ip route` shows them; `headway apply` when it is there"
                    );
                    self.note(&enabled.name, Err::<(), _>(missing), what);
                }
                for route in routes.into_iter().filter(|r| r.cc.as_deref() != Some(enabled.name.as_str())) {
                    self.remember(&route, &prefix.to_string(), &enabled.name)?;
                    let set =
                        route.set_cc(Some(&enabled.name)).context("the kernel does not replace the route");
                    if self.note(&enabled.name, set, what).is_some() {
                        self.done(format!("`{}` is for {scope}", enabled.name));
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps what a route asked for before.
    fn remember(&mut self, route: &Route, prefix: &str, name: &str) -> Result<()> {
        let is_it = |r: &&mut SetRoute| r.prefix == prefix && r.priority == route.priority;
        match self.state.routes.iter_mut().find(is_it) {
            Some(known) => known.name = name.into(),
            None => self.state.routes.push(SetRoute {
                prefix: prefix.into(),
                priority: route.priority,
                name: name.into(),
                before: route.cc.clone(),
            }),
        }
        self.state.write()
    }

    fn set_default(&mut self) -> Result<()> {
        let wanted = self.there().find(|e| e.is_default()).map(|e| e.name.clone());
        let before = self.machine.default.clone();
        match wanted {
            Some(name) => {
                if self.state.default.as_ref() != Some(&name) {
                    if self.state.default.is_none() {
                        self.state.default_before = Some(before.clone()).filter(|b| *b != name);
                    }
                    self.state.default = Some(name.clone());
                    self.state.write()?;
                }
                if before != name
                    && self
                        .note(&name, default::set(&name), || format!("`{name}` is not the default"))
                        .is_some()
                {
                    self.done(format!("`{name}` is the default of new connections (it was `{before}`)"));
                }
            }
            None => self.take_default_back()?,
        }
        Ok(())
    }

    fn take_default_back(&mut self) -> Result<()> {
        let Some(ours) = self.state.default.clone() else { return Ok(()) };
        if self.is_kept(&ours) {
            return Ok(());
        }
        if self.machine.default == ours {
            self.give_up_default(&ours)?;
        }
        self.state.default = None;
        self.state.default_before = None;
        self.state.write()
    }

    /// Sets another default than this one of ours.
    fn give_up_default(&mut self, ours: &str) -> Result<()> {
        let names: Vec<&str> = self.machine.loaded.iter().map(|l| l.name.as_str()).collect();
        let next = default::fallback(self.state.default_before.as_deref(), &names);
        default::set(&next)?;
        self.machine.default = next.clone();
        self.done(format!("`{next}` is the default of new connections (it was `{ours}`)"));
        Ok(())
    }

    fn take_back_routes(&mut self) -> Result<()> {
        let set = std::mem::take(&mut self.state.routes);
        let all = self.all;
        let is_wanted = |r: &SetRoute| {
            let asks = |s: &Scope| matches!(s, Scope::Route(prefix) if r.is_of(prefix, r.priority));
            all.enabled.iter().any(|e| e.name == r.name && e.scopes.iter().any(asks))
        };
        let (keep, gone): (Vec<_>, Vec<_>) =
            set.into_iter().partition(|r| is_wanted(r) || self.is_kept(&r.name));
        self.state.routes = keep;
        for r in gone {
            let now = self.machine.routes.iter().find(|now| {
                let prefix = super::scope::Prefix { network: now.network, bits: now.bits };
                r.is_of(&prefix, now.priority) && now.cc.as_ref() == Some(&r.name)
            });
            let Some(route) = now.cloned() else { continue };
            let back = route.set_cc(r.before.as_deref()).context("the kernel does not replace the route");
            match self.note(&r.name, back, || format!("route {} still asks for `{}`", r.prefix, r.name)) {
                Some(()) => self.done(format!(
                    "route {} asks for {} again",
                    r.prefix,
                    r.before.as_deref().unwrap_or("nothing")
                )),
                None => self.state.routes.push(r),
            }
        }
        self.state.write()
    }

    fn detach(&mut self) {
        let wanted = |a: &Assigned| {
            self.all.enabled.iter().any(|e| e.scopes.iter().any(|s| s.id(&e.name) == a.id)) || {
                let name = a.id.rsplit_once('-').map_or("", |(name, _)| name);
                self.is_kept(name)
            }
        };
        let gone: Vec<_> =
            self.machine.assigned.iter().filter(|a| !wanted(a)).map(|a| (a.id.clone(), a.kind)).collect();
        let units = self.unwanted_units();
        for (id, kind) in gone {
            let away = kernel::unassign(&id, kind).map_err(Into::into);
            self.note(&id, away, || format!("`{id}` is still attached"));
        }
        let mut changed = false;
        for name in units {
            let removed = self
                .note(&name, unit::remove_drop_in(&name), || format!("the drop-in of {name} is still there"));
            changed |= removed == Some(true);
        }
        if changed {
            self.note("systemd", unit::reload(), || "systemd has not read its drop-ins again".into());
        }
    }

    /// Units with a drop-in of ours that no controller is for, unless a file that cannot be read might be.
    fn unwanted_units(&self) -> Vec<String> {
        let is_wanted = |unit: &String| {
            let is_it = |scope: &Scope| matches!(scope, Scope::Unit(name, _) if name == unit);
            self.all.enabled.iter().any(|e| e.scopes.iter().any(is_it))
        };
        match self.all.refused.is_empty() {
            true => self.machine.units.iter().filter(|u| !is_wanted(u)).cloned().collect(),
            false => Vec::new(),
        }
    }

    fn unload(&mut self) -> Result<()> {
        let is_enabled = |name: &String| self.all.find(name).is_some();
        let gone: Vec<String> =
            self.state.loaded.iter().filter(|n| !is_enabled(n) && !self.is_kept(n)).cloned().collect();
        for name in gone {
            // Nothing of it may be loaded and its file be left, by an unload that was killed halfway: this one removes it.
            // What has the name now may be somebody else's, whose namespaces are left alone.
            let left = match self.machine.loaded(&name) {
                Some(_) => self.leave_namespaces(&name),
                None => Ok(()),
            };
            let unloaded = left.and_then(|()| match kernel::unload(&name) {
                Err(e) if e.kind() == ErrorKind::NotLoaded => Ok(None),
                users => Ok(Some(users?)),
            });
            let Some(unloaded) = self.note(&name, unloaded, || format!("`{name}` is still loaded")) else {
                continue;
            };
            if let Some(users) = unloaded {
                let keep = match users {
                    0 => String::new(),
                    n => format!("; {n} sockets keep it until they close"),
                };
                self.done(format!("`{name}` is unloaded{keep}"));
            }
            self.state.loaded.remove(&name);
            self.state.write()?;
        }
        Ok(())
    }

    /// Gives the namespaces whose default is this name another one, our own first: its connections would get reno.
    fn leave_namespaces(&mut self, name: &str) -> Result<()> {
        if self.machine.default == name {
            self.give_up_default(name)?;
        }
        let next = self.machine.default.clone();
        let others = default::others().into_iter().filter(|other| other.default == name);
        let left = others.filter(|other| other.set(&next) || other.set("reno")).count();
        if left > 0 {
            self.done(format!(
                "`{next}` is the default of {left} other network namespaces, where it was `{name}`"
            ));
        }
        Ok(())
    }
}

fn assignment(enabled: &Enabled, scope: &Scope) -> Assignment {
    Assignment { cc: enabled.name.clone(), ports: scope.ports().0.clone() }
}
