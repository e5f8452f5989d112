//! The lab: a cell inside a stock distribution kernel under QEMU, in virtual time.
//!
//! One virtual CPU executes one instruction every 2^shift nanoseconds of the guest's clock (`-icount`), and idle
//! time costs nothing. What the guest measures therefore depends on the plan and the seed alone, not on how busy
//! the host is: the same cell gives the same bytes on every run. The guest's first process is this very program
//! ([`crate::lab::guest`]), which runs the cell with the code of `--in here`.
//!
//! ```text
//! Kernel::find ─► initramfs (once per process) ─┐
//! cell ─► job in the guest's memory ────────────┴─► qemu ─► answer in the guest's memory ─► raw files
//! ```
//!
//! Nothing is written outside the destination folder: kernel image, initramfs and the guest's memory are memory
//! files, and the emulator dies with this process.

pub mod guest;
mod image;
pub mod initramfs;
pub mod mailbox;

use crate::lab::guest::Job;
use crate::plan::{Cell, Plan};
use crate::sys::program::find_program;
use crate::sys::{lab as sys, process, sched};
use anyhow::{Context, Result, anyhow, bail, ensure};
use headway_kernel::need::Check;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{PipeReader, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

const EMULATOR: &str = "qemu-system-x86_64";

/// The guest's memory; the mailbox lies inside. Only what the guest touches costs memory on the host.
const MEMORY_MIB: u64 = 768;

/// How much of the console is kept, and how much of that an error shows.
const CONSOLE_BYTES: usize = 32 << 10;
const CONSOLE_LINES: usize = 20;

/// One instruction takes 2^shift nanoseconds of virtual time. Idle time is free, so a faster guest costs no more:
/// measured at 50 Mbit/s, shift 0 takes as long as shift 2 and handles a packet in 7 µs instead of 26.
const ICOUNT_SHIFT: u32 = 0;

/// The guest's clock starts here, on every run.
const CLOCK_BASE: &str = "2020-01-01T00:00:00";

/// Stands in for the host's time of day, which QEMU lets the guest feel (`lab/clock.c` says how).
static CLOCK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

/// What the kernel is told, besides the mailbox. Most of it saves work that a guest of a few virtual seconds has
/// no use for; none of it touches TCP.
const COMMAND_LINE: &[&str] = &[
    "console=ttyS0 quiet",
    // A guest that goes wrong ends, and says why on the console.
    "panic=-1 oops=panic reboot=t",
    // Nothing random but the seed.
    "nokaslr random.trust_cpu=0 random.trust_bootloader=0",
    // The network's thread waits for nothing: kernel work of milliseconds must not show up as queueing delay.
    "preempt=full transparent_hugepage=never",
    // The virtual CPU's time-stamp counter runs at exactly 1 GHz.
    "tsc=reliable tsc_early_khz=1000000",
    // Cheaper timers: going idle happens after every packet, and stopping the tick costs more than ticking.
    // Every access to a port leaves the translated code, so none is made for the sake of a delay.
    "nohz=off cpuidle.off=1 io_delay=none",
    // No work for security, self-tests and watchdogs at boot and on every packet.
    "mitigations=off init_on_alloc=0 hardened_usercopy=off lsm= audit=0 nowatchdog cryptomgr.notests",
    "initcall_blacklist=load_system_certificate_list,jent_mod_init,init_kprobe_trace,bpf_dummy_struct_ops_init,init_blk_tracer",
];

/// A kernel to boot, with everything that all its guests share.
#[derive(Debug)]
pub struct Kernel {
    pub version: String,
    image: File,
    initramfs: File,
    clock: File,
}

impl Kernel {
    /// `spec`: a kernel file, the beginning of a version (`6.1`), or nothing for the newest kernel there is.
    /// `modules`: the directory of its modules; needed with a file that has none beside it.
    /// `tools`: programs of this machine that commands in the guest may start.
    pub fn find(spec: Option<&str>, modules: Option<&Path>, tools: &[&str]) -> Result<Self> {
        let (file, found_modules) = match spec {
            Some(path) if path.contains('/') || Path::new(path).is_file() => {
                let file = PathBuf::from(path);
                let beside = file.with_file_name("modules");
                (file, Some(beside).filter(|dir| dir.is_dir()))
            }
            version => choose(&installed(), version)?,
        };
        let packed =
            std::fs::read(&file).with_context(|| format!("cannot read the kernel {}", file.display()))?;
        let image =
            image::unpack(packed).with_context(|| format!("cannot use the kernel {}", file.display()))?;
        let version = image::version(&image).context("the kernel file holds no version")?;
        let initramfs = initramfs::build(modules.or(found_modules.as_deref()), tools)?;
        Ok(Self {
            version,
            image: filled("headway-kernel", &image)?,
            initramfs: filled("headway-initramfs", &initramfs)?,
            clock: filled("headway-clock", CLOCK)?,
        })
    }
}

/// When a guest counts as hung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// CPU time of the emulator: independent of how busy the host is.
    pub cpu: Duration,
    /// Wall time without any CPU time.
    pub idle: Duration,
}

