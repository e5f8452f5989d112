//! `cpu.txt`: how busy each CPU of the machines at the two ends was during the load. It is for the reader of the
//! folder; what the report says of it is in the notes of `cell.json`.

use std::fmt::Write as _;

/// A CPU's number, and for how many percent of the load it was not idle.
pub type Busy = (usize, f64);

/// Writes a row `side cpu busy_percent` for each CPU of the ends whose CPUs are known.
pub fn to_text<'a>(sides: impl IntoIterator<Item = (&'a str, &'a [Busy])>) -> String {
    let mut text = String::from("# side cpu busy_percent\n");
    for (side, cpus) in sides {
        for (cpu, percent) in cpus {
            writeln!(text, "{side} {cpu} {percent:.1}").expect("writing to memory");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_cpu() {
        let cpus = [(0, 89.47), (1, 0.0)];
        assert_eq!(
            to_text([("sender", &cpus[..])]),
            "# side cpu busy_percent\nsender 0 89.5\nsender 1 0.0\n"
        );
    }
}
