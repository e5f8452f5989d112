//! Whole reports of synthetic run folders.

use super::findings::{Comparison, Findings};
use super::run::{Count, Run};
use super::*;
use crate::metric::METRICS;
use crate::plan::{LAYOUT, Plan};
use crate::raw::about::{About, Change};
use crate::raw::cell::CellResult;
use crate::stats::Verdict;
use serde_json::{Value, json};
use std::fs;

/// The findings, and the text that is printed.
fn made(folder: &synthetic::Folder) -> (Findings, String) {
    (
        Findings::of(&Run::read(&folder.dir).unwrap()),
        printed(folder, &Options { format: Format::Full, ..Options::default() }),
    )
}

/// What is printed, without its colours.
fn printed(folder: &synthetic::Folder, options: &Options) -> String {
    anstream::adapter::strip_str(&report(&folder.dir, options).unwrap().table).to_string()
}

fn page(folder: &synthetic::Folder) -> String {
    let summary = report(&folder.dir, &Options::default()).unwrap();
    fs::read_to_string(summary.page).unwrap()
}

fn find<'a>(summary: &'a Findings, path: usize, metric: &str, candidate: &str) -> &'a Comparison {
    let wanted = |c: &&Comparison| c.path == path && c.metric.name == metric && c.candidate == candidate;
    summary.comparisons.iter().find(wanted).unwrap()
}

#[test]
fn what_cells_note_is_counted_where_they_count() {
    let folder = synthetic::run("noted", 2);
    let plan = Plan::read(&folder.dir).unwrap();
    let of_cubic: Vec<_> = plan.cells.iter().filter(|c| c.cc == "cubic").collect();
    for (i, cell) in of_cubic[..2].iter().enumerate() {
        let mut result = CellResult::read(&folder.cell(cell.index)).unwrap();
        result.notes = vec!["the server sent".into()];
        result.status = if i == 0 { "ok".into() } else { "disturbed: by a test".into() };
        result.write(&folder.cell(cell.index)).unwrap();
    }
    let (findings, table) = made(&folder);
    let line = "cubic, 1 of 5 runs: the server sent.";
    assert!(findings.notes.iter().any(|n| n == line), "{:?}", findings.notes);
    assert!(table.contains(&format!("note: {line}")) && page(&folder).contains(line), "{table}");
}

/// The run of a plan whose candidates were drawn: no verdict, the front first, and the page without what is not on it.
#[test]
fn a_search_ends_with_its_front() {
    let folder = synthetic::run("search", 10);
    synthetic::edit(
        &folder.dir.join("plan.json"),
        "draws",
        json!({"of": ["bbr", "bbr1:high_gain=2..3"], "count": 2}),
    );
    let findings = Findings::of(&Run::read(&folder.dir).unwrap());
    assert!(findings.comparisons.iter().all(|c| c.judged.verdict.is_none()));
    let front = findings.front.as_ref().unwrap();
    assert_eq!(front.points.len(), 2);
    let on_front = |cc: &str| front.points.iter().any(|p| p.cc == cc && p.is_on_front);
    assert!(front.has_baseline || on_front("bbr1"), "one of two that are alike is on the front");
    assert!(!on_front("cubic"), "it fills buffers and fails under loss: {:?}", front.points);
    let text = printed(&folder, &Options::default());
    assert!(text.contains(" 2 candidates") && !text.contains("Verdict"), "{text}");
    assert!(!text.contains("equivalent") && text.contains("excluded"), "{text}");
    let html = page(&folder);
    assert!(html.contains("2 draws of bbr1 against bbr") && html.contains("Goodput against delay"));
    assert!(html.contains("<th scope=\"row\" class=\"name whole\">cubic"), "all are in the folded table");
    assert!(!html.contains("data-toggle=\"cubic\""), "what is not on the front has no charts");
}

