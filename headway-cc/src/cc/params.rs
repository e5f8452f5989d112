//! A controller's parameters as people read and write them: gains as decimals, times and rates with units.
//!
//! The controllers know rows of integers. Here is what each integer counts, the range that makes sense, and the way
//! to text and back. What a parameter is for and its default stand at the field of the row itself (`Bbr1Params`), so
//! that lists and the code cannot disagree.
//!
//! ```
//! use headway_cc::cc::params::BBR1;
//!
//! let mut words = (BBR1.defaults)();
//! BBR1.set(&mut words, "high_gain=2.9")?;
//! assert_eq!(BBR1.changed(&words), ["high_gain=2.9"]);
//! assert!(BBR1.set(&mut words, "min_rtt_win_us=10").unwrap_err().to_string().contains("the unit is missing"));
//! # Ok::<(), headway_cc::cc::params::ParamError>(())
//! ```

use super::bbr1::Bbr1Params;
use super::bbr3::{Bbr3Params, LadderParams, LossModelParams, NewcomerParams, VaryingParams};
use super::brake::BrakeParams;
use super::fixed::GAIN_UNIT;
use crate::names::nearest;
use crate::path::units::{self, Word};

/// What the integer of a parameter counts, and so how people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rounds, segments, phases: `10`.
    Count,
    /// A ratio, times [`GAIN_UNIT`]: `2.9`, to five decimals.
    Gain,
    /// Hundredths: `1%`.
    Percent,
    /// Thousandths, written as hundredths: `1.5%`.
    Permille,
    /// Microseconds: `200ms`.
    Micros,
    /// Milliseconds: `4s`.
    Millis,
    /// Bytes per second, written as bits per second: `1.2mbit`.
    Rate,
    /// Bytes: `64kB`.
    Bytes,
}

const TIMES: &[(&str, u32)] = &[("us", 0), ("ms", 3), ("s", 6)];
const ANY: units::Kind =
    units::Kind { expected: "", units: &[], min: 0, max: u64::MAX, range: "is out of range" };
const COUNT: units::Kind = units::Kind { expected: "a whole number like 3", units: &[("", 0)], ..ANY };
const GAIN: units::Kind = units::Kind { expected: "a number like 1.25", units: &[("", 5)], ..ANY };
const PERCENT: units::Kind = units::Kind { expected: "a whole share like 1%", units: &[("%", 0)], ..ANY };
const PERMILLE: units::Kind = units::Kind { expected: "a share like 1.5%", units: &[("%", 1)], ..ANY };
const MICROS: units::Kind = units::Kind { expected: "a time like 200ms", units: TIMES, ..ANY };
const MILLIS: units::Kind =
    units::Kind { expected: "a time like 200ms", units: &[("ms", 0), ("s", 3)], ..ANY };
const RATE: units::Kind = units::Kind { min: 0, ..units::RATE };
const BYTES: units::Kind = units::Kind { min: 0, ..units::SIZE };

/// A gain's text counts in these parts of one; finer than [`GAIN_UNIT`], so that every word has a text of its own.
const GAIN_PARTS: u64 = 100_000;

impl Kind {
    fn units(self) -> &'static units::Kind {
        match self {
            Kind::Count => &COUNT,
            Kind::Gain => &GAIN,
            Kind::Percent => &PERCENT,
            Kind::Permille => &PERMILLE,
            Kind::Micros => &MICROS,
            Kind::Millis => &MILLIS,
            Kind::Rate => &RATE,
            Kind::Bytes => &BYTES,
        }
    }

    /// Reads a text; an error says what was expected instead.
    pub fn read(self, text: &str) -> Result<u64, String> {
        let n = self.units().read(Word { text, at: 0 }).map_err(|e| e.reason)?;
        Ok(self.word_of(n))
    }

    /// The word for a number of the text's smallest unit.
    fn word_of(self, n: u64) -> u64 {
        match self {
            Kind::Gain => scale(n, GAIN_UNIT, GAIN_PARTS),
            Kind::Rate => n / 8,
            _ => n,
        }
    }

    /// The word near this one that is written with three significant digits: what people copy and compare.
    fn rounded(self, word: u64) -> u64 {
        let n = match self {
            Kind::Gain => scale(word, GAIN_PARTS, GAIN_UNIT),
            Kind::Rate => word.saturating_mul(8),
            _ => word,
        };
        let step =
            std::iter::successors(Some(1u64), |step| step.checked_mul(10)).find(|step| n / step < 1000);
        let step = step.unwrap_or(1);
        self.word_of(n.saturating_add(step / 2) / step * step)
    }

    /// The text that [`Kind::read`] takes back.
    pub fn show(self, word: u64) -> String {
        self.units().show(match self {
            Kind::Gain => gain_parts(word),
            Kind::Rate => word.saturating_mul(8),
            _ => word,
        })
    }
}

