//! The program's own TCP streams between the ends of an emulated path. They make the load of the lab and, in `here`,
//! the load that iperf3 cannot make: streams that pause. The output is JSON in iperf3's form, as far as `raw/load.rs`
//! reads it. `cell/here.rs` calls this.
//!
//! In the lab both ends must be in this one process. A packet then wakes no other process, and QEMU keeps what it has
//! cached about the guest's memory, all of which it loses when the address space changes. The same cell with iperf3
//! takes twice the CPU time.

use crate::emu::Netns;
use crate::observe::probe::now_us;
use crate::plan::traffic::{Pattern, Traffic};
use crate::raw::load;
use crate::sys;
use anyhow::{Context, Result, anyhow};
use headway_cc::sim::{FlowBin, FlowRun, SimRun};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

/// How many bytes a stream writes at a time, the same as iperf3. In a stream that pauses it is also the most that may
/// wait unsent in the socket, because what waits there when the pause begins is sent in the pause.
const BLOCK_BYTES: u32 = 128 << 10;
/// Length of the intervals in which the load is counted, in microseconds: iperf3's with `-i 0.1`.
pub(super) const BIN_US: i64 = 100_000;

/// The TCP load between two ends of an emulated path.
#[derive(Debug)]
pub struct Streams<'a> {
    pub to: SocketAddrV4,
    /// The name under which the sender's kernel knows the controller.
    pub cc: &'a str,
    pub traffic: &'a Traffic,
    /// Streams of another load that begin before the first of these.
    pub before: u32,
}

/// One end of one stream: what it counted in each bin and in total, and the CPU time of its thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    pub bins: Vec<FlowBin>,
    pub bytes: u64,
    pub mss: u32,
    pub cc: String,
    pub cpu: Duration,
}

/// `load.json` of streams by their two ends, the sending one first.
pub(super) fn json(sides: Vec<(Side, Side)>, duration_us: u64) -> String {
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
    let cpu = sides.iter().map(|(sent, received)| [sent.cpu, received.cpu]);
    let cpu = cpu.reduce(|[a, b], [c, d]| [a + c, b + d]).unwrap_or_default();
    let flows: Vec<FlowRun> = sides.into_iter().map(flow).collect();
    let run = SimRun { duration_us, bin_us: BIN_US as u64, mss, ..SimRun::default() };
    load::kernel_json(&run, &flows, cpu)
}

/// Runs the sending and the receiving end of every stream, each in a thread of its own, and waits for all of them.
pub(super) fn both_ends<S: Send, R: Send>(
    pairs: Vec<(S, R)>,
    send: &(impl Fn(S) -> Result<Side> + Sync),
    receive: &(impl Fn(R) -> Result<Side> + Sync),
) -> Result<Vec<(Side, Side)>> {
    std::thread::scope(|s| {
        let both = |(near, far)| (s.spawn(move || send(near)), s.spawn(move || receive(far)));
        let threads: Vec<_> = pairs.into_iter().map(both).collect();
        let crashed = |_| anyhow!("a thread of the load crashed");
        let sides: Vec<Result<(Side, Side)>> = threads
            .into_iter()
            .map(|(sent, received)| Ok((sent.join().map_err(crashed)??, received.join().map_err(crashed)??)))
            .collect();
        sides.into_iter().collect()
    })
}

/// A TCP connection that sends with this controller.
pub(super) fn connect(to: SocketAddrV4, cc: &str) -> Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketType, connect, ipproto, socket};
    let fd: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::TCP))?;
    sockopt::set_tcp_congestion(&fd, cc).with_context(|| format!("cannot choose the controller `{cc}`"))?;
    connect(&fd, &SocketAddr::V4(to)).context("cannot connect to the far end")?;
    Ok(fd)
}

