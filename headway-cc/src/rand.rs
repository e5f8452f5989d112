//! A small seeded random generator: xoshiro256**, filled by SplitMix64. Of its own, because the standard library has
//! none and results must stay the same with every version of a dependency.
//!
//! Each component draws from a stream of its own: `Rng::new(seed, stream)` gives unrelated sequences for different
//! streams, so that adding jitter to a link does not change which packets it loses.

/// Parts per billion in a whole.
pub const BILLION: u64 = 1_000_000_000;

/// A sequence of random numbers that depends on its seed and stream alone.
#[derive(Clone, Debug)]
pub struct Rng {
    s: [u64; 4],
}

impl Rng {
    /// The sequence number `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        let base = hash(seed, stream);
        Self { s: [hash(base, 1), hash(base, 2), hash(base, 3), hash(base, 4) | 1] }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.s;
        let out = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (c, d) = (c ^ a, d ^ b);
        self.s = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        out
    }

    /// A whole number in `0..n`; 0 when `n` is 0. The bias is below n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        scale(self.bits(), n)
    }

    /// True with a probability of `ppb` parts per billion; always when `ppb` is 10^9 or more.
    pub fn chance(&mut self, ppb: u32) -> bool {
        self.below(BILLION) < u64::from(ppb)
    }

    /// A draw from a normal distribution with mean 0, in 1/65536 of its standard deviation: the sum of twelve
    /// uniform draws, hence bounded by six standard deviations.
    pub fn normal(&mut self) -> i64 {
        normal_of([self.bits(), self.bits(), self.bits()])
    }
}

/// The `index`-th word of the SplitMix64 sequence of `seed`, for random values that must not depend on how many were
/// drawn before.
pub fn hash(seed: u64, index: u64) -> u64 {
    let mut x = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Maps 64 random bits to `0..n`.
pub(crate) fn scale(bits: u64, n: u64) -> u64 {
    ((u128::from(bits) * u128::from(n)) >> 64) as u64
}

/// See [`Rng::normal`]: twelve 16-bit pieces have a variance of 12 · 65536² / 12.
pub(crate) fn normal_of(words: [u64; 3]) -> i64 {
    let sum: u64 = words.iter().flat_map(|w| (0..4).map(move |i| (w >> (16 * i)) & 0xffff)).sum();
    sum as i64 - 6 * 65_535
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_is_uniform_and_streams_differ() {
        let mut counts = [0u64; 10];
        let mut rng = Rng::new(1, 0);
        for _ in 0..100_000 {
            counts[rng.below(10) as usize] += 1;
        }
        // 5 sigma of a binomial with p = 0.1: 474.
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 474), "{counts:?}");
        let (mut a, mut b, mut c) = (Rng::new(1, 0), Rng::new(1, 1), Rng::new(2, 0));
        let (a, b, c): (Vec<_>, Vec<_>, Vec<_>) =
            (0..100).map(|_| (a.bits(), b.bits(), c.bits())).fold(Default::default(), |mut t, x| {
                t.0.push(x.0);
                t.1.push(x.1);
                t.2.push(x.2);
                t
            });
        assert!(a != b && a != c && b != c);
    }

    #[test]
    fn chance_holds_at_both_ends() {
        let mut rng = Rng::new(3, 0);
        assert!((0..10_000).all(|_| !rng.chance(0)));
        assert!((0..10_000).all(|_| rng.chance(1_000_000_000)));
    }

    #[test]
    fn normal_has_mean_zero_and_unit_deviation() {
        let mut rng = Rng::new(4, 0);
        let draws: Vec<i64> = (0..100_000).map(|_| rng.normal()).collect();
        let mean = draws.iter().sum::<i64>() / 100_000;
        let variance = draws.iter().map(|d| (d * d) as u64).sum::<u64>() / 100_000;
        assert!(mean.abs() < 65_536 / 60, "mean {mean}");
        assert!(variance.isqrt().abs_diff(65_536) < 65_536 / 80, "deviation {}", variance.isqrt());
        assert!(draws.iter().all(|d| d.abs() <= 6 * 65_536));
    }
}
