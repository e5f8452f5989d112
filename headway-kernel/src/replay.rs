//! Replays a trace: feeds every recorded event to the Rust controller and demands that it decides and remembers
//! what the kernel's did, word for word.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use headway_cc::cc::{Ack, Controller, Event, TRACE_SET};

use crate::Program;

/// What was compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayReport {
    /// The controller, by which the trace's last columns are named.
    pub cc: &'static str,
    pub events: u64,
    pub flows: u64,
    /// Events of each kind, by the number of the [`Event`].
    pub kinds: [u64; 7],
}

/// Replays an `acks.txt` and says what was compared.
pub fn replay_file(file: &std::path::Path) -> Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let r = replay_check(&text).with_context(|| format!("`{}` does not replay", file.display()))?;
    Ok(format!(
        "{} events of {} flows: every decision and state of `{}` is equal in Rust",
        r.events, r.flows, r.cc
    ))
}

/// Replays the text of an `acks.txt`. The first difference is an error that names its line and its column.
pub fn replay_check(acks_txt: &str) -> Result<ReplayReport> {
    let mut lines = acks_txt.lines().zip(1..).peekable();
    let header =
        lines.next().and_then(|(l, _)| l.strip_prefix("# ")).context("the trace has no header line")?;
    let columns: Vec<&str> = header.split(' ').collect();
    let cc = columns.last().and_then(|c| c.split_once('.')).map_or("", |(cc, _)| cc);
    let program = Program::named(cc).with_context(|| format!("no controller of ours is called `{cc}`"))?;
    let set =
        lines.next_if(|(l, _)| l.starts_with(TRACE_SET)).map(|(line, _)| line[TRACE_SET.len()..].split(' '));
    let params = program.params.with(set.into_iter().flatten())?;
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
    let (flow, rest) = line.split_once(' ').context("it has one word")?;
    let words: Vec<u64> =
        rest.split(' ').map(str::parse).collect::<Result<_, _>>().context("not all are numbers")?;
    ensure!(words.len() + 1 == columns.len(), "it has {} words, not {}", words.len() + 1, columns.len());
    let ack = Ack::from_words(&words[..Ack::FIELDS.len()]).context("it has no whole event")?;
    if ack.event == Event::Init {
        flows.insert(flow.into(), start()?);
        report.flows += 1;
    }
    let controller =
        flows.get_mut(flow).with_context(|| format!("flow {flow} does not start with event 0"))?;
    let mut ours = controller.on_event(&ack).words();
    ours.extend(controller.state());
    let recorded = &words[Ack::FIELDS.len()..];
    ensure!(ours.len() == recorded.len(), "the controller's state has another layout than the trace");
    if let Some(at) = (0..ours.len()).find(|&i| ours[i] != recorded[i]) {
        let column = columns[1 + Ack::FIELDS.len() + at];
        bail!(
            "flow {flow}, event {}: `{column}` is {} here and {} in the kernel",
            u64::from(ack.event),
            ours[at],
            recorded[at]
        );
    }
    report.events += 1;
    if let Some(kind) = report.kinds.get_mut(ack.event as usize) {
        *kind += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use headway_cc::cc::Event;

    use super::*;
    use crate::{PROGRAMS, columns};

    /// Three events of one flow, as the Rust controller sees them.
    fn trace_of(program: &'static Program, set: &[&str]) -> String {
        let params = program.params.with(set.iter().copied()).unwrap();
        let mut cc = program.twin(&params).unwrap();
        let mut text = columns(program, &params).unwrap().header();
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
            let report = replay_check(&trace_of(program, &[])).unwrap();
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
        assert_eq!(replay_check(&text).unwrap().events, 3);
        let without: Vec<&str> = text.lines().filter(|l| !l.starts_with(TRACE_SET)).collect();
        let error = format!("{:#}", replay_check(&without.join("\n")).unwrap_err());
        assert!(error.contains("line 2") && error.contains("`out.pacing_rate`"), "{error}");
        assert!(replay_check(&text.replace("init_rtt_us", "speed")).is_err());
    }

    #[test]
    fn one_wrong_word_is_found_and_named() {
        let text = trace();
        let cwnd = 1 + Ack::FIELDS.len();
        let mut lines: Vec<String> = text.lines().map(Into::into).collect();
        let mut words: Vec<String> = lines[2].split(' ').map(Into::into).collect();
        words[cwnd] = (words[cwnd].parse::<u64>().unwrap() + 1).to_string();
        lines[2] = words.join(" ");
        let error = format!("{:#}", replay_check(&lines.join("\n")).unwrap_err());
        assert!(error.contains("line 3") && error.contains("`out.cwnd`"), "{error}");
    }

    #[test]
    fn a_trace_that_starts_in_the_middle_is_refused() {
        let text: Vec<String> = trace().lines().map(Into::into).collect();
        let error = format!("{:#}", replay_check(&[&text[0][..], &text[2]].join("\n")).unwrap_err());
        assert!(error.contains("does not start"), "{error}");
    }

    #[test]
    fn a_file_without_header_is_refused() {
        assert!(replay_check("1 2 3\n").is_err());
        assert!(replay_check("").is_err());
    }
}
