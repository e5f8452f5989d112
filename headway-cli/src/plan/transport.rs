//! What carries the data: `--transport tcp|noq|quinn`, and which controllers there are over it.

use anyhow::{Result, bail};
use headway_cc::cc::CONTROLLERS;
use headway_cc::quic::sim::{self as quic, Stack};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What our controllers run in. A controller that a QUIC stack ships runs in that stack, whichever ours run in, so that
/// one table holds the peers of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    #[default]
    Tcp,
    Noq,
    Quinn,
}

impl Transport {
    pub fn is_tcp(&self) -> bool {
        *self == Self::Tcp
    }

    /// The QUIC stack, if it is one.
    pub fn stack(&self) -> Option<Stack> {
        match self {
            Self::Tcp => None,
            Self::Noq => Some(Stack::Noq),
            Self::Quinn => Some(Stack::Quinn),
        }
    }

    /// The controllers that need no kernel: all in a simulated cell, and all over QUIC.
    pub fn controllers(&self) -> Vec<String> {
        let ours = CONTROLLERS.iter().map(|e| e.name);
        let own = quic::OWN.iter().copied().filter(|_| !self.is_tcp());
        ours.chain(own).map(String::from).collect()
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Noq => "noq",
            Self::Quinn => "quinn",
        })
    }
}

impl FromStr for Transport {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "tcp" => Self::Tcp,
            "noq" => Self::Noq,
            "quinn" => Self::Quinn,
            _ => bail!("there is tcp, noq, quinn"),
        })
    }
}
