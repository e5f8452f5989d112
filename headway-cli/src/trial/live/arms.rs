//! The two controllers of a trial in the kernel: those that it has already, and ours for the length of the trial. When
//! ours go, connections that have them keep them until they close.

use crate::bench::need;
use crate::plan::Place;
use crate::plan::check::check_controller;
use crate::plan::label::Label;
use crate::plan::transport::Transport;
use crate::sys::interrupt::{self, Guard};
use anyhow::{Result, ensure};
use headway_kernel as kernel;

#[derive(Debug)]
pub struct Arms {
    /// What sockets choose.
    pub names: [String; 2],
    // The registrations go first, then what would undo them on a signal.
    _attached: Vec<kernel::Attached>,
    _undo: Vec<Guard>,
}

impl Arms {
    /// Puts into the kernel what it does not have.
    pub fn up(arms: &[String; 2]) -> Result<Arms> {
        let mut attached: Vec<kernel::Attached> = Vec::new();
        let mut names = arms.clone();
        for (at, arm) in arms.iter().enumerate() {
            if at == 1 && arms[0] == arms[1] {
                names[1] = names[0].clone();
            } else if !kernel::is_registered(arm) {
                let name = free_name(arm, at);
                attached
                    .push(kernel::attach(arm, &kernel::Options { name: Some(name.clone()), trace: false })?);
                names[at] = name;
            }
        }
        let undo = attached.iter_mut().filter_map(kernel::Attached::undo);
        let undo = undo.map(|undo| interrupt::guard(|| undo.run())).collect();
        Ok(Arms { names, _attached: attached, _undo: undo })
    }
}

/// The controller's own name. One with settings gets a name that nobody else has, for the same may be wanted without them.
fn free_name(arm: &str, at: usize) -> String {
    match arm.contains(':') {
        true => format!("hw{}_{}", ["a", "b"][at], std::process::id()),
        false => arm.to_string(),
    }
}

/// Whether the machine can have it.
///
/// # Errors
/// It has none of that name, a setting is wrong, or the label asks for what a trial does not change.
pub fn check(arm: &str) -> Result<()> {
    let label = Label::from(arm);
    label.check()?;
    ensure!(
        label.controller() == arm,
        "`{arm}` is more than a controller, and a trial changes nothing else\nhint: `{}`",
        label.controller()
    );
    check_controller(&Place::Here, Transport::default(), arm, &need::known())
}

/// As [`check`], for a trial in the simulator.
pub fn check_simulated(arm: &str) -> Result<()> {
    check_controller(&Place::Sim, Transport::default(), arm, &need::known())
}
