//! Chooses the server of a run out of those that were named. Each is tried once, before the first cell, and the
//! choice holds for the whole run. `remote.rs` calls this.

use super::{Context, Deserialize, Result, Serialize, SocketAddrV4, ensure};
use crate::error::sentence;
use crate::load::iperf;
use crate::observe::machine;
use crate::observe::probe::Prober;
use crate::plan::server;
use crate::plan::tool::Tool;
use crate::plan::traffic::Traffic;
use crate::raw::load::{self, Load};
use crate::raw::probe::Probe;
use crate::sys;
use crate::sys::out;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// How many ICMP echo requests each candidate gets. All must be answered, because a host that drops some of them
/// would look like a path that loses packets.
const ECHOES: u64 = 10;
/// Time between two echo requests, in microseconds.
const ECHO_INTERVAL_US: u64 = 100_000;
/// Length of the connection test, in seconds.
const TEST_S: u32 = 1;
/// How long the test's client may run beyond its time before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// A server that was named, and what it answered. This is also its form in `env.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The server as the command line names it.
    pub host: String,
    pub address: String,
    /// Smallest round-trip time, in microseconds: of the ICMP echoes or, with `--probe`, of what TCP measured in the
    /// connection test.
    pub rtt_us: Option<i64>,
    /// Goodput of one stream in the connection test, in bits per second.
    pub test_bps: Option<u64>,
    /// Why the server cannot be used; empty when nothing failed.
    pub failure: String,
}

/// What a failure begins with where the name system knows no such server.
const UNRESOLVED: &str = "cannot resolve";

/// Resolves a server to its IPv4 address; the prober speaks no IPv6.
pub fn resolve(word: &str, tool: Tool) -> Result<SocketAddrV4> {
    let mut found = server::parse(word, tool)?.to_socket_addrs().with_context(|| {
        format!("{UNRESOLVED} `{word}`\nhint: give HOST or HOST:PORT of an `{} -s`", tool.program())
    })?;
    let first = found.find_map(|address| match address {
        SocketAddr::V4(v4) => Some(v4),
        SocketAddr::V6(_) => None,
    });
    first.with_context(|| format!("`{word}` has only an IPv6 address, and the prober needs IPv4"))
}

/// Refuses an address of this machine: traffic to it crosses no network, so that no controller could make a
/// difference.
pub fn refuse_self(address: Ipv4Addr) -> Result<()> {
    let own = own_addresses()?;
    ensure!(
        !own.contains(&address) && !address.is_loopback() && !address.is_unspecified(),
        "{address} is an address of this machine: nothing would cross a network\nhint: name another machine, or --in here",
    );
    Ok(())
}

/// The IPv4 addresses that this network namespace answers to. The kernel's list also names the peer of a
/// point-to-point link, which is another machine.
fn own_addresses() -> Result<Vec<Ipv4Addr>> {
    let all = sys::net::ipv4_addresses().context("cannot list this machine's addresses")?;
    // The kernel lets a socket be bound only to an address of its own, which tells the two apart.
    Ok(all.into_iter().filter(|a| std::net::UdpSocket::bind((*a, 0)).is_ok()).collect())
}

/// Resolves the host of `--probe`, which is not the server, and makes sure that it answers ICMP echo.
pub fn probe_target(host: &str) -> Result<Ipv4Addr> {
    let address = *resolve(host, Tool::default())?.ip();
    refuse_self(address)?;
    echo(address).1?;
    Ok(address)
}

/// Tries every candidate and prints a line about each. They are tried one after the other, because the test of one
/// would delay the echoes of another on a link that both share.
///
/// `echoes` is false where `--probe` names another target: a server then need not answer ICMP echo, and its
/// round-trip time is the smallest that TCP measured.
pub fn try_all(hosts: &str, tool: Tool, echoes: bool) -> Result<Vec<Candidate>> {
    let mut all = Vec::new();
    for word in hosts.split(',') {
        let mut candidate = Candidate { host: word.into(), ..Candidate::default() };
        if let Err(e) = try_one(&mut candidate, tool, echoes) {
            candidate.failure = sentence(&e);
        }
        out::note(candidate.line());
        all.push(candidate);
    }
    Ok(all)
}

fn try_one(candidate: &mut Candidate, tool: Tool, echoes: bool) -> Result<()> {
    let server = resolve(&candidate.host, tool)?;
    candidate.address = server.to_string();
    refuse_self(*server.ip())?;
    let answered = match echoes {
        true => {
            let (rtt_us, answered) = echo(*server.ip());
            candidate.rtt_us = rtt_us;
            answered
        }
        false => Ok(()),
    };
    let load = test(server, tool)?;
    candidate.test_bps = Some(load.received_bytes * 8_000_000 / load.received_us.max(1));
    if !echoes {
        candidate.rtt_us = load.sent.iter().flat_map(|i| &i.srtt_us).min().map(|us| *us as i64);
    }
    answered
}

