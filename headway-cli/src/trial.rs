//! `headway trial`: which of two controllers is better for the connections of this machine, found out on their own traffic.
//!
//! Connections that share a bottleneck share what either controller does to it, so giving every second one another
//! controller compares two neighbours and not two rollouts. A trial gives all new connections one controller for a slot
//! of time and the other for the next, in pairs whose order a coin decides, and compares the two slots of each pair
//! (a switchback experiment). Some slots are half and half: their gap against that of whole slots shows whether
//! connections touch each other.
//!
//! `schedule` says what is done when, `setup` what a trial is, `folder` keeps it, `connection` is one row of its raw
//! data. `live` runs it beside the machine's traffic and `guard` ends it when it does harm; `world` is traffic of which
//! the truth is known. `outcome` is what is measured in a slot, `findings` what follows from all slots, `foretell` what
//! a trial can show, and `text` and `page` say it.

mod answer;
pub mod connection;
pub mod findings;
pub mod folder;
pub mod foretell;
pub mod guard;
pub mod live;
mod outcome;
mod page;
#[cfg(test)]
mod rehearse;
pub mod schedule;
pub mod setup;
mod status;
pub mod text;
pub mod world;

use crate::raw::folder::write_atomic;
use anyhow::Result;
use findings::Findings;
pub use status::of as status;
use std::path::Path;

/// What other programs read of a trial, in its folder.
pub const JSON: &str = "results.json";

/// Makes the sentences and tables of a trial from its raw files, and its page `report.html` in the folder. Works while the trial
/// runs, too.
///
/// # Errors
/// The folder holds no trial, or a file of it cannot be read or written.
pub fn report(dir: &Path, width: Option<usize>) -> Result<String> {
    let trial = folder::read(dir)?;
    let findings = Findings::of(&trial);
    let page = dir.join("report.html");
    write_atomic(&page, &page::html(&trial, &findings))?;
    write_atomic(&dir.join(JSON), &text::json(&trial, &findings)?)?;
    Ok(format!("{}\n{}\n", text::of(&trial, &findings, width.unwrap_or(usize::MAX)), page.display()))
}
