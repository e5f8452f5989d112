//! Runs a plan: its cells one after the other, or side by side where they do not disturb each other, each into a
//! folder of raw text files. How a cell is run is the business of `cell` and `lab`; this room decides which cells are
//! to run, repeats those whose failure may pass, and keeps what was made. `commands` calls it.
//!
//! The run folder is all that measuring and judging share (`raw`), so an interrupted run can go on where it stopped.

mod env;
pub mod merge;
pub mod need;
mod progress;

use crate::cell::here;
use crate::cell::remote;
use crate::cell::settings;
use crate::cell::sim;
use crate::error::sentence;
use crate::lab;
use crate::load::iperf;
use crate::plan::shard::Shard;
use crate::plan::{Cell, Label, Place, Plan};
use crate::raw::about::{About, Change};
use crate::raw::cell::CellResult;
use crate::raw::folder::{self, cell_dir, open_run, temporary_cell_dir};
use crate::sys::interrupt;
use crate::sys::out;
use anyhow::{Context, Result, ensure};
use progress::Progress;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// How to run a plan.
#[derive(Debug)]
pub struct Options {
    pub out: PathBuf,
    /// Only these cells of the plan.
    pub shard: Option<Shard>,
    /// Cells side by side in `sim` and `lab`; elsewhere always one.
    pub jobs: usize,
    /// The command that goes on with this run when it is interrupted.
    pub go_on: String,
    /// Without a word about the progress.
    pub quiet: bool,
    /// Title and note of the user's.
    pub about: Change,
}

/// Runs every cell of the plan that the run folder does not have yet. Returns how many failed.
pub fn run(plan: &Plan, o: &Options) -> Result<usize> {
    if !plan.place.is_remote() {
        folder::check_same(plan, &o.out)?;
    }
    need::need(plan)?;
    let begun = env::begun(&o.out)?;
    let lab_kernels = lab_kernels(plan, begun.as_ref())?;
    try_settings(plan, &lab_kernels)?;
    let (remote, plan) = match remote::Session::open(plan, &o.out)? {
        Some((session, plan)) => (Some(session), plan),
        None => (None, plan.clone()),
    };
    let (plan, shared) = (&plan, Shared { lab_kernels, remote });
    let _lock = open_run(plan, &o.out)?;
    interrupt::goes_on_with(o.go_on.clone());
    let env = env::describe(plan, &shared.lab_kernels, shared.remote.as_ref())?;
    env::keep(&o.out, begun, &env)?;
    plan.what_cannot_be_decided().iter().for_each(|undecided| out::note(format_args!("note: {undecided}")));
    let own: Vec<&Cell> = plan.cells_of(o.shard).collect();
    let todo: Vec<&Cell> = own.iter().copied().filter(|c| !cell_dir(&o.out, c).exists()).collect();
    // A run that goes on was begun when its first cell was.
    let is_begun_now = !plan.place.is_virtual() && todo.len() == plan.cells.len();
    About::change(&o.out, &o.about, is_begun_now.then(SystemTime::now))?;
    if todo.len() < own.len() && !o.quiet {
        out::note(format_args!(
            "going on: {} of {} cells are there already",
            own.len() - todo.len(),
            own.len()
        ));
    }
    let jobs = match plan.place {
        Place::Sim | Place::Lab => o.jobs,
        // Two cells at a time would share the machine's CPUs, or the path itself.
        Place::Here | Place::Remote(_) => 1,
    };
    let progress = Progress::new(plan, todo.len(), o.quiet);
    side_by_side(jobs.min(todo.len()), &todo, |cell| {
        progress.begins(plan, cell);
        let status = run_and_keep(plan, cell, &shared, &o.out, &progress)?;
        progress.done(plan, cell, &status);
        Ok(())
    })?;
    progress.end(jobs);
    Ok(progress.failed())
}

/// Runs the cells in their order on `threads` threads. After the first error no further cell is started.
fn side_by_side(threads: usize, cells: &[&Cell], run: impl Fn(&Cell) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let first_error: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    let work = || {
        while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            if first_error.lock().unwrap_or_else(|e| e.into_inner()).is_some() {
                break;
            }
            if let Err(e) = run(cell) {
                *first_error.lock().unwrap_or_else(|e| e.into_inner()) = Some(e);
            }
        }
    };
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(work);
        }
    });
    first_error.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
}

