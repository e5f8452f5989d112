//! A flow of small messages on a fixed schedule, as a game server sends them: `200@64` is 200 bytes 64 times a second,
//! `64..1200@64` draws each size from the seed.
//!
//! The schedule is fixed before anything is sent, and a message's delay counts from the moment when it was due. Counted
//! from the moment of sending, the delay of a sender that is held up would not show. The simulator and the sender of a
//! real run follow the same schedule.

use crate::path::units::{Kind, Word};
use crate::rand::{BILLION, hash, scale};
use std::fmt;
use std::str::FromStr;

/// IPv4 and UDP headers: what a message adds to its payload.
pub const HEADER_BYTES: u32 = 28;

/// Streams of the sizes and of the phase, apart from those of links, flows and traces.
const SIZE_STREAM: u64 = 4 << 32;
const PHASE_STREAM: u64 = 5 << 32;

/// Payload: at least what numbers the message, at most what fits into one packet of 1500 bytes.
const SIZE: Kind = Kind {
    expected: "a size in bytes like 200",
    units: &[("", 0)],
    min: 16,
    max: 1472,
    range: "a message has at least 16 and at most 1472 bytes",
};
const PER_SECOND: Kind = Kind {
    expected: "a number of messages a second like 64",
    units: &[("", 0)],
    min: 1,
    max: 1000,
    range: "at least 1 and at most 1000 messages a second",
};

/// Sizes and rate of a message flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Smallest payload; a text gives at least 16 bytes.
    pub min_bytes: u32,
    /// Largest payload, no less than `min_bytes`; a text gives at most 1472. Every size between is as likely.
    pub max_bytes: u32,
    /// Messages a second, above 0; a text gives at most 1000.
    pub per_second: u32,
}

impl Messages {
    fn interval_ns(&self) -> u64 {
        BILLION / u64::from(self.per_second)
    }

    /// When message number `n` is due, counted from the start. The seed draws the moment of the first one from the first
    /// interval: else whatever is periodic in flow and path would meet in the same phase in every repetition.
    pub fn due_ns(&self, seed: u64, n: u64) -> u64 {
        let phase_ns = scale(hash(seed, PHASE_STREAM), self.interval_ns());
        phase_ns + n * BILLION / u64::from(self.per_second)
    }

    /// Payload of message number `n`.
    pub fn bytes(&self, seed: u64, n: u64) -> u32 {
        let sizes = u64::from(self.max_bytes - self.min_bytes + 1);
        self.min_bytes + scale(hash(seed, SIZE_STREAM + n), sizes) as u32
    }
}

impl FromStr for Messages {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected bytes@rate like 200@64, or 64..1200@64";
        let (sizes, per_second) = text.split_once('@').ok_or_else(|| format!("`{text}`: {expected}"))?;
        let (min, max) = sizes.split_once("..").unwrap_or((sizes, sizes));
        let read = |kind: &Kind, text: &str| {
            let number = kind.read(Word { text, at: 0 });
            number.map(|n| n as u32).map_err(|e| format!("`{text}`: {}", e.reason))
        };
        let (min_bytes, max_bytes) = (read(&SIZE, min)?, read(&SIZE, max)?);
        if min_bytes > max_bytes {
            return Err(format!("`{sizes}`: the smaller size comes first"));
        }
        Ok(Self { min_bytes, max_bytes, per_second: read(&PER_SECOND, per_second)? })
    }
}

impl fmt::Display for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.min_bytes == self.max_bytes {
            true => write!(f, "{}@{}", self.min_bytes, self.per_second),
            false => write!(f, "{}..{}@{}", self.min_bytes, self.max_bytes, self.per_second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_back_and_refusals_name_the_word() {
        for text in ["200@64", "64..1200@20", "16@1000"] {
            assert_eq!(text.parse::<Messages>().unwrap().to_string(), text);
        }
        for (text, word) in [
            ("200", "`200`"),
            ("8@64", "`8`"),
            ("200@0", "`0`"),
            ("200@64hz", "`64hz`"),
            ("1200..64@20", "`1200..64`"),
            ("64..1473@20", "`1473`"),
        ] {
            let error = text.parse::<Messages>().unwrap_err();
            assert!(error.starts_with(word), "{error}");
        }
    }

    #[test]
    fn the_schedule_does_not_drift_and_sizes_span_their_range() {
        let m: Messages = "64..1200@64".parse().unwrap();
        for seed in 0..20 {
            let first_ns = m.due_ns(seed, 0);
            assert!(first_ns < m.interval_ns());
            assert_eq!(m.due_ns(seed, 64 * 1000), first_ns + 1000 * BILLION);
        }
        assert!((1..20).any(|seed| m.due_ns(seed, 0) != m.due_ns(0, 0)));
        let sizes: Vec<u32> = (0..20_000).map(|n| m.bytes(7, n)).collect();
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&64), Some(&1200)));
        // 5 sigma of the mean of a uniform draw over 1137 sizes.
        let mean = sizes.iter().sum::<u32>() as f64 / 20_000.0;
        assert!((mean - 632.0).abs() < 5.0 * 1137.0 / 12f64.sqrt() / 20_000f64.sqrt(), "{mean}");
    }
}
