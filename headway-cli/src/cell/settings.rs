//! What a candidate changes of the hosts beside its controller: sysctls of both ends, and the qdisc of the device through
//! which the sender's packets leave.
//!
//! Hosts that are made for a cell, in `here` and in the lab, take what is changed with them when they go.

use crate::emu::Netns;
use crate::plan::{Label, Place};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The kernel module of a qdisc, if it is one.
pub fn module(qdisc: &str) -> String {
    format!("sch_{}", qdisc.split_whitespace().next().unwrap_or_default())
}

/// Makes the candidate's settings in hosts that were made for it, of which the first sends through `device`. A sysctl that no
/// network namespace has for itself is set where the machine, too, was made for the cell, which is in the lab.
///
/// # Errors
/// The kernel has no such qdisc or sysctl, or does not take the value.
pub fn apply(cc: &Label, hosts: &[&Netns], device: &str, place: &Place) -> Result<()> {
    for (name, value) in cc.sysctls() {
        let everywhere = hosts.iter().try_for_each(|host| host.enter(|| set(name, value)));
        let done = match (everywhere, place) {
            (Err(e), Place::Lab) if is_of_the_machine(&e) => set(name, value),
            // Over a real path it is set for the length of a cell. Whether that may be is asked without a change.
            (Err(e), Place::Remote(_)) if is_of_the_machine(&e) => {
                File::options().write(true).open(file(name)).map(drop)
            }
            (Err(e), _) if is_of_the_machine(&e) && is_writable(name) => bail!(
                "`{name}` belongs to the whole machine and not to one network namespace\n\
                 hint: --in lab has a machine for each cell"
            ),
            (done, _) => done,
        };
        done.map_err(|e| said(name, value, &e))?;
    }
    if let (Some(qdisc), Some(sender)) = (cc.qdisc(), hosts.first()) {
        let words = qdisc.split_whitespace();
        let mut tc = sender.command("tc");
        tc.args(["qdisc", "replace", "dev", device, "root"]).args(words);
        run(tc).with_context(|| {
            let hint = match place {
                Place::Lab => "another kernel may have it: `CC@6.12/qdisc=…`".to_string(),
                _ => {
                    format!("`modprobe {}`, if it is a module; --in lab has kernels with more", module(qdisc))
                }
            };
            format!("the kernel does not take the qdisc `{qdisc}`\nhint: {hint}")
        })?;
    }
    Ok(())
}

/// Makes the candidate's settings of a network card, in files below /sys/class/net.
///
/// # Errors
/// The card has no such setting, or does not take the value.
pub fn apply_to_card(cc: &Label, card: &str) -> Result<()> {
    for (name, value) in cc.device_settings() {
        let file = format!("/sys/class/net/{card}/{name}");
        fs::write(&file, value).map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied => {
                anyhow!("a network card has no setting `{name}`\nhint: `ls /sys/class/net/lo` shows those of this machine's kernel")
            }
            _ => anyhow!("a network card does not take `{name}={value}`: {e}"),
        })?;
    }
    Ok(())
}

/// Whether the settings can be made, found out in a namespace that is made for it: before a run of hours and not in it.
pub fn try_out(cc: &Label, place: &Place) -> Result<()> {
    let made = Netns::new().and_then(|host| apply(cc, &[&host], "lo", place));
    made.with_context(|| format!("`{}` cannot be measured", cc.whole()))
}

/// The file of a sysctl.
pub fn file(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.replace('.', "/"))
}

/// Sets a sysctl of the calling thread's namespace, and looks whether the kernel has taken it as it was written.
pub fn set(name: &str, value: &str) -> io::Result<()> {
    let file = file(name);
    File::options().write(true).open(&file)?.write_all(value.as_bytes())?;
    let now = fs::read_to_string(&file)?;
    match now.split_whitespace().eq(value.split_whitespace()) {
        true => Ok(()),
        false => Err(io::Error::new(ErrorKind::InvalidData, now.trim().to_string())),
    }
}

/// A namespace has no such file, or one that it may only read.
fn is_of_the_machine(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
}

/// Whether the calling thread's namespace may set it.
fn is_writable(name: &str) -> bool {
    File::options().write(true).open(file(name)).is_ok()
}

/// What a failed [`set`] means.
pub fn said(name: &str, value: &str, e: &io::Error) -> anyhow::Error {
    match e.kind() {
        ErrorKind::NotFound => {
            anyhow!("the kernel has no sysctl `{name}`\nhint: `sysctl -a` shows those of the running kernel")
        }
        ErrorKind::PermissionDenied => anyhow!(
            "the sysctl `{name}` can only be read\nhint: as root others can be set; `ls -l {}` shows which",
            file(name).display()
        ),
        ErrorKind::InvalidInput => anyhow!("the kernel does not take `{value}` for the sysctl `{name}`"),
        ErrorKind::InvalidData => anyhow!(
            "the kernel makes `{e}` of the value `{value}` of the sysctl `{name}`\nhint: name the value that it makes"
        ),
        _ => anyhow!("cannot set the sysctl `{name}`: {e}"),
    }
}

fn run(mut command: Command) -> Result<()> {
    let output =
        command.stdin(Stdio::null()).output().context("cannot run `tc`\nhint: `apt-get install iproute2`")?;
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
    ensure!(output.status.success(), "tc: {said}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_files_and_modules() {
        assert_eq!(file("net.ipv4.tcp_ecn"), PathBuf::from("/proc/sys/net/ipv4/tcp_ecn"));
        assert_eq!(module("fq_codel limit 100"), "sch_fq_codel");
    }

    /// The kernel is the other party: it has these sysctls or not, and its own idea of their values.
    #[test]
    fn root_what_the_kernel_does_not_take_is_said() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: this test needs root");
            return;
        }
        let tried = |text: &str| {
            let label = Label::from(text);
            label.check().unwrap();
            try_out(&label, &Place::Here).map_err(|e| format!("{e:#}"))
        };
        tried("bbr/net.ipv4.tcp_notsent_lowat=131072").unwrap();
        tried("bbr/net.ipv4.tcp_rmem=4096 131072 6291456").unwrap();
        tried("bbr/qdisc=pfifo limit 100").unwrap();
        for (text, word) in [
            ("bbr/net.ipv4.tcp_nothing=1", "has no sysctl `net.ipv4.tcp_nothing`"),
            ("bbr/net.ipv4.tcp_notsent_lowat=many", "does not take `many`"),
            ("bbr/net.core.netdev_budget=500", "belongs to the whole machine"),
            ("bbr/net.ipv4.tcp_available_congestion_control=bbr", "can only be read"),
            ("bbr/qdisc=nothing", "does not take the qdisc `nothing`"),
            ("bbr/qdisc=pfifo limit many", "does not take the qdisc"),
        ] {
            let error = tried(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