#[test]
fn a_whole_run_is_judged() {
    let folder = synthetic::run("whole", 10);
    let (summary, table) = made(&folder);
    // Known from how the series are made: cubic fills buffers and fails under random loss; bbr1 is bbr.
    let verdict = |path, metric, cc| find(&summary, path, metric, cc).judged.verdict.unwrap();
    assert_eq!(verdict(0, "goodput_bps", "bbr1"), Verdict::Equivalent);
    assert_eq!(verdict(0, "queue_delay_p95_us", "cubic"), Verdict::Worse);
    assert_eq!(verdict(2, "goodput_bps", "cubic"), Verdict::Worse);
    assert_eq!(verdict(2, "queue_delay_p95_us", "cubic"), Verdict::Better);
    assert_eq!(verdict(0, "retransmit_rate", "bbr1"), Verdict::Equivalent);
    let retransmits = find(&summary, 0, "retransmit_rate", "bbr1");
    assert_eq!(
        (retransmits.improvement_text().as_str(), retransmits.noise_text().as_str()),
        ("0.0 pp", "±0.0 pp")
    );
    assert_eq!(verdict(0, "retransmit_rate", "cubic"), Verdict::Worse);
    assert!(
        find(&summary, 0, "utilisation", "cubic").judged.verdict.is_none(),
        "a secondary metric has no verdict"
    );
    let bounds = "time_to_90_ms: 10 of 30 runs of cubic never got there";
    assert!(summary.notes.len() == 1 && summary.notes[0].starts_with(bounds), "{:?}", summary.notes);
    assert_eq!(
        summary.counts[0],
        Count { cc: "bbr".into(), planned: 30, attempted: 30, ok: 30, excluded: 0 }
    );
    assert!(table.contains("bbr: 30 of 30 cells ok, 0 excluded"));
    assert!(table.contains("0.0 pp"), "{}", table);
    assert_eq!(fs::read_dir(&folder.dir).unwrap().count(), 6, "no temporary file stays");
}

#[test]
fn every_primary_comparison_shows_what_noise_alone_shows() {
    let folder = synthetic::run("noise", 10);
    let (summary, table) = made(&folder);
    for c in &summary.comparisons {
        assert_eq!(c.judged.noise.is_some(), c.metric.is_primary(), "{}", c.metric.name);
    }
    let goodput = find(&summary, 0, "goodput_bps", "bbr1");
    assert!((1e-6..0.02).contains(&goodput.judged.noise.unwrap()), "{goodput:?}");
    assert_eq!(find(&summary, 0, "retransmit_rate", "bbr1").judged.noise, Some(0.0));
    let row = table.lines().find(|l| l.starts_with("  bbr1") && l.contains("equivalent")).unwrap();
    assert!(table.contains("A/A noise") && row.contains(&goodput.noise_text()), "{row}");
    assert!(page(&folder).contains("A/A noise"));
    let judged = summary.comparisons.iter().filter(|c| c.judged.verdict.is_some()).count();
    assert_eq!(judged, Run::read(&folder.dir).unwrap().plan.comparisons());
    // All verdicts are one family, metrics included: the least p of 18 counts 18 times.
    let primary = summary.comparisons.iter().map(|c| &c.judged).filter(|j| j.margin.is_some());
    let least = primary.min_by(|a, b| a.improvement.p.total_cmp(&b.improvement.p)).unwrap();
    assert_eq!((judged, least.p_family), (18, Some((18.0 * least.improvement.p).min(1.0))));
    let (few, _) = made(&synthetic::run("few-noise", 5));
    assert!(few.comparisons.iter().all(|c| c.judged.noise.is_none()));
}

