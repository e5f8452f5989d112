//! Who sends in a cell on a kernel, and what is said of it in the end: the controllers under test and of the rival,
//! in the kernel for the length of the cell, and the verdict on their loads. `here` and `remote` share this.

use crate::plan::{Cell, traffic};
use crate::raw;
use crate::raw::cell::CellResult;
use crate::raw::folder::write_atomic;
use crate::sys::interrupt::{self, Guard};
use anyhow::{Context, Result, ensure};
use headway_kernel as kernel;
use std::fs::File;
use std::path::Path as FsPath;

/// Judges each load by its JSON and writes `load.json`, `rival.json` and `cell.json`. Each load comes with the name
/// that its controller has in the kernel, which its sockets must have reported.
pub fn conclude(
    mut result: CellResult,
    dir: &FsPath,
    ours: (&str, &str),
    rival: Option<(&str, &str)>,
) -> Result<()> {
    result.kernel = kernel::release();
    result.sender_cc = ours.1.to_string();
    result.rival_cc = rival.map_or_else(String::new, |(_, cc)| cc.to_string());
    for (file, (load, cc)) in
        [("rival.json", rival), ("load.json", Some(ours))].into_iter().filter_map(|(f, l)| Some((f, l?)))
    {
        write_atomic(&dir.join(file), load)?;
        if let Err(e) = raw::load::parse(load).and_then(|parsed| parsed.judge(cc)) {
            result.status = format!("failed: {file}: {e}");
        }
    }
    result.write(dir)
}

/// The sender's controller: the kernel's own, or ours while it is attached.
#[derive(Debug)]
pub struct Sender {
    /// Its name in the kernel; that of one of ours may differ from the controller's own.
    pub name: String,
    trace: Option<kernel::Trace>,
    attached: Option<kernel::Attached>,
    _undo: Option<Guard>,
}

impl Sender {
    /// A controller for which nothing has to be done here: one that the kernel has, or one that runs in a QUIC stack.
    pub fn ready(cc: &str) -> Self {
        Self { name: cc.to_string(), trace: None, attached: None, _undo: None }
    }

    /// Attaches the cell's controller if it is ours; the trace, if the plan asks for one, goes to `acks.txt`.
    pub fn prepare(cc: &str, is_traced: bool, dir: &FsPath) -> Result<Self> {
        if !kernel::available().attachable.contains(&headway_cc::cc::name_and_settings(cc).0) {
            ensure!(
                kernel::is_registered(cc),
                "Linux {} has no congestion control `{cc}`\nhint: `modprobe tcp_{cc}`",
                kernel::release()
            );
            return Ok(Self::ready(cc));
        }
        let mut attached = kernel::attach(cc, &kernel::Options { name: None, trace: is_traced })?;
        let file = dir.join("acks.txt");
        let trace = match is_traced {
            true => Some(
                attached.trace(File::create(&file).with_context(|| format!("cannot create {file:?}"))?)?,
            ),
            false => None,
        };
        Ok(Self {
            name: attached.name().to_string(),
            trace,
            _undo: undo(&mut attached),
            attached: Some(attached),
        })
    }

    /// A controller that another machine sends with, where it is called `name`. iperf3 sets it at both ends, so this
    /// kernel must have one of that name as well, although it does not send.
    pub fn elsewhere(cc: &str, name: &str) -> Result<Self> {
        if kernel::is_registered(name) {
            return Ok(Self::ready(name));
        }
        let mut attached = kernel::attach(cc, &kernel::Options { name: Some(name.into()), trace: false })?;
        Ok(Self { name: name.to_string(), trace: None, _undo: undo(&mut attached), attached: Some(attached) })
    }

    /// Ends the trace, takes the controller out of the kernel and returns the name that it had there.
    ///
    /// # Errors
    /// The trace lost events, or connections ran without the controller's state: the cell would say something about
    /// another controller than the one it names.
    pub fn finish(self) -> Result<String> {
        if let Some(trace) = self.trace {
            let traced = trace.finish()?;
            ensure!(
                traced.lost == 0,
                "the ACK trace lost {} of {} events",
                traced.lost,
                traced.lost + traced.events
            );
        }
        if let Some(attached) = &self.attached {
            let without = attached.counters()?.without_storage;
            ensure!(without == 0, "{without} connections found no memory for the state of `{}`", self.name);
        }
        Ok(self.name)
    }
}

/// Before Linux 6.4 nothing takes a name out of the kernel when this process is interrupted, unless it is asked to.
fn undo(attached: &mut kernel::Attached) -> Option<Guard> {
    attached.undo().map(|undo| interrupt::guard(|| undo.run()))
}

/// Who competes with the sender under test.
#[derive(Debug)]
pub enum Rival {
    /// A controller of its own.
    Own(Box<Sender>),
    /// The very controller under test, by its name in the kernel.
    Same(String),
}

impl Rival {
    /// Attaches the rival's controller, unless it is the very one under test.
    pub fn prepare(rival: &traffic::Rival, tested: &Sender, cell: &Cell, dir: &FsPath) -> Result<Self> {
        let cc = rival.controller(cell.cc.controller());
        match cc == cell.cc.controller() {
            true => Ok(Self::Same(tested.name.clone())),
            false => Sender::prepare(cc, false, dir).map(|sender| Self::Own(Box::new(sender))),
        }
    }

    /// Its controller's name in the kernel.
    pub fn name(&self) -> &str {
        match self {
            Self::Own(sender) => &sender.name,
            Self::Same(name) => name,
        }
    }

    /// As [`Sender::finish`].
    pub fn finish(self) -> Result<String> {
        match self {
            Self::Own(sender) => sender.finish(),
            Self::Same(name) => Ok(name),
        }
    }
}
