//! What carries the data: `--transport tcp|noq|quinn`, and which controllers there are over it.

use crate::plan::Place;
use crate::plan::traffic::{Traffic, is_usual_mtu};
use anyhow::{Result, bail, ensure};
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

    /// Streams of a QUIC connection share its controller, so that a rival would need a connection of its own.
    pub fn check(&self, place: &Place, traffic: &Traffic) -> Result<()> {
        if self.is_tcp() {
            return Ok(());
        }
        ensure!(
            !matches!(place, Place::Remote(_)),
            "--transport {self} needs a far end of its own, which an iperf3 server is not\nhint: --in sim, lab or here"
        );
        for (flag, is_given) in [
            ("--against", traffic.against.is_some()),
            ("--pacing", traffic.pacing_bps.is_some()),
            ("--mtu", !is_usual_mtu(&traffic.mtu)),
        ] {
            ensure!(!is_given, "{flag} needs TCP flows\nhint: leave --transport {self} out");
        }
        Ok(())
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
