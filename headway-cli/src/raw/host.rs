//! `host.txt`: what a load on a wire took of the whole machine, in one row.

use crate::raw::table::{Table, word_or_missing};

/// What the machine did from the start of a load to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// How long the load took, and the time of all CPUs in which they were not idle. In the lab a nanosecond is an instruction.
    pub wall_ns: u64,
    pub busy_ns: Option<u64>,
    /// The share of it that was spent in softirqs, in which the kernel polls its network cards.
    pub softirq_ns: Option<u64>,
    /// Polls of NAPI instances (the tracepoint `napi:napi_poll`): of the two cards, or where there is none of the backlogs.
    pub polls: Option<u64>,
    /// Packets that the cards received, or that the backlogs handed on.
    pub packets: Option<u64>,
    /// How often the softirq ended because its budget of packets or time was used up (`time_squeeze`).
    pub squeezed: Option<u64>,
    /// Packets that found a full backlog.
    pub dropped: Option<u64>,
}

const COLUMNS: &str = "# wall_ns busy_ns softirq_ns polls packets squeezed dropped\n";

pub fn to_text(host: &Host) -> String {
    let rest = [host.busy_ns, host.softirq_ns, host.polls, host.packets, host.squeezed, host.dropped];
    format!("{COLUMNS}{} {}\n", host.wall_ns, rest.map(word_or_missing).join(" "))
}

pub fn parse(text: &str) -> Result<Option<Host>, String> {
    let rows = Table::read(text)?.rows(|row| {
        Ok(Host {
            wall_ns: row.number("wall_ns")?,
            busy_ns: row.optional("busy_ns")?,
            softirq_ns: row.optional("softirq_ns")?,
            polls: row.optional("polls")?,
            packets: row.optional("packets")?,
            squeezed: row.optional("squeezed")?,
            dropped: row.optional("dropped")?,
        })
    })?;
    Ok(rows.into_iter().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let host = Host { wall_ns: 3_000_000_123, busy_ns: Some(7), polls: Some(9), ..Host::default() };
        assert_eq!(parse(&to_text(&host)).unwrap(), Some(host));
        assert_eq!(parse("").unwrap(), None);
    }
}
