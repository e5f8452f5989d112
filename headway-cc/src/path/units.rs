//! Numbers with units: `100mbit`, `40ms`, `150kB`, `0.1%`. They are read and written as exact decimals, because with
//! floating point a path could read back as a slightly different one.

use super::PathError;
use crate::link::MAX_RATE_BPS;

/// A word of the text, or a part of one, and its byte offset, which errors point at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> Word<'a> {
    pub fn fail<T>(self, reason: impl Into<String>) -> Result<T, PathError> {
        Err(PathError { word: self.text.to_string(), at: self.at, line: None, reason: reason.into() })
    }

    /// The parts before and after the first `mark`.
    pub fn cut(self, mark: char) -> Option<(Word<'a>, Word<'a>)> {
        let (a, b) = self.text.split_once(mark)?;
        Some((Word { text: a, at: self.at }, Word { text: b, at: self.at + a.len() + 1 }))
    }

    /// The parts between slashes.
    pub fn parts(self) -> Vec<Word<'a>> {
        let mut at = self.at;
        let mut parts = Vec::new();
        for text in self.text.split('/') {
            parts.push(Word { text, at });
            at += text.len() + 1;
        }
        parts
    }
}

/// One kind of number: how errors describe it, its units as powers of ten of the base unit, and its range.
#[derive(Debug)]
pub(crate) struct Kind {
    pub expected: &'static str,
    /// From small to large; [`Kind::show`] uses the largest that fits.
    pub units: &'static [(&'static str, u32)],
    pub min: u64,
    pub max: u64,
    /// The ends of the range in words.
    pub range: &'static str,
}

