//! The two controllers of a trial in the kernel: those that it has already, and ours for the length of the trial. When
//! ours go, connections that have them keep them until they close.

use crate::bench::need;
use crate::plan::Place;
use crate::plan::check::check_controller;
use crate::plan::label::Label;
use crate::plan::transport::Transport;
use crate::sys::interrupt::{self, Guard};
use anyhow::{Context, Result, ensure};
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
                attached.push(attach(arm)?);
                names[at] = attached[attached.len() - 1].name().to_string();
            }
        }
        let undo = attached.iter_mut().filter_map(kernel::Attached::undo);
        let undo = undo.map(|undo| interrupt::guard(|| undo.run())).collect();
        Ok(Arms { names, _attached: attached, _undo: undo })
    }
}

/// Attaches one of ours under its own name. One with settings gets a name that nobody else has, for the same may be wanted without
/// them; and so does one whose name somebody has taken at this very moment.
fn attach(arm: &str) -> Result<kernel::Attached> {
    let own = (!arm.contains(':')).then(|| arm.to_string());
    let spare = (0..SPARE_NAMES).map(|n| format!("hwtrial{n}"));
    let mut last = None;
    for name in own.into_iter().chain(spare) {
        match kernel::attach(arm, &kernel::Options { name: Some(name), trace: false }) {
            Err(e) if e.kind() == kernel::ErrorKind::NameTaken => last = Some(e),
            done => return Ok(done?),
        }
    }
    Err(last.context("there is no name for it")?.into())
}

/// So many trials on one machine, each in a container of its own, need names.
const SPARE_NAMES: u32 = 100;

/// Whether it is a controller and nothing more.
///
/// # Errors
/// It is none, or the label asks for what a trial does not change.
pub fn check_label(arm: &str) -> Result<()> {
    let label = Label::from(arm);
    label.check()?;
    ensure!(
        label.controller() == arm,
        "`{arm}` is more than a controller, and a trial changes nothing else\nhint: `{}`",
        label.controller()
    );
    Ok(())
}

/// Whether the machine can have it.
///
/// # Errors
/// It has none of that name, or a setting is wrong.
pub fn check(arm: &str) -> Result<()> {
    check_controller(&Place::Here, Transport::default(), arm, &need::known())
}

/// As [`check`], for a trial in the simulator.
pub fn check_simulated(arm: &str) -> Result<()> {
    check_controller(&Place::Sim, Transport::default(), arm, &need::known())
}
