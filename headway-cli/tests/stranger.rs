//! A run folder, and files to import, that a stranger made to do harm. Each is refused with a sentence, or reported as far as
//! it can be; nothing is written but the report's own files in that very folder, nothing outside is shown, and it takes
//! neither long nor much memory. The page is read by Python's html.parser, which is not ours.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const HEADWAY: &str = env!("CARGO_BIN_EXE_headway");
const WRITTEN: [&str; 3] = ["results.csv", "results.json", "report.html"];
const SCRIPT: &str = "</script></title><script>alert(1)</script><img src=x onerror=alert(1)>'\"`--><a href=javascript:alert(1)>";

type Change = fn(&mut Value);

/// A folder with a simulated run in `run`, and what is a stranger's business beside it.
struct Ground {
    dir: PathBuf,
}

impl Ground {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("headway-stranger-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("home/.ssh")).unwrap();
        fs::write(dir.join("home/.ssh/key"), "\"a secret\"\n").unwrap();
        let ground = Self { dir };
        let made = ground.headway(&[
            "bench",
            "--in",
            "sim",
            "--cc",
            "cubic,bbr3",
            "--path",
            "10mbit 20ms",
            "--seconds",
            "2",
            "--blocks",
            "1",
            "--quiet",
            "--out",
            "run",
        ]);
        assert!(made.status.success(), "{}", said(&made));
        WRITTEN.iter().for_each(|name| fs::remove_file(ground.at(&format!("run/{name}"))).unwrap());
        ground
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// With 1.5 GB of address space and 30 s.
    fn headway(&self, args: &[&str]) -> Output {
        let limited = "ulimit -v 1500000; exec timeout 30 \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", limited, "sh", HEADWAY]).args(args).current_dir(&self.dir).stdin(Stdio::null());
        command.output().unwrap()
    }

    fn change(&self, file: &str, change: impl Fn(&mut Value)) {
        let mut value = serde_json::from_str(&fs::read_to_string(self.at(file)).unwrap()).unwrap();
        change(&mut value);
        fs::write(self.at(file), value.to_string()).unwrap();
    }

    fn pipe(&self, name: &str) {
        let _ = fs::remove_file(self.at(name));
        assert!(Command::new("mkfifo").arg(self.at(name)).status().unwrap().success());
    }

    fn link(&self, name: &str, to: &str) {
        let path = self.at(name);
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        symlink(self.at(to), path).unwrap();
    }

    /// Every file, link and folder, with what it holds.
    fn everything(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        let mut folders = vec![self.dir.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                let is_small = kind.is_file() && entry.metadata().unwrap().len() < 1 << 20;
                let content = match () {
                    () if is_small => fs::read(&path).unwrap(),
                    () if kind.is_symlink() => {
                        fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                    }
                    () => format!("{kind:?}").into_bytes(),
                };
                if kind.is_dir() {
                    folders.push(path.clone());
                }
                all.insert(path, content);
            }
        }
        all
    }

    /// Reports the run, and fails if anything but the report's files is other than before.
    fn report(&self) -> Output {
        let before = self.everything();
        let output = self.headway(&["report", "run", "--format", "full"]);
        let mut after = self.everything();
        let mut kept = before;
        for name in WRITTEN {
            let (file, temporary) = (self.at(&format!("run/{name}")), self.at(&format!("run/.{name}.tmp")));
            [&file, &temporary].into_iter().for_each(|file| drop((kept.remove(file), after.remove(file))));
            assert!(!file.is_symlink() || !output.status.success(), "{name} is written through a link");
        }
        assert_eq!(after, kept, "{}", said(&output));
        assert!(!said(&output).contains("secret") && !said(&output).contains('\x1b'), "{}", said(&output));
        output
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

/// Prints what of a page could run or fetch something: elements and attributes.
const READER: &str = r##"
import sys, html.parser
class Page(html.parser.HTMLParser):
    def handle_starttag(self, tag, attributes):
        if tag in ("script", "iframe", "object", "embed", "link", "base", "form", "img", "image"): print(tag)
        for name, value in attributes:
            if name.startswith("on") or name in ("src", "srcdoc", "action") or name == "href" and not value.startswith("#"): print(tag, name, value)
page = Page()
page.feed(open(sys.argv[1]).read())
"##;

/// The page has our two scripts, its data and its code, and nothing else that runs.
fn page_is_ours(page: &Path) {
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("default-src 'none'") && !html.contains("a secret"));
    let Ok(read) = Command::new("python3").args(["-c", READER]).arg(page).output() else {
        return println!("skipped: there is no python3 to read the page");
    };
    assert_eq!(said(&read), "script\nscript\n");
}

