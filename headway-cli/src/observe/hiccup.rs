//! Measures whether this machine stalled while it measured, because a stall would look like delay of the path: a
//! thread that should wake every millisecond counts how late it did.
//!
//! Runs over a real path use it (`cell/watch.rs`). With an emulator it is not needed, because the emulator's own
//! lateness says the same. The schedule is fixed, so that a stall of 50 ms counts as fifty late wake-ups and not as
//! one.

use crate::observe::lateness::lateness_limit_us;
use crate::observe::probe;
use crate::sys;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two wake-ups, in microseconds.
const TICK_US: i64 = 1000;
/// Lateness is counted in bins of this many microseconds. The last bin also counts everything later than it.
const BIN_US: u64 = 100;
const BINS: usize = 10_000;

/// A running meter. Dropping it stops it too.
#[derive(Debug)]
pub struct Meter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Hiccups>>,
}

/// How late the wake-ups were.
#[derive(Clone, Debug)]
pub struct Hiccups {
    bins: Vec<u64>,
    max_us: u64,
}

impl Meter {
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        Self { stop, thread: Some(std::thread::spawn(move || watch(&flag))) }
    }

    /// Stops the meter and returns what it counted, which is nothing if the meter itself failed.
    pub fn stop(mut self) -> Hiccups {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn watch(stop: &AtomicBool) -> Hiccups {
    sys::sched::make_real_time();
    let mut seen = Hiccups::default();
    let mut due_us = probe::now_us() + TICK_US;
    while !stop.load(Ordering::Relaxed) {
        let wait_us = due_us - probe::now_us();
        if wait_us > 0 {
            std::thread::sleep(Duration::from_micros(wait_us as u64));
        }
        seen.note((probe::now_us() - due_us).max(0) as u64);
        due_us += TICK_US;
    }
    seen
}

impl Default for Hiccups {
    fn default() -> Self {
        Self { bins: vec![0; BINS], max_us: 0 }
    }
}

impl Hiccups {
    fn note(&mut self, late_us: u64) {
        self.bins[((late_us / BIN_US) as usize).min(BINS - 1)] += 1;
        self.max_us = self.max_us.max(late_us);
    }

    /// Why a run does not count: more than one wake-up of a thousand was later than [`lateness_limit_us`], the limit
    /// that holds for the emulator too. The rule is fixed beforehand and does not look at the traffic.
    pub fn disturbed(&self, base_rtt_us: u64) -> Option<String> {
        let limit_us = lateness_limit_us(base_rtt_us);
        let late_us = self.p999_us();
        (late_us > limit_us).then(|| {
            format!(
                "this machine stalled: a timer was {late_us} us late (p99.9, limit {limit_us} us; worst {} us)",
                self.max_us
            )
        })
    }

    /// The lateness that one of a thousand wake-ups exceeds, in microseconds: the lower bound of its bin.
    fn p999_us(&self) -> u64 {
        let total: u64 = self.bins.iter().sum();
        let mut above = total / 1000;
        let hit = self.bins.iter().rposition(|count| match above.checked_sub(*count) {
            Some(rest) => {
                above = rest;
                false
            }
            None => true,
        });
        hit.map_or(0, |bin| bin as u64 * BIN_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(late_us: impl IntoIterator<Item = u64>) -> Hiccups {
        let mut hiccups = Hiccups::default();
        late_us.into_iter().for_each(|us| hiccups.note(us));
        hiccups
    }

    #[test]
    fn one_in_a_thousand_decides() {
        let quiet = (0..10_000).map(|_| 60);
        assert_eq!(seen(quiet.clone()).disturbed(40_000), None);
        // A single wake-up that is late by 3 ms is one of ten thousand.
        assert_eq!(seen(quiet.clone().chain([3000])).disturbed(40_000), None);
        // A stall of 50 ms counts as fifty late wake-ups.
        let stall = seen(quiet.chain((1..=50).map(|i| i * 1000)));
        let why = stall.disturbed(40_000).unwrap();
        assert!(why.contains("limit 2000 us; worst 50000 us"), "{why}");
        assert_eq!(stall.p999_us(), 40_000, "ten of 10050 are beyond");
        assert_eq!(stall.disturbed(1_000_000), None, "nothing to a path of a second");
        assert_eq!(Hiccups::default().disturbed(0), None);
        assert_eq!(seen([10_000_000]).p999_us(), (BINS as u64 - 1) * BIN_US);
    }

    #[test]
    fn a_meter_counts_until_it_is_stopped() {
        let meter = Meter::start();
        std::thread::sleep(Duration::from_millis(5));
        let total: u64 = meter.stop().bins.iter().sum();
        assert!(total > 0);
    }
}