const RATES: &[(&str, u32)] = &[("bit", 0), ("kbit", 3), ("mbit", 6), ("gbit", 9), ("tbit", 12)];
const TIMES: &[(&str, u32)] = &[("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
const SIZES: &[(&str, u32)] = &[("B", 0), ("kB", 3), ("MB", 6), ("GB", 9)];

/// Bits per second.
pub(crate) const RATE: Kind = Kind {
    expected: "a rate like 100mbit",
    units: RATES,
    min: 1,
    max: MAX_RATE_BPS,
    range: "a rate is at least 1bit and at most 1tbit",
};
/// Bits per second on a schedule, where 0 is an outage.
pub(super) const STEP_RATE: Kind = Kind { min: 0, ..RATE };
/// Nanoseconds of delay.
pub(super) const DELAY: Kind =
    Kind { expected: "a time like 40ms", units: TIMES, min: 0, max: 100_000_000_000, range: "at most 100s" };
/// Nanoseconds of something that must not be zero.
pub(super) const SPAN: Kind = Kind { min: 1, range: "at least 1ns and at most 100s", ..DELAY };
/// Nanoseconds since the start.
pub(super) const MOMENT: Kind =
    Kind { expected: "a time like 10s", max: 1_000_000_000_000_000, range: "at most 1000000s", ..DELAY };
/// Length of a repeating schedule in nanoseconds.
pub(super) const PERIOD: Kind = Kind { min: 1_000_000, range: "at least 1ms and at most 1000000s", ..MOMENT };
/// CoDel's interval in nanoseconds.
pub(super) const INTERVAL: Kind =
    Kind { min: 1, max: 4_000_000_000, range: "at least 1ns and at most 4s", ..DELAY };
/// Bytes.
pub(crate) const SIZE: Kind = Kind {
    expected: "a size like 150kB",
    units: SIZES,
    min: 1,
    max: 1_000_000_000,
    range: "at least 1B and at most 1GB",
};
/// Packets.
pub(super) const PACKETS: Kind = Kind {
    expected: "a number like 100pkt",
    units: &[("pkt", 0)],
    min: 1,
    max: 1_000_000_000,
    range: "at least 1pkt and at most 1000000000pkt",
};
/// A plain count.
pub(super) const COUNT: Kind = Kind {
    expected: "a whole number like 3",
    units: &[("", 0)],
    min: 1,
    max: 1_000_000,
    range: "at least 1 and at most 1000000",
};
/// Millionths of a bandwidth-delay product.
pub(super) const BDP: Kind = Kind {
    expected: "a multiple like 1bdp",
    units: &[("bdp", 6)],
    min: 1,
    max: 1_000_000_000,
    range: "at least 0.000001bdp and at most 1000bdp",
};
/// Parts per billion.
pub(super) const SHARE: Kind = Kind {
    expected: "a share like 0.1%",
    units: &[("%", 7)],
    min: 0,
    max: 1_000_000_000,
    range: "at most 100%",
};

impl Kind {
    /// Reads the number in base units. An error says what was expected.
    pub fn read(&self, word: Word) -> Result<u64, PathError> {
        if word.text.starts_with('-') {
            return word.fail(format!("must not be negative; expected {}", self.expected));
        }
        let split = word.text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.text.len());
        let (number, unit) = word.text.split_at(split);
        let Some(power) = self.units.iter().find(|u| u.0 == unit).map(|u| u.1) else {
            return word.fail(format!("expected {}{}", self.expected, self.hint(number, unit)));
        };
        match decimal(number, power) {
            Decimal::Bad => word.fail(format!("expected {}", self.expected)),
            Decimal::TooFine => {
                word.fail(format!("has too many decimals; the finest step is {}", self.finest()))
            }
            Decimal::TooBig => word.fail(self.range),
            Decimal::Exact(n) if n < self.min || n > self.max => word.fail(self.range),
            Decimal::Exact(n) => Ok(n),
        }
    }

    /// Writes the number as its shortest exact text, in the largest unit in which it is at least 1.
    pub fn show(&self, n: u64) -> String {
        let fits = |u: &&(&str, u32)| n >= 10u64.pow(u.1);
        let usual = self.units.get(2).or(self.units.last());
        let Some((unit, power)) = self.units.iter().rev().find(fits).or(usual) else { return n.to_string() };
        let scale = 10u64.pow(*power);
        let digits = format!("{:0width$}", n % scale, width = *power as usize);
        let fraction = if n.is_multiple_of(scale) { "" } else { digits.trim_end_matches('0') };
        let dot = if fraction.is_empty() { "" } else { "." };
        format!("{}{dot}{fraction}{unit}", n / scale)
    }

    fn hint(&self, number: &str, unit: &str) -> String {
        let same = self.units.iter().find(|u| u.0.eq_ignore_ascii_case(unit));
        match same {
            _ if number.is_empty() => String::new(),
            Some((unit, _)) => format!(" (write {number}{unit})"),
            None if unit.is_empty() => " (the unit is missing)".to_string(),
            None => {
                let names: Vec<&str> = self.units.iter().map(|u| u.0).collect();
                format!(" (units: {})", names.join(", "))
            }
        }
    }

    fn finest(&self) -> String {
        match self.units.first() {
            Some((unit, 0)) => format!("1{unit}"),
            Some((unit, power)) => format!("0.{:0>width$}{unit}", 1, width = *power as usize),
            None => String::new(),
        }
    }
}

enum Decimal {
    Exact(u64),
    Bad,
    TooFine,
    TooBig,
}

/// Reads `digits[.digits]` and multiplies it by ten to the `power`.
fn decimal(text: &str, power: u32) -> Decimal {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) {
        return Decimal::Bad;
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > power as usize {
        return Decimal::TooFine;
    }
    let padded = format!("{whole}{fraction:0<width$}", width = power as usize);
    padded.parse().map_or(Decimal::TooBig, Decimal::Exact)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rand::Rng;

    fn read(kind: &Kind, text: &str) -> Result<u64, String> {
        kind.read(Word { text, at: 0 }).map_err(|e| e.reason)
    }

    #[test]
    fn numbers_are_exact() {
        assert_eq!(read(&RATE, "114.68mbit"), Ok(114_680_000));
        assert_eq!(read(&DELAY, "0.5ms"), Ok(500_000));
        assert_eq!(read(&SHARE, "0.00001%"), Ok(100));
        assert_eq!(read(&SIZE, "1.5kB"), Ok(1500));
        assert_eq!(read(&BDP, "0.02bdp"), Ok(20_000));
        assert_eq!(read(&DELAY, "1.000s"), Ok(1_000_000_000));
    }

    #[test]
    fn shown_numbers_read_back() {
        let mut rng = Rng::new(1, 0);
        for kind in [&RATE, &STEP_RATE, &DELAY, &SPAN, &SIZE, &PACKETS, &COUNT, &BDP, &SHARE, &MOMENT] {
            for _ in 0..2000 {
                let bits = rng.below(50);
                let n = rng.below(1 << bits).clamp(kind.min, kind.max);
                assert_eq!(read(kind, &kind.show(n)), Ok(n), "{}", kind.show(n));
            }
        }
    }

    #[test]
    fn shown_numbers_look_as_people_write_them() {
        assert_eq!(RATE.show(100_000_000), "100mbit");
        assert_eq!(RATE.show(2_500_000), "2.5mbit");
        assert_eq!(STEP_RATE.show(0), "0mbit");
        assert_eq!(DELAY.show(500_000), "500us");
        assert_eq!(DELAY.show(0), "0ms");
        assert_eq!(SHARE.show(1_000_000), "0.1%");
        assert_eq!(BDP.show(1_000_000), "1bdp");
        assert_eq!(SIZE.show(187_500), "187.5kB");
    }

    #[test]
    fn refusals_say_what_is_expected() {
        assert_eq!(read(&DELAY, "40mss").unwrap_err(), "expected a time like 40ms (units: ns, us, ms, s)");
        assert_eq!(read(&DELAY, "40").unwrap_err(), "expected a time like 40ms (the unit is missing)");
        assert_eq!(read(&RATE, "100Mbit").unwrap_err(), "expected a rate like 100mbit (write 100mbit)");
        assert_eq!(read(&RATE, "0mbit").unwrap_err(), "a rate is at least 1bit and at most 1tbit");
        assert_eq!(read(&RATE, "99999999999999999999gbit").unwrap_err(), RATE.range);
        assert!(read(&DELAY, "-5ms").unwrap_err().starts_with("must not be negative"));
        assert!(read(&DELAY, "0.0000001ms").unwrap_err().ends_with("the finest step is 1ns"));
        assert!(read(&SHARE, "0.00000001%").unwrap_err().ends_with("0.0000001%"));
        for text in ["", ".", "1.", ".5ms", "1.2.3ms", "ms", "1e3ms", "+5ms"] {
            assert!(read(&DELAY, text).is_err(), "{text}");
        }
    }
}
