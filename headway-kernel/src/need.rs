//! What loading needs of the machine.

/// One thing that a place needs of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub what: String,
    pub ok: bool,
    /// What to do when it is missing.
    pub hint: String,
    /// Whether the place works without it.
    pub required: bool,
}

impl Check {
    pub fn required(what: impl Into<String>, ok: bool, hint: impl Into<String>) -> Self {
        Self { what: what.into(), ok, hint: hint.into(), required: true }
    }
}
