//! Which program makes the load: `--tool`. How it is started and read is in `load/`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The load generator of the places that have a kernel and a clock, `here` and `remote`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    #[default]
    Iperf3,
    Iperf2,
}

impl Tool {
    pub fn is_usual(&self) -> bool {
        *self == Self::Iperf3
    }

    /// The name of its executable.
    pub fn program(&self) -> &'static str {
        match self {
            Self::Iperf3 => "iperf3",
            Self::Iperf2 => "iperf",
        }
    }

    /// The TCP port on which its servers listen unless told otherwise.
    pub fn port(&self) -> u16 {
        match self {
            Self::Iperf3 => 5201,
            Self::Iperf2 => 5001,
        }
    }

    /// The command that starts the server which a run over a real path needs.
    pub fn server_command(&self) -> &'static str {
        match self {
            Self::Iperf3 => "iperf3 -s -J -i 0.1",
            Self::Iperf2 => "iperf -s",
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_usual() { "iperf3" } else { "iperf2" })
    }
}
