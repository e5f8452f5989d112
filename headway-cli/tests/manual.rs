//! The manual says what the program does: its reference pages are those that the program writes, its links lead
//! somewhere, its commands are understood, and its measurements name the commands that print them.
//!
//! What this asks of a page:
//!
//! - A block marked `sh` is run, with every other block of its page, by a shell whose PATH has [stand-ins](STAND_INS)
//!   only. `headway` is this program; what would take long or change the machine is a dry run or only read. Write
//!   what is not to be run in a block marked `text` or `console`.
//! - `RUN`, `DIR` and the other names in [`template`] exist there, and so does each run folder that an earlier block
//!   of the page has made with `--out`.
//! - A block marked `text output` is what the `sh` block before it prints. For it a comparison in the simulator is
//!   run.
//! - Every page under `docs` is a chapter of `docs/SUMMARY.md`.
//! - In `docs/measurements` every table and every picture has, under its heading and above it, an `sh` block with the
//!   command that prints its numbers, a paragraph `Command:` with it, or a paragraph `No command:` with the reason.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// Commands of the manual that are other programs, or change the machine. They are not run; that they are named is
/// all that is known of them, except that `make` and `cargo` must be asked for what there is.
const STAND_INS: &[&str] = &[
    "apt",
    "apt-get",
    "cargo",
    "chmod",
    "cp",
    "curl",
    "dpkg",
    "flent",
    "flent-gui",
    "git",
    "install",
    "ip",
    "iperf",
    "iperf3",
    "jq",
    "make",
    "man",
    "mm-throughput-graph",
    "modprobe",
    "mount",
    "mv",
    "parallel",
    "ping",
    "pscheduler",
    "python3",
    "rm",
    "sbatch",
    "scp",
    "sleep",
    "ss",
    "ssh",
    "sysctl",
    "systemctl",
    "tar",
    "tc",
    "tee",
    "tshark",
    "uname",
    "xdg-open",
];

/// Commands that only read and write their standard streams or what is below the scratch folder.
const TOOLS: &[&str] = &[
    "awk", "cat", "cmp", "column", "cut", "diff", "grep", "gzip", "head", "ls", "mkdir", "sed", "seq", "sh",
    "sort", "tail", "tr", "wc",
];

/// Commands for the program's developers, which `--help` and the reference leave out.
const HIDDEN: &[&str] = &["check-switching", "in-lab", "far-end", "reference", "parse", "man"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Every file of this ending below `dir`, except what builds have made.
fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') && !name.starts_with("headway-run") {
            all.extend(files(&path, ending));
        } else if name.ends_with(ending) {
            all.push(path);
        }
    }
    all.sort();
    all
}

/// One Markdown file.
struct Page {
    /// Below the root of the repository.
    name: PathBuf,
    text: String,
}

impl Page {
    fn all() -> Vec<Self> {
        let root = root();
        let page = |file: PathBuf| Page {
            text: fs::read_to_string(&file).unwrap(),
            name: file.strip_prefix(&root).unwrap().to_path_buf(),
        };
        files(&root, ".md").into_iter().map(page).collect()
    }

    fn events(&self) -> impl Iterator<Item = (Event<'_>, usize)> {
        let line = |at: usize| self.text[..at].matches('\n').count() + 1;
        let parser = Parser::new_ext(&self.text, Options::ENABLE_TABLES).into_offset_iter();
        parser.map(move |(event, range)| (event, line(range.start)))
    }

