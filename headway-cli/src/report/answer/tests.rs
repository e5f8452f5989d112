//! The sentences of an answer, held word for word against runs that are made up.

use super::super::findings::Findings;
use super::super::judge::{self, Judgement, Pairs, Question};
use super::super::synthetic;
use super::*;
use serde_json::{Value, json};

/// A run of a plan with these controllers, paths and blocks, and no cell run.
fn run(name: &str, ccs: &[&str], paths: usize, blocks: u32) -> Run {
    let folder = synthetic::Folder::new(name);
    let mut plan: Value = serde_json::to_value(synthetic::plan(1)).unwrap();
    let named = |p: usize| json!({ "name": format!("path{p}"), "text": "100mbit 40ms" });
    plan["paths"] = (0..paths).map(named).collect();
    plan["ccs"] = json!(ccs);
    plan["blocks"] = json!(blocks);
    plan["cells"] = synthetic::cells(ccs, 0..paths, blocks);
    synthetic::write(&folder.dir.join("plan.json"), &plan.to_string());
    Run::read(&folder.dir).unwrap()
}

/// What was measured of a metric: path, candidate, the baseline's value and the candidate's, alike in all blocks.
type Measured<'a> = (usize, &'a str, &'static str, f64, f64);

fn judged(measured: &[Measured<'_>], blocks: usize) -> Vec<Comparison> {
    let one = |(path, candidate, name, base, cand): &Measured<'_>| {
        let metric = &METRICS[index_of(name)];
        let question = Question { better: metric.better, margin: metric.margin, ceiling: None };
        let pairs = Pairs { baseline: vec![*base; blocks], candidate: vec![*cand; blocks] };
        let judged = Judgement::of(&pairs, &question).unwrap();
        Comparison { path: *path, metric, candidate: (*candidate).into(), judged }
    };
    let mut all: Vec<Comparison> = measured.iter().map(one).collect();
    for metric in METRICS {
        judge::decide(all.iter_mut().filter(|c| c.metric.name == metric.name).map(|c| &mut c.judged));
    }
    all
}

fn said(run: &Run, measured: &[Measured<'_>], blocks: usize) -> Vec<String> {
    of(run, &judged(measured, blocks), None).sentences
}

#[test]
fn a_gain_is_said_with_its_price() {
    let run = run("answer-price", &["bbr", "cubic"], 1, 8);
    let measured = [(0, "cubic", GOODPUT, 46.2e6, 6.5e6), (0, "cubic", QUEUE_DELAY, 12_000.0, 4000.0)];
    assert_eq!(
        said(&run, &measured, 8),
        [
            "On path0, bbr carries 7.1 times what cubic does (46.2 instead of 6.50 Mbit/s), bought with a p95 queueing \
          delay 3.0 times as long (12.0 instead of 4.00 ms)."
        ]
    );
    let measured = [(0, "cubic", GOODPUT, 50e6, 44e6), (0, "cubic", QUEUE_DELAY, 100_000.0, 37_000.0)];
    assert_eq!(
        said(&run, &measured, 8),
        [
            "On path0, cubic's p95 queueing delay is 63 % shorter than bbr's (37.0 instead of 100.0 ms), bought with 12 % \
          less goodput (44.0 instead of 50.0 Mbit/s)."
        ]
    );
    let all = judged(&measured, 8);
    assert_eq!(price(&all, &all[1]).map(|c| c.metric.name), Some(GOODPUT));
    assert!(price(&all, &all[0]).is_none(), "a loss has no price");
    // The loss is the larger change: what it buys is said behind it.
    let measured = [(0, "cubic", GOODPUT, 50e6, 30e6), (0, "cubic", QUEUE_DELAY, 100_000.0, 90_000.0)];
    assert_eq!(
        said(&run, &measured, 8),
        [
            "On path0, cubic carries 40 % less than bbr (30.0 instead of 50.0 Mbit/s), which buys a p95 queueing delay \
          10 % shorter (90.0 instead of 100.0 ms)."
        ]
    );
}

#[test]
fn what_costs_nothing_says_so() {
    let run = run("answer-free", &["bbr3", "bbr3_brake"], 1, 8);
    let measured =
        [(0, "bbr3_brake", GOODPUT, 50e6, 50.1e6), (0, "bbr3_brake", QUEUE_DELAY, 100_000.0, 38_000.0)];
    assert_eq!(
        said(&run, &measured, 8),
        [
            "On path0, bbr3_brake's p95 queueing delay is 62 % shorter than bbr3's (38.0 instead of 100.0 ms); its goodput \
          stays within 2 %."
        ]
    );
    // Messages are what a delay is felt in, so they come before the probes.
    let with_messages = [
        (0, "bbr3_brake", GOODPUT, 50e6, 60e6),
        (0, "bbr3_brake", QUEUE_DELAY, 1e5, 1e5),
        (0, "bbr3_brake", MESSAGE_DELAY, 1e5, 2.5e5),
    ];
    assert_eq!(
        said(&run, &with_messages, 8),
        [
            "On path0, bbr3_brake's p99 message delay is 2.5 times as long as bbr3's (250.0 instead of 100.0 ms), which \
          buys 20 % more goodput (60.0 instead of 50.0 Mbit/s)."
        ]
    );
}

#[test]
fn nothing_found_is_said_with_its_counts() {
    let run = run("answer-same", &["bbr", "bbr1"], 3, 8);
    let same: Vec<Measured<'_>> = (0..3).map(|p| (p, "bbr1", GOODPUT, 50e6, 50e6)).collect();
    assert_eq!(
        said(&run, &same, 8),
        ["No difference between bbr1 and bbr was found that matters: 3 of 3 comparisons are equivalent."]
    );
    // Only one path differs: the others are told too.
    let mut one = same.clone();
    one[1].4 = 25e6;
    let said = said(&run, &one, 8);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].starts_with("On path1, bbr carries 2.0 times what bbr1 does (50.0 instead of 25.0 Mbit/s)"),
        "{said:?}"
    );
    assert_eq!(
        said[1],
        "No difference between bbr1 and bbr was found on the other paths that matters: 2 of 2 comparisons are equivalent."
    );
}

