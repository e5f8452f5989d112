//! `headway emu PATH [--far CMD] -- CMD…`: a command or a shell inside the path.

use crate::emu::{Emu, EmuOptions, Far, Netns};
use crate::sys;
use anyhow::{Context, Result, ensure};
use headway_cc::path::Path;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// What `headway emu` was asked to do.
#[derive(Clone, Debug)]
pub struct EmuCommand {
    pub path: Path,
    pub mtu: u32,
    pub seed: u64,
    /// Program and arguments to run at the near end; empty: the user's shell.
    pub near: Vec<OsString>,
    /// A shell command for a far end of its own; without it the far end is the caller's namespace.
    pub far: Option<OsString>,
    /// Where to write the link's log in the end.
    pub log: Option<PathBuf>,
}

/// Runs the command to its end and returns the exit code to pass on: the command's own, or 128 + the signal
/// that ended it, as a shell reports it.
pub fn run_command(what: &EmuCommand) -> Result<i32> {
    // Opened first: a log that cannot be written must not cost a long run.
    let log = what.log.as_deref().map(|file| create(file).map(|f| (f, file))).transpose()?;
    let far = if what.far.is_some() { Far::Own } else { Far::Caller };
    let options = EmuOptions { mtu: what.mtu, seed: what.seed, far, ..EmuOptions::default() };
    let emu = Emu::up(&what.path, &options)?;
    let far = match (&what.far, emu.far()) {
        (Some(command), Some(netns)) => Some(FarEnd::start(netns, command, &emu)?),
        _ => None,
    };
    let interrupts = sys::process::ignore_interrupts();
    emu.start_clock();
    let status = run_near(&emu, &what.near);
    drop(far);
    drop(interrupts);
    let link = emu.stop()?;
    if let Some((mut file, name)) = log {
        file.write_all(link.bins.as_bytes()).with_context(|| format!("cannot write {}", name.display()))?;
    }
    for (direction, l) in [("to the far end", &link.down), ("back", &link.up)] {
        eprintln!(
            "{direction}: {} packets, {} dropped by the queue, {} lost, {} marked",
            l.in_packets, l.drop_packets, l.lost_packets, l.mark_packets
        );
    }
    if let Some(why) = link.disturbed(what.path.base_rtt_us()) {
        eprintln!("warning: a measurement over this path would not count: {why}");
    }
    let status = status?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

fn create(file: &std::path::Path) -> Result<File> {
    File::create(file).with_context(|| format!("cannot create {}", file.display()))
}

fn run_near(emu: &Emu, words: &[OsString]) -> Result<ExitStatus> {
    let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let (program, arguments) = words.split_first().map_or((&shell, &[][..]), |(p, a)| (p, a));
    let mut command = emu.near().command(program);
    command.args(arguments);
    set_addresses(&mut command, emu.near_addr(), emu.far_addr());
    command.status().with_context(|| format!("cannot run `{}`", program.display()))
}

fn set_addresses(command: &mut Command, local: Ipv4Addr, peer: Ipv4Addr) {
    command.env("HEADWAY_LOCAL", local.to_string()).env("HEADWAY_PEER", peer.to_string());
}

/// The near command starts when the far end listens, or after this many waits.
const FAR_TRIES: u32 = 50;
const WAIT: Duration = Duration::from_millis(10);

/// The far end's command and whatever it starts; killed when dropped.
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
