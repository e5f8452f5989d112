//! System calls that only the lab makes: memory files on the host, and what the guest's first process asks of its
//! kernel.

use anyhow::{Context, Result};
use rustix::event::pause;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::mount::MountFlags;
use rustix::system::{RebootCommand, finit_module, reboot};
use std::fs::File;
use std::path::Path;

/// A file that exists in memory only and ends with its last user.
pub fn memory_file(name: &str, bytes: u64) -> Result<File> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC).context("cannot create a memory file")?;
    let file = File::from(fd);
    file.set_len(bytes).context("cannot size a memory file")?;
    Ok(file)
}

/// Clock ticks per second, the unit of CPU times in `/proc/PID/stat`.
pub fn clock_ticks_per_s() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

/// `mount(2)` without options.
pub fn mount(fstype: &str, target: &str) -> Result<()> {
    rustix::mount::mount(fstype, target, fstype, MountFlags::empty(), None)
        .with_context(|| format!("cannot mount {fstype} on {target}"))
}

/// Loads one module; one that is there already is no error.
pub fn load_module(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    match finit_module(&file, c"", 0) {
        Err(Errno::EXIST) => Ok(()),
        other => other.with_context(|| format!("cannot load module {}", path.display())),
    }
}

/// Marks this moment, in the guest: the host is told how many instructions were executed until then.
pub fn mark() -> Result<()> {
    write_port(0x505, 1).context("cannot mark a moment for the host")
}

/// Writes a byte to a port of the machine, which the calling thread is given the right to. By libc and by hand, because
/// distributions' kernels have no /dev/port.
#[cfg(target_arch = "x86_64")]
fn write_port(port: u16, byte: u8) -> std::io::Result<()> {
    // SAFETY: asks for one port, and touches no memory.
    if unsafe { libc::ioperm(port.into(), 1, 1) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the guest's port belongs to a device that takes this byte; no memory is touched.
    unsafe {
        std::arch::asm!("out dx, al", in("dx") port, in("al") byte, options(nomem, nostack, preserves_flags))
    };
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
fn write_port(_port: u16, _byte: u8) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Gives the kernel's random generator `bytes` and has it count them as full entropy.
pub fn seed_kernel_random(bytes: &[u8; 64]) -> Result<()> {
    /// `struct rand_pool_info` of linux/random.h with 64 bytes behind it.
    #[repr(C)]
    struct PoolInfo {
        entropy_bits: libc::c_int,
        bytes: libc::c_int,
        data: [u8; 64],
    }
    const RNDADDENTROPY: Opcode = opcode::write::<[libc::c_int; 2]>(b'R', 3);
    let urandom = File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    let info = PoolInfo { entropy_bits: 512, bytes: 64, data: *bytes };
    // SAFETY: RNDADDENTROPY reads a `rand_pool_info` and as many bytes behind it as it says.
    unsafe { ioctl(&urandom, Setter::<RNDADDENTROPY, _>::new(info)) }
        .context("cannot seed the kernel's random generator")
}

/// A window of physical memory that the kernel was told to leave alone; mapped until the process ends.
pub fn map_physical(address: u64, bytes: usize) -> Result<&'static mut [u8]> {
    let mem = File::options()
        .read(true)
        .write(true)
        .open("/dev/mem")
        .context("cannot open /dev/mem (a kernel without CONFIG_DEVMEM?)")?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh shared mapping of a region that nothing else in this guest uses.
    let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, &mem, address) }
        .context("cannot map the lab's mailbox")?;
    // SAFETY: the mapping has exactly `bytes` bytes and is never unmapped.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>(), bytes) })
}

/// Resets the machine at once; the emulator, told not to reboot, then ends.
pub fn reset() -> ! {
    let _ = reboot(RebootCommand::Restart);
    loop {
        pause(); // never reached on a kernel that can reset
    }
}
