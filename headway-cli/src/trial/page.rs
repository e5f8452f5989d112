//! The page of a trial.

use super::findings::Findings;
use super::folder::Trial;

pub fn html(_trial: &Trial, _findings: &Findings) -> String {
    String::new()
}