#[test]
fn the_csv_has_a_row_a_cell_and_a_column_a_metric() {
    let folder = synthetic::run("csv", 1);
    made(&folder);
    let csv = fs::read_to_string(folder.dir.join("results.csv")).unwrap();
    let head = csv.lines().next().unwrap();
    assert!(
        head.starts_with("path,cc,streams,block,seed,place,status,message_delay_p99_us,goodput_bps,"),
        "{head}"
    );
    assert_eq!(csv.lines().count(), 1 + 9);
    let columns = 7 + METRICS.len();
    assert!(csv.lines().all(|l| l.split(',').count() == columns));
    let json: Value =
        serde_json::from_str(&fs::read_to_string(folder.dir.join("results.json")).unwrap()).unwrap();
    for (row, cell) in csv.lines().skip(1).zip(json["cells"].as_array().unwrap()) {
        for (name, word) in head.split(',').zip(row.split(',')) {
            let same = match &cell[name] {
                Value::Null => word.is_empty() && cell["missing"][name].is_string(),
                Value::String(text) => word == text,
                // JSON is read back to the last digit but one.
                number => {
                    (word.parse::<f64>().unwrap() / number.as_f64().unwrap() - 1.0).abs() < 1e-12
                        || word == "0"
                }
            };
            assert!(same, "{name}: `{word}` is not {}", cell[name]);
        }
    }
}

#[test]
fn what_is_lost_is_named_and_counted() {
    let folder = synthetic::run("lost", 10);
    let plan = synthetic::plan(10);
    let cubic: Vec<usize> =
        plan.cells.iter().filter(|c| c.cc == "cubic" && c.path == 0).map(|c| c.index).collect();
    let busy = include_str!("../../tests/data/iperf3/3.12-busy.json");
    synthetic::write(&folder.cell(cubic[0]).join("load.json"), busy);
    synthetic::edit(&folder.cell(cubic[1]).join("cell.json"), "status", json!("disturbed: late"));
    synthetic::edit(&folder.cell(cubic[2]).join("cell.json"), "layout", json!(LAYOUT + 1));
    synthetic::write(&folder.cell(cubic[3]).join("cell.json"), "{\"layout\":");
    synthetic::write(&folder.cell(cubic[4]).join("probe.txt"), "# sent_us rtt_us\n0 40000\n20000\n");
    fs::remove_file(folder.cell(cubic[5]).join("load.json")).unwrap();
    fs::remove_dir_all(folder.cell(cubic[6])).unwrap();
    let load = fs::read_to_string(folder.cell(cubic[7]).join("load.json")).unwrap();
    let wrong = load.replace("\"sender_tcp_congestion\":\"cubic\"", "\"sender_tcp_congestion\":\"reno\"");
    synthetic::write(&folder.cell(cubic[7]).join("load.json"), &(wrong + "\niperf3: a late line\n"));
    let (summary, table) = made(&folder);
    let count = &summary.counts[2];
    assert_eq!((count.planned, count.attempted, count.ok, count.excluded), (30, 29, 22, 7));
    let wrong_cc = "the sender used `reno`, not `cubic` (iperf3 also printed: iperf3: a late line)";
    assert!(table.contains(wrong_cc), "{}", table);
    let page = page(&folder);
    for reason in [
        "iperf3: the server is busy running a test. try again later",
        "disturbed: late",
        "cell.json has layout 2, this program reads layout 1",
        "cell.json is broken: EOF",
        "probe.txt: line 3 has 1 words, its table 2 columns",
        "load.json is missing",
    ] {
        assert!(table.contains(reason), "{reason} is not in\n{}", table);
        assert!(page.contains(reason), "{reason}");
    }
    assert!(summary.notes[0].contains("3 of 90 cells are damaged"), "{:?}", summary.notes);
    assert!(summary.notes[1].contains("1 of 90 planned cells"), "{:?}", summary.notes);
    assert!(summary.notes[2].contains("Exclusions differ between bbr (0 of 30) and cubic (7 of 29)"));
    assert_eq!(find(&summary, 0, "goodput_bps", "cubic").judged.improvement.n, 2);
    assert_eq!(find(&summary, 0, "goodput_bps", "cubic").judged.verdict, Some(Verdict::TooFewBlocks));
    assert_eq!(find(&summary, 1, "goodput_bps", "cubic").judged.improvement.n, 10);
}

