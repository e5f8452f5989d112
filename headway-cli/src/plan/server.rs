//! What a run over a real path (`--in remote HOST`) needs beside its traffic: the servers' names and the flags that
//! only make sense there. Whether a server answers is found out in `cell/remote`.

use crate::plan::show::shell_word;
use crate::plan::tool::Tool;
use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// The qdisc that `--fq` sets.
pub const FQ: &str = "fq";

/// The flags of a run over a real path, and the server once it is chosen. Empty texts are flags that were not given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemoteOptions {
    /// The candidate that the whole run goes to, as it was given; empty until it is chosen.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// The host that answers the latency probes; the server itself where empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub probe: String,
    /// The qdisc, with its options, that the egress device has during the run; the present one stays where empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub qdisc: String,
    /// The server's machine, as ssh knows it. Where empty, nothing is asked of that machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ssh: String,
}

impl RemoteOptions {
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// The flags of `headway bench` that ask for these options.
    pub fn flags(&self) -> String {
        let qdisc = if self.qdisc == FQ { "" } else { &self.qdisc };
        let mut s = if self.qdisc == FQ { " --fq".to_string() } else { String::new() };
        for (flag, value) in [("--probe", &*self.probe), ("--qdisc", qdisc), ("--ssh", &*self.ssh)] {
            if !value.is_empty() {
                s += &format!(" {flag} {}", shell_word(value));
            }
        }
        s
    }
}

/// `HOST[:PORT][,HOST…]` as names and ports.
pub fn parse_all(hosts: &str, tool: Tool) -> Result<Vec<(&str, u16)>> {
    let words: Vec<&str> = hosts.split(',').collect();
    let servers = words.iter().copied().map(|word| parse(word, tool)).collect::<Result<_>>()?;
    for (i, word) in words.iter().enumerate() {
        ensure!(!words[..i].contains(word), "`{word}` is given twice");
    }
    Ok(servers)
}

/// `HOST[:PORT]` as name and port; the tool's usual port where none is given.
pub fn parse(word: &str, tool: Tool) -> Result<(&str, u16)> {
    let (name, port) = match word.split_once(':') {
        None => (word, Some(tool.port())),
        Some((name, port)) => (name, port.parse().ok().filter(|port| *port > 0)),
    };
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-._".contains(c));
    match port {
        // A name that begins with `-` would be taken for a flag by the programs that get it.
        Some(port) if is_name && !name.starts_with('-') => Ok((name, port)),
        _ => bail!(
            "`{word}` is no server\nhint: HOST or HOST:PORT of a running `{} -s`, by name or IPv4 address",
            tool.program()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_and_wrong_ones_named() {
        assert_eq!(
            parse_all("a.example,192.0.2.1:5300", Tool::Iperf3).unwrap(),
            [("a.example", 5201), ("192.0.2.1", 5300)]
        );
        assert_eq!(parse_all("a.example", Tool::Iperf2).unwrap(), [("a.example", 5001)]);
        for (wrong, names) in [
            ("", "`` is no server"),
            ("a,", "`` is no server"),
            ("a:0", "`a:0`"),
            ("a:http", "`a:http`"),
            ("a b", "`a b`"),
            ("-c", "`-c`"),
            ("::1", "`::1`"),
            ("a,b,a", "`a` is given twice"),
        ] {
            let error = parse_all(wrong, Tool::Iperf3).unwrap_err().to_string();
            assert!(error.contains(names), "{wrong}: {error}");
        }
    }
}
