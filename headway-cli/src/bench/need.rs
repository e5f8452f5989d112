//! What a plan needs of this machine, asked before anything is made: the controllers that there are, and the programs
//! and kernel features that the plan's place cannot do without.

use crate::emu;
use crate::lab;
use crate::plan::check::Known;
use crate::plan::tool::Tool;
use crate::plan::{Label, Place, Plan};
use crate::sys::program::find_program;
use anyhow::{Result, bail};
use headway_kernel as kernel;
use headway_kernel::Check;

/// The controllers that there are on this machine and in the lab, for [`Plan::check`].
pub fn known() -> Known {
    let kernel::Available { registered, attachable } = kernel::available();
    Known {
        attachable: attachable.into_iter().map(String::from).collect(),
        registered,
        built_in: lab::BUILT_IN.map(String::from).to_vec(),
    }
}

/// Fails with the first thing that the plan's place needs and this machine lacks.
pub fn need(plan: &Plan) -> Result<()> {
    let is_ours = |cc: &Label| kernel::available().attachable.contains(&cc.controller());
    let bpf = match plan.transport.is_tcp() && plan.ccs.iter().any(is_ours) {
        true => kernel::needs(),
        false => Vec::new(),
    };
    let load = if plan.transport.is_tcp() { vec![load_tool(plan.tool)] } else { Vec::new() };
    let checks = match &plan.place {
        Place::Sim => Vec::new(),
        // Looking for the kernel that was named says more about what is missing.
        Place::Lab if plan.kernels().iter().any(|kernel| !kernel.is_empty()) => Vec::new(),
        Place::Lab => lab::check(),
        Place::Here => [emu::check(), bpf, load].concat(),
        Place::Remote(_) => [bpf, load].concat(),
    };
    match checks.into_iter().find(|c| c.required && !c.ok) {
        Some(c) => bail!("cannot run --in {}: this machine lacks {}\nhint: {}", plan.place, c.what, c.hint),
        None => Ok(()),
    }
}

/// Is the program that makes the load installed?
pub fn load_tool(tool: Tool) -> Check {
    let program = tool.program();
    Check::required(program, find_program(program).is_some(), format!("apt-get install {program}"))
}