#[test]
fn names_that_are_scripts_or_paths_stay_names() {
    let ground = Ground::new("names");
    for (n, name) in
        [SCRIPT, "../../x", "/etc/passwd", "-rf", "a\nb", "\u{202e}abc", ""].into_iter().enumerate()
    {
        let label = if name.is_empty() { "x".to_string() } else { name.replace(['@', '#'], "_") };
        let rename = |plan: &mut Value| {
            plan["ccs"][0] = json!(label);
            plan["paths"][0]["name"] = json!(name);
            plan["suite"] = json!(name);
            let first = plan["cells"].as_array_mut().unwrap().iter_mut().find(|c| c["index"] == 0).unwrap();
            first["cc"] = json!(label);
        };
        ground.change("run/plan.json", |plan| {
            plan["ccs"] = json!(["cubic", "bbr3"]);
            let order = plan["cells"][0]["cc"] == "bbr3";
            plan["ccs"] = if order { json!(["bbr3", "cubic"]) } else { json!(["cubic", "bbr3"]) };
            rename(plan);
        });
        ground.change("run/cells/000/cell.json", |cell| {
            cell["cell"]["cc"] = json!(label);
            for field in ["kernel", "sender_cc"] {
                cell[field] = json!(name);
            }
            cell["path"]["name"] = json!(name);
            (cell["notes"], cell["attempts"]) = (json!([name]), json!([name]));
        });
        ground
            .change("run/env.json", |env| (env["command"], env[name]) = (json!(name), json!({ name: name })));
        fs::write(ground.at("run/about.json"), json!({ "title": name, "note": name }).to_string()).unwrap();
        let output = ground.report();
        assert!(output.status.success(), "{n}: {}", said(&output));
        page_is_ours(&ground.at("run/report.html"));
    }
}