impl Limits {
    pub fn for_cell(plan: &Plan, cell: &Cell) -> Self {
        let load_s = u64::from(plan.traffic(cell.path).seconds);
        Self { cpu: Duration::from_secs(120 + 60 * load_s), idle: Duration::from_secs(30) }
    }
}

/// Runs one cell in a guest of its own and fills the empty folder `dest` with the raw files.
///
/// When the guest dies, hangs or reports a failure, the error says so with the end of its console, and `dest`
/// holds `console.txt`. Cells may run at the same time in several threads.
pub fn run_cell(kernel: &Kernel, plan: &Plan, cell: &Cell, dest: &Path, limits: Limits) -> Result<()> {
    // The guest has no use for the other cells, of which a suite has thousands.
    let plan = Plan { cells: Vec::new(), ..plan.clone() };
    let job = Job::Cell { plan: Box::new(plan), cell: cell.clone() };
    run_job(kernel, &job, cell.seed, dest, limits)
}

/// Runs commands in a guest, for trying out what a kernel does; what they printed, with their exit codes.
pub fn run_commands(kernel: &Kernel, commands: Vec<String>) -> Result<String> {
    let dest = std::env::temp_dir().join(format!("headway-lab-{}", std::process::id()));
    std::fs::create_dir_all(&dest).context("cannot make a scratch folder")?;
    let limits = Limits { cpu: Duration::from_secs(600), idle: Duration::from_secs(30) };
    let done = run_job(kernel, &Job::Commands(commands), 1, &dest, limits);
    let said = done.and_then(|()| Ok(std::fs::read_to_string(dest.join(guest::SAID))?));
    let _ = std::fs::remove_dir_all(&dest);
    said
}

/// Was it the emulator that stood still, and not the guest? One cell in some hundreds on a busy host.
pub fn is_stuck(error: &str) -> bool {
    error.contains(STUCK)
}

const STUCK: &str = "did nothing for";

fn run_job(kernel: &Kernel, job: &Job, seed: u64, dest: &Path, limits: Limits) -> Result<()> {
    let memory = sys::memory_file("headway-guest", MEMORY_MIB << 20)?;
    mailbox::put_job(&memory, &serde_json::to_vec(job)?)?;
    let seat = Seat::take();
    let (guest, console) = start(kernel, &memory, seed, seat.as_ref())?;
    let (end, console) = watch(guest, console, limits)?;
    let outcome = match (mailbox::answer(&memory)?, end) {
        (Some(answer), _) => {
            write_files(dest, &answer.files)?;
            if answer.status == "ok" { Ok(()) } else { Err(anyhow!("{}", answer.status)) }
        }
        (None, Some(reason)) => Err(anyhow!("the guest {reason}")),
        (None, None) => Err(anyhow!("the guest died")),
    };
    outcome.or_else(|error| {
        write_file(dest, "console.txt", &console)?;
        let tail = telling_lines(&console, CONSOLE_LINES);
        bail!("Linux {} in the lab: {error:#}\nthe end of its console:\n{tail}", kernel.version)
    })
}

