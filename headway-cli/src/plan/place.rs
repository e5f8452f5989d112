//! Where the cells of a plan run: the value of `--in`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a cell runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Our model of a sender over the emulated link, in virtual time.
    Sim,
    /// A stock kernel under QEMU in virtual time.
    Lab,
    /// The running kernel, with network namespaces and the emulated link between them.
    Here,
    /// The running kernel and the real path to an iperf3 or iperf 2 server: `HOST[:PORT][,HOST…]`, from which the
    /// best is chosen once for the whole run.
    Remote(String),
}

impl Place {
    /// The first word of `--in`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Lab => "lab",
            Self::Here => "here",
            Self::Remote(_) => "remote",
        }
    }

    /// Is the path a real one, about which Headway knows nothing and over which it decides nothing?
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// Does time stand still while nothing happens? Then a cell's result does not depend on when and where it runs.
    pub fn is_virtual(&self) -> bool {
        matches!(self, Self::Sim | Self::Lab)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote(host) => write!(f, "remote {host}"),
            local => f.write_str(local.word()),
        }
    }
}
