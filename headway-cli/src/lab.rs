//! The lab: one cell inside a distribution's own kernel, which QEMU runs in virtual time.
//!
//! The guest's single CPU executes one instruction each nanosecond of the guest's clock (`-icount`), and time in
//! which it is idle is skipped. What the guest measures therefore depends on the cell, its seed and what `env.json` names,
//! not on how busy the host is and not on what else the plan holds: the same cell gives the same bytes on every run. The
//! guest's first process is this very program ([`guest`]), which runs the cell with the code of `--in here`.
//!
//! ```text
//! Kernel::find ─► initramfs (once per process) ─┐
//! cell ─► job in the guest's memory ────────────┴─► qemu ─► answer in the guest's memory ─► raw files
//! ```
//!
//! This file runs one cell: lay down the job, boot, wait, read the answer. [`mod@kernels`] finds the kernels, [`arch`]
//! knows the emulated machine, [`emulator`] starts and watches QEMU. Nothing is written outside the destination
//! folder: the kernel's image, the initramfs and the guest's memory are memory files, and QEMU dies with this
//! process. Called by `bench` for the cells of `--in lab`.

mod arch;
mod control;
mod emulator;
pub mod guest;
mod image;
mod initramfs;
mod job;
mod kernels;
mod mailbox;

pub use initramfs::Content;
pub use job::Commands;
pub use kernels::{Kernel, is_file, kernels};

use crate::lab::job::{Job, SAID};
use crate::plan::wire::Nic;
use crate::plan::{Cell, Label, Plan};
use crate::raw::cell::CellResult;
use crate::sys::lab::memory_file;
use crate::sys::program::find_program;
use anyhow::{Context, Result, anyhow, bail};
use control::Control;
use emulator::{Guest, Seat, start, watch};
use headway_kernel::Check;
use std::path::Path;
use std::time::Duration;

/// Congestion controls that every kernel of the lab has, built in or as a module that the guest loads.
pub const BUILT_IN: [&str; 3] = ["bbr", "cubic", "reno"];

/// How many lines of the guest's console an error message shows.
const CONSOLE_LINES: usize = 20;

/// When a guest counts as hung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// CPU time of the emulator, which does not depend on how busy the host is.
    pub cpu: Duration,
    /// Wall time in which the emulator used no CPU time at all.
    pub idle: Duration,
}

impl Limits {
    /// Generous on purpose, because fast paths and many streams take more: a cell of 12 s at 100 Mbit/s takes 20 s of
    /// CPU time after its boot.
    pub fn for_cell(plan: &Plan, cell: &Cell) -> Self {
        let load_s = u64::from(plan.traffic(cell.path).seconds);
        Self { cpu: Duration::from_secs(120 + 60 * load_s), idle: Duration::from_secs(30) }
    }
}

/// Runs one cell in a guest of its own and fills the empty folder `dest` with the raw files.
///
/// When the guest dies or hangs, the error says so with the end of its console; when it reports a failure, with what it
/// reports. `dest` then holds `console.txt`. Cells may run at the same time in several threads.
pub fn run_cell(kernel: &Kernel, plan: &Plan, cell: &Cell, dest: &Path, limits: Limits) -> Result<()> {
    run_job(kernel, &Job::of_cell(plan, cell), cell.seed, dest, limits)?;
    CellResult::read(dest)?.of(plan, cell).write(dest)
}

/// Whether the kernel takes the settings of these candidates and drives these network cards, found out in one guest for each kind of card.
pub fn try_settings(kernel: &Kernel, ccs: Vec<Label>, nic: Option<Nic>) -> Result<()> {
    let limits = Limits { cpu: Duration::from_secs(120), idle: Duration::from_secs(30) };
    in_scratch(|dest| run_job(kernel, &Job::Try(ccs, nic), 1, dest, limits).map(drop))
}

/// Runs commands in a guest, for trying out what a kernel does; what they printed, with their exit codes.
pub fn run_commands(kernel: &Kernel, commands: Commands) -> Result<String> {
    let cpu = Duration::from_secs(if commands.is_tickless { 1800 } else { 600 });
    let limits = Limits { cpu, idle: Duration::from_secs(30) };
    in_scratch(|dest| {
        let counts = run_job(kernel, &Job::Commands(commands), 1, dest, limits)?;
        let mut said = std::fs::read_to_string(dest.join(SAID))?;
        for between in counts.windows(2) {
            said += &format!("counted {} instructions\n", between[1] - between[0]);
        }
        Ok(said)
    })
}

/// Does some work with a folder that is gone afterwards.
fn in_scratch<T>(work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let dest = std::env::temp_dir().join(format!("headway-lab-{}", std::process::id()));
    std::fs::create_dir_all(&dest).context("cannot make a scratch folder")?;
    let done = work(&dest);
    let _ = std::fs::remove_dir_all(&dest);
    done
}

/// Whether a cell failed because QEMU stood still, which says nothing about the guest: on a busy host it happens to
/// one cell in some hundreds, and the cell is worth another try.
pub fn is_stuck(error: &str) -> bool {
    error.contains(emulator::STUCK)
}

