//! `--shard I/N`: the part of a plan that one machine runs. `bench/merge.rs` puts the parts together again.

use anyhow::{Result, anyhow, ensure};

/// The cells whose index modulo `of` is `part - 1`. Each block is thereby spread over all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1 to `of`.
    pub part: usize,
    pub of: usize,
}

impl Shard {
    pub fn has(&self, index: usize) -> bool {
        index % self.of == self.part - 1
    }
}

impl std::str::FromStr for Shard {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || anyhow!("`{text}` is no shard\nhint: `--shard 2/8` is the second of eight");
        let (part, of) = text.split_once('/').ok_or_else(wrong)?;
        let (part, of) = (part.parse().map_err(|_| wrong())?, of.parse().map_err(|_| wrong())?);
        ensure!(part >= 1 && part <= of, wrong());
        Ok(Self { part, of })
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_a_part_of_a_whole() {
        let shard: Shard = "2/8".parse().unwrap();
        assert_eq!((shard.part, shard.of, shard.to_string().as_str()), (2, 8, "2/8"));
        let third: Shard = "3/4".parse().unwrap();
        assert_eq!((0..12).filter(|index| third.has(*index)).collect::<Vec<_>>(), [2, 6, 10]);
        for wrong in ["", "2", "0/8", "9/8", "1/0", "a/b", "-1/2", "1/2/3"] {
            let error = wrong.parse::<Shard>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{wrong}` is no shard")), "{error}");
        }
    }
}
