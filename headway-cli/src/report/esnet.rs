//! The table of ESnet's `summarize-iperf3.py`: one row for each path and controller, to be read beside theirs.
//!
//! It has means and standard deviations of the runs that count, and no verdicts: from these columns none can be
//! drawn. The usual table has them.

use super::run::Run;
use super::words::aligned;
use crate::metric::{self, CellData};
use crate::plan::Place;
use crate::plan::traffic::Traffic;
use crate::stats::{deviation, mean};

const COLUMNS: [&str; 8] =
    ["Dest Host", "RTT (ms)", "Streams", "CC Alg", "Pacing (Gbps)", "Tput (Gbps)", "Stddev (nvals)", "RXMTs"];

pub fn text(run: &Run) -> String {
    let mut rows = vec![COLUMNS.map(String::from).to_vec()];
    for path in 0..run.plan.paths.len() {
        rows.extend(run.plan.labels().map(|cc| row(run, path, cc)));
    }
    aligned(&rows, 1..3)
}

/// One path and controller: goodput in Gbit/s with its standard deviation, and retransmitted segments in the mean of
/// a run.
fn row(run: &Run, path: usize, cc: &str) -> Vec<String> {
    let entry = &run.plan.paths[path];
    let host = match &run.plan.place {
        Place::Remote(hosts) if is_told_by_columns(run, path) => match run.plan.remote.server.as_str() {
            "" => hosts,
            _ => &run.plan.remote.server,
        },
        _ if !entry.given.is_empty() && entry.kernel.is_empty() && is_told_by_columns(run, path) => {
            &entry.given
        }
        _ => &entry.name,
    };
    let traffic = run.plan.traffic(path);
    let data: Vec<&CellData> = run.data_of(path, cc).collect();
    let goodput = metric::index_of("goodput_bps");
    let gbps: Vec<f64> =
        run.cells_of(path, cc).filter_map(|c| c.counted(goodput)).map(|bps| bps / 1e9).collect();
    let rtts: Vec<f64> = data.iter().map(|d| d.result.base_rtt_us as f64 / 1e3).collect();
    let loads = data.iter().filter_map(|d| d.load.as_ref().ok());
    let retransmits: Vec<f64> = loads.filter_map(|l| l.retransmits).map(|n| n as f64).collect();
    let shown = |value: Option<f64>, digits: usize| value.map_or("-".into(), |v| format!("{v:.digits$}"));
    vec![
        host.clone(),
        shown(mean(&rtts), 1),
        traffic.streams.to_string(),
        cc.to_string(),
        traffic.pacing_bps.map_or("0".into(), |bps| (bps as f64 / 1e9).to_string()),
        shown(mean(&gbps), 4),
        format!("{} ({})", shown(deviation(&gbps), 4), gbps.len()),
        shown(mean(&retransmits), 0),
    ]
}

/// Whether the columns tell the paths apart. Streams and pacing have columns of their own; where anything else
/// differs, the first column has to hold the path's name.
fn is_told_by_columns(run: &Run, path: usize) -> bool {
    let rest = |t: &Traffic| Traffic { streams: 1, pacing_bps: None, ..t.clone() };
    let own = rest(run.plan.traffic(path));
    (0..run.plan.paths.len()).all(|other| rest(run.plan.traffic(other)) == own)
}
