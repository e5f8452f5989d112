//! Which packets the wire loses: at random, by the two-state Gilbert-Elliott model, in runs, in alternating phases or
//! as a recording says. Queues drop packets elsewhere; these losses have nothing to do with congestion.

use super::Loss;
use crate::rand::{BILLION, Rng};

/// A loss model with its own random stream.
#[derive(Debug)]
pub(super) struct Losses {
    loss: Loss,
    rng: Rng,
    /// Gilbert-Elliott: in the bad state.
    is_bad: bool,
    /// Random: lost in a row so far. Burst: still to be lost.
    run: u32,
    /// Burst: chance that a run starts, of 2^63.
    start: u64,
    /// Trace: the row in force and the time its pass started.
    row: usize,
    pass_ns: u64,
}

impl Losses {
    pub fn new(rng: Rng) -> Self {
        Self { loss: Loss::None, rng, is_bad: false, run: 0, start: 0, row: 0, pass_ns: 0 }
    }

    /// Changes the model; the random stream goes on.
    pub fn set(&mut self, loss: &Loss) {
        (self.is_bad, self.run, self.row, self.pass_ns) = (false, 0, 0, 0);
        if let Loss::Burst { ppb, run } = loss {
            // Share r in runs of n, a run starting with chance s outside of one: r = n / (n + (1 - s) / s).
            let (ppb, run) = (u128::from(*ppb), u128::from(*run));
            let all = ppb + run * (u128::from(BILLION) - ppb);
            self.start = ((ppb << 63) / all.max(1)) as u64;
        }
        self.loss = loss.clone();
    }

    /// Is the packet that was serialised at `at_ns` lost? Times must not fall.
    pub fn is_lost(&mut self, at_ns: u64) -> bool {
        match self.loss {
            Loss::None => false,
            Loss::Random { ppb, max_run } => {
                let is_lost = self.rng.chance(ppb) && (max_run == 0 || self.run < max_run);
                self.run = if is_lost { self.run.saturating_add(1) } else { 0 };
                is_lost
            }
            Loss::Elliott { to_bad_ppb, to_good_ppb, good_ppb, bad_ppb } => {
                let leave_ppb = if self.is_bad { to_good_ppb } else { to_bad_ppb };
                self.is_bad ^= self.rng.chance(leave_ppb);
                self.rng.chance(if self.is_bad { bad_ppb } else { good_ppb })
            }
            Loss::Burst { run, .. } => {
                if self.run == 0 && self.rng.bits() >> 1 < self.start {
                    self.run = run;
                }
                let is_lost = self.run > 0;
                self.run = self.run.saturating_sub(1);
                is_lost
            }
            Loss::Square { first_ppb, second_ppb, period_ns } => {
                let is_first = at_ns % period_ns.max(1) < period_ns.div_ceil(2);
                self.rng.chance(if is_first { first_ppb } else { second_ppb })
            }
            Loss::Trace(_) => {
                let ppb = self.recorded_ppb(at_ns);
                self.rng.chance(ppb)
            }
        }
    }

    fn recorded_ppb(&mut self, at_ns: u64) -> u32 {
        let Loss::Trace(trace) = &self.loss else { return 0 };
        let Some((period_ns, _)) = trace.rows.last() else { return 0 };
        if at_ns - self.pass_ns >= *period_ns {
            self.pass_ns = at_ns - at_ns % period_ns;
            self.row = 0;
        }
        while trace.rows[self.row].0 <= at_ns - self.pass_ns {
            self.row += 1;
        }
        trace.rows[self.row].1
    }
}

#[cfg(test)]
mod tests {
    use super::super::LossTrace;
    use super::*;

    const N: u64 = 1_000_000;

    /// One packet a microsecond.
    fn pattern(loss: Loss) -> Vec<bool> {
        let mut losses = Losses::new(Rng::new(7, 0));
        losses.set(&loss);
        (0..N).map(|i| losses.is_lost(i * 1000)).collect()
    }

    fn lost(pattern: &[bool]) -> u64 {
        pattern.iter().filter(|l| **l).count() as u64
    }

    fn runs(pattern: &[bool]) -> Vec<u64> {
        pattern.split(|l| !l).filter(|r| !r.is_empty()).map(|r| r.len() as u64).collect()
    }

    #[test]
    fn random_loss_is_within_five_sigma() {
        for ppb in [1_000_000u32, 10_000_000, 300_000_000] {
            let p = f64::from(ppb) / 1e9;
            let sigma = (N as f64 * p * (1.0 - p)).sqrt();
            let lost = lost(&pattern(Loss::Random { ppb, max_run: 0 })) as f64;
            assert!((lost - N as f64 * p).abs() < 5.0 * sigma, "{lost} at {p}");
        }
    }

    #[test]
    fn runs_of_random_loss_can_be_capped() {
        let runs = runs(&pattern(Loss::Random { ppb: 300_000_000, max_run: 3 }));
        assert_eq!(runs.iter().max(), Some(&3));
    }

    #[test]
    fn elliott_has_its_stationary_share_and_burst_length() {
        let loss = Loss::Elliott {
            to_bad_ppb: 10_000_000,
            to_good_ppb: 250_000_000,
            good_ppb: 0,
            bad_ppb: 1_000_000_000,
        };
        let pattern = pattern(loss);
        let (lost, runs) = (lost(&pattern) as f64, runs(&pattern).len() as f64);
        // Mean burst 1 / 25 %, deviation of a geometric length sqrt(1 - r) / r.
        assert!((lost / runs - 4.0).abs() < 5.0 * 0.75f64.sqrt() / 0.25 / runs.sqrt(), "{}", lost / runs);
        // A share of 1 / 26; a cycle (good and bad) is 104 packets.
        assert!((lost / N as f64 - 1.0 / 26.0).abs() < 0.002, "{lost}");
    }

    /// A packet first moves the state and is then lost by the chance of the new one.
    #[test]
    fn elliott_moves_before_it_draws() {
        let certain = 1_000_000_000;
        let loss = Loss::Elliott { to_bad_ppb: certain, to_good_ppb: certain, good_ppb: 0, bad_ppb: certain };
        assert_eq!(pattern(loss)[..4], [true, false, true, false]);
    }

    #[test]
    fn bursts_have_their_length_and_share() {
        let pattern = pattern(Loss::Burst { ppb: 10_000_000, run: 5 });
        assert!(runs(&pattern).iter().all(|r| r % 5 == 0));
        // 2000 runs expected, each a nearly independent event.
        assert!((lost(&pattern) / 5).abs_diff(2000) < 5 * 45, "{}", lost(&pattern));
        assert!(self::pattern(Loss::Burst { ppb: 1_000_000_000, run: 5 }).iter().all(|l| *l));
    }

    #[test]
    fn a_square_wave_alternates() {
        let pattern = pattern(Loss::Square { first_ppb: 0, second_ppb: 1_000_000_000, period_ns: 2_000_000 });
        assert!(pattern.iter().enumerate().all(|(i, l)| *l == (i / 1000 % 2 == 1)));
    }

    #[test]
    fn a_recorded_loss_repeats() {
        let rows = [(1_000_000, 0), (1_500_000, 1_000_000_000), (4_000_000, 0)].into();
        let pattern = pattern(Loss::Trace(LossTrace { name: "t".into(), rows }));
        assert!(pattern.iter().enumerate().all(|(i, l)| *l == (1000..1500).contains(&(i % 4000))));
    }
}
