//! The table of our controllers: the object file, the parameters and the Rust twin of each; and which names the
//! kernel takes.

use headway_cc::cc::params::{self, ParamTable};
use headway_cc::cc::{self, Controller};

use crate::error::{Error, Result};
use crate::is_registered;

/// A controller that exists as a BPF program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// The object file, as `build.rs` compiled it.
    pub(crate) object: &'static [u8],
    /// Its parameters: their names, units, ranges and defaults.
    pub(crate) params: &'static ParamTable,
}

/// Embeds an object file; libelf reads it in place and wants it aligned.
macro_rules! object {
    ($stem:literal) => {{
        #[repr(align(8))]
        struct Aligned<T: ?Sized>(T);
        static OBJECT: &Aligned<[u8]> =
            &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $stem, ".bpf.o")));
        &OBJECT.0
    }};
}
pub(crate) use object;

/// Every controller that can be attached. A new one is one row here.
pub(crate) const PROGRAMS: &[Program] = &[
    Program { name: "bbr1", object: object!("bbr1"), params: &params::BBR1 },
    Program { name: "bbr3", object: object!("bbr3"), params: &params::BBR3 },
    Program { name: "bbr1_brake", object: object!("bbr1"), params: &params::BBR1_BRAKE },
    Program { name: "bbr3_brake", object: object!("bbr3"), params: &params::BBR3_BRAKE },
    Program { name: "headway", object: object!("bbr3"), params: &params::HEADWAY },
];

/// The longest name of a congestion control in bytes: `TCP_CA_NAME_MAX` less the closing zero.
pub(crate) const NAME_MAX: usize = 15;

impl Program {
    /// The controller of this name; an error names those that there are.
    pub(crate) fn named(name: &str) -> Result<&'static Program> {
        PROGRAMS.iter().find(|p| p.name == name).ok_or_else(|| {
            let names: Vec<_> = PROGRAMS.iter().map(|p| format!("`{}`", p.name)).collect();
            Error::new(format!("no BPF controller is called `{name}`"))
                .with_hint(format!("there is {}", names.join(", ")))
        })
    }

    /// The Rust twin with such parameters; `None` when they are not as many.
    pub(crate) fn twin(&self, params: &[u64]) -> Option<Box<dyn Controller>> {
        cc::entry(self.name)?.with(params)
    }
}

/// The parameters of a controller as text, two lines each: name, default and range, then what it is for.
///
/// Fails when no controller of ours is called `cc`.
pub fn params_text(cc: &str) -> Result<String> {
    let program = Program::named(cc)?;
    let mut text =
        format!("parameters of {cc}: default (range), for `headway load {cc} --set PARAM=VALUE`\n");
    for (param, default, about) in program.params.described() {
        text += &format!("  {:<29} {default} ({})\n      {about}\n", param.name, param.range());
    }
    Ok(text)
}

/// The controller's own name, unless somebody has loaded it for good, or the kernel has one of that name.
pub(crate) fn free_name(own: &str) -> String {
    match is_registered(own) {
        true => format!("hw_{}", std::process::id()),
        false => own.to_string(),
    }
}

/// Linux takes letters, digits, `_` and `.` in a name from BPF, but its BPF file system takes no dot.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match (1..=NAME_MAX).contains(&name.len()) && name.chars().all(is_fine) {
        true => Ok(()),
        false => Err(Error::new(format!("`{name}` cannot name a congestion control"))
            .with_hint(format!("use 1 to {NAME_MAX} letters, digits or `_`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_replaced_where_taken() {
        for bad in ["", "sixteen_letters_", "a b", "ümlaut", "a/b", "a.b", "a-b"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name("fifteen_letters").is_ok());
        assert_eq!(free_name("nosuch"), "nosuch");
        let beside = free_name("reno"); // in every kernel
        assert!(beside.starts_with("hw_") && check_name(&beside).is_ok(), "{beside}");
    }

    #[test]
    fn parameters_are_described() {
        let text = params_text("bbr1").unwrap();
        assert!(text.contains("min_rtt_win_us") && text.contains("10s (100ms to 3600s)"), "{text}");
        assert!(text.contains("How long a minimum RTT is believed before PROBE_RTT"), "{text}");
    }
}
