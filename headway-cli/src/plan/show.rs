//! A plan as text: what `--dry-run` prints, and the command that makes the plan again.

use crate::plan::label::Label;
use crate::plan::path::PathEntry;
use crate::plan::place::Place;
use crate::plan::request::USUAL_BLOCKS;
use crate::plan::shard::Shard;
use crate::plan::traffic::{self, Traffic};
use crate::plan::{Plan, matrix, suite};
use crate::stats;
use anyhow::Result;

/// Seconds that a cell of the lab takes beside its load: its guest boots (3 s, measured) and ends.
const LAB_EXTRA_S: u64 = 6;
/// The same of a cell with a real clock: its ends are set up, and the prober measures the idle path.
const REAL_EXTRA_S: u64 = 3;
/// Bits over the path that one core simulates in a second (measured).
const SIM_TCP_BPS: u64 = 30_000_000_000;
/// The same with a QUIC stack, which encrypts them.
const SIM_QUIC_BPS: u64 = 1_500_000_000;
/// Bits over the path that a QUIC stack sends in a second of the lab's wall time (measured). TCP keeps up with the
/// clock there.
const LAB_QUIC_BPS: u64 = 25_000_000;

impl Plan {
    /// What the plan would take: its cells in their order, wall time and traffic.
    pub fn dry_run(&self, shard: Option<Shard>, jobs: usize) -> Result<String> {
        use std::fmt::Write as _;
        let mut s = String::from("cell block path cc seed\n");
        for c in self.cells_of(shard) {
            writeln!(s, "{} {} `{}` {} {}", c.index, c.block + 1, self.paths[c.path].name, c.cc, c.seed)?;
        }
        if !self.suite.is_empty() {
            let left_out = suite::find(&self.suite)?.left_out(&self.place);
            let (suite, count) = (&self.suite, self.paths.len());
            writeln!(s, "suite {suite}: {count} paths; {} left out in {}", left_out.len(), self.place)?;
            left_out.iter().try_for_each(|line| writeln!(s, "left out: {line}"))?;
        }
        if let Some(draws) = &self.draws {
            let of = draws.ranged().collect::<Vec<_>>().join(" and of ");
            writeln!(s, "{} candidates of {of}, drawn with seed {}", draws.count, self.seed)?;
        }
        let (seconds, bits) = self.cost(shard, jobs)?;
        write!(s, "{} cells, about {} min, ", self.cells_of(shard).count(), seconds.div_ceil(60))?;
        match bits {
            u64::MAX => writeln!(s, "no limit to the traffic over the paths")?,
            bits => writeln!(s, "at most {:.1} GB over the paths", bits as f64 / 8e9)?,
        }
        if let Some(undecided) = self.what_cannot_be_decided() {
            writeln!(s, "note: {undecided}")?;
        }
        Ok(s)
    }

    /// What the number of blocks and of controllers does not allow to be said, whatever is measured; `None` where
    /// every verdict is possible. Said before a run, where it saves the run, and in its report.
    pub fn what_cannot_be_decided(&self) -> Option<String> {
        let blocks = self.blocks as usize;
        let comparisons = self.comparisons();
        let needed = stats::blocks_needed(comparisons);
        let takes = match comparisons {
            0 => return Some("One controller: there is nothing to compare it with.".into()),
            1 => format!("A comparison needs {needed} blocks"),
            _ => format!("{comparisons} comparisons need {needed} blocks"),
        };
        let has = if blocks == 1 { "1 block".to_string() } else { format!("{blocks} blocks") };
        let reason = "so that a difference can be told from chance";
        if self.draws.is_some() {
            let least = stats::MIN_BLOCKS;
            let text = format!(
                "With {has} there are no intervals, which take {least} blocks. --blocks {least} would do."
            );
            return (blocks < least).then_some(text);
        }
        if blocks < stats::MIN_BLOCKS {
            Some(format!(
                "{takes} {reason}: with {has} there are no intervals and no verdicts. --blocks {needed} would do."
            ))
        } else if blocks < needed {
            Some(format!(
                "{takes} {reason}: with {has} no verdict can be better or worse, only equivalent. \
                 --blocks {needed} would do."
            ))
        } else {
            None
        }
    }

    /// Seconds of wall time, and bits over the paths (`u64::MAX`: without a limit).
    fn cost(&self, shard: Option<Shard>, jobs: usize) -> Result<(u64, u64)> {
        let load_s = |path: usize| u64::from(self.traffic(path).seconds);
        let capacity = |(index, path): (usize, &PathEntry)| match self.place {
            // Nobody knows what a real path carries, and an unlimited link carries u64::MAX, too.
            Place::Remote(_) => Ok(u64::MAX),
            _ if path.wire().is_some() => Ok(u64::MAX),
            _ => Ok(path.path()?.capacity_bits(0, load_s(index) * 1_000_000_000)),
        };
        let capacities = self.paths.iter().enumerate().map(capacity).collect::<Result<Vec<_>>>()?;
        let (mut seconds, mut bits) = (0u64, 0u64);
        for cell in self.cells_of(shard) {
            bits = bits.saturating_add(capacities[cell.path]);
            let stack_s = if self.transport.is_tcp() { 0 } else { capacities[cell.path] / LAB_QUIC_BPS };
            seconds += match self.place {
                Place::Sim => 0,
                Place::Lab => load_s(cell.path).max(stack_s) + LAB_EXTRA_S,
                Place::Here | Place::Remote(_) => load_s(cell.path) + REAL_EXTRA_S,
            };
        }
        match self.place {
            Place::Sim if self.transport.is_tcp() => seconds = bits / SIM_TCP_BPS / jobs as u64,
            Place::Sim => seconds = bits / SIM_QUIC_BPS / jobs as u64,
            Place::Lab => seconds /= jobs as u64,
            Place::Here | Place::Remote(_) => {}
        }
        Ok((seconds, bits))
    }

