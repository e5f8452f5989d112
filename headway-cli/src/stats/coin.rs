//! What follows from a fair coin alone. In a trial a coin decides which slot of a pair gets which controller, so whatever
//! else differs between the two slots falls to either side alike: around the effect the differences of the pairs are symmetric.
//! Nothing is assumed about how they are distributed.

use super::{FLOOR_DRAWS, LEVEL, Shift, median_of_sorted, sorted, walsh_averages};
use headway_cc::rand::Rng;

/// Up to so many pairs, all orders that the coin could have given are tried.
const ALL_ORDERS: usize = 16;
/// With more, so many are drawn.
const DRAWS: u64 = 99_999;

/// The randomisation test of no effect, two-sided: in what share of all orders that the coin could have given would the mean
/// difference have been as large as it was? Without an effect another order only turns the sign of its pair. 1 without pairs.
pub fn randomisation_p(differences: &[f64]) -> f64 {
    let size = |signs: u64| {
        let signed = |(i, d): (usize, &f64)| if signs >> i & 1 == 1 { -d } else { *d };
        differences.iter().enumerate().map(signed).sum::<f64>().abs()
    };
    // Sums of the same numbers in another order differ in their last digits.
    let observed = differences.iter().sum::<f64>().abs() * (1.0 - 1e-12);
    if differences.len() <= ALL_ORDERS {
        let orders = 1u64 << differences.len();
        return (0..orders).filter(|signs| size(*signs) >= observed).count() as f64 / orders as f64;
    }
    let mut rng = Rng::new(1, 2);
    let mut drawn = || {
        let signed = differences.iter().map(|d| if rng.below(2) == 0 { -d } else { *d });
        signed.sum::<f64>().abs()
    };
    let hits = (0..DRAWS).filter(|_| drawn() >= observed).count();
    (hits + 1) as f64 / (DRAWS + 1) as f64
}

/// What the coin alone shows: if there were no effect, 95 % of the estimates would lie within ± this.
pub fn coin_noise(differences: &[f64]) -> Option<f64> {
    let center = median_of_sorted(&walsh_averages(differences)).filter(|_| differences.len() > 1)?;
    let mut rng = Rng::new(1, 3);
    let mut estimate = || {
        let turned = |d: &f64| (d - center) * if rng.below(2) == 0 { -1.0 } else { 1.0 };
        let turned: Vec<f64> = differences.iter().map(turned).collect();
        median_of_sorted(&walsh_averages(&turned)).unwrap_or(0.0).abs()
    };
    let sizes = sorted(&(0..FLOOR_DRAWS).map(|_| estimate()).collect::<Vec<_>>());
    Some(sizes[(LEVEL * FLOOR_DRAWS as f64).ceil() as usize - 1])
}

/// How bold the bets are that `Wealth` mixes, in units of one over the size of the differences so far.
const BETS: [f64; 6] = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0];

/// An estimate whose interval and p value hold however often one looks while pairs come in, and whenever one stops.
///
/// It is a bet on the signs. Under a supposed effect the differences from it are symmetric, so given its size each has either sign
/// with probability one half, and a fair bet on the sign wins nothing in the long run: with a chance of at most one in twenty its
/// wealth ever reaches twenty (Ville). The interval has all effects against which no wealth of 20 was ever reached. Bets of
/// several boldnesses run side by side, and their mean is a fair bet, too; their unit is the size of the differences so
/// far, which tells nothing of the signs.
///
/// An asymptotic confidence sequence (Waudby-Smith and others 2024) is narrower and needs many pairs before it holds; this one
/// holds from the first pair on, and has ends from the seventh on. `None` for an empty sample.
pub fn always_valid(differences: &[f64]) -> Option<Shift> {
    let center = median_of_sorted(&walsh_averages(differences))?;
    let n = differences.len();
    let ends = |level: f64| {
        let end = |sign: f64| center + sign * reach(differences, center, sign, 1.0 / (1.0 - level));
        (end(-1.0), end(1.0))
    };
    let ((low, high), (low90, high90)) = (ends(LEVEL), ends(2.0 * LEVEL - 1.0));
    let (p, least_p) = (1.0 / wealth(differences, 0.0), 2.0 / 2f64.powi(n as i32));
    Some(Shift { n, center, low, high, low90, high90, p, least_p: least_p.min(1.0) })
}

