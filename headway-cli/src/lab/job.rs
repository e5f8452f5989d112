//! What the host asks of a guest through the mailbox. It lies below `lab.rs` and `lab/guest.rs`, which are the two
//! sides.

use crate::plan::wire::Nic;
use crate::plan::{Cell, Label, Plan};
use serde::{Deserialize, Serialize};

/// The argument that tells the guest's `/init` from a `headway` that happens to be a container's first process.
pub const ARGUMENT: &str = "lab-guest";

/// What the host asks of a guest.
#[derive(Debug, Serialize, Deserialize)]
pub enum Job {
    /// A cell to run with the code of `--in here`.
    Cell { plan: Box<Plan>, cell: Cell },
    /// Candidates whose settings are to be tried out, and the network cards that the kernel must drive.
    Try(Vec<Label>, Option<Nic>),
    /// Commands to run one after the other (`headway in-lab`).
    Commands(Commands),
}

impl Job {
    /// The network cards that the guest has, if any.
    pub fn nic(&self) -> Option<Nic> {
        match self {
            Self::Cell { plan, cell } => plan.paths[cell.path].wire()?.nic(),
            Self::Try(_, nic) => *nic,
            Self::Commands(commands) => commands.nic,
        }
    }

    /// Whether the kernel stops its tick while it has nothing to do.
    pub fn is_tickless(&self) -> bool {
        matches!(self, Self::Commands(commands) if commands.is_tickless)
    }

    /// Whether the guest may mark moments between which the host counts its instructions. A mark may move the guest's clock
    /// (`lab/control.rs`), which a cell, whose bytes are the same on every run, does not bear.
    pub fn may_count(&self) -> bool {
        matches!(self, Self::Commands(..))
    }
}

/// What is run in a guest to try out what a kernel does.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Commands {
    /// One after the other; the words of each are split at blanks.
    pub commands: Vec<String>,
    pub nic: Option<Nic>,
    /// The tick stops while nothing runs. Hours of waiting then cost next to nothing, and each packet a fifth more.
    pub is_tickless: bool,
}

/// The file with what [`Job::Commands`] printed.
pub const SAID: &str = "said.txt";
