//! What else on this machine sets the default congestion control, and would undo ours or be undone by it.

use std::fs;
use std::path::{Path, PathBuf};

/// Where `sysctl --system` and systemd-sysctl read settings.
const SYSCTL_FOLDERS: [&str; 4] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"];
const SYSCTL_FILE: &str = "/etc/sysctl.conf";
const NETWORKD_FOLDERS: [&str; 3] =
    ["/etc/systemd/network", "/run/systemd/network", "/usr/lib/systemd/network"];
const TUNED_PROFILE: &str = "/etc/tuned/active_profile";
const TUNED_FOLDERS: [&str; 3] = ["/etc/tuned", "/etc/tuned/profiles", "/usr/lib/tuned"];

/// A warning each, in whole sentences. `name` is our default.
pub fn warnings(name: &str) -> Vec<String> {
    let mut all: Vec<String> = sysctl_files().iter().flat_map(|file| in_sysctl(file, name)).collect();
    all.extend(
        NETWORKD_FOLDERS
            .iter()
            .flat_map(|folder| files(folder, "network"))
            .filter_map(|file| in_network(&file)),
    );
    all.extend(tuned(name));
    if is_running("bpftune") {
        all.push("bpftune runs, and chooses a congestion control for each connection itself; what is enabled here holds only for \
                  connections that it leaves alone.".into());
    }
    all
}

fn sysctl_files() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = SYSCTL_FOLDERS.iter().flat_map(|folder| files(folder, "conf")).collect();
    all.push(SYSCTL_FILE.into());
    all
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let mut all: Vec<PathBuf> = entries.filter(|f| f.extension().is_some_and(|e| e == extension)).collect();
    all.sort();
    all
}

/// The value that a line of settings gives a key; comments give none.
fn value<'a>(line: &'a str, keys: &[&str]) -> Option<&'a str> {
    let (key, value) = line.trim().trim_start_matches('-').split_once('=')?;
    keys.contains(&key.trim()).then(|| value.trim())
}

fn in_sysctl(file: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let keys = ["net.ipv4.tcp_congestion_control", "net/ipv4/tcp_congestion_control"];
    let set = text.lines().filter_map(|line| value(line, &keys)).next_back().filter(|v| *v != name)?;
    Some(format!(
        "{} makes `{set}` the default at each boot, and whenever `sysctl --system` runs; ours is set again later in the boot. Take \
         the line out if `{name}` is to be the default from the first connection on.",
        file.display()
    ))
}

fn in_network(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let set = text.lines().find_map(|line| value(line, &["TCPCongestionControlAlgorithm"]))?;
    Some(format!(
        "{} has systemd-networkd give its routes `{set}`, which comes before the default.",
        file.display()
    ))
}

fn tuned(name: &str) -> Option<String> {
    let profile = fs::read_to_string(TUNED_PROFILE).ok()?;
    let names = profile
        .split_whitespace()
        .flat_map(|p| TUNED_FOLDERS.map(|f| Path::new(f).join(p).join("tuned.conf")));
    let keys = ["net.ipv4.tcp_congestion_control"];
    let set = |file: PathBuf| {
        let text = fs::read_to_string(&file).ok()?;
        let set = text.lines().find_map(|line| value(line, &keys)).filter(|v| *v != name)?.to_string();
        Some((file, set))
    };
    let (file, set) = names.into_iter().find_map(set)?;
    Some(format!("tuned's profile ({}) makes `{set}` the default when tuned starts.", file.display()))
}

fn is_running(program: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .map(|p| p.path().join("comm"))
        .any(|f| fs::read_to_string(f).is_ok_and(|comm| comm.trim() == program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_others_are_found() {
        let file = std::env::temp_dir().join(format!("headway-others-{}.conf", std::process::id()));
        let said = |text: &str| {
            fs::write(&file, text).unwrap();
            let said = in_sysctl(&file, "bbr3").or_else(|| in_network(&file));
            fs::remove_file(&file).unwrap();
            said
        };
        let cubic =
            said("# a\nnet.ipv4.tcp_congestion_control = bbr\nnet.ipv4.tcp_congestion_control=cubic\n");
        assert!(cubic.is_some_and(|s| s.contains("makes `cubic` the default at each boot")));
        assert!(said("-net/ipv4/tcp_congestion_control=bbr").is_some());
        assert!(said("net.ipv4.tcp_congestion_control=bbr3").is_none(), "the same is no conflict");
        assert!(said("#net.ipv4.tcp_congestion_control=bbr\nnet.core.default_qdisc=fq").is_none());
        assert!(said("[Route]\nTCPCongestionControlAlgorithm=bbr\n").is_some_and(|s| s.contains("networkd")));
        assert!(!is_running("no-such-program"));
    }
}
