//! The time since a trial began. While the program runs it is counted by the time since the machine booted, which goes on
//! while the machine sleeps and which nobody can set. What passed between a kill, or a boot, and the beginning of the next
//! program only the date can tell; a date that was set back does not make time run backwards.

use crate::sys::clock::{monotonic_ns, since_boot};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// How old the trial was when this clock was started.
    from: Duration,
    /// The time since the boot at that moment.
    started: Duration,
}

impl Clock {
    /// Of a trial that begins now.
    pub fn begin() -> Clock {
        Clock { from: Duration::ZERO, started: since_boot() }
    }

    /// Of a trial that began at this date and was seen to be this old at least.
    pub fn go_on(began_unix_s: u64, at_least_ms: u64) -> Clock {
        let from = age(began_unix_s, unix_now(), Duration::from_millis(at_least_ms));
        Clock { from, started: since_boot() }
    }

    pub fn age(&self) -> Duration {
        self.from + since_boot().saturating_sub(self.started)
    }

    pub fn age_ms(&self) -> u64 {
        self.age().as_millis() as u64
    }

    /// What turns a time of the kernel's records, which do not count while the machine sleeps, into the trial's age. True for
    /// times since the last sleep; what was before appears that much too late.
    pub fn offset_ns(&self) -> i128 {
        self.age().as_nanos() as i128 - i128::from(monotonic_ns())
    }
}

fn age(began_unix_s: u64, now: Duration, at_least: Duration) -> Duration {
    now.saturating_sub(Duration::from_secs(began_unix_s)).max(at_least)
}

/// The date, as the time since 1970.
pub fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_that_was_set_back_does_not_turn_time_back() {
        let s = Duration::from_secs;
        assert_eq!(age(1000, s(1600), s(100)), s(600));
        assert_eq!(age(1000, s(900), s(100)), s(100));
        assert_eq!(age(1000, s(1050), s(100)), s(100));
        let clock = Clock::go_on(unix_now().as_secs() - 3600, 5);
        assert!((s(3600)..s(3602)).contains(&clock.age()));
        let now = clock.offset_ns() + i128::from(monotonic_ns());
        assert!((now - clock.age().as_nanos() as i128).abs() < 1_000_000_000);
    }
}
