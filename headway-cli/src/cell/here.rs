//! One cell on the running kernel through the emulator: `here`, and the same code inside the lab's guest. What it has in
//! common with a cell over a real path (`remote.rs`) is here too: the sender's controller and the verdict on a load.

use crate::cell::sender::{Rival, Sender, conclude};
use crate::emu::{Detour, Emu, EmuOptions, Far, Netns};
use crate::load::iperf::{self, Server};
use crate::load::quic;
use crate::load::streams;
use crate::observe::cpu;
use crate::observe::messages::{self, MessageFlow, Sockets};
use crate::observe::probe::{self, Prober};
use crate::plan::tool::Tool;
use crate::plan::traffic::{Pattern, Traffic};
use crate::plan::{Cell, Place, Plan};
use crate::raw;
use crate::raw::cell::CellResult;
use crate::raw::folder::write_atomic;
use anyhow::{Context, Result};
use std::net::SocketAddrV4;
use std::panic::resume_unwind;
use std::path::Path as FsPath;
use std::time::Duration;

/// Time between two probes: 100 a second add 67 kbit/s and give a finite p99 after 3.7 s.
const PROBE_INTERVAL_US: u64 = 10_000;
/// Probes before the load starts: what the base RTT is read from on a real path.
pub const IDLE: Duration = Duration::from_millis(1000);
/// The load runs this much longer than the plan says before it is given up.
pub const GRACE: Duration = Duration::from_secs(20);

/// Runs one cell through the emulator on the running kernel and writes its raw files into `dir`.
pub fn run_cell_here(plan: &Plan, cell: &Cell, dir: &FsPath) -> Result<()> {
    let path = plan.paths[cell.path].path()?;
    let traffic = plan.traffic(cell.path);
    let cc = match plan.transport.stack() {
        None => Sender::prepare(cell.cc.controller(), plan.trace, dir)?,
        Some(_) => Sender::ready(cell.cc.controller()),
    };
    let rival = traffic.against.as_ref().map(|r| Rival::prepare(r, &cc, cell, dir)).transpose()?;
    let options = EmuOptions {
        mtu: traffic.mtu,
        seed: cell.seed,
        far: Far::Own,
        detour: traffic
            .against
            .as_ref()
            .map(|r| Detour { port: iperf::RIVAL_PORT, extra_ns: r.extra_rtt_us * 1000 }),
        exact_timers: plan.place == Place::Lab,
        ..EmuOptions::default()
    };
    let emu = Emu::up(&path, &options)?;
    let far = emu.far().context("the emulator has no far end")?;
    if path.marks() {
        negotiate_ecn([emu.near(), far])?;
    }
    let tool = plan.tool;
    let start = |port| Server::start(tool, far.command(tool.program()), port);
    let is_ours = |t: &Traffic| plan.place == Place::Lab || t.pattern.is_pausing();
    let server = match plan.transport.stack() {
        None if !is_ours(traffic) => Some(start(iperf::PORT)?),
        _ => None,
    };
    // A rival just sends.
    let its_traffic = Traffic { pattern: Pattern::Bulk, pacing_bps: None, ..traffic.clone() };
    let rival_server = match &rival {
        Some(_) if !is_ours(&its_traffic) => Some(start(iperf::RIVAL_PORT)?),
        _ => None,
    };
    let socket = emu.near().enter(Prober::socket)?;
    let prober = Prober::start(socket, emu.far_addr(), PROBE_INTERVAL_US);
    let sockets = traffic.messages.map(|_| message_sockets(&emu, far)).transpose()?;
    let _busy = cpu::Forced::start(traffic.cpu_load_percent);
    // Another seed is another moment: what is periodic in sender and path meets in another phase.
    std::thread::sleep(IDLE + Duration::from_micros(cell.seed % 100_000));
    let watch = (plan.place == Place::Here).then(|| cpu::Watch::start(traffic.seconds, dir));
    emu.start_clock();
    let start_us = probe::now_us();
    let length_us = i64::from(traffic.seconds) * 1_000_000;
    let flow =
        sockets.zip(traffic.messages).map(|(s, m)| MessageFlow::start(s, m, cell.seed, start_us, length_us));
    let load = |port, cc: &str, traffic| {
        let (near, to) = (emu.near(), SocketAddrV4::new(emu.far_addr(), port));
        match is_ours(traffic) {
            true => streams::Streams { to, cc, traffic }.run(near, far),
            false => {
                let to = to.ip().to_string();
                iperf::Client { tool, to, port, cc, traffic }.run(near.command(tool.program()), GRACE)
            }
        }
    };
    let mut quic_disturbed = None;
    let (load, rival_load) = std::thread::scope(|s| {
        let rival = rival.as_ref().map(|r| s.spawn(|| load(iperf::RIVAL_PORT, r.name(), &its_traffic)));
        let ours = match plan.transport.stack() {
            None => load(iperf::PORT, &cc.name, traffic),
            Some(stack) => {
                let connection =
                    quic::Connection { stack, cc: &cc.name, traffic, seed: cell.seed, is_traced: plan.trace };
                run_quic(&emu, far, &connection, dir).map(|done| {
                    quic_disturbed = match plan.place {
                        Place::Lab => quic::saturated(done.cpu, Duration::from_secs(traffic.seconds.into())),
                        _ => quic::disturbed(done.late, path.base_rtt_us()),
                    };
                    done.json
                })
            }
        };
        (ours, rival.map(|t| t.join().unwrap_or_else(|panic| resume_unwind(panic))))
    });
    let cpus = watch.map(cpu::Watch::stop);
    let messages = flow.transpose()?.map(MessageFlow::finish).transpose()?;
    let probes = prober.stop()?;
    let log = emu.stop()?;
    let load = heard(tool, load, server, traffic.seconds);
    let rival_load = rival_load.map(|load| heard(tool, load, rival_server, traffic.seconds));
    write_atomic(&dir.join("probe.txt"), &raw::probe::to_text(probes, start_us))?;
    write_atomic(&dir.join("link.txt"), &log.bins)?;
    let mut disturbed = log.disturbed(path.base_rtt_us()).or(quic_disturbed);
    if let Some(messages) = messages {
        let from_us = traffic.warmup_ms as i64 * 1000;
        disturbed = disturbed.or_else(|| messages::disturbed(&messages, from_us, path.base_rtt_us()));
        write_atomic(&dir.join("messages.txt"), &raw::messages::to_text(messages))?;
    }
    let rival = rival.map(Rival::finish).transpose()?;
    let sender = cc.finish()?;
    let load = load?;
    let rival_load = rival_load.transpose().context("the rival's streams")?;
    let mut result = CellResult::new(plan, cell, "ok");
    if let Some(why) = disturbed {
        result.status = format!("disturbed: {why}");
    }
    result.base_rtt_us = path.base_rtt_us();
    if let Some(cpus) = cpus {
        result.notes.extend(cpu::note("sender and receiver", &cpus, traffic.cpu_load_percent));
        write_atomic(&dir.join("cpu.txt"), &raw::cpu::to_text([("both", &*cpus)]))?;
    }
    let rival_load = rival_load.as_deref().zip(rival.as_deref());
    conclude(result, dir, (&load, &sender), rival_load)
}

