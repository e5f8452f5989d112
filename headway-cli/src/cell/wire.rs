//! One cell over a wire: the hosts themselves are what is measured, so nothing of ours is between them. The steps are those of
//! every cell: ground up, watch, load, watch stopped, ground down.

use crate::cell::sender::{Sender, conclude};
use crate::cell::settings;
use crate::emu::Netns;
use crate::load::flood::Flood;
use crate::load::iperf::PORT;
use crate::load::requests::Requests;
use crate::load::streams::Streams;
use crate::observe::cpu::Forced;
use crate::observe::host;
use crate::observe::probe::Prober;
use crate::plan::traffic::HostLoad;
use crate::plan::wire::{Nic, Wire};
use crate::plan::{Cell, Label, Place, Plan};
use crate::raw;
use crate::raw::cell::CellResult;
use crate::raw::folder::write_atomic;
use crate::sys::clock::monotonic_ns;
use crate::sys::net;
use anyhow::{Context, Result, ensure};
use headway_kernel as kernel;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two echoes.
const ECHO_INTERVAL_US: u64 = 10_000;
/// How long the echoes run before the load.
const IDLE: Duration = Duration::from_millis(500);
/// How long a network card may take to be ready.
const CARRIER: Duration = Duration::from_secs(10);

/// The two ends of a wire. They take it with them when they go.
struct Ends {
    near: Netns,
    far: Netns,
    /// The device at each end.
    device: &'static str,
    to: Ipv4Addr,
}

/// Runs one cell over the wire and writes its raw files into `dir`.
pub fn run_cell(plan: &Plan, cell: &Cell, wire: Wire, dir: &Path) -> Result<()> {
    let traffic = plan.traffic(cell.path);
    let sender = Sender::prepare(cell.cc.controller(), false, dir)?;
    if plan.place == Place::Lab {
        // Where the tracing file system is missing, polls are not counted.
        let _ = crate::sys::lab::mount("tracefs", "/sys/kernel/tracing");
    }
    let ends = Ends::up(wire, &cell.cc)?;
    settings::apply(&cell.cc, &[&ends.near, &ends.far], ends.device, &plan.place)?;
    ends.await_answer(wire)?;
    let prober = ends.prober()?;
    std::thread::sleep(IDLE + Duration::from_micros(cell.seed % 100_000));
    let forced = Forced::start(traffic.cpu_load_percent);
    let start_ns = monotonic_ns() as i64;
    let received = || ends.received();
    let host = host::Watch::start(wire, &received);
    let cc = sender.name.as_str();
    let to = SocketAddrV4::new(ends.to, PORT);
    let mut times = None;
    let load = match traffic.host_load {
        None => Some(Streams { to, cc, traffic, before: 0 }.run(&ends.near, &ends.far)),
        Some(HostLoad::Idle) => {
            std::thread::sleep(Duration::from_secs(traffic.seconds.into()));
            None
        }
        Some(HostLoad::Requests(carrier)) => {
            let done = Requests { to, cc, carrier, traffic }.run(&ends.near, &ends.far);
            Some(done.map(|(load, its)| {
                times = Some(its);
                load
            }))
        }
        Some(HostLoad::Flood { bytes }) => {
            Some(Flood { to: ends.to, bytes, cc, traffic }.run(&ends.near, &ends.far))
        }
    };
    let host = host.stop();
    drop(forced);
    let echoes = prober.stop_exact()?;
    drop(ends);
    write_atomic(&dir.join("ping.txt"), &raw::ping::to_text(&echoes, start_ns))?;
    write_atomic(&dir.join("host.txt"), &raw::host::to_text(&host))?;
    if let Some(times) = times {
        write_atomic(&dir.join("requests.txt"), &raw::requests::to_text(&times))?;
    }
    let mut result = CellResult::new(plan, cell, "ok");
    let idle = echoes.iter().filter(|echo| echo.sent_ns < start_ns).filter_map(|echo| echo.rtt_ns).min();
    result.base_rtt_us = idle.unwrap_or(0) as u64 / 1000;
    let name = sender.finish()?;
    match load {
        Some(load) => conclude(result, dir, (&load?, &name), None),
        None => {
            result.kernel = kernel::release();
            result.sender_cc = name;
            result.write(dir)
        }
    }
}

