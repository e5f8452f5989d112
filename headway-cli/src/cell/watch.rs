//! What watches a cell on a kernel, from the idle second before its load to the answer of the last probe: the prober,
//! the message flow, the CPUs, and how late this machine itself was. `here` and `remote` share it.

use crate::cell::remote::far::FarEnd;
use crate::emu::Emu;
use crate::observe::cpu::{self, Forced, Ticks};
use crate::observe::hiccup::{Hiccups, Meter};
use crate::observe::messages::{self, MessageFlow, Sockets};
use crate::observe::probe::{self, Prober};
use crate::plan::traffic::Traffic;
use crate::raw::cpu::Busy;
use crate::raw::messages::Sent;
use crate::raw::probe::Probe;
use anyhow::Result;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

/// How long the probes run before the load starts. A real path's base RTT is read from them.
const IDLE: Duration = Duration::from_millis(1000);

/// Where a cell runs, as far as its watch must know.
#[derive(Debug)]
pub struct Site<'a> {
    /// The emulated path; `None` where the packets cross a real network.
    pub emu: Option<&'a Emu>,
    /// The far machine, where it can be asked.
    pub far: Option<&'a FarEnd>,
    /// Who answers the probes.
    pub probe: Ipv4Addr,
    pub probe_interval_us: u64,
    /// Note how busy the CPUs are. The lab's guest has one, whose time is virtual.
    pub has_cpus: bool,
    pub seed: u64,
}

/// A running watch. Fields are dropped in this order when the cell fails, the latest started first.
#[derive(Debug)]
pub struct Watch<'a> {
    /// An error of the start is told at the end, when the load is over.
    flow: Option<Result<MessageFlow>>,
    cpus: Option<cpu::Watch>,
    far: Option<(&'a FarEnd, Vec<Ticks>)>,
    forced: Forced,
    meter: Option<Meter>,
    prober: Prober,
    start_us: i64,
}

/// What was seen during a load.
#[derive(Debug)]
pub struct Seen {
    /// When the load started, on the monotonic clock.
    pub start_us: i64,
    /// In the order of sending, on the monotonic clock.
    pub probes: Vec<Probe>,
    /// `None` where no message flow was asked for.
    pub messages: Option<Vec<Sent>>,
    /// How late this machine's timers were; `None` with an emulator, whose lateness says it.
    pub hiccups: Option<Hiccups>,
    /// This machine's CPUs, and the far machine's where it can be asked.
    pub busy: Option<Vec<Busy>>,
    pub far_busy: Option<Vec<Busy>>,
}

impl<'a> Watch<'a> {
    /// Starts the probes, waits for the idle time, and starts what counts from the start of the load, the emulator's
    /// clock included. The load must follow at once.
    pub fn start(site: &Site<'a>, traffic: &Traffic, dir: &Path) -> Result<Self> {
        let socket = match site.emu {
            Some(emu) => emu.near().enter(Prober::socket)?,
            None => Prober::socket()?,
        };
        let prober = Prober::start(socket, site.probe, site.probe_interval_us);
        let meter = site.emu.is_none().then(Meter::start);
        let sockets = match (site.emu, traffic.messages) {
            (Some(emu), Some(_)) => Some(message_sockets(emu)?),
            _ => None,
        };
        let forced = Forced::start(traffic.cpu_load_percent);
        // Behind an emulator another seed starts the load at another moment, so that what is periodic in the sender
        // and in the path does not meet in the same phase in every block.
        let shift_us = if site.emu.is_some() { site.seed % 100_000 } else { 0 };
        std::thread::sleep(IDLE + Duration::from_micros(shift_us));
        let far = site.far.map(|far| Ok::<_, anyhow::Error>((far, far.ticks()?))).transpose()?;
        let cpus = site.has_cpus.then(|| cpu::Watch::start(traffic.seconds, dir));
        if let Some(emu) = site.emu {
            emu.start_clock();
        }
        let start_us = probe::now_us();
        let length_us = i64::from(traffic.seconds) * 1_000_000;
        let flow = sockets
            .zip(traffic.messages)
            .map(|(sockets, m)| MessageFlow::start(sockets, m, site.seed, start_us, length_us));
        Ok(Self { flow, cpus, far, forced, meter, prober, start_us })
    }

    /// Ends everything when the load is over. Waits for the last messages and the answers of the last probes.
    pub fn stop(self) -> Result<Seen> {
        let busy = self.cpus.map(cpu::Watch::stop);
        let far = self.far.map(|(far, before)| Ok::<_, anyhow::Error>((before, far.ticks()?))).transpose()?;
        let messages = self.flow.transpose()?.map(MessageFlow::finish).transpose()?;
        let hiccups = self.meter.map(Meter::stop);
        let probes = self.prober.stop()?;
        drop(self.forced);
        let far_busy = far.map(|(before, after)| cpu::busy(&before, &after));
        Ok(Seen { start_us: self.start_us, probes, messages, hiccups, busy, far_busy })
    }
}

fn message_sockets(emu: &Emu) -> Result<Sockets> {
    let near = emu.near().enter(|| messages::socket(emu.near_addr()))?;
    let open_far = || messages::socket(emu.far_addr());
    let far = emu.far().map_or_else(open_far, |far| far.enter(open_far))?;
    Ok(Sockets { near, far })
}