/// Smallest round-trip time in microseconds, and an error if an echo was not answered.
fn echo(to: Ipv4Addr) -> (Option<i64>, Result<()>) {
    let probes = Prober::socket().and_then(|socket| {
        let prober = Prober::start(socket, to, ECHO_INTERVAL_US);
        std::thread::sleep(Duration::from_micros((ECHOES - 1) * ECHO_INTERVAL_US + ECHO_INTERVAL_US / 2));
        prober.stop()
    });
    match probes {
        Ok(probes) => (probes.iter().filter_map(|p| p.rtt_us).min(), all_answered(&probes)),
        Err(e) => (None, Err(e)),
    }
}

fn all_answered(probes: &[Probe]) -> Result<()> {
    let answered = probes.iter().filter(|p| p.rtt_us.is_some()).count();
    ensure!(answered == probes.len(), "it answered {answered} of {} ICMP echoes", probes.len());
    Ok(())
}

/// Runs a short transfer with the congestion control that is this machine's default.
fn test(server: SocketAddrV4, tool: Tool) -> Result<Load> {
    let traffic = Traffic::bulk(TEST_S);
    let cc = machine::sysctl("net.ipv4.tcp_congestion_control");
    let (to, port) = (server.ip().to_string(), server.port());
    let client = iperf::Client { tool, to, port, cc: &cc, traffic: &traffic };
    let load = load::parse(&client.run_alone(GRACE)?).map_err(anyhow::Error::msg)?;
    load.judge(&cc).map_err(anyhow::Error::msg)?;
    Ok(load)
}

/// The server with the lowest round-trip time among those without any failure; of several equals, the first.
pub fn best(all: &[Candidate], tool: Tool) -> Result<&Candidate> {
    let good = all.iter().filter(|c| c.failure.is_empty());
    let hint = match all.iter().all(|c| c.failure.starts_with(UNRESOLVED)) {
        true => "check the name, or give the address: --in remote 192.0.2.1".to_string(),
        false => format!("start `{}` there, or wait until it is free", tool.server_command()),
    };
    let lines = || all.iter().map(|c| format!("\n  {}", c.line())).collect::<String>();
    good.min_by_key(|c| c.rtt_us).with_context(|| format!("no server can be used:{}\nhint: {hint}", lines()))
}

impl Candidate {
    fn line(&self) -> String {
        let rtt = self.rtt_us.map_or(String::new(), |us| format!(" {:.2} ms,", us as f64 / 1e3));
        let said = match (self.failure.is_empty(), self.test_bps) {
            (true, Some(bps)) => format!("answers, {:.1} Mbit/s in the test", bps as f64 / 1e6),
            // Only the first line of a failure is shown, because the hints of several candidates would hide the one
            // hint that matters.
            _ => self.failure.lines().next().unwrap_or_default().to_string(),
        };
        format!("{}:{rtt} {said}", self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_without_a_failure_is_chosen() {
        let candidate = |host: &str, rtt_us, failure: &str| Candidate {
            host: host.into(),
            rtt_us: Some(rtt_us),
            failure: failure.into(),
            ..Candidate::default()
        };
        let all = [
            candidate("busy", 1, "iperf3: the server is busy running a test. try again later"),
            candidate("far", 900, ""),
            candidate("near", 500, ""),
            candidate("as-near", 500, ""),
        ];
        assert_eq!(best(&all, Tool::Iperf3).unwrap().host, "near");
        let error = best(&all[..1], Tool::Iperf3).unwrap_err().to_string();
        assert!(
            error.contains("busy: 0.00 ms, iperf3: the server is busy") && error.contains("hint: "),
            "{error}"
        );
    }

    #[test]
    fn an_echo_that_is_missing_is_a_failure() {
        let probe = |rtt_us| Probe { sent_us: 0, rtt_us };
        assert!(all_answered(&[probe(Some(5)), probe(Some(6))]).is_ok());
        let error = all_answered(&[probe(Some(5)), probe(None)]).unwrap_err();
        assert_eq!(error.to_string(), "it answered 1 of 2 ICMP echoes");
    }

    #[test]
    fn this_machine_is_no_server() {
        for own in ["127.0.0.1", "127.8.9.10", "0.0.0.0"] {
            let error = refuse_self(own.parse().unwrap()).unwrap_err();
            assert!(error.to_string().contains("address of this machine"), "{error}");
        }
        assert!(refuse_self("192.0.2.1".parse().unwrap()).is_ok());
    }
}