    /// The names by which a link can point into the page: those that GitHub and mdBook give to headings, and those
    /// that HTML gives.
    fn anchors(&self) -> BTreeSet<String> {
        let (mut all, mut heading) = (BTreeSet::new(), None::<String>);
        for (event, _) in self.events() {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(t) | Event::Code(t) => heading.iter_mut().for_each(|h| h.push_str(&t)),
                Event::End(TagEnd::Heading(_)) => {
                    let name = anchor(&heading.take().unwrap_or_default());
                    let further = (1..).map(|n| format!("{name}-{n}"));
                    let mut names = std::iter::once(name.clone()).chain(further);
                    all.extend(names.find(|n| !all.contains(n)));
                }
                Event::Html(t) | Event::InlineHtml(t) => {
                    all.extend(
                        t.split("id=\"").skip(1).filter_map(|t| Some(t.split_once('"')?.0.to_string())),
                    );
                }
                _ => {}
            }
        }
        all
    }

    /// Where its links and pictures lead, with the line.
    fn links(&self) -> Vec<(String, usize)> {
        let target = |(event, line)| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some((dest_url.to_string(), line))
            }
            _ => None,
        };
        self.events().filter_map(target).collect()
    }

    /// Commands of ours within sentences, with the line.
    fn named_commands(&self) -> impl Iterator<Item = (String, usize)> {
        self.events().filter_map(|(event, line)| match event {
            Event::Code(text) if text.starts_with("headway ") || text.starts_with("sudo headway ") => {
                Some((text.to_string(), line))
            }
            _ => None,
        })
    }

    /// Its blocks of code: what they are marked as, their text and their line.
    fn blocks(&self) -> Vec<(String, String, usize)> {
        let (mut all, mut open) = (Vec::new(), None);
        for (event, line) in self.events() {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let mark = match kind {
                        CodeBlockKind::Fenced(mark) => mark.to_string(),
                        CodeBlockKind::Indented => String::new(),
                    };
                    open = Some((mark, String::new(), line));
                }
                Event::Text(t) => open.iter_mut().for_each(|(_, text, _)| text.push_str(&t)),
                Event::End(TagEnd::CodeBlock) => all.extend(open.take()),
                _ => {}
            }
        }
        all
    }
}

/// A heading's name in an address: small letters, digits, `-` and `_`; a blank is `-`.
fn anchor(heading: &str) -> String {
    let word = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    };
    heading.trim().to_lowercase().chars().filter_map(word).collect()
}

/// `a/b/../c` as `a/c`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(plain.pop(), "{} leaves the repository", path.display()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn every_link_leads_somewhere() {
    let pages = Page::all();
    let dead = dead_links(&pages);
    assert!(dead.is_empty(), "these links lead nowhere:\n{}", dead.join("\n"));
    let count: usize = pages.iter().map(|p| p.links().len()).sum();
    assert!(count > 60, "only {count} links were found");
}

/// Links within the repository whose file or anchor is not there.
fn dead_links(pages: &[Page]) -> Vec<String> {
    let anchors: BTreeMap<&Path, _> = pages.iter().map(|p| (p.name.as_path(), p.anchors())).collect();
    let mut dead = Vec::new();
    for page in pages {
        let is_ours = |link: &str| !link.contains("://") && !link.starts_with("mailto:");
        for (link, line) in page.links().into_iter().filter(|(l, _)| is_ours(l)) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => page.name.clone(),
                file => plain(&page.name.parent().unwrap().join(file)),
            };
            let has_anchor = match anchors.get(target.as_path()) {
                Some(known) => known.contains(anchor),
                None => root().join(&target).exists() && anchor.starts_with('L'), // a line of a source file
            };
            let exists = anchors.contains_key(target.as_path()) || root().join(&target).exists();
            if !exists || !anchor.is_empty() && !has_anchor {
                dead.push(format!("{}:{line}: {link}", page.name.display()));
            }
        }
    }
    dead
}

#[test]
fn every_page_is_a_chapter() {
    let pages = Page::all();
    let summary = pages.iter().find(|p| p.name == Path::new("docs/SUMMARY.md")).unwrap();
    let chapters: Vec<PathBuf> =
        summary.links().into_iter().map(|(link, _)| plain(&Path::new("docs").join(link))).collect();
    let once: BTreeSet<&PathBuf> = chapters.iter().collect();
    assert_eq!(once.len(), chapters.len(), "a chapter stands twice in docs/SUMMARY.md");
    for page in pages.iter().filter(|p| p.name.starts_with("docs") && p.name != summary.name) {
        assert!(once.contains(&page.name), "{} is no chapter of docs/SUMMARY.md", page.name.display());
    }
}

#[test]
fn the_reference_is_what_the_program_writes() {
    let written = Scratch::new("reference");
    let output = headway(&written.0, &["reference", "."]);
    assert!(output.status.success(), "{output:?}");
    let pages = files(&written.0, ".md");
    assert!(pages.len() >= 6);
    for page in pages {
        let name = page.file_name().unwrap();
        let kept = fs::read_to_string(root().join("docs/reference").join(name)).unwrap_or_default();
        assert!(
            kept == fs::read_to_string(&page).unwrap(),
            "docs/reference/{} is not what the program writes; run `make docs`",
            name.display()
        );
    }
}

