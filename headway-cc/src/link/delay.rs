//! What comes on top of the propagation delay: jitter, packets that are held back and overtaken, and release in
//! bursts, as an aggregating Wi-Fi or cable link does it.

use super::{Jitter, LinkSpec, Reorder};
use crate::rand::{Rng, hash, normal_of, scale};

/// The random part of the delay, with its own random streams.
#[derive(Debug)]
pub(super) struct Extra {
    jitter: Option<Jitter>,
    reorder: Option<Reorder>,
    release_ns: u64,
    /// Packets arrive in the order they left.
    keeps_order: bool,
    last_ns: u64,
    jitter_rng: Rng,
    reorder_rng: Rng,
    /// Seed of the draws that hold for an interval. They depend on the time alone, so that every controller meets the
    /// same delays, whatever it sends.
    hold_seed: u64,
}

impl Extra {
    pub fn new(spec: &LinkSpec, jitter_rng: Rng, reorder_rng: Rng, hold_seed: u64) -> Self {
        Self {
            jitter: spec.jitter,
            reorder: spec.reorder,
            release_ns: spec.release_ns,
            keeps_order: spec.reorder.is_none(),
            last_ns: 0,
            jitter_rng,
            reorder_rng,
            hold_seed,
        }
    }

    /// When a packet serialised at `sent_ns` arrives, given the propagation delay.
    pub fn arrival_ns(&mut self, sent_ns: u64, delay_ns: u64) -> u64 {
        let mut at_ns = sent_ns + delay_ns + self.jitter_ns(sent_ns);
        if let Some(reorder) = self.reorder
            && self.reorder_rng.chance(reorder.ppb)
        {
            at_ns += reorder.extra_ns;
        }
        if self.release_ns > 0 {
            at_ns = at_ns.next_multiple_of(self.release_ns);
        }
        if self.keeps_order {
            at_ns = at_ns.max(self.last_ns);
            self.last_ns = at_ns;
        }
        at_ns
    }

    fn jitter_ns(&mut self, sent_ns: u64) -> u64 {
        let Some(jitter) = self.jitter else { return 0 };
        let mut draws = 0;
        let mut draw = || {
            draws += 1;
            match sent_ns.checked_div(jitter.hold_ns) {
                Some(index) => hash(self.hold_seed, 3 * index + draws),
                None => self.jitter_rng.bits(),
            }
        };
        if !jitter.normal {
            return scale(draw(), jitter.size_ns + 1);
        }
        let deviations = normal_of([draw(), draw(), draw()]).clamp(-3 * 65_536, 3 * 65_536) + 3 * 65_536;
        ((u128::from(jitter.size_ns) * deviations as u128) >> 16) as u64
    }
}
