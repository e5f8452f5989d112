//! CoDel (RFC 8289): drops packets at the head of the queue once they have waited longer than a target for a whole
//! interval, and the more often the longer that lasts. A queue that comes and goes within an interval is left alone,
//! because it absorbs bursts; one that stays only adds delay.

use super::CodelSpec;

/// What to do with the packet at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    /// Send it, marked CE.
    Mark,
    /// Drop it and ask again about the next one.
    Drop,
}

/// What the last verdict was, where CoDel goes on to the next packet at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    /// Dropped on entering the dropping state: the next one passes.
    Entered,
    /// Dropped in the dropping state.
    Dropped,
}

/// State of the control law, under the names of the RFC's pseudocode.
#[derive(Debug)]
pub(super) struct Codel {
    spec: CodelSpec,
    /// Whether ECT packets are marked instead of dropped.
    ecn: bool,
    first_above_ns: Option<u64>,
    dropping: bool,
    drop_next_ns: u64,
    count: u64,
    last_count: u64,
    before: Before,
}

impl Codel {
    pub fn new(spec: CodelSpec, ecn: bool) -> Self {
        let (first_above_ns, before) = (None, Before::Nothing);
        Self { spec, ecn, first_above_ns, dropping: false, drop_next_ns: 0, count: 0, last_count: 0, before }
    }

    /// Judges the packet at the head. `is_short`: at most one packet's worth of bytes waits behind it.
    pub fn judge(&mut self, now_ns: u64, sojourn_ns: u64, is_short: bool, ect: bool) -> Verdict {
        let is_late = self.is_late(now_ns, sojourn_ns, is_short);
        match std::mem::replace(&mut self.before, Before::Nothing) {
            Before::Entered => return Verdict::Pass,
            Before::Dropped if is_late => self.drop_next_ns = self.after(self.drop_next_ns),
            _ => {}
        }
        if !is_late {
            self.dropping = false;
            return Verdict::Pass;
        }
        let is_marked = self.ecn && ect;
        if !self.dropping {
            self.enter(now_ns);
            self.before = if is_marked { Before::Nothing } else { Before::Entered };
        } else if now_ns >= self.drop_next_ns {
            self.count += 1;
            if is_marked {
                self.drop_next_ns = self.after(self.drop_next_ns);
            } else {
                self.before = Before::Dropped;
            }
        } else {
            return Verdict::Pass;
        }
        if is_marked { Verdict::Mark } else { Verdict::Drop }
    }

    /// The queue has run empty after a drop.
    pub fn on_empty(&mut self) {
        self.first_above_ns = None;
        self.dropping = false;
        self.before = Before::Nothing;
    }

    /// RFC 8289 section 5.5: has the waiting time been above the target for a whole interval?
    fn is_late(&mut self, now_ns: u64, sojourn_ns: u64, is_short: bool) -> bool {
        if sojourn_ns < self.spec.target_ns || is_short {
            self.first_above_ns = None;
            return false;
        }
        let due_ns = *self.first_above_ns.get_or_insert(now_ns + self.spec.interval_ns);
        now_ns >= due_ns
    }

    /// RFC 8289 section 5.4: starts near the drop rate that controlled the queue last time, if that was recent.
    fn enter(&mut self, now_ns: u64) {
        let delta = self.count - self.last_count;
        let is_recent = now_ns.saturating_sub(self.drop_next_ns) < 16 * self.spec.interval_ns;
        self.dropping = true;
        self.count = if delta > 1 && is_recent { delta } else { 1 };
        self.drop_next_ns = self.after(now_ns);
        self.last_count = self.count;
    }

