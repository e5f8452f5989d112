//! One direction of the path: a link with the log of what passes it, in bins and, if asked for, packet by packet. The
//! simulator and the QUIC stacks in virtual time both use it, so that their raw files have the same columns.

use super::packet_log::{PacketRow, Step, What};
use crate::link::{Link, LinkSpec, LinkStats, Out};

/// One bin of a link's log: a row of `link.txt`. Counters are of the bin alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkBin {
    /// Start of the bin.
    pub t_us: u64,
    /// Configured rate at its start; `None` when unlimited or driven by a trace.
    pub rate_bps: Option<u64>,
    /// Packets that came to the link, as [`LinkStats::in_packets`].
    pub in_packets: u64,
    /// Their sizes, headers included.
    pub in_bytes: u64,
    /// Packets that arrived at the far end, as [`LinkStats::out_packets`].
    pub out_packets: u64,
    /// Their sizes, headers included.
    pub out_bytes: u64,
    /// Packets that the queue or a policer dropped, as [`LinkStats::drop_packets`].
    pub drop_packets: u64,
    /// Their sizes, headers included.
    pub drop_bytes: u64,
    /// Packets lost on the wire, as [`LinkStats::lost_packets`].
    pub lost_packets: u64,
    /// Packets marked CE, as [`LinkStats::mark_packets`].
    pub mark_packets: u64,
    /// Most that waited at any time of the bin, the packet being serialised not counted.
    pub queue_bytes_max: u64,
    /// Longest stay in the queue, serialisation included, of the packets that arrived at the far end in this bin.
    pub sojourn_us_max: u64,
}

#[derive(Debug)]
pub(crate) struct LoggedLink<P> {
    link: Link<P>,
    spec: LinkSpec,
    queue_bytes_max: u64,
    sojourn_ns_max: u64,
    at_last_bin: LinkStats,
    bins: Vec<LinkBin>,
    /// Every packet, if asked for.
    rows: Option<Vec<PacketRow>>,
    what: Option<fn(&P) -> What>,
}

impl<P> LoggedLink<P> {
    /// With `what`, which says what a packet is, every packet is logged.
    pub(crate) fn new(spec: &LinkSpec, seed: u64, what: Option<fn(&P) -> What>) -> Self {
        Self {
            link: Link::new(spec, seed),
            spec: spec.clone(),
            queue_bytes_max: 0,
            sojourn_ns_max: 0,
            at_last_bin: LinkStats::default(),
            bins: Vec::new(),
            rows: what.map(|_| Vec::new()),
            what,
        }
    }

    #[cfg(feature = "quic-sim")]
    pub(crate) fn stats(&self) -> &LinkStats {
        self.link.stats()
    }

    /// [`Link::next_ns`]; `u64::MAX` for none.
    #[inline(always)]
    pub(crate) fn next_ns(&self) -> u64 {
        self.link.due_ns()
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, now_ns: u64, bytes: u32, ect: bool, packet: P) {
        if let Some(what) = self.what {
            self.push_noted(now_ns, bytes, ect, packet, what);
        } else {
            self.link.push(now_ns, bytes, ect, packet);
        }
        self.queue_bytes_max = self.queue_bytes_max.max(self.link.stats().queue_bytes);
    }

    /// To be called while [`LoggedLink::next_ns`] is not in the future. `None`: nothing after all.
    #[inline(always)]
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<Out<P>> {
        if let Some(what) = self.what {
            self.note_next(now_ns, what);
        }
        let out = self.link.pop(now_ns);
        if let Some(out) = &out {
            self.sojourn_ns_max = self.sojourn_ns_max.max(out.sent_ns - out.in_ns);
        }
        out
    }

    #[cold]
    fn push_noted(&mut self, now_ns: u64, bytes: u32, ect: bool, packet: P, what: fn(&P) -> What) {
        let (what, before) = (what(&packet), *self.link.stats());
        self.link.push(now_ns, bytes, ect, packet);
        self.note(now_ns, Step::In, bytes, what);
        self.note_drops(now_ns, what, &before);
    }

    /// Notes the packet that is about to be popped, and what was dropped by then.
    #[cold]
    fn note_next(&mut self, now_ns: u64, what: fn(&P) -> What) {
        let before = *self.link.stats();
        self.link.advance(now_ns);
        let next = self
            .link
            .peek()
            .map(|(packet, bytes, in_ns, sent_ns)| (what(packet), bytes, Step::Out { in_ns, sent_ns }));
        self.note_drops(now_ns, next.map_or(What::Unknown, |(what, ..)| what), &before);
        if let Some((what, bytes, step)) = next {
            self.note(now_ns, step, bytes, what);
        }
    }

    pub(crate) fn close_bin(&mut self, t_us: u64) {
        let (now, then) = (*self.link.stats(), self.at_last_bin);
        self.bins.push(LinkBin {
            t_us,
            rate_bps: self.spec.rate_bps_at(t_us * 1000),
            in_packets: now.in_packets - then.in_packets,
            in_bytes: now.in_bytes - then.in_bytes,
            out_packets: now.out_packets - then.out_packets,
            out_bytes: now.out_bytes - then.out_bytes,
            drop_packets: now.drop_packets - then.drop_packets,
            drop_bytes: now.drop_bytes - then.drop_bytes,
            lost_packets: now.lost_packets - then.lost_packets,
            mark_packets: now.mark_packets - then.mark_packets,
            queue_bytes_max: self.queue_bytes_max,
            sojourn_us_max: self.sojourn_ns_max / 1000,
        });
        self.at_last_bin = now;
        self.queue_bytes_max = now.queue_bytes;
        self.sojourn_ns_max = 0;
    }

    fn note(&mut self, t_ns: u64, step: Step, bytes: u32, what: What) {
        if let Some(rows) = &mut self.rows {
            rows.push(PacketRow { t_ns, is_down: false, step, bytes, what });
        }
    }

    fn note_drops(&mut self, t_ns: u64, what: What, before: &LinkStats) {
        let now = *self.link.stats();
        let packets = now.drop_packets - before.drop_packets;
        if packets > 0 {
            let bytes = u32::try_from(now.drop_bytes - before.drop_bytes).unwrap_or(u32::MAX);
            self.note(t_ns, Step::Drop { packets }, bytes, what);
        }
    }

    pub(crate) fn finish(self) -> (Vec<LinkBin>, Vec<PacketRow>) {
        (self.bins, self.rows.unwrap_or_default())
    }
}