#[test]
fn a_plan_that_no_request_makes_is_refused() {
    let ground = Ground::new("plans");
    let plan = fs::read_to_string(ground.at("run/plan.json")).unwrap();
    let wrong: [(&str, Change); 12] = [
        ("blocks", |p| p["blocks"] = json!(u32::MAX)),
        ("no block", |p| p["blocks"] = json!(0)),
        ("seconds", |p| p["seconds"] = json!(u32::MAX)),
        ("warm-up", |p| p["warmup_ms"] = json!(u64::MAX)),
        ("streams", |p| p["streams"] = json!(u32::MAX)),
        ("index", |p| p["cells"][0]["index"] = json!(usize::MAX)),
        ("path", |p| p["cells"][0]["path"] = json!(9)),
        ("cc", |p| p["cells"][0]["cc"] = json!("../x")),
        ("escape", |p| p["paths"][0]["name"] = json!("\x1b]0;x\x07")),
        ("candidates", |p| p["ccs"] = (0..100_000).map(|n| json!(n.to_string())).collect()),
        ("number", |p| p["seed"] = json!(1e300)),
        ("layout", |p| p["layout"] = json!(2)),
    ];
    for (what, change) in wrong {
        fs::write(ground.at("run/plan.json"), &plan).unwrap();
        ground.change("run/plan.json", change);
        let output = ground.report();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{what}: {text}");
        assert!(
            text.starts_with("error: ") && text.contains("\nhint: ") && !text.contains("panicked"),
            "{what}: {text}"
        );
    }
    for text in ["[".repeat(1 << 20), "{\"layout\":1".into(), "\0".repeat(100), String::new()] {
        fs::write(ground.at("run/plan.json"), text).unwrap();
        let output = ground.report();
        assert!(
            output.status.code() == Some(1) && said(&output).contains(" is broken: "),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn what_is_no_file_is_not_read_and_not_written_to() {
    let ground = Ground::new("links");
    for name in ["report.html", "results.csv", "results.json"] {
        ground.link(&format!("run/{name}"), "home/.ssh/key");
        ground.link(&format!("run/.{name}.tmp"), "home/.ssh/key");
    }
    ground.link("run/env.json", "home/.ssh/key");
    ground.link("run/cells/000/probe.txt", "home/.ssh/key");
    ground.pipe("run/cells/001/load.json");
    fs::File::create(ground.at("run/cells/001/link.txt")).unwrap().set_len(1 << 40).unwrap();
    let text = said(&ground.report());
    assert!(text.contains("probe.txt: it is a link to another file"), "{text}");
    assert!(
        text.contains("2 of 2 cells are damaged") || text.contains("link.txt: it has more than"),
        "{text}"
    );
    page_is_ours(&ground.at("run/report.html"));
    for (name, reason) in
        [("plan.json", "it is a link to another file"), ("about.json", "it is a link to another file")]
    {
        let (whole, aside) = (ground.at(&format!("run/{name}")), ground.at("aside"));
        let _ = fs::rename(&whole, &aside);
        ground.link(&format!("run/{name}"), "home/.ssh/key");
        let output = ground.report();
        assert!(output.status.code() == Some(1) && said(&output).contains(reason), "{}", said(&output));
        fs::remove_file(&whole).unwrap();
        let _ = fs::rename(&aside, &whole);
    }
    ground.pipe("run/plan.json");
    assert!(said(&ground.report()).contains("it is no regular file"));
}

#[test]
fn a_run_is_not_resumed_through_a_link() {
    let ground = Ground::new("resume");
    ground.link("run/cells", "home");
    let before = ground.everything();
    let output = ground.headway(&["bench", "--resume", "run", "--quiet"]);
    assert_eq!(ground.everything(), before, "{}", said(&output));
    assert!(said(&output).contains("`cells` in `run` is no folder\nhint: "), "{}", said(&output));
}

#[test]
fn an_export_stays_in_its_folder() {
    let ground = Ground::new("export");
    let label = "/../../../home/x";
    for file in ["run/plan.json", "run/cells/000/cell.json"] {
        let text = fs::read_to_string(ground.at(file)).unwrap();
        let first = if file.contains("cells") { None } else { Some(text.contains("\"cc\": \"cubic\"")) };
        assert_ne!(first, Some(false));
        fs::write(
            ground.at(file),
            text.replace("\"cubic\"", &json!(label).to_string())
                .replace("\"bbr3\"", &json!(format!("{label}3")).to_string()),
        )
        .unwrap();
    }
    let second = fs::read_to_string(ground.at("run/cells/001/cell.json")).unwrap();
    fs::write(
        ground.at("run/cells/001/cell.json"),
        second
            .replace("\"cubic\"", &json!(label).to_string())
            .replace("\"bbr3\"", &json!(format!("{label}3")).to_string()),
    )
    .unwrap();
    for cell in ["000", "001"] {
        let cc = serde_json::from_str::<Value>(
            &fs::read_to_string(ground.at(&format!("run/cells/{cell}/cell.json"))).unwrap(),
        )
        .unwrap();
        ground.change(&format!("run/cells/{cell}/load.json"), |load| {
            load["end"]["sender_tcp_congestion"] = cc["sender_cc"].clone()
        });
    }
    // Where the name's first part is a folder, the rest would lead out of it.
    fs::create_dir_all(ground.at("run/out/000-10mbit_20ms-")).unwrap();
    let before = ground.everything();
    let output = ground.headway(&["export", "run", "--flent", "run/out"]);
    assert!(output.status.success(), "{}", said(&output));
    let mut after = ground.everything();
    after.retain(|path, _| path.parent() != Some(&*ground.at("run/out")) || before.contains_key(path));
    assert_eq!(after, before);
}

#[test]
fn numbers_that_nothing_measures_end_a_cell_and_not_the_report() {
    let ground = Ground::new("numbers");
    ground.change("run/cells/000/load.json", |load| {
        for interval in load["intervals"].as_array_mut().unwrap() {
            interval["sum"]["end"] = json!(1e300);
        }
        load["server_output_json"]["intervals"][3]["sum"]["end"] = json!(9.3e12);
        load["server_output_json"]["intervals"][3]["streams"][0]["bytes"] = json!(1e300);
    });
    let table = fs::read_to_string(ground.at("run/cells/001/probe.txt")).unwrap();
    fs::write(ground.at("run/cells/001/probe.txt"), table + "9223372036854775807 -9223372036854775808\n")
        .unwrap();
    fs::write(ground.at("run/env.json"), "[".repeat(1 << 20)).unwrap();
    let text = said(&ground.report());
    assert!(text.contains("sent_us has more than 15 digits"), "{text}");
    assert!(text.contains("env.json is missing or cannot be read") && !text.contains("panicked"), "{text}");
}

#[test]
fn a_folder_to_import_has_no_circle_and_no_pipe() {
    let ground = Ground::new("import");
    fs::create_dir_all(ground.at("in/a")).unwrap();
    for n in 0..4 {
        ground.link(&format!("in/a/back{n}"), "in");
    }
    ground.pipe("in/pipe.json");
    ground.link("in/link.json", "home/.ssh/key");
    let escape = "{\"error\":\"\\u001b]0;x\\u0007 no\"}";
    fs::write(ground.at("in/a/run.json"), escape).unwrap();
    let before = ground.everything();
    let output = ground.headway(&["import", "in"]);
    let text = said(&output);
    assert!(
        output.status.code() == Some(1) && text.contains("run.json: iperf3: \u{fffd}]0;x\u{fffd} no"),
        "{text}"
    );
    assert!(!text.contains("pipe.json") && !text.contains("secret"), "{text}");
    assert_eq!(ground.everything(), before);
}