/// What a run in the lab depends on, for `env.json`: the same on every machine with the same versions.
pub fn env(kernel: &Kernel) -> Result<serde_json::Value> {
    Ok(serde_json::json!({
        "kernel": kernel.version,
        "emulator": emulator_version(&kernel.clock)?,
        "icount_shift": ICOUNT_SHIFT,
        "memory_mib": MEMORY_MIB,
        "clock_base": CLOCK_BASE,
        "machine": machine_arguments(),
        "command_line": command_line(),
    }))
}

/// What running cells in the lab needs of this machine.
pub fn check() -> Vec<Check> {
    let program = |name: &str, package: &str| {
        let found = find_program(name).is_some();
        Check::required(name, found, format!("apt-get install {package}"))
    };
    let names: Vec<_> = installed().into_iter().map(|k| k.version).collect();
    let kernels = if names.is_empty() { "a kernel".into() } else { format!("kernels: {}", names.join(", ")) };
    vec![
        Check::required("an x86-64 machine", cfg!(target_arch = "x86_64"), "use --in sim or --in here"),
        program(EMULATOR, "qemu-system-x86"),
        program("zstd", "zstd"),
        program("xz", "xz-utils"),
        Check::required(kernels, !names.is_empty(), "make lab-kernel"),
    ]
}

/// Congestion controls that every kernel of the lab has, built in or as a module it loads.
pub const BUILT_IN: [&str; 3] = ["bbr", "cubic", "reno"];

/// A kernel that was found, with its modules.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    version: String,
    file: PathBuf,
    modules: Option<PathBuf>,
}

/// Kernels that `scripts/fetch-kernel` has fetched; failing those, the ones installed on this machine.
fn installed() -> Vec<Found> {
    let fetched = cache_dir().map(|dir| listed(&dir)).unwrap_or_default();
    if !fetched.is_empty() {
        return fetched;
    }
    let boot = Path::new("/boot");
    names(boot)
        .filter_map(|name| Some(name.strip_prefix("vmlinuz-")?.to_string()))
        .map(|version| Found {
            file: boot.join(format!("vmlinuz-{version}")),
            modules: Some(Path::new("/lib/modules").join(&version)).filter(|dir| dir.is_dir()),
            version,
        })
        .filter(|found| File::open(&found.file).is_ok())
        .collect()
}

fn cache_dir() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(base.join("headway/kernels"))
}

fn listed(dir: &Path) -> Vec<Found> {
    let found = |version: String| Found {
        file: dir.join(&version).join("vmlinuz"),
        modules: Some(dir.join(&version).join("modules")),
        version,
    };
    let mut all: Vec<_> = names(dir).map(found).filter(|f| f.file.is_file()).collect();
    all.sort_by(|a, b| a.version.cmp(&b.version));
    all
}