/// A cell that says `ok` and has lost a file, or the end of one, must not count: its metrics would look like others.
#[test]
fn a_cell_with_half_a_file_does_not_count() {
    let folder = synthetic::run("damaged", 3);
    fs::remove_file(folder.dir.join("env.json")).unwrap();
    let cut = |cell: usize, file: &str, at: fn(&str) -> usize| {
        let file = folder.cell(cell).join(file);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, &text[..at(&text)]).unwrap();
    };
    fs::remove_file(folder.cell(0).join("probe.txt")).unwrap();
    fs::remove_file(folder.cell(1).join("link.txt")).unwrap();
    cut(2, "link.txt", |text| text.len() - 1);
    cut(3, "probe.txt", |text| text[..text.len() / 2].rfind('\n').unwrap() + 1);
    cut(4, "link.txt", |text| text[..text.len() / 2].rfind('\n').unwrap() + 1);
    cut(5, "load.json", |text| text.len() / 2);
    fs::write(folder.cell(6).join("probe.txt"), "").unwrap();
    let run = Run::read(&folder.dir).unwrap();
    let status: Vec<&str> = run.cells.iter().map(|cell| cell.status()).collect();
    assert_eq!(
        status[..5],
        [
            "damaged: probe.txt is missing",
            "damaged: link.txt is missing",
            "damaged: link.txt ends within a line",
            "damaged: probe.txt ends before the load does",
            "damaged: link.txt ends before the load does",
        ]
    );
    assert!(status[5].starts_with("damaged: load.json: "), "{}", status[5]);
    assert_eq!(status[6], "damaged: probe.txt ends within a line");
    assert!(status[7..].iter().all(|status| *status == "ok"), "{status:?}");
    let (findings, _) = made(&folder);
    assert_eq!(findings.notes[..2], run.damage);
    assert!(run.damage[0].starts_with("env.json is missing"), "{:?}", run.damage);
    assert!(run.damage[1].starts_with("7 of 27 cells are damaged"), "{:?}", run.damage);
}

#[test]
fn few_blocks_give_points_and_a_note() {
    let folder = synthetic::run("few", 3);
    let (summary, _) = made(&folder);
    assert!(summary.comparisons.iter().filter_map(|c| c.judged.verdict).all(|v| v == Verdict::TooFewBlocks));
    assert!(
        summary.notes[0].contains("with 3 blocks there are no intervals and no verdicts"),
        "{:?}",
        summary.notes
    );
    let folder = synthetic::run("six", 6);
    let (summary, _) = made(&folder);
    assert!(summary.notes[0].contains("18 comparisons need 10 blocks"), "{:?}", summary.notes);
}

/// `drop` falls at 8 s and is back at 14 s; each of the synthetic series gets its old rate back at once.
#[test]
fn a_drop_has_its_own_metrics_and_a_run_that_never_recovers_a_bound() {
    let folder = synthetic::run("recovery", 6);
    let name = "time_to_90_after_recovery_ms";
    let (summary, _) = made(&folder);
    let before = find(&summary, 1, name, "cubic").clone();
    assert!(!before.judged.candidate_spread.is_bound && before.judged.candidate_spread.median < 1000.0);
    assert!(
        find(&summary, 1, "queue_delay_p99_after_drop_us", "cubic").judged.baseline_spread.median > 1000.0
    );
    assert!(summary.comparisons.iter().all(|c| c.path == 1 || c.metric.name != name));
    // From the recovery on cubic gets a tenth of what it got.
    let run = Run::read(&folder.dir).unwrap();
    for cell in run.cells.iter().filter(|c| c.cell.path == 1 && c.cell.cc == "cubic") {
        synthetic::slow_down(&folder, cell.cell.index, 14.0);
    }
    let (summary, table) = made(&folder);
    let after = find(&summary, 1, name, "cubic");
    assert!(
        after.judged.candidate_spread.is_bound && after.judged.candidate_spread.median == 6000.0,
        "{after:?}"
    );
    assert_eq!(after.judged.improvement.n, 6, "the runs that never got there count");
    assert!(after.judged.improvement.center < before.judged.improvement.center);
    let note = format!("note: {name}: 6 of 6 runs of cubic never got there");
    assert!(table.contains(&note), "{table}");
    let options = Options { metrics: vec![name.into()], ..Options::default() };
    assert!(printed(&folder, &options).contains("→ ≥ 6000 ms"));
}

