//! What is printed of a trial, and what other programs read.

use super::answer;
use super::findings::{Effect, Findings, change_text, interval_text, size_text};
use super::folder::Trial;
use super::outcome::{Counts, Outcome};
use crate::report::judge::Judgement;
use crate::report::terminal::{Column, Row, Word, bold, styled, table, wrapped};
use crate::report::words::p_value;
use anyhow::Result;
use serde_json::{Value, json};

pub fn of(trial: &Trial, findings: &Findings, width: usize) -> String {
    let mut text: String = answer::sentences(trial, findings).iter().map(|s| wrapped(s, width, 2)).collect();
    if !findings.effects.is_empty() {
        text += &format!("\n{}", effects(trial, findings, width));
    }
    text += &format!("\n{}", wrapped(&counts(&findings.counts, findings.networks), width, 2));
    text += &trial.damage.iter().map(|d| wrapped(&format!("note: {d}"), width, 2)).collect::<String>();
    text
}

fn effects(trial: &Trial, findings: &Findings, width: usize) -> String {
    let columns = [
        Column::word("metric", 0),
        Column::word("verdict", 0),
        Column::number("change", 0),
        Column::number("95 % interval", 1),
        Column::number("base → candidate", 2),
        Column::number("A/A noise", 3),
        Column::number("p (coin)", 5),
        Column::number("pairs", 4),
        Column::number("side by side", 6),
    ];
    let rows: Vec<Row> = findings.effects.iter().map(|e| Row::Words(row(e))).collect();
    let caption = format!("{} against {}", trial.setup.arms[1], trial.setup.arms[0]);
    format!("{}\n{}", styled(&caption, bold()), table(&columns, &rows, width).0)
}

fn row(e: &Effect) -> Vec<Word> {
    let (unit, judged) = (e.metric.unit, &e.judged);
    let (base, cand) = (judged.baseline_spread.show(unit), judged.candidate_spread.show(unit));
    let noise = judged.noise.map_or("-".into(), |n| format!("±{}", size_text(e.metric, judged.scale, n)));
    let side = |side: &Judgement| change_text(e.metric, side.scale, side.improvement.center);
    let words = [
        change_text(e.metric, judged.scale, judged.improvement.center),
        dash(interval_text(e.metric, judged)),
        format!("{} → {cand}", base.trim_end_matches(unit.word).trim_end()),
        noise,
        p_value(e.p_coin),
        judged.improvement.n.to_string(),
        e.side_by_side.as_ref().map_or("-".into(), side),
    ];
    let name = [Word::from(e.metric.label.to_string()), Word::verdict(judged.verdict, "")];
    name.into_iter().chain(words.map(Word::from)).collect()
}

fn dash(text: String) -> String {
    if text.is_empty() { "-".into() } else { text }
}

/// How many connections count, and what became of the others.
fn counts(counts: &Counts, networks: usize) -> String {
    let [base, cand] = counts.counted;
    let left_out: Vec<String> =
        left_out(counts).into_iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} {why}")).collect();
    let left_out = if left_out.is_empty() { "none".into() } else { left_out.join(", ") };
    format!(
        "{} connections of {networks} networks count ({base} and {cand}), {} of them still open at the end. Left out: {left_out}.",
        base + cand,
        counts.open
    )
}

