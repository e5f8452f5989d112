//! `env.json`: what a reader must know about the machine and its kernels to judge a run.

use crate::cell::remote;
use crate::lab;
use crate::observe::machine;
use crate::plan::{Place, Plan};
use anyhow::Result;
use std::collections::BTreeMap;

/// The content of `env.json`. In `sim` and `lab` it holds nothing that changes between two runs of the same plan, so
/// that their folders are the same to the byte.
pub fn describe(
    plan: &Plan,
    lab_kernels: &BTreeMap<String, lab::Kernel>,
    remote: Option<&remote::Session>,
) -> Result<serde_json::Value> {
    let mut env = serde_json::json!({
        "headway": env!("CARGO_PKG_VERSION"),
        "command": plan.command(),
        "place": plan.place.to_string(),
    });
    if let Some(kernel) = lab_kernels.values().next() {
        env["lab"] = lab::env(kernel)?;
        let versions: Vec<&str> = lab_kernels.values().map(|k| k.version.as_str()).collect();
        env["lab"]["kernel"] = versions.join(", ").into();
    }
    if plan.place == Place::Here {
        extend(&mut env, machine::describe(None));
    }
    if let Some(remote) = remote {
        extend(&mut env, machine::describe(Some(remote.peer())));
        env["remote"] = remote.env();
    }
    Ok(env)
}

fn extend(env: &mut serde_json::Value, with: serde_json::Value) {
    if let (Some(env), serde_json::Value::Object(with)) = (env.as_object_mut(), with) {
        env.extend(with);
    }
}