#[test]
fn messages_stand_first() {
    let folder = synthetic::run("messages", 6);
    let (_, table) = made(&folder);
    assert!(!table.contains("Message delay") && !page(&folder).contains("id=\"messages\""));
    synthetic::add_messages(&folder);
    let (summary, table) = made(&folder);
    let first = table.lines().skip_while(|l| !l.starts_with("clean")).nth(1).unwrap();
    assert!(first.starts_with("  bbr1       Message delay p99"), "{table}");
    let c = find(&summary, 0, "message_delay_p99_us", "cubic");
    assert_eq!((c.judged.baseline_spread.median, c.judged.candidate_spread.median), (30_000.0, 130_000.0));
    let median = |name| find(&summary, 0, name, "cubic").judged.candidate_spread.median;
    assert_eq!(median("message_delay_max_us"), 130_000.0);
    // 15 s after the warm-up at 100 a second, of which one in a hundred was lost.
    assert_eq!((median("message_over_100ms_s"), median("message_over_200ms_s")), (15.0, 0.15));
    assert_eq!(median("message_loss"), 0.01);
    let cells = fs::read_to_string(folder.dir.join("results.json")).unwrap();
    assert!(cells.contains("n too small: 1485 messages that arrived, 3688 needed"));
    let page = page(&folder);
    assert!(page.find("id=\"messages\"").unwrap() < page.find("id=\"verdicts\"").unwrap());
}

#[test]
fn a_wrong_folder_is_one_sentence_and_a_hint() {
    let folder = synthetic::Folder::new("wrong");
    let error =
        |folder: &synthetic::Folder| format!("{:#}", report(&folder.dir, &Options::default()).unwrap_err());
    let plan = folder.dir.join("plan.json");
    assert!(error(&folder).contains("is not a run: cannot read its plan.json\nhint: "));
    synthetic::write(&plan, "{\"layout\": 1");
    assert!(error(&folder).contains("is broken\nhint: "));
    synthetic::write(&plan, "{\"layout\": 99}");
    assert!(error(&folder).contains("layout 99, this program reads layout 1\nhint: "));
    synthetic::write(&plan, "{\"layout\": 1}");
    assert!(error(&folder).contains("is broken\nhint: "));
    synthetic::write(&plan, &serde_json::to_string(&synthetic::plan(2)).unwrap());
    let (summary, _) = made(&folder);
    assert_eq!(summary.counts[0].attempted, 0);
    assert!(summary.notes.iter().any(|n| n == "18 of 18 planned cells have not been run."));
}

#[test]
fn what_cannot_be_written_leaves_no_half_file() {
    let folder = synthetic::run("unwritable", 1);
    fs::create_dir(folder.dir.join("results.json")).unwrap();
    let error = format!("{:#}", report(&folder.dir, &Options::default()).unwrap_err());
    assert!(error.starts_with("cannot write `") && error.contains("results.json`\nhint: "), "{error}");
    assert!(!folder.dir.join(".results.json.tmp").exists());
}

#[test]
fn an_unknown_metric_is_refused_with_the_known_ones() {
    let options = Options { metrics: vec!["speed".into()], ..Options::default() };
    let error = format!("{:#}", report(Path::new("."), &options).unwrap_err());
    assert!(
        error.starts_with("unknown metric `speed`\nhint: there is message_delay_p99_us, goodput_bps, "),
        "{error}"
    );
    let folder = synthetic::run("extra", 2);
    let options = Options { metrics: vec!["utilisation".into()], ..Options::default() };
    assert!(printed(&folder, &options).contains("  Utilisation  "));
}

