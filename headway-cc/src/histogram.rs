//! Counts of round-trip times in buckets whose widths grow with the value, as the kernel and the simulator keep them for each
//! connection: percentiles of millions of connections cannot be taken from samples that were kept one by one.
//!
//! Four buckets to an octave: an edge is a power of two in microseconds, or that and a quarter, a half or three quarters.
//! So a bucket is 14 to 25 % wide, and BPF finds it with shifts.

/// How many buckets there are: 20 octaves.
pub const BUCKETS: usize = 80;

/// The lower edge of the first bucket, as a power of two: 32 us. The last bucket begins at 29 s.
const FIRST_OCTAVE: u32 = 5;

/// The bucket of a time. What lies below the first bucket is in it, and what lies above the last is in that.
pub fn bucket(us: u64) -> usize {
    let octave = us.max(1).ilog2();
    if octave < FIRST_OCTAVE {
        return 0;
    }
    let quarter = (us >> (octave - 2)) & 3;
    (4 * (octave - FIRST_OCTAVE) as usize + quarter as usize).min(BUCKETS - 1)
}

/// The lower edge of a bucket in microseconds; of `BUCKETS` the upper edge of the last one.
pub fn edge_us(bucket: usize) -> u64 {
    (4 + bucket as u64 % 4) << (FIRST_OCTAVE as usize - 2 + bucket / 4)
}

/// The value below which the share `q` of the counted samples lies, in microseconds, by interpolation within its bucket; `None`
/// when nothing was counted.
pub fn quantile(counts: &[u32], q: f64) -> Option<f64> {
    let total: u64 = counts.iter().map(|n| u64::from(*n)).sum();
    let wanted = q * total as f64;
    let mut below = 0.0;
    for (i, n) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
        let n = f64::from(*n);
        if below + n >= wanted {
            let (low, high) = (edge_us(i) as f64, edge_us(i + 1) as f64);
            return Some(low + (high - low) * ((wanted - below) / n).clamp(0.0, 1.0));
        }
        below += n;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 40 ms lies between 32.768 ms (2^15 us) and a quarter more, 40.96 ms: the first of its octave, the 15th, which is
    /// the eleventh from the fifth on.
    #[test]
    fn a_time_is_in_the_bucket_whose_edges_enclose_it() {
        assert_eq!((bucket(40_000), edge_us(40), edge_us(41)), (40, 32_768, 40_960));
        for us in (32..100_000).chain([1 << 24, (1 << 24) + (3 << 22)]) {
            let at = bucket(us);
            assert!(edge_us(at) <= us && us < edge_us(at + 1), "{us} is in bucket {at}");
        }
        assert_eq!([bucket(0), bucket(31), bucket(1 << 40)], [0, 0, BUCKETS - 1]);
        assert_eq!(edge_us(BUCKETS), 1 << 25);
    }

    /// By hand: of ten samples two are in [32, 40) and eight in [64, 80): the fifth is the third of these eight.
    #[test]
    fn a_quantile_lies_within_its_bucket() {
        let mut counts = [0; BUCKETS];
        (counts[0], counts[4]) = (2, 8);
        assert_eq!(quantile(&counts, 0.5), Some(64.0 + 16.0 * 3.0 / 8.0));
        assert_eq!(quantile(&counts, 0.1), Some(36.0));
        assert_eq!(quantile(&counts, 1.0), Some(80.0));
        assert_eq!(quantile(&[0; BUCKETS], 0.5), None);
    }
}