/// The roundest number of parts that is read back as this gain, so that people see the 1.25 that they wrote.
fn gain_parts(word: u64) -> u64 {
    let exact = scale(word, GAIN_PARTS, GAIN_UNIT);
    let mut steps = (0..=5).rev().map(|digits| 10_u64.pow(digits));
    let rounded = |step: u64| exact.saturating_add(step / 2) / step * step;
    steps.find(|&step| scale(rounded(step), GAIN_UNIT, GAIN_PARTS) == word).map_or(exact, rounded)
}

/// `n * to / from`, to the nearest integer.
fn scale(n: u64, to: u64, from: u64) -> u64 {
    u64::try_from((u128::from(n) * u128::from(to) + u128::from(from / 2)) / u128::from(from))
        .unwrap_or(u64::MAX)
}

/// One parameter: its field in the row, what it counts, and the smallest and the largest word that make sense.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The field's name, which is also the word before the `=` of a setting.
    pub name: &'static str,
    /// What the word counts, and so which units its text has.
    pub kind: Kind,
    /// Smallest word that a setting may give, in the unit of `kind`.
    pub min: u64,
    /// Largest word that a setting may give.
    pub max: u64,
}

/// The parameters of one controller, in the order of their row.
#[derive(Clone, Copy, Debug)]
pub struct ParamTable {
    /// One for each field of the row, in its order.
    pub rows: &'static [Param],
    /// What each is for, in the same order: the documentation of the row's fields.
    pub about: &'static [&'static str],
    /// The row of defaults.
    pub defaults: fn() -> Vec<u64>,
}

/// The values that a setting such as `up_pacing_gain=1.1..1.5` stands for: all from the first to the second.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Whose values these are.
    pub param: &'static Param,
    low: u64,
    high: u64,
}

/// A range whose upper end is more than this many times its lower one is divided by ratios.
const LARGEST_LINEAR_RATIO: u64 = 10;

impl Range {
    /// The setting whose value lies at this share of the range, from 0 to 1, with three significant digits:
    /// `up_pacing_gain=1.3` is half of 1.1 to 1.5. Equal shares are equal distances, or equal ratios where the upper end is
    /// more than ten times the lower one: half of 1 ms to 100 ms is 10 ms. A lower end of zero has no ratios.
    pub fn at(&self, share: f64) -> String {
        let Self { param, low, high } = *self;
        // Half a word more on each side, so that the ends of a range of few whole numbers are met as often as the others.
        let (from, to) = (low as f64 - 0.5, high as f64 + 0.5);
        let is_by_ratio = low > 0 && high > low.saturating_mul(LARGEST_LINEAR_RATIO);
        let value = if is_by_ratio { between(from, to, share) } else { from + share * (to - from) };
        let word = param.kind.rounded((value.round() as u64).clamp(low, high)).clamp(low, high);
        format!("{}={}", param.name, param.kind.show(word))
    }
}

