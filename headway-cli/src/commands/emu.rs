//! `headway emu PATH [--far CMD] -- CMD…`: a command or a shell inside the path.

use crate::emu::{Emu, EmuOptions, Far, Netns};
use crate::error::{coded, usage};
use crate::lab::guest;
use crate::plan::PathEntry;
use crate::sys;
use crate::sys::out;
use anyhow::{Context, Result, ensure};
use clap::Args;
use headway_cc::path::Path;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::Ipv4Addr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Duration;

#[derive(Args)]
pub struct EmuArgs {
    /// A preset or a path text, such as '100mbit 40ms queue=1bdp'
    path: String,
    /// Shell command to run at the far end
    ///
    /// The far end is then a network namespace of its own. Without this flag it is this host, so that the command
    /// inside the path reaches whatever the host reaches. The command finds its own address in $HEADWAY_LOCAL and the
    /// other end's in $HEADWAY_PEER.
    #[arg(long, value_name = "COMMAND")]
    far: Option<OsString>,
    /// Write the bottleneck's log to this file
    ///
    /// It is written at the end, in the form of link.txt of a run folder: a row for each direction and 100 ms.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// MTU of the path in bytes
    #[arg(long, default_value_t = 1500)]
    mtu: u32,
    /// Seed of the path's random losses and delays
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The command to run inside the path [default: $SHELL]
    #[arg(last = true)]
    command: Vec<OsString>,
}

impl EmuArgs {
    pub fn path(&self) -> Result<Path> {
        usage(PathEntry::resolve(&self.path))?.path()
    }
}

/// Runs the command to its end. The exit code is the command's own, or 128 + the signal that ended it, or what a shell
/// has for a command that cannot be started.
pub fn run(args: EmuArgs) -> Result<ExitCode> {
    let path = args.path()?;
    // Opened first: a log that cannot be written must not cost a long run.
    let log = args.log.as_deref().map(|file| create(file).map(|f| (f, file))).transpose()?;
    let far = if args.far.is_some() { Far::Own } else { Far::Caller };
    let options = EmuOptions {
        mtu: args.mtu,
        seed: args.seed,
        far,
        exact_timers: guest::is_inside(),
        ..EmuOptions::default()
    };
    let emu = Emu::up(&path, &options)?;
    let far = match (&args.far, emu.far()) {
        (Some(command), Some(netns)) => Some(FarEnd::start(netns, command, &emu)?),
        _ => None,
    };
    let interrupts = sys::process::ignore_interrupts();
    emu.start_clock();
    let status = run_near(&emu, &args.command);
    drop(far);
    drop(interrupts);
    let link = emu.stop()?;
    for (direction, l) in [("to the far end", &link.down), ("back", &link.up)] {
        out::note(format_args!(
            "{direction}: {} packets, {} dropped by the queue, {} lost, {} marked",
            l.in_packets, l.drop_packets, l.lost_packets, l.mark_packets
        ));
    }
    if let Some(why) = link.disturbed(path.base_rtt_us()) {
        out::note(format_args!("warning: a measurement over this path would not count: {why}"));
    }
    if let Some((file, name)) = log {
        write_log(file, name, &link.bins)?;
    }
    let status = status?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(code as u8))
}

fn create(file: &std::path::Path) -> Result<File> {
    File::create(file).with_context(|| format!("cannot create {}", file.display()))
}

/// Writes the whole log, or leaves none: what a full disk has left of it could be taken for the whole.
fn write_log(mut file: File, name: &std::path::Path, text: &str) -> Result<()> {
    let written = file.write_all(text.as_bytes());
    if written.is_err() && file.metadata().is_ok_and(|m| m.is_file()) {
        let _ = std::fs::remove_file(name);
    }
    written.with_context(|| format!("cannot write {}\nhint: is the disk full?", name.display()))
}

fn run_near(emu: &Emu, words: &[OsString]) -> Result<ExitStatus> {
    let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let (program, arguments) = words.split_first().map_or((&shell, &[][..]), |(p, a)| (p, a));
    let mut command = emu.near().command(program);
    command.args(arguments);
    set_addresses(&mut command, emu.near_addr(), emu.far_addr());
    command.status().or_else(|e| {
        let code = if e.kind() == ErrorKind::NotFound { NO_COMMAND } else { CANNOT_RUN };
        coded(code, Err(e).with_context(|| format!("cannot run `{}`", program.display())))
    })
}

/// What a shell ends with where there is no such command, and where it cannot be run.
const NO_COMMAND: u8 = 127;
const CANNOT_RUN: u8 = 126;

fn set_addresses(command: &mut Command, local: Ipv4Addr, peer: Ipv4Addr) {
    command.env("HEADWAY_LOCAL", local.to_string()).env("HEADWAY_PEER", peer.to_string());
}

/// The near command starts as soon as something listens at the far end, or after this many waits: a far end that
/// never listens may be meant to send.
const FAR_TRIES: u32 = 50;
const WAIT: Duration = Duration::from_millis(10);

/// The far end's command and whatever it starts, in a process group of their own. Killed when dropped.
struct FarEnd {
    child: Child,
}

impl FarEnd {
    fn start(netns: &Netns, shell_command: &OsString, emu: &Emu) -> Result<FarEnd> {
        let mut command = netns.command("/bin/sh");
        command.arg("-c").arg(shell_command).process_group(0).stdin(std::process::Stdio::null());
        set_addresses(&mut command, emu.far_addr(), emu.near_addr());
        let name = shell_command.display();
        let child = command.spawn().with_context(|| format!("cannot run `{name}` at the far end"))?;
        let mut far = FarEnd { child };
        for _ in 0..FAR_TRIES {
            if let Some(status) = far.child.try_wait()? {
                ensure!(status.success(), "`{name}` at the far end ended at once: {status}");
            } else if netns.enter(sys::net::is_listening) {
                break;
            }
            std::thread::sleep(WAIT);
        }
        Ok(far)
    }
}

impl Drop for FarEnd {
    /// Asks the group to end, gives it half a second, and kills what is left of it.
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::TERM);
        for _ in 0..FAR_TRIES {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(WAIT);
        }
        // Fails only if every process of the group is gone already.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}
