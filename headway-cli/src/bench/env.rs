//! `env.json`: what a reader must know about the machine and its kernels to judge a run.
//!
//! It is written when a run is begun and holds for all of its cells. A run that is resumed must go on in the same
//! environment, because a table whose rows come from two kernels says nothing about either.

use crate::cell::remote;
use crate::lab;
use crate::observe::machine;
use crate::plan::wire::Wire;
use crate::plan::{Place, Plan};
use crate::raw::folder::write_atomic;
use crate::sys::file::read_plain_text;
use anyhow::{Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

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
        // In the order of `kernel`; not by version, which two kernels with other modules may share.
        env["lab"][INITRAMFS] = lab_kernels.values().map(|k| k.initramfs_digest.as_str()).collect();
        let digests: BTreeMap<&String, &String> =
            lab_kernels.iter().filter_map(|(spec, kernel)| Some((spec, kernel.digest.as_ref()?))).collect();
        if !digests.is_empty() {
            env["lab"]["kernel_sha256"] = serde_json::to_value(digests)?;
        }
        for nic in plan.cards() {
            env["lab"]["machines_with_cards"][Wire::Nic(nic).name()] = lab::machine_with(nic).into();
        }
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

/// The environment in which the run in this folder was begun; `None` where there is no such run.
///
/// # Errors
/// There are cells, and env.json is missing or cannot be read.
pub fn begun(out: &Path) -> Result<Option<Value>> {
    let read = || anyhow::Ok(serde_json::from_str(&read_plain_text(&out.join("env.json"))?)?);
    let has_cells = fs::read_dir(out.join("cells")).is_ok_and(|mut cells| cells.next().is_some());
    match read() {
        Ok(env) => Ok(Some(env)),
        Err(_) if !has_cells => Ok(None),
        Err(e) => Err(e.context(format!(
            "`{}` has cells and no env.json that can be read, so nobody knows with which kernel they were made\n\
             hint: begin a new run with another --out",
            out.display()
        ))),
    }
}

/// The version of the lab's kernel with which a run was begun, by what the plan calls that kernel.
pub fn begun_kernels(env: &Value, specs: &[&str]) -> BTreeMap<String, String> {
    let versions = env["lab"]["kernel"].as_str().unwrap_or_default().split(", ");
    specs.iter().map(|spec| spec.to_string()).zip(versions.map(String::from)).collect()
}

/// What a run must not change in its middle. The rest of what `here` and `remote` describe, such as interrupts of the
/// network card, is as it was at the beginning and may change.
const FIXED: [&str; 9] = ["headway", "place", "lab", "kernel", "cpu", "cpus", "iperf3", "iperf2", "sysctl"];

/// Writes env.json of a new run, and refuses to go on with one that was begun in another environment.
pub fn keep(out: &Path, begun: Option<Value>, env: &Value) -> Result<()> {
    let Some(begun) = begun else {
        return write_atomic(&out.join("env.json"), &(serde_json::to_string_pretty(env)? + "\n"));
    };
    let fixed =
        |env: &Value| -> Value { FIXED.iter().map(|key| (key.to_string(), env[key].clone())).collect() };
    ensure!(
        fixed(&begun) == fixed(env),
        "`{}` was begun in another environment than this: {}\nhint: go on where it was begun, or begin a new run with \
         another --out",
        out.display(),
        difference(&fixed(&begun), &fixed(env))
    );
    Ok(())
}

/// The digest of what a guest of the lab is given beside its kernel.
const INITRAMFS: &str = "initramfs_sha256";

/// The first value in which two environments differ, as `key: this and that`, and in words where it is a digest.
pub fn difference(a: &Value, b: &Value) -> String {
    fn walk(name: &str, a: &Value, b: &Value) -> Option<String> {
        match (a, b) {
            _ if a == b => None,
            (Value::Object(x), Value::Object(y)) => {
                let keys = x.keys().chain(y.keys());
                keys.map(|k| walk(&format!("{name}{k} "), &a[k], &b[k])).find_map(|found| found)
            }
            _ => Some(format!("{}: {a} and {b}", name.trim_end())),
        }
    }
    let named = walk("", a, b).unwrap_or_else(|| "env.json differs".into());
    match named.contains(INITRAMFS) {
        true => format!("another build of headway, or other libraries or kernel modules ({named})"),
        false => named,
    }
}

fn extend(env: &mut serde_json::Value, with: serde_json::Value) {
    if let (Some(env), serde_json::Value::Object(with)) = (env.as_object_mut(), with) {
        env.extend(with);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_named() {
        let named =
            difference(&json!({"a": 1, "lab": {"qemu": "7.2"}}), &json!({"a": 1, "lab": {"qemu": "9.0"}}));
        assert_eq!(named, r#"lab qemu: "7.2" and "9.0""#);
        assert_eq!(difference(&json!({"a": 1}), &json!({"a": 1, "b": 2})), "b: null and 2");
        let built = |digest| json!({"lab": {INITRAMFS: [digest]}});
        let named = difference(&built("1a"), &built("2b"));
        assert!(
            named.starts_with("another build of headway") && named.contains("[\"1a\"] and [\"2b\"]"),
            "{named}"
        );
    }

    #[test]
    fn kernels_are_found_again_by_what_the_plan_calls_them() {
        let env = json!({"lab": {"kernel": "6.1.0-49, 6.12.107"}});
        let kernels = begun_kernels(&env, &["", "6.12"]);
        assert_eq!(kernels[""], "6.1.0-49");
        assert_eq!(kernels["6.12"], "6.12.107");
        assert!(begun_kernels(&json!({}), &["6.1"])["6.1"].is_empty());
    }
}
