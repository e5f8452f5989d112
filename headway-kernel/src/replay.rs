//! Replays a trace: feeds every recorded event to the Rust controller and demands that it decides and remembers
//! what the kernel's did, word for word.

use std::collections::HashMap;

use headway_cc::cc::{Ack, Controller, Event, TRACE_SET};

use crate::error::{Context, Result, bail, ensure};
use crate::programs::PROGRAMS;

/// What [`replay`] compared, all of it equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayReport {
    /// The controller, after which the trace's last columns are named.
    pub cc: &'static str,
    /// Events, each of them one line.
    pub events: u64,
    /// Flows; a socket that comes back to the controller is a flow of its own.
    pub flows: u64,
    /// Events of each kind, by the number of the [`Event`].
    pub kinds: [u64; 7],
}

/// Replays the text of a trace: gives each event to the Rust twin and compares its decision and its state with those
/// recorded.
///
/// Fails at the first difference, naming its line and its column, and when the text is no trace of one of our
/// controllers from the start of each flow on.
pub fn replay(text: &str) -> Result<ReplayReport> {
    let mut lines = text.lines().zip(1..).peekable();
    let header =
        lines.next().and_then(|(l, _)| l.strip_prefix("# ")).context("the trace has no header line")?;
    let columns: Vec<&str> = header.split(' ').collect();
    let cc = columns.last().and_then(|c| c.split_once('.')).map_or("", |(cc, _)| cc);
    let program = PROGRAMS.iter().find(|p| p.name == cc);
    let program = program.with_context(|| format!("no controller of ours is called `{cc}`"))?;
    let set =
        lines.next_if(|(l, _)| l.starts_with(TRACE_SET)).map(|(line, _)| line[TRACE_SET.len()..].split(' '));
    let params = program.params.with(set.into_iter().flatten()).context("the trace's parameters")?;
    let start = || program.twin(&params).context("the controller has other parameters");
    let mut report = ReplayReport { cc: program.name, events: 0, flows: 0, kinds: [0; 7] };
    let mut flows = HashMap::new();
    for (line, number) in lines {
        replay_line(line, &columns, &start, &mut flows, &mut report)
            .with_context(|| format!("line {number}"))?;
    }
    Ok(report)
}

fn replay_line(
    line: &str,
    columns: &[&str],
    start: &dyn Fn() -> Result<Box<dyn Controller>>,
    flows: &mut HashMap<String, Box<dyn Controller>>,
    report: &mut ReplayReport,
) -> Result<()> {
    let (flow, words) = split_line(line, columns.len())?;
    let (event, recorded) = words.split_at(Ack::FIELDS.len().min(words.len()));
    let ack = Ack::from_words(event).context("it has no whole event")?;
    if ack.event == Event::Init {
        flows.insert(flow.into(), start()?);
        report.flows += 1;
    }
    let controller =
        flows.get_mut(flow).with_context(|| format!("flow {flow} does not start with event 0"))?;
    let mut ours = controller.on_event(&ack).words();
    ours.extend(controller.state());
    ensure!(ours.len() == recorded.len(), "the controller's state has another layout than the trace");
    if let Some(at) = (0..ours.len()).find(|&i| ours[i] != recorded[i]) {
        let column = columns[1 + Ack::FIELDS.len() + at];
        let (kind, here, there) = (u64::from(ack.event), ours[at], recorded[at]);
        bail!("flow {flow}, event {kind}: `{column}` is {here} here and {there} in the kernel");
    }
    report.events += 1;
    if let Some(kind) = report.kinds.get_mut(ack.event as usize) {
        *kind += 1;
    }
    Ok(())
}

/// The flow of a line, and the words after it.
fn split_line(line: &str, columns: usize) -> Result<(&str, Vec<u64>)> {
    let (flow, rest) = line.split_once(' ').context("it has one word")?;
    let words: Result<Vec<u64>, _> = rest.split(' ').map(str::parse).collect();
    let words = words.context("not all are numbers")?;
    ensure!(words.len() + 1 == columns, "it has {} words, not {columns}", words.len() + 1);
    Ok((flow, words))
}

#[cfg(test)]
mod tests {
    use headway_cc::cc::Event;

    use super::*;
    use crate::programs::Program;

    /// Three events of one flow, as the Rust controller sees them.
    fn trace_of(program: &'static Program, set: &[&str]) -> String {
        let params = program.params.with(set.iter().copied()).unwrap();
        let mut cc = program.twin(&params).unwrap();
        let mut text = crate::trace::Columns::of(program, &params).unwrap().header();
        for event in [Event::Init, Event::Ack, Event::Ack] {
            let ack = Ack { event, smss: 1, unit_bytes: 1448, cwnd: 10, cwnd_clamp: 1000, ..Ack::default() };
            let ack = Ack { newly_acked: event.into(), max_pacing_rate: u64::MAX, ..ack };
            let mut words = ack.words();
            words.extend(cc.on_event(&ack).words());
            words.extend(cc.state());
            text += "7:5201";
            for word in words {
                text += &format!(" {word}");
            }
            text += "\n";
        }
        text
    }

    fn trace() -> String {
        trace_of(&PROGRAMS[0], &[])
    }

    #[test]
    fn a_true_trace_replays() {
        for program in PROGRAMS {
            let report = replay(&trace_of(program, &[])).unwrap();
            assert_eq!((report.events, report.flows, report.cc), (3, 1, program.name));
            assert_eq!(report.kinds, [1, 2, 0, 0, 0, 0, 0]);
        }
    }

    #[test]
    fn a_trace_with_other_parameters_replays_with_them_only() {
        let bbr3 = Program::named("bbr3").unwrap();
        let set = ["pacing_margin_percent=20%", "init_rtt_us=9ms"];
        let text = trace_of(bbr3, &set);
        assert!(text.contains("\n# set pacing_margin_percent=20% init_rtt_us=9ms\n7:5201 0 "), "{text}");
        assert_eq!(replay(&text).unwrap().events, 3);
        let without: Vec<&str> = text.lines().filter(|l| !l.starts_with(TRACE_SET)).collect();
        let error = format!("{:#}", replay(&without.join("\n")).unwrap_err());
        assert!(error.contains("line 2") && error.contains("`out.pacing_rate`"), "{error}");
        assert!(replay(&text.replace("init_rtt_us", "speed")).is_err());
    }

    #[test]
    fn one_wrong_word_is_found_and_named() {
        let text = trace();
        let cwnd = 1 + Ack::FIELDS.len();
        let mut lines: Vec<String> = text.lines().map(Into::into).collect();
        let mut words: Vec<String> = lines[2].split(' ').map(Into::into).collect();
        words[cwnd] = (words[cwnd].parse::<u64>().unwrap() + 1).to_string();
        lines[2] = words.join(" ");
        let error = format!("{:#}", replay(&lines.join("\n")).unwrap_err());
        assert!(error.contains("line 3") && error.contains("`out.cwnd`"), "{error}");
    }

    #[test]
    fn a_trace_that_starts_in_the_middle_is_refused() {
        let text: Vec<String> = trace().lines().map(Into::into).collect();
        let error = format!("{:#}", replay(&[&text[0][..], &text[2]].join("\n")).unwrap_err());
        assert!(error.contains("does not start"), "{error}");
    }

    #[test]
    fn a_file_without_header_is_refused() {
        assert!(replay("1 2 3\n").is_err());
        assert!(replay("").is_err());
    }
}
