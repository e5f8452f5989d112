//! The latency prober: it sends ICMP echo requests on a fixed schedule and times the replies. The schedule does not
//! wait for replies, so that a stall of the path cannot hide itself by delaying the probes that would have seen it.
//! `cell` uses it during the load, and `cell/remote/candidates.rs` before a run.
//!
//! `probe.txt` has one row per probe in the order of sending, `sent_us rtt_us`, with `-` when no reply came.

use crate::raw::ping::Echo;
use crate::raw::probe::Probe;
use crate::sys;
use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrV4, SocketType, ipproto};
use rustix::time::Timespec;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// How long to wait for the last replies after [`Prober::stop`], in microseconds.
const LINGER_US: i64 = 1_000_000;
/// Size of the ICMP message in bytes: 8 of header and 16 of payload.
const ECHO_BYTES: usize = 24;

/// A running prober. Dropping it stops it too.
#[derive(Debug)]
pub struct Prober {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Echo>>>>,
}

/// The echo as `probe.txt` has it: both clocks in whole microseconds.
impl From<Echo> for Probe {
    fn from(echo: Echo) -> Self {
        let sent_us = echo.sent_ns / 1000;
        Self { sent_us, rtt_us: echo.rtt_ns.map(|rtt_ns| (echo.sent_ns + rtt_ns) / 1000 - sent_us) }
    }
}

/// The monotonic clock in microseconds.
pub fn now_us() -> i64 {
    (sys::clock::monotonic_ns() / 1000) as i64
}

impl Prober {
    /// Opens an ICMP socket in the network namespace of the calling thread: a raw one where that is allowed,
    /// otherwise a datagram one.
    pub fn socket() -> Result<OwnedFd> {
        rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP))
            .or_else(|_| rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, Some(ipproto::ICMP)))
            .context("cannot open an ICMP socket: needs CAP_NET_RAW (root), or net.ipv4.ping_group_range")
    }

    /// Starts sending one echo request every `interval_us`.
    pub fn start(socket: OwnedFd, to: Ipv4Addr, interval_us: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = std::thread::spawn(move || run(&socket, to, interval_us as i64, &flag));
        Self { stop, thread: Some(thread) }
    }

    /// Stops sending, waits for late replies and returns every probe in the order of sending.
    pub fn stop(self) -> Result<Vec<Probe>> {
        Ok(self.stop_exact()?.into_iter().map(Probe::from).collect())
    }

    /// The same to the nanosecond.
    pub fn stop_exact(mut self) -> Result<Vec<Echo>> {
        self.stop.store(true, Ordering::Relaxed);
        let crashed = || anyhow::anyhow!("the latency prober crashed");
        self.thread.take().ok_or_else(crashed)?.join().map_err(|_| crashed())?
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn run(socket: &OwnedFd, to: Ipv4Addr, interval_us: i64, stop: &AtomicBool) -> Result<Vec<Echo>> {
    sys::sched::make_real_time();
    let id = (std::process::id() & 0xffff) as u16;
    let to = SocketAddrV4::new(to, 0);
    let mut probes: Vec<Echo> = Vec::new();
    let mut due_us = now_us();
    let mut end_us = i64::MAX;
    loop {
        let now = now_us();
        if now >= end_us {
            return Ok(probes);
        }
        if end_us == i64::MAX && stop.load(Ordering::Relaxed) {
            end_us = now + LINGER_US;
        }
        if end_us == i64::MAX && now >= due_us {
            let packet = echo_request(id, probes.len() as u64);
            let sent_ns = sys::clock::monotonic_ns() as i64;
            // A probe that a full queue or an unreachable host refuses counts as lost; it is no error of the run.
            let _ = rustix::net::sendto(socket, &packet, SendFlags::DONTWAIT, &to);
            probes.push(Echo { sent_ns, rtt_ns: None });
            due_us += interval_us;
        }
        // After `stop`, there is nothing left to wait for once the latest 200 probes have their replies: a reply that
        // is missing from before those will not come any more.
        if end_us != i64::MAX && probes.iter().rev().take(200).all(|p| p.rtt_ns.is_some()) {
            return Ok(probes);
        }
        let wake_us = if end_us == i64::MAX { due_us } else { end_us };
        receive(socket, id, wake_us, &mut probes)?;
    }
}

/// Waits until a reply arrives or `wake_us` has come, and records the replies.
fn receive(socket: &OwnedFd, id: u16, wake_us: i64, probes: &mut [Echo]) -> Result<()> {
    let wait_us = (wake_us - now_us()).max(0);
    let timeout = Timespec { tv_sec: wait_us / 1_000_000, tv_nsec: wait_us % 1_000_000 * 1000 };
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => return Err(e).context("waiting for echo replies"),
    }
    let mut buf = [0u8; 256];
    while let Ok((n, _)) = rustix::net::recv(socket, &mut buf[..], RecvFlags::DONTWAIT) {
        let at_ns = sys::clock::monotonic_ns() as i64;
        if let Some(seq) = echo_reply(&buf[..n.min(buf.len())], id)
            && let Some(p) = probes.get_mut(seq as usize)
            && p.rtt_ns.is_none()
        {
            p.rtt_ns = Some(at_ns - p.sent_ns);
        }
    }
    Ok(())
}

/// An ICMP echo request. The payload carries the probe's number, because the sequence field has only 16 bits.
fn echo_request(id: u16, number: u64) -> [u8; ECHO_BYTES] {
    let mut p = [0u8; ECHO_BYTES];
    p[0] = 8;
    p[4..6].copy_from_slice(&id.to_be_bytes());
    p[6..8].copy_from_slice(&(number as u16).to_be_bytes());
    p[8..16].copy_from_slice(b"headway\0");
    p[16..24].copy_from_slice(&number.to_be_bytes());
    let sum = checksum(&p);
    p[2..4].copy_from_slice(&sum.to_be_bytes());
    p
}

/// The probe's number, if `packet` (with or without an IP header) is the reply to one of this prober's requests.
fn echo_reply(packet: &[u8], id: u16) -> Option<u64> {
    let with_ip = packet.first()? >> 4 == 4 && packet.len() >= 20 + ECHO_BYTES;
    let icmp = if with_ip { packet.get((packet[0] & 15) as usize * 4..)? } else { packet };
    // A datagram ICMP socket rewrites the identifier and delivers only replies to its own requests, so there is
    // nothing to compare.
    let ours = !with_ip || icmp.get(4..6)? == id.to_be_bytes();
    if icmp.len() < ECHO_BYTES || icmp[0] != 0 || !ours || &icmp[8..16] != b"headway\0" {
        return None;
    }
    Some(u64::from_be_bytes(icmp[16..24].try_into().ok()?))
}

/// The Internet checksum (RFC 1071).
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0))).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_a_valid_checksum_and_its_reply_is_recognised() {
        let mut p = echo_request(0x1234, 77);
        assert_eq!(checksum(&p), 0);
        assert_eq!(echo_reply(&p, 0x1234), None, "a request is not a reply");
        p[0] = 0;
        assert_eq!(echo_reply(&p, 0x9999), Some(77), "datagram sockets: the kernel rewrote the id");
        let mut ip = vec![0x45u8; 20];
        ip.extend_from_slice(&p);
        assert_eq!(echo_reply(&ip, 0x1234), Some(77));
        assert_eq!(echo_reply(&ip, 0x1235), None);
        for n in 0..ip.len() {
            let _ = echo_reply(&ip[..n], 0x1234);
        }
    }
}
