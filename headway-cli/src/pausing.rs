//! A load that iperf3 cannot make: TCP streams that send for a time, pause for a time, and send again, between the ends
//! of an emulated path. What it prints is what iperf3 would have printed, as far as anything reads it.
//!
//! While a stream is on it always has something to send, but never more than [`UNSENT_BYTES`] in the socket that were
//! not sent yet, so that a pause begins when it should.

use crate::emu::Netns;
use crate::probe::now_us;
use crate::{simcell, sys};
use anyhow::{Context, Result, anyhow};
use headway_cc::sim::{FlowBin, FlowRun, SimRun};
use rustix::net::sockopt;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Most bytes that wait in a socket unsent.
const UNSENT_BYTES: u32 = 128 << 10;
const BIN_US: i64 = 100_000;

/// The load.
#[derive(Debug)]
pub struct Job<'a> {
    pub to: SocketAddrV4,
    /// The name under which the kernel knows the controller.
    pub cc: &'a str,
    pub streams: u32,
    pub on_us: i64,
    pub off_us: i64,
    pub seconds: u32,
}

/// One end of one stream: what it counted in each bin, and at the end.
#[derive(Debug, Default)]
struct Side {
    bins: Vec<FlowBin>,
    bytes: u64,
    mss: u32,
    cc: String,
}

