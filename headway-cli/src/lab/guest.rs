//! The first process of the lab's guest (`/init`): prepares the kernel, runs one cell with the code of `--in here`,
//! lays the raw files into the mailbox, and resets the machine, which ends the emulator.
//!
//! Whatever fails becomes the answer's status. If this process itself dies, the kernel panics, the emulator ends
//! without an answer, and the host reports the end of the console.

use crate::cell::here;
use crate::cell::settings;
use crate::cell::wire;
use crate::error::sentence;
use crate::lab::initramfs::MODULE_DIR;
use crate::lab::job::{ARGUMENT, Commands, Job, SAID};
use crate::lab::mailbox::{self, Answer};
use crate::plan::Place;
use crate::sys::out;
use crate::sys::{lab as sys, net};
use anyhow::{Context, Result, ensure};
use headway_cc::rand::hash;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The guest's own settings: buffers that hold four times the bandwidth-delay product of any path that the lab can
/// run, so that a buffer never limits what a controller may send, and the BPF JIT, without which our controllers
/// would be interpreted. New network namespaces start with the first three.
const SYSCTLS: &[(&str, &str)] = &[
    ("net/ipv4/tcp_rmem", "4096 131072 134217728"),
    ("net/ipv4/tcp_wmem", "4096 131072 134217728"),
    ("net/ipv4/tcp_no_metrics_save", "1"),
    ("net/ipv4/tcp_mem", "98304 114688 131072"),
    ("net/core/rmem_max", "134217728"),
    ("net/core/wmem_max", "134217728"),
    ("net/core/bpf_jit_enable", "1"),
    // Linux keeps 5 % of the CPU from real-time threads by default. The emulator's thread is one and stands for the
    // network: held up for that long it would show as delay of the path.
    ("kernel/sched_rt_runtime_us", "-1"),
];

/// Where the cell's raw files are written, in the guest's memory.
const RAW_DIR: &str = "/tmp/cell";

/// Whether this process is the lab's `/init`.
pub fn is_guest() -> bool {
    std::process::id() == 1 && std::env::args().any(|a| a == ARGUMENT)
}

/// Whether this process runs in a guest of the lab, where timers ring at exactly the moment that was asked for and a loop that
/// looks at the clock only makes a second of virtual time cost more.
pub fn is_inside() -> bool {
    std::fs::read_to_string("/proc/cmdline")
        .is_ok_and(|line| line.split_whitespace().any(|word| word == ARGUMENT))
}

/// All that the guest does.
pub fn main() -> ! {
    if let Err(error) = run() {
        // Without a mailbox there is only the console.
        out::note(format_args!("headway: {error:#}"));
    }
    sys::reset()
}

fn run() -> Result<()> {
    for (fstype, dir) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
        sys::mount(fstype, dir)?;
    }
    let window = sys::map_physical(mailbox::ADDRESS, mailbox::BYTES as usize)?;
    let status = match run_job(mailbox::job(window)) {
        Ok(()) => "ok".to_string(),
        Err(error) => sentence(&error),
    };
    let answer = Answer { status, files: read_files(Path::new(RAW_DIR))? };
    mailbox::put_answer(window, &answer).or_else(|error| {
        mailbox::put_answer(window, &Answer { status: format!("{error:#}"), files: Vec::new() })
    })
}

fn run_job(job: Option<&[u8]>) -> Result<()> {
    let job = job.context("the mailbox holds no job (does the kernel honour `memmap=`?)")?;
    let job: Job = serde_json::from_slice(job).context("cannot read the job")?;
    std::fs::create_dir_all(RAW_DIR).context("cannot create the raw folder")?;
    match job {
        Job::Cell { plan, cell } => {
            prepare(cell.seed)?;
            here::run_cell(&plan, &cell, Path::new(RAW_DIR))
        }
        Job::Try(ccs, nic) => {
            prepare(COMMANDS_SEED)?;
            if let Some(nic) = nic {
                wire::check_driver(nic)?;
                ccs.iter().try_for_each(|cc| settings::apply_to_card(cc, wire::CARDS[0]))?;
            }
            ccs.iter().try_for_each(|cc| settings::try_out(cc, &Place::Lab))
        }
        Job::Commands(Commands { commands, .. }) => {
            prepare(COMMANDS_SEED)?;
            sys::mount("bpf", "/sys/fs/bpf")?;
            let said = run_commands(&commands)?;
            std::fs::write(Path::new(RAW_DIR).join(SAID), said).context("cannot write what was said")
        }
    }
}