/// Runs a job in a guest, and returns how many instructions the guest had executed at each moment that it marked.
fn run_job(kernel: &Kernel, job: &Job, seed: u64, dest: &Path, limits: Limits) -> Result<Vec<u64>> {
    let memory = memory_file("headway-guest", arch::MEMORY_MIB << 20)?;
    mailbox::put_job(&memory, &serde_json::to_vec(job)?)?;
    let seat = Seat::take();
    let Guest { child, console, control } = start(kernel, &memory, seed, seat.as_ref(), job)?;
    let (end, console) = watch(child, console, limits)?;
    let counts = control.map(Control::counts).unwrap_or_default();
    let answer = mailbox::answer(&memory)?;
    let is_answered = answer.is_some();
    let outcome = match (answer, end) {
        (Some(answer), _) => {
            write_files(dest, &answer.files)?;
            if answer.status == "ok" { Ok(()) } else { Err(anyhow!("{}", answer.status)) }
        }
        (None, Some(reason)) => Err(anyhow!("the guest {reason}")),
        (None, None) => Err(anyhow!("the guest died")),
    };
    outcome.map(|()| counts).or_else(|error| {
        write_file(dest, "console.txt", &console)?;
        let told = format!("Linux {} in the lab: {error:#}", kernel.version);
        // A guest that says itself what failed has said it all, unless its kernel is in trouble.
        if is_answered && !is_troubled(&console) {
            bail!("{told}");
        }
        let tail = telling_lines(&console, CONSOLE_LINES);
        bail!("{told}\nthe end of its console:\n{tail}")
    })
}

/// What a run in the lab depends on, for `env.json`: the same on every machine with the same versions.
pub fn env(kernel: &Kernel) -> Result<serde_json::Value> {
    Ok(serde_json::json!({
        "kernel": kernel.version,
        "emulator": emulator::version(&kernel.clock)?,
        "icount_shift": arch::ICOUNT_SHIFT,
        "memory_mib": arch::MEMORY_MIB,
        "clock_base": arch::CLOCK_BASE,
        "machine": arch::machine_arguments(None),
        "command_line": arch::command_line(false),
    }))
}

/// The emulator's arguments for a guest with these cards, for `env.json`; `env` has those of a guest without.
pub fn machine_with(nic: Nic) -> Vec<String> {
    arch::machine_arguments(Some(nic))
}

/// What running cells in the lab needs of this machine.
pub fn check() -> Vec<Check> {
    let program = |name: &str, package: &str| {
        let found = find_program(name).is_some();
        Check::required(name, found, format!("apt-get install {package}"))
    };
    let names = kernels::versions();
    let kernels = if names.is_empty() { "a kernel".into() } else { format!("kernels: {}", names.join(", ")) };
    vec![
        Check::required("an x86-64 machine", cfg!(target_arch = "x86_64"), "use --in sim or --in here"),
        program(arch::EMULATOR, "qemu-system-x86"),
        program("zstd", "zstd"),
        program("xz", "xz-utils"),
        Check::required(kernels, !names.is_empty(), "headway kernel fetch"),
    ]
}

fn write_files(dest: &Path, files: &[(String, Vec<u8>)]) -> Result<()> {
    files.iter().try_for_each(|(name, content)| write_file(dest, name, content))
}

fn write_file(dest: &Path, name: &str, content: &[u8]) -> Result<()> {
    let path = dest.join(name);
    std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
}

const TROUBLE: &[&str] = &["Kernel panic", "BUG:", "Oops", "Out of memory", "panicked at"];

fn is_trouble(line: &str) -> bool {
    TROUBLE.iter().any(|word| line.contains(word))
}

fn is_troubled(console: &[u8]) -> bool {
    String::from_utf8_lossy(console).lines().any(is_trouble)
}

/// The last lines of a console. When the kernel panicked, the lines around the one that gives the reason instead,
/// because registers and a stack follow it.
fn telling_lines(console: &[u8], count: usize) -> String {
    let text = String::from_utf8_lossy(console);
    let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let trouble = lines.iter().position(|line| is_trouble(line));
    let last = lines.len().saturating_sub(count);
    let from = trouble.map_or(last, |at| at.saturating_sub(count / 4).min(last));
    lines[from..].iter().take(count).map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_shows_its_last_lines() {
        assert_eq!(telling_lines(b"boot\r\nlast words\r\n", 1), "  last words\n");
        assert_eq!(telling_lines(b"a\nb\n\nc", 2), "  b\n  c\n");
    }

    #[test]
    fn of_a_panic_the_reason_is_shown_and_not_the_registers() {
        let console = format!("boot\nstart\nKernel panic - not syncing\n{}", "R08: 0\n".repeat(50));
        assert_eq!(
            telling_lines(console.as_bytes(), 4),
            "  start\n  Kernel panic - not syncing\n  R08: 0\n  R08: 0\n"
        );
    }

    #[test]
    fn the_mailbox_lies_inside_the_guests_memory() {
        const { assert!(mailbox::ADDRESS + mailbox::BYTES < arch::MEMORY_MIB << 20) };
        assert!(arch::command_line(false).contains("memmap=128M$128M"));
        assert!(arch::command_line(false).ends_with("-- lab-guest"));
    }
}
