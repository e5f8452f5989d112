//! What is done when: slots of equal length, in groups of five. Two pairs of whole slots, each with both controllers in an order
//! that a coin decides, so that hours and days weigh on both alike; and one slot that is half and half.

use headway_cc::rand::Rng;
use serde::{Deserialize, Serialize};

/// What a coin is thrown for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// All traffic for a slot: says what moving all of it does.
    #[default]
    Slot,
    /// A remote network (a /24, a /48) for a slot: the same where each network has a bottleneck of its own.
    Prefix,
    /// A connection: shows harm, but no size where connections share a bottleneck.
    Connection,
}

/// What new connections of a slot get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A few get the candidate, to see whether it does harm. Counts for nothing else.
    Canary,
    /// All get this one of the two.
    Whole(usize),
    /// Each gets either: a coin is thrown for each connection, or with [`By::Prefix`] for each network.
    Half,
}

/// One slot of the schedule; its place in the schedule is its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The slots that are compared with each other have the same number: a pair of whole ones, or a half one alone.
    pub pair: u32,
    /// Five slots that stand together.
    pub group: u32,
    pub kind: Kind,
}

/// Two pairs and a half slot.
pub const GROUP: u32 = 5;

/// The chance of the candidate in a slot, in 65536.
pub fn chance(kind: Kind, canary: f64) -> u32 {
    match kind {
        Kind::Canary => (canary * 65_536.0) as u32,
        Kind::Whole(arm) => 65_536 * arm as u32,
        Kind::Half => 32_768,
    }
}

/// The slots of a trial. The same seed gives the same ones, so that a trial that was killed goes on with its own. A last pair that
/// has no room is left out, a last half slot is not.
pub fn slots(count: u32, by: By, has_canary: bool, seed: u64) -> Vec<Slot> {
    let mut slots = Vec::new();
    if has_canary {
        slots.push(Slot { pair: u32::MAX, group: u32::MAX, kind: Kind::Canary });
    }
    let mut rng = Rng::new(seed, 1);
    let (mut pair, mut group) = (0, 0);
    while (slots.len() as u32) < count {
        let half_at = rng.below(3);
        let mut coins = [rng.below(2), rng.below(2)].into_iter();
        let mut next = |kinds: &[Kind]| {
            slots.extend(kinds.iter().map(|kind| Slot { pair, group, kind: *kind }));
            pair += 1;
        };
        match by {
            By::Prefix | By::Connection => (0..GROUP).for_each(|_| next(&[Kind::Half])),
            By::Slot => (0..3).for_each(|place| match place {
                _ if place == half_at => next(&[Kind::Half]),
                _ => {
                    let first = coins.next().map_or(0, |coin| coin as usize);
                    next(&[Kind::Whole(first), Kind::Whole(1 - first)]);
                }
            }),
        }
        group += 1;
    }
    slots.truncate(count as usize);
    let last = slots.last().copied();
    let is_cut = |last: Slot| {
        matches!(last.kind, Kind::Whole(_)) && slots.iter().filter(|s| s.pair == last.pair).count() == 1
    };
    if last.is_some_and(is_cut) {
        slots.pop();
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_has_both_and_a_group_one_half_slot() {
        for seed in 0..50 {
            let slots = slots(40, By::Slot, false, seed);
            for group in 0..8 {
                let here: Vec<&Slot> = slots.iter().filter(|s| s.group == group).collect();
                assert_eq!((here.len(), here.iter().filter(|s| s.kind == Kind::Half).count()), (5, 1));
            }
            for slot in slots.iter().filter(|s| s.kind != Kind::Half) {
                let arms: Vec<Kind> = slots.iter().filter(|s| s.pair == slot.pair).map(|s| s.kind).collect();
                assert!(arms == [Kind::Whole(0), Kind::Whole(1)] || arms == [Kind::Whole(1), Kind::Whole(0)]);
            }
        }
    }

    /// A fair coin: of 3200 pairs the candidate is first in 1600 ± 5 × 28.3. Pairs of one trial must not hang on each other, so of
    /// 1600 neighbours 800 ± 5 × 20 have the same order.
    #[test]
    fn a_coin_decides_which_of_a_pair_is_first() {
        let (mut first, mut same) = (0, 0);
        for seed in 0..200 {
            let slots = slots(40, By::Slot, false, seed);
            let order: Vec<bool> = (0..24)
                .filter_map(|pair| slots.iter().find(|s| s.pair == pair))
                .filter(|s| s.kind != Kind::Half)
                .map(|s| s.kind == Kind::Whole(1))
                .collect();
            first += order.iter().filter(|b| **b).count();
            same += order.chunks(2).filter(|c| c[0] == c[1]).count();
        }
        assert!((1459..1741).contains(&first), "{first}");
        assert!((700..900).contains(&same), "{same}");
    }

    #[test]
    fn a_pair_without_room_is_left_out_and_the_canary_comes_first() {
        for count in 1..30 {
            let slots = slots(count, By::Slot, true, 7);
            assert!(slots.len() as u32 >= count - 1 && slots[0].kind == Kind::Canary);
            let pairs = slots.iter().filter(|s| matches!(s.kind, Kind::Whole(_))).count();
            assert_eq!(pairs % 2, 0, "{count}");
        }
        assert!(slots(9, By::Prefix, false, 1).iter().all(|s| s.kind == Kind::Half));
        assert_eq!(slots(9, By::Slot, false, 1), slots(9, By::Slot, false, 1));
        assert_eq!([chance(Kind::Canary, 0.05), chance(Kind::Whole(1), 0.0)], [3276, 65_536]);
    }
}
