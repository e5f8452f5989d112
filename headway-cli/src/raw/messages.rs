//! `messages.txt`: the messages of the message flow in the order of their schedule.

use crate::raw::table::{Table, word_or_missing};
use std::fmt::Write as _;

/// One message. Times count from the start of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When the schedule wanted it sent.
    pub due_us: i64,
    pub bytes: u32,
    /// How long after that moment it was handed to the kernel; 0 in the simulator.
    pub late_us: i64,
    /// One way, counted from the moment it was due, so that a sender that was held up hides nothing. `None`: it never
    /// arrived.
    pub delay_us: Option<i64>,
}

/// Writes the messages.
pub fn to_text(messages: impl IntoIterator<Item = Sent>) -> String {
    let mut text = String::from("# due_us bytes late_us delay_us\n");
    for m in messages {
        let delay = word_or_missing(m.delay_us);
        writeln!(text, "{} {} {} {delay}", m.due_us, m.bytes, m.late_us).expect("writing to memory");
    }
    text
}

/// Reads them.
pub fn parse(text: &str) -> Result<Vec<Sent>, String> {
    Table::read(text)?.rows(|row| {
        Ok(Sent {
            due_us: row.number("due_us")?,
            bytes: row.number("bytes")?,
            late_us: row.number("late_us")?,
            delay_us: row.optional("delay_us")?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let message = |due_us, delay_us| Sent { due_us, bytes: 200, late_us: 3, delay_us };
        let messages = [message(0, Some(20_000)), message(15_625, None)];
        assert_eq!(to_text(messages), "# due_us bytes late_us delay_us\n0 200 3 20000\n15625 200 3 -\n");
        assert_eq!(parse(&to_text(messages)).unwrap(), messages);
    }
}