fn names(dir: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// The newest kernel, or the newest whose version begins with `wanted`.
fn choose(kernels: &[Found], wanted: Option<&str>) -> Result<(PathBuf, Option<PathBuf>)> {
    let fits = |found: &&Found| {
        wanted.is_none_or(|w| {
            found.version.strip_prefix(w).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    if let Some(found) = kernels.iter().filter(fits).max_by_key(|found| numbers(&found.version)) {
        return Ok((found.file.clone(), found.modules.clone()));
    }
    let names: Vec<_> = kernels.iter().map(|k| k.version.as_str()).collect();
    match wanted {
        Some(wanted) if names.is_empty() => {
            bail!("there is no kernel `{wanted}` for the lab\nhint: make lab-kernel")
        }
        Some(wanted) => {
            bail!(
                "there is no kernel `{wanted}` for the lab, only {}\nhint: scripts/fetch-kernel SUITE fetches another",
                names.join(", ")
            )
        }
        None => bail!("there is no kernel for the lab\nhint: make lab-kernel"),
    }
}

/// `6.12.107+deb13` → [6, 12, 107, 13]: the order of versions.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

fn filled(name: &str, content: &[u8]) -> Result<File> {
    let mut file = sys::memory_file(name, 0)?;
    file.write_all(content).context("cannot fill a memory file")?;
    Ok(file)
}

/// Every flag that shapes what the guest sees, apart from files and the seed.
fn machine_arguments() -> Vec<String> {
    // "Recording" makes the emulator's two threads exclude each other. Without it the main thread may move the clock on
    // while the guest's last instructions are not counted yet: on a busy host every few cells were not the same again.
    let icount = format!("shift={ICOUNT_SHIFT},sleep=off,rr=record,rrfile=/dev/null");
    let clock = format!("clock=vm,base={CLOCK_BASE}");
    let memory = format!("{MEMORY_MIB}M");
    [
        // The smallest machine: no PCI, no ACPI, no firmware worth the name.
        "-M",
        "microvm,acpi=off,x-option-roms=off,memory-backend=ram",
        "-no-user-config",
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
        "-smp",
        "1",
        "-m",
        &memory,
        // Virtual time: instructions are the clock, and idle time is skipped.
        "-accel",
        "tcg,thread=single",
        "-icount",
        &icount,
        "-rtc",
        &clock,
        // No hardware randomness; cmpxchg16b corrupts the flags now and then in QEMU 7.2. Without the "fast"
        // string moves the kernel copies eight bytes a step; with them the emulator goes byte by byte.
        "-cpu",
        "max,-rdrand,-rdseed,-cx16,-erms,-fsrm",
    ]
    .map(str::to_string)
    .into()
}

fn command_line() -> String {
    let mailbox = format!("memmap={}M${}M", mailbox::BYTES >> 20, mailbox::ADDRESS >> 20);
    format!("{} {mailbox} -- {}", COMMAND_LINE.join(" "), guest::ARGUMENT)
}

/// The CPU that a guest runs on, until dropped; shared only when there are more guests than CPUs.
///
/// The emulator's two threads hand over to each other at every idle moment of the guest. On one CPU that is a
/// context switch; across two it wakes an idle CPU each time.
#[derive(Debug)]
struct Seat {
    cpu: usize,
}

/// How many guests sit on each CPU.
static SEATS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

impl Seat {
    /// `None` when this process cannot tell which CPUs it may use.
    fn take() -> Option<Self> {
        let mut seats = SEATS.lock().unwrap_or_else(PoisonError::into_inner);
        let cpu = sched::allowed_cpus().into_iter().min_by_key(|cpu| seats.get(cpu).copied())?;
        *seats.entry(cpu).or_default() += 1;
        Some(Self { cpu })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = SEATS.lock().unwrap_or_else(PoisonError::into_inner);
        match seats.get_mut(&self.cpu) {
            Some(count @ 2..) => *count -= 1,
            _ => drop(seats.remove(&self.cpu)),
        }
    }
}

/// Where another process opens a memory file of ours: through us, so that it inherits none.
fn shown(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

fn emulator(clock: &File) -> Command {
    let mut command = Command::new(EMULATOR);
    command.env("LD_PRELOAD", shown(clock));
    command
}

/// Starts the emulator; both its own messages and the guest's console come out of one pipe.
fn start(kernel: &Kernel, memory: &File, seed: u64, seat: Option<&Seat>) -> Result<(Child, PipeReader)> {
    let (reader, writer) = std::io::pipe().context("cannot create a pipe")?;
    let backend =
        format!("memory-backend-file,id=ram,size={MEMORY_MIB}M,share=on,mem-path={}", shown(memory));
    let mut command = emulator(&kernel.clock);
    command
        .args(machine_arguments())
        .args(["-object", &backend])
        .args(["-seed", &(seed as u32).to_string()])
        .args(["-kernel", &shown(&kernel.image)])
        .args(["-initrd", &shown(&kernel.initramfs)])
        .args(["-append", &command_line()])
        .args(["-serial", "stdio"])
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("cannot create a pipe")?)
        .stderr(writer);
    if let Some(seat) = seat {
        sched::confine_to_cpu(&mut command, seat.cpu);
    }
    let child = process::die_with_parent(&mut command).spawn();
    let child =
        child.with_context(|| format!("cannot start {EMULATOR}\nhint: apt-get install qemu-system-x86"))?;
    Ok((child, reader))
}

/// Waits for the guest's end. Gives the reason if it had to be killed, and the end of the console.
fn watch(mut guest: Child, console: PipeReader, limits: Limits) -> Result<(Option<String>, Vec<u8>)> {
    let (ended, end) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let tail = read_tail(console);
        let _ = ended.send(()); // nobody listens any more when the guest was killed
        tail
    });
    let mut progress = (Duration::ZERO, Instant::now());
    let mut reason = None;
    while let Err(mpsc::RecvTimeoutError::Timeout) = end.recv_timeout(Duration::from_millis(500)) {
        let cpu = cpu_time(guest.id()).unwrap_or_default();
        if cpu > progress.0 {
            progress = (cpu, Instant::now());
        }
        if cpu > limits.cpu {
            reason = Some(format!("did not end within {} s of CPU time", limits.cpu.as_secs()));
        } else if progress.1.elapsed() > limits.idle {
            reason = Some(format!("{STUCK} {} s", limits.idle.as_secs()));
        }
        if reason.is_some() {
            guest.kill().context("cannot end the emulator")?;
        }
    }
    let status = guest.wait().context("cannot wait for the emulator")?;
    if reason.is_none() && !status.success() {
        reason = Some(format!("was lost: the emulator ended with {status}"));
    }
    let console = reader.join().map_err(|_| anyhow!("the console's reader failed"))?;
    Ok((reason, console))
}

/// Reads to the end and keeps the last part.
fn read_tail(mut from: impl Read) -> Vec<u8> {
    let mut tail = VecDeque::with_capacity(CONSOLE_BYTES);
    let mut chunk = [0; 4096];
    // An error means the same as the end: nothing more will come.
    while let Ok(n @ 1..) = from.read(&mut chunk) {
        tail.extend(&chunk[..n]);
        tail.drain(..tail.len().saturating_sub(CONSOLE_BYTES));
    }
    tail.into()
}

/// CPU time of a process, all its threads included.
fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command in parentheses may hold anything; utime and stime are the 12th and 13th word after it.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = words.next()?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / sys::clock_ticks_per_s()))
}

