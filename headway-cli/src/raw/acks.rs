//! `acks.txt`: the per-ACK trace, one row for each event of a controller of ours: the flow, then the words of the
//! event, of the controller's answer and of its state.
//!
//! The columns belong to `headway_cc::cc`; a kernel's trace is written by `headway-kernel` and a QUIC stack's by
//! `headway_cc::quic`, both as the events come. Here is the writer of a simulated run. `headway replay` reads all
//! three.

use crate::raw::load::socket;
use headway_cc::cc;
use headway_cc::sim::SimRun;
use std::fmt::Write as _;

/// The events of all flows that use the first traced flow's controller, flow after flow; `None` when nothing was
/// traced.
pub fn to_text(run: &SimRun) -> Option<String> {
    let traced = &run.flows.iter().find(|f| !f.trace.is_empty())?.cc;
    let (name, settings) = cc::name_and_settings(traced);
    let columns = cc::trace_columns(name, &*cc::controller(traced).ok()?);
    let mut text = cc::trace_header(&columns, &settings.collect::<Vec<_>>());
    for (index, flow) in run.flows.iter().enumerate().filter(|(_, f)| f.cc == *traced) {
        for row in &flow.trace {
            let words =
                row.ack.words().into_iter().chain(row.control.words()).chain(row.state.iter().copied());
            let words: Vec<String> = words.map(|w| w.to_string()).collect();
            writeln!(text, "{index}:{} {}", socket(index), words.join(" ")).expect("writing to memory");
        }
    }
    Some(text)
}
