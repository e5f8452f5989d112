//! What a candidate changes of this machine for the length of one of its cells, and how that comes back however the cell
//! ends: the qdisc of the device to the server, and sysctls.

use super::qdisc::{self, Forced};
use super::{Context, Result};
use crate::cell::settings;
use crate::observe::machine;
use crate::plan::Label;
use crate::sys::afterwards::Afterwards;
use std::fs;
use std::net::Ipv4Addr;

/// It stays changed for as long as this lives.
#[derive(Debug)]
pub struct Changed {
    _qdisc: Option<Forced>,
    _sysctls: Vec<Afterwards>,
}

impl Changed {
    /// Makes the candidate's settings.
    ///
    /// # Errors
    /// What could not be put back is not changed, and what was changed before the error comes back.
    pub fn make(cc: &Label, server: Ipv4Addr) -> Result<Self> {
        let sysctls = cc.sysctls().map(|(name, value)| sysctl(name, value)).collect::<Result<_>>()?;
        let qdisc = cc.qdisc().map(|qdisc| qdisc_to(server, qdisc)).transpose()?.flatten();
        Ok(Self { _qdisc: qdisc, _sysctls: sysctls })
    }
}

fn qdisc_to(server: Ipv4Addr, qdisc: &str) -> Result<Option<Forced>> {
    let device = machine::device_to(server)
        .with_context(|| format!("no route to {server} for a qdisc\nhint: is `ip` installed?"))?;
    qdisc::force(&device, &qdisc.split_whitespace().collect::<Vec<_>>())
}

/// Whoever puts it back must be there before anything is changed.
fn sysctl(name: &str, value: &str) -> Result<Afterwards> {
    let file = settings::file(name);
    let before = fs::read_to_string(&file).map_err(|e| settings::said(name, value, &e))?;
    let file = file.to_string_lossy();
    let mut back = Afterwards::of(["sh", "-c", "printf %s \"$2\" > \"$1\"", "sh", &file, before.trim_end()])?;
    match settings::set(name, value) {
        Ok(()) => Ok(back),
        Err(e) => {
            // A value that the kernel has taken as another one is a change, too.
            if fs::read_to_string(&*file).is_ok_and(|now| now == before) {
                back.never();
            }
            Err(settings::said(name, value, &e))
        }
    }
}
