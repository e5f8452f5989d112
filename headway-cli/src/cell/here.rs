//! One cell on the running kernel through the emulator: `--in here`, and inside the lab's guest. The steps are those
//! of a cell over a real path (`remote.rs`): ground up, watch, load, watch stopped, ground down.

use crate::cell::loads::{GRACE, Loads};
use crate::cell::sender::{Rival, Sender, conclude};
use crate::cell::settings;
use crate::cell::watch::{Seen, Site, Watch};
use crate::cell::wire;
use crate::emu::{DEVICE, Detour, Emu, EmuLog, EmuOptions, Far, Netns};
use crate::load::iperf::{self, Server};
use crate::load::quic;
use crate::load::streams;
use crate::observe::cpu;
use crate::observe::messages;
use crate::observe::packets::Recorder;
use crate::plan::tool::Tool;
use crate::plan::traffic::{Pattern, Traffic};
use crate::plan::{Cell, Place, Plan};
use crate::raw;
use crate::raw::cell::CellResult;
use crate::raw::folder::write_atomic;
use crate::raw::packets::Packet;
use anyhow::{Context, Result};
use headway_cc::path::Path;
use headway_cc::quic::sim::Stack;
use std::net::SocketAddrV4;
use std::path::Path as FsPath;
use std::time::Duration;

/// Time between two probes: 100 a second add 67 kbit/s and give a finite p99 after 3.7 s.
const PROBE_INTERVAL_US: u64 = 10_000;

/// Runs one cell through the emulator on the running kernel and writes its raw files into `dir`.
pub fn run_cell(plan: &Plan, cell: &Cell, dir: &FsPath) -> Result<()> {
    if let Some(wire) = plan.paths[cell.path].wire() {
        return wire::run_cell(plan, cell, wire, dir);
    }
    let order = Order { plan, cell, traffic: plan.traffic(cell.path), dir };
    let ground = Ground::up(&order)?;
    let watch = Watch::start(&ground.site(&order), order.traffic, dir)?;
    let (loads, quic_disturbed) = ground.run_loads(&order);
    let seen = watch.stop()?;
    let left = ground.down(&order, loads)?;
    left.record(&order, seen, quic_disturbed)
}

/// The cell that was asked for.
struct Order<'a> {
    plan: &'a Plan,
    cell: &'a Cell,
    traffic: &'a Traffic,
    dir: &'a FsPath,
}

impl Order<'_> {
    /// The QUIC stack that carries the data, if it is not TCP.
    fn stack(&self) -> Option<Stack> {
        self.plan.transport.stack()
    }

    /// What the rival does: it sends all the time, once it has begun.
    fn rival_traffic(&self) -> Traffic {
        Traffic { pattern: Pattern::Bulk, pacing_bps: None, ..self.traffic.clone() }
    }

    /// Are the streams our own (`load/streams.rs`), and not those of iperf?
    fn is_ours(&self, traffic: &Traffic) -> bool {
        self.plan.place == Place::Lab || traffic.pattern.is_pausing() || traffic.stagger_ms > 0
    }
}

/// What must stand before a load can run. When the cell fails it is taken down in the order of the fields: servers
/// before the path that they listen on, and the controllers last.
struct Ground {
    rival_server: Option<Server>,
    server: Option<Server>,
    /// The packets at the sender's device, which the trace of a TCP sender is held against.
    recorder: Option<Recorder>,
    emu: Emu,
    path: Path,
    rival: Option<Rival>,
    sender: Sender,
}

