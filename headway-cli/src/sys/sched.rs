//! Scheduling: which threads run before others, and on which CPU.

use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the calling thread wake up promptly, because it makes or times packets and a late wake-up would be measured
/// as delay of the path. Its timers get no slack, and it gets the lowest real-time priority, which still runs before
/// every normal thread; where that is refused, the best nice value. Best effort: a thread that gets neither runs as
/// it is, and the lateness that it records tells.
pub fn make_real_time() {
    let _ = set_current_timer_slack(NonZeroU64::new(1)); // in nanoseconds; 0 would restore the default of 50 µs
    if set_policy(libc::SCHED_FIFO, 1).is_err() {
        run_before_normal_threads();
    }
}

/// Gives the calling thread the best nice value. It stays a normal thread, so that a load that never sleeps cannot
/// starve what measures it. Best effort.
pub fn run_before_normal_threads() {
    let _ = setpriority_process(None, -20); // in Linux the nice value is the thread's own
}

/// The CPUs that this process may use; empty when the kernel does not tell.
pub fn allowed_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// The child's threads share one CPU and do not preempt each other when they wake up. Best effort.
pub fn confine_to_cpu(command: &mut Command, cpu: usize) -> &mut Command {
    let mut only = CpuSet::new();
    only.set(cpu);
    let setup = move || {
        let _ = sched_setaffinity(None, &only);
        let _ = set_policy(libc::SCHED_BATCH, 0);
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls on memory of its own; it allocates nothing.
    unsafe { command.pre_exec(setup) }
}

/// Scheduling policy and priority of the calling thread. Rustix has no `sched_setscheduler`. The plain system call is
/// about the calling thread; the C library's function is about the process on some systems.
fn set_policy(policy: libc::c_int, sched_priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: integers, and a pointer to a struct that outlives the call; 0 is the calling thread.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
