//! `headway import`: runs that other programs made, one row a run, or the means that `headway compare --summary`
//! judges.
//!
//! A file's format is recognised by its content: iperf3's JSON (`-J` or `--json-stream`), a flent data file, a
//! pScheduler throughput result (bare, in its run, or with other text around it), the output of ping. In a folder
//! every file is tried whose name says that it may be one; ESnet's testing harness names them
//! `src-cmd:HOST:ITERATION`. A run that does not count is named with its reason. Nobody knows in which order such
//! runs were made, so there are no blocks.

use super::reading::{self, ForeignRun, Rtt, json_in};
use super::{flent, ping, pscheduler};
use crate::report::csv;
use crate::stats;
use crate::sys::file;
use crate::sys::out::plain;
use crate::sys::program::pipe_through;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What became of a file.
#[derive(Debug)]
pub struct Imported {
    pub file: PathBuf,
    pub run: Result<ForeignRun, String>,
}

/// Reads files, and folders in the order of their files' names. `cc` is the controller of runs whose file names none.
///
/// # Errors
/// A folder cannot be read, or there is no file to try. A file that cannot be read is not an error but a row with a
/// reason.
pub fn read(paths: &[PathBuf], cc: &str) -> Result<Vec<Imported>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() { collect(path, &mut files)? } else { files.push(path.clone()) }
    }
    ensure!(
        !files.is_empty(),
        "there is nothing to import\nhint: in a folder the files are called *.json, *.flent.gz, *.ping or src-cmd:…"
    );
    let run = |file: &Path| match read_file(file, cc) {
        Ok(run) => Ok(ForeignRun { host: plain(&run.host), cc: plain(&run.cc), ..run }),
        Err(reason) => Err(plain(&reason)),
    };
    Ok(files.into_iter().map(|file| Imported { run: run(&file), file }).collect())
}

/// Files of a folder that may hold a run.
fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("cannot read `{}`", dir.display()))?;
    let mut entries = entries
        .map(|e| e.and_then(|e| Ok((e.path(), e.file_type()?))))
        .collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, kind) in entries {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let is_meta = name == "jobmeta.json"
            || name.ends_with("-meta.json")
            || name.starts_with("mpstat-")
            || name.starts_with("ss:");
        let is_run = name.starts_with("src-cmd:")
            || [".json", ".flent", ".flent.gz", ".ping"].iter().any(|e| name.ends_with(e));
        match () {
            // A link may lead in a circle, and a pipe may never be written to.
            () if kind.is_dir() => collect(&path, files)?,
            () if kind.is_file() && is_run && !is_meta => files.push(path),
            () => {}
        }
    }
    Ok(())
}

fn read_file(file: &Path, cc: &str) -> Result<ForeignRun, String> {
    let bytes = file::read(file).map_err(|e| format!("cannot read it: {e}"))?;
    let bytes = match bytes.starts_with(&[0x1f, 0x8b]) {
        true => pipe_through("gzip", &["-dc"], &bytes).map_err(|e| format!("{e:#}"))?,
        false => bytes,
    };
    let mut run = parse(&String::from_utf8_lossy(&bytes), cc)?;
    if let Some(known) = HarnessFile::beside(file) {
        run.host = known.host;
        run.rtt = run.rtt.or(known.rtt);
    }
    Ok(run)
}

fn parse(text: &str, cc: &str) -> Result<ForeignRun, String> {
    if ping::is_ping(text) {
        return ping::run(text);
    }
    let value = json_in(text);
    let has = |key: &str| value.as_ref().is_some_and(|v| !v[key].is_null());
    match &value {
        Some(v) if has("x_values") => flent::run(v, cc),
        Some(v) if pscheduler::is_result(v) => pscheduler::run(v, cc),
        _ => reading::iperf3(text, cc),
    }
}

/// What a file of ESnet's testing harness says by its name and by the `HOST-meta.json` beside it.
struct HarnessFile {
    host: String,
    rtt: Option<Rtt>,
}

