//! A run over the real path to an iperf3 server: what is settled once before the first cell, and one cell.

mod candidates;

use crate::bench::{self, Cell, CellResult, Place, Plan, controller, write_atomic};
use crate::hiccup::Meter;
use crate::place::{self, Sender};
use crate::probe::{self, Prober};
use crate::traffic::Direction;
use crate::{cpu, tools};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path as FsPath;
use std::process::Command;

/// Gentler than the prober of an emulated path: 50 a second.
const PROBE_INTERVAL_US: u64 = 20_000;

/// What a run over a real path was asked for beside its traffic, and the server once it is fixed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Setup {
    /// The one of the candidates that the whole run goes to, as it was given; empty until it is chosen.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// Whom the prober asks; the server where empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub probe: String,
}

impl Setup {
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Is this of use in the plan's place, and can it be read?
    pub fn check(&self, plan: &Plan) -> Result<()> {
        let is_reverse = plan.traffics().any(|t| !t.direction.is_forward());
        if let Some(cc) = plan.ccs.iter().find(|cc| cc.contains(':')).filter(|_| is_reverse) {
            bail!("`{cc}` cannot be set at a server\nhint: leave out --direction reverse");
        }
        if let Place::Remote(hosts) = &plan.place {
            candidates::parse(hosts).with_context(|| format!("`--in remote {hosts}`"))?;
            let probe = Some(&self.probe).filter(|p| !p.is_empty());
            return probe
                .map_or(Ok(()), |p| candidates::parse_one(p).map(drop))
                .with_context(|| format!("`--probe {}`", self.probe));
        }
        ensure!(self.probe.is_empty(), "--probe belongs to a real path\nhint: --in remote HOST");
        Ok(())
    }

    /// The flags that ask for it.
    pub fn flags(&self) -> String {
        match self.probe.as_str() {
            "" => String::new(),
            probe => format!(" --probe {}", bench::shell_word(probe)),
        }
    }
}

/// What lasts as long as the run.
#[derive(Debug)]
pub struct Session {
    server: SocketAddrV4,
    /// Who answers the prober.
    probe: Ipv4Addr,
    /// What the candidates answered, for `env.json`.
    candidates: Value,
}

impl Session {
    /// Settles what the whole run shares, and the plan with its server; `None` where the path is not a real one. A run that
    /// goes on, and a plan that is run again, keep their server.
    pub fn open(plan: &Plan, out: &FsPath) -> Result<Option<(Self, Plan)>> {
        let Place::Remote(hosts) = &plan.place else { return Ok(None) };
        let mut plan = plan.clone();
        let mut tried = Value::Null;
        if out.join("plan.json").exists() {
            plan.remote.server = bench::read_plan(out)?.remote.server;
            tried = earlier_candidates(out);
        }
        if plan.remote.server.is_empty() {
            let all = candidates::try_all(hosts, plan.remote.probe.is_empty())?;
            plan.remote.server = candidates::best(&all)?.host.clone();
            tried = serde_json::to_value(all)?;
        }
        let server = candidates::resolve(&plan.remote.server)?;
        candidates::refuse_self(*server.ip())?;
        let probe = match plan.remote.probe.as_str() {
            "" => *server.ip(),
            host => candidates::probe_target(host).with_context(|| format!("`--probe {host}`"))?,
        };
        Ok(Some((Self { server, probe, candidates: tried }, plan)))
    }

    /// Where the packets go.
    pub fn peer(&self) -> Ipv4Addr {
        *self.server.ip()
    }

    /// For `env.json`.
    pub fn env(&self) -> Value {
        serde_json::json!({
            "server": self.server.to_string(),
            "probe": self.probe.to_string(),
            "candidates": self.candidates,
        })
    }
}

/// A run that goes on did not try the candidates again.
fn earlier_candidates(out: &FsPath) -> Value {
    let text = std::fs::read_to_string(out.join("env.json")).unwrap_or_default();
    let env: Value = serde_json::from_str(&text).unwrap_or_default();
    env["remote"]["candidates"].clone()
}

/// What the result of a reverse run says where the server's controller is its own affair.
const OWN_CC: &str = "the server sent, with the controller that its own kernel has under this name";

/// Runs one cell and writes its raw files into `dir`.
pub fn run_cell(session: &Session, plan: &Plan, cell: &Cell, dir: &FsPath) -> Result<()> {
    let traffic = plan.traffic(cell.path);
    let mut result = CellResult::new(plan, cell, "ok");
    let cc = match traffic.direction {
        Direction::Forward => Sender::prepare(controller(&cell.cc), plan.trace, dir)?,
        Direction::Reverse => {
            result.notes.push(OWN_CC.into());
            let own = headway_cc::cc::name_and_settings(controller(&cell.cc)).0;
            Sender::elsewhere(own, own)?
        }
    };
    let prober = Prober::start(Prober::socket()?, session.probe, PROBE_INTERVAL_US);
    let meter = Meter::start();
    let _busy = cpu::Forced::start(traffic.cpu_load_percent);
    std::thread::sleep(place::IDLE);
    let watch = cpu::Watch::start(traffic.seconds, dir);
    let start_us = probe::now_us();
    let job = tools::Job {
        to: session.server.ip().to_string(),
        port: session.server.port(),
        cc: &cc.name,
        traffic,
        pattern: traffic.pattern,
        pacing_bps: traffic.pacing_bps,
    };
    let load = job.run(Command::new("iperf3"), place::GRACE)?;
    let cpus = watch.stop();
    let hiccups = meter.stop();
    let probes = prober.stop()?;
    write_atomic(&dir.join("probe.txt"), &probe::to_text(&probes, start_us))?;
    let sender = cc.finish()?;
    let idle = probes.iter().filter(|p| p.sent_us < start_us).filter_map(|p| p.rtt_us).min();
    let base_rtt_us = idle.with_context(|| {
        format!(
            "{} answers no ICMP echo: no latency can be measured\nhint: --probe HOST names another target",
            session.probe
        )
    })?;
    if let Some(why) = hiccups.disturbed(base_rtt_us as u64) {
        result.status = format!("disturbed: {why}");
    }
    result.base_rtt_us = base_rtt_us as u64;
    let (this, that) = match traffic.direction {
        Direction::Forward => ("sender", "receiver"),
        Direction::Reverse => ("receiver", "sender"),
    };
    result.notes.extend(cpu::note(this, &cpus, traffic.cpu_load_percent));
    let parsed = tools::parse_iperf3(&load).ok();
    result.notes.extend(parsed.and_then(|load| cpu::process_note(that, &load, traffic.streams)));
    write_atomic(&dir.join("cpu.txt"), &cpu::to_text(&[(this, cpus)]))?;
    place::conclude(result, dir, (&load, &sender), None)
}