impl Streams<'_> {
    /// Sends from `near` to `far` until the time is over and returns JSON like that of
    /// `iperf3 -J --get-server-output`.
    pub fn run(&self, near: &Netns, far: &Netns) -> Result<String> {
        let listener = far.enter(|| TcpListener::bind(self.to)).context("cannot listen at the far end")?;
        // One at a time, so that both ends of a stream find each other.
        let listener = Mutex::new(listener);
        let open = || {
            let listener = listener.lock().unwrap_or_else(PoisonError::into_inner);
            let sending = near.enter(|| self.connect())?;
            Ok::<_, anyhow::Error>((sending, listener.accept().context("accepting a stream")?.0))
        };
        let mut pairs = Vec::new();
        for nth in self.before..self.before + self.traffic.streams {
            let begin_us = self.traffic.start_ms(nth) as i64 * 1000;
            let (hand_over, taken) = mpsc::channel();
            let mut opened = None;
            if begin_us == 0 {
                let (sending, receiving) = open()?;
                hand_over.send(receiving)?;
                opened = Some(sending);
            }
            pairs.push(((opened, begin_us, hand_over), taken));
        }
        let start_us = now_us();
        let send = |(opened, begin_us, hand_over): (Option<TcpStream>, i64, mpsc::Sender<TcpStream>)| {
            if let Some(sending) = opened {
                return self.send(sending, start_us, 0);
            }
            // A stream that begins later is opened later, too: its handshake meets the others' queue.
            let wait_us = start_us + begin_us - now_us();
            std::thread::sleep(Duration::from_micros(wait_us.max(0) as u64));
            let (sending, receiving) = open()?;
            hand_over.send(receiving)?;
            self.send(sending, start_us, begin_us)
        };
        let receive = |taken: mpsc::Receiver<TcpStream>| {
            self.receive(taken.recv().context("the stream was not opened")?, start_us)
        };
        Ok(json(both_ends(pairs, &send, &receive)?, self.length_us() as u64))
    }

    fn length_us(&self) -> i64 {
        i64::from(self.traffic.seconds) * 1_000_000
    }

    fn connect(&self) -> Result<TcpStream> {
        let fd = connect(self.to, self.cc)?;
        if self.traffic.pattern.is_pausing() {
            sys::socket::set_unsent_limit(fd.as_fd(), BLOCK_BYTES)
                .context("cannot limit what waits in a socket")?;
        }
        if let Some(bps) = self.traffic.pacing_bps {
            sys::socket::set_max_pacing_rate(fd.as_fd(), bps / 8)
                .context("cannot limit a socket's pacing rate")?;
        }
        let stream = TcpStream::from(fd);
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    /// Sends by the traffic's pattern from its beginning until the end, and reads the socket's counters at the end of each
    /// bin.
    fn send(&self, mut stream: TcpStream, start_us: i64, begin_us: i64) -> Result<Side> {
        let bins_before = (begin_us / BIN_US) as usize;
        let mut side = Side { bins: vec![FlowBin::default(); bins_before], ..Side::default() };
        let block = vec![0; BLOCK_BYTES as usize];
        let (mut bytes_before, mut again_before) = (0, 0);
        loop {
            let at_us = now_us() - start_us;
            let bin_end_us = (side.bins.len() as i64 + 1) * BIN_US;
            if at_us >= bin_end_us {
                let info =
                    sys::socket::tcp_info(stream.as_fd()).context("cannot read a socket's counters")?;
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
                side.cpu = sys::clock::thread_cpu_time();
                return Ok(side);
            }
            let (bytes, change_us) = self.turn(at_us - begin_us, side.bytes);
            let wait_us = change_us.saturating_add(begin_us).min(bin_end_us) - at_us;
            if bytes == 0 {
                std::thread::sleep(Duration::from_micros(wait_us as u64));
                continue;
            }
            match stream.write(&block[..block.len().min(bytes as usize)]) {
                Ok(n) => side.bytes += n as u64,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    sys::wait::wait_writable(stream.as_fd(), wait_us as u64 * 1000)?;
                }
                // The receiver looks at the clock for itself and may have gone.
                Err(_) if now_us() - start_us >= self.length_us() => {}
                Err(e) => return Err(e).context("a stream broke off"),
            }
        }
    }

    /// Counts the bytes that arrive until the end.
    fn receive(&self, stream: TcpStream, start_us: i64) -> Result<Side> {
        // A timeout of one bin on a blocking socket needs one system call for each arrival and not two. Its cost is
        // that the end may be noticed up to one bin (100 ms) late.
        stream.set_read_timeout(Some(Duration::from_micros(BIN_US as u64)))?;
        let bins = (self.length_us() / BIN_US) as usize;
        let mut side = Side { bins: vec![FlowBin::default(); bins], ..Side::default() };
        let mut buf = vec![0; 1 << 20];
        loop {
            // With MSG_TRUNC, TCP counts the bytes without copying them to this process.
            let read = match recv(&stream, &mut buf[..], RecvFlags::TRUNC) {
                Ok((_, n)) => Some(n),
                Err(Errno::AGAIN) => None,
                Err(e) => return Err(e).context("a stream broke off"),
            };
            let bin = side.bins.get_mut(((now_us() - start_us) / BIN_US) as usize);
            match (read, bin) {
                (None, Some(_)) => {}
                (Some(n @ 1..), Some(bin)) => {
                    bin.delivered_bytes += n as u64;
                    side.bytes += n as u64;
                }
                (Some(0), _) | (_, None) => {
                    side.cpu = sys::clock::thread_cpu_time();
                    return Ok(side);
                }
            }
        }
    }

    /// How many bytes a stream that has written `written` bytes may write at `at_us`, and the time at which the
    /// answer changes. Both times are in microseconds since the stream began.
    fn turn(&self, at_us: i64, written: u64) -> (u64, i64) {
        match self.traffic.pattern {
            Pattern::Bulk => (u64::MAX, i64::MAX),
            Pattern::Limited { rate_bps } => {
                let (bytes, every_us) = Pattern::chunk(rate_bps);
                let chunks = at_us / every_us as i64 + 1;
                (chunks as u64 * bytes - written, chunks * every_us as i64)
            }
            Pattern::OnOff { on_ms, off_ms } => {
                let (on_us, round_us) = (on_ms as i64 * 1000, (on_ms + off_ms) as i64 * 1000);
                let start_us = at_us / round_us * round_us;
                match at_us - start_us < on_us {
                    true => (u64::MAX, start_us + on_us),
                    false => (0, start_us + round_us),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(pattern: Pattern, at_us: i64, written: u64) -> (u64, i64) {
        let to = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
        let traffic = Traffic { pattern, ..Traffic::bulk(3) };
        Streams { to, cc: "cubic", traffic: &traffic, before: 0 }.turn(at_us, written)
    }

    #[test]
    fn a_stream_that_pauses_writes_in_turns() {
        let pattern = Pattern::OnOff { on_ms: 1000, off_ms: 500 };
        for (at_us, expected) in [
            (0, (u64::MAX, 1_000_000)),
            (999_999, (u64::MAX, 1_000_000)),
            (1_000_000, (0, 1_500_000)),
            (1_500_000, (u64::MAX, 2_500_000)),
            (2_600_000, (0, 3_000_000)),
        ] {
            assert_eq!(turn(pattern, at_us, 12_345), expected, "{at_us}");
        }
    }

    #[test]
    fn a_limited_stream_writes_a_chunk_at_a_time_and_catches_up() {
        let pattern = Pattern::Limited { rate_bps: 8_000_000 };
        for (at_us, written, expected) in [
            (0, 0, (10_000, 10_000)),
            (0, 4_000, (6_000, 10_000)),
            (9_999, 10_000, (0, 10_000)),
            (10_000, 10_000, (10_000, 20_000)),
            (35_000, 10_000, (30_000, 40_000)),
        ] {
            assert_eq!(turn(pattern, at_us, written), expected, "{at_us} us, {written} bytes");
        }
        assert_eq!(turn(Pattern::Bulk, 0, 1 << 40).0, u64::MAX);
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
        let side = |bins: Vec<FlowBin>, bytes| Side {
            bins,
            bytes,
            mss: 1000,
            cc: "cubic".into(),
            cpu: Duration::from_millis(30),
        };
        let pair = || {
            let sent = side((0..30).map(|_| bin(12_000, 2, 0)).collect(), 300_000);
            (sent, side((0..30).map(|_| bin(0, 0, 9_000)).collect(), 270_000))
        };
        let to = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
        let traffic = Traffic { streams: 2, ..Traffic::bulk(3) };
        let streams = Streams { to, cc: "cubic", traffic: &traffic, before: 0 };
        let load = load::parse(&json(vec![pair(), pair()], streams.length_us() as u64)).unwrap();
        assert_eq!(load.judge("cubic"), Ok(()));
        assert_eq!((load.sent_bytes, load.received_bytes), (600_000, 540_000));
        assert_eq!((load.retransmits, load.mss_bytes), (Some(120), Some(1000)));
        assert_eq!((load.sent.len(), load.received.len()), (30, 30));
        assert_eq!((load.sender_cpu_percent, load.receiver_cpu_percent), (Some(2.0), Some(2.0)));
        assert!(load.sent.iter().all(|i| i.bytes() == 20_000 && i.srtt_us == [20_000, 20_000]));
        assert!(load.received.iter().all(|i| i.bytes() == 18_000));
    }
}
