//! Values as they stand in a narrow column: three digits and a letter, as `iftop` and `ls -h` have them.

use crate::report::words::number;
use std::time::Duration;

/// Bytes a second, as bits a second: `9.4M` are 9.4 Mbit/s.
pub fn bits(bytes_per_second: u64) -> String {
    scaled(bytes_per_second as f64 * 8.0)
}

/// Bytes: `1.5G` are 1.5 GB, of 10^9 bytes each.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64)
}

fn scaled(value: f64) -> String {
    const LETTERS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let mut value = value;
    let mut letters = LETTERS.iter();
    let mut letter = letters.next();
    // 999.6 would be written as 1000.
    while value >= 999.5 {
        let Some(next) = letters.next() else { break };
        (value, letter) = (value / 1000.0, Some(next));
    }
    let digits = if value < 9.95 && letter != Some(&"") { 1 } else { 0 };
    format!("{value:.digits$}{}", letter.unwrap_or(&""))
}

/// Milliseconds.
pub fn ms(time: Duration) -> String {
    number(time.as_secs_f64() * 1e3)
}

/// An age in its largest unit: `12s`, `5m`, `3h`, `8d`.
pub fn age(time: Duration) -> String {
    let s = time.as_secs();
    match s {
        0..120 => format!("{s}s"),
        120..7200 => format!("{}m", s / 60),
        7200..172_800 => format!("{}h", s / 3600),
        _ => format!("{}d", s / 86_400),
    }
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        x if x > 0.0 && x < 0.05 => "<0.1".into(),
        x => format!("{x:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_three_digits_and_a_letter() {
        let values = [0, 1, 125, 1_249, 1_250_000, 124_900_000, 125_000_000, 12_500_000_000_000];
        let texts = ["0", "8", "1.0k", "10k", "10M", "999M", "1.0G", "100T"];
        for (value, text) in values.into_iter().zip(texts) {
            assert_eq!(bits(value), text, "{value}");
        }
        assert_eq!((bytes(999), bytes(1_500_000_000)), ("999".into(), "1.5G".into()));
        assert_eq!(
            (percent(0.0), percent(0.0001), percent(0.0123)),
            ("0.0".into(), "<0.1".into(), "1.2".into())
        );
        let ages = [(119, "119s"), (120, "2m"), (7200, "2h"), (200_000, "2d")];
        assert!(ages.iter().all(|(s, text)| age(Duration::from_secs(*s)) == *text));
    }
}
