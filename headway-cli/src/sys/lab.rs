//! System calls of the lab: those of the host side (memory files, a child that dies with its parent) and those
//! of the guest's first process.

use super::check;
use anyhow::{Context, Result};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// A file that exists in memory only and ends with its last user.
pub fn memory_file(name: &str, bytes: u64) -> Result<File> {
    let name = CString::new(name)?;
    // SAFETY: `name` is a valid C string; the call touches nothing else.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error()).context("cannot create a memory file");
    }
    // SAFETY: `fd` was just opened and nobody else owns it.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(bytes).context("cannot size a memory file")?;
    Ok(file)
}

/// The child gets SIGKILL when the thread that started it ends, so that no guest outlives `kill -9`.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec and makes async-signal-safe calls only.
    unsafe { command.pre_exec(move || super::end_with(parent)) }
}

/// The CPUs that this process may use.
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: an all-zero set is valid, and the kernel fills no more than its size.
    let (set, rc) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let rc = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        (set, rc)
    };
    let count = if rc == 0 { libc::CPU_SETSIZE as usize } else { 0 };
    // SAFETY: `cpu` is within the set.
    (0..count).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// The child's threads share one CPU and take turns: none is interrupted because another wakes up. Best effort.
pub fn take_turns_on_cpu(command: &mut Command, cpu: usize) -> &mut Command {
    // SAFETY: the closure only makes system calls on memory of its own; `cpu` came from a set of this size.
    unsafe {
        command.pre_exec(move || {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
            let normal: libc::sched_param = std::mem::zeroed();
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &normal);
            Ok(())
        })
    }
}

/// Clock ticks per second, the unit of CPU times in `/proc/PID/stat`.
pub fn clock_ticks_per_s() -> u64 {
    // SAFETY: reads a constant of the C library.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).unwrap_or(100).max(1)
}

/// `mount(2)` without options.
pub fn mount(fstype: &str, target: &str) -> Result<()> {
    let fs = CString::new(fstype)?;
    let dir = CString::new(target)?;
    // SAFETY: three valid C strings and no data.
    let rc = unsafe { libc::mount(fs.as_ptr(), dir.as_ptr(), fs.as_ptr(), 0, std::ptr::null()) };
    check(rc).map(drop).with_context(|| format!("cannot mount {fstype} on {target}"))
}

/// Loads one module; one that is there already is no error.
pub fn load_module(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    // SAFETY: a valid file descriptor and an empty C string.
    let rc = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    match check(rc as i32) {
        Err(e) if e.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        other => other.map(drop).with_context(|| format!("cannot load module {}", path.display())),
    }
}

/// Gives the kernel's random generator `bytes` and has it count them as full entropy.
pub fn seed_kernel_random(bytes: &[u8; 64]) -> Result<()> {
    #[repr(C)]
    struct PoolInfo {
        entropy_bits: libc::c_int,
        bytes: libc::c_int,
        data: [u8; 64],
    }
    const RNDADDENTROPY: libc::c_ulong = 0x4008_5203; // _IOW('R', 3, int[2])
    let urandom = File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    let info = PoolInfo { entropy_bits: 512, bytes: 64, data: *bytes };
    // SAFETY: the layout is that of `struct rand_pool_info` with 64 bytes behind it.
    check(unsafe { libc::ioctl(urandom.as_raw_fd(), RNDADDENTROPY as _, &info) })
        .map(drop)
        .context("cannot seed the kernel's random generator")
}

/// A window of physical memory that the kernel was told to leave alone; mapped until the process ends.
pub fn map_physical(address: u64, bytes: usize) -> Result<&'static mut [u8]> {
    let mem = File::options()
        .read(true)
        .write(true)
        .open("/dev/mem")
        .context("cannot open /dev/mem (a kernel without CONFIG_DEVMEM?)")?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh shared mapping of a region that nothing else in this guest uses.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            protection,
            libc::MAP_SHARED,
            mem.as_raw_fd(),
            address as libc::off_t,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error()).context("cannot map the lab's mailbox");
    }
    // SAFETY: the mapping has exactly `bytes` bytes and is never unmapped.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>(), bytes) })
}

/// Resets the machine at once; the emulator, told not to reboot, then ends.
pub fn reset() -> ! {
    // SAFETY: plain system calls. The loop is never reached on a kernel that can reset.
    unsafe {
        libc::reboot(libc::RB_AUTOBOOT);
        loop {
            libc::pause();
        }
    }
}