/// `from * (to / from)^share`, by halving. Unlike `powf`, a square root is rounded alike on every machine.
fn between(from: f64, to: f64, share: f64) -> f64 {
    let (mut low, mut high, mut share) = (from, to, share);
    for _ in 0..f64::MANTISSA_DIGITS {
        let middle = (low * high).sqrt();
        share *= 2.0;
        if share < 1.0 {
            high = middle;
        } else {
            share -= 1.0;
            low = middle;
        }
    }
    low
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamError {
    /// Not of the form `param=value`.
    Form {
        /// The setting as it was given.
        text: String,
    },
    /// No parameter of that name.
    Unknown {
        /// What stood before the `=`.
        name: String,
        /// Every name of the table, in the order of its rows.
        known: Vec<&'static str>,
    },
    /// The value is not of the parameter's kind, or out of its range.
    Value {
        /// The parameter.
        name: &'static str,
        /// What stood after the `=`.
        text: String,
        /// What was expected instead, to be shown after a colon.
        reason: String,
    },
    /// The first end of a range is not below the second.
    Range {
        /// The parameter.
        name: &'static str,
        /// What stood after the `=`.
        text: String,
    },
    /// The row has fewer words than the table has parameters.
    ShortRow {
        /// The words of the row.
        words: usize,
    },
}

impl std::fmt::Display for ParamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Form { text } => write!(f, "`{text}` is not a setting; expected param=value"),
            Self::Unknown { name, known } => match nearest(name, known.iter().copied()) {
                Some(meant) => write!(f, "there is no parameter `{name}`; did you mean `{meant}`?"),
                None => write!(f, "there is no parameter `{name}`, only {}", known.join(", ")),
            },
            Self::Range { name, text } => {
                write!(f, "`{text}` in `{name}={text}`: the first end of a range must be below the second")
            }
            Self::ShortRow { words } => write!(f, "a row of {words} words is not of this controller"),
            Self::Value { name, text, reason } => write!(f, "`{text}` in `{name}={text}`: {reason}"),
        }
    }
}
impl std::error::Error for ParamError {}

impl ParamTable {
    /// The row of defaults with these settings.
    pub fn with<'a>(&self, settings: impl IntoIterator<Item = &'a str>) -> Result<Vec<u64>, ParamError> {
        let mut words = (self.defaults)();
        settings.into_iter().try_for_each(|setting| self.set(&mut words, setting))?;
        Ok(words)
    }

    /// Writes a setting such as `high_gain=2.9` into the row.
    pub fn set(&self, words: &mut [u64], setting: &str) -> Result<(), ParamError> {
        let (at, text) = self.find(setting)?;
        let word = self.rows[at].word(text)?;
        let short = ParamError::ShortRow { words: words.len() };
        *words.get_mut(at).ok_or(short)? = word;
        Ok(())
    }

    /// The range of a setting such as `high_gain=2..3`; `None` of one that has a single value.
    pub fn range(&self, setting: &str) -> Result<Option<Range>, ParamError> {
        let (at, text) = self.find(setting)?;
        let param = &self.rows[at];
        let Some((low, high)) = text.split_once("..") else { return Ok(None) };
        let (low, high) = (param.word(low)?, param.word(high)?);
        if low >= high {
            return Err(ParamError::Range { name: param.name, text: text.to_string() });
        }
        Ok(Some(Range { param, low, high }))
    }

    /// The row that a setting names, and the text of its value.
    fn find<'a>(&self, setting: &'a str) -> Result<(usize, &'a str), ParamError> {
        let form = || ParamError::Form { text: setting.to_string() };
        let (name, text) = setting.split_once('=').ok_or_else(form)?;
        let unknown = || ParamError::Unknown {
            name: name.to_string(),
            known: self.rows.iter().map(|p| p.name).collect(),
        };
        Ok((self.rows.iter().position(|p| p.name == name).ok_or_else(unknown)?, text))
    }

    /// The settings that make this row of the defaults.
    pub fn changed(&self, words: &[u64]) -> Vec<String> {
        let rows = self.rows.iter().zip(words.iter().zip((self.defaults)()));
        rows.filter(|(_, (word, default))| *word != default)
            .map(|(p, (word, _))| format!("{}={}", p.name, p.kind.show(*word)))
            .collect()
    }

    /// Each parameter with its default and what it is for.
    pub fn described(&self) -> impl Iterator<Item = (&'static Param, String, &'static str)> {
        let defaults = (self.defaults)().into_iter();
        let rows = self.rows.iter().zip(defaults.zip(self.about.iter().copied()));
        rows.map(|(p, (word, about))| (p, p.kind.show(word), about))
    }
}

