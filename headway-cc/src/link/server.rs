//! When a packet has been serialised: at a constant rate, over a schedule of rates, or by a trace of chances to send.
//!
//! The fraction of a nanosecond that one packet leaves over is where the next one starts. Were it dropped, small
//! packets would pass a fast link too fast by some per cent (64 bytes at 100 Gbit/s take 5.12 ns).

use super::{LinkSpec, Step, TRACE_SLOT_BYTES, Trace, UNLIMITED};
use crate::rand::BILLION;
use std::sync::Arc;

/// A time that never comes.
pub(super) const NEVER: u64 = u64::MAX;
/// Beyond every real time (146 years) and still safe to add to.
pub(super) const FAR: u64 = 1 << 62;
/// Larger packets are served as if they had this size, so that products fit in 64 bits.
const MAX_BYTES: u32 = 1 << 24;

/// The transmitter of a link.
#[derive(Debug)]
pub(super) struct Server {
    /// When the last packet was serialised, in whole nanoseconds.
    ns: u64,
    /// The rest of that time, in units of 1 / `rate_bps` of a nanosecond; below `rate_bps`.
    part: u64,
    /// Both, rounded up to whole nanoseconds; [`NEVER`] when it never will be.
    free_ns: u64,
    rate_bps: u64,
    /// Delay in force.
    pub delay_ns: u64,
    /// Index of the next step and the time of the start of the pass it belongs to.
    next: usize,
    pass_ns: u64,
    /// When the next step is due; [`FAR`] for never.
    change_ns: u64,
    steps: Vec<Step>,
    repeat_ns: Option<u64>,
    /// Index of a step whose loss has come into force and was not collected yet.
    loss_step: Option<usize>,
    /// Serialisation time of packets of `size` bytes at the present rate, whole and rest as above. With a trace no
    /// packet has this size.
    size: u32,
    size_ns: u64,
    size_part: u64,
    chances: Option<Chances>,
}

impl Server {
    pub fn new(spec: &LinkSpec) -> Self {
        let steps = full_steps(spec);
        // Waiting for a rate that no pass brings would never end.
        let has_rate = spec.rate_bps > 0 || steps.iter().any(|s| s.rate_bps > Some(0));
        let mut server = Self {
            ns: 0,
            part: 0,
            free_ns: 0,
            rate_bps: spec.rate_bps,
            delay_ns: spec.delay_ns,
            next: 0,
            pass_ns: 0,
            change_ns: steps.first().map_or(FAR, |s| s.at_ns),
            steps,
            repeat_ns: spec.repeat_ns.filter(|_| has_rate),
            loss_step: None,
            size: 0,
            size_ns: 0,
            size_part: 0,
            chances: spec.trace.as_ref().map(Chances::new),
        };
        server.remember(1500);
        server
    }

    /// From when the next packet can be served.
    #[inline]
    pub fn free_ns(&self) -> u64 {
        self.free_ns
    }

    /// After a pause: the next packet is served from `now_ns` on, which is not before [`Server::free_ns`].
    #[inline]
    pub fn resume(&mut self, now_ns: u64) {
        (self.ns, self.part, self.free_ns) = (now_ns, 0, now_ns);
        if self.change_ns <= now_ns {
            self.apply_until(now_ns);
        }
    }

    /// Serves one packet right after the one before (or after [`Server::resume`]); the time it is through, rounded
    /// up, or [`NEVER`].
    #[inline]
    pub fn serve(&mut self, bytes: u32) -> u64 {
        if bytes != self.size {
            if self.chances.is_some() {
                return self.serve_by_chance(bytes);
            }
            self.remember(bytes);
        }
        let (mut ns, mut part) = (self.ns + self.size_ns, self.part + self.size_part);
        if part >= self.rate_bps {
            part -= self.rate_bps;
            ns += 1;
        }
        let sent_ns = ns + u64::from(part > 0);
        if sent_ns >= self.change_ns {
            return self.serve_over_changes(bytes);
        }
        (self.ns, self.part, self.free_ns) = (ns, part, sent_ns);
        sent_ns
    }

    /// The step whose loss came into force since the last call.
    #[inline]
    pub fn take_loss_step(&mut self) -> Option<&Step> {
        self.loss_step.take().map(|index| &self.steps[index])
    }

    /// Not within the present rate alone. Nothing begins after [`FAR`], so that a queue which never ends does not
    /// overflow the time.
    fn serve_over_changes(&mut self, bytes: u32) -> u64 {
        if self.free_ns >= FAR {
            return NEVER;
        }
        let mut work = work_of(bytes);
        while self.rate_bps != UNLIMITED {
            if let Some(total) = (self.part + work).checked_div(self.rate_bps) {
                let (ns, part) = (self.ns + total, (self.part + work) % self.rate_bps);
                if ns + u64::from(part > 0) <= self.change_ns || self.change_ns == FAR {
                    (self.ns, self.part) = (ns, part);
                    break;
                }
                work -= (self.change_ns - self.ns) * self.rate_bps - self.part;
            } else if self.change_ns == FAR {
                (self.ns, self.part, self.free_ns) = (FAR, 0, NEVER);
                return NEVER;
            }
            (self.ns, self.part) = (self.change_ns, 0);
            self.apply();
        }
        self.remember(bytes);
        self.free_ns = self.ns + u64::from(self.part > 0);
        self.free_ns
    }

