//! Clocks. There is no wall clock here: no measurement depends on the time of day.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

/// CLOCK_MONOTONIC in nanoseconds: the one clock of the emulator, the loads and the probes, so that their times
/// compare.
pub fn monotonic_ns() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    tv_sec as u64 * 1_000_000_000 + tv_nsec as u64
}

/// Time since the machine booted, suspended time included: a deadline of minutes that no change of the date moves.
pub fn since_boot() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
    Duration::new(tv_sec as u64, tv_nsec as u32)
}

/// CPU time that the calling thread has used so far, in user space and in the kernel.
pub fn thread_cpu_time() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(tv_sec as u64, tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_clock_moves_forward() {
        let a = monotonic_ns();
        assert!(monotonic_ns() >= a && a > 0);
    }
}