impl Job<'_> {
    /// Runs from `near` to `far` and returns JSON like that of `iperf3 -J --get-server-output`.
    pub fn run(&self, near: &Netns, far: &Netns) -> Result<String> {
        let listener = far.enter(|| TcpListener::bind(self.to)).context("cannot listen at the far end")?;
        let pairs = (0..self.streams)
            .map(|_| Ok((near.enter(|| self.connect())?, listener.accept().context("accepting a stream")?.0)))
            .collect::<Result<Vec<_>>>()?;
        let start_us = now_us();
        let sides: Vec<Result<(Side, Side)>> = std::thread::scope(|s| {
            let both = |(near, far)| {
                (s.spawn(move || self.send(near, start_us)), s.spawn(move || self.receive(far, start_us)))
            };
            let threads: Vec<_> = pairs.into_iter().map(both).collect();
            let crashed = |_| anyhow!("a stream of the load crashed");
            let join =
                |(sent, received): (std::thread::ScopedJoinHandle<_>, std::thread::ScopedJoinHandle<_>)| {
                    Ok((sent.join().map_err(crashed)??, received.join().map_err(crashed)??))
                };
            threads.into_iter().map(join).collect()
        });
        Ok(self.json(sides.into_iter().collect::<Result<_>>()?))
    }

    fn length_us(&self) -> i64 {
        i64::from(self.seconds) * 1_000_000
    }

    fn connect(&self) -> Result<TcpStream> {
        use rustix::net::{AddressFamily, SocketType, connect, ipproto, socket};
        let fd: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::TCP))?;
        sockopt::set_tcp_congestion(&fd, self.cc)
            .with_context(|| format!("cannot choose the controller `{}`", self.cc))?;
        connect(&fd, &SocketAddr::V4(self.to)).context("cannot connect to the far end")?;
        sys::set_unsent_limit(fd.as_fd(), UNSENT_BYTES).context("cannot limit what waits in a socket")?;
        let stream = TcpStream::from(fd);
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    /// Sends by the pattern until the end; notes the socket's counters at the end of each bin.
    fn send(&self, mut stream: TcpStream, start_us: i64) -> Result<Side> {
        let mut side = Side::default();
        let block = vec![0; UNSENT_BYTES as usize];
        let (mut bytes_before, mut again_before) = (0, 0);
        loop {
            let at_us = now_us() - start_us;
            if at_us >= (side.bins.len() as i64 + 1) * BIN_US {
                let info = sys::tcp_info(stream.as_fd()).context("cannot read a socket's counters")?;
                let again = u64::from(info.tcpi_total_retrans);
                side.mss = info.tcpi_snd_mss;
                side.bins.push(FlowBin {
                    sent_bytes: side.bytes - bytes_before + (again - again_before) * u64::from(side.mss),
                    retransmitted_packets: again - again_before,
                    cwnd_bytes: u64::from(info.tcpi_snd_cwnd) * u64::from(side.mss),
                    srtt_us: u64::from(info.tcpi_rtt),
                    ..FlowBin::default()
                });
                (bytes_before, again_before) = (side.bytes, again);
                continue;
            }
            if at_us >= self.length_us() {
                let name = sockopt::tcp_congestion(&stream).context("which controller is it?")?;
                side.cc = name.trim_end_matches('\0').to_string();
                return Ok(side);
            }
            let (is_on, change_us) = self.phase(at_us);
            let wait_us = change_us.min((side.bins.len() as i64 + 1) * BIN_US) - at_us;
            if !is_on {
                std::thread::sleep(Duration::from_micros(wait_us as u64));
                continue;
            }
            match stream.write(&block) {
                Ok(n) => side.bytes += n as u64,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    sys::wait_writable(stream.as_fd(), wait_us as u64 * 1000)?;
                }
                Err(e) => return Err(e).context("a stream broke off"),
            }
        }
    }

    /// Counts what arrives until the end.
    fn receive(&self, mut stream: TcpStream, start_us: i64) -> Result<Side> {
        stream.set_nonblocking(true)?;
        let bins = (self.length_us() / BIN_US) as usize;
        let mut side = Side { bins: vec![FlowBin::default(); bins], ..Side::default() };
        let mut buf = vec![0; 1 << 20];
        loop {
            let at_us = now_us() - start_us;
            let Some(bin) = side.bins.get_mut((at_us / BIN_US) as usize) else { return Ok(side) };
            match stream.read(&mut buf) {
                Ok(0) => return Ok(side),
                Ok(n) => {
                    bin.delivered_bytes += n as u64;
                    side.bytes += n as u64;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let left_ns = (self.length_us() - at_us) as u64 * 1000;
                    sys::wait_readable([stream.as_fd()], Some(left_ns))?;
                }
                Err(e) => return Err(e).context("a stream broke off"),
            }
        }
    }

    /// Whether the streams send at this time, and when that changes.
    fn phase(&self, at_us: i64) -> (bool, i64) {
        let round_us = self.on_us + self.off_us;
        let (start_us, within_us) = (at_us / round_us * round_us, at_us % round_us);
        if within_us < self.on_us { (true, start_us + self.on_us) } else { (false, start_us + round_us) }
    }

    fn json(&self, sides: Vec<(Side, Side)>) -> String {
        let mss = sides.first().map_or(1448, |(sent, _)| sent.mss);
        let flow = |(sent, received): (Side, Side)| {
            let again: u64 = sent.bins.iter().map(|b| b.retransmitted_packets).sum();
            let merge = |(sent, received): (FlowBin, FlowBin)| FlowBin {
                delivered_bytes: received.delivered_bytes,
                ..sent
            };
            FlowRun {
                cc: sent.cc,
                sent_bytes: sent.bytes + again * u64::from(mss),
                retransmitted_packets: again,
                retransmitted_bytes: again * u64::from(mss),
                delivered_bytes: received.bytes,
                bins: sent.bins.into_iter().zip(received.bins).map(merge).collect(),
                ..FlowRun::default()
            }
        };
        let flows: Vec<FlowRun> = sides.into_iter().map(flow).collect();
        let duration_us = self.length_us() as u64;
        let run = SimRun { duration_us, bin_us: BIN_US as u64, mss, ..SimRun::default() };
        simcell::load_json(&run, &flows, concat!("headway ", env!("CARGO_PKG_VERSION")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::parse_iperf3;

    fn job(cc: &str) -> Job<'_> {
        let to = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
        Job { to, cc, streams: 2, on_us: 1_000_000, off_us: 500_000, seconds: 3 }
    }

    #[test]
    fn phases_follow_each_other() {
        let job = job("cubic");
        for (at_us, phase) in [
            (0, (true, 1_000_000)),
            (999_999, (true, 1_000_000)),
            (1_000_000, (false, 1_500_000)),
            (1_500_000, (true, 2_500_000)),
            (2_600_000, (false, 3_000_000)),
        ] {
            assert_eq!(job.phase(at_us), phase, "{at_us}");
        }
    }

    #[test]
    fn what_it_prints_is_read_as_iperf3s() {
        let bin = |sent_bytes, retransmitted_packets, delivered_bytes| FlowBin {
            sent_bytes,
            retransmitted_packets,
            delivered_bytes,
            srtt_us: 20_000,
            ..FlowBin::default()
        };
        let side = |bins: Vec<FlowBin>, bytes| Side { bins, bytes, mss: 1000, cc: "cubic".into() };
        let pair = || {
            let sent = side((0..30).map(|_| bin(12_000, 2, 0)).collect(), 300_000);
            (sent, side((0..30).map(|_| bin(0, 0, 9_000)).collect(), 270_000))
        };
        let load = parse_iperf3(&job("cubic").json(vec![pair(), pair()])).unwrap();
        assert_eq!(load.judge("cubic"), Ok(()));
        assert_eq!((load.sent_bytes, load.received_bytes), (600_000, 540_000));
        assert_eq!((load.retransmits, load.mss_bytes), (Some(120), Some(1000)));
        assert_eq!((load.sent.len(), load.received.len()), (30, 30));
        assert!(load.sent.iter().all(|i| i.bytes() == 20_000 && i.srtt_us == [20_000, 20_000]));
        assert!(load.received.iter().all(|i| i.bytes() == 18_000));
    }
}
