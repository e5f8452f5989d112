//! What is in force: read from the kernel and from systemd's drop-ins each time, never remembered.

use super::default;
use super::enabled::Enabled;
use super::scope::{Prefix, Scope};
use super::unit;
use crate::sys::route::{self, Route};
use anyhow::{Context, Result};
use headway_kernel::{Assigned, AssignedKind, Loaded};

#[derive(Debug)]
pub struct Machine {
    pub loaded: Vec<Loaded>,
    pub assigned: Vec<Assigned>,
    /// The default of this network namespace.
    pub default: String,
    pub routes: Vec<Route>,
    pub units: Vec<String>,
}

/// Whether something that is enabled is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Force {
    Yes,
    /// It is not, and this is why: part of a sentence.
    No(String),
}

impl Machine {
    pub fn look() -> Result<Machine> {
        Ok(Machine {
            loaded: headway_kernel::loaded()?,
            assigned: headway_kernel::assigned()?,
            default: default::get()?,
            routes: route::routes().context("cannot read the routes")?,
            units: unit::with_drop_in(),
        })
    }

    pub fn loaded(&self, name: &str) -> Option<&Loaded> {
        self.loaded.iter().find(|l| l.name == name)
    }

    pub fn assigned(&self, id: &str, kind: AssignedKind) -> Option<&Assigned> {
        self.assigned.iter().find(|a| a.id == id && a.kind == kind)
    }

    /// All routes to a prefix: there may be several, with different metrics.
    pub fn routes_to(&self, prefix: &Prefix) -> Vec<&Route> {
        let is_it = |r: &&Route| r.network == prefix.network && r.bits == prefix.bits;
        self.routes.iter().filter(is_it).collect()
    }

    /// Whether the controller itself is loaded as it is enabled.
    pub fn controller(&self, enabled: &Enabled) -> Force {
        match self.loaded(&enabled.name) {
            None => Force::No("it is not loaded".into()),
            Some(loaded) if loaded.controller != enabled.controller => {
                Force::No(format!("`{}` is loaded as {}", enabled.name, loaded.controller))
            }
            Some(loaded) if has_settings(loaded, enabled) => Force::Yes,
            Some(loaded) => Force::No(format!("it is loaded as {}", loaded.what())),
        }
    }

    /// Whether connections of a scope get the controller.
    pub fn scope(&self, name: &str, scope: &Scope) -> Force {
        let id = scope.id(name);
        match scope {
            Scope::Default if self.default == name => Force::Yes,
            Scope::Default => Force::No(format!("the default is `{}`", self.default)),
            Scope::Route(prefix) => self.route(name, prefix),
            Scope::Cgroup(path, _) => match self.assigned(&id, AssignedKind::Cgroup) {
                Some(Assigned { cgroup: Some(_), .. }) => Force::Yes,
                Some(_) => Force::No("the cgroup that it was attached to is gone".into()),
                None if !super::scope::cgroups().join(path).is_dir() => {
                    Force::No("there is no such cgroup".into())
                }
                None => Force::No("it is not attached".into()),
            },
            Scope::Port(_) => match self.assigned(&id, AssignedKind::Cgroup) {
                Some(_) => Force::Yes,
                None => Force::No("it is not attached".into()),
            },
            Scope::Unit(unit, _) => match self.assigned(&id, AssignedKind::Program) {
                Some(_) if self.units.contains(unit) => Force::Yes,
                Some(_) => Force::No("the unit has no drop-in of ours".into()),
                None => Force::No("the program that systemd is to attach is not there".into()),
            },
        }
    }

    fn route(&self, name: &str, prefix: &Prefix) -> Force {
        let routes = self.routes_to(prefix);
        match routes.iter().find(|r| r.cc.as_deref() != Some(name)) {
            _ if routes.is_empty() => Force::No("there is no such route".into()),
            None => Force::Yes,
            Some(Route { cc: Some(other), .. }) => Force::No(format!("the route asks for `{other}`")),
            Some(_) => Force::No("the route was made anew without it".into()),
        }
    }

    /// How many connections a scope has given its controller, and how many it could not.
    pub fn given(&self, name: &str, scope: &Scope) -> Option<(u64, u64)> {
        let id = scope.id(name);
        let all: Vec<&Assigned> = self.assigned.iter().filter(|a| a.id == id).collect();
        (!all.is_empty()).then(|| (all.iter().map(|a| a.given).sum(), all.iter().map(|a| a.refused).sum()))
    }
}

/// Both are the parameters that are not at their defaults, though a file may also name some that are.
fn has_settings(loaded: &Loaded, enabled: &Enabled) -> bool {
    let wanted = enabled.order().map(|order| order.settings());
    wanted.is_ok_and(|wanted| loaded.settings.as_ref() == Some(&wanted))
}
