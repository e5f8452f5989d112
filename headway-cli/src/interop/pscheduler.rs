//! pScheduler's throughput test: tasks for the cells of a plan, and results read back.
//!
//! Tasks have task schema 1 and throughput schema 4, the first that takes any controller's name (7 with `--pacing`).
//! The warm-up is iperf3's `omit`, so that the load lasts as long as in a cell. The task's `reference` says to which
//! cell of which plan it belongs.

use super::reading::{self, ForeignRun, json_in};
use crate::plan::traffic::{Pattern, Traffic};
use crate::plan::{Cell, Place, Plan};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Writes one task for each cell into `to`, numbered in the order of execution, and returns the files.
///
/// # Errors
/// The plan asks for something that a pScheduler task cannot do, such as flows that compete; or a file cannot be
/// written.
pub fn write_tasks(plan: &Plan, to: &Path) -> Result<Vec<PathBuf>> {
    let tasks = plan.cells.iter().map(|c| Ok((c, task(plan, c)?))).collect::<Result<Vec<_>>>()?;
    std::fs::create_dir_all(to).with_context(|| format!("cannot create `{}`", to.display()))?;
    let write = |(cell, task): &(&Cell, Value)| {
        let file = to.join(format!("{:03}-{}-block{}.json", cell.index, cell.cc, cell.block + 1));
        crate::raw::folder::write_atomic(&file, &(serde_json::to_string_pretty(task)? + "\n"))?;
        Ok(file)
    };
    tasks.iter().map(write).collect()
}

/// The task of one cell.
fn task(plan: &Plan, cell: &Cell) -> Result<Value> {
    let host = server(plan)?;
    let traffic = plan.traffic(cell.path);
    check_traffic(traffic)?;
    ensure!(
        !cell.cc.has_settings(),
        "`{}` changes a qdisc or a sysctl, which no pScheduler task can\nhint: leave it out",
        cell.cc
    );
    let mut spec = spec(traffic, cell.cc.controller())?;
    // A port means that an iperf3 server is already running there; without one pScheduler starts both ends.
    let (dest, port) = match host.rsplit_once(':') {
        Some((dest, port)) if !dest.contains(':') => (dest, Some(port)),
        _ => (host, None),
    };
    spec["dest"] = dest.into();
    if let Some(port) = port {
        spec["single-ended"] = true.into();
        spec["single-ended-port"] =
            port.parse::<u16>().with_context(|| format!("`{port}` is no port"))?.into();
    }
    Ok(json!({
        "schema": 1,
        "test": { "type": "throughput", "spec": spec },
        "tools": [plan.tool.to_string()],
        "reference": { "headway": { "plan": plan.command(), "cell": cell.index, "block": cell.block + 1, "cc": cell.cc } },
    }))
}

/// The one server that the plan names, with its port if it has one.
fn server(plan: &Plan) -> Result<&str> {
    let Place::Remote(hosts) = &plan.place else {
        anyhow::bail!("a pScheduler task needs a host\nhint: --in remote HOST");
    };
    let host = if plan.remote.server.is_empty() { hosts } else { &plan.remote.server };
    ensure!(
        !host.contains(','),
        "a pScheduler task has one destination, not `{host}`\nhint: name one server"
    );
    Ok(host)
}

/// Fails on traffic that is more than one transfer.
fn check_traffic(traffic: &Traffic) -> Result<()> {
    ensure!(
        traffic.cpu_load_percent == 0,
        "a pScheduler task cannot keep CPUs busy\nhint: leave out --cpu-load"
    );
    ensure!(
        traffic.against.is_none() && traffic.messages.is_none(),
        "a pScheduler task is one transfer: nothing can run beside it\nhint: leave out --against and --messages"
    );
    Ok(())
}