impl Param {
    /// The word for a value's text, if it is one that makes sense.
    fn word(&self, text: &str) -> Result<u64, ParamError> {
        let fail = |reason| ParamError::Value { name: self.name, text: text.to_string(), reason };
        let word = self.kind.read(text).map_err(fail)?;
        if word < self.min || word > self.max {
            return Err(fail(format!("expected {}", self.range())));
        }
        Ok(word)
    }

    /// The range in words.
    pub fn range(&self) -> String {
        format!("{} to {}", self.kind.show(self.min), self.kind.show(self.max))
    }
}

const fn param(name: &'static str, kind: Kind, min: u64, max: u64) -> Param {
    Param { name, kind, min, max }
}

/// A gain in hundredths.
const fn gain(name: &'static str, min: u64, max: u64) -> Param {
    param(name, Kind::Gain, (min * GAIN_UNIT + 50) / 100, (max * GAIN_UNIT + 50) / 100)
}

const MS: u64 = 1_000;
const S: u64 = 1_000_000;

/// The rows of a controller, then those of the brake, which both controllers have, then what else it has.
macro_rules! rows_with_brake {
    [$($own:expr,)+] => { rows_with_brake![$($own,)+; ] };
    [$($own:expr,)+; $($more:expr,)*] => {
        &[
            $($own,)+
            param("brake", Kind::Count, 0, 1),
            gain("brake_slot", 1, 400),
            gain("brake_slot_braked", 1, 400),
            param("brake_slot_min_acks", Kind::Count, 1, 100),
            param("brake_slot_min_segments", Kind::Count, 1, 1000),
            gain("brake_rtt", 1, 1000),
            gain("brake_rtt_braked", 1, 1000),
            param("brake_rtt_us", Kind::Micros, 0, S),
            gain("brake_rate", 1, 99),
            param("brake_deviations", Kind::Count, 0, 100),
            gain("brake_loss", 0, 1000),
            param("brake_loss_slots", Kind::Count, 1, 100),
            gain("brake_memory", 1, 100),
            gain("brake_grow", 105, 400),
            gain("brake_grow_fast", 105, 800),
            param("brake_patience", Kind::Count, 1, 1000),
            param("brake_hold_us", Kind::Micros, 0, 3600 * S),
            param("brake_extra_segments", Kind::Count, 0, 100),
            param("brake_max_further_drops", Kind::Count, 0, 100),
            gain("brake_memory_worse", 0, 100),
            param("brake_long_us", Kind::Micros, 0, 3600 * S),
            gain("brake_shared", 0, 1000),
            $($more,)*
        ]
    };
}

/// The parameters of `bbr1`. The ranges keep out values that would stop a flow or let it send without bound, and no
/// others: an unwise value is the user's own business.
pub const BBR1: ParamTable = ParamTable {
    rows: rows_with_brake![
        param("bw_rtts", Kind::Count, 1, 1000),
        param("min_rtt_win_us", Kind::Micros, 100 * MS, 3600 * S),
        param("probe_rtt_mode_us", Kind::Micros, 0, 10 * S),
        param("min_tso_rate", Kind::Rate, 0, 1_250_000_000),
        param("pacing_margin_percent", Kind::Percent, 0, 50),
        param("pacing_shift", Kind::Count, 5, 16),
        param("gso_max_bytes", Kind::Bytes, 1500, 524_280),
        param("max_tso_segs", Kind::Count, 2, 65_535),
        param("tso_budget", Kind::Count, 0, 100),
        param("probe_bw_segs", Kind::Count, 0, 1000),
        gain("high_gain", 101, 1000),
        gain("drain_gain", 5, 100),
        gain("cwnd_gain", 100, 1000),
        gain("pacing_gain_up", 100, 1000),
        gain("pacing_gain_down", 5, 100),
        param("cycle_len", Kind::Count, 2, 1000),
        param("cycle_rand", Kind::Count, 1, 1000),
        param("cwnd_min_target", Kind::Count, 1, 1000),
        param("init_cwnd", Kind::Count, 1, 1000),
        param("init_rtt_us", Kind::Micros, 1, 10 * S),
        gain("full_bw_thresh", 101, 1000),
        param("full_bw_cnt", Kind::Count, 1, 1000),
        param("lt_intvl_min_rtts", Kind::Count, 1, 1000),
        param("lt_intvl_max_rtts", Kind::Count, 1, 10_000),
        param("lt_intvl_max_ms", Kind::Millis, 1, u32::MAX as u64),
        gain("lt_loss_thresh", 0, 100),
        gain("lt_bw_ratio", 0, 100),
        param("lt_bw_diff", Kind::Rate, 0, 1_250_000_000),
        param("lt_bw_max_rtts", Kind::Count, 1, 100_000),
        gain("extra_acked_gain", 0, 1000),
        param("extra_acked_win_rtts", Kind::Count, 1, 1000),
        param("ack_epoch_acked_reset_thresh", Kind::Count, 1, u32::MAX as u64),
        param("extra_acked_max_us", Kind::Micros, 0, 10 * S),
    ],
    about: Bbr1Params::ABOUT,
    defaults: || Bbr1Params::default().words(),
};

