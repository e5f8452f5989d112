//! Replaces the queueing discipline of a device for the length of a run, and puts the old one back however the run
//! ends. `remote.rs` calls this for `--fq` and `--qdisc`.
//!
//! `remote/changed.rs` calls it for a candidate's qdisc.

use super::{Context, Result, bail, ensure};
use crate::sys::afterwards::Afterwards;
use crate::sys::out;
use std::process::{Command, Stdio};

/// Disciplines that can be put back: they have no classes, and `tc` accepts their options as it prints them.
const RESTORABLE: [&str; 8] = ["pfifo", "bfifo", "tbf", "fq", "fq_codel", "codel", "pie", "sfq"];

/// The device keeps the wanted discipline for as long as this lives.
#[derive(Debug)]
pub struct Forced {
    back: Afterwards,
    device: String,
    /// What `tc` printed before the change.
    before: String,
}

/// Replaces the root discipline of `device` by `wanted` (a kind and its options). Returns `None`, and changes
/// nothing, when the device has that kind already.
///
/// # Errors
/// Nothing is changed where the kernel lacks that kind, or where the present discipline could not be put back.
pub fn force(device: &str, wanted: &[&str]) -> Result<Option<Forced>> {
    let before = show(device)?;
    let root = root(&before).with_context(|| format!("cannot read the qdisc of `{device}`: {before}"))?;
    if wanted == [root.kind] {
        return Ok(None);
    }
    let back = root.command(device, &before)?;
    // Whoever puts the old discipline back must be there before anything is changed, or a kill in between would leave the
    // change.
    let back = Afterwards::of(["tc", "qdisc"].into_iter().map(String::from).chain(back))?;
    let mut forced = Forced { back, device: device.into(), before };
    let arguments = [&["qdisc", "replace", "dev", device, "root"], wanted].concat();
    if let Err(e) = tc(&arguments) {
        forced.back.never();
        bail!(
            "cannot give `{device}` the qdisc {}: {e}\nhint: `modprobe sch_{}`; a kernel without it paces in TCP itself",
            wanted.join(" "),
            wanted[0]
        );
    }
    Ok(Some(forced))
}

impl Forced {
    /// What `tc` printed of the device before the change.
    pub fn before(&self) -> &str {
        self.before.trim()
    }

    /// Puts the old discipline back, and checks that it is there.
    fn restore(&mut self) -> Result<()> {
        let status = self.back.now()?;
        let after = show(&self.device)?;
        // Only the kind is compared: when the kernel puts its default discipline back, handle and counters may
        // differ.
        let is_back = root(&after).map(|r| r.kind) == root(&self.before).map(|r| r.kind);
        ensure!(status.success() && is_back, "`{}` has now: {after}", self.device);
        Ok(())
    }
}

impl Drop for Forced {
    fn drop(&mut self) {
        if self.back.is_waiting()
            && let Err(e) = self.restore()
        {
            out::note(format_args!(
                "warning: the qdisc could not be put back: {e}\nbefore it was: {}",
                self.before
            ));
        }
    }
}

/// A root discipline as `tc` prints it.
#[derive(Debug, PartialEq)]
struct Root<'a> {
    kind: &'a str,
    /// The handle is `0:` where the kernel chose the discipline by itself.
    handle: &'a str,
    options: Vec<&'a str>,
}

/// Reads the root discipline from what `tc qdisc show` prints; `None` if there is none.
fn root(shown: &str) -> Option<Root<'_>> {
    let line =
        shown.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).find(|w| w.contains(&"root"))?;
    let [_, kind, handle, ..] = line[..] else { return None };
    let after_root = line.iter().skip_while(|w| **w != "root").skip(1);
    let mut options: Vec<&str> = after_root.copied().collect();
    if options.first() == Some(&"refcnt") {
        options.drain(..2.min(options.len()));
    }
    Some(Root { kind, handle, options })
}

impl Root<'_> {
    /// The words after `tc qdisc` that put this discipline back. One that the kernel chose by itself comes back when
    /// the root discipline is deleted. `shown` is what `tc` printed: further lines in it are classes' or other
    /// disciplines that could not be put back.
    fn command(&self, device: &str, shown: &str) -> Result<Vec<String>> {
        let words = |list: &[&str]| list.iter().map(|w| w.to_string()).collect::<Vec<_>>();
        if self.handle == "0:" {
            return Ok(words(&["del", "dev", device, "root"]));
        }
        let others = shown.lines().filter(|l| !l.trim().is_empty()).count() - 1;
        ensure!(
            RESTORABLE.contains(&self.kind) && others == 0,
            "`{device}` has the qdisc {}, which could not be put back afterwards\nhint: exchange it by hand, and leave out --fq",
            self.kind
        );
        let mut command = words(&["replace", "dev", device, "root", "handle", self.handle, self.kind]);
        // `tc` prints a limit of 100 packets as `limit 100p`, but does not accept the letter.
        let plain = |word: &&str| match word.strip_suffix('p').filter(|n| n.parse::<u64>().is_ok()) {
            Some(number) => number.to_string(),
            None => word.to_string(),
        };
        command.extend(self.options.iter().map(plain));
        Ok(command)
    }
}

fn show(device: &str) -> Result<String> {
    tc(&["qdisc", "show", "dev", device])
}

fn tc(arguments: &[&str]) -> Result<String> {
    let output = Command::new("tc").args(arguments).stdin(Stdio::null()).output();
    let output = output.context("cannot run `tc`\nhint: `apt-get install iproute2`")?;
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
    ensure!(output.status.success(), "tc: {said}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tc_prints_is_what_brings_it_back() {
        let cases = [
            ("qdisc pfifo_fast 0: root refcnt 2 bands 3 priomap 1 2\n", "del dev d root"),
            ("qdisc mq 0: root \nqdisc fq_codel 0: parent :1 limit 10240p\n", "del dev d root"),
            ("qdisc pfifo 8001: root refcnt 2 limit 77p\n", "replace dev d root handle 8001: pfifo limit 77"),
            (
                "qdisc tbf 8001: root refcnt 2 rate 10Mbit burst 5Kb lat 50ms \n",
                "replace dev d root handle 8001: tbf rate 10Mbit burst 5Kb lat 50ms",
            ),
        ];
        for (shown, command) in cases {
            assert_eq!(root(shown).unwrap().command("d", shown).unwrap().join(" "), command);
        }
        for shown in [
            "qdisc htb 8001: root refcnt 2 r2q 10 default 0x1\n",
            "qdisc mq 1: root\nqdisc fq 2: parent 1:1 limit 5p\n",
            "qdisc fq 1: root refcnt 2\nqdisc ingress ffff: parent ffff:fff1 \n",
        ] {
            let error = root(shown).unwrap().command("d", shown).unwrap_err().to_string();
            assert!(error.contains("could not be put back"), "{error}");
        }
        assert_eq!(root("").map(|r| r.kind.to_string()), None);
    }
}
