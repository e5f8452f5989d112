//! The application at both ends of a flow: when it writes how much, and which of its messages have arrived.

use super::{Message, Source};
use std::collections::VecDeque;

/// What a bulk source has to send: more than any run can, and small enough that sums do not overflow.
const ENDLESS_BYTES: u64 = u64::MAX / 4;

/// What every packet of the flow needs is here, the rest in a box.
#[derive(Clone, Debug)]
pub(crate) struct App {
    /// Written and not yet sent.
    pub(crate) pending_bytes: u64,
    /// When it writes next; `u64::MAX` for never.
    pub(crate) next_ns: u64,
    pub(crate) ends: Box<Ends>,
}

/// What the application does at both ends.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    source: Source,
    is_on: bool,
    written_bytes: u64,
    /// End offsets and writing times of messages that have not arrived.
    under_way: VecDeque<(u64, u64)>,
    pub(crate) arrived: Vec<Message>,
    pub(crate) finished_ns: Option<u64>,
}

impl App {
    pub(crate) fn new(source: &Source, start_ns: u64) -> Self {
        let ends = Ends {
            source: source.clone(),
            is_on: false,
            written_bytes: 0,
            under_way: VecDeque::new(),
            arrived: Vec::new(),
            finished_ns: None,
        };
        Self { pending_bytes: 0, next_ns: start_ns, ends: Box::new(ends) }
    }

    /// Writes what is due. The source's next moment is at least a microsecond away.
    pub(crate) fn write(&mut self, now_ns: u64) {
        let after = |us: u64| now_ns + us.max(1) * 1000;
        let ends = &mut *self.ends;
        match ends.source {
            Source::Bulk => (self.pending_bytes, self.next_ns) = (ENDLESS_BYTES, u64::MAX),
            Source::Finite { bytes } => {
                (self.pending_bytes, ends.written_bytes, self.next_ns) = (bytes, bytes, u64::MAX);
            }
            Source::OnOff { on_us, off_us } => {
                ends.is_on = !ends.is_on;
                self.pending_bytes = if ends.is_on { ENDLESS_BYTES } else { 0 };
                self.next_ns = after(if ends.is_on { on_us } else { off_us });
            }
            Source::Messages { bytes, interval_us } => {
                self.pending_bytes += bytes;
                ends.written_bytes += bytes;
                ends.under_way.push_back((ends.written_bytes, now_ns));
                self.next_ns = after(interval_us);
            }
        }
    }
}

impl Ends {
    /// The receiving application has got `bytes` in order.
    #[inline]
    pub(crate) fn on_received(&mut self, now_ns: u64, bytes: u64) {
        match self.source {
            Source::Finite { bytes: all } if bytes >= all && self.finished_ns.is_none() => {
                self.finished_ns = Some(now_ns);
            }
            Source::Messages { .. } => {
                while let Some((end, sent_ns)) = self.under_way.front().copied()
                    && end <= bytes
                {
                    self.under_way.pop_front();
                    let delay_us = (now_ns - sent_ns) / 1000;
                    self.arrived.push(Message { sent_us: sent_ns / 1000, delay_us });
                }
            }
            _ => {}
        }
    }
}
