//! Measures over a real network path, to a server of iperf3 or iperf 2 that somebody else may own (`--in remote`).
//! This file settles once, before the first cell, what the whole run shares (`Session`), and it runs one cell
//! (`run_cell`). The emulated path is the business of `here.rs`. `bench` calls this room; the hidden command
//! `far-end` calls `far::serve`.

mod candidates;
mod changed;
pub mod far;
mod qdisc;

use crate::cell::loads::{GRACE, Loads};
use crate::cell::sender::{Sender, conclude};
use crate::cell::watch::{Seen, Site, Watch};
use crate::load::iperf;
use crate::observe::cpu;
use crate::observe::machine;
use crate::plan::tool::Tool;
use crate::plan::traffic::{Direction, Traffic};
use crate::plan::{Cell, Place, Plan};
use crate::raw;
use crate::raw::cell::CellResult;
use crate::raw::folder::write_atomic;
use anyhow::{Context, Result, bail, ensure};
use changed::Changed;
use far::{FarCc, FarEnd};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path as FsPath;

/// Time between two probes, in microseconds. 50 probes a second are half of what an emulated path gets, because a
/// real path and its server also belong to others.
const PROBE_INTERVAL_US: u64 = 20_000;

/// What all cells of the run share. Dropping it ends the program at the far end and puts the qdisc back.
#[derive(Debug)]
pub struct Session {
    server: SocketAddrV4,
    /// The host whose ICMP echo replies are the latency probes: the server, or the host that `--probe` names.
    probe: Ipv4Addr,
    /// What each server that was named answered when it was tried, for `env.json`; null where none was tried, as in a
    /// run that is resumed.
    candidates: Value,
    far: Option<FarEnd>,
    /// The far machine's description of itself, for `env.json`; null without `--ssh`.
    far_machine: Value,
    /// What `tc` printed of the egress device's qdisc before this run replaced it; `None` if it was not replaced.
    qdisc_before: Option<String>,
    _qdisc: Option<qdisc::Forced>,
}

impl Session {
    /// Settles what the whole run shares, and returns it with the plan completed by the server's name; `None` where
    /// the path is not a real one. The server never changes within a run, because cells over different paths could
    /// not be compared: a run that is resumed, and a plan that is run again, therefore keep the server that was
    /// chosen first.
    pub fn open(plan: &Plan, out: &FsPath) -> Result<Option<(Self, Plan)>> {
        let Place::Remote(hosts) = &plan.place else { return Ok(None) };
        let mut plan = plan.clone();
        let mut tried = Value::Null;
        if out.join("plan.json").exists() {
            plan.remote.server = Plan::read(out)?.remote.server;
        }
        if plan.remote.server.is_empty() {
            let all = candidates::try_all(hosts, plan.tool, plan.remote.probe.is_empty())?;
            plan.remote.server = candidates::best(&all, plan.tool)?.host.clone();
            tried = serde_json::to_value(all)?;
        }
        let server = candidates::resolve(&plan.remote.server, plan.tool)?;
        candidates::refuse_self(*server.ip())?;
        let probe = match plan.remote.probe.as_str() {
            "" => *server.ip(),
            host => candidates::probe_target(host).with_context(|| format!("`--probe {host}`"))?,
        };
        let mut session = Self {
            server,
            probe,
            candidates: tried,
            far: None,
            far_machine: Value::Null,
            qdisc_before: None,
            _qdisc: None,
        };
        session.exchange_qdisc(&plan.remote.qdisc)?;
        session.connect(&plan.remote.ssh)?;
        Ok(Some((session, plan)))
    }

    fn exchange_qdisc(&mut self, wanted: &str) -> Result<()> {
        let wanted: Vec<&str> = wanted.split_whitespace().collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let device = machine::device_to(self.peer())
            .with_context(|| format!("no route to {} for --fq\nhint: is `ip` installed?", self.peer()))?;
        let forced = qdisc::force(&device, &wanted)?;
        self.qdisc_before = forced.as_ref().map(|f| f.before().to_string());
        self._qdisc = forced;
        Ok(())
    }

    fn connect(&mut self, host: &str) -> Result<()> {
        if host.is_empty() {
            return Ok(());
        }
        let far = FarEnd::connect(host)?;
        // The network card to describe at the far end is the one whose route leads to this machine, so the far end
        // must know the address from which this machine reaches the server. Connecting a UDP socket finds it without
        // sending anything.
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(self.server).with_context(|| format!("no route to {}", self.server))?;
        self.far_machine = far.describe(&socket.local_addr()?.ip().to_string())?;
        self.far = Some(far);
        Ok(())
    }

    /// The server's address.
    pub fn peer(&self) -> Ipv4Addr {
        *self.server.ip()
    }

    /// What `env.json` records of the real path.
    pub fn env(&self) -> Value {
        serde_json::json!({
            "server": self.server.to_string(),
            "probe": self.probe.to_string(),
            "candidates": self.candidates,
            "far_end": self.far_machine,
            "qdisc_before": self.qdisc_before,
        })
    }
}

/// Note in the result of a reverse run without `--ssh`: the server's kernel decides what this controller's name
/// means.
const OWN_CC: &str = "the server sent, with the controller that its own kernel has under this name";
/// Note in the result of a reverse run with `--ssh`: this program attached the controller in the server's kernel.
const SET_CC: &str = "the server sent, with the controller that --ssh set there";