/// What the throughput test does, all but its destination.
fn spec(traffic: &Traffic, cc: &str) -> Result<Value> {
    let warmup_s = traffic.warmup_ms.div_ceil(1000);
    let seconds = u64::from(traffic.seconds);
    ensure!(
        warmup_s < seconds,
        "the warm-up, {warmup_s} s, leaves nothing of {seconds} s\nhint: --warmup, --seconds"
    );
    let mut spec = json!({
        "schema": 4, "dest": "", "duration": format!("PT{}S", seconds - warmup_s), "omit": format!("PT{warmup_s}S"),
        "interval": "PT1S", "parallel": traffic.streams, "congestion": cc,
    });
    match traffic.pattern {
        Pattern::Bulk => {}
        Pattern::Limited { rate_bps } => spec["bandwidth"] = rate_bps.into(),
        Pattern::OnOff { .. } => anyhow::bail!("a pScheduler task cannot pause\nhint: leave out --on-off"),
    }
    if let Some(bps) = traffic.pacing_bps {
        // `fq-rate` came with schema 7.
        spec["schema"] = 7.into();
        spec["fq-rate"] = bps.into();
    }
    if !traffic.direction.is_forward() {
        spec["reverse"] = true.into();
    }
    Ok(spec)
}

/// Whether it is a result, or something that holds one.
pub fn is_result(value: &Value) -> bool {
    result(value).is_some()
}

/// The result itself: bare, merged into a run, or of a participant.
fn result(value: &Value) -> Option<&Value> {
    [value, &value["result-merged"], &value["result"]].into_iter().find(|v| v["succeeded"].is_boolean())
}

