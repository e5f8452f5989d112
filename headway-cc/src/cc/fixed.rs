//! The two fixed-point formats, bandwidth and gain, and the windowed maximum.
//!
//! Every controller counts in these formats, so that the kernel, the C twin and Rust get the same bits. The
//! arithmetic saturates: nonsense input gives a large number, never a wrap or a panic. Divisions are unsigned
//! (BPF has no other) and nothing needs more than one 64x64 -> 128 bit product.
//!
//! Twin: `headway-kernel/bpf/fixed.h` (same names in the same order; `saturating_…` is `sat_…` there).

use super::row::Words;

/// Times in the cores are in microseconds; pacing rates are per second.
pub const USEC_PER_SEC: u64 = 1_000_000;
pub(crate) const USEC_PER_MSEC: u64 = 1_000;

/// Bandwidth: units of data per microsecond, times 2^24 (Linux `BW_SCALE`).
///
/// Range, unit packet of 1500 bytes: 1 is 715 bit/s, `u64::MAX` is 1.3e22 bit/s. Unit byte: 1 is 0.48 bit/s,
/// 400 Gbit/s is 2^39.6, and 400 Gbit/s times 1 s is 2^59.5: still exact in 64 bits.
pub const BW_SCALE: u32 = 24;
/// The bandwidth of one unit of data per microsecond.
pub const BW_UNIT: u64 = 1 << BW_SCALE;

/// Gain: a ratio, times 2^16.
///
/// Linux uses 2^8. Its gains are stored here as multiples of 2^8, so `x * gain >> 16` gives its very integers,
/// and the finer scale holds constants such as 0.02 or 2.77 to better than 0.1 %.
pub const GAIN_SCALE: u32 = 16;
/// The gain that changes nothing: 1.0.
pub const GAIN_UNIT: u64 = 1 << GAIN_SCALE;

/// `floor(a * b / 2^shift)` for a shift of 0 to 63, `u64::MAX` when that needs more than 64 bits.
pub fn mul_shift(a: u64, b: u64, shift: u32) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)) >> shift).unwrap_or(u64::MAX)
}

/// The bandwidth that moves this much data in this time; a time of 0 counts as 1 µs.
///
/// Exact up to 2^40 units of data (1 TB in one sample where the unit is the byte).
pub fn bw_from(data: u64, interval_us: u64) -> u64 {
    data.saturating_mul(BW_UNIT) / interval_us.max(1)
}

/// The data that this bandwidth moves in this time, rounded down.
pub fn bw_data(bw: u64, interval_us: u64) -> u64 {
    mul_shift(bw, interval_us, BW_SCALE)
}

/// A value times a gain, rounded down.
pub fn gain_apply(value: u64, gain: u64) -> u64 {
    mul_shift(value, gain, GAIN_SCALE)
}

/// One sample that a [`Winmax`] remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WinmaxSample {
    /// When it was taken, by the clock that the caller counts the window in (BBR: rounds); never falls.
    pub t: u64,
    /// What was measured, in any unit.
    pub v: u64,
}

/// Windowed maximum after Kathleen Nichols (Linux `lib/minmax.c`): the best three samples of the window, best
/// first; times never decrease along the array. Constant space and time; nearly always the true maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Winmax {
    /// Best, second and third best; where fewer are known the last is repeated, and all are 0 before the first.
    pub s: [WinmaxSample; 3],
}

/// The time and the value of each sample.
impl Words for Winmax {
    const WORDS: usize = 6;
    const FIELDS: &'static [&'static str] = &["s0_t", "s0_v", "s1_t", "s1_v", "s2_t", "s2_v"];
    const ABOUT: &'static [&'static str] = &[
        "When the largest sample was taken.",
        "The largest sample.",
        "When the second best sample was taken.",
        "The second best sample, no older than the best.",
        "When the third best sample was taken.",
        "The third best sample, no older than the second best.",
    ];

    fn put(&self, words: &mut Vec<u64>) {
        self.s.iter().for_each(|s| words.extend([s.t, s.v]));
    }

    fn take(words: &mut impl Iterator<Item = u64>) -> Option<Self> {
        let mut sample = || Some(WinmaxSample { t: words.next()?, v: words.next()? });
        Some(Self { s: [sample()?, sample()?, sample()?] })
    }
}

impl Winmax {
    /// The maximum over the window.
    pub fn get(&self) -> u64 {
        self.s[0].v
    }

    /// Forgets everything but this sample.
    pub fn reset(&mut self, t: u64, v: u64) {
        self.s = [WinmaxSample { t, v }; 3];
    }

