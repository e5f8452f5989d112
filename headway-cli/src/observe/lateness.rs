//! How late the threads that make or time packets were. Their own lateness looks like delay of the path, so every run
//! records it, and a run with too much of it does not count. Used by the emulator, the loads and the probes.

/// How late the threads that make or time packets may be in at most one of a thousand cases, in microseconds: 5 % of
/// the base RTT, and 1 ms at least. A run in which one is later does not count, because its own lateness would look
/// like delay of the path.
pub fn lateness_limit_us(base_rtt_us: u64) -> u64 {
    (base_rtt_us / 20).max(1000)
}

/// Counts how late things happened: a histogram with buckets 3 % wide, which needs the same memory for any number of
/// packets.
#[derive(Debug)]
pub struct Histogram {
    /// How many fell into each bucket, whose bounds are in nanoseconds.
    buckets: Vec<u64>,
    max_ns: u64,
}

/// How late things happened, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    pub packets: u64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    pub max_us: u64,
}

/// Twice the number of buckets for each doubling of the lateness.
const FINE: u64 = 64;

impl Histogram {
    pub fn new() -> Histogram {
        Histogram { buckets: vec![0; 64 * FINE as usize], max_ns: 0 }
    }

    pub fn add(&mut self, late_ns: u64) {
        self.buckets[bucket(late_ns)] += 1;
        self.max_ns = self.max_ns.max(late_ns);
    }

    pub fn lateness(&self) -> Lateness {
        let us = |per_mille| self.quantile_ns(per_mille).div_ceil(1000);
        Lateness {
            packets: self.buckets.iter().sum(),
            p50_us: us(500),
            p99_us: us(990),
            p999_us: us(999),
            max_us: self.max_ns.div_ceil(1000),
        }
    }

    /// Upper end of the bucket that holds the quantile; 0 when empty.
    fn quantile_ns(&self, per_mille: u64) -> u64 {
        let rank = (self.buckets.iter().sum::<u64>() * per_mille).div_ceil(1000);
        let mut below = 0;
        for (index, n) in self.buckets.iter().enumerate() {
            below += n;
            if *n > 0 && below >= rank {
                return bucket_end(index as u64).min(self.max_ns);
            }
        }
        0
    }
}

/// The bucket of a value. Values below `FINE` have a bucket each; above, every doubling has `FINE / 2` buckets.
fn bucket(value: u64) -> usize {
    if value < FINE {
        return value as usize;
    }
    let shift = u64::from(value.ilog2() - FINE.ilog2() + 1);
    (shift * FINE / 2 + (value >> shift)) as usize
}

/// The largest value of a bucket.
fn bucket_end(index: u64) -> u64 {
    if index < FINE {
        return index;
    }
    let shift = (index - FINE / 2) / (FINE / 2);
    let mantissa = index - shift * FINE / 2;
    ((mantissa + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_holds_the_values_up_to_its_end() {
        let mut last = 0;
        for value in (0..100_000).chain((17..60).flat_map(|b| [(1 << b) - 1, 1 << b])) {
            let end = bucket_end(bucket(value) as u64);
            assert!(
                end >= value && end - value <= value / (FINE / 2),
                "{value} in a bucket that ends at {end}"
            );
            assert_eq!(bucket(end), bucket(value), "the end of {value}'s bucket");
            assert_ne!(bucket(end + 1), bucket(value), "past the end of {value}'s bucket");
            assert!(bucket(value) >= last, "buckets are in order");
            last = bucket(value);
        }
    }

    #[test]
    fn quantiles_of_a_known_distribution() {
        let mut h = Histogram::new();
        assert_eq!(h.lateness(), Lateness::default());
        for us in 1..=1000 {
            h.add(us * 1000);
        }
        let l = h.lateness();
        assert_eq!((l.packets, l.max_us), (1000, 1000));
        assert!((500..=532).contains(&l.p50_us) && (990..=1000).contains(&l.p99_us), "{l:?}");
    }
}