#[test]
fn the_same_folder_gives_the_same_bytes() {
    let folder = synthetic::run("same", 2);
    let files =
        || ["results.csv", "results.json", "report.html"].map(|f| fs::read(folder.dir.join(f)).unwrap());
    made(&folder);
    let first = files();
    made(&folder);
    assert!(first == files());
}

#[test]
fn the_page_asks_no_one_and_escapes_what_it_shows() {
    let folder = synthetic::run("page", 6);
    synthetic::edit(&folder.dir.join("env.json"), "note", json!("</script><script>alert(1)</script>"));
    let plan = folder.dir.join("plan.json");
    let text = fs::read_to_string(&plan).unwrap().replace("\"lossy\"", "\"</script><b>lossy\"");
    synthetic::write(&plan, &text);
    let page = page(&folder);
    assert!(!page.contains("<b>lossy") && !page.contains("<script>alert"));
    assert_eq!(page.matches("</script>").count(), 2);
    for outside in ["src=\"", "url(", "@import", "<link", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("headway bench --cc bbr,bbr1,cubic"));
    assert!(page.len() < 2_000_000, "{}", page.len());
}

#[test]
fn title_note_and_date_stand_at_the_head_and_are_escaped() {
    let folder = synthetic::run("about", 2);
    let plain = page(&folder);
    assert!(
        plain.contains("<h1>bbr1 and cubic against bbr</h1>") && !plain.contains("<time"),
        "no date is made up"
    );
    let change = Change { title: Some("<b>Trial</b> & more".into()), note: Some("For </p> Monday".into()) };
    About::change(&folder.dir, &change, Some(std::time::SystemTime::UNIX_EPOCH)).unwrap();
    let titled = page(&folder);
    for text in [
        "<h1>&lt;b&gt;Trial&lt;/b&gt; &amp; more</h1>",
        "<title>&lt;b&gt;Trial&lt;/b&gt; &amp; more · Headway</title>",
        "For &lt;/p&gt; Monday",
        "bbr1 and cubic against bbr",
        "<time datetime=\"1970-01-01T00:00:00Z\">1970-01-01 00:00 UTC</time>",
    ] {
        assert!(titled.contains(text), "{text}");
    }
    assert!(titled.find("Monday").unwrap() < titled.find("class=\"picture\"").unwrap());
}

/// Texts between two words.
fn between<'a>(page: &'a str, before: &str, after: &str) -> Vec<&'a str> {
    page.split(before).skip(1).filter_map(|rest| rest.split(after).next()).collect()
}

fn every_link_leads_somewhere(page: &str) {
    let page = page.split("<script").next().unwrap();
    let (links, ids) = (between(page, "href=\"#", "\""), between(page, " id=\"", "\""));
    assert!(links.len() > 30, "{}", links.len());
    for link in links {
        assert_eq!(ids.iter().filter(|id| **id == link).count(), 1, "#{link}");
    }
}

#[test]
fn every_figure_links_to_its_meaning() {
    let folder = synthetic::run("links", 10);
    synthetic::add_messages(&folder);
    let page = page(&folder);
    every_link_leads_somewhere(&page);
    assert_eq!(page.matches("data-panel=\"distribution-").count(), 3, "the queueing delay of each path");
    for link in ["#metric-goodput_bps", "#verdict-worse", "#means-noise", "#metric-message_over_50ms_s"] {
        assert!(page.contains(&format!("href=\"{link}\"")), "{link}");
    }
    assert!(!page.contains("id=\"metric-rival_goodput_bps\""), "what no run has needs no explanation");
}

