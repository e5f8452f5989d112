//! BBRv1 and BBRv3 in the Linux kernel that you already run, from your own program.
//!
//! [`attach`] loads a controller as a BPF `struct_ops` program and registers it as a TCP congestion control. Any
//! socket can then choose it by name, like `cubic`, and it is gone when your program drops it. Nothing is built into
//! the kernel and no module is loaded; it takes Linux 6.0 or newer with BTF, and root (or CAP_BPF, CAP_PERFMON and
//! CAP_NET_ADMIN).
//!
//! ```no_run
//! # use std::net::TcpStream;
//! let bbr3 = headway_kernel::attach("bbr3:default_cwnd_gain=2.5", &Default::default())?;
//! let socket = TcpStream::connect("192.0.2.1:443").unwrap();
//! rustix::net::sockopt::set_tcp_congestion(&socket, bbr3.name()).unwrap();
//! // … send …
//! println!("{:?}", bbr3.counters()?);
//! # Ok::<(), headway_kernel::Error>(())
//! ```
//!
//! `examples/attach.rs` is a whole program. What one gets:
//!
//! | to | use |
//! | --- | --- |
//! | see what can be attached, and what the kernel has already | [`available`], [`params_text`] |
//! | find out why a machine cannot | [`needs`], [`load_needs`], [`watch_needs`]; every [`Error`] says it too, with a hint |
//! | use a controller while your program runs | [`attach`], [`Attached`] |
//! | have a controller that stays until it is unloaded or the machine boots | [`Order`], [`loaded`], [`unload`]; [`Order::tune`] gives it new parameters |
//! | give it to the connections of a cgroup or of some ports, whatever their programs choose | [`assign`], [`Assignment`] |
//! | let a coin decide between two controllers for new connections, and have a record of how each went | [`Trial`], [`TrialOptions`], [`Record`] |
//! | record every event a controller saw, and every decision it took | [`Options::trace`], [`Attached::trace`] |
//! | see every flow of these controllers as it is now, in all network namespaces | [`Watcher`] |
//! | check such a record against the controller's Rust twin | [`replay`] |
//!
//! The controllers are `bbr1`, `bbr3`, both with the brake, `bbr1_brake` and `bbr3_brake`, and `headway`. Their C is in `bpf/`;
//! the crate [`headway_cc`] has the same controllers in Rust, and tests hold the two equal bit for bit. Settings are
//! written `NAME:PARAM=VALUE:PARAM=VALUE`.
//!
//! **What must not outlive your program.** From Linux 6.4 on a registration hangs on a file descriptor, so not even `kill -9`
//! leaves it behind. Before, it goes when [`Attached`] is dropped; a program that ends on a signal without dropping
//! it must run [`Attached::undo`] from its signal handling. This crate installs no signal handler.
//!
//! **What libbpf prints.** While a program is loaded, libbpf's print callback, of which a process has one, is ours.

#![warn(missing_docs)]

mod assign;
mod btf;
mod calls;
mod error;
mod flows;
mod iterator;
mod listeners;
mod loaded;
mod need;
mod netns;
mod object;
#[cfg(test)]
mod private;
mod programs;
mod replay;
#[cfg(test)]
mod root_tests;
mod trace;
mod trial;
mod tune;

use std::fs;
use std::io::Write;

use headway_cc::cc::name_and_settings;
use libbpf_rs::{Link, MapCore, MapHandle, Object};

pub use assign::{
    Assigned, AssignedKind, Assignment, assign, assign_program, assigned, assigned_program, unassign,
};
pub use error::{Error, ErrorKind, Result};
pub use flows::{Brake, Flow, Model, Socket, Watcher};
pub use loaded::{Loaded, Order, loaded, unload};
pub use need::{Check, load_needs, needs, watch_needs};
pub use netns::Netns;
pub use programs::params_text;
pub use replay::{ReplayReport, replay};
pub use trace::{Trace, Traced};
pub use trial::{
    Direction, End, Neighbour, Neighbours, Record, Trial, TrialCounters, TrialOptions, TrialUnit,
};
pub use tune::Tuned;

use btf::Api;
use error::{Context, ensure};
use need::demand_bpf;
use object::{COUNTERS, ONLY_KEY, RING, TABLE, Wanted, load, map_of, put_in_force, read_counters, table_of};
use programs::{PROGRAMS, Program, check_name, free_name};
use trace::Columns;

/// What the running kernel can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// What sockets can choose now, our attached and loaded ones included. Empty where it cannot be read.
    pub registered: Vec<String>,
    /// What [`attach`] and [`Order::new`] take.
    pub attachable: Vec<&'static str>,
}

/// Lists the congestion controls of the running kernel, and ours.
pub fn available() -> Available {
    let registered = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    Available {
        registered: registered.unwrap_or_default().split_whitespace().map(Into::into).collect(),
        attachable: PROGRAMS.iter().map(|p| p.name).collect(),
    }
}

/// Whether sockets can choose a congestion control of this name now.
pub fn is_registered(name: &str) -> bool {
    available().registered.iter().any(|r| r == name)
}

/// Release of the running kernel, as `uname -r` prints it; empty where it cannot be read.
pub fn release() -> String {
    read_line("/proc/sys/kernel/osrelease").unwrap_or_default()
}

