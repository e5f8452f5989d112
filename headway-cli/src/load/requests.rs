//! Requests and answers over a wire: each client sends 64 bytes, waits for 64 bytes, and sends again. How long each answer took
//! is counted to the nanosecond, because a request over loopback takes some ten microseconds. `cell/wire.rs` calls this.

use crate::emu::Netns;
use crate::load::flood;
use crate::load::streams::{self, BIN_US, Side};
use crate::plan::traffic::{Carrier, Traffic};
use crate::raw::requests::Times;
use crate::sys;
use anyhow::{Context, Result, anyhow};
use headway_cc::sim::FlowBin;
use rustix::net::sockopt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of a request and of an answer.
const BYTES: usize = 64;
/// An answer that has not come by then is lost, and the client asks again.
const LOST: Duration = Duration::from_millis(200);

/// The load of all clients.
#[derive(Debug)]
pub struct Requests<'a> {
    pub to: SocketAddrV4,
    /// The controller's name in the kernel, for TCP.
    pub cc: &'a str,
    pub carrier: Carrier,
    pub traffic: &'a Traffic,
}

/// The client's end of one connection.
enum Client {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Requests<'_> {
    /// Asks from `near`, answers at `far`; the text of `load.json`, which counts the answers, and how long they took.
    pub fn run(&self, near: &Netns, far: &Netns) -> Result<(String, Times)> {
        let stop = AtomicBool::new(false);
        let waker =
            near.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).context("cannot open a UDP socket")?;
        std::thread::scope(|s| {
            let clients = match self.carrier {
                Carrier::Tcp => {
                    let listener =
                        far.enter(|| TcpListener::bind(self.to)).context("cannot listen at the far end")?;
                    let mut clients = Vec::new();
                    for _ in 0..self.traffic.streams {
                        clients.push(Client::Tcp(near.enter(|| self.connect())?));
                        let server = listener.accept().context("accepting a client")?.0;
                        server.set_nodelay(true)?;
                        s.spawn(move || answer_tcp(server));
                    }
                    clients
                }
                Carrier::Udp => {
                    let server =
                        far.enter(|| UdpSocket::bind(self.to)).context("cannot listen at the far end")?;
                    server.set_read_timeout(Some(LOST))?;
                    let open = || -> io::Result<_> {
                        let socket = flood::socket_to(SocketAddr::V4(self.to))?;
                        socket.set_read_timeout(Some(LOST))?;
                        Ok(Client::Udp(socket))
                    };
                    let open = |_| near.enter(open).context("cannot open a UDP socket");
                    let clients = (0..self.traffic.streams).map(open).collect::<Result<Vec<_>>>()?;
                    // It answers until it is told to stop, so nothing may fail between here and that.
                    let stop = &stop;
                    s.spawn(move || answer_udp(&server, stop));
                    clients
                }
            };
            let start_ns = sys::clock::monotonic_ns();
            let threads: Vec<_> =
                clients.into_iter().map(|client| s.spawn(move || self.ask(client, start_ns))).collect();
            let done: Vec<Result<(Side, Times)>> = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow!("a client crashed"))?)
                .collect();
            stop.store(true, Ordering::Relaxed);
            if self.carrier == Carrier::Udp {
                // The server looks for the end only when it has received something or waited for long.
                let _ = waker.send_to(&[], self.to);
            }
            let (mut sides, mut times) = (Vec::new(), Times::default());
            for client in done {
                let (side, its) = client?;
                times.add(&its);
                // What was answered is what was asked.
                sides.push((Side { cpu: Duration::ZERO, ..side.clone() }, side));
            }
            Ok((streams::json(sides, self.length_ns() / 1000), times))
        })
    }

    fn length_ns(&self) -> u64 {
        u64::from(self.traffic.seconds) * 1_000_000_000
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::from(streams::connect(self.to, self.cc)?);
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// One client: asks until the time is over. Answers after the warm-up count as times.
    fn ask(&self, mut client: Client, start_ns: u64) -> Result<(Side, Times)> {
        let bins = self.length_ns() / 1000 / BIN_US as u64;
        let mut side =
            Side { bins: vec![FlowBin::default(); bins as usize], mss: BYTES as u32, ..Side::default() };
        let (mut times, mut number) = (Times::default(), 0u64);
        let warm_ns = self.traffic.warmup_ms * 1_000_000;
        loop {
            let asked_ns = sys::clock::monotonic_ns() - start_ns;
            if asked_ns >= self.length_ns() {
                side.cc = match &client {
                    Client::Tcp(stream) => {
                        let name = sockopt::tcp_congestion(stream).context("which controller is it?")?;
                        name.trim_end_matches('\0').to_string()
                    }
                    Client::Udp(_) => self.cc.to_string(),
                };
                side.cpu = sys::clock::thread_cpu_time();
                return Ok((side, times));
            }
            number += 1;
            let is_answered = client.exchange(number)?;
            let at_ns = sys::clock::monotonic_ns() - start_ns;
            if asked_ns >= warm_ns {
                times.count(is_answered.then_some(at_ns - asked_ns));
            }
            if let Some(bin) =
                side.bins.get_mut((at_ns / 1000) as usize / BIN_US as usize).filter(|_| is_answered)
            {
                bin.delivered_bytes += BYTES as u64;
                bin.sent_bytes += BYTES as u64;
                side.bytes += BYTES as u64;
            }
        }
    }
}

impl Client {
    /// One request; whether its answer came.
    fn exchange(&mut self, number: u64) -> Result<bool> {
        let mut request = [0; BYTES];
        request[..8].copy_from_slice(&number.to_be_bytes());
        let mut answer = [0; BYTES];
        match self {
            Self::Tcp(stream) => {
                stream.write_all(&request).context("a connection broke off")?;
                stream.read_exact(&mut answer).context("a connection broke off")?;
            }
            Self::Udp(socket) => {
                // A datagram that a full queue refuses counts as lost; so does an answer that does not come.
                let _ = socket.send(&request);
                loop {
                    match socket.recv(&mut answer) {
                        // An answer that was given up may come yet.
                        Ok(_) if answer[..8] != request[..8] => {}
                        Ok(_) => break,
                        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                            return Ok(false);
                        }
                        Err(e) => return Err(e).context("waiting for an answer"),
                    }
                }
            }
        }
        Ok(true)
    }
}

/// Answers until the client closes.
fn answer_tcp(mut stream: TcpStream) {
    let mut request = [0; BYTES];
    while stream.read_exact(&mut request).is_ok() && stream.write_all(&request).is_ok() {}
}

fn answer_udp(socket: &UdpSocket, stop: &AtomicBool) {
    let mut request = [0; BYTES];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((n, client)) = socket.recv_from(&mut request) {
            let _ = socket.send_to(&request[..n], client);
        }
    }
}
