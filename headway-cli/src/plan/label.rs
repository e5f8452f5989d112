//! A candidate of a run.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A candidate: a controller, and what else is different where it sends.
///
/// ```text
/// bbr3:up_pacing_gain=1.1@6.12/qdisc=fq limit 1000/net.ipv4.tcp_notsent_lowat=131072#2
/// ^^^^ controller         ^ kernel of the lab      ^ sysctls of both hosts           ^ number
///      ^ its settings          ^ qdisc of the sender's device, as `tc` takes it
/// ```
///
/// All but the controller may be left out. The number tells candidates apart that are the same (`bbr#2`): two of them are
/// compared like two controllers, which shows how much of a difference is noise.
///
/// A candidate is written whole in the plan and short in tables ([`Label::as_str`]). A kernel, a simulator or a QUIC stack
/// knows controllers and no labels. That this is a type of its own keeps one from reaching them: they take
/// [`Label::controller`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Label {
    whole: String,
    short: String,
}

/// What a candidate has beside its controller and its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rest<'a> {
    /// After `@`; empty without one.
    kernel: &'a str,
    /// The texts after `/`: names and values.
    settings: &'a str,
}

impl Label {
    /// The controller with its own settings: `bbr` of `bbr@6.1#2`.
    pub fn controller(&self) -> &str {
        let end = self.whole.find(['@', '/', '#']).unwrap_or(self.whole.len());
        &self.whole[..end]
    }

    /// The number that tells it from other labels of the same: 2 of `bbr#2`.
    pub fn number(&self) -> Option<u64> {
        self.split().1?.parse().ok()
    }

    /// The kernel of the lab that it is measured on, a version or a file.
    pub fn kernel(&self) -> Option<&str> {
        Some(self.rest().kernel).filter(|kernel| !kernel.is_empty())
    }

    /// The qdisc of the device that it sends through, with its options, as `tc qdisc replace … root` takes them.
    pub fn qdisc(&self) -> Option<&str> {
        self.settings().find(|(name, _)| *name == QDISC).map(|(_, value)| value)
    }

    /// Sysctls by their names, and the values that they are given.
    pub fn sysctls(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings().filter(|(name, _)| *name != QDISC && !name.starts_with(DEVICE))
    }

    /// Files below /sys/class/net/CARD by their names, and what is written into them: `threaded` of `/device.threaded=1`.
    pub fn device_settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings().filter_map(|(name, value)| Some((name.strip_prefix(DEVICE)?, value)))
    }

    /// Whether it differs in a setting of the host, and not in its controller or kernel alone.
    pub fn has_settings(&self) -> bool {
        !self.rest().settings.is_empty()
    }

    /// The same once more, under a second label.
    pub fn again(&self) -> Self {
        Self::from(format!("{}#2", self.split().0))
    }

    /// What it is called in tables and in the comparison.
    pub fn as_str(&self) -> &str {
        &self.short
    }

    /// The whole of it, as the user wrote it.
    pub fn whole(&self) -> &str {
        &self.whole
    }

    /// Whether it is written as a label must be.
    pub fn check(&self) -> Result<()> {
        let (_, number) = self.split();
        let is_numbered = number.is_none_or(|n| n.parse::<u64>().is_ok());
        ensure!(
            is_numbered,
            "`{self}` is no label of a controller\nhint: `{}` is the controller once more",
            self.again()
        );
        let after = &self.whole[self.controller().len()..];
        ensure!(
            !after.starts_with('@') || self.kernel().is_some(),
            "`{self}` names no kernel after the `@`\nhint: a version as `headway doctor` shows it, or a file such as ./vmlinuz"
        );
        let mut names = Vec::new();
        for setting in pieces(self.rest().settings) {
            let (name, value) = setting.split_once('=').with_context(|| {
                format!("`{self}`: `{setting}` is no setting\nhint: `/qdisc=fq`, or a sysctl: `/net.ipv4.tcp_notsent_lowat=131072`")
            })?;
            ensure!(!value.trim().is_empty(), "`{self}` gives `{name}` no value");
            ensure!(!names.contains(&name), "`{self}` gives `{name}` twice");
            ensure!(
                name == QDISC || is_sysctl(name),
                "`{self}`: `{name}` is neither `qdisc` nor a sysctl\nhint: a sysctl is written as `sysctl -a` shows it: net.ipv4.tcp_notsent_lowat"
            );
            names.push(name);
        }
        Ok(())
    }

    /// What stands before the number, and the number.
    fn split(&self) -> (&str, Option<&str>) {
        self.whole.rsplit_once('#').map_or((&self.whole, None), |(before, number)| (before, Some(number)))
    }

    fn rest(&self) -> Rest<'_> {
        let rest = &self.split().0.get(self.controller().len()..).unwrap_or_default();
        match rest.strip_prefix('@') {
            None => Rest { kernel: "", settings: rest },
            Some(rest) => {
                // A file's name has slashes too, but none that a setting follows.
                let end = rest.match_indices('/').find(|(at, _)| begins_setting(&rest[at + 1..]));
                let (kernel, settings) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
                Rest { kernel, settings }
            }
        }
    }

    fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        pieces(self.rest().settings).filter_map(|piece| piece.split_once('='))
    }
}

