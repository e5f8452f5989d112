//! Which flows are shown.

use super::look::Seen;
use crate::operate::scope::{Ports, Prefix};
use anyhow::{Result, ensure};
use clap::Args;
use headway_kernel::Model;

#[derive(Args, Debug, Default)]
pub struct FilterArgs {
    /// Only of these controllers, with commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    cc: Vec<String>,
    /// Only to peers in this network
    ///
    /// An address, or a prefix such as 192.0.2.0/24 or 2001:db8::/32.
    #[arg(long, value_name = "PREFIX")]
    peer: Option<Prefix>,
    /// Only from or to these ports
    ///
    /// A number or a range (8000-8010), several with commas.
    #[arg(long, value_name = "N[-M]", value_delimiter = ',')]
    port: Vec<String>,
    /// Only of cgroups whose path has this in it
    ///
    /// Such as nginx.service, or kubepods.
    #[arg(long, value_name = "TEXT")]
    cgroup: Option<String>,
    /// Only in this state, such as startup or cruise
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only flows on which the brake is
    #[arg(long)]
    braking: bool,
}

/// The same, read.
#[derive(Debug)]
pub struct Filter {
    args: FilterArgs,
    ports: Ports,
}

impl FilterArgs {
    pub fn read(self) -> Result<Filter> {
        let ports = Ports::of(&self.port)?;
        if let Some(state) = &self.state {
            ensure!(
                Model::PHASES.contains(&state.as_str()),
                "no controller has a state `{state}`\nhint: {}",
                Model::PHASES.join(", ")
            );
        }
        Ok(Filter { args: self, ports })
    }
}

impl Filter {
    /// Whether it asks for the path of the cgroup at all.
    pub fn asks_cgroup(&self) -> bool {
        self.args.cgroup.is_some()
    }

    /// Whether this one is shown; `cgroup` is the path of its cgroup.
    pub fn takes(&self, seen: &Seen, cgroup: &str) -> bool {
        let (args, socket) = (&self.args, &seen.socket);
        let has_port = |port: u16| self.ports.0.iter().any(|(first, last)| (*first..=*last).contains(&port));
        (args.cc.is_empty() || args.cc.iter().any(|name| *name == *socket.name))
            && args.peer.is_none_or(|prefix| prefix.has(socket.peer.ip()))
            && (self.ports.0.is_empty() || has_port(socket.local.port()) || has_port(socket.peer.port()))
            && args.cgroup.as_ref().is_none_or(|text| cgroup.contains(text.as_str()))
            && args.state.as_ref().is_none_or(|state| seen.model().is_some_and(|m| m.phase == state))
            && (!args.braking || seen.model().is_some_and(|m| m.brake.is_on()))
    }
}