impl HarnessFile {
    fn beside(run: &Path) -> Option<Self> {
        let name = run.file_name()?.to_str()?;
        let host = name.strip_prefix("src-cmd:")?.split(':').next()?.to_string();
        let meta = file::read_plain_text(&run.with_file_name(format!("{host}-meta.json")));
        let meta: Option<Value> = meta.ok().and_then(|text| serde_json::from_str(&text).ok());
        let rtt = meta.as_ref().and_then(|m| m["rtt"].as_f64()).filter(|ms| *ms > 0.0);
        Some(Self { rtt: rtt.and_then(|ms| Rtt::of(&[ms], None)), host })
    }
}

/// One row a run; the last column of a file that does not count has the reason.
pub fn runs_csv(imported: &[Imported]) -> String {
    let head = "file kind host streams pacing_mbps cc seconds goodput_mbps retransmits rtt_min_ms rtt_median_ms rtt_p95_ms \
                loss_percent status";
    csv(std::iter::once(head.split(' ').map(String::from).collect()).chain(imported.iter().map(row)))
}

fn row(Imported { file, run }: &Imported) -> Vec<String> {
    let number = |v: Option<f64>| v.map_or(String::new(), |v| v.to_string());
    let r = run.clone().unwrap_or_default();
    let rtt = |of: fn(&Rtt) -> Option<f64>| number(r.rtt.as_ref().and_then(of));
    vec![
        file.display().to_string(),
        r.kind.into(),
        r.host.clone(),
        r.streams.map_or(String::new(), |n| n.to_string()),
        if run.is_ok() { mbps(r.pacing_bps as f64) } else { String::new() },
        r.cc.clone(),
        number(r.seconds),
        r.goodput_bps.map_or(String::new(), mbps),
        r.retransmits.map_or(String::new(), |n| n.to_string()),
        rtt(|r| Some(r.min_ms)),
        rtt(|r| Some(r.median_ms)),
        rtt(|r| r.p95_ms),
        rtt(|r| r.loss.map(|l| l * 100.0)),
        run.as_ref().err().map_or("ok", |e| e.as_str()).to_string(),
    ]
}

/// Mean and standard deviation of goodput by host, streams, pacing and controller: what `compare --summary` reads. A
/// group of one run has no standard deviation and is left out.
pub fn summary_csv(imported: &[Imported]) -> String {
    let mut groups: Vec<([String; 4], Vec<f64>)> = Vec::new();
    for run in imported.iter().filter_map(|i| i.run.as_ref().ok()) {
        let Some(goodput) = run.goodput_bps else { continue };
        let streams = run.streams.map_or(String::new(), |n| n.to_string());
        let key = [run.host.clone(), streams, mbps(run.pacing_bps as f64), run.cc.clone()];
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, values)) => values.push(goodput / 1e6),
            None => groups.push((key, vec![goodput / 1e6])),
        }
    }
    let head = ["host", "streams", "pacing_mbps", "cc", "goodput_mbps_mean", "goodput_mbps_stddev", "n"];
    let row = |(key, values): ([String; 4], Vec<f64>)| {
        let (mean, sd) = (stats::mean(&values)?, stats::deviation(&values)?);
        let numbers = [format!("{mean:.6}"), format!("{sd:.6}"), values.len().to_string()];
        Some(key.into_iter().chain(numbers).collect())
    };
    csv(std::iter::once(head.map(String::from).to_vec()).chain(groups.into_iter().filter_map(row)))
}

