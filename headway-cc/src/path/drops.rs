//! Names of drops: `drop-2x-50mbit-40ms-4bdp-5s` is a path whose rate falls to a half at 10 s and is back 5 s later.
//!
//! The five words are the factor, the high rate, the base round-trip time, the queue as in `queue=`, and the length
//! of the drop. The steady 10 s before the drop let a controller settle. `…-5s@11.2s` is the same drop at another
//! time. It is worth trying several times, because at a single one the drop would always meet a controller in the
//! same phase of its cycle.

use super::PathError;
use super::parse::limit;
use super::units::{Kind, RATE, SPAN, Word};

/// An example of such a name, for messages.
pub const DROP_EXAMPLE: &str = "drop-2x-50mbit-40ms-4bdp-5s";

/// When the rate falls if the name does not say.
const AT: &str = "10s";
const PREFIX: &str = "drop-";

/// The factor in thousandths, so that 1.5x is exact.
const FACTOR: Kind = Kind {
    expected: "a factor like 2x",
    units: &[("x", 3)],
    min: 1001,
    max: 1_000_000,
    range: "a drop is by more than 1x and at most 1000x",
};
const LENGTH: Kind = Kind {
    expected: "the length of the drop, a time like 5s",
    min: 1_000_000,
    max: 1_000_000_000_000,
    range: "a drop lasts at least 1ms and at most 1000s",
    ..SPAN
};

const MOMENT: Kind = Kind {
    expected: "when the rate falls, a time like 11.2s",
    min: 1_000_000,
    max: 1_000_000_000_000,
    range: "a drop comes at 1ms at the earliest and at 1000s at the latest",
    ..SPAN
};

/// The path text that a name stands for; `None` if it is not the name of a drop.
pub(super) fn text(name: &str) -> Option<Result<String, PathError>> {
    name.starts_with(PREFIX).then(|| expand(name))
}

fn expand(name: &str) -> Result<String, PathError> {
    let mut at = PREFIX.len();
    let words: Vec<Word> = name[at..]
        .split('-')
        .map(|text| {
            let word = Word { text, at };
            at += text.len() + 1;
            word
        })
        .collect();
    let [factor, rate, rtt, queue, times] = words[..] else {
        let whole = Word { text: name, at: 0 };
        return whole.fail(format!(
            "expected factor, rate, round trip, queue and length of the drop, like `{DROP_EXAMPLE}`"
        ));
    };
    let factor_milli = FACTOR.read(factor)?;
    let rate_bps = RATE.read(rate)?;
    let low_bps = (u128::from(rate_bps) * 1000 / u128::from(factor_milli)) as u64;
    if low_bps == 0 {
        return factor.fail("leaves no rate at all; an outage is written as `@10s 0mbit`");
    }
    SPAN.read(rtt)?;
    limit(queue)?;
    let (length, moment) = match times.text.split_once('@') {
        None => (times, Word { text: AT, at: times.at }),
        Some((length, moment)) => {
            (Word { text: length, ..times }, Word { text: moment, at: times.at + length.len() + 1 })
        }
    };
    let back_ns = LENGTH.read(length)? + MOMENT.read(moment)?;
    let (low, back) = (RATE.show(low_bps), LENGTH.show(back_ns));
    let (rate, rtt, queue, at) = (rate.text, rtt.text, queue.text, moment.text);
    Ok(format!("{rate} {rtt} queue={queue} @{at} {low} @{back} {rate}"))
}

#[cfg(test)]
mod tests {
    use crate::path::{RateDrop, resolve};

    #[test]
    fn a_name_is_an_ordinary_path() {
        let path = resolve("drop-2x-50mbit-40ms-4bdp-5s").unwrap();
        assert_eq!(path.to_string(), "50mbit 40ms queue=4bdp @10s 25mbit @15s 50mbit");
        let path = resolve("drop-1.5x-10mbit-10ms-0.5bdp-2s").unwrap();
        assert_eq!(path.to_string(), "10mbit 10ms queue=0.5bdp @10s 6.666666mbit @12s 10mbit");
        let path = resolve("drop-2x-50mbit-40ms-4bdp-5s@8.7s").unwrap();
        assert_eq!(path.to_string(), "50mbit 40ms queue=4bdp @8.7s 25mbit @13.7s 50mbit");
        let path = resolve("drop-7.25x-1gbit-1ms-100pkt-250ms").unwrap();
        assert_eq!(path.to_string(), "1gbit 1ms queue=100pkt @10s 137.931034mbit @10.25s 1gbit");
        let drop = RateDrop { at_ns: 10_000_000_000, from_bps: 1_000_000_000, back_ns: Some(10_250_000_000) };
        assert_eq!(path.rate_drop(), Some(drop));
    }

    #[test]
    fn refusals_point_at_the_word() {
        for (name, word, column) in [
            ("drop-2y-50mbit-40ms-4bdp-5s", "2y", 6),
            ("drop-1x-50mbit-40ms-4bdp-5s", "1x", 6),
            ("drop-2x-50mbits-40ms-4bdp-5s", "50mbits", 9),
            ("drop-2x-50mbit-40-4bdp-5s", "40", 16),
            ("drop-2x-50mbit-40ms-4bdb-5s", "4bdb", 21),
            ("drop-2x-50mbit-40ms-4bdp-0s", "0s", 26),
            ("drop-2x-50mbit-40ms-4bdp-5s@", "", 29),
            ("drop-2x-50mbit-40ms-4bdp-5s@soon", "soon", 29),
            ("drop-2x-50mbit-40ms-4bdp", "drop-2x-50mbit-40ms-4bdp", 1),
            ("drop-2x-50mbit-40ms-4bdp-5s-x", "drop-2x-50mbit-40ms-4bdp-5s-x", 1),
            ("drop-999x-2bit-40ms-4bdp-5s", "999x", 6),
        ] {
            let e = resolve(name).expect_err(name);
            assert_eq!((e.word.as_str(), e.at + 1), (word, column), "{e}");
        }
    }
}
