//! What happened at the two links, counted in bins of the links' time, for `link.txt`.

use crate::raw::link::{self, Bin};
use headway_cc::link::{LinkStats, Out};
use headway_cc::path::Path;

/// One direction's counters. Arrivals, drops and queue lengths count in the bin of their moment, departures in the
/// bin in which the packet left the queue by the link's clock: later, when it is written to a device, the emulator
/// may be late.
#[derive(Debug)]
pub struct Bins {
    bin_ns: u64,
    rows: Vec<Bin>,
    /// The link's totals when they were last counted here.
    seen: LinkStats,
}

impl Bins {
    pub fn new(bin_us: u64) -> Bins {
        Bins { bin_ns: bin_us.max(1) * 1000, rows: Vec::new(), seen: LinkStats::default() }
    }

    /// Counts what the link did since the last call. `stats` are its totals after something entered or left at
    /// `now_ns`.
    pub fn on_stats(&mut self, now_ns: u64, stats: &LinkStats) {
        let seen = std::mem::replace(&mut self.seen, *stats);
        let bin = self.bin(now_ns);
        bin.in_packets += stats.in_packets - seen.in_packets;
        bin.in_bytes += stats.in_bytes - seen.in_bytes;
        bin.drop_packets += stats.drop_packets - seen.drop_packets;
        bin.drop_bytes += stats.drop_bytes - seen.drop_bytes;
        bin.lost_packets += stats.lost_packets - seen.lost_packets;
        bin.mark_packets += stats.mark_packets - seen.mark_packets;
        bin.queue_bytes_max = bin.queue_bytes_max.max(stats.queue_bytes);
    }

    /// Counts a packet that the link released and that is written to a device at `now_ns`.
    pub fn on_out<P>(&mut self, now_ns: u64, out: &Out<P>) {
        let bin = self.bin(out.sent_ns);
        bin.out_packets += 1;
        bin.out_bytes += u64::from(out.bytes);
        bin.sojourn_us_max = bin.sojourn_us_max.max((out.sent_ns - out.in_ns).div_ceil(1000));
        let bin = self.bin(now_ns);
        bin.late_us_max = bin.late_us_max.max(now_ns.saturating_sub(out.at_ns).div_ceil(1000));
    }

    fn bin(&mut self, at_ns: u64) -> &mut Bin {
        let index = (at_ns / self.bin_ns) as usize;
        if index >= self.rows.len() {
            self.rows.resize(index + 1, Bin::default());
        }
        &mut self.rows[index]
    }
}

/// The text of `link.txt` for the bins of `down` and `up`, up to the bin in which `end_ns` lies.
pub fn link_text([down, up]: [&Bins; 2], end_ns: u64, path: &Path) -> String {
    let rows = (end_ns.div_ceil(down.bin_ns) as usize).max(down.rows.len()).max(up.rows.len());
    let at = |index: usize| {
        [(down, &path.down), (up, &path.up)].map(|(bins, spec)| {
            let t_ns = index as u64 * bins.bin_ns;
            let (t_us, rate_bps) = ((t_ns / 1000) as i64, spec.rate_bps_at(t_ns));
            Bin { t_us, rate_bps, ..bins.rows.get(index).copied().unwrap_or_default() }
        })
    };
    link::to_text((0..rows).map(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departures_count_when_they_left_the_queue() {
        let mut bins = Bins::new(100_000);
        let stats = LinkStats { in_packets: 2, in_bytes: 3000, queue_bytes: 1500, ..LinkStats::default() };
        bins.on_stats(1_000_000, &stats);
        let (in_ns, sent_ns, at_ns) = (0, 99_000_000, 119_000_000);
        bins.on_out(120_000_000, &Out { packet: (), bytes: 1500, ce: false, in_ns, sent_ns, at_ns });
        let path: Path = "1mbit 40ms @100ms 2mbit".parse().unwrap();
        let text = link_text([&bins, &Bins::new(100_000)], 200_000_000, &path);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[1], "0 down 1000000 2 3000 1 1500 0 0 0 0 1500 99000 0");
        assert_eq!(rows[2], "0 up - 0 0 0 0 0 0 0 0 0 0 0");
        assert_eq!(rows[3], "100000 down 2000000 0 0 0 0 0 0 0 0 0 0 1000");
        assert_eq!(rows.len(), 5);
        assert_eq!(rows[0].split(' ').count(), rows[1].split(' ').count() + 1, "{}", rows[0]);
    }
}