/// What all cells of the run share, prepared once before the first.
struct Shared {
    lab_kernels: BTreeMap<String, lab::Kernel>,
    remote: Option<remote::Session>,
}

/// The lab's kernels, by the names that the plan has for them; none outside the lab. A run that was begun goes on with
/// the very version it was begun with, also where a newer one that the plan's name would fit has come since.
fn lab_kernels(plan: &Plan, begun: Option<&serde_json::Value>) -> Result<BTreeMap<String, lab::Kernel>> {
    let specs: Vec<&str> = match plan.place {
        Place::Lab => plan.kernels().into_iter().collect(),
        _ => Vec::new(),
    };
    let versions = begun.map(|env| env::begun_kernels(env, &specs)).unwrap_or_default();
    // What a guest needs to exchange a qdisc.
    let qdiscs = || plan.ccs.iter().filter_map(Label::qdisc);
    let tools = if qdiscs().next().is_some() { vec!["tc"] } else { Vec::new() };
    let modules: Vec<String> = qdiscs().map(settings::module).collect();
    let find = |spec: &&str| {
        let version = versions.get(*spec).filter(|version| !version.is_empty() && !lab::is_file(spec));
        let kernel = lab::Kernel::find(
            version.map(String::as_str).or(some(spec)),
            some(&plan.modules).filter(|_| *spec == plan.kernel).map(FsPath::new),
            &lab::Content { tools: &tools, modules: &modules, ..lab::Content::default() },
        );
        let kernel = kernel.with_context(|| match version {
            Some(version) => format!("the run was begun with Linux {version} and must go on with it"),
            None => "cannot run --in lab".into(),
        })?;
        Ok((spec.to_string(), kernel))
    };
    specs.iter().map(find).collect()
}

/// Tries out what candidates change of their hosts, so that a mistake is said before the run and not by each cell.
fn try_settings(plan: &Plan, kernels: &BTreeMap<String, lab::Kernel>) -> Result<()> {
    let mut changing = plan.ccs.iter().filter(|cc| cc.has_settings());
    if plan.place != Place::Lab {
        return changing.try_for_each(|cc| settings::try_out(cc, &plan.place));
    }
    let changing: Vec<&Label> = changing.collect();
    let cards = plan.cards();
    for (spec, kernel) in kernels {
        let paths = 0..plan.paths.len();
        let runs_on = |cc: &Label| paths.clone().any(|path| plan.kernel_of(path, cc) == spec);
        let ccs: Vec<Label> = changing.iter().copied().filter(|cc| runs_on(cc)).cloned().collect();
        match cards.is_empty() {
            true if ccs.is_empty() => {}
            true => lab::try_settings(kernel, ccs, None)?,
            false => cards.iter().try_for_each(|nic| lab::try_settings(kernel, ccs.clone(), Some(*nic)))?,
        }
    }
    Ok(())
}

fn some(s: &str) -> Option<&str> {
    (!s.is_empty()).then_some(s)
}

/// Runs one cell into a temporary folder, which is renamed when the cell is complete. A cell folder that exists under
/// its final name is therefore always whole, and an interrupted run can go on from what is there.
///
/// A cell that fails is kept, with the reason. Only what would stop every cell, such as a full disk, is an error.
fn run_and_keep(
    plan: &Plan,
    cell: &Cell,
    shared: &Shared,
    out: &FsPath,
    progress: &Progress,
) -> Result<String> {
    let dest = cell_dir(out, cell);
    let tmp = temporary_cell_dir(out, cell);
    fs::create_dir_all(&tmp).with_context(|| format!("cannot create `{}`", tmp.display()))?;
    let dir = tmp.clone();
    let guard = interrupt::guard(move || drop(fs::remove_dir_all(&dir)));
    let limit = match plan.place {
        Place::Sim => 1,
        // QEMU may have stood still. Any other failure in the lab would come out the same again.
        Place::Lab => 2,
        Place::Here | Place::Remote(_) => ATTEMPTS,
    };
    let pause = |attempt| {
        interrupt::wait_if_ending();
        progress.warn(&format!("attempt {attempt} at cell {:03} failed, trying again", cell.index));
        std::thread::sleep(Duration::from_secs(2 * u64::from(attempt)));
    };
    let (status, attempts) = with_attempts(limit, pause, || attempt(plan, cell, shared, &tmp))?;
    if !attempts.is_empty() {
        CellResult { attempts, ..CellResult::read(&tmp)? }.write(&tmp)?;
    }
    fs::rename(&tmp, &dest).with_context(|| format!("cannot keep `{}`", dest.display()))?;
    guard.keep();
    Ok(status)
}