#[test]
fn every_measurement_names_its_command() {
    let pages = Page::all();
    let is_measurement =
        |p: &&Page| p.name.starts_with("docs/measurements") && !p.name.ends_with("README.md");
    let measurements: Vec<&Page> = pages.iter().filter(is_measurement).collect();
    assert!(!measurements.is_empty());
    let nameless: Vec<String> = measurements.into_iter().flat_map(nameless).collect();
    assert!(
        nameless.is_empty(),
        "these have no `sh` block with their command above them, under the same heading, nor a paragraph `Command:` or \
         `No command:`:\n{}",
        nameless.join("\n")
    );
}

/// Tables and pictures without a command above them.
fn nameless(page: &Page) -> Vec<String> {
    let (mut nameless, mut has_command) = (Vec::new(), false);
    for (event, line) in page.events() {
        match event {
            Event::Start(Tag::Heading { .. }) => has_command = false,
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(mark))) => has_command |= &*mark == "sh",
            Event::Text(t) => has_command |= t.starts_with("Command:") || t.starts_with("No command:"),
            Event::Start(Tag::Table(_) | Tag::Image { .. }) if !has_command => {
                nameless.push(format!("{}:{line}", page.name.display()));
            }
            _ => {}
        }
    }
    nameless
}

#[test]
fn every_command_is_understood() {
    let template = template();
    let pages = Page::all();
    let is_run = |p: &&Page| p.name == Path::new("README.md") || p.name.starts_with("docs");
    let (mut wrong, mut count) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let checks: Vec<_> =
            pages.iter().filter(is_run).map(|page| scope.spawn(|| check_blocks(page, &template.0))).collect();
        for check in checks {
            let (of_page, problems) = check.join().unwrap();
            count += of_page;
            wrong.extend(problems);
        }
    });
    assert!(wrong.is_empty(), "{} commands of the manual are wrong:\n\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(count > 40, "only {count} commands were run");
}

#[test]
fn every_flag_that_a_sentence_names_is_there() {
    let pages = Page::all();
    let flags = flags();
    assert!(flags.len() > 10 && flags["bench"].contains("--dry-run"), "{flags:?}");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in &pages {
        let named: Vec<(String, usize)> = page.named_commands().collect();
        count += named.len();
        wrong.extend(named.iter().filter_map(|(words, line)| {
            Some(format!("{}:{line}: {}", page.name.display(), unknown_word(words, &flags)?))
        }));
    }
    assert!(wrong.is_empty(), "these sentences name what is not there:\n{}", wrong.join("\n"));
    assert!(count > 50, "only {count} commands were found in sentences");
}

/// The flags of each command, as the reference has them.
fn flags() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join("docs/reference/commands.md")).unwrap();
    let parts = text.split("\n## headway ").skip(1);
    let flags_of = |part: &str| {
        let code = part.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
        let flags = code.filter(|w| w.starts_with("--")).map(|w| w.split('=').next().unwrap().to_string());
        flags.chain(["--help".to_string()]).collect()
    };
    parts.map(|part| (part.lines().next().unwrap().to_string(), flags_of(part))).collect()
}

/// What a command in a sentence, such as `headway list --params CONTROLLER`, has that the program has not.
fn unknown_word(words: &str, flags: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let own = words.split(" -- ").next().unwrap_or_default();
    let mut words = own.split_whitespace().skip_while(|w| *w != "headway").skip(1);
    let command = words.next()?;
    let is_any = command.starts_with('-') || command.chars().all(|c| !c.is_lowercase()); // `headway COMMAND`
    if is_any || HIDDEN.contains(&command) {
        return None;
    }
    let Some(known) = flags.get(command) else { return Some(format!("there is no `headway {command}`")) };
    let mut flags =
        words.map(|w| w.trim_matches(|c| "[]…,".contains(c)).split('=').next().unwrap_or_default());
    let unknown = flags.find(|w| w.starts_with("--") && !known.contains(*w))?;
    Some(format!("`headway {command}` has no {unknown}"))
}