/// Reads one throughput result. Where its `diags` hold iperf3's own JSON, that is read instead, because it says more.
/// `cc` is the controller where the result names none.
pub fn run(value: &Value, cc: &str) -> Result<ForeignRun, String> {
    let result = result(value).ok_or("it holds no pScheduler result")?;
    let diags = result["diags"].as_str().unwrap_or_default();
    let spec = &value["test"]["spec"];
    let cc = spec["congestion"].as_str().unwrap_or(cc);
    if result["succeeded"] != true {
        let inner = json_in(diags).and_then(|v| v["error"].as_str().map(String::from));
        let said =
            result["error"].as_str().map(String::from).or(inner).unwrap_or_else(|| "no reason given".into());
        return Err(format!("pScheduler: the test failed: {}", said.trim()));
    }
    let host = spec["dest"].as_str().unwrap_or_default().to_string();
    if json_in(diags).is_some_and(|v| v["end"]["sum_received"].is_object()) {
        let run = reading::iperf3(diags, cc)?;
        return Ok(ForeignRun {
            kind: "pscheduler",
            host: if host.is_empty() { run.host.clone() } else { host },
            ..run
        });
    }
    let summary = &result["summary"]["summary"];
    let number = |key: &str| summary[key].as_f64().filter(|v| *v > 0.0);
    // What arrived; or what was sent, where an older tool reports nothing else.
    let goodput = number("receiver-throughput-bits").or_else(|| number("throughput-bits"));
    if cc.is_empty() {
        return Err("it names no controller (give one with --cc)".into());
    }
    Ok(ForeignRun {
        kind: "pscheduler",
        host,
        streams: result["summary"]["streams"].as_array().map(|s| s.len() as u64),
        pacing_bps: spec["fq-rate"].as_u64().unwrap_or(0),
        cc: cc.into(),
        seconds: number("end"),
        goodput_bps: Some(goodput.ok_or("its summary has no throughput")?),
        retransmits: summary["retransmits"].as_u64(),
        rtt: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PathEntry;
    use crate::plan::traffic::Direction;
    use crate::report::synthetic;

    fn plan(host: &str) -> Plan {
        let entry = PathEntry { name: host.into(), ..PathEntry::default() };
        let mut base = synthetic::plan(1);
        base.cells.retain(|cell| cell.path == 0);
        let traffic = Traffic { streams: 4, ..base.traffic.clone() };
        Plan { place: Place::Remote(host.into()), paths: vec![entry], traffic, ..base }
    }

    /// What throughput schema 4 and task schema 1 allow, of what we write.
    const SPEC_KEYS: [&str; 10] = [
        "schema",
        "bandwidth",
        "dest",
        "duration",
        "omit",
        "interval",
        "parallel",
        "congestion",
        "single-ended",
        "single-ended-port",
    ];

    #[test]
    fn a_task_says_what_its_cell_says() {
        let plan = plan("dtn.example");
        for cell in &plan.cells {
            let text = serde_json::to_string(&task(&plan, cell).unwrap()).unwrap();
            let back: Value = serde_json::from_str(&text).unwrap();
            let spec = &back["test"]["spec"];
            assert_eq!((&spec["dest"], &spec["parallel"]), (&json!("dtn.example"), &json!(4)));
            assert_eq!((&spec["duration"], &spec["omit"]), (&json!("PT15S"), &json!("PT5S")), "20 s in all");
            assert_eq!(spec["congestion"], cell.cc.as_str());
            assert_eq!(back["reference"]["headway"]["cell"], cell.index);
            assert!(spec.as_object().unwrap().keys().all(|k| SPEC_KEYS.contains(&k.as_str())));
        }
        let mut limited = self::plan("dtn.example");
        limited.traffic.pattern = Pattern::limited("2mbit").unwrap();
        assert_eq!(task(&limited, &plan.cells[0]).unwrap()["test"]["spec"]["bandwidth"], 2_000_000);
        limited.traffic.pattern = Pattern::on_off("1s/1s").unwrap();
        assert!(task(&limited, &plan.cells[0]).unwrap_err().to_string().contains("cannot pause"));
        let other = task(&self::plan("dtn.example:5202"), &plan.cells[0]).unwrap();
        assert_eq!(other["test"]["spec"]["single-ended-port"], 5202);
        assert_eq!(other["test"]["spec"]["dest"], "dtn.example");
        let mut chosen = self::plan("a.example,b.example");
        assert!(task(&chosen, &plan.cells[0]).unwrap_err().to_string().contains("one destination"));
        chosen.remote.server = "b.example".into();
        chosen.traffic.direction = Direction::Reverse;
        let spec = task(&chosen, &plan.cells[0]).unwrap()["test"]["spec"].clone();
        assert_eq!((&spec["dest"], &spec["reverse"]), (&json!("b.example"), &json!(true)));
        let lab = Plan { place: Place::Lab, ..plan };
        assert!(task(&lab, &lab.cells[0]).unwrap_err().to_string().contains("--in remote HOST"));
    }

    #[test]
    fn a_result_is_read_bare_and_in_its_run() {
        let bare = json!({
            "succeeded": true, "diags": "iperf 2 said something", "intervals": [],
            "summary": { "streams": [{}, {}], "summary": {
                "start": 0.0, "end": 10.0, "throughput-bits": 9.5e9, "receiver-throughput-bits": 9.4e9, "retransmits": 12 } },
        });
        assert!(run(&bare, "").unwrap_err().contains("--cc"));
        let from_bare = run(&bare, "cubic").unwrap();
        assert_eq!(
            (from_bare.goodput_bps, from_bare.retransmits, from_bare.streams),
            (Some(9.4e9), Some(12), Some(2))
        );
        let whole = json!({ "test": { "type": "throughput", "spec": { "dest": "h", "congestion": "bbr" } }, "result-merged": bare });
        let whole = json_in(&format!("Submitting task...\nRun 1:\n{whole}\nNo further runs.\n")).unwrap();
        let from_run = run(&whole, "").unwrap();
        assert_eq!((from_run.cc.as_str(), from_run.host.as_str()), ("bbr", "h"));
    }

    #[test]
    fn iperf3_in_the_diagnostics_is_judged_like_any_other() {
        let ok = include_str!("../../tests/data/iperf3/3.18-ok.json");
        let result = |diags: &str, succeeded: bool| json!({ "succeeded": succeeded, "diags": diags, "intervals": [], "summary": {} });
        let good = run(&result(&format!("/usr/bin/iperf3 -p 5201 -c 127.0.0.1\n\n{ok}"), true), "").unwrap();
        assert_eq!((good.kind, good.cc.as_str()), ("pscheduler", "cubic"));
        let busy = include_str!("../../tests/data/iperf3/3.18-busy.json");
        let failed = run(&result(busy, false), "").unwrap_err();
        assert_eq!(failed, "pScheduler: the test failed: the server is busy running a test. try again later");
    }
}
