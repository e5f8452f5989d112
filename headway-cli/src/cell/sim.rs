//! A cell in the simulator (`--in sim`), written as the same raw files that a kernel's cell has, so that the report
//! needs no case of its own. `load.json` says nothing of CPU time, and its `start.version` says that a simulation
//! wrote it.

use crate::plan::{Cell, Plan};
use crate::raw::cell::CellResult;
use crate::raw::messages::Sent;
use crate::raw::probe::Probe;
use crate::raw::{acks, link, load, messages, probe};
use anyhow::{Context, Result, anyhow};
use headway_cc::quic::sim as quic;
use headway_cc::sim::{self, FlowSpec, SimRun, SimSpec};
use std::path::Path;

/// What the raw files name in place of a kernel and a load generator.
const MAKER: &str = concat!("headway sim ", env!("CARGO_PKG_VERSION"));

/// Runs one cell in the simulator and writes its raw files into `dir`.
pub fn run_cell(plan: &Plan, cell: &Cell, dir: &Path) -> Result<()> {
    let traffic = plan.traffic(cell.path);
    let streams = traffic.streams as usize;
    let max_pacing_rate = traffic.pacing_bps.map_or(u64::MAX, |bps| bps / 8);
    let ours = FlowSpec {
        source: traffic.pattern.source(),
        max_pacing_rate,
        ..FlowSpec::bulk(cell.cc.controller())
    };
    let mut flows = vec![ours; streams];
    if let Some(rival) = &traffic.against {
        let cc = rival.controller(cell.cc.controller());
        let flow = FlowSpec { extra_rtt_us: rival.extra_rtt_us, ..FlowSpec::bulk(cc) };
        flows.extend(vec![flow; streams]);
    }
    for (flow, nth) in flows.iter_mut().zip(0..) {
        flow.start_us = traffic.start_ms(nth) * 1000;
    }
    let path = plan.paths[cell.path].path()?;
    let mut spec = SimSpec::new(path, flows, u64::from(traffic.seconds) * 1_000_000, cell.seed);
    spec.messages = traffic.messages;
    spec.mtu = traffic.mtu;
    spec.trace = plan.trace;
    let run = match plan.transport.stack() {
        None => sim::run(&spec),
        Some(stack) => quic::run(stack, &spec),
    };
    let run = run.map_err(|e| anyhow!("{e}"))?;
    write_cell(&run, streams, dir)?;
    let mut result = CellResult::new(plan, cell, "ok");
    result.kernel = MAKER.into();
    result.base_rtt_us = run.base_rtt_us;
    result.write(dir)
}

/// Writes `load.json` of the first `ours` flows and `rival.json` of the others if there are any, `probe.txt`,
/// `link.txt` and, if there were any, `messages.txt` and `acks.txt` into `dir`, which exists.
pub fn write_cell(run: &SimRun, ours: usize, dir: &Path) -> Result<()> {
    let write = |name: &str, text: &str| {
        let file = dir.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    let (ours, rivals) = run.flows.split_at(ours.min(run.flows.len()));
    write("load.json", &load::sim_json(run, ours, MAKER))?;
    if !rivals.is_empty() {
        write("rival.json", &load::sim_json(run, rivals, MAKER))?;
    }
    write("probe.txt", &probe_txt(run))?;
    write("link.txt", &link_txt(run))?;
    if !run.datagrams.is_empty() {
        let sent = run.datagrams.iter().map(|d| Sent {
            due_us: d.due_us as i64,
            bytes: d.bytes,
            late_us: 0,
            delay_us: d.delay_us.map(|us| us as i64),
        });
        write("messages.txt", &messages::to_text(sent))?;
    }
    match acks::to_text(run) {
        Some(text) => write("acks.txt", &text),
        None => Ok(()),
    }
}

/// Probes count from the start of the run, which is the start of the load.
fn probe_txt(run: &SimRun) -> String {
    let probes =
        run.probes.iter().map(|p| Probe { sent_us: p.sent_us as i64, rtt_us: p.rtt_us.map(|us| us as i64) });
    probe::to_text(probes, 0)
}

fn link_txt(run: &SimRun) -> String {
    link::to_text(run.down.iter().zip(&run.up).map(|(down, up)| [down.into(), up.into()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_cc::sim::{FlowSpec, SimSpec, run};

    fn sample(trace: bool) -> SimRun {
        let path = "20mbit 40ms queue=1bdp loss=0.5%".parse().unwrap();
        let mut spec = SimSpec::new(path, vec![FlowSpec::bulk("bbr1"), FlowSpec::bulk("bbr1")], 2_000_000, 3);
        spec.trace = trace;
        run(&spec).unwrap()
    }

    #[test]
    fn tables_have_the_columns_they_name() {
        let run = sample(true);
        for text in [probe_txt(&run), link_txt(&run), acks::to_text(&run).unwrap()] {
            let columns = text.lines().next().unwrap().strip_prefix("# ").unwrap().split(' ').count();
            assert!(text.lines().skip(1).count() >= 40);
            assert!(text.lines().skip(1).all(|l| l.split(' ').count() == columns));
        }
        assert_eq!(link_txt(&run).lines().count(), 1 + 2 * 20);
        assert!(probe_txt(&run).contains(" -\n"), "some probes were lost or are still on their way");
        assert!(acks::to_text(&sample(false)).is_none());
    }

    #[test]
    fn the_trace_of_a_controller_with_settings_replays() {
        for cc in ["bbr3", "bbr3_brake:brake_rtt=0.2:brake_hold_us=5s", "bbr1:high_gain=2:cwnd_gain=3"] {
            let path = "20mbit 40ms queue=1bdp loss=0.5% @1s 5mbit".parse().unwrap();
            let mut spec = SimSpec::new(path, vec![FlowSpec::bulk(cc)], 2_000_000, 3);
            spec.trace = true;
            let report = headway_kernel::replay(&acks::to_text(&run(&spec).unwrap()).unwrap()).unwrap();
            assert!(cc.starts_with(report.cc) && report.events > 100, "{cc}: {report:?}");
        }
    }

    #[test]
    fn cell_is_written_or_the_reason_named() {
        let dir = std::env::temp_dir().join(format!("headway-simcell-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        write_cell(&sample(true), 1, &dir).unwrap();
        for name in ["load.json", "probe.txt", "link.txt", "acks.txt"] {
            assert!(std::fs::metadata(dir.join(name)).unwrap().len() > 100, "{name}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
        let error = write_cell(&sample(false), 1, &dir).unwrap_err().to_string();
        assert!(error.contains("cannot write") && error.contains("load.json"), "{error}");
    }
}