#[test]
fn what_has_nothing_to_show_is_left_out() {
    let folder = synthetic::run("empty", 2);
    let whole = page(&folder);
    assert_eq!(whole.matches("data-kind=\"2\"").count(), 3);
    assert!(whole.contains("<dt>Load</dt><dd>1 stream, 20 s"), "the load in words");
    let plan = Plan::read(&folder.dir).unwrap();
    let of_path = |path| plan.cells.iter().filter(move |c| c.path == path);
    for cell in of_path(0) {
        let file = folder.cell(cell.index).join("load.json");
        let mut load: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        load["end"]["sum_sent"]["retransmits"] = json!(0);
        for interval in load["intervals"].as_array_mut().unwrap() {
            interval["sum"]["retransmits"] = json!(0);
        }
        synthetic::write(&file, &load.to_string());
    }
    of_path(2).for_each(|cell| fs::remove_dir_all(folder.cell(cell.index)).unwrap());
    let page = page(&folder);
    assert_eq!(page.matches("data-kind=\"2\"").count(), 1, "only `drop` has retransmissions to draw");
    assert_eq!(page.matches("data-kind=\"0\"").count(), 2, "`lossy` has no run");
    assert!(page.contains("Retransmits: none in any run, at any time."));
    assert!(page.contains("No run on this path counts; <a href=\"#cells\">"));
    assert!(page.contains("The same in every run: ") && page.contains("</a> 0 %"));
    assert!(!page.contains("data-panel=\"every-run-0-retransmit_rate\""));
    every_link_leads_somewhere(&page);
}

#[test]
fn many_paths_get_ratios_and_closed_parts() {
    let folder = synthetic::run("many", 6);
    let few = page(&folder);
    assert!(
        few.contains("class=\"bar\"")
            && !few.contains("class=\"path-body\"")
            && !few.contains("class=\"one-path")
    );
    let plan = folder.dir.join("plan.json");
    let mut json: Value = serde_json::from_str(&fs::read_to_string(&plan).unwrap()).unwrap();
    for n in 3..8 {
        let more = json!({ "name": format!("p{n}"), "text": "10mbit 20ms" });
        json["paths"].as_array_mut().unwrap().push(more);
    }
    let mut more = synthetic::cells(&["bbr", "bbr1", "cubic"], 3..8, 6);
    json["cells"].as_array_mut().unwrap().append(more.as_array_mut().unwrap());
    synthetic::write(&plan, &json.to_string());
    let many = page(&folder);
    assert_eq!(many.matches("<details class=\"path-body\">").count(), 3, "the paths that have runs");
    assert!(many.contains("One dot for each of 8 paths") && !many.contains("class=\"bar\""));
    assert!(many.contains("<summary>All 18 comparisons</summary>"));
    every_link_leads_somewhere(&many);
}

/// The page as a browser has it after its scripts ran, and what the browser complained about; `None` without one.
fn in_browser(folder: &synthetic::Folder, page: &Path) -> Option<(String, Vec<String>)> {
    let browser = std::process::Command::new("timeout")
        .args(["60", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--virtual-time-budget=3000", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", folder.dir.join("profile").display()))
        .args(["--dump-dom", &format!("file://{}", page.display())])
        .output();
    let Some(out) = browser.ok().filter(|out| out.status.success() && !out.stdout.is_empty()) else {
        println!("skipped: no chromium that runs here");
        return None;
    };
    let said = String::from_utf8_lossy(&out.stderr);
    let complaints = said.lines().filter(|l| l.contains("CONSOLE")).map(String::from).collect();
    Some((String::from_utf8_lossy(&out.stdout).into_owned(), complaints))
}

#[test]
fn a_browser_draws_every_chart_without_a_complaint() {
    let folder = synthetic::run("browser", 6);
    let page = report(&folder.dir, &Options::default()).unwrap().page;
    let Some((dom, complaints)) = in_browser(&folder, &page) else { return };
    assert!(complaints.is_empty(), "{complaints:?}");
    assert_eq!(dom.matches("<canvas").count(), 9, "three charts for each of three paths");
}

