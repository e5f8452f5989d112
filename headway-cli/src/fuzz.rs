//! What strangers may hand to the program, tried with bytes that nobody would write: texts of paths, traces, plans, run
//! folders, and files of other programs.
//!
//! `scripts/fuzz` builds the program with `--cfg fuzzing`; then libFuzzer has the `main`, and gives [`input`] what it
//! makes up. The inputs that it kept, because each reaches code that the others do not, are in `fuzz/seeds`, and the test
//! below gives them to the same functions. An input is borne if nothing panics, nothing is written but the report's three
//! files, and the page runs nothing that is not ours.

mod page;
mod scratch;

use crate::interop::{flent, import};
use crate::metric::CellData;
use crate::plan::Plan;
use crate::raw::folder::cell_dir;
use crate::report::compare::{self, Terms};
use crate::report::{self, Format, Options};
use headway_cc::link::{Link, LinkSpec};
use headway_cc::path::{self, Path};
use scratch::Scratch;
use std::str;

/// A name, and what is done with an input.
type Target = (&'static str, fn(&[u8]));

/// What is tried: its name, which its folder of seeds has too, and what is done with an input.
const TARGETS: [Target; 5] =
    [("path", path), ("trace", trace), ("plan", plan), ("folder", folder), ("import", import)];

/// The environment variable that names the target.
#[cfg(fuzzing)]
const CHOICE: &str = "HEADWAY_FUZZ";

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| input(bytes));

#[cfg(fuzzing)]
fn input(bytes: &[u8]) {
    let chosen = std::env::var(CHOICE).unwrap_or_default();
    let target = TARGETS.iter().find(|(name, _)| *name == chosen);
    let (_, target) = target.unwrap_or_else(|| panic!("{CHOICE} names none of the targets"));
    target(bytes);
}

/// A path's text. What it says of itself must be a path's text, too.
fn path(bytes: &[u8]) {
    let Ok(path) = str::from_utf8(bytes).map_err(drop).and_then(|text| path::resolve(text).map_err(drop))
    else {
        return;
    };
    assert_eq!(path.to_string().parse(), Ok(path.clone()), "`{path}`");
    go(&path);
}

/// The first line is a path's text, and the rest the file that it names, a mahimahi trace or measured loss.
fn trace(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (path, file) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(mut path) = path.parse::<Path>() else { return };
    if path.files().iter().all(|name| path.load(name, file).is_ok()) {
        go(&path);
    }
}

/// What is asked of a path, and some packets over it.
fn go(path: &Path) {
    let (first, second) =
        (path.capacity_bits(0, 3_000_000_000), path.capacity_bits(3_000_000_000, 7_000_000_000));
    assert!(
        first.saturating_add(second) >= path.capacity_bits(0, 7_000_000_000).saturating_sub(1),
        "`{path}`"
    );
    let _ = (path.rate_drop(), path.first_change_ns(), path.rate_bps_at(1), path.base_rtt_us(), path.marks());
    [&path.down, &path.up].into_iter().for_each(carry);
}

/// A burst and single packets, and what came of them: none is lost without being counted.
fn carry(spec: &LinkSpec) {
    let mut link = Link::new(spec, 1);
    let mut now_ns = 0;
    for n in 0..60 {
        link.push(now_ns, 1500 - n, n % 2 == 0, n);
        now_ns += if n < 30 { 0 } else { 7_000_000 };
        link.advance(now_ns);
        while link.pop(now_ns).is_some() {}
    }
    for _ in 0..200 {
        let Some(next_ns) = link.next_ns().filter(|ns| *ns < 1 << 50) else { break };
        now_ns = now_ns.max(next_ns);
        link.advance(now_ns);
        while link.pop(now_ns).is_some() {}
    }
    let stats = link.stats();
    assert_eq!(
        stats.in_packets,
        stats.out_packets + stats.drop_packets + stats.lost_packets + link.inside().0
    );
}

/// plan.json. What is read must be the same when it is written and read again.
fn plan(bytes: &[u8]) {
    let scratch = Scratch::new();
    scratch.put("plan.json", bytes);
    let Ok(plan) = Plan::read(&scratch.run()) else { return };
    let _ = (plan.command(), plan.dry_run(None, 1), plan.what_cannot_be_decided(), plan.comparisons());
    let _ = (plan.kernels(), plan.cards());
    scratch.put("plan.json", serde_json::to_string(&plan).unwrap().as_bytes());
    assert_eq!(Plan::read(&scratch.run()).unwrap(), plan);
    scratch.keep();
    let _ = report::report(&scratch.run(), &Options::default());
    scratch.check();
}

/// Files of a run folder, in the form that `scratch` describes; those that it does not have are those of a simulated run.
fn folder(bytes: &[u8]) {
    let scratch = Scratch::new();
    scratch.unpack(include_bytes!("../fuzz/run"));
    scratch.unpack(bytes);
    scratch.keep();
    let format = if bytes.len().is_multiple_of(8) { Format::Esnet } else { Format::Full };
    let options = Options { format, fail_if: vec![report::FailIf::Worse], ..Options::default() };
    let _ = report::report(&scratch.run(), &options);
    scratch.check();
    if let Ok(plan) = Plan::read(&scratch.run()) {
        for cell in &plan.cells {
            if let Ok(data) = CellData::read(&cell_dir(&scratch.run(), cell), &plan.paths[cell.path]) {
                let _ = flent::text(&data);
            }
        }
    }
    if let Some(trace) = scratch.text("cells/000/acks.txt") {
        let _ = headway_kernel::replay(&trace);
    }
}

/// A file of another program, and a table of means.
fn import(bytes: &[u8]) {
    let scratch = Scratch::new();
    scratch.put("file", bytes);
    let file = scratch.run().join("file");
    let imported = import::read(std::slice::from_ref(&file), "bbr").unwrap();
    let _ = (import::runs_csv(&imported), import::summary_csv(&imported));
    let terms = Terms { baseline: None, better: crate::metric::Better::Higher, margin: 0.02 };
    if let Ok(table) = compare::summary(&file, &terms) {
        let _ = table.text(80);
        page::check(&table.page(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn inputs_that_were_found_are_borne() {
        for (name, target) in TARGETS {
            let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
            let seeds: Vec<_> = fs::read_dir(&seeds).unwrap().map(|seed| seed.unwrap().path()).collect();
            assert!(seeds.len() > 5, "{name} has {} seeds", seeds.len());
            for seed in seeds {
                println!("{}", seed.display());
                target(&fs::read(seed).unwrap());
            }
        }
    }
}