    /// Lets old samples leave and places the newest where the window has a gap.
    fn subwin_update(&mut self, win: u64, t: u64, v: u64) {
        let val = WinmaxSample { t, v };
        let dt = t.saturating_sub(self.s[0].t);
        if dt > win {
            // The best is too old: the others move up, twice if the second is too old as well.
            self.s = [self.s[1], self.s[2], val];
            if t.saturating_sub(self.s[0].t) > win {
                self.s = [self.s[1], self.s[2], val];
            }
        } else if self.s[1].t == self.s[0].t && dt > win / 4 {
            (self.s[1], self.s[2]) = (val, val); // a second best from the window's second quarter
        } else if self.s[2].t == self.s[1].t && dt > win / 2 {
            self.s[2] = val; // a third best from its second half
        }
    }

    /// Takes a sample at time `t` into a window of length `win`.
    pub fn running_max(&mut self, win: u64, t: u64, v: u64) {
        let val = WinmaxSample { t, v };
        if v >= self.s[0].v || t.saturating_sub(self.s[2].t) > win {
            self.reset(t, v); // a new maximum, or nothing left in the window
            return;
        }
        if v >= self.s[1].v {
            (self.s[1], self.s[2]) = (val, val);
        } else if v >= self.s[2].v {
            self.s[2] = val;
        }
        self.subwin_update(win, t, v);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mul_shift_is_exact_up_to_64_bits_and_saturates_beyond() {
        assert_eq!(mul_shift(u64::MAX, 1 << 24, 24), u64::MAX);
        assert_eq!(mul_shift(u64::MAX, (1 << 24) + 1, 24), u64::MAX);
        assert_eq!(mul_shift(u64::MAX, 1 << 62, 63), u64::MAX / 2);
        assert_eq!(mul_shift(u64::MAX - 1, 3, 1), u64::MAX);
        assert_eq!(mul_shift(3, 5, 0), 15);
        assert_eq!(mul_shift(1 << 32, 1 << 32, 32), 1 << 32);
        assert_eq!(mul_shift(0, u64::MAX, 16), 0);
    }

    #[test]
    fn bandwidth_holds_400_gbit_in_bytes_for_a_second() {
        let bytes_per_s = 400_000_000_000 / 8;
        let bw = bw_from(bytes_per_s, USEC_PER_SEC);
        assert_eq!(bw, 50_000 * BW_UNIT);
        assert_eq!(bw_data(bw, USEC_PER_SEC), bytes_per_s);
        let bdp = bw.checked_mul(USEC_PER_SEC).expect("bandwidth times 1 s fits in 64 bits");
        assert_eq!(gain_apply(bdp, 3 * GAIN_UNIT) >> BW_SCALE, 3 * bytes_per_s);
    }

    #[test]
    fn bandwidth_holds_the_slowest_link() {
        let bw = bw_from(1, 16_000_000); // one byte in 16 s: 0.5 bit/s
        assert_eq!(bw, 1);
        assert_eq!(bw_data(bw, 16_777_216), 1);
        assert_eq!(bw_from(1, 0), BW_UNIT);
        assert_eq!(bw_from(u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn gain_holds_every_constant_of_the_bbr_drafts_to_a_thousandth() {
        for (num, den) in
            [(277, 100), (5, 10), (225, 100), (90, 100), (125, 100), (2, 100), (7, 10), (15, 100)]
        {
            let gain = GAIN_UNIT * num / den;
            let error = (gain * den).abs_diff(GAIN_UNIT * num);
            assert!(error * 1000 <= GAIN_UNIT * num, "{num}/{den}");
        }
    }

    #[test]
    fn gain_gives_the_integers_of_a_coarser_scale() {
        for gain256 in [1, 32, 50, 88, 192, 256, 320, 512, 739] {
            for value in [0, 1, 255, 256, 257, 1_000_003, (1 << 40) + 12_345] {
                assert_eq!(gain_apply(value, gain256 << 8), (value * gain256) >> 8);
            }
        }
        assert_eq!(gain_apply(u64::MAX, GAIN_UNIT), u64::MAX);
        assert_eq!(gain_apply(u64::MAX, GAIN_UNIT + 1), u64::MAX);
    }

    #[test]
    fn winmax_forgets_a_maximum_after_the_window() {
        let mut m = Winmax::default();
        m.running_max(10, 1, 100);
        for t in 2..=11 {
            m.running_max(10, t, 50);
            assert_eq!(m.get(), 100, "t = {t}");
        }
        m.running_max(10, 12, 50);
        assert_eq!(m.get(), 50);
    }

    #[test]
    fn winmax_never_exceeds_the_true_maximum_nor_falls_below_the_newest() {
        let (win, mut x) = (10, 12_345_u64);
        let (mut m, mut seen) = (Winmax::default(), Vec::new());
        for t in 0..20_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let v = (x >> 40) % 1000;
            seen.push(v);
            m.running_max(win, t, v);
            let from = seen.len().saturating_sub(win as usize + 1);
            let truth = seen[from..].iter().copied().max().unwrap_or(0);
            assert!(m.get() <= truth && m.get() >= v, "t = {t}: {} of {truth}", m.get());
        }
    }
}