/// The most wealth that bets against the effect `theta` have ever had; at least the 1 that they begin with.
fn wealth(differences: &[f64], theta: f64) -> f64 {
    let mut bets = BETS.map(|bet| [(bet, 1.0), (-bet, 1.0)]);
    let (mut squares, mut most) = (0.0, 1.0f64);
    for (i, difference) in differences.iter().enumerate() {
        let y = difference - theta;
        squares += y * y;
        let size = (squares / (i + 1) as f64).sqrt();
        if size == 0.0 {
            continue;
        }
        for (bet, wealth) in bets.as_flattened_mut() {
            *wealth *= 1.0 + (*bet * y / size).tanh();
        }
        let all = bets.as_flattened();
        most = most.max(all.iter().map(|(_, wealth)| wealth).sum::<f64>() / all.len() as f64);
    }
    most
}

/// How far from the centre, in one direction, effects lie against which less than `limit` was ever reached; infinite where even the
/// farthest is among them.
fn reach(differences: &[f64], center: f64, sign: f64, limit: f64) -> f64 {
    let is_out = |distance: f64| wealth(differences, center + sign * distance) >= limit;
    let spread = differences.iter().map(|d| (d - center).abs()).fold(0.0, f64::max);
    let mut high = if spread > 0.0 { spread } else { center.abs().max(1.0) * 1e-9 };
    let farthest = high * 1e6;
    while !is_out(high) {
        high *= 2.0;
        if high > farthest {
            return f64::INFINITY;
        }
    }
    let mut low = 0.0;
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if is_out(middle) { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::distribution::normal_quantile;

    /// By hand: of the eight orders of 1, 2 and 4 only the one that was and its mirror image reach 7. Of those of 1, 2 and −4
    /// the mean is −1 in size; none is smaller.
    #[test]
    fn a_randomisation_test_counts_orders() {
        assert_eq!(randomisation_p(&[1.0, 2.0, 4.0]), 0.25);
        assert_eq!(randomisation_p(&[1.0, 2.0, -4.0]), 1.0);
        assert_eq!(randomisation_p(&[]), 1.0);
        assert_eq!(
            randomisation_p(&[1.0; 100]),
            1e-5,
            "none of the draws reaches it, and it is one of 100 000 itself"
        );
    }

    /// SciPy 1.17.1: `permutation_test((x,), lambda x: abs(sum(x)), permutation_type='samples', alternative='greater')`, all orders
    /// of each sample (2²⁰ of the third, of which ours draws some).
    #[test]
    fn a_randomisation_test_is_that_of_scipy() {
        for (x, p) in SCIPY {
            let ours = randomisation_p(x);
            let tolerance = if x.len() <= ALL_ORDERS { 1e-12 } else { 0.003 };
            assert!((ours - p).abs() < tolerance, "{ours} is not {p}");
        }
    }

    const SCIPY: [(&[f64], f64); 3] = [
        (&[0.31, -0.12, 0.44, 0.05, 0.27, -0.08, 0.19], 0.125),
        (&[1.5, -0.7, 0.2, 2.2, -1.1, 0.4, 0.9, -0.3, 1.2, 0.6, -0.5, 0.8], 0.158_203_125),
        (
            &[
                0.12, -0.05, 0.3, 0.22, -0.18, 0.07, 0.4, -0.1, 0.02, 0.15, -0.22, 0.33, 0.09, -0.04, 0.25,
                -0.3, 0.11, 0.06, -0.02, 0.2,
            ],
            0.110_120_770_8,
        ),
    ];

    /// By hand: after two equal differences each bet has (1 + t)² or (1 − t)² of its stake, whose mean is 1 + t², where t is the
    /// hyperbolic tangent of its boldness.
    #[test]
    fn wealth_is_what_the_bets_have_won() {
        let tanhs = [0.124_353, 0.244_919, 0.462_117, 0.761_594, 0.964_028, 0.999_329];
        let expected = 1.0 + tanhs.iter().map(|t| t * t).sum::<f64>() / 6.0;
        let ours = wealth(&[3.0, 3.0], 0.0);
        assert!((ours - expected).abs() < 1e-5, "{ours} is not {expected}");
        assert_eq!(wealth(&[3.0], 0.0), 1.0, "one difference says nothing of its sign");
        assert_eq!(wealth(&[0.0, 0.0], 0.0), 1.0);
    }

    /// Over all orders of the coin the wealth is 1 on average, whatever the sizes are: it is a fair bet.
    #[test]
    fn the_bet_is_fair() {
        let sizes = [0.3, 5.0, 0.01, 1.0, 1.0, 40.0, 0.2, 2.0];
        let (mut sum, mut reached) = (0.0, 0);
        for signs in 0..256u32 {
            let signed: Vec<f64> =
                sizes.iter().enumerate().map(|(i, d)| if signs >> i & 1 == 1 { -d } else { *d }).collect();
            sum += last_wealth(&signed);
            reached += u32::from(wealth(&signed, 0.0) >= 20.0);
        }
        assert!((sum / 256.0 - 1.0).abs() < 1e-12, "{}", sum / 256.0);
        assert!(reached <= 12, "{reached} of 256 orders reach 20: more than one in twenty");
    }

    /// The wealth at the end, computed once more in the plainest way.
    fn last_wealth(x: &[f64]) -> f64 {
        let of = |bet: f64| {
            let step = |i: usize| {
                let size = (x[..=i].iter().map(|d| d * d).sum::<f64>() / (i + 1) as f64).sqrt();
                1.0 + (bet * x[i] / size).tanh()
            };
            (0..x.len()).map(step).product::<f64>()
        };
        BETS.iter().map(|bet| of(*bet) + of(-bet)).sum::<f64>() / 12.0
    }

    #[test]
    fn an_interval_has_ends_from_the_seventh_pair_on() {
        let x = [0.2, 0.25, 0.15, 0.22, 0.18, 0.21, 0.19];
        for n in 1..=7 {
            let shift = always_valid(&x[..n]).unwrap();
            assert_eq!(shift.low.is_finite() && shift.high.is_finite(), n >= 7, "{n}: {shift:?}");
            assert!(shift.low <= shift.low90 && shift.high90 <= shift.high);
        }
        assert!(always_valid(&[]).is_none());
    }

    /// An interval of microseconds is a thousand times that of the same in milliseconds.
    #[test]
    fn an_interval_has_the_unit_of_its_differences() {
        let x = [0.2, 0.25, 0.15, 0.22, 0.18, 0.21, 0.19, -0.1];
        let (ms, us) = (always_valid(&x).unwrap(), always_valid(&x.map(|d| 1000.0 * d)).unwrap());
        for (in_ms, in_us) in
            [(ms.low, us.low), (ms.high, us.high), (ms.low90, us.low90), (ms.high90, us.high90)]
        {
            assert!((in_us / in_ms - 1000.0).abs() < 1e-6, "{in_ms} ms and {in_us} us");
        }
    }

    /// A hundred looks at differences without an effect, skewed in size as slots are: the fixed interval is wrong in about a third of
    /// the trials at some look, this one in at most one of twenty.
    #[test]
    fn a_hundred_looks_are_allowed() {
        let mut rng = Rng::new(7, 7);
        let mut normal = || normal_quantile((rng.below(1 << 52) as f64 + 0.5) / (1u64 << 52) as f64);
        let (mut fixed, mut ours) = (0, 0);
        for _ in 0..400 {
            let x: Vec<f64> = (0..100).map(|_| normal() * (0.5 * normal()).exp()).collect();
            ours += u32::from(wealth(&x, 0.0) >= 20.0);
            fixed += u32::from((6..=100).any(|n| super::super::signed_rank_p(&x[..n]) <= 0.05));
        }
        println!(
            "of 400 trials without an effect, wrong at one of 100 looks: fixed {fixed}, always valid {ours}"
        );
        assert!(ours <= 20, "{ours}");
        assert!(fixed >= 80, "{fixed}");
    }

    #[test]
    fn the_noise_of_the_coin_knows_no_effect() {
        let x: Vec<f64> = (0..20).map(|i| 5.0 + f64::from(i % 5 - 2)).collect();
        let noise = coin_noise(&x).unwrap();
        assert!((0.3..1.2).contains(&noise), "{noise}: deviation 1.45 over 20 pairs");
        assert_eq!(coin_noise(&[1.0]), None);
    }
}