#[test]
fn too_few_blocks_say_how_many_it_takes() {
    for (blocks, word) in [(1, "1 block"), (2, "2 blocks")] {
        let run = run("answer-few", &["bbr", "cubic"], 3, blocks);
        let measured = [(2, "cubic", GOODPUT, 46.2e6, 6.5e6), (0, "cubic", QUEUE_DELAY, 1e4, 1e4)];
        assert_eq!(
            said(&run, &measured, blocks as usize),
            [
                format!("With {word} nothing can be decided: 9 are needed."),
                "A point without a verdict: on path2, bbr carries 7.1 times what cubic does (46.2 instead of 6.50 Mbit/s)."
                    .into()
            ]
        );
    }
    let run = run("answer-lost", &["bbr", "cubic"], 1, 10);
    let said = said(&run, &[(0, "cubic", GOODPUT, 5e7, 5e7)], 3);
    assert_eq!(said, ["Nothing can be decided: of 10 blocks only 3 can be compared, and 7 are needed."]);
}

#[test]
fn values_without_a_ratio_and_bounds_are_said_as_such() {
    let run = run("answer-zero", &["bbr", "cubic"], 1, 8);
    let measured = [(0, "cubic", QUEUE_DELAY, 0.0, 7000.0), (0, "cubic", GOODPUT, 5e7, 5e7)];
    assert_eq!(
        said(&run, &measured, 8),
        [
            "On path0, cubic's p95 queueing delay is 7.00 ms longer than bbr's (7.00 instead of 0 ms); its goodput stays \
          within 2 %."
        ]
    );
    // The difference of a delay is turned round with the sentence, whose subject is the baseline.
    let measured = [(0, "cubic", GOODPUT, 46.2e6, 6.5e6), (0, "cubic", QUEUE_DELAY, 7000.0, 0.0)];
    assert_eq!(
        said(&run, &measured, 8),
        [
            "On path0, bbr carries 7.1 times what cubic does (46.2 instead of 6.50 Mbit/s), bought with a p95 queueing \
          delay 7.00 ms longer (7.00 instead of 0 ms)."
        ]
    );
    let measured = [(0, "cubic", "retransmit_rate", 0.0, 0.03)];
    assert_eq!(
        said(&run, &measured, 8),
        ["On path0, cubic's retransmit rate is 3.00 pp higher than bbr's (3.00 instead of 0 %)."]
    );
    let measured = [(0, "cubic", GOODPUT, 0.0, 5e6)];
    assert_eq!(
        said(&run, &measured, 8),
        ["On path0, cubic carries 5.00 Mbit/s more than bbr (5.00 instead of 0 Mbit/s)."]
    );
    let mut all = judged(&[(0, "cubic", QUEUE_DELAY, 1000.0, 6000.0)], 8);
    all[0].judged.candidate_spread.is_bound = true;
    assert_eq!(
        of(&run, &all, None).sentences,
        [
            "On path0, cubic's p95 queueing delay is at least 6.0 times as long as bbr's (≥ 6.00 instead of 1.00 ms)."
        ]
    );
}

