//! What a trial is: everything that was asked for, in trial.json of its folder.

use super::schedule::{self, By, Slot};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// The layout of the folder. A change of it gets another number.
pub const VERSION: u32 = 1;

/// Which connections take part, as the user said it, so that a trial that goes on takes the same ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scope {
    /// Local ports, from and to; empty for all.
    pub ports: Vec<(u16, u16)>,
    /// `in`, `out` or `both`; empty for both.
    pub direction: String,
    /// Remote networks as `192.0.2.0/24`; empty for all.
    pub prefixes: Vec<String>,
    /// The cgroup whose sockets take part; empty for the whole machine.
    pub cgroup: String,
    pub with_mptcp: bool,
}

impl Scope {
    /// In words and without addresses, for the report.
    pub fn in_words(&self) -> String {
        let port = |(from, to): &(u16, u16)| {
            if from == to { from.to_string() } else { format!("{from} to {to}") }
        };
        let ports: Vec<String> = self.ports.iter().map(port).collect();
        let mut words = match self.direction.as_str() {
            "in" => "incoming connections".to_string(),
            "out" => "outgoing connections".to_string(),
            _ => "all connections".to_string(),
        };
        if !ports.is_empty() {
            words += &format!(" of port {}", ports.join(", "));
        }
        if !self.cgroup.is_empty() {
            words += &format!(" of the cgroup {}", self.cgroup);
        }
        match self.prefixes.len() {
            0 => {}
            1 => words += " with one remote network",
            n => words += &format!(" with {n} remote networks"),
        }
        words + if self.with_mptcp { ", MPTCP included" } else { "" }
    }
}

/// A trial as it was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    pub version: u32,
    /// The controller that is held to be in use, and the one that is tried. The same twice is a rehearsal: it shows what chance alone
    /// does.
    pub arms: [String; 2],
    pub by: By,
    /// Which connections take part.
    pub scope: Scope,
    pub slot_ms: u64,
    /// What begins in this first part of a slot is left out, because connections of the slot before are still there; and what
    /// begins in a last part as long, because it lives on in the next slot.
    pub burn_in_ms: u64,
    /// How many slots.
    pub slots: u32,
    /// The share of connections that get the candidate in the first slot; 0 for no such slot.
    pub canary: f64,
    /// The share of its goodput that a connection may lose before the trial ends.
    pub max_harm: f64,
    pub seed: u64,
    /// When it began, in seconds since 1970; 0 of a simulated one.
    pub began_unix_s: u64,
    /// `Linux 6.18.44`, or the simulator with its world.
    pub place: String,
}

/// The least that a trial may last, in slots. A verdict takes 6 pairs; three verdicts at once take 7 (Holm), and a group has 2.
pub const LEAST_SLOTS: u32 = 4 * schedule::GROUP;

/// A folder of a stranger may ask for any number; these are all that a program should hold in memory.
const MOST_SLOTS: u32 = 1_000_000;

impl Setup {
    pub fn schedule(&self) -> Vec<Slot> {
        schedule::slots(self.slots, self.by, self.canary > 0.0, self.seed)
    }

    /// Both controllers are the same.
    pub fn is_rehearsal(&self) -> bool {
        self.arms[0] == self.arms[1]
    }

    pub fn is_simulated(&self) -> bool {
        self.began_unix_s == 0
    }

    /// # Errors
    /// What cannot be, whoever asks for it: a flag or a folder.
    pub fn check(&self) -> Result<()> {
        ensure!(self.version == VERSION, "its layout is {}, and this headway knows {VERSION}", self.version);
        for arm in &self.arms {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "_-:=.%".contains(c);
            ensure!(
                !arm.is_empty() && arm.len() < 200 && arm.chars().all(is_name),
                "`{}` is no name of a controller",
                arm.escape_debug()
            );
        }
        ensure!(
            (1..=MOST_SLOTS).contains(&self.slots),
            "a trial has 1 to {MOST_SLOTS} slots, and not {}",
            self.slots
        );
        ensure!(self.slot_ms >= 100, "a slot is at least 100 ms long");
        ensure!(self.slot_ms <= 7 * 24 * 3_600_000, "a slot is at most a week long");
        ensure!(
            self.burn_in_ms < self.slot_ms / 2,
            "the burn-in of {} ms leaves nothing of a slot of {} ms",
            self.burn_in_ms,
            self.slot_ms
        );
        let is_share = |x: f64, most: f64| (0.0..=most).contains(&x);
        ensure!(is_share(self.canary, 0.5), "the canary is at most half of the connections");
        ensure!(is_share(self.max_harm, 1.0), "the harm that is allowed is a share between 0 and 100 %");
        Ok(())
    }
}

#[cfg(test)]
pub fn sample() -> Setup {
    Setup {
        version: VERSION,
        arms: ["cubic".into(), "bbr3".into()],
        by: By::Slot,
        scope: Scope::default(),
        slot_ms: 60_000,
        burn_in_ms: 10_000,
        slots: 40,
        canary: 0.0,
        max_harm: 0.2,
        seed: 1,
        began_unix_s: 0,
        place: "the simulator".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_said() {
        let wrong = |change: fn(&mut Setup)| {
            let mut setup = sample();
            change(&mut setup);
            setup.check().unwrap_err().to_string()
        };
        assert!(sample().check().is_ok());
        assert!(wrong(|s| s.version = 2).contains("layout is 2"));
        assert!(wrong(|s| s.arms[1] = "bbr3 <b>".into()).contains("bbr3 <b>"));
        assert!(wrong(|s| s.slots = 0).contains("slots"));
        assert!(wrong(|s| s.slots = u32::MAX).contains("slots"));
        assert!(wrong(|s| s.burn_in_ms = 30_000).contains("leaves nothing"));
        assert!(wrong(|s| s.slot_ms = u64::MAX).contains("a week"));
        assert!(wrong(|s| s.canary = f64::NAN).contains("canary"));
        assert!(wrong(|s| s.max_harm = -0.1).contains("harm"));
    }
}
