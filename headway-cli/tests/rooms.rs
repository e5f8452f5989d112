//! The rooms of the program import downward only.
//!
//! A room is a module at the top of `src`. One that uses what stands above it closes a circle: neither can then be
//! read, tested or moved without the other. This test reads every source file and fails on such an import, also in
//! unit tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// From top to bottom: a room may name itself and what comes after it.
const ROOMS: [&str; 20] = [
    "main", "fuzz", "commands", "watch", "operate", "interop", "trial", "bench", "lab", "report", "metric",
    "cell", "load", "emu", "observe", "raw", "plan", "stats", "sys", "error",
];

/// Imports that run upward today, by file and room. One that is gone must leave this list, so that it only becomes
/// shorter.
const EXCEPTIONS: &[(&str, &str)] = &[];

#[test]
fn rooms_import_downward_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut upward = BTreeSet::new();
    for file in files(&src) {
        let name = file.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
        let room = name.split('/').next().unwrap().trim_end_matches(".rs").to_string();
        let from = ROOMS.iter().position(|r| *r == room);
        let from = from.unwrap_or_else(|| panic!("`{room}` has no place in the order of rooms"));
        for used in uses(&code(&std::fs::read_to_string(&file).unwrap())) {
            // What is no module stands in main.rs.
            if ROOMS.iter().position(|r| *r == used).unwrap_or(0) < from {
                let to = if ROOMS.contains(&used.as_str()) { used } else { "main".into() };
                upward.insert((name.clone(), to));
            }
        }
    }
    let known: BTreeSet<_> = EXCEPTIONS.iter().map(|(f, r)| (f.to_string(), r.to_string())).collect();
    let (new, gone): (Vec<_>, Vec<_>) =
        (upward.difference(&known).collect(), known.difference(&upward).collect());
    assert!(new.is_empty(), "these files use rooms above their own: {new:?}");
    assert!(gone.is_empty(), "these exceptions occur no longer, take them off the list: {gone:?}");
}

/// The walk of one run in `docs/architecture.md` names functions as `file.rs: name`. A page that names what is gone
/// sends its reader astray, so each name must be defined in its file.
#[test]
fn every_function_that_the_architecture_page_names_exists() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(program.join("../docs/architecture.md")).unwrap();
    let named: Vec<(&str, &str)> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|span| span.split_once(".rs: "))
        .filter(|(_, name)| !name.contains(' '))
        .collect();
    assert!(named.len() > 40, "the walk names {} functions only", named.len());
    for (file, name) in named {
        let text = std::fs::read_to_string(program.join("src").join(format!("{file}.rs")));
        let text = text.unwrap_or_else(|e| panic!("`{file}.rs` of the walk: {e}"));
        let is_defined = ["fn", "const", "struct", "enum"].iter().any(|kind| {
            [" ", "(", "<", ":", "{"].iter().any(|end| text.contains(&format!("{kind} {name}{end}")))
        });
        assert!(is_defined, "`{file}.rs` has no `{name}`, which the walk names");
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.push(path);
        }
    }
    all
}

/// The text without comments and without the contents of strings.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if let Some(hashes) = raw_string(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = hashes + 2;
            rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len())
        } else if c == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |at| at + 2)
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find("'").map_or(rest.len(), |at| at + 2)
        } else {
            code.push(c);
            c.len_utf8()
        };
        rest = &rest[skipped..];
    }
    code
}

/// The number of `#` of the raw string that begins here.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// The first name of each path that begins with `crate::`, also of those in braces.
fn uses(code: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (at, start) in code.match_indices("crate::") {
        // `$crate` and `some_crate` are other words.
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + start.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            all.push(first_name(rest));
            continue;
        };
        let (mut depth, mut is_start) = (1, true);
        for (at, c) in group.char_indices() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            if depth == 0 {
                break;
            }
            if is_start && !c.is_whitespace() {
                all.push(first_name(&group[at..]));
            }
            is_start = depth == 1 && (c == ',' || (is_start && c.is_whitespace()));
        }
    }
    all
}

fn first_name(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// `scripts/mutations` plants known defects and runs the tests that are meant to find them. It takes too long for every day, so
/// this only sees that each defect still changes its file, and that there is a test of the name.
#[test]
fn every_known_defect_can_be_planted_and_has_its_test() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/mutations");
    let check = Command::new(script).arg("--check").output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

#[test]
fn imports_are_found_wherever_they_stand() {
    let text = r##"
        //! crate::comment /* no */
        use crate::{a, b::{self, c}, d as e,
            f};
        use other_crate::g;
        fn x() { crate::h::y("crate::i", '"', "\"crate::j", r#"crate::"k"#, crate::l) } // crate::m
    "##;
    assert_eq!(uses(&code(text)), ["a", "b", "d", "f", "h", "l"]);
}
