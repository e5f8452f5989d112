//! A flood of UDP datagrams over a wire: each sender sends as fast as it can, and what its receiver gets is counted.
//! `cell/wire.rs` calls this.

use crate::emu::Netns;
use crate::load::streams::{self, BIN_US, Side};
use crate::observe::probe::now_us;
use crate::plan::traffic::Traffic;
use crate::sys;
use anyhow::{Context, Result};
use headway_cc::sim::FlowBin;
use rustix::net::sockopt;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// What may wait in a receiver's socket: the time for which the scheduler may hold its thread up.
const RECEIVE_BUFFER: usize = 4 << 20;

#[derive(Debug)]
pub struct Flood<'a> {
    pub to: Ipv4Addr,
    pub bytes: u32,
    /// What `load.json` says of the controller, of which datagrams have none.
    pub cc: &'a str,
    pub traffic: &'a Traffic,
}

/// A UDP socket that sends to this address, and receives only from it.
pub(super) fn socket_to(to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    Ok(socket)
}

impl Flood<'_> {
    /// Sends from `near` to `far` until the time is over; the text of `load.json`.
    pub fn run(&self, near: &Netns, far: &Netns) -> Result<String> {
        let open = |_| {
            let receiver = far.enter(|| UdpSocket::bind((self.to, 0))).context("cannot open a UDP socket")?;
            // Where it is refused, the socket has the usual buffer.
            let _ = sockopt::set_socket_recv_buffer_size(&receiver, RECEIVE_BUFFER);
            receiver.set_read_timeout(Some(Duration::from_micros(BIN_US as u64)))?;
            let to = receiver.local_addr()?;
            let sender = near.enter(|| socket_to(to)).context("cannot open a UDP socket")?;
            Ok((sender, receiver))
        };
        let pairs = (0..self.traffic.streams).map(open).collect::<Result<Vec<_>>>()?;
        let start_us = now_us();
        let send = |socket| self.send(&socket, start_us);
        let receive = |socket| self.receive(&socket, start_us);
        Ok(streams::json(streams::both_ends(pairs, &send, &receive)?, self.length_us() as u64))
    }

    fn length_us(&self) -> i64 {
        i64::from(self.traffic.seconds) * 1_000_000
    }

    fn empty_side(&self) -> Side {
        let bins = vec![FlowBin::default(); (self.length_us() / BIN_US) as usize];
        Side { bins, mss: self.bytes, cc: self.cc.to_string(), ..Side::default() }
    }

    fn send(&self, socket: &UdpSocket, start_us: i64) -> Result<Side> {
        let payload = vec![0; self.bytes as usize];
        let mut side = self.empty_side();
        while let Some(bin) = side.bins.get_mut(((now_us() - start_us) / BIN_US) as usize) {
            match socket.send(&payload) {
                Ok(n) => {
                    bin.sent_bytes += n as u64;
                    side.bytes += n as u64;
                }
                // A card whose queue is full, which the kernel says or not; it has room again soon.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => std::thread::yield_now(),
                Err(e) => return Err(e).context("sending a datagram"),
            }
        }
        side.cpu = sys::clock::thread_cpu_time();
        Ok(side)
    }

    fn receive(&self, socket: &UdpSocket, start_us: i64) -> Result<Side> {
        let mut side = self.empty_side();
        let mut buffer = vec![0; self.bytes as usize];
        loop {
            let received = match socket.recv(&mut buffer) {
                Ok(n) => n as u64,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
                Err(e) => return Err(e).context("receiving datagrams"),
            };
            let Some(bin) = side.bins.get_mut(((now_us() - start_us) / BIN_US) as usize) else {
                side.cpu = sys::clock::thread_cpu_time();
                return Ok(side);
            };
            bin.delivered_bytes += received;
            side.bytes += received;
        }
    }
}