    fn serve_by_chance(&mut self, bytes: u32) -> u64 {
        let Some(chances) = &mut self.chances else { return NEVER };
        self.ns = chances.serve(self.free_ns, bytes);
        self.free_ns = self.ns;
        if self.change_ns <= self.ns && self.ns != NEVER {
            self.apply_until(self.ns);
        }
        self.ns
    }

    /// Brings every step up to `now_ns` into force.
    fn apply_until(&mut self, now_ns: u64) {
        if let Some(period_ns) = self.repeat_ns
            && now_ns - self.pass_ns >= 2 * period_ns
        {
            // A pass starts with a step that sets everything, so whole passes can be left out.
            self.pass_ns = now_ns - (now_ns - self.pass_ns) % period_ns;
            (self.next, self.change_ns) = (0, self.pass_ns);
        }
        while self.change_ns <= now_ns {
            self.apply();
        }
        self.remember(self.size);
    }

    /// Brings the next step into force.
    fn apply(&mut self) {
        let step = &self.steps[self.next];
        self.rate_bps = step.rate_bps.unwrap_or(self.rate_bps);
        self.delay_ns = step.delay_ns.unwrap_or(self.delay_ns);
        if step.loss.is_some() {
            self.loss_step = Some(self.next);
        }
        self.next += 1;
        if self.next == self.steps.len()
            && let Some(period_ns) = self.repeat_ns
        {
            self.next = 0;
            self.pass_ns += period_ns;
        }
        self.change_ns = self.steps.get(self.next).map_or(FAR, |s| self.pass_ns + s.at_ns);
    }

    fn remember(&mut self, bytes: u32) {
        let work = work_of(bytes);
        self.size = if self.chances.is_some() { u32::MAX } else { bytes };
        (self.size_ns, self.size_part) = match self.rate_bps {
            UNLIMITED => (0, 0),
            0 => (FAR, 0),
            rate_bps => (work / rate_bps, work % rate_bps),
        };
    }
}

/// Bits times 10^9: a link of rate r does r of it in a nanosecond.
fn work_of(bytes: u32) -> u64 {
    u64::from(bytes.min(MAX_BYTES)) * 8 * BILLION
}

/// The steps, with one at the start of each pass that restores everything when they repeat.
fn full_steps(spec: &LinkSpec) -> Vec<Step> {
    let mut steps = spec.steps.clone();
    if spec.repeat_ns.is_none() || steps.is_empty() {
        return steps;
    }
    if steps[0].at_ns > 0 {
        steps.insert(0, Step::default());
    }
    let first = &mut steps[0];
    first.rate_bps.get_or_insert(spec.rate_bps);
    first.delay_ns.get_or_insert(spec.delay_ns);
    // Only where the loss changes: setting it restarts its state.
    if spec.steps.iter().any(|s| s.loss.is_some()) {
        steps[0].loss.get_or_insert_with(|| spec.loss.clone());
    }
    steps
}

/// A position in a rate trace.
#[derive(Debug)]
struct Chances {
    at_ms: Arc<[u32]>,
    period_ns: u64,
    pass_ns: u64,
    index: usize,
    /// Bytes left in the chance at `index`.
    left: u64,
}

impl Chances {
    fn new(trace: &Trace) -> Self {
        let at_ms = trace.at_ms.clone();
        Self { period_ns: trace.period_ns(), at_ms, pass_ns: 0, index: 0, left: TRACE_SLOT_BYTES }
    }

    /// Takes `bytes` from the chances at `start_ns` and later; the time of the last one used.
    fn serve(&mut self, start_ns: u64, bytes: u32) -> u64 {
        if self.period_ns == 0 || start_ns == NEVER {
            return NEVER;
        }
        if self.at_ns() < start_ns {
            self.skip_to(start_ns);
        }
        let mut need = u64::from(bytes);
        loop {
            let taken = need.min(self.left);
            need -= taken;
            self.left -= taken;
            if need == 0 {
                return self.at_ns();
            }
            self.step();
        }
    }

    fn at_ns(&self) -> u64 {
        self.pass_ns + u64::from(self.at_ms[self.index]) * 1_000_000
    }

    fn step(&mut self) {
        self.left = TRACE_SLOT_BYTES;
        self.index += 1;
        if self.index == self.at_ms.len() {
            self.index = 0;
            self.pass_ns += self.period_ns;
        }
    }

