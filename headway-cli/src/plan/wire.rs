//! Ways between two hosts that have no bottleneck of ours: what is measured on them is the hosts themselves, their kernel and
//! their network cards.

use crate::plan::place::Place;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A wire, by the name that stands in place of a path's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// One host that sends to itself.
    Loopback,
    /// Two network namespaces joined by a veth pair.
    Veth,
    /// Two network cards in one guest of the lab, each in a namespace of its own, joined by the emulator.
    Nic(Nic),
}

/// A network card that the lab emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
pub enum Nic {
    /// What a virtual machine has.
    Virtio,
    /// Intel's 82540EM, a gigabit card with one queue.
    E1000,
}

/// Every wire, with what it is.
pub const WIRES: [(Wire, &str); 4] = [
    (Wire::Loopback, "one host that sends to itself"),
    (Wire::Veth, "two network namespaces joined by a veth pair"),
    (Wire::Nic(Nic::Virtio), "two virtio-net cards in one guest of the lab"),
    (Wire::Nic(Nic::E1000), "two e1000 cards in one guest of the lab"),
];

impl Wire {
    /// The wire of that name, if it is one.
    pub fn find(name: &str) -> Option<Self> {
        WIRES.iter().map(|(wire, _)| *wire).find(|wire| wire.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Veth => "veth",
            Self::Nic(Nic::Virtio) => "virtio",
            Self::Nic(Nic::E1000) => "e1000",
        }
    }

    pub fn nic(self) -> Option<Nic> {
        match self {
            Self::Nic(nic) => Some(nic),
            Self::Loopback | Self::Veth => None,
        }
    }

    /// Whether the place has such a wire.
    pub fn is_in(self, place: &Place) -> bool {
        match place {
            Place::Lab => true,
            Place::Here => self.nic().is_none(),
            Place::Sim | Place::Remote(_) => false,
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
