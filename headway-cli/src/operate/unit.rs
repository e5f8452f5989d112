//! systemd: the cgroup of a unit, and having a program of ours attached to it each time the unit starts.
//!
//! A unit's cgroup goes when the unit stops, and what is attached to it goes with it. So the attachment is told to
//! systemd, in a drop-in file of our own beside the unit, and a unit that runs already gets it at once as well.

use super::disk;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where an administrator's units and drop-ins are.
const UNITS: &str = "/etc/systemd/system";

/// The file's name in the unit's `.d` folder.
const DROP_IN: &str = "50-headway.conf";

/// What systemd says of a unit.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Its cgroup below `/sys/fs/cgroup`, if it runs.
    pub cgroup: Option<String>,
    /// Units of sockets that start it.
    pub sockets: Vec<String>,
}

/// Whether systemd is this machine's first process.
pub fn is_here() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Whether systemd starts our unit at boot. Read from its folders, because systemctl is slow and may not be there.
pub fn has_boot_unit() -> bool {
    let wants = fs::read_dir(UNITS).into_iter().flatten().flatten().map(|e| e.path());
    wants.filter(|p| p.extension().is_some_and(|e| e == "wants")).any(|p| p.join("headway.service").exists())
}

/// Asks systemd of a unit.
///
/// # Errors
/// There is no systemd, or it knows no such unit.
pub fn find(name: &str) -> Result<Unit> {
    ensure!(is_here(), "systemd does not run here, so there are no units\nhint: use `--cgroup` or `--port`");
    let text = systemctl(&["show", "-p", "LoadState,ControlGroup,TriggeredBy", "--", name])?;
    let unit = parse(&text);
    unit.with_context(|| {
        format!("systemd knows no unit `{name}`\nhint: `systemctl list-units --all` shows them")
    })
}

/// What `systemctl show` prints; `None` for a unit that does not exist.
fn parse(text: &str) -> Option<Unit> {
    let value =
        |key: &str| text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default();
    if !["loaded", "masked"].contains(&value("LoadState")) {
        return None;
    }
    let cgroup = value("ControlGroup").trim_matches('/');
    Some(Unit {
        cgroup: (!cgroup.is_empty()).then(|| cgroup.to_string()),
        sockets: value("TriggeredBy")
            .split_whitespace()
            .filter(|u| u.ends_with(".socket"))
            .map(Into::into)
            .collect(),
    })
}

/// Has systemd attach these pinned programs whenever the unit starts. Answers whether anything changed.
pub fn write_drop_in(name: &str, programs: &[PathBuf]) -> Result<bool> {
    let file = drop_in(name);
    let text = drop_in_text(name, programs);
    if disk::read(&file)?.as_deref() == Some(&text) {
        return Ok(false);
    }
    disk::write(&file, &text)?;
    Ok(true)
}

/// Takes that back. Answers whether there was anything.
pub fn remove_drop_in(name: &str) -> Result<bool> {
    let file = drop_in(name);
    if !file.exists() {
        return Ok(false);
    }
    disk::remove(&file)?;
    let _ = fs::remove_dir(file.parent().context("a file has a folder")?); // unless others have drop-ins there
    Ok(true)
}

/// Makes systemd read its files again; the units go on running.
pub fn reload() -> Result<()> {
    match is_here() {
        true => systemctl(&["daemon-reload"]).map(drop),
        false => Ok(()),
    }
}

/// The units that have a drop-in of ours.
pub fn with_drop_in() -> Vec<String> {
    let folders = fs::read_dir(UNITS).into_iter().flatten().flatten();
    let unit = |folder: fs::DirEntry| {
        let name = folder.file_name().to_string_lossy().strip_suffix(".d").map(String::from)?;
        folder.path().join(DROP_IN).exists().then_some(name)
    };
    folders.filter_map(unit).collect()
}

fn drop_in(name: &str) -> PathBuf {
    Path::new(UNITS).join(format!("{name}.d")).join(DROP_IN)
}

fn drop_in_text(name: &str, programs: &[PathBuf]) -> String {
    // A unit's own section bears the name of its kind.
    let kind = name.rsplit('.').next().unwrap_or("service");
    let section = kind[..1].to_uppercase() + &kind[1..];
    let mut text = format!(
        "# Written by `headway enable`, and removed by `headway disable`. Whenever the unit starts, systemd attaches the\n\
         # program that gives its connections their congestion control. Without the program it starts as ever.\n[{section}]\n"
    );
    for program in programs {
        text += &format!("BPFProgram=sock_ops:{}\n", program.display());
    }
    text
}

/// Runs systemctl and returns what it prints.
pub fn systemctl(args: &[&str]) -> Result<String> {
    let run = Command::new("systemctl").args(args).stdin(Stdio::null()).output();
    let output = run.context("cannot run systemctl")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`systemctl {}` failed: {}", args.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_systemctl_shows_is_read() {
        let unit = parse(
            "LoadState=loaded\nControlGroup=/system.slice/ssh.service\nTriggeredBy=ssh.socket a.timer\n",
        );
        let expected =
            Unit { cgroup: Some("system.slice/ssh.service".into()), sockets: vec!["ssh.socket".into()] };
        assert_eq!(unit, Some(expected));
        assert_eq!(parse("LoadState=loaded\nControlGroup=\n"), Some(Unit::default()));
        assert_eq!(parse("LoadState=not-found\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_drop_in_has_the_section_of_its_unit() {
        let programs = ["/sys/fs/bpf/headway-programs/bbr3-01234567".into()];
        for (unit, section) in
            [("a.service", "[Service]"), ("a.b.slice", "[Slice]"), ("a.socket", "[Socket]")]
        {
            let text = drop_in_text(unit, &programs);
            assert!(text.contains(section), "{text}");
            assert!(text.ends_with("\nBPFProgram=sock_ops:/sys/fs/bpf/headway-programs/bbr3-01234567\n"));
        }
    }
}