const QDISC: &str = "qdisc";
/// Begins a setting of a network card, where a sysctl's name would begin with `net.`.
const DEVICE: &str = "device.";

/// What sysctls of the network begin with, and tables leave out. The longest comes first.
const KNOWN: [&str; 6] = ["net.ipv4.tcp_", "net.ipv4.", "net.ipv6.", "net.core.", "net.", DEVICE];

/// `/a=1/b=2` as `a=1` and `b=2`; a slash in a value stays where it is.
fn pieces(settings: &str) -> impl Iterator<Item = &str> {
    let starts = settings.match_indices('/').map(|(at, _)| at);
    let starts: Vec<usize> =
        starts.filter(|at| *at == 0 || begins_setting(&settings[at + 1..])).chain([settings.len()]).collect();
    let pieces: Vec<&str> = starts.windows(2).map(|w| &settings[w[0] + 1..w[1]]).collect();
    pieces.into_iter()
}

/// `qdisc=…`, or a name with a point in it and `=…`.
fn begins_setting(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| name == QDISC || is_sysctl(name))
}

/// Letters and digits in words with points between them; so none leads out of /proc/sys.
fn is_sysctl(name: &str) -> bool {
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    name.contains('.') && name.split('.').all(is_word)
}

/// A kernel file by its name; by its folder's where the name says only that it is a kernel.
fn kernel_name(kernel: &str) -> &str {
    let parts: Vec<&str> = kernel.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    match parts[..] {
        [.., folder, "vmlinuz" | "bzImage" | "vmlinux"] if folder != ".." => folder,
        [.., file] => file,
        [] => kernel,
    }
}

/// A file by its name, a sysctl without what all of them begin with.
fn shortened(label: &Label) -> String {
    let mut short = label.controller().to_string();
    if let Some(kernel) = label.kernel() {
        short += "@";
        short += kernel_name(kernel);
    }
    for (name, value) in label.settings() {
        let name = KNOWN.iter().find_map(|known| name.strip_prefix(known)).unwrap_or(name);
        short += &match name {
            QDISC => format!("/{value}"),
            name => format!("/{name}={value}"),
        };
    }
    if let Some(number) = label.split().1 {
        short += &format!("#{number}");
    }
    short
}

impl From<String> for Label {
    fn from(whole: String) -> Self {
        let mut label = Self { whole, short: String::new() };
        // What is no label is shown as it was written.
        label.short = if label.check().is_ok() { shortened(&label) } else { label.whole.clone() };
        label
    }
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        Self::from(text.to_string())
    }
}