/// How often a cell is tried at most, if its server is busy, away, or does not end. A server that others use may be
/// free a few seconds later. In the lab a cell whose guest does nothing is tried twice.
const ATTEMPTS: u32 = 5;

/// Repeats `attempt` up to `limit` times while its failure is one that may pass. Returns the last status and those
/// before it. `pause` gets the number of the attempt that failed.
fn with_attempts(
    limit: u32,
    pause: impl Fn(u32),
    mut attempt: impl FnMut() -> Result<String>,
) -> Result<(String, Vec<String>)> {
    let mut earlier: Vec<String> = Vec::new();
    loop {
        let status = attempt()?;
        let count = earlier.len() as u32 + 1;
        if count >= limit || !(iperf::is_worth_retrying(&status) || lab::is_stuck(&status)) {
            return Ok((status, earlier));
        }
        pause(count);
        earlier.push(status);
    }
}

/// Runs the cell once into `tmp`. The folder is emptied first, so that no file of an earlier attempt remains.
fn attempt(plan: &Plan, cell: &Cell, shared: &Shared, tmp: &FsPath) -> Result<String> {
    fs::remove_dir_all(tmp)
        .and_then(|()| fs::create_dir(tmp))
        .with_context(|| format!("cannot empty `{}`", tmp.display()))?;
    let ran = match &plan.place {
        Place::Sim => sim::run_cell(plan, cell, tmp),
        Place::Lab => {
            let kernel = shared
                .lab_kernels
                .get(plan.kernel_of(cell.path, &cell.cc))
                .context("the lab has no kernel")?;
            lab::run_cell(kernel, plan, cell, tmp, lab::Limits::for_cell(plan, cell))
        }
        Place::Here => here::run_cell(plan, cell, tmp),
        Place::Remote(_) => {
            let session = shared.remote.as_ref().context("the plan has no server")?;
            remote::run_cell(session, plan, cell, tmp)
        }
    };
    if let Err(e) = ran {
        ensure!(!is_disk_full(&e), "{}\nhint: free some room and run the same command again", sentence(&e));
        let failed = CellResult::new(plan, cell, &format!("failed: {}", sentence(&e)));
        failed.write(tmp)?;
    }
    Ok(CellResult::read(tmp)?.status)
}

fn is_disk_full(e: &anyhow::Error) -> bool {
    let full = |c: &(dyn std::error::Error + 'static)| {
        c.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::StorageFull)
    };
    e.chain().any(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_is_tried_again_up_to_the_limit_and_each_attempt_is_kept() {
        let busy = "failed: load.json: iperf3: the server is busy running a test. try again later";
        let tried = |limit, said: &[&str]| {
            let mut said = said.iter().map(|s| s.to_string());
            with_attempts(limit, |_| (), || said.next().context("asked too often")).unwrap()
        };
        assert_eq!(tried(5, &["ok"]), ("ok".into(), vec![]));
        assert_eq!(tried(5, &[busy, busy, "ok"]), ("ok".into(), vec![busy.to_string(); 2]));
        assert_eq!(tried(3, &[busy; 3]), (busy.into(), vec![busy.to_string(); 2]));
        // Failures that another attempt would not mend, and a limit of one attempt.
        let wrong = "failed: load.json: the sender used `cubic`, not `bbr`";
        assert_eq!(tried(5, &[wrong]), (wrong.into(), vec![]));
        assert_eq!(tried(5, &["disturbed: packets left late"]).1.len(), 0);
        assert_eq!(tried(1, &[busy]), (busy.into(), vec![]));
        let late = "failed: iperf3 did not end 20 s after its time was up";
        assert_eq!(tried(5, &[late, "ok"]).1, [late]);
        let stuck = "failed: Linux 6.12 in the lab: the guest did nothing for 30 s";
        assert_eq!(tried(2, &[stuck, "ok"]).1, [stuck]);
    }
}