fn mbps(bps: f64) -> String {
    (bps / 1e6).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::CellData;
    use crate::plan::Plan;
    use crate::raw::folder::cell_dir;
    use crate::report::synthetic;

    macro_rules! recorded {
        ($name:literal) => {
            include_str!(concat!("../../tests/data/", $name))
        };
    }

    #[test]
    fn iperf3_is_known_by_its_content() {
        let run = parse(recorded!("iperf3/3.18-ok.json"), "").unwrap();
        assert_eq!((run.kind, run.host.as_str(), run.cc.as_str()), ("iperf3", "127.0.0.1", "cubic"));
        assert_eq!((run.streams, run.pacing_bps), (Some(2), 0));
        assert!((380e6..420e6).contains(&run.goodput_bps.unwrap()));
        assert!(run.rtt.unwrap().min_ms > 0.0);
        let busy = parse(recorded!("iperf3/3.21-busy.json"), "").unwrap_err();
        assert_eq!(busy, "iperf3: the server is busy running a test. try again later");
        assert!(parse("nothing of the kind", "").unwrap_err().contains("no JSON"));
        let mute =
            recorded!("iperf3/3.18-ok.json").replace("\"sender_tcp_congestion\":\t\"cubic\"", "\"x\":\t1");
        assert!(parse(&mute, "").unwrap_err().contains("--cc"));
        assert_eq!(parse(&mute, "bbr").unwrap().cc, "bbr");
    }

    #[test]
    fn a_stream_of_events_is_the_same_run() {
        let run = parse(recorded!("iperf3/3.21-stream.jsonl"), "").unwrap();
        assert_eq!((run.kind, run.cc.as_str(), run.streams), ("iperf3", "cubic", Some(2)));
        assert!((380e6..420e6).contains(&run.goodput_bps.unwrap()), "{run:?}");
        assert!(run.rtt.is_some());
        let refused = parse(recorded!("iperf3/3.21-stream_refused.jsonl"), "").unwrap_err();
        assert!(refused.starts_with("iperf3: unable to connect to server"), "{refused}");
    }

    #[test]
    fn what_flent_is_given_comes_back() {
        let folder = synthetic::run("import-flent", 1);
        let plan = Plan::read(&folder.dir).unwrap();
        let data =
            CellData::read(&cell_dir(&folder.dir, &plan.cells[0]), &plan.paths[plan.cells[0].path]).unwrap();
        let file = folder.dir.join("a.flent.gz");
        std::fs::write(&file, flent::file(&data).unwrap()).unwrap();
        let run = read_file(&file, "").unwrap();
        assert_eq!((run.kind, run.cc.as_str(), run.streams), ("flent", plan.cells[0].cc.as_str(), Some(1)));
        let load = data.load.as_ref().unwrap();
        let expected = load.received_bytes as f64 * 8e6 / load.received_us as f64;
        assert!((run.goodput_bps.unwrap() / expected - 1.0).abs() < 0.02, "{run:?} {expected}");
        assert!(run.rtt.unwrap().min_ms >= 40.0, "{run:?}");
    }

    #[test]
    fn a_folder_of_the_testing_harness_becomes_a_summary() {
        let folder = synthetic::Folder::new("import-dtn");
        let job = folder.dir.join("2024-01-01:10:00").join("job");
        std::fs::create_dir_all(&job).unwrap();
        let put = |name: &str, text: &str| std::fs::write(job.join(name), text).unwrap();
        for (i, version) in
            [recorded!("iperf3/3.14-ok.json"), recorded!("iperf3/3.16-ok.json")].iter().enumerate()
        {
            put(&format!("src-cmd:dtn.example:{}", i + 1), version);
        }
        put("src-cmd:dtn.example:3", recorded!("iperf3/3.16-server_kill.json"));
        put("jobmeta.json", "{\"name\":\"job\"}");
        put("dtn.example-meta.json", "{\"rtt\":44}");
        put("ss:dtn.example:1", "# 1");
        put("mpstat-sender:dtn.example:1.json", "{}");
        let imported = read(std::slice::from_ref(&folder.dir), "").unwrap();
        let csv = runs_csv(&imported);
        assert_eq!(imported.len(), 3, "{csv}");
        assert!(csv.contains("dtn.example,2,0,cubic,1"), "{csv}");
        assert!(
            csv.lines().last().unwrap().ends_with("iperf3: control socket has closed unexpectedly"),
            "{csv}"
        );
        let summary = summary_csv(&imported);
        assert_eq!(summary.lines().count(), 2, "{summary}");
        let row: Vec<&str> = summary.lines().nth(1).unwrap().split(',').collect();
        assert_eq!((row[0], row[3], row[6]), ("dtn.example", "cubic", "2"));
        let empty = folder.dir.join("empty");
        std::fs::create_dir(&empty).unwrap();
        assert!(read(&[empty], "").unwrap_err().to_string().contains("nothing to import"));
    }
}
