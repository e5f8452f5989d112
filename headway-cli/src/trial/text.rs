//! What is printed of a trial.

use super::findings::Findings;
use super::folder::Trial;
use anyhow::Result;

pub fn of(trial: &Trial, _findings: &Findings, _width: usize) -> String {
    format!("{} connections", trial.connections.len())
}

pub fn json(_trial: &Trial, _findings: &Findings) -> Result<String> {
    Ok("{}".into())
}
