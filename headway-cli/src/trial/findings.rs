//! What follows from all slots of a trial.

use super::folder::Trial;

#[derive(Clone, Debug)]
pub struct Findings {}

impl Findings {
    pub fn of(_trial: &Trial) -> Self {
        Self {}
    }
}
