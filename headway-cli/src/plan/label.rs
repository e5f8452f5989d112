//! A controller as a candidate of a run.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a candidate is called in the plan, in the run folder and in the report: a controller, with settings if it has
/// any (`bbr3:up_pacing_gain=1.1`), and a number where the same controller runs more than once (`bbr#2`). Two labels
/// of one controller are compared like two controllers, which shows how much of a difference is noise.
///
/// A kernel, a simulator or a QUIC stack knows controllers and no labels. That this is a type of its own keeps one
/// from reaching them: they take [`Label::controller`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Label(String);

impl Label {
    /// The controller that the label means, with its settings: `bbr` of `bbr#2`.
    pub fn controller(&self) -> &str {
        self.0.split_once('#').map_or(&self.0, |(cc, _)| cc)
    }

    /// The number that tells it from other labels of the controller: 2 of `bbr#2`.
    pub fn number(&self) -> Option<u64> {
        self.0.split_once('#').and_then(|(_, number)| number.parse().ok())
    }

    /// The controller once more, under a second label.
    pub fn again(&self) -> Self {
        Self(format!("{}#2", self.controller()))
    }

    /// The whole label, for people and for comparisons.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Is it a controller alone, or one with a number?
    pub fn is_valid(&self) -> bool {
        !self.0.contains('#') || self.number().is_some()
    }
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq<str> for Label {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Label {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_controller_and_perhaps_a_number() {
        let label = |text| Label::from(text);
        assert_eq!((label("bbr").controller(), label("bbr").number()), ("bbr", None));
        assert_eq!((label("bbr#2").controller(), label("bbr#2").number()), ("bbr", Some(2)));
        assert_eq!(label("bbr3:up_pacing_gain=1.1#3").controller(), "bbr3:up_pacing_gain=1.1");
        assert_eq!(label("bbr#2").again(), label("bbr").again());
        assert!(label("bbr").is_valid() && label("bbr#2").is_valid() && !label("bbr#x").is_valid());
        assert_eq!(serde_json::to_string(&label("bbr#2")).unwrap(), "\"bbr#2\"");
    }
}