/// The parameters of `bbr3`, with ranges of the same kind as [`BBR1`]'s.
pub const BBR3: ParamTable = ParamTable {
    rows: rows_with_brake![
        gain("startup_pacing_gain", 101, 1000),
        gain("drain_pacing_gain", 5, 100),
        gain("down_pacing_gain", 5, 100),
        gain("cruise_pacing_gain", 50, 200),
        gain("up_pacing_gain", 100, 1000),
        gain("default_cwnd_gain", 100, 1000),
        gain("up_cwnd_gain", 100, 1000),
        gain("probe_rtt_cwnd_gain", 5, 100),
        param("pacing_margin_percent", Kind::Percent, 0, 50),
        param("loss_thresh_permille", Kind::Permille, 0, 500),
        param("beta_permille", Kind::Permille, 100, 1000),
        param("headroom_permille", Kind::Permille, 0, 900),
        param("min_pipe_cwnd", Kind::Count, 1, 1000),
        param("extra_acked_filter_len", Kind::Count, 1, 1000),
        param("startup_extra_acked_filter_len", Kind::Count, 1, 1000),
        param("min_rtt_filter_len_us", Kind::Micros, 100 * MS, 3600 * S),
        param("probe_rtt_interval_us", Kind::Micros, 100 * MS, 3600 * S),
        param("probe_rtt_duration_us", Kind::Micros, 0, 10 * S),
        gain("full_bw_gain", 101, 1000),
        param("full_bw_count", Kind::Count, 1, 1000),
        param("startup_full_loss_count", Kind::Count, 1, 1000),
        param("drain_rounds", Kind::Count, 0, 1000),
        param("bw_probe_wait_us", Kind::Micros, 0, 3600 * S),
        param("bw_probe_wait_rand_us", Kind::Micros, 0, 3600 * S),
        param("bw_probe_max_rounds", Kind::Count, 1, 100_000),
        param("bw_probe_rand_rounds", Kind::Count, 1, 1000),
        param("bw_probe_up_rounds_max", Kind::Count, 1, 60),
        param("up_extra_segments", Kind::Count, 0, 1000),
        param("send_quantum_us", Kind::Micros, 1, 100 * MS),
        param("send_quantum_max_bytes", Kind::Bytes, 1500, 524_280),
        param("send_quantum_min_segments", Kind::Count, 1, 1000),
        param("tcp_offload_quanta", Kind::Count, 0, 100),
        param("quic_offload_quanta", Kind::Count, 0, 100),
        param("init_rtt_us", Kind::Micros, 1, 10 * S),
        param("is_ack_judged", Kind::Count, 0, 1),
        param("ecn", Kind::Count, 0, 1),
        param("ecn_max_rtt_us", Kind::Micros, 0, 3600 * S),
        gain("ecn_alpha_gain", 0, 100),
        gain("ecn_alpha_init", 0, 100),
        gain("ecn_factor", 0, 100),
        gain("ecn_thresh", 0, 100),
        param("startup_full_ecn_count", Kind::Count, 1, 1000),
        ;
        param("ladder", Kind::Count, 0, 1),
        gain("ladder_first_gain", 100, 200),
        param("ladder_first_rounds", Kind::Count, 0, 100),
        gain("ladder_top_gain", 100, 1000),
        param("ladder_flat_rounds", Kind::Count, 1, 1000),
        param("ladder_max_rounds", Kind::Count, 1, 100_000),
        param("ladder_rand_rounds", Kind::Count, 1, 1000),
        gain("ladder_slot", 1, 400),
        param("ladder_slot_min_acks", Kind::Count, 1, 100),
        param("ladder_slot_min_segments", Kind::Count, 1, 1000),
        param("ladder_slots", Kind::Count, 1, 1000),
        gain("ladder_rtt", 0, 1000),
        param("ladder_deviations", Kind::Count, 0, 100),
        gain("ladder_shared", 0, 10_000),
        param("ladder_shared_us", Kind::Micros, 0, 3600 * S),
        gain("ladder_memory", 1, 100),
        param("loss_model", Kind::Count, 0, 1),
        gain("loss_low_rtt", 0, 1000),
        param("loss_low_us", Kind::Micros, 0, S),
        gain("loss_slot", 1, 400),
        param("loss_base_us", Kind::Micros, S, 3600 * S),
        gain("loss_memory", 1, 100),
        param("loss_min_sent", Kind::Count, 1, 100_000),
        param("loss_min_lost", Kind::Count, 1, 100_000),
        param("loss_window_lost", Kind::Count, 1, 100_000),
        param("loss_window_sent", Kind::Count, 1, 1_000_000),
        gain("loss_min_share", 0, 100),
        gain("loss_max_share", 0, 100),
        gain("loss_share_per_segment", 0, 100),
        gain("loss_limit", 100, 1000),
        param("loss_limit_deviations", Kind::Count, 0, 100),
        gain("loss_tolerated", 100, 1000),
        param("loss_tolerated_deviations", Kind::Count, 0, 100),
        param("loss_burst", Kind::Count, 1, 100),
        param("loss_hold_rounds", Kind::Count, 0, 1_000_000),
        gain("loss_full_rtt", 0, 1000),
        param("loss_blind_probes", Kind::Count, 1, 1_000_000),
        param("loss_blind_hold", Kind::Count, 1, 1000),
        gain("loss_growth_share", 0, 100),
        param("loss_small_rounds", Kind::Count, 0, 1_000_000),
        param("loss_compensate", Kind::Count, 0, 1),
        param("newcomer", Kind::Count, 0, 1),
        param("newcomer_alone_us", Kind::Micros, 0, 3600 * S),
        gain("newcomer_empty", 0, 10_000),
        gain("newcomer_queue", 0, 10_000),
        gain("newcomer_taken", 0, 100),
        gain("newcomer_keep", 0, 100),
        param("newcomer_spares_probe_rtt", Kind::Count, 0, 1),
        param("varying", Kind::Count, 0, 1),
        param("varying_slot_min_segments", Kind::Count, 1, 1000),
        param("varying_interval_us", Kind::Micros, 1, 10 * S),
        gain("varying_busy", 0, 1000),
        gain("varying_step", 101, 1000),
        param("varying_memory_us", Kind::Micros, MS, 3600 * S),
        gain("varying_queue", 0, 10_000),
        param("varying_rounds", Kind::Count, 1, 1000),
        param("varying_hold_us", Kind::Micros, 0, 3600 * S),
    ],
    about: Bbr3Params::ABOUT,
    defaults: || Bbr3Params::default().words(),
};

