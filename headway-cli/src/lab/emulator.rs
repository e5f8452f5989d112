//! QEMU as a process: starting a guest, choosing its CPU, and waiting for its end or for the signs that it hangs.

use super::control::{self, Control};
use super::job::Job;
use super::{Kernel, Limits, arch};
use crate::sys::{lab::clock_ticks_per_s, process, sched};
use anyhow::{Context, Result, anyhow, ensure};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{PipeReader, Read};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How much of the end of the console is kept.
const CONSOLE_BYTES: usize = 32 << 10;

/// How often a guest's CPU time is looked at.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// The words of an error by which [`super::is_stuck`] knows an emulator that stood still.
pub const STUCK: &str = "did nothing for";

/// The CPU that a guest runs on, until dropped; shared only when there are more guests than CPUs.
///
/// The emulator's two threads hand over to each other at every idle moment of the guest. On one CPU that is a
/// context switch; across two it wakes an idle CPU each time.
#[derive(Debug)]
pub struct Seat {
    cpu: usize,
}

/// The guests of a CPU: how many are ours, and a name by which other processes of this program see that it is taken. The
/// kernel forgets the name when this process ends, however it does. `None` where another one has it.
#[derive(Debug)]
struct Taken {
    guests: usize,
    _name: Option<UnixDatagram>,
}

static SEATS: Mutex<BTreeMap<usize, Taken>> = Mutex::new(BTreeMap::new());

/// Takes the name of a CPU, unless somebody has it.
fn take_name(cpu: usize) -> Option<UnixDatagram> {
    let address = SocketAddr::from_abstract_name(format!("headway-guest-on-cpu-{cpu}")).ok()?;
    UnixDatagram::bind_addr(&address).ok()
}

impl Seat {
    /// A CPU with as few guests of ours as any, and of those one that no other process of this program uses. `None` when this
    /// process cannot tell which CPUs it may use.
    pub fn take() -> Option<Self> {
        let mut seats = SEATS.lock().unwrap_or_else(PoisonError::into_inner);
        let guests = |cpu: &usize| seats.get(cpu).map_or(0, |taken| taken.guests);
        let cpus = sched::allowed_cpus();
        let fewest = cpus.iter().map(guests).min()?;
        let mut least = cpus.iter().copied().filter(|cpu| guests(cpu) == fewest);
        let first = least.clone().next()?;
        let (cpu, name) = least.find_map(|cpu| Some((cpu, Some(take_name(cpu)?)))).unwrap_or((first, None));
        seats.entry(cpu).or_insert(Taken { guests: 0, _name: name }).guests += 1;
        Some(Self { cpu })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = SEATS.lock().unwrap_or_else(PoisonError::into_inner);
        match seats.get_mut(&self.cpu) {
            Some(taken) if taken.guests > 1 => taken.guests -= 1,
            _ => drop(seats.remove(&self.cpu)),
        }
    }
}

/// A guest that runs.
#[derive(Debug)]
pub struct Guest {
    pub child: Child,
    /// What the emulator says itself, and the guest's console.
    pub console: PipeReader,
    /// Where the guest may mark moments.
    pub control: Option<Control>,
}

/// Starts the emulator with what the job needs; both its own messages and the guest's console come out of one pipe.
pub fn start(kernel: &Kernel, memory: &File, seed: u64, seat: Option<&Seat>, job: &Job) -> Result<Guest> {
    let (reader, writer) = std::io::pipe().context("cannot create a pipe")?;
    let backend = format!(
        "memory-backend-file,id=ram,size={}M,share=on,mem-path={}",
        arch::MEMORY_MIB,
        path_through_us(memory)
    );
    let mut command = emulator(&kernel.clock);
    command
        .args(arch::machine_arguments(job.nic()))
        .args(["-object", &backend])
        .args(["-seed", &(seed as u32).to_string()])
        .args(["-kernel", &path_through_us(&kernel.image)])
        .args(["-initrd", &path_through_us(&kernel.initramfs)])
        .args(["-append", &arch::command_line(job.is_tickless())])
        .stderr(writer.try_clone().context("cannot create a pipe")?);
    if job.may_count() {
        let console = format!("file,id=console,path={}", path_through_us(&writer));
        command.args(["-chardev", &console, "-serial", "chardev:console"]).args(control::ARGUMENTS);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
    } else {
        command.args(["-serial", "stdio"]);
        command.stdin(Stdio::null()).stdout(writer.try_clone().context("cannot create a pipe")?);
    }
    if let Some(seat) = seat {
        sched::confine_to_cpu(&mut command, seat.cpu);
    }
    let child = process::die_with_parent(&mut command).spawn();
    let mut child = child
        .with_context(|| format!("cannot start {}\nhint: apt-get install qemu-system-x86", arch::EMULATOR))?;
    drop(command); // holds an end of the console's pipe
    let talk = child.stdin.take().zip(child.stdout.take());
    let control = talk.map(|(input, output)| Control::start(input, output, writer));
    Ok(Guest { child, console: reader, control })
}

/// The emulator's program with the clock of `lab/clock.c` in front of the C library's.
fn emulator(clock: &File) -> Command {
    let mut command = Command::new(arch::EMULATOR);
    command.env("LD_PRELOAD", path_through_us(clock));
    command
}

/// A path by which another process opens a memory file of ours, so that it need not inherit the descriptor.
fn path_through_us(file: &impl AsRawFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// Waits for the guest's end. Gives the reason if it had to be killed, and the end of the console.
pub fn watch(mut guest: Child, console: PipeReader, limits: Limits) -> Result<(Option<String>, Vec<u8>)> {
    let (ended, end) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let tail = read_tail(console);
        let _ = ended.send(()); // nobody listens any more when the guest was killed
        tail
    });
    let mut progress = (Duration::ZERO, Instant::now());
    let mut reason = None;
    while let Err(mpsc::RecvTimeoutError::Timeout) = end.recv_timeout(CHECK_EVERY) {
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
    Some(Duration::from_millis(ticks * 1000 / clock_ticks_per_s()))
}

/// The emulator's version. Fails if the emulator does not take the clock of `lab/clock.c`, because then no run would
/// give the same bytes again.
pub fn version(clock: &File) -> Result<String> {
    let name = arch::EMULATOR;
    let output = emulator(clock)
        .arg("--version")
        .output()
        .with_context(|| format!("cannot run {name}\nhint: apt-get install qemu-system-x86"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(!complaint.contains("LD_PRELOAD"), "{name} must see another clock, but {}", complaint.trim());
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_is_kept_from_the_end() {
        let long = [vec![b'x'; 2 * CONSOLE_BYTES], b"\r\nlast words\r\n".to_vec()].concat();
        let tail = read_tail(long.as_slice());
        assert_eq!(tail.len(), CONSOLE_BYTES);
        assert!(tail.ends_with(b"x\r\nlast words\r\n"));
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
        // All CPUs but the last are taken by others, and that one too if somebody is at work on this machine.
        let mut names: Vec<_> = cpus.iter().map(|&cpu| take_name(cpu)).collect();
        let is_free = names.pop().flatten().is_some();
        let free = if is_free { cpus.last() } else { cpus.first() };
        assert_eq!(Seat::take().map(|seat| seat.cpu), free.copied(), "{names:?}");
    }

    #[test]
    fn cpu_time_of_this_process_is_known() {
        assert!(cpu_time(std::process::id()).is_some());
        assert!(cpu_time(u32::MAX).is_none());
    }
}