#[test]
fn several_candidates_have_a_sentence_each_and_the_other_way_round() {
    let run = run("answer-several", &["bbr", "a", "b", "c", "d"], 2, 10);
    let mut measured = Vec::new();
    for (cc, cand) in [("a", 50e6), ("b", 40e6), ("c", 30e6), ("d", 20e6)] {
        measured.push((0, cc, GOODPUT, 50e6, cand));
        measured.push((1, cc, GOODPUT, 50e6, if cc == "d" { 60e6 } else { 50e6 }));
    }
    let said = said(&run, &measured, 10);
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!(
        said[0],
        "On path0, bbr carries 2.5 times what d does (50.0 instead of 20.0 Mbit/s); on path1, d carries 20 % more than bbr \
         (60.0 instead of 50.0 Mbit/s)."
    );
    assert!(
        said[1].starts_with("On path0, c carries 40 % less than bbr")
            && said[2].contains("b carries 20 % less"),
        "{said:?}"
    );
}

#[test]
fn two_hundred_paths_are_one_mean_and_the_two_ends() {
    let run = run("answer-many", &["bbr3", "bbr3_brake"], 200, 14);
    let measured: Vec<Measured<'_>> = (0..200)
        .map(|p| (p, "bbr3_brake", QUEUE_DELAY, 1e5, if p == 7 { 2e5 } else { 9e4 - p as f64 * 100.0 }))
        .collect();
    let comparisons = judged(&measured, 14);
    let mean = |name: &str, ratio: f64| Mean {
        metric: &METRICS[index_of(name)],
        candidate: "bbr3_brake".into(),
        ratio,
        interval: Some((ratio - 0.005, ratio + 0.005)),
        over: mean::Unit::Blocks,
        n: 14,
        paths: 200,
        left_out: 0,
    };
    let told =
        |means: &[Mean]| Teller { run: &run, judged: comparisons.iter().collect(), means }.many_paths();
    let said = told(&[mean(GOODPUT, 1.002), mean(QUEUE_DELAY, 0.8)]);
    assert_eq!(
        said,
        [
            "Over 200 paths, bbr3_brake's p95 queueing delay is 20 % shorter than bbr3's (ratio 0.800, 95 % interval 0.795 \
             .. 0.805); its goodput stays within 2 % (ratio 1.002, 95 % interval 0.997 .. 1.007). Of its 200 verdicts 199 \
             are better and 1 worse.",
            "On path199, bbr3_brake's p95 queueing delay is 30 % shorter than bbr3's (70.1 instead of 100.0 ms).",
            "On path7, bbr3_brake's p95 queueing delay is 2.0 times as long as bbr3's (200.0 instead of 100.0 ms).",
        ]
    );
    let bought = told(&[mean(GOODPUT, 0.9), mean(QUEUE_DELAY, 0.5)]);
    assert!(bought[0].contains("), bought with 10 % lower goodput (ratio 0.900, "), "{}", bought[0]);
    let lost = told(&[mean(GOODPUT, 0.5), mean(QUEUE_DELAY, 0.9)]);
    assert!(lost[0].contains("; its p95 queueing delay is 10 % shorter (ratio"), "{}", lost[0]);
    for (ratio, amount) in [(1.3, "is 30 % longer than bbr3's"), (2.5, "is 2.5 times as long as bbr3's")] {
        let said = told(&[mean(QUEUE_DELAY, ratio)]);
        assert!(said[0].contains(amount), "{}", said[0]);
    }
    let open = told(&[Mean { interval: Some((0.5, 2.0)), ..mean(QUEUE_DELAY, 0.8) }]);
    assert!(open[0].contains("p95 queueing delay cannot be told from bbr3's (ratio 0.800"), "{}", open[0]);
    assert!(told(&[])[0].starts_with("Between bbr3_brake and bbr3") || told(&[])[0].starts_with("On path"));
}

#[test]
fn what_cannot_be_compared_has_its_reason() {
    let nothing = run("answer-nothing", &["bbr", "cubic"], 1, 8);
    assert_eq!(said(&nothing, &[], 0), ["No cell has been run, so there is nothing to compare."]);
    let folder = synthetic::run("answer-excluded", 1);
    for cell in &synthetic::plan(1).cells {
        synthetic::edit(&folder.cell(cell.index).join("cell.json"), "status", json!("disturbed: late"));
    }
    assert_eq!(
        Findings::of(&Run::read(&folder.dir).unwrap()).answer.sentences,
        [
            "Nothing can be compared: no block has a cell of bbr that counts and one of another controller beside it (9 of 9 \
          cells are excluded)."
        ]
    );
    let alone = synthetic::run("answer-alone", 1);
    let plan = alone.dir.join("plan.json");
    synthetic::edit(&plan, "ccs", json!(["bbr"]));
    let cells = synthetic::plan(1).cells.into_iter().filter(|c| c.cc == "bbr").collect::<Vec<_>>();
    synthetic::edit(&plan, "cells", json!(cells));
    let said = Findings::of(&Run::read(&alone.dir).unwrap()).answer.sentences;
    assert_eq!(said[0], "Only one controller ran, so there is nothing to compare it with.");
    assert!(said.len() == 3 && said[1].starts_with("On clean, bbr carries 9"), "{said:?}");
}