#[test]
fn what_is_wrong_is_found() {
    let page = |text: &str| Page { name: PathBuf::from("docs/x.md"), text: text.to_string() };
    let template = template();
    for (text, says) in [
        ("```sh\nheadway benhc --cc bbr\n```", "`headway benhc --cc bbr` fails"),
        ("```sh\nsudo headway load bbr3 --sett a=1\n```", "--sett"),
        ("```sh\nheadway load bbr3 --set up_gain=1\n```", "no parameter `up_gain`"),
        ("```sh\nheadway emu 10mbit -- true\n```", "10mbit"),
        ("```sh\nheadway bench --in sim --cc bbr1 --path nosuch | head -1\n```", "`nosuch`"),
        ("```sh\nheadway report NOSUCH || true\n```", "NOSUCH"),
        ("```sh\nheadwy list\n```", "`headwy list` is no program"),
        ("```sh\nmake bench docks\n```", "no target `docks`"),
        ("```sh\ncargo run --example nosuch\n```", "no example `nosuch`"),
        ("```sh\nheadway list > /tmp/list\n```", "outside"),
        ("```sh\nheadway list --params cubic2 > /dev/null\n```", "cubic2"),
        ("```sh\necho 1\n```\n\n```text output\n2\n```", "is not what the block above it prints"),
    ] {
        let wrong = check_blocks(&page(text), &template.0).1;
        assert!(wrong.len() == 1 && wrong[0].contains(says), "{text}: {wrong:?}");
    }
    let run =
        "```sh\nheadway bench --in sim --cc bbr1,cubic --path '20mbit 20ms' --seconds 3 --blocks 2\n```\n";
    let wrong = check_blocks(&page(&format!("{run}```text output\nnothing\n```")), &template.0).1;
    assert!(wrong.len() == 1 && wrong[0].to_lowercase().contains("goodput"), "{wrong:?}");
    let fine = "```sh\nout=run\nheadway bench --in sim --cc bbr1,cubic \\\n  --out $out # comment\nheadway report $out\n```";
    assert_eq!(check_blocks(&page(fine), &template.0), (2, vec![]));
    let links =
        page("# A b: `c`\n[1](#a-b-c) [2](#a) [3](../README.md#nosuch) [4](nosuch.md) [5](../Makefile)");
    let dead: Vec<String> = [links].chunks(1).flat_map(dead_links).collect();
    assert_eq!(dead, ["docs/x.md:2: #a", "docs/x.md:2: ../README.md#nosuch", "docs/x.md:2: nosuch.md"]);
    let sentence = page("Ask `headway list --parms bbr3`, `headway lists` or `headway bench --dry-run`.");
    let flags = flags();
    let wrong: Vec<_> =
        sentence.named_commands().filter_map(|(words, _)| unknown_word(&words, &flags)).collect();
    assert_eq!(wrong, ["`headway list` has no --parms", "there is no `headway lists`"]);
    let table = "| a |\n| - |\n| 1 |\n";
    let text = format!("# A\n\n```sh\nls\n```\n\n{table}\n## B\n\n{table}");
    assert_eq!(nameless(&page(&text)), ["docs/x.md:13"]);
}

/// Runs the blocks of a page in their order. Returns how many commands of ours ran, and what is wrong.
fn check_blocks(page: &Page, template: &Path) -> (usize, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    let blocks = page.blocks();
    if blocks.iter().all(|(mark, ..)| mark != "sh") {
        return (0, wrong);
    }
    let scratch = Scratch::new(&page.name.to_string_lossy().replace(['/', '.'], "-"));
    copy(template, &scratch.0);
    let mut printed = String::new();
    for (i, (mark, text, line)) in blocks.iter().enumerate() {
        let place = format!("{}:{line}", page.name.display());
        match mark.as_str() {
            "sh" => {
                let is_shown = blocks.get(i + 1).is_some_and(|(mark, ..)| mark == OUTPUT);
                let (output, log) = run_block(&scratch.0, text, is_shown);
                printed = String::from_utf8_lossy(&output.stdout).into_owned();
                for problem in log.lines().filter_map(problem) {
                    wrong.push(format!("{place}: {problem}\n{}", String::from_utf8_lossy(&output.stderr)));
                }
                if text.lines().any(writes_outside) {
                    wrong.push(format!("{place} writes outside of its folder"));
                }
                count += log.lines().filter(|l| l.starts_with("headway ")).count();
            }
            OUTPUT if printed.trim_end() != text.trim_end() => {
                wrong.push(format!("{place} is not what the block above it prints, which is:\n{printed}"));
            }
            _ => {}
        }
    }
    (count, wrong)
}