    /// To the first chance at or after `start_ns`, which is after the present one.
    fn skip_to(&mut self, start_ns: u64) {
        let passes = (start_ns - self.pass_ns - 1) / self.period_ns;
        self.pass_ns += passes * self.period_ns;
        let within_ns = start_ns - self.pass_ns;
        self.index = self.at_ms.partition_point(|ms| u64::from(*ms) * 1_000_000 < within_ns);
        self.left = TRACE_SLOT_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(spec: LinkSpec) -> Server {
        Server::new(&spec)
    }

    fn rate(at_ns: u64, rate_bps: u64) -> Step {
        Step { at_ns, rate_bps: Some(rate_bps), ..Step::default() }
    }

    #[test]
    fn serialisation_does_not_drift() {
        // 1500 bytes at 70 Mbit/s take 171428 4/7 ns.
        let mut s = server(LinkSpec { rate_bps: 70_000_000, ..LinkSpec::default() });
        let times: Vec<u64> = (0..7_000_000).map(|_| s.serve(1500)).collect();
        assert_eq!(times[6], 1_200_000);
        assert_eq!(times[6_999_999], 1_200_000_000_000);
        assert_eq!(times[0], 171_429);
    }

    #[test]
    fn a_packet_can_span_changes_and_an_outage() {
        let steps = vec![rate(6_000_000, 0), rate(8_000_000, 2_000_000)];
        let mut s = server(LinkSpec { rate_bps: 1_000_000, steps, ..LinkSpec::default() });
        // 12 kbit: 6 in the first 6 ms, none for 2 ms, 6 in 3 ms.
        assert_eq!(s.serve(1500), 11_000_000);
        assert_eq!(s.serve(1500), 17_000_000);
    }

    /// By hand: 1500 bytes at 7 Gbit/s take 1714 2/7 ns, and the outage begins before the last of that.
    #[test]
    fn the_rest_of_a_nanosecond_waits_for_the_end_of_an_outage() {
        let steps = vec![rate(1714, 0), rate(2000, 7_000_000_000)];
        let mut s = server(LinkSpec { rate_bps: 7_000_000_000, steps, ..LinkSpec::default() });
        assert_eq!(s.serve(1500), 2001);
    }

    #[test]
    fn an_outage_without_end_never_sends() {
        let mut s =
            server(LinkSpec { rate_bps: 1_000_000, steps: vec![rate(6_000_000, 0)], ..LinkSpec::default() });
        assert_eq!(s.serve(1500), NEVER);
        assert_eq!(s.free_ns(), NEVER);
    }

    #[test]
    fn absurd_schedules_end() {
        let still =
            LinkSpec { rate_bps: 0, steps: vec![rate(5, 0)], repeat_ns: Some(10), ..LinkSpec::default() };
        assert_eq!(server(still).serve(1500), NEVER);
        let mut s = server(LinkSpec { rate_bps: 1, ..LinkSpec::default() });
        s.resume(FAR - 1);
        assert_eq!(s.serve(1500), FAR - 1 + 12_000 * BILLION);
    }

    #[test]
    fn a_schedule_repeats_also_after_a_long_pause() {
        let spec = LinkSpec {
            rate_bps: 12_000_000,
            steps: vec![rate(5_000_000, 1_200_000)],
            repeat_ns: Some(10_000_000),
            ..LinkSpec::default()
        };
        for pass in [0, 1, 2, 3, 1000] {
            let mut s = server(spec.clone());
            s.resume(pass * 10_000_000 + 1_000_000);
            assert_eq!(s.serve(1500), pass * 10_000_000 + 2_000_000, "pass {pass}");
            s.resume(pass * 10_000_000 + 9_500_000);
            // A twentieth of the packet at the low rate, the rest in the next pass.
            assert_eq!(s.serve(1500), pass * 10_000_000 + 10_950_000, "pass {pass}");
        }
    }

    #[test]
    fn a_trace_gives_1500_bytes_a_chance() {
        let trace = Trace { name: "t".into(), at_ms: [0, 1, 2, 3, 4, 5].into() };
        let mut s = server(LinkSpec { trace: Some(trace.clone()), ..LinkSpec::default() });
        let times: Vec<u64> = (0..8).map(|_| s.serve(1500) / 1_000_000).collect();
        assert_eq!(times, [0, 1, 2, 3, 4, 5, 5, 6]);
        // Three small packets share a chance, a large one spans several.
        let mut s = server(LinkSpec { trace: Some(trace), ..LinkSpec::default() });
        let times: Vec<u64> = [500, 500, 500, 4000, 400].iter().map(|b| s.serve(*b) / 1_000_000).collect();
        assert_eq!(times, [0, 0, 0, 3, 3]);
        s.resume(3_000_001);
        assert_eq!(s.serve(100), 4_000_000);
        s.resume(1_000_005_000_000);
        assert_eq!(s.serve(1500), 1_000_005_000_000);
        assert_eq!(s.serve(1500), 1_000_005_000_000, "the end of one pass is the start of the next");
    }
}