impl Ends {
    fn up(wire: Wire, cc: &Label) -> Result<Self> {
        let near = Netns::new()?;
        if wire == Wire::Loopback {
            return Ok(Self { far: near.clone(), near, device: "lo", to: Ipv4Addr::LOCALHOST });
        }
        let far = Netns::new()?;
        match wire.nic() {
            None => {
                let joined = near.enter(|| net::make_veth(DEVICE, far.descriptor()));
                joined.context("cannot make a veth pair")?;
            }
            Some(nic) => give_cards([&near, &far], nic, cc)?,
        }
        let [near_address, far_address] = [1, 2].map(|n| Ipv4Addr::new(100, 64, 0, n));
        for (end, own, other) in [(&near, near_address, far_address), (&far, far_address, near_address)] {
            end.enter(|| {
                // Without IPv6 there is nothing to keep quiet.
                let _ = net::quiet_ipv6(DEVICE);
                net::set_up(DEVICE)?;
                net::add_address(DEVICE, own.into(), other.into())
            })
            .with_context(|| format!("cannot set up an end of the wire `{wire}`"))?;
        }
        let begun = Instant::now();
        while ![&near, &far].iter().all(|end| end.enter(|| net::is_running(DEVICE).unwrap_or(false))) {
            ensure!(begun.elapsed() < CARRIER, "a network card of the wire `{wire}` finds no carrier");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { near, far, device: DEVICE, to: far_address })
    }

    /// Packets that the devices at both ends have received.
    fn received(&self) -> Option<u64> {
        let table = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        [&self.near, &self.far].iter().map(|end| host::received(&end.enter(table), self.device)).sum()
    }

    fn prober(&self) -> Result<Prober> {
        Ok(Prober::start(self.near.enter(Prober::socket)?, self.to, ECHO_INTERVAL_US))
    }

    /// Waits until an echo is answered. A card that says it is ready may lose the first packets, and the next request for the other's
    /// hardware address comes a second later.
    fn await_answer(&self, wire: Wire) -> Result<()> {
        let begun = Instant::now();
        loop {
            let prober = self.prober()?;
            std::thread::sleep(Duration::from_micros(2 * ECHO_INTERVAL_US));
            if prober.stop_exact()?.iter().any(|echo| echo.rtt_ns.is_some()) {
                return Ok(());
            }
            ensure!(begun.elapsed() < CARRIER, "no echo over the wire `{wire}` is answered");
        }
    }
}

/// The name that the device of a wire gets, whatever it was before.
const DEVICE: &str = "wire";
/// What the kernel calls the guest's two cards.
pub const CARDS: [&str; 2] = ["eth0", "eth1"];

/// Whether the guest's kernel drives its cards.
pub fn check_driver(nic: Nic) -> Result<()> {
    ensure!(
        CARDS.iter().all(|card| net::has_interface(card)),
        "Linux {} has no driver for the network card `{}`\nhint: `headway kernel build 6.12` makes a kernel that has",
        kernel::release(),
        Wire::Nic(nic)
    );
    Ok(())
}

/// Gives each end one of the guest's two cards, with the candidate's settings made: /sys shows a card in its own namespace only.
fn give_cards(ends: [&Netns; 2], nic: Nic, cc: &Label) -> Result<()> {
    check_driver(nic)?;
    for (end, card) in ends.into_iter().zip(CARDS) {
        settings::apply_to_card(cc, card)?;
        net::give(card, end.descriptor(), DEVICE).with_context(|| format!("cannot give {card} to an end"))?;
    }
    Ok(())
}
