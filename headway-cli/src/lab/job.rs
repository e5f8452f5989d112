//! What the host asks of a guest through the mailbox. It lies below `lab.rs` and `lab/guest.rs`, which are the two
//! sides.

use crate::plan::wire::Nic;
use crate::plan::{Cell, Label, PathEntry, Plan};
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
    /// One cell of a plan, told apart from the rest of it.
    ///
    /// Reading the job takes the guest instructions, which are its time, and whatever comes later is shifted by them. So the job holds
    /// only what the cell itself does. With the whole plan in it a cell came out differently when the plan had another
    /// candidate or more blocks, although nothing that was measured had changed.
    pub fn of_cell(plan: &Plan, cell: &Cell) -> Self {
        let path = &plan.paths[cell.path];
        let path = PathEntry { text: path.text.clone(), files: path.files.clone(), ..PathEntry::default() };
        let alone = Cell { index: 0, path: 0, block: 0, ..cell.clone() };
        let plan = Plan {
            ccs: Vec::new(),
            draws: None,
            paths: vec![path],
            suite: String::new(),
            blocks: 1,
            traffic: plan.traffic(cell.path).clone(),
            seed: 0,
            kernel: String::new(),
            modules: String::new(),
            cells: Vec::new(),
            layout: plan.layout,
            place: plan.place.clone(),
            transport: plan.transport,
            tool: plan.tool,
            trace: plan.trace,
            remote: plan.remote.clone(),
        };
        Self::Cell { plan: Box::new(plan), cell: alone }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::synthetic;

    /// The job of the first cell, of any plan that has it, is the same to the byte; that of another seed or traffic is not.
    #[test]
    fn a_job_holds_nothing_of_the_plan_but_its_cell() {
        let plan = synthetic::plan(2);
        let job = |change: fn(&mut Plan, &mut Cell)| {
            let (mut plan, mut cell) = (plan.clone(), plan.cells[0].clone());
            change(&mut plan, &mut cell);
            serde_json::to_string(&Job::of_cell(&plan, &cell)).unwrap()
        };
        let same = job(|_, _| ());
        let elsewhere: [fn(&mut Plan, &mut Cell); 5] = [
            |plan, _| plan.ccs.push("another".into()),
            |plan, cell| {
                plan.paths.insert(0, PathEntry::resolve("wifi-var").unwrap());
                cell.path += 1;
            },
            |plan, cell| (plan.blocks, cell.block, cell.index) = (10, 9, 100),
            |plan, _| (plan.seed, plan.suite, plan.kernel) = (9, "smoke".into(), "6.1".into()),
            |plan, cell| plan.paths[cell.path].traffic = Some(plan.traffic.clone()),
        ];
        for (i, change) in elsewhere.into_iter().enumerate() {
            assert_eq!(job(change), same, "{i}");
        }
        assert_ne!(job(|_, cell| cell.seed += 1), same);
        assert_ne!(job(|plan, _| plan.traffic.streams += 1), same);
        assert_ne!(job(|_, cell| cell.cc = "another".into()), same);
    }
}
