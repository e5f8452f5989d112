//! What carries the data, `--transport tcp|noq|quinn`, and which controllers can run over it without a kernel.

use anyhow::{Result, bail};
use headway_cc::cc::CONTROLLERS;
use headway_cc::quic::sim::{self as quic, Stack};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The transport in which our controllers run. A controller that a QUIC stack ships always runs in its own stack, so
/// that one table can hold our controllers and those of both stacks.
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

    /// The QUIC stack, where it is one.
    pub fn stack(&self) -> Option<Stack> {
        match self {
            Self::Tcp => None,
            Self::Noq => Some(Stack::Noq),
            Self::Quinn => Some(Stack::Quinn),
        }
    }

    /// The controllers that need no kernel: all of a simulated cell's, and all that run over QUIC.
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