    /// The control law: interval / sqrt(count) later. The square fits in 64 bits because an interval is at most 4 s.
    fn after(&self, t_ns: u64) -> u64 {
        let interval_ns = self.spec.interval_ns.min(4_000_000_000);
        t_ns + (interval_ns * interval_ns / self.count.max(1)).isqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: CodelSpec = CodelSpec { target_ns: 5_000_000, interval_ns: 100_000_000 };

    /// Times of drops (or marks) when a packet that waited 20 ms is at the head every millisecond.
    fn drops(ecn: bool, until_ms: u64) -> Vec<u64> {
        let mut codel = Codel::new(SPEC, ecn);
        let mut times = Vec::new();
        for ms in 0..until_ms {
            loop {
                match codel.judge(ms * 1_000_000, 20_000_000, false, true) {
                    Verdict::Drop => times.push(ms),
                    Verdict::Mark => {
                        times.push(ms);
                        break;
                    }
                    Verdict::Pass => break,
                }
            }
        }
        times
    }

    #[test]
    fn gaps_follow_the_square_root_law() {
        for ecn in [false, true] {
            let times = drops(ecn, 1000);
            assert_eq!(times[0], 100, "not before one interval");
            // 100 / sqrt(1, 2, 3, …) ms after each other, on a grid of one millisecond.
            assert_eq!(&times[1..6], [200, 271, 329, 379, 424]);
            assert!(times.windows(3).all(|w| w[2] - w[1] <= w[1] - w[0] + 1), "{times:?}");
        }
    }

    const MS: u64 = 1_000_000;

    /// A packet that has waited 20 ms is at the head.
    fn late(codel: &mut Codel, now_ns: u64) -> Verdict {
        codel.judge(now_ns, 20 * MS, false, false)
    }

    /// Drops at exactly `due_ns`, not a nanosecond before, and lets the packet behind the dropped one pass.
    fn drops_at(codel: &mut Codel, due_ns: u64) {
        assert_eq!(late(codel, due_ns - 1), Verdict::Pass, "1 ns before {due_ns}");
        assert_eq!(late(codel, due_ns), Verdict::Drop, "at {due_ns}");
        assert_eq!(late(codel, due_ns), Verdict::Pass, "one drop at a time, at {due_ns}");
    }

    /// In the dropping state since 100 ms, with `drops` drops; what the law says for an interval of 100 ms (§5.4):
    /// 100 / sqrt(1, 2, 3, 4) ms after each other.
    fn dropping(drops: usize) -> Codel {
        const DUE_NS: [u64; 5] = [100_000_000, 200_000_000, 270_710_678, 328_445_704, 378_445_704];
        let mut codel = Codel::new(SPEC, false);
        assert_eq!(late(&mut codel, 0), Verdict::Pass);
        DUE_NS[..drops].iter().for_each(|due_ns| drops_at(&mut codel, *due_ns));
        codel
    }

    #[test]
    fn drops_come_at_the_times_of_the_law() {
        dropping(5);
    }

    /// §5.4: coming back soon, the law goes on from as many drops as it took to control the queue last time: those since it
    /// began there. "Soon" is less than 16 intervals after the next drop would have been due.
    #[test]
    fn dropping_resumes_where_it_was_for_sixteen_intervals() {
        let next_due_ns = 378_445_704;
        let resumed = |enters_ns: u64| {
            let mut codel = dropping(4);
            assert_eq!(codel.judge(350 * MS, 0, false, false), Verdict::Pass, "the queue is short");
            assert_eq!(late(&mut codel, enters_ns - 100 * MS), Verdict::Pass, "an interval begins");
            drops_at(&mut codel, enters_ns);
            codel
        };
        // Four drops, of which the first was counted at the entry: three remain, so 100 / sqrt(3) ms to the next.
        for enters_ns in [500 * MS, next_due_ns + 1600 * MS - 1] {
            drops_at(&mut resumed(enters_ns), enters_ns + 57_735_026);
        }
        // Sixteen intervals later it begins anew, with a whole interval to the next.
        let enters_ns = next_due_ns + 1600 * MS;
        drops_at(&mut resumed(enters_ns), enters_ns + 100 * MS);
    }

    /// §5.4: one drop more than at the entry is no experience.
    #[test]
    fn dropping_begins_anew_after_a_single_drop() {
        let mut codel = dropping(2);
        codel.judge(220 * MS, 0, false, false);
        late(&mut codel, 300 * MS);
        drops_at(&mut codel, 400 * MS);
        drops_at(&mut codel, 500 * MS);
    }

    /// §5.5: a wait is short if it is below the target, not if it is equal to it.
    #[test]
    fn a_wait_of_exactly_the_target_is_too_long() {
        let drops = |sojourn_ns: u64| {
            let mut codel = Codel::new(SPEC, false);
            (0..=100).any(|ms| codel.judge(ms * MS, sojourn_ns, false, false) == Verdict::Drop)
        };
        assert!(drops(5 * MS) && !drops(5 * MS - 1));
    }

    #[test]
    fn a_short_wait_ends_the_dropping() {
        let mut codel = Codel::new(SPEC, false);
        for ms in 0..300 {
            codel.judge(ms * 1_000_000, 20_000_000, false, false);
        }
        assert!(codel.dropping);
        assert_eq!(codel.judge(300_000_000, 4_999_999, false, false), Verdict::Pass);
        assert!(!codel.dropping);
        assert_eq!(
            codel.judge(399_000_000, 20_000_000, false, false),
            Verdict::Pass,
            "a new interval starts"
        );
        let mut codel = Codel::new(SPEC, false);
        assert!((0..1000).all(|ms| codel.judge(ms * 1_000_000, 20_000_000, true, false) == Verdict::Pass));
    }
}