/// Runs one cell and writes its raw files into `dir`. The order of steps is the same as for a cell behind the
/// emulator (`here.rs`): controllers in, watch started, load run, watch stopped, controllers out.
pub fn run_cell(session: &Session, plan: &Plan, cell: &Cell, dir: &FsPath) -> Result<()> {
    let traffic = plan.traffic(cell.path);
    let mut result = CellResult::new(plan, cell, "ok");
    let ground = Ground::up(session, plan, cell, dir)?;
    if !traffic.direction.is_forward() {
        result.notes.push(if ground.far_cc.is_some() { SET_CC } else { OWN_CC }.into());
    }
    let watch = Watch::start(&session.site(cell.seed), traffic, dir)?;
    let loads = session.run_loads(plan.tool, traffic, &ground.sender.name);
    // A load that failed ends the cell at once: there is no rival here whose load would have to end first.
    let load = loads.ours?;
    let seen = watch.stop()?;
    let sender = ground.down()?;
    record(session, result, seen, (&load, &sender), dir)
}

/// The controllers that are attached in the kernels for the length of one cell. If the cell fails, they are detached
/// in the order of the fields.
struct Ground<'a> {
    sender: Sender,
    /// The controller in the far kernel. `None` unless `--ssh` gives access to that kernel and the far end is the
    /// sender.
    far_cc: Option<FarCc<'a>>,
    _changed: Changed,
}

impl<'a> Ground<'a> {
    fn up(session: &'a Session, plan: &Plan, cell: &Cell, dir: &FsPath) -> Result<Self> {
        let direction = plan.traffic(cell.path).direction;
        let far = session.far.as_ref().filter(|_| !direction.is_forward());
        let far_cc = far.map(|far| far.attach(cell.cc.controller())).transpose()?;
        let sender = match direction {
            Direction::Forward => Sender::prepare(cell.cc.controller(), plan.trace, dir)?,
            Direction::Reverse => {
                let own = headway_cc::cc::name_and_settings(cell.cc.controller()).0;
                Sender::elsewhere(own, far_cc.as_ref().map_or(own, |cc| &cc.name))?
            }
        };
        let changed = Changed::make(&cell.cc, session.peer())?;
        Ok(Self { sender, far_cc, _changed: changed })
    }

    /// Detaches the controllers and returns the name of the sender's.
    fn down(self) -> Result<String> {
        let sender = self.sender.finish()?;
        self.far_cc.map(FarCc::finish).transpose()?;
        Ok(sender)
    }
}

impl Session {
    fn site(&self, seed: u64) -> Site<'_> {
        let (probe, probe_interval_us) = (self.probe, PROBE_INTERVAL_US);
        Site { emu: None, far: self.far.as_ref(), probe, probe_interval_us, has_cpus: true, seed }
    }

    fn run_loads(&self, tool: Tool, traffic: &Traffic, cc: &str) -> Loads {
        let (to, port) = (self.server.ip().to_string(), self.server.port());
        let client = iperf::Client { tool, to, port, cc, traffic };
        Loads::run(|| client.run_alone(GRACE), None::<fn() -> Result<String>>)
    }
}

/// Writes the raw files and judges the cell. `load` is the JSON that the load's client printed, and the name under
/// which the sender's kernel knew the controller.
fn record(
    session: &Session,
    mut result: CellResult,
    seen: Seen,
    load: (&str, &str),
    dir: &FsPath,
) -> Result<()> {
    let probes = raw::probe::to_text(seen.probes.iter().copied(), seen.start_us);
    write_atomic(&dir.join("probe.txt"), &probes)?;
    let idle = seen.probes.iter().filter(|p| p.sent_us < seen.start_us).filter_map(|p| p.rtt_us).min();
    result.base_rtt_us = idle.with_context(|| {
        let target = session.probe;
        format!("{target} answers no ICMP echo: no latency can be measured\nhint: --probe HOST names another target")
    })? as u64;
    if let Some(why) = seen.hiccups.as_ref().and_then(|h| h.disturbed(result.base_rtt_us)) {
        result.status = format!("disturbed: {why}");
    }
    write_atomic(&dir.join("cpu.txt"), &note_cpus(&mut result, &seen, load.0))?;
    conclude(result, dir, load, None)
}

/// Returns the text of `cpu.txt`, and adds a note to the result for each end whose CPU may have limited the load.
fn note_cpus(result: &mut CellResult, seen: &Seen, load: &str) -> String {
    let (this, that) = match result.traffic.direction {
        Direction::Forward => ("sender", "receiver"),
        Direction::Reverse => ("receiver", "sender"),
    };
    let that_note = match &seen.far_busy {
        Some(busy) => cpu::note(that, busy, 0),
        None => raw::load::parse(load)
            .ok()
            .and_then(|load| cpu::process_note(that, &load, result.traffic.streams)),
    };
    let busy = seen.busy.as_deref().unwrap_or_default();
    result.notes.extend(cpu::note(this, busy, result.traffic.cpu_load_percent));
    result.notes.extend(that_note);
    let far = seen.far_busy.as_deref().map(|busy| (that, busy));
    raw::cpu::to_text([(this, busy)].into_iter().chain(far))
}