fn writes_outside(line: &str) -> bool {
    let targets = line.split('>').skip(1).map(str::trim_start);
    targets.into_iter().any(|t| t.starts_with('/') && !t.starts_with("/dev/null"))
}

/// What a line of the log says is wrong: a command of ours that failed, one that nobody knows, or a target or an
/// example that is not there.
fn problem(line: &str) -> Option<String> {
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    let words: Vec<&str> = rest.split_whitespace().collect();
    let after = |flag: &str| words.iter().skip_while(|w| **w != flag).nth(1).copied();
    match command {
        "failed" => Some(format!("`{rest}` fails")),
        "unknown" => Some(format!("`{rest}` is no program that tests/manual.rs knows")),
        "make" => {
            let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
            let is_target = |w: &&str| makefile.lines().any(|l| l.starts_with(&format!("{w}:")));
            let targets = words.iter().filter(|w| !w.contains('=') && !w.starts_with('-'));
            targets.clone().find(|w| !is_target(w)).map(|w| format!("the Makefile has no target `{w}`"))
        }
        "cargo" => {
            let example = after("--example")?;
            let homes = ["headway-cc", "headway-kernel", "headway-cli"];
            let exists = homes.iter().any(|h| root().join(h).join(format!("examples/{example}.rs")).exists());
            (!exists).then(|| format!("there is no example `{example}`"))
        }
        "python3" => words.first().filter(|w| !root().join(w).exists()).map(|w| format!("there is no `{w}`")),
        _ => None,
    }
}

/// Runs a block with the stand-ins. The log has a line for each command: its words, or `failed` and its words.
fn run_block(scratch: &Path, text: &str, is_shown: bool) -> (Output, String) {
    let log = scratch.join(".log");
    fs::write(&log, "").unwrap();
    let prelude = "command_not_found_handle() { echo \"unknown $*\" >> \"$LOG\"; }\ncd() { :; }\n";
    let output = Command::new("/bin/bash")
        .args(["-c", &format!("{prelude}{text}")])
        .current_dir(scratch)
        .env_clear()
        .envs([("SLURM_ARRAY_TASK_ID", "2"), ("SLURM_ARRAY_TASK_COUNT", "8"), ("HOME", "/nonexistent")])
        .env("PATH", scratch.join(".bin"))
        .env("LOG", &log)
        .env("IS_SHOWN", if is_shown { "yes" } else { "no" })
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    (output, fs::read_to_string(&log).unwrap())
}

/// `headway` as the manual's blocks find it. A comparison is a dry run, and then a run folder is where the reader's
/// would be; in the simulator it is run where the page shows what it prints. What changes the machine or needs a
/// server is only read.
const HEADWAY: &str = r#"#!/bin/bash
echo "headway $*" >> "$LOG"
folder_of() { while [ $# -gt 0 ]; do case $1 in --out) echo "$2" ;; --out=*) echo "${1#--out=}" ;; esac; shift; done; }
case $1 in
bench)
    case "$IS_SHOWN $* " in "yes "*" --in sim "*) "$PROGRAM" "$@" || echo "failed headway $*" >> "$LOG"; exit ;; esac
    case " $* " in *" --dry-run "*) "$PROGRAM" "$@" ;; *" --resume "*) "$PROGRAM" parse "$@" ;; *) "$PROGRAM" "$@" --dry-run ;; esac
    code=$?
    out=$(folder_of "$@")
    [ -e "${out:-headway-run-1}" ] || /bin/cp -r RUN "${out:-headway-run-1}" ;;
load | unload | enable | disable | tune | apply | confirm | status | watch | metrics | emu | kernel | trial) "$PROGRAM" parse "$@"; code=$? ;;
doctor) "$PROGRAM" "$@"; code=$(($? > 1)) ;;
merge) /bin/rm -rf "./$(folder_of "$@")"; "$PROGRAM" "$@"; code=$? ;;
*) "$PROGRAM" "$@"; code=$? ;;
esac
[ $code = 0 ] || echo "failed headway $*" >> "$LOG"
exit $code
"#;