const COMMANDS_SEED: u64 = 1;

/// Runs the commands one after the other and returns each with what it printed and its exit code. The guest has no
/// shell, so a few forms stand in for one: words are split at blanks, `headway` is this program, `wait MS` waits that
/// many milliseconds of virtual time, `count` marks a moment between which and the next the host counts instructions, `ID & COMMAND` starts a command in the background, and `ID wait` waits for its
/// end.
fn run_commands(commands: &[String]) -> Result<String> {
    let mut said = String::new();
    let mut started = std::collections::BTreeMap::new();
    for command in commands {
        said += &format!("$ {command}\n");
        let words: Vec<&str> = command.split_whitespace().collect();
        let output = match words.as_slice() {
            ["count"] => {
                sys::mark()?;
                continue;
            }
            ["wait", ms] => {
                std::thread::sleep(Duration::from_millis(ms.parse()?));
                continue;
            }
            [id, "wait"] => {
                let child: std::process::Child = started.remove(*id).context("nothing of that name runs")?;
                child.wait_with_output()
            }
            [id, "&", program, arguments @ ..] => {
                started.insert(id.to_string(), child(program, arguments).spawn()?);
                continue;
            }
            [program, arguments @ ..] => child(program, arguments).output(),
            [] => continue,
        };
        let output = output.with_context(|| format!("cannot run `{command}`"))?;
        for text in [&output.stdout, &output.stderr] {
            said += &String::from_utf8_lossy(text);
        }
        said += &format!("[{}]\n", output.status);
    }
    Ok(said)
}

fn child(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(if program == "headway" { "/init" } else { program });
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Loads modules, makes settings and spreads the seed. Two cells that differ in the seed alone differ in the kernel's
/// random numbers (ports, sequence numbers, hashes) and in the moment of the start relative to the kernel's tick, as
/// two runs on a real machine would.
fn prepare(seed: u64) -> Result<()> {
    let draws: Vec<u64> = (0..9).map(|n| hash(0, seed.wrapping_add(n))).collect();
    let mut pool = [0; 64];
    for (bytes, draw) in pool.chunks_exact_mut(8).zip(&draws) {
        bytes.copy_from_slice(&draw.to_le_bytes());
    }
    sys::seed_kernel_random(&pool)?;
    load_modules()?;
    for (name, value) in SYSCTLS {
        std::fs::write(format!("/proc/sys/{name}"), value).with_context(|| format!("cannot set {name}"))?;
    }
    net::set_up("lo").context("cannot bring `lo` up")?;
    std::thread::sleep(Duration::from_micros(draws[8] % 20_000));
    Ok(())
}

fn load_modules() -> Result<()> {
    let mut files: Vec<_> = std::fs::read_dir(MODULE_DIR)?.collect::<Result<_, _>>()?;
    files.sort_by_key(|entry| entry.file_name());
    for file in files {
        sys::load_module(&file.path())?;
    }
    ensure!(
        Path::new("/sys/class/misc/tun").exists(),
        "the kernel has no TUN device\nhint: name the directory of its modules with --modules"
    );
    Ok(())
}

fn read_files(dir: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    if dir.exists() {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            files.push((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_process_is_no_guest() {
        assert!(!is_guest());
    }

    #[test]
    fn files_come_sorted_and_a_missing_folder_is_empty() {
        let dir = std::env::temp_dir().join(format!("headway-guest-{}", std::process::id()));
        assert!(read_files(&dir).unwrap().is_empty());
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("b"), "2").unwrap();
        std::fs::write(dir.join("a"), "1").unwrap();
        let files = read_files(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(files.unwrap(), [("a".into(), b"1".to_vec()), ("b".into(), b"2".to_vec())]);
    }
}