/// The parameters of `bbr1_brake`: those of [`BBR1`] with the brake on. It learns every queue: BBRv1's model follows a slow
/// fall within ten rounds, so there is little to win by noticing one, and beside another `bbr1` it cost 2 % of the share.
pub const BBR1_BRAKE: ParamTable = ParamTable {
    defaults: || {
        let brake = BrakeParams { long_us: 0, ..BrakeParams::on() };
        Bbr1Params { brake, ..Bbr1Params::default() }.words()
    },
    ..BBR1
};

/// The parameters of `bbr3_brake`: those of [`BBR3`] with the brake on.
pub const BBR3_BRAKE: ParamTable = ParamTable {
    defaults: || Bbr3Params { brake: BrakeParams::on(), ..Bbr3Params::default() }.words(),
    ..BBR3
};

/// The parameters of `headway`: those of [`BBR3`] with the brake, the ladder, the loss model, the room for a newcomer and the
/// answer to links that vary on.
pub const HEADWAY: ParamTable = ParamTable {
    defaults: || {
        let (brake, ladder) = (BrakeParams::on(), LadderParams::on());
        let (loss, newcomer, varying) = (LossModelParams::on(), NewcomerParams::on(), VaryingParams::on());
        Bbr3Params { brake, ladder, loss, newcomer, varying, ..Bbr3Params::default() }.words()
    },
    ..BBR3
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rand::Rng;

    /// Tables with the fields of their rows.
    const TABLES: [(&ParamTable, &[&str]); 2] = [(&BBR1, Bbr1Params::FIELDS), (&BBR3, Bbr3Params::FIELDS)];

    #[test]
    fn the_table_is_the_row() {
        for (table, fields) in TABLES {
            let names: Vec<_> = table.rows.iter().map(|p| p.name).collect();
            assert_eq!(names, fields);
            assert_eq!(table.about.len(), names.len());
            for (param, word) in table.rows.iter().zip((table.defaults)()) {
                assert!((param.min..=param.max).contains(&word), "{}: default {word}", param.name);
            }
            assert!(table.about.iter().all(|about| about.ends_with(['.', ')']) || about.ends_with("...")));
        }
    }

    /// Values that people write come back as they were written; every word has a text that gives it back.
    #[test]
    fn shown_values_read_back() {
        let mut rng = Rng::new(1, 0);
        for param in TABLES.iter().flat_map(|(table, _)| table.rows) {
            for word in [param.min, param.max].into_iter().chain((0..500).map(|_| {
                let bits = rng.below(45);
                rng.below(1 << bits).clamp(param.min, param.max)
            })) {
                let text = param.kind.show(word);
                assert_eq!(param.kind.read(&text), Ok(word), "{}={text}", param.name);
            }
        }
    }

    #[test]
    fn settings_are_written_as_people_do() {
        let mut words = (BBR1.defaults)();
        assert!(BBR1.changed(&words).is_empty());
        let settings = [
            "min_rtt_win_us=5s",
            "probe_rtt_mode_us=150ms",
            "min_tso_rate=2.4mbit",
            "pacing_margin_percent=3%",
            "high_gain=2.9",
            "cwnd_gain=2.25",
            "lt_intvl_max_ms=1.5s",
        ];
        for setting in settings {
            BBR1.set(&mut words, setting).unwrap();
        }
        assert_eq!(BBR1.changed(&words), settings);
        let row = Bbr1Params::from_words(&words).unwrap();
        assert_eq!(
            (row.min_rtt_win_us, row.min_tso_rate, row.pacing_margin_percent),
            (5_000_000, 300_000, 3)
        );
        assert_eq!((row.cwnd_gain, row.lt_intvl_max_ms), (GAIN_UNIT * 9 / 4, 1500));
    }

    #[test]
    fn a_range_is_divided_by_distances_or_by_ratios() {
        let at = |setting: &str, share| BBR1.range(setting).unwrap().unwrap().at(share);
        assert_eq!(
            [0.0, 0.5, 1.0].map(|s| at("high_gain=2..3", s)),
            ["high_gain=2", "high_gain=2.5", "high_gain=3"]
        );
        let rtts = [0.0, 0.5, 1.0].map(|s| at("min_rtt_win_us=100ms..10s", s));
        assert_eq!(rtts, ["min_rtt_win_us=100ms", "min_rtt_win_us=1s", "min_rtt_win_us=10s"]);
        assert_eq!(
            at("min_rtt_win_us=1s..10s", 0.5),
            "min_rtt_win_us=5.5s",
            "ten times is not more than ten times"
        );
        assert_eq!(at("probe_rtt_mode_us=0s..10s", 0.1234), "probe_rtt_mode_us=1.23s", "zero has no ratios");
        assert_eq!(at("min_tso_rate=1mbit..2mbit", 0.2345), "min_tso_rate=1.23mbit");
        assert_eq!(at("pacing_margin_percent=1%..9%", 0.5), "pacing_margin_percent=5%");
        assert!(BBR1.range("high_gain=2").unwrap().is_none());
    }

    /// Each value of a whole-numbered range gets an equal part of the shares, and none lies outside.
    #[test]
    fn whole_numbers_are_met_equally_often() {
        let range = BBR1.range("bw_rtts=3..6").unwrap().unwrap();
        let met: Vec<String> = (0..400).map(|n| range.at(f64::from(n) / 400.0)).collect();
        let count = |value: u32| met.iter().filter(|m| **m == format!("bw_rtts={value}")).count();
        assert_eq!([3, 4, 5, 6].map(count), [100; 4]);
    }

    /// A drawn value lies in its range, has a text of three significant digits or fewer, and can be set.
    #[test]
    fn every_value_of_a_range_can_be_set() {
        let mut rng = Rng::new(1, 0);
        for (table, param) in TABLES.iter().flat_map(|(table, _)| table.rows.iter().map(move |p| (table, p)))
        {
            let ends = [rng.below(param.max - param.min) + param.min, param.max];
            let [low, high] = ends.map(|word| param.kind.show(word));
            let range = table.range(&format!("{}={low}..{high}", param.name)).unwrap().unwrap();
            for share in [0.0, 0.001, 0.3, 0.7, 0.999, 1.0] {
                let setting = range.at(share);
                let word = param.word(setting.split_once('=').unwrap().1).unwrap();
                assert!((ends[0]..=ends[1]).contains(&word), "{setting} is not in {low}..{high}");
                table.with([setting.as_str()]).unwrap();
            }
        }
    }

    #[test]
    fn a_range_that_is_none_is_refused() {
        let refused = |setting: &str| BBR1.range(setting).unwrap_err().to_string();
        assert_eq!(
            refused("high_gain=3..2"),
            "`3..2` in `high_gain=3..2`: the first end of a range must be below the second"
        );
        assert!(refused("high_gain=2..2").contains("must be below"));
        assert_eq!(refused("high_gain=2..99"), "`99` in `high_gain=99`: expected 1.01 to 10");
        assert!(refused("high_gain=..2").contains("expected a number like 1.25"));
        assert!(refused("high_gain=2...3").contains("expected a number like 1.25"));
        assert!(refused("min_rtt_win_us=1..2s").contains("the unit is missing"));
        assert!(refused("bw_rtts=2..3.5").starts_with("`3.5` in `bw_rtts=3.5`: "));
        assert!(refused("low_gain=1..2").contains("there is no parameter `low_gain`"));
    }

    #[test]
    fn refusals_point_at_the_word() {
        let mut words = (BBR1.defaults)();
        let mut refused = |setting: &str| BBR1.set(&mut words, setting).unwrap_err().to_string();
        assert!(refused("high_gain").starts_with("`high_gain` is not a setting"));
        assert!(refused("low_gain=2").starts_with("there is no parameter `low_gain`, only bw_rtts, "));
        assert_eq!(refused("high_gain=99"), "`99` in `high_gain=99`: expected 1.01 to 10");
        assert!(refused("high_gain=0").contains("1.01 to 10"));
        assert!(refused("high_gain=-2").contains("`-2` in "));
        assert!(refused("high_gain=2x").contains("expected a number like 1.25"));
        assert!(refused("high_gain=").contains("expected a number like 1.25"));
        assert!(refused("min_rtt_win_us=10").contains("the unit is missing"));
        assert!(refused("probe_rtt_mode_us=11s").contains("0s to 10s"));
        assert!(refused("bw_rtts=99999999999999999999").contains("out of range"));
        assert_eq!(words, (BBR1.defaults)(), "a refused setting changes nothing");
        assert_eq!(BBR1.set(&mut [0; 3], "high_gain=2"), Err(ParamError::ShortRow { words: 3 }));
    }
}