impl Ground {
    /// Puts the controllers into the kernel, the path up, and starts the servers.
    fn up(order: &Order) -> Result<Self> {
        let Order { plan, cell, traffic, dir } = order;
        let path = plan.paths[cell.path].path()?;
        let sender = match order.stack() {
            None => Sender::prepare(cell.cc.controller(), plan.trace, dir)?,
            Some(_) => Sender::ready(cell.cc.controller()),
        };
        let rival = traffic.against.as_ref();
        let rival = rival.map(|r| Rival::prepare(r, &sender, cell, dir)).transpose()?;
        let emu = Emu::up(&path, &emu_options(order))?;
        let far = emu.far().context("the emulator has no far end")?;
        if path.marks() {
            negotiate_ecn([emu.near(), far])?;
        }
        settings::apply(&cell.cc, &[emu.near(), far], DEVICE, &plan.place)?;
        let recorder = match order.stack() {
            None if plan.trace => Some(emu.near().enter(Recorder::start)?),
            _ => None,
        };
        let start = |port| Server::start(plan.tool, far.command(plan.tool.program()), port);
        let server = match order.stack() {
            None if !order.is_ours(traffic) => Some(start(iperf::PORT)?),
            _ => None,
        };
        let rival_server = match &rival {
            Some(_) if !order.is_ours(&order.rival_traffic()) => Some(start(iperf::RIVAL_PORT)?),
            _ => None,
        };
        Ok(Self { rival_server, server, recorder, emu, path, rival, sender })
    }

    fn site(&self, order: &Order) -> Site<'_> {
        Site {
            emu: Some(&self.emu),
            far: None,
            probe: self.emu.far_addr(),
            probe_interval_us: PROBE_INTERVAL_US,
            has_cpus: order.plan.place == Place::Here,
            seed: order.cell.seed,
        }
    }

    /// Runs the loads, and says why that of a QUIC stack does not count, if so.
    fn run_loads(&self, order: &Order) -> (Loads, Option<String>) {
        let its_traffic = order.rival_traffic();
        let rival = self.rival.as_ref();
        let before = order.traffic.streams;
        let rival = rival
            .map(|rival| move || self.run_tcp(order, iperf::RIVAL_PORT, rival.name(), &its_traffic, before));
        let mut disturbed = None;
        let ours = || match order.stack() {
            None => self.run_tcp(order, iperf::PORT, &self.sender.name, order.traffic, 0),
            Some(stack) => {
                let done = self.run_quic(order, stack)?;
                disturbed = self.quic_disturbed(order, &done);
                Ok(done.json)
            }
        };
        let loads = Loads::run(ours, rival);
        (loads, disturbed)
    }

    /// One load of TCP streams, our own or iperf's, which begin after so many others; what it printed.
    fn run_tcp(&self, order: &Order, port: u16, cc: &str, traffic: &Traffic, before: u32) -> Result<String> {
        let near = self.emu.near();
        match order.is_ours(traffic) {
            true => {
                let to = SocketAddrV4::new(self.emu.far_addr(), port);
                streams::Streams { to, cc, traffic, before }.run(near, self.far()?)
            }
            false => {
                let (tool, to) = (order.plan.tool, self.emu.far_addr().to_string());
                iperf::Client { tool, to, port, cc, traffic }.run(near.command(tool.program()), GRACE)
            }
        }
    }

    /// One load of a QUIC stack; the events of our controller, if they are asked for, go to `acks.txt`.
    fn run_quic(&self, order: &Order, stack: Stack) -> Result<quic::Done> {
        let (traffic, seed, is_traced) = (order.traffic, order.cell.seed, order.plan.trace);
        let connection = quic::Connection { stack, cc: &self.sender.name, traffic, seed, is_traced };
        let from = SocketAddrV4::new(self.emu.near_addr(), iperf::PORT);
        let done = connection.run([self.emu.near(), self.far()?], from, self.emu.far_addr())?;
        if let Some(acks) = &done.acks {
            write_atomic(&order.dir.join("acks.txt"), acks)?;
        }
        Ok(done)
    }

    fn quic_disturbed(&self, order: &Order, done: &quic::Done) -> Option<String> {
        match order.plan.place {
            Place::Lab => quic::saturated(done.cpu, Duration::from_secs(order.traffic.seconds.into())),
            _ => quic::disturbed(done.late, self.path.base_rtt_us()),
        }
    }

    fn far(&self) -> Result<&Netns> {
        self.emu.far().context("the emulator has no far end")
    }

    /// Takes the path down and ends the servers. The controllers stay until their files are written.
    fn down(self, order: &Order, loads: Loads) -> Result<Left> {
        let packets = self.recorder.map(Recorder::stop).transpose()?;
        let log = self.emu.stop()?;
        let (tool, seconds) = (order.plan.tool, order.traffic.seconds);
        let ours = heard(tool, loads.ours, self.server, seconds);
        let rival_server = self.rival_server;
        let its = loads.rival.map(|load| heard(tool, load, rival_server, seconds));
        let base_rtt_us = self.path.base_rtt_us();
        Ok(Left {
            log,
            packets,
            loads: Loads { ours, rival: its },
            base_rtt_us,
            rival: self.rival,
            sender: self.sender,
        })
    }
}