impl From<Label> for String {
    fn from(label: Label) -> String {
        label.whole
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq<str> for Label {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Label {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str) -> Label {
        Label::from(text)
    }

    #[test]
    fn a_label_is_a_controller_and_perhaps_a_number() {
        assert_eq!((label("bbr").controller(), label("bbr").number()), ("bbr", None));
        assert_eq!((label("bbr#2").controller(), label("bbr#2").number()), ("bbr", Some(2)));
        assert_eq!(label("bbr3:up_pacing_gain=1.1#3").controller(), "bbr3:up_pacing_gain=1.1");
        assert_eq!(label("bbr#2").again(), label("bbr").again());
        assert_eq!(label("bbr@6.1#2").again(), label("bbr@6.1").again());
        assert!(label("bbr").check().is_ok() && label("bbr#2").check().is_ok());
        assert!(label("bbr#x").check().is_err());
        assert_eq!(serde_json::to_string(&label("bbr#2")).unwrap(), "\"bbr#2\"");
    }

    #[test]
    fn a_label_names_kernel_qdisc_and_sysctls() {
        let all =
            label("bbr3:a=1@./k/vmlinuz-6/qdisc=fq limit 10/net.ipv4.tcp_ecn=1/kernel.core_pattern=/c/d#4");
        all.check().unwrap();
        assert_eq!(
            (all.controller(), all.kernel(), all.number()),
            ("bbr3:a=1", Some("./k/vmlinuz-6"), Some(4))
        );
        assert_eq!(all.qdisc(), Some("fq limit 10"));
        let sysctls: Vec<_> = all.sysctls().collect();
        assert_eq!(sysctls, [("net.ipv4.tcp_ecn", "1"), ("kernel.core_pattern", "/c/d")]);
        assert_eq!(all.as_str(), "bbr3:a=1@vmlinuz-6/fq limit 10/ecn=1/kernel.core_pattern=/c/d#4");
        assert_eq!(serde_json::to_value(&all).unwrap(), all.whole());
        assert_eq!((label("bbr@6.1").kernel(), label("bbr@6.1").has_settings()), (Some("6.1"), false));
        assert_eq!((label("bbr/qdisc=fq").kernel(), label("bbr/qdisc=fq").as_str()), (None, "bbr/fq"));
    }

    #[test]
    fn a_setting_of_a_network_card_is_no_sysctl() {
        let both = label("bbr/device.threaded=1/net.core.busy_read=50");
        both.check().unwrap();
        assert_eq!(both.device_settings().collect::<Vec<_>>(), [("threaded", "1")]);
        assert_eq!(both.sysctls().collect::<Vec<_>>(), [("net.core.busy_read", "50")]);
        assert_eq!(both.as_str(), "bbr/threaded=1/busy_read=50");
        assert!(label("bbr/device.../../x=1").check().is_err());
    }

    #[test]
    fn a_kernel_file_is_called_by_what_tells_it_from_others() {
        let names =
            ["./vmlinuz-patched", "/a/6.1.0/vmlinuz", "./vmlinuz", "../vmlinuz", "6.12", "/a/b/bzImage"];
        let short = ["vmlinuz-patched", "6.1.0", "vmlinuz", "vmlinuz", "6.12", "b"];
        assert_eq!(names.map(kernel_name), short);
    }

    #[test]
    fn what_is_no_label_is_refused_by_its_part() {
        for (text, word) in [
            ("bbr@", "names no kernel"),
            ("bbr@#2", "names no kernel"),
            ("bbr@/qdisc=fq", "names no kernel"),
            ("bbr/", "is no setting"),
            ("bbr/fq", "is no setting"),
            ("bbr/qdisc=", "no value"),
            ("bbr/qdisc=fq/qdisc=fq", "twice"),
            ("bbr/lowat=1", "neither `qdisc` nor a sysctl"),
            ("bbr/net..x=1", "neither `qdisc` nor a sysctl"),
            ("bbr/../../etc/x=1", "neither `qdisc` nor a sysctl"),
        ] {
            let error = label(text).check().unwrap_err().to_string();
            assert!(error.contains(word) && error.contains(text), "{text}: {error}");
        }
    }
}
