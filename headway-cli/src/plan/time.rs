//! Times as a user types them for a flag: with a unit, or as plain seconds.

use anyhow::{Result, anyhow, ensure};
use headway_cc::cc::params::Kind;

/// Units that no path text has, in seconds.
const LONG_UNITS: [(&str, u64); 3] = [("min", 60), ("m", 60), ("h", 3600)];

/// Reads `90s`, `500ms`, `1.5m`, `1h` or `10`, which is in seconds, as milliseconds.
pub fn ms(text: &str) -> Result<u64> {
    let is_number =
        |t: &str| t.starts_with(|c: char| c.is_ascii_digit()) && !t.ends_with(char::is_alphabetic);
    let long =
        LONG_UNITS.iter().find_map(|(unit, s)| Some((text.strip_suffix(unit).filter(|t| is_number(t))?, *s)));
    let (in_units, factor) = match long {
        Some((number, seconds)) => (format!("{number}s"), seconds),
        None if is_number(text) => (format!("{text}s"), 1),
        None => (text.to_string(), 1),
    };
    let wrong = || anyhow!("expected a time like 500ms, 90s, 2m or 1h; a number alone is in seconds");
    let ms = Kind::Millis.read(&in_units).map_err(|_| wrong())?;
    ms.checked_mul(factor).ok_or_else(wrong)
}

/// As [`ms`], in whole seconds.
pub fn seconds(text: &str) -> Result<u32> {
    let ms = ms(text)?;
    ensure!(ms % 1000 == 0, "expected a whole number of seconds");
    u32::try_from(ms / 1000).map_err(|_| anyhow!("that is more than a century"))
}

/// Reads `50` and `50%`.
pub fn percent(text: &str) -> Result<f64> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number
        .filter(|n: &f64| n.is_finite() && *n >= 0.0)
        .ok_or_else(|| anyhow!("expected a percentage like 50%, 0 or more"))
}

/// As [`percent`], without a fraction.
pub fn whole_percent(text: &str) -> Result<u32> {
    let number = text.strip_suffix('%').unwrap_or(text);
    number.parse().map_err(|_| anyhow!("expected a whole percentage like 50%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_in_seconds() {
        for (text, ms) in [("10", 10_000), ("0.5", 500), ("90s", 90_000), ("500ms", 500), ("1m", 60_000)] {
            assert_eq!(super::ms(text).unwrap(), ms, "{text}");
        }
        assert_eq!([ms("1.5min").unwrap(), ms("1h").unwrap()], [90_000, 3_600_000]);
        assert_eq!(seconds("2m").unwrap(), 120);
        for text in
            ["", "s", "m", "-1", "-1s", "1d", "1 m", "1e3", "10mbit", "nan", "99999999999999999999h", "ms"]
        {
            let error = ms(text).unwrap_err().to_string();
            assert!(error.starts_with("expected a time like"), "{text}: {error}");
        }
        assert_eq!(seconds("500ms").unwrap_err().to_string(), "expected a whole number of seconds");
        assert!(seconds("9999999h").is_err());
    }

    #[test]
    fn a_percentage_may_have_its_sign() {
        assert_eq!((percent("2.5%").unwrap(), percent("2").unwrap()), (2.5, 2.0));
        assert_eq!((whole_percent("50%").unwrap(), whole_percent("50").unwrap()), (50, 50));
        assert!(percent("-1").is_err() && percent("%").is_err() && percent("inf").is_err());
        assert!(whole_percent("-1%").is_err() && whole_percent("1.5%").is_err());
    }
}