/// What is left of the ground when it is down.
struct Left {
    log: EmuLog,
    packets: Option<Vec<Packet>>,
    loads: Loads,
    base_rtt_us: u64,
    rival: Option<Rival>,
    sender: Sender,
}

impl Left {
    /// Writes the raw files, takes the controllers out of the kernel and judges the cell.
    fn record(self, order: &Order, seen: Seen, quic_disturbed: Option<String>) -> Result<()> {
        let Order { plan, cell, traffic, dir } = order;
        write_atomic(&dir.join("probe.txt"), &raw::probe::to_text(seen.probes, seen.start_us))?;
        write_atomic(&dir.join("link.txt"), &self.log.bins)?;
        if let Some(packets) = &self.packets {
            write_atomic(&dir.join("packets.txt"), &raw::packets::to_text(packets))?;
        }
        let mut disturbed = self.log.disturbed(self.base_rtt_us).or(quic_disturbed);
        if let Some(messages) = seen.messages {
            let from_us = traffic.warmup_ms as i64 * 1000;
            disturbed = disturbed.or_else(|| messages::disturbed(&messages, from_us, self.base_rtt_us));
            write_atomic(&dir.join("messages.txt"), &raw::messages::to_text(messages))?;
        }
        let rival = self.rival.map(Rival::finish).transpose()?;
        let sender = self.sender.finish()?;
        let load = self.loads.ours?;
        let rival_load = self.loads.rival.transpose().context("the rival's streams")?;
        let mut result = CellResult::new(plan, cell, "ok");
        if let Some(why) = disturbed {
            result.status = format!("disturbed: {why}");
        }
        result.base_rtt_us = self.base_rtt_us;
        if let Some(cpus) = seen.busy {
            result.notes.extend(cpu::note("sender and receiver", &cpus, traffic.cpu_load_percent));
            write_atomic(&dir.join("cpu.txt"), &raw::cpu::to_text([("both", &*cpus)]))?;
        }
        conclude(result, dir, (&load, &sender), rival_load.as_deref().zip(rival.as_deref()))
    }
}

fn emu_options(order: &Order) -> EmuOptions {
    let detour = |extra_rtt_us: u64| Detour { port: iperf::RIVAL_PORT, extra_ns: extra_rtt_us * 1000 };
    EmuOptions {
        mtu: order.traffic.mtu,
        seed: order.cell.seed,
        far: Far::Own,
        detour: order.traffic.against.as_ref().map(|rival| detour(rival.extra_rtt_us)),
        exact_timers: order.plan.place == Place::Lab,
        ..EmuOptions::default()
    }
}

/// A link can mark only the packets of hosts that negotiate ECN, as the simulator's hosts do.
fn negotiate_ecn(hosts: [&Netns; 2]) -> Result<()> {
    hosts.into_iter().try_for_each(|host| {
        host.enter(|| std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1")).context("cannot turn ECN on")
    })
}

/// What a load printed, together with what its server printed, if it had one.
fn heard(tool: Tool, load: Result<String>, server: Option<Server>, seconds: u32) -> Result<String> {
    let Some(said) = server.map(Server::stop) else { return load };
    match load {
        Ok(printed) => Ok(iperf::to_json(tool, printed, Some(&said), seconds)),
        Err(e) => Err(e.context(format!("server said: {}", said.trim()))),
    }
}