/// How to attach.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The name in the kernel: 1 to 15 letters, digits or `_`. By default it is the controller's own, or where that
    /// is taken, `hw_` and the process id.
    pub name: Option<String>,
    /// Record every event, to be read by [`Attached::trace`]. Takes 16 MB of the kernel's memory while attached.
    pub trace: bool,
}

/// Registers the controller `cc`, with the settings that follow its name if any (`bbr3:default_cwnd_gain=2.5`), with
/// the running kernel.
///
/// Fails when the controller or a setting is unknown, when the kernel or the user's rights do not allow it (the hint
/// says what to do), or when the name is taken.
pub fn attach(cc: &str, options: &Options) -> Result<Attached> {
    let (own, settings) = name_and_settings(cc);
    let program = Program::named(own)?;
    let name = options.name.clone().unwrap_or_else(|| free_name(program.name));
    check_name(&name)?;
    let params = program.params.with(settings).with_context(|| format!("cannot set `{cc}`"))?;
    let wanted = Wanted { params, ..Wanted::new(program, &name, options.trace) };
    let attached = demand_bpf().and_then(|()| register(&wanted));
    attached.with_context(|| format!("cannot attach `{name}`"))
}

fn register(wanted: &Wanted<'_>) -> Result<Attached> {
    let api = Api::of_kernel()?;
    let mut object = load(wanted, &api)?;
    let undo = match api.has_links {
        true => None,
        false => Some(Undo(map_of(&object, TABLE)?)),
    };
    let link = put_in_force(&mut table_of(&mut object)?)?;
    let &Wanted { program, name, trace, ref params, .. } = wanted;
    let name = name.to_string();
    Ok(Attached { _link: link, undo, object, name, program, params: params.clone(), has_trace: trace })
}

/// A registered controller, unregistered on drop. Sockets that still use it then keep it until they close.
#[derive(Debug)]
pub struct Attached {
    // Fields drop in this order: the name goes first, then the programs.
    _link: Link,
    undo: Option<Undo>,
    object: Object,
    name: String,
    program: &'static Program,
    params: Vec<u64>,
    /// The trace was asked for and not taken yet.
    has_trace: bool,
}

/// What the programs counted since they were attached or loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Connections that started with this controller or switched to it.
    pub flows: u64,
    /// Of these, those that got no socket storage for their state and keep it in a spare table.
    pub spare: u64,
    /// Of the flows, those that found no room there either. They run plain AIMD, so measuring them says nothing about
    /// the controller.
    pub without_storage: u64,
    /// Events offered to the trace.
    pub traced: u64,
    /// Of these, those that found the trace's ring full.
    pub trace_lost: u64,
    /// For `bbr3`: ACKs and losses for which it is not known how much was in flight when their packet was sent.
    pub unknown: u64,
    /// For `bbr3`: packets marked lost that could not be found, so that the controller was told of them with the data
    /// of another packet.
    pub unfound: u64,
    /// What the flows did that have ended.
    pub past: Past,
}

/// What flows did that are no longer ours: closed, or gone to another controller. Those without storage are not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// How many there were.
    pub flows: u64,
    /// What they transferred while they were ours.
    pub bytes: Bytes,
    /// How often the brake was put on.
    pub brake_entries: u64,
}

/// What flows have transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Acknowledged by the peer.
    pub acked: u64,
    /// Sent, for the first time or again.
    pub sent: u64,
    /// Of these, sent again.
    pub retransmitted: u64,
}

impl Attached {
    /// The name that sockets choose, by `TCP_CONGESTION` of `setsockopt`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts to write the trace to `sink`, one line an event, until [`Trace::finish`].
    ///
    /// Fails when the trace was not asked for in [`Options::trace`], and the second time.
    pub fn trace(&mut self, sink: impl Write + Send + 'static) -> Result<Trace> {
        ensure!(self.has_trace, "`{}` has no trace, or it was taken already", self.name);
        self.has_trace = false;
        let columns = Columns::of(self.program, &self.params)?;
        Trace::start(map_of(&self.object, RING)?, map_of(&self.object, COUNTERS)?, columns, Box::new(sink))
    }

    /// Reads the programs' counters.
    pub fn counters(&self) -> Result<Counters> {
        read_counters(&map_of(&self.object, COUNTERS)?)
    }

    /// What takes the registration away when the process is about to end without dropping `self`, for the code to run
    /// that the program runs on Ctrl-C. `None` where the kernel does that by itself (Linux 6.4 or newer), and the
    /// second time.
    pub fn undo(&mut self) -> Option<Undo> {
        self.undo.take()
    }
}

/// Takes away a registration that would outlive the process. Does nothing on drop.
#[derive(Debug)]
pub struct Undo(MapHandle);

impl Undo {
    /// Takes it away; does nothing when that has happened already.
    pub fn run(self) {
        let _ = self.0.delete(&ONLY_KEY);
    }
}

/// A file of one line, such as those under `/proc`.
fn read_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_controller_is_refused_by_name() {
        let error = attach("bbr9", &Options::default()).unwrap_err().to_string();
        assert!(error.contains("`bbr9`") && error.contains("`bbr1`"), "{error}");
    }
}
