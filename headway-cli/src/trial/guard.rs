//! Ends a trial in which the candidate does harm, or in which what is recorded can no longer be trusted.

use super::connection::Connection;
use super::setup::Setup;

/// Why a trial must end, as a sentence with the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach(pub String);

/// Watches a trial while it runs.
#[derive(Clone, Debug)]
pub struct Guard {}

impl Guard {
    pub fn new(_setup: &Setup) -> Self {
        Self {}
    }

    /// A connection has ended. They come in the order of their ends; after a resume, those of before first.
    pub fn see(&mut self, _connection: &Connection) -> Option<Breach> {
        None
    }

    /// So many ends of connections were not recorded, in all.
    pub fn lost(&self, records: u64) -> Option<Breach> {
        (records > 0).then(|| {
            Breach(format!(
                "the ends of {records} connections were lost, and those may be the ones that matter"
            ))
        })
    }

    /// Programs of others that set socket options of the same connections have come.
    pub fn foreign(&self, programs: &[String]) -> Option<Breach> {
        (!programs.is_empty()).then(|| {
            Breach(format!(
                "another program now decides on connections of this machine, too: {}",
                programs.join(", ")
            ))
        })
    }
}