/// How a block is marked that is what the block before it prints.
const OUTPUT: &str = "text output";

/// Whatever else a block calls: it is noted, and takes what is piped into it.
const STAND_IN: &str =
    "#!/bin/bash\necho \"${0##*/} $*\" >> \"$LOG\"\n[ -p /dev/stdin ] && /bin/cat > /dev/null\nexit 0\n";

/// `sudo` runs what is ours and notes the rest.
const SUDO: &str = "#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nexec \"$@\"\n";

/// The folder that every page's blocks run in a copy of: the names that the manual uses, and the stand-ins.
fn template() -> Scratch {
    let scratch = Scratch::new("template");
    let run = [
        "bench",
        "--in",
        "sim",
        "--cc",
        "bbr1,bbr3", // both are traced, so that the first cell is, too
        "--path",
        "20mbit 20ms",
        "--blocks",
        "2",
        "--seconds",
        "3",
    ];
    for more in [
        &["--out", "RUN", "--trace"][..],
        &["--out", "shard-1", "--shard", "1/2", "--trace"],
        &["--out", "shard-2", "--shard", "2/2", "--trace"],
    ] {
        let output = headway(&scratch.0, &[&run, more].concat());
        assert!(output.status.success(), "{output:?}");
    }
    copy(&scratch.0.join("RUN"), &scratch.0.join("DIR"));
    let trial = ["trial", "--in", "sim", "--cc", "cubic,bbr3", "--for", "10m", "--out", "headway-trial-1"];
    assert!(headway(&scratch.0, &trial).status.success());
    fs::create_dir_all(scratch.0.join("FOLDER")).unwrap();
    for version in ["3.14", "3.16", "3.18"] {
        let run = root().join(format!("headway-cli/tests/data/iperf3/{version}-ok.json"));
        let run = fs::read_to_string(run).unwrap();
        let name = |cc: &str| scratch.0.join(format!("FOLDER/{version}-{cc}.json"));
        fs::write(name("cubic"), &run).unwrap();
        fs::write(name("bbr"), run.replace("\"cubic\"", "\"bbr\"")).unwrap();
    }
    let table = "streams,cc,goodput_bps_mean,goodput_bps_sd,n\n1,cubic,9e6,2e5,10\n1,bbr,9.5e6,1e5,10\n";
    for name in ["table.csv", "means.csv", "delays.csv"] {
        fs::write(scratch.0.join(name), table).unwrap();
    }
    for (from, to) in [("shard-1", "part1"), ("shard-2", "part2"), ("FOLDER", "results")] {
        copy(&scratch.0.join(from), &scratch.0.join(to));
    }
    fs::copy(scratch.0.join("FOLDER/3.14-bbr.json"), scratch.0.join("run1.json")).unwrap();
    assert!(headway(&scratch.0, &["export", "RUN", "--flent", "flent"]).status.success());
    fs::rename(&files(&scratch.0.join("flent"), ".flent.gz")[0], scratch.0.join("run2.flent.gz")).unwrap();
    let bin = scratch.0.join(".bin");
    fs::create_dir_all(&bin).unwrap();
    let program = format!("PROGRAM='{}'\n", env!("CARGO_BIN_EXE_headway"));
    script(&bin.join("headway"), &HEADWAY.replacen('\n', &format!("\n{program}"), 1));
    script(&bin.join("sudo"), SUDO);
    STAND_INS.iter().for_each(|name| script(&bin.join(name), STAND_IN));
    for name in TOOLS {
        let homes = ["/usr/bin", "/bin"].map(|home| Path::new(home).join(name));
        if let Some(tool) = homes.iter().find(|t| t.exists()) {
            std::os::unix::fs::symlink(tool, bin.join(name)).unwrap();
        }
    }
    scratch
}

fn script(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").arg(from.join(".")).arg(to).status().unwrap();
    assert!(copied.success());
}

fn headway(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headway")).args(args).current_dir(folder).output().unwrap()
}

/// A folder that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("manual-{name}-{}-{count}", std::process::id());
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