    /// The command that makes this plan again.
    pub fn command(&self) -> String {
        let ccs = self.draws.as_ref().map_or(&self.ccs, |draws| &draws.of);
        let ccs: Vec<&str> = ccs.iter().map(Label::whole).collect();
        let mut s = format!("headway bench --cc {}", shell_word(&ccs.join(",")));
        if let Some(draws) = &self.draws {
            s += &format!(" --draws {}", draws.count);
        }
        if !self.suite.is_empty() {
            s += &format!(" --suite {}", shell_word(&self.suite));
        }
        let mut given: Vec<&str> = Vec::new();
        for p in self.given() {
            let name = if p.given.is_empty() { &p.name } else { &p.given };
            if !self.place.is_remote() && !given.contains(&name.as_str()) {
                s += &format!(" --path {}", shell_word(name));
                given.push(name);
            }
        }
        s += &format!(" --blocks {}", self.blocks);
        if self.given().next().is_some() {
            s += &self.traffic_flags();
        }
        s += &format!(" --seed {} --in {}{}", self.seed, self.place, self.remote.flags());
        if !self.transport.is_tcp() {
            s += &format!(" --transport {}", self.transport);
        }
        if !self.tool.is_usual() {
            s += &format!(" --tool {}", self.tool);
        }
        let kernels = matrix::values(self.paths.iter(), |p| p.kernel.clone());
        let kernel = if kernels.is_empty() { &self.kernel } else { &kernels };
        for (flag, value) in [("--kernel", kernel), ("--modules", &self.modules)] {
            if !value.is_empty() {
                s += &format!(" {flag} {}", shell_word(value));
            }
        }
        if self.trace {
            s += " --trace";
        }
        s
    }

    /// The command that measures the baseline and these candidates again, on the same paths with other seeds, and in as
    /// many blocks as their verdicts take.
    pub fn command_again(&self, candidates: &[&str]) -> String {
        let is_again = |cc: &&Label| **cc == self.ccs[0] || candidates.contains(&cc.as_str());
        let ccs = self.ccs.iter().filter(is_again).cloned().collect();
        let mut plan =
            Self { ccs, draws: None, seed: self.seed.wrapping_add(1), cells: Vec::new(), ..self.clone() };
        plan.blocks = USUAL_BLOCKS.max(stats::blocks_needed(plan.comparisons()) as u32);
        plan.command()
    }

    /// The paths that no suite brought.
    fn given(&self) -> impl Iterator<Item = &PathEntry> {
        self.paths.iter().filter(|p| p.traffic.is_none() || !p.given.is_empty())
    }

    /// The flags that ask for the traffic of the paths that no suite brought.
    fn traffic_flags(&self) -> String {
        let usual = &self.traffic;
        let list = |of: &dyn Fn(&Traffic) -> String| {
            matrix::values(self.given(), |p| of(p.traffic.as_ref().unwrap_or(usual)))
        };
        let streams = list(&|t| t.streams.to_string());
        let mut s = format!(" --seconds {} --streams {streams}{}", usual.seconds, usual.pattern.flags());
        for (flag, value, none) in [
            ("--pacing", list(&|t| traffic::pacing_text(t.pacing_bps)), "0"),
            ("--direction", list(&|t| t.direction.to_string()), "forward"),
            ("--cpu-load", list(&|t| t.cpu_load_percent.to_string()), "0"),
            ("--mtu", list(&|t| t.mtu.to_string()), &traffic::usual_mtu().to_string()),
            ("--against", list(&|t| traffic::rival_text(t.against.as_ref())), "none"),
        ] {
            if value != none {
                s += &format!(" {flag} {}", shell_word(&value));
            }
        }
        if usual.stagger_ms > 0 {
            s += &format!(" --stagger {}", traffic::stagger_text(usual.stagger_ms));
        }
        if let Some(load) = &usual.host_load {
            s += &load.flags();
        }
        if let Some(messages) = &usual.messages {
            s += &format!(" --messages {messages}");
        }
        s + &format!(" --warmup {}", usual.warmup_ms as f64 / 1000.0)
    }
}

/// The word as a shell takes it: quoted where it holds anything that a shell could interpret.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::PLAN;

    #[test]
    fn the_command_of_a_plan_says_how_far_apart_streams_begin_where_they_do() {
        let mut plan: Plan = serde_json::from_str(PLAN).unwrap();
        let command = |stagger: &str| {
            format!(
                "headway bench --cc cubic,bbr3 --path slow --blocks 1 --seconds 1 --streams 1{stagger} --warmup 0.2 --seed 1 --in sim"
            )
        };
        assert_eq!(plan.command(), command(""));
        plan.traffic.stagger_ms = 500;
        assert_eq!(plan.command(), command(" --stagger 500ms"));
    }
}
