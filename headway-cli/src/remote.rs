//! A run over the real path to an iperf3 server: what is settled once before the first cell, and one cell.

mod candidates;

use crate::bench::{self, Cell, CellResult, Place, Plan, controller, write_atomic};
use crate::hiccup::Meter;
use crate::place::{self, Sender};
use crate::probe::{self, Prober};
use crate::tools;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::SocketAddrV4;
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
}

impl Setup {
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Is this of use in the plan's place, and can it be read?
    pub fn check(&self, plan: &Plan) -> Result<()> {
        match &plan.place {
            Place::Remote(hosts) => candidates::parse(hosts).map(drop),
            _ => Ok(()),
        }
    }

    /// The flags that ask for it.
    pub fn flags(&self) -> String {
        String::new()
    }
}

/// What lasts as long as the run.
#[derive(Debug)]
pub struct Session {
    server: SocketAddrV4,
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
            let all = candidates::try_all(hosts)?;
            plan.remote.server = candidates::best(&all)?.host.clone();
            tried = serde_json::to_value(all)?;
        }
        let server = candidates::resolve(&plan.remote.server)?;
        candidates::refuse_self(server)?;
        Ok(Some((Self { server, candidates: tried }, plan)))
    }

    /// For `env.json`.
    pub fn env(&self) -> Value {
        serde_json::json!({ "server": self.server.to_string(), "candidates": self.candidates })
    }
}

/// A run that goes on did not try the candidates again.
fn earlier_candidates(out: &FsPath) -> Value {
    let text = std::fs::read_to_string(out.join("env.json")).unwrap_or_default();
    let env: Value = serde_json::from_str(&text).unwrap_or_default();
    env["remote"]["candidates"].clone()
}

/// Runs one cell and writes its raw files into `dir`.
pub fn run_cell(session: &Session, plan: &Plan, cell: &Cell, dir: &FsPath) -> Result<()> {
    let cc = Sender::prepare(controller(&cell.cc), plan.trace, dir)?;
    let prober = Prober::start(Prober::socket()?, *session.server.ip(), PROBE_INTERVAL_US);
    let meter = Meter::start();
    std::thread::sleep(place::IDLE);
    let start_us = probe::now_us();
    let traffic = plan.traffic(cell.path);
    let job = tools::Job {
        to: session.server.ip().to_string(),
        port: session.server.port(),
        cc: &cc.name,
        traffic,
        pattern: traffic.pattern,
        pacing_bps: traffic.pacing_bps,
    };
    let load = job.run(Command::new("iperf3"), place::GRACE)?;
    let hiccups = meter.stop();
    let probes = prober.stop()?;
    write_atomic(&dir.join("probe.txt"), &probe::to_text(&probes, start_us))?;
    let sender = cc.finish()?;
    let idle = probes.iter().filter(|p| p.sent_us < start_us).filter_map(|p| p.rtt_us).min();
    let base_rtt_us = idle.with_context(|| {
        format!("`{}` answers no ICMP echo: no latency can be measured", session.server.ip())
    })?;
    let mut result = CellResult::new(plan, cell, "ok");
    if let Some(why) = hiccups.disturbed(base_rtt_us as u64) {
        result.status = format!("disturbed: {why}");
    }
    result.base_rtt_us = base_rtt_us as u64;
    place::conclude(result, dir, (&load, &sender), None)
}
