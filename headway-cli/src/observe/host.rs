//! What a load on a wire takes of the whole machine: its CPUs, softirqs and polls of network cards. The kernel's own counters are
//! read before and after; `cell/wire.rs` calls this.

use crate::plan::wire::Wire;
use crate::raw::host::Host;
use crate::sys::clock::monotonic_ns;
use crate::sys::perf::Counter;
use crate::sys::sched::allowed_cpus;

/// The kernel's counters at one moment. What it does not show is missing.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    at_ns: u64,
    idle_ns: Option<u64>,
    softirq_ns: Option<u64>,
    polls: Option<u64>,
    received: Option<u64>,
    handed_on: Option<u64>,
    dropped: Option<u64>,
    squeezed: Option<u64>,
}

/// A machine that is watched.
pub struct Watch<'a> {
    /// How many packets the two cards of the wire have received.
    received: &'a dyn Fn() -> Option<u64>,
    has_cards: bool,
    polls: Option<Counter>,
    before: Counters,
}

impl<'a> Watch<'a> {
    /// `received` is asked for the packets of the two cards, where the wire has cards.
    pub fn start(wire: Wire, received: &'a dyn Fn() -> Option<u64>) -> Self {
        let has_cards = wire.nic().is_some();
        // The backlog of a CPU, through which packets of a loopback or a veth come, belongs to no device.
        let filter = if has_cards { "dev_name != \"(no_device)\"" } else { "" };
        let polls = Counter::start("napi/napi_poll", filter).ok();
        let mut watch = Self { received, has_cards, polls, before: Counters::default() };
        watch.before = watch.now();
        watch
    }

    /// What the machine has done since the start.
    pub fn stop(self) -> Host {
        let (before, after) = (self.before, self.now());
        let since = |of: fn(&Counters) -> Option<u64>| Some(of(&after)?.saturating_sub(of(&before)?));
        let wall_ns = after.at_ns - before.at_ns;
        let all_ns = wall_ns * allowed_cpus().len().max(1) as u64;
        Host {
            wall_ns,
            busy_ns: since(|c| c.idle_ns).map(|idle_ns| all_ns.saturating_sub(idle_ns)),
            softirq_ns: since(|c| c.softirq_ns),
            polls: since(|c| c.polls),
            packets: if self.has_cards { since(|c| c.received) } else { since(|c| c.handed_on) },
            squeezed: since(|c| c.squeezed),
            dropped: since(|c| c.dropped),
        }
    }

    fn now(&self) -> Counters {
        let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        let softnet = read("/proc/net/softnet_stat");
        Counters {
            idle_ns: idle_ns(&read("/proc/timer_list")),
            softirq_ns: softirq_ns(&read("/proc/stat")),
            polls: self.polls.as_ref().and_then(|polls| polls.count().ok()),
            received: if self.has_cards { (self.received)() } else { None },
            handed_on: softnet_sum(&softnet, 0),
            dropped: softnet_sum(&softnet, 1),
            squeezed: softnet_sum(&softnet, 2),
            at_ns: monotonic_ns(),
        }
    }
}

/// The time that all CPUs were idle, by `/proc/timer_list`, which has it in nanoseconds and not in ticks.
fn idle_ns(timer_list: &str) -> Option<u64> {
    let of = |line: &str| {
        let (name, value) = line.trim().split_once(':')?;
        (name.trim() == ".idle_sleeptime").then(|| value.trim().trim_end_matches(" nsecs").parse().ok())?
    };
    timer_list.lines().filter_map(of).reduce(|a: u64, b| a + b)
}

/// The seventh figure of the first line of `/proc/stat`, which counts hundredths of a second.
fn softirq_ns(stat: &str) -> Option<u64> {
    let ticks: u64 = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(6)?.parse().ok()?;
    Some(ticks * 10_000_000)
}

/// A column of `/proc/net/softnet_stat` over all CPUs; its figures are hexadecimal.
fn softnet_sum(text: &str, column: usize) -> Option<u64> {
    let of = |line: &str| u64::from_str_radix(line.split_whitespace().nth(column)?, 16).ok();
    text.lines().map(of).sum::<Option<u64>>().filter(|_| !text.is_empty())
}

/// Packets that the device received, by a `/proc/net/dev`.
pub fn received(table: &str, device: &str) -> Option<u64> {
    let row = table.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    row.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_in_the_kernels_tables() {
        let list =
            "  .idle_entrytime : 5 nsecs\n  .idle_sleeptime : 40 nsecs\nx\n  .idle_sleeptime : 2 nsecs\n";
        assert_eq!((idle_ns(list), idle_ns("cpu: 0\n")), (Some(42), None));
        assert_eq!(softirq_ns("cpu  1 2 3 4 5 6 7 8\ncpu0 1\n"), Some(70_000_000));
        let softnet = "0000000a 00000001 00000002 0\n00000010 00000000 00000001 0\n";
        assert_eq!([0, 1, 2].map(|column| softnet_sum(softnet, column)), [Some(26), Some(1), Some(3)]);
        assert_eq!(softnet_sum("", 0), None);
        assert_eq!(received("head\n eth0: 100 7 0\n", "eth0"), Some(7));
    }
}