/// Presses every button and reads what would have been saved.
const PRESS: &str = r#"<script>
HTMLAnchorElement.prototype.click = function () {
  const said = (text) => { const p = document.createElement("p"); p.textContent = text; document.body.append(p); };
  const reader = new FileReader();
  const name = this.download;
  reader.onload = () => {
    if (name.endsWith("png")) return said("SAVED " + name + " " + reader.result.slice(0, 22));
    const svg = new DOMParser().parseFromString(reader.result, "image/svg+xml");
    said("SAVED " + name + " " + svg.documentElement.localName + " " + svg.querySelectorAll("text").length);
  };
  name.endsWith("png") ? reader.readAsDataURL(blobs.get(this.href)) : reader.readAsText(blobs.get(this.href));
};
const blobs = new Map();
const make = URL.createObjectURL;
URL.createObjectURL = (blob) => { const url = make.call(URL, blob); blobs.set(url, blob); return url; };
document.querySelectorAll("[data-panel=picture] .save button, [data-panel=time-series-0] .save button, [data-panel=improvements] .save button")
  .forEach((button) => button.click());
</script>"#;

#[test]
fn panels_can_be_saved_from_a_file_on_disk() {
    let folder = synthetic::run("saved", 6);
    let page = report(&folder.dir, &Options::default()).unwrap().page;
    let text = fs::read_to_string(&page).unwrap().replace("</body>", &format!("{PRESS}</body>"));
    synthetic::write(&page, &text);
    let png = |panel: &str| format!("SAVED headway-{panel}.png data:image/png;base64");
    let panels = ["picture", "time-series-0", "improvements"];
    // They are drawn in the background, and a busy machine may show the page before they are there: then it is tried
    // again.
    for attempt in 1..=6 {
        let Some((dom, complaints)) = in_browser(&folder, &page) else { return };
        assert!(complaints.is_empty(), "{complaints:?}");
        let is_saved = |panel: &str| {
            let svg = between(&dom, &format!("SAVED headway-{panel}.svg svg "), "<");
            svg.len() == 1 && svg[0].parse::<u32>().unwrap() >= 6 && dom.contains(&png(panel))
        };
        let missing: Vec<&str> = panels.into_iter().filter(|panel| !is_saved(panel)).collect();
        if missing.is_empty() {
            return;
        }
        assert!(attempt < 6, "not saved in six attempts: {missing:?}");
    }
}

#[test]
fn a_terminal_of_eighty_columns_is_enough_and_long_runs_are_cut() {
    let folder = synthetic::run("narrow", 10);
    let narrow = printed(&folder, &Options { width: Some(80), ..Options::default() });
    let too_wide: Vec<&str> = narrow.lines().filter(|l| l.chars().count() > 80).collect();
    assert!(too_wide.is_empty(), "{too_wide:?}");
    assert!(narrow.starts_with("On lossy, bbr carries 3.1 times what cubic does"), "{narrow}");
    assert!(narrow.contains("Left out for width: 95 % interval, difference, A/A noise, blocks"), "{narrow}");
    assert!(
        narrow.contains("  cubic      Goodput             better *  ") && narrow.contains("\n* bought: "),
        "{narrow}"
    );
    assert_eq!(narrow.matches("@8s 20mbit").count(), 1, "a path's text stands once");
    let wide = printed(&folder, &Options::default());
    assert!(
        wide.contains("A/A noise") && wide.lines().any(|l| l.chars().count() > 120),
        "a pipe has any width"
    );
    let cells = &synthetic::plan(10).cells;
    for cell in cells.iter().filter(|c| c.cc == "cubic").take(7) {
        synthetic::edit(&folder.cell(cell.index).join("cell.json"), "status", json!("disturbed: late"));
    }
    let cut = printed(&folder, &Options::default());
    assert_eq!(cut.matches("excluded: cell ").count(), 5);
    assert!(cut.contains("excluded: 2 more, see report.html\n"), "{cut}");
    let full = printed(&folder, &Options { format: Format::Full, width: Some(80), ..Options::default() });
    assert!(full.matches("excluded: cell ").count() == 7 && full.contains("A/A noise"));
}