/// Connections that do not count, and why.
pub fn left_out(counts: &Counts) -> [(usize, &'static str); 5] {
    [
        (counts.burn_in, "began in the burn-in of a slot"),
        (counts.at_end, "began just before the end of a slot"),
        (counts.canary, "in the canary slot"),
        (counts.unfinished, "in slots that were not finished"),
        (counts.other_arm, "with another controller than their slot's"),
    ]
}

/// results.json.
///
/// # Errors
/// None: numbers that JSON does not have are null.
pub fn json(trial: &Trial, findings: &Findings) -> Result<String> {
    let counts = &findings.counts;
    let value = json!({
        "trial": trial.setup,
        "ended": trial.ended,
        "is_final": findings.is_final,
        "answer": answer::sentences(trial, findings),
        "pairs": findings.pairs(),
        "effects": findings.effects.iter().map(effect_json).collect::<Vec<_>>(),
        "spill_over": findings.spill.iter().map(|s| json!({
            "metric": s.metric.name, "groups": s.groups, "scale": answer::scale_word(s.scale),
            "gain": s.difference.center, "p": s.p, "is_found": s.is_found(),
        })).collect::<Vec<_>>(),
        "foreign_share": findings.foreign_share,
        "parts": findings.parts.iter().map(|p| json!({
            "of": p.of, "name": p.name, "connections": p.connections, "metric": p.metric.name,
            "effect": p.judged.as_ref().map(judged_json),
        })).collect::<Vec<_>>(),
        "slots": findings.outcomes.iter().map(outcome_json).collect::<Vec<_>>(),
        "counts": {
            "counted": counts.counted, "burn_in": counts.burn_in, "at_end": counts.at_end, "canary": counts.canary,
            "unfinished": counts.unfinished, "other_arm": counts.other_arm, "open": counts.open,
            "not_as_set": counts.not_as_set, "small": counts.small, "without_rtt": counts.without_rtt,
        },
        "networks": findings.networks,
        "damage": trial.damage,
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn effect_json(e: &Effect) -> Value {
    let mut value = judged_json(&e.judged);
    value["metric"] = json!(e.metric.name);
    value["p_coin"] = json!(e.p_coin);
    value["detectable"] = json!(e.detectable);
    value["side_by_side"] = json!(e.side_by_side.as_ref().map(judged_json));
    value
}

/// Improvements, positive is better, as in the bench's results.json.
fn judged_json(j: &Judgement) -> Value {
    let s = &j.improvement;
    json!({
        "scale": j.scale, "baseline": j.baseline_spread, "candidate": j.candidate_spread,
        "improvement": s.center, "low": s.low, "high": s.high, "n": s.n, "p": s.p, "p_holm": j.p_family,
        "noise": j.noise, "margin": j.margin, "verdict": j.verdict.map(|v| v.word()),
    })
}

fn outcome_json(o: &Outcome) -> Value {
    let values: serde_json::Map<String, Value> =
        super::outcome::METRICS.iter().zip(o.values).map(|(m, v)| (m.name.to_string(), json!(v))).collect();
    json!({ "slot": o.slot, "arm": o.arm, "began_ms": o.began_ms, "connections": o.connections, "values": values })
}

#[cfg(test)]
mod tests {
    use super::super::connection::Connection;
    use super::super::folder::{Ended, SlotRow};
    use super::super::schedule::Kind;
    use super::super::setup::{Scope, Setup, sample};
    use super::*;

    /// Forty slots in which the candidate doubles the goodput of everybody, and of its own connections fourfold in half slots.
    fn trial(ended: Option<Ended>) -> Trial {
        let scope =
            Scope { prefixes: vec!["192.0.2.0/24".into()], ports: vec![(443, 443)], ..Scope::default() };
        let setup = Setup { scope, arms: ["cubic".into(), "bbr3".into()], ..sample() };
        let (mut connections, mut slots) = (Vec::new(), Vec::new());
        for (slot, scheduled) in (0..).zip(setup.schedule()) {
            let began_ms = u64::from(slot) * 60_000;
            slots.push(SlotRow { slot, began_ms, ended_ms: began_ms + 60_000, ..SlotRow::default() });
            for i in 0..40u64 {
                let (arm, faster) = match scheduled.kind {
                    Kind::Whole(arm) => (arm, 1 + arm as u64),
                    _ => (i as usize % 2, 1 + 3 * (i % 2)),
                };
                connections.push(Connection {
                    slot,
                    arm: arm as u8,
                    began_ms: began_ms + 20_000 + i,
                    ended_ms: began_ms + 25_000,
                    is_as_set: true,
                    prefix: i % 4,
                    bytes_acked: 1_000_000,
                    bytes_sent: 1_000_000,
                    bytes_retransmitted: 5000,
                    busy_us: (1_000_000 + i * 1000 + u64::from(slot)) / faster,
                    min_rtt_us: 20_000 + i,
                    rtts: vec![(40, 5), (41, 5)],
                    ..Connection::default()
                });
            }
        }
        Trial { setup, connections, slots, ended, damage: vec!["slots.txt: <b>cut</b>.".into()] }
    }

    fn plain(trial: &Trial) -> String {
        let findings = Findings::of(trial);
        anstream::adapter::strip_str(&of(trial, &findings, usize::MAX)).to_string()
    }

    #[test]
    fn the_answer_comes_first_and_both_numbers_where_connections_touch_each_other() {
        let text = plain(&trial(Some(Ended::Done { at_ms: 2_400_000 })));
        let first = "On this machine, in these hours, moving all of this traffic from cubic to bbr3 leaves the RTT above minimum at p95 where \
                     it was";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("changes the goodput in busy time by +100"), "{text}");
        assert!(text.contains("Connections touch each other: side by side in half slots the candidate's goodput in busy time was +300"), "{text}");
        assert!(!text.contains("candidate's RTT"), "a difference of nothing is no spill-over: {text}");
        assert!(text.contains("1600 connections of 4 networks count"), "{text}");
        assert!(text.contains("note: slots.txt"), "{text}");
    }

    #[test]
    fn a_trial_that_was_stopped_says_so_first() {
        let because = "the candidate is slower in busy time: 1 Mbit/s instead of 2".to_string();
        let text = plain(&trial(Some(Ended::Stopped { at_ms: 60_000, because })));
        assert!(text.starts_with("A guard ended the trial after 60 s: the candidate is slower"), "{text}");
        assert!(text.contains("hold at every look"), "{text}");
        assert!(plain(&trial(None)).starts_with("The trial has done 40 of 40 slots and has not ended."));
        let empty = Trial { connections: vec![], slots: vec![], ..trial(None) };
        assert!(plain(&empty).contains("nothing is known"));
    }

    /// Two numbers and a table for machines; no address anywhere, and what a stranger wrote is text.
    #[test]
    fn json_and_page_have_it_all_and_no_address() {
        let trial = trial(Some(Ended::Done { at_ms: 2_400_000 }));
        let findings = Findings::of(&trial);
        let value: Value = serde_json::from_str(&json(&trial, &findings).unwrap()).unwrap();
        assert_eq!((value["pairs"].as_u64(), value["slots"].as_array().unwrap().len()), (Some(16), 48));
        assert_eq!(value["spill_over"][1]["is_found"], true);
        let page = super::super::page::html(&trial, &findings);
        assert!(page.contains("Do connections touch each other?") && page.contains("&lt;b&gt;cut"), "{page}");
        assert!(
            page.contains("with one remote network") && !page.contains("192.0.2"),
            "the page names an address"
        );
        for fetched in ["http://", "https://", "<script src", "url(", "@import"] {
            assert!(!page.contains(fetched), "the page fetches something: {fetched}");
        }
    }
}