/// A link that marks is of use to hosts that negotiate ECN, as the simulator's do.
fn negotiate_ecn(hosts: [&Netns; 2]) -> Result<()> {
    hosts.into_iter().try_for_each(|host| {
        host.enter(|| std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1")).context("cannot turn ECN on")
    })
}

/// What a load printed, with what its server has to say about it.
fn heard(tool: Tool, load: Result<String>, server: Option<Server>, seconds: u32) -> Result<String> {
    let Some(said) = server.map(Server::stop) else { return load };
    match load {
        Ok(printed) => Ok(iperf::to_json(tool, printed, Some(&said), seconds)),
        Err(e) => Err(e.context(format!("server said: {}", said.trim()))),
    }
}

/// One load of a QUIC stack; the events of our controller, if they are asked for, go to `acks.txt`.
fn run_quic(emu: &Emu, far: &Netns, connection: &quic::Connection<'_>, dir: &FsPath) -> Result<quic::Done> {
    let from = SocketAddrV4::new(emu.near_addr(), iperf::PORT);
    let done = connection.run([emu.near(), far], from, emu.far_addr())?;
    if let Some(acks) = &done.acks {
        write_atomic(&dir.join("acks.txt"), acks)?;
    }
    Ok(done)
}

fn message_sockets(emu: &Emu, far: &Netns) -> Result<Sockets> {
    let near = emu.near().enter(|| messages::socket(emu.near_addr()))?;
    Ok(Sockets { near, far: far.enter(|| messages::socket(emu.far_addr()))? })
}
