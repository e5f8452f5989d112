//! How busy the CPUs were during a cell, because a load may be limited by a CPU and not by the path. It also keeps
//! the CPUs busy on purpose where that is a condition of the cell (`--cpu-load`). `cell` calls this.
//!
//! `cpu.txt` has one row for each CPU of an end, `side cpu busy_percent`, over the time of the load.

use crate::raw::load::Load;
use crate::sys;
use crate::sys::program::find_program;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A core that is at least this busy counts as full: the load may have been limited by it and not by the path.
const FULL_PERCENT: f64 = 95.0;
/// Work on purpose comes in turns of this length: busy for its share of the turn, and idle for the rest.
const TURN: Duration = Duration::from_millis(10);

/// A CPU's number and its counters since boot, in ticks: those in which it was busy, and all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    cpu: usize,
    busy: u64,
    all: u64,
}

/// Reads the rows `cpuN` of a `/proc/stat`.
pub fn ticks(stat: &str) -> Vec<Ticks> {
    let row = |line: &str| {
        let (cpu, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
        // The columns are user, nice, system, idle, iowait, irq, softirq and steal. The two after them are guest
        // time, which is in user and nice time already.
        let words: Vec<u64> = rest.split_whitespace().take(8).map_while(|w| w.parse().ok()).collect();
        let all: u64 = words.iter().sum();
        let idle = words.get(3)? + words.get(4)?;
        Some(Ticks { cpu: cpu.parse().ok()?, busy: all - idle, all })
    };
    stat.lines().filter_map(row).collect()
}

/// The counters of this machine's CPUs now.
pub fn now() -> Vec<Ticks> {
    ticks(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// How busy each CPU was between `before` and `after`, in percent. A CPU that came or went in between is left out.
pub fn busy(before: &[Ticks], after: &[Ticks]) -> Vec<(usize, f64)> {
    let percent = |b: &Ticks| {
        let a = after.iter().find(|a| a.cpu == b.cpu)?;
        let all = a.all.checked_sub(b.all).filter(|all| *all > 0)?;
        Some((b.cpu, 100.0 * a.busy.saturating_sub(b.busy) as f64 / all as f64))
    };
    before.iter().filter_map(percent).collect()
}

/// The note for an end where a core was full. There is none where the cores were kept busy on purpose (`--cpu-load`).
pub fn note(side: &str, cpus: &[(usize, f64)], forced_percent: u32) -> Option<String> {
    let is_full = cpus.iter().any(|(_, percent)| *percent >= FULL_PERCENT);
    (is_full && forced_percent == 0).then(|| format!("{side} CPU limited: a core was at least 95 % busy"))
}

/// The note for an end that only its iperf3 tells of, as the CPU time of the whole process. Since version 3.16 iperf3
/// has one thread for each stream, before that one thread in all, so that a full core is a different percentage.
pub fn process_note(side: &str, load: &Load, streams: u32) -> Option<String> {
    let percent = if side == "sender" { load.sender_cpu_percent } else { load.receiver_cpu_percent }?;
    let version = load.version.strip_prefix("iperf ").unwrap_or_default();
    let minor = version.strip_prefix("3.").and_then(|v| v.split(['.', '+', '-']).next()?.parse().ok());
    let threads = if minor.is_some_and(|minor: u32| minor >= 16) { streams } else { 1 };
    (percent / f64::from(threads) >= FULL_PERCENT)
        .then(|| format!("{side} CPU limited: its iperf3 used at least 95 % of a core"))
}

/// Watches this machine's CPUs during a load, with turbostat beside it where that is installed.
#[derive(Debug)]
pub struct Watch {
    before: Vec<Ticks>,
    turbostat: Option<Turbostat>,
}

impl Watch {
    pub fn start(seconds: u32, dir: &Path) -> Self {
        Self { turbostat: Turbostat::start(seconds, dir), before: now() }
    }

    /// Stops watching and returns how busy each CPU was since the start, in percent.
    pub fn stop(self) -> Vec<(usize, f64)> {
        drop(self.turbostat);
        busy(&self.before, &now())
    }
}

/// A turbostat that writes clock frequency, interrupts, temperature and power once a second to `turbostat.txt`, in
/// its own format.
#[derive(Debug)]
struct Turbostat(Child);

impl Turbostat {
    /// Starts turbostat; `None` where it is not installed. It ends by itself when the load should have ended, at the
    /// latest.
    fn start(seconds: u32, dir: &Path) -> Option<Self> {
        let show = "Busy%,Bzy_MHz,IRQ,CoreTmp,PkgWatt";
        let mut command = Command::new(find_program("turbostat")?);
        command.args(["--quiet", "--Summary", "--show", show, "--interval", "1", "--num_iterations"]);
        command.arg(seconds.to_string()).arg("--out").arg(dir.join("turbostat.txt"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        sys::process::die_with_parent(&mut command).spawn().ok().map(Self)
    }
}

impl Drop for Turbostat {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A busy thread on every CPU that this process may use. Dropping it ends the threads.
#[derive(Debug)]
pub struct Forced {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Forced {
    /// Keeps each CPU busy for `percent` of the time, at normal priority; 0 starts nothing.
    pub fn start(percent: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let cpus = if percent == 0 { Vec::new() } else { sys::sched::allowed_cpus() };
        let worker = |cpu: usize| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || work(cpu, percent, &stop))
        };
        let threads = cpus.into_iter().map(worker).collect();
        Self { stop, threads }
    }
}

impl Drop for Forced {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(cpu: usize, percent: u32, stop: &AtomicBool) {
    let mut own = CpuSet::new();
    own.set(cpu);
    // Without this the scheduler spreads the threads, which comes to the same, because there are as many threads as
    // CPUs.
    let _ = sched_setaffinity(None::<Pid>, &own);
    let busy = TURN.mul_f64(f64::from(percent.min(100)) / 100.0);
    while !stop.load(Ordering::Relaxed) {
        let turn = Instant::now();
        // Without a hint to the CPU that it waits, at each of which the lab's emulator leaves its translated code.
        while turn.elapsed() < busy {}
        std::thread::sleep(TURN - busy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str =
        "cpu  30 0 0 170 0 0 0 0 0 0\ncpu0 10 0 0 90 0 0 0 0 5 0\ncpu1 20 0 0 80 0 0 0 0 0 0\nintr 5\n";
    const AFTER: &str = "cpu  0 0 0 0\ncpu0 60 10 10 95 5 5 5 5 9 0\ncpu1 20 0 0 180 0 0 0 0 0 0\nintr 6\n";

    #[test]
    fn a_core_is_busy_when_it_is_neither_idle_nor_waiting_for_a_disk() {
        let cpus = busy(&ticks(BEFORE), &ticks(AFTER));
        // cpu0: 95 more ticks, 5 idle and 5 waiting.
        assert_eq!(cpus.iter().map(|(n, p)| (*n, (p * 10.0) as u32)).collect::<Vec<_>>(), [(0, 894), (1, 0)]);
        assert_eq!(busy(&ticks(BEFORE), &ticks(BEFORE)), []);
        assert_eq!(busy(&ticks(BEFORE), &ticks("cpu0 1\n")), [], "a CPU that went away");
    }

    #[test]
    fn an_end_is_limited_by_its_fullest_core() {
        let cpus = [(0, 20.0), (1, 95.0)];
        assert!(note("receiver", &cpus, 0).is_some_and(|n| n.starts_with("receiver CPU limited")));
        assert_eq!((note("sender", &cpus, 50), note("sender", &cpus[..1], 0)), (None, None));
    }

    #[test]
    fn threads_share_what_iperf3_used() {
        let load = |version: &str| Load {
            version: version.into(),
            receiver_cpu_percent: Some(190.0),
            sender_cpu_percent: Some(10.0),
            ..Load::default()
        };
        let is_limited = |version, streams| process_note("receiver", &load(version), streams).is_some();
        assert!(is_limited("iperf 3.12", 8) && is_limited("iperf 3.16", 2) && is_limited("iperf 3.21+", 1));
        assert!(!is_limited("iperf 3.16", 4) && process_note("sender", &load("iperf 3.12"), 1).is_none());
        assert_eq!(process_note("receiver", &Load::default(), 1), None);
    }

    #[test]
    fn forced_work_uses_cpu_time_and_ends() {
        let used = || rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let before = used();
        let forced = Forced::start(100);
        assert!(!forced.threads.is_empty());
        // The clock counts CPU time, so the test waits for work that was done and not for a time that a busy machine
        // stretches.
        while used().tv_sec * 1000 + used().tv_nsec / 1_000_000
            - before.tv_sec * 1000
            - before.tv_nsec / 1_000_000
            < 50
        {
            std::thread::sleep(TURN);
        }
        drop(forced);
        assert!(Forced::start(0).threads.is_empty());
    }
}
