//! Which of several servers a run goes to: each is tried once, before the run, and the choice stays.

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
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// Echo requests to a candidate, all of which must be answered, and the time between two.
const ECHOES: u64 = 10;
const ECHO_INTERVAL_US: u64 = 100_000;
/// Length of the connection test.
const TEST_S: u32 = 1;
/// The test runs this much longer before it is given up.
const GRACE: Duration = Duration::from_secs(5);

/// A server that was named, and what it answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// As it was given.
    pub host: String,
    pub address: String,
    /// The smallest of its echoes; with `--probe`, of TCP's.
    pub rtt_us: Option<i64>,
    /// What one stream brought there in the connection test.
    pub test_bps: Option<u64>,
    /// Why it is out of the question; empty when nothing failed.
    pub failure: String,
}

/// The IPv4 address of a server: the prober speaks no other.
pub fn resolve(word: &str, tool: Tool) -> Result<SocketAddrV4> {
    let mut found = server::parse(word, tool)?.to_socket_addrs().with_context(|| {
        format!("cannot resolve `{word}`\nhint: give HOST or HOST:PORT of an `{} -s`", tool.program())
    })?;
    let first = found.find_map(|address| match address {
        SocketAddr::V4(v4) => Some(v4),
        SocketAddr::V6(_) => None,
    });
    first.with_context(|| format!("`{word}` has only an IPv6 address, and the prober needs IPv4"))
}

/// Traffic to an address of this machine crosses no network: no controller could matter.
pub fn refuse_self(address: Ipv4Addr) -> Result<()> {
    let own = own_addresses()?;
    ensure!(
        !own.contains(&address) && !address.is_loopback() && !address.is_unspecified(),
        "{address} is an address of this machine: nothing would cross a network\nhint: name another machine, or --in here",
    );
    Ok(())
}

/// The addresses of this network namespace that are not the other end of a point-to-point link.
fn own_addresses() -> Result<Vec<Ipv4Addr>> {
    let all = sys::net::ipv4_addresses().context("cannot list this machine's addresses")?;
    // Only an address of one's own can be bound to.
    Ok(all.into_iter().filter(|a| std::net::UdpSocket::bind((*a, 0)).is_ok()).collect())
}

/// A target of the prober that is not the server: it must answer.
pub fn probe_target(host: &str) -> Result<Ipv4Addr> {
    let address = *resolve(host, Tool::default())?.ip();
    refuse_self(address)?;
    echo(address).1?;
    Ok(address)
}

/// Every candidate, one after the other: a test must not disturb another one's echoes. Where the probes of the run go elsewhere
/// a server need not answer them, and its round-trip time is the smallest that TCP saw.
pub fn try_all(hosts: &str, tool: Tool, echoes: bool) -> Result<Vec<Candidate>> {
    let mut all = Vec::new();
    for word in hosts.split(',') {
        let mut candidate = Candidate { host: word.into(), ..Candidate::default() };
        if let Err(e) = try_one(&mut candidate, tool, echoes) {
            candidate.failure = sentence(&e);
        }
        eprintln!("{}", candidate.line());
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

/// The smallest round-trip time, and whether every echo was answered.
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

/// A short transfer with this machine's usual controller.
fn test(server: SocketAddrV4, tool: Tool) -> Result<Load> {
    let traffic = Traffic::bulk(TEST_S);
    let cc = machine::sysctl("net.ipv4.tcp_congestion_control");
    let (to, port) = (server.ip().to_string(), server.port());
    let client = iperf::Client { tool, to, port, cc: &cc, traffic: &traffic };
    let load = load::parse(&client.run_alone(GRACE)?).map_err(anyhow::Error::msg)?;
    load.judge(&cc).map_err(anyhow::Error::msg)?;
    Ok(load)
}

/// The lowest round-trip time among those without any failure; of equals the first.
pub fn best(all: &[Candidate], tool: Tool) -> Result<&Candidate> {
    let good = all.iter().filter(|c| c.failure.is_empty());
    let lines = || all.iter().map(|c| format!("\n  {}", c.line())).collect::<String>();
    good.min_by_key(|c| c.rtt_us).with_context(|| {
        format!(
            "no server can be used:{}\nhint: start `{}` there, or wait until it is free",
            lines(),
            tool.server_command()
        )
    })
}

impl Candidate {
    fn line(&self) -> String {
        let rtt = self.rtt_us.map_or(String::new(), |us| format!(" {:.2} ms,", us as f64 / 1e3));
        let said = match (self.failure.is_empty(), self.test_bps) {
            (true, Some(bps)) => format!("answers, {:.1} Mbit/s in the test", bps as f64 / 1e6),
            // The hints of several candidates would hide the one that counts.
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