/// The emulator's version. Fails if it does not take the clock: nothing would be the same again.
fn emulator_version(clock: &File) -> Result<String> {
    let output = emulator(clock)
        .arg("--version")
        .output()
        .with_context(|| format!("cannot run {EMULATOR}\nhint: apt-get install qemu-system-x86"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(!complaint.contains("LD_PRELOAD"), "{EMULATOR} must see another clock, but {}", complaint.trim());
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_string())
}

fn write_files(dest: &Path, files: &[(String, Vec<u8>)]) -> Result<()> {
    files.iter().try_for_each(|(name, content)| write_file(dest, name, content))
}

fn write_file(dest: &Path, name: &str, content: &[u8]) -> Result<()> {
    let path = dest.join(name);
    std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// The last lines of a console; when the kernel oopsed, the lines around the place where it says why.
fn telling_lines(console: &[u8], count: usize) -> String {
    const TROUBLE: &[&str] = &["Kernel panic", "BUG:", "Oops", "Out of memory", "panicked at"];
    let text = String::from_utf8_lossy(console);
    let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let trouble = lines.iter().position(|line| TROUBLE.iter().any(|word| line.contains(word)));
    let last = lines.len().saturating_sub(count);
    let from = trouble.map_or(last, |at| at.saturating_sub(count / 4).min(last));
    lines[from..].iter().take(count).map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(version: &str) -> Found {
        Found { version: version.into(), file: version.into(), modules: None }
    }

    fn chosen(wanted: Option<&str>) -> Result<String> {
        let kernels = [found("6.1.0-49-cloud-amd64"), found("6.12.107+deb13-cloud-amd64"), found("6.9.1")];
        choose(&kernels, wanted).map(|(file, _)| file.display().to_string())
    }

    #[test]
    fn the_newest_kernel_is_chosen_by_numbers_not_letters() {
        assert_eq!(chosen(None).unwrap(), "6.12.107+deb13-cloud-amd64");
    }

    #[test]
    fn a_version_prefix_ends_at_a_number() {
        assert_eq!(chosen(Some("6.1")).unwrap(), "6.1.0-49-cloud-amd64");
        assert_eq!(chosen(Some("6.9.1")).unwrap(), "6.9.1");
    }

    #[test]
    fn a_missing_kernel_is_named_with_what_there_is() {
        let error = chosen(Some("5.4")).unwrap_err().to_string();
        assert!(error.contains("`5.4`") && error.contains("6.9.1") && error.contains("hint: "), "{error}");
        assert!(choose(&[], None).unwrap_err().to_string().contains("make lab-kernel"));
    }

    #[test]
    fn the_console_is_kept_from_the_end() {
        let long = [vec![b'x'; 2 * CONSOLE_BYTES], b"\r\nlast words\r\n".to_vec()].concat();
        let tail = read_tail(long.as_slice());
        assert_eq!(tail.len(), CONSOLE_BYTES);
        assert_eq!(telling_lines(&tail, 1), "  last words\n");
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
    fn a_child_that_does_nothing_is_ended() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = Command::new("sleep");
        command.arg("600").stdout(writer);
        let child = process::die_with_parent(&mut command).spawn().unwrap();
        drop(command); // holds the other end of the pipe
        let limits = Limits { cpu: Duration::from_secs(60), idle: Duration::ZERO };
        let (reason, console) = watch(child, reader, limits).unwrap();
        assert_eq!(reason.as_deref(), Some("did nothing for 0 s"));
        assert!(console.is_empty());
    }

    #[test]
    fn a_lost_emulator_is_told_from_one_that_ended() {
        let run = |script: &str| {
            let (reader, writer) = std::io::pipe().unwrap();
            let mut command = Command::new("sh");
            let child = command.args(["-c", script]).stdout(writer).spawn().unwrap();
            drop(command);
            watch(child, reader, Limits { cpu: Duration::from_secs(60), idle: Duration::from_secs(60) })
                .unwrap()
        };
        assert_eq!(run("echo bye"), (None, b"bye\n".to_vec()));
        assert!(run("kill -9 $$").0.unwrap().contains("signal: 9"));
    }

    #[test]
    fn guests_spread_over_the_cpus() {
        let cpus = sched::allowed_cpus();
        let mut seats: Vec<_> = (0..2 * cpus.len()).map_while(|_| Seat::take()).collect();
        let on = |seats: &[Seat], cpu| seats.iter().filter(|seat| seat.cpu == cpu).count();
        assert!(cpus.iter().all(|&cpu| on(&seats, cpu) == 2), "{seats:?}");
        let left = seats.swap_remove(0).cpu;
        assert_eq!(Seat::take().map(|seat| seat.cpu), Some(left));
        drop(seats);
        assert!(SEATS.lock().unwrap().is_empty());
    }

    #[test]
    fn cpu_time_of_this_process_is_known() {
        assert!(cpu_time(std::process::id()).is_some());
        assert!(cpu_time(u32::MAX).is_none());
    }

    #[test]
    fn the_mailbox_lies_inside_the_guests_memory() {
        const { assert!(mailbox::ADDRESS + mailbox::BYTES < MEMORY_MIB << 20) };
        assert!(command_line().contains("memmap=128M$128M"));
        assert!(command_line().ends_with("-- lab-guest"));
    }
}
