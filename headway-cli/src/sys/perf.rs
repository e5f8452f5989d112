//! Counting how often a tracepoint of the kernel was passed, on all CPUs and by whomever. By libc, because rustix has no
//! `perf_event_open`.

use super::sched::allowed_cpus;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

/// The folder of the tracing file system, below which tracepoints have their numbers.
const TRACING: &str = "/sys/kernel/tracing";

/// A tracepoint that is counted until this is dropped.
#[derive(Debug)]
pub struct Counter(Vec<fs::File>);

impl Counter {
    /// Starts to count the tracepoint, such as `napi/napi_poll`, where `filter` holds; an empty one always does.
    pub fn start(tracepoint: &str, filter: &str) -> io::Result<Self> {
        let id = fs::read_to_string(format!("{TRACING}/events/{tracepoint}/id"))?;
        let id: u64 = id.trim().parse().map_err(io::Error::other)?;
        let filter = std::ffi::CString::new(filter)?;
        let on = |cpu: usize| {
            let file = open(id, cpu)?;
            if !filter.is_empty() {
                /// `_IOW('$', 6, char *)` of linux/perf_event.h.
                const PERF_EVENT_IOC_SET_FILTER: libc::c_ulong = 0x4008_2406;
                // SAFETY: the kernel reads a string that ends with a zero.
                if unsafe { libc::ioctl(file.as_raw_fd(), PERF_EVENT_IOC_SET_FILTER as _, filter.as_ptr()) }
                    != 0
                {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(file)
        };
        Ok(Self(allowed_cpus().into_iter().map(on).collect::<io::Result<_>>()?))
    }

    /// How often so far.
    pub fn count(&self) -> io::Result<u64> {
        let mut sum = 0;
        for mut file in &self.0 {
            let mut value = [0; 8];
            file.read_exact(&mut value)?;
            sum += u64::from_ne_bytes(value);
        }
        Ok(sum)
    }
}

/// A counter of one CPU, for all processes.
fn open(id: u64, cpu: usize) -> io::Result<fs::File> {
    /// The first version of `struct perf_event_attr`, which every kernel takes.
    const BYTES: usize = 64;
    const PERF_TYPE_TRACEPOINT: u32 = 2;
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
    let mut attributes = [0u8; BYTES];
    attributes[..4].copy_from_slice(&PERF_TYPE_TRACEPOINT.to_ne_bytes());
    attributes[4..8].copy_from_slice(&(BYTES as u32).to_ne_bytes());
    attributes[8..16].copy_from_slice(&id.to_ne_bytes());
    let (every_process, no_group) = (-1, -1);
    // SAFETY: the kernel reads as many bytes as the second word says, and returns a new descriptor.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            every_process,
            cpu as libc::c_int,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        );
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(fs::File::from_raw_fd(fd as libc::c_int)) }
    }
}
